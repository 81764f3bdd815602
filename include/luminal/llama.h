// luminal/llama.h -- a language model that is ready to run: a GGUF file, a safetensors file or a
// Hugging Face folder with a Llama in it.
//
//   LanguageModel model("model.gguf");
//   std::cout << model.generate("Once upon a time", 100);
#pragma once
#include "luminal/graph.h"
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace luminal {

/// Which token comes next: the samplers of llama.cpp, its defaults and its order (penalties, top-k,
/// top-p, min-p, temperature).
struct SamplerOptions {
  double temperature = 0.8;     ///< 0: the likeliest token, always
  int top_k = 40;               ///< only the k likeliest; 0: all
  double top_p = 0.95;          ///< only the likeliest that together reach p; 1: all
  double min_p = 0.05;          ///< only those at least this fraction of the likeliest; 0: all
  double repeat_penalty = 1.0;  ///< divides positive and multiplies negative logits of recent tokens; 1: off
  int repeat_last = 64;         ///< how many tokens are recent; 0: none, -1: all
  double frequency_penalty = 0; ///< subtracted once for each occurrence
  double presence_penalty = 0;  ///< subtracted once if it occurs
  uint64_t seed = 0;
  std::map<int32_t, double> logit_bias = {}; ///< added to the logits of these tokens, in front of all else
};

struct LanguageModelOptions {
  int64_t context = 0; ///< positions of the key-value cache; 0: what the model declares, at most 4096
  int64_t chunk = 128; ///< most tokens of one step of the graph; longer inputs take several
  DType cache_type = DType::f32; ///< f32, or f16 for half the memory
  /// What products read of their activations: "exact"; "bf16" with bf16 weights and "q8" with
  /// quantised ones are faster and less exact (see `luminal run`).
  std::string activations = "exact";
  SamplerOptions sampler = {};
  CompileOptions compile = {};
};

/// The model, its key-value cache and its sampler. For one thread at a time.
class LanguageModel {
public:
  using Where = std::source_location;
  /// Maps the files, makes the graph and compiles it. Throws Error for what is missing or not
  /// supported.
  explicit LanguageModel(const std::string& path, const LanguageModelOptions& options = {},
                         Where where = Where::current());
  LanguageModel(LanguageModel&&) noexcept;
  LanguageModel& operator=(LanguageModel&&) noexcept;
  ~LanguageModel();

  // ---- text ----
  /// Token ids of a text. Names of special tokens in it ("<|im_end|>") become these tokens where
  /// `parse_special` says so.
  std::vector<int32_t> encode(std::string_view text, bool parse_special = false,
                              Where where = Where::current()) const;
  /// Valid UTF-8; special tokens give no text.
  std::string decode(std::span<const int32_t> tokens, Where where = Where::current()) const;
  bool is_end(int32_t token) const; ///< of a text or a turn

  // ---- a step ----
  /// Appends tokens to the text and gives the logits of what follows the last one: one number for
  /// each token of the vocabulary, valid until the next step. Throws Error where they do not fit
  /// the context.
  std::span<const float> step(std::span<const int32_t> tokens, Where where = Where::current());
  std::span<const float> step(std::initializer_list<int32_t> tokens, Where where = Where::current()) {
    return step(std::span(tokens.begin(), tokens.size()), where);
  }
  /// The next token by the logits of the last step. It is not appended: the next step does that.
  int32_t sample(Where where = Where::current());
  /// Forgets the text, and the sampler starts from its seed again.
  void reset();

  // ---- all of it ----
  /// Called with each piece of text, whole characters only; returns false to stop.
  using OnText = std::function<bool(std::string_view piece)>;
  /// Continues the text so far with the prompt and up to `count` tokens (-1: until the model ends
  /// it or the context is full). Gives the new text.
  std::string generate(std::string_view prompt, int64_t count = -1, const OnText& on_text = {},
                       Where where = Where::current());

  int64_t vocabulary() const, context() const, position() const; ///< position: tokens so far
  const std::string& name() const;                               ///< as the file calls it
  Graph& graph();                                                ///< its weights and its report

private:
  struct State;
  std::unique_ptr<State> state_;
};

} // namespace luminal
