// ir/verify.cpp -- is a module well formed? Also which index bounds are left to be checked at run
// time.
#include "base/check.h"
#include "ir/infer.h"
#include "ir/placement.h"
#include "ir/text_names.h"
#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <set>

namespace luminal {
namespace {

class Verifier {
public:
  explicit Verifier(const Module& module) : module_(module) {}

  std::vector<std::string> run() {
    symbols();
    if (module_.functions.empty()) mistake("the module has no function");
    std::set<std::string> names;
    for (const Function& f : module_.functions) {
      if (!is_plain_name(f.name)) mistake("'{}' is not a name of a function", f.name);
      if (!names.insert(f.name).second) mistake("function @{} exists twice", f.name);
      before_.functions.reserve(module_.functions.size());
      function(f);
      if (&f != &module_.functions.back()) before_.functions.push_back(f); // later functions may call it
    }
    return std::move(mistakes_);
  }

private:
  template <class... Args> void mistake(fmt::format_string<Args...> text, Args&&... args) {
    mistakes_.push_back(fmt::format(text, std::forward<Args>(args)...));
  }

  void symbols() {
    std::set<std::string_view> names;
    for (Expr s : module_.symbols) {
      if (!s.is_symbol()) {
        mistake("symbol {} is an expression", to_string(s));
        continue;
      }
      if (!is_axis_name(s.name())) mistake("'{}' cannot name a symbol", s.name());
      if (!names.insert(s.name()).second) mistake("symbol {} exists twice", s.name());
    }
    before_.symbols = module_.symbols;
    before_.assumptions = module_.assumptions;
    for (Expr e : module_.assumptions) {
      if (!e.is_condition()) mistake("the assumption {} is not a condition", to_string(e));
      dimensions(e, {}, 0, "an assumption");
    }
  }
  /// Every symbol of `e` is an axis, a hole, or a symbol of the module.
  void dimensions(Expr e, const Shape& space, size_t holes, const std::string& where) {
    for (Expr s : symbols_of(e)) {
      if (std::find(module_.symbols.begin(), module_.symbols.end(), s) != module_.symbols.end()) continue;
      bool index = !is_axis_name(s.name()) &&
                   (s.name()[0] == 'i' ? !space.empty() : holes > 0); // which one: infer_types
      if (!index)
        mistake("{} reads {}, which is not a symbol of the module with range {}..{}", where, s.name(),
                s.range().low, s.range().high);
    }
  }

  void function(const Function& f) {
    std::vector<NodeId> params;
    IdVector<NodeId, std::string> names = node_names(f);
    for (NodeId id : f.nodes.ids()) {
      const Node& node = f.nodes[id];
      if (node.kind == NodeKind::input) params.push_back(id);
      if (!node_is_sound(f, id, fmt::format("@{} {}", f.name, names[id])))
        return; // what follows would read nonsense
    }
    std::set<NodeId> listed(f.params.begin(), f.params.end());
    if (listed != std::set<NodeId>(params.begin(), params.end()) || f.params.size() != params.size())
      mistake("@{}: its parameters are not its inputs", f.name);
    std::set<std::string> input_names;
    for (NodeId p : params)
      if (!input_names.insert(std::get<InputAttr>(f[p].attr).name).second)
        mistake("@{}: input '{}' exists twice", f.name, std::get<InputAttr>(f[p].attr).name);
    const size_t before = mistakes_.size();
    results(f);
    if (mistakes_.size() == before) devices(f);
  }

