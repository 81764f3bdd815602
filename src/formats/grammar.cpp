// formats/grammar.cpp -- the parser of GBNF: characters become bytes, repetitions become rules.
#include "formats/grammar.h"
#include "base/text.h"
#include "formats/parse.h"
#include <algorithm>
#include <fmt/format.h>
#include <functional>

namespace luminal {
namespace {

using namespace detail;

constexpr int64_t most_repeats = 10000;
constexpr size_t most_elements = size_t(1) << 21;
constexpr int deepest = 128;
constexpr uint32_t last_character = 0x10FFFF;

struct Range {
  uint32_t low, high; // characters
};

std::string utf8_of(uint32_t c) {
  std::string out;
  const auto put = [&](uint32_t byte) { out += char(byte); };
  if (c < 0x80) {
    put(c);
  } else if (c < 0x800) {
    put(0xC0 | c >> 6), put(0x80 | (c & 63));
  } else if (c < 0x10000) {
    put(0xE0 | c >> 12), put(0x80 | (c >> 6 & 63)), put(0x80 | (c & 63));
  } else {
    put(0xF0 | c >> 18), put(0x80 | (c >> 12 & 63)), put(0x80 | (c >> 6 & 63)), put(0x80 | (c & 63));
  }
  return out;
}

/// Cuts a range where its characters change length, and so that the bytes of each part are independent: every
/// combination of them is in it.
void byte_ranges(Range r, const std::function<void(Range)>& give) {
  if (r.low > r.high) return;
  if (r.low <= 0xDFFF && r.high >= 0xD800) { // halves of UTF-16 are not characters
    byte_ranges({r.low, std::min<uint32_t>(r.high, 0xD7FF)}, give);
    if (r.high > 0xDFFF) byte_ranges({std::max<uint32_t>(r.low, 0xE000), r.high}, give);
    return;
  }
  for (const uint32_t last : {0x7FU, 0x7FFU, 0xFFFFU})
    if (r.low <= last && r.high > last) {
      byte_ranges({r.low, last}, give);
      return byte_ranges({last + 1, r.high}, give);
    }
  for (uint32_t i = 1; i < 4 && r.high > 0x7F; i++) {
    const uint32_t mask = (1U << (6 * i)) - 1;
    if ((r.low & ~mask) == (r.high & ~mask)) break;
    if ((r.low & mask) != 0) {
      byte_ranges({r.low, r.low | mask}, give);
      return byte_ranges({(r.low | mask) + 1, r.high}, give);
    }
    if ((r.high & mask) != mask) {
      byte_ranges({r.low, (r.high & ~mask) - 1}, give);
      return byte_ranges({r.high & ~mask, r.high}, give);
    }
  }
  give(r);
}

class Parser {
public:
  Parser(std::string_view text, std::string_view name) : text_(text), name_(name) {}

  Grammar read() {
    if (const auto bad = find_invalid_utf8(text_)) refuse_at(name_, *bad, "not UTF-8");
    for (skip(true); at_ < text_.size(); skip(true)) read_rule();
    const auto root = numbers_.find("root");
    if (root == numbers_.end()) refuse(name_, "a grammar without a rule \"root\"");
    for (const auto& [rule, number] : numbers_)
      if (grammar_.rules[number].empty())
        refuse(name_, fmt::format("rule {} is used and not defined", in_quotes(rule)));
    grammar_.root = root->second;
    refuse_left_recursion();
    return std::move(grammar_);
  }

private:
  using Sequence = std::vector<Grammar::Element>;

