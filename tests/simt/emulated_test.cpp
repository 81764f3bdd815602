// simt/emulated_test.cpp -- the text of GPU languages run on the processor: rows and casts on every type,
// kernels with groups and barriers in hostile orders, and mistakes planted in their text.
#include "emulator.h"
#include "languages/rows.h"
#include "loop/loop_interp.h"
#include <cstring>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace luminal::simt {
namespace {
using languages::Case;
using languages::mistakes;

constexpr int orders[] = {0, 1, 2, 3, 4, 5};
#define NEEDS_COMPILER()                                                                                     \
  if (!has_compiler()) GTEST_SKIP() << "there is no C++ compiler"

class Languages : public testing::TestWithParam<std::string> {};

class EmulatedRows : public testing::TestWithParam<std::string> {};

TEST_P(EmulatedRows, EveryRowAndCastOnEveryType) {
  NEEDS_COMPILER();
  Emulator emulator(GetParam());
  std::vector<Case> cases;
  const bool f64 = !codegen::find_dialect(GetParam())->f64_prelude.empty();
  const auto has = [&](DType type) { return f64 || type != DType::f64; };
  for (int t = 0; t < dtype_count; ++t) {
    if (!has(DType(t))) continue;
    // HIP's f64 functions are in ROCm's device library.
    if (GetParam() != "hip" || DType(t) != DType::f64) cases.push_back(languages::rows_case(DType(t)));
    cases.push_back(languages::casts_case(DType(t), has));
  }
  for (const Case& c : cases) emulator.add(c.kernel, c.arguments, c.symbols);
  ASSERT_EQ(emulator.run({3}), "");
  for (size_t i = 0; i < cases.size(); ++i) {
    EXPECT_EQ(mistakes(cases[i], emulator.results(int(i), 3)), "")
        << to_string(cases[i].kernel.buffers[kernel::BufferId(1)].dtype) << emulator.text(int(i));
    EXPECT_EQ(emulator.findings(int(i), 3), "");
  }
}

/// What a language lacks is refused by name.
TEST(Refusals, AreNamed) {
  const auto error = [](const char* language, const std::string& text) {
    const auto emitted = codegen::emit_c_like(kernel::parse_kernel(text), *codegen::find_dialect(language));
    return emitted ? std::string("nothing") : emitted.error();
  };
  const std::string f64 = "kernel k(x: f64[4] inout)\n  parallel i in 0..4\n    x[i] = exp(x[i])\n";
  EXPECT_EQ(error("hip", f64), "kernel k: hip has no exp of f64");
  EXPECT_EQ(error("metal", f64), "kernel k: metal has no f64, which the buffer x holds");
  std::string many, sum = "0.0";
  for (int i = 0; i < 31; ++i) many += fmt::format("x{}: f32[4] in, ", i), sum += fmt::format(" + x{}[i]", i);
  EXPECT_EQ(
      error("metal", "kernel k(" + many + "y: f32[4] out)\n  parallel i in 0..4\n    y[i] = " + sum + "\n"),
      "kernel k: it takes 32 arguments, metal allows 31");
}

/// A product of matrices in tiles of 8 x 8 in the memory of a group.
constexpr const char* tiled = R"(kernel mm(a: f32[1024] in, b: f32[1024] in, c: f32[1024] out)
  group ta: f32[64]
  group tb: f32[64]
  group tc: f32[64]
  parallel g in 0..16
    parallel z in 0..64 level 1
      tc[z] = 0.0
    for t in 0..4
      parallel l in 0..64 level 1
        ta[l] = a[(g // 4 * 8 + l // 8) * 32 + t * 8 + l % 8]
        tb[l] = b[(t * 8 + l // 8) * 32 + g % 4 * 8 + l % 8]
      barrier level 1
      parallel m in 0..64 level 1
        for k in 0..8
          tc[m] = fma(ta[m // 8 * 8 + k], tb[k * 8 + m % 8], tc[m])
      barrier level 1
    parallel s in 0..64 level 1
      c[(g // 4 * 8 + s // 8) * 32 + g % 4 * 8 + s % 8] = tc[s]
    barrier level 1
)";
/// The sum of each row by a tree.
std::string tree() {
  std::string text =
      "kernel sums(x: f32[64*n] in, y: f32[n] out; n: 1..64)\n  group t: f32[64]\n  parallel r in 0..n\n"
      "    parallel l in 0..64 level 1\n      t[l] = x[64 * r + l]\n    barrier level 1\n";
  for (int half = 32; half > 0; half /= 2)
    text += fmt::format(
        "    parallel i{0} in 0..{0} level 1\n      t[i{0}] = t[i{0}] + t[i{0} + {0}]\n    barrier level 1\n",
        half);
  return text + "    parallel w in 0..1 level 1\n      y[r] = t[w]\n    barrier level 1\n";
}
/// Scratch of a launch, written and read in two functions.
constexpr const char* phases = R"(kernel turn(x: f32[n] in, y: f32[n] out; n: 1..4096)
  shared t: f32[n]
  parallel i in 0..n
    t[i] = x[i] * 10
  barrier
  parallel o in 0..n
    y[o] = t[n - 1 - o]
)";

struct Prepared {
  kernel::Kernel kernel;
  std::vector<Bytes> arguments, expected;
  std::vector<int64_t> symbols;
};
Prepared prepared(const std::string& text, const std::vector<size_t>& sizes, std::vector<int64_t> symbols,
                  int lanes) {
  Prepared p{kernel::parse_kernel(text), {}, {}, std::move(symbols)};
  EXPECT_THAT(verify(p.kernel), testing::IsEmpty());
  std::mt19937_64 random(7);
  for (const size_t size : sizes) {
    std::vector<float> values(size);
    for (float& v : values) v = float(int64_t(random() % 256) - 128) / 16;
    p.arguments.emplace_back(size * 4);
    std::memcpy(p.arguments.back().data(), values.data(), size * 4);
  }
  p.expected = p.arguments;
  std::vector<std::span<std::byte>> spans(p.expected.begin(), p.expected.end());
  kernel::LoopRunOptions options;
  options.workers = 2;
  options.lanes = lanes;
  const kernel::LoopRun run = kernel::run_kernel(p.kernel, spans, p.symbols, options);
  EXPECT_TRUE(run.ok()) << run.text();
  return p;
}

TEST_P(Languages, GroupsAndBarriersInEveryOrder) {
  NEEDS_COMPILER();
  Emulator emulator(GetParam());
  const std::vector<Prepared> all = {prepared(tiled, {1024, 1024, 1024}, {}, 64),
                                     prepared(tree(), {64 * 9, 9}, {9}, 64),
                                     prepared(phases, {300, 300}, {300}, 1)};
  for (const Prepared& p : all) emulator.add(p.kernel, p.arguments, p.symbols);
  ASSERT_EQ(emulator.run({std::begin(orders), std::end(orders)}), "");
  for (size_t i = 0; i < all.size(); ++i)
    for (const int order : orders) {
      EXPECT_EQ(emulator.findings(int(i), order), "") << emulator.text(int(i));
      EXPECT_EQ(emulator.results(int(i), order), all[i].expected)
          << all[i].kernel.name << " in order " << order << emulator.text(int(i));
    }
}

/// What a mistake turns the text into: the `which`-th place of `from` becomes `to`.
struct Mistake {
  const char* name;
  std::string from, to;
  int which = 0;
};
std::string with(std::string text, const Mistake& m) {
  size_t at = text.find("typedef i32 idx"); // what comes before is the prelude
  for (int i = 0;; ++i) {
    at = text.find(m.from, at);
    if (at == std::string::npos) {
      ADD_FAILURE() << m.name << ": the text has no " << m.from << " number " << m.which << "\n" << text;
      return text;
    }
    if (i == m.which) return text.replace(at, m.from.size(), m.to);
    at += m.from.size();
  }
}

TEST(PlantedMistakes, AreFound) {
  NEEDS_COMPILER();
  const std::vector<Mistake> planted = {
      {"no barrier behind the copies", "__syncthreads();", "", 0},
      {"no barrier before the next copies", "__syncthreads();", "", 1},
      {"a barrier that half of the threads reach", "__syncthreads();",
       "if (threadIdx.x < 16) __syncthreads();", 0},
      {"accumulators are not cleared", "b_tc[i_z] = 0.0f;", ";", 0},
      {"the last tile is left out", "i_t < 4", "i_t < 3", 0},
      {"one tile too many", "i_t < 4", "i_t < 5", 0},
      {"two tiles share their memory", "lum_words) + 256", "lum_words) + 0", 0},
      {"tiles overlap by a row", "lum_words) + 512", "lum_words) + 480", 0},
      {"every thread copies the same element", "i_l = 0 + lum_lane", "i_l = 0", 0},
      {"a thread's elements are half of them", "i_m += lum_lanes", "i_m += 2 * lum_lanes", 0},
      {"groups are skipped", "i_g += lum_workers", "i_g += 2 * lum_workers", 0},
      {"the first group is left out", "i_g = 0 + lum_worker", "i_g = 1 + lum_worker", 0},
      {"an element beside the tile", "b_ta[i_l] =", "b_ta[i_l + 1] =", 0},
      {"an element beside the result", "b_c[", "b_c[1 + ", 0},
      {"the sum begins late", "i_k = 0;", "i_k = 1;", 0},
  };
  Emulator emulator("cuda");
  const Prepared p = prepared(tiled, {1024, 1024, 1024}, {}, 64);
  emulator.add(p.kernel, p.arguments, p.symbols, 32);
  for (const Mistake& m : planted)
    emulator.add(p.kernel, p.arguments, p.symbols, 32, 3,
                 [&](std::string text) { return with(std::move(text), m); });
  ASSERT_EQ(emulator.run({std::begin(orders), std::end(orders)}), "");
  EXPECT_EQ(emulator.results(0, 0), p.expected);
  for (size_t i = 0; i < planted.size(); ++i) {
    int found = 0;
    for (const int order : orders)
      found +=
          !emulator.findings(int(i) + 1, order).empty() || emulator.results(int(i) + 1, order) != p.expected;
    EXPECT_GT(found, 0) << planted[i].name;
  }
}

INSTANTIATE_TEST_SUITE_P(All, EmulatedRows, testing::Values("cuda", "hip", "metal"),
                         [](const auto& test) { return test.param; });
INSTANTIATE_TEST_SUITE_P(All, Languages, testing::Values("cuda", "hip", "metal"),
                         [](const auto& test) { return test.param; });

} // namespace
} // namespace luminal::simt
