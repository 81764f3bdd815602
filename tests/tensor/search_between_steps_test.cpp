// search_between_steps_test.cpp -- a program takes the place of another between two steps: states and results
// stay what they are; and a search that works in turns ends, whether it is done or not.
#include "luminal/luminal.h"
#include "tensor/graph_run.h"
#include "tensor/search_between_steps.h"
#include <gmock/gmock.h>

namespace luminal {
namespace {

/// A product added to what the steps before have left.
struct Counter {
  Graph graph;
  Tensor x, total;
  explicit Counter(int64_t size = 24) {
    x = graph.tensor({size, size}, DType::f32, "x");
    const Tensor state = graph.state("total", {size, size});
    const Tensor next = state + x.matmul(x).tanh();
    graph.update(state, next);
    total = next;
    total.keep();
    CompileOptions options;
    options.threads = 1;
    options.cache = false;
    graph.compile(options);
    std::vector<float> values(size_t(size * size));
    for (size_t i = 0; i < values.size(); ++i) values[i] = float(i % 7) / 32;
    x.set(values);
  }
  std::vector<float> step() {
    graph.execute();
    std::vector<float> out(24 * 24);
    total.read(out.data(), DType::f32);
    return out;
  }
  /// The same program in plain loops.
  compile::Compiled in_plain_loops() const {
    const GraphState& g = *graph.state();
    compile::Options options = compile_options(g, g.options);
    for (const auto& kernel : g.programs[0]->compiled.choices) options.schedules[kernel.name] = "";
    return compile::compile(g.snapshot(), options).value();
  }
};

TEST(ExchangeProgram, KeepsStatesAndResults) {
  Counter one, other;
  for (int step = 0; step < 6; ++step) {
    if (step == 3) {
      const auto before = one.graph.state()->programs[0]->compiled.schedules;
      ASSERT_TRUE(exchange_program(one.graph, one.in_plain_loops()));
      ASSERT_NE(one.graph.state()->programs[0]->compiled.schedules, before);
    }
    const auto got = one.step(), want = other.step();
    for (size_t i = 0; i < want.size(); ++i) ASSERT_NEAR(got[i], want[i], 1e-5) << "step " << step;
  }
}

TEST(ExchangeProgram, RefusesOneWithOtherStates) {
  Counter one, larger(48);
  const auto done = exchange_program(one.graph, larger.in_plain_loops());
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error(), "the states of the new program do not lie as those of the present one");
  Graph empty;
  EXPECT_EQ(exchange_program(empty, larger.in_plain_loops()).error(), "the graph is not compiled");
  EXPECT_THROW(SearchBetweenSteps(empty, 1), Error);
}

TEST(SearchBetweenSteps, WorksInTurnsUntilItIsOver) {
  Counter one, other;
  SearchBetweenSteps search(one.graph, 0.5);
  int step = 0;
  for (; !search.over() && step < 100000; ++step) {
    const auto got = one.step(), want = other.step();
    for (size_t i = 0; i < want.size(); i += 5)
      ASSERT_NEAR(got[i], want[i], 1e-5 * (step + 1)) << "step " << step;
    search.turn(0.02);
  }
  EXPECT_TRUE(search.over());
  EXPECT_GT(step, 1) << "the graph has run meanwhile";
  EXPECT_THAT(search.told(), testing::StartsWith("searched for "));
  EXPECT_THAT(search.told(), testing::Not(testing::HasSubstr("the text ended first")));
}

TEST(SearchBetweenSteps, EndsWithTheGraph) {
  Counter one;
  SearchBetweenSteps search(one.graph, 1000);
  one.step();
  search.turn(0.01);
  EXPECT_FALSE(search.over());
  EXPECT_THAT(search.told(), testing::HasSubstr("the text ended first"));
}

} // namespace
} // namespace luminal
