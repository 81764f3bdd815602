// search/bound.cpp -- counting what loops execute at least.
#include "search/bound.h"
#include "base/hash.h"
#include "codegen/codegen.h"
#include "loop/unit.h"
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <set>

namespace luminal::search {
namespace {

using kernel::Apply;
using kernel::ApplyUser;
using kernel::Barrier;
using kernel::Body;
using kernel::Constant;
using kernel::If;
using kernel::Index;
using kernel::Kernel;
using kernel::LetIndex;
using kernel::LetValue;
using kernel::Load;
using kernel::Loop;
using kernel::LoopKind;
using kernel::Stmt;
using kernel::Store;
using kernel::Value;

constexpr int64_t most_visits = 200'000;

enum Metric : uint8_t { multiplies, arithmetic, bf16_dots, int8_dots, loaded, metric_count };
using Cost = std::array<double, metric_count>;

Cost operator+(Cost a, const Cost& b) {
  for (size_t i = 0; i < a.size(); i++) a[i] += b[i];
  return a;
}
Cost operator*(Cost a, double times) {
  for (double& x : a) x *= times;
  return a;
}
Cost larger(Cost a, const Cost& b) {
  for (size_t i = 0; i < a.size(); i++) a[i] = std::max(a[i], b[i]);
  return a;
}

/// A loop that runs step by step, or a branch of a condition; unrolled and vector loops are part of
/// what stands in them.
struct LoopNode {
  const Loop* loop = nullptr; // null: the root, or a branch
  Expr condition = 1;         // of a branch
  bool otherwise = false;
  bool barrier = false;  // in its body
  bool nested = false;   // a loop that is distributed holds another one: both are distributed together
  bool watched = false;  // its variable decides how often something in it runs
  Cost own{};            // once a trip
  std::vector<int> kids; // in order
};

/// What a value changes with: loops that are open around it, by number. `written`: those in which a
/// buffer that it reads is written.
struct Dependence {
  std::set<int> all, written;
  void add(const Dependence& other) {
    all.insert(other.all.begin(), other.all.end());
    written.insert(other.written.begin(), other.written.end());
  }
};

class Counter {
public:
  Counter(const Kernel& kernel, const std::map<std::string, int64_t>& sizes, int threads)
      : kernel_(kernel), threads_(threads) {
    for (const Expr symbol : kernel.symbols)
      if (const auto found = sizes.find(std::string(symbol.name())); found != sizes.end())
        bound_[symbol] = found->second;
    nodes_.emplace_back();
    see(kernel.body, 0);
    for (LoopNode& node : nodes_)
      node.watched = node.loop && node.loop->variable.is_symbol() && decisive_.contains(node.loop->variable);
  }

  std::optional<Cost> run() {
    nodes_[0].barrier = kernel::has_barriers(kernel_);
    const Cost all = total(0, false) * (1.0 / threads_);
    const Cost longest = critical(0);
    if (visits_ > most_visits) return {};
    return larger(all, longest);
  }

private:
  struct Open {
    int number;
    const Loop* loop; // null: a branch
    int node;         // of a loop that runs step by step, or a branch; else -1
    double trips = 1; // unrolled, vector
  };

  // ---- the tree ----

  void see(const Body& body, int node) {
    for (const auto& s : body) see(*s, node);
  }

  void decide(Expr e) {
    for (const Expr symbol : symbols_of(e)) decisive_.insert(symbol);
  }

  void see(const Stmt& stmt, int node) {
    if (const auto* s = stmt.as<Loop>()) return see(*s, node);
    if (const auto* s = stmt.as<If>()) return see(*s, node);
    if (const auto* s = stmt.as<Store>()) count(s->value);
    if (const auto* s = stmt.as<LetValue>()) lets_[s->let] = count(s->value);
    if (const auto* s = stmt.as<LetIndex>()) indices_[s->symbol] = count(s->value);
  }

