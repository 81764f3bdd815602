// models/generator.h -- a model that is ready to run: prompt in chunks, one token after the other,
// the cache in between.
#pragma once
#include "models/llama.h"
#include "models/sampler.h"
#include "models/token_grammar.h"
#include <functional>
#include <string>

namespace luminal::models {

struct GeneratorOptions {
  LlamaOptions model;
  CompileOptions compile;
};

/// Times in seconds.
struct GeneratorTimes {
  double build = 0, compile = 0, load = 0; ///< graph; plan and code; memory and values computed at load
  double prompt = 0, generation = 0;       ///< of the last `generate`
  double first_token = 0;                  ///< from the start of `generate` to the first token
  int64_t prompt_tokens = 0, generated_tokens = 0;
};

class Draft;

enum class StopReason : uint8_t { length, end_of_text, stop_string, context, interrupted };
std::string_view to_string(StopReason reason);

class Generator {
public:
  /// What the process will have in memory at its peak, before anything is allocated (bytes).
  struct Estimate {
    int64_t weights = 0, cache = 0, working = 0; ///< working: values of a step, and the program itself
    int64_t total() const { return weights + cache + working; }
  };
  static Estimate estimate(const ModelFile& file, const LlamaOptions& options);

  /// `where`: as for make_llama.
  Generator(const ModelFile& file, const GeneratorOptions& options, std::source_location where = {});

  /// The rows of the picture that tokens behind the vocabulary stand for: LlamaOptions::image_rows of the
  /// hidden size.
  void set_image(std::span<const float> rows) { model_.image.set(rows); }
  /// Forgets the text so far.
  void reset();
  /// Forgets what stands behind the first `position` tokens. Throws Error where there are fewer.
  void rewind(int64_t position);
  /// The text so far is these tokens: Llama::caches have their keys and values, or get them when more is fed.
  /// Throws Error, with both numbers, where they do not fit the context.
  void restore(std::span<const int32_t> tokens);
  /// Called by `generate` when the prompt has been fed.
  void when_prompt_is_fed(std::function<void()> call) { prompt_fed_ = std::move(call); }
  /// The tokens so far.
  std::span<const int32_t> history() const { return history_; }
  /// Appends tokens and returns the logits of the last one. Throws Error with both numbers when
  /// they do not fit the context.
  std::span<const float> feed(std::span<const int32_t> tokens);
  /// Appends tokens and gives the logits [rows, vocabulary] behind the last `count` of them: in the
  /// order of the text, a part after the other. Needs LlamaOptions::rows where count > 1.
  using OnLogits = std::function<void(std::span<const float> rows)>;
  void feed(std::span<const int32_t> tokens, int64_t count, const OnLogits& on_logits);

  /// Called with each new token; returns false to stop.
  using OnToken = std::function<bool(int32_t token)>;
  /// Feeds the prompt, then samples up to `count` tokens (-1: until the context is full). `is_end`
  /// names tokens that end the text; they are not given out. Where CompileOptions::stop says so the
  /// text ends within the present step: `interrupted`, and what follows needs reset().
  /// grammar: of the new tokens; where nothing but the end may follow, the text has ended.
  /// draft: proposes tokens, which are checked several in one step; the model needs LlamaOptions::rows above
  /// Draft::count.
  StopReason generate(std::span<const int32_t> prompt, int64_t count, Sampler& sampler,
                      const std::function<bool(int32_t)>& is_end, const OnToken& on_token,
                      TokenGrammar* grammar = nullptr, Draft* draft = nullptr);

  /// The token after the last `feed`. Nothing is appended.
  int32_t sample(Sampler& sampler) const { return sampler.sample(logits_, history_); }

  int64_t position() const { return past_; }
  Graph& graph() { return model_.graph; }
  const Llama& model() const { return model_; }
  const GeneratorTimes& times() const { return times_; }
  std::string report() const { return model_.graph.report(); }

private:
  std::vector<int32_t> follow(int32_t last, int64_t left, Sampler& sampler,
                              const std::function<bool(int32_t)>& is_end, TokenGrammar* grammar,
                              Draft* draft);
  Llama model_;
  std::function<bool()> stop_; // of the compile options
  std::function<void()> prompt_fed_;
  GeneratorTimes times_;
  std::vector<int32_t> history_;
  std::vector<float> logits_; // behind the last token
  std::vector<float> rows_;   // of the last step: [m, vocabulary]
  int64_t past_ = 0;
};

/// Finds stop strings in a stream of text pieces; gives out only what cannot be the beginning of
/// one.
class StopFinder {
public:
  explicit StopFinder(std::vector<std::string> stops) : stops_(std::move(stops)) {}
  /// The text that may be shown; `stopped` becomes true when a stop string was met (text from it on
  /// is dropped).
  std::string push(std::string_view piece);
  std::string finish();
  bool stopped() const { return stopped_; }

private:
  std::vector<std::string> stops_;
  std::string held_;
  bool stopped_ = false;
};

} // namespace luminal::models
