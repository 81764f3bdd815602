// formats/tokenizer_model.h -- inside a tokenizer: vocabulary, stages of encoding, merges. Plain
// data, filled by readers.
#pragma once
#include "formats/json.h"
#include "formats/regex.h"
#include "formats/tokenizer.h"
#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace luminal::detail {

/// Finds strings of a table by their text. Holds indices; the table itself stays with the owner.
class TextIndex {
public:
  void reserve(size_t count);
  /// False where an equal text is already there.
  bool add(const std::vector<std::string>& texts, int32_t id);
  /// -1 where absent.
  int32_t find(const std::vector<std::string>& texts, std::string_view text) const;

private:
  void grow(const std::vector<std::string>& texts, size_t slots);
  std::vector<int32_t> slots_;
  size_t count_ = 0;
};

/// Pairs of tokens that join into one, by rank.
class MergeTable {
public:
  struct Merge {
    int32_t left = -1, right = -1, rank = 0, result = 0;
  };
  void reserve(size_t count);
  /// The first of two equal pairs counts.
  void add(int32_t left, int32_t right, int32_t rank, int32_t result);
  const Merge* find(int32_t left, int32_t right) const;
  size_t size() const { return count_; }
  /// Calls `visit(merge)` for all, in no order.
  template <class Visit> void each(Visit visit) const {
    for (const Merge& merge : slots_)
      if (merge.left >= 0) visit(merge);
  }

private:
  size_t slot(int32_t left, int32_t right) const;
  std::vector<Merge> slots_;
  size_t count_ = 0;
};

/// The table of characters of a SentencePiece normalizer ("precompiled_charsmap"): a double array of
/// byte strings, and what each becomes.
/// https://github.com/google/sentencepiece/blob/master/src/normalizer.cc
class CharacterTable {
public:
  /// Refuses (ParseFailure) a table that is cut off.
  CharacterTable(std::string_view bytes, std::string_view file);
  /// Length of the longest entry at the beginning of `text` and what it becomes; 0 where none.
  size_t longest(std::string_view text, std::string_view& out) const;
  /// What the shortest entry at the beginning of `text` becomes.
  std::optional<std::string_view> shortest(std::string_view text) const;

private:
  template <class Found> void entries(std::string_view text, Found found) const;
  std::string_view text_at(uint32_t offset) const;
  std::vector<uint32_t> units_;
  std::string texts_;
};

/// One change to a whole text before it is cut.
struct NormalizeStep {
  enum class Kind {
    prepend,
    replace_text,
    replace_regex,
    nfc,
    nfd,
    nfkc,
    nfkd,
    lowercase,
    strip,
    strip_accents,      ///< drops marks that take no space of their own (Unicode's Mn)
    clean,              ///< BERT: drops control characters, every white space becomes a space
    space_ideographs,   ///< BERT: spaces around characters that are words of their own
    byte_level,         ///< bytes become characters of the byte-level alphabet
    characters,         ///< the table of SentencePiece, longest entry first
    characters_by_group ///< the same table as Hugging Face tokenizers reads it: group by group of one sign
  };
  Kind kind = Kind::prepend;
  std::string from, to;
  std::shared_ptr<const Regex> regex;
  bool left = false, right = false;              ///< strip
  std::shared_ptr<const CharacterTable> table{}; ///< characters, characters_by_group
};
std::string normalize(const std::vector<NormalizeStep>& steps, std::string_view text);

/// A text and the pieces it has been cut into.
struct Pieces {
  std::string text;
  std::vector<std::pair<size_t, size_t>> spans; ///< [begin, end), in order, not overlapping, not empty
  bool at_text_start = true;                    ///< nothing stands before the first piece
};

