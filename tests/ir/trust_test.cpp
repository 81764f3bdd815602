// ir/trust_test.cpp -- modules that bring code or touch files are known before they run.
#include "ir/trust.h"
#include "luminal/error.h"
#include <fmt/format.h>
#include <gmock/gmock.h>

namespace luminal {
namespace {

using testing::HasSubstr;

TEST(Trust, NodesThatDoMoreThanComputeAreNamed) {
  const std::pair<const char*, const char*> nodes[] = {
      {"custom evil grid [1] { llvm: \"define void @evil() { ret void }\" } (%x) -> (f32[8])",
       "@main %k: custom evil runs code of whoever wrote the module"},
      {"custom evil grid [1] { loops: \"kernel evil()\" } (%x) -> (f32[8])", "custom evil runs code"},
      {"host dump \"/etc/passwd\" (%x)", "@main %k: host dump writes the file /etc/passwd"},
      {"host compare \"/etc/passwd\" (%x)", "host compare reads the file /etc/passwd"},
      {"host mine \"\" (%x) -> (f32[8])", "host mine calls a function of the program"},
  };
  for (const auto& [node, what] : nodes) {
    const std::string text =
        fmt::format("fn @main(%x: f32[8]) {{ %k = {}  %y = get %k, 0  return y = %y }}", node);
    const auto found = foreign_code(parse_module(text));
    ASSERT_TRUE(found) << node;
    EXPECT_THAT(*found, HasSubstr(what));
    try {
      parse_module_from(text, "m.lum", false);
      FAIL() << node;
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr("m.lum: @main %k: "));
      EXPECT_THAT(error.what(), HasSubstr("which is done only with --allow-custom"));
    }
    EXPECT_NO_THROW(parse_module_from(text, "m.lum", true));
  }
  // In a function that nobody calls, too: what is called is for nobody to find out first.
  EXPECT_TRUE(foreign_code(
      parse_module("fn @f(%x: f32[8]) { %k = host dump \"a\" (%x)  %y = get %k, 0  return y = %y }\n"
                   "fn @main(%x: f32[8]) { %y = neg %x  return y = %y }")));
}

TEST(Trust, WhatPrintsAndComputesIsAllowed) {
  const char* text =
      "fn @main(%x: f32[8]) { %k = host print \"x\" (%x)  %p = get %k, 0  %d = host diff \"d\" (%x, %p)  "
      "%y = get %d, 0  return y = %y }";
  EXPECT_FALSE(foreign_code(parse_module(text)));
  EXPECT_NO_THROW(parse_module_from(text, "m.lum", false));
}

} // namespace
} // namespace luminal
