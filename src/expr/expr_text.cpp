// expr/expr_text.cpp -- the infix text form: printer and parser, each the inverse of the other.
#include "base/text.h"
#include "expr/canonical.h"
#include "expr/parse_expr.h"
#include <fmt/format.h>
#include <ostream>

namespace luminal {
using namespace expr_detail;

namespace {

// ---- printer ----

enum Precedence { p_or, p_and, p_not, p_compare, p_add, p_multiply, p_unary, p_primary };
constexpr size_t max_text = 64 << 20; // sharing makes the text exponential in the number of nodes

struct Printer {
  const SymbolNames& name_of;
  std::string out;

  void print(Expr e, Precedence around) {
    if (out.size() > max_text) throw Error("[expr] the text of an expression would have more than 64 MiB");
    const Node& n = node(e);
    const auto args = n.arg_span();
    const Precedence own = precedence(n);
    const bool parentheses = own < around;
    if (parentheses) out += '(';
    switch (n.kind) {
    case ExprKind::constant: out += std::to_string(n.value); break;
    case ExprKind::symbol: out += name_of ? name_of(e) : std::string(n.name_view()); break;
    case ExprKind::add:
      print(args[0], p_add);
      for (const Expr arg : args.subspan(1)) {
        const Node& a = node(arg);
        const bool negative =
            (a.kind == ExprKind::mul || a.kind == ExprKind::constant) && a.value < 0 && a.value != INT64_MIN;
        out += negative ? " - " : " + ";
        if (!negative)
          print(arg, p_multiply);
        else if (a.kind == ExprKind::constant)
          out += std::to_string(-a.value);
        else
          print_product(a, -a.value);
      }
      break;
    case ExprKind::mul: print_product(n, n.value); break;
    case ExprKind::floordiv:
    case ExprKind::mod: {
      const ExprKind inner = node(args[0]).kind; // nested divisions read better in parentheses
      const bool nested = inner == ExprKind::floordiv || inner == ExprKind::mod;
      print(args[0], nested ? p_primary : p_multiply);
      out += n.kind == ExprKind::floordiv ? " // " : " % ";
      print(args[1], p_unary);
      break;
    }
    case ExprKind::min: print_call("min", args); break;
    case ExprKind::max: print_call("max", args); break;
    case ExprKind::lt: print_less(args[0], args[1]); break;
    case ExprKind::eq:
    case ExprKind::ne:
      print(args[0], p_add);
      out += n.kind == ExprKind::eq ? " == " : " != ";
      print(args[1], p_add);
      break;
    case ExprKind::logical_and:
    case ExprKind::logical_or:
      print(args[0], n.kind == ExprKind::logical_and ? p_not : p_and);
      for (const Expr arg : args.subspan(1)) {
        out += n.kind == ExprKind::logical_and ? " and " : " or ";
        print(arg, n.kind == ExprKind::logical_and ? p_not : p_and);
      }
      break;
    }
    if (parentheses) out += ')';
  }

  static Precedence precedence(const Node& n) {
    switch (n.kind) {
    case ExprKind::constant: return n.value < 0 ? p_unary : p_primary;
    case ExprKind::add: return p_add;
    case ExprKind::mul:
    case ExprKind::floordiv:
    case ExprKind::mod: return p_multiply;
    case ExprKind::lt:
    case ExprKind::eq:
    case ExprKind::ne: return p_compare;
    case ExprKind::logical_and: return p_and;
    case ExprKind::logical_or: return p_or;
    default: return p_primary;
    }
  }

  // x*y*3; -x*3 for -3
  void print_product(const Node& n, int64_t coefficient) {
    const bool minus = coefficient < 0 && coefficient != INT64_MIN;
    if (minus) out += '-';
    bool first = true;
    for (const Expr factor : factors_of(n.base)) {
      if (!first) out += '*';
      first = false;
      const ExprKind kind = node(factor).kind;
      print(factor, kind == ExprKind::floordiv || kind == ExprKind::mod ? p_primary : p_unary);
    }
    const int64_t size = minus ? -coefficient : coefficient;
    if (size != 1) out += '*' + std::to_string(size);
  }

  void print_call(std::string_view name, std::span<const Expr> args) {
    out += name;
    out += '(';
    for (size_t i = 0; i < args.size(); ++i) {
      if (i > 0) out += ", ";
      print(args[i], p_or);
    }
    out += ')';
  }

  // The canonical a < b has no natural look where a constant is on the wrong side.
  void print_less(Expr a, Expr b) {
    const Node &left = node(a), &right = node(b);
    if (left.kind == ExprKind::constant && left.value < INT64_MAX) { // 3 < x  is  x >= 4
      print(b, p_add);
      out += " >= " + std::to_string(left.value + 1);
      return;
    }
    if (right.kind == ExprKind::add && right.value == 1) { // x < y + 1  is  x <= y
      const auto less = try_add(b, Expr(-1));
      if (less && lt(a, *less + 1) == lt(a, b)) {
        print(a, p_add);
        out += " <= ";
        print(*less, p_add);
        return;
      }
    }
    print(a, p_add);
    out += " < ";
    print(b, p_add);
  }
};

// ---- parser ----

struct Parser {
  TextReader& reader;
  const SymbolLookup& lookup;
  const SymbolScope* scope; // for a hint

  // An error of a constructor (overflow, division by zero) gets the place of its operator.
  template <class F> Expr at(const Token& token, F&& make) {
    try {
      return make();
    } catch (const Error& error) {
      reader.fail_at(token, error.what());
    }
  }
  void check_count(size_t count) {
    if (count >= max_text_operands) reader.fail(fmt::format("more than {} operands", max_text_operands));
  }

