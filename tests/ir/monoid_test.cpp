// tests/ir/monoid_test.cpp -- monoids: interning, laws, refusals.
#include "ir/monoid.h"
#include "luminal/error.h"
#include <cmath>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <thread>

namespace luminal {
namespace {

using testing::HasSubstr;
using Fixed = std::vector<std::optional<double>>;

/// "max(self), sum(self * exp2(old0 - new0))", all of one type unless told otherwise.
Monoid monoid(std::vector<std::pair<Op, std::string>> list, std::vector<DType> types = {}) {
  std::vector<MonoidComponent> components;
  for (size_t i = 0; i < list.size(); ++i)
    components.push_back({list[i].first, types.empty() ? DType::f32 : types[i],
                          parse_scalar(list[i].second, monoid_leaf_names(int(i)))});
  return Monoid::intern(std::move(components));
}

const std::string shifted = "select(old0 == -inf, 0, self * exp2(old0 - new0))";

TEST(Monoids, AreInterned) {
  EXPECT_EQ(Monoid::plain(Op::add, DType::f32), monoid({{Op::add, "self"}}));
  EXPECT_NE(Monoid::plain(Op::add, DType::f32), Monoid::plain(Op::add, DType::f64));
  EXPECT_NE(Monoid::plain(Op::add, DType::f32), Monoid::plain(Op::max, DType::f32));
  Monoid a = monoid({{Op::max, "self"}, {Op::add, shifted}}),
         b = monoid({{Op::max, "self"}, {Op::add, shifted}});
  EXPECT_EQ(a, b);
  EXPECT_EQ(a.id(), b.id());
  EXPECT_EQ("max(self), sum(select(old0 == -inf, 0, self * exp2(old0 - new0))) : f32, f32", to_string(a));
  EXPECT_EQ(-INFINITY, a.identity(0));
  EXPECT_EQ(0, a.identity(1));
  EXPECT_EQ(INT32_MAX, Monoid::plain(Op::min, DType::i32).identity_integer(0));
}

TEST(Monoids, InterningIsThreadSafe) {
  std::vector<std::thread> threads;
  std::vector<Monoid> found(8);
  for (size_t t = 0; t < found.size(); ++t)
    threads.emplace_back([&found, t] {
      for (int k = 0; k < 200; ++k)
        found[t] = monoid({{Op::max, "self"}, {Op::add, "self * " + std::to_string(k % 50)}});
    });
  for (std::thread& t : threads) t.join();
  for (Monoid m : found) EXPECT_EQ(found[0], m);
}

TEST(Monoids, Dependencies) {
  Monoid m = monoid({{Op::add, "self"},
                     {Op::add, "self"},
                     {Op::max, "self + old1 - new1"},
                     {Op::add, "self * exp2(old2 - new2)"}});
  EXPECT_THAT(m.dependencies(0), testing::IsEmpty());
  EXPECT_THAT(m.dependencies(2), testing::ElementsAre(1));
  EXPECT_THAT(m.dependencies(3), testing::ElementsAre(1, 2));
}

TEST(Monoids, LawsHold) {
  struct Example {
    std::string name;
    Monoid m;
    Fixed fixed;
  };
  const std::string below = "max(self, select(old0 < new0, old0, -inf))";
  std::vector<Example> examples{
      {"sum", Monoid::plain(Op::add, DType::f32), {}},
      {"product of integers", Monoid::plain(Op::mul, DType::i8), {}},
      {"any", Monoid::plain(Op::bit_or, DType::boolean), {}},
      {"least of unsigned", Monoid::plain(Op::min, DType::u64), {}},
      {"online softmax", monoid({{Op::max, "self"}, {Op::add, shifted}}), {}},
      {"attention", monoid({{Op::max, "self"}, {Op::add, shifted}, {Op::add, shifted}}), {}},
      {"running mean", monoid({{Op::add, "self"}, {Op::add, "self * old0 / new0"}}), {{1}, {}}},
      {"Welford",
       monoid({{Op::add, "self"},
               {Op::add, "self * old0 / new0"},
               {Op::add, "self + (new1 - old1) * (new1 - old1) * old0"}}),
       {{1}, {}, {0}}},
      {"arg-max",
       monoid({{Op::max, "self"}, {Op::min, "select(old0 == new0, self, inf)"}}, {DType::f32, DType::i64}),
       {}},
      {"two largest", monoid({{Op::max, "self"}, {Op::max, below}}), {{}, {-INFINITY}}},
      {"scaled norm",
       monoid(
           {{Op::max, "self"}, {Op::add, "select(old0 == -inf, 0, self * ((old0 / new0) * (old0 / new0)))"}}),
       {}},
  };
  for (const Example& e : examples) {
    auto broken = check_monoid_laws(e.m, 64, e.fixed);
    EXPECT_FALSE(broken) << e.name << ": " << *broken;
  }
}

TEST(Monoids, BrokenLawsAreFound) {
  struct Example {
    Monoid m;
    std::string law;
    Fixed fixed;
  };
  std::vector<Example> examples{
      {monoid({{Op::max, "self"}, {Op::add, "self * exp2(new0 - old0)"}}), "", {}},     // the wrong way round
      {monoid({{Op::max, "self"}, {Op::add, "self * exp2(2 * old0 - new0)"}}), "", {}}, // does not compose
      {monoid({{Op::add, "self"}, {Op::add, "self + (new0 - old0)"}}), "", {}},         // no homomorphism
      {monoid({{Op::max, "self"}, {Op::add, "self * 2"}}), "combine(identity, a)", {}},
      {monoid({{Op::add, "self"},
               {Op::add, "self * old0 / new0"},
               {Op::add, "self + (new1 - old1) * (new1 - old1) * new0"}}),
       "",
       {{1}, {}, {0}}}, // the wrong count
      {monoid({{Op::max, "self"}, {Op::max, "max(self, old0)"}}),
       "combine(identity, a)",
       {}}, // moves what stands still
  };
  for (const Example& e : examples) {
    auto broken = check_monoid_laws(e.m, 64, e.fixed);
    ASSERT_TRUE(broken) << to_string(e.m);
    EXPECT_THAT(*broken, HasSubstr(e.law));
    EXPECT_THAT(*broken, HasSubstr(" is not "));
  }
}

TEST(Monoids, IllFormedOnesAreRefused) {
  EXPECT_THROW(Monoid::plain(Op::sub, DType::f32), Error);
  EXPECT_THROW(Monoid::plain(Op::bit_or, DType::f32), Error);
  EXPECT_THROW(Monoid::plain(Op::add, DType::boolean), Error);
  EXPECT_THROW(Monoid::intern({{Op::add, DType::f32, Scalar::leaf(1)}}), Error); // reads itself
  EXPECT_THROW(monoid({{Op::max, "self"}, {Op::add, "self * old0"}}, {DType::f32, DType::f16}), Error);
  EXPECT_THROW(monoid({{Op::add, "self < 1"}}), Error);
}

} // namespace
} // namespace luminal
