// rules/payloads.h -- what terms hold beside classes: leaves, numbers, positions, operations.
#pragma once
#include "egraph/types.h"
#include "ir/term.h"
#include "rules/axes.h"

namespace luminal::rules {

using egraph::ClassId;
using egraph::Value;

/// What a region reads.
struct Leaf {
  NodeId node;
  bool fixed = false; ///< known when the program is loaded
  Form form;
  DType dtype = DType::f32;
  double bytes = 0; ///< of the form in which it is stored, dimensions at their greatest
};

/// A number with its type: bits of a f64, or a 64-bit integer (u64: the bit pattern).
struct Number {
  DType dtype = DType::f32;
  uint64_t bits = 0;
  bool operator==(const Number&) const = default;
  uint64_t hash() const;
};
struct Iota {
  Expr value;
  DType dtype = DType::i64;
  bool operator==(const Iota&) const = default;
  uint64_t hash() const;
};
struct Along {
  AxisId axis = 0;
  bool exclusive = false, reverse = false;
  bool operator==(const Along&) const = default;
  uint64_t hash() const;
};
/// A sum over a window that slides along an axis in single steps, in tiles of its results: `within` of
/// `tile` results is at out = tile * tiles + within, and they read the samples tile * tiles + sample. The
/// last four axes are the tiling's own. `points` are those of an interpolation, as many as samples.
struct Tiling {
  AxisId out = 0, window = 0;
  int64_t tile = 1;
  AxisId tiles = 0, within = 0, sample = 0, point = 0;
  /// The same window in the same tiles.
  bool operator==(const Tiling& o) const { return out == o.out && window == o.window && tile == o.tile; }
  uint64_t hash() const;
};

/// An operation without its inputs. Opaque: the forms of its operands and results (a number of
/// RegionTerms::forms; `absent`: of a result that nobody reads).
struct Payload {
  Attr attr;
  std::vector<TensorType> types = {};
  std::vector<uint32_t> operands = {}, results = {};
  NodeId unique = {}; ///< of what must not be merged (effects): its node
  bool operator==(const Payload&) const = default;
  uint64_t hash() const;
};

/// Number of a scalar constant node.
Number number_of(const Node& constant);
/// The identity of a component of a monoid.
Number identity(const Monoid& monoid, int component);

double value_of(const Number& number);
/// The number of this value; nothing where the type does not hold it.
std::optional<Number> number_of(DType type, double value);

} // namespace luminal::rules
