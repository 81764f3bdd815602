// search/extract_kernel.cpp -- the nodes between a kernel's roots and what it reads, as a module.
#include "search/extract_kernel.h"
#include "base/check.h"
#include "base/contains.h"
#include "ir/access.h"
#include <algorithm>
#include <bit>
#include <cmath>
#include <fmt/format.h>

namespace luminal::search {
namespace {

int64_t middle_of(Expr symbol) {
  const Interval range = symbol.range();
  const int64_t low = range.low == unbounded_low ? 0 : range.low;
  const int64_t high = range.high == unbounded_high ? std::max<int64_t>(low, 4096) : range.high;
  const double mean = std::sqrt(double(std::max<int64_t>(low, 1)) * double(std::max<int64_t>(high, 1)));
  const int64_t power = int64_t(std::exp2(std::round(std::log2(std::max(mean, 1.0)))));
  return std::clamp(power, low, std::max(low, high));
}

/// The nearest allowed value.
int64_t fitted(Expr symbol, int64_t value) {
  const Interval range = symbol.range();
  const int64_t step = std::max<int64_t>(1, symbol.multiple());
  value = std::clamp(value, range.low, range.high) / step * step;
  return value < range.low ? value + step : value;
}

bool all_hold(const std::vector<Expr>& conditions, const ExprMap<int64_t>& values) {
  return std::ranges::all_of(conditions, [&](Expr condition) {
    const auto symbols = symbols_of(condition);
    if (std::ranges::any_of(symbols, [&](Expr s) { return !values.contains(s); })) return true;
    const auto holds = evaluate(condition, values);
    return holds && *holds != 0;
  });
}

class Extractor {
public:
  Extractor(const KernelPlace& place, const std::map<std::string, int64_t>& sizes)
      : place_(place), f_(*place.function), sizes_(sizes) {}

  Result<KernelProblem> run() {
    for (const kernel::ConeValue& value : place_.given->values) {
      if (value.role == kernel::ValueRole::input) read_.insert(value.origin);
      if (value.role == kernel::ValueRole::inout) read_.insert(value.base), in_place_ = true;
    }
    if (auto done = copy_nodes(); !done) return done.failure();
    KernelProblem problem;
    problem.module.symbols = place_.module->symbols;
    for (const Expr counter : place_.counters)
      if (!contains(problem.module.symbols, counter)) problem.module.symbols.push_back(counter);
    std::ranges::sort(problem.module.symbols, ExprLess());
    problem.module.assumptions = place_.module->assumptions;
    problem.module.functions = {std::move(part_)};
    if (auto safe = assume_checks(problem.module); !safe) return safe.failure();
    problem.symbols = typical_sizes(problem.module.symbols, problem.module.assumptions, sizes_);
    ExprMap<int64_t> values;
    for (const Expr symbol : problem.module.symbols)
      values[symbol] = problem.symbols.at(std::string(symbol.name()));
    if (!all_hold(problem.module.assumptions, values))
      return Failure{"no sizes are known at which it may run"};
    for (auto& [name, size] : canonical_sizes(*place_.canonical, problem.symbols))
      problem.symbols[name] = size;
    problem.integers = std::move(integers_);
    if (auto mistakes = verify(problem.module); !mistakes.empty())
      return Failure{fmt::format("cut out of its function it is not well formed: {}", mistakes[0])};
    auto cone = kernel::build_cone(problem.module.entry(), roots_, stored_,
                                   {.name = "kernel", .in_place = in_place_});
    if (!cone) return cone.failure();
    kernel::CanonicalCone canonical = kernel::canonical(*cone);
    if (kernel::structural_hash128(canonical.cone) != kernel::structural_hash128(place_.canonical->cone))
      return Failure{"cut out of its function it is another kernel"};
    problem.cone = std::move(canonical.cone);
    problem.cone.name = place_.given->name;
    return problem;
  }

private:
  Result<void> copy_nodes() {
    std::set<NodeId> needed;
    std::vector<NodeId> stack = place_.roots;
    while (!stack.empty()) {
      const NodeId id = stack.back();
      stack.pop_back();
      if (!needed.insert(id).second || read_.contains(id)) continue;
      stack.insert(stack.end(), f_[id].inputs.begin(), f_[id].inputs.end());
    }
    part_.name = "kernel";
    for (const NodeId id : needed) {
      const NodeId copy = part_.nodes.end_id();
      new_[id] = copy;
      Node node = f_[id];
      node.name.clear();
      if (read_.contains(id)) stored_.insert(copy);
      const bool is_read = read_.contains(id) && (node.kind != NodeKind::constant || is_updated(id));
      if (is_read || node.kind == NodeKind::input) {
        const Role role = is_updated(id) ? Role::state : Role::argument;
        node.kind = NodeKind::input;
        node.attr = InputAttr{fmt::format("in{}", part_.params.size()), role, f_[id].type()};
        node.inputs.clear();
        node.types = {f_[id].type()};
        node.axis_names.clear();
        part_.params.push_back(copy);
      } else if (auto done = take_inputs(node); !done)
        return done.failure();
      part_.nodes.push_back(std::move(node));
    }
    for (const NodeId root : place_.roots) {
      FunctionResult result;
      result.name = fmt::format("r{}", roots_.size());
      result.value = new_.at(root);
      if (const NodeId base = base_of(root); in_place_ && new_.contains(base) && is_updated(base))
        result.state = std::get<InputAttr>(part_[new_.at(base)].attr).name;
      roots_.push_back(result.value);
      part_.results.push_back(std::move(result));
    }
    return {};
  }

