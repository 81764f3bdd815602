// base/variant.h -- the base of types that are one of several kinds, such as the steps of a plan.
#pragma once
#include "base/overloaded.h"
#include <utility>
#include <variant>

namespace luminal {

/// struct Shape : Variant<Circle, Square> { using Variant::Variant; };
template <class... Kinds> struct Variant : std::variant<Kinds...> {
  using std::variant<Kinds...>::variant;
  template <class Kind> bool is() const { return std::holds_alternative<Kind>(*this); }
  /// Null where it is of another kind.
  template <class Kind> const Kind* as() const { return std::get_if<Kind>(this); }
};
/// Calls the case for the kind; the compiler names a kind without one.
template <class... Kinds, class... Cases>
decltype(auto) visit(const Variant<Kinds...>& variant, Cases&&... cases) {
  return std::visit(Overloaded{std::forward<Cases>(cases)...},
                    static_cast<const std::variant<Kinds...>&>(variant));
}

} // namespace luminal
