// base/settings.h -- THE table of environment variables.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace luminal {

enum class SettingType : uint8_t { integer, flag, text };

struct Setting {
  std::string_view name;
  SettingType type;
  std::string_view default_text;
  std::string_view doc;
};

/// Every variable that the program reads, in the order of `luminal help env`.
std::span<const Setting> settings_table();

/// Variables of the environment that begin with LUMINAL_ and that nobody reads: misspelt ones.
std::vector<std::string> unknown_settings();

/// The variable's value, or its default; throws Error for a value that is not of its type. Only
/// names of the table.
std::string setting_text(std::string_view name);
int64_t setting_integer(std::string_view name);
bool setting_flag(std::string_view name);

/// LUMINAL_THREADS, or the number of cores this process may use.
int setting_threads();
/// LUMINAL_DEBUG, 0..7.
int debug_level();
/// The folder for caches: LUMINAL_CACHE_DIR, else XDG_CACHE_HOME/luminal, else HOME/.cache/luminal;
/// empty with LUMINAL_NO_CACHE or where there is none.
std::string cache_folder();

} // namespace luminal