/// One cut of the pieces (none crosses a cut made before).
struct SplitStep {
  enum class Kind { regex, text, digits, punctuation, whitespace, byte_level, metaspace };
  enum class Behavior { removed, isolated, merged_with_previous, merged_with_next, contiguous };
  enum class Prefix { never, first, always };
  Kind kind = Kind::regex;
  Behavior behavior = Behavior::isolated;
  bool invert = false;
  std::shared_ptr<const Regex> regex; ///< regex; byte_level: may be empty
  std::string text;                   ///< text: what to find; metaspace: the mark that stands for a space
  Prefix prefix = Prefix::never;      ///< byte_level, metaspace: a space in front of a piece that has none
  bool split = true;                  ///< metaspace: cut before each mark
};
/// A last step that only spells bytes by the byte-level alphabet is left to the caller: true then.
bool split(const std::vector<SplitStep>& steps, Pieces& pieces);

/// A text that is one token wherever it stands.
struct AddedToken {
  int32_t id = 0;
  std::string content; ///< what to find; where `normalized`, after normalization
  bool special = false;
  bool normalized = false;
  bool single_word = false, strip_left = false, strip_right = false;
};

/// Finds the longest added token at each place, leftmost first.
class AddedTokenMatcher {
public:
  void add(std::string_view content, uint32_t value);
  bool empty() const { return nodes_.empty(); }
  /// Length of the longest entry at the beginning of `text` that `accept` allows, and its value; 0
  /// where none.
  template <class Accept> size_t longest(std::string_view text, uint32_t& value, Accept accept) const {
    if (nodes_.empty() || text.empty() || !first_[static_cast<unsigned char>(text[0])]) return 0;
    size_t best = 0;
    uint32_t node = 0;
    for (size_t i = 0; i < text.size(); ++i) {
      node = child(node, static_cast<unsigned char>(text[i]));
      if (node == 0) break;
      if (nodes_[node].value >= 0 && accept(static_cast<uint32_t>(nodes_[node].value))) {
        best = i + 1;
        value = static_cast<uint32_t>(nodes_[node].value);
      }
    }
    return best;
  }

private:
  struct Node {
    std::vector<std::pair<unsigned char, uint32_t>> children; ///< sorted by byte
    int64_t value = -1;
  };
  uint32_t child(uint32_t node, unsigned char byte) const;
  std::vector<Node> nodes_;
  std::array<bool, 256> first_{};
};

/// Texts by their beginnings.
class PieceTrie {
public:
  /// `texts` in any order, none empty; equal ones keep the first value.
  explicit PieceTrie(std::vector<std::pair<std::string_view, int32_t>> texts);
  PieceTrie() = default;
  /// Calls `found(length, value)` for each text that `text` begins with, shortest first.
  template <class Found> void prefixes(std::string_view text, Found found) const {
    uint32_t node = 0;
    for (size_t i = 0; i < text.size() && node < nodes_.size(); ++i) {
      node = child(node, static_cast<unsigned char>(text[i]));
      if (node == 0) return;
      if (nodes_[node].value >= 0) found(i + 1, nodes_[node].value);
    }
  }

private:
  struct Node {
    uint32_t first = 0, count = 0; ///< of labels_ and targets_
    int32_t value = -1;
  };
  uint32_t child(uint32_t node, unsigned char byte) const;
  std::vector<Node> nodes_;
  std::vector<unsigned char> labels_; ///< sorted within a node
  std::vector<uint32_t> targets_;
};

/// How the pieces become tokens.
enum class PieceRule {
  ranked,      ///< the pair with the lowest rank joins first (BPE)
  scored,      ///< the pair whose joined token has the highest score joins first (SentencePiece BPE)
  unigram,     ///< the cut whose tokens have the highest sum of scores (SentencePiece unigram)
  word_pieces, ///< the longest token from the left, again and again (WordPiece)
  words,       ///< a piece is a token as a whole, or unknown
};

