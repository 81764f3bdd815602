// formats/audio.cpp -- reading sound by libsndfile; resampling.
#include "formats/audio.h"
#include "base/file.h"
#include "formats/parse.h"
#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <numbers>
#include <numeric>
#include <sndfile.h>

namespace luminal {
namespace {

using namespace detail;

constexpr int64_t max_samples = int64_t(1) << 28; // 4.6 hours at 16 kHz, 1 GiB of floats

/// The bytes as the library reads files.
struct Source {
  std::span<const std::byte> bytes;
  sf_count_t at = 0;
};
sf_count_t source_size(void* of) { return sf_count_t(static_cast<Source*>(of)->bytes.size()); }
sf_count_t source_seek(sf_count_t offset, int whence, void* of) {
  auto& source = *static_cast<Source*>(of);
  const sf_count_t size = source_size(of);
  const sf_count_t base = whence == SEEK_CUR ? source.at : whence == SEEK_END ? size : 0;
  if (offset < -base || offset > size - base) return -1;
  return source.at = base + offset;
}
sf_count_t source_read(void* into, sf_count_t count, void* of) {
  auto& source = *static_cast<Source*>(of);
  count = std::clamp<sf_count_t>(count, 0, source_size(of) - source.at);
  if (count > 0) std::memcpy(into, source.bytes.data() + source.at, size_t(count));
  source.at += count;
  return count;
}
sf_count_t source_write(const void* /*from*/, sf_count_t /*count*/, void* /*of*/) { return 0; }
sf_count_t source_tell(void* of) { return static_cast<Source*>(of)->at; }

/// A RIFF file states the size of its samples: where fewer are there the library reads what it finds.
/// 0 and the largest number stand in files that were written into a pipe.
void refuse_cut_wav(std::span<const std::byte> bytes, std::string_view file) {
  const std::string_view text = as_text(bytes);
  if (text.size() < 12 || !text.starts_with("RIFF") || text.substr(8, 4) != "WAVE") return;
  const auto number = [&](size_t at) {
    uint32_t value = 0;
    for (size_t i = 4; i-- > 0;) value = value << 8 | uint8_t(text[at + i]);
    return value;
  };
  for (uint64_t at = 12; at + 8 <= text.size();) {
    const uint64_t size = number(at + 4), there = text.size() - at - 8;
    if (text.substr(at, 4) == "data") {
      if (size > there && size < 0xFFFFFF00)
        refuse_at(file, text.size(),
                  fmt::format("the file ends early: {} bytes of samples, its header says {}", there, size));
      return;
    }
    at += 8 + size + size % 2;
  }
}

double bessel(double x) { // I0
  double sum = 1, term = 1;
  for (int k = 1; term > sum * 1e-12; k++) sum += term *= (x / 2 / k) * (x / 2 / k);
  return sum;
}

} // namespace

Result<Audio> parse_audio(std::span<const std::byte> bytes, std::string_view file_name) {
  return guarded(file_name, [&] {
    if (bytes.empty()) refuse_at(file_name, 0, "an empty file, expected sound (WAV, FLAC, MP3, Ogg)");
    refuse_cut_wav(bytes, file_name);
    SF_VIRTUAL_IO io{source_size, source_seek, source_read, source_write, source_tell};
    Source source{bytes};
    SF_INFO info{};
    const std::unique_ptr<SNDFILE, int (*)(SNDFILE*)> file(sf_open_virtual(&io, SFM_READ, &info, &source),
                                                           sf_close);
    if (!file)
      refuse(file_name,
             fmt::format("not sound that can be read (WAV, FLAC, MP3, Ogg): {}", sf_strerror(nullptr)));
    if (info.samplerate < 1000 || info.samplerate > 768000 || info.channels < 1 || info.channels > 64)
      refuse(file_name, fmt::format("{} channels of {} samples a second, expected 1 to 64 of 1000 to 768000",
                                    info.channels, info.samplerate));
    const auto refuse_long = [&] {
      refuse(file_name, fmt::format("more than {} samples, which is more than is read", max_samples));
    };
    // Of FLAC and Ogg the number may be missing, or a lie.
    if (info.frames > max_samples && (info.format & SF_FORMAT_TYPEMASK) == SF_FORMAT_WAV) refuse_long();
    Audio audio{info.samplerate, {}, info.channels};
    const auto channels = size_t(info.channels);
    constexpr size_t block = 4096;
    std::vector<float> frames(block * channels);
    for (;;) {
      const sf_count_t count = sf_readf_float(file.get(), frames.data(), sf_count_t(block));
      if (count <= 0) break;
      if (int64_t(audio.samples.size()) + count > max_samples) refuse_long();
      for (size_t i = 0; i < size_t(count); i++) {
        float sum = 0;
        for (size_t c = 0; c < channels; c++) sum += frames[i * channels + c];
        sum /= float(channels);
        audio.samples.push_back(std::isfinite(sum) ? sum : 0);
      }
    }
    if (sf_error(file.get()) != SF_ERR_NO_ERROR)
      refuse(file_name, fmt::format("cannot be read behind sample {}: {}", audio.samples.size(),
                                    sf_strerror(file.get())));
    const int format = info.format & SF_FORMAT_TYPEMASK;
    if (format == SF_FORMAT_FLAC && info.frames > 0 && info.frames < max_samples &&
        info.frames > int64_t(audio.samples.size()))
      refuse(file_name, fmt::format("the file ends early: {} samples, its header says {}",
                                    audio.samples.size(), info.frames));
    if (audio.samples.empty()) refuse(file_name, "sound without a sample");
    return audio;
  });
}

Result<Audio> open_audio(const std::string& path) {
  auto file = MappedFile::open(path);
  if (!file) return file.failure();
  return parse_audio(file->bytes(), path);
}

std::vector<float> resampled(std::span<const float> samples, int64_t from, int64_t to) {
  if (from < 1 || to < 1)
    throw Error(fmt::format("[resampled] {} and {} samples a second: both must be above 0", from, to));
  if (from == to) return {samples.begin(), samples.end()};
  const int64_t common = std::gcd(from, to), up = to / common, down = from / common;
  // The filter lets pass what both rates have: a sinc of `crossings` zeros on each side, in a Kaiser
  // window, somewhat below the edge so that its slope ends there.
  constexpr double crossings = 32, beta = 8;
  const double cut = 0.95 * std::min(1.0, double(up) / double(down)), reach = crossings / cut;
  const auto size = int64_t(samples.size()), half = int64_t(std::ceil(reach));
  const auto weight = [&](double distance) {
    if (std::fabs(distance) >= reach) return 0.0;
    const double x = std::numbers::pi * distance * cut, part = distance / reach;
    return cut * (x == 0 ? 1 : std::sin(x) / x) * bessel(beta * std::sqrt(1 - part * part)) / bessel(beta);
  };
  // New sample i stands at i * down / up: there are `up` places between old samples, each with its own
  // weights, kept where they are few.
  std::vector<std::vector<float>> kept(size_t(up <= 4096 ? up : 0));
  const auto weights_at = [&](int64_t phase) {
    std::vector<float> list(size_t(2 * half + 1));
    double sum = 0;
    for (int64_t k = -half; k <= half; k++) {
      const double w = weight(double(k) - double(phase) / double(up));
      list[size_t(k + half)] = float(w);
      sum += w;
    }
    for (float& w : list) w = float(w / sum); // a constant stays what it is
    return list;
  };
  std::vector<float> out(size_t((size * up + down - 1) / down));
  std::vector<float> single;
  for (int64_t i = 0; i < int64_t(out.size()); i++) {
    const int64_t place = i * down / up, phase = i * down % up;
    std::vector<float>& weights = kept.empty() ? single : kept[size_t(phase)];
    if (kept.empty() || weights.empty()) weights = weights_at(phase);
    const int64_t first = std::max<int64_t>(0, place - half), last = std::min(size - 1, place + half);
    double sum = 0;
    for (int64_t k = first; k <= last; k++)
      sum += double(weights[size_t(k - place + half)]) * double(samples[size_t(k)]);
    out[size_t(i)] = float(sum);
  }
  return out;
}

} // namespace luminal
