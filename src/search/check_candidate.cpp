// search/check_candidate.cpp -- the three steps.
#include "search/check_candidate.h"
#include "base/check.h"
#include "base/contains.h"
#include "cone/formula.h"
#include "loop/loop_interp.h"
#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <random>
#include <ranges>
#include <set>

namespace luminal::search {
namespace {

constexpr std::byte poisons[] = {std::byte{0xFF},
                                 std::byte{0x5A}}; // the first one is NaN in every float type

std::string place(const std::string& name, const std::vector<int64_t>& index) {
  return fmt::format("{}[{}]", name, fmt::join(index, ", "));
}

std::vector<int64_t> index_of(int64_t flat, const std::vector<int64_t>& shape) {
  std::vector<int64_t> index(shape.size());
  for (size_t d = shape.size(); d-- > 0;) {
    index[d] = flat % shape[d];
    flat /= shape[d];
  }
  return index;
}

/// Values of the arguments that a kernel writes, with their shapes.
struct Written {
  size_t argument;
  std::string name;
  DType dtype;
  std::vector<int64_t> shape;
  std::vector<kernel::AxisId> axes; // of the cone, by dimension; none: not plain
  int64_t count() const {
    int64_t n = 1;
    for (const int64_t extent : shape) n *= extent;
    return n;
  }
};

std::vector<Written> written_by(const kernel::Cone& cone, const std::map<std::string, int64_t>& symbols) {
  std::vector<Written> all;
  const auto bound = bound_symbols(cone.symbols, symbols);
  size_t argument = 0;
  for (const kernel::ConeValue& value : cone.values) {
    if (value.role == kernel::ValueRole::interior) continue;
    if (value.role != kernel::ValueRole::input) {
      Written w{argument, value.name, value.dtype, {}, value.axes};
      for (const Expr extent : value.shape) w.shape.push_back(evaluate(extent, bound).value());
      w.axes.resize(w.shape.size());
      all.push_back(std::move(w));
    }
    argument++;
  }
  return all;
}

/// Runs twice with different poisons; a reason where it fails or the bits differ.
Result<Outputs> run_twice(Measurer& measurer, int number, const std::vector<Written>& written) {
  auto first = measurer.run(number, poisons[0]);
  if (!first) return first.failure();
  auto second = measurer.run(number, poisons[1]);
  if (!second) return second.failure();
  for (const Written& w : written) {
    const auto &a = (*first)[w.argument], &b = (*second)[w.argument];
    const auto [x, y] = std::mismatch(a.begin(), a.end(), b.begin(), b.end());
    if (x != a.end())
      return Failure{fmt::format("{} depends on what the memory held before: two runs differ at byte {}",
                                 w.name, x - a.begin())};
    (void)y;
  }
  return first;
}

/// The first element that differs by more than relative * |expected| + absolute; NaN differs from
/// everything.
std::string difference(const Written& w, const std::vector<std::byte>& got,
                       const std::vector<std::byte>& want, double relative, double absolute) {
  const int64_t count = w.count();
  for (int64_t i = 0; i < count; i++) {
    const double a = load_f64(w.dtype, got.data(), i), b = load_f64(w.dtype, want.data(), i);
    if (a == b) continue;
    const double allowed = is_float(w.dtype) ? relative * std::fabs(b) + absolute : 0;
    if (std::isfinite(a) && std::isfinite(b) && std::fabs(a - b) <= allowed) continue;
    return fmt::format("{} is {}, expected {} (within {:.3g})", place(w.name, index_of(i, w.shape)), a, b,
                       allowed);
  }
  return "";
}

double largest(DType dtype, const std::vector<std::byte>& data, int64_t count) {
  double most = 0;
  for (int64_t i = 0; i < count; i++) {
    const double x = std::fabs(load_f64(dtype, data.data(), i));
    if (std::isfinite(x)) most = std::max(most, x);
  }
  return most;
}

std::vector<kernel::AxisId> summed_axes(const kernel::Stage& stage) {
  std::vector<kernel::AxisId> axes;
  for (const kernel::Component& c : stage.components)
    if (c.kind == kernel::ComponentKind::fold)
      std::ranges::copy_if(stage.axes, std::back_inserter(axes),
                           [&](kernel::AxisId a) { return !contains(c.axes, a) && !contains(axes, a); });
  return axes;
}

/// Half a million terms of one sign that are added one by one in f32 are off by 2e-4 of their sum.
kernel::Schedule sums_in_blocks(const kernel::Cone& cone) {
  constexpr int64_t block = 512; // any length of about the root of what is summed serves
  kernel::Schedule schedule;
  for (const kernel::Stage& stage : cone.stages) {
    const bool plain = std::ranges::all_of(stage.components, [](const kernel::Component& c) {
      return c.kind != kernel::ComponentKind::fold || (c.op == Op::add && is_float(c.dtype));
    });
    if (!plain || stage.monoid || stage.scan_axis) continue;
    int64_t inside = 1; // terms of the loops further inside
    for (const kernel::AxisId a : summed_axes(stage) | std::views::reverse) {
      const kernel::ConeAxis& axis = cone.axes[a];
      if (!axis.extent.is_constant()) break;
      const int64_t trips = std::max<int64_t>(block / inside, 2);
      if (inside * axis.extent.value() > block && axis.extent.value() >= 2 * trips) {
        schedule.add(kernel::DirectiveKind::blocked_sum, {stage.name, axis.name}, {trips});
        break;
      }
      inside *= axis.extent.value();
    }
  }
  return schedule;
}

Outputs interpreted(const kernel::Kernel& kernel, const Workload& work, const kernel::LoopRunOptions& options,
                    std::string& findings) {
  std::vector<std::vector<std::byte>> data;
  std::vector<std::span<std::byte>> spans;
  for (const WorkArgument& a : work.arguments) {
    data.push_back(a.content);
    data.back().resize(size_t(a.bytes));
  }
  for (auto& bytes : data) spans.emplace_back(bytes);
  const kernel::LoopRun run = kernel::run_kernel(kernel, spans, work.symbols, options);
  findings = run.ok() ? "" : run.findings[0].text;
  return data;
}

} // namespace

struct Checker::Impl {
  const KernelProblem& problem;
  BuildOptions build;
  MeasurerFactory make;
  CheckOptions options;
  Bindings inputs;
  std::vector<std::string> results; // by argument
  std::vector<Written> written;
  std::unique_ptr<Interpreter> judge;
  Outputs reference; // empty: nobody passed so far
  std::map<std::pair<size_t, int64_t>, InterpValue> judged;
  // by position in `written`: the largest error that the judge allows anywhere it was asked
  std::vector<double> bounds;

