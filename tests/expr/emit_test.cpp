// tests/expr/emit_test.cpp -- the C text and the LLVM text of many expressions, compiled once and
// run against evaluate().
#include "expr/naive.h"
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

using namespace luminal;
using testing::HasSubstr;
namespace fs = std::filesystem;

namespace {

const Expr x = Expr::symbol("x"), y = Expr::symbol("y"), i = Expr::symbol("i", {0, 63}),
           n = Expr::symbol("n", {1, 4096});

struct Case {
  Expr e;
  int bits;
  std::vector<Expr> symbols;
  std::vector<std::vector<int64_t>> points;
  std::vector<int64_t> values;
};

// Expressions of all shapes and facts, with points where they have a value.
std::vector<Case> cases(int bits, uint64_t seed) {
  std::vector<Case> out;
  naive::Generator g{std::mt19937_64(seed), 3};
  while (out.size() < 250) {
    Case c;
    for (int64_t s = 0; s < 3; ++s) {
      Interval range;
      const bool bounded = bits == 32;
      if (bounded || g.pick(0, 1)) range.low = g.pick(-6, 3);
      if (bounded || g.pick(0, 1)) range.high = (range.low == unbounded_low ? 0 : range.low) + g.pick(0, 12);
      c.symbols.push_back(Expr::symbol(std::string(1, static_cast<char>('a' + s)), range));
    }
    const auto tree = g.tree(4, static_cast<int>(g.pick(0, 3)));
    try {
      c.e = naive::build(*tree, c.symbols);
    } catch (const Error&) {
      continue;
    }
    if (c.e.is_constant() || (bits == 32 && needed_bits(c.e) != 32)) continue;
    c.bits = bits;
    auto all = naive::points(c.symbols, 7);
    std::shuffle(all.begin(), all.end(), g.random);
    const ExprProgram program(std::span(&c.e, 1), c.symbols);
    for (const auto& p : all) {
      int64_t value = 0;
      if (c.points.size() >= 24) break;
      if (!program.run(p, std::span(&value, 1))) continue;
      c.points.push_back(p);
      c.values.push_back(value);
    }
    if (!c.points.empty()) out.push_back(std::move(c));
  }
  return out;
}

class Emit : public testing::TestWithParam<int> {
protected:
  fs::path folder = fs::temp_directory_path() / fmt::format("luminal-emit-test-{}-{}", getpid(), GetParam());
  void SetUp() override { fs::create_directories(folder); }
  void TearDown() override { fs::remove_all(folder); }

  static std::string type() { return GetParam() == 32 ? "int" : "long"; }
  static std::string number(int64_t v) {
    return v == INT64_MIN ? "(-9223372036854775807L-1)" : fmt::format("{}", v);
  }

  // A table of calls and a loop that prints what differs.
  std::string main_text(const std::vector<Case>& all) {
    std::string functions, rows;
    for (size_t c = 0; c < all.size(); ++c) {
      functions += fmt::format("f{}, ", c);
      for (size_t p = 0; p < all[c].points.size(); ++p) {
        const auto& at = all[c].points[p];
        rows += fmt::format("  {{{}, {}, {}, {}, {}}},\n", c, number(at[0]), number(at[1]), number(at[2]),
                            number(all[c].values[p]));
      }
    }
    return fmt::format(
        "#include <stdio.h>\n"
        "static {0} (*const functions[])({0}, {0}, {0}) = {{{1}}};\n"
        "static const struct {{ int f; {0} a, b, c, value; }} rows[] = {{\n{2}}};\n"
        "int main(void) {{\n"
        "  int wrong = 0;\n"
        "  for (unsigned r = 0; r < sizeof rows / sizeof *rows; r++) {{\n"
        "    {0} got = functions[rows[r].f](rows[r].a, rows[r].b, rows[r].c);\n"
        "    if (got != rows[r].value)\n"
        "      wrong++, printf(\"case %d at %lld %lld %lld: got %lld, not %lld\\n\", rows[r].f, (long "
        "long)rows[r].a,\n"
        "        (long long)rows[r].b, (long long)rows[r].c, (long long)got, (long long)rows[r].value);\n"
        "  }}\n"
        "  return wrong != 0;\n}}\n",
        type(), functions, rows);
  }
  void run(const std::string& compile, const std::vector<Case>& all) {
    const std::string log = (folder / "log").string();
    const std::string in = "cd " + folder.string() + " && ";
    if (std::system((in + compile + " > log 2>&1").c_str()) != 0) {
      std::ifstream file(log);
      FAIL() << compile << "\n" << std::string(std::istreambuf_iterator<char>(file), {}).substr(0, 3000);
    }
    if (std::system((in + "./program > log 2>&1").c_str()) != 0) {
      std::ifstream file(log);
      const std::string text(std::istreambuf_iterator<char>(file), {});
      const size_t c = text.starts_with("case ") ? static_cast<size_t>(std::atoi(text.c_str() + 5)) : 0;
      FAIL() << text.substr(0, 1000) << "\n"
             << to_string(all[c].e) << "\n"
             << to_c(all[c].e, {.bits = GetParam(), .type = type()});
    }
  }
  void write(const char* name, const std::string& text) { std::ofstream(folder / name) << text; }
};

bool have(const char* program) {
  return std::system(fmt::format("command -v {} > /dev/null 2>&1", program).c_str()) == 0;
}

} // namespace