/// Tokens of the pieces that a text had before: most words of a text are repeated.
class PieceCache {
public:
  /// Appends the tokens of `piece`, made by `encode(piece, out)` the first time.
  template <class Encode> void encode(std::string_view piece, std::vector<int32_t>& out, Encode encode) {
    if (piece.size() > longest_piece) return encode(piece, out);
    const size_t hash = std::hash<std::string_view>{}(piece);
    if (Entry* entry = find(piece, hash)) {
      const int32_t* const ids = ids_.data() + entry->first_id;
      out.insert(out.end(), ids, ids + entry->ids);
      return;
    }
    const size_t before = out.size();
    encode(piece, out);
    add(piece, hash, std::span<const int32_t>(out).subspan(before));
  }

private:
  static constexpr size_t longest_piece = 64, most_entries = size_t{1} << 17;
  struct Entry {
    size_t hash = 0;
    uint32_t first_byte = 0, bytes = 0, first_id = 0, ids = 0;
  };
  Entry* find(std::string_view piece, size_t hash);
  void add(std::string_view piece, size_t hash, std::span<const int32_t> ids);
  std::vector<Entry> slots_;
  size_t count_ = 0;
  std::string texts_;
  std::vector<int32_t> ids_;
};

struct TokenizerModel {
  std::string description;
  std::vector<std::string> texts;
  std::vector<TokenKind> kinds;
  TextIndex index;
  /// tokens that merging never gives, because only added_tokens has them; may be empty
  std::vector<bool> outside_model;
  std::optional<int32_t> bos, unknown, pad;
  std::vector<int32_t> eos;
  std::vector<int32_t> prefix, suffix; ///< what add_special puts around the ids

  std::vector<AddedToken> added;
  AddedTokenMatcher raw_matcher, normalized_matcher; ///< values are indices of `added`
  std::vector<NormalizeStep> normalizer;
  /// a space in front of the text and of what follows a special token (llama.cpp)
  bool space_after_special = false;
  std::vector<SplitStep> splitter;

  PieceRule rule = PieceRule::ranked;
  MergeTable merges;             ///< ranked
  std::vector<double> scores;    ///< scored, unigram
  PieceTrie trie;                ///< unigram
  double unknown_score = 0;      ///< unigram: of a character that is not a token
  bool single_precision = false; ///< unigram: sums are f32, as in SentencePiece
  std::string word_prefix;       ///< word_pieces: in front of a piece
  std::string inner_prefix;      ///< word_pieces: in front of what does not begin a piece
  size_t longest_word = 100;     ///< word_pieces: a piece of more characters is unknown
  std::string word_end;          ///< ranked: behind the last character of a piece
  std::string cut_before;        ///< a text is cut before each run of this mark: no token reaches across
  bool whole_pieces = false;     ///< a piece that is a token by itself is not merged up to it
  bool byte_fallback = false;    ///< a character that is not a token becomes the tokens of its bytes
  bool fuse_unknown = false;     ///< neighbouring unknown characters are one unknown token
  std::array<int32_t, 256> byte_tokens{};

  // Decoding.
  bool byte_level_text = false; ///< texts of normal tokens spell bytes by the byte-level alphabet
  std::map<int32_t, std::string> normalized_texts; ///< of added tokens that are found in normalized text
  /// in texts of normal tokens, one after another
  std::vector<std::pair<std::string, std::string>> replacements;
  bool spaces_between = false; ///< a space before each token without `joined_prefix`, but the first
  std::string joined_prefix;
  bool tidy_spaces = false; ///< spaces_between: no space before `.`, `n't` and their like
  enum class Start { keep, strip_spaces, drop_marks };
  Start start = Start::keep; ///< what happens to spaces at the beginning of a decoded text
  int start_spaces = 0;      ///< strip_spaces: at most so many
  std::string mark;          ///< drop_marks: every mark of the first token is dropped

