// tests/base/error_test.cpp -- errors, results, checks, small vectors.
#include "base/check.h"
#include "base/result.h"
#include "base/small_vector.h"
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <random>

using namespace luminal;
using testing::HasSubstr;

TEST(Error, NamesOperationAndPlace) {
  try {
    throw Error("matmul", "inner sizes differ");
  } catch (const Error& error) {
    EXPECT_THAT(error.what(),
                testing::MatchesRegex("\\[matmul\\] inner sizes differ at error_test.cpp:[0-9]+"));
  }
}

/// What a program says of a file that it was given is about no line of its own.
TEST(Error, NamesNoPlaceWhereThereIsNone) {
  EXPECT_STREQ(Error("onnx", "a.onnx: no graph", std::source_location()).what(), "[onnx] a.onnx: no graph");
}

TEST(Error, MemoryThatIsNotThereHasATypeOfItsOwn) {
  Result<int> none = Failure{"cpu: cannot allocate 8 bytes", MemoryShortage{.needed = 8, .available = 4}};
  try {
    (void)none.value();
    ADD_FAILURE();
  } catch (const OutOfMemoryError& error) {
    EXPECT_STREQ(error.what(), "cpu: cannot allocate 8 bytes");
    EXPECT_EQ(error.shortage().needed, 8);
    EXPECT_EQ(error.shortage().available, 4);
  }
  try {
    throw_failure("execute", none.failure(), std::source_location::current());
  } catch (const OutOfMemoryError& error) {
    EXPECT_THAT(error.what(),
                testing::StartsWith("[execute] cpu: cannot allocate 8 bytes at error_test.cpp:"));
  }
  try {
    throw_failure(Failure{"no file"});
  } catch (const OutOfMemoryError&) {
    ADD_FAILURE() << "a failure of another kind";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "no file");
  }
}

TEST(Check, IsAnInternalError) {
  const int n = 2;
  EXPECT_NO_THROW(LUMINAL_CHECK(n == 2));
  try {
    LUMINAL_CHECK(n == 3, "n is {}", n);
    ADD_FAILURE();
  } catch (const InternalError& error) {
    EXPECT_THAT(error.what(),
                testing::AllOf(HasSubstr("n == 3"), HasSubstr("n is 2"), HasSubstr("error_test.cpp")));
  }
}

TEST(Result, HoldsAValueOrAReason) {
  const auto half = [](int n) -> Result<int> {
    if (n % 2 != 0) return Failure{"odd"};
    return n / 2;
  };
  EXPECT_EQ(*half(4), 2);
  EXPECT_EQ(half(4).value(), 2);
  EXPECT_FALSE(half(3));
  EXPECT_EQ(half(3).error(), "odd");
  EXPECT_THROW((void)half(3).value(), Error);
  Result<void> good, bad = Failure{"no"};
  EXPECT_TRUE(good);
  EXPECT_NO_THROW(good.value());
  EXPECT_THROW(bad.value(), Error);
}

TEST(SmallVector, BehavesAsAVector) {
  std::mt19937_64 random(6);
  SmallVector<int, 4> small;
  std::vector<int> reference;
  for (int step = 0; step < 5000; ++step) {
    const size_t n = reference.size();
    switch (random() % 6) {
    case 0:
    case 1: small.push_back(step), reference.push_back(step); break;
    case 2:
      if (n > 0) small.push_back(small[n / 2]), reference.push_back(int(reference[n / 2])); // its own element
      break;
    case 3: {
      const size_t at = random() % (n + 1);
      small.insert(at, step), reference.insert(reference.begin() + static_cast<std::ptrdiff_t>(at), step);
      break;
    }
    case 4:
      if (n > 0) small.erase(n / 3), reference.erase(reference.begin() + static_cast<std::ptrdiff_t>(n / 3));
      break;
    default: {
      SmallVector<int, 4> copy = small, other;
      other = copy;
      small.push_back(1), small.pop_back();
      if (n > 40) other.clear(), copy.clear(), small.clear(), reference.clear();
    }
    }
    ASSERT_TRUE(std::equal(small.begin(), small.end(), reference.begin(), reference.end()));
  }
}
