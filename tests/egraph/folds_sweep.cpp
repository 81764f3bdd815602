// egraph/folds_sweep.cpp -- an evaluator of terms on full grids, and the comparison of all terms of each class.
#include "folds_sweep.h"
#include <cmath>

namespace luminal::egraph::folds {
namespace {

using Grid = std::vector<double>; // over all axes of the graph
using Tuple = std::vector<Grid>;  // of one component for values of V

class Evaluator {
public:
  explicit Evaluator(Theory& theory)
      : theory_(theory), graph_(theory.program().graph()), values_(theory.program().values()) {
    auto& program = theory.program();
    graph_.rebuild();
    std::set<std::string> names;
    for (const char* op : {"In", "Dim", "Fold"})
      graph_.for_each_row(program.op(op), [&](const RowView& row) {
        const Axes& axes = theory_.axes(row.args()[op[0] == 'D' ? 0 : 1]);
        names.insert(axes.begin(), axes.end());
        return true;
      });
    for (const auto& name : names) {
      stride_[name] = points_;
      extent_[name] = 2 + size_t(stride_.size() % 2);
      points_ *= extent_[name];
    }
    for (const char* op : {"In",  "Const", "Dim",  "Neg", "Exp", "Log",  "Recip", "Sqrt",   "Abs",  "Tanh",
                           "Add", "Mul",   "Max2", "Sub", "Div", "Iota", "Lt",    "Select", "Fold", "Get"})
      ops_.emplace_back(program.op(op), op);
  }

  Sweep run() {
    Sweep out;
    // Any well-founded choice: rows whose parts have values give values, until none is added.
    for (bool more = true; more;) {
      more = false;
      each_row([&](const std::string& op, const RowView& row) {
        const ClassId c = graph_.find(row.out());
        if (row.subsumed || value_.contains(c)) return;
        if (const auto v = compute(op, row)) {
          value_.emplace(c, *v);
          more = true;
        }
      });
    }
    std::set<ClassId> without;
    each_row([&](const std::string& op, const RowView& row) {
      const auto have = value_.find(graph_.find(row.out()));
      const auto got = compute(op, row);
      if (have == value_.end() || !got) {
        if (have == value_.end()) without.insert(graph_.find(row.out()));
        return;
      }
      ++out.checked;
      for (size_t i = 0; i < got->size(); ++i)
        for (size_t k = 0; k < points_; ++k) {
          const double a = (*got)[i][k], b = have->second[i][k];
          if (row.subsumed && std::isnan(a)) continue; // a - a of a class that is 0, for an infinite a
          const double d =
              a == b || (std::isnan(a) && std::isnan(b)) ? 0 : std::abs(a - b) / (1 + std::abs(b));
          if (!(d <= out.worst)) {
            out.worst = std::isnan(d) ? infinity : d;
            out.where = op;
          }
        }
    });
    out.valueless = int(without.size());
    return out;
  }

private:
  template <class See> void each_row(const See& see) {
    for (const auto& [id, name] : ops_)
      graph_.for_each_row(id, [&](const RowView& row) {
        see(name, row);
        return true;
      });
  }
  size_t coordinate(size_t point, const std::string& axis) const {
    return point / stride_.at(axis) % extent_.at(axis);
  }

