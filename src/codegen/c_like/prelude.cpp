// codegen/c_like/prelude.cpp -- functions in the C that all dialects share: templates over one element
// type, written out for the types that a text uses.
//
// In a template T is the type, S its name in function names, U the unsigned type of the same width (of
// at least 32 bits), W its bits. Meanings are those at the head of ir/ops.h.
#include "codegen/c_like/prelude.h"
#include "codegen/c_like/portable_math.h"
#include "ir/ops.h"
#include <algorithm>
#include <fmt/format.h>
#include <optional>
#include <vector>

namespace luminal::codegen {
namespace {

enum class On : uint8_t { floats, f32, f64, integers, any };

struct Common {
  std::string_view name; // without lum_ and the type
  On on;
  std::string_view text;
};

// clang-format off
constexpr Common common[] = {
    // ---- floats ----
    {"min", On::floats, "T lum_min_S(T a, T b) { return a != a || a < b ? a : b; }"},
    {"max", On::floats, "T lum_max_S(T a, T b) { return a != a || a > b ? a : b; }"},
    {"sign", On::floats, "T lum_sign_S(T a) { return a < 0 ? (T)-1 : a > 0 ? (T)1 : a; }"},
    {"is_inf", On::floats, "bool lum_is_inf_S(T a) { return a == a && a - a != 0; }"},
    {"floor_mod", On::floats, R"(T lum_floor_mod_S(T a, T b) {
  T r = lum_fmod_S(a, b);
  if (lum_is_inf_S(b) && a - a == 0) return a == 0 || (a < 0) == (b < 0) ? a : b;
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
})"},
    {"ldexp", On::floats, R"(T lum_ldexp_S(T a, T b) {
  if (b != b) return b;
  if (lum_is_inf_S(b)) return b > 0 ? a * b : a * 0;
  return lum_scale_S(a, (i32)lum_rint_S(b < -5000 ? (T)-5000 : b > 5000 ? (T)5000 : b));
})"},
    // a * 2^n, rounded once: all steps but the last are exact.
    {"scale", On::f32, R"(T lum_scale_S(T a, i32 n) {
  if (n > 127) {
    a *= lum_f32_of_bits(0x7f000000u), n -= 127;
    if (n > 127) a *= lum_f32_of_bits(0x7f000000u), n -= 127;
    if (n > 127) n = 127;
  } else if (n < -126) {
    a *= lum_f32_of_bits(0x0c800000u), n += 102;
    if (n < -126) a *= lum_f32_of_bits(0x0c800000u), n += 102;
    if (n < -126) n = -126;
  }
  return a * lum_f32_of_bits((u32)(n + 127) << 23);
})"},
    {"scale", On::f64, R"(T lum_scale_S(T a, i32 n) {
  if (n > 1023) {
    a *= lum_f64_of_bits(0x7fe0000000000000ul), n -= 1023;
    if (n > 1023) a *= lum_f64_of_bits(0x7fe0000000000000ul), n -= 1023;
    if (n > 1023) n = 1023;
  } else if (n < -1022) {
    a *= lum_f64_of_bits(0x0360000000000000ul), n += 969;
    if (n < -1022) a *= lum_f64_of_bits(0x0360000000000000ul), n += 969;
    if (n < -1022) n = -1022;
  }
  return a * lum_f64_of_bits((u64)(n + 1023) << 52);
})"},
    {"sigmoid", On::floats, R"(T lum_sigmoid_S(T a) {
  T e = lum_exp_S(-lum_fabs_S(a));
  return (a >= 0 ? (T)1 : e) / (1 + e);
})"},
    {"silu", On::floats, "T lum_silu_S(T a) { return a * lum_sigmoid_S(a); }"},
    {"gelu", On::floats, "T lum_gelu_S(T a) { return (T)0.5 * a * lum_erfc_S(-a * (T)0.7071067811865476); }"},
    {"gelu_tanh", On::floats, R"(T lum_gelu_tanh_S(T a) {
  return a / (1 + lum_exp_S((T)-1.5957691216057308 * (a + (T)0.044715 * (a * a * a))));
})"},
    {"softplus", On::floats, R"(T lum_softplus_S(T a) {
  return (a > 0 ? a : a != a ? a : 0) + lum_log1p_S(lum_exp_S(-lum_fabs_S(a)));
})"},
    {"pow", On::floats, "T lum_pow_S(T a, T b) { return a != a || b != b ? a + b : lum_power_S(a, b); }"},
    // a * b + c such that the next rounding, to a type of half the bits, is the only one: the product is
    // exact, the sum is rounded to odd (Boldo and Melquiond, "Emulation of FMA").
    {"fma_odd", On::f32, R"(f32 lum_fma_odd_f32(f32 a, f32 b, f32 c) {
  f32 p = a * b, s = lum_fma_f32(a, b, c);
  if (p - p != 0 || s - s != 0) return s;
  f32 back = s - p, error = (p - (s - back)) + (c - back);
  u32 bits = lum_bits_of_f32(s);
  if (error == 0 || (bits & 1)) return s;
  if (s == 0) return error > 0 ? lum_f32_of_bits(1) : lum_f32_of_bits(0x80000001u);
  return lum_f32_of_bits((error > 0) == (s > 0) ? bits + 1 : bits - 1);
})"},
    // ---- integers ----
    {"abs", On::integers, "T lum_abs_S(T a) { return a < 0 ? (T)(0 - (U)a) : a; }"},
    {"min", On::any, "T lum_min_S(T a, T b) { return a < b ? a : b; }"},
    {"max", On::any, "T lum_max_S(T a, T b) { return a > b ? a : b; }"},
    {"sign", On::integers, "T lum_sign_S(T a) { return (T)((a > 0) - (a < 0)); }"},
    {"floor_div", On::integers, R"(T lum_floor_div_S(T a, T b) {
  if (b == 0) return 0;
  if ((T)-1 < 0 && b == (T)-1) return (T)(0 - (U)a);
  return (T)(a / b - (a % b != 0 && (a < 0) != (b < 0)));
})"},
    {"floor_mod", On::integers, R"(T lum_floor_mod_S(T a, T b) {
  return (T)((U)a - (U)lum_floor_div_S(a, b) * (U)b);
})"},
    {"not", On::integers, "T lum_not_S(T a) { return (T)~a; }"},
    {"shl", On::integers, "T lum_shl_S(T a, T b) { return b < 0 || b >= W ? (T)0 : (T)((U)a << b); }"},
    {"shr", On::integers, R"(T lum_shr_S(T a, T b) {
  return b < 0 || b >= W ? (T)(a < 0 ? -1 : 0) : (T)(a >> b);
})"},
    // ---- integers of reals: truncated, the nearest end of the range outside of it, 0 for NaN ----
    {"of_f32", On::integers, R"(T lum_of_f32_S(f32 x) {
  return x != x ? (T)0 : x >= HIGH ? MOST : x <= LOW ? LEAST : (T)x;
})"},
    {"of_f64", On::integers, R"(T lum_of_f64_S(f64 x) {
  return x != x ? (T)0 : x >= HIGH ? MOST : x <= LOW ? LEAST : (T)x;
})"},
    // ---- to f32 such that the next rounding, to a type of at most 11 bits, is the only one ----
    {"odd_f32", On::integers, R"(f32 lum_odd_f32_S(T x) {
  bool negative = x < 0;
  U a = negative ? (U)(0 - (U)x) : (U)x;
  f32 unit = 1;
  while (a >> 24) {
    a = (a >> 8) | (U)((a & 255) != 0);
    unit *= 256;
  }
  return (negative ? -(f32)(i32)a : (f32)(i32)a) * unit;
})"},
    {"odd_f32", On::f64, R"(f32 lum_odd_f32_f64(f64 x) {
  f32 y = (f32)x;
  if (x != x || (f64)y == x || (lum_bits_of_f32(y) & 1)) return y;
  u32 bits = lum_bits_of_f32(y);
  if (y - y != 0) return x - x != 0 ? y : lum_f32_of_bits(bits - 1);
  if (y == 0) return lum_f32_of_bits(x < 0 ? 0x80000001u : 1u);
  return lum_f32_of_bits(((f64)y < x) == (x > 0) ? bits + 1 : bits - 1);
})"},
};

