// tests/tensor/narrow_types_test.cpp -- what picks the least or the greatest element gives the same
// on every float type as on f32, infinities and NaN included.
#include "support.h"
#include <cmath>

namespace luminal {
namespace {

/// Everything that begins with the least or the greatest value of a type, as f32.
std::vector<Tensor> extremes(Graph& g, const Tensor& x, int64_t n) {
  Tensor row = x.reshape({1, 1, Dim(n)});
  Tensor places = g.constant({3, 0, 3}, {3}).cast(DType::i64);
  auto max_at = [&](ScatterOp how) { return scatter_reduce(x, 0, places, x.slice(0, 1, 4), how, false); };
  std::vector<Tensor> all{x.max(),
                          x.min(),
                          x.argmax(),
                          x.argmin(),
                          x.cummax(0).values,
                          x.cummax(0).indices,
                          x.cummin(0).values,
                          x.cummin(0).indices,
                          max_pool(row, {3}, {.stride = {2}, .padding = 1}),
                          max_pool_with_indices(row, {3}, {.stride = {2}, .padding = 1}).values,
                          max_pool_with_indices(row, {3}, {.stride = {2}, .padding = 1}).indices,
                          adaptive_max_pool(row, {4}),
                          max_at(ScatterOp::max),
                          max_at(ScatterOp::min),
                          x.isnan(),
                          x.isfinite(),
                          x.isinf(),
                          x.topk(3).values,
                          x.sort().values};
  for (Tensor& t : all) t = t.cast(DType::f32).keep();
  return all;
}

TEST(NarrowTypes, ExtremesAreThoseOfF32) {
  for (DType type : {DType::f8e4m3, DType::f8e5m2, DType::f16, DType::bf16})
    for (int64_t n : {6, 150})
      for (bool special : {false, true}) {
        SCOPED_TRACE(std::string(to_string(type)) + " " + std::to_string(n) + (special ? " special" : ""));
        std::vector<float> values;
        for (int64_t i = 0; i < n; i++)
          values.push_back(float((i * 5) % 7) - 7); // all below zero, numbers of each type
        if (special) {
          values[size_t(n / 2)] = NAN;
          if (type != DType::f8e4m3) values[2] = -INFINITY, values[4] = INFINITY;
        }
        Graph g;
        Tensor narrow = g.tensor({n}, type), wide = g.tensor({n});
        auto a = extremes(g, narrow, n), b = extremes(g, wide, n);
        narrow.set(values);
        wide.set(values);
        g.execute();
        for (size_t k = 0; k < a.size(); k++) {
          auto x = a[k].data<float>(), y = b[k].data<float>();
          ASSERT_EQ(x.size(), y.size());
          for (size_t i = 0; i < x.size(); i++)
            EXPECT_TRUE(x[i] == y[i] || (std::isnan(x[i]) && std::isnan(y[i])))
                << "function " << k << " element " << i << ": " << x[i] << " for " << y[i];
        }
      }
}

} // namespace
} // namespace luminal
