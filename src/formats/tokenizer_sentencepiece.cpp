// formats/tokenizer_sentencepiece.cpp -- tokenizer.model of SentencePiece (BPE with scores), a
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

class Reader {
public:
  explicit Reader(std::string_view file) : file_(file), out_(std::make_shared<TokenizerModel>()) {}

  Tokenizer read(std::string_view bytes, std::string_view config_text) {
    // Llama 3 and its like have another file of this name: lines of a token in base64 and its rank.
    const std::string_view line = bytes.substr(0, bytes.find('\n'));
    if (line.size() < bytes.size() && line.size() < 200 && line.ends_with(" 0"))
      refuse(file_,
             "a tiktoken file, expected a SentencePiece model; tokenizer.json beside it is read instead");
    bool dummy_prefix = true;
    Message model(file_, bytes, 0);
    for (Field field; model.next(field);) {
      if (field.number == 1) read_piece(field);
      if (field.number == 2) read_trainer(field);
      if (field.number == 3) dummy_prefix = read_normalizer(field);
    }
    if (out_->texts.empty()) refuse(file_, "no pieces, expected a tokenizer.model of SentencePiece");
    const auto known = [&](std::optional<int32_t> id) {
      return id && *id >= 0 && static_cast<size_t>(*id) < out_->texts.size() ? id : std::nullopt;
    };
    out_->unknown = known(unknown_), out_->bos = known(bos_), out_->pad = known(pad_);
    if (const auto eos = known(eos_)) out_->eos.push_back(*eos);
    bool add_bos = true, add_eos = false;
    if (!config_text.empty()) read_config(config_text, add_bos, add_eos);
    settle_sentencepiece(*out_, dummy_prefix);
    out_->index_added_tokens();
    if (add_bos && out_->bos) out_->prefix.push_back(*out_->bos);
    if (add_eos && !out_->eos.empty()) out_->suffix.push_back(out_->eos[0]);
    out_->description = "SentencePiece BPE";
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
    constexpr std::string_view names[] = {"unigram", "BPE", "word", "char"};
    if (kind != 2)
      refuse(file_,
             fmt::format(
                 "a SentencePiece model of kind {}, expected BPE; tokenizer.json beside it is read instead",
                 kind >= 1 && kind <= 4 ? names[kind - 1] : std::string_view("unknown")));
  }

  /// Whether a space is put in front of a text.
  bool read_normalizer(const Field& normalizer) {
    bool dummy_prefix = true, remove_spaces = true;
    Message fields(file_, normalizer.text, normalizer.offset);
    for (Field field; fields.next(field);) {
      if (field.number == 2 && !field.text.empty())
        refuse_at(file_, field.offset,
                  "a normalizer with a table of characters is not supported, expected identity");
      if (field.number == 3) dummy_prefix = field.integer != 0;
      if (field.number == 4) remove_spaces = field.integer != 0;
      if (field.number == 5 && field.integer == 0)
        refuse_at(file_, field.offset, "spaces that stay spaces (escape_whitespaces) are not supported");
    }
    if (remove_spaces)
      refuse_at(file_, normalizer.offset,
                "a normalizer that removes spaces (remove_extra_whitespaces) is not supported");
    return dummy_prefix;
  }

  /// tokenizer_config.json: switches, and tokens behind those of the model.
  void read_config(std::string_view text, bool& add_bos, bool& add_eos) {
    const std::string file =
        std::string(file_.substr(0, file_.find_last_of('/') + 1)) + "tokenizer_config.json";
    const Json config = parse_json(text, file);
    config.as_object(file, "the configuration");
    if (const Json* added = config.find("added_tokens_decoder")) {
      std::vector<std::pair<int64_t, const Json*>> tokens;
      for (const auto& [key, entry] : added->as_object(file, "\"added_tokens_decoder\""))
        tokens.emplace_back(std::strtoll(key.c_str(), nullptr, 10), &entry);
      std::sort(tokens.begin(), tokens.end());
      for (const auto& [id, entry] : tokens) read_added(file, id, *entry);
    }
    if (const Json* add = config.find("add_bos_token")) add_bos = add->as_bool(file, "\"add_bos_token\"");
    if (const Json* add = config.find("add_eos_token")) add_eos = add->as_bool(file, "\"add_eos_token\"");
  }

  void read_added(const std::string& file, int64_t id, const Json& entry) {
    const Json* content = entry.find("content");
    if (content == nullptr) refuse_at(file, entry.offset, "an added token has no \"content\"");
    const auto flag = [&](const char* key, bool otherwise) {
      const Json* value = entry.find(key);
      return value == nullptr ? otherwise : value->as_bool(file, in_quotes(key));
    };
    const std::string& name = content->as_string(file, "\"content\" of an added token");
    const bool special = flag("special", false);
    if (id >= 0 && static_cast<size_t>(id) < out_->texts.size()) { // one of the model's own: <s>
      if (out_->texts[static_cast<size_t>(id)] != name)
        refuse_at(file, entry.offset,
                  fmt::format("added token {} has the id {} of piece {}", in_quotes(name), id,
                              in_quotes(out_->texts[static_cast<size_t>(id)])));
    } else {
      if (static_cast<size_t>(id) != out_->texts.size())
        refuse_at(file, entry.offset,
                  fmt::format("added token {} has the id {}, expected {}", in_quotes(name), id,
                              out_->texts.size()));
      add(name, 0, special ? TokenKind::control : TokenKind::user_defined);
    }
    for (AddedToken& token : out_->added)
      if (token.id == id) {
        token.single_word = flag("single_word", false);
        token.strip_left = flag("lstrip", false);
        token.strip_right = flag("rstrip", false);
      }
  }

  std::string_view file_;
  std::shared_ptr<TokenizerModel> out_;
  // As the trainer has them where a file says nothing.
  std::optional<int32_t> unknown_ = 0, bos_ = 1, eos_ = 2, pad_;
};

} // namespace

void detail::settle_sentencepiece(TokenizerModel& model, bool dummy_prefix) {
  model.rule = MergeRule::scored;
  for (size_t byte = 0; byte < 256; ++byte) {
    int32_t id = model.index.find(model.texts, fmt::format("<0x{:02X}>", byte));
    if (id < 0) id = model.index.find(model.texts, std::string(1, static_cast<char>(byte)));
    model.byte_tokens[byte] = id;
  }
  model.replacements = {{"\xE2\x96\x81", " "}};
  model.normalizer.push_back({NormalizeStep::Kind::replace_text, " ", "\xE2\x96\x81", nullptr});
  model.space_after_special = dummy_prefix;
  if (dummy_prefix) {
    model.start = TokenizerModel::Start::strip_spaces;
    model.start_spaces = 1;
  }
}

Result<Tokenizer> tokenizer_from_sentencepiece(std::string_view bytes, std::string_view file_name,
                                               std::string_view tokenizer_config_json) {
  return guarded(file_name, [&] { return Reader(file_name).read(bytes, tokenizer_config_json); });
}

} // namespace luminal
