// formats/tokenizer.h -- text to token ids and back: BPE, unigram and WordPiece, from GGUF,
// tokenizer.json and the older files of vocabularies.
#pragma once
#include "base/result.h"
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace luminal {

struct Gguf;
namespace detail {
struct TokenizerModel;
}

/// What a token is for. `control` tokens (<s>, <|im_end|>) carry no text; `byte` tokens are one raw
/// byte each.
enum class TokenKind : uint8_t { normal, unknown, control, user_defined, unused, byte };

struct EncodeOptions {
  /// Add the tokens the model wants around a text (mostly BOS).
  bool add_special = true;
  /// Text such as "<|im_end|>" becomes the control token. Off, it is ordinary text: the safe choice
  /// for what a user typed. Tokens of kind user_defined are recognised always.
  bool parse_special = false;
};

/// Immutable and cheap to copy; safe to use from several threads.
class Tokenizer {
public:
  /// Token ids of `text`. Throws luminal::Error where the text is not UTF-8 (naming the byte), or
  /// where a character is neither in the vocabulary nor expressible by bytes or an unknown token.
  std::vector<int32_t> encode(std::string_view text, const EncodeOptions& options = {}) const;

  /// Text of `ids`: valid UTF-8 always (bytes that form none become U+FFFD). Control tokens give no
  /// text unless `show_special`. Equal to StreamDecoder over the same ids. Throws luminal::Error
  /// for an id outside the vocabulary.
  std::string decode(std::span<const int32_t> ids, bool show_special = false) const;

  int32_t size() const;
  /// The vocabulary's own spelling ("▁the", "Ġthe", "<0x0A>"). Throws luminal::Error for an id
  /// outside the vocabulary.
  const std::string& token_text(int32_t id) const;
  /// The bytes the token adds to a text (not necessarily whole characters); empty for control
  /// tokens.
  std::string token_bytes(int32_t id) const;
  TokenKind token_kind(int32_t id) const;
  std::optional<int32_t> find(std::string_view token_text) const;

  std::optional<int32_t> bos() const;
  std::optional<int32_t> unknown() const;
  std::optional<int32_t> pad() const;
  /// Every token that ends a generation (end of text, end of turn), the main one first; may be
  /// empty.
  const std::vector<int32_t>& eos() const;
  bool is_eos(int32_t id) const;
  /// Whether encode adds BOS in front (with add_special).
  bool adds_bos() const;
  bool adds_eos() const;
  /// "llama", "gpt2 (llama-bpe)", "tokenizer.json BPE": for `inspect`.
  const std::string& description() const;

  /// The same tokenizer with these as additional end-of-generation tokens (from
  /// generation_config.json).
  Tokenizer with_eos(std::span<const int32_t> additional) const;

  explicit Tokenizer(std::shared_ptr<const detail::TokenizerModel> model);
  /// What it is made of, for writers of files.
  const detail::TokenizerModel& model() const { return *model_; }

private:
  friend class StreamDecoder;
  std::shared_ptr<const detail::TokenizerModel> model_;
  std::vector<int32_t> eos_;
};

/// Decodes ids one at a time and never gives out part of a character: bytes of an unfinished
/// character wait for the next token. The pieces joined are what Tokenizer::decode gives.
class StreamDecoder {
public:
  /// `continues`: the ids follow text that is shown already (a prompt), so a space in front of the
  /// first word stays.
  explicit StreamDecoder(Tokenizer tokenizer, bool show_special = false, bool continues = false);
  /// The text that `id` completes; may be empty. Throws luminal::Error for an id outside the
  /// vocabulary.
  std::string push(int32_t id);
  /// What is left at the end: U+FFFD where an unfinished character waits, or nothing. The decoder
  /// starts afresh.
  std::string finish();

private:
  std::string flush();
  Tokenizer tokenizer_;
  bool show_special_;
  bool at_start_;
  int spaces_to_strip_;
  std::string pending_;
};

/// From `tokenizer.ggml.*`. Models `llama`, `gpt2`, `bert` and `t5`; others, and unknown
/// `tokenizer.ggml.pre`, are refused by name.
Result<Tokenizer> tokenizer_from_gguf(const Gguf& gguf);

/// From the text of tokenizer.json and (or empty) tokenizer_config.json. A construct that is not
/// supported is refused by name, never ignored. `file_name` is for messages.
Result<Tokenizer> tokenizer_from_json(std::string_view tokenizer_json, std::string_view file_name,
                                      std::string_view tokenizer_config_json = {});

/// From the bytes of a tokenizer.model (SentencePiece: BPE or unigram) and (or empty)
/// tokenizer_config.json. What is not supported is refused by name.
Result<Tokenizer> tokenizer_from_sentencepiece(std::string_view bytes, std::string_view file_name,
                                               std::string_view tokenizer_config_json = {});

/// From a rank file of tiktoken ("cl100k_base.tiktoken", the tokenizer.model of Llama 3). Which
/// encoding it is shows its number of ranks: gpt2, whisper, cl100k, o200k, llama3, qwen. `special`
/// are tokens behind the ranks, in order, in place of the encoding's own.
Result<Tokenizer> tokenizer_from_tiktoken(std::string_view bytes, std::string_view file_name,
                                          std::string_view tokenizer_config_json = {},
                                          std::span<const std::string> special = {});
/// Whether bytes look like a rank file of tiktoken.
bool is_tiktoken(std::string_view bytes);

/// From vocab.txt, a token a line (WordPiece, BERT), and (or empty) tokenizer_config.json.
Result<Tokenizer> tokenizer_from_vocabulary_lines(std::string_view text, std::string_view file_name,
                                                  std::string_view tokenizer_config_json = {});

/// From vocab.json and merges.txt (byte-level BPE of GPT-2, Whisper, Roberta, Qwen 2) and (or empty)
/// tokenizer_config.json. `file_name` is that of the vocabulary.
Result<Tokenizer> tokenizer_from_vocabulary(std::string_view vocab_json, std::string_view merges_txt,
                                            std::string_view file_name,
                                            std::string_view tokenizer_config_json = {});

} // namespace luminal
