// cli/model_verbs.h -- the verbs that make files and vectors of models.
#pragma once
#include "cli/common.h"

namespace luminal::cli {

void add_convert(CLI::App& app, int& exit_code); ///< quantize, convert
void add_embed(CLI::App& app, int& exit_code);

} // namespace luminal::cli
