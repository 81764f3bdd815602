// tests/ir/random_inputs.h -- what the inputs of random modules hold: small numbers, ramps up and
// down with NaN, infinities, the ends of integers, indices.
#pragma once
#include "ir/interp.h"
#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

namespace luminal::testing_ir {

inline uint64_t random_word_of(uint64_t& state) { // splitmix64
  uint64_t x = (state += 0x9E3779B97F4A7C15u);
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

inline int64_t extent_of(Expr e, const std::map<std::string, int64_t>& sizes) {
  ExprMap<int64_t> bound;
  for (Expr s : symbols_of(e)) bound[s] = sizes.at(std::string(s.name()));
  return *evaluate(e, bound);
}

/// to[i] = from[at], of one type.
inline void copy_element(const HostTensor& from, int64_t at, HostTensor& to, int64_t i) {
  if (is_float(to.dtype))
    store_f64(to.dtype, to.data.data(), i, from.at(at));
  else
    store_i64(to.dtype, to.data.data(), i, load_i64(from.dtype, from.data.data(), at));
}

struct RandomInput {
  enum class Style : uint8_t { small, uniform, special, ramp, same, limits, index, nonzero };
  std::string name;
  TensorType type;
  Style style;
  Expr low = 0, high = 0; // of an index

  static double special(DType type, uint64_t n) {
    const double values[] = {std::nan(""),
                             std::numeric_limits<double>::infinity(),
                             -std::numeric_limits<double>::infinity(),
                             -0.0,
                             0.0,
                             largest(type),
                             -largest(type),
                             least_subnormal(type)};
    return values[n % 8];
  }
  HostTensor data(const std::map<std::string, int64_t>& sizes, uint64_t state) const {
    HostTensor t{type.dtype, {}, {}};
    for (Expr e : type.shape) t.shape.push_back(extent_of(e, sizes));
    t.data.resize(size_t(storage_bytes(t.dtype, t.count())));
    const bool down = random_word_of(state) % 2;
    const double same = double(random_word_of(state) % 9) - 4;
    const int64_t first = style == Style::index ? extent_of(low, sizes) : 0,
                  last = style == Style::index ? std::max(first, extent_of(high, sizes)) : 0;
    for (int64_t i = 0; i < t.count(); ++i) {
      const uint64_t r = random_word_of(state);
      double v = double(r >> 40 & 15) - 8;
      auto n = int64_t(v);
      if (style == Style::index) n = first + int64_t(r % uint64_t(last - first + 1));
      if (style == Style::uniform) v = (double(r >> 11) * 0x1p-53 - 0.5) * 4, n = int64_t(r >> 20) % 101 - 50;
      if (style == Style::ramp) n = down ? t.count() - i : i - t.count() / 3, v = double(n) / 4;
      if (style == Style::same) v = same, n = int64_t(same);
      if (style == Style::limits)
        v = std::ldexp(double(r >> 11) * 0x1p-53 - 0.5, int(r % 41) - 20),
        n = int64_t(random_word_of(state)) >> (r % 60);
      if (style == Style::limits && r % 5 == 0) n = r % 2 ? INT64_MIN : INT64_MAX;
      if (style == Style::nonzero)
        v = (1 + double(r >> 41 & 7)) / (r % 2 ? 4 : -4), n = int64_t(r >> 41 & 7) + 1;
      if (is_float(t.dtype) && (style == Style::special || style == Style::ramp) &&
          random_word_of(state) % 6 == 0)
        v = special(t.dtype, random_word_of(state));
      if (is_float(t.dtype))
        store_f64(t.dtype, t.data.data(), i, style == Style::index ? double(n) : v);
      else
        store_i64(t.dtype, t.data.data(), i, t.dtype == DType::boolean ? n & 1 : n);
    }
    return t;
  }
};

} // namespace luminal::testing_ir
