// tests/ir/random_module.h -- random modules as programs are, and worse: every type, operation and
// kind of node, extents 0 to 300, NaN and infinities, weights, states and their updates, dimensions
// at their ends and what is assumed of them, holes of every policy, tuples of which nobody reads
// some components, loops in loops, conditions, calls, effects. Include as "ir/random_module.h".
//
//   RandomModule g(seed);  g.module: verified;  g.bindings(0), g.bindings(1): inputs, and two sizes
//                          of the dimensions.
// The same seed gives the same module on every machine. random_builder.h has the means,
// random_values.h, random_folds.h and random_statistics.h most operations; shrink.h makes modules small.
#pragma once
#include "ir/random_statistics.h"
#include <mutex>
#include <optional>

namespace luminal::testing_ir {

/// A function of the program, for host nodes: the elements in the opposite order.
inline void register_transposed() {
  static std::once_flag once;
  std::call_once(once, [] {
    register_host_function("random_module_transposed",
                           [](const std::string&, std::span<const HostTensor> in) {
                             HostTensor out = in[0];
                             for (int64_t i = 0; i < out.count(); ++i)
                               copy_element(in[0], i, out, out.count() - 1 - i);
                             return std::vector<HostTensor>{out};
                           });
  });
}

class RandomModule : public RandomStatistics {
public:
  explicit RandomModule(uint64_t seed_, const RandomModuleOptions& options = {})
      : RandomStatistics(seed_, options) {
    make();
  }
  /// Every input and dimension.
  Bindings bindings(int which = 0) const {
    Bindings b;
    b.symbols = sizes_[which];
    b.print = [](const std::string&) {};
    for (size_t k = 0; k < inputs_.size(); ++k)
      b.inputs[inputs_[k].name] = inputs_[k].data(b.symbols, seed * 977 + k);
    return b;
  }

private:
  // ---- functions ----
  struct Callee {
    std::string name;
    std::vector<TensorType> results;
  };
  /// A function of these parameters; results of the wanted types, and perhaps one more.
  Callee function(const std::vector<TensorType>& params, const std::vector<TensorType>& wanted, bool more) {
    return function(params, [&] {
      std::vector<NodeId> list;
      for (const TensorType& t : wanted) list.push_back(fitting(t));
      if (more) list.push_back(pick());
      return list;
    });
  }
  template <class F> Callee function(const std::vector<TensorType>& params, F results) {
    const auto id = std::to_string(functions_++);
    Callee made{"f" + id, {}};
    FunctionBuilder inner(made.name, &module);
    Building building{&inner, false, {}}, *outer = std::exchange(at_, &building);
    ++depth_;
    for (size_t k = 0; k < params.size(); ++k) add(inner.input("p" + std::to_string(k), params[k]));
    for (int k = 1 + below(3); k > 0; --k) operation(false);
    for (NodeId value : results()) {
      inner.result("r" + std::to_string(made.results.size()), value);
      made.results.push_back(type(value));
    }
    --depth_;
    at_ = outer;
    module.functions.push_back(inner.finish());
    return made;
  }
  void structure() {
    if (module.functions.size() > 20) return;
    const NodeId x = pick(), y = pick();
    const TensorType tx = type(x), ty = type(y);
    switch (below(4)) {
    case 0: {
      const Callee f = function({tx, ty}, {}, true);
      add(b().get(b().add(CallAttr{f.name}, {x, y}), 0));
      if (chance(30)) add(b().get(b().add(CallAttr{f.name}, {fitting(tx), y}), 0));
      return;
    }
    case 1: {
      const Callee f = function({tx, ty}, {}, true), g = function({tx, ty}, f.results, false);
      const NodeId p = chance(50) ? fitting({DType::boolean, {}}) : below_a_number(x);
      add(b().get(b().add(CondAttr{f.name, g.name}, {p, x, y}), 0));
      return;
    }
    default: loop(x, y);
    }
  }
  /// Carried x, rows of a stepped value, y given. A condition may end it before its count.
  void loop(NodeId x, NodeId y) {
    const TensorType tx = type(x), ty = type(y);
    const Expr steps = chance(20)                              ? Expr(0)
                       : chance(30) && !module.symbols.empty() ? one_of(module.symbols)
                                                               : Expr(1 + below(4));
    const int64_t times = std::max<int64_t>(1, now(steps));
    if (times > 12) return;
    Shape rows{steps};
    for (int k = below(2); k > 0; --k) rows.push_back(2 + below(6));
    const NodeId stepped = fitting({dtype(), rows});
    const RandomModuleOptions outside = options_; // what runs often is small
    options_.most_points /= times, options_.most = std::max<int64_t>(300, options_.most / times);
    const Callee body = function(
        {{DType::i64, {}}, tx, {type(stepped).dtype, Shape(rows.begin() + 1, rows.end())}, ty}, {tx}, true);
    LoopAttr loop{.body = body.name, .condition = "", .count = steps, .carried = 1, .stepped = 1};
    if (chance(40))
      loop.condition =
          chance(60)
              ? function({tx, ty}, [&] { return std::vector<NodeId>{below_a_number(at_->values[0])}; }).name
              : function({tx, ty}, {{DType::boolean, {}}}, false).name;
    options_ = outside;
    Shape stacked = body.results[1].shape;
    stacked.insert(stacked.begin(), steps);
    if (fits(stacked)) read(b().add(loop, {x, stepped, y}), loop.condition.empty() ? 2 : 3);
  }
  /// Is every element below a number?
  NodeId below_a_number(NodeId x) {
    const size_t rank = type(x).shape.size();
    std::vector<int> all;
    for (size_t d = 0; d < rank; ++d) all.push_back(int(d));
    if (count(type(x).shape) > options_.most_points) return filled({DType::boolean, {}});
    if (type(x).dtype == DType::boolean) return rank ? b().reduce(Op::bit_or, x, all) : x;
    if (rank) x = b().reduce(Op::max, x, all);
    return b().map(Op::lt, {x, b().constant(type(x).dtype, double(below(12)))});
  }
  /// What programs do besides computing: the value goes on.
  void effect() {
    const NodeId x = pick();
    const char* kind = one_of(std::vector<const char*>{"print", "diff", "random_module_transposed"});
    HostAttr host{kind, "an effect", {}};
    std::vector<NodeId> inputs{x};
    if (std::string(kind) == "diff") inputs.push_back(fitting(type(x)));
    if (std::string(kind) == "random_module_transposed") host.results = {type(x)};
    add(b().get(b().add(host, inputs), 0));
  }
  void fence() {
    std::vector<NodeId> inputs{pick()};
    while (chance(30)) inputs.push_back(pick());
    add(b().add(FenceAttr{}, inputs));
  }
  void alone() { // a group of one member
    const NodeId x = pick();
    CollectiveAttr collective{one_of(std::vector<std::string>{"all_reduce_sum", "all_reduce_max", "broadcast",
                                                              "all_gather", "reduce_scatter_sum"}),
                              "g:1", 0};
    if (!type(x).shape.empty()) add(b().add(collective, {x}));
  }

