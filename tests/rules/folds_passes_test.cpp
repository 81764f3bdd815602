// rules/folds_passes_test.cpp -- extraction of the reduction algebra: passes and stored elements of
// each case, the values of what is found, and the quality of the search.
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

/// The largest error relative to |b|, or to `floor` times the largest finite |b| of the row where b
/// is less. NaN of a where b has a value is an infinite error; where b is NaN any a will do, and is
/// counted.
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

TEST(FoldsPasses, FormulasAreThoseOfTheTextbooks) {
  // The judge against loops written out: causal attention, a convolution with its batch norm,
  // grouped heads, LayerNorm's gradient.
  const auto plainly = [](const char* name, Inputs& inputs) {
    const FoldsRun& run = run_named(name);
    Written written(run);
    run.inputs(inputs);
    return run_plainly(program_of(written.problem, written.roots, written.candidate()), small_extents(run),
                       inputs.tensors());
  };
  const auto extents = [](const char* name) { return extents_of(run_named(name), false); };
  { // axes in the order of their names: q d h i, k d h j, v e h j, result e h i
    Inputs in(extents("attention causal"), 3);
    const auto out = plainly("attention causal", in);
    const auto &q = in.tensors().at("q").data, &k = in.tensors().at("k").data, &v = in.tensors().at("v").data;
    for (uint32_t h = 0; h < 2; ++h)
      for (uint32_t i = 0; i < 9; ++i)
        for (uint32_t e = 0; e < 5; ++e) {
          std::vector<double> s;
          for (uint32_t j = 0; j <= i; ++j) {
            s.push_back(0);
            for (uint32_t d = 0; d < 4; ++d) s[j] += 0.25 * q[(d * 2 + h) * 9 + i] * k[(d * 2 + h) * 9 + j];
          }
          const double largest = *std::max_element(s.begin(), s.end());
          double weights = 0, sum = 0;
          for (uint32_t j = 0; j <= i; ++j) {
            weights += std::exp(s[j] - largest);
            sum += std::exp(s[j] - largest) * v[(e * 2 + h) * 9 + j];
          }
          EXPECT_NEAR(out[0].data[(e * 2 + h) * 9 + i], sum / weights, 1e-12);
        }
  }
  { // x c iy iz n, w c kh kw o, r and result n o y z
    Inputs in(extents("conv+bn+relu"), 3);
    const auto out = plainly("conv+bn+relu", in);
    const auto value = [&](const char* name) { return in.tensors().at(name).data; };
    const auto x = value("x"), w = value("w"), r = value("r"), bias = value("bias"), mu = value("mu"),
               var = value("var"), g = value("g"), be = value("be");
    for (int n = 0; n < 2; ++n)
      for (int o = 0; o < 4; ++o)
        for (int y = 0; y < 5; ++y)
          for (int z = 0; z < 6; ++z) {
            double sum = bias[size_t(o)];
            for (int c = 0; c < 3; ++c)
              for (int a = 0; a < 3; ++a)
                for (int b = 0; b < 3; ++b) {
                  const int iy = y + a - 1, iz = z + b - 1;
                  if (iy < 0 || iy >= 5 || iz < 0 || iz >= 6) continue;
                  sum +=
                      x[size_t(((c * 5 + iy) * 6 + iz) * 2 + n)] * w[size_t(((c * 3 + a) * 3 + b) * 4 + o)];
                }
            const auto at = size_t(((n * 4 + o) * 5 + y) * 6 + z);
            const double normed =
                (sum - mu[size_t(o)]) / std::sqrt(var[size_t(o)] + 1e-5) * g[size_t(o)] + be[size_t(o)];
            EXPECT_NEAR(out[0].data[at], std::max(normed + r[at], 0.0), 1e-12);
          }
  }
  { // rows x k t, dy k t: the gradient against differences of the sum of LayerNorm(x) * dy
    Inputs in(extents("layernorm gradient"), 3);
    const auto out = plainly("layernorm gradient", in);
    const auto &x = in.tensors().at("x").data, &dy = in.tensors().at("dy").data;
    const auto loss = [&](uint32_t t, uint32_t moved, double by) {
      std::vector<double> row;
      for (uint32_t k = 0; k < 37; ++k) row.push_back(x[k * 6 + t] + (k == moved ? by : 0));
      double mean = 0, variance = 0, sum = 0;
      for (const double v : row) mean += v / 37;
      for (const double v : row) variance += (v - mean) * (v - mean) / 37;
      for (uint32_t k = 0; k < 37; ++k) sum += (row[k] - mean) / std::sqrt(variance + 1e-5) * dy[k * 6 + t];
      return sum;
    };
    for (uint32_t t = 0; t < 6; ++t)
      for (uint32_t k = 0; k < 37; ++k)
        EXPECT_NEAR(out[0].data[k * 6 + t], (loss(t, k, 1e-5) - loss(t, k, -1e-5)) / 2e-5, 1e-8);
  }
}