/// Narrow floats: M bits of fraction, BIAS; the pattern of infinity is the exponent of ones, but for
/// f8e4m3, which has no infinity and one NaN.
struct Narrow {
  std::string_view name, word;
  int fraction, bias;
  std::string_view infinity, nan; // of a positive sign
  int sign;                       // its place
};
constexpr Narrow narrow_types[] = {{"bf16", "u16", 7, 127, "0x7f80u", "0x7fc0u", 15},
                                   {"f16", "u16", 10, 15, "0x7c00u", "0x7e00u", 15},
                                   {"f8e5m2", "u8", 2, 15, "0x7cu", "0x7eu", 7},
                                   {"f8e4m3", "u8", 3, 7, "0x7fu", "0x7fu", 7}};

constexpr std::string_view narrow_text = R"(WORD lum_narrow_S(f32 x) {
  u32 b = lum_bits_of_f32(x), sign = b >> 31 << SIGN, a = b & 0x7fffffffu;
  if (a > 0x7f800000u) return (WORD)(sign | NAN);
  i32 e = (i32)(a >> 23) - 127 + BIAS, shift = 23 - FRACTION;
  u32 m = a >> 23 ? (a & 0x7fffffu) | 0x800000u : (a & 0x7fffffu) << 1, base = 0;
  if (e > 0)
    base = (u32)(e - 1) << FRACTION;
  else
    shift += 1 - e;
  if (shift > 25) return (WORD)sign;
  u32 r = m >> shift, left = m & ((1u << shift) - 1), middle = 1u << (shift - 1);
  r += base + (left > middle || (left == middle && (r & 1)));
  return (WORD)(sign | (r >= INFINITY ? INFINITY : r));
})";
constexpr std::string_view widen_text = R"(f32 lum_widen_S(WORD w) {
  u32 h = w, sign = h >> SIGN << 31, e = (h & MASK) >> FRACTION, m = h & ((1u << FRACTION) - 1);
  if (IS_SPECIAL) return lum_f32_of_bits(sign | 0x7f800000u | m << (23 - FRACTION));
  if (e == 0) {
    f32 x = (f32)(i32)m * SMALLEST;
    return sign ? -x : x;
  }
  return lum_f32_of_bits(sign | (u32)((i32)e - BIAS + 127) << 23 | m << (23 - FRACTION));
})";
constexpr std::string_view widen_bf16_text =
    "f32 lum_widen_bf16(u16 w) { return lum_f32_of_bits((u32)w << 16); }";
