// base/hash.h -- xxHash (XXH3), 64 and 128 bits: structural hashes and cache keys. Values are the
// same on every machine of the same byte order; all ours are little endian.
#pragma once
#include <compare>
#include <concepts>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace luminal {

struct Hash128 {
  uint64_t low = 0, high = 0;
  auto operator<=>(const Hash128&) const = default;
  std::string hex() const; ///< 32 digits, high half first
};

uint64_t hash64(const void* data, size_t bytes, uint64_t seed = 0);
inline uint64_t hash64(std::string_view text, uint64_t seed = 0) {
  return hash64(text.data(), text.size(), seed);
}
Hash128 hash128(const void* data, size_t bytes, uint64_t seed = 0);
inline Hash128 hash128(std::string_view text, uint64_t seed = 0) {
  return hash128(text.data(), text.size(), seed);
}

/// Mixes a word into a running hash: cheap, order dependent, good enough for hash tables. Not for
/// keys on disk.
inline uint64_t hash_mix(uint64_t hash, uint64_t word) {
  hash = (hash ^ word) * 0x9E3779B97F4A7C15u;
  hash ^= hash >> 32;
  hash *= 0xD6E8FEB86659FD93u;
  return hash ^ (hash >> 32);
}

/// A hash of a sequence of values. Text and lists are prefixed with their length, so that no two
/// sequences of calls with different values meet.
class Hasher {
public:
  explicit Hasher(uint64_t seed = 0);
  ~Hasher();
  Hasher(const Hasher&);
  Hasher& operator=(const Hasher&);

  Hasher& bytes(const void* data, size_t size); ///< raw, without a length
  Hasher& add(std::string_view text);
  Hasher& add(const char* text) { return add(std::string_view(text)); }
  template <class T>
    requires std::is_arithmetic_v<T> || std::is_enum_v<T>
  Hasher& add(T value) {
    return bytes(&value, sizeof value);
  }
  Hasher& add(const Hash128& value) { return add(value.low).add(value.high); }
  template <class T> Hasher& add(std::span<const T> values) {
    add(values.size());
    for (const T& value : values) add(value);
    return *this;
  }

  uint64_t value64() const;
  Hash128 value128() const;

private:
  struct State;
  std::unique_ptr<State> state_;
};

} // namespace luminal
