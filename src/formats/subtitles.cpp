// formats/subtitles.cpp -- writing lines of text with times.
#include "formats/subtitles.h"
#include "base/text.h"
#include <algorithm>
#include <cmath>
#include <fmt/format.h>

namespace luminal {
namespace {

int64_t milliseconds(double seconds) { return std::llround(std::max(0.0, seconds) * 1000); }

/// On one line, without the arrow that stands between times.
std::string line_of(const TimedText& line, bool arrows = false) {
  std::string text(trim(line.text));
  std::ranges::replace(text, '\n', ' ');
  std::ranges::replace(text, '\r', ' ');
  for (size_t at = 0; !arrows && (at = text.find("-->", at)) != std::string::npos;) text.replace(at, 3, "->");
  return text;
}

} // namespace

std::string time_text(double seconds, bool hours, char fraction) {
  const int64_t all = milliseconds(seconds), hour = all / 3600000;
  const std::string rest =
      fmt::format("{:02}:{:02}{}{:03}", all / 60000 % 60, all / 1000 % 60, fraction, all % 1000);
  return hours || hour > 0 ? fmt::format("{:02}:{}", hour, rest) : rest;
}

std::string to_txt(std::span<const TimedText> lines) {
  std::string out;
  for (const TimedText& line : lines) out += line_of(line, true) + "\n";
  return out;
}
std::string to_srt(std::span<const TimedText> lines) {
  std::string out;
  int number = 0;
  for (const TimedText& line : lines)
    out += fmt::format("{}\n{} --> {}\n{}\n\n", ++number, time_text(line.start, true, ','),
                       time_text(line.end, true, ','), line_of(line));
  return out;
}
std::string to_vtt(std::span<const TimedText> lines) {
  std::string out = "WEBVTT\n\n";
  for (const TimedText& line : lines)
    out += fmt::format("{} --> {}\n{}\n\n", time_text(line.start), time_text(line.end), line_of(line));
  return out;
}
std::string to_tsv(std::span<const TimedText> lines) {
  std::string out = "start\tend\ttext\n";
  for (const TimedText& line : lines) {
    std::string text = line_of(line, true);
    std::ranges::replace(text, '\t', ' ');
    out += fmt::format("{}\t{}\t{}\n", milliseconds(line.start), milliseconds(line.end), text);
  }
  return out;
}

} // namespace luminal
