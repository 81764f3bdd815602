// tests/tensor/custom_test.cpp -- what users add: operations, kernels, functions on the host, terms
// in text form; and reading terms.
#include "ir/term.h"
#include "ir/user_ops.h"
#include "support.h"
#include "sweep.h"
#include "tensor/graph_state.h"
#include <cmath>
#include <fmt/format.h>

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
                      .i64 =
                          [](const int64_t* x, DType type) {
                            return int64_t(type == DType::u64 ? uint64_t(x[0]) <= uint64_t(x[1])
                                                              : x[0] <= x[1]);
                          },
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

/// All that this program has registered is swept, whoever did it: nothing is listed here.
TEST(UserOperations, RegisteredOnesAreSweptByThemselves) {
  register_operation({.name = "swept_square_plus",
                      .arity = 2,
                      .types = OperationTypes::numeric,
                      .f64 = [](const double* x) { return x[0] * x[0] + x[1]; },
                      .i64 = [](const int64_t* x,
                                DType) { return int64_t(uint64_t(x[0]) * uint64_t(x[0]) + uint64_t(x[1])); },
                      .definition = "a * a + b",
                      .low = 0.5,
                      .derivative = {"2 * a", "1"}}); // nothing cancels
  register_operation({.name = "swept_three",
                      .arity = 3,
                      .f64 = [](const double* x) { return x[0] + 2 * x[1] - x[2]; },
                      .definition = "a + 2 * b - c",
                      .ulp = 64, // what cancels
                      .derivative = {"1", "2", "-1"}});
  std::vector<test::SweepOp> ops;
  for (const UserOp* op : user_ops()) {
    if (op->doc == "wrong on purpose") continue;
    std::vector<DType> types;
    for (DType type : argument_types(*op))
      if (bits(type) >= 8 && (is_float(type) ? bits(type) >= 32 : true)) types.push_back(type);
    std::vector<std::vector<int64_t>> shapes{{3, -1}};
    for (int a = 1; a < op->arity; a++)
      shapes.push_back(a == 1 ? std::vector<int64_t>{-1} : std::vector<int64_t>{3, 1});
    ops.push_back(
        {.name = op->name,
         .shapes = shapes,
         .dtypes = types,
         .make = [name = op->name](
                     const std::vector<Tensor>& in) { return std::vector{apply_operation(name, in)}; },
         .low = op->low,
         .high = op->high,
         .special = false,
         .ulp = op->ulp,
         .scale = 1});
    EXPECT_THAT(test_operation(op->name), testing::IsEmpty()) << op->name;
  }
  EXPECT_GE(ops.size(), 2u);
  EXPECT_THAT(registered_operations(), testing::IsSupersetOf({"swept_square_plus", "swept_three"}));
  test::sweep(ops);
}

TEST(UserOperations, AWrongOneIsFoundByItsTest) {
  // Its definition agrees at the points that registering looks at, which lie in low .. high; the
  // derivative is wrong.
  register_operation({.name = "half_way",
                      .f64 = [](const double* x) { return x[0] * 0.5; },
                      .definition = "a * 0.5",
                      .derivative = {"0.25"},
                      .doc = "wrong on purpose"});
  const auto found = test_operation("half_way");
  ASSERT_EQ(found.size(), 1u);
  EXPECT_THAT(found[0], HasSubstr("the derivative of half_way by a at "));
  EXPECT_THAT(found[0], HasSubstr("is stated as 0.25, differences give 0.5"));
  register_operation({.name = "off_by_one",
                      .types = OperationTypes::numeric,
                      .f64 = [](const double* x) { return x[0] + 1; },
                      .i64 = [](const int64_t* x, DType) { return x[0] + 2; },
                      .definition = "a + 1",
                      .doc = "wrong on purpose"});
  EXPECT_THAT(test_operation("off_by_one"),
              testing::Contains(HasSubstr("on i32, contiguous, size 1: compiled ")));
  EXPECT_THAT(
      error_of([] { test_operation("nobody"); }),
      HasSubstr("[test_operation] there is no operation 'nobody'; register_operation makes one known"));
}

