// model_rules/entry_test.cpp -- how regions stand in the e-graph: axes and their names, domains of folds,
// indices that are read from memory, what stays opaque.
#include "base/file.h"
#include "model_graphs.h"
#include "rules/name_axes.h"
#include "rules/round_trip.h"
#include <gmock/gmock.h>

namespace luminal {
namespace {

using namespace testing_rules;

struct Counts {
  size_t axes = 0, rows = 0;
  int renames = 0;
};

/// Enters the whole entry function.
Counts counts_of(const Module& module, rules::RegionTerms& terms) {
  const rules::FlatFunction flat(module, module.entry());
  rules::RegionNodes region;
  for (const FunctionResult& r : module.entry().results) region.roots.push_back(r.value);
  const auto entered = rules::enter(terms, flat, region);
  EXPECT_TRUE(entered) << entered.error();
  return {terms.axes.size(), size_t(terms.graph().total_size()), entered->renames};
}

Module checked_round_trip(const std::string& text) {
  const Module module = parse_module(text);
  EXPECT_THAT(verify(module), testing::IsEmpty());
  rules::RegionTerms terms;
  Module after;
  EXPECT_EQ(broken(module, terms, after), std::nullopt) << to_string(after);
  Bindings bindings;
  for (const NodeId id : module.entry().params) {
    const auto& input = std::get<InputAttr>(module.entry()[id].attr);
    testing_ir::RandomInput random{input.name, input.type, testing_ir::RandomInput::Style::uniform};
    bindings.inputs[input.name] = random.data({}, uint64_t(id.number() + 1));
  }
  EXPECT_EQ(different_values(module, after, bindings), std::nullopt) << to_string(after);
  return after;
}

TEST(Entry, QuotientsOfExtents) {
  const Expr s = Expr::symbol("S", {1, 512}), t = Expr::symbol("T", {1, 64});
  using rules::exact_quotient;
  EXPECT_EQ(exact_quotient(12, 4), Expr(3));
  EXPECT_EQ(exact_quotient(12, 5), std::nullopt);
  EXPECT_EQ(exact_quotient(s * 64, 64), s);
  EXPECT_EQ(exact_quotient(s * 64, s), Expr(64));
  EXPECT_EQ(exact_quotient(s * t * 6, t * 2), s * 3);
  EXPECT_EQ(exact_quotient(s, t), std::nullopt);
  EXPECT_EQ(exact_quotient(s + 64, 64), std::nullopt);
  EXPECT_EQ(exact_quotient(0, 4), std::nullopt) << "an extent without a point has no digits";
}

TEST(Entry, PiecesOfAnIndex) {
  const Shape space{4, 6, 10};
  const Expr i = axis_symbol(0, 4), j = axis_symbol(1, 6), k = axis_symbol(2, 10);
  const auto pieces = rules::pieces_of(i * 3 + floordiv(j, 2), space, 12);
  ASSERT_TRUE(pieces);
  ASSERT_EQ(pieces->size(), 2u);
  EXPECT_EQ((*pieces)[0].axis, 1);
  EXPECT_EQ((*pieces)[0].low, Expr(2));
  EXPECT_EQ((*pieces)[1].at, Expr(3));
  EXPECT_TRUE(rules::pieces_of(mod(floordiv(k, 1), 5), space, 5));
  EXPECT_FALSE(rules::pieces_of(i * 3 + j, space, 14)) << "windows overlap";
  EXPECT_FALSE(rules::pieces_of(i + 1, space, 5));
  EXPECT_FALSE(rules::pieces_of(i * 2, space, 8)) << "every second element";
}

/// Grouped heads, merged heads and halves of rotations are names, not views.
TEST(Entry, AxesOfALayerAreNames) {
  rules::RegionTerms terms;
  const Counts one = counts_of(transformer(1, true), terms), two = counts_of(transformer(2, true), terms);
  EXPECT_LE(one.axes, 9u);
  EXPECT_LE(two.axes, 12u);
  EXPECT_EQ(one.renames, 2) << "keys and values have another name than queries";
  EXPECT_EQ(two.renames, 4);
  EXPECT_LT(two.rows, 180u);
}

/// Equal values are one class, whatever the shapes in which they were written.
TEST(Entry, ShapesDoNotTellTermsApart) {
  rules::RegionTerms terms;
  const std::string twice = R"(fn @main(%x: f32[6, 4]) {
  %a = exp %x
  %r = view %x [i: 24] -> [i // 4, i % 4]
  %b = exp %r
  %s = view %b [i: 6, j: 4] -> [i * 4 + j]
  %y = add %a, %s
  return y = %y
}
)";
  EXPECT_EQ(counts_of(parse_module(twice), terms).rows, 3u) << "In, Exp, Add";
  const Module after = checked_round_trip(twice);
  EXPECT_EQ(after.entry().nodes.size(), 3u) << to_string(after);
}

/// The domain of a fold is a select in each body, and becomes the domain again where all bodies agree.
TEST(Entry, DomainsComeBack) {
  const Module after = checked_round_trip(R"(fn @main(%x: f32[5, 7], %y: i32[5, 7]) {
  %f = fold [i: 5, j: 7] over [j] where j <= i { sum %x[i, j]; max %x[i, j]; min %y[i, j] }
  %a = get %f, 0
  %b = get %f, 1
  %c = get %f, 2
  return a = %a, b = %b, c = %c
}
)");
  for (const Node& node : after.entry().nodes) {
    EXPECT_NE(node.kind, NodeKind::iota) << to_string(after);
    if (node.kind == NodeKind::fold) {
      EXPECT_FALSE(std::get<FoldAttr>(node.attr).where.is_constant(1));
    }
  }
}

