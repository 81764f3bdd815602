// expr/evaluate.cpp -- values at a point (compiled to a straight line) and ranges over a box.
#include "base/check.h"
#include "expr/number.h"
#include <algorithm>
#include <fmt/format.h>
#include <unordered_map>

namespace luminal {
using namespace expr_detail;

namespace {

enum class Code : uint8_t {
  constant,  // immediate
  scale,     // a * immediate
  scale_add, // a * immediate + b
  add_constant,
  add,
  multiply,
  divide_shift, // by 2^immediate
  mod_mask,     // by immediate + 1, a power of two
  divide_constant,
  mod_constant,
  divide,
  mod,
  min,
  max,
  less,
  equal,
  not_equal,
  both,
  either,
};

struct Instruction {
  Code code;
  bool complete; // the value of a (sub-)expression, not of a part of a sum or product
  uint32_t a, b;
  int64_t immediate;
  Expr of;
};

// 32-bit division is several times faster than 64-bit division on many CPUs, and indices are mostly
// small.
inline int64_t fast_floordiv(int64_t a, int64_t b) {
  if (((static_cast<uint64_t>(a) | static_cast<uint64_t>(b)) >> 32) == 0)
    return static_cast<uint32_t>(a) / static_cast<uint32_t>(b);
  return floor_quotient(a, b);
}
inline int64_t fast_mod(int64_t a, int64_t b) {
  if (((static_cast<uint64_t>(a) | static_cast<uint64_t>(b)) >> 32) == 0)
    return static_cast<uint32_t>(a) % static_cast<uint32_t>(b);
  return b == -1 ? 0 : floor_remainder(a, b);
}

constexpr size_t stack_registers = 192;

} // namespace

struct ExprProgram::Code {
  std::vector<Expr> slots, outputs;
  struct Facts {
    int64_t low, high, multiple;
  };
  std::vector<Facts> facts;
  std::vector<Instruction> instructions;
  std::vector<uint32_t> result_registers;

  std::unordered_map<uint32_t, uint32_t> register_of; // while compiling

  uint32_t emit(luminal::Code code, Expr of, bool complete, uint32_t a, uint32_t b = 0,
                int64_t immediate = 0) {
    instructions.push_back({code, complete, a, b, immediate, of});
    return static_cast<uint32_t>(slots.size() + instructions.size() - 1);
  }
  uint32_t compile(Expr e) {
    const auto known = register_of.find(e.id());
    if (known != register_of.end()) return known->second;
    const uint32_t out = compile_new(e);
    register_of.emplace(e.id(), out);
    return out;
  }
  uint32_t compile_new(Expr e);

