// formats/tokenizer_json.cpp -- tokenizer.json of Hugging Face tokenizers with its
// tokenizer_config.json.
#include "formats/json.h"
#include "formats/tokenizer_json_stages.h"
#include "formats/tokenizer_model.h"
#include <algorithm>

namespace luminal {
namespace {

using namespace detail;

constexpr int64_t max_token_id = (int64_t{1} << 24) - 1;

class TokenizerJsonReader {
public:
  explicit TokenizerJsonReader(std::string_view file)
      : file_(file), out_(std::make_shared<TokenizerModel>()) {}

  Tokenizer read(const Json& json, std::string_view config_text) {
    for (const auto& [key, value] : json.as_object(file_, "the tokenizer")) {
      // Truncation and padding are choices of a caller that encodes batches: they change no single
      // text.
      constexpr std::string_view known[] = {"version",        "truncation", "padding",
                                            "added_tokens",   "normalizer", "pre_tokenizer",
                                            "post_processor", "decoder",    "model"};
      if (std::find(std::begin(known), std::end(known), key) == std::end(known))
        refuse_at(file_, value.offset, fmt::format("member {} is not known", in_quotes(key)));
    }
    const Json* model = json.find("model");
    if (model == nullptr) refuse_at(file_, json.offset, "no \"model\", expected a tokenizer.json");
    read_vocabulary(*model, json.find("added_tokens"));
    read_normalizer(json.find("normalizer"), file_, *out_);
    read_pre_tokenizer(json.find("pre_tokenizer"), file_, *out_);
    read_model(*model);
    read_added_tokens();
    read_decoder(json.find("decoder"), file_, *out_);
    read_post_processor(json.find("post_processor"), file_, *out_);
    if (!config_text.empty()) read_config(config_text);
    if (out_->bos == std::nullopt && out_->prefix.size() == 1) out_->bos = out_->prefix[0];
    // A text is one piece: cut where no token reaches across, words are found again.
    if (out_->splitter.empty() && !out_->whole_pieces && out_->word_end.empty() &&
        (out_->rule == PieceRule::ranked || out_->rule == PieceRule::unigram))
      out_->settle_cuts("\xE2\x96\x81");
    out_->description = fmt::format("tokenizer.json {}", kind_);
    return Tokenizer(std::move(out_));
  }

private:
  struct Added {
    int64_t id = 0;
    AddedToken token;
  };

