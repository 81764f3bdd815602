// rules/place_primitives.cpp -- views, positions and axes.
#include "rules/primitives.h"
#include "rules/theory.h"
#include <algorithm>

namespace luminal::rules {
namespace {

class PlacePrimitives : public Primitives {
public:
  using Primitives::Primitives;
  void add() {
    guard("total", {"Place"}, [this](Args a) { return is_total(t_.places[a[0]]); });
  }
};

} // namespace

void add_place_primitives(RegionTerms& terms) {
  const auto owner = std::make_shared<PlacePrimitives>(terms);
  terms.keep(owner);
  owner->add();
}

} // namespace luminal::rules
