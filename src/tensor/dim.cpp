// tensor/dim.cpp -- Dim is an Expr that public headers need not know.
#include "tensor/graph_state.h"
#include <bit>

namespace luminal {

static_assert(sizeof(Expr) == sizeof(uint32_t), "a Dim holds the id of an Expr");
Expr to_expr(Dim dim) { return std::bit_cast<Expr>(dim.id()); }

Dim::Dim(int64_t value) : id_(Expr(value).id()) {}
Dim operator+(Dim a, Dim b) { return Dim::from_id((to_expr(a) + to_expr(b)).id()); }
Dim operator-(Dim a, Dim b) { return Dim::from_id((to_expr(a) - to_expr(b)).id()); }
Dim operator*(Dim a, Dim b) { return Dim::from_id((to_expr(a) * to_expr(b)).id()); }
Dim operator/(Dim a, Dim b) { return Dim::from_id(floordiv(to_expr(a), to_expr(b)).id()); }
Dim operator%(Dim a, Dim b) { return Dim::from_id(mod(to_expr(a), to_expr(b)).id()); }
bool Dim::is_constant() const { return to_expr(*this).is_constant(); }
int64_t Dim::value() const {
  if (!is_constant()) throw Error("dimension " + to_string() + " has no value: it changes from step to step");
  return to_expr(*this).value();
}
std::string Dim::to_string() const { return luminal::to_string(to_expr(*this)); }

std::string to_string(const Dims& dims) {
  std::string text = "[";
  for (const Dim& dim : dims) text += (text.size() > 1 ? ", " : "") + dim.to_string();
  return text + "]";
}

Shape to_shape(const Dims& dims) {
  Shape shape;
  for (Dim dim : dims) shape.push_back(to_expr(dim));
  return shape;
}
Dims to_dims(const Shape& shape) {
  Dims dims;
  for (Expr e : shape) dims.push_back(Dim::from_id(e.id()));
  return dims;
}
std::string text_of(const Shape& shape) { return to_string(to_dims(shape)); }

} // namespace luminal
