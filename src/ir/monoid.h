// ir/monoid.h -- what a fold computes: interned ground data, never a closed list.
//   component i = (op_i, T_i);  combine: c_i = op_i( T_i(a -> c), T_i(b -> c) ), in order of i
// T_i moves a partial result from the frame of its partial state into that of the combined one. It
// is a scalar program over
//   self = a_i,  old<j> = a_j,  new<j> = c_j  (j < i).
// T must be a homomorphism of op_i (T(x op y) = T(x) op T(y)) that composes (T(r -> r') then T(r'
// -> r'') is T(r -> r'')); this makes combine associative, lets a body be a state, and lets a tile
// return to plain folds, one component after the other.
//   sum              sum(self)
//   exponentials     max(self), sum(select(old0 == -inf, 0, self * exp2(old0 - new0)))
//   Welford          sum(self), sum(self * old0 / new0), sum(self + (new1 - old1) * (new1 - old1) *
//                    old0)     bodies 1, x, 0
//   arg-max          max(self), min(select(old0 == new0, self, inf))
//   two largest      max(self), max(max(self, select(old0 < new0, old0, -inf)))
#pragma once
#include "ir/scalar.h"
#include <optional>

namespace luminal {

struct MonoidComponent {
  Op op;            // an associative and commutative row: add, mul, max, min, bit_or, bit_and
  DType dtype;      // accumulation type: of the component's state and of its body
  Scalar transform; // leaves: 0 = self, 1 + 2j = old<j>, 2 + 2j = new<j>
  bool operator==(const MonoidComponent&) const = default;
};

/// An interned list of components: equal lists have equal ids.
class Monoid {
public:
  static Monoid intern(std::vector<MonoidComponent> components);
  static Monoid plain(Op op, DType dtype); // one component, transform = self
  const std::vector<MonoidComponent>& components() const;
  int size() const { return int(components().size()); }
  /// The earlier components that component i reads, directly or through them; ascending.
  std::vector<int> dependencies(int i) const;
  /// combine(identity, a) == a.  For add 0, mul 1, max -inf or the least integer, min +inf or the
  ///                             greatest, bit_or 0, bit_and all ones.
  double identity(int i) const;
  int64_t identity_integer(
      int i) const; // of a component of integer type or bool, as a 64-bit integer (u64: the bit pattern)
  uint32_t id() const { return id_; }
  friend bool operator==(Monoid, Monoid) = default;

private:
  uint32_t id_ = 0;
};

std::vector<std::string> monoid_leaf_names(int component); // {"self", "old0", "new0", ...}
/// Tests the laws of a monoid in exact arithmetic (fields with a formal exp2 for floats, wrapping
/// integers) on random states made of elements: the identity is neutral on both sides, combine is
/// associative and commutative, and transforms leave a state alone that does not move. `fixed[i]`,
/// where given, is the value that every element has in component i (the body is a constant: 1 for a
/// count, -inf for the second place of a sorted list). Returns a counterexample as text, or
/// nothing.
std::optional<std::string> check_monoid_laws(const Monoid& monoid, int samples = 32,
                                             std::span<const std::optional<double>> fixed = {},
                                             uint64_t seed = 1);
/// "max(self), sum(self * exp2(old0 - new0)) : f32, f32"; the op's words are sum prod max min any
/// all.
std::string to_string(const Monoid& monoid);

} // namespace luminal
