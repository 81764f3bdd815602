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
//   Extent K dtype       the number of points along a set of axes
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
#include "base/hash.h"
#include "egg/egg_program.h"
#include "rules/axes.h"
#include "rules/character.h"
#include "rules/facts.h"
#include "rules/payloads.h"
#include "rules/place.h"
#include <memory>

namespace luminal::rules {

/// A file of rules, as of a user.
struct RuleFile {
  std::string name, text; ///< where it stands, for messages
};

/// Which rules a program of terms has.
struct TheoryOptions {
  /// Rules beyond this class are left out.
  egraph::NumericClass numeric = egraph::NumericClass::range;
  std::vector<std::string> without = {}; ///< rules that never run, by name
  /// Texts that are changed in the rules before they are read, each wherever it stands: for tests.
  std::vector<std::pair<std::string, std::string>> replaced = {};
  std::vector<RuleFile> more = {}; ///< further rules, in this order
  bool rules = true;               ///< false: sorts, constructors and functions of the rules alone
};

/// Of the texts that are built in, the same in every process.
Hash128 built_in_rules_hash();

/// The e-graph of one region at a time, with the payloads of its terms.
class RegionTerms {
public:
  /// `egg`: limits and outputs of texts that the program runs; its numeric class is that of `options`.
  explicit RegionTerms(const TheoryOptions& options = {}, egraph::EggOptions egg = {});
  RegionTerms(const RegionTerms&) = delete; // sorts and primitives hold its address
  RegionTerms& operator=(const RegionTerms&) = delete;
  /// Drops all terms and payloads; rules and their plans stay.
  void clear();

  egraph::EggProgram& program() { return program_; }
  egraph::EGraph& graph() { return program_.graph(); }

  /// Constructors.
  struct Ops {
    egraph::OpId in, par, number, index, cast, op, view, fold, scan, get, opaque, opaque_tuple, extent;
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
  size_t monoid_count() const { return monoids_.size(); }

  AxisTable axes;
  std::vector<Leaf> leaves;
  Interned<Form> forms;
  Interned<Number> numbers;
  Interned<Iota> iotas;
  Interned<Along> alongs;
  Interned<AxisSet> sets;
  Interned<Place> places;
  Interned<Payload> payloads;
  Interned<Info> infos;
  Interned<InfoList> info_lists;
  Interned<Character> characters;
  Interned<Tiling> tilings;
  /// The function from classes to numbers of infos.
  egraph::OpId info_op() const { return info_; }
  const TheoryOptions& options() const { return options_; }
  /// Keeps an owner of primitives for as long as the program.
  void keep(std::shared_ptr<void> owner) { owners_.push_back(std::move(owner)); }
  /// The texts of the rules, in the order in which they are read.
  const std::vector<std::pair<std::string, std::string>>& texts() const { return texts_; }

private:
  void add_sorts();
  void add_rows();
  void read(const std::string& file);
  void run(const std::string& text, const std::string& file);
  TheoryOptions options_;
  std::vector<bool> replaced_, left_out_; // beside options_.replaced and .without: it was found
  egraph::EggProgram program_;
  egraph::OpId info_ = egraph::absent;
  std::vector<std::pair<std::string, std::string>> texts_; // names of files and what they hold
  std::vector<std::shared_ptr<void>> owners_;
  Ops ops_{};
  std::vector<Monoid> monoids_;
  std::unordered_map<uint32_t, Value> monoid_numbers_; // by Monoid::id
};

/// The classes that a term reads, by their leaders.
template <class F> void for_each_operand(RegionTerms& terms, const egraph::RowView& row, F f) {
  const RegionTerms::Ops& ops = terms.ops();
  if (row.op == ops.in || row.op == ops.par || row.op == ops.number || row.op == ops.index ||
      row.op == ops.extent)
    return;
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

} // namespace luminal::rules
