// rules/test_rules.cpp -- programs, one after the other, until a term is wrong.
#include "rules/test_rules.h"
#include "base/contains.h"
#include "luminal/error.h"
#include "rules/lint_rules.h"
#include "rules/rule_instances.h"
#include <algorithm>
#include <fmt/format.h>

namespace luminal::rules {
namespace {

using egraph::NumericClass;

/// Random ones beside instances and fixed ones: of rules without some of their guards, and of rules that
/// are to be used.
constexpr uint64_t programs_without_guards = 100, programs_before_use = 60;

std::string text_of(const RuleCase& test) {
  std::string out = to_string(test.module);
  for (const NodeId id : test.module.entry().params) {
    const std::string& name = std::get<InputAttr>(test.module.entry()[id].attr).name;
    const HostTensor& tensor = test.bindings.inputs.at(name);
    out += fmt::format("; {} =", name);
    for (int64_t k = 0; k < std::min<int64_t>(tensor.count(), 32); ++k)
      out +=
          fmt::format(" {}", is_float(tensor.dtype) ? load_f64(tensor.dtype, tensor.data.data(), k)
                                                    : double(load_i64(tensor.dtype, tensor.data.data(), k)));
    out += tensor.count() > 32 ? " ..\n" : "\n";
  }
  return out;
}

class Tester {
public:
  explicit Tester(const RuleTestOptions& options) : options_(options) {}

  RuleTestReport run() {
    TheoryOptions all = options_.theory;
    all.numeric = NumericClass::approximate;
    RegionTerms terms(all);
    const size_t built_in = all.more.empty() ? 0 : RegionTerms({.numeric = all.numeric}).graph().rule_count();
    NumericClass highest = NumericClass::range;
    bool exact = false;
    for (RuleEntry& e : rule_entries(terms)) {
      if (e.id < built_in || !e.named || contains(all.without, e.name)) continue;
      highest = std::max(highest, e.numeric);
      exact = exact || (e.numeric == NumericClass::exact && e.joins);
      out_.rules.push_back({std::move(e)});
    }
    try_all(highest, options_.random, Comparison::values);
    if (exact && out_.wrong.empty())
      try_all(NumericClass::exact, options_.random * 4 / 5, Comparison::values);
    for (const Comparison special : {Comparison::not_numbers, Comparison::infinities})
      if (out_.wrong.empty()) try_all(std::min(highest, NumericClass::range), options_.random / 2, special);
    for (const RuleTestReport::Rule& r : out_.rules)
      if (r.matches == 0) out_.unmet.push_back(r.entry.name);
    return std::move(out_);
  }

private:
  void try_all(NumericClass numeric, uint64_t random, Comparison comparison) {
    comparison_ = comparison;
    TheoryOptions theory = options_.theory;
    theory.numeric = numeric;
    if (comparison == Comparison::not_numbers)
      for (const std::string_view name : rules_that_hide())
        if (!contains(theory.without, name)) theory.without.emplace_back(name);
    terms_ = std::make_unique<RegionTerms>(theory);
    const bool exact = numeric == NumericClass::exact;
    if (!options_.theory.more.empty()) {
      RegionTerms reading(
          {.numeric = NumericClass::approximate, .more = theory.more}); // for its numbers of rules
      for (const RuleTestReport::Rule& r : out_.rules)
        for (uint64_t k = 0; k < options_.instances; ++k)
          if (r.entry.numeric <= numeric)
            if (const auto test = rule_instance(reading, r.entry.id, options_.seed + k, exact && k % 2 == 1))
              if (!check(*test)) return;
    }
    if (!exact)
      for (const RuleCase& test : fixed_rule_cases())
        if (!check(test)) return;
    for (uint64_t k = 0; k < random; ++k)
      if (!check(random_rule_case(options_.seed + k))) return;
  }

  /// False: no more.
  bool check(const RuleCase& test) {
    if (options_.stop && options_.stop()) {
      out_.stopped = true;
      return false;
    }
    ++out_.programs;
    try {
      const RuleCheck result = check_rules(*terms_, test, comparison_);
      out_.terms += result.terms;
      for (RuleTestReport::Rule& r : out_.rules)
        if (const auto at = result.matches.find(r.entry.name); at != result.matches.end())
          r.matches += at->second;
      if (!result.wrong) return true;
      const RuleCase small = shrink_rule_case(*terms_, test, comparison_);
      const RuleCheck again = check_rules(*terms_, small, comparison_);
      out_.wrong = again.wrong ? *again.wrong : *result.wrong;
      out_.program = text_of(again.wrong ? small : test);
    } catch (
        const std::exception& error) { // terms that cannot be: types that differ, axes that are not there
      out_.wrong = error.what();
      out_.program = text_of(test);
    }
    out_.wrong = fmt::format("{}: {}", test.name, out_.wrong);
    return false;
  }

  const RuleTestOptions& options_;
  std::unique_ptr<RegionTerms> terms_;
  Comparison comparison_ = Comparison::values;
  RuleTestReport out_;
};

} // namespace

RuleTestReport test_rules(const RuleTestOptions& options) { return Tester(options).run(); }

std::string wrong_without_guards(const std::vector<RuleFile>& files) {
  std::vector<std::string_view> names;
  for (const GuardInfo& guard : guard_table())
    if (guard.kind == GuardKind::chooses) names.push_back(guard.name);
  RuleTestOptions options{.theory = {.more = files}, .random = programs_without_guards};
  bool fewer = false;
  for (RuleFile& file : options.theory.more) {
    const std::string whole = without_guards(file.text, file.name, {});
    file.text = without_guards(file.text, file.name, names);
    fewer = fewer || file.text != whole;
  }
  if (!fewer) return "";
  const RuleTestReport report = test_rules(options);
  if (report.wrong.empty()) return "";
  options.theory.more = files;
  if (!test_rules(options).wrong.empty()) return "";
  return fmt::format(
      "right only because of a guard that a further union can make false; without such guards {}\n{}",
      report.wrong, report.program);
}

std::string mistake_in_rules(const std::vector<RuleFile>& files) {
  check_rule_files(files);
  const TheoryOptions theory{.numeric = NumericClass::approximate, .more = files};
  RegionTerms terms(theory);
  const size_t built_in = RegionTerms({.numeric = theory.numeric}).graph().rule_count();
  for (const LintFinding& f : lint_rules(terms, egraph::RuleId(built_in)))
    return fmt::format("{}:{}: {}: {}", f.file, f.line, f.rule, f.text);
  const RuleTestReport report = test_rules({.theory = theory, .random = programs_before_use});
  if (!report.wrong.empty()) return fmt::format("{}\n{}", report.wrong, report.program);
  if (!report.unmet.empty())
    return fmt::format("no program satisfies {}, so nothing is known of it", report.unmet.front());
  return wrong_without_guards(files);
}

} // namespace luminal::rules
