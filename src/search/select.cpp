// search/select.cpp -- building, racing, checking, keeping.
#include "search/select.h"
#include "base/file.h"
#include "base/log.h"
#include "base/settings.h"
#include "base/thread_pool.h"
#include "codegen/version.h"
#include "search/measure_lock.h"
#include <algorithm>
#include <filesystem>
#include <fmt/format.h>
#include <map>
#include <nlohmann/json.hpp>

namespace luminal::search {
namespace {

std::string reproducer_folder(const SelectOptions& options) {
  if (!options.reproducers.empty()) return options.reproducers;
  if (const std::string folder = cache_folder(); !folder.empty()) return folder + "/reproducers";
  std::error_code error;
  return (std::filesystem::temp_directory_path(error) / "luminal-reproducers").string();
}

/// A candidate that came as far as machine code.
struct Built {
  kernel::Kernel kernel;
  int number = -1; // of the measurer
};

class Selector {
public:
  Selector(const KernelProblem& problem, const std::vector<Candidate>& candidates,
           const SelectOptions& options)
      : problem_(problem), candidates_(candidates), options_(options), built_(candidates.size()),
        clock_(options.race.clock ? *options.race.clock : Clock::steady()),
        key_(tuning_key(problem, options.build, options.numeric, options.rules)) {
    for (const Candidate& candidate : candidates)
      selection_.tried.push_back({.schedule = kernel::to_string(candidate.schedule)});
  }

  Result<Selection> run() {
    const double begin = clock_.now();
    auto work = std::make_shared<const Workload>(
        workload_of(problem_, problem_.cone, problem_.symbols, options_.build.threads));
    measurer_ = make(work);
    build_all();
    std::vector<int> numbers;
    std::vector<size_t> position;
    for (size_t i = 0; i < candidates_.size(); i++)
      if (built_[i].number >= 0) {
        numbers.push_back(built_[i].number);
        position.push_back(i);
      }
    if (numbers.empty())
      return Failure{fmt::format("{}: no candidate can be built: {}", problem_.cone.name, causes())};
    double spent = clock_.now() - begin;
    RaceResult raced;
    {
      auto lock = MeasureLock::acquire(options_.lock.empty() ? MeasureLock::default_path() : options_.lock,
                                       options_.race.stop);
      if (!lock) return lock.failure();
      raced = race(*measurer_, numbers, options_.race);
    }
    selection_.complete = raced.complete;
    for (size_t e = 0; e < raced.entries.size(); e++) {
      Tried& tried = selection_.tried[position[e]];
      const RaceEntry& entry = raced.entries[e];
      tried.rejected = entry.rejected;
      tried.samples = int64_t(entry.samples.size());
      tried.seconds = std::isfinite(entry.seconds) ? entry.seconds : 0;
      // One that did not end in time may have met a busy machine: it is out for now only.
      if (entry.failed && entry.rejected.starts_with("crashed")) condemn(position[e], entry.rejected);
    }
    const double checking = clock_.now();
    auto checker = Checker::create(
        problem_, options_.build, [this](auto w) { return make(std::move(w)); }, options_.check);
    if (!checker) return checker.failure();
    // The incumbent is what the others are compared with, so it goes first.
    std::vector<size_t> order;
    for (const int e : raced.order) order.push_back(position[size_t(e)]);
    if (const auto first = std::ranges::find(order, position[0]); first != order.end())
      check(**checker, position[0]);
    for (const size_t i : order) {
      Tried& tried = selection_.tried[i];
      if (tried.verdict.passed() && !tried.checked) check(**checker, i);
      if (!tried.checked) continue;
      selection_.winner = int(i);
      break;
    }
    selection_.checked_seconds = spent + clock_.now() - checking;
    if (selection_.winner < 0)
      return Failure{fmt::format("{}: no candidate is right: {}", problem_.cone.name, causes())};
    keep();
    return std::move(selection_);
  }

  Result<Tried> check_first() {
    auto work = std::make_shared<const Workload>(
        workload_of(problem_, problem_.cone, problem_.symbols, options_.build.threads));
    measurer_ = make(work);
    build_all();
    if (built_[0].number < 0) return Failure{selection_.tried[0].rejected};
    auto checker = Checker::create(
        problem_, options_.build, [this](auto w) { return make(std::move(w)); }, options_.check);
    if (!checker) return checker.failure();
    check(**checker, 0);
    return std::move(selection_.tried[0]);
  }

private:
  std::unique_ptr<Measurer> make(std::shared_ptr<const Workload> work) const {
    return options_.worker ? make_worker_measurer(std::move(work), options_.measure)
                           : make_in_process_measurer(std::move(work), options_.measure);
  }

  /// Legal, known to be wrong, the same as an earlier one? What is left is compiled on all workers; nothing compiles once the race has begun.
  void build_all() {
    std::vector<size_t> wanted;
    for (size_t i = 0; i < candidates_.size(); i++)
      if (lower_one(i)) wanted.push_back(i);
    std::vector<std::optional<Result<CandidateCode>>> codes(wanted.size());
    {
      ThreadPool pool(options_.build.threads); // gone before a worker process is forked
      pool.parallel_for(int64_t(wanted.size()), [&](int64_t w) {
        codes[size_t(w)].emplace(build(built_[wanted[size_t(w)]].kernel, problem_.symbols, options_.build));
      });
    }
    for (size_t w = 0; w < wanted.size(); w++) {
      Result<CandidateCode>& code = *codes[w];
      const auto number = code ? measurer_->add(std::move(*code)) : Result<int>(code.failure());
      if (number)
        built_[wanted[w]].number = *number;
      else
        selection_.tried[wanted[w]].rejected = number.error();
    }
  }

