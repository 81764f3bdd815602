// egraph/extract_dag.cpp -- DAG cost: greedy with sharing, then improvement of the whole choice by marginal costs.
//
// The state is one row for each class that has a finite term ("choice", acyclic as a whole), a count of chosen uses for each
// class below the roots ("in the solution"), and a topological order of all choices.
//   greedy    bottom-up: a class takes the row whose term, with sharing counted inside the term, is cheapest
//   sweep     for each class of the solution: what leaves with its row, against what each other row brings in
//   defaults  before a sweep, classes outside take the row with the least tree cost when the solution is free
//   kicks     one class takes another row whatever it costs, then sweeps; taken back unless the total falls or stays
// The search works on a quickly reduced problem (extract_reduce.h) and also starts from a solution of its dual (extract_bound.h).
#include "base/hash.h"
#include "egraph/extract.h"
#include "egraph/extract_bound.h"
#include "egraph/extract_heap.h"
#include "egraph/extract_parents.h"
#include "egraph/extract_reduce.h"
#include <algorithm>
#include <cmath>
#include <iterator>

namespace luminal::egraph {
namespace {

class DagSearch {
public:
  DagSearch(const ExtractionProblem& p, double effort)
      : p_(p), parents_(p), heap_(p.class_count()), uses_(p.class_count(), 0), stamp_(p.class_count(), 0),
        term_cost_(p.class_count(), infinite_cost), marginal_(p.class_count()), pending_(p.row_count()),
        position_(p.class_count(), no_row), effort_(effort),
        budget_(effort * double(p.edge_count() + p.row_count() + 64)) {}

  Extraction run() {
    Extraction best;
    if (!start()) {
      best.genome = choice_;
      return best;
    }
    const Genome tree = choice_;
    const std::vector<uint32_t> tree_order = order_;
    enter_roots();
    improve(budget_ / 5);
    keep_better(best);
    if (start_from_dual(best)) return best;
    restart(tree, tree_order);
    greedy(budget_ / 5);
    enter_roots();
    improve(budget_ / 5);
    keep_better(best);
    kicks(best);
    return best;
  }

private:
  double weight(uint32_t row) const { return std::max(0.0, p_.cost(row)); }

  /// Knuth's algorithm; classes in the solution cost nothing and keep their rows. Fills marginal_ and the choice of
  /// the others; returns the order in which those were finished.
  void defaults() {
    const uint32_t n = p_.class_count();
    finished_.clear();
    heap_.clear();
    std::fill(marginal_.begin(), marginal_.end(), infinite_cost);
    for (uint32_t r = 0; r < p_.row_count(); ++r) pending_[r] = uint32_t(p_.children(r).size());
    ++round_; // stamp: class is final
    const auto offer = [&](uint32_t row) {
      const uint32_t c = p_.class_of(row);
      if (stamp_[c] == round_ || !(p_.cost(row) < infinite_cost)) return;
      double sum = weight(row);
      for (const uint32_t d : p_.children(row)) sum += marginal_[d];
      if (sum < marginal_[c] || (sum == marginal_[c] && row < choice_[c])) {
        marginal_[c] = sum;
        choice_[c] = row;
        heap_.offer(c, sum);
      }
    };
    for (uint32_t c = 0; c < n; ++c)
      if (uses_[c] > 0) {
        stamp_[c] = round_;
        marginal_[c] = 0;
      } else {
        choice_[c] = no_row;
      }
    for (uint32_t r = 0; r < p_.row_count(); ++r)
      if (pending_[r] == 0) offer(r);
    for (uint32_t c = 0; c < n; ++c)
      if (uses_[c] > 0) release(c, offer);
    while (!heap_.empty()) {
      const uint32_t c = heap_.pop();
      stamp_[c] = round_;
      finished_.push_back(c);
      release(c, offer);
    }
    steps_ += double(p_.edge_count() + p_.row_count());
  }
  template <class Offer> void release(uint32_t c, const Offer& offer) {
    for (const uint32_t r : parents_.of(c))
      if (--pending_[r] == 0) offer(r);
  }

  void set_order(const std::vector<uint32_t>& order) {
    order_ = order;
    for (uint32_t i = 0; i < order_.size(); ++i) position_[order_[i]] = i;
  }

  bool start() {
    choice_.assign(p_.class_count(), no_row);
    defaults();
    set_order(finished_);
    for (const uint32_t c : p_.roots())
      if (choice_[c] == no_row) return false;
    return true;
  }

