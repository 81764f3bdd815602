// cone/canonical_cone.h -- a cone under names that say nothing: the same computation in two models,
// or in two places of one, is the same cone.
#pragma once
#include "base/hash.h"
#include "cone/cone.h"
#include <string>
#include <utility>
#include <vector>

namespace luminal::kernel {

/// Axes a0 a1 ..., values v0 ..., stages s0 ..., indices read from memory h0 ..., dimensions d0
/// ..., inlined nodes o0 ...; numbered in the order in which the cone holds them. Roles, origins
/// and the order of everything stay.
struct CanonicalCone {
  Cone cone;
  ExprMap<Expr> dimensions; ///< canonical symbol -> the given one
  /// Canonical and given names, for people.
  std::vector<std::pair<std::string, std::string>> names;
};
CanonicalCone canonical(const Cone& cone);

/// Of everything that lowering, or a schedule, can see of a cone: equal for two cones only where
/// one kernel serves both. Names count: ask for the hash of a canonical cone where they should not.
/// Numbers of nodes do not count.
Hash128 structural_hash128(const Cone& cone);

} // namespace luminal::kernel
