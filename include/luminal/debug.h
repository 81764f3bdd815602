// luminal/debug.h -- looking at tensors and graphs: as text, while they run, on disk, side by side with a file.
#pragma once
#include "luminal/graph.h"
#include <iosfwd>

namespace luminal {

/// What one step of an execution took: a kernel, a copy, an effect on the host.
struct StepCost {
  std::string name;
  double milliseconds = 0;
  int64_t bytes = 0;  ///< of all it reads and writes
  std::string shapes; ///< "x f32[2, 3], v7 f32[3]": what it reads, then what it writes
};
/// What Graph::execute_debug returns, in the order of the run; prints as a table.
struct ExecutionTable {
  std::vector<StepCost> steps;
  double milliseconds() const; ///< of all steps
  int64_t bytes() const;
};
std::string to_string(const ExecutionTable& table);
std::ostream& operator<<(std::ostream& out, const ExecutionTable& table);

/// How many elements of an axis `to_string` shows.
struct PrintOptions {
  int64_t edge_items = 3;   ///< at the begin and at the end of an axis that is cut
  int64_t threshold = 1000; ///< more elements than that are cut
  int precision = 6;        ///< significant digits of floats
};
/// Nested brackets, cut like NumPy's: "[[0, 1], [2, 3]]  # x: f32[2, 2]". A tensor without a value is its dtype, shape and name.
std::string to_string(const Tensor& tensor, const PrintOptions& options = {});
std::ostream& operator<<(std::ostream& out, const Tensor& tensor);

} // namespace luminal
