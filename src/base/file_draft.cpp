// base/file_draft.cpp -- a temporary file beside the path, renamed when it is complete.
#include "base/file_draft.h"
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>
#include <utility>

namespace luminal {

Failure system_failure(const std::string& path) {
  return Failure{fmt::format("{}: {}", path, std::strerror(errno))};
}

Result<FileDraft> FileDraft::create(const std::string& path) {
  static std::atomic<unsigned> serial{0};
  std::string draft = fmt::format("{}.{}.{}{}", path, getpid(), serial++, extension);
  const int file = ::open(draft.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  if (file < 0) return system_failure(path);
  return FileDraft(path, std::move(draft), file);
}

FileDraft::FileDraft(FileDraft&& other) noexcept
    : path_(std::move(other.path_)), draft_(std::move(other.draft_)), file_(std::exchange(other.file_, -1)) {}

FileDraft::~FileDraft() {
  if (file_ < 0) return;
  ::close(file_);
  ::unlink(draft_.c_str());
}

Result<void> FileDraft::append(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(file_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return system_failure(path_);
    bytes = bytes.subspan(static_cast<size_t>(written));
  }
  return {};
}

Result<void> FileDraft::finish() {
  if (::fsync(file_) != 0 && errno != EINVAL) return system_failure(path_);
  if (::close(std::exchange(file_, -1)) != 0 || std::rename(draft_.c_str(), path_.c_str()) != 0) {
    const Failure why = system_failure(path_);
    ::unlink(draft_.c_str());
    return why;
  }
  return {};
}

} // namespace luminal
