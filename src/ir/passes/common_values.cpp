// ir/passes/common_values.cpp -- common operands, equal functions, and equal results of a function.
#include "base/hash.h"
#include "ir/passes/edit.h"
#include <algorithm>

namespace luminal::passes {
namespace {

/// Swapped operands give the same bits: min and max of floats may give the zero of either sign.
bool commutes(const Rebuild& r, const Node& node) {
  const auto& map = std::get<MapAttr>(node.attr);
  if (!map.user_op.empty() || !row(map.op).commutative) return false;
  return !(is_float(r.type(node.inputs[0]).dtype) && (map.op == Op::min || map.op == Op::max));
}

/// Nodes of inner functions are compared without the names of parameters, which only people read.
bool same_inner_node(const Node& a, const Node& b) {
  if (a.kind != NodeKind::input || b.kind != NodeKind::input) return same_node(a, b);
  return std::get<InputAttr>(a.attr).role == std::get<InputAttr>(b.attr).role && a.types == b.types;
}
bool same_function(const Function& f, const Function& g) {
  if (f.params != g.params || f.results.size() != g.results.size()) return false;
  for (size_t i = 0; i < f.results.size(); ++i)
    if (f.results[i].value != g.results[i].value || !f.results[i].after.empty() ||
        !g.results[i].after.empty())
      return false;
  return std::equal(f.nodes.begin(), f.nodes.end(), g.nodes.begin(), g.nodes.end(), same_inner_node);
}
uint64_t function_hash(const Function& f) {
  uint64_t h = f.nodes.size();
  for (const Node& node : f.nodes)
    h = hash_mix(h, node.kind == NodeKind::input ? uint64_t(node.type().dtype) : quick_hash(node));
  for (const FunctionResult& result : f.results) h = hash_mix(h, result.value.index());
  return h;
}

/// The first result of the function that has the same value as result `i`; counted from `first`.
int first_equal(const Function& f, int i, int first) {
  for (int j = first; j < i; ++j)
    if (f.results[size_t(j)].value == f.results[size_t(i)].value) return j;
  return i;
}

/// Which result of a tuple to read instead.
int representative(const Module& module, const Node& tuple, int index) {
  if (auto* call = std::get_if<CallAttr>(&tuple.attr))
    return first_equal(*module.find(call->function), index, 0);
  if (auto* loop = std::get_if<LoopAttr>(&tuple.attr)) {
    const Function& body = *module.find(loop->body);
    const bool stacked = index >= loop->carried && index < int(body.results.size());
    return stacked ? first_equal(body, index, loop->carried) : index;
  }
  if (auto* cond = std::get_if<CondAttr>(&tuple.attr)) {
    const Function &a = *module.find(cond->then_function), &b = *module.find(cond->else_function);
    for (int j = 0; j < index; ++j)
      if (first_equal(a, index, j) == j && first_equal(b, index, j) == j) return j;
  }
  return index;
}

} // namespace

std::optional<NodeId> commuted(const Rebuild& r, const Node& node) {
  if (node.kind != NodeKind::map || node.inputs.size() < 2 || node.inputs[0] == node.inputs[1] ||
      !commutes(r, node) || !(r.type(node.inputs[0]) == r.type(node.inputs[1])))
    return {};
  if (r.find(node)) return {}; // merged as it is
  Node other = node;
  std::swap(other.inputs[0], other.inputs[1]);
  return r.find(other);
}

int64_t merge_functions(Module& module) {
  if (module.functions.size() < 2) return 0;
  int64_t changes = merge_loops(module);
  std::map<std::string, std::string> renamed;
  std::map<uint64_t, std::vector<size_t>> by_hash;
  auto rename = [&](std::string& name) {
    if (auto at = renamed.find(name); at != renamed.end()) name = at->second;
  };
  for (size_t i = 0; i < module.functions.size(); ++i) {
    Function& f = module.functions[i];
    bool calls = false;
    for (Node& node : f.nodes) {
      if (auto* call = std::get_if<CallAttr>(&node.attr)) rename(call->function), calls = true;
      if (auto* loop = std::get_if<LoopAttr>(&node.attr)) {
        rename(loop->body), rename(loop->condition);
        calls = true;
      }
      if (auto* cond = std::get_if<CondAttr>(&node.attr)) {
        rename(cond->then_function), rename(cond->else_function);
        calls = true;
      }
    }
    if (calls) // calls that have become equal merge, and so do reads of equal results
      changes += Rebuild::walk(f, &module, [&](Rebuild& r, Node node) -> NodeId {
        if (auto* get = std::get_if<GetAttr>(&node.attr))
          if (int first = representative(module, r[node.inputs[0]], get->index); first != get->index) {
            get->index = first;
            ++r.changes;
          }
        return r.put(std::move(node));
      });
    if (i + 1 == module.functions.size()) break; // the entry
    auto& same = by_hash[function_hash(f)];
    const auto twin = std::find_if(same.begin(), same.end(),
                                   [&](size_t k) { return same_function(module.functions[k], f); });
    if (twin == same.end()) {
      same.push_back(i);
    } else {
      renamed[f.name] = module.functions[*twin].name;
      ++changes;
    }
  }
  std::erase_if(module.functions, [&](const Function& f) { return renamed.contains(f.name); });
  return changes;
}

} // namespace luminal::passes
