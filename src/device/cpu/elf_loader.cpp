// device/cpu/elf_loader.cpp -- relocatable ELF, x86-64 and AArch64, position-independent code with
// internal references only. Objects of kernels need nothing else, and a loader of their own starts
// them without LLVM: 30 objects take 0.1 ms here and 6 ms through LLVM's ORC on a Zen 4 server.
#include "device/cpu/elf_loader.h"
#include "device/host_memory.h"
#include <cstdint>
#include <cstring>
#include <fmt/format.h>
#include <string>
#include <sys/mman.h>
#include <unistd.h>
#include <utility>

namespace luminal::device {

LoadedObjects::LoadedObjects(LoadedObjects&& other) noexcept
    : base_(std::exchange(other.base_, nullptr)), bytes_(std::exchange(other.bytes_, 0)),
      entries_(std::move(other.entries_)) {}
LoadedObjects& LoadedObjects::operator=(LoadedObjects&& other) noexcept {
  std::swap(base_, other.base_);
  std::swap(bytes_, other.bytes_);
  std::swap(entries_, other.entries_);
  return *this;
}
LoadedObjects::~LoadedObjects() {
  if (base_) munmap(base_, bytes_);
}

namespace {

// The parts of the ELF-64 format that are used (System V ABI, edition 4.1; the processor
// supplements for x86-64 and AArch64).
struct Header {
  unsigned char ident[16];
  uint16_t type, machine;
  uint32_t version;
  uint64_t entry, program_offset, section_offset;
  uint32_t flags;
  uint16_t size, program_size, program_count, section_size, section_count, section_names;
};
struct Section {
  uint32_t name, type;
  uint64_t flags, address, offset, size;
  uint32_t link, info;
  uint64_t alignment, entry_size;
};
struct Symbol {
  uint32_t name;
  unsigned char info, other;
  uint16_t section;
  uint64_t value, size;
};
struct Relocation {
  uint64_t offset, info;
  int64_t addend;
};
enum : uint32_t {
  section_progbits = 1,
  section_symbols = 2,
  section_strings = 3,
  section_rela = 4,
  section_nobits = 8,
  section_rel = 9,
  section_unwind = 0x70000001
};
enum : uint64_t { flag_write = 1, flag_alloc = 2, flag_code = 4 };
enum : uint16_t { machine_x86_64 = 62, machine_aarch64 = 183 };
#if defined(__x86_64__)
constexpr uint16_t this_machine = machine_x86_64;
#elif defined(__aarch64__)
constexpr uint16_t this_machine = machine_aarch64;
#else
constexpr uint16_t this_machine = 0;
#endif

struct Damaged {
  std::string why;
};

class Object {
public:
  Object(const ElfObject& source) : bytes_(source.bytes), entry_(source.entry) {
    auto header = read<Header>(0);
    if (std::memcmp(header.ident, "\177ELF\2\1\1", 7) != 0 || header.type != 1)
      throw Damaged{"it is not a relocatable 64-bit ELF object"};
    if (header.machine != this_machine) throw Damaged{"it is for another processor"};
    if (header.section_size != sizeof(Section)) throw Damaged{"its section headers have an unknown size"};
    for (uint64_t i = 0; i < header.section_count; ++i) {
      sections_.push_back(read<Section>(header.section_offset + i * sizeof(Section)));
      const Section& s = sections_.back();
      if (s.type != section_nobits) check_range(s.offset, s.size);
      if (s.type == section_symbols) symbols_ = i;
    }
    if (symbols_ == 0) throw Damaged{"it has no symbols"};
    address_.assign(sections_.size(), 0);
  }

  bool wanted(const Section& s, bool code) const {
    bool loads =
        (s.flags & flag_alloc) && (s.type == section_progbits || s.type == section_nobits) && s.size > 0;
    if (loads && (s.flags & flag_write)) throw Damaged{"it has data that can be written"};
    return loads && bool(s.flags & flag_code) == code;
  }

