// formats/whisper_file.h -- Whisper models as whisper.cpp has them (ggml-base.en.bin): sizes, filters,
// vocabulary and tensors in one file. Layout: models/convert-pt-to-ggml.py of
// https://github.com/ggml-org/whisper.cpp
#pragma once
#include "base/file.h"
#include "base/result.h"
#include "formats/tensor_view.h"
#include "formats/tokenizer.h"
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace luminal {

struct WhisperFile {
  int64_t vocabulary = 0, audio_context = 0, audio_width = 0, audio_heads = 0, audio_layers = 0;
  int64_t text_context = 0, text_width = 0, text_heads = 0, text_layers = 0, mels = 0;
  int64_t bins = 0;                ///< of the spectrum that the filters read
  std::vector<float> filters;      ///< [mels, bins]
  std::vector<std::string> tokens; ///< their bytes, in the order of their ids; special ones are left out
  /// Names of openai/whisper ("encoder.blocks.0.attn.query.weight"), each once; shapes outermost first.
  std::vector<TensorView> tensors;
  std::shared_ptr<const MappedFile> file; ///< empty where `parse_whisper_file` was given memory
  std::string file_name;

  /// nullptr where no tensor has the name.
  const TensorView* find(std::string_view name) const;
};

/// Whether bytes begin as such a file does. Other formats of ggml before GGUF begin so, too.
bool is_whisper_file(std::string_view head);
/// Reads a whole file image. Every count and length is checked against the bytes that are there. Failures
/// name the file, the byte offset, what was found and what was expected.
Result<WhisperFile> parse_whisper_file(std::span<const std::byte> bytes, std::string_view file_name);
Result<WhisperFile> open_whisper_file(const std::string& path);

/// Names and ids of the special tokens of a vocabulary of this size, by id; empty for sizes that no model
/// has (51864: English; 51865: 99 languages; 51866: 100).
std::vector<std::pair<std::string, int32_t>> whisper_special_tokens(int64_t vocabulary);
/// The tokens of the file and the special ones.
Result<Tokenizer> whisper_tokenizer(const WhisperFile& file);

} // namespace luminal
