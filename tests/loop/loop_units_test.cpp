// loop/loop_units_test.cpp -- described instructions: lane maps give the matrix product, rounding
// is the hardware's.
#include "loop/unit.h"
#include "loop_support.h"
#include <array>
#include <bit>
#include <cmath>
#include <set>

namespace luminal::kernel {
namespace {

std::vector<Unit> all_units() {
  std::vector<Unit> units;
  for (const std::string& name : unit_names()) units.push_back(*find_unit(name));
  units.push_back(*find_unit("fma.f32", 8));
  units.push_back(*find_unit("vnni.dpbusd", 8));
  units.push_back(*find_unit("nvidia.wgmma.m64n8k16.bf16"));
  units.push_back(*find_unit("nvidia.wgmma.m64n256k16.bf16"));
  return units;
}

using Element = std::array<int64_t, 2>;
/// (lane, place) -> element of the operand, as the map says.
std::vector<std::vector<Element>> held(const Unit& unit, const LaneMap& map) {
  std::vector<std::vector<Element>> lanes(size_t(unit.lanes));
  for (int lane = 0; lane < unit.lanes; ++lane)
    for (int place = 0; place < map.places; ++place) {
      const ExprMap<int64_t> at{{unit_lane(), lane}, {unit_place(), place}};
      lanes[lane].push_back({evaluate(map.first, at).value(), evaluate(map.second, at).value()});
    }
  return lanes;
}

TEST(LoopUnits, NamesAreFoundAndOthersAreNot) {
  for (const std::string& name : unit_names()) {
    const auto unit = find_unit(name);
    ASSERT_TRUE(unit) << name;
    EXPECT_EQ(unit->name, name);
    EXPECT_FALSE(unit->targets.empty());
    EXPECT_FALSE(unit->source.empty());
  }
  for (const char* name :
       {"", "fma", "nvidia.wgmma.m64n12k16.bf16", "nvidia.wgmma.m64n0k16.bf16",
        "nvidia.wgmma.m64n264k16.bf16", "nvidia.wgmma.m64n08k16.bf16", "nvidia.wgmma.m64n8k16.f16",
        "nvidia.wgmma.m64nk16.bf16", "nvidia.wgmma.m64n99999999999k16.bf16"})
    EXPECT_FALSE(find_unit(name)) << name;
}

/// Every element of every operand is held by exactly one lane at one place.
TEST(LoopUnits, LaneMapsHoldEachElementOnce) {
  for (const Unit& unit : all_units())
    for (int o = 0; o < 3; ++o) {
      const UnitOperandInfo& info = unit.operand(o);
      if (info.map.places == 0) continue;
      std::set<Element> seen;
      for (const auto& lane : held(unit, info.map))
        for (const Element& e : lane) {
          EXPECT_TRUE(seen.insert(e).second)
              << unit.name << " operand " << o << ": " << e[0] << ", " << e[1] << " twice";
          for (size_t axis = 0; axis < info.axes.size(); ++axis) {
            EXPECT_GE(e[axis], 0);
            EXPECT_LT(e[axis], unit.extent(info.axes[axis])) << unit.name << " operand " << o;
          }
        }
      int64_t elements = 1;
      for (const char axis : info.axes) elements *= unit.extent(axis);
      EXPECT_EQ(int64_t(seen.size()), elements) << unit.name << " operand " << o;
    }
}

/// Fragments filled through the lane maps, multiplied place by place, are the product.
TEST(LoopUnits, ProductsDerivedFromTheLaneMaps) {
  for (const Unit& unit : all_units()) {
    if (unit.tiles) continue; // no lane holds a part of a tile
    const auto size = [&](const UnitOperandInfo& info) {
      size_t n = 1;
      for (const char axis : info.axes) n *= size_t(unit.extent(axis));
      return n;
    };
    const auto flat = [&](const UnitOperandInfo& info, const Element& e) {
      return size_t(info.axes.size() == 1 ? e[0] : e[0] * unit.extent(info.axes[1]) + e[1]);
    };
    // Small integers: exact in every type, whatever the order.
    std::mt19937_64 random(11);
    std::vector<int64_t> values[3];
    for (int o = 0; o < 3; ++o)
      for (size_t e = 0; e < size(unit.operand(o)); ++e)
        values[o].push_back(int64_t(random() % 8) - (is_signed(unit.operand(o).dtype) ? 4 : 0));
    // What each lane holds; an operand in shared memory is read as it is.
    std::map<Element, int64_t> by_element[3];
    for (int o = 0; o < 3; ++o) {
      const UnitOperandInfo& info = unit.operand(o);
      if (info.map.places == 0) {
        for (int64_t i = 0; i < unit.extent(info.axes[0]); ++i)
          for (int64_t j = 0; j < unit.extent(info.axes[1]); ++j)
            by_element[o][{i, j}] = values[o][flat(info, {i, j})];
        continue;
      }
      const auto lanes = held(unit, info.map);
      std::vector<std::vector<int64_t>> fragments(lanes.size());
      for (size_t l = 0; l < lanes.size(); ++l)
        for (const Element& e : lanes[l]) fragments[l].push_back(values[o][flat(info, e)]);
      for (size_t l = 0; l < lanes.size(); ++l)
        for (size_t p = 0; p < lanes[l].size(); ++p) by_element[o][lanes[l][p]] = fragments[l][p];
    }
    const auto element = [&](int o, int64_t m, int64_t n, int64_t k) {
      Element e{0, 0};
      const std::string& axes = unit.operand(o).axes;
      for (size_t i = 0; i < axes.size(); ++i) e[i] = axes[i] == 'm' ? m : axes[i] == 'n' ? n : k;
      return by_element[o].at(e);
    };
    std::vector<int64_t> expected = values[0];
    for (int64_t m = 0; m < unit.m; ++m)
      for (int64_t n = 0; n < unit.n; ++n)
        for (int64_t k = 0; k < unit.k; ++k)
          expected[size_t(unit.accumulator.axes == "n" ? n : m * unit.n + n)] +=
              element(1, m, n, k) * element(2, m, n, k);
    if (unit.sum == UnitSum::integer) {
      execute_unit(unit, values[1].data(), values[2].data(), values[0].data());
      EXPECT_EQ(values[0], expected) << unit.name;
    } else {
      std::vector<double> doubles[3];
      for (int o = 0; o < 3; ++o) doubles[o].assign(values[o].begin(), values[o].end());
      execute_unit(unit, doubles[1].data(), doubles[2].data(), doubles[0].data());
      EXPECT_EQ(doubles[0], std::vector<double>(expected.begin(), expected.end())) << unit.name;
    }
  }
}

/// The figures of the PTX manual, written as it writes them.
TEST(LoopUnits, FragmentsOfMmaAreThoseOfTheManual) {
  const Unit mma = *find_unit("nvidia.mma.m16n8k16.bf16");
  const auto a = held(mma, mma.a.map), b = held(mma, mma.b.map), c = held(mma, mma.accumulator.map);
  for (int lane = 0; lane < 32; ++lane) {
    const int group = lane >> 2, thread = lane % 4;
    for (int i = 0; i < 8; ++i) {
      const int row = (i < 2 || (i >= 4 && i < 6)) ? group : group + 8;
      const int column = i < 4 ? thread * 2 + (i & 1) : thread * 2 + (i & 1) + 8;
      EXPECT_EQ(a[lane][i], (Element{row, column}));
    }
    for (int i = 0; i < 4; ++i) {
      const int row = i < 2 ? thread * 2 + (i & 1) : thread * 2 + (i & 1) + 8;
      EXPECT_EQ(b[lane][i], (Element{row, group}));
      EXPECT_EQ(c[lane][i], (Element{i < 2 ? group : group + 8, thread * 2 + (i & 1)}));
    }
  }
  // wgmma: four warps with 16 rows each, blocks of 8 columns.
  const Unit wgmma = *find_unit("nvidia.wgmma.m64n64k16.bf16");
  const auto d = held(wgmma, wgmma.accumulator.map);
  EXPECT_EQ(d[0][0], (Element{0, 0}));
  EXPECT_EQ(d[0][2], (Element{8, 0}));
  EXPECT_EQ(d[0][4], (Element{0, 8}));
  EXPECT_EQ(d[37][1], (Element{17, 3}));
  EXPECT_EQ(d[127][31], (Element{63, 63}));
  // Four consecutive rows in each lane of an MFMA, blocks of 8 rows.
  const Unit mfma = *find_unit("amd.mfma.32x32x8.bf16");
  const auto e = held(mfma, mfma.accumulator.map);
  EXPECT_EQ(e[0][3], (Element{3, 0}));
  EXPECT_EQ(e[32][0], (Element{4, 0}));
  EXPECT_EQ(e[0][4], (Element{8, 0}));
  EXPECT_EQ(e[63][15], (Element{31, 31}));
}

double bf16(double x) { return round_to(DType::bf16, x); }

TEST(LoopUnits, Dpbf16FlushesSubnormalsAndTakesTheSecondProductFirst) {
  const Unit unit = *find_unit("avx512.dpbf16");
  const auto one = [&](double acc, double a0, double b0, double a1, double b1) {
    std::vector<double> a(32), b(32), c(16);
    a[0] = a0, a[1] = a1, b[0] = b0, b[1] = b1, c[0] = acc;
    execute_unit(unit, a.data(), b.data(), c.data());
    return c[0];
  };
  EXPECT_EQ(one(1, 2, 3, 4, 5), 27);
  // 2^24 + 1 is lost if it comes first, and is not if 2^24 is taken away first.
  EXPECT_EQ(one(0x1p24, 1, 1, -0x1p12, 0x1p12), 1);
  EXPECT_EQ(one(0x1p24, -0x1p12, 0x1p12, 1, 1), 0);
  // Fused: the product is not rounded.
  const double x = bf16(1.0078125);
  EXPECT_EQ(one(-bf16(1.015625), x, x, 0, 0), x * x - bf16(1.015625));
  EXPECT_EQ(one(0x1p-127, 0, 0, 0, 0), 0);
  EXPECT_EQ(one(0, 0x1p-127, 0x1p100, 0, 0), 0);
  EXPECT_EQ(one(0, 0x1p-70, 0x1p-60, 0, 0), 0);
  EXPECT_TRUE(std::isnan(one(0, INFINITY, 0, 0, 0)));
}

#if defined(__x86_64__) && defined(__GNUC__)
#define LUMINAL_TEST_DPBF16
#endif

#ifdef LUMINAL_TEST_DPBF16

/// One VDPBF16PS on three vectors in memory.
__attribute__((target("avx512f"))) void hardware_dpbf16(float* acc, const uint16_t* a, const uint16_t* b) {
  asm volatile("vmovups (%0), %%zmm0\n\t"
               "vmovups (%1), %%zmm1\n\t"
               "vdpbf16ps (%2), %%zmm1, %%zmm0\n\t"
               "vmovups %%zmm0, (%0)"
               :
               : "r"(acc), "r"(a), "r"(b)
               : "xmm0", "xmm1", "memory");
}

TEST(LoopUnits, Dpbf16IsWhatTheProcessorDoes) {
  if (!__builtin_cpu_supports("avx512f") || !__builtin_cpu_supports("avx512bf16"))
    GTEST_SKIP() << "no VDPBF16PS here";
  const Unit unit = *find_unit("avx512.dpbf16");
  std::mt19937 random(5);
  const auto bits_of = [&](int spread) {
    return uint16_t((random() & 0x807f) | ((127 - spread / 2 + random() % uint32_t(spread)) << 7));
  };
  for (int round = 0; round < 20000; ++round) {
    const int spread = round % 4 == 3 ? 250 : 30;
    alignas(64) uint16_t a[32], b[32];
    alignas(64) float acc[16];
    std::vector<double> x(32), y(32), c(16);
    for (int i = 0; i < 32; ++i) {
      a[i] = bits_of(spread), b[i] = bits_of(spread);
      x[i] = load_f64(DType::bf16, reinterpret_cast<const std::byte*>(a), i);
      y[i] = load_f64(DType::bf16, reinterpret_cast<const std::byte*>(b), i);
    }
    for (int i = 0; i < 16; ++i) {
      acc[i] = std::bit_cast<float>(uint32_t(bits_of(spread * 2 > 250 ? 250 : spread * 2)) << 16 |
                                    uint32_t(random() & 0xffff));
      c[i] = acc[i];
    }
    execute_unit(unit, x.data(), y.data(), c.data());
    hardware_dpbf16(acc, a, b);
    for (int i = 0; i < 16; ++i) {
      if (std::isnan(acc[i]))
        ASSERT_TRUE(std::isnan(c[i]));
      else
        ASSERT_EQ(std::bit_cast<uint32_t>(float(c[i])), std::bit_cast<uint32_t>(acc[i])) << round << " " << i;
    }
  }
}
#endif

/// A step of a unit on tiles that hold small integers, exact in every type.
TEST(LoopUnits, TilesMultiplyGroupsThatLieTogether) {
  std::mt19937_64 random(3);
  for (const char* name : {"amx.dpbf16", "amx.dpbusd", "amx.dpbssd"}) {
    const Unit unit = *find_unit(name);
    const int p = unit.p;
    std::vector<int64_t> a(size_t(256 * p)), b(a.size()), c(256);
    for (int64_t& x : a) x = int64_t(random() % 8) - (is_signed(unit.a.dtype) ? 4 : 0);
    for (int64_t& x : b) x = int64_t(random() % 8) - 4;
    for (int64_t& x : c) x = int64_t(random() % 1000);
    std::vector<int64_t> expected = c;
    for (int m = 0; m < 16; ++m)
      for (int n = 0; n < 16; ++n)
        for (int k = 0; k < 16 * p; ++k) // b[k / p][n][k % p]
          expected[size_t(16 * m + n)] +=
              a[size_t(16 * p * m + k)] * b[size_t(16 * p * (k / p) + p * n + k % p)];
    if (unit.sum == UnitSum::integer) {
      execute_unit(unit, a.data(), b.data(), c.data());
      EXPECT_EQ(c, expected) << name;
    } else {
      const std::vector<double> x(a.begin(), a.end()), y(b.begin(), b.end());
      std::vector<double> z(c.begin(), c.end());
      execute_unit(unit, x.data(), y.data(), z.data());
      EXPECT_EQ(z, std::vector<double>(expected.begin(), expected.end())) << name;
    }
  }
}

TEST(LoopUnits, Tdpbf16AddsFirstAndSecondElementsApart) {
  const Unit unit = *find_unit("amx.dpbf16");
  const auto one = [&](double acc, std::vector<std::pair<double, double>> products) {
    std::vector<double> a(512), b(512), c(256);
    for (size_t i = 0; i < products.size(); ++i)
      a[i] = products[i].first, b[32 * (i / 2) + i % 2] = products[i].second;
    c[0] = acc;
    execute_unit(unit, a.data(), b.data(), c.data());
    return c[0];
  };
  EXPECT_EQ(one(1, {{2, 3}, {4, 5}}), 27);
  // 2^24 and 1 meet in one sum, where 1 is lost, or in two.
  EXPECT_EQ(one(0, {{0x1p12, 0x1p12}, {0, 0}, {1, 1}, {0, 0}, {-0x1p12, 0x1p12}}), 0);
  EXPECT_EQ(one(0, {{0x1p12, 0x1p12}, {1, 1}, {-0x1p12, 0x1p12}}), 1);
  EXPECT_EQ(one(0x1p24, {{1, 1}, {-1, 1}}), 0x1p24) << "the accumulator comes last";
  EXPECT_EQ(one(0, {{0x1p-127, 0x1p100}}), 0);
  EXPECT_EQ(one(0x1p-127, {}), 0);
  EXPECT_TRUE(std::isnan(one(0, {{INFINITY, 0}})));
}

TEST(LoopUnits, BfdotRoundsToOdd) {
  const Unit unit = *find_unit("arm.bfdot");
  const auto one = [&](double acc, double a0, double b0, double a1, double b1) {
    std::vector<double> a(8), b(8), c(4);
    a[0] = a0, a[1] = a1, b[0] = b0, b[1] = b1, c[0] = acc;
    execute_unit(unit, a.data(), b.data(), c.data());
    return c[0];
  };
  EXPECT_EQ(one(1, 2, 3, 4, 5), 27);
  // 1 + 2^-30 is between 1 and 1 + 2^-23: the odd one of the two.
  EXPECT_EQ(one(0, 1, 1, 0x1p-15, 0x1p-15), 1 + 0x1p-23);
  EXPECT_EQ(one(0, -1, 1, -0x1p-15, 0x1p-15), -1 - 0x1p-23);
  // Just below 2: truncated to the float below, which is odd already.
  EXPECT_EQ(one(0, 1, 2, -0x1p-20, 0x1p-20), 2 - 0x1p-23);
  EXPECT_EQ(one(0x1p24, 1, 1, 0, 0), 0x1p24 + 2); // 2^24 + 1 lies between 2^24 (even) and 2^24 + 2 (odd)
  EXPECT_EQ(one(0x1p-130, 0, 0, 0, 0), 0);
}

TEST(LoopUnits, IntegerDotsWrap) {
  const Unit dot = *find_unit("vnni.dpbusd");
  std::vector<int64_t> a(64, 255), b(64, -128), c(16, INT32_MIN);
  execute_unit(dot, a.data(), b.data(), c.data());
  EXPECT_EQ(c[0], wrap(DType::i32, int64_t(INT32_MIN) - 4 * 255 * 128));
}

/// A statement of the loop IR: operands with strides, one of them a broadcast, bounds of all
/// elements.
TEST(LoopUnits, StatementsReadAndWriteThroughStrides) {
  const std::string text = R"(
kernel vnni(a: u8[m*k] in, b: i8[k*16] in, c: i32[m*16] inout; m: 1..8, k: 4..64 multiple 4)
  parallel i in 0..m
    for kk in 0..k // 4
      unit vnni.dpbusd c[16*i; 1] a[i*k + 4*kk; 0, 1] b[64*kk; 4, 1]
)";
  const Kernel kernel = checked(text);
  const int m = 3, k = 12;
  Arguments args;
  std::vector<uint8_t> a(m * k);
  std::vector<int8_t> b(k * 16); // [k / 4][n][4]
  std::vector<int32_t> c(m * 16);
  for (size_t i = 0; i < a.size(); ++i) a[i] = uint8_t(i * 37 + 200);
  for (size_t i = 0; i < b.size(); ++i) b[i] = int8_t(i * 91 + 7);
  for (size_t i = 0; i < c.size(); ++i) c[i] = int32_t(i) * 1000;
  args.set("a", a).set("b", b).set("c", c).symbol("m", m).symbol("k", k);
  const LoopRun run = args.run(kernel, adversarial(3, 2));
  ASSERT_TRUE(run.ok()) << run.text();
  for (int i = 0; i < m; ++i)
    for (int n = 0; n < 16; ++n) {
      int32_t sum = c[i * 16 + n];
      for (int l = 0; l < k; ++l) sum += a[i * k + l] * b[(l / 4 * 16 + n) * 4 + l % 4];
      EXPECT_EQ(args.get<int32_t>("c")[i * 16 + n], sum);
    }
  EXPECT_EQ(run.counts.units.at("vnni.dpbusd"), m * k / 4);
  EXPECT_EQ(run.counts.fma, 0);
  EXPECT_EQ(run.counts.buffers[0].read, m * k); // the broadcast is read once
  std::string wrong = text;
  wrong.replace(wrong.find("b[64*kk; 4, 1]"), 14, "b[64*kk; 8, 1]");
  EXPECT_TRUE(found(args.run(parse_kernel(wrong)), FindingKind::out_of_bounds, {"vnni.dpbusd reaches 'b'["}));
}

TEST(LoopUnits, MatrixUnitsMultiplyTiles) {
  const Kernel kernel = checked(R"(
kernel mma(a: bf16[16*32] in, b: bf16[32*8] in, c: f32[16*8] out)
  registers acc: f32[128]
  unrolled z in 0..128
    acc[z] = 0
  unrolled k in 0..2
    unit nvidia.mma.m16n8k16.bf16 acc[0; 8, 1] a[16*k; 32, 1] b[128*k; 8, 1]
  unrolled w in 0..128
    c[w] = acc[w]
)");
  Arguments args;
  std::vector<uint16_t> a(512), b(256);
  const auto fill = [](std::vector<uint16_t>& values, int factor) {
    for (size_t i = 0; i < values.size(); ++i)
      store_f64(DType::bf16, reinterpret_cast<std::byte*>(values.data()), int64_t(i),
                double(int(i * size_t(factor) % 15) - 7));
  };
  fill(a, 7);
  fill(b, 4);
  args.set("a", a).set("b", b).space("c", 512);
  const LoopRun run = args.run(kernel);
  ASSERT_TRUE(run.ok()) << run.text();
  for (int m = 0; m < 16; ++m)
    for (int n = 0; n < 8; ++n) {
      double sum = 0;
      for (int k = 0; k < 32; ++k)
        sum += double(int((m * 32 + k) * 7 % 15) - 7) * double(int((k * 8 + n) * 4 % 15) - 7);
      EXPECT_EQ(args.get<float>("c")[m * 8 + n], float(sum));
    }
  EXPECT_EQ(run.counts.fma, 2 * 16 * 8 * 16);
}

} // namespace
} // namespace luminal::kernel
