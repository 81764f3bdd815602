// rules/axes.h -- the named axes of a region, sets of them, and forms: how a tensor lays axes out.
//
// An axis is an iteration dimension that several values share. It has a number, an extent, and a
// symbol that index expressions read. A dimension of a tensor is a list of axes, the most
// significant first: i = (a * extent(b) + b) of the axes a, b.
#pragma once
#include "expr/expr.h"
#include "ir/id_table.h"
#include "ir/term.h"
#include <array>
#include <bit>
#include <cstdint>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

namespace luminal::rules {

using AxisId = uint16_t;
inline constexpr size_t most_axes = 256; // of one region

/// A set of axes of one region.
class AxisSet {
public:
  void insert(AxisId a) { words_[a / 64] |= bit(a); }
  void erase(AxisId a) { words_[a / 64] &= ~bit(a); }
  bool contains(AxisId a) const { return (words_[a / 64] & bit(a)) != 0; }
  bool empty() const { return *this == AxisSet(); }
  int size() const {
    int n = 0;
    for (const uint64_t w : words_) n += std::popcount(w);
    return n;
  }
  bool intersects(const AxisSet& o) const {
    for (size_t k = 0; k < words_.size(); ++k)
      if ((words_[k] & o.words_[k]) != 0) return true;
    return false;
  }
  bool includes(const AxisSet& o) const {
    for (size_t k = 0; k < words_.size(); ++k)
      if ((o.words_[k] & ~words_[k]) != 0) return false;
    return true;
  }
  AxisSet& operator|=(const AxisSet& o) {
    for (size_t k = 0; k < words_.size(); ++k) words_[k] |= o.words_[k];
    return *this;
  }
  AxisSet& operator&=(const AxisSet& o) {
    for (size_t k = 0; k < words_.size(); ++k) words_[k] &= o.words_[k];
    return *this;
  }
  AxisSet& operator-=(const AxisSet& o) {
    for (size_t k = 0; k < words_.size(); ++k) words_[k] &= ~o.words_[k];
    return *this;
  }
  bool operator==(const AxisSet&) const = default;
  template <class F> void for_each(F f) const { // ascending
    for (size_t k = 0; k < words_.size(); ++k)
      for (uint64_t w = words_[k]; w != 0; w &= w - 1) f(AxisId(64 * k + size_t(std::countr_zero(w))));
  }
  uint64_t hash() const;

private:
  static uint64_t bit(AxisId a) { return uint64_t(1) << (a % 64); }
  std::array<uint64_t, most_axes / 64> words_{};
};

/// The axes of a region by number.
class AxisTable {
public:
  AxisId add(Expr extent);
  size_t size() const { return extents_.size(); }
  Expr extent(AxisId a) const { return extents_[a]; }
  /// "axis.3" in 0..extent-1; 0 where the extent is at most 1.
  Expr symbol(AxisId a) const { return symbols_[a]; }
  std::optional<AxisId> axis_of(Expr symbol) const;
  /// The axes that an expression reads.
  AxisSet read_by(Expr e) const;
  void clear();

private:
  std::vector<Expr> extents_, symbols_;
  std::unordered_map<uint32_t, AxisId> by_symbol_; // by Expr::id
};

/// The dimensions of a tensor. One of extent 1 has no axes. No axis occurs twice.
struct Form {
  std::vector<AxisId> axes;   // of all dimensions, in order
  std::vector<uint16_t> ends; // of each dimension in `axes`
  size_t rank() const { return ends.size(); }
  std::span<const AxisId> dim(size_t d) const {
    const size_t first = d == 0 ? 0 : ends[d - 1];
    return std::span(axes).subspan(first, ends[d] - first);
  }
  void push(std::span<const AxisId> dim) {
    axes.insert(axes.end(), dim.begin(), dim.end());
    ends.push_back(uint16_t(axes.size()));
  }
  AxisSet set() const {
    AxisSet out;
    for (const AxisId a : axes) out.insert(a);
    return out;
  }
  uint64_t hash() const;
  bool operator==(const Form&) const = default;
};

/// Where an axis lies in a dimension: its value is (index // low) % extent.
struct Stretch {
  int dim = 0;
  Expr low = 1;
};

/// A form with its shape and the place of each axis.
struct LaidOut {
  Form form;
  Shape shape;
  std::vector<Stretch> places; // beside form.axes
  std::vector<Expr> index;     // axis_symbol of each dimension
  AxisSet set;
  LaidOut(Form form, const AxisTable& axes);
  std::optional<size_t> position(AxisId a) const; // in form.axes
  /// The index of one axis over the dimensions of the form.
  Expr at(size_t position, const AxisTable& axes) const;
};

/// Numbers equal values: the first one 0, and so on. `T` has hash() and ==.
template <class T> class Interned {
public:
  uint32_t id(const T& value) {
    const uint64_t hash = value.hash();
    const auto found = table_.find(hash, [&](Id<T> k) { return values_[k] == value; });
    if (found) return uint32_t(found->index());
    table_.add(hash, values_.end_id());
    return uint32_t(values_.add(value).index());
  }
  const T& operator[](uint32_t id) const { return values_[Id<T>(id)]; }
  size_t size() const { return values_.size(); }
  void clear() {
    values_.clear();
    table_.clear();
  }

private:
  IdVector<Id<T>, T> values_;
  IdTable<Id<T>> table_;
};

} // namespace luminal::rules
