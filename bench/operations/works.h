// bench/operations/works.h -- what ./bench.sh operations runs: operations of the tensor interface,
// each beside a line of PyTorch.
#pragma once
#include "luminal/luminal.h"
#include <functional>
#include <string>
#include <vector>

namespace luminal::bench {

/// An input: an argument of each call or a weight, which is set before the program is compiled.
struct Input {
  std::vector<int64_t> shape;
  double low = -1, high = 1;
  bool index = false; ///< i64
  bool weight = false;
  DType dtype = DType::f32;
};
using In = const std::vector<Tensor>&;
struct Workload {
  std::string name;
  std::vector<Input> inputs; ///< a, b, c, .. in PyTorch's line
  std::function<Tensor(In)> make;
  std::string torch; ///< its first result is compared
  std::string setup = {};
  double tolerance = 1e-4; ///< of the checksum, relative to that of the absolute values
};

inline Input floats(std::vector<int64_t> shape, double low = -1, double high = 1) {
  return {std::move(shape), low, high};
}
inline Input ids(std::vector<int64_t> shape, int64_t count) {
  return {std::move(shape), 0, double(count), true};
}
/// Small enough that deep chains of them stay near 1.
inline Input weights(std::vector<int64_t> shape, double low = -0.1, double high = 0.1) {
  return {std::move(shape), low, high, false, true};
}
inline Input halves(Input input, DType dtype = DType::bf16) { return input.dtype = dtype, input; }

const std::vector<Workload>& single_operations();
// Two to a dozen operations as programs combine them.
const std::vector<Workload>& combined_convolutions();
const std::vector<Workload>& convolution_blocks();
const std::vector<Workload>& combined_products();
const std::vector<Workload>& small_networks(); // batches of small images

} // namespace luminal::bench
