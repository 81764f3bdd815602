// fuzz/formats_audio_fuzz.cpp -- sound: WAV, FLAC, MP3, Ogg, AIFF; short ones at another rate.
#include "formats/audio.h"
#include <cmath>
#include <cstdlib>

using namespace luminal;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto audio = parse_audio(std::as_bytes(std::span(data, size)), "f");
  if (!audio) return 0;
  if (audio->rate < 1 || audio->channels < 1 || audio->samples.empty()) std::abort();
  if (audio->samples.size() > 1000 || audio->rate > 200000) return 0;
  const auto other = resampled(audio->samples, audio->rate, 16000);
  const double wanted = std::ceil(double(audio->samples.size()) * 16000 / double(audio->rate));
  if (std::abs(double(other.size()) - wanted) > 1) std::abort();
  return 0;
}
