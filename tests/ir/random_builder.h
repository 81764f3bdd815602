// tests/ir/random_builder.h -- what random modules are made with: shapes, values that fit, index
// expressions, conditions.
#pragma once
#include "ir/random_inputs.h"
#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace luminal::testing_ir {

struct RandomModuleOptions {
  int nodes = 9; // operations, roughly
  /// Only operations whose results depend neither on the order of additions nor on wider
  /// intermediate values: every plan gives the interpreter's bits.
  bool exact = false;
  bool structure = true;        // call, loop, cond
  int64_t most = 12000;         // elements of a value
  int64_t most_points = 150000; // of a fold
};

class RandomBuilder {
public:
  Module module;
  uint64_t seed;

protected:
  RandomBuilder(uint64_t seed_, const RandomModuleOptions& options)
      : seed(seed_), options_(options), state_(seed_ * 2 + 1) {}

  using Input = RandomInput;
  using Style = Input::Style;

  // ---- numbers ----
  int below(int n) { return int(random_word_of(state_) % uint64_t(n)); }
  bool chance(int percent) { return below(100) < percent; }
  template <class T> T one_of(const std::vector<T>& list) { return list[size_t(below(int(list.size())))]; }
  int64_t now(Expr e) const { return std::max(extent_of(e, sizes_[0]), extent_of(e, sizes_[1])); }
  int64_t count(const Shape& shape) const {
    int64_t n = 1;
    for (Expr e : shape) n *= std::max<int64_t>(1, now(e));
    return n;
  }

  // ---- shapes ----
  Expr extent() {
    const int kind = below(100);
    if (kind < 20 && !module.symbols.empty()) {
      const Expr s = one_of(module.symbols);
      switch (below(12)) {
      case 0: return s + 1 + below(3);
      case 1: return s * 2;
      case 2: return floordiv(s + 1, 2);
      case 3: return s + one_of(module.symbols);
      case 4: return min(s, 1 + below(20));
      default: return s;
      }
    }
    if (kind < 23) return 0;
    if (kind < 33) return 1;
    if (kind < 65) return 2 + below(5);
    if (kind < 85) return 7 + below(34);
    return 41 + below(260);
  }
  Shape shape(int most_axes = 3) {
    Shape s;
    for (int rank = below(most_axes + 1); rank > 0; --rank) {
      s.push_back(extent());
      if (count(s) > options_.most) s.back() = 1 + below(3);
    }
    if (count(s) > options_.most) s.pop_back();
    return s;
  }
  bool fits(const Shape& s) const { return count(s) <= options_.most && s.size() <= 5; }
  static std::vector<Expr> axes(const Shape& s) {
    std::vector<Expr> list;
    for (size_t d = 0; d < s.size(); ++d) list.push_back(axis_symbol(int(d), s[d]));
    return list;
  }
  static bool nonempty(Expr e) { return e.range().low >= 1; }
  DType dtype() {
    const int kind = below(100);
    if (kind < 40) return DType::f32;
    return DType(below(dtype_count));
  }
  bool arithmetic_is_exact(DType type) const { // one operation, rounded once
    return !options_.exact || !is_float(type) || type == DType::f32 || type == DType::f64;
  }

