// choose/decisions.cpp -- questions, answers and their text.
#include "choose/decisions.h"
#include "luminal/error.h"
#include <algorithm>
#include <charconv>
#include <fmt/format.h>

namespace luminal::kernel {

int64_t Decisions::ask(std::string name, int64_t usual, std::vector<int64_t> options) {
  options.push_back(usual);
  std::ranges::sort(options);
  options.erase(std::ranges::unique(options).begin(), options.end());
  std::erase_if(made_, [&](const Decision& d) { return d.name == name; });
  const auto wanted = wanted_.find(name);
  const bool other = wanted != wanted_.end() && std::ranges::binary_search(options, wanted->second);
  made_.push_back({std::move(name), std::move(options), usual, other ? wanted->second : usual});
  return made_.back().taken;
}

std::string to_string(const Answers& answers) {
  std::string text;
  for (const auto& [name, value] : answers)
    text += fmt::format("{}{}={}", text.empty() ? "" : " ", name, value);
  return text;
}

Answers parse_answers(std::string_view text) {
  Answers answers;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find(' ', at), text.size());
    const std::string_view word = text.substr(at, end - at);
    at = end + 1;
    if (word.empty()) continue;
    const size_t equals = word.rfind('=');
    int64_t value = 0;
    const char *first = word.data() + equals + 1, *last = word.data() + word.size();
    if (equals == 0 || equals == std::string_view::npos || first == last ||
        std::from_chars(first, last, value).ptr != last)
      throw Error(fmt::format("answers: '{}' is not NAME=INTEGER", word));
    answers[std::string(word.substr(0, equals))] = value;
  }
  return answers;
}

} // namespace luminal::kernel
