// tests/ir/shrink.h -- makes a module that fails small: results and nodes go, values become inputs,
// extents shrink, data become plain, while it still fails.
#pragma once
#include "ir/naive_interp.h"
#include "ir/random_inputs.h"
#include "luminal/error.h"
#include <cmath>
#include <fmt/format.h>
#include <functional>
#include <optional>
#include <regex>
#include <set>
#include <string>

namespace luminal::testing_ir {

struct Failing {
  Module module;
  Bindings bindings;
};

class Shrinker {
public:
  /// `fails` is asked about valid modules only: verified, and the naive interpreter gives values.
  Shrinker(Failing start, std::function<bool(const Failing&)> fails, int most_tries = 400)
      : best_(std::move(start)), fails_(std::move(fails)), tries_(most_tries) {}

  Failing run() {
    for (bool better = true; better && tries_ > 0;) {
      better = one_result();
      better |= fewer_nodes();
      better |= smaller_numbers();
      better |= plainer_inputs();
    }
    return best_;
  }

private:
  bool attempt(Failing candidate) {
    if (tries_ <= 0) return false;
    try {
      if (!verify(candidate.module).empty()) return false;
      (void)interpret_naively(candidate.module, candidate.bindings);
    } catch (const std::exception&) {
      return false;
    }
    --tries_;
    if (!fails_(candidate)) return false;
    best_ = std::move(candidate);
    return true;
  }

  bool one_result() {
    bool any = false;
    for (size_t k = best_.module.entry().results.size();
         k-- > 0 && best_.module.entry().results.size() > 1;) {
      std::set<size_t> dropped{k};
      any |= attempt(rebuilt(dropped, {}, {}));
    }
    return any;
  }

  /// A node becomes one of its inputs, or an input of its value.
  bool fewer_nodes() {
    bool any = false;
    for (NodeId id : best_.module.entry().nodes.ids_down()) {
      if (!best_.module.entry().nodes.has(id)) continue;
      const Node node = best_.module.entry()[id];
      if (node.kind == NodeKind::input || node.types.size() != 1 || node.is_tuple()) continue;
      bool gone = false;
      try {
        for (NodeId input : node.inputs)
          if (!gone && !best_.module.entry()[input].is_tuple() &&
              best_.module.entry()[input].type() == node.type())
            gone = attempt(rebuilt({}, {{id, input}}, {}));
        if (!gone && node.kind != NodeKind::constant) gone = attempt(rebuilt({}, {}, {id}));
      } catch (const std::exception&) {
      }
      any |= gone;
    }
    return any;
  }

  /// The entry without some results; nodes replaced by others, or by inputs of their values.
  Failing rebuilt(const std::set<size_t>& dropped, const std::map<NodeId, NodeId>& aliases,
                  const std::set<NodeId>& cut) const {
    const Function& f = best_.module.entry();
    Failing next;
    next.module.symbols = best_.module.symbols;
    next.module.assumptions = best_.module.assumptions;
    next.module.functions.assign(best_.module.functions.begin(), best_.module.functions.end() - 1);
    next.module.functions.reserve(next.module.functions.size() + 1);
    next.bindings.symbols = best_.bindings.symbols;
    std::map<NodeId, HostTensor> values;
    for (NodeId id : cut) values[id] = value_of(id);
    IdVector<NodeId, bool> needed(f.nodes.size());
    std::vector<size_t> results;
    for (size_t k = 0; k < f.results.size(); ++k)
      if (!dropped.contains(k)) results.push_back(k), needed[f.results[k].value] = true;
    for (NodeId id : f.nodes.ids_down()) {
      if (!needed[id]) continue;
      if (aliases.contains(id))
        needed[aliases.at(id)] = true;
      else if (!cut.contains(id))
        for (NodeId input : f[id].inputs) needed[input] = true;
    }
    FunctionBuilder b(f.name, &next.module);
    std::map<NodeId, NodeId> made;
    for (NodeId id : f.nodes.ids()) {
      if (!needed[id]) continue;
      if (aliases.contains(id)) {
        made[id] = made.at(aliases.at(id));
        continue;
      }
      if (cut.contains(id)) {
        std::string name = fmt::format("v{}", id);
        while (best_.bindings.inputs.contains(name)) name += "_";
        made[id] = b.input(name, f[id].type());
        next.bindings.inputs[name] = values[id];
        continue;
      }
      std::vector<NodeId> inputs;
      for (NodeId input : f[id].inputs) inputs.push_back(made.at(input));
      made[id] = f[id].kind == NodeKind::get ? b.get(inputs[0], std::get<GetAttr>(f[id].attr).index)
                                             : b.add(f[id].attr, inputs);
      if (auto* input = std::get_if<InputAttr>(&f[id].attr))
        next.bindings.inputs[input->name] = best_.bindings.inputs.at(input->name);
    }
    for (size_t k : results) b.result(f.results[k].name, made.at(f.results[k].value));
    next.module.functions.push_back(b.finish());
    drop_unused_functions(next.module);
    return next;
  }
  static void drop_unused_functions(Module& module) {
    std::set<std::string> used{module.entry().name};
    std::vector<Function> kept;
    for (size_t k = module.functions.size(); k-- > 0;) {
      if (!used.contains(module.functions[k].name)) continue;
      for (const Node& n : module.functions[k].nodes) {
        if (auto* a = std::get_if<CallAttr>(&n.attr)) used.insert(a->function);
        if (auto* a = std::get_if<CondAttr>(&n.attr)) used.insert({a->then_function, a->else_function});
        if (auto* a = std::get_if<LoopAttr>(&n.attr)) used.insert({a->body, a->condition});
      }
      kept.insert(kept.begin(), module.functions[k]);
    }
    module.functions = kept;
  }
  HostTensor value_of(NodeId id) const {
    Module m = best_.module;
    m.functions.back().results = {{"value", id, "", {}}};
    return interpret_naively(m, best_.bindings).at("value");
  }

