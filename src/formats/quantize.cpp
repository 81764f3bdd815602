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

/// Two bits of each of 256 values: four quarters of a half in one byte.
void append_two_bits(std::string& out, const std::array<int, 256>& q) {
  for (size_t half = 0; half < 2; ++half)
    for (size_t i = 0; i < 32; ++i) {
      int byte = 0;
      for (size_t quarter = 0; quarter < 4; ++quarter)
        byte |= (q[half * 128 + quarter * 32 + i] & 3) << (2 * quarter);
      out += static_cast<char>(byte);
    }
}

/// Sixteen groups of 16 with a minimum each: scales and minima of four bits.
void q2_k(const float* x, std::string& out) {
  std::array<Fit, 16> fits;
  float max_scale = 0, max_minimum = 0;
  for (size_t group = 0; group < 16; ++group) {
    fits[group] = fit_affine(x + group * 16, 16, 3);
    max_scale = std::max(max_scale, fits[group].scale);
    max_minimum = std::max(max_minimum, fits[group].minimum);
  }
  const uint16_t d_bits = half_scale(max_scale / 15), dmin_bits = half_scale(max_minimum / 15);
  const float d = half_to_float(d_bits), dmin = half_to_float(dmin_bits);
  std::array<int, 256> q{};
  for (size_t group = 0; group < 16; ++group) {
    const int scale = d > 0 ? clamp_round(fits[group].scale / d, 0, 15) : 0;
    const int minimum = dmin > 0 ? clamp_round(fits[group].minimum / dmin, 0, 15) : 0;
    out += static_cast<char>(scale | minimum << 4);
    const float s = d * static_cast<float>(scale), m = dmin * static_cast<float>(minimum);
    for (size_t i = group * 16; i < group * 16 + 16; ++i)
      q[i] = s > 0 ? clamp_round((x[i] + m) / s, 0, 3) : 0;
  }
  append_two_bits(out, q);
  append(out, d_bits);
  append(out, dmin_bits);
}

/// Sixteen groups of 16, signed scales of six bits.
void q3_k(const float* x, std::string& out) {
  std::array<float, 16> scales{};
  for (size_t group = 0; group < 16; ++group) scales[group] = fit_symmetric(x + group * 16, 16, 4);
  const uint16_t d_bits = half_scale(extreme(scales.data(), 16) / -32);
  const float d = half_to_float(d_bits);
  std::array<uint8_t, 12> packed{};
  std::array<int, 256> q{};
  for (size_t group = 0; group < 16; ++group) {
    const int stored = d != 0 ? clamp_round(scales[group] / d, -32, 31) : 0;
    const float s = d * static_cast<float>(stored);
    const int code = stored + 32;
    packed[group % 8] |= static_cast<uint8_t>((code & 15) << (group < 8 ? 0 : 4));
    packed[8 + group % 4] |= static_cast<uint8_t>(code >> 4 << (group / 4 * 2));
    for (size_t i = group * 16; i < group * 16 + 16; ++i)
      q[i] = (s != 0 ? clamp_round(x[i] / s, -4, 3) : 0) + 4;
  }
  for (size_t i = 0; i < 32; ++i) {
    int high = 0;
    for (size_t group = 0; group < 8; ++group) high |= (q[group * 32 + i] >> 2) << group;
    out += static_cast<char>(high);
  }
  append_two_bits(out, q);
  out.append(packed.begin(), packed.end());
  append(out, d_bits);
}

/// d, 256 bytes, the sums of sixteen.
void q8_k(const float* x, std::string& out) {
  const float d = extreme(x, 256) / -127;
  const float inverse = d != 0 ? 1 / d : 0;
  append(out, d);
  std::array<int16_t, 16> sums{};
  for (size_t i = 0; i < 256; ++i) {
    const auto q = static_cast<int8_t>(clamp_round(x[i] * inverse, -127, 127));
    append(out, q);
    sums[i / 16] = static_cast<int16_t>(sums[i / 16] + q);
  }
  for (const int16_t sum : sums) append(out, sum);
}

constexpr std::array<int, 16> iq4_levels = {-127, -104, -83, -65, -49, -35, -22, -10,
                                            1,    13,   25,  38,  53,  69,  89,  113};

int nearest(const std::array<int, 16>& values, float x) {
  const auto above = std::lower_bound(values.begin(), values.end(), x);
  if (above == values.begin()) return 0;
  if (above == values.end()) return 15;
  const auto i = static_cast<int>(above - values.begin());
  const float up = static_cast<float>(*above) - x, down = x - static_cast<float>(*(above - 1));
  return up < down ? i : i - 1;
}

/// scale * iq4_values[q] close to 32 values.
float fit_iq4(const float* x) {
  const float peak = extreme(x, 32);
  if (peak == 0) return 0;
  float best = 0;
  double best_error = std::numeric_limits<double>::infinity();
  for (int trial = -7; trial <= 7; ++trial) {
    float scale = peak / static_cast<float>(iq4_levels[0] + trial);
    for (int refine = 0; refine < 2; ++refine) {
      double error = 0, sum_qx = 0, sum_qq = 0;
      for (int i = 0; i < 32; ++i) {
        const double q = iq4_levels[static_cast<size_t>(nearest(iq4_levels, x[i] / scale))];
        error += (scale * q - x[i]) * (scale * q - x[i]);
        sum_qx += q * x[i], sum_qq += q * q;
      }
      if (error < best_error) best_error = error, best = scale;
      if (sum_qx == 0) break;
      scale = static_cast<float>(sum_qx / sum_qq);
    }
  }
  return best;
}

