// models/batch.h -- several texts of one model at once: continuous batching (Yu et al. 2022, Orca). A step
// takes tokens of any of them, so weights are read once for all; a text that ends makes room for another.
#pragma once
#include "models/draft_batch.h"
#include <map>
#include <optional>

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
  /// Rows of a picture; 0: texts have none.
  int64_t image_rows() const { return model_.image.defined() ? model_.image.shape()[0].value() : 0; }

  /// How a text goes on.
  struct How {
    SamplerOptions sampling;
    std::shared_ptr<TokenGrammar> grammar = nullptr; ///< of the new tokens; none: any may follow
    /// What a draft need not go beyond: the tokens that are wanted (-1: all) and one that ends the text.
    int64_t most = -1;
    std::function<bool(int32_t)> is_end = {};
    int64_t likeliest = -1; ///< logarithms of probabilities are wanted, of so many tokens besides; -1: none
    /// Of a model with pictures: its rows, for which tokens from vocab_size on stand. None: a text without.
    std::shared_ptr<const std::vector<float>> picture = nullptr;
  };
  /// A text that begins with these tokens, in a free slot: that whose tokens of before agree the longest,
  /// which then are not computed again. What another text has in common with it is copied, and waited for
  /// where that one is being read still. Throws Error where all places are taken, or the tokens do not fit.
  Id start(std::vector<int32_t> prompt, How how);
  /// One step: gives the new token of every text that has got one, and several in their order where the
  /// draft's were accepted, of each text as many as were. Texts whose prompt is longer than a step get none
  /// yet. A text goes on until it is finished; one whose context is full gets no more tokens.
  struct Next {
    Id id;
    int32_t token;
    bool full;                                  ///< the context is: the text cannot go on
    std::string error = {};                     ///< why no token follows: the grammar leaves none
    bool done = false;                          ///< by the grammar nothing may follow
    int64_t proposed = 0, accepted = 0;         ///< tokens of the draft; stated with the first of a step
    std::optional<TokenLogprobs> logprobs = {}; ///< of this token, where they are wanted
  };
  std::vector<Next> step();
  /// Ends a text; its slot is free, and remembers its tokens.
  void finish(Id id);
  /// Tokens of the prompt that were there already, or were copied; final with the first new token.
  int64_t reused(Id id) const { return texts_.at(id).reused; }

private:
  struct Text {
    int64_t slot = 0, reused = 0;
    std::vector<int32_t> tokens; ///< prompt and what was generated
    size_t computed = 0;         ///< of them, those in the cache
    How how;
    Sampler sampler, drawing; ///< drawing: of the draft
    size_t end;               ///< no more tokens are wanted
  };
  /// What the cache of a slot holds.
  struct Remembered {
    std::vector<int32_t> tokens;
    std::shared_ptr<const std::vector<float>> picture;
  };
  using Picture = std::shared_ptr<const std::vector<float>>;
  size_t shared_tokens(const std::vector<int32_t>& tokens, const Picture& picture,
                       const std::vector<int32_t>& prompt, const How& how) const;
  void take_tokens(Text& text, int64_t from, size_t count);
  bool waits_for_another(Id id, Text& text);
  std::map<Id, std::vector<Proposal>> proposals();
  std::vector<Next> accept(Id id, std::span<const Proposal> proposals, std::span<const float> logits);
  Llama model_;
  int64_t slots_ = 0;
  bool on_host_ = true; ///< caches lie in this program's memory
  DraftBatch* draft_;
  Id next_id_ = 1;
  std::map<Id, Text> texts_;
  int64_t prefix_ = 0;                 ///< tokens of a picture, which one step takes
  std::vector<Remembered> remembered_; ///< by slot
  std::vector<bool> taken_;
  std::vector<float> logits_;
};

} // namespace luminal::models
