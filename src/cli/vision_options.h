// cli/vision_options.h -- options of the verbs that show pictures to models.
#pragma once
#include "cli/common.h"
#include "models/vision.h"
#include <optional>

namespace luminal::cli {

struct VisionArguments {
  std::string model, labels, preset, fit, size;
  std::vector<std::string> images;
  std::vector<double> mean, deviation;
  std::optional<double> scale;
  int threads = 0;
  bool blue_first = false, json = false;
};
void add_vision_options(CLI::App& verb, VisionArguments& arguments);
/// "640", "480x640" (height x width), or nothing. Throws UsageError.
std::optional<std::array<int64_t, 2>> size_of(const VisionArguments& arguments);
/// The preset that is asked for, or else what is given here, with what the options change.
models::PixelOptions pixels_of(const VisionArguments& arguments, const models::PixelOptions& otherwise);
/// A class by its name in the list, or its number.
std::string class_text(const std::vector<std::string>& names, int64_t index);

} // namespace luminal::cli
