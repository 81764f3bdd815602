// tests/tensor/empty_test.cpp -- extents that are the constant 0: scans, scatters, gathers, sorts,
// products of nothing, by plan and interpreter.
#include "ir/interp.h"
#include "support.h"
#include "tensor/graph_state.h"

namespace luminal {
namespace {

using namespace testing_tensor;

TEST(Empty, EveryOperationTakesAConstantExtentOfZero) {
  Graph g;
  Tensor none = g.tensor({0}, DType::f32, "none"), wide = g.tensor({3, 0}, DType::f32, "wide"),
         flat = g.tensor({0, 3}, DType::f32, "flat"), base = g.tensor({2, 3}, DType::f32, "base"),
         ids = g.tensor({0}, DType::i64, "ids"), index = g.tensor({0, 3}, DType::i64, "index");
  std::vector<std::pair<std::string, Tensor>> made;
  auto add = [&](std::string name, Tensor value) { made.emplace_back(std::move(name), value.keep()); };
  for (int axis : {0, 1}) {
    const std::string along = std::to_string(axis);
    add("cumsum" + along, wide.cumsum(axis));
    add("cumprod" + along, flat.cumprod(axis));
    add("cummax" + along, wide.cummax(axis).values);
    add("logcumsumexp" + along, flat.logcumsumexp(axis));
    add("sort" + along, wide.sort(axis).values);
    add("argsort" + along, flat.argsort(axis));
    add("sum" + along, wide.sum({axis}));
    add("flip" + along, flat.flip(axis));
    add("pad" + along, flat.pad(axis, 1, 1, 7));
  }
  add("scatter", base.scatter(0, index, flat));
  add("scatter of numbers", base.scatter(0, index, 5, ScatterOp::add));
  add("scatter into nothing", flat.scatter(0, index, flat, ScatterOp::max));
  add("index_add", index_add(base, 0, ids, flat));
  add("index_copy", index_copy(base, 0, ids, flat));
  add("gather", base.gather(ids));
  add("gather from nothing", flat.gather(ids));
  add("gather along", base.gather(0, index));
  add("matmul", flat.matmul(wide));
  add("matmul over nothing", wide.matmul(flat));
  add("concat", concat({flat, base}, 0));
  add("update", base.update(0, 2, flat));
  add("terms scan", terms::scan({0}, 0, {{"sum", none, {0}}})[0]);
  add("terms scatter", terms::scatter(none, none, [](const Dims& i) { return i; }));
  add("terms scatter of nothing",
      terms::scatter(base, flat, [](const Dims& i) { return i; }, ScatterOp::add));
  add("tril", flat.tril());
  add("repeat", none.repeat({2}));
  add("roll", wide.roll(1, 1));
  add("windows", wide.windows(0, 2));
  add("softmax", wide.softmax(-1));
  none.set(std::vector<float>{});
  wide.set(std::vector<float>{});
  flat.set(std::vector<float>{});
  ids.set(std::vector<int64_t>{});
  index.set(std::vector<int64_t>{});
  base.set({{1, 2, 3}, {4, 5, 6}});
  g.execute();
  Bindings bindings;
  for (const Tensor& x : {none, wide, flat, base, ids, index}) {
    HostTensor value{x.dtype(), {}, {}};
    for (Dim extent : x.shape()) value.shape.push_back(extent.value());
    value.data.resize(size_t(storage_bytes(x.dtype(), value.count())));
    if (!value.data.empty()) x.read(value.data.data(), x.dtype());
    bindings.inputs[x.name()] = std::move(value);
  }
  const Module module = g.state()->snapshot(); // the interpreter refers to it
  Interpreter interpreter(module, bindings);
  for (const auto& [name, value] : made) {
    const HostTensor want = interpreter.result(g.state()->kept.at(node_id(value)));
    ASSERT_EQ(value.element_count(), want.count()) << name;
    std::vector<std::byte> got(want.data.size());
    if (!got.empty()) value.read(got.data(), want.dtype);
    EXPECT_EQ(got, want.data) << name;
  }
}

} // namespace
} // namespace luminal
