// operand_copy_test.cpp -- the copy between a view and what it reads: both views together are the
// view, element by element, and the copy holds each place once.
#include "compile/operand_copy.h"
#include <gtest/gtest.h>
#include <random>

namespace luminal::compile {
namespace {

Expr at(int d, int64_t extent) { return axis_symbol(d, extent); }

/// The element of the source that a view reads at a point; nothing where it fills.
std::optional<std::vector<int64_t>> element(const ViewAttr& view, const std::vector<int64_t>& point) {
  ExprMap<int64_t> bound;
  for (size_t d = 0; d < view.shape.size(); d++)
    if (const Expr axis = axis_symbol(int(d), view.shape[d]); axis.is_symbol()) bound[axis] = point[d];
  if (!evaluate(view.predicate, bound).value()) return {};
  std::vector<int64_t> index;
  for (Expr e : view.map) index.push_back(evaluate(e, bound).value());
  return index;
}

void expect_same(const ViewAttr& view, const OperandCopy& copy) {
  std::vector<int64_t> point(view.shape.size());
  for (bool more = true; more;) {
    const auto want = element(view, point), place = element(copy.outer, point);
    ASSERT_TRUE(place);
    for (size_t d = 0; d < place->size(); d++) {
      ASSERT_GE((*place)[d], 0);
      ASSERT_LT((*place)[d], copy.inner.shape[d].value());
    }
    ASSERT_EQ(element(copy.inner, *place), want);
    more = false;
    for (size_t d = point.size(); d-- > 0 && !more;) {
      more = ++point[d] < view.shape[d].value();
      if (!more) point[d] = 0;
    }
  }
  EXPECT_EQ(copy.inner.fill, view.fill);
}

/// [out, in, rows, columns, 3, 3], windows of an image through `map` of places 0 .. size + 1.
ViewAttr windows(int64_t size, const std::function<Expr(Expr)>& map,
                 const std::function<Expr(Expr)>& inside) {
  const Expr p = at(2, size) + at(4, 3), q = at(3, size) + at(5, 3);
  ViewAttr view;
  view.shape = {4, 5, size, size, 3, 3};
  view.map = {at(1, 5), map(p), map(q)};
  view.predicate = logical_and(inside(p), inside(q));
  return view;
}

TEST(OperandCopy, OfWindowsIsTheImageWithItsEnds) {
  const auto always = [](Expr) { return Expr(1); };
  struct Case {
    ViewAttr view;
    Shape source;
  };
  const std::vector<Case> cases = {
      {windows(
           8, [](Expr e) { return e - 1; }, [](Expr e) { return logical_and(ge(e, 1), lt(e, 9)); }),
       {5, 8, 8}},
      {windows(
           8, [](Expr e) { return floordiv(e + 1, 2) - 1; },
           [](Expr e) { return logical_and(ge(e, 1), lt(e, 9)); }),
       {5, 4, 4}},
      {windows(
           8, [](Expr e) { return min(max(e - 1, 1 - e), 14 - max(e - 1, 1 - e)); }, always),
       {5, 8, 8}},
      {windows(
           8, [](Expr e) { return min(max(e - 1, 0), 7); }, always),
       {5, 8, 8}},
      {windows(
           8, [](Expr e) { return mod(e + 7, 8); }, always),
       {5, 8, 8}},
      {windows(
           8, [](Expr e) { return 9 - e; }, always),
       {5, 10, 10}},
  };
  for (const Case& c : cases) {
    const auto copy = copy_of_operand(c.view, c.source);
    ASSERT_TRUE(copy) << to_string(c.view.map[1]);
    EXPECT_EQ(copy->inner.shape, (Shape{5, 10, 10})) << to_string(c.view.map[1]);
    expect_same(c.view, *copy);
  }
}

TEST(OperandCopy, StandsInTheOrderOfTheReader) {
  ViewAttr view; // the columns of a matrix, for 20 others
  view.shape = {6, 20, 7};
  view.map = {at(2, 7), at(0, 6)};
  const auto copy = copy_of_operand(view, {7, 6});
  ASSERT_TRUE(copy);
  EXPECT_EQ(copy->inner.shape, (Shape{6, 7}));
  expect_same(view, *copy);
}

TEST(OperandCopy, HoldsRowsThatIndicesFind) {
  const Expr row = hole_symbol(0, {0, 8});
  ViewAttr rows; // of a table, by indices [1, 6], for 20 others
  rows.shape = {1, 6, 20, 7};
  rows.map = {row, at(3, 7)};
  rows.holes.push_back({1, {0, 1}, {0, 8}, OutOfRange::error});
  auto copy = copy_of_operand(rows, {9, 7});
  ASSERT_TRUE(copy);
  EXPECT_EQ(copy->inner.shape, (Shape{6, 7, 1}));
  EXPECT_EQ(copy->inner.map, (std::vector<Expr>{row, at(1, 7)}));
  ASSERT_EQ(copy->inner.holes.size(), 1u);
  EXPECT_EQ(copy->inner.holes[0], (Hole{1, {2, 0}, {0, 8}, OutOfRange::error}));
  EXPECT_EQ(copy->outer.map, (std::vector<Expr>{at(1, 6), at(3, 7), 0}));
  EXPECT_TRUE(copy->outer.holes.empty());
  // Windows over what each place has an index of its own for are copied as they are: along both
  // axes.
  ViewAttr windows;
  windows.shape = {6, 3, 20};
  windows.map = {hole_symbol(0, {0, 3}), at(0, 6) + at(1, 3)};
  windows.holes.push_back({1, {0}, {0, 3}, OutOfRange::clamp});
  copy = copy_of_operand(windows, {4, 8});
  ASSERT_TRUE(copy);
  EXPECT_EQ(copy->inner.shape, (Shape{6, 3}));
  EXPECT_EQ(copy->inner.holes[0].axes, std::vector<int>{0});
  EXPECT_EQ(copy->inner.map[1], at(0, 6) + at(1, 3));
}

TEST(OperandCopy, IsNotMadeOfWhatLiesSoOrIsReadSeldom) {
  ViewAttr rows;
  rows.shape = {6, 20, 7};
  rows.map = {at(0, 6), at(2, 7)};
  EXPECT_FALSE(copy_of_operand(rows, {6, 7}));
  ViewAttr once; // a transpose
  once.shape = {6, 7};
  once.map = {at(1, 7), at(0, 6)};
  EXPECT_FALSE(copy_of_operand(once, {7, 6}));
  ViewAttr dynamic = rows;
  dynamic.shape[0] = Expr::symbol("n", {1, 9});
  EXPECT_FALSE(copy_of_operand(dynamic, {9, 7}));
}

/// Random sums of axes in divisions, minima and comparisons.
TEST(OperandCopy, OfRandomViewsIsTheSame) {
  std::mt19937 random(3);
  const auto below = [&](int64_t n) { return int64_t(random() % unsigned(n)); };
  int made = 0;
  for (int round = 0; round < 400; round++) {
    ViewAttr view;
    const int axes = 3 + int(below(3));
    for (int d = 0; d < axes; d++) view.shape.push_back(1 + below(5));
    view.shape.push_back(6); // along which nothing moves
    Shape source;
    const int dims = 1 + int(below(3));
    for (int d = 0; d < dims; d++) {
      const int a = int(below(axes)), b = int(below(axes));
      Expr e = at(a, view.shape[size_t(a)].value()) * (1 + below(3));
      if (below(2)) e += at(b, view.shape[size_t(b)].value()) * (below(2) ? 1 : -1);
      e += below(4);
      const Expr sum = e;
      switch (below(5)) {
      case 0: e = floordiv(e, 2); break;
      case 1: e = mod(e, 3); break;
      case 2: e = max(min(e, 4), 1); break;
      default: break;
      }
      if (below(3) == 0) view.predicate = logical_and(view.predicate, lt(sum, 1 + below(6)));
      view.map.push_back(e);
      source.push_back(64);
    }
    if (const auto copy = copy_of_operand(view, source)) {
      made++;
      expect_same(view, *copy);
      if (testing::Test::HasFatalFailure()) FAIL() << round;
    }
  }
  EXPECT_GT(made, 100);
}

} // namespace
} // namespace luminal::compile
