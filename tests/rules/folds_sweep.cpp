// rules/folds_sweep.cpp -- an evaluator of terms on full grids, and the comparison of all terms of
// each class.
#include "folds_sweep.h"
#include <algorithm>
#include <cmath>
#include <functional>

namespace luminal::egraph::folds {
namespace {

using Grid = std::vector<double>; // over all axes of the graph
using Tuple = std::vector<Grid>;  // of one component for values of V

struct MapOp {
  const char* name;
  double (*f)(double, double, double);
};
constexpr MapOp map_ops[] = {{"Neg", [](double x, double, double) { return -x; }},
                             {"Exp", [](double x, double, double) { return std::exp(x); }},
                             {"Log", [](double x, double, double) { return std::log(x); }},
                             {"Recip", [](double x, double, double) { return 1 / x; }},
                             {"Sqrt", [](double x, double, double) { return std::sqrt(x); }},
                             {"Abs", [](double x, double, double) { return std::abs(x); }},
                             {"Tanh", [](double x, double, double) { return std::tanh(x); }},
                             {"Add", [](double x, double y, double) { return x + y; }},
                             {"Mul", [](double x, double y, double) { return x * y; }},
                             {"Max2", [](double x, double y, double) { return std::max(x, y); }},
                             {"Min2", [](double x, double y, double) { return std::min(x, y); }},
                             {"Eq", [](double x, double y, double) { return double(x == y); }},
                             {"Lt", [](double x, double y, double) { return double(x < y); }},
                             {"Sub", [](double x, double y, double) { return x - y; }},
                             {"Div", [](double x, double y, double) { return x / y; }},
                             {"Select", [](double c, double x, double y) { return c != 0 ? x : y; }}};

class Evaluator {
public:
  explicit Evaluator(Theory& theory)
      : theory_(theory), program_(theory.program()), graph_(program_.graph()), values_(program_.values()) {
    graph_.rebuild();
    find_axes();
    find_indexes();
    const auto add = [&](const char* op, auto compute) {
      ops_.push_back({program_.op(op), op, [compute](const RowView& row) { return compute(row.args()); }});
    };
    using Args = std::span<const Value>;
    add("In", [this](Args a) { return input(a); });
    add("Par", [this](Args a) { return input(a); });
    add("Const", [this](Args a) { return grid([v = values_.real_of(a[0])](size_t) { return v; }); });
    add("Dim", [this](Args a) {
      double n = 1;
      for (const auto& axis : theory_.axes(a[0])) n *= double(extent_.at(axis));
      return grid([n](size_t) { return n; });
    });
    add("Iota", [this](Args a) {
      const std::string axis(program_.string_of(a[0]));
      return grid([&](size_t k) { return double(coordinate(k, axis)); });
    });
    for (const MapOp& map : map_ops)
      add(map.name, [this, &map](Args a) -> std::optional<Tuple> {
        const Grid* x[3] = {};
        for (size_t i = 0; i < a.size(); ++i)
          if (x[i] = value(a[i]); x[i] == nullptr) return std::nullopt;
        for (size_t i = a.size(); i < 3; ++i) x[i] = x[0];
        return grid([&](size_t k) { return map.f((*x[0])[k], (*x[1])[k], (*x[2])[k]); });
      });
    add("Get", [this](Args a) -> std::optional<Tuple> {
      const auto tuple = value_.find(graph_.find(a[1]));
      const auto i = size_t(values_.integer_of(a[0]));
      if (tuple == value_.end() || i >= tuple->second.size()) return std::nullopt;
      return Tuple{tuple->second[i]};
    });
    add("Fold", [this](Args a) { return fold(a, false); });
    add("Scan", [this](Args a) { return fold(a, true); });
    add("View", [this](Args a) { return view(a); });
    add("Take", [this](Args a) { return take(a); });
  }

