// luminal/debug.h -- looking at tensors and graphs: as text, while they run, on disk, side by side
// with a file.
#pragma once
#include "luminal/explain.h"
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
/// Nested brackets, cut like NumPy's: "[[0, 1], [2, 3]]  # x: f32[2, 2]". A tensor without a value
///                                                       is its dtype, shape and name.
std::string to_string(const Tensor& tensor, const PrintOptions& options = {});
std::ostream& operator<<(std::ostream& out, const Tensor& tensor);
std::ostream& operator<<(std::ostream& out, DType type);

// ---- while a graph runs: each gives its tensor back, unchanged and not copied ----

/// At each execute: writes "label: f32[1000], 1000 values: first ... middle ... last". Keeps the
/// tensor alive.
Tensor print(const Tensor& x, std::string label = "",
             std::source_location where = std::source_location::current());
/// At each execute: writes the value to a file: .npy, .safetensors (under the tensor's name, or
/// "value"), or .f32, the numbers alone as f32.
Tensor dump(const Tensor& x, std::string file, std::source_location where = std::source_location::current());

struct DiffOptions {
  double relative = 1e-4, absolute = 1e-5; ///< |got - expected| <= absolute + relative * |expected| passes
  std::string name = {}; ///< of the tensor in the file; empty: the tensor's own, or the only one
};
/// How two lists of numbers differ. `expected` is the file's side.
struct DiffReport {
  std::string label;
  int64_t count = 0;
  int64_t failed = 0; ///< elements outside the tolerances; NaN passes only beside NaN
  int64_t nan_here = 0, nan_expected = 0;
  double low_here = 0, high_here = 0, low_expected = 0, high_expected = 0; ///< of what is not NaN
  // Of the elements that are finite on both sides, or infinite on one:
  double average = 0, largest = 0, largest_relative = 0; ///< |got - expected|; relative to |expected|
  double mean_squared = 0;
  double percentile_50 = 0, percentile_95 = 0, percentile_99 = 0;
  struct Place {
    std::vector<int64_t> index;
    double here, expected;
  };
  std::vector<Place> worst; ///< the ten largest differences, NaN beside a number first
  bool passed() const { return failed == 0; }
};
/// Several lines; `colour` marks the verdict with terminal colours.
std::string to_string(const DiffReport& report, bool colour = false);
std::ostream& operator<<(std::ostream& out, const DiffReport& report);

/// At each execute: writes a DiffReport of the value and a file (.npy, .npz, .safetensors) of the
/// same shape, or of as many numbers (.f32).
Tensor diff(const Tensor& x, std::string file, DiffOptions options = {},
            std::source_location where = std::source_location::current());
/// The same at once, for a value that can be read.
DiffReport compare(const Tensor& x, const std::string& file, DiffOptions options = {},
                   std::source_location where = std::source_location::current());

// ---- whole graphs ----

/// Writes the graph to a file and returns its name: .html (a page that needs nothing else, with
/// search and zoom), .dot (Graphviz) or .lum (terms). Without a name: a new .html in the folder for
/// temporary files. Nothing leaves the machine.
std::string display(const Graph& graph, std::string file = "",
                    std::source_location where = std::source_location::current());
/// A line a value: name, operation, dtype and shape, with the sizes of its dynamic dimensions where
/// they are set.
std::string display_shapes(const Graph& graph, std::source_location where = std::source_location::current());

/// Compiles the graph's present terms, as Graph::compile does with these options (which search nothing
/// unless they say so), and says what came of it. The graph stays as it was compiled before.
/// Options with several typical sizes: of the first ones. Throws Error as compile does.
Explanation explain(const Graph& graph, const CompileOptions& options = {},
                    std::source_location where = std::source_location::current());

/// Where print and diff write, a text without a final newline at a time. Empty: stderr again.
void set_print_sink(std::function<void(std::string_view)> sink);

} // namespace luminal
