// egg/egg_syntax.cpp -- reading and printing of s-expressions.
#include "egg/egg_syntax.h"
#include "base/hash.h"
#include "base/text.h"
#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fmt/format.h>

namespace luminal::egraph {
namespace {

constexpr size_t wrap_width = 100, block_size = 1 << 14;

bool is_space(char c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r' || c == '\f' || c == '\v'; }
bool ends_atom(char c) { return is_space(c) || c == '(' || c == ')' || c == ';'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

/// Does the text look like a number: digits, perhaps after a sign and a point?
bool starts_number(std::string_view text) {
  if (!text.empty() && (text[0] == '-' || text[0] == '+')) text.remove_prefix(1);
  if (!text.empty() && text[0] == '.') text.remove_prefix(1);
  return !text.empty() && is_digit(text[0]);
}

} // namespace

// ---- names

SymbolTable::SymbolTable() : slots_(1024, 0) { texts_.reserve(512); }

uint64_t SymbolTable::bytes() const {
  return texts_.capacity() * sizeof(std::string_view) + slots_.capacity() * sizeof(uint32_t) + block_bytes_;
}

void SymbolTable::grow() {
  std::vector<uint32_t> slots(slots_.size() * 2, 0);
  for (uint32_t symbol = 0; symbol < texts_.size(); ++symbol) {
    size_t at = hash64(texts_[symbol]) & (slots.size() - 1);
    while (slots[at] != 0) at = (at + 1) & (slots.size() - 1);
    slots[at] = symbol + 1;
  }
  slots_ = std::move(slots);
}

std::optional<Symbol> SymbolTable::find(std::string_view text) const {
  for (size_t at = hash64(text) & (slots_.size() - 1); slots_[at] != 0; at = (at + 1) & (slots_.size() - 1))
    if (texts_[slots_[at] - 1] == text) return slots_[at] - 1;
  return std::nullopt;
}

Symbol SymbolTable::intern(std::string_view text) {
  size_t at = hash64(text) & (slots_.size() - 1);
  for (; slots_[at] != 0; at = (at + 1) & (slots_.size() - 1))
    if (texts_[slots_[at] - 1] == text) return slots_[at] - 1;
  if (text.size() > block_left_) {
    const size_t size = std::max(block_size, text.size());
    blocks_.push_back(std::make_unique<char[]>(size));
    block_next_ = blocks_.back().get();
    block_left_ = size;
    block_bytes_ += size;
  }
  if (!text.empty()) std::memcpy(block_next_, text.data(), text.size());
  texts_.emplace_back(block_next_, text.size());
  block_next_ += text.size();
  block_left_ -= text.size();
  slots_[at] = static_cast<uint32_t>(texts_.size());
  if (texts_.size() * 3 > slots_.size() * 2) grow();
  return static_cast<Symbol>(texts_.size() - 1);
}

// ---- reading

class Syntax::Reader {
public:
  Reader(Syntax& syntax, uint32_t source)
      : syntax_(syntax), source_(source), text_(syntax.sources_[source]->text) {}

  std::vector<NodeId> read() {
    for (skip(); at_ < text_.size(); skip()) step();
    if (!open_.empty())
      fail(open_.back().offset, 1,
           fmt::format("this list is not closed: the text ends, and {} ')' {} missing", open_.size(),
                       open_.size() == 1 ? "is" : "are"));
    return std::move(pending_);
  }

private:
  struct Open {
    uint32_t offset, first; ///< where it stands, where its children start in pending_
  };

  [[noreturn]] void fail(size_t offset, size_t length, std::string_view message) const {
    syntax_.fail(Span{source_, static_cast<uint32_t>(offset), static_cast<uint32_t>(length)}, message);
  }

  void skip() {
    while (at_ < text_.size()) {
      if (text_[at_] == ';')
        at_ = std::min(text_.find('\n', at_), text_.size());
      else if (is_space(text_[at_]))
        ++at_;
      else
        return;
    }
  }

  void push(Node node) {
    pending_.push_back(static_cast<NodeId>(syntax_.nodes_.size()));
    syntax_.nodes_.push_back(node);
  }

  void step() {
    const char c = text_[at_];
    if (c == '(') {
      if (open_.size() >= max_depth)
        fail(at_, 1, fmt::format("lists are nested deeper than {} levels", max_depth));
      open_.push_back({static_cast<uint32_t>(at_), static_cast<uint32_t>(pending_.size())});
      ++at_;
    } else if (c == ')') {
      close();
    } else if (c == '"') {
      string();
    } else {
      atom();
    }
  }

  void close() {
    if (open_.empty()) fail(at_, 1, "')' closes no list");
    const Open open = open_.back();
    open_.pop_back();
    Node node;
    node.kind = NodeKind::list;
    node.offset = open.offset;
    node.length = static_cast<uint32_t>(++at_ - open.offset);
    node.list = {static_cast<uint32_t>(syntax_.children_.size()),
                 static_cast<uint32_t>(pending_.size() - open.first)};
    syntax_.children_.insert(syntax_.children_.end(), pending_.begin() + open.first, pending_.end());
    pending_.resize(open.first);
    push(node);
  }

  void string() {
    const size_t begin = at_++;
    std::string value;
    for (;; ++at_) {
      if (at_ >= text_.size()) fail(begin, 1, "this string is not closed: the text ends before '\"'");
      const char c = text_[at_];
      if (c == '"') break;
      if (c != '\\') {
        value += c;
        continue;
      }
      const char escaped = at_ + 1 < text_.size() ? text_[at_ + 1] : ' ';
      if (escaped == 'n')
        value += '\n';
      else if (escaped == 't')
        value += '\t';
      else if (escaped == '\\' || escaped == '"')
        value += escaped;
      else
        fail(at_, 2, R"(unknown escape in a string (known: \n \t \\ \"))");
      ++at_;
    }
    ++at_;
    Node node;
    node.kind = NodeKind::string;
    node.offset = static_cast<uint32_t>(begin);
    node.length = static_cast<uint32_t>(at_ - begin);
    node.symbol = syntax_.symbols_.intern(value);
    push(node);
  }

  void atom() {
    const size_t begin = at_;
    while (at_ < text_.size() && !ends_atom(text_[at_])) {
      const auto c = static_cast<unsigned char>(text_[at_]);
      if (c < 0x20 || c == 0x7f) fail(at_, 1, fmt::format("unexpected control character \\x{:02x}", c));
      ++at_;
    }
    const std::string_view text = text_.substr(begin, at_ - begin);
    Node node;
    node.offset = static_cast<uint32_t>(begin);
    node.length = static_cast<uint32_t>(text.size());
    if (text == "true" || text == "false") {
      node.kind = NodeKind::boolean;
      node.integer = text == "true";
    } else if (text == "NaN" || text == "inf" || text == "-inf") {
      node.kind = NodeKind::floating;
      node.floating = text == "NaN" ? std::numeric_limits<double>::quiet_NaN()
                                    : std::copysign(HUGE_VAL, text == "inf" ? 1.0 : -1.0);
    } else if (!starts_number(text) || !number(text, node)) {
      node.kind = NodeKind::symbol;
      node.symbol = syntax_.symbols_.intern(text);
    }
    push(node);
  }

  /// An integer or a float; false where the text only starts like one (`2x` is a name).
  bool number(std::string_view text, Node& node) const {
    const std::string_view digits = text[0] == '+' ? text.substr(1) : text;
    const char* const end = digits.data() + digits.size();
    const auto whole = std::from_chars(digits.data(), end, node.integer);
    if (whole.ptr == end && whole.ec == std::errc()) {
      node.kind = NodeKind::integer;
      return true;
    }
    if (whole.ptr == end)
      fail(node.offset, node.length,
           "this integer does not fit 64 bits with sign; a float is written with a point");
    node.kind = NodeKind::floating;
    const auto real = std::from_chars(digits.data(), end, node.floating);
    if (real.ptr != end) return false;
    if (real.ec == std::errc::result_out_of_range) {
      // Too large or too small; strtod tells which, and rounds subnormals.
      node.floating = std::strtod(std::string(digits).c_str(), nullptr);
      if (std::isinf(node.floating)) fail(node.offset, node.length, "this number is too large for a double");
    }
    return real.ec == std::errc() || real.ec == std::errc::result_out_of_range;
  }

  Syntax& syntax_;
  uint32_t source_;
  std::string_view text_;
  size_t at_ = 0;
  std::vector<NodeId> pending_;
  std::vector<Open> open_;
};

std::vector<NodeId> Syntax::parse(std::string file, std::string text) {
  const auto source = static_cast<uint32_t>(sources_.size());
  sources_.push_back(std::make_unique<Source>());
  Source& s = *sources_.back();
  s.file = std::move(file);
  s.text = std::move(text);
  s.first_node = static_cast<NodeId>(nodes_.size());
  constexpr size_t long_text = 1 << 16, bytes_per_node = 4; // about what programs have
  if (s.text.size() > long_text) nodes_.reserve(nodes_.size() + s.text.size() / bytes_per_node);
  if (s.text.size() >= (uint64_t(1) << 31))
    throw ProgramError(fmt::format("{}: the text is longer than 2 GiB", s.file));
  if (!is_utf8(s.text)) {
    size_t at = 0;
    while (at < s.text.size()) {
      const size_t length = utf8_length(static_cast<unsigned char>(s.text[at]));
      if (!is_utf8(std::string_view(s.text).substr(at, length))) break;
      at += length;
    }
    fail(Span{source, static_cast<uint32_t>(at), 1}, "this byte is not UTF-8");
  }
  return Reader(*this, source).read();
}

std::string_view Syntax::head(NodeId id) const {
  const auto items = children(id);
  return !items.empty() && is_symbol(items[0]) ? text(nodes_[items[0]].symbol) : std::string_view();
}

NodeId Syntax::make_atom(Symbol text, NodeId place) {
  Node node = nodes_[place];
  node.symbol = text;
  nodes_.push_back(node);
  return static_cast<NodeId>(nodes_.size() - 1);
}

NodeId Syntax::make_list(std::span<const NodeId> items, NodeId place) {
  Node node = nodes_[place];
  node.kind = NodeKind::list;
  node.list = {static_cast<uint32_t>(children_.size()), static_cast<uint32_t>(items.size())};
  children_.insert(children_.end(), items.begin(), items.end());
  nodes_.push_back(node);
  return static_cast<NodeId>(nodes_.size() - 1);
}

// ---- places and errors

Span Syntax::span(NodeId id) const {
  const auto after = std::upper_bound(sources_.begin(), sources_.end(), id,
                                      [](NodeId node, const auto& s) { return node < s->first_node; });
  return {static_cast<uint32_t>(after - sources_.begin() - 1), nodes_[id].offset, nodes_[id].length};
}

std::string Syntax::place(Span span) const {
  const Source& s = *sources_[span.source];
  if (s.lines.empty()) {
    s.lines.push_back(0);
    for (size_t i = 0; i < s.text.size(); ++i)
      if (s.text[i] == '\n') s.lines.push_back(static_cast<uint32_t>(i + 1));
  }
  const auto line = std::upper_bound(s.lines.begin(), s.lines.end(), span.offset) - s.lines.begin();
  const uint32_t start = s.lines[line - 1];
  return fmt::format("{}:{}:{}", s.file, line,
                     utf8_count(std::string_view(s.text).substr(start, span.offset - start)) + 1);
}

std::string Syntax::message(Span span, std::string_view text) const {
  const Source& s = *sources_[span.source];
  const std::string_view all = s.text;
  const size_t offset = std::min<size_t>(span.offset, all.size());
  const size_t newline = offset == 0 ? std::string_view::npos : all.rfind('\n', offset - 1);
  const size_t start = newline == std::string_view::npos ? 0 : newline + 1;
  const size_t end = std::min(all.find('\n', offset), all.size());
  // Of a long line only the part around the place is shown.
  constexpr size_t before = 60, shown = 100;
  size_t from = offset - start > before ? offset - before : start;
  while (from > start && (static_cast<unsigned char>(all[from]) & 0xc0) == 0x80) --from;
  std::string_view line = all.substr(from, std::min(end - from, shown));
  line = line.substr(0, utf8_complete_prefix(line));
  const size_t column = utf8_count(all.substr(from, offset - from));
  const size_t visible = line.size() > offset - from ? utf8_count(line.substr(offset - from)) : 1;
  const size_t underlined =
      std::clamp<size_t>(utf8_count(all.substr(offset, std::min<size_t>(span.length, shown))), 1, visible);
  constexpr size_t longest = 500; // names may be as long as the text
  const std::string told =
      text.size() <= longest
          ? std::string(text)
          : std::string(text.substr(0, utf8_complete_prefix(text.substr(0, longest)))) + "...";
  std::string out = fmt::format("{}: {}\n  ", place(span), told);
  for (const char c : utf8_sanitized(line))
    out += is_space(c) || static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
  return out + fmt::format("\n  {}^{}", std::string(column, ' '), std::string(underlined - 1, '~'));
}

void Syntax::fail(Span at, std::string_view text) const { throw ProgramError(message(at, text)); }
void Syntax::fail(NodeId at, std::string_view text) const { fail(span(at), text); }

// ---- printing

std::string egg_float_text(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  std::array<char, 400> buffer;
  // Beyond 2^53 the fixed form has all digits of the number; the shortest ones that give it back
  // are fewer, zeros follow.
  const bool large = std::fabs(value) >= 0x1p53;
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value,
                                 large ? std::chars_format::scientific : std::chars_format::fixed);
  std::string text(buffer.data(), end.ptr);
  if (large) {
    const size_t e = text.find('e');
    const auto exponent = static_cast<size_t>(std::atoi(text.c_str() + e + 1));
    text.resize(e);
    if (const size_t point = text.find('.'); point != std::string::npos) text.erase(point, 1);
    text.resize((value < 0 ? 2 : 1) + exponent, '0');
  }
  if (text.find('.') == std::string::npos) text += ".0";
  return text;
}

std::string egg_string_text(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '\\' || c == '"') out += '\\';
    out += c;
  }
  return out + '"';
}

