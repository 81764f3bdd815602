// formats/npy.cpp -- one array of numpy.
#include "formats/npy.h"
#include "formats/parse.h"
#include <algorithm>
#include <cstring>

namespace luminal {
namespace {

using namespace detail;

constexpr size_t max_npy_dimensions = 64;
constexpr uint64_t max_npy_header_bytes = 1 << 20;

/// The header: a Python dictionary of 'descr', 'fortran_order' and 'shape'.
class HeaderReader {
public:
  HeaderReader(std::string_view text, std::string_view file, uint64_t offset)
      : text_(text), file_(file), offset_(offset) {}

  std::string descr;
  bool fortran_order = false;
  std::vector<int64_t> shape;

  void read() {
    expect('{');
    bool seen[3] = {};
    while (!accept('}')) {
      const std::string key = string();
      expect(':');
      const int which = key == "descr" ? 0 : key == "fortran_order" ? 1 : key == "shape" ? 2 : -1;
      if (which < 0 || seen[which])
        fail(fmt::format("key {}, expected 'descr', 'fortran_order' and 'shape', once each", in_quotes(key)));
      seen[which] = true;
      if (which == 0) read_descr();
      if (which == 1) read_order();
      if (which == 2) read_shape();
      if (!accept(',')) {
        expect('}');
        break;
      }
    }
    skip();
    if (position_ != text_.size()) fail("text after the header's dictionary");
    if (!seen[0] || !seen[1] || !seen[2]) fail("a header without 'descr', 'fortran_order' or 'shape'");
  }

private:
  [[noreturn]] void fail(std::string_view what) const { refuse_at(file_, offset_ + position_, what); }
  void skip() {
    while (position_ < text_.size() &&
           (text_[position_] == ' ' || text_[position_] == '\n' || text_[position_] == '\t'))
      ++position_;
  }
  bool accept(char c) {
    skip();
    if (position_ >= text_.size() || text_[position_] != c) return false;
    ++position_;
    return true;
  }
  void expect(char c) {
    if (!accept(c)) fail(fmt::format("{}, expected '{}'", in_quotes(text_.substr(position_, 1)), c));
  }
  std::string string() {
    skip();
    const char quote = position_ < text_.size() ? text_[position_] : '\0';
    if (quote != '\'' && quote != '"')
      fail(fmt::format("{}, expected a string", in_quotes(text_.substr(position_, 1))));
    const size_t end = text_.find(quote, position_ + 1);
    if (end == std::string_view::npos) fail("a string without an end");
    const std::string out(text_.substr(position_ + 1, end - position_ - 1));
    position_ = end + 1;
    return out;
  }
  void read_descr() {
    skip();
    if (position_ < text_.size() && text_[position_] == '[') fail("a structured type, expected numbers");
    descr = string();
  }
  void read_order() {
    skip();
    for (const auto& [word, value] : {std::pair<std::string_view, bool>{"True", true}, {"False", false}}) {
      if (!text_.substr(position_).starts_with(word)) continue;
      position_ += word.size();
      fortran_order = value;
      return;
    }
    fail("'fortran_order', expected True or False");
  }
  void read_shape() {
    expect('(');
    while (!accept(')')) {
      skip();
      int64_t size = 0;
      const size_t start = position_;
      for (; position_ < text_.size() && text_[position_] >= '0' && text_[position_] <= '9'; ++position_)
        if (__builtin_mul_overflow(size, int64_t{10}, &size) ||
            __builtin_add_overflow(size, int64_t{text_[position_] - '0'}, &size))
          fail("a size that does not fit 63 bits");
      if (position_ == start)
        fail(fmt::format("{} in 'shape', expected a number", in_quotes(text_.substr(position_, 1))));
      accept('L'); // Python 2
      shape.push_back(size);
      if (shape.size() > max_npy_dimensions) fail(fmt::format("more than {} axes", max_npy_dimensions));
      if (!accept(',')) {
        expect(')');
        break;
      }
    }
  }

