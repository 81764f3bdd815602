// fuzz/formats_grammar_fuzz.cpp -- GBNF, and JSON schemas as GBNF: what can be read is followed a little.
#include "formats/grammar.h"
#include "luminal/error.h"
#include <cstdlib>

using namespace luminal;

namespace {
void follow(const Grammar& grammar) {
  try {
    GrammarMachine machine(std::make_shared<Grammar>(grammar));
    GrammarMachine::State state = machine.start();
    for (int i = 0; i < 24; i++) {
      int byte = 0; // the first that may follow
      while (byte < 256 && machine.next(state, uint8_t(byte)) == GrammarMachine::nowhere) byte++;
      if (byte == 256) {
        if (machine.may_go_on(state)) std::abort();
        return;
      }
      state = machine.next(state, uint8_t(byte));
    }
  } catch (const Error&) { // too ambiguous
  }
}
} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (const auto grammar = parse_grammar(text, "f")) follow(*grammar);
  if (const auto rules = grammar_of_json_schema(text, "f")) {
    const auto grammar = parse_grammar(*rules, "s"); // what is written can be read
    if (!grammar) std::abort();
    follow(*grammar);
  }
  return 0;
}
