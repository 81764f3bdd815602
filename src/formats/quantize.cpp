// formats/quantize.cpp -- f32 to block formats: the reference rounding for the simple ones, a
// least-squares search for the K formats (any choice of scales is a valid file; the search decides
// how close it is).
#include "formats/parse.h"
#include "formats/quants.h"
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>

namespace luminal {
namespace {

using namespace detail;

template <class T> void append(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof(T));
}

/// A scale as the file holds it; what a half cannot hold is refused.
uint16_t half_scale(float value) {
  const uint16_t bits = float_to_half(value);
  if (!std::isfinite(half_to_float(bits)))
    refuse("quantize", fmt::format("scale {} does not fit f16, expected values of smaller magnitude", value));
  return bits;
}

int clamp_round(float value, int low, int high) {
  return static_cast<int>(
      std::clamp(std::nearbyint(value), static_cast<float>(low), static_cast<float>(high)));
}

/// The value of largest magnitude, with its sign.
float extreme(const float* x, int n) {
  float best = 0;
  for (int i = 0; i < n; ++i)
    if (std::fabs(x[i]) > std::fabs(best)) best = x[i];
  return best;
}

/// Fifth bits of 32 values, then nibbles.
void append_five_bits(std::string& out, const std::array<int, 32>& q, bool fifth) {
  if (fifth) {
    uint32_t high = 0;
    for (int i = 0; i < 32; ++i) high |= static_cast<uint32_t>(q[static_cast<size_t>(i)] >> 4 & 1) << i;
    append(out, high);
  }
  for (size_t i = 0; i < 16; ++i) out += static_cast<char>((q[i] & 15) | (q[i + 16] & 15) << 4);
}

/// Q4_0 (8 steps on each side) and Q5_0 (16): the value of largest magnitude becomes the lowest
/// step.
void symmetric(const float* x, std::string& out, int steps, bool fifth) {
  const float d = extreme(x, 32) / static_cast<float>(-steps);
  const float inverse = d != 0 ? 1 / d : 0;
  append(out, half_scale(d));
  std::array<int, 32> q{};
  for (size_t i = 0; i < 32; ++i)
    q[i] =
        std::clamp(static_cast<int>(x[i] * inverse + (static_cast<float>(steps) + 0.5F)), 0, 2 * steps - 1);
  append_five_bits(out, q, fifth);
}

/// Q4_1 (15 steps) and Q5_1 (31): from the minimum to the maximum.
void affine(const float* x, std::string& out, int steps, bool fifth) {
  const auto [low, high] = std::minmax_element(x, x + 32);
  const float d = (*high - *low) / static_cast<float>(steps);
  const float inverse = d != 0 ? 1 / d : 0;
  append(out, half_scale(d));
  append(out, half_scale(*low));
  std::array<int, 32> q{};
  for (size_t i = 0; i < 32; ++i)
    q[i] = std::clamp(static_cast<int>(std::floor((x[i] - *low) * inverse + 0.5F)), 0, steps);
  append_five_bits(out, q, fifth);
}

void q8_0(const float* x, std::string& out) {
  const float d = std::fabs(extreme(x, 32)) / 127;
  const float inverse = d != 0 ? 1 / d : 0;
  append(out, half_scale(d));
  for (int i = 0; i < 32; ++i) append(out, static_cast<int8_t>(std::round(x[i] * inverse)));
}

/// scale * q - minimum close to x, q in 0..steps, minimum >= 0: the best of a small search, each
/// refined by least squares.
struct Fit {
  float scale = 0, minimum = 0;
};

Fit fit_affine(const float* x, int n, int steps) {
  float low = 0, high = x[0];
  for (int i = 0; i < n; ++i) low = std::min(low, x[i]), high = std::max(high, x[i]);
  if (high <= low) return {0, -low};
  Fit best;
  double best_error = std::numeric_limits<double>::infinity();
  const auto consider = [&](Fit fit) {
    if (!(fit.scale > 0) || !(fit.minimum >= 0)) return;
    double error = 0;
    for (int i = 0; i < n; ++i) {
      const int q = clamp_round((x[i] + fit.minimum) / fit.scale, 0, steps);
      const double difference = static_cast<double>(fit.scale) * q - fit.minimum - x[i];
      error += difference * difference;
    }
    if (error < best_error) best_error = error, best = fit;
  };
  for (int trial = 0; trial <= 20; ++trial) {
    const float shrunk = static_cast<float>(steps) + 0.1F * static_cast<float>(trial - 10);
    const Fit start{(high - low) / shrunk, -low};
    consider(start);
    double sum_q = 0, sum_qq = 0, sum_x = 0, sum_qx = 0;
    for (int i = 0; i < n; ++i) {
      const double q = clamp_round((x[i] + start.minimum) / start.scale, 0, steps);
      sum_q += q, sum_qq += q * q, sum_x += x[i], sum_qx += q * x[i];
    }
    const double determinant = n * sum_qq - sum_q * sum_q;
    if (determinant <= 0) continue;
    const double scale = (n * sum_qx - sum_q * sum_x) / determinant;
    const double offset = (sum_x - scale * sum_q) / n;
    if (offset <= 0)
      consider({static_cast<float>(scale), static_cast<float>(-offset)});
    else if (sum_qq > 0)
      consider({static_cast<float>(sum_qx / sum_qq), 0});
  }
  return best;
}

/// Q4_K and Q5_K: eight groups of 32, six-bit scales and minima.
void k_affine(const float* x, std::string& out, int bits) {
  const int steps = (1 << bits) - 1;
  std::array<Fit, 8> fits;
  float max_scale = 0, max_minimum = 0;
  for (size_t group = 0; group < 8; ++group) {
    fits[group] = fit_affine(x + group * 32, 32, steps);
    max_scale = std::max(max_scale, fits[group].scale);
    max_minimum = std::max(max_minimum, fits[group].minimum);
  }
  const uint16_t d_bits = half_scale(max_scale / 63), dmin_bits = half_scale(max_minimum / 63);
  const float d = half_to_float(d_bits), dmin = half_to_float(dmin_bits);
  std::array<uint8_t, 12> packed{};
  std::array<int, 256> q{};
  for (size_t group = 0; group < 8; ++group) {
    const int scale = d > 0 ? clamp_round(fits[group].scale / d, 0, 63) : 0;
    const int minimum = dmin > 0 ? clamp_round(fits[group].minimum / dmin, 0, 63) : 0;
    if (group < 4) {
      packed[group] |= static_cast<uint8_t>(scale);
      packed[group + 4] |= static_cast<uint8_t>(minimum);
    } else {
      packed[group + 4] = static_cast<uint8_t>((scale & 15) | (minimum & 15) << 4);
      packed[group - 4] |= static_cast<uint8_t>(scale >> 4 << 6);
      packed[group] |= static_cast<uint8_t>(minimum >> 4 << 6);
    }
    const float s = d * static_cast<float>(scale), m = dmin * static_cast<float>(minimum);
    for (size_t i = group * 32; i < group * 32 + 32; ++i)
      q[i] = s > 0 ? clamp_round((x[i] + m) / s, 0, steps) : 0;
  }
  append(out, d_bits);
  append(out, dmin_bits);
  out.append(packed.begin(), packed.end());
  if (bits == 5) {
    for (size_t i = 0; i < 32; ++i) {
      int high = 0;
      for (size_t group = 0; group < 8; ++group) high |= (q[group * 32 + i] >> 4) << group;
      out += static_cast<char>(high);
    }
  }
  for (size_t pair = 0; pair < 4; ++pair)
    for (size_t i = 0; i < 32; ++i)
      out += static_cast<char>((q[pair * 64 + i] & 15) | (q[pair * 64 + 32 + i] & 15) << 4);
}

/// scale * q close to x, q in -steps..steps-1.
float fit_symmetric(const float* x, int n, int steps) {
  const float peak = extreme(x, n);
  if (peak == 0) return 0;
  float best = 0;
  double best_error = std::numeric_limits<double>::infinity();
  for (int trial = -9; trial <= 9; ++trial) {
    float scale = peak / (static_cast<float>(-steps) + 0.1F * static_cast<float>(trial));
    for (int refine = 0; refine < 2; ++refine) {
      double error = 0, sum_qx = 0, sum_qq = 0;
      for (int i = 0; i < n; ++i) {
        const double q = clamp_round(x[i] / scale, -steps, steps - 1);
        error += (scale * q - x[i]) * (scale * q - x[i]);
        sum_qx += q * x[i], sum_qq += q * q;
      }
      if (error < best_error) best_error = error, best = scale;
      if (sum_qq == 0 || sum_qx == 0) break;
      scale = static_cast<float>(sum_qx / sum_qq);
    }
  }
  return best;
}

/// Sixteen groups of 16, signed 8-bit scales.
void q6_k(const float* x, std::string& out) {
  std::array<float, 16> scales{};
  for (size_t group = 0; group < 16; ++group) scales[group] = fit_symmetric(x + group * 16, 16, 32);
  const float peak = extreme(scales.data(), 16);
  const uint16_t d_bits = half_scale(peak / -128);
  const float d = half_to_float(d_bits);
  std::array<int8_t, 16> stored{};
  std::array<int, 256> q{};
  for (size_t group = 0; group < 16; ++group) {
    stored[group] = static_cast<int8_t>(d != 0 ? clamp_round(scales[group] / d, -128, 127) : 0);
    const float s = d * static_cast<float>(stored[group]);
    for (size_t i = group * 16; i < group * 16 + 16; ++i)
      q[i] = (s != 0 ? clamp_round(x[i] / s, -32, 31) : 0) + 32;
  }
  for (size_t part = 0; part < 2; ++part)
    for (size_t half = 0; half < 2; ++half)
      for (size_t i = 0; i < 32; ++i) {
        const size_t at = part * 128 + half * 32 + i;
        out += static_cast<char>((q[at] & 15) | (q[at + 64] & 15) << 4);
      }
  for (size_t part = 0; part < 2; ++part)
    for (size_t i = 0; i < 32; ++i) {
      int high = 0;
      for (size_t quarter = 0; quarter < 4; ++quarter)
        high |= (q[part * 128 + quarter * 32 + i] >> 4) << (2 * quarter);
      out += static_cast<char>(high);
    }
  for (const int8_t scale : stored) append(out, scale);
  append(out, d_bits);
}

using Encode = void (*)(const float* x, std::string& out);

Encode encoder(StorageType type) {
  using T = StorageType;
  switch (type) {
  case T::f32: return [](const float* x, std::string& out) { append(out, *x); };
  case T::f16: return [](const float* x, std::string& out) { append(out, float_to_half(*x)); };
  case T::bf16: return [](const float* x, std::string& out) { append(out, float_to_bfloat16(*x)); };
  case T::q4_0: return [](const float* x, std::string& out) { symmetric(x, out, 8, false); };
  case T::q4_1: return [](const float* x, std::string& out) { affine(x, out, 15, false); };
  case T::q5_0: return [](const float* x, std::string& out) { symmetric(x, out, 16, true); };
  case T::q5_1: return [](const float* x, std::string& out) { affine(x, out, 31, true); };
  case T::q8_0: return q8_0;
  case T::q4_k: return [](const float* x, std::string& out) { k_affine(x, out, 4); };
  case T::q5_k: return [](const float* x, std::string& out) { k_affine(x, out, 5); };
  case T::q6_k: return q6_k;
  default: return nullptr;
  }
}

} // namespace

bool can_quantize(StorageType type) { return encoder(type) != nullptr; }

Result<std::string> quantize(StorageType type, std::span<const float> values) {
  return guarded("quantize", [&] {
    const Encode encode = encoder(type);
    const auto& row = storage_info(type);
    if (encode == nullptr) refuse("quantize", fmt::format("no encoder for {}", row.name));
    if (values.size() % row.block_elements != 0)
      refuse("quantize", fmt::format("{} values for {}, expected a multiple of {}", values.size(), row.name,
                                     row.block_elements));
    if (row.quantized())
      for (size_t i = 0; i < values.size(); ++i)
        if (!std::isfinite(values[i]))
          refuse("quantize", fmt::format("value {} is {}, expected a finite one", i, values[i]));
    std::string out;
    out.reserve(values.size() / row.block_elements * row.block_bytes);
    for (size_t i = 0; i < values.size(); i += row.block_elements) encode(values.data() + i, out);
    return out;
  });
}

} // namespace luminal
