// models/speech_model.h -- a Whisper model that is ready to run: the spectrum of sound, what is heard in
// 30 seconds of it, and the decoder token by token, several texts at once.
#pragma once
#include "formats/tokenizer.h"
#include "luminal/models.h"
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace luminal::models {

/// The tokens that tell Whisper what to do. Tokens from `end` on carry no text.
struct SpeechTokens {
  int32_t end = 0, start = 0;           ///< <|endoftext|>, <|startoftranscript|>
  int32_t previous = 0, no_speech = 0;  ///< <|startofprev|>, <|nospeech|>
  int32_t no_times = 0, first_time = 0; ///< <|notimestamps|>, <|0.00|>
  std::optional<int32_t> transcribe, translate;
  std::vector<std::pair<std::string, int32_t>> languages; ///< "en", ..; empty: the model knows English only
  std::vector<int32_t> blank, silenced; ///< no text begins with; never chosen: signs that are not speech
};
/// Throws Error for a tokenizer without one of them.
SpeechTokens speech_tokens(const Tokenizer& tokenizer);

class SpeechModel {
public:
  static constexpr int64_t rate = 16000, hop = 160; ///< samples a second; between two frames
  /// `path`: a file of whisper.cpp; or a Hugging Face folder, or a safetensors file with its config.json and
  /// tokenizer beside it, whose tensors have the names of transformers or of openai/whisper. `texts`: most
  /// texts at once.
  SpeechModel(const std::string& path, int64_t texts, int threads = 0);

  /// Samples at 16 kHz and 30 seconds of silence behind them -> [mels, frames]: see log_mel.
  struct Spectrum {
    std::vector<float> values;
    int64_t frames = 0, content = 0; ///< content: those that begin in the sound itself
  };
  Spectrum spectrum(std::span<const float> samples);
  int64_t window() const { return 2 * config_.audio_context; } ///< frames that are heard at once
  /// Hears the window of the spectrum that begins at this frame; texts begin anew.
  void listen(const Spectrum& spectrum, int64_t frame);

  /// A text of the decoder: its tokens so far, as places in the cache.
  using Places = std::vector<int32_t>;
  /// Forgets all texts; what was heard stays.
  void restart() { filled_ = 0; }
  /// The tokens in turn behind each other, as one text that begins it -> logits [rows of them, vocabulary].
  std::span<const float> begin(std::span<const int32_t> tokens, std::span<const int32_t> rows, Places& text);
  /// One token more for each text -> logits [texts, vocabulary]; texts that share a beginning share places.
  std::span<const float> append(std::span<const int32_t> tokens, std::span<Places> texts);

  const WhisperConfig& config() const { return config_; }
  const Tokenizer& tokenizer() const { return *tokenizer_; }
  const SpeechTokens& tokens() const { return tokens_; }

private:
  std::span<const float> step(std::span<const int32_t> tokens, std::span<const int32_t> positions,
                              std::span<const uint8_t> seen, std::span<const int32_t> rows);
  WhisperConfig config_;
  std::optional<Tokenizer> tokenizer_;
  SpeechTokens tokens_;
  int64_t filled_ = 0, capacity_ = 0;
  Graph sound_, listener_, writer_;
  Tensor samples_, frames_, mel_, tokens_in_, positions_in_, seen_in_, rows_in_, logits_out_;
  std::vector<Tensor> heard_out_, heard_in_;
  std::vector<float> logits_;
};

} // namespace luminal::models
