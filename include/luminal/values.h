// luminal/values.h -- numbers of the caller on their way into a tensor: one number, nested lists,
// vectors, arrays, spans.
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

/// Integers of a type that is not one of <cstdint>: `long long` where int64_t is `long`, or the
/// other way round.
template <class T>
  requires(std::same_as<T, long> || std::same_as<T, long long>)
inline constexpr DType dtype_of<T> = sizeof(T) == 8 ? DType::i64 : DType::i32;
template <class T>
  requires(std::same_as<T, unsigned long> || std::same_as<T, unsigned long long>)
inline constexpr DType dtype_of<T> = sizeof(T) == 8 ? DType::u64 : DType::u32;

/// A C++ type that has a DType: floats, bool, integers of 8 to 64 bits (char is a letter, not a
/// number), Half, BFloat16.
template <class T>
concept Element =
    std::same_as<T, float> || std::same_as<T, double> || std::same_as<T, bool> || std::same_as<T, Half> ||
    std::same_as<T, BFloat16> || std::same_as<T, signed char> || std::same_as<T, unsigned char> ||
    std::same_as<T, short> || std::same_as<T, unsigned short> || std::same_as<T, int> ||
    std::same_as<T, unsigned> || std::same_as<T, long> || std::same_as<T, unsigned long> ||
    std::same_as<T, long long> || std::same_as<T, unsigned long long>;

/// One number of any type, exact: a real one, or a whole one of 64 bits.
struct HostNumber {
  template <class T>
    requires std::is_arithmetic_v<T>
  constexpr HostNumber(T number)
      : real(std::is_floating_point_v<T>), value(double(number)), whole(int64_t(0)),
        above(std::is_unsigned_v<T> && sizeof(T) == 8) {
    if constexpr (!std::is_floating_point_v<T>) whole = int64_t(number);
  }
  bool real;     ///< written with a fraction, or of a type that has them
  double value;  ///< of a large whole number: rounded
  int64_t whole; ///< of a whole number: its 64 bits
  bool above;    ///< these are those of an unsigned number
};

namespace detail {
template <class V> struct NestedTraits;
template <> struct NestedTraits<HostNumber> {
  static constexpr int rank = 0;
  using Value = HostNumber;
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
/// Lists in braces, of numbers and of lists.
template <class T> using List = std::initializer_list<T>;
template <class T> using List2 = List<List<T>>;
template <class T> using List3 = List<List2<T>>;
template <class T> using List4 = List<List3<T>>;
template <class T> using List5 = List<List4<T>>;
} // namespace detail

/// A range of elements, or of such ranges, up to 8 deep: std::vector<std::array<float, 3>>,
/// std::span<const int>, float[2][2], ...
template <class V>
concept NestedRange = std::ranges::sized_range<const V> && requires {
  typename detail::NestedTraits<V>::Value;
} && Element<typename detail::NestedTraits<V>::Value> && (detail::NestedTraits<V>::rank <= 8);

/// Numbers of one type with their shape. One flat range of numbers in a row (vector, span, array)
/// is referred to, anything else is copied: a HostValues made from a range is an argument of a
/// call, to be used while the range lives.
class HostValues {
public:
  template <Element T> HostValues(T value) : literal_(true) { fill(value); }
  template <Element T> HostValues(detail::List<T> list) : literal_(true) { fill(list); }
  template <Element T> HostValues(detail::List2<T> list) : literal_(true) { fill(list); }
  template <Element T> HostValues(detail::List3<T> list) : literal_(true) { fill(list); }
  template <Element T> HostValues(detail::List4<T> list) : literal_(true) { fill(list); }
  template <Element T> HostValues(detail::List5<T> list) : literal_(true) { fill(list); }
  // Numbers of several types in one list: {1.5, 2, 3} are doubles, {1, 2L} i64.
  HostValues(detail::List<HostNumber> list) : literal_(true) { fill_numbers(list); }
  HostValues(detail::List2<HostNumber> list) : literal_(true) { fill_numbers(list); }
  HostValues(detail::List3<HostNumber> list) : literal_(true) { fill_numbers(list); }
  HostValues(detail::List4<HostNumber> list) : literal_(true) { fill_numbers(list); }
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
  /// Written as one number or a list in braces: its numbers have the type that C++ gives them,
  /// which nobody chose.
  bool literal() const { return literal_; }
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
  /// Doubles where one of them is real, else 64-bit integers.
  template <class V> void fill_numbers(const V& values) {
    auto copy = std::make_shared<std::vector<HostNumber>>();
    measure(values);
    std::vector<int64_t> path;
    append(values, *copy, path);
    keep_numbers(*copy);
  }
  void keep_numbers(const std::vector<HostNumber>& numbers);
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
  bool literal_ = false;
};

} // namespace luminal
