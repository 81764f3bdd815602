// egg/egg_bignum.h -- integers of any size and their fractions, for the sorts BigInt and BigRat of
// rule programs.
#pragma once
#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace luminal::egraph {

/// Sign and magnitude. Schoolbook algorithms: meant for hundreds of digits, not for millions.
class BigInt {
public:
  BigInt() = default;
  BigInt(int64_t value); // NOLINT(google-explicit-constructor): an integer is one
  /// Digits, perhaps after a sign.
  static std::optional<BigInt> parse(std::string_view text);

  bool is_zero() const { return limbs_.empty(); }
  bool is_negative() const { return negative_; }
  uint64_t bit_count() const; ///< of the magnitude
  std::string text() const;
  std::optional<int64_t> to_int64() const;

  BigInt operator-() const;
  BigInt abs() const { return negative_ ? -*this : *this; }
  friend BigInt operator+(const BigInt& a, const BigInt& b);
  friend BigInt operator-(const BigInt& a, const BigInt& b) { return a + -b; }
  friend BigInt operator*(const BigInt& a, const BigInt& b);
  /// Towards zero; the divisor is not zero. The remainder has the sign of the dividend.
  static BigInt divide(const BigInt& a, const BigInt& b, BigInt& remainder);
  BigInt shifted_left(uint32_t bits) const;
  BigInt shifted_right(uint32_t bits) const; ///< towards minus infinity
  /// Of the two's complement: op is '&', '|' or '^'.
  static BigInt bitwise(char op, const BigInt& a, const BigInt& b);
  static BigInt gcd(BigInt a, BigInt b);
  BigInt root() const; ///< the integer square root of a number that is not negative

  bool operator==(const BigInt&) const = default;
  std::strong_ordering operator<=>(const BigInt& other) const;

private:
  using Limbs = std::vector<uint32_t>;
  static int compare(const Limbs& a, const Limbs& b);
  static Limbs add(const Limbs& a, const Limbs& b);
  static Limbs subtract(const Limbs& a, const Limbs& b); ///< a >= b
  static void trim(Limbs& limbs);
  Limbs complement(size_t size) const;
  static BigInt from(bool negative, Limbs limbs);

  bool negative_ = false;
  Limbs limbs_; ///< the least first, none for zero
};

/// In lowest terms, the denominator above zero.
class BigRational {
public:
  BigRational() = default;
  BigRational(BigInt numerator, BigInt denominator); ///< the denominator is not zero
  const BigInt& numerator() const { return numerator_; }
  const BigInt& denominator() const { return denominator_; }
  bool is_integer() const { return denominator_ == BigInt(1); }
  BigRational floor() const;
  BigRational round() const; ///< halves away from zero
  double to_double() const;  ///< nearest
  friend BigRational operator+(const BigRational& a, const BigRational& b);
  friend BigRational operator-(const BigRational& a) { return {-a.numerator_, a.denominator_}; }
  friend BigRational operator*(const BigRational& a, const BigRational& b);
  bool operator==(const BigRational&) const = default;
  std::strong_ordering operator<=>(const BigRational& other) const;

private:
  BigInt numerator_, denominator_ = 1;
};

} // namespace luminal::egraph
