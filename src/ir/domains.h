// ir/domains.h -- the four ways to compute with values: a representation, loads, operations and
// casts for each mode of the interpreter. A Value knows nothing of its type; every function is
// told. Integers and bool are exact in `i` in every mode (u64: the bit pattern).
#pragma once
#include "ir/exact.h"
#include "ir/identity.h"
#include "ir/interp.h"
#include "ir/scalar.h"
#include <utility>

namespace luminal {

/// Rounded: every result is rounded to its type. Else floats are doubles throughout.
template <bool Rounded> struct FloatDomain {
  union Value {
    double f;
    int64_t i = 0;
  };
  static Value from_f64(DType type, double value);
  static Value from_i64(int64_t value) { return {.i = value}; }
  static Value load(DType type, const std::byte* data, int64_t index);
  static void apply(Op op, DType type, size_t n, Value* out, const Value* const* args);
  static void apply(const UserOp& op, DType type, size_t n, Value* out, const Value* const* args);
  static Value cast(DType from, DType to, Value x);
  static double f64(DType type, Value x) { return is_float(type) ? x.f : integer_to_f64(type, x.i); }
  static bool uncertain(Value) { return false; }
  static InterpValue result(DType type, Value x);
};
using RoundedDomain = FloatDomain<true>;
using F64Domain = FloatDomain<false>;

struct ExactDomain {
  struct Value {
    Exact x;       // floats
    int64_t i = 0; // integers and bool
  };
  static Value from_f64(DType type, double value);
  static Value from_i64(int64_t value) { return {{}, value}; }
  static Value load(DType type, const std::byte* data, int64_t index);
  static void apply(Op op, DType type, size_t n, Value* out, const Value* const* args);
  static void apply(const UserOp& op, DType type, size_t n, Value* out, const Value* const* args);
  static Value cast(DType from, DType to, const Value& x);
  static double f64(DType type, const Value& x) {
    return is_float(type) ? x.x.shadow : integer_to_f64(type, x.i);
  }
  static bool uncertain(const Value&) { return false; }
  static InterpValue result(DType type, const Value& x);
};

struct BoundedDomain {
  struct Value {
    double f = 0;  // floats: computed in double
    double e = 0;  // |the rounded result - the value| <= e; integers and bool: 0 or how far it may be off
    int64_t i = 0; // floats: 1 for a NaN that infinities and zeros made
    double factors =
        0; // of an f32 product: what sums may lose of it, since a subnormal factor is a zero there
  };
  static Value from_f64(DType type, double value);
  static Value from_i64(int64_t value) { return {0, 0, value}; }
  static Value load(DType type, const std::byte* data, int64_t index);
  static void apply(Op op, DType type, size_t n, Value* out, const Value* const* args);
  static void apply(const UserOp& op, DType type, size_t n, Value* out, const Value* const* args);
  static Value cast(DType from, DType to, const Value& x);
  static double f64(DType type, const Value& x) { return is_float(type) ? x.f : integer_to_f64(type, x.i); }
  static bool uncertain(const Value& x) { return x.e != 0; }
  static InterpValue result(DType type, const Value& x);
};

/// One value of a typed scalar program; `scratch` holds at least steps.size() values.
template <class D>
typename D::Value run_scalar(const TypedScalar& program, const typename D::Value* leaves,
                             typename D::Value* scratch) {
  for (size_t s = 0; s < program.steps.size(); ++s) {
    const TypedScalar::Step& step = program.steps[s];
    switch (step.kind) {
    case ScalarNode::Kind::constant:
      scratch[s] = is_float(step.result) ? D::from_f64(step.result, step.value) : D::from_i64(step.integer);
      break;
    case ScalarNode::Kind::leaf: scratch[s] = leaves[step.leaf]; break;
    case ScalarNode::Kind::cast: scratch[s] = D::cast(step.type, step.result, scratch[step.args[0]]); break;
    case ScalarNode::Kind::op: {
      const typename D::Value* args[3] = {};
      for (int k = 0; k < row(step.op).arity; ++k) args[k] = &scratch[step.args[k]];
      typename D::Value out;
      D::apply(step.op, step.type, 1, &out, args);
      scratch[s] = out;
      break;
    }
    }
  }
  return scratch[program.steps.size() - 1];
}

/// The monoid of some components, ascending, with all that they read: their references renumbered.
Monoid part_of(const Monoid& whole, const std::vector<int>& components);

/// A monoid ready to run: types and programs of its components.
struct TypedMonoid {
  struct Component {
    Op op;
    DType dtype;
    bool plain; // the transform is self
    TypedScalar transform;
  };
  std::vector<Component> components;
  size_t scratch = 0; // values that run_scalar needs
  explicit TypedMonoid(const Monoid& monoid);
};

/// state = combine(state, element), component by component. `work` holds at least 1 + 2 *
/// components + scratch values more than the two states.
template <class D>
void combine(const TypedMonoid& monoid, typename D::Value* state, const typename D::Value* element,
             typename D::Value* work) {
  using Value = typename D::Value;
  const size_t n = monoid.components.size();
  Value* combined = work;             // n
  Value* frame = combined + n;        // 1 + 2 (n - 1)
  Value* scratch = frame + 2 * n + 1; // programs
  for (size_t c = 0; c < n; ++c) {
    const TypedMonoid::Component& component = monoid.components[c];
    Value moved[2] = {state[c], element[c]};
    if (!component.plain)
      for (int side = 0; side < 2; ++side) {
        const Value* old = side == 0 ? state : element;
        frame[0] = old[c];
        for (size_t j = 0; j < c; ++j) frame[1 + 2 * j] = old[j], frame[2 + 2 * j] = combined[j];
        moved[side] = run_scalar<D>(component.transform, frame, scratch);
      }
    if constexpr (requires(Value v) { v.factors; })
      if (component.op == Op::add)
        for (Value& v : moved) v.e += std::exchange(v.factors, 0);
    const Value* args[2] = {&moved[0], &moved[1]};
    D::apply(component.op, component.dtype, 1, &combined[c], args);
  }
  for (size_t c = 0; c < n; ++c) state[c] = combined[c];
}
template <class D> size_t combine_work(const TypedMonoid& monoid) {
  return 3 * monoid.components.size() + 1 + monoid.scratch;
}
template <class D> typename D::Value identity_value(Op op, DType type) {
  return is_float(type) ? D::from_f64(type, identity_f64(op, type)) : D::from_i64(identity_i64(op, type));
}

} // namespace luminal
