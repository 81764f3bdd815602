// rules/folds_program.h -- an extracted choice as a program: nodes with axes, folds over tuples,
// what is stored. Joint passes become one fold.
#pragma once
#include "folds_extract.h"

namespace luminal::egraph::folds {

/// Where a view reads its operand, with axes by number.
struct ProgramWindow {
  uint32_t axis = 0;
  std::vector<std::pair<uint32_t, int64_t>> terms; ///< axis and factor
  int64_t offset = 0, divisor = 1;
  std::optional<double> fill;
};

struct ProgramNode {
  Operation operation = Operation::constant;
  std::vector<uint32_t> children;
  std::string name;       ///< in, par
  double number = 0;      ///< constant
  uint32_t component = 0; ///< get
  AxisSet over = 0;       ///< in, par, dim, iota: their axes; fold, scan, take: the axes that they run over
  Monoid monoid;          ///< fold, scan
  ProgramWindow window;   ///< view
  bool stored = false;    ///< computed before the loops that read it
  bool is_static = false; ///< there before the step
};

/// Nodes by class of the problem, and behind them those made by joining. Nodes that the roots do
/// not reach are empty constants.
struct Program {
  std::vector<ProgramNode> nodes;
  std::vector<uint32_t> roots; ///< in the order asked for; a node may stand here twice
  std::vector<std::string> axis_names;
  AxisSet axes_of(uint32_t node) const;  ///< that the term varies with
  size_t widest() const;                 ///< components of the largest tuple that the roots reach
  std::vector<uint32_t> reached() const; ///< children first
};

/// The tuples that the roots reach, a line each, for people.
std::string text(const Program& program, const Algebra& algebra);

/// The chosen terms. With a plan, folds that share a pass, and those over the same axes in the same
/// loops, become folds over the union of their tuples, each shared component once.
Program program_of(const LoopProblem& problem, std::span<const Value> roots, const Candidate& candidate,
                   const Plan* plan = nullptr);

} // namespace luminal::egraph::folds
