// codegen/object_test.cpp -- what the code generator hands out: objects without references, code
// for other processors, accumulators in registers, determinism.
#include "assembly.h"
#include "codegen/codegen.h"
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <regex>
#include <thread>

namespace luminal::codegen {
namespace {

/// Rows x vectors accumulators, k innermost.
std::string tile(int rows, int vectors, int lanes) {
  auto n = [](int x) { return std::to_string(x); };
  int width = vectors * lanes;
  return "kernel tile(a: f32[" + n(rows) + "*k] in, b: f32[" + n(width) + "*k] in, c: f32[" +
         n(rows * width) + "] out; k: 1..4096) lanes " + n(lanes) + "\n  registers acc: f32[" +
         n(rows * width) + "]\n  unrolled i0 in 0.." + n(rows) + "\n    unrolled v0 in 0.." + n(vectors) +
         "\n      vector l0 in 0.." + n(lanes) + "\n        acc[" + n(width) + "*i0 + " + n(lanes) +
         "*v0 + l0] = 0\n  for kk in 0..k jam 4\n    unrolled i in 0.." + n(rows) +
         "\n      unrolled v in 0.." + n(vectors) + "\n        vector l in 0.." + n(lanes) +
         "\n          acc[" + n(width) + "*i + " + n(lanes) + "*v + l] = fma(a[k*i + kk], b[" + n(width) +
         "*kk + " + n(lanes) + "*v + l], acc[" + n(width) + "*i + " + n(lanes) +
         "*v + l])\n  unrolled i1 in 0.." + n(rows) + "\n    unrolled v1 in 0.." + n(vectors) +
         "\n      vector l1 in 0.." + n(lanes) + "\n        c[" + n(width) + "*i1 + " + n(lanes) +
         "*v1 + l1] = acc[" + n(width) + "*i1 + " + n(lanes) + "*v1 + l1]\n";
}

CpuTarget target(const char* name) { return CpuTarget::named(name).value(); }

struct Loop {
  int fma = 0, stack = 0, instructions = 0;
};
/// The loop with the most multiply-adds.
Loop hottest(const std::string& assembly) {
  const auto [text, loops] = read_assembly(assembly);
  Loop best;
  for (const auto& [begin, end] : loops) {
    Loop l;
    for (size_t j = begin; j <= end; ++j) {
      bool instruction = !text[j].empty() && text[j][0] == '\t' && text[j][1] != '.';
      l.instructions += instruction;
      auto has = [&](const char* word) { return text[j].find(word) != std::string::npos; };
      l.fma += has("vfmadd") || has("\tfmla\t") || has("\tfmad\t");
      l.stack += has("(%rsp)") || has("(%rbp)") || has("[sp") || has("[x29");
    }
    if (l.fma > best.fma) best = l;
  }
  return best;
}

TEST(Objects, AccumulatorsStayInRegisters) {
  struct Case {
    const char* cpu;
    int rows, vectors, lanes;
  };
  for (Case c : {Case{"skylake-avx512", 4, 4, 16},
                 {"znver4", 6, 4, 16},
                 {"x86-64-v4", 6, 4, 16},
                 {"haswell", 6, 2, 8},
                 {"haswell", 4, 2, 8},
                 {"x86-64-v3", 6, 2, 8},
                 {"aarch64", 4, 4, 4},
                 {"aarch64", 6, 3, 4},
                 {"aarch64", 8, 2, 4},
                 {"neoverse-v1", 4, 4, 8},
                 {"neoverse-v1", 8, 2, 8},
                 {"neoverse-v1", 6, 3, 8},
                 {"a64fx", 6, 3, 16},
                 {"a64fx", 14, 1, 16},
                 {"neoverse-v2", 4, 4, 4}}) {
    auto kernel = kernel::parse_kernel(tile(c.rows, c.vectors, c.lanes));
    ASSERT_THAT(kernel::verify(kernel), testing::IsEmpty());
    auto text = assembly(kernel, target(c.cpu));
    ASSERT_TRUE(text) << text.error();
    Loop loop = hottest(*text);
    EXPECT_EQ(loop.fma, 4 * c.rows * c.vectors) << c.cpu; // four bodies
    EXPECT_EQ(loop.stack, 0) << c.cpu << "\n" << *text;
    // Little but loads beside the arithmetic: vectors of b, one counter, one jump. (On AArch64 also
    // those of a and renamings.)
    if (target(c.cpu).triple.starts_with("aarch64")) continue;
    EXPECT_LE(loop.instructions, loop.fma + 4 * (c.rows + c.vectors) + 12) << c.cpu << "\n" << *text;
  }
}

/// What all lanes share and one multiply-add uses comes from memory with it.
TEST(Objects, SharedFactorsAreEmbedded) {
  const auto text = assembly(kernel::parse_kernel(tile(8, 1, 16)), target("skylake-avx512"));
  ASSERT_TRUE(text) << text.error();
  const std::regex embedded("vfmadd[0-9a-z]*\t[^\n]*\\{1to16\\}"), apart("vbroadcastss");
  const auto count = [&](const std::regex& what) {
    return std::distance(std::sregex_iterator(text->begin(), text->end(), what), std::sregex_iterator());
  };
  EXPECT_GE(count(embedded), 4 * 8); // four bodies, and what is left of the trips
  EXPECT_EQ(count(apart), 0);
}

TEST(Objects, JammedBodiesFetchEachLineOnce) {
  auto fetches = [](int lanes) {
    auto kernel = kernel::parse_kernel(fmt::format(
        "kernel copy(x: f32[{0}*n] in, y: f32[{0}*n] out; n: 4..4096) lanes {0}\n  for i in 0..n jam 4\n"
        "    prefetch x[{0}*i + 256]\n    vector l in 0..{0}\n      y[{0}*i + l] = x[{0}*i + l]\n",
        lanes));
    EXPECT_THAT(kernel::verify(kernel), testing::IsEmpty());
    auto text = llvm_ir(kernel, target("znver4"), {}, false);
    EXPECT_TRUE(text) << text.error();
    int count = 0;
    for (size_t at = 0; (at = text->find("call void @llvm.prefetch", at)) != std::string::npos; at++) count++;
    return count - 1; // the rest of the trips has a body of its own
  };
  EXPECT_EQ(fetches(16), 4);
  EXPECT_EQ(fetches(32), 4);
  EXPECT_EQ(fetches(8), 2);
  EXPECT_EQ(fetches(4), 1);
}

TEST(Objects, ResultsAreFetchedToBeWritten) {
  auto kernel =
      kernel::parse_kernel("kernel copy(x: f32[64*n] in, y: f32[64*n] out; n: 4..4096)\n  for i in 0..n\n"
                           "    prefetch x[64*i + 64]\n    prefetch y[64*i + 64]\n"
                           "    vector l in 0..16\n      y[64*i + l] = x[64*i + l]\n");
  auto text = assembly(kernel, target("znver4"));
  ASSERT_TRUE(text) << text.error();
  EXPECT_THAT(*text, testing::HasSubstr("prefetcht1"));
  EXPECT_THAT(*text, testing::HasSubstr("prefetchw"));
}

/// Lanes that are written in steps of the parts' number, under an unrolled loop over the parts:
/// whole vectors, not elements.
TEST(Objects, PartsInTurnAreWrittenAsRuns) {
  const auto text = [](int parts, int step) {
    auto kernel = kernel::parse_kernel(
        fmt::format("kernel deal(x: f32[16*{0}*n] in, y: f32[16*{1}*n] inout; n: 4..4096)\n  for i in 0..n\n"
                    "    unrolled p in 0..{0}\n      vector l in 0..16\n"
                    "        y[16*{1}*i + {1}*l + p] = x[16*{0}*i + 16*p + l]\n",
                    parts, step));
    EXPECT_THAT(kernel::verify(kernel), testing::IsEmpty());
    return *assembly(kernel, target("znver4"));
  };
  const std::regex store("\\tvmov[a-z0-9]*\t%zmm[0-9]+, [-0-9]*\\(");
  for (int parts : {2, 4, 8}) {
    EXPECT_TRUE(std::regex_search(text(parts, parts), store)) << parts;
    EXPECT_FALSE(std::regex_search(text(parts, parts + 1), store)) << parts; // something lies between
  }
}

TEST(Objects, StreamingStoresAndTheirFence) {
  const auto text = [](const char* streaming, const char* cpu, int lanes, const char* offset = "") {
    auto kernel = kernel::parse_kernel(fmt::format(
        "kernel copy(x: f32[{0}*n] in, y: f32[{0}*n + 4] out{1}; n: 4..4096) lanes {0}\n  for i in 0..n\n"
        "    vector l in 0..{0}\n      y[{0}*i + l{2}] = x[{0}*i + l]\n",
        lanes, streaming, offset));
    EXPECT_THAT(kernel::verify(kernel), testing::IsEmpty());
    return *assembly(kernel, target(cpu));
  };
  using testing::HasSubstr, testing::Not, testing::AllOf;
  for (auto [cpu, lanes] : {std::pair("haswell", 8), std::pair("skylake-avx512", 16)}) {
    EXPECT_THAT(text(" streaming", cpu, lanes), AllOf(HasSubstr("vmovntps"), HasSubstr("sfence"))) << cpu;
    EXPECT_THAT(text(" streaming", cpu, lanes, " + 1"), Not(HasSubstr("vmovntps"))); // never on a line
    EXPECT_THAT(text("", cpu, lanes), AllOf(Not(HasSubstr("vmovntps")), Not(HasSubstr("sfence")))) << cpu;
  }
  EXPECT_THAT(text(" streaming", "neoverse-v1", 4), Not(HasSubstr("sfence")));
}

TEST(Objects, NumbersBecomeIntegersInVectors) {
  for (const char* type : {"i8", "u8", "i16", "u16", "i32", "u32"}) {
    auto code = assembly(kernel::parse_kernel(fmt::format("kernel whole(x: f32[16] in, y: {0}[16] out)\n"
                                                          "  vector l in 0..16\n    y[l] = cast<{0}>(x[l])\n",
                                                          type)),
                         target("skylake-avx512"));
    ASSERT_TRUE(code) << code.error();
    EXPECT_THAT(*code, testing::HasSubstr("cvttps2")) << type;
    EXPECT_THAT(*code, testing::Not(testing::HasSubstr("cvttss2"))) << type;
  }
}

/// All lanes of a function at once: packed multiply-adds, none for a single lane. Large angles
/// alone are reduced lane by lane, in a function of their own.
TEST(Objects, FunctionsStayInVectors) {
  const std::regex packed(R"(\tvfn?m(?:add|sub)\w+p[sd]\t|\tf(?:mla|mad|mls|msb)\t[vz])"),
      single(R"(\tvfn?m(?:add|sub)\w+s[sd]\t|\tfn?m(?:add|sub)\t)"),
      large_angles(R"(\nluminal\.large_angles:[^]*?\.Lfunc_end)");
  for (const char* cpu : {"haswell", "znver4", "aarch64", "neoverse-v1"})
    for (const char* function :
         {"exp", "exp2", "log", "log2", "sin", "cos", "tanh", "erf", "sigmoid", "gelu", "silu"})
      for (const char* type : {"f32", "f64"}) {
        SCOPED_TRACE(fmt::format("{} of {}, {}", function, type, cpu));
        const CpuTarget where = target(cpu);
        const int lanes = where.lanes(DType::f32);
        const auto text =
            assembly(kernel::parse_kernel(
                         fmt::format("kernel apply(x: {1}[{2}] in, y: {1}[{2}] out) lanes {2}\n  vector l in "
                                     "0..{2}\n    y[l] = {0}(x[l])\n",
                                     function, type, lanes)),
                     where);
        ASSERT_TRUE(text) << text.error();
        EXPECT_TRUE(std::regex_search(*text, packed));
        EXPECT_FALSE(std::regex_search(std::regex_replace(*text, large_angles, ""), single));
      }
}

TEST(Objects, ReferToNothingOutside) {
  // Every function of the table, so that nothing becomes a call of the C library.
  for (const char* cpu : {"haswell", "skylake-avx512", "neoverse-v1"}) {
    std::string text = "kernel all(x: f32[16] in, z: f64[16] in, h: f16[16] in, i: i64[16] in, y: f32[16] "
                       "out, w: f64[16] out, o: f16[16] out, j: i64[16] out)\n  vector l in 0..16\n";
    for (int op = 0; op < op_count; ++op) {
      const OpRow& r = row(Op(op));
      if (r.signature != Signature::floating && r.signature != Signature::numeric) continue;
      auto call = [&](const char* buffer) {
        std::string args;
        for (int a = 0; a < r.arity; ++a) args += std::string(a ? ", " : "") + buffer + "[l]";
        return r.arity == 1 || op > int(Op::rem) ? std::string(r.name) + "(" + args + ")"
                                                 : std::string(buffer) + "[l] " +
                                                       std::string(op == int(Op::add)   ? "+"
                                                                   : op == int(Op::sub) ? "-"
                                                                   : op == int(Op::mul) ? "*"
                                                                                        : "/") +
                                                       " " + buffer + "[l]";
      };
      if (Op(op) == Op::rem) {
        text += "    y[l] = rem(x[l], x[l])\n    w[l] = rem(z[l], z[l])\n    j[l] = rem(i[l], i[l])\n";
        continue;
      }
      text += "    y[l] = " + call("x") + "\n    w[l] = " + call("z") + "\n    o[l] = " + call("h") + "\n";
      if (r.signature == Signature::numeric) text += "    j[l] = " + call("i") + "\n";
    }
    text += "    y[l] = cast<f32>(i[l])\n    o[l] = cast<f16>(z[l])\n    j[l] = cast<i64>(h[l])\n    o[l] = "
            "cast<f16>(i[l])\n";
    auto kernel = kernel::parse_kernel(text);
    ASSERT_THAT(kernel::verify(kernel), testing::IsEmpty());
    auto ir = llvm_ir(kernel, target(cpu));
    ASSERT_TRUE(ir) << ir.error();
    auto code = assembly(kernel, target(cpu));
    ASSERT_TRUE(code);
    std::regex call(R"(\n\s+(callq?|bl)\s+([A-Za-z_]\w*(\.\w+)*))");
    for (std::sregex_iterator it(code->begin(), code->end(), call), end; it != end; ++it)
      EXPECT_THAT(*code, testing::HasSubstr("\n" + (*it)[2].str() + ":")) << cpu; // it is defined here
    EXPECT_EQ(code->find(".data"), std::string::npos);
  }
}

TEST(Objects, AreMadeForOtherProcessors) {
  auto kernel = kernel::parse_kernel(tile(4, 4, 4));
  auto compiled = compile(kernel, target("neoverse-v1"));
  ASSERT_TRUE(compiled) << compiled.error();
  ASSERT_GT(compiled->object.size(), 64u);
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(compiled->object.data()) + 1, 3), "ELF");
  EXPECT_EQ(int(compiled->object[18]), 183); // EM_AARCH64
  EXPECT_FALSE(CpuTarget::named("no-such-processor").ok());
  // SSE; AVX without multiply-adds; both without AVX2 (`Emitter::masked_load` counts on this).
  for (const char* name : {"core2", "nehalem", "sandybridge", "ivybridge", "bdver2"}) {
    auto old = CpuTarget::named(name);
    ASSERT_TRUE(old);
    auto refused = compile(kernel, *old);
    ASSERT_FALSE(refused);
    EXPECT_THAT(refused.error(), testing::HasSubstr(name));
  }
}

