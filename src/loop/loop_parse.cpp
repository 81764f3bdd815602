// loop/loop_parse.cpp -- reads the text of a kernel that loop_print.cpp writes. Statements are lines,
// bodies are indented; each line has a reader of its own, so that nothing runs over its end.
#include "base/text_reader.h"
#include "expr/parse_expr.h"
#include "loop/loop.h"
#include "loop/unit.h"
#include <cmath>
#include <fmt/format.h>
#include <map>

namespace luminal::kernel {
namespace {

struct Line {
  uint32_t number = 0;
  size_t indent = 0;
  std::string_view text;    // with its indentation
  std::string_view comment; // what follows '#', if the line holds nothing else
  bool blank = false;       // empty, or a comment only
};

class LineParser;

/// What the lines share: names, and where the next line is.
class KernelParser {
public:
  KernelParser(std::string_view text, std::string_view file) : file_(file) {
    uint32_t number = 1;
    while (!text.empty()) {
      const size_t end = text.find('\n');
      Line line{number++, 0, text.substr(0, end), {}, false};
      text.remove_prefix(end == text.npos ? text.size() : end + 1);
      while (!line.text.empty() && (line.text.back() == '\r' || line.text.back() == ' '))
        line.text.remove_suffix(1);
      while (line.indent < line.text.size() && line.text[line.indent] == ' ') ++line.indent;
      line.blank = line.indent == line.text.size() || line.text[line.indent] == '#';
      if (line.indent < line.text.size() && line.blank) line.comment = line.text.substr(line.indent + 1);
      lines_.push_back(line);
    }
  }

  Kernel parse();

private:
  friend class LineParser;

  /// The next line with a statement, or none.
  const Line* peek() {
    while (next_ < lines_.size() && lines_[next_].blank) ++next_;
    return next_ < lines_.size() ? &lines_[next_] : nullptr;
  }

  [[noreturn]] void fail(const Line& line, size_t column, std::string_view message) const {
    TextReader reader(line.text, std::string(file_), options(line));
    reader.fail_at(uint32_t(column), 1, message);
  }

  static TextReader::Options options(const Line& line) {
    TextReader::Options o;
    o.value_names = false; // % is the remainder, and the sigil of lets
    o.first_line = line.number;
    return o;
  }

  void header();
  Body block(size_t parent_indent, std::string_view owner);
  Body named_block(std::string_view word, size_t parent_indent);
  StmtRef statement(const Line& line);
  StmtRef loop(LineParser& p, const Line& line, LoopKind kind);
  StmtRef let(LineParser& p);
  StmtRef condition(LineParser& p, const Line& line);
  StmtRef roles(LineParser& p, const Line& line);
  StmtRef asynchronous(LineParser& p);

  std::string file_;
  std::vector<Line> lines_;
  size_t next_ = 0;
  int depth_ = 0;
  std::string header_text_; // of a header that spans lines
  Kernel kernel_;
  std::map<std::string, BufferId, std::less<>> buffers_;
  SymbolScope symbols_;
  std::map<int, DType> lets_;
};

/// Reads one line.
class LineParser {
public:
  LineParser(KernelParser& kernel, std::string_view text, const TextReader::Options& options)
      : k_(kernel), r_(text, kernel.file_, options) {}

  TextReader& reader() { return r_; }

  Expr expr() { return parse_expr(r_, k_.symbols_); }

  // ---- values, lowest binding first
  ValueRef value() {
    TextReader::Nested nested(r_);
    ValueRef left = additive();
    static constexpr std::pair<std::string_view, Op> comparisons[] = {
        {"<", Op::lt}, {"<=", Op::le}, {"==", Op::eq}, {"!=", Op::ne}};
    for (const auto& [text, op] : comparisons)
      if (r_.at(text)) {
        const Token at = r_.next();
        ValueRef right = additive();
        return built(at, [&] { return apply(op, {left, right}); });
      }
    return left;
  }

  BufferId buffer() {
    const Token at = r_.peek();
    const std::string_view name = r_.expect_identifier("a buffer");
    const auto found = k_.buffers_.find(name);
    if (found == k_.buffers_.end()) r_.fail_at(at, fmt::format("there is no buffer '{}'", name));
    return found->second;
  }

  Expr bracketed() {
    r_.expect("[");
    const Expr offset = expr();
    r_.expect("]");
    return offset;
  }

  DType dtype() {
    const Token at = r_.peek();
    const std::string_view name = r_.expect_identifier("an element type");
    const auto type = parse_dtype(name);
    if (!type) r_.fail_at(at, fmt::format("'{}' is not an element type", name));
    return *type;
  }

  /// low..high, each may be missing; then perhaps `multiple m`.
  Expr ranged_symbol(const Token& name) {
    Interval range;
    if (!r_.at("..")) range.low = r_.expect_integer("the least value");
    r_.expect("..");
    if (r_.at(TokenKind::integer) || r_.at("-")) range.high = r_.expect_integer("the greatest value");
    int64_t multiple = 1;
    if (r_.accept("multiple")) multiple = r_.expect_integer("a divisor");
    return built(name, [&] { return Expr::symbol(name.text, range, multiple); });
  }

