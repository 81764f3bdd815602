// formats/tokenizer_sentencepiece.cpp -- tokenizer.model of SentencePiece (BPE with scores, unigram), a
// protocol buffer. Fields:
// https://github.com/google/sentencepiece/blob/master/src/sentencepiece_model.proto; the wire
// format: https://protobuf.dev/programming-guides/encoding
#include "formats/json.h"
#include "formats/parse.h"
#include "formats/tokenizer_model.h"
#include <algorithm>
#include <cmath>
#include <cstring>

namespace luminal {
namespace {

using namespace detail;

/// One field of a message: its number, and its value as an integer, four bytes, or a text.
struct Field {
  uint64_t number = 0, integer = 0;
  std::string_view text;
  uint64_t offset = 0;
};

/// Goes through the fields of a message.
class Message {
public:
  Message(std::string_view file, std::string_view bytes, uint64_t offset)
      : file_(file), bytes_(bytes), offset_(offset) {}

  bool next(Field& field) {
    if (at_ == bytes_.size()) return false;
    field = {};
    field.offset = offset_ + at_;
    const uint64_t key = varint();
    field.number = key >> 3;
    if (field.number == 0)
      refuse_at(file_, field.offset, "a field with the number 0, expected a protocol buffer");
    switch (key & 7) {
    case 0: field.integer = varint(); break;
    case 1: take(8); break;
    case 2: {
      const uint64_t length = varint();
      field.offset = offset_ + at_;
      field.text = take(length);
      break;
    }
    case 5: {
      uint32_t bits = 0;
      std::memcpy(&bits, take(4).data(), 4);
      field.integer = bits;
      break;
    }
    default: refuse_at(file_, field.offset, fmt::format("wire type {}, expected a protocol buffer", key & 7));
    }
    return true;
  }

private:
  uint64_t varint() {
    uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      const auto byte = static_cast<unsigned char>(take(1)[0]);
      value |= static_cast<uint64_t>(byte & 127) << shift;
      if (byte < 128) return value;
    }
    refuse_at(file_, offset_ + at_, "a number of more than 64 bits");
  }
  std::string_view take(uint64_t count) {
    if (count > bytes_.size() - at_)
      refuse_at(file_, offset_ + at_,
                fmt::format("a field of {} bytes, {} are left: truncated?", count, bytes_.size() - at_));
    const std::string_view part = bytes_.substr(at_, count);
    at_ += count;
    return part;
  }

  std::string_view file_, bytes_;
  uint64_t offset_;
  size_t at_ = 0;
};

class SentencePieceReader {
public:
  explicit SentencePieceReader(std::string_view file)
      : file_(file), out_(std::make_shared<TokenizerModel>()) {}

  Tokenizer read(std::string_view bytes, std::string_view config_text) {
    SentencePieceRules rules;
    Message model(file_, bytes, 0);
    for (Field field; model.next(field);) {
      if (field.number == 1) read_piece(field);
      if (field.number == 2) read_trainer(field);
      if (field.number == 3) read_normalizer(field, rules);
    }
    if (out_->texts.empty()) refuse(file_, "no pieces, expected a tokenizer.model of SentencePiece");
    const auto known = [&](std::optional<int32_t> id) {
      return id && *id >= 0 && static_cast<size_t>(*id) < out_->texts.size() ? id : std::nullopt;
    };
    out_->unknown = known(unknown_), out_->bos = known(bos_), out_->pad = known(pad_);
    if (const auto eos = known(eos_)) out_->eos.push_back(*eos);
    bool add_bos = true, add_eos = false;
    if (!config_text.empty()) read_config(config_text, add_bos, add_eos);
    out_->fuse_unknown = true;
    settle_sentencepiece(*out_, rules);
    out_->index_added_tokens();
    if (add_bos && out_->bos) out_->prefix.push_back(*out_->bos);
    if (add_eos && !out_->eos.empty()) out_->suffix.push_back(out_->eos[0]);
    out_->description = out_->rule == PieceRule::unigram ? "SentencePiece unigram" : "SentencePiece BPE";
    return Tokenizer(std::move(out_));
  }

private:
  void read_piece(const Field& piece) {
    std::string text;
    float score = 0;
    uint64_t type = 1;
    Message fields(file_, piece.text, piece.offset);
    for (Field field; fields.next(field);) {
      if (field.number == 1) text = field.text;
      if (field.number == 2) {
        const auto bits = static_cast<uint32_t>(field.integer);
        std::memcpy(&score, &bits, 4);
      }
      if (field.number == 3) type = field.integer;
    }
    if (type < 1 || type > 6)
      refuse_at(file_, piece.offset,
                fmt::format("piece {} has type {}, expected 1 to 6", out_->texts.size(), type));
    if (std::isnan(score)) refuse_at(file_, piece.offset, "a piece's score is NaN");
    constexpr TokenKind kinds[] = {TokenKind::normal,       TokenKind::unknown, TokenKind::control,
                                   TokenKind::user_defined, TokenKind::unused,  TokenKind::byte};
    const TokenKind kind = kinds[type - 1];
    add(std::move(text), score, kind);
  }

