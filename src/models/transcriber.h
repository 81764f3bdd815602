// models/transcriber.h -- sound of any length to text with times: windows of 30 seconds, each beginning
// where the last whole segment of the one before ends.
#pragma once
#include "formats/subtitles.h"
#include "models/speech_decoder.h"
#include <functional>

namespace luminal::models {

/// A line of the text, with what was measured of its window.
struct SpeechSegment {
  TimedText line;              ///< seconds from the beginning, and the text
  std::vector<int32_t> tokens; ///< time stamps among them
  SpeechText window;           ///< without tokens
  int64_t frame = 0;           ///< at which the window begins, 10 ms each
};

struct Transcript {
  std::string language; ///< "en"
  double seconds = 0;   ///< of sound
  std::vector<SpeechSegment> segments;
  bool stopped = false;     ///< by on_segment
  std::string text() const; ///< of all segments
};

class Transcriber {
public:
  /// Throws Error for what is not a Whisper model, and for a language that it does not know.
  Transcriber(const std::string& path, const SpeechOptions& options, int threads = 0)
      : model_(path, options.texts(), threads), decoder_(model_, options), options_(options) {}
  /// Called with each segment; returns false to stop.
  using OnSegment = std::function<bool(const SpeechSegment&)>;
  /// samples: one channel at 16 kHz.
  Transcript transcribe(std::span<const float> samples, const OnSegment& on_segment = {});
  const SpeechModel& model() const { return model_; }

private:
  /// Cuts the text of a window into segments; returns the frames to go on by.
  int64_t cut(const SpeechText& text, int64_t frame, int64_t frames,
              std::vector<SpeechSegment>& segments) const;
  SpeechModel model_;
  SpeechDecoder decoder_;
  SpeechOptions options_;
};

} // namespace luminal::models
