// cli/prompt_tokens.cpp -- reading prompts.
#include "cli/prompt_tokens.h"
#include "base/print.h"
#include "base/text.h"
#include "cli/common.h"
#include <cstdlib>
#include <fmt/format.h>

namespace luminal::cli {
namespace {

std::vector<int32_t> parse_tokens(const std::string& text, int64_t vocabulary) {
  std::vector<int32_t> ids;
  for (std::string_view part : split(text, ',')) {
    std::string word(part);
    char* end = nullptr;
    long id = std::strtol(word.c_str(), &end, 10);
    if (end == word.c_str() || *end != 0)
      throw UsageError(fmt::format("--tokens: \"{}\" is not a token id; write --tokens 1,5,9", word));
    if (id < 0 || id >= vocabulary)
      throw UsageError(fmt::format("--tokens: {} is outside the vocabulary of {}", id, vocabulary));
    ids.push_back(int32_t(id));
  }
  return ids;
}

std::vector<int32_t> ids_of(const ModelFile& file, const PromptText& prompt) {
  const ModelConfig& config = file.require_config();
  if (!prompt.tokens.empty()) return parse_tokens(prompt.tokens, config.vocab_size);
  std::vector<int32_t> ids;
  if (file.tokenizer)
    ids = file.tokenizer->encode(prompt.text, {.add_special = true, .parse_special = !prompt.plain});
  else if (!prompt.text.empty())
    throw Error(fmt::format("{}, so a text cannot be read; give the prompt as ids: --tokens 1,5,9",
                            file.tokenizer_error));
  if (ids.size() > 1 && file.tokenizer && file.tokenizer->adds_bos() && ids[0] == ids[1] &&
      ids[0] == *file.tokenizer->bos())
    print_stderr("note: the prompt begins with {}, and the model adds another one in front\n",
                 printable(file.tokenizer->token_text(ids[0])));
  if (ids.empty() && file.tokenizer && file.tokenizer->bos()) ids.push_back(*file.tokenizer->bos());
  if (ids.empty() && !config.bos_tokens.empty()) ids.push_back(config.bos_tokens[0]);
  if (ids.empty())
    throw Error(
        fmt::format("{}: the prompt is empty and the model names no begin token; give a prompt", file.path));
  return ids;
}

} // namespace

std::vector<int32_t> prompt_tokens(const ModelFile& file, const PromptText& prompt, int64_t context) {
  std::vector<int32_t> ids = ids_of(file, prompt);
  if (int64_t(ids.size()) > context)
    throw Error(fmt::format("the prompt has {} tokens, the context holds {}: raise --ctx (the model was "
                            "trained for {}) or shorten the prompt",
                            ids.size(), context, file.require_config().context_length));
  return ids;
}

std::string read_prompt(const std::string& path) {
  std::string text = read_text(path);
  if (text.ends_with('\n')) text.pop_back();
  return text;
}

} // namespace luminal::cli