  void add(std::string text, float score, TokenKind kind) {
    const bool special = kind == TokenKind::control || kind == TokenKind::unknown;
    if ((special || kind == TokenKind::user_defined) && !text.empty()) {
      AddedToken token;
      token.id = static_cast<int32_t>(out_->texts.size());
      token.content = text;
      token.special = special;
      out_->added.push_back(std::move(token));
    }
    out_->scores.push_back(score);
    out_->add_token(std::move(text), kind);
  }

  void read_trainer(const Field& trainer) {
    uint64_t kind = 1;
    Message fields(file_, trainer.text, trainer.offset);
    for (Field field; fields.next(field);) {
      const auto id = static_cast<int32_t>(static_cast<int64_t>(field.integer));
      if (field.number == 3) kind = field.integer;
      if (field.number == 24 && field.integer != 0)
        refuse_at(file_, field.offset, "spaces behind words (treat_whitespace_as_suffix) are not supported");
      if (field.number == 35) out_->byte_fallback = field.integer != 0;
      if (field.number == 40) unknown_ = id;
      if (field.number == 41) bos_ = id;
      if (field.number == 42) eos_ = id;
      if (field.number == 43) pad_ = id;
    }
    if (kind != 1 && kind != 2)
      refuse(file_, fmt::format("a SentencePiece model of kind {}, expected unigram or BPE",
                                kind == 3   ? "word"
                                : kind == 4 ? "char"
                                            : "unknown"));
    out_->rule = kind == 1 ? PieceRule::unigram : PieceRule::scored;
  }

  void read_normalizer(const Field& normalizer, SentencePieceRules& rules) {
    Message fields(file_, normalizer.text, normalizer.offset);
    for (Field field; fields.next(field);) {
      if (field.number == 2 && !field.text.empty())
        rules.characters = std::make_shared<const CharacterTable>(field.text, file_);
      if (field.number == 3) rules.dummy_prefix = field.integer != 0;
      if (field.number == 4) rules.remove_spaces = field.integer != 0;
      if (field.number == 5 && field.integer == 0)
        refuse_at(file_, field.offset, "spaces that stay spaces (escape_whitespaces) are not supported");
    }
  }

  /// tokenizer_config.json: switches, and tokens behind those of the model.
  void read_config(std::string_view text, bool& add_bos, bool& add_eos) {
    const std::string file = config_file_beside(file_);
    const Json config = parse_json(text, file);
    config.as_object(file, "the configuration");
    read_added_tokens_decoder(*out_, config, file);
    if (const Json* add = config.find("add_bos_token")) add_bos = add->as_bool(file, "\"add_bos_token\"");
    if (const Json* add = config.find("add_eos_token")) add_eos = add->as_bool(file, "\"add_eos_token\"");
  }

  std::string_view file_;
  std::shared_ptr<TokenizerModel> out_;
  // As the trainer has them where a file says nothing.
  std::optional<int32_t> unknown_ = 0, bos_ = 1, eos_ = 2, pad_;
};

} // namespace

void detail::settle_sentencepiece(TokenizerModel& model, const SentencePieceRules& rules) {
  const std::string mark = "\xE2\x96\x81";
  model.find_byte_tokens();
  for (size_t byte = 0; byte < 256; ++byte)
    if (model.byte_tokens[byte] < 0)
      model.byte_tokens[byte] = model.index.find(model.texts, std::string(1, static_cast<char>(byte)));
  model.replacements = {{mark, " "}};
  using Kind = NormalizeStep::Kind;
  if (rules.characters) {
    model.normalizer.push_back({Kind::characters, "", "", nullptr});
    model.normalizer.back().table = rules.characters;
  }
  if (rules.remove_spaces) {
    model.normalizer.push_back({Kind::replace_regex, "", " ",
                                std::make_shared<const Regex>(" {2,}", "SentencePiece", "the pattern")});
    const auto spaces_at_ends = std::make_shared<const Regex>("^ | $(?!\\n)", "SentencePiece", "the pattern");
    model.normalizer.push_back({Kind::replace_regex, "", "", spaces_at_ends});
  }
  if (rules.dummy_prefix && rules.remove_spaces)
    model.normalizer.push_back({Kind::prepend, "", " ", nullptr});
  model.normalizer.push_back({Kind::replace_text, " ", mark, nullptr});
  model.space_after_special = rules.dummy_prefix && !rules.remove_spaces;
  if (rules.dummy_prefix || rules.remove_spaces) {
    model.start = TokenizerModel::Start::strip_spaces;
    model.start_spaces = 1;
  }
  if (model.rule == PieceRule::unigram) {
    model.index_pieces();
    model.single_precision = true;
    double lowest = 0;
    bool first = true;
    for (size_t i = 0; i < model.scores.size(); ++i)
      if (model.kinds[i] == TokenKind::normal) {
        lowest = first ? model.scores[i] : std::min(lowest, model.scores[i]);
        first = false;
      }
    model.unknown_score = lowest - unknown_penalty;
  }
  model.settle_cuts(mark);
}

Result<Tokenizer> tokenizer_from_sentencepiece(std::string_view bytes, std::string_view file_name,
                                               std::string_view tokenizer_config_json) {
  return guarded(file_name,
                 [&] { return SentencePieceReader(file_name).read(bytes, tokenizer_config_json); });
}

} // namespace luminal
