// loop/loop_print.cpp -- the text of a kernel; parse.cpp reads it back.
#include "base/text_reader.h"
#include "loop/loop.h"
#include <cmath>
#include <fmt/format.h>

namespace luminal::kernel {
namespace {

/// Binding strength of the text of a value, weakest first.
enum Precedence { comparison = 1, additive, multiplicative, primary };

struct Infix {
  std::string_view text;
  Precedence precedence = primary;
};

Infix infix_of(Op op) {
  switch (op) {
  case Op::add: return {"+", additive};
  case Op::sub: return {"-", additive};
  case Op::mul: return {"*", multiplicative};
  case Op::div: return {"/", multiplicative};
  case Op::lt: return {"<", comparison};
  case Op::le: return {"<=", comparison};
  case Op::eq: return {"==", comparison};
  case Op::ne: return {"!=", comparison};
  default: return {};
  }
}

class Printer {
public:
  explicit Printer(const Kernel& kernel) : kernel_(kernel) {}

  std::string out;

  void kernel() {
    out += "kernel ";
    out += is_identifier(kernel_.name) ? kernel_.name : quoted(kernel_.name);
    out += "(";
    bool first = true;
    for (const Buffer& b : kernel_.buffers) {
      if (b.space != Space::global) continue;
      if (!first) out += ", ";
      first = false;
      buffer(b);
    }
    if (!kernel_.symbols.empty()) out += "; ";
    for (size_t i = 0; i < kernel_.symbols.size(); ++i) {
      if (i) out += ", ";
      symbol(kernel_.symbols[i]);
    }
    out += ")";
    if (kernel_.lanes != 16) out += fmt::format(" lanes {}", kernel_.lanes);
    if (LetId(kernel_.lets) != highest_let(kernel_.body) + 1) out += fmt::format(" lets {}", kernel_.lets);
    out += "\n";
    for (const std::string& note : kernel_.notes) out += "  # " + one_line(note) + "\n";
    for (const Buffer& b : kernel_.buffers) {
      if (b.space == Space::global) continue;
      out += "  ";
      out += kernel::to_string(b.space);
      out += " ";
      buffer(b);
      out += "\n";
    }
    body(kernel_.body, 2);
  }

  void value(const ValueRef& v, int outer = 0) {
    if (!v) {
      out += "<no value>";
      return;
    }
    value(*v, outer);
  }

  void value(const Value& whole, int outer = 0) {
    visit(
        whole, [&](const Constant& v) { constant(whole.dtype, v.value); },
        [&](const Load& v) {
          const bool plain = has_buffer(v.buffer) && kernel_.buffers[v.buffer].dtype == whole.dtype;
          if (!plain) typed("load", whole.dtype);
          if (!plain) out += "(";
          element(v.buffer, v.offset, v.guard);
          if (!plain) out += ")";
        },
        [&](const Index& v) {
          typed("index", whole.dtype);
          out += "(" + luminal::to_string(v.value) + ")";
        },
        [&](const Let& v) { out += fmt::format("%{}", v.number); }, [&](const Apply& v) { apply(v, outer); },
        [&](const ApplyUser& v) {
          out += v.name;
          arguments(v.args);
        },
        [&](const Cast& v) {
          typed("cast", whole.dtype);
          arguments({&v.x, 1});
        },
        [&](const Bitcast& v) {
          typed("bitcast", whole.dtype);
          arguments({&v.x, 1});
        },
        [&](const ReduceLanes& v) {
          if (v.form == LanesForm::last)
            out += "last_lane";
          else
            out += fmt::format("{}_lanes<{}>", v.form == LanesForm::reduced ? "reduce" : "scan",
                               luminal::to_string(v.op));
          arguments({&v.x, 1});
        });
  }

