// tests/ir/graph_view_test.cpp -- DOT and HTML of modules: everything is there, nothing is asked
// from the network.
#include "ir/graph_view.h"
#include "ir/random_graph.h"
#include <algorithm>
#include <cctype>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <regex>

namespace luminal {
namespace {

using namespace testing_ir;
using testing::HasSubstr;
using testing::Not;

constexpr std::string_view small = R"(
fn @inner(%a: f32[4]) {
  %b = exp %a
  return b = %b
}
fn @main(%x: f32[4, 3], weight %w: f32[3]) {
  %wb = view %w [i: 4, j: 3] -> [j]
  %p = mul %x, %wb
  %f = fold [i: 4, j: 3] over [j] { sum %p[i, j]; max %p[i, j] }
  %s = get %f, 0
  %m = get %f, 1
  %c = call @inner(%s)
  %e = get %c, 0
  %less = lt %m, %e
  return e = %e, "a<b>" = %less
}
)";

size_t count(std::string_view text, std::string_view part) {
  size_t n = 0;
  for (size_t at = text.find(part); at != std::string_view::npos; at = text.find(part, at + part.size())) ++n;
  return n;
}

TEST(GraphViews, Dot) {
  Module m = parse_module(small);
  std::string dot = to_dot(m, {NodeId(3)});
  EXPECT_THAT(dot, HasSubstr("subgraph cluster_1 {\n    label=\"@main\";"));
  EXPECT_THAT(dot, HasSubstr("label=\"0: f32[4]\"")); // a result of a tuple, with its shape
  EXPECT_THAT(dot, HasSubstr("label=\"f32[4, 3]\""));
  EXPECT_EQ(1u, count(dot, "penwidth=3"));
  EXPECT_THAT(dot, HasSubstr("style=dashed")); // the call
  EXPECT_EQ(count(dot, "{"), count(dot, "}"));
}

TEST(GraphViews, Html) {
  Module m = parse_module(small);
  std::string html = to_html(m, {NodeId(3)});
  EXPECT_THAT(html, HasSubstr("<h2>@main"));
  EXPECT_THAT(html, HasSubstr("a&lt;b&gt;"));
  EXPECT_THAT(html, Not(HasSubstr("<b>")));
  EXPECT_THAT(html, HasSubstr("class=\"box map marked\""));
  for (std::string_view outside : {"http:", "https:", "src=", "@import", "url("})
    EXPECT_THAT(html, Not(HasSubstr(std::string(outside))));
  for (std::string tag : {"g", "svg", "text", "section", "div", "script", "style", "header"})
    EXPECT_EQ(count(html, "<" + tag + " ") + count(html, "<" + tag + ">"), count(html, "</" + tag + ">"))
        << tag;
}

/// Weights stand beside the layer that reads them, however many casts and views lie between: the
/// drawing grows downwards only.
TEST(GraphViews, ManyLayersAreNoWider) {
  auto width = [](int layers) {
    std::string text = "fn @main(%x0: f32[4, 3]", body;
    for (int i = 0; i < layers; ++i) {
      text += fmt::format(", weight %w{}: f16[3]", i);
      body += fmt::format("  %c{0} = cast f32 %w{0}\n  %v{0} = view %c{0} [i: 4, j: 3] -> [j]\n"
                          "  %x{1} = mul %x{0}, %v{0}\n",
                          i, i + 1);
    }
    const std::string html =
        to_html(parse_module(text + fmt::format(") {{\n{}  return y = %x{}\n}}\n", body, layers)));
    std::smatch found;
    EXPECT_TRUE(std::regex_search(html, found, std::regex("viewBox=\"0 0 ([0-9]+)")));
    return std::stod(found[1]);
  };
  EXPECT_LT(width(60), 1.5 * width(6));
}

/// A model is drawn layer by layer: weights with a number in their names say where values belong,
/// what crosses has a stand-in.
TEST(GraphViews, LayersAreDrawnApart) {
  const Module m = parse_module(
      R"(fn @main(%x: f32[4], weight %table: f32[4], weight %blk.0.w: f32[4], weight %blk.1.w: f32[4], weight %blk.10.w: f32[4]) {
  %one = const f32 2
  %wide = view %one [i: 4] -> []
  %e = mul %x, %table
  %a = mul %e, %blk.0.w
  %b = mul %a, %wide
  %c = mul %b, %blk.1.w
  %d = add %c, %wide
  %f = mul %d, %blk.10.w
  %g = mul %f, %table
  return y = %g
}
)");
  const GraphView view = graph_view(m, {});
  const auto parts = split_by_layer(view.groups[0]);
  ASSERT_EQ(parts.size(), 4U);
  std::vector<std::string> names, outside;
  size_t boxes = 0, arrows = 0;
  for (const GraphView::Group& part : parts) {
    names.push_back(part.name);
    boxes += part.boxes.size();
    arrows += part.arrows.size();
    for (const auto& box : part.boxes)
      if (box.style == "outside") outside.push_back(box.title + " " + box.line);
    for (const auto& arrow : part.arrows) {
      EXPECT_LT(arrow.from, arrow.to) << "topological order";
      EXPECT_LT(size_t(arrow.to), part.boxes.size());
    }
  }
  EXPECT_THAT(names, testing::ElementsAre("@main / before the layers", "@main / blk.0", "@main / blk.1",
                                          "@main / blk.10"));
  EXPECT_THAT(outside, testing::ElementsAre("%e from before the layers", "%b from blk.0", "%wide from blk.0",
                                            "%d from blk.1", "%table from before the layers"));
  EXPECT_EQ(boxes, view.groups[0].boxes.size() + outside.size());
  EXPECT_EQ(arrows, view.groups[0].arrows.size());
  EXPECT_EQ(count(to_html(m), "<svg "), 4U);
  // One layer, or none, is one drawing.
  EXPECT_EQ(count(to_html(parse_module("fn @main(%x: f32[4], weight %blk.0.w: f32[4]) {\n  %a = mul %x, "
                                       "%blk.0.w\n  return y = %a\n}\n")),
                  "<svg "),
            1U);
}

TEST(GraphViews, BoxesDoNotOverlap) {
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    RandomGraphOptions options;
    options.nodes = 40;
    options.structure = true;
    RandomGraph g(seed, options);
    std::string html = to_html(g.module);
    for (size_t begin = html.find("<svg"); begin != std::string::npos; begin = html.find("<svg", begin + 1)) {
      std::string picture = html.substr(begin, html.find("</svg>", begin) - begin);
      struct Box {
        double x, y, w, h;
      };
      std::vector<Box> boxes;
      std::regex rect("<rect x=\"([-0-9]+)\" y=\"([-0-9]+)\" width=\"([0-9]+)\" height=\"([0-9]+)\"");
      for (std::sregex_iterator it(picture.begin(), picture.end(), rect), end; it != end; ++it)
        boxes.push_back({std::stod((*it)[1]), std::stod((*it)[2]), std::stod((*it)[3]), std::stod((*it)[4])});
      ASSERT_FALSE(boxes.empty());
      for (size_t a = 0; a < boxes.size(); ++a) {
        ASSERT_GE(boxes[a].x, 0);
        for (size_t b = a + 1; b < boxes.size(); ++b) {
          bool apart = boxes[a].x + boxes[a].w <= boxes[b].x || boxes[b].x + boxes[b].w <= boxes[a].x ||
                       boxes[a].y + boxes[a].h <= boxes[b].y || boxes[b].y + boxes[b].h <= boxes[a].y;
          ASSERT_TRUE(apart) << "seed " << seed;
        }
      }
    }
  }
}

} // namespace
} // namespace luminal
