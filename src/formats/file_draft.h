// formats/file_draft.h -- a file written piece by piece that appears complete or not at all; tensors
// that are made when they are written.
#pragma once
#include "base/result.h"
#include "formats/tensor_view.h"
#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace luminal {

/// Bytes go to a temporary file beside the path; `finish` syncs it and gives it its name. A draft
/// that is not finished leaves nothing.
class FileDraft {
public:
  /// Fails where the folder is not there or cannot be written to.
  static Result<FileDraft> create(const std::string& path);
  FileDraft(FileDraft&& other) noexcept;
  FileDraft& operator=(FileDraft&&) = delete;
  FileDraft(const FileDraft&) = delete;
  FileDraft& operator=(const FileDraft&) = delete;
  ~FileDraft();
  /// Fails with the system's reason: a full disk.
  Result<void> append(std::span<const std::byte> bytes);
  Result<void> finish();

private:
  FileDraft(std::string path, std::string draft, int file)
      : path_(std::move(path)), draft_(std::move(draft)), file_(file) {}
  std::string path_, draft_;
  int file_;
};

/// A tensor whose bytes are made when its turn comes to be written, so that one of them is in memory
/// at a time.
struct TensorSource {
  std::string name;
  StorageType type = StorageType::f32;
  std::vector<int64_t> shape; ///< outermost first
  /// As many bytes as type and shape have.
  std::function<Result<std::string>()> bytes;
};

/// Called with the place of each tensor before it is made.
using SourceProgress = std::function<void(size_t index)>;

/// What a writer of a format has for `write_sources`: the header, and which tensors follow.
struct SourceFile {
  std::string header;
  std::vector<size_t> order; ///< indices of the sources
  uint64_t alignment = 1;    ///< zeros are filled in behind each tensor up to a multiple
};
Result<void> write_sources(const std::string& path, const SourceFile& file,
                           std::span<const TensorSource> sources, const SourceProgress& progress);

} // namespace luminal
