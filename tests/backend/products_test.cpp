// backend/products_test.cpp -- products and sums whose ends do not fill a vector: remainders in
// narrower vectors, default schedules of random shapes. Buffers end before pages that cannot be
// touched.
#include "choose/default_schedule.h"
#include "cone/cone.h"
#include "support.h"
#include <cmath>
#include <cstring>
#include <fmt/format.h>

namespace luminal {
namespace {
using namespace luminal::test;

/// Random numbers for every input, results of the machine code equal to the interpreter's bit for
/// bit.
void expect_interpreted(const kernel::Kernel& k, const codegen::CpuTarget& target, uint64_t seed,
                        const std::string& what) {
  std::mt19937_64 random(seed);
  Arguments args;
  for (const kernel::Buffer& b : k.buffers) {
    if (b.space != kernel::Space::global) continue;
    const int64_t count = b.size.value();
    Bytes content(size_t(storage_bytes(b.dtype, count)));
    for (int64_t i = 0; i < count; i++)
      if (is_float(b.dtype))
        store_f64(b.dtype, content.data(), i, double(int64_t(random() % 512) - 256) / 32);
      else
        store_i64(b.dtype, content.data(), i, int64_t(random() % 100));
    args.data[b.name] = content;
  }
  const Arguments expected = interpret(k, args);
  Program(k, target).run(args);
  for (const kernel::Buffer& b : k.buffers)
    if (b.space == kernel::Space::global && b.access != kernel::Access::in) {
      EXPECT_TRUE(close(b.dtype, args.data[b.name], expected.data.at(b.name)))
          << b.name << " on " << target.cpu << ", seed " << seed << "\n"
          << what;
    }
}

// Accumulators of a row and of its remainder, which is as long as the lanes allow; what follows the
// sum has lanes of its own.
TEST(Products, SumsOfRemainders) {
  for (const codegen::CpuTarget& target : runnable_targets())
    for (const int lanes : {4, 8, 16})
      for (int rest = 1; rest < lanes; rest++) {
        const std::string text =
            fmt::format(R"(
kernel sums(a: f32[2*9] in, b: f32[9*{n}] in, h: bf16[9*{n}] in, i: i32[9*{n}] in, c: f32[2*{n}] out, e: f32[2*{n}] out, m: f32[2*{n}] out, j: i32[2*{n}] out)
  registers acc: f32[2*2*{l}] padded
  registers wide: f32[2*2*{l}] padded
  registers most: f32[2*2*{l}] padded
  registers whole: i32[2*2*{l}] padded
  unrolled r0 in 0..2
    unrolled v0 in 0..2
      vector l0 in 0..{l}
        acc[{s}*r0 + {l}*v0 + l0] = 0
        wide[{s}*r0 + {l}*v0 + l0] = 0
        most[{s}*r0 + {l}*v0 + l0] = -inf
        whole[{s}*r0 + {l}*v0 + l0] = cast<i32>(0)
  for k in 0..9
    unrolled r1 in 0..2
      unrolled v1 in 0..2
        vector l1 in 0..{l} masked min({l}, {n} - {l}*v1)
          let %0 = b[{n}*k + {l}*v1 + l1]
          acc[{s}*r1 + {l}*v1 + l1] = fma(a[9*r1 + k], %0, acc[{s}*r1 + {l}*v1 + l1])
          wide[{s}*r1 + {l}*v1 + l1] = wide[{s}*r1 + {l}*v1 + l1] + a[9*r1 + k] * cast<f32>(h[{n}*k + {l}*v1 + l1])
          most[{s}*r1 + {l}*v1 + l1] = max(most[{s}*r1 + {l}*v1 + l1], %0 - a[9*r1 + k])
          whole[{s}*r1 + {l}*v1 + l1] = whole[{s}*r1 + {l}*v1 + l1] + i[{n}*k + {l}*v1 + l1]
  unrolled r2 in 0..2
    unrolled v2 in 0..2
      vector l2 in 0..{l} masked min({l}, {n} - {l}*v2)
        c[{n}*r2 + {l}*v2 + l2] = acc[{s}*r2 + {l}*v2 + l2]
        m[{n}*r2 + {l}*v2 + l2] = most[{s}*r2 + {l}*v2 + l2]
        j[{n}*r2 + {l}*v2 + l2] = whole[{s}*r2 + {l}*v2 + l2]
      vector l3 in 0..{l} masked min({l}, {n} - {l}*v2)
        e[{n}*r2 + {l}*v2 + l3] = abs(wide[{s}*r2 + {l}*v2 + l3]) / 3
)",
                        fmt::arg("l", lanes), fmt::arg("n", lanes + rest), fmt::arg("s", 2 * lanes));
        expect_interpreted(checked(text), target, uint64_t(rest), text);
        if (testing::Test::HasFailure()) return;
      }
}

std::string product_term(int64_t batch, int64_t m, int64_t n, int64_t k, bool turned) {
  return fmt::format(
      R"(fn @product(%A: f32[{0}, {1}, {3}], %B: f32[{0}, {4}]) {{
  %a = view %A [b: {0}, m: {1}, n: {2}, k: {3}] -> [b, m, k]
  %w = view %B [b: {0}, m: {1}, n: {2}, k: {3}] -> [b, {5}]
  %p = mul %a, %w
  %f = fold [b: {0}, m: {1}, n: {2}, k: {3}] over [k] {{ sum %p[b, m, n, k] }}
  %C = get %f, 0
  return C = %C
}}
)",
      batch, m, n, k, turned ? fmt::format("{}, {}", n, k) : fmt::format("{}, {}", k, n),
      turned ? "n, k" : "k, n");
}

