// tests/ir/passes_test.cpp -- a pass never changes a result: random modules through every pass and
// through random sequences, judged by the interpreter.
#include "ir/noisy_graph.h"
#include "luminal/error.h"
#include "luminal/pass.h"
#include <gmock/gmock.h>

namespace luminal {
namespace {

using namespace testing_ir;

RandomGraphOptions everything() {
  RandomGraphOptions options;
  options.structure = options.places = true;
  options.nodes = 9;
  return options;
}
bool is_exact(const Pass& pass) {
  return !pass.name().ends_with("-range") && !pass.name().ends_with("-reassoc");
}

/// What is wrong with `after`, run as `before` was; empty where nothing is.
std::string wrong(const std::map<std::string, HostTensor>& before, const Module& after,
                  const Bindings& bindings) {
  if (auto mistakes = verify(after); !mistakes.empty()) return mistakes[0];
  const std::string text = to_string(after);
  if (!same_module(after, parse_module(text))) return "its text does not come back";
  for (const auto& [name, value] : Interpreter(after, bindings).run()) {
    auto at = before.find(name);
    if (at == before.end()) return "result " + name + " is new";
    if (std::string d = first_difference(at->second, value); !d.empty()) return "result " + name + ": " + d;
  }
  return "";
}

void run_seeds(uint64_t first, uint64_t last, std::map<std::string, int>& changed) {
  std::vector<Pass> exact;
  for (const Pass& pass : all_passes())
    if (is_exact(pass)) exact.push_back(pass);
  for (uint64_t seed = first; seed <= last; ++seed) {
    const NoisyGraph g(seed, everything(), seed % 4 != 0);
    ASSERT_THAT(verify(g.module), testing::IsEmpty()) << "seed " << seed;
    const auto before = Interpreter(g.module, g.bindings).run();
    const std::string text = to_string(g.module);
    auto check = [&](const std::string& name, const Module& after) {
      const std::string mistake = wrong(before, after, g.bindings);
      ASSERT_EQ("", mistake) << "seed " << seed << " pass " << name << "\n"
                             << text << "\nbecame\n"
                             << to_string(after);
    };
    for (const Pass& pass : exact) {
      Module after = g.module;
      const int64_t changes = pass.run(after);
      if (changes == 0) {
        ASSERT_TRUE(same_module(g.module, after)) << pass.name() << " changed something and says 0";
        continue;
      }
      ++changed[pass.name()];
      ASSERT_NO_FATAL_FAILURE(check(pass.name(), after));
    }
    uint64_t state = seed;
    std::vector<Pass> list;
    for (int k = 0; k < 5; ++k)
      list.push_back(
          exact[size_t((state = state * 6364136223846793005u + 1442695040888963407u) >> 33) % exact.size()]);
    const Pass all = looped(sequence(list), 3);
    Module after = g.module;
    all.run(after);
    ASSERT_NO_FATAL_FAILURE(check(all.name(), after));
  }
}

TEST(Passes, ExactOnesKeepEveryBit) {
  std::map<std::string, int> changed;
  run_seeds(1, 500, changed);
  for (const char* name :
       {"cse", "dead-code", "constants", "arithmetic", "reductions", "views", "depth-first", "default"})
    EXPECT_GE(changed[name], 20) << name << " hardly ever had anything to do";
}

TEST(Passes, OthersKeepTheValueWithinTheErrorOfRounding) {
  std::map<std::string, int> changed;
  RandomGraphOptions options = everything();
  options.nodes = 7;
  for (uint64_t seed = 1; seed <= 120; ++seed) {
    const NoisyGraph g(seed, options, false);
    Interpreter before(g.module, g.bindings, InterpMode::bounded);
    for (const Pass& pass : all_passes()) {
      if (is_exact(pass)) continue;
      Module after = g.module;
      if (pass.run(after) == 0) continue;
      ++changed[pass.name()];
      ASSERT_THAT(verify(after), testing::IsEmpty()) << "seed " << seed << " pass " << pass.name();
      Interpreter then(after, g.bindings, InterpMode::bounded);
      for (const FunctionResult& r : g.module.entry().results) {
        const auto x = before.values(r.name), y = then.values(r.name);
        ASSERT_EQ(x.size(), y.size());
        for (size_t i = 0; i < x.size(); ++i) {
          const double error = x[i].error + y[i].error;
          const bool close = (std::isnan(x[i].value) && std::isnan(y[i].value)) || x[i].value == y[i].value ||
                             std::fabs(x[i].value - y[i].value) <= error + 1e-12 * std::fabs(x[i].value) ||
                             std::isinf(error);
          ASSERT_TRUE(close) << "seed " << seed << " pass " << pass.name() << " result " << r.name << " at "
                             << i << ": " << x[i].value << " and " << y[i].value << " +- " << error << "\n"
                             << to_string(g.module) << "\nbecame\n"
                             << to_string(after);
        }
      }
    }
  }
  for (const char* name : {"arithmetic-range", "reductions-reassoc", "reductions-range"})
    EXPECT_GE(changed[name], 10) << name;
}

/// The test above can fail: wrong passes of several kinds are found within a few graphs.
TEST(Passes, PlantedMistakesAreFound) {
  auto edit_first = [](const char* name, auto change) {
    return Pass(name, "a mistake", [change](Module& m) -> int64_t {
      int64_t changes = 0;
      for (Function& f : m.functions)
        for (Node& node : f.nodes) changes += change(f, node);
      return changes;
    });
  };
  auto op_of = [](const Node& node) { return std::get_if<MapAttr>(&node.attr); };
  const Pass wrong_ones[] = {
      edit_first("swapped-sub",
                 [&](Function&, Node& node) -> int64_t {
                   if (node.kind != NodeKind::map || op_of(node)->op != Op::sub ||
                       node.inputs[0] == node.inputs[1])
                     return 0;
                   std::swap(node.inputs[0], node.inputs[1]);
                   return 1;
                 }),
      edit_first("max-is-min",
                 [&](Function&, Node& node) -> int64_t {
                   if (node.kind != NodeKind::map || op_of(node)->op != Op::max) return 0;
                   std::get<MapAttr>(node.attr).op = Op::min;
                   return 1;
                 }),
      edit_first("plus-zero",
                 [&](Function& f, Node& node) -> int64_t { // x + 0 is not x where x is -0
                   if (node.kind != NodeKind::map || op_of(node)->op != Op::add ||
                       !is_float(node.type().dtype))
                     return 0;
                   NodeId c = node.inputs[1];
                   while (f[c].kind == NodeKind::view) c = f[c].inputs[0];
                   if (f[c].kind != NodeKind::constant ||
                       load_f64(f[c].type().dtype, std::get<ConstantAttr>(f[c].attr).data->data(), 0) != 0)
                     return 0;
                   node.attr = MapAttr{Op::sub, {}};
                   return 1;
                 }),
      edit_first("mask-forgotten", [&](Function&, Node& node) -> int64_t {
        auto* view = std::get_if<ViewAttr>(&node.attr);
        if (!view || view->predicate.is_constant() || view->fill == 2) return 0;
        view->fill = 2;
        return 1;
      })};
  for (const Pass& pass : wrong_ones) {
    int found = 0;
    for (uint64_t seed = 1; seed <= 150; ++seed) {
      const NoisyGraph g(seed, everything(), true);
      Module after = g.module;
      if (pass.run(after) == 0) continue;
      found += !wrong(Interpreter(g.module, g.bindings).run(), after, g.bindings).empty();
    }
    EXPECT_GT(found, 0) << pass.name();
  }
}

} // namespace
} // namespace luminal
