// base/hash.cpp -- xxHash behind our names.
#include "base/hash.h"
#include <fmt/format.h>
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

struct Hasher::State {
  XXH3_state_t xxh;
};

// One state serves both widths: XXH3 accumulates the same for 64 and 128 bits.
Hasher::Hasher(uint64_t seed) : state_(new State) { XXH3_128bits_reset_withSeed(&state_->xxh, seed); }
Hasher::~Hasher() = default;
Hasher::Hasher(const Hasher& other) : state_(new State) { XXH3_copyState(&state_->xxh, &other.state_->xxh); }
Hasher& Hasher::operator=(const Hasher& other) {
  XXH3_copyState(&state_->xxh, &other.state_->xxh);
  return *this;
}

Hasher& Hasher::bytes(const void* data, size_t size) {
  XXH3_128bits_update(&state_->xxh, data, size);
  return *this;
}
Hasher& Hasher::add(std::string_view text) { return add(text.size()).bytes(text.data(), text.size()); }

uint64_t Hasher::value64() const { return XXH3_64bits_digest(&state_->xxh); }
Hash128 Hasher::value128() const {
  const XXH128_hash_t h = XXH3_128bits_digest(&state_->xxh);
  return {h.low64, h.high64};
}

} // namespace luminal