  char peek(size_t ahead = 0) const { return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0'; }
  [[noreturn]] void wrong(const std::string& expected) const {
    refuse_at(name_, at_,
              fmt::format("{} is expected, not {}", expected,
                          at_ < text_.size() ? in_quotes(text_.substr(at_, 12)) : "the end"));
  }
  /// White space and comments; ends of lines where `lines` says so.
  void skip(bool lines) {
    for (; at_ < text_.size(); at_++) {
      const char c = text_[at_];
      if (c == '#')
        while (at_ + 1 < text_.size() && text_[at_ + 1] != '\n' && text_[at_ + 1] != '\r') at_++;
      else if (c != ' ' && c != '\t' && !(lines && (c == '\n' || c == '\r')))
        break;
    }
  }
  static bool is_word(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
  }
  std::string word() {
    const size_t from = at_;
    while (is_word(peek())) at_++;
    if (at_ == from) wrong("the name of a rule");
    return std::string(text_.substr(from, at_ - from));
  }
  /// Whether the next rule begins here: behind an alternative that is nothing.
  bool at_rule() const {
    size_t at = at_;
    while (at < text_.size() && is_word(text_[at])) at++;
    while (at < text_.size() && (text_[at] == ' ' || text_[at] == '\t')) at++;
    return at > at_ && text_.substr(at, 3) == "::=";
  }
  uint32_t new_rule(std::string name = {}) {
    grammar_.rules.emplace_back();
    grammar_.names.push_back(std::move(name));
    return uint32_t(grammar_.rules.size() - 1);
  }
  uint32_t rule_of(const std::string& name) {
    const auto [at, is_new] = numbers_.emplace(name, 0);
    if (is_new) at->second = new_rule(name);
    return at->second;
  }
  void add(uint32_t rule, const Sequence& sequence) {
    if (grammar_.elements.size() + sequence.size() > most_elements)
      refuse_at(name_, at_, "the grammar is too large");
    grammar_.rules[rule].push_back(uint32_t(grammar_.elements.size()));
    grammar_.elements.insert(grammar_.elements.end(), sequence.begin(), sequence.end());
    grammar_.elements.push_back({});
  }
  Grammar::Element bytes(const std::bitset<256>& set) {
    const auto found = set_numbers_.find(set.to_string());
    if (found != set_numbers_.end()) return {Grammar::Kind::bytes, found->second};
    set_numbers_.emplace(set.to_string(), uint32_t(grammar_.sets.size()));
    grammar_.sets.push_back(set);
    return {Grammar::Kind::bytes, uint32_t(grammar_.sets.size() - 1)};
  }

  void read_rule() {
    const size_t from = at_;
    const uint32_t rule = rule_of(word());
    if (!grammar_.rules[rule].empty())
      refuse_at(name_, from, fmt::format("rule {} is defined twice", in_quotes(grammar_.names[rule])));
    skip(false);
    if (text_.substr(at_, 3) != "::=") wrong("::=");
    at_ += 3;
    skip(true);
    alternatives(rule, 0);
    skip(false);
    if (at_ < text_.size() && peek() != '\n' && peek() != '\r' && !at_rule()) wrong("the end of the line");
  }
  void alternatives(uint32_t rule, int depth) {
    if (depth > deepest) refuse_at(name_, at_, "groups are nested too deep");
    for (;;) {
      add(rule, sequence(depth));
      skip(depth > 0);
      if (peek() != '|') break;
      at_++;
      skip(true);
    }
  }
  Sequence sequence(int depth) {
    Sequence out;
    for (;;) {
      Sequence part;
      if (peek() == '"')
        part = literal();
      else if (peek() == '[')
        part = {characters(class_ranges())};
      else if (peek() == '.')
        at_++, part = {characters({{0, last_character}})};
      else if (peek() == '(')
        part = group(depth);
      else if (is_word(peek()) && !(depth == 0 && at_rule()))
        part = {{Grammar::Kind::rule, rule_of(word())}};
      else
        return out;
      skip(depth > 0);
      while (peek() == '*' || peek() == '+' || peek() == '?' || peek() == '{') {
        part = repeated(part);
        skip(depth > 0);
      }
      out.insert(out.end(), part.begin(), part.end());
      if (out.size() > most_elements) refuse_at(name_, at_, "the grammar is too large");
    }
  }
  Sequence group(int depth) {
    at_++;
    skip(true);
    const uint32_t inner = new_rule();
    alternatives(inner, depth + 1);
    skip(true);
    if (peek() != ')') wrong("\")\"");
    at_++;
    return {{Grammar::Kind::rule, inner}};
  }

  Sequence literal() {
    Sequence out;
    for (at_++; peek() != '"';) {
      if (at_ >= text_.size() || peek() == '\n') wrong("the end of a literal, \"");
      for (const char byte : utf8_of(character())) {
        std::bitset<256> set;
        set.set(uint8_t(byte));
        out.push_back(bytes(set));
      }
    }
    at_++;
    return out;
  }
  std::vector<Range> class_ranges() {
    at_++;
    const bool others = peek() == '^';
    if (others) at_++;
    std::vector<Range> ranges;
    while (peek() != ']') {
      if (at_ >= text_.size()) wrong("the end of a class, ]");
      const size_t from = at_;
      Range range{character(), 0};
      range.high = range.low;
      if (peek() == '-' && peek(1) != ']') at_++, range.high = character();
      if (range.low > range.high) refuse_at(name_, from, "a range that ends before it begins");
      ranges.push_back(range);
    }
    at_++;
    if (!others) return ranges;
    std::ranges::sort(ranges, {}, &Range::low);
    std::vector<Range> rest;
    uint32_t next = 0;
    for (const Range& range : ranges) {
      if (range.low > next) rest.push_back({next, range.low - 1});
      next = std::max(next, range.high + 1);
    }
    if (next <= last_character) rest.push_back({next, last_character});
    return rest;
  }
  uint32_t character() {
    if (peek() != '\\') {
      const auto length = std::max<size_t>(1, utf8_length(uint8_t(peek())));
      uint32_t c = uint8_t(peek());
      if (length > 1) {
        c &= 0xFFU >> (length + 1);
        for (size_t i = 1; i < length; i++) c = c << 6 | (uint8_t(peek(i)) & 63);
      }
      at_ += length;
      return c;
    }
    const size_t from = at_;
    at_++;
    const char c = peek();
    at_++;
    switch (c) {
    case 'n': return '\n';
    case 'r': return '\r';
    case 't': return '\t';
    case '\\':
    case '"':
    case '[':
    case ']':
    case '-': return uint8_t(c);
    case 'x': return hexadecimal(2);
    case 'u': return hexadecimal(4);
    case 'U': return hexadecimal(8);
    default: refuse_at(name_, from, fmt::format("escape {} is not known", in_quotes(text_.substr(from, 2))));
    }
  }
  uint32_t hexadecimal(int digits) {
    uint32_t value = 0;
    for (int i = 0; i < digits; i++) {
      const char c = peek();
      const int digit = c >= '0' && c <= '9'   ? c - '0'
                        : c >= 'a' && c <= 'f' ? c - 'a' + 10
                        : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                               : -1;
      if (digit < 0) wrong(fmt::format("{} hexadecimal digits", digits));
      value = value << 4 | uint32_t(digit);
      at_++;
    }
    if (value > last_character || (value >= 0xD800 && value <= 0xDFFF))
      refuse_at(name_, at_, fmt::format("U+{:04X} is not a character", value));
    return value;
  }

  /// One of these characters, as bytes.
  Grammar::Element characters(const std::vector<Range>& ranges) {
    std::bitset<256> single;
    std::vector<Sequence> longer;
    for (const Range& range : ranges)
      byte_ranges(range, [&](Range part) {
        const std::string low = utf8_of(part.low), high = utf8_of(part.high);
        Sequence sequence;
        for (size_t i = 0; i < low.size(); i++) {
          std::bitset<256> set;
          for (int b = uint8_t(low[i]); b <= uint8_t(high[i]); b++) set.set(size_t(b));
          if (low.size() == 1)
            single |= set;
          else
            sequence.push_back(bytes(set));
        }
        if (!sequence.empty()) longer.push_back(std::move(sequence));
      });
    if (longer.empty()) return bytes(single);
    const uint32_t rule = new_rule();
    if (single.any()) add(rule, {bytes(single)});
    for (const Sequence& sequence : longer) add(rule, sequence);
    return {Grammar::Kind::rule, rule};
  }

  int64_t count() {
    if (peek() < '0' || peek() > '9') wrong("a number of repetitions");
    int64_t value = 0;
    for (; peek() >= '0' && peek() <= '9'; at_++) {
      value = value * 10 + (peek() - '0');
      if (value > most_repeats) refuse_at(name_, at_, fmt::format("more than {} repetitions", most_repeats));
    }
    skip(false);
    return value;
  }
  Sequence repeated(const Sequence& part) {
    int64_t least = 0, most = -1; // most: -1 without a limit
    const char sign = peek();
    at_++;
    if (sign == '+') {
      least = 1;
    } else if (sign == '?') {
      most = 1;
    } else if (sign == '{') {
      skip(false);
      least = peek() == ',' ? 0 : count();
      most = least;
      if (peek() == ',') {
        at_++;
        skip(false);
        most = -1;
        if (peek() != '}') most = count();
      }
      if (peek() != '}') wrong("\"}\"");
      if (most >= 0 && most < least) refuse_at(name_, at_, "repetitions that end before they begin");
      at_++;
    }
    if (part.size() * size_t(least + std::max<int64_t>(most, 0)) > most_elements)
      refuse_at(name_, at_, "the grammar is too large");
    Sequence out;
    for (int64_t i = 0; i < least; i++) out.insert(out.end(), part.begin(), part.end());
    const auto with = [&](uint32_t rule) {
      Sequence sequence = part;
      sequence.push_back({Grammar::Kind::rule, rule});
      return sequence;
    };
    if (most < 0) {
      const uint32_t more = new_rule();
      add(more, with(more));
      add(more, {});
      out.push_back({Grammar::Kind::rule, more});
    } else if (most > least) { // one more, and perhaps others behind it
      uint32_t more = new_rule();
      add(more, part);
      add(more, {});
      for (int64_t i = least + 1; i < most; i++) {
        const uint32_t before = new_rule();
        add(before, with(more));
        add(before, {});
        more = before;
      }
      out.push_back({Grammar::Kind::rule, more});
    }
    return out;
  }

  /// Rules that reach themselves before any byte have no first byte to choose by.
  void refuse_left_recursion() const {
    const size_t count = grammar_.rules.size();
    // Which rules may be nothing: an alternative is one where all of its rules are.
    std::vector<bool> empty(count, false);
    std::vector<std::vector<std::pair<uint32_t, uint32_t>>> waiting(
        count); // (rule, element), by what is next
    std::vector<std::pair<uint32_t, uint32_t>> work;
    for (size_t r = 0; r < count; r++)
      for (const uint32_t start : grammar_.rules[r]) work.emplace_back(uint32_t(r), start);
    while (!work.empty()) {
      auto [r, e] = work.back();
      work.pop_back();
      while (grammar_.elements[e].kind == Grammar::Kind::rule && empty[grammar_.elements[e].value]) e++;
      if (grammar_.elements[e].kind == Grammar::Kind::rule)
        waiting[grammar_.elements[e].value].emplace_back(r, e);
      if (grammar_.elements[e].kind != Grammar::Kind::end || empty[r]) continue;
      empty[r] = true;
      work.insert(work.end(), waiting[r].begin(), waiting[r].end());
      waiting[r].clear();
    }
    // A rule that ends an alternative goes on where that goes on; any other leaves something to come back to.
    struct Edge {
      uint32_t to;
      bool comes_back;
    };
    std::vector<std::vector<Edge>> first(count);
    for (size_t r = 0; r < count; r++)
      for (uint32_t e : grammar_.rules[r])
        for (; grammar_.elements[e].kind == Grammar::Kind::rule; e++) {
          const uint32_t to = grammar_.elements[e].value;
          first[r].push_back({to, grammar_.elements[e + 1].kind != Grammar::Kind::end});
          if (!empty[to]) break;
        }
    // Components that reach each other (Tarjan 1972), without recursion.
    std::vector<uint32_t> order(count, 0), low(count, 0), component(count, 0), stack, path;
    std::vector<size_t> next(count, 0);
    std::vector<bool> open(count, false);
    uint32_t seen = 0, components = 0;
    for (uint32_t start = 0; start < count; start++) {
      if (order[start] == 0) path.push_back(start);
      while (!path.empty()) {
        const uint32_t r = path.back();
        if (order[r] == 0) order[r] = low[r] = ++seen, stack.push_back(r), open[r] = true;
        bool deeper = false;
        while (!deeper && next[r] < first[r].size()) {
          const uint32_t to = first[r][next[r]++].to;
          if (order[to] == 0)
            path.push_back(to), deeper = true;
          else if (open[to])
            low[r] = std::min(low[r], order[to]);
        }
        if (deeper) continue;
        path.pop_back();
        if (!path.empty()) low[path.back()] = std::min(low[path.back()], low[r]);
        if (low[r] != order[r]) continue;
        components++;
        for (uint32_t last = uint32_t(count); last != r; stack.pop_back())
          last = stack.back(), open[last] = false, component[last] = components;
      }
    }
    for (size_t r = 0; r < count; r++)
      for (const Edge& edge : first[r])
        if (edge.comes_back && component[r] == component[edge.to])
          refuse(name_, fmt::format("rule {} begins with itself: write it with * or +",
                                    in_quotes(grammar_.names[r].empty() ? grammar_.names[edge.to]
                                                                        : grammar_.names[r])));
  }

  std::string_view text_, name_;
  size_t at_ = 0;
  Grammar grammar_;
  std::map<std::string, uint32_t> numbers_, set_numbers_;
};

} // namespace

Result<Grammar> parse_grammar(std::string_view text, std::string_view name) {
  return guarded(name, [&] { return Parser(text, name).read(); });
}

} // namespace luminal
