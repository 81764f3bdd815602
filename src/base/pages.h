// base/pages.h -- pages of mapped files that are not needed any more.
#pragma once
#include <cstddef>
#include <span>

namespace luminal {

/// Do these bytes belong to a MappedFile that is open?
bool is_mapped_file(std::span<const std::byte> bytes);
/// Whole pages of a MappedFile leave the memory of the process. The system may keep them as long as it has room; what is read again comes back. Other memory
/// stays as it is.
void drop_pages(std::span<const std::byte> bytes);

/// For MappedFile: where files are mapped.
void note_mapped(std::span<const std::byte> file);
void note_unmapped(std::span<const std::byte> file);

} // namespace luminal
