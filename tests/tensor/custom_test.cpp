// tests/tensor/custom_test.cpp -- what users add: operations, kernels, functions on the host, terms in text form; and reading terms.
#include "support.h"
#include "sweep.h"
#include <cmath>

namespace luminal {
namespace {

using namespace testing_tensor;
using testing::ElementsAre;
using testing::HasSubstr;

TEST(UserOperations, TakePartInEverything) {
  register_operation({.name = "twice_plus_one",
                      .f64 = [](const double* x) { return 2 * x[0] + 1; },
                      .definition = "a * 2 + 1"});
  Graph g;
  Tensor x = g.tensor({2, 3}, DType::f32, "x"), row = g.tensor({3}, DType::f32, "row");
  Tensor y = (apply_operation("twice_plus_one", {x}) * row).keep();
  x.set({{1, 2, 3}, {4, 5, 6}});
  row.set({1, 10, 100});
  g.execute();
  EXPECT_THAT(y.data<float>(), ElementsAre(3, 50, 700, 9, 110, 1300));
  EXPECT_THAT(g.to_string(), HasSubstr("= twice_plus_one %x"));
  EXPECT_EQ(g.execute_debug().steps.size(), 1u) << "fused with the product";
  EXPECT_EQ(inspect(apply_operation("twice_plus_one", {x})).op, "twice_plus_one");
  EXPECT_THAT(apply_operation("add", {x, row}).shape().size(), 2u);
}

TEST(UserOperations, EqualTheInterpreterEverywhere) {
  register_operation({.name = "soft_sign_swept",
                      .f64 = [](const double* x) { return x[0] / (1 + std::fabs(x[0])); },
                      .definition = "a / (1 + abs(a))",
                      .ulp = 2});
  register_operation({.name = "at_most",
                      .arity = 2,
                      .types = OperationTypes::comparison,
                      .f64 = [](const double* x) { return double(x[0] <= x[1]); },
                      .i64 = [](const int64_t* x, DType) { return int64_t(x[0] <= x[1]); },
                      .definition = "a <= b"});
  test::sweep(
      {{.name = "soft_sign_swept",
        .shapes = {{3, -1}},
        .dtypes = test::wide_floats,
        .make =
            [](const std::vector<Tensor>& in) { return std::vector{apply_operation("soft_sign_swept", in)}; },
        .special = false,
        .ulp = 2,
        .scale = 1},
       {.name = "at_most",
        .shapes = {{3, -1}, {-1}},
        .dtypes = test::wide_floats,
        .make = [](const std::vector<Tensor>& in) { return std::vector{apply_operation("at_most", in)}; }}});
}

TEST(UserOperations, MistakesSayWhatToDo) {
  Graph g;
  Tensor x = g.tensor({2}), i = g.tensor({2}, DType::i32);
  EXPECT_ERROR(apply_operation("frobnicate", {x}),
               "[apply_operation] there is no operation 'frobnicate'; register_operation makes one known");
  EXPECT_ERROR(apply_operation("exp", {x, x}), "[exp] takes 1 operands, 2 were given");
  EXPECT_THAT(error_of([] { register_operation({.name = "exp", .f64 = [](const double*) { return 0.0; }}); }),
              HasSubstr("[register_op] 'exp' is the name of a built-in operation"));
  EXPECT_THAT(error_of([] { register_operation({.name = "nothing"}); }),
              HasSubstr("'nothing' lacks its evaluation on floats (f64)"));
  EXPECT_THAT(error_of([] {
                register_operation(
                    {.name = "wrong", .f64 = [](const double* a) { return a[0]; }, .definition = "a + 1"});
              }),
              HasSubstr("'wrong' gives"));
}

TEST(CustomKernels, TimesTwoAsLoops) {
  Graph g;
  Dim n = g.dim("n", 1, 4096);
  Tensor x = g.tensor({n}, DType::f32, "x");
  CustomKernel twice{
      .name = "times_two",
      .text = {{"loops", "kernel times_two(x: f32[n] in, y: f32[n] out; n: 1..4096)\n"
                         "  parallel io in 0..ceildiv(n, 16)\n"
                         "    vector il in 0..16 masked n - 16*io\n"
                         "      y[16*io + il] = x[16*io + il] * 2\n"},
               {"cuda", "extern \"C\" __global__ void times_two(const float* x, float* y, long n) {\n"
                        "  long i = blockIdx.x * 256L + threadIdx.x;\n  if (i < n) y[i] = 2 * x[i];\n}\n"}},
      .grid = {(n + 255) / 256, 1, 1},
      .block = {256, 1, 1},
      .outputs = {{DType::f32, {n}}}};
  Tensor y = custom_kernel(g, twice, {x + 1})[0], z = (y - 1).keep();
  for (int size : {1, 16, 37}) {
    std::vector<float> values(static_cast<size_t>(size), 3);
    x.set_dyn(values);
    g.execute();
    EXPECT_EQ(z.data<float>(), std::vector<float>(size_t(size), 7));
  }
  const std::string text = g.to_string();
  EXPECT_THAT(text, HasSubstr("custom times_two grid ["));
  EXPECT_THAT(text, HasSubstr(", 1, 1, 256, 1, 1, 0] {"));
}

TEST(CustomKernels, TheHostFunctionIsTheMeaning) {
  register_host("scale_and_count", [](std::span<const HostArray> in) {
    HostArray y = HostArray::zeros(DType::f32, in[0].shape), count = HostArray::zeros(DType::i64, {});
    for (int64_t i = 0; i < in[0].count(); i++) y.put(i, in[0].at(i) * 3);
    count.put(0, double(in[0].count()));
    return std::vector{y, count};
  });
  Graph g;
  Dim n = g.dim("n", 1, 64);
  Tensor x = g.tensor({n}, DType::f32, "x");
  auto results =
      custom_kernel(g, {.name = "scale_and_count", .outputs = {{DType::f32, {n}}, {DType::i64, {}}}}, {x});
  keep(results);
  auto called = host_call("scale_and_count", {x * 2}, {{DType::f32, {n}}, {DType::i64, {}}});
  keep(called);
  x.set_dyn({1, 2, 3});
  g.execute();
  EXPECT_THAT(results[0].data<float>(), ElementsAre(3, 6, 9));
  EXPECT_EQ(results[1].item<int>(), 3);
  EXPECT_THAT(called[0].data<float>(), ElementsAre(6, 12, 18));
}

TEST(CustomKernels, MistakesSayWhatToDo) {
  Graph g;
  Tensor x = g.tensor({8}, DType::f32, "x");
  x.set(std::vector<float>(8, 1));
  auto run = [&](const std::string& loops, Dims shape = {8}, DType dtype = DType::f32) {
    Graph h;
    Tensor in = h.tensor({8}, DType::f32, "x");
    custom_kernel(h, {.name = "bad", .text = {{"loops", loops}}, .outputs = {{dtype, shape}}}, {in})[0]
        .keep();
    return error_of([&] { h.compile(); });
  };
  EXPECT_THAT(run("kernel bad("), HasSubstr("custom kernel bad:1:"));
  EXPECT_THAT(run("kernel bad(x: f32[8] in)\n"),
              HasSubstr("custom kernel bad: the text has 1 arguments, the call 1 inputs and 1 results"));
  const std::string body = "  for i in 0..8\n    y[i] = x[i]\n";
  EXPECT_THAT(run("kernel bad(x: f32[8] in, y: f32[8] out)\n" + body, {4}),
              HasSubstr("custom kernel bad: y has 8 elements in the text, the call gives f32[4]"));
  EXPECT_THAT(run("kernel bad(x: f32[8] in, y: f32[8] out)\n" + body, {8}, DType::f16),
              HasSubstr("custom kernel bad: y is f32 in the text and f16[8] in the call"));
  EXPECT_THAT(run("kernel bad(x: f32[8] inout, y: f32[8] out)\n" + body),
              HasSubstr("custom kernel bad: x must be in: it is an input"));
  EXPECT_THAT(
      run("kernel bad(x: f32[8] in, y: f32[8] out; m: 1..4)\n" + body),
      HasSubstr("custom kernel bad: m: 1..4 is no dimension of the graph: name and range must be the same"));
  custom_kernel(g, {.name = "gpu_only", .text = {{"cuda", "..."}}, .outputs = {{DType::f32, {8}}}}, {x})[0]
      .keep();
  EXPECT_THAT(error_of([&] { g.execute(); }),
              HasSubstr("custom kernel gpu_only has no text in the language \"loops\", which the device cpu "
                        "runs, and no host "
                        "function of that name is registered; there is cuda"));
  EXPECT_ERROR(host_call("nobody", {x}, {{DType::f32, {}}}),
               "[host_call] 'nobody' is not registered: register_host makes it known");
  EXPECT_ERROR(custom_kernel(g, {.name = "none"}, {x}), "[custom_kernel] none has no output");
}

TEST(Inspect, TermsAreReadOneByOne) {
  Graph g;
  Tensor x = g.tensor({2, 3}, DType::f32, "x"), s = x.sum({1}), y = s.exp().set_name("y");
  TermInfo info = inspect(s);
  EXPECT_EQ(info.op, "fold");
  EXPECT_EQ(info.result, 0);
  ASSERT_EQ(info.inputs.size(), 1u);
  EXPECT_EQ(info.inputs[0].id(), x.id());
  EXPECT_THAT(info.text, HasSubstr("fold ["));
  info = inspect(y);
  EXPECT_EQ(info.op, "exp");
  EXPECT_EQ(info.name, "y");
  EXPECT_EQ(to_string(info.shape), "[2]");
  EXPECT_EQ(inspect(x).op, "input");
  EXPECT_EQ(inspect(x).name, "x");
  EXPECT_EQ(find(g, "x").id(), x.id());
  EXPECT_ERROR(find(g, "z"), "[find] there is no input z; there are x");
  const auto all = values(g);
  EXPECT_EQ(all.front().id(), x.id());
  EXPECT_EQ(all.back().id(), y.id());
}

TEST(Inspect, TermsAreAddedAsText) {
  Graph g;
  Dim n = g.dim("n", 1, 8);
  Tensor x = g.tensor({n, 3}, DType::f32, "x");
  auto made =
      add_terms(g,
                "%t = view %a [i: 3, j: n] -> [j, i]\n%f = fold [i: 3, j: n] over [j] { max %t[i, j] }\n"
                "%m = get %f, 0\nreturn t = %t, m = %m",
                {{"a", x * 2}});
  ASSERT_EQ(made.size(), 2u);
  keep(made);
  x.set_dyn({{1, 2, 3}, {4, 0, 1}});
  g.execute();
  EXPECT_THAT(made[0].data<float>(), ElementsAre(2, 8, 4, 0, 6, 2));
  EXPECT_THAT(made[1].data<float>(), ElementsAre(8, 4, 6));
  EXPECT_THAT(error_of([&] { add_terms(g, "%t = exp %a\n%u = frob %t\nreturn t = %u", {{"a", x}}); }),
              HasSubstr("[add_terms] line 2:"));
}

} // namespace
} // namespace luminal
