// compile/rewrite.cpp -- inlining, and sorts as what kernels compute.
#include "compile/rewrite.h"
#include "base/check.h"
#include "compile/expand_sort.h"
#include <algorithm>
#include <fmt/format.h>

namespace luminal::compile {
namespace {

std::vector<NodeId> copies_of(const std::vector<NodeId>& nodes, const IdVector<NodeId, NodeId>& copies) {
  std::vector<NodeId> out;
  for (NodeId id : nodes) out.push_back(copies[id]);
  return out;
}

/// Copies the nodes that a function's results need, one after the other.
class FunctionCopier {
public:
  FunctionCopier(FunctionBuilder& target, const Function& source, const std::vector<NodeId>& params)
      : target_(target), source_(source), needed_(source.nodes.size()), copies_(source.nodes.size()) {
    std::vector<NodeId> stack;
    for (const auto& result : source.results) stack.push_back(result.value);
    while (!stack.empty()) {
      const NodeId id = stack.back();
      stack.pop_back();
      if (needed_[id]) continue;
      needed_[id] = true;
      for (NodeId input : source[id].inputs) stack.push_back(input);
    }
    for (size_t i = 0; i < source.params.size(); i++) copies_[source.params[i]] = params[i];
  }

  /// The next node that is to be copied or replaced; null at the end.
  const Node* next() {
    for (; source_.nodes.has(at_); ++at_)
      if (needed_[at_] && source_[at_].kind != NodeKind::input) return &source_[at_];
    return nullptr;
  }
  NodeId at() const { return at_; }
  void copy() {
    const Node& node = source_[at_];
    const auto tuple = node.kind == NodeKind::get ? tuples_.find(node.inputs[0]) : tuples_.end();
    const NodeId made = tuple == tuples_.end()
                            ? target_.add(node.attr, copies_of(node.inputs, copies_), node.axis_names)
                            : tuple->second[size_t(std::get<GetAttr>(node.attr).index)];
    if (!node.origin.empty()) target_.origin(made, node.origin);
    if (!node.name.empty() && target_[made].name.empty()) target_.name(made, node.name);
    put(made);
  }
  /// These values stand for the next node.
  void replace(std::vector<NodeId> values) {
    if (!source_[at_].is_tuple()) return put(values[0]);
    tuples_[at_++] = std::move(values);
  }
  void run() {
    while (next()) copy();
  }
  const IdVector<NodeId, NodeId>& copies() const { return copies_; }
  std::vector<NodeId> inputs() const { return copies_of(source_[at_].inputs, copies_); }
  std::vector<NodeId> results() const {
    std::vector<NodeId> values;
    for (const auto& result : source_.results) values.push_back(copies_[result.value]);
    return values;
  }

private:
  void put(NodeId value) { copies_[at_++] = value; }