  bool node_is_sound(const Function& f, NodeId id, const std::string& where) {
    const Node& node = f.nodes[id];
    size_t before = mistakes_.size();
    if (kind_of(node.attr) != node.kind)
      mistake("{}: a {} with attributes of {}", where, to_string(node.kind), to_string(kind_of(node.attr)));
    std::vector<TensorType> types;
    for (NodeId input : node.inputs) {
      if (input >= id) {
        mistake("{}: input {} does not come before it", where, input);
        return false;
      }
      const Node& x = f.nodes[input];
      if (node.kind == NodeKind::get && x.is_tuple())
        types = x.types;
      else if (x.is_tuple() || node.kind == NodeKind::get)
        mistake("{}: the results of a tuple are read by get, and by nothing else", where);
      else
        types.push_back(x.type());
    }
    if (mistakes_.size() != before) return false;
    try {
      if (infer_or_throw(node.attr, types, &before_) != node.types)
        mistake("{}: [{}] its types are not those of its inputs", where, operation_name(node.attr));
    } catch (const TermMistake& m) {
      mistake("{}: [{}] {}", where, m.operation, m.text);
      return false;
    } catch (const Error& error) {
      mistake("{}: {}", where, error.what());
      return false;
    }
    if (!node.axis_names.empty() && node.axis_names.size() != expression_space(f, node).size())
      mistake("{}: {} axis names", where, node.axis_names.size());
    expressions(f, node, where);
    monoid(f, node, where);
    return mistakes_.size() == before;
  }
  void expressions(const Function& f, const Node& node, const std::string& where) {
    const Shape space = expression_space(f, node);
    const size_t holes = holes_of(node.attr).size();
    for (const TensorType& t : node.types)
      for (Expr e : t.shape) dimensions(e, {}, 0, where);
    auto all = [&](const std::vector<Expr>& list) {
      for (Expr e : list) dimensions(e, space, holes, where);
    };
    if (auto* view = std::get_if<ViewAttr>(&node.attr)) all(view->map), all({view->predicate});
    if (auto* scatter = std::get_if<ScatterAttr>(&node.attr)) all(scatter->map), all({scatter->predicate});
    if (auto* fold = std::get_if<FoldAttr>(&node.attr)) all(fold->space), all({fold->where});
    if (auto* scan = std::get_if<ScanAttr>(&node.attr)) all(scan->space);
    if (auto* iota = std::get_if<IotaAttr>(&node.attr)) all({iota->value});
    if (auto* random = std::get_if<RandomAttr>(&node.attr)) all({random->counter});
    if (auto* loop = std::get_if<LoopAttr>(&node.attr)) dimensions(loop->count, {}, 0, where);
    if (auto* custom = std::get_if<CustomAttr>(&node.attr))
      for (Expr e : custom->grid) dimensions(e, {}, 0, where);
  }

  /// The value of a body that is the same scalar everywhere.
  static std::optional<double> constant_body(const Function& f, NodeId id) {
    const Node* node = &f[id];
    while (node->kind == NodeKind::view && std::get<ViewAttr>(node->attr).predicate.is_constant(1))
      node = &f[node->inputs[0]];
    auto* constant = std::get_if<ConstantAttr>(&node->attr);
    if (!constant || !constant->type.shape.empty()) return {};
    return load_f64(constant->type.dtype, constant->data->data(), 0);
  }
  void monoid(const Function& f, const Node& node, const std::string& where) {
    const Monoid* m = nullptr;
    if (auto* fold = std::get_if<FoldAttr>(&node.attr)) m = &fold->monoid;
    if (auto* scan = std::get_if<ScanAttr>(&node.attr)) m = &scan->monoid;
    if (!m) return;
    bool plain = true;
    for (const MonoidComponent& c : m->components()) plain &= c.transform.is_leaf(0);
    if (plain) return;
    std::vector<std::optional<double>> bodies;
    for (int c = 0; c < m->size(); ++c) bodies.push_back(constant_body(f, node.inputs[size_t(c)]));
    std::string key = fmt::format("{} |", to_string(*m));
    for (auto& b : bodies) key += b ? fmt::format(" {}", *b) : " .";
    auto [at, fresh] = laws_.try_emplace(key);
    if (fresh) at->second = broken_law(*m, bodies);
    if (at->second) mistake("{}: [{}] this is not a monoid: {}", where, to_string(node.kind), *at->second);
  }
  /// Some monoids are monoids on the states that elements make only (sorted lists): bodies that may
  /// be partial states are tried as elements, too. The laws hold for finite elements; at the ends
  /// of a type (all elements masked) the value is what a fold from the identity gives. So an
  /// infinite constant is held to them as it stands, and else as any body is whose values are not
  /// known.
  static std::optional<std::string> broken_law(const Monoid& m,
                                               const std::vector<std::optional<double>>& bodies) {
    auto first = check_monoid_laws(m, 8, bodies);
    if (auto finite = bodies; first) {
      for (auto& body : finite)
        if (body && !std::isfinite(*body)) body.reset();
      if (finite != bodies) return broken_law(m, finite);
    }
    std::vector<size_t> lists; // components that may be places of a list
    for (size_t c = 1; c < bodies.size() && lists.size() < 4; ++c)
      if (const Op op = m.components()[c].op; (op == Op::max || op == Op::min) && !bodies[c])
        lists.push_back(c);
    for (size_t subset = 1; first && subset < size_t(1) << lists.size(); ++subset) {
      auto fixed = bodies;
      for (size_t k = 0; k < lists.size(); ++k)
        if (subset >> k & 1) fixed[lists[k]] = m.identity(int(lists[k]));
      if (!check_monoid_laws(m, 8, fixed)) return {};
    }
    return first;
  }