  bool lower_one(size_t i) {
    Tried& tried = selection_.tried[i];
    if (options_.cache)
      if (const auto known = options_.cache->quarantined(key_, tried.schedule)) {
        tried.rejected = "quarantined: " + known->cause;
        return false;
      }
    auto lowered = candidates_[i].lower(problem_.cone, candidates_[i].schedule);
    if (!lowered) {
      tried.rejected = lowered.error();
      return false;
    }
    const auto [same, fresh] = kernels_.try_emplace(kernel::structural_hash128(*lowered), i);
    if (!fresh) {
      tried.rejected = fmt::format("the same code as candidate {}", same->second);
      return false;
    }
    built_[i].kernel = std::move(*lowered);
    return true;
  }

  void check(Checker& checker, size_t i) {
    Tried& tried = selection_.tried[i];
    tried.verdict = checker.check(candidates_[i], *measurer_, built_[i].number);
    tried.checked = tried.verdict.passed();
    if (!tried.checked)
      condemn(i, fmt::format("wrong in step {}: {}", tried.verdict.step, tried.verdict.cause));
  }

  /// Never again: a reproducer, a line in the log, quarantine.
  void condemn(size_t i, const std::string& cause) {
    Tried& tried = selection_.tried[i];
    tried.rejected = cause;
    const std::string folder = fmt::format("{}/{}-{:016x}", reproducer_folder(options_), problem_.cone.name,
                                           hash64(tried.schedule, key_.hash().low));
    const auto written = write_reproducer(folder, problem_, candidates_[i], built_[i].kernel, cause,
                                          tried.verdict.loops, options_.build);
    if (written) tried.reproducer = *written;
    log_error("{}: a candidate is out, {}; {}", problem_.cone.name, cause,
              written ? "reproducer in " + *written : "no reproducer: " + written.error());
    if (options_.cache) options_.cache->quarantine(key_, tried.schedule, cause, tried.reproducer);
  }

  std::string causes() const {
    for (const Tried& tried : selection_.tried)
      if (!tried.rejected.empty()) return tried.rejected;
    return "nothing was given";
  }

  void keep() {
    const Tried& won = selection_.tried[size_t(selection_.winner)];
    for (Tried& tried : selection_.tried)
      if (&tried != &won && tried.rejected.empty())
        tried.rejected = tried.seconds > 0 ? fmt::format("{:+.1f} % against the winner",
                                                         100 * (tried.seconds / won.seconds - 1))
                                           : "the budget ended before its turn";
    if (!options_.cache || !(won.seconds > 0)) return;
    TuningEntry entry;
    entry.key = key_;
    entry.name = problem_.cone.name;
    entry.schedule = won.schedule;
    entry.seconds = won.seconds;
    entry.samples = std::max<int64_t>(won.samples, 1);
    entry.limit_fraction = options_.limit_seconds / won.seconds;
    entry.checked = true;
    options_.cache->put(std::move(entry), TuningCache::Keep::newest); // an old time may be of a faster moment
  }

  const KernelProblem& problem_;
  const std::vector<Candidate>& candidates_;
  const SelectOptions& options_;
  std::unique_ptr<Measurer> measurer_;
  std::vector<Built> built_;
  std::map<Hash128, size_t> kernels_;
  Clock& clock_;
  TuningKey key_;
  Selection selection_;
};

} // namespace

Result<Selection> select(const KernelProblem& problem, const std::vector<Candidate>& candidates,
                         const SelectOptions& options) {
  return Selector(problem, candidates, options).run();
}

Result<Tried> check_one(const KernelProblem& problem, const Candidate& candidate,
                        const SelectOptions& options) {
  const std::vector<Candidate> candidates = {candidate};
  return Selector(problem, candidates, options).check_first();
}

Result<void> make_judgeable(KernelProblem& problem, const SelectOptions& options) {
  const auto none = [](std::shared_ptr<const Workload>) { return std::unique_ptr<Measurer>(); };
  if (Checker::create(problem, options.build, none, options.check)) return {};
  problem.floats = {0.5, 2};
  auto checker = Checker::create(problem, options.build, none, options.check);
  if (!checker) return checker.failure();
  return {};
}

Result<std::string> write_reproducer(const std::string& folder, const KernelProblem& problem,
                                     const Candidate& candidate, const kernel::Kernel& kernel,
                                     const std::string& cause, const std::string& loops,
                                     const BuildOptions& build) {
  nlohmann::ordered_json about{
      {"cause", cause},
      {"seed", problem.seed},
      {"symbols", problem.symbols},
      {"integers", problem.integers},
      {"floats", problem.floats},
      {"threads", build.threads},
      {"lanes", build.lower.lanes},
      {"contract", build.lower.contract},
      {"target",
       {{"triple", build.target.triple}, {"cpu", build.target.cpu}, {"features", build.target.features}}},
      {"codegen", codegen::codegen_version},
      {"llvm", codegen::llvm_version()}};
  const std::vector<std::pair<std::string, std::string>> files = {
      {"term.lum", to_string(problem.module)},
      {"schedule.txt", kernel::to_string(candidate.schedule)},
      {"loops.txt", kernel::to_string(kernel)},
      {"loops_shrunken.txt", loops},
      {"case.json", about.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n"}};
  for (const auto& [name, text] : files) {
    if (text.empty()) continue;
    if (auto written = write_file(fmt::format("{}/{}", folder, name), std::string_view(text)); !written)
      return written.failure();
  }
  return folder;
}

} // namespace luminal::search