TEST(Products, DefaultSchedulesOfRandomShapes) {
  for (const codegen::CpuTarget& target : instruction_sets()) {
    const int lanes = std::max(4, target.vector_bits / 32);
    kernel::MachineLimits limits{.lanes = lanes, .vector_registers = lanes == 16 ? 32 : 16};
    for (uint64_t seed = 1; seed <= 24; seed++) {
      std::mt19937_64 random(seed);
      const auto in = [&](int64_t low, int64_t high) {
        return low + int64_t(random() % uint64_t(high - low + 1));
      };
      // Half of them small enough for every remainder of lanes and rows to appear often.
      const int64_t most = seed % 2 ? 129 : 40, m = in(1, most), n = in(1, most), k = in(1, most);
      limits.threads = int(in(1, 2));
      limits.l2 = seed % 3 ? 1 << 20 : 4096; // batches are prefetched where all of them are larger
      const std::string term = product_term(in(1, 5), m, n, k, seed % 5 == 0);
      Module module = parse_module(term, "product");
      std::vector<NodeId> roots;
      for (auto& r : module.entry().results) roots.push_back(r.value);
      auto cone = kernel::build_cone(module.entry(), roots, {});
      ASSERT_TRUE(cone) << cone.error();
      auto [schedule, made, decisions] = kernel::default_kernel(*cone, limits);
      ASSERT_TRUE(made) << made.error();
      EXPECT_THAT(kernel::verify(*made), testing::IsEmpty()) << kernel::to_string(*made);
      expect_interpreted(*made, target, seed, kernel::to_string(schedule) + term);
      if (testing::Test::HasFailure()) return;
    }
  }
}

std::string schedule_of_product(int64_t m, int64_t n, int64_t k, int64_t batches = 1,
                                const kernel::MachineLimits& limits = {}) {
  Module module = parse_module(product_term(batches, m, n, k, false), "product");
  auto cone = kernel::build_cone(module.entry(), std::vector<NodeId>{module.entry().results[0].value}, {});
  EXPECT_TRUE(cone) << cone.error();
  return cone ? kernel::to_string(kernel::default_schedule(*cone, limits)) : "";
}

