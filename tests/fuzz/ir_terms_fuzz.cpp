// tests/fuzz/ir_terms_fuzz.cpp -- the text of modules under fire: whatever is accepted is well formed, comes back from its own text, and can be drawn.
#include "base/check.h"
#include "ir/term.h"
#include <cstddef>
#include <cstdint>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace luminal;
  if (size > 20000) return 0;
  try {
    Module module = parse_module({reinterpret_cast<const char*>(data), size});
    std::string text = to_string(module);
    LUMINAL_CHECK(same_module(module, parse_module(text)), "{}", text);
    dynamic_checks(module);
    structural_hash(module.entry());
    to_dot(module);
    to_html(module);
  } catch (const Error&) {
  }
  return 0;
}
