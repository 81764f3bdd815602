// compile/blame_rules.h -- private: from a program that gives other results to the rule that made it so, and
// rules that are not used any more.
//
// Rules of the chain are switched off, halves of them at first: the one without which the program is right is
// to blame. Where that is so of several, since they build on each other, each is tried alone on small
// programs that it matches (rules/rule_instances.h), in exact arithmetic; what is wrong there is to blame,
// else all of them. A rule that is to blame stands in the quarantine of the tuning cache under the hash of
// its text, so that a rule that was mended is used again.
#pragma once
#include "compile/rule_set.h"
#include "luminal/search.h"
#include "search/tuning_cache.h"
#include <functional>
#include <string>
#include <vector>

namespace luminal::compile {

/// The rules to blame, in the order of `chain`. Empty: the program is wrong without all of these, too, or
/// `stop` said true. `wrong`: whether it is without these.
std::vector<std::string> rules_to_blame(const RuleSet& rules, const std::vector<std::string>& chain,
                                        const std::function<bool(const std::vector<std::string>&)>& wrong,
                                        const std::function<bool()>& stop);

/// Rules in the quarantine that are in the set.
std::vector<BlamedRule> quarantined_rules(search::TuningCache& cache, const RuleSet& rules);
/// Puts them there, with a folder that has what shows the mistake; says so in the log. `files`: names and
/// contents, beside the rules' texts. `record`: false: nothing is written or said.
std::vector<BlamedRule> quarantine_rules(search::TuningCache& cache, const RuleSet& rules,
                                         const std::vector<std::string>& names, const std::string& cause,
                                         const std::string& folder,
                                         std::vector<std::pair<std::string, std::string>> files, bool record);
/// Under which the quarantine has rules.
search::TuningKey rule_key();

} // namespace luminal::compile
