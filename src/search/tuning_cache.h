// search/tuning_cache.h -- what tuning found, on disk: for a kernel, a machine and a program
// version the schedule that won, and its times.
//
// One SQLite file, shared by any number of processes. It keeps a rollback journal, not a
// write-ahead log: that works in folders which cannot be written and on network file systems, and
// the cache is one file that can be copied; writes are rare (one a tuned kernel), so readers lose
// nothing. The version of the layout stands in the file's name, so that programs of two versions do
// not fight for one file. A file of another version under this name, of another kind, or damaged,
// is set aside (renamed) with one line and never trusted. Rows are checked one by one as they are
// read: types, lengths, ranges, the key against the hash of its parts, the schedule by its parser;
// what does not pass is not there. Where the file cannot be opened or written (no folder,
// read-only, full disk), results are kept in memory for the life of the object, and the reason is
// said once.
#pragma once
#include "base/hash.h"
#include "base/result.h"
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace luminal::search {

class SqlConnection;

/// Everything that a result depends on. Two keys are one when all parts are equal.
struct TuningKey {
  Hash128 structure;        ///< of what is computed, names left out
  std::string dtypes;       ///< of the kernel's arguments, in order: "f32 f32 f32"
  std::string bucket;       ///< values or ranges of the dimension symbols: "m=1..64"
  std::string layouts;      ///< of the arguments, with alignments where they are known
  std::string numeric;      ///< numeric policy: "reassoc"
  std::string instructions; ///< instruction set: the target's triple, processor and features
  std::string llvm;         ///< its version
  uint64_t rules = 0;       ///< hash of the rewrite rules, the user's included
  uint64_t codegen = 0;     ///< hash of lowering and code generation
  uint64_t device = 0;      ///< the machine's fingerprint
  int threads = 1;
  Hash128 hash() const;
  bool operator==(const TuningKey&) const = default;
};

/// The numeric policy of an entry for a region of terms in place of a kernel: its schedule is the name of the
/// plan that won, "plan 3f9c0a1b22d4e671\n" (compile/plan_race.h).
inline constexpr std::string_view region_policy = "region plan";

struct TuningEntry {
  TuningKey key;
  std::string name;          ///< of the kernel, for people
  std::string schedule;      ///< as kernel::to_string(Schedule) prints it; see region_policy
  double seconds = 0;        ///< of one launch: the low percentile
  int64_t samples = 0;       ///< measurements behind it
  double limit_fraction = 0; ///< of the machine's limit; 0: not known
  /// compared with the reference on this machine; false: came from elsewhere and must be checked
  /// before it is used
  bool checked = false;
  int64_t used = 0; ///< seconds since 1970 when it was last asked for; put sets it
  bool operator==(const TuningEntry&) const = default;
};

/// A schedule that gave wrong results, or crashed: it is never tried again for this key.
struct QuarantineEntry {
  Hash128 key, schedule;  ///< hashes of the key and of the schedule's text
  std::string cause;      ///< one line
  std::string reproducer; ///< folder; may be empty
  int64_t at = 0;         ///< seconds since 1970
};

/// Why an entry cannot be kept, or empty. The schedule's text is brought to the form that the
/// printer gives.
std::string mistake_in(TuningEntry& entry);
/// The rule for equal keys: checked before unchecked, then the shorter time.
bool better(const TuningEntry& a, const TuningEntry& b);

class TuningCache {
public:
  static constexpr int version = 1;
  static constexpr int64_t default_bytes = int64_t(64) << 20;
  struct Options {
    int64_t max_bytes = default_bytes; ///< of the file: beyond it the least recently used entries go
    double busy_seconds = 5;           ///< patience with other processes that write
    std::function<int64_t()> now;      ///< seconds since 1970; empty: the system's clock
  };
  /// Never fails: see memory_reason. path empty: memory only.
  explicit TuningCache(std::string path, Options options);
  explicit TuningCache(std::string path) : TuningCache(std::move(path), Options()) {}
  ~TuningCache();
  TuningCache(const TuningCache&) = delete;
  TuningCache& operator=(const TuningCache&) = delete;
  /// In the folder of caches (LUMINAL_CACHE_DIR); empty where LUMINAL_NO_CACHE is set or there is
  /// no home.
  static std::string default_path();

  /// The one object of this process for that file, opened with the first call and again where
  /// another file has taken its place. Null where path is empty, or where there is no file and
  /// `make` is false.
  static std::shared_ptr<TuningCache> shared(const std::string& path, bool make);

  const std::string& path() const { return path_; }
  /// Empty: what is put reaches the file. Else one line: why it stays in memory.
  std::string memory_reason() const;
  /// what the file holds can be seen: it is there, sound and not locked by another process for long
  bool readable() const;

  /// The entry for the key; none where its schedule is quarantined. Thread-safe, as all members.
  std::optional<TuningEntry> find(const TuningKey& key);
  /// The same, or where it is absent the entry for the nearest other sizes of the same dimensions
  /// (nearest by ratio).
  std::optional<TuningEntry> find_near(const TuningKey& key);
  enum class Keep : uint8_t { better, newest };
  /// Keeps the entry, or with Keep::better the better of it and what is there. Returns whether the
  /// given one was kept: not where it is quarantined. Throws Error for an entry that is none
  /// (mistake_in).
  bool put(TuningEntry entry, Keep keep = Keep::better);
  /// The same for many in one transaction; entries that are none are counted, not thrown.
  struct Imported {
    int64_t kept = 0, worse = 0, refused = 0;
  };
  Imported put_all(std::vector<TuningEntry> entries);

  void quarantine(const TuningKey& key, std::string_view schedule, std::string cause, std::string reproducer);
  void quarantine(QuarantineEntry entry); ///< as another cache has it
  /// What is put or quarantined from now on goes there, too. Null: it does not.
  void set_mirror(std::shared_ptr<TuningCache> mirror);
  std::optional<QuarantineEntry> quarantined(const TuningKey& key, std::string_view schedule);

  /// All entries by name, then by hash of the key. `refused`: how many rows did not pass.
  std::vector<TuningEntry> entries(int64_t* refused = nullptr);
  std::vector<QuarantineEntry> quarantine_entries();
  int64_t bytes(); ///< of the file; 0: memory only
  /// Of all schedules, what is checked of them, and what is quarantined: another one where find() may answer
  /// otherwise.
  Hash128 state_hash();

  struct Prune {
    int64_t max_bytes = -1; ///< -1: the bound of the options
    /// entries that nobody asked for in this time go, too; -1: no matter; 0: all of them
    int64_t unused_seconds = -1;
    bool quarantine = false; ///< forget what is quarantined
  };
  int64_t prune(const Prune& what); ///< entries removed

  /// Entries of another cache file, which is only read: all unchecked. `refused` as above. Failure:
  /// it is no such file.
  static Result<std::vector<TuningEntry>> read(const std::string& path, int64_t* refused = nullptr);

private:
  void open();
  bool set_aside(const std::string& why);
  void stay_in_memory(const std::string& why, bool loud);
  template <class F> bool on_file(F&& f);
  template <class F> bool write(F&& f);
  Imported put_now(const std::vector<const TuningEntry*>& entries, Keep keep);
  bool wins(SqlConnection* file, const TuningEntry& entry, Keep keep) const;
  void remember(const TuningEntry& entry);
  std::optional<QuarantineEntry> quarantined_in(SqlConnection* file, const Hash128& key,
                                                const Hash128& schedule) const;
  std::optional<QuarantineEntry> quarantined_now(const Hash128& key, const Hash128& schedule);
  void flush_memory();
  void write_touched(SqlConnection& file) const;
  void read_sizes();
  int64_t prune_now(const Prune& what);
  int64_t now() const;

  mutable std::mutex mutex_;
  std::string path_, identity_;
  Options options_;
  std::unique_ptr<SqlConnection> file_;
  std::string memory_reason_;
  bool said_ = false;
  std::map<std::string, int64_t> touched_;    // hashes of keys in the file, and when they were asked for
  std::map<std::string, TuningEntry> memory_; // by hash of the key
  std::optional<std::multimap<std::string, std::string>> sizes_; // structure -> buckets of the file's entries
  std::map<std::pair<std::string, std::string>, QuarantineEntry> memory_quarantine_; // by hashes
  std::shared_ptr<TuningCache> mirror_;
};

// ---- text form: JSON lines (docs/program.md, luminal cache export) ----
std::string export_entries(const std::vector<TuningEntry>& entries);
struct ImportedText {
  std::vector<TuningEntry> entries;  ///< all unchecked
  std::vector<std::string> mistakes; ///< "line 3: seconds: ..."
};
/// Failure: it is not an export, or one of another version.
Result<ImportedText> import_entries(std::string_view text);

} // namespace luminal::search