  void operation(bool entry) {
    const int kind = below(100);
    if (kind < 19) return map();
    if (kind < 37) return movement();
    if (kind < 47) return fold();
    if (kind < 54) return statistics();
    if (kind < 58) return matmul();
    if (kind < 63) return leaf();
    if (kind < 68) return cast();
    if (kind < 71) return bitcast();
    if (kind < 78) return gather();
    if (kind < 83) return scatter();
    if (kind < 87) return sort();
    if (kind < 92) return scan();
    if (kind < 94) return fence();
    if (kind < 95) return entry ? effect() : alone();
    if (options_.structure && (entry || (depth_ < 3 && chance(40)))) return structure();
  }

  // ---- the module ----
  void dimensions() {
    const std::pair<Expr, bool> symbols[] = {{Expr::symbol("n", {1, 40}), chance(50)},
                                             {Expr::symbol("m", {0, 9}), chance(40)},
                                             {Expr::symbol("z", {2, 200}), chance(25)}};
    for (const auto& [s, used] : symbols) {
      if (!used) continue;
      module.symbols.push_back(s);
      const int64_t low = s.range().low, high = s.range().high;
      for (auto& sizes : sizes_)
        sizes[std::string(s.name())] =
            one_of(std::vector<int64_t>{low, std::max<int64_t>(low, 1), high,
                                        low + below(int(high - low + 1)), low + below(int(high - low + 1))});
    }
    std::ranges::sort(module.symbols, {}, [](Expr e) { return std::string(e.name()); });
    if (module.symbols.empty() || chance(60)) return;
    const Expr a = one_of(module.symbols), b = one_of(module.symbols);
    for (Expr fact :
         {le(a, b), lt(a, b), le(a + b, 60), eq(mod(a, 2), 0), ne(a, 3), le(a * 3, b + 70), ge(a, 2)})
      if (!fact.is_constant() && chance(50) && extent_of(fact, sizes_[0]) && extent_of(fact, sizes_[1]))
        module.assumptions.push_back(fact);
  }
  struct State {
    NodeId id;
    std::string name;
  };
  void states() {
    if (!options_.structure || chance(60)) return;
    for (int k = 1 + below(2); k > 0; --k) {
      const TensorType t =
          chance(50) ? TensorType{dtype(), shape()} : TensorType{DType::f32, {1 + below(40), 4}};
      states_.push_back({add(input(t, style(t.dtype), 0, 0, Role::state)), inputs_.back().name});
    }
  }
  /// What a state becomes: rows written at a place, another value, the other state, itself.
  NodeId update(const State& state) {
    const TensorType t = type(state.id);
    if (chance(55) && !t.shape.empty() && std::ranges::all_of(t.shape, nonempty))
      return scatter_into(state.id);
    if (chance(15)) return state.id;
    if (chance(20) && type(states_[0].id) == t) return states_[0].id;
    return fitting(t);
  }
  void make() {
    register_transposed();
    module.functions.reserve(64);
    dimensions();
    weights_ = one_of(std::vector<int>{0, 30, 80, 80, 100});
    FunctionBuilder builder("main", &module);
    Building building{&builder, true, {}};
    at_ = &building;
    for (int k = 0; k < 3; ++k) {
      const TensorType t{dtype(), shape()};
      add(input(t, style(t.dtype)));
    }
    states();
    for (int k = 0; k < options_.nodes; ++k) operation(true);
    std::vector<NodeId> updates;
    for (const State& s : states_) updates.push_back(update(s));
    const auto& values = building.values;
    std::vector<NodeId> kept;
    for (int k = 0; k < 4; ++k) {
      NodeId id = k < 2 ? values[values.size() - 1 - size_t(k)] : one_of(values);
      if (std::ranges::count(kept, id) || (k > 1 && chance(50))) continue;
      builder.result("r" + std::to_string(kept.size()), id);
      kept.push_back(id);
    }
    for (size_t k = 0; k < updates.size(); ++k)
      if (chance(85))
        builder.result("s" + std::to_string(k), updates[k], states_[k].name,
                       chance(30) ? std::vector<std::string>{"r0"} : std::vector<std::string>{});
    module.functions.push_back(builder.finish());
  }

  std::vector<State> states_;
  int functions_ = 0, depth_ = 0;
};

} // namespace luminal::testing_ir
