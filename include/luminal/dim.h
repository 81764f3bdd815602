// luminal/dim.h -- one extent of a shape: a number, or an expression over named dimensions that
// change from step to step.
#pragma once
#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <iosfwd>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace luminal {

class Dim;
using Dims = std::vector<Dim>;

/// An integer expression over dynamic dimensions. `Graph::dim("batch", 1, 64)` declares one;
/// arithmetic makes others.
class Dim {
public:
  /// Throws Error for what does not fit 64 bits with a sign.
  template <std::integral T>
  Dim(T value) : id_(std::in_range<int64_t>(value) ? constant(int64_t(value)) : too_large()) {}
  /// The text of to_string over these dimensions: Dim::parse("2*n + 1", {n}). Throws Error with
  /// line and column.
  static Dim parse(std::string_view text, const Dims& dimensions);

  /// Floor division and modulo, as in Python.
  friend Dim operator+(Dim a, Dim b);
  friend Dim operator-(Dim a, Dim b);
  friend Dim operator-(Dim a);
  friend Dim operator*(Dim a, Dim b);
  friend Dim operator/(Dim a, Dim b);
  friend Dim operator%(Dim a, Dim b);
  /// Conditions: expressions that are 1 where they hold and 0 elsewhere. (`==` compares the
  /// expressions themselves; see equal.)
  friend Dim operator<(Dim a, Dim b);
  friend Dim operator<=(Dim a, Dim b);
  friend Dim operator>(Dim a, Dim b);
  friend Dim operator>=(Dim a, Dim b);
  friend Dim operator&&(Dim a, Dim b);
  friend Dim operator||(Dim a, Dim b);
  friend Dim operator!(Dim a);

  /// Is it the same expression? What is equal for other reasons only may differ.
  friend bool operator==(Dim a, Dim b) { return a.id_ == b.id_; }
  bool is_constant() const;
  int64_t value() const; ///< of a constant; throws Error otherwise
  /// The least and the greatest value that it can have; nothing where there is no limit.
  std::optional<int64_t> low() const, high() const;
  std::vector<std::string> names() const; ///< of the dimensions in it, in alphabetical order

  /// With dimensions replaced by name: (2 * n).substitute({{"n", m + 1}}). Throws Error for a value
  /// out of the dimension's range.
  Dim substitute(const std::map<std::string, Dim>& values) const;
  /// The number for these sizes. Throws Error where one is missing or out of its range, and for a
  /// division by zero.
  int64_t evaluate(const std::map<std::string, int64_t>& sizes = {}) const;
  std::string to_string() const;

  static Dim from_id(uint32_t id) { return Dim(id, nullptr); } ///< of an interned index expression
  uint32_t id() const { return id_; }

private:
  Dim(uint32_t id, std::nullptr_t) : id_(id) {}
  static uint32_t constant(int64_t value);
  [[noreturn]] static uint32_t too_large();
  uint32_t id_;
};

Dim min(Dim a, Dim b);
Dim max(Dim a, Dim b);
Dim ceil_div(Dim a, Dim b); ///< a / b, rounded up
/// Conditions, as those of operators.
Dim equal(Dim a, Dim b);
Dim not_equal(Dim a, Dim b);
/// condition ? a : b.
Dim select(Dim condition, Dim a, Dim b);

/// "[batch, 3, 2*n + 1]"
std::string to_string(const Dims& dims);
std::ostream& operator<<(std::ostream& out, Dim dim);
std::ostream& operator<<(std::ostream& out, const Dims& dims);

} // namespace luminal
