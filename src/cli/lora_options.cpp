// cli/lora_options.cpp -- adapters of low rank by an option.
#include "cli/lora_options.h"
#include "base/text.h"
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fmt/format.h>

namespace luminal::cli {

void add_lora_option(CLI::App& verb, std::vector<std::string>& adapters) {
  verb.add_option("--lora", adapters,
                  "An adapter of low rank, a folder of PEFT or a GGUF file, as FILE or FILE:SCALE; may be "
                  "given several times")
      ->allow_extra_args(false);
}

std::vector<models::LoraChoice> lora_choices(const std::vector<std::string>& texts) {
  std::vector<models::LoraChoice> choices;
  for (const std::string& text : texts) {
    std::error_code error;
    const size_t colon = text.rfind(':');
    if (colon == std::string::npos || std::filesystem::exists(text, error)) {
      choices.push_back({text});
      continue;
    }
    const std::string number = text.substr(colon + 1);
    char* end = nullptr;
    const double scale = std::strtod(number.c_str(), &end);
    if (number.empty() || *end != 0 || !std::isfinite(scale))
      throw UsageError(fmt::format("--lora {}: a number is expected behind the colon, such as 0.5, not {}",
                                   printable(text), number.empty() ? "nothing" : printable(number)));
    choices.push_back({text.substr(0, colon), scale});
  }
  return choices;
}

void apply_adapters(ModelFile& file, const std::vector<std::string>& texts) {
  const auto choices = lora_choices(texts);
  if (!choices.empty()) models::apply_lora(file, choices, models::ChangedBlocks::beside);
}

} // namespace luminal::cli
