// base/pages.cpp -- pages of mapped files.
#include "base/pages.h"
#include <cstdint>
#include <sys/mman.h>
#include <unistd.h>

namespace luminal {

void drop_pages(std::span<const std::byte> mapped) {
  const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto begin = reinterpret_cast<uintptr_t>(mapped.data()), end = begin + mapped.size();
  const uintptr_t first = (begin + page - 1) / page * page, last = end / page * page;
  // A hint: where it fails the pages stay.
  if (first < last) (void)madvise(reinterpret_cast<void*>(first), last - first, MADV_DONTNEED);
}

} // namespace luminal
