// formats/npy.h -- arrays of numpy: .npy versions 1 to 3, and .npz (a zip of them, stored or
// deflated). Format: https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html
#pragma once
#include "base/file.h"
#include "base/result.h"
#include "formats/tensor_view.h"
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace luminal {

struct NpyArray {
  /// Little-endian, row-major. In an .npz the name is that of the member without ".npy"; in an .npy
  /// it is empty.
  TensorView tensor;
  /// Set where the bytes could not be used as they lie in the file: column-major, big-endian or
  /// deflated arrays.
  std::shared_ptr<const std::vector<std::byte>> owned;
};

struct NpyFile {
  std::vector<NpyArray> arrays;
  std::shared_ptr<const MappedFile> file; ///< keeps the views alive; empty where memory was parsed

  const TensorView* find(std::string_view name) const;
};

/// One .npy image. Booleans, integers and floats of 1 to 8 bytes; objects, text, complex and
/// structured types are refused.
Result<NpyArray> parse_npy(std::span<const std::byte> bytes, std::string_view file_name);
/// Whether an image of `size` bytes is as long as its header says, of which `begin` holds at least
/// the first npy_header_bytes.
constexpr uint64_t npy_header_bytes = (1 << 20) + 12;
Result<void> check_npy_header(std::span<const std::byte> begin, uint64_t size, std::string_view file_name);
/// One .npz image; names are unique, checksums are checked.
Result<NpyFile> parse_npz(std::span<const std::byte> bytes, std::string_view file_name);
/// A file of either kind, recognised by its first bytes.
Result<NpyFile> open_npy(const std::string& path);

/// Writes one .npy file, straight from the tensor's memory. Fails for types that NumPy does not
/// have.
Result<void> save_npy(const std::string& path, const TensorView& tensor);
/// What stands in front of its data: a multiple of 64 bytes.
Result<std::string> npy_head(const TensorView& tensor);
/// The same of data that are not there yet.
Result<std::string> npy_head(StorageType type, std::span<const int64_t> shape);
/// Writes one .npz file, stored and not deflated, each array's data at a multiple of 64 bytes.
/// Fails for types that NumPy does not have and names that stand twice.
Result<void> save_npz(const std::string& path, std::span<const TensorView> tensors);

} // namespace luminal
