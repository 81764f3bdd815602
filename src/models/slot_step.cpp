// models/slot_step.cpp -- the inputs of a step of a model with slots.
#include "models/slot_step.h"
#include "base/check.h"
#include <algorithm>

namespace luminal::models {

void SlotStep::add(int32_t token, int64_t slot, int64_t position, int64_t sees) {
  tokens_.push_back(token);
  slot_.push_back(int32_t(slot));
  position_.push_back(int32_t(position));
  sees_.push_back(int32_t(sees));
  filled_ = std::max({filled_, position + 1, sees + 1});
}

int64_t SlotStep::want_logits() {
  rows_.push_back(int32_t(tokens_.size()) - 1);
  return int64_t(rows_.size()) - 1;
}

void SlotStep::run(Llama& model, std::vector<float>& logits) {
  LUMINAL_CHECK(!tokens_.empty(), "a step without tokens");
  if (rows_.empty()) rows_.push_back(0); // the graph has one row at least
  Graph& g = model.graph;
  g.set_dim("n", int64_t(tokens_.size()));
  g.set_dim("m", int64_t(rows_.size()));
  g.set_dim("filled", filled_);
  model.tokens.set(tokens_);
  model.slot.set(slot_);
  model.position.set(position_);
  if (model.sees.defined()) model.sees.set(sees_);
  model.rows.set(rows_);
  g.execute();
  logits.resize(rows_.size() * size_t(model.config.vocab_size));
  model.logits.read(logits.data(), DType::f32);
}

} // namespace luminal::models