  Sweep run() {
    // Any well-founded choice: rows whose parts have values give values, until none is added.
    for (bool more = true; more;) {
      more = false;
      each_row([&](const OpOf& op, const RowView& row) {
        const ClassId c = graph_.find(row.out());
        if (row.subsumed || value_.contains(c)) return;
        if (const auto v = op.compute(row)) {
          value_.emplace(c, *v);
          more = true;
        }
      });
    }
    Sweep out;
    std::set<ClassId> without;
    each_row([&](const OpOf& op, const RowView& row) {
      const auto have = value_.find(graph_.find(row.out()));
      const auto got = op.compute(row);
      if (have == value_.end() && !row.subsumed) without.insert(graph_.find(row.out()));
      if (have == value_.end() || !got) return;
      ++out.checked;
      for (size_t i = 0; i < got->size(); ++i)
        for (size_t k = 0; k < points_; ++k) {
          const double a = (*got)[i][k], b = have->second[i][k];
          if (row.subsumed && std::isnan(a)) continue; // a - a of a class that is 0, for an infinite a
          const double d =
              a == b || (std::isnan(a) && std::isnan(b)) ? 0 : std::abs(a - b) / (1 + std::abs(b));
          if (d <= out.worst) continue;
          out.worst = std::isnan(d) ? infinity : d;
          out.where = op.name;
        }
    });
    out.valueless = int(without.size());
    return out;
  }

private:
  struct OpOf {
    OpId id;
    const char* name;
    std::function<std::optional<Tuple>(const RowView&)> compute;
  };

  template <class See> void rows_of(const char* op, const See& see) {
    graph_.for_each_row(program_.op(op), [&](const RowView& row) {
      see(row);
      return true;
    });
  }
  template <class See> void each_row(const See& see) {
    for (const OpOf& op : ops_)
      graph_.for_each_row(op.id, [&](const RowView& row) {
        see(op, row);
        return true;
      });
  }

  void find_axes() {
    std::set<std::string> names;
    const auto insert = [&](const Axes& axes) { names.insert(axes.begin(), axes.end()); };
    for (const char* op : {"In", "Par", "Fold", "Scan"})
      rows_of(op, [&](const RowView& row) { insert(theory_.axes(row.args()[1])); });
    rows_of("Dim", [&](const RowView& row) { insert(theory_.axes(row.args()[0])); });
    rows_of("Iota",
            [&](const RowView& row) { names.insert(std::string(program_.string_of(row.args()[0]))); });
    rows_of("View", [&](const RowView& row) {
      const Window& w = theory_.window(row.args()[0]);
      names.insert(w.axis);
      for (const auto& [axis, factor] : w.terms) names.insert(axis);
    });
    for (const auto& name : names) {
      const auto given = theory_.extents().find(name);
      stride_[name] = points_;
      extent_[name] =
          given != theory_.extents().end() ? size_t(given->second) : 2 + size_t(stride_.size() % 2);
      points_ *= extent_[name];
    }
  }
  /// Inputs that some term compares with an index.
  void find_indexes() {
    std::set<ClassId> indexes, compared;
    rows_of("Iota", [&](const RowView& row) { indexes.insert(graph_.find(row.out())); });
    rows_of("Eq", [&](const RowView& row) {
      const ClassId a = graph_.find(row.args()[0]), b = graph_.find(row.args()[1]);
      if (indexes.contains(a)) compared.insert(b);
      if (indexes.contains(b)) compared.insert(a);
    });
    for (const char* op : {"In", "Par"})
      rows_of(op, [&](const RowView& row) {
        if (compared.contains(graph_.find(row.out()))) index_inputs_.insert(row.args()[0]);
      });
  }

  size_t coordinate(size_t point, const std::string& axis) const {
    return point / stride_.at(axis) % extent_.at(axis);
  }
  size_t moved(size_t point, const std::string& axis, size_t to) const {
    return point + (to - coordinate(point, axis)) * stride_.at(axis);
  }
  template <class F> std::optional<Tuple> grid(const F& f) const {
    Grid out(points_);
    for (size_t k = 0; k < points_; ++k) out[k] = f(k);
    return Tuple{std::move(out)};
  }
  const Grid* value(Value v) const {
    const auto at = value_.find(graph_.find(v));
    return at == value_.end() ? nullptr : &at->second[0];
  }

