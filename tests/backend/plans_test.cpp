// tests/backend/plans_test.cpp -- the default plan of random graphs equals the interpreter;
// contexts share a plan; nothing is allocated in steady state.
#include "device/host_memory.h"
#include "ir/random_graph.h"
#include "luminal/luminal.h"
#include "plans.h"
#include <atomic>
#include <climits>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <new>
#include <thread>

namespace {
std::atomic<bool> counting{false};
std::atomic<int64_t> allocations{0};
} // namespace

// Every allocation of the program passes here.
void* operator new(size_t bytes, const std::nothrow_t&) noexcept {
  if (counting.load(std::memory_order_relaxed)) allocations++;
  return std::malloc(bytes);
}
void* operator new(size_t bytes) {
  if (void* p = operator new(bytes, std::nothrow)) return p;
  throw std::bad_alloc();
}
// Not inlined: g++ 12 would take std::free of what operator new gave for a mismatch.
[[gnu::noinline]] void operator delete(void* p) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete(void* p, size_t) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete(void* p, const std::nothrow_t&) noexcept { std::free(p); }

namespace luminal {
namespace {

using namespace testing_ir;

void run_random_graphs(uint64_t first, uint64_t last, RandomGraphOptions options) {
  int64_t compared = 0;
  for (uint64_t seed = first; seed <= last; seed++) {
    RandomGraph g(seed, options);
    SCOPED_TRACE("seed " + std::to_string(seed) + "\n" + to_string(g.module));
    Running running(g.module, 1 + int(seed % 2));
    auto context = running.start(g.module, g.bindings);
    auto done = context->run();
    ASSERT_TRUE(done) << done.error();
    expect_interpreted(g.module, g.bindings, *context, compared);
    if (testing::Test::HasFatalFailure()) FAIL() << running.report;
  }
  EXPECT_GT(compared, int64_t(last - first) * 5);
}

TEST(Plans, RandomGraphsEqualTheInterpreter1) { run_random_graphs(1, 250, {.nodes = 10, .places = true}); }
TEST(Plans, RandomGraphsEqualTheInterpreter2) {
  run_random_graphs(251, 400, {.nodes = 16, .small_floats = false});
}
TEST(Plans, RandomGraphsWithControlFlowEqualTheInterpreter) {
  run_random_graphs(401, 500, {.nodes = 12, .structure = true});
}

Module two_layers() {
  return parse_module(R"(
symbol n: 1..32
fn @main(%x: f32[n, 24], weight %w: f32[24, 24], state %total: f32[24]) {
  %a = view %x [m: n, c: 24, k: 24] -> [m, k]
  %b = view %w [m: n, c: 24, k: 24] -> [k, c]
  %p = mul %a, %b
  %s = fold [m: n, c: 24, k: 24] over [k] { sum(self): f32 %p[m, c, k] }
  %y = get %s, 0
  %z = tanh %y
  %f = fold [m: n, c: 24] over [m] { sum(self): f32 %z[m, c] }
  %g = get %f, 0
  %next = add %total, %g
  return z = %z, total_next = %next -> total
}
)");
}

Bindings two_layers_inputs(int64_t n, int seed) {
  Bindings bindings;
  bindings.symbols["n"] = n;
  auto fill = [&](const std::string& name, std::vector<int64_t> shape) {
    HostTensor t;
    t.shape = shape;
    t.data.resize(size_t(t.count()) * 4);
    for (int64_t i = 0; i < t.count(); i++)
      store_f64(DType::f32, t.data.data(), i, double((i * 7 + seed) % 13 - 6) / 8);
    bindings.inputs[name] = t;
  };
  fill("x", {n, 24});
  fill("w", {24, 24});
  fill("total", {24});
  return bindings;
}

TEST(Plans, SteadyStateAllocatesNothing) {
  Module module = two_layers();
  Running running(module, 2);
  auto context = running.start(module, two_layers_inputs(32, 1));
  ASSERT_TRUE(context->run());
  counting = true;
  bool good = true;
  for (int i = 0; i < 100; i++) good &= bool(context->run());
  counting = false;
  EXPECT_TRUE(good);
  EXPECT_EQ(allocations.load(), 0);
}

/// Six weights, each put into two orders at load, one after the other: only the second is read by a
/// step, so only it stays, and there is room for one of the first at a time.
TEST(Plans, WhatOnlyLoadStepsReadIsGivenBack) {
  constexpr int64_t weights = 6, n = 64;
  Bindings bindings;
  std::string params = "%x: f32[64, 64]", body, sum = "%x";
  for (int64_t w = 0; w <= weights; w++) {
    const std::string i = std::to_string(w);
    HostTensor& values = bindings.inputs[w < weights ? "w" + i : "x"];
    values.shape = {n, n};
    values.data.resize(n * n * 4);
    for (int64_t e = 0; e < n * n; e++)
      store_f64(DType::f32, values.data.data(), e, double((e * 7 + w) % 31));
    if (w == weights) break;
    params += ", weight %w" + i + ": f32[64, 64]";
    body += "  %a" + i + " = view %w" + i + " [i: 64, j: 64] -> [j, i]\n  %b" + i + " = fence %a" + i + "\n";
    body += "  %c" + i + " = view %b" + i + " [i: 64, j: 64] -> [63 - i, j]\n  %d" + i + " = fence %c" + i +
            "\n  %t" + i + " = add " + sum + ", %d" + i + "\n  %s" + i + " = abs %t" + i + "\n";
    sum = "%s" + i; // the weights' terms cannot be gathered into one sum
  }
  const Module module = parse_module("fn @main(" + params + ") {\n" + body + "  return y = " + sum + "\n}\n");
  Running running(module);
  int64_t stay = 0;
  for (const auto& slot : running.plan->slots) stay += slot.kind == runtime::SlotKind::loaded;
  EXPECT_EQ(stay, weights);
  EXPECT_EQ(running.plan->load_arena_bytes, n * n * 4) << running.report;
  auto context = running.start(module, bindings);
  ASSERT_TRUE(context->run());
  int64_t compared = 0;
  expect_interpreted(module, bindings, *context, compared);
  EXPECT_EQ(compared, n * n);
}

TEST(Plans, TwoContextsRunAtOnce) {
  Module module = two_layers();
  Running running(module, 2);
  // Each context with a store of its own; they share plan, code and pool.
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 2; t++)
    threads.emplace_back([&, t] {
      Bindings bindings = two_layers_inputs(8 + t * 8, t + 1);
      auto store = std::make_shared<runtime::Store>(*running.device);
      (void)store->copy_weight("w", bindings.inputs["w"].data);
      auto context = runtime::Context::create(running.executable, store).value();
      context->set_symbol("n", bindings.symbols["n"]).value();
      auto memory = context->argument("x").value();
      std::memcpy(memory.data(), bindings.inputs["x"].data.data(), memory.size());
      std::memcpy(context->state("total").value().bytes.data(), bindings.inputs["total"].data.data(), 96);
      HostTensor want = Interpreter(module, bindings).result("z");
      for (int i = 0; i < 200; i++) {
        if (!context->run()) wrong++;
        auto z = context->result("z").value();
        for (int64_t e = 0; e < want.count(); e++)
          if (!(std::abs(load_f64(DType::f32, z.bytes.data(), e) - want.at(e)) <= 1e-5)) wrong++;
      }
    });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(wrong.load(), 0);
}

TEST(Plans, AMemoryLimitIsRefusedWithNumbers) {
  Module module = two_layers();
  Running running(module);
  running.store->copy_weight("w", two_layers_inputs(1, 1).inputs["w"].data).value();
  auto context = runtime::Context::create(running.executable, running.store, {.max_memory = 100});
  ASSERT_FALSE(context);
  EXPECT_NE(context.error().find("may need"), std::string::npos) << context.error();
  EXPECT_NE(context.error().find("the limit is 100 bytes: "), std::string::npos) << context.error();
  ASSERT_TRUE(context.failure().shortage);
  EXPECT_EQ(context.failure().shortage->available, 100);
  EXPECT_EQ(context.failure().shortage->needed, running.executable->plan().memory_bytes());
}

TEST(Plans, WhatIsMoreThanTheMachineHasIsRefusedBeforeItRuns) {
  Graph g;
  Tensor x = g.tensor({1 << 21});
  Tensor y = (x.unsqueeze(0) * x.unsqueeze(1)).keep();
  x.set(std::vector<float>(1 << 21, 1.f));
  try {
    g.execute();
    FAIL() << "16 TiB";
  } catch (const OutOfMemoryError& error) {
    EXPECT_NE(std::string(error.what()).find("[execute] plan"), std::string::npos) << error.what();
    EXPECT_GE(error.shortage().needed, int64_t(1) << 44);
    EXPECT_EQ(error.shortage().available, device::usable_memory());
    EXPECT_NE(std::string(error.what()).find("needs 16.0 TiB, this machine has"), std::string::npos)
        << error.what();
  }
  EXPECT_THROW(g.compile({.max_memory = 1 << 20}), OutOfMemoryError);
}

TEST(Plans, OnlyThePresentSizesTakeMemory) {
  const Module module = parse_module(R"(symbol S: 0..17179869184
  fn @main(%x: f32[S]) {
    %y = neg %x
    %z = view %y [i: S, j: 2] -> [i]
    return y = %y, z = %z
  })");
  Running running(module);
  auto context =
      running.start(module, {.inputs = {{"x", host_tensor(DType::f32, {3}, std::vector<double>{1, 2, 3})}},
                             .symbols = {{"S", 3}}});
  ASSERT_TRUE(context->run());
  EXPECT_EQ(load_f64(DType::f32, context->result("z").value().bytes.data(), 5), -3);
  ASSERT_TRUE(context->set_symbol("S", int64_t(17179869184)));
  const auto done = context->run();
  ASSERT_FALSE(done);
  EXPECT_TRUE(done.failure().shortage);
  EXPECT_NE(done.error().find("(S = 17179869184), this machine has"), std::string::npos) << done.error();
}

TEST(Plans, NumbersOfThreadsThatCannotBeAreRefused) {
  Graph g;
  g.tensor({2}).keep();
  for (int threads : {-3, 1025, INT_MAX}) EXPECT_THROW(g.compile({.threads = threads}), Error) << threads;
  try {
    g.compile({.max_memory = -1});
    FAIL() << "a negative limit";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("max_memory = -1 bytes is negative"), std::string::npos);
  }
}

