// fuzz/formats_npy_fuzz.cpp -- .npy and .npz.
#include "formats/npy.h"
#include <cstdlib>

using namespace luminal;

namespace {
void touch(const NpyArray& array) {
  volatile unsigned sum = 0;
  for (const auto byte : array.tensor.bytes) sum = sum + std::to_integer<unsigned>(byte);
  if (storage_bytes(array.tensor.type, array.tensor.shape) != array.tensor.bytes.size()) std::abort();
}
} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  if (const auto array = parse_npy(bytes, "f")) touch(*array);
  if (const auto file = parse_npz(bytes, "f"))
    for (const auto& array : file->arrays) touch(array);
  return 0;
}
