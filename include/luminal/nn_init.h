// luminal/nn_init.h -- first values of parameters, as functions of shape and seed. They are computed on
// the host in f64, by Philox4x32-10, and rounded once: equal seeds give equal values.
#pragma once
#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

namespace luminal::nn {

/// Row-major values of a parameter of this shape.
using Init = std::function<std::vector<float>(const std::vector<int64_t>& shape, uint64_t seed)>;

/// Fans of a weight [out, in, kernel..]: fan_in = in * kernel.., fan_out = out * kernel...
enum class Fan : uint8_t { in, out };

namespace init {

Init constant(double value);
Init zeros();
Init ones();
/// In [low, high).
Init uniform(double low = 0, double high = 1);
Init normal(double mean = 0, double deviation = 1);
/// The normal distribution between low and high, by its inverse function. (torch.nn.init.trunc_normal_)
Init truncated_normal(double mean = 0, double deviation = 1, double low = -2, double high = 2);
/// Glorot and Bengio 2010: uniform within gain * sqrt(6 / (fan_in + fan_out)), normal with deviation
/// gain * sqrt(2 / (fan_in + fan_out)).
Init xavier_uniform(double gain = 1);
Init xavier_normal(double gain = 1);
/// He et al. 2015: uniform within gain * sqrt(3 / fan), normal with deviation gain / sqrt(fan); gain =
/// sqrt(2 / (1 + slope^2)), of a leaky ReLU.
Init kaiming_uniform(double slope = 0, Fan fan = Fan::in);
Init kaiming_normal(double slope = 0, Fan fan = Fan::in);
/// Saxe et al. 2013: orthonormal rows of [first axis, all others], or columns where these are fewer,
/// times gain.
Init orthogonal(double gain = 1);
/// 1 where row == column, of a matrix.
Init eye();

/// torch.nn.init.calculate_gain: "linear", "conv", "sigmoid" 1; "tanh" 5/3; "relu" sqrt(2);
/// "leaky_relu" sqrt(2 / (1 + parameter^2)); "selu" 3/4. Throws Error for another name.
double gain(std::string_view nonlinearity, double parameter = 0.01);

} // namespace init
} // namespace luminal::nn
