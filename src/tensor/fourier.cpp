// tensor/fourier.cpp -- discrete Fourier transforms: a small dense one, then butterflies or small
// dense ones, one for each factor of the size (Cooley and Tukey, "An algorithm for the machine
// calculation of complex Fourier series").
#include "luminal/functions.h"
#include "luminal/indexing.h"
#include "luminal/nn_functions.h"
#include "tensor/compose.h"
#include <algorithm>
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

/// The largest divisor up to `most`, or else the least prime.
int64_t factor_of(int64_t n, int64_t most) {
  if (n == 1) return 1;
  int64_t factor = std::min(n, most);
  while (factor > 1 && n % factor != 0) factor--;
  if (factor == 1)
    for (factor = 2; factor < n && n % factor != 0;) factor++;
  return std::max<int64_t>(factor, 1);
}

/// What reads it finds it in memory, in this order.
Tensor kept_as_it_lies(const Tensor& x, Where where) {
  return build("fft", x.graph(), where, [&](FunctionBuilder& b) { return b.add(FenceAttr{}, {x.id()}); });
}

struct Complex {
  Tensor re, im;
};

/// x e^(i a), a = sign * 2 pi k / n, less than half a turn. A quarter of a turn is left to the
/// sums, which exchange parts.
Complex turned(const Complex& x, int64_t k, int64_t n, double sign) {
  if (8 * k == n || 8 * k == 3 * n) {
    const double root = std::sqrt(0.5);
    return sign > 0 ? Complex{(x.re - x.im) * root, (x.re + x.im) * root}
                    : Complex{(x.re + x.im) * root, (x.im - x.re) * root};
  }
  if (k == 0 || 4 * k == n) return x;
  const double c = std::cos(angle(k, n, sign)), s = std::sin(angle(k, n, sign));
  return {x.re * c - x.im * s, x.re * s + x.im * c};
}

/// The transform of as many numbers as a power of two, by halves.
std::vector<Complex> butterfly(const std::vector<Complex>& x, double sign) {
  const size_t n = x.size();
  if (n == 1) return x;
  std::vector<Complex> even, odd;
  for (size_t i = 0; i < n; i++) (i % 2 ? odd : even).push_back(x[i]);
  even = butterfly(even, sign), odd = butterfly(odd, sign);
  std::vector<Complex> y(n);
  for (size_t k = 0; k < n / 2; k++) {
    const Complex e = even[k], o = turned(odd[k], int64_t(k), int64_t(n), sign);
    const bool quarter = 4 * k == n || 8 * k == 3 * n;
    const Complex more = quarter ? Complex{e.re - o.im, e.im + o.re} : Complex{e.re + o.re, e.im + o.im},
                  less = quarter ? Complex{e.re + o.im, e.im - o.re} : Complex{e.re - o.re, e.im - o.im};
    const bool back = quarter && sign < 0;
    y[k] = back ? less : more, y[k + n / 2] = back ? more : less;
  }
  return y;
}

/// z [.., f, rest, 2, done] -> [.., rest, 2, f, done], f a power of two: turned by the powers of
/// the root, then a butterfly.
Tensor butterflies(const Tensor& z, int64_t f, int64_t done, double sign, Where where) {
  const int64_t all = f * done;
  const auto powers = [&](double (*part)(double)) {
    return table(
        z, {f, done}, [&](int64_t at) { return part(angle(at / done * (at % done), all, sign)); }, where);
  };
  const Tensor cosines = powers([](double a) { return std::cos(a); }),
               sines = powers([](double a) { return std::sin(a); });
  std::vector<Complex> x;
  for (int64_t i = 0; i < f; i++) {
    const auto part = [&](int64_t c) {
      return z.slice(-4, i, i + 1, 1, where)
          .squeeze(-4, where)
          .slice(-2, c, c + 1, 1, where)
          .squeeze(-2, where);
    };
    const auto power = [&](const Tensor& of) { return of.slice(0, i, i + 1, 1, where).squeeze(0, where); };
    const Tensor re = part(0), im = part(1), c = power(cosines), s = power(sines);
    x.push_back(i == 0 ? Complex{re, im} : Complex{re * c - im * s, re * s + im * c});
  }
  std::vector<Tensor> parts;
  const std::vector<Complex> y = butterfly(x, sign);
  for (const Complex& k : y) parts.push_back(k.re);
  for (const Complex& k : y) parts.push_back(k.im);
  return kept_as_it_lies(stack(parts, -2, where), where);
}

