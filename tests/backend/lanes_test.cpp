// backend/lanes_test.cpp -- loads and stores of lanes that are not contiguous: words of several
// elements, steps, windows, transposition, conditions of lanes; reductions over lanes.
#include "memory_support.h"
#include <fmt/format.h>
#include <sstream>

namespace luminal {
namespace {
using namespace luminal::test;

/// Each lane has a word, which all of its bytes and halves come from; a word that does not end
/// inside of the buffer is not read.
TEST(Memory, BytesOfWords) {
  for (const char* type : {"u4", "i4"})
    for (int lanes : {8, 16, 32})
      for (int bytes : {0, 1}) {
        std::string text = fmt::format(
            "kernel words(q: u8[{}] in, x: i8[{}] in, y: f32[{}] inout, z: i32[{}] inout; n: 1..3)\n",
            12 * lanes - bytes, 12 * lanes, 24 * lanes, 24 * lanes);
        text += fmt::format("  for i in 0..n\n    vector l in 0..{}\n", lanes);
        const char* functions[] = {"{} - 8.0", "3.0 - {}",  "{} * -0.5", "0.1 + {} * 0.3",
                                   "{}",       "-2.0 * {}", "{} + nan",  "{} * inf"};
        for (int part = 0; part < 8 - 2 * bytes; ++part) {
          const std::string code =
              fmt::format("cast<f32>(cast<{}>(bit_and(shr(q[{}*i + 4*l + {}], u8({})), u8(15))))", type,
                          4 * lanes, part / 2, part % 2 * 4);
          const std::string value = fmt::format(fmt::runtime(functions[part]), code);
          text += fmt::format("      y[{}*i + {} + l] = {}\n", 8 * lanes, part * lanes, value);
          text += fmt::format("      z[{}*i + {} + l] = cast<i32>(x[{}*i + 4*l + {}])\n", 8 * lanes,
                              part * lanes, 4 * lanes, part / 2);
        }
        expect_equal(text, {{"n", 3}});
      }
}

TEST(Memory, LanesThatLieApart) {
  expect_equal(R"(
kernel apart(x: f32[n*n] in, y: f32[16*8] inout, z: f32[3*64 + 5] inout, w: f32[16] out; m: 1..16, n: 20..100)
  vector a in 0..16 masked m
    y[a] = x[2*a + 1]
  vector a1 in 0..16
    y[16 + a1] = x[n - a1]
  vector a2 in 0..16
    y[32 + a2] = x[a2 // 4]
  vector a3 in 0..16
    y[48 + a3] = x[(a3 % 4)*3 + 7]
  vector a4 in 0..16 masked m
    y[64 + a4] = x[n*a4]
  vector a5 in 0..16
    y[80 + a5] = x[a5*a5]
  vector a6 in 0..16 masked m
    y[96 + a6] = x[3*(a6 // 2) + a6 % 2]
  vector a7 in 0..16
    y[112 + a7] = x[(n + a7) % 7]
  vector b in 0..16 masked m
    z[3*b + 5] = x[b]
  vector c in 0..16
    w[15 - c] = x[c + n]
)",
               {{"m", 11}, {"n", 23}});
}

/// Lanes that are never live, beside a guard known at run time only: a register that has none but
/// such ones is not touched. LLVM 19 loads all of it where masks are vectors (AVX2) and several
/// loads share one.
TEST(Memory, RegistersWithoutLiveLanes) {
  std::vector<codegen::CpuTarget> targets = runnable_targets();
#if defined(__x86_64__)
  if (targets.size() > 1) {
    for (const char* cpu : {"znver3", "znver4"}) {
      targets.push_back(codegen::CpuTarget::named(cpu).value());
      targets.back().features = "-sse4a"; // processors of Intel do not have it
    }
    targets.back().features += ",+prefer-256-bit"; // vectors that LLVM cuts in two, their masks too
  }
#endif
  for (const char* type : {"f64", "f32", "i32", "bf16"})
    for (const int lanes : {8, 16})
      for (const int live : {3, lanes / 2, lanes - 1})
        for (const int m : {1, 2}) {
          SCOPED_TRACE(fmt::format("{} of {} lanes of {}", live, lanes, type));
          expect_equal(fmt::format(R"(
kernel shares(x: {0}[{3}] in, z: {0}[{4}] in, y: {0}[{1}] inout; m: 0..3)
  vector l in 0..{1} masked {2}
    y[l] = x[4*l + 1 where 1 >= m and 4*l + 5 < 4*{2}] + z[l where 1 >= m] + z[l + {2} where 1 >= m and l + 1 < {2}]
)",
                                   type, lanes, live, 4 * live, 2 * live),
                       {{"m", m}}, 1, {}, targets);
          if (HasFailure()) return;
        }
}

/// Windows with steps: all columns share the vectors that lie between, wherever these surely are in
/// the buffer; at its ends, and where a guard is known at run time only, nothing but what is asked
/// for is touched.
TEST(Memory, WindowsWithSteps) {
  const auto windows = [](const char* type, int step, int lanes, int live, int width) {
    return fmt::format(R"(
kernel windows(x: {0}[4*6*{4}] in, y: {0}[4*3*3*{3}] inout; m: 0..3)
  for c in 0..4
    unrolled i in 0..3
      for s in 0..3 jam 3
        vector l in 0..{2} masked {3}
          y[9*{3}*c + 3*{3}*i + {3}*s + l] = x[6*{4}*c + 2*{4}*i + {1}*l + s - 1 where {1}*l + s >= 1 and {1}*l + s <= {4}] + x[6*{4}*c + 2*{4}*i + {1}*l + s - {4} where i + c >= m and 2*i >= 1 and {1}*l + s < {4}]
)",
                       type, step, lanes, live, width);
  };
  for (const char* type : {"f32", "u8"})
    for (const int step : {2, 3, 4})
      for (const auto& [lanes, live] :
           {std::pair(16, 16), std::pair(16, 14), std::pair(8, 7), std::pair(4, 4)})
        for (const int more : {0, 5}) {
          const std::string text = windows(type, step, lanes, live, step * (live - 1) + 1 + more);
          SCOPED_TRACE(text);
          expect_equal(text, {{"m", 2}});
          if (HasFailure()) return;
        }
  // Three columns of one row are made of two vectors.
  const char* row = R"(
kernel row(x: f32[4*28] in, y: f32[3*14] out)
  for c in 0..3
    vector l in 0..16 masked 14
      y[14*c + l] = x[28*c + 2*l - 1 where l >= 1] + x[28*c + 2*l] * x[28*c + 2*l + 1]
)";
  expect_equal(row, {});
  std::istringstream assembly(
      codegen::assembly(checked(row), codegen::CpuTarget::named("znver4").value()).value());
  int loads = 0; // of vectors that are not constants: `vmovups 64(%rdi), %zmm0`
  for (std::string line; std::getline(assembly, line);)
    loads += line.find('(') < line.find("%zmm") && line.find("%zmm") != std::string::npos &&
             line.find("%rip") == std::string::npos;
  EXPECT_EQ(loads, 2);
}

TEST(Memory, TransposedLoads) {
  const std::string text = R"(
kernel transpose(x: f32[m*n] in, y: f32[m*n] out; m: 1..64, n: 1..64)
  for io in 0..m // 16
    for jo in 0..n // 16
      unrolled u in 0..16
        vector l in 0..16
          y[m*(16*jo + u) + 16*io + l] = x[n*(16*io + l) + 16*jo + u]
    for j in n // 16 * 16..n
      vector k in 0..16
        y[m*j + 16*io + k] = x[n*(16*io + k) + j]
  for i in m // 16 * 16..m
    for o in 0..n
      y[m*o + i] = x[n*i + o]
)";
  expect_equal(text, {{"m", 37}, {"n", 35}});
  const std::string tails = R"(
kernel tails(x: f32[n*m] in, y: bf16[16*m] inout; m: 1..16, n: 16..64)
  unrolled u in 0..16
    vector l in 0..16 masked m
      y[m*u + l] = cast<bf16>(x[n*l + u])
)";
  expect_equal(tails, {{"m", 11}, {"n", 17}});
  // Words of two elements.
  const std::string words = R"(
