// base/hash.cpp -- xxHash behind our names.
#include "base/hash.h"
#include <fmt/format.h>
#include <new>
#include <utility>
#define XXH_STATIC_LINKING_ONLY
#include <xxhash.h>

namespace luminal {

std::string Hash128::hex() const { return fmt::format("{:016x}{:016x}", high, low); }

uint64_t hash64(const void* data, size_t bytes, uint64_t seed) {
  return XXH3_64bits_withSeed(data, bytes, seed);
}

Hash128 hash128(const void* data, size_t bytes, uint64_t seed) {
  const XXH128_hash_t h = XXH3_128bits_withSeed(data, bytes, seed);
  return {h.low64, h.high64};
}

namespace {
/// One block of memory that a thread keeps for its next hasher: most are made, fed a few words and
/// gone.
thread_local void* spare = nullptr;
thread_local bool spare_closed = false; // the thread ends
struct FreeSpare {
  void touch() {} // registers the destructor
  ~FreeSpare() {
    spare_closed = true;
    if (spare) ::operator delete(spare, std::align_val_t(64));
    spare = nullptr;
  }
};
thread_local FreeSpare free_spare;
} // namespace

/// Short inputs are kept and hashed at the end: setting up a state of XXH3 costs more than they do.
struct Hasher::State {
  uint64_t seed = 0;
  uint32_t size = 0; // bytes in `first`
  bool streaming = false;
  std::byte first[240];
  XXH3_state_t xxh;

  explicit State(uint64_t s) : seed(s) {}
  static void* operator new(size_t size, std::align_val_t align) {
    return spare ? std::exchange(spare, nullptr) : ::operator new(size, align);
  }
  static void operator delete(void* block, std::align_val_t align) {
    if (!spare_closed) free_spare.touch();
    if (spare_closed || spare)
      ::operator delete(block, align);
    else
      spare = block;
  }

  void add(const void* data, size_t bytes) {
    if (!streaming && bytes <= sizeof first - size) {
      if (bytes > 0) std::memcpy(first + size, data, bytes);
      size += uint32_t(bytes);
      return;
    }
    if (!streaming) { // one state serves both widths: XXH3 accumulates the same for 64 and 128 bits
      XXH3_128bits_reset_withSeed(&xxh, seed);
      XXH3_128bits_update(&xxh, first, size);
      streaming = true;
    }
    XXH3_128bits_update(&xxh, data, bytes);
  }
  void take(const State& other) {
    seed = other.seed;
    size = other.size;
    streaming = other.streaming;
    if (streaming)
      XXH3_copyState(&xxh, &other.xxh);
    else
      std::memcpy(first, other.first, size);
  }
};

Hasher::Hasher(uint64_t seed) : state_(new State(seed)) { static_assert(alignof(State) == 64); }
Hasher::~Hasher() = default;
Hasher::Hasher(const Hasher& other) : state_(new State(0)) { state_->take(*other.state_); }
Hasher& Hasher::operator=(const Hasher& other) {
  if (this != &other) state_->take(*other.state_);
  return *this;
}

Hasher& Hasher::bytes(const void* data, size_t size) {
  state_->add(data, size);
  return *this;
}
Hasher& Hasher::add(std::string_view text) { return add(text.size()).bytes(text.data(), text.size()); }

uint64_t Hasher::value64() const {
  return state_->streaming ? XXH3_64bits_digest(&state_->xxh)
                           : hash64(state_->first, state_->size, state_->seed);
}
Hash128 Hasher::value128() const {
  if (!state_->streaming) return hash128(state_->first, state_->size, state_->seed);
  const XXH128_hash_t h = XXH3_128bits_digest(&state_->xxh);
  return {h.low64, h.high64};
}

} // namespace luminal
