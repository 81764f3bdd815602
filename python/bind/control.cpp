// python/bind/control.cpp -- loops, functions and conditions of a graph, whose bodies are functions
// of Python.
#include "bind.h"

namespace luminal::python {
namespace {

nb::tuple tuple_of(const std::vector<Tensor>& tensors) {
  nb::list list;
  for (const Tensor& tensor : tensors) list.append(nb::cast(tensor));
  return nb::tuple(list);
}

/// What a body gave: a tensor, or a list of them; numbers and arrays become constants of the body.
std::vector<Tensor> tensors_of(nb::handle result, const char* operation, const char* what,
                               std::source_location where) {
  const auto one = [&](nb::handle item) {
    Value value;
    if (!read_value(item, value))
      throw Error(operation,
                  std::string(what) + " gives tensors, not " +
                      nb::cast<std::string>(nb::repr(item)).substr(0, 80),
                  where);
    return Call(operation, {&value}).tensor(value);
  };
  if (!PyList_Check(result.ptr()) && !PyTuple_Check(result.ptr())) return {one(result)};
  std::vector<Tensor> list;
  for (nb::handle item : nb::borrow<nb::object>(result)) list.push_back(one(item));
  return list;
}

Graph::FunctionBody function_body(const nb::callable& fn, const char* operation, std::source_location where) {
  return [&fn, operation, where](Graph& body, const std::vector<Tensor>& inputs) {
    const DefaultGraph inside(body.state(operation, where));
    return tensors_of(fn(*tuple_of(inputs)), operation, "the function", where);
  };
}

nb::tuple loop(Graph& g, const Extent& count, const std::vector<Value>& carried, const nb::callable& body,
               const std::vector<Value>& stepped, const std::vector<Value>& invariants) {
  std::vector<Value> all = carried;
  all.insert(all.end(), stepped.begin(), stepped.end());
  all.insert(all.end(), invariants.begin(), invariants.end());
  const DefaultGraph here_first(g.state());
  Call call("loop", all);
  const auto made = call.graph().loop(
      count, call.tensors(carried), call.tensors(stepped), call.tensors(invariants),
      [&](Graph& inner, Tensor step, const std::vector<Tensor>& values, const std::vector<Tensor>& slices,
          const std::vector<Tensor>& constants) {
        const DefaultGraph inside(inner.state("loop", call.where));
        const nb::object result = body(step, tuple_of(values), tuple_of(slices), tuple_of(constants));
        if (!PyTuple_Check(result.ptr()) || nb::len(result) != 2)
          throw Error("loop", "the body gives (carried, stacked): two lists of tensors", call.where);
        return Graph::LoopResult{tensors_of(result[0], "loop", "the body", call.where),
                                 tensors_of(result[1], "loop", "the body", call.where)};
      },
      call.where);
  return nb::make_tuple(made.carried, made.stacked);
}

nb::tuple while_loop(Graph& g, const Extent& most, const std::vector<Value>& carried,
                     const nb::callable& condition, const nb::callable& body,
                     const std::vector<Value>& invariants) {
  std::vector<Value> all = carried;
  all.insert(all.end(), invariants.begin(), invariants.end());
  const DefaultGraph here_first(g.state());
  Call call("while_loop", all);
  const auto made = call.graph().while_loop(
      most, call.tensors(carried), call.tensors(invariants),
      [&](Graph& inner, const std::vector<Tensor>& values, const std::vector<Tensor>& constants) {
        const DefaultGraph inside(inner.state("while_loop", call.where));
        return tensors_of(condition(tuple_of(values), tuple_of(constants)), "while_loop", "the condition",
                          call.where)
            .at(0);
      },
      [&](Graph& inner, Tensor step, const std::vector<Tensor>& values,
          const std::vector<Tensor>& constants) {
        const DefaultGraph inside(inner.state("while_loop", call.where));
        return tensors_of(body(step, tuple_of(values), tuple_of(constants)), "while_loop", "the body",
                          call.where);
      },
      call.where);
  return nb::make_tuple(made.carried, made.steps);
}

std::vector<Tensor> function(Graph& g, const std::string& name, const std::vector<Value>& inputs,
                             const nb::callable& fn) {
  const DefaultGraph here_first(g.state());
  Call call("function", inputs);
  return call.graph().function(name, call.tensors(inputs), function_body(fn, "function", call.where),
                               call.where);
}

std::vector<Tensor> cond(Graph& g, const Value& predicate, const std::vector<Value>& inputs,
                         const nb::callable& then, const nb::callable& otherwise) {
  const DefaultGraph here_first(g.state());
  std::vector<Value> all{predicate};
  all.insert(all.end(), inputs.begin(), inputs.end());
  Call call("cond", all);
  return call.graph().cond(call.tensor(predicate), call.tensors(inputs),
                           function_body(then, "cond", call.where),
                           function_body(otherwise, "cond", call.where), call.where);
}

} // namespace

void bind_control(nb::module_& m, nb::class_<Graph>& graph) {
  both(m, graph, "loop", &loop, nb::arg("count"), nb::arg("carried"), nb::arg("body"),
       nb::arg("stepped") = nb::list(), nb::arg("invariants") = nb::list(),
       nb::sig("def loop(count: luminal.typing.Size, carried: "
               "collections.abc.Sequence[luminal.typing.TensorLike], "
               "body: collections.abc.Callable[[Tensor, tuple[Tensor, ...], tuple[Tensor, ...], "
               "tuple[Tensor, ...]], tuple[typing.Any, typing.Any]], "
               "stepped: collections.abc.Sequence[luminal.typing.TensorLike] = (), invariants: "
               "collections.abc.Sequence[luminal.typing.TensorLike] = ()) "
               "-> tuple[list[Tensor], list[Tensor]]"),
       "body(step, carried, slices, invariants) -> (carried, stacked): made once, run `count` times. "
       "`stepped` tensors are cut along their first axis, "
       "stacked results are joined along a new first one. Gives (carried, stacked).");
  both(
      m, graph, "while_loop", &while_loop, nb::arg("most"), nb::arg("carried"), nb::arg("condition"),
      nb::arg("body"), nb::arg("invariants") = nb::list(),
      nb::sig("def while_loop(most: luminal.typing.Size, carried: "
              "collections.abc.Sequence[luminal.typing.TensorLike], "
              "condition: collections.abc.Callable[[tuple[Tensor, ...], tuple[Tensor, ...]], Tensor], "
              "body: collections.abc.Callable[[Tensor, tuple[Tensor, ...], tuple[Tensor, ...]], typing.Any], "
              "invariants: collections.abc.Sequence[luminal.typing.TensorLike] = ()) -> tuple[list[Tensor], "
              "Tensor]"),
      "Steps are made while condition(carried, invariants) holds, at most `most`; body(step, carried, "
      "invariants) gives the next carried values. "
      "Gives (carried, number of steps).");
  both(m, graph, "function", &function, nb::arg("name"), nb::arg("inputs"), nb::arg("fn"),
       nb::sig("def function(name: str, inputs: collections.abc.Sequence[luminal.typing.TensorLike], fn: "
               "collections.abc.Callable[..., typing.Any]) -> list[Tensor]"),
       "A function of the graph, called with these inputs: fn(*inputs) makes its results from stand-ins for "
       "them. Calls of one name have one body, which is compiled once.");
  both(m, graph, "cond", &cond, nb::arg("predicate"), nb::arg("inputs"), nb::arg("then"),
       nb::arg("otherwise"),
       nb::sig("def cond(predicate: luminal.typing.TensorLike, inputs: "
               "collections.abc.Sequence[luminal.typing.TensorLike], "
               "then: collections.abc.Callable[..., typing.Any], otherwise: collections.abc.Callable[..., "
               "typing.Any]) -> list[Tensor]"),
       "then(*inputs) where the predicate (bool []) holds, else otherwise(*inputs). Only one of them runs.");
}

} // namespace luminal::python
