// formats/tokenizer_tiktoken.cpp -- rank files of tiktoken: a line for each token, its bytes in base64
// and its rank. https://github.com/openai/tiktoken
#include "formats/json.h"
#include "formats/parse.h"
#include "formats/tokenizer_model.h"
#include "formats/tokenizer_patterns.h"
#include "formats/tokenizer_ranks.h"
#include <algorithm>
#include <charconv>
#include <unordered_map>

namespace luminal {
namespace {

using namespace detail;

/// What a rank file leaves unsaid: its pattern and its special tokens, known by the number of
/// ranks.
struct Encoding {
  std::string_view name;
  size_t ranks;
  std::string_view pattern;
  /// Special tokens and their ids.
  std::vector<std::pair<std::string, int32_t>> special;
  std::string_view begin, end;
};

std::vector<std::pair<std::string, int32_t>> llama3_special() {
  std::vector<std::pair<std::string, int32_t>> out;
  constexpr std::string_view named[] = {"<|begin_of_text|>",
                                        "<|end_of_text|>",
                                        "",
                                        "",
                                        "<|finetune_right_pad_id|>",
                                        "",
                                        "<|start_header_id|>",
                                        "<|end_header_id|>",
                                        "<|eom_id|>",
                                        "<|eot_id|>",
                                        "<|python_tag|>"};
  int reserved = 0;
  for (int32_t i = 0; i < 256; ++i) {
    const bool has_name = static_cast<size_t>(i) < std::size(named) && !named[i].empty();
    out.emplace_back(has_name ? std::string(named[i])
                              : fmt::format("<|reserved_special_token_{}|>", reserved++),
                     128000 + i);
  }
  return out;
}

const std::vector<Encoding>& encodings() {
  static const std::vector<Encoding> rows = {
      {"gpt2", 50256, patterns::gpt2_spaces, {{"<|endoftext|>", 50256}}, "", "<|endoftext|>"},
      {"whisper", 50257, patterns::gpt2_spaces, {{"<|endoftext|>", 50257}}, "", "<|endoftext|>"},
      {"cl100k",
       100256,
       patterns::cl100k,
       {{"<|endoftext|>", 100257},
        {"<|fim_prefix|>", 100258},
        {"<|fim_middle|>", 100259},
        {"<|fim_suffix|>", 100260},
        {"<|endofprompt|>", 100276}},
       "",
       "<|endoftext|>"},
      {"o200k",
       199998,
       patterns::o200k,
       {{"<|endoftext|>", 199999}, {"<|endofprompt|>", 200018}},
       "",
       "<|endoftext|>"},
      {"llama3", 128000, patterns::cl100k, llama3_special(), "<|begin_of_text|>", "<|end_of_text|>"},
      {"qwen",
       151643,
       patterns::qwen,
       {{"<|endoftext|>", 151643}, {"<|im_start|>", 151644}, {"<|im_end|>", 151645}},
       "",
       "<|endoftext|>"},
  };
  return rows;
}

class TiktokenReader {
public:
  explicit TiktokenReader(std::string_view file) : file_(file), out_(std::make_shared<TokenizerModel>()) {}

  Tokenizer read(std::string_view text, std::string_view config_text, std::span<const std::string> special) {
    const std::vector<std::string> ranks = read_ranks(text);
    const auto& rows = encodings();
    const auto row = std::find_if(rows.begin(), rows.end(),
                                  [&](const Encoding& encoding) { return encoding.ranks == ranks.size(); });
    if (row == rows.end()) {
      std::string known;
      for (const Encoding& encoding : rows)
        known += fmt::format("{}{} ({})", known.empty() ? "" : ", ", encoding.ranks, encoding.name);
      refuse(file_, fmt::format("{} ranks, expected those of an encoding whose pattern is known: {}",
                                ranks.size(), known));
    }
    add_ranks(ranks);
    if (special.empty())
      for (const auto& [name, id] : row->special) add_special(name, id);
    for (const std::string& name : special) add_special(name, static_cast<int32_t>(out_->texts.size()));
    const std::string config_file = config_file_beside(file_);
    if (!config_text.empty()) {
      const Json config = parse_json(config_text, config_file);
      config.as_object(config_file, "the configuration");
      read_added_tokens_decoder(*out_, config, config_file);
    }
    const auto named = [&](std::string_view name) {
      const int32_t id = name.empty() ? -1 : out_->index.find(out_->texts, name);
      return id < 0 ? std::nullopt : std::optional(id);
    };
    out_->bos = named(row->begin);
    if (out_->bos) out_->prefix.push_back(*out_->bos);
    for (const std::string_view name :
         {row->end, std::string_view("<|eot_id|>"), std::string_view("<|im_end|>")})
      if (const auto id = named(name)) out_->eos.push_back(*id);
    return finish(row->pattern, fmt::format("tiktoken ({})", row->name));
  }

