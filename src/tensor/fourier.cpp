// tensor/fourier.cpp -- discrete Fourier transforms: small dense ones and factors between them (Cooley and Tukey, "An algorithm for the machine calculation of
// complex Fourier series").
#include "luminal/functions.h"
#include "luminal/nn_functions.h"
#include "tensor/compose.h"
#include <cmath>
#include <fmt/format.h>
#include <functional>

namespace luminal {
namespace {

constexpr double two_pi = 6.283185307179586;

/// An array of numbers in x's type.
Tensor table(const Tensor& x, std::vector<int64_t> shape, const std::function<double(int64_t)>& value,
             Where where) {
  int64_t count = 1;
  Shape extents;
  for (int64_t e : shape) count *= e, extents.push_back(e);
  std::vector<std::byte> bytes(size_t(storage_bytes(x.dtype(), count)));
  for (int64_t i = 0; i < count; i++) store_f64(x.dtype(), bytes.data(), i, value(i));
  return build("fft", x.graph(), where, [&](FunctionBuilder& b) {
    return b.constant(TensorType{x.dtype(), extents}, std::move(bytes));
  });
}

/// The angle of the k-th power of the n-th root of 1, reduced first.
double angle(int64_t k, int64_t n, double sign) { return sign * two_pi * double(k % n) / double(n); }

/// x [.., n, m, 2] -> [.., k, m, 2], k over the n frequencies: a product with a matrix whose elements are 2 by 2.
Tensor dense(const Tensor& x, int64_t n, double sign, Where where) {
  Tensor matrix = table(
      x, {n, 2, n, 2},
      [&](int64_t at) { // [k, to, n, from]
        const int64_t from = at % 2, i = at / 2 % n, to = at / 2 / n % 2, k = at / 2 / n / 2;
        const double a = angle(k * i, n, sign);
        return from == to ? std::cos(a) : from == 1 ? -std::sin(a) : std::sin(a);
      },
      where);
  return einsum("...imc,kdic->...kmd", {x, matrix}, where);
}

/// x [.., n, 2] -> [.., n, 2], not scaled.
Tensor transform(const Tensor& x, int64_t n, double sign, Where where) {
  Dims outer = x.shape();
  outer.erase(outer.end() - 2, outer.end());
  const auto shaped = [&](std::initializer_list<int64_t> last) {
    Dims shape = outer;
    for (int64_t e : last) shape.emplace_back(e);
    return shape;
  };
  int64_t factor = std::min<int64_t>(n, 16);
  while (factor > 1 && n % factor != 0) factor--;
  if (factor <= 1) factor = n; // a prime
  const int64_t rest = n / factor;
  // Element rest * i + j: over i first, then a turn by j k, then over j; frequency k + factor * l.
  Tensor y = dense(x.reshape(shaped({factor, rest, 2}), where), factor, sign, where);
  if (rest == 1) return y.reshape(shaped({n, 2}), where);
  Tensor cosine = table(
      x, {factor, rest, 1}, [&](int64_t at) { return std::cos(angle((at / rest) * (at % rest), n, sign)); },
      where);
  Tensor sine = table(
      x, {factor, rest, 2},
      [&](int64_t at) {
        const double s = std::sin(angle((at / 2 / rest) * (at / 2 % rest), n, sign));
        return at % 2 == 0 ? -s : s;
      },
      where);
  y = y * cosine + y.flip(-1, where) * sine;
  Tensor z = transform(y, rest, sign, where); // [.., factor, rest, 2]
  return z.transpose(-3, -2, where).reshape(shaped({n, 2}), where);
}

int64_t known(std::string_view op, const Tensor& x, int axis, Where where) {
  const Dim size = x.dim(axis);
  if (!size.is_constant() || size.value() < 1)
    throw Error(
        op, fmt::format("axis {} of {} must be of a known size, at least 1", axis, text_of(type_of(x).shape)),
        where);
  return size.value();
}

void need_pairs(std::string_view op, const Tensor& x, Where where) {
  if (x.rank() < 2 || !(x.dim(-1) == Dim(2)))
    throw Error(
        op,
        fmt::format("complex numbers are pairs: the last axis of {} must be 2", text_of(type_of(x).shape)),
        where);
}

Tensor complex_transform(std::string_view op, const Tensor& x, double sign, bool scale, Where where) {
  graph_of(op, {&x}, where);
  need_pairs(op, x, where);
  const int64_t n = known(op, x, -2, where);
  Floats f(op, {Operand(x, where)}, where);
  Tensor y = transform(f[0], n, sign, where);
  return f.done(scale ? y * (1.0 / double(n)) : y);
}

} // namespace

Tensor fft(const Tensor& x, Where where) { return complex_transform("fft", x, -1, false, where); }
Tensor ifft(const Tensor& x, Where where) { return complex_transform("ifft", x, 1, true, where); }

Tensor rfft(const Tensor& x, Where where) {
  graph_of("rfft", {&x}, where);
  if (x.rank() < 1) throw Error("rfft", "a scalar has no axis", where);
  const int64_t n = known("rfft", x, -1, where);
  Floats f("rfft", {Operand(x, where)}, where);
  Tensor pairs = f[0].unsqueeze(-1, where).pad(-1, 0, 1, 0, where);
  return f.done(transform(pairs, n, -1, where).slice(-2, 0, n / 2 + 1, 1, where));
}

Tensor irfft(const Tensor& x, int64_t n, Where where) {
  graph_of("irfft", {&x}, where);
  need_pairs("irfft", x, where);
  const int64_t half = known("irfft", x, -2, where);
  if (n == 0) n = 2 * (half - 1);
  if (n < 1 || n / 2 + 1 != half)
    throw Error("irfft",
                fmt::format("a result of {} elements comes from {} frequencies, x {} has {}", n, n / 2 + 1,
                            text_of(type_of(x).shape), half),
                where);
  Floats f("irfft", {Operand(x, where)}, where);
  // Frequency n - k is the conjugate of k; what stands for itself is real.
  Shape shape = type_of(f[0]).shape;
  const size_t axis = shape.size() - 2;
  shape[axis] = n;
  std::vector<Expr> map;
  for (size_t d = 0; d < shape.size(); d++) map.push_back(axis_symbol(int(d), shape[d]));
  const Expr k = map[axis];
  map[axis] = min(k, n - k);
  const Expr read = logical_or(eq(map.back(), 0), logical_and(ne(k, 0), ne(2 * k, n)));
  Tensor whole = build("irfft", x.graph(), where,
                       [&](FunctionBuilder& b) { return b.view(f[0].id(), shape, map, read); });
  Tensor signs =
      table(f[0], {n, 2}, [&](int64_t at) { return at % 2 == 1 && at / 2 > n / 2 ? -1.0 : 1.0; }, where);
  Tensor y = transform(whole * signs, n, 1, where).slice(-1, 0, 1, 1, where).squeeze(-1, where);
  return f.done(y * (1.0 / double(n)));
}

} // namespace luminal
