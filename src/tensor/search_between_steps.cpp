// tensor/search_between_steps.cpp -- a thread that works only in its turns.
#include "tensor/search_between_steps.h"
#include "base/settings.h"
#include "base/text.h"
#include "compile/search.h"
#include "tensor/graph_run.h"
#include <algorithm>
#include <fmt/format.h>

namespace luminal {
namespace {

/// A search of a part of the time first: what it finds runs while the rest looks further.
constexpr double parts[] = {0.25, 0.75};

double now() { return compile::search_seconds(); }

} // namespace

Result<void> exchange_program(Graph& graph, compile::Compiled compiled) {
  GraphState& g = *graph.state("exchange_program");
  if (g.programs.empty()) return Failure{"the graph is not compiled"};
  Program& present = *g.programs[0];
  const auto states = [](const runtime::Plan& plan) {
    std::map<std::string, std::pair<int64_t, std::string>> out;
    for (const runtime::Slot& slot : plan.slots)
      if (slot.kind == runtime::SlotKind::state) out[slot.name] = {slot.max_bytes, to_string(slot.type)};
    return out;
  };
  if (states(*present.compiled.plan) != states(*compiled.plan))
    return Failure{"the states of the new program do not lie as those of the present one"};
  auto executable = runtime::Executable::load(compiled.plan, g.store->device());
  if (!executable) return executable.failure();
  auto made = std::make_unique<Program>(Program{present.sizes, std::move(compiled), *executable, nullptr});
  g.programs[0] = std::move(made);
  return {};
}

SearchBetweenSteps::SearchBetweenSteps(Graph& graph, double seconds) : graph_(graph), seconds_(seconds) {
  if (graph.state("search")->programs.empty())
    throw Error("search", "the graph is not compiled yet: call compile()", std::source_location::current());
  thread_ = std::thread([this] { search(); });
}

SearchBetweenSteps::~SearchBetweenSteps() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = running_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

/// The search's thread: its turn may be over. Whether the search ends.
bool SearchBetweenSteps::pause() {
  std::unique_lock lock(mutex_);
  if (ending_ || now() < until_) return ending_;
  const double begin = now();
  running_ = false;
  changed_.notify_all();
  changed_.wait(lock, [&] { return running_; });
  compile::leave_out(now() - begin);
  return ending_;
}

void SearchBetweenSteps::search() {
  pause();
  for (const double part : parts) {
    if (ending_) break;
    try {
      GraphState& g = *graph_.state("search");
      CompileOptions options = g.options;
      options.search.mode = SearchMode::budget;
      options.search.seconds = part * seconds_;
      options.search.stop = [this] { return pause(); };
      compile::Options inner = compile_options(g, options);
      inner.sizes = g.programs[0]->sizes[0];
      auto compiled = compile::compile(g.snapshot(), inner);
      if (!compiled) throw Error(compiled.error());
      const SearchSummary& summary = *compiled->search;
      const std::lock_guard lock(mutex_);
      tried_ += summary.tried;
      if (!ending_ && (summary.improved > 0 || summary.workers > 0 || !summary.regions.empty())) {
        if (before_ == 0) before_ = summary.program_before;
        if (summary.program_after > 0) after_ = summary.program_after;
        found_ = std::make_unique<compile::Compiled>(std::move(*compiled));
      }
    } catch (const std::exception& error) {
      const std::lock_guard lock(mutex_);
      failure_ = error.what();
      break;
    }
    pause(); // so that it is taken
  }
  const std::lock_guard lock(mutex_);
  over_ = true;
  running_ = false;
  changed_.notify_all();
}

void SearchBetweenSteps::turn(double seconds) {
  std::unique_lock lock(mutex_);
  const double begin = now();
  if (!over_) {
    until_ = begin + seconds;
    running_ = true;
    changed_.notify_all();
    changed_.wait(lock, [&] { return !running_; });
    searched_ += now() - begin;
  }
  if (!found_) return;
  const auto found = std::exchange(found_, nullptr);
  if (const auto taken = exchange_program(graph_, std::move(*found)); taken)
    ++exchanges_;
  else
    failure_ = taken.error();
}

std::string SearchBetweenSteps::told() const {
  const std::lock_guard lock(mutex_);
  std::string line =
      fmt::format("searched for {:.1f} s between steps, {} schedules tried", searched_, tried_);
  line += exchanges_ == 0 ? ": nothing faster was found"
                          : fmt::format(": the program was exchanged {}",
                                        exchanges_ == 1 ? "once" : fmt::format("{} times", exchanges_));
  if (exchanges_ > 0 && before_ > 0 && after_ > 0)
    line += fmt::format(", a step {} -> {}", human_time(before_), human_time(after_));
  if (!over_) line += "; the text ended first, and what was found is kept";
  if (!failure_.empty()) line += "; " + failure_;
  return line;
}

} // namespace luminal
