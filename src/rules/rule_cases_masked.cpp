// rules/rule_cases_masked.cpp -- programs in which a mask hides what may be infinite or NaN.
#include "rules/rule_case_texts.h"

namespace luminal::rules {
namespace {

constexpr RuleCaseText masked_texts[] = {
    {"products weighted by masked exponentials", R"(
fn @main(%q: f32[3, 2], %k: f32[5, 2], %v: f32[5, 3], %bias: f32[3, 5], %seen: bool[3, 5]) {
  %a = view %q [i: 3, j: 5, d: 2] -> [i, d]
  %b = view %k [i: 3, j: 5, d: 2] -> [j, d]
  %p = mul %a, %b
  %pf = fold [i: 3, j: 5, d: 2] over [d] { sum %p[i, j, d] }
  %s = get %pf, 0
  %c = const f32 0.5
  %cv = view %c [i: 3, j: 5] -> []
  %t0 = mul %s, %cv
  %t1 = add %t0, %bias
  %zero = const f32 0
  %zv = view %zero [i: 3, j: 5] -> []
  %none = const f32 -inf
  %nv = view %none [i: 3, j: 5] -> []
  %mask = select %seen, %zv, %nv
  %t2 = add %t1, %mask
  %ii = iota i64 [i: 3, j: 5] -> i
  %jj = iota i64 [i: 3, j: 5] -> j
  %three = const i64 3
  %tv = view %three [i: 3, j: 5] -> []
  %it = add %ii, %tv
  %le = le %jj, %it
  %t = select %le, %t2, %nv
  %mf = fold [i: 3, j: 5] over [j] { max %t[i, j] }
  %m = get %mf, 0
  %mv = view %m [i: 3, j: 5] -> [i]
  %d = sub %t, %mv
  %e = exp %d
  %ef = fold [i: 3, j: 5] over [j] { sum %e[i, j] }
  %l = get %ef, 0
  %lv = view %l [i: 3, j: 5] -> [i]
  %w = div %e, %lv
  %x = view %w [i: 3, n: 3, j: 5] -> [i, j]
  %y = view %v [i: 3, n: 3, j: 5] -> [j, n]
  %z = mul %x, %y
  %of = fold [i: 3, n: 3, j: 5] over [j] { sum %z[i, n, j] }
  %o = get %of, 0
  return o = %o, w = %w
})"},
    {"a masked product before another one", R"(
fn @main(%q: f32[5, 2], %k: f32[5, 2], %v: f32[5, 3]) {
  %a = view %q [i: 5, j: 5, d: 2] -> [i, d]
  %b = view %k [i: 5, j: 5, d: 2] -> [j, d]
  %p = mul %a, %b
  %pf = fold [i: 5, j: 5, d: 2] over [d] { sum %p[i, j, d] }
  %s = get %pf, 0
  %zero = const f32 0
  %zv = view %zero [i: 5, j: 5] -> []
  %ii = iota i64 [i: 5, j: 5] -> i
  %jj = iota i64 [i: 5, j: 5] -> j
  %le = le %jj, %ii
  %t = select %le, %s, %zv
  %x = view %t [i: 5, n: 3, j: 5] -> [i, j]
  %y = view %v [i: 5, n: 3, j: 5] -> [j, n]
  %z = mul %x, %y
  %of = fold [i: 5, n: 3, j: 5] over [j] { sum %z[i, n, j] }
  %o = get %of, 0
  return o = %o
})"},
    {"quotients that a mask hides where the divisor is 0", R"(
fn @main(%x: f32[5, 3], %n: i64[5], %w: f32[3, 2]) {
  %d = cast f32 %n
  %dv = view %d [i: 5, k: 3] -> [i]
  %q = div %x, %dv
  %none = const i64 0
  %nv = view %none [i: 5] -> []
  %some = ne %n, %nv
  %sv = view %some [i: 5, k: 3] -> [i]
  %zero = const f32 0
  %zv = view %zero [i: 5, k: 3] -> []
  %t = select %sv, %q, %zv
  %a = view %t [i: 5, j: 2, k: 3] -> [i, k]
  %b = view %w [i: 5, j: 2, k: 3] -> [k, j]
  %p = mul %a, %b
  %pf = fold [i: 5, j: 2, k: 3] over [k] { sum %p[i, j, k] }
  %o = get %pf, 0
  %ii = iota f32 [i: 5, k: 3] -> i
  %before = iota bool [i: 5, k: 3] -> k < i
  %r = recip %ii
  %xr = mul %x, %r
  %u = select %before, %xr, %zv
  %uf = fold [i: 5, k: 3] over [k] { sum %u[i, k] }
  %average = get %uf, 0
  return o = %o, average = %average
})"},
    {"rows that a mask hides whole", R"(
fn @main(%x: f32[5, 3], %a: f32[5], %b: f32[5, 3], %n: i64[5], %ok: bool[5], %p: f32[3, 2]) {
  %k = iota i64 [i: 5, k: 3] -> k
  %nv = view %n [i: 5, k: 3] -> [i]
  %some = lt %k, %nv
  %zero = const f32 0
  %zv = view %zero [i: 5, k: 3] -> []
  %av = view %a [i: 5, k: 3] -> [i]
  %ab = mul %av, %b
  %t = select %some, %ab, %zv
  %tf = fold [i: 5, k: 3] over [k] { sum %t[i, k] }
  %flat = get %tf, 0
  %before = iota bool [i: 5, k: 3] -> k < i
  %u = select %before, %ab, %zv
  %uf = fold [i: 5, k: 3] over [k] { sum %u[i, k] }
  %placed = get %uf, 0
  %mf = fold [i: 5, k: 3] over [k] { max %x[i, k] }
  %m = get %mf, 0
  %mv = view %m [i: 5, k: 3] -> [i]
  %d = sub %x, %mv
  %e = exp %d
  %ef = fold [i: 5, k: 3] over [k] { sum %e[i, k] }
  %l = get %ef, 0
  %lv = view %l [i: 5, k: 3] -> [i]
  %w = div %e, %lv
  %wb = mul %w, %b
  %v = select %some, %wb, %zv
  %vf = fold [i: 5, k: 3] over [k] { sum %v[i, k] }
  %deep = get %vf, 0
  %y = mul %ab, %x
  %rest = sub %av, %av
  %is = eq %rest, %zv
  %both = bit_and %is, %some
  %z = select %both, %y, %zv
  %zf = fold [i: 5, k: 3] over [k] { sum %z[i, k] }
  %finite = get %zf, 0
  %okv = view %ok [i: 5, k: 3] -> [i]
  %wo = select %okv, %w, %zv
  %wov = view %wo [i: 5, c: 2, k: 3] -> [i, k]
  %pv = view %p [i: 5, c: 2, k: 3] -> [k, c]
  %wp = mul %wov, %pv
  %wpf = fold [i: 5, c: 2, k: 3] over [k] { sum %wp[i, c, k] }
  %row = get %wpf, 0
  return flat = %flat, placed = %placed, deep = %deep, finite = %finite, row = %row
})"},
    {"positions and data hide the same", R"(
fn @main(%x: f32[5, 3], %a: bool[5, 3], %b: bool[5, 3]) {
  %zero = const f32 0
  %zv = view %zero [i: 5, k: 3] -> []
  %none = const f32 -inf
  %nv = view %none [i: 5, k: 3] -> []
  %before = iota bool [i: 5, k: 3] -> k < i
  %p = bit_and %a, %before
  %q = bit_and %before, %b
  %r = bit_and %p, %b
  %t = bit_and %b, %q
  %ps = select %p, %x, %nv
  %qs = select %q, %x, %zv
  %rs = select %r, %x, %nv
  %ts = select %t, %x, %zv
  %pf = fold [i: 5, k: 3] over [k] { max %ps[i, k] }
  %qf = fold [i: 5, k: 3] over [k] { sum %qs[i, k] }
  %rf = fold [i: 5, k: 3] over [k] { max %rs[i, k] }
  %tf = fold [i: 5, k: 3] over [k] { sum %ts[i, k] }
  %pm = get %pf, 0
  %qm = get %qf, 0
  %rm = get %rf, 0
  %tm = get %tf, 0
  return p = %pm, q = %qm, r = %rm, t = %tm
})"},
    {"rows that attend to nothing", R"(
fn @main(%s: f32[5, 3], %m: bool[5, 3], %v: f32[3, 2]) {
  %inf = const f32 -inf
  %zero = const f32 0
  %infv = view %inf [i: 5, k: 3] -> []
  %zv = view %zero [i: 5, k: 3] -> []
  %added = select %m, %zv, %infv
  %sm = add %s, %added
  %mf = fold [i: 5, k: 3] over [k] { max %sm[i, k] }
  %mx = get %mf, 0
  %mv = view %mx [i: 5, k: 3] -> [i]
  %d = sub %sm, %mv
  %e = exp %d
  %lf = fold [i: 5, k: 3] over [k] { sum %e[i, k] }
  %l = get %lf, 0
  %r = recip %l
  %rv = view %r [i: 5, k: 3] -> [i]
  %p = mul %e, %rv
  %eq = eq %sm, %infv
  %not = bit_not %eq
  %af = fold [i: 5, k: 3] over [k] { any %not[i, k] }
  %any = get %af, 0
  %none = bit_not %any
  %nv = view %none [i: 5, k: 3] -> [i]
  %safe = select %nv, %zv, %p
  %safev = view %safe [i: 5, c: 2, k: 3] -> [i, k]
  %vv = view %v [i: 5, c: 2, k: 3] -> [k, c]
  %o = mul %safev, %vv
  %of = fold [i: 5, c: 2, k: 3] over [k] { sum %o[i, c, k] }
  %out = get %of, 0
  return out = %out
})"},
    {"a mask that is added in another type", R"(
fn @main(%x: f32[3, 5], %m: bool[3, 5]) {
  %zero = const bf16 0
  %zv = view %zero [i: 3, j: 5] -> []
  %no = const bf16 -inf
  %nv = view %no [i: 3, j: 5] -> []
  %s = select %m, %zv, %nv
  %sf = cast f32 %s
  %y = add %x, %sf
  %f = fold [i: 3, j: 5] over [j] { max %y[i, j] }
  %most = get %f, 0
  return y = %y, most = %most
})"},
    {"products of factors that one mask hides", R"(
fn @main(%x: f32[3, 5], %y: f32[3, 5], %m: bool[3, 5]) {
  %zero = const f32 0
  %zv = view %zero [i: 3, j: 5] -> []
  %a = select %m, %x, %zv
  %b = select %m, %y, %zv
  %p = mul %a, %b
  %c = select %m, %zv, %x
  %d = select %m, %zv, %y
  %q = mul %c, %d
  %s = mul %a, %a
  return p = %p, q = %q, s = %s
})"},
    {"sums of all in the frame of extrema of some", R"(
fn @main(%x: f32[3, 5], %u: f32[3, 5], %m: bool[3, 5]) {
  %no = const f32 -inf
  %nv = view %no [i: 3, j: 5] -> []
  %t = select %m, %x, %nv
  %f = fold [i: 3, j: 5] over [j] { max %t[i, j] }
  %most = get %f, 0
  %mv = view %most [i: 3, j: 5] -> [i]
  %d = sub %x, %mv
  %e = exp %d
  %ef = fold [i: 3, j: 5] over [j] { sum %e[i, j] }
  %l = get %ef, 0
  %g = fold [i: 3, j: 5] over [j] { min %u[i, j] }
  %least = get %g, 0
  %lv = view %least [i: 3, j: 5] -> [i]
  %h = sub %lv, %x
  %q = exp2 %h
  %qf = fold [i: 3, j: 5] over [j] { sum %q[i, j] }
  %n = get %qf, 0
  return l = %l, n = %n
})"},
};

} // namespace

std::span<const RuleCaseText> masked_rule_cases() { return masked_texts; }

} // namespace luminal::rules
