// loop/loop_values.cpp -- values and memory accesses of the loop interpreter.
#include "ir/identity.h"
#include "loop/loop_machine.h"
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <fmt/format.h>

namespace luminal::kernel::loop_detail {
namespace {

double minimum(double a, double b) { return a != a ? a : b != b ? b : a < b ? a : b; }
double maximum(double a, double b) { return a != a ? a : b != b ? b : a > b ? a : b; }

/// The loops that most of the work of a kernel is made of, in f32 and f64: the same results as
/// apply_f64, without the calls. A double sum, difference, product or quotient of floats rounds to
/// the float that a single rounding gives.
template <bool narrow, class F>
void each(Cell* out, const Cell* const* x, const int* stride, int64_t lanes, F f) {
  for (int64_t l = 0; l < lanes; ++l) {
    const double value = f(x[0][l * stride[0]].f, x[1][l * stride[1]].f);
    out[l].f = narrow ? double(float(value)) : value;
  }
}

template <class F> void compare(Cell* out, const Cell* const* x, const int* stride, int64_t lanes, F f) {
  for (int64_t l = 0; l < lanes; ++l) out[l].i = f(x[0][l * stride[0]].f, x[1][l * stride[1]].f);
}

template <bool narrow>
bool fast_op(Op op, Cell* out, const Cell* const* x, const int* stride, int64_t lanes) {
  switch (op) {
  case Op::add: each<narrow>(out, x, stride, lanes, [](double a, double b) { return a + b; }); return true;
  case Op::sub: each<narrow>(out, x, stride, lanes, [](double a, double b) { return a - b; }); return true;
  case Op::mul: each<narrow>(out, x, stride, lanes, [](double a, double b) { return a * b; }); return true;
  case Op::div: each<narrow>(out, x, stride, lanes, [](double a, double b) { return a / b; }); return true;
  case Op::min: each<narrow>(out, x, stride, lanes, minimum); return true;
  case Op::max: each<narrow>(out, x, stride, lanes, maximum); return true;
  case Op::lt: compare(out, x, stride, lanes, [](double a, double b) { return a < b; }); return true;
  case Op::le: compare(out, x, stride, lanes, [](double a, double b) { return a <= b; }); return true;
  case Op::eq: compare(out, x, stride, lanes, [](double a, double b) { return a == b; }); return true;
  case Op::ne: compare(out, x, stride, lanes, [](double a, double b) { return a != b; }); return true;
  case Op::fma:
    for (int64_t l = 0; l < lanes; ++l) {
      const double a = x[0][l * stride[0]].f, b = x[1][l * stride[1]].f, c = x[2][l * stride[2]].f;
      out[l].f = narrow ? double(std::fmaf(float(a), float(b), float(c))) : std::fma(a, b, c);
    }
    return true;
  default: return false;
  }
}

Cell converted(DType to, DType from, Cell x) {
  Cell out{};
  if (is_float(from)) {
    if (is_float(to))
      out.f = round_to(to, x.f);
    else
      out.i = truncate_to(to, x.f);
  } else if (is_float(to)) {
    out.f = integer_to_float(to, from, x.i);
  } else {
    out.i = wrap(to, x.i);
  }
  return out;
}

Cell load_cell(DType type, const std::byte* data, int64_t index) {
  Cell out{};
  if (is_float(type))
    out.f = load_f64(type, data, index);
  else
    out.i = load_i64(type, data, index);
  return out;
}

void store_cell(DType type, std::byte* data, int64_t index, Cell value) {
  if (is_float(type))
    store_f64(type, data, index, value.f);
  else
    store_i64(type, data, index, value.i);
}

} // namespace

// ---- places

/// The bytes of `count` neighbouring elements of `dtype` from element `offset` of the region on.
/// False: outside, reported.
bool Machine::place(Worker& w, const Instruction& i, Region& r, int64_t offset, int64_t count, DType dtype,
                    int64_t& byte, int64_t& bytes, uint8_t& halves) {
  const int width = bits(dtype);
  const bool inside = offset >= 0 && offset < r.elements;
  const int64_t first = inside ? offset * r.element_bits : 0, last = first + count * width;
  if (!inside || last > r.elements * r.element_bits) {
    const Buffer& b = k_.buffers[r.buffer];
    report(FindingKind::out_of_bounds, w, i, r.buffer, offset,
           fmt::format(
               "'{}'[{}]{} is outside: the buffer has {} elements of {}", b.name, offset,
               width * count != r.element_bits ? fmt::format(" with {} bytes", (width * count + 7) / 8) : "",
               r.elements, luminal::to_string(b.dtype)));
    return false;
  }
  if (first % 8 != 0 && width > 4) {
    report(FindingKind::unaligned, w, i, r.buffer, offset,
           fmt::format("'{}'[{}] read as {} does not begin a byte", k_.buffers[r.buffer].name, offset,
                       luminal::to_string(dtype)));
    return false;
  }
  byte = first / 8;
  bytes = (last + 7) / 8 - byte;
  halves = both_halves;
  if (width == 4 && count == 1) halves = first % 8 ? Region::unwritten_high : Region::unwritten_low;
  return true;
}

void Machine::conflict(Worker& w, const Instruction& i, const Region& r, const Conflict& c, bool writes) {
  const Buffer& b = k_.buffers[r.buffer];
  const int64_t element = c.byte * 8 / r.element_bits;
  const auto place = fmt::format("'{}'[{}] (byte {})", b.name, element, c.byte);
  switch (c.kind) {
  case FindingKind::uninitialised:
    return report(c.kind, w, i, r.buffer, element,
                  fmt::format("{} is read, and nothing has been written there", place));
  case FindingKind::carried:
    return report(
        c.kind, w, i, r.buffer, element,
        fmt::format("{} holds a value of another iteration of the parallel loop: iterations go to any worker",
                    place));
  default: break;
  }
  const Actor& other = clock_[c.other];
  const std::string who = other.worker != w.id ? fmt::format("worker {}", other.worker)
                                               : std::string("another iteration of the parallel loop");
  report(c.kind, w, i, r.buffer, element,
         fmt::format("{} is {} here and {} by {} in `{}`, without a barrier between", place,
                     writes ? "written" : "read", c.other_writes ? "written" : "read", who,
                     statement(InstructionId(c.other_at))));
}

void Machine::in_flight(Worker& w, const Instruction& i, Region& r, int64_t byte, int64_t bytes,
                        bool writes) {
  const auto found = held_.find(&r);
  if (found == held_.end()) return;
  for (int64_t e = byte >> r.shift; e <= (byte + bytes - 1) >> r.shift; ++e) {
    const Held& held = found->second[e];
    const bool destination = held.copied || (held.computed && i.code != Code::async_unit);
    if (!destination && !(writes && held.source)) continue;
    const int64_t element = (e << r.shift) * 8 / r.element_bits;
    return report(FindingKind::in_flight, w, i, r.buffer, element,
                  fmt::format("'{}'[{}] is {} before the wait for the asynchronous statement that {} it",
                              k_.buffers[r.buffer].name, element, writes ? "written" : "read",
                              destination ? "writes" : "reads"));
  }
}

/// Producers at step p and consumers at step c are ordered if c < p - stages + 1 or p <= c.
void Machine::ring(Worker& w, const Instruction& i, Region& r, int64_t byte, int64_t bytes, bool writes) {
  const Access access = k_.buffers[r.buffer].access;
  if (access == Access::in || k_.buffers[r.buffer].space == Space::registers) return;
  const int me = w.role - 1;
  const uint32_t instance =
      w.loops[w.role_loop].instance * uint32_t(p_.loops) + uint32_t(w.role_loop.number());
  for (int64_t e = byte >> r.shift; e <= (byte + bytes - 1) >> r.shift; ++e) {
    RingEntry& entry = rings_[w.group][{&r, e}];
    if (entry.instance != instance) entry = {instance, {INT64_MIN, INT64_MIN}, {INT64_MIN, INT64_MIN}};
    const int64_t other = std::max(entry.written[1 - me], writes ? entry.read[1 - me] : INT64_MIN);
    const bool together =
        other != INT64_MIN &&
        (me == 0 ? other > w.role_step - w.role_stages && other < w.role_step : other > w.role_step);
    if (together) {
      const int64_t element = (e << r.shift) * 8 / r.element_bits;
      report(FindingKind::ring, w, i, r.buffer, element,
             fmt::format("'{}'[{}]: {} of step {} and {} of step {} may meet here: the ring has {} stages",
                         k_.buffers[r.buffer].name, element, me == 0 ? "producers" : "consumers", w.role_step,
                         me == 0 ? "consumers" : "producers", other, w.role_stages));
    }
    (writes ? entry.written : entry.read)[me] = w.role_step;
  }
}

/// Do the selects that this step is made for take its value, in this lane or, where all lanes have the same,
/// in any one? Code computes both arguments.
bool Machine::counts(const Worker& w, const Instruction& i, const ValueStep& step, int64_t lane) const {
  if (lane < 0 && step.chosen_by >= 0) {
    for (int64_t l = 0; l < i.lanes; ++l)
      if ((i.lanes == 1 || w.alive(l)) && counts(w, i, step, l)) return true;
    return false;
  }
  for (const ValueStep* s = &step; s->chosen_by >= 0; s = &i.steps[s->chosen_by]) {
    const int condition = i.steps[s->chosen_by].args[0];
    const Cell c = w.cells[size_t(condition) * p_.widest + (i.steps[condition].on_lane ? size_t(lane) : 0)];
    if ((c.i != 0) != (s->choice == 1)) return false;
  }
  return true;
}

/// counts: the value matters, so that somebody must have written it.
void Machine::read(Worker& w, const Instruction& i, Region& r, int64_t byte, int64_t bytes, uint8_t halves,
                   bool counts) {
  Conflict c;
  if (!record_read(r, clock_, byte, bytes, halves, w.actor, uint32_t(&i - p_.code.data()), c) &&
      (counts || c.kind != FindingKind::uninitialised))
    conflict(w, i, r, c, false);
  if (flying_) in_flight(w, i, r, byte, bytes, false);
  if (w.role) ring(w, i, r, byte, bytes, false);
  read_bits_[r.buffer] += halves == both_halves ? bytes * 8 : 4;
}

void Machine::write(Worker& w, const Instruction& i, Region& r, int64_t byte, int64_t bytes, uint8_t halves,
                    bool poison) {
  Conflict c;
  if (!record_write(r, clock_, byte, bytes, halves, w.actor, uint32_t(&i - p_.code.data()), poison, c))
    conflict(w, i, r, c, true);
  if (flying_) in_flight(w, i, r, byte, bytes, true);
  if (w.role) ring(w, i, r, byte, bytes, true);
  if (!poison) written_bits_[r.buffer] += halves == both_halves ? bytes * 8 : 4;
}

/// lane_offsets_ = the value of the index for each live lane.
bool Machine::offsets(Worker& w, const Instruction& i, const LaneIndex& index, int64_t lanes) {
  lane_offsets_.assign(size_t(lanes), 0);
  const auto overflow = [&](const IndexCode& code) {
    report(FindingKind::overflow, w, i, {}, 0, "the offset: " + code.why(w.slots.data()));
    return false;
  };
  int64_t* slots = w.slots.data();
  if (!index.on_lane) {
    if (!index.at.run(slots, lane_offsets_[0])) return overflow(index.at);
    return true;
  }
  if (index.affine) {
    int64_t at = 0, stride = 0;
    if (!index.at.run(slots, at)) return overflow(index.at);
    if (!index.stride.run(slots, stride)) return overflow(index.stride);
    for (int64_t l = 0; l < lanes; ++l)
      lane_offsets_[l] = int64_t(uint64_t(at) + uint64_t(l) * uint64_t(stride));
    int64_t reach;
    if (__builtin_mul_overflow(stride, lanes, &reach) || __builtin_add_overflow(at, reach, &reach)) {
      report(FindingKind::overflow, w, i, {}, 0, "the offset: overflow of 64 bits");
      return false;
    }
    return true;
  }
  // A dead lane has no indices; it keeps 0.
  bool ok = true;
  for (int64_t l = 0; l < lanes && ok; ++l) {
    if (!w.alive(l)) continue;
    slots[i.lane_slots.variable.index()] = w.lane_begin + l;
    for (const auto& [number, slot] : i.lane_slots.lets)
      slots[slot.index()] = w.index_lets[number.index() * p_.widest + l].i;
    ok = index.at.run(slots, lane_offsets_[l]) || overflow(index.at);
  }
  slots[i.lane_slots.variable.index()] = w.lane_begin;
  return ok;
}

// ---- loads and stores

void Machine::load(Worker& w, const Instruction& i, const ValueStep& step, Cell* out) {
  Region& r = region(w, step.buffer);
  const int64_t lanes = step.on_lane ? i.lanes : 1;
  std::memset(static_cast<void*>(out), 0, sizeof(Cell) * size_t(lanes));
  if (step.guarded) {
    if (!offsets(w, i, step.guard, lanes)) return;
    if (!step.guard.on_lane) {
      if (lane_offsets_[0] == 0) return;
      lane_offsets_.assign(size_t(lanes), 1);
    }
    lane_guards_ = lane_offsets_;
  }
  if (!offsets(w, i, step.index, lanes)) return;
  if (step.on_lane && !step.index.on_lane) lane_offsets_.assign(size_t(lanes), int64_t(lane_offsets_[0]));
  int64_t byte = 0, bytes = 0;
  uint8_t halves = both_halves;
  const auto one = [&](int64_t offset, Cell& cell) {
    if (!place(w, i, r, offset, 1, step.dtype, byte, bytes, halves)) return;
    read(w, i, r, byte, bytes, halves, counts(w, i, step, step.on_lane ? &cell - out : -1));
    // Elements of 4 bits are found by their number, also in a buffer of bytes.
    cell = bits(step.dtype) == 4 ? load_cell(step.dtype, r.data, r.element_bits == 4 ? offset : byte * 2)
                                 : load_cell(step.dtype, r.data + byte, 0);
  };
  if (!step.on_lane) return one(lane_offsets_[0], out[0]);
  if (step.guarded) {
    for (int64_t l = 0; l < lanes; ++l)
      if (w.alive(l) && lane_guards_[size_t(l)] != 0) one(lane_offsets_[size_t(l)], out[l]);
    return;
  }
  const int64_t live = w.prefix ? std::min(lanes, w.active) : lanes;
  // Lanes of a padded buffer that the loop's mask excludes are not read, but they are inside.
  if (k_.buffers[step.buffer].padded && step.index.affine)
    for (const int64_t l : {int64_t(0), lanes - 1})
      if (l >= w.active) place(w, i, r, lane_offsets_[l], 1, step.dtype, byte, bytes, halves);
  bool run = w.prefix && live > 1 && step.index.affine && lane_offsets_[1] - lane_offsets_[0] == 1 &&
             lane_offsets_[0] >= 0 && lane_offsets_[live - 1] < r.elements &&
             bits(step.dtype) == r.element_bits && r.element_bits >= 8;
  for (int64_t l = 0; l < live && run && step.chosen_by >= 0; ++l) run = counts(w, i, step, l);
  if (!run) {
    for (int64_t l = 0; l < live; ++l)
      if (w.alive(l)) one(lane_offsets_[l], out[l]);
    return;
  }
  if (!place(w, i, r, lane_offsets_[0], live, step.dtype, byte, bytes, halves)) return;
  read(w, i, r, byte, bytes, halves);
  const std::byte* data = r.data + byte;
  if (step.dtype == DType::f32) {
    for (int64_t l = 0; l < live; ++l) {
      float f;
      std::memcpy(&f, data + 4 * l, 4);
      out[l].f = f;
    }
    return;
  }
  for (int64_t l = 0; l < live; ++l) out[l] = load_cell(step.dtype, data, l);
}

void Machine::store(Worker& w, const Instruction& i) {
  const Cell* value = evaluate(w, i);
  if (!value) return;
  Region& r = region(w, i.buffer);
  const Buffer& b = k_.buffers[i.buffer];
  const int64_t lanes = i.index.on_lane ? i.lanes : 1;
  const int stride = i.steps.back().on_lane ? 1 : 0;
  if (!offsets(w, i, i.index, lanes)) return;
  int64_t byte = 0, bytes = 0;
  uint8_t halves = both_halves;
  const auto one = [&](int64_t offset, Cell cell, bool poison) {
    if (!place(w, i, r, offset, 1, b.dtype, byte, bytes, halves)) return;
    write(w, i, r, byte, bytes, halves, poison);
    if (poison && bits(b.dtype) >= 8)
      std::fill_n(r.data + byte, bytes, poison_byte);
    else if (!poison)
      store_cell(b.dtype, r.data, offset, cell);
  };
  if (!i.index.on_lane) return one(lane_offsets_[0], value[0], false);
  const int64_t live = w.prefix ? std::min(lanes, w.active) : lanes;
  if (!i.index.affine) {
    std::vector<int64_t> sorted;
    for (int64_t l = 0; l < lanes; ++l)
      if (w.alive(l)) sorted.push_back(lane_offsets_[l]);
    std::sort(sorted.begin(), sorted.end());
    if (const auto twice = std::adjacent_find(sorted.begin(), sorted.end()); twice != sorted.end())
      report(FindingKind::lanes, w, i, r.buffer, *twice,
             fmt::format("two lanes store to '{}'[{}]", b.name, *twice));
  }
  const bool run = w.prefix && live > 1 && i.index.affine && lane_offsets_[1] - lane_offsets_[0] == 1 &&
                   lane_offsets_[0] >= 0 && lane_offsets_[live - 1] < r.elements && r.element_bits >= 8;
  if (!run) {
    for (int64_t l = 0; l < live; ++l)
      if (w.alive(l)) one(lane_offsets_[l], value[l * stride], false);
  } else if (place(w, i, r, lane_offsets_[0], live, b.dtype, byte, bytes, halves)) {
    write(w, i, r, byte, bytes, halves, false);
    std::byte* data = r.data + byte;
    if (b.dtype == DType::f32) {
      for (int64_t l = 0; l < live; ++l) {
        const float f = float(value[l * stride].f);
        std::memcpy(data + 4 * l, &f, 4);
      }
    } else {
      for (int64_t l = 0; l < live; ++l) store_cell(b.dtype, data, l, value[l * stride]);
    }
  }
  // Code may leave out the mask of the loop (not that of a condition) for a padded buffer: what its
  // dead lanes hold afterwards is anyone's guess.
  if (b.padded && i.index.affine)
    for (int64_t l = w.active; l < lanes; ++l) one(lane_offsets_[l], {}, true);
}

void Machine::let_index(Worker& w, const Instruction& i) {
  const Cell* value = evaluate(w, i);
  if (!value) return;
  const Expr symbol = i.variable;
  const Interval range = symbol.range();
  const int64_t multiple = std::max<int64_t>(1, symbol.multiple());
  const int64_t lanes = i.lane_values ? i.lanes : 1;
  for (int64_t l = 0; l < lanes; ++l) {
    const bool alive = !i.lane_values || w.alive(l);
    int64_t index = alive ? value[l].i : range.low;
    if (alive && (!range.contains(index) || index % multiple != 0)) {
      report(FindingKind::range, w, i, {}, 0,
             fmt::format("{} = {} is outside its range {}..{}{}", symbol.name(), index, range.low, range.high,
                         multiple > 1 ? fmt::format(", multiples of {}", multiple) : ""));
      index = range.low;
    }
    if (i.lane_values)
      w.index_lets[i.index_let.index() * p_.widest + l].i = index;
    else
      w.slots[i.slot] = index;
  }
}

// ---- values

const Cell* Machine::evaluate(Worker& w, const Instruction& i) {
  for (size_t number = 0; number < i.steps.size(); ++number) run_step(w, i, i.steps[number], int(number));
  return stop_ ? nullptr : &w.cells[(i.steps.size() - 1) * size_t(p_.widest)];
}

void Machine::run_step(Worker& w, const Instruction& i, const ValueStep& step, int number) {
  const size_t widest = size_t(p_.widest);
  Cell* out = &w.cells[size_t(number) * widest];
  const int64_t lanes = step.on_lane ? i.lanes : 1;
  const Cell* args[3] = {};
  int strides[3] = {};
  for (int a = 0; a < 3 && step.args[a] >= 0; ++a) {
    args[a] = &w.cells[size_t(step.args[a]) * widest];
    strides[a] = i.steps[step.args[a]].on_lane;
  }
  switch (step.kind) {
  case StepKind::constant:
    if (is_float(step.dtype))
      out->f = step.constant;
    else
      out->i = step.integer;
    return;
  case StepKind::load: return load(w, i, step, out);
  case StepKind::index: {
    if (!offsets(w, i, step.index, lanes)) lane_offsets_.assign(size_t(lanes), 0);
    for (int64_t l = 0; l < lanes; ++l) {
      Cell exact;
      exact.i = lane_offsets_[l];
      out[l] = converted(step.dtype, DType::i64, exact);
    }
    return;
  }
  case StepKind::let: std::copy_n(&w.lets[step.let.index() * widest], lanes, out); return;
  case StepKind::cast:
    if (step.from == DType::bf16 && step.dtype == DType::f32) { // exact
      for (int64_t l = 0; l < lanes; ++l) out[l] = args[0][l * strides[0]];
      return;
    }
    for (int64_t l = 0; l < lanes; ++l) out[l] = converted(step.dtype, step.from, args[0][l * strides[0]]);
    return;
  case StepKind::bitcast:
    for (int64_t l = 0; l < lanes; ++l) {
      std::byte bytes[8] = {};
      store_cell(step.from, bytes, 0, args[0][l * strides[0]]);
      out[l] = load_cell(step.dtype, bytes, 0);
    }
    return;
  case StepKind::scan_lanes:
    if (!strides[0])
      return reduce(w, step, std::vector<Cell>(size_t(i.lanes), args[0][0]).data(), out, i.lanes);
    [[fallthrough]];
  case StepKind::reduce_lanes:
  case StepKind::last_lane: return reduce(w, step, args[0], out, i.lanes);
  case StepKind::op: return run_op(step, out, args, strides, lanes);
  }
}

void Machine::run_op(const ValueStep& step, Cell* out, const Cell* const* args, const int* strides,
                     int64_t lanes) const {
  if (step.unit) {
    for (int64_t l = 0; l < lanes; ++l) {
      const Cell acc = args[0][l * strides[0]];
      const auto a = uint32_t(args[1][l * strides[1]].i), b = uint32_t(args[2][l * strides[2]].i);
      if (is_float(step.dtype))
        out[l].f = execute_lane_unit(*step.unit, a, b, acc.f);
      else
        out[l].i = execute_lane_unit(*step.unit, a, b, acc.i);
    }
    return;
  }
  if (!step.user) {
    if (step.op == Op::select) {
      for (int64_t l = 0; l < lanes; ++l)
        out[l] = args[0][l * strides[0]].i ? args[1][l * strides[1]] : args[2][l * strides[2]];
      return;
    }
    if (step.from == DType::f32 && fast_op<true>(step.op, out, args, strides, lanes)) return;
    if (step.from == DType::f64 && fast_op<false>(step.op, out, args, strides, lanes)) return;
  }
  const int arity = step.user ? step.user->arity : row(step.op).arity;
  const bool floats = is_float(step.from), float_result = is_float(step.dtype);
  for (int64_t l = 0; l < lanes; ++l) {
    if (floats) {
      double x[3] = {};
      for (int a = 0; a < arity; ++a) x[a] = args[a][l * strides[a]].f;
      const double value = step.user ? step.user->f64(x) : apply_f64(step.op, step.from, x);
      if (!float_result)
        out[l].i = value != 0;
      else
        out[l].f = step.user ? round_to(step.dtype, value) : value;
    } else {
      int64_t x[3] = {};
      for (int a = 0; a < arity; ++a) x[a] = args[a][l * strides[a]].i;
      out[l].i =
          step.user ? wrap(step.dtype, step.user->i64(x, step.from)) : apply_i64(step.op, step.from, x);
    }
  }
}

/// Lane l with lane l + h, for h = lanes/2 down to 1; of a scan lane l with lane l - h, for h = 1, 2, ... .
/// Dead lanes are the identity of the op.
void Machine::reduce(const Worker& w, const ValueStep& step, const Cell* in, Cell* out, int64_t lanes) const {
  if (step.kind == StepKind::last_lane) {
    out[0] = Cell{};
    for (int64_t l = 0; l < lanes; ++l)
      if (w.alive(l)) out[0] = in[l];
    return;
  }
  std::vector<Cell> tree(in, in + lanes);
  for (int64_t l = 0; l < lanes; ++l) {
    if (w.alive(l)) continue;
    if (is_float(step.dtype))
      tree[l].f = identity_f64(step.op, step.dtype);
    else
      tree[l].i = identity_i64(step.op, step.dtype);
  }
  const auto combine = [&](Cell* a, const Cell* b, int64_t count) {
    const Cell* args[3] = {a, b, nullptr};
    const int strides[3] = {1, 1, 0};
    run_op(step, a, args, strides, count);
  };
  if (step.kind == StepKind::scan_lanes) {
    for (int64_t h = 1; h < lanes; h *= 2) {
      std::vector<Cell> next(tree.begin(), tree.begin() + (lanes - h));
      combine(next.data(), tree.data() + h, lanes - h);
      std::ranges::copy(next, tree.begin() + h);
    }
    std::ranges::copy(tree, out);
    return;
  }
  for (int64_t half = lanes / 2; half; half /= 2) combine(tree.data(), tree.data() + half, half);
  out[0] = tree[0];
}

} // namespace luminal::kernel::loop_detail
