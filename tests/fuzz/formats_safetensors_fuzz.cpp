// fuzz/formats_safetensors_fuzz.cpp -- the safetensors reader; what it accepts is written and read
// again.
#include "formats/parse.h"
#include "formats/safetensors.h"
#include <cstdlib>

using namespace luminal;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto content = parse_safetensors(std::as_bytes(std::span(data, size)), "f");
  if (!content) return 0;
  volatile unsigned sum = 0;
  for (const auto& tensor : content->tensors)
    for (const auto byte : tensor.bytes) sum = sum + std::to_integer<unsigned>(byte);
  const auto written = serialize_safetensors(content->tensors, content->metadata);
  if (!written) std::abort();
  const auto again = parse_safetensors(detail::as_bytes(*written), "again");
  if (!again || again->tensors.size() != content->tensors.size() || again->metadata != content->metadata)
    std::abort();
  return 0;
}