  std::string_view text_, file_;
  uint64_t offset_;
  size_t position_ = 0;
};

constexpr std::pair<std::string_view, StorageType> npy_types[] = {
    {"b1", StorageType::boolean}, {"i1", StorageType::i8},  {"i2", StorageType::i16},
    {"i4", StorageType::i32},     {"i8", StorageType::i64}, {"u1", StorageType::u8},
    {"u2", StorageType::u16},     {"u4", StorageType::u32}, {"u8", StorageType::u64},
    {"f2", StorageType::f16},     {"f4", StorageType::f32}, {"f8", StorageType::f64}};

std::optional<StorageType> type_of(std::string_view code) {
  for (const auto& [name, type] : npy_types)
    if (name == code) return type;
  return std::nullopt;
}

/// Column-major to row-major; `size` bytes an element.
std::vector<std::byte> to_row_major(std::span<const std::byte> bytes, const std::vector<int64_t>& shape,
                                    size_t size) {
  std::vector<std::byte> out(bytes.size());
  std::vector<int64_t> index(shape.size(), 0);
  std::vector<size_t> stride(shape.size());
  size_t step = size;
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    stride[axis] = step;
    step *= static_cast<size_t>(shape[axis]);
  }
  size_t from = 0;
  for (size_t to = 0; to < out.size(); to += size) {
    std::memcpy(out.data() + to, bytes.data() + from, size);
    for (size_t axis = shape.size(); axis-- > 0;) {
      from += stride[axis];
      if (++index[axis] < shape[axis]) break;
      from -= stride[axis] * static_cast<size_t>(shape[axis]);
      index[axis] = 0;
    }
  }
  return out;
}

/// bytes: an image of `size` bytes, or its beginning, of which only the header is read.
NpyArray read(std::span<const std::byte> bytes, std::string_view file, uint64_t size_of_image) {
  const auto at = [&](size_t i) { return std::to_integer<uint64_t>(bytes[i]); };
  if (bytes.size() < 10 || as_text(bytes.first(6)) != "\x93NUMPY")
    refuse_at(file, 0,
              fmt::format("begins with {} of {} bytes, expected \"\\x93NUMPY\" and a version",
                          in_quotes(as_text(bytes).substr(0, 6)), bytes.size()));
  const uint64_t version = at(6);
  if (version < 1 || version > 3)
    refuse_at(file, 6, fmt::format("npy version {}, expected 1, 2 or 3", version));
  const uint64_t start = version == 1 ? 10 : 12;
  if (bytes.size() < start) refuse_at(file, 8, "the file ends in the header's length");
  const uint64_t length =
      version == 1 ? at(8) | at(9) << 8 : at(8) | at(9) << 8 | at(10) << 16 | at(11) << 24;
  if (length > std::min(bytes.size() - start, max_npy_header_bytes))
    refuse_at(file, 8,
              fmt::format("header length {}, expected at most {}", length,
                          std::min(bytes.size() - start, max_npy_header_bytes)));
  HeaderReader header(as_text(bytes.subspan(start, length)), file, start);
  header.read();

  NpyArray out;
  const char order = header.descr.empty() ? '?' : header.descr[0];
  const auto type = header.descr.empty() ? std::nullopt : type_of(std::string_view(header.descr).substr(1));
  if (!type || (order != '<' && order != '>' && order != '|' && order != '='))
    refuse_at(file, start,
              fmt::format("type {}, expected a boolean, an integer or a float (as in \"<f4\")",
                          in_quotes(header.descr)));
  out.tensor.type = *type;
  out.tensor.shape = std::move(header.shape);
  const auto expected = storage_bytes(*type, out.tensor.shape);
  if (!expected)
    refuse_at(file, start, fmt::format("{} is more than can be addressed", out.tensor.describe()));
  const uint64_t data = start + length;
  if (size_of_image - data != *expected)
    refuse_at(file, data,
              fmt::format("{} bytes of data, expected {} for {}", size_of_image - data, *expected,
                          out.tensor.describe()));
  if (bytes.size() < size_of_image) return out;
  out.tensor.file_offset = data;
  out.tensor.bytes = bytes.subspan(data);

  const size_t size = storage_info(*type).block_bytes;
  std::vector<std::byte> changed;
  if (header.fortran_order && out.tensor.shape.size() > 1)
    changed = to_row_major(out.tensor.bytes, out.tensor.shape, size);
  if (order == '>' && size > 1) {
    if (changed.empty()) changed.assign(out.tensor.bytes.begin(), out.tensor.bytes.end());
    for (size_t i = 0; i < changed.size(); i += size)
      std::reverse(changed.begin() + static_cast<std::ptrdiff_t>(i),
                   changed.begin() + static_cast<std::ptrdiff_t>(i + size));
  }
  if (!changed.empty()) {
    out.owned = std::make_shared<const std::vector<std::byte>>(std::move(changed));
    out.tensor.bytes = *out.owned;
  }
  return out;
}

} // namespace

