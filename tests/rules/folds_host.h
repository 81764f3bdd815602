// rules/folds_host.h -- the host program of folds/theory.egg: value sorts, guards, constructors,
// and terms from C++.
#pragma once
#include "egg/egg_program.h"
#include "folds_facts.h"
#include <memory>

namespace luminal::egraph::folds {

using Extents = std::map<std::string, int64_t>; ///< points along each axis

/// A program with the theory loaded. Terms are built by functions; classes come back as values of
/// sort V. Sets of axes are given as names with spaces between them.
class Theory {
public:
  /// `replaced`: texts that are changed in the theory before it is read, each wherever it stands;
  /// `numeric`: the rules in use.
  explicit Theory(const std::vector<std::pair<std::string, std::string>>& replaced = {},
                  NumericClass numeric = NumericClass::range, int threads = 1);
  Theory(const Theory&) = delete; // its primitives hold its address
  Theory& operator=(const Theory&) = delete;

  // ---- terms
  Value in(const std::string& name, const std::string& axes);
  Value par(const std::string& name, const std::string& axes);
  Value iota(const std::string& axis);
  Value constant(double v);
  Value dim(const std::string& axes);
  Value op(const std::string& name, std::initializer_list<Value> args);
  Value fold(Op op, Value x, const std::string& axes);
  Value scan(Op op, Value x, const std::string& axis);
  Value view(const Window& window, Value x);
  Value rename(Value x, const std::string& from, const std::string& to);
  /// Component i of a fold over tuples.
  Value get(int64_t i, const Monoid& monoid, const std::vector<Value>& bodies, const std::string& axes);
  Value mean(Value x, const std::string& axes);

  /// Points along axes; guards compare them.
  void set_extents(const Extents& extents) { extents_.insert(extents.begin(), extents.end()); }
  const Extents& extents() const { return extents_; }
  /// Folds over the axis may be split into tiles of n points: the axis becomes `axis.o` and
  /// `axis.i`.
  void split(const std::string& axis, int64_t n);

  /// Drops all terms, extents and splits; the rules and their plans stay.
  void clear();
  /// All phases; the iterations done.
  uint64_t saturate();
  /// What is known of the classes, without any rewriting.
  void find_facts();
  /// Nested passes over the axis that the cheapest term of the class needs; -1 where nothing is
  /// known.
  int passes(Value x, const std::string& axis);

  // ---- what is known of a class of V, brought up to date by saturate() and find_facts(); Error
  // where nothing is
  const Info& info_of(ClassId c);
  const Axes& axes_of(ClassId c);                    ///< the axes that it varies with
  const Depth& depth_of(ClassId c);                  ///< the nested passes that its cheapest term needs
  bool fixed(ClassId c) { return info_of(c).fixed; } ///< made of parameters and constants
  const AxisNames& axis_names() const { return names_; }

  /// The monoids of more than one component that are in the graph, as texts.
  std::vector<std::string> monoids();
  EggProgram& program() { return program_; }
  Algebra& algebra() { return algebra_; }
  const Axes& axes(Value v) const { return axes_[v]; }
  const Monoid& monoid(Value v) const { return monoids_[v]; }
  const Window& window(Value v) const { return windows_[v]; } ///< of a View
  uint64_t rows() const { return program_.graph().total_size(); }

private:
  using Test = std::function<bool(std::span<const Value>)>;
  using Make = std::function<std::optional<Value>(std::span<const Value>)>;
  using MakeVector = std::function<std::vector<Value>(std::span<const Value>)>;
  void add_sorts();
  void add_axes();
  void add_facts();
  void add_characters();
  void add_monoids();
  void add_vectors();
  void guard(const std::string& name, std::vector<std::string> inputs, Test test);
  void make(const std::string& name, std::vector<std::string> inputs, const std::string& output, Make f);
  void act(const std::string& name, std::vector<std::string> inputs, MakeVector f);
  Value axes_value(const std::string& names);
  AxisBits bits(Value axes);
  double real(Value v) { return program_.values().real_of(v); }
  int64_t integer(Value v) { return program_.values().integer_of(v); }
  std::string text_of(Value v) const;
  std::string text_of_info(const Info& info) const;
  Depth depth(const Info& info) const; ///< by name
  Op op_of(Value name) const;
  uint32_t last(Value monoid) const { return uint32_t(monoids_[monoid].size()) - 1; }
  std::vector<Value> items(Value vector);

  Algebra algebra_;
  AxisNames names_;
  Extents extents_;
  Interner<Axes> axes_;
  Interner<Depth> depths_;
  Interner<Info> infos_;
  Interner<std::vector<Value>> vectors_; ///< of numbers of infos_
  Interner<Character> characters_;
  Interner<Monoid> monoids_;
  Interner<Window> windows_;
  std::vector<std::optional<AxisBits>> bits_; ///< by number of axes_
  EggProgram program_;
};

} // namespace luminal::egraph::folds