TEST(FoldsPasses, RowsOfMinusInfinity) {
  // logsumexp of a row of -inf is -inf where the formula as it is written gives NaN.
  for (const char* name : {"logsumexp", "logsumexp over two axes"}) {
    const FoldsRun& run = run_named(name);
    Saturated s(run);
    const Found found = find_passes(s.problem);
    const Program program = program_of(s.problem, s.roots, found.candidate, &found.plan);
    Inputs inputs(extents_of(run, false), 5);
    run.inputs(inputs);
    for (const Precision precision : {Precision::single, Precision::twice}) {
      const Outcome out =
          folds::run(program, s.theory.algebra(), small_extents(run), inputs.tensors(), precision, 8);
      EXPECT_EQ(out.values[0].data[3], -infinity) << name;
      EXPECT_EQ(std::count_if(out.values[0].data.begin(), out.values[0].data.end(),
                              [](double v) { return std::isfinite(v); }),
                5);
    }
  }
}

TEST(FoldsPasses, CostOfSoftmaxByHand) {
  // Max and sum are one pass over k that reads x; the result is another that reads x and two stored
  // rows of statistics.
  const FoldsRun& run = run_named("softmax");
  Saturated s(run);
  const Found found = find_passes(s.problem);
  const double points = 4096.0 * 4096, rows = 4096;
  // The state: a maximum, and a sum that moves with it; its bodies are x and the constant 1, which
  // varies with no row: its work still does, as it needs the maximum.
  const double fold = points + points * (1 + 1.5) / 128 + 2000;
  // exp(x - m) / l as exp(x + -m) * (1 / l): of a row -m and 1/l, of a point an addition, an
  // exponential and a product.
  const double maps = points + (rows * (1 + 2) + points * (1 + 4 + 1)) / 128 + 2000 + 2 * 2 * rows;
  EXPECT_NEAR(found.cost, fold + maps, 1e-9 * found.cost);
  ASSERT_EQ(found.plan.passes.size(), 2u);
  EXPECT_EQ(found.plan.passes[0].reads, points);
  EXPECT_EQ(found.plan.passes[0].items, rows);
  EXPECT_TRUE(found.plan.passes[1].loops_again);
  EXPECT_EQ(found.plan.passes[1].items, points);
  // With a machine of more lanes than there are rows the first pass waits for memory in proportion.
  Machine wide;
  wide.lanes = 16 * 4096;
  PassCost cost(s.problem, wide);
  EXPECT_NEAR(cost.cost(found.candidate.genome, found.candidate.stored), 16 * (fold - 2000) + 2000 + maps,
              1e-9 * found.cost * 16);
}