  Token name(std::string_view what) {
    const Token at = r_.peek();
    r_.expect_identifier(what);
    return at;
  }

  int small(std::string_view what, int64_t low, int64_t high) {
    const Token at = r_.peek();
    const int64_t number = r_.expect_integer(what);
    if (number < low || number > high)
      r_.fail_at(at, fmt::format("expected {} of {} to {}", what, low, high));
    return int(number);
  }

  void buffer_declaration(Space space) {
    Buffer b;
    b.space = space;
    b.access = space == Space::global ? Access::in : Access::scratch;
    const Token at = name("the name of a buffer");
    b.name = at.text;
    r_.expect(":");
    b.dtype = dtype();
    b.size = bracketed();
    bool stated = false;
    for (const Access a : {Access::in, Access::out, Access::inout, Access::scratch})
      if (!stated && r_.accept(kernel::to_string(a))) {
        b.access = a;
        stated = true;
      }
    if (space == Space::global && !stated) r_.fail_expected("in, out, inout or scratch");
    if (r_.accept("align")) b.alignment = small("bytes", 1, 1 << 30);
    b.padded = r_.accept("padded");
    b.streaming = r_.accept("streaming");
    if (!k_.buffers_.emplace(b.name, BufferId(k_.kernel_.buffers.size())).second)
      r_.fail_at(at, fmt::format("there are two buffers '{}'", b.name));
    k_.kernel_.buffers.push_back(std::move(b));
  }

  void symbol_declaration() {
    const Token at = name("a symbol");
    const Expr symbol = r_.accept(":") ? ranged_symbol(at) : built(at, [&] { return Expr::symbol(at.text); });
    declare(at, symbol);
    k_.kernel_.symbols.push_back(symbol);
  }

  void declare(const Token& at, Expr symbol) {
    if (!k_.symbols_.emplace(std::string(at.text), symbol).second)
      r_.fail_at(at, fmt::format("'{}' is defined twice", at.text));
  }

  /// `name[: range] in begin..end`; the range follows from the bounds where it is not written.
  /// Declares the name.
  template <class Steps> void bounds(Steps& s) { // of a loop or of roles
    const Token at = name("a loop variable");
    Expr symbol;
    const bool written = r_.accept(":");
    if (written) symbol = ranged_symbol(at);
    r_.expect("in");
    s.begin = expr();
    r_.expect("..");
    s.end = expr();
    if (!written) {
      const Interval low = s.begin.range(), high = s.end.range();
      const Interval range{low.low, high.high == unbounded_high ? high.high : high.high - 1};
      if (range.low > range.high)
        r_.fail_at(at, fmt::format("the loop is empty; write its range, as in `{}: 0..0 in {} .. {}`",
                                   at.text, luminal::to_string(s.begin), luminal::to_string(s.end)));
      symbol = built(at, [&] { return Expr::symbol(at.text, range); });
    }
    s.variable = symbol;
    declare(at, symbol);
  }

  UnitOperand operand() {
    UnitOperand o;
    o.buffer = buffer();
    r_.expect("[");
    o.offset = expr();
    if (r_.accept(";")) do
        o.strides.push_back(expr());
      while (r_.accept(","));
    r_.expect("]");
    return o;
  }

  UnitCall unit() {
    UnitCall call{std::string(name("the name of a unit").text), {}};
    while (r_.at(TokenKind::identifier)) call.operands.push_back(operand());
    return call;
  }

  /// Runs a builder; what it finds wrong is reported at the token.
  template <class F> auto built(const Token& at, F&& build) -> decltype(build()) {
    std::string text;
    try {
      return build();
    } catch (const Error& e) {
      text = e.what();
    }
    r_.fail_at(at, text);
  }

private:
  ValueRef additive() {
    ValueRef left = multiplicative();
    while (r_.at("+") || r_.at("-")) {
      const Token at = r_.next();
      ValueRef right = multiplicative();
      left = built(at, [&] { return apply(at.text == "+" ? Op::add : Op::sub, {left, right}); });
    }
    return left;
  }

  ValueRef multiplicative() {
    ValueRef left = primary();
    while (r_.at("*") || r_.at("/")) {
      const Token at = r_.next();
      ValueRef right = primary();
      left = built(at, [&] { return apply(at.text == "*" ? Op::mul : Op::div, {left, right}); });
    }
    return left;
  }

  bool at_number() const {
    return r_.at(TokenKind::integer) || r_.at(TokenKind::floating) || r_.at("-") ||
           ((r_.at("inf") || r_.at("nan")) && r_.at(TokenKind::identifier));
  }

  std::vector<ValueRef> arguments() {
    r_.expect("(");
    std::vector<ValueRef> args;
    do args.push_back(value());
    while (r_.accept(","));
    r_.expect(")");
    return args;
  }

