// tensor/fourier.cpp -- discrete Fourier transforms: for each factor of the size a step of small
// transforms, in one body (butterflies) or as a sum (Cooley and Tukey, "An algorithm for the machine
// calculation of complex Fourier series"). Of many short rows the lanes go along the rows.
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
  return build("fft", x.graph(), where, [&](FunctionBuilder& b) { return b.add(FenceAttr{}, {node_id(x)}); });
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
    const Complex& e = even[k];
    const Complex o = turned(odd[k], int64_t(k), int64_t(n), sign);
    const bool quarter = 4 * k == n || 8 * k == 3 * n;
    const Complex more = quarter ? Complex{e.re - o.im, e.im + o.re} : Complex{e.re + o.re, e.im + o.im},
                  less = quarter ? Complex{e.re + o.im, e.im - o.re} : Complex{e.re - o.re, e.im - o.im};
    const bool back = quarter && sign < 0;
    y[k] = back ? less : more, y[k + n / 2] = back ? more : less;
  }
  return y;
}

/// The transform of an odd number of numbers: what k and n - k read are a sum and a difference of two.
std::vector<Complex> odd_transform(const std::vector<Complex>& x, double sign) {
  const size_t n = x.size(), half = n / 2;
  std::vector<Complex> y(n, x[0]), sums, differences;
  for (size_t j = 1; j <= half; j++) {
    const Complex &a = x[j], &b = x[n - j];
    sums.push_back({a.re + b.re, a.im + b.im}), differences.push_back({a.re - b.re, a.im - b.im});
    y[0] = {y[0].re + sums.back().re, y[0].im + sums.back().im};
  }
  for (size_t k = 1; k <= half; k++) {
    Complex even = x[0], odd;
    for (size_t j = 1; j <= half; j++) {
      const double a = angle(int64_t(j * k), int64_t(n), sign), c = std::cos(a), s = std::sin(a);
      even = {even.re + sums[j - 1].re * c, even.im + sums[j - 1].im * c};
      const Complex turn{differences[j - 1].re * s, differences[j - 1].im * s};
      odd = j == 1 ? turn : Complex{odd.re + turn.re, odd.im + turn.im};
    }
    y[k] = {even.re - odd.im, even.im + odd.re};
    y[n - k] = {even.re + odd.im, even.im - odd.re};
  }
  return y;
}

bool is_power_of_two(int64_t n) { return n > 0 && (n & (n - 1)) == 0; }

Tensor element(const Tensor& x, int axis, int64_t at, Where where) {
  return x.slice(axis, at, at + 1, 1, where).squeeze(axis, where);
}

/// How the results of a step lie: both parts in planes, or side by side; the latter for the last step, in
/// which no axis `rest` is left.
enum class ResultOrder { planes, pairs };

/// z [.., f, rest, 2, done, tail..] -> [.., rest, 2, f, done, tail..] or [.., f done, 2, tail..], f a power
/// of two or odd: turned by the powers of the root and scaled, then a transform of f numbers in one body.
/// tail: the number of axes behind `done`, 0 or 1.
Tensor small_step(const Tensor& z, double sign, double scale, int tail, ResultOrder order, Where where) {
  const int done_axis = -1 - tail, parts_axis = -2 - tail, rest_axis = -2 - tail, factor_axis = -4 - tail;
  const int64_t f = z.dim(factor_axis).value(), done = z.dim(done_axis).value(), all = f * done;
  std::vector<int64_t> shape{f, done};
  shape.resize(2 + size_t(tail), 1);
  const auto powers = [&](double (*part)(double)) {
    return table(
        z, shape, [&](int64_t at) { return scale * part(angle(at / done * (at % done), all, sign)); }, where);
  };
  const bool first = done == 1 && tail == 0; // (without an innermost axis of one element)
  Tensor cosines, sines;
  if (done > 1) {
    cosines = powers([](double a) { return std::cos(a); });
    sines = powers([](double a) { return std::sin(a); });
  }
  std::vector<Complex> x;
  for (int64_t i = 0; i < f; i++) {
    const Tensor own = element(z, factor_axis, i, where);
    const auto part = [&](int64_t c) {
      const Tensor of = element(own, parts_axis, c, where);
      return first ? of.squeeze(done_axis, where) : of;
    };
    const Tensor re = part(0), im = part(1);
    if (done > 1 && i > 0) {
      const Tensor c = element(cosines, 0, i, where), s = element(sines, 0, i, where);
      x.push_back({re * c - im * s, re * s + im * c});
    } else
      x.push_back(scale == 1 ? Complex{re, im} : Complex{re * scale, im * scale});
  }
  const std::vector<Complex> y = is_power_of_two(f) ? butterfly(x, sign) : odd_transform(x, sign);
  std::vector<Tensor> results;
  if (order == ResultOrder::pairs) {
    for (const Complex& k : y)
      results.push_back(
          stack({k.re.squeeze(rest_axis, where), k.im.squeeze(rest_axis, where)}, parts_axis + 1, where));
    return kept_as_it_lies(concat(results, -2 - tail, where), where);
  }
  for (const Complex& k : y) results.push_back(k.re);
  for (const Complex& k : y) results.push_back(k.im);
  return kept_as_it_lies(stack(results, first ? -1 : -2 - tail, where), where);
}

