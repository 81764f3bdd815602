// base/file.h -- files: mapped, read whole, replaced in one step.
#pragma once
#include "base/result.h"
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace luminal {

/// A file mapped read-only; it stays mapped as long as the object lives. Failures name the file:
/// missing, a directory, not readable, empty.
class MappedFile {
public:
  static Result<MappedFile> open(const std::string& path);
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  MappedFile(const MappedFile&) = delete;
  ~MappedFile();
  std::span<const std::byte> bytes() const { return {data_, size_}; }
  /// What was read of these bytes does not count as this process's memory any longer (whole pages;
  /// the system may keep them in its cache).
  void forget(std::span<const std::byte> bytes) const;
  const std::string& path() const { return path_; }
  /// Device, inode, size and time of the last change: another text once the file was replaced or
  /// written.
  const std::string& identity() const { return identity_; }

private:
  MappedFile() = default;
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
  std::string path_, identity_;
};

/// The whole file as text; more than `limit` bytes is a failure.
Result<std::string> read_file(const std::string& path, uint64_t limit = uint64_t(1) << 30);
/// Writes beside the file, syncs, renames: a reader sees the old content or the new one, never a
/// part. The folder must be there.
Result<void> write_file(const std::string& path, std::string_view content);
Result<void> write_file(const std::string& path, std::span<const std::byte> content);
/// The parts one after the other.
Result<void> write_file(const std::string& path, std::span<const std::span<const std::byte>> parts);
/// Makes the folders that the path names, where they are missing: for places that the program chose
/// itself.
Result<void> make_folder_of(const std::string& path);
/// Removes the files with this extension (".object") in the folder and below it that were used
/// longest ago, until no more than 7/8 of max_bytes are left, where there are more than max_bytes;
/// and drafts of writers that died. Returns how many it removed.
int64_t trim_folder(const std::string& folder, std::string_view extension, int64_t max_bytes);
bool file_exists(const std::string& path);
bool is_directory(const std::string& path);

} // namespace luminal
