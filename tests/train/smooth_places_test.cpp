// train/smooth_places_test.cpp -- functions that are made of others have their own derivatives where
// their parts have kinks: at 0, at both zeros, at ties. Held against differences, in two orders.
#include "luminal/losses.h"
#include "train/gradient_support.h"
#include <functional>
#include <limits>

namespace luminal::smooth_places_test {
namespace {

using namespace testing_train;

Numbers values(const Tensor& t) {
  const auto list = t.data<double>();
  return {list.begin(), list.end()};
}

struct Unary {
  const char* name;
  std::function<Tensor(const Tensor&)> f;
  Numbers at;
};
const Unary unary_functions[] = {
    {"sinh", [](const Tensor& x) { return x.sinh(); }, {0, -0.0, 1, -1}},
    {"cosh", [](const Tensor& x) { return x.cosh(); }, {0, -0.0, 1, -1}},
    {"asinh", [](const Tensor& x) { return x.asinh(); }, {0, -0.0, 1, -2}},
    {"atanh", [](const Tensor& x) { return x.atanh(); }, {0, -0.0, 0.5, -0.5}},
    {"asin", [](const Tensor& x) { return x.asin(); }, {0, -0.0, 0.25, -0.75}},
    {"acos", [](const Tensor& x) { return x.acos(); }, {0, -0.0, 0.25, -0.75}},
    {"atan", [](const Tensor& x) { return x.atan(); }, {0, -0.0, 1, -3}},
    {"erfc", [](const Tensor& x) { return x.erfc(); }, {0, -0.0, 1, -1}},
    {"log_sigmoid", [](const Tensor& x) { return x.log_sigmoid(); }, {0, -0.0, 20, -20}},
    {"sinc", [](const Tensor& x) { return sinc(x); }, {0, -0.0, 1e-10, 1e-3, 0.5, -1}},
    {"sinc near 0", [](const Tensor& x) { return sinc(x * 1e-3); }, {0, 1, 3, 3.2}},
};

TEST(SmoothPlaces, FunctionsOfOneNumber) {
  for (const Unary& row : unary_functions) {
    SCOPED_TRACE(row.name);
    Probe p;
    const Tensor x = p.input({int64_t(row.at.size())});
    p.bindings.inputs["x0"] = host_tensor(DType::f64, {int64_t(row.at.size())}, row.at);
    p.check({row.f(x)}, {.step = 1e-4, .second = true});
    EXPECT_EQ(p.compared, int64_t(2 * row.at.size()));
  }
}

struct Binary {
  const char* name;
  std::function<Tensor(const Tensor&, const Tensor&)> f;
  Numbers a, b;
};
const Binary binary_functions[] = {
    {"hypot",
     [](const Tensor& a, const Tensor& b) { return hypot(a, b); },
     {0, 3, 2, -2, 1},
     {3, -0.0, 2, 2, 1}},
    {"atan2",
     [](const Tensor& a, const Tensor& b) { return atan2(a, b); },
     {0, -0.0, 1, 2, -2, 2, 0.5},
     {3, 2, 0, 2, 2, -2, 1}},
    {"logaddexp",
     [](const Tensor& a, const Tensor& b) { return logaddexp(a, b); },
     {0, 1, -2, 3},
     {0, 1, -2, 1}},
    {"logaddexp2",
     [](const Tensor& a, const Tensor& b) { return logaddexp2(a, b); },
     {0, 1, -2, 3},
     {0, 1, -2, 1}},
    {"xlogy", [](const Tensor& a, const Tensor& b) { return xlogy(a, b); }, {0, -0.0, 0, 2}, {2, 0.5, 1, 3}},
    {"pow", [](const Tensor& a, const Tensor& b) { return pow(a, b); }, {1, 1, 0.5, 2}, {2, 0.5, 0, 0}},
};

TEST(SmoothPlaces, FunctionsOfTwoNumbers) {
  for (const Binary& row : binary_functions) {
    SCOPED_TRACE(row.name);
    Probe p;
    const int64_t count = int64_t(row.a.size());
    const Tensor a = p.input({count}), b = p.input({count});
    p.bindings.inputs["x0"] = host_tensor(DType::f64, {count}, row.a);
    p.bindings.inputs["x1"] = host_tensor(DType::f64, {count}, row.b);
    // The derivative of a power by its base is a constant 0 where the exponent is 0, as in PyTorch.
    const bool both = std::string(row.name) != "pow";
    p.check({row.f(a, b)}, {.step = 1e-4, .second = both});
    EXPECT_EQ(p.compared, (both ? 4 : 2) * count);
  }
}

/// Three equal numbers and more: sums of exponentials in the frame of a largest one that several hold.
TEST(SmoothPlaces, ScansOfExponentials) {
  Probe p;
  const Tensor x = p.input({3, 4});
  p.bindings.inputs["x0"] = host_tensor(DType::f64, {3, 4}, Numbers{1, 1, 1, 1, 0, 2, 2, 1, -1, -1, 3, 3});
  p.check({x.logcumsumexp(1)}, {.step = 1e-4, .second = true});
  p.check({x.logcumsumexp(0)}, {.step = 1e-4, .second = true});
}
TEST(SmoothPlaces, ScansOfExponentialsKeepInfinities) {
  const double inf = std::numeric_limits<double>::infinity();
  Graph g;
  Tensor x = g.tensor({4}, DType::f64, "x");
  x.set({-inf, -inf, 0.0, 0.0});
  Tensor y = g.tensor({3}, DType::f64, "y");
  y.set({1.0, inf, inf});
  const Tensor a = x.logcumsumexp(0).keep(), b = y.logcumsumexp(0).keep();
  g.execute();
  EXPECT_EQ(values(a), (Numbers{-inf, -inf, 0, std::log(2.0)}));
  EXPECT_EQ(values(b), (Numbers{1, inf, inf}));
}

TEST(SmoothPlaces, RemaindersAtMultiples) {
  Graph g;
  Tensor a = g.tensor({6}, DType::f64, "a"), b = g.tensor({6}, DType::f64, "b");
  a.set({0.0, 2.0, -4.0, 3.0, 5.0, -5.0});
  b.set({2.0, 2.0, 2.0, -3.0, 3.0, 3.0});
  const Tensor y = fmod(a, b).sum();
  const Tensor da = gradient(y, a).keep(), db = gradient(y, b).keep();
  g.execute();
  EXPECT_EQ(values(da), (Numbers{1, 1, 1, 1, 1, 1}));
  EXPECT_EQ(values(db), (Numbers{0, -1, 2, 1, -1, 1}));
}

/// Of equal values the first has the gradient, of a number and a NaN the number: as in PyTorch.
TEST(SmoothPlaces, TheGreaterNumber) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const bool greater : {true, false}) {
    Graph g;
    Tensor a = g.tensor({4}, DType::f64, "a"), b = g.tensor({4}, DType::f64, "b");
    a.set({1.0, 2.0, nan, 1.0});
    b.set({1.0, 1.0, 1.0, nan});
    const Tensor y = (greater ? fmax(a, b) : fmin(a, b)).keep();
    const Tensor da = gradient(y.sum(), a).keep(), db = gradient(y.sum(), b).keep();
    g.execute();
    EXPECT_EQ(values(y), (greater ? Numbers{1, 2, 1, 1} : Numbers{1, 1, 1, 1}));
    EXPECT_EQ(values(da), (greater ? Numbers{1, 1, 0, 1} : Numbers{1, 0, 0, 1}));
    EXPECT_EQ(values(db), (greater ? Numbers{0, 0, 1, 0} : Numbers{0, 1, 1, 0}));
  }
}

