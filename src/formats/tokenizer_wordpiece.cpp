// formats/tokenizer_wordpiece.cpp -- WordPiece, the tokenizer of BERT: the longest token from the
// left; and vocab.txt. https://github.com/google-research/bert, tokenization.py
#include "formats/json.h"
#include "formats/parse.h"
#include "formats/tokenizer_model.h"
#include <algorithm>

namespace luminal {
namespace detail {

void encode_word_pieces(const TokenizerModel& model, std::string_view piece, std::vector<int32_t>& out) {
  const auto begins_character = [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; };
  if (static_cast<size_t>(std::count_if(piece.begin(), piece.end(), begins_character)) > model.longest_word)
    return append_unknown(model, piece, out);
  const size_t before = out.size();
  std::string text;
  for (size_t start = 0; start < piece.size();) {
    size_t end = piece.size();
    int32_t id = -1;
    while (end > start) {
      text.assign(start == 0 ? model.word_prefix : model.inner_prefix).append(piece, start, end - start);
      id = model.plain_token(text);
      if (id >= 0) break;
      do --end;
      while (end > start && !begins_character(piece[end]));
    }
    if (id < 0) { // no token of the word stays
      out.resize(before);
      return append_unknown(model, piece, out);
    }
    out.push_back(id);
    start = end;
  }
}

void add_bert_normalizer(TokenizerModel& model, bool clean, bool ideographs, bool strip_accents,
                         bool lowercase) {
  using Kind = NormalizeStep::Kind;
  const auto add = [&](Kind kind) { model.normalizer.push_back({kind, "", "", nullptr}); };
  if (clean) add(Kind::clean);
  if (ideographs) add(Kind::space_ideographs);
  if (strip_accents) {
    add(Kind::nfd);
    add(Kind::strip_accents);
  }
  if (lowercase) add(Kind::lowercase);
}

void add_bert_splitter(TokenizerModel& model) {
  SplitStep spaces;
  spaces.kind = SplitStep::Kind::whitespace;
  spaces.behavior = SplitStep::Behavior::removed;
  SplitStep punctuation;
  punctuation.kind = SplitStep::Kind::punctuation;
  model.splitter.push_back(std::move(spaces));
  model.splitter.push_back(std::move(punctuation));
}

} // namespace detail

namespace {

using namespace detail;

class WordPieceReader {
public:
  explicit WordPieceReader(std::string_view file) : file_(file), out_(std::make_shared<TokenizerModel>()) {}

  Tokenizer read(std::string_view text, std::string_view config_text) {
    if (const auto bad = find_invalid_utf8(text)) refuse_at(file_, *bad, "not UTF-8");
    read_lines(text);
    const std::string config_file = config_file_beside(file_);
    Json config;
    if (!config_text.empty()) {
      config = parse_json(config_text, config_file);
      config.as_object(config_file, "the configuration");
      read_added_tokens_decoder(*out_, config, config_file);
    }
    const auto special = [&](const char* key, const char* otherwise) {
      auto id = config.is_object() ? named_token(*out_, config, config_file, key) : std::nullopt;
      if (!id) {
        const int32_t found = out_->index.find(out_->texts, otherwise);
        if (found >= 0) id = found;
      }
      if (id) make_special(*id);
      return id;
    };
    out_->unknown = special("unk_token", "[UNK]");
    out_->pad = special("pad_token", "[PAD]");
    const auto begin = special("cls_token", "[CLS]"), end = special("sep_token", "[SEP]");
    special("mask_token", "[MASK]");
    if (!out_->unknown || !begin || !end)
      refuse(file_, "no [UNK], [CLS] and [SEP] among the lines, expected the vocab.txt of a BERT model");
    out_->bos = begin;
    out_->eos.push_back(*end);
    out_->prefix.push_back(*begin);
    out_->suffix.push_back(*end);
    const auto flag = [&](const char* key, bool otherwise) {
      const Json* value = config.is_object() ? config.find(key) : nullptr;
      return value == nullptr ? otherwise : value->as_bool(config_file, in_quotes(key));
    };
    const bool lowercase = flag("do_lower_case", true);
    add_bert_normalizer(*out_, true, flag("tokenize_chinese_chars", true), flag("strip_accents", lowercase),
                        lowercase);
    add_bert_splitter(*out_);
    out_->rule = PieceRule::word_pieces;
    out_->inner_prefix = out_->joined_prefix = "##";
    out_->spaces_between = out_->tidy_spaces = true;
    out_->index_added_tokens();
    out_->description = "WordPiece";
    return Tokenizer(std::move(out_));
  }

private:
  /// A token a line; its number is its place.
  void read_lines(std::string_view text) {
    size_t count = static_cast<size_t>(std::count(text.begin(), text.end(), '\n')) + 1;
    out_->texts.reserve(count);
    out_->index.reserve(count);
    for (size_t begin = 0; begin < text.size();) {
      const size_t end = std::min(text.find('\n', begin), text.size());
      std::string_view line = text.substr(begin, end - begin);
      if (line.ends_with('\r')) line.remove_suffix(1);
      out_->add_token(std::string(line), TokenKind::normal);
      begin = end + 1;
    }
  }

  void make_special(int32_t id) {
    const auto row = static_cast<size_t>(id);
    if (out_->kinds[row] == TokenKind::control) return;
    out_->kinds[row] = TokenKind::control;
    AddedToken token;
    token.id = id;
    token.content = out_->texts[row];
    token.special = true;
    out_->added.push_back(std::move(token));
  }

  std::string_view file_;
  std::shared_ptr<TokenizerModel> out_;
};

} // namespace

Result<Tokenizer> tokenizer_from_vocabulary_lines(std::string_view text, std::string_view file_name,
                                                  std::string_view tokenizer_config_json) {
  return guarded(file_name, [&] { return WordPieceReader(file_name).read(text, tokenizer_config_json); });
}

} // namespace luminal