  /// Another solution, whose order is children first.
  void restart(const Genome& genome, const std::vector<uint32_t>& order) {
    std::fill(uses_.begin(), uses_.end(), 0);
    choice_ = genome;
    set_order(order);
  }
  /// Improves on solutions of the dual. True where the bound proves that nothing is cheaper than the best.
  bool start_from_dual(Extraction& best) {
    const double edges = double(p_.edge_count() + p_.row_count() + 1);
    const int passes = std::clamp(int(budget_ / 8 / edges), 6, 24);
    DualBound dual(p_);
    if (!dual.prepare()) return false;
    bool integers = true;
    for (uint32_t r = 0; r < p_.row_count() && integers; ++r)
      integers = p_.cost(r) == std::floor(p_.cost(r)) && std::abs(p_.cost(r)) < 1e9;
    const auto enough = [&] {
      return best.cost - (integers ? 1 - 1e-6 : 1e-9 * std::max(1.0, std::abs(best.cost)));
    };
    dual.sweep(passes, enough());
    steps_ += dual.steps();
    if (dual.bound() >= enough()) return true;
    if (dual.best().genome.empty()) return false;
    restart(dual.best().genome, dual.order());
    enter_roots();
    improve(budget_ / 8);
    keep_better(best);
    return dual.bound() >= enough();
  }

  // ---- the term of a class, with sharing inside it
  /// The cost of a row's term under the current choice; infinite where it reaches `c` or costs `limit` or more.
  double term_cost(uint32_t c, uint32_t row, double limit) {
    ++round_;
    stack_.clear();
    double sum = weight(row);
    for (const uint32_t d : p_.children(row)) push_new(d);
    while (!stack_.empty()) {
      const uint32_t d = stack_.back();
      stack_.pop_back();
      if (d == c) return infinite_cost;
      sum += weight(choice_[d]);
      if (sum >= limit) return infinite_cost;
      for (const uint32_t e : p_.children(choice_[d])) push_new(e);
      ++steps_;
    }
    return sum;
  }
  void push_new(uint32_t d) {
    if (stamp_[d] == round_) return;
    stamp_[d] = round_;
    stack_.push_back(d);
  }

  void greedy(double budget) {
    const double stop = steps_ + budget;
    const std::vector<uint32_t> order = order_;
    std::vector<uint8_t> dirty(p_.class_count(), 1);
    for (bool first = true, changed = true; changed; first = false) {
      changed = false;
      for (const uint32_t c : order) {
        if (!dirty[c]) continue;
        dirty[c] = 0;
        if (steps_ > stop) return;
        double best = term_cost(c, choice_[c], infinite_cost);
        uint32_t row = choice_[c];
        for (uint32_t r = p_.first_row(c); r < p_.end_row(c); ++r) {
          if (r == choice_[c] || !usable(r)) continue;
          double least = 0; // no row is cheaper than its dearest child, as far as that is known
          for (const uint32_t d : p_.children(r))
            if (term_cost_[d] < infinite_cost) least = std::max(least, term_cost_[d]);
          if (least + weight(r) >= best) continue;
          const double cost = term_cost(c, r, best);
          if (cost < best) {
            best = cost;
            row = r;
          }
        }
        const bool better = best < term_cost_[c];
        term_cost_[c] = best;
        if (row != choice_[c]) change(c, row);
        if (better && !first) {
          changed = true;
          for (const uint32_t r : parents_.of(c)) dirty[p_.class_of(r)] = 1;
        }
      }
      if (first) changed = true, std::fill(dirty.begin(), dirty.end(), 1);
    }
  }
  bool usable(uint32_t row) const {
    if (!(p_.cost(row) < infinite_cost)) return false;
    for (const uint32_t d : p_.children(row))
      if (choice_[d] == no_row) return false;
    return true;
  }

  /// The class takes another row, which does not lead back to it; the order is repaired.
  void change(uint32_t c, uint32_t row) {
    choice_[c] = row;
    const uint32_t at = position_[c];
    ++round_;
    stack_.clear();
    moved_.clear();
    const auto visit = [&](uint32_t d) {
      if (position_[d] > at && stamp_[d] != round_) {
        stamp_[d] = round_;
        stack_.push_back(d);
      }
    };
    for (const uint32_t d : p_.children(row)) visit(d);
    uint32_t last = at;
    while (!stack_.empty()) {
      const uint32_t d = stack_.back();
      stack_.pop_back();
      last = std::max(last, position_[d]);
      for (const uint32_t e : p_.children(choice_[d])) visit(e);
    }
    if (last == at) return;
    // What the row needs moves before the class, the rest of the stretch after it; both keep their order.
    uint32_t to = at;
    for (uint32_t i = at; i <= last; ++i) {
      const uint32_t d = order_[i];
      if (stamp_[d] == round_)
        order_[to++] = d;
      else
        moved_.push_back(d);
    }
    for (const uint32_t d : moved_) order_[to++] = d;
    for (uint32_t i = at; i <= last; ++i) position_[order_[i]] = i;
    steps_ += last - at;
  }

