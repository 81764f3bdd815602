// formats/image.h -- pictures as pixels: PNG, JPEG, BMP, PNM and GIF (its first frame); drawing on them,
// writing them.
#pragma once
#include "base/result.h"
#include <array>
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
/// The same by a filter of Pillow, across and then down, each rounded to whole numbers: its pixels (before
/// its version 12), up to 1.
enum class ImageFilter : uint8_t { bilinear, bicubic, lanczos };
Image resized_by(ImageFilter filter, const Image& image, int64_t height, int64_t width);
inline Image resized_lanczos(const Image& image, int64_t height, int64_t width) {
  return resized_by(ImageFilter::lanczos, image, height, width);
}

using Colour = std::array<uint8_t, 3>; ///< red, green, blue
/// A frame of this thickness inside of left, top, right, bottom (pixels; the last two are not in it), of
/// which only what lies in the picture is drawn. The picture has 3 channels.
void draw_frame(Image& image, std::array<int64_t, 4> box, int64_t thickness, Colour colour);
/// Text in printable ASCII (others are '?') in a filled box with its left upper corner there, moved so that
/// it lies in the picture; `scale`: pixels of a dot, letters are 7 dots high.
void draw_label(Image& image, int64_t left, int64_t top, std::string_view text, int64_t scale, Colour colour);

/// PNG, JPEG or BMP, by the ending of the path. The file appears complete or not at all.
Result<void> save_image(const Image& image, const std::string& path);

} // namespace luminal