  bool facts_hold(std::span<const int64_t> values) const {
    for (size_t i = 0; i < facts.size(); ++i) {
      const Facts& f = facts[i];
      if (values[i] < f.low || values[i] > f.high) return false;
      if (f.multiple != 1 && values[i] % f.multiple != 0) return false;
    }
    return true;
  }
  bool run_fast(int64_t* registers) const noexcept;
  /// In 128 bits; the instruction that fails, or null.
  const Instruction* run_exact(__int128* registers) const;
};

uint32_t ExprProgram::Code::compile_new(Expr e) {
  using luminal::Code;
  const Node& n = node(e);
  switch (n.kind) {
  case ExprKind::constant: return emit(Code::constant, e, true, 0, 0, n.value);
  case ExprKind::symbol:
    throw Error(fmt::format("[expr] symbol '{}' has no value: it is none of the slots", n.name_view()));
  case ExprKind::mul: {
    const auto factors = factors_of(n.base);
    uint32_t product = compile(factors[0]);
    for (size_t i = 1; i < factors.size(); ++i)
      product =
          emit(Code::multiply, e, i + 1 == factors.size() && n.value == 1, product, compile(factors[i]));
    return n.value == 1 ? product : emit(Code::scale, e, true, product, 0, n.value);
  }
  case ExprKind::add: {
    const auto args = n.arg_span();
    uint32_t total = 0;
    bool first = true;
    const size_t terms = args.size() - (n.value != 0 ? 1 : 0);
    for (size_t i = 0; i < terms; ++i) {
      const Node& t = node(args[i]);
      const bool last = i + 1 == terms && n.value == 0;
      // The value of a whole term need not fit where the sum does, so a scaled term is not a value
      // by itself.
      if (first) {
        total = t.kind == ExprKind::mul && t.value != 1
                    ? emit(Code::scale, e, false, compile(t.base), 0, t.value)
                    : compile(args[i]);
      } else if (t.kind == ExprKind::mul && t.value != 1) {
        const uint32_t base = compile(t.base);
        total = emit(Code::scale_add, e, last, base, total, t.value);
      } else {
        const uint32_t term = compile(args[i]);
        total = emit(Code::add, e, last, term, total);
      }
      first = false;
    }
    return n.value == 0 ? total : emit(Code::add_constant, e, true, total, 0, n.value);
  }
  case ExprKind::floordiv:
  case ExprKind::mod: {
    const bool divide = n.kind == ExprKind::floordiv;
    const Node& d = node(n.args[1]);
    const uint32_t a = compile(n.args[0]);
    if (d.kind == ExprKind::constant && is_power_of_two(d.value))
      return divide ? emit(Code::divide_shift, e, true, a, 0, __builtin_ctzll(static_cast<uint64_t>(d.value)))
                    : emit(Code::mod_mask, e, true, a, 0, d.value - 1);
    if (d.kind == ExprKind::constant && d.value > 0)
      return emit(divide ? Code::divide_constant : Code::mod_constant, e, true, a, 0, d.value);
    const uint32_t b = compile(n.args[1]);
    return emit(divide ? Code::divide : Code::mod, e, true, a, b);
  }
  default: {
    Code code = Code::less;
    switch (n.kind) {
    case ExprKind::min: code = Code::min; break;
    case ExprKind::max: code = Code::max; break;
    case ExprKind::eq: code = Code::equal; break;
    case ExprKind::ne: code = Code::not_equal; break;
    case ExprKind::logical_and: code = Code::both; break;
    case ExprKind::logical_or: code = Code::either; break;
    default: break;
    }
    uint32_t out = compile(n.args[0]);
    for (const Expr arg : n.arg_span().subspan(1)) {
      const uint32_t next = compile(arg);
      out = emit(code, e, true, out, next);
    }
    return out;
  }
  }
}

bool ExprProgram::Code::run_fast(int64_t* registers) const noexcept {
  using luminal::Code;
  int64_t* out = registers + slots.size();
  bool bad = false;
  for (const Instruction& i : instructions) {
    const int64_t a = registers[i.a], b = registers[i.b];
    int64_t value = 0, part = 0;
    switch (i.code) {
    case Code::constant: value = i.immediate; break;
    case Code::scale: bad |= __builtin_mul_overflow(a, i.immediate, &value); break;
    case Code::scale_add:
      bad |= __builtin_mul_overflow(a, i.immediate, &part);
      bad |= __builtin_add_overflow(part, b, &value);
      break;
    case Code::add_constant: bad |= __builtin_add_overflow(a, i.immediate, &value); break;
    case Code::add: bad |= __builtin_add_overflow(a, b, &value); break;
    case Code::multiply: bad |= __builtin_mul_overflow(a, b, &value); break;
    case Code::divide_shift: value = a >> i.immediate; break;
    case Code::mod_mask: value = a & i.immediate; break;
    case Code::divide_constant: value = fast_floordiv(a, i.immediate); break;
    case Code::mod_constant: value = fast_mod(a, i.immediate); break;
    case Code::divide:
      if (b == 0 || (b == -1 && a == INT64_MIN)) return false;
      value = fast_floordiv(a, b);
      break;
    case Code::mod:
      if (b == 0) return false;
      value = fast_mod(a, b);
      break;
    case Code::min: value = std::min(a, b); break;
    case Code::max: value = std::max(a, b); break;
    case Code::less: value = a < b; break;
    case Code::equal: value = a == b; break;
    case Code::not_equal: value = a != b; break;
    case Code::both: value = a & b; break;
    case Code::either: value = a | b; break;
    }
    *out++ = value;
  }
  return !bad;
}

const Instruction* ExprProgram::Code::run_exact(__int128* registers) const {
  using luminal::Code;
  __int128* out = registers + slots.size();
  for (const Instruction& i : instructions) {
    const __int128 a = registers[i.a], b = registers[i.b];
    __int128 value = 0, part = 0;
    bool bad = false;
    switch (i.code) {
    case Code::constant: value = i.immediate; break;
    case Code::scale: bad = __builtin_mul_overflow(a, __int128{i.immediate}, &value); break;
    case Code::scale_add:
      bad =
          __builtin_mul_overflow(a, __int128{i.immediate}, &part) || __builtin_add_overflow(part, b, &value);
      break;
    case Code::add_constant: bad = __builtin_add_overflow(a, __int128{i.immediate}, &value); break;
    case Code::add: bad = __builtin_add_overflow(a, b, &value); break;
    case Code::multiply: bad = __builtin_mul_overflow(a, b, &value); break;
    // What follows has complete operands, which fit 64 bits.
    case Code::divide_shift: value = a >> i.immediate; break;
    case Code::mod_mask: value = a & i.immediate; break;
    case Code::divide_constant: value = floor_quotient(static_cast<int64_t>(a), i.immediate); break;
    case Code::mod_constant: value = floor_remainder(static_cast<int64_t>(a), i.immediate); break;
    case Code::divide:
      if (b == 0) return &i;
      value = b == -1 ? -a : __int128{floor_quotient(static_cast<int64_t>(a), static_cast<int64_t>(b))};
      break;
    case Code::mod:
      if (b == 0) return &i;
      value = fast_mod(static_cast<int64_t>(a), static_cast<int64_t>(b));
      break;
    case Code::min: value = std::min(a, b); break;
    case Code::max: value = std::max(a, b); break;
    case Code::less: value = a < b; break;
    case Code::equal: value = a == b; break;
    case Code::not_equal: value = a != b; break;
    case Code::both: value = a & b; break;
    case Code::either: value = a | b; break;
    }
    if (bad || (i.complete && (value < INT64_MIN || value > INT64_MAX))) return &i;
    *out++ = value;
  }
  return nullptr;
}

ExprProgram::ExprProgram(std::span<const Expr> outputs, std::span<const Expr> slots) {
  auto code = std::make_shared<Code>();
  code->slots.assign(slots.begin(), slots.end());
  code->outputs.assign(outputs.begin(), outputs.end());
  for (size_t i = 0; i < slots.size(); ++i) {
    if (!slots[i].is_symbol())
      throw Error(fmt::format("[expr] a slot must be a symbol, not {}", to_string(slots[i])));
    if (!code->register_of.emplace(slots[i].id(), static_cast<uint32_t>(i)).second)
      throw Error(fmt::format("[expr] symbol {} has two slots", slots[i].name()));
    code->facts.push_back({slots[i].range().low, slots[i].range().high, slots[i].multiple()});
    if (code->facts.back().multiple == 0) code->facts.back().multiple = 1;
  }
  // Constants read no register, yet register 0 must exist.
  if (slots.empty()) code->emit(luminal::Code::constant, Expr(), true, 0);
  for (const Expr output : outputs) code->result_registers.push_back(code->compile(output));
  code_ = std::move(code);
}

ExprProgram::ExprProgram(Expr output) : ExprProgram(std::span(&output, 1), symbols_of(output)) {}
ExprProgram::ExprProgram(ExprProgram&&) noexcept = default;
ExprProgram& ExprProgram::operator=(ExprProgram&&) noexcept = default;
ExprProgram::ExprProgram(const ExprProgram&) = default;
ExprProgram& ExprProgram::operator=(const ExprProgram&) = default;
ExprProgram::~ExprProgram() = default;

std::span<const Expr> ExprProgram::slots() const { return code_->slots; }
std::span<const Expr> ExprProgram::outputs() const { return code_->outputs; }

namespace {
// Calls f with room for `count` registers: on the stack, or for a large program in a buffer that
// the thread keeps.
template <class T, class F> auto with_registers(size_t count, F&& f) {
  if (count <= stack_registers) {
    T registers[stack_registers];
    return f(registers);
  }
  static thread_local std::vector<T> buffer;
  if (buffer.size() < count) buffer.resize(count);
  return f(buffer.data());
}
} // namespace

bool ExprProgram::run(std::span<const int64_t> values, std::span<int64_t> results) const noexcept {
  const Code& code = *code_;
  if (values.size() != code.slots.size() || results.size() != code.outputs.size() || !code.facts_hold(values))
    return false;
  const size_t count = code.slots.size() + code.instructions.size();
  const auto compute = [&](auto* registers, auto&& succeeds) {
    std::copy(values.begin(), values.end(), registers);
    if (!succeeds(registers)) return false;
    for (size_t i = 0; i < results.size(); ++i)
      results[i] = static_cast<int64_t>(registers[code.result_registers[i]]);
    return true;
  };
  if (with_registers<int64_t>(
          count, [&](int64_t* r) { return compute(r, [&](int64_t* p) { return code.run_fast(p); }); }))
    return true;
  // Only an overflow of an intermediate sum may still have a value.
  return with_registers<__int128>(count, [&](__int128* r) {
    return compute(r, [&](__int128* p) { return code.run_exact(p) == nullptr; });
  });
}

std::string ExprProgram::why(std::span<const int64_t> values) const {
  const Code& code = *code_;
  if (values.size() != code.slots.size())
    return fmt::format("{} values for {} symbols", values.size(), code.slots.size());
  for (size_t i = 0; i < code.slots.size(); ++i) {
    const auto& f = code.facts[i];
    const std::string_view name = code.slots[i].name();
    if (values[i] < f.low || values[i] > f.high) {
      const std::string low = f.low == unbounded_low ? "" : std::to_string(f.low);
      const std::string high = f.high == unbounded_high ? "" : std::to_string(f.high);
      return fmt::format("{} = {} is outside its range {}..{}", name, values[i], low, high);
    }
    if (values[i] % f.multiple != 0)
      return fmt::format("{} = {} is not a multiple of {}", name, values[i], f.multiple);
  }
  return with_registers<__int128>(
      code.slots.size() + code.instructions.size(), [&](__int128* registers) -> std::string {
        std::copy(values.begin(), values.end(), registers);
        const Instruction* failed = code.run_exact(registers);
        if (!failed) return "";
        const bool division = failed->code == luminal::Code::divide || failed->code == luminal::Code::mod;
        std::vector<std::string> where;
        for (size_t i = 0; i < code.slots.size(); ++i)
          where.push_back(fmt::format("{} = {}", code.slots[i].name(), values[i]));
        std::string at;
        for (const std::string& w : where) at += (at.empty() ? "" : ", ") + w;
        return fmt::format("{} in {}{}{}",
                           division && registers[failed->b] == 0 ? "division by zero" : "overflow of 64 bits",
                           to_string(failed->of), at.empty() ? "" : " at ", at);
      });
}

Result<int64_t> ExprProgram::evaluate(std::span<const int64_t> values) const {
  int64_t result = 0;
  if (code_->outputs.size() == 1) {
    if (run(values, std::span(&result, 1))) return result;
  } else {
    std::vector<int64_t> results(code_->outputs.size());
    if (run(values, results)) return results.at(0);
  }
  return Failure{why(values)};
}

namespace {

/// Looks at `budget` nodes at most. Nothing says only that it takes a program to find out.
std::optional<int64_t> evaluated_once(Expr e, const ExprMap<int64_t>& bindings, int& budget) {
  if (--budget < 0) return {};
  const Node& n = node(e);
  if (n.kind == ExprKind::constant) return n.value;
  if (n.kind == ExprKind::symbol) {
    const auto found = bindings.find(e);
    return found == bindings.end() ? std::nullopt : std::optional(found->second);
  }
  return applied_to(n, [&](Expr argument) { return evaluated_once(argument, bindings, budget); });
}

bool holds(const Node& symbol, int64_t value) {
  return value >= symbol.range.low && value <= symbol.range.high &&
         (symbol.multiple <= 1 || value % symbol.multiple == 0);
}

} // namespace

Result<int64_t> evaluate(Expr e, const ExprMap<int64_t>& bindings) {
  int budget = 100;
  if (std::ranges::all_of(bindings, [](auto& b) { return holds(node(b.first), b.second); }))
    if (const auto value = evaluated_once(e, bindings, budget)) return *value;
  std::vector<Expr> slots;
  std::vector<int64_t> values;
  for (const auto& [symbol, value] : bindings) {
    slots.push_back(symbol);
    values.push_back(value);
  }
  for (const Expr symbol : symbols_of(e))
    if (!bindings.contains(symbol)) return Failure{fmt::format("symbol '{}' has no value", symbol.name())};
  return ExprProgram(std::span(&e, 1), slots).evaluate(values);
}

namespace {
struct RangeEvaluator {
  const ExprMap<Interval>& bindings;
  std::unordered_map<uint32_t, Interval> known;