TEST(Objects, TargetsKnowTheirInstructions) {
  auto haswell = target("haswell"), skylake = target("skylake-avx512"), zen4 = target("znver4"),
       arm = target("neoverse-v1");
  EXPECT_EQ(haswell.vector_bits, 256);
  EXPECT_EQ(haswell.vector_registers, 16);
  EXPECT_EQ(haswell.lanes(DType::f32), 8);
  EXPECT_FALSE(haswell.masked_memory);
  EXPECT_EQ(skylake.vector_bits, 512);
  EXPECT_EQ(skylake.lanes(DType::bf16), 32);
  EXPECT_FALSE(skylake.bf16_dot || skylake.int8_dot);
  EXPECT_TRUE(zen4.bf16_dot && zen4.int8_dot && zen4.scalef);
  EXPECT_EQ(arm.vector_bits, 256);
  EXPECT_TRUE(arm.sve && arm.masked_memory && arm.bf16_dot && arm.int8_dot);
  EXPECT_EQ(target("a64fx").lanes(DType::f32), 16);
  EXPECT_EQ(target("neoverse-v2").vector_bits, 128);
  EXPECT_TRUE(target("neoverse-v2").sve);
  EXPECT_FALSE(target("aarch64").sve || target("apple-m1").sve || target("neoverse-n1").sve);
  EXPECT_NE(haswell.hash(), skylake.hash());
  EXPECT_EQ(zen4.hash(), target("znver4").hash());
}

