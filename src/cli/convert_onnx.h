// cli/convert_onnx.h -- luminal convert FROM TO.onnx.
#pragma once
#include "cli/common.h"
#include <cstdint>
#include <string>
#include <vector>

namespace luminal::cli {

struct OnnxConversion {
  std::string from, to;
  std::vector<std::string> inputs; ///< weights of terms; inputs that fix the shapes of an ONNX model
  std::vector<std::string> sizes;  ///< of an ONNX model: NAME=SIZE
  int64_t context = 0;             ///< of a language model; 0: as for luminal run
  bool json = false;
};
int convert_to_onnx(const OnnxConversion& arguments);

} // namespace luminal::cli
