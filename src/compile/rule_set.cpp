// compile/rule_set.cpp -- files of rules are read, tested and kept; engines for the search of regions.
#include "compile/rule_set.h"
#include "base/file.h"
#include "base/file_cache.h"
#include "base/log.h"
#include "base/program_hash.h"
#include "base/settings.h"
#include "base/text.h"
#include "luminal/error.h"
#include "rules/rule_book.h"
#include "rules/test_rules.h"
#include <algorithm>
#include <fmt/format.h>
#include <map>
#include <ranges>
#include <utility>

namespace luminal::compile {
namespace {

std::mutex of_process; // guards all that is static here

RuleChoice& process_choice() {
  static RuleChoice choice;
  return choice;
}

void add(std::vector<std::string>& to, const std::vector<std::string>& more) {
  for (const std::string& one : more)
    if (!one.empty() && std::ranges::find(to, one) == to.end()) to.push_back(one);
}

std::vector<std::string> list_of(std::string_view setting, char between) {
  const std::string text = setting_text(setting);
  std::vector<std::string> out;
  for (const std::string_view one : split(text, between)) out.emplace_back(one);
  return out;
}

/// LUMINAL_MAX_ERROR; 0 where it is not set.
double bound_of_settings() {
  const std::string text = setting_text("LUMINAL_MAX_ERROR");
  if (text.empty()) return 0;
  char* end = nullptr;
  const double bound = std::strtod(text.c_str(), &end);
  if (end == text.c_str() || *end)
    throw Error(fmt::format("LUMINAL_MAX_ERROR={}: a number is expected", text));
  return bound;
}

/// The stricter one of two bounds, where 0 is none.
double stricter(double bound, double more) {
  if (more == 0) return bound;
  if (!(more > 0 && more < 1))
    throw Error(
        fmt::format("max_error {}: a share of the greatest element of a result is expected, more than 0 "
                    "and less than 1",
                    more));
  return bound > 0 ? std::min(bound, more) : more;
}

Hash128 hash_of(const std::vector<rules::RuleFile>& files) {
  Hasher hasher;
  hasher.add("rules").add(rules::built_in_rules_hash()).add(files.size());
  for (const rules::RuleFile& file : files) hasher.add(file.text);
  return hasher.value128();
}

/// Empty: the rules are right. The answer for files of equal texts is the same, so it is kept, on disk under
/// this build of the program: the test is made of its code.
std::string mistake_of(const std::vector<rules::RuleFile>& files, const std::string& names) {
  static std::map<Hash128, std::string> known; // by texts
  const Hash128 texts = hash_of(files);
  {
    const std::lock_guard lock(of_process);
    if (const auto at = known.find(texts); at != known.end()) return at->second;
  }
  const std::string folder = program_hash() ? cache_folder() : "";
  FileCache cache(folder.empty() ? "" : folder + "/rules", ".tested", 1 << 20);
  const Hash128 key = Hasher().add(program_hash().value_or(Hash128())).add(texts).value128();
  std::optional<std::string> mistake = cache.find(key);
  if (!mistake) {
    log_info("rules: {} is tested before it is used", names);
    mistake = rules::mistake_in_rules(files);
    const std::string_view parts[] = {*mistake};
    cache.store(key, parts);
  }
  const std::lock_guard lock(of_process);
  return known[texts] = *mistake;
}

void require_right(const std::vector<rules::RuleFile>& files) {
  const std::string names = join(files | std::views::transform(&rules::RuleFile::name));
  if (const std::string mistake = mistake_of(files, names); !mistake.empty())
    throw Error(fmt::format("the rules of {} are not used: {}", names, mistake));
}

} // namespace

RuleChoice whole_choice(const RuleChoice& choice) {
  RuleChoice out;
  add(out.files, list_of("LUMINAL_RULES", ':'));
  add(out.forbidden, list_of("LUMINAL_FORBID_RULES", ','));
  out.max_error = stricter(0, bound_of_settings());
  const std::lock_guard lock(of_process);
  for (const RuleChoice* more : {&std::as_const(process_choice()), &choice}) {
    add(out.files, more->files);
    add(out.forbidden, more->forbidden);
    out.max_error = stricter(out.max_error, more->max_error);
  }
  return out;
}

std::vector<rules::RuleFile> read_rule_files(const RuleChoice& choice) {
  constexpr uint64_t longest = 16 << 20;
  std::vector<rules::RuleFile> out;
  for (const std::string& name : choice.files) {
    auto text = read_file(name, longest);
    if (!text) throw Error(text.error());
    out.push_back({name, std::move(*text)});
  }
  return out;
}

RuleSet::RuleSet(std::vector<rules::RuleFile> files, std::vector<std::string> forbidden, double max_error)
    : max_error_(max_error) {
  std::ranges::sort(forbidden);
  Hasher hasher;
  hasher.add(hash_of(files)).add(forbidden.size());
  for (const std::string& name : forbidden) hasher.add(name);
  if (max_error > 0) hasher.add("max_error").add(max_error);
  hash_ = hasher.value128();
  theory_.more = std::move(files);
  theory_.without = std::move(forbidden);
}

std::shared_ptr<const RuleSet> RuleSet::of(const RuleChoice& choice) {
  static std::map<Hash128, std::shared_ptr<const RuleSet>> sets;
  const RuleChoice whole = whole_choice(choice);
  auto made = std::make_shared<const RuleSet>(read_rule_files(whole), whole.forbidden, whole.max_error);
  {
    const std::lock_guard lock(of_process);
    if (const auto at = sets.find(made->hash()); at != sets.end()) return at->second;
  }
  if (!made->theory_.more.empty()) require_right(made->theory_.more);
  if (!whole.forbidden.empty()) Engine(*made, false); // a name that is none is told now
  const std::lock_guard lock(of_process);
  return sets.emplace(made->hash(), std::move(made)).first->second;
}

std::shared_ptr<const RuleSet> RuleSet::without(std::shared_ptr<const RuleSet> rules,
                                                const std::vector<std::string>& names) {
  static std::map<Hash128, std::shared_ptr<const RuleSet>> sets;
  if (names.empty()) return rules;
  std::vector<std::string> forbidden = rules->theory_.without;
  add(forbidden, names);
  auto made = std::make_shared<const RuleSet>(rules->theory_.more, std::move(forbidden), rules->max_error_);
  const std::lock_guard lock(of_process);
  return sets.emplace(made->hash(), std::move(made)).first->second;
}

std::vector<std::string> RuleSet::approximate_rules() const {
  std::vector<std::string> out;
  if (max_error_ <= 0) return out;
  rules::RegionTerms every({.numeric = egraph::NumericClass::approximate, .more = theory_.more});
  for (const rules::RuleEntry& entry : rules::rule_entries(every))
    if (entry.numeric == egraph::NumericClass::approximate &&
        std::ranges::find(theory_.without, entry.name) == theory_.without.end())
      out.push_back(entry.name);
  return out;
}

RuleSet::Engine::Engine(const RuleSet& rules, bool exact) : rules_(rules), exact_(exact) {
  {
    const std::lock_guard lock(rules.mutex_);
    if (auto& free = rules.free_[exact]; !free.empty()) {
      terms_ = std::move(free.back());
      free.pop_back();
      return;
    }
  }
  rules::TheoryOptions theory = rules.theory_;
  theory.numeric = exact                  ? egraph::NumericClass::exact
                   : rules.max_error_ > 0 ? egraph::NumericClass::approximate
                                          : egraph::NumericClass::range;
  terms_ = std::make_unique<rules::RegionTerms>(theory);
}

RuleSet::Engine::~Engine() {
  terms_->clear();
  const std::lock_guard lock(rules_.mutex_);
  rules_.free_[exact_].push_back(std::move(terms_));
}

} // namespace luminal::compile

void luminal::choose_rules(RuleChoice choice) {
  const std::lock_guard lock(compile::of_process);
  compile::process_choice() = std::move(choice);
}
