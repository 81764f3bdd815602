// expr/emit.cpp -- expressions as C and as LLVM IR text, and the width they need.
#include "expr/canonical.h"
#include <fmt/format.h>
#include <unordered_map>
#include <unordered_set>

namespace luminal {
using namespace expr_detail;

namespace {

constexpr Interval int32 = {INT32_MIN, INT32_MAX};

// Do all values that the texts below compute for e fit 32 bits? The order of partial sums and
// products is that of the texts.
struct Width {
  std::unordered_set<uint32_t> seen;

  bool fits(Expr e) {
    const Node& n = node(e);
    if (!int32.contains(n.range)) return false;
    if (n.arg_span().empty() || !seen.insert(e.id()).second) return true;
    for (const Expr arg : n.arg_span())
      if (!fits(arg)) return false;
    if (n.kind == ExprKind::add || n.kind == ExprKind::mul) {
      Interval partial = n.kind == ExprKind::add ? point(0) : point(1);
      for (const Expr arg : n.arg_span()) {
        partial = n.kind == ExprKind::add ? partial + node(arg).range : partial * node(arg).range;
        if (!int32.contains(partial)) return false;
      }
    }
    return true;
  }
};

bool never_negative(Expr e) { return node(e).range.low >= 0; }
bool always_positive(Expr e) { return node(e).range.low > 0; }

std::string c_name(Expr symbol) {
  std::string name(node(symbol).name_view());
  for (char& c : name)
    if (c == '.') c = '_';
  return name;
}

constexpr size_t max_c_text = 16 << 20;

struct CWriter {
  const CTextOptions& options;

  // Everything but names and literals comes in parentheses or is a call, so that it can stand
  // anywhere.
  std::string number(Expr e) { // as an operand of index type
    const std::string text = value(e);
    const ExprKind kind = node(e).kind;
    const bool is_int = kind == ExprKind::lt || kind == ExprKind::eq || kind == ExprKind::ne ||
                        kind == ExprKind::logical_and || kind == ExprKind::logical_or;
    return is_int ? fmt::format("({}){}", options.type, text) : text;
  }

  std::string value(Expr e) {
    std::string text = compute(e);
    if (text.size() > max_c_text)
      throw Error("[expr] the C text of an expression would have more than 16 MiB");
    return text;
  }

  std::string compute(Expr e) {
    const Node& n = node(e);
    const auto args = n.arg_span();
    switch (n.kind) {
    case ExprKind::constant:
      if (n.value == INT64_MIN) return "(-9223372036854775807 - 1)";
      if (n.value == INT32_MIN) return "(-2147483647 - 1)";
      return n.value < 0 ? fmt::format("({})", n.value) : std::to_string(n.value);
    case ExprKind::symbol: return options.name_of ? options.name_of(e) : c_name(e);
    case ExprKind::add: {
      std::string out = "(" + number(args[0]);
      for (const Expr arg : args.subspan(1)) {
        const Node& a = node(arg);
        if (a.kind == ExprKind::constant && a.value < 0 && a.value != INT64_MIN)
          out += fmt::format(" - {}", -a.value);
        else
          out += " + " + number(arg);
      }
      return out + ")";
    }
    case ExprKind::mul: {
      std::string out = "(";
      for (size_t i = 0; i < args.size(); ++i) out += (i > 0 ? " * " : "") + number(args[i]);
      return out + ")";
    }
    case ExprKind::floordiv: return divide(args[0], args[1]);
    case ExprKind::mod: return remainder(args[0], args[1]);
    case ExprKind::min:
    case ExprKind::max: {
      const std::string& function = n.kind == ExprKind::min ? options.min_function : options.max_function;
      std::string out = number(args[0]);
      for (const Expr arg : args.subspan(1)) {
        const std::string next = number(arg);
        if (!function.empty())
          out = fmt::format("{}({}, {})", function, out, next);
        else
          out =
              fmt::format("({} {} {} ? {} : {})", out, n.kind == ExprKind::min ? "<" : ">", next, out, next);
        if (out.size() > max_c_text)
          throw Error("[expr] the C text of an expression would have more than 16 MiB");
      }
      return out;
    }
    case ExprKind::lt: return binary(args, "<");
    case ExprKind::eq: return binary(args, "==");
    case ExprKind::ne: return binary(args, "!=");
    case ExprKind::logical_and: return conditions(args, "&&");
    case ExprKind::logical_or: return conditions(args, "||");
    }
    return {};
  }

