// formats/tokenizer_config.cpp -- what tokenizer_config.json adds to a vocabulary: more tokens, and
// which tokens begin and end a text.
#include "formats/json.h"
#include "formats/parse.h"
#include "formats/tokenizer_model.h"
#include <algorithm>

namespace luminal::detail {
namespace {

/// How many ids may stay without a token below the highest one.
constexpr int64_t largest_gap = 65536;

void add(TokenizerModel& model, std::string_view file, int64_t id, const Json& entry) {
  const Json* content = entry.find("content");
  if (content == nullptr) refuse_at(file, entry.offset, "an added token has no \"content\"");
  const auto flag = [&](const char* key) {
    const Json* value = entry.find(key);
    return value != nullptr && value->as_bool(file, in_quotes(key));
  };
  const std::string& name = content->as_string(file, "\"content\" of an added token");
  if (name.empty()) refuse_at(file, entry.offset, "an added token is empty");
  const bool special = flag("special");
  const auto size = static_cast<int64_t>(model.texts.size());
  if (id < 0 || id > size + largest_gap)
    refuse_at(file, entry.offset,
              fmt::format("added token {} has the id {}, expected about {}", in_quotes(name), id, size));
  while (static_cast<int64_t>(model.texts.size()) < id) {
    model.add_token("", TokenKind::unused);
    if (!model.scores.empty()) model.scores.push_back(0);
  }
  const auto row = static_cast<size_t>(id);
  if (row == model.texts.size()) {
    model.add_token(name, special ? TokenKind::control : TokenKind::user_defined);
    if (!model.scores.empty()) model.scores.push_back(0);
  } else if (model.texts[row] != name) { // one of the vocabulary's own: <s>
    refuse_at(
        file, entry.offset,
        fmt::format("added token {} has the id {} of {}", in_quotes(name), id, in_quotes(model.texts[row])));
  } else if (special) {
    model.kinds[row] = TokenKind::control;
  }
  auto token = std::find_if(model.added.begin(), model.added.end(),
                            [&](const AddedToken& other) { return other.id == id; });
  if (token == model.added.end()) {
    AddedToken fresh;
    fresh.id = static_cast<int32_t>(id);
    fresh.content = name;
    fresh.special = special;
    token = model.added.insert(model.added.end(), std::move(fresh));
  }
  token->single_word = flag("single_word");
  token->strip_left = flag("lstrip");
  token->strip_right = flag("rstrip");
}

} // namespace

void read_added_tokens_decoder(TokenizerModel& model, const Json& config, std::string_view file) {
  const Json* added = config.find("added_tokens_decoder");
  if (added == nullptr) return;
  std::vector<std::pair<int64_t, const Json*>> tokens;
  for (const auto& [key, entry] : added->as_object(file, "\"added_tokens_decoder\""))
    tokens.emplace_back(std::strtoll(key.c_str(), nullptr, 10), &entry);
  std::sort(tokens.begin(), tokens.end());
  for (const auto& [id, entry] : tokens) add(model, file, id, *entry);
}

std::optional<int32_t> named_token(const TokenizerModel& model, const Json& config, std::string_view file,
                                   const char* key) {
  const Json* value = config.find(key);
  if (value == nullptr) return std::nullopt;
  const Json* content = value->is_object() ? value->find("content") : value;
  if (content == nullptr)
    refuse_at(file, value->offset, fmt::format("{} has no \"content\"", in_quotes(key)));
  const int32_t id = model.index.find(model.texts, content->as_string(file, in_quotes(key)));
  return id < 0 ? std::nullopt
                : std::optional(id); // a configuration may name tokens that the vocabulary lacks
}

std::string config_file_beside(std::string_view file) {
  return std::string(file.substr(0, file.find_last_of('/') + 1)) + "tokenizer_config.json";
}

} // namespace luminal::detail
