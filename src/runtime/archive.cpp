// runtime/archive.cpp -- static libraries as System V and GNU write them (ar(5), "/" is the symbol
// index), and names in ELF objects.
#include "runtime/export_plan.h"
#include <algorithm>
#include <cstring>
#include <fmt/format.h>

namespace luminal::runtime {
namespace {

void append(std::vector<std::byte>& out, std::string_view text) {
  const auto* bytes = reinterpret_cast<const std::byte*>(text.data());
  out.insert(out.end(), bytes, bytes + text.size());
}
void append_big_endian(std::vector<std::byte>& out, uint32_t value) {
  for (int shift = 24; shift >= 0; shift -= 8) out.push_back(std::byte(value >> shift & 255));
}
/// No time, owner or group: the same objects give the same bytes.
void append_header(std::vector<std::byte>& out, std::string_view name, size_t bytes) {
  append(out, fmt::format("{:<16}{:<12}{:<6}{:<6}{:<8}{:<10}`\n", name, 0, 0, 0, "644", bytes));
}
size_t even(size_t bytes) { return bytes + bytes % 2; }

} // namespace

std::vector<std::byte> static_library(std::span<const ArchiveMember> members) {
  constexpr size_t header = 60, magic = 8;
  size_t index = 4 + 4 * members.size(), names = 0;
  for (const ArchiveMember& m : members) {
    index += m.symbol.size() + 1;
    names += m.name.size() + 2;
  }
  std::vector<std::byte> out;
  append(out, "!<arch>\n");
  append_header(out, "/", index);
  append_big_endian(out, uint32_t(members.size()));
  size_t at = magic + header + even(index) + header + even(names);
  for (const ArchiveMember& m : members) {
    append_big_endian(out, uint32_t(at));
    at += header + even(m.bytes.size());
  }
  for (const ArchiveMember& m : members) append(out, m.symbol + std::string(1, '\0'));
  if (index % 2) append(out, "\n");
  append_header(out, "//", names); // names of members, which may be longer than a header holds
  for (const ArchiveMember& m : members) append(out, m.name + "/\n");
  if (names % 2) append(out, "\n");
  size_t name_at = 0;
  for (const ArchiveMember& m : members) {
    append_header(out, fmt::format("/{}", name_at), m.bytes.size());
    out.insert(out.end(), m.bytes.begin(), m.bytes.end());
    if (m.bytes.size() % 2) append(out, "\n");
    name_at += m.name.size() + 2;
  }
  return out;
}

Result<std::vector<std::byte>> rename_symbol(std::span<const std::byte> object, std::string_view from,
                                             std::string_view to) {
  if (from.size() != to.size())
    return Failure{fmt::format("symbol {} cannot be called {}: the lengths differ", from, to)};
  // Sections and symbols of ELF-64, little-endian (System V ABI).
  auto number = [&](size_t offset, size_t bytes) -> uint64_t {
    uint64_t value = 0;
    if (offset > object.size() || bytes > object.size() - offset) return UINT64_MAX;
    std::memcpy(&value, object.data() + offset, bytes);
    return value;
  };
  if (object.size() < 64 || std::memcmp(object.data(), "\177ELF\2\1", 6) != 0)
    return Failure{"a kernel's code is not a 64-bit ELF object; exports are made for such systems only"};
  const uint64_t sections = number(40, 8), section_bytes = number(58, 2), section_count = number(60, 2);
  std::vector<size_t> places;
  auto section = [&](uint64_t i) { return size_t(sections + i * section_bytes); };
  for (uint64_t i = 0; i < section_count; i++) {
    constexpr uint64_t symbol_table = 2, symbol_bytes = 24;
    if (number(section(i) + 4, 4) != symbol_table) continue;
    const uint64_t table = number(section(i) + 24, 8), bytes = number(section(i) + 32, 8),
                   strings = number(section(number(section(i) + 40, 4)) + 24, 8);
    for (uint64_t s = 0; s + symbol_bytes <= bytes; s += symbol_bytes) {
      const uint64_t name = strings + number(table + s, 4);
      if (name > object.size() || from.size() + 1 > object.size() - name) continue;
      const char* text = reinterpret_cast<const char*>(object.data() + name);
      const bool global = number(table + s + 4, 1) >> 4 != 0, defined = number(table + s + 6, 2) != 0;
      if (global && defined && std::memcmp(text, from.data(), from.size()) == 0 && text[from.size()] == 0)
        places.push_back(size_t(name));
    }
  }
  if (places.size() != 1)
    return Failure{fmt::format("a kernel's object defines {} symbols {}", places.size(), from)};
  std::vector<std::byte> renamed(object.begin(), object.end());
  std::memcpy(renamed.data() + places[0], to.data(), to.size());
  return renamed;
}

} // namespace luminal::runtime