TEST(FoldsPasses, ReadsOfTheLayerByHand) {
  const double x = 2048 * 1024, head_weights = 1024 * 16 * 64, mask = 2048 * 2048, gate_weights = 1024 * 4096;
  // Within two elements: one over an extent is a number that is there before the step.
  Saturated layer(run_named("transformer layer"));
  const Found found = find_passes(layer.problem);
  ASSERT_EQ(found.plan.passes.size(), 3u);
  EXPECT_NEAR(found.plan.passes[0].reads, x + 2 * head_weights, 2);    // K, V and the norm's statistic
  EXPECT_NEAR(found.plan.passes[1].reads, x + head_weights + mask, 2); // attention, Q in its loop
  EXPECT_NEAR(found.plan.passes[2].reads, x + head_weights + 2 * gate_weights, 2); // all the rest
  EXPECT_EQ(found.plan.stored,
            2 * 2048.0 * 16 * 64 + 2048 + 2048.0 * 16 * (64 + 1)); // K, V, statistic; O, its sum

  // Q and K in one loop read x at different places: it still counts once.
  Saturated block(run_named("attention block"));
  const Found together = find_passes(block.problem);
  const std::vector<uint8_t> none(together.candidate.stored.size(), 0);
  const Plan plan = PassCost(block.problem).plan(together.candidate.genome, none);
  ASSERT_EQ(plan.passes.size(), 1u);
  EXPECT_NEAR(plan.passes[0].reads, x + 3 * head_weights + mask, 2);
}

TEST(FoldsPasses, ParametersAreGatheredBeforeTheStep) {
  // The convolution reads its input and the weights with the norm's scale in them; the epilogue
  // reads the residual and one number for each channel.
  Saturated s(run_named("conv+bn+relu"));
  const Found found = find_passes(s.problem);
  ASSERT_EQ(found.plan.passes.size(), 1u);
  const double input = 8 * 64 * 56 * 56, weights = 64 * 64 * 3 * 3, channels = 64;
  EXPECT_EQ(found.plan.passes[0].reads, input + weights);
  ASSERT_EQ(found.plan.epilogues.size(), 1u);
  EXPECT_EQ(found.plan.epilogues[0].second.reads, input + channels); // the residual has the size of the input
}

TEST(FoldsPasses, RememberedPassesCostWhatFreshOnesDo) {
  // Random walks over rows and stored values: a cost that remembers passes against one that knows
  // nothing.
  for (const char* name : {"attention gradient", "transformer layer", "conv+bn+relu", "layernorm+matmul"}) {
    Saturated s(run_named(name));
    const ExtractionProblem& p = s.problem.problem();
    PassCost remembering(s.problem);
    Random random(11);
    Candidate at{tree_start(s.problem, 1.05).genome, std::vector<uint8_t>(p.class_count(), 0)};
    GenomeEditor editor(p, at.genome);
    Evaluator evaluator(p);
    for (int step = 0; step < 150; ++step) {
      if (!editor.mutate(random, 1)) continue;
      if (!evaluator.evaluate(editor.genome()).valid()) { // a class without a finite term
        editor.undo();
        continue;
      }
      at.genome = editor.genome();
      const auto choices = remembering.store_choices(at.genome, at.stored);
      if (!choices.empty()) at.stored[choices[random.below(uint32_t(choices.size()))]] ^= 1;
      const Evaluation& evaluation = evaluator.evaluate(at.genome);
      const double fresh = PassCost(s.problem).cost(at.genome, at.stored);
      EXPECT_EQ(remembering.cost(at.genome, at.stored), fresh) << name;
      EXPECT_EQ(remembering.cost(at, evaluation), fresh) << name;
      // Joining never costs: a pass joins only where something is gained.
      EXPECT_LE(fresh, PassCost(s.problem, {}, false).cost(at.genome, at.stored) * (1 + 1e-12)) << name;
    }
    EXPECT_GT(remembering.passes_found(), remembering.passes_built()) << name;
  }
}

