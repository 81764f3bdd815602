// formats/tokenizer_model.h -- inside a tokenizer: vocabulary, stages of encoding, merges. Plain
// data, filled by readers.
#pragma once
#include "formats/regex.h"
#include "formats/tokenizer.h"
#include <array>
#include <cstdint>
#include <map>
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

private:
  size_t slot(int32_t left, int32_t right) const;
  std::vector<Merge> slots_;
  size_t count_ = 0;
};

/// One change to a whole text before it is cut.
struct NormalizeStep {
  enum class Kind { prepend, replace_text, replace_regex, nfc, nfd, nfkc, nfkd, lowercase, strip };
  Kind kind = Kind::prepend;
  std::string from, to;
  std::shared_ptr<const Regex> regex;
  bool left = false, right = false; ///< strip
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
void split(const std::vector<SplitStep>& steps, Pieces& pieces);

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

/// How the pieces become tokens.
enum class MergeRule {
  ranked, ///< the pair with the lowest rank joins first (BPE)
  scored, ///< the pair whose joined token has the highest score joins first (SentencePiece BPE)
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

  MergeRule rule = MergeRule::ranked;
  MergeTable merges;          ///< ranked
  std::vector<float> scores;  ///< scored
  bool whole_pieces = false;  ///< a piece that is a token by itself is not merged up to it
  bool byte_fallback = false; ///< a character that is not a token becomes the tokens of its bytes
  bool fuse_unknown = false;  ///< neighbouring unknown characters are one unknown token
  std::array<int32_t, 256> byte_tokens{};

  // Decoding.
  bool byte_level_text = false; ///< texts of normal tokens spell bytes by the byte-level alphabet
  std::map<int32_t, std::string> normalized_texts; ///< of added tokens that are found in normalized text
  /// in texts of normal tokens, one after another
  std::vector<std::pair<std::string, std::string>> replacements;
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
  void encode_text(std::string_view text, bool at_text_start, std::vector<int32_t>& out) const;
};

/// What every SentencePiece model does: pieces join by score, a mark stands for a space, bytes
/// stand for what is not in the vocabulary.
void settle_sentencepiece(TokenizerModel& model, bool dummy_prefix);

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

} // namespace luminal::detail