  std::optional<Tuple> input(std::span<const Value> args) const {
    const std::string name(program_.string_of(args[0]));
    const bool index = index_inputs_.contains(args[0]);
    return grid([&](size_t k) {
      uint64_t h = 1469598103934665603u;
      for (const char ch : name) h = (h ^ uint64_t(ch)) * 1099511628211u;
      for (const auto& axis : theory_.axes(args[1])) h = (h ^ (coordinate(k, axis) + 7)) * 1099511628211u;
      h ^= h >> 29;
      h *= 0xBF58476D1CE4E5B9u;
      const double v = 0.2 + 1.8 * double(h >> 40) / double(1 << 24);
      return index ? std::floor(v * 2) : v;
    });
  }

  std::optional<Tuple> view(std::span<const Value> args) const {
    const Grid* x = value(args[1]);
    if (x == nullptr) return std::nullopt;
    const Window& w = theory_.window(args[0]);
    if (!theory_.axes_of(graph_.find(args[1])).contains(w.axis)) return Tuple{*x};
    return grid([&](size_t k) {
      int64_t at = w.offset;
      for (const auto& [axis, factor] : w.terms) at += factor * int64_t(coordinate(k, axis));
      at = at >= 0 ? at / w.divisor : -((w.divisor - 1 - at) / w.divisor);
      if (at < 0 || at >= int64_t(extent_.at(w.axis))) return w.fill.value_or(std::nan(""));
      return (*x)[moved(k, w.axis, size_t(at))];
    });
  }

  std::optional<Tuple> take(std::span<const Value> args) const {
    const Grid *y = value(args[1]), *x = value(args[2]);
    if (x == nullptr || y == nullptr) return std::nullopt;
    const std::string axis = *theory_.axes(args[0]).begin();
    return grid([&](size_t k) {
      for (size_t i = 0; i < extent_.at(axis); ++i)
        if (double(i) == (*y)[k]) return (*x)[moved(k, axis, i)];
      return 0.0;
    });
  }

  std::optional<Tuple> fold(std::span<const Value> args, bool scan) const {
    const Monoid& m = theory_.monoid(args[0]);
    const Axes& axes = theory_.axes(args[1]);
    std::vector<const Grid*> body;
    for (const Value v : values_.sequence_of(args[2])) {
      body.push_back(value(v));
      if (body.back() == nullptr) return std::nullopt;
    }
    Tuple out(m.size(), Grid(points_));
    std::vector<size_t> steps{0}; // of one loop, from its first point
    for (const auto& axis : axes) {
      const size_t n = steps.size();
      for (size_t i = 1; i < extent_.at(axis); ++i)
        for (size_t j = 0; j < n; ++j) steps.push_back(steps[j] + i * stride_.at(axis));
    }
    std::vector<double> element(body.size());
    for (size_t k = 0; k < points_; ++k) {
      if (std::any_of(axes.begin(), axes.end(),
                      [&](const std::string& axis) { return coordinate(k, axis) != 0; }))
        continue;
      auto state = theory_.algebra().identities(m);
      for (const size_t step : steps) {
        for (size_t i = 0; i < body.size(); ++i) element[i] = (*body[i])[k + step];
        state = theory_.algebra().combine(m, state, element);
        for (size_t i = 0; scan && i < m.size(); ++i) out[i][k + step] = state[i];
      }
      for (const size_t step : steps)
        for (size_t i = 0; !scan && i < m.size(); ++i) out[i][k + step] = state[i];
    }
    return out;
  }

  Theory& theory_;
  EggProgram& program_;
  EGraph& graph_;
  ValuePool& values_;
  std::map<std::string, size_t> stride_, extent_;
  size_t points_ = 1;
  std::set<Value> index_inputs_; ///< names
  std::vector<OpOf> ops_;
  std::map<ClassId, Tuple> value_;
};

} // namespace

Sweep sweep(Theory& theory) { return Evaluator(theory).run(); }

} // namespace luminal::egraph::folds
