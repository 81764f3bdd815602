// bench/support/terms.h -- terms of single kernels that benchmarks tune and compile.
#pragma once
#include <cmath>
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

/// Scores, then one fold with the state (largest score, sum, sum times values). Operands of another
/// type than f32 are converted, and weights are rounded to that type before they multiply the
/// values, as scaled_dot_product_attention does; their sum is that of exact weights.
inline std::string attention_term(int heads, int key_heads, int length, int depth, bool causal,
                                  const std::string& type = "f32") {
  const bool narrow = type != "f32";
  return fmt::format(
      R"(fn @attention(%Q: {T}[{H}, {S}, {D}], %K: {T}[{G}, {S}, {D}], %V: {T}[{G}, {S}, {D}]) {{
{casts}  %q = view %{f}Q [h: {H}, q: {S}, k: {S}, d: {D}] -> [h, q, d]
  %kk = view %{f}K [h: {H}, q: {S}, k: {S}, d: {D}] -> [{head}, k, d]
  %qk = mul %kk, %q
  %sf = fold [h: {H}, q: {S}, k: {S}, d: {D}] over [d] {{ sum %qk[h, q, k, d] }}
  %S = get %sf, 0
  %scale = const f32 {scale}
  %sc = view %scale [h: {H}, q: {S}, k: {S}] -> []
  %s = mul %S, %sc
  %one = const f32 1
  %v = view %{f}V [h: {H}, k: {S}, e: {D}] -> [{head}, k, e]
  %F = fold [h: {H}, q: {S}, k: {S}, e: {D}] over [k]{domain} {{
    max %s[h, q, k];
    sum(select(old0 == -inf, 0, self * exp2(old0 - new0))) %one[];
    sum(select(old0 == -inf, 0, self * {weight})) %v[h, k, e]
  }}
  %l = get %F, 1
  %O = get %F, 2
  %ll = view %l [h: {H}, q: {S}, e: {D}] -> [h, q]
  %Out = div %O, %ll
{result}}})",
      fmt::arg("T", type), fmt::arg("f", narrow ? "f" : ""),
      fmt::arg("weight",
               narrow ? fmt::format("cast<f32>(cast<{}>(exp2(old0 - new0)))", type) : "exp2(old0 - new0)"),
      fmt::arg("casts", narrow ? "  %fQ = cast f32 %Q\n  %fK = cast f32 %K\n  %fV = cast f32 %V\n" : ""),
      fmt::arg("result", narrow ? fmt::format("  %R = cast {} %Out\n  return Out = %R\n", type)
                                : std::string("  return Out = %Out\n")),
      fmt::arg("H", heads), fmt::arg("G", key_heads), fmt::arg("S", length), fmt::arg("D", depth),
      fmt::arg("head", heads == key_heads ? std::string("h") : fmt::format("h // {}", heads / key_heads)),
      fmt::arg("domain", causal ? " where k <= q" : ""),
      fmt::arg("scale", std::log2(std::exp(1.0)) / std::sqrt(double(depth))));
}

/// y[r, n] = x[r, k] w[n, k] for 1 to `most` rows, the weight in bf16: few and many rows have
/// versions of their own.
inline std::string rows_term(int most, int n, int k) {
  return fmt::format(R"(symbol R: 1..{0}
fn @rows(%x: f32[R, {2}], %w: bf16[{1}, {2}]) {{
  %wf = cast f32 %w
  %a = view %x [r: R, n: {1}, k: {2}] -> [r, k]
  %b = view %wf [r: R, n: {1}, k: {2}] -> [n, k]
  %ab = mul %a, %b
  %f = fold [r: R, n: {1}, k: {2}] over [k] {{ sum %ab[r, n, k] }}
  %y = get %f, 0
  return y = %y
}})",
                     most, n, k);
}

} // namespace luminal::bench
