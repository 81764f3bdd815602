// formats/image_draw.cpp -- frames and labels on pictures, and pictures as files, by stb.
#include "base/file.h"
#include "formats/image.h"
#include <algorithm>
#include <cstring>
#include <fmt/format.h>

#define STB_IMAGE_WRITE_IMPLEMENTATION
#define STB_IMAGE_WRITE_STATIC
#define STBI_WRITE_NO_STDIO
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-function"
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wsign-conversion"
#include <stb/stb_easy_font.h>
#include <stb/stb_image_write.h>
#pragma GCC diagnostic pop

namespace luminal {
namespace {

/// left, top, right, bottom.
void fill(Image& image, std::array<int64_t, 4> box, Colour colour) {
  for (int64_t y = std::max<int64_t>(0, box[1]); y < std::min(image.height, box[3]); y++)
    for (int64_t x = std::max<int64_t>(0, box[0]); x < std::min(image.width, box[2]); x++)
      std::copy_n(colour.begin(), 3, image.pixels.begin() + (y * image.width + x) * image.channels);
}

} // namespace

void draw_frame(Image& image, std::array<int64_t, 4> box, int64_t thickness, Colour colour) {
  const auto [left, top, right, bottom] = box;
  const int64_t t = std::min({thickness, right - left, bottom - top});
  fill(image, {left, top, right, top + t}, colour);
  fill(image, {left, bottom - t, right, bottom}, colour);
  fill(image, {left, top, left + t, bottom}, colour);
  fill(image, {right - t, top, right, bottom}, colour);
}

void draw_label(Image& image, int64_t left, int64_t top, std::string_view text, int64_t scale,
                Colour colour) {
  std::string line(text.substr(0, 200));
  for (char& c : line)
    if (c < ' ' || c > '~') c = '?';
  struct Vertex {
    float x, y, z;
    uint8_t colour[4];
  };
  std::vector<Vertex> corners(line.size() * 400 / sizeof(Vertex) + 64); // the header: 270 bytes a letter
  const int quads =
      stb_easy_font_print(0, 0, line.data(), nullptr, corners.data(), int(corners.size() * sizeof(Vertex)));
  const int64_t width = (stb_easy_font_width(line.data()) + 3) * scale, height = 12 * scale;
  left = std::max<int64_t>(0, std::min(left, image.width - width));
  top = std::max<int64_t>(0, std::min(top, image.height - height));
  fill(image, {left, top, left + width, top + height}, colour);
  // Dark letters on a light ground and the other way round (Rec. 601).
  const int light = colour[0] * 299 + colour[1] * 587 + colour[2] * 114;
  const Colour ink = light > 128 * 1000 ? Colour{0, 0, 0} : Colour{255, 255, 255};
  const auto at = [&](float value, int64_t origin) { return origin + (int64_t(value) + 2) * scale; };
  for (size_t q = 0; q < size_t(quads); q++) {
    const Vertex &first = corners[4 * q], &last = corners[4 * q + 2];
    fill(image, {at(first.x, left), at(first.y, top), at(last.x, left), at(last.y, top)}, ink);
  }
}

Result<void> save_image(const Image& image, const std::string& path) {
  std::string bytes;
  const auto append = [](void* to, void* data, int size) {
    static_cast<std::string*>(to)->append(static_cast<const char*>(data), size_t(size));
  };
  const int width = int(image.width), height = int(image.height), channels = int(image.channels);
  int written = 0;
  if (path.ends_with(".png"))
    written = stbi_write_png_to_func(append, &bytes, width, height, channels, image.pixels.data(),
                                     width * channels);
  else if (path.ends_with(".jpg") || path.ends_with(".jpeg"))
    written = stbi_write_jpg_to_func(append, &bytes, width, height, channels, image.pixels.data(), 92);
  else if (path.ends_with(".bmp"))
    written = stbi_write_bmp_to_func(append, &bytes, width, height, channels, image.pixels.data());
  else
    return Failure{fmt::format("{}: a picture is written as .png, .jpg or .bmp", path)};
  if (written == 0) return Failure{fmt::format("{}: the picture could not be encoded", path)};
  return write_file(path, bytes);
}

} // namespace luminal
