// loop/loop_parse.cpp -- reads the text of a kernel that loop_print.cpp writes. Statements are lines,
// bodies are indented.
#include "loop/loop_parser.h"
#include <fmt/format.h>

namespace luminal::kernel {
namespace loop_detail {

void KernelParser::header() {
  const Line* first = peek();
  if (!first) throw Error(fmt::format("{}:1:1: expected a kernel, found nothing", file_));
  // The header may span lines: it ends with the line of its closing parenthesis.
  int open = 0;
  bool closed = false;
  size_t last = next_;
  for (; last < lines_.size() && !closed; ++last) {
    header_text_ += lines_[last].text;
    header_text_ += '\n';
    if (lines_[last].blank) continue;
    for (const char c : lines_[last].text) {
      if (c == '#') break;
      open += c == '(' ? 1 : c == ')' ? -1 : 0;
      if (c == ')' && open == 0) closed = true;
    }
  }
  if (!header_text_.empty()) header_text_.pop_back();
  if (first->indent != 0) fail(*first, first->indent, "expected the kernel to begin in column 1");
  LineParser p(*this, header_text_, options(*first));
  TextReader& r = p.reader();
  next_ = last;
  r.expect("kernel");
  kernel_.name =
      r.at(TokenKind::string) ? r.expect_string() : std::string(r.expect_identifier("the kernel's name"));
  r.expect("(");
  // Sizes speak of symbols that are declared behind the buffers: those are read first.
  const uint32_t begin = r.offset();
  int depth = 0;
  while (!(depth == 0 && (r.at(";") || r.at(")")))) {
    if (r.at_end()) r.fail_expected("')'");
    depth += r.at("(") || r.at("[") ? 1 : r.at(")") || r.at("]") ? -1 : 0;
    r.next();
  }
  if (r.accept(";")) do
      p.symbol_declaration();
    while (r.accept(","));
  r.expect(")");
  if (r.accept("lanes")) kernel_.lanes = p.small("lanes", 1, 1 << 16);
  if (r.accept("lets")) kernel_.lets = p.small("values", 0, 1 << 30);
  r.expect_end();
  r.rewind(begin);
  if (!r.at(";") && !r.at(")")) do
      p.buffer_declaration(Space::global);
    while (r.accept(","));
  if (!r.at(";") && !r.at(")")) r.fail_expected("',', ';' or ')'");
}

Kernel KernelParser::parse() {
  header();
  while (next_ < lines_.size() && lines_[next_].blank) {
    std::string_view note = lines_[next_].comment;
    if (note.data()) {
      if (note.starts_with(' ')) note.remove_prefix(1);
      kernel_.notes.emplace_back(note);
    }
    ++next_;
  }
  static constexpr Space spaces[] = {Space::shared, Space::local, Space::registers, Space::group,
                                     Space::tensor_memory};
  std::optional<size_t> indent;
  for (bool more = true; more;) {
    more = false;
    const Line* line = peek();
    if (!line || line->indent == 0) break;
    LineParser p(*this, line->text, options(*line));
    for (const Space space : spaces) {
      // `shared x: ...`; a store to a buffer of that name has a bracket behind it.
      if (!p.reader().at(kernel::to_string(space)) || p.reader().peek_second().kind != TokenKind::identifier)
        continue;
      if (indent && *indent != line->indent)
        fail(*line, line->indent, "expected the indentation of the line above");
      indent = line->indent;
      p.reader().next();
      p.buffer_declaration(space);
      p.reader().expect_end();
      ++next_;
      more = true;
      break;
    }
  }
  if (const Line* line = peek(); line && line->indent > 0) {
    if (indent && *indent != line->indent)
      fail(*line, line->indent, "expected the indentation of the line above");
    kernel_.body = block(0, "the kernel");
  }
  if (const Line* line = peek())
    fail(*line, line->indent, "expected the end of the text: it holds one kernel");
  return std::move(kernel_);
}

/// The lines that are indented more than their owner; all alike.
Body KernelParser::block(size_t parent_indent, std::string_view owner) {
  Body body;
  const Line* first = peek();
  if (!first || first->indent <= parent_indent) {
    const Line& line = first ? *first : lines_.back();
    fail(line, line.indent, fmt::format("expected the indented body of {}", owner));
  }
  if (++depth_ > 200) fail(*first, first->indent, "nested too deeply");
  const size_t indent = first->indent;
  const SymbolScope symbols = symbols_; // names end with the block that defines them
  const std::map<LetId, DType> lets = lets_;
  while (const Line* line = peek()) {
    if (line->indent <= parent_indent) break;
    if (line->indent != indent)
      fail(*line, line->indent,
           fmt::format("expected {} spaces before the statement, found {}", indent, line->indent));
    body.push_back(statement(*line));
  }
  symbols_ = symbols;
  lets_ = lets;
  --depth_;
  return body;
}

Body KernelParser::named_block(std::string_view word, size_t parent_indent) {
  const Line* line = peek();
  if (!line || line->indent <= parent_indent) {
    const Line& at = line ? *line : lines_.back();
    fail(at, at.indent, fmt::format("expected '{}:', indented", word));
  }
  LineParser p(*this, line->text, options(*line));
  const size_t indent = line->indent;
  p.reader().expect(word);
  p.reader().expect(":");
  p.reader().expect_end();
  ++next_;
  // A part of `roles` may be empty.
  if (const Line* body = peek(); !body || body->indent <= indent) return {};
  return block(indent, word);
}

StmtRef KernelParser::loop(LineParser& p, const Line& line, LoopKind kind) {
  TextReader& r = p.reader();
  const SymbolScope outside = symbols_; // without the loop's own variable
  Loop s;
  s.kind = kind;
  p.bounds(s);
  const Expr variable = s.variable;
  if (kind == LoopKind::parallel && r.accept("level")) s.level = p.small("level", 0, 2);
  if (kind == LoopKind::serial && r.accept("jam")) s.jam = p.small("bodies", 1, 1 << 20);
  if (kind == LoopKind::vector && r.at("masked")) {
    r.next();
    symbols_.erase(std::string(variable.name())); // the mask is about all lanes
    s.lanes_active = p.expr();
    symbols_.emplace(std::string(variable.name()), variable);
  }
  r.expect_end();
  s.body = block(line.indent, "the loop");
  symbols_ = outside;
  return std::make_shared<const Stmt>(std::move(s));
}

StmtRef KernelParser::let(LineParser& p) {
  TextReader& r = p.reader();
  if (r.accept("%")) {
    const Token at = r.peek();
    LetValue s{LetId(p.small("the number of a let", 0, (1 << 30) - 1)), nullptr};
    r.expect("=");
    s.value = p.value();
    r.expect_end();
    if (!lets_.emplace(s.let, s.value->dtype).second)
      r.fail_at(at, fmt::format("%{} is defined twice", s.let));
    kernel_.lets = std::max(kernel_.lets, s.let.number() + 1);
    return std::make_shared<const Stmt>(std::move(s));
  }
  const Token at = p.name("%number or the name of an index");
  r.expect("in");
  LetIndex s{p.ranged_symbol(at), nullptr};
  r.expect("=");
  s.value = p.value();
  r.expect_end();
  p.declare(at, s.symbol);
  return std::make_shared<const Stmt>(std::move(s));
}

StmtRef KernelParser::condition(LineParser& p, const Line& line) {
  If s;
  s.condition = p.expr();
  p.reader().expect_end();
  s.then = block(line.indent, "if");
  if (const Line* other = peek(); other && other->indent == line.indent) {
    LineParser q(*this, other->text, options(*other));
    if (q.reader().accept("else")) {
      q.reader().expect_end();
      ++next_;
      s.otherwise = block(line.indent, "else");
    }
  }
  return std::make_shared<const Stmt>(std::move(s));
}

StmtRef KernelParser::roles(LineParser& p, const Line& line) {
  const SymbolScope outside = symbols_;
  Roles s;
  p.bounds(s);
  p.reader().expect("stages");
  s.stages = p.small("stages", 1, 1 << 16);
  p.reader().expect_end();
  s.producers = named_block("producers", line.indent);
  s.consumers = named_block("consumers", line.indent);
  symbols_ = outside;
  return std::make_shared<const Stmt>(std::move(s));
}

StmtRef KernelParser::asynchronous(LineParser& p) {
  TextReader& r = p.reader();
  const auto token = [&] {
    r.expect("->");
    r.expect("token");
    return TokenId(p.small("token", 0, 1 << 16));
  };
  if (r.accept("copy")) {
    AsyncCopy s;
    s.to = p.operand();
    r.expect("<");
    r.expect("-");
    s.from = p.operand();
    r.expect("count");
    s.count = p.expr();
    if (r.accept("fill")) s.fill = p.expr();
    s.token = token();
    return std::make_shared<const Stmt>(std::move(s));
  }
  r.expect("unit");
  AsyncUnit s;
  s.call = p.unit();
  s.token = token();
  return std::make_shared<const Stmt>(std::move(s));
}

StmtRef KernelParser::statement(const Line& line) {
  LineParser p(*this, line.text, options(line));
  TextReader& r = p.reader();
  ++next_;
  const Token first = r.peek();
  static constexpr std::pair<std::string_view, LoopKind> loops[] = {{"for", LoopKind::serial},
                                                                    {"parallel", LoopKind::parallel},
                                                                    {"unrolled", LoopKind::unrolled},
                                                                    {"vector", LoopKind::vector}};
  const auto whole_line = [&](Stmt stmt) {
    r.expect_end();
    return std::make_shared<const Stmt>(std::move(stmt));
  };
  if (r.peek_second().text == "[") { // an element of a buffer
    Store s;
    s.buffer = p.buffer();
    s.offset = p.bracketed();
    r.expect("=");
    s.value = p.value();
    return whole_line(std::move(s));
  }
  for (const auto& [word, kind] : loops)
    if (r.accept(word)) return loop(p, line, kind);
  if (r.accept("let")) return let(p);
  if (r.accept("if")) return condition(p, line);
  if (r.accept("roles")) return roles(p, line);
  if (r.accept("barrier")) {
    Barrier s;
    if (r.accept("level")) s.level = p.small("level", 0, 2);
    return whole_line(s);
  }
  if (r.accept("prefetch")) {
    Prefetch s;
    s.buffer = p.buffer();
    s.offset = p.bracketed();
    return whole_line(s);
  }
  if (r.accept("unit")) return whole_line(p.unit());
  if (r.accept("wait")) {
    AsyncWait s{TokenId(p.small("token", 0, 1 << 16))};
    if (r.accept("behind")) s.behind = p.small("behind", 0, 1 << 16);
    return whole_line(s);
  }
  if (r.accept("exchange")) {
    Exchange s;
    s.to = p.buffer();
    s.to_offset = p.bracketed();
    r.expect("<");
    r.expect("-");
    s.from = p.buffer();
    s.from_offset = p.bracketed();
    r.expect("xor");
    s.mask = p.small("xor", 1, 1 << 16);
    return whole_line(s);
  }
  if (r.accept("async")) {
    StmtRef stmt = asynchronous(p);
    r.expect_end();
    return stmt;
  }
  r.fail_at(first, "expected a statement: for, parallel, unrolled, vector, let, if, barrier, prefetch, unit, "
                   "async, wait, exchange, roles, or an element of a buffer");
}

} // namespace loop_detail

Kernel parse_kernel(std::string_view text, std::string_view file_name) {
  return loop_detail::KernelParser(text, file_name).parse();
}

} // namespace luminal::kernel
