// tests/tensor/original_traps_index_test.cpp -- small cases of movement, scans, order and indexing
// that earlier systems of this kind got wrong; and random chains of views against arrays that are
// copied at each step.
#include "ir/interp.h"
#include "luminal/luminal.h"
#include "tensor/graph_state.h"
#include <cmath>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <numeric>
#include <random>

namespace luminal {
namespace {

using testing::ElementsAre;

TEST(OriginalTraps, PaddingAndSlicingOfOneAxis) {
  Graph g;
  Tensor x = g.tensor({3});
  Tensor cut = x.pad(0, 1, 1).slice(0, 0, 2).keep(), padded = x.slice(0, 1, 3).pad(0, 1, 0).keep();
  Tensor both = x.pad(0, 2, 0, 7).pad(0, 1, 1, 8).slice(0, 1, 6).keep();
  x.set({1.f, 2.f, 3.f});
  g.execute();
  EXPECT_THAT(cut.data<float>(), ElementsAre(0, 1));
  EXPECT_THAT(padded.data<float>(), ElementsAre(0, 2, 3));
  EXPECT_THAT(both.data<float>(), ElementsAre(7, 7, 1, 2, 3));
}

TEST(OriginalTraps, SeveralPaddedAxesAndTheirRightSides) {
  Graph g;
  Tensor x = g.tensor({2, 2});
  Tensor y = x.pad({{0, 0, 1}, {1, 1, 2}}, PadMode::constant, 9).keep(),
         total = x.pad(1, 0, 2).sum({1}).keep();
  x.set({1.f, 2.f, 3.f, 4.f});
  g.execute();
  EXPECT_THAT(y.data<float>(), ElementsAre(9, 1, 2, 9, 9, 9, 3, 4, 9, 9, 9, 9, 9, 9, 9));
  EXPECT_THAT(total.data<float>(), ElementsAre(3, 7)); // a padded axis that is reduced
}

TEST(OriginalTraps, ExpandNeverGuessesTheAxis) {
  Graph g;
  Tensor x = g.tensor({2, 2}), b = g.tensor({2});
  Tensor rows = b.expand({2, 2}).keep(), columns = b.unsqueeze(1).expand({2, 2}).keep(),
         new_axis = b.expand_dim(1, 2).keep(), sum = (x + b).keep();
  x.set({1.f, 2.f, 3.f, 4.f});
  b.set({10.f, 20.f});
  g.execute();
  EXPECT_THAT(rows.data<float>(), ElementsAre(10, 20, 10, 20));
  EXPECT_THAT(columns.data<float>(), ElementsAre(10, 10, 20, 20));
  EXPECT_THAT(new_axis.data<float>(), ElementsAre(10, 10, 20, 20));
  EXPECT_THAT(sum.data<float>(), ElementsAre(11, 22, 13, 24));
}

TEST(OriginalTraps, ScansOfNegativesZerosAndInfinities) {
  const float inf = INFINITY;
  Graph g;
  Tensor x = g.tensor({3}), zeros = g.tensor({4}), far = g.tensor({3});
  Tensor product = x.cumprod(0).keep(), with_zero = zeros.cumprod(0).keep(),
         log_sum = far.logcumsumexp(0).keep(), dead = full(g, {2}, -inf).logcumsumexp(0).keep();
  x.set({-1.f, 2.f, 3.f});
  zeros.set({2.f, 0.f, -3.f, 4.f});
  far.set({1e4f, -1e4f, 1e4f});
  g.execute();
  EXPECT_THAT(product.data<float>(), ElementsAre(-1, -2, -6));
  EXPECT_THAT(with_zero.data<float>(), ElementsAre(2, 0, 0, 0));
  EXPECT_THAT(log_sum.data<float>(), ElementsAre(1e4f, 1e4f, testing::FloatNear(1e4f + 0.693147f, 1e-2f)));
  EXPECT_THAT(dead.data<float>(), ElementsAre(-inf, -inf));
}

TEST(OriginalTraps, TiesAndNaN) {
  const float nan = NAN;
  Graph g;
  Tensor x = g.tensor({3}), y = g.tensor({5});
  Tensor first = x.argmax(0).keep(), order = x.argsort(0, true).keep(), top = x.topk(2).indices.keep();
  Tensor up = y.argsort().keep(), down = y.argsort(0, true).keep(), most = y.topk(3).indices.keep(),
         best = y.argmax(0).keep();
  x.set({3.f, 1.f, 3.f});
  y.set({2.f, nan, 2.f, 5.f, nan});
  g.execute();
  EXPECT_THAT(first.data<int64_t>(), ElementsAre(0));
  EXPECT_THAT(order.data<int64_t>(), ElementsAre(0, 2, 1));
  EXPECT_THAT(top.data<int64_t>(), ElementsAre(0, 2));
  EXPECT_THAT(up.data<int64_t>(), ElementsAre(0, 2, 3, 1, 4));
  EXPECT_THAT(down.data<int64_t>(), ElementsAre(1, 4, 3, 0, 2));
  EXPECT_THAT(most.data<int64_t>(), ElementsAre(1, 4, 3));
  EXPECT_THAT(best.data<int64_t>(), ElementsAre(1));
}

TEST(OriginalTraps, DuplicatesOfAScatterAreOrdered) {
  Graph g;
  Tensor x = g.tensor({3}), ids = g.tensor({5}, DType::i64), values = g.tensor({5});
  Tensor last = x.scatter(0, ids, values).keep(), sum = x.scatter(0, ids, values, ScatterOp::add).keep(),
         product = x.scatter(0, ids, values, ScatterOp::mul).keep();
  x.set({10.f, 20.f, 30.f});
  ids.set({int64_t(0), int64_t(2), int64_t(0), int64_t(2), int64_t(0)});
  values.set({1.f, 2.f, 3.f, 4.f, 5.f});
  g.execute();
  EXPECT_THAT(last.data<float>(), ElementsAre(5, 20, 4));
  EXPECT_THAT(sum.data<float>(), ElementsAre(19, 20, 36));
  EXPECT_THAT(product.data<float>(), ElementsAre(150, 20, 240));
}

TEST(OriginalTraps, TheSameGraphAtManySizes) {
  Graph g;
  Dim n = g.dim("n", 0, 4096);
  Tensor x = g.tensor({n});
  Tensor sums = x.cumsum(0).keep(), turned = x.roll(3, 0).flip(0).keep(),
         joined = concat({x, x.slice(0, 0, 2)}, 0).keep(), order = x.neg().argsort().keep();
  for (int64_t size : {1, 0, 7, 64, 4096, 2}) {
    g.set_dim("n", size);
    std::vector<float> values(static_cast<size_t>(size));
    std::iota(values.begin(), values.end(), 1.f);
    x.set(values);
    g.execute();
    ASSERT_EQ(sums.data<double>().size(), size_t(size));
    if (size) {
      EXPECT_EQ(sums.data<double>().back(), double(size) * double(size + 1) / 2);
    }
    EXPECT_EQ(int64_t(joined.data<float>().size()), size + std::min<int64_t>(size, 2));
    auto t = turned.data<float>();
    auto o = order.data<int64_t>();
    for (int64_t i = 0; i < size; ++i) {
      const int64_t from = ((size - 1 - i - 3) % size + size) % size;
      EXPECT_EQ(t[size_t(i)], float(from + 1));
      EXPECT_EQ(o[size_t(i)], size - 1 - i);
    }
  }
}

// ---- random chains of movement ----

struct Array {
  std::vector<int64_t> shape;
  std::vector<float> values;
  int64_t count() const {
    return std::accumulate(shape.begin(), shape.end(), int64_t(1), std::multiplies<>());
  }
};

/// An array of `shape` whose element at each index is that of x at `from(index)`, or `fill` where
/// there is none.
Array moved(const Array& x, std::vector<int64_t> shape,
            const std::function<bool(const std::vector<int64_t>& to, std::vector<int64_t>& from)>& place,
            float fill = 0) {
  Array out{std::move(shape), {}};
  std::vector<int64_t> to(out.shape.size()), from;
  for (int64_t i = 0; i < out.count(); ++i) {
    int64_t rest = i;
    for (size_t d = out.shape.size(); d-- > 0;) to[d] = rest % out.shape[d], rest /= out.shape[d];
    from = to;
    bool inside = place(to, from);
    int64_t flat = 0;
    for (size_t d = 0; inside && d < x.shape.size(); ++d) flat = flat * x.shape[d] + from[d];
    out.values.push_back(inside ? x.values[size_t(flat)] : fill);
  }
  return out;
}

struct Chain {
  Tensor tensor;
  Array array;
  std::string text;
};

/// One random movement of both.
void extend(Chain& c, std::mt19937& random) {
  auto pick = [&](int64_t low, int64_t high) { return low + int64_t(random() % uint32_t(high - low + 1)); };
  const Array& a = c.array;
  const int rank = int(a.shape.size()), axis = int(pick(0, rank - 1));
  const int64_t n = a.shape[size_t(axis)];
  const size_t d = size_t(axis);
  auto shape = a.shape;
  using Index = std::vector<int64_t>;
  switch (pick(0, 11)) {
  case 0: {
    std::vector<int> order(static_cast<size_t>(rank));
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), random);
    for (size_t k = 0; k < order.size(); ++k) shape[k] = a.shape[size_t(order[k])];
    c.array = moved(a, shape, [&](const Index& to, Index& from) {
      for (size_t k = 0; k < order.size(); ++k) from[size_t(order[k])] = to[k];
      return true;
    });
    c.tensor = c.tensor.permute(order);
    c.text += " permute";
    return;
  }
  case 1: {
    const int64_t start = pick(0, n - 1), end = pick(start + 1, n), step = pick(1, 3);
    shape[d] = (end - start + step - 1) / step;
    c.array =
        moved(a, shape, [&](const Index& to, Index& from) { return from[d] = start + to[d] * step, true; });
    c.tensor = c.tensor.slice(axis, start, end, step);
    c.text += " slice";
    return;
  }
  case 2: {
    const int64_t before = pick(0, 2), after = pick(0, 2);
    shape[d] += before + after;
    c.array = moved(
        a, shape,
        [&](const Index& to, Index& from) {
          from[d] = to[d] - before;
          return from[d] >= 0 && from[d] < n;
        },
        -7);
    c.tensor = c.tensor.pad(axis, before, after, -7);
    c.text += " pad";
    return;
  }
  case 3:
    c.array = moved(a, shape, [&](const Index& to, Index& from) { return from[d] = n - 1 - to[d], true; });
    c.tensor = c.tensor.flip(axis);
    c.text += " flip";
    return;
  case 4: {
    const int64_t shift = pick(-3, 5);
    c.array = moved(a, shape, [&](const Index& to, Index& from) {
      return from[d] = ((to[d] - shift) % n + n) % n, true;
    });
    c.tensor = c.tensor.roll(shift, axis);
    c.text += " roll";
    return;
  }
  case 5:
    if (rank > 1) {
      const int first = int(pick(0, rank - 2));
      shape[size_t(first)] *= shape[size_t(first) + 1];
      shape.erase(shape.begin() + first + 1);
      c.array.shape = shape;
      c.tensor = c.tensor.merge_dims(first);
      c.text += " merge";
    }
    return;
  case 6:
    for (int64_t inner : {3, 2})
      if (n % inner == 0 && rank < 5) {
        shape[d] = n / inner;
        shape.insert(shape.begin() + axis + 1, inner);
        c.array.shape = shape;
        c.tensor = c.tensor.split_dims(axis, inner);
        c.text += " split";
        return;
      }
    return;
  case 7:
    if (n >= 2 && rank < 5 && a.count() < 300) {
      shape[d] = n - 1;
      shape.push_back(2);
      c.array = moved(a, shape, [&](const Index& to, Index& from) {
        from.pop_back();
        return from[d] = to[d] + to.back(), true;
      });
      c.tensor = c.tensor.windows(axis, 2);
      c.text += " windows";
    }
    return;
  case 8:
    if (a.count() < 300) {
      shape[d] = 2 * n;
      c.array = moved(a, shape, [&](const Index& to, Index& from) { return from[d] = to[d] % n, true; });
      c.tensor = concat({c.tensor, c.tensor}, axis);
      c.text += " concat";
    }
    return;
  case 9:
    if (a.count() < 300) {
      shape[d] = 2 * n;
      c.array = moved(a, shape, [&](const Index& to, Index& from) { return from[d] = to[d] / 2, true; });
      c.tensor = c.tensor.repeat_interleave(2, axis);
      c.text += " interleave";
    }
    return;
  case 10:
    if (rank >= 2) {
      c.array = moved(a, shape, [&](const Index& to, Index&) {
        return to[size_t(rank) - 1] - to[size_t(rank) - 2] <= 1;
      });
      c.tensor = c.tensor.tril(1);
      c.text += " tril";
    }
    return;
  default:
    c.array.shape.insert(c.array.shape.begin() + axis, 1);
    c.tensor = c.tensor.unsqueeze(axis);
    if (rank > 3) {
      c.array.shape.erase(c.array.shape.begin() + axis);
      c.tensor = c.tensor.squeeze(axis);
    }
    c.text += " unsqueeze";
    return;
  }
}

