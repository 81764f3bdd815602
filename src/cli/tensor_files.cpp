// cli/tensor_files.cpp -- reading tensors by name.
#include "cli/tensor_files.h"
#include "luminal/error.h"
#include <fmt/format.h>

namespace luminal::cli {

void TensorFiles::add(const std::string& path) {
  std::vector<TensorView> views;
  if (path.ends_with(".npy") || path.ends_with(".npz")) {
    auto opened = open_npy(path);
    if (!opened) throw Error(opened.error());
    arrays.push_back(std::move(*opened));
    for (const NpyArray& array : arrays.back().arrays) views.push_back(array.tensor);
    if (path.ends_with(".npy")) { // it has no name: that of the file
      const std::string name = path.substr(path.rfind('/') + 1);
      views[0].name = name.substr(0, name.size() - 4);
    }
  } else {
    auto opened = open_safetensors(path);
    if (!opened) throw Error(opened.error());
    safetensors.push_back(std::move(*opened));
    views = safetensors.back().tensors;
  }
  for (const TensorView& view : views)
    if (auto [at, fresh] = tensors.try_emplace(view.name, view, path); !fresh)
      throw Error(fmt::format("{} and {} both have a tensor {}", at->second.second, path, view.name));
}

std::string TensorFiles::names() const {
  std::string text;
  for (const auto& [name, _] : tensors) text += (text.empty() ? "" : ", ") + name;
  return text.empty() ? "none" : text;
}

} // namespace luminal::cli
