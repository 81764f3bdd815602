// cli/serve_scheduler.cpp -- the thread that runs the batch.
#include "cli/serve_scheduler.h"
#include "base/check.h"
#include <algorithm>
#include <chrono>
#include <fmt/format.h>
#include <utility>

namespace luminal::cli {

using models::Batch;
using models::StopReason;

namespace {

/// Seconds since `mark`, which becomes now.
double lap(std::chrono::steady_clock::time_point& mark) {
  const auto now = std::chrono::steady_clock::now();
  return std::chrono::duration<double>(now - std::exchange(mark, now)).count();
}

} // namespace

/// Called with the mutex held.
Generation::Piece Generation::take() {
  told_ = done_;
  if (done_ && !error_.empty()) throw Error(error_);
  Piece piece{std::move(waiting_), !done_, std::move(waiting_tokens_)};
  waiting_.clear();
  waiting_tokens_.clear();
  return piece;
}

std::optional<Generation::Piece> Generation::wait(std::chrono::steady_clock::time_point end) {
  std::unique_lock lock(bell_->mutex);
  if (!bell_->changed.wait_until(lock, end, [&] { return has_news(); })) return {};
  return take();
}

std::optional<std::pair<size_t, Generation::Piece>>
Generation::wait_any(std::span<const std::shared_ptr<Generation>> texts,
                     std::chrono::steady_clock::time_point end) {
  std::unique_lock lock(texts[0]->bell_->mutex);
  size_t which = texts.size();
  const auto found = [&] {
    for (which = 0; which < texts.size() && !texts[which]->has_news();) which++;
    return which < texts.size();
  };
  if (!texts[0]->bell_->changed.wait_until(lock, end, found)) return {};
  return std::pair(which, texts[which]->take());
}

Scheduler::Scheduler(const ModelFile& file, Batch& batch, size_t most_waiting)
    : file_(file), batch_(batch), most_waiting_(most_waiting), thread_([this] { work(); }) {}

Scheduler::~Scheduler() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
}

bool Scheduler::submit(std::span<const std::shared_ptr<Generation>> generations) {
  for (const auto& generation : generations) {
    const auto& prompt = generation->wanted.prompt;
    LUMINAL_CHECK(!prompt.empty(), "a prompt without tokens");
    if (int64_t(prompt.size()) > batch_.context())
      throw Error(
          fmt::format("the prompt has {} tokens, the context holds {}", prompt.size(), batch_.context()));
  }
  {
    const std::lock_guard lock(mutex_);
    // What waits for a place that is free does not wait long.
    if (stopping_ || draining_ || running_.size() + waiting_.size() + generations.size() > most())
      return false;
    for (const auto& generation : generations) {
      generation->mark_ = std::chrono::steady_clock::now();
      waiting_.push_back(generation);
      counts_.requests++;
    }
  }
  changed_.notify_all();
  return true;
}

void Scheduler::drain(double seconds) {
  std::unique_lock lock(mutex_);
  draining_ = true;
  changed_.notify_all();
  changed_.wait_for(lock, std::chrono::duration<double>(seconds),
                    [&] { return waiting_.empty() && running_.empty(); });
}

Scheduler::Counts Scheduler::counts() const {
  const std::lock_guard lock(mutex_);
  Counts now = counts_;
  now.waiting = int64_t(waiting_.size());
  now.running = int64_t(running_.size());
  return now;
}

void Scheduler::end(Generation& g, StopReason reason, const std::string& error) {
  {
    const std::lock_guard lock(g.bell_->mutex);
    if (g.decoder_ && error.empty()) {
      g.waiting_ += g.finder_->push(g.decoder_->finish());
      g.waiting_ += g.finder_->finish();
    }
    if (!g.tokens.empty()) g.times.generation = lap(g.mark_);
    g.reason = reason;
    g.error_ = error;
    g.done_ = true;
  }
  g.bell_->changed.notify_all();
}

