// compile/program_race.cpp -- memory and inputs of whole programs, and their times.
#include "base/check.h"
#include "base/hash.h"
#include "base/text.h"
#include "base/thread_pool.h"
#include "compile/program_of_race.h"
#include "device/cpu/cpu_device.h"
#include "search/measure_log.h"
#include "search/race.h"
#include <algorithm>
#include <fmt/format.h>
#include <utility>

namespace luminal::compile {
namespace {

using runtime::Plan;
using runtime::Slot;
using runtime::SlotKind;
using runtime::Step;

} // namespace

void make_content(DType dtype, std::span<std::byte> bytes, const std::string& name, Interval range) {
  if (bits(dtype) < 8) dtype = DType::u8;
  const int64_t count = int64_t(bytes.size()) * 8 / bits(dtype);
  const int64_t low = std::max<int64_t>(range.low, 0), wide = std::max<int64_t>(1, range.high - low + 1);
  uint64_t state = hash64(name);
  // A block of random elements again and again: what a value is does not matter to the time, where
  // it lies does.
  const int64_t block = std::min<int64_t>(count, 4096);
  for (int64_t i = 0; i < block; i++) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    const int64_t draw = int64_t(state >> 33);
    if (is_float(dtype))
      store_f64(dtype, bytes.data(), i, double(draw % 2001 - 1000) / 1000);
    else
      store_i64(dtype, bytes.data(), i, dtype == DType::boolean ? draw % 2 : low + draw % wide);
  }
  const size_t unit = size_t(block) * size_t(bits(dtype)) / 8;
  for (size_t at = unit; unit > 0 && at < bytes.size(); at += unit)
    std::copy_n(bytes.begin(), std::min(unit, bytes.size() - at), bytes.begin() + long(at));
}

ProgramRace::ProgramRace(Options options)
    : options_(std::move(options)), device_(device::make_cpu_device(*options_.pool)),
      store_(std::make_shared<runtime::Store>(*device_)) {}

ProgramRace::~ProgramRace() {
  programs_.clear();
  store_.reset();
}

void ProgramRace::drop(ProgramId program) { programs_[program].reset(); }

Result<ProgramId> ProgramRace::add(std::shared_ptr<const Plan> plan) {
  const auto loaded = search::outcome(options_.log, "a program", "", [&] { return load(std::move(plan)); });
  if (!loaded) return loaded.failure();
  if (search::replays(options_.log)) programs_.emplace_back();
  return programs_.end_id() - 1;
}

Result<void> ProgramRace::load(std::shared_ptr<const Plan> plan) {
  bool host = false;
  for_each_step(plan->steps, [&](const Step& step) { host |= step.is<runtime::HostCall>(); });
  if (host) return Failure{"it has steps that only the program's owner can run"};
  int64_t bytes = plan->memory_bytes();
  for (const Slot& slot : plan->slots) {
    if (slot.kind == SlotKind::argument) bytes += slot.max_bytes;
    if (slot.kind == SlotKind::weight && (!options_.weights || options_.weights(slot.name).empty()))
      bytes += slot.max_bytes;
  }
  if (2 * bytes > options_.most_bytes)
    return Failure{fmt::format("two of them may need {}, and {} are free", human_bytes(uint64_t(2 * bytes)),
                               human_bytes(uint64_t(options_.most_bytes)))};
  for (const Slot& slot : plan->slots) {
    if (slot.kind != SlotKind::weight || store_->has_weight(slot.name)) continue;
    const auto given = options_.weights ? options_.weights(slot.name) : std::span<const std::byte>();
    if (int64_t(given.size()) >= slot.max_bytes && !given.empty()) {
      store_->borrow_weight(slot.name, given, nullptr);
      continue;
    }
    std::vector<std::byte> made(size_t(slot.max_bytes));
    make_content(slot.type.dtype, made, slot.name, {0, 3});
    if (auto done = store_->copy_weight(slot.name, made); !done) return done.failure();
  }
  auto program = std::make_unique<Program>();
  program->plan = plan;
  auto executable = runtime::Executable::load(std::move(plan), *device_);
  if (!executable) return executable.failure();
  program->executable = std::move(*executable);
  auto context = runtime::Context::create(program->executable, store_);
  if (!context) return context.failure();
  program->context = std::move(*context);
  for (const auto& [name, value] : options_.sizes)
    if (auto done = program->context->set_symbol(name, value); !done) continue; // no symbol of this plan
  if (auto ran = fill(*program); !ran)
    return Failure{"no inputs are known that it runs with: " + ran.error()};
  programs_.push_back(std::move(program));
  return {};
}

bool ProgramRace::set_sizes(const std::map<std::string, int64_t>& sizes) {
  return search::outcome(options_.log, "sizes", "",
                         [&]() -> Result<void> {
                           if (take_sizes(sizes)) return {};
                           return Failure{"not possible"};
                         })
      .ok();
}

