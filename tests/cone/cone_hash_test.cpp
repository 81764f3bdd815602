// tests/cone/cone_hash_test.cpp -- the hash by which stored schedules are found stays what it is.
#include "cone/canonical_cone.h"
#include "cone/formula.h"
#include <cmath>
#include <gtest/gtest.h>

namespace luminal::kernel {
namespace {

/// A fold and what follows it, with a formula of each kind.
Cone all_kinds() {
  Cone cone;
  const Expr i = Expr::symbol("i", {0, 7}), j = Expr::symbol("j", {0, 15});
  cone.axes = {{"i", 8, i}, {"j", 16, j}};
  const AxisId row(0), column(1);
  const ValueId in = cone.values.add({"x", DType::f32, {8, 16}});
  const ValueId out = cone.values.add({"y", DType::f32, {8}, {row}, ValueRole::output});
  const FormulaRef x = formula_load(in, DType::f32, {i, j - 1}, ge(j, 1));
  const FormulaRef bits = formula_bitcast(DType::i32, x);
  const FormulaRef number = formula_op(Op::add, {bits, formula_index(i * 16 + j, DType::i32)});
  Formula named = *formula_user_op("twice", DType::f32, {formula_cast(DType::f32, number)});
  named.origin = "t";
  named.at = {i, j};
  Component sum, scaled;
  sum.kind = ComponentKind::fold;
  sum.axes = scaled.axes = {row};
  sum.body = std::make_shared<const Formula>(named);
  sum.init = formula_constant(DType::f32, 0.5);
  scaled.after = true;
  scaled.body = formula_op(Op::mul, {formula_component(0, DType::f32), formula_constant(DType::f32, -3)});
  scaled.out = out;
  scaled.index = {i};
  Stage stage;
  stage.name = "y";
  stage.axes = {row, column};
  stage.components = {sum, scaled};
  cone.stages = {stage};
  return cone;
}

TEST(ConeHash, StaysWhatItIs) {
  const Cone cone = all_kinds();
  EXPECT_EQ(verify(cone), std::vector<std::string>());
  EXPECT_EQ(to_string(cone), "cone \n"
                             "  axis i: 8\n"
                             "  axis j: 16\n"
                             "  in x: f32[8, 16]\n"
                             "  out y: f32[8]\n"
                             "  stage y i j\n"
                             "    $0 = fold add twice(cast<f32>(add(bitcast<i32>(x[i, j - 1 where j >= 1]), "
                             "i32(i*16 + j)))) from 0.5\n"
                             "    $1 = map after mul($0, -3.0) -> y[i]\n");
  const Hash128 hash = structural_hash128(cone), canonical_hash = structural_hash128(canonical(cone).cone);
  EXPECT_EQ(hash.low, 0x5e4344f8ae52cacdu);
  EXPECT_EQ(hash.high, 0x54fd9c8b2b5826b8u);
  EXPECT_EQ(canonical_hash.low, 0xe6b93cc97ef37e25u);
  EXPECT_EQ(canonical_hash.high, 0x95ca5b59f31649d7u);
}

/// Does the hash change where `change` is made to the formulas of that kind?
template <class Kind> bool tells_apart(const std::function<void(Kind&)>& change) {
  const Cone cone = all_kinds();
  Cone other = cone;
  rewrite_stage(other.stages.front(), FormulaRewriter([&](const FormulaRef& f) -> FormulaRef {
                  Formula copy = *f;
                  if (auto* kind = std::get_if<Kind>(&copy.kind)) change(*kind);
                  return std::make_shared<const Formula>(std::move(copy));
                }));
  return structural_hash128(other) != structural_hash128(cone);
}

TEST(ConeHash, DiffersWithEachPartOfAFormula) {
  EXPECT_FALSE(tells_apart<FormulaLoad>([](auto&) {}));
  EXPECT_TRUE(tells_apart<FormulaConstant>([](auto& f) { f.value = 2; }));
  EXPECT_TRUE(tells_apart<FormulaLoad>([](auto& f) { f.value = ValueId(1); }));
  EXPECT_TRUE(tells_apart<FormulaLoad>([](auto& f) { f.index[0] = 0; }));
  EXPECT_TRUE(tells_apart<FormulaLoad>([](auto& f) { f.guard = 1; }));
  EXPECT_TRUE(tells_apart<FormulaIndex>([](auto& f) { f.value = f.value + 1; }));
  EXPECT_TRUE(tells_apart<FormulaOp>([](auto& f) { f.op = Op::max; }));
  EXPECT_TRUE(tells_apart<FormulaOp>([](auto& f) { std::swap(f.args[0], f.args[1]); }));
  EXPECT_TRUE(tells_apart<FormulaUserOp>([](auto& f) { f.name = "thrice"; }));
  EXPECT_TRUE(tells_apart<FormulaComponent>([](auto& f) { f.number = 1; }));
  EXPECT_TRUE(tells_apart<FormulaCast>([](auto& f) { f.x = formula_constant(DType::i32, 1); }));
  EXPECT_TRUE(tells_apart<FormulaBitcast>([](auto& f) { f.x = formula_constant(DType::f32, 1); }));
}

/// Equal nodes become one; a zero with a sign is another constant, and a NaN is itself.
TEST(SharedFormulas, KeepWhatDiffersInBits) {
  SharedFormulas shared;
  const auto f32 = [](double v) { return formula_constant(DType::f32, v); };
  EXPECT_EQ(shared(f32(0)), shared(f32(0)));
  EXPECT_NE(shared(f32(0)), shared(f32(-0.0)));
  EXPECT_EQ(shared(f32(NAN)), shared(f32(NAN)));
  EXPECT_TRUE(equal(f32(0), f32(-0.0)));
  EXPECT_TRUE(equal(f32(NAN), f32(NAN)));
  const auto user = [&](const char* name) { return formula_user_op(name, DType::f32, {f32(1)}); };
  EXPECT_EQ(shared(user("twice")), shared(user("twice")));
  EXPECT_NE(shared(user("twice")), shared(user("thrice")));
  EXPECT_FALSE(equal(user("twice"), user("thrice")));
  EXPECT_TRUE(equal(user("twice"), user("twice")));
}

} // namespace
} // namespace luminal::kernel
