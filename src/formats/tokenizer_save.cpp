// formats/tokenizer_save.cpp -- writing tokenizers.
#include "formats/tokenizer_save.h"
#include "formats/json.h"
#include "formats/tokenizer_model.h"
#include "formats/tokenizer_patterns.h"
#include <algorithm>
#include <map>

namespace luminal {
namespace {

using namespace detail;

const char* const mark = "\xE2\x96\x81";

/// The name in GGUF of what cuts a text before byte-level BPE.
std::string pre_tokenizer_name(const TokenizerModel& model, const std::string& file) {
  std::vector<std::string> patterns;
  bool digits = false;
  for (const SplitStep& step : model.splitter) {
    if (step.kind == SplitStep::Kind::digits) digits = true;
    if (step.regex) patterns.push_back(step.regex->pattern());
  }
  if (digits || (patterns.size() == 2 && patterns[0] == "\\p{N}")) return "starcoder";
  const std::pair<std::string_view, const char*> known[] = {
      {patterns::gpt2, "gpt-2"},  {patterns::gpt2_spaces, "gpt-2"}, {patterns::llama3, "dbrx"},
      {patterns::cl100k, "dbrx"}, {patterns::qwen2, "qwen2"},       {patterns::qwen, "qwen2"},
      {patterns::o200k, "gpt-4o"}};
  std::string all;
  for (const std::string& pattern : patterns) {
    all += (all.empty() ? "" : " then ") + in_quotes(pattern);
    for (const auto& [text, name] : known)
      if (patterns.size() == 1 && pattern == text)
        return name == std::string_view("dbrx") && model.whole_pieces ? "llama-bpe" : name;
  }
  refuse(file, fmt::format("the tokenizer cuts texts by {}, which has no name in GGUF",
                           all.empty() ? "nothing" : all));
}

/// Score of each token by the rank of the merge that makes it: the same order, as scores.
std::vector<double> scores_of_merges(const TokenizerModel& model) {
  std::vector<double> scores(model.texts.size(), 0);
  std::vector<bool> made(model.texts.size(), false);
  model.merges.each([&](const MergeTable::Merge& merge) {
    const auto row = static_cast<size_t>(merge.result);
    scores[row] = made[row] ? std::max(scores[row], -1.0 - merge.rank) : -1.0 - merge.rank;
    made[row] = true;
  });
  for (size_t i = 0; i < scores.size(); ++i)
    if (!made[i] && model.kinds[i] == TokenKind::normal) scores[i] = -1e6 - static_cast<double>(i);
  return scores;
}

std::vector<MergeTable::Merge> merges_by_rank(const TokenizerModel& model) {
  std::vector<MergeTable::Merge> merges;
  model.merges.each([&](const MergeTable::Merge& merge) { merges.push_back(merge); });
  std::sort(merges.begin(), merges.end(), [](const auto& a, const auto& b) { return a.rank < b.rank; });
  return merges;
}

/// Merges in the order in which scores join: every cut of a token into two tokens, the highest score
/// first.
std::vector<MergeTable::Merge> merges_of_scores(const TokenizerModel& model) {
  std::vector<MergeTable::Merge> merges;
  std::vector<double> scores;
  for (size_t i = 0; i < model.texts.size(); ++i) {
    const std::string& text = model.texts[i];
    if (model.kinds[i] != TokenKind::normal) continue;
    for (size_t cut = 0; cut < text.size();) {
      next_character(text, cut);
      if (cut == text.size()) break;
      const int32_t left = model.plain_token(std::string_view(text).substr(0, cut)),
                    right = model.plain_token(std::string_view(text).substr(cut));
      if (left >= 0 && right >= 0) merges.push_back({left, right, 0, static_cast<int32_t>(i)});
    }
  }
  std::stable_sort(merges.begin(), merges.end(), [&](const auto& a, const auto& b) {
    return model.scores[static_cast<size_t>(a.result)] > model.scores[static_cast<size_t>(b.result)];
  });
  return merges;
}

bool joins_at_marks(const TokenizerModel& model) {
  return model.rule == PieceRule::scored ||
         (model.rule == PieceRule::ranked && model.byte_fallback && !model.byte_level_text);
}

using Metadata = std::vector<std::pair<std::string, GgufValue>>;

Metadata metadata_of(const Tokenizer& tokenizer, const std::string& file) {
  const TokenizerModel& model = tokenizer.model();
  Metadata out;
  const auto put = [&](const std::string& key, GgufValue value) {
    out.emplace_back("tokenizer.ggml." + key, std::move(value));
  };
  std::vector<std::string> texts = model.texts;
  std::vector<int64_t> types;
  for (size_t i = 0; i < texts.size(); ++i) {
    constexpr int64_t of_kind[] = {1, 2, 3, 4, 5, 6};
    types.push_back(of_kind[static_cast<size_t>(model.kinds[i])]);
    if (texts[i].empty()) texts[i] = fmt::format("[PAD{}]", i); // every token has a text of its own
  }
  std::vector<double> scores;
  if (model.rule == PieceRule::ranked && model.byte_level_text) {
    put("model", GgufValue::of_string("gpt2"));
    put("pre", GgufValue::of_string(pre_tokenizer_name(model, file)));
    std::vector<std::string> merges;
    for (const MergeTable::Merge& merge : merges_by_rank(model))
      merges.push_back(model.texts[static_cast<size_t>(merge.left)] + " " +
                       model.texts[static_cast<size_t>(merge.right)]);
    put("merges", GgufValue::of_strings(std::move(merges)));
  } else if (joins_at_marks(model)) {
    put("model", GgufValue::of_string("llama"));
    scores = model.rule == PieceRule::scored ? model.scores : scores_of_merges(model);
    for (size_t byte = 0; byte < 256; ++byte)
      if (const int32_t id = model.byte_tokens[byte]; id >= 0 && texts[static_cast<size_t>(id)].size() == 6)
        types[static_cast<size_t>(id)] = 6;
    const bool prefix =
        model.space_after_special ||
        std::any_of(model.normalizer.begin(), model.normalizer.end(),
                    [](const NormalizeStep& s) { return s.kind == NormalizeStep::Kind::prepend; });
    put("add_space_prefix", GgufValue::of_bool(prefix));
  } else if (model.rule == PieceRule::word_pieces && model.inner_prefix == "##") {
    put("model", GgufValue::of_string("bert"));
    for (size_t i = 0; i < texts.size(); ++i) {
      if (types[i] != 1) continue;
      if (texts[i].starts_with("##"))
        texts[i].erase(0, 2);
      else
        texts[i].insert(0, mark);
    }
  } else {
    refuse(file, fmt::format("a tokenizer of the kind {}, which is not written to GGUF", model.description));
  }
  put("tokens", GgufValue::of_strings(std::move(texts)));
  put("token_type", GgufValue::of_i32s(std::move(types)));
  if (!scores.empty()) put("scores", GgufValue::of_f32s(std::move(scores)));
  const auto token = [&](const char* key, std::optional<int32_t> id) {
    if (id) put(key, GgufValue::of_u32(static_cast<uint32_t>(*id)));
  };
  token("bos_token_id", model.bos);
  if (!tokenizer.eos().empty()) token("eos_token_id", tokenizer.eos()[0]);
  if (tokenizer.eos().size() > 1) token("eot_token_id", tokenizer.eos()[1]);
  token("unknown_token_id", model.unknown);
  token("padding_token_id", model.pad);
  put("add_bos_token", GgufValue::of_bool(tokenizer.adds_bos()));
  put("add_eos_token", GgufValue::of_bool(tokenizer.adds_eos()));
  return out;
}

std::string flag(bool value) { return value ? "true" : "false"; }

std::string added_tokens(const TokenizerModel& model) {
  std::string out = "[";
  for (const AddedToken& token : model.added)
    out += fmt::format(
        R"({}{{"id":{},"content":{},"single_word":{},"lstrip":{},"rstrip":{},"normalized":false,"special":{}}})",
        out.size() > 1 ? "," : "", token.id, json_string(token.content), flag(token.single_word),
        flag(token.strip_left), flag(token.strip_right), flag(token.special));
  return out + "]";
}

/// Tokens around a text; null where there are none.
std::string post_processor(const TokenizerModel& model) {
  if (model.prefix.empty() && model.suffix.empty()) return "null";
  std::map<int32_t, std::string> special;
  const auto part = [&](int32_t id) {
    const std::string name = json_string(model.texts[static_cast<size_t>(id)]);
    special[id] = name;
    return fmt::format(R"({{"SpecialToken":{{"id":{},"type_id":0}}}})", name);
  };
  std::string single;
  for (const int32_t id : model.prefix) single += part(id) + ",";
  single += R"({"Sequence":{"id":"A","type_id":0}})";
  for (const int32_t id : model.suffix) single += "," + part(id);
  std::string tokens;
  for (const auto& [id, name] : special)
    tokens += fmt::format(R"({}{}:{{"id":{},"ids":[{}],"tokens":[{}]}})", tokens.empty() ? "" : ",", name,
                          name, id, name);
  return fmt::format(
      R"({{"type":"TemplateProcessing","single":[{}],"pair":[{},{{"Sequence":{{"id":"B","type_id":1}}}}],"special_tokens":{{{}}}}})",
      single, single, tokens);
}

std::string json_of(const Tokenizer& tokenizer, const std::string& file) {
  const TokenizerModel& model = tokenizer.model();
  const bool bytes = model.rule == PieceRule::ranked && model.byte_level_text;
  if (!bytes && !joins_at_marks(model))
    refuse(file, fmt::format("a tokenizer of the kind {}, which is not written to tokenizer.json",
                             model.description));
  std::string normalizer = "null", pre = "null", decoder;
  if (bytes) {
    std::string steps;
    for (const SplitStep& step : model.splitter)
      if (step.kind == SplitStep::Kind::regex && step.regex)
        steps += fmt::format(
            R"({{"type":"Split","pattern":{{"Regex":{}}},"behavior":"Isolated","invert":false}},)",
            json_string(step.regex->pattern()));
    pre = fmt::format(
        R"({{"type":"Sequence","pretokenizers":[{}{{"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true,"use_regex":false}}]}})",
        steps);
    decoder = R"({"type":"ByteLevel","add_prefix_space":true,"trim_offsets":true,"use_regex":true})";
  } else {
    const bool prefix = model.space_after_special || model.start == TokenizerModel::Start::strip_spaces;
    normalizer = fmt::format(
        R"({{"type":"Sequence","normalizers":[{}{{"type":"Replace","pattern":{{"String":" "}},"content":"{}"}}]}})",
        prefix ? fmt::format(R"({{"type":"Prepend","prepend":"{}"}},)", mark) : "", mark);
    decoder = fmt::format(
        R"({{"type":"Sequence","decoders":[{{"type":"Replace","pattern":{{"String":"{}"}},"content":" "}},{{"type":"ByteFallback"}},{{"type":"Fuse"}}{}]}})",
        mark, prefix ? R"(,{"type":"Strip","content":" ","start":1,"stop":0})" : "");
  }
  std::string vocabulary, merges;
  for (size_t i = 0; i < model.texts.size(); ++i) {
    const bool only_added = !model.outside_model.empty() && model.outside_model[i];
    if (model.texts[i].empty() || only_added || model.index.find(model.texts, model.texts[i]) != int32_t(i))
      continue;
    vocabulary += fmt::format("{}{}:{}", vocabulary.empty() ? "" : ",", json_string(model.texts[i]), i);
  }
  for (const MergeTable::Merge& merge :
       model.rule == PieceRule::scored ? merges_of_scores(model) : merges_by_rank(model))
    merges += fmt::format("{}[{},{}]", merges.empty() ? "" : ",",
                          json_string(model.texts[static_cast<size_t>(merge.left)]),
                          json_string(model.texts[static_cast<size_t>(merge.right)]));
  return fmt::format(
      R"({{"version":"1.0","truncation":null,"padding":null,"added_tokens":{},"normalizer":{},"pre_tokenizer":{},"post_processor":{},"decoder":{},"model":{{"type":"BPE","dropout":null,"unk_token":{},"continuing_subword_prefix":null,"end_of_word_suffix":null,"fuse_unk":{},"byte_fallback":{},"ignore_merges":{},"vocab":{{{}}},"merges":[{}]}}}})",
      added_tokens(model), normalizer, pre, post_processor(model), decoder,
      model.unknown ? json_string(model.texts[static_cast<size_t>(*model.unknown)]) : "null", flag(!bytes),
      flag(!bytes), flag(bytes && model.whole_pieces), vocabulary, merges);
}

} // namespace

Result<std::vector<std::pair<std::string, GgufValue>>> tokenizer_metadata(const Tokenizer& tokenizer,
                                                                          const std::string& file) {
  return guarded(file, [&] { return metadata_of(tokenizer, file); });
}

Result<std::string> tokenizer_json(const Tokenizer& tokenizer, const std::string& file) {
  return guarded(file, [&] { return json_of(tokenizer, file); });
}

} // namespace luminal
