// loop/loop_parser.h -- the readers of a kernel's text: one of its lines, and one of each line, so
// that nothing runs over the end of a line.
#pragma once
#include "base/text_reader.h"
#include "expr/parse_expr.h"
#include "loop/loop.h"
#include "loop/unit.h"
#include <fmt/format.h>
#include <map>

namespace luminal::kernel::loop_detail {

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
  std::map<LetId, DType> lets_;
};

/// Reads one line.
class LineParser {
public:
  LineParser(KernelParser& kernel, std::string_view text, const TextReader::Options& options)
      : k_(kernel), r_(text, kernel.file_, options) {}

  TextReader& reader() { return r_; }

  Expr expr() { return parse_expr(r_, k_.symbols_); }

  // ---- values, lowest binding first
  ValueRef value();

  BufferId buffer();

  Expr bracketed();

  DType dtype();

  /// low..high, each may be missing; then perhaps `multiple m`.
  Expr ranged_symbol(const Token& name);

  Token name(std::string_view what);

  int small(std::string_view what, int64_t low, int64_t high);

  void buffer_declaration(Space space);

  void symbol_declaration();

  void declare(const Token& at, Expr symbol);

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

  UnitOperand operand();

  UnitCall unit();

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
  ValueRef additive();

  ValueRef multiplicative();

  bool at_number() const;

  std::vector<ValueRef> arguments();

  ValueRef argument();

  DType type_argument();

  ValueRef primary();

  ValueRef loaded(DType type, BufferId id);

  ValueRef typed_constant(DType type);

  ValueRef typed(const std::string& word, const Token& at);

  KernelParser& k_;
  TextReader r_;
};

} // namespace luminal::kernel::loop_detail
