// fuzz/formats_gguf_fuzz.cpp -- the GGUF reader, what reads its metadata, and its writer.
#include "formats/gguf.h"
#include "formats/lora_file.h"
#include "formats/model_config.h"
#include "formats/parse.h"
#include "formats/quants.h"
#include "formats/tokenizer.h"
#include <cstdlib>

using namespace luminal;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto content = parse_gguf(std::as_bytes(std::span(data, size)), "f");
  if (!content) return 0;
  for (const auto& tensor : content->tensors)
    if (tensor.elements() < 1 << 20) (void)dequantize(tensor);
  for (const auto& [key, value] : content->metadata)
    if (detail::find_invalid_utf8(value.describe())) std::abort();
  if (const auto config = config_from_gguf(*content)) (void)rope_table(*config);
  if (const auto adapter = lora_from_gguf(*content, "f"))
    for (const LoraPair& pair : adapter->pairs)
      if (pair.a.elements() < 1 << 20 && pair.b.elements() < 1 << 20) {
        const auto left = pair.left_values(), right = pair.right_values();
        if (left && left->size() != size_t(pair.rows * pair.rank)) std::abort();
        if (right && right->size() != size_t(pair.columns * pair.rank)) std::abort();
      }
  if (const auto tokenizer = tokenizer_from_gguf(*content)) {
    try {
      const auto ids = tokenizer->encode("the  cat \n\xC3\xA9 12", {true, true});
      if (detail::find_invalid_utf8(tokenizer->decode(ids, true))) std::abort();
    } catch (const Error&) { // a character that the vocabulary cannot express
    }
  }
  // An empty key is read (older files have them) but not written.
  const auto written = serialize_gguf(content->metadata, content->tensors, content->alignment);
  if (!written) return 0;
  const auto again = parse_gguf(detail::as_bytes(*written), "again");
  if (!again || again->tensors.size() != content->tensors.size()) std::abort();
  return 0;
}
