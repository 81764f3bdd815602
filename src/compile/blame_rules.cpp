// compile/blame_rules.cpp -- halves of rules, then each alone; the quarantine of rules.
#include "compile/blame_rules.h"
#include "base/contains.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/log.h"
#include "luminal/error.h"
#include "rules/check_rules.h"
#include "rules/rule_book.h"
#include "rules/rule_instances.h"
#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

namespace luminal::compile {
namespace {

using Names = std::vector<std::string>;
using Wrong = std::function<bool(const Names&)>;

/// Rules that make a program right on their own: no more than these are looked for.
constexpr size_t most_alone = 4;
constexpr uint64_t instances = 40; // of a rule, each of other terms

Names together(Names a, const Names& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

/// The first rule of `pool` that makes the program right together with those before it, and with `off`.
std::string last_needed(const Names& pool, const Names& off, const Wrong& wrong) {
  const auto begin_of = [&](size_t count) { return Names(pool.begin(), pool.begin() + ptrdiff_t(count)); };
  size_t wrong_at = 0, right_at = pool.size();
  while (right_at - wrong_at > 1) {
    const size_t middle = (wrong_at + right_at) / 2;
    (wrong(together(off, begin_of(middle))) ? wrong_at : right_at) = middle;
  }
  return pool[right_at - 1];
}

std::vector<rules::RuleEntry> entries_of(const RuleSet& rules) {
  rules::TheoryOptions theory = rules.theory();
  theory.numeric = egraph::NumericClass::approximate;
  theory.without.clear();
  rules::RegionTerms terms(theory);
  return rules::rule_entries(terms);
}

/// Is the rule wrong on small programs that it matches, without the others?
bool is_wrong_alone(const RuleSet& rules, const std::string& name, const Names& others) {
  rules::TheoryOptions theory = rules.theory();
  for (const std::string& other : others)
    if (other != name && !contains(theory.without, other)) theory.without.push_back(other);
  rules::TheoryOptions every = rules.theory();
  every.numeric = egraph::NumericClass::approximate;
  every.without.clear();
  rules::RegionTerms reading(every), terms(theory);
  for (const rules::RuleEntry& entry : rules::rule_entries(reading)) {
    if (entry.name != name) continue;
    for (uint64_t seed = 0; seed < instances; ++seed) try {
        const auto test = rules::rule_instance(reading, entry.id, seed, false);
        if (test && rules::check_rules(terms, *test).wrong) return true;
      } catch (const Error&) { // terms that cannot be
        return true;
      }
  }
  return false;
}

Hash128 text_hash(const rules::RuleEntry& entry) { return hash128(entry.name + "\n" + entry.text); }

} // namespace

std::vector<std::string> rules_to_blame(const RuleSet& rules, const std::vector<std::string>& chain,
                                        const std::function<bool(const std::vector<std::string>&)>& wrong,
                                        const std::function<bool()>& stop) {
  const auto stopped = [&] { return stop && stop(); };
  Names pool = chain, alone;
  while (!pool.empty() && alone.size() < most_alone) {
    if (stopped() || wrong(pool)) break;
    Names needed{last_needed(pool, {}, wrong)};
    while (wrong(needed)) { // several are wrong, each by itself
      Names rest = pool;
      std::erase_if(rest, [&](const std::string& name) { return contains(needed, name); });
      if (stopped() || rest.empty()) return {};
      needed.push_back(last_needed(rest, needed, wrong));
    }
    if (needed.size() > 1) return needed;
    alone.push_back(needed[0]);
    std::erase(pool, needed[0]);
  }
  if (alone.size() < 2) return alone;
  Names guilty;
  for (const std::string& name : chain)
    if (contains(alone, name) && is_wrong_alone(rules, name, alone)) guilty.push_back(name);
  return guilty.empty() ? alone : guilty;
}

search::TuningKey rule_key() {
  search::TuningKey key;
  key.structure = hash128("a rule");
  key.numeric = "rule";
  return key;
}

std::vector<BlamedRule> quarantined_rules(search::TuningCache& cache, const RuleSet& rules) {
  const Hash128 key = rule_key().hash();
  std::vector<search::QuarantineEntry> there = cache.quarantine_entries();
  std::erase_if(there, [&](const search::QuarantineEntry& entry) { return entry.key != key; });
  std::vector<BlamedRule> out;
  if (there.empty()) return out;
  for (const rules::RuleEntry& entry : entries_of(rules))
    for (const search::QuarantineEntry& q : there)
      if (q.schedule == text_hash(entry)) out.push_back({entry.name, q.cause, q.reproducer});
  return out;
}

std::vector<BlamedRule> quarantine_rules(search::TuningCache& cache, const RuleSet& rules,
                                         const std::vector<std::string>& names, const std::string& cause,
                                         const std::string& folder,
                                         std::vector<std::pair<std::string, std::string>> files,
                                         bool record) {
  std::vector<BlamedRule> out;
  std::string texts;
  std::vector<std::string> entries; // in the order of `out`
  for (const rules::RuleEntry& entry : entries_of(rules)) {
    if (!contains(names, entry.name)) continue;
    texts += fmt::format("; {}:{}\n{}\n", entry.file, entry.line, entry.text);
    entries.push_back(entry.name + "\n" + entry.text);
    out.push_back({entry.name, cause, ""});
  }
  std::string reproducer;
  if (record) {
    const std::string place =
        fmt::format("{}/rule-{}-{:016x}", folder, out.empty() ? "" : out[0].name, hash64(texts + cause));
    files.emplace_back("rules.egg", texts);
    files.emplace_back("case.json",
                       nlohmann::ordered_json{{"cause", cause},
                                              {"rules", names},
                                              {"built_in_rules", rules::built_in_rules_hash().hex()}}
                               .dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) +
                           "\n");
    auto written = make_folder_of(place + "/");
    for (const auto& [name, text] : files)
      if (written) written = write_file(fmt::format("{}/{}", place, name), std::string_view(text));
    if (written) reproducer = place;
    log_error("the rule {} made a program that gives other results: {}; it is not used any more; {}",
              fmt::join(names, " or "), cause,
              written ? "reproducer in " + place : "no reproducer: " + written.error());
  }
  for (size_t k = 0; k < out.size(); ++k) {
    out[k].reproducer = reproducer;
    cache.quarantine(rule_key(), entries[k], cause, reproducer);
  }
  return out;
}

} // namespace luminal::compile
