// extract/extract_reduce.cpp -- the rewriting rules of Reduction, applied until none applies.
#include "extract/extract_reduce.h"
#include <algorithm>
#include <iterator>
#include <utility>

namespace luminal::egraph {
namespace {

constexpr size_t max_compared = 48; ///< rows of a class that are compared with all others
constexpr size_t max_growth = 6;    ///< edges that joining a class into its only user may add

/// Children lie in a pool, ascending and without repeats; a changed list goes to the end of the
/// pool.
struct Row {
  uint32_t of_class, first, size;
  uint32_t taken; ///< what it stands for: a node in a pool
  double cost;
  uint64_t signature; ///< a bit for each child: a subset has a subset of the bits
};

class Rewriter {
public:
  Rewriter(const ExtractionProblem& p, std::vector<uint32_t>& always, double& constant)
      : always_(always), constant_(constant), rows_of_(p.class_count()), is_root_(p.class_count(), 0),
        dirty_(p.class_count(), 1), uses_(p.class_count(), 0), negative_(p.has_negative_costs()) {
    rows_.reserve(p.row_count() + p.row_count() / 4);
    pool_.reserve(p.edge_count() * 2);
    taken_.reserve(p.row_count() * 2);
    std::vector<uint32_t> children;
    for (uint32_t r = 0; r < p.row_count(); ++r) {
      if (!(p.cost(r) < infinite_cost)) continue;
      children.assign(p.children(r).begin(), p.children(r).end());
      std::sort(children.begin(), children.end());
      children.erase(std::unique(children.begin(), children.end()), children.end());
      taken_.push_back({r, no_row, no_row});
      add_row(p.class_of(r), children, p.cost(r), uint32_t(taken_.size() - 1));
    }
    for (const uint32_t c : p.roots()) is_root_[c] = 1;
  }

  bool run() {
    for (int round = 0; round < 10; ++round) {
      changed_ = false;
      if (!drop_infeasible()) return false;
      drop_unreached();
      drop_dominated();
      if (round < 4) drop_rows_below_dominators();
      pay_forced();
      join_classes();
      if (!changed_) break;
    }
    if (!drop_infeasible()) return false;
    drop_unreached();
    return true;
  }

  ExtractionProblem build(std::vector<uint32_t>& taken_first, std::vector<uint32_t>& taken) const {
    ExtractionBuilder builder;
    std::vector<uint32_t> name(rows_of_.size(), no_row), children;
    for (uint32_t c = 0; c < rows_of_.size(); ++c)
      if (!rows_of_[c].empty()) name[c] = builder.add_class();
    taken_first.push_back(0);
    for (uint32_t c = 0; c < rows_of_.size(); ++c)
      for (const uint32_t r : rows_of_[c]) {
        children.clear();
        for (const uint32_t d : this->children(r)) children.push_back(name[d]);
        builder.add_row(name[c], children, rows_[r].cost);
        each_taken(rows_[r].taken, [&](uint32_t row) { taken.push_back(row); });
        taken_first.push_back(uint32_t(taken.size()));
      }
    for (uint32_t c = 0; c < rows_of_.size(); ++c)
      if (is_root_[c]) builder.add_root(name[c]);
    return builder.build();
  }

private:
  std::span<const uint32_t> children(uint32_t r) const {
    return {pool_.data() + rows_[r].first, rows_[r].size};
  }
  void add_row(uint32_t c, std::span<const uint32_t> children, double cost, uint32_t taken) {
    rows_of_[c].push_back(uint32_t(rows_.size()));
    rows_.push_back({c, uint32_t(pool_.size()), uint32_t(children.size()), taken, cost, signature(children)});
    pool_.insert(pool_.end(), children.begin(), children.end());
  }
  void set_children(uint32_t r, std::span<const uint32_t> children) {
    rows_[r].first = uint32_t(pool_.size());
    rows_[r].size = uint32_t(children.size());
    rows_[r].signature = signature(children);
    pool_.insert(pool_.end(), children.begin(), children.end());
    dirty_[rows_[r].of_class] = 1;
  }
  static uint64_t signature(std::span<const uint32_t> children) {
    uint64_t bits = 0;
    for (const uint32_t d : children) bits |= uint64_t(1) << (d * 0x9E3779B1u >> 26);
    return bits;
  }

  template <class Keep> void filter(uint32_t c, const Keep& keep) {
    if (std::erase_if(rows_of_[c], [&](uint32_t r) { return !keep(r); }) > 0) changed_ = true;
  }

