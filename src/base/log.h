// base/log.h -- messages on stderr, whole lines, by level: LUMINAL_LOG says which are shown.
#pragma once
#include <cstdint>
#include <fmt/core.h>
#include <functional>
#include <string>
#include <string_view>

namespace luminal {

enum class LogLevel : uint8_t { error, warning, info, debug };

/// LUMINAL_LOG (error, warning, info, debug; default warning), read once; LUMINAL_DEBUG above 0
/// means debug. Throws Error for another word.
LogLevel log_level();
bool log_shows(LogLevel level);
/// Overrides the environment, for programs with options like --quiet.
void set_log_level(LogLevel level);
/// Where messages go instead of stderr: the message without level, time or colour. Empty: stderr
/// again. Called under a lock.
void set_log_sink(std::function<void(LogLevel, std::string_view)> sink);

namespace detail {
void log_text(LogLevel level, std::string_view text);
}

/// log_warning("{}: {} blocks are unused", path, n). The text is made only where it is shown.
template <class... Args> void log_error(fmt::format_string<Args...> text, Args&&... args) {
  if (log_shows(LogLevel::error))
    detail::log_text(LogLevel::error, fmt::format(text, std::forward<Args>(args)...));
}
template <class... Args> void log_warning(fmt::format_string<Args...> text, Args&&... args) {
  if (log_shows(LogLevel::warning))
    detail::log_text(LogLevel::warning, fmt::format(text, std::forward<Args>(args)...));
}
template <class... Args> void log_info(fmt::format_string<Args...> text, Args&&... args) {
  if (log_shows(LogLevel::info))
    detail::log_text(LogLevel::info, fmt::format(text, std::forward<Args>(args)...));
}
template <class... Args> void log_debug(fmt::format_string<Args...> text, Args&&... args) {
  if (log_shows(LogLevel::debug))
    detail::log_text(LogLevel::debug, fmt::format(text, std::forward<Args>(args)...));
}

} // namespace luminal
