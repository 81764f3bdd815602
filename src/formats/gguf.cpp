// formats/gguf.cpp -- reading GGUF.
#include "formats/gguf.h"
#include "formats/parse.h"
#include <algorithm>
#include <bit>
#include <cstring>

namespace luminal {
namespace {

using namespace detail;

constexpr uint32_t max_dimensions = 4; // GGML_MAX_DIMS
constexpr int max_array_depth = 8;
constexpr uint64_t max_name_bytes = 65535;
constexpr uint64_t max_alignment = uint64_t{1} << 20;

/// Smallest number of bytes that one value of a type takes in the file.
uint64_t least_bytes(GgufType type) {
  switch (type) {
  case GgufType::u8:
  case GgufType::i8:
  case GgufType::boolean: return 1;
  case GgufType::u16:
  case GgufType::i16: return 2;
  case GgufType::u32:
  case GgufType::i32:
  case GgufType::f32: return 4;
  case GgufType::string:
  case GgufType::u64:
  case GgufType::i64:
  case GgufType::f64: return 8;
  case GgufType::array: return 12;
  }
  return 1;
}

/// Reads little-endian values from the front; refuses at the end of the file.
class Cursor {
public:
  Cursor(std::span<const std::byte> bytes, std::string_view file) : bytes_(bytes), file_(file) {}

  uint64_t position() const { return position_; }
  uint64_t left() const { return bytes_.size() - position_; }

  std::string_view take(uint64_t n, std::string_view what) {
    if (n > left())
      fail(fmt::format("{} takes {} bytes, expected at most the {} that are left in the file", what, n,
                       left()));
    const auto text = as_text(bytes_.subspan(position_, n));
    position_ += n;
    return text;
  }

  template <class T> T scalar(std::string_view what) {
    static_assert(std::endian::native == std::endian::little);
    T value;
    std::memcpy(&value, take(sizeof(T), what).data(), sizeof(T));
    return value;
  }

  std::string_view string(std::string_view what) {
    const uint64_t start = position_;
    const auto length = scalar<uint64_t>(what);
    if (length > left())
      refuse_at(file_, start,
                fmt::format("{} is a string of {} bytes, expected at most the {} that are left in the file",
                            what, length, left()));
    return take(length, what);
  }

  [[noreturn]] void fail(std::string_view text) const { refuse_at(file_, position_, text); }

private:
  std::span<const std::byte> bytes_;
  std::string_view file_;
  uint64_t position_ = 0;
};

class GgufReader {
public:
  GgufReader(std::span<const std::byte> bytes, std::string_view file)
      : bytes_(bytes), file_(file), in_(bytes, file) {}

  Gguf read() {
    out_.file_name = file_;
    read_magic();
    const uint64_t counts_at = in_.position();
    const auto tensors = in_.scalar<uint64_t>("the number of tensors");
    const auto pairs = in_.scalar<uint64_t>("the number of metadata pairs");
    // A pair takes at least a key's length, a type and a byte; a tensor a name's length, axes, type
    // and offset.
    if (pairs > in_.left() / 13)
      refuse_at(file_, counts_at + 8,
                fmt::format("{} metadata pairs, expected at most {} in the {} bytes that follow", pairs,
                            in_.left() / 13, in_.left()));
    if (tensors > in_.left() / 24)
      refuse_at(file_, counts_at,
                fmt::format("{} tensors, expected at most {} in the {} bytes that follow", tensors,
                            in_.left() / 24, in_.left()));
    out_.metadata.reserve(pairs);
    for (uint64_t i = 0; i < pairs; ++i) read_pair();
    check_keys();
    read_alignment();
    out_.tensors.reserve(tensors);
    for (uint64_t i = 0; i < tensors; ++i) read_tensor();
    place_tensors();
    return std::move(out_);
  }

private:
  void read_magic() {
    if (bytes_.size() < 4)
      refuse_at(file_, 0, fmt::format("{} bytes in the file, expected the magic \"GGUF\"", bytes_.size()));
    const std::string_view magic = in_.take(4, "the magic");
    if (magic == "FUGG") refuse_at(file_, 0, "a big-endian GGUF file, expected a little-endian one");
    if (magic == "lmgg" || magic == "fmgg" || magic == "tjgg" || magic == "algg")
      refuse_at(file_, 0,
                fmt::format("magic {} of the GGML formats before GGUF; convert the file to GGUF",
                            in_quotes(magic)));
    if (magic != "GGUF") refuse_at(file_, 0, fmt::format("magic {}, expected \"GGUF\"", in_quotes(magic)));
    out_.version = in_.scalar<uint32_t>("the version");
    if (out_.version == 2 || out_.version == 3) return;
    if (out_.version != 0 && (out_.version & 0xFFFF) == 0)
      refuse_at(file_, 4, "a big-endian GGUF file, expected a little-endian one");
    refuse_at(file_, 4, fmt::format("GGUF version {}, expected 2 or 3", out_.version));
  }

