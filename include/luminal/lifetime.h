// luminal/lifetime.h -- many tensors at once, the order of values, and values handed from tensor to
// tensor.
#pragma once
#include "luminal/graph.h"
#include <tuple>

namespace luminal {

namespace detail {
template <class T>
concept TupleOfTensors =
    requires { std::tuple_size<std::remove_cvref_t<T>>::value; } && !std::ranges::range<T>;

/// f(tensor) for one tensor, or for all in a vector, span, array, tuple, pair, or in these in one
/// another.
template <class C, class F> void each_tensor(C&& tensors, F&& f) {
  if constexpr (std::is_convertible_v<C, Tensor>)
    f(Tensor(tensors));
  else if constexpr (TupleOfTensors<C>)
    std::apply([&](auto&&... part) { (each_tensor(part, f), ...); }, tensors);
  else
    for (auto&& part : tensors) each_tensor(part, f);
}
} // namespace detail

/// Tensor::keep, drop on each. `where` is the caller's line.
template <class C> void keep(const C& tensors, std::source_location where = std::source_location::current()) {
  detail::each_tensor(tensors, [&](Tensor t) { t.keep(where); });
}
template <class C>
void retrieve(const C& tensors, std::source_location where = std::source_location::current()) {
  keep(tensors, where);
}
template <class C> void drop(const C& tensors, std::source_location where = std::source_location::current()) {
  detail::each_tensor(tensors, [&](Tensor t) { t.drop(where); });
}
inline void keep(std::initializer_list<Tensor> tensors,
                 std::source_location where = std::source_location::current()) {
  keep(std::vector<Tensor>(tensors), where);
}
inline void drop(std::initializer_list<Tensor> tensors,
                 std::source_location where = std::source_location::current()) {
  drop(std::vector<Tensor>(tensors), where);
}

/// Tensor::set_dyn on each, with the values of the same place: set_dyn(std::tie(x, y),
/// std::tuple(rows, columns)), or two vectors.
template <class... T, class... V>
void set_dyn(const std::tuple<T...>& tensors, const std::tuple<V...>& values,
             std::source_location where = std::source_location::current()) {
  static_assert(sizeof...(T) == sizeof...(V), "as many values as tensors");
  [&]<size_t... I>(std::index_sequence<I...>) {
    (Tensor(std::get<I>(tensors)).set_dyn(std::get<I>(values), where), ...);
  }(std::index_sequence_for<T...>());
}
void set_dyn(std::span<const Tensor> tensors, std::span<const HostValues> values,
             std::source_location where = std::source_location::current());
template <std::ranges::sized_range C, NestedRange V>
  requires std::same_as<std::ranges::range_value_t<C>, Tensor>
void set_dyn(const C& tensors, const V& values,
             std::source_location where = std::source_location::current()) {
  set_dyn(std::span<const Tensor>(tensors),
          std::vector<HostValues>(std::ranges::begin(values), std::ranges::end(values)), where);
}

/// The value of x, available only after all of `others` have been computed and their effects have
/// happened. What is made from the result comes after them; no pass changes that.
Tensor after(const Tensor& x, const std::vector<Tensor>& others,
             std::source_location where = std::source_location::current());

/// Moves a value: a kept value, state or input becomes the value of an input, weight or state of
/// the same or another graph, of the same type. Afterwards `from` has none (a state is zero). Kept
/// values of 64 KiB and more, and states, are not copied.
void transfer(const Tensor& from, const Tensor& to,
              std::source_location where = std::source_location::current());
/// All values are taken before the first one is given.
void transfer(const std::vector<Tensor>& from, const std::vector<Tensor>& to,
              std::source_location where = std::source_location::current());
/// Exchanges the values of two inputs or states. (The handles stay what they are.)
void swap_values(const Tensor& a, const Tensor& b,
                 std::source_location where = std::source_location::current());

/// Forgets the data of all inputs and weights that the tensors are made from.
void delete_inputs(const std::vector<Tensor>& tensors,
                   std::source_location where = std::source_location::current());
/// All values that are made from these, in the order in which they were made.
std::vector<Tensor> downstream(const std::vector<Tensor>& tensors,
                               std::source_location where = std::source_location::current());

} // namespace luminal