  /// The first line of a statement, without indentation and line end.
  void head(const Stmt& stmt) {
    visit(
        stmt, [&](const Loop& s) { loop(s); },
        [&](const Store& s) {
          element(s.buffer, s.offset);
          out += " = ";
          value(s.value);
        },
        [&](const LetValue& s) {
          out += fmt::format("let %{} = ", s.let);
          value(s.value);
        },
        [&](const LetIndex& s) {
          out += "let " + name_of(s.symbol) + " in ";
          range(s.symbol);
          out += " = ";
          value(s.value);
        },
        [&](const If& s) { out += "if " + luminal::to_string(s.condition); },
        [&](const Barrier& s) {
          out += "barrier";
          if (s.level != 0) out += fmt::format(" level {}", s.level);
        },
        [&](const Prefetch& s) {
          out += "prefetch ";
          element(s.buffer, s.offset);
        },
        [&](const UnitCall& s) { call(s); },
        [&](const AsyncCopy& s) {
          out += "async copy ";
          operand(s.to);
          out += " <- ";
          operand(s.from);
          out += " count " + luminal::to_string(s.count);
          if (!s.fill.is_constant(0)) out += " fill " + luminal::to_string(s.fill);
          out += fmt::format(" -> token {}", s.token);
        },
        [&](const AsyncUnit& s) {
          out += "async ";
          call(s.call);
          out += fmt::format(" -> token {}", s.token);
        },
        [&](const AsyncWait& s) {
          out += fmt::format("wait {}", s.token);
          if (s.behind) out += fmt::format(" behind {}", *s.behind);
        },
        [&](const Exchange& s) {
          out += "exchange ";
          element(s.to, s.to_offset);
          out += " <- ";
          element(s.from, s.from_offset);
          out += fmt::format(" xor {}", s.mask);
        },
        [&](const Roles& s) {
          out += "roles ";
          bounds(s);
          out += fmt::format(" stages {}", s.stages);
        });
  }

private:
  static bool is_identifier(std::string_view name) {
    if (name.empty() || name.back() == '.') return false;
    for (size_t i = 0; i < name.size(); ++i) {
      const char c = name[i];
      const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
      if (!letter && !(i > 0 && ((c >= '0' && c <= '9') || c == '.'))) return false;
    }
    return true;
  }

  static std::string one_line(std::string text) {
    for (char& c : text)
      if (c == '\n' || c == '\r') c = ' ';
    return text;
  }

  static LetId highest_let(const Body& statements) {
    LetId highest;
    for (const StmtRef& s : statements) {
      if (const auto* let = s->as<LetValue>()) highest = std::max(highest, let->let);
      for (const Body* inside : bodies_of(*s)) highest = std::max(highest, highest_let(*inside));
    }
    return highest;
  }

  bool has_buffer(BufferId id) const { return kernel_.buffers.has(id); }

  static std::string name_of(Expr symbol) {
    return symbol.is_symbol() ? std::string(symbol.name()) : "<" + luminal::to_string(symbol) + ">";
  }

  /// low..high multiple m; a bound that says nothing is left out.
  void range(Expr symbol) {
    const Interval r = symbol.range();
    if (r.low != unbounded_low) out += fmt::format("{}", r.low);
    out += "..";
    if (r.high != unbounded_high) out += fmt::format("{}", r.high);
    if (symbol.multiple() > 1) out += fmt::format(" multiple {}", symbol.multiple());
  }

  void symbol(Expr s) {
    out += name_of(s);
    if (s.range() == Interval{} && s.multiple() <= 1) return;
    out += ": ";
    range(s);
  }

  void buffer(const Buffer& b) {
    out += fmt::format("{}: {}[{}]", b.name, luminal::to_string(b.dtype), luminal::to_string(b.size));
    if (b.space == Space::global || b.access != Access::scratch) {
      out += " ";
      out += kernel::to_string(b.access);
    }
    if (b.alignment) out += fmt::format(" align {}", b.alignment);
    if (b.padded) out += " padded";
    if (b.streaming) out += " streaming";
  }

  void loop(const Loop& s) {
    switch (s.kind) {
    case LoopKind::serial: out += "for "; break;
    case LoopKind::parallel: out += "parallel "; break;
    case LoopKind::unrolled: out += "unrolled "; break;
    case LoopKind::vector: out += "vector "; break;
    }
    bounds(s);
    if (s.level != 0) out += fmt::format(" level {}", s.level);
    if (s.jam != 1) out += fmt::format(" jam {}", s.jam);
    if (s.lanes_active) out += " masked " + luminal::to_string(*s.lanes_active);
  }

  template <class Steps> void bounds(const Steps& s) { // of a loop or of roles
    out += name_of(s.variable);
    // The range of a loop variable follows from its bounds nearly always; only another one is
    // written.
    const Interval begin = s.begin.range(), end = s.end.range();
    const Interval follows{begin.low, end.high == unbounded_high ? end.high : end.high - 1};
    if (s.variable.range() != follows || s.variable.multiple() > 1) {
      out += ": ";
      range(s.variable);
    }
    out += " in " + luminal::to_string(s.begin);
    out += s.begin.is_constant() ? ".." : " .. ";
    out += luminal::to_string(s.end);
  }

