// base/file_cache.cpp -- reading, writing and bounding a folder of contents.
#include "base/file_cache.h"
#include "base/file.h"
#include "base/log.h"
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fmt/format.h>
#include <mutex>
#include <set>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace luminal {
namespace fs = std::filesystem;
namespace {

struct Header {
  char magic[8];
  uint64_t key_low, key_high;
  uint64_t bytes;
  uint64_t check_low, check_high; // of the fields above and the content
};
constexpr char magic[8] = {'L', 'U', 'M', 'K', 'E', 'P', 'T', '1'};

class File { // closed at the end
public:
  explicit File(int descriptor) : descriptor_(descriptor) {}
  File(const File&) = delete;
  ~File() {
    if (descriptor_ >= 0) close(descriptor_);
  }
  int get() const { return descriptor_; }
  bool read(void* to, size_t bytes) {
    char* at = static_cast<char*>(to);
    while (bytes > 0) {
      const ssize_t n = ::read(descriptor_, at, bytes);
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) return false;
      at += n;
      bytes -= size_t(n);
    }
    return true;
  }
  bool write(const void* from, size_t bytes) {
    const char* at = static_cast<const char*>(from);
    while (bytes > 0) {
      const ssize_t n = ::write(descriptor_, at, bytes);
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) return false;
      at += n;
      bytes -= size_t(n);
    }
    return true;
  }

private:
  int descriptor_;
};

Hash128 check(const Header& h, std::span<const std::string_view> parts) {
  Hasher hasher;
  hasher.bytes(&h, offsetof(Header, check_low));
  for (const std::string_view part : parts) hasher.bytes(part.data(), part.size());
  return hasher.value128();
}

/// Once for each folder.
void say_once(const std::string& folder, const std::string& why) {
  static std::mutex mutex;
  static std::set<std::string> said;
  const std::lock_guard lock(mutex);
  if (said.insert(folder).second) log_info("cache: {} cannot be written ({}); nothing is kept", folder, why);
}

} // namespace

FileCache::FileCache(std::string folder, std::string extension, int64_t max_bytes)
    : folder_(std::move(folder)), extension_(std::move(extension)), max_bytes_(max_bytes) {}

std::string FileCache::path(const Hash128& key) const {
  const std::string name = key.hex();
  return folder_ + "/" + name.substr(0, 2) + "/" + name.substr(2) + extension_;
}

std::optional<std::string> FileCache::find(const Hash128& key) {
  if (folder_.empty()) return {};
  const std::string name = path(key);
  File file(open(name.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)); // a pipe does not keep us waiting
  if (file.get() < 0) {
    ++counts_.misses;
    return {};
  }
  struct stat status;
  Header h;
  std::string content;
  const auto sound = [&] {
    if (fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode) || !file.read(&h, sizeof h)) return false;
    if (std::memcmp(h.magic, magic, sizeof magic) != 0 || h.key_low != key.low || h.key_high != key.high)
      return false;
    const auto total = uint64_t(status.st_size);
    if (h.bytes > total || total != sizeof h + h.bytes) return false;
    content.resize(h.bytes);
    if (!file.read(content.data(), content.size())) return false;
    const std::string_view whole = content;
    return check(h, {&whole, 1}) == Hash128{h.check_low, h.check_high};
  };
  if (!sound()) {
    ++counts_.damaged;
    ++counts_.misses;
    std::error_code error;
    fs::remove_all(name, error); // a folder of that name, too
    log_info("cache: {} is damaged and is made again", name);
    return {};
  }
  ++counts_.hits;
  // What is used stays: the time of use is its age. Once a day is often enough.
  timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (now.tv_sec - status.st_mtime > 86400) futimens(file.get(), nullptr);
  return content;
}

void FileCache::store(const Hash128& key, std::span<const std::string_view> parts) {
  if (folder_.empty()) return;
  static std::atomic<uint64_t> serial{0};
  const std::string name = path(key), draft = fmt::format("{}.{}.{}.tmp", name, getpid(), serial++);
  const auto give_up = [&](const std::string& why) {
    ++counts_.unwritable;
    unlink(draft.c_str());
    say_once(folder_, why);
  };
  std::error_code error;
  fs::create_directories(fs::path(name).parent_path(), error);
  if (error) return give_up(error.message());
  Header h{};
  std::memcpy(h.magic, magic, sizeof magic);
  h.key_low = key.low;
  h.key_high = key.high;
  for (const std::string_view part : parts) h.bytes += part.size();
  const Hash128 sum = check(h, parts);
  h.check_low = sum.low;
  h.check_high = sum.high;
  {
    File file(open(draft.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
    if (file.get() < 0) return give_up(std::strerror(errno));
    bool written = file.write(&h, sizeof h);
    for (const std::string_view part : parts) written = written && file.write(part.data(), part.size());
    if (!written) return give_up(std::strerror(errno));
  }
  if (rename(draft.c_str(), name.c_str()) != 0) return give_up(std::strerror(errno));
  ++counts_.written;
  if (stores_++ % 256 == 0) trim();
}

void FileCache::trim() { counts_.removed += trim_folder(folder_, extension_, max_bytes_); }

} // namespace luminal