  bool drop_infeasible() {
    const auto n = uint32_t(rows_of_.size());
    std::vector<uint32_t> pending(rows_.size()), todo, first(n + 1, 0);
    for (const auto& rows : rows_of_)
      for (const uint32_t r : rows) {
        pending[r] = rows_[r].size;
        for (const uint32_t d : children(r)) ++first[d + 1];
      }
    for (uint32_t c = 0; c < n; ++c) first[c + 1] += first[c];
    std::vector<uint32_t> user(first[n]), next(first.begin(), first.end() - 1);
    std::vector<uint8_t> finite(n, 0);
    const auto reach = [&](uint32_t c) {
      if (finite[c]) return;
      finite[c] = 1;
      todo.push_back(c);
    };
    for (uint32_t c = 0; c < n; ++c)
      for (const uint32_t r : rows_of_[c]) {
        if (pending[r] == 0) reach(c);
        for (const uint32_t d : children(r)) user[next[d]++] = r;
      }
    while (!todo.empty()) {
      const uint32_t c = todo.back();
      todo.pop_back();
      for (uint32_t i = first[c]; i < first[c + 1]; ++i)
        if (--pending[user[i]] == 0) reach(rows_[user[i]].of_class);
    }
    for (uint32_t c = 0; c < n; ++c) {
      if (is_root_[c] && !finite[c]) return false;
      filter(c, [&](uint32_t r) {
        if (pending[r] > 0) return false;
        for (const uint32_t d : children(r))
          if (d == c) return false;
        return true;
      });
    }
    return true;
  }

  void drop_unreached() {
    const auto n = uint32_t(rows_of_.size());
    std::vector<uint8_t> seen(n, 0);
    std::vector<uint32_t> todo;
    for (uint32_t c = 0; c < n; ++c)
      if (is_root_[c]) todo.push_back(c), seen[c] = 1;
    uses_.assign(n, 0);
    while (!todo.empty()) {
      const uint32_t c = todo.back();
      todo.pop_back();
      for (const uint32_t r : rows_of_[c])
        for (const uint32_t d : children(r)) {
          ++uses_[d];
          if (!seen[d]) seen[d] = 1, todo.push_back(d);
        }
    }
    for (uint32_t c = 0; c < n; ++c)
      if (!seen[c] && !rows_of_[c].empty()) rows_of_[c].clear(), changed_ = true;
  }

  bool dominates(const Row& a, const Row& b) const {
    if (a.cost > b.cost || a.size > b.size || (a.signature & ~b.signature) != 0) return false;
    if (negative_ && a.size != b.size) return false;
    return std::includes(pool_.begin() + b.first, pool_.begin() + b.first + b.size, pool_.begin() + a.first,
                         pool_.begin() + a.first + a.size);
  }
  void drop_dominated() {
    std::vector<uint32_t> order, dead(rows_.size(), 0);
    for (uint32_t c = 0; c < rows_of_.size(); ++c) {
      if (!dirty_[c] || rows_of_[c].size() < 2) continue;
      dirty_[c] = 0;
      order = rows_of_[c]; // few children and cheap ones first
      std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
        const Row &x = rows_[a], &y = rows_[b];
        return x.size != y.size ? x.size < y.size : x.cost != y.cost ? x.cost < y.cost : a < b;
      });
      bool any = false;
      size_t compared = 0;
      for (size_t i = 0; i < order.size() && compared < max_compared; ++i) {
        if (dead[order[i]]) continue;
        ++compared;
        const Row& a = rows_[order[i]];
        for (size_t j = i + 1; j < order.size(); ++j)
          if (!dead[order[j]] && dominates(a, rows_[order[j]])) dead[order[j]] = 1, any = true;
      }
      if (any) filter(c, [&](uint32_t r) { return !dead[r]; });
    }
  }

