// base/id.h -- ids: positions in lists, of which each kind is a type of its own. Two kinds do
// not mix: an id is neither an integer nor an id of another kind, and a list of one kind is indexed
// by its ids alone.
#pragma once
#include <compare>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <fmt/core.h>
#include <functional>
#include <iterator>
#include <utility>
#include <vector>

namespace luminal {

/// The kind is what `Tag` names; the tag itself need not be defined: `using StageId = Id<struct
/// StageTag>;`. An id made from nothing is none: `if (id)` tests it, and none is less than all others.
template <class Tag> class Id {
public:
  constexpr Id() = default;
  template <std::integral Number> explicit constexpr Id(Number number) : number_(int32_t(number)) {}

  explicit constexpr operator bool() const { return number_ >= 0; }
  constexpr int number() const { return number_; } ///< -1: none
  /// Into what is indexed by numbers. Not of none.
  constexpr size_t index() const { return size_t(number_); }

  constexpr auto operator<=>(const Id&) const = default;
  // Where lists are in an order, ids are places in it: the next one, the distance of two.
  friend constexpr Id operator+(Id id, int by) { return Id(id.number_ + by); }
  friend constexpr Id operator-(Id id, int by) { return Id(id.number_ - by); }
  friend constexpr int operator-(Id a, Id b) { return a.number_ - b.number_; }
  constexpr Id& operator+=(int by) { return number_ += by, *this; }
  constexpr Id& operator++() { return ++number_, *this; }
  constexpr Id& operator--() { return --number_, *this; }
  constexpr Id operator++(int) { return Id(number_++); }
  constexpr Id operator--(int) { return Id(number_--); }

private:
  int32_t number_ = -1;
};

/// A vector whose elements ids name. Numbers do not index it.
template <class IdType, class T> class IdVector : public std::vector<T> {
public:
  using std::vector<T>::vector;

  decltype(auto) operator[](IdType id) { return std::vector<T>::operator[](id.index()); }
  decltype(auto) operator[](IdType id) const { return std::vector<T>::operator[](id.index()); }
  /// Is it the id of an element? None is not.
  bool has(IdType id) const { return id && id.index() < this->size(); }
  /// Behind the last element: the id that the next one gets.
  IdType end_id() const { return IdType(this->size()); }
  IdType add(T element) {
    this->push_back(std::move(element));
    return end_id() - 1;
  }

  /// Throws std::out_of_range for an id without an element.
  decltype(auto) at(IdType id) { return std::vector<T>::at(size_t(id.number())); }
  decltype(auto) at(IdType id) const { return std::vector<T>::at(size_t(id.number())); }

  /// All ids, ascending. What is added in the meantime is among them.
  auto ids() const { return Ids{this}; }
  /// All ids that there are now, descending.
  auto ids_down() const { return Down{end_id() - 1}; }

private:
  struct Down {
    IdType last;
    struct End {};
    struct Iterator {
      IdType id;
      IdType operator*() const { return id; }
      Iterator& operator++() { return --id, *this; }
      bool operator==(End) const { return !id; }
    };
    Iterator begin() const { return {last}; }
    End end() const { return {}; }
  };
  struct Ids {
    const IdVector* list;
    struct End {};
    struct Iterator {
      using value_type = IdType;
      using difference_type = std::ptrdiff_t;
      const IdVector* list = nullptr;
      IdType id{0};
      IdType operator*() const { return id; }
      Iterator& operator++() { return ++id, *this; }
      Iterator operator++(int) { return std::exchange(*this, {list, id + 1}); }
      bool operator==(End) const { return id == list->end_id(); }
    };
    Iterator begin() const { return {list}; }
    End end() const { return {}; }
  };
};

} // namespace luminal

template <class Tag> struct std::hash<luminal::Id<Tag>> {
  size_t operator()(luminal::Id<Tag> id) const { return std::hash<int>{}(id.number()); }
};

template <class Tag> struct fmt::formatter<luminal::Id<Tag>> : fmt::formatter<int> {
  template <class Context> auto format(luminal::Id<Tag> id, Context& context) const {
    return fmt::formatter<int>::format(id.number(), context);
  }
};
