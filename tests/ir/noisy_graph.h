// tests/ir/noisy_graph.h -- random modules with what passes look for: operations that change
// nothing, chains of views, constants, folds of folds, equal functions; and inputs with NaN,
// infinities, zeros of both signs, subnormal and huge numbers.
#pragma once
#include "ir/random_graph.h"
#include <cmath>
#include <limits>
#include <numeric>

namespace luminal::testing_ir {

class NoisyGraph {
public:
  Module module;
  Bindings bindings;

  /// special: some elements of the float inputs are NaN, infinite, -0, ...
  NoisyGraph(uint64_t seed, const RandomGraphOptions& options, bool special) : state_(seed * 7919 + 13) {
    RandomGraph g(seed, options);
    bindings = g.bindings;
    module.symbols = g.module.symbols;
    module.assumptions = g.module.assumptions;
    module.functions.reserve(2 * g.module.functions.size() + 2);
    for (const Function& f : g.module.functions) {
      const bool entry = &f == &g.module.functions.back();
      module.functions.push_back(decorated(f, f.name));
      if (!entry && chance(60)) { // an equal function that some callers use
        Function twin = module.functions.back();
        twin.name += "_twin";
        twins_[f.name] = twin.name;
        module.functions.push_back(std::move(twin));
      }
    }
    if (special)
      for (auto& [name, tensor] : bindings.inputs)
        if (is_float(tensor.dtype))
          for (int64_t i = 0; i < tensor.count(); ++i)
            if (chance(20)) store_f64(tensor.dtype, tensor.data.data(), i, special_value(tensor.dtype));
  }

private:
  uint64_t next() {
    uint64_t x = (state_ += 0x9E3779B97F4A7C15u);
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
    return x ^ (x >> 31);
  }
  int below(int n) { return int(next() % uint64_t(n)); }
  bool chance(int percent) { return below(100) < percent; }
  double special_value(DType type) {
    const double values[] = {std::nan(""),
                             std::numeric_limits<double>::infinity(),
                             -std::numeric_limits<double>::infinity(),
                             -0.0,
                             -0.0,
                             -0.0,
                             largest(type),
                             least_subnormal(type)};
    return values[below(8)];
  }

  Function decorated(const Function& f, const std::string& name) {
    FunctionBuilder b(name, &module);
    b_ = &b;
    IdVector<NodeId, NodeId> place(f.nodes.size());
    for (NodeId id : f.nodes.ids()) {
      const Node& node = f[id];
      if (auto* input = std::get_if<InputAttr>(&node.attr)) {
        place[id] = b.input(input->name, input->type, input->role);
        continue;
      }
      std::vector<NodeId> inputs;
      for (NodeId input : node.inputs)
        inputs.push_back(node.kind == NodeKind::get || !chance(45) ? place[input] : noise(place[input]));
      Attr attr = node.attr;
      rename(attr);
      if (node.kind == NodeKind::map && inputs.size() == 2 && row(std::get<MapAttr>(attr).op).commutative &&
          chance(20)) { // both orders; the difference goes on
        const NodeId x = b.add(attr, inputs), y = b.add(attr, {inputs[1], inputs[0]});
        if (b[x].type().dtype != DType::boolean) {
          place[id] = b.map(chance(50) ? Op::min : Op::max, {x, y});
          continue;
        }
      }
      place[id] = b.add(attr, inputs, node.axis_names);
    }
    for (const FunctionResult& r : f.results) b.result(r.name, noise(place[r.value]), r.state, r.after);
    return b.finish();
  }
  void rename(Attr& attr) {
    auto change = [&](std::string& name) {
      if (auto at = twins_.find(name); at != twins_.end() && chance(50)) name = at->second;
    };
    if (auto* call = std::get_if<CallAttr>(&attr)) change(call->function);
    if (auto* loop = std::get_if<LoopAttr>(&attr)) change(loop->body);
  }

  const TensorType& type(NodeId id) const { return (*b_)[id].type(); }
  NodeId filled(const TensorType& t, double value) {
    const NodeId c = b_->constant(t.dtype, value);
    return t.shape.empty() ? c : b_->view(c, t.shape, {});
  }
  /// A number made of constants: 2 * 3 - 6 + value.
  NodeId computed(DType dtype, double value) {
    NodeId six = b_->map(Op::mul, {b_->constant(dtype, 2), b_->constant(dtype, 3)});
    return b_->map(Op::add, {b_->map(Op::sub, {six, b_->constant(dtype, 6)}), b_->constant(dtype, value)});
  }

