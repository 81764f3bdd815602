// tests/ir/ops_c_text_test.cpp -- the C-like text of every row of the op table, compiled by a C
// compiler for each element type, against the evaluation of the row.
#include "ir/ops.h"
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <gtest/gtest.h>
#include <random>
#include <unistd.h>

namespace luminal {
namespace {

struct CType {
  DType dtype;
  const char* name;          // {t}
  const char* unsigned_name; // {u}
};
constexpr CType types[] = {
    {DType::f32, "float", ""},
    {DType::f64, "double", ""},
    {DType::boolean, "uint8_t", "uint32_t"},
    {DType::i8, "int8_t", "uint32_t"},
    {DType::u8, "uint8_t", "uint32_t"},
    {DType::i16, "int16_t", "uint32_t"},
    {DType::u16, "uint16_t", "uint32_t"},
    {DType::i32, "int32_t", "uint32_t"},
    {DType::u32, "uint32_t", "uint32_t"},
    {DType::i64, "int64_t", "uint64_t"},
    {DType::u64, "uint64_t", "uint64_t"},
};

// What a dialect's prelude must define, here in C with the type as T.
constexpr std::string_view float_prelude = R"(
static T lum_floor_mod(T a, T b) {
  T r = fmod(a, b);
  if (isinf(b) && isfinite(a)) return a == 0 || (a < 0) == (b < 0) ? a : b;
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}
static T lum_min(T a, T b) { return a != a || a < b ? a : b; }
static T lum_max(T a, T b) { return a != a || a > b ? a : b; }
static T lum_ldexp(T a, T b) {
  if (b != b) return b;
  if (isinf(b)) return b > 0 ? a * b : a * 0;
  return ldexp(a, (int)rint(b < -5000 ? -5000 : b > 5000 ? 5000 : b));
}
static T lum_sign(T a) { return a < 0 ? -1 : a > 0 ? 1 : a; }
static T lum_sigmoid(T a) { return a >= 0 ? 1 / (1 + exp(-a)) : exp(a) / (1 + exp(a)); }
static T lum_silu(T a) { return a * lum_sigmoid(a); }
static T lum_gelu(T a) { return (T)0.5 * a * erfc(-a * (T)0.7071067811865476); }
static T lum_gelu_tanh(T a) {
  return a / (1 + exp((T)-1.5957691216057308 * (a + (T)0.044715 * (a * a * a))));
}
static T lum_softplus(T a) { return (a > 0 ? a : a != a ? a : 0) + log1p(exp(-fabs(a))); }
static T rsqrt(T a) { return 1 / sqrt(a); }
)";
constexpr std::string_view integer_prelude = R"(
static T lum_abs(T a) { return a < 0 ? (T)(0 - (U)a) : a; }
static T lum_min(T a, T b) { return a < b ? a : b; }
static T lum_max(T a, T b) { return a > b ? a : b; }
static T lum_sign(T a) { return (a > 0) - (a < 0); }
static T lum_floor_div(T a, T b) {
  if (b == 0) return 0;
  if ((T)-1 < 0 && b == (T)-1) return (T)(0 - (U)a);
  return a / b - (a % b != 0 && (a < 0) != (b < 0));
}
static T lum_floor_mod(T a, T b) { return (T)((U)a - (U)lum_floor_div(a, b) * (U)b); }
static T lum_not(T a) { return BOOLEAN ? a == 0 : (T)~a; }
static T lum_shl(T a, T b) { return b < 0 || b >= (T)(8 * sizeof(T)) ? 0 : (T)((U)a << b); }
static T lum_shr(T a, T b) { return b < 0 || b >= (T)(8 * sizeof(T)) ? (a < 0 ? -1 : 0) : (T)(a >> b); }
)";

std::string filled(std::string_view text, const CType& type) {
  std::string result;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '{') {
      result += text[i];
      continue;
    }
    const char name = text[i + 1];
    result += name == 't' ? type.name : name == 'u' ? type.unsigned_name : std::string(1, name);
    i += 2;
  }
  return result;
}

std::string number(double x) {
  if (std::isnan(x)) return "NAN";
  if (std::isinf(x)) return x > 0 ? "INFINITY" : "-INFINITY";
  return fmt::format("{:a}", x);
}
std::string integer(int64_t x) { return fmt::format("(T){}ull", uint64_t(x)); }

/// Arguments, expected value and allowed difference of each point, as initializers of a C table.
class Points {
public:
  explicit Points(const CType& type) : type_(type), random_(uint64_t(type.dtype) + 1) {}

