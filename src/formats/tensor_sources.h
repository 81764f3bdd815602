// formats/tensor_sources.h -- files of tensors that are made when they are written.
#pragma once
#include "base/result.h"
#include "formats/tensor_view.h"
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace luminal {

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
/// The file appears complete or not at all (base/file_draft.h). Fails where the folder is not there.
Result<void> write_sources(const std::string& path, const SourceFile& file,
                           std::span<const TensorSource> sources, const SourceProgress& progress);

} // namespace luminal
