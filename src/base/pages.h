// base/pages.h -- pages of mapped files and of libraries that are not needed any more, large pages.
#pragma once
#include "base/result.h"
#include <cstddef>
#include <memory>
#include <span>
#include <string_view>

namespace luminal {

/// Do these bytes belong to a MappedFile that is open?
bool is_mapped_file(std::span<const std::byte> bytes);
/// Whole pages of a MappedFile leave the memory of the process. The system may keep them as long as
/// it has room; what is read again comes back. Other memory stays as it is.
void drop_pages(std::span<const std::byte> bytes);

/// Memory that is written for the first time comes from large pages, where the system has them and it is
/// not small: the system hands out and clears 512 small pages for each of them, which takes longer than most
/// kernels. Only pages that lie in it whole; where they are there already nothing changes.
void ask_for_large_pages(std::span<std::byte> memory);

/// Zeros in a file that no folder lists, of the folder for temporary files (TMPDIR, else /var/tmp):
/// for what is written once and as large as a model. Its pages can be dropped and come back, as
/// those of a MappedFile. Failure: the folder has no room.
Result<std::shared_ptr<std::byte>> unnamed_file(size_t bytes);

/// After work that is not done again soon: free memory of the heap goes back to the system, and the
/// code of this shared library leaves the memory of the process until it runs again.
void give_back_memory(std::string_view library);

/// For MappedFile: where files are mapped.
void note_mapped(std::span<const std::byte> file);
void note_unmapped(std::span<const std::byte> file);

} // namespace luminal
