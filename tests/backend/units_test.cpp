// backend/units_test.cpp -- described instructions as the processor's own, against their
// descriptions.
#include "support.h"
#include <array>
#include <fmt/format.h>

namespace luminal {
namespace {
using namespace luminal::test;

/// acc[16*i ..] of four rows: += a[i, k] * b[k, n], `depth` values of k in one step.
std::string product(const char* unit, const char* acc, const char* a, const char* b, int depth, int lanes) {
  std::string n = std::to_string(lanes), d = std::to_string(depth), panel = std::to_string(lanes * depth);
  return std::string("kernel product(a: ") + a + "[4*" + d + "*steps] in, b: " + b + "[" + panel +
         "*steps] in, c: " + acc + "[4*" + n + "] inout; steps: 1..100) lanes " + n +
         "\n  registers acc: " + acc + "[4*" + n + "]\n  unrolled i in 0..4\n    vector il in 0.." + n +
         "\n      acc[" + n + "*i + il] = c[" + n +
         "*i + il]\n  for k in 0..steps\n    unrolled j in 0..4\n      unit " + unit + " acc[" + n +
         "*j; 1] a[" + d + "*(steps*j + k); " + (depth > 1 ? "0, 1" : "0") + "] b[" + panel + "*k; " +
         (depth > 1 ? d + ", 1" : "1") + "]\n  unrolled o in 0..4\n    vector ol in 0.." + n + "\n      c[" +
         n + "*o + ol] = acc[" + n + "*o + ol]\n";
}

void expect_unit(const std::string& text, int64_t steps, bool to_the_bit = false) {
  const kernel::Kernel k = checked(text);
  Arguments args;
  args.symbol("steps", steps);
  std::mt19937_64 random(5);
  ExprMap<int64_t> bound{{k.symbols[0], steps}};
  for (const kernel::Buffer& b : k.buffers) {
    if (b.space != kernel::Space::global) continue;
    int64_t count = evaluate(b.size, bound).value();
    Bytes content(size_t(storage_bytes(b.dtype, count)));
    for (int64_t i = 0; i < count; ++i) {
      if (is_float(b.dtype)) // all magnitudes, subnormal ones too: the unit flushes them
        store_f64(b.dtype, content.data(), i,
                  std::ldexp(double(int64_t(random() % 512) - 256),
                             int(random() % 16) - (random() % 8 == 0 ? 138 : 10)));
      else
        store_i64(b.dtype, content.data(), i, int64_t(random()));
    }
    args.data[b.name] = content;
  }
  Arguments expected = interpret(k, args);
  Program(k, codegen::CpuTarget::host()).run(args);
  if (to_the_bit)
    EXPECT_EQ(args.data["c"], expected.data["c"]) << text;
  else
    EXPECT_TRUE(close(k.buffers.back().dtype, args.data["c"], expected.data["c"])) << text;
}

TEST(Units, MultiplyAddOfAnyWidth) {
  for (int lanes : {4, 8, 16, 32, 64}) expect_unit(product("fma.f32", "f32", "f32", "f32", 1, lanes), 9);
}

TEST(Units, DotProductOfBf16) {
  if (!codegen::CpuTarget::host().bf16_dot || !codegen::CpuTarget::host().triple.starts_with("x86"))
    GTEST_SKIP() << "this processor has no VDPBF16PS";
  for (int lanes : {4, 8, 16, 32}) expect_unit(product("avx512.dpbf16", "f32", "bf16", "bf16", 2, lanes), 9);
}

TEST(Units, DotProductOfBytes) {
  if (!codegen::CpuTarget::host().int8_dot || !codegen::CpuTarget::host().triple.starts_with("x86"))
    GTEST_SKIP() << "this processor has no VPDPBUSD";
  for (int lanes : {4, 8, 16, 32}) expect_unit(product("vnni.dpbusd", "i32", "u8", "i8", 4, lanes), 9);
}

/// y[i] = unit(c[i], word i of a, word i of b), in lanes or one by one, a ragged end included.
void expect_lane_unit(const char* unit, const char* acc, int lanes, const codegen::CpuTarget& target) {
  const std::string n = std::to_string(lanes), load = "load<u32>(", type = acc;
  const std::string loop = lanes == 1 ? "    let j in 0..99 = index<i64>(io)\n    unrolled il in 0..1\n"
                                      : "    vector il in 0.." + n + " masked n - " + n + "*io\n";
  const std::string at = n + "*io + il";
  const kernel::Kernel k =
      checked("kernel lanes(a: u8[4*n] in, b: u8[4*n] in, c: " + type + "[n] in, y: " + type +
              "[n] out; n: 1..99) lanes " + std::to_string(std::max(lanes, 4)) +
              "\n  parallel io in 0..ceildiv(n, " + n + ")\n" + loop + "      y[" + at + "] = " + unit +
              "(c[" + at + "], load<u32>(a[4*(" + at + ")]), load<u32>(b[4*(" + at + ")]))\n");
  for (int64_t count : {1, 37, 64}) {
    Arguments args;
    args.symbol("n", count);
    std::mt19937_64 random(9);
    const bool floats = std::string_view(acc) == "f32";
    for (const char* name : {"a", "b"}) {
      Bytes bytes(size_t(4 * count));
      for (int64_t i = 0; i < 2 * count; ++i) {
        if (floats) // magnitudes that neither overflow nor vanish
          store_f64(DType::bf16, bytes.data(), i,
                    std::ldexp(double(int64_t(random() % 512) - 256), int(random() % 8)));
        else
          store_i64(DType::i16, bytes.data(), i, int64_t(random()));
      }
      args.data[name] = bytes;
    }
    Bytes start(size_t(4 * count));
    for (int64_t i = 0; i < count; ++i) {
      if (floats)
        store_f64(DType::f32, start.data(), i, double(int64_t(random() % 1000)));
      else
        store_i64(DType::i32, start.data(), i, int64_t(random()));
    }
    args.data["c"] = start;
    args.data["y"] = Bytes(size_t(4 * count));
    Arguments expected = interpret(k, args);
    Program(k, target).run(args);
    EXPECT_EQ(args.data["y"], expected.data["y"])
        << unit << " " << lanes << " " << count << " " << target.cpu;
  }
}

TEST(Units, WhoseLanesActAloneAreOperationsOnWords) {
  const codegen::CpuTarget& host = codegen::CpuTarget::host();
  if (!host.triple.starts_with("x86")) GTEST_SKIP() << "units of another processor";
  for (int lanes : {1, 4, 8, 16, 32}) {
    expect_lane_unit("vnni.dpbusd", "i32", lanes, host);
    if (host.bf16_dot) expect_lane_unit("avx512.dpbf16", "f32", lanes, host);
  }
  // The same integers where the instruction is absent.
  codegen::CpuTarget without = host;
  without.int8_dot = false;
  for (int lanes : {1, 8, 16}) expect_lane_unit("vnni.dpbusd", "i32", lanes, without);
}

/// Sums of two rows by n columns, rounded as they are stored: those that begin with zeros, and
/// those that begin with what memory holds.
std::string rounded_sums(int lanes, int columns) {
  return fmt::format(R"(
kernel sums(a: u32[2*9] in, b: u32[9*{n}] in, c: f32[2*{n}] in, y: bf16[2*{n}] out, z: bf16[2*{n}] out; steps: 0..9) lanes {l}
  registers acc: f32[{s}*2] padded
  registers more: f32[{s}*2] padded
  unrolled r0 in 0..2
    unrolled v0 in 0..2
      vector l0 in 0..{l} masked min({l}, {n} - {l}*v0)
        acc[{s}*r0 + {l}*v0 + l0] = 0
        more[{s}*r0 + {l}*v0 + l0] = c[{n}*r0 + {l}*v0 + l0]
  for k in 0..steps
    unrolled r1 in 0..2
      unrolled v1 in 0..2
        vector l1 in 0..{l} masked min({l}, {n} - {l}*v1)
          acc[{s}*r1 + {l}*v1 + l1] = avx512.dpbf16(acc[{s}*r1 + {l}*v1 + l1], a[9*r1 + k], b[{n}*k + {l}*v1 + l1])
          more[{s}*r1 + {l}*v1 + l1] = avx512.dpbf16(more[{s}*r1 + {l}*v1 + l1], a[9*r1 + k], b[{n}*k + {l}*v1 + l1])
  unrolled r2 in 0..2
    unrolled v2 in 0..2
      vector l2 in 0..{l} masked min({l}, {n} - {l}*v2)
        let %0 = acc[{s}*r2 + {l}*v2 + l2]
        y[{n}*r2 + {l}*v2 + l2] = cast<bf16>(%0)
        z[{n}*r2 + {l}*v2 + l2] = cast<bf16>(more[{s}*r2 + {l}*v2 + l2])
)",
                     fmt::arg("l", lanes), fmt::arg("n", columns), fmt::arg("s", 2 * lanes));
}

TEST(Units, SumsAreRoundedByTheInstructionWhereNoneIsSubnormal) {
  // Both by the instruction or neither, and lanes no wider than what is left over.
  const auto znver4 = codegen::CpuTarget::named("znver4");
  ASSERT_TRUE(znver4) << znver4.error();
  const auto code = codegen::assembly(checked(rounded_sums(16, 33 - 16)), *znver4);
  ASSERT_TRUE(code) << code.error();
  const auto count = [&](std::string_view what) {
    int n = 0;
    for (size_t at = code->find(what); at != std::string::npos; at = code->find(what, at + 1)) n++;
    return n;
  };
  EXPECT_EQ(count("vcvtneps2bf16"), 8) << *code; // a vector and the rest in each row, of y and of z
  EXPECT_EQ(count("vfpclassps"), 4) << *code;    // of z alone, which may be subnormal
  EXPECT_GT(count("%xmm"), 0);
  EXPECT_EQ(count("vdpbf16ps"), 8) << *code;
  const codegen::CpuTarget& host = codegen::CpuTarget::host();
  if (!host.bf16_dot || !host.triple.starts_with("x86")) GTEST_SKIP() << "this processor has no VDPBF16PS";
  for (int lanes : {4, 8, 16})
    for (int rest = 1; rest <= lanes; rest++)
      for (const int64_t steps : {0, 1, 9}) {
        const int columns = lanes + rest;
        const kernel::Kernel k = checked(rounded_sums(lanes, columns));
        Arguments args;
        args.symbol("steps", steps);
        std::mt19937_64 random(static_cast<uint64_t>(100 * lanes + rest));
        const auto number =
            [&] { // all magnitudes, infinities, NaN, sums that become infinite as they are rounded
              if (random() % 40 == 0) return random() % 2 ? double(INFINITY) : double(NAN);
              if (random() % 3 == 0) return std::array{1.0, -1.0, 0x1.fep127, 0x1p119, -0.0}[random() % 5];
              return std::ldexp(double(int64_t(random() % 512) - 256), random() % 3 == 0 ? -140
                                                                       : random() % 2    ? -70
                                                                                         : -4);
            };
        for (const auto& [name, words] : {std::pair("a", 18), {"b", 9 * columns}}) {
          Bytes bytes(size_t(4 * words));
          for (int64_t i = 0; i < 2 * words; ++i) store_f64(DType::bf16, bytes.data(), i, number());
          args.data[name] = bytes;
        }
        Bytes start(size_t(8 * columns));
        for (int64_t i = 0; i < 2 * columns; ++i) store_f64(DType::f32, start.data(), i, number() * 1.001);
        args.data["c"] = start;
        args.data["y"] = args.data["z"] = Bytes(size_t(4 * columns));
        Arguments expected = interpret(k, args);
        Program(k, host).run(args);
        for (const char* name : {"y", "z"})
          for (int64_t i = 0; i < 2 * columns; i++) {
            const double got = load_f64(DType::bf16, args.data[name].data(), i),
                         want = load_f64(DType::bf16, expected.data[name].data(), i);
            EXPECT_TRUE((got == want && std::signbit(got) == std::signbit(want)) ||
                        (std::isnan(got) && std::isnan(want)))
                << name << "[" << i << "] " << got << " " << want << ", " << lanes << " lanes, " << columns
                << " columns, " << steps << " steps";
          }
        if (testing::Test::HasFailure()) return;
      }
}

/// Words of two halves and of four bytes from rows of 21, the last vector not whole.
TEST(Units, NarrowNumbersAreShuffledIntoWords) {
  const auto text = [](int lanes) {
    return fmt::format(R"(
kernel words(h: bf16[42] in, b: i8[84] in, y: u32[21] out, z: u32[21] out) lanes {0}
  for v in 0..{1}
    vector l in 0..{0} masked min({0}, 21 - {0}*v)
      y[{0}*v + l] = bit_or(cast<u32>(bitcast<u16>(h[{0}*v + l])), shl(cast<u32>(bitcast<u16>(h[{0}*v + l + 21])), u32(16)))
      z[{0}*v + l] = bit_or(bit_or(bit_or(cast<u32>(bitcast<u8>(b[{0}*v + l])), shl(cast<u32>(bitcast<u8>(b[{0}*v + l + 21])), u32(8))), shl(cast<u32>(bitcast<u8>(b[{0}*v + l + 42])), u32(16))), shl(cast<u32>(bitcast<u8>(b[{0}*v + l + 63])), u32(24)))
)",
                       lanes, (21 + lanes - 1) / lanes);
  };
  const auto znver4 = codegen::CpuTarget::named("znver4");
  ASSERT_TRUE(znver4) << znver4.error();
  const auto code = codegen::assembly(checked(text(16)), *znver4);
  ASSERT_TRUE(code) << code.error();
  EXPECT_EQ(code->find("vpslld"), std::string::npos) << *code;
  EXPECT_NE(code->find("vpermt2w"), std::string::npos) << *code;
  for (const int lanes : {1, 2, 4, 8, 16}) {
    const kernel::Kernel k = checked(text(lanes));
    Arguments args;
    for (const auto& [name, bytes] : {std::pair("h", 84), {"b", 84}, {"y", 84}, {"z", 84}}) {
      args.data[name] = Bytes(size_t(bytes));
      for (int i = 0; i < bytes; i++) args.data[name][size_t(i)] = std::byte(i * 37 + lanes);
    }
    const Arguments expected = interpret(k, args);
    Program(k, codegen::CpuTarget::host()).run(args);
    EXPECT_EQ(args.data["y"], expected.data.at("y")) << lanes;
    EXPECT_EQ(args.data["z"], expected.data.at("z")) << lanes;
  }
}

