// compile/kept_plans_test.cpp -- a plan that was made once is read; whatever it depends on makes it another
// one.
#include "base/file.h"
#include "compile/kept_plans.h"
#include "compile/rule_set.h"
#include "rules/emit_region.h"
#include "search/tuning_support.h"
#include <filesystem>
#include <functional>
#include <gmock/gmock.h>

namespace luminal::compile {
namespace {

using search::CacheFolder;
using testing::HasSubstr;

constexpr const char* mean_text = R"(symbol n: 1..64

fn @main(%x: f32[n, 8]) {
  %c = const f32 2
  %b = view %c [row: n, col: 8] -> []
  %y = mul %x, %b
  %f = fold [row: n, col: 8] over [col] { sum %y[row, col] }
  %s = get %f, 0
  return out = %s
})";

Options kept_options() {
  Options options = Options::host(1);
  options.kept_plans = true;
  options.rules.set = RuleSet::of({});
  return options;
}
bool is_read(const Compiled& compiled) { return !compiled.made_before.empty(); }

TEST(KeptPlans, TheNextCompilationReadsThePlan) {
  CacheFolder folder("kept_plans");
  const Module module = parse_module(mean_text);
  const Compiled first = compile(module, kept_options()).value();
  EXPECT_FALSE(is_read(first));
  const Compiled second = compile(module, kept_options()).value();
  ASSERT_TRUE(is_read(second));
  EXPECT_EQ(runtime::to_string(*second.plan), runtime::to_string(*first.plan));
  EXPECT_EQ(*second.plan->kernels.front().object, *first.plan->kernels.front().object);
  EXPECT_EQ(second.schedules, first.schedules);
  EXPECT_EQ(second.kernels, first.kernels);
  EXPECT_EQ(second.cached, second.kernels);
  EXPECT_THAT(second.report(), HasSubstr("read from the cache"));
  EXPECT_THAT(second.report(), HasSubstr(first.report()));
}

TEST(KeptPlans, WhatIsDamagedIsMadeAgain) {
  CacheFolder folder("kept_plans_damaged");
  const Module module = parse_module(mean_text);
  (void)compile(module, kept_options()).value();
  const auto key = KeptPlans::shared().key(module, kept_options());
  ASSERT_TRUE(key);
  const std::string path = KeptPlans::shared().files().path(*key);
  std::string text = read_file(path).value();
  text[text.size() / 2] ^= 1;
  std::ofstream(path, std::ios::binary) << text;
  EXPECT_FALSE(is_read(compile(module, kept_options()).value()));
  EXPECT_TRUE(is_read(compile(module, kept_options()).value()));
}

/// Sound files that say something else, as another program could write them.
TEST(KeptPlans, WhatIsNoPlanIsMadeAgain) {
  CacheFolder folder("kept_plans_foreign");
  const Module module = parse_module(mean_text);
  const auto key = KeptPlans::shared().key(module, kept_options());
  ASSERT_TRUE(key);
  for (const std::string_view content :
       {"", "x", "{}\n", "{\"kernels\": 1, \"schedules\": 2, \"report\": 0}\n",
        "{\"kernels\": 1, \"schedules\": [], \"report\": 99}\n",
        "{\"kernels\": 1, \"schedules\": [], \"report\": 0}\nx"}) {
    FileCache files((std::filesystem::path(std::getenv("LUMINAL_CACHE_DIR")) / "plans").string(), ".plan",
                    1 << 20);
    files.store(*key, {&content, 1});
    EXPECT_FALSE(KeptPlans::shared().find(*key)) << content;
  }
}

TEST(KeptPlans, AnyDifferenceOfTheModuleIsAnotherPlan) {
  CacheFolder folder("kept_plans_modules");
  const auto key_of = [](const std::string& text) {
    return KeptPlans::shared().key(parse_module(text), kept_options());
  };
  std::map<Hash128, std::string> keys;
  const auto is_new = [&](const std::string& from, const std::string& to) {
    std::string text = mean_text;
    for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
      text.replace(at, from.size(), to);
    const auto key = key_of(text);
    ASSERT_TRUE(key) << to;
    const auto [known, added] = keys.emplace(*key, to);
    EXPECT_TRUE(added) << to << " has the key of " << known->second;
  };
  is_new("#", "#"); // as it is
  is_new("1..64", "1..65");
  is_new("1..64", "1..64 multiple 2");
  is_new("symbol n: 1..64\n", "symbol n: 1..64\nassume n <= 60\n");
  is_new("symbol n: 1..64\n", "symbol n: 1..64\nsymbol m: 1..64\n");
  is_new("%x", "%z");          // the name of an argument
  is_new("out =", "result ="); // and of a result
  is_new("%y", "%w");          // of a value, which names kernels
  is_new("row", "line");       // of an axis
  is_new("const f32 2", "const f32 3");
  is_new("f32", "f64");
  is_new("sum", "max");
  is_new("8", "9");
  is_new("over [col]", "over [row]");
  is_new("@main", "@other");
  const Module module = parse_module(mean_text);
  Module placed = module;
  placed.functions[0].nodes.back().origin = "model.cpp:3";
  EXPECT_NE(KeptPlans::shared().key(placed, kept_options()), KeptPlans::shared().key(module, kept_options()));
}

TEST(KeptPlans, AnyDifferenceOfTheOptionsIsAnotherPlan) {
  CacheFolder folder("kept_plans_options");
  const Module module = parse_module(mean_text);
  std::vector<Hash128> keys{KeptPlans::shared().key(module, kept_options()).value()};
  const auto is_new = [&](const char* what, const std::function<void(Options&)>& change) {
    Options options = kept_options();
    change(options);
    const auto key = KeptPlans::shared().key(module, options);
    ASSERT_TRUE(key) << what;
    EXPECT_THAT(keys, testing::Not(testing::Contains(*key))) << what;
    keys.push_back(*key);
  };
  is_new("sizes", [](Options& o) { o.sizes["n"] = 3; });
  is_new("memory", [](Options& o) { o.max_memory = 1 << 20; });
  is_new("workers", [](Options& o) { o.limits.threads = 2; });
  is_new("a cache", [](Options& o) { o.limits.l2 *= 2; });
  is_new("a unit", [](Options& o) { o.limits.units.push_back("unit"); });
  is_new("processor", [](Options& o) { o.target.cpu.features += ",+nothing"; });
  is_new("bandwidth", [](Options& o) { o.profile.memory.read += 1; });
  is_new("no rules", [](Options& o) { o.rules.on = false; });
  is_new("a rule less", [](Options& o) { o.rules.set = RuleSet::of({.forbidden = {"fac-mul"}}); });
  is_new("work", [](Options& o) { o.rules.work += 1; });
  is_new("seed", [](Options& o) { o.rules.seed += 1; });
  is_new("strict", [](Options& o) { o.strict = true; });
  const auto tuning = std::make_shared<search::TuningCache>("");
  is_new("a tuning cache", [&](Options& o) { o.tuning = tuning; });
  search::TuningEntry entry = search::example_entry(1);
  tuning->put(entry);
  is_new("an entry", [&](Options& o) { o.tuning = tuning; });
  tuning->put(search::example_entry(2));
  is_new("another entry", [&](Options& o) { o.tuning = tuning; });
  tuning->quarantine(entry.key, entry.schedule, "wrong", "");
  is_new("a quarantine", [&](Options& o) { o.tuning = tuning; });
}

/// The same of a file that other processes write.
TEST(KeptPlans, WhatTuningFoundIsPartOfTheKey) {
  CacheFolder folder("kept_plans_tuning");
  search::ScratchFolder files("kept_plans_file");
  search::TuningCache here(files.file()), there(files.file());
  const Hash128 none = here.state_hash();
  there.put(search::example_entry(1));
  const Hash128 one = here.state_hash();
  EXPECT_NE(one, none);
  EXPECT_EQ(one, there.state_hash());
  search::TuningEntry entry = search::example_entry(1);
  entry.checked = !entry.checked;
  there.put(entry, search::TuningCache::Keep::newest);
  EXPECT_NE(here.state_hash(), one);
  there.quarantine(entry.key, entry.schedule, "wrong", "");
  EXPECT_NE(here.state_hash(), one);
  EXPECT_NE(here.state_hash(), none);
}

TEST(KeptPlans, WhatAHashCannotTellIsNotKept) {
  CacheFolder folder("kept_plans_not");
  const Module module = parse_module(mean_text);
  const auto is_not_kept = [&](const char* what, const std::function<void(Options&)>& change) {
    Options options = kept_options();
    change(options);
    EXPECT_FALSE(KeptPlans::shared().key(module, options)) << what;
  };
  is_not_kept("no cache", [](Options& o) { o.cache = false; });
  is_not_kept("a search", [](Options& o) { o.search.mode = SearchMode::optimal; });
  is_not_kept("passes", [](Options& o) { o.passes = passes::none(); });
  is_not_kept("schedules", [](Options& o) { o.schedules["k0"] = ""; });
  is_not_kept("a partition", [](Options& o) {
    o.partitioner = [](const Region&) -> Result<std::optional<Partition>> {
      return std::optional<Partition>();
    };
  });
  is_not_kept("a plan's file", [](Options& o) { o.plan = "a.plan"; });
  is_not_kept("text", [](Options& o) { o.target.language = "opencl"; });
  is_not_kept("a choice", [](Options& o) {
    o.rules.choose = [](rules::RegionTerms&, const rules::Entered&) {
      return std::optional<rules::Choice>();
    };
  });
  is_not_kept("approximation", [](Options& o) { o.rules.set = RuleSet::of({.max_error = 0.1}); });
  is_not_kept("time", [](Options& o) { o.rules.seconds = 1; });
  const Module printing = parse_module(R"(fn @main(%x: f32[4]) {
  %p = host print "x" (%x)
  %y = get %p, 0
  return out = %y
})");
  EXPECT_FALSE(KeptPlans::shared().key(printing, kept_options()));
  setenv("LUMINAL_NO_CACHE", "1", 1);
  EXPECT_FALSE(KeptPlans::shared().key(module, kept_options()));
  unsetenv("LUMINAL_NO_CACHE");
}

} // namespace
} // namespace luminal::compile
