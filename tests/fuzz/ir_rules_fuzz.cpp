// tests/fuzz/ir_rules_fuzz.cpp -- the text of rules under fire: whatever is accepted comes back
// from its own text and leaves a well-formed module.
#include "base/check.h"
#include "ir/term.h"
#include "luminal/error.h"
#include "luminal/pattern.h"
#include <cstddef>
#include <cstdint>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace luminal;
  if (size > 4000) return 0;
  static const Module module = parse_module(R"(symbol n: 1..9
    fn @main(%x: f32[n, 4], %p: f32[4], %i: i32) {
      %0 = const f32 0  %z = view %0 [a: n, b: 4] -> []
      %a = neg %x  %b = neg %a  %c = max %b, %z  %d = max %c, %z
      %t = view %d [b: 4, a: n] -> [a, b]  %e = exp2 %t
      %f = fold [b: 4, a: n] over [a] { sum %e[b, a] }  %s = get %f, 0
      %q = mul %s, %p  %r = add %q, %p  %j = add %i, %i
      return e = %e, r = %r, j = %j })");
  try {
    const Rules rules = Rules::parse({reinterpret_cast<const char*>(data), size});
    LUMINAL_CHECK(Rules::parse(rules.to_string()).names() == rules.names(), "{}", rules.to_string());
    Module copy = module;
    rules.pass().run(copy);
    LUMINAL_CHECK(verify(copy).empty(), "{}", verify(copy)[0]);
  } catch (const Error&) {
  }
  return 0;
}
