// fuzz/formats_tokenizer_json_fuzz.cpp -- tokenizer.json; an accepted one encodes and decodes a
// text.
#include "formats/parse.h"
#include "formats/tokenizer.h"
#include <cstdlib>
#include <string_view>

using namespace luminal;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto tokenizer = tokenizer_from_json(text, "f");
  if (!tokenizer) return 0;
  try {
    for (const bool special : {false, true}) {
      const auto ids = tokenizer->encode("ab the  cat <s>\n\xC3\xA9 12 ab", {special, special});
      for (const int32_t id : ids)
        if (id < 0 || id >= tokenizer->size()) std::abort();
      if (detail::find_invalid_utf8(tokenizer->decode(ids, special))) std::abort();
    }
  } catch (
      const Error&) { // a character that the vocabulary cannot express, or a pattern that backtracks too long
  }
  return 0;
}
