// formats/regex.h -- regular expressions of tokenizers: PCRE2 with UTF and Unicode properties,
// compiled by its JIT.
#pragma once
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace luminal::detail {

class Regex {
public:
  /// Refuses (ParseFailure) a pattern that does not compile, with PCRE2's reason and the position.
  /// `what` names it.
  Regex(std::string_view pattern, std::string_view file, std::string_view what);

  /// [begin, end) of all non-empty matches, left to right. `text` is UTF-8. Throws luminal::Error
  /// where a match takes more steps than the limit (patterns that backtrack without end).
  void find_all(std::string_view text, std::vector<std::pair<size_t, size_t>>& out) const;
  const std::string& pattern() const { return pattern_; }

private:
  std::string pattern_;
  std::shared_ptr<const void> code_;
  bool compiled_ = false; ///< by the JIT
};

/// A pattern of Hugging Face tokenizers (Oniguruma's syntax) in PCRE2's: \w and \b by Oniguruma's
/// Unicode definition of a word, \h as a hexadecimal digit. Refuses what has no counterpart here,
/// by name.
std::string from_oniguruma(std::string_view pattern, std::string_view file, std::string_view what);

} // namespace luminal::detail
