// models/batch.cpp -- which tokens a step takes, and where they stand.
#include "models/batch.h"
#include "base/check.h"
#include <algorithm>
#include <fmt/format.h>

namespace luminal::models {
namespace {

size_t common_prefix(const std::vector<int32_t>& a, const std::vector<int32_t>& b) {
  return size_t(std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first - a.begin());
}

} // namespace

Batch::Batch(const ModelFile& file, const BatchOptions& options)
    : slots_(options.model.slots), draft_(options.draft) {
  if (slots_ < 1) throw Error(fmt::format("a batch of {} texts: at least 1 is expected", slots_));
  LlamaOptions how = options.model;
  if (draft_ != nullptr) how.rows = draft_->count() + 1;
  how.chunk = std::max({how.chunk, slots_, how.rows}); // every text gets its token, and proposals fit
  model_ = make_llama(file, how);
  CompileOptions compile = options.compile;
  if (compile.weights_id.empty()) compile.weights_id = file.identity();
  if (compile.sizes.empty())
    for (const auto& [name, size] : typical_sizes(model_)) compile.sizes[name] = size;
  model_.graph.compile(compile);
  remembered_.resize(size_t(slots_));
  taken_.resize(size_t(slots_), false);
}

Batch::Id Batch::start(std::vector<int32_t> prompt, const SamplerOptions& sampling,
                       std::shared_ptr<TokenGrammar> grammar, int64_t most,
                       std::function<bool(int32_t)> is_end) {
  if (prompt.empty()) throw Error("a text needs a token to begin with");
  if (int64_t(prompt.size()) > model_.context)
    throw Error(fmt::format("the text has {} tokens, the context holds {}", prompt.size(), model_.context));
  for (const int32_t token : prompt)
    if (token < 0 || token >= model_.config.vocab_size)
      throw Error(fmt::format("token {} is outside the vocabulary of {}", token, model_.config.vocab_size));
  int64_t slot = -1;
  size_t shared = 0;
  for (int64_t s = 0; s < slots_; s++) {
    if (taken_[size_t(s)]) continue;
    const size_t here = common_prefix(remembered_[size_t(s)], prompt);
    if (slot < 0 || here > shared) slot = s, shared = here;
  }
  if (slot < 0) throw Error(fmt::format("all {} places are taken", slots_));
  shared = std::min(shared, prompt.size() - 1); // the last token is computed: its logits are wanted
  taken_[size_t(slot)] = true;
  const Id id = next_id_++;
  const size_t end = most < 0 ? SIZE_MAX : prompt.size() + size_t(most);
  if (!is_end) is_end = [](int32_t) { return false; };
  texts_.emplace(id,
                 Text{slot, int64_t(shared), std::move(prompt), shared, Sampler(sampling), std::move(grammar),
                      Sampler(Draft::drawing_options(sampling)), end, std::move(is_end)});
  return id;
}

/// What the draft has to say of the text that waits for its next token alone.
std::vector<Proposal> Batch::proposals() {
  if (draft_ == nullptr || texts_.size() != 1) return {};
  Text& text = texts_.begin()->second;
  if (text.tokens.size() - text.computed != 1) return {};
  const auto size = int64_t(text.tokens.size());
  const auto wanted = int64_t(std::min(text.end, size_t(INT32_MAX))) - size;
  return draft_->propose(std::span(text.tokens).first(text.computed), text.tokens.back(),
                         std::min({wanted - 1, model_.context - size, model_.chunk - 1}), text.drawing);
}

/// The tokens that come in place of proposals, whose logits have been computed.
std::vector<Batch::Next> Batch::accept(Id id, std::span<const Proposal> proposals) {
  Text& text = texts_.at(id);
  const size_t begin = text.computed; // behind the token in front of the proposals
  std::vector<int32_t> all = text.tokens;
  for (const Proposal& proposal : proposals) all.push_back(proposal.token);
  Accepted got;
  try {
    got = accept_proposals(proposals, logits_, all, text.sampler, text.is_end, text.grammar.get());
  } catch (const Error& error) {
    return {{id, 0, false, error.what()}};
  }
  std::vector<Next> result;
  for (const int32_t token : got.tokens) {
    const bool full = int64_t(text.tokens.size()) >= model_.context;
    if (!full) text.tokens.push_back(token);
    result.push_back({id, token, full});
  }
  result.back().done = text.grammar && text.grammar->done();
  result.front().proposed = int64_t(proposals.size());
  result.front().accepted = got.proposals;
  // What was accepted is in the cache; the last token is computed by the next step.
  text.computed = begin + got.tokens.size() - 1;
  return result;
}

std::vector<Batch::Next> Batch::step() {
  const std::vector<Proposal> proposed = proposals();
  std::vector<int32_t> tokens, slot, position, rows;
  std::vector<Id> answered;
  int64_t filled = 1, left = model_.chunk;
  const auto take = [&](Id id, Text& text, int64_t most) {
    const auto count = std::min(int64_t(text.tokens.size() - text.computed), most);
    for (int64_t i = 0; i < count; i++) {
      tokens.push_back(text.tokens[text.computed]);
      slot.push_back(int32_t(text.slot));
      position.push_back(int32_t(text.computed++));
    }
    if (count == 0) return;
    filled = std::max(filled, int64_t(text.computed));
    left -= count;
    if (text.computed == text.tokens.size()) {
      rows.push_back(int32_t(tokens.size() - 1));
      answered.push_back(id);
    }
  };
  // Texts that wait for their next token come first; prompts share what is left of the step.
  for (auto& [id, text] : texts_)
    if (text.tokens.size() - text.computed == 1) take(id, text, 1);
  for (auto& [id, text] : texts_) take(id, text, left);
  if (tokens.empty()) return {};
  for (const Proposal& proposal : proposed) {
    rows.push_back(int32_t(tokens.size()));
    slot.push_back(slot.back());
    position.push_back(position.back() + 1);
    tokens.push_back(proposal.token);
    filled++;
  }
  if (rows.empty()) rows.push_back(0); // no text has got so far: any row will do
  Graph& g = model_.graph;
  g.set_dim("n", int64_t(tokens.size()));
  g.set_dim("m", int64_t(rows.size()));
  g.set_dim("filled", filled);
  model_.tokens.set(tokens);
  model_.slot.set(slot);
  model_.position.set(position);
  model_.rows.set(rows);
  g.execute();
  const auto vocabulary = size_t(model_.config.vocab_size);
  logits_.resize(rows.size() * vocabulary);
  model_.logits.read(logits_.data(), DType::f32);
  if (!proposed.empty()) return accept(answered.front(), proposed); // no other text is active
  std::vector<Next> result;
  for (size_t i = 0; i < answered.size(); i++) {
    Text& text = texts_.at(answered[i]);
    const bool full = int64_t(text.tokens.size()) >= model_.context;
    const auto logits = std::span<const float>(logits_).subspan(i * vocabulary, vocabulary);
    try {
      const int32_t token = sample(text.sampler, logits, text.tokens, text.grammar.get());
      if (!full) text.tokens.push_back(token);
      result.push_back({answered[i], token, full, {}, text.grammar && text.grammar->done()});
    } catch (const Error& error) { // of this text alone
      result.push_back({answered[i], 0, full, error.what()});
    }
  }
  return result;
}

void Batch::finish(Id id) {
  const auto at = texts_.find(id);
  if (at == texts_.end()) return;
  Text& text = at->second;
  text.tokens.resize(text.computed); // what is in the cache
  remembered_[size_t(text.slot)] = std::move(text.tokens);
  taken_[size_t(text.slot)] = false;
  texts_.erase(at);
}

} // namespace luminal::models