/// Two by two tiles of sums over steps of 16 groups. Rows of a and of b are longer than a tile, and a's
/// length is known at run time only.
std::string product_of_tiles(const char* unit, const char* acc, const char* a, const char* b, int group) {
  return fmt::format(R"(
kernel tiles(a: {a}[32*(16*{p}*steps + {p})] in, b: {b}[512*{p}*steps] in, c: {c}[1024] inout; steps: 0..9) lanes 16
  local acc: {c}[32*32]
  for i in 0..32
    vector l in 0..32
      acc[32*i + l] = c[32*i + l]
  for k in 0..steps
    unrolled m in 0..2
      unrolled n in 0..2
        unit {u} acc[512*m + 16*n; 32, 1] a[16*m*(16*{p}*steps + {p}) + 16*{p}*k; 16*{p}*steps + {p}, {p}, 1] b[16*32*{p}*k + 16*{p}*n; 32*{p}, {p}, 1]
  for o in 0..32
    vector q in 0..32
      c[32*o + q] = acc[32*o + q]
)",
                     fmt::arg("u", unit), fmt::arg("c", acc), fmt::arg("a", a), fmt::arg("b", b),
                     fmt::arg("p", group));
}

TEST(Units, TilesStayInTheirRegisters) {
  const auto target = codegen::CpuTarget::named("sapphirerapids");
  ASSERT_TRUE(target) << target.error();
  const auto code =
      codegen::assembly(checked(product_of_tiles("amx.dpbf16", "f32", "bf16", "bf16", 2)), *target);
  ASSERT_TRUE(code) << code.error();
  const auto count = [&](std::string_view what) {
    int n = 0;
    for (size_t at = code->find(what); at != std::string::npos; at = code->find(what, at + 1)) n++;
    return n;
  };
  EXPECT_EQ(count("tdpbf16ps"), 4) << *code;
  EXPECT_EQ(count("tileloadd"), 8) << "four accumulators before the loop, two tiles of a and two of b in it";
  EXPECT_EQ(count("tilestored"), 4);
  EXPECT_EQ(count("ldtilecfg"), 1);
  EXPECT_EQ(count("tilerelease"), 1);
}