TEST(UserOperations, OneThatIsRefusedIsNotRegistered) {
  const auto identity = [](const double* x) { return x[0]; };
  const auto refused = [&](Operation operation) {
    operation.f64 = identity;
    const std::string name = operation.name;
    const std::string error = error_of([&] { register_operation(std::move(operation)); });
    EXPECT_THAT(registered_operations(), testing::Not(testing::Contains(name))) << error;
    EXPECT_THAT(error, testing::EndsWith(testing_tensor::at(__FILE__, __LINE__ - 2))) << "the caller's line";
    return error;
  };
  EXPECT_THAT(
      refused({.name = "wrong_rule",
               .definition = "a",
               .rules = "rule twice(%x: f32) { %y = wrong_rule %x return %y } => { %two = const f32 2 "
                        "%z = mul %x, %two return %z }"}),
      HasSubstr("[register_operation] the rules of 'wrong_rule': rule twice: "));
  EXPECT_THAT(refused({.name = "bad_rule", .definition = "a", .rules = "rule r("}),
              HasSubstr("[register_operation] the rules of 'bad_rule': bad_rule:1:"));
  EXPECT_THAT(refused({.name = "bad_derivative", .definition = "a", .derivative = {"cosh(a) + frob(a)"}}),
              HasSubstr("[register_operation] derivative 1 of 'bad_derivative': "));
  EXPECT_THAT(refused({.name = "other_leaf", .definition = "a", .derivative = {"b"}}),
              HasSubstr("[register_operation] derivative 1 of 'other_leaf': "));
  EXPECT_THAT(refused({.name = "bad_definition", .definition = "a +"}),
              HasSubstr("[register_operation] the definition of 'bad_definition': "));
  EXPECT_THAT(refused({.name = "wrong_definition", .definition = "a + 1"}),
              HasSubstr("[register_operation] 'wrong_definition' gives"));
}

TEST(UserOperations, ExactRulesAreAppliedByEveryCompile) {
  register_operation({.name = "mirrored",
                      .f64 = [](const double* x) { return -x[0]; },
                      .definition = "-a",
                      .rules = "type T: float\nshape s\nrule twice_mirrored(%x: T[..s]) { %a = mirrored %x "
                               "%y = mirrored %a return %y } => { return %x }"});
  EXPECT_THAT(test_operation("mirrored"), testing::IsEmpty());
  Graph g;
  Tensor x = g.tensor({4}, DType::f32, "x");
  (apply_operation("mirrored", {apply_operation("mirrored", {x.exp()})}) + 1).keep();
  g.compile();
  EXPECT_THAT(g.report(), testing::Not(HasSubstr("mirrored")));
  EXPECT_THAT(error_of([] {
                register_operation({.name = "badly_ruled",
                                    .f64 = [](const double* in) { return in[0]; },
                                    .definition = "a",
                                    .rules = "rule r("});
              }),
              HasSubstr("badly_ruled:1:"));
}

TEST(UserOperations, MistakesSayWhatToDo) {
  Graph g;
  Tensor x = g.tensor({2}), i = g.tensor({2}, DType::i32);
  EXPECT_ERROR(apply_operation("frobnicate", {x}),
               "[apply_operation] there is no operation 'frobnicate'; register_operation makes one known");
  EXPECT_ERROR(apply_operation("exp", {x, x}), "[exp] takes 1 operands, 2 were given");
  EXPECT_THAT(error_of([] { register_operation({.name = "exp", .f64 = [](const double*) { return 0.0; }}); }),
              HasSubstr("[register_operation] 'exp' is the name of a built-in operation"));
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

constexpr const char* times_two_llvm =
    R"(define void @times_two(ptr %x, ptr %y, i64 %n, i64 %bx, i64 %by, i64 %bz) {
entry:
  %begin = mul i64 %bx, 16
  %whole = add i64 %begin, 16
  %cut = icmp slt i64 %whole, %n
  %end = select i1 %cut, i64 %whole, i64 %n
  br label %loop
loop:
  %i = phi i64 [ %begin, %entry ], [ %next, %body ]
  %more = icmp slt i64 %i, %end
  br i1 %more, label %body, label %exit
body:
  %from = getelementptr float, ptr %x, i64 %i
  %to = getelementptr float, ptr %y, i64 %i
  %value = load float, ptr %from
  %twice = fmul float %value, 2.0
  store float %twice, ptr %to
  %next = add i64 %i, 1
  br label %loop
exit:
  ret void
}
)";

