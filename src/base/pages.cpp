// base/pages.cpp -- pages of mapped files, large pages.
#include "base/pages.h"
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#ifdef __GLIBC__
#include <link.h>
#include <malloc.h>
#endif
#include <map>
#include <mutex>
#include <string>
#include <sys/mman.h>
#include <unistd.h>

namespace luminal {
namespace {

/// A hint: where it fails the pages stay.
void drop(uintptr_t begin, uintptr_t end) {
  const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const uintptr_t first = (begin + page - 1) / page * page, last = end / page * page;
  if (first < last) (void)madvise(reinterpret_cast<void*>(first), last - first, MADV_DONTNEED);
}

struct Mapped {
  std::mutex mutex;
  std::map<const std::byte*, size_t> files; // bytes by address
};
Mapped& mapped() {
  static Mapped all;
  return all;
}

} // namespace

void ask_for_large_pages(std::span<std::byte> memory) {
#ifdef MADV_HUGEPAGE
  constexpr uintptr_t page = 2 << 20;
  constexpr size_t least = 4 << 20; // most of it lies in whole pages
  if (memory.size() < least) return;
  const auto begin = reinterpret_cast<uintptr_t>(memory.data());
  const uintptr_t first = (begin + page - 1) / page * page, last = (begin + memory.size()) / page * page;
  (void)madvise(reinterpret_cast<void*>(first), last - first, MADV_HUGEPAGE);
#endif
}

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
  const auto begin = reinterpret_cast<uintptr_t>(bytes.data());
  drop(begin, begin + bytes.size());
}

Result<std::shared_ptr<std::byte>> unnamed_file(size_t bytes) {
  const char* named = std::getenv("TMPDIR");
  const std::string folder = named && *named ? named : "/var/tmp";
  std::string path = folder + "/luminal.XXXXXX";
  const auto failed = [&](int error) {
    return Failure{fmt::format("{}: {} (TMPDIR names another folder)", folder, std::strerror(error))};
  };
  const int file = mkstemp(path.data());
  if (file < 0) return failed(errno);
  (void)unlink(path.c_str());
  // All of its room now: a page that the disk has no room for would end the process when it is
  // written.
  const int full = posix_fallocate(file, 0, off_t(bytes));
  void* const memory = full ? MAP_FAILED : mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  const int error = full ? full : errno;
  (void)close(file);
  if (memory == MAP_FAILED) return failed(error);
  auto* const data = static_cast<std::byte*>(memory);
  note_mapped({data, bytes});
  return std::shared_ptr<std::byte>(data, [bytes](std::byte* begin) {
    note_unmapped({begin, bytes});
    munmap(begin, bytes);
  });
}

void give_back_memory(std::string_view library) {
#ifdef __GLIBC__
  malloc_trim(0);
  const auto of_library = [](dl_phdr_info* info, size_t, void* name) {
    const std::string_view path = info->dlpi_name ? info->dlpi_name : "";
    if (path.find(*static_cast<const std::string_view*>(name)) == std::string_view::npos) return 0;
    for (int i = 0; i < info->dlpi_phnum; i++) {
      const auto& segment = info->dlpi_phdr[i];
      // Code as it stands in the file; what is written (tables of addresses) would be lost.
      if (segment.p_type != PT_LOAD || !(segment.p_flags & PF_X) || (segment.p_flags & PF_W)) continue;
      drop(info->dlpi_addr + segment.p_vaddr, info->dlpi_addr + segment.p_vaddr + segment.p_filesz);
    }
    return 0;
  };
  dl_iterate_phdr(of_library, &library);
#else
  (void)library;
#endif
}

} // namespace luminal
