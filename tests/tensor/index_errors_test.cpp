// tests/tensor/index_errors_test.cpp -- every error of movement, indexing, scans and sorting, word
// for word, with the caller's line.
#include "luminal/luminal.h"
#include <gtest/gtest.h>

namespace luminal::index_errors_test {
namespace {

constexpr std::string_view file = " at index_errors_test.cpp:";

/// The text without its place, which is checked to be one of the lines around `line`.
template <class F> std::string error_of(F&& f, int line) {
  try {
    f();
  } catch (const Error& error) {
    std::string text = error.what();
    size_t place = text.rfind(file);
    if (place == std::string::npos) return "no place: " + text;
    EXPECT_NEAR(std::stoi(text.substr(place + file.size())), line, 3) << text;
    return text.substr(0, place);
  }
  return "no error";
}
#define EXPECT_REFUSED(expression, text) EXPECT_EQ(error_of([&] { (void)(expression); }, __LINE__), text)

struct Shapes : testing::Test {
  Graph g;
  Dim n = g.dim("n", 0, 9);
  Tensor line = g.tensor({6}), matrix = g.tensor({2, 3}), cube = g.tensor({2, 3, 4}), scalar = g.tensor({}),
         dynamic = g.tensor({2, n}), ids = g.tensor({4}, DType::i64), bad_ids = g.tensor({4}),
         mask = g.tensor({2, 3}, DType::boolean), index = g.tensor({2, 3}, DType::i64);
};

TEST_F(Shapes, Axes) {
  EXPECT_REFUSED(cube.permute({0, 1}), "[permute] 2 axes are named, [2, 3, 4] has 3: name each once");
  EXPECT_REFUSED(cube.permute({0, 1, 1}), "[permute] axis 1 is named twice");
  EXPECT_REFUSED(cube.permute({0, 1, 3}), "[permute] axis 3 does not exist in a tensor of 3 axes");
  EXPECT_REFUSED(cube.transpose(0, -4), "[transpose] axis -4 does not exist in a tensor of 3 axes");
  EXPECT_REFUSED(cube.t(), "[t] [2, 3, 4] has more than two axes (see transpose, permute)");
  EXPECT_REFUSED(cube.movedim({0, 1}, {2}), "[movedim] 2 axes are to move to 1 places");
  EXPECT_REFUSED(cube.movedim({0, 0}, {1, 2}), "[movedim] axis 0 is named twice");
  EXPECT_REFUSED(cube.reshape({5, 5}), "[reshape] [2, 3, 4] has 24 elements, [5, 5] has 25");
  EXPECT_REFUSED(cube.reshape({-1, -1}), "[reshape] only one extent may be -1");
  EXPECT_REFUSED(cube.reshape({-1, 0}),
                 "[reshape] [2, 3, 4] to [-1, 0]: beside an extent of 0, -1 could be anything");
  EXPECT_REFUSED(cube.reshape({-1, 5}), "[reshape] [2, 3, 4] has 24 elements, [4, 5] has 20");
  EXPECT_REFUSED(cube.flatten(2, 1), "[flatten] the first axis 2 comes after the last axis 1");
  EXPECT_REFUSED(cube.unflatten(2, {3, 2}), "[unflatten] axis 2 of [2, 3, 4] has 4 elements, [3, 2] has 6");
  EXPECT_REFUSED(cube.split_dims(2, 3), "[split_dims] 3 does not divide 4 of [2, 3, 4]");
  EXPECT_REFUSED(cube.squeeze(1), "[squeeze] axis 1 of [2, 3, 4] is not 1 (squeeze() drops those that are)");
  EXPECT_REFUSED(matrix.expand({2, 4}), "[expand] shape [2, 3] does not broadcast to [2, 4]");
  EXPECT_REFUSED(matrix.expand({-1, 2, 3}),
                 "[expand] -1 keeps an extent, and the new axis 0 of [-1, 2, 3] has none");
  EXPECT_REFUSED(matrix.expand_as(line), "[expand_as] shape [2, 3] does not broadcast to [6]");
  EXPECT_REFUSED(matrix.unsqueeze(3), "[unsqueeze] axis 3 does not exist in a tensor of 3 axes");
  EXPECT_REFUSED(Tensor().t(), "[t] a tensor is empty: it was never made from a graph");
}

TEST_F(Shapes, Slices) {
  EXPECT_REFUSED(line.slice(0, 0, 6, 0), "[slice] the step is 0");
  EXPECT_REFUSED(line.slice(0, n + 7, 10),
                 "[slice] n + 7 is outside axis 0 of [6]: only constants are clamped");
  EXPECT_REFUSED(line.slice(0, n + 4, 3), "[slice] n + 4..3 of axis 0 of [6] ends before it begins");
  EXPECT_REFUSED(matrix.slice({{}, {}, {}}), "[slice] 3 slices for [2, 3], which has 2 axes");
  EXPECT_REFUSED(matrix.narrow(1, 2, 2), "[narrow] 2 elements from 2 on are outside axis 1 of [2, 3]");
  EXPECT_REFUSED(matrix.select(1, 3), "[select] index 3 is outside axis 1 of [2, 3]");
  EXPECT_REFUSED(matrix.select(1, -4), "[select] index -4 is outside axis 1 of [2, 3]");
  EXPECT_REFUSED(matrix.pad(1, -2, -2),
                 "[pad] (-2, -2) does not fit axis 1 of [2, 3]: more cannot be cut off than is there");
  EXPECT_REFUSED(matrix.pad({{1, 3, 0}}, PadMode::reflect),
                 "[pad] (3, 0) does not fit axis 1 of [2, 3]: reflection needs fewer than the axis has, and "
                 "none negative");
  EXPECT_REFUSED(matrix.pad({{1, -1, 0}}, PadMode::replicate),
                 "[pad] (-1, 0) does not fit axis 1 of [2, 3]: replication needs an element to repeat, and "
                 "none negative");
  EXPECT_REFUSED(matrix.pad({{1, 4, 0}}, PadMode::circular),
                 "[pad] (4, 0) does not fit axis 1 of [2, 3]: circular padding takes at most the axis, and "
                 "none negative");
  EXPECT_REFUSED(matrix.pad({{1, 1, 0}, {-1, 1, 0}}), "[pad] axis 1 is named twice");
  EXPECT_REFUSED(matrix.flip({0, -2}), "[flip] axis 0 is named twice");
  EXPECT_REFUSED(matrix.roll(Dims{1, 2}, {0}), "[roll] 2 shifts for 1 axes");
  EXPECT_REFUSED(matrix.tile({-1}), "[tile] -1 times: a count may not be negative");
  EXPECT_REFUSED(matrix.repeat({2}),
                 "[repeat] 1 counts for [2, 3]: give one for each axis, new axes first (see tile)");
  EXPECT_REFUSED(matrix.repeat_interleave(-1, 0),
                 "[repeat_interleave] -1 times: the count may not be negative");
  EXPECT_REFUSED(matrix.windows(1, 0), "[windows] size 0, stride 1 and dilation 1 must be positive");
  EXPECT_REFUSED(matrix.windows(1, 3, 1, 2), "[windows] a window reaches over 5 elements, axis 1 has 3");
  EXPECT_REFUSED(windows(matrix, {0, 1}, {2}), "[windows] 1 sizes, 2 strides and 2 dilations for 2 axes");
  EXPECT_REFUSED(
      excise(line, 0, 1),
      "[excise] 0 elements are kept and 1 left out: the first must be positive, the second not negative");
  EXPECT_REFUSED(rot90(matrix, 1, 1, -1), "[rot90] axis 1 is named twice");
}

TEST_F(Shapes, JoinsAndDiagonals) {
  EXPECT_REFUSED(concat({}, 0), "[concat] nothing to join: give at least one tensor");
  EXPECT_REFUSED(concat({matrix, line}, 0), "[concat] shapes [2, 3] and [6] differ outside axis 0");
  EXPECT_REFUSED(concat({scalar, scalar}, 0), "[concat] scalars have no axis to be joined along (see stack)");
  EXPECT_REFUSED(stack({matrix, line}),
                 "[stack] shapes [2, 3] and [6] differ: all parts must have one shape");
  Graph other;
  EXPECT_REFUSED(concat({matrix, other.tensor({2, 3})}, 0),
                 "[concat] the tensors belong to different graphs");
  EXPECT_REFUSED(line.split(Dims{1, 2}), "[split] sizes [1, 2] add up to 3, axis 0 of [6] has 6");
  EXPECT_REFUSED(line.split(Dims{7, -1}), "[split] a size of -1 is negative");
  EXPECT_REFUSED(line.split(int64_t(0)), "[split] parts of 0 elements: the size must be positive");
  EXPECT_REFUSED(
      dynamic.split(int64_t(2), 1),
      "[split] axis 1 of [2, n] has no fixed size, so the number of parts is not known: give all sizes");
  EXPECT_REFUSED(line.chunk(0), "[chunk] 0 parts: there must be at least one");
  EXPECT_REFUSED(dynamic.chunk(2, 1), "[chunk] axis 1 of [2, n] is not known to be a multiple of 2, so the "
                                      "number of parts is not fixed: split it by sizes");
  EXPECT_REFUSED(dynamic.unbind(1),
                 "[unbind] axis 1 of [2, n] has no fixed size, so the number of parts is not known");
  EXPECT_REFUSED(meshgrid({line, matrix}),
                 "[meshgrid] [2, 3] is not a line of coordinates: give tensors of one axis");
  EXPECT_REFUSED(line.tril(), "[tril] [6] is not a matrix: two axes are needed");
  EXPECT_REFUSED(line.diagonal(), "[diagonal] [6] is not a matrix: two axes are needed");
  EXPECT_REFUSED(cube.diagonal(0, 1, -2), "[diagonal] axis 1 is named twice");
  EXPECT_REFUSED(diag(cube), "[diag] [2, 3, 4] has neither one nor two axes (see diagonal, diag_embed)");
  EXPECT_REFUSED(diag_embed(scalar), "[diag_embed] a scalar has no axis to be put on a diagonal");
  EXPECT_REFUSED(trace(cube), "[trace] [2, 3, 4] is not a matrix: two axes are needed (see diagonal)");
}

TEST_F(Shapes, GatherAndScatter) {
  EXPECT_REFUSED(matrix.gather(bad_ids), "[gather] ids must be integers, they are f32");
  EXPECT_REFUSED(scalar.gather(ids), "[gather] a scalar has no rows");
  EXPECT_REFUSED(scalar.index_select(0, ids), "[index_select] a scalar has no axis to be indexed");
  EXPECT_REFUSED(cube.gather(1, index),
                 "[gather] an index of shape [2, 3] does not fit [2, 3, 4]: it has the "
                 "same axes, none longer except axis 1");
  EXPECT_REFUSED(cube.take_along(index, 1),
                 "[take_along] an index of shape [2, 3] does not fit [2, 3, 4]: it has as many axes");
  EXPECT_REFUSED(embedding(line, ids), "[embedding] the table is [6], expected [rows, width]");
  EXPECT_REFUSED(embedding(matrix, ids, 2), "[embedding] padding_idx 2 is not a row of [2, 3]");
  EXPECT_REFUSED(index_get(line, {ids, ids}), "[index_get] 2 index tensors for [6]");
  EXPECT_REFUSED(index_get(matrix, {ids, index}),
                 "[index_get] shapes [4] and [2, 3] do not broadcast: 4 and 3 differ (axes are aligned from "
                 "the right; an extent of 1 stretches)");
  EXPECT_REFUSED(gather_nd(matrix, index),
                 "[gather_nd] the last axis of the index [2, 3] holds 1 to 2 coordinates of [2, 3]");
  EXPECT_REFUSED(matrix.scatter(1, index, line),
                 "[scatter] an index of shape [2, 3] does not fit [6]: it has the same axes, none longer");
  EXPECT_REFUSED(index.scatter(1, index, matrix),
                 "[scatter] values of type f32 do not go into i64 without loss: cast them");
  EXPECT_REFUSED(
      index_add(matrix, 1, ids, matrix),
      "[index_add] ids [4] and values [2, 3] do not fit axis 1 of [2, 3]: ids have one axis, values "
      "as many entries along axis 1");
  EXPECT_REFUSED(index_put(line, {}, 1), "[index_put] 0 index tensors for [6]");
  EXPECT_REFUSED(matrix.update(0, 1, matrix), "[update] 2 values from 1 on do not fit axis 0 of [2, 3]");
  EXPECT_REFUSED(one_hot(bad_ids, 3), "[one_hot] ids must be integers, they are f32");
  EXPECT_REFUSED(one_hot(ids, -1), "[one_hot] -1 classes: the number may not be negative");
  EXPECT_REFUSED(nonzero(line, -1), "[nonzero] a capacity of -1: it may not be negative");
  EXPECT_REFUSED(masked_select(matrix, index, 3), "[masked_select] the mask must be bool, it is i64");
  EXPECT_REFUSED(searchsorted(matrix, cube),
                 "[searchsorted] sorted [2, 3] and values [2, 3, 4] do not fit: "
                 "sorted has one axis, or all but the last in common with values");
  EXPECT_REFUSED(bucketize(line, matrix), "[bucketize] the boundaries are [2, 3], expected one axis");
  EXPECT_REFUSED(bincount(ids, 0), "[bincount] 0 bins: there must be at least one");
  EXPECT_REFUSED(bincount(index, 3), "[bincount] ids are [2, 3], expected one axis (see flatten)");
  EXPECT_REFUSED(bincount(ids, 3, line), "[bincount] weights [6] do not fit ids [4]: one weight for each");
  EXPECT_REFUSED(histc(line, 3, 1, 1), "[histc] 1..1 is not a range: the first must be less");
  EXPECT_REFUSED(histc(ids, 3, 0, 1), "[histc] the elements must be floats, they are i64");
}

TEST_F(Shapes, ScansAndOrder) {
  EXPECT_REFUSED(matrix.cumsum(2), "[cumsum] axis 2 does not exist in a tensor of 2 axes");
  EXPECT_REFUSED(scalar.cummax(1), "[cummax] axis 1 does not exist in a tensor of 1 axes");
  EXPECT_REFUSED(diff(scalar), "[diff] a scalar has no neighbours");
  EXPECT_REFUSED(diff(line, -1), "[diff] -1 times: the count may not be negative");
  EXPECT_REFUSED(matrix.sort(2), "[sort] axis 2 does not exist in a tensor of 2 axes");
  EXPECT_REFUSED(matrix.topk(4), "[topk] 4 elements of axis 1 of [2, 3]: it has 3");
  EXPECT_REFUSED(kthvalue(matrix, 0), "[kthvalue] element 0 (counted from 1) of axis 1 of [2, 3]: it has 3");
  EXPECT_REFUSED(median(matrix.slice(1, 0, 0)), "[median] axis 1 of [2, 0] has no elements");
}

/// What is found out when it runs names the operation and the line that built it.
TEST(IndexErrors, OutOfRangeNamesTheOperationAndItsLine) {
  struct Case {
    const char* op;
    std::function<Tensor(const Tensor& x, const Tensor& ids)> make;
  };
  const int line = __LINE__; // the operations stand in the lines below this one
  const std::vector<Case> cases{
      {"gather", [](const Tensor& x, const Tensor& i) { return x.gather(i); }},
      {"gather", [](const Tensor& x, const Tensor& i) { return x.gather(0, i.unsqueeze(1)); }},
      {"index_select", [](const Tensor& x, const Tensor& i) { return x.index_select(0, i); }},
      {"embedding", [](const Tensor& x, const Tensor& i) { return embedding(x, i); }},
      {"index_get", [](const Tensor& x, const Tensor& i) { return index_get(x, {i}); }},
      {"scatter", [](const Tensor& x, const Tensor& i) { return x.scatter(0, i.unsqueeze(1), 1); }},
      {"index_add", [](const Tensor& x, const Tensor& i) { return index_add(x, 0, i, x.slice(0, 0, 2)); }},
      {"index_put", [](const Tensor& x, const Tensor& i) { return index_put(x, {i}, 1); }},
      {"gather_nd", [](const Tensor& x, const Tensor& i) { return gather_nd(x, i.unsqueeze(1)); }},
  };
  for (size_t k = 0; k < cases.size(); ++k) {
    Graph g;
    Tensor x = g.tensor({3, 2}), ids = g.tensor({2}, DType::i32, "ids");
    Tensor y = cases[k].make(x, ids).keep();
    x.set(std::vector<float>(6, 1.f));
    for (int bad : {3, -1}) {
      ids.set({0, bad});
      std::string text;
      try {
        g.execute();
      } catch (const Error& error) {
        text = error.what();
      }
      const std::string prefix = "[execute] [" + std::string(cases[k].op) +
                                 " at index_errors_test.cpp:" + std::to_string(line + 2 + int(k)) + "] ";
      EXPECT_EQ(text.substr(0, prefix.size()), prefix) << cases[k].op;
      EXPECT_NE(text.find("is out of range: element 1 is " + std::to_string(bad) +
                          ", allowed are 0..2 at index_errors_test.cpp:"),
                std::string::npos)
          << text;
    }
    ids.set({2, 0});
    g.execute(); // and goes on
  }
}

/// Wherever it stands, and however far outside it lies.
TEST(IndexErrors, OneOutsideAmongManyIsFound) {
  Graph g;
  Tensor table = g.tensor({7}), ids = g.tensor({21}, DType::i64, "ids"),
         small = g.tensor({21}, DType::i32, "small");
  Tensor a = table.gather(ids).keep(), b = table.gather(small).keep();
  table.set(std::vector<float>{0, 1, 2, 3, 4, 5, 6});
  const auto text = [&] {
    try {
      g.execute();
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  std::vector<int64_t> good(21);
  for (size_t i = 0; i < good.size(); i++) good[i] = int64_t(i % 7);
  const std::vector<int32_t> fine(good.begin(), good.end());
  for (size_t at = 0; at < good.size(); at++)
    for (int64_t bad : {int64_t(-1), int64_t(7), INT64_MIN, INT64_MAX, INT64_MIN + 6, int64_t(1) << 32,
                        int64_t(INT32_MAX), int64_t(INT32_MIN)}) {
      std::vector<int64_t> values = good;
      values[at] = bad;
      ids.set(values), small.set(fine);
      const std::string wanted = "index ids is out of range: element " + std::to_string(at) + " is " +
                                 std::to_string(bad) + ", allowed are 0..6";
      EXPECT_NE(text().find(wanted), std::string::npos) << wanted;
      if (bad != int32_t(bad)) continue;
      std::vector<int32_t> narrow = fine;
      narrow[at] = int32_t(bad);
      ids.set(good), small.set(narrow);
      EXPECT_NE(text().find("index small is out of range: element " + std::to_string(at)), std::string::npos);
    }
  ids.set(good), small.set(fine);
  EXPECT_EQ(text(), "");
  EXPECT_EQ(a.data<float>(), b.data<float>());
}

TEST(IndexErrors, TheSizeOfTheMomentIsWhatCounts) {
  Graph g;
  Dim n = g.dim("n", 1, 100);
  Tensor table = g.tensor({n, 2}), ids = g.tensor({1}, DType::i64, "ids");
  Tensor row = table.gather(ids).keep();
  g.set_dim("n", 5);
  table.set(std::vector<float>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9});
  ids.set({int64_t(4)});
  g.execute();
  EXPECT_EQ(row.data<float>(), (std::vector<float>{8, 9}));
  ids.set({int64_t(5)});
  try {
    g.execute();
    ADD_FAILURE() << "row 5 of 5 was read";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("index ids is out of range: element 0 is 5, allowed are 0..4"),
              std::string::npos)
        << error.what();
  }
}

TEST(IndexErrors, WhatIsLeftOpenIsCheckedAtEachStep) {
  Graph g;
  Dim n = g.dim("n", 0, 10);
  Tensor x = g.tensor({n});
  Tensor y = x.narrow(0, 2, 3).keep();
  g.set_dim("n", 5);
  x.set(std::vector<float>{0, 1, 2, 3, 4});
  g.execute();
  EXPECT_EQ(y.data<float>(), (std::vector<float>{2, 3, 4}));
  g.set_dim("n", 4);
  x.set(std::vector<float>{0, 1, 2, 3});
  EXPECT_THROW(g.execute(), Error);
}

} // namespace
#undef EXPECT_REFUSED
} // namespace luminal::index_errors_test