  /// Gives each section of the kind its place.
  void place(uint64_t& top, bool code) {
    for (size_t i = 0; i < sections_.size(); ++i) {
      const Section& s = sections_[i];
      if (!wanted(s, code)) continue;
      uint64_t alignment = s.alignment ? s.alignment : 1;
      if (alignment > 4096 || (alignment & (alignment - 1)) || s.size > (uint64_t(1) << 30))
        throw Damaged{"a section has a strange size or alignment"};
      top = rounded_up(top, alignment < 64 ? 64 : alignment);
      address_[i] = top + 1; // 0: not loaded
      top += s.size;
    }
  }

  void copy(char* base) const {
    for (size_t i = 0; i < sections_.size(); ++i)
      if (address_[i] && sections_[i].type == section_progbits)
        std::memcpy(base + address_[i] - 1, bytes_.data() + sections_[i].offset, sections_[i].size);
  }

  void relocate(char* base) const {
    for (const Section& s : sections_) {
      bool applies =
          (s.type == section_rela || s.type == section_rel) && s.info < sections_.size() && address_[s.info];
      if (!applies) continue;
      if (s.type == section_rel || s.entry_size != sizeof(Relocation))
        throw Damaged{"its relocations have an unknown form"};
      for (uint64_t at = 0; at + sizeof(Relocation) <= s.size; at += sizeof(Relocation)) {
        auto r = read<Relocation>(s.offset + at);
        const Section& target = sections_[s.info];
        auto type = static_cast<uint32_t>(r.info);
        uint64_t width = type == 1 || type == 257 ? 8 : 4;
        if (r.offset > target.size || target.size - r.offset < width)
          throw Damaged{"a relocation lies outside its section"};
        char* place = base + address_[s.info] - 1 + r.offset;
        int64_t value = reinterpret_cast<int64_t>(address_of(base, symbol(r.info >> 32))) + r.addend;
        if (this_machine == machine_x86_64)
          apply_x86_64(type, place, value);
        else
          apply_aarch64(type, place, value);
      }
    }
  }

  void* find_entry(char* base) const {
    const Section& table = sections_[symbols_];
    for (uint64_t i = 0; i < table.size / sizeof(Symbol); ++i) {
      Symbol s = symbol(i);
      if (s.section != 0 && name_of(s) == entry_) return address_of(base, s);
    }
    throw Damaged{fmt::format("it does not define {}", entry_)};
  }

private:
  void check_range(uint64_t offset, uint64_t size) const {
    if (offset > bytes_.size() || bytes_.size() - offset < size) throw Damaged{"it is cut off"};
  }
  template <class T> T read(uint64_t offset) const {
    check_range(offset, sizeof(T));
    T value;
    std::memcpy(&value, bytes_.data() + offset, sizeof(T));
    return value;
  }
  Symbol symbol(uint64_t index) const {
    const Section& table = sections_[symbols_];
    if (index >= table.size / sizeof(Symbol)) throw Damaged{"a symbol is outside its table"};
    return read<Symbol>(table.offset + index * sizeof(Symbol));
  }
  std::string_view name_of(const Symbol& s) const {
    uint64_t link = sections_[symbols_].link;
    if (link >= sections_.size() || sections_[link].type != section_strings)
      throw Damaged{"its symbols have no names"};
    const Section& strings = sections_[link];
    if (s.name >= strings.size) throw Damaged{"a name is outside its table"};
    const char* begin = reinterpret_cast<const char*>(bytes_.data()) + strings.offset + s.name;
    return {begin, strnlen(begin, strings.size - s.name)};
  }
  char* address_of(char* base, const Symbol& s) const {
    if (s.section == 0) throw Damaged{fmt::format("it refers to {}, which is outside", name_of(s))};
    if (s.section >= sections_.size() || !address_[s.section])
      throw Damaged{"a symbol lies in a section that is not loaded"};
    if (s.value > sections_[s.section].size) throw Damaged{"a symbol lies outside its section"};
    return base + address_[s.section] - 1 + s.value;
  }

