// tests/base/settings_test.cpp -- environment variables, and the log that reads them.
#include "base/log.h"
#include "base/settings.h"
#include "luminal/error.h"
#include <cstdlib>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <set>

using namespace luminal;
using testing::HasSubstr;

namespace {

class Variable {
public:
  Variable(const char* name, const char* value) : name_(name) {
    const char* old = std::getenv(name);
    if (old) old_ = old;
    had_ = old != nullptr;
    setenv(name, value, 1);
  }
  ~Variable() { had_ ? setenv(name_, old_.c_str(), 1) : unsetenv(name_); }

private:
  const char* name_;
  std::string old_;
  bool had_ = false;
};

} // namespace

TEST(Settings, TableIsInOrder) {
  std::set<std::string_view> names;
  for (const Setting& s : settings_table()) {
    EXPECT_TRUE(names.insert(s.name).second) << s.name;
    EXPECT_TRUE(s.name.starts_with("LUMINAL_") || s.name == "NO_COLOR") << s.name;
    EXPECT_FALSE(s.doc.empty()) << s.name;
    EXPECT_EQ(s.doc.find('\n'), std::string_view::npos);
  }
}

TEST(Settings, Values) {
  {
    const Variable v("LUMINAL_THREADS", "3");
    EXPECT_EQ(setting_integer("LUMINAL_THREADS"), 3);
    EXPECT_EQ(setting_threads(), 3);
  }
  {
    const Variable v("LUMINAL_THREADS", "");
    EXPECT_GE(setting_threads(), 1);
  }
  {
    const Variable v("LUMINAL_NO_CACHE", "on");
    EXPECT_TRUE(setting_flag("LUMINAL_NO_CACHE"));
  }
  {
    const Variable v("LUMINAL_CACHE_DIR", "/somewhere");
    EXPECT_EQ(cache_folder(), "/somewhere");
    const Variable none("LUMINAL_NO_CACHE", "1");
    EXPECT_EQ(cache_folder(), "");
  }
}

TEST(Settings, WrongValuesAreRefused) {
  for (const char* bad : {"two", "1x", "99999999999999999999", "-1", "5000"}) {
    const Variable v("LUMINAL_THREADS", bad);
    try {
      setting_threads();
      ADD_FAILURE() << bad;
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr("LUMINAL_THREADS"));
    }
  }
  const Variable v("LUMINAL_NO_CACHE", "maybe");
  EXPECT_THROW(setting_flag("LUMINAL_NO_CACHE"), Error);
  EXPECT_THROW(setting_text("LUMINAL_UNKNOWN"), InternalError);
}

TEST(Log, LevelsAndSink) {
  std::vector<std::string> seen;
  set_log_sink([&](LogLevel level, std::string_view text) {
    seen.push_back(std::to_string(static_cast<int>(level)) + std::string(text));
  });
  const LogLevel before = log_level();
  set_log_level(LogLevel::warning);
  log_error("e {}", 1);
  log_warning("w");
  log_info("i");
  set_log_level(LogLevel::debug);
  log_debug("d {}", "x");
  set_log_level(before);
  set_log_sink({});
  EXPECT_THAT(seen, testing::ElementsAre("0e 1", "1w", "3d x"));
}