  /// Whether the chosen terms of the row's children contain the class.
  bool leads_back(uint32_t c, uint32_t row) {
    ++round_;
    stack_.clear();
    const uint32_t at = position_[c];
    const auto visit = [&](uint32_t d) {
      if (position_[d] >= at) push_new(d);
    };
    for (const uint32_t d : p_.children(row)) visit(d);
    while (!stack_.empty()) {
      const uint32_t d = stack_.back();
      stack_.pop_back();
      ++steps_;
      if (d == c) return true;
      for (const uint32_t e : p_.children(choice_[d])) visit(e);
    }
    return false;
  }

  // ---- the solution
  void enter(uint32_t c) {
    if (uses_[c]++ > 0) return;
    stack_.push_back(c);
  }
  /// Adds the children of a row and what they need, and gives what that costs. Breaks off at `limit`: then only take_back() makes
  /// the counts right again.
  double add_children(uint32_t row, double limit) {
    double sum = 0;
    stack_.clear();
    counted_.clear();
    for (const uint32_t d : p_.children(row)) enter(d);
    while (!stack_.empty()) {
      const uint32_t c = stack_.back();
      stack_.pop_back();
      counted_.push_back(c);
      sum += p_.cost(choice_[c]);
      ++steps_;
      for (const uint32_t d : p_.children(choice_[c])) enter(d);
      if (sum >= limit && !p_.has_negative_costs()) break;
    }
    return sum;
  }
  void take_back(uint32_t row) {
    for (const uint32_t d : p_.children(row)) --uses_[d];
    for (const uint32_t c : counted_)
      for (const uint32_t d : p_.children(choice_[c])) --uses_[d];
  }
  double drop_children(uint32_t row) {
    double sum = 0;
    stack_.clear();
    const auto leave = [&](uint32_t c) {
      if (--uses_[c] == 0) stack_.push_back(c);
    };
    for (const uint32_t d : p_.children(row)) leave(d);
    while (!stack_.empty()) {
      const uint32_t c = stack_.back();
      stack_.pop_back();
      sum += p_.cost(choice_[c]);
      ++steps_;
      for (const uint32_t d : p_.children(choice_[c])) leave(d);
    }
    return sum;
  }
  void enter_roots() {
    total_ = 0;
    for (const uint32_t c : p_.roots()) {
      if (uses_[c]++ > 0) continue;
      total_ += p_.cost(choice_[c]) + add_children(choice_[c], infinite_cost);
    }
  }

  /// One class: its best row given the rest of the solution. Returns whether the total fell.
  bool improve_class(uint32_t c) {
    const uint32_t old = choice_[c];
    const double saved = p_.cost(old) + drop_children(old);
    double best = saved - 1e-9 * std::max(1.0, std::abs(saved));
    uint32_t row = old;
    for (uint32_t r = p_.first_row(c); r < p_.end_row(c); ++r) {
      if (r == old || !usable(r)) continue;
      double least = p_.cost(r);
      if (!p_.has_negative_costs()) {
        for (const uint32_t d : p_.children(r))
          if (uses_[d] == 0) least = std::max(least, p_.cost(r) + p_.cost(choice_[d]));
        if (least >= best) continue;
      }
      const double cost = p_.cost(r) + add_children(r, best - p_.cost(r));
      take_back(r);
      if (cost < best && !leads_back(c, r)) {
        best = cost;
        row = r;
      }
    }
    add_children(row, infinite_cost);
    if (row == old) return false;
    change(c, row);
    total_ += best - saved;
    return true;
  }

  void improve(double budget) {
    const double stop = steps_ + budget;
    for (bool changed = true; changed;) {
      defaults();
      list_solution();
      solution_.swap(sweep_order_);
      std::vector<uint32_t> order = sweep_order_;
      order.insert(order.end(), finished_.begin(), finished_.end());
      set_order(order);
      changed = sweep(stop);
      if (steps_ > stop) return;
    }
  }
  /// The classes of the solution, children first.
  void list_solution() {
    solution_.clear();
    for (const uint32_t c : order_)
      if (uses_[c] > 0) solution_.push_back(c);
  }
  /// Once over the classes in sweep_order_, from the roots down.
  bool sweep(double stop) {
    bool changed = false;
    for (size_t i = sweep_order_.size(); i-- > 0;) {
      if (steps_ > stop) return changed;
      const uint32_t c = sweep_order_[i];
      if (uses_[c] > 0 && p_.end_row(c) - p_.first_row(c) > 1 && improve_class(c)) changed = true;
    }
    return changed;
  }

