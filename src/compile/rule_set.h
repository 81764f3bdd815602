// compile/rule_set.h -- the rules that look for equal programs: those that are built in and a user's, without
// those that are forbidden. THE place where files of rules and names of forbidden ones come together: of the
// settings LUMINAL_RULES and LUMINAL_FORBID_RULES, of the process (choose_rules), of one compilation.
#pragma once
#include "base/hash.h"
#include "luminal/rules.h"
#include "rules/region_terms.h"
#include <memory>
#include <mutex>

namespace luminal::compile {

/// The settings' choice, that of the process, then this one.
RuleChoice whole_choice(const RuleChoice& choice);
/// The files of a whole choice, read. Throws Error for one that cannot be read.
std::vector<rules::RuleFile> read_rule_files(const RuleChoice& choice);

class RuleSet {
public:
  /// One object for equal rules. Files are tested before they are used (rules/test_rules.h), once for equal
  /// texts. Throws Error: a file that cannot be read or holds something else, a rule that is wrong, a
  /// forbidden rule that is not there.
  static std::shared_ptr<const RuleSet> of(const RuleChoice& choice);

  RuleSet(std::vector<rules::RuleFile> files, std::vector<std::string> forbidden, double max_error = 0);
  /// Of the texts of all rules and the names of forbidden ones: the same in every process. Part of the keys
  /// of what is kept on disk.
  const Hash128& hash() const { return hash_; }
  const rules::TheoryOptions& theory() const { return theory_; }
  /// RuleChoice::max_error; more than 0: with rules of class `approx`.
  double max_error() const { return max_error_; }
  /// Names of those that take part.
  std::vector<std::string> approximate_rules() const;
  /// This one where `names` is empty; one object for equal rules.
  static std::shared_ptr<const RuleSet> without(std::shared_ptr<const RuleSet> rules,
                                                const std::vector<std::string>& names);

  /// A program of terms with the rules read and planned, which takes longer than a small region.
  /// `exact`: with those that keep every bit. Kept for the next region, one for each that is searched at
  /// the same time.
  class Engine {
  public:
    Engine(const RuleSet& rules, bool exact);
    ~Engine();
    Engine(const Engine&) = delete;
    rules::RegionTerms& operator*() const { return *terms_; }

  private:
    const RuleSet& rules_;
    const bool exact_;
    std::unique_ptr<rules::RegionTerms> terms_;
  };

private:
  rules::TheoryOptions theory_;
  Hash128 hash_;
  double max_error_ = 0;
  mutable std::mutex mutex_;
  mutable std::vector<std::unique_ptr<rules::RegionTerms>> free_[2]; // [exact]
};

} // namespace luminal::compile
