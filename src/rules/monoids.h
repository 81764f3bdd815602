// rules/monoids.h -- folds over tuples made larger and smaller: the algebra behind cascades, on
// ir::Monoid.
//
// A transform T of a component that a cascade made is  self * w(old, new) + terms of other
// components, and 0 where a component that it follows is still at its identity:
// select(old0 == -inf, 0, self * exp(old0 - new0)).
#pragma once
#include "ir/monoid.h"
#include "rules/character.h"
#include <string>
#include <vector>

namespace luminal::rules {

/// One component that moves by nothing.
bool is_single(const Monoid& m);
/// Component i does not follow any other one.
bool is_plain(const Monoid& m, int i);
/// All components are of one floating type.
bool is_uniform(const Monoid& m, DType type);

// ---- larger monoids, by what follows the last component r of `m`; nothing where the types differ
/// By the components of a body x(r) = H(r)/H(g) * sum over l < count of (r - g)^l q_l under `op`, of
/// q_(count - 1) first.
std::optional<Monoid> with_cascade(const Monoid& m, Op op, DType type, const Character& h, int count);
/// `m`, a list of maxima of one body in order, by the largest value below the last one.
std::optional<Monoid> with_next_largest(const Monoid& m);

// ---- smaller ones
/// Component j and what it needs, ascending.
std::vector<int> needed_by(const Monoid& m, int j);
/// The last component needs all others.
bool is_minimal(const Monoid& m, int j);
Monoid restricted(const Monoid& m, int j);
/// Without component j, which always is `scale` times component `alias`, or at its identity where
/// there is no alias. Nothing where a transform asks whether j is at its identity.
std::optional<Monoid> without(const Monoid& m, int j, std::optional<int> alias, double scale = 1);

// ---- questions that are answered on a few states
/// Combining two states that agree in component j leaves it where it is.
bool is_internal(const Monoid& m, int j);
/// Component j stays at its identity where both states are there.
bool preserves_identity(const Monoid& m, int j);
/// The c with component j = c * component i in all states, given the constant bodies of both.
std::optional<double> proportion(const Monoid& m, int j, int i, double body_j, double body_i);
/// H(new)/H(old) <= 1 along a fold whose last component is r; `positive`: so are the bodies of r.
bool contracts(const Monoid& m, const Character& h, bool positive);

/// Both states combined, over the reals.
std::vector<double> combine(const Monoid& m, const std::vector<double>& a, const std::vector<double>& b);

/// Is a component at its identity wherever one that it reads and that is `selected` is at its own?
/// select(old_j == identity of j, identity, ..) says so.
bool vanishes(const Monoid& monoid, int component, const std::vector<bool>& selected);

} // namespace luminal::rules