TEST(Units, ProductsOfTiles) {
  const codegen::CpuTarget& host = codegen::CpuTarget::host();
  if (!host.bf16_tiles && !host.int8_tiles) GTEST_SKIP() << "this processor has no tile registers";
  for (const int64_t steps : {0, 1, 9}) {
    if (host.bf16_tiles) expect_unit(product_of_tiles("amx.dpbf16", "f32", "bf16", "bf16", 2), steps, true);
    if (host.int8_tiles) {
      expect_unit(product_of_tiles("amx.dpbusd", "i32", "u8", "i8", 4), steps);
      expect_unit(product_of_tiles("amx.dpbssd", "i32", "i8", "i8", 4), steps);
    }
  }
  if (!host.int8_tiles) return;
  // One step outside of a loop, on an accumulator that others read meanwhile.
  expect_unit(R"(
kernel alone(a: u8[16*64] in, b: i8[16*64] in, c: i32[256] inout; steps: 0..9) lanes 16
  unit amx.dpbusd c[0; 16, 1] a[0; 64, 4, 1] b[0; 64, 4, 1]
  for i in 0..steps
    vector l in 0..16
      c[l] = c[l] + c[16 + l]
    unit amx.dpbusd c[0; 16, 1] a[0; 64, 4, 1] b[0; 64, 4, 1]
)",
              5);
}

