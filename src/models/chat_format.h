// models/chat_format.h -- conversations as prompts: the model's chat template, or one by name.
#pragma once
#include "formats/chat_template.h"
#include "formats/model_files.h"

namespace luminal::models {

class ChatFormat {
public:
  /// Of the model's own template where `wanted` is empty; else "chatml", or the template in a file of this
  /// name. Throws Error where there is none, or it cannot be read.
  ChatFormat(const ModelFile& file, const std::string& wanted = "");
  /// The text of a conversation. `messages`: a list of {"role", "content", ..}; `more`: tools and what else
  /// the template reads. Throws Error for messages that the template refuses.
  std::string text(const jinja::Value& messages, bool answer_follows = true,
                   const jinja::Dict& more = {}) const;
  /// The same as tokens. The template writes the special tokens itself, so none is added.
  std::vector<int32_t> tokens(const jinja::Value& messages, bool answer_follows = true,
                              const jinja::Dict& more = {}) const;

  /// Whether the template reads this variable (its name stands somewhere in it).
  bool reads(std::string_view variable) const { return source_.find(variable) != std::string::npos; }

private:
  ChatFormat(const Tokenizer& tokenizer, std::pair<std::string, std::string> source);
  Tokenizer tokenizer_;
  std::string source_;
  ChatTemplate template_;
};

/// {"role": role, "content": content}
jinja::Value chat_message(std::string role, std::string content);

} // namespace luminal::models
