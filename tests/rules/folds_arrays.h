// rules/folds_arrays.h -- arrays with numbered axes: broadcasting over the union of the axes,
// slices, joins. For folds_evaluate.cpp.
#pragma once
#include "base/check.h"
#include "folds_evaluate.h"
#include <bit>
#include <cmath>

namespace luminal::egraph::folds {

inline AxisSet bit_of(uint32_t axis) { return AxisSet(1) << axis; }
/// The place of an axis among those of the set.
inline size_t place_of(AxisSet set, uint32_t axis) { return size_t(std::popcount(set & (bit_of(axis) - 1))); }

template <class T> T scalar_max(T a, T b) { return a > b || std::isnan(a) ? a : b; }
template <class T> T scalar_min(T a, T b) { return a < b || std::isnan(a) ? a : b; }

template <class T> Array<T> scalar(T v) { return {0, {}, {v}}; }

/// Walks over the points of a shape and keeps an offset into each operand.
class Walk {
public:
  /// The union of the operands' axes; an axis has the same extent wherever it stands, or 1.
  template <class T> explicit Walk(std::span<const Array<T>* const> operands) {
    for (const auto* a : operands) axes_ |= a->axes;
    shape_.assign(size_t(std::popcount(axes_)), 1);
    for (const auto* a : operands) {
      size_t i = 0;
      for (AxisSet rest = a->axes; rest; rest &= rest - 1, ++i) {
        uint32_t& n = shape_[place_of(axes_, uint32_t(std::countr_zero(rest)))];
        LUMINAL_CHECK(n == 1 || a->shape[i] == 1 || n == a->shape[i], "extents {} and {}", n, a->shape[i]);
        n = std::max(n, a->shape[i]);
      }
    }
    for (const uint32_t n : shape_) points_ *= n;
    strides_.assign(operands.size() * shape_.size(), 0);
    offsets_.assign(operands.size(), 0);
    for (size_t k = 0; k < operands.size(); ++k) {
      const auto& a = *operands[k];
      size_t stride = 1, i = a.shape.size();
      for (AxisSet rest = a.axes; rest;) { // the last axis first
        const auto axis = uint32_t(63 - std::countl_zero(rest));
        rest &= ~bit_of(axis);
        --i;
        if (a.shape[i] > 1) strides_[k * shape_.size() + place_of(axes_, axis)] = stride;
        stride *= a.shape[i];
      }
    }
    at_.assign(shape_.size(), 0);
  }
  AxisSet axes() const { return axes_; }
  const std::vector<uint32_t>& shape() const { return shape_; }
  size_t points() const { return points_; }
  size_t offset(size_t operand) const { return offsets_[operand]; }
  void next() {
    for (size_t i = shape_.size(); i-- > 0;) {
      if (++at_[i] < shape_[i]) {
        for (size_t k = 0; k < offsets_.size(); ++k) offsets_[k] += strides_[k * shape_.size() + i];
        return;
      }
      at_[i] = 0;
      for (size_t k = 0; k < offsets_.size(); ++k)
        offsets_[k] -= strides_[k * shape_.size() + i] * (shape_[i] - 1);
    }
  }

private:
  AxisSet axes_ = 0;
  std::vector<uint32_t> shape_, at_;
  std::vector<size_t> strides_, offsets_;
  size_t points_ = 1;
};

/// f(values of the operands at a point) for each point of the union of their axes.
template <class T, class F> Array<T> lift(std::span<const Array<T>* const> operands, const F& f) {
  Walk walk(operands);
  Array<T> out{walk.axes(), walk.shape(), std::vector<T>(walk.points())};
  std::vector<T> values(operands.size());
  for (size_t i = 0; i < walk.points(); ++i, walk.next()) {
    for (size_t k = 0; k < operands.size(); ++k) values[k] = operands[k]->data[walk.offset(k)];
    out.data[i] = f(values.data());
  }
  return out;
}

/// Axis -> the points of it that are taken, in order; other axes stay.
template <class T> Array<T> taken(const Array<T>& a, uint32_t axis, std::span<const uint32_t> points) {
  if (!(a.axes & bit_of(axis))) return a;
  const size_t place = place_of(a.axes, axis);
  size_t before = 1, after = 1;
  for (size_t i = 0; i < place; ++i) before *= a.shape[i];
  for (size_t i = place + 1; i < a.shape.size(); ++i) after *= a.shape[i];
  Array<T> out{a.axes, a.shape, {}};
  out.shape[place] = uint32_t(points.size());
  out.data.reserve(before * points.size() * after);
  for (size_t b = 0; b < before; ++b)
    for (const uint32_t p : points) {
      const auto from = a.data.begin() + ptrdiff_t((b * a.shape[place] + p) * after);
      out.data.insert(out.data.end(), from, from + ptrdiff_t(after));
    }
  return out;
}

/// The points [from, to) of an axis.
template <class T> Array<T> slice(const Array<T>& a, uint32_t axis, uint32_t from, uint32_t to) {
  std::vector<uint32_t> points;
  for (uint32_t i = from; i < to; ++i) points.push_back(i);
  return taken(a, axis, points);
}

/// The array without an axis of one point.
template <class T> Array<T> squeezed(Array<T> a, uint32_t axis) {
  if (!(a.axes & bit_of(axis))) return a;
  const size_t place = place_of(a.axes, axis);
  LUMINAL_CHECK(a.shape[place] == 1);
  a.shape.erase(a.shape.begin() + ptrdiff_t(place));
  a.axes &= ~bit_of(axis);
  return a;
}

/// The array with an axis of `count` equal points, where it lacks the axis.
template <class T> Array<T> spread(const Array<T>& a, uint32_t axis, uint32_t count) {
  if (a.axes & bit_of(axis)) return a;
  const Array<T> along{bit_of(axis), {count}, std::vector<T>(count)};
  const Array<T>* both[] = {&a, &along};
  return lift<T>(both, [](const T* v) { return v[0]; });
}

/// The points of a along an axis, and behind them those of b; broadcast along the others.
template <class T> Array<T> concatenated(const Array<T>& a, const Array<T>& b, uint32_t axis) {
  const auto count = [&](const Array<T>& x) { return x.shape[place_of(x.axes, axis)]; };
  const uint32_t n = count(a), m = count(b);
  // Both on a grid of n + m points along the axis; the first n come from a.
  std::vector<uint32_t> first, second;
  std::vector<T> which;
  for (uint32_t i = 0; i < n + m; ++i) {
    first.push_back(std::min(i, n - 1));
    second.push_back(i < n ? 0 : i - n);
    which.push_back(T(i < n));
  }
  const Array<T> left = taken(a, axis, first), right = taken(b, axis, second);
  const Array<T> choice{bit_of(axis), {n + m}, which};
  const Array<T>* all[] = {&left, &right, &choice};
  return lift<T>(all, [](const T* v) { return v[2] != 0 ? v[0] : v[1]; });
}

/// An elementwise operation of the theory.
template <class T> T apply_map(Operation operation, const T* v) {
  switch (operation) {
  case Operation::neg: return -v[0];
  case Operation::exp: return std::exp(v[0]);
  case Operation::log: return std::log(v[0]);
  case Operation::recip: return 1 / v[0];
  case Operation::sqrt: return std::sqrt(v[0]);
  case Operation::abs: return std::abs(v[0]);
  case Operation::tanh: return std::tanh(v[0]);
  case Operation::add: return v[0] + v[1];
  case Operation::mul: return v[0] * v[1];
  case Operation::sub: return v[0] - v[1];
  case Operation::div: return v[0] / v[1];
  case Operation::max2: return scalar_max(v[0], v[1]);
  case Operation::min2: return scalar_min(v[0], v[1]);
  case Operation::lt: return T(v[0] < v[1]);
  case Operation::eq: return T(v[0] == v[1]);
  case Operation::select: return v[0] != 0 ? v[1] : v[2];
  default: LUMINAL_CHECK(false, "operation {} is not a map", int(operation)); return 0;
  }
}

} // namespace luminal::egraph::folds
