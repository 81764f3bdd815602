// extract/extract_compact.cpp -- one depth-first search finds the components, copies the rows and
// gives the least trees.
#include "extract/extract_compact.h"
#include "base/check.h"
#include "extract/extract_heap.h"

namespace luminal::egraph {
namespace {

/// Marks the number of a class in name_; below it: when the class was found.
constexpr uint32_t named = uint32_t(1) << 31;
constexpr int max_passes = 3; ///< over a component

} // namespace

bool CompactGraph::build(const ExtractionProblem& p) {
  const uint32_t n = p.class_count();
  if (n >= named) throw Error("[extraction] more than 2147483647 classes");
  negative_ = p.has_negative_costs();
  row_.reserve(p.row_count());
  source_.reserve(p.row_count());
  if (p.edge_count() + size_t(p.row_count()) * (lanes - 1) >= no_row)
    throw Error("[extraction] more than 4294967294 rows and edges");
  child_.reserve(p.edge_count() + size_t(p.row_count()) * (lanes - 1));
  first_row_.reserve(size_t(n) + 1);
  for (auto* array : {&component_, &todo_, &name_, &finished_, &choice_, &roots_}) array->reserve(n);
  visits_.reserve(n);
  padding_ = n;
  value_.reserve(size_t(n) + 1);
  least_.reserve(size_t(n) + 1);
  trial_.reserve(size_t(n) + 1);
  value_[n] = least_[n] = 0;
  std::fill_n(name_.begin(), n, 0);
  cycles_.clear();
  classes_ = rows_ = edges_ = pool_ = root_count_ = 0;
  first_row_[0] = 0;
  lower_bound_ = 0;
  // Tarjan's algorithm. finished_ holds the classes that are left but whose component is still
  // open.
  uint32_t found = 0, finished = 0;
  for (const uint32_t root : p.roots()) {
    if (name_[root] == 0) {
      size_t depth = 0;
      const auto enter = [&](uint32_t c) {
        const auto children = p.children_of_class(c);
        name_[c] = ++found;
        visits_[depth++] = {children.data(), children.data() + children.size(), c, found, finished};
      };
      enter(root);
      while (depth > 0) {
        Visit& v = visits_[depth - 1];
        uint32_t next = no_row;
        while (v.child != v.end) {
          const uint32_t d = *v.child++, name = name_[d];
          if (name == 0) {
            next = d;
            break;
          }
          if (name < v.low) v.low = name;
        }
        if (next != no_row) {
          enter(next);
          continue;
        }
        const uint32_t c = v.c, low = v.low;
        --depth;
        if (low < name_[c]) {
          finished_[finished++] = c;
          visits_[depth - 1].low = std::min(visits_[depth - 1].low, low);
        } else if (finished == v.height) {
          add_class(p, c);
        } else {
          finished_[finished++] = c;
          add_component(p, {finished_.begin() + v.height, finished_.begin() + finished});
          finished = v.height;
        }
      }
    }
    const uint32_t c = name_[root] ^ named;
    roots_[root_count_++] = c;
    if (!(value_[c] < infinite_cost)) return false;
    lower_bound_ = std::max(lower_bound_, least_[c]);
  }
  return true;
}

/// Appends the rows of a class; children that have no number yet cannot occur.
void CompactGraph::add_rows(const ExtractionProblem& p, uint32_t c, uint32_t id) {
  uint32_t at = pool_;
  for (uint32_t r = p.first_row(c); r < p.end_row(c); ++r) {
    if (!(p.cost(r) < infinite_cost)) continue;
    const uint32_t first = at;
    const auto children = p.children(r);
    bool usable = true;
    if (children.size() <= 8) {
      for (const uint32_t child : children) {
        const uint32_t d = name_[child] ^ named;
        usable = usable && d != id;
        bool repeated = false;
        for (uint32_t k = first; k < at; ++k) repeated |= child_[k] == d;
        child_[at] = d;
        at += repeated ? 0 : 1;
      }
    } else {
      for (const uint32_t child : children) child_[at++] = name_[child] ^ named;
      std::sort(child_.begin() + first, child_.begin() + at);
      at = uint32_t(std::unique(child_.begin() + first, child_.begin() + at) - child_.begin());
      usable = !std::binary_search(child_.begin() + first, child_.begin() + at, id);
    }
    if (!usable) {
      at = first;
      continue;
    }
    row_[rows_] = {p.cost(r), first, at};
    source_[rows_++] = r;
    edges_ += at - first;
    while ((at - first) % lanes != 0) child_[at++] = padding_;
  }
  pool_ = at;
}

double CompactGraph::tree_cost(const Row& row, const double* value) const {
  double sum = std::max(0.0, row.cost);
  for (uint32_t k = row.first; k < row.end; k += lanes) {
    const uint32_t* d = child_.begin() + k;
    sum += (value[d[0]] + value[d[1]]) + (value[d[2]] + value[d[3]]);
  }
  return sum;
}
double CompactGraph::most(const Row& row, const double* value) const {
  double most = 0;
  for (uint32_t k = row.first; k < row.end; k += lanes) {
    const uint32_t* d = child_.begin() + k;
    most = std::max(most, std::max(std::max(value[d[0]], value[d[1]]), std::max(value[d[2]], value[d[3]])));
  }
  return most;
}

void CompactGraph::add_class(const ExtractionProblem& p, uint32_t c) {
  const uint32_t id = classes_++, first = rows_;
  name_[c] = named | id;
  component_[id] = id;
  choice_[id] = no_row;
  add_rows(p, c, id);
  double best = infinite_cost, least = infinite_cost;
  uint32_t kept = first;
  for (uint32_t r = first; r < rows_; ++r) {
    const double sum = tree_cost(row_[r], value_.begin());
    if (!(sum < infinite_cost)) continue;
    if (sum < best) {
      best = sum;
      choice_[id] = kept;
    }
    least = std::min(least, most(row_[r], least_.begin()) + row_[r].cost);
    row_[kept] = row_[r];
    source_[kept++] = source_[r];
  }
  value_[id] = best;
  least_[id] = least;
  first_row_[id + 1] = rows_ = kept;
}

void CompactGraph::add_component(const ExtractionProblem& p, std::span<const uint32_t> members) {
  const uint32_t first = classes_;
  for (const uint32_t c : members) {
    name_[c] = named | classes_;
    component_[classes_++] = first;
  }
  for (uint32_t id = first; id < classes_; ++id) {
    add_rows(p, members[id - first], id);
    first_row_[id + 1] = rows_;
  }
  cycles_.push_back({first, classes_});
  if (!settle(cycles_.back())) settle_in_order(cycles_.back());
  std::fill(least_.begin() + first, least_.begin() + classes_, 0);
  uint32_t kept = first_row_[first];
  for (uint32_t id = first, from = kept; id < classes_; ++id) {
    const uint32_t end = first_row_[id + 1];
    double least = infinite_cost;
    for (uint32_t r = from; r < end; ++r) { // rows without a finite term go
      if (!(tree_cost(row_[r], value_.begin()) < infinite_cost)) continue;
      least = std::min(least, most(row_[r], least_.begin()) + row_[r].cost);
      if (choice_[id] == r) choice_[id] = kept;
      row_[kept] = row_[r];
      source_[kept++] = source_[r];
    }
    least_[id] = least;
    from = end;
    first_row_[id + 1] = kept;
  }
  rows_ = kept;
}

bool CompactGraph::relax(uint32_t c, double* value, uint32_t* choice) const {
  double best = value[c];
  uint32_t row = no_row;
  for (uint32_t r = first_row_[c]; r < first_row_[c + 1]; ++r) {
    const double sum = tree_cost(row_[r], value);
    if (sum < best) {
      best = sum;
      row = r;
    }
  }
  if (row == no_row) return false;
  value[c] = best;
  choice[c] = row;
  return true;
}

void CompactGraph::choose_trees(const uint32_t* paid, uint32_t* choice) {
  uint32_t c = 0;
  double* value = trial_.begin();
  value[padding_] = 0;
  const auto until = [&](uint32_t end) {
    for (; c < end; ++c) {
      if (paid[c] > 0) {
        value[c] = 0;
      } else {
        value[c] = infinite_cost;
        relax(c, value, choice);
      }
    }
  };
  for (const Cycle& cycle : cycles_) {
    until(cycle.first);
    improve_trees(cycle, paid, value, choice);
    c = cycle.end;
  }
  until(classes_);
}

/// From the trees of the present choice, by passes.
void CompactGraph::improve_trees(const Cycle& cycle, const uint32_t* paid, double* value, uint32_t* choice) {
  for (uint32_t c = cycle.first; c < cycle.end; ++c)
    value[c] = paid[c] > 0 ? 0 : choice[c] == no_row ? infinite_cost : -1;
  for (uint32_t c = cycle.first; c < cycle.end; ++c) {
    if (value[c] >= 0) continue;
    uint32_t top = 0;
    todo_[top++] = c;
    while (top > 0) {
      const uint32_t d = todo_[top - 1];
      double sum = std::max(0.0, row_[choice[d]].cost);
      uint32_t open = no_row;
      for (const uint32_t e : children(choice[d])) {
        sum += value[e];
        if (value[e] < 0) open = e;
      }
      if (open != no_row) {
        todo_[top++] = open;
      } else {
        value[d] = sum;
        --top;
      }
    }
  }
  for (int pass = 0; pass < max_passes; ++pass) {
    bool changed = false;
    for (uint32_t c = cycle.first; c < cycle.end; ++c)
      if (paid[c] == 0) changed |= relax(c, value, choice);
    if (!changed) return;
  }
}

/// The least trees of a component by passes until nothing changes; false where that takes many. A
/// row is taken only where the value falls, so no cycle is ever chosen: around it every value would
/// be below itself.
bool CompactGraph::settle(const Cycle& cycle) {
  for (uint32_t c = cycle.first; c < cycle.end; ++c) {
    value_[c] = infinite_cost;
    choice_[c] = no_row;
  }
  for (int pass = 0; pass < max_passes; ++pass) {
    bool changed = false;
    for (uint32_t c = cycle.first; c < cycle.end; ++c) changed |= relax(c, value_.begin(), choice_.begin());
    if (!changed) return true;
  }
  return false;
}

/// Knuth's algorithm inside a component: for those that settle() gives up.
void CompactGraph::settle_in_order(const Cycle& cycle) {
  const uint32_t n = cycle.end - cycle.first, rows = first_row_[cycle.first];
  const auto inside = [&](uint32_t d) { return d >= cycle.first; };
  std::vector<uint32_t> first(n + 1, 0), pending(first_row_[cycle.end] - rows, 0), above, owner;
  for (uint32_t r = rows; r < first_row_[cycle.end]; ++r)
    for (const uint32_t d : children(r))
      if (inside(d)) ++first[d - cycle.first + 1], ++pending[r - rows];
  for (uint32_t c = 0; c < n; ++c) first[c + 1] += first[c];
  std::vector<uint32_t> next(first.begin(), first.end() - 1);
  above.resize(first[n]);
  owner.resize(pending.size());
  for (uint32_t c = cycle.first; c < cycle.end; ++c)
    for (uint32_t r = first_row_[c]; r < first_row_[c + 1]; ++r) {
      owner[r - rows] = c;
      for (const uint32_t d : children(r))
        if (inside(d)) above[next[d - cycle.first]++] = r;
    }
  ClassHeap heap(n);
  std::vector<uint8_t> done(n, 0);
  std::fill(value_.begin() + cycle.first, value_.begin() + cycle.end, infinite_cost);
  std::fill(choice_.begin() + cycle.first, choice_.begin() + cycle.end, no_row);
  const auto offer = [&](uint32_t r) {
    const uint32_t c = owner[r - rows];
    if (done[c - cycle.first]) return;
    const double sum = tree_cost(row_[r], value_.begin());
    if (sum < value_[c]) {
      value_[c] = sum;
      choice_[c] = r;
      heap.offer(c - cycle.first, sum);
    }
  };
  for (uint32_t r = rows; r < first_row_[cycle.end]; ++r)
    if (pending[r - rows] == 0) offer(r);
  while (!heap.empty()) {
    const uint32_t c = heap.pop();
    done[c] = 1;
    for (uint32_t i = first[c]; i < first[c + 1]; ++i)
      if (--pending[above[i] - rows] == 0) offer(above[i]);
  }
}

} // namespace luminal::egraph