  // ---- one function being built ----
  struct Building {
    FunctionBuilder* b;
    bool entry;
    std::vector<NodeId> values;
  };
  Building* at_ = nullptr;
  FunctionBuilder& b() { return *at_->b; }
  const TensorType& type(NodeId id) { return (*at_->b)[id].type(); }
  NodeId add(NodeId id) {
    at_->values.push_back(id);
    return id;
  }
  NodeId pick() {
    const auto& v = at_->values;
    if (chance(50)) return v[v.size() - 1 - size_t(below(int(std::min<size_t>(v.size(), 4))))];
    return one_of(v);
  }
  template <class F> NodeId pick_if(F good, const TensorType& otherwise) {
    std::vector<NodeId> list;
    for (NodeId v : at_->values)
      if (good(type(v))) list.push_back(v);
    if (!list.empty()) return chance(50) ? list.back() : one_of(list);
    return add(fresh(otherwise));
  }
  Style style(DType type) {
    if (options_.exact && is_float(type))
      return one_of(std::vector<Style>{Style::small, Style::uniform, Style::special, Style::ramp, Style::same,
                                       Style::limits});
    return one_of(std::vector<Style>{Style::small, Style::small, Style::uniform, Style::uniform,
                                     Style::special, Style::ramp, Style::same, Style::limits});
  }
  NodeId input(const TensorType& t, Style style, Expr low = 0, Expr high = 0, std::optional<Role> role = {}) {
    const std::string name = "x" + std::to_string(inputs_.size());
    inputs_.push_back({name, t, style, low, high});
    return b().input(name, t, role ? *role : chance(weights_) ? Role::weight : Role::argument);
  }
  double number(DType type) { return is_float(type) ? double(below(17) - 8) / 4 : double(below(4)); }
  NodeId filled(const TensorType& t) {
    return b().view(b().constant(t.dtype, t.dtype == DType::boolean ? below(2) : number(t.dtype)), t.shape,
                    {});
  }
  /// A new value of the type, from nothing.
  NodeId fresh(const TensorType& t) {
    if (at_->entry && chance(75)) return input(t, style(t.dtype));
    if (chance(40)) return filled(t);
    return b().iota(t.shape, index(t.shape, 1 << 20), t.dtype);
  }
  /// A value of the type: one of those there are, else a new one.
  NodeId fitting(const TensorType& t) {
    std::vector<NodeId> fit;
    for (NodeId v : at_->values)
      if (type(v) == t) fit.push_back(v);
    if (!fit.empty() && chance(70)) return one_of(fit);
    for (NodeId v : at_->values) // one with the axes in another order, or without one of them
      if (type(v).dtype == t.dtype && type(v).shape.size() == 1 && t.shape.size() > 1 && chance(30))
        for (size_t d = 0; d < t.shape.size(); ++d)
          if (type(v).shape[0] == t.shape[d]) return add(b().expand(v, t.shape, {int(d)}));
    return add(fresh(t));
  }

  // ---- index expressions ----
  /// Not negative, below `limit` in its pieces, over the axes of a shape: sums, floors, remainders.
  Expr index(const Shape& s, int64_t limit) {
    Expr e = int64_t(below(3));
    for (Expr a : axes(s)) {
      switch (below(6)) {
      case 0: e = e + a * (1 + below(3)); break;
      case 1: e = e * 2 + a; break;
      case 2: e = e + floordiv(a, 1 + below(4)); break;
      case 3: e = e + mod(a + e, 2 + below(5)); break;
      case 4: e = max(e, a) + min(e, 3); break;
      default: e = e + a;
      }
    }
    if (chance(20)) e = floordiv(e, 1 + below(3));
    if (chance(20)) e = mod(e, 1 + below(9));
    return e.range().high > limit ? mod(e, limit) : e;
  }
  /// A condition over the axes.
  Expr condition(const Shape& s) {
    if (s.empty()) return 1;
    const std::vector<Expr> a = axes(s);
    const Expr x = one_of(a), y = one_of(a);
    Expr c;
    switch (below(7)) {
    case 0: c = le(y, x); break;
    case 1: c = lt(x, 1 + below(40)); break;
    case 2: c = eq(mod(x, 2 + below(3)), below(2)); break;
    case 3: c = ne(floordiv(x, 2 + below(5)), y); break;
    case 4: c = ge(x + y, 1 + below(8)); break;
    case 5: c = logical_and(le(1, x), lt(x, s[0])); break;
    default: c = logical_or(lt(x, 2), lt(y + 3, x));
    }
    if (chance(15)) c = logical_and(c, condition(s));
    return c;
  }

  RandomModuleOptions options_;
  uint64_t state_;
  int weights_ = 0;
  std::map<std::string, int64_t> sizes_[2];
  std::vector<Input> inputs_;
};

} // namespace luminal::testing_ir
