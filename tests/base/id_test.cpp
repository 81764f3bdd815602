// base/id_test.cpp -- ids: kinds that do not mix, none, lists that ids index.
#include "base/id.h"
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <string>
#include <type_traits>
#include <unordered_set>

namespace luminal::id_test {
namespace {

using ShelfId = Id<struct ShelfTag>;
using BookId = Id<struct BookTag>;

template <class A, class B>
concept comparable = requires(A a, B b) { a == b; } || requires(A a, B b) { a < b; };
template <class List, class Index>
concept indexed_by = requires(List list, Index index) { list[index]; };
template <class A, class B>
concept subtracted = requires(A a, B b) { a - b; };

// One kind is made from no other, and neither from a number by accident.
static_assert(!std::is_convertible_v<ShelfId, BookId> && !std::is_constructible_v<BookId, ShelfId>);
static_assert(!std::is_assignable_v<BookId&, ShelfId> && !std::is_assignable_v<BookId&, int>);
static_assert(!std::is_convertible_v<int, BookId> && std::is_constructible_v<BookId, int>);
static_assert(std::is_constructible_v<BookId, size_t> && !std::is_constructible_v<BookId, double>);
// Nor is an id a number, or a truth value outside of conditions.
static_assert(!std::is_convertible_v<BookId, int> && !std::is_convertible_v<BookId, size_t>);
static_assert(!std::is_convertible_v<BookId, bool>);
static_assert(comparable<BookId, BookId> && !comparable<BookId, ShelfId> && !comparable<BookId, int>);
static_assert(subtracted<BookId, BookId> && !subtracted<BookId, ShelfId>);
// Lists of one kind.
using Books = IdVector<BookId, std::string>;
static_assert(indexed_by<Books&, BookId> && indexed_by<const Books&, BookId>);
static_assert(!indexed_by<Books&, ShelfId> && !indexed_by<Books&, int> && !indexed_by<Books&, size_t>);
// No more than the number that it stands for.
static_assert(sizeof(BookId) == sizeof(int32_t) && std::is_trivially_copyable_v<BookId>);

TEST(Id, NoneIsWhatNothingWasGivenTo) {
  constexpr BookId none;
  static_assert(!none && none.number() == -1);
  EXPECT_TRUE(BookId(0));
  EXPECT_FALSE(BookId(0) == none);
  EXPECT_LT(none, BookId(0));
}

TEST(Id, IdsAreInTheOrderOfTheirPlaces) {
  BookId book(3);
  EXPECT_TRUE(book + 1 == BookId(4) && book - 1 == BookId(2));
  EXPECT_EQ(BookId(7) - book, 4);
  EXPECT_TRUE(book++ == BookId(3) && book == BookId(4) && --book == BookId(3));
  EXPECT_EQ(book.index(), 3u);
  const std::unordered_set<BookId> set = {BookId(1), BookId(2), BookId(1)};
  EXPECT_EQ(set.size(), 2u);
}

TEST(Id, MessagesShowTheNumber) { EXPECT_EQ(fmt::format("{} {}", BookId(3), BookId()), "3 -1"); }

TEST(Id, AListGivesItsIds) {
  Books books;
  EXPECT_TRUE(books.ids().begin() == books.ids().end());
  const BookId first = books.add("a");
  const BookId second = books.add("b");
  EXPECT_EQ(books[first] + books[second], "ab");
  EXPECT_TRUE(books.has(second) && !books.has(books.end_id()) && !books.has(BookId()));
  std::vector<int> seen;
  for (const BookId id : books.ids()) {
    seen.push_back(id.number());
    if (books.size() < 4) books.add("c"); // met as well
  }
  EXPECT_EQ(seen, (std::vector<int>{0, 1, 2, 3}));
}

TEST(Id, DownwardsThereAreThoseOfNow) {
  Books books;
  EXPECT_TRUE(books.ids_down().begin() == books.ids_down().end());
  books = {"a", "b", "c"};
  std::vector<int> seen;
  for (const BookId id : books.ids_down()) {
    seen.push_back(id.number());
    if (books.size() < 5) books.add("d"); // not met
  }
  EXPECT_EQ(seen, (std::vector<int>{2, 1, 0}));
}

TEST(Id, AListChecksWhereItIsAskedTo) {
  Books books = {"a", "b"};
  books.at(BookId(1)) = "c";
  EXPECT_EQ(std::as_const(books).at(BookId(1)), "c");
  EXPECT_THROW((void)books.at(BookId(2)), std::out_of_range);
  EXPECT_THROW((void)books.at(BookId()), std::out_of_range);
}

TEST(Id, FlagsAreAListToo) {
  IdVector<BookId, bool> read(2);
  read[BookId(1)] = true;
  const auto& as_read = read;
  EXPECT_TRUE(!as_read[BookId(0)] && as_read[BookId(1)]);
}

} // namespace
} // namespace luminal::id_test
