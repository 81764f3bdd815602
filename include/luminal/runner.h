// luminal/runner.h -- a graph as a function over memory of the caller: on the processor nothing is copied on
// the way in, and large results are not on the way out. For programs that own their tensors, such as another
// framework's back end.
#pragma once
#include "luminal/graph.h"
#include <memory>
#include <span>

namespace luminal {

/// Runs a graph again and again on memory that others own.
///
///   Runner runner(g, {"batch"}, {x}, {y});
///   runner.run(sizes, inputs, outputs);   // reads inputs[0], writes outputs[0]
///
/// An input that is a state is updated where it lies.
///
/// The outputs are kept by it. Between runs their values are what the caller has; Tensor::data and
/// its kin have none. A runner is for one thread at a time, like its graph.
class Runner {
public:
  using Where = std::source_location;
  /// Throws Error for an input that is computed, for a dimension that the graph does not have, and
  /// for tensors of other graphs.
  Runner(Graph& graph, std::vector<std::string> dimensions, std::vector<Tensor> inputs,
         std::vector<Tensor> outputs, Where where = Where::current());
  Runner(Runner&&) noexcept;
  Runner& operator=(Runner&&) noexcept;
  ~Runner();

  /// One step. sizes: of the dimensions, in their order. inputs, outputs: row-major and packed memory
  /// of each tensor at these sizes; null only where a tensor has no element. Outputs do not overlap
  /// each other or an input. Compiles first if that has not been done. Throws Error as
  /// Graph::execute does.
  void run(std::span<const int64_t> sizes, std::span<const void* const> inputs,
           std::span<void* const> outputs, Where where = Where::current());
  const std::shared_ptr<GraphState>& state() const;

private:
  struct State;
  std::unique_ptr<State> state_;
};

} // namespace luminal