  Tokenizer make(const std::vector<std::string>& ranks,
                 std::span<const std::pair<std::string, int32_t>> special, std::string_view name) {
    add_ranks(ranks);
    for (const auto& [text, id] : special) add_special(text, id);
    if (!special.empty()) out_->eos.push_back(special.front().second);
    return finish(patterns::gpt2_spaces, std::string(name));
  }

private:
  void add_ranks(const std::vector<std::string>& ranks) {
    for (const std::string& bytes : ranks)
      out_->add_token(byte_level_spelling(bytes), bytes.empty() ? TokenKind::unused : TokenKind::normal);
    add_merges(ranks);
  }

  Tokenizer finish(std::string_view pattern, std::string description) {
    SplitStep cut, alphabet;
    cut.regex = std::make_shared<const Regex>(pattern, file_, "the pattern");
    alphabet.kind = SplitStep::Kind::byte_level;
    out_->splitter.push_back(std::move(cut));
    out_->splitter.push_back(std::move(alphabet));
    out_->byte_level_text = out_->whole_pieces = true;
    out_->index_added_tokens();
    out_->description = std::move(description);
    return Tokenizer(std::move(out_));
  }

  /// The bytes of each token, by rank.
  std::vector<std::string> read_ranks(std::string_view text) {
    std::vector<std::string> out;
    for (size_t begin = 0; begin < text.size();) {
      const size_t end = std::min(text.find('\n', begin), text.size());
      std::string_view line = text.substr(begin, end - begin);
      if (line.ends_with('\r')) line.remove_suffix(1);
      if (!line.empty()) {
        const size_t space = line.find(' ');
        size_t rank = 0;
        const char* const last = line.data() + line.size();
        std::string bytes;
        if (space == std::string_view::npos || !base64_decode(line.substr(0, space), bytes) ||
            std::from_chars(line.data() + space + 1, last, rank).ptr != last)
          refuse_at(file_, begin,
                    fmt::format("the line is {}, expected a token in base64, a space and its rank",
                                in_quotes(line)));
        if (rank != out.size())
          refuse_at(file_, begin, fmt::format("rank {}, expected {}: ranks in order", rank, out.size()));
        out.push_back(std::move(bytes));
      }
      begin = end + 1;
    }
    return out;
  }

  /// Two neighbours join where together they are a token, the lowest rank first: so every cut of a
  /// token into two tokens is a merge.
  void add_merges(const std::vector<std::string>& ranks) {
    std::unordered_map<std::string_view, int32_t> ids;
    ids.reserve(ranks.size());
    for (size_t i = 0; i < ranks.size(); ++i) ids.emplace(ranks[i], static_cast<int32_t>(i));
    std::vector<MergeTable::Merge> merges;
    for (size_t i = 0; i < ranks.size(); ++i) {
      const std::string_view text = ranks[i];
      const auto rank = static_cast<int32_t>(i);
      for (size_t cut = 1; cut < text.size(); ++cut) {
        const auto left = ids.find(text.substr(0, cut)), right = ids.find(text.substr(cut));
        if (left != ids.end() && right != ids.end())
          merges.push_back({left->second, right->second, rank, rank});
      }
    }
    out_->merges.reserve(merges.size());
    for (const auto& merge : merges) out_->merges.add(merge.left, merge.right, merge.rank, merge.result);
  }

  void add_special(const std::string& name, int32_t id) {
    while (out_->texts.size() < static_cast<size_t>(id)) out_->add_token("", TokenKind::unused);
    AddedToken token;
    token.id = id;
    token.content = name;
    token.special = true;
    out_->added.push_back(std::move(token));
    out_->add_token(name, TokenKind::control);
  }

  std::string_view file_;
  std::shared_ptr<TokenizerModel> out_;
};

} // namespace

bool is_tiktoken(std::string_view bytes) {
  const std::string_view line = bytes.substr(0, bytes.find('\n'));
  return line.size() < bytes.size() && line.size() < 200 && line.ends_with(" 0");
}

Result<Tokenizer> tokenizer_from_tiktoken(std::string_view bytes, std::string_view file_name,
                                          std::string_view tokenizer_config_json,
                                          std::span<const std::string> special) {
  return guarded(file_name,
                 [&] { return TiktokenReader(file_name).read(bytes, tokenizer_config_json, special); });
}

Result<Tokenizer> detail::tokenizer_from_ranks(const std::vector<std::string>& ranks,
                                               std::span<const std::pair<std::string, int32_t>> special,
                                               std::string_view name, std::string_view file_name) {
  return guarded(file_name, [&] { return TiktokenReader(file_name).make(ranks, special, name); });
}

} // namespace luminal
