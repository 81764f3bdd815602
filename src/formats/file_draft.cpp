// formats/file_draft.cpp -- files that are written piece by piece.
#include "formats/file_draft.h"
#include "formats/parse.h"
#include <atomic>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <unistd.h>
#include <utility>

namespace luminal {
namespace {

Failure system_failure(const std::string& path) {
  return Failure{fmt::format("{}: {}", path, std::strerror(errno))};
}

} // namespace

Result<FileDraft> FileDraft::create(const std::string& path) {
  static std::atomic<unsigned> serial{0};
  const auto folder = std::filesystem::path(path).parent_path();
  std::error_code error;
  if (!folder.empty() && !std::filesystem::is_directory(folder, error))
    return Failure{fmt::format("{}: there is no folder {}", path, folder.string())};
  if (std::filesystem::is_directory(path, error)) return Failure{fmt::format("{}: Is a directory", path)};
  std::string draft = fmt::format("{}.{}.{}.tmp", path, getpid(), serial++);
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

Result<void> write_sources(const std::string& path, const SourceFile& file,
                           std::span<const TensorSource> sources, const SourceProgress& progress) {
  auto draft = FileDraft::create(path);
  if (!draft) return draft.failure();
  if (auto done = draft->append(detail::as_bytes(file.header)); !done) return done;
  const std::string zeros(file.alignment, '\0');
  for (const size_t i : file.order) {
    if (progress) progress(i);
    const auto bytes = sources[i].bytes();
    if (!bytes) return bytes.failure();
    if (const auto expected = storage_bytes(sources[i].type, sources[i].shape); bytes->size() != expected)
      return Failure{fmt::format("{}: tensor {} has {} bytes, expected {}", path,
                                 detail::in_quotes(sources[i].name), bytes->size(), expected.value_or(0))};
    if (auto done = draft->append(detail::as_bytes(*bytes)); !done) return done;
    const size_t filling = (file.alignment - bytes->size() % file.alignment) % file.alignment;
    if (auto done = draft->append(detail::as_bytes(std::string_view(zeros).substr(0, filling))); !done)
      return done;
  }
  return draft->finish();
}

} // namespace luminal
