// search/tuning_near.cpp -- entries of other sizes: what was tuned for 32 rows serves 40 better
// than nothing does.
#include "base/text.h"
#include "search/tuning_cache.h"
#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

namespace luminal::search {
namespace {

/// "m=32 of 1..128 n=7": the dimensions with their ranges, and their values.
struct Bucket {
  std::string dimensions; // "m of 1..128 n"
  std::vector<int64_t> values;
};

Bucket parsed(std::string_view text) {
  Bucket bucket;
  for (const std::string_view word : split(text, ' ')) {
    const size_t equals = word.find('=');
    bucket.dimensions += std::string(word.substr(0, equals)) + " ";
    if (equals == std::string_view::npos) continue;
    int64_t value = 0;
    std::from_chars(word.data() + equals + 1, word.data() + word.size(), value);
    bucket.values.push_back(value);
  }
  return bucket;
}

/// How far sizes are from each other, by ratio; infinite where they are sizes of something else.
double distance(const Bucket& a, const Bucket& b) {
  if (a.dimensions != b.dimensions || a.values.size() != b.values.size())
    return std::numeric_limits<double>::infinity();
  double sum = 0;
  for (size_t i = 0; i < a.values.size(); i++)
    sum += std::fabs(std::log((double(a.values[i]) + 1) / (double(b.values[i]) + 1)));
  return sum;
}

} // namespace

std::optional<TuningEntry> TuningCache::find_near(const TuningKey& key) {
  if (auto exact = find(key); exact || key.bucket.empty()) return exact;
  const Bucket wanted = parsed(key.bucket);
  std::vector<std::pair<double, std::string>> near; // nearest first; of two the smaller sizes
  {
    const std::lock_guard guard(mutex_);
    if (!sizes_) read_sizes();
    const auto [begin, end] = sizes_->equal_range(key.structure.hex());
    for (auto it = begin; it != end; ++it)
      near.emplace_back(distance(wanted, parsed(it->second)), it->second);
    for (const auto& [hash, entry] : memory_)
      if (entry.key.structure == key.structure)
        near.emplace_back(distance(wanted, parsed(entry.key.bucket)), entry.key.bucket);
  }
  std::sort(near.begin(), near.end());
  for (const auto& [far, bucket] : near) {
    if (std::isinf(far)) break;
    TuningKey other = key;
    other.bucket = bucket;
    if (auto entry = find(other)) return entry;
  }
  return {};
}

} // namespace luminal::search
