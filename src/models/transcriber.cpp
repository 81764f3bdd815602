// models/transcriber.cpp -- windows, segments, and the text that goes on from one window to the next.
#include "models/transcriber.h"
#include "base/text.h"
#include <algorithm>

namespace luminal::models {
namespace {

constexpr double frame_seconds = 0.01;
constexpr int64_t stamp_frames = 2; // between two time stamps

} // namespace

std::string Transcript::text() const {
  std::string all;
  for (const SpeechSegment& segment : segments) all += segment.line.text;
  return all;
}

int64_t Transcriber::cut(const SpeechText& text, int64_t frame, int64_t frames,
                         std::vector<SpeechSegment>& segments) const {
  const SpeechTokens& t = model_.tokens();
  const std::vector<int32_t>& said = text.tokens;
  const auto is_time = [&](size_t i) { return said[i] >= t.first_time; };
  const auto stamp = [&](int32_t token) { return int64_t(token - t.first_time) * stamp_frames; };
  const auto add = [&](size_t from, size_t to, int64_t first, int64_t last) {
    SpeechSegment segment{
        {}, {said.begin() + std::ptrdiff_t(from), said.begin() + std::ptrdiff_t(to)}, text, frame};
    segment.window.tokens.clear();
    segment.line.start = double(frame + first) * frame_seconds;
    segment.line.end = double(frame + last) * frame_seconds;
    std::vector<int32_t> words;
    for (const int32_t token : segment.tokens)
      if (token < t.end) words.push_back(token);
    // What continues a text keeps the space in front of its first word.
    StreamDecoder decoder(model_.tokenizer(), false, true);
    for (const int32_t token : words) segment.line.text += decoder.push(token);
    segment.line.text += decoder.finish();
    if (first < last && !trim(segment.line.text).empty()) segments.push_back(std::move(segment));
  };
  // Two time stamps beside each other end a segment and begin the next one.
  std::vector<size_t> ends;
  for (size_t i = 1; i < said.size(); i++)
    if (is_time(i - 1) && is_time(i)) ends.push_back(i);
  const bool whole = said.size() >= 2 && !is_time(said.size() - 2) && is_time(said.size() - 1);
  if (ends.empty()) {
    int64_t last = frames;
    for (size_t i = 0; i < said.size(); i++)
      if (is_time(i) && said[i] != t.first_time) last = stamp(said[i]);
    add(0, said.size(), 0, last);
    return frames;
  }
  if (whole) ends.push_back(said.size());
  size_t from = 0;
  for (const size_t to : ends) {
    add(from, to, stamp(said[from]), stamp(said[to - 1]));
    from = to;
  }
  // Behind the last pair something was begun that the next window hears from its beginning.
  return whole ? frames : std::max<int64_t>(stamp(said[from - 1]), stamp_frames);
}

Transcript Transcriber::transcribe(std::span<const float> samples, const OnSegment& on_segment) {
  const SpeechModel::Spectrum spectrum = model_.spectrum(samples);
  Transcript transcript{.seconds = double(samples.size()) / double(SpeechModel::rate)};
  std::vector<int32_t> before; // tokens of the text so far
  if (!options_.prompt.empty())
    before = model_.tokenizer().encode(" " + std::string(trim(options_.prompt)), {.add_special = false});
  bool known = false;
  for (int64_t frame = 0; frame < spectrum.content;) {
    model_.listen(spectrum, frame);
    if (!known) transcript.language = decoder_.detect_language(), known = true;
    const SpeechText text = decoder_.decode(before, transcript.language);
    const int64_t frames = std::min(model_.window(), spectrum.content - frame);
    if (text.no_speech > options_.no_speech_limit && text.likelihood <= options_.likelihood_limit) {
      frame += frames;
      continue;
    }
    std::vector<SpeechSegment> segments;
    const int64_t step = cut(text, frame, frames, segments);
    // A text that had to be sampled is not one to go on from.
    if (!options_.follow || text.temperature > 0.5) before.clear();
    for (SpeechSegment& segment : segments) {
      if (options_.follow && text.temperature <= 0.5)
        before.insert(before.end(), segment.tokens.begin(), segment.tokens.end());
      transcript.segments.push_back(std::move(segment));
      if (on_segment && !on_segment(transcript.segments.back())) {
        transcript.stopped = true;
        return transcript;
      }
    }
    frame += step;
  }
  if (transcript.language.empty()) transcript.language = "en";
  return transcript;
}

} // namespace luminal::models
