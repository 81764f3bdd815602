// models/batch.cpp -- which tokens a step takes, and where they stand.
#include "models/batch.h"
#include "base/check.h"
#include "luminal/device.h"
#include "models/slot_step.h"
#include <algorithm>
#include <cstring>
#include <fmt/format.h>
#include <set>

namespace luminal::models {
namespace {

size_t common_prefix(const std::vector<int32_t>& a, const std::vector<int32_t>& b) {
  return size_t(std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first - a.begin());
}

/// Fewer tokens in common are computed again.
constexpr size_t least_shared = 16;

} // namespace

Batch::Batch(const ModelFile& file, const BatchOptions& options)
    : slots_(options.model.slots), draft_(options.draft) {
  if (slots_ < 1) throw Error(fmt::format("a batch of {} texts: at least 1 is expected", slots_));
  LlamaOptions how = options.model;
  prefix_ = how.prefix;
  how.chunk = std::max(how.chunk, slots_ + prefix_); // every text gets its token, beside a picture
  if (draft_ != nullptr) {
    LUMINAL_CHECK(draft_->slots() >= slots_, "a draft for {} texts, the batch has {}", draft_->slots(),
                  slots_);
    how.chunk = std::max(how.chunk, draft_->count() + 1); // the proposals for one fit
    how.rows = std::min(how.chunk, slots_ * (draft_->count() + 1));
  }
  model_ = make_llama(file, how);
  compile_llama(model_, file, options.compile);
  if (model_.image.defined())
    model_.image.set(std::vector<float>(size_t(image_rows() * model_.config.hidden_size)));
  on_host_ = model_.graph.device().name() == "cpu";
  remembered_.resize(size_t(slots_));
  taken_.resize(size_t(slots_), false);
}

/// Tokens of the prompt that such a text has, too. Those of a picture see each other: all of them, or none.
size_t Batch::shared_tokens(const std::vector<int32_t>& tokens, const Picture& picture,
                            const std::vector<int32_t>& prompt, const How& how) const {
  const bool equal = picture == how.picture || (picture && how.picture && *picture == *how.picture);
  if (!equal) return 0;
  const size_t shared = common_prefix(tokens, prompt);
  return how.picture && int64_t(shared) < prefix_ ? 0 : shared;
}

Batch::Id Batch::start(std::vector<int32_t> prompt, How how) {
  if (prompt.empty()) throw Error("a text needs a token to begin with");
  if (int64_t(prompt.size()) > model_.context)
    throw Error(fmt::format("the text has {} tokens, the context holds {}", prompt.size(), model_.context));
  const int64_t tokens = model_.config.vocab_size + (how.picture ? image_rows() : 0);
  for (const int32_t token : prompt)
    if (token < 0 || token >= tokens)
      throw Error(fmt::format("token {} is outside the vocabulary of {}", token, tokens));
  if (how.picture) {
    LUMINAL_CHECK(int64_t(how.picture->size()) == image_rows() * model_.config.hidden_size,
                  "a picture of {} numbers", how.picture->size());
    LUMINAL_CHECK(int64_t(prompt.size()) > prefix_, "a prompt of {} tokens with a picture", prompt.size());
  }
  std::optional<int64_t> slot;
  size_t shared = 0;
  for (int64_t s = 0; s < slots_; s++) {
    if (taken_[size_t(s)]) continue;
    const Remembered& there = remembered_[size_t(s)];
    const size_t here = shared_tokens(there.tokens, there.picture, prompt, how);
    if (!slot || here > shared) slot = s, shared = here;
  }
  if (!slot) throw Error(fmt::format("all {} places are taken", slots_));
  shared = std::min(shared, prompt.size() - 1); // the last token is computed: its logits are wanted
  taken_[size_t(*slot)] = true;
  const Id id = next_id_++;
  const size_t end = how.most < 0 ? SIZE_MAX : prompt.size() + size_t(how.most);
  if (!how.is_end) how.is_end = [](int32_t) { return false; };
  Sampler sampler(how.sampling), drawing(Draft::drawing_options(how.sampling));
  texts_.emplace(id, Text{*slot, int64_t(shared), std::move(prompt), shared, std::move(how),
                          std::move(sampler), std::move(drawing), end});
  return id;
}

/// The first tokens of a text are in the cache of another slot, too: they are copied, not computed. Memory is
/// not shared.
void Batch::take_tokens(Text& text, int64_t from, size_t count) {
  for (const Tensor& cache : model_.caches) {
    const auto all = cache.bytes();
    const size_t slot = all.size() / size_t(slots_), row = slot / size_t(model_.context);
    auto* memory = const_cast<std::byte*>(all.data()); // a state of the graph, on the host
    std::memcpy(memory + size_t(text.slot) * slot, memory + size_t(from) * slot, count * row);
  }
  text.reused += int64_t(count - text.computed);
  text.computed = count;
}

/// Whether an older text is reading what this one begins with, too. What it has read is taken.
bool Batch::waits_for_another(Id id, Text& text) {
  if (!on_host_) return false;
  for (const auto& [other_id, other] : texts_) {
    if (other_id >= id) break;
    const size_t common = std::min(shared_tokens(other.tokens, other.how.picture, text.tokens, text.how),
                                   text.tokens.size() - 1);
    if (common < text.computed + least_shared) continue;
    if (other.computed < common) return true;
    take_tokens(text, other.slot, common);
  }
  return false;
}

/// What the draft has to say of each text that waits for its next token. It reads prompts along with the
/// model, so that it need not read them at once when they are complete.
std::map<Batch::Id, std::vector<Proposal>> Batch::proposals() {
  if (draft_ == nullptr) return {};
  int64_t waiting = 0;
  for (const auto& [id, text] : texts_) waiting += text.tokens.size() - text.computed == 1 ? 1 : 0;
  std::vector<DraftBatch::Wanted> wanted;
  std::vector<Id> of;
  for (auto& [id, text] : texts_) {
    const std::span<const int32_t> tokens = text.tokens;
    const auto size = int64_t(tokens.size());
    DraftBatch::Wanted what{text.slot, tokens, 0, &text.drawing};
    if (size - int64_t(text.computed) == 1) {
      const auto left = int64_t(std::min(text.end, size_t(INT32_MAX))) - size;
      what.most = std::min({left - 1, model_.context - size, model_.chunk / waiting - 1});
      if (what.most <= 0) continue;
    } else {
      what.text = tokens.first(std::min(tokens.size() - 1, text.computed + size_t(model_.chunk)));
    }
    wanted.push_back(what);
    of.push_back(id);
  }
  std::map<Id, std::vector<Proposal>> result;
  auto proposed = draft_->propose(wanted);
  for (size_t i = 0; i < of.size(); i++)
    if (!proposed[i].empty()) result[of[i]] = std::move(proposed[i]);
  return result;
}

/// The tokens that come in place of proposals. logits [proposals + 1, vocabulary]: as accept_proposals has
/// them.
std::vector<Batch::Next> Batch::accept(Id id, std::span<const Proposal> proposals,
                                       std::span<const float> logits) {
  Text& text = texts_.at(id);
  const size_t begin = text.computed; // behind the token in front of the proposals
  std::vector<int32_t> all = text.tokens;
  for (const Proposal& proposal : proposals) all.push_back(proposal.token);
  Accepted got;
  try {
    got = accept_proposals(proposals, logits, all, text.sampler, text.how.is_end, text.how.grammar.get());
  } catch (const Error& error) { // of this text alone
    return {{id, 0, false, error.what()}};
  }
  std::vector<Next> result;
  for (const int32_t token : got.tokens) {
    const bool full = int64_t(text.tokens.size()) >= model_.context;
    if (!full) text.tokens.push_back(token);
    result.push_back({id, token, full});
    if (text.how.likeliest < 0) continue;
    const size_t vocabulary = logits.size() / (proposals.size() + 1);
    result.back().logprobs = token_logprobs(logits.subspan((result.size() - 1) * vocabulary, vocabulary),
                                            token, size_t(text.how.likeliest));
  }
  result.back().done = text.how.grammar && text.how.grammar->done();
  result.front().proposed = int64_t(proposals.size());
  result.front().accepted = got.proposals;
  // What was accepted is in the cache; the last token is computed by the next step.
  text.computed = begin + got.tokens.size() - 1;
  return result;
}

std::vector<Batch::Next> Batch::step() {
  std::set<Id> waiting; // before anything is added to the step: what counts is in the cache
  for (auto& [id, text] : texts_)
    if (text.tokens.size() - text.computed > 1 && waits_for_another(id, text)) waiting.insert(id);
  const auto proposed = proposals();
  struct Answer {
    Id id;
    std::span<const Proposal> proposals;
    int64_t row; // the first
  };
  SlotStep step;
  std::vector<Answer> answers;
  std::shared_ptr<const std::vector<float>> picture; // a step reads one
  // Texts that wait for their next token come first, with what is proposed behind it.
  for (auto& [id, text] : texts_) {
    if (text.tokens.size() - text.computed != 1) continue;
    step.add(text.tokens.back(), text.slot, int64_t(text.computed++));
    answers.push_back({id, {}, step.want_logits()});
    const auto at = proposed.find(id);
    if (at == proposed.end()) continue;
    answers.back().proposals = at->second;
    for (size_t i = 0; i < at->second.size(); i++) {
      step.add(at->second[i].token, text.slot, int64_t(text.computed + i));
      step.want_logits();
    }
  }
  // Prompts share what is left of the step.
  for (auto& [id, text] : texts_) {
    if (text.computed == text.tokens.size() || waiting.contains(id)) continue;
    if (text.how.picture && text.computed == 0) {
      if ((picture && picture != text.how.picture) || step.size() + prefix_ > model_.chunk) continue;
      picture = text.how.picture;
    }
    while (text.computed < text.tokens.size() && step.size() < model_.chunk) {
      const auto at = int64_t(text.computed++);
      step.add(text.tokens[size_t(at)], text.slot, at, text.how.picture ? std::max(at, prefix_ - 1) : at);
    }
    if (text.computed == text.tokens.size()) answers.push_back({id, {}, step.want_logits()});
  }
  if (step.empty()) return {};
  if (picture) model_.image.set(*picture);
  step.run(model_, logits_);
  const auto vocabulary = size_t(model_.config.vocab_size);
  std::vector<Next> result;
  for (const auto& [id, proposals, row] : answers) {
    const auto logits = std::span<const float>(logits_).subspan(size_t(row) * vocabulary,
                                                                (proposals.size() + 1) * vocabulary);
    const auto next = accept(id, proposals, logits);
    result.insert(result.end(), next.begin(), next.end());
  }
  return result;
}

void Batch::finish(Id id) {
  const auto at = texts_.find(id);
  if (at == texts_.end()) return;
  Text& text = at->second;
  text.tokens.resize(text.computed); // what is in the cache
  remembered_[size_t(text.slot)] = {std::move(text.tokens), std::move(text.how.picture)};
  taken_[size_t(text.slot)] = false;
  texts_.erase(at);
}

} // namespace luminal::models
