// cli/cache.cpp -- `luminal cache ls|export|import|merge|prune|path`: what tuning found, on disk.
#include "base/file.h"
#include "base/print.h"
#include "base/text.h"
#include "cli/common.h"
#include "search/tuning_cache.h"
#include <cmath>
#include <fmt/format.h>
#include <iostream>
#include <iterator>

namespace luminal::cli {
namespace {
using search::TuningCache;
using search::TuningEntry;

constexpr size_t shown_mistakes = 10;

struct CacheArguments {
  std::string file; // --cache; empty: the usual place
  bool json = false;
  std::vector<std::string> files;
  std::string out = "-", max_size;
  double unused_days = -1;
  bool all = false, quarantine = false;
};

std::string place(const CacheArguments& a) {
  const std::string path = a.file.empty() ? TuningCache::default_path() : a.file;
  if (path.empty())
    throw Error(
        "there is no tuning cache: LUMINAL_NO_CACHE is set, or there is no home; --cache FILE names one");
  return path;
}

/// Verbs that read: no file, no entries. Nothing is made.
std::vector<TuningEntry> entries_of(const std::string& path, int64_t& refused) {
  if (!file_exists(path)) return {};
  TuningCache cache(path);
  if (!cache.readable()) throw Error(cache.memory_reason());
  auto entries = cache.entries(&refused);
  if (!cache.readable()) throw Error(cache.memory_reason());
  if (refused > 0) print_stderr("luminal: {}: {} rows are not sound and were left out\n", path, refused);
  return entries;
}

/// Verbs that write fail where the file cannot be written.
void require_file(const TuningCache& cache) {
  if (const std::string why = cache.memory_reason(); !why.empty()) throw Error(why);
}

int list(const CacheArguments& a) {
  const std::string path = place(a);
  int64_t refused = 0;
  const auto entries = entries_of(path, refused);
  std::vector<search::QuarantineEntry> quarantined;
  int64_t bytes = 0;
  if (file_exists(path)) {
    TuningCache cache(path);
    quarantined = cache.quarantine_entries();
    bytes = cache.bytes();
  }
  if (a.json) {
    Json out{{"path", path}, {"bytes", bytes}, {"refused", refused}};
    Json& rows = out["entries"] = Json::array();
    for (const TuningEntry& e : entries)
      rows.push_back({{"key", e.key.hash().hex()},
                      {"name", e.name},
                      {"dtypes", e.key.dtypes},
                      {"bucket", e.key.bucket},
                      {"instructions", e.key.instructions},
                      {"threads", e.key.threads},
                      {"seconds", e.seconds},
                      {"samples", e.samples},
                      {"limit_fraction", e.limit_fraction},
                      {"checked", e.checked},
                      {"used", e.used},
                      {"schedule", e.schedule}});
    Json& bad = out["quarantined"] = Json::array();
    for (const auto& q : quarantined)
      bad.push_back({{"key", q.key.hex()},
                     {"schedule", q.schedule.hex()},
                     {"cause", q.cause},
                     {"reproducer", q.reproducer},
                     {"at", q.at}});
    std::cout << out.dump(2) << std::endl;
    return ok;
  }
  for (const TuningEntry& e : entries) {
    const std::string limit = e.limit_fraction > 0 ? fmt::format("{:.0f} %", 100 * e.limit_fraction) : "";
    fmt::print("{} {:<24} {:<24} {:>2} thr {:>10} {:>6} {}\n", e.key.hash().hex().substr(0, 12), e.name,
               e.key.bucket, e.key.threads, human_time(e.seconds), limit, e.checked ? "checked" : "to check");
  }
  for (const auto& q : quarantined)
    fmt::print("{} quarantined: {}{}\n", q.key.hex().substr(0, 12), printable(q.cause, 200),
               q.reproducer.empty() ? "" : "; reproducer in " + printable(q.reproducer, 400));
  print_stderr("{}: {} entries, {} quarantined, {}\n", path, entries.size(), quarantined.size(),
               show_bytes(bytes));
  return ok;
}

int export_all(const CacheArguments& a) {
  const std::string path = place(a);
  int64_t refused = 0;
  const auto entries = entries_of(path, refused);
  const std::string text = search::export_entries(entries);
  if (a.out == "-") {
    std::cout << text << std::flush;
    return ok;
  }
  write_file(a.out, std::string_view(text)).value();
  if (a.json)
    std::cout << Json{{"file", a.out}, {"exported", entries.size()}}.dump(2) << std::endl;
  else
    print_stderr("{}: {} entries\n", a.out, entries.size());
  return ok;
}

/// What several files brought; a file that is none is named, and the others still count.
class Taken {
public:
  void mistake(const std::string& text) {
    if (mistakes_.size() < shown_mistakes) print_stderr("luminal: {}\n", text);
    mistakes_.push_back(text);
  }
  void add(const TuningCache::Imported& more) {
    kept_ += more.kept;
    worse_ += more.worse;
  }
  int tell(const CacheArguments& a, const std::string& path) const {
    if (mistakes_.size() > shown_mistakes)
      print_stderr("luminal: {} more like these\n", mistakes_.size() - shown_mistakes);
    if (a.json)
      std::cout << Json{{"path", path}, {"kept", kept_}, {"worse", worse_}, {"mistakes", mistakes_}}.dump(2)
                << std::endl;
    else
      print_stderr("{}: {} entries taken, {} known as well or better\n", path, kept_, worse_);
    return mistakes_.empty() ? ok : failed;
  }

private:
  int64_t kept_ = 0, worse_ = 0;
  std::vector<std::string> mistakes_;
};

Result<std::string> read_exported(const std::string& path) {
  constexpr uint64_t most = uint64_t(256) << 20;
  if (path == "-") return std::string(std::istreambuf_iterator<char>(std::cin), {});
  return read_file(path, most);
}

int import_all(const CacheArguments& a) {
  TuningCache cache(place(a));
  require_file(cache);
  Taken taken;
  for (const std::string& file : a.files) {
    const auto text = read_exported(file);
    if (!text) {
      taken.mistake(text.error());
      continue;
    }
    auto read = search::import_entries(*text);
    if (!read) {
      taken.mistake(fmt::format("{}: {}", file, read.error()));
      continue;
    }
    for (const std::string& mistake : read->mistakes) taken.mistake(fmt::format("{}: {}", file, mistake));
    taken.add(cache.put_all(std::move(read->entries)));
  }
  require_file(cache);
  return taken.tell(a, cache.path());
}

int merge(const CacheArguments& a) {
  TuningCache cache(place(a));
  require_file(cache);
  Taken taken;
  for (const std::string& file : a.files) {
    int64_t refused = 0;
    auto entries = TuningCache::read(file, &refused);
    if (!entries) {
      taken.mistake(entries.error());
      continue;
    }
    if (refused > 0) taken.mistake(fmt::format("{}: {} rows are not sound and were left out", file, refused));
    taken.add(cache.put_all(std::move(*entries)));
  }
  require_file(cache);
  return taken.tell(a, cache.path());
}

int prune(const CacheArguments& a) {
  const std::string path = place(a);
  TuningCache::Prune what;
  if (!a.max_size.empty()) what.max_bytes = parse_bytes(a.max_size);
  if (a.unused_days >= 0) what.unused_seconds = std::llround(a.unused_days * 86400);
  if (a.all) what.unused_seconds = 0;
  what.quarantine = a.quarantine;
  int64_t removed = 0, left = 0, bytes = 0;
  if (file_exists(path)) {
    TuningCache cache(path);
    require_file(cache);
    removed = cache.prune(what);
    require_file(cache);
    left = int64_t(cache.entries().size());
    bytes = cache.bytes();
  }
  if (a.json)
    std::cout << Json{{"path", path}, {"removed", removed}, {"left", left}, {"bytes", bytes}}.dump(2)
              << std::endl;
  else
    print_stderr("{}: {} entries removed, {} left, {}\n", path, removed, left, show_bytes(bytes));
  return ok;
}

int show_path(const CacheArguments& a) {
  const std::string path = place(a);
  if (a.json)
    std::cout << Json{{"path", path}, {"exists", file_exists(path)}}.dump(2) << std::endl;
  else
    std::cout << path << std::endl;
  return ok;
}

} // namespace

void add_cache(CLI::App& app, int& exit_code) {
  auto* cache = app.add_subcommand("cache", "What tuning found: list, export, import, merge, prune");
  cache->footer(
      "One file holds, for each kernel, machine and program version, the schedule that won and its times. It "
      "bounds its own size.\n"
      "Entries that came from elsewhere (import, merge) are checked on this machine before they are used.");
  cache->require_subcommand(1);
  auto arguments = std::make_shared<CacheArguments>();
  auto add = [&](const char* name, const char* about, int (*action)(const CacheArguments&),
                 const char* json) {
    auto* verb = cache->add_subcommand(name, about);
    verb->add_flag("--json", arguments->json, json);
    verb->add_option("--cache", arguments->file, "The cache file (default: luminal cache path)");
    verb->callback([=, &exit_code] { exit_code = action(*arguments); });
    return verb;
  };
  add("ls",
      "One line an entry: key, kernel, sizes, threads, time, fraction of the limit; then what is quarantined",
      list, "One object: path, bytes, refused, entries, quarantined");
  add("export", "Schedules and times as JSON lines, to stdout or FILE", export_all,
      "With FILE, one object: file, exported")
      ->add_option("FILE", arguments->out, "Where to write (default: stdout)");
  add("import", "Takes the entries of exports; of equal keys the better one stays", import_all,
      "One object: path, kept, worse, mistakes")
      ->add_option("FILE", arguments->files, "Exports; - is stdin")
      ->required();
  add("merge", "Takes the entries of other cache files, which are only read", merge,
      "One object: path, kept, worse, mistakes")
      ->add_option("FILE", arguments->files, "Cache files")
      ->required();
  auto* pruning = add("prune", "Removes entries, the least recently used first", prune,
                      "One object: path, removed, left, bytes");
  pruning
      ->add_option("--max-size", arguments->max_size,
                   "Until the file has this size: 16M, 512K (default: the usual bound, 64M)")
      ->check(memory_amount());
  pruning->add_option("--unused", arguments->unused_days, "Entries that nobody asked for in so many DAYS")
      ->check(between(0, 1e6));
  pruning->add_flag("--all", arguments->all, "All entries");
  pruning->add_flag("--quarantine", arguments->quarantine,
                    "Forget quarantined schedules: they may be tried again");
  add("path", "Where the file is", show_path, "One object: path, exists");
}

} // namespace luminal::cli
