// rules/magnitude.cpp -- magnitudes of terms from those of their operands.
#include "rules/magnitude.h"
#include "rules/facts.h"
#include <cmath>

namespace luminal::rules {
namespace {

int16_t mark(int exponent) { return int16_t((std::max(exponent, 0) + 7) / 8 * 8); }
int16_t half(int exponent) { return mark((exponent + 1) / 2); }
Magnitude product(Magnitude a, Magnitude b) {
  constexpr Magnitude most;
  return {int16_t(std::min<int>(a.below + b.below, most.below)),
          int16_t(std::min<int>(a.above + b.above, most.above))};
}
Magnitude inverse(Magnitude m) { return {m.above, std::min(m.below, Magnitude().above)}; }

} // namespace

Magnitude magnitude_of(DType type) {
  switch (type) {
  case DType::f64: return {};
  case DType::f32: return {152, 128};
  case DType::bf16: return {136, 128};
  case DType::f16: return {24, 16};
  case DType::boolean: return {0, 0};
  default: return is_float(type) ? Magnitude{16, 16} : Magnitude{0, 64};
  }
}

Magnitude magnitude_of(double value) {
  if (!std::isfinite(value) || value == 0) return {0, 0};
  const int exponent = std::ilogb(value);
  const bool is_power = std::scalbn(std::fabs(value), -exponent) == 1;
  return {mark(-exponent), mark(is_power ? exponent : exponent + 1)};
}

Magnitude magnitude_of_count(double most) { return {0, magnitude_of(most).above}; }

Magnitude narrowed(Magnitude m, DType type, double low, double high) {
  m = meet(m, magnitude_of(type));
  if (low >= 1 || high <= -1) m.below = 0;
  if (low >= far_above_zero) m.below = std::min<int16_t>(m.below, 64);
  if (low >= -1 && high <= 1) m.above = 0;
  return m;
}

Magnitude magnitude_of_row(Op op, std::span<const Info* const> xs) {
  const Magnitude a = xs[0]->reach(), b = xs.size() > 1 ? xs[1]->reach() : a;
  switch (op) {
  case Op::neg:
  case Op::abs: return a;
  case Op::max:
    if (xs[0]->positive() || xs[1]->positive()) // it is at least that one
      return {std::min(xs[0]->positive() ? a.below : Magnitude().below,
                       xs[1]->positive() ? b.below : Magnitude().below),
              std::max(a.above, b.above)};
    return either(a, b);
  case Op::min: return either(a, b);
  case Op::select: return either(b, xs[2]->reach());
  case Op::floor:
  case Op::ceil:
  case Op::trunc:
  case Op::round: return {0, a.above};
  case Op::sign: return {0, 0};
  case Op::add:
    return {xs[0]->low >= 0 && xs[1]->low >= 0 ? std::max(a.below, b.below) : Magnitude().below,
            std::min(mark(std::max(a.above, b.above) + 1), Magnitude().above)};
  case Op::mul: return product(a, b);
  case Op::div: return product(a, inverse(b));
  case Op::recip: return inverse(a);
  case Op::sqrt: return {half(a.below), half(a.above)};
  case Op::rsqrt: return {half(a.above), half(a.below)};
  default: return {};
  }
}

Magnitude magnitude_of_sum(const Info& x, double count) {
  const Magnitude m = x.reach();
  return {x.low >= 0 || x.high <= 0 ? m.below : Magnitude().below,
          product(m, magnitude_of_count(count)).above};
}

namespace {

int middle(DType type) { return type == DType::f64 ? 640 : 96; }

} // namespace

bool is_mid_range(const Info& factor) {
  const Magnitude m = factor.reach();
  return m.below <= middle(factor.dtype) && m.above <= middle(factor.dtype);
}
bool is_never_large(const Info& factor) { return factor.reach().above <= middle(factor.dtype); }

} // namespace luminal::rules