  /// Tokens of the model and added tokens, by id; ids that nobody has become unused tokens.
  void read_vocabulary(const Json& model, const Json* added) {
    read_kind(model);
    const Json* vocabulary = model.find("vocab");
    if (vocabulary == nullptr) refuse_at(file_, model.offset, "the model has no \"vocab\"");
    int64_t count = 0;
    const auto checked = [&](const Json& json, const std::string& text) {
      const int64_t id = json.as_int(file_, fmt::format("the id of token {}", in_quotes(text)));
      if (id < 0 || id > max_token_id)
        refuse_at(
            file_, json.offset,
            fmt::format("the id of token {} is {}, expected 0 to {}", in_quotes(text), id, max_token_id));
      count = std::max(count, id + 1);
      return id;
    };
    std::vector<std::pair<int64_t, const std::string*>> tokens;
    if (out_->rule == PieceRule::unigram) {
      for (const Json& entry : vocabulary->as_array(file_, "\"vocab\"")) {
        const auto& pair = entry.as_array(file_, "a piece");
        if (pair.size() != 2)
          refuse_at(file_, entry.offset,
                    fmt::format("piece {} has {} parts, expected a text and a score", count, pair.size()));
        const double score = pair[1].as_real(file_, "a score");
        tokens.emplace_back(count++, &pair[0].as_string(file_, "a piece"));
        out_->scores.push_back(score);
      }
    } else {
      const auto& entries = vocabulary->as_object(file_, "\"vocab\"");
      tokens.reserve(entries.size());
      for (const auto& [text, id] : entries) tokens.emplace_back(checked(id, text), &text);
    }
    if (added != nullptr)
      for (const Json& entry : added->as_array(file_, "\"added_tokens\"")) read_added(entry, checked);
    if (tokens.empty() && added_.empty()) refuse_at(file_, vocabulary->offset, "the vocabulary is empty");
    // A lone huge id would ask for memory that the file does not account for.
    if (count > static_cast<int64_t>(tokens.size() + added_.size()) * 4 + 65536)
      refuse_at(file_, vocabulary->offset,
                fmt::format("token ids up to {} for {} tokens", count - 1, tokens.size() + added_.size()));

    std::vector<std::string> texts(static_cast<size_t>(count));
    std::vector<TokenKind> kinds(static_cast<size_t>(count), TokenKind::unused);
    for (const auto& [id, text] : tokens) {
      const auto row = static_cast<size_t>(id);
      if (kinds[row] != TokenKind::unused)
        refuse_at(
            file_, vocabulary->offset,
            fmt::format("tokens {} and {} have the same id {}", in_quotes(texts[row]), in_quotes(*text), id));
      texts[row] = *text;
      kinds[row] = TokenKind::normal;
    }
    out_->outside_model.resize(static_cast<size_t>(count), false);
    if (out_->rule == PieceRule::unigram) out_->scores.resize(static_cast<size_t>(count), 0);
    for (const auto& entry : added_) {
      const auto row = static_cast<size_t>(entry.id);
      if (kinds[row] != TokenKind::unused && texts[row] != entry.token.content)
        refuse(file_, fmt::format("added token {} has the id {} of token {}", in_quotes(entry.token.content),
                                  entry.id, in_quotes(texts[row])));
      if (kinds[row] == TokenKind::unused) out_->outside_model[row] = true;
      texts[row] = entry.token.content;
      kinds[row] = entry.token.special ? TokenKind::control : TokenKind::user_defined;
    }
    out_->texts.reserve(texts.size());
    out_->index.reserve(texts.size());
    for (size_t i = 0; i < texts.size(); ++i) out_->add_token(std::move(texts[i]), kinds[i]);
  }

  /// The rule of the model; files of old have no "type", and are BPE or unigram by their vocabulary.
  void read_kind(const Json& model) {
    const Json* type = model.find("type");
    const Json* vocabulary = model.find("vocab");
    kind_ = type != nullptr                                   ? type->as_string(file_, "the model's \"type\"")
            : vocabulary != nullptr && vocabulary->is_array() ? "Unigram"
                                                              : "BPE";
    constexpr std::pair<std::string_view, PieceRule> kinds[] = {{"BPE", PieceRule::ranked},
                                                                {"Unigram", PieceRule::unigram},
                                                                {"WordPiece", PieceRule::word_pieces},
                                                                {"WordLevel", PieceRule::words}};
    for (const auto& [name, rule] : kinds)
      if (kind_ == name) {
        out_->rule = rule;
        return;
      }
    refuse_at(file_, model.offset,
              fmt::format("tokenizer model {}, expected \"BPE\", \"Unigram\", \"WordPiece\" or \"WordLevel\"",
                          in_quotes(kind_)));
  }

  template <class Checked> void read_added(const Json& entry, Checked checked) {
    Added out;
    const Json* content = entry.find("content");
    const Json* id = entry.find("id");
    if (content == nullptr || id == nullptr)
      refuse_at(file_, entry.offset, "an added token has no \"content\" or no \"id\"");
    out.token.content = content->as_string(file_, "\"content\" of an added token");
    if (out.token.content.empty()) refuse_at(file_, entry.offset, "an added token is empty");
    out.id = checked(*id, out.token.content);
    out.token.id = static_cast<int32_t>(out.id);
    const auto flag = [&](const char* key, bool otherwise) {
      const Json* value = entry.find(key);
      return value == nullptr ? otherwise : value->as_bool(file_, in_quotes(key));
    };
    out.token.special = flag("special", false);
    out.token.normalized = flag("normalized", !out.token.special);
    out.token.single_word = flag("single_word", false);
    out.token.strip_left = flag("lstrip", false);
    out.token.strip_right = flag("rstrip", false);
    added_.push_back(std::move(out));
  }

