// golden/cone_error_texts_test.cpp -- messages of directives and of lowering that need a cone which no module
// makes: each with what is changed in one.
#include "cone/formula.h"
#include "golden/small_cones.h"
#include <functional>

namespace luminal::kernel::cone_error_texts_test {
namespace {

Stage& stage_of(Cone& cone, std::string_view name) {
  return cone.stages[StageId(std::ranges::find(cone.stages, name, &Stage::name) - cone.stages.begin())];
}
Expr axis(const Cone& cone, std::string_view name) {
  return std::ranges::find(cone.axes, name, &ConeAxis::name)->symbol;
}

/// The tuple has a component that is not one of its own.
void another_component(Cone& cone) {
  Stage& f = stage_of(cone, "f");
  Component more;
  more.body = formula_constant(DType::f32, 1);
  more.axes = f.components[0].axes;
  f.components.push_back(more);
}

void reads_component(Cone& cone) {
  stage_of(cone, "f").components[1].body = formula_component(0, DType::f32);
}

/// The sum ends where an index from memory says.
void ends_in_memory(Cone& cone) {
  const Expr end = Expr::symbol("end", {0, 32});
  cone.holes.add({end, formula_constant(DType::i64, 5)});
  stage_of(cone, "f").domain = lt(axis(cone, "k"), end);
}

/// An operand is a sum with a component of its stage.
void operand_of_component(Cone& cone) {
  Stage& f = stage_of(cone, "f");
  Component more;
  more.dtype = DType::bf16;
  more.body = formula_constant(DType::bf16, 1);
  more.axes = f.components[0].axes;
  more.after = true;
  f.components.push_back(more);
  std::vector<FormulaRef> factors;
  for (const FormulaRef& factor : args_of(*f.components[0].body)) factors.push_back(factor);
  const FormulaRef b = factors[1]->as<FormulaCast>()->x;
  factors[1] = formula_cast(DType::f32, formula_op(Op::add, {b, formula_component(1, DType::bf16)}));
  f.components[0].body = formula_op(Op::mul, factors);
}

void empty_stage(Cone& cone) {
  Stage none;
  none.name = "none";
  cone.stages.add(none);
}

/// Rows that lie before the first one of a trip.
void backwards(Cone& cone) {
  Expr& row = stage_of(cone, "f").components[0].index[0];
  row = row - floordiv(axis(cone, "j"), 2);
}

/// b is read at k + a number without bounds.
void without_end(Cone& cone) {
  const Expr any = Expr::symbol("any");
  cone.symbols.push_back(any);
  Component& sum = stage_of(cone, "f").components[0];
  sum.body = substitute(sum.body, {{axis(cone, "k"), axis(cone, "k") + any}});
}

/// The second half of a row is 0, and nobody needs it.
void needed_half(Cone& cone) {
  Stage& y = stage_of(cone, "y");
  y.needed = lt(axis(cone, "i1"), 10);
  y.components[0].body = formula_op(Op::select, {formula_index(y.needed, DType::boolean),
                                                 y.components[0].body, formula_constant(DType::f32, 0)});
}

/// Another sum over the same axes, of fewer elements.
void shorter_sum(Cone& cone) {
  Stage g = stage_of(cone, "f");
  g.name = "g";
  g.components[0].out = {};
  g.components[0].index.clear();
  g.domain = lt(axis(cone, "k"), 5);
  cone.stages.add(g);
}

/// A stage behind the reader of c adds to c.
void adds_to_c(Cone& cone) {
  Stage g = stage_of(cone, "f");
  g.name = "g";
  g.components[0].kind = ComponentKind::update;
  g.components[0].axes = g.axes;
  g.ordered = g.axes;
  cone.stages.add(g);
}

void as_it_is(Cone&) {}

struct RefusedCone {
  const char* module;
  std::function<void(Cone&)> change;
  const char *schedule, *message;
};

const RefusedCone rows[] = {
    {"top2", another_component, "cascade f k", "`cascade f k`: stage f has more components than its tuple"},
    {"top2", reads_component, "cascade f k", "`cascade f k`: stage f: a body reads another component"},
    {"attention", as_it_is, "cascade F k_2;at o root;before o l",
     "`before o l`: stages l and o are steps of one cascade"},
    {"plain", ends_in_memory, "unit f avx512.dpbf16 copy",
     "`unit f avx512.dpbf16 copy`: the domain of stage f is found through indices from memory"},
    {"plain", operand_of_component, "unit f avx512.dpbf16 copy",
     "`unit f avx512.dpbf16 copy`: an operand of avx512.dpbf16 is made in the same stage"},
    {"plain", empty_stage, "unit none avx512.dpbf16", "`unit none avx512.dpbf16`: stage none is empty"},
    {"added_beside", as_it_is, "at y i0;split y t outer inner 1",
     "stage y would update y once for each trip of i0"},
    {"product", backwards, "at r i", "stage f: c has no bounded extent there"},
    {"product", without_end, "padded_copy b copy",
     "`padded_copy b copy`: b: where any + k ends is not known"},
    {"map", needed_half, "segments y i1 2", "`segments y i1 2`: stage y is not for all of i1"},
    {"product", shorter_sum, "fuse f g", "`fuse f g`: stages f and g have different domains"},
    {"product", adds_to_c, "before g r", "`before g r`: stage r reads what g replaces"},
};

TEST(ConeErrorTexts, Changed) {
  for (const auto& [module, change, schedule, message] : rows) {
    const Module parsed = parse_module(small_modules().at(module), module);
    auto cone = cone_of(parsed.entry(), std::string_view(module) == "added_beside");
    ASSERT_TRUE(cone) << cone.error();
    change(*cone);
    EXPECT_THAT(verify(*cone), testing::IsEmpty()) << module << ": " << schedule;
    std::string directives = schedule;
    std::ranges::replace(directives, ';', '\n');
    const auto kernel = lower(*cone, parse_schedule(directives));
    EXPECT_EQ(kernel ? "accepted" : kernel.error(), std::string("[schedule] main: ") + message)
        << module << ": " << schedule;
  }
}

} // namespace
} // namespace luminal::kernel::cone_error_texts_test
