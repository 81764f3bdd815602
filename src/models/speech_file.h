// models/speech_file.h -- the files of a Whisper model: a Hugging Face folder, a safetensors file, or one of
// whisper.cpp.
#pragma once
#include "formats/tokenizer.h"
#include "luminal/models.h"
#include <functional>
#include <map>
#include <optional>
#include <string>

namespace luminal::models {

struct SpeechFile {
  WhisperConfig config;
  std::optional<Tokenizer> tokenizer; ///< always there
  std::string identity;               ///< another text once a file was replaced or written
  /// Gives weights, by their names in openai/whisper, the values of the file. Throws Error, naming the first
  /// one, where tensors are missing or have another shape.
  std::function<void(const std::map<std::string, Tensor>&)> load;
};
/// Recognised by content. Throws Error for what is not a Whisper model, and for sizes that do not fit each
/// other.
SpeechFile open_speech_file(const std::string& path);

} // namespace luminal::models
