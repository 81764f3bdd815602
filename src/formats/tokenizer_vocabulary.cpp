// formats/tokenizer_vocabulary.cpp -- vocab.json and merges.txt, as models of before tokenizer.json
// have them: the same tokenizer.json that Hugging Face transformers converts them to.
#include "formats/parse.h"
#include "formats/tokenizer_json_stages.h"
#include "formats/tokenizer_patterns.h"
#include <algorithm>

namespace luminal::detail {
namespace {

Json text_of(std::string_view text) {
  Json out;
  out.value = std::string(text);
  return out;
}

Json truth(bool value) {
  Json out;
  out.value = value;
  return out;
}

Json list(Json::Array items) {
  Json out;
  out.value = std::make_unique<Json::Array>(std::move(items));
  return out;
}

template <class... Members> Json object(Members&&... members) {
  auto all = std::make_unique<Json::Object>();
  (all->push_back(std::forward<Members>(members)), ...);
  Json out;
  out.value = std::move(all);
  return out;
}

std::pair<std::string, Json> member(const char* key, Json value) { return {key, std::move(value)}; }

/// "a b" a line, behind a line with the version.
Json merges_of(std::string_view text, std::string_view file) {
  Json::Array out;
  size_t number = 0;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    std::string_view line = text.substr(begin, end - begin);
    if (line.ends_with('\r')) line.remove_suffix(1);
    const bool version = number++ == 0 && line.starts_with("#version");
    if (!line.empty() && !version) {
      if (const auto bad = find_invalid_utf8(line)) refuse_at(file, begin + *bad, "not UTF-8");
      out.push_back(text_of(line));
      out.back().offset = begin;
    }
    begin = end + 1;
  }
  return list(std::move(out));
}

/// What a class of transformers does beside joining pairs.
struct Class {
  std::string_view name;
  std::string_view pattern;
  bool nfc;
};
constexpr Class classes[] = {{"GPT2Tokenizer", patterns::gpt2_spaces, false},
                             {"WhisperTokenizer", patterns::gpt2_spaces, false},
                             {"RobertaTokenizer", patterns::gpt2_spaces, false},
                             {"BartTokenizer", patterns::gpt2_spaces, false},
                             {"Qwen2Tokenizer", patterns::qwen, true}};

} // namespace

Json tokenizer_of_vocabulary(std::string_view vocab_json, std::string_view merges_txt, std::string_view file,
                             std::string_view tokenizer_config_json) {
  const std::string folder(file.substr(0, file.find_last_of('/') + 1));
  const std::string config_file = config_file_beside(file);
  Json vocabulary = parse_json(vocab_json, file);
  vocabulary.as_object(file, "the vocabulary");
  Json config;
  std::string name = "GPT2Tokenizer";
  if (!tokenizer_config_json.empty()) {
    config = parse_json(tokenizer_config_json, config_file);
    config.as_object(config_file, "the configuration");
    if (const Json* kind = config.find("tokenizer_class"))
      name = kind->as_string(config_file, "\"tokenizer_class\"");
  }
  if (name.ends_with("Fast")) name.resize(name.size() - 4);
  const auto* const row =
      std::find_if(std::begin(classes), std::end(classes), [&](const Class& c) { return c.name == name; });
  if (row == std::end(classes)) {
    std::string known;
    for (const Class& c : classes) known += fmt::format("{}{}", known.empty() ? "" : ", ", c.name);
    refuse(file,
           fmt::format("tokenizer class {}, whose pattern is not known; without a tokenizer.json one of {} "
                       "is read",
                       in_quotes(name), known));
  }
  Json::Array added;
  const auto add = [&](int64_t id, const std::string& content, bool special) {
    Json number;
    number.value = id;
    added.push_back(object(member("id", std::move(number)), member("content", text_of(content)),
                           member("special", truth(special)), member("normalized", truth(false))));
  };
  if (const Json* tokens = config.is_object() ? config.find("added_tokens_decoder") : nullptr) {
    for (const auto& [key, entry] : tokens->as_object(config_file, "\"added_tokens_decoder\"")) {
      const Json* content = entry.find("content");
      const Json* special = entry.find("special");
      if (content == nullptr) refuse_at(config_file, entry.offset, "an added token has no \"content\"");
      add(std::strtoll(key.c_str(), nullptr, 10),
          content->as_string(config_file, "\"content\" of an added token"),
          special != nullptr && special->as_bool(config_file, "\"special\""));
    }
  } else {
    constexpr std::string_view ends[] = {"<|endoftext|>", "<s>", "</s>", "<pad>", "<unk>", "<mask>"};
    for (const std::string_view end : ends)
      if (const Json* id = vocabulary.find(end)) add(id->as_int(file, "an id"), std::string(end), true);
  }
  Json::Array steps;
  steps.push_back(object(member("type", text_of("Split")),
                         member("pattern", object(member("Regex", text_of(row->pattern)))),
                         member("behavior", text_of("Isolated"))));
  steps.push_back(object(member("type", text_of("ByteLevel")), member("add_prefix_space", truth(false)),
                         member("use_regex", truth(false))));
  Json out =
      object(member("added_tokens", list(std::move(added))),
             member("pre_tokenizer", object(member("type", text_of("Sequence")),
                                            member("pretokenizers", list(std::move(steps))))),
             member("decoder", object(member("type", text_of("ByteLevel")))),
             member("model", object(member("type", text_of("BPE")), member("vocab", std::move(vocabulary)),
                                    member("merges", merges_of(merges_txt, folder + "merges.txt")))));
  if (row->nfc)
    std::get<7>(out.value)->push_back(member("normalizer", object(member("type", text_of("NFC")))));
  return out;
}

} // namespace luminal::detail
