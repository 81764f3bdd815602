// formats/safetensors.cpp -- reading one safetensors file.
#include "formats/safetensors.h"
#include "formats/json.h"
#include "formats/other_kind.h"
#include <algorithm>
#include <cstring>

namespace luminal {
namespace {

using namespace detail;

constexpr uint64_t max_header_bytes = 100'000'000; // the reference implementation's limit
constexpr size_t max_safetensors_dimensions = 64;

struct Entry {
  TensorView view;
  uint64_t begin = 0, end = 0; // within the data section
  uint64_t header_offset = 0;
};

Entry read_entry(const std::string& name, const Json& json, std::string_view file) {
  const auto what = [&](std::string_view field) {
    return fmt::format("{} of tensor {}", field, in_quotes(name));
  };
  Entry entry;
  entry.view.name = name;
  entry.header_offset = json.offset;
  const Json *dtype = nullptr, *shape = nullptr, *offsets = nullptr;
  for (const auto& [key, value] : json.as_object(file, fmt::format("tensor {}", in_quotes(name)))) {
    if (key == "dtype")
      dtype = &value;
    else if (key == "shape")
      shape = &value;
    else if (key == "data_offsets")
      offsets = &value;
    else
      refuse_at(file, value.offset,
                fmt::format("tensor {} has the unknown field {}, expected dtype, shape, data_offsets",
                            in_quotes(name), in_quotes(key)));
  }
  if (!dtype || !shape || !offsets)
    refuse_at(file, json.offset,
              fmt::format("tensor {} has no {}", in_quotes(name),
                          !dtype   ? "dtype"
                          : !shape ? "shape"
                                   : "data_offsets"));

  const std::string& dtype_name = dtype->as_string(file, what("dtype"));
  const auto type = storage_type_from_safetensors(dtype_name);
  if (!type) {
    std::string known;
    for (const auto& row : storage_types())
      if (!row.safetensors_name.empty())
        known += fmt::format("{}{}", known.empty() ? "" : " ", row.safetensors_name);
    refuse_at(file, dtype->offset,
              fmt::format("{} is {}, expected one of {}", what("dtype"), in_quotes(dtype_name), known));
  }
  entry.view.type = *type;

  const auto& sizes = shape->as_array(file, what("shape"));
  if (sizes.size() > max_safetensors_dimensions)
    refuse_at(file, shape->offset,
              fmt::format("{} has {} axes, expected at most {}", what("shape"), sizes.size(),
                          max_safetensors_dimensions));
  for (const Json& size : sizes) {
    const int64_t n = size.as_int(file, what("a size in the shape"));
    if (n < 0)
      refuse_at(file, size.offset,
                fmt::format("{} is {}, expected 0 or more", what("a size in the shape"), n));
    entry.view.shape.push_back(n);
  }

  const auto& pair = offsets->as_array(file, what("data_offsets"));
  if (pair.size() != 2)
    refuse_at(file, offsets->offset,
              fmt::format("{} has {} numbers, expected 2", what("data_offsets"), pair.size()));
  const int64_t begin = pair[0].as_int(file, what("data_offsets"));
  const int64_t end = pair[1].as_int(file, what("data_offsets"));
  if (begin < 0 || end < begin)
    refuse_at(file, offsets->offset,
              fmt::format("{} are [{}, {}], expected 0 <= begin <= end", what("data_offsets"), begin, end));
  entry.begin = static_cast<uint64_t>(begin);
  entry.end = static_cast<uint64_t>(end);

  const auto expected = storage_bytes(*type, entry.view.shape);
  if (!expected)
    refuse_at(file, shape->offset,
              fmt::format("{}: {} is more than can be addressed", what("shape"), entry.view.describe()));
  if (entry.end - entry.begin != *expected)
    refuse_at(file, offsets->offset,
              fmt::format("{} span {} bytes, expected {} for {}", what("data_offsets"),
                          entry.end - entry.begin, *expected, entry.view.describe()));
  return entry;
}

Safetensors read(std::span<const std::byte> bytes, std::string_view file) {
  if (bytes.size() < 8)
    refuse_at(file, 0,
              fmt::format("{} bytes in the file, expected at least 8 (the header's length)", bytes.size()));
  uint64_t header_bytes = 0;
  for (int i = 7; i >= 0; --i)
    header_bytes = header_bytes << 8 | std::to_integer<uint64_t>(bytes[static_cast<size_t>(i)]);
  if (header_bytes > max_header_bytes) {
    if (const std::string_view other = other_kind(bytes); !other.empty())
      refuse_at(file, 0, fmt::format("this is {}, expected a safetensors file", other));
    refuse_at(file, 0, fmt::format("header length {}, expected at most {}", header_bytes, max_header_bytes));
  }
  if (header_bytes > bytes.size() - 8)
    refuse_at(file, 0,
              fmt::format("header length {}, expected at most the {} bytes that follow", header_bytes,
                          bytes.size() - 8));

  const std::string_view header = as_text(bytes.subspan(8, header_bytes));
  if (header.empty() || header.front() != '{')
    refuse_at(file, 8, fmt::format("header begins with {}, expected \"{{\"", in_quotes(header.substr(0, 1))));
  const Json json = parse_json(header, file, 8);

  Safetensors out;
  std::vector<Entry> entries;
  for (const auto& [name, value] : json.as_object(file, "the header")) {
    if (name == "__metadata__") {
      for (const auto& [key, text] : value.as_object(file, "__metadata__"))
        out.metadata.emplace(key, text.as_string(file, fmt::format("__metadata__ {}", in_quotes(key))));
    } else {
      entries.push_back(read_entry(name, value, file));
    }
  }

  // Names break ties, so that empty tensors at one place come in one order.
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return std::tie(a.begin, a.end, a.view.name) < std::tie(b.begin, b.end, b.view.name);
  });
  const uint64_t data_offset = 8 + header_bytes;
  const uint64_t data_bytes = bytes.size() - data_offset;
  uint64_t position = 0;
  const Entry* before = nullptr;
  for (Entry& entry : entries) {
    if (entry.end > data_bytes)
      refuse_at(file, data_offset + entry.begin,
                fmt::format("tensor {} ends at offset {}, expected at most {} (the end of the file)",
                            in_quotes(entry.view.name), data_offset + entry.end, bytes.size()));
    if (entry.begin < position)
      refuse_at(file, data_offset + entry.begin,
                fmt::format("tensor {} overlaps tensor {}, which ends at offset {}",
                            in_quotes(entry.view.name), in_quotes(before->view.name),
                            data_offset + position));
    if (entry.begin > position)
      refuse_at(file, data_offset + position,
                fmt::format("{} bytes that belong to no tensor, expected tensor {} here",
                            entry.begin - position, in_quotes(entry.view.name)));
    position = entry.end;
    before = &entry;
    entry.view.file_offset = data_offset + entry.begin;
    entry.view.bytes = bytes.subspan(entry.view.file_offset, entry.end - entry.begin);
  }
  if (position != data_bytes)
    refuse_at(
        file, data_offset + position,
        fmt::format("{} bytes after the last tensor, expected the end of the file", data_bytes - position));
  out.tensors.reserve(entries.size());
  for (Entry& entry : entries) out.tensors.push_back(std::move(entry.view));
  return out;
}

} // namespace

const TensorView* Safetensors::find(std::string_view name) const {
  for (const auto& tensor : tensors)
    if (tensor.name == name) return &tensor;
  return nullptr;
}

Result<Safetensors> parse_safetensors(std::span<const std::byte> bytes, std::string_view file_name) {
  return guarded(file_name, [&] { return read(bytes, file_name); });
}

Result<Safetensors> open_safetensors(const std::string& path) {
  auto mapped = MappedFile::open(path);
  if (!mapped) return mapped.failure();
  auto file = std::make_shared<const MappedFile>(std::move(*mapped));
  auto content = parse_safetensors(file->bytes(), path);
  if (content) content->files.push_back(std::move(file));
  return content;
}

} // namespace luminal
