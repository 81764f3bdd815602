// extract/extract_heap.h -- a binary heap of classes by (cost, class) whose keys may fall. For the
// extractors.
#pragma once
#include <cstdint>
#include <limits>
#include <vector>

namespace luminal::egraph {

class ClassHeap {
public:
  explicit ClassHeap(uint32_t classes) : place_(classes, absent), key_(classes) {}
  bool empty() const { return heap_.empty(); }
  /// Inserts a class or lowers its key.
  void offer(uint32_t c, double key) {
    key_[c] = key;
    if (place_[c] == absent) {
      place_[c] = uint32_t(heap_.size());
      heap_.push_back(c);
    }
    up(place_[c]);
  }
  double least() const { return key_[heap_[0]]; }
  uint32_t pop() {
    const uint32_t top = heap_[0], last = heap_.back();
    heap_.pop_back();
    place_[top] = absent;
    if (!heap_.empty()) {
      heap_[0] = last;
      place_[last] = 0;
      down(0);
    }
    return top;
  }
  void clear() {
    for (const uint32_t c : heap_) place_[c] = absent;
    heap_.clear();
  }

private:
  static constexpr uint32_t absent = std::numeric_limits<uint32_t>::max();
  bool before(uint32_t a, uint32_t b) const { return key_[a] < key_[b] || (key_[a] == key_[b] && a < b); }
  void up(uint32_t i) {
    const uint32_t c = heap_[i];
    while (i > 0) {
      const uint32_t parent = (i - 1) / 2;
      if (!before(c, heap_[parent])) break;
      heap_[i] = heap_[parent];
      place_[heap_[i]] = i;
      i = parent;
    }
    heap_[i] = c;
    place_[c] = i;
  }
  void down(uint32_t i) {
    const uint32_t c = heap_[i];
    const auto size = uint32_t(heap_.size());
    for (;;) {
      uint32_t child = 2 * i + 1;
      if (child >= size) break;
      if (child + 1 < size && before(heap_[child + 1], heap_[child])) ++child;
      if (!before(heap_[child], c)) break;
      heap_[i] = heap_[child];
      place_[heap_[i]] = i;
      i = child;
    }
    heap_[i] = c;
    place_[c] = i;
  }
  std::vector<uint32_t> heap_, place_;
  std::vector<double> key_;
};

} // namespace luminal::egraph
