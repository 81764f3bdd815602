// models/slot_step.h -- one step of a model with slots: which tokens it takes, of which texts, and the logits
// behind some of them.
#pragma once
#include "models/llama.h"

namespace luminal::models {

class SlotStep {
public:
  bool empty() const { return tokens_.empty(); }
  int64_t size() const { return int64_t(tokens_.size()); }
  /// `token` stands at `position` of the text in `slot` and sees it up to position `sees`, which is as much
  /// but for tokens of a picture.
  void add(int32_t token, int64_t slot, int64_t position, int64_t sees);
  void add(int32_t token, int64_t slot, int64_t position) { add(token, slot, position, position); }
  /// The logits behind the token that was added last are wanted. Returns which row of them that is.
  int64_t want_logits();
  /// Runs the step, which has a token at least. logits: [rows, vocabulary], one row where none is wanted.
  void run(Llama& model, std::vector<float>& logits);

private:
  std::vector<int32_t> tokens_, slot_, position_, sees_, rows_;
  int64_t filled_ = 1;
};

} // namespace luminal::models
