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
    out = (out << 32) + word;
  }
  return random() % 2 == 0 ? out : -out;
}

TEST(BigInt, DividesSoThatQuotientAndRemainderGiveBack) {
  std::mt19937_64 random(7);
  for (int i = 0; i < 20000; ++i) {
    const BigInt a = random_number(random, 8), b = random_number(random, 5);
    if (b.is_zero()) continue;
    const BigInt quotient = a / b, rest = a % b;
    ASSERT_EQ(quotient * b + rest, a) << a << " / " << b;
    ASSERT_LT(abs(rest), abs(b));
    ASSERT_TRUE(rest.is_zero() || (rest < 0) == (a < 0));
  }
}

TEST(BigInt, AgreesWithMachineIntegers) {
  std::mt19937_64 random(8);
  for (int i = 0; i < 20000; ++i) {
    const auto x = static_cast<int64_t>(random()) >> (random() % 63),
               y = static_cast<int64_t>(random()) >> (random() % 63);
    const BigInt a(x), b(y);
    ASSERT_EQ(a.str(), std::to_string(x));
    ASSERT_EQ(to_int64(a), x);
    ASSERT_EQ(a < b, x < y);
    ASSERT_EQ(BigInt(a & b), BigInt(x & y));
    ASSERT_EQ(BigInt(a | b), BigInt(x | y));
    ASSERT_EQ(BigInt(a ^ b), BigInt(x ^ y));
    const auto bits = random() % 70;
    ASSERT_EQ(BigInt(a >> bits), BigInt(bits > 63 ? (x < 0 ? -1 : 0) : x >> bits));
    ASSERT_EQ(BigInt((a << bits) >> bits), a);
    ASSERT_EQ(bit_count(a << bits), a.is_zero() ? 0 : bit_count(a) + bits);
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
    ASSERT_EQ(parse_big_int(a.str()), a);
  }
  EXPECT_EQ(parse_big_int("-0")->str(), "0");
  EXPECT_EQ(parse_big_int("+00012")->str(), "12");
  for (const char* bad : {"", "-", "1x", " 1", "1.0"}) EXPECT_FALSE(parse_big_int(bad)) << bad;
}

TEST(BigInt, SixtyFourBitsAndNoMore) {
  const BigInt least(std::numeric_limits<int64_t>::min()), most(std::numeric_limits<int64_t>::max());
  EXPECT_EQ(to_int64(least), std::numeric_limits<int64_t>::min());
  EXPECT_EQ(to_int64(most), std::numeric_limits<int64_t>::max());
  EXPECT_FALSE(to_int64(least - 1));
  EXPECT_FALSE(to_int64(most + 1));
}

TEST(BigRational, KeepsLowestTermsAndOrder) {
  const BigRational a = fraction(6, -4), b(1, 3);
  EXPECT_EQ(numerator(a), -3);
  EXPECT_EQ(denominator(a), 2);
  EXPECT_EQ(a + b, BigRational(-7, 6));
  EXPECT_EQ(a * b, BigRational(-1, 2));
  EXPECT_EQ(b / a, BigRational(-2, 9));
  EXPECT_LT(a, b);
  EXPECT_EQ(floor_of(a), -2);
  EXPECT_EQ(round_of(a), -2);
  EXPECT_EQ(floor_of(BigRational(7, 2)), 3);
  EXPECT_EQ(floor_of(BigRational(-4)), -4);
  EXPECT_EQ(round_of(BigRational(5, 2)), 3);
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
    const BigInt n = mantissa << std::max(shift, 0), d = BigInt(1) << std::max(-shift, 0);
    ASSERT_EQ(nearest_double(BigRational(n, d)), x);
    ASSERT_GE(nearest_double(BigRational(n * 1000000007 + 1, d * 1000000007)), x);
  }
  EXPECT_EQ(nearest_double(BigRational(1, 3)), 1.0 / 3.0);
  EXPECT_EQ(nearest_double(BigRational(-2, 3)), -2.0 / 3.0);
  EXPECT_EQ(nearest_double(BigRational(BigInt(1) << 2000)), HUGE_VAL);
  EXPECT_EQ(nearest_double(BigRational(1, BigInt(1) << 2000)), 0.0);
  // 2^53 + 1 lies between two doubles; the even one is taken, and the next one if there is anything
  // more.
  EXPECT_EQ(nearest_double(BigRational((int64_t(1) << 53) + 1)), 0x1p53);
  EXPECT_EQ(nearest_double(BigRational(((BigInt(1) << 53) + 1) * 1000 + 1, 1000)), 0x1p53 + 2);
}

} // namespace
} // namespace luminal::egraph
