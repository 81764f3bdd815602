// codegen/c_like/portable_math.cpp -- exponentials, logarithms, angles and powers in f32 arithmetic. The
// polynomials are those of codegen/math.cpp (tools/math_coefficients.py), of sine and cosine those of
// Cephes (S. Moshier, "Methods and Programs for Mathematical Functions").
#include "codegen/c_like/portable_math.h"

namespace luminal::codegen {
namespace {

struct Portable {
  std::string_view name, text;
};

constexpr Portable functions[] = {
    {"exp2", R"(f32 lum_exp2_f32(f32 x) {
  if (x != x) return x;
  if (x > 130.0f) x = 130.0f;
  if (x < -160.0f) x = -160.0f;
  f32 n = lum_rint_f32(x);
  return lum_scale_f32(lum_exp2_unit_f32(x - n), (i32)n);
})"},
    // 2^t, |t| <= 1/2
    {"exp2_unit", R"(f32 lum_exp2_unit_f32(f32 t) {
  f32 p = 0.000158096038f;
  p = lum_fma_f32(p, t, 0.00134173245f);
  p = lum_fma_f32(p, t, 0.00961708557f);
  p = lum_fma_f32(p, t, 0.0555027388f);
  p = lum_fma_f32(p, t, 0.240226552f);
  p = lum_fma_f32(p, t, 0.693147242f);
  return lum_fma_f32(p, t, 1.0f);
})"},
    {"exp", R"(f32 lum_exp_f32(f32 x) {
  if (x != x) return x;
  if (x > 90.0f) x = 90.0f;
  if (x < -110.0f) x = -110.0f;
  f32 n = lum_rint_f32(x * 1.44269504f), t = lum_fma_f32(n, -0.693145752f, x);
  t = lum_fma_f32(n, -1.42860677e-6f, t);
  f32 p = 0.00137453259f;
  p = lum_fma_f32(p, t, 0.00836894661f);
  p = lum_fma_f32(p, t, 0.0416696481f);
  p = lum_fma_f32(p, t, 0.166665182f);
  p = lum_fma_f32(p, t, 0.499999881f);
  p = lum_fma_f32(p, t, 1.0f);
  return lum_scale_f32(lum_fma_f32(p, t, 1.0f), (i32)n);
})"},
    {"expm1", R"(f32 lum_expm1_f32(f32 x) {
  if (x != x) return x;
  if (x > 60.0f) return lum_exp_f32(x);
  if (x < -20.0f) return -1.0f;
  f32 n = lum_rint_f32(x * 1.44269504f), t = lum_fma_f32(n, -0.693145752f, x);
  t = lum_fma_f32(n, -1.42860677e-6f, t);
  f32 p = 0.000197424873f;
  p = lum_fma_f32(p, t, 0.00139336975f);
  p = lum_fma_f32(p, t, 0.00833356753f);
  p = lum_fma_f32(p, t, 0.0416664779f);
  p = lum_fma_f32(p, t, 0.166666657f);
  p = lum_fma_f32(p, t, 0.5f);
  f32 q = lum_fma_f32(p * t, t, t), scale = lum_scale_f32(1.0f, (i32)n);
  return n == 0 ? q : lum_fma_f32(scale, q, scale - 1.0f);
})"},
    // x = 2^n (1 + f), 1 + f from sqrt(1/2) to sqrt(2): f; n is its argument's exponent
    {"fraction", R"(f32 lum_fraction_f32(f32 x) {
  u32 b = lum_bits_of_f32(x) - 0x3f3504f3u;
  return lum_f32_of_bits((b & 0x7fffffu) + 0x3f3504f3u) - 1.0f;
})"},
    {"exponent", R"(f32 lum_exponent_f32(f32 x) {
  return (f32)((i32)(lum_bits_of_f32(x) - 0x3f3504f3u) >> 23);
})"},
    {"log2", R"(f32 lum_log2_f32(f32 x) {
  if (x != x || x < 0) return lum_f32_of_bits(0x7fc00000u);
  if (x == 0) return lum_f32_of_bits(0xff800000u);
  if (x - x != 0) return x;
  f32 small = x < 1.17549435e-38f ? 23.0f : 0.0f, y = small != 0 ? x * 8388608.0f : x;
  f32 f = lum_fraction_f32(y), n = lum_exponent_f32(y) - small;
  f32 r = lum_fma_f32(f, 1.92596299e-8f, f * f * lum_log2_tail_f32(f));
  return n + lum_fma_f32(f, 1.44269502f, r);
})"},
    {"log2_tail", R"(f32 lum_log2_tail_f32(f32 f) {
  f32 p = -0.108161151f;
  p = lum_fma_f32(p, f, 0.185518206f);
  p = lum_fma_f32(p, f, -0.191486895f);
  p = lum_fma_f32(p, f, 0.204734176f);
  p = lum_fma_f32(p, f, -0.239580423f);
  p = lum_fma_f32(p, f, 0.288559258f);
  p = lum_fma_f32(p, f, -0.360698074f);
  p = lum_fma_f32(p, f, 0.480898380f);
  return lum_fma_f32(p, f, -0.721347332f);
})"},
    {"log", R"(f32 lum_log_f32(f32 x) {
  if (x != x || x < 0) return lum_f32_of_bits(0x7fc00000u);
  if (x == 0) return lum_f32_of_bits(0xff800000u);
  if (x - x != 0) return x;
  f32 small = x < 1.17549435e-38f ? 23.0f : 0.0f, y = small != 0 ? x * 8388608.0f : x;
  f32 f = lum_fraction_f32(y), n = lum_exponent_f32(y) - small, p = -0.0748557150f;
  p = lum_fma_f32(p, f, 0.128397629f);
  p = lum_fma_f32(p, f, -0.132674098f);
  p = lum_fma_f32(p, f, 0.141941056f);
  p = lum_fma_f32(p, f, -0.166076601f);
  p = lum_fma_f32(p, f, 0.200012669f);
  p = lum_fma_f32(p, f, -0.250016153f);
  p = lum_fma_f32(p, f, 0.333333373f);
  p = lum_fma_f32(p, f, -0.499999881f);
  return lum_fma_f32(n, 0.693145752f, f + lum_fma_f32(n, 1.42860677e-6f, f * f * p));
})"},
    // the quotient undoes the rounding of 1 + x
    {"log1p", R"(f32 lum_log1p_f32(f32 x) {
  f32 u = 1.0f + x;
  if (u == 1.0f) return x;
  if (u - u != 0) return u < 0 ? u - u : u;
  return lum_log_f32(u) * (x / (u - 1.0f));
})"},
    // Of an angle: what is left within +-pi/4, and the quarter turn.
    {"quarter", R"(i32 lum_quarter_f32(f32 x) {
  f32 a = lum_fabs_f32(x);
  if (!(a > 60000.0f)) return (i32)lum_rint_f32(x * 0.636619772f);
  i32 q = (i32)((lum_turns_f32(a) + 0x2000000000000000ul) >> 62);
  return x < 0 ? -q : q;
})"},
    {"left", R"(f32 lum_left_f32(f32 x) {
  f32 a = lum_fabs_f32(x);
  if (!(a > 60000.0f)) {
    f32 n = lum_rint_f32(x * 0.636619772f), r = lum_fma_f32(n, -1.57079637f, x);
    r = lum_fma_f32(n, 4.37113883e-8f, r);
    return lum_fma_f32(n, 1.71512451e-15f, r);
  }
  i64 p = (i64)(lum_turns_f32(a) << 2) >> 2;
  f32 r = (f32)p * 3.40612158e-19f;
  return x < 0 ? -r : r;
})"},
    // 2/pi times a number above 1, modulo 4, as a fraction of 62 bits: the product with those digits of
    // 2/pi that matter.
    {"turns", R"(u64 lum_turns_f32(f32 a) {
  u32 b = lum_bits_of_f32(a), m = b << 8 | 0x80000000u, e = (b >> 23) - 126u, i = e >> 5, s = e & 31u;
  u32 digits[8] = {0u, 0x28be60dbu, 0x9391054au, 0x7f09d5f4u, 0x7d4d3770u, 0x36d8a566u, 0x4f10e410u, 0u};
  u32 high = digits[i], middle = digits[i + 1], low = digits[i + 2], next = digits[i + 3];
  if (s) {
    high = high << s | middle >> (32u - s);
    middle = middle << s | low >> (32u - s);
    low = low << s | next >> (32u - s);
  }
  u64 p = (u64)m * low;
  p = (u64)m * middle + (p >> 32);
  return ((u64)(m * high) << 32) + p;
})"},
    {"sin_unit", R"(f32 lum_sin_unit_f32(f32 r) {
  f32 z = r * r, p = lum_fma_f32(-1.9515296e-4f, z, 8.3321609e-3f);
  return lum_fma_f32(lum_fma_f32(p, z, -1.6666655e-1f) * z, r, r);
})"},
    {"cos_unit", R"(f32 lum_cos_unit_f32(f32 r) {
  f32 z = r * r, p = lum_fma_f32(2.4433157e-5f, z, -1.3887316e-3f);
  p = lum_fma_f32(p, z, 4.1666646e-2f);
  return lum_fma_f32(z * z, p, lum_fma_f32(z, -0.5f, 1.0f));
})"},
    {"sin", R"(f32 lum_sin_f32(f32 x) {
  if (x - x != 0) return lum_f32_of_bits(0x7fc00000u);
  i32 q = lum_quarter_f32(x);
  f32 r = lum_left_f32(x), y = q & 1 ? lum_cos_unit_f32(r) : lum_sin_unit_f32(r);
  return q & 2 ? -y : y;
})"},
    {"cos", R"(f32 lum_cos_f32(f32 x) {
  if (x - x != 0) return lum_f32_of_bits(0x7fc00000u);
  i32 q = lum_quarter_f32(x) + 1;
  f32 r = lum_left_f32(x), y = q & 1 ? lum_cos_unit_f32(r) : lum_sin_unit_f32(r);
  return q & 2 ? -y : y;
})"},
    {"tan", R"(f32 lum_tan_f32(f32 x) {
  if (x - x != 0) return lum_f32_of_bits(0x7fc00000u);
  i32 q = lum_quarter_f32(x);
  f32 r = lum_left_f32(x), s = lum_sin_unit_f32(r), c = lum_cos_unit_f32(r);
  return q & 1 ? -c / s : s / c;
})"},
    {"tanh", R"(f32 lum_tanh_f32(f32 x) {
  f32 a = lum_fabs_f32(x), e = lum_expm1_f32(2.0f * (a > 20.0f ? 20.0f : a)), y = e / (e + 2.0f);
  return x != x ? x : x < 0 ? -y : x == 0 ? x : y;
})"},
    {"erf", R"(f32 lum_erf_f32(f32 x) {
  f32 a = lum_fabs_f32(x), z = x * x, p;
  if (x != x) return x;
  if (a <= 0.927734375f) {
    p = -0.000596761703f;
    p = lum_fma_f32(p, z, 0.00499119423f);
    p = lum_fma_f32(p, z, -0.0267681349f);
    p = lum_fma_f32(p, z, 0.112819925f);
    p = lum_fma_f32(p, z, -0.376125336f);
    p = lum_fma_f32(p, z, 0.128379166f);
    return lum_fma_f32(p, x, x);
  }
  if (a > 4.0f) a = 4.0f;
  p = -0.0000172853470f;
  p = lum_fma_f32(p, a, 0.000383197126f);
  p = lum_fma_f32(p, a, -0.00388396438f);
  p = lum_fma_f32(p, a, 0.0242546219f);
  p = lum_fma_f32(p, a, -0.106777877f);
  p = lum_fma_f32(p, a, -0.634846687f);
  p = lum_fma_f32(p, a, -0.128717512f);
  p = 1.0f - lum_exp_f32(lum_fma_f32(p, a, -a));
  return x < 0 ? -p : p;
})"},
    // Exact enough beside 1: what gelu asks for.
    {"erfc", "f32 lum_erfc_f32(f32 x) { return 1.0f - lum_erf_f32(x); }"},
    // |a|^b through the logarithm as a sum of two numbers
    {"power", R"(f32 lum_power_f32(f32 a, f32 b) {
  f32 x = lum_fabs_f32(a), infinite = lum_f32_of_bits(0x7f800000u), y;
  bool whole = lum_rint_f32(b) == b, odd = whole && lum_fabs_f32(b) < 16777216.0f && ((i32)b & 1);
  if (b == 0 || a == 1.0f) return 1.0f;
  if (x == 1.0f)
    y = 1.0f;
  else if (x == 0 || x == infinite || lum_fabs_f32(b) == infinite)
    y = (x > 1.0f) == (b > 0) ? infinite : 0.0f;
  else {
    f32 small = x < 1.17549435e-38f ? 23.0f : 0.0f, z = small != 0 ? x * 8388608.0f : x;
    f32 f = lum_fraction_f32(z), n = lum_exponent_f32(z) - small, h = f * 1.44269502f;
    f32 e = lum_fma_f32(f, 1.44269502f, -h) + f * 1.92596299e-8f, q = f * f * lum_log2_tail_f32(f);
    f32 s = h + q, low = (h - s) + q + e, high = n + s;
    low += (n - high) + s;
    f32 p = b * high;
    if (p > 200.0f || p < -200.0f)
      y = p > 0 ? infinite : 0.0f;
    else {
      f32 rest = lum_fma_f32(b, high, -p) + b * low, m = lum_rint_f32(p);
      y = lum_scale_f32(lum_exp2_unit_f32((p - m) + rest), (i32)m);
    }
  }
  if (a < 0 && a - a == 0 && !whole) return lum_f32_of_bits(0x7fc00000u);
  return (lum_bits_of_f32(a) >> 31) && odd ? -y : y;
})"},
    // Exact: one bit of the quotient after the other.
    {"fmod", R"(f32 lum_fmod_f32(f32 a, f32 b) {
  f32 x = lum_fabs_f32(a), y = lum_fabs_f32(b);
  if (a != a || b != b || x - x != 0 || y == 0) return lum_f32_of_bits(0x7fc00000u);
  if (x < y) return a;
  f32 d = y;
  while (d <= x * 0.5f) d *= 2.0f;
  while (true) {
    if (x >= d) x -= d;
    if (d <= y) break;
    d *= 0.5f;
  }
  return (lum_bits_of_f32(a) >> 31) ? -x : x;
})"},
};

} // namespace

std::optional<std::string_view> portable_function(std::string_view name) {
  for (const Portable& f : functions)
    if (f.name == name) return f.text;
  return {};
}

} // namespace luminal::codegen