TEST(Plans, TreesOfCallsEndWithAnError) {
  std::string text = "fn @f0(%x: f32[8]) { %y = neg %x  return y = %y }\n";
  for (int i = 1; i <= 40; i++)
    text += fmt::format(
        "fn @f{0}(%x: f32[8]) {{ %a = call @f{1}(%x)  %b = get %a, 0  %c = call @f{1}(%b)  %y = get %c, 0  "
        "return y = %y }}\n",
        i, i - 1);
  const Module tree = parse_module(text);
  EXPECT_THROW(Running running(tree), Error);
  Bindings bindings{.inputs = {{"x", host_tensor(DType::f32, {8}, std::vector<double>(8, 1))}}};
  EXPECT_THROW(Interpreter(tree, bindings).run(), Error);
  std::string chain = "fn @g0(%x: f32[8]) { %y = neg %x  return y = %y }\n";
  for (int i = 1; i <= 1500; i++)
    chain += fmt::format("fn @g{0}(%x: f32[8]) {{ %a = call @g{1}(%x)  %b = get %a, 0  return y = %b }}\n", i,
                         i - 1);
  const Module deep = parse_module(chain);
  try { // an answer or an Error, and no more stack than there is
    Interpreter(deep, bindings).run();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("nested too deeply"), std::string::npos) << error.what();
  }
  try {
    Running running(deep);
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("nested too deeply"), std::string::npos) << error.what();
  }
}

TEST(Plans, DimensionsOutOfRangeAreRefused) {
  Module module = two_layers();
  Running running(module);
  auto context = running.start(module, two_layers_inputs(4, 1));
  auto set = context->set_symbol("n", 33);
  ASSERT_FALSE(set);
  EXPECT_EQ(set.error(), "dimension n is declared 1..32, 33 was given");
}

} // namespace
} // namespace luminal
