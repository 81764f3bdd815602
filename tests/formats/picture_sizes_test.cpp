// tests/formats/picture_sizes_test.cpp -- pictures without a pixel are refused; the others keep theirs.
#include "formats/image.h"
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <span>
#include <string>
#include <string_view>

namespace luminal {
namespace {

std::string read(std::string_view bytes) {
  const auto image = parse_image(std::as_bytes(std::span(bytes)), "f");
  if (!image) return image.error();
  return fmt::format("{} x {} x {}", image->height, image->width, image->channels);
}

TEST(Pictures, WithoutAPixelAreRefused) {
  EXPECT_EQ(read("P6"), "f: a picture of 0 x 0 pixels");
  EXPECT_EQ(read("P5 3 0 255\n"), "f: a picture of 3 x 0 pixels");
  EXPECT_EQ(read("P5 2 1 255\nab"), "1 x 2 x 1");
}

} // namespace
} // namespace luminal
