// ir/passes/rules.cpp -- rules: reading, finding, refusing, replacing.
#include "ir/passes/rules.h"
#include "base/check.h"
#include "ir/passes/edit.h"
#include "ir/text_names.h"
#include "luminal/error.h"
#include <algorithm>
#include <fmt/format.h>
#include <set>

namespace luminal {

std::shared_ptr<const RuleInstance> RuleData::instance(size_t rule, const TypeChoice& choice) const {
  std::lock_guard lock(cache->mutex);
  auto [at, fresh] = cache->made.try_emplace({rule, choice}, nullptr);
  if (fresh) {
    try {
      at->second = std::make_shared<const RuleInstance>(instantiate(file, file.rules[rule], choice));
    } catch (const Error&) { // an operation that this type does not have
    }
  }
  return at->second;
}

std::vector<TypeChoice> RuleData::choices(size_t rule, const std::vector<DType>& types,
                                          const std::vector<int>& ranks) const {
  const RuleHead& head = file.rules[rule];
  std::vector<TypeChoice> list{{}};
  auto extend = [&](auto&& options, auto&& set) {
    std::vector<TypeChoice> longer;
    for (const TypeChoice& c : list)
      for (const auto& option : options) {
        longer.push_back(c);
        set(longer.back(), option);
      }
    list = std::move(longer);
  };
  for (const auto& [name, allowed] : head.types) {
    std::vector<DType> options;
    for (DType t : allowed)
      if (std::find(types.begin(), types.end(), t) != types.end()) options.push_back(t);
    extend(options, [&](TypeChoice& c, DType t) { c.types[name] = t; });
  }
  for (const auto& [name, allowed] : head.ranks) {
    std::vector<int> options;
    for (int r : ranks)
      if (allowed.contains(r)) options.push_back(r);
    extend(options, [&](TypeChoice& c, int r) { c.ranks[name] = r; });
  }
  constexpr size_t most = 2000; // three types and a shape over all that a function holds
  if (list.size() > most) list.resize(most);
  return list;
}

// ---- where rules stand ----

/// One function under all rules.
class RuleWalker {
public:
  struct Place {
    size_t rule;
    std::shared_ptr<const RuleInstance> instance;
    passes::Binding binding;
    NodeId root;
    Match match;
  };

  RuleWalker(const RuleData& rules, const Module& module, const Function& f, Numerics allowed)
      : rules_(rules), module_(module), f_(f), allowed_(allowed), names_(node_names(f)) {}

  /// Places in the order of nodes; those that are refused go to `refused`.
  std::vector<Place> run(std::vector<Refusal>* refused) {
    collect();
    std::vector<Place> places;
    std::set<NodeId> taken; // nodes that an earlier place replaces or removes
    for (NodeId id : f_.nodes.ids()) {
      auto at = by_root_.find(root_key(f_[id]));
      if (at == by_root_.end()) continue;
      for (const auto& [rule, instance] : at->second) {
        auto binding = passes::match_at(*instance, rules_.file.rules[rule].commutative, module_, f_, id);
        if (!binding) continue;
        Place place{rule, instance, std::move(*binding), id, {}};
        place.match = describe(place);
        const auto reason = refusal(place);
        if (reason) {
          if (refused && !reason->empty())
            refused->push_back({place.match.rule, f_.name, names_[id], *reason});
          continue;
        }
        const std::set<NodeId> inner = removed(place);
        if (std::any_of(inner.begin(), inner.end(), [&](NodeId n) { return taken.contains(n); })) continue;
        taken.insert(inner.begin(), inner.end());
        places.push_back(std::move(place));
        break; // one rule a node
      }
    }
    return places;
  }

private:
  using Key = std::tuple<NodeKind, int, std::string, DType, size_t>;
  static Key root_key(const Node& node) {
    auto* map = std::get_if<MapAttr>(&node.attr);
    const bool typed = !node.types.empty();
    return {node.kind, map && map->user_op.empty() ? int(map->op) : -1, map ? map->user_op : "",
            typed ? node.type().dtype : DType::f32, typed ? node.type().shape.size() : 0};
  }