  void read_added_tokens() {
    for (auto& entry : added_) {
      // Found in the normalized text, so its own text is normalized first.
      if (entry.token.normalized && !out_->normalizer.empty()) {
        entry.token.content = normalize(out_->normalizer, entry.token.content);
        if (!entry.token.special) out_->normalized_texts[entry.token.id] = entry.token.content;
      }
      out_->added.push_back(std::move(entry.token));
    }
    out_->index_added_tokens();
  }

  void read_model(const Json& model) {
    for (const auto& [key, value] : model.as_object(file_, "the model")) {
      if (key == "type" || key == "vocab" || key == "merges" || value.is_null()) continue;
      if (key == "unk_token") {
        const std::string& text = value.as_string(file_, "\"unk_token\"");
        const int32_t id = out_->index.find(out_->texts, text);
        if (id < 0)
          refuse_at(file_, value.offset,
                    fmt::format("\"unk_token\" {} is not in the vocabulary", in_quotes(text)));
        out_->unknown = id;
      } else if (key == "fuse_unk")
        out_->fuse_unknown = value.as_bool(file_, "\"fuse_unk\"");
      else if (key == "byte_fallback")
        out_->byte_fallback = value.as_bool(file_, "\"byte_fallback\"");
      else if (key == "ignore_merges")
        out_->whole_pieces = value.as_bool(file_, "\"ignore_merges\"");
      else if (key == "dropout") {
        if (value.as_real(file_, "\"dropout\"") != 0)
          refuse_at(file_, value.offset, "\"dropout\" makes the tokens random, expected none");
      } else if (key == "unk_id" && out_->rule == PieceRule::unigram) {
        const int64_t id = value.as_int(file_, "\"unk_id\"");
        if (id < 0 || static_cast<size_t>(id) >= out_->texts.size())
          refuse_at(file_, value.offset,
                    fmt::format("\"unk_id\" is {}, expected less than {}", id, out_->texts.size()));
        out_->unknown = static_cast<int32_t>(id);
      } else if (key == "max_input_chars_per_word" && out_->rule == PieceRule::word_pieces) {
        const int64_t most = value.as_int(file_, in_quotes(key));
        if (most < 1 || most > 100'000)
          refuse_at(file_, value.offset, fmt::format("{} is {}, expected 1 to 100000", in_quotes(key), most));
        out_->longest_word = static_cast<size_t>(most);
      } else if (key == "continuing_subword_prefix" && out_->rule == PieceRule::word_pieces) {
        out_->inner_prefix = value.as_string(file_, in_quotes(key));
      } else if (key == "end_of_word_suffix" && out_->rule == PieceRule::ranked) {
        out_->word_end = value.as_string(file_, in_quotes(key));
      } else if (key == "continuing_subword_prefix") {
        if (!value.as_string(file_, in_quotes(key)).empty())
          refuse_at(
              file_, value.offset,
              fmt::format("{} {} is not supported", in_quotes(key), in_quotes(value.as_string(file_, key))));
      } else {
        refuse_at(file_, value.offset, fmt::format("member {} of the model is not known", in_quotes(key)));
      }
    }
    if (out_->byte_fallback) out_->find_byte_tokens();
    if (out_->rule == PieceRule::unigram) settle_unigram();
    if (out_->rule != PieceRule::ranked) return;
    const Json* merges = model.find("merges");
    if (merges == nullptr) refuse_at(file_, model.offset, "the model has no \"merges\"");
    const auto& list = merges->as_array(file_, "\"merges\"");
    out_->merges.reserve(list.size());
    for (size_t rank = 0; rank < list.size(); ++rank) read_merge(list[rank], static_cast<int32_t>(rank));
  }

  void settle_unigram() {
    out_->index_pieces();
    double lowest = out_->scores.empty() ? 0 : out_->scores[0];
    for (const double score : out_->scores) lowest = std::min(lowest, score);
    out_->unknown_score = lowest - unknown_penalty;
  }

  /// "a b", or ["a", "b"] in newer files.
  void read_merge(const Json& json, int32_t rank) {
    std::string_view left, right;
    if (json.is_array()) {
      const auto& pair = json.as_array(file_, "a merge");
      if (pair.size() != 2)
        refuse_at(file_, json.offset, fmt::format("merge {} has {} parts, expected 2", rank, pair.size()));
      left = pair[0].as_string(file_, "a merge");
      right = pair[1].as_string(file_, "a merge");
    } else {
      const std::string_view text = json.as_string(file_, "a merge");
      const size_t space = text.find(' ');
      if (space == std::string_view::npos || text.find(' ', space + 1) != std::string_view::npos)
        refuse_at(
            file_, json.offset,
            fmt::format("merge {} is {}, expected two tokens with a space between", rank, in_quotes(text)));
      left = text.substr(0, space);
      right = text.substr(space + 1);
    }
    const int32_t l = out_->index.find(out_->texts, left), r = out_->index.find(out_->texts, right);
    joined_.assign(left).append(right);
    const int32_t joined = out_->index.find(out_->texts, joined_);
    if (l < 0 || r < 0 || joined < 0)
      refuse_at(file_, json.offset,
                fmt::format("merge {} of {} and {}: {} is not in the vocabulary", rank, in_quotes(left),
                            in_quotes(right),
                            in_quotes(l < 0   ? left
                                      : r < 0 ? right
                                              : std::string_view(joined_))));
    out_->merges.add(l, r, rank, joined);
  }

  void read_config(std::string_view text) {
    const std::string file = config_file_beside(file_);
    const Json config = parse_json(text, file);
    config.as_object(file, "the configuration");
    if (const auto bos = named_token(*out_, config, file, "bos_token")) out_->bos = bos;
    if (const auto eos = named_token(*out_, config, file, "eos_token")) out_->eos.push_back(*eos);
    out_->pad = named_token(*out_, config, file, "pad_token");
    // These classes build the template from the two switches; the others leave it to
    // tokenizer.json.
    const Json* kind = config.find("tokenizer_class");
    const std::string_view name =
        kind == nullptr ? std::string_view() : kind->as_string(file, "\"tokenizer_class\"");
    if (!name.starts_with("Llama") && !name.starts_with("CodeLlama") && !name.starts_with("Gemma")) return;
    if (const Json* add = config.find("add_bos_token")) {
      out_->prefix.clear();
      if (add->as_bool(file, "\"add_bos_token\"") && out_->bos) out_->prefix.push_back(*out_->bos);
    }
    if (const Json* add = config.find("add_eos_token")) {
      out_->suffix.clear();
      if (add->as_bool(file, "\"add_eos_token\"") && !out_->eos.empty()) out_->suffix.push_back(out_->eos[0]);
    }
  }

  std::string_view file_;
  std::shared_ptr<TokenizerModel> out_;
  std::string kind_;
  std::vector<Added> added_;
  std::string joined_;
};

} // namespace

namespace {

/// A pattern of the file may run too long on the file's own tokens.
Tokenizer read(const Json& json, std::string_view file_name, std::string_view config) {
  try {
    return TokenizerJsonReader(file_name).read(json, config);
  } catch (const Error& error) {
    throw ParseFailure{fmt::format("{}: {}", file_name, error.what())};
  }
}

} // namespace

Result<Tokenizer> tokenizer_from_json(std::string_view tokenizer_json, std::string_view file_name,
                                      std::string_view tokenizer_config_json) {
  return guarded(file_name, [&]() -> Tokenizer {
    const Json json = parse_json(tokenizer_json, file_name);
    json.as_object(file_name, "the tokenizer");
    return read(json, file_name, tokenizer_config_json);
  });
}

Result<Tokenizer> tokenizer_from_vocabulary(std::string_view vocab_json, std::string_view merges_txt,
                                            std::string_view file_name,
                                            std::string_view tokenizer_config_json) {
  return guarded(file_name, [&]() -> Tokenizer {
    return read(tokenizer_of_vocabulary(vocab_json, merges_txt, file_name, tokenizer_config_json), file_name,
                tokenizer_config_json);
  });
}

} // namespace luminal
