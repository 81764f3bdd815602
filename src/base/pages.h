// base/pages.h -- pages of mapped files that are not needed any more.
#pragma once
#include <cstddef>
#include <span>

namespace luminal {

/// Pages that lie whole in this part of a file mapped read-only leave the memory of the process. The system may keep them as long as it has room; what is
/// read again comes back.
void drop_pages(std::span<const std::byte> mapped);

} // namespace luminal
