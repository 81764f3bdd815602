// tests/fuzz/ir_terms_fuzz.cpp -- the text of modules under fire: whatever is accepted is well
// formed, comes back from its own text, can be drawn, and stays well formed in all passes.
#include "base/check.h"
#include "ir/term.h"
#include "luminal/pass.h"
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
    for (const Pass& pass : all_passes()) {
      Module after = module;
      pass.run(after);
      const auto mistakes = verify(after);
      LUMINAL_CHECK(mistakes.empty(), "{}: {}\n{}", pass.name(), mistakes[0], text);
      LUMINAL_CHECK(same_module(after, parse_module(to_string(after))), "{}\n{}", pass.name(), text);
    }
  } catch (const Error&) {
  }
  return 0;
}