/// Waiting requests take the places that are free. Called with the mutex held.
void Scheduler::admit() {
  while (!waiting_.empty() && batch_.has_room()) {
    const auto g = waiting_.front();
    waiting_.pop_front();
    if (g->cancelled_) {
      end(*g, StopReason::interrupted);
      continue;
    }
    g->times.wait = lap(g->mark_);
    try {
      g->decoder_ = std::make_unique<StreamDecoder>(file_.require_tokenizer(), false, g->wanted.continues);
      g->finder_ = std::make_unique<models::StopFinder>(g->wanted.stops);
      std::shared_ptr<models::TokenGrammar> grammar;
      if (g->wanted.grammar)
        grammar = std::make_shared<models::TokenGrammar>(g->wanted.grammar, file_.require_tokenizer(),
                                                         file_.require_config().eos_tokens);
      g->id_ = batch_.start(g->wanted.prompt,
                            {.sampling = g->wanted.sampling,
                             .grammar = std::move(grammar),
                             .most = g->wanted.most,
                             .is_end = [this, ignore = g->wanted.ignore_end](
                                           int32_t token) { return !ignore && file_.is_end(token); },
                             .likeliest = g->wanted.likeliest,
                             .picture = g->wanted.picture});
      g->prompt_tokens = int64_t(g->wanted.prompt.size());
      counts_.prompt_tokens += g->prompt_tokens;
      running_.emplace(g->id_, g);
    } catch (const Error& error) {
      end(*g, StopReason::interrupted, error.what());
    }
  }
}

void Scheduler::deliver(const Batch::Next& next) {
  const auto at = running_.find(next.id);
  if (at == running_.end()) return;
  Generation& g = *at->second;
  g.proposed += next.proposed;
  g.accepted += next.accepted;
  counts_.proposed_tokens += next.proposed;
  counts_.accepted_tokens += next.accepted;
  if (g.tokens.empty()) { // the prompt has been read
    g.reused = batch_.reused(next.id);
    counts_.reused_tokens += g.reused;
  }
  const auto finish = [&](StopReason reason, const std::string& error = "") {
    batch_.finish(next.id);
    end(g, reason, error);
    running_.erase(at);
  };
  if (!next.error.empty()) return finish(StopReason::interrupted, next.error);
  if (g.cancelled_) return finish(StopReason::interrupted);
  if (g.wanted.most == 0) return finish(StopReason::length);
  if (!g.wanted.ignore_end && file_.is_end(next.token)) return finish(StopReason::end_of_text);
  if (g.tokens.empty()) g.times.first_token = lap(g.mark_);
  g.tokens.push_back(next.token);
  g.generated++;
  counts_.generated_tokens++;
  if (next.token < file_.require_tokenizer().size()) { // else a row that only pads the model's table
    const std::lock_guard lock(g.bell_->mutex);
    g.waiting_ += g.finder_->push(g.decoder_->push(next.token));
    if (next.logprobs) g.waiting_tokens_.push_back(*next.logprobs);
  }
  g.bell_->changed.notify_all();
  if (g.finder_->stopped()) return finish(StopReason::stop_string);
  if (next.done) return finish(StopReason::end_of_text);
  if (g.wanted.most >= 0 && g.generated >= g.wanted.most) return finish(StopReason::length);
  if (next.full) return finish(StopReason::context);
}

void Scheduler::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return stopping_ || !waiting_.empty() || !running_.empty(); });
    if (stopping_) break;
    admit();
    // Who went away makes room at once.
    std::erase_if(waiting_, [&](const auto& g) {
      const bool gone = g->cancelled_;
      if (gone) end(*g, StopReason::interrupted);
      return gone;
    });
    for (auto at = running_.begin(); at != running_.end();) {
      const auto here = at++;
      if (!here->second->cancelled_) continue;
      batch_.finish(here->first);
      end(*here->second, StopReason::interrupted);
      running_.erase(here);
    }
    if (running_.empty()) {
      changed_.notify_all();
      continue;
    }
    lock.unlock();
    const auto start = std::chrono::steady_clock::now();
    std::vector<Batch::Next> made;
    std::string error;
    try {
      made = batch_.step();
    } catch (const std::exception& e) {
      error = e.what();
    }
    lock.lock();
    counts_.steps++;
    counts_.busy_seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    if (!error.empty()) { // all of them took part in the step
      for (auto& [id, g] : running_) {
        batch_.finish(id);
        end(*g, StopReason::interrupted, error);
      }
      running_.clear();
    }
    for (const Batch::Next& next : made) deliver(next);
    if (running_.empty()) changed_.notify_all();
  }
  for (auto& [id, g] : running_) {
    batch_.finish(id);
    end(*g, StopReason::interrupted);
  }
  for (auto& g : waiting_) end(*g, StopReason::interrupted);
}

} // namespace luminal::cli
