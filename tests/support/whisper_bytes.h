// support/whisper_bytes.h -- files of whisper.cpp, made piece by piece.
#pragma once
#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace luminal {

struct WhisperBytes {
  std::string bytes = "lmgg";

  void integer(int64_t value) {
    const auto v = uint32_t(value);
    for (int i = 0; i < 4; i++) bytes += char(v >> (8 * i) & 255);
  }
  /// In the order of the file: vocabulary; context, width, heads and layers of sound, then of text; filters;
  /// type.
  void sizes(const std::array<int64_t, 11>& values) {
    for (const int64_t value : values) integer(value);
  }
  void filters(int64_t mels, std::span<const float> values) {
    integer(mels), integer(int64_t(values.size()) / mels);
    bytes.append(reinterpret_cast<const char*>(values.data()), values.size_bytes());
  }
  void tokens(std::span<const std::string> list) {
    integer(int64_t(list.size()));
    for (const std::string& token : list) integer(int64_t(token.size())), bytes += token;
  }
  /// shape: outermost first; type: ggml's number.
  void tensor(std::string_view name, int64_t type, std::span<const int64_t> shape, std::string_view data) {
    integer(int64_t(shape.size())), integer(int64_t(name.size())), integer(type);
    for (size_t i = shape.size(); i-- > 0;) integer(shape[i]);
    bytes += name;
    bytes += data;
  }
};

} // namespace luminal
