// extract/extract_dag.cpp -- DAG cost: the least trees, then improvement of the whole choice by
// marginal costs.
//
//   sweep   for each class of the solution: what leaves with its row, against what each other row
//           brings in; before a sweep, classes outside
//           of the solution take the row with the least tree cost when the solution is free
//   kick    one class takes another row whatever it costs, then those classes for which that
//           matters take their best rows; taken back
//           unless the cost falls or stays. Every other row of every class of the solution has its turn
#include "extract/extract.h"
#include "extract/extract_compact.h"
#include "extract/extract_solution.h"
#include <cmath>

namespace luminal::egraph {
namespace {

// What the search may take with effort 1, in passes over the problem.
constexpr double max_passes_of_sets = 10, max_passes_of_kicks = 6;
constexpr double steps_of_setup = 200; ///< what it takes to begin with kicks, besides a step for each class
constexpr uint32_t max_users = 32; ///< that are told of a change: a class with more seldom leaves or enters
constexpr int max_climb = 8; ///< classes without a choice between a class and the one that decides on it

} // namespace

class DagExtractor::Search {
public:
  explicit Search(const DagOptions& options) : options_(options), s_(g_) {}

  const Extraction& run(const ExtractionProblem& p) {
    result_.genome.assign(p.class_count(), no_row);
    result_.cost = infinite_cost;
    if (!g_.build(p)) return result_;
    s_.start();
    if (!(s_.cost() < infinite_cost)) return result_;
    if (!is_least()) {
      const double stop = budget();
      for (bool again = true; again && s_.steps() < stop;) {
        sweeps(stop);
        const double before = s_.cost();
        if (!is_least())
          kicks(std::min(stop, s_.steps() + options_.effort * max_passes_of_kicks * g_.size()));
        again = s_.cost() < before;
      }
    }
    write(p);
    return result_;
  }

private:
  bool is_least() const { return !g_.has_negative_costs() && s_.cost() <= g_.lower_bound() * (1 + 1e-12); }

  /// Greedy extraction keeps for each class the set of classes below it and joins such sets for
  /// each row. Steps that take about a tenth of the time of that, measured where sets are hash
  /// tables: a step for each entry of a set, and some for each row and each of its children.
  double budget() {
    const uint32_t n = g_.class_count();
    size_.reserve(n);
    uint32_t in_solution = 0;
    double sets = 0;
    for (uint32_t c = 0; c < n; ++c) in_solution += s_.contains(c);
    for (uint32_t c = 0; c < n; ++c) {
      if (s_.choice(c) == no_row) {
        size_[c] = 0;
        continue;
      }
      double size = 0;
      for (const uint32_t d : g_.children(s_.choice(c)))
        if (d < c) size += size_[d];
      size = std::min(size, double(in_solution));
      size_[c] = size + 1;
      sets += size * (g_.end_row(c) - g_.first_row(c));
    }
    return options_.effort *
           std::min(sets + 6 * g_.row_count() + 2.5 * g_.edge_count(), max_passes_of_sets * g_.size());
  }

  void sweeps(double stop) {
    for (bool changed = true; changed && s_.steps() < stop;) {
      s_.set_defaults();
      changed = false;
      for (uint32_t c = g_.class_count(); c-- > 0;) { // parents first
        if (!s_.contains(c) || !g_.has_choice(c)) continue;
        if (s_.improve(c)) changed = true;
        if (s_.steps() > stop) return;
      }
    }
  }