TEST(CustomKernels, TimesTwoAsLlvm) {
  Graph g;
  Dim n = g.dim("n", 0, 4096);
  Tensor x = g.tensor({n}, DType::f32, "x");
  Tensor y = custom_kernel(g,
                           {.name = "times_two",
                            .text = {{"llvm", times_two_llvm}},
                            .grid = {(n + 15) / 16},
                            .integers = {n},
                            .outputs = {{DType::f32, {n}}}},
                           {x + 1})[0];
  (y - 1).keep();
  Tensor z = (y - 1).keep();
  for (int size : {0, 1, 16, 37, 4000}) {
    std::vector<float> values(static_cast<size_t>(size)), want;
    for (int i = 0; i < size; i++) values[size_t(i)] = float(i), want.push_back(float(2 * (i + 1) - 1));
    g.set_dim("n", size);
    x.set(values);
    g.execute();
    EXPECT_EQ(z.data<float>(), want);
  }
  EXPECT_THAT(g.to_string(), HasSubstr("custom times_two grid [(n + 15) // 16, 1, 1, 1, 1, 1, 0, n] {"));
}

TEST(CustomKernels, LlvmWithSeveralBlocksAndBuffers) {
  // One call a cell of a grid 2 x 3 x 4: the place of the block, in row-major order, and one
  // constant of the text.
  const std::string text = R"(@half = internal constant double 0.5
define internal i64 @flat(i64 %x, i64 %y, i64 %z) {
  %a = mul i64 %z, 3
  %b = add i64 %a, %y
  %c = mul i64 %b, 2
  %d = add i64 %c, %x
  ret i64 %d
}
define void @cells(ptr %in, ptr %places, ptr %halves, i64 %x, i64 %y, i64 %z) {
  %i = call i64 @flat(i64 %x, i64 %y, i64 %z)
  %p = getelementptr i64, ptr %places, i64 %i
  store i64 %i, ptr %p
  %from = getelementptr double, ptr %in, i64 %i
  %value = load double, ptr %from
  %h = load double, ptr @half
  %scaled = fmul double %value, %h
  %to = getelementptr double, ptr %halves, i64 %i
  store double %scaled, ptr %to
  ret void
}
)";
  Graph g;
  Tensor x = g.tensor({24}, DType::f64, "x");
  auto made = custom_kernel(g,
                            {.name = "cells",
                             .text = {{"llvm", text}, {"cuda", "..."}},
                             .grid = {2, 3, 4},
                             .block = {32, 2, 1},
                             .shared_bytes = 1024,
                             .outputs = {{DType::i64, {24}}, {DType::f64, {24}}}},
                            {x});
  keep(made);
  std::vector<double> values, halves;
  std::vector<int64_t> places;
  for (int i = 0; i < 24; i++) values.push_back(i), halves.push_back(i * 0.5), places.push_back(i);
  x.set(values);
  g.execute();
  EXPECT_EQ(made[0].data<int64_t>(), places);
  EXPECT_EQ(made[1].data<double>(), halves);
  EXPECT_THAT(g.to_string(), HasSubstr("custom cells grid [2, 3, 4, 32, 2, 1, 1024] {"));
  EXPECT_TRUE(same_module(parse_module(g.to_string()), g.state()->snapshot()));
}