  Impl(const KernelProblem& p, BuildOptions b, MeasurerFactory m, const CheckOptions& o)
      : problem(p), build(std::move(b)), make(std::move(m)), options(o), inputs(inputs_of(p)),
        results(results_of(p)), written(written_by(p.cone, p.symbols)), bounds(written.size(), 0) {
    judge = std::make_unique<Interpreter>(problem.module, inputs, InterpMode::bounded);
  }

  const InterpValue& ask(size_t w, int64_t flat) {
    const auto [at, fresh] = judged.try_emplace({w, flat});
    if (fresh) at->second = judge->element(results[written[w].argument], index_of(flat, written[w].shape));
    if (std::isfinite(at->second.error)) bounds[w] = std::max(bounds[w], at->second.error);
    return at->second;
  }

  /// What the interpreter computes for one element, of all stages.
  double operations_of_one(const Written& out) const {
    constexpr double of_component = 8; // where states of tuples are combined
    const auto bound = bound_symbols(problem.cone.symbols, problem.symbols);
    double all = 0;
    for (const kernel::Stage& stage : problem.cone.stages) {
      double points = 1, operations = stage.monoid ? of_component * double(stage.components.size()) : 1;
      for (const kernel::AxisId a : stage.axes)
        if (!contains(out.axes, a))
          points *= double(std::max<int64_t>(1, evaluate(problem.cone.axes[a].extent, bound).value()));
      kernel::visit_stage(stage, [&](const kernel::Formula&) { operations++; });
      all += points * operations;
    }
    return all;
  }

