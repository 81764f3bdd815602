// device/error_texts_test.cpp -- messages word for word: allocation, copies, loading, launches.
// tools/check_error_texts.py lists those that no test names.
#include "base/thread_pool.h"
#include "device/cpu/cpu_device.h"
#include "device/null/null_device.h"
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <elf.h>
#include <gtest/gtest.h>
#include <regex>
#include <string>
#include <sys/prctl.h>
#include <vector>

namespace luminal::device::error_texts_test {
namespace {

template <class T> std::string error_of(const Result<T>& result) {
  return result ? "accepted" : result.error();
}

TEST(DeviceErrorTexts, Memory) {
  ThreadPool pool(1);
  auto cpu = make_cpu_device(pool);
  EXPECT_EQ(error_of(cpu->allocate(-1)),
            "cpu: cannot allocate -1 bytes aligned to 64, expected 0 bytes or more and a power of two");
  EXPECT_EQ(error_of(cpu->allocate(8, {3, false, true})),
            "cpu: cannot allocate 8 bytes aligned to 3, expected 0 bytes or more and a power of two");
  EXPECT_EQ(error_of(cpu->allocate(8, {0, false, true})),
            "cpu: cannot allocate 8 bytes aligned to 0, expected 0 bytes or more and a power of two");
  EXPECT_EQ(error_of(cpu->allocate(int64_t(1) << 62)),
            "cpu: cannot allocate 4.0 EiB: more than can be addressed");
  EXPECT_EQ(error_of(cpu->allocate(int64_t(1) << 60)),
            std::string("cpu: cannot allocate 1.0 EiB: ") + std::strerror(ENOMEM));
}

/// An object with one function k of one byte, and beside it so many sections of 1 GiB without contents.
std::vector<std::byte> elf_object(size_t large = 0) {
  constexpr std::string_view names("\0k\0", 3);
  const uint64_t at_symbols = sizeof(Elf64_Ehdr), at_names = at_symbols + 2 * sizeof(Elf64_Sym),
                 at_code = at_names + names.size(), at_sections = (at_code + 8) / 8 * 8;
  Elf64_Sym symbols[2] = {};
  symbols[1].st_name = 1, symbols[1].st_shndx = 3;
  std::vector<Elf64_Shdr> sections(4 + large);
  const auto section = [&](size_t i, uint32_t type, uint64_t flags, uint64_t offset, uint64_t size) {
    sections[i].sh_type = type, sections[i].sh_flags = flags;
    sections[i].sh_offset = offset, sections[i].sh_size = size;
  };
  section(1, SHT_SYMTAB, 0, at_symbols, sizeof symbols);
  sections[1].sh_link = 2;
  section(2, SHT_STRTAB, 0, at_names, names.size());
  section(3, SHT_PROGBITS, SHF_ALLOC | SHF_EXECINSTR, at_code, 1);
  for (size_t i = 0; i < large; i++) section(4 + i, SHT_NOBITS, SHF_ALLOC, 0, uint64_t(1) << 30);
  Elf64_Ehdr header = {};
  std::memcpy(header.e_ident, "\177ELF\2\1\1", 7);
  header.e_type = ET_REL;
#if defined(__x86_64__)
  header.e_machine = EM_X86_64;
#elif defined(__aarch64__)
  header.e_machine = EM_AARCH64;
#endif
  header.e_shoff = at_sections, header.e_shentsize = sizeof(Elf64_Shdr);
  header.e_shnum = uint16_t(sections.size());
  std::vector<std::byte> bytes(at_sections + sections.size() * sizeof(Elf64_Shdr));
  std::memcpy(bytes.data(), &header, sizeof header);
  std::memcpy(bytes.data() + at_symbols, symbols, sizeof symbols);
  std::memcpy(bytes.data() + at_names, names.data(), names.size());
  bytes[at_code] = std::byte(0xc3);
  std::memcpy(bytes.data() + at_sections, sections.data(), sections.size() * sizeof(Elf64_Shdr));
  return bytes;
}

TEST(DeviceErrorTexts, MemoryForCode) {
  ThreadPool pool(1);
  auto cpu = make_cpu_device(pool);
  const std::vector<std::byte> small = elf_object(), large = elf_object(60'000);
  const Code one{small, "k"};
  EXPECT_TRUE(cpu->load({&one, 1}));
  const std::vector<Code> all(5, Code{large, "k"}); // 293 TiB: more than a process has addresses
  const std::string error = error_of(cpu->load(all));
  EXPECT_TRUE(std::regex_match(error, std::regex("cpu: cannot map [0-9]+ bytes for code: (.*)"))) << error;
  EXPECT_TRUE(error.ends_with(std::strerror(ENOMEM))) << error;
}

/// A process that Linux forbids to make memory executable; older ones than 6.3 do not, and nothing is said.
TEST(DeviceErrorTexts, ExecutableMemory) {
  const std::vector<std::byte> object = elf_object();
  const auto load = [&object] {
    constexpr int set_mdwe = 65, refuse_exec_gain = 1; // PR_SET_MDWE of linux/prctl.h
    if (prctl(set_mdwe, refuse_exec_gain, 0, 0, 0) != 0) std::exit(0);
    ThreadPool pool(1);
    const Code code{object, "k"};
    std::fputs(error_of(make_cpu_device(pool)->load({&code, 1})).c_str(), stderr);
    std::exit(0);
  };
  EXPECT_EXIT(
      load(), [](int status) { return WIFEXITED(status); },
      "cpu: this system does not let memory become executable: Permission denied|^$");
}

TEST(DeviceErrorTexts, Code) {
  ThreadPool pool(1);
  auto cpu = make_cpu_device(pool);
  const std::vector<std::byte> text(4, std::byte{'x'});
  const Code code{text, "k"}, empty{{}, "k"}, nameless{text, ""};
  EXPECT_EQ(error_of(cpu->load({&code, 1})), "cpu: object 0 cannot be loaded: it is cut off");
  auto null = make_null_device("cuda");
  for (const Code& wrong : {empty, nameless})
    EXPECT_EQ(error_of(null->load({&wrong, 1})),
              "null:cuda: code 0 is empty, expected an object and the name of its entry");
}

TEST(DeviceErrorTexts, Launches) {
  auto null = make_null_device("cuda");
  const std::vector<std::byte> text(4, std::byte{'x'});
  const Code code{text, "k"};
  const auto loaded = null->load({&code, 1}).value();
  void* nothing = nullptr;
  LaunchArguments arguments;
  EXPECT_EQ(error_of(null->launch(loaded.kernels[0] + 1, arguments)), "null:cuda: kernel 1 is not loaded");
  arguments.workers = null->limits().workers + 1;
  EXPECT_EQ(error_of(null->launch(loaded.kernels[0], arguments)),
            "null:cuda: " + std::to_string(arguments.workers) + " workers are asked for, there are " +
                std::to_string(null->limits().workers));
  arguments.workers = -1;
  EXPECT_EQ(error_of(null->launch(loaded.kernels[0], arguments)),
            "null:cuda: -1 workers are asked for, there are " + std::to_string(null->limits().workers));
  arguments.workers = 0;
  arguments.buffers = {&nothing, 1};
  EXPECT_EQ(error_of(null->launch(loaded.kernels[0], arguments)),
            "null:cuda: argument 0 of kernel 0 has no address");
}

} // namespace
} // namespace luminal::device::error_texts_test
