// base/program_hash.cpp -- the linker's note NT_GNU_BUILD_ID of the object in which this function lies.
#include "base/program_hash.h"
#ifdef __linux__
#include <cstring>
#include <elf.h>
#include <link.h>
#endif

namespace luminal {

#ifdef __linux__
namespace {

struct Search {
  uintptr_t inside; // of the object
  std::optional<Hash128> found;
};

std::optional<Hash128> build_id(const char* notes, size_t bytes) {
  constexpr auto aligned = [](size_t n) { return (n + 3) & ~size_t(3); };
  while (bytes >= sizeof(ElfW(Nhdr))) {
    ElfW(Nhdr) head;
    std::memcpy(&head, notes, sizeof head);
    const size_t name = aligned(head.n_namesz), content = aligned(head.n_descsz);
    if (sizeof head + name + content > bytes) return {};
    if (head.n_type == NT_GNU_BUILD_ID && head.n_namesz == 4 &&
        std::memcmp(notes + sizeof head, "GNU", 4) == 0)
      return hash128(notes + sizeof head + name, head.n_descsz);
    notes += sizeof head + name + content;
    bytes -= sizeof head + name + content;
  }
  return {};
}

int visit(dl_phdr_info* object, size_t, void* data) {
  auto& search = *static_cast<Search*>(data);
  bool ours = false;
  for (int k = 0; k < object->dlpi_phnum; ++k) {
    const auto& part = object->dlpi_phdr[k];
    const uintptr_t begin = object->dlpi_addr + part.p_vaddr;
    ours |= part.p_type == PT_LOAD && search.inside >= begin && search.inside < begin + part.p_memsz;
  }
  if (!ours) return 0;
  for (int k = 0; k < object->dlpi_phnum && !search.found; ++k)
    if (const auto& part = object->dlpi_phdr[k]; part.p_type == PT_NOTE)
      search.found =
          build_id(reinterpret_cast<const char*>(object->dlpi_addr + part.p_vaddr), size_t(part.p_memsz));
  return 1;
}

} // namespace

const std::optional<Hash128>& program_hash() {
  static const std::optional<Hash128> hash = [] {
    Search search{reinterpret_cast<uintptr_t>(&program_hash), {}};
    dl_iterate_phdr(visit, &search);
    return search.found;
  }();
  return hash;
}
#else
const std::optional<Hash128>& program_hash() {
  static const std::optional<Hash128> none;
  return none;
}
#endif

} // namespace luminal