  static void apply_x86_64(uint32_t type, char* place, int64_t value) {
    switch (type) {
    case 1: std::memcpy(place, &value, 8); return; // R_X86_64_64
    case 2:                                        // R_X86_64_PC32
    case 4: {                                      // R_X86_64_PLT32
      int64_t distance = value - reinterpret_cast<int64_t>(place);
      if (distance != static_cast<int32_t>(distance)) throw Damaged{"a reference is too far"};
      auto word = static_cast<int32_t>(distance);
      std::memcpy(place, &word, 4);
      return;
    }
    default: throw Damaged{fmt::format("relocation {} is not known", type)};
    }
  }

  static void apply_aarch64(uint32_t type, char* place, int64_t value) {
    uint32_t word;
    std::memcpy(&word, place, 4);
    auto here = reinterpret_cast<int64_t>(place);
    auto low = [&](unsigned shift) {
      word = (word & ~(0xFFFu << 10)) | static_cast<uint32_t>((value & 0xFFF) >> shift) << 10;
    };
    switch (type) {
    case 257: std::memcpy(place, &value, 8); return; // ABS64
    case 261: {                                      // PREL32
      auto distance = static_cast<int32_t>(value - here);
      std::memcpy(place, &distance, 4);
      return;
    }
    case 275: { // ADR_PREL_PG_HI21
      int64_t pages = (value >> 12) - (here >> 12);
      if (pages != (pages << 43) >> 43) throw Damaged{"a reference is too far"};
      word = (word & 0x9F00001Fu) | static_cast<uint32_t>(pages & 3) << 29 |
             static_cast<uint32_t>(pages >> 2 & 0x7FFFF) << 5;
      break;
    }
    case 277: low(0); break; // ADD_ABS_LO12_NC
    case 278: low(0); break; // LDST8
    case 284: low(1); break;
    case 285: low(2); break;
    case 286: low(3); break;
    case 299: low(4); break;
    case 282:   // JUMP26
    case 283: { // CALL26
      int64_t distance = (value - here) >> 2;
      if (distance != (distance << 38) >> 38) throw Damaged{"a reference is too far"};
      word = (word & 0xFC000000u) | static_cast<uint32_t>(distance & 0x03FFFFFF);
      break;
    }
    default: throw Damaged{fmt::format("relocation {} is not known", type)};
    }
    std::memcpy(place, &word, 4);
  }

  std::span<const std::byte> bytes_;
  std::string_view entry_;
  std::vector<Section> sections_;
  std::vector<uint64_t> address_; // of each section, relative to the mapping, plus one
  uint64_t symbols_ = 0;
};

} // namespace

struct ElfLoader {
  static Result<LoadedObjects> load(std::span<const ElfObject> sources) {
    size_t number = 0;
    try {
      std::vector<Object> objects;
      objects.reserve(sources.size());
      for (const ElfObject& source : sources) {
        objects.emplace_back(source);
        ++number;
      }
      uint64_t top = 0;
      const auto page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
      for (Object& o : objects) o.place(top, true);
      uint64_t code = top = rounded_up(top, page);
      for (Object& o : objects) o.place(top, false);
      top = rounded_up(top ? top : 1, page);
      LoadedObjects result;
      void* base = mmap(nullptr, top, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      if (base == MAP_FAILED)
        return Failure{fmt::format("cannot map {} bytes for code: {}", top, std::strerror(errno))};
      result.base_ = base;
      result.bytes_ = top;
      char* memory = static_cast<char*>(base);
      number = 0;
      for (Object& o : objects) {
        o.copy(memory);
        o.relocate(memory);
        result.entries_.push_back(o.find_entry(memory));
        ++number;
      }
      bool sealed = (code == 0 || mprotect(memory, code, PROT_READ | PROT_EXEC) == 0) &&
                    (code == top || mprotect(memory + code, top - code, PROT_READ) == 0);
      if (!sealed)
        return Failure{
            fmt::format("this system does not let memory become executable: {}", std::strerror(errno))};
      __builtin___clear_cache(memory, memory + code);
      return result;
    } catch (const Damaged& damaged) {
      return Failure{fmt::format("object {} cannot be loaded: {}", number, damaged.why)};
    }
  }
};

Result<LoadedObjects> load_elf(std::span<const ElfObject> objects) { return ElfLoader::load(objects); }

} // namespace luminal::device
