// formats/image.h -- pictures as pixels: PNG, JPEG, BMP, PNM and GIF (its first frame).
#pragma once
#include "base/result.h"
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace luminal {

/// Rows from the top, the channels of a pixel side by side: [height, width, channels].
struct Image {
  int64_t height = 0, width = 0, channels = 0;
  std::vector<uint8_t> pixels;
};

/// `channels`: 1 (grey), 3 (red, green, blue) or 4 (and opacity); 0: as the file has them. At most
/// 16384 pixels a side.
Result<Image> parse_image(std::span<const std::byte> bytes, std::string_view file_name, int channels = 0);
Result<Image> open_image(const std::string& path, int channels = 0);

/// The picture at another size. Smaller: each pixel is the mean of the area that it covers; larger:
/// linear between the centres of pixels.
Image resized(const Image& image, int64_t height, int64_t width);

} // namespace luminal
