// formats/tokenizer_gguf.cpp -- the tokenizer in the metadata of a GGUF file, with the meaning
// llama.cpp gives it. Keys: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md; patterns:
// llama-vocab.cpp of llama.cpp.
#include "formats/gguf.h"
#include "formats/parse.h"
#include "formats/tokenizer_model.h"
#include "formats/tokenizer_patterns.h"
#include <algorithm>

namespace luminal {
namespace {

using namespace detail;
using namespace detail::patterns;

/// A value of tokenizer.ggml.pre: the patterns that cut a text, one after another, and what else it
/// says.
struct PreTokenizer {
  std::string_view name;
  std::vector<std::string_view> patterns;
  bool whole_pieces = false;
  bool adds_bos = false;
};

constexpr std::string_view tekken =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view poro = R"( ?[^(\s|.,!?…。，、।۔،)]+)";
constexpr std::string_view deepseek3 =
    R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view cjk3 = R"([一-龥぀-ゟ゠-ヿ]+)";
constexpr std::string_view default_punctuation = R"([\p{P}\$\+<=>\^~\|]+)";
constexpr std::string_view falcon_punctuation = R"([\p{P}\$\+<=>\^~\|`]+)";
constexpr std::string_view three_digits = "[0-9][0-9][0-9]";
constexpr std::string_view one_number = R"(\p{N})";
constexpr std::string_view numbers = R"(\p{N}+)";
constexpr std::string_view numbers_up_to_3 = R"(\p{N}{1,3})";

const std::vector<PreTokenizer>& pre_tokenizers() {
  static const std::vector<PreTokenizer> rows = {
      {"default", {default_punctuation, gpt2, numbers, three_digits}},
      {"llama3", {llama3}, true, true},
      {"llama-v3", {llama3}, true, true},
      {"llama-bpe", {llama3}, true, true},
      {"falcon3", {llama3}, true, true},
      {"pixtral", {llama3}, true, true},
      {"dbrx", {llama3}},
      {"smaug-bpe", {llama3}},
      {"chatglm-bpe", {llama3}},
      {"glm4", {llama3}},
      {"gpt-2", {gpt2}},
      {"phi-2", {gpt2}},
      {"jina-es", {gpt2}},
      {"jina-de", {gpt2}},
      {"gigachat", {gpt2}},
      {"jina-v2-es", {gpt2}},
      {"jina-v2-de", {gpt2}},
      {"a.x-4.0", {gpt2}},
      {"mellum", {gpt2}},
      {"mpt", {gpt2}},
      {"olmo", {gpt2}},
      {"jais", {gpt2}},
      {"trillion", {gpt2}},
      {"granite-docling", {gpt2}},
      {"qwen2", {qwen2}},
      {"deepseek-r1-qwen", {qwen2}},
      {"stablelm2", {qwen2}},
      {"megrez", {qwen2}},
      {"hunyuan", {qwen2}},
      {"starcoder", {one_number, gpt2}},
      {"refact", {one_number, gpt2}},
      {"command-r", {one_number, gpt2}},
      {"smollm", {one_number, gpt2}},
      {"codeshell", {one_number, gpt2}},
      {"exaone", {one_number, gpt2}},
      {"minerva-7b", {one_number, gpt2}},
      {"falcon", {falcon_punctuation, gpt2, three_digits}},
      {"poro-chat", {poro}},
      {"bloom", {poro}},
      {"gpt3-finnish", {poro}},
      {"viking", {poro, one_number}},
      {"tekken", {tekken}, true, true},
      {"gpt-4o", {o200k}},
      {"llama4", {o200k}},
      {"deepseek-v3", {numbers_up_to_3, cjk3, deepseek3}},
  };
  return rows;
}

/// Texts of tokens that end a generation where a file does not say so (llama.cpp's list).
constexpr std::string_view end_texts[] = {"<|eot_id|>",
                                          "<|im_end|>",
                                          "<|end|>",
                                          "<end_of_turn>",
                                          "<|endoftext|>",
                                          "<|eom_id|>",
                                          "<EOT>",
                                          "_<EOT>",
                                          "<|end_of_text|>",
                                          "<|return|>",
                                          "<｜end▁of▁sentence｜>",
                                          "<end_of_utterance>"};

class GgufTokenizerReader {
public:
  explicit GgufTokenizerReader(const Gguf& gguf) : gguf_(gguf), out_(std::make_shared<TokenizerModel>()) {}

