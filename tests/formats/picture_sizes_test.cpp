// tests/formats/picture_sizes_test.cpp -- pictures without a pixel are refused; the others keep theirs.
#include "formats/image.h"
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <span>
#include <string>
#include <string_view>
#include <sys/mman.h>

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

TEST(Pictures, OfMoreThan2GiBAreRefusedUnread) {
  const size_t size = size_t(1) << 31;
  void* memory = mmap(nullptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  const auto image = parse_image({static_cast<const std::byte*>(memory), size}, "large.png");
  munmap(memory, size);
  ASSERT_FALSE(image);
  EXPECT_EQ(image.error(), "large.png: pictures of more than 2 GiB are not read");
}

TEST(Pictures, WithoutAPixelAreNotWritten) {
  const auto saved = save_image(Image(), "empty.jpg");
  ASSERT_FALSE(saved);
  EXPECT_EQ(saved.error(), "empty.jpg: the picture could not be encoded");
}

} // namespace
} // namespace luminal
