// backend/memory_test.cpp -- loads and stores in every shape: raw blocks, halves of bytes, lanes
// that lie apart, transposition, indices from memory, conditions of lanes, asynchronous copies, and
// every kernel of docs/loops.md. Buffers end before pages that cannot be touched.
#include "memory_support.h"
#include <fmt/format.h>
#include <fstream>
#include <sstream>

namespace luminal {
namespace {
using namespace luminal::test;

/// Loads with a guard, before the first and behind the last element: pages that cannot be touched
/// lie there.
TEST(Memory, GuardedLoads) {
  expect_equal(R"(
kernel shifts(x: f32[n] in, h: bf16[n] in, b: i8[n] in, y: f32[n] out; n: 1..100)
  parallel o in 0..ceildiv(n, 16)
    vector l in 0..16 masked n - 16*o
      let %0 = x[16*o + l - 3 where 16*o + l >= 3] + x[16*o + l + 5 where 16*o + l + 5 < n]
      let %1 = cast<f32>(h[2*l + 32*o - 7 where 2*l + 32*o >= 7 and 2*l + 32*o - 7 < n])
      let %2 = cast<f32>(b[3*l + 48*o + 1 where 3*l + 48*o + 1 < n]) + x[2*(16*o + l) where l + 16*o < 0]
      y[16*o + l] = %0 + %1 + %2
)",
               {{"n", 53}}, 2);
  expect_equal(R"(
kernel rows(x: f32[n] in, q: u4[2*n] in, y: f32[16*n] out; n: 1..20)
  for i in 0..n
    for k in 0..3
      vector l in 0..16
        y[16*i + l] = x[i + k - 1 where i + k >= 1 and i + k - 1 < n] + x[i - k where i >= k and l < 9] + x[(l*l + i) // 7 where (l*l + i) // 7 < n] + cast<f32>(q[2*l - 5 + i where 2*l + i >= 5 and 2*l - 5 + i < 2*n]) + cast<f32>(q[i - 1 where i >= 1])
)",
               {{"n", 11}});
}

/// A maximum with something that only turns out to be 0 when registers have become values: LLVM 19
/// made max(x, 0) of max(|x|, 0).
TEST(Memory, MaximumWithALateZero) {
  expect_equal(R"(
kernel late_zero(x: f32[n] in, y: f32[n] out; n: 1..64)
  registers r: f32[1]
  r[0] = 0.0
  for i in 0..n
    let %0 = max(abs(x[i]), abs(r[0]))
    let %1 = min(abs(r[0]), neg(abs(x[i])))
    y[i] = max(max(r[0], %0), %0) + %1
)",
               {{"n", 23}});
}

/// States of a maximum, which take in NaN from both sides and keep it.
TEST(Memory, StatesKeepNaN) {
  const kernel::Kernel kernel = test::checked(R"(
kernel states(x: f32[64] in, y: f32[64] out)
  registers a: f32[16]
  registers b: f32[16]
  vector l in 0..16
    a[l] = x[l]
    b[l] = x[l]
  for i in 1..4
    vector l1 in 0..16
      a[l1] = max(a[l1], x[16*i + l1])
      b[l1] = min(x[16*i + l1], b[l1])
    vector l2 in 0..16
      y[16*i + l2 - 16] = select(1 < a[l2], a[l2], b[l2])
  vector l3 in 0..16
    y[l3 + 48] = select(is_nan(a[l3]), 1, 0) + select(is_nan(b[l3]), 2, 0)
)");
  std::vector<float> x;
  const float of[] = {NAN, -INFINITY, INFINITY, -0.f, 0, 1.5f, -2, -NAN};
  for (int i = 0; i < 64; i++) x.push_back(of[(i % 16 * 5 + i / 16 * 3 + i % 7) % 8]);
  for (const codegen::CpuTarget& target : test::runnable_targets()) {
    test::Program program(kernel, target);
    test::Arguments args;
    args.set("x", x).space("y", 64 * 4);
    const test::Arguments expected = test::interpret(kernel, args);
    program.run(args);
    EXPECT_TRUE(test::close(DType::f32, args.data.at("y"), expected.data.at("y"))) << target.cpu;
  }
}