  std::string read_name(std::string_view what) {
    const uint64_t start = in_.position();
    const std::string_view name = in_.string(what);
    if (name.size() > max_name_bytes)
      refuse_at(file_, start,
                fmt::format("{} has {} bytes, expected at most {}", what, name.size(), max_name_bytes));
    if (const auto bad = find_invalid_utf8(name))
      refuse_at(file_, start + 8 + *bad, fmt::format("{} {} is not UTF-8", what, in_quotes(name)));
    return std::string(name);
  }

  GgufType read_type(std::string_view what) {
    const uint64_t start = in_.position();
    const auto number = in_.scalar<uint32_t>(what);
    if (number > static_cast<uint32_t>(GgufType::f64))
      refuse_at(file_, start, fmt::format("{} is {}, expected 0 to 12", what, number));
    return static_cast<GgufType>(number);
  }

  bool read_bool(std::string_view what) {
    const uint64_t start = in_.position();
    const auto number = in_.scalar<uint8_t>(what);
    if (number > 1) refuse_at(file_, start, fmt::format("boolean {} is {}, expected 0 or 1", what, number));
    return number != 0;
  }

  void read_pair() {
    std::string key = read_name("a metadata key");
    const std::string what = in_quotes(key);
    GgufValue value;
    value.type = read_type("the type of " + what);
    switch (value.type) {
    case GgufType::u8: value.value = uint64_t{in_.scalar<uint8_t>(what)}; break;
    case GgufType::i8: value.value = int64_t{in_.scalar<int8_t>(what)}; break;
    case GgufType::u16: value.value = uint64_t{in_.scalar<uint16_t>(what)}; break;
    case GgufType::i16: value.value = int64_t{in_.scalar<int16_t>(what)}; break;
    case GgufType::u32: value.value = uint64_t{in_.scalar<uint32_t>(what)}; break;
    case GgufType::i32: value.value = int64_t{in_.scalar<int32_t>(what)}; break;
    case GgufType::f32: value.value = double{in_.scalar<float>(what)}; break;
    case GgufType::boolean: value.value = read_bool(what); break;
    case GgufType::string: value.value = std::string(in_.string(what)); break;
    case GgufType::array: value.value = read_array(what, 1); break;
    case GgufType::u64: value.value = in_.scalar<uint64_t>(what); break;
    case GgufType::i64: value.value = in_.scalar<int64_t>(what); break;
    case GgufType::f64: value.value = in_.scalar<double>(what); break;
    }
    out_.metadata.emplace_back(std::move(key), std::move(value));
  }

  template <class Item, class Stored>
  std::vector<Stored> read_numbers(uint64_t count, std::string_view what) {
    const std::string_view raw = in_.take(count * sizeof(Item), what); // the caller has checked the product
    std::vector<Stored> items(count);
    for (uint64_t i = 0; i < count; ++i) {
      Item item;
      std::memcpy(&item, raw.data() + i * sizeof(Item), sizeof(Item));
      items[i] = Stored{item};
    }
    return items;
  }

