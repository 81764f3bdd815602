// tests/tensor/accuracy_test.cpp -- errors of the f32 functions on the CPU in units of the last
// place, against the C library in long double: what docs/operations.md states.
// LUMINAL_ACCURACY_STEP=1 tries all 2^32 arguments (hours) in place of every 65,521st.
#include "luminal/luminal.h"
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <fmt/format.h>
#include <fstream>
#include <functional>
#include <gtest/gtest.h>
#include <map>
#include <sstream>

namespace luminal::accuracy_test {
namespace {

using Real = long double;
struct Function {
  const char* name;
  std::function<Tensor(const Tensor&)> make;
  std::function<Real(Real)> exact;
};
constexpr Real pi = 3.14159265358979323846264338327950288L;
Real logistic(Real x) { return x < 0 ? std::exp(x) / (1 + std::exp(x)) : 1 / (1 + std::exp(-x)); }
Real log_logistic(Real x) { return std::fmin(x, Real(0)) - std::log1p(std::exp(-std::fabs(x))); }
Real normal(Real x) { return std::erfc(-x / std::sqrt(Real(2))) / 2; }

#define METHOD(name) [](const Tensor& x) { return x.name(); }
#define C_FUNCTION(name) [](Real x) { return Real(std::name(x)); }

const std::vector<Function>& functions() {
  static const std::vector<Function> list{
      {"exp", METHOD(exp), C_FUNCTION(exp)},
      {"exp2", METHOD(exp2), C_FUNCTION(exp2)},
      {"exp10", METHOD(exp10), [](Real x) { return std::pow(Real(10), x); }},
      {"expm1", METHOD(expm1), C_FUNCTION(expm1)},
      {"log", METHOD(log), C_FUNCTION(log)},
      {"log2", METHOD(log2), C_FUNCTION(log2)},
      {"log10", METHOD(log10), C_FUNCTION(log10)},
      {"log1p", METHOD(log1p), C_FUNCTION(log1p)},
      {"sin", METHOD(sin), C_FUNCTION(sin)},
      {"cos", METHOD(cos), C_FUNCTION(cos)},
      {"tan", METHOD(tan), C_FUNCTION(tan)},
      {"asin", METHOD(asin), C_FUNCTION(asin)},
      {"acos", METHOD(acos), C_FUNCTION(acos)},
      {"atan", METHOD(atan), C_FUNCTION(atan)},
      {"sinh", METHOD(sinh), C_FUNCTION(sinh)},
      {"cosh", METHOD(cosh), C_FUNCTION(cosh)},
      {"tanh", METHOD(tanh), C_FUNCTION(tanh)},
      {"asinh", METHOD(asinh), C_FUNCTION(asinh)},
      {"acosh", METHOD(acosh), C_FUNCTION(acosh)},
      {"atanh", METHOD(atanh), C_FUNCTION(atanh)},
      {"erf", METHOD(erf), C_FUNCTION(erf)},
      {"erfc", METHOD(erfc), C_FUNCTION(erfc)},
      {"sqrt", METHOD(sqrt), C_FUNCTION(sqrt)},
      {"rsqrt", METHOD(rsqrt), [](Real x) { return 1 / std::sqrt(x); }},
      {"reciprocal", METHOD(reciprocal), [](Real x) { return 1 / x; }},
      {"sigmoid", METHOD(sigmoid), logistic},
      {"log_sigmoid", METHOD(log_sigmoid), log_logistic},
      {"softplus", METHOD(softplus), [](Real x) { return x > 20 ? x : std::log1p(std::exp(x)); }},
      {"silu", METHOD(silu), [](Real x) { return x * logistic(x); }},
      {"gelu", METHOD(gelu), [](Real x) { return x * normal(x); }},
      {"gelu_tanh", METHOD(gelu_tanh),
       [](Real x) { return x * logistic(2 * std::sqrt(2 / pi) * (x + Real(0.044715) * x * x * x)); }},
      {"mish", METHOD(mish), [](Real x) { return x * std::tanh(x > 40 ? x : std::log1p(std::exp(x))); }},
      {"elu", METHOD(elu), [](Real x) { return x > 0 ? x : std::expm1(x); }},
      {"selu", METHOD(selu),
       [](Real x) {
         return Real(1.0507009873554804934193349852946) *
                (x > 0 ? x : Real(1.6732632423543772848170429916717) * std::expm1(x));
       }},
      {"softsign", METHOD(softsign), [](Real x) { return x / (1 + std::fabs(x)); }},
  };
  return list;
}

/// Units in the last place, of results of this size at least.
struct Statement {
  double ulp = 0, least = 0;
};
/// By name, from the table of the document.
std::map<std::string, Statement> stated() {
  std::ifstream file(LUMINAL_SOURCE_DIR "/docs/operations.md");
  std::map<std::string, Statement> bounds;
  bool inside = false;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("#")) inside = line.find("Accuracy") != std::string::npos;
    std::istringstream words(line);
    std::string bar, name, bar2, ulp, bar3, least;
    if (inside && words >> bar >> name >> bar2 >> ulp >> bar3 >> least && bar == "|" && name[0] == '`')
      bounds[name.substr(1, name.size() - 2)] = {std::atof(ulp.c_str()), std::atof(least.c_str())};
  }
  return bounds;
}