constexpr std::string_view narrow_bf16_text = R"(u16 lum_narrow_bf16(f32 x) {
  u32 b = lum_bits_of_f32(x);
  return x != x ? (u16)(b >> 16 | 0x40u) : (u16)((b + 0x7fffu + (b >> 16 & 1u)) >> 16);
})";
// clang-format on

void replace_all(std::string& text, std::string_view word, std::string_view by) {
  for (size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + by.size()))
    text.replace(at, word.size(), by);
}

bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

/// T, S, U, W stand alone or at the end of a name.
std::string with_type(std::string_view text, std::string_view type, std::string_view suffix,
                      std::string_view whole, int width) {
  std::string result;
  for (size_t i = 0; i < text.size();) {
    size_t end = i;
    while (end < text.size() && is_letter(text[end])) ++end;
    if (end == i) {
      result += text[i++];
      continue;
    }
    const std::string_view word = text.substr(i, end - i);
    if (word == "T")
      result += type;
    else if (word == "U")
      result += whole;
    else if (word == "W")
      result += std::to_string(width);
    else if (word.ends_with("_S"))
      result += std::string(word.substr(0, word.size() - 1)) + std::string(suffix);
    else
      result += word;
    i = end;
  }
  return result;
}

std::string narrow_function(std::string_view text, const Narrow& n) {
  if (n.name == "bf16") text = text.starts_with("WORD") ? narrow_bf16_text : widen_bf16_text;
  std::string result(text);
  const int exponent_bits = n.sign - n.fraction;
  replace_all(result, "lum_narrow_S", fmt::format("lum_narrow_{}", n.name));
  replace_all(result, "lum_widen_S", fmt::format("lum_widen_{}", n.name));
  replace_all(result, "WORD", n.word);
  replace_all(result, "IS_SPECIAL",
              n.name == "f8e4m3" ? "(h & 0x7fu) == 0x7fu" : fmt::format("e == {}", (1 << exponent_bits) - 1));
  replace_all(result, "SMALLEST", fmt::format("lum_f32_of_bits({}u << 23)", 127 + 1 - n.bias - n.fraction));
  replace_all(result, "MASK", fmt::format("{}u", (1 << n.sign) - 1));
  replace_all(result, "FRACTION", std::to_string(n.fraction));
  replace_all(result, "BIAS", std::to_string(n.bias));
  replace_all(result, "SIGN", std::to_string(n.sign));
  replace_all(result, "INFINITY", n.infinity);
  replace_all(result, "NAN", n.nan);
  return result;
}