  std::string binary(std::span<const Expr> args, std::string_view symbol) {
    return fmt::format("({} {} {})", number(args[0]), symbol, number(args[1]));
  }
  std::string conditions(std::span<const Expr> args, std::string_view symbol) {
    std::string out = "(" + value(args[0]);
    for (const Expr arg : args.subspan(1)) out += fmt::format(" {} {}", symbol, value(arg));
    return out + ")";
  }

  // C rounds towards 0: one less where the remainder has the sign that floor does not want.
  std::string divide(Expr a, Expr b) {
    const Node& d = node(b);
    const std::string x = number(a), y = number(b);
    if (never_negative(a) && always_positive(b)) return fmt::format("({} / {})", x, y);
    if (d.kind == ExprKind::constant && is_power_of_two(d.value))
      return fmt::format("({} >> {})", x, __builtin_ctzll(static_cast<uint64_t>(d.value)));
    if (always_positive(b)) return fmt::format("({0} / {1} - ({0} % {1} < 0))", x, y);
    return fmt::format("({0} / {1} - ({0} % {1} != 0 && ({0} % {1} < 0) != ({1} < 0)))", x, y);
  }
  std::string remainder(Expr a, Expr b) {
    const Node& d = node(b);
    const std::string x = number(a), y = number(b);
    if (never_negative(a) && always_positive(b)) return fmt::format("({} % {})", x, y);
    if (d.kind == ExprKind::constant && is_power_of_two(d.value))
      return fmt::format("({} & {})", x, d.value - 1);
    if (always_positive(b)) return fmt::format("({0} % {1} + ({0} % {1} < 0 ? {1} : 0))", x, y);
    return fmt::format("({0} % {1} + ({0} % {1} != 0 && ({0} % {1} < 0) != ({1} < 0) ? {1} : 0))", x, y);
  }
};

struct LlvmWriter {
  const LlvmTextOptions& options;
  LlvmText out;
  std::string type;
  std::unordered_map<uint32_t, std::string> known;      // also conditions widened to the index type
  std::unordered_map<uint32_t, std::string> known_bits; // conditions as i1

  template <class... Args> std::string line(fmt::format_string<Args...> text, Args&&... args) {
    std::string name = fmt::format("{}{}", options.prefix, out.lines.size());
    out.lines.push_back(name + " = " + fmt::format(text, std::forward<Args>(args)...));
    return name;
  }

  std::string value(Expr e) { // of the index type
    const Node& n = node(e);
    if (n.kind == ExprKind::constant) return std::to_string(n.value);
    if (n.kind == ExprKind::symbol)
      return options.name_of ? options.name_of(e) : fmt::format("%{}", n.name_view());
    const auto found = known.find(e.id());
    if (found != known.end()) return found->second;
    std::string result = compute(e, n);
    known.emplace(e.id(), result);
    return result;
  }

  // No wrap where the range of the result, and so of every partial one, is proved; wrapping
  // elsewhere, which the caller's width must exclude.
  std::string flags(Interval range) {
    const Interval all = options.bits == 32 ? int32 : Interval{INT64_MIN + 1, INT64_MAX - 1};
    return all.contains(range) ? " nsw" : "";
  }

  std::string compute(Expr, const Node& n) {
    const auto args = n.arg_span();
    switch (n.kind) {
    case ExprKind::add:
    case ExprKind::mul: {
      const bool sum = n.kind == ExprKind::add;
      std::string total = value(args[0]);
      Interval range = node(args[0]).range;
      for (const Expr arg : args.subspan(1)) {
        const std::string next = value(arg);
        range = sum ? range + node(arg).range : range * node(arg).range;
        total = line("{}{} {} {}, {}", sum ? "add" : "mul", flags(range), type, total, next);
      }
      return total;
    }
    case ExprKind::floordiv: return divide(args[0], args[1], true);
    case ExprKind::mod: return divide(args[0], args[1], false);
    case ExprKind::min:
    case ExprKind::max: {
      std::string total = value(args[0]);
      for (const Expr arg : args.subspan(1)) {
        const std::string next = value(arg);
        const std::string less =
            line("icmp {} {} {}, {}", n.kind == ExprKind::min ? "slt" : "sgt", type, total, next);
        total = line("select i1 {}, {} {}, {} {}", less, type, total, type, next);
      }
      return total;
    }
    default: return line("zext i1 {} to {}", condition(n), type);
    }
  }

