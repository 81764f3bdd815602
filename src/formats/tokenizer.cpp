// formats/tokenizer.cpp -- encoding around the added tokens; decoding, whole and streamed.
#include "formats/tokenizer.h"
#include "base/text.h"
#include "formats/parse.h"
#include "formats/tokenizer_model.h"
#include <algorithm>

namespace luminal {

using namespace detail;

namespace {

/// Moves `begin` left, `end` right over the white space beside a match, and tells whether it may
/// stand there.
bool fits(const AddedToken& token, std::string_view text, size_t from, size_t& begin, size_t& end) {
  const auto character_before = [&](size_t at) {
    size_t start = at - 1;
    while (start > from && (static_cast<unsigned char>(text[start]) & 0xC0) == 0x80) --start;
    return start;
  };
  if (token.single_word) {
    if (begin > 0) {
      size_t at = begin - 1;
      while (at > 0 && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80) --at;
      if (is_word(next_character(text, at))) return false;
    }
    if (size_t at = end; end < text.size() && is_word(next_character(text, at))) return false;
  }
  if (token.strip_left) {
    while (begin > from) {
      const size_t start = character_before(begin);
      size_t at = start;
      if (!is_space(next_character(text, at))) break;
      begin = start;
    }
  }
  if (token.strip_right) {
    while (end < text.size()) {
      size_t at = end;
      if (!is_space(next_character(text, at))) break;
      end = at;
    }
  }
  return true;
}

/// Calls `plain(text)` for what lies between added tokens and `token(added)` for each of them, in
/// order.
template <class Plain, class Token>
void split_added(const TokenizerModel& model, const AddedTokenMatcher& matcher, std::string_view text,
                 bool parse_special, Plain plain, Token token) {
  size_t done = 0;
  if (!matcher.empty()) {
    const auto accept = [&](uint32_t i) { return parse_special || !model.added[i].special; };
    for (size_t position = 0; position < text.size();) {
      uint32_t which = 0;
      const size_t length = matcher.longest(text.substr(position), which, accept);
      if (length == 0) {
        ++position;
        continue;
      }
      size_t begin = position, end = position + length;
      position = end;
      if (!fits(model.added[which], text, done, begin, end)) continue;
      if (begin > done) plain(text.substr(done, begin - done));
      token(model.added[which]);
      done = end;
      position = std::max(position, end);
    }
  }
  if (done < text.size()) plain(text.substr(done));
}

} // namespace

void TokenizerModel::encode_text(std::string_view text, bool at_text_start, PieceCache& cache,
                                 std::vector<int32_t>& out) const {
  const auto encode = [&](std::string_view piece, std::vector<int32_t>& ids) { encode_piece(piece, ids); };
  if (splitter.empty()) {
    if (cut_before.empty()) return encode_piece(text, out);
    for (size_t begin = 0; begin < text.size();) {
      size_t behind = begin; // marks at the beginning
      while (text.compare(behind, cut_before.size(), cut_before) == 0) behind += cut_before.size();
      const size_t end = std::min(text.find(cut_before, behind), text.size());
      cache.encode(text.substr(begin, end - begin), out, encode);
      begin = end;
    }
    return;
  }
  Pieces pieces{std::string(text), {{0, text.size()}}, at_text_start};
  const bool as_bytes = split(splitter, pieces);
  const auto encode_bytes = [&](std::string_view piece, std::vector<int32_t>& ids) {
    encode_piece(byte_level_spelling(piece), ids);
  };
  for (const auto& [begin, end] : pieces.spans) {
    const std::string_view piece = std::string_view(pieces.text).substr(begin, end - begin);
    if (as_bytes)
      cache.encode(piece, out, encode_bytes);
    else
      cache.encode(piece, out, encode);
  }
}

Tokenizer::Tokenizer(std::shared_ptr<const TokenizerModel> model)
    : model_(std::move(model)), eos_(model_->eos) {}

std::vector<int32_t> Tokenizer::encode(std::string_view text, const EncodeOptions& options) const {
  if (const auto bad = find_invalid_utf8(text))
    throw Error(fmt::format("[tokenizer] the text is not UTF-8 at byte {}", *bad));
  const TokenizerModel& model = *model_;
  std::vector<int32_t> ids;
  if (options.add_special) ids = model.prefix;
  bool after_special = true;
  bool at_text_start = true;
  PieceCache cache;
  const auto emit = [&](const AddedToken& token) {
    ids.push_back(token.id);
    after_special = true;
    at_text_start = false;
  };
  const auto encode_plain = [&](std::string_view plain) {
    model.encode_text(plain, at_text_start, cache, ids);
    after_special = at_text_start = false;
  };
  split_added(
      model, model.raw_matcher, text, options.parse_special,
      [&](std::string_view segment) {
        std::string normal;
        if (model.space_after_special && after_special) normal = " ";
        normal += segment;
        if (!model.normalizer.empty()) normal = normalize(model.normalizer, normal);
        split_added(model, model.normalized_matcher, normal, options.parse_special, encode_plain, emit);
      },
      emit);
  if (options.add_special) ids.insert(ids.end(), model.suffix.begin(), model.suffix.end());
  return ids;
}

int32_t Tokenizer::size() const { return static_cast<int32_t>(model_->texts.size()); }

namespace {

size_t checked(const TokenizerModel& model, int32_t id) {
  if (id < 0 || static_cast<size_t>(id) >= model.texts.size())
    throw Error(
        fmt::format("[tokenizer] token {} is not in the vocabulary of {} tokens", id, model.texts.size()));
  return static_cast<size_t>(id);
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  size_t position = 0;
  while ((position = text.find(from, position)) != std::string::npos) {
    text.replace(position, from.size(), to);
    position += to.size();
  }
  return text;
}

/// Whole characters of `bytes` go to `out`, malformed parts as U+FFFD; the beginning of a character
/// stays.
void take_characters(std::string& bytes, std::string& out) {
  size_t position = 0;
  while (position < bytes.size()) {
    const int length = utf8_character(std::string_view(bytes).substr(position, 4));
    if (length == 0) break;
    if (length > 0)
      out.append(bytes, position, static_cast<size_t>(length));
    else
      out += "\xEF\xBF\xBD";
    position += static_cast<size_t>(length > 0 ? length : -length);
  }
  bytes.erase(0, position);
}

/// What Hugging Face's decoder of WordPiece makes of a token with the space before it.
std::string tidied(std::string text) {
  constexpr std::pair<const char*, const char*> changes[] = {
      {" .", "."},   {" ?", "?"},           {" !", "!"},   {" ,", ","},     {" ' ", "'"},   {" n't", "n't"},
      {" 'm", "'m"}, {" do not", " don't"}, {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
  for (const auto& [from, to] : changes) text = replaced(std::move(text), from, to);
  return text;
}

std::string bytes_of(const TokenizerModel& model, size_t id, bool first) {
  const auto normalized = model.normalized_texts.find(static_cast<int32_t>(id));
  const std::string& text = normalized == model.normalized_texts.end() ? model.texts[id] : normalized->second;
  switch (model.kinds[id]) {
  case TokenKind::control:
  case TokenKind::unknown:
  case TokenKind::unused: return {};
  case TokenKind::byte: {
    for (size_t byte = 0; byte < 256; ++byte)
      if (model.byte_tokens[byte] == static_cast<int32_t>(id)) return std::string(1, static_cast<char>(byte));
    return text;
  }
  case TokenKind::user_defined:
    if (!model.spaces_between && (model.byte_level_text || normalized == model.normalized_texts.end()))
      return text;
    break;
  case TokenKind::normal: break;
  }
  if (model.byte_level_text) {
    std::string out;
    const bool ends_word = !model.word_end.empty() && text.ends_with(model.word_end);
    const size_t size = text.size() - (ends_word ? model.word_end.size() : 0);
    for (size_t position = 0; position < size;) {
      const int byte = byte_level_value(next_character(text, position));
      if (byte < 0) return text; // not spelled in the alphabet: stands for itself
      out += static_cast<char>(byte);
    }
    return ends_word ? out + ' ' : out;
  }
  std::string out = text;
  if (model.spaces_between) {
    if (!model.joined_prefix.empty() && !first && out.starts_with(model.joined_prefix))
      out.erase(0, model.joined_prefix.size());
    else if (!first)
      out.insert(0, 1, ' ');
    if (model.tidy_spaces) out = tidied(std::move(out));
  }
  if (first && model.start == TokenizerModel::Start::drop_marks)
    out = replaced(std::move(out), model.mark, "");
  for (const auto& [from, to] : model.replacements) out = replaced(std::move(out), from, to);
  return out;
}

} // namespace

const std::string& Tokenizer::token_text(int32_t id) const { return model_->texts[checked(*model_, id)]; }
std::string Tokenizer::token_bytes(int32_t id) const {
  return bytes_of(*model_, checked(*model_, id), false);
}
TokenKind Tokenizer::token_kind(int32_t id) const { return model_->kinds[checked(*model_, id)]; }

std::optional<int32_t> Tokenizer::find(std::string_view token_text) const {
  const int32_t id = model_->index.find(model_->texts, token_text);
  return id < 0 ? std::nullopt : std::optional(id);
}

std::optional<int32_t> Tokenizer::bos() const { return model_->bos; }
std::optional<int32_t> Tokenizer::unknown() const { return model_->unknown; }
std::optional<int32_t> Tokenizer::pad() const { return model_->pad; }
const std::vector<int32_t>& Tokenizer::eos() const { return eos_; }
bool Tokenizer::is_eos(int32_t id) const { return std::find(eos_.begin(), eos_.end(), id) != eos_.end(); }
bool Tokenizer::adds_bos() const {
  return model_->bos &&
         std::find(model_->prefix.begin(), model_->prefix.end(), *model_->bos) != model_->prefix.end();
}
bool Tokenizer::adds_eos() const {
  return std::any_of(model_->suffix.begin(), model_->suffix.end(), [&](int32_t id) { return is_eos(id); });
}
const std::string& Tokenizer::description() const { return model_->description; }

Tokenizer Tokenizer::with_eos(std::span<const int32_t> additional) const {
  Tokenizer out = *this;
  for (const int32_t id : additional)
    if (id >= 0 && id < size() && !out.is_eos(id)) out.eos_.push_back(id);
  return out;
}

std::string Tokenizer::decode(std::span<const int32_t> ids, bool show_special) const {
  StreamDecoder decoder(*this, show_special);
  std::string out;
  for (const int32_t id : ids) out += decoder.push(id);
  return out += decoder.finish();
}

StreamDecoder::StreamDecoder(Tokenizer tokenizer, bool show_special, bool continues)
    : tokenizer_(std::move(tokenizer)), show_special_(show_special), at_start_(!continues),
      spaces_to_strip_(continues ? 0 : tokenizer_.model_->start_spaces) {}

std::string StreamDecoder::push(int32_t id) {
  const TokenizerModel& model = *tokenizer_.model_;
  const size_t row = checked(model, id);
  std::string out;
  if (show_special_ && (model.kinds[row] == TokenKind::control || model.kinds[row] == TokenKind::unknown)) {
    // The text of a special token is not part of a character that began before it.
    out = flush();
    if (model.spaces_between && !at_start_) out += ' ';
    at_start_ = false;
    spaces_to_strip_ = 0;
    return out += utf8_sanitized(model.texts[row]);
  }
  std::string bytes = bytes_of(model, row, at_start_);
  const bool gives_text = model.kinds[row] != TokenKind::control && model.kinds[row] != TokenKind::unknown;
  if (gives_text) at_start_ = false;
  size_t strip = 0;
  while (spaces_to_strip_ > 0 && strip < bytes.size() && bytes[strip] == ' ') ++strip, --spaces_to_strip_;
  if (strip < bytes.size()) spaces_to_strip_ = 0;
  pending_.append(bytes, strip, std::string::npos);
  take_characters(pending_, out);
  return out;
}

std::string StreamDecoder::flush() {
  std::string out;
  if (!pending_.empty()) out = "\xEF\xBF\xBD";
  pending_.clear();
  return out;
}

std::string StreamDecoder::finish() {
  at_start_ = true;
  spaces_to_strip_ = tokenizer_.model_->start_spaces;
  return flush();
}

} // namespace luminal
