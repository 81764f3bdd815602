// formats/audio_test.cpp -- sound out of files of each kind, at other rates, and what is not sound; lines of
// text with times.
#include "base/file.h"
#include "formats/audio.h"
#include "formats/subtitles.h"
#include "formats/util.h"
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <numbers>
#include <sndfile.h>
#include <sys/mman.h>
#include <unistd.h>

namespace luminal {
namespace {

using testing_formats::file_content;

std::vector<float> tone(double hertz, int64_t rate, size_t count) {
  std::vector<float> samples(count);
  for (size_t i = 0; i < count; i++)
    samples[i] = float(0.5 * std::sin(2 * std::numbers::pi * hertz * double(i) / double(rate)));
  return samples;
}
/// Largest difference, the ends left out.
double difference(const std::vector<float>& a, const std::vector<float>& b, size_t margin) {
  double most = a.size() == b.size() ? 0 : INFINITY;
  for (size_t i = margin; i + margin < std::min(a.size(), b.size()); i++)
    most = std::max(most, std::abs(double(a[i]) - double(b[i])));
  return most;
}

class AudioFiles : public ::testing::Test {
protected:
  std::string path_ =
      (std::filesystem::temp_directory_path() / fmt::format("luminal-audio-{}", getpid())).string();
  ~AudioFiles() override {
    std::error_code error;
    std::filesystem::remove(path_, error);
  }
  /// The bytes of a file: the second channel is the first one times `second`.
  std::string made(int format, int rate, const std::vector<float>& samples, int channels = 1,
                   float second = 1) const {
    SF_INFO info{};
    info.samplerate = rate, info.channels = channels, info.format = format;
    SNDFILE* file = sf_open(path_.c_str(), SFM_WRITE, &info);
    if (file == nullptr) throw Error(sf_strerror(nullptr));
    std::vector<float> frames;
    for (const float x : samples)
      for (int c = 0; c < channels; c++) frames.push_back(c == 0 ? x : x * second);
    sf_writef_float(file, frames.data(), sf_count_t(samples.size()));
    sf_close(file);
    return file_content(path_);
  }
  static Result<Audio> parse(const std::string& bytes) {
    return parse_audio(std::as_bytes(std::span(bytes)), "x");
  }
};

TEST_F(AudioFiles, EachKindGivesItsSamples) {
  const auto samples = tone(440, 16000, 16000);
  const std::tuple<const char*, int, double> kinds[] = {
      {"WAV of 16 bits", SF_FORMAT_WAV | SF_FORMAT_PCM_16, 1e-4},
      {"WAV of 8 bits", SF_FORMAT_WAV | SF_FORMAT_PCM_U8, 1e-2},
      {"WAV of floats", SF_FORMAT_WAV | SF_FORMAT_FLOAT, 0},
      {"FLAC", SF_FORMAT_FLAC | SF_FORMAT_PCM_16, 1e-4},
      {"Ogg Vorbis", SF_FORMAT_OGG | SF_FORMAT_VORBIS, 5e-2}};
  for (const auto& [what, format, tolerance] : kinds) {
    const auto audio = parse(made(format, 16000, samples));
    ASSERT_TRUE(audio) << what << ": " << audio.error();
    EXPECT_EQ(audio->rate, 16000) << what;
    EXPECT_LE(difference(audio->samples, samples, 0), tolerance) << what;
  }
  const auto mp3 = parse(made(SF_FORMAT_MPEG | SF_FORMAT_MPEG_LAYER_III, 16000, samples));
  ASSERT_TRUE(mp3) << mp3.error();
  EXPECT_NEAR(mp3->seconds(), 1, 0.1); // frames are of a fixed size
}

TEST_F(AudioFiles, ChannelsBecomeTheirMean) {
  const auto samples = tone(300, 8000, 800);
  const auto audio = parse(made(SF_FORMAT_WAV | SF_FORMAT_FLOAT, 8000, samples, 2, 0));
  ASSERT_TRUE(audio) << audio.error();
  EXPECT_EQ(audio->channels, 2);
  for (size_t i = 0; i < samples.size(); i++) ASSERT_EQ(audio->samples[i], samples[i] / 2) << i;
}

TEST_F(AudioFiles, WhatIsNoSoundIsRefused) {
  const auto error = [](const std::string& bytes) {
    const auto audio = parse(bytes);
    return audio ? "no error" : audio.error();
  };
  EXPECT_EQ(error(""), "x: offset 0: an empty file, expected sound (WAV, FLAC, MP3, Ogg)");
  EXPECT_TRUE(error("no sound at all, but a text that is long enough")
                  .starts_with("x: not sound that can be read (WAV, FLAC, MP3, Ogg): "));
  const auto samples = tone(440, 16000, 1600);
  std::string wav = made(SF_FORMAT_WAV | SF_FORMAT_PCM_16, 16000, samples);
  EXPECT_EQ(error(wav.substr(0, wav.size() - 1000)),
            "x: offset 2244: the file ends early: 2200 bytes of samples, its header says 3200");
  EXPECT_EQ(error(made(SF_FORMAT_WAV | SF_FORMAT_PCM_16, 16000, {})), "x: sound without a sample");
  EXPECT_EQ(error(made(SF_FORMAT_WAV | SF_FORMAT_PCM_16, 500, samples)),
            "x: 1 channels of 500 samples a second, expected 1 to 64 of 1000 to 768000");
  const std::string flac = made(SF_FORMAT_FLAC | SF_FORMAT_PCM_16, 16000, tone(440, 16000, 16000));
  EXPECT_NE(error(flac.substr(0, flac.size() / 2)), "no error");
  // A pipe's WAV does not know its size.
  const size_t at = wav.find("data") + 4;
  wav.replace(at, 4, "\xff\xff\xff\xff");
  const auto streamed = parse(wav);
  ASSERT_TRUE(streamed) << streamed.error();
  EXPECT_EQ(streamed->samples.size(), samples.size());
  const auto absent = open_audio("/no/such/file.wav");
  EXPECT_FALSE(absent);
}

/// Each file with its bytes changed here and there is read or refused.
/// Nothing is read of them, so zeros that take no memory do.
TEST_F(AudioFiles, LongOnesAreRefusedAtOnce) {
  const size_t size = (size_t(1) << 28) + 45;
  const std::string head = made(SF_FORMAT_WAV | SF_FORMAT_PCM_U8, 8000, tone(440, 8000, 1)).substr(0, 44);
  void* memory =
      mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  std::memcpy(memory, head.data(), head.size());
  const uint32_t riff = uint32_t(size - 8), data = uint32_t(size - 44);
  std::memcpy(static_cast<char*>(memory) + 4, &riff, 4);
  std::memcpy(static_cast<char*>(memory) + 40, &data, 4);
  const auto sound = parse_audio({static_cast<const std::byte*>(memory), size}, "long.wav");
  munmap(memory, size);
  ASSERT_FALSE(sound);
  EXPECT_EQ(sound.error(), "long.wav: more than 268435456 samples, which is more than is read");
}

TEST_F(AudioFiles, DamageInTheMiddleIsRefused) {
  const std::string whole = made(SF_FORMAT_FLAC | SF_FORMAT_PCM_16, 16000, tone(440, 16000, 40000));
  std::string refused;
  for (size_t at = whole.size() / 2; at < whole.size() && refused.empty(); at += 16) {
    std::string damaged = whole;
    for (size_t k = at; k < std::min(at + 16, whole.size()); k++) damaged[k] = char(damaged[k] ^ 0x5a);
    if (const auto sound = parse(damaged); !sound) refused = sound.error();
  }
  EXPECT_THAT(refused, testing::ContainsRegex("^x: cannot be read behind sample [0-9]+: "));
}

TEST_F(AudioFiles, ChangedBytesAreReadOrRefused) {
  uint32_t random = 7;
  const auto next = [&] { return (random = random * 1664525 + 1013904223) >> 8; };
  for (const int format : {SF_FORMAT_WAV | SF_FORMAT_PCM_16, SF_FORMAT_FLAC | SF_FORMAT_PCM_16,
                           SF_FORMAT_OGG | SF_FORMAT_VORBIS, SF_FORMAT_MPEG | SF_FORMAT_MPEG_LAYER_III}) {
    const std::string whole = made(format, 16000, tone(440, 16000, 1600));
    for (int round = 0; round < 150; round++) {
      std::string bytes = whole.substr(0, whole.size() - (round % 3 == 0 ? next() % whole.size() : 0));
      for (uint32_t k = next() % 4; k-- > 0 && !bytes.empty();)
        bytes[next() % std::min<size_t>(bytes.size(), round % 2 ? 64 : bytes.size())] = char(next());
      const auto audio = parse(bytes);
      if (audio) {
        ASSERT_LT(audio->samples.size(), size_t(1) << 22);
        for (const float x : audio->samples) ASSERT_TRUE(std::isfinite(x));
      }
    }
  }
}

TEST(Resampled, TonesStayAndWhatIsTooHighGoes) {
  for (const auto& [from, to] : {std::pair<int64_t, int64_t>{44100, 16000},
                                 {48000, 16000},
                                 {8000, 16000},
                                 {22050, 16000},
                                 {16000, 44100},
                                 {16001, 16000}}) {
    SCOPED_TRACE(fmt::format("{} to {}", from, to));
    const double hertz = 1000;
    const auto got = resampled(tone(hertz, from, size_t(from)), from, to);
    EXPECT_LE(difference(got, tone(hertz, to, size_t(to)), 400), 2e-4);
    if (from <= to) continue;
    double most = 0;
    const double high = 0.55 * double(to); // above half of the new rate
    if (high > 0.5 * double(from)) continue;
    const auto gone = resampled(tone(high, from, size_t(from)), from, to);
    for (size_t i = 400; i + 400 < gone.size(); i++) most = std::max(most, std::abs(double(gone[i])));
    EXPECT_LE(most, 1e-4);
  }
  const std::vector<float> flat(100, 0.25F);
  EXPECT_EQ(resampled(flat, 16000, 16000), flat);
  EXPECT_EQ(resampled(flat, 3, 2).size(), 67U);
  try {
    (void)resampled(flat, 0, 1);
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "[resampled] 0 and 1 samples a second: both must be above 0");
  }
}

TEST(Subtitles, Forms) {
  const std::vector<TimedText> lines{{0, 1.5, " Hello --> there."}, {3661.0404, 3662, "two\nlines\t"}};
  EXPECT_EQ(to_txt(lines), "Hello --> there.\ntwo lines\n");
  EXPECT_EQ(to_srt(lines), "1\n00:00:00,000 --> 00:00:01,500\nHello -> there.\n\n"
                           "2\n01:01:01,040 --> 01:01:02,000\ntwo lines\n\n");
  EXPECT_EQ(to_vtt(lines), "WEBVTT\n\n00:00.000 --> 00:01.500\nHello -> there.\n\n"
                           "01:01:01.040 --> 01:01:02.000\ntwo lines\n\n");
  EXPECT_EQ(to_tsv(lines), "start\tend\ttext\n0\t1500\tHello --> there.\n3661040\t3662000\ttwo lines\n");
  EXPECT_EQ(time_text(59.9996), "01:00.000"); // never 59.1000
  EXPECT_EQ(time_text(-1, true), "00:00:00.000");
}

} // namespace
} // namespace luminal