// Memory of 64 * k bytes begins on a cache line before the guard page, other sizes do not.
TEST(Memory, StreamingStores) {
  for (int64_t n : {1, 15, 16, 64, 65, 1000, 1024})
    for (const char* type : {"f32", "f64", "bf16", "i8", "u4"})
      for (const char* place : {"16*io + il", "n - 1 - 16*io - il"}) {
        if (type == std::string("u4") && place[0] == 'n') continue; // two workers, one byte
        expect_equal(fmt::format(R"(
kernel past(x: {0}[n] in, y: {0}[n] out streaming; n: 1..1024)
  parallel io in 0..ceildiv(n, 16)
    vector il in 0..16 masked n - 16*io
      y[{1}] = x[16*io + il]
)",
                                 type, place),
                     {{"n", n}}, 2);
      }
  // Another worker reads behind a barrier.
  expect_equal(R"(
kernel back(x: f32[64*n] in, y: f32[64*n] out streaming, z: f32[64*n] out; n: 1..64)
  parallel i in 0..4*n
    vector l in 0..16
      y[16*i + l] = x[16*i + l] * 2
  barrier
  parallel j in 0..4*n
    vector m in 0..16
      z[16*j + m] = y[64*n - 16 - 16*j + m]
)",
               {{"n", 33}}, 2);
}

TEST(Memory, RawBlocksOfEightBits) {
  expect_equal(R"(
kernel q8_0(q: u8[34*n] in, y: f32[32*n] out; n: 1..8)
  parallel b in 0..n
    let %0 = cast<f32>(load<i8>(q[34*b]))
    vector l in 0..32
      y[32*b + l] = cast<f32>(load<i8>(q[34*b + 2 + l])) * %0
)",
               {{"n", 5}}, 2);
}