TEST(Entry, DomainsThatDifferStaySelects) {
  const Module after = checked_round_trip(R"(fn @main(%x: f32[7]) {
  %p = iota bool [j: 7] -> j < 3
  %q = iota bool [j: 7] -> j < 6
  %zero = const f32 0
  %z = view %zero [j: 7] -> []
  %a = select %p, %x, %z
  %b = select %q, %x, %z
  %f = fold [j: 7] over [j] { sum %a[j]; sum %b[j] }
  %s = get %f, 0
  %t = get %f, 1
  return s = %s, t = %t
}
)");
  for (const Node& node : after.entry().nodes)
    if (node.kind == NodeKind::fold) {
      EXPECT_TRUE(std::get<FoldAttr>(node.attr).where.is_constant(1)) << to_string(after);
    }
}

/// An index from memory that is clamped into an extent is clamped into that very extent afterwards.
TEST(Entry, ClampedIndicesKeepTheirExtent) {
  checked_round_trip(R"(fn @main(%x: f32[6], %at: i32[4]) {
  %e = exp %x
  %r = view %e [i: 2, j: 3] -> [i * 3 + j]
  %g = view %r [k: 4, j: 3] with h = %at[k] in -9..9 clamp -> [h, j]
  %y = neg %g
  return y = %y
}
)");
}

/// Under an online softmax the state (-inf, 1) is not what combining it with the identity gives.
TEST(Entry, FoldsOverOnePointMayChangeTheirBody) {
  checked_round_trip(R"(fn @main(%w: f32[3]) {
  %one = const f32 1
  %m = const f32 -inf
  %x = view %m [i: 3, k: 1] -> []
  %f = fold [i: 3, k: 1] over [k] { max %x[i, k]; sum(select(old0 == -inf, 0, self * exp2(old0 - new0))) %one[] }
  %s = get %f, 1
  %y = mul %s, %w
  return y = %y
}
)");
}

TEST(Entry, RefusesTooManyAxes) {
  std::string text = "fn @main(";
  std::string results;
  for (int k = 0; k < 150; ++k) {
    text += (k ? ", " : "") + fmt::format("%x{}: f32[{}, {}]", k, 2 * k + 2, 2 * k + 3);
    results += (k ? ", " : "") + fmt::format("r{} = %x{}", k, k);
  }
  const Module module = parse_module(text + ") {\n  return " + results + "\n}\n");
  rules::RegionTerms terms;
  const auto back = round_trip(module, terms);
  ASSERT_FALSE(back);
  EXPECT_EQ(back.error(), "a region has more than 256 axes");
  rules::ThroughReport report;
  EXPECT_EQ(verify(round_trip_by_regions(module, terms, {}, &report)), std::vector<std::string>());
}

/// What a choice says is stored comes back as a partition of the function that is made.
TEST(Emit, GivesThePartitionOfAChoice) {
  const Module module = parse_module(R"(fn @main(%x: f32[8, 4], %w: f32[4, 6]) {
  %a = view %x [m: 8, n: 6, k: 4] -> [m, k]
  %b = view %w [m: 8, n: 6, k: 4] -> [k, n]
  %p = mul %a, %b
  %f = fold [m: 8, n: 6, k: 4] over [k] { sum %p[m, n, k] }
  %s = get %f, 0
  %e = exp %s
  %y = view %e [n: 6, m: 8] -> [m, n]
  return y = %y
}
)");
  const rules::FlatFunction flat(module, module.entry());
  rules::RegionTerms terms;
  const auto entered = rules::enter(terms, flat, {{module.entry().results[0].value}, {}}).value();
  rules::Choice choice = rules::first_rows(terms);
  std::vector<egraph::ClassId> sum;
  for (const NodeId id : entered.nodes)
    if (module.entry()[id].kind == NodeKind::get) sum.push_back(entered.classes[id]);
  choice.kernels = {sum, {entered.classes[entered.roots[0]]}};
  rules::FunctionWriter writer(module.entry());
  writer.place(rules::emit(terms, entered, choice));
  Module after = module;
  Partition partition;
  after.functions.back() = writer.finish(&partition);
  const Function& f = after.entry();
  EXPECT_EQ(verify(partition, whole_region(f)), std::vector<std::string>()) << to_string(after);
  ASSERT_EQ(partition.kernels.size(), 2u);
  EXPECT_EQ(f[partition.kernels[0][0]].kind, NodeKind::get);
  EXPECT_EQ(partition.kernels[1][0], f.results[0].value)
      << "a result is stored in the form that is asked for";
}

} // namespace
} // namespace luminal