/// The ends of an integer type, as texts, for conversions from a real type.
std::string with_ends(std::string text, DType type, DType from) {
  const int width = bits(type);
  const bool with_sign = is_signed(type);
  const int top = with_sign ? width - 1 : width;
  // The least number above the range, and the greatest below it, that the real type has.
  const std::string_view f = from == DType::f64 ? "" : "f";
  replace_all(
      text, "HIGH",
      fmt::format("{}.0{}", top == 64 ? "18446744073709551616" : fmt::format("{}", uint64_t(1) << top), f));
  replace_all(text, "LOW",
              with_sign ? fmt::format("-{}.0{}", uint64_t(1) << (width - 1), f) : fmt::format("0.0{}", f));
  const std::string_view t = to_string(type == DType::i4 ? DType::i8 : type == DType::u4 ? DType::u8 : type);
  const uint64_t most = with_sign     ? (uint64_t(1) << (width - 1)) - 1
                        : width == 64 ? ~uint64_t(0)
                                      : (uint64_t(1) << width) - 1;
  replace_all(text, "MOST", fmt::format("({})0x{:x}{}", t, most, width == 64 ? "ul" : "u"));
  replace_all(text, "LEAST",
              with_sign ? fmt::format("({0})(-({0})0x{1:x}{2} - 1)", t, most, width == 64 ? "l" : "")
                        : fmt::format("({})0", t));
  return text;
}

class Definitions {
public:
  Definitions(const Dialect& dialect) : dialect_(dialect) {}
  void add(const std::string& name) {
    if (!done_.insert(name).second || is_own(name)) return;
    const std::optional<std::string> text = definition(name);
    if (!text) {
      if (missing_.empty()) missing_ = name;
      return;
    }
    // What it calls comes first.
    for (size_t at = text->find("lum_"); at != std::string::npos; at = text->find("lum_", at + 4)) {
      size_t end = at;
      while (end < text->size() && is_letter((*text)[end])) ++end;
      if (end < text->size() && (*text)[end] == '(') add(text->substr(at, end - at));
    }
    out_ += fmt::format("{} {}\n", dialect_.function, *text);
  }
  std::string take() { return std::move(out_); }
  const std::string& missing() const { return missing_; }

private:
  /// Does the dialect's prelude define it?
  bool is_own(const std::string& name) const {
    const std::string call = name + "(";
    return dialect_.prelude.find(call) != std::string_view::npos ||
           dialect_.f64_prelude.find(call) != std::string_view::npos;
  }
  std::optional<std::string> definition(std::string_view name) {
    if (!name.starts_with("lum_")) return {};
    name.remove_prefix(4);
    const size_t cut = name.rfind('_');
    if (cut == std::string_view::npos) return {};
    const std::string_view function = name.substr(0, cut), suffix = name.substr(cut + 1);
    for (const Narrow& n : narrow_types)
      if (n.name == suffix) {
        if (function == "narrow") return narrow_function(narrow_text, n);
        if (function == "widen") return narrow_function(widen_text, n);
        if (function == "round")
          return fmt::format("f32 lum_round_{0}(f32 x) {{ return lum_widen_{0}(lum_narrow_{0}(x)); }}",
                             n.name);
      }
    if (name == "not_bool") return "bool lum_not_bool(bool a) { return !a; }";
    if (name == "wrap_i4") return "i8 lum_wrap_i4(i32 a) { return (i8)((i32)((u32)a << 28) >> 28); }";
    if (name == "wrap_u4") return "u8 lum_wrap_u4(i32 a) { return (u8)(a & 15); }";
    if (suffix == "f32")
      if (const auto portable = portable_function(function)) return std::string(*portable);
    const auto type = parse_dtype(suffix);
    if (!type) return {};
    const bool real = is_float(*type);
    for (const Common& c : common) {
      const bool fits = c.on == On::any      ? true
                        : c.on == On::floats ? real
                        : c.on == On::f32    ? type == DType::f32
                        : c.on == On::f64    ? type == DType::f64
                                             : !real && *type != DType::boolean;
      if (c.name != function || !fits) continue;
      const std::string_view held = *type == DType::boolean ? "bool"
                                    : *type == DType::i4    ? "i8"
                                    : *type == DType::u4    ? "u8"
                                                            : suffix;
      std::string text = with_type(c.text, held, suffix, bits(*type) == 64 ? "u64" : "u32", bits(*type));
      if (function == "of_f32") text = with_ends(std::move(text), *type, DType::f32);
      if (function == "of_f64") text = with_ends(std::move(text), *type, DType::f64);
      return text;
    }
    return {};
  }

  const Dialect& dialect_;
  std::set<std::string> done_;
  std::string out_, missing_;
};

} // namespace

Result<std::string> prelude_functions(const Dialect& dialect, const PreludeUse& used, bool f64) {
  std::string text(dialect.prelude);
  if (f64) text += dialect.f64_prelude;
  Definitions definitions(dialect);
  for (const std::string& name : used) definitions.add(name);
  if (!definitions.missing().empty()) {
    const std::string name = definitions.missing().substr(4);
    const size_t cut = name.rfind('_');
    return Failure{
        fmt::format("{} has no {} of {}", dialect.name, name.substr(0, cut), name.substr(cut + 1))};
  }
  return text + definitions.take();
}

} // namespace luminal::codegen
