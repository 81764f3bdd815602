// cli/vision_options.cpp -- options of the verbs that show pictures to models.
#include "cli/vision_options.h"
#include "base/text.h"
#include <charconv>
#include <fmt/format.h>

namespace luminal::cli {
namespace {

const std::vector<std::string> fits{"stretch", "crop", "letterbox", "corner"};

} // namespace

void add_vision_options(CLI::App& verb, VisionArguments& a) {
  verb.add_option("model", a.model,
                  "An ONNX file with a picture as its input; classify: or a Hugging Face folder of a ViT, "
                  "ResNet or MobileNetV2; detect: or the weights of a YOLOv8 (.safetensors)")
      ->required();
  verb.add_option("image", a.images, "Pictures: PNG, JPEG, BMP, PNM, GIF")->required();
  verb.add_option("--labels", a.labels, "File with the name of a class a line; coco: the 80 of COCO");
  verb.add_option("--preset", a.preset, "What the model's numbers are; what stands below changes it")
      ->check(one_of(models::pixel_presets()));
  verb.add_option(
          "--fit", a.fit,
          "stretch: to the model's size; crop: the middle; letterbox: whole, on a grey ground; corner: "
          "the same, left above")
      ->check(one_of(fits));
  verb.add_option("--scale", a.scale, "Of a pixel 0..255, before mean and deviation: 1, or 0.00392157")
      ->check(between(-1e6, 1e6));
  verb.add_option("--mean", a.mean, "Subtracted: one number, or one a channel: 0.485,0.456,0.406")
      ->delimiter(',');
  verb.add_option("--std", a.deviation, "Divides: one number, or one a channel")->delimiter(',');
  verb.add_flag("--bgr", a.blue_first, "Channels as blue, green, red");
  verb.add_option("--size", a.size, "Height and width where the model leaves them open: 640, or 480x640");
  verb.add_option("-t,--threads", a.threads, "Worker threads (0: LUMINAL_THREADS, or all cores)")
      ->check(whole(0, 1024));
  verb.add_flag("--json", a.json, "The results as JSON on standard output");
}

std::optional<std::array<int64_t, 2>> size_of(const VisionArguments& a) {
  if (a.size.empty()) return {};
  std::vector<int64_t> sides;
  for (const std::string_view part : split(a.size, 'x')) {
    int64_t side = 0;
    const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), side);
    if (error != std::errc() || end != part.data() + part.size() || side < 1 || side > 8192) break;
    sides.push_back(side);
  }
  if (sides.size() != split(a.size, 'x').size() || sides.size() > 2)
    throw UsageError(fmt::format("--size {}: 640, or 480x640 (height x width, at most 8192) is expected",
                                 printable(a.size)));
  return std::array{sides[0], sides.back()};
}

models::PixelOptions pixels_of(const VisionArguments& a, const models::PixelOptions& otherwise) {
  models::PixelOptions options = a.preset.empty() ? otherwise : models::pixel_preset(a.preset);
  for (size_t i = 0; i < fits.size(); i++)
    if (a.fit == fits[i]) options.fit = models::Fit(i);
  if (a.scale) options.scale = *a.scale;
  if (!a.mean.empty()) options.mean = a.mean;
  if (!a.deviation.empty()) options.deviation = a.deviation;
  for (const double x : options.deviation)
    if (!(x < 0 || x > 0)) throw UsageError("--std: numbers other than 0 are expected");
  options.blue_first |= a.blue_first;
  return options;
}

std::string class_text(const std::vector<std::string>& names, int64_t index) {
  return size_t(index) < names.size() ? names[size_t(index)] : fmt::format("class {}", index);
}

} // namespace luminal::cli
