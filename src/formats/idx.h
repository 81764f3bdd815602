// formats/idx.h -- the IDX format of the MNIST data sets: one array, plain or compressed with gzip.
// Format: http://yann.lecun.com/exdb/mnist, "the IDX file format".
#pragma once
#include "base/result.h"
#include "formats/tensor_view.h"
#include <string>
#include <string_view>
#include <vector>

namespace luminal {

/// One array: u8, i8, i16, i32, f32 or f64, little-endian (the file is big-endian), row-major.
struct IdxArray {
  StorageType type = StorageType::u8;
  std::vector<int64_t> shape;
  std::vector<std::byte> bytes;
};

/// A whole file image; gzip is recognised by its first bytes. Refuses what is not IDX, an unknown
/// type, and data that is shorter or longer than the shape says.
Result<IdxArray> parse_idx(std::span<const std::byte> bytes, std::string_view file_name);
Result<IdxArray> open_idx(const std::string& path);

} // namespace luminal
