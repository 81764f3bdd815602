// models/lora.h -- adapters of low rank (formats/lora_file.h) on the weights of a decoder.
#pragma once
#include "formats/model_files.h"
#include <span>
#include <string>

namespace luminal::models {

struct LoraChoice {
  std::string path; ///< as open_lora takes it
  double scale = 1; ///< of all that the adapter changes; 0: nothing is changed
};

/// What becomes of a weight in blocks (Q4_K, ..) that an adapter changes.
enum class ChangedBlocks : uint8_t {
  beside, ///< it stays, and the product of low rank is added to what it gives; experts, tables of positions
          ///< and tensors that are replaced become F32
  f32,    ///< unpacked, to one of these
  bf16,
  same, ///< unpacked, changed and quantised again
};

/// Changes the weights of an opened model: W + sum of scale * factor * left * right over all adapters, in
/// f32, in the type that W has. Tensors that an adapter brings whole (V: modules_to_save, biases, norms) give
/// W + scale * (V - W). Names and the order of rotary pairs are those of either format, whatever the model's
/// is. An adapter of the table of embeddings leaves a head alone that is tied to it, and one of the head the
/// table: the model has a head of its own then. Changed bytes are in a file without a name in the folder for
/// temporary files (base/pages.h). Throws Error, before anything is changed: a tensor that no weight of the
/// model takes, another shape, an adapter for another architecture.
void apply_lora(ModelFile& file, std::span<const LoraChoice> adapters, ChangedBlocks blocks);

} // namespace luminal::models
