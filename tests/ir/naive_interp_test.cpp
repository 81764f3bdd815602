// tests/ir/naive_interp_test.cpp -- the two interpreters agree to the bit; where folds of every
// monoid begin, for every type.
#include "interp_util.h"
#include "ir/identity.h"
#include "ir/naive_interp.h"
#include "ir/random_module.h"
#include "luminal/error.h"
#include <cmath>
#include <fmt/format.h>
#include <limits>
#include <set>

namespace luminal {
namespace {

using namespace testing_ir;

/// Equal bits, but for the sign and payload of NaN.
void expect_same(const HostTensor& a, const HostTensor& b, const std::string& where) {
  ASSERT_EQ(a.dtype, b.dtype) << where;
  ASSERT_EQ(a.shape, b.shape) << where;
  for (int64_t n = 0; n < a.count(); ++n) {
    if (!is_float(a.dtype)) {
      ASSERT_EQ(load_i64(a.dtype, a.data.data(), n), load_i64(b.dtype, b.data.data(), n))
          << where << " " << n;
      continue;
    }
    const double x = a.at(n), y = b.at(n);
    ASSERT_TRUE(std::isnan(x) ? std::isnan(y) : x == y && std::signbit(x) == std::signbit(y))
        << where << " element " << n << ": " << x << " and " << y;
  }
}

/// Both interpreters on one module.
std::map<std::string, HostTensor> both(const Module& module, const Bindings& bindings) {
  auto naive = interpret_naively(module, bindings);
  for (auto& [name, value] : Interpreter(module, bindings).run())
    expect_same(naive.at(name), value, name + "\n" + to_string(module));
  return naive;
}

/// The least and the greatest value of a type, infinities included.
double end_of(DType type, bool high) {
  if (is_float(type)) return high ? greatest(type) : -greatest(type);
  if (type == DType::boolean) return high;
  return integer_to_f64(type, identity_i64(high ? Op::min : Op::max, type));
}

struct Monoids {
  DType type;
  std::vector<Op> ops;
};
std::vector<Monoids> every_monoid() {
  std::vector<Monoids> list;
  for (int t = 0; t < dtype_count; ++t) {
    list.push_back({DType(t), {}});
    for (Op op : {Op::add, Op::mul, Op::max, Op::min, Op::bit_or, Op::bit_and}) {
      DType same[2] = {DType(t), DType(t)};
      if (result_type(row(op), same)) list.back().ops.push_back(op);
    }
  }
  return list;
}

TEST(Identities, AreNeutralOnEveryValueOfEveryType) {
  for (const auto& [type, ops] : every_monoid())
    for (Op op : ops) {
      SCOPED_TRACE(fmt::format("{} of {}", row(op).monoid, to_string(type)));
      const Monoid m = Monoid::plain(op, type);
      for (int k = 0; k < 300; ++k) {
        if (!is_float(type)) {
          const int64_t x = wrap(type, k < 100 ? k - 50 : k < 200 ? INT64_MAX - k : INT64_MIN + k);
          int64_t pair[2] = {m.identity_integer(0), x};
          EXPECT_EQ(apply_i64(op, type, pair), x);
          continue;
        }
        const double special[] = {greatest(type),
                                  -greatest(type),
                                  largest(type),
                                  -largest(type),
                                  least_subnormal(type),
                                  std::nan(""),
                                  0};
        const double x = k < 7 ? special[k] : round_to(type, std::ldexp(k % 2 ? 1.3 : -1.7, k - 150));
        double pair[2] = {m.identity(0), x};
        const double y = apply_f64(op, type, pair);
        EXPECT_TRUE(std::isnan(x) ? std::isnan(y) : x == y) << x << " becomes " << y;
      }
    }
}

/// sum prod max min any all of every type that folds: rows of ordinary values, of the ends of the
/// type, of NaN, and no element at all.
TEST(Identities, FoldsAndScansBeginWithThemInBothInterpreters) {
  for (const auto& [type, ops] : every_monoid())
    for (Op op : ops) {
      SCOPED_TRACE(fmt::format("{} of {}", row(op).monoid, to_string(type)));
      for (int64_t extent : {0, 1, 4}) {
        const std::string word(row(op).monoid), t(to_string(type));
        Module module = parse_module(fmt::format(R"(
fn @main(%x: {0}[5, {1}], %base: {0}[5], %at: i32[{1}]) {{
  %f = fold [i: 5, j: {1}] over [j] {{ {2} %x[i, j] }}
  %whole = get %f, 0
  %g = fold [i: 5, j: {1}] over [j] where j > i {{ {2} %x[i, j] }}
  %part = get %g, 0
  %s = scan [i: 5, j: {1}] along j exclusive {{ {2} %x[i, j] }}
  %before = get %s, 0
  %r = scan [i: 5, j: {1}] along j reverse {{ {2} %x[i, j] }}
  %after = get %r, 0
  %c = scatter {2} %base, %x [i: 5, j: {1}] with h = %at[j] in 0..4 clamp -> [h]
  return whole = %whole, part = %part, before = %before, after = %after, c = %c
}})",
                                                 t, extent, word));
        const double low = end_of(type, false), high = end_of(type, true), nan = std::nan("");
        const double rows[5][4] = {{1, 2, 3, 4},
                                   {low, low, low, low},
                                   {high, high, high, high},
                                   {3, nan, low, high},
                                   {low, 1, high, 2}};
        Bindings bindings;
        std::vector<double> x, base;
        for (int i = 0; i < 5; ++i) {
          for (int64_t j = 0; j < extent; ++j)
            x.push_back(!is_float(type) && std::isnan(rows[i][j]) ? 1 : rows[i][j]);
          base.push_back(double(i % 2));
        }
        bindings.inputs["x"] = host_tensor(type, {5, extent}, x);
        bindings.inputs["base"] = host_tensor(type, {5}, base);
        const std::vector<double> at =
            extent == 4 ? std::vector<double>{-3, 0, 0, 9} : std::vector<double>(size_t(extent), 2);
        bindings.inputs["at"] = host_tensor(DType::i32, {extent}, at);
        auto results = both(module, bindings);
        const Monoid m = Monoid::plain(op, type);
        for (int i = 0; i < 5; ++i) { // against the table, one element after the other
          double f = m.identity(0);
          int64_t n = is_float(type) ? 0 : m.identity_integer(0);
          for (int64_t j = 0; j < extent; ++j) {
            double pair[2] = {f, bindings.inputs["x"].at(i * extent + j)};
            int64_t integers[2] = {n, load_i64(type, bindings.inputs["x"].data.data(), i * extent + j)};
            if (is_float(type))
              f = apply_f64(op, type, pair);
            else
              n = apply_i64(op, type, integers);
          }
          const HostTensor& whole = results["whole"];
          if (is_float(type)) {
            EXPECT_TRUE(std::isnan(f) ? std::isnan(whole.at(i)) : f == whole.at(i))
                << f << " " << whole.at(i);
          } else {
            EXPECT_EQ(load_i64(type, whole.data.data(), i), n);
          }
        }
      }
    }
}

TEST(NaiveInterpreter, AgreesOnRandomModules) {
  std::set<std::string> kinds, types;
  int64_t empty = 0, large = 0;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    RandomModule g(seed);
    SCOPED_TRACE(fmt::format("seed {}", seed));
    ASSERT_TRUE(verify(g.module).empty()) << verify(g.module)[0] << "\n" << to_string(g.module);
    ASSERT_TRUE(same_module(g.module, parse_module(to_string(g.module), "text"))) << to_string(g.module);
    for (auto& [name, value] : both(g.module, g.bindings(int(seed % 2)))) {
      empty += value.count() == 0;
      large += value.count() > 1000;
    }
    if (HasFatalFailure()) return;
    for (const Function& f : g.module.functions)
      for (const Node& n : f.nodes) {
        kinds.insert(std::string(to_string(n.kind)));
        for (const TensorType& t : n.types) types.insert(std::string(to_string(t.dtype)));
      }
  }
  EXPECT_EQ(types.size(), size_t(dtype_count));
  EXPECT_GE(kinds.size(), 17U); // all but collectives, effects and kernels of the user
  EXPECT_GT(empty, 20);
  EXPECT_GT(large, 20);
}

