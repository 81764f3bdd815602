// rules/region_terms.h -- the encoding: how a region of a function stands in the e-graph.
//
// A REGION is a set of nodes of a flat function (calls inlined). Its leaves are what it reads, its
// roots what others read of it.
//
// A CLASS of V is one function of named axes (rules/axes.h). Values have no shapes: a map varies
// with the union of the axes of its operands, a fold removes axes, and a broadcast is nothing at
// all. So there are no binders and no substitution, and a statistic meets the rows it belongs to by
// name. Two classes are equal only where they agree at every point inside the extents of their axes.
//
//   In, Par leaf         a value of the function, with the axes that name_axes gave its dimensions;
//                        Par is known when the program is loaded, and costs the bytes of the form in
//                        which it is stored (packed weights below their dequantisation)
//   Const number         a scalar with its dtype
//   Index e              e over the symbols of axes: positions, masks
//   Add, Mul, Select ..  rows of the op table on floating types
//   Cast dtype x
//   Op payload xs        all other elementwise operations
//   View place [x, h..]  x read elsewhere: rules/place.h. Axes that the place does not name stay
//   Fold M K bodies      over the set of axes K under the monoid M. A domain `where d` of a fold is a
//                        select in each body: Select (Index d) body identity
//   Scan M along bodies  each prefix along one axis
//   Opaque payload xs    scatter, sort, random, bitcasts that change the width, folds whose domain
//                        data decide, calls, loops, hosts, collectives, views whose indices are not
//                        proved: operands and results have the forms that the payload states
//
// Payloads are interned and hold no class ids: equal payloads have equal numbers, so the hash-consing
// of the e-graph sees through them.
#pragma once
#include "egg/egg_program.h"
#include "rules/axes.h"
#include "rules/place.h"
#include <memory>

namespace luminal::rules {

using egraph::ClassId;
using egraph::Value;

/// What a region reads.
struct Leaf {
  NodeId node = 0;
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
/// An operation without its inputs. Opaque: the forms of its operands and results (a number of
/// RegionTerms::forms; `absent`: of a result that nobody reads).
struct Payload {
  Attr attr;
  std::vector<TensorType> types = {};
  std::vector<uint32_t> operands = {}, results = {};
  NodeId unique = 0; ///< of what must not be merged (effects): its node; else 0
  bool operator==(const Payload&) const = default;
  uint64_t hash() const;
};

/// The e-graph of one region at a time, with the payloads of its terms.
class RegionTerms {
public:
  RegionTerms();
  RegionTerms(const RegionTerms&) = delete; // sorts and primitives hold its address
  RegionTerms& operator=(const RegionTerms&) = delete;
  /// Drops all terms and payloads; rules and their plans stay.
  void clear();

  egraph::EggProgram& program() { return program_; }
  egraph::EGraph& graph() { return program_.graph(); }

  /// Constructors.
  struct Ops {
    egraph::OpId in, par, number, index, cast, op, view, fold, scan, get, opaque, opaque_tuple;
    std::array<egraph::OpId, op_count> rows;
  };
  const Ops& ops() const { return ops_; }
  /// The row of the op table that a constructor stands for.
  std::optional<Op> row_of(egraph::OpId op) const;

  ClassId add(egraph::OpId op, std::initializer_list<Value> args) {
    return graph().add(op, std::span(args.begin(), args.size()));
  }
  Value vector(std::span<const ClassId> items) { return program_.values().sequence(items); }
  std::span<const Value> items(Value vector) { return program_.values().sequence_of(vector); }
  Value integer(int64_t value) { return program_.integer(value); }
  int64_t integer_of(Value value) { return program_.values().integer_of(value); }
  Value monoid(Monoid m);
  Monoid monoid_of(Value value) const { return monoids_[value]; }

  AxisTable axes;
  std::vector<Leaf> leaves;
  Interned<Form> forms;
  Interned<Number> numbers;
  Interned<Iota> iotas;
  Interned<Along> alongs;
  Interned<AxisSet> sets;
  Interned<Place> places;
  Interned<Payload> payloads;

private:
  void add_sorts();
  void add_primitives();
  egraph::EggProgram program_;
  Ops ops_{};
  std::vector<Monoid> monoids_;
  std::unordered_map<uint32_t, Value> monoid_numbers_; // by Monoid::id
};

/// The classes that a term reads, by their leaders.
template <class F> void for_each_operand(RegionTerms& terms, const egraph::RowView& row, F f) {
  const RegionTerms::Ops& ops = terms.ops();
  if (row.op == ops.in || row.op == ops.par || row.op == ops.number || row.op == ops.index) return;
  const auto args = row.args();
  const auto leader = [&](Value v) { return terms.graph().find(v); };
  if (terms.row_of(row.op)) {
    for (const Value v : args) f(leader(v));
  } else if (row.op == ops.cast || row.op == ops.get) {
    f(leader(args[1]));
  } else {
    for (const Value v : terms.items(args.back())) f(leader(v));
  }
}

/// Number of a scalar constant node.
Number number_of(const Node& constant);
/// The identity of a component of a monoid.
Number identity(const Monoid& monoid, int component);

} // namespace luminal::rules
