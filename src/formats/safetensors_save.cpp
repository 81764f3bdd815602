// formats/safetensors_save.cpp -- writing safetensors.
#include "formats/json.h"
#include "formats/safetensors.h"
#include <algorithm>
#include <numeric>
#include <set>

namespace luminal {
namespace {

using namespace detail;

constexpr std::string_view file_kind = "safetensors";

uint64_t stored_bytes(const TensorView& tensor) {
  const auto bytes = storage_bytes(tensor.type, tensor.shape);
  if (!bytes || *bytes != tensor.bytes.size())
    refuse(file_kind, fmt::format("tensor {} is {} with {} bytes, expected {}", in_quotes(tensor.name),
                                  tensor.describe(), tensor.bytes.size(), bytes.value_or(0)));
  return *bytes;
}

uint64_t stored_bytes(const TensorSource& tensor) {
  return storage_bytes(tensor.type, tensor.shape).value_or(0); // plain types: there are no blocks to fill
}

/// Everything before the data, whose order is `order`. Tensors have a name, a type and a shape.
template <class Tensor>
std::string header_of(std::span<const Tensor> tensors, const std::map<std::string, std::string>& metadata,
                      std::vector<size_t>& order) {
  const auto checked = [&](std::string_view text, std::string_view what) {
    if (find_invalid_utf8(text)) refuse(file_kind, fmt::format("{} {} is not UTF-8", what, in_quotes(text)));
    return json_string(text);
  };
  std::set<std::string_view> names;
  for (const auto& tensor : tensors) {
    const auto& row = storage_info(tensor.type);
    if (row.safetensors_name.empty())
      refuse(file_kind, fmt::format("tensor {} has type {}, which safetensors does not have",
                                    in_quotes(tensor.name), row.name));
    if (tensor.name == "__metadata__") refuse(file_kind, "a tensor cannot be named \"__metadata__\"");
    if (!names.insert(tensor.name).second)
      refuse(file_kind, fmt::format("two tensors are named {}", in_quotes(tensor.name)));
    stored_bytes(tensor);
  }
  // Wide elements first: then every tensor is aligned to its element.
  order.resize(tensors.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return storage_info(tensors[a].type).block_bytes > storage_info(tensors[b].type).block_bytes;
  });

  std::string header = "{";
  if (!metadata.empty()) {
    header += "\"__metadata__\":{";
    bool first = true;
    for (const auto& [key, value] : metadata) {
      header +=
          fmt::format("{}{}:{}", first ? "" : ",", checked(key, "metadata key"), checked(value, "metadata"));
      first = false;
    }
    header += '}';
  }
  uint64_t position = 0;
  for (const size_t i : order) {
    const auto& tensor = tensors[i];
    std::string shape;
    for (const int64_t size : tensor.shape) shape += fmt::format("{}{}", shape.empty() ? "" : ",", size);
    header += fmt::format("{}{}:{{\"dtype\":\"{}\",\"shape\":[{}],\"data_offsets\":[{},{}]}}",
                          header.size() > 1 ? "," : "", checked(tensor.name, "tensor name"),
                          storage_info(tensor.type).safetensors_name, shape, position,
                          position + stored_bytes(tensor));
    position += stored_bytes(tensor);
  }
  header += '}';
  header.append((8 - header.size() % 8) % 8, ' ');

  std::string out;
  for (int i = 0; i < 8; ++i) out += static_cast<char>(header.size() >> (8 * i) & 0xFF);
  return out += header;
}

/// Length, header, then the tensors' bytes.
struct HeaderAndData {
  std::string header;
  std::vector<std::string_view> data;
};

HeaderAndData write(std::span<const TensorView> tensors, const std::map<std::string, std::string>& metadata) {
  std::vector<size_t> order;
  HeaderAndData out{header_of(tensors, metadata, order), {}};
  for (const size_t i : order) out.data.push_back(as_text(tensors[i].bytes));
  return out;
}

} // namespace

Result<std::string> serialize_safetensors(std::span<const TensorView> tensors,
                                          const std::map<std::string, std::string>& metadata) {
  return guarded("safetensors", [&] {
    auto pieces = write(tensors, metadata);
    for (const auto piece : pieces.data) pieces.header += piece;
    return std::move(pieces.header);
  });
}

Result<void> save_safetensors(const std::string& path, std::span<const TensorView> tensors,
                              const std::map<std::string, std::string>& metadata) {
  auto pieces = guarded("safetensors", [&] { return write(tensors, metadata); });
  if (!pieces) return Failure{fmt::format("{}: {}", path, pieces.error())};
  pieces->data.insert(pieces->data.begin(), pieces->header);
  return write_pieces(path, pieces->data);
}

Result<void> stream_safetensors(const std::string& path, std::span<const TensorSource> tensors,
                                const std::map<std::string, std::string>& metadata,
                                const SourceProgress& progress) {
  SourceFile out;
  auto header = guarded(file_kind, [&] { return header_of(tensors, metadata, out.order); });
  if (!header) return Failure{fmt::format("{}: {}", path, header.error())};
  out.header = std::move(*header);
  return write_sources(path, out, tensors, progress);
}

} // namespace luminal
