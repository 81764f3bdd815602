// base/pages.cpp -- pages of mapped files.
#include "base/pages.h"
#include <cstdint>
#include <map>
#include <mutex>
#include <sys/mman.h>
#include <unistd.h>

namespace luminal {
namespace {

struct Mapped {
  std::mutex mutex;
  std::map<const std::byte*, size_t> files; // bytes by address
};
Mapped& mapped() {
  static Mapped all;
  return all;
}

} // namespace

void note_mapped(std::span<const std::byte> file) {
  Mapped& all = mapped();
  const std::lock_guard lock(all.mutex);
  all.files[file.data()] = file.size();
}

void note_unmapped(std::span<const std::byte> file) {
  Mapped& all = mapped();
  const std::lock_guard lock(all.mutex);
  all.files.erase(file.data());
}

bool is_mapped_file(std::span<const std::byte> bytes) {
  Mapped& all = mapped();
  const std::lock_guard lock(all.mutex);
  auto after = all.files.upper_bound(bytes.data());
  if (after == all.files.begin()) return false;
  const auto& [begin, size] = *--after;
  return bytes.data() + bytes.size() <= begin + size;
}

void drop_pages(std::span<const std::byte> bytes) {
  if (!is_mapped_file(bytes)) return; // elsewhere the values would be lost
  const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto begin = reinterpret_cast<uintptr_t>(bytes.data()), end = begin + bytes.size();
  const uintptr_t first = (begin + page - 1) / page * page, last = end / page * page;
  // A hint: where it fails the pages stay.
  if (first < last) (void)madvise(reinterpret_cast<void*>(first), last - first, MADV_DONTNEED);
}

} // namespace luminal
