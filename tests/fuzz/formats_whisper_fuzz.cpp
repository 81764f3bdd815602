// fuzz/formats_whisper_fuzz.cpp -- the reader of files of whisper.cpp.
#include "formats/parse.h"
#include "formats/quants.h"
#include "formats/whisper_file.h"
#include <cstdlib>

using namespace luminal;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto content = parse_whisper_file(std::as_bytes(std::span(data, size)), "f");
  if (!content) return 0;
  if (content->filters.size() != size_t(content->mels * content->bins)) std::abort();
  for (const TensorView& tensor : content->tensors) {
    if (detail::find_invalid_utf8(tensor.name) || content->find(tensor.name) != &tensor) std::abort();
    if (tensor.elements() < 1 << 20) (void)dequantize(tensor);
  }
  (void)whisper_tokenizer(*content);
  return 0;
}
