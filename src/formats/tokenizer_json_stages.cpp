// formats/tokenizer_json_stages.cpp -- normalizer, pre-tokenizer, decoder and post-processor of a
// tokenizer.json. The meaning of each is that of https://github.com/huggingface/tokenizers.
#include "formats/tokenizer_json_stages.h"
#include <algorithm>

namespace luminal::detail {
namespace {

constexpr int max_sequence_depth = 8;

bool flag(const Json& json, std::string_view file, std::string_view key, bool otherwise) {
  const Json* value = json.find(key);
  return value == nullptr ? otherwise : value->as_bool(file, in_quotes(key));
}

const std::string& text(const Json& json, std::string_view file, std::string_view key) {
  const Json* value = json.find(key);
  if (value == nullptr) refuse_at(file, json.offset, fmt::format("no {}", in_quotes(key)));
  return value->as_string(file, in_quotes(key));
}

/// {"String": "..."} or {"Regex": "..."}.
struct Pattern {
  std::string literal;
  std::shared_ptr<const Regex> regex;
};

Pattern read_pattern(const Json& json, std::string_view file, std::string_view what) {
  const Json* pattern = json.find("pattern");
  if (pattern == nullptr) refuse_at(file, json.offset, fmt::format("{} has no \"pattern\"", what));
  if (const Json* literal = pattern->find("String")) {
    Pattern out{literal->as_string(file, "a pattern"), nullptr};
    if (out.literal.empty())
      refuse_at(file, literal->offset, fmt::format("the pattern of {} is empty", what));
    return out;
  }
  if (const Json* regex = pattern->find("Regex"))
    return {"", std::make_shared<const Regex>(
                    from_oniguruma(regex->as_string(file, "a pattern"), file, "the pattern"), file,
                    "the pattern")};
  refuse_at(file, pattern->offset,
            fmt::format("the pattern of {} is neither \"String\" nor \"Regex\"", what));
}

[[noreturn]] void unsupported(const Json& json, std::string_view file, std::string_view what,
                              std::string_view type) {
  refuse_at(file, json.offset, fmt::format("{} {} is not supported", what, in_quotes(type)));
}

const Json::Array& sequence(const Json& json, std::string_view file, std::string_view key, int depth) {
  if (depth > max_sequence_depth) refuse_at(file, json.offset, "sequences nested too deep");
  const Json* list = json.find(key);
  if (list == nullptr) refuse_at(file, json.offset, fmt::format("a sequence has no {}", in_quotes(key)));
  return list->as_array(file, in_quotes(key));
}

void read_one_normalizer(const Json& json, std::string_view file, TokenizerModel& model, int depth) {
  using Kind = NormalizeStep::Kind;
  const std::string& type = stage_type(json, file, "normalizer");
  const auto simple = [&](Kind kind) {
    expect_members(json, file, "normalizer", {});
    model.normalizer.push_back({kind, "", "", nullptr});
  };
  if (type == "Sequence") {
    expect_members(json, file, "normalizer", {"normalizers"});
    for (const Json& inner : sequence(json, file, "normalizers", depth))
      read_one_normalizer(inner, file, model, depth + 1);
  } else if (type == "Prepend") {
    expect_members(json, file, "normalizer", {"prepend"});
    model.normalizer.push_back({Kind::prepend, "", text(json, file, "prepend"), nullptr});
  } else if (type == "Replace") {
    expect_members(json, file, "normalizer", {"pattern", "content"});
    Pattern pattern = read_pattern(json, file, "normalizer \"Replace\"");
    const Kind kind = pattern.regex ? Kind::replace_regex : Kind::replace_text;
    model.normalizer.push_back(
        {kind, std::move(pattern.literal), text(json, file, "content"), std::move(pattern.regex)});
  } else if (type == "Strip") {
    expect_members(json, file, "normalizer", {"strip_left", "strip_right"});
    model.normalizer.push_back({Kind::strip, "", "", nullptr, flag(json, file, "strip_left", true),
                                flag(json, file, "strip_right", true)});
  } else if (type == "BertNormalizer") {
    expect_members(json, file, "normalizer",
                   {"clean_text", "handle_chinese_chars", "strip_accents", "lowercase"});
    const bool lowercase = flag(json, file, "lowercase", true);
    add_bert_normalizer(model, flag(json, file, "clean_text", true),
                        flag(json, file, "handle_chinese_chars", true),
                        flag(json, file, "strip_accents", lowercase), lowercase);
  } else if (type == "Precompiled") {
    expect_members(json, file, "normalizer", {"precompiled_charsmap"});
    const Json* table = json.find("precompiled_charsmap");
    std::string bytes;
    if (table == nullptr || !base64_decode(table->as_string(file, "\"precompiled_charsmap\""), bytes))
      refuse_at(file, json.offset, "normalizer \"Precompiled\" without a \"precompiled_charsmap\" in base64");
    model.normalizer.push_back({Kind::characters_by_group, "", "", nullptr});
    model.normalizer.back().table = std::make_shared<const CharacterTable>(bytes, file);
  } else if (type == "StripAccents")
    simple(Kind::strip_accents);
  else if (type == "ByteLevel")
    simple(Kind::byte_level);
  else if (type == "NFC")
    simple(Kind::nfc);
  else if (type == "NFD")
    simple(Kind::nfd);
  else if (type == "NFKC")
    simple(Kind::nfkc);
  else if (type == "NFKD")
    simple(Kind::nfkd);
  else if (type == "Lowercase")
    simple(Kind::lowercase);
  else
    unsupported(json, file, "normalizer", type);
}

SplitStep::Behavior read_behavior(const Json& json, std::string_view file) {
  using Behavior = SplitStep::Behavior;
  const std::string& name = text(json, file, "behavior");
  if (name == "Removed") return Behavior::removed;
  if (name == "Isolated") return Behavior::isolated;
  if (name == "MergedWithPrevious") return Behavior::merged_with_previous;
  if (name == "MergedWithNext") return Behavior::merged_with_next;
  if (name == "Contiguous") return Behavior::contiguous;
  unsupported(json, file, "behavior", name);
}

SplitStep::Prefix read_prepend_scheme(const Json& json, std::string_view file) {
  using Prefix = SplitStep::Prefix;
  if (const Json* scheme = json.find("prepend_scheme")) {
    const std::string& name = scheme->as_string(file, "\"prepend_scheme\"");
    if (name == "always") return Prefix::always;
    if (name == "first") return Prefix::first;
    if (name == "never") return Prefix::never;
    unsupported(json, file, "prepend_scheme", name);
  }
  return flag(json, file, "add_prefix_space", true) ? Prefix::always : Prefix::never;
}

void read_one_pre_tokenizer(const Json& json, std::string_view file, TokenizerModel& model, int depth) {
  using Kind = SplitStep::Kind;
  const std::string& type = stage_type(json, file, "pre-tokenizer");
  SplitStep step;
  if (type == "Sequence") {
    expect_members(json, file, "pre-tokenizer", {"pretokenizers"});
    for (const Json& inner : sequence(json, file, "pretokenizers", depth))
      read_one_pre_tokenizer(inner, file, model, depth + 1);
    return;
  }
  if (type == "ByteLevel") {
    expect_members(json, file, "pre-tokenizer", {"add_prefix_space", "trim_offsets", "use_regex"});
    step.kind = Kind::byte_level;
    step.prefix =
        flag(json, file, "add_prefix_space", true) ? SplitStep::Prefix::always : SplitStep::Prefix::never;
    if (flag(json, file, "use_regex", true))
      step.regex = std::make_shared<const Regex>(
          R"('(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)", file, "the pattern");
  } else if (type == "Split") {
    expect_members(json, file, "pre-tokenizer", {"pattern", "behavior", "invert"});
    Pattern pattern = read_pattern(json, file, "pre-tokenizer \"Split\"");
    step.kind = pattern.regex ? Kind::regex : Kind::text;
    step.regex = std::move(pattern.regex);
    step.text = std::move(pattern.literal);
    step.behavior = read_behavior(json, file);
    step.invert = flag(json, file, "invert", false);
  } else if (type == "Metaspace") {
    expect_members(json, file, "pre-tokenizer",
                   {"replacement", "add_prefix_space", "prepend_scheme", "split", "str_rep"});
    step.kind = Kind::metaspace;
    step.text = text(json, file, "replacement");
    if (step.text.empty()) refuse_at(file, json.offset, "\"replacement\" of \"Metaspace\" is empty");
    step.prefix = read_prepend_scheme(json, file);
    step.split = flag(json, file, "split", true);
  } else if (type == "Digits") {
    expect_members(json, file, "pre-tokenizer", {"individual_digits"});
    step.kind = Kind::digits;
    step.behavior = flag(json, file, "individual_digits", false) ? SplitStep::Behavior::isolated
                                                                 : SplitStep::Behavior::contiguous;
  } else if (type == "Punctuation") {
    expect_members(json, file, "pre-tokenizer", {"behavior"});
    step.kind = Kind::punctuation;
    step.behavior =
        json.find("behavior") == nullptr ? SplitStep::Behavior::isolated : read_behavior(json, file);
  } else if (type == "Whitespace") {
    expect_members(json, file, "pre-tokenizer", {});
    step.kind = Kind::regex;
    step.regex = std::make_shared<const Regex>(from_oniguruma(R"(\w+|[^\w\s]+)", file, "the pattern"), file,
                                               "the pattern");
    step.behavior = SplitStep::Behavior::removed;
    step.invert = true;
  } else if (type == "BertPreTokenizer") {
    expect_members(json, file, "pre-tokenizer", {});
    return add_bert_splitter(model);
  } else if (type == "WhitespaceSplit") {
    expect_members(json, file, "pre-tokenizer", {});
    step.kind = Kind::whitespace;
    step.behavior = SplitStep::Behavior::removed;
  } else {
    unsupported(json, file, "pre-tokenizer", type);
  }
  model.splitter.push_back(std::move(step));
}

/// Decoders work on the list of tokens until "Fuse" has joined them; `fused` tells which.
void read_one_decoder(const Json& json, std::string_view file, TokenizerModel& model, bool& fused,
                      int depth) {
  const std::string& type = stage_type(json, file, "decoder");
  if (type == "Sequence") {
    expect_members(json, file, "decoder", {"decoders"});
    for (const Json& inner : sequence(json, file, "decoders", depth))
      read_one_decoder(inner, file, model, fused, depth + 1);
    return;
  }
  if (fused && type != "Strip" && type != "Fuse")
    refuse_at(file, json.offset,
              fmt::format("decoder {} after the tokens are joined is not supported", in_quotes(type)));
  if (type == "ByteLevel") {
    expect_members(json, file, "decoder", {"add_prefix_space", "trim_offsets", "use_regex"});
    model.byte_level_text = true;
  } else if (type == "ByteFallback") {
    expect_members(json, file, "decoder", {});
    for (const int32_t id : model.byte_tokens)
      if (id >= 0) model.kinds[static_cast<size_t>(id)] = TokenKind::byte;
  } else if (type == "Fuse") {
    expect_members(json, file, "decoder", {});
    fused = true;
  } else if (type == "Replace") {
    expect_members(json, file, "decoder", {"pattern", "content"});
    Pattern pattern = read_pattern(json, file, "decoder \"Replace\"");
    if (pattern.regex)
      refuse_at(file, json.offset, "decoder \"Replace\" with a regular expression is not supported");
    model.replacements.emplace_back(std::move(pattern.literal), text(json, file, "content"));
  } else if (type == "WordPiece") {
    expect_members(json, file, "decoder", {"prefix", "cleanup"});
    model.joined_prefix = text(json, file, "prefix");
    model.spaces_between = true;
    model.tidy_spaces = flag(json, file, "cleanup", true);
  } else if (type == "Metaspace") {
    expect_members(json, file, "decoder",
                   {"replacement", "add_prefix_space", "prepend_scheme", "split", "str_rep"});
    model.mark = text(json, file, "replacement");
    if (model.mark.empty()) refuse_at(file, json.offset, "\"replacement\" of \"Metaspace\" is empty");
    model.replacements.emplace_back(model.mark, " ");
    if (read_prepend_scheme(json, file) != SplitStep::Prefix::never)
      model.start = TokenizerModel::Start::drop_marks;
  } else if (type == "Strip") {
    expect_members(json, file, "decoder", {"content", "start", "stop"});
    const Json* start = json.find("start");
    const Json* stop = json.find("stop");
    const int64_t front = start == nullptr ? 0 : start->as_int(file, "\"start\"");
    const int64_t back = stop == nullptr ? 0 : stop->as_int(file, "\"stop\"");
    if (!fused || text(json, file, "content") != " " || back != 0 || front < 0 || front > 100)
      refuse_at(
          file, json.offset,
          "decoder \"Strip\" of anything but spaces at the beginning of the joined text is not supported");
    model.start = TokenizerModel::Start::strip_spaces;
    model.start_spaces = static_cast<int>(front);
  } else {
    unsupported(json, file, "decoder", type);
  }
}

int32_t checked_id(const Json& json, std::string_view file, const TokenizerModel& model) {
  const int64_t id = json.as_int(file, "a token id");
  if (id < 0 || static_cast<uint64_t>(id) >= model.texts.size())
    refuse_at(file, json.offset, fmt::format("token id {}, expected less than {}", id, model.texts.size()));
  return static_cast<int32_t>(id);
}

void read_template(const Json& json, std::string_view file, TokenizerModel& model) {
  expect_members(json, file, "post-processor", {"single", "pair", "special_tokens"});
  const Json* single = json.find("single");
  if (single == nullptr)
    refuse_at(file, json.offset, "post-processor \"TemplateProcessing\" has no \"single\"");
  const Json* special = json.find("special_tokens");
  bool seen = false;
  for (const Json& part : single->as_array(file, "\"single\"")) {
    if (part.find("Sequence") != nullptr) {
      if (seen) refuse_at(file, part.offset, "a template with the text twice is not supported");
      seen = true;
      continue;
    }
    const Json* token = part.find("SpecialToken");
    if (token == nullptr)
      refuse_at(file, part.offset, "a part of a template is neither \"Sequence\" nor \"SpecialToken\"");
    const std::string& name = text(*token, file, "id");
    const Json* entry = special == nullptr ? nullptr : special->find(name);
    const Json* ids = entry == nullptr ? nullptr : entry->find("ids");
    if (ids == nullptr)
      refuse_at(file, token->offset,
                fmt::format("template token {} is not among \"special_tokens\"", in_quotes(name)));
    for (const Json& id : ids->as_array(file, "\"ids\""))
      (seen ? model.suffix : model.prefix).push_back(checked_id(id, file, model));
  }
  if (!seen) refuse_at(file, single->offset, "a template without the text is not supported");
}

/// ["<s>", 0]: a token with its id.
int32_t token_pair(const Json& json, std::string_view file, std::string_view key,
                   const TokenizerModel& model) {
  const Json* pair = json.find(key);
  if (pair == nullptr) refuse_at(file, json.offset, fmt::format("post-processor has no {}", in_quotes(key)));
  const auto& items = pair->as_array(file, in_quotes(key));
  if (items.size() != 2)
    refuse_at(file, pair->offset,
              fmt::format("{} has {} parts, expected a text and an id", in_quotes(key), items.size()));
  return checked_id(items[1], file, model);
}

void read_one_post_processor(const Json& json, std::string_view file, TokenizerModel& model, int depth) {
  const std::string& type = stage_type(json, file, "post-processor");
  if (type == "Sequence") {
    expect_members(json, file, "post-processor", {"processors"});
    for (const Json& inner : sequence(json, file, "processors", depth))
      read_one_post_processor(inner, file, model, depth + 1);
  } else if (type == "ByteLevel") { // moves offsets only
    expect_members(json, file, "post-processor", {"add_prefix_space", "trim_offsets", "use_regex"});
  } else if (type == "TemplateProcessing") {
    if (!model.prefix.empty() || !model.suffix.empty())
      refuse_at(file, json.offset, "two templates are not supported");
    read_template(json, file, model);
  } else if (type == "RobertaProcessing" || type == "BertProcessing") {
    expect_members(json, file, "post-processor", {"sep", "cls", "trim_offsets", "add_prefix_space"});
    model.prefix.push_back(token_pair(json, file, "cls", model));
    model.suffix.push_back(token_pair(json, file, "sep", model));
  } else {
    unsupported(json, file, "post-processor", type);
  }
}

} // namespace

const std::string& stage_type(const Json& json, std::string_view file, std::string_view what) {
  json.as_object(file, what);
  const Json* type = json.find("type");
  if (type == nullptr) refuse_at(file, json.offset, fmt::format("{} has no \"type\"", what));
  return type->as_string(file, "\"type\"");
}

void expect_members(const Json& json, std::string_view file, std::string_view what,
                    std::initializer_list<std::string_view> names) {
  for (const auto& [key, value] : json.as_object(file, what))
    if (key != "type" && !value.is_null() && std::find(names.begin(), names.end(), key) == names.end())
      refuse_at(file, value.offset,
                fmt::format("{} {} has the member {}, which is not known", what,
                            in_quotes(stage_type(json, file, what)), in_quotes(key)));
}

namespace {

/// How many times longer a text may become.
double growth_of(std::string_view from, std::string_view to) {
  return std::max(1.0, double(to.size()) / double(std::max<size_t>(from.size(), 1)));
}

/// A few steps that double a text fill every memory.
void refuse_growth(double growth, std::string_view stage, const Json& json, std::string_view file) {
  constexpr double most = 4096;
  if (growth > most)
    refuse_at(
        file, json.offset,
        fmt::format("the \"Replace\" steps of the {} make a text up to {:.3g} times longer, at most {} is "
                    "supported",
                    stage, growth, most));
}

} // namespace

void read_normalizer(const Json* json, std::string_view file, TokenizerModel& model) {
  if (json == nullptr) return;
  read_one_normalizer(*json, file, model, 0);
  double growth = 1;
  for (const NormalizeStep& step : model.normalizer)
    if (step.kind == NormalizeStep::Kind::replace_text)
      growth *= growth_of(step.from, step.to);
    else if (step.kind == NormalizeStep::Kind::replace_regex)
      growth *= 1 + double(step.to.size()); // a match may be empty
  refuse_growth(growth, "normalizer", *json, file);
}

void read_pre_tokenizer(const Json* json, std::string_view file, TokenizerModel& model) {
  if (json != nullptr) read_one_pre_tokenizer(*json, file, model, 0);
}

void read_decoder(const Json* json, std::string_view file, TokenizerModel& model) {
  if (json == nullptr) refuse(file, "no \"decoder\", which joins tokens with spaces; not supported");
  bool fused = false;
  read_one_decoder(*json, file, model, fused, 0);
  double growth = 1;
  for (const auto& [from, to] : model.replacements) growth *= growth_of(from, to);
  refuse_growth(growth, "decoder", *json, file);
  if (model.byte_level_text && (!model.replacements.empty() || model.start != TokenizerModel::Start::keep))
    refuse_at(file, json->offset, "decoder \"ByteLevel\" together with others is not supported");
}

void read_post_processor(const Json* json, std::string_view file, TokenizerModel& model) {
  if (json != nullptr) read_one_post_processor(*json, file, model, 0);
}

} // namespace luminal::detail
