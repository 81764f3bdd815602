// compile/program_difference.cpp -- whether two programs of a race compute the same.
#include "base/check.h"
#include "base/hash.h"
#include "compile/program_of_race.h"
#include "search/measure_log.h"
#include <algorithm>
#include <cmath>
#include <cstring>
#include <fmt/format.h>
#include <limits>

namespace luminal::compile {

using runtime::Slot;
using runtime::SlotKind;

/// What goes into a step, and what comes out: bytes by name.
struct ProgramRace::Outcome {
  struct Value {
    DType dtype;
    std::vector<std::byte> bytes;
    int64_t count() const { return int64_t(bytes.size()) * 8 / bits(dtype); }
  };
  std::map<std::string, Value> arguments, states_before, results, states;
};

namespace {

constexpr double allowed_of_rounding = 32, allowed_of_integers = 4;
/// Bytes of weights that are moved, the small ones first, where nothing else that goes in is a float.
constexpr int64_t most_moved = int64_t(64) << 20;

bool is_whole(DType dtype) { return !is_float(dtype); }

/// Each float up or down by `part` of it, as a function of its place.
void move(DType dtype, std::span<std::byte> bytes, double part) {
  if (!is_float(dtype) || bits(dtype) < 8) return;
  const int64_t count = int64_t(bytes.size()) * 8 / bits(dtype);
  uint64_t state = 1;
  for (int64_t i = 0; i < count; ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    store_f64(dtype, bytes.data(), i, load_f64(dtype, bytes.data(), i) * (1 + (state >> 63 ? part : -part)));
  }
}

/// How far two values are apart, and where it is farthest.
struct Distance {
  double largest = 0; // magnitude of the first
  double apart = 0;   // of finite elements
  int64_t others = 0; // integers that differ; floats of which one is finite, or both are infinite apart
  int64_t place = 0;  // of what `apart` or `others` tells
  double here = 0, there = 0;
};

Distance distance(const auto& a, const auto& b) {
  Distance out;
  const bool whole = is_whole(a.dtype);
  if (bits(a.dtype) < 8 || whole) {
    if (a.bytes == b.bytes) return out;
    const DType unit = bits(a.dtype) < 8 ? DType::u8 : a.dtype;
    for (int64_t i = 0; i < int64_t(a.bytes.size()) * 8 / bits(unit); ++i) {
      const int64_t x = load_i64(unit, a.bytes.data(), i), y = load_i64(unit, b.bytes.data(), i);
      if (x != y && out.others++ == 0) out.place = i, out.here = double(x), out.there = double(y);
    }
    return out;
  }
  for (int64_t i = 0; i < a.count(); ++i) {
    const double x = load_f64(a.dtype, a.bytes.data(), i), y = load_f64(a.dtype, b.bytes.data(), i);
    if (!std::isfinite(x) || !std::isfinite(y)) {
      if ((std::isnan(x) && std::isnan(y)) || x == y) continue;
      if (out.others++ == 0) out.place = i, out.here = x, out.there = y;
      continue;
    }
    out.largest = std::max(out.largest, std::abs(x));
    if (const double apart = std::abs(x - y); apart > out.apart) {
      out.apart = apart;
      if (out.others == 0) out.place = i, out.here = x, out.there = y;
    }
  }
  return out;
}

bool only_nan(const auto& value) {
  if (is_whole(value.dtype) || bits(value.dtype) < 8 || value.bytes.empty()) return false;
  for (int64_t i = 0; i < value.count(); ++i)
    if (std::isfinite(load_f64(value.dtype, value.bytes.data(), i))) return false;
  return true;
}

} // namespace

/// Floats of states are small and positive: what adds to a state, takes roots of it or divides by it works.
Result<void> ProgramRace::fill_states(Program& program) {
  for (const Slot& slot : program.plan->slots) {
    if (slot.kind != SlotKind::state || !is_float(slot.type.dtype) || bits(slot.type.dtype) < 8) continue;
    auto state = program.context->state(slot.name);
    if (!state) return state.failure();
    make_content(slot.type.dtype, state->bytes, slot.name, {});
    const int64_t count = int64_t(state->bytes.size()) * 8 / bits(slot.type.dtype);
    for (int64_t i = 0; i < count; ++i)
      store_f64(slot.type.dtype, state->bytes.data(), i,
                std::abs(load_f64(slot.type.dtype, state->bytes.data(), i)) / 8 + 0x1p-6);
  }
  return {};
}

/// One step into poisoned memory, and all that it read and wrote.
Result<ProgramRace::Outcome> ProgramRace::outcome(Program& program) {
  Outcome out;
  const auto copy = [](const runtime::HostValue& value) {
    return Outcome::Value{value.dtype, {value.bytes.begin(), value.bytes.end()}};
  };
  for (const Slot& slot : program.plan->slots) {
    if (slot.kind == SlotKind::argument) {
      auto memory = program.context->argument(slot.name);
      if (!memory) return memory.failure();
      out.arguments[slot.name] = {slot.type.dtype, {memory->begin(), memory->end()}};
    }
    if (slot.kind == SlotKind::state) {
      auto state = program.context->state(slot.name);
      if (!state) return state.failure();
      out.states_before[slot.name] = copy(*state);
    }
  }
  for (const runtime::PlanResult& result : program.plan->results) {
    if (program.plan->slots[result.slot].kind != SlotKind::arena) continue;
    auto value = program.context->result(result.name);
    if (!value) return value.failure();
    std::ranges::fill(value->bytes, std::byte(0xff));
  }
  if (auto ran = program.context->run(); !ran) return ran.failure();
  for (const runtime::PlanResult& result : program.plan->results) {
    auto value = program.context->result(result.name);
    if (!value) return value.failure();
    out.results[result.name] = copy(*value);
  }
  for (const auto& [name, before] : out.states_before) {
    auto state = program.context->state(name);
    if (!state) return state.failure();
    out.states[name] = copy(*state);
  }
  return out;
}

/// What went into a step goes in again; its floats are moved by this part of each.
Result<void> ProgramRace::put_in(Program& program, const Outcome& given, double moved) {
  for (const Slot& slot : program.plan->slots) {
    const bool argument = slot.kind == SlotKind::argument;
    if (!argument && slot.kind != SlotKind::state) continue;
    const auto& values = argument ? given.arguments : given.states_before;
    const auto found = values.find(slot.name);
    if (found == values.end()) return Failure{fmt::format("only one of them takes {}", slot.name)};
    std::vector<std::byte> bytes = found->second.bytes;
    if (moved != 0) move(slot.type.dtype, bytes, moved);
    if (argument) {
      auto memory = program.context->argument(slot.name);
      if (!memory) return memory.failure();
      if (memory->size() != bytes.size()) return Failure{fmt::format("{} has two sizes", slot.name)};
      std::ranges::copy(bytes, memory->begin());
    } else if (auto done = program.context->set_state(slot.name, bytes); !done)
      return done.failure();
  }
  return {};
}

/// The program with floats of its weights moved, in a store of its own.
Result<std::unique_ptr<ProgramRace::Program>> ProgramRace::with_moved_weights(const Program& program) {
  auto store = std::make_shared<runtime::Store>(*device_);
  std::vector<const Slot*> weights;
  for (const Slot& slot : program.plan->slots)
    if (slot.kind == SlotKind::weight) weights.push_back(&slot);
  std::ranges::stable_sort(weights, {}, [](const Slot* slot) { return slot->max_bytes; });
  int64_t left = most_moved;
  for (const Slot* slot : weights) {
    const std::span<const std::byte> bytes = store_->weight(slot->name);
    if (!is_float(slot->type.dtype) || int64_t(bytes.size()) > left) {
      store->borrow_weight(slot->name, bytes, store_);
      continue;
    }
    left -= int64_t(bytes.size());
    std::vector<std::byte> moved(bytes.begin(), bytes.end());
    move(slot->type.dtype, moved, options_.epsilon);
    if (auto done = store->copy_weight(slot->name, moved); !done) return done.failure();
  }
  auto made = std::make_unique<Program>();
  made->plan = program.plan;
  made->executable = program.executable;
  auto context = runtime::Context::create(program.executable, store);
  if (!context) return context.failure();
  made->context = std::move(*context);
  for (const Expr symbol : program.plan->symbols)
    if (const auto value = program.context->symbol(symbol.name()))
      if (auto done = made->context->set_symbol(symbol.name(), *value); !done) return done.failure();
  return made;
}

Result<std::string> ProgramRace::difference(ProgramId first, ProgramId second) {
  if (!options_.log) return difference_now(first, second);
  const auto answer = options_.log->ask("a difference of programs", fmt::format("{} {}", first, second),
                                        [&]() -> search::MeasureLog::Answer {
                                          const auto text = difference_now(first, second);
                                          return {text.ok(), text ? *text : text.error(), {}};
                                        });
  if (!answer.ok) return Failure{answer.text};
  return answer.text;
}

/// Of a step of both on the same inputs and states.
Result<std::pair<ProgramRace::Outcome, ProgramRace::Outcome>> ProgramRace::outcomes(ProgramId first,
                                                                                    ProgramId second) {
  Program *a = programs_[first].get(), *b = programs_[second].get();
  LUMINAL_CHECK(a && b);
  for (Program* program : {a, b})
    if (!program->filled)
      if (auto done = fill(*program); !done) return done.failure();
  if (auto done = fill_states(*a); !done) return done.failure();
  auto wanted = outcome(*a);
  if (!wanted) return wanted.failure();
  if (auto done = put_in(*b, *wanted, 0); !done) return done.failure();
  auto got = outcome(*b);
  if (!got) return got.failure();
  return std::pair(std::move(*wanted), std::move(*got));
}

Result<double> ProgramRace::error(ProgramId first, ProgramId second) {
  const auto now = [&]() -> Result<double> {
    const auto both = outcomes(first, second);
    if (!both) return both.failure();
    const auto& [wanted, got] = *both;
    double largest = 0;
    for (const auto& [x, y] : {std::pair(&wanted.results, &got.results), {&wanted.states, &got.states}})
      for (const auto& [name, value] : *x) {
        const auto found = y->find(name);
        if (found == y->end() || found->second.bytes.size() != value.bytes.size())
          return Failure{fmt::format("{}: only one of them gives it, or of other sizes", name)};
        if (only_nan(value))
          return Failure{fmt::format("{} is not finite for the inputs that are known", name)};
        const Distance d = distance(value, found->second);
        if (d.others > 0) return std::numeric_limits<double>::infinity();
        if (d.apart > 0) largest = std::max(largest, d.apart / d.largest);
      }
    return largest;
  };
  if (!options_.log) return now();
  const auto answer = options_.log->ask(
      "an error of programs", fmt::format("{} {}", first, second), [&]() -> search::MeasureLog::Answer {
        const auto error = now();
        return {error.ok(), error ? "" : error.error(), error ? std::vector{*error} : std::vector<double>()};
      });
  if (!answer.ok || answer.numbers.empty()) return Failure{answer.text};
  return answer.numbers[0];
}

Result<std::string> ProgramRace::difference_now(ProgramId first, ProgramId second) {
  auto both = outcomes(first, second);
  if (!both) return both.failure();
  const Outcome *wanted = &both->first, *got = &both->second;
  Program *a = programs_[first].get(), *b = programs_[second].get();

  bool floats = false;
  for (const auto* values : {&wanted->arguments, &wanted->states_before})
    for (const auto& [name, value] : *values) floats |= is_float(value.dtype);
  std::unique_ptr<Program> other;
  if (!floats) {
    auto made = with_moved_weights(*a);
    if (!made) return made.failure();
    other = std::move(*made);
  }
  if (auto done = put_in(other ? *other : *a, *wanted, options_.epsilon); !done) return done.failure();
  auto moved = outcome(other ? *other : *a);
  if (!moved) return moved.failure();
  for (Program* program : {a, b})
    if (auto done = put_in(*program, *wanted, 0); !done) return done.failure();

  for (const auto& [x, y, z] : {std::tuple(&wanted->results, &got->results, &moved->results),
                                {&wanted->states, &got->states, &moved->states}})
    for (const auto& [name, value] : *x) {
      const auto found = y->find(name);
      if (found == y->end() || found->second.bytes.size() != value.bytes.size())
        return fmt::format("{}: only one of them gives it, or of other sizes", name);
      if (only_nan(value))
        return Failure{fmt::format("{} is not finite for the inputs that are known", name)};
      const Distance by_program = distance(value, found->second), by_rounding = distance(value, z->at(name));
      const double allowed =
          allowed_of_rounding * (options_.epsilon * by_program.largest + by_rounding.apart);
      const double most_others = allowed_of_integers * double(by_rounding.others);
      if (by_program.apart <= allowed && double(by_program.others) <= most_others) continue;
      return fmt::format("{}[{}]: {:.9g} in place of {:.9g}, {:.3g} is allowed", name, by_program.place,
                         by_program.there, by_program.here, allowed);
    }
  return std::string();
}

} // namespace luminal::compile
