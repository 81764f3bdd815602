// tests/tensor/sort_test.cpp -- sorts of long axes, in a kernel of their own: stable, NaN last,
// every type, any place of the axis.
#include "luminal/luminal.h"
#include "sweep.h"
#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>
#include <numeric>
#include <random>

namespace luminal {
namespace {

/// Places of a row in order: NaN greater than every number, equal ones as they stand.
std::vector<int64_t> expected_order(const float* row, int64_t n, bool descending) {
  std::vector<int64_t> order(static_cast<size_t>(n));
  std::iota(order.begin(), order.end(), 0);
  auto less = [&](float a, float b) { return std::isnan(b) ? !std::isnan(a) : a < b; };
  std::stable_sort(order.begin(), order.end(), [&](int64_t i, int64_t j) {
    return descending ? less(row[j], row[i]) : less(row[i], row[j]);
  });
  return order;
}

TEST(Sort, LongAxesOfEverySize) {
  constexpr int64_t rows = 2;
  Graph g;
  Dim n = g.dim("n", 0, 6000);
  Tensor x = g.tensor({rows, n});
  auto [up, up_at] = x.sort(1);
  auto [down, down_at] = x.sort(1, true);
  Tensor columns = x.transpose().argsort(0).keep(), whole = x.cast(DType::i32).argsort(1, true).keep();
  up.keep(), up_at.keep(), down_at.keep();
  std::mt19937 random(12);
  for (int64_t size : {0, 1, 2, 255, 256, 257, 512, 513, 1000, 4097, 6000}) {
    std::vector<float> values(static_cast<size_t>(rows * size));
    for (float& v : values) {
      v = float(random() % 1000) - 500; // many equal ones
      if (random() % 50 == 0) v = NAN;
      if (random() % 50 == 0) v = -0.f;
    }
    g.set_dim("n", size);
    x.set(values);
    g.execute();
    auto sorted = up.data<float>();
    auto a = up_at.data<int64_t>(), b = down_at.data<int64_t>(), c = columns.data<int64_t>(),
         d = whole.data<int64_t>();
    for (int64_t r = 0; r < rows; ++r) {
      const float* row = values.data() + r * size;
      auto rising = expected_order(row, size, false), falling = expected_order(row, size, true);
      std::vector<float> integers(row, row + size);
      for (float& v : integers)
        if (std::isnan(v)) v = 0;
      auto of_integers = expected_order(integers.data(), size, true);
      for (int64_t i = 0; i < size; ++i) {
        const size_t at = size_t(r * size + i), k = size_t(i);
        ASSERT_EQ(a[at], rising[k]) << size << " row " << r << " place " << i;
        ASSERT_EQ(b[at], falling[k]) << size << " row " << r << " place " << i;
        ASSERT_EQ(c[size_t(i * rows + r)], rising[k]) << size << " column " << r << " place " << i;
        ASSERT_EQ(d[at], of_integers[k]) << size << " row " << r << " place " << i;
        const float want = row[rising[k]];
        ASSERT_TRUE(std::isnan(want) ? std::isnan(sorted[at]) : sorted[at] == want) << size << " place " << i;
      }
    }
  }
}

/// The first of the keys in order, by blocks of the axis: every type of key, ties, NaN, any place
/// of the axis.
TEST(Sort, LargestOfLongAxes) {
  std::mt19937 random(14);
  for (const int64_t n : {257, 300, 1024, 4097}) {
    constexpr int64_t rows = 3;
    const int64_t k = n == 300 ? 256 : 40;
    Graph g;
    Dim m = g.dim("m", k, 5000);
    Tensor x = g.tensor({rows, n}), y = g.tensor({rows, m});
    std::vector<std::pair<Indexed, bool>> found; // and whether the largest
    for (bool largest : {true, false})
      for (const Tensor& t : {x, x.cast(DType::f16), x.cast(DType::f64), y})
        found.push_back({t.topk(k, 1, largest), largest});
    Tensor columns = x.transpose().topk(k, 0).indices.transpose().keep();
    Tensor whole = (x * 8).cast(DType::i32), bits = (x.abs() * 1e7).cast(DType::u32);
    Tensor integers = whole.topk(k, 1).indices.keep(), unsigned_ones = bits.topk(k, 1, false).indices.keep();
    // Of 64 bits: -800 becomes the least of them.
    Tensor ends = (whole.cast(DType::i64) - 224) * (int64_t(1) << 53);
    Tensor of_ends = ends.topk(k, 1).indices.keep(), up_ends = ends.topk(k, 1, false).indices.keep();
    Tensor wide_bits = bits.cast(DType::u64).topk(k, 1, false).indices.keep();
    Tensor seventh = kthvalue(x, 7, 1).indices.keep();
    ends.keep();
    whole.keep(), bits.keep();
    for (auto& [f, largest] : found) f.values.keep(), f.indices.keep();
    std::vector<float> values(static_cast<size_t>(rows * n));
    for (float& v : values) {
      v = float(random() % 200) - 100; // exact in f16, many equal ones
      if (random() % 60 == 0) v = NAN;
      if (random() % 60 == 0) v = -0.f;
      if (random() % 60 == 0) v = INFINITY;
    }
    g.set_dim("m", n);
    x.set(values), y.set(values);
    g.execute();
    const auto i32s = whole.data<int32_t>();
    const auto u32s = bits.data<uint32_t>();
    const auto ends_data = ends.data<int64_t>();
    for (int64_t r = 0; r < rows; ++r) {
      const float* row = values.data() + r * n;
      const auto in_order = [&](auto less) {
        std::vector<int64_t> order(static_cast<size_t>(n));
        std::iota(order.begin(), order.end(), 0);
        std::stable_sort(order.begin(), order.end(), less);
        return order;
      };
      // Of the largest NaN comes first, of the least last.
      const auto less = [&](float a, float b) { return std::isnan(b) ? !std::isnan(a) : a < b; };
      const auto down = in_order([&](int64_t i, int64_t j) { return less(row[j], row[i]); });
      const auto up = in_order([&](int64_t i, int64_t j) { return less(row[i], row[j]); });
      const auto of_i32 =
          in_order([&](int64_t i, int64_t j) { return i32s[size_t(r * n + i)] > i32s[size_t(r * n + j)]; });
      const auto of_u32 =
          in_order([&](int64_t i, int64_t j) { return u32s[size_t(r * n + i)] < u32s[size_t(r * n + j)]; });
      const int64_t* i64s = ends_data.data() + r * n;
      const auto down_i64 = in_order([&](int64_t i, int64_t j) { return i64s[i] > i64s[j]; });
      const auto up_i64 = in_order([&](int64_t i, int64_t j) { return i64s[i] < i64s[j]; });
      ASSERT_EQ(seventh.data<int64_t>()[size_t(r)], up[6]);
      for (int64_t i = 0; i < k; ++i) {
        const size_t at = size_t(r * k + i), place = size_t(i);
        for (auto& [f, largest] : found) {
          const int64_t want = (largest ? down : up)[place];
          ASSERT_EQ(f.indices.data<int64_t>()[at], want) << n << " row " << r << " place " << i << largest;
          const float have = f.values.data<float>()[at];
          ASSERT_TRUE(std::isnan(row[want]) ? std::isnan(have) : have == row[want]) << n << " place " << i;
        }
        ASSERT_EQ(columns.data<int64_t>()[at], down[place]) << n << " column " << r << " place " << i;
        ASSERT_EQ(integers.data<int64_t>()[at], of_i32[place]) << n << " row " << r << " place " << i;
        ASSERT_EQ(unsigned_ones.data<int64_t>()[at], of_u32[place]) << n << " row " << r << " place " << i;
        ASSERT_EQ(wide_bits.data<int64_t>()[at], of_u32[place]) << n << " row " << r << " place " << i;
        ASSERT_EQ(of_ends.data<int64_t>()[at], down_i64[place]) << n << " row " << r << " place " << i;
        ASSERT_EQ(up_ends.data<int64_t>()[at], up_i64[place]) << n << " row " << r << " place " << i;
      }
    }
  }
}

TEST(Sort, LongAxisOfFixedSize) {
  constexpr int64_t n = 5001;
  Graph g;
  Tensor x = g.tensor({n});
  Tensor order = x.argsort().keep();
  Unique all = unique(x, 2000);
  all.count.keep(), all.inverse.keep(), all.values.keep();
  std::mt19937 random(3);
  std::vector<float> values(n);
  for (float& v : values) v = float(random() % 1500);
  x.set(values);
  g.execute();
  EXPECT_EQ(order.data<int64_t>(), expected_order(values.data(), n, false));
  std::vector<float> different = values;
  std::sort(different.begin(), different.end());
  different.erase(std::unique(different.begin(), different.end()), different.end());
  EXPECT_EQ(all.count.data<int64_t>()[0], int64_t(different.size()));
  auto value = all.values.data<float>();
  auto inverse = all.inverse.data<int64_t>();
  for (size_t i = 0; i < size_t(n); ++i) ASSERT_EQ(value[size_t(inverse[i])], values[i]);
}

TEST(Sort, LongAxesOfEveryType) {
  using namespace luminal::test;
  std::vector<DType> types = all_numbers;
  types.push_back(DType::boolean);
  const auto both = [](const std::vector<Tensor>& x) -> std::vector<Tensor> {
    return {x[0].argsort(1), x[0].argsort(1, true), x[0].sort(1).values};
  };
  sweep({{"middle", {{2, 150, -1}}, types, both}, {"last", {{-1, 150}}, types, both}});
}

} // namespace
} // namespace luminal
