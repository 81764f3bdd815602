// base/embedded.h -- files that are part of the binary: LUMINAL_EMBEDDED(name), filled by
// luminal_embed() in CMake.
#pragma once
#include <span>
#include <string_view>

namespace luminal {

/// A file in the binary. Content starts at a multiple of 64 bytes, lives as long as the program,
/// and is followed by a zero byte that does not belong to it.
struct EmbeddedFile {
  std::string_view name; ///< without folders
  std::string_view content;
};

} // namespace luminal

/// Declares luminal::embedded::name(), the files in the order in which CMake lists them. At file
/// scope, in a .cpp.
#define LUMINAL_EMBEDDED(name)                                                                               \
  namespace luminal::embedded {                                                                              \
  std::span<const ::luminal::EmbeddedFile> name();                                                           \
  }