  void see(const Loop& s, int node) {
    decide(s.begin);
    decide(s.end);
    const bool steps = s.kind == LoopKind::serial || s.kind == LoopKind::parallel;
    Open open{next_++, &s, -1, 1};
    if (steps) {
      open.node = new_node(node);
      nodes_[size_t(open.node)].loop = &s;
      nodes_[size_t(open.node)].barrier = holds_barrier(s.body);
      nodes_[size_t(open.node)].nested = holds_distributed(s.body);
    } else if (const auto trips = evaluate(s.end - s.begin, bound_))
      open.trips = double(*trips);
    open_.push_back(open);
    see(s.body, steps ? open.node : node);
    open_.pop_back();
  }

  void see(const If& s, int node) {
    decide(s.condition);
    for (const bool otherwise : {false, true}) {
      const Body& body = otherwise ? s.otherwise : s.then;
      if (body.empty()) continue;
      const int branch = new_node(node);
      nodes_[size_t(branch)].condition = s.condition;
      nodes_[size_t(branch)].otherwise = otherwise;
      nodes_[size_t(branch)].barrier = holds_barrier(body);
      open_.push_back({next_++, nullptr, branch, 1});
      see(body, branch);
      open_.pop_back();
    }
  }

  int new_node(int parent) {
    nodes_.emplace_back();
    const int number = int(nodes_.size()) - 1;
    nodes_[size_t(parent)].kids.push_back(number);
    return number;
  }

  static bool holds_barrier(const Body& body) {
    return std::ranges::any_of(body, [](const auto& s) {
      if (const auto* barrier = s->template as<Barrier>()) return barrier->level == 0;
      return std::ranges::any_of(bodies_of(*s), [](const Body* inside) { return holds_barrier(*inside); });
    });
  }

  static bool is_distributed(const Loop& s) { return s.kind == LoopKind::parallel && s.level == 0; }
  static bool holds_distributed(const Body& body) {
    return std::ranges::any_of(body, [](const auto& s) {
      return kernel::is_distributed(*s) || std::ranges::any_of(bodies_of(*s), [](const Body* inside) {
               return holds_distributed(*inside);
             });
    });
  }

  const std::set<kernel::BufferId>& written_in(const Loop& loop) {
    const auto [found, fresh] = written_.try_emplace(&loop);
    if (fresh) gather(loop.body, found->second);
    return found->second;
  }
  static void gather(const Body& body, std::set<kernel::BufferId>& buffers) {
    for (const auto& s : body) {
      if (const auto written = written_by(*s)) buffers.insert(*written);
      for (const Body* inside : bodies_of(*s)) gather(*inside, buffers);
    }
  }

  // ---- values ----

  Dependence of(Expr e) const {
    Dependence d;
    for (const Expr symbol : symbols_of(e)) {
      if (const auto found = indices_.find(symbol); found != indices_.end()) d.add(found->second);
      for (const Open& open : open_)
        if (open.loop && open.loop->variable == symbol) d.all.insert(open.number);
    }
    return d;
  }

  /// Counts the value and what it is made of, each where it has to be executed; what it changes
  /// with.
  Dependence count(const kernel::ValueRef& value) {
    memo_.clear();
    return counted(*value);
  }
  Dependence counted(const Value& v) { // a value may stand in several places
    if (const auto found = memo_.find(&v); found != memo_.end()) return found->second;
    return memo_[&v] = count_once(v);
  }
  Dependence count_once(const Value& v) {
    Dependence d;
    if (v.is<Constant>()) return d;
    if (const auto* named = v.as<kernel::Let>()) {
      if (const auto found = lets_.find(named->number); found != lets_.end()) d = found->second;
      return d;
    }
    if (const auto* index = v.as<Index>()) return of(index->value);
    if (const auto* load = v.as<Load>()) return count_load(v, *load);
    for (const auto& arg : args_of(v)) d.add(counted(*arg));
    if ((v.is<Apply>() || v.is<ApplyUser>()) && first(v)) charge(cost_of(v) * executed(d), d);
    return d;
  }
  Dependence count_load(const Value& v, const Load& load) {
    Dependence d = of(load.offset);
    d.add(of(load.guard));
    for (const Open& open : open_)
      if (open.loop && written_in(*open.loop).contains(load.buffer)) {
        d.all.insert(open.number);
        d.written.insert(open.number);
      }
    const auto& buffer = kernel_.buffers[load.buffer];
    if (buffer.space == kernel::Space::registers || !load.guard.is_constant(1) || !first(v)) return d;
    Cost cost{};
    cost[loaded] = double(bits(v.dtype)) / 8 * distinct(load.offset, d);
    charge(cost, d);
    return d;
  }