/// x [.., n, parts] -> [.., n, 2], not scaled; parts: 2, or 1 of real numbers. In the order of
/// Stockham (Cochran and others, "What is the fast Fourier transform?"): what is known of the
/// frequency stands innermost, real and imaginary parts lie in planes, so that every step has long
/// lanes.
Tensor transform(const Tensor& x, int64_t n, double sign, Where where) {
  constexpr int64_t first_factor = 16, next_factor = 8; // as many lanes; fewest operations
  constexpr int64_t largest_table = int64_t(1) << 16;
  const int64_t parts = x.dim(-1).value();
  Dims outer = x.shape();
  outer.erase(outer.end() - 2, outer.end());
  const auto shaped = [&](std::initializer_list<int64_t> last) {
    Dims shape = outer;
    for (int64_t e : last) shape.emplace_back(e);
    return shape;
  };
  // An element of the 2 by 2 matrix that multiplies by the power of the root.
  const auto element = [](double a, int64_t to, int64_t from) {
    return from == to ? std::cos(a) : from == 1 ? -std::sin(a) : std::sin(a);
  };
  const int64_t factor = factor_of(n, first_factor);
  Tensor matrix = table(
      x, {factor, parts, 2, factor},
      [&](int64_t at) { // [i, from, to, k]
        const int64_t k = at % factor, to = at / factor % 2, from = at / factor / 2 % parts,
                      i = at / factor / 2 / parts;
        return element(angle(i * k, factor, sign), to, from);
      },
      where);
  int64_t rest = n / factor, done = factor; // frequencies that are known
  // (A kernel that is cut into pieces, as butterflies are, has constant sizes.)
  const bool of_known_size = std::ranges::all_of(outer, [](const Dim& d) { return d.is_constant(); });
  Tensor y = einsum("...irc,icdk->...rdk", {x.reshape(shaped({factor, rest, parts}), where), matrix}, where);
  while (rest > 1) {
    const int64_t f = factor_of(rest, next_factor), all = done * f;
    rest /= f;
    Tensor z = y.reshape(shaped({f, rest, 2, done}), where);
    if (of_known_size && f > 1 && (f & (f - 1)) == 0) {
      y = butterflies(z, f, done, sign, where);
    } else if (4 * f * all <= largest_table) { // the turns within the matrices
      matrix = table(
          x, {2, f, f, 2, done},
          [&](int64_t at) { // [to, k, i, from, s]
            const int64_t s = at % done, from = at / done % 2, i = at / done / 2 % f,
                          k = at / done / 2 / f % f, to = at / done / 2 / f / f;
            return element(angle(i * (s + done * k), all, sign), to, from);
          },
          where);
      y = einsum("...ircs,dkics->...rdks", {z, matrix}, where);
    } else {
      Tensor cosine = table(
          x, {f, 1, 1, done}, [&](int64_t at) { return std::cos(angle(at / done * (at % done), all, sign)); },
          where);
      Tensor sine = table(
          x, {f, 1, 2, done},
          [&](int64_t at) {
            const double turn = std::sin(angle(at / done / 2 * (at % done), all, sign));
            return at / done % 2 == 0 ? -turn : turn;
          },
          where);
      matrix = table(
          x, {2, f, f, 2},
          [&](int64_t at) { // [to, k, i, from]
            return element(angle(at / 2 % f * (at / 2 / f % f), f, sign), at / 2 / f / f, at % 2);
          },
          where);
      y = einsum("...ircs,dkic->...rdks", {z * cosine + z.flip(-2, where) * sine, matrix}, where);
    }
    done = all;
    y = y.reshape(shaped({rest, 2, done}), where);
  }
  return y.reshape(shaped({2, n}), where).transpose(-2, -1, where);
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
  return f.done(transform(f[0].unsqueeze(-1, where), n, -1, where).slice(-2, 0, n / 2 + 1, 1, where));
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
