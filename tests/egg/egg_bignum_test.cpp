// egg/egg_bignum_test.cpp -- big integers against 128-bit ones and against their own laws;
// fractions.
#include "egg/egg_bignum.h"
#include <cmath>
#include <gtest/gtest.h>
#include <random>

namespace luminal::egraph {
namespace {

/// A number of up to `limbs` words, with runs of zeros and ones, which is where carries go wrong.
BigInt random_number(std::mt19937_64& random, int limbs) {
  BigInt out;
  for (int i = static_cast<int>(random() % static_cast<uint64_t>(limbs + 1)); i > 0; --i) {
    const uint64_t kind = random() % 4;
    const int64_t word = kind == 0 ? 0 : kind == 1 ? 0xffffffff : static_cast<int64_t>(random() & 0xffffffff);
    out = out.shifted_left(32) + BigInt(word);
  }
  return random() % 2 == 0 ? out : -out;
}

TEST(BigInt, DividesSoThatQuotientAndRemainderGiveBack) {
  std::mt19937_64 random(7);
  for (int i = 0; i < 20000; ++i) {
    const BigInt a = random_number(random, 8), b = random_number(random, 5);
    if (b.is_zero()) continue;
    BigInt rest;
    const BigInt quotient = BigInt::divide(a, b, rest);
    ASSERT_EQ(quotient * b + rest, a) << a.text() << " / " << b.text();
    ASSERT_LT(rest.abs(), b.abs());
    ASSERT_TRUE(rest.is_zero() || rest.is_negative() == a.is_negative());
  }
}

TEST(BigInt, AgreesWithMachineIntegers) {
  std::mt19937_64 random(8);
  for (int i = 0; i < 20000; ++i) {
    const auto x = static_cast<int64_t>(random()) >> (random() % 63),
               y = static_cast<int64_t>(random()) >> (random() % 63);
    const BigInt a(x), b(y);
    ASSERT_EQ(a.text(), std::to_string(x));
    ASSERT_EQ(a.to_int64(), x);
    ASSERT_EQ(a < b, x < y);
    ASSERT_EQ(BigInt::bitwise('&', a, b), BigInt(x & y));
    ASSERT_EQ(BigInt::bitwise('|', a, b), BigInt(x | y));
    ASSERT_EQ(BigInt::bitwise('^', a, b), BigInt(x ^ y));
    const auto bits = static_cast<uint32_t>(random() % 70);
    ASSERT_EQ(a.shifted_right(bits), BigInt(bits > 63 ? (x < 0 ? -1 : 0) : x >> bits));
    ASSERT_EQ(a.shifted_left(bits).shifted_right(bits), a);
    int64_t sum = 0, product = 0;
    if (!__builtin_add_overflow(x, y, &sum)) {
      ASSERT_EQ(a + b, BigInt(sum));
    }
    if (!__builtin_mul_overflow(x, y, &product)) {
      ASSERT_EQ(a * b, BigInt(product));
    }
  }
}

TEST(BigInt, TextReadsBack) {
  std::mt19937_64 random(9);
  for (int i = 0; i < 3000; ++i) {
    const BigInt a = random_number(random, 20);
    ASSERT_EQ(BigInt::parse(a.text()), a);
  }
  EXPECT_EQ(BigInt::parse("-0")->text(), "0");
  EXPECT_EQ(BigInt::parse("+00012")->text(), "12");
  for (const char* bad : {"", "-", "1x", " 1", "1.0"}) EXPECT_FALSE(BigInt::parse(bad)) << bad;
}

TEST(BigInt, RootsAndCommonDivisors) {
  std::mt19937_64 random(10);
  for (int i = 0; i < 2000; ++i) {
    const BigInt a = random_number(random, 6).abs(), b = random_number(random, 4), root = a.root();
    ASSERT_LE(root * root, a);
    ASSERT_GT((root + BigInt(1)) * (root + BigInt(1)), a);
    const BigInt common = BigInt::gcd(a * b, b * BigInt(6));
    if (b.is_zero()) continue;
    BigInt rest;
    BigInt::divide(common, b, rest);
    ASSERT_TRUE(rest.is_zero());
  }
}

TEST(BigRational, KeepsLowestTermsAndOrder) {
  const BigRational a(6, -4), b(1, 3);
  EXPECT_EQ(a.numerator(), BigInt(-3));
  EXPECT_EQ(a.denominator(), BigInt(2));
  EXPECT_EQ(a + b, BigRational(-7, 6));
  EXPECT_EQ(a * b, BigRational(-1, 2));
  EXPECT_LT(a, b);
  EXPECT_EQ(a.floor(), BigRational(-2, 1));
  EXPECT_EQ(a.round(), BigRational(-2, 1));
  EXPECT_EQ(BigRational(5, 2).round(), BigRational(3, 1));
}

TEST(BigRational, GivesTheNearestDouble) {
  std::mt19937_64 random(11);
  for (int i = 0; i < 5000; ++i) {
    // A double is a fraction whose double it is; a little more or less than half a step rounds as
    // it should.
    const double x = std::ldexp(static_cast<double>(random() >> 11), static_cast<int>(random() % 200) - 150);
    int exponent = 0;
    const double fraction = std::frexp(x, &exponent);
    const BigInt mantissa(static_cast<int64_t>(std::ldexp(fraction, 53)));
    const int shift = exponent - 53;
    const auto up = static_cast<uint32_t>(std::max(shift, 0)),
               down = static_cast<uint32_t>(std::max(-shift, 0));
    const BigInt n = mantissa.shifted_left(up), d = BigInt(1).shifted_left(down);
    ASSERT_EQ(BigRational(n, d).to_double(), x);
    ASSERT_EQ(BigRational(n * BigInt(1000000007) + BigInt(1), d * BigInt(1000000007)).to_double() >= x, true);
  }
  EXPECT_EQ(BigRational(1, 3).to_double(), 1.0 / 3.0);
  EXPECT_EQ(BigRational(-2, 3).to_double(), -2.0 / 3.0);
  EXPECT_EQ(BigRational(BigInt(1).shifted_left(2000), 1).to_double(), HUGE_VAL);
  EXPECT_EQ(BigRational(1, BigInt(1).shifted_left(2000)).to_double(), 0.0);
  // 2^53 + 1 lies between two doubles; the even one is taken, and the next one if there is anything
  // more.
  EXPECT_EQ(BigRational((int64_t(1) << 53) + 1, 1).to_double(), 0x1p53);
  EXPECT_EQ(
      BigRational((BigInt(1).shifted_left(53) + BigInt(1)) * BigInt(1000) + BigInt(1), 1000).to_double(),
      0x1p53 + 2);
}

} // namespace
} // namespace luminal::egraph
