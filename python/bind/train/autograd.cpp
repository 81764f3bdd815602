// python/bind/train/autograd.cpp -- gradients: terms of the same graph.
#include "luminal/autograd.h"
#include "training.h"

namespace luminal::python {
namespace {

std::vector<Tensor> gradients_of(const std::vector<Value>& outputs, const std::vector<Value>& inputs,
                                 const std::vector<Value>& upstream, bool require_path, int64_t segments) {
  std::vector<Value> all = outputs;
  all.insert(all.end(), inputs.begin(), inputs.end());
  Call call("gradients", all);
  const GradientOptions options{.upstream = call.tensors(upstream),
                                .no_path = require_path ? NoPath::error : NoPath::zero,
                                .segments = segments};
  return gradients(call.tensors(outputs), call.tensors(inputs), options, call.where);
}

} // namespace

Graph::FunctionBody body_of(const nb::callable& fn, const char* operation, std::source_location where) {
  return [&fn, operation, where](Graph& body, const std::vector<Tensor>& inputs) {
    const DefaultGraph inside(body.state(operation, where));
    nb::list arguments;
    for (const Tensor& input : inputs) arguments.append(nb::cast(input));
    const nb::object result = fn(*nb::tuple(arguments));
    if (nb::isinstance<Tensor>(result)) return std::vector<Tensor>{nb::cast<Tensor>(result)};
    std::vector<Tensor> tensors;
    if (!nb::try_cast(result, tensors)) throw Error(operation, "the function gives tensors", where);
    return tensors;
  };
}

void bind_autograd(nb::module_& m) {
  m.def("gradients", &gradients_of, nb::arg("outputs"), nb::arg("inputs"), nb::kw_only(),
        nb::arg("upstream") = nb::make_tuple(), nb::arg("require_path") = false, nb::arg("segments") = 1,
        "d (sum of the outputs) / d input for each input. upstream: gradients of something else with respect "
        "to the outputs; without them each output has one element. "
        "require_path: an Error for an input that no output depends on, else its gradient is zero. "
        "segments: above 1, the terms of the outputs are cut into so many, and values of all but the last "
        "one are computed again for the gradient.");
  m.def(
      "gradient",
      [](const Value& loss, const Value& input) {
        Call call("gradient", {&loss, &input});
        return gradient(call.tensor(loss), call.tensor(input), call.where);
      },
      nb::arg("loss"), nb::arg("input"),
      "d loss / d input, in its dtype and shape: a tensor like any other.");
  m.def(
      "jacobian_vector_products",
      [](const std::vector<Value>& outputs, const std::vector<Value>& inputs,
         const std::vector<Value>& tangents) {
        Call call("jacobian_vector_products", outputs);
        return jacobian_vector_products(call.tensors(outputs), call.tensors(inputs), call.tensors(tangents),
                                        call.where);
      },
      nb::arg("outputs"), nb::arg("inputs"), nb::arg("tangents"),
      "How each output changes when the inputs change by the tangents.");
  m.def(
      "hessian_vector_product",
      [](const Value& loss, const Value& input, const Value& vector) {
        Call call("hessian_vector_product", {&loss, &input, &vector});
        return hessian_vector_product(call.tensor(loss), call.tensor(input), call.tensor(vector), call.where);
      },
      nb::arg("loss"), nb::arg("input"), nb::arg("vector"),
      "The matrix of second derivatives of a scalar loss times a vector of the input's shape.");
  m.def(
      "stop_gradient",
      [](const Value& x) {
        Call call("stop_gradient", {&x});
        return stop_gradient(call.tensor(x), call.where);
      },
      nb::arg("x"), "The same value; gradients end here.");
  m.def(
      "custom_gradient",
      [](const std::string& name, const std::vector<Value>& inputs, const nb::callable& forward,
         const nb::callable& backward) {
        Call call("custom_gradient", inputs);
        return custom_gradient(call.graph(), name, call.tensors(inputs),
                               body_of(forward, "custom_gradient", call.where),
                               body_of(backward, "custom_gradient", call.where), call.where);
      },
      nb::arg("name"), nb::arg("inputs"), nb::arg("forward"), nb::arg("backward"),
      nb::sig("def custom_gradient(name: str, inputs: collections.abc.Sequence[luminal.typing.TensorLike], "
              "forward: collections.abc.Callable[..., typing.Any], backward: collections.abc.Callable[..., "
              "typing.Any]) -> list[Tensor]"),
      "forward(*inputs) as a function of the graph, whose gradients backward(*inputs, *gradients of results) "
      "makes.");
  m.def(
      "checkpoint",
      [](const std::string& name, const std::vector<Value>& inputs, const nb::callable& fn) {
        Call call("checkpoint", inputs);
        return checkpoint(call.graph(), name, call.tensors(inputs), body_of(fn, "checkpoint", call.where),
                          call.where);
      },
      nb::arg("name"), nb::arg("inputs"), nb::arg("fn"),
      nb::sig("def checkpoint(name: str, inputs: collections.abc.Sequence[luminal.typing.TensorLike], fn: "
              "collections.abc.Callable[..., typing.Any]) -> list[Tensor]"),
      "fn(*inputs) as a function whose values in between are computed again for the gradient: less memory, "
      "one more forward pass.");
}

} // namespace luminal::python
