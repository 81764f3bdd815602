// train/gradients.cpp -- gradients of tensors, and what is made of them: products with Jacobian and
// Hessian, functions with gradients of their own, recomputation.
#include "luminal/autograd.h"
#include "luminal/random.h"
#include "tensor/graph_state.h"
#include "train/reverse.h"
#include <fmt/format.h>

namespace luminal {
namespace {

void check_list(std::string_view op, const std::shared_ptr<GraphState>& graph,
                const std::vector<Tensor>& list, std::string_view what, Where where) {
  for (size_t i = 0; i < list.size(); ++i) {
    check_graph(op, graph, list[i], where);
    if (!is_float(list[i].dtype()))
      throw Error(op,
                  fmt::format("{} {} is {}: gradients are of floating-point numbers", what, i,
                              to_string(type_of(list[i]))),
                  where);
  }
}

void check_alike(std::string_view op, const std::vector<Tensor>& list, std::string_view what,
                 const std::vector<Tensor>& like, std::string_view of, Where where) {
  if (list.size() != like.size())
    throw Error(op, fmt::format("{} {}s for {} {}s", list.size(), what, like.size(), of), where);
  for (size_t i = 0; i < list.size(); ++i) {
    const TensorType &have = type_of(list[i]), &want = type_of(like[i]);
    if (have.dtype != want.dtype || !same_shape(have.shape, want.shape))
      throw Error(op, fmt::format("{} {} is {}, its {} {}", what, i, to_string(have), of, to_string(want)),
                  where);
  }
}

/// Runs the pass; errors name the caller's line, and terms of gradients the line of the value that
/// they are gradients of.
std::vector<train::Gradient> reversed(std::string_view op, const std::shared_ptr<GraphState>& graph,
                                      const std::vector<train::Reverse::Seed>& seeds,
                                      const std::vector<NodeId>& targets, Where where, int64_t segments = 1) {
  constexpr std::string_view back = ", its gradient";
  std::vector<train::Gradient> made;
  build(op, graph, where, [&](FunctionBuilder& b) {
    train::Reverse pass(b, graph->module, segments);
    made = pass.run(seeds, targets);
    NodeId begin = graph->end_node;
    for (const auto& [end, value] : pass.sources()) {
      const std::string source = b[value].origin;
      for (; begin < end; ++begin)
        if (!source.empty()) b.origin(begin, source.ends_with(back) ? source : source + std::string(back));
    }
    NodeId last = targets.empty() ? NodeId(0) : targets[0];
    for (const auto& g : made)
      if (g) last = std::max(last, *g);
    return last;
  });
  return made;
}

std::vector<Tensor> tensors_of(std::string_view op, const std::shared_ptr<GraphState>& graph,
                               const std::vector<train::Gradient>& made, const std::vector<Tensor>& inputs,
                               NoPath no_path, Where where) {
  std::vector<Tensor> list;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (made[i]) {
      list.push_back(wrap(graph, *made[i]));
      continue;
    }
    if (no_path == NoPath::error) {
      const std::string name = inputs[i].name();
      throw Error(op,
                  fmt::format("no output depends on input {}{} in a differentiable way", i,
                              name.empty() ? "" : " (" + name + ")"),
                  where);
    }
    list.push_back(zeros_like(inputs[i], where));
  }
  return list;
}

std::vector<Tensor> ones_for(std::string_view op, const std::vector<Tensor>& outputs, Where where) {
  std::vector<Tensor> ones;
  for (size_t i = 0; i < outputs.size(); ++i) {
    for (Expr extent : type_of(outputs[i]).shape)
      if (!extent.is_constant(1))
        throw Error(op,
                    fmt::format("output {} is {}: of more than one element, say the gradient that "
                                "arrives there (upstream), or reduce it to a loss",
                                i, to_string(type_of(outputs[i]))),
                    where);
    ones.push_back(ones_like(outputs[i], where));
  }
  return ones;
}

std::vector<NodeId> ids_of(const std::vector<Tensor>& tensors) {
  std::vector<NodeId> ids;
  for (const Tensor& t : tensors) ids.push_back(node_id(t));
  return ids;
}

} // namespace

std::vector<Tensor> gradients(const std::vector<Tensor>& outputs, const std::vector<Tensor>& inputs,
                              const GradientOptions& options, Where where) {
  constexpr std::string_view op = "gradients";
  if (outputs.empty()) throw Error(op, "there is no output", where);
  const auto graph = graph_of(op, {&outputs[0]}, where);
  check_list(op, graph, outputs, "output", where);
  check_list(op, graph, inputs, "input", where);
  check_list(op, graph, options.upstream, "upstream gradient", where);
  if (options.segments < 1)
    throw Error(op, fmt::format("{} segments: at least 1 is expected", options.segments), where);
  const std::vector<Tensor> upstream =
      options.upstream.empty() ? ones_for(op, outputs, where) : options.upstream;
  check_alike(op, upstream, "upstream gradient", outputs, "output", where);
  std::vector<train::Reverse::Seed> seeds;
  for (size_t i = 0; i < outputs.size(); ++i) seeds.push_back({node_id(outputs[i]), node_id(upstream[i])});
  return tensors_of(op, graph, reversed(op, graph, seeds, ids_of(inputs), where, options.segments), inputs,
                    options.no_path, where);
}
std::vector<Tensor> gradients(const Tensor& loss, const std::vector<Tensor>& inputs,
                              const GradientOptions& options, Where where) {
  return gradients(std::vector<Tensor>{loss}, inputs, options, where);
}
Tensor gradient(const Tensor& loss, const Tensor& input, Where where) {
  return gradients(std::vector<Tensor>{loss}, {input}, {}, where)[0];
}