  Interval of(Expr e) {
    const Node& n = node(e);
    if (n.kind == ExprKind::constant) return n.range;
    const auto found = known.find(e.id());
    if (found != known.end()) return found->second;
    Interval range = interval_meet(compute(e, n), n.range);
    if (n.multiple > 1) range = interval_of_multiples(range, n.multiple);
    if (range.low > range.high) range = n.range; // no value at all: every interval is right
    known.emplace(e.id(), range);
    return range;
  }
  Interval compute(Expr e, const Node& n) {
    const auto args = n.arg_span();
    switch (n.kind) {
    case ExprKind::constant: return n.range;
    case ExprKind::symbol: {
      const auto bound = bindings.find(e);
      return bound == bindings.end() ? n.range : bound->second;
    }
    case ExprKind::add: {
      Interval total = point(0);
      for (const Expr arg : args) total = total + of(arg);
      return total;
    }
    case ExprKind::mul: {
      Interval product = point(1);
      for (size_t i = 0; i < args.size();) {
        size_t end = i + 1;
        while (end < args.size() && args[end] == args[i]) ++end;
        product = product * interval_power(of(args[i]), static_cast<uint32_t>(end - i));
        i = end;
      }
      return product;
    }
    case ExprKind::floordiv: return interval_floordiv(of(args[0]), of(args[1]));
    case ExprKind::mod: {
      const Interval a = of(args[0]), b = of(args[1]);
      // All of a between two multiples of a constant divisor.
      if (b.is_point() && b.low > 0 && a.is_bounded() &&
          floor_quotient(a.low, b.low) == floor_quotient(a.high, b.low))
        return {floor_remainder(a.low, b.low), floor_remainder(a.high, b.low)};
      return interval_mod(a, b);
    }
    case ExprKind::min:
    case ExprKind::max: {
      Interval out = of(args[0]);
      for (const Expr arg : args.subspan(1))
        out = n.kind == ExprKind::min ? interval_min(out, of(arg)) : interval_max(out, of(arg));
      return out;
    }
    case ExprKind::lt: {
      const Interval a = of(args[0]), b = of(args[1]);
      if (a.high < b.low) return point(1);
      if (b.high <= a.low && a.low != unbounded_low && b.high != unbounded_high) return point(0);
      return {0, 1};
    }
    case ExprKind::eq:
    case ExprKind::ne: {
      const Interval a = of(args[0]), b = of(args[1]);
      const int64_t yes = n.kind == ExprKind::eq ? 1 : 0;
      if (a.is_point() && b.is_point() && a.low == b.low) return point(yes);
      if (a.high < b.low || b.high < a.low) return point(1 - yes);
      return {0, 1};
    }
    case ExprKind::logical_and:
    case ExprKind::logical_or: {
      Interval out = n.kind == ExprKind::logical_and ? point(1) : point(0);
      for (const Expr arg : args)
        out = n.kind == ExprKind::logical_and ? interval_min(out, of(arg)) : interval_max(out, of(arg));
      return out;
    }
    }
    return n.range;
  }
};
} // namespace

Interval evaluate_range(Expr e, const ExprMap<Interval>& bindings) {
  return RangeEvaluator{bindings, {}}.of(e);
}

} // namespace luminal