  /// Numbers of the text, each everywhere at once, and dimensions; inputs are cut to their new
  /// extents.
  bool smaller_numbers() {
    bool any = false;
    const std::string text = to_string(best_.module);
    std::set<int64_t> numbers;
    const std::regex integer("\\b[0-9]+\\b");
    for (std::sregex_iterator at(text.begin(), text.end(), integer), end; at != end; ++at)
      if (at->str().size() < 7) numbers.insert(std::stoll(at->str()));
    for (auto n = numbers.rbegin(); n != numbers.rend(); ++n)
      for (int64_t less : {*n / 2, *n - 1})
        if (*n >= 2 && with_text(std::regex_replace(to_string(best_.module),
                                                    std::regex("\\b" + std::to_string(*n) + "\\b"),
                                                    std::to_string(less)),
                                 best_.bindings.symbols)) {
          any = true;
          break;
        }
    for (const auto& [name, size] : std::map(best_.bindings.symbols))
      for (int64_t less : {size / 4, size / 2, size - 1}) {
        auto symbols = best_.bindings.symbols;
        symbols[name] = less;
        if (less >= 0 && less < size && with_text(to_string(best_.module), symbols)) {
          any = true;
          break;
        }
      }
    return any;
  }
  bool with_text(const std::string& text, const std::map<std::string, int64_t>& symbols) {
    try {
      Failing next{parse_module(text, "smaller"), {}};
      ExprMap<int64_t> sizes;
      for (Expr s : next.module.symbols) {
        const int64_t v = symbols.at(std::string(s.name()));
        if (!s.range().contains(v)) return false;
        next.bindings.symbols[std::string(s.name())] = sizes[s] = v;
      }
      for (NodeId id : next.module.entry().params) {
        const auto& input = std::get<InputAttr>(next.module.entry()[id].attr);
        const HostTensor& old = best_.bindings.inputs.at(input.name);
        HostTensor t{old.dtype, {}, {}};
        for (Expr e : input.type.shape) t.shape.push_back(*evaluate(e, sizes));
        if (t.shape.size() != old.shape.size() || t.dtype != input.type.dtype) return false;
        t.data.resize(size_t(storage_bytes(t.dtype, t.count())));
        for (int64_t i = 0; i < t.count(); ++i) {
          int64_t rest = i, from = 0, stride = 1;
          for (size_t d = t.shape.size(); d-- > 0; rest /= t.shape[d], stride *= old.shape[d]) {
            if (rest % t.shape[d] >= old.shape[d]) return false;
            from += rest % t.shape[d] * stride;
          }
          copy_element(old, from, t, i);
        }
        next.bindings.inputs[input.name] = t;
      }
      return attempt(std::move(next));
    } catch (const std::exception&) {
      return false;
    }
  }
  bool plainer_inputs() {
    bool any = false;
    for (const auto& [name, value] : std::map(best_.bindings.inputs)) {
      Failing next = best_;
      HostTensor& t = next.bindings.inputs[name];
      bool plain = true;
      for (int64_t i = 0; i < t.count(); ++i) { // 0, 1, 2, ... instead
        if (is_float(t.dtype))
          plain &= t.at(i) == double(i % 8), store_f64(t.dtype, t.data.data(), i, double(i % 8));
        else
          plain &= load_i64(t.dtype, t.data.data(), i) == wrap(t.dtype, i % 8),
              store_i64(t.dtype, t.data.data(), i, i % 8);
      }
      if (!plain) any |= attempt(std::move(next));
      next = best_;
      for (NodeId id : next.module.functions.back().params) {
        auto& attr = std::get<InputAttr>(next.module.functions.back().nodes[id].attr);
        if (attr.name != name || attr.role == Role::argument) continue;
        attr.role = Role::argument;
        any |= attempt(next);
      }
    }
    return any;
  }

  Failing best_;
  std::function<bool(const Failing&)> fails_;
  int tries_;
};

/// The text and, as comments, what the inputs hold: `luminal eval` takes the text, and a .npz or
/// .safetensors of the inputs.
inline std::string replay_text(const Failing& f) {
  std::string text = to_string(f.module);
  for (const auto& [name, size] : f.bindings.symbols)
    text += "# --dim " + name + "=" + std::to_string(size) + "\n";
  for (const auto& [name, t] : f.bindings.inputs) {
    text += "# " + name + " = " + std::string(to_string(t.dtype)) + " {";
    for (int64_t i = 0; i < t.count() && i < 400; ++i) {
      char number[40];
      if (is_float(t.dtype))
        std::snprintf(number, sizeof number, "%.17g", t.at(i));
      else
        std::snprintf(number, sizeof number, "%lld",
                      static_cast<long long>(load_i64(t.dtype, t.data.data(), i)));
      text += std::string(i ? ", " : "") + number;
    }
    text += t.count() > 400 ? ", ..}\n" : "}\n";
  }
  return text;
}

} // namespace luminal::testing_ir
