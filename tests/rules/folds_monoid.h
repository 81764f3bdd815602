// rules/folds_monoid.h -- reductions over tuples as data, for the theory in folds/theory.egg:
// interned monoids, sets of axes, depths and characters, and the guards that look into them.
//
// Component i of a combined state is  c_i = op_i(T_i(a -> c), T_i(b -> c)); T_i moves a partial
//                                     result from the frame of the partial state to
// that of the combined one. The identity is that of the ops; a body is a state, and so is a partial
// result.
#pragma once
#include <compare>
#include <cstdint>
#include <deque>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace luminal::egraph::folds {

inline constexpr double infinity = std::numeric_limits<double>::infinity();

/// Numbers equal values: the first one 0, and so on.
template <class T> class Interner {
public:
  uint32_t id(const T& value) {
    const auto [at, made] = index_.try_emplace(value, uint32_t(values_.size()));
    if (made) values_.push_back(at->first);
    return at->second;
  }
  const T& operator[](uint32_t id) const { return values_[id]; }

private:
  std::map<T, uint32_t> index_;
  std::deque<T> values_; // references stay
};

using Axes = std::set<std::string>;
using Depth = std::map<std::string, int>; ///< nested passes over an axis; axes with none are left out

/// H(r) = exp(slope r) r^power, or an indicator: [r == .], and `other` where they differ.
struct Character {
  double slope = 0, power = 0;
  std::optional<double> other = {};
  auto operator<=>(const Character&) const = default;
};

/// A view: `axis` of its operand is read at (sum of factor * axis + offset) div divisor; outside of
/// it stands `fill` (none: it is never outside).
struct Window {
  std::string axis;
  std::vector<std::pair<std::string, int64_t>> terms; ///< axis and factor
  int64_t offset = 0, divisor = 1;
  std::optional<double> fill;
  auto operator<=>(const Window&) const = default;
};

enum class Op : uint8_t { sum, max, min };
double identity(Op op);
double apply(Op op, double a, double b);

/// A transport expression, as a tree of interned nodes.
struct Transport {
  enum class Kind : uint8_t {
    self,
    old_value,
    new_value,
    number,
    add,
    sub,
    mul,
    div,
    max,
    exp,
    pow,
    same, ///< `right` where old == new of component `left`, `value` elsewhere
    below ///< old of component `left` where it is less than new of component `right`, -inf elsewhere
  };
  Kind kind = Kind::self;
  uint32_t left = 0, right = 0; ///< nodes; of old_value and new_value: the component
  double value = 0;             ///< of number and same; the exponent of pow
  auto operator<=>(const Transport&) const = default;
};
struct Component {
  Op op = Op::sum;
  uint32_t transport = 0;      ///< node
  std::set<uint32_t> singular; ///< components at whose identity the transport is singular
  auto operator<=>(const Component&) const = default;
};
using Monoid = std::vector<Component>;

/// Makes monoids and answers questions about them.
class Algebra {
public:
  Algebra();
  const Transport& transport(uint32_t node) const { return nodes_[node]; }
  Monoid single(Op op) const { return {{op, self_, {}}}; }
  bool is_single(const Monoid& m, Op op) const { return m == single(op); }
  bool plain(const Monoid& m, uint32_t i) const { return m[i] == single(m[i].op)[0]; }

  // ---- larger monoids
  /// `m` extended by the components of a body x(r) = H(r)/H(g) * sum over l < count of (r - g)^l
  /// q_l under `op`, where r is component j.
  Monoid cascade(const Monoid& m, uint32_t j, Op op, Character h, uint32_t count);
  /// `m` extended by the max or min of q + slope (r - g), where r is component j.
  Monoid shift(const Monoid& m, uint32_t j, Op op, double slope);
  /// `m`, a list of maxima of one body in order, extended by the largest value below its last
  /// component j; nothing for other monoids.
  std::optional<Monoid> below(const Monoid& m, uint32_t j);

  // ---- smaller ones
  std::set<uint32_t> needs(const Monoid& m, uint32_t j) const;
  /// Component j is the last, and needs all others.
  bool minimal(const Monoid& m, uint32_t j) const {
    return j + 1 == m.size() && needs(m, j).size() == m.size();
  }
  /// The monoid of component j and what it needs.
  Monoid restricted(const Monoid& m, uint32_t j);
  /// Without component j, which is always `scale` times component `alias`, or at its identity where
  /// there is no alias. Nothing where a transport is singular at the identity of j.
  std::optional<Monoid> dropped(const Monoid& m, uint32_t j, std::optional<uint32_t> alias, double scale = 1);

  // ---- guards that test the monoid on random states
  /// Combining two states that agree on component j leaves it where it is.
  bool internal(const Monoid& m, uint32_t j) const;
  /// Component j stays at its identity where both operands are there.
  bool preserves(const Monoid& m, uint32_t j) const;
  /// The c with component j = c * component i for all states, given the constant bodies of both.
  std::optional<double> proportion(const Monoid& m, uint32_t j, uint32_t i, double body_j,
                                   double body_i) const;
  /// Component i is a sum with weights that add up to one: it may be computed as a + w_b (b - a),
  /// which loses less.
  bool average(const Monoid& m, uint32_t i) const;
  /// H(new)/H(old) <= 1 along the fold. `sign` of the body of j: 0 unknown, 1 not negative, 2
  /// positive.
  bool contracting(const Monoid& m, uint32_t j, Character h, int sign) const;

  std::vector<double> combine(const Monoid& m, const std::vector<double>& a,
                              const std::vector<double>& b) const;
  std::vector<double> identities(const Monoid& m) const;
  std::string text(const Monoid& m) const;
  /// The transport with component i called name.at(i).
  uint32_t renamed(uint32_t t, const std::map<uint32_t, uint32_t>& name);
  /// Fractions give fractions: no exponential, and powers are integers.
  bool rational(const Monoid& m) const;

private:
  using Kind = Transport::Kind;
  uint32_t node(Kind kind, uint32_t left = 0, uint32_t right = 0, double value = 0) {
    return nodes_.id({kind, left, right, value});
  }
  uint32_t number(double v) { return node(Kind::number, 0, 0, v); }
  uint32_t add(uint32_t a, uint32_t b);
  uint32_t mul(uint32_t a, uint32_t b);
  uint32_t ratio(const Character& h, uint32_t j);
  bool singular(const Monoid& m, uint32_t j, const Character& h) const;
  struct Places;
  uint32_t rebuilt(uint32_t t, const Places& places);
  bool rational(uint32_t t) const;
  void collect(uint32_t t, std::set<uint32_t>& out) const;
  std::string text(uint32_t t) const;
  Interner<Transport> nodes_;
  uint32_t self_ = 0;
  mutable std::map<Monoid, bool> averages_; ///< by the monoid up to the component asked for
};

} // namespace luminal::egraph::folds
