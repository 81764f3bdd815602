// tests/ir/scalar_test.cpp -- scalar programs: text there and back, types, values.
#include "ir/scalar.h"
#include "luminal/error.h"
#include <cmath>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <random>

namespace luminal {
namespace {

const std::vector<std::string> names = {"self", "old0", "new0"};

std::string again(std::string_view text) { return to_string(parse_scalar(text, names), names); }

TEST(Scalar, PrintsWhatItParses) {
  for (std::string text : {"self",
                           "self + old0 * new0",
                           "(self + old0) * new0",
                           "self - (old0 - new0)",
                           "self - old0 - new0",
                           "-self",
                           "-(self + 1)",
                           "neg(1)",
                           "-1",
                           "self - -1",
                           "select(old0 == -inf, 0, self * exp2(old0 - new0))",
                           "cast<f32>(self) / 0.5",
                           "(self < old0) == (new0 < 1)",
                           "-(-self)",
                           "nan",
                           "1e-30",
                           "0.1",
                           "bit_and(self, 3)",
                           "fma(self, old0, new0)",
                           "self / (old0 / new0)"})
    EXPECT_EQ(text, again(text));
  EXPECT_EQ("old0 < self", again("self > old0"));
  EXPECT_EQ("old0 <= self", again("ge(self, old0)"));
  EXPECT_EQ("self * old0", again("((self)) * (old0) # product"));
}

TEST(Scalar, EqualSubexpressionsAreOneNode) {
  Scalar s = parse_scalar("(self + 1) * (self + 1)", names);
  EXPECT_EQ(4u, s.nodes().size());
  EXPECT_EQ(s, parse_scalar("(self + 1) * (self + 1)", names));
  EXPECT_NE(s, parse_scalar("(self + 1) * (1 + self)", names));
  EXPECT_TRUE(parse_scalar("self", names).is_leaf(0));
  EXPECT_TRUE(s.reads(0));
  EXPECT_FALSE(s.reads(1));
  Scalar t = s.substitute({parse_scalar("old0 - 1", names)});
  EXPECT_EQ("(old0 - 1 + 1) * (old0 - 1 + 1)", to_string(t, names));
}

TEST(Scalar, Mistakes) {
  auto text_of = [](std::string_view text) -> std::string {
    try {
      parse_scalar(text, names);
    } catch (const Error& error) {
      return error.what();
    }
    return "accepted";
  };
  EXPECT_THAT(text_of("self +"), testing::HasSubstr("1:7"));
  EXPECT_THAT(text_of("frob(self)"),
              testing::HasSubstr("'frob' is neither an operation nor one of self, old0, new0"));
  EXPECT_THAT(text_of("max(self)"), testing::HasSubstr("'max' takes 2 arguments, found 1"));
  EXPECT_THAT(text_of("cast<f31>(self)"), testing::HasSubstr("'f31' is not a type"));
  EXPECT_THAT(text_of("self self"), testing::HasSubstr("expected"));
  EXPECT_THAT(text_of(std::string(5000, '(')), testing::HasSubstr("nested too deeply"));
  EXPECT_THAT(text_of(std::string(5000, '-')), testing::HasSubstr("nested too deeply"));
  std::string longer = "self";
  for (int i = 0; i < 5000; ++i) longer += " + " + std::to_string(i);
  EXPECT_THAT(text_of(longer), testing::HasSubstr("more than"));
}

TEST(Scalar, RandomProgramsComeBack) {
  std::mt19937_64 random(20);
  auto pick = [&](uint64_t n) { return random() % n; };
  std::function<Scalar(int)> make = [&](int depth) -> Scalar {
    if (depth == 0 || pick(5) == 0) {
      const double constants[] = {0, 1, -1, 0.1, -0.0, INFINITY, -INFINITY, 1e300, 0x1p-1074, -3.5};
      return pick(2) ? Scalar::leaf(int(pick(3))) : Scalar::constant(constants[pick(10)]);
    }
    if (pick(8) == 0) return Scalar::cast(DType(pick(dtype_count)), make(depth - 1));
    auto op = Op(pick(op_count));
    std::vector<Scalar> args;
    for (int i = 0; i < row(op).arity; ++i) args.push_back(make(depth - 1));
    return Scalar::apply(op, args);
  };
  for (int n = 0; n < 2000; ++n) {
    Scalar s = make(4);
    std::string text = to_string(s, names);
    ASSERT_EQ(s, parse_scalar(text, names)) << text;
  }
}

TEST(Scalar, Types) {
  DType leaves[] = {DType::i64, DType::f32, DType::f32};
  TypedScalar t = typed(parse_scalar("select(old0 == new0, self, inf)", names), leaves, DType::i64);
  EXPECT_EQ(DType::i64, t.result());
  bool found = false;
  for (const auto& step : t.steps)
    if (step.kind == ScalarNode::Kind::constant) found = step.integer == INT64_MAX;
  EXPECT_TRUE(found);
  EXPECT_THROW(typed(parse_scalar("self * old0", names), leaves, DType::i64), Error);
  EXPECT_THROW(typed(parse_scalar("self + 0.5", names), leaves, DType::i64), Error);
  EXPECT_THROW(typed(parse_scalar("old0 < new0", names), leaves, DType::f32), Error);
  EXPECT_EQ(DType::f32, typed(parse_scalar("cast<f32>(self) * old0", names), leaves, DType::f32).result());
  EXPECT_EQ(DType::u8, typed(parse_scalar("1 + 2", names), leaves, DType::u8).result());
}

} // namespace
} // namespace luminal
