// models/named_weights.h -- weights and pictures that are a function of their names, as those of
// tools/module_goldens.py are.
#pragma once
#include "luminal/nn.h"
#include <cmath>
#include <string>
#include <vector>
#include <zlib.h>

namespace luminal::models {

/// -1..1: a hash of name and place.
inline std::vector<double> uniform(const std::string& name, size_t count) {
  const auto seed = uint32_t(crc32(0, reinterpret_cast<const Bytef*>(name.data()), uInt(name.size())));
  std::vector<double> values(count);
  for (size_t i = 0; i < count; i++) {
    uint32_t h = uint32_t(i + 1) * 2654435761U + seed;
    h ^= h >> 15;
    h *= 2246822519U;
    h ^= h >> 13;
    values[i] = double(h) / 2147483648.0 - 1;
  }
  return values;
}
inline void fill(const nn::Module& module) {
  for (auto& [name, parameter] : module.state_dict()) {
    Tensor tensor = parameter;
    if (tensor.dtype() != DType::f32) continue; // a count of batches
    std::vector<int64_t> shape;
    size_t count = 1, fan = 1;
    for (const Dim& d : tensor.shape()) shape.push_back(d.value()), count *= size_t(d.value());
    for (size_t i = 1; i < shape.size(); i++) fan *= size_t(shape[i]);
    std::vector<float> values;
    for (const double u : uniform(name, count))
      values.push_back(float(name.ends_with("running_var")                   ? 1.5 + 0.5 * u
                             : shape.size() == 1 && name.ends_with("weight") ? 1 + 0.2 * u
                             : shape.size() > 1 ? u * std::sqrt(3.0 / double(fan))
                                                : 0.2 * u));
    tensor.set(values);
  }
}
inline Tensor pictures(Graph& g, int64_t side, int64_t count = 1) {
  Tensor x = g.tensor({count, 3, side, side});
  const auto values = uniform("picture", size_t(count * 3 * side * side));
  x.set(std::vector<float>(values.begin(), values.end()));
  return x;
}

} // namespace luminal::models
