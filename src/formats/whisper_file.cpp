// formats/whisper_file.cpp -- reading models of whisper.cpp.
#include "formats/whisper_file.h"
#include "formats/parse.h"
#include "formats/tokenizer_ranks.h"
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <set>

namespace luminal {
namespace {

using namespace detail;

constexpr int64_t most = int64_t{1} << 24; // of every size
constexpr int32_t max_whisper_dimensions = 4, max_whisper_name_bytes = 255, max_token_bytes = 65535;

/// In the order of their ids in the vocabulary.
constexpr std::string_view languages[] = {
    "en", "zh", "de", "es", "ru", "ko", "fr", "ja", "pt",  "tr", "pl", "ca", "nl", "ar", "sv", "it", "id",
    "hi", "fi", "vi", "he", "uk", "el", "ms", "cs", "ro",  "da", "hu", "ta", "no", "th", "ur", "hr", "bg",
    "lt", "la", "mi", "ml", "cy", "sk", "te", "fa", "lv",  "bn", "sr", "az", "sl", "kn", "et", "mk", "br",
    "eu", "is", "hy", "ne", "mn", "bs", "kk", "sq", "sw",  "gl", "mr", "pa", "si", "km", "sn", "yo", "so",
    "af", "oc", "ka", "be", "tg", "sd", "gu", "am", "yi",  "lo", "uz", "fo", "ht", "ps", "tk", "nn", "mt",
    "sa", "lb", "my", "bo", "tl", "mg", "as", "tt", "haw", "ln", "ha", "ba", "jw", "su", "yue"};

class Reader {
public:
  Reader(std::span<const std::byte> bytes, std::string_view file) : bytes_(bytes), file_(file) {}

  WhisperFile read() {
    WhisperFile out;
    out.file_name = file_;
    if (!is_whisper_file(take(4, "the beginning")))
      refuse_at(file_, 0, "does not begin as a model of whisper.cpp does");
    for (const auto& [into, name] : {std::pair(&out.vocabulary, "n_vocab"),
                                     {&out.audio_context, "n_audio_ctx"},
                                     {&out.audio_width, "n_audio_state"},
                                     {&out.audio_heads, "n_audio_head"},
                                     {&out.audio_layers, "n_audio_layer"},
                                     {&out.text_context, "n_text_ctx"},
                                     {&out.text_width, "n_text_state"},
                                     {&out.text_heads, "n_text_head"},
                                     {&out.text_layers, "n_text_layer"},
                                     {&out.mels, "n_mels"}})
      *into = integer(name, 1, most);
    integer("the file type", 0, most); // every tensor says its own
    read_filters(out);
    const int64_t count = integer("the number of tokens", 0, out.vocabulary);
    for (int64_t i = 0; i < count; i++) {
      const auto bytes = integer("the length of a token", 0, max_token_bytes);
      out.tokens.emplace_back(take(uint64_t(bytes), "a token"));
    }
    std::set<std::string> names;
    while (position_ < bytes_.size()) {
      const uint64_t begin = position_;
      out.tensors.push_back(tensor());
      if (!names.insert(out.tensors.back().name).second)
        refuse_at(file_, begin, fmt::format("a second tensor {}", in_quotes(out.tensors.back().name)));
    }
    return out;
  }

private:
  std::string_view take(uint64_t n, std::string_view what) {
    const uint64_t left = bytes_.size() - position_;
    if (n > left)
      refuse_at(
          file_, position_,
          fmt::format("{} takes {} bytes, expected at most the {} that are left in the file", what, n, left));
    const auto text = as_text(bytes_.subspan(position_, n));
    position_ += n;
    return text;
  }

  int64_t integer(std::string_view what, int64_t low, int64_t high) {
    static_assert(std::endian::native == std::endian::little);
    const uint64_t begin = position_;
    int32_t value = 0;
    std::memcpy(&value, take(4, what).data(), 4);
    if (value < low || value > high)
      refuse_at(file_, begin, fmt::format("{} is {}, expected {} to {}", what, value, low, high));
    return value;
  }

  void read_filters(WhisperFile& out) {
    integer("the number of filters", out.mels, out.mels);
    out.bins = integer("the number of bins", 1, 65536);
    const uint64_t begin = position_;
    const auto values = take(uint64_t(out.mels * out.bins) * sizeof(float), "the filters");
    out.filters.resize(size_t(out.mels * out.bins));
    std::memcpy(out.filters.data(), values.data(), values.size());
    for (size_t i = 0; i < out.filters.size(); i++)
      if (!std::isfinite(out.filters[i]))
        refuse_at(file_, begin + i * sizeof(float), "a value of the filters is not a finite number");
  }

