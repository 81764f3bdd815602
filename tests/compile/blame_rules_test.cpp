// blame_rules_test.cpp -- a wrong rule that gets past its test is found by what it makes of a program, is not
// used again until its text changes, and is named wherever a search tells of itself.
#include "base/log.h"
#include "base/thread_pool.h"
#include "compile/blame_rules.h"
#include "compile/plan_race.h"
#include "compile/search_options.h"
#include "search/problem_support.h"
#include <filesystem>
#include <gmock/gmock.h>

namespace luminal::compile {
namespace {

using search::ScratchFolder;
using search::TuningCache;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::UnorderedElementsAre;

using Names = std::vector<std::string>;

/// tanh is odd: right. The other ones are wrong; `wrong_behind_odd` meets its terms only behind `odd`.
const char* const odd = "(rewrite (Tanh (Neg a)) (Neg (Tanh a)) :ruleset scalar :name \"odd\" :exact)\n";
const char* const wrong = "(rewrite (Sin (Tanh a)) (Abs a) :ruleset scalar :name \"once\" :reassoc)\n";
const char* const wrong_behind_odd =
    "(rewrite (Sin (Neg (Tanh a))) (Abs a) :ruleset scalar :name \"once\" :reassoc)\n";

/// Without the test that files of a user have to pass.
std::shared_ptr<const RuleSet> admitted(const std::string& text, Names forbidden = {}) {
  return std::make_shared<const RuleSet>(std::vector<rules::RuleFile>{{"planted.egg", text}},
                                         std::move(forbidden));
}

const char* const program = R"(fn @main(%x: f32[256, 512]) {
  %n = neg %x
  %a = tanh %n
  %b = sin %a
  %c = tanh %x
  %e = add %b, %c
  %d = mul %b, %e
  %f = fold [r: 256, c: 512] over [c] { sum %d[r, c] }
  %y = get %f, 0
  return y = %y
})";

Options options_in(const ScratchFolder& folder, std::shared_ptr<TuningCache> cache, ThreadPool& pool,
                   std::shared_ptr<const RuleSet> rules) {
  Options options = compile::options_in(folder, std::move(cache), pool);
  options.rules.set = std::move(rules);
  return options;
}

Names rules_used(const Compiled& compiled) {
  Names names;
  for (const RegionReport& region : compiled.regions)
    names.insert(names.end(), region.rules.begin(), region.rules.end());
  return names;
}

/// How the program differs from the one without rules.
std::string difference(const Compiled& compiled, const Options& with, ThreadPool& pool) {
  Options plain = with;
  plain.rules = {.on = false};
  plain.search = {};
  plain.tuning = nullptr;
  ProgramRace race({.pool = &pool});
  const ProgramId right = race.add(compile(parse_module(program), plain).value().plan).value();
  return race.difference(right, race.add(compiled.plan).value()).value();
}

TEST(RulesToBlame, AreFoundByHalves) {
  const RuleSet none({}, {});
  Names chain;
  for (char name = 'a'; name <= 'z'; ++name) chain.emplace_back(1, name);
  int asked = 0;
  const auto found = [&](const std::function<bool(const std::function<bool(const char*)>&)>& is_wrong) {
    asked = 0;
    return rules_to_blame(none, chain,
                          [&](const Names& off) {
                            ++asked;
                            return is_wrong(
                                [&](const char* name) { return std::ranges::find(off, name) == off.end(); });
                          },
                          {});
  };
  EXPECT_THAT(found([](const auto& on) { return on("q"); }), ElementsAre("q"));
  EXPECT_LE(asked, 10) << "five halvings, not one rule after the other";
  EXPECT_THAT(found([](const auto& on) { return on("a"); }), ElementsAre("a"));
  EXPECT_THAT(found([](const auto& on) { return on("z"); }), ElementsAre("z"));
  EXPECT_THAT(found([](const auto& on) { return on("c") || on("x"); }), UnorderedElementsAre("c", "x"));
  EXPECT_THAT(found([](const auto&) { return true; }), IsEmpty()) << "it is not the rules";
  EXPECT_THAT(rules_to_blame(
                  none, chain, [](const Names& off) { return off.empty(); }, [] { return true; }),
              IsEmpty());
}

struct Planted {
  const char* name;
  std::string text;
};

class APlantedRule : public testing::TestWithParam<Planted> {};

