// cli/run_image.h -- --image FILE of `luminal run`: a picture in front of the prompt.
#pragma once
#include "models/moondream.h"
#include <string>

namespace luminal::cli {

struct ImageArguments {
  std::string picture;   ///< PNG, JPEG, BMP, PNM, GIF
  std::string projector; ///< GGUF of the vision part; empty: the model has it
  std::string question;  ///< empty: a description is asked for
  std::string max_memory;
  int threads = 0;
  bool cache = true;
};
/// What the text model needs of a picture; the vision part is gone again.
struct SeenImage {
  ModelFile text;
  std::vector<float> rows;     ///< LlamaOptions::image_rows of them
  std::vector<int32_t> prompt; ///< rows of the picture included
  double seconds = 0;          ///< that the vision part took, without compiling
};
/// Throws Error where the picture cannot be read, or the model takes none. `options`: of the text model; gets
/// what a picture needs.
SeenImage see_image(const ModelFile& file, const ImageArguments& arguments, models::LlamaOptions& options);
/// The text model of a Moondream alone, other files as they are.
ModelFile text_part(ModelFile file);

} // namespace luminal::cli
