// models/draft_batch.h -- speculative decoding for several texts at once: the small model stands in as many
// places of its cache as there are texts, and each of its steps takes a token of every one.
#pragma once
#include "models/draft.h"

namespace luminal::models {

/// For one thread at a time.
class DraftBatch {
public:
  /// `target`: the file of the model that checks. options.model.slots: texts at once. `count`: most tokens in
  /// one proposal. Throws Error as Draft does.
  DraftBatch(const ModelFile& target, const ModelFile& file, const GeneratorOptions& options, int64_t count);

  struct Wanted {
    int64_t slot = 0;              ///< where the text stands, below slots(); each of them once
    std::span<const int32_t> text; ///< all tokens so far
    int64_t most = 0;              ///< tokens that are wanted; 0: the text is read as far as one step goes
    Sampler* sampler = nullptr;    ///< made with Draft::drawing_options; where tokens are wanted
  };
  /// What may come behind each text: up to `most` tokens, none where they do not fit the context. What a slot
  /// has in common with its text of before is not computed again.
  std::vector<std::vector<Proposal>> propose(std::span<const Wanted> texts);

  int64_t count() const { return count_; }
  int64_t slots() const { return int64_t(read_.size()); }
  int64_t steps() const { return steps_; } ///< of the small model, so far

private:
  struct Running;
  std::vector<Running> prepare(std::span<const Wanted> texts);
  const ModelFile& file_;
  Llama model_;
  int64_t count_;
  int64_t vocabulary_; ///< tokens that both models know
  int64_t steps_ = 0;
  std::vector<std::vector<int32_t>> read_; ///< tokens in the cache of each slot
  std::vector<float> logits_;
};

} // namespace luminal::models