  Tokenizer read() {
    const auto kind = unwrap(gguf_.string("tokenizer.ggml.model"));
    if (!kind) refuse(gguf_.file_name, "no tokenizer in the file (metadata \"tokenizer.ggml.model\")");
    if (*kind != "llama" && *kind != "gpt2" && *kind != "bert" && *kind != "t5")
      refuse(gguf_.file_name,
             fmt::format("tokenizer of kind {}, expected llama, gpt2, bert or t5", in_quotes(*kind)));
    read_tokens();
    bool adds_bos = *kind == "llama" || *kind == "bert";
    if (*kind == "llama" || *kind == "t5")
      read_sentencepiece(*kind == "t5");
    else if (*kind == "bert")
      read_word_pieces();
    else
      adds_bos = read_byte_level();
    read_special(adds_bos, *kind == "bert" || *kind == "t5");
    return Tokenizer(std::move(out_));
  }

private:
  void read_tokens() {
    const auto* texts = unwrap(gguf_.strings("tokenizer.ggml.tokens"));
    if (texts == nullptr || texts->empty()) refuse(gguf_.file_name, "no metadata \"tokenizer.ggml.tokens\"");
    const auto types = unwrap(gguf_.integers("tokenizer.ggml.token_type"));
    if (types && types->size() != texts->size())
      refuse(gguf_.file_name, fmt::format("{} token types for {} tokens", types->size(), texts->size()));
    out_->texts.reserve(texts->size());
    out_->index.reserve(texts->size());
    for (size_t i = 0; i < texts->size(); ++i) {
      const int64_t type = types ? (*types)[i] : 1;
      if (type < 0 || type > 6)
        refuse(gguf_.file_name, fmt::format("token {} has type {}, expected 0 to 6", i, type));
      constexpr TokenKind kinds[] = {TokenKind::normal,  TokenKind::normal,       TokenKind::unknown,
                                     TokenKind::control, TokenKind::user_defined, TokenKind::unused,
                                     TokenKind::byte};
      out_->add_token((*texts)[i], kinds[type]);
    }
    for (size_t i = 0; i < texts->size(); ++i) {
      const TokenKind kind = out_->kinds[i];
      const bool special = kind == TokenKind::control || kind == TokenKind::unknown;
      if ((special || kind == TokenKind::user_defined) && !(*texts)[i].empty()) {
        AddedToken token;
        token.id = static_cast<int32_t>(i);
        token.content = (*texts)[i];
        token.special = special;
        out_->added.push_back(std::move(token));
      }
    }
    settle_spaces();
    out_->index_added_tokens();
  }

  /// GGUF does not hold whether a token takes the space behind it along; llama.cpp knows it of this
  /// model by its name.
  void settle_spaces() {
    std::string name = unwrap(gguf_.string("general.name")).value_or("");
    for (char& c : name)
      if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    if (name.find("phi-3") == std::string::npos && name.find("phi3") == std::string::npos) return;
    for (AddedToken& token : out_->added)
      token.strip_right =
          token.content != "<unk>" && token.content != "<s>" && token.content != "<|endoftext|>";
  }

  void read_sentencepiece(bool unigram) {
    out_->description = unigram ? "t5" : "llama";
    out_->byte_fallback = !unigram;
    const auto scores = unwrap(gguf_.reals("tokenizer.ggml.scores"));
    if (!scores)
      refuse(gguf_.file_name, fmt::format("no metadata \"tokenizer.ggml.scores\", which a {} tokenizer needs",
                                          out_->description));
    if (scores->size() != out_->texts.size())
      refuse(gguf_.file_name, fmt::format("{} scores for {} tokens", scores->size(), out_->texts.size()));
    for (const double score : *scores) {
      if (score != score) refuse(gguf_.file_name, "a token's score is NaN");
      out_->scores.push_back(static_cast<float>(score));
    }
    SentencePieceRules rules;
    rules.dummy_prefix = unwrap(gguf_.boolean("tokenizer.ggml.add_space_prefix")).value_or(true);
    rules.remove_spaces = unwrap(gguf_.boolean("tokenizer.ggml.remove_extra_whitespaces")).value_or(false);
    if (const auto table = unwrap(gguf_.integers("tokenizer.ggml.precompiled_charsmap"));
        table && !table->empty()) {
      std::string bytes;
      for (const int64_t byte : *table) bytes += static_cast<char>(byte);
      rules.characters = std::make_shared<const CharacterTable>(bytes, gguf_.file_name);
    }
    out_->rule = unigram ? PieceRule::unigram : PieceRule::scored;
    settle_sentencepiece(*out_, rules);
  }

  /// A mark begins the tokens that begin a word.
  void read_word_pieces() {
    const std::string mark = "\xE2\x96\x81";
    out_->description = "bert";
    out_->rule = PieceRule::word_pieces;
    out_->word_prefix = mark;
    add_bert_normalizer(*out_, true, true, true, true);
    add_bert_splitter(*out_);
    out_->replacements = {{mark, " "}};
    out_->start = TokenizerModel::Start::strip_spaces;
    out_->start_spaces = 1;
  }