  // ---- kicks
  /// The solution's classes that have a choice, and how many other rows they have.
  void list_choices() {
    choices_.clear();
    alternatives_ = 0;
    s_.each([&](uint32_t c) {
      link_users(c);
      if (!g_.has_choice(c)) return;
      choices_.push_back(c);
      alternatives_ += g_.end_row(c) - g_.first_row(c) - 1;
    });
  }
  /// Notes for each child of each row of the class that the class may use it.
  void link_users(uint32_t c) {
    if (linked_[c]) return;
    linked_[c] = 1;
    uint32_t looked = 0;
    for (uint32_t r = g_.first_row(c); r < g_.end_row(c); ++r)
      for (const uint32_t d : g_.children(r)) {
        ++looked;
        if (last_user_[d] != no_row && users_[last_user_[d]].c == c) continue;
        users_.push_back({c, last_user_[d]});
        last_user_[d] = uint32_t(users_.size() - 1);
      }
    s_.add_steps(looked);
  }
  void enqueue(uint32_t c) {
    if (queued_[c] || !s_.contains(c) || !g_.has_choice(c)) return;
    queued_[c] = 1;
    queue_.push_back(c);
  }
  /// The class that alone decides whether d stays.
  void enqueue_sole_user(uint32_t d) {
    for (int up = 0; up < max_climb && s_.uses(d) == 1; ++up) {
      uint32_t sole = no_row, looked = 0;
      for (uint32_t k = last_user_[d]; k != no_row && ++looked <= max_users && sole == no_row;
           k = users_[k].next) {
        const uint32_t c = users_[k].c;
        if (!s_.contains(c)) continue;
        const auto children = g_.children(s_.choice(c));
        if (std::find(children.begin(), children.end(), d) != children.end()) sole = c;
      }
      s_.add_steps(looked);
      if (sole == no_row) return;
      if (g_.has_choice(sole)) return enqueue(sole);
      d = sole;
    }
  }
  /// After a class has taken another row: the classes for which that may matter. What left may
  /// leave others with one user, who can now save them; what entered is free for others.
  void enqueue_neighbours() {
    for (const uint32_t d : s_.left())
      for (const uint32_t e : g_.children(s_.choice(d))) enqueue_sole_user(e);
    for (const uint32_t d : s_.entered()) {
      uint32_t looked = 0;
      for (uint32_t k = last_user_[d]; k != no_row && ++looked <= max_users; k = users_[k].next)
        enqueue(users_[k].c);
      s_.add_steps(looked);
      link_users(d);
    }
  }
  /// Whether the cost fell.
  bool kick(uint32_t c, uint32_t row) {
    const uint32_t old = s_.choice(c);
    const double before = s_.cost();
    s_.mark();
    s_.take(c, row);
    queue_.clear();
    queued_[c] = 1; // it comes last
    enqueue_neighbours();
    queued_[c] = 0;
    bool last = false;
    for (size_t i = 0, changes = 1;; ++i) {
      if (i == queue_.size()) {
        if (!last) enqueue(c);
        if (last || i == queue_.size()) break;
        last = true;
      }
      const uint32_t d = queue_[i];
      queued_[d] = 0;
      if (!s_.contains(d) || !s_.improve(d)) continue;
      if (++changes == 2 && d == c && s_.choice(c) == old) break; // nothing came of it
      enqueue_neighbours();
    }
    for (const uint32_t d : queue_) queued_[d] = 0;
    const double slack = 1e-9 * std::max(1.0, std::abs(before));
    if (s_.cost() > before + slack) s_.undo();
    return s_.cost() < before - slack;
  }
  void kicks(double stop) {
    const uint32_t n = g_.class_count();
    s_.add_steps(n + steps_of_setup);
    if (s_.steps() >= stop) return;
    for (auto* array : {&last_user_, &next_row_}) array->reserve(n);
    for (auto* array : {&linked_, &queued_}) array->reserve(n);
    std::fill_n(last_user_.begin(), n, no_row);
    std::fill_n(next_row_.begin(), n, 0);
    std::fill_n(linked_.begin(), n, 0);
    std::fill_n(queued_.begin(), n, 0);
    users_.clear();
    list_choices();
    size_t at = 0, stale = 0;
    while (s_.steps() < stop && stale < alternatives_) {
      if (at == choices_.size()) {
        at = 0;
        list_choices();
        if (choices_.empty()) return;
      }
      const uint32_t c = choices_[at++];
      if (!s_.contains(c)) continue;
      const uint32_t first = g_.first_row(c), rows = g_.end_row(c) - first;
      uint32_t row = first + next_row_[c]++ % rows;
      if (row == s_.choice(c)) row = first + next_row_[c]++ % rows;
      ++stale;
      s_.add_steps(4);
      if (!s_.leads_back(c, row) && kick(c, row)) stale = 0;
    }
  }

  void write(const ExtractionProblem& p) {
    result_.cost = 0;
    s_.each([&](uint32_t c) {
      const uint32_t row = s_.choice(c), source = g_.source(row);
      result_.genome[p.class_of(source)] = source;
      result_.cost += g_.cost(row);
    });
  }

  struct User {
    uint32_t c, next; ///< a list for each class
  };

  DagOptions options_;
  CompactGraph g_;
  Solution s_;
  Extraction result_;
  Scratch<uint32_t> last_user_, next_row_;
  Scratch<uint8_t> linked_, queued_;
  Scratch<double> size_;
  std::vector<User> users_;
  std::vector<uint32_t> queue_, choices_;
  uint64_t alternatives_ = 0;
};

DagExtractor::DagExtractor(const DagOptions& options) : search_(std::make_unique<Search>(options)) {}
DagExtractor::~DagExtractor() = default;
DagExtractor::DagExtractor(DagExtractor&&) noexcept = default;
DagExtractor& DagExtractor::operator=(DagExtractor&&) noexcept = default;
const Extraction& DagExtractor::extract(const ExtractionProblem& problem) { return search_->run(problem); }

Extraction extract_dag(const ExtractionProblem& problem, const DagOptions& options) {
  return DagExtractor(options).extract(problem);
}

} // namespace luminal::egraph