void Syntax::append(std::string& out, NodeId id) const {
  const Node& node = nodes_[id];
  switch (node.kind) {
  case NodeKind::symbol: out += text(node.symbol); break;
  case NodeKind::integer: out += std::to_string(node.integer); break;
  case NodeKind::floating: out += egg_float_text(node.floating); break;
  case NodeKind::string: out += egg_string_text(text(node.symbol)); break;
  case NodeKind::boolean: out += node.integer != 0 ? "true" : "false"; break;
  case NodeKind::list: {
    out += '(';
    bool first = true;
    for (const NodeId child : children(id)) {
      if (!first) out += ' ';
      first = false;
      append(out, child); // as deep as the text may be nested
    }
    out += ')';
    break;
  }
  }
}

std::string Syntax::print(NodeId id) const {
  std::string out;
  append(out, id);
  return out;
}

void Syntax::append_wrapped(std::string& out, NodeId id, size_t indent) const {
  const std::string line = print(id);
  const auto items = children(id);
  if (indent + line.size() <= wrap_width || items.size() < 2 || indent > wrap_width / 2) {
    out += line;
    return;
  }
  out += '(';
  for (size_t i = 0; i < items.size(); ++i) {
    if (i > 0) out += '\n' + std::string(indent + 2, ' ');
    append_wrapped(out, items[i], indent + 2);
  }
  out += ')';
}

std::string Syntax::print_program(std::span<const NodeId> nodes) const {
  std::string out;
  for (const NodeId node : nodes) {
    append_wrapped(out, node, 0);
    out += '\n';
  }
  return out;
}

uint64_t Syntax::bytes() const {
  uint64_t total =
      nodes_.capacity() * sizeof(Node) + children_.capacity() * sizeof(NodeId) + symbols_.bytes();
  for (const auto& source : sources_) total += source->text.capacity() + source->lines.capacity() * 4;
  return total;
}

} // namespace luminal::egraph