  /// False: an equal value was counted in the same loop.
  bool first(const Value& v) {
    int loop = 0;
    for (const Open& open : open_)
      if (open.node >= 0) loop = open.node;
    return seen_.insert({loop, hash(v)}).second;
  }
  uint64_t hash(const Value& v) {
    const auto [found, fresh] = hashes_.try_emplace(&v, 0);
    if (!fresh) return found->second;
    Hasher h;
    h.add(v.kind.index()).add(int(v.dtype));
    visit(
        v, [&](const Constant& x) { h.add(std::bit_cast<uint64_t>(x.value)); },
        [&](const Load& x) { h.add(x.buffer.number()).add(x.offset.hash()).add(x.guard.hash()); },
        [&](const Index& x) { h.add(x.value.hash()); },
        [&](const kernel::Let& x) { h.add(x.number.number()); }, [&](const Apply& x) { h.add(int(x.op)); },
        [&](const ApplyUser& x) { h.add(x.name); }, [](const kernel::Cast&) {}, [](const kernel::Bitcast&) {},
        [&](const kernel::ReduceLanes& x) { h.add(int(x.op)).add(int(x.form)); });
    for (const auto& arg : args_of(v)) h.add(hash(*arg));
    return hashes_[&v] = h.value64();
  }

  Cost cost_of(const Value& v) const {
    Cost cost{};
    if (const auto* user = v.as<ApplyUser>()) {
      const kernel::Unit* unit = kernel::find_lane_unit(user->name);
      if (unit && unit->a.dtype == DType::bf16) cost[bf16_dots] = 1;
      if (unit && bits(unit->a.dtype) == 8) cost[int8_dots] = 1;
      return cost;
    }
    if (v.dtype != DType::f32 && v.dtype != DType::f64) return cost;
    const double width = v.dtype == DType::f64 ? 2 : 1;
    // With a factor or a summand that is known it may become another instruction, or nothing.
    const auto with_constant = [&] {
      return std::ranges::any_of(args_of(v), [](const auto& a) { return a->template is<Constant>(); });
    };
    const Op op = v.as<Apply>()->op;
    switch (row(op).op_class) {
    case OpClass::simple: break;
    case OpClass::sum:
      if (!with_constant()) cost[arithmetic] = width;
      break;
    case OpClass::product:
      if (op == Op::fma || !with_constant()) cost[multiplies] = width;
      break;
    case OpClass::quotient:
    case OpClass::quotient_root: cost[multiplies] = width; break;
    case OpClass::function:
    case OpClass::wide_function: cost[multiplies] = 4 * width; break; // the least polynomial
    }
    cost[arithmetic] += cost[multiplies];
    return cost;
  }

  bool in(const Open& open, const std::set<int>& loops) const { return loops.contains(open.number); }

  /// Elements of one execution of an operation: lanes, and the bodies of unrolled loops that cannot
  /// share it. A scalar takes a part of a vector unit.
  double executed(const Dependence& d) const {
    double lanes = std::max(1.0, double(kernel_.lanes) / 4), bodies = 1, most = 1;
    for (const Open& open : open_) {
      if (!open.loop || open.node >= 0 || !in(open, d.all)) continue;
      if (open.loop->kind == LoopKind::vector)
        lanes = std::max(lanes, open.trips);
      else if (in(open, d.written))
        bodies *= open.trips;
      else
        most = std::max(most, open.trips);
    }
    return lanes * std::max(bodies, most);
  }

