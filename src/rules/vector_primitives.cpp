// rules/vector_primitives.cpp -- vectors of classes: bodies of tuples, coefficients of families.
#include "rules/primitives.h"
#include "rules/theory.h"
#include <algorithm>

namespace luminal::rules {
namespace {

class VectorPrimitives : public Primitives {
public:
  using Primitives::Primitives;
  void add() {
    make("vec-last", {"Vs"}, "V", [this](Args a) -> std::optional<Value> {
      const auto s = t_.items(a[0]);
      return s.empty() ? std::nullopt : std::optional(s.back());
    });
    make("vec-only", {"Vs"}, "V", [this](Args a) -> std::optional<Value> {
      const auto s = t_.items(a[0]);
      return s.size() != 1 ? std::nullopt : std::optional(s[0]);
    });
    make("vec-rest", {"Vs"}, "Vs", [this](Args a) -> std::optional<Value> { // of several: without the last
      auto s = items(a[0]);
      if (s.size() < 2) return {};
      s.pop_back();
      return t_.vector(s);
    });
  }
};

} // namespace

void add_vector_primitives(RegionTerms& terms) {
  const auto owner = std::make_shared<VectorPrimitives>(terms);
  terms.keep(owner);
  owner->add();
}

} // namespace luminal::rules