/// What depends on no empty axis has points, and they take part only where the condition holds.
TEST(NaiveInterpreter, AConditionCountsForComponentsWithoutTheAxisThatIsEmpty) {
  Module module = parse_module(R"(
symbol m: 0..3
fn @main(%x: bool[2], %v: bool[2, m], %n: i32[2], %w: i32[2, m]) {
  %f = fold [i: 2, j: m] over [i] where 0 { any %v[i, j]; any %x[i] }
  %y = get %f, 1
  %g = fold [i: 2, j: m] over [i] with h = %n[i] in 0..3 where i < h { any %v[i, j]; any %x[i] }
  %z = get %g, 1
  %e = fold [i: 2, j: m] over [i] with h = %w[i, j] in 0..3 where 0 { any %x[i] }
  %u = get %e, 0
  return y = %y, z = %z, u = %u
})");
  Bindings bindings;
  bindings.symbols["m"] = 0;
  bindings.inputs["x"] = host_tensor(DType::boolean, {2}, std::vector<double>{1, 1});
  bindings.inputs["v"] = host_tensor(DType::boolean, {2, 0}, {});
  bindings.inputs["n"] = host_tensor(DType::i32, {2}, std::vector<double>{0, 1});
  bindings.inputs["w"] = host_tensor(DType::i32, {2, 0}, {});
  auto results = both(module, bindings);
  EXPECT_EQ(results["y"].at(0), 0);
  EXPECT_EQ(results["z"].at(0), 0);
  EXPECT_EQ(results["u"].at(0), 0); // nothing reads the hole, which lies along the empty axis
}

