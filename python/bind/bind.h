// python/bind/bind.h -- the parts of the module, each bound by a file of its own.
#pragma once
#include "args.h"

namespace luminal::python {

void bind_dim(nb::module_& m);
void bind_tensor(nb::module_& m, nb::class_<Tensor>& tensor);
void bind_subscript(nb::class_<Tensor>& tensor);
void bind_graph(nb::module_& m);
void bind_run(nb::module_& m, nb::class_<Graph>& graph);
void bind_runner(nb::module_& m);
void bind_watch(nb::module_& m);
void bind_refusals(nb::module_& m); ///< the last one: of all functions
void bind_control(nb::module_& m, nb::class_<Graph>& graph);
void bind_custom(nb::module_& m);
void bind_passes(nb::module_& m);
void bind_files(nb::module_& m);
void bind_inspect(nb::module_& m);
void bind_model(nb::module_& m);
void bind_onnx(nb::module_& m);
void bind_autograd(nb::module_& m);
void bind_optimizers(nb::module_& m);
void bind_training_names(nb::module_& m);
void bind_train_data(nb::module_& m);
void bind_train(nb::module_& m);
void bind_operations(nb::module_& m, nb::class_<Tensor>& tensor);

/// HTML text.
std::string escaped(const std::string& text);
std::string repr_of(const Tensor& tensor);
/// Options of compile by their names. Throws TypeError for one that there is not.
CompileOptions options_of(const nb::dict& words, std::source_location where);
/// Work without the interpreter lock that Ctrl-C ends: KeyboardInterrupt is raised after it.
void run_released(const char* operation, const std::shared_ptr<GraphState>& graph, std::source_location where,
                  const std::function<void()>& work);
/// An exception of Python in a callback that C++ calls: kept, and raised when the work ends.
void keep_exception(const nb::python_error& error);

/// A signature of a function as that of a method, and others as they are.
template <class X> const X& of_method(const X& extra) { return extra; }
nb::sig of_method(const nb::sig& signature);

/// Both Graph.name and the function of that name for the default graph.
template <class R, class... A, class... X>
void both(nb::module_& m, nb::class_<Graph>& graph, const char* name, R (*function)(Graph&, A...),
          const X&... extra) {
  graph.def(name, function, of_method(extra)...);
  m.def(
      name,
      [function](A... arguments) -> R { return function(default_graph(), std::forward<A>(arguments)...); },
      extra...);
}

} // namespace luminal::python
