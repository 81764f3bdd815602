// formats/model_config_check.h -- what a configuration must fulfil, whatever file it comes from.
#pragma once
#include "formats/model_config.h"
#include <string_view>

namespace luminal::detail {

/// What a family of models has that its files do not state. Architecture and sizes are known.
void settle_architecture(ModelConfig& config, bool hugging_face);

/// The factor of scores with latent attention: 1 / sqrt(head_dim), and what YaRN adds (DeepSeek's form).
double latent_attention_scale(const ModelConfig& config);

/// Refuses (ParseFailure) sizes that are not positive, absurd or inconsistent. `file` is for the
/// message.
void check_model_config(const ModelConfig& config, std::string_view file);

} // namespace luminal::detail
