// formats/image_filters.cpp -- pictures at another size by the filters of Pillow, which gives them to models
// that are trained: linear, cubic (Keys 1981, a = -0.5), Lanczos (Duchon 1979).
#include "formats/image.h"
#include <algorithm>
#include <cmath>
#include <numbers>

namespace luminal {
namespace {

/// How far a filter reaches on each side, in pixels of the larger picture.
double reach_of(ImageFilter filter) {
  return filter == ImageFilter::bilinear ? 1 : filter == ImageFilter::bicubic ? 2 : 3;
}

double value_at(ImageFilter filter, double x) {
  x = std::abs(x);
  const double reach = reach_of(filter);
  if (x >= reach) return 0;
  if (filter == ImageFilter::bilinear) return 1 - x;
  if (filter == ImageFilter::bicubic)
    return x < 1 ? (1.5 * x - 2.5) * x * x + 1 : ((-0.5 * x + 2.5) * x - 4) * x + 2;
  if (x == 0) return 1;
  const double a = std::numbers::pi * x;
  return reach * std::sin(a) * std::sin(a / reach) / (a * a);
}

/// What a new pixel is made of: old ones from `first` on, whose weights sum to 1.
struct Taps {
  int64_t first = 0;
  std::vector<double> weight;
};
/// A smaller picture has a filter as much wider as its pixels are.
std::vector<Taps> taps(ImageFilter filter, int64_t from, int64_t to) {
  const double reach = reach_of(filter);
  const double scale = double(from) / double(to), width = std::max(scale, 1.0);
  std::vector<Taps> result(static_cast<size_t>(to));
  for (int64_t i = 0; i < to; i++) {
    const double centre = (double(i) + 0.5) * scale;
    const auto first = std::max<int64_t>(0, int64_t(std::floor(centre - reach * width + 0.5))),
               last = std::min<int64_t>(from, int64_t(std::floor(centre + reach * width + 0.5)));
    Taps& here = result[size_t(i)];
    here.first = first;
    double sum = 0;
    for (int64_t j = first; j < last; j++)
      sum += here.weight.emplace_back(value_at(filter, (double(j) + 0.5 - centre) / width));
    for (double& w : here.weight) w /= sum;
  }
  return result;
}

uint8_t pixel(double value) { return uint8_t(std::floor(std::clamp(value, 0.0, 255.0) + 0.5)); }

} // namespace

Image resized_by(ImageFilter filter, const Image& image, int64_t height, int64_t width) {
  const int64_t channels = image.channels;
  Image narrow = image; // old rows, new columns
  if (width != image.width) {
    const auto columns = taps(filter, image.width, width);
    narrow = {image.height, width, channels, std::vector<uint8_t>(size_t(image.height * width * channels))};
    for (int64_t y = 0; y < image.height; y++)
      for (int64_t x = 0; x < width; x++)
        for (int64_t c = 0; c < channels; c++) {
          const Taps& from = columns[size_t(x)];
          double sum = 0;
          for (size_t k = 0; k < from.weight.size(); k++)
            sum += from.weight[k] *
                   image.pixels[size_t((y * image.width + from.first + int64_t(k)) * channels + c)];
          narrow.pixels[size_t((y * width + x) * channels + c)] = pixel(sum);
        }
  }
  if (height == image.height) return narrow;
  const auto rows = taps(filter, image.height, height);
  const int64_t row = width * channels;
  Image out{height, width, channels, std::vector<uint8_t>(size_t(height * row))};
  for (int64_t y = 0; y < height; y++)
    for (int64_t i = 0; i < row; i++) {
      const Taps& from = rows[size_t(y)];
      double sum = 0;
      for (size_t k = 0; k < from.weight.size(); k++)
        sum += from.weight[k] * narrow.pixels[size_t((from.first + int64_t(k)) * row + i)];
      out.pixels[size_t(y * row + i)] = pixel(sum);
    }
  return out;
}

} // namespace luminal
