// tests/tensor/terms_test.cpp -- terms that are made and read as data.
#include "luminal/terms.h"
#include "support.h"

namespace luminal {
namespace {

using namespace testing_tensor;
using testing::ElementsAre;

TEST(Terms, ViewsAreMadeAndRead) {
  Graph g;
  Dim n = g.dim("n", 1, 8);
  Tensor x = g.tensor({n, 3}, DType::f32, "x");
  Tensor y = terms::view(
      x, {3, n + 1}, [](const Dims& i) { return Dims{i[1] - 1, i[0]}; },
      [](const Dims& i) { return terms::at_most(1, i[1]); }, -1);
  y.keep();
  const auto read = terms::as_view(y);
  ASSERT_TRUE(read);
  EXPECT_EQ(read->x.id(), x.id());
  EXPECT_EQ(to_string(read->map), "[i1 - 1, i0]");
  EXPECT_EQ(read->axes, (Dims{read->map[1], read->map[0] + 1}));
  EXPECT_EQ(read->where.to_string(), "i1 >= 1");
  EXPECT_EQ(read->fill, -1);
  x.set_dyn({{1, 2, 3}, {4, 5, 6}});
  g.execute();
  EXPECT_THAT(y.data<float>(), ElementsAre(-1, 1, 4, -1, 2, 5, -1, 3, 6));
  EXPECT_FALSE(terms::as_view(x));
  EXPECT_FALSE(terms::as_fold(y));
  // Made again from what was read, it is the same value.
  EXPECT_EQ(terms::view(
                read->x, y.shape(), [&](const Dims&) { return read->map; },
                [&](const Dims&) { return read->where; }, read->fill)
                .id(),
            y.id());
}

TEST(Terms, FoldsOverTuplesWithDomains) {
  Graph g;
  Dim n = g.dim("n", 1, 8);
  Tensor x = g.tensor({n, n}, DType::f32, "x"), one = g.constant(1.0);
  // Softmax statistics of the lower triangle: the largest, and the sum relative to it.
  const auto made =
      terms::fold({n, n}, {1}, {{"max", x, {0, 1}}, {"sum", one, {}, "self * exp(old0 - new0)"}},
                  [](const Dims& i) { return terms::at_most(i[1], i[0]); });
  keep(made);
  x.set_dyn({{1, 9, 9}, {1, 1, 9}, {2, 2, 2}});
  g.execute();
  EXPECT_THAT(made[0].data<float>(), ElementsAre(1, 1, 2));
  EXPECT_THAT(made[1].data<float>(), ElementsAre(1, 2, 3));
  const auto read = terms::as_fold(made[1]);
  ASSERT_TRUE(read);
  EXPECT_EQ(read->result, 1);
  EXPECT_THAT(read->over, ElementsAre(1));
  ASSERT_EQ(read->components.size(), 2u);
  EXPECT_EQ(read->components[0].op, "max");
  EXPECT_EQ(read->components[0].body.id(), x.id());
  EXPECT_THAT(read->components[0].axes, ElementsAre(0, 1));
  EXPECT_EQ(read->components[1].transform, "self * exp(old0 - new0)");
  EXPECT_EQ(terms::as_number(read->components[1].body), 1.0);
  const auto again =
      terms::fold(read->space, read->over, read->components, [&](const Dims&) { return read->where; });
  EXPECT_EQ(again[1].id(), made[1].id());
}

TEST(Terms, ScansAndScatters) {
  Graph g;
  Tensor x = g.tensor({4}, DType::i64, "x"), base = g.tensor({3}, DType::i64, "base");
  Tensor before = terms::scan({4}, 0, {{"sum", x, {0}}}, true)[0].keep(),
         behind = terms::scan({4}, 0, {{"max", x, {0}}}, false, true)[0].keep();
  Tensor pairs = terms::scatter(
                     base, x, [](const Dims& i) { return Dims{i[0] / 2}; }, ScatterOp::add,
                     [](const Dims& i) { return terms::less(i[0], 3); })
                     .keep();
  x.set({5, 1, 3, 2});
  base.set({100, 200, 300});
  g.execute();
  EXPECT_THAT(before.data<int64_t>(), ElementsAre(0, 5, 6, 9));
  EXPECT_THAT(behind.data<int64_t>(), ElementsAre(5, 3, 3, 2));
  EXPECT_THAT(pairs.data<int64_t>(), ElementsAre(106, 203, 300));
  const auto scan = terms::as_scan(before);
  ASSERT_TRUE(scan);
  EXPECT_TRUE(scan->exclusive && !scan->reverse);
  EXPECT_EQ(scan->along, 0);
  const auto scatter = terms::as_scatter(pairs);
  ASSERT_TRUE(scatter);
  EXPECT_EQ(scatter->how, ScatterOp::add);
  EXPECT_EQ(to_string(scatter->map), "[i0 // 2]");
  EXPECT_EQ(scatter->base.id(), base.id());
  EXPECT_FALSE(terms::as_number(x));
  EXPECT_EQ(terms::as_number(g.constant(2.5).expand({2, 2})), 2.5);
}

TEST(Terms, MistakesSayWhatToDo) {
  Graph g;
  Tensor x = g.tensor({4}, DType::f32, "x");
  const auto two = [](const Dims& i) { return Dims{i[0], i[0]}; };
  const auto far = [](const Dims& i) { return Dims{i[0] + 1}; };
  EXPECT_ERROR(terms::view(x, {4}, two), "[view] the map gives 2 indices for [4]");
  EXPECT_ERROR(terms::view(x, {4}, {}), "[view] there is no map");
  EXPECT_ERROR(terms::view(x, {4}, far), "[view] the index i0 + 1 leaves axis 0 of extent 4");
  EXPECT_ERROR(terms::fold({4}, {0}, {}), "[fold] there is no component");
  EXPECT_ERROR(terms::fold({4}, {0}, {{"avg", x, {0}}}),
               "[fold] 'avg' combines nothing: sum, prod, max, min, any, all do");
  EXPECT_ERROR(terms::fold({5}, {0}, {{"sum", x, {0}}}), "[fold] body 0: shapes differ: [4] x [5]");
  EXPECT_THAT(error_of([&] { terms::scan({4}, 0, {{"sum", x, {0}, "self + new1"}}); }),
              testing::StartsWith("[scan] the transform of component 0: "));
}

} // namespace
} // namespace luminal