kernel words(x: bf16[n*m + 1] in, y: u32[256] out; m: 1..16, n: 32..64)
  unrolled u in 0..16
    vector l in 0..16 masked m
      y[16*u + l] = load<u32>(x[2*u + n*l + 1])
)";
  expect_equal(words, {{"m", 16}, {"n", 39}});
  // Shuffles, where the target has wide registers.
  for (const std::string& of : {tails, words})
    EXPECT_EQ(codegen::assembly(checked(of), codegen::CpuTarget::named("skylake-avx512").value())
                  .value()
                  .find("gather"),
              std::string::npos);
}

TEST(Memory, TransposedStores) {
  // Tiles of so many neighbours by two vectors, each lane in a row of its own.
  for (const int neighbours : {2, 3, 4, 5, 6, 7, 9, 16})
    for (const int lanes : {4, 8, 16}) {
      const std::string text = fmt::format(R"(
kernel tile(x: f32[{0}*{1}*6] in, y: f32[40*{1}*6] inout, z: i32[40*{1}*2] inout)
  parallel p in 0..3
    unrolled u in 0..{0}
      unrolled v in 0..2
        vector l in 0..{1}
          let %0 = x[{0}*{1}*2*p + {1}*2*u + {1}*v + l]
          y[40*{1}*2*p + 40*{1}*v + 40*l + u + 3] = %0 * 2.0
    unrolled w in 0..{0}
      vector k in 0..{1}
        if p < 1
          z[40*k + w] = cast<i32>(x[{1}*w + k])
)",
                                           neighbours, lanes);
      expect_equal(text, {}, 2);
    }
  // No scatter is left where all lanes live.
  const std::string one = R"(
