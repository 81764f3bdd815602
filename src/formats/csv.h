// formats/csv.h -- comma-separated values: RFC 4180, with quotes and lines of either system.
#pragma once
#include "base/result.h"
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace luminal {

struct Csv {
  std::vector<std::string> header;            ///< empty where the file has none
  std::vector<std::vector<std::string>> rows; ///< all of the same length
  std::vector<int64_t> lines;                 ///< where each row begins, from 1

  /// Place of a column by its name; in a file without a header by its number from 0.
  std::optional<size_t> column(std::string_view name) const;
};

struct CsvFormat {
  char separator = ',';
  bool header = true;
};

/// Empty lines are left out. Refuses quotes that do not end, text behind a quoted field, rows of
/// different lengths and a file without rows, each with its line.
Result<Csv> parse_csv(std::string_view text, std::string_view file_name, const CsvFormat& format = {});

} // namespace luminal