/// Nibbles of 32 values, the low ones are the first 16.
void append_nibbles(std::string& out, const float* x, float scale) {
  const auto code = [&](int i) { return scale != 0 ? nearest(iq4_levels, x[i] / scale) : 8; };
  for (int i = 0; i < 16; ++i) out += static_cast<char>(code(i) | code(i + 16) << 4);
}

void iq4_nl(const float* x, std::string& out) {
  const uint16_t d_bits = half_scale(fit_iq4(x));
  append(out, d_bits);
  append_nibbles(out, x, half_to_float(d_bits));
}

/// Eight groups of 32 with scales of six bits.
void iq4_xs(const float* x, std::string& out) {
  std::array<float, 8> scales{};
  for (size_t group = 0; group < 8; ++group) scales[group] = fit_iq4(x + group * 32);
  const uint16_t d_bits = half_scale(extreme(scales.data(), 8) / -32);
  const float d = half_to_float(d_bits);
  uint32_t high = 0;
  std::array<uint8_t, 4> low{};
  std::array<float, 8> rounded{};
  for (size_t group = 0; group < 8; ++group) {
    const int stored = d != 0 ? clamp_round(scales[group] / d, -32, 31) : 0;
    rounded[group] = d * static_cast<float>(stored);
    const int code = stored + 32;
    low[group / 2] |= static_cast<uint8_t>((code & 15) << (4 * (group % 2)));
    high |= static_cast<uint32_t>(code >> 4) << (2 * group);
  }
  append(out, d_bits);
  append(out, static_cast<uint16_t>(high));
  out.append(low.begin(), low.end());
  for (size_t group = 0; group < 8; ++group) append_nibbles(out, x + group * 32, rounded[group]);
}

/// A power of two by the largest value, as ggml has it, and the nearest of 0 1/2 1 3/2 2 3 4 6.
void mxfp4(const float* x, std::string& out) {
  constexpr std::array<int, 8> doubled = {0, 1, 2, 3, 4, 6, 8, 12};
  const float peak = std::fabs(extreme(x, 32));
  const int exponent =
      peak > 0 ? std::clamp(static_cast<int>(std::floor(std::log2(peak))) - 2 + 127, 0, 254) : 0;
  const float scale = std::ldexp(1.0F, exponent - 128);
  out += static_cast<char>(exponent);
  const auto code = [&](int i) {
    const float target = std::fabs(x[i]) / scale;
    size_t best = 0;
    for (size_t q = 1; q < 8; ++q)
      if (std::fabs(static_cast<float>(doubled[q]) - target) <
          std::fabs(static_cast<float>(doubled[best]) - target))
        best = q;
    return static_cast<int>(best) | (x[i] < 0 && best != 0 ? 8 : 0);
  };
  for (int i = 0; i < 16; ++i) out += static_cast<char>(code(i) | code(i + 16) << 4);
}

/// -1, 0 or 1 times the largest magnitude, as 0, 1, 2; the magnitude.
uint16_t ternary(const float* x, std::array<int, 256>& q) {
  const float d = std::fabs(extreme(x, 256));
  const float inverse = d != 0 ? 1 / d : 0;
  for (size_t i = 0; i < 256; ++i) q[i] = static_cast<int>(std::lround(x[i] * inverse)) + 1;
  return half_scale(d);
}

void tq2_0(const float* x, std::string& out) {
  std::array<int, 256> q{};
  const uint16_t d = ternary(x, q);
  append_two_bits(out, q);
  append(out, d);
}

/// `places` digits of base three, which lie `step` apart, behind the point of a byte, rounded up.
char ternary_byte(const int* q, size_t places, size_t step) {
  int value = 0;
  for (size_t place = 0; place < places; ++place) value = value * 3 + q[place * step];
  if (places == 4) value *= 3;
  return static_cast<char>((value * 256 + 242) / 243);
}

void tq1_0(const float* x, std::string& out) {
  std::array<int, 256> q{};
  const uint16_t d = ternary(x, q);
  for (size_t i = 0; i < 32; ++i) out += ternary_byte(q.data() + i, 5, 32);
  for (size_t i = 0; i < 16; ++i) out += ternary_byte(q.data() + 160 + i, 5, 16);
  for (size_t i = 0; i < 4; ++i) out += ternary_byte(q.data() + 240 + i, 4, 4);
  append(out, d);
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
  case T::q2_k: return q2_k;
  case T::q3_k: return q3_k;
  case T::q8_k: return q8_k;
  case T::iq4_nl: return iq4_nl;
  case T::iq4_xs: return iq4_xs;
  case T::mxfp4: return mxfp4;
  case T::tq1_0: return tq1_0;
  case T::tq2_0: return tq2_0;
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
