// golden/small_cones.h -- small modules by name: what schedules of the tests of messages apply to.
#pragma once
#include "golden/golden_support.h"
#include <algorithm>
#include <map>
#include <span>
#include <string>

namespace luminal::kernel {

inline const std::map<std::string, std::string>& small_modules() {
  static const std::map<std::string, std::string> modules = {
      {"map", R"(fn @main(%x: f32[6, 20]) {
  %y = exp %x
  return y = %y
}
)"},
      {"shifted_rows", R"(fn @main(%x: f32[9, 20]) {
  %e = exp %x
  %y = view %e [i: 6, k: 20] -> [i, k]
  %b = view %e [i: 6, k: 20] -> [i + 3, k]
  %f = fold [i: 6, k: 20] over [k] { sum %b[i, k] }
  %s = get %f, 0
  return y = %y, s = %s
}
)"},
      {"turned", R"(fn @main(%x: f32[20, 6]) {
  %v = view %x [i: 6, j: 20] -> [j, i]
  %e = exp %v
  %s = view %x [i: 6, j: 20] -> [j, 0]
  %y = add %e, %s
  return y = %y
}
)"},
      {"product", R"(symbol m: 1..64
fn @main(%a: f32[m, 12], %b: f32[12, 20]) {
  %x = view %a [i: m, j: 20, k: 12] -> [i, k]
  %y = view %b [i: m, j: 20, k: 12] -> [k, j]
  %p = mul %x, %y
  %f = fold [i: m, j: 20, k: 12] over [k] { sum %p[i, j, k] }
  %c = get %f, 0
  %r = exp %c
  return r = %r
}
)"},
      {"half_tile", R"(fn @main(%a: bf16[16, 16], %b: bf16[16, 8]) {
  %af = cast f32 %a
  %bf = cast f32 %b
  %x = view %af [i: 16, j: 8, k: 16] -> [i, k]
  %y = view %bf [i: 16, j: 8, k: 16] -> [k, j]
  %p = mul %x, %y
  %f = fold [i: 16, j: 8, k: 16] over [k] { sum %p[i, j, k] }
  %c = get %f, 0
  return c = %c
}
)"},
      {"tile", R"(fn @main(%a: f32[16, 16], %b: f32[16, 8]) {
  %x = view %a [i: 16, j: 8, k: 16] -> [i, k]
  %y = view %b [i: 16, j: 8, k: 16] -> [k, j]
  %p = mul %x, %y
  %f = fold [i: 16, j: 8, k: 16] over [k] { sum %p[i, j, k] }
  %c = get %f, 0
  return c = %c
}
)"},
      {"bytes", R"(fn @main(%a: u8[6, 32], %b: i8[32, 20]) {
  %ai = cast i32 %a
  %bi = cast i32 %b
  %x = view %ai [i: 6, j: 20, k: 32] -> [i, k]
  %y = view %bi [i: 6, j: 20, k: 32] -> [k, j]
  %p = mul %x, %y
  %f = fold [i: 6, j: 20, k: 32] over [k] { sum %p[i, j, k] }
  %c = get %f, 0
  return c = %c
}
)"},
      {"attention", R"(fn @main(%q: f32[10, 4], %k: f32[10, 4], %v: f32[10, 4]) {
  %qv = view %q [q: 10, k: 10, d: 4] -> [q, d]
  %kv = view %k [q: 10, k: 10, d: 4] -> [k, d]
  %p = mul %kv, %qv
  %f = fold [q: 10, k: 10, d: 4] over [d] { sum %p[q, k, d] }
  %s = get %f, 0
  %one = const f32 1
  %F = fold [q: 10, k: 10, e: 4] over [k] where k <= q {
    max %s[q, k];
    sum(select(old0 == -inf, 0, self * exp2(old0 - new0))) %one[];
    sum(select(old0 == -inf, 0, self * exp2(old0 - new0))) %v[k, e]
  }
  %l = get %F, 1
  %o = get %F, 2
  %ll = view %l [q: 10, e: 4] -> [q]
  %out = div %o, %ll
  return out = %out
}
)"},
      {"parts", R"(fn @main(%a: f32[5, 20], %b: f32[4, 20]) {
  %aa = mul %a, %a
  %u = view %aa [i: 9, j: 20] -> [i, j] where i < 5
  %bb = add %b, %b
  %l = view %bb [i: 9, j: 20] -> [i - 5, j] where i >= 5
  %first = iota bool [i: 9, j: 20] -> i < 5
  %y = select %first, %u, %l
  return y = %y
}
)"},
      {"groups", R"(fn @main(%x: f32[3, 2, 8], %w: f32[3, 4, 2]) {
  %v = view %x [g: 3, o: 4, j: 8, c: 2] -> [g, c, j]
  %ww = view %w [g: 3, o: 4, j: 8, c: 2] -> [g, o, c]
  %p = mul %v, %ww
  %f = fold [g: 3, o: 4, j: 8, c: 2] over [c] { sum %p[g, o, j, c] }
  %y = get %f, 0
  return y = %y
})"},
      {"windows", R"(fn @main(%x: f32[2, 8, 8], %w: f32[3, 2, 3, 3]) {
  %v = view %x [o: 3, i: 8, j: 8, c: 2, r: 3, s: 3] -> [c, i + r - 1, j + s - 1] where 0 <= i + r - 1 and i + r - 1 < 8 and 0 <= j + s - 1 and j + s - 1 < 8
  %ww = view %w [o: 3, i: 8, j: 8, c: 2, r: 3, s: 3] -> [o, c, r, s]
  %p = mul %v, %ww
  %f = fold [o: 3, i: 8, j: 8, c: 2, r: 3, s: 3] over [c, r, s] { sum %p[o, i, j, c, r, s] }
  %y = get %f, 0
  return y = %y
}
)"},
      {"gather", R"(symbol t: 1..32
fn @main(%x: f32[12, 20], %l: i32[t], %w: f32[20, 8]) {
  %g = view %x [i: t, d: 20] with row = %l[i] in 0..11 -> [row, d]
  %gv = view %g [i: t, n: 8, d: 20] -> [i, d]
  %wv = view %w [i: t, n: 8, d: 20] -> [d, n]
  %p = mul %gv, %wv
  %f = fold [i: t, n: 8, d: 20] over [d] { sum %p[i, n, d] }
  %y = get %f, 0
  return y = %y, g = %g
}
)"},
      {"own_index", R"(fn @main(%x: i64[6, 20], %t: f32[20]) {
  %f = fold [i: 6, k: 20] over [k] { min %x[i, k] }
  %h = get %f, 0
  %g = view %t [i: 6] with row = %h[i] in 0..19 fill -> [row] fill 0
  return h = %h, g = %g
}
)"},
      {"running", R"(fn @main(%x: f32[6, 20]) {
  %e = exp %x
  %f = scan [i: 6, k: 20] along k { sum %e[i, k] }
  %y = get %f, 0
  return y = %y
}
)"},
      {"top2", R"(fn @main(%x: f32[6, 20]) {
  %none = const f32 -inf
  %f = fold [i: 6, k: 20] over [k] {
    max %x[i, k];
    max(max(self, select(old0 < new0, old0, -inf))) %none[]
  }
  %a = get %f, 0
  %b = get %f, 1
  return a = %a, b = %b
}
)"},
      {"sum_of_some", R"(fn @main(%x: f32[3, 7]) {
  %e = exp %x
  %f = fold [i: 3, j: 7] over [i] where i == 0 { sum %e[i, j] }
  %s = get %f, 0
  %sv = view %s [i: 3, j: 7] -> [j]
  %q = div %e, %sv
  %g = fold [i: 3, j: 7] over [i] { sum %q[i, j] }
  %y = get %g, 0
  return y = %y
}
)"},
      {"masked", R"(fn @main(%x: f32[6, 20], %v: f32[20], %s: bool[6, 20], %p: bool[20]) {
  %one = const f32 1
  %no = const f32 -inf
  %nos = view %no [i: 6, k: 20] -> []
  %ps = view %p [i: 6, k: 20] -> [k]
  %xs = select %s, %x, %nos
  %xp = select %ps, %nos, %xs
  %f = fold [i: 6, k: 20] over [k] {
    max %xp[i, k];
    sum(select(old0 == -inf, 0, self * exp(old0 - new0))) %one[];
    sum(select(old0 == -inf, 0, self * exp(old0 - new0))) %v[k]
  }
  %l = get %f, 1
  %o = get %f, 2
  %y = div %o, %l
  return y = %y
}
)"},
      {"keys", R"(fn @main(%x: f32[6, 20], %v: f32[20], %p: bool[20], %g: bool[8], %l: i32[20]) {
  %no = const f32 -inf
  %nos = view %no [i: 6, k: 20] -> []
  %ps = view %p [i: 6, k: 20] -> [k]
  %z = mul %x, %x
  %zs = select %ps, %z, %nos
  %f = fold [i: 6, k: 20] over [k] {
    max %zs[i, k];
    sum(select(old0 == -inf, 0, self * exp(old0 - new0))) %v[k]
  }
  %y = get %f, 1
  %gs = view %g [i: 6, k: 20] with place = %l[k] in 0..7 -> [place]
  %xg = select %gs, %x, %nos
  %h = fold [i: 6, k: 20] over [k] {
    max %xg[i, k];
    sum(select(old0 == -inf, 0, self * exp(old0 - new0))) %v[k]
  }
  %u = get %h, 1
  return z = %z, y = %y, u = %u
}
)"},
      {"rows", R"(symbol r: 0..40
fn @main(%x: f32[r, 20], %c: f32[r]) {
  %cc = view %c [i: r, j: 20] -> [i]
  %y = mul %x, %cc
  %f = fold [i: r, j: 20] over [j] { sum %y[i, j] }
  %s = get %f, 0
  return y = %y, s = %s
}
)"},
      {"append", R"(symbol past: 0..50
symbol s: 1..12
assume past + s <= 64
fn @main(state %cache: f16[64, 8], %k: f32[s, 8]) {
  %h = cast f16 %k
  %next = scatter set %cache, %h [t: s, d: 8] -> [past + t, d] unique
  return next = %next -> cache
}
)"},
      {"added", R"(fn @main(%x: f32[20, 4], %l: i32[20], %base: f32[9, 4]) {
  %y = scatter sum %base, %x [t: 20, d: 4] with row = %l[t] in 0..8 -> [row, d]
  return y = %y
}
)"},
      {"chain", R"(fn @main(%x: f32[6, 20], %w: f32[20, 5]) {
  %e = exp %x
  %m = fold [i: 6, k: 20] over [k] { max %x[i, k] }
  %mm = get %m, 0
  %mv = view %mm [i: 6, k: 20] -> [i]
  %d = sub %e, %mv
  %dv = view %d [i: 6, j: 5, k: 20] -> [i, k]
  %wv = view %w [i: 6, j: 5, k: 20] -> [k, j]
  %p = mul %dv, %wv
  %f = fold [i: 6, j: 5, k: 20] over [k] where k <= i + 3 { sum %p[i, j, k] }
  %y = get %f, 0
  return y = %y, d = %d
}
)"},
      {"running_top", R"(fn @main(%x: f32[6, 20]) {
  %none = const f32 -inf
  %f = scan [i: 6, k: 20] along k {
    max %x[i, k];
    max(max(self, select(old0 < new0, old0, -inf))) %none[]
  }
  %a = get %f, 0
  %b = get %f, 1
  return a = %a, b = %b
}
)"},
      {"nothing", R"(fn @main(%x: f32[6, 0]) {
  %y = exp %x
  return y = %y
}
)"},
      {"sums", R"(symbol n: 0..64
fn @main(%x: f32[6, n]) {
  %e = exp %x
  %f = fold [i: 6, k: n] over [k] { sum %e[i, k] }
  %s = get %f, 0
  %y = sqrt %s
  return y = %y
}
)"},
      {"halves", R"(fn @main(%a: bf16[6, 32], %b: bf16[32, 20]) {
  %ai = cast f32 %a
  %bi = cast f32 %b
  %x = view %ai [i: 6, j: 20, k: 32] -> [i, k]
  %y = view %bi [i: 6, j: 20, k: 32] -> [k, j]
  %p = mul %x, %y
  %f = fold [i: 6, j: 20, k: 32] over [k] where k <= i { sum %p[i, j, k] }
  %c = get %f, 0
  return c = %c
}
)"},
      {"packed", R"(fn @main(%w: u8[6, 18], %x: f32[16]) {
  %q = view %w [i: 6, j: 16] -> [i, j + 2]
  %n = bitcast i8 %q
  %h = view %w [i: 6, j: 2] -> [i, j]
  %hb = bitcast f16 %h
  %hf = cast f32 %hb
  %s = view %hf [i: 6, j: 16] -> [i, 0]
  %f = cast f32 %n
  %p = mul %f, %s
  %xv = view %x [i: 6, j: 16] -> [j]
  %y = mul %p, %xv
  %g = fold [i: 6, j: 16] over [j] { sum %y[i, j] }
  %r = get %g, 0
  return r = %r
}
)"},
      {"steps", R"(fn @main(%x: f32[2, 20], %w: f32[4]) {
  %v = view %x [b: 2, i: 8, r: 4] -> [b, 2*i + 3*r - 2] where 0 <= 2*i + 3*r - 2 and 2*i + 3*r - 2 < 20
  %ww = view %w [b: 2, i: 8, r: 4] -> [r]
  %p = mul %v, %ww
  %f = fold [b: 2, i: 8, r: 4] over [r] { sum %p[b, i, r] }
  %y = get %f, 0
  return y = %y
}
)"},
      {"shifted", R"(symbol n: 4..30
fn @main(%x: f32[n], %c: f32[8]) {
  %v = view %x [i: n, j: 8] -> [i + j - 3] where 0 <= i + j - 3 and i + j - 3 < n
  %cc = view %c [i: n, j: 8] -> [j]
  %p = mul %v, %cc
  %f = fold [i: n, j: 8] over [j] where j <= i { sum %p[i, j] }
  %y = get %f, 0
  return y = %y
}
)"},
      {"thirds", R"(fn @main(%a: bf16[6, 32], %b: bf16[32, 20]) {
  %ai = cast f32 %a
  %bi = cast f32 %b
  %x = view %ai [i: 6, j: 20, k: 32] -> [i, k]
  %y = view %bi [i: 6, j: 20, k: 32] -> [k, j]
  %p = mul %x, %y
  %f = fold [i: 6, j: 20, k: 32] over [k] where (i + k) % 3 < 2 { sum %p[i, j, k] }
  %c = get %f, 0
  return c = %c
}
)"},
      {"any", R"(fn @main(%x: bool[6, 20]) {
  %f = fold [i: 6, k: 20] over [k] { any %x[i, k] }
  %y = get %f, 0
  return y = %y
}
)"},
      {"scaled", R"(fn @main(%s: f32, %x: f32[6, 20]) {
  %v = view %s [i: 6, k: 20] -> []
  %p = mul %v, %x
  %f = fold [i: 6, k: 20] over [k] { sum %p[i, k] }
  %y = get %f, 0
  return y = %y
}
)"},
      {"repeated", R"(fn @main(%x: f32[8, 4]) {
  %v = view %x [i: 24, j: 4] -> [i // 3, j]
  %y = exp %v
  return y = %y
}
)"},
      {"below", R"(fn @main(%x: f32[20, 4], %l: i32[20], %base: f32[9, 4]) {
  %y = scatter sum %base, %x [t: 20, d: 4] with row = %l[t] in 0..8 -> [row, d] where d <= t
  return y = %y
}
)"},
      {"plain", R"(fn @main(%a: bf16[6, 32], %b: bf16[32, 20]) {
  %ai = cast f32 %a
  %bi = cast f32 %b
  %x = view %ai [i: 6, j: 20, k: 32] -> [i, k]
  %y = view %bi [i: 6, j: 20, k: 32] -> [k, j]
  %p = mul %x, %y
  %f = fold [i: 6, j: 20, k: 32] over [k] { sum %p[i, j, k] }
  %c = get %f, 0
  %r = exp %c
  return r = %r
}
)"},
      {"inner", R"(fn @main(%a: bf16[64], %b: bf16[64]) {
  %x = cast f32 %a
  %y = cast f32 %b
  %p = mul %x, %y
  %f = fold [k: 64] over [k] { sum %p[k] }
  %c = get %f, 0
  return c = %c
}
)"},
      {"added_beside", R"(fn @main(%x: f32[20, 4], %l: i32[20], %base: f32[9, 4]) {
  %e = exp %x
  %y = scatter sum %base, %x [t: 20, d: 4] with row = %l[t] in 0..8 -> [row, d]
  return e = %e, y = %y
}
)"},
      {"wide", R"(symbol n: 1..40
fn @main(%x: f32[6, n, 12]) {
  %f = fold [i: 6, j: n, k: 12] over [k] { sum %x[i, j, k] }
  %c = get %f, 0
  %r = exp %c
  return r = %r
}
)"},
  };
  return modules;
}

/// What `lower` says of the schedule.
inline std::string refusal(const std::string& module, std::string schedule) {
  std::ranges::replace(schedule, ';', '\n');
  const Module parsed = parse_module(small_modules().at(module), module);
  const bool in_place = module == "append" || module == "added" || module == "below";
  const auto cone = cone_of(parsed.entry(), in_place);
  if (!cone) return cone.error();
  const auto kernel = lower(*cone, parse_schedule(schedule));
  return kernel ? "accepted" : kernel.error();
}

/// A schedule that has no loops, and what is said of it.
struct RefusedSchedule {
  const char *module, *schedule; ///< the directives, with ; between them
  const char* message;
};
inline void expect_refused(std::span<const RefusedSchedule> rows) {
  for (const auto& [module, schedule, message] : rows)
    EXPECT_EQ(refusal(module, schedule), std::string("[schedule] main: ") + message)
        << module << ": " << schedule;
}

} // namespace luminal::kernel