TEST(CustomKernels, LlvmMistakesSayWhatToDo) {
  auto compiled = [](const std::string& text) {
    Graph g;
    Tensor x = g.tensor({8}, DType::f32, "x");
    custom_kernel(
        g, {.name = "bad", .text = {{"llvm", text}}, .integers = {8}, .outputs = {{DType::f32, {8}}}}, {x})[0]
        .keep();
    const std::string error = error_of([&] { g.compile(); });
    return error.substr(0, error.rfind(" at "));
  };
  const std::string start = "[compile] custom kernel bad: ";
  EXPECT_EQ(compiled("define void @bad(ptr %x) {\n  frobnicate\n}\n"),
            start + "2:3: expected instruction opcode");
  EXPECT_EQ(compiled("define void @good() {\n  ret void\n}\n"), start + "the text defines no function @bad");
  EXPECT_EQ(compiled("define i32 @bad(ptr %x) {\n  ret i32 0\n}\n"),
            start + "@bad is i32 (ptr), expected void (ptr, ptr, i64, i64, i64, i64): 1 inputs, 1 outputs, 1 "
                    "integers, and the "
                    "block's place along x, y and z");
  const std::string head = "define void @bad(ptr %x, ptr %y, i64 %n, i64 %a, i64 %b, i64 %c) {\n";
  EXPECT_EQ(
      compiled("declare ptr @malloc(i64)\n" + head + "  %p = call ptr @malloc(i64 %n)\n  ret void\n}\n"),
      start + "@malloc is declared and not defined: nothing outside of the text can be called");
  EXPECT_EQ(
      compiled("@table = external global i32\n" + head + "  %p = load i32, ptr @table\n  ret void\n}\n"),
      start + "@table is declared and not defined: nothing outside of the text can be read");
  EXPECT_THAT(
      compiled(head + "  %p = add i64 %n, 1\n  br label %l\nl:\n  %q = phi i64 [ %p, %l ]\n  ret void\n}\n"),
      HasSubstr(start + "PHI"));
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
      HasSubstr(
          "custom kernel bad: m: 1..4 is not a dimension of the graph: name and range must be the same"));
  for (const char* access : {"y[i] = x[i + 1]", "y[i] = x[i - 1]", "y[i + 1] = x[i]", "y[i] = x[i * i]"})
    EXPECT_THAT(
        run(fmt::format("kernel bad(x: f32[8] in, y: f32[8] out)\n  for i in 0..8\n    {}\n", access)),
        HasSubstr("is not proved to be inside; a load may have a guard, x[i where i < n]"))
        << access;
  EXPECT_EQ(
      run("kernel bad(x: f32[8] in, y: f32[8] out)\n  for i in 0..8\n    y[i] = x[i + 1 where i < 7]\n"),
      "no error");
  EXPECT_EQ(run("kernel bad(x: f32[8] in, y: f32[8] out)\n  for i in 0..8\n    y[min(i + 1, 7)] = x[max(i - "
                "1, 0)]\n"),
            "no error");
  custom_kernel(g, {.name = "gpu_only", .text = {{"cuda", "..."}}, .outputs = {{DType::f32, {8}}}}, {x})[0]
      .keep();
  EXPECT_ERROR(g.execute(),
               "[compile] custom kernel gpu_only has no text in a language that the device cpu runs "
               "(\"loops\" or \"llvm\"), and no host function of that name is registered; there is cuda");
  Graph in_c;
  Tensor of_c = in_c.tensor({8}, DType::f32, "x");
  custom_kernel(in_c, {.name = "c_only", .text = {{"c", "..."}}, .outputs = {{DType::f32, {8}}}}, {of_c})[0]
      .keep();
  EXPECT_ERROR(in_c.compile(), "[compile] custom kernel c_only has no text in a language that the device cpu "
                               "runs (\"loops\" or \"llvm\"), and no host function of that name is "
                               "registered; there is c (clang -S -emit-llvm makes \"llvm\" of it)");
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
