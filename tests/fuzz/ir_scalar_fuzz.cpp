// tests/fuzz/ir_scalar_fuzz.cpp -- scalar programs under fire.
#include "base/check.h"
#include "ir/scalar.h"
#include <cstddef>
#include <cstdint>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace luminal;
  if (size > 4000) return 0;
  const std::vector<std::string> names = {"self", "old0", "new0"};
  try {
    Scalar program = parse_scalar({reinterpret_cast<const char*>(data), size}, names);
    std::string text = to_string(program, names);
    LUMINAL_CHECK(program == parse_scalar(text, names), "{}", text);
    const DType leaves[] = {DType::f32, DType::f32, DType::f32};
    typed(program, leaves, DType::f32);
  } catch (const Error&) {
  }
  return 0;
}
