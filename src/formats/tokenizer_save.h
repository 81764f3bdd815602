// formats/tokenizer_save.h -- a tokenizer as the metadata of a GGUF file, or as tokenizer.json.
#pragma once
#include "formats/gguf.h"
#include "formats/tokenizer.h"
#include <string>
#include <utility>
#include <vector>

namespace luminal {

/// The `tokenizer.ggml.*` that tokenizer_from_gguf reads as the same tokenizer: llama, gpt2, bert or
/// t5. Fails for one that GGUF cannot express, such as a pattern that has no name there; `file` is for
/// the message.
Result<std::vector<std::pair<std::string, GgufValue>>> tokenizer_metadata(const Tokenizer& tokenizer,
                                                                          const std::string& file);

/// The text of a tokenizer.json for BPE, which Hugging Face tokenizers reads. Fails for other kinds.
Result<std::string> tokenizer_json(const Tokenizer& tokenizer, const std::string& file);

} // namespace luminal
