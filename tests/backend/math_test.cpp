// backend/math_test.cpp -- elementary functions over the whole range of f32 (every 4099th number;
// LUMINAL_TEST_STEP=1: all of them) and dense samples of f64: the error that the op table states,
// special values, and equal bits of scalar and vector code.
#include "support.h"
#include <cstdlib>
#include <thread>

namespace luminal {
namespace {
using namespace luminal::test;

/// y: as many vectors at once; z: one number after the other.
kernel::Kernel unary(Op op, DType type, int64_t vectors = 1) {
  using namespace kernel;
  Kernel k;
  k.name = "unary";
  constexpr int64_t most = 1 << 24;
  const int64_t lanes = vectors * (type == DType::f64 ? 8 : 16); // of 512 bits
  Expr n = Expr::symbol("n", {1, most}), io = Expr::symbol("io", {0, most}),
       il = Expr::symbol("il", {0, lanes - 1}), i = Expr::symbol("i", {0, most});
  k.symbols = {n};
  BufferId x = add_buffer(k, {"x", Space::global, Access::in, type, n}),
           y = add_buffer(k, {"y", Space::global, Access::inout, type, n}),
           z = add_buffer(k, {"z", Space::global, Access::inout, type, n});
  Expr at = io * Expr(lanes) + il;
  k.body = {
      loop(LoopKind::serial, io, 0, ceildiv(n, lanes),
           {masked_loop(il, 0, lanes, n - io * Expr(lanes), {store(y, at, apply(op, {load(k, x, at)}))})}),
      loop(LoopKind::serial, i, 0, floordiv(n, 64), {store(z, i, apply(op, {load(k, x, i)}))})};
  return k;
}

template <class T> double units(T actual, double expected, double scale) {
  if (std::isnan(expected)) return std::isnan(actual) ? 0 : HUGE_VAL;
  if (std::isnan(actual)) return HUGE_VAL;
  auto rounded = T(expected);
  if (actual == rounded) return 0;
  if (std::isinf(actual) || std::isinf(rounded)) { // one step beyond the largest number
    T largest = std::numeric_limits<T>::max();
    if (std::isinf(rounded) && std::fabs(actual) == largest) return 1;
    return std::isinf(actual) &&
                   std::fabs(expected) > double(largest) * (1 - 4 * double(std::numeric_limits<T>::epsilon()))
               ? 1
               : HUGE_VAL;
  }
  double magnitude = std::fmax(std::fabs(expected), scale);
  double place = std::fmax(
      std::ldexp(double(std::numeric_limits<T>::epsilon()), magnitude == 0 ? -10000 : std::ilogb(magnitude)),
      double(std::numeric_limits<T>::denorm_min()));
  return std::fabs(double(actual) - expected) / place;
}

class Functions : public testing::TestWithParam<Op> {};

TEST_P(Functions, F32KeepsTheStatedError) {
  const OpRow& r = row(GetParam());
  const char* step_text = std::getenv("LUMINAL_TEST_STEP");
  int64_t step = step_text ? std::max(1, std::atoi(step_text)) : 4099;
  for (const codegen::CpuTarget& target : instruction_sets()) {
    Program program(unary(r.op, DType::f32), target);
    double worst = 0;
    float where = 0;
    constexpr int64_t chunk = 1 << 18;
    for (int64_t first = 0; first < int64_t(1) << 32; first += chunk * step) {
      std::vector<float> x;
      for (int64_t u = first; u < std::min(first + chunk * step, int64_t(1) << 32); u += step)
        x.push_back(std::bit_cast<float>(uint32_t(u)));
      Arguments args;
      args.symbol("n", int64_t(x.size())).set("x", x).space("y", x.size() * 4).space("z", x.size() * 4);
      program.run(args);
      auto y = args.get<float>("y"), z = args.get<float>("z");
      for (size_t i = 0; i < x.size(); ++i) {
        double in = double(x[i]), error = units(y[i], r.f64(&in), r.ulp_scale);
        if (error > worst) worst = error, where = x[i];
        if (i < x.size() / 64) {
          ASSERT_TRUE(std::bit_cast<uint32_t>(y[i]) == std::bit_cast<uint32_t>(z[i]) || std::isnan(y[i]))
              << r.name << "(" << x[i] << ") scalar " << z[i] << " vector " << y[i];
        }
      }
    }
    RecordProperty(target.cpu, std::to_string(worst));
    if (step_text)
      std::printf("%s on %s: %.3f units at %a\n", std::string(r.name).c_str(), target.cpu.c_str(), worst,
                  double(where));
    EXPECT_LE(worst, r.ulp) << r.name << " at " << std::hexfloat << where << " on " << target.cpu;
  }
}

TEST_P(Functions, F32AtTheEndsOfItsRange) {
  const OpRow& r = row(GetParam());
  constexpr float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  std::vector<float> list{0, inf, nan};
  for (int exponent = -149; exponent < 128; exponent++)
    for (float m : {1.0f, 1.25f, 1.5f, 1.75f}) list.push_back(std::ldexp(m, exponent));
  for (float edge : {14.2f, 88.7f, 89.0f, 103.9f, 104.0f, 126.0f, 127.0f, 149.0f, 150.0f, 151.0f, 152.0f})
    for (float step : {-0.5f, 0.0f, 0.5f}) list.push_back(edge + step);
  for (size_t i = 0, n = list.size(); i < n; i++) list.push_back(-list[i]);
  std::vector<float> x; // the scalar loop takes the first 64th
  for (int i = 0; i < 65; i++) x.insert(x.end(), list.begin(), list.end());
  for (const codegen::CpuTarget& target : instruction_sets())
    for (const int64_t vectors : {1, 4}) {
      Arguments args;
      args.symbol("n", int64_t(x.size())).set("x", x).space("y", x.size() * 4).space("z", x.size() * 4);
      Program(unary(r.op, DType::f32, vectors), target).run(args);
      auto y = args.get<float>("y"), z = args.get<float>("z");
      for (size_t i = 0; i < list.size(); i++) {
        const double in = double(x[i]);
        EXPECT_LE(units(y[i], r.f64(&in), r.ulp_scale), r.ulp)
            << r.name << "(" << x[i] << ") gives " << y[i] << ", not " << r.f64(&in) << ", on " << target.cpu;
        EXPECT_TRUE(std::bit_cast<uint32_t>(y[i]) == std::bit_cast<uint32_t>(z[i]) ||
                    (std::isnan(y[i]) && std::isnan(z[i])))
            << r.name << "(" << x[i] << ") scalar " << z[i] << " vector " << y[i];
      }
    }
}

TEST_P(Functions, F64KeepsTheStatedError) {
  const OpRow& r = row(GetParam());
  std::mt19937_64 random(3);
  std::vector<double> x{0.0,
                        -0.0,
                        INFINITY,
                        -INFINITY,
                        NAN,
                        5e-324,
                        -5e-324,
                        1e-310,
                        1.7976931348623157e308,
                        -1.7976931348623157e308,
                        1,
                        -1,
                        0.5,
                        2,
                        1e-17,
                        -1e-17};
  for (int i = 0; i < 40000; ++i) {
    x.push_back(r.low + (r.high - r.low) * double(random() >> 11) * 0x1p-53);
    x.push_back(std::bit_cast<double>(random()));                                          // any magnitude
    x.push_back(std::ldexp(double(int64_t(random())) * 0x1p-63, int(random() % 24) - 12)); // moderate ones
  }
  for (const codegen::CpuTarget& target : instruction_sets()) {
    Arguments args;
    args.symbol("n", int64_t(x.size())).set("x", x).space("y", x.size() * 8).space("z", x.size() * 8);
    Program(unary(r.op, DType::f64), target).run(args);
    auto y = args.get<double>("y"), z = args.get<double>("z");
    double worst = 0, where = 0;
    for (size_t i = 0; i < x.size(); ++i) {
      // x * sigmoid(x) in f64 is itself wrong where the sigmoid is subnormal.
      bool more = r.op == Op::silu && x[i] < -700 && x[i] > -1000;
      double expected =
          more ? double(static_cast<long double>(x[i]) / (1 + std::exp(-static_cast<long double>(x[i]))))
               : r.f64(&x[i]);
      double error = units(y[i], expected, r.ulp_scale);
      if (error > worst) worst = error, where = x[i];
      if (i < x.size() / 64) {
        ASSERT_TRUE(std::bit_cast<uint64_t>(y[i]) == std::bit_cast<uint64_t>(z[i]) || std::isnan(y[i]))
            << r.name << "(" << x[i] << ")";
      }
    }
    if (std::getenv("LUMINAL_TEST_STEP"))
      std::printf("%s f64 on %s: %.3f units at %a\n", std::string(r.name).c_str(), target.cpu.c_str(), worst,
                  where);
    // The reference is the C library in f64, itself wrong by up to a unit.
    EXPECT_LE(worst, r.ulp + 1) << r.name << " at " << std::hexfloat << where << " on " << target.cpu;
  }
}

/// Types that are computed as f32, and rounded once more.
TEST_P(Functions, NarrowTypesAtTheEndsOfTheirRange) {
  const OpRow& r = row(GetParam());
  for (const DType type : {DType::bf16, DType::f16}) {
    std::vector<double> list{0, 1e30, 3e38, 65504, 1e-7, 6e-8, 1e-40, 0.1, 1, 100, 3.14159, INFINITY, NAN};
    for (int exponent = -149; exponent < 128; exponent++) list.push_back(std::ldexp(1.625, exponent));
    for (size_t i = 0, n = list.size(); i < n; i++) list.push_back(-list[i]);
    std::vector<uint16_t> x(list.size() * 65); // the scalar loop takes the first 64th
    for (size_t i = 0; i < x.size(); i++) {
      store_f64(type, reinterpret_cast<std::byte*>(x.data()), int64_t(i), list[i % list.size()]);
    }
    for (const codegen::CpuTarget& target : instruction_sets()) {
      Arguments args;
      args.symbol("n", int64_t(x.size())).set("x", x).space("y", x.size() * 2).space("z", x.size() * 2);
      Program(unary(r.op, type), target).run(args);
      const auto y = args.get<uint16_t>("y"), z = args.get<uint16_t>("z");
      const auto at = [&](const std::vector<uint16_t>& values, size_t i) {
        return load_f64(type, reinterpret_cast<const std::byte*>(values.data()), int64_t(i));
      };
      for (size_t i = 0; i < list.size(); i++) {
        const double in = at(x, i), want = r.f64(&in), got = at(y, i);
        // A unit of the type beside what f32 may miss.
        const double unit = std::ldexp(1.0, std::max(std::ilogb(std::max(std::fabs(want), r.ulp_scale)),
                                                     type == DType::bf16 ? -126 : -14) -
                                                (type == DType::bf16 ? 7 : 10));
        double rounded = want;
        uint16_t bits = 0;
        store_f64(type, reinterpret_cast<std::byte*>(&bits), 0, want);
        rounded = load_f64(type, reinterpret_cast<const std::byte*>(&bits), 0);
        EXPECT_TRUE(std::isnan(rounded)                      ? std::isnan(got)
                    : std::isinf(rounded) || std::isinf(got) ? got == rounded
                                                             : std::fabs(got - want) <= unit * 0.502)
            << r.name << "(" << in << ") of " << to_string(type) << " gives " << got << ", not " << want
            << ", on " << target.cpu;
        EXPECT_TRUE(y[i] == z[i] || std::isnan(got)) << r.name << "(" << in << ")";
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Math, Functions,
                         testing::Values(Op::exp2, Op::log2, Op::sin, Op::exp, Op::log, Op::log1p, Op::expm1,
                                         Op::cos, Op::tan, Op::tanh, Op::sigmoid, Op::erf, Op::silu, Op::gelu,
                                         Op::gelu_tanh, Op::softplus, Op::rsqrt, Op::sqrt, Op::recip),
                         [](const auto& test) { return std::string(to_string(test.param)); });

} // namespace
} // namespace luminal