  FunctionBuilder& target_;
  const Function& source_;
  IdVector<NodeId, bool> needed_;
  IdVector<NodeId, NodeId> copies_;
  std::map<NodeId, std::vector<NodeId>> tuples_;
  NodeId at_{0};
};

std::vector<NodeId> add_inputs(FunctionBuilder& builder, const Function& function) {
  std::vector<NodeId> params;
  for (NodeId id : function.params) {
    const auto& attr = std::get<InputAttr>(function[id].attr);
    params.push_back(builder.input(attr.name, function[id].type(), attr.role));
  }
  return params;
}

Function finished(FunctionBuilder& builder, const Function& function, const FunctionCopier& copier) {
  for (const auto& result : function.results)
    builder.result(result.name, copier.copies()[result.value], result.state, result.after);
  return builder.finish();
}

bool holds(const Function& function, NodeKind kind) {
  return std::any_of(function.nodes.begin(), function.nodes.end(),
                     [&](const Node& node) { return node.kind == kind; });
}

} // namespace

Function rebuild(const Module& module, const Function& function, const Replace& replace,
                 IdVector<NodeId, NodeId>* made) {
  FunctionBuilder builder(function.name, &module);
  FunctionCopier copier(builder, function, add_inputs(builder, function));
  while (copier.next()) {
    std::vector<NodeId> values;
    if (replace(builder, copier.at(), copier.copies(), values))
      copier.replace(std::move(values));
    else
      copier.copy();
  }
  if (made) *made = copier.copies();
  return finished(builder, function, copier);
}

std::vector<NodeId> copy_into(FunctionBuilder& target, const Function& source,
                              const std::vector<NodeId>& params) {
  FunctionCopier copier(target, source, params);
  copier.run();
  return copier.results();
}

bool has_calls(const Function& function) { return holds(function, NodeKind::call); }
bool has_sorts(const Function& function) {
  return holds(function, NodeKind::sort) || holds(function, NodeKind::collective);
}

namespace {

bool is_empty(const Shape& shape) {
  return std::ranges::any_of(shape, [](Expr extent) { return extent.is_constant(0); });
}
bool is_empty_view(const Function& function, const Node& node) {
  return node.kind == NodeKind::view && function[node.inputs[0]].kind != NodeKind::constant &&
         is_empty(node.type().shape);
}
bool is_empty_scatter(const Function& function, const Node& node) {
  return node.kind == NodeKind::scatter && is_empty(function[node.inputs[1]].type().shape);
}

} // namespace

bool has_empty_views(const Function& function) {
  return std::ranges::any_of(function.nodes, [&](const Node& node) {
    return is_empty_view(function, node) || is_empty_scatter(function, node);
  });
}

Function empty_views_of_constants(const Module& module, const Function& function) {
  return rebuild(module, function,
                 [&](FunctionBuilder& b, NodeId id, const IdVector<NodeId, NodeId>& copies,
                     std::vector<NodeId>& values) {
                   if (is_empty_scatter(function, function[id])) {
                     values = {copies[function[id].inputs[0]]};
                     return true;
                   }
                   if (!is_empty_view(function, function[id])) return false;
                   const TensorType& type = function[id].type();
                   std::vector<std::byte> zero(size_t(storage_bytes(type.dtype, 1)));
                   const NodeId nothing = b.constant(TensorType{type.dtype, {}}, std::move(zero));
                   values = {b.view(nothing, type.shape, {})};
                   return true;
                 });
}

Function inline_calls(const Module& module, const Function& function) {
  if (!has_calls(function)) return function;
  std::map<std::string_view, const Function*> functions;
  for (const Function& f : module.functions) functions[f.name] = &f;
  FunctionBuilder builder(function.name, &module);
  std::vector<FunctionCopier>
      open; // the function, what it calls, what that calls, ..; not by recursion: chains may be long
  open.emplace_back(builder, function, add_inputs(builder, function));
  for (;;) {
    const Node* node = open.back().next();
    if (node && node->kind == NodeKind::call) {
      const std::string& name = std::get<CallAttr>(node->attr).function;
      LUMINAL_CHECK(functions.contains(name), "call of unknown function {}", name);
      open.emplace_back(builder, *functions[name], open.back().inputs());
    } else if (node) {
      open.back().copy();
    } else if (open.size() > 1) {
      std::vector<NodeId> values = open.back().results();
      open.pop_back();
      open.back().replace(std::move(values));
    } else {
      return finished(builder, function, open.back());
    }
  }
}

std::optional<std::string> too_much_to_inline(const Module& module) {
  constexpr double most_inlined = 1 << 18;
  constexpr int most_nested = 64;
  struct Size {
    double operations = 0;
    int nested = 0;
  };
  std::map<std::string, Size, std::less<>> sizes; // callees stand before callers
  for (const Function& f : module.functions) {
    Size size;
    const auto add = [&](const std::string& callee, int deeper) {
      if (callee.empty()) return;
      const Size& inner = sizes[callee];
      size.operations += inner.operations;
      size.nested = std::max(size.nested, inner.nested + deeper);
    };
    for (const Node& node : f.nodes) {
      size.operations += 1;
      if (const auto* call = std::get_if<CallAttr>(&node.attr)) add(call->function, 0);
      if (const auto* loop = std::get_if<LoopAttr>(&node.attr)) add(loop->body, 1), add(loop->condition, 1);
      if (const auto* cond = std::get_if<CondAttr>(&node.attr))
        add(cond->then_function, 1), add(cond->else_function, 1);
    }
    sizes[f.name] = size;
  }
  const Size& all = sizes[module.entry().name];
  if (all.operations - double(module.entry().nodes.size()) > most_inlined)
    return fmt::format("@{} has {:.3g} operations when calls are replaced by what they call, at most {} are "
                       "compiled; a loop runs one copy of a function again and again",
                       module.entry().name, all.operations, int64_t(most_inlined));
  if (all.nested > most_nested)
    return fmt::format("@{} has loops and conditions inside of one another, {} deep; at most {} are compiled",
                       module.entry().name, all.nested, most_nested);
  return {};
}

Function expand_sorts(const Module& module, const Function& function) {
  if (!has_sorts(function)) return function;
  Replace replace = [&](FunctionBuilder& b, NodeId id, const IdVector<NodeId, NodeId>& copies,
                        std::vector<NodeId>& values) {
    const Node& node = function[id];
    const auto* collective = std::get_if<CollectiveAttr>(&node.attr);
    if (collective && collective->group.ends_with(":1")) { // what one member gives is what it has
      values = {copies[node.inputs[0]]};
      return true;
    }
    if (node.kind != NodeKind::sort) return false;
    values = sorted_operands(b, std::get<SortAttr>(node.attr), copies_of(node.inputs, copies));
    return true;
  };
  return rebuild(module, function, replace);
}

} // namespace luminal::compile