  std::vector<int64_t> random_elements(size_t w) const {
    constexpr double fewest = 8;
    std::vector<int64_t> elements;
    std::mt19937_64 random(problem.seed * 77 + w);
    const int64_t count = written[w].count();
    const int wanted = options.random_elements;
    const int most = int(std::clamp(options.interpreted_operations / operations_of_one(written[w]),
                                    std::min(fewest, double(wanted)), double(wanted)));
    for (int i = 0; i < most && count > 0; i++) elements.push_back(int64_t(random() % uint64_t(count)));
    return elements;
  }

  /// One element and the last one of every tile that lies at the end of an axis.
  std::vector<int64_t> boundary_elements(size_t w,
                                         const IdVector<kernel::AxisId, int64_t>& tiles_of_axes) const {
    const Written& out = written[w];
    if (out.count() == 0) return {};
    std::vector<int64_t> tile, tiles;
    int64_t all = 1;
    for (size_t d = 0; d < out.shape.size(); d++) {
      tile.push_back(out.axes[d] ? std::min(tiles_of_axes[out.axes[d]], out.shape[d]) : 1);
      // A dimension without tiles counts as one: its ends are looked at, not every element.
      if (tile[d] <= 1) tile[d] = out.shape[d];
      tiles.push_back((out.shape[d] + tile[d] - 1) / tile[d]);
      all *= tiles[d];
    }
    double cost = 1; // points that one element needs: of all axes that are not its own
    const auto bound = bound_symbols(problem.cone.symbols, problem.symbols);
    for (const kernel::AxisId a : problem.cone.axes.ids())
      if (!contains(out.axes, a))
        cost *= double(std::max<int64_t>(1, evaluate(problem.cone.axes[a].extent, bound).value()));
    const auto most =
        int64_t(std::clamp(options.interpreted_points / cost, 16.0, double(options.most_elements)));
    std::mt19937_64 random(problem.seed * 99 + w);
    std::vector<int64_t> elements;
    for (int64_t t = 0; t < all; t++) {
      const std::vector<int64_t> at = index_of(t, tiles);
      bool boundary = false;
      int64_t last = 0, any = 0;
      for (size_t d = 0; d < at.size(); d++) {
        boundary |= at[d] == tiles[d] - 1;
        const int64_t begin = at[d] * tile[d], end = std::min(begin + tile[d], out.shape[d]);
        last = last * out.shape[d] + end - 1;
        any = any * out.shape[d] + begin + int64_t(random() % uint64_t(end - begin));
      }
      if (!boundary && !at.empty()) continue;
      elements.push_back(last);
      elements.push_back(any);
    }
    if (int64_t(elements.size()) <= most) return elements;
    std::vector<int64_t> some;
    for (int64_t i = 0; i < most; i++)
      some.push_back(elements[size_t(double(i) * double(elements.size() - 1) / double(most - 1))]);
    return some;
  }

  /// Step 3 for what the candidate has computed.
  std::string against_judge(const kernel::Schedule& schedule, const Outputs& got) {
    const auto tiles = tile_sizes(problem.cone, schedule);
    for (size_t w = 0; w < written.size(); w++) {
      const Written& out = written[w];
      std::vector<int64_t> elements = random_elements(w);
      for (const int64_t element : boundary_elements(w, tiles)) elements.push_back(element);
      for (const int64_t flat : elements) {
        const InterpValue& want = ask(w, flat);
        const double value = load_f64(out.dtype, got[out.argument].data(), flat);
        const double expected = is_float(out.dtype) ? want.value : double(want.integer);
        if (value == expected) continue;
        const double allowed = options.slack * want.error +
                               (is_float(out.dtype) ? 4 * unit_roundoff(out.dtype) * std::fabs(expected) : 0);
        if (std::isfinite(value) && std::isfinite(expected) && std::fabs(value - expected) <= allowed)
          continue;
        return fmt::format("{} is {}, the interpreter has {} (within {:.3g})",
                           place(out.name, index_of(flat, out.shape)), value, expected, allowed);
      }
    }
    return "";
  }

