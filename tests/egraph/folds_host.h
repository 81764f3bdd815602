// egraph/folds_host.h -- the host program of folds/theory.egg: value sorts, guards, constructors, and terms from C++.
#pragma once
#include "egraph/egg_program.h"
#include "folds_monoid.h"
#include <memory>

namespace luminal::egraph::folds {

/// A program with the theory loaded. Terms are built by functions; classes come back as values of sort V.
class Theory {
public:
  /// `replaced`: texts that are changed in the theory before it is read.
  explicit Theory(const std::vector<std::pair<std::string, std::string>>& replaced = {});

  Value in(const std::string& name, const std::string& axes);
  Value iota(const std::string& axis);
  Value constant(double v);
  Value op(const std::string& name, std::initializer_list<Value> args);
  Value fold(Op op, Value x, const std::string& axes);
  /// Component i of a fold over tuples.
  Value get(int64_t i, const Monoid& monoid, const std::vector<Value>& bodies, const std::string& axes);
  Value mean(Value x, const std::string& axes);

  /// All phases; the iterations done.
  uint64_t saturate();
  /// Nested passes over the axis that the cheapest term of the class needs.
  int passes(Value x, const std::string& axis);
  // What is known of a class of V, brought up to date by saturate().
  const Axes& axes_of(ClassId c);   ///< the axes that it varies with
  const Depth& depth_of(ClassId c); ///< the nested passes that its cheapest term needs
  const Window& window(Value v) const { return windows_[v]; } ///< of a View
  /// The monoids of more than one component that are in the graph, as texts.
  std::vector<std::string> monoids();
  EggProgram& program() { return program_; }
  Algebra& algebra() { return algebra_; }
  const Axes& axes(Value v) const { return axes_[v]; }
  const Depth& depth(Value v) const { return depths_[v]; }
  const Monoid& monoid(Value v) const { return monoids_[v]; }
  uint64_t rows() const { return program_.graph().total_size(); }

private:
  void add_sorts();
  void add_axes();
  void add_numbers();
  void add_characters();
  void add_monoids();
  void add_actions();
  void guard(const std::string& name, std::vector<std::string> inputs,
             std::function<bool(std::span<const Value>)> test);
  void make(const std::string& name, std::vector<std::string> inputs, const std::string& output,
            std::function<std::optional<Value>(std::span<const Value>)> f);
  Value axes_value(const std::string& names) { return axes_.id(parse(names)); }
  static Axes parse(const std::string& names);
  double real(Value v) { return program_.values().real_of(v); }
  int64_t integer(Value v) { return program_.values().integer_of(v); }

  Algebra algebra_;
  Interner<Axes> axes_;
  Interner<Depth> depths_;
  Interner<Character> characters_;
  Interner<Monoid> monoids_;
  Interner<Window> windows_;
  EggProgram program_;
};

} // namespace luminal::egraph::folds
