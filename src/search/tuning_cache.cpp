// search/tuning_cache.cpp -- finding, keeping and bounding entries; the file's layout and its
// checks are in tuning_file.cpp.
#include "search/tuning_cache.h"
#include "base/log.h"
#include "base/settings.h"
#include "search/sqlite.h"
#include "search/tuning_file.h"
#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fmt/format.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <tuple>

namespace luminal::search {
namespace fs = std::filesystem;
namespace {

constexpr int64_t day = 86400;
constexpr size_t most_in_memory = 16384; // entries, of a process that has no file

const char* const put_sql =
    "INSERT OR REPLACE INTO tuned (key, structure, dtypes, bucket, layouts, numeric, instructions, llvm, "
    "rules, "
    "codegen, device, threads, name, schedule, seconds, samples, limit_fraction, checked, used) "
    "VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)";

void insert(SqlConnection& file, const TuningEntry& e) {
  const std::string key = e.key.hash().hex(), structure = e.key.structure.hex(), rules = hex16(e.key.rules),
                    codegen = hex16(e.key.codegen), device = hex16(e.key.device);
  SqlStatement(file, put_sql)
      .bind(key)
      .bind(structure)
      .bind(e.key.dtypes)
      .bind(e.key.bucket)
      .bind(e.key.layouts)
      .bind(e.key.numeric)
      .bind(e.key.instructions)
      .bind(e.key.llvm)
      .bind(rules)
      .bind(codegen)
      .bind(device)
      .bind(int64_t(e.key.threads))
      .bind(e.name)
      .bind(e.schedule)
      .bind(e.seconds)
      .bind(e.samples)
      .bind(e.limit_fraction)
      .bind(int64_t(e.checked))
      .bind(e.used)
      .step();
}

void insert(SqlConnection& file, const QuarantineEntry& q) {
  const std::string key = q.key.hex(), schedule = q.schedule.hex();
  SqlStatement(file,
               "INSERT OR REPLACE INTO quarantined (key, schedule, cause, reproducer, at) VALUES (?,?,?,?,?)")
      .bind(key)
      .bind(schedule)
      .bind(q.cause)
      .bind(q.reproducer)
      .bind(q.at)
      .step();
}

/// Which file it is; empty where there is none.
std::string identity_of(const std::string& path) {
  struct stat status{};
  if (stat(path.c_str(), &status) != 0) return "";
  return fmt::format("{}:{}", status.st_dev, status.st_ino);
}

Hash128 schedule_hash(std::string_view schedule) { return hash128(schedule); }

} // namespace

std::shared_ptr<TuningCache> TuningCache::shared(const std::string& path, bool make) {
  static std::mutex mutex;
  static std::map<std::string, std::pair<std::string, std::shared_ptr<TuningCache>>> caches; // by path
  if (path.empty()) return nullptr;
  const std::lock_guard guard(mutex);
  std::string identity = identity_of(path);
  if (identity.empty() && !make) return nullptr;
  auto& [known, cache] = caches[path];
  if (!cache || known != identity) {
    cache = std::make_shared<TuningCache>(path);
    known = identity_of(path);
  }
  return cache;
}

TuningCache::TuningCache(std::string path, Options options)
    : path_(std::move(path)), options_(std::move(options)) {
  const std::lock_guard guard(mutex_);
  open();
}
TuningCache::~TuningCache() {
  if (touched_.empty() || !file_) return;
  try {
    SqlTransaction transaction(*file_);
    write_touched(*file_);
    transaction.commit();
  } catch (const SqlError& e) {
    log_info("tuning cache: {}: {}", path_, e.what());
  }
}

std::string TuningCache::default_path() {
  const std::string folder = cache_folder();
  return folder.empty() ? "" : fmt::format("{}/tuning.v{}.sqlite", folder, version);
}

int64_t TuningCache::now() const {
  if (options_.now) return options_.now();
  using namespace std::chrono;
  return duration_cast<std::chrono::seconds>(system_clock::now().time_since_epoch()).count();
}

std::string TuningCache::memory_reason() const {
  const std::lock_guard guard(mutex_);
  if (memory_reason_.empty() && file_ && identity_of(path_) != identity_)
    return fmt::format("{} was removed while it was in use", path_);
  return memory_reason_;
}

bool TuningCache::readable() const {
  const std::lock_guard guard(mutex_);
  return file_ && (memory_reason_.empty() || file_->read_only());
}

void TuningCache::stay_in_memory(const std::string& why, bool loud) {
  memory_reason_ = why;
  if (std::exchange(said_, true)) return;
  if (loud)
    log_warning("tuning cache: {}; results are kept in memory only", why);
  else
    log_info("tuning cache: {}; results are kept in memory only", why);
}

void TuningCache::open() {
  file_.reset();
  if (path_.empty()) return stay_in_memory("there is no folder for it", false);
  std::error_code error;
  const fs::file_status status = fs::status(path_, error);
  if (fs::exists(status) && !fs::is_regular_file(status)) // a pipe would never answer
    return stay_in_memory(fmt::format("{}: is not a regular file", path_), true);
  try {
    if (fs::path(path_).has_parent_path()) fs::create_directories(fs::path(path_).parent_path(), error);
    identity_ = identity_of(path_);
    file_ = open_tuning_file(path_, options_.busy_seconds);
    memory_reason_.clear();
    if (identity_.empty()) identity_ = identity_of(path_); // it was made just now
    if (file_->read_only()) stay_in_memory(fmt::format("{} cannot be written", path_), false);
  } catch (const SqlError& e) {
    file_.reset();
    if (e.damaged() && set_aside(e.what())) return;
    if (memory_reason_.empty()) stay_in_memory(fmt::format("{}: {}", path_, e.what()), false);
  }
}

bool TuningCache::set_aside(const std::string& why) {
  file_.reset();
  // One process at a time, and only the file that was seen to be unsound: another process may have
  // put a new one there.
  const TuningFileLock lock(path_);
  if (identity_of(path_) != identity_) try {
      identity_ = identity_of(path_);
      file_ = open_tuning_file(path_, options_.busy_seconds);
      return true;
    } catch (const SqlError& e) {
      if (!e.damaged()) {
        stay_in_memory(fmt::format("{}: {}", path_, e.what()), true);
        return false;
      }
    }
  const std::string aside = path_ + ".set-aside";
  std::error_code error;
  // The journal goes first: a new file must never meet the journal of an old one.
  for (const char* side : {"-journal", "-wal", "-shm"}) {
    std::error_code absent;
    fs::rename(path_ + side, aside + side, absent);
  }
  fs::rename(path_, aside, error);
  if (error) {
    stay_in_memory(fmt::format("{}: {}, and it cannot be set aside ({})", path_, why, error.message()), true);
    return false;
  }
  log_warning("tuning cache: {}: {}; it was set aside as {} and a new one begins", path_, why, aside);
  try {
    file_ = open_tuning_file(path_, options_.busy_seconds);
    identity_ = identity_of(path_);
    memory_reason_.clear();
    return true;
  } catch (const SqlError& e) {
    stay_in_memory(fmt::format("{}: {}", path_, e.what()), true);
    return false;
  }
}

/// Runs f on the file; a file that turns out to be damaged is set aside and f runs once more, on
/// the new one. False: it did not work.
template <class F> bool TuningCache::on_file(F&& f) {
  for (int attempt = 0; file_ && attempt < 2; attempt++) try {
      f(*file_);
      return true;
    } catch (const SqlError& e) {
      if (e.damaged() && attempt == 0) {
        if (!set_aside(e.what())) return false;
        continue;
      }
      stay_in_memory(fmt::format("{}: {}", path_, e.what()), true);
      return false;
    }
  return false;
}

/// The same in a transaction, for what changes the file.
template <class F> bool TuningCache::write(F&& f) {
  if (file_ && identity_of(path_) != identity_) { // what is written to a file without a name is lost
    log_warning("tuning cache: {} was removed or replaced while it was in use; what it held is gone", path_);
    open();
  }
  if (!file_ || file_->read_only()) return false;
  const bool done = on_file([&](SqlConnection& file) {
    SqlTransaction transaction(file);
    write_touched(file);
    f(file);
    transaction.commit();
  });
  if (done) {
    touched_.clear();
    memory_reason_.clear();
    flush_memory();
  }
  return done;
}

/// What had to wait in memory goes to the file, now that it can be written.
void TuningCache::flush_memory() {
  if (memory_.empty() && memory_quarantine_.empty()) return;
  const auto entries = std::exchange(memory_, {});
  const auto quarantined = std::exchange(memory_quarantine_, {});
  const bool done = write([&](SqlConnection& file) {
    for (const auto& [key, entry] : entries) insert(file, entry);
    for (const auto& [key, entry] : quarantined) insert(file, entry);
  });
  if (done) return;
  memory_ = entries;
  memory_quarantine_ = quarantined;
}

void TuningCache::remember(const TuningEntry& entry) {
  memory_[entry.key.hash().hex()] = entry;
  if (memory_.size() <= most_in_memory) return;
  memory_.erase(std::min_element(memory_.begin(), memory_.end(),
                                 [](const auto& a, const auto& b) { return a.second.used < b.second.used; }));
}

/// file: null where there is none.
std::optional<QuarantineEntry> TuningCache::quarantined_in(SqlConnection* file, const Hash128& key,
                                                           const Hash128& schedule) const {
  const std::pair<std::string, std::string> id{key.hex(), schedule.hex()};
  if (auto found = memory_quarantine_.find(id); found != memory_quarantine_.end()) return found->second;
  if (!file) return {};
  SqlStatement row(*file, "SELECT cause, reproducer, at FROM quarantined WHERE key = ? AND schedule = ?");
  row.bind(id.first).bind(id.second);
  QuarantineEntry q{key, schedule, {}, {}, 0};
  try {
    if (!row.step()) return {};
    // That the row is there counts; the rest is for people.
    if (!row.text(0, q.cause) || !row.text(1, q.reproducer) || !row.integer(2, q.at)) q.cause = "not said";
  } catch (const SqlError& e) {
    if (e.code() != SQLITE_TOOBIG) throw;
  }
  return q;
}

std::optional<QuarantineEntry> TuningCache::quarantined_now(const Hash128& key, const Hash128& schedule) {
  std::optional<QuarantineEntry> result;
  if (!on_file([&](SqlConnection& file) { result = quarantined_in(&file, key, schedule); }))
    result = quarantined_in(nullptr, key, schedule);
  return result;
}

std::optional<QuarantineEntry> TuningCache::quarantined(const TuningKey& key, std::string_view schedule) {
  const std::lock_guard guard(mutex_);
  return quarantined_now(key.hash(), schedule_hash(schedule));
}

void TuningCache::quarantine(const TuningKey& key, std::string_view schedule, std::string cause,
                             std::string reproducer) {
  if (mirror_) mirror_->quarantine(key, schedule, cause, reproducer);
  const std::lock_guard guard(mutex_);
  const QuarantineEntry q{key.hash(), schedule_hash(schedule), std::move(cause), std::move(reproducer),
                          now()};
  const std::string hash = q.key.hex();
  if (auto found = memory_.find(hash); found != memory_.end() && found->second.schedule == schedule)
    memory_.erase(found);
  const bool written = write([&](SqlConnection& file) {
    insert(file, q);
    SqlStatement(file, "DELETE FROM tuned WHERE key = ? AND schedule = ?").bind(hash).bind(schedule).step();
  });
  if (!written) memory_quarantine_[{hash, q.schedule.hex()}] = q;
}

void TuningCache::quarantine(QuarantineEntry entry) {
  const std::lock_guard guard(mutex_);
  if (!write([&](SqlConnection& file) { insert(file, entry); }))
    memory_quarantine_[{entry.key.hex(), entry.schedule.hex()}] = std::move(entry);
}

void TuningCache::set_mirror(std::shared_ptr<TuningCache> mirror) { mirror_ = std::move(mirror); }

std::optional<TuningEntry> TuningCache::find(const TuningKey& key) {
  const std::lock_guard guard(mutex_);
  const std::string hash = key.hash().hex();
  std::optional<TuningEntry> result;
  if (auto found = memory_.find(hash); found != memory_.end()) {
    result = found->second;
  } else {
    on_file([&](SqlConnection& file) { result = read_tuning_row(file, hash); });
    if (result && result->key != key) result.reset();
  }
  if (!result || quarantined_now(key.hash(), schedule_hash(result->schedule))) return {};
  // What is used stays. Once a day is often enough, and it is written with whatever is written
  // next.
  if (const int64_t time = now(); time - result->used > day || result->used > time) {
    result->used = time;
    if (auto found = memory_.find(hash); found != memory_.end())
      found->second.used = time;
    else if (file_ && !file_->read_only())
      touched_[hash] = time;
  }
  return result;
}

/// The sizes that each structure has entries for: one pass over the file for all lookups of a
/// compilation, another one after each put.
void TuningCache::read_sizes() {
  sizes_.emplace();
  on_file([&](SqlConnection& file) {
    SqlStatement row(file, "SELECT structure, bucket FROM tuned WHERE bucket <> ''");
    std::string structure, bucket;
    while (row.step())
      if (row.text(0, structure) && row.text(1, bucket)) sizes_->emplace(structure, bucket);
  });
}

void TuningCache::write_touched(SqlConnection& file) const {
  for (const auto& [hash, time] : touched_)
    SqlStatement(file, "UPDATE tuned SET used = ? WHERE key = ?").bind(time).bind(hash).step();
}

/// Whether the entry is to be kept. file: null where there is none.
bool TuningCache::wins(SqlConnection* file, const TuningEntry& entry, Keep keep) const {
  const Hash128 key = entry.key.hash();
  if (quarantined_in(file, key, schedule_hash(entry.schedule))) return false;
  if (keep == Keep::newest) return true;
  std::optional<TuningEntry> present;
  if (auto found = memory_.find(key.hex()); found != memory_.end())
    present = found->second;
  else if (file)
    present = read_tuning_row(*file, key.hex());
  return !present || present->key != entry.key || better(entry, *present);
}

TuningCache::Imported TuningCache::put_now(const std::vector<const TuningEntry*>& entries, Keep keep) {
  sizes_.reset();
  Imported total;
  const bool written = write([&](SqlConnection& file) {
    total = {};
    for (const TuningEntry* entry : entries)
      if (wins(&file, *entry, keep)) {
        insert(file, *entry);
        total.kept++;
      } else {
        total.worse++;
      }
  });
  if (written) {
    prune_now({});
    return total;
  }
  total = {};
  for (const TuningEntry* entry : entries) {
    bool kept = false;
    if (!on_file([&](SqlConnection& file) { kept = wins(&file, *entry, keep); }))
      kept = wins(nullptr, *entry, keep);
    if (kept) remember(*entry);
    kept ? total.kept++ : total.worse++;
  }
  return total;
}

bool TuningCache::put(TuningEntry entry, Keep keep) {
  if (const std::string mistake = mistake_in(entry); !mistake.empty())
    throw Error(fmt::format("tuning cache: {}: {}", entry.name, mistake));
  if (mirror_) mirror_->put(entry, keep);
  const std::lock_guard guard(mutex_);
  entry.used = now();
  return put_now({&entry}, keep).kept == 1;
}

TuningCache::Imported TuningCache::put_all(std::vector<TuningEntry> entries) {
  const std::lock_guard guard(mutex_);
  std::vector<const TuningEntry*> good;
  for (TuningEntry& entry : entries) {
    entry.used = now();
    if (mistake_in(entry).empty()) good.push_back(&entry);
  }
  Imported total = put_now(good, Keep::better);
  total.refused = int64_t(entries.size() - good.size());
  return total;
}

std::vector<TuningEntry> TuningCache::entries(int64_t* refused) {
  const std::lock_guard guard(mutex_);
  std::vector<TuningEntry> found;
  int64_t wrong = 0;
  on_file([&](SqlConnection& file) {
    wrong = 0;
    found = read_tuning_rows(file, wrong);
  });
  std::erase_if(found, [&](const TuningEntry& e) { return memory_.contains(e.key.hash().hex()); });
  for (const auto& [key, entry] : memory_) found.push_back(entry);
  std::erase_if(found, [&](const TuningEntry& e) {
    return quarantined_now(e.key.hash(), schedule_hash(e.schedule)).has_value();
  });
  sort_entries(found);
  if (refused) *refused = wrong;
  return found;
}

Hash128 TuningCache::state_hash() {
  const std::lock_guard guard(mutex_);
  Hasher hasher;
  on_file([&](SqlConnection& file) {
    hasher = Hasher();
    std::string key, schedule;
    int64_t checked = 0;
    SqlStatement tuned(file, "SELECT key, schedule, checked FROM tuned ORDER BY key");
    while (tuned.step())
      if (tuned.text(0, key) && tuned.text(1, schedule) && tuned.integer(2, checked))
        hasher.add(key).add(schedule).add(checked);
    SqlStatement wrong(file, "SELECT key, schedule FROM quarantined ORDER BY key, schedule");
    while (wrong.step())
      if (wrong.text(0, key) && wrong.text(1, schedule)) hasher.add("wrong").add(key).add(schedule);
  });
  for (const auto& [key, entry] : memory_) hasher.add(key).add(entry.schedule).add(entry.checked);
  for (const auto& [ids, entry] : memory_quarantine_) hasher.add("wrong").add(ids.first).add(ids.second);
  return hasher.value128();
}

std::vector<QuarantineEntry> TuningCache::quarantine_entries() {
  const std::lock_guard guard(mutex_);
  std::vector<QuarantineEntry> found;
  on_file([&](SqlConnection& file) { found = read_quarantine(file); });
  for (const auto& [id, entry] : memory_quarantine_) found.push_back(entry);
  std::sort(found.begin(), found.end(), [](const QuarantineEntry& a, const QuarantineEntry& b) {
    return std::tie(a.at, a.key, a.schedule) < std::tie(b.at, b.key, b.schedule);
  });
  return found;
}

int64_t TuningCache::bytes() {
  const std::lock_guard guard(mutex_);
  if (!file_) return 0;
  std::error_code error;
  const auto size = fs::file_size(path_, error);
  return error ? 0 : int64_t(size);
}

int64_t TuningCache::prune(const Prune& what) {
  const std::lock_guard guard(mutex_);
  return prune_now(what);
}

int64_t TuningCache::prune_now(const Prune& what) {
  const int64_t limit = what.max_bytes >= 0 ? what.max_bytes : options_.max_bytes;
  int64_t removed = 0;
  const int64_t time = now();
  if (what.quarantine) memory_quarantine_.clear();
  if (what.unused_seconds >= 0)
    removed += int64_t(std::erase_if(memory_, [&](const auto& e) {
      return what.unused_seconds == 0 || e.second.used < time - what.unused_seconds;
    }));
  const bool asked = what.max_bytes >= 0 || what.unused_seconds >= 0 || what.quarantine;
  if (!file_ || file_->read_only()) return removed;
  std::error_code error;
  const auto size = fs::file_size(path_, error);
  if (!asked && (error || int64_t(size) <= limit)) return removed; // the usual case costs one call
  int64_t on_disk = 0;
  write([&](SqlConnection& file) {
    on_disk = 0;
    if (what.quarantine) file.execute("DELETE FROM quarantined");
    if (what.unused_seconds == 0)
      file.execute("DELETE FROM tuned");
    else if (what.unused_seconds > 0)
      SqlStatement(file, "DELETE FROM tuned WHERE used < ?").bind(time - what.unused_seconds).step();
    if (what.unused_seconds >= 0) on_disk += file.changes();
    on_disk += bound_tuning_file(file, limit, time);
  });
  return removed + on_disk;
}

} // namespace luminal::search