  // ---- step 1 ----

  struct Small {
    Shrunk instance;
    kernel::Kernel plain, candidate;
    std::shared_ptr<const Workload> work;
    Outputs expected; // of the plain kernel in the loop interpreter; empty: too much work for it
  };
  /// No loop is split, nothing is shared: the shortest way from a cone to loops. Tuple folds over
  /// different axes become plain folds one after the other. Long sums go in blocks.
  Result<kernel::Kernel> plain_kernel(const kernel::Cone& cone) const {
    auto made = kernel::lower(cone, sums_in_blocks(cone), build.lower);
    if (made) return made;
    kernel::Schedule schedule;
    made = kernel::lower(cone, schedule, build.lower);
    if (made) return made;
    for (const kernel::Stage& stage : cone.stages)
      if (stage.monoid && !stage.scan_axis)
        schedule.add(kernel::DirectiveKind::cascade, {stage.name, "root"});
    return kernel::lower(cone, schedule, build.lower);
  }

  /// The shrunken instance and both kernels on it. With fewer tiles where that is too much work;
  /// whole where the schedule is not legal on less.
  Result<Small> small_instance(const Candidate& candidate) const {
    std::vector<Shrunk> instances;
    for (const auto& [tiles, blocks] : {std::pair{2, false}, {2, true}, {1, true}}) {
      instances.push_back(shrink(problem, candidate.schedule, tiles, blocks));
      if (points_of(instances.back().cone, instances.back().symbols) <= options.shrunken_points) break;
    }
    std::ranges::reverse(instances); // the last one is the smallest
    instances.push_back({problem.cone, problem.symbols, candidate.schedule});
    std::string why;
    for (const Shrunk& s : instances) {
      if (!kernel::verify(s.cone).empty()) continue;
      auto plain = plain_kernel(s.cone);
      auto fast = candidate.lower(s.cone, s.schedule);
      if (!plain || !fast) {
        why = plain ? fast.error() : plain.error();
        continue;
      }
      Small small{s, std::move(*plain), std::move(*fast), nullptr, {}};
      small.work = std::make_shared<Workload>(workload_of(problem, s.cone, s.symbols, build.threads));
      if (points_of(s.cone, s.symbols) <= options.shrunken_points) {
        std::string findings;
        small.expected = interpreted(small.plain, *small.work, {}, findings);
        if (!findings.empty() && &s != &instances.back())
          continue; // it reads what the smaller one does not write
        LUMINAL_CHECK(findings.empty(), "the plain lowering of {}: {}", problem.cone.name, findings);
      }
      return small;
    }
    return Failure{why};
  }