  /// From the best solution: small changes for the worse, and sweeps.
  void kicks(Extraction& best) {
    struct State {
      Genome choice;
      std::vector<uint32_t> uses, order, position;
      double total;
    };
    if (best.genome != choice_ || total_ != best.cost) {
      restart(best.genome, topological(best.genome));
      enter_roots();
      improve(budget_ / 8);
      keep_better(best);
    }
    State kept{choice_, uses_, order_, position_, total_};
    const int max_stale = int(std::min(400.0, effort_ * 2));
    uint64_t random = 0x9E3779B97F4A7C15u;
    const auto next = [&](size_t bound) {
      random = hash_mix(random, 0x2545F4914F6CDD1Du);
      return size_t((random >> 33) % bound);
    };
    for (int stale = 0; steps_ < budget_ && stale < max_stale; ++stale) {
      steps_ += double(p_.class_count()) / 8;
      list_solution();
      sweep_order_.clear();
      for (const uint32_t c : solution_)
        if (p_.end_row(c) - p_.first_row(c) > 1) sweep_order_.push_back(c);
      if (sweep_order_.empty()) return;
      bool kicked = false;
      for (int tries = 0; tries < 8 && !kicked; ++tries) {
        const uint32_t c = sweep_order_[next(sweep_order_.size())];
        const uint32_t r = p_.first_row(c) + uint32_t(next(p_.end_row(c) - p_.first_row(c)));
        if (r == choice_[c] || !usable(r) || leads_back(c, r)) continue;
        const double before = p_.cost(choice_[c]) + drop_children(choice_[c]);
        total_ += p_.cost(r) + add_children(r, infinite_cost) - before;
        change(c, r);
        kicked = true;
        std::erase(sweep_order_, c); // it keeps its row for the first sweep
      }
      if (!kicked) continue;
      list_solution();
      const auto has_choice = [&](uint32_t c) { return p_.end_row(c) - p_.first_row(c) > 1; };
      sweep(budget_);
      for (int again = 0; again < 4; ++again) {
        list_solution();
        sweep_order_.clear();
        std::copy_if(solution_.begin(), solution_.end(), std::back_inserter(sweep_order_), has_choice);
        if (!sweep(budget_)) break;
      }
      if (total_ < kept.total - 1e-9 * std::max(1.0, std::abs(kept.total))) stale = 0;
      if (total_ <= kept.total) {
        kept = {choice_, uses_, order_, position_, total_};
        keep_better(best);
      } else {
        choice_ = kept.choice;
        uses_ = kept.uses;
        order_ = kept.order;
        position_ = kept.position;
        total_ = kept.total;
      }
    }
  }
  /// Children first: the classes that the genome holds a row for.
  std::vector<uint32_t> topological(const Genome& genome) {
    std::vector<uint32_t> order, row_at;
    ++round_;
    for (uint32_t start = 0; start < p_.class_count(); ++start) {
      if (genome[start] == no_row || stamp_[start] == round_) continue;
      stamp_[start] = round_;
      stack_.assign(1, start);
      row_at.assign(1, 0);
      while (!stack_.empty()) {
        const auto children = p_.children(genome[stack_.back()]);
        if (row_at.back() == children.size()) {
          order.push_back(stack_.back());
          stack_.pop_back();
          row_at.pop_back();
        } else {
          const uint32_t d = children[row_at.back()++];
          if (stamp_[d] == round_) continue;
          stamp_[d] = round_;
          stack_.push_back(d);
          row_at.push_back(0);
        }
      }
    }
    return order;
  }

  void keep_better(Extraction& best) const {
    if (!(total_ < best.cost)) return;
    best.cost = total_;
    best.genome = choice_;
  }

  const ExtractionProblem& p_;
  const Parents parents_;
  ClassHeap heap_;
  Genome choice_;
  std::vector<uint32_t> uses_, stamp_;
  std::vector<double> term_cost_, marginal_;
  std::vector<uint32_t> pending_, position_, order_, finished_, stack_, moved_, counted_, solution_,
      sweep_order_;
  uint32_t round_ = 0;
  double steps_ = 0, effort_, budget_, total_ = 0;
};

} // namespace

Extraction extract_dag(const ExtractionProblem& problem, const DagOptions& options) {
  const Reduction reduction(problem, Reduction::Effort::quick);
  Extraction out;
  out.genome.assign(problem.class_count(), no_row);
  if (!reduction.feasible()) return out;
  const Extraction found = DagSearch(reduction.reduced(), options.effort).run();
  if (!found.feasible()) return out;
  out.genome = reduction.expand(found.genome);
  out.cost = Evaluator(problem).evaluate(out.genome).cost; // summed in one order, whatever moves led here
  return out;
}

} // namespace luminal::egraph
