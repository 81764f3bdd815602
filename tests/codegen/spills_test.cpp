// codegen/spills_test.cpp -- default schedules as machine code for processors of every kind: in the
// loop that multiplies most no sum goes to the stack.
#include "assembly.h"
#include "choose/default_schedule.h"
#include "codegen/codegen.h"
#include "ir/term.h"
#include "schedule/lower.h"
#include <algorithm>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <regex>
#include <set>

namespace luminal::codegen::spills_test {
namespace {

std::string product(int m, int n, int k, bool beside) {
  return fmt::format(
      "fn @product(%A: f32[{0}, {2}], %B: f32[{3}]) {{\n  %a = view %A [m: {0}, n: {1}, k: {2}] "
      "-> [m, k]\n  %b = view %B [m: {0}, n: {1}, k: {2}] -> [{4}]\n  %p = mul %a, %b\n  %f = fold "
      "[m: {0}, n: {1}, k: {2}] over [k] {{ sum %p[m, n, k] }}\n  %y = get %f, 0\n  return y = %y\n}}\n",
      m, n, k, beside ? fmt::format("{}, {}", n, k) : fmt::format("{}, {}", k, n), beside ? "n, k" : "k, n");
}

std::string convolution(int channels, int side, int results) {
  return fmt::format(
      "fn @conv(%X: f32[1, {0}, {1}, {1}], %W: f32[{2}, {0}, 3, 3, 16]) {{\n"
      "  %x = view %X [o: {3}, i: {1}, j: {1}, c: {0}, r: 3, s: 3] -> [0, c, i + r - 1, j + s - 1] where 0 "
      "<= i + r - 1 "
      "and i + r - 1 < {1} and 0 <= j + s - 1 and j + s - 1 < {1}\n"
      "  %w = view %W [o: {3}, i: {1}, j: {1}, c: {0}, r: 3, s: 3] -> [o // 16, c, r, s, o % 16]\n"
      "  %p = mul %x, %w\n  %f = fold [o: {3}, i: {1}, j: {1}, c: {0}, r: 3, s: 3] over [c, r, s] {{ sum "
      "%p[o, i, j, "
      "c, r, s] }}\n  %y = get %f, 0\n  return y = %y\n}}\n",
      channels, side, results / 16, results);
}

/// One head; the weights are those of a softmax that the fold keeps in one pass.
std::string attention(int queries, int keys) {
  return fmt::format(R"(fn @attention(%Q: f32[{0}, 64], %K: f32[{1}, 64], %V: f32[{1}, 64]) {{
  %q = view %Q [q: {0}, k: {1}, d: 64] -> [q, d]
  %k = view %K [q: {0}, k: {1}, d: 64] -> [k, d]
  %p = mul %q, %k
  %S = fold [q: {0}, k: {1}, d: 64] over [d] {{ sum %p[q, k, d] }}
  %s = get %S, 0
  %one = const f32 1
  %F = fold [q: {0}, k: {1}, e: 64] over [k] {{
      max %s[q, k];
      sum(select(old0 == -inf, 0, self * exp2(old0 - new0))) %one[];
      sum(select(old0 == -inf, 0, self * exp2(old0 - new0))) %V[k, e] }}
  %l = get %F, 1
  %o = get %F, 2
  %lb = view %l [q: {0}, e: 64] -> [q]
  %y = div %o, %lb
  return y = %y
}}
)",
                     queries, keys);
}

struct Loop {
  int fma = 0, accumulators = 0; // of these, how often one goes to the stack or comes from there
  std::string text;
};
/// The innermost loop with the most multiply-adds. What these add to is an accumulator.
Loop hottest(const std::string& assembly) {
  const auto [text, loops] = read_assembly(assembly);
  const bool frame = assembly.find("movq\t%rsp, %rbp") != std::string::npos;
  const std::regex adds(R"(\t(?:vfmadd\w+\t.*%[xyz]mm(\d+)|(?:fmla|fmad)\t[vz](\d+)))"),
      stack(frame ? R"(\(%r[sb]p|\[sp|\[x29)" : R"(\(%rsp|\[sp|\[x29)"),
      vector(R"((?:%[xyz]mm|\b[qz])(\d+))");
  Loop best;
  for (const auto& [begin, end] : loops) {
    std::smatch m;
    Loop l;
    std::set<std::string> accumulators;
    const bool innermost = std::ranges::none_of(
        loops, [&](const auto& other) { return other.first >= begin && other.second < end; });
    for (size_t j = begin; j <= end; ++j) {
      l.text += text[j] + '\n';
      if (!std::regex_search(text[j], m, adds)) continue;
      ++l.fma;
      accumulators.insert(m[1].matched ? m[1] : m[2]);
    }
    if (!innermost || l.fma <= best.fma) continue;
    for (size_t j = begin; j <= end; ++j) {
      if (!std::regex_search(text[j], stack) || text[j].find("vfm") != std::string::npos) continue;
      for (auto v = std::sregex_iterator(text[j].begin(), text[j].end(), vector); v != std::sregex_iterator();
           ++v)
        l.accumulators += accumulators.contains((*v)[1]);
    }
    best = l;
  }
  return best;
}

// (Depthwise convolutions are not among them: their whole sum stands in the loop, where a register
// is now a sum, now a mask.)
TEST(Spills, DefaultSchedulesKeepTheirAccumulators) {
  const std::pair<const char*, std::string> terms[] = {
      {"product", product(256, 256, 256, false)},
      {"with a stored weight", product(64, 512, 512, true)},
      {"odd", product(97, 113, 131, false)},
      {"few rows", product(4, 512, 512, true)},
      {"convolution", convolution(64, 28, 64)},
      {"convolution of 7 x 7", convolution(64, 7, 64)},
      {"attention", attention(128, 256)},
      {"convolution of 14 x 14", convolution(64, 14, 128)},
      {"convolution of 56 x 56", convolution(64, 56, 64)},
      {"convolution to 192", convolution(32, 28, 192)},
      {"convolution of 13 x 13", convolution(64, 13, 64)},
  };
  for (const char* cpu :
       {"skylake-avx512", "znver4", "haswell", "aarch64", "neoverse-v1", "neoverse-v2", "a64fx"}) {
    const CpuTarget target = CpuTarget::named(cpu).value();
    for (const auto& [name, term] : terms) {
      SCOPED_TRACE(fmt::format("{}, {}", name, cpu));
      const Module module = parse_module(term, name);
      ASSERT_THAT(luminal::verify(module), testing::IsEmpty());
      const Function& f = module.entry();
      const NodeId root = f.results[0].value;
      const auto cone = kernel::build_cone(f, {&root, 1}, {}, {.name = "k"});
      ASSERT_TRUE(cone) << cone.error();
      const kernel::MachineLimits limits{.lanes = target.lanes(DType::f32),
                                         .vector_registers = target.vector_registers,
                                         .memory_operands = target.memory_operands(),
                                         .threads = 2,
                                         .units = target.dot_units()};
      const auto made = kernel::default_kernel(*cone, limits);
      ASSERT_TRUE(made.kernel) << made.kernel.error();
      const auto text = assembly(*made.kernel, target);
      ASSERT_TRUE(text) << text.error();
      const Loop loop = hottest(*text);
      EXPECT_GE(loop.fma, 4);
      EXPECT_EQ(loop.accumulators, 0) << to_string(made.schedule) << loop.text;
    }
  }
}

} // namespace
} // namespace luminal::codegen::spills_test
