// egraph/folds_passes_test.cpp -- extraction of the reduction algebra: passes and stored elements of each case, the values of what is found, and
// the quality of the search.
#include "folds_runs.h"
#include <algorithm>
#include <chrono>
#include <cmath>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

using namespace luminal::egraph;
using namespace luminal::egraph::folds;

namespace {

double milliseconds() {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}
/// To two digits, in millions.
std::string millions(double elements) { return fmt::format("{:.2g}", elements / 1e6); }

/// The formula of a case as it is written.
struct Written {
  Theory theory;
  std::vector<Value> roots;
  LoopProblem problem;
  explicit Written(const FoldsRun& run)
      : theory({}, case_named(run.name).numeric), roots(made(run, theory)),
        problem(theory, roots, extents_of(run, true)) {}
  static std::vector<Value> made(const FoldsRun& run, Theory& theory) {
    auto out = build_large(run, theory);
    theory.find_facts();
    return out;
  }
  Candidate candidate() const { return {tree_start(problem, 1).genome, {}}; }
};

/// A case after saturation.
struct Saturated {
  Theory theory;
  std::vector<Value> roots;
  double saturation = 0; ///< milliseconds
  LoopProblem problem;
  explicit Saturated(const FoldsRun& run)
      : theory({}, case_named(run.name).numeric), roots(build_large(run, theory)), saturation(saturate()),
        problem(theory, roots, extents_of(run, true)) {}
  double saturate() {
    const double start = milliseconds();
    theory.saturate();
    return milliseconds() - start;
  }
};

/// The largest error relative to |b|, or to `floor` times the largest finite |b| of the row where b is less. NaN of a where b has a value is an
/// infinite error; where b is NaN any a will do, and is counted.
struct Difference {
  double worst = 0;
  uint32_t undefined = 0;
};
Difference difference(const Tensor& a, const Tensor& b, std::optional<uint32_t> row_axis, double floor) {
  EXPECT_EQ(a.axes, b.axes);
  EXPECT_EQ(a.shape, b.shape);
  if (a.axes != b.axes || a.shape != b.shape) return {infinity, 0};
  size_t stride = 1, length = 1; // of a row
  if (row_axis) {
    size_t place = 0;
    for (AxisSet rest = b.axes & ((AxisSet(1) << *row_axis) - 1); rest; rest &= rest - 1) ++place;
    length = b.shape[place];
    for (size_t i = place + 1; i < b.shape.size(); ++i) stride *= b.shape[i];
  }
  Difference out;
  for (size_t i = 0; i < b.data.size(); ++i) {
    const double x = a.data[i], y = b.data[i];
    if (std::isnan(y)) {
      ++out.undefined;
      continue;
    }
    if (x == y) continue;
    const size_t first = i - i / stride % length * stride;
    double largest = 0;
    for (size_t k = 0; k < length; ++k)
      if (const double v = std::abs(b.data[first + k * stride]); std::isfinite(v))
        largest = std::max(largest, v);
    const double error = std::abs(x - y) / std::max(std::abs(y), floor * largest);
    out.worst = std::isnan(error) ? infinity : std::max(out.worst, error);
  }
  return out;
}
Difference difference(const FoldsRun& run, const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  const Extents extents = extents_of(run, false);
  Difference out;
  EXPECT_EQ(a.size(), b.size());
  for (size_t i = 0; i < b.size(); ++i) {
    std::optional<uint32_t> row; // the last axis in the order of the sizes
    for (const auto& [name, size] : run.small) {
      const auto number = uint32_t(std::distance(extents.begin(), extents.find(name)));
      if (b[i].axes >> number & 1) row = number;
    }
    const Difference d = difference(a[i], b[i], row, run.floor);
    out.worst = std::max(out.worst, d.worst);
    out.undefined += d.undefined;
  }
  return out;
}

Tensors rounded(const Tensors& inputs) {
  Tensors out = inputs;
  for (auto& [name, tensor] : out)
    for (double& v : tensor.data) v = double(float(v));
  return out;
}

/// The program at the small sizes: tiles of split axes have another extent there.
void shrink_tiles(Program& program, const FoldsRun& run) {
  for (const auto& split : run.splits)
    for (ProgramNode& node : program.nodes)
      for (auto& [axis, factor] : node.window.terms)
        if (program.axis_names[axis] == split.axis + ".o" && factor == split.large) factor = split.small;
}

std::vector<uint32_t> small_extents(const FoldsRun& run) {
  std::vector<uint32_t> out;
  for (const auto& [name, extent] : extents_of(run, false)) out.push_back(uint32_t(extent));
  return out;
}

TEST(FoldsPasses, PassesAndStoredElementsOfEachCase) {
  ASSERT_EQ(folds_runs().size(), cases().size());
  for (const FoldsRun& run : folds_runs()) {
    Written written(run);
    const Plan before = naive_plan(written.problem);
    EXPECT_EQ(before.passes.size(), run.naive_passes) << run.name;
    EXPECT_EQ(millions(before.stored), millions(run.naive_stored * 1e6)) << run.name;

    Saturated s(run);
    const double start = milliseconds();
    const Found found = find_passes(s.problem);
    const double extraction = milliseconds() - start;
    EXPECT_EQ(found.plan.passes.size(), run.passes)
        << run.name << ": " << text(s.problem, found.candidate.genome, found.plan);
    EXPECT_EQ(millions(found.plan.stored), millions(run.stored * 1e6)) << run.name;
    EXPECT_LT(found.cost, before.cost) << run.name;
    EXPECT_LE(s.theory.rows(), 2000u) << run.name;
    if (run.widest) {
      const Program program = program_of(s.problem, s.roots, found.candidate, &found.plan);
      EXPECT_EQ(program.widest(), run.widest) << run.name << "\n" << text(program, s.theory.algebra());
    }
    fmt::print("{:<24} {:5} rows, saturation {:5.2f} ms, extraction {:5.2f} ms, {:5} candidates ({:.0f}/s), "
               "passes {} -> {}, "
               "stored {} -> {} M\n",
               run.name, s.theory.rows(), s.saturation, extraction, found.candidates,
               1e3 * double(found.candidates) / extraction, before.passes.size(), found.plan.passes.size(),
               millions(before.stored), millions(found.plan.stored));
  }
}

TEST(FoldsPasses, WhatIsFoundHasTheValuesOfTheFormula) {
  for (const FoldsRun& run : folds_runs()) {
    Written written(run);
    const Program formula = program_of(written.problem, written.roots, written.candidate());
    Saturated s(run);
    const Found found = find_passes(s.problem);
    Program program = program_of(s.problem, s.roots, found.candidate, &found.plan);
    shrink_tiles(program, run);

    Inputs inputs(extents_of(run, false), 5);
    run.inputs(inputs);
    const auto extents = small_extents(run);
    const Tensors single = rounded(inputs.tensors());
    const auto exact = run_plainly(formula, extents, inputs.tensors()),
               wanted = run_plainly(formula, extents, single);
    const Algebra& algebra = s.theory.algebra();
    const auto error = [&](const Program& p, const Algebra& a, Precision precision, uint32_t block) {
      const Outcome out = folds::run(
          p, a, extents, precision == Precision::single ? single : inputs.tensors(), precision, block);
      const Difference d = difference(run, out.values, precision == Precision::single ? wanted : exact);
      EXPECT_EQ(d.undefined, run.undefined) << run.name;
      return d.worst;
    };
    const double naive = error(formula, written.theory.algebra(), Precision::single, 8);
    const double blocks = error(program, algebra, Precision::single, 8),
                 elements = error(program, algebra, Precision::single, 1),
                 twice = error(program, algebra, Precision::twice, 8);
    EXPECT_LE(blocks, std::max(run.tolerance, 2 * naive)) << run.name;
    EXPECT_LE(elements, std::max(run.tolerance, 2 * naive)) << run.name;
    EXPECT_LE(twice, 1e-10) << run.name;

    // The loops that run outside of all others are the plan's passes.
    const Outcome out = folds::run(program, algebra, extents, single, Precision::single, 8);
    const auto fold_passes = std::count_if(found.plan.passes.begin(), found.plan.passes.end(),
                                           [](const Pass& pass) { return !pass.folds.empty(); });
    EXPECT_EQ(out.outer_folds, uint32_t(fold_passes)) << run.name;
    fmt::print("{:<24} float32 in blocks of 8 {:.1e}, of 1 {:.1e}, as written {:.1e}; float64 {:.1e}; {} "
               "elements undefined\n",
               run.name, blocks, elements, naive, twice, run.undefined);
  }
}

} // namespace
