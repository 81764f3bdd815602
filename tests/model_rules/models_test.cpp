// model_rules/models_test.cpp -- models through the e-graph and back: equal values, as many kernels, the
// same text the second time.
#include "model_graphs.h"
#include "rules/round_trip.h"
#include <chrono>
#include <fmt/format.h>
#include <gtest/gtest.h>

namespace luminal {
namespace {

using namespace testing_rules;

/// Small numbers for every input, dimensions at their typical sizes.
Bindings small_inputs(const Module& module) {
  Bindings b;
  for (const Expr s : module.symbols) b.symbols[std::string(s.name())] = std::min<int64_t>(s.range().high, 3);
  uint64_t seed = 1;
  for (const NodeId id : module.entry().params) {
    const auto& input = std::get<InputAttr>(module.entry()[id].attr);
    testing_ir::RandomInput random{input.name, input.type, testing_ir::RandomInput::Style::uniform};
    if (!is_float(input.type.dtype) && input.type.dtype != DType::u8) {
      random.style = testing_ir::RandomInput::Style::index;
      random.low = 0, random.high = 9;
    }
    b.inputs[input.name] = random.data(b.symbols, seed++);
  }
  return b;
}

TEST(RoundTrip, Models) {
  rules::RegionTerms terms;
  for (const auto& [name, module] : model_graphs()) {
    Module after;
    const auto wrong = broken(module, terms, after);
    ASSERT_FALSE(wrong) << name << ": " << *wrong << "\n" << to_string(module) << "\n" << to_string(after);
    EXPECT_EQ(kernels(after), kernels(module)) << name << "\n"
                                               << to_string(module) << "\n"
                                               << to_string(after);
    if (name == "llama_q4_k") continue; // its rows have 256 elements at least
    const auto other = different_values(module, after, small_inputs(module));
    EXPECT_FALSE(other) << name << ": " << *other;
    fmt::print("{:<12} {} nodes, {} axes, {} rows, {} kernels\n", name, module.entry().nodes.size(),
               terms.axes.size(), terms.graph().total_size(), kernels(module));
  }
}

/// By regions: equal values, as many nodes and kernels as through one region, the same text the second
/// time.
TEST(Regions, ModelsComeBack) {
  rules::RegionTerms terms;
  for (const auto& [name, module] : model_graphs()) {
    rules::ThroughReport report;
    const Module after = round_trip_by_regions(module, terms, {}, &report);
    ASSERT_EQ(verify(after), std::vector<std::string>()) << name;
    EXPECT_EQ(report.refused, 0u) << name;
    EXPECT_EQ(kernels(after), kernels(module)) << name;
    EXPECT_EQ(after.entry().nodes.size(), round_trip(module, terms).value().entry().nodes.size()) << name;
    EXPECT_EQ(to_string(round_trip_by_regions(after, terms)), to_string(after)) << name;
    if (name != "llama_q4_k") {
      EXPECT_EQ(different_values(module, after, small_inputs(module)), std::nullopt) << name;
    }
    fmt::print("{:<12} {} regions, {} kinds\n", name, report.regions, report.kinds);
  }
}

/// One region for a layer, whatever the number of layers.
TEST(Regions, AreAHandfulForManyLayers) {
  const std::pair<const char*, Module> models[] = {{"llama", llama(24)},
                                                   {"llama q4_0", llama(24, StorageType::q4_0)},
                                                   {"bert", transformer(24, false)},
                                                   {"gpt", transformer(24, true)},
                                                   {"resnet", resnet(4, 6)}};
  rules::RegionTerms terms;
  for (const auto& [name, module] : models) {
    rules::ThroughReport report;
    const auto start = std::chrono::steady_clock::now();
    const Module after = round_trip_by_regions(module, terms, {}, &report);
    const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
    EXPECT_EQ(verify(after), std::vector<std::string>()) << name;
    EXPECT_LE(report.kinds, std::string(name) == "resnet" ? 12u : 4u) << name;
    EXPECT_EQ(kernels(after), kernels(module)) << name;
    fmt::print("{:<12} {} nodes, {} regions, {} kinds, {:.1f} ms\n", name, module.entry().nodes.size(),
               report.regions, report.kinds, took.count());
  }
}

/// Source lines and names come back with the values that they belong to.
TEST(RoundTrip, NamesAndOriginsStay) {
  Module module = transformer(1, true);
  Function& f = module.functions.back();
  for (NodeId id : f.nodes.ids())
    if (f.nodes[id].kind == NodeKind::map) {
      f.nodes[id].name = fmt::format("value{}", id);
      f.nodes[id].origin = fmt::format("model.cpp:{}", id);
    }
  rules::RegionTerms terms;
  Module after;
  ASSERT_EQ(broken(module, terms, after), std::nullopt);
  std::map<std::string, std::string> origins;
  for (const Node& node : after.entry().nodes)
    if (!node.name.empty()) origins[node.name] = node.origin;
  for (const Node& node : f.nodes)
    if (!node.name.empty() && node.kind == NodeKind::map) {
      EXPECT_EQ(origins[node.name], node.origin) << node.name;
    }
}

/// What goes from region to region is the value, and not what a view makes of it for one reader: a value
/// spread over the space of a product is as large as the product's work.
TEST(CutRegions, AViewBelongsToThoseThatReadIt) {
  FunctionBuilder b("main");
  NodeId x = b.input("x", {DType::f32, {8, 16}});
  std::vector<NodeId> layers;
  const auto product = [&](NodeId of, NodeId with) {
    const Shape space{8, 16, 16};
    return b.reduce(Op::add,
                    b.map(Op::mul, {of, b.view(with, space, {axis_symbol(2, 16), axis_symbol(1, 16)})}), {2});
  };
  std::vector<NodeId> spread, weights;
  for (int k = 0; k < 6; ++k) {
    const NodeId w = b.input("w" + std::to_string(k), {DType::f32, {16, 16}});
    weights.push_back(w);
    spread.push_back(b.view(x, {8, 16, 16}, {axis_symbol(0, 8), axis_symbol(2, 16)}));
    x = b.map(Op::tanh, {product(spread.back(), w)});
  }
  for (int k = 6; k-- > 0;) { // the way back reads the same views
    const NodeId g = b.view(x, {8, 16, 16}, {axis_symbol(0, 8), axis_symbol(1, 16)});
    b.result("d" + std::to_string(k), b.reduce(Op::add, b.map(Op::mul, {g, spread[size_t(k)]}), {0}));
    x = b.map(Op::tanh,
              {product(b.view(x, {8, 16, 16}, {axis_symbol(0, 8), axis_symbol(2, 16)}), weights[size_t(k)])});
  }
  b.result("x", x);
  const Module module{{}, {}, {b.finish()}};
  const rules::FlatFunction flat(module, module.entry());
  const rules::Regions regions = rules::cut_regions(flat, {.nodes = 12});
  EXPECT_GT(regions.regions.size(), 3u);
  for (const rules::FunctionRegion& region : regions.regions)
    for (const auto* list : {&region.roots, &region.leaves})
      for (const NodeId id : *list) EXPECT_NE(flat.function[id].kind, NodeKind::view);
  rules::RegionTerms terms;
  const Module again = round_trip_by_regions(module, terms, {.nodes = 12});
  EXPECT_EQ(different_values(module, again, small_inputs(module)), std::nullopt);
}

/// A result that is read far behind its tuple stays with it, whatever the size of a region: a cut between
/// them would leave a region that reads a whole tuple.
TEST(CutRegions, TuplesAndTheirResultsStayTogether) {
  std::string text = "fn @main(%x: f32[8], %y: f32[8]) {\n  %s = sort %x, %y along 0\n  %v0 = get %s, 0\n";
  for (int k = 0; k < 40; ++k) text += fmt::format("  %v{} = {} %v{}\n", k + 1, k % 2 ? "sin" : "exp2", k);
  const Module module =
      parse_module(text + "  %b = get %s, 1\n  %z = mul %b, %v40\n  return z = %z\n}\n", "text");
  const rules::FlatFunction flat(module, module.entry());
  const rules::Regions regions = rules::cut_regions(flat, {.nodes = 12});
  EXPECT_GT(regions.regions.size(), 3u);
  for (const rules::FunctionRegion& region : regions.regions)
    for (const NodeId id : region.leaves) EXPECT_FALSE(flat.function[id].is_tuple());
  rules::RegionTerms terms;
  const Module again = round_trip_by_regions(module, terms, {.nodes = 12});
  EXPECT_EQ(different_values(module, again, small_inputs(module)), std::nullopt);
}
/// More results than a region has nodes.
TEST(CutRegions, WideTuplesStayTogether) {
  constexpr int width = 20;
  std::string body = "fn @step(%i: i64", names, results, text = "fn @main(";
  for (int k = 0; k < width; ++k) {
    body += fmt::format(", %c{}: f32[4]", k);
    names += fmt::format("{}%c{}", k ? ", " : "", k);
    results += fmt::format("{}n{} = %s{}", k ? ", " : "", k, k);
    text += fmt::format("{}%c{}: f32[4]", k ? ", " : "", k);
  }
  body += ") {\n";
  for (int k = 0; k < width; ++k) body += fmt::format("  %s{} = sin %c{}\n", k, k);
  text += ") {\n  %l = loop @step count 2 carried (" + names + ") stepped () given ()\n";
  std::string sum = "  return";
  for (int k = 0; k < width; ++k) {
    text += fmt::format("  %g{0} = get %l, {0}\n  %e{0} = exp2 %g{0}\n", k);
    sum += fmt::format("{} r{} = %e{}", k ? "," : "", k, k);
  }
  const Module module = parse_module(body + "  return " + results + "\n}\n" + text + sum + "\n}\n", "text");
  const rules::FlatFunction flat(module, module.entry());
  for (const rules::FunctionRegion& region : rules::cut_regions(flat, {.nodes = 12}).regions)
    for (const NodeId id : region.leaves) EXPECT_FALSE(flat.function[id].is_tuple());
}

} // namespace
} // namespace luminal
