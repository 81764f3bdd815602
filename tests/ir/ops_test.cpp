// tests/ir/ops_test.cpp -- every row of the op table: closed forms, definitions, derivatives,
// spreads, the exact mode, types.
#include "ir/exact.h"
#include "ir/ops.h"
#include "ir/scalar.h"
#include "luminal/error.h"
#include <cmath>
#include <gtest/gtest.h>
#include <random>

namespace luminal {
namespace {

struct Random {
  explicit Random(uint64_t seed) : engine(seed) {}
  double uniform(double low, double high) { return low + (high - low) * double(engine() >> 11) * 0x1p-53; }
  std::mt19937_64 engine;
};
double f(Op op, DType type, std::initializer_list<double> x) { return apply_f64(op, type, x.begin()); }
int64_t i(Op op, DType type, std::initializer_list<int64_t> x) { return apply_i64(op, type, x.begin()); }
constexpr DType floats[] = {DType::f8e4m3, DType::f8e5m2, DType::bf16, DType::f16, DType::f32, DType::f64};
constexpr DType integers[] = {DType::i4,  DType::u4,  DType::i8,  DType::u8,  DType::i16,
                              DType::u16, DType::i32, DType::u32, DType::i64, DType::u64};

TEST(Ops, NamesAreFound) {
  for (int k = 0; k < op_count; ++k) {
    EXPECT_EQ(Op(k), parse_op(to_string(Op(k))));
    EXPECT_EQ(!row(Op(k)).monoid.empty(),
              row(Op(k)).monoid.size() && parse_monoid_word(row(Op(k)).monoid) == Op(k));
  }
  EXPECT_FALSE(parse_op("frobnicate"));
  EXPECT_EQ(Op::bit_or, parse_monoid_word("any"));
}

TEST(Ops, Floats) {
  const DType t = DType::f32;
  EXPECT_EQ(2.5, f(Op::add, t, {1, 1.5}));
  EXPECT_EQ(double(0.1f + 0.2f), f(Op::add, t, {0.1f, 0.2f}));
  EXPECT_EQ(0.75, f(Op::div, t, {3, 4}));
  EXPECT_EQ(1.5, f(Op::rem, t, {-2.5, 4}));
  EXPECT_EQ(-1.5, f(Op::rem, t, {2.5, -4}));
  EXPECT_TRUE(std::isnan(f(Op::rem, t, {1, 0})));
  EXPECT_EQ(2, f(Op::round, t, {2.5}));
  EXPECT_EQ(4, f(Op::round, t, {3.5}));
  EXPECT_EQ(-1, f(Op::trunc, t, {-1.75}));
  EXPECT_EQ(-2, f(Op::floor, t, {-1.75}));
  EXPECT_EQ(-1, f(Op::ceil, t, {-1.75}));
  EXPECT_EQ(12, f(Op::ldexp, t, {3, 2}));
  EXPECT_EQ(0x1p-149, f(Op::ldexp, t, {1, -149}));
  EXPECT_EQ(0, f(Op::ldexp, t, {1, -INFINITY}));
  EXPECT_EQ(3, f(Op::select, t, {1, 3, NAN}));
  EXPECT_EQ(1, f(Op::is_nan, t, {NAN}));
  for (Op op : {Op::min, Op::max, Op::add, Op::mul, Op::rem, Op::pow}) {
    EXPECT_TRUE(std::isnan(f(op, t, {NAN, 1}))) << to_string(op);
    EXPECT_TRUE(std::isnan(f(op, t, {1, NAN}))) << to_string(op);
  }
  for (Op op : {Op::lt, Op::le, Op::eq}) EXPECT_EQ(0, f(op, t, {NAN, NAN}));
  EXPECT_EQ(1, f(Op::ne, t, {NAN, NAN}));
  EXPECT_EQ(INFINITY, f(Op::exp, t, {100}));
  EXPECT_EQ(-INFINITY, f(Op::log2, t, {0}));
  EXPECT_EQ(0, f(Op::sigmoid, t, {-INFINITY}));
  EXPECT_TRUE(std::isnan(f(Op::mul, t, {0, INFINITY})));
}

TEST(Ops, FmaRoundsOnce) {
  Random random(11);
  for (int k = 0; k < 300000; ++k) {
    auto pick = [&] { return float(std::ldexp(random.uniform(-1, 1), int(random.engine() % 40) - 20)); };
    float a = pick(), b = pick(), c = k % 3 ? pick() : -a * b; // near cancellation, too
    ASSERT_EQ(std::fmaf(a, b, c), float(f(Op::fma, DType::f32, {a, b, c}))) << a << " " << b << " " << c;
  }
}

TEST(Ops, Integers) {
  EXPECT_EQ(-128, i(Op::add, DType::i8, {127, 1}));
  EXPECT_EQ(0, i(Op::add, DType::u8, {255, 1}));
  EXPECT_EQ(-2, i(Op::div, DType::i32, {-3, 2}));
  EXPECT_EQ(1, i(Op::rem, DType::i32, {-3, 2}));
  EXPECT_EQ(-1, i(Op::rem, DType::i32, {3, -2}));
  EXPECT_EQ(0, i(Op::div, DType::i32, {7, 0}));
  EXPECT_EQ(7, i(Op::rem, DType::i32, {7, 0}));
  EXPECT_EQ(INT64_MIN, i(Op::div, DType::i64, {INT64_MIN, -1}));
  EXPECT_EQ(0, i(Op::rem, DType::i64, {INT64_MIN, -1}));
  EXPECT_EQ(-128, i(Op::abs, DType::i8, {-128}));
  EXPECT_EQ(1, i(Op::lt, DType::i64, {-1, 1}));
  EXPECT_EQ(0, i(Op::lt, DType::u64, {-1, 1}));
  EXPECT_EQ(-1, i(Op::max, DType::u64, {-1, 1}));
  EXPECT_EQ(int64_t(UINT64_MAX / 3), i(Op::div, DType::u64, {-1, 3}));
  EXPECT_EQ(0, i(Op::shl, DType::i32, {1, 32}));
  EXPECT_EQ(INT32_MIN, i(Op::shl, DType::i32, {1, 31}));
  EXPECT_EQ(-1, i(Op::shr, DType::i8, {-128, 8}));
  EXPECT_EQ(0, i(Op::shr, DType::u8, {128, 8}));
  EXPECT_EQ(1, i(Op::shr, DType::u64, {INT64_MIN, 63}));
  EXPECT_EQ(0, i(Op::bit_not, DType::boolean, {1}));
  EXPECT_EQ(254, i(Op::bit_not, DType::u8, {1}));
  for (DType t : integers) // the law that defines div and rem
    for (int64_t a = -20; a <= 20; ++a)
      for (int64_t b = -20; b <= 20; ++b) {
        int64_t x = wrap(t, a), y = wrap(t, b);
        int64_t q = i(Op::div, t, {x, y}), r = i(Op::rem, t, {x, y});
        EXPECT_EQ(x, i(Op::add, t, {i(Op::mul, t, {q, y}), r}));
        if (y) {
          EXPECT_TRUE(r == 0 || i(Op::lt, t, {r, 0}) == i(Op::lt, t, {y, 0}));
        }
      }
}

TEST(Ops, AssociativeAndCommutativeFlags) {
  Random random(5);
  for (int k = 0; k < op_count; ++k) {
    const OpRow& r = row(Op(k));
    if (!r.commutative && !r.associative) continue;
    for (int n = 0; n < 50 && r.i64 && r.signature != Signature::choice; ++n) {
      int64_t a = int64_t(random.engine() % 1000) - 500, b = int64_t(random.engine() % 1000) - 500,
              c = int64_t(random.engine() % 1000);
      EXPECT_EQ(i(Op(k), DType::i32, {a, b}), i(Op(k), DType::i32, {b, a})) << r.name;
      if (r.associative) {
        EXPECT_EQ(i(Op(k), DType::i32, {i(Op(k), DType::i32, {a, b}), c}),
                  i(Op(k), DType::i32, {a, i(Op(k), DType::i32, {b, c})}))
            << r.name;
      }
    }
  }
}

TEST(Ops, DefinitionsComputeTheSameFunction) {
  Random random(1);
  for (int k = 0; k < op_count; ++k) {
    const OpRow& r = row(Op(k));
    const Scalar* d = definition(Op(k));
    if (!d) continue;
    for (int n = 0; n < 2000; ++n) {
      double x[3];
      for (double& v : x) v = random.uniform(r.low, r.high);
      double own = r.f64(x), defined = evaluate_f64(*d, x), unfolded = evaluate_f64(unfold(*d), x);
      double allowed =
          std::fmax(r.definition_error * 4, 1e-14) * std::fmax(std::fabs(own), std::fmax(r.ulp_scale, 1e-3));
      ASSERT_LE(std::fabs(own - defined), allowed) << r.name << " at " << x[0] << " " << x[1];
      ASSERT_LE(std::fabs(own - unfolded), std::fmax(allowed, 1e-6 * (unfolded != defined)))
          << r.name << " at " << x[0];
    }
    for (double v : {0.0, 1.0, -1.0, 30.0, -30.0}) { // and away from the range
      double x[2] = {v, 2};
      double own = r.f64(x), defined = evaluate_f64(*d, x);
      if (!std::isfinite(own)) continue;
      EXPECT_NEAR(own, defined, 1e-7 * std::fmax(1, std::fabs(own))) << r.name << " at " << v;
    }
    double nan[2] = {NAN, 1};
    EXPECT_TRUE(std::isnan(evaluate_f64(*d, nan))) << r.name;
  }
}

TEST(Ops, DerivativesMatchDifferences) {
  Random random(2);
  int tested = 0;
  for (int k = 0; k < op_count; ++k) {
    const OpRow& r = row(Op(k));
    for (int arg = 0; arg < r.arity; ++arg) {
      const Scalar* d = derivative(Op(k), arg);
      if (!d) continue;
      ++tested;
      for (int n = 0; n < 100; ++n) {
        double x[4];
        for (double& v : x) v = random.uniform(r.low, r.high);
        if (r.signature == Signature::choice) x[0] = n % 2;
        if (Op(k) == Op::ldexp) x[1] = std::nearbyint(x[1]);
        if (Op(k) == Op::rem && std::fabs(x[1]) < 0.5) continue;
        double h = 1e-6, up[3] = {x[0], x[1], x[2]}, down[3] = {x[0], x[1], x[2]};
        up[arg] += h, down[arg] -= h;
        double slope = (r.f64(up) - r.f64(down)) / (2 * h);
        x[r.arity] = 0;
        double frame[4] = {x[0], x[1], x[2], r.f64(x)};
        double found = evaluate_f64(*d, frame);
        if (Op(k) == Op::rem && std::fabs(slope) > 1e4) continue; // a jump between the two points
        ASSERT_NEAR(slope, found, 1e-4 * std::fmax(1, std::fabs(slope)))
            << r.name << " argument " << arg << " at " << x[0] << " " << x[1];
      }
    }
  }
  EXPECT_GT(tested, 40);
}

TEST(Ops, SpreadHoldsForPerturbedArguments) {
  Random random(3);
  for (int k = 0; k < op_count; ++k) {
    const OpRow& r = row(Op(k));
    if (r.signature != Signature::numeric && r.signature != Signature::floating) continue;
    ASSERT_TRUE(r.spread) << r.name;
    for (int n = 0; n < 3000; ++n) {
      double x[3], e[3], y[3];
      for (int a = 0; a < 3; ++a) {
        x[a] = random.uniform(r.low - 0.5, r.high);
        e[a] = n % 3 == 0 ? 0 : std::ldexp(random.uniform(0, 1), -int(random.engine() % 50));
        y[a] = x[a] + random.uniform(-1, 1) * e[a];
      }
      double out = r.f64(x), moved = r.f64(y), bound = r.spread(x, e, out);
      if (std::isnan(out) || std::isnan(moved)) continue;
      ASSERT_FALSE(std::isnan(bound)) << r.name;
      ASSERT_LE(std::fabs(moved - out), bound * (1 + 1e-9) + 1e-15 + 4e-15 * std::fabs(out))
          << r.name << " at " << x[0] << " " << x[1] << " +- " << e[0] << " " << e[1];
    }
  }
}

TEST(Ops, ExactModeKnowsTheIdentities) {
  Random random(4);
  auto ex = [](Op op, std::initializer_list<Exact> x) { return apply_exact(op, x.begin()); };
  for (int n = 0; n < 200; ++n) {
    Exact a = exact_from(random.uniform(-4, 4)), b = exact_from(random.uniform(-4, 4)),
          c = exact_from(random.uniform(-4, 4));
    Exact one = exact_from(1), half = exact_from(0.5);
    EXPECT_TRUE(exact_equal(ex(Op::mul, {a, ex(Op::add, {b, c})}),
                            ex(Op::add, {ex(Op::mul, {a, b}), ex(Op::mul, {a, c})})));
    EXPECT_TRUE(exact_equal(ex(Op::mul, {ex(Op::div, {a, b}), b}), a));
    EXPECT_TRUE(exact_equal(ex(Op::mul, {ex(Op::exp2, {a}), ex(Op::exp2, {b})}),
                            ex(Op::exp2, {ex(Op::add, {a, b})})));
    EXPECT_TRUE(exact_equal(ex(Op::mul, {ex(Op::exp, {a}), ex(Op::exp, {ex(Op::neg, {a})})}), one));
    EXPECT_TRUE(exact_equal(ex(Op::sqrt, {ex(Op::exp2, {a})}), ex(Op::exp2, {ex(Op::mul, {a, half})})));
    EXPECT_TRUE(exact_equal(ex(Op::exp2, {exact_from(3)}), exact_from(8)));
    EXPECT_TRUE(exact_equal(ex(Op::exp2, {exact_from(-2)}), exact_from(0.25)));
    EXPECT_TRUE(exact_equal(
        ex(Op::tanh, {a}),
        ex(Op::sub,
           {ex(Op::mul, {exact_from(2), ex(Op::sigmoid, {ex(Op::mul, {exact_from(2), a})})}), one})));
    EXPECT_TRUE(exact_equal(ex(Op::sin, {ex(Op::neg, {a})}), ex(Op::neg, {ex(Op::sin, {a})})));
    Exact positive = ex(Op::abs, {a}), other = ex(Op::abs, {b});
    EXPECT_TRUE(exact_equal(ex(Op::mul, {ex(Op::sqrt, {positive}), ex(Op::sqrt, {other})}),
                            ex(Op::sqrt, {ex(Op::mul, {positive, other})})));
    EXPECT_TRUE(exact_equal(ex(Op::pow, {a, exact_from(3)}), ex(Op::mul, {a, ex(Op::mul, {a, a})})));
    Exact root = ex(Op::sqrt, {positive});
    EXPECT_TRUE(root.doubtful || exact_equal(ex(Op::mul, {root, root}), positive));
    // and tells different functions apart
    EXPECT_FALSE(exact_equal(ex(Op::mul, {a, b}), ex(Op::add, {a, b})));
    EXPECT_FALSE(exact_equal(ex(Op::sin, {a}), ex(Op::cos, {a})));
    EXPECT_FALSE(exact_equal(ex(Op::exp2, {ex(Op::mul, {a, b})}),
                             ex(Op::mul, {ex(Op::exp2, {a}), ex(Op::exp2, {b})})));
  }
  EXPECT_TRUE(exact_equal(ex(Op::sqrt, {exact_from(9)}), exact_from(3)));
  EXPECT_TRUE(exact_equal(ex(Op::exp2, {exact_from(-INFINITY)}), exact_from(0)));
  EXPECT_EQ(Exact::Kind::nan, ex(Op::mul, {exact_from(0), exact_from(INFINITY)}).kind);
  EXPECT_EQ(Exact::Kind::minus_infinity, ex(Op::log2, {exact_from(0)}).kind);
}

TEST(Ops, ExactShadowsFollowTheFloats) {
  Random random(6);
  for (int k = 0; k < op_count; ++k) {
    const OpRow& r = row(Op(k));
    if (!r.f64) continue;
    for (int n = 0; n < 200; ++n) {
      Exact e[3];
      double x[3];
      for (int a = 0; a < 3; ++a)
        x[a] = r.signature == Signature::choice && a == 0 ? n % 2 : random.uniform(r.low, r.high),
        e[a] = exact_from(x[a]);
      double own = r.f64(x);
      Exact found = apply_exact(Op(k), e);
      if (std::isnan(own))
        EXPECT_EQ(Exact::Kind::nan, found.kind) << r.name;
      else
        EXPECT_NEAR(own, found.shadow, 1e-6 * std::fmax(1, std::fabs(own)))
            << r.name << " at " << x[0] << " " << x[1];
    }
  }
}

TEST(Ops, ResultTypes) {
  std::string why;
  DType mixed[3] = {DType::f32, DType::i32, DType::f32};
  EXPECT_FALSE(result_type(row(Op::add), mixed, &why));
  EXPECT_EQ("expected integers or floats of one type, found f32, i32", why);
  for (DType t : floats) {
    DType same[3] = {t, t, t};
    EXPECT_EQ(t, result_type(row(Op::fma), same));
    EXPECT_EQ(DType::boolean, result_type(row(Op::lt), same));
    EXPECT_FALSE(result_type(row(Op::bit_and), same));
    EXPECT_FALSE(result_type(row(Op::select), same));
  }
  DType choice[3] = {DType::boolean, DType::u8, DType::u8};
  EXPECT_EQ(DType::u8, result_type(row(Op::select), choice));
}

TEST(Ops, WorkAgreesWithTheError) {
  for (int k = 0; k < op_count; ++k) {
    const OpRow& r = row(Op(k));
    // What is not correctly rounded is made of several instructions.
    EXPECT_EQ(r.ulp > 0.5, is_long_chain(r.op)) << r.name;
    EXPECT_GE(r.vector_cost, 1) << r.name;
    if (is_long_chain(r.op)) {
      EXPECT_GE(r.vector_cost, 8) << r.name;
    }
    if (is_transcendental(r.op)) {
      EXPECT_EQ(Signature::floating, r.signature) << r.name;
    }
    if (r.op_class == OpClass::simple) {
      EXPECT_LE(r.ulp, 0.5) << r.name;
    }
  }
  EXPECT_TRUE(is_transcendental(Op::sin));
  EXPECT_FALSE(is_transcendental(Op::rsqrt));
  EXPECT_FALSE(is_long_chain(Op::fma));
}

TEST(Ops, TextsNameEveryArgument) {
  for (int k = 0; k < op_count; ++k) {
    const OpRow& r = row(Op(k));
    EXPECT_TRUE(!r.c_float.empty() || !r.c_int.empty()) << r.name;
    EXPECT_EQ(r.f64 != nullptr, !r.c_float.empty()) << r.name;
    for (std::string_view text : {r.c_float, r.c_int})
      for (int a = 0; a < r.arity && !text.empty(); ++a)
        EXPECT_NE(std::string::npos, text.find(std::string{'{', char('a' + a), '}'})) << r.name;
  }
}

TEST(Ops, UserOperations) {
  UserOp cube{.name = "cube",
              .arity = 1,
              .f64 = [](const double* x) { return x[0] * x[0] * x[0]; },
              .definition = "a * a * a",
              .doc = "a^3"};
  register_op(cube);
  register_op(cube); // again: the same
  ASSERT_TRUE(find_user_op("cube"));
  EXPECT_FALSE(find_user_op("square"));
  UserOp other = cube;
  other.definition = "a * a";
  EXPECT_THROW(register_op(other), Error); // does not agree with its evaluation
  other = cube;
  other.name = "exp";
  EXPECT_THROW(register_op(other), Error);
  other.name = "has space";
  EXPECT_THROW(register_op(other), Error);
  other.name = "nothing";
  other.definition.clear();
  EXPECT_THROW(register_op(other), Error);
}

} // namespace
} // namespace luminal
