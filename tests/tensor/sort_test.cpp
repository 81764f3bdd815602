// tests/tensor/sort_test.cpp -- sorts of long axes, in a kernel of their own: stable, NaN last, every type, any place of the axis.
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
