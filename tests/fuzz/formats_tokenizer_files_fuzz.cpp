// fuzz/formats_tokenizer_files_fuzz.cpp -- the older files of vocabularies: models of SentencePiece,
// ranks of tiktoken, vocab.txt, vocab.json with merges.txt; an accepted one encodes and decodes a text.
#include "formats/parse.h"
#include "formats/tokenizer.h"
#include <cstdlib>
#include <string_view>

using namespace luminal;

namespace {

void use(const Result<Tokenizer>& tokenizer) {
  if (!tokenizer) return;
  try {
    const auto ids = tokenizer->encode("ab the  cat <s>\n\xC3\xA9 \xC2\xBD 12 ab", {true, true});
    for (const int32_t id : ids)
      if (id < 0 || id >= tokenizer->size()) std::abort();
    if (detail::find_invalid_utf8(tokenizer->decode(ids, true))) std::abort();
  } catch (const Error&) { // a character that the vocabulary cannot express
  }
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  use(tokenizer_from_sentencepiece(text, "f"));
  use(tokenizer_from_tiktoken(text, "f"));
  use(tokenizer_from_vocabulary_lines(text, "f"));
  const size_t cut = text.find('\0'); // the merges stand behind it
  use(tokenizer_from_vocabulary(
      text.substr(0, cut), cut == std::string_view::npos ? std::string_view() : text.substr(cut + 1), "f"));
  return 0;
}
