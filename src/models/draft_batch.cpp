// models/draft_batch.cpp -- proposals for several texts, by steps that all of them share.
#include "models/draft_batch.h"
#include "base/check.h"
#include "models/slot_step.h"
#include <algorithm>

namespace luminal::models {

/// A text that is read, and what is proposed behind it.
struct DraftBatch::Running {
  size_t which = 0; ///< of the texts
  int64_t slot = 0, most = 0;
  Sampler* sampler = nullptr;
  std::vector<int32_t> all; ///< with the proposals so far
  std::vector<Proposal> proposals;
  std::optional<int64_t> row; ///< of the logits of this step
  bool done = false;
};

DraftBatch::DraftBatch(const ModelFile& target, const ModelFile& file, const GeneratorOptions& options,
                       int64_t count)
    : file_((Draft::check_vocabulary(target, file), file)), count_(count),
      vocabulary_(std::min(target.require_config().vocab_size, file.require_config().vocab_size)) {
  LlamaOptions how = options.model;
  LUMINAL_CHECK(how.slots >= 1, "a draft for {} texts", how.slots);
  how.rows = 0; // one for each slot
  how.chunk = std::max(how.chunk, how.slots);
  model_ = make_llama(file, how);
  compile_llama(model_, file, options.compile);
  read_.resize(size_t(how.slots));
}

/// The texts that can be read, with what their slots have of them already.
std::vector<DraftBatch::Running> DraftBatch::prepare(std::span<const Wanted> texts) {
  std::vector<Running> result;
  for (size_t i = 0; i < texts.size(); i++) {
    const Wanted& wanted = texts[i];
    LUMINAL_CHECK(wanted.slot >= 0 && wanted.slot < slots(), "slot {} of {}", wanted.slot, slots());
    std::vector<int32_t>& read = read_[size_t(wanted.slot)];
    auto shared = std::ranges::mismatch(wanted.text, read).in1 - wanted.text.begin();
    // The logits of the last token are wanted.
    if (wanted.most > 0) shared = std::min(shared, long(wanted.text.size()) - 1);
    const auto size = int64_t(wanted.text.size());
    if (wanted.text.empty() || size > model_.context) continue;
    if (std::ranges::any_of(wanted.text.subspan(size_t(shared)),
                            [&](int32_t token) { return token >= vocabulary_; }))
      continue;
    read.resize(size_t(shared));
    result.push_back({.which = i,
                      .slot = wanted.slot,
                      .most = std::min({wanted.most, count_, model_.context - size + 1}),
                      .sampler = wanted.sampler,
                      .all{wanted.text.begin(), wanted.text.end()},
                      .proposals = {}});
  }
  return result;
}

std::vector<std::vector<Proposal>> DraftBatch::propose(std::span<const Wanted> texts) {
  std::vector<Running> running = prepare(texts);
  const auto size = size_t(model_.config.vocab_size);
  for (bool more = true; more;) {
    SlotStep step;
    const auto take = [&](Running& text) {
      std::vector<int32_t>& read = read_[size_t(text.slot)];
      while (read.size() < text.all.size() && step.size() < model_.chunk) {
        step.add(text.all[read.size()], text.slot, int64_t(read.size()));
        read.push_back(text.all[read.size()]);
      }
      if (text.most > 0 && read.size() == text.all.size()) text.row = step.want_logits();
    };
    // Texts that lack one token come first; those that are only read take what is left of the step.
    const auto lacks_one = [&](const Running& text) {
      return text.all.size() - read_[size_t(text.slot)].size() == 1;
    };
    for (Running& text : running) text.row.reset();
    for (Running& text : running)
      if (!text.done && text.most > 0 && lacks_one(text)) take(text);
    for (Running& text : running)
      if (!text.done && text.most > 0 && !text.row) take(text);
    for (Running& text : running)
      if (!text.done && text.most <= 0) {
        take(text);
        text.done = true;
      }
    if (step.empty()) break;
    step.run(model_, logits_);
    steps_++;
    more = false;
    for (Running& text : running) {
      if (text.row) {
        const auto logits = std::span<const float>(logits_).subspan(size_t(*text.row) * size);
        std::vector<TokenShare> from =
            text.sampler->distribution(logits.first(size_t(vocabulary_)), text.all);
        text.all.push_back(text.sampler->draw(from));
        text.proposals.push_back({text.all.back(), std::move(from)});
        text.done = int64_t(text.proposals.size()) >= text.most || file_.is_end(text.all.back());
      }
      more = more || !text.done;
    }
  }
  std::vector<std::vector<Proposal>> result(texts.size());
  for (Running& text : running) result[text.which] = std::move(text.proposals);
  return result;
}

} // namespace luminal::models
