// rules/folds_cases.h -- naive formulas for folds/theory.egg: those that become few passes, their
// neighbours, and food for wrong rules.
#pragma once
#include "folds_host.h"

namespace luminal::egraph::folds {

/// A class with operators that make terms.
struct Term {
  Theory* theory;
  Value value;

  Term op(const std::string& name) const { return {theory, theory->op(name, {value})}; }
  Term op(const std::string& name, Term b) const { return {theory, theory->op(name, {value, b.value})}; }
  Term number(double v) const { return {theory, theory->constant(v)}; }
  Term fold(Op o, const std::string& axes) const { return {theory, theory->fold(o, value, axes)}; }
  Term sum(const std::string& axes) const { return fold(Op::sum, axes); }
  Term max(const std::string& axes) const { return fold(Op::max, axes); }
  Term min(const std::string& axes) const { return fold(Op::min, axes); }
  Term mean(const std::string& axes) const { return {theory, theory->mean(value, axes)}; }
  Term running_sum(const std::string& axis) const { return {theory, theory->scan(Op::sum, value, axis)}; }
  Term exp() const { return op("Exp"); }
  Term log() const { return op("Log"); }
  Term abs() const { return op("Abs"); }
  Term root() const { return op("Sqrt"); }
  Term recip() const { return op("Recip"); }
  Term equals(Term b) const { return op("Eq", b); }
  Term less(Term b) const { return op("Lt", b); }
  Term max2(Term b) const { return op("Max2", b); }
  Term where(Term a, Term b) const { return {theory, theory->op("Select", {value, a.value, b.value})}; }
  Term view(const Window& w) const { return {theory, theory->view(w, value)}; }
  Term rename(const std::string& from, const std::string& to) const {
    return {theory, theory->rename(value, from, to)};
  }
};
inline Term operator+(Term a, Term b) { return a.op("Add", b); }
inline Term operator-(Term a, Term b) { return a.op("Sub", b); }
inline Term operator*(Term a, Term b) { return a.op("Mul", b); }
inline Term operator/(Term a, Term b) { return a.op("Div", b); }
inline Term operator-(Term a) { return a.op("Neg"); }
inline Term operator+(Term a, double b) { return a + a.number(b); }
inline Term operator*(Term a, double b) { return a * a.number(b); }

struct Builder {
  Theory& theory;
  Term in(const std::string& name, const std::string& axes) { return {&theory, theory.in(name, axes)}; }
  Term par(const std::string& name, const std::string& axes) { return {&theory, theory.par(name, axes)}; }
  Term iota(const std::string& axis) { return {&theory, theory.iota(axis)}; }
  Term number(double v) { return {&theory, theory.constant(v)}; }
  Term dim(const std::string& axes) { return {&theory, theory.dim(axes)}; }
};

using Formula = std::function<std::vector<Term>(Builder)>;

struct Case {
  std::string name;
  Formula formula;
  Extents extents;  ///< small, for the comparison of terms
  std::string axis; ///< whose passes are counted
  int naive, found; ///< nested passes over it: the most over the roots, as written and as derived
  int terms;        ///< rows of constructors after saturation, no more; 0: any number
  std::vector<std::pair<std::string, int64_t>> splits = {};
  NumericClass numeric = NumericClass::range;
};

/// Formulas that become few passes.
const std::vector<Case>& cases();
/// Small ones: neighbours that have to become one pass over k, and those that must keep two.
const std::vector<Case>& fused();
const std::vector<Case>& refused();
const Case& case_named(const std::string& name);

/// The terms of a case in a theory, with its extents and splits.
std::vector<Value> build(const Case& c, Theory& theory);

} // namespace luminal::egraph::folds