  void element(BufferId id, Expr offset, Expr guard = 1) {
    out += has_buffer(id) ? kernel_.buffers[id].name : fmt::format("<buffer {}>", id);
    out += "[" + luminal::to_string(offset);
    if (!guard.is_constant(1)) out += " where " + luminal::to_string(guard);
    out += "]";
  }

  void operand(const UnitOperand& o) {
    out += has_buffer(o.buffer) ? kernel_.buffers[o.buffer].name : fmt::format("<buffer {}>", o.buffer);
    out += "[" + luminal::to_string(o.offset);
    for (size_t i = 0; i < o.strides.size(); ++i) out += (i ? ", " : "; ") + luminal::to_string(o.strides[i]);
    out += "]";
  }

  void call(const UnitCall& s) {
    out += "unit " + s.unit;
    for (const UnitOperand& o : s.operands) {
      out += " ";
      operand(o);
    }
    if (s.rows) out += ", rows " + luminal::to_string(*s.rows);
  }

  void typed(std::string_view word, DType dtype) {
    out += fmt::format("{}<{}>", word, luminal::to_string(dtype));
  }

  void apply(const Apply& v, int outer) {
    const Infix infix = v.args.size() == 2 ? infix_of(v.op) : Infix{};
    if (infix.precedence == primary) {
      out += luminal::to_string(v.op);
      return arguments(v.args);
    }
    const bool parentheses = infix.precedence < outer;
    if (parentheses) out += "(";
    // Left to right: an equal right operand needs parentheses; comparisons do not chain.
    value(v.args[0], infix.precedence == comparison ? additive : infix.precedence);
    out += fmt::format(" {} ", infix.text);
    value(v.args[1], infix.precedence + 1);
    if (parentheses) out += ")";
  }

  void arguments(std::span<const ValueRef> args) {
    out += "(";
    for (size_t i = 0; i < args.size(); ++i) {
      if (i) out += ", ";
      value(args[i]);
    }
    out += ")";
  }

  /// f32: the bare number; other types: i32(3).
  void constant(DType dtype, double x) {
    std::string number;
    if (is_float(dtype) && x == x && double(float(x)) == x)
      number = float_text(float(x));
    else if (is_float(dtype) || x != std::floor(x) || std::fabs(x) > 0x1p63)
      number = float_text(x);
    else
      number = fmt::format("{:.0f}", x);
    out += dtype == DType::f32 ? number : fmt::format("{}({})", luminal::to_string(dtype), number);
  }

  void line(int indent, std::string_view text) {
    out.append(size_t(indent), ' ');
    out += text;
    out += "\n";
  }
  void body(const Body& statements, int indent) {
    for (const StmtRef& s : statements) {
      out.append(size_t(indent), ' ');
      head(*s);
      out += "\n";
      if (const auto* loop = s->as<Loop>()) body(loop->body, indent + 2);
      if (const auto* branch = s->as<If>()) {
        body(branch->then, indent + 2);
        if (!branch->otherwise.empty()) line(indent, "else");
        body(branch->otherwise, indent + 2);
      }
      if (const auto* roles = s->as<Roles>()) {
        line(indent + 2, "producers:");
        body(roles->producers, indent + 4);
        line(indent + 2, "consumers:");
        body(roles->consumers, indent + 4);
      }
    }
  }

  const Kernel& kernel_;
};

} // namespace

std::string_view to_string(Space space) {
  switch (space) {
  case Space::global: return "global";
  case Space::shared: return "shared";
  case Space::local: return "local";
  case Space::registers: return "registers";
  case Space::group: return "group";
  case Space::tensor_memory: return "tensor_memory";
  }
  return "?";
}

std::string_view to_string(Access access) {
  switch (access) {
  case Access::in: return "in";
  case Access::out: return "out";
  case Access::inout: return "inout";
  case Access::scratch: return "scratch";
  }
  return "?";
}

std::string to_string(const Kernel& kernel) {
  Printer printer(kernel);
  printer.kernel();
  return std::move(printer.out);
}

std::string to_string(const Kernel& kernel, const Value& value) {
  Printer printer(kernel);
  printer.value(value);
  return std::move(printer.out);
}

std::string to_string(const Kernel& kernel, const Stmt& stmt) {
  Printer printer(kernel);
  printer.head(stmt);
  return std::move(printer.out);
}

} // namespace luminal::kernel