  void collect() {
    std::set<DType> types;
    std::set<int> ranks;
    users_.resize(f_.nodes.size());
    for (NodeId id : f_.nodes.ids()) {
      for (const TensorType& type : f_[id].types) {
        types.insert(type.dtype);
        for (int r = 0; r <= int(type.shape.size()); ++r) ranks.insert(r);
      }
      for (NodeId input : f_[id].inputs) users_[input].push_back(id);
    }
    for (size_t k = 0; k < rules_.file.rules.size(); ++k) {
      if (rules_.file.rules[k].numerics > allowed_) continue;
      for (const TypeChoice& choice :
           rules_.choices(k, {types.begin(), types.end()}, {ranks.begin(), ranks.end()}))
        if (auto instance = rules_.instance(k, choice))
          by_root_[root_key(instance->function[instance->left])].push_back({k, instance});
    }
  }

  /// Nodes of the left side that go when the right side stands: not parameters, not what the right
  /// side reads, not what depends on no parameter.
  std::set<NodeId> removed(const Place& place) const {
    const RuleInstance& r = *place.instance;
    const Function& p = r.function;
    IdVector<NodeId, bool> varies(p.nodes.size(), false), right(p.nodes.size(), false);
    for (NodeId id : p.nodes.ids()) {
      varies[id] = p[id].kind == NodeKind::input;
      for (NodeId input : p[id].inputs) varies[id] = varies[id] || varies[input];
    }
    right[r.right] = true;
    for (NodeId id : p.nodes.ids_down())
      if (right[id] && !(id <= r.left && place.binding.nodes[id]))
        for (NodeId input : p[id].inputs) right[input] = true;
    std::set<NodeId> gone{place.root};
    for (NodeId id : p.nodes.ids())
      if (place.binding.nodes[id] && p[id].kind != NodeKind::input && varies[id] &&
          (!right[id] || id == r.left))
        gone.insert(*place.binding.nodes[id]);
    return gone;
  }

  /// Why nothing is replaced here: a reason for people, an empty one where the place is simply not
  /// meant; nothing where it may be replaced.
  std::optional<std::string> refusal(const Place& place) const {
    for (Expr condition : place.instance->conditions) {
      auto e = passes::bound(condition, place.binding, {}, {});
      const Truth truth = e ? prove(*e, module_.assumptions) : Truth::unknown;
      if (truth == Truth::no) return "";
      if (truth == Truth::unknown)
        return fmt::format("{} is not proved", e ? luminal::to_string(*e) : luminal::to_string(condition));
    }
    for (const auto& predicate : rules_.predicates[place.rule])
      if (!predicate(place.match)) return "";
    if (rules_.file.rules[place.rule].shared) return {};
    const std::set<NodeId> gone = removed(place);
    for (NodeId id : gone) {
      if (id == place.root) continue;
      for (NodeId user : users_[id])
        if (!gone.contains(user)) return fmt::format("{} is read by {}, too", names_[id], names_[user]);
      for (const FunctionResult& result : f_.results)
        if (result.value == id)
          return fmt::format("{} is kept: it is result {} of @{}", names_[id], result.name, f_.name);
    }
    return {};
  }

  Match::Value value(NodeId id) const {
    Match::Value v;
    const Node& node = f_[id];
    v.name = names_[id];
    if (texts_.empty()) texts_ = node_texts(f_);
    v.text = texts_[id];
    if (node.is_tuple()) return v;
    v.dtype = node.type().dtype;
    for (Expr e : node.type().shape) v.shape.push_back(extent(e));
    NodeId c = id;
    while (f_[c].kind == NodeKind::view && std::get<ViewAttr>(f_[c].attr).predicate.is_constant(1) &&
           std::get<ViewAttr>(f_[c].attr).holes.empty())
      c = f_[c].inputs[0];
    if (f_[c].kind == NodeKind::constant && f_[c].type().shape.empty()) {
      const passes::Number number = passes::load_number(f_[c], 0);
      v.number = is_float(number.type) ? number.real : integer_to_f64(number.type, number.integer);
    }
    return v;
  }
  static Extent extent(Expr e) { return {luminal::to_string(e), e.range().low, e.range().high}; }
  Match describe(const Place& place) const {
    Match match;
    match.rule = rules_.file.rules[place.rule].name;
    match.function = f_.name;
    match.root = value(place.root);
    const Function& p = place.instance->function;
    for (NodeId id : p.nodes.ids())
      if (place.binding.nodes[id] && !p[id].name.empty())
        match.values[p[id].name] = value(*place.binding.nodes[id]);
    for (const auto& [symbol, bound] : place.binding.symbols)
      match.symbols[std::string(symbol.name())] = extent(bound);
    return match;
  }

