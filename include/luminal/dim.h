// luminal/dim.h -- one extent of a shape: a number, or an expression over named dimensions that change from step to step.
#pragma once
#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

namespace luminal {

/// An integer expression over dynamic dimensions. `Graph::dim("batch", 1, 64)` declares one; arithmetic makes others.
class Dim {
public:
  Dim(int value) : Dim(int64_t(value)) {}
  Dim(int64_t value);
  /// Floor division and modulo, as in Python.
  friend Dim operator+(Dim a, Dim b);
  friend Dim operator-(Dim a, Dim b);
  friend Dim operator*(Dim a, Dim b);
  friend Dim operator/(Dim a, Dim b);
  friend Dim operator%(Dim a, Dim b);
  friend bool operator==(Dim a, Dim b) { return a.id_ == b.id_; }
  bool is_constant() const;
  int64_t value() const; ///< of a constant; throws Error otherwise
  std::string to_string() const;

  static Dim from_id(uint32_t id) { return Dim(id, 0); } ///< of an interned index expression
  uint32_t id() const { return id_; }

private:
  Dim(uint32_t id, int) : id_(id) {}
  uint32_t id_;
};

using Dims = std::vector<Dim>;
/// "[batch, 3, 2*n + 1]"
std::string to_string(const Dims& dims);

} // namespace luminal