// ---- many rows: the lanes go along them ----

/// Factors of n that one body transforms each, the largest first; empty: there are others, or few.
std::vector<int64_t> small_factors(int64_t n) {
  constexpr int64_t largest_even = 16, largest_odd = 13, least = 17;
  if (n < least) return {};
  std::vector<int64_t> factors;
  for (int64_t f = 3; f <= largest_odd; f += 2)
    for (; n % f == 0; n /= f) factors.push_back(f);
  if (!is_power_of_two(n)) return {};
  for (int64_t f; n > 1; n /= f) {
    f = n <= largest_even ? n : largest_even / 2;
    factors.push_back(f);
  }
  std::ranges::sort(factors, std::greater());
  return factors;
}

struct Rows {
  std::vector<int64_t> factors; // empty: a row by itself
  int64_t rows = 1;
};

/// Of n complex numbers a row. Rows of a power of two have long lanes themselves; what is large would pass
/// through memory once for each factor.
Rows rows_of(const Dims& outer, int64_t n) {
  constexpr int64_t fewest = 16, most = int64_t(1) << 21, long_row = 128;
  Rows r;
  for (const Dim& d : outer) {
    if (!d.is_constant()) return {};
    r.rows *= d.value();
  }
  if (r.rows < fewest || r.rows * n > most || (is_power_of_two(n) && n >= long_row)) return {};
  r.factors = small_factors(n);
  return r;
}

/// x [.., count] -> [count, rows].
Tensor into_columns(const Tensor& x, int64_t rows, int64_t count, Where where) {
  return kept_as_it_lies(x.reshape({rows, count}, where).transpose(0, 1, where), where);
}

/// y [.., rows], count elements before `rows` -> [outer.., last..].
Tensor out_of_columns(const Tensor& y, int64_t rows, int64_t count, Dims outer, const Dims& last,
                      Where where) {
  outer.insert(outer.end(), last.begin(), last.end());
  return kept_as_it_lies(
      y.reshape({count, rows}, where).transpose(0, 1, where).reshape(std::move(outer), where), where);
}

/// z [2 n, rows] -> [n, 2, rows].
Tensor transform_columns(Tensor z, const Rows& r, int64_t n, double sign, double scale, Where where) {
  int64_t rest = n, done = 1;
  for (const int64_t f : r.factors) {
    rest /= f;
    z = z.reshape({f, rest, 2, done, r.rows}, where);
    const bool last = rest == 1;
    z = small_step(z, sign, last ? scale : 1, 1, last ? ResultOrder::pairs : ResultOrder::planes, where);
    done *= f;
  }
  return z;
}

