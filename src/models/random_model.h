// models/random_model.h -- models of known shapes with random weights: for measuring without a
// file, or into a GGUF file that other programs read.
#pragma once
#include "formats/gguf.h"
#include "formats/model_files.h"
#include <memory>

namespace luminal::models {

/// The dimensions of a Llama. Projections have no bias; norms are f32.
struct ModelShape {
  std::string_view name, what;
  int64_t layers, hidden, heads, kv_heads, head_dim, inner, vocabulary, context;
  double rope_theta;
  bool tied; ///< the head is the embedding
};
/// The shapes known by name, small ones first.
std::span<const ModelShape> model_shapes();
/// nullptr where none has that name.
const ModelShape* find_model_shape(std::string_view name);

/// The tensors of the shape with matrices in this type: names of GGUF, no bytes. Throws Error for a
/// type that random weights are not made in (F32 F16 BF16 Q8_0 Q4_0 Q4_1 Q5_0 Q5_1 Q2_K to Q6_K
/// are), and for rows that are not a whole number of its blocks.
std::vector<TensorView> model_tensors(const ModelShape& shape, StorageType matrices);

/// Configuration and tensors of the shape as of an opened GGUF file without a tokenizer; the
/// tensors' bytes have their sizes and no place (nullptr), which is enough for plans and estimates.
/// Throws Error as model_tensors does.
ModelFile model_without_values(const ModelShape& shape, StorageType matrices);

/// A model in a file that has no name and ends with the last owner: `file` is like an opened GGUF
/// file without a tokenizer, and what is read of it counts as memory of the process as what is read
/// of a model file does.
struct RandomModel {
  ModelFile file;
  std::vector<std::pair<std::string, GgufValue>> metadata;
  std::shared_ptr<std::byte> memory; ///< of all tensors
};
/// Values of a matrix have mean 0 (Q4_0: half a step below) and deviation 1 / sqrt(columns); those
/// of norms are 1. The same seed gives the same bytes on every machine. Throws Error as
/// model_tensors does, and where the folder for temporary files (TMPDIR, else /var/tmp) has no
/// room.
RandomModel random_model(const ModelShape& shape, StorageType matrices, uint64_t seed);
/// Writes the model as a GGUF file, complete or not at all.
Result<void> save(const RandomModel& model, const std::string& path);

} // namespace luminal::models
