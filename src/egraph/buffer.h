// egraph/buffer.h -- a growable array of trivial values that knows its bytes: what tables, indexes
// and logs are made of.
#pragma once
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>
#include <span>
#include <type_traits>
#include <utility>

namespace luminal::egraph {

/// The next capacity of a hash.
inline size_t grown(size_t capacity) { return capacity + capacity / (capacity < 16384 ? 2 : 7) + 16; }

/// Grows with realloc: by half, large blocks, which the system moves without copying, by a twelfth.
template <class T> class Buffer {
  static_assert(std::is_trivially_copyable_v<T>);

public:
  Buffer() = default;
  Buffer(const Buffer& other) { assign(other.span()); }
  Buffer(Buffer&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)),
        capacity_(std::exchange(other.capacity_, 0)) {}
  Buffer& operator=(const Buffer& other) {
    if (this != &other) assign(other.span());
    return *this;
  }
  Buffer& operator=(Buffer&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    std::swap(capacity_, other.capacity_);
    return *this;
  }
  ~Buffer() { std::free(data_); }

  T* data() { return data_; }
  const T* data() const { return data_; }
  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  T& operator[](size_t i) { return data_[i]; }
  const T& operator[](size_t i) const { return data_[i]; }
  T& back() { return data_[size_ - 1]; }
  const T& back() const { return data_[size_ - 1]; }
  T* begin() { return data_; }
  T* end() { return data_ + size_; }
  const T* begin() const { return data_; }
  const T* end() const { return data_ + size_; }
  std::span<const T> span() const { return {data_, size_}; }
  uint64_t bytes() const { return capacity_ * sizeof(T); }

  void push_back(T value) {
    if (size_ == capacity_) grow(size_ + 1);
    data_[size_++] = value;
  }
  /// `count` uninitialized elements at the end.
  T* extend(size_t count) {
    if (size_ + count > capacity_) grow(size_ + count);
    size_ += count;
    return data_ + size_ - count;
  }
  void append(std::span<const T> values) {
    if (!values.empty()) std::memcpy(extend(values.size()), values.data(), values.size_bytes());
  }
  void assign(std::span<const T> values) {
    size_ = 0;
    if (values.size() > capacity_) reallocate(values.size());
    append(values);
  }
  void resize(size_t size, T fill = T()) {
    if (size > capacity_) grow(size);
    if (size > size_) std::fill(data_ + size_, data_ + size, fill);
    size_ = size;
  }
  void truncate(size_t size) { size_ = size; }
  void clear() { size_ = 0; }
  void reserve(size_t capacity) {
    if (capacity > capacity_) reallocate(capacity);
  }
  /// Gives memory back; the contents are kept up to `capacity` elements.
  void release(size_t capacity = 0) {
    size_ = std::min(size_, capacity);
    reallocate(capacity);
  }

private:
  void grow(size_t least) {
    reallocate(std::max(least, capacity_ + capacity_ / (capacity_ < 65536 ? 2 : 12) + 8));
  }
  void reallocate(size_t capacity) {
    if (capacity == 0) {
      std::free(data_);
      data_ = nullptr;
    } else {
      void* bigger = std::realloc(static_cast<void*>(data_), capacity * sizeof(T));
      if (bigger == nullptr) throw std::bad_alloc();
      data_ = static_cast<T*>(bigger);
    }
    capacity_ = capacity;
  }

  T* data_ = nullptr;
  size_t size_ = 0, capacity_ = 0;
};

} // namespace luminal::egraph