  /// Different elements that are certainly read.
  double distinct(Expr offset, const Dependence& d) const {
    double lanes = 1, bodies = 1;
    int64_t stride = 0;
    for (const Open& open : open_)
      if (open.loop && open.loop->kind == LoopKind::vector && in(open, d.all)) {
        const auto c = coefficient_of(offset, open.loop->variable);
        if (!c || !c->is_constant() || c->value() == 0) return 1;
        lanes = open.trips;
        stride = std::abs(c->value());
      }
    for (const Open& open : open_) {
      if (!open.loop || open.node >= 0 || open.loop->kind == LoopKind::vector || !in(open, d.all)) continue;
      const auto c = coefficient_of(offset, open.loop->variable);
      if (!c || !c->is_constant() || c->value() == 0) continue;
      const auto step = double(std::abs(c->value()));
      if (stride == 0 || step >= lanes * double(stride) || double(stride) >= open.trips * step)
        bodies = std::max(bodies, open.trips);
    }
    return lanes * bodies;
  }

  /// Once in each trip of the innermost loop that it changes with: further in it can be hoisted,
  /// out of a condition perhaps as well.
  void charge(const Cost& cost, const Dependence& d) {
    int at = 0;
    size_t from = 0;
    for (size_t i = 0; i < open_.size(); i++)
      if (open_[i].loop && open_[i].node >= 0 && in(open_[i], d.all)) {
        at = open_[i].node;
        from = i + 1;
      }
    bool steps = false;
    for (size_t i = from; i < open_.size(); i++) {
      if (open_[i].node < 0) continue;
      if (open_[i].loop)
        steps = true;
      else if (steps)
        return;
      else
        at = open_[i].node;
    }
    nodes_[size_t(at)].own = nodes_[size_t(at)].own + cost;
  }

  // ---- how often ----

  /// Values of the loop's variable; nothing where they are not known.
  std::optional<std::pair<int64_t, int64_t>> range(const Loop& loop) const {
    const auto begin = evaluate(loop.begin, bound_), end = evaluate(loop.end, bound_);
    if (!begin || !end) return {};
    return std::pair{*begin, std::max(*begin, *end)};
  }

  /// 1 or 0 for a branch that is taken or not, or cannot be told.
  bool taken(const LoopNode& node) const {
    const auto holds = evaluate(node.condition, bound_);
    return holds && (*holds != 0) != node.otherwise;
  }

  /// `each` for every trip: once with a factor, or trip by trip where the variable matters.
  template <class Each> void trips(const LoopNode& node, Each&& each) {
    const auto values = range(*node.loop);
    if (!values) return;
    if (!node.watched) {
      if (values->second > values->first) each(double(values->second - values->first));
      return;
    }
    for (int64_t i = values->first; i < values->second && visits_ <= most_visits; i++) {
      bound_[node.loop->variable] = i;
      each(1.0);
    }
    bound_.erase(node.loop->variable);
  }

  /// Of all workers. Outside of parallel loops every worker does everything.
  Cost total(int number, bool distributed) {
    const LoopNode& node = nodes_[size_t(number)];
    Cost cost{};
    if (++visits_ > most_visits) return cost;
    if (!node.loop) {
      if (!taken(node)) return cost;
      cost = node.own * (distributed ? 1 : threads_);
      for (const int kid : node.kids) cost = cost + total(kid, distributed);
      return cost;
    }
    const bool inside = distributed || is_distributed(*node.loop);
    trips(node, [&](double times) {
      Cost once = node.own * (inside ? 1 : threads_);
      for (const int kid : node.kids) once = once + total(kid, inside);
      cost = cost + once * times;
    });
    return cost;
  }

  /// Of the longest chain that one worker, or workers that wait for each other, go through.
  Cost critical(int number) {
    const LoopNode& node = nodes_[size_t(number)];
    Cost longest{};
    if (++visits_ > most_visits || (!node.loop && !taken(node))) return longest;
    if (!node.loop) return critical_body(node);
    const bool parallel = is_distributed(*node.loop);
    double count = 0;
    Cost sum{};
    trips(node, [&](double times) {
      count += times;
      const Cost once = parallel && !node.nested ? node.own + inner(node) : critical_body(node);
      longest = larger(longest, once);
      sum = sum + once * times;
    });
    // One after the other; distributed, somebody gets the rounded-up share, of the cheapest ones at
    // least.
    if (!parallel) return node.barrier ? sum : larger(longest, Cost{});
    if (node.watched || node.nested || count == 0) return longest;
    return longest * std::ceil(count / threads_);
  }
  Cost critical_body(const LoopNode& node) {
    Cost cost = node.own;
    Cost longest{};
    for (const int kid : node.kids) {
      const Cost once = critical(kid);
      longest = larger(longest, once);
    }
    return cost + longest;
  }
  Cost inner(const LoopNode& node) {
    Cost cost{};
    for (const int kid : node.kids) cost = cost + total(kid, true);
    return cost;
  }