  /// Dominators of the graph of classes (Cooper, Harvey, Kennedy), from a root above all roots.
  void drop_rows_below_dominators() {
    const auto n = uint32_t(rows_of_.size());
    std::vector<uint32_t> post, number(n + 1, no_row), idom(n + 1, no_row), first(n + 1, 0);
    for (uint32_t c = 0; c < n; ++c)
      for (const uint32_t r : rows_of_[c])
        for (const uint32_t d : children(r)) ++first[d + 1];
    for (uint32_t c = 0; c < n; ++c) first[c + 1] += first[c];
    std::vector<uint32_t> above(first[n]), next(first.begin(), first.end() - 1);
    for (uint32_t c = 0; c < n; ++c)
      for (const uint32_t r : rows_of_[c])
        for (const uint32_t d : children(r)) above[next[d]++] = c;
    struct Visit {
      uint32_t c, row, child;
    };
    std::vector<uint8_t> seen(n, 0);
    std::vector<Visit> visits;
    for (uint32_t root = 0; root < n; ++root) {
      if (!is_root_[root] || seen[root]) continue;
      seen[root] = 1;
      visits.push_back({root, 0, 0});
      while (!visits.empty()) {
        Visit& v = visits.back();
        const auto& rows = rows_of_[v.c];
        if (v.row == rows.size()) {
          number[v.c] = uint32_t(post.size());
          post.push_back(v.c);
          visits.pop_back();
        } else if (v.child == rows_[rows[v.row]].size) {
          ++v.row;
          v.child = 0;
        } else {
          const uint32_t d = children(rows[v.row])[v.child++];
          if (!seen[d]) seen[d] = 1, visits.push_back({d, 0, 0});
        }
      }
    }
    number[n] = uint32_t(post.size());
    idom[n] = n;
    for (int pass = 0, again = 1; again; ++pass) {
      if (pass == 16) return; // an unusual graph: not worth more
      again = 0;
      for (size_t i = post.size(); i-- > 0;) {
        const uint32_t c = post[i];
        uint32_t best = is_root_[c] ? n : no_row;
        for (uint32_t k = first[c]; k < first[c + 1]; ++k) {
          uint32_t a = above[k];
          if (idom[a] == no_row) continue;
          if (best == no_row) {
            best = a;
            continue;
          }
          while (a != best)
            if (number[a] < number[best])
              a = idom[a];
            else
              best = idom[best];
        }
        if (idom[c] != best) idom[c] = best, again = 1;
      }
    }
    std::vector<uint32_t> depth(n + 1, 0);
    for (size_t i = post.size(); i-- > 0;) depth[post[i]] = depth[idom[post[i]]] + 1;
    double steps = 0;
    const auto above_all = [&](uint32_t a, uint32_t c) {
      for (; depth[c] > depth[a]; ++steps) c = idom[c];
      return a == c;
    };
    for (const uint32_t c : post) {
      if (steps > 16.0 * double(pool_.size() + n)) return; // a chain: the rest stays
      filter(c, [&](uint32_t r) {
        for (const uint32_t d : children(r))
          if (above_all(d, c)) return false;
        return true;
      });
    }
  }

  /// Roots with one row, outside of cycles.
  void pay_forced() {
    const auto n = uint32_t(rows_of_.size());
    std::vector<uint32_t> todo;
    for (uint32_t c = 0; c < n; ++c)
      if (is_root_[c] && rows_of_[c].size() == 1) todo.push_back(c);
    if (todo.empty()) return;
    ExtractionBuilder builder;
    builder.add_classes(n);
    for (uint32_t c = 0; c < n; ++c)
      for (const uint32_t r : rows_of_[c]) builder.add_row(c, children(r), 0);
    const Components components = strongly_connected(builder.build());
    std::vector<uint32_t> size(components.count, 0), left;
    for (uint32_t c = 0; c < n; ++c) ++size[components.of_class[c]];
    std::vector<uint8_t> paid(n, 0);
    while (!todo.empty()) {
      const uint32_t c = todo.back();
      todo.pop_back();
      if (paid[c] || size[components.of_class[c]] != 1) continue;
      paid[c] = 1;
      changed_ = true;
      const uint32_t r = rows_of_[c][0];
      constant_ += rows_[r].cost;
      take_always(r);
      for (const uint32_t d : children(r)) {
        is_root_[d] = 1;
        if (rows_of_[d].size() == 1) todo.push_back(d);
      }
    }
    for (uint32_t c = 0; c < n; ++c) {
      if (paid[c]) rows_of_[c].clear(), is_root_[c] = 0;
      for (const uint32_t r : rows_of_[c]) {
        left.clear();
        for (const uint32_t d : children(r))
          if (!paid[d]) left.push_back(d);
        if (left.size() != rows_[r].size) set_children(r, left);
      }
    }
  }
  void take_always(uint32_t r) {
    each_taken(rows_[r].taken, [&](uint32_t row) { always_.push_back(row); });
  }

