// search/measure_lock.cpp -- flock: the system lets go of it with the process.
#include "search/measure_lock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/settings.h"
#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace luminal::search {
namespace {

/// A file that any user may lock. Another user's is never opened with O_CREAT, which the system
/// refuses in folders for all, and to lock it takes no right to write.
int open_shared(const std::string& path) {
  constexpr int how = O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK; // a pipe does not keep us waiting
  while (true) {
    int descriptor = open(path.c_str(), O_RDWR | how);
    if (descriptor < 0 && (errno == EACCES || errno == EROFS))
      descriptor = open(path.c_str(), O_RDONLY | how);
    if (descriptor >= 0 || errno != ENOENT) return descriptor;
    descriptor = open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | how, 0644);
    if (descriptor >= 0 || errno != EEXIST) return descriptor;
  }
}

std::atomic<int64_t> waited_ns{0};

/// Counts what its life takes.
class Waiting {
public:
  Waiting() : begin_(Clock::now()) {}
  Waiting(const Waiting&) = delete;
  ~Waiting() {
    waited_ns += std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - begin_).count();
  }

private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point begin_;
};

/// What the holder wrote into the file: its process id.
std::string holder(int descriptor) {
  char text[32] = {};
  const ssize_t n = pread(descriptor, text, sizeof text - 1, 0);
  const std::string id(text, size_t(std::max<ssize_t>(n, 0)));
  const bool number = !id.empty() && id.find_first_not_of("0123456789") == std::string::npos;
  if (id == fmt::format("{}", getpid())) return "another search of this process";
  return number ? "process " + id : "another process";
}

} // namespace

double MeasureLock::waited() { return double(waited_ns.load()) * 1e-9; }

std::string MeasureLock::default_path() {
  // (Not TMPDIR, which may be a user's own.)
  static constexpr const char* shared = "/tmp/luminal.measuring.lock";
  struct stat there{};
  const bool found = lstat(shared, &there) == 0;
  if (found ? S_ISREG(there.st_mode) && access(shared, R_OK) == 0
            : errno == ENOENT && access("/tmp", W_OK | X_OK) == 0)
    return shared;
  const std::string folder = cache_folder();
  std::error_code error;
  if (!folder.empty()) {
    std::filesystem::create_directories(folder, error);
    if (!error && access(folder.c_str(), W_OK) == 0) return folder + "/measuring.lock";
  }
  const auto common = std::filesystem::temp_directory_path(error);
  return fmt::format("{}/luminal.{}.measuring.lock", error ? "/tmp" : common.string(), getuid());
}

Result<MeasureLock> MeasureLock::acquire(const std::string& path, const std::function<bool()>& stop,
                                         double most_seconds) {
  const int descriptor = open_shared(path);
  if (descriptor < 0) return Failure{fmt::format("{}: {}", path, std::strerror(errno))};
  MeasureLock lock(descriptor);
  bool said = false;
  const auto begin = std::chrono::steady_clock::now();
  const Waiting waiting;
  while (flock(descriptor, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK && errno != EINTR)
      return Failure{fmt::format("{}: {}", path, std::strerror(errno))};
    if (stop && stop())
      return Failure{fmt::format("{}: stopped while {} was measuring", path, holder(descriptor))};
    if (!std::exchange(said, true))
      log_warning("waiting for {}, which is measuring ({})", holder(descriptor), path);
    if (std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() >= most_seconds) {
      log_warning("{} has been measuring for {} s and more ({}): times are taken beside it",
                  holder(descriptor), int64_t(most_seconds), path);
      return MeasureLock(-1);
    }
    usleep(100000);
  }
  const std::string id = fmt::format("{}", getpid());
  // Only a message needs it: a disk that is full does not keep anybody from measuring.
  if (ftruncate(descriptor, 0) != 0 || pwrite(descriptor, id.data(), id.size(), 0) < 0)
    log_info("{}: {}", path, std::strerror(errno));
  return lock;
}

MeasureLock::MeasureLock(MeasureLock&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
MeasureLock& MeasureLock::operator=(MeasureLock&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  return *this;
}
MeasureLock::~MeasureLock() {
  if (descriptor_ >= 0) {
    flock(descriptor_, LOCK_UN); // at once, though a forked worker may hold a copy of the descriptor
    close(descriptor_);
  }
}

} // namespace luminal::search