  Verdict shrunken(const Candidate& candidate) const {
    auto small = small_instance(candidate);
    if (!small) return {1, small.error(), ""};
    auto failed = [&](std::string cause) {
      return Verdict{1, "on a shrunken instance: " + std::move(cause), kernel::to_string(small->candidate)};
    };
    const Shrunk& instance = small->instance;
    const kernel::Kernel& fast = small->candidate;
    const auto& work = small->work;
    const auto outs = written_by(instance.cone, instance.symbols);
    if (auto mistakes = kernel::verify(fast); !mistakes.empty()) return failed(mistakes[0]);

    const bool interpret = !small->expected.empty();
    Outputs expected = std::move(small->expected);
    if (!interpret) {
      auto code = search::build(small->plain, instance.symbols, build);
      if (!code) return failed(code.error());
      auto measurer = make(work);
      const auto number = measurer->add(std::move(*code));
      if (!number) return failed(number.error());
      auto outputs = run_twice(*measurer, *number, outs);
      if (!outputs) return failed("the plain lowering: " + outputs.error());
      expected = std::move(*outputs);
    }
    auto compare = [&](const Outputs& got) {
      for (const Written& w : outs) {
        double terms = 1; // sums of n random terms wander apart by about the root of n
        const auto sizes = bound_symbols(instance.cone.symbols, instance.symbols);
        for (const kernel::Stage& stage : instance.cone.stages) {
          double own = 1;
          for (const kernel::AxisId a : summed_axes(stage))
            own *= double(evaluate(instance.cone.axes[a].extent, sizes).value());
          terms = std::max(terms, own);
        }
        const double scale = largest(w.dtype, expected[w.argument], w.count());
        const double unit =
            is_float(w.dtype) ? std::max(unit_roundoff(w.dtype), unit_roundoff(DType::f32)) : 0;
        if (std::string text = difference(w, got[w.argument], expected[w.argument], 0,
                                          scale * unit * (32 + 8 * std::sqrt(terms)));
            !text.empty())
          return text;
      }
      return std::string();
    };
    if (interpret) {
      std::string findings;
      const Outputs got =
          interpreted(fast, *work, kernel::adversarial(problem.seed, std::max(2, build.threads)), findings);
      if (!findings.empty()) return failed(findings);
      if (std::string text = compare(got); !text.empty()) return failed("its loops: " + text);
    }
    auto code = search::build(fast, instance.symbols, build);
    if (!code) return failed(code.error());
    auto measurer = make(work);
    const auto number = measurer->add(std::move(*code));
    if (!number) return failed(number.error());
    const auto outputs = run_twice(*measurer, *number, outs);
    if (!outputs) return failed("its machine code: " + outputs.error());
    if (std::string text = compare(*outputs); !text.empty()) return failed("its machine code: " + text);
    return {};
  }
};

Checker::Checker() = default;
Checker::~Checker() = default;
bool Checker::has_reference() const { return !impl_->reference.empty(); }

Result<std::unique_ptr<Checker>> Checker::create(const KernelProblem& problem, const BuildOptions& build,
                                                 MeasurerFactory make, const CheckOptions& options) {
  std::unique_ptr<Checker> checker(new Checker);
  try {
    checker->impl_ = std::make_unique<Impl>(problem, build, std::move(make), options);
    Impl& impl = *checker->impl_;
    for (size_t w = 0; w < impl.written.size(); w++)
      for (const int64_t flat : impl.random_elements(w)) {
        const InterpValue& value = impl.ask(w, flat);
        if (std::isnan(value.value) || std::isnan(value.error))
          return Failure{fmt::format("{}: {} is NaN by its terms, so that no candidate can be judged by it",
                                     problem.cone.name,
                                     place(impl.written[w].name, index_of(flat, impl.written[w].shape)))};
      }
  } catch (const Error& e) { // sizes that are missing or wrong, an index that leaves its bounds
    return Failure{fmt::format("{}: {}", problem.cone.name, e.what())};
  }
  return checker;
}

Verdict Checker::check(const Candidate& candidate, Measurer& measurer, int number) {
  Impl& impl = *impl_;
  if (Verdict verdict = impl.shrunken(candidate); !verdict.passed()) return verdict;
  const auto got = run_twice(measurer, number, impl.written);
  if (!got) return {2, "at true size: " + got.error(), ""};
  if (has_reference())
    for (size_t w = 0; w < impl.written.size(); w++) {
      const Written& out = impl.written[w];
      const double unit = is_float(out.dtype) ? 4 * unit_roundoff(out.dtype) : 0;
      // Both sides may be off by what the judge allows.
      const std::string text = difference(out, (*got)[out.argument], impl.reference[out.argument], unit,
                                          2 * impl.options.slack * impl.bounds[w]);
      if (!text.empty()) return {2, "against the first checked candidate: " + text, ""};
    }
  if (const std::string text = impl.against_judge(candidate.schedule, *got); !text.empty())
    return {3, "against the terms: " + text, ""};
  for (const Written& out : impl.written)
    if (is_float(out.dtype))
      for (int64_t i = 0; i < out.count(); i++)
        if (std::isnan(load_f64(out.dtype, (*got)[out.argument].data(), i)))
          return {3, fmt::format("{} is NaN", place(out.name, index_of(i, out.shape))), ""};
  if (!has_reference()) impl.reference = *got;
  return {};
}

} // namespace luminal::search
