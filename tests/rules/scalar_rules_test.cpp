// rules/scalar_rules_test.cpp -- rules of class exact on terms with NaN, infinities and narrow types:
// whichever terms are chosen of a saturated region, the values are the same bits; wrong rules are found.
#include "round_trip.h"
#include "rules/cheapest.h"
#include "rules/saturate.h"
#include <gmock/gmock.h>

namespace luminal {
namespace {

using namespace testing_rules;

/// Operations that the rules speak of, on values of a few shapes with extents of 1 2 3 5.
class ScalarModule {
public:
  Module module;
  Bindings bindings;

  explicit ScalarModule(uint64_t seed) : state_(seed * 2 + 1), builder_("main", &module) {
    const int extents[] = {1, 2, 3, 5};
    const Shape shape{extents[below(4)], extents[below(4)]};
    const DType types[] = {DType::f32, DType::f32, DType::f16, DType::bf16, DType::f64};
    type_ = {types[below(5)], shape};
    for (int k = 0; k < 3; ++k) {
      const std::string name = "x" + std::to_string(k);
      testing_ir::RandomInput input{name, type_,
                                    k == 2 ? testing_ir::RandomInput::Style::special
                                           : testing_ir::RandomInput::Style::uniform};
      bindings.inputs[name] = input.data({}, seed * 31 + uint64_t(k));
      values_.push_back(builder_.input(name, type_));
    }
    for (const double c : {1.0, -1.0, 0.0})
      values_.push_back(builder_.view(builder_.constant(type_.dtype, c), shape, {}));
    one_ = values_[3];
    for (int k = 0; k < 20; ++k) operation();
    for (int k = 0; k < 3; ++k)
      builder_.result("r" + std::to_string(k), values_[values_.size() - 1 - size_t(k)]);
    module.functions.push_back(builder_.finish());
  }

private:
  int below(int n) { return int(testing_ir::random_word_of(state_) % uint64_t(n)); }
  NodeId any() { return values_[size_t(below(int(values_.size())))]; }
  /// Never -0. The sign of a zero that min and max return is not specified, and what a reciprocal or a
  /// quotient by it is, neither.
  NodeId divisor() {
    if (positive_.empty() || below(3) == 0) positive_.push_back(builder_.map(Op::exp, {any()}));
    return positive_[size_t(below(int(positive_.size())))];
  }
  void operation() {
    const Op unary[] = {Op::neg, Op::neg, Op::neg, Op::abs, Op::sqrt, Op::log, Op::tanh};
    const Op binary[] = {Op::add, Op::sub, Op::sub, Op::mul, Op::max, Op::min};
    const int which = below(24);
    if (which < 8) {
      values_.push_back(builder_.map(unary[below(7)], {any()}));
    } else if (which < 16) {
      values_.push_back(builder_.map(binary[below(6)], {any(), any()}));
    } else if (which < 18) { // against the order of the last axis: a view that stays
      const Expr n = type_.shape[1], j = axis_symbol(1, n);
      const NodeId x = below(3) == 0 ? divisor() : any();
      values_.push_back(builder_.view(x, type_.shape, {axis_symbol(0, type_.shape[0]), n - 1 - j}));
    } else if (which < 20) {
      const NodeId same = any();
      values_.push_back(
          builder_.map(Op::select, {builder_.map(below(2) ? Op::eq : Op::ne, {any(), any()}), same, same}));
    } else if (which < 22) {
      positive_.push_back(builder_.map(Op::recip, {divisor()}));
      values_.push_back(positive_.back());
    } else if (which < 23) {
      values_.push_back(builder_.map(Op::log, {divisor()}));
    } else {
      values_.push_back(builder_.map(Op::div, {any(), below(2) ? divisor() : one_}));
    }
  }

  uint64_t state_;
  TensorType type_;
  FunctionBuilder builder_;
  std::vector<NodeId> values_, positive_;
  NodeId one_;
};

/// What differs between a module and terms drawn at random from its saturated region.
std::optional<std::string> sweep(rules::RegionTerms& terms, uint64_t seed, int draws) {
  const ScalarModule g(seed);
  const rules::FlatFunction flat(g.module, g.module.entry());
  rules::RegionNodes region;
  for (const FunctionResult& r : g.module.entry().results) region.roots.push_back(r.value);
  const auto entered = rules::enter(terms, flat, region).value();
  rules::saturate(terms);
  for (int draw = 0; draw < draws; ++draw) {
    uint64_t state = seed * 1000 + uint64_t(draw);
    const rules::Choice choice = rules::cheapest_rows(
        terms, [&](const egraph::RowView&) { return 1 + double(testing_ir::random_word_of(state) % 1000); });
    rules::FunctionWriter writer(g.module.entry());
    writer.place(rules::emit(terms, entered, choice, {.keep_forms = draw % 2 == 0}));
    Module after = g.module;
    after.functions.back() = writer.finish();
    if (const auto mistakes = verify(after); !mistakes.empty()) return mistakes[0];
    if (auto wrong = different_values(g.module, after, g.bindings))
      return fmt::format("seed {}: {}\n{}\nbecame\n{}", seed, *wrong, to_string(g.module), to_string(after));
  }
  return {};
}

TEST(ScalarRules, EveryChoiceHasTheSameBits) {
  rules::RegionTerms terms({.numeric = egraph::NumericClass::exact});
  for (uint64_t seed = 0; seed < 600; ++seed) ASSERT_EQ(sweep(terms, seed, 4), std::nullopt);
}

/// Rules that are wrong on some value are found: what the sweep is for.
TEST(ScalarRules, WrongOnesAreFound) {
  for (const char* wrong :
       {"(rewrite (Sub a b) (Sub b a) :ruleset scalar)", "(rewrite (Abs a) a :ruleset scalar)",
        "(rewrite (Neg (Min a b)) (Min (Neg a) (Neg b)) :ruleset scalar)",
        "(rewrite (Recip (Recip a)) a :ruleset scalar)", "(rewrite (Log (Exp a)) a :ruleset scalar)",
        "(rule ((= v (View w xs)) (= x (vec-get xs 0))) ((union v x)) :ruleset scalar)"}) {
    rules::RegionTerms terms({.numeric = egraph::NumericClass::exact, .more = {{"wrong.egg", wrong}}});
    bool found = false;
    for (uint64_t seed = 0; seed < 600 && !found; ++seed) found = sweep(terms, seed, 4).has_value();
    EXPECT_TRUE(found) << wrong;
  }
}

} // namespace
} // namespace luminal