kernel one(x: f32[80] in, y: f32[16*9] inout)
  unrolled u in 0..5
    vector l in 0..16
      y[9*l + u] = x[16*u + l]
)";
  expect_equal(one, {});
  EXPECT_EQ(codegen::assembly(checked(one), codegen::CpuTarget::named("skylake-avx512").value())
                .value()
                .find("scatter"),
            std::string::npos);
  // Elements that several steps write, sums that go on, lanes that do not live: as they stand.
  for (const char* text : {R"(
kernel again(x: f32[33] in, y: f32[64] inout)
  unrolled u in 0..4
    unrolled v in 0..2
      vector l in 0..8
        y[8*l + u + v] = x[4*l + u - v + 1]
)",
                           R"(
kernel shifted(x: f32[64] in, y: f32[80] inout)
  unrolled u in 0..4
    vector l in 0..16
      y[4*l + u + 2] = x[l + 16*u]
      y[4*l + u + 5] = x[l + 16*u] + 1.0
)",
                           R"(
kernel sums(x: f32[64] in, y: f32[80] inout)
  unrolled u in 0..4
    vector l in 0..16
      y[4*l + u] = y[4*l + u + 1] + x[l + 16*u]
)",
                           R"(
kernel near(x: f32[64] in, y: f32[80] inout)
  unrolled u in 0..4
    vector l in 0..16
      y[3*l + u] = x[l + 16*u]
)",
                           R"(
kernel dead(x: f32[64] in, y: f32[80] inout)
  unrolled u in 0..4
    vector l in 0..16 masked 11
      y[5*l + u] = x[l + 16*u]
)"})
    expect_equal(text, {});
}

TEST(Memory, ConditionsOfLanes) {
  expect_equal(R"(
kernel lanes(x: f32[n] in, y: f32[n + 2] out, r: f32[n] inout, s: f32[2] out; n: 1..64)
  registers t: f32[16]
  registers total: f32[16]
  vector z in 0..16
    total[z] = -1000
  for io in 0..ceildiv(n + 2, 16)
    vector il in 0..16 masked n + 2 - 16*io
      if 1 <= 16*io + il and 16*io + il <= n
        y[16*io + il] = x[16*io + il - 1]
        t[il] = x[16*io + il - 1]
        total[il] = max(total[il], t[il])
      else
        y[16*io + il] = 0
  for jo in 0..ceildiv(n, 16)
    vector jl in 0..16 masked n - 16*jo
      r[16*jo + jl] = select(index<i32>(jl) < i32(5), x[16*jo + jl], index<f32>(16*jo + jl))
  vector l in 0..16
    s[0] = reduce_lanes<max>(total[l])
  vector k in 0..16 masked n
    s[1] = reduce_lanes<add>(x[k])
)",
               {{"n", 37}});
}