/// Functions that call the one before them: many are computed, more are refused at once.
TEST(NaiveInterpreter, ChainsOfCallsHaveALimit) {
  auto chain = [](int count) {
    std::string text = "fn @f0(%x: f32[2]) {\n  %y = neg %x\n  return y = %y\n}\n";
    for (int k = 1; k <= count; ++k)
      text += fmt::format("fn @f{}(%x: f32[2]) {{\n  %c = call @f{}(%x)\n  %d = get %c, 0\n  %y = neg %d\n"
                          "  return y = %y\n}}\n",
                          k, k - 1);
    return parse_module(text);
  };
  Bindings bindings;
  bindings.inputs["x"] = host_tensor(DType::f32, {2}, std::vector<double>{1, 2});
  EXPECT_EQ(both(chain(6000), bindings).at("y").at(1), -2);
  const Module deep = chain(8001);
  for (bool naive : {false, true}) try {
      if (naive)
        (void)interpret_naively(deep, bindings);
      else
        (void)Interpreter(deep, bindings).run();
      FAIL() << "not refused";
    } catch (const Error& error) {
      EXPECT_EQ(std::string(error.what()),
                "[call] @f8001: its calls are nested 8001 deep, at most 8000 are interpreted");
    }
}

TEST(Identities, AnInfinityInAProgramIsTheEndOfATypeThatHasNone) {
  Case c(R"(
fn @main(%a: f8e4m3[6]) {
  %i = iota f8e4m3 [k: 6] -> k
  %f = fold [k: 6] over [k] {
      max %a[k];
      min(select(bit_or(old0 == new0, is_nan(old0)), self, inf)) %i[k] }
  %at = get %f, 1
  return at = %at
})");
  c.with("a", host_tensor(DType::f8e4m3, {6}, std::vector<double>{-6, 1, -5, 2, -4, 2}));
  EXPECT_EQ(c.run("at").at(0), 3);
}

} // namespace
} // namespace luminal
