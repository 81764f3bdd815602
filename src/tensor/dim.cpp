// tensor/dim.cpp -- Dim is an Expr that public headers need not know.
#include "tensor/graph_state.h"
#include <bit>
#include <fmt/format.h>
#include <ostream>

namespace luminal {

static_assert(sizeof(Expr) == sizeof(uint32_t), "a Dim holds the id of an Expr");
Expr to_expr(Dim dim) { return std::bit_cast<Expr>(dim.id()); }

namespace {
Dim to_dim(Expr e) { return Dim::from_id(e.id()); }

/// The symbols of the expression by name.
std::map<std::string, Expr> symbols_by_name(Dim dim) {
  std::map<std::string, Expr> found;
  for (Expr symbol : symbols_of(to_expr(dim))) found.emplace(std::string(symbol.name()), symbol);
  return found;
}
} // namespace

uint32_t Dim::constant(int64_t value) { return Expr(value).id(); }
uint32_t Dim::too_large() { throw Error("a dimension of more than 2^63 - 1"); }
Dim operator+(Dim a, Dim b) { return Dim::from_id((to_expr(a) + to_expr(b)).id()); }
Dim operator-(Dim a, Dim b) { return Dim::from_id((to_expr(a) - to_expr(b)).id()); }
Dim operator*(Dim a, Dim b) { return Dim::from_id((to_expr(a) * to_expr(b)).id()); }
Dim operator/(Dim a, Dim b) { return Dim::from_id(floordiv(to_expr(a), to_expr(b)).id()); }
Dim operator%(Dim a, Dim b) { return Dim::from_id(mod(to_expr(a), to_expr(b)).id()); }
Dim operator-(Dim a) { return to_dim(-to_expr(a)); }
Dim operator<(Dim a, Dim b) { return to_dim(lt(to_expr(a), to_expr(b))); }
Dim operator<=(Dim a, Dim b) { return to_dim(le(to_expr(a), to_expr(b))); }
Dim operator>(Dim a, Dim b) { return to_dim(gt(to_expr(a), to_expr(b))); }
Dim operator>=(Dim a, Dim b) { return to_dim(ge(to_expr(a), to_expr(b))); }
Dim operator&&(Dim a, Dim b) { return to_dim(logical_and(to_expr(a), to_expr(b))); }
Dim operator||(Dim a, Dim b) { return to_dim(logical_or(to_expr(a), to_expr(b))); }
Dim operator!(Dim a) { return to_dim(logical_not(to_expr(a))); }
Dim equal(Dim a, Dim b) { return to_dim(eq(to_expr(a), to_expr(b))); }
Dim not_equal(Dim a, Dim b) { return to_dim(ne(to_expr(a), to_expr(b))); }
Dim min(Dim a, Dim b) { return to_dim(luminal::min(to_expr(a), to_expr(b))); }
Dim max(Dim a, Dim b) { return to_dim(luminal::max(to_expr(a), to_expr(b))); }
Dim ceil_div(Dim a, Dim b) { return to_dim(ceildiv(to_expr(a), to_expr(b))); }
Dim select(Dim condition, Dim a, Dim b) {
  const Expr holds = ne(to_expr(condition), 0);
  return to_dim(holds * to_expr(a) + logical_not(holds) * to_expr(b));
}

Dim Dim::parse(std::string_view text, const Dims& dimensions) {
  SymbolScope scope;
  for (Dim dimension : dimensions)
    for (const auto& [name, symbol] : symbols_by_name(dimension)) scope.insert_or_assign(name, symbol);
  const auto parsed = Expr::parse(text, scope);
  if (!parsed) throw Error(fmt::format("[dim] \"{}\": {}", text, parsed.error()));
  return to_dim(*parsed);
}

std::optional<int64_t> Dim::low() const {
  const int64_t low = to_expr(*this).range().low;
  return low == unbounded_low ? std::nullopt : std::optional(low);
}
std::optional<int64_t> Dim::high() const {
  const int64_t high = to_expr(*this).range().high;
  return high == unbounded_high ? std::nullopt : std::optional(high);
}
std::vector<std::string> Dim::names() const {
  std::vector<std::string> list;
  for (const auto& [name, symbol] : symbols_by_name(*this)) list.push_back(name);
  return list;
}

Dim Dim::substitute(const std::map<std::string, Dim>& values) const {
  ExprMap<Expr> replacements;
  for (const auto& [name, symbol] : symbols_by_name(*this))
    if (const auto value = values.find(name); value != values.end())
      replacements[symbol] = to_expr(value->second);
  return to_dim(luminal::substitute(to_expr(*this), replacements));
}
int64_t Dim::evaluate(const std::map<std::string, int64_t>& sizes) const {
  ExprMap<int64_t> bindings;
  for (const auto& [name, symbol] : symbols_by_name(*this))
    if (const auto size = sizes.find(name); size != sizes.end()) bindings[symbol] = size->second;
  const auto value = luminal::evaluate(to_expr(*this), bindings);
  if (!value) throw Error(fmt::format("[dim] {}: {}", to_string(), value.error()));
  return *value;
}
bool Dim::is_constant() const { return to_expr(*this).is_constant(); }
int64_t Dim::value() const {
  if (!is_constant()) throw Error("dimension " + to_string() + " has no value: it changes from step to step");
  return to_expr(*this).value();
}
std::string Dim::to_string() const { return luminal::to_string(to_expr(*this)); }

std::ostream& operator<<(std::ostream& out, Dim dim) { return out << dim.to_string(); }
std::ostream& operator<<(std::ostream& out, const Dims& dims) { return out << to_string(dims); }

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
