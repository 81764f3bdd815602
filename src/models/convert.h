// models/convert.h -- models from one format to another and into fewer bits, one tensor at a time.
#pragma once
#include "formats/storage_type.h"
#include "models/lora.h"
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace luminal::models {

/// Which type a model's matrices become: a type of storage ("Q8_0", "BF16"), or one of llama.cpp's
/// mixtures ("Q4_K_M": Q4_K, and Q6_K where it matters most).
struct WeightMixture {
  std::string name;
  StorageType type = StorageType::f16;
  char size = 0;                     ///< of a mixture: S, M or L; 0: none
  bool pure = false;                 ///< every matrix in the type itself, the head too
  std::optional<StorageType> head{}; ///< of the head and, where it is tied, of the table of embeddings
};
/// Throws Error for a name that is not known, or a type that is not written.
WeightMixture weight_mixture(std::string_view name);
/// "F32 F16 BF16 Q8_0 .. Q4_K_M ..": for messages and help.
std::string weight_mixture_names();

struct ConvertOptions {
  std::optional<WeightMixture> mixture; ///< absent: types stay as they are
  int threads = 0;                      ///< 0: all cores
  /// Are merged into the weights; where no mixture says otherwise, a matrix in blocks that one of them
  /// changes is quantised again in its type.
  std::vector<LoraChoice> adapters{};
  /// Called before each tensor: its place, how many there are, its name.
  std::function<void(size_t, size_t, const std::string&)> progress;
};
struct ConvertReport {
  size_t tensors = 0;
  uint64_t bytes_before = 0, bytes_after = 0;
  std::map<std::string, size_t> types; ///< how many tensors have each type in the new file
  std::vector<std::string> fallbacks;  ///< tensors whose rows do not divide into blocks of the type wanted
};

/// Writes the model `from` (GGUF file, safetensors file or Hugging Face folder) as the GGUF file `to`:
/// names, order of rotary pairs, configuration and tokenizer as llama.cpp has them. The file appears
/// complete or not at all. In memory is one tensor. Throws Error: what is not a model, a family that is
/// not known, a disk that is full.
ConvertReport convert_to_gguf(const std::string& from, const std::string& to, const ConvertOptions& options);

/// Writes the GGUF file `from` as a Hugging Face folder `to`: model.safetensors, config.json,
/// tokenizer.json, tokenizer_config.json. Block formats are unpacked (BF16 unless the options say F32
/// or F16). The folder must be new or empty.
ConvertReport convert_to_folder(const std::string& from, const std::string& to,
                                const ConvertOptions& options);

} // namespace luminal::models
