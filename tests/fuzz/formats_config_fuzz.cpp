// fuzz/formats_config_fuzz.cpp -- config.json and generation_config.json (after a line with "---").
#include "formats/model_config.h"
#include <cstdlib>
#include <string_view>

using namespace luminal;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const size_t cut = text.find("\n---\n");
  const auto config = parse_hf_config(
      text.substr(0, cut), "f", cut == std::string_view::npos ? std::string_view() : text.substr(cut + 5));
  if (!config) return 0;
  for (const int64_t length : {int64_t{0}, config->context_length * 2}) {
    const auto table = rope_table(*config, length);
    if (static_cast<int64_t>(table.inverse_frequencies.size()) != config->rope_dim / 2) std::abort();
  }
  return 0;
}
