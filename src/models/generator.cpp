// models/generator.cpp -- running a language model.
#include "models/generator.h"
#include "base/pages.h"
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
  const int64_t element = options.cache_dtype == DType::f32 ? 4 : 2;
  estimate.cache = 2 * c.num_layers * c.num_kv_heads * c.head_dim * context * element;
  // The widest moment of a step: the inner values of the feed-forward part. Of scores there are a
  // few rows at a time.
  estimate.working = 4 * (2 * c.num_heads * (context + chunk) +
                          chunk * (4 * c.hidden_size + 3 * c.intermediate_size) + c.vocab_size);
  constexpr int64_t program = int64_t(48) << 20; // code, the plan, scratch of workers
  estimate.working += program;
  return estimate;
}

Generator::Generator(const ModelFile& file, const GeneratorOptions& options, std::source_location where) {
  times_.build = timed([&] { model_ = make_llama(file, options.model, where); });
  CompileOptions compile = options.compile;
  stop_ = compile.stop;
  if (compile.weights_id.empty()) compile.weights_id = file.identity();
  if (compile.sizes.empty())
    for (const auto& [name, size] : typical_sizes(model_)) compile.sizes[name] = size;
  times_.compile = timed([&] {
    model_.graph.compile(compile);
    give_back_memory("libLLVM"); // before the weights come
  });
  // One step with the shortest input allocates everything and computes what is computed once.
  times_.load = timed([&] {
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
  if (past_ + int64_t(tokens.size()) > model_.context)
    throw Error(fmt::format(
        "the text has {} tokens, the context holds {} ({} are in it): raise --ctx or shorten the text",
        past_ + int64_t(tokens.size()), model_.context, past_));
  if (tokens.empty()) return logits_;
  while (!tokens.empty()) {
    auto part = tokens.first(std::min(tokens.size(), size_t(model_.chunk)));
    model_.graph.set_dim("n", int64_t(part.size()));
    model_.graph.set_dim("past", past_);
    model_.tokens.set(part);
    model_.graph.execute();
    past_ += int64_t(part.size());
    history_.insert(history_.end(), part.begin(), part.end());
    tokens = tokens.subspan(part.size());
  }
  logits_.resize(size_t(model_.config.vocab_size));
  model_.logits.read(logits_.data(), DType::f32);
  return logits_;
}

StopReason Generator::generate(std::span<const int32_t> prompt, int64_t count, Sampler& sampler,
                               const std::function<bool(int32_t)>& is_end, const OnToken& on_token,
                               TokenGrammar* grammar) {
  Clock clock;
  times_.prompt_tokens = int64_t(prompt.size());
  times_.generated_tokens = 0;
  times_.generation = times_.first_token = 0;
  const auto interrupted = [&](std::span<const int32_t> tokens) { // while these were fed
    try {
      feed(tokens);
      return false;
    } catch (const Error&) {
      if (!stop_ || !stop_()) throw;
      return true;
    }
  };
  const bool early = interrupted(prompt);
  times_.prompt = clock.seconds();
  if (early) return StopReason::interrupted;
  if (prompt_fed_) prompt_fed_();
  Clock generation;
  StopReason reason = StopReason::length;
  while (count < 0 || times_.generated_tokens < count) {
    if (grammar != nullptr && grammar->done()) {
      reason = StopReason::end_of_text;
      break;
    }
    const int32_t token = models::sample(sampler, logits_, history_, grammar);
    if (times_.generated_tokens == 0) times_.first_token = clock.seconds();
    if (is_end(token)) {
      reason = StopReason::end_of_text;
      break;
    }
    times_.generated_tokens++;
    if (!on_token(token)) {
      reason = StopReason::interrupted;
      break;
    }
    if (count >= 0 && times_.generated_tokens == count) break; // nobody asks for what would follow
    if (past_ == model_.context) {
      reason = StopReason::context;
      break;
    }
    if (interrupted({&token, 1})) {
      reason = StopReason::interrupted;
      break;
    }
  }
  times_.generation = generation.seconds();
  return reason;
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
