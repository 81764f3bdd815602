// models/picture_folder.h -- a Hugging Face folder of a model that says what is in a picture: config.json,
// preprocessor_config.json, model.safetensors.
#pragma once
#include "luminal/models_vision.h"
#include "models/vision.h"
#include <variant>

namespace luminal::models {

struct PictureFolder {
  std::variant<VitConfig, ResNetConfig, MobileNetConfig> config;
  std::array<int64_t, 2> size{}; ///< of the pictures that the model reads: height, width
  PixelOptions pixels;
  std::vector<std::string> labels; ///< by class
  std::string weights;             ///< the path of the file, or of the index of its parts
};
/// Throws Error for a folder of another model, naming its type, and for what is not supported in it.
PictureFolder read_picture_folder(const std::string& path);

} // namespace luminal::models