  /// A plan checks what is not proved before it launches the kernel. Here integers from memory lie
  /// in ranges, and sizes are chosen, for which it is proved: whatever numbers are drawn, no launch
  /// of a candidate reads or writes elsewhere.
  Result<void> assume_checks(Module& module) {
    auto conditions = safe_conditions(module, integers_);
    if (!conditions) conditions = narrow(module, conditions.error());
    if (!conditions) return conditions.failure();
    module.assumptions.insert(module.assumptions.end(), conditions->begin(), conditions->end());
    return {};
  }

  using Ranges = std::map<std::string, std::pair<int64_t, int64_t>>;
  /// Conditions over dimensions that make all accesses safe where the integers lie in these ranges.
  /// Failure: why there are none that sizes satisfy.
  Result<std::vector<Expr>> safe_conditions(const Module& module, const Ranges& ranges) const {
    std::vector<Expr> conditions, all = module.assumptions;
    const Function part = with_ranges(module.entry(), ranges);
    for (NodeId id : part.nodes.ids()) {
      for (const AccessCheck& check : access_checks(module, {}, part, id)) {
        if (check.enough.is_constant(0))
          return Failure{fmt::format("it is checked when it runs: {}", check.text)};
        conditions.push_back(check.enough);
      }
      const std::vector<Hole>& holes = holes_of(part[id].attr);
      for (size_t h = 0; h < holes.size(); h++)
        if (holes[h].policy == OutOfRange::error)
          if (const auto limit = open_limit(module, {}, part, id, h))
            conditions.push_back(lt(holes[h].range.high, *limit));
    }
    all.insert(all.end(), conditions.begin(), conditions.end());
    const auto sizes = typical_sizes(module.symbols, all, sizes_);
    ExprMap<int64_t> values;
    for (const Expr symbol : module.symbols) values[symbol] = sizes.at(std::string(symbol.name()));
    if (!all_hold(all, values)) return Failure{"no sizes are known at which it may run"};
    return conditions;
  }

  /// Ranges as wide as is safe around a value at which all integers are safe, one after the other.
  /// Failure: `why`, no such value is known.
  Result<std::vector<Expr>> narrow(const Module& module, std::string why) {
    const Ranges declared = integers_;
    for (const int kind : {0, 1, 2, 3}) { // the least value, 0, 1 (of a divisor), the middle
      Ranges ranges = declared;
      for (auto& [name, range] : ranges) {
        const auto [low, high] = range;
        const int64_t value = kind == 0 ? low : kind == 3 ? low + (high - low) / 2 : kind - 1;
        range.first = range.second = std::clamp(value, low, high);
      }
      if (!safe_conditions(module, ranges)) continue;
      for (auto& [name, range] : ranges)
        for (const bool up : {true, false}) {
          int64_t& end = up ? range.second : range.first;
          const int64_t limit = up ? declared.at(name).second : declared.at(name).first;
          int64_t unsafe = up ? limit + 1 : limit - 1; // or beyond what is declared
          while (unsafe != end + (up ? 1 : -1)) {
            const int64_t safe = end;
            end = unsafe == (up ? limit + 1 : limit - 1) ? limit : safe + (unsafe - safe) / 2;
            if (safe_conditions(module, ranges)) continue;
            unsafe = end;
            end = safe;
          }
        }
      integers_ = ranges;
      return safe_conditions(module, ranges);
    }
    return Failure{std::move(why)};
  }

