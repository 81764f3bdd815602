// fuzz/egg_program_fuzz.cpp -- any text is a program or an Error with a place; what parses prints
// and parses back, and runs to an end.
#include "egg/egg_program.h"
#include "luminal/error.h"
#include <cstdio>
#include <cstdlib>
#include <string>

using namespace luminal;
using namespace luminal::egraph;

namespace {

void require(bool condition, const char* what) {
  if (condition) return;
  std::fprintf(stderr, "%s\n", what);
  std::abort();
}

/// Runs with limits small enough for any text.
void run(const std::string& text) {
  EggOptions options;
  options.files = false;
  options.iterations = 40;
  options.limits.rows = 3000;
  options.limits.classes = 3000;
  options.limits.bytes = 1 << 24;
  options.limits.steps = 20000;
  std::string told;
  options.output = [&](const EggOutput& out) { told = out.text; };
  EggProgram program(options);
  try {
    program.run(text, "fuzz");
  } catch (const Error& error) {
    require(std::string(error.what()).find("fuzz:") != std::string::npos, "an error without a place");
  }
  require(!program.sizes().empty(), "no sizes");
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size > 1 << 13) return 0;
  const std::string text(reinterpret_cast<const char*>(data), size);
  std::string printed;
  try {
    printed = format_egg(text, "fuzz");
  } catch (const Error& error) {
    require(std::string(error.what()).starts_with("fuzz:"), "an error without a place");
  }
  try {
    require(format_egg(printed, "printed") == printed, "a printed program prints differently");
  } catch (const Error&) {
    require(false, "a printed program does not parse");
  }
  run(text);
  return 0;
}