  /// A value with the type of x and mostly its value.
  NodeId noise(NodeId x) {
    for (int n = 1 + below(2); n > 0; --n) {
      const NodeId y = chance(4) ? b_->add(FenceAttr{}, {x}) : chance(55) ? arithmetic(x) : movement(x);
      if (type(y) == type(x)) x = y;
    }
    return x;
  }
  NodeId arithmetic(NodeId x) {
    FunctionBuilder& b = *b_;
    const TensorType t = type(x);
    const bool real = is_float(t.dtype);
    if (t.dtype == DType::boolean) {
      switch (below(5)) {
      case 0: return b.map(Op::bit_not, {b.map(Op::bit_not, {x})});
      case 1: return b.map(Op::bit_and, {filled(t, 1), x});
      case 2: return b.map(Op::bit_xor, {x, filled(t, 0)});
      case 3: return b.map(Op::bit_not, {b.map(Op::ne, {x, filled(t, 1)})});
      default: return b.map(Op::select, {x, filled(t, 1), filled(t, 0)});
      }
    }
    switch (below(real ? 17 : 12)) {
    case 0: return b.map(Op::mul, {filled(t, 1), x});
    case 1: return b.map(Op::sub, {x, filled(t, 0)});
    case 2: return b.map(Op::add, {x, filled(t, chance(50) ? 0.0 : -0.0)});
    case 3: return b.map(Op::neg, {b.map(Op::neg, {x})});
    case 4: return b.map(Op::div, {x, filled(t, 1)});
    case 5: return b.map(Op::select, {filled({DType::boolean, t.shape}, below(2)), x, x});
    case 6: return b.map(chance(50) ? Op::min : Op::max, {x, x});
    case 7: return b.map(Op::sub, {x, b.map(Op::neg, {filled(t, 1)})});
    case 8: return b.map(Op::mul, {x, filled(t, -1)});
    case 9: { // computed from constants
      const NodeId c = computed(t.dtype, 1);
      return b.map(Op::mul, {x, t.shape.empty() ? c : b.view(c, t.shape, {})});
    }
    case 10:
      if (real) return b.cast(b.cast(x, DType::f64), t.dtype);
      return bits(t.dtype) < 64 ? b.cast(b.cast(x, DType::i64), t.dtype)
                                : b.map(Op::bit_or, {x, filled(t, 0)});
    case 11: {
      const NodeId eq = b.map(chance(50) ? Op::eq : Op::ne, {x, x});
      return b.map(Op::select, {b.map(Op::bit_not, {eq}), x, b.map(Op::abs, {b.map(Op::neg, {x})})});
    }
    case 12: return b.map(Op::min, {x, filled(t, std::numeric_limits<double>::infinity())});
    case 13: return b.map(Op::floor, {b.map(Op::round, {x})});
    case 14: return b.map(Op::div, {x, filled(t, chance(50) ? 4 : 0.125)});
    case 15: return b.map(Op::mul, {b.map(Op::neg, {x}), b.map(Op::neg, {filled(t, 0.5)})});
    default:
      return bits(t.dtype) == 32 ? b.bitcast(b.bitcast(x, DType::u32), t.dtype)
                                 : b.map(Op::pow, {x, filled(t, 1)});
    }
  }
  NodeId movement(NodeId x) {
    FunctionBuilder& b = *b_;
    const TensorType t = type(x);
    const int rank = int(t.shape.size());
    std::vector<int> all(t.shape.size());
    std::iota(all.begin(), all.end(), 0);
    switch (below(9)) {
    case 0: return b.reshape(b.reshape(x, {product(t.shape)}), t.shape);
    case 1: {
      if (rank < 2) return x;
      std::vector<int> order(all.rbegin(), all.rend());
      return b.permute(b.permute(x, order), order);
    }
    case 2: { // padded, and cut again
      if (rank == 0) return x;
      const int axis = below(rank);
      const Expr extent = t.shape[size_t(axis)];
      return b.slice(b.pad(x, axis, 2, 1, 0.5), axis, 2, extent);
    }
    case 3: { // two masks, of one fill or of two
      if (rank == 0) return x;
      const Expr i = axis_symbol(0, t.shape[0]);
      std::vector<Expr> axes;
      for (int d = 0; d < rank; ++d) axes.push_back(axis_symbol(d, t.shape[size_t(d)]));
      const NodeId one = b.view(x, t.shape, axes, le(i, 3), 2);
      return b.view(one, t.shape, axes, le(1, i), chance(50) ? 2 : 3);
    }
    case 4: { // a fold over an axis of extent 1, or one along which nothing varies
      if (rank > 3) return x;
      Shape wide = t.shape;
      const bool repeat = chance(50);
      wide.push_back(repeat ? Expr(3) : Expr(1));
      const NodeId y = b.expand(x, wide, all);
      if (t.dtype == DType::boolean) return b.reduce(repeat ? Op::bit_or : Op::bit_and, y, {rank});
      const Op op = repeat       ? (chance(50) ? Op::max : Op::min)
                    : chance(50) ? Op::add
                    : chance(50) ? Op::mul
                                 : Op::max;
      return b.reduce(op, y, {rank});
    }
    case 5: { // a fold of a fold
      if (rank > 2 || t.dtype == DType::boolean) return x;
      Shape wide = t.shape;
      wide.push_back(2), wide.push_back(3);
      NodeId y = b.expand(x, wide, all);
      y = b.map(Op::add, {y, b.view(b.iota({2, 3}, axis_symbol(0, 2) * 3 + axis_symbol(1, 3), t.dtype), wide,
                                    {axis_symbol(rank, 2), axis_symbol(rank + 1, 3)})});
      const Op op = chance(50) ? Op::max : Op::add;
      return b.reduce(op, b.reduce(op, y, {chance(50) ? rank : rank + 1}), {rank});
    }
    case 6: { // a fold of what lies in another order, with two axes joined
      if (rank < 2 || rank > 3 || t.dtype == DType::boolean) return x;
      std::vector<int> order(all.rbegin(), all.rend());
      const Shape shape(t.shape.rbegin(), t.shape.rend());
      Shape joined = shape;
      const int first = below(rank - 1);
      joined[size_t(first)] = shape[size_t(first)] * shape[size_t(first) + 1];
      joined.erase(joined.begin() + first + 1);
      NodeId y = b.reshape(b.permute(x, order), joined);
      joined.push_back(3);
      std::vector<int> places(joined.size() - 1);
      std::iota(places.begin(), places.end(), 0);
      y = b.map(Op::add, {b.expand(y, joined, places), b.view(b.iota({3}, axis_symbol(0, 3), t.dtype), joined,
                                                              {axis_symbol(rank - 1, 3)})});
      return b.permute(b.reshape(b.reduce(Op::max, y, {rank - 1}), shape), order);
    }
    case 7: { // a sum over axes that are joined, in two ways
      if (rank < 2 || is_float(t.dtype) || t.dtype == DType::boolean) return x;
      std::vector<int> order(all.rbegin(), all.rend());
      const NodeId joined = b.reshape(b.permute(x, order), {product(t.shape)});
      const NodeId zero = b.map(Op::sub, {b.reduce(Op::add, joined, {0}), b.reduce(Op::add, x, all)});
      return b.map(Op::add, {x, b.view(zero, t.shape, {})});
    }
    default: { // a sum of what does not vary
      if (rank > 3 || is_float(t.dtype) || t.dtype == DType::boolean) return x;
      Shape wide = t.shape;
      wide.push_back(3);
      const NodeId three = b.reduce(Op::add, b.expand(x, wide, all), {rank});
      return b.map(Op::sub, {three, b.map(Op::add, {x, x})});
    }
    }
  }

  uint64_t state_;
  FunctionBuilder* b_ = nullptr;
  std::map<std::string, std::string> twins_;
};

/// Equal dtype, shape and bits; a NaN equals a NaN.
inline std::string first_difference(const HostTensor& a, const HostTensor& b) {
  if (a.dtype != b.dtype || a.shape != b.shape) return "the types differ";
  for (int64_t i = 0; i < a.count(); ++i) {
    const double x = a.at(i), y = b.at(i);
    const bool equal =
        is_float(a.dtype) ? (std::isnan(x) && std::isnan(y)) || (x == y && std::signbit(x) == std::signbit(y))
                          : load_i64(a.dtype, a.data.data(), i) == load_i64(b.dtype, b.data.data(), i);
    if (!equal)
      return "element " + std::to_string(i) + ": " + std::to_string(x) + " and " + std::to_string(y);
  }
  return "";
}

} // namespace luminal::testing_ir
