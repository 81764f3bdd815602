// search/tuning_file.h -- the layout of the tuning cache's file: tables, opening with checks, rows
// in and out.
#pragma once
#include "search/sqlite.h"
#include "search/tuning_cache.h"

namespace luminal::search {

/// Opens or makes the file. SqlError with damaged(): it is not sound, or not of this layout; other
/// codes: it cannot be opened, or is busy.
std::unique_ptr<SqlConnection> open_tuning_file(const std::string& path, double busy_seconds);
/// Only reads; the file must be there.
std::unique_ptr<SqlConnection> open_foreign_tuning_file(const std::string& path);

/// The row of a key, where it passes every check.
std::optional<TuningEntry> read_tuning_row(SqlConnection& file, const std::string& key);
/// All that pass; `refused` counts the others.
std::vector<TuningEntry> read_tuning_rows(SqlConnection& file, int64_t& refused);
std::vector<QuarantineEntry> read_quarantine(SqlConnection& file);
/// Inside a transaction: deletes the least recently used rows until no more than 7/8 of `limit`
/// bytes are in use, where there are more than `limit`; gives the pages back. Returns the number of
/// tuned rows that went.
int64_t bound_tuning_file(SqlConnection& file, int64_t limit, int64_t now);

void sort_entries(std::vector<TuningEntry>& entries);
std::string hex16(uint64_t value);
bool parse_hex(std::string_view text, uint64_t& value); ///< 16 digits, lower case
bool parse_hex(std::string_view text, Hash128& value);  ///< 32 digits, lower case

/// Held by a process that replaces the file. Where it cannot be made, nothing is held.
class TuningFileLock {
public:
  explicit TuningFileLock(const std::string& path);
  ~TuningFileLock();
  TuningFileLock(const TuningFileLock&) = delete;
  TuningFileLock& operator=(const TuningFileLock&) = delete;

private:
  int descriptor_ = -1;
};

} // namespace luminal::search
