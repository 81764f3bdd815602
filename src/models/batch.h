// models/batch.h -- several texts of one model at once: continuous batching (Yu et al. 2022, Orca). A step
// takes tokens of any of them, so weights are read once for all; a text that ends makes room for another.
#pragma once
#include "models/draft_batch.h"
#include <map>

namespace luminal::models {

struct BatchOptions {
  LlamaOptions model; ///< slots: texts at once
  CompileOptions compile;
  /// Proposes tokens for each text that is written, with as many slots as the model at least. It outlives
  /// the batch, and no other text goes through it.
  DraftBatch* draft = nullptr;
};

/// For one thread at a time.
class Batch {
public:
  using Id = uint64_t;
  Batch(const ModelFile& file, const BatchOptions& options);

  int64_t context() const { return model_.context; }
  int64_t slots() const { return slots_; }
  int64_t active() const { return int64_t(texts_.size()); }
  bool has_room() const { return active() < slots_; }
  const ModelConfig& config() const { return model_.config; }

  /// A text that begins with these tokens, in a free slot: that whose tokens of before agree the longest,
  /// which then are not computed again. Throws Error where there is no room, or the tokens do not fit.
  /// grammar: of the new tokens, none: any may follow. most, is_end: what a draft need not go beyond, the
  /// tokens that are wanted (-1: all) and one that ends the text.
  Id start(std::vector<int32_t> prompt, const SamplerOptions& sampling,
           std::shared_ptr<TokenGrammar> grammar = nullptr, int64_t most = -1,
           std::function<bool(int32_t)> is_end = {});
  /// One step: gives the new token of every text that has got one, and several in their order where the
  /// draft's were accepted, of each text as many as were. Texts whose prompt is longer than a step get none
  /// yet. A text goes on until it is finished; one whose context is full gets no more tokens.
  struct Next {
    Id id;
    int32_t token;
    bool full;                          ///< the context is: the text cannot go on
    std::string error = {};             ///< why no token follows: the grammar leaves none
    bool done = false;                  ///< by the grammar nothing may follow
    int64_t proposed = 0, accepted = 0; ///< tokens of the draft; stated with the first of a step
  };
  std::vector<Next> step();
  /// Ends a text; its slot is free, and remembers its tokens.
  void finish(Id id);
  /// Tokens of the prompt that were there already.
  int64_t reused(Id id) const { return texts_.at(id).reused; }

private:
  struct Text {
    int64_t slot = 0, reused = 0;
    std::vector<int32_t> tokens; ///< prompt and what was generated
    size_t computed = 0;         ///< of them, those in the cache
    Sampler sampler;
    std::shared_ptr<TokenGrammar> grammar;
    Sampler drawing; ///< of the draft
    size_t end;      ///< no more tokens are wanted
    std::function<bool(int32_t)> is_end;
  };
  std::map<Id, std::vector<Proposal>> proposals();
  std::vector<Next> accept(Id id, std::span<const Proposal> proposals, std::span<const float> logits);
  Llama model_;
  int64_t slots_ = 0;
  DraftBatch* draft_;
  Id next_id_ = 1;
  std::map<Id, Text> texts_;
  std::vector<std::vector<int32_t>> remembered_; ///< tokens in the cache of each slot
  std::vector<bool> taken_;
  std::vector<float> logits_;
};

} // namespace luminal::models
