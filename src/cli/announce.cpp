// cli/announce.cpp -- the memory that a model takes, said before it is taken.
#include "cli/announce.h"
#include "base/print.h"
#include "cli/common.h"
#include <fmt/format.h>

namespace luminal::cli {

void announce_memory(const std::string& name, const models::Generator::Estimate& estimate,
                     const std::string& limit, const std::string& advice) {
  const std::string numbers =
      fmt::format("weights {}, cache {}, working memory {}: {} in all", show_bytes(estimate.weights),
                  show_bytes(estimate.cache), show_bytes(estimate.working), show_bytes(estimate.total()));
  const int64_t most = limit.empty() ? available_memory() : parse_bytes(limit);
  if (most > 0 && estimate.total() > most)
    throw OutOfMemoryError(fmt::format("{}: {}; {} {}. {}", name, numbers,
                                       limit.empty() ? "the system has free" : "the limit is",
                                       show_bytes(most), advice),
                           {.needed = estimate.total(), .available = most});
  print_stderr("memory: {}\n", numbers);
}

} // namespace luminal::cli
