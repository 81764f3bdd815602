// fuzz/search_tuning_fuzz.cpp -- any text is an export of tuning results or is refused line by
// line; what is taken prints and reads back as it is.
#include "search/tuning_cache.h"
#include <cstdio>
#include <cstdlib>
#include <string_view>

using namespace luminal;
using namespace luminal::search;

namespace {
void require(bool condition, const char* what) {
  if (condition) return;
  std::fprintf(stderr, "%s\n", what);
  std::abort();
}
} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size > 64 << 10) return 0;
  auto read = import_entries({reinterpret_cast<const char*>(data), size});
  if (!read) {
    require(read.error().starts_with("line 1: "), "refused without a place");
    return 0;
  }
  for (const std::string& mistake : read->mistakes)
    require(mistake.starts_with("line "), "a mistake without a place");
  for (TuningEntry& entry : read->entries) {
    const TuningEntry as_read = entry;
    require(mistake_in(entry).empty() && entry == as_read && !entry.checked,
            "an entry that is none was taken");
  }
  const auto again = import_entries(export_entries(read->entries));
  require(again && again->mistakes.empty() && again->entries == read->entries,
          "an export reads back differently");
  TuningCache cache("");
  const auto taken = cache.put_all(read->entries);
  require(taken.refused == 0 && taken.kept + taken.worse == int64_t(read->entries.size()),
          "entries are lost");
  for (const TuningEntry& entry : read->entries)
    require(cache.find(entry.key).has_value(), "an entry is not found");
  return 0;
}