/// x [.., n, parts] -> [.., n, 2], scaled; parts: 2, or 1 of real numbers. In the order of
/// Stockham (Cochran and others, "What is the fast Fourier transform?"): what is known of the
/// frequency stands innermost, real and imaginary parts lie in planes, so that every step has long
/// lanes.
Tensor transform(const Tensor& x, int64_t n, double sign, double scale, Where where) {
  constexpr int64_t first_factor = 16, next_factor = 8; // as many lanes; fewest operations
  constexpr int64_t largest_table = int64_t(1) << 16;
  const int64_t parts = x.dim(-1).value();
  Dims outer = x.shape();
  outer.erase(outer.end() - 2, outer.end());
  if (const Rows rows = rows_of(outer, n); parts == 2 && !rows.factors.empty()) {
    const Tensor z = into_columns(x, rows.rows, 2 * n, where);
    return out_of_columns(transform_columns(z, rows, n, sign, scale, where), rows.rows, 2 * n, outer, {n, 2},
                          where);
  }
  const auto shaped = [&](std::initializer_list<int64_t> last) {
    Dims shape = outer;
    for (int64_t e : last) shape.emplace_back(e);
    return shape;
  };
  // An element of the 2 by 2 matrix that multiplies by the power of the root.
  const auto element = [](double a, int64_t to, int64_t from) {
    return from == to ? std::cos(a) : from == 1 ? -std::sin(a) : std::sin(a);
  };
  // (A kernel that is cut into pieces, as butterflies are, has constant sizes.)
  const bool of_known_size = std::ranges::all_of(outer, [](const Dim& d) { return d.is_constant(); });
  const int64_t factor = factor_of(n, first_factor);
  int64_t rest = n / factor, done = factor; // frequencies that are known
  Tensor matrix, y;
  if (of_known_size && parts == 2 && factor == first_factor && is_power_of_two(n) &&
      rest >= first_factor / 2) {
    y = small_step(x.reshape(shaped({factor, rest, 2, 1}), where), sign, 1, 0, ResultOrder::planes, where);
  } else {
    matrix = table(
        x, {factor, parts, 2, factor},
        [&](int64_t at) { // [i, from, to, k]
          const int64_t k = at % factor, to = at / factor % 2, from = at / factor / 2 % parts,
                        i = at / factor / 2 / parts;
          return element(angle(i * k, factor, sign), to, from);
        },
        where);
    y = einsum("...irc,icdk->...rdk", {x.reshape(shaped({factor, rest, parts}), where), matrix}, where);
  }
  while (rest > 1) {
    const int64_t f = factor_of(rest, next_factor), all = done * f;
    rest /= f;
    Tensor z = y.reshape(shaped({f, rest, 2, done}), where);
    if (of_known_size && f > 1 && is_power_of_two(f)) {
      const bool last = rest == 1;
      y = small_step(z, sign, last ? scale : 1, 0, last ? ResultOrder::pairs : ResultOrder::planes, where);
      if (last) return y;
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
  y = y.reshape(shaped({2, n}), where).transpose(-2, -1, where);
  return scale == 1 ? y : y * scale;
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
  return f.done(transform(f[0], n, sign, scale ? 1.0 / double(n) : 1.0, where));
}

/// x [.., n] of real numbers, n even -> [.., n / 2 + 1, 2]: neighbours are one complex number, and the
/// frequencies of both halves are taken apart afterwards.
Tensor real_transform(const Tensor& x, const Rows& r, int64_t n, const Dims& outer, Where where) {
  const int64_t half = n / 2, count = half + 1;
  const Tensor z =
      transform_columns(into_columns(x, r.rows, n, where), r, half, -1, 0.5, where); // [half, 2, rows]
  const auto part = [&](int64_t c, bool back) { // of frequency k or of -k
    const Shape shape{count, r.rows};
    const Expr k = axis_symbol(0, count), row = axis_symbol(1, r.rows);
    return build("rfft", x.graph(), where, [&](FunctionBuilder& b) {
      return b.view(node_id(z), shape, {mod(back ? Expr(half) - k : k, half), Expr(c), row});
    });
  };
  const Tensor re = part(0, false), im = part(1, false), back_re = part(0, true), back_im = part(1, true);
  const auto powers = [&](double (*of)(double)) {
    return table(x, {count, 1}, [&](int64_t k) { return of(angle(k, n, -1)); }, where);
  };
  const Tensor c = powers([](double a) { return std::cos(a); }),
               s = powers([](double a) { return std::sin(a); });
  const Complex even{re + back_re, im - back_im}, odd{im + back_im, back_re - re};
  const Tensor y = kept_as_it_lies(
      stack({even.re + (odd.re * c - odd.im * s), even.im + (odd.re * s + odd.im * c)}, 1, where), where);
  return out_of_columns(y, r.rows, 2 * count, outer, {count, 2}, where);
}

} // namespace

Tensor fft(const Tensor& x, Where where) { return complex_transform("fft", x, -1, false, where); }
Tensor ifft(const Tensor& x, Where where) { return complex_transform("ifft", x, 1, true, where); }

Tensor rfft(const Tensor& x, Where where) {
  graph_of("rfft", {&x}, where);
  if (x.rank() < 1) throw Error("rfft", "a scalar has no axis", where);
  const int64_t n = known("rfft", x, -1, where);
  Floats f("rfft", {Operand(x, where)}, where);
  Dims outer = f[0].shape();
  outer.pop_back();
  if (n % 2 == 0)
    if (const Rows rows = rows_of(outer, n / 2); !rows.factors.empty())
      return f.done(real_transform(f[0], rows, n, outer, where));
  return f.done(transform(f[0].unsqueeze(-1, where), n, -1, 1, where).slice(-2, 0, n / 2 + 1, 1, where));
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
                       [&](FunctionBuilder& b) { return b.view(node_id(f[0]), shape, map, read); });
  Tensor signs =
      table(f[0], {n, 2}, [&](int64_t at) { return at % 2 == 1 && at / 2 > n / 2 ? -1.0 : 1.0; }, where);
  const Tensor y = transform(whole * signs, n, 1, 1.0 / double(n), where);
  return f.done(y.slice(-1, 0, 1, 1, where).squeeze(-1, where));
}

} // namespace luminal
