// search/extract_kernel.h -- one kernel of a larger function as a problem of its own: what it reads
// become inputs, what it computes become results.
#pragma once
#include "cone/canonical_cone.h"
#include "search/problem.h"

namespace luminal::search {

/// Sizes of the dimensions that a kernel for all of them is tuned at: those in `wanted`, by name,
/// else a power of two near the geometric mean of the range; the least ones where an assumption
/// would not hold.
std::map<std::string, int64_t> typical_sizes(const std::vector<Expr>& symbols,
                                             const std::vector<Expr>& assumptions,
                                             const std::map<std::string, int64_t>& wanted);

/// A kernel in the function that it was cut out of.
struct KernelPlace {
  const Module* module = nullptr; ///< its dimensions and assumptions
  std::vector<Expr> counters;     ///< symbols of enclosing loops, which are not dimensions of the module
  const Function* function = nullptr;
  std::vector<NodeId> roots;
  const kernel::Cone* given = nullptr;              ///< made from these roots
  const kernel::CanonicalCone* canonical = nullptr; ///< of it
};

/// The problem's cone is the canonical one, its inputs are named in0 ..., its results r0 ....
/// `sizes` by the dimensions' names, typical_sizes else; the problem has the sizes under both their
/// names. Integers that serve as indices stay in the ranges that the function declares. Failure: no
/// random inputs can be made for it (indices from memory that must be unique).
Result<KernelProblem> extract_problem(const KernelPlace& place, const std::map<std::string, int64_t>& sizes);

/// The canonical cone's sizes by its own names.
std::map<std::string, int64_t> canonical_sizes(const kernel::CanonicalCone& cone,
                                               const std::map<std::string, int64_t>& sizes);

/// Where else a kernel with dynamic dimensions is timed: each dimension at the ends and at the
/// geometric middle of its range, the others as in the problem; together half as important as the
/// problem's own sizes. At most four, the ends first; without those that break an assumption, need
/// more than a gigabyte, or take a hundred times the problem's work. dimensions: the cone's symbols
/// -> the module's (empty: they are the same).
std::vector<SizePoint> other_sizes(const KernelProblem& problem, const ExprMap<Expr>& dimensions);

} // namespace luminal::search