TEST(Accuracy, IsWhatTheDocumentStates) {
  const char* wish = std::getenv("LUMINAL_ACCURACY_STEP");
  const bool print = wish != nullptr;
  constexpr int64_t block = int64_t(1) << 14;
  const uint64_t step = wish ? std::max(1ull, std::strtoull(wish, nullptr, 10))
                             : 65521; // a prime: all exponents and ends of the significand
  const auto bounds = stated();
  Graph g;
  Tensor x = g.tensor({block});
  std::vector<Tensor> results;
  for (const Function& f : functions()) results.push_back(f.make(x).keep());
  std::vector<double> worst(results.size(), 0);
  std::vector<double> least;
  for (const Function& f : functions())
    least.push_back(bounds.contains(f.name) ? bounds.at(f.name).least : 0);
  std::vector<float> places(results.size(), 0), arguments(block);
  for (uint64_t bits = 0; bits < uint64_t(1) << 32;) {
    for (float& a : arguments)
      a = std::bit_cast<float>(uint32_t(std::min(bits, uint64_t(UINT32_MAX)))), bits += step;
    x.set(arguments);
    g.execute();
    for (size_t f = 0; f < results.size(); f++) {
      const auto got = results[f].data<float>();
      for (size_t i = 0; i < got.size(); i++) {
        const Real exact = functions()[f].exact(Real(arguments[i]));
        const auto rounded = float(exact);
        double error = 0;
        if (std::isnan(exact) || std::isnan(got[i]))
          error = std::isnan(exact) == std::isnan(got[i]) ? 0 : INFINITY;
        else if (std::isinf(rounded) || std::isinf(got[i])) // what overflows may be the largest number
          error = rounded == got[i] ? 0 : std::fabs(Real(got[i]) - exact) < Real(0x1p105) ? 1 : INFINITY;
        else {
          const double size = std::max({std::fabs(double(rounded)), least[f], 0x1p-126});
          const int exponent = std::ilogb(size);
          error = double(std::fabs(Real(got[i]) - exact) / std::ldexp(Real(1), exponent - 23));
        }
        if (!(error <= worst[f])) worst[f] = error, places[f] = arguments[i];
      }
    }
  }
  for (size_t f = 0; f < results.size(); f++) {
    const char* name = functions()[f].name;
    if (print) fmt::print("{} {:.3f} at {:.9g}\n", name, worst[f], places[f]);
    const auto found = bounds.find(name);
    if (found == bounds.end())
      ADD_FAILURE() << name << " is not in the table";
    else
      EXPECT_LE(worst[f], found->second.ulp) << name << " at " << places[f];
  }
  for (const auto& [name, bound] : bounds)
    EXPECT_TRUE(std::ranges::any_of(functions(), [&](auto& f) { return name == f.name; })) << name;
}

} // namespace
#undef METHOD
#undef C_FUNCTION
} // namespace luminal::accuracy_test
