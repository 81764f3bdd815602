// base/file_draft.h -- a file written piece by piece that appears complete or not at all.
#pragma once
#include "base/result.h"
#include <cstddef>
#include <span>
#include <string>

namespace luminal {

/// Of a call of the system on this path that has failed: the path and what errno says.
Failure system_failure(const std::string& path);

/// Bytes go to a temporary file beside the path; `finish` syncs it and gives it its name. A draft
/// that is not finished leaves nothing.
class FileDraft {
public:
  /// Of the temporary file: what a writer that died has left can be told by it.
  static constexpr const char* extension = ".tmp";
  /// Fails with the system's reason where the folder is not there or cannot be written to.
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

} // namespace luminal