  TokenizerModel() { byte_tokens.fill(-1); }
  /// Appends a token; texts that are there already keep their first id in the index.
  void add_token(std::string text, TokenKind kind);
  /// Fills the matchers from `added`.
  void index_added_tokens();
  /// The token that plain text of this spelling may become, or -1: never a control token.
  int32_t plain_token(std::string_view text) const;
  /// Appends the tokens of one piece.
  void encode_piece(std::string_view piece, std::vector<int32_t>& out) const;
  /// Cuts and encodes text without added tokens.
  void encode_text(std::string_view text, bool at_text_start, PieceCache& cache,
                   std::vector<int32_t>& out) const;
  /// The trie of unigram: plain tokens, with their scores.
  void index_pieces();
  /// Sets `cut_before` where no token has the mark behind another character.
  void settle_cuts(std::string_view mark);
  /// The tokens of bytes: "<0x0A>".
  void find_byte_tokens();
};

/// The part of encode_piece that is one rule's.
/// Both are for pieces of whole characters.
void encode_unigram(const TokenizerModel& model, std::string_view piece, std::vector<int32_t>& out);
void encode_word_pieces(const TokenizerModel& model, std::string_view piece, std::vector<int32_t>& out);
/// The bytes of a text as tokens; false where one of them has none.
bool append_bytes(const TokenizerModel& model, std::string_view text, std::vector<int32_t>& out);
/// The unknown token; luminal::Error that names the text where there is none.
void append_unknown(const TokenizerModel& model, std::string_view text, std::vector<int32_t>& out);

/// What BERT's models do before words are cut: "BertNormalizer" and "BertPreTokenizer".
void add_bert_normalizer(TokenizerModel& model, bool clean, bool ideographs, bool strip_accents,
                         bool lowercase);
void add_bert_splitter(TokenizerModel& model);

/// tokenizer_config.json: tokens behind those of the vocabulary ("added_tokens_decoder"), what
/// bos_token, eos_token, unk_token and pad_token name.
void read_added_tokens_decoder(TokenizerModel& model, const Json& config, std::string_view file);
/// The token that a key names ("<s>", or {"content": "<s>"}), if the vocabulary has it.
std::optional<int32_t> named_token(const TokenizerModel& model, const Json& config, std::string_view file,
                                   const char* key);
/// The path of the tokenizer_config.json beside `file`, for messages.
std::string config_file_beside(std::string_view file);

/// Appends the bytes that base64 text stands for; false where it is none. The filling at the end
/// may be absent.
bool base64_decode(std::string_view text, std::string& out);

/// Bytes as the byte-level alphabet spells them.
std::string byte_level_spelling(std::string_view bytes);

/// What every SentencePiece model does: pieces join by score, a mark stands for a space, bytes
/// stand for what is not in the vocabulary.
struct SentencePieceRules {
  bool dummy_prefix = true;  ///< a space in front of a text
  bool remove_spaces = true; ///< none at the ends, and one where there are several
  std::shared_ptr<const CharacterTable> characters;
};
/// `model.rule` is scored or unigram.
void settle_sentencepiece(TokenizerModel& model, const SentencePieceRules& rules);
/// How much less than the lowest score of a token a character scores that is not a token.
inline constexpr double unknown_penalty = 10;

/// Joins `symbols` (token ids; -1 never joins) by rank until no pair is in the table. Few symbols
/// are scanned, many go through a heap; both give the same.
void merge_ranked(const MergeTable& merges, std::vector<int32_t>& symbols);
void merge_ranked_with_heap(const MergeTable& merges, std::vector<int32_t>& symbols);

/// The alphabet of GPT-2: every byte is a printable character. https://github.com/openai/gpt-2,
/// encoder.py
const std::array<char32_t, 256>& byte_level_alphabet();
/// The byte that a character of the alphabet stands for, or -1.
int byte_level_value(char32_t character);

void append_utf8(std::string& out, char32_t character);
/// The character at `position`, which moves behind it. `text` is UTF-8.
char32_t next_character(std::string_view text, size_t& position);

bool is_space(char32_t c);
bool is_number(char32_t c);
bool is_punctuation(char32_t c);
bool is_word(char32_t c);
bool is_control(char32_t c);
/// Marks without a width of their own: accents.
bool is_accent(char32_t c);

} // namespace luminal::detail
