// nn/init.cpp -- first values of parameters.
#include "ir/philox.h"
#include "luminal/error.h"
#include "luminal/nn_init.h"
#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <map>
#include <numbers>

namespace luminal::nn::init {
namespace {

int64_t count_of(const std::vector<int64_t>& shape) {
  int64_t n = 1;
  for (int64_t extent : shape) n *= extent;
  return n;
}

/// A stream of uniform numbers in (0, 1): 53 bits of two words.
class Stream {
public:
  explicit Stream(uint64_t seed) : key_{uint32_t(seed), uint32_t(seed >> 32)} {}
  double next() {
    const auto place = size_t(count_++ % 2);
    if (place == 0) block_ = philox4x32({uint32_t(count_), uint32_t(count_ >> 32), 0, 0}, key_);
    const uint64_t bits = (uint64_t(block_[2 * place]) << 21) ^ (block_[2 * place + 1] >> 11);
    return (double(bits) + 0.5) * 0x1p-53;
  }
  /// Box and Muller 1958, one of the pair.
  double next_normal() {
    const double radius = std::sqrt(-2 * std::log(next()));
    return radius * std::cos(2 * std::numbers::pi * next());
  }

private:
  std::array<uint32_t, 2> key_;
  std::array<uint32_t, 4> block_{};
  uint64_t count_ = 0;
};

template <class F> std::vector<float> filled(const std::vector<int64_t>& shape, F&& value) {
  std::vector<float> values(size_t(count_of(shape)));
  for (float& v : values) v = float(value());
  return values;
}

struct Fans {
  double in = 1, out = 1;
};
Fans fans_of(std::string_view op, const std::vector<int64_t>& shape) {
  if (shape.size() < 2)
    throw Error(fmt::format("[{}] a weight of {} axes has no fan, two are the least", op, shape.size()));
  double kernel = 1;
  for (size_t d = 2; d < shape.size(); d++) kernel *= double(shape[d]);
  return {double(shape[1]) * kernel, double(shape[0]) * kernel};
}

Init uniform_within(std::function<double(const std::vector<int64_t>&)> bound) {
  return [bound = std::move(bound)](const std::vector<int64_t>& shape, uint64_t seed) {
    const double most = bound(shape);
    Stream stream(seed);
    return filled(shape, [&] { return (2 * stream.next() - 1) * most; });
  };
}
Init normal_with(std::function<double(const std::vector<int64_t>&)> deviation) {
  return [deviation = std::move(deviation)](const std::vector<int64_t>& shape, uint64_t seed) {
    const double d = deviation(shape);
    Stream stream(seed);
    return filled(shape, [&] { return stream.next_normal() * d; });
  };
}

/// The place below which a part p of the normal distribution lies: Acklam's rational approximation and
/// one step of Halley's method, exact to rounding.
double normal_quantile(double p) {
  if (p <= 0) return -INFINITY;
  if (p >= 1) return INFINITY;
  const auto tail = [](double q) {
    return (((((-7.784894002430293e-03 * q - 3.223964580411365e-01) * q - 2.400758277161838) * q -
              2.549732539343734) *
                 q +
             4.374664141464968) *
                q +
            2.938163982698783) /
           ((((7.784695709041462e-03 * q + 3.224671290700398e-01) * q + 2.445134137142996) * q +
             3.754408661907416) *
                q +
            1);
  };
  double x = 0;
  if (p < 0.02425)
    x = tail(std::sqrt(-2 * std::log(p)));
  else if (p > 1 - 0.02425)
    x = -tail(std::sqrt(-2 * std::log1p(-p)));
  else {
    const double q = p - 0.5, r = q * q;
    x = (((((-3.969683028665376e+01 * r + 2.209460984245205e+02) * r - 2.759285104469687e+02) * r +
           1.383577518672690e+02) *
              r -
          3.066479806614716e+01) *
             r +
         2.506628277459239) *
        q /
        (((((-5.447609879822406e+01 * r + 1.615858368580409e+02) * r - 1.556989798598866e+02) * r +
           6.680131188771972e+01) *
              r -
          1.328068155288572e+01) *
             r +
         1);
  }
  const double error = 0.5 * std::erfc(-x / std::numbers::sqrt2) - p;
  const double step = error * std::sqrt(2 * std::numbers::pi) * std::exp(x * x / 2);
  return x - step / (1 + x * step / 2);
}

/// Makes the rows of a [rows, columns] with rows <= columns orthonormal: Gram and Schmidt, each row
/// twice, which is enough (Kahan).
void orthonormalize(std::vector<double>& a, size_t rows, size_t columns) {
  for (size_t i = 0; i < rows; i++) {
    double* row = a.data() + i * columns;
    for (int round = 0; round < 2; round++)
      for (size_t j = 0; j < i; j++) {
        const double* other = a.data() + j * columns;
        double dot = 0;
        for (size_t k = 0; k < columns; k++) dot += row[k] * other[k];
        for (size_t k = 0; k < columns; k++) row[k] -= dot * other[k];
      }
    double length = 0;
    for (size_t k = 0; k < columns; k++) length += row[k] * row[k];
    length = std::sqrt(length);
    for (size_t k = 0; k < columns; k++) row[k] /= length;
  }
}

} // namespace

Init constant(double value) {
  return [value](const std::vector<int64_t>& shape, uint64_t) {
    return std::vector<float>(size_t(count_of(shape)), float(value));
  };
}
Init zeros() { return constant(0); }
Init ones() { return constant(1); }

Init uniform(double low, double high) {
  return [low, high](const std::vector<int64_t>& shape, uint64_t seed) {
    Stream stream(seed);
    return filled(shape, [&] { return low + (high - low) * stream.next(); });
  };
}
Init normal(double mean, double deviation) {
  return [mean, deviation](const std::vector<int64_t>& shape, uint64_t seed) {
    Stream stream(seed);
    return filled(shape, [&] { return mean + deviation * stream.next_normal(); });
  };
}
Init truncated_normal(double mean, double deviation, double low, double high) {
  if (!(deviation > 0) || !(low < high))
    throw Error(fmt::format("[truncated_normal] deviation {} and limits {} and {}: expected a positive "
                            "deviation and the lower limit first",
                            deviation, low, high));
  return [=](const std::vector<int64_t>& shape, uint64_t seed) {
    const auto part = [&](double x) {
      return 0.5 * std::erfc(-(x - mean) / deviation / std::numbers::sqrt2);
    };
    const double first = part(low), last = part(high);
    Stream stream(seed);
    return filled(shape, [&] {
      const double x = normal_quantile(first + (last - first) * stream.next());
      return std::clamp(mean + deviation * x, low, high);
    });
  };
}
Init xavier_uniform(double gain) {
  return uniform_within([gain](const auto& shape) {
    const Fans fans = fans_of("xavier_uniform", shape);
    return gain * std::sqrt(6 / (fans.in + fans.out));
  });
}
Init xavier_normal(double gain) {
  return normal_with([gain](const auto& shape) {
    const Fans fans = fans_of("xavier_normal", shape);
    return gain * std::sqrt(2 / (fans.in + fans.out));
  });
}
Init kaiming_uniform(double slope, Fan fan) {
  return uniform_within([slope, fan](const auto& shape) {
    const Fans fans = fans_of("kaiming_uniform", shape);
    return gain("leaky_relu", slope) * std::sqrt(3 / (fan == Fan::in ? fans.in : fans.out));
  });
}
Init kaiming_normal(double slope, Fan fan) {
  return normal_with([slope, fan](const auto& shape) {
    const Fans fans = fans_of("kaiming_normal", shape);
    return gain("leaky_relu", slope) / std::sqrt(fan == Fan::in ? fans.in : fans.out);
  });
}
Init orthogonal(double gain) {
  return [gain](const std::vector<int64_t>& shape, uint64_t seed) {
    if (shape.size() < 2)
      throw Error(fmt::format("[orthogonal] a weight of {} axes is not a matrix", shape.size()));
    const auto rows = size_t(shape[0]), columns = rows ? size_t(count_of(shape)) / rows : 0;
    Stream stream(seed);
    std::vector<double> a(rows * columns);
    for (double& v : a) v = stream.next_normal();
    const size_t few = std::min(rows, columns), many = std::max(rows, columns);
    orthonormalize(a, few, many); // the fewer vectors, each of the longer length
    std::vector<float> values(a.size());
    for (size_t i = 0; i < few; i++)
      for (size_t j = 0; j < many; j++)
        values[rows <= columns ? i * many + j : j * few + i] = float(gain * a[i * many + j]);
    return values;
  };
}
Init eye() {
  return [](const std::vector<int64_t>& shape, uint64_t) {
    if (shape.size() != 2)
      throw Error(fmt::format("[eye] a tensor of {} axes is not a matrix", shape.size()));
    std::vector<float> values(size_t(shape[0] * shape[1]), 0.0f);
    for (int64_t i = 0; i < std::min(shape[0], shape[1]); i++) values[size_t(i * shape[1] + i)] = 1;
    return values;
  };
}

double gain(std::string_view nonlinearity, double parameter) {
  static const std::map<std::string_view, double> fixed{
      {"linear", 1}, {"conv", 1}, {"sigmoid", 1}, {"tanh", 5.0 / 3}, {"relu", std::numbers::sqrt2},
      {"selu", 0.75}};
  if (nonlinearity == "leaky_relu") return std::sqrt(2 / (1 + parameter * parameter));
  const auto at = fixed.find(nonlinearity);
  if (at == fixed.end())
    throw Error(fmt::format("[gain] no gain is known of \"{}\"; expected linear, conv, sigmoid, tanh, relu, "
                            "leaky_relu or selu",
                            nonlinearity));
  return at->second;
}

} // namespace luminal::nn::init