/// Norms and deviations have 0 where they are 0, as in PyTorch: no NaN for a row of zeros.
TEST(SmoothPlaces, LengthsOfZero) {
  const std::pair<const char*, std::function<Tensor(const Tensor&)>> rows[] = {
      {"norm 2", [](const Tensor& x) { return x.norm(2, 1); }},
      {"norm 3", [](const Tensor& x) { return x.norm(3, 1); }},
      {"norm 1.5", [](const Tensor& x) { return x.norm(1.5, 1); }},
      {"norm 0.5", [](const Tensor& x) { return x.norm(0.5, 1); }},
      {"std", [](const Tensor& x) { return x.std(1); }},
      {"std_mean", [](const Tensor& x) { return std_mean(x, 1).std; }},
      {"cosine", [](const Tensor& x) { return cosine_similarity(x, x * 0.0); }},
      {"distance", [](const Tensor& x) { return pairwise_distance(x, x, 2, 0); }},
      {"rmse", [](const Tensor& x) { return rmse_loss(x, x * 0.0); }},
      {"hypot", [](const Tensor& x) { return hypot(x, x); }},
      {"atan2", [](const Tensor& x) { return atan2(x, x); }},
  };
  for (const auto& [name, f] : rows) {
    SCOPED_TRACE(name);
    Graph g;
    Tensor x = g.tensor({2, 3}, DType::f64, "x");
    x.set(Numbers(6, 0));
    const Tensor dx = gradient(f(x).sum(), x).keep();
    g.execute();
    EXPECT_EQ(values(dx), Numbers(6, 0));
  }
}

/// What reads no element has no gradient to send, whatever the shapes around it are.
TEST(SmoothPlaces, EmptyTensors) {
  Graph g;
  Tensor x = g.tensor({4}, DType::f64, "x"), w = g.tensor({4, 0}, DType::f64, "w");
  x.set({1.0, 2.0, 3.0, 4.0});
  w.set(Numbers{});
  const Tensor product = (x.matmul(w)).sum() + x.square().sum();
  const Tensor one = g.tensor({1}, DType::f64, "one");
  const Tensor dx = gradient(product, x).keep(), dw = gradient(product, w).keep();
  const Tensor none = gradient(diff(one).sum() + one.sum(), one).keep();
  g.execute();
  EXPECT_EQ(values(dx), (Numbers{2, 4, 6, 8}));
  EXPECT_EQ(values(dw), Numbers{});
  EXPECT_EQ(values(none), Numbers{1});
}

} // namespace
} // namespace luminal::smooth_places_test