  GgufArray read_array(std::string_view what, int depth) {
    if (depth > max_array_depth)
      in_.fail(fmt::format("{} has arrays nested deeper than {} levels", what, max_array_depth));
    GgufArray array;
    array.element_type = read_type("the element type of an array");
    const uint64_t count_at = in_.position();
    const auto count = in_.scalar<uint64_t>(what);
    if (count > in_.left() / least_bytes(array.element_type))
      refuse_at(file_, count_at,
                fmt::format("{} has {} elements of type {}, expected at most {} in the {} bytes that follow",
                            what, count, gguf_type_name(array.element_type),
                            in_.left() / least_bytes(array.element_type), in_.left()));
    switch (array.element_type) {
    case GgufType::u8: array.items = read_numbers<uint8_t, uint64_t>(count, what); break;
    case GgufType::i8: array.items = read_numbers<int8_t, int64_t>(count, what); break;
    case GgufType::u16: array.items = read_numbers<uint16_t, uint64_t>(count, what); break;
    case GgufType::i16: array.items = read_numbers<int16_t, int64_t>(count, what); break;
    case GgufType::u32: array.items = read_numbers<uint32_t, uint64_t>(count, what); break;
    case GgufType::i32: array.items = read_numbers<int32_t, int64_t>(count, what); break;
    case GgufType::f32: array.items = read_numbers<float, double>(count, what); break;
    case GgufType::u64: array.items = read_numbers<uint64_t, uint64_t>(count, what); break;
    case GgufType::i64: array.items = read_numbers<int64_t, int64_t>(count, what); break;
    case GgufType::f64: array.items = read_numbers<double, double>(count, what); break;
    case GgufType::boolean: {
      std::vector<uint64_t> items(count);
      for (auto& item : items) item = read_bool(what) ? 1 : 0;
      array.items = std::move(items);
      break;
    }
    case GgufType::string: {
      std::vector<std::string> items;
      items.reserve(count);
      for (uint64_t i = 0; i < count; ++i) items.emplace_back(in_.string(what));
      array.items = std::move(items);
      break;
    }
    case GgufType::array: {
      std::vector<GgufArray> items;
      items.reserve(count);
      for (uint64_t i = 0; i < count; ++i) items.push_back(read_array(what, depth + 1));
      array.items = std::move(items);
      break;
    }
    }
    return array;
  }

  void check_keys() {
    std::vector<std::string_view> keys;
    keys.reserve(out_.metadata.size());
    for (const auto& [key, value] : out_.metadata) keys.push_back(key);
    refuse_duplicates(keys, "metadata key");
  }

  void refuse_duplicates(std::vector<std::string_view>& names, std::string_view what) {
    std::sort(names.begin(), names.end());
    const auto twice = std::adjacent_find(names.begin(), names.end());
    if (twice != names.end()) in_.fail(fmt::format("{} {} stands twice", what, in_quotes(*twice)));
  }

  void read_alignment() {
    const auto given = out_.integer("general.alignment");
    if (!given) throw ParseFailure{given.error()};
    if (!*given) return;
    const int64_t alignment = **given;
    if (alignment < 1 || alignment > static_cast<int64_t>(max_alignment) ||
        !std::has_single_bit(static_cast<uint64_t>(alignment)))
      in_.fail(
          fmt::format("general.alignment is {}, expected a power of two up to {}", alignment, max_alignment));
    out_.alignment = static_cast<uint32_t>(alignment);
  }

