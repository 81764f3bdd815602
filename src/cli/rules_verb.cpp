// cli/rules_verb.cpp -- `luminal rules list|show|test|lint`: the rules that are built in, and a user's; the
// options that choose rules.
#include "base/contains.h"
#include "base/print.h"
#include "base/text.h"
#include "cli/common.h"
#include "cli/rule_options.h"
#include "compile/rule_set.h"
#include "luminal/plan_file.h"
#include "rules/lint_rules.h"
#include "rules/rule_instances.h"
#include "rules/test_rules.h"
#include <fmt/format.h>
#include <iostream>
#include <ranges>

namespace luminal::cli {
namespace {

using rules::RegionTerms;
using rules::RuleEntry;

struct RulesArguments {
  std::string name;
  std::vector<std::string> files; // besides those of --rules
  uint64_t programs = 0, seed = 0;
  bool json = false, all = false;
};

/// With the user's files, which are checked as texts, and without what is forbidden.
rules::TheoryOptions theory(const RulesArguments& a) {
  const RuleChoice choice = compile::whole_choice({});
  rules::TheoryOptions out{.numeric = egraph::NumericClass::approximate, .without = choice.forbidden};
  out.more = compile::read_rule_files(choice);
  for (const std::string& file : a.files)
    if (!contains(choice.files, file)) out.more.push_back({file, read_text(file)});
  if (!out.more.empty()) rules::check_rule_files(out.more);
  return out;
}

Json entry_json(const RuleEntry& e) {
  return {{"name", e.name},   {"class", rules::to_string(e.numeric)},
          {"phase", e.phase}, {"guards", e.guards},
          {"joins", e.joins}, {"budget", e.budget},
          {"file", e.file},   {"line", e.line}};
}

int list(const RulesArguments& a) {
  const rules::TheoryOptions options = theory(a);
  RegionTerms terms(options);
  Json json = Json::array();
  for (const RuleEntry& e : rules::rule_entries(terms)) {
    if ((!e.named && !a.all) || contains(options.without, e.name)) continue;
    if (a.json) {
      json.push_back(entry_json(e));
      continue;
    }
    std::string line =
        fmt::format("{:<18} {:<8} {:<9} {:<20}{}", e.name, e.joins ? rules::to_string(e.numeric) : "-",
                    e.phase, fmt::format("{}:{}", e.file, e.line), join(e.guards, " "));
    line.erase(line.find_last_not_of(' ') + 1);
    std::cout << line << "\n";
  }
  if (a.json) std::cout << json.dump(2) << std::endl;
  return std::cout ? ok : failed;
}

RuleEntry entry_named(RegionTerms& terms, const std::string& name) {
  const std::vector<RuleEntry> entries = rules::rule_entries(terms);
  std::vector<std::string_view> names;
  for (const RuleEntry& e : entries) {
    if (e.name == name) return e;
    names.push_back(e.name);
  }
  throw Error(rules::no_rule(name, names));
}

int show(const RulesArguments& a) {
  const rules::TheoryOptions options = theory(a);
  RegionTerms terms(options);
  const RuleEntry entry = entry_named(terms, a.name);
  const std::optional<rules::RuleExample> example =
      entry.joins && entry.named ? rules::rule_example(entry, options) : std::nullopt;
  if (a.json) {
    Json json = entry_json(entry);
    json["text"] = entry.text;
    json["example"] = nullptr;
    if (example)
      json["example"] = {{"of", example->of}, {"before", example->before}, {"after", example->after}};
    std::cout << json_text(json) << std::endl;
    return std::cout ? ok : failed;
  }
  std::cout << entry.text;
  std::cout << fmt::format("\n{}, class {}, phase {}{}\n", entry.joins ? "joins classes" : "keeps facts",
                           rules::to_string(entry.numeric), entry.phase,
                           entry.budget > 0 ? fmt::format(", {} matches in one iteration", entry.budget)
                                            : "");
  std::cout << fmt::format("at {}:{}\n", entry.file, entry.line);
  if (!entry.guards.empty()) std::cout << "guards " << join(entry.guards, " ") << "\n";
  if (example)
    std::cout << fmt::format("\nin {}, before:\n{}\nafter:\n{}", example->of, example->before,
                             example->after);
  else if (entry.joins)
    std::cout << "\nno program of the automatic test shows it alone\n";
  return std::cout ? ok : failed;
}

int test(const RulesArguments& a) {
  catch_interrupts();
  rules::RuleTestOptions options;
  options.theory = theory(a);
  options.random = a.programs > 0 ? a.programs : options.theory.more.empty() ? 500 : 150;
  options.seed = a.seed;
  options.stop = [] { return interrupt_requested(); };
  const rules::RuleTestReport report = rules::test_rules(options);
  if (a.json) {
    Json json{{"rules", Json::array()},       {"programs", report.programs},
              {"terms", report.terms},        {"wrong", nullptr},
              {"program", nullptr},           {"unmet", report.unmet},
              {"interrupted", report.stopped}};
    for (const auto& rule : report.rules)
      json["rules"].push_back({{"name", rule.entry.name}, {"matches", rule.matches}});
    if (!report.wrong.empty()) {
      json["wrong"] = report.wrong;
      json["program"] = report.program;
    }
    std::cout << json_text(json) << std::endl;
  } else {
    std::cout << fmt::format("{} rules, {} programs, {} terms compared\n", report.rules.size(),
                             report.programs, report.terms);
    if (!report.wrong.empty()) std::cout << fmt::format("WRONG {}\n{}", report.wrong, report.program);
    if (report.wrong.empty() && !report.stopped) // a wrong term ends the test early
      for (const std::string& name : report.unmet)
        std::cout << fmt::format("NOT MET {}: no program satisfied it, so nothing is known of it\n", name);
  }
  if (report.stopped) return interrupted;
  return report.good() && std::cout ? ok : failed;
}

int lint(const RulesArguments& a) {
  const rules::TheoryOptions options = theory(a);
  RegionTerms terms(options);
  const bool own = !options.more.empty();
  const size_t built_in = own ? RegionTerms({.numeric = options.numeric}).graph().rule_count() : 0;
  std::vector<rules::LintFinding> findings = rules::lint_rules(terms, egraph::RuleId(built_in));
  std::erase_if(findings, [&](const auto& f) { return contains(options.without, f.rule); });
  if (own)
    if (std::string wrong = rules::wrong_without_guards(options.more); !wrong.empty())
      findings.push_back(
          {"", join(options.more | std::views::transform(&rules::RuleFile::name)), 0, std::move(wrong)});
  if (a.json) {
    Json json = Json::array();
    for (const auto& f : findings)
      json.push_back({{"rule", f.rule}, {"file", f.file}, {"line", f.line}, {"text", f.text}});
    std::cout << json_text(json) << std::endl;
  } else {
    for (const auto& f : findings)
      std::cout << (f.line > 0 ? fmt::format("{}:{}: {}: {}\n", f.file, f.line, f.rule, f.text)
                               : fmt::format("{}: {}\n", f.file, f.text));
    print_stderr("{} rules, {} findings\n", terms.graph().rule_count() - built_in, findings.size());
  }
  return findings.empty() && std::cout ? ok : failed;
}

} // namespace

void add_rule_options(CLI::App& verb) {
  const auto choice = std::make_shared<RuleChoice>();
  const auto add = [&](const char* name, std::vector<std::string> RuleChoice::* list, const char* about) {
    verb.add_option_function<std::vector<std::string>>(
            name,
            [choice, list](const std::vector<std::string>& words) {
              (*choice).*list = words;
              choose_rules(*choice);
            },
            about)
        ->allow_extra_args(false);
  };
  add("--rules", &RuleChoice::files,
      "A file of rules for the search for equal programs, tested before it is used; may be repeated");
  add("--forbid-rule", &RuleChoice::forbidden, "A rule that takes no part in it; may be repeated");
  verb.add_option_function<double>(
      "--max-error",
      [choice](double bound) {
        choice->max_error = bound;
        choose_rules(*choice);
      },
      "Rules of class approx take part where no result is off by more than this share of its greatest "
      "element "
      "(default: none do)");
}

void add_plan_option(CLI::App& verb) {
  verb.add_option_function<std::string>(
      "--plan", [](const std::string& file) { choose_plan(file); },
      "A file of luminal tune --export-plan: its schedules come before those of the tuning cache");
}

void add_rules(CLI::App& app, int& exit_code) {
  auto* rules =
      app.add_subcommand("rules", "The rules of the search for equal programs: list, show, test, lint");
  rules->footer("Guards and phases that rules of your own may use: docs/rules.md.");
  rules->require_subcommand(1);
  auto a = std::make_shared<RulesArguments>();
  const auto add = [&](const char* name, const char* about, int (*action)(const RulesArguments&),
                       const char* json) {
    auto* verb = rules->add_subcommand(name, about);
    verb->add_flag("--json", a->json, json);
    add_rule_options(*verb);
    verb->callback([a, action, &exit_code] { exit_code = action(*a); });
    return verb;
  };
  const char* file = "Files of rules; without one those that are built in";
  auto* listing = add("list", "One line a rule: name, numeric class, phase, place, guards", list,
                      "One array; keys in docs/program.md");
  listing->add_flag("--all", a->all, "With those that have no name and keep facts up to date");
  auto* showing = add("show", "A rule, and terms before and after it from the automatic test", show,
                      "One object; keys in docs/program.md");
  showing->add_option("NAME", a->name, "Its name, as luminal rules list has it")->required();
  auto* testing = add("test", "Random programs: all terms that rules make equal are computed and compared",
                      test, "One object; keys in docs/program.md");
  testing->add_option("FILE", a->files, file);
  testing->add_option("--programs", a->programs, "Programs drawn (default: 500; of a file 150)")
      ->check(whole(1, 1000000));
  testing->add_option("--seed", a->seed, "Of the first program")->check(whole(0, int64_t(1) << 40));
  auto* linting =
      add("lint", "Fields that are matched and ignored, guards that do not last, terms in themselves", lint,
          "One array: rule, file, line, text");
  linting->add_option("FILE", a->files, file);
}

} // namespace luminal::cli
