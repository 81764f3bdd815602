// models/convert_plan.h -- what a conversion writes, before it is written. Internal to the conversion.
#pragma once
#include "formats/gguf.h"
#include "formats/model_config.h"
#include "formats/model_files.h"
#include "models/convert.h"
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace luminal::models {

/// A tensor of the new file: type and bytes as they come from the old one, in the new order.
struct PlannedTensor {
  std::string name;
  StorageType type = StorageType::f32;
  std::vector<int64_t> shape;
  std::function<std::string()> bytes;
};

struct ConvertPlan {
  ModelConfig config;
  std::vector<std::pair<std::string, GgufValue>> metadata;
  std::vector<PlannedTensor> tensors;
  std::vector<std::shared_ptr<const MappedFile>> files; ///< that the tensors read
  std::shared_ptr<const void> changed_bytes{};          ///< of tensors that adapters changed
  uint64_t bytes = 0;                                   ///< of the old tensors
};

/// `opened`: the model, with what adapters changed in it; read while the plan is used, as in the others.
ConvertPlan plan_of_gguf(const ModelFile& opened);
ConvertPlan plan_of_folder(const ModelFile& file);
/// A GGUF file's tensors by Hugging Face's names and orders.
ConvertPlan plan_of_gguf_as_folder(const ModelFile& file);
/// The text of tokenizer_config.json: tokens that begin and end, and the chat template.
std::string tokenizer_config_of(const ModelFile& file);

/// The type that a tensor of GGUF's name and this shape gets. `fell_back`: rows do not divide into blocks
/// of the type wanted.
StorageType type_of_tensor(const WeightMixture& mixture, std::string_view name,
                           std::span<const int64_t> shape, const ModelConfig& config, bool& fell_back);

/// Rows of a head of Hugging Face's order, pairs (i, i + half), as GGUF's llama has them, pairs
/// (2i, 2i + 1): `bytes` are `heads` equal parts of equal rows. `back`: the other way.
std::string with_rotary_pairs(std::string_view bytes, int64_t rows, int64_t heads, bool back);

/// `<architecture>.*` and `general.*` that config_from_gguf reads as this configuration.
std::vector<std::pair<std::string, GgufValue>> metadata_of(const ModelConfig& config,
                                                           const std::string& architecture);
/// The text of config.json that parse_hf_config reads as this configuration of a GGUF file. `file` is for
/// messages.
std::string config_json_of(const ModelConfig& config, const std::string& file);

} // namespace luminal::models
