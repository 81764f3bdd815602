// tests/ir/op_sweep_test.cpp -- every row of the op table on every dtype and through views, in
// every mode of the interpreter.
#include "interp_util.h"
#include "luminal/error.h"
#include <fmt/format.h>

namespace luminal {
namespace {

using namespace testing_ir;

TEST(OpSweep, EveryRowOnEveryType) {
  int cases = 0;
  for (int o = 0; o < op_count; ++o) {
    const OpRow& r = row(Op(o));
    for (int t = 0; t < dtype_count; ++t) {
      DType type = DType(t), args[3] = {type, type, type};
      if (r.signature == Signature::choice) args[0] = DType::boolean;
      auto result = result_type(r, args);
      if (!result) continue;
      ++cases;
      std::string params, list;
      for (int a = 0; a < r.arity; ++a) {
        params += fmt::format("{}%{}: {}[4, 6]", a ? ", " : "", char('a' + a), to_string(args[a]));
        list += fmt::format("{}%{}v", a ? ", " : "", char('a' + a));
      }
      std::string text = "fn @main(" + params + ") {\n"; // through a transposing view with padding
      for (int a = 0; a < r.arity; ++a)
        text += fmt::format("  %{0}v = view %{0} [i: 6, j: 5] -> [j, i] where j < 4 fill 1\n", char('a' + a));
      Case c(text + fmt::format("  %y = {} {}\n  return y = %y\n}}\n", r.name, list));
      std::vector<HostTensor> in;
      for (int a = 0; a < r.arity; ++a) {
        double low = is_float(args[a])           ? r.low
                     : args[a] == DType::boolean ? 0
                     : is_signed(args[a])        ? -8
                                                 : 0,
               high = is_float(args[a])           ? r.high
                      : args[a] == DType::boolean ? 2
                                                  : 8;
        in.push_back(random_tensor(args[a], {4, 6}, uint64_t(100 + a), low, high));
        c.with(std::string(1, char('a' + a)), in.back());
      }
      HostTensor y = c.run();
      ASSERT_EQ(*result, y.dtype) << r.name;
      auto f64 = c.values("y", InterpMode::f64), exact = c.values("y", InterpMode::exact),
           bounded = c.values("y", InterpMode::bounded), rounded = c.values("y", InterpMode::rounded);
      for (int i = 0; i < 6; ++i)
        for (int j = 0; j < 5; ++j) {
          const auto flat = size_t(i * 5 + j);
          double x[3] = {};
          int64_t n[3] = {};
          for (int a = 0; a < r.arity; ++a) {
            x[a] = j < 4 ? in[size_t(a)].at(j * 6 + i) : 1;
            n[a] = j < 4 ? load_i64(args[a], in[size_t(a)].data.data(), j * 6 + i) : 1;
          }
          std::string where = fmt::format("{} on {} at {} {} {}", r.name, to_string(type), x[0], x[1], x[2]);
          if (is_float(type)) {
            double expected = apply_f64(Op(o), type, x), pure = r.f64(x);
            auto same = [](double p, double q) { return p == q || (std::isnan(p) && std::isnan(q)); };
            ASSERT_TRUE(same(expected, y.at(int64_t(flat))))
                << where << ": " << expected << " and " << y.at(int64_t(flat));
            ASSERT_TRUE(same(pure, f64[flat].value)) << where;
            if (!std::isnan(pure)) {
              ASSERT_NEAR(pure, exact[flat].value, 1e-6 * std::fmax(1, std::fabs(pure))) << where;
              ASSERT_LE(std::fabs(expected - bounded[flat].value), bounded[flat].error) << where;
            }
          } else {
            int64_t expected = apply_i64(Op(o), type, n);
            ASSERT_EQ(expected, load_i64(y.dtype, y.data.data(), int64_t(flat))) << where;
            for (auto* list_of_values : {&f64, &exact, &bounded, &rounded})
              ASSERT_EQ(expected, (*list_of_values)[flat].integer) << where;
          }
        }
    }
  }
  EXPECT_GT(cases, 300);
}

TEST(OpSweep, CastsBetweenAllTypes) {
  for (int f = 0; f < dtype_count; ++f)
    for (int t = 0; t < dtype_count; ++t) {
      DType from = DType(f), to = DType(t);
      Case c(fmt::format("fn @main(%x: {}[8]) {{\n  %y = cast {} %x\n  return y = %y\n}}\n", to_string(from),
                         to_string(to)));
      HostTensor x = is_float(from) ? tensor(from, {8}, {0, 1, -1.5, 2.5, 300, -3, 0.25, 100})
                                    : tensor(from, {8}, {0, 1, 2, 3, 4, 5, 6, 7});
      c.with("x", x);
      HostTensor y = c.run();
      for (int i = 0; i < 8; ++i) {
        double expected;
        if (is_float(from)) {
          expected = is_float(to) ? round_to(to, x.at(i)) : integer_to_f64(to, truncate_to(to, x.at(i)));
        } else {
          int64_t v = load_i64(from, x.data.data(), i);
          expected = is_float(to) ? integer_to_float(to, from, v) : integer_to_f64(to, wrap(to, v));
        }
        double found = y.at(i);
        EXPECT_TRUE(expected == found || (std::isnan(expected) && std::isnan(found)))
            << to_string(from) << " to " << to_string(to) << " of " << x.at(i);
      }
    }
}

TEST(OpSweep, UserOperationsTakePart) {
  register_op({.name = "softsign",
               .arity = 1,
               .f64 = [](const double* x) { return x[0] / (1 + std::fabs(x[0])); },
               .definition = "a / (1 + abs(a))",
               .ulp = 2,
               .doc = "x / (1 + |x|)"});
  register_op({.name = "gray",
               .arity = 1,
               .signature = Signature::shift,
               .i64 = [](const int64_t* x, DType) { return x[0] ^ (x[0] >> 1); },
               .text = {{"c", "({a} ^ ({a} >> 1))"}},
               .doc = "Gray code"});
  Case c(
      "fn @main(%x: f32[3], %i: u8[3]) {\n  %y = softsign %x\n  %g = gray %i\n  return y = %y, g = %g\n}\n");
  EXPECT_TRUE(same_module(c.module, parse_module(to_string(c.module))));
  c.with("x", f32({3}, {1, -3, 0})).with("i", tensor(DType::u8, {3}, {1, 2, 3}));
  EXPECT_EQ((std::vector<double>{0.5, -0.75, 0}), c.get());
  EXPECT_EQ((std::vector<double>{1, 3, 2}), c.get("g"));
  for (const InterpValue& v : c.values("y", InterpMode::bounded)) EXPECT_LT(v.error, 1e-6);
  EXPECT_TRUE(
      exact_equal(exact_div(exact_from(-3), exact_from(4)), c.values("y", InterpMode::exact)[1].exact));
}

} // namespace
} // namespace luminal