/// Every choice of rows below the roots without cycles, twins left out, with every set of stored
/// values that folds give.
class Exhaustive {
public:
  Exhaustive(const LoopProblem& problem, uint64_t most)
      : p_(problem), cost_(problem), evaluator_(problem.problem()), most_(most),
        at_{Genome(problem.problem().class_count(), no_row),
            std::vector<uint8_t>(problem.problem().class_count(), 0)} {}
  double least() {
    const auto roots = p_.problem().roots();
    choose({roots.begin(), roots.end()});
    return least_;
  }
  uint64_t choices() const { return choices_; }
  bool complete() const { return choices_ < most_; }

private:
  void choose(std::vector<uint32_t> pending) {
    if (!complete()) return;
    while (!pending.empty() && at_.genome[pending.back()] != no_row) pending.pop_back();
    if (pending.empty()) return store();
    const uint32_t c = pending.back();
    for (uint32_t r = p_.problem().first_row(c); r < p_.problem().end_row(c); ++r) {
      if (p_.rows[r].twin) continue;
      at_.genome[c] = r;
      auto more = pending;
      for (const uint32_t child : p_.problem().children(r)) more.push_back(child);
      choose(std::move(more));
    }
    at_.genome[c] = no_row;
  }
  void store() {
    const Evaluation& evaluation = evaluator_.evaluate(at_.genome);
    if (!evaluation.valid()) return;
    std::vector<uint32_t> values;
    for (const uint32_t c : evaluation.order)
      if (p_.row_of(at_.genome, c).kind == LoopKind::get && !p_.is_static[c]) values.push_back(c);
    for (uint64_t set = 0; set < uint64_t(1) << values.size() && complete(); ++set) {
      for (size_t i = 0; i < values.size(); ++i) at_.stored[values[i]] = set >> i & 1;
      least_ = std::min(least_, cost_.cost(at_.genome, at_.stored));
      ++choices_;
    }
    for (const uint32_t c : values) at_.stored[c] = 0;
  }

  const LoopProblem& p_;
  PassCost cost_;
  Evaluator evaluator_;
  uint64_t most_;
  Candidate at_;
  double least_ = infinite_cost;
  uint64_t choices_ = 0;
};

TEST(FoldsPasses, NothingIsCheaperWhereAllChoicesAreFew) {
  size_t complete = 0;
  for (const FoldsRun& run : folds_runs()) {
    Saturated s(run);
    Exhaustive all(s.problem, 20000);
    const double least = all.least();
    const Found found = find_passes(s.problem);
    EXPECT_LE(found.cost, least * (1 + 1e-12)) << run.name;
    if (!all.complete()) continue;
    ++complete;
    EXPECT_GE(found.cost, least * (1 - 1e-12)) << run.name << ": some choice is missing from all";
    fmt::print("{:<24} {} choices, least {:.6g}, found with {} candidates {:.6g}\n", run.name, all.choices(),
               least, found.candidates, found.cost);
  }
  EXPECT_GE(complete, 27u); // all but attention's gradient and the layer
}

TEST(FoldsPasses, RandomStartsEndNearTheBest) {
  for (const char* name :
       {"transformer layer", "attention gradient", "attention decode", "layernorm+matmul"}) {
    Saturated s(run_named(name));
    const Found found = find_passes(s.problem);
    const Start order = tree_start(s.problem, 1.05); // for the order of joint moves
    GenomeSampler sampler(s.problem.problem());
    double best = found.cost, worst = 0;
    for (uint64_t seed = 1; seed <= 12; ++seed) {
      Random random(seed);
      Start start = order;
      sampler.sample(random, start.genome);
      PassCost cost(s.problem);
      const ClimbResult end = climb_passes(s.problem, cost, start);
      EXPECT_TRUE(end.finished);
      best = std::min(best, end.cost);
      worst = std::max(worst, end.cost);
    }
    EXPECT_LE(worst, best * 1.005) << name;
    EXPECT_LE(found.cost, best * 1.002) << name;
    fmt::print("{}: found {:.6g}, best of 12 random starts {:.6g}, worst {:.2f} % above\n", name, found.cost,
               best, 100 * (worst / best - 1));
  }
}

} // namespace
