// rules/folds_facts.cpp -- the facts of terms from those of their operands.
#include "folds_facts.h"
#include "luminal/error.h"
#include <algorithm>
#include <cmath>

namespace luminal::egraph::folds {
namespace {

struct Unary {
  std::string_view op;
  double (*f)(double);
};
constexpr Unary unary[] = {{"Neg", [](double x) { return -x; }},
                           {"Exp", [](double x) { return std::exp(x); }},
                           {"Log", [](double x) { return std::log(x); }},
                           {"Recip", [](double x) { return 1 / x; }},
                           {"Sqrt", [](double x) { return std::sqrt(x); }},
                           {"Abs", [](double x) { return std::abs(x); }},
                           {"Tanh", [](double x) { return std::tanh(x); }}};
struct Binary {
  std::string_view op;
  double (*f)(double, double);
};
constexpr Binary binary[] = {{"Add", [](double x, double y) { return x + y; }},
                             {"Mul", [](double x, double y) { return x * y; }},
                             {"Sub", [](double x, double y) { return x - y; }},
                             {"Div", [](double x, double y) { return x / y; }},
                             {"Max2", [](double x, double y) { return std::max(x, y); }},
                             {"Min2", [](double x, double y) { return std::min(x, y); }},
                             {"Lt", [](double x, double y) { return double(x < y); }},
                             {"Eq", [](double x, double y) { return double(x == y); }}};

/// Where the operands are finite numbers and so is the result.
std::optional<double> constant_of(std::string_view op, std::span<const Info* const> x) {
  for (const Info* i : x)
    if (!i->constant || !std::isfinite(*i->constant)) return std::nullopt;
  std::optional<double> out;
  if (x.size() == 1)
    for (const Unary& u : unary)
      if (u.op == op) out = u.f(*x[0]->constant);
  if (x.size() == 2)
    for (const Binary& b : binary)
      if (b.op == op) out = b.f(*x[0]->constant, *x[1]->constant);
  if (out && !std::isfinite(*out)) return std::nullopt;
  return out;
}

uint8_t sign_of_map(std::string_view op, std::span<const Info* const> x) {
  const auto low = [&](uint8_t most) {
    for (const Info* i : x) most = std::min(most, i->sign);
    return most;
  };
  if (op == "Exp" || op == "Abs" || op == "Sqrt" || op == "Lt" || op == "Eq") return 1; // exp underflows to 0
  if (op == "Recip" || op == "Mul") return low(1);
  if (op == "Add") return low(2) > 0 ? std::max(x[0]->sign, x[1]->sign) : uint8_t(0);
  if (op == "Max2") return std::max(x[0]->sign, x[1]->sign);
  if (op == "Min2" || op == "Div") return low(2);
  if (op == "Select") return std::min(x[1]->sign, x[2]->sign);
  return 0;
}

void join(Info& into, const Info& other) {
  into.axes |= other.axes;
  into.fixed = into.fixed && other.fixed;
  if (into.passes.size() < other.passes.size()) into.passes.resize(other.passes.size(), 0);
  for (size_t i = 0; i < other.passes.size(); ++i) into.passes[i] = std::max(into.passes[i], other.passes[i]);
}

void trim(Info& info) {
  while (!info.passes.empty() && info.passes.back() == 0) info.passes.pop_back();
}

} // namespace

uint32_t AxisNames::number(const std::string& name) {
  const auto at = std::find(names_.begin(), names_.end(), name);
  if (at != names_.end()) return uint32_t(at - names_.begin());
  if (names_.size() == 64) throw Error("a program has at most 64 axes");
  names_.push_back(name);
  return uint32_t(names_.size() - 1);
}
AxisBits AxisNames::bits(const Axes& axes) {
  AxisBits out = 0;
  for (const auto& name : axes) out |= AxisBits(1) << number(name);
  return out;
}
Axes AxisNames::names(AxisBits bits) const {
  Axes out;
  for (size_t i = 0; i < names_.size(); ++i)
    if (bits >> i & 1) out.insert(names_[i]);
  return out;
}

bool Info::flat(AxisBits over) const {
  for (size_t i = 0; i < passes.size(); ++i)
    if (passes[i] != 0 && (over >> i & 1)) return false;
  return true;
}

uint8_t sign_of(double v) { return v > 0 ? 2 : v == 0 ? 1 : 0; }

Info meet(const Info& a, const Info& b) {
  Info out = a;
  out.axes &= b.axes;
  out.passes.resize(std::min(a.passes.size(), b.passes.size()));
  for (size_t i = 0; i < out.passes.size(); ++i) out.passes[i] = std::min(a.passes[i], b.passes[i]);
  trim(out);
  out.sign = std::max(a.sign, b.sign);
  out.fixed = a.fixed || b.fixed;
  if (!out.constant) out.constant = b.constant;
  return out;
}

Info map_info(std::string_view op, std::span<const Info* const> operands) {
  Info out;
  for (const Info* x : operands) join(out, *x);
  out.constant = constant_of(op, operands);
  out.sign = out.constant ? sign_of(*out.constant) : sign_of_map(op, operands);
  return out;
}

Info fold_info(const Algebra& algebra, const Monoid& m, uint32_t i, AxisBits over,
               std::span<const Info* const> bodies, bool scan) {
  Info out;
  for (const uint32_t j : algebra.needs(m, i)) join(out, *bodies[j]);
  if (scan) {
    out.axes |= over;
  } else {
    out.axes &= ~over;
    for (size_t axis = 0; axis < 64 && (over >> axis) != 0; ++axis) {
      if (!(over >> axis & 1)) continue;
      if (out.passes.size() <= axis) out.passes.resize(axis + 1, 0);
      ++out.passes[axis];
    }
  }
  if (m[i] == algebra.single(m[i].op)[0]) out.sign = bodies[i]->sign;
  return out;
}

Info view_info(const Window& window, AxisNames& names, const Info& x) {
  Info out = x;
  out.constant.reset();
  const AxisBits axis = AxisBits(1) << names.number(window.axis);
  if (x.axes & axis) {
    out.axes &= ~axis;
    for (const auto& [term, factor] : window.terms) out.axes |= AxisBits(1) << names.number(term);
  }
  if (window.fill) out.sign = std::min(out.sign, sign_of(*window.fill));
  return out;
}

Info take_info(AxisBits over, const Info& at, const Info& x) {
  Info out = x;
  out.axes &= ~over;
  join(out, at);
  out.sign = std::min(x.sign, uint8_t(1));
  out.constant.reset();
  return out;
}

} // namespace luminal::egraph::folds
