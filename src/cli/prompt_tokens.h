// cli/prompt_tokens.h -- a prompt, given as a text or as ids, as the tokens that a model reads.
#pragma once
#include "formats/model_files.h"
#include <string>
#include <vector>

namespace luminal::cli {

struct PromptText {
  std::string text, tokens; ///< tokens: ids in the form 1,5,9, in place of the text
  bool plain = false;       ///< names of special tokens are ordinary text
};
/// The prompt as ids. An empty one starts from the model's own begin token. Throws Error where the prompt
/// cannot be read or has more tokens than the context has positions, UsageError for a list of ids that is
/// none.
std::vector<int32_t> prompt_tokens(const ModelFile& file, const PromptText& prompt, int64_t context);

/// The text of a file (-: standard input), without the line's end that editors and echo leave behind it.
std::string read_prompt(const std::string& path);

} // namespace luminal::cli
