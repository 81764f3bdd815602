// models/generator.cpp -- running a language model.
#include "models/generator.h"
#include "base/check.h"
#include "base/pages.h"
#include "models/draft.h"
#include <algorithm>
#include <chrono>
#include <fmt/format.h>

namespace luminal::models {
namespace {

class Clock {
public:
  double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }

private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

template <class F> double timed(F&& f) {
  Clock clock;
  f();
  return clock.seconds();
}

} // namespace

std::string_view to_string(StopReason reason) {
  switch (reason) {
  case StopReason::length: return "length";
  case StopReason::end_of_text: return "end_of_text";
  case StopReason::stop_string: return "stop_string";
  case StopReason::context: return "context";
  case StopReason::interrupted: return "interrupted";
  }
  return "";
}

Generator::Estimate Generator::estimate(const ModelFile& file, const LlamaOptions& options) {
  const ModelConfig& c = file.require_config();
  Estimate estimate;
  // Weights with rows beside each other are copies, and the pages they were made from are dropped.
  estimate.weights = int64_t(file.tensor_bytes());
  for (const auto& [_, factors] : file.low_rank)
    estimate.weights += int64_t((factors->left.size() + factors->right.size()) * sizeof(float));
  // A table that is the head, too, is a copy for the head; its rows are read as they lie in the
  // file.
  const auto has = [&](const char* name) { return file.find(name) != nullptr; };
  if (!has("output.weight") && !has("lm_head.weight"))
    for (const char* table : {"token_embd.weight", "model.embed_tokens.weight"})
      if (has(table)) estimate.weights += int64_t(file.tensor(table).bytes.size());
  const int64_t context = options.context > 0 ? options.context : c.context_length,
                chunk = std::min(options.chunk, context);
  const int64_t rows =
      options.all_logits ? chunk : std::max<int64_t>({1, std::min(options.rows, chunk), options.slots});
  const int64_t element = options.cache_dtype == DType::f32 ? 4 : 2;
  estimate.cache =
      c.caches_per_layer() * c.num_layers * c.cache_heads() * c.cache_width() * context * element;
  // The widest moment of a step: the inner values of the feed-forward part. Of scores there are a
  // few rows at a time.
  estimate.working =
      4 * (2 * c.num_heads * (context + chunk) +
           chunk * (4 * c.hidden_size + 3 * std::max(c.intermediate_size, c.shared_expert_size)) +
           rows * c.vocab_size);
  constexpr int64_t program = int64_t(48) << 20; // code, the plan, scratch of workers
  estimate.working += program;
  return estimate;
}

Generator::Generator(const ModelFile& file, const GeneratorOptions& options, std::source_location where) {
  times_.build = timed([&] { model_ = make_llama(file, options.model, where); });
  stop_ = options.compile.stop;
  times_.compile = timed([&] {
    compile_llama(model_, file, options.compile);
    give_back_memory("libLLVM"); // before the weights come
  });
  // One step with the shortest input allocates everything and computes what is computed once.
  times_.load = timed([&] {
    if (model_.image.defined())
      set_image(std::vector<float>(size_t(options.model.image_rows * model_.config.hidden_size)));
    int32_t zero = 0;
    feed({&zero, 1});
    reset();
  });
}

void Generator::reset() {
  past_ = 0; // cache rows beyond the position are never read
  history_.clear();
}

void Generator::rewind(int64_t position) {
  if (position < 0 || position > past_)
    throw Error(fmt::format("a text of {} tokens cannot go back to {}", past_, position));
  past_ = position;
  history_.resize(size_t(position));
}

void Generator::restore(std::span<const int32_t> tokens) {
  if (int64_t(tokens.size()) > model_.context)
    throw Error(fmt::format("{} tokens are restored, the context holds {}", tokens.size(), model_.context));
  history_.assign(tokens.begin(), tokens.end());
  past_ = int64_t(tokens.size());
}

std::span<const float> Generator::feed(std::span<const int32_t> tokens) {
  feed(tokens, 1, {});
  return logits_;
}

void Generator::feed(std::span<const int32_t> tokens, int64_t count, const OnLogits& on_logits) {
  LUMINAL_CHECK(count <= 1 || model_.most_rows > 0, "logits of {} tokens, the model was made for one", count);
  if (past_ + int64_t(tokens.size()) > model_.context)
    throw Error(fmt::format(
        "the text has {} tokens, the context holds {} ({} are in it): raise --ctx or shorten the text",
        past_ + int64_t(tokens.size()), model_.context, past_));
  if (tokens.empty()) return;
  const auto vocabulary = size_t(model_.config.vocab_size);
  int64_t unread =
      std::max<int64_t>(0, int64_t(tokens.size()) - count); // in front: nobody wants their logits
  while (!tokens.empty()) {
    int64_t n = std::min(int64_t(tokens.size()), model_.chunk);
    if (model_.most_rows > 0) n = std::min(n, unread + model_.most_rows);
    const auto part = tokens.first(size_t(n));
    std::vector<int32_t> rows; // at least one
    for (int64_t i = std::min(unread, n - 1); i < n; i++) rows.push_back(int32_t(i));
    model_.graph.set_dim("n", n);
    model_.graph.set_dim("past", past_);
    model_.tokens.set(part);
    if (model_.most_rows > 0) {
      model_.graph.set_dim("m", int64_t(rows.size()));
      model_.rows.set(rows);
    }
    model_.graph.execute();
    past_ += n;
    history_.insert(history_.end(), part.begin(), part.end());
    tokens = tokens.subspan(part.size());
    const bool wanted = on_logits && unread < n;
    unread = std::max<int64_t>(0, unread - n);
    if (!wanted && !tokens.empty()) continue;
    rows_.resize((model_.most_rows > 0 ? rows.size() : 1) * vocabulary);
    model_.logits.read(rows_.data(), DType::f32);
    if (wanted) on_logits(rows_);
  }
  logits_.assign(rows_.end() - long(vocabulary), rows_.end());
}

StopReason Generator::generate(std::span<const int32_t> prompt, int64_t count, Sampler& sampler,
                               const std::function<bool(int32_t)>& is_end, const OnToken& on_token,
                               TokenGrammar* grammar, Draft* draft) {
  Clock clock;
  times_.prompt_tokens = int64_t(prompt.size());
  times_.generated_tokens = 0;
  times_.generation = times_.first_token = 0;
  const auto interrupted = [&](auto&& step) {
    try {
      step();
      return false;
    } catch (const Error&) {
      if (!stop_ || !stop_()) throw;
      return true;
    }
  };
  const bool early = interrupted([&] {
    feed(prompt);
    if (draft != nullptr) draft->read(history_);
  });
  times_.prompt = clock.seconds();
  if (early) return StopReason::interrupted;
  if (prompt_fed_) prompt_fed_();
  Clock generation;
  const int64_t begin = past_;
  const auto generate_tokens = [&] {
    std::vector<int32_t> next; // tokens that are not given out yet, in the order of the text
    const auto done = [&] { return grammar != nullptr && grammar->done(); };
    if (count != 0 && done()) return StopReason::end_of_text;
    for (size_t at = 0; count < 0 || times_.generated_tokens < count;) {
      if (at == next.size()) {
        if (times_.generated_tokens == 0)
          next = {models::sample(sampler, logits_, history_, grammar)};
        else if (past_ == model_.context)
          return StopReason::context;
        else if (interrupted([&] {
                   const int64_t left = count < 0 ? model_.context : count - times_.generated_tokens;
                   next = follow(next.back(), left, sampler, is_end, grammar, draft);
                 }))
          return StopReason::interrupted;
        at = 0;
      }
      const int32_t token = next[at++];
      if (times_.generated_tokens == 0) times_.first_token = clock.seconds();
      if (is_end(token)) return StopReason::end_of_text;
      times_.generated_tokens++;
      if (!on_token(token)) return StopReason::interrupted;
      if (at == next.size() && done()) return StopReason::end_of_text;
    }
    return StopReason::length; // nobody asks for what would follow
  };
  const StopReason reason = generate_tokens();
  rewind(std::min(past_, begin + times_.generated_tokens)); // accepted tokens that nobody asked for
  times_.generation = generation.seconds();
  return reason;
}

/// What comes behind `last`: at least one token, at most `left`.
std::vector<int32_t> Generator::follow(int32_t last, int64_t left, Sampler& sampler,
                                       const std::function<bool(int32_t)>& is_end, TokenGrammar* grammar,
                                       Draft* draft) {
  if (draft == nullptr) {
    feed({&last, 1});
    return {models::sample(sampler, logits_, history_, grammar)};
  }
  const int64_t begin = past_;
  const auto proposals = draft->propose(history_, last, std::min(left, model_.context - past_) - 1);
  std::vector<int32_t> tokens{last};
  for (const Proposal& proposal : proposals) tokens.push_back(proposal.token);
  std::vector<float> rows;
  feed(tokens, int64_t(tokens.size()),
       [&](std::span<const float> part) { rows.insert(rows.end(), part.begin(), part.end()); });
  Accepted accepted = accept_proposals(proposals, rows, history_, sampler, is_end, grammar);
  draft->proposed += int64_t(proposals.size());
  draft->accepted += accepted.proposals;
  rewind(begin + int64_t(accepted.tokens.size())); // without the last one, which is fed next
  return std::move(accepted.tokens);
}

std::string StopFinder::push(std::string_view piece) {
  if (stopped_) return "";
  held_ += piece;
  size_t first = std::string::npos;
  for (const std::string& stop : stops_)
    if (!stop.empty()) first = std::min(first, held_.find(stop));
  if (first != std::string::npos) {
    stopped_ = true;
    std::string shown = held_.substr(0, first);
    held_.clear();
    return shown;
  }
  size_t keep = 0; // the longest end of the text that begins a stop string
  for (const std::string& stop : stops_)
    for (size_t n = std::min(stop.size(), held_.size()); n > keep; n--)
      if (std::string_view(held_).ends_with(std::string_view(stop).substr(0, n))) keep = n;
  std::string shown = held_.substr(0, held_.size() - keep);
  held_.erase(0, shown.size());
  return shown;
}

std::string StopFinder::finish() {
  std::string rest = stopped_ ? "" : held_;
  held_.clear();
  return rest;
}

} // namespace luminal::models
