// luminal/operators.h -- operators between tensors, numbers and dimensions.
#pragma once
#include "luminal/tensor.h"
#include <type_traits>

namespace luminal {

/// Numbers take the dtype of the tensors beside them: a real number beside integers makes f32
/// (PyTorch's rule), a whole number never widens; beside bool it makes i32, but true and false are
/// bool themselves. Integers are exact to 64 bits. A Dim is a whole number that may change from
/// step to step.
struct Operand {
  Operand(const Tensor& t, std::source_location w = std::source_location::current()) : tensor(&t), where(w) {}
  Operand(double v, std::source_location w = std::source_location::current())
      : real(true), number(v), where(w) {}
  Operand(float v, std::source_location w = std::source_location::current()) : Operand(double(v), w) {}
  template <std::integral T>
  Operand(T v, std::source_location w = std::source_location::current())
      : truth(std::is_same_v<T, bool>), number(double(v)), whole(int64_t(v)), where(w) {}
  Operand(Dim v, std::source_location w = std::source_location::current())
      : number(v.is_constant() ? double(v.value()) : 0), whole(v), where(w) {}
  const Tensor* tensor = nullptr;
  bool real = false;  ///< a number that is not written as a whole one
  bool truth = false; ///< true or false
  double number = 0;  ///< of an operand that is not a tensor (of a large whole number: rounded)
  Dim whole = 0;      ///< where it is not real: exact
  std::source_location where;
};

// Operands broadcast (axes aligned from the right, an extent of 1 stretches) and take their common
// type (docs: promote in src/ir/dtype.h). Unlike in PyTorch a tensor without axes counts like any
// other, and bool counts as i32: true + true is 2.
Tensor operator+(Operand a, Operand b);
Tensor operator-(Operand a, Operand b);
Tensor operator*(Operand a, Operand b);
Tensor operator/(Operand a, Operand b); ///< true division: integers divide as f32
Tensor operator%(Operand a, Operand b); ///< Python's: the sign of b. Integers: a % 0 = a
Tensor operator-(Operand a);
Tensor operator!(Operand a); ///< a == 0, as bool
Tensor operator~(Operand a); ///< each bit turned; of bool: not
Tensor& operator+=(Tensor& a, Operand b);
Tensor& operator-=(Tensor& a, Operand b);
Tensor& operator*=(Tensor& a, Operand b);
Tensor& operator/=(Tensor& a, Operand b);
Tensor& operator%=(Tensor& a, Operand b);
Tensor& operator&=(Tensor& a, Operand b);
Tensor& operator|=(Tensor& a, Operand b);
Tensor& operator^=(Tensor& a, Operand b);
Tensor operator<(Operand a, Operand b);
Tensor operator<=(Operand a, Operand b);
Tensor operator>(Operand a, Operand b);
Tensor operator>=(Operand a, Operand b);
Tensor equal(Operand a, Operand b); ///< elementwise, bool; NaN equals nothing
Tensor not_equal(Operand a, Operand b);
Tensor maximum(Operand a, Operand b); ///< NaN if one is NaN (see fmax)
Tensor minimum(Operand a, Operand b);
/// a^b as PyTorch: -2 ^ 3 = -8, NaN for a broken power of a negative number, x^0 = 1^x = 1 even for
/// NaN. Integers stay integers (wrapping; of a negative power only 1 and -1 are not 0).
Tensor pow(Operand a, Operand b);
/// Bits of integers and bools; a shift by the width or more gives 0.
Tensor operator&(Operand a, Operand b);
Tensor operator|(Operand a, Operand b);
Tensor operator^(Operand a, Operand b);
Tensor operator<<(Operand a, Operand b);
Tensor operator>>(Operand a, Operand b);
/// condition (bool) ? a : b, elementwise, broadcast. What is not chosen may be NaN or infinite.
Tensor select(Operand condition, Operand a, Operand b);
} // namespace luminal