  Expr disjunction() {
    return junction("or", [this] { return conjunction(); }, [](auto args) { return logical_or(args); });
  }
  Expr conjunction() {
    return junction("and", [this] { return negation(); }, [](auto args) { return logical_and(args); });
  }
  template <class Operand, class Make> Expr junction(std::string_view word, Operand&& operand, Make&& make) {
    const TextReader::Nested nested(reader);
    std::vector<Expr> args{operand()};
    const Token token = reader.peek();
    while (reader.accept(word)) {
      check_count(args.size());
      args.push_back(operand());
    }
    if (args.size() == 1) return args[0];
    return at(token, [&] { return make(std::span<const Expr>(args)); });
  }

  Expr negation() {
    const TextReader::Nested nested(reader);
    const Token token = reader.peek();
    if (!reader.accept("not")) return comparison();
    const Expr arg = negation();
    return at(token, [&] { return logical_not(arg); });
  }

  Expr comparison() {
    const Expr left = additive();
    static constexpr std::pair<std::string_view, Expr (*)(Expr, Expr)> operators[] = {
        {"<", lt}, {"<=", le}, {">", gt}, {">=", ge}, {"==", eq}, {"!=", ne}};
    const Token token = reader.peek();
    for (const auto& [text, make] : operators) {
      if (!reader.accept(text)) continue;
      const Expr right = additive();
      const Token next = reader.peek();
      for (const auto& other : operators)
        if (reader.at(other.first)) reader.fail_at(next, "comparisons do not chain: write `a < b and b < c`");
      return at(token, [&] { return make(left, right); });
    }
    return left;
  }

  Expr additive() {
    std::vector<Expr> terms{multiplicative()};
    const Token first = reader.peek();
    for (;;) {
      const Token token = reader.peek();
      const bool minus = reader.at("-");
      if (!reader.accept("+") && !reader.accept("-")) break;
      check_count(terms.size());
      const Expr term = multiplicative();
      terms.push_back(minus ? at(token, [&] { return -term; }) : term);
    }
    if (terms.size() == 1) return terms[0];
    return at(first, [&] { return sum(terms); });
  }

  Expr multiplicative() {
    Expr left = unary();
    for (size_t count = 1;; ++count) {
      const Token token = reader.peek();
      if (!reader.at("*") && !reader.at("//") && !reader.at("%")) return left;
      check_count(count);
      reader.next();
      const Expr right = unary();
      left = at(token, [&] {
        return token.text == "*"   ? left * right
               : token.text == "%" ? mod(left, right)
                                   : floordiv(left, right);
      });
    }
  }

  Expr unary() {
    const TextReader::Nested nested(reader);
    const Token token = reader.peek();
    if (!reader.at("-")) return primary();
    if (reader.peek_second().kind == TokenKind::integer) return reader.expect_integer();
    reader.next();
    const Expr arg = unary();
    return at(token, [&] { return -arg; });
  }

  std::vector<Expr> arguments(size_t least, size_t most) {
    reader.expect("(");
    std::vector<Expr> args{disjunction()};
    while (reader.accept(",")) {
      check_count(args.size());
      args.push_back(disjunction());
    }
    if (args.size() < least) reader.fail_expected("',' and another argument");
    if (args.size() > most) reader.fail(fmt::format("{} arguments where {} are allowed", args.size(), most));
    reader.expect(")");
    return args;
  }

  Expr primary() {
    const Token token = reader.peek();
    if (token.kind == TokenKind::integer) return reader.expect_integer();
    if (reader.accept("(")) {
      const Expr inner = disjunction();
      reader.expect(")");
      return inner;
    }
    if (token.kind == TokenKind::identifier) {
      if (token.text == "and" || token.text == "or" || token.text == "not")
        reader.fail_expected("an expression");
      reader.next();
      if (token.text == "min" || token.text == "max") {
        const std::vector<Expr> args = arguments(1, max_text_operands);
        return at(token, [&] { return token.text == "min" ? min(args) : max(args); });
      }
      if (token.text == "ceildiv") {
        const std::vector<Expr> args = arguments(2, 2);
        return at(token, [&] { return ceildiv(args[0], args[1]); });
      }
      if (const auto symbol = lookup(token.text)) return *symbol;
      std::string hint;
      if (scope) {
        std::vector<std::string_view> names;
        for (const auto& [name, symbol] : *scope) names.push_back(name);
        if (const auto near = nearest_word(token.text, names); !near.empty())
          hint = fmt::format("; did you mean '{}'?", near);
      }
      reader.fail_at(token, fmt::format("unknown symbol '{}'{}", token.text, hint));
    }
    reader.fail_expected("an expression");
  }
};

} // namespace

std::string to_string(Expr e, const SymbolNames& name_of) {
  Printer printer{name_of, {}};
  printer.print(e, p_or);
  return std::move(printer.out);
}
std::string to_string(Expr e) { return to_string(e, SymbolNames{}); }
std::ostream& operator<<(std::ostream& stream, Expr e) { return stream << to_string(e); }

Expr parse_expr(TextReader& reader, const SymbolLookup& lookup) {
  return Parser{reader, lookup, nullptr}.disjunction();
}
Expr parse_expr(TextReader& reader, const SymbolScope& scope) {
  const SymbolLookup lookup = [&](std::string_view name) -> std::optional<Expr> {
    const auto found = scope.find(name);
    return found == scope.end() ? std::nullopt : std::optional(found->second);
  };
  return Parser{reader, lookup, &scope}.disjunction();
}

Result<Expr> Expr::parse(std::string_view text, const SymbolScope& scope) {
  try {
    TextReader reader(text, "<expression>", {.value_names = false});
    const Expr e = parse_expr(reader, scope);
    reader.expect_end();
    return e;
  } catch (const Error& error) {
    return Failure{error.what()};
  }
}

} // namespace luminal
