// rules/rule_cases_fixed.cpp -- programs for rules that chance meets rarely, as text.
#include "rules/rule_case_texts.h"
#include <algorithm>
#include <cmath>

namespace luminal::rules {
namespace {

constexpr RuleCaseText texts[] = {
    {"moments about the mean", R"(
fn @main(%x: f32[3, 5], %w: f32[5, 2]) {
  %n = const f32 5
  %nv = view %n [i: 3] -> []
  %sf = fold [i: 3, k: 5] over [k] { sum %x[i, k] }
  %s = get %sf, 0
  %m = div %s, %nv
  %mv = view %m [i: 3, k: 5] -> [i]
  %d = sub %x, %mv
  %d2 = mul %d, %d
  %d3 = mul %d2, %d
  %d4 = mul %d2, %d2
  %f2 = fold [i: 3, k: 5] over [k] { sum %d2[i, k] }
  %f3 = fold [i: 3, k: 5] over [k] { sum %d3[i, k] }
  %f4 = fold [i: 3, k: 5] over [k] { sum %d4[i, k] }
  %v2 = get %f2, 0
  %v3 = get %f3, 0
  %v4 = get %f4, 0
  %one = const f32 1
  %ov = view %one [i: 3] -> []
  %var = div %v2, %nv
  %r = add %var, %ov
  %rs = rsqrt %r
  %rv = view %rs [i: 3, k: 5] -> [i]
  %y = mul %d, %rv
  %a = view %y [i: 3, j: 2, k: 5] -> [i, k]
  %b = view %w [i: 3, j: 2, k: 5] -> [k, j]
  %p = mul %a, %b
  %pf = fold [i: 3, j: 2, k: 5] over [k] { sum %p[i, j, k] }
  %o = get %pf, 0
  return v3 = %v3, v4 = %v4, o = %o
})"},
    {"an average by a power of two", R"(
fn @main(%x: f32[3, 2]) {
  %n = const f32 0.5
  %nv = view %n [i: 3] -> []
  %sf = fold [i: 3, k: 2] over [k] { sum %x[i, k] }
  %s = get %sf, 0
  %m = mul %s, %nv
  %mv = view %m [i: 3, k: 2] -> [i]
  %d = sub %x, %mv
  %d2 = mul %d, %d
  %f2 = fold [i: 3, k: 2] over [k] { sum %d2[i, k] }
  %v2 = get %f2, 0
  return v = %v2
})"},
    {"averages of what may be nothing", R"(
symbol T: 0..3
fn @main(%x: f32[3, T], %v: f32[2, T], %c: f32[3], %n: i32[3]) {
  %av = view %c [i: 3, j: T] -> [i]
  %a = mul %x, %av
  %cf = fold [i: 3, j: T] over [j] { sum %a[i, j] }
  %o = get %cf, 0
  %nf = cast f32 %n
  %nv = view %nf [i: 3, j: T] -> [i]
  %b = mul %x, %nv
  %bf = fold [i: 3, j: T] over [j] { sum %b[i, j] }
  %p = get %bf, 0
  %mf = fold [i: 3, j: T] over [j] { max %x[i, j] }
  %m = get %mf, 0
  %mv = view %m [i: 3, j: T] -> [i]
  %d = sub %x, %mv
  %e = exp %d
  %lf = fold [i: 3, j: T] over [j] { sum %e[i, j] }
  %l = get %lf, 0
  %lv = view %l [i: 3, j: T] -> [i]
  %w = div %e, %lv
  %wv = view %w [i: 3, n: 2, j: T] -> [i, j]
  %vv = view %v [i: 3, n: 2, j: T] -> [n, j]
  %y = mul %wv, %vv
  %of = fold [i: 3, n: 2, j: T] over [j] { sum %y[i, n, j] }
  %q = get %of, 0
  return o = %o, p = %p, q = %q
})"},
    {"a maximum of sums", R"(
fn @main(%x: f32[2, 3, 5]) {
  %sf = fold [i: 2, k: 3, l: 5] over [l] { sum %x[i, k, l] }
  %s = get %sf, 0
  %mf = fold [i: 2, k: 3] over [k] { max %s[i, k] }
  %m = get %mf, 0
  return m = %m
})"},
    {"roots and reciprocals of a running maximum", R"(
fn @main(%x: f32[3, 5], %w: f32[3, 5]) {
  %ax = abs %x
  %half = const f32 0.5
  %hv = view %half [i: 3, k: 5] -> []
  %g = add %ax, %hv
  %mf = fold [i: 3, k: 5] over [k] { max %g[i, k] }
  %m = get %mf, 0
  %mv = view %m [i: 3, k: 5] -> [i]
  %r = rsqrt %mv
  %s = sqrt %mv
  %q = recip %mv
  %a = mul %w, %r
  %b = mul %w, %q
  %mr = div %w, %s
  %q2 = max %b, %a
  %bm = mul %w, %mv
  %bn = mul %x, %mv
  %hi = max %bm, %bn
  %lo = min %bm, %bn
  %neg = neg %mv
  %aa = abs %b
  %af = fold [i: 3, k: 5] over [k] { sum %a[i, k] }
  %bf = fold [i: 3, k: 5] over [k] { sum %aa[i, k] }
  %cf = fold [i: 3, k: 5] over [k] { sum %mr[i, k] }
  %hf = fold [i: 3, k: 5] over [k] { sum %hi[i, k] }
  %lf = fold [i: 3, k: 5] over [k] { sum %lo[i, k] }
  %sh = add %x, %mv
  %sw = add %w, %mv
  %sm = max %sh, %sw
  %sn = min %sh, %sw
  %smf = fold [i: 3, k: 5] over [k] { max %sm[i, k] }
  %snf = fold [i: 3, k: 5] over [k] { min %sn[i, k] }
  %ra = get %af, 0
  %rb = get %bf, 0
  %rc = get %cf, 0
  %rh = get %hf, 0
  %rl = get %lf, 0
  %rs = get %smf, 0
  %rt = get %snf, 0
  return ra = %ra, rb = %rb, rc = %rc, rh = %rh, rl = %rl, rs = %rs, rt = %rt
})"},
    {"reciprocals, roots and signs of families", R"(
fn @main(%x: f32[3, 5], %y: f32[3, 5]) {
  %ax = abs %x
  %half = const f32 0.5
  %hv = view %half [i: 3, k: 5] -> []
  %g = add %ax, %hv
  %gf = fold [i: 3, k: 5] over [k] { max %g[i, k] }
  %gm = get %gf, 0
  %gv = view %gm [i: 3, k: 5] -> [i]
  %q = div %g, %gv
  %root = sqrt %q
  %rf = fold [i: 3, k: 5] over [k] { sum %root[i, k] }
  %r = get %rf, 0
  %mf = fold [i: 3, k: 5] over [k] { max %x[i, k] }
  %m = get %mf, 0
  %mv = view %m [i: 3, k: 5] -> [i]
  %d = sub %x, %mv
  %e = exp %d
  %re = recip %e
  %ef = fold [i: 3, k: 5] over [k] { sum %re[i, k] }
  %s = get %ef, 0
  %nf = fold [i: 3, k: 5] over [k] { min %x[i, k] }
  %n = get %nf, 0
  %nv = view %n [i: 3, k: 5] -> [i]
  %dn = sub %x, %nv
  %en = exp %dn
  %rn = recip %en
  %tf = fold [i: 3, k: 5] over [k] { sum %rn[i, k] }
  %t = get %tf, 0
  %eq = eq %x, %mv
  %inf = const f32 inf
  %iv = view %inf [i: 3, k: 5] -> []
  %sel = select %eq, %y, %iv
  %ns = neg %sel
  %uf = fold [i: 3, k: 5] over [k] { min %ns[i, k] }
  %u = get %uf, 0
  return r = %r, s = %s, t = %t, u = %u
})"},
    {"gathers of sums over the axis of the labels", R"(
fn @main(%x: f32[3, 5], %z: f32[3, 5, 3], %labels: i64[3], %more: i64[2]) {
  %a = view %x [i: 3] with t = %labels[i] in 0..4 -> [i, t]
  %sf = fold [i: 3, k: 5] over [i] { sum %x[i, k] }
  %s = get %sf, 0
  %b = view %s [i: 3] with t = %labels[i] in 0..4 -> [t]
  %c = sub %a, %b
  %zf = fold [i: 3, k: 5, j: 3] over [i] { sum %z[i, k, j] }
  %zs = get %zf, 0
  %d = view %zs [i: 3] with t = %labels[i] in 0..4 -> [t, 2 - i]
  %e = mul %c, %d
  %g = view %zs [i: 3, n: 2] with t = %more[n] in 0..4 -> [t, 2 - i]
  %cv = view %c [i: 3, n: 2] -> [i]
  %h = mul %g, %cv
  %zx = view %x [i: 3, k: 5, j: 3] -> [i, k]
  %zz = mul %z, %zx
  return e = %e, zz = %zz, h = %h
})"},
    {"frames above and below a statistic", R"(
fn @main(%x: f32[3, 5], %w: f32[3, 5], %y: f32[3]) {
  %mf = fold [i: 3, k: 5] over [k] { max %x[i, k] }
  %m = get %mf, 0
  %most = max %m, %y
  %mv = view %most [i: 3, k: 5] -> [i]
  %nf = fold [i: 3, k: 5] over [k] { min %x[i, k] }
  %n = get %nf, 0
  %least = min %y, %n
  %nv = view %least [i: 3, k: 5] -> [i]
  %a = sub %x, %mv
  %b = sub %nv, %x
  %ea = exp %a
  %eb = exp %b
  %ea2 = exp2 %a
  %eb2 = exp2 %b
  %wa = mul %ea, %w
  %af = fold [i: 3, k: 5] over [k] { sum %ea[i, k] }
  %sa = get %af, 0
  %wf = fold [i: 3, k: 5] over [k] { sum %wa[i, k] }
  %sw = get %wf, 0
  %bf = fold [i: 3, k: 5] over [k] { sum %eb[i, k] }
  %sb = get %bf, 0
  %a2f = fold [i: 3, k: 5] over [k] { sum %ea2[i, k] }
  %sa2 = get %a2f, 0
  %b2f = fold [i: 3, k: 5] over [k] { sum %eb2[i, k] }
  %sb2 = get %b2f, 0
  return sa = %sa, sw = %sw, sb = %sb, sa2 = %sa2, sb2 = %sb2
})"},
    {"gates of a statistic", R"(
fn @main(%x: f32[3, 5], %w: f32[3, 5]) {
  %mf = fold [i: 3, k: 5] over [k] { max %x[i, k] }
  %m = get %mf, 0
  %mv = view %m [i: 3, k: 5] -> [i]
  %d = sub %x, %mv
  %s = sigmoid %d
  %t = silu %d
  %ws = mul %w, %s
  %sf = fold [i: 3, k: 5] over [k] { sum %ws[i, k] }
  %tf = fold [i: 3, k: 5] over [k] { sum %t[i, k] }
  %a = get %sf, 0
  %b = get %tf, 0
  %y = add %w, %mv
  %yf = fold [i: 3, k: 5] over [k] { min %y[i, k] }
  %c = get %yf, 0
  return a = %a, b = %b, c = %c
})"},
    {"a list in order and its places", R"(
fn @main(%x: f32[3, 5]) {
  %mf = fold [i: 3, k: 5] over [k] { max %x[i, k] }
  %m = get %mf, 0
  %mv = view %m [i: 3, k: 5] -> [i]
  %lt = lt %x, %mv
  %none = const f32 -inf
  %nv = view %none [i: 3, k: 5] -> []
  %s = select %lt, %x, %nv
  %sf = fold [i: 3, k: 5] over [k] { max %s[i, k] }
  %second = get %sf, 0
  %sv = view %second [i: 3, k: 5] -> [i]
  %lt2 = lt %x, %sv
  %s2 = select %lt2, %x, %nv
  %tf = fold [i: 3, k: 5] over [k] { max %s2[i, k] }
  %third = get %tf, 0
  %eq = eq %x, %mv
  %ii = iota i64 [i: 3, k: 5] -> k
  %ki = cast f32 %ii
  %inf = const f32 inf
  %iv = view %inf [i: 3, k: 5] -> []
  %at = select %eq, %ki, %iv
  %af = fold [i: 3, k: 5] over [k] { min %at[i, k] }
  %place = get %af, 0
  return third = %third, place = %place
})"},
    {"what elementwise operations keep of views", R"(
fn @main(%x: f32[5], %y: f32[5], %h: f16[5], %n: i32[5]) {
  %a = ceil %x
  %b = floor %x
  %c = trunc %x
  %d = round %x
  %e = sin %x
  %f = cos %x
  %g = tan %x
  %h0 = erf %x
  %i = gelu %x
  %j = gelu_tanh %x
  %k = softplus %x
  %l = expm1 %x
  %m = log1p %x
  %n0 = sign %x
  %o = silu %x
  %p = sigmoid %x
  %q = tanh %x
  %r = rem %x, %y
  %s = ldexp %x, %y
  %t = fma %x, %y, %x
  %u = is_nan %x
  %v = le %x, %y
  %w = ne %y, %x
  %z = bit_not %n
  %aa = shl %n, %n
  %bb = bit_xor %n, %z
  %cc = cast f32 %h
  %mc = mul %x, %cc
  %ex = exp %x
  %dd = rsqrt %ex
  %ee = pow %ex, %y
  %ff = select %v, %x, %y
  %mx = max %x, %y
  %mn = min %x, %y
  %nx = neg %x
  %ny = neg %y
  %nm = max %nx, %ny
  %nn = min %nx, %ny
  %ax = abs %nx
  %aax = abs %ax
  %xx = max %x, %x
  %yy = min %y, %y
  %ra = view %a [i: 5] -> [4 - i]
  %rb = view %b [i: 5] -> [4 - i]
  %rc = view %c [i: 5] -> [4 - i]
  %rd = view %d [i: 5] -> [4 - i]
  %re = view %e [i: 5] -> [4 - i]
  %rf = view %f [i: 5] -> [4 - i]
  %rg = view %g [i: 5] -> [4 - i]
  %rh = view %h0 [i: 5] -> [4 - i]
  %ri = view %i [i: 5] -> [4 - i]
  %rj = view %j [i: 5] -> [4 - i]
  %rk = view %k [i: 5] -> [4 - i]
  %rl = view %l [i: 5] -> [4 - i]
  %rm = view %m [i: 5] -> [4 - i]
  %rn = view %n0 [i: 5] -> [4 - i]
  %ro = view %o [i: 5] -> [4 - i]
  %rp = view %p [i: 5] -> [4 - i]
  %rq = view %q [i: 5] -> [4 - i]
  %rr = view %r [i: 5] -> [4 - i]
  %rs = view %s [i: 5] -> [4 - i]
  %rt = view %t [i: 5] -> [4 - i]
  %ru = view %u [i: 5] -> [4 - i]
  %rv = view %v [i: 5] -> [4 - i]
  %rw = view %w [i: 5] -> [4 - i]
  %rz = view %bb [i: 5] -> [4 - i]
  %rcc = view %cc [i: 5] -> [4 - i]
  %rdd = view %dd [i: 5] -> [4 - i]
  %ree = view %ee [i: 5] -> [4 - i]
  %rff = view %ff [i: 5] -> [4 - i]
  %rmx = view %mx [i: 5] -> [4 - i]
  %rmn = view %mn [i: 5] -> [4 - i]
  return ra = %ra, rb = %rb, rc = %rc, rd = %rd, re = %re, rf = %rf, rg = %rg, rh = %rh, ri = %ri, rj = %rj,
    rk = %rk, rl = %rl, rm = %rm, rn = %rn, ro = %ro, rp = %rp, rq = %rq, rr = %rr, rs = %rs, rt = %rt,
    ru = %ru, rv = %rv, rw = %rw, rz = %rz, aa = %aa, rcc = %rcc, rdd = %rdd, ree = %ree, rff = %rff,
    rmx = %rmx, rmn = %rmn, nm = %nm, nn = %nn, mc = %mc, aax = %aax, xx = %xx, yy = %yy
})"},
    {"bounds in other words", R"(
fn @main(%x: f32[5], %y: f32[5]) {
  %zero = const f32 0
  %z = view %zero [i: 5] -> []
  %a = lt %x, %z
  %b = lt %z, %x
  %c = le %x, %z
  %d = le %z, %x
  %ra = select %a, %z, %x
  %rb = select %b, %z, %x
  %rc = select %c, %z, %x
  %rd = select %d, %z, %x
  %q = mul %x, %x
  %sq = sqrt %q
  %ab = abs %y
  %sa = sqrt %ab
  %ss = mul %sa, %sa
  %e2 = exp2 %x
  %l2 = log2 %e2
  return ra = %ra, rb = %rb, rc = %rc, rd = %rd, sq = %sq, ss = %ss, l2 = %l2
})"},
    {"single elements by labels on the left", R"(
fn @main(%x: f32[3, 5], %labels: i64[3]) {
  %lv = view %labels [i: 3, k: 5] -> [i]
  %kk = iota i64 [i: 3, k: 5] -> k
  %hot = eq %lv, %kk
  %zero = const f32 0
  %z = view %zero [i: 3, k: 5] -> []
  %s = select %hot, %x, %z
  %sf = fold [i: 3, k: 5] over [k] { sum %s[i, k] }
  %y = get %sf, 0
  return y = %y
})"},
    {"a scale and a shift that are known when the program is loaded", R"(
fn @main(%x: f32[2, 3], weight %w: f32[3, 5], weight %b: f32[5], weight %g: f32[5], weight %h: f32[5]) {
  %a = view %x [i: 2, j: 5, k: 3] -> [i, k]
  %ww = view %w [i: 2, j: 5, k: 3] -> [k, j]
  %p = mul %a, %ww
  %pf = fold [i: 2, j: 5, k: 3] over [k] { sum %p[i, j, k] }
  %s = get %pf, 0
  %bv = view %b [i: 2, j: 5] -> [j]
  %gv = view %g [i: 2, j: 5] -> [j]
  %hv = view %h [i: 2, j: 5] -> [j]
  %t = add %s, %bv
  %u = mul %gv, %t
  %y = add %u, %hv
  %z0 = mul %s, %gv
  %z = mul %z0, %hv
  return y = %y, z = %z
})"},
    {"a logarithm of a sum that exponentials weight", R"(
fn @main(%x: f32[3, 5]) {
  %mf = fold [i: 3, k: 5] over [k] { max %x[i, k] }
  %m = get %mf, 0
  %mv = view %m [i: 3, k: 5] -> [i]
  %d = sub %x, %mv
  %e = exp %d
  %lf = fold [i: 3, k: 5] over [k] { sum %e[i, k] }
  %l = get %lf, 0
  %lv = view %l [i: 3, k: 5] -> [i]
  %p = div %e, %lv
  %g = log %l
  %gv = view %g [i: 3, k: 5] -> [i]
  %q = sub %d, %gv
  %z = mul %p, %q
  %zf = fold [i: 3, k: 5] over [k] { sum %z[i, k] }
  %y = get %zf, 0
  return y = %y
})"},
    {"views that hide", R"(
fn @main(%x: f32[5, 5], %y: f32[5]) {
  %a = view %x [i: 5, j: 5] -> [i, j] where j <= i fill 0
  %b = view %x [i: 5, j: 5] -> [j, i] where i < j fill -inf
  %w = view %y [i: 5, j: 5] -> [j]
  %c = view %x [i: 5, j: 5] -> [4 - i, j] where j <= i fill 0
  %p0 = mul %a, %w
  %p = add %p0, %c
  %pf = fold [i: 5, j: 5] over [j] { sum %p[i, j] }
  %qf = fold [i: 5, j: 5] over [j] { sum %p0[i, j] }
  %mf = fold [i: 5, j: 5] over [j] { max %b[i, j] }
  %s = get %pf, 0
  %q = get %qf, 0
  %m = get %mf, 0
  return s = %s, m = %m, q = %q
})"},
    {"components that are repeated, zero, or others twice", R"(
fn @main(%x: f32[3, 5]) {
  %one = const f32 1
  %zero = const f32 0
  %F = fold [i: 3, k: 5] over [k] {
    sum %one[];
    sum(select(old0 == 0, 0, self * (old0 / new0))) %x[i, k];
    sum %one[];
    sum(self + 2 * ((new1 - old1) * old2)) %zero[];
    sum(self + (new1 - old1) * old3 + (new1 - old1) * (new1 - old1) * old2) %zero[]
  }
  %a0 = get %F, 0
  %a1 = get %F, 1
  %a2 = get %F, 2
  %a3 = get %F, 3
  %a4 = get %F, 4
  %G = fold [i: 3, k: 5] over [k] {
    sum %one[];
    sum(select(old0 == 0, 0, self * (old0 / new0))) %x[i, k];
    sum(self + (new1 - old1) * (new1 - old1) * old0) %zero[];
    sum(self + 2 * ((new1 - old1) * (new1 - old1) * old0)) %zero[]
  }
  %b0 = get %G, 0
  %b1 = get %G, 1
  %b2 = get %G, 2
  %b3 = get %G, 3
  return a0 = %a0, a1 = %a1, a2 = %a2, a3 = %a3, a4 = %a4, b0 = %b0, b1 = %b1, b2 = %b2, b3 = %b3
})"},
    {"a window over two axes, with zeros around", R"(
fn @main(%x: f32[2, 5, 5, 6], weight %w: f32[5, 5, 3, 3]) {
  %a = view %x [n: 2, k: 5, h: 5, w: 6, c: 5, r: 3, s: 3] -> [n, c, h + r - 1, w + s - 1]
    where 0 <= h + r - 1 and h + r - 1 < 5 and 0 <= w + s - 1 and w + s - 1 < 6
  %b = view %w [n: 2, k: 5, h: 5, w: 6, c: 5, r: 3, s: 3] -> [k, c, r, s]
  %p = mul %a, %b
  %f = fold [n: 2, k: 5, h: 5, w: 6, c: 5, r: 3, s: 3] over [c, r, s] { sum %p[n, k, h, w, c, r, s] }
  %o = get %f, 0
  return o = %o
})"},
    {"a window of five along one axis", R"(
fn @main(%x: f32[5, 9], weight %w: f32[5, 5, 5]) {
  %a = view %x [k: 5, t: 5, c: 5, s: 5] -> [c, t + s]
  %b = view %w [k: 5, t: 5, c: 5, s: 5] -> [k, c, s]
  %p = mul %a, %b
  %f = fold [k: 5, t: 5, c: 5, s: 5] over [c, s] { sum %p[k, t, c, s] }
  %o = get %f, 0
  return o = %o
})"},
    {"a tuple of which one component is read", R"(
fn @main(%x: f32[3, 5], %v: f32[5, 2]) {
  %one = const f32 1
  %F = fold [i: 3, k: 5, n: 2] over [k] {
    max %x[i, k];
    sum(select(old0 == -inf, 0, self * exp(old0 - new0))) %one[];
    sum(select(old0 == -inf, 0, self * exp(old0 - new0))) %v[k, n]
  }
  %o = get %F, 2
  return o = %o
})"},
    {"a chain of products", R"(
fn @main(%a: f32[6, 2], %b: f32[2, 6], %c: f32[6, 2]) {
  %av = view %a [i: 6, k: 6, l: 2] -> [i, l]
  %bv = view %b [i: 6, k: 6, l: 2] -> [l, k]
  %ab = mul %av, %bv
  %abf = fold [i: 6, k: 6, l: 2] over [l] { sum %ab[i, k, l] }
  %d = get %abf, 0
  %dv = view %d [i: 6, j: 2, k: 6] -> [i, k]
  %cv = view %c [i: 6, j: 2, k: 6] -> [k, j]
  %dc = mul %dv, %cv
  %dcf = fold [i: 6, j: 2, k: 6] over [k] { sum %dc[i, j, k] }
  %e = get %dcf, 0
  return e = %e
})"},
};

} // namespace

std::vector<RuleCase> fixed_rule_cases() {
  std::vector<RuleCase> out;
  const auto add = [&](const RuleCaseText& t) {
    RuleCase c{t.name, parse_module(t.text, t.name), {}};
    uint64_t state = 1 + out.size();
    const Function& f = c.module.entry();
    for (const Expr symbol : c.module.symbols)
      c.bindings.symbols[std::string(symbol.name())] = symbol.range().high;
    for (const NodeId id : f.params) {
      const auto& input = std::get<InputAttr>(f[id].attr);
      std::vector<int64_t> dims;
      int64_t n = 1;
      for (const Expr e : input.type.shape) {
        dims.push_back(e.is_constant() ? e.value() : e.range().high);
        n *= dims.back();
      }
      std::vector<double> values;
      for (int64_t k = 0; k < n; ++k) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        const auto draw = int((state >> 33) % 33);
        const bool hidden = dims.size() > 1 && k / dims.back() % 3 == 1; // the whole row
        values.push_back(is_float(input.type.dtype)           ? (draw - 16) / 8.0 + 1 / 16.0
                         : input.type.dtype == DType::boolean ? double(hidden ? 0 : k == 0 || draw % 3 != 0)
                                                              : double(draw % 5));
      }
      c.bindings.inputs[input.name] = host_tensor(input.type.dtype, dims, values);
    }
    out.push_back(std::move(c));
  };
  std::ranges::for_each(texts, add);
  std::ranges::for_each(masked_rule_cases(), add);
  return out;
}

} // namespace luminal::rules
