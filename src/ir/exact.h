// ir/exact.h -- numbers of the exact mode: rationals as residues of prime fields, with a formal
// exp2.
//
// P = 2 Q + 1 is a safe prime with P mod 8 = 7, so 2 generates the squares of F_P, a group of prime
// order Q, and exp2(x) = 2^x needs x modulo Q only. A number is kept modulo P (its value) and
// modulo Q (its value as an exponent). exp2 is then a true homomorphism, also of fractions, and
// agrees with integer powers of two: exp2(a) * exp2(b) == exp2(a + b), exp2(3) == 8, exp2(x / 2) ==
// sqrt(exp2(x)). The result of exp2 and of opaque functions has no residue modulo Q; where it is an
// exponent again, a hash of its value stands in: still a function of the value, no longer a
// homomorphism. Square roots are (up to sign) multiplicative: sqrt(x) sqrt(y) = sqrt(x y);
// sqrt(x)^2 = x holds for the half of all x that are squares; `doubtful` marks the other half.
// Order, signs and floors are decided by a floating-point shadow; equality by the residues.
// Infinities and NaN are kept apart.
#pragma once
#include <cstdint>

namespace luminal {

struct Exact {
  enum class Kind : uint8_t { finite, plus_infinity, minus_infinity, nan };
  uint64_t p = 0, q = 0; // residues
  double shadow = 0;     // for infinities and NaN too
  Kind kind = Kind::finite;
  bool exponent_known = true; // q is valid
  bool doubtful = false;      // a root of a non-square took part: a difference proves nothing
};

inline constexpr uint64_t exact_p = 2305843009213690799u, exact_q = 1152921504606845399u;

Exact exact_from(double value); // dyadic rationals, infinities, NaN
Exact exact_from_int(int64_t value);
Exact exact_from_unsigned(uint64_t value);
/// Equal values: both NaN, the same infinity, or equal residues modulo P (and Q, where both are
/// known).
bool exact_equal(const Exact& a, const Exact& b);
bool exact_less(const Exact& a, const Exact& b); // false with NaN

Exact exact_add(const Exact& a, const Exact& b);
Exact exact_sub(const Exact& a, const Exact& b);
Exact exact_mul(const Exact& a, const Exact& b);
Exact exact_div(const Exact& a, const Exact& b);
Exact exact_neg(const Exact& a);
Exact exact_abs(const Exact& a);
Exact exact_min(const Exact& a, const Exact& b);
Exact exact_max(const Exact& a, const Exact& b);
Exact exact_rem(const Exact& a, const Exact& b);
/// `round` is one of floor, ceil, trunc, nearbyint on the shadow; integers are recognised by their
/// residues first.
Exact exact_round(const Exact& a, double (*round)(double));
Exact exact_ldexp(const Exact& a, const Exact& b);
Exact exact_exp2(const Exact& a);
Exact exact_log2(const Exact& a);
Exact exact_sqrt(const Exact& a);
Exact exact_pow(const Exact& a, const Exact& b);
/// A fixed random function of the arguments' values; `shadow` = its value in floating point, `salt`
/// tells functions apart. A finite result of infinite arguments is exact_from(shadow).
Exact exact_opaque(uint64_t salt, const Exact* args, int count, double shadow);

} // namespace luminal
