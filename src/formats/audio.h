// formats/audio.h -- sound as samples: WAV, FLAC, MP3, Ogg (Vorbis, Opus) and AIFF; other rates of
// samples.
#pragma once
#include "base/result.h"
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace luminal {

/// One channel: the mean of those in the file.
struct Audio {
  int64_t rate = 0;           ///< samples a second
  std::vector<float> samples; ///< -1 .. 1
  int64_t channels = 0;       ///< in the file
  double seconds() const { return rate > 0 ? double(samples.size()) / double(rate) : 0; }
};

/// A file that ends before its own header says so is refused; so is one without a sample, and one of
/// more than 2^28 samples a channel.
Result<Audio> parse_audio(std::span<const std::byte> bytes, std::string_view file_name);
Result<Audio> open_audio(const std::string& path);

/// The sound at another rate: what is above half of the lower rate is left out (a windowed sinc,
/// 80 dB down). As many samples as the time gives, rounded up.
std::vector<float> resampled(std::span<const float> samples, int64_t from, int64_t to);

} // namespace luminal
