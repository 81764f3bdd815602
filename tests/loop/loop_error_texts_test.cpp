// loop/loop_error_texts_test.cpp -- messages of the parser of loops word for word; where they point
// is in loop_text_test.cpp.
#include "loop/loop.h"
#include "luminal/error.h"
#include <gtest/gtest.h>

namespace luminal::kernel {
namespace {

/// The message behind its place.
std::string error_of(const std::string& text) {
  try {
    parse_kernel(text, "k");
  } catch (const Error& error) {
    const std::string what = error.what();
    const size_t place = what.find(": ");
    return what.substr(place + 2, what.find('\n') - place - 2);
  }
  return "accepted";
}

TEST(LoopErrorTexts, Parser) {
  const std::string head = "kernel k(x: f32[n] in, y: f32[n] out; n: 1..9)\n";
  const std::pair<std::string, std::string> rows[] = {
      {head + "  for i in 5..3\n    y[0] = 1\n",
       "the loop is empty; write its range, as in `i: 0..0 in 5 .. 3`"},
      {head + "  y[0] = mean\n", "expected a value, found 'mean'"},
      {head + "  y[0] = mean<f32>(x[0])\n",
       "expected load, index, cast, bitcast, reduce_lanes or scan_lanes before '<', found 'mean'"},
      {head + "  y[0] = 1\nkernel j()\n", "expected the end of the text: it holds one kernel"},
      {head + "  roles k in 0..n stages 2\n", "expected 'producers:', indented"},
      {head + "  while n < 3\n    y[0] = 1\n", "expected a statement: for, parallel, unrolled, vector, let, "
                                               "if, barrier, prefetch, unit, async, wait, exchange, "
                                               "roles, or an element of a buffer"},
  };
  for (const auto& [text, expected] : rows) EXPECT_EQ(error_of(text), expected) << text;
  try {
    parse_kernel("# a comment\n", "k.loop");
    ADD_FAILURE() << "accepted";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "k.loop:1:1: expected a kernel, found nothing");
  }
}

} // namespace
} // namespace luminal::kernel
