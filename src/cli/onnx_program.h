// cli/onnx_program.h -- ONNX models as the verbs take them: with shapes and values from files.
#pragma once
#include "cli/common.h"
#include "cli/tensor_files.h"
#include "ir/term.h"
#include "luminal/onnx.h"
#include <functional>
#include <span>

namespace luminal::cli {

bool is_onnx(const std::string& path); ///< by its ending
/// The model with shapes, and values that shapes depend on, from the files, and sizes of dimensions
/// by name. Notes on stderr which inputs are fixed.
OnnxModel open_onnx_model(const std::string& path, const TensorFiles& files,
                          const std::map<std::string, int64_t>& sizes);
/// The bytes of a weight where they lie.
std::span<const std::byte> onnx_weight(const OnnxModel& model, const std::string& name);

/// What is in the file: inputs, outputs, operators and whether they are supported.
int inspect_onnx(const std::string& path, bool json);

struct OnnxBench {
  std::string path;
  std::vector<std::string> inputs, sizes;
  int threads = 0, repeats = 5;
  double tune = 0;
  int64_t max_memory = 0; ///< bytes, 0: as much as there is
  bool json = false, no_cache = false, report = false;
};
/// Time of a run with inputs from files, or numbers between 0 and 1.
int bench_onnx(const OnnxBench& arguments);

} // namespace luminal::cli