  /// Whether BOS is added unless the file says otherwise.
  bool read_byte_level() {
    const std::string pre = unwrap(gguf_.string("tokenizer.ggml.pre")).value_or("default");
    const auto& rows = pre_tokenizers();
    const auto row =
        std::find_if(rows.begin(), rows.end(), [&](const PreTokenizer& r) { return r.name == pre; });
    if (row == rows.end())
      refuse(gguf_.file_name,
             fmt::format("metadata \"tokenizer.ggml.pre\" is {}, which is not known", in_quotes(pre)));
    out_->description = fmt::format("gpt2 ({})", pre);
    out_->byte_level_text = true;
    out_->whole_pieces = row->whole_pieces;
    for (const auto pattern : row->patterns) {
      SplitStep step;
      step.regex = std::make_shared<const Regex>(pattern, gguf_.file_name, "the pattern");
      out_->splitter.push_back(std::move(step));
    }
    SplitStep alphabet;
    alphabet.kind = SplitStep::Kind::byte_level;
    out_->splitter.push_back(std::move(alphabet));
    read_merges();
    return row->adds_bos;
  }

  void read_merges() {
    const auto* merges = unwrap(gguf_.strings("tokenizer.ggml.merges"));
    if (merges == nullptr)
      refuse(gguf_.file_name, "no metadata \"tokenizer.ggml.merges\", which a gpt2 tokenizer needs");
    out_->merges.reserve(merges->size());
    for (size_t rank = 0; rank < merges->size(); ++rank) {
      const std::string_view text = (*merges)[rank];
      const size_t space = text.find(' ', 1);
      if (space == std::string_view::npos || space + 1 == text.size())
        refuse(gguf_.file_name, fmt::format("merge {} is {}, expected two tokens with a space between", rank,
                                            in_quotes(text)));
      const std::string_view left = text.substr(0, space), right = text.substr(space + 1);
      const int32_t l = out_->index.find(out_->texts, left), r = out_->index.find(out_->texts, right);
      const int32_t joined = out_->index.find(out_->texts, std::string(left) + std::string(right));
      if (l < 0 || r < 0 || joined < 0)
        refuse(gguf_.file_name,
               fmt::format("merge {} is {}, expected its parts and their union in the vocabulary", rank,
                           in_quotes(text)));
      out_->merges.add(l, r, static_cast<int32_t>(rank), joined);
    }
  }

  std::optional<int32_t> token(const std::string& which) const {
    const std::string key = fmt::format("tokenizer.ggml.{}_token_id", which);
    const auto id = unwrap(gguf_.integer(key));
    if (!id || *id == -1 || *id == 0xFFFFFFFF) return std::nullopt; // older writers put -1 for "none"
    if (*id < 0 || static_cast<size_t>(*id) >= out_->texts.size())
      refuse(gguf_.file_name, fmt::format("metadata {} is {}, expected less than {} tokens", in_quotes(key),
                                          *id, out_->texts.size()));
    return static_cast<int32_t>(*id);
  }

  void add_end(std::optional<int32_t> id) {
    if (id && std::find(out_->eos.begin(), out_->eos.end(), *id) == out_->eos.end()) out_->eos.push_back(*id);
  }

  void read_special(bool adds_bos, bool adds_eos) {
    out_->bos = token("bos");
    if (!out_->bos) out_->bos = token("cls");
    out_->unknown = token("unknown");
    out_->pad = token("padding");
    auto eos = token("eos");
    if (!eos) eos = token("seperator"); // the key's own spelling
    add_end(eos);
    add_end(token("eot"));
    add_end(token("eom"));
    for (const auto text : end_texts) {
      const int32_t id = out_->index.find(out_->texts, text);
      if (id >= 0 && out_->kinds[static_cast<size_t>(id)] == TokenKind::control) add_end(id);
    }
    if (unwrap(gguf_.boolean("tokenizer.ggml.add_bos_token")).value_or(adds_bos) && out_->bos)
      out_->prefix.push_back(*out_->bos);
    if (unwrap(gguf_.boolean("tokenizer.ggml.add_eos_token")).value_or(adds_eos) && eos)
      out_->suffix.push_back(*eos);
  }

  const Gguf& gguf_;
  std::shared_ptr<TokenizerModel> out_;
};

} // namespace

Result<Tokenizer> tokenizer_from_gguf(const Gguf& gguf) {
  return guarded(gguf.file_name, [&] { return GgufTokenizerReader(gguf).read(); });
}

} // namespace luminal
