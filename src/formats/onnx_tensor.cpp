// formats/onnx_tensor.cpp -- tensors of ONNX files: raw bytes, one field an element, other files.
#include "formats/onnx_reader.h"
#include <array>
#include <filesystem>

namespace luminal::onnx {
namespace {

struct TypeRow {
  std::string_view name;
  int bits;
};
constexpr std::array<TypeRow, 27> type_rows = {{
    {"", 0},
    {"FLOAT", 32},
    {"UINT8", 8},
    {"INT8", 8},
    {"UINT16", 16},
    {"INT16", 16},
    {"INT32", 32},
    {"INT64", 64},
    {"STRING", 0},
    {"BOOL", 8},
    {"FLOAT16", 16},
    {"DOUBLE", 64},
    {"UINT32", 32},
    {"UINT64", 64},
    {"COMPLEX64", 64},
    {"COMPLEX128", 128},
    {"BFLOAT16", 16},
    {"FLOAT8E4M3FN", 8},
    {"FLOAT8E4M3FNUZ", 8},
    {"FLOAT8E5M2", 8},
    {"FLOAT8E5M2FNUZ", 8},
    {"UINT4", 4},
    {"INT4", 4},
    {"FLOAT4E2M1", 4},
    {"FLOAT8E8M0", 8},
    {"UINT2", 2},
    {"INT2", 2},
}};

const TypeRow& row_of(ElementType type) {
  const auto index = size_t(int32_t(type));
  return int32_t(type) < 0 || index >= type_rows.size() ? type_rows[0] : type_rows[index];
}

} // namespace

std::string_view element_type_name(ElementType type) { return row_of(type).name; }
int element_bits(ElementType type) { return row_of(type).bits; }

int64_t TensorData::elements() const {
  int64_t count = 1;
  for (const int64_t extent : shape) count *= extent;
  return count;
}

std::string TensorData::describe() const {
  std::string text = fmt::format("{} [", element_type_name(type));
  for (size_t d = 0; d < shape.size(); d++) text += fmt::format("{}{}", d ? ", " : "", shape[d]);
  return text + "]";
}

namespace detail {
namespace {

/// Elements that the file stores one by one, each in its own field or packed, as raw data.
class Elements {
public:
  template <class T> void add(T value) {
    const auto* bytes = reinterpret_cast<const std::byte*>(&value);
    bytes_.insert(bytes_.end(), bytes, bytes + sizeof(T));
  }
  /// The low bytes of a number, as many as an element has.
  void add_low(int64_t value, int bits) {
    for (int shift = 0; shift < bits; shift += 8) bytes_.push_back(std::byte(uint64_t(value) >> shift));
  }
  std::vector<std::byte> take() { return std::move(bytes_); }
  bool empty() const { return bytes_.empty(); }

private:
  std::vector<std::byte> bytes_;
};

struct TensorFields {
  TensorData tensor;
  std::vector<std::span<const std::byte>> raw;
  std::vector<int64_t> integers;
  Elements floats, doubles, longs;
  std::map<std::string, std::string> external;
  int64_t location = 0;
};

void read_external(Wire entry, TensorFields& fields) {
  std::string key, value;
  while (entry.next()) {
    if (entry.field() == 1)
      key = entry.text();
    else if (entry.field() == 2)
      value = entry.text();
    else
      entry.skip();
  }
  fields.external[key] = value;
}

void read_field(Wire& wire, TensorFields& f) {
  switch (wire.field()) {
  case 1: wire.integers([&](int64_t extent) { f.tensor.shape.push_back(extent); }); break;
  case 2: f.tensor.type = ElementType(int32_t(wire.integer())); break;
  case 3: wire.refuse("a tensor is cut into segments, which is not supported");
  case 4: wire.numbers<float>([&](float value) { f.floats.add(value); }); break;
  case 5: wire.integers([&](int64_t value) { f.integers.push_back(value); }); break;
  case 6: f.tensor.strings.push_back(wire.text()); break;
  case 7:
  case 11: wire.integers([&](int64_t value) { f.longs.add(value); }); break;
  case 8: f.tensor.name = wire.text(); break;
  case 9: f.raw.push_back(wire.bytes()); break;
  case 10: wire.numbers<double>([&](double value) { f.doubles.add(value); }); break;
  case 13: read_external(wire.message(), f); break;
  case 14: f.location = wire.integer(); break;
  default: wire.skip();
  }
}

int64_t count_of(const Wire& wire, const TensorData& tensor) {
  int64_t count = 1;
  const std::string shown = luminal::detail::in_quotes(tensor.name);
  if (tensor.shape.size() > 64)
    wire.refuse(fmt::format("tensor {} has {} axes, at most 64 are read", shown, tensor.shape.size()));
  for (const int64_t extent : tensor.shape) {
    if (extent < 0) wire.refuse(fmt::format("tensor {} has the extent {}, which is negative", shown, extent));
    if (__builtin_mul_overflow(count, extent, &count) || count > int64_t(1) << 48)
      wire.refuse(fmt::format("tensor {} has more than 2^48 elements", shown));
  }
  return count;
}

int64_t parse_count(const Wire& wire, const TensorFields& f, const std::string& key, int64_t otherwise) {
  const auto found = f.external.find(key);
  if (found == f.external.end()) return otherwise;
  const std::string& text = found->second;
  if (text.empty() || text.size() > 18 || text.find_first_not_of("0123456789") != std::string::npos)
    wire.refuse(fmt::format("the {} of external data is {}, expected 1 to 18 digits", key,
                            luminal::detail::in_quotes(text)));
  return std::stoll(text);
}

/// The elements of a tensor without raw data; of types below 32 bits they are the numbers of
/// `integers`.
std::vector<std::byte> typed_elements(const Wire& wire, TensorFields& f) {
  switch (f.tensor.type) {
  case ElementType::f32:
  case ElementType::complex64: return f.floats.take();
  case ElementType::f64:
  case ElementType::complex128: return f.doubles.take();
  case ElementType::i64:
  case ElementType::u64: return f.longs.take();
  case ElementType::u32: {
    Elements narrow;
    const std::vector<std::byte> wide = f.longs.take();
    for (size_t i = 0; i < wide.size(); i += 8) {
      uint64_t value;
      std::memcpy(&value, wide.data() + i, 8);
      narrow.add(uint32_t(value));
    }
    return narrow.take();
  }
  default: break;
  }
  Elements elements;
  // Elements of less than 8 bits share a number as they share a byte.
  for (const int64_t value : f.integers) {
    const int bits = std::max(8, element_bits(f.tensor.type));
    if (f.tensor.type == ElementType::boolean && value != 0 && value != 1)
      wire.refuse(fmt::format("tensor {} has a bool that is {}, expected 0 or 1",
                              luminal::detail::in_quotes(f.tensor.name), value));
    elements.add_low(value, bits);
  }
  return elements.take();
}

} // namespace

std::span<const std::byte> ExternalFiles::read(const Wire& at, const std::string& location, int64_t offset,
                                               int64_t length) {
  namespace fs = std::filesystem;
  const std::string shown = luminal::detail::in_quotes(location);
  if (model_.empty())
    at.refuse(
        fmt::format("a tensor lies in another file, {}, and the place of this one is not known", shown));
  const fs::path relative = location;
  if (location.empty() || location.find('\0') != std::string::npos || relative.is_absolute())
    at.refuse(fmt::format("external data at {}: a relative path is expected", shown));
  for (const fs::path& part : relative)
    if (part == "..") at.refuse(fmt::format("external data at {}, outside of the model's folder", shown));
  auto [known, fresh] = known_.emplace(location, files_.size());
  if (fresh) {
    const fs::path folder = fs::path(model_).parent_path();
    std::error_code missing, error; // a file that is missing is what opening it says
    const fs::path real = fs::canonical(folder / relative, missing);
    const fs::path root = fs::canonical(folder.empty() ? fs::path(".") : folder, error);
    if (!missing && !error &&
        std::mismatch(root.begin(), root.end(), real.begin(), real.end()).first != root.end())
      at.refuse(fmt::format("external data at {}, outside of the model's folder", shown));
    auto mapped = MappedFile::open((folder / relative).string());
    if (!mapped) at.refuse(mapped.error());
    files_.push_back(std::make_shared<const MappedFile>(std::move(*mapped)));
  }
  const auto bytes = files_[known->second]->bytes();
  if (uint64_t(offset) > bytes.size() || (length >= 0 && uint64_t(length) > bytes.size() - uint64_t(offset)))
    at.refuse(fmt::format("external data ends at byte {} of {}, which has {} bytes",
                          offset + std::max<int64_t>(length, 0), shown, bytes.size()));
  return length < 0 ? bytes.subspan(size_t(offset)) : bytes.subspan(size_t(offset), size_t(length));
}

TensorData read_tensor(Wire wire, ExternalFiles& files) {
  TensorFields f;
  while (wire.next()) read_field(wire, f);
  TensorData& tensor = f.tensor;
  const int64_t count = count_of(wire, tensor);
  if (element_type_name(tensor.type).empty())
    wire.refuse(fmt::format("tensor {} has the type {}, which is not known",
                            luminal::detail::in_quotes(tensor.name), int32_t(tensor.type)));
  if (tensor.type == ElementType::string) {
    if (int64_t(tensor.strings.size()) != count)
      wire.refuse(fmt::format("tensor {} has {} strings for {}", luminal::detail::in_quotes(tensor.name),
                              tensor.strings.size(), tensor.describe()));
    return std::move(f.tensor);
  }
  if (f.location == 1) {
    const auto location = f.external.find("location");
    tensor.bytes = files.read(wire, location == f.external.end() ? "" : location->second,
                              parse_count(wire, f, "offset", 0), parse_count(wire, f, "length", -1));
  } else if (f.raw.size() == 1) {
    tensor.bytes = f.raw[0];
  } else if (f.raw.size() > 1) {
    wire.refuse(fmt::format("tensor {} has its data twice", luminal::detail::in_quotes(tensor.name)));
  } else {
    tensor.owned = std::make_shared<const std::vector<std::byte>>(typed_elements(wire, f));
    tensor.bytes = *tensor.owned;
  }
  const uint64_t expected = (uint64_t(count) * uint64_t(element_bits(tensor.type)) + 7) / 8;
  if (tensor.bytes.size() != expected)
    wire.refuse(fmt::format("tensor {} has {} bytes, {} needs {}", luminal::detail::in_quotes(tensor.name),
                            tensor.bytes.size(), tensor.describe(), expected));
  if (tensor.type == ElementType::boolean)
    for (const std::byte byte : tensor.bytes)
      if (std::to_integer<int>(byte) > 1)
        wire.refuse(fmt::format("tensor {} has a bool that is {}, expected 0 or 1",
                                luminal::detail::in_quotes(tensor.name), std::to_integer<int>(byte)));
  return std::move(f.tensor);
}

} // namespace detail
} // namespace luminal::onnx
