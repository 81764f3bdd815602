// cli/tensor_files.h -- tensors by name from .safetensors, .npz and .npy files.
#pragma once
#include "formats/npy.h"
#include "formats/safetensors.h"
#include <map>
#include <string>
#include <vector>

namespace luminal::cli {

/// The tensors of all --inputs files, by name; a later file wins nothing: names are unique.
struct TensorFiles {
  std::vector<Safetensors> safetensors;
  std::vector<NpyFile> arrays;
  std::map<std::string, std::pair<TensorView, std::string>> tensors; ///< and their file

  /// Throws Error: the file cannot be read, or a name is there already.
  void add(const std::string& path);
  std::string names() const; ///< "a, b", or "none"
};

} // namespace luminal::cli
