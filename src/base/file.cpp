// base/file.cpp -- files.
#include "base/file.h"
#include "base/file_draft.h"
#include "base/pages.h"
#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>
#include <vector>

namespace luminal {
namespace {

Failure failure(const std::string& path, std::string_view what) {
  return Failure{fmt::format("{}: {}", path, what)};
}

class Descriptor {
public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  int get() const { return fd_; }
  int release() { return std::exchange(fd_, -1); }

private:
  int fd_;
};

/// Opens a regular file (anything else is refused before it can block) and tells what the system
/// knows of it.
Result<int> open_regular(const std::string& path, struct stat& info) {
  Descriptor fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (fd.get() < 0) return system_failure(path);
  if (fstat(fd.get(), &info) != 0) return system_failure(path);
  if (S_ISDIR(info.st_mode)) return failure(path, "is a directory, a file is expected");
  if (!S_ISREG(info.st_mode)) return failure(path, "is not a regular file");
  return fd.release();
}

} // namespace

Result<MappedFile> MappedFile::open(const std::string& path) {
  struct stat info{};
  auto opened = open_regular(path, info);
  if (!opened) return opened.failure();
  Descriptor fd(*opened);
  const auto size = size_t(info.st_size);
  if (size == 0) return failure(path, "is empty");
  void* data = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd.get(), 0);
  if (data == MAP_FAILED) return system_failure(path);
  MappedFile file;
  file.data_ = static_cast<const std::byte*>(data);
  file.size_ = size;
  note_mapped(file.bytes());
  file.path_ = path;
  file.identity_ = fmt::format("{}:{}:{}:{}.{:09}", info.st_dev, info.st_ino, info.st_size,
                               info.st_mtim.tv_sec, info.st_mtim.tv_nsec);
  return file;
}

void MappedFile::forget(std::span<const std::byte> bytes) const { drop_pages(bytes); }

MappedFile::MappedFile(MappedFile&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)),
      path_(std::move(other.path_)), identity_(std::move(other.identity_)) {}
MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  std::swap(path_, other.path_);
  std::swap(identity_, other.identity_);
  return *this;
}
MappedFile::~MappedFile() {
  if (!data_) return;
  note_unmapped(bytes());
  munmap(const_cast<std::byte*>(data_), size_);
}

Result<std::string> read_file(const std::string& path, uint64_t limit) {
  struct stat info{};
  auto opened = open_regular(path, info);
  if (!opened) return opened.failure();
  Descriptor fd(*opened);
  const auto size = uint64_t(info.st_size);
  if (size > limit) return failure(path, fmt::format("has {} bytes, at most {} are expected", size, limit));
  std::string text(size, 0);
  size_t done = 0;
  while (done < text.size()) {
    ssize_t n = ::read(fd.get(), text.data() + done, text.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return system_failure(path);
    if (n == 0) break; // it shrank
    done += size_t(n);
  }
  text.resize(done);
  return text;
}

namespace {

Result<void> write_parts(int fd, const std::string& path, std::span<const std::span<const std::byte>> parts) {
  for (std::span<const std::byte> content : parts)
    for (size_t done = 0; done < content.size();) {
      ssize_t n = ::write(fd, content.data() + done, content.size() - done);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return system_failure(path);
      done += size_t(n);
    }
  return {};
}

Result<void> write_in_place(const std::string& path, std::span<const std::span<const std::byte>> parts) {
  Descriptor fd(
      ::open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NONBLOCK)); // a pipe that nobody reads is not waited for
  if (fd.get() < 0)
    return errno == ENXIO ? failure(path, "is a pipe that nobody reads") : system_failure(path);
  fcntl(fd.get(), F_SETFL, fcntl(fd.get(), F_GETFL) & ~O_NONBLOCK);
  if (auto done = write_parts(fd.get(), path, parts); !done) return done;
  return ::close(fd.release()) == 0 ? Result<void>() : system_failure(path);
}

} // namespace

Result<void> write_file(const std::string& path, std::span<const std::span<const std::byte>> parts) {
  struct stat there{};
  if (::stat(path.c_str(), &there) == 0 && !S_ISREG(there.st_mode) && !S_ISDIR(there.st_mode))
    return write_in_place(path, parts); // a device or a pipe: never replaced by a file
  auto draft = FileDraft::create(path);
  if (!draft) return draft.failure();
  for (const std::span<const std::byte> part : parts)
    if (auto done = draft->append(part); !done) return done;
  return draft->finish();
}

Result<void> write_file(const std::string& path, std::span<const std::byte> content) {
  return write_file(path, std::span<const std::span<const std::byte>>(&content, 1));
}

Result<void> write_file(const std::string& path, std::string_view content) {
  return write_file(path, std::as_bytes(std::span<const char>(content.data(), content.size())));
}

Result<void> make_folder_of(const std::string& path) {
  const auto folder = std::filesystem::path(path).parent_path();
  std::error_code error;
  if (!folder.empty()) std::filesystem::create_directories(folder, error);
  if (error) return Failure{fmt::format("{}: {}", folder.string(), error.message())};
  return {};
}

int64_t trim_folder(const std::string& folder, std::string_view extension, int64_t max_bytes) {
  namespace fs = std::filesystem;
  struct Entry {
    fs::file_time_type time;
    int64_t bytes;
    fs::path path;
  };
  std::vector<Entry> entries;
  int64_t total = 0, removed = 0;
  std::error_code error;
  const auto old = fs::file_time_type::clock::now() - std::chrono::hours(1);
  for (fs::recursive_directory_iterator it(folder, fs::directory_options::skip_permission_denied, error), end;
       !error && it != end; it.increment(error)) {
    std::error_code ignored;
    if (!it->is_regular_file(ignored)) continue;
    Entry e{it->last_write_time(ignored), int64_t(it->file_size(ignored)), it->path()};
    if (ignored) continue; // another process removed it
    if (e.path.extension() == FileDraft::extension && e.time < old) fs::remove(e.path, ignored);
    if (e.path.extension() != extension) continue;
    total += e.bytes;
    entries.push_back(std::move(e));
  }
  if (total <= max_bytes) return 0;
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return a.time != b.time ? a.time < b.time : a.path < b.path;
  });
  for (const Entry& e : entries) {
    if (total <= max_bytes - max_bytes / 8) break;
    std::error_code ignored;
    removed += fs::remove(e.path, ignored);
    total -= e.bytes;
  }
  return removed;
}

bool file_exists(const std::string& path) {
  std::error_code error;
  return std::filesystem::is_regular_file(path, error);
}
bool is_directory(const std::string& path) {
  std::error_code error;
  return std::filesystem::is_directory(path, error);
}

} // namespace luminal
