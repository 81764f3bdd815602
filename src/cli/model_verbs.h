// cli/model_verbs.h -- the verbs that make files of models, those that look at what a decoder gives, and
// those of models that are not decoders.
#pragma once
#include "cli/common.h"

namespace luminal::cli {

void add_convert(CLI::App& app, int& exit_code); ///< quantize, convert
void add_logits(CLI::App& app, int& exit_code);
void add_perplexity(CLI::App& app, int& exit_code);
void add_embed(CLI::App& app, int& exit_code);
void add_transcribe(CLI::App& app, int& exit_code);
void add_classify(CLI::App& app, int& exit_code);
void add_detect(CLI::App& app, int& exit_code);

} // namespace luminal::cli
