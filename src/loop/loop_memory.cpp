// loop/loop_memory.cpp -- races, poison and values that outlive their iteration.
#include "loop/loop_memory.h"

namespace luminal::kernel::loop_detail {

bool Clock::concurrent(ActorId x, ActorId y, bool own_group) const {
  if (x == y) return false;
  const Actor &a = actors_[x], &b = actors_[y];
  if (!strict_) return a.worker != b.worker;
  // Inside one iteration of a level the same worker of that level acts. Iterations may go to any
  // worker; elsewhere the workers are who they are.
  const uint32_t at[3][2] = {
      {a.worker / lanes_, b.worker / lanes_}, {a.worker, b.worker}, {a.worker, b.worker}};
  for (int level = own_group ? 1 : 0; level < 3; ++level) {
    const bool both = a.iteration[level] && b.iteration[level];
    if (both ? a.iteration[level] != b.iteration[level] : at[level][0] != at[level][1]) return true;
  }
  return false;
}

bool Clock::ordered(uint32_t then, ActorId x, ActorId y, bool own_group) const {
  if (global_ >= then) return true;
  const Actor &a = actors_[x], &b = actors_[y];
  if (!same_group(x, y, own_group)) return false;
  if (group_[a.worker / lanes_] >= then) return true;
  const bool apart = strict_ && a.iteration[1] && b.iteration[1] && a.iteration[1] != b.iteration[1];
  return a.worker == b.worker && !apart && lane_[a.worker] >= then;
}

bool Clock::carries(ActorId writer, ActorId reader, int levels) const {
  if (writer == reader) return true;
  const Actor &a = actors_[writer], &b = actors_[reader];
  for (int level = 0; level < levels; ++level)
    if (a.iteration[level] && a.iteration[level] != b.iteration[level]) return false;
  return true;
}

bool record_read(Region& r, const Clock& clock, int64_t byte, int64_t count, uint8_t halves, ActorId actor,
                 uint32_t at, Conflict& conflict) {
  bool clean = true;
  const auto report = [&](FindingKind kind, int64_t entry) {
    if (clean) conflict = {kind, std::max(byte, entry << r.shift)};
    const bool first = clean;
    clean = false;
    return first;
  };
  const int64_t first = byte >> r.shift, last = (byte + count - 1) >> r.shift;
  for (int64_t i = first; i <= last; ++i) {
    uint8_t& flags = r.flags[i];
    flags |= Region::was_read;
    if (flags & halves) report(FindingKind::uninitialised, i);
  }
  if (r.is_private) {
    for (int64_t i = first; i <= last; ++i)
      if (r.keeper[i] != actor && !(r.flags[i] & halves) &&
          !clock.carries(r.keeper[i], actor, r.private_levels) && report(FindingKind::carried, i))
        conflict.other = r.keeper[i];
    if (!r.watched) return clean;
  }
  if (!r.watched) return clean;
  const uint32_t now = clock.now(), global = clock.last_global();
  for (int64_t i = first; i <= last; ++i) {
    Region::Shadow& s = r.shadow[i];
    if (s.write_time > global && s.writer != actor && clock.concurrent(s.writer, actor, r.is_private) &&
        !clock.ordered(s.write_time, s.writer, actor, r.is_private) && report(FindingKind::race, i)) {
      conflict.other = s.writer;
      conflict.other_at = s.write_at;
      conflict.other_writes = true;
    }
    if (s.read_time > global && (s.reader != actor || s.readers == 1)) {
      // Earlier readers that no barrier orders before this one must stay known.
      if (s.readers == 2 || clock.ordered(s.read_time, s.reader, actor, r.is_private))
        s.readers = s.readers == 2 ? 2 : 0;
      else if (s.readers == 1 || clock.concurrent(s.reader, actor, r.is_private))
        s.readers = clock.same_group(s.reader, actor, r.is_private) ? 1 : 2;
    } else if (s.read_time <= global) {
      s.readers = 0;
    }
    s.read_time = now;
    s.reader = actor;
    s.read_at = at;
  }
  return clean;
}

bool record_write(Region& r, const Clock& clock, int64_t byte, int64_t count, uint8_t halves, ActorId actor,
                  uint32_t at, bool poison, Conflict& conflict) {
  bool clean = true;
  const int64_t first = byte >> r.shift, last = (byte + count - 1) >> r.shift;
  for (int64_t i = first; i <= last; ++i) {
    uint8_t& flags = r.flags[i];
    flags |= Region::was_written;
    flags = poison ? flags | halves : flags & uint8_t(~halves);
  }
  if (r.is_private)
    for (int64_t i = first; i <= last; ++i) r.keeper[i] = actor;
  if (!r.watched) return clean;
  const uint32_t now = clock.now(), global = clock.last_global();
  for (int64_t i = first; i <= last; ++i) {
    Region::Shadow& s = r.shadow[i];
    const auto report = [&](ActorId other, uint32_t other_at, bool writes) {
      if (clean) conflict = {FindingKind::race, std::max(byte, i << r.shift), other, other_at, writes};
      clean = false;
    };
    if (s.write_time > global && s.writer != actor && clock.concurrent(s.writer, actor, r.is_private) &&
        !clock.ordered(s.write_time, s.writer, actor, r.is_private))
      report(s.writer, s.write_at, true);
    if (s.read_time > global) {
      const bool ordered = s.readers == 2 ? false : clock.ordered(s.read_time, s.reader, actor, r.is_private);
      if (!ordered &&
          (s.readers > 0 || (s.reader != actor && clock.concurrent(s.reader, actor, r.is_private))))
        report(s.reader, s.read_at, false);
    }
    s.write_time = now;
    s.writer = actor;
    s.write_at = at;
  }
  return clean;
}

} // namespace luminal::kernel::loop_detail
