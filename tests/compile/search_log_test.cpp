// search_log_test.cpp -- a search and its log: replayed, it gives the same plan without measuring; a log of
// another machine, build, model or kind is told what is different.
#include "base/file.h"
#include "base/hash.h"
#include "base/text.h"
#include "base/thread_pool.h"
#include "compile/plan_file.h"
#include "compile/search_log.h"
#include "luminal/graph.h"
#include "search/measure_log.h"
#include "search/problem_support.h"
#include <gmock/gmock.h>

namespace luminal::compile::search_log_test {
namespace {

using search::ScratchFolder;
using search::TuningCache;
using testing::EndsWith;
using testing::HasSubstr;

/// A product and a softmax, so that kernels and plans of a region are searched.
const char* const program = R"(
symbol n: 1..64
fn @main(%x: f32[n, 48], weight %w: f32[48, 96]) {
  %a = view %x [m: n, c: 96, k: 48] -> [m, k]
  %b = view %w [m: n, c: 96, k: 48] -> [k, c]
  %p = mul %a, %b
  %f = fold [m: n, c: 96, k: 48] over [k] { sum %p[m, c, k] }
  %g = get %f, 0
  %mf = fold [r: n, c: 96] over [c] { max %g[r, c] }
  %m = get %mf, 0
  %mb = view %m [r: n, c: 96] -> [r]
  %d = sub %g, %mb
  %e = exp %d
  %sf = fold [r: n, c: 96] over [c] { sum %e[r, c] }
  %s = get %sf, 0
  %sb = view %s [r: n, c: 96] -> [r]
  %y = div %e, %sb
  return y = %y
})";

Options options_in(const ScratchFolder& folder, ThreadPool& pool) {
  Options options = Options::host(pool.size());
  options.cache = false;
  options.pool = &pool;
  options.tuning = std::make_shared<TuningCache>("");
  options.worker = search::worker_processes;
  options.reproducers = folder.file("reproducers");
  options.measure_lock = folder.file("lock");
  return options;
}

Compiled searched(Options options, const char* module = program) {
  open_search_log(options).value();
  Compiled made = compile(parse_module(module), options).value();
  close_search_log(options).value();
  return made;
}

/// A short search that leaves its log in the folder.
Compiled logged(const ScratchFolder& folder, ThreadPool& pool, SearchMode mode = SearchMode::budget) {
  Options options = options_in(folder, pool);
  options.search.mode = mode;
  options.search.seconds = 3;
  options.search.log = {.write = folder.file("log"), .about = R"({"who":"a test"})"};
  return searched(options);
}

std::string text_of(const ScratchFolder& folder) { return read_file(folder.file("log")).value(); }

/// The text with its checksum made right again.
std::string sealed(std::string text) {
  text = text.substr(0, text.find("{\"end\":"));
  return text + fmt::format("{{\"end\":\"{}\"}}\n", hash128(text).hex());
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return at == std::string::npos ? text : text.replace(at, from.size(), to);
}

Options replaying(const ScratchFolder& folder, ThreadPool& pool) {
  Options options = options_in(folder, pool);
  options.search.log.replay = folder.file("log");
  options.measure_lock = "/nowhere/lock"; // who measures fails
  options.reproducers = "/nowhere/reproducers";
  return options;
}

TEST(SearchLog, AReplayGivesTheSamePlanWithoutMeasuring) {
  const ScratchFolder folder("search_log");
  ThreadPool pool(2);
  const Compiled first = logged(folder, pool);
  ASSERT_GE(first.search->searched, 1);
  for (int again = 0; again < 2; ++again) {
    const Options options = replaying(folder, pool);
    const Compiled second = searched(options);
    EXPECT_EQ(export_plan({&second}), export_plan({&first}));
    EXPECT_EQ(second.schedules, first.schedules);
    EXPECT_EQ(second.search->tried, first.search->tried);
    EXPECT_EQ(second.search->rejected, first.search->rejected);
    EXPECT_EQ(second.search->region_plans, first.search->region_plans);
    EXPECT_EQ(second.search->program_after, first.search->program_after);
    EXPECT_EQ(second.search->complete, first.search->complete);
    EXPECT_THAT(options.tuning->entries(), testing::IsEmpty()) << "it keeps nothing";
    ProgramRace race({.pool = &pool, .sizes = {{"n", 7}}}); // and what it gives runs
    const ProgramId a = race.add(first.plan).value(), b = race.add(second.plan).value();
    EXPECT_EQ(race.difference(a, b).value(), "");
  }
}

TEST(SearchLog, SearchesThatWereStoppedAndThoseThatBeganWithACacheAreReplayed) {
  const ScratchFolder folder("search_log_cache");
  ThreadPool pool(1);
  Options options = options_in(folder, pool);
  options.search.mode = SearchMode::budget;
  options.search.seconds = 2;
  options.search.log.write = folder.file("log");
  searched(options);
  const auto kept = options.tuning;
  int left = 400; // in the middle of something
  options.search.stop = [&] { return --left < 0; };
  const Compiled second = searched(options);
  EXPECT_FALSE(second.search->complete);
  EXPECT_THAT(text_of(folder), HasSubstr("{\"kept\":{\"name\":"));
  const Compiled again = searched(replaying(folder, pool));
  EXPECT_EQ(export_plan({&again}), export_plan({&second}));
  EXPECT_EQ(again.search->tried, second.search->tried);
}

TEST(SearchLog, TheMeasurementsDecide) {
  const ScratchFolder folder("search_log_decides");
  ThreadPool pool(1);
  const Compiled first = logged(folder, pool);
  // The kernels that were there were slow: others win.
  std::string text;
  for (const std::string_view line : split(text_of(folder), '\n')) {
    if (!line.starts_with("{\"samples\":[")) {
      text += std::string(line) + "\n";
      continue;
    }
    std::string made;
    const std::vector<std::string_view> parts = split(line.substr(12, line.size() - 14), ',');
    for (size_t k = 0; k + 1 < parts.size(); k += 2)
      made +=
          fmt::format("{}{},{}", made.empty() ? "" : ",", parts[k], parts[k] == "0" ? "0.5" : parts[k + 1]);
    text += "{\"samples\":[" + made + "]}\n";
  }
  ASSERT_TRUE(write_file(folder.file("log"), std::string_view(sealed(text))));
  std::string told;
  try {
    const Compiled second = searched(replaying(folder, pool));
    if (export_plan({&second}) != export_plan({&first})) told = "another plan";
  } catch (const Error& error) {
    told = error.what();
  }
  EXPECT_NE(told, "");
}

TEST(SearchLog, OfSomethingElseIsRefusedInOneLine) {
  const ScratchFolder folder("search_log_other");
  ThreadPool pool(1), two(2);
  Options quick = options_in(folder, pool);
  quick.search.mode = SearchMode::budget;
  quick.search.stop = [] { return true; };
  quick.search.log.write = folder.file("log");
  searched(quick);
  const std::string text = text_of(folder), log = folder.file("log");
  const auto error = [&](const std::string& changed, ThreadPool& on, const char* module = program) {
    EXPECT_TRUE(write_file(log, std::string_view(sealed(changed))));
    try {
      searched(replaying(folder, on), module);
    } catch (const Error& mistake) {
      return std::string(mistake.what());
    }
    return std::string();
  };
  const std::string here = "the log " + log + " cannot be replayed here: ";
  EXPECT_EQ(error(text, pool), "");
  EXPECT_EQ(error(text, two), here + "it is for 1 threads, here are 2");
  EXPECT_THAT(error(replaced(text, "\"instructions\":\"", "\"instructions\":\"other-"), pool),
              HasSubstr(here + "its machine has the instructions other-"));
  const auto other_digit = [&](const std::string& field) {
    const size_t at = text.find("\"" + field + "\":\"") + field.size() + 4;
    return text.substr(0, at) + (text[at] == '0' ? '1' : '0') + text.substr(at + 1);
  };
  EXPECT_EQ(error(other_digit("device"), pool), here + "it is of another machine");
  EXPECT_EQ(error(other_digit("codegen"), pool), here + "it is of another build of luminal");
  EXPECT_EQ(error(other_digit("program"), pool), here + "it is of another build of luminal");
  EXPECT_THAT(error(replaced(text, "\"llvm\":\"", "\"llvm\":\"1."), pool),
              HasSubstr(here + "its LLVM is 1."));
  const std::string model =
      "the log " + log + " is of another model, or of other sizes, rules or options of it";
  EXPECT_EQ(error(text, pool, "fn @main(%x: f32[8]) {\n  %y = neg %x\n  return y = %y\n}"), model);
  Options sized = replaying(folder, pool);
  sized.sizes["n"] = 5;
  EXPECT_TRUE(write_file(log, std::string_view(text)));
  EXPECT_THROW(searched(sized), Error);
}

TEST(SearchLog, OptionsThatContradictEachOtherAreTold) {
  const ScratchFolder folder("search_log_options");
  ThreadPool pool(1);
  Options options = options_in(folder, pool);
  options.search.log.write = "a.log";
  EXPECT_EQ(open_search_log(options).error(),
            "nothing is measured without a search, so there is no log to write (a.log)");
  options.search.log.replay = "b.log";
  EXPECT_EQ(open_search_log(options).error(), "b.log is replayed, so there is no other log to write (a.log)");
}

} // namespace
} // namespace luminal::compile::search_log_test