TEST(Objects, ScalableVectorsHaveTheirWidth) {
  // One instruction for eight lanes, predicates for what is masked; the same text in two halves
  // without SVE.
  const auto count = [](const char* cpu, const char* what) {
    auto kernel =
        kernel::parse_kernel("kernel add(x: f32[8] in, y: f32[8] in, z: f32[8] out, w: f32[5] out) lanes 8\n"
                             "  vector l in 0..8\n    z[l] = x[l] + y[l]\n"
                             "  vector m in 0..8 masked 5\n    w[m] = x[m] * y[m]\n");
    EXPECT_THAT(kernel::verify(kernel), testing::IsEmpty());
    const std::string text = assembly(kernel, target(cpu)).value();
    const std::regex all(what);
    return std::distance(std::sregex_iterator(text.begin(), text.end(), all), std::sregex_iterator());
  };
  EXPECT_EQ(count("neoverse-v1", R"(\tfadd\t)"), 1);
  EXPECT_EQ(count("neoverse-v1", R"(st1w\t)"), 2);
  EXPECT_EQ(count("aarch64", R"(\tfadd\t)"), 2);
  EXPECT_EQ(count("aarch64", R"(st1w\t|\tptrue\t)"), 0);
}

TEST(Objects, AreTheSameBytesOnEveryThread) {
  auto kernel = kernel::parse_kernel(tile(4, 2, 16));
  auto first = compile(kernel, target("znver4")).value().object;
  std::vector<std::vector<std::byte>> objects(4);
  std::vector<std::thread> threads;
  for (auto& o : objects) threads.emplace_back([&] { o = compile(kernel, target("znver4")).value().object; });
  for (auto& t : threads) t.join();
  for (auto& o : objects) EXPECT_EQ(o, first);
}

TEST(Objects, MistakesAreFailures) {
  auto refused = [](const std::string& text) {
    auto compiled = compile(kernel::parse_kernel(text), target("haswell"));
    return compiled ? std::string("compiled") : compiled.error();
  };
  EXPECT_THAT(
      refused("kernel k(x: f32[4] inout; n: 1..4)\n  registers t: f32[4]\n  for i in 0..n\n    t[i] = 1\n"),
      testing::HasSubstr("known at run time only"));
  EXPECT_THAT(refused("kernel k(x: f32[4] inout; n: 1..4)\n  tensor_memory t: f32[4]\n  x[0] = 1\n"),
              testing::HasSubstr("space"));
  EXPECT_THAT(refused("kernel k(x: f32[4] inout; n: 1..4)\n  parallel i in 0..n\n    parallel j in 0..n\n    "
                      "  x[i] = 1\n"),
              testing::HasSubstr("parallel"));
}

} // namespace
} // namespace luminal::codegen
