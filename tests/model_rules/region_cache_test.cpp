// model_rules/region_cache_test.cpp -- what the search of regions found is read from disk by the next
// process, and nothing else is: not what is damaged, of other rules or of another region.
#include "base/file.h"
#include "compile/builder.h"
#include "compile/region_cache.h"
#include "model_graphs.h"
#include "rules/emit_region.h"
#include "rules/fragment_text.h"
#include "rules/round_trip.h"
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <gtest/gtest.h>
#include <unistd.h>

namespace luminal {
namespace {

namespace fs = std::filesystem;
using namespace testing_rules;

/// The cache of a process that has just begun: each copy of the folder has a memory of its own.
class Folder {
public:
  Folder() {
    std::string pattern = (fs::temp_directory_path() / "luminal_regions_XXXXXX").string();
    root_ = mkdtemp(pattern.data());
    next();
  }
  ~Folder() {
    std::error_code ignored;
    fs::remove_all(root_, ignored);
    unsetenv("LUMINAL_CACHE_DIR");
  }
  Folder(const Folder&) = delete;
  /// Another process: the files as they are, nothing in memory.
  void next() {
    const fs::path to = fs::path(root_) / std::to_string(count_++);
    if (now_.empty())
      fs::create_directories(to);
    else
      fs::copy(now_, to, fs::copy_options::recursive);
    now_ = to;
    setenv("LUMINAL_CACHE_DIR", now_.c_str(), 1);
  }
  std::vector<fs::path> files() const {
    std::vector<fs::path> out;
    for (const auto& entry : fs::recursive_directory_iterator(now_))
      if (entry.path().extension() == ".region") out.push_back(entry.path());
    return out;
  }
  FileCache cache() const { return {(now_ / "regions").string(), ".region", 1 << 20}; }

private:
  std::string root_;
  fs::path now_;
  int count_ = 0;
};

Hash128 key_of(const fs::path& file) {
  const std::string hex = file.parent_path().filename().string() + file.stem().string();
  return {std::stoull(hex.substr(16), nullptr, 16), std::stoull(hex.substr(0, 16), nullptr, 16)};
}

struct Built {
  std::string plan, terms;
  std::vector<compile::RegionReport> regions;
  bool all_known() const { return std::ranges::all_of(regions, &compile::RegionReport::cached); }
  bool any_known() const { return std::ranges::any_of(regions, &compile::RegionReport::cached); }
};
Built build(const Module& module, const RuleChoice& choice = {}, bool files = true) {
  compile::KernelPlanner planner({.limits = search::MachineProfile::guess(1).limits()});
  compile::RuleOptions rules;
  rules.files = files;
  rules.choice = choice;
  compile::PlanBuilder builder(module, planner, {}, rules);
  const auto plan = builder.build();
  EXPECT_TRUE(plan) << plan.error();
  if (!plan) return {};
  return {runtime::to_string(*plan), to_string(Module{module.symbols, module.assumptions, {builder.entry()}}),
          builder.regions()};
}

TEST(RegionCache, TheNextProcessReadsWhatThisOneFound) {
  const std::pair<const char*, Module> modules[] = {{"llama", llama(2)}, {"convolutions", resnet(1, 2)}};
  for (const auto& [name, module] : modules) {
    Folder folder;
    const Built first = build(module);
    EXPECT_FALSE(first.all_known()) << name;
    EXPECT_TRUE(std::ranges::any_of(first.regions, [](const auto& r) { return r.outcome.empty(); })) << name;
    EXPECT_FALSE(folder.files().empty()) << name;
    folder.next();
    const Built second = build(module);
    EXPECT_TRUE(second.all_known()) << name;
    EXPECT_EQ(second.plan, first.plan) << name;
    EXPECT_EQ(second.terms, first.terms) << name;
    ASSERT_EQ(second.regions.size(), first.regions.size()) << name;
    for (size_t k = 0; k < first.regions.size(); ++k) {
      EXPECT_EQ(second.regions[k].rules, first.regions[k].rules) << name;
      EXPECT_EQ(second.regions[k].estimate_s, first.regions[k].estimate_s) << name;
      EXPECT_EQ(second.regions[k].outcome, first.regions[k].outcome) << name;
    }
  }
}

/// A dimension that has one size is that number in some types and its name in others.
TEST(RegionCache, DimensionsOfOneSizeAreFoundAgain) {
  const Module module = parse_module(R"(symbol n: 1..1
symbol t: 1..64

fn @main(%x: f32[n, 64], weight %w: f32[48, 64], %c: f32[t, 64]) {
  %e = exp %x
  %f = fold [i: n, k: 64] over [k] { sum %e[i, k] }
  %s = get %f, 0
  %b = view %s [i: n, k: 64] -> [i]
  %p = div %e, %b
  %v = view %p [i: n, j: 48, k: 64] -> [i, k]
  %u = view %w [i: n, j: 48, k: 64] -> [j, k]
  %m = mul %v, %u
  %g = fold [i: n, j: 48, k: 64] over [k] { sum %m[i, j, k] }
  %y = get %g, 0
  %d = view %p [i: n, t: t, k: 64] -> [i, k]
  %h = view %c [i: n, t: t, k: 64] -> [t, k]
  %q = mul %d, %h
  %o = fold [i: n, t: t, k: 64] over [k] { sum %q[i, t, k] }
  %z = get %o, 0
  return y = %y, z = %z
}
)",
                                     "one");
  Folder folder;
  const Built first = build(module);
  EXPECT_FALSE(folder.files().empty());
  folder.next();
  const Built second = build(module);
  EXPECT_TRUE(second.all_known());
  EXPECT_EQ(second.plan, first.plan);
}

TEST(RegionCache, OtherRulesAndNoFilesAreSearchedAgain) {
  Folder folder;
  const Module module = transformer(1, true);
  (void)build(module);
  folder.next();
  EXPECT_FALSE(build(module, {.forbidden = {"neg-neg"}}).any_known());
  EXPECT_FALSE(build(module, {}, false).any_known());
  folder.next();
  setenv("LUMINAL_NO_CACHE", "1", 1);
  const size_t before = folder.files().size();
  EXPECT_FALSE(build(transformer(1, true, 48)).any_known());
  EXPECT_EQ(folder.files().size(), before);
  unsetenv("LUMINAL_NO_CACHE");
}

TEST(RegionCache, WhatIsWrongIsNotBelieved) {
  Folder folder;
  const Module module = llama(1);
  const Built first = build(module);
  const auto files = folder.files();
  ASSERT_FALSE(files.empty());
  // Damaged: found by the checksum. Whole and wrong: found by what it says.
  using Change = std::function<std::string(std::string)>;
  const auto swapped = [](const char* from, const char* to) -> Change {
    return [=](std::string text) {
      const size_t at = text.find(from);
      if (at != std::string::npos) text.replace(at, std::string(from).size(), to);
      return text;
    };
  };
  const std::pair<const char*, Change> changes[] = {
      {"nothing", [](const std::string&) { return std::string(); }},
      {"no report", [](const std::string& text) { return text.substr(text.find('\n')); }},
      {"a report without a key", swapped("\"outcome\"", "\"outgo\"")},
      {"half of the terms", [](const std::string& text) { return text.substr(0, text.size() / 2); }},
      {"another type", swapped("f32[", "f64[")},
      {"another root", swapped("\nroot ", "\nroot 1")},
      {"a root less", swapped("\nroot ", "\nopen ")},
      {"other leaves", swapped("\nleaves ", "\nleaves 9")},
      {"an unknown line", swapped("\nroot ", "\nruth ")},
  };
  for (const auto& [what, change] : changes) {
    folder.next();
    FileCache cache = folder.cache();
    size_t changed = 0;
    for (const fs::path& file : folder.files()) {
      const auto content = cache.find(key_of(file));
      ASSERT_TRUE(content) << what;
      const std::string now = change(*content);
      changed += now != *content;
      const std::string_view parts[] = {now};
      cache.store(key_of(file), parts);
    }
    EXPECT_GT(changed, 0u) << what;
    const Built again = build(module);
    EXPECT_FALSE(again.all_known()) << what;
    EXPECT_EQ(again.plan, first.plan) << what;
  }
  folder.next();
  for (const fs::path& file : folder.files()) fs::resize_file(file, fs::file_size(file) - 1);
  EXPECT_FALSE(build(module).any_known());
}

/// The text form says all of a fragment, or nothing.
TEST(FragmentText, IsReadAsItWasWritten) {
  rules::RegionTerms terms;
  size_t written = 0, regions = 0;
  const auto check = [&](const Module& module, const std::string& name) {
    const rules::FlatFunction flat(module, module.entry());
    for (const rules::FunctionRegion& region : rules::cut_regions(flat).regions) {
      const auto function = compile::region_function(flat, region);
      terms.clear();
      const auto entered = rules::enter(terms, *function->flat, {function->roots, {}});
      if (!entered) continue;
      ++regions;
      rules::Choice choice = rules::first_rows(terms);
      choice.decided = true;
      for (const NodeId id : entered->nodes)
        if (entered->kinds[id] == rules::TermKind::map && id.number() % 2 == 0)
          choice.kernels.push_back({entered->classes[id]});
      const rules::Fragment fragment = rules::emit(terms, *entered, choice);
      const auto text = rules::fragment_text(fragment, function->module);
      if (!text) continue;
      ++written;
      const auto read = rules::read_fragment(*text, function->module, function->roots);
      ASSERT_TRUE(read) << name << "\n" << *text;
      EXPECT_EQ(rules::fragment_text(*read, function->module), text) << name;
      Partition partition[2];
      IdVector<NodeId, bool> decided[2];
      std::string made[2];
      for (const int k : {0, 1}) {
        rules::FunctionWriter writer(function->module.entry());
        writer.place(k == 0 ? fragment : *read);
        const Function f = writer.finish(&partition[k], &decided[k]);
        made[k] = to_string(Module{module.symbols, module.assumptions, {f}});
      }
      EXPECT_EQ(made[0], made[1]) << name;
      EXPECT_EQ(partition[0], partition[1]) << name;
      EXPECT_EQ(decided[0], decided[1]) << name;
    }
  };
  for (const auto& [name, module] : model_graphs()) check(module, name);
  for (uint64_t seed = 0; seed < 60; ++seed) {
    testing_ir::RandomModuleOptions options;
    options.nodes = 6 + int(seed % 20);
    check(testing_ir::RandomModule(seed, options).module, "seed " + std::to_string(seed));
  }
  EXPECT_GT(written, regions * 3 / 4); // others read tuples, or call functions
}

} // namespace
} // namespace luminal
