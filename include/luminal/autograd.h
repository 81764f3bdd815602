// luminal/autograd.h -- gradients: terms of the same graph. A gradient is a tensor like any other:
// it may be kept, computed with, and have gradients itself. docs/training.md has the rules at ties
// and kinks.
//
//   Tensor loss = (x.matmul(w) - y).square().mean();
//   Tensor dw = gradient(loss, w);            // same dtype and shape as w
//   g.update(w, w - 0.1 * dw);                // w is a state: one step of gradient descent
#pragma once
#include "luminal/graph.h"
#include <string>
#include <vector>

namespace luminal {

#define LUMINAL_WHERE std::source_location where = std::source_location::current()

/// Of an input that no output depends on by a differentiable path.
enum class NoPath : uint8_t { zero, error };

struct GradientOptions {
  /// Gradients of something else with respect to the outputs, of their dtypes and shapes. Empty: 1 for
  /// each output, which then must have one element.
  std::vector<Tensor> upstream = {};
  NoPath no_path = NoPath::zero;
  /// Above 1: the terms of the outputs are cut into so many segments of about equal size, where few
  /// bytes are alive. Values in all but the last one are not kept for the gradient: they are computed
  /// again from what the segment reads, once its gradient has arrived. Random numbers are the same ones.
  int64_t segments = 1;
};

/// d (sum of the outputs) / d input for each input, in its dtype and shape. Inputs may be any
/// floating-point tensors of the graph: states, weights, arguments, values in between. Throws Error
/// where an operation on the way has no gradient (custom kernels, host functions without one).
std::vector<Tensor> gradients(const std::vector<Tensor>& outputs, const std::vector<Tensor>& inputs,
                              const GradientOptions& options = {}, LUMINAL_WHERE);
std::vector<Tensor> gradients(const Tensor& loss, const std::vector<Tensor>& inputs,
                              const GradientOptions& options = {}, LUMINAL_WHERE);
Tensor gradient(const Tensor& loss, const Tensor& input, LUMINAL_WHERE);

/// Jacobian-vector products: how each output changes when the inputs change by the tangents (of their
/// dtypes and shapes).
std::vector<Tensor> jacobian_vector_products(const std::vector<Tensor>& outputs,
                                             const std::vector<Tensor>& inputs,
                                             const std::vector<Tensor>& tangents, LUMINAL_WHERE);
/// The matrix of second derivatives of a scalar loss times a vector of the input's shape.
Tensor hessian_vector_product(const Tensor& loss, const Tensor& input, const Tensor& vector, LUMINAL_WHERE);

/// The same value; gradients end here. Costs nothing.
Tensor stop_gradient(const Tensor& x, LUMINAL_WHERE);

/// `forward` as a function of the graph (Graph::function), whose gradients are what `backward` makes:
/// it gets the inputs, then the gradients of the floating-point results, and returns one gradient for
/// each floating-point input. Backward may have gradients itself.
std::vector<Tensor> custom_gradient(Graph& graph, const std::string& name, const std::vector<Tensor>& inputs,
                                    const Graph::FunctionBody& forward, const Graph::FunctionBody& backward,
                                    LUMINAL_WHERE);

/// `fn` as a function of the graph whose values in between are not kept for the gradient: they are
/// computed again from the inputs once the gradient of the results has arrived. Less memory, one more
/// forward pass. Calls of one name must make the same terms.
std::vector<Tensor> checkpoint(Graph& graph, const std::string& name, const std::vector<Tensor>& inputs,
                               const Graph::FunctionBody& fn, LUMINAL_WHERE);

#undef LUMINAL_WHERE
} // namespace luminal
