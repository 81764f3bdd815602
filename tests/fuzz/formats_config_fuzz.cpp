// fuzz/formats_config_fuzz.cpp -- config.json and generation_config.json (after a line with "---");
// adapter_config.json; a Moondream's.
#include "formats/lora_file.h"
#include "formats/model_config.h"
#include "formats/moondream_config.h"
#include <array>
#include <cstdlib>
#include <string_view>

using namespace luminal;

namespace {
/// The text as the configuration of an adapter of rank 2.
void read_adapter(std::string_view text) {
  static const std::array<float, 4> values{1, 2, 3, 4};
  const std::string module = "base_model.model.model.layers.0.self_attn.q_proj";
  Safetensors tensors;
  for (const char* half : {".lora_A.weight", ".lora_B.weight"}) {
    TensorView view;
    view.name = module + half;
    view.shape = {2, 2};
    view.bytes = std::as_bytes(std::span(values));
    tensors.tensors.push_back(view);
  }
  try {
    const auto adapter = lora_from_peft(text, "f", tensors, "f");
    if (adapter && adapter->pairs.at(0).rank != 2) std::abort();
  } catch (const Error&) { // a pattern that takes too many steps
  }
}
} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  read_adapter(text);
  for (const bool starmie : {false, true})
    if (const auto vision = parse_moondream_config(text, "f", starmie))
      if (vision->side() < 1 || vision->width % vision->heads != 0) std::abort();
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