  const RuleData& rules_;
  const Module& module_;
  const Function& f_;
  Numerics allowed_;
  IdVector<NodeId, std::string> names_;
  mutable IdVector<NodeId, std::string> texts_;
  IdVector<NodeId, std::vector<NodeId>> users_;
  std::map<Key, std::vector<std::pair<size_t, std::shared_ptr<const RuleInstance>>>> by_root_;

public:
  /// The right side put down in place of the root: its value, or why it cannot stand there.
  static std::optional<NodeId> build(passes::Rebuild& r, const Place& place, std::string& why) {
    const RuleInstance& rule = *place.instance;
    const Function& p = rule.function;
    IdVector<NodeId, bool> needed(p.nodes.size(), false);
    needed[rule.right] = true;
    for (NodeId id : p.nodes.ids_down())
      if (needed[id] && !place.binding.nodes[id])
        for (NodeId input : p[id].inputs) needed[input] = true;
    IdVector<NodeId, NodeId> made(p.nodes.size());
    for (NodeId id : p.nodes.ids()) {
      if (!needed[id]) continue;
      if (place.binding.nodes[id]) {
        made[id] = r.place(*place.binding.nodes[id]);
        continue;
      }
      const Node& node = p[id];
      const Shape values = node.kind == NodeKind::scatter ? p[node.inputs[1]].type().shape : Shape{};
      auto attr = passes::bound(node.attr, place.binding, values);
      std::vector<NodeId> inputs;
      for (NodeId input : node.inputs) inputs.push_back(made[input]);
      auto id_made = attr ? r.add(std::move(*attr), std::move(inputs), node.axis_names) : std::nullopt;
      if (!id_made) {
        why = fmt::format("the replacement's {} is not possible here", to_string(node.kind));
        return {};
      }
      made[id] = *id_made;
    }
    return made[rule.right];
  }
};

// ---- the public face ----

const Match::Value& Match::operator[](const std::string& name) const {
  auto at = values.find(name);
  if (at == values.end()) throw Error(fmt::format("[match] rule {} has no value {}", rule, name));
  return at->second;
}

int64_t RewriteReport::total() const {
  int64_t sum = 0;
  for (const auto& [_, times] : applied) sum += times;
  return sum;
}
std::string RewriteReport::to_string() const {
  std::string text;
  for (const auto& [rule, times] : applied) text += fmt::format("{}: {} replaced\n", rule, times);
  for (const Refusal& r : refused)
    text += fmt::format("{} at {} of @{}: refused: {}\n", r.rule, r.root, r.function, r.reason);
  return text;
}

namespace {

/// Shape variables that the left side binds: those that stand alone as an extent of one of its
/// nodes.
std::set<Expr, ExprLess> binding_symbols(const RuleInstance& rule) {
  std::set<Expr, ExprLess> found;
  auto take = [&](const Shape& shape) {
    for (Expr e : shape)
      if (e.is_symbol()) found.insert(e);
  };
  for (NodeId id(0); id <= rule.left; ++id) {
    const Node& node = rule.function[id];
    for (const TensorType& type : node.types) take(type.shape);
    take(expression_space(rule.function, node));
  }
  return found;
}

/// Mistakes that no choice can mend, at the first place that shows one.
void check_rule(const RuleData& data, size_t k) {
  const RuleHead& head = data.file.rules[k];
  std::vector<DType> types;
  for (int t = 0; t < dtype_count; ++t) types.push_back(DType(t));
  std::string first;
  bool possible = false;
  for (const TypeChoice& choice : data.choices(k, types, {0, 1, 2, 3})) {
    try {
      const RuleInstance instance = instantiate(data.file, head, choice);
      possible = true;
      const auto bound = binding_symbols(instance);
      std::vector<Expr> used = instance.conditions;
      for (const Node& node : instance.function.nodes)
        for (const TensorType& type : node.types)
          used.insert(used.end(), type.shape.begin(), type.shape.end());
      for (Expr s : symbols_of(used))
        if (!bound.contains(s))
          throw RuleTypeError(
              fmt::format("{}: rule {}: no extent on the left is {} alone: nothing says what it is",
                          data.file.name, head.name, s.name()));
    } catch (const RuleTypeError&) {
      throw;
    } catch (const Error& error) {
      if (first.empty()) first = error.what();
    }
  }
  if (possible) return;
  LUMINAL_CHECK(!first.empty(), "rule {}: no choice of its types is possible", head.name);
  throw Error(first);
}

} // namespace

Rules Rules::parse(std::string text, std::string file) {
  auto data = std::make_shared<RuleData>();
  data->file = parse_rule_file(std::move(text), std::move(file));
  data->predicates.resize(data->file.rules.size());
  for (size_t k = 0; k < data->file.rules.size(); ++k) check_rule(*data, k);
  return Rules(data);
}
std::vector<std::string> Rules::names() const {
  std::vector<std::string> list;
  for (const RuleHead& head : data_->file.rules) list.push_back(head.name);
  return list;
}
const std::string& Rules::to_string() const { return data_->file.text; }
Rules Rules::when(const std::string& rule, std::function<bool(const Match&)> predicate) const {
  auto data = std::make_shared<RuleData>(*data_);
  for (size_t k = 0; k < data->file.rules.size(); ++k)
    if (data->file.rules[k].name == rule) {
      data->predicates[k].push_back(std::move(predicate));
      return Rules(data);
    }
  throw Error(fmt::format("[rules] there is no rule {}", rule));
}

std::vector<Match> Rules::find(const Module& module, std::vector<Refusal>* refused) const {
  std::vector<Match> list;
  for (const Function& f : module.functions)
    for (RuleWalker::Place& place : RuleWalker(*data_, module, f, Numerics::range).run(refused))
      list.push_back(std::move(place.match));
  return list;
}

Pass Rules::pass(std::string name, Numerics allowed, std::shared_ptr<RewriteReport> report) const {
  std::string description = "rules:";
  for (const std::string& rule : names()) description += " " + rule;
  return Pass(std::move(name), description, [data = data_, allowed, report](Module& module) {
    int64_t changes = 0;
    for (Function& f : module.functions) {
      std::vector<Refusal> refused;
      const std::vector<RuleWalker::Place> places = RuleWalker(*data, module, f, allowed).run(&refused);
      std::map<NodeId, const RuleWalker::Place*> by_root;
      for (const auto& place : places) by_root[place.root] = &place;
      const IdVector<NodeId, std::string> names = node_names(f);
      const std::string function = f.name;
      std::map<std::string, int64_t> applied;
      if (!places.empty())
        passes::Rebuild::walk(f, &module, [&](passes::Rebuild& r, Node node) -> NodeId {
          auto at = by_root.find(r.current());
          if (at == by_root.end()) return r.put(std::move(node));
          std::string why;
          auto id = RuleWalker::build(r, *at->second, why);
          if (id && !(r.type(*id) == node.type())) {
            why = fmt::format("the replacement is {}, {} is {}", luminal::to_string(r.type(*id)),
                              names[at->first], luminal::to_string(node.type()));
            id.reset();
          }
          if (!id) {
            refused.push_back({at->second->match.rule, function, names[at->first], why});
            return r.put(std::move(node));
          }
          ++applied[at->second->match.rule];
          ++r.changes;
          return *id;
        });
      for (const auto& [rule, times] : applied) {
        changes += times;
        if (report) report->applied[rule] += times;
      }
      if (report) report->refused.insert(report->refused.end(), refused.begin(), refused.end());
    }
    if (changes > 0)
      if (const auto mistakes = verify(module); !mistakes.empty())
        LUMINAL_CHECK(false, "rules: the module is not well formed after the replacement: {}", mistakes[0]);
    return changes;
  });
}

} // namespace luminal
