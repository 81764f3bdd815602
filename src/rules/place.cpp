// rules/place.cpp -- equality, hashes, text and axes of places.
#include "rules/place.h"
#include "base/hash.h"
#include <algorithm>
#include <cmath>
#include <fmt/format.h>

namespace luminal::rules {
namespace {
uint64_t bits_of(double fill) { return std::isnan(fill) ? 1 : std::bit_cast<uint64_t>(fill); }
} // namespace

AxisSet Place::replaced() const {
  AxisSet out;
  for (const auto& [axis, e] : index) out.insert(axis);
  return out;
}

AxisSet Place::read(const AxisTable& axes) const {
  AxisSet out = axes.read_by(predicate);
  for (const auto& [axis, e] : index) out |= axes.read_by(e);
  return out;
}

const Expr* Place::index_of(AxisId axis) const {
  for (const auto& [a, e] : index)
    if (a == axis) return &e;
  return nullptr;
}

bool Place::operator==(const Place& o) const {
  return index == o.index && predicate == o.predicate && bits_of(fill) == bits_of(o.fill) && holes == o.holes;
}

uint64_t Place::hash() const {
  uint64_t h = hash_mix(bits_of(fill), predicate.id());
  for (const auto& [axis, e] : index) h = hash_mix(hash_mix(h, axis), e.id());
  for (const PlaceHole& hole : holes)
    h = hash_mix(hash_mix(hash_mix(h, uint64_t(hole.range.low)), uint64_t(hole.range.high)),
                 uint64_t(hole.policy));
  return h;
}

bool is_total(const Place& place) {
  return place.predicate.is_constant(1) &&
         std::ranges::none_of(place.holes, [](const PlaceHole& h) { return h.policy == OutOfRange::fill; });
}

std::string to_string(const Place& place) {
  std::string out = "(place";
  for (const auto& [axis, e] : place.index) out += fmt::format(" {}: {}", axis, to_string(e));
  for (const PlaceHole& hole : place.holes)
    out += fmt::format(" hole {}..{}", hole.range.low, hole.range.high);
  if (!place.predicate.is_constant(1))
    out += fmt::format(" where {} fill {}", to_string(place.predicate), place.fill);
  return out + ")";
}

} // namespace luminal::rules
