// formats/other_kind.cpp -- what a file is that is not what was expected.
#include "formats/other_kind.h"
#include <algorithm>
#include <utility>

namespace luminal {

std::string_view other_kind(std::span<const std::byte> bytes) {
  const std::string_view head(reinterpret_cast<const char*>(bytes.data()), std::min<size_t>(bytes.size(), 8));
  if (bytes.empty()) return "";
  constexpr std::pair<std::string_view, std::string_view> magics[] = {
      {"GGUF", "a GGUF file"},
      {"\x93NUMPY", "an array of NumPy (.npy)"},
      {"PK\x03\x04", "a zip archive (.npz, .pt)"},
      {"\177ELF", "a program or library (ELF)"},
      {"\x1f\x8b", "compressed (gzip)"},
  };
  for (const auto& [magic, kind] : magics)
    if (head.starts_with(magic)) return kind;
  const bool text = std::ranges::all_of(
      head, [](unsigned char c) { return (c >= ' ' && c < 0x7f) || c == '\n' || c == '\r' || c == '\t'; });
  return text ? "a text file" : "";
}

} // namespace luminal
