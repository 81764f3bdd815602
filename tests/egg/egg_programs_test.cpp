// egg/egg_programs_test.cpp -- every program of programs/ against what it printed once; and
// printed, parsed and run again.
#include "base/file.h"
#include "egg/egg_program.h"
#include "luminal/error.h"
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <gtest/gtest.h>

namespace luminal::egraph {
namespace {

const std::string folder = std::string(LUMINAL_SOURCE_DIR) + "/tests/egg/programs/";

std::vector<std::string> program_names() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    if (entry.path().extension() == ".egg") names.push_back(entry.path().stem().string());
  std::sort(names.begin(), names.end());
  return names;
}

struct Ran {
  std::string outputs, sizes, error;
};

/// Runs a text as if it stood in the folder of the programs.
Ran run(const std::string& text, const std::string& name, int threads = 1) {
  Ran ran;
  EggOptions options;
  options.threads = threads;
  options.iterations = 1000;
  options.output = [&](const EggOutput& out) { ran.outputs += out.text; };
  EggProgram program(options);
  std::filesystem::current_path(folder);
  try {
    program.run(text, name);
  } catch (const Error& error) {
    ran.error = error.what();
  }
  ran.sizes = program.sizes();
  return ran;
}

class Programs : public testing::TestWithParam<std::string> {};

TEST_P(Programs, PrintsWhatItPrintedBefore) {
  const std::string name = GetParam() + ".egg";
  const std::string text = read_file(folder + name).value();
  const Ran ran = run(text, name);
  const std::string now = ran.outputs + (ran.error.empty() ? "" : "error: " + ran.error + "\n");
  const std::string path = folder + GetParam() + ".expected";
  // With this variable set the files are written anew; look at the difference before keeping it.
  if (std::getenv("LUMINAL_UPDATE_EXPECTED") != nullptr) {
    ASSERT_TRUE(write_file(path, "# What " + name + " prints\n" + now).ok());
    return;
  }
  const Result<std::string> before = read_file(path);
  ASSERT_TRUE(before.ok()) << before.error();
  EXPECT_EQ("# What " + name + " prints\n" + now, *before);
}

TEST_P(Programs, PrintedAndParsedAgainItDoesTheSame) {
  const std::string name = GetParam() + ".egg";
  const std::string text = read_file(folder + name).value();
  const std::string printed = format_egg(text, name);
  EXPECT_EQ(format_egg(printed, name), printed);
  const Ran first = run(text, name), second = run(printed, name);
  EXPECT_EQ(first.outputs, second.outputs);
  EXPECT_EQ(first.sizes, second.sizes);
  EXPECT_EQ(first.error.empty(), second.error.empty()) << second.error;
}

TEST_P(Programs, DoTheSameWithThreads) {
  const std::string name = GetParam() + ".egg";
  const std::string text = read_file(folder + name).value();
  const Ran one = run(text, name, 1), four = run(text, name, 4);
  EXPECT_EQ(one.outputs, four.outputs);
  EXPECT_EQ(one.sizes, four.sizes);
  EXPECT_EQ(one.error, four.error);
}

INSTANTIATE_TEST_SUITE_P(Egg, Programs, testing::ValuesIn(program_names()),
                         [](const testing::TestParamInfo<std::string>& tested) { return tested.param; });

} // namespace
} // namespace luminal::egraph
