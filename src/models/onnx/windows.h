// models/onnx/windows.h -- kernel, strides, dilations and padding of windows over the axes behind
// batch and channels.
#pragma once
#include "models/onnx/importer.h"

namespace luminal::onnx {

struct Windows {
  std::vector<int64_t> kernel, stride, dilation, before, after;
};
/// From the attributes of the node; checked.
Windows windows_of(Node& n, const Tensor& x, size_t axes, std::vector<int64_t> kernel);
Tensor padded(const Tensor& x, const Windows& w, double value);

} // namespace luminal::onnx