  /// The function with narrower ranges of the integers that inputs hold.
  static Function with_ranges(const Function& given, const Ranges& ranges) {
    Function f = given;
    for (Node& node : f.nodes) {
      std::vector<Hole>* holes = nullptr;
      if (auto* view = std::get_if<ViewAttr>(&node.attr)) holes = &view->holes;
      if (auto* fold = std::get_if<FoldAttr>(&node.attr)) holes = &fold->holes;
      if (auto* scatter = std::get_if<ScatterAttr>(&node.attr)) holes = &scatter->holes;
      if (!holes || holes->empty()) continue;
      ExprMap<Expr> renamed;
      for (size_t h = 0; h < holes->size(); h++) {
        Hole& hole = (*holes)[h];
        const auto* input = std::get_if<InputAttr>(&f[node.inputs[size_t(hole.input)]].attr);
        if (!input) continue;
        const Expr before = hole_symbol(int(h), hole.range);
        const auto [low, high] = ranges.at(input->name);
        hole.range = {low, high};
        if (before.is_symbol()) renamed[before] = hole_symbol(int(h), hole.range);
      }
      const auto rename = [&](Expr& e) { e = substitute(e, renamed); };
      if (auto* view = std::get_if<ViewAttr>(&node.attr)) {
        std::ranges::for_each(view->map, rename);
        rename(view->predicate);
      } else if (auto* scatter = std::get_if<ScatterAttr>(&node.attr)) {
        std::ranges::for_each(scatter->map, rename);
        rename(scatter->predicate);
      } else if (auto* fold = std::get_if<FoldAttr>(&node.attr))
        rename(fold->where);
    }
    return f;
  }

  NodeId base_of(NodeId root) const { return f_[root].kind == NodeKind::scatter ? f_[root].inputs[0] : root; }
  bool is_updated(NodeId id) const {
    return std::ranges::any_of(place_.given->values, [&](const kernel::ConeValue& value) {
      return value.role == kernel::ValueRole::inout && value.base == id;
    });
  }

  Result<void> take_inputs(Node& node) {
    const std::vector<Hole>* holes = nullptr;
    if (auto* view = std::get_if<ViewAttr>(&node.attr)) holes = &view->holes;
    if (auto* fold = std::get_if<FoldAttr>(&node.attr)) holes = &fold->holes;
    if (auto* scatter = std::get_if<ScatterAttr>(&node.attr)) {
      holes = &scatter->holes;
      if (scatter->unique && !holes->empty())
        return Failure{"it scatters to indices from memory that must differ: random ones do not"};
    }
    for (NodeId& input : node.inputs) input = new_.at(input);
    if (!holes) return {};
    for (const Hole& hole : *holes) {
      const Node& operand = part_[node.inputs[size_t(hole.input)]];
      const auto* input = std::get_if<InputAttr>(&operand.attr);
      if (!input) continue;
      const std::pair<int64_t, int64_t> range{hole.range.low, hole.range.high};
      const auto [found, fresh] = integers_.try_emplace(input->name, range);
      if (fresh) continue;
      found->second.first = std::max(found->second.first, range.first);
      found->second.second = std::min(found->second.second, range.second);
      if (found->second.first > found->second.second)
        return Failure{"an integer serves as two indices whose ranges do not meet"};
    }
    return {};
  }

