// cli/replay_test.cpp -- what the verb replay finds in the head of a log.
#include "cli/search_program.h"
#include <gtest/gtest.h>

namespace luminal::cli {
namespace {

TEST(Replay, LogsOfProgramsDoNotSayWhatWasSearched) {
  for (const char* about : {"{}", R"({"model": 3})", R"({"model": "m.lum"})"}) {
    SCOPED_TRACE(about);
    RuleChoice rules;
    try {
      program_about(about, rules);
      ADD_FAILURE() << "accepted";
    } catch (const Error& error) {
      EXPECT_STREQ(error.what(), "its head does not say what was searched: a program wrote it, which can "
                                 "replay it (SearchOptions::log)");
    }
  }
}

} // namespace
} // namespace luminal::cli