/// Sums that go on in the results of an earlier part wait for them where nobody asked for them.
TEST(Products, ResultsAreAskedForAhead) {
  EXPECT_THAT(schedule_of_product(512, 768, 3072), testing::HasSubstr("prefetch f C m.t 1"));
}

/// Panels are copied from pieces of rows that lie far from each other.
TEST(Products, RowsOfPanelsAreAskedForAhead) {
  const std::string large = schedule_of_product(1000, 777, 513);
  EXPECT_THAT(large, testing::HasSubstr("stage B B.panels"));
  EXPECT_THAT(large, testing::HasSubstr("prefetch B.panels B k.i k.i 16"));
  EXPECT_THAT(schedule_of_product(256, 256, 256), testing::Not(testing::HasSubstr("panels")));
}

TEST(Products, SmallBatchesAreAskedForAhead) {
  const std::string schedule = schedule_of_product(17, 33, 65, 1000);
  // Two vectors beside each other; as many rows as leave no thin tile.
  EXPECT_THAT(schedule, testing::HasSubstr("m.i 6"));
  EXPECT_THAT(schedule, testing::HasSubstr("prefetch f.p0 A b k 2"));
  EXPECT_THAT(schedule, testing::HasSubstr("prefetch f.p0 B b k 2"));
  // The column that is left lies in lines of its own, too.
  EXPECT_THAT(schedule, testing::HasSubstr("prefetch f.p1.columns B b k 2"));
  EXPECT_THAT(schedule_of_product(17, 40, 65, 1000), testing::HasSubstr("prefetch f B b k 2"));
}

/// Columns that would leave most of a vector empty have lanes along the sum, where that is long
/// enough.
TEST(Products, FewColumnsAreSummedApart) {
  EXPECT_THAT(schedule_of_product(17, 33, 65, 9), testing::HasSubstr("split_at f n 32\noperand f.p1 m"));
  EXPECT_THAT(schedule_of_product(17, 18, 65, 9), testing::HasSubstr("split_at f n 16\n"));
  for (const auto& whole : {schedule_of_product(17, 32, 65, 9), schedule_of_product(17, 37, 65, 9),
                            schedule_of_product(17, 33, 24, 9), schedule_of_product(17, 33, 65)})
    EXPECT_THAT(whole, testing::Not(testing::HasSubstr("split_at")));
  for (const codegen::CpuTarget& target : instruction_sets()) {
    const int lanes = std::max(4, target.vector_bits / 32);
    const kernel::MachineLimits limits{.lanes = lanes, .vector_registers = lanes == 16 ? 32 : 16, .l2 = 4096};
    for (const auto& [m, n, k] :
         {std::tuple(17, 33, 65), {4, 17, 32}, {5, 18, 79}, {9, 50, 128}, {31, 34, 100}}) {
      const std::string term = product_term(3, m, n, k, false);
      Module module = parse_module(term, "product");
      auto cone =
          kernel::build_cone(module.entry(), std::vector<NodeId>{module.entry().results[0].value}, {});
      ASSERT_TRUE(cone) << cone.error();
      auto [schedule, made, decisions] = kernel::default_kernel(*cone, limits);
      ASSERT_TRUE(made) << made.error();
      if (lanes == 16) {
        EXPECT_THAT(kernel::to_string(schedule), testing::HasSubstr("split_at")) << term;
      }
      EXPECT_THAT(kernel::verify(*made), testing::IsEmpty()) << kernel::to_string(*made);
      expect_interpreted(*made, target, uint64_t(n), kernel::to_string(schedule) + term);
    }
  }
}