TEST(Memory, RawBlocksOfFourBits) {
  // The lane picks its byte and its half of it: no division is left.
  const std::string text = R"(
kernel q4_0(q: u8[18*n] in, y: f32[32*n] out; n: 1..8)
  parallel b in 0..n
    let %0 = cast<f32>(load<u16>(q[18*b]))
    vector l in 0..32
      y[32*b + l] = cast<f32>(cast<i32>(bit_and(shr(q[18*b + 2 + l % 16], index<u8>(4*(l // 16))), u8(15))) - i32(8)) * %0
)";
  expect_equal(text, {{"n", 5}}, 2);
  std::string assembly = codegen::assembly(checked(text), codegen::CpuTarget::host()).value();
  size_t divisions = 0; // a worker's share of the blocks: begin and end, each in 32 and 64 bits
  for (size_t at = 0; (at = assembly.find("\tdiv", at)) != std::string::npos; ++at) ++divisions;
  EXPECT_LE(divisions, 4u) << assembly;
  EXPECT_EQ(assembly.find("gather"), std::string::npos) << assembly;
}

TEST(Memory, LoadsOfAnotherType) {
  expect_equal(R"(
kernel bytes(q: u8[8*n + 6] in, y: u32[n] out, z: i64[n] out, h: u16[n] out; n: 1..100)
  for io in 0..ceildiv(n, 16)
    vector l in 0..16 masked n - 16*io
      y[16*io + l] = load<u32>(q[4*(16*io + l) + 1])
      z[16*io + l] = load<i64>(q[8*(16*io + l) + 5])
      h[16*io + l] = load<u16>(q[5*(16*io + l)])
)",
               {{"n", 37}});
  expect_equal(R"(
kernel words(q: u32[n] in, y: u8[4*n] out; n: 1..100)
  for i in 0..n
    y[4*i] = cast<u8>(load<u16>(q[i]))
    y[4*i + 1] = load<u8>(q[i])
    y[4*i + 2] = cast<u8>(load<u4>(q[i]))
    y[4*i + 3] = cast<u8>(load<i4>(q[i]))
)",
               {{"n", 7}});
}

TEST(Memory, HalvesOfBytes) {
  for (const char* type : {"u4", "i4"}) {
    std::string t = type;
    expect_equal("kernel nibbles(x: " + t + "[n] in, y: i32[n] out, z: " + t + "[n] inout, s: " + t +
                     "[n] inout; n: 1..100)\n" + R"(
  for io in 0..ceildiv(n, 16)
    vector l in 0..16 masked n - 16*io
      y[16*io + l] = cast<i32>(x[16*io + l]) + i32(1)
  for jo in 0..n // 16
    vector m in 0..16
      z[16*jo + m] = cast<)" +
                     t + R"(>(y[16*jo + m])
  for ko in 0..ceildiv(n, 8)
    vector o in 0..8 masked n - 8*ko
      s[n - 1 - 8*ko - o] = x[8*ko + o]
  for i in 0..n // 3
    z[3*i] = x[n - 1 - 2*i // 3]
)",
                 {{"n", 53}});
  }
  expect_equal(R"(
kernel wider(x: u4[2*n] in, y: u8[n] out, z: u32[n // 4] out; n: 4..100)
  vector l in 0..16 masked n
    y[l] = load<u8>(x[2*l])
  for i in 0..n // 4
    z[i] = load<u32>(x[8*i])
)",
               {{"n", 13}});
}

TEST(Memory, IndicesFromMemory) {
  Bytes ids(40 * 4);
  for (int i = 0; i < 40; ++i) store_i64(DType::i32, ids.data(), i, (i * 7) % 20);
  expect_equal(R"(
kernel gather(ids: i32[n] in, w: f32[20*8] in, y: f32[n*8] out, z: f32[n] out, t: i64[n] out; n: 1..40)
  parallel i in 0..n
    let j in 0..19 = ids[i]
    vector l in 0..8
      y[8*i + l] = w[8*j + l]
    unrolled u in 0..2
      let k in 0..19 = ids[(i + u) % n]
      t[i] = index<i64>(k*k + 3 + u)
  parallel io in 0..ceildiv(n, 16)
    vector m in 0..16 masked n - 16*io
      let q in 0..19 = ids[16*io + m]
      z[16*io + m] = w[8*q + 3]
)",
               {{"n", 37}}, 2, {{"ids", ids}});
}

// The bits of what is rounded to bf16: ties, values below the normal range, what becomes infinite;
// a NaN whose payload sits in the low half stays one.
TEST(Memory, BitsOfRoundedNumbers) {
  const uint32_t patterns[] = {0x3f808000, 0x3f818000, 0x3f808001, 0xbf817fff, 0x00000001, 0x00008000,
                               0x00018000, 0x807fffff, 0x7f7fffff, 0xff7f8000, 0x7f800000, 0xff800000,
                               0x00000000, 0x80000000, 0x3eaaaaab, 0x3fffffff};
  const uint32_t nans[] = {0x7f800001, 0xff800001, 0x7fffffff, 0x7fc00000};
  Bytes x(37 * 4), w(37 * 4);
  for (size_t i = 0; i < 37; ++i) {
    std::memcpy(x.data() + 4 * i, &patterns[i % 16], 4);
    std::memcpy(w.data() + 4 * i, i % 3 ? &patterns[i % 16] : &nans[i / 3 % 4], 4);
  }
  expect_equal(R"(
kernel halves(x: f32[n] in, w: f32[n] in, y: u16[n] out, z: f32[n] out; n: 1..64)
  parallel io in 0..ceildiv(n, 16)
    vector l in 0..16 masked n - 16*io
      y[16*io + l] = bitcast<u16>(cast<bf16>(x[16*io + l]))
      z[16*io + l] = cast<f32>(bitcast<bf16>(bitcast<u16>(cast<bf16>(w[16*io + l]))))
)",
               {{"n", 37}}, 2, {{"x", x}, {"w", w}});
}

TEST(Memory, ScratchOfSymbolicSize) {
  expect_equal(R"(
kernel scratch(x: f32[n*m] in, y: f32[n*m] out; m: 1..40, n: 1..40)
  shared t: f32[n*m]
  local row: f32[m]
  local other: u8[3*m + 1]
  parallel i in 0..n
    for j in 0..m
      row[j] = x[m*i + j] + 1
      other[3*j + 1] = u8(7)
    for k in 0..m
      t[m*i + k] = row[m - 1 - k] * cast<f32>(other[3*k + 1])
  barrier
  parallel o in 0..n
    for p in 0..m jam 4
      y[m*o + p] = t[m*(n - 1 - o) + p]
)",
               {{"m", 13}, {"n", 9}}, 2);
}

TEST(Memory, AsynchronousCopiesAndRoles) {
  expect_equal(R"(
kernel pipeline(x: f32[37*n] in, y: f32[37*n] out; n: 1..20)
  local tile: f32[2*37]
  parallel p in 0..1
    async copy tile[0] <- x[0] count 37 -> token 0
    for t in 0..n
      if t + 1 < n
        async copy tile[37*((t + 1) % 2)] <- x[37*t + 37] count 37 -> token 0
      wait 0
      for l in 0..37
        y[37*t + l] = tile[37*(t % 2) + l] * 2
)",
               {{"n", 7}});
}