  std::optional<Tuple> compute(const std::string& op, const RowView& row) {
    const auto args = row.args();
    const auto grid = [&](auto f) {
      Grid out(points_);
      for (size_t k = 0; k < points_; ++k) out[k] = f(k);
      return Tuple{out};
    };
    if (op == "In") {
      const std::string name(theory_.program().string_of(args[0]));
      const Axes& axes = theory_.axes(args[1]);
      return grid([&](size_t k) {
        uint64_t h = 1469598103934665603u;
        for (const char ch : name) h = (h ^ uint64_t(ch)) * 1099511628211u;
        for (const auto& axis : axes) h = (h ^ (coordinate(k, axis) + 7)) * 1099511628211u;
        h ^= h >> 29;
        h *= 0xBF58476D1CE4E5B9u;
        return 0.2 + 1.8 * double(h >> 40) / double(1 << 24);
      });
    }
    if (op == "Const") return grid([&](size_t) { return values_.real_of(args[0]); });
    if (op == "Dim") {
      double n = 1;
      for (const auto& axis : theory_.axes(args[0])) n *= double(extent_.at(axis));
      return grid([&](size_t) { return n; });
    }
    if (op == "Fold") return fold(theory_.monoid(args[0]), theory_.axes(args[1]), args[2]);
    if (op == "Get") {
      const auto tuple = value_.find(graph_.find(args[1]));
      const auto i = size_t(values_.integer_of(args[0]));
      if (tuple == value_.end() || i >= tuple->second.size()) return std::nullopt;
      return Tuple{tuple->second[i]};
    }
    if (op == "Iota") {
      const std::string axis(theory_.program().string_of(args[0]));
      return grid([&](size_t k) { return double(coordinate(k, axis)); });
    }
    const auto a = value_.find(graph_.find(args[0])), b = value_.find(graph_.find(args.back()));
    if (a == value_.end() || b == value_.end()) return std::nullopt;
    const Grid &x = a->second[0], &y = b->second[0];
    const auto middle = op == "Select" ? value_.find(graph_.find(args[1])) : a;
    if (middle == value_.end()) return std::nullopt;
    return grid([&](size_t k) {
      if (op == "Select") return x[k] != 0 ? middle->second[0][k] : y[k];
      if (op == "Lt") return double(x[k] < y[k]);
      if (op == "Neg") return -x[k];
      if (op == "Exp") return std::exp(x[k]);
      if (op == "Log") return std::log(x[k]);
      if (op == "Recip") return 1 / x[k];
      if (op == "Sqrt") return std::sqrt(x[k]);
      if (op == "Abs") return std::abs(x[k]);
      if (op == "Tanh") return std::tanh(x[k]);
      if (op == "Add") return x[k] + y[k];
      if (op == "Mul") return x[k] * y[k];
      if (op == "Max2") return std::max(x[k], y[k]);
      return op == "Sub" ? x[k] - y[k] : x[k] / y[k];
    });
  }

  std::optional<Tuple> fold(const Monoid& m, const Axes& axes, Value bodies) {
    std::vector<const Grid*> body;
    for (const Value v : values_.sequence_of(bodies)) {
      const auto at = value_.find(graph_.find(v));
      if (at == value_.end()) return std::nullopt;
      body.push_back(&at->second[0]);
    }
    Tuple out(m.size(), Grid(points_));
    for (size_t k = 0; k < points_; ++k) {
      bool first = true; // one loop for each set of points that differ in the folded axes only
      for (const auto& axis : axes) first = first && coordinate(k, axis) == 0;
      if (!first) continue;
      std::vector<size_t> at{k};
      for (const auto& axis : axes) {
        const size_t n = at.size();
        for (size_t i = 1; i < extent_.at(axis); ++i)
          for (size_t j = 0; j < n; ++j) at.push_back(at[j] + i * stride_.at(axis));
      }
      auto state = theory_.algebra().identities(m);
      for (const size_t p : at) {
        std::vector<double> element;
        for (const Grid* g : body) element.push_back((*g)[p]);
        state = theory_.algebra().combine(m, state, element);
      }
      for (const size_t p : at)
        for (size_t i = 0; i < m.size(); ++i) out[i][p] = state[i];
    }
    return out;
  }

  Theory& theory_;
  EGraph& graph_;
  ValuePool& values_;
  std::map<std::string, size_t> stride_, extent_;
  size_t points_ = 1;
  std::vector<std::pair<OpId, std::string>> ops_;
  std::map<ClassId, Tuple> value_;
};

} // namespace

Sweep sweep(Theory& theory) { return Evaluator(theory).run(); }

} // namespace luminal::egraph::folds
