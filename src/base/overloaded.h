// base/overloaded.h -- one function object of several lambdas: the cases of a std::visit.
#pragma once

namespace luminal {

template <class... Cases> struct Overloaded : Cases... {
  using Cases::operator()...;
};
template <class... Cases> Overloaded(Cases...) -> Overloaded<Cases...>;

} // namespace luminal
