// tests/tensor/device_test.cpp -- devices: the default, the graph's, a group's, explicit transfers;
// a device that is compiled for and runs nothing.
#include "ir/term.h"
#include "support.h"
#include "tensor/graph_run.h"

namespace luminal {
namespace {

using namespace testing_tensor;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

/// What is there depends on the drivers of the machine.
std::string no_device(const std::string& name) {
  std::string names;
  for (const Device& device : devices()) names += (names.empty() ? "" : ", ") + device.name();
  return "there is no device '" + name + "' on this machine; there are " + names;
}

TEST(Devices, AreListedAndNamed) {
  const std::vector<Device> all = devices();
  ASSERT_GE(all.size(), 3u);
  EXPECT_EQ(all[0].name(), "cpu");
  EXPECT_TRUE(all[0].executes());
  EXPECT_GT(all[0].memory_bytes(), 1 << 20);
  EXPECT_FALSE(all[0].description().empty());
  EXPECT_EQ(all[1].name(), "null");
  EXPECT_FALSE(all[1].executes());
  for (const char* name : {"null:opencl", "null:cuda", "null:hip"}) {
    EXPECT_FALSE(Device(name).executes());
    EXPECT_NE(std::ranges::find(all, Device(name)), all.end()) << name;
  }
  EXPECT_EQ(Device("cpu"), all[0]);
  EXPECT_ERROR(Device("tpu:0"), std::string("[device] ") + no_device("tpu:0"));
  EXPECT_EQ(Graph().device().name(), "cpu");
}

TEST(Devices, TheEnvironmentNamesTheDefault) {
  setenv("LUMINAL_DEVICE", "null", 1);
  const std::string named = Graph().device().name();
  setenv("LUMINAL_DEVICE", "tpu:0", 1);
  const std::string error = error_of([] { Graph(); });
  unsetenv("LUMINAL_DEVICE");
  EXPECT_EQ(named, "null");
  EXPECT_EQ(error, std::string("LUMINAL_DEVICE=tpu:0: ") + no_device("tpu:0"));
}

TEST(Devices, TheDefaultIsOfGraphsMadeAfterwards) {
  Graph before;
  set_default_device("null");
  Graph after;
  set_default_device({});
  EXPECT_EQ(before.device().name(), "cpu");
  EXPECT_EQ(after.device().name(), "null");
  EXPECT_EQ(default_device().name(), "cpu");
  EXPECT_EQ(after.tensor({2}).device().name(), "null");
  EXPECT_EQ(Graph("null").device().name(), "null");
}

TEST(Devices, ATransferToWhereAValueLiesIsTheValue) {
  Graph g;
  Tensor x = g.tensor({2}, DType::f32, "x"), y = x + 1;
  EXPECT_EQ(y.to("cpu").id(), y.id());
  EXPECT_EQ(y.device().name(), "cpu");
  y.to("cpu").keep();
  x.set({1, 2});
  g.execute();
  EXPECT_THAT(y.data<float>(), ElementsAre(2, 3));
  EXPECT_THAT(g.to_string(), Not(HasSubstr(" on ")));
}

TEST(Devices, WhatIsMadeFromATransferLiesThere) {
  Graph g;
  Tensor x = g.tensor({2}, DType::f32, "x"), far = (x * 2).to("null"), sum = far + 1,
         back = sum.to("cpu") + x;
  EXPECT_EQ(x.device().name(), "cpu");
  EXPECT_EQ(far.device().name(), "null");
  EXPECT_EQ(sum.device().name(), "null") << "a number is made where it is needed";
  EXPECT_EQ(back.device().name(), "cpu");
  EXPECT_EQ(x.to("null").id(), x.to("null").id());
  back.keep();
  const std::string text = g.to_string();
  EXPECT_THAT(text, HasSubstr(" on null"));
  EXPECT_THAT(text, HasSubstr(" on cpu"));
  // The text says all: it is read, verified, and gives the same numbers in the interpreter.
  const Module module = parse_module(text);
  EXPECT_TRUE(same_module(module, g.state()->snapshot()));
  EXPECT_THAT(verify(module), testing::IsEmpty());
}

TEST(Devices, NothingMovesByItself) {
  Graph g;
  Tensor x = g.tensor({2}, DType::f32, "x"), far = x.to("null");
  EXPECT_ERROR(x + far,
               "[add] the operands lie on cpu and on null: nothing moves by itself, Tensor::to does it");
  EXPECT_ERROR(x + far,
               "[add] the operands lie on cpu and on null: nothing moves by itself, Tensor::to does it");
  EXPECT_ERROR(far.matmul(x),
               "[matmul] the operands lie on null and on cpu: nothing moves by itself, Tensor::to does it");
  EXPECT_NO_THROW(after(x, {far})) << "waiting moves nothing";
  Tensor s = g.state("s", {2});
  EXPECT_ERROR(g.update(s, far),
               "[update] the state lies on cpu, its next value on null: nothing moves by itself");
  EXPECT_ERROR(x.to("tpu:0"), std::string("[device] ") + no_device("tpu:0"));
  EXPECT_ERROR(g.function("f", {x}, [](Graph&, const auto& in) { return std::vector{in[0].to("null")}; }),
               "[to] inside of a loop or function nothing moves: move the value before or after it");
  EXPECT_ERROR(
      g.function("f", {x},
                 [](Graph& body, const auto& in) {
                   DeviceScope there(body, "null");
                   return in;
                 }),
      "[DeviceScope] inside of a loop or function nothing is put elsewhere: tensors come in from outside");
}

TEST(Devices, AGroupOfTensorsLiesElsewhere) {
  Graph g;
  Tensor x = g.tensor({2}, DType::f32, "x"), w, inner;
  {
    DeviceScope there(g, "null");
    w = g.weight("w", {2});
    {
      DeviceScope here(g, "cpu");
      inner = g.tensor({2}, DType::f32, "inner");
    }
    EXPECT_EQ(g.state("s", {2}).device().name(), "null");
  }
  EXPECT_EQ(w.device().name(), "null");
  EXPECT_EQ(inner.device().name(), "cpu");
  EXPECT_EQ(g.tensor({2}).device().name(), "cpu");
  EXPECT_ERROR(x + w,
               "[add] the operands lie on cpu and on null: nothing moves by itself, Tensor::to does it");
  (x + w.to("cpu")).keep();
  EXPECT_THAT(g.to_string(), HasSubstr("weight %w: f32[2] on null"));
  EXPECT_TRUE(same_module(parse_module(g.to_string()), g.state()->snapshot()));
}

TEST(Devices, TheNullDeviceIsCompiledForAndRunsNothing) {
  const std::string refusal =
      "[execute] values lie on the device null, which runs nothing: report() and memory() tell "
      "what was compiled; to run it, make the tensors on cpu";
  Graph g("null");
  Tensor x = g.tensor({64}, DType::f32, "x"), y = (x.softmax(0) + 1).keep();
  x.set(std::vector<float>(64, 1));
  g.compile();
  EXPECT_THAT(g.report(), HasSubstr("device null"));
  EXPECT_THAT(g.report(), HasSubstr("kernel k0"));
  EXPECT_GE(g.memory().arena, 256);
  EXPECT_ERROR(g.execute(), refusal);
  EXPECT_ERROR(g.execute_debug(), refusal);

  Graph mixed; // a part of it suffices
  Tensor a = mixed.tensor({4}, DType::f32, "a");
  (a.to("null") * 2).to("cpu").keep();
  a.set({1, 2, 3, 4});
  EXPECT_ERROR(mixed.execute(), refusal);

  Graph constants("null");
  constants.constant(2.0).keep();
  EXPECT_ERROR(constants.execute(), refusal);

  // What nobody needs does not have to run anywhere.
  Graph unused;
  Tensor b = unused.tensor({2}, DType::f32, "b");
  (void)(b.to("null") * 2);
  (b + 1).keep();
  b.set({1, 2});
  EXPECT_NO_THROW(unused.execute());
}

TEST(Devices, ABodyLiesWhereItsInputsDo) {
  Graph g;
  Tensor x = g.tensor({2}, DType::f32, "x"), far = x.to("null");
  const auto twice = [](Graph&, const std::vector<Tensor>& in) {
    EXPECT_EQ((in[0] + 1).device().name(), "null");
    return std::vector{in[0] * 2};
  };
  EXPECT_EQ(g.function("twice", {far}, twice)[0].device().name(), "null");
  const auto both = [](Graph&, const std::vector<Tensor>& in) { return std::vector{in[0] + in[1]}; };
  EXPECT_ERROR(g.function("both", {x, far}, both),
               "[function] the operands lie on cpu and on null: nothing moves by itself, Tensor::to does it");
  const auto body = [](Graph&, const Tensor&, const auto& carried, const auto&, const auto&) {
    EXPECT_EQ(carried[0].device().name(), "null");
    return Graph::LoopResult{{carried[0] + 1}, {}};
  };
  EXPECT_EQ(g.loop(3, {far}, {}, {}, body).carried[0].device().name(), "null");
}

TEST(Devices, TermsAsTextMoveValues) {
  Graph g;
  Tensor x = g.tensor({2}, DType::f32, "x");
  Tensor y = add_terms(g, "%y = fence %x on null %z = neg %y return z = %z", {{"x", x}})[0];
  EXPECT_EQ(y.device().name(), "null");
  EXPECT_EQ(x.device().name(), "cpu");
  EXPECT_ERROR(
      add_terms(g, "%c = add %x, %y return c = %c", {{"x", x}, {"y", y}}),
      "[add_terms] the operands lie on cpu and on null: nothing moves by itself, Tensor::to does it");
  Tensor z = add_terms(g, "%z = fence %x on gpu return z = %z", {{"x", x}})[0].keep();
  x.set({1, 2});
  EXPECT_ERROR(g.execute(), "[compile] " + no_device("gpu"));
}

TEST(Devices, PlansOfOtherDevicesAreNotRun) {
  const Module module = parse_module("fn @main(%x: f32[2] on null) { %y = neg %x return y = %y }");
  const auto compiled = compile::compile(module, compile::Options::host(1));
  ASSERT_TRUE(compiled) << compiled.error();
  const auto device = shared_device(1);
  const auto executable = runtime::Executable::load(compiled->plan, *device);
  ASSERT_TRUE(executable) << executable.error();
  const auto context = runtime::Context::create(*executable, std::make_shared<runtime::Store>(*device), {});
  ASSERT_FALSE(context);
  EXPECT_EQ(context.error(),
            "plan main has values on the device null, which runs nothing: it can be looked at only");
}

TEST(Devices, ModulesInTextFormAreChecked) {
  auto mistake = [](std::string_view text) { return error_of([&] { parse_module(text); }); };
  EXPECT_EQ(mistake("fn @main(%x: f32[2], %w: f32[2] on null) { %y = add %x, %w return y = %y }"),
            "<text>: @main: [add] the operands lie on cpu and on null: nothing moves by itself");
  EXPECT_EQ(mistake("fn @main(%x: f32[2], %w: f32[2] on null) { %v = fence %w on cpu %y = add %x, %v "
                    "return y = %y }"),
            "no error");
  EXPECT_EQ(mistake("fn @f(%x: f32[2]) { %y = fence %x on null return y = %y }\n"
                    "fn @main(%x: f32[2]) { %c = call @f(%x) %y = get %c, 0 return y = %y }"),
            "<text>: @f: only the entry function names devices");
  EXPECT_EQ(mistake("fn @main(state %s: f32[2]) { %y = fence %s on null return s_next = %y -> s }"),
            "<text>: @main: result 's_next' does not lie where its state 's' does");
  const Module odd = parse_module("fn @main(%x: f32[2] on \"cuda:1\") { %y = neg %x return y = %y }");
  EXPECT_THAT(to_string(odd), HasSubstr("f32[2] on \"cuda:1\""));
  EXPECT_TRUE(same_module(odd, parse_module(to_string(odd))));
  EXPECT_EQ(mistake("fn @main(%x: f32[2] on \"\") { return x = %x }"),
            "<text>:1:24: a device needs a name\n"
            "  fn @main(%x: f32[2] on \"\") { return x = %x }\n"
            "                         ^~");
}

} // namespace
} // namespace luminal
