// loop/loop_units.cpp -- units and asynchronous statements of the loop interpreter.
#include "loop/loop_machine.h"
#include <algorithm>
#include <array>
#include <cstring>
#include <fmt/format.h>

namespace luminal::kernel::loop_detail {

/// The elements of each operand, in the order of its axes. False: something lies outside, reported.
bool Machine::footprints(Worker& w, const Instruction& i, std::vector<Footprint>& out) {
  int64_t rows = i.unit ? i.unit->m : 0;
  if (i.unit && i.masked) {
    const bool known = i.end.run(w.slots.data(), rows);
    if (!known || rows < 1 || rows > i.unit->m) {
      report(known ? FindingKind::range : FindingKind::overflow, w, i, {}, 0,
             known ? fmt::format("{} takes 1 to {} rows, not {}", i.unit->name, i.unit->m, rows)
                   : "the number of rows: " + i.end.why(w.slots.data()));
      return false;
    }
  }
  for (size_t o = 0; o < i.operands.size(); ++o) {
    const OperandCode& code = i.operands[o];
    Footprint f{&region(w, code.buffer), code.buffer, {}};
    int64_t offset = 0;
    const auto overflow = [&](const IndexCode& wrong) {
      report(FindingKind::overflow, w, i, code.buffer, 0, "the operand: " + wrong.why(w.slots.data()));
      return false;
    };
    if (!code.offset.run(w.slots.data(), offset)) return overflow(code.offset);
    f.offsets = {offset};
    if (!i.unit) { // copy: `count` neighbours
      int64_t count = 0;
      if (!i.end.run(w.slots.data(), count)) return overflow(i.end);
      if (count < 0) {
        report(FindingKind::range, w, i, code.buffer, offset, fmt::format("the count {} is negative", count));
        return false;
      }
      if (o == 0) {
        const int64_t copied = count;
        if (!i.fill.run(w.slots.data(), count)) return overflow(i.fill);
        if (count < copied) {
          report(FindingKind::range, w, i, code.buffer, offset,
                 fmt::format("{} elements are copied, and {} written", copied, count));
          return false;
        }
      }
      f.offsets.clear();
      if (count == 0) { // nothing is touched, wherever it lies
        out.push_back(std::move(f));
        continue;
      }
      if (count > f.region->elements || offset < 0 || offset > f.region->elements - count) {
        report(FindingKind::out_of_bounds, w, i, code.buffer, offset,
               fmt::format("'{}'[{}] and the {} elements from there on are outside: the buffer has {}",
                           k_.buffers[code.buffer].name, offset, count, f.region->elements));
        return false;
      }
      for (int64_t e = 0; e < count; ++e) f.offsets.push_back(offset + e);
    } else {
      const std::string axes = i.unit->operand(int(o)).axes_in(k_.buffers[code.buffer].dtype);
      for (size_t axis = 0; axis < code.strides.size(); ++axis) {
        int64_t stride = 0;
        if (!code.strides[axis].run(w.slots.data(), stride)) return overflow(code.strides[axis]);
        std::vector<int64_t> next;
        for (const int64_t base : f.offsets)
          for (int64_t e = 0; e < (axes[axis] == 'm' ? rows : i.unit->extent(axes[axis])); ++e) {
            int64_t at;
            if (__builtin_mul_overflow(stride, e, &at) || __builtin_add_overflow(base, at, &at)) {
              report(FindingKind::overflow, w, i, code.buffer, 0, "the operand: overflow of 64 bits");
              return false;
            }
            next.push_back(at);
          }
        f.offsets = std::move(next);
      }
      const auto [low, high] = std::minmax_element(f.offsets.begin(), f.offsets.end());
      for (const int64_t at : {*low, *high})
        if (at < 0 || at >= f.region->elements) {
          report(FindingKind::out_of_bounds, w, i, code.buffer, at,
                 fmt::format("{} reaches '{}'[{}], which is outside: the buffer has {} elements",
                             i.unit->name, k_.buffers[code.buffer].name, at, f.region->elements));
          return false;
        }
    }
    out.push_back(std::move(f));
  }
  return true;
}

namespace {

template <class T> T load_number(DType type, const Region& r, int64_t element) {
  if constexpr (std::is_same_v<T, double>)
    return load_f64(type, r.data, element);
  else
    return load_i64(type, r.data, element);
}

void store_number(DType type, Region& r, int64_t element, double value) {
  store_f64(type, r.data, element, value);
}
void store_number(DType type, Region& r, int64_t element, int64_t value) {
  store_i64(type, r.data, element, value);
}

} // namespace

/// Performs one instruction of a unit on its operands.
void Machine::unit(Worker& w, const Instruction& i, const std::vector<Footprint>& operands) {
  const Unit& u = *i.unit;
  const auto perform = [&]<class T>(T) {
    std::vector<T> values[3];
    for (int o = 0; o < 3; ++o) {
      const Footprint& f = operands[o];
      const DType type = u.operand(o).dtype, held = k_.buffers[f.buffer].dtype;
      std::vector<int64_t> once = f.offsets; // a broadcast reads its element once
      std::sort(once.begin(), once.end());
      once.erase(std::unique(once.begin(), once.end()), once.end());
      for (const int64_t element : once) {
        int64_t byte = 0, bytes = 0;
        uint8_t halves = both_halves;
        if (place(w, i, *f.region, element, 1, held, byte, bytes, halves))
          read(w, i, *f.region, byte, bytes, halves);
      }
      const int64_t in_one = held == type ? 1 : u.p; // elements of a word, contiguous as those of axis p
      for (const int64_t element : f.offsets)
        for (int64_t p = 0; p < in_one; ++p)
          values[o].push_back(load_number<T>(type, *f.region, element * in_one + p));
    }
    for (int o : {0, 1}) { // rows that take no part
      int64_t elements = 1;
      for (const char axis : u.operand(o).axes) elements *= u.extent(axis);
      values[o].resize(size_t(elements));
    }
    execute_unit(u, values[1].data(), values[2].data(), values[0].data());
    const Footprint& f = operands[0];
    for (size_t e = 0; e < f.offsets.size(); ++e) {
      int64_t byte = 0, bytes = 0;
      uint8_t halves = both_halves;
      if (place(w, i, *f.region, f.offsets[e], 1, u.accumulator.dtype, byte, bytes, halves))
        write(w, i, *f.region, byte, bytes, halves, false);
      store_number(u.accumulator.dtype, *f.region, f.offsets[e], values[0][e]);
    }
  };
  if (u.sum == UnitSum::integer)
    perform(int64_t{});
  else
    perform(double{});
}

void Machine::copy(Worker& w, const Instruction& i, const std::vector<Footprint>& operands) {
  const Footprint &to = operands[0], &from = operands[1];
  if (to.offsets.empty()) return;
  const DType type = k_.buffers[to.buffer].dtype;
  int64_t byte = 0, bytes = 0;
  uint8_t halves = both_halves;
  // Elements of 4 bits one by one: a copy may begin in the middle of a byte.
  const bool whole = bits(type) >= 8;
  const size_t pieces = whole ? 1 : to.offsets.size();
  const int64_t count = whole ? int64_t(to.offsets.size()) : 1,
                copied = whole ? int64_t(from.offsets.size()) : 1;
  for (size_t e = 0; e < pieces; ++e) {
    int64_t source = 0, source_bytes = 0;
    const bool some = e < from.offsets.size();
    if (some) {
      if (!place(w, i, *from.region, from.offsets[e], copied, type, source, source_bytes, halves)) return;
      read(w, i, *from.region, source, source_bytes, halves);
    }
    if (!place(w, i, *to.region, to.offsets[e], count, type, byte, bytes, halves)) return;
    write(w, i, *to.region, byte, bytes, halves, false);
    if (whole) {
      std::memset(to.region->data + byte, 0, size_t(bytes));
      if (some) std::memmove(to.region->data + byte, from.region->data + source, size_t(source_bytes));
    } else if (!some)
      store_i64(type, to.region->data, to.offsets[e], 0);
    else
      store_i64(type, to.region->data, to.offsets[e], load_i64(type, from.region->data, from.offsets[e]));
  }
}

/// Holds (+1) or frees (-1) the bytes of a flight.
void Machine::mark(const Flight& flight, int change) {
  const bool computes = flight.instruction->code == Code::async_unit;
  for (size_t o = 0; o < flight.operands.size(); ++o) {
    const Footprint& f = flight.operands[o];
    std::vector<Held>& held = held_[f.region];
    held.resize(f.region->flags.size());
    for (const int64_t element : f.offsets) {
      Held& h = held[size_t((element * f.region->element_bits / 8) >> f.region->shift)];
      uint8_t& count = o > 0 ? h.source : computes ? h.computed : h.copied;
      count = uint8_t(count + change);
    }
  }
  flying_ += change;
}

void Machine::launch(Worker& w, const Instruction& i) {
  auto flight = std::make_shared<Flight>();
  flight->instruction = &i;
  flight->number = w.flights++;
  if (!footprints(w, i, flight->operands)) flight->operands.clear();
  const bool computes = i.code == Code::async_unit;
  // Whoever still holds these bytes must have been waited for.
  if (flying_)
    for (size_t o = 0; o < flight->operands.size(); ++o) {
      const Footprint& f = flight->operands[o];
      for (const int64_t element : f.offsets) {
        int64_t byte = 0, bytes = 0;
        uint8_t halves = both_halves;
        if (place(w, i, *f.region, element, 1, k_.buffers[f.buffer].dtype, byte, bytes, halves))
          in_flight(w, i, *f.region, byte, bytes, o == 0);
      }
    }
  const bool early = o_.arrival == Arrival::early ||
                     (o_.arrival == Arrival::mixed && drawn(flight->number, w.group, 13) % 2);
  if (early) {
    // Units end in the order of their beginning.
    if (computes)
      for (const auto& before : w.units) act(w, *before);
    if (computes) w.units.clear();
    act(w, *flight);
  } else {
    if (computes) w.units.push_back(flight);
    if (!computes && !flight->operands.empty() && !flight->operands[0].offsets.empty()) {
      // What the destination held is gone, what it will hold is not there yet.
      const Footprint& to = flight->operands[0];
      int64_t byte = 0, bytes = 0;
      uint8_t halves = both_halves;
      const DType type = k_.buffers[to.buffer].dtype;
      for (const int64_t element : to.offsets)
        if (place(w, i, *to.region, element, 1, type, byte, bytes, halves)) {
          write(w, i, *to.region, byte, bytes, halves, true);
          if (bits(type) >= 8) std::fill_n(to.region->data + byte, bytes, poison_byte);
        }
    }
  }
  mark(*flight, +1);
  w.tokens[i.token].push_back(std::move(flight));
}

void Machine::act(Worker& w, Flight& flight) {
  if (flight.acted) return;
  flight.acted = true;
  if (flight.operands.empty()) return; // it was refused
  const Instruction& i = *flight.instruction;
  if (i.code == Code::async_unit)
    unit(w, i, flight.operands);
  else
    copy(w, i, flight.operands);
}

void Machine::wait(Worker& w, const Instruction& i) {
  auto& queue = w.tokens[i.token];
  if (!i.behind && queue.empty())
    return report(FindingKind::token, w, i, {}, 0,
                  fmt::format("token {} is awaited, and nothing of it is in flight", i.token));
  for (size_t left = i.behind ? size_t(*i.behind) : queue.size() - 1; queue.size() > left;) {
    const auto flight = queue.front();
    queue.pop_front();
    land(w, i, flight);
  }
}

void Machine::land(Worker& w, const Instruction& i, const std::shared_ptr<Flight>& flight) {
  if (flight->instruction->code == Code::async_unit && !flight->acted) {
    while (!w.units.empty()) {
      const auto unit = w.units.front();
      w.units.pop_front();
      mark(*unit, -1); // it acts now, on what it holds itself
      act(w, *unit);
      if (unit == flight) break;
      mark(*unit, +1);
    }
    return;
  }
  mark(*flight, -1);
  if (!flight->acted) return act(w, *flight);
  // It acted at once; whoever touched the bytes since is told by in_flight. The data counts as
  // arriving now.
  if (flight->instruction->code == Code::copy && !flight->operands.empty())
    for (const int64_t element : flight->operands[0].offsets) {
      int64_t byte = 0, bytes = 0;
      uint8_t halves = both_halves;
      Region& r = *flight->operands[0].region;
      Conflict c;
      if (!place(w, i, r, element, 1, k_.buffers[r.buffer].dtype, byte, bytes, halves)) continue;
      if (!record_write(r, clock_, byte, bytes, halves, w.actor,
                        uint32_t(flight->instruction - p_.code.data()), false, c))
        conflict(w, *flight->instruction, r, c, true);
    }
}

/// A unit of several lanes, or an exchange: the lanes from worker `first` on have all come.
void Machine::together(size_t first, const Instruction& i) {
  const Unit& u = *i.unit;
  const auto element = [&](const UnitOperandInfo& info, int lane, int place) {
    const ExprMap<int64_t> at{{unit_lane(), lane}, {unit_place(), place}};
    return std::pair(luminal::evaluate(info.map.first, at).value(),
                     luminal::evaluate(info.map.second, at).value());
  };
  const auto perform = [&]<class T>(T) {
    std::vector<T> values[3];
    for (int o = 0; o < 3; ++o) {
      const UnitOperandInfo& info = u.operand(o);
      values[o].resize(size_t(u.extent(info.axes[0])) * size_t(u.extent(info.axes[1])));
      each_place(first, i, o, [&](Worker& w, Region& r, int64_t at, int part, int place) {
        int64_t byte = 0, bytes = 0;
        uint8_t halves = both_halves;
        if (!this->place(w, i, r, at, 1, k_.buffers[r.buffer].dtype, byte, bytes, halves)) return;
        read(w, i, r, byte, bytes, halves);
        const auto [row, column] = element(info, w.lane % u.lanes, place);
        values[o][size_t(row * u.extent(info.axes[1]) + column)] =
            load_number<T>(info.dtype, r, at * places_in_word(info, k_.buffers[r.buffer].dtype) + part);
      });
    }
    execute_unit(u, values[1].data(), values[2].data(), values[0].data());
    const UnitOperandInfo& info = u.accumulator;
    each_place(first, i, 0, [&](Worker& w, Region& r, int64_t at, int, int place) {
      int64_t byte = 0, bytes = 0;
      uint8_t halves = both_halves;
      if (!this->place(w, i, r, at, 1, info.dtype, byte, bytes, halves)) return;
      write(w, i, r, byte, bytes, halves, false);
      const auto [row, column] = element(info, w.lane % u.lanes, place);
      store_number(info.dtype, r, at, values[0][size_t(row * u.extent(info.axes[1]) + column)]);
    });
  };
  if (u.sum == UnitSum::integer)
    perform(int64_t{});
  else
    perform(double{});
}

/// Calls for each lane and place of an operand: the element of the lane's buffer, the part of it.
void Machine::each_place(size_t first, const Instruction& i, int operand,
                         const std::function<void(Worker&, Region&, int64_t, int, int)>& inside) {
  const UnitOperandInfo& info = i.unit->operand(operand);
  const OperandCode& code = i.operands[size_t(operand)];
  const int in_word = places_in_word(info, k_.buffers[code.buffer].dtype);
  for (size_t l = first; l < first + size_t(i.unit->lanes); ++l) {
    Worker& w = workers_[l];
    int64_t offset = 0;
    if (!code.offset.run(w.slots.data(), offset)) {
      report(FindingKind::overflow, w, i, code.buffer, 0, "the operand: " + code.offset.why(w.slots.data()));
      return;
    }
    for (int place = 0; place < info.map.places; ++place)
      inside(w, region(w, code.buffer), offset + place / in_word, place % in_word, place);
  }
}

void Machine::exchange(size_t first, const Instruction& i) {
  std::vector<std::array<std::byte, 8>> values(most_exchanging);
  const auto at = [&](Worker& w, const OperandCode& code, int64_t& byte, int64_t& bytes) {
    int64_t offset = 0;
    uint8_t halves = both_halves;
    Region& r = region(w, code.buffer);
    return code.offset.run(w.slots.data(), offset) &&
           place(w, i, r, offset, 1, k_.buffers[code.buffer].dtype, byte, bytes, halves);
  };
  int64_t byte = 0, bytes = 0;
  for (size_t l = 0; l < values.size(); ++l) {
    Worker& w = workers_[first + l];
    if (!at(w, i.operands[1], byte, bytes)) return;
    Region& r = region(w, i.operands[1].buffer);
    read(w, i, r, byte, bytes, both_halves);
    std::memcpy(values[l].data(), r.data + byte, size_t(bytes));
  }
  for (size_t l = 0; l < values.size(); ++l) {
    Worker& w = workers_[first + l];
    if (!at(w, i.operands[0], byte, bytes)) return;
    Region& r = region(w, i.operands[0].buffer);
    write(w, i, r, byte, bytes, both_halves, false);
    std::memcpy(r.data + byte, values[l ^ size_t(i.mask)].data(), size_t(bytes));
  }
}

} // namespace luminal::kernel::loop_detail
