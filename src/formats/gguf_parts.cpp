// formats/gguf_parts.cpp -- a GGUF model cut into several files (gguf-split of llama.cpp).
#include "formats/gguf.h"
#include "formats/parse.h"
#include <set>
#include <utility>

namespace luminal {
namespace {

using namespace detail;

constexpr int64_t max_parts = 99999; // five digits in the name

Gguf open_one(const std::string& path) {
  auto gguf = open_gguf(path);
  if (!gguf) throw ParseFailure{gguf.error()};
  return std::move(*gguf);
}

int64_t number_of(const Gguf& gguf, std::string_view key, int64_t otherwise) {
  const auto value = gguf.integer(key);
  if (!value) throw ParseFailure{value.error()};
  return value->value_or(otherwise);
}

Gguf read(const std::string& path, std::vector<std::shared_ptr<const MappedFile>>& files) {
  Gguf out = open_one(path);
  const int64_t count = number_of(out, "split.count", 0);
  if (count <= 1) {
    files.push_back(out.file);
    return out;
  }
  const int64_t number = number_of(out, "split.no", -1);
  if (count > max_parts || number < 0 || number >= count)
    refuse(path, fmt::format("part {} of {} of a model, expected at most {} parts, counted from 0", number,
                             count, max_parts));
  const std::string ending = fmt::format("-{:05}-of-{:05}.gguf", number + 1, count);
  if (!path.ends_with(ending))
    refuse(path, fmt::format("part {} of {} of a model, expected a name that ends in \"{}\"", number + 1,
                             count, ending));
  const std::string prefix = path.substr(0, path.size() - ending.size());

  Gguf all;
  std::set<std::string> names;
  for (int64_t i = 0; i < count; ++i) {
    const std::string part_path = fmt::format("{}-{:05}-of-{:05}.gguf", prefix, i + 1, count);
    Gguf part = i == number ? std::exchange(out, {}) : open_one(part_path);
    if (number_of(part, "split.count", 0) != count || number_of(part, "split.no", -1) != i)
      refuse(part_path, fmt::format("part {} of {} by its metadata, expected part {} of {}",
                                    number_of(part, "split.no", -1) + 1, number_of(part, "split.count", 0),
                                    i + 1, count));
    files.push_back(part.file);
    std::vector<TensorView> tensors = std::move(part.tensors);
    if (i == 0) {
      all = std::move(part);
      all.tensors.clear();
    }
    for (auto& tensor : tensors) {
      if (!names.insert(tensor.name).second)
        refuse_at(part_path, tensor.file_offset,
                  fmt::format("tensor {} is also in a part before", in_quotes(tensor.name)));
      tensor.file_index = static_cast<uint32_t>(i);
      all.tensors.push_back(std::move(tensor));
    }
  }
  const int64_t expected = number_of(all, "split.tensors.count", static_cast<int64_t>(all.tensors.size()));
  if (expected != static_cast<int64_t>(all.tensors.size()))
    refuse(path, fmt::format("{} tensors in {} parts, expected {}", all.tensors.size(), count, expected));
  return all;
}

} // namespace

Result<Gguf> open_gguf_parts(const std::string& path, std::vector<std::shared_ptr<const MappedFile>>& files) {
  return guarded(path, [&] { return read(path, files); });
}

} // namespace luminal
