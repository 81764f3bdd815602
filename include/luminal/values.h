// luminal/values.h -- numbers of the caller on their way into a tensor: one number, nested lists, vectors, arrays, spans.
#pragma once
#include "luminal/dtype.h"
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <ranges>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

namespace luminal {

/// A C++ type that has a DType.
template <class T>
concept Element =
    std::same_as<T, float> || std::same_as<T, double> || std::same_as<T, bool> || std::same_as<T, int8_t> ||
    std::same_as<T, uint8_t> || std::same_as<T, int16_t> || std::same_as<T, uint16_t> ||
    std::same_as<T, int32_t> || std::same_as<T, uint32_t> || std::same_as<T, int64_t> ||
    std::same_as<T, uint64_t> || std::same_as<T, Half> || std::same_as<T, BFloat16>;

namespace detail {
struct Number {
  template <class T>
    requires std::is_arithmetic_v<T>
  Number(T number) : value(double(number)) {}
  operator double() const { return value; }
  double value;
};
template <class V> struct NestedTraits;
template <> struct NestedTraits<Number> {
  static constexpr int rank = 0;
  using Value = double;
};
template <Element T> struct NestedTraits<T> {
  static constexpr int rank = 0;
  using Value = T;
};
template <class V>
  requires(!Element<V> && std::ranges::sized_range<const V> &&
           requires { NestedTraits<std::ranges::range_value_t<const V>>::rank; })
struct NestedTraits<V> {
  using Inner = NestedTraits<std::ranges::range_value_t<const V>>;
  static constexpr int rank = 1 + Inner::rank;
  using Value = typename Inner::Value;
};
} // namespace detail

/// A range of elements, or of such ranges, up to 8 deep: std::vector<std::array<float, 3>>, std::span<const int>, float[2][2], ...
template <class V>
concept NestedRange = std::ranges::sized_range<const V> && requires {
  typename detail::NestedTraits<V>::Value;
} && (detail::NestedTraits<V>::rank <= 8);

/// Numbers of one type with their shape. One flat range of numbers in a row (vector, span, array) is referred to, anything else is copied: a HostValues made
/// from a range is an argument of a call, to be used while the range lives.
class HostValues {
public:
  template <Element T> HostValues(T value) { fill(value); }
  // clang-format off: one line for each depth
  template <Element T> HostValues(std::initializer_list<T> list) { fill(list); }
  template <Element T> HostValues(std::initializer_list<std::initializer_list<T>> list) { fill(list); }
  template <Element T> HostValues(std::initializer_list<std::initializer_list<std::initializer_list<T>>> list) { fill(list); }
  template <Element T> HostValues(std::initializer_list<std::initializer_list<std::initializer_list<std::initializer_list<T>>>> list) { fill(list); }
  template <Element T> HostValues(std::initializer_list<std::initializer_list<std::initializer_list<std::initializer_list<std::initializer_list<T>>>>> list) { fill(list); }
  // Numbers of several types in one list, {1.5, 2, 3}, are doubles.
  HostValues(std::initializer_list<detail::Number> list) { fill(list); }
  HostValues(std::initializer_list<std::initializer_list<detail::Number>> list) { fill(list); }
  HostValues(std::initializer_list<std::initializer_list<std::initializer_list<detail::Number>>> list) { fill(list); }
  HostValues(std::initializer_list<std::initializer_list<std::initializer_list<std::initializer_list<detail::Number>>>> list) { fill(list); }
  // clang-format on
  template <NestedRange V> HostValues(const V& values) {
    using T = typename detail::NestedTraits<V>::Value;
    if constexpr (std::ranges::contiguous_range<const V> && detail::NestedTraits<V>::rank == 1) {
      dtype_ = dtype_of<T>;
      shape_ = {int64_t(std::ranges::size(values))};
      bytes_ = std::as_bytes(std::span<const T>(std::ranges::data(values), std::ranges::size(values)));
    } else
      fill(values);
  }

  DType dtype() const { return dtype_; }
  /// Extents of the nesting: {} of one number, {n} of a flat list.
  const std::vector<int64_t>& shape() const { return shape_; }
  std::span<const std::byte> bytes() const { return bytes_; }
  int64_t count() const;
  /// "[1, 0] has 2 values where 3 are expected" where the lists are not a box, else empty.
  const std::string& ragged() const { return ragged_; }

private:
  template <class V> void fill(const V& values) {
    using T = typename detail::NestedTraits<V>::Value;
    using Stored = std::conditional_t<std::same_as<T, bool>, uint8_t, T>;
    dtype_ = dtype_of<T>;
    measure(values);
    auto copy = std::make_shared<std::vector<Stored>>();
    std::vector<int64_t> path;
    append(values, *copy, path);
    bytes_ = std::as_bytes(std::span<const Stored>(*copy));
    owner_ = std::move(copy);
  }
  template <class V> void measure(const V& values) {
    if constexpr (detail::NestedTraits<V>::rank > 0) {
      shape_.push_back(int64_t(std::ranges::size(values)));
      if constexpr (detail::NestedTraits<V>::rank > 1) {
        if (std::ranges::size(values) > 0)
          measure(*std::ranges::begin(values));
        else
          shape_.resize(size_t(shape_.size()) + size_t(detail::NestedTraits<V>::rank) - 1);
      }
    }
  }
  template <class V, class T> void append(const V& values, std::vector<T>& out, std::vector<int64_t>& path) {
    if constexpr (detail::NestedTraits<V>::rank == 0)
      out.push_back(T(values));
    else {
      const auto size = int64_t(std::ranges::size(values));
      if (size != shape_[path.size()]) note_ragged(path, size);
      path.push_back(0);
      for (const auto& inner : values) {
        if constexpr (detail::NestedTraits<V>::rank == 1)
          out.push_back(T(inner));
        else
          append(inner, out, path);
        path.back()++;
      }
      path.pop_back();
    }
  }
  void note_ragged(const std::vector<int64_t>& path, int64_t size);

  DType dtype_ = DType::f32;
  std::vector<int64_t> shape_;
  std::span<const std::byte> bytes_;
  std::shared_ptr<const void> owner_;
  std::string ragged_;
};

} // namespace luminal