bool ProgramRace::take_sizes(const std::map<std::string, int64_t>& sizes) {
  for (const auto& program : programs_) {
    if (!program) continue;
    ExprMap<int64_t> values;
    for (const Expr symbol : program->plan->symbols)
      if (const auto found = sizes.find(std::string(symbol.name())); found != sizes.end())
        values[symbol] = found->second;
    for (const Expr condition : program->plan->assumptions)
      if (const auto holds = evaluate(condition, values); holds && *holds == 0) return false;
  }
  const auto before = std::exchange(options_.sizes, sizes);
  const auto take = [&] {
    bool good = true;
    for (const auto& program : programs_) {
      if (!program) continue;
      for (const auto& [name, value] : options_.sizes)
        if (auto done = program->context->set_symbol(name, value); !done) continue; // no symbol of this plan
      program->filled = false;
      good &= fill(*program).ok();
    }
    return good;
  };
  if (take()) return true;
  options_.sizes = before;
  take();
  return false;
}

Result<void> ProgramRace::fill(Program& program) {
  std::map<runtime::SlotId, Interval> ranges;
  ExprMap<int64_t> symbols;
  for (const Expr symbol : program.plan->symbols)
    if (const auto value = program.context->symbol(symbol.name())) symbols[symbol] = *value;
  for_each_step(program.plan->steps, [&](const Step& step) {
    const auto* check = step.as<runtime::RangeCheck>();
    if (!check) return;
    Interval range = check->range;
    if (!check->limit.is_constant(0))
      if (const auto limit = evaluate(check->limit, symbols)) range.high = std::min(range.high, *limit - 1);
    const auto [found, fresh] = ranges.try_emplace(check->slot, range);
    if (!fresh)
      found->second = {std::max(found->second.low, range.low), std::min(found->second.high, range.high)};
  });
  // Numbers of their ranges; where accesses that depend on several of them refuse those, the least
  // ones, and ones (of divisors).
  Result<void> ran;
  for (const int64_t most : {int64_t(INT64_MAX), int64_t(0), int64_t(1)}) {
    for (const runtime::SlotId i : program.plan->slots.ids()) {
      const Slot& slot = program.plan->slots[i];
      if (slot.kind != SlotKind::argument) continue;
      auto memory = program.context->argument(slot.name);
      if (!memory) return memory.failure();
      const auto known = ranges.find(i);
      Interval range = known != ranges.end() ? known->second : Interval{0, 3};
      range.low = std::max<int64_t>(range.low, most == 1 ? 1 : 0);
      range.high = std::min(range.high, std::max(range.low, most));
      make_content(slot.type.dtype, *memory, slot.name, range);
    }
    if (ran = program.context->run(); ran) break;
  }
  if (!ran) return ran;
  program.filled = true;
  return {};
}

Result<double> ProgramRace::run(Program& program) {
  if (!program.filled)
    if (auto done = fill(program); !done) return done.failure();
  const double begin = search::Clock::steady().now();
  if (auto done = program.context->run(); !done) return done.failure();
  return search::Clock::steady().now() - begin;
}

Result<ProgramRace::Times> ProgramRace::compare(ProgramId first, ProgramId second, double seconds, int rounds,
                                                const std::function<bool()>& stop, double pause) {
  if (!options_.log) return time(first, second, seconds, rounds, stop, pause);
  const auto answer = options_.log->ask("times of two programs", fmt::format("{} {}", first, second),
                                        [&]() -> search::MeasureLog::Answer {
                                          const auto t = time(first, second, seconds, rounds, stop, pause);
                                          if (!t) return {false, t.error(), {}};
                                          return {true, "", {t->first, t->second, double(t->rounds)}};
                                        });
  if (!answer.ok) return Failure{answer.text};
  return Times{answer.numbers.at(0), answer.numbers.at(1), int(answer.numbers.at(2))};
}

Result<ProgramRace::Times> ProgramRace::time(ProgramId first, ProgramId second, double seconds, int rounds,
                                             const std::function<bool()>& stop, double pause) {
  Program* programs[2] = {programs_[first].get(), programs_[second].get()};
  LUMINAL_CHECK(programs[0] && programs[1]);
  std::vector<double> samples[2];
  for (Program* program : programs) // pages and caches
    if (auto done = run(*program); !done) return done.failure();
  const double begin = search::Clock::steady().now();
  constexpr int least_rounds = 3, most_rounds = 400;
  constexpr double much_longer = 3;
  for (int round = 0; round < most_rounds; round++) {
    const double spent = search::Clock::steady().now() - begin;
    if (round >= rounds && spent >= seconds) break;
    if (round >= least_rounds && spent >= much_longer * seconds && seconds > 0)
      break; // long steps, a busy machine
    if (round >= 3 && stop && stop()) break;
    for (const int turn : {round % 2, 1 - round % 2}) {
      double total = 0;
      const int steps = pause > 0 ? 8 : 1;
      for (int step = 0; step < steps; step++) {
        for (const double end = search::Clock::steady().now() + pause; search::Clock::steady().now() < end;) {
        }
        auto time = run(*programs[turn]);
        if (!time) return time.failure();
        total += *time;
      }
      samples[turn].push_back(total / steps);
    }
  }
  // With pauses the middle counts: what a step waits for now and then is a part of what it takes.
  const double percentile = pause > 0 ? 0.5 : 0.1;
  return Times{search::low_percentile(samples[0], percentile), search::low_percentile(samples[1], percentile),
               int(samples[0].size())};
}

} // namespace luminal::compile
