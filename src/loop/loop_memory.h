// loop/loop_memory.h -- memory of the loop interpreter: bytes with a shadow that knows who wrote
// and read them, and when.
#pragma once
#include "loop/loop_interp.h"
#include <array>
#include <cstdint>
#include <vector>

namespace luminal::kernel::loop_detail {

/// Who acts: a worker, and the iterations of parallel loops around it. Iteration numbers are unique
/// in a run; 0: outside.
struct Actor {
  uint32_t worker = 0;
  std::array<uint32_t, 3> iteration = {0, 0, 0}; // by level
};
using ActorId = uint32_t;

/// Order between workers: barriers have times, an access of a worker happens before a barrier that
/// it passes later.
class Clock {
public:
  Clock(int workers, int lanes, bool iterations_race)
      : lanes_(lanes), strict_(iterations_race), group_(workers), lane_(size_t(workers) * lanes) {}

  uint32_t now() const { return now_; }
  uint32_t last_global() const { return global_; }
  void barrier(int level, uint32_t worker) {
    const uint32_t time = now_++; // what happened at this time or before is ordered
    (level == 0 ? global_ : level == 1 ? group_[worker / lanes_] : lane_[worker]) = time;
  }
  ActorId add(const Actor& actor) {
    actors_.push_back(actor);
    return ActorId(actors_.size()) - 1;
  }
  const Actor& operator[](ActorId id) const { return actors_[id]; }
  /// May the two act at the same time as far as their places in the kernel go? own_group: what they
  /// touch belongs to one group, which both are of.
  bool concurrent(ActorId a, ActorId b, bool own_group) const;
  /// Did a barrier that both know stand between time `then` of `a` and now of `b`?
  bool ordered(uint32_t then, ActorId a, ActorId b, bool own_group) const;
  /// For certain: two iterations of level 0 may have gone to different groups.
  bool same_group(ActorId x, ActorId y, bool own_group) const {
    if (own_group) return true;
    const Actor &a = actors_[x], &b = actors_[y];
    const bool apart = strict_ && a.iteration[0] && b.iteration[0] && a.iteration[0] != b.iteration[0];
    return !apart && a.worker / lanes_ == b.worker / lanes_;
  }
  /// Is `writer`'s value, kept in a private buffer, still good for `reader`? `levels`: iterations
  /// of levels below this count.
  bool carries(ActorId writer, ActorId reader, int levels) const;

private:
  uint32_t lanes_;
  bool strict_;
  uint32_t now_ = 1, global_ = 0;
  std::vector<uint32_t> group_, lane_;
  std::vector<Actor> actors_;
};

/// One instance of a buffer: the argument, the launch's, a group's or a worker's.
struct Region {
  BufferId buffer;
  std::byte* data = nullptr;
  int64_t elements = 0, bytes = 0;
  int element_bits = 32;
  int shift = 2;        // log2 of the bytes that one shadow entry covers
  bool watched = false; // shared by workers and writable: races
  bool is_private = false;
  int private_levels = 0; // see Clock::carries
  std::vector<std::byte> own;
  // Bits of flags: nothing has written the low (high) half of the byte(s); read, written by anyone.
  static constexpr uint8_t unwritten_low = 1, unwritten_high = 2, was_read = 4, was_written = 8;
  std::vector<uint8_t> flags;
  struct Shadow {
    uint32_t write_time = 0, read_time = 0;
    ActorId writer = 0, reader = 0;
    uint32_t write_at = 0, read_at = 0; // instructions
    uint8_t readers = 0;                // 0 one (`reader`), 1 several of one group, 2 of several groups
  };
  std::vector<Shadow> shadow;  // where watched
  std::vector<ActorId> keeper; // where private: who wrote
};

/// What an access ran into.
struct Conflict {
  FindingKind kind;
  int64_t byte = 0;  // the first one
  ActorId other = 0; // race, carried
  uint32_t other_at = 0;
  bool other_writes = false;
};

/// The halves of a byte that an access of a 4-bit element touches; both otherwise.
inline constexpr uint8_t both_halves = Region::unwritten_low | Region::unwritten_high;

/// Records the access and reports the first conflict. The bytes are inside the region.
bool record_read(Region& region, const Clock& clock, int64_t byte, int64_t count, uint8_t halves,
                 ActorId actor, uint32_t at, Conflict& conflict);
/// `poison`: the bytes become unspecified.
bool record_write(Region& region, const Clock& clock, int64_t byte, int64_t count, uint8_t halves,
                  ActorId actor, uint32_t at, bool poison, Conflict& conflict);

inline constexpr std::byte poison_byte{0xA5};

} // namespace luminal::kernel::loop_detail
