// models/draft.h -- speculative decoding: a small model proposes tokens, the model checks all of them in one
// step. What comes is distributed as the model alone has it (Leviathan, Kalman, Matias 2023,
// arXiv:2211.17192; Chen et al. 2023, arXiv:2302.01318).
#pragma once
#include "models/generator.h"

namespace luminal::models {

/// A token that may come next, and the distribution it was drawn from.
struct Proposal {
  int32_t token = 0;
  std::vector<TokenShare> from;
};

/// What comes in place of proposals: those of them that are accepted, and one token more, unless the text
/// ends with an accepted one.
struct Accepted {
  std::vector<int32_t> tokens;
  int64_t proposals = 0; ///< of them, how many were proposed
};
/// logits [proposals + 1, vocabulary]: of the model, behind the token in front of the proposals and behind
/// each of them. text: all tokens, the proposals included. A proposal is accepted with probability
/// min(1, p / q), p of the model and q of the draft; in place of the first that is not, a token comes from
/// the positive part of p - q. With temperature 0 that is the likeliest token of the model, always.
Accepted accept_proposals(std::span<const Proposal> proposals, std::span<const float> logits,
                          std::span<const int32_t> text, Sampler& sampler,
                          const std::function<bool(int32_t)>& is_end, TokenGrammar* grammar = nullptr);

/// The model that proposes for one text (several: models/draft_batch.h). For one thread at a time.
class Draft {
public:
  /// `target`: the file of the model that checks. `count`: most tokens in one proposal. Throws Error where
  /// the vocabularies differ; sizes may where both have one tokenizer, whose tokens all models know.
  Draft(const ModelFile& target, const ModelFile& file, const GeneratorOptions& options, int64_t count,
        const SamplerOptions& sampling);
  /// Throws the same Error, before anything is compiled.
  static void check_vocabulary(const ModelFile& target, const ModelFile& file);

  /// Reads a text, so that less is to be read before the next proposal. Nothing where it does not fit.
  void read(std::span<const int32_t> text);
  /// What may come behind `text` and `last`: up to `most` tokens, none where they do not fit the context.
  std::vector<Proposal> propose(std::span<const int32_t> text, int32_t last, int64_t most);
  /// How a draft draws for a text that is sampled so: by numbers of its own, so that whether a token is
  /// accepted does not depend on how it was drawn.
  static SamplerOptions drawing_options(SamplerOptions sampling);
  int64_t count() const { return count_; }
  const Generator& generator() const { return generator_; }

  int64_t proposed = 0, accepted = 0; ///< tokens so far, by Generator::generate

private:
  /// False where the text does not fit.
  bool follow(std::span<const int32_t> text);
  const ModelFile& file_;
  Generator generator_;
  Sampler sampler_;
  int64_t count_;
  int64_t vocabulary_; ///< tokens that both models know
  std::vector<float> logits_;
};

} // namespace luminal::models