TEST_P(APlantedRule, IsFoundNamedAndNotUsedAgain) {
  const ScratchFolder folder("planted_rule");
  ThreadPool pool(1);
  auto cache = std::make_shared<TuningCache>(folder.file());
  const Options fast = options_in(folder, cache, pool, admitted(GetParam().text));
  const auto before = compile(parse_module(program), fast).value();
  ASSERT_THAT(rules_used(before), Contains("once"));
  ASSERT_THAT(difference(before, fast, pool), HasSubstr("y[")) << "the rule is wrong, and estimates like it";

  Options options = fast;
  options.search.mode = SearchMode::optimal;
  bool raced = false;
  options.search.progress = [&](const SearchProgress& p) {
    raced |= p.phase == SearchProgress::Phase::measuring;
  };
  options.search.stop = [&] { return raced; };
  std::vector<std::string> said;
  set_log_sink([&](LogLevel, std::string_view line) { said.emplace_back(line); });
  const auto searched = compile(parse_module(program), options);
  set_log_sink({});
  ASSERT_TRUE(searched) << searched.error();
  const SearchSummary& summary = *searched->search;
  EXPECT_GE(summary.mismatches, 1);
  ASSERT_EQ(summary.blamed.size(), 1u) << to_string(summary);
  EXPECT_EQ(summary.blamed[0].name, "once");
  EXPECT_THAT(summary.blamed[0].cause, HasSubstr("y["));
  EXPECT_THAT(to_string(summary), HasSubstr("the rule once is not used any more: y["));
  EXPECT_THAT(searched->report(), HasSubstr("the rule once is not used: y["));
  EXPECT_THAT(said, Contains(HasSubstr("the rule once made a program that gives other results: y[")));
  EXPECT_THAT(rules_used(*searched), Not(Contains("once")));
  EXPECT_EQ(difference(*searched, fast, pool), "");
  const std::string reproducer = summary.blamed[0].reproducer;
  ASSERT_TRUE(reproducer.starts_with(folder.file("reproducers")));
  for (const char* file : {"module.lum", "rules.egg", "case.json"})
    EXPECT_TRUE(std::filesystem::exists(reproducer + "/" + file)) << file;

  // Another process, another compilation.
  Options later = fast;
  later.tuning = std::make_shared<TuningCache>(folder.file());
  const auto again = compile(parse_module(program), later).value();
  EXPECT_THAT(rules_used(again), Not(Contains("once")));
  EXPECT_THAT(again.report(), HasSubstr("the rule once is not used: y["));
  EXPECT_EQ(difference(again, fast, pool), "");
  // Another text of that name is another rule, and one that was forgotten is used again.
  std::string text = GetParam().text;
  text.replace(text.find(":reassoc)"), 9, ":reassoc :budget 99)");
  later.rules.set = admitted(text);
  EXPECT_THAT(compile(parse_module(program), later).value().blamed, IsEmpty());
  later.rules.set = fast.rules.set;
  later.tuning->prune({.quarantine = true});
  EXPECT_THAT(rules_used(compile(parse_module(program), later).value()), Contains("once"));

  Options strict = options;
  strict.tuning = std::make_shared<TuningCache>("");
  strict.strict = true;
  raced = false;
  const auto refused = compile(parse_module(program), strict);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error(), HasSubstr("the rule once is not used any more"));
}

INSTANTIATE_TEST_SUITE_P(Rules, APlantedRule,
                         testing::Values(Planted{"alone", wrong},
                                         Planted{"behind_another", std::string(odd) + wrong_behind_odd}),
                         [](const auto& info) { return info.param.name; });

/// Two rules without each of which the program is right: which is wrong says neither's absence, but its test.
TEST(RulesToBlame, OfAChainIsTheOneThatIsWrongAlone) {
  const auto rules = admitted(std::string(odd) + wrong_behind_odd);
  const auto both = [](const Names& off) {
    return std::ranges::find(off, "odd") == off.end() && std::ranges::find(off, "once") == off.end();
  };
  EXPECT_THAT(rules_to_blame(*rules, {"neg-neg", "odd", "once"}, both, {}), ElementsAre("once"));
  const auto right = [](const Names& off) {
    return std::ranges::find(off, "odd") == off.end() && std::ranges::find(off, "neg-neg") == off.end();
  };
  EXPECT_THAT(rules_to_blame(*rules, {"neg-neg", "odd", "once"}, right, {}), ElementsAre("neg-neg", "odd"))
      << "nothing tells them apart";
}

} // namespace
} // namespace luminal::compile