  std::string condition_of(Expr e) { // as i1
    const Node& n = node(e);
    const bool own = n.kind == ExprKind::lt || n.kind == ExprKind::eq || n.kind == ExprKind::ne ||
                     n.kind == ExprKind::logical_and || n.kind == ExprKind::logical_or;
    const auto found = known_bits.find(e.id());
    if (found != known_bits.end()) return found->second;
    std::string result = own ? condition(n) : line("icmp ne {} {}, 0", type, value(e));
    known_bits.emplace(e.id(), result);
    return result;
  }
  std::string condition(const Node& n) {
    const auto args = n.arg_span();
    if (n.kind == ExprKind::logical_and || n.kind == ExprKind::logical_or) {
      std::string total = condition_of(args[0]);
      for (const Expr arg : args.subspan(1)) {
        const std::string next = condition_of(arg);
        total = line("{} i1 {}, {}", n.kind == ExprKind::logical_and ? "and" : "or", total, next);
      }
      return total;
    }
    const std::string a = value(args[0]), b = value(args[1]);
    return line("icmp {} {} {}, {}",
                n.kind == ExprKind::lt   ? "slt"
                : n.kind == ExprKind::eq ? "eq"
                                         : "ne",
                type, a, b);
  }

  std::string divide(Expr a, Expr b, bool quotient) {
    const Node& d = node(b);
    const std::string x = value(a), y = value(b);
    const bool power = d.kind == ExprKind::constant && is_power_of_two(d.value);
    if (power && quotient)
      return line("ashr {} {}, {}", type, x, __builtin_ctzll(static_cast<uint64_t>(d.value)));
    if (power) return line("and {} {}, {}", type, x, d.value - 1);
    if (never_negative(a) && always_positive(b))
      return line("{} {} {}, {}", quotient ? "udiv" : "urem", type, x, y);
    const std::string r = line("srem {} {}, {}", type, x, y);
    std::string wrong; // the remainder has the sign that floor does not want
    if (always_positive(b)) {
      wrong = line("icmp slt {} {}, 0", type, r);
    } else {
      const std::string some = line("icmp ne {} {}, 0", type, r);
      const std::string signs = line("xor {} {}, {}", type, r, y);
      const std::string differ = line("icmp slt {} {}, 0", type, signs);
      wrong = line("and i1 {}, {}", some, differ);
    }
    if (quotient) {
      const std::string q = line("sdiv {} {}, {}", type, x, y);
      const std::string one = line("sext i1 {} to {}", wrong, type);
      return line("add {} {}, {}", type, q, one);
    }
    const std::string shift = line("select i1 {}, {} {}, {} 0", wrong, type, y, type);
    return line("add {} {}, {}", type, r, shift);
  }
};

void check_bits(int bits) {
  if (bits != 32 && bits != 64) throw Error(fmt::format("[expr] an index has 32 or 64 bits, not {}", bits));
}

} // namespace

int needed_bits(std::span<const Expr> exprs) {
  Width width;
  for (const Expr e : exprs)
    if (!width.fits(e)) return 64;
  return 32;
}
int needed_bits(Expr e) { return needed_bits(std::span(&e, 1)); }

std::string to_c(Expr e, const CTextOptions& options) {
  check_bits(options.bits);
  return CWriter{options}.number(e);
}

LlvmText to_llvm(Expr e, const LlvmTextOptions& options) {
  check_bits(options.bits);
  LlvmWriter writer{options, {}, fmt::format("i{}", options.bits), {}, {}};
  writer.out.value = writer.value(e);
  return std::move(writer.out);
}

} // namespace luminal
