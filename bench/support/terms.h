// bench/support/terms.h -- terms of single kernels that benchmarks tune and compile.
#pragma once
#include <fmt/format.h>
#include <string>

namespace luminal::bench {

/// C[m, n] = A[m, k] B[k, n].
inline std::string matmul_term(int m, int n, int k) {
  return fmt::format(R"(fn @matmul(%A: f32[{0}, {2}], %B: f32[{2}, {1}]) {{
  %a = view %A [m: {0}, n: {1}, k: {2}] -> [m, k]
  %b = view %B [m: {0}, n: {1}, k: {2}] -> [k, n]
  %ab = mul %a, %b
  %f = fold [m: {0}, n: {1}, k: {2}] over [k] {{ sum %ab[m, n, k] }}
  %C = get %f, 0
  return C = %C
}})",
                     m, n, k);
}

/// Rows and columns of the result of a square convolution, padded by kernel / 2.
inline int convolved(int size, int kernel, int stride) {
  return (size + 2 * (kernel / 2) - kernel) / stride + 1;
}

inline std::string convolution_term(int in, int out, int size, int kernel, int stride) {
  const int result = convolved(size, kernel, stride);
  const std::string axes =
      fmt::format("[o: {}, i: {}, j: {}, c: {}, r: {}, s: {}]", out, result, result, in, kernel, kernel);
  return fmt::format(R"(fn @conv(%x: f32[{0}, {1}, {1}], %w: f32[{2}, {0}, {3}, {3}]) {{
  %win = view %x {6} -> [c, {4}*i + r - {5}, {4}*j + s - {5}] where 0 <= {4}*i + r - {5} and {4}*i + r - {5} < {1} and 0 <= {4}*j + s - {5} and {4}*j + s - {5} < {1}
  %ww = view %w {6} -> [o, c, r, s]
  %p = mul %win, %ww
  %f = fold {6} over [c, r, s] {{ sum %p[o, i, j, c, r, s] }}
  %y = get %f, 0
  return y = %y
}})",
                     in, size, out, kernel, stride, kernel / 2, axes);
}

} // namespace luminal::bench
