// device/host_memory.cpp -- mmap, huge pages, limits of control groups.
#include "device/host_memory.h"
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fmt/format.h>
#include <fstream>
#include <limits>
#include <string>
#include <sys/mman.h>
#include <unistd.h>

namespace luminal::device {
namespace {

constexpr int64_t huge_page = int64_t(2) << 20;
int64_t page_bytes() {
  static const int64_t bytes = sysconf(_SC_PAGESIZE);
  return bytes;
}

std::string readable(int64_t bytes) {
  if (bytes < 1024) return fmt::format("{} bytes", bytes);
  double value = double(bytes);
  const char* units[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  int unit = -1;
  while (value >= 1024 && unit < 5) value /= 1024, ++unit;
  return fmt::format("{:.1f} {}", value, units[unit]);
}

} // namespace

int64_t usable_memory() {
  int64_t physical = int64_t(sysconf(_SC_PHYS_PAGES)) * page_bytes();
  const auto limit_in = [&](const std::string& path) {
    std::ifstream file(path);
    int64_t limit = 0;
    if (file >> limit && limit > 0) physical = std::min(physical, limit);
  };
  limit_in("/sys/fs/cgroup/memory.max");
  limit_in("/sys/fs/cgroup/memory/memory.limit_in_bytes");
  // Of the group that this process is in, and of those above it: "0::/user.slice/a.scope",
  // "7:memory:/docker/1f".
  std::ifstream groups("/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string kind = line.substr(first + 1, second - first - 1);
    if (!kind.empty() && kind != "memory") continue;
    for (std::string group = line.substr(second + 1); group.size() > 1 && group[0] == '/';
         group.resize(group.rfind('/')))
      limit_in(kind.empty() ? "/sys/fs/cgroup" + group + "/memory.max"
                            : "/sys/fs/cgroup/memory" + group + "/memory.limit_in_bytes");
  }
  return physical;
}

HostMemory::~HostMemory() {
  for (auto& [handle, m] : mappings_) munmap(m.base, m.bytes);
}

Result<Memory> HostMemory::allocate(std::string_view device, int64_t bytes, const AllocateOptions& options) {
  int64_t alignment = std::max<int64_t>(options.alignment, options.huge_pages ? huge_page : page_bytes());
  if (bytes < 0 || (options.alignment & (options.alignment - 1)) || options.alignment < 1)
    return Failure{fmt::format("{}: cannot allocate {} bytes aligned to {}, expected 0 bytes or more and a "
                               "power of two",
                               device, bytes, options.alignment)};
  if (bytes > std::numeric_limits<int64_t>::max() / 2 - alignment)
    return Failure{fmt::format("{}: cannot allocate {}: more than can be addressed", device, readable(bytes)),
                   MemoryShortage{.needed = bytes, .available = {}}};
  int64_t rounding = options.huge_pages ? huge_page : page_bytes();
  int64_t usable = int64_t(rounded_up(uintptr_t(std::max<int64_t>(bytes, 1)), uintptr_t(rounding)));
  int64_t slack = alignment > page_bytes() ? alignment : 0;
  int flags = MAP_PRIVATE | MAP_ANONYMOUS;
#ifdef MAP_NORESERVE
  flags |= MAP_NORESERVE; // the declared maximum may be more than will be touched
#endif
  void* base = mmap(nullptr, size_t(usable + slack), PROT_READ | PROT_WRITE, flags, -1, 0);
  if (base == MAP_FAILED)
    return Failure{fmt::format("{}: cannot allocate {}: {}", device, readable(bytes), std::strerror(errno)),
                   MemoryShortage{.needed = bytes, .available = {}}};
  Memory m;
  m.data = reinterpret_cast<void*>(rounded_up(reinterpret_cast<uintptr_t>(base), uintptr_t(alignment)));
  m.bytes = bytes;
#ifdef MADV_HUGEPAGE
  if (options.huge_pages) madvise(m.data, size_t(usable), MADV_HUGEPAGE);
#endif
  std::lock_guard lock(mutex_);
  m.handle = next_++;
  mappings_[m.handle] = {base, size_t(usable + slack)};
  return m;
}

void HostMemory::free(Memory memory) noexcept {
  std::lock_guard lock(mutex_);
  auto it = mappings_.find(memory.handle);
  if (it == mappings_.end()) return;
  munmap(it->second.base, it->second.bytes);
  mappings_.erase(it);
}

void HostMemory::decommit(Memory memory, int64_t offset, int64_t bytes) noexcept {
  if (offset < 0 || bytes <= 0 || offset > memory.bytes || memory.bytes - offset < bytes) return;
  char* begin = static_cast<char*>(memory.data) + offset;
  char* end = begin + bytes;
  auto page = uintptr_t(page_bytes());
  char* first = reinterpret_cast<char*>(rounded_up(reinterpret_cast<uintptr_t>(begin), page));
  char* last = reinterpret_cast<char*>(reinterpret_cast<uintptr_t>(end) / page * page);
  if (first >= last) {
    std::memset(begin, 0, size_t(bytes));
    return;
  }
  std::memset(begin, 0, size_t(first - begin));
  std::memset(last, 0, size_t(end - last));
#ifdef __linux__
  if (madvise(first, size_t(last - first), MADV_DONTNEED) == 0) return; // reads as zero from now on
#endif
  std::memset(first, 0, size_t(last - first));
}

bool HostMemory::holds(const void* address) const {
  std::lock_guard lock(mutex_);
  return std::ranges::any_of(mappings_, [&](const auto& mapping) {
    const auto* base = static_cast<const char*>(mapping.second.base);
    return address >= base && address < base + mapping.second.bytes;
  });
}

int64_t HostMemory::reserved() const {
  std::lock_guard lock(mutex_);
  int64_t total = 0;
  for (const auto& [handle, m] : mappings_) total += int64_t(m.bytes);
  return total;
}

} // namespace luminal::device