  void read_tensor() {
    TensorView tensor;
    tensor.name = read_name("a tensor's name");
    const std::string what = "tensor " + in_quotes(tensor.name);
    const uint64_t axes_at = in_.position();
    const auto axes = in_.scalar<uint32_t>(what);
    if (axes > max_dimensions)
      refuse_at(file_, axes_at,
                fmt::format("{} has {} axes, expected at most {}", what, axes, max_dimensions));
    tensor.shape.resize(axes);
    for (uint32_t i = 0; i < axes; ++i) {
      const auto size = in_.scalar<uint64_t>(what);
      if (size > static_cast<uint64_t>(INT64_MAX))
        refuse_at(file_, in_.position() - 8,
                  fmt::format("{} has size {}, expected at most {}", what, size, INT64_MAX));
      tensor.shape[axes - 1 - i] = static_cast<int64_t>(size);
    }
    const uint64_t type_at = in_.position();
    const auto number = in_.scalar<uint32_t>(what);
    const auto type = storage_type_from_ggml(number);
    if (!type)
      refuse_at(file_, type_at,
                fmt::format("{} has ggml type {} ({})", what, number, describe_ggml_type(number)));
    tensor.type = *type;
    const auto& row = storage_info(*type);
    const int64_t inner = tensor.shape.empty() ? 1 : tensor.shape.back();
    if (inner % row.block_elements != 0)
      refuse_at(file_, type_at,
                fmt::format("{} is {}, expected a last axis that is a multiple of {}", what,
                            tensor.describe(), row.block_elements));
    const auto bytes = storage_bytes(*type, tensor.shape);
    if (!bytes)
      refuse_at(file_, axes_at, fmt::format("{} is {}, more than can be addressed", what, tensor.describe()));
    tensor.file_offset = in_.scalar<uint64_t>(what); // within the data section until place_tensors
    if (tensor.file_offset % out_.alignment != 0)
      refuse_at(file_, in_.position() - 8,
                fmt::format("{} begins at {} of the data, expected a multiple of {}", what,
                            tensor.file_offset, out_.alignment));
    out_.tensors.push_back(std::move(tensor));
  }

  void place_tensors() {
    const uint64_t padded = (in_.position() + out_.alignment - 1) / out_.alignment * out_.alignment;
    out_.data_offset = padded;
    std::vector<std::string_view> names;
    for (const auto& tensor : out_.tensors) names.push_back(tensor.name);
    refuse_duplicates(names, "tensor");
    if (out_.tensors.empty()) return;
    if (padded > bytes_.size())
      in_.fail(fmt::format("the file ends at {}, expected tensor data from {} on", bytes_.size(), padded));
    const uint64_t data_bytes = bytes_.size() - padded;

    std::vector<TensorView*> order;
    order.reserve(out_.tensors.size());
    for (auto& tensor : out_.tensors) order.push_back(&tensor);
    std::stable_sort(order.begin(), order.end(), [](const TensorView* a, const TensorView* b) {
      return a->file_offset < b->file_offset;
    });
    uint64_t end = 0;
    const TensorView* before = nullptr;
    for (TensorView* tensor : order) {
      const uint64_t begin = tensor->file_offset;
      const uint64_t size = *storage_bytes(tensor->type, tensor->shape);
      if (begin > data_bytes || size > data_bytes - begin)
        refuse(file_, fmt::format("tensor {} ({}, {} bytes) begins at {} of the data, which has {} bytes: "
                                  "the file is truncated or "
                                  "not what its table says",
                                  in_quotes(tensor->name), tensor->describe(), size, begin, data_bytes));
      if (begin < end && size > 0)
        refuse_at(file_, padded + begin,
                  fmt::format("tensor {} overlaps tensor {}, which ends at offset {}",
                              in_quotes(tensor->name), in_quotes(before->name), padded + end));
      if (begin > end && begin - end >= out_.alignment)
        refuse_at(file_, padded + end,
                  fmt::format("{} bytes that belong to no tensor, expected tensor {} here", begin - end,
                              in_quotes(tensor->name)));
      if (begin + size >= end) {
        end = begin + size;
        before = tensor;
      }
      tensor->file_offset = padded + begin;
      tensor->bytes = bytes_.subspan(tensor->file_offset, size);
    }
  }

  std::span<const std::byte> bytes_;
  std::string_view file_;
  Cursor in_;
  Gguf out_;
};

} // namespace

Result<Gguf> parse_gguf(std::span<const std::byte> bytes, std::string_view file_name) {
  return guarded(file_name, [&] { return GgufReader(bytes, file_name).read(); });
}

Result<Gguf> open_gguf(const std::string& path) {
  auto mapped = MappedFile::open(path);
  if (!mapped) return mapped.failure();
  auto file = std::make_shared<const MappedFile>(std::move(*mapped));
  auto content = parse_gguf(file->bytes(), path);
  if (content) content->file = std::move(file);
  return content;
}

} // namespace luminal
