// train/text_data.cpp -- vocabularies, and samples that are pieces of a row of tokens.
#include "base/file.h"
#include "base/text.h"
#include "formats/gguf.h"
#include "formats/npy.h"
#include "formats/tokenizer.h"
#include "luminal/train_data.h"
#include "tensor/effects.h"
#include "tensor/graph_state.h"
#include <algorithm>
#include <cstring>
#include <fmt/format.h>
#include <set>

namespace luminal {

struct Vocabulary::State {
  std::optional<Tokenizer> tokenizer;  // else:
  std::vector<std::string> characters; // UTF-8, in rising order of code points (which is that of bytes)
};

Vocabulary Vocabulary::characters(std::string_view text, Where where) {
  if (!is_utf8(text)) throw Error("characters", "the text is not UTF-8", where);
  std::set<std::string_view> seen;
  for (size_t i = 0; i < text.size(); i += utf8_length(static_cast<unsigned char>(text[i])))
    seen.insert(text.substr(i, utf8_length(static_cast<unsigned char>(text[i]))));
  if (seen.empty()) throw Error("characters", "the text is empty", where);
  return Vocabulary(std::make_shared<State>(State{{}, {seen.begin(), seen.end()}}));
}
Vocabulary Vocabulary::bytes() { return Vocabulary(std::make_shared<State>()); }

Vocabulary Vocabulary::tokenizer(const std::string& path, Where where) {
  const auto checked = [&](auto&& result) {
    if (!result) throw Error("tokenizer", result.error(), where);
    return std::move(*result);
  };
  if (path.ends_with(".gguf"))
    return Vocabulary(
        std::make_shared<State>(State{checked(tokenizer_from_gguf(checked(open_gguf(path)))), {}}));
  const std::string file = is_directory(path) ? path + "/tokenizer.json" : path;
  const std::string text = checked(read_file(file));
  return Vocabulary(std::make_shared<State>(State{checked(tokenizer_from_json(text, file)), {}}));
}

int64_t Vocabulary::size() const {
  return state_->tokenizer            ? state_->tokenizer->size()
         : state_->characters.empty() ? 256
                                      : int64_t(state_->characters.size());
}

std::vector<int32_t> Vocabulary::encode(std::string_view text, Where where) const {
  if (state_->tokenizer) return state_->tokenizer->encode(text, {.add_special = false});
  std::vector<int32_t> ids;
  const std::vector<std::string>& list = state_->characters;
  for (size_t i = 0; i < text.size();) {
    if (list.empty()) {
      ids.push_back(static_cast<unsigned char>(text[i++]));
      continue;
    }
    const size_t length = std::min(utf8_length(static_cast<unsigned char>(text[i])), text.size() - i);
    const auto found = std::lower_bound(list.begin(), list.end(), text.substr(i, length));
    if (found == list.end() || *found != text.substr(i, length))
      throw Error("encode",
                  fmt::format("the vocabulary has no character \"{}\"", printable(text.substr(i, length))),
                  where);
    ids.push_back(int32_t(found - list.begin()));
    i += length;
  }
  return ids;
}

std::string Vocabulary::decode(std::span<const int32_t> ids, Where where) const {
  if (state_->tokenizer) return state_->tokenizer->decode(ids);
  std::string text;
  for (int32_t id : ids) {
    if (id < 0 || id >= size()) throw Error("decode", fmt::format("token {} of {}", id, size()), where);
    text += state_->characters.empty() ? std::string(1, char(id)) : state_->characters[size_t(id)];
  }
  return text;
}

namespace datasets {
namespace {

/// `context` tokens and those one place further, from numbers of any integer type.
class TokenData : public DataSet {
public:
  TokenData(std::span<const std::byte> bytes, DType type, std::shared_ptr<const void> owner,
            const TokenOptions& options)
      : bytes_(bytes), type_(type), owner_(std::move(owner)), context_(options.context),
        stride_(options.stride == 0 ? options.context : options.stride),
        fields_{{"tokens", DType::i32, {context_}}, {"targets", DType::i32, {context_}}} {
    const int64_t count = int64_t(bytes.size()) * 8 / bits(type);
    size_ = count <= context_ ? 0 : (count - context_ - 1) / stride_ + 1;
  }
  int64_t size() const override { return size_; }
  const std::vector<DataField>& fields() const override { return fields_; }
  void read(int64_t index, std::span<std::byte* const> into) const override {
    for (int64_t k = 0; k < 2; ++k)
      convert_elements(DType::i32, into[size_t(k)], type_,
                       bytes_.data() + storage_bytes(type_, index * stride_ + k), context_);
  }

private:
  std::span<const std::byte> bytes_;
  DType type_;
  std::shared_ptr<const void> owner_;
  int64_t context_, stride_, size_ = 0;
  std::vector<DataField> fields_;
};

DataSetPtr made(std::string_view op, std::span<const std::byte> bytes, DType type,
                std::shared_ptr<const void> owner, const TokenOptions& options, Where where) {
  if (options.context < 1 || options.stride < 0)
    throw Error(op,
                fmt::format("context {} and stride {}: at least 1 and 0 are expected", options.context,
                            options.stride),
                where);
  auto data = std::make_shared<TokenData>(bytes, type, std::move(owner), options);
  if (data->size() < 1)
    throw Error(op,
                fmt::format("{} tokens are too few for a context of {} and the token behind it",
                            int64_t(bytes.size()) * 8 / bits(type), options.context),
                where);
  return data;
}

} // namespace

DataSetPtr from_tokens(std::vector<int32_t> tokens, const TokenOptions& options, Where where) {
  auto owner = std::make_shared<std::vector<int32_t>>(std::move(tokens));
  return made("from_tokens", std::as_bytes(std::span<const int32_t>(*owner)), DType::i32, owner, options,
              where);
}

DataSetPtr token_file(const std::string& path, const TokenOptions& options, DType type, Where where) {
  constexpr std::string_view op = "token_file";
  if (path.ends_with(".npy")) {
    auto read = open_npy(path);
    if (!read) throw Error(op, read.error(), where);
    auto file = std::make_shared<NpyFile>(std::move(*read));
    const TensorView& view = file->arrays[0].tensor;
    const auto stored = dtype_of_storage(view.type);
    if (view.shape.size() != 1 || !stored || is_float(*stored) || *stored == DType::boolean)
      throw Error(op,
                  fmt::format("{} is {}: whole numbers along one axis are expected", path, view.describe()),
                  where);
    return made(op, view.bytes, *stored, file, options, where);
  }
  if (is_float(type) || type == DType::boolean || bits(type) < 8)
    throw Error(op, fmt::format("{} is not a type of tokens", to_string(type)), where);
  auto mapped = MappedFile::open(path);
  if (!mapped) throw Error(op, mapped.error(), where);
  auto file = std::make_shared<MappedFile>(std::move(*mapped));
  if (file->bytes().size() % size_t(bits(type) / 8) != 0)
    throw Error(
        op,
        fmt::format("{}: {} bytes are no whole number of {}", path, file->bytes().size(), to_string(type)),
        where);
  return made(op, file->bytes(), type, file, options, where);
}

DataSetPtr text_file(const std::string& path, const Vocabulary& vocabulary, const TokenOptions& options,
                     Where where) {
  auto text = read_file(path, uint64_t{1} << 34);
  if (!text) throw Error("text_file", text.error(), where);
  return from_tokens(vocabulary.encode(*text, where), options, where);
}

} // namespace datasets
} // namespace luminal