/// Blocks of the document: ```loop and the ```run behind it.
TEST(Memory, EveryKernelOfTheDocumentGivesWhatTheInterpreterGives) {
  std::ifstream file(std::string(LUMINAL_SOURCE_DIR) + "/docs/loops.md");
  ASSERT_TRUE(file);
  std::string line, block, loop;
  std::string kind;
  int ran = 0, absent_here = 0, lanes_that_wait = 0;
  while (std::getline(file, line)) {
    if (kind.empty() && (line == "```loop" || line == "```run")) {
      kind = line.substr(3);
      block.clear();
    } else if (!kind.empty() && line == "```") {
      if (kind == "loop") loop = block;
      if (kind == "run" && block.find("finds") == std::string::npos) {
        kernel::Kernel k = kernel::parse_kernel(loop);
        std::map<std::string, std::vector<double>> values;
        int workers = 1;
        Arguments args;
        std::istringstream lines(block);
        for (std::string l; std::getline(lines, l);) {
          std::istringstream words(l);
          std::string name, sign;
          words >> name >> sign;
          if (sign != "=") continue;
          for (double v; words >> v;) values[name].push_back(v);
        }
        if (values.contains("workers")) workers = int(values["workers"][0]);
        ExprMap<int64_t> bound;
        for (Expr s : k.symbols) {
          args.symbol(std::string(s.name()), int64_t(values.at(std::string(s.name())).at(0)));
          bound[s] = args.symbols[std::string(s.name())];
        }
        for (const kernel::Buffer& b : k.buffers) {
          if (b.space != kernel::Space::global) continue;
          int64_t count = evaluate(b.size, bound).value();
          Bytes content(size_t(storage_bytes(b.dtype, count)));
          for (size_t i = 0; i < values[b.name].size(); ++i) {
            if (is_float(b.dtype))
              store_f64(b.dtype, content.data(), int64_t(i), values[b.name][i]);
            else
              store_i64(b.dtype, content.data(), int64_t(i), int64_t(values[b.name][i]));
          }
          args.data[b.name] = content;
        }
        const codegen::CpuTarget& host = codegen::CpuTarget::host();
        auto compiled = codegen::compile(k, host);
        const auto names = [&](const char* unit) { return loop.find(unit) != std::string::npos; };
        const bool gpu_only = names("nvidia") || names("amd.") || names("arm.") || names("apple"),
                   absent = (names("unit vnni.") && !host.int8_dot) || (names("dpbf16") && !host.bf16_dot);
        // Lanes of a group that wait for each other are for GPUs: a CPU refuses them.
        const bool groups = !compiled && compiled.error().ends_with("a group has one lane on a CPU");
        if (gpu_only || absent || groups) {
          EXPECT_FALSE(compiled.ok());
          absent_here += absent;
          lanes_that_wait += groups;
        } else {
          ASSERT_TRUE(compiled.ok()) << compiled.error();
          kernel::LoopRunOptions options;
          options.workers = workers;
          options.lanes = values.contains("lanes") ? int(values["lanes"][0]) : 1;
          Arguments expected = args;
          std::vector<std::span<std::byte>> globals;
          std::vector<int64_t> symbols;
          for (const kernel::Buffer& b : k.buffers)
            if (b.space == kernel::Space::global) globals.emplace_back(expected.data.at(b.name));
          for (Expr s : k.symbols) symbols.push_back(args.symbols.at(std::string(s.name())));
          ASSERT_TRUE(kernel::run_kernel(k, globals, symbols, options).ok());
          Program(k, codegen::CpuTarget::host()).run(args, std::min(workers, 2));
          for (const kernel::Buffer& b : k.buffers)
            if (b.space == kernel::Space::global && b.access != kernel::Access::in) {
              EXPECT_TRUE(close(b.dtype, args.data[b.name], expected.data[b.name])) << loop;
            }
          ++ran;
        }
      }
      kind.clear();
    } else if (!kind.empty()) {
      block += line + "\n";
    }
  }
  EXPECT_GE(ran + absent_here, 8);
  EXPECT_EQ(lanes_that_wait, 1) << "of all kernels of the document one is for GPUs in this way";
}

} // namespace
} // namespace luminal