  /// No node takes inputs from two devices; only the entry moves values.
  void devices(const Function& f) {
    if (&f != &module_.entry()) {
      for (const Node& node : f.nodes) {
        const auto* input = std::get_if<InputAttr>(&node.attr);
        const auto* fence = std::get_if<FenceAttr>(&node.attr);
        if ((input && !input->device.empty()) || (fence && !fence->device.empty()))
          return mistake("@{}: only the entry function names devices", f.name);
      }
      return;
    }
    Placement placement;
    const auto nodes = [&](NodeId id) -> const Node& { return f[id]; };
    placement.extend(f.nodes.end_id(), nodes);
    for (NodeId id : f.nodes.ids())
      if (placement.of[id] == Placement::nowhere)
        return mistake("@{}: [{}] {}", f.name, operation_name(f[id].attr), placement.conflict(id, nodes));
    for (const FunctionResult& r : f.results)
      for (NodeId p : f.params)
        if (const auto& input = std::get<InputAttr>(f[p].attr); !r.state.empty() && input.name == r.state)
          if (const int place = placement.of[r.value];
              place != placement.of[p] && place != Placement::anywhere)
            mistake("@{}: result '{}' does not lie where its state '{}' does", f.name, r.name, r.state);
  }

  void results(const Function& f) {
    if (f.results.empty()) mistake("@{} has no result", f.name);
    std::map<std::string, const FunctionResult*> by_name;
    std::set<std::string> states;
    for (const FunctionResult& r : f.results) {
      if (r.name.empty()) mistake("@{}: a result without a name", f.name);
      if (!by_name.emplace(r.name, &r).second) mistake("@{}: result '{}' exists twice", f.name, r.name);
      if (!f.nodes.has(r.value)) {
        mistake("@{}: result '{}' is node {}, which does not exist", f.name, r.name, r.value);
        return;
      }
      if (f[r.value].is_tuple()) mistake("@{}: result '{}' is a tuple", f.name, r.name);
      if (!r.state.empty()) state(f, r, states);
    }
    for (const FunctionResult& r : f.results)
      for (const std::string& name : r.after)
        if (!by_name.contains(name))
          return mistake("@{}: result '{}' comes after '{}', which is not a result", f.name, r.name, name);
    order(f);
  }
  /// `after` must leave an order: results are taken away once all those before them are gone.
  void order(const Function& f) {
    std::map<std::string_view, std::vector<std::string_view>> followers;
    std::map<std::string_view, size_t> waiting;
    std::vector<std::string_view> ready;
    for (const FunctionResult& r : f.results) {
      waiting[r.name] = r.after.size();
      if (r.after.empty()) ready.push_back(r.name);
      for (const std::string& before : r.after) followers[before].push_back(r.name);
    }
    for (size_t done = 0; done < ready.size(); ++done)
      for (std::string_view next : followers[ready[done]])
        if (--waiting[next] == 0) ready.push_back(next);
    if (ready.size() < waiting.size())
      for (const FunctionResult& r : f.results)
        if (waiting[r.name] > 0)
          return mistake("@{}: result '{}' comes after itself, or after one that does", f.name, r.name);
  }
  void state(const Function& f, const FunctionResult& r, std::set<std::string>& states) {
    if (!states.insert(r.state).second) mistake("@{}: state '{}' is written twice", f.name, r.state);
    for (NodeId p : f.params) {
      const auto& input = std::get<InputAttr>(f[p].attr);
      if (input.name != r.state) continue;
      if (input.role != Role::state)
        mistake("@{}: result '{}' writes '{}', which is not a state", f.name, r.name, r.state);
      const TensorType& have = f[r.value].type();
      if (have.dtype != input.type.dtype || !same_shape(have.shape, input.type.shape, module_.assumptions))
        mistake("@{}: result '{}' is {}, its state '{}' is {}", f.name, r.name, to_string(have), r.state,
                to_string(input.type));
      return;
    }
    mistake("@{}: result '{}' writes state '{}', which does not exist", f.name, r.name, r.state);
  }
  const Module& module_;
  Module before_; // symbols, assumptions, and the functions that may be called
  std::vector<std::string> mistakes_;
  std::map<std::string, std::optional<std::string>> laws_;
};

} // namespace

std::vector<std::string> verify(const Module& module) { return Verifier(module).run(); }

std::vector<std::string> dynamic_checks(const Module& module) {
  std::vector<std::string> list;
  for (const Function& f : module.functions) {
    IdVector<NodeId, std::string> names = node_names(f);
    for (NodeId id : f.nodes.ids()) {
      const Node& node = f[id];
      if (node.kind != NodeKind::view && node.kind != NodeKind::scatter) continue;
      const Shape space = expression_space(f, node);
      for (const BoundCheck& check : bound_checks(node.attr, space, f[node.inputs[0]].type().shape, &module))
        if (in_bounds(check) != Truth::yes)
          list.push_back(fmt::format(
              "@{} {}: axis {} of {}: 0 <= {} < {}", f.name, names[id], check.axis, names[node.inputs[0]],
              expression_text(check.index, space, axis_names(f, node)), to_string(check.extent)));
    }
  }
  return list;
}

} // namespace luminal