  std::string of_floats(const OpRow& r, int number_of_row) {
    std::string text;
    for (int n = 0; n < 200; ++n) {
      double x[3];
      for (int a = 0; a < 3; ++a) x[a] = n < 40 && r.ulp <= 0.5 ? special() : sample(r, a);
      const double out = apply_f64(r.op, type_.dtype, x);
      // Correctly rounded rows have one right answer, the others as much as the row promises.
      const double slack = r.ulp <= 0.5 || !std::isfinite(out) ? 0
                                                               : r.ulp * 2 * unit_roundoff(type_.dtype) *
                                                                     std::fmax(std::fabs(out), r.ulp_scale);
      text += fmt::format("  {{{}, {}, {}, {}, {}, {}}},\n", number_of_row, number(x[0]), number(x[1]),
                          number(x[2]), number(out), number(slack));
    }
    return text;
  }
  std::string of_integers(const OpRow& r, int number_of_row) {
    std::string text;
    for (int n = 0; n < 200; ++n) {
      int64_t x[3];
      for (int a = 0; a < 3; ++a) {
        const bool small = random_() % 3 == 0 || (r.signature == Signature::shift && a == 1);
        x[a] = wrap(type_.dtype, small ? int64_t(random_() % 80) - 8 : int64_t(random_()) >> random_() % 64);
      }
      if (r.signature == Signature::choice) x[0] = n % 2;
      text += fmt::format("  {{{}, {}, {}, {}, {}, 0}},\n", number_of_row, integer(x[0]), integer(x[1]),
                          integer(x[2]), integer(apply_i64(r.op, type_.dtype, x)));
    }
    return text;
  }

private:
  double special() {
    static constexpr double values[] = {0, -0.0, 1, -1, 2.5, -2.5, INFINITY, -INFINITY, NAN, 0.5, 3, -7.25};
    return values[random_() % std::size(values)];
  }
  double sample(const OpRow& r, int argument) {
    if (r.signature == Signature::choice && argument == 0) return double(random_() % 2);
    const double x = r.low + (r.high - r.low) * double(random_() >> 11) * 0x1p-53;
    return round_to(type_.dtype, x);
  }
  const CType& type_;
  std::mt19937_64 random_;
};

constexpr std::string_view main_text = R"(
int main(void) {
  int wrong = 0;
  for (unsigned r = 0; r < sizeof rows / sizeof *rows; r++) {
    T got = functions[rows[r].f](rows[r].a, rows[r].b, rows[r].c), want = rows[r].value;
    int both_nan = got != got && want != want;
    if (got == want || both_nan || fabs((double)got - (double)want) <= rows[r].slack) continue;
    if (wrong++ < 20)
      printf("%s at %.17g %.17g %.17g: got %.17g, not %.17g\n", names[rows[r].f], (double)rows[r].a,
             (double)rows[r].b, (double)rows[r].c, (double)got, (double)want);
  }
  return wrong != 0;
}
)";

std::string program(const CType& type) {
  const bool floating = is_float(type.dtype);
  Points points(type);
  std::string functions, list, names, rows;
  int count = 0;
  for (int k = 0; k < op_count; ++k) {
    const OpRow& r = row(Op(k));
    const std::string_view text = floating ? r.c_float : r.c_int;
    DType args[3] = {type.dtype, type.dtype, type.dtype};
    if (r.signature == Signature::choice) args[0] = DType::boolean;
    if (text.empty() || !result_type(r, args)) continue;
    functions += fmt::format("static T f{}(T a, T b, T c) {{ (void)a; (void)b; (void)c; return {}; }}\n",
                             count, filled(text, type));
    list += fmt::format("f{}, ", count);
    names += fmt::format("\"{}\", ", r.name);
    rows += floating ? points.of_floats(r, count) : points.of_integers(r, count);
    ++count;
  }
  return fmt::format("#include <stdint.h>\n#include <stdio.h>\n#include <tgmath.h>\ntypedef {} T;\n",
                     type.name) +
         (floating ? std::string(float_prelude)
                   : fmt::format("typedef {} U;\nenum {{ BOOLEAN = {} }};\n{}", type.unsigned_name,
                                 type.dtype == DType::boolean ? 1 : 0, integer_prelude)) +
         functions + fmt::format("static T (*const functions[])(T, T, T) = {{{}}};\n", list) +
         fmt::format("static const char* const names[] = {{{}}};\n", names) +
         "static const struct { int f; T a, b, c, value; double slack; } rows[] = {\n" + rows + "};\n" +
         std::string(main_text);
}

class OpsText : public testing::TestWithParam<CType> {};

} // namespace

TEST_P(OpsText, ComputesWhatTheRowEvaluates) {
  if (std::system("command -v cc > /dev/null 2>&1") != 0) GTEST_SKIP() << "there is no C compiler";
  const auto folder = std::filesystem::temp_directory_path() /
                      fmt::format("luminal-ops-{}-{}", getpid(), to_string(GetParam().dtype));
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "ops.c") << program(GetParam());
  const std::string run = fmt::format(
      "cd {} && cc -std=c11 -O0 -w -ffp-contract=off ops.c -o ops -lm > log 2>&1 && ./ops > log 2>&1",
      folder.string());
  const bool right = std::system(run.c_str()) == 0;
  std::ifstream log(folder / "log");
  EXPECT_TRUE(right) << std::string(std::istreambuf_iterator<char>(log), {}).substr(0, 3000);
  std::filesystem::remove_all(folder);
}
INSTANTIATE_TEST_SUITE_P(All, OpsText, testing::ValuesIn(types),
                         [](const auto& test) { return std::string(to_string(test.param.dtype)); });

} // namespace luminal
