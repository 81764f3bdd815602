// formats/safetensors_shards.cpp -- a model in several safetensors files, joined by
// model.safetensors.index.json.
#include "formats/json.h"
#include "formats/safetensors.h"
#include <algorithm>
#include <map>

namespace luminal {
namespace {

using namespace detail;

constexpr uint64_t max_index_bytes = 100'000'000;

Safetensors read_shards(const std::string& index_path) {
  const auto text = read_file(index_path, max_index_bytes);
  if (!text) throw ParseFailure{text.error()};
  const Json json = parse_json(*text, index_path);
  json.as_object(index_path, "the index");
  const Json* map = json.find("weight_map");
  if (map == nullptr)
    refuse_at(index_path, json.offset, "no \"weight_map\", expected one from tensor names to files");

  const std::string folder = index_path.substr(0, index_path.find_last_of('/') + 1);
  // by name: the order of the files does not depend on the index's order
  std::map<std::string, uint32_t> shards;
  for (const auto& [tensor, value] : map->as_object(index_path, "weight_map")) {
    const std::string& shard =
        value.as_string(index_path, fmt::format("file of tensor {}", in_quotes(tensor)));
    if (shard.empty() || shard == "." || shard == ".." || shard.find('/') != std::string::npos ||
        shard.find('\0') != std::string::npos)
      refuse_at(index_path, value.offset,
                fmt::format("tensor {} is in file {}, expected a plain file name", in_quotes(tensor),
                            in_quotes(shard)));
    shards.emplace(shard, 0);
  }

  Safetensors out;
  std::map<std::string_view, uint32_t> file_of; // views into the opened content below
  std::vector<Safetensors> opened;
  opened.reserve(shards.size());
  for (auto& [name, index] : shards) {
    auto shard = open_safetensors(folder + name);
    if (!shard) throw ParseFailure{shard.error()};
    index = static_cast<uint32_t>(opened.size());
    opened.push_back(std::move(*shard));
    for (const auto& tensor : opened.back().tensors) {
      const auto [place, added] = file_of.emplace(tensor.name, index);
      if (!added)
        refuse_at(folder + name, tensor.file_offset,
                  fmt::format("tensor {} is also in {}, expected in one shard", in_quotes(tensor.name),
                              opened[place->second].files[0]->path()));
    }
  }
  for (const auto& [tensor, value] : map->as_object(index_path, "weight_map")) {
    const auto place = file_of.find(tensor);
    const std::string& shard = value.as_string(index_path, "file");
    if (place == file_of.end() || place->second != shards.at(shard))
      refuse_at(index_path, value.offset,
                fmt::format("tensor {} is not in {}{}", in_quotes(tensor), shard,
                            place == file_of.end()
                                ? std::string()
                                : fmt::format(" but in {}", opened[place->second].files[0]->path())));
  }
  file_of.clear();
  for (auto& shard : opened) {
    const auto index = static_cast<uint32_t>(out.files.size());
    for (auto& tensor : shard.tensors) {
      tensor.file_index = index;
      out.tensors.push_back(std::move(tensor));
    }
    if (out.metadata.empty()) out.metadata = std::move(shard.metadata);
    out.files.push_back(std::move(shard.files[0]));
  }
  return out;
}

} // namespace

Result<Safetensors> open_safetensors_index(const std::string& index_path) {
  return guarded(index_path, [&] { return read_shards(index_path); });
}

} // namespace luminal