TEST_P(Emit, CText) {
  if (!have("cc")) GTEST_SKIP() << "no C compiler";
  const auto all = cases(GetParam(), 31);
  std::string text;
  for (size_t c = 0; c < all.size(); ++c) {
    const CTextOptions plain{.bits = GetParam(), .type = type()};
    CTextOptions calls = plain;
    calls.min_function = "smaller", calls.max_function = "larger";
    text += fmt::format("static {0} f{1}({0} a, {0} b, {0} c) {{ (void)a; (void)b; (void)c; return {2}; }}\n",
                        type(), c, to_c(all[c].e, c % 2 ? plain : calls));
  }
  const std::string helpers = fmt::format("static {0} smaller({0} a, {0} b) {{ return a < b ? a : b; "
                                          "}}\nstatic {0} larger({0} a, {0} b) {{ return a > b ? a : b; }}\n",
                                          type());
  write("program.c", helpers + text + main_text(all));
  // Overflow of what is claimed to fit would trap.
  run("cc -O0 -w -ftrapv program.c -o program", all);
}

TEST_P(Emit, LlvmText) {
  const char* clang = have("clang-19") ? "clang-19" : have("clang") ? "clang" : nullptr;
  if (!clang) GTEST_SKIP() << "no clang";
  const auto all = cases(GetParam(), 32);
  std::string text, declarations;
  for (size_t c = 0; c < all.size(); ++c) {
    const LlvmText body = to_llvm(all[c].e, {.bits = GetParam()});
    text += fmt::format("define i{0} @f{1}(i{0} %a, i{0} %b, i{0} %c) {{\n", GetParam(), c);
    for (const std::string& line : body.lines) text += "  " + line + "\n";
    text += fmt::format("  ret i{} {}\n}}\n", GetParam(), body.value);
    declarations += fmt::format("{0} f{1}({0}, {0}, {0});\n", type(), c);
  }
  write("functions.ll", text);
  write("main.c", declarations + main_text(all));
  // Optimised: a wrong no-wrap flag would show.
  run(fmt::format("{} -O2 -w functions.ll main.c -o program", clang), all);
}

INSTANTIATE_TEST_SUITE_P(Bits, Emit, testing::Values(32, 64));

TEST(EmitText, Forms) {
  EXPECT_EQ(to_c(i * 4 + 1), "((i * 4) + 1)");
  EXPECT_EQ(to_c(floordiv(i, 5)), "(i / 5)"); // never negative
  EXPECT_EQ(to_c(mod(i, 5)), "(i % 5)");
  EXPECT_EQ(to_c(floordiv(x, 4)), "(x >> 2)");
  EXPECT_EQ(to_c(mod(x, 4)), "(x & 3)");
  EXPECT_EQ(to_c(floordiv(x, 5)), "(x / 5 - (x % 5 < 0))");
  EXPECT_EQ(to_c(mod(x, n)), "(x % n + (x % n < 0 ? n : 0))");
  EXPECT_EQ(to_c(x - 3), "(x - 3)");
  EXPECT_EQ(to_c(lt(x, 3) * 8), "((long)(x < 3) * 8)");
  EXPECT_EQ(to_c(min(x, y), {.min_function = "min"}), "min(x, y)");
  EXPECT_EQ(to_c(Expr::symbol("layer.rows")), "layer_rows");
  EXPECT_EQ(to_c(x + i, {.name_of = [](Expr s) { return "s." + std::string(s.name()); }}), "(s.i + s.x)");
  const LlvmText text = to_llvm(i * 4 + 1);
  EXPECT_THAT(text.lines, testing::ElementsAre("%e.0 = mul nsw i64 %i, 4", "%e.1 = add nsw i64 %e.0, 1"));
  EXPECT_EQ(text.value, "%e.1");
  EXPECT_THAT(to_llvm(Expr(7)).lines, testing::IsEmpty());
  EXPECT_EQ(to_llvm(Expr(7)).value, "7");
  EXPECT_THAT(to_llvm(floordiv(x, y)).lines, testing::Contains(HasSubstr("sdiv")));
  EXPECT_THROW(to_c(x, {.bits = 16}), Error);
}

TEST(NeededBits, ProvedRange) {
  const Expr wide = Expr::symbol("wide", {0, int64_t{1} << 31});
  EXPECT_EQ(needed_bits(i * 4 + 1), 32);
  EXPECT_EQ(needed_bits(x), 64);
  EXPECT_EQ(needed_bits(wide), 64);
  EXPECT_EQ(needed_bits(i * (1 << 25)), 32);
  EXPECT_EQ(needed_bits(i * (1 << 26)), 64);
  EXPECT_EQ(needed_bits(floordiv(wide, 4)), 64);     // a part does not fit
  EXPECT_EQ(needed_bits(n * n * n - n * n * n), 32); // 0
  EXPECT_EQ(needed_bits(n * n * n), 64);
  // A partial sum does not fit though the sum does.
  const Expr a = Expr::symbol("a", {0, INT32_MAX}), b = Expr::symbol("b", {0, INT32_MAX}),
             c = Expr::symbol("c", {INT32_MIN, INT32_MIN + 1});
  EXPECT_EQ(needed_bits(a + b), 64);
  EXPECT_EQ(needed_bits(a + c), 32);
  const std::vector<Expr> both{i, x};
  EXPECT_EQ(needed_bits(both), 64);
}
