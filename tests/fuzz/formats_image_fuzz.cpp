// fuzz/formats_image_fuzz.cpp -- pictures: PNG, JPEG, BMP, PNM, GIF; small ones at other sizes.
#include "formats/image.h"
#include <cstdlib>

using namespace luminal;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  for (const int channels : {0, 3}) {
    const auto image = parse_image(std::as_bytes(std::span(data, size)), "f", channels);
    if (!image) continue;
    const auto pixels = size_t(image->height) * size_t(image->width) * size_t(image->channels);
    if (image->height < 1 || image->width < 1 || image->pixels.size() != pixels) std::abort();
    if (channels != 0 && image->channels != channels) std::abort();
    if (pixels > 10000) continue;
    for (const int64_t side : {1, 7})
      if (resized(*image, side, 5).pixels.size() != resized_lanczos(*image, side, 5).pixels.size())
        std::abort();
  }
  return 0;
}