  ValueRef argument() {
    r_.expect("(");
    ValueRef only = value();
    r_.expect(")");
    return only;
  }

  DType type_argument() {
    r_.expect("<");
    const DType type = dtype();
    r_.expect(">");
    return type;
  }

  ValueRef primary() {
    TextReader::Nested nested(r_);
    const Token at = r_.peek();
    if (at_number()) return constant(DType::f32, r_.expect_float());
    if (r_.accept("(")) {
      ValueRef inner = value();
      r_.expect(")");
      return inner;
    }
    if (r_.accept("%")) {
      const int number = small("the number of a let", 0, 1 << 30);
      const auto found = k_.lets_.find(number);
      if (found == k_.lets_.end()) r_.fail_at(at, fmt::format("there is no %{} here", number));
      return let_value(found->second, number);
    }
    if (at.kind != TokenKind::identifier) r_.fail_expected("a value");
    const std::string_view second = r_.peek_second().text;
    if (second == "[") {
      const BufferId id = buffer();
      return loaded(k_.kernel_.buffers[size_t(id)].dtype, id);
    }
    const std::string word(r_.expect_identifier());
    if (second == "<") return typed(word, at);
    if (second != "(") r_.fail_at(at, fmt::format("expected a value, found '{}'", word));
    if (const auto type = parse_dtype(word)) return typed_constant(*type);
    if (const auto op = parse_op(word)) {
      std::vector<ValueRef> args = arguments();
      return built(at, [&] { return apply(*op, std::move(args)); });
    }
    if (!find_user_op(word) && !find_lane_unit(word))
      r_.fail_at(at, fmt::format("there is no operation '{}'", word));
    std::vector<ValueRef> args = arguments();
    return built(at, [&] { return apply(word, std::move(args)); });
  }

  ValueRef loaded(DType type, BufferId id) {
    r_.expect("[");
    const Expr offset = expr();
    const Expr guard = r_.accept("where") ? expr() : Expr(1);
    r_.expect("]");
    return load_as(type, id, offset, guard);
  }

  ValueRef typed_constant(DType type) {
    r_.expect("(");
    const Token number = r_.peek();
    const double read = r_.expect_float();
    if (!is_float(type) && (read != std::floor(read) || std::fabs(read) > 0x1p53))
      r_.fail_at(number, "expected an integer of at most 2^53");
    r_.expect(")");
    return constant(type, read);
  }

  ValueRef typed(const std::string& word, const Token& at) {
    if (word == "load") {
      const DType type = type_argument();
      r_.expect("(");
      const BufferId id = buffer();
      ValueRef element = loaded(type, id);
      r_.expect(")");
      return element;
    }
    if (word == "index") {
      const DType type = type_argument();
      r_.expect("(");
      const Expr of = expr();
      r_.expect(")");
      return index(of, type);
    }
    if (word == "cast") {
      const DType type = type_argument();
      return cast(type, argument());
    }
    if (word == "bitcast") {
      const DType type = type_argument();
      ValueRef of = argument();
      return built(at, [&] { return bitcast(type, of); });
    }
    if (word == "reduce_lanes") {
      r_.expect("<");
      const Token name = r_.peek();
      const auto op = parse_op(r_.expect_identifier("an operation"));
      if (!op) r_.fail_at(name, fmt::format("there is no operation '{}'", name.text));
      r_.expect(">");
      return reduce_lanes(*op, argument());
    }
    r_.fail_at(
        at, fmt::format("expected load, index, cast, bitcast or reduce_lanes before '<', found '{}'", word));
  }

  KernelParser& k_;
  TextReader r_;
};

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
  const std::map<int, DType> lets = lets_;
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
    LetValue s{p.small("the number of a let", 0, (1 << 30) - 1), nullptr};
    r.expect("=");
    s.value = p.value();
    r.expect_end();
    if (!lets_.emplace(s.let, s.value->dtype).second)
      r.fail_at(at, fmt::format("%{} is defined twice", s.let));
    kernel_.lets = std::max(kernel_.lets, s.let + 1);
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
    return p.small("token", 0, 1 << 16);
  };
  if (r.accept("copy")) {
    AsyncCopy s;
    s.to = p.operand();
    r.expect("<");
    r.expect("-");
    s.from = p.operand();
    r.expect("count");
    s.count = p.expr();
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
  if (r.accept("wait")) return whole_line(AsyncWait{p.small("token", 0, 1 << 16)});
  if (r.accept("async")) {
    StmtRef stmt = asynchronous(p);
    r.expect_end();
    return stmt;
  }
  r.fail_at(first, "expected a statement: for, parallel, unrolled, vector, let, if, barrier, prefetch, unit, "
                   "async, wait, roles, or an element of a buffer");
}

} // namespace

Kernel parse_kernel(std::string_view text, std::string_view file_name) {
  return KernelParser(text, file_name).parse();
}

} // namespace luminal::kernel