TEST(Memory, ReductionsOfEveryTypeAndWidth) {
  for (const char* type : {"f32", "f64", "bf16", "f16", "i32", "u8", "i64"})
    for (int lanes : {2, 4, 8, 16, 32, 64}) {
      std::string t = type, n = std::to_string(lanes);
      expect_equal("kernel reduce(x: " + t + "[" + n + "*4] in, y: " + t + "[8] out; m: 1.." + n + ")\n" +
                       "  vector a in 0.." + n +
                       "\n    y[0] = reduce_lanes<add>(x[a])\n    y[1] = reduce_lanes<mul>(x[a + " + n +
                       "])\n    y[2] = reduce_lanes<max>(x[a])\n    y[3] = reduce_lanes<min>(x[a])\n  vector "
                       "b in 0.." +
                       n +
                       " masked m\n    y[4] = reduce_lanes<add>(x[b])\n    y[5] = reduce_lanes<mul>(x[b])\n  "
                       "  y[6] = reduce_lanes<max>(x[b])\n    y[7] = reduce_lanes<min>(x[b])\n",
                   {{"m", lanes / 2 + 1}});
    }
}

TEST(Memory, NanInAnyLaneThatIsAliveReachesLargestAndLeast) {
  for (const char* type : {"f32", "f64", "bf16"})
    for (int lanes : {2, 8, 16, 64}) {
      const std::string t = type, n = std::to_string(lanes);
      std::string text = "kernel nans(x: " + t + "[" + n + "] in, y: " + t + "[4*" + n + "] out; m: 1.." + n +
                         ")\n  for p in 0.." + n + "\n";
      for (const char* mask : {"", " masked m"}) {
        const std::string l = *mask ? "b" : "a", at = *mask ? "4*p + 2" : "4*p";
        const std::string value =
            "(select(index<i32>(" + l + ") == index<i32>(p), cast<" + t + ">(nan), x[" + l + "]))\n";
        text += "    vector " + l + " in 0.." + n + mask + "\n      y[" + at + "] = reduce_lanes<max>" +
                value + "      y[" + at + " + 1] = reduce_lanes<min>" + value;
      }
      expect_equal(text, {{"m", lanes / 2 + 1}});
    }
}

/// Whole vectors, the first lanes of one, and those that a condition leaves: also none. A value that all
/// lanes share is scanned as any other.
TEST(Memory, ScansOfLanes) {
  for (const char* type : {"f32", "f64", "bf16", "i32", "u8", "i64"})
    for (int lanes : {2, 8, 16, 64}) {
      const std::string t = type, n = std::to_string(lanes);
      std::string text = "kernel scans(x: " + t + "[" + n + "*2] in, y: " + t + "[8*" + n + "] out, z: " + t +
                         "[2] out; m: 1.." + n + ", k: 0.." + n + ")\n  for c in 0..8*" + n +
                         "\n    y[c] = " + t + "(0)\n";
      const auto store = [&](const std::string& l, int at, const std::string& from) {
        return "    y[" + l + " + " + std::to_string(at * lanes) + "] = scan_lanes<add>(x[" + from + "])\n" +
               "    y[" + l + " + " + std::to_string((at + 1) * lanes) + "] = scan_lanes<max>(x[" + from +
               "])\n";
      };
      text += "  vector a in 0.." + n + "\n" + store("a", 0, "a") + "    z[0] = last_lane(x[a])\n";
      text += "  vector b in 0.." + n + " masked m\n" + store("b", 2, "b + " + n) + "    y[b + " +
              std::to_string(4 * lanes) + "] = scan_lanes<min>(x[b])\n" + "    y[b + " +
              std::to_string(7 * lanes) + "] = scan_lanes<add>(x[0])\n" +
              "    z[1] = last_lane(scan_lanes<mul>(x[b]))\n";
      text += "  vector d in 0.." + n + "\n    if d < k\n" + "      y[d + " + std::to_string(5 * lanes) +
              "] = scan_lanes<add>(x[d])\n" + "      y[d + " + std::to_string(6 * lanes) +
              "] = last_lane(x[d])\n";
      for (const int some : {0, lanes / 2 + 1}) expect_equal(text, {{"m", lanes / 2 + 1}, {"k", some}});
    }
}

/// Elements that lie backwards are exchanged in registers.
TEST(Memory, StoresOfLanesThatLieBackwards) {
  for (const char* type : {"f32", "f64", "bf16", "i8", "i64"})
    for (const char* mask : {"", " masked m"})
      expect_equal("kernel backwards(x: " + std::string(type) + "[16] in, y: " + type +
                       "[40] inout; m: 1..16)\n  vector a in 0..16" + mask + "\n    y[30 - a] = x[a]\n",
                   {{"m", 11}});
}

} // namespace
} // namespace luminal
