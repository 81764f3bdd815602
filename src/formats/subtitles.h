// formats/subtitles.h -- lines of text with times as files: SubRip, WebVTT, tab-separated, plain.
#pragma once
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace luminal {

/// A line of text, and when it is said: seconds from the beginning.
struct TimedText {
  double start = 0, end = 0;
  std::string text;
};

/// "00:00.000", from an hour on "01:00:00.000"; hours always where asked; rounded to milliseconds.
std::string time_text(double seconds, bool hours = false, char fraction = '.');

std::string to_txt(std::span<const TimedText> lines); ///< the texts, a line each
std::string to_srt(std::span<const TimedText> lines); ///< SubRip
std::string to_vtt(std::span<const TimedText> lines); ///< WebVTT (W3C)
std::string to_tsv(std::span<const TimedText> lines); ///< start, end in milliseconds, text; a header

} // namespace luminal