  void join_classes() {
    for (uint32_t c = 0; c < rows_of_.size(); ++c)
      for (size_t i = 0; i < rows_of_[c].size(); ++i) join_row(c, i); // joining adds rows to the class
  }
  void join_row(uint32_t c, size_t i) {
    const uint32_t r = rows_of_[c][i];
    for (uint32_t k = 0; k < rows_[r].size;) {
      const uint32_t d = children(r)[k];
      auto& inner = rows_of_[d];
      ++k;
      if (d == c || is_root_[d] || inner.empty()) continue;
      const bool is_free = inner.size() == 1 && rows_[inner[0]].cost == 0;
      if (!is_free && (uses_[d] != 1 || (inner.size() - 1) * (rows_[r].size - 1) > max_growth)) continue;
      for (const uint32_t s : inner)
        for (const uint32_t e : children(s))
          if (e == d || e == c) return; // a cycle: the next round drops the row
      changed_ = true;
      count(r, -1);
      if (is_free) {
        take_always(inner[0]);
        union_of(r, d, inner[0]);
        set_children(r, joined_);
        count(r, 1);
      } else {
        const std::vector<uint32_t> alternatives = std::exchange(inner, {});
        const Row outer = rows_[r];
        for (size_t j = alternatives.size(); j-- > 0;) { // the row itself last: it is read until then
          const uint32_t s = alternatives[j];
          count(s, -1);
          union_of(r, d, s);
          const uint32_t taken = taken_of_both(outer.taken, rows_[s].taken);
          const double cost = outer.cost + rows_[s].cost;
          if (j == 0) {
            set_children(r, joined_);
            rows_[r].cost = cost;
            rows_[r].taken = taken;
            count(r, 1);
          } else {
            add_row(c, joined_, cost, taken);
            count(uint32_t(rows_.size() - 1), 1);
          }
        }
        dirty_[c] = 1;
      }
      k = 0;
    }
  }
  void count(uint32_t r, int sign) {
    for (const uint32_t d : children(r)) uses_[d] += uint32_t(sign);
  }
  /// joined_: the children of row r with those of row s in place of class d.
  void union_of(uint32_t r, uint32_t d, uint32_t s) {
    joined_.clear();
    const auto a = children(r), b = children(s);
    std::set_union(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(joined_));
    std::erase(joined_, d);
  }
  uint32_t taken_of_both(uint32_t a, uint32_t b) {
    taken_.push_back({no_row, a, b});
    return uint32_t(taken_.size() - 1);
  }
  template <class See> void each_taken(uint32_t node, const See& see) const {
    std::vector<uint32_t> todo{node};
    while (!todo.empty()) {
      const Taken& t = taken_[todo.back()];
      todo.pop_back();
      if (t.row != no_row)
        see(t.row);
      else
        todo.insert(todo.end(), {t.left, t.right});
    }
  }

  /// A row of the given problem, or two parts.
  struct Taken {
    uint32_t row, left, right;
  };
  std::vector<uint32_t>& always_;
  double& constant_;
  std::vector<Row> rows_;
  std::vector<uint32_t> pool_, joined_;
  std::vector<Taken> taken_;
  std::vector<std::vector<uint32_t>> rows_of_;
  std::vector<uint8_t> is_root_, dirty_;
  std::vector<uint32_t> uses_;
  bool changed_ = false, negative_;
};

} // namespace

Reduction::Reduction(const ExtractionProblem& problem) : problem_(problem) {
  Rewriter rewriter(problem, always_, constant_);
  feasible_ = rewriter.run();
  if (feasible_) reduced_ = rewriter.build(taken_first_, taken_);
}

Genome Reduction::expand(const Genome& reduced) const {
  Genome genome(problem_.class_count(), no_row);
  for (const uint32_t r : always_) genome[problem_.class_of(r)] = r;
  std::vector<uint32_t> todo(reduced_.roots().begin(), reduced_.roots().end());
  std::vector<uint8_t> seen(reduced_.class_count(), 0);
  while (!todo.empty()) {
    const uint32_t c = todo.back();
    todo.pop_back();
    if (seen[c]) continue;
    seen[c] = 1;
    const uint32_t source = reduced_.source(reduced[c]);
    for (uint32_t t = taken_first_[source]; t < taken_first_[source + 1]; ++t)
      genome[problem_.class_of(taken_[t])] = taken_[t];
    for (const uint32_t d : reduced_.children(reduced[c])) todo.push_back(d);
  }
  return genome;
}

} // namespace luminal::egraph