/// A domain ends the loop over the sum of a register tile: what lies outside of it, infinities and NaN among
/// it, is not read; a row without a point is 0.
TEST(Products, MaskedSumsEndWhereTheirMaskDoes) {
  for (const codegen::CpuTarget& target : instruction_sets()) {
    const int lanes = std::max(4, target.vector_bits / 32);
    const kernel::MachineLimits limits{.lanes = lanes, .vector_registers = lanes == 16 ? 32 : 16};
    for (const std::string where : {"k <= m", "m <= k", "k <= m + 5", "k + 3 <= m", "k <= m and m < k + 9"})
      for (const auto& [m, n, k] : {std::tuple(64, 64, 64), {37, 48, 37}, {50, 64, 61}}) {
        const std::string term = fmt::format(R"(
fn @main(%A: f32[2, {0}, {2}], %B: f32[2, {2}, {1}]) {{
  %0 = view %A [b: 2, m: {0}, n: {1}, k: {2}] -> [b, m, k]
  %1 = view %B [b: 2, m: {0}, n: {1}, k: {2}] -> [b, k, n]
  %2 = mul %0, %1
  %3 = fold [b: 2, m: {0}, n: {1}, k: {2}] over [k] where {3} {{ sum %2[b, m, n, k] }}
  %4 = get %3, 0
  return f = %4
}})",
                                             m, n, k, where);
        Module module = parse_module(term, "product");
        const NodeId root = module.entry().results[0].value;
        auto cone = kernel::build_cone(module.entry(), std::vector<NodeId>{root}, {});
        ASSERT_TRUE(cone) << cone.error();
        auto [schedule, made, decisions] = kernel::default_kernel(*cone, limits);
        ASSERT_TRUE(made) << made.error();
        EXPECT_THAT(kernel::to_string(schedule), testing::HasSubstr("predicate_split k")) << term;
        EXPECT_THAT(kernel::verify(*made), testing::IsEmpty()) << kernel::to_string(*made);
        expect_interpreted(*made, target, uint64_t(m + n), kernel::to_string(schedule) + term);
        // Against the terms: the operand is NaN or infinite wherever the mask hides it.
        Arguments args;
        std::vector<float> a(size_t(2 * m * k)), b(size_t(2 * k * n));
        for (size_t i = 0; i < b.size(); i++) b[i] = float(int(i * 37 % 64) - 32) / 16;
        const auto inside = [&](int i, int j) {
          if (where == "k <= m") return j <= i;
          if (where == "m <= k") return i <= j;
          if (where == "k <= m + 5") return j <= i + 5;
          if (where == "k + 3 <= m") return j + 3 <= i;
          return j <= i && i < j + 9;
        };
        for (int i = 0; i < 2 * m; i++)
          for (int j = 0; j < k; j++)
            a[size_t(i * k + j)] = inside(i % m, j) ? float((i * 7 + j * 3) % 32 - 16) / 8
                                   : (i + j) % 2    ? NAN
                                                    : INFINITY;
        for (const kernel::Buffer& buffer : made->buffers) {
          if (buffer.space != kernel::Space::global) continue;
          Bytes bytes(size_t(storage_bytes(buffer.dtype, buffer.size.value())));
          if (buffer.name == "A") std::memcpy(bytes.data(), a.data(), bytes.size());
          if (buffer.name == "B") std::memcpy(bytes.data(), b.data(), bytes.size());
          args.data[buffer.name] = bytes;
        }
        Program(*made, target).run(args);
        const Bytes& out = args.data["f"];
        for (int i = 0; i < 2 * m; i++)
          for (int c = 0; c < n; c++) {
            double want = 0;
            for (int j = 0; j < k; j++)
              if (inside(i % m, j)) want += double(a[size_t(i * k + j)]) * b[size_t((i / m * k + j) * n + c)];
            ASSERT_NEAR(load_f64(DType::f32, out.data(), i * n + c), want, 1e-3)
                << i << ", " << c << "\n"
                << kernel::to_string(schedule) << term;
          }
      }
  }
}

/// A long sum with few results is divided among the workers all the same.
TEST(Products, FewResultsAreDealtOutToAllWorkers) {
  kernel::MachineLimits limits;
  limits.threads = 2;
  EXPECT_THAT(schedule_of_product(1, 64, 8192, 1, limits), testing::HasSubstr("parallel f n"));
}

} // namespace
} // namespace luminal