  const Kernel& kernel_;
  int threads_;
  ExprMap<int64_t> bound_;
  std::vector<LoopNode> nodes_;
  std::vector<Open> open_;
  int next_ = 0;
  int64_t visits_ = 0;
  std::set<Expr, decltype([](Expr a, Expr b) { return a.id() < b.id(); })> decisive_;
  ExprMap<Dependence> indices_;
  std::map<kernel::LetId, Dependence> lets_;
  std::map<const Value*, Dependence> memo_; // of one statement
  std::map<const Value*, uint64_t> hashes_;
  std::map<const Loop*, std::set<kernel::BufferId>> written_;
  std::set<std::pair<int, uint64_t>> seen_;
};

} // namespace

std::optional<LeastWork> least_work(const Kernel& kernel, const std::map<std::string, int64_t>& sizes,
                                    int threads) {
  const auto cost = Counter(kernel, sizes, threads).run();
  if (!cost) return {};
  LeastWork work;
  work.multiplies = (*cost)[multiplies];
  work.arithmetic = (*cost)[arithmetic];
  work.bf16_dots = (*cost)[bf16_dots];
  work.int8_dots = (*cost)[int8_dots];
  work.loaded = (*cost)[loaded];
  ExprMap<int64_t> bound;
  for (const Expr symbol : kernel.symbols)
    if (const auto found = sizes.find(std::string(symbol.name())); found != sizes.end())
      bound[symbol] = found->second;
  if (const auto shared = evaluate(codegen::scratch_bytes(kernel).shared, bound))
    work.packed = double(*shared);
  return work;
}

namespace {

/// Elements (bytes) a second of one worker.
struct Rates {
  double multiplies, arithmetic, bf16_dots, int8_dots, loaded;
};
Rates rates_of(const MachineProfile& p) {
  const auto peak = [&](double one, double all) { return std::max(one, all / p.threads) * 1e9; };
  const Bandwidth& l1 = p.l1_1;
  Rates rates;
  rates.multiplies = peak(p.fma_f32_1, p.fma_f32) / 2;
  rates.arithmetic = 2 * rates.multiplies; // sums may have units of their own
  rates.bf16_dots = peak(p.bf16_dot_1, p.bf16_dot) / 4;
  rates.int8_dots = peak(p.int8_dot_1, p.int8_dot) / 8;
  rates.loaded = std::max({l1.read, l1.copy, l1.triad}) * 1e9;
  return rates;
}
double over(double work, double rate) { return rate > 0 ? work / rate : 0; }

} // namespace

double least_seconds(const LeastWork& work, const MachineProfile& profile) {
  if (profile.guessed) return 0;
  const Rates rates = rates_of(profile);
  const double beyond = std::max(0.0, work.packed - double(profile.l3) -
                                          double(profile.l2) * profile.threads); // written, and read again
  const double memory =
      std::max({profile.memory.read, profile.memory.write, profile.memory.copy, profile.memory.triad,
                profile.memory_1.read * profile.threads, profile.memory_1.copy * profile.threads}) *
      1e9;
  return std::max({over(work.multiplies, rates.multiplies), over(work.arithmetic, rates.arithmetic),
                   over(work.bf16_dots, rates.bf16_dots), over(work.int8_dots, rates.int8_dots),
                   over(work.loaded, rates.loaded), over(2 * beyond, memory)});
}

double weight(const LeastWork& work, const MachineProfile& profile) {
  Rates rates = rates_of(profile);
  if (!(rates.multiplies > 0)) rates.multiplies = 3e10;
  if (!(rates.loaded > 0)) rates.loaded = 1e11;
  return work.multiplies / rates.multiplies + over(work.bf16_dots, rates.bf16_dots) +
         over(work.int8_dots, rates.int8_dots) + work.loaded / rates.loaded;
}

} // namespace luminal::search
