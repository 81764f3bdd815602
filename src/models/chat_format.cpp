// models/chat_format.cpp -- conversations as prompts.
#include "models/chat_format.h"
#include "base/file.h"
#include "luminal/error.h"
#include <fmt/format.h>

namespace luminal::models {
namespace {

constexpr std::string_view chatml = R"({%- for message in messages -%}
{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n' }}
{%- endfor -%}
{%- if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif -%})";

/// The template, and its name for messages.
std::pair<std::string, std::string> template_of(const ModelFile& file, const std::string& wanted) {
  if (wanted == "chatml") return {std::string(chatml), "chatml"};
  if (!wanted.empty()) {
    auto text = read_file(wanted);
    if (!text) throw Error(text.error());
    return {std::move(*text), wanted};
  }
  if (!file.chat_template)
    throw Error(
        fmt::format("{}: no chat template in the file; --chat-template chatml or FILE names one", file.path));
  return {*file.chat_template, "chat template"};
}

ChatTemplate parsed(const std::string& source, const std::string& name) {
  auto made = ChatTemplate::parse(source, name);
  if (!made) throw Error(made.error());
  return *made;
}

} // namespace

ChatFormat::ChatFormat(const ModelFile& file, const std::string& wanted)
    : ChatFormat(file.require_tokenizer(), template_of(file, wanted)) {}

ChatFormat::ChatFormat(const Tokenizer& tokenizer, std::pair<std::string, std::string> source)
    : tokenizer_(tokenizer), source_(std::move(source.first)), template_(parsed(source_, source.second)) {}

std::string ChatFormat::text(const jinja::Value& messages, bool answer_follows,
                             const jinja::Dict& more) const {
  const auto named = [&](std::optional<int32_t> token) {
    return token ? tokenizer_.token_text(*token) : std::string();
  };
  jinja::Dict variables = more;
  variables.emplace_back("messages", messages);
  variables.emplace_back("add_generation_prompt", answer_follows);
  variables.emplace_back("bos_token", named(tokenizer_.bos()));
  variables.emplace_back("eos_token", tokenizer_.eos().empty() ? "" : named(tokenizer_.eos()[0]));
  return template_.render(variables);
}

std::vector<int32_t> ChatFormat::tokens(const jinja::Value& messages, bool answer_follows,
                                        const jinja::Dict& more) const {
  const std::string prompt = text(messages, answer_follows, more);
  std::vector<int32_t> ids = tokenizer_.encode(prompt, {.add_special = false, .parse_special = true});
  // A template that leaves BOS to the tokenizer.
  if (tokenizer_.adds_bos() && (ids.empty() || ids[0] != *tokenizer_.bos()))
    ids.insert(ids.begin(), *tokenizer_.bos());
  return ids;
}

jinja::Value chat_message(std::string role, std::string content) {
  return jinja::Dict{{"role", std::move(role)}, {"content", std::move(content)}};
}

} // namespace luminal::models
