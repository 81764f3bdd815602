// loop/loop_verify_values.cpp -- what a kernel's values and indices may be: names, types, places.
#include "loop/loop_verifier.h"
#include <algorithm>
#include <bit>
#include <cmath>
#include <fmt/format.h>

namespace luminal::kernel {

using luminal::to_string;

void KernelVerifier::expression(Expr e, std::string_view what) {
  for (const Expr s : symbols_of(e)) {
    if (in_scope(s)) continue;
    const bool other =
        std::any_of(scope_.begin(), scope_.end(), [&](Expr t) { return t.name() == s.name(); });
    complain(
        other ? fmt::format("{} {} uses '{}' with the range {}..{}, which is not the range of its definition",
                            what, to_string(e), s.name(), s.range().low, s.range().high)
              : fmt::format("{} {} uses '{}', which is not defined here", what, to_string(e), s.name()));
  }
}

bool KernelVerifier::on_lane(Expr e) const {
  for (const Expr s : symbols_of(e))
    if (lane_symbols_.contains(s)) return true;
  return false;
}

bool KernelVerifier::on_lane(const Value& v) const {
  if (const auto* load = v.as<Load>()) return on_lane(load->offset) || on_lane(load->guard);
  if (const auto* index = v.as<Index>()) return on_lane(index->value);
  if (const auto* let = v.as<Let>()) return lane_lets_.contains(let->number);
  if (const auto* lanes = v.as<ReduceLanes>()) return lanes->form == LanesForm::scanned;
  const auto known = on_lane_.find(&v);
  if (known != on_lane_.end()) return known->second;
  return on_lane_[&v] = std::ranges::any_of(args_of(v), [&](const ValueRef& a) { return a && on_lane(*a); });
}

void KernelVerifier::define(Expr symbol) {
  if (!symbol.is_symbol()) {
    complain(fmt::format("'{}' is defined and is not a symbol", to_string(symbol)));
    return;
  }
  for (const Expr s : scope_)
    if (s.name() == symbol.name()) {
      complain(fmt::format("'{}' is defined a second time inside its own scope", symbol.name()));
      break;
    }
  scope_.push_back(symbol);
}

bool KernelVerifier::proved(Expr condition) const {
  return prove(condition) == Truth::yes || prove(condition, facts_) == Truth::yes;
}

bool KernelVerifier::refuted(Expr condition) const {
  return prove(condition) == Truth::no || prove(condition, facts_) == Truth::no;
}

bool KernelVerifier::unreachable() const {
  for (size_t i = 0; i < facts_.size(); ++i) {
    std::vector<Expr> others = facts_;
    others.erase(others.begin() + std::ptrdiff_t(i));
    if (simplify_under(facts_[i], others).is_constant(0)) return true;
  }
  return never_ > 0;
}

void KernelVerifier::constant(DType dtype, double x) {
  if (!is_float(dtype)) {
    if (x != std::trunc(x) || std::fabs(x) > 0x1p53)
      complain(fmt::format("the constant {} is not an integer of at most 2^53", x));
    else if (double(wrap(dtype, int64_t(x))) != x)
      complain(fmt::format("the constant {} does not fit {}", x, to_string(dtype)));
  } else if (x == x && round_to(dtype, x) != x) {
    complain(fmt::format("the constant {} is not a value of {}", x, to_string(dtype)));
  }
}

void KernelVerifier::value(const ValueRef& ref) {
  if (!ref) return complain("a value is missing");
  const Value& v = *ref;
  if (!checked_.insert(&v).second) return; // values share parts
  for (const ValueRef& arg : args_of(v)) value(arg);
  if (std::ranges::any_of(args_of(v), [](const ValueRef& a) { return !a; })) return;
  visit(
      v, [&](const Constant& x) { constant(v.dtype, x.value); },
      [&](const Index& x) { expression(x.value, "the index value"); }, [&](const Load& x) { load(v, x); },
      [&](const Let& x) { let(v, x); }, [](const Cast&) {},
      [&](const Bitcast& x) {
        if (bits(x.x->dtype) != bits(v.dtype))
          complain(fmt::format("{}: {} and {} differ in width", kernel::to_string(k_, v),
                               to_string(x.x->dtype), to_string(v.dtype)));
      },
      [&](const ReduceLanes& x) { reduce_lanes(v, x); }, [&](const Apply& x) { apply(v, x); },
      [&](const ApplyUser& x) { apply_user(v, x); });
}

void KernelVerifier::let(const Value& v, const Let& let) {
  const auto found = lets_.find(let.number);
  if (found == lets_.end()) return complain(fmt::format("%{} is not defined here", let.number));
  if (found->second != v.dtype)
    complain(fmt::format("%{} is {}, and is read as {}", let.number, to_string(found->second),
                         to_string(v.dtype)));
}

void KernelVerifier::reduce_lanes(const Value& v, const ReduceLanes& r) {
  const std::string text = kernel::to_string(k_, v);
  if (!vector_) return complain(fmt::format("{}: stands outside a vector loop", text));
  if (r.form != LanesForm::last && r.op != Op::add && r.op != Op::mul && r.op != Op::max && r.op != Op::min)
    complain(fmt::format("{}: lanes are combined by add, mul, max or min", text));
  const Expr lanes = vector_->end - vector_->begin;
  if (lanes.is_constant() && !std::has_single_bit(uint64_t(lanes.value())))
    complain(fmt::format("{}: the number of lanes is not a power of two", text));
  if (r.x->dtype != v.dtype)
    complain(fmt::format("{}: the result is {}, not {}", text, to_string(r.x->dtype), to_string(v.dtype)));
  if (r.form != LanesForm::scanned && !on_lane(*r.x))
    complain(fmt::format("{}: the value is the same in all lanes", text));
}

std::vector<DType> KernelVerifier::types_of(std::span<const ValueRef> args) {
  std::vector<DType> types;
  for (const ValueRef& arg : args) types.push_back(arg->dtype);
  return types;
}

void KernelVerifier::applied(const Value& v, std::optional<DType> type, const std::string& why) {
  if (!type) return complain(fmt::format("{}: {}", kernel::to_string(k_, v), why));
  if (*type != v.dtype)
    complain(fmt::format("{}: the result is {}, not {}", kernel::to_string(k_, v), to_string(*type),
                         to_string(v.dtype)));
}

bool KernelVerifier::takes(std::string_view name, int arity, size_t given) {
  if (int(given) == arity) return true;
  complain(fmt::format("'{}' takes {} values, {} given", name, arity, given));
  return false;
}

void KernelVerifier::apply(const Value& v, const Apply& a) {
  if (!takes(to_string(a.op), row(a.op).arity, a.args.size())) return;
  std::string why;
  const auto type = result_type(row(a.op), types_of(a.args).data(), &why);
  applied(v, type, why);
}

void KernelVerifier::apply_user(const Value& v, const ApplyUser& a) {
  const std::vector<DType> types = types_of(a.args);
  if (const Unit* unit = find_lane_unit(a.name)) {
    const DType acc = unit->accumulator.dtype;
    if (v.dtype != acc || types != std::vector<DType>{acc, DType::u32, DType::u32})
      complain(fmt::format("{}: takes ({}, u32, u32)", kernel::to_string(k_, v), to_string(acc)));
    return;
  }
  const UserOp* user = find_user_op(a.name);
  if (!user) return complain(fmt::format("no operation '{}' is registered", a.name));
  if (!takes(a.name, user->arity, a.args.size())) return;
  std::string why;
  const auto type = result_type(user->signature, user->arity, types.data(), &why);
  applied(v, type, why);
}

void KernelVerifier::load(const Value& v, const Load& l) {
  if (!known(l.buffer)) return;
  const Buffer& b = k_.buffers[l.buffer];
  if ((b.access == Access::scratch || b.access == Access::out) && !written_.contains(l.buffer))
    complain(fmt::format("'{}' is loaded, but nothing ever writes it", b.name));
  if (b.dtype != v.dtype && b.space == Space::registers)
    complain(fmt::format("'{}' is in registers and holds {}: it cannot be read as {}", b.name,
                         to_string(b.dtype), to_string(v.dtype)));
  if (bits(b.dtype) == 4 && bits(v.dtype) > 4 && refuted(eq(mod(l.offset, 2), 0)))
    complain(fmt::format("{}: the element {} of a 4-bit buffer does not begin a byte",
                         kernel::to_string(k_, v), to_string(l.offset)));
  // Elements of the buffer that one element of v.dtype covers.
  const int64_t covered = std::max(1, bits(v.dtype) / bits(b.dtype));
  if (l.guard.is_constant(1)) return element(l.buffer, l.offset, covered);
  if (b.space == Space::registers)
    complain(fmt::format("{}: a register buffer has no guards", kernel::to_string(k_, v)));
  expression(l.guard, "the guard");
  if (!strict_) return expression(l.offset, "the offset"); // where it lies is for the guard to see to
  facts_.push_back(l.guard);
  element(l.buffer, l.offset, covered);
  facts_.pop_back();
}

void KernelVerifier::element(BufferId id, Expr offset, int64_t count) {
  const size_t before = mistakes_.size();
  expression(offset, "the offset");
  if (mistakes_.size() != before) return;
  const Buffer& b = k_.buffers[id];
  const auto outside = [&](Expr at) {
    if (strict_ && !(proved(ge(at, 0)) && proved(le(at + count, b.size))) && !unreachable())
      return complain(
          fmt::format("'{}' has {} elements: the offset {} is not proved to be inside; a load may have a "
                      "guard, x[i where i < n], and a store a condition around it",
                      b.name, to_string(b.size), to_string(at)));
    if ((refuted(ge(at, 0)) || refuted(le(at + count, b.size))) && !unreachable())
      complain(fmt::format("'{}' has {} elements: the offset {} is outside", b.name, to_string(b.size),
                           to_string(at)));
  };
  if (b.space == Space::registers) return register_index(b, offset, count);
  const size_t so_far = mistakes_.size();
  outside(offset);
  // All lanes of a vector loop without a mask are alive.
  if (mistakes_.size() == so_far && vector_ && !vector_->lanes_active && lane_conditions_ == 0 &&
      depends_on(offset, vector_->variable)) {
    outside(substituted(offset, vector_->variable, vector_->begin));
    if (mistakes_.size() == so_far) outside(substituted(offset, vector_->variable, vector_->end - 1));
  }
}

Expr KernelVerifier::substituted(Expr e, Expr symbol, Expr by) {
  try {
    return substitute(e, {{symbol, by}});
  } catch (const Error&) {
    return e; // a bound outside the declared range: reported at the loop
  }
}

void KernelVerifier::register_index(const Buffer& b, Expr offset, int64_t count) {
  for (const Expr s : symbols_of(offset)) {
    if (vector_ && s == vector_->variable && vector_->begin.is_constant()) continue;
    if (unrolled_.contains(s)) continue;
    return complain(fmt::format(
        "'{}' is in registers: the index {} depends on '{}', which is not constant after unrolling", b.name,
        to_string(offset), s.name()));
  }
  if (vector_ && depends_on(offset, vector_->variable)) {
    const auto step = coefficient_of(offset, vector_->variable);
    if (!step || !step->is_constant(1))
      return complain(fmt::format("'{}' is in registers: the index {} is not a run of neighbouring lanes",
                                  b.name, to_string(offset)));
  }
  const Interval range = offset.range();
  if (!b.size.is_constant() || (range.low >= 0 && range.high + count <= b.size.value())) return;
  // The interval may be wide, and a condition may exclude the rest: only an index that is reached
  // counts.
  if (const auto reached = reached_outside(offset, b.size.value() - count, 0))
    complain(fmt::format("'{}' has {} elements: the offset {} reaches {}", b.name, to_string(b.size),
                         to_string(offset), *reached));
}

std::optional<int64_t> KernelVerifier::reached_outside(Expr offset, int64_t last, size_t depth) const {
  std::vector<const Loop*> loops;
  for (const Loop* loop : open_loops_)
    if (depends_on(offset, loop->variable)) loops.push_back(loop);
  std::optional<int64_t> found;
  int budget = 1 << 14;
  ExprMap<Expr> at;
  const std::function<void(size_t)> visit = [&](size_t i) {
    if (found || --budget < 0) return;
    if (i < loops.size()) {
      const int64_t begin = loops[i]->begin.value(), end = loops[i]->end.value();
      for (int64_t v = begin; v < end && !found; ++v) {
        at[loops[i]->variable] = Expr(v);
        visit(i + 1);
      }
      return;
    }
    try {
      const Expr value = substitute(offset, at);
      if (!value.is_constant() || (value.value() >= 0 && value.value() <= last)) return;
      for (const Expr fact : facts_)
        if (prove(substitute(fact, at)) == Truth::no) return;
      found = value.value();
    } catch (const Error&) {
    }
  };
  visit(depth);
  return found;
}

} // namespace luminal::kernel
