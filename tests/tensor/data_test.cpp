// tests/tensor/data_test.cpp -- data of tensors from the outside: nested values, dynamic sizes,
// deferred and borrowed memory, keep and drop.
#include "support.h"
#include <array>
#include <cmath>
#include <cstring>

namespace luminal {
namespace {

using namespace testing_tensor;
using testing::ElementsAre;
using testing::HasSubstr;

TEST(Data, SetTakesNestedValuesOfAnyKind) {
  Graph g;
  Tensor x = g.tensor({2, 3}, DType::f32, "x");
  const std::vector<float> want{1, 2, 3, 4, 5, 6};
  auto expect = [&](const char* what) {
    EXPECT_EQ(x.data<float>(), want) << what;
    x.set(std::vector<float>(6, 0));
  };
  x.set({{1, 2, 3}, {4, 5, 6}});
  expect("nested list of int");
  x.set({1.0, 2.0, 3.0, 4.0, 5.0, 6.0});
  expect("flat list of double");
  x.set(std::vector<std::vector<double>>{{1, 2, 3}, {4, 5, 6}});
  expect("vectors of vectors");
  x.set(std::array<std::array<int16_t, 3>, 2>{{{1, 2, 3}, {4, 5, 6}}});
  expect("arrays");
  const float array[2][3] = {{1, 2, 3}, {4, 5, 6}};
  x.set(array);
  expect("a C array");
  x.set(std::span<const float>(want));
  expect("a span");
  x.set(std::vector<BFloat16>{{0x3F80}, {0x4000}, {0x4040}, {0x4080}, {0x40A0}, {0x40C0}});
  expect("bf16");
  Tensor deep = g.tensor({1, 2, 1, 2, 1}), truth = g.tensor({3}, DType::boolean);
  deep.set({{{{{1.f}, {2.f}}}, {{{3.f}, {4.f}}}}});
  EXPECT_THAT(deep.data<int>(), ElementsAre(1, 2, 3, 4));
  truth.set(std::vector<bool>{true, false, true});
  EXPECT_THAT(truth.data<bool>(), ElementsAre(true, false, true));
  truth.set({0.5f, 0.f, -2.f});
  EXPECT_THAT(truth.data<int>(), ElementsAre(1, 0, 1));
  Tensor number = g.tensor({});
  number.set(2.5f);
  EXPECT_EQ(number.item<double>(), 2.5);
}

TEST(Data, ConversionSaturatesAndRoundsAsCastsDo) {
  Graph g;
  Tensor bytes = g.tensor({5}, DType::i8), half = g.tensor({2}, DType::f16), wide = g.tensor({1}, DType::f64);
  bytes.set({1.9f, -1.9f, 1000.f, -1000.f, NAN});
  EXPECT_THAT(bytes.data<int>(), ElementsAre(1, -1, 127, -128, 0));
  half.set({1.0 + 1.0 / 4096, 70000.0});
  EXPECT_THAT(half.data<double>(), ElementsAre(1, INFINITY));
  wide.set(std::vector<uint64_t>{uint64_t(1) << 63});
  EXPECT_THAT(wide.data<double>(), ElementsAre(0x1p63));
}

TEST(Data, ShapesAreChecked) {
  Graph g;
  Dim n = g.dim("n", 1, 8);
  Tensor x = g.tensor({2, 3}, DType::f32, "x"), y = g.tensor({n, 3}, DType::f32, "y");
  EXPECT_ERROR(x.set({{1, 2}, {3, 4}, {5, 6}}), "[set] x (f32[2, 3]): the values have shape [3, 2]");
  EXPECT_ERROR(x.set({1.f}), "[set] x is f32[2, 3], 6 elements; 1 were given");
  EXPECT_ERROR(x.set(std::vector<std::vector<int>>{{1, 2, 3}, {4, 5}}),
               "[set] the list [1] has 2 values where 3 are expected");
  EXPECT_ERROR(y.set({{1, 2}}), "[set] y (f32[n, 3]): the values have shape [1, 2] (n in 1..8)");
  EXPECT_ERROR(x.borrow(nullptr, 20), "[borrow] x (f32[2, 3]) takes 24 bytes; 20 were given");
  const std::vector<double> doubles(6);
  EXPECT_ERROR(x.borrow(std::span<const double>(doubles)),
               "[borrow] x (f32[2, 3]) cannot be read from memory of f64 in place; set converts");
  EXPECT_ERROR((x + 1).set({1.f}),
               "[set] data can only be given to a tensor made by tensor, weight or state");
  Tensor z = (y * 2).keep();
  g.set_dim("n", 2);
  y.set({{1, 2, 3}});
  EXPECT_ERROR(g.execute(),
               "[execute] tensor y is f32[n, 3]: 6 elements with n = 2; 3 were given at data_test.cpp:" +
                   std::to_string(__LINE__ - 3));
  EXPECT_ERROR((void)z.data<float>(),
               "[data] the value of f32[n, 3] is not there yet: execute the graph first");
}

TEST(Data, SetDynGivesSizesToo) {
  Graph g;
  Dim n = g.dim("n", 1, 8), m = g.dim("m", 1, 8);
  Tensor x = g.tensor({n, m}, DType::f32, "x"), both = g.tensor({n, n + m}, DType::f32, "both");
  Tensor y = (x.sum({0})).keep();
  x.set_dyn({{1, 2, 3}, {4, 5, 6}});
  g.execute();
  EXPECT_THAT(y.data<float>(), ElementsAre(5, 7, 9));
  x.set_dyn(std::vector<float>{1, 2, 3, 4, 5, 6}, {3, 2});
  g.execute();
  EXPECT_THAT(y.data<float>(), ElementsAre(9, 12));
  EXPECT_THAT(y.extents(), ElementsAre(2));
  both.set_dyn(std::vector<int>(24), {4, 6}); // m is 2
  EXPECT_ERROR(both.set_dyn(std::vector<int>(8), {4, 2}),
               "[set_dyn] both (f32[n, m + n]): the values have shape [4, 2], but m + n is 6");
  EXPECT_ERROR(x.set_dyn(std::vector<int>(9), {9, 1}),
               "[set_dyn] x (f32[n, m]): the values have shape [9, 1] (m in 1..8, n in 1..8)");
  EXPECT_ERROR(x.set_dyn(std::vector<int>(9), {3, 4}),
               "[set_dyn] x (f32[n, m]): shape [3, 4] has 12 elements; 9 were given");
  Tensor square = g.tensor({n, n}, DType::f32, "square");
  EXPECT_ERROR(square.set_dyn({{1, 2}}),
               "[set_dyn] square (f32[n, n]): the values have shape [1, 2], in which n would be 1 and 2");
  Graph h;
  Dim k = h.dim("k", 1, 8);
  Tensor twice = h.tensor({k * 2}, DType::f32, "twice");
  EXPECT_ERROR(twice.set_dyn({1, 2, 3, 4}),
               "[set_dyn] twice (f32[k*2]): k*2 cannot be known from the shape [4]: "
               "symbol 'k' has no value (see Graph::set_dim)");
  h.set_dyn_dim("k", 2);
  twice.set_dyn({1, 2, 3, 4});
  EXPECT_THAT(twice.data<int>(), ElementsAre(1, 2, 3, 4));
}

TEST(Data, DeferredValuesAreLoadedWhenNeededAndOnce) {
  Graph g;
  Tensor x = g.tensor({2}), w = g.weight("w", {2}), y = (x * w).keep(),
         other = g.tensor({2}, DType::f32, "other");
  int loads = 0;
  w.set_deferred([&] {
    loads++;
    return std::vector<double>{3, 4};
  });
  other.set_deferred([&](Tensor& t) {
    loads += 100;
    t.set({1, 2});
  });
  x.set({1.f, 2.f});
  EXPECT_EQ(loads, 0);
  g.execute();
  g.execute();
  EXPECT_EQ(loads, 1) << "once, and only what the graph needs";
  EXPECT_THAT(y.data<float>(), ElementsAre(3, 8));
  EXPECT_THAT(other.data<int>(), ElementsAre(1, 2));
  EXPECT_EQ(loads, 101);
  Tensor late = g.tensor({2}, DType::f32, "late");
  const int line = __LINE__ + 1;
  late.set_deferred([] { return std::vector<float>{1}; });
  EXPECT_EQ(error_of([&] { (void)late.data<float>(); }),
            "[set] late is f32[2], 2 elements; 1 were given" + at(__FILE__, line));
  late.set_deferred([](Tensor&) {});
  EXPECT_EQ(error_of([&] { (void)late.data<float>(); }),
            "[set_deferred] late (f32[2]): the callback set no value" + at(__FILE__, __LINE__ - 2));
}

TEST(Data, BorrowedMemoryIsReadInPlace) {
  Graph g;
  Tensor x = g.tensor({3}), y = (x + 1).keep();
  std::vector<float> memory{1, 2, 3};
  x.borrow(std::span<const float>(memory));
  EXPECT_EQ(static_cast<const void*>(x.bytes().data()), memory.data());
  g.execute();
  memory[1] = 10;
  g.execute();
  EXPECT_THAT(y.data<float>(), ElementsAre(2, 11, 4));
  auto owner = std::make_shared<std::vector<float>>(3, 5.f);
  std::weak_ptr<std::vector<float>> alive = owner;
  x.borrow(owner->data(), 12, owner);
  owner.reset();
  g.execute();
  EXPECT_THAT(y.data<float>(), ElementsAre(6, 6, 6));
  x.set({0, 0, 0});
  EXPECT_TRUE(alive.expired());
}

TEST(Data, KeepDropAndWhatLivesOn) {
  Graph g;
  Tensor x = g.tensor({2}, DType::f32, "x"), y = (x + 1).keep(), z = y * 2;
  z.retrieve();
  x.set({1, 2});
  EXPECT_ERROR((void)y.data<float>(), "[data] the value of f32[2] is not there yet: execute the graph first");
  g.execute();
  EXPECT_THAT(z.data<float>(), ElementsAre(4, 6));
  Tensor loose = z + 1;
  EXPECT_ERROR((void)loose.data<float>(),
               "[data] the value of f32[2] was not kept: call keep() on the tensor before execute");
  y.set_name("y");
  y.drop();
  EXPECT_ERROR((void)y.data<float>(),
               "[data] y (f32[2]) was dropped (at data_test.cpp:" + std::to_string(__LINE__ - 2) + ")");
  g.execute();
  EXPECT_THAT(z.data<float>(), ElementsAre(4, 6));
  EXPECT_ERROR((void)y.data<float>(),
               "[data] the value of y (f32[2]) was not kept: call keep() on the tensor before execute");
  x.drop();
  const std::string place = "data_test.cpp:" + std::to_string(__LINE__ - 1);
  EXPECT_ERROR(g.execute(), "[execute] tensor x (f32[2]) was dropped (at " + place + "); set it again");
  x.set({5, 6});
  y.keep();
  g.execute();
  EXPECT_THAT(y.data<float>(), ElementsAre(6, 7));
}

TEST(Data, StructuredBindings) {
  Graph g;
  Dim n = g.dim("n", 1, 9);
  Tensor x = g.tensor({n, 3}, DType::f32, "x"), cube = g.tensor({1, 2, 3}), deep = g.tensor({1, 2, 3, 4, 5});
  auto [rows, columns] = x.dims2();
  EXPECT_EQ(rows, n);
  EXPECT_EQ(columns.value(), 3);
  auto [a, b, c] = cube.dims3();
  EXPECT_EQ(a.value() + 10 * b.value() + 100 * c.value(), 321);
  EXPECT_EQ(deep.dims5()[4].value(), 5);
  EXPECT_EQ(g.tensor({7}).dims1()[0].value(), 7);
  EXPECT_EQ(deep.dims().size(), 5u);
  EXPECT_ERROR(x.dims3(), "[dims3] 3 axes are asked for, x (f32[n, 3]) has 2");
  EXPECT_ERROR((void)x.item<float>(), "[item] [n, 3]: symbol 'n' has no value (see Graph::set_dim)");
  EXPECT_ERROR((void)cube.item<float>(), "[item] input0 (f32[1, 2, 3]) has 6 elements, not one");
}

TEST(Data, ConstantsAndIota) {
  Graph g;
  Tensor table = g.constant({{1, 2}, {3, 4}}, {2, 2}).keep(),
         flat = g.constant(std::vector<float>{1, 2}, {1, 2}).keep();
  Tensor grid = g.iota({2, 3}, [](const Dims& i) { return i[0] * 10 + i[1]; }).keep();
  Tensor named = g.named_tensor("named", {2}), sum = (named + flat).keep();
  named.set({1, 1});
  g.execute();
  EXPECT_THAT(table.data<int>(), ElementsAre(1, 2, 3, 4));
  EXPECT_EQ(table.dtype(), DType::i32);
  EXPECT_THAT(grid.data<int>(), ElementsAre(0, 1, 2, 10, 11, 12));
  EXPECT_THAT(sum.data<int>(), ElementsAre(2, 3));
  EXPECT_ERROR(g.constant({{1, 2}}, {2, 1}), "[constant] the shape is [2, 1], the values have shape [1, 2]");
}

TEST(Data, ResetForgetsDataAndKeepsTheCode) {
  Graph g;
  Dim n = g.dim("n", 1, 4);
  Tensor x = g.tensor({n}, DType::f32, "x"), s = g.state("s", {1}), y = (x + s).keep();
  g.update(s, s + 1);
  x.set_dyn({1, 2});
  g.execute();
  g.execute();
  EXPECT_THAT(y.data<float>(), ElementsAre(2, 3));
  g.reset();
  EXPECT_ERROR((void)y.data<float>(), "[data] [n]: symbol 'n' has no value (see Graph::set_dim)");
  EXPECT_ERROR(g.execute(), "[execute] dimension n has no value (see set_dim)");
  x.set_dyn({1, 2, 3});
  g.execute();
  EXPECT_THAT(y.data<float>(), ElementsAre(1, 2, 3));
}

TEST(Data, AFailedExecuteLeavesNoStaleValues) {
  Graph g;
  Tensor table = g.tensor({2}), ids = g.tensor({1}, DType::i32, "ids"), y = table.gather(ids).keep();
  table.set({1, 2});
  ids.set({1});
  g.execute();
  EXPECT_THAT(y.data<float>(), ElementsAre(2));
  ids.set({5});
  EXPECT_THAT(error_of([&] { g.execute(); }), HasSubstr("index ids is out of range"));
  EXPECT_ERROR((void)y.data<float>(), "[data] the value of f32[1] is not there yet: execute the graph first");
}

} // namespace
} // namespace luminal
