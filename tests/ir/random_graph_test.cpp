// tests/ir/random_graph_test.cpp -- properties over random modules: text comes back, the modes of
// the interpreter agree with one another.
#include "ir/random_graph.h"
#include "luminal/error.h"
#include <cmath>
#include <gmock/gmock.h>
#include <set>

namespace luminal::random_graph_test {
namespace {

using namespace testing_ir;

RandomGraphOptions everything() {
  RandomGraphOptions options;
  options.structure = true;
  options.nodes = 16;
  return options;
}

TEST(RandomGraphs, AreWellFormedAndComeBackFromText) {
  std::set<std::string> kinds;
  for (uint64_t seed = 1; seed <= 400; ++seed) {
    RandomGraph g(seed, everything());
    ASSERT_THAT(verify(g.module), testing::IsEmpty()) << "seed " << seed << "\n" << to_string(g.module);
    std::string text = to_string(g.module);
    Module again = parse_module(text, "seed");
    ASSERT_TRUE(same_module(g.module, again)) << "seed " << seed << "\n" << text << "\n" << to_string(again);
    ASSERT_EQ(text, to_string(again)) << "seed " << seed;
    for (size_t k = 0; k < g.module.functions.size(); ++k)
      ASSERT_EQ(structural_hash(g.module.functions[k]), structural_hash(again.functions[k]))
          << "seed " << seed;
    for (const Function& f : g.module.functions)
      for (const Node& n : f.nodes) kinds.insert(std::string(to_string(n.kind)));
  }
  for (NodeKind kind : {NodeKind::input, NodeKind::constant, NodeKind::iota, NodeKind::random, NodeKind::map,
                        NodeKind::cast, NodeKind::view, NodeKind::scatter, NodeKind::fold, NodeKind::scan,
                        NodeKind::sort, NodeKind::call, NodeKind::loop, NodeKind::get})
    EXPECT_TRUE(kinds.contains(std::string(to_string(kind)))) << to_string(kind) << " never occurs";
}

/// The modes agree: bounded holds rounded and f64 within its bound, exact's shadow is f64's value.
TEST(RandomGraphs, ModesAgree) {
  RandomGraphOptions options = everything();
  options.nodes = 10;
  int64_t compared = 0, finite = 0;
  for (uint64_t seed = 1; seed <= 250; ++seed) {
    RandomGraph g(seed, options);
    Interpreter rounded(g.module, g.bindings), f64(g.module, g.bindings, InterpMode::f64),
        bounded(g.module, g.bindings, InterpMode::bounded), exact(g.module, g.bindings, InterpMode::exact);
    for (const FunctionResult& r : g.module.entry().results) {
      auto a = rounded.values(r.name), b = f64.values(r.name), c = bounded.values(r.name),
           d = exact.values(r.name);
      ASSERT_EQ(a.size(), c.size());
      for (size_t i = 0; i < a.size(); ++i) {
        ++compared;
        if (std::isinf(c[i].error)) continue;
        if (!std::isnan(c[i].value)) ++finite;
        auto within = [&](double x) {
          return x == c[i].value || std::fabs(x - c[i].value) <= c[i].error ||
                 (std::isnan(x) && std::isnan(c[i].value));
        };
        ASSERT_TRUE(within(a[i].value))
            << "seed " << seed << " result " << r.name << " at " << i << ": " << a[i].value << " against "
            << c[i].value << " +- " << c[i].error << "\n"
            << to_string(g.module);
        ASSERT_TRUE(within(b[i].value)) << "seed " << seed << " result " << r.name << " at " << i;
        double scale = std::fmax(1, std::fabs(b[i].value));
        if (c[i].error < 1e-2 && std::isfinite(b[i].value)) {
          ASSERT_NEAR(b[i].value, d[i].value, 1e-6 * scale + 2 * c[i].error)
              << "seed " << seed << " result " << r.name << " at " << i;
        }
      }
    }
  }
  EXPECT_GT(finite, compared / 2) << "most bounds should say something";
}

TEST(RandomGraphs, ElementsAreThoseOfTheWhole) {
  for (uint64_t seed = 500; seed < 560; ++seed) {
    RandomGraph g(seed, everything());
    Interpreter whole(g.module, g.bindings), single(g.module, g.bindings);
    for (const FunctionResult& r : g.module.entry().results) {
      HostTensor t = whole.result(r.name);
      for (int64_t flat = t.count() - 1; flat >= 0; flat -= 1 + t.count() / 7) { // backwards, some of them
        std::vector<int64_t> at(t.shape.size());
        int64_t rest = flat;
        for (size_t d = at.size(); d-- > 0;) at[d] = rest % t.shape[d], rest /= t.shape[d];
        double x = t.at(flat), y = single.element(r.name, at).value;
        ASSERT_TRUE(x == y || (std::isnan(x) && std::isnan(y))) << "seed " << seed;
      }
    }
  }
}

} // namespace
} // namespace luminal::random_graph_test
