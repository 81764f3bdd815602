// formats/model_files.h -- one way to open a model: GGUF file, safetensors file or Hugging Face
// folder.
#pragma once
#include "base/file.h"
#include "base/result.h"
#include "formats/model_config.h"
#include "formats/tensor_view.h"
#include "formats/tokenizer.h"
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace luminal {

enum class ModelFileKind { gguf, safetensors, hf_folder };
std::string_view model_file_kind_name(ModelFileKind kind);

/// left [rows, rank] times right [rank, columns], which is added to a weight [rows, columns] that stays as
/// it is.
struct LowRank {
  int64_t rank = 0;
  std::vector<float> left, right;
};

/// A model on disk, mapped, not copied. The tensors point into `files`, which this structure keeps
/// open.
struct ModelFile {
  ModelFileKind kind = ModelFileKind::gguf;
  std::string path;
  /// GGUF general.architecture or HF model_type; empty for a safetensors file without a config.
  std::string architecture;
  /// Hyper-parameters; where they could not be read, why not. `inspect` shows such files, a run
  /// refuses them.
  std::optional<ModelConfig> config;
  std::string config_error;
  /// Names are unique. GGUF names ("blk.0.attn_q.weight") or HF names
  /// ("model.layers.0.self_attn.q_proj.weight").
  std::vector<TensorView> tensors;
  std::optional<Tokenizer> tokenizer;
  /// Why there is no tokenizer: none in the file, or a kind that is not supported.
  std::string tokenizer_error;
  /// Jinja source of the chat template.
  std::optional<std::string> chat_template;
  /// Other facts for display, in file order: GGUF metadata, safetensors __metadata__.
  std::vector<std::pair<std::string, std::string>> metadata;
  std::vector<std::shared_ptr<const MappedFile>> files;
  /// What adapters changed (models/lora.h): bytes of tensors that are in none of the files, products
  /// beside tensors by their names, and all of it as a text for `identity`.
  std::shared_ptr<const void> changed_bytes;
  std::map<std::string, std::shared_ptr<const LowRank>> low_rank;
  std::string changes;

  /// nullptr where there is no such tensor. Logarithmic.
  const TensorView* find(std::string_view name) const;
  /// The tensor, or luminal::Error that names the file and the tensors with the nearest names.
  const TensorView& tensor(std::string_view name) const;
  /// The configuration or the tokenizer, or luminal::Error with the reason why there is none.
  const ModelConfig& require_config() const;
  const Tokenizer& require_tokenizer() const;
  /// Whether this token ends a text or a turn: by the tokenizer, or by the configuration.
  bool is_end(int32_t token) const;
  /// Another text once one of the files was replaced or written, or other adapters change the weights;
  /// empty where there are no files.
  std::string identity() const;
  /// Sum of the tensors' bytes.
  uint64_t tensor_bytes() const;
  /// Sum of the tensors' elements.
  int64_t parameters() const;

  /// Indices of `tensors` sorted by name; filled by open_model.
  std::vector<uint32_t> by_name;
  /// Fills them; after a change of `tensors`.
  void index_names();
};

/// Opens whatever `path` is. Recognised by content, not by file name: GGUF, safetensors, a folder
/// with config.json, an index of shards. PyTorch pickles, ONNX, empty files and folders without a
/// config are refused in one line that says what to do. A .safetensors file takes its configuration
/// from NAME.config.json or config.json beside it (and likewise tokenizer.json,
/// tokenizer_config.json, generation_config.json).
Result<ModelFile> open_model(const std::string& path);
/// A GGUF file in memory, which must outlive the model: `files` is empty.
Result<ModelFile> open_model_bytes(std::span<const std::byte> bytes, const std::string& name);

} // namespace luminal
