// cli/lora_options.h -- --lora FILE[:SCALE], for the verbs that run or write a decoder.
#pragma once
#include "cli/common.h"
#include "models/lora.h"

namespace luminal::cli {

void add_lora_option(CLI::App& verb, std::vector<std::string>& adapters);
/// FILE, or FILE:SCALE; a file whose name has a colon in it is taken whole where it is there. Throws
/// UsageError.
std::vector<models::LoraChoice> lora_choices(const std::vector<std::string>& texts);
/// Adapters on a model that is to be run: see models/lora.h. Throws Error.
void apply_adapters(ModelFile& file, const std::vector<std::string>& texts);

} // namespace luminal::cli
