// egraph/math_theory.h -- the math theory that egg, egglog and oatlog are measured with: 24
// rewrites, 7 terms; for tests and benchmarks.
#pragma once

namespace luminal::egraph::math_theory {

/// ?x is a variable, a number a Const, any other leaf a Var.
inline constexpr const char* rules[][2] = {
    {"(+ ?a ?b)", "(+ ?b ?a)"},
    {"(* ?a ?b)", "(* ?b ?a)"},
    {"(+ ?a (+ ?b ?c))", "(+ (+ ?a ?b) ?c)"},
    {"(* ?a (* ?b ?c))", "(* (* ?a ?b) ?c)"},
    {"(- ?a ?b)", "(+ ?a (* -1 ?b))"},
    {"(+ ?a 0)", "?a"},
    {"(* ?a 0)", "0"},
    {"(* ?a 1)", "?a"},
    {"(- ?a ?a)", "0"},
    {"(* ?a (+ ?b ?c))", "(+ (* ?a ?b) (* ?a ?c))"},
    {"(+ (* ?a ?b) (* ?a ?c))", "(* ?a (+ ?b ?c))"},
    {"(* (pow ?a ?b) (pow ?a ?c))", "(pow ?a (+ ?b ?c))"},
    {"(pow ?x 1)", "?x"},
    {"(pow ?x 2)", "(* ?x ?x)"},
    {"(d ?x (+ ?a ?b))", "(+ (d ?x ?a) (d ?x ?b))"},
    {"(d ?x (* ?a ?b))", "(+ (* ?a (d ?x ?b)) (* ?b (d ?x ?a)))"},
    {"(d ?x (sin ?x))", "(cos ?x)"},
    {"(d ?x (cos ?x))", "(* -1 (sin ?x))"},
    {"(i 1 ?x)", "?x"},
    {"(i (cos ?x) ?x)", "(sin ?x)"},
    {"(i (sin ?x) ?x)", "(* -1 (cos ?x))"},
    {"(i (+ ?f ?g) ?x)", "(+ (i ?f ?x) (i ?g ?x))"},
    {"(i (- ?f ?g) ?x)", "(- (i ?f ?x) (i ?g ?x))"},
    {"(i (* ?a ?b) ?x)", "(- (* ?a (i ?b ?x)) (i (* (d ?x ?a) (i ?b ?x)) ?x))"},
};
inline constexpr const char* terms[] = {
    "(i (ln x) x)",
    "(i (+ x (cos x)) x)",
    "(i (* (cos x) x) x)",
    "(d x (+ 1 (* 2 x)))",
    "(d x (- (pow x 3) (* 7 (pow x 2))))",
    "(+ (* y (+ x y)) (- (+ x 2) (+ x x)))",
    "(/ 1 (- (/ (+ 1 (sqrt five)) 2) (/ (- 1 (sqrt five)) 2)))",
};
inline constexpr const char* binary[] = {"d", "i", "+", "-", "*", "/", "pow"};
inline constexpr const char* unary[] = {"ln", "sqrt", "sin", "cos"};

} // namespace luminal::egraph::math_theory
