// base/small_vector.h -- a vector of trivial values whose first N live in the object: scratch lists
// without allocation.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>
#include <span>
#include <type_traits>

namespace luminal {

template <class T, size_t N> class SmallVector {
  static_assert(std::is_trivially_copyable_v<T> && std::is_trivially_destructible_v<T>);

public:
  SmallVector() {}
  SmallVector(const SmallVector& other) { assign(other.begin(), other.end()); }
  SmallVector& operator=(const SmallVector& other) {
    if (this != &other) assign(other.begin(), other.end());
    return *this;
  }

  T* begin() { return data_; }
  T* end() { return data_ + size_; }
  const T* begin() const { return data_; }
  const T* end() const { return data_ + size_; }
  T& operator[](size_t i) { return data_[i]; }
  const T& operator[](size_t i) const { return data_[i]; }
  T& back() { return data_[size_ - 1]; }
  const T& back() const { return data_[size_ - 1]; }
  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  std::span<const T> span() const { return {data_, size_}; }

  void clear() { size_ = 0; }
  void resize_down(size_t size) { size_ = size; }
  void pop_back() { --size_; }
  void push_back(const T& value) {
    const T copy = value; // `value` may be an element
    if (size_ == capacity_) grow(size_ + 1);
    data_[size_++] = copy;
  }
  void insert(size_t position, const T& value) {
    push_back(value);
    std::rotate(begin() + position, end() - 1, end());
  }
  void erase(size_t position) {
    std::copy(begin() + position + 1, end(), begin() + position);
    --size_;
  }
  void assign(const T* first, const T* last) {
    const size_t count = static_cast<size_t>(last - first);
    if (count > capacity_) grow(count);
    std::copy(first, last, data_);
    size_ = count;
  }

private:
  void grow(size_t least) {
    const size_t capacity = std::max(least, 2 * capacity_);
    std::unique_ptr<T[]> bigger(new T[capacity]);
    std::copy(begin(), end(), bigger.get());
    heap_ = std::move(bigger);
    data_ = heap_.get();
    capacity_ = capacity;
  }

  union {
    T inline_[N];
  };
  std::unique_ptr<T[]> heap_;
  T* data_ = inline_;
  size_t size_ = 0, capacity_ = N;
};

} // namespace luminal