TEST(Units, OperandsWithStrides) {
  if (!codegen::CpuTarget::host().int8_dot || !codegen::CpuTarget::host().triple.starts_with("x86"))
    GTEST_SKIP() << "this processor has no VPDPBUSD";
  expect_unit(R"(
kernel strided(a: u8[200] in, b: i8[16*4*3] in, c: i32[32] inout; steps: 1..100)
  unit vnni.dpbusd c[1; 2] a[3; 1, 5] b[0; 12, 3]
  unit vnni.dpbusd c[0; 2] a[steps; 0, 1] b[0; steps, 1]
)",
              9);
}

TEST(Units, AreRefusedWhereTheTargetLacksThem) {
  auto kernel = checked(product("avx512.dpbf16", "f32", "bf16", "bf16", 2, 8));
  auto compiled = codegen::compile(kernel, codegen::CpuTarget::named("haswell").value());
  ASSERT_FALSE(compiled);
  EXPECT_THAT(compiled.error(),
              testing::AllOf(testing::HasSubstr("haswell"), testing::HasSubstr("avx512.dpbf16")));
  // Code for Arm, with its own units.
  auto arm = codegen::CpuTarget::named("neoverse-v1").value();
  auto dot = checked(product("arm.bfdot", "f32", "bf16", "bf16", 2, 4));
  auto text = codegen::assembly(dot, arm);
  ASSERT_TRUE(text) << text.error();
  EXPECT_NE(text->find("bfdot"), std::string::npos);
  text = codegen::assembly(checked(product("arm.sdot", "i32", "i8", "i8", 4, 4)), arm);
  ASSERT_TRUE(text) << text.error();
  EXPECT_NE(text->find("sdot"), std::string::npos);
  // On values, as wide as the processor's scalable vectors.
  for (const auto& [name, type] : {std::pair("bfdot", "f32"), std::pair("sdot", "i32")}) {
    text = codegen::assembly(
        checked(fmt::format("kernel dot(a: u32[16] in, b: u32[16] in, c: {1}[16] inout) lanes 16\n"
                            "  vector l in 0..16\n    c[l] = arm.{0}(c[l], a[l], b[l])\n",
                            name, type)),
        arm);
    ASSERT_TRUE(text) << text.error();
    EXPECT_NE(text->find(fmt::format("\t{}\tz", name)), std::string::npos) << *text;
    EXPECT_EQ(text->find(".16b"), std::string::npos) << *text;
  }
}

} // namespace
} // namespace luminal
