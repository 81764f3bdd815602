// formats/lora_file.h -- adapters of low rank (LoRA, Hu et al. 2021, arXiv:2106.09685): folders of PEFT
// (https://github.com/huggingface/peft) and GGUF files of llama.cpp.
#pragma once
#include "base/file.h"
#include "base/result.h"
#include "formats/gguf.h"
#include "formats/safetensors.h"
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace luminal {

/// What an adapter adds to one weight W [rows, columns]: factor * left [rows, rank] * right [rank, columns].
struct LoraPair {
  /// Of the weight, without ".weight": "layers.0.self_attn.q_proj" (PEFT; without the names of what it is
  /// in: "base_model.model.", then "model." or "transformer."), "blk.0.attn_q" (GGUF).
  std::string name;
  int64_t expert = -1; ///< of a GGUF tensor that holds the matrices of all experts
  double factor = 1;   ///< alpha / rank; with rank-stabilised adapters alpha / sqrt(rank)
  int64_t rows = 0, columns = 0, rank = 0;
  TensorView a, b; ///< as the file has them
  /// Where the left factor is: in b as it is; of tables of embeddings in a, as it is (GGUF) or transposed
  /// (PEFT), and then the right one is b transposed.
  enum class Left : uint8_t { b, a, a_transposed } left = Left::b;

  Result<std::vector<float>> left_values() const;  ///< [rows, rank], without the factor
  Result<std::vector<float>> right_values() const; ///< [rank, columns]
};

/// A tensor that takes the place of the model's: of modules_to_save, biases, norms.
struct LoraValue {
  std::string name; ///< as of a pair, with ".weight" or ".bias"
  TensorView value;
};

struct LoraFile {
  std::string path;
  bool gguf = false;
  std::string architecture; ///< general.architecture of GGUF; PEFT does not state it
  std::vector<LoraPair> pairs;
  std::vector<LoraValue> values;
  /// Another text once the file was written anew or is used in another way.
  std::string identity;
  std::shared_ptr<const MappedFile> file; ///< that the views point into; empty where memory was parsed
};

/// A folder of PEFT (adapter_config.json, adapter_model.safetensors), the latter file in it, or a GGUF
/// adapter. Refuses what would change the result and is not read, by name (DoRA, ..), pairs that lack one
/// tensor or do not multiply, and ranks that are not those of the configuration.
Result<LoraFile> open_lora(const std::string& path);
/// The two kinds from what has been read; messages name `path`.
Result<LoraFile> lora_from_gguf(const Gguf& gguf, const std::string& path);
Result<LoraFile> lora_from_peft(std::string_view config_json, const std::string& config_path,
                                const Safetensors& tensors, const std::string& path);

} // namespace luminal