TEST(OriginalTraps, ChainsOfViewsAreWhatCopiesGive) {
  constexpr unsigned seed = 4711;
  std::mt19937 random(seed);
  Graph g;
  Array start{{2, 3, 4}, std::vector<float>(24)};
  std::iota(start.values.begin(), start.values.end(), 1.f);
  Tensor x = g.tensor({2, 3, 4}, DType::f32, "x");
  x.set(start.values);
  std::vector<Chain> chains;
  for (int k = 0; k < 60; ++k) {
    Chain c{x, start, ""};
    const int length = 1 + int(random() % 12);
    for (int step = 0; step < length; ++step) extend(c, random);
    if (c.tensor.id() == x.id()) continue;
    c.tensor.keep();
    chains.push_back(std::move(c));
  }
  g.execute();
  Bindings bindings;
  std::vector<double> doubles(start.values.begin(), start.values.end());
  bindings.inputs["x"] = host_tensor(DType::f32, {2, 3, 4}, doubles);
  const Module module = g.state()->snapshot();
  Interpreter interpreter(module, bindings);
  for (const Chain& c : chains) {
    EXPECT_EQ(c.tensor.data<float>(), c.array.values) << "seed " << seed << ", plan:" << c.text;
    HostTensor judged = interpreter.result(g.state()->kept.at(node_id(c.tensor)));
    EXPECT_EQ(judged.shape, c.array.shape) << c.text;
    for (int64_t i = 0; i < judged.count(); ++i)
      ASSERT_EQ(float(judged.at(i)), c.array.values[size_t(i)])
          << "seed " << seed << ", interpreter:" << c.text;
  }
}

} // namespace
} // namespace luminal
