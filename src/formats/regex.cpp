// formats/regex.cpp -- a thin wrapper of PCRE2.
#define PCRE2_CODE_UNIT_WIDTH 8
#include "formats/regex.h"
#include "base/check.h"
#include "formats/parse.h"
#include <pcre2.h>

namespace luminal::detail {
namespace {

constexpr size_t max_pattern_bytes = 100'000;
constexpr uint32_t max_steps = 5'000'000;
constexpr uint32_t max_heap_kib = 64 * 1024;

std::string reason(int code) {
  PCRE2_UCHAR text[256] = {};
  pcre2_get_error_message(code, text, sizeof(text));
  return reinterpret_cast<const char*>(text);
}

struct Matcher {
  pcre2_match_data* data = nullptr;
  pcre2_match_context* context = nullptr;
  explicit Matcher(const pcre2_code* code)
      : data(pcre2_match_data_create_from_pattern(code, nullptr)),
        context(pcre2_match_context_create(nullptr)) {
    if (data == nullptr || context == nullptr) {
      release();
      throw std::bad_alloc();
    }
    pcre2_set_match_limit(context, max_steps);
    pcre2_set_heap_limit(context, max_heap_kib);
  }
  Matcher(const Matcher&) = delete;
  ~Matcher() { release(); }
  void release() {
    pcre2_match_data_free(data);
    pcre2_match_context_free(context);
  }
};

} // namespace

Regex::Regex(std::string_view pattern, std::string_view file, std::string_view what) : pattern_(pattern) {
  if (pattern.size() > max_pattern_bytes)
    refuse(file,
           fmt::format("{} has {} bytes, expected at most {}", what, pattern.size(), max_pattern_bytes));
  int error = 0;
  PCRE2_SIZE position = 0;
  // \C matches half a character; no published pattern uses it, and pieces must stay UTF-8.
  pcre2_code* code =
      pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
                    PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C, &error, &position, nullptr);
  if (code == nullptr)
    refuse(file, fmt::format("{} {} is not a regular expression: {} at its byte {}", what, in_quotes(pattern),
                             reason(error), position));
  code_ = std::shared_ptr<const void>(
      code, [](const void* p) { pcre2_code_free(static_cast<pcre2_code*>(const_cast<void*>(p))); });
  // Without the JIT (a platform that has none) the interpreter gives the same matches.
  compiled_ = pcre2_jit_compile(code, PCRE2_JIT_COMPLETE) == 0;
}

void Regex::find_all(std::string_view text, std::vector<std::pair<size_t, size_t>>& out) const {
  const auto* code = static_cast<const pcre2_code*>(code_.get());
  const Matcher matcher(code);
  const auto* subject = reinterpret_cast<PCRE2_SPTR>(text.data());
  size_t position = 0;
  while (position < text.size()) {
    int result = compiled_
                     ? pcre2_jit_match(code, subject, text.size(), position, 0, matcher.data, matcher.context)
                     : pcre2_match(code, subject, text.size(), position, PCRE2_NO_UTF_CHECK, matcher.data,
                                   matcher.context);
    if (result == PCRE2_ERROR_JIT_STACKLIMIT)
      result = pcre2_match(code, subject, text.size(), position, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT,
                           matcher.data, matcher.context);
    if (result == PCRE2_ERROR_NOMATCH) return;
    if (result < 0)
      throw Error(fmt::format("[tokenizer] pattern {} on a text of {} bytes: {}", in_quotes(pattern_),
                              text.size(), reason(result)));
    const PCRE2_SIZE* bounds = pcre2_get_ovector_pointer(matcher.data);
    const size_t begin = bounds[0], end = bounds[1];
    // \K can put the begin behind the end.
    if (begin < end && begin >= position) out.emplace_back(begin, end);
    if (end > position && begin < end) {
      position = end;
      continue;
    }
    const size_t from = end > position ? end : position;
    const int length = utf8_character(text.substr(from, 4));
    position = from + static_cast<size_t>(length > 0 ? length : 1);
  }
}

std::string from_oniguruma(std::string_view pattern, std::string_view file, std::string_view what) {
  // Alphabetic, marks, decimal digits, connectors; the enclosed letters are alphabetic though they
  // are symbols.
  const std::string word =
      R"(\p{L}\p{M}\p{Nd}\p{Nl}\p{Pc}\x{24B6}-\x{24E9}\x{1F130}-\x{1F149}\x{1F150}-\x{1F169}\x{1F170}-\x{1F189})";
  const std::string hexadecimal = "0-9A-Fa-f";
  const std::string boundary =
      "(?:(?<=[" + word + "])(?![" + word + "])|(?<![" + word + "])(?=[" + word + "]))";
  std::string out;
  bool in_class = false;
  for (size_t i = 0; i < pattern.size(); ++i) {
    const char c = pattern[i];
    if (c == '\\' && i + 1 < pattern.size()) {
      const char kind = pattern[++i];
      const bool negated = kind == 'W' || kind == 'H' || kind == 'B';
      if (negated && in_class)
        refuse(file, fmt::format("{} {} has \\{} inside brackets, which is not supported", what,
                                 in_quotes(pattern), kind));
      if (kind == 'w' || kind == 'W')
        out += in_class ? word : (negated ? "[^" : "[") + word + "]";
      else if (kind == 'h' || kind == 'H')
        out += in_class ? hexadecimal : (negated ? "[^" : "[") + hexadecimal + "]";
      else if (kind == 'b' && !in_class)
        out += boundary;
      else if (kind == 'B')
        out += "(?!" + boundary + ")";
      else if (kind == 'X' || kind == 'R' || kind == 'K' || kind == 'G' || kind == 'y' || kind == 'Y' ||
               kind == 'O' || kind == 'N')
        refuse(file, fmt::format("{} {} has \\{}, which is not supported", what, in_quotes(pattern), kind));
      else
        (out += c) += kind;
      continue;
    }
    if (in_class && c == '[' && pattern.substr(i, 2) != "[:")
      refuse(file, fmt::format("{} {} has brackets inside brackets, which is not supported", what,
                               in_quotes(pattern)));
    if (in_class && pattern.substr(i, 2) == "&&")
      refuse(file,
             fmt::format("{} {} has && inside brackets, which is not supported", what, in_quotes(pattern)));
    if (in_class && pattern.substr(i, 2) == "[:") {
      const size_t end = pattern.find(":]", i);
      if (end == std::string_view::npos)
        refuse(file, fmt::format("{} {} has [: without :]", what, in_quotes(pattern)));
      out += pattern.substr(i, end + 2 - i);
      i = end + 1;
      continue;
    }
    out += c;
    if (!in_class && c == '[') {
      in_class = true;
      // A bracket that closes at once is an ordinary character: []abc], [^]abc].
      if (pattern.substr(i + 1, 1) == "^") out += pattern[++i];
      if (pattern.substr(i + 1, 1) == "]") out += "\\" + std::string(1, pattern[++i]);
    } else if (in_class && c == ']') {
      in_class = false;
    }
  }
  return out;
}

} // namespace luminal::detail
