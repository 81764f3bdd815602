// models/speech_decoder.h -- the text of one window of sound: which tokens Whisper may say, beam search,
// sampling, and when to try again (Radford et al. 2022, arXiv:2212.04356, section 4.5; openai/whisper).
#pragma once
#include "models/speech_model.h"
#include <random>

namespace luminal::models {

struct SpeechOptions {
  std::string language;                           ///< "en"; empty: heard in the first window
  bool translate = false;                         ///< into English
  bool times = true;                              ///< time stamps; without them a window is one segment
  int64_t beams = 5;                              ///< of the search at temperature 0; 1: greedy
  int64_t best_of = 5;                            ///< texts that are sampled at other temperatures
  double temperature = 0, temperature_step = 0.2; ///< up to 1, until a text is good enough; 0: once
  double compression_limit = 2.4, likelihood_limit = -1, no_speech_limit = 0.6;
  bool follow = true; ///< a window's text begins from that of the window before
  std::string prompt; ///< text before the first window: names, spelling
  uint64_t seed = 0;
  int64_t texts() const { return std::max(beams, best_of); }
};

/// The text of a window.
struct SpeechText {
  std::vector<int32_t> tokens; ///< without the end token; time stamps among them
  double likelihood = 0;       ///< mean log probability of a token
  double compression = 0;      ///< bytes of the text for each of its compressed form: high where it repeats
  double no_speech = 0;        ///< probability that nobody speaks
  double temperature = 0;
};

/// Sets the logits of tokens that may not follow `said`, the text of a window so far, to -inf.
void apply_speech_rules(std::span<float> logits, std::span<const int32_t> said, const SpeechTokens& tokens,
                        bool times);

class SpeechDecoder {
public:
  SpeechDecoder(SpeechModel& model, const SpeechOptions& options);
  /// Of what the model heard last. The language is that of the options, or "" where the model has one only.
  std::string detect_language();
  /// `before`: tokens of the text before the window.
  SpeechText decode(std::span<const int32_t> before, const std::string& language);

private:
  SpeechText try_once(std::span<const int32_t> begin, size_t start, double temperature);
  struct Candidate {
    std::vector<int32_t> said;
    SpeechModel::Places places;
    double sum = 0; // of log probabilities
    bool ended = false;
    double score() const { return sum / double(std::max<size_t>(1, said.size() - (ended ? 1 : 0))); }
  };
  void extend_beams(std::vector<Candidate>& texts, std::span<const float> logits,
                    std::vector<Candidate>& finished) const;
  void extend_samples(std::vector<Candidate>& texts, std::span<const float> logits, double temperature);
  std::vector<float> allowed(std::span<const float> logits, std::span<const int32_t> said) const;
  SpeechModel& model_;
  SpeechOptions options_;
  std::mt19937_64 random_;
};

} // namespace luminal::models
