// loop/loop_interp.cpp -- control flow of the loop interpreter: workers, loops, barriers, roles,
// findings.
#include "loop/loop_interp.h"
#include "base/check.h"
#include "base/contains.h"
#include "base/hash.h"
#include "loop/loop_machine.h"
#include <algorithm>
#include <bit>
#include <fmt/format.h>

namespace luminal::kernel {

std::string_view to_string(FindingKind kind) {
  switch (kind) {
  case FindingKind::race: return "race";
  case FindingKind::out_of_bounds: return "out of bounds";
  case FindingKind::uninitialised: return "uninitialised";
  case FindingKind::carried: return "carried";
  case FindingKind::in_flight: return "in flight";
  case FindingKind::ring: return "ring";
  case FindingKind::token: return "token";
  case FindingKind::divergence: return "divergence";
  case FindingKind::range: return "range";
  case FindingKind::overflow: return "overflow";
  case FindingKind::lanes: return "lanes";
  case FindingKind::unaligned: return "unaligned";
  case FindingKind::limit: return "limit";
  }
  return "?";
}

LoopRunOptions adversarial(uint64_t seed, int workers, int lanes) {
  const auto draw = [&](uint64_t what, uint64_t below) {
    return hash_mix(hash_mix(0x51ed, seed), what) % below;
  };
  LoopRunOptions o;
  o.workers = workers;
  o.lanes = lanes;
  o.seed = seed;
  o.order = WorkerOrder(draw(1, 4));
  o.distribution = Distribution(draw(2, 3));
  o.arrival = Arrival(draw(3, 3));
  o.role_order = RoleOrder(draw(4, 3));
  return o;
}

int64_t LoopCounts::total_ops() const {
  int64_t total = 0;
  for (const auto& [op, number] : ops) total += number;
  return total;
}

std::string LoopRun::text() const {
  std::string text;
  for (const Finding& f : findings) text += f.text + "\n";
  return text;
}

LoopRun run_kernel(const Kernel& kernel, std::span<const std::span<std::byte>> globals,
                   std::span<const int64_t> symbols, const LoopRunOptions& options) {
  if (const auto mistakes = verify(kernel); !mistakes.empty())
    throw Error(fmt::format("[run_kernel] {}: {}", kernel.name, mistakes.front()));
  if (options.workers < 1 || options.lanes < 1 || options.workers > 1 << 16 || options.lanes > 1 << 16)
    throw Error(fmt::format("[run_kernel] {} workers of {} lanes", options.workers, options.lanes));
  if (const int64_t lanes = lanes_of_group(kernel); lanes != 0 && lanes != options.lanes)
    throw Error(fmt::format("[run_kernel] {}: its groups have {} lanes, {} given", kernel.name, lanes,
                            options.lanes));
  const loop_detail::Program program = loop_detail::compile_loops(kernel);
  return loop_detail::Machine(program, globals, symbols, options).run();
}

namespace loop_detail {

Machine::Machine(const Program& program, std::span<const std::span<std::byte>> globals,
                 std::span<const int64_t> symbols, const LoopRunOptions& options)
    : p_(program), k_(*program.kernel), o_(options),
      clock_(options.workers, options.lanes, options.iterations_race),
      symbols_(symbols.begin(), symbols.end()), executed_(program.code.size()), read_bits_(k_.buffers.size()),
      written_bits_(k_.buffers.size()), random_(options.seed * 2 + 1) {
  if (symbols.size() != k_.symbols.size())
    throw Error(
        fmt::format("[run_kernel] {}: {} symbols, {} values", k_.name, k_.symbols.size(), symbols.size()));
  for (size_t i = 0; i < symbols.size(); ++i) {
    const Expr s = k_.symbols[i];
    const bool multiple = s.multiple() <= 1 || symbols[i] % s.multiple() == 0;
    if (!s.range().contains(symbols[i]) || !multiple)
      throw Error(fmt::format("[run_kernel] {}: {} = {} does not satisfy its facts {}..{}, multiple of {}",
                              k_.name, s.name(), symbols[i], s.range().low, s.range().high, s.multiple()));
  }
  const int count = options.workers * options.lanes;
  for (int id = 0; id < count; ++id) {
    Worker w;
    w.id = uint32_t(id);
    w.group = id / options.lanes;
    w.lane = id % options.lanes;
    w.slots.assign(std::max<size_t>(1, p_.symbols.size()), 0);
    std::ranges::copy(symbols, w.slots.begin());
    w.loops.resize(p_.loops);
    w.lets.resize(size_t(k_.lets) * p_.widest);
    w.index_lets.resize(size_t(p_.index_lets) * p_.widest);
    w.cells.resize(size_t(p_.most_steps) * p_.widest);
    w.acting.worker = w.id;
    w.actor = clock_.add(w.acting);
    workers_.push_back(std::move(w));
  }
  rings_.resize(options.workers);
  allocate(globals);
}

void Machine::allocate(std::span<const std::span<std::byte>> globals) {
  ExprMap<int64_t> values;
  for (size_t i = 0; i < symbols_.size(); ++i) values[k_.symbols[i]] = symbols_[i];
  size_t arguments = 0;
  for (const Buffer& b : k_.buffers) arguments += b.space == Space::global;
  if (globals.size() != arguments)
    throw Error(
        fmt::format("[run_kernel] {}: {} global buffers, {} given", k_.name, arguments, globals.size()));
  for (const BufferId id : k_.buffers.ids()) {
    const Buffer& b = k_.buffers[id];
    const int64_t elements = luminal::evaluate(b.size, values).value();
    if (elements < 0 || elements > int64_t(1) << 40)
      throw Error(fmt::format("[run_kernel] {}: '{}' has {} elements", k_.name, b.name, elements));
    const bool per_worker = b.space == Space::local || b.space == Space::registers;
    const bool per_group = b.space == Space::group || b.space == Space::tensor_memory;
    const int instances = per_worker ? o_.workers * o_.lanes : per_group ? o_.workers : 1;
    auto& regions = regions_.emplace_back(instances);
    for (Region& r : regions) {
      r.buffer = id;
      r.elements = elements;
      r.bytes = storage_bytes(b.dtype, elements);
      r.element_bits = bits(b.dtype);
      r.shift = std::countr_zero(unsigned(p_.smallest_access[id]));
      r.is_private = per_worker || per_group;
      r.private_levels = per_worker ? 3 : 1;
      r.watched = !per_worker && b.access != Access::in;
      if (b.space == Space::global) {
        const std::span<std::byte> given = globals[id.index()];
        if (int64_t(given.size()) < r.bytes)
          throw Error(fmt::format("[run_kernel] {}: '{}' needs {} bytes, {} given", k_.name, b.name, r.bytes,
                                  given.size()));
        r.data = given.data();
      } else {
        r.own.resize(size_t(r.bytes));
        r.data = r.own.data();
      }
      const bool poisoned = b.access == Access::out || b.access == Access::scratch;
      if (poisoned) std::fill_n(r.data, r.bytes, poison_byte);
      const size_t entries = size_t((r.bytes + (int64_t(1) << r.shift) - 1) >> r.shift);
      r.flags.assign(entries, poisoned ? both_halves : 0);
      if (r.watched) r.shadow.resize(entries);
      if (r.is_private) r.keeper.assign(entries, 0);
    }
  }
}

Region& Machine::region(const Worker& w, BufferId id) {
  auto& regions = regions_[id];
  return regions.size() == 1
             ? regions[0]
             : regions[k_.buffers[id].space == Space::group || k_.buffers[id].space == Space::tensor_memory
                           ? size_t(w.group)
                           : size_t(w.id)];
}

uint64_t Machine::random() {
  random_ += 0x9E3779B97F4A7C15u;
  return hash_mix(0, random_);
}

uint64_t Machine::drawn(uint64_t a, uint64_t b, uint64_t c) const {
  return hash_mix(hash_mix(hash_mix(o_.seed, a), b), c);
}

// ---- findings

std::string Machine::path(const Worker& w, const Instruction& i) const {
  std::vector<std::string> parts{kernel::to_string(k_, *i.stmt)};
  for (InstructionId at = i.parent; at; at = p_.code[at].parent) {
    const Instruction& outer = p_.code[at];
    std::string part = kernel::to_string(k_, *outer.stmt);
    if (outer.slot && outer.code != Code::vector)
      part += fmt::format(" ({} = {})", outer.variable.name(), w.slots[outer.slot]);
    parts.push_back(std::move(part));
  }
  std::string text;
  for (auto part = parts.rbegin(); part != parts.rend(); ++part) text += (text.empty() ? "" : " / ") + *part;
  return text;
}

std::string Machine::statement(InstructionId at) const { return kernel::to_string(k_, *p_.code[at].stmt); }

void Machine::report(FindingKind kind, const Worker& w, const Instruction& i, BufferId buffer, int64_t offset,
                     const std::string& text) {
  if (stop_ || !reported_.emplace(kind, &i, buffer).second) return;
  Finding f;
  f.kind = kind;
  if (buffer) f.buffer = k_.buffers[buffer].name;
  f.offset = offset;
  f.path = path(w, i);
  const std::string who =
      o_.lanes > 1 ? fmt::format("worker {} lane {}", w.group, w.lane) : fmt::format("worker {}", w.group);
  f.text = fmt::format("{}: {} ({}): {}", kernel::to_string(kind), f.path, who, text);
  out_.findings.push_back(std::move(f));
  stop_ = int(out_.findings.size()) >= o_.max_findings;
}

// ---- scheduling

LoopRun Machine::run() {
  schedule();
  out_.counts = count();
  return std::move(out_);
}

void Machine::schedule() {
  std::vector<size_t> ready;
  while (!stop_) {
    ready.clear();
    for (size_t i = 0; i < workers_.size(); ++i)
      if (workers_[i].status == Worker::Status::running) ready.push_back(i);
    if (ready.empty()) {
      const auto waiting = std::find_if(workers_.begin(), workers_.end(),
                                        [](const Worker& w) { return w.status == Worker::Status::waiting; });
      if (waiting == workers_.end()) return;
      size_t here = 0;
      for (const Worker& w : workers_)
        here += w.status == Worker::Status::waiting && w.barrier_at == waiting->barrier_at;
      report(FindingKind::divergence, *waiting, p_.code[waiting->barrier_at], {}, 0,
             fmt::format("{} of {} workers wait here, the others never arrive", here, workers_.size()));
      return;
    }
    size_t pick = 0;
    int64_t quantum = INT64_MAX;
    switch (o_.order) {
    case WorkerOrder::forward: break;
    case WorkerOrder::reverse: pick = ready.size() - 1; break;
    case WorkerOrder::shuffled: pick = random() % ready.size(); break;
    case WorkerOrder::interleaved:
      pick = random() % ready.size();
      quantum = 1 + int64_t(random() % 3);
      break;
    }
    Worker& w = workers_[ready[pick]];
    while (quantum-- > 0 && !stop_ && step(w)) {
    }
    release();
  }
}

void Machine::arrive(Worker& w, int level, InstructionId at) {
  w.status = Worker::Status::waiting;
  w.barrier_level = level;
  w.barrier_at = at;
}

/// Lets those go on whose partners have all arrived.
void Machine::release() {
  const auto together = [&](size_t first, size_t count, int level) {
    for (size_t i = first; i < first + count; ++i)
      if (workers_[i].status != Worker::Status::waiting || workers_[i].barrier_level != level) return;
    for (size_t i = first; i < first + count; ++i)
      if (workers_[i].barrier_at != workers_[first].barrier_at) {
        report(FindingKind::divergence, workers_[i], p_.code[workers_[i].barrier_at], {}, 0,
               fmt::format("worker {} waits at another barrier, of instruction {}", workers_[first].id,
                           workers_[first].barrier_at));
        stop_ = true;
        return;
      }
    clock_.barrier(level, workers_[first].id);
    for (size_t i = first; i < first + count; ++i) workers_[i].status = Worker::Status::running;
  };
  const size_t lanes = size_t(o_.lanes);
  // Statements of several lanes are done when the last of these lanes has come.
  for (size_t first = 0; first < workers_.size(); ++first) {
    const Worker& w = workers_[first];
    if (w.status != Worker::Status::waiting || w.barrier_level != lanes_together) continue;
    const Instruction& i = p_.code[w.barrier_at];
    const size_t count = size_t(i.unit ? i.unit->lanes : most_exchanging);
    if (size_t(w.lane) % count != 0) continue;
    bool all = true, same = true;
    for (size_t l = first; l < first + count; ++l) {
      all &= workers_[l].status == Worker::Status::waiting;
      same &= workers_[l].barrier_level == lanes_together && workers_[l].barrier_at == w.barrier_at;
    }
    if (!all || !same) continue;
    i.unit ? this->together(first, i) : exchange(first, i);
    for (size_t l = first; l < first + count; ++l) workers_[l].status = Worker::Status::running;
  }
  for (size_t group = 0; group < size_t(o_.workers); ++group) together(group * lanes, lanes, 1);
  for (size_t i = 0; i < workers_.size(); ++i) together(i, 1, 2);
  together(0, workers_.size(), 0);
}

// ---- instructions

bool Machine::bounds(Worker& w, const Instruction& i, int64_t& begin, int64_t& end) {
  if (!i.begin.run(w.slots.data(), begin) || !i.end.run(w.slots.data(), end)) {
    const IndexCode& wrong = i.begin.run(w.slots.data(), begin) ? i.end : i.begin;
    report(FindingKind::overflow, w, i, {}, 0, "the bound: " + wrong.why(w.slots.data()));
    return false;
  }
  const Interval range = i.variable.range();
  if (begin < end && (begin < range.low || end - 1 > range.high)) {
    report(FindingKind::range, w, i, {}, 0,
           fmt::format("{} runs over {}..{}, its range is {}..{}", i.variable.name(), begin, end - 1,
                       range.low, range.high));
    return false;
  }
  return true;
}

/// Is iteration `step` of `steps` this worker's?
bool Machine::mine(const Worker& w, const Instruction& i, int64_t step, int64_t steps) const {
  if (!i.parallel || i.level > 1) return true;
  const int64_t count = i.level == 0 ? o_.workers : o_.lanes, me = i.level == 0 ? w.group : w.lane;
  if (i.meets) return step == me;
  if (count == 1) return true;
  switch (o_.distribution) {
  case Distribution::blocks: {
    const int64_t share = steps / count, rest = steps % count;
    const int64_t first = me * share + std::min(me, rest);
    return step >= first && step < first + share + (me < rest);
  }
  case Distribution::cyclic: return step % count == me;
  case Distribution::shuffled:
    return int64_t(drawn(uint64_t(i.loop.number()), uint64_t(step), 7) % uint64_t(count)) == me;
  }
  return true;
}

void Machine::enter_loop(Worker& w, const Instruction& i) {
  LoopState& state = w.loops[i.loop];
  if (!bounds(w, i, state.begin, state.end)) {
    w.pc = i.target;
    return;
  }
  state.outer = w.actor;
  const bool down = i.parallel && o_.distribution == Distribution::shuffled;
  state.at = down ? state.end : state.begin - 1;
  w.pc = next_iteration(w, i, true) ? w.pc + 1 : i.target;
}

/// Moves to the next iteration of this worker.
bool Machine::next_iteration(Worker& w, const Instruction& i, bool) {
  LoopState& state = w.loops[i.loop];
  const bool parallel = i.parallel;
  const int64_t direction = parallel && o_.distribution == Distribution::shuffled ? -1 : 1;
  for (state.at += direction; state.at >= state.begin && state.at < state.end; state.at += direction) {
    if (!mine(w, i, state.at - state.begin, state.end - state.begin)) continue;
    w.slots[i.slot] = state.at;
    ++trips_;
    if (parallel) {
      // All lanes of a group do the same iterations of level 0, in the same order: the number is
      // the same for all of them.
      const int level = i.level;
      const uint64_t sharers = level == 0 ? uint64_t(o_.workers) : uint64_t(o_.workers) * uint64_t(o_.lanes);
      const uint64_t number = w.iterations[level]++ * sharers + (level == 0 ? uint64_t(w.group) : w.id) + 1;
      LUMINAL_CHECK(number <= UINT32_MAX, "too many iterations of parallel loops");
      w.acting.iteration[level] = uint32_t(number);
      w.actor = clock_.add(w.acting);
    }
    return true;
  }
  if (parallel) {
    w.actor = state.outer;
    w.acting = clock_[state.outer];
  }
  return false;
}

void Machine::enter_vector(Worker& w, const Instruction& i) {
  int64_t begin = 0;
  w.active = 0;
  w.prefix = true;
  if (!i.begin.run(w.slots.data(), begin))
    return report(FindingKind::overflow, w, i, {}, 0, "the bound: " + i.begin.why(w.slots.data()));
  const Interval range = i.variable.range();
  if (begin < range.low || begin + i.lanes - 1 > range.high)
    return report(FindingKind::range, w, i, {}, 0,
                  fmt::format("{} runs over {}..{}, its range is {}..{}", i.variable.name(), begin,
                              begin + i.lanes - 1, range.low, range.high));
  w.lane_begin = begin;
  w.slots[i.slot] = begin;
  w.active = i.lanes;
  if (!i.masked) return;
  int64_t active = 0;
  if (!i.end.run(w.slots.data(), active)) {
    w.active = 0;
    return report(FindingKind::overflow, w, i, {}, 0, "the mask: " + i.end.why(w.slots.data()));
  }
  w.active = std::clamp<int64_t>(active, 0, i.lanes);
}

/// Both bodies run, each with the lanes that take it, and not at all where none does.
void Machine::lane_if(Worker& w, const Instruction& i) {
  std::vector<uint8_t> outer(size_t(i.lanes)), taken(size_t(i.lanes)), others(size_t(i.lanes));
  const bool known = offsets(w, i, i.index, i.lanes);
  bool any = false;
  for (int64_t l = 0; l < i.lanes; ++l) {
    outer[l] = w.alive(l);
    taken[l] = outer[l] && known && lane_offsets_[l] != 0;
    others[l] = outer[l] && known && !taken[l];
    any |= taken[l];
  }
  outer.push_back(w.prefix);
  w.outer_live.push_back(std::move(outer));
  w.not_taken.push_back(std::move(others));
  w.live = std::move(taken);
  w.prefix = false;
  w.pc = any ? w.pc + 1 : i.target;
}

void Machine::lane_else(Worker& w, const Instruction& i) {
  w.live = w.not_taken.back();
  const bool any = contains(w.live, uint8_t(1));
  w.pc = any ? w.pc + 1 : i.target;
}

void Machine::lane_end(Worker& w) {
  w.live = std::move(w.outer_live.back());
  w.prefix = w.live.back();
  w.live.pop_back();
  w.outer_live.pop_back();
  w.not_taken.pop_back();
}

/// Producers go ahead as far as the ring and the order of this run allow.
void Machine::role(Worker& w, const Instruction& i) {
  LoopState& s = w.loops[i.loop];
  w.role = 0;
  w.role_loop = {};
  if (s.consumed == s.end) {
    w.pc = i.target2;
    return;
  }
  const int64_t ahead = s.produced - s.consumed;
  bool produce = ahead == 0;
  if (!produce && s.produced < s.end && ahead < i.stages)
    produce =
        o_.role_order == RoleOrder::ahead ||
        (o_.role_order == RoleOrder::mixed && drawn(uint64_t(s.produced), uint64_t(s.consumed), 11) % 2);
  w.role = produce ? 1 : 2;
  w.role_step = produce ? s.produced : s.consumed;
  w.role_stages = i.stages;
  w.role_loop = i.loop;
  w.slots[i.slot] = w.role_step;
  w.pc = produce ? w.pc + 1 : i.target;
}

void Machine::finish(Worker& w) {
  w.status = Worker::Status::done;
  for (const auto& [token, queue] : w.tokens)
    if (!queue.empty())
      report(FindingKind::token, w, *queue.front()->instruction, {}, 0,
             fmt::format("token {} is still in flight at the end of the kernel", token));
}

bool Machine::step(Worker& w) {
  const Instruction& i = p_.code[w.pc];
  if (i.code == Code::end) {
    finish(w);
    return false;
  }
  ++executed_[w.pc];
  if (++statements_ > o_.max_statements) {
    report(FindingKind::limit, w, i, {}, 0, fmt::format("{} statements are done", o_.max_statements));
    stop_ = true;
    return false;
  }
  switch (i.code) {
  case Code::loop: enter_loop(w, i); return true;
  case Code::next: w.pc = next_iteration(w, i, false) ? i.target : w.pc + 1; return true;
  case Code::vector: enter_vector(w, i); break;
  case Code::vector_end: break;
  case Code::branch: {
    int64_t condition = 0;
    if (!i.end.run(w.slots.data(), condition))
      report(FindingKind::overflow, w, i, {}, 0, "the condition: " + i.end.why(w.slots.data()));
    w.pc = condition ? w.pc + 1 : i.target;
    return true;
  }
  case Code::lane_if: lane_if(w, i); return true;
  case Code::lane_else: lane_else(w, i); return true;
  case Code::lane_end: lane_end(w); break;
  case Code::jump: w.pc = i.target; return true;
  case Code::store: store(w, i); break;
  case Code::let_value:
    if (const Cell* value = evaluate(w, i))
      std::copy_n(value, i.lane_values ? i.lanes : 1, &w.lets[i.let.index() * p_.widest]);
    break;
  case Code::let_index: let_index(w, i); break;
  case Code::barrier: arrive(w, i.level, w.pc++); return false;
  case Code::prefetch: break;
  case Code::exchange: arrive(w, lanes_together, w.pc++); return false;
  case Code::unit: {
    if (i.together) {
      arrive(w, lanes_together, w.pc++);
      return false;
    }
    std::vector<Footprint> operands;
    if (footprints(w, i, operands)) unit(w, i, operands);
    break;
  }
  case Code::copy:
  case Code::async_unit: launch(w, i); break;
  case Code::wait: wait(w, i); break;
  case Code::roles: {
    LoopState& s = w.loops[i.loop];
    ++s.instance;
    if (!bounds(w, i, s.begin, s.end) || s.begin >= s.end) {
      w.pc = i.target;
      return true;
    }
    s.produced = s.consumed = s.begin;
    break;
  }
  case Code::role: role(w, i); return true;
  case Code::role_done: {
    LoopState& s = w.loops[i.loop];
    ++(i.flag ? s.produced : s.consumed);
    ++trips_;
    // The lanes of the group meet where producers hand over to consumers and back.
    arrive(w, 1, w.pc);
    w.pc = i.target;
    return false;
  }
  case Code::end: break;
  }
  ++w.pc;
  return true;
}

// ---- counting

LoopCounts Machine::count() const {
  LoopCounts c;
  for (const InstructionId at : p_.code.ids()) {
    const Instruction& i = p_.code[at];
    const int64_t times = executed_[at];
    switch (i.code) {
    case Code::loop:
    case Code::next:
    case Code::vector_end:
    case Code::jump:
    case Code::role:
    case Code::role_done:
    case Code::roles:
    case Code::vector:
    case Code::branch:
    case Code::lane_if:
    case Code::lane_else:
    case Code::lane_end:
    case Code::end: break;
    default: c.statements += times;
    }
    if (i.code == Code::barrier) c.barriers += times;
    if (i.unit) {
      c.units[i.unit->name] += times / (i.together ? i.unit->lanes : 1);
      if (!is_integer(i.unit->accumulator.dtype))
        c.fma += times / (i.together ? i.unit->lanes : 1) * i.unit->m * i.unit->n * i.unit->k * i.unit->p;
    }
    for (const ValueStep& s : i.steps) {
      const int64_t lanes = times * (s.on_lane ? i.lanes : 1);
      if (s.kind == StepKind::cast) c.casts += lanes;
      if (s.kind == StepKind::scan_lanes)
        c.ops[{s.op, s.from}] += times * std::bit_width(uint64_t(i.lanes - 1)) * i.lanes;
      if (s.kind == StepKind::reduce_lanes) c.ops[{s.op, s.from}] += times * (i.lanes - 1);
      if (s.kind != StepKind::op) continue;
      if (s.unit) {
        c.units[s.unit->name] += lanes;
        if (is_float(s.dtype)) c.fma += lanes * s.unit->k;
        continue;
      }
      if (s.user) {
        c.user_ops[s.user->name] += lanes;
        continue;
      }
      c.ops[{s.op, s.from}] += lanes;
      if (s.op == Op::fma) c.fma += lanes;
      if (is_transcendental(s.op)) c.transcendental += lanes;
    }
  }
  c.loop_trips = trips_;
  for (const BufferId id : k_.buffers.ids()) {
    BufferTraffic t{k_.buffers[id].name, read_bits_[id] / 8, written_bits_[id] / 8, 0, 0};
    for (const Region& r : regions_[id])
      for (size_t entry = 0; entry < r.flags.size(); ++entry) {
        const int64_t size = std::min<int64_t>(int64_t(1) << r.shift, r.bytes - (int64_t(entry) << r.shift));
        if (r.flags[entry] & Region::was_read) t.read_distinct += size;
        if (r.flags[entry] & Region::was_written) t.written_distinct += size;
      }
    c.buffers.push_back(std::move(t));
  }
  return c;
}

} // namespace loop_detail
} // namespace luminal::kernel