  const KernelPlace& place_;
  const Function& f_;
  const std::map<std::string, int64_t>& sizes_;
  std::set<NodeId> read_; // in the given function
  bool in_place_ = false;
  Function part_;
  std::map<NodeId, NodeId> new_;
  std::set<NodeId> stored_; // in the part
  std::vector<NodeId> roots_;
  std::map<std::string, std::pair<int64_t, int64_t>> integers_;
};

} // namespace

std::map<std::string, int64_t> typical_sizes(const std::vector<Expr>& symbols,
                                             const std::vector<Expr>& assumptions,
                                             const std::map<std::string, int64_t>& wanted) {
  std::map<std::string, int64_t> sizes;
  for (const bool least : {false, true}) {
    ExprMap<int64_t> values;
    for (const Expr symbol : symbols) {
      const auto given = wanted.find(std::string(symbol.name()));
      const int64_t low = symbol.range().low == unbounded_low ? 0 : symbol.range().low;
      const int64_t value = fitted(symbol, least                   ? low
                                           : given != wanted.end() ? given->second
                                                                   : middle_of(symbol));
      values[symbol] = sizes[std::string(symbol.name())] = value;
    }
    if (all_hold(assumptions, values)) break;
  }
  return sizes;
}

std::map<std::string, int64_t> canonical_sizes(const kernel::CanonicalCone& cone,
                                               const std::map<std::string, int64_t>& sizes) {
  std::map<std::string, int64_t> own;
  for (const auto& [canonical, given] : cone.dimensions)
    own[std::string(canonical.name())] = sizes.at(std::string(given.name()));
  return own;
}

namespace {

bool affordable(const KernelProblem& problem, const std::map<std::string, int64_t>& symbols) {
  constexpr double most_bytes = 1e9, most_work = 100;
  const auto bound = bound_symbols(problem.cone.symbols, symbols);
  double bytes = 0;
  for (const kernel::ConeValue& value : problem.cone.values) {
    if (value.role == kernel::ValueRole::interior) continue;
    double size = bits(value.dtype) / 8.0;
    for (const Expr extent : value.shape) {
      const auto n = evaluate(extent, bound);
      if (!n) return false;
      size *= double(*n);
    }
    bytes += size;
  }
  const double points = points_of(problem.cone, symbols);
  return bytes <= most_bytes && points > 0 &&
         points <= most_work * std::max(points_of(problem.cone, problem.symbols), 1e6);
}

} // namespace

std::vector<SizePoint> other_sizes(const KernelProblem& problem, const ExprMap<Expr>& dimensions) {
  constexpr size_t most = 4;
  std::vector<SizePoint> points;
  const auto given = [&](Expr symbol) {
    const auto found = dimensions.find(symbol);
    return found == dimensions.end() ? symbol : found->second;
  };
  for (const int end : {1, 0, 2}) // high, low, middle
    for (const Expr symbol : problem.cone.symbols) {
      const Expr wanted = given(symbol);
      const Interval range = wanted.range();
      if (!wanted.is_symbol() || !range.is_bounded() || points.size() == most) continue;
      const std::string name(wanted.name());
      const auto known = problem.symbols.find(name);
      if (known == problem.symbols.end()) continue;
      const int64_t usual = known->second;
      const int64_t value = fitted(wanted, end == 1   ? range.high
                                           : end == 0 ? std::max<int64_t>(range.low, 1)
                                                      : middle_of(wanted));
      if (value == usual || (end == 2 && value < 2 * usual && usual < 2 * value)) continue;
      SizePoint point{problem.symbols};
      point.symbols[name] = value;
      for (const Expr own : problem.cone.symbols)
        if (given(own) == wanted) point.symbols[std::string(own.name())] = value;
      try {
        if (!all_hold(problem.module.assumptions, bound_symbols(problem.module.symbols, point.symbols)) ||
            !affordable(problem, point.symbols))
          continue;
      } catch (const Error&) { // a size that nothing is said of
        continue;
      }
      if (std::ranges::none_of(points, [&](const SizePoint& p) { return p.symbols == point.symbols; }))
        points.push_back(std::move(point));
    }
  for (SizePoint& point : points) point.weight = 0.5 / double(points.size());
  return points;
}

Result<KernelProblem> extract_problem(const KernelPlace& place, const std::map<std::string, int64_t>& sizes) {
  LUMINAL_CHECK(place.module && place.function && place.given && place.canonical && !place.roots.empty());
  return Extractor(place, sizes).run();
}

} // namespace luminal::search
