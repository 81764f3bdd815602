// models/convert_types.cpp -- which type each matrix of a model becomes: the mixtures of llama.cpp
// (llama-quant.cpp of https://github.com/ggml-org/llama.cpp), which spend more bits where the error of
// the whole model is felt most.
#include "formats/quants.h"
#include "luminal/error.h"
#include "models/convert_plan.h"
#include <algorithm>
#include <fmt/format.h>

namespace luminal::models {
namespace {

using T = StorageType;

struct Named {
  const char* name;
  T type;
  char size;
};
constexpr Named mixtures[] = {{"Q2_K", T::q2_k, 'M'},   {"Q3_K_S", T::q3_k, 'S'}, {"Q3_K_M", T::q3_k, 'M'},
                              {"Q3_K_L", T::q3_k, 'L'}, {"Q4_K_S", T::q4_k, 'S'}, {"Q4_K_M", T::q4_k, 'M'},
                              {"Q5_K_S", T::q5_k, 'S'}, {"Q5_K_M", T::q5_k, 'M'}, {"Q3_K", T::q3_k, 'M'},
                              {"Q4_K", T::q4_k, 'M'},   {"Q5_K", T::q5_k, 'M'}};
constexpr T plain[] = {T::f32,  T::f16,  T::bf16,   T::q8_0,   T::q4_0,  T::q4_1,  T::q5_0,
                       T::q5_1, T::q6_k, T::iq4_nl, T::iq4_xs, T::mxfp4, T::tq1_0, T::tq2_0};

std::string upper(std::string_view name) {
  std::string out(name);
  for (char& c : out)
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
  return out;
}

/// The first and the last eighth of the layers, and every third between.
bool more_bits(int64_t layer, int64_t layers) {
  return layer < layers / 8 || layer >= 7 * layers / 8 || (layer - layers / 8) % 3 == 2;
}

/// A matrix whose rows are not a whole number of blocks takes the nearest type with blocks of 32.
T with_smaller_blocks(T type) {
  switch (type) {
  case T::q2_k:
  case T::q3_k:
  case T::iq4_xs: return T::iq4_nl;
  case T::q4_k: return T::q5_0;
  case T::q5_k: return T::q5_1;
  case T::q6_k: return T::q8_0;
  case T::tq1_0:
  case T::tq2_0: return T::q4_0;
  default: return T::f16;
  }
}

T of_part(const WeightMixture& m, std::string_view part, int64_t layer, const ModelConfig& config) {
  const int64_t layers = config.num_layers;
  const int64_t shared = config.num_heads / std::max<int64_t>(config.num_kv_heads, 1);
  const bool more = more_bits(layer, layers), many_experts = config.num_experts == 8;
  if (part == "attn_v") {
    if (many_experts) return T::q8_0;
    if (m.type == T::q2_k) return shared >= 4 ? T::q4_k : T::q3_k;
    if (m.type == T::q3_k) return m.size == 'S' ? m.type : m.size == 'L' || layer < 2 ? T::q5_k : T::q4_k;
    if (m.size == 'M' && more) return T::q6_k;
    if (m.type == T::q4_k && m.size == 'S' && layer < 4) return T::q5_k;
  } else if (part == "attn_k") {
    if (many_experts) return T::q8_0;
  } else if (part == "ffn_down" || part == "ffn_down_exps") {
    if (m.type == T::q2_k) return T::q3_k;
    if (m.type == T::q3_k)
      return m.size == 'S' ? m.type : m.size == 'L' || layer < layers / 16 ? T::q5_k : T::q4_k;
    if (m.size == 'M' && more) return T::q6_k;
    if (m.size == 'S' && layer < layers / 8) return m.type == T::q4_k ? T::q5_k : T::q6_k;
  } else if (part == "attn_output" && config.num_experts != 8) {
    if (m.type == T::q2_k) return T::q3_k;
    if (m.type == T::q3_k) return m.size == 'S' ? m.type : m.size == 'L' ? T::q5_k : T::q4_k;
  } else if (part == "attn_qkv") {
    if (m.type == T::q3_k && m.size != 'S') return T::q4_k;
    if (m.size == 'M' && m.type == T::q4_k) return T::q5_k;
    if (m.size == 'M' && m.type == T::q5_k) return T::q6_k;
  }
  return m.type;
}

} // namespace

std::string weight_mixture_names() {
  std::string out;
  for (const T type : plain) out += fmt::format("{}{}", out.empty() ? "" : " ", storage_name(type));
  for (const Named& row : mixtures)
    if (std::string_view(row.name).size() != 4 || row.type == T::q2_k) out += fmt::format(" {}", row.name);
  return out;
}

WeightMixture weight_mixture(std::string_view name) {
  const std::string wanted = upper(name);
  for (const Named& row : mixtures)
    if (wanted == row.name) return {wanted, row.type, row.size};
  for (const T type : plain)
    if (wanted == storage_name(type)) return {wanted, type};
  throw Error(fmt::format("weights are not written as {}; known are {}", name, weight_mixture_names()));
}

T type_of_tensor(const WeightMixture& m, std::string_view name, std::span<const int64_t> shape,
                 const ModelConfig& config, bool& fell_back) {
  fell_back = false;
  const bool matrix = shape.size() >= 2 && name.ends_with(".weight");
  // What one token reads little of, or what chooses: never in few bits.
  if (!matrix || name.find("_norm.") != std::string_view::npos || name == "position_embd.weight" ||
      name == "token_types.weight" || name.ends_with("ffn_gate_inp.weight"))
    return T::f32;
  const bool head = name == "output.weight" || (name == "token_embd.weight" && config.tied_embeddings);
  T type = m.type;
  if (!m.pure && storage_info(m.type).quantized()) {
    std::string_view part = name.substr(0, name.size() - 7);
    int64_t layer = 0;
    if (part.starts_with("blk.")) {
      const size_t dot = part.find('.', 4);
      layer = std::strtoll(std::string(part.substr(4, dot - 4)).c_str(), nullptr, 10);
      part.remove_prefix(dot + 1);
    }
    type = head && m.type != T::q8_0 ? T::q6_k : of_part(m, part, layer, config);
    if (m.type == T::mxfp4 && head) type = T::q8_0;
  }
  if (head && m.head) type = *m.head;
  while (shape.back() % storage_info(type).block_elements != 0) {
    type = with_smaller_blocks(type);
    fell_back = true;
  }
  return type;
}

} // namespace luminal::models
