// egg/egg_bignum.h -- integers of any size and their fractions, for the sorts BigInt and BigRat of
// rule programs: the numbers of Boost.Multiprecision, and what rule programs ask beyond it.
#pragma once
#include <boost/multiprecision/cpp_int.hpp>
#include <cstdint>
#include <optional>
#include <string_view>

namespace luminal::egraph {

/// Without expression templates: each operation gives a number.
using BigInt =
    boost::multiprecision::number<boost::multiprecision::cpp_int_backend<>, boost::multiprecision::et_off>;
/// In lowest terms, the denominator above zero.
using BigRational = boost::multiprecision::number<
    boost::multiprecision::rational_adaptor<boost::multiprecision::cpp_int_backend<>>,
    boost::multiprecision::et_off>;

/// n / d; d is not zero. The constructor of BigRational refuses a negative d in Boost 1.74.
BigRational fraction(const BigInt& n, const BigInt& d);
/// Decimal digits, perhaps after a sign.
std::optional<BigInt> parse_big_int(std::string_view text);
/// The number of bits of the magnitude: 0 for zero.
uint64_t bit_count(const BigInt& x);
std::optional<int64_t> to_int64(const BigInt& x);

bool is_integer(const BigRational& x);
BigInt floor_of(const BigRational& x);
/// To the nearest integer, halves away from zero.
BigInt round_of(const BigRational& x);
/// The nearest double, ties to even; infinite where it is too large.
double nearest_double(const BigRational& x);

} // namespace luminal::egraph
