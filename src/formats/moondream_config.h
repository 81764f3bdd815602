// formats/moondream_config.h -- what config.json says of a Moondream 2 (github.com/vikhyat/moondream): a text
// model of Phi's kind, the vision transformer in front of it, and the tokens around a question.
#pragma once
#include "formats/model_config.h"

namespace luminal {

struct MoondreamConfig {
  int64_t width = 1152, layers = 27, heads = 16, inner = 4304; ///< of the vision transformer
  int64_t patch = 14, crop = 378;                              ///< pixels of a side
  int64_t most_tiles = 12; ///< of a large picture, beside the whole one made small
  int64_t overlap = 4;     ///< patches that a tile has beyond its own area, on each side
  double eps = 1e-5;
  int32_t begin = 50256;
  /// Token ids: what stands around a question, and what asks for a description.
  std::vector<int32_t> question{198, 198, 24361, 25}, answer{198, 198, 33706, 25},
      caption{198, 198, 24334, 1159, 25};
  int64_t side() const { return crop / patch; } ///< patches
};

/// Of the text model; `architecture` is the model_type that the file states.
Result<ModelConfig> parse_moondream_text(std::string_view config_json, std::string_view file_name);
/// `starmie`: the file's tokenizer is that of 2025 and later, which has other ids where the file names none.
Result<MoondreamConfig> parse_moondream_config(std::string_view config_json, std::string_view file_name,
                                               bool starmie);

} // namespace luminal