const TensorView* NpyFile::find(std::string_view name) const {
  for (const auto& array : arrays)
    if (array.tensor.name == name) return &array.tensor;
  return nullptr;
}

Result<NpyArray> parse_npy(std::span<const std::byte> bytes, std::string_view file_name) {
  return guarded(file_name, [&] { return read(bytes, file_name, bytes.size()); });
}

Result<void> check_npy_header(std::span<const std::byte> begin, uint64_t size, std::string_view file_name) {
  auto header = guarded(file_name, [&] { return read(begin, file_name, size); });
  return header ? Result<void>() : header.failure();
}

Result<NpyFile> open_npy(const std::string& path) {
  auto mapped = MappedFile::open(path);
  if (!mapped) return mapped.failure();
  auto file = std::make_shared<const MappedFile>(std::move(*mapped));
  if (as_text(file->bytes()).starts_with("PK")) {
    auto content = parse_npz(file->bytes(), path);
    if (content) content->file = std::move(file);
    return content;
  }
  auto array = parse_npy(file->bytes(), path);
  if (!array) return array.failure();
  return NpyFile{{std::move(*array)}, std::move(file)};
}

Result<std::string> npy_head(const TensorView& tensor) {
  auto head = npy_head(tensor.type, tensor.shape);
  const auto bytes = storage_bytes(tensor.type, tensor.shape);
  if (head && bytes != tensor.bytes.size())
    return Failure{fmt::format("{} with {} bytes, expected {}", tensor.describe(), tensor.bytes.size(),
                               bytes.value_or(0))};
  return head;
}

Result<std::string> npy_head(StorageType type, std::span<const int64_t> extents) {
  std::string_view code;
  for (const auto& [name, known] : npy_types)
    if (known == type) code = name;
  if (code.empty()) return Failure{fmt::format("NumPy has no {}", storage_name(type))};
  std::string shape;
  for (const int64_t extent : extents) shape += fmt::format("{}, ", extent);
  if (extents.size() > 1) shape.resize(shape.size() - 2);
  if (extents.size() == 1) shape.pop_back();
  std::string head = fmt::format("{{'descr': '{}{}', 'fortran_order': False, 'shape': ({}), }}",
                                 storage_info(type).block_bytes == 1 ? '|' : '<', code, shape);
  head.append(63 - (10 + head.size()) % 64, ' '); // the data begin at a multiple of 64
  head += '\n';
  std::string begin = "\x93NUMPY";
  begin += std::string("\x01\x00", 2);
  begin += static_cast<char>(head.size() & 0xFF);
  begin += static_cast<char>(head.size() >> 8);
  return begin + head;
}

Result<void> save_npy(const std::string& path, const TensorView& tensor) {
  const auto head = npy_head(tensor);
  if (!head) return Failure{fmt::format("{}: {}", path, head.error())};
  const std::string_view pieces[] = {*head, as_text(tensor.bytes)};
  return write_pieces(path, pieces);
}

} // namespace luminal
