// formats/image.cpp -- reading pictures by stb_image; their size.
#include "formats/image.h"
#include "base/file.h"
#include "formats/parse.h"
#include <algorithm>
#include <climits>
#include <cmath>
#include <memory>

#define STB_IMAGE_IMPLEMENTATION
#define STB_IMAGE_STATIC
#define STBI_NO_STDIO
#define STBI_NO_HDR
#define STBI_NO_LINEAR
#define STBI_NO_PSD
#define STBI_NO_TGA
#define STBI_NO_PIC
#define STBI_MAX_DIMENSIONS 16384
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-function"
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"
#include <stb/stb_image.h>
#pragma GCC diagnostic pop

namespace luminal {
namespace {

/// How much each old pixel counts for new pixel `i` of an axis.
struct Share {
  int64_t first;
  std::vector<double> weight; // their sum is 1
};
Share share_of(int64_t i, int64_t from, int64_t to) {
  const double scale = double(from) / double(to);
  const double half = std::max(1.0, scale) / 2, centre = (double(i) + 0.5) * scale;
  Share share{std::max<int64_t>(0, int64_t(std::floor(centre - 2 * half))), {}};
  double total = 0;
  for (int64_t k = share.first; k < from && double(k) < centre + 2 * half; ++k) {
    double weight = 0;
    if (scale >= 1) // the part of the area that lies in pixel k
      weight = std::min(centre + half, double(k + 1)) - std::max(centre - half, double(k));
    else
      weight = 1 - std::fabs(double(k) + 0.5 - std::clamp(centre, 0.5, double(from) - 0.5));
    share.weight.push_back(std::max(0.0, weight));
    total += share.weight.back();
  }
  for (double& weight : share.weight) weight /= total;
  return share;
}

} // namespace

Result<Image> parse_image(std::span<const std::byte> bytes, std::string_view file_name, int channels) {
  return detail::guarded(file_name, [&] {
    if (bytes.size() > size_t(INT_MAX)) detail::refuse(file_name, "pictures of more than 2 GiB are not read");
    int width = 0, height = 0, own = 0;
    const std::unique_ptr<stbi_uc, void (*)(void*)> pixels(
        stbi_load_from_memory(reinterpret_cast<const stbi_uc*>(bytes.data()), int(bytes.size()), &width,
                              &height, &own, channels),
        stbi_image_free);
    if (!pixels)
      detail::refuse(file_name, fmt::format("not a picture that can be read (PNG, JPEG, BMP, PNM, GIF): {}",
                                            stbi_failure_reason()));
    if (width < 1 || height < 1) // stb_image takes the beginning of a PNM file as a picture
      detail::refuse(file_name, fmt::format("a picture of {} x {} pixels", width, height));
    Image image{height, width, channels == 0 ? own : channels, {}};
    image.pixels.assign(pixels.get(), pixels.get() + image.height * image.width * image.channels);
    return image;
  });
}

Result<Image> open_image(const std::string& path, int channels) {
  auto file = MappedFile::open(path);
  if (!file) return file.failure();
  return parse_image(file->bytes(), path, channels);
}

Image resized(const Image& image, int64_t height, int64_t width) {
  if (image.height == height && image.width == width) return image;
  std::vector<Share> columns, rows;
  for (int64_t x = 0; x < width; ++x) columns.push_back(share_of(x, image.width, width));
  for (int64_t y = 0; y < height; ++y) rows.push_back(share_of(y, image.height, height));
  const int64_t channels = image.channels;
  std::vector<double> narrow(size_t(image.height * width * channels)); // old rows, new columns
  for (int64_t y = 0; y < image.height; ++y)
    for (int64_t x = 0; x < width; ++x)
      for (size_t k = 0; k < columns[size_t(x)].weight.size(); ++k)
        for (int64_t c = 0; c < channels; ++c)
          narrow[size_t((y * width + x) * channels + c)] +=
              columns[size_t(x)].weight[k] *
              image.pixels[size_t((y * image.width + columns[size_t(x)].first + int64_t(k)) * channels + c)];
  Image out{height, width, channels, std::vector<uint8_t>(size_t(height * width * channels))};
  for (int64_t y = 0; y < height; ++y)
    for (int64_t i = 0; i < width * channels; ++i) {
      double sum = 0;
      for (size_t k = 0; k < rows[size_t(y)].weight.size(); ++k)
        sum += rows[size_t(y)].weight[k] *
               narrow[size_t((rows[size_t(y)].first + int64_t(k)) * width * channels + i)];
      out.pixels[size_t(y * width * channels + i)] = uint8_t(std::lround(std::clamp(sum, 0.0, 255.0)));
    }
  return out;
}

} // namespace luminal
