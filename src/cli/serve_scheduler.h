// cli/serve_scheduler.h -- requests of a server: they wait, take part in the steps of one batch, and get
// their text piece by piece.
#pragma once
#include "models/batch.h"
#include "models/generator.h"
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <thread>

namespace luminal::cli {

/// One text that is wanted, and what has come of it. The server's threads and the scheduler's share it.
class Generation {
public:
  /// Rings when something has come of any of the texts that share it.
  struct Bell {
    std::mutex mutex;
    std::condition_variable changed;
  };
  struct Wanted {
    std::vector<int32_t> prompt;
    int64_t most = -1; ///< tokens; -1: until the text ends or the context is full
    std::vector<std::string> stops;
    SamplerOptions sampling;
    bool ignore_end = false;
    bool continues = true; ///< the text follows one that is shown: a space in front of it stays
    std::shared_ptr<const Grammar> grammar;                      ///< of the text; none: any
    int64_t likeliest = -1;                                      ///< as Batch::How has it
    std::shared_ptr<const std::vector<float>> picture = nullptr; ///< as Batch::How has it
  };
  /// bell: of texts that are waited for together; none: its own.
  explicit Generation(Wanted of, std::shared_ptr<Bell> bell = nullptr)
      : wanted(std::move(of)), bell_(bell ? std::move(bell) : std::make_shared<Bell>()) {}

  /// What has come since the last call, waiting for it; `more`: there will be more. Nothing: the time was
  /// over first. Throws Error where the generation failed.
  struct Piece {
    std::string text;
    bool more = true;
    std::vector<models::TokenLogprobs> tokens = {}; ///< that have come, where `likeliest` asks for them
  };
  std::optional<Piece> wait(std::chrono::steady_clock::time_point end);
  /// The same of texts that share a bell, of which one at least has more to come: which one, and its piece.
  static std::optional<std::pair<size_t, Piece>> wait_any(std::span<const std::shared_ptr<Generation>> texts,
                                                          std::chrono::steady_clock::time_point end);
  /// Nobody reads it any more.
  void cancel() { cancelled_ = true; }

  const Wanted wanted;
  // After the last piece:
  models::StopReason reason = models::StopReason::length;
  int64_t prompt_tokens = 0, generated = 0, reused = 0;
  int64_t proposed = 0, accepted = 0; ///< tokens of the draft
  std::vector<int32_t> tokens;        ///< that were generated, without the end token
  /// Seconds: until it had a place in the batch; from there to its first token; from there to its end.
  struct Times {
    double wait = 0, first_token = 0, generation = 0;
  } times;

private:
  friend class Scheduler;
  bool has_news() const { return !told_ && (done_ || !waiting_.empty() || !waiting_tokens_.empty()); }
  Piece take();
  std::shared_ptr<Bell> bell_; ///< its mutex guards what follows, but for `cancelled_`
  std::string waiting_, error_;
  std::vector<models::TokenLogprobs> waiting_tokens_;
  bool done_ = false, told_ = false; ///< told: the last piece was taken
  std::atomic<bool> cancelled_ = false;
  // The scheduler's own:
  std::chrono::steady_clock::time_point mark_; // where the part of `times` that runs began
  models::Batch::Id id_ = 0;
  std::unique_ptr<StreamDecoder> decoder_;
  std::unique_ptr<models::StopFinder> finder_;
};

class Scheduler {
public:
  Scheduler(const ModelFile& file, models::Batch& batch, size_t most_waiting);
  ~Scheduler(); ///< ends what runs: `interrupted`

  /// All of them, or none: false where too many wait already. Throws Error where a prompt does not fit the
  /// context.
  bool submit(std::span<const std::shared_ptr<Generation>> generations);
  bool submit(const std::shared_ptr<Generation>& generation) { return submit({&generation, 1}); }
  /// Texts that can be taken at once.
  size_t most() const { return most_waiting_ + size_t(batch_.slots()); }
  /// No more are taken; returns when those that run have ended, or after so many seconds.
  void drain(double seconds);

  struct Counts {
    int64_t waiting = 0, running = 0, requests = 0, prompt_tokens = 0, reused_tokens = 0,
            generated_tokens = 0, proposed_tokens = 0, accepted_tokens = 0, steps = 0;
    double busy_seconds = 0;
  };
  Counts counts() const;

private:
  void work();
  void admit();
  void deliver(const models::Batch::Next& next);
  void end(Generation& g, models::StopReason reason, const std::string& error = "");

  const ModelFile& file_;
  models::Batch& batch_;
  size_t most_waiting_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::shared_ptr<Generation>> waiting_;
  std::map<models::Batch::Id, std::shared_ptr<Generation>> running_;
  Counts counts_;
  bool stopping_ = false, draining_ = false;
  std::jthread thread_; // last: it reads all of the above
};

} // namespace luminal::cli