  TensorView tensor() {
    TensorView view;
    const auto dimensions = integer("the number of dimensions", 1, max_whisper_dimensions);
    const auto length = integer("the length of a name", 1, max_whisper_name_bytes);
    const uint64_t at = position_;
    const auto id = uint32_t(integer("the type of a tensor", 0, most));
    for (int64_t i = 0; i < dimensions; i++) view.shape.push_back(integer("an extent", 0, INT32_MAX));
    std::ranges::reverse(view.shape);
    const uint64_t name_at = position_;
    view.name = take(uint64_t(length), "the name of a tensor");
    if (find_invalid_utf8(view.name)) refuse_at(file_, name_at, "the name of a tensor is not UTF-8");
    const auto type = storage_type_from_ggml(id);
    if (!type)
      refuse_at(file_, at,
                fmt::format("tensor {} has type {}: {}", in_quotes(view.name), id, describe_ggml_type(id)));
    view.type = *type;
    const auto bytes = storage_bytes(view.type, view.shape);
    if (!bytes)
      refuse_at(file_, at, fmt::format("tensor {}: no size for {}", in_quotes(view.name), view.describe()));
    view.file_offset = position_;
    view.bytes = as_bytes(take(*bytes, fmt::format("tensor {}", in_quotes(view.name))));
    return view;
  }

  std::span<const std::byte> bytes_;
  std::string_view file_;
  uint64_t position_ = 0;
};

} // namespace

const TensorView* WhisperFile::find(std::string_view name) const {
  const auto at = std::ranges::find(tensors, name, &TensorView::name);
  return at == tensors.end() ? nullptr : &*at;
}

bool is_whisper_file(std::string_view head) { return head.starts_with("lmgg"); }

Result<WhisperFile> parse_whisper_file(std::span<const std::byte> bytes, std::string_view file_name) {
  return guarded(file_name, [&] { return Reader(bytes, file_name).read(); });
}

Result<WhisperFile> open_whisper_file(const std::string& path) {
  auto mapped = MappedFile::open(path);
  if (!mapped) return Failure{mapped.error()};
  const auto kept = std::make_shared<const MappedFile>(std::move(*mapped));
  auto file = parse_whisper_file(kept->bytes(), path);
  if (file) file->file = kept;
  return file;
}

std::vector<std::pair<std::string, int32_t>> whisper_special_tokens(int64_t vocabulary) {
  if (vocabulary < 51864 || vocabulary > 51866) return {};
  std::vector<std::pair<std::string, int32_t>> out;
  int32_t id = vocabulary == 51864 ? 50256 : 50257;
  const auto add = [&](std::string name) { out.emplace_back(std::move(name), id++); };
  add("<|endoftext|>");
  add("<|startoftranscript|>");
  for (const std::string_view language : std::span(languages).first(vocabulary == 51866 ? 100 : 99))
    add(fmt::format("<|{}|>", language));
  for (const char* name : {"<|translate|>", "<|transcribe|>", "<|startoflm|>", "<|startofprev|>",
                           "<|nospeech|>", "<|notimestamps|>"})
    add(name);
  for (int32_t i = 0; id < vocabulary; i++) add(fmt::format("<|{:.2f}|>", double(i) * 0.02));
  return out;
}

Result<Tokenizer> whisper_tokenizer(const WhisperFile& file) {
  return guarded(file.file_name, [&] {
    const auto special = whisper_special_tokens(file.vocabulary);
    if (special.empty())
      refuse(file.file_name, fmt::format("a vocabulary of {} tokens, expected that of a Whisper model: "
                                         "51864, 51865 or 51866",
                                         file.vocabulary));
    const auto count = size_t(special.front().second);
    if (file.tokens.size() < count)
      refuse(file.file_name, fmt::format("{} tokens in the file, expected {}", file.tokens.size(), count));
    const std::vector<std::string> ranks(file.tokens.begin(), file.tokens.begin() + std::ptrdiff_t(count));
    auto tokenizer = tokenizer_from_ranks(ranks, special, "whisper", file.file_name);
    if (!tokenizer) throw ParseFailure{tokenizer.error()};
    return std::move(*tokenizer);
  });
}

} // namespace luminal
