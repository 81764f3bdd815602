// formats/tokenizer_characters.cpp -- the table of characters of a SentencePiece normalizer: a
// double array of byte strings (Darts-clone, https://github.com/s-yata/darts-clone) and the texts
// that they become.
#include "formats/parse.h"
#include "formats/tokenizer_model.h"
#include <cstring>

namespace luminal::detail {

CharacterTable::CharacterTable(std::string_view bytes, std::string_view file) {
  uint32_t size = 0;
  if (bytes.size() >= 4) std::memcpy(&size, bytes.data(), 4);
  if (bytes.size() < 8 || size < 4 || size % 4 != 0 || size > bytes.size() - 4)
    refuse(file, fmt::format("a table of characters of {} bytes whose index has {}: truncated?", bytes.size(),
                             size));
  units_.resize(size / 4);
  std::memcpy(units_.data(), bytes.data() + 4, size);
  texts_ = bytes.substr(4 + size);
}

std::string_view CharacterTable::text_at(uint32_t offset) const {
  if (offset >= texts_.size()) return {};
  const std::string_view rest = std::string_view(texts_).substr(offset);
  return rest.substr(0, rest.find('\0'));
}

/// Bits of a unit: the label of the edge that leads here (or a value, in a leaf), whether a leaf
/// follows, and how far away the next units are.
template <class Found> void CharacterTable::entries(std::string_view text, Found found) const {
  const auto offset = [](uint32_t unit) { return unit >> 10 << ((unit & (1U << 9)) >> 6); };
  uint32_t at = offset(units_[0]);
  for (size_t i = 0; i < text.size() && text[i] != 0; ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    at ^= byte;
    if (at >= units_.size()) return;
    const uint32_t unit = units_[at];
    if ((unit & ((1U << 31) | 255)) != byte) return;
    at ^= offset(unit);
    if (at >= units_.size()) return;
    if ((unit >> 8 & 1) != 0 && !found(i + 1, units_[at] & ((1U << 31) - 1))) return;
  }
}

size_t CharacterTable::longest(std::string_view text, std::string_view& out) const {
  size_t best = 0;
  entries(text, [&](size_t length, uint32_t value) {
    best = length;
    out = text_at(value);
    return true;
  });
  return best;
}

std::optional<std::string_view> CharacterTable::shortest(std::string_view text) const {
  std::optional<std::string_view> out;
  entries(text, [&](size_t, uint32_t value) {
    out = text_at(value);
    return false;
  });
  return out;
}

} // namespace luminal::detail
