// egg/egg_bignum.cpp -- text, rounding and conversion of big integers and fractions.
#include "egg/egg_bignum.h"
#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

namespace luminal::egraph {

BigRational fraction(const BigInt& n, const BigInt& d) {
  return d < 0 ? BigRational(-n, -d) : BigRational(n, d);
}

std::optional<BigInt> parse_big_int(std::string_view text) {
  const bool negative = text.starts_with('-');
  if (negative || text.starts_with('+')) text.remove_prefix(1);
  if (text.empty() || text.find_first_not_of("0123456789") != std::string_view::npos) return std::nullopt;
  // Boost reads digits after a leading zero as octal.
  text.remove_prefix(std::min(text.find_first_not_of('0'), text.size() - 1));
  const BigInt magnitude{std::string(text)};
  return negative ? BigInt(-magnitude) : magnitude;
}

uint64_t bit_count(const BigInt& x) { return x.is_zero() ? 0 : msb(abs(x)) + 1; }

std::optional<int64_t> to_int64(const BigInt& x) {
  using Limits = std::numeric_limits<int64_t>;
  if (x < Limits::min() || x > Limits::max()) return std::nullopt;
  return static_cast<int64_t>(x);
}

bool is_integer(const BigRational& x) { return denominator(x) == 1; }

BigInt floor_of(const BigRational& x) {
  const BigInt n = numerator(x), d = denominator(x);
  BigInt quotient, rest;
  divide_qr(n, d, quotient, rest);
  return rest < 0 ? BigInt(quotient - 1) : quotient;
}

BigInt round_of(const BigRational& x) {
  const BigRational half(1, 2);
  return x < 0 ? BigInt(-floor_of(half - x)) : floor_of(x + half);
}

double nearest_double(const BigRational& x) {
  if (x.is_zero()) return 0;
  const BigInt n = abs(numerator(x)), d = denominator(x);
  // A quotient of 66 or 67 bits, whose lowest bit also stands for what is left: then the one
  // rounding of its conversion is the right one.
  const int64_t shift = 66 - static_cast<int64_t>(bit_count(n)) + static_cast<int64_t>(bit_count(d));
  BigInt quotient, rest;
  divide_qr(BigInt(n << std::max<int64_t>(shift, 0)), BigInt(d << std::max<int64_t>(-shift, 0)), quotient,
            rest);
  const auto bits = static_cast<unsigned __int128>(quotient) | (rest.is_zero() ? 0 : 1);
  const double value =
      std::ldexp(static_cast<double>(bits), static_cast<int>(std::clamp<int64_t>(-shift, -5000, 5000)));
  return x < 0 ? -value : value;
}

} // namespace luminal::egraph