std::vector<Tensor> jacobian_vector_products(const std::vector<Tensor>& outputs,
                                             const std::vector<Tensor>& inputs,
                                             const std::vector<Tensor>& tangents, Where where) {
  constexpr std::string_view op = "jacobian_vector_products";
  if (outputs.empty()) throw Error(op, "there is no output", where);
  const auto graph = graph_of(op, {&outputs[0]}, where);
  check_list(op, graph, outputs, "output", where);
  check_list(op, graph, inputs, "input", where);
  check_list(op, graph, tangents, "tangent", where);
  check_alike(op, tangents, "tangent", inputs, "input", where);
  // u -> J^T u is linear in u, whatever u is: its derivative along the tangents is J t.
  std::vector<Tensor> list;
  for (const Tensor& output : outputs) {
    const Tensor u = build(op, graph, where, [&](FunctionBuilder& b) {
      const DType bits_type = bits(output.dtype()) == 64   ? DType::i64
                              : bits(output.dtype()) == 32 ? DType::i32
                              : bits(output.dtype()) == 16 ? DType::i16
                                                           : DType::i8;
      // a number that no other term of the graph is made from
      std::vector<std::byte> bytes(size_t(storage_bytes(bits_type, 1)));
      store_i64(bits_type, bytes.data(), 0, graph->end_node.number() % 100 + 1);
      const NodeId unit = b.bitcast(b.constant(TensorType{bits_type, {}}, bytes), output.dtype());
      const NodeId wide = b.view(unit, type_of(output).shape, {});
      return b.add(FenceAttr{}, {wide, node_id(output)});
    });
    const auto back = reversed(op, graph, {{node_id(output), node_id(u)}}, ids_of(inputs), where);
    std::vector<train::Reverse::Seed> seeds;
    for (size_t i = 0; i < inputs.size(); ++i)
      if (back[i]) seeds.push_back({*back[i], node_id(tangents[i])});
    std::vector<train::Gradient> made(1);
    if (!seeds.empty()) made = reversed(op, graph, seeds, {node_id(u)}, where);
    list.push_back(made[0] ? wrap(graph, *made[0]) : zeros_like(output, where));
  }
  return list;
}

Tensor hessian_vector_product(const Tensor& loss, const Tensor& input, const Tensor& vector, Where where) {
  const Tensor slope = gradient(loss, input, where);
  return gradients({slope}, {input}, {.upstream = {vector}}, where)[0];
}

Tensor stop_gradient(const Tensor& x, Where where) {
  constexpr std::string_view op = "stop_gradient";
  const auto graph = graph_of(op, {&x}, where);
  if (!is_float(x.dtype())) return x;
  return build(op, graph, where, [&](FunctionBuilder& b) { // bits have no gradient
    const int width = bits(x.dtype());
    const DType integer = width == 64   ? DType::i64
                          : width == 32 ? DType::i32
                          : width == 16 ? DType::i16
                                        : DType::i8;
    return b.bitcast(b.bitcast(node_id(x), integer), x.dtype());
  });
}

std::vector<Tensor> custom_gradient(Graph& graph, const std::string& name, const std::vector<Tensor>& inputs,
                                    const Graph::FunctionBody& forward, const Graph::FunctionBody& backward,
                                    Where where) {
  const std::vector<Tensor> results = graph.function(name, inputs, forward, where);
  std::vector<Tensor> operands = inputs, floats;
  for (const Tensor& result : results)
    if (is_float(result.dtype())) operands.push_back(zeros_like(result, where));
  for (const Tensor& input : inputs)
    if (is_float(input.dtype())) floats.push_back(input);
  // The call itself is not needed: what counts is that the module has the function.
  const std::vector<Tensor> made =
      graph.function(name + std::string(train::gradient_suffix), operands, backward, where);
  check_alike("custom_gradient", made, "gradient", floats, "input", where);
  return results;
}

std::vector<Tensor> checkpoint(Graph& graph, const std::string& name, const std::vector<Tensor>& inputs,
                               const Graph::FunctionBody& fn, Where where) {
  return graph.function(name + std::string(train::recomputed_suffix), inputs, fn, where);
}

} // namespace luminal
