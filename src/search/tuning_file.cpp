// search/tuning_file.cpp -- the file of the tuning cache: nothing in it is believed before it was
// checked.
#include "search/tuning_file.h"
#include "base/text.h"
#include "schedule/schedule.h"
#include <algorithm>
#include <cmath>
#include <fcntl.h>
#include <filesystem>
#include <fmt/format.h>
#include <sqlite3.h>
#include <sys/file.h>
#include <unistd.h>

namespace luminal::search {
namespace {

constexpr int64_t application_id = 0x4C754D54; // "LuMT"
constexpr size_t longest_part = 4096, longest_name = 512, longest_schedule = 64 << 10;

// The tables as SQLite keeps their text. A file whose text is another one is not ours, whatever its
// version says.
constexpr const char* tables[][2] = {
    {"quarantined",
     "CREATE TABLE quarantined (key TEXT NOT NULL, schedule TEXT NOT NULL, cause TEXT NOT NULL, "
     "reproducer TEXT NOT NULL, at INTEGER NOT NULL, PRIMARY KEY (key, schedule))"},
    {"tuned", "CREATE TABLE tuned (key TEXT PRIMARY KEY NOT NULL, structure TEXT NOT NULL, dtypes TEXT NOT "
              "NULL, bucket TEXT "
              "NOT NULL, layouts TEXT NOT NULL, numeric TEXT NOT NULL, instructions TEXT NOT NULL, llvm TEXT "
              "NOT NULL, rules "
              "TEXT NOT NULL, codegen TEXT NOT NULL, device TEXT NOT NULL, threads INTEGER NOT NULL, name "
              "TEXT NOT NULL, "
              "schedule TEXT NOT NULL, seconds REAL NOT NULL, samples INTEGER NOT NULL, limit_fraction REAL "
              "NOT NULL, checked "
              "INTEGER NOT NULL, used INTEGER NOT NULL)"},
    {"tuned_used", "CREATE INDEX tuned_used ON tuned (used)"},
};

const char* const columns = "key, structure, dtypes, bucket, layouts, numeric, instructions, llvm, rules, "
                            "codegen, device, threads, name, "
                            "schedule, seconds, samples, limit_fraction, checked, used";

[[noreturn]] void refuse(const std::string& why) { throw SqlError(SQLITE_NOTADB, why); }

/// Throws unless the file has exactly our tables. Returns false for a file that is still empty.
bool check_layout(SqlConnection& file) {
  const int64_t application = file.integer("PRAGMA application_id"),
                layout = file.integer("PRAGMA user_version");
  int64_t count = 0;
  SqlStatement row(file, "SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY name");
  while (row.step()) {
    std::string name, sql;
    const bool text = row.text(0, name) && row.text(1, sql);
    if (application != application_id) refuse("a database of another kind");
    if (layout != TuningCache::version)
      refuse(
          fmt::format("version {} of the layout, this program has version {}", layout, TuningCache::version));
    if (!text || count >= int64_t(std::size(tables)) || name != tables[count][0] || sql != tables[count][1])
      refuse(fmt::format("an unknown table {}", printable(name)));
    count++;
  }
  if (count == 0 && application == 0 && layout == 0) return false;
  if (count != int64_t(std::size(tables))) refuse("tables are missing");
  return true;
}

/// The same of one state of the file: another process may be making its tables at this moment.
bool check_snapshot(SqlConnection& file) {
  file.execute("BEGIN");
  try {
    const bool made = check_layout(file);
    file.execute("COMMIT");
    return made;
  } catch (...) {
    try {
      file.execute("ROLLBACK");
    } catch (const SqlError&) { // the first mistake is the one to tell
    }
    throw;
  }
}

bool plain_text(std::string_view text, size_t longest, bool lines) {
  if (text.size() > longest || !is_utf8(text)) return false;
  return std::all_of(text.begin(), text.end(),
                     [&](char c) { return static_cast<unsigned char>(c) >= 32 || (lines && c == '\n'); });
}

/// The entry in the present row of `SELECT columns`, or none.
std::optional<TuningEntry> checked_row(const SqlStatement& row) {
  TuningEntry e;
  std::string key, structure, rules, codegen, device;
  int64_t threads = 0, checked = 0;
  const bool typed = row.text(0, key) && row.text(1, structure) && row.text(2, e.key.dtypes) &&
                     row.text(3, e.key.bucket) && row.text(4, e.key.layouts) && row.text(5, e.key.numeric) &&
                     row.text(6, e.key.instructions) && row.text(7, e.key.llvm) && row.text(8, rules) &&
                     row.text(9, codegen) && row.text(10, device) && row.integer(11, threads) &&
                     row.text(12, e.name) && row.text(13, e.schedule) && row.real(14, e.seconds) &&
                     row.integer(15, e.samples) && row.real(16, e.limit_fraction) &&
                     row.integer(17, checked) && row.integer(18, e.used);
  if (!typed || threads < 1 || threads > 1 << 16 || (checked != 0 && checked != 1)) return {};
  if (!parse_hex(structure, e.key.structure) || !parse_hex(rules, e.key.rules) ||
      !parse_hex(codegen, e.key.codegen) || !parse_hex(device, e.key.device))
    return {};
  e.key.threads = int(threads);
  e.checked = checked == 1;
  if (e.key.hash().hex() != key || !mistake_in(e).empty()) return {};
  return e;
}

/// "plan 3f9c0a1b22d4e671\n"
bool is_plan_name(std::string_view text) {
  uint64_t name = 0;
  return text.starts_with("plan ") && text.ends_with('\n') &&
         parse_hex(text.substr(5, text.size() - 6), name);
}

} // namespace

std::string hex16(uint64_t value) { return fmt::format("{:016x}", value); }

bool parse_hex(std::string_view text, uint64_t& value) {
  if (text.size() != 16) return false;
  value = 0;
  for (const char c : text) {
    const bool digit = c >= '0' && c <= '9', letter = c >= 'a' && c <= 'f';
    if (!digit && !letter) return false;
    value = value << 4 | uint64_t(digit ? c - '0' : c - 'a' + 10);
  }
  return true;
}
bool parse_hex(std::string_view text, Hash128& value) {
  return text.size() == 32 && parse_hex(text.substr(0, 16), value.high) &&
         parse_hex(text.substr(16), value.low);
}

Hash128 TuningKey::hash() const {
  return Hasher()
      .add(structure)
      .add(dtypes)
      .add(bucket)
      .add(layouts)
      .add(numeric)
      .add(instructions)
      .add(llvm)
      .add(rules)
      .add(codegen)
      .add(device)
      .add(threads)
      .value128();
}

std::string mistake_in(TuningEntry& e) {
  for (const auto& [name, text] : {std::pair{"dtypes", &e.key.dtypes},
                                   {"bucket", &e.key.bucket},
                                   {"layouts", &e.key.layouts},
                                   {"numeric", &e.key.numeric},
                                   {"instructions", &e.key.instructions},
                                   {"llvm", &e.key.llvm}})
    if (!plain_text(*text, longest_part, false))
      return fmt::format("{}: expected one line of at most {} bytes", name, longest_part);
  if (!plain_text(e.name, longest_name, false))
    return fmt::format("name: expected one line of at most {} bytes", longest_name);
  if (!plain_text(e.schedule, longest_schedule, true))
    return fmt::format("schedule: expected text of at most {} bytes", longest_schedule);
  if (e.key.threads < 1 || e.key.threads > 1 << 16) return fmt::format("threads: {}", e.key.threads);
  if (!std::isfinite(e.seconds) || e.seconds <= 0 || e.seconds > 1e6)
    return fmt::format("seconds: {} is not a time of a launch", e.seconds);
  if (e.samples < 1 || e.samples > int64_t(1) << 40) return fmt::format("samples: {}", e.samples);
  if (!std::isfinite(e.limit_fraction) || e.limit_fraction < 0 || e.limit_fraction > 100)
    return fmt::format("limit_fraction: {}", e.limit_fraction);
  if (e.key.numeric == region_policy)
    return is_plan_name(e.schedule) ? "" : "schedule: expected a plan's name";
  try {
    e.schedule = kernel::to_string(kernel::parse_schedule(e.schedule, "schedule"));
  } catch (const Error& mistake) {
    return mistake.what();
  }
  return "";
}

bool better(const TuningEntry& a, const TuningEntry& b) {
  if (a.checked != b.checked) return a.checked;
  if (a.seconds != b.seconds) return a.seconds < b.seconds;
  return a.schedule < b.schedule; // the same choice whatever the order in which files are merged
}

void sort_entries(std::vector<TuningEntry>& entries) {
  std::sort(entries.begin(), entries.end(), [](const TuningEntry& a, const TuningEntry& b) {
    return a.name != b.name ? a.name < b.name : a.key.hash() < b.key.hash();
  });
}

std::unique_ptr<SqlConnection> open_tuning_file(const std::string& path, double busy_seconds) {
  std::unique_ptr<SqlConnection> file;
  try {
    file = std::make_unique<SqlConnection>(path, SqlConnection::Access::create, busy_seconds);
    if (check_snapshot(*file)) return file;
  } catch (const SqlError& e) {
    if (e.damaged() || e.code() == SQLITE_BUSY) throw;
    // Neither the file nor its folder can be written: it can perhaps be read.
    file = std::make_unique<SqlConnection>(path, SqlConnection::Access::read, busy_seconds);
    if (!check_snapshot(*file)) throw;
    return file;
  }
  file->execute("PRAGMA auto_vacuum = INCREMENTAL");
  SqlTransaction transaction(*file);
  if (!check_layout(*file)) { // another process may have been faster
    for (const auto& table : tables) file->execute(table[1]);
    file->execute(fmt::format("PRAGMA application_id = {}; PRAGMA user_version = {}", application_id,
                              TuningCache::version)
                      .c_str());
  }
  transaction.commit();
  return file;
}

std::unique_ptr<SqlConnection> open_foreign_tuning_file(const std::string& path) {
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  if (!std::filesystem::exists(status)) throw SqlError(SQLITE_CANTOPEN, "no such file");
  if (!std::filesystem::is_regular_file(status)) throw SqlError(SQLITE_CANTOPEN, "is not a regular file");
  auto file = std::make_unique<SqlConnection>(path, SqlConnection::Access::read, 5);
  if (!check_snapshot(*file)) refuse("an empty file");
  return file;
}

std::optional<TuningEntry> read_tuning_row(SqlConnection& file, const std::string& key) {
  try {
    SqlStatement row(file, fmt::format("SELECT {} FROM tuned WHERE key = ?", columns).c_str());
    row.bind(key);
    if (row.step()) return checked_row(row);
  } catch (const SqlError& e) {
    if (e.code() != SQLITE_TOOBIG) throw; // a row with a giant text is not a row
  }
  return {};
}

std::vector<TuningEntry> read_tuning_rows(SqlConnection& file, int64_t& refused) {
  std::vector<TuningEntry> entries;
  const SqlTransaction one_state(file, false);
  SqlStatement ids(file, "SELECT rowid FROM tuned ORDER BY rowid");
  const std::string one = fmt::format("SELECT {} FROM tuned WHERE rowid = ?", columns);
  while (ids.step()) {
    int64_t id = 0;
    std::optional<TuningEntry> entry;
    try {
      SqlStatement row(file, one.c_str());
      if (ids.integer(0, id) && row.bind(id).step()) entry = checked_row(row);
    } catch (const SqlError& e) {
      if (e.code() != SQLITE_TOOBIG) throw;
    }
    if (entry)
      entries.push_back(std::move(*entry));
    else
      refused++;
  }
  sort_entries(entries);
  return entries;
}

std::vector<QuarantineEntry> read_quarantine(SqlConnection& file) {
  std::vector<QuarantineEntry> entries;
  SqlStatement row(file,
                   "SELECT key, schedule, cause, reproducer, at FROM quarantined WHERE length(key) = 32 AND "
                   "length(schedule) = 32 AND length(cause) <= 4096 AND length(reproducer) <= 4096");
  while (row.step()) {
    QuarantineEntry q;
    std::string key, schedule;
    if (row.text(0, key) && row.text(1, schedule) && row.text(2, q.cause) && row.text(3, q.reproducer) &&
        row.integer(4, q.at) && parse_hex(key, q.key) && parse_hex(schedule, q.schedule))
      entries.push_back(std::move(q));
  }
  return entries;
}

int64_t bound_tuning_file(SqlConnection& file, int64_t limit, int64_t now) {
  const int64_t page = file.integer("PRAGMA page_size");
  auto in_use = [&] {
    return (file.integer("PRAGMA page_count") - file.integer("PRAGMA freelist_count")) * page;
  };
  int64_t removed = 0;
  if (in_use() > limit) {
    const int64_t goal = limit - limit / 8;
    for (int64_t bytes = in_use(); bytes > goal; bytes = in_use()) {
      // A sixteenth at a time: rows differ in size. Times in the future do not keep a row alive.
      const bool tuned = file.integer("SELECT EXISTS (SELECT 1 FROM tuned)") != 0;
      SqlStatement(
          file, tuned
                    ? "DELETE FROM tuned WHERE rowid IN (SELECT rowid FROM tuned ORDER BY min(used, ?1), key "
                      "LIMIT (SELECT count(*) / 16 + 1 FROM tuned))"
                    : "DELETE FROM quarantined WHERE rowid IN (SELECT rowid FROM quarantined ORDER BY "
                      "min(at, ?1), key LIMIT (SELECT count(*) / 16 + 1 FROM quarantined))")
          .bind(now)
          .step();
      if (file.changes() == 0) break; // what is left are the tables themselves
      if (tuned) removed += file.changes();
    }
  }
  file.execute("PRAGMA incremental_vacuum");
  return removed;
}

TuningFileLock::TuningFileLock(const std::string& path) {
  descriptor_ = ::open((path + ".lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (descriptor_ >= 0) flock(descriptor_, LOCK_EX);
}
TuningFileLock::~TuningFileLock() {
  if (descriptor_ >= 0) close(descriptor_);
}

Result<std::vector<TuningEntry>> TuningCache::read(const std::string& path, int64_t* refused) {
  try {
    int64_t wrong = 0;
    const auto file = open_foreign_tuning_file(path);
    auto entries = read_tuning_rows(*file, wrong);
    for (TuningEntry& e : entries) e.checked = false;
    if (refused) *refused = wrong;
    return entries;
  } catch (const SqlError& e) {
    return Failure{fmt::format("{}: {}", path, e.what())};
  }
}

} // namespace luminal::search
