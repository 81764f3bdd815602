// loop/loop_build.cpp -- builders of the loop IR, equality and hash.
#include "base/hash.h"
#include "loop/loop.h"
#include "loop/unit.h"
#include <algorithm>
#include <bit>
#include <cmath>
#include <fmt/format.h>
#include <map>

namespace luminal::kernel {
namespace {

[[noreturn]] void mistake(std::string_view operation, const std::string& text) {
  throw Error(fmt::format("[{}] {}", operation, text));
}

template <class Kind> ValueRef new_value(DType dtype, Kind kind) {
  return std::make_shared<const Value>(Value{dtype, std::move(kind)});
}

template <class Kind> StmtRef made(Kind stmt) { return std::make_shared<const Stmt>(std::move(stmt)); }

Loop new_loop(LoopKind kind, Expr variable, Expr begin, Expr end, Body body) {
  if (!variable.is_symbol()) mistake("loop", "the variable is not a symbol: " + to_string(variable));
  Loop loop;
  loop.kind = kind;
  loop.variable = variable;
  loop.begin = begin;
  loop.end = end;
  loop.body = std::move(body);
  return loop;
}

std::vector<DType> dtypes_of(const std::vector<ValueRef>& args) {
  std::vector<DType> types;
  for (const ValueRef& arg : args) types.push_back(arg->dtype);
  return types;
}

bool same(const ValueRef& a, const ValueRef& b) { return a == b || (a && b && kernel::same(*a, *b)); }
bool same(const Body& a, const Body& b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i)
    if (a[i] != b[i] && !kernel::same(*a[i], *b[i])) return false;
  return true;
}
bool same(double a, double b) {
  return std::bit_cast<uint64_t>(a) == std::bit_cast<uint64_t>(b) || (a != a && b != b);
}

/// Of shared parts once.
uint64_t hash_of(const ValueRef& value, std::map<const Value*, uint64_t>& known) {
  if (!value) return 0;
  if (const auto found = known.find(value.get()); found != known.end()) return found->second;
  Hasher h;
  h.add(value->kind.index()).add(value->dtype);
  visit(
      *value,
      [&](const Constant& v) { h.add(v.value != v.value ? 0.5e300 : v.value).add(std::signbit(v.value)); },
      [&](const Load& v) { h.add(v.buffer.number()).add(v.offset.hash()).add(v.guard.hash()); },
      [&](const Index& v) { h.add(v.value.hash()); }, [&](const Let& v) { h.add(v.number.number()); },
      [&](const Apply& v) { h.add(v.op); }, [&](const ApplyUser& v) { h.add(v.name); }, [](const Cast&) {},
      [](const Bitcast&) {}, [&](const ReduceLanes& v) { h.add(v.op).add(v.form); });
  const std::span<const ValueRef> args = args_of(*value);
  h.add(args.size());
  for (const ValueRef& arg : args) h.add(hash_of(arg, known));
  return known[value.get()] = h.value64();
}

void hash_body(Hasher& h, const Body& body);

void hash_value(Hasher& h, const ValueRef& value) {
  std::map<const Value*, uint64_t> known;
  h.add(hash_of(value, known));
}
void hash_operand(Hasher& h, const UnitOperand& operand) {
  h.add(operand.buffer.number()).add(operand.offset.hash()).add(operand.strides.size());
  for (Expr stride : operand.strides) h.add(stride.hash());
}
void hash_call(Hasher& h, const UnitCall& call) {
  h.add(call.unit).add(call.operands.size());
  for (const UnitOperand& operand : call.operands) hash_operand(h, operand);
  h.add(call.rows.has_value()).add(call.rows.value_or(0).hash());
}

void hash_stmt(Hasher& h, const Stmt& stmt) {
  h.add(stmt.index());
  visit(
      stmt,
      [&](const Loop& s) {
        h.add(s.kind).add(s.variable.hash()).add(s.begin.hash()).add(s.end.hash()).add(s.level).add(s.jam);
        h.add(s.lanes_active.has_value()).add(s.lanes_active.value_or(0).hash());
        hash_body(h, s.body);
      },
      [&](const Store& s) {
        h.add(s.buffer.number()).add(s.offset.hash());
        hash_value(h, s.value);
      },
      [&](const LetValue& s) {
        h.add(s.let.number());
        hash_value(h, s.value);
      },
      [&](const LetIndex& s) {
        h.add(s.symbol.hash());
        hash_value(h, s.value);
      },
      [&](const If& s) {
        h.add(s.condition.hash());
        hash_body(h, s.then);
        hash_body(h, s.otherwise);
      },
      [&](const Barrier& s) { h.add(s.level); },
      [&](const Prefetch& s) { h.add(s.buffer.number()).add(s.offset.hash()); },
      [&](const UnitCall& s) { hash_call(h, s); },
      [&](const AsyncCopy& s) {
        hash_operand(h, s.to);
        hash_operand(h, s.from);
        h.add(s.count.hash()).add(s.token.number()).add(s.fill.hash());
      },
      [&](const AsyncUnit& s) {
        hash_call(h, s.call);
        h.add(s.token.number());
      },
      [&](const AsyncWait& s) { h.add(s.token.number()).add(s.behind.value_or(-1)); },
      [&](const Exchange& s) {
        h.add(s.to.number())
            .add(s.to_offset.hash())
            .add(s.from.number())
            .add(s.from_offset.hash())
            .add(s.mask);
      },
      [&](const Roles& s) {
        h.add(s.variable.hash()).add(s.begin.hash()).add(s.end.hash()).add(s.stages);
        hash_body(h, s.producers);
        hash_body(h, s.consumers);
      });
}

void hash_body(Hasher& h, const Body& body) {
  h.add(body.size());
  for (const StmtRef& stmt : body) hash_stmt(h, *stmt);
}

} // namespace

BufferId add_buffer(Kernel& kernel, Buffer buffer) { return kernel.buffers.add(std::move(buffer)); }

ValueRef constant(DType dtype, double value) {
  return new_value(dtype, Constant{is_float(dtype) ? round_to(dtype, value) : value});
}

ValueRef load(const Kernel& kernel, BufferId buffer, Expr offset) {
  if (!kernel.buffers.has(buffer))
    mistake("load", fmt::format("buffer {} of {}", buffer, kernel.buffers.size()));
  return load_as(kernel.buffers[buffer].dtype, buffer, offset);
}

ValueRef load_as(DType dtype, BufferId buffer, Expr offset, Expr guard) {
  return new_value(dtype, Load{buffer, offset, guard});
}

ValueRef index(Expr value, DType dtype) { return new_value(dtype, Index{value}); }

ValueRef apply(Op op, std::vector<ValueRef> args) {
  const OpRow& r = row(op);
  if (int(args.size()) != r.arity)
    mistake(r.name, fmt::format("takes {} values, {} given", r.arity, args.size()));
  std::string why;
  const auto type = result_type(r, dtypes_of(args).data(), &why);
  if (!type) mistake(r.name, why);
  return new_value(*type, Apply{op, std::move(args)});
}

ValueRef apply(std::string user_op, std::vector<ValueRef> args) {
  if (const Unit* unit = find_lane_unit(user_op)) {
    if (args.size() != 3) mistake(user_op, fmt::format("takes 3 values, {} given", args.size()));
    if (args[0]->dtype != unit->accumulator.dtype || args[1]->dtype != DType::u32 ||
        args[2]->dtype != DType::u32)
      mistake(user_op, fmt::format("takes ({}, u32, u32)", luminal::to_string(unit->accumulator.dtype)));
    return new_value(unit->accumulator.dtype, ApplyUser{std::move(user_op), std::move(args)});
  }
  const UserOp* user = find_user_op(user_op);
  if (!user) mistake(user_op, "no such operation is registered");
  if (int(args.size()) != user->arity)
    mistake(user_op, fmt::format("takes {} values, {} given", user->arity, args.size()));
  std::string why;
  const auto type = result_type(user->signature, user->arity, dtypes_of(args).data(), &why);
  if (!type) mistake(user_op, why);
  return new_value(*type, ApplyUser{std::move(user_op), std::move(args)});
}

ValueRef cast(DType to, ValueRef x) { return new_value(to, Cast{std::move(x)}); }

ValueRef bitcast(DType to, ValueRef x) {
  if (bits(to) != bits(x->dtype))
    mistake("bitcast", fmt::format("{} has {} bits, {} has {}", luminal::to_string(x->dtype), bits(x->dtype),
                                   luminal::to_string(to), bits(to)));
  return new_value(to, Bitcast{std::move(x)});
}

ValueRef reduce_lanes(Op op, ValueRef x) {
  const DType dtype = x->dtype;
  return new_value(dtype, ReduceLanes{op, std::move(x)});
}

ValueRef scan_lanes(Op op, ValueRef x) {
  const DType dtype = x->dtype;
  return new_value(dtype, ReduceLanes{op, std::move(x), LanesForm::scanned});
}

ValueRef last_lane(ValueRef x) {
  const DType dtype = x->dtype;
  return new_value(dtype, ReduceLanes{Op::add, std::move(x), LanesForm::last});
}

ValueRef let_value(DType dtype, LetId let) { return new_value(dtype, Let{let}); }

std::span<const ValueRef> args_of(const Value& value) {
  using Args = std::span<const ValueRef>;
  return visit(
      value, [](const Apply& v) { return Args(v.args); }, [](const ApplyUser& v) { return Args(v.args); },
      [](const Cast& v) { return Args(&v.x, 1); }, [](const Bitcast& v) { return Args(&v.x, 1); },
      [](const ReduceLanes& v) { return Args(&v.x, 1); }, [](const auto&) { return Args(); });
}

ValueRef with_args(const Value& value, const std::function<ValueRef(const ValueRef&)>& change) {
  Value copy = value;
  const auto all = [&](std::vector<ValueRef>& args) {
    for (ValueRef& arg : args) arg = change(arg);
  };
  std::visit(Overloaded{[&](Apply& v) { all(v.args); }, [&](ApplyUser& v) { all(v.args); },
                        [&](Cast& v) { v.x = change(v.x); }, [&](Bitcast& v) { v.x = change(v.x); },
                        [&](ReduceLanes& v) { v.x = change(v.x); }, [](auto&) {}},
             copy.kind);
  return std::make_shared<const Value>(std::move(copy));
}

StmtRef loop(LoopKind kind, Expr variable, Expr begin, Expr end, Body body) {
  return made(new_loop(kind, variable, begin, end, std::move(body)));
}

StmtRef parallel_loop(Expr variable, Expr begin, Expr end, Body body, int level) {
  Loop stmt = new_loop(LoopKind::parallel, variable, begin, end, std::move(body));
  stmt.level = level;
  return made(std::move(stmt));
}

StmtRef jammed_loop(Expr variable, Expr begin, Expr end, int jam, Body body) {
  Loop stmt = new_loop(LoopKind::serial, variable, begin, end, std::move(body));
  stmt.jam = jam;
  return made(std::move(stmt));
}

StmtRef masked_loop(Expr variable, Expr begin, Expr end, Expr lanes_active, Body body) {
  Loop stmt = new_loop(LoopKind::vector, variable, begin, end, std::move(body));
  stmt.lanes_active = lanes_active;
  return made(std::move(stmt));
}

StmtRef store(BufferId buffer, Expr offset, ValueRef value) {
  return made(Store{buffer, offset, std::move(value)});
}

StmtRef let(LetId number, ValueRef value) { return made(LetValue{number, std::move(value)}); }

StmtRef let_index(Expr symbol, ValueRef value) {
  if (!symbol.is_symbol()) mistake("let", "what is defined is not a symbol: " + luminal::to_string(symbol));
  return made(LetIndex{symbol, std::move(value)});
}

StmtRef if_then(Expr condition, Body then, Body otherwise) {
  return made(If{condition, std::move(then), std::move(otherwise)});
}

StmtRef barrier() { return made(Barrier{}); }
StmtRef barrier(int level) { return made(Barrier{level}); }
StmtRef prefetch(BufferId buffer, Expr offset) { return made(Prefetch{buffer, offset}); }

StmtRef unit(std::string descriptor, std::vector<UnitOperand> operands, std::optional<Expr> rows) {
  return made(UnitCall{std::move(descriptor), std::move(operands), rows});
}

StmtRef async_copy(UnitOperand destination, UnitOperand source, Expr count, TokenId token, Expr fill) {
  return made(AsyncCopy{std::move(destination), std::move(source), count, token, fill});
}

StmtRef async_unit(std::string descriptor, std::vector<UnitOperand> operands, TokenId token) {
  return made(AsyncUnit{{std::move(descriptor), std::move(operands)}, token});
}

StmtRef async_wait(TokenId token, std::optional<int> behind) { return made(AsyncWait{token, behind}); }

StmtRef exchange(BufferId to, Expr to_offset, BufferId from, Expr from_offset, int mask) {
  return made(Exchange{to, to_offset, from, from_offset, mask});
}

StmtRef roles(Expr variable, Expr begin, Expr end, int stages, Body producers, Body consumers) {
  if (!variable.is_symbol()) mistake("roles", "the step is not a symbol: " + luminal::to_string(variable));
  return made(Roles{variable, begin, end, stages, std::move(producers), std::move(consumers)});
}

std::vector<const Body*> bodies_of(const Stmt& stmt) {
  if (const auto* s = stmt.as<Loop>()) return {&s->body};
  if (const auto* s = stmt.as<If>()) return {&s->then, &s->otherwise};
  if (const auto* s = stmt.as<Roles>()) return {&s->producers, &s->consumers};
  return {};
}

StmtRef with_bodies(const Stmt& stmt, const std::function<Body(const Body&)>& change) {
  if (const auto* s = stmt.as<Loop>()) {
    Loop copy = *s;
    copy.body = change(s->body);
    return made(std::move(copy));
  }
  if (const auto* s = stmt.as<If>()) return made(If{s->condition, change(s->then), change(s->otherwise)});
  if (const auto* s = stmt.as<Roles>()) {
    Roles copy = *s;
    copy.producers = change(s->producers);
    copy.consumers = change(s->consumers);
    return made(std::move(copy));
  }
  return made(stmt);
}

const Value* value_of(const Stmt& stmt) {
  if (const auto* s = stmt.as<Store>()) return s->value.get();
  if (const auto* s = stmt.as<LetValue>()) return s->value.get();
  if (const auto* s = stmt.as<LetIndex>()) return s->value.get();
  return nullptr;
}

std::optional<BufferId> written_by(const Stmt& stmt) {
  const auto accumulator = [](const UnitCall& call) -> std::optional<BufferId> {
    if (call.operands.empty()) return {};
    return call.operands[0].buffer;
  };
  if (const auto* s = stmt.as<Store>()) return s->buffer;
  if (const auto* s = stmt.as<UnitCall>()) return accumulator(*s);
  if (const auto* s = stmt.as<AsyncUnit>()) return accumulator(s->call);
  if (const auto* s = stmt.as<AsyncCopy>()) return s->to.buffer;
  if (const auto* s = stmt.as<Exchange>()) return s->to;
  return {};
}

namespace {
bool has_barrier(const Body& body, int level) {
  return std::ranges::any_of(body, [&](const StmtRef& s) {
    const auto* barrier = s->as<Barrier>();
    return (barrier && barrier->level == level) || (level == 1 && is_collective(*s)) ||
           std::ranges::any_of(bodies_of(*s),
                               [&](const Body* inside) { return has_barrier(*inside, level); });
  });
}
int64_t lanes_of(const Body& body) {
  for (const StmtRef& s : body) {
    const auto* loop = s->as<Loop>();
    if (loop && loop->kind == LoopKind::parallel && loop->level == 1) {
      if (meets_inside(*loop) && loop->end.is_constant()) return loop->end.value();
      continue;
    }
    for (const Body* inside : bodies_of(*s))
      if (const int64_t lanes = lanes_of(*inside)) return lanes;
  }
  return 0;
}
} // namespace

bool is_collective(const UnitCall& call) {
  return !call.operands.empty() &&
         std::ranges::all_of(call.operands, [](const UnitOperand& o) { return o.strides.empty(); });
}
bool is_collective(const Stmt& stmt) {
  const auto* call = stmt.as<UnitCall>();
  return stmt.is<Exchange>() || (call && is_collective(*call));
}

bool meets_inside(const Loop& loop) {
  return loop.kind == LoopKind::parallel && has_barrier(loop.body, loop.level);
}

int64_t lanes_of_group(const Kernel& kernel) { return lanes_of(kernel.body); }

bool is_distributed(const Stmt& stmt) {
  const auto* loop = stmt.as<Loop>();
  return loop && loop->kind == LoopKind::parallel && loop->level == 0;
}

namespace {
bool same_head(const Constant& a, const Constant& b) { return same(a.value, b.value); }
bool same_head(const Load& a, const Load& b) {
  return a.buffer == b.buffer && a.offset == b.offset && a.guard == b.guard;
}
bool same_head(const Index& a, const Index& b) { return a.value == b.value; }
bool same_head(const Let& a, const Let& b) { return a.number == b.number; }
bool same_head(const Apply& a, const Apply& b) { return a.op == b.op; }
bool same_head(const ApplyUser& a, const ApplyUser& b) { return a.name == b.name; }
bool same_head(const Cast&, const Cast&) { return true; }
bool same_head(const Bitcast&, const Bitcast&) { return true; }
bool same_head(const ReduceLanes& a, const ReduceLanes& b) { return a.op == b.op && a.form == b.form; }
} // namespace

bool same(const Value& a, const Value& b) {
  if (a.dtype != b.dtype || a.kind.index() != b.kind.index()) return false;
  const bool heads =
      visit(a, [&](const auto& kind) { return same_head(kind, *b.as<std::decay_t<decltype(kind)>>()); });
  return heads && std::ranges::equal(args_of(a), args_of(b),
                                     [](const ValueRef& x, const ValueRef& y) { return same(x, y); });
}

namespace {
bool same(const UnitCall& a, const UnitCall& b) {
  return a.unit == b.unit && a.operands == b.operands && a.rows == b.rows;
}
bool same(const Loop& a, const Loop& b) {
  return a.kind == b.kind && a.variable == b.variable && a.begin == b.begin && a.end == b.end &&
         a.level == b.level && a.jam == b.jam && a.lanes_active == b.lanes_active && same(a.body, b.body);
}
bool same(const Store& a, const Store& b) {
  return a.buffer == b.buffer && a.offset == b.offset && same(a.value, b.value);
}
bool same(const LetValue& a, const LetValue& b) { return a.let == b.let && same(a.value, b.value); }
bool same(const LetIndex& a, const LetIndex& b) { return a.symbol == b.symbol && same(a.value, b.value); }
bool same(const If& a, const If& b) {
  return a.condition == b.condition && same(a.then, b.then) && same(a.otherwise, b.otherwise);
}
bool same(const Barrier& a, const Barrier& b) { return a.level == b.level; }
bool same(const Prefetch& a, const Prefetch& b) { return a.buffer == b.buffer && a.offset == b.offset; }
bool same(const AsyncCopy& a, const AsyncCopy& b) {
  return a.to == b.to && a.from == b.from && a.count == b.count && a.token == b.token && a.fill == b.fill;
}
bool same(const AsyncUnit& a, const AsyncUnit& b) { return same(a.call, b.call) && a.token == b.token; }
bool same(const AsyncWait& a, const AsyncWait& b) { return a.token == b.token && a.behind == b.behind; }
bool same(const Exchange& a, const Exchange& b) {
  return a.to == b.to && a.to_offset == b.to_offset && a.from == b.from && a.from_offset == b.from_offset &&
         a.mask == b.mask;
}
bool same(const Roles& a, const Roles& b) {
  return a.variable == b.variable && a.begin == b.begin && a.end == b.end && a.stages == b.stages &&
         same(a.producers, b.producers) && same(a.consumers, b.consumers);
}
} // namespace

bool same(const Stmt& a, const Stmt& b) {
  return a.index() == b.index() && std::visit(
                                       [&](const auto& x) {
                                         using Kind = std::decay_t<decltype(x)>;
                                         return same(x, *b.as<Kind>());
                                       },
                                       static_cast<const Stmt::variant&>(a));
}

bool same(const Kernel& a, const Kernel& b) {
  return a.name == b.name && a.buffers == b.buffers && a.symbols == b.symbols && a.lets == b.lets &&
         a.lanes == b.lanes && same(a.body, b.body);
}

static Hasher structure(const Kernel& kernel) {
  Hasher h;
  h.add(kernel.buffers.size());
  for (const Buffer& b : kernel.buffers)
    h.add(b.space)
        .add(b.access)
        .add(b.dtype)
        .add(b.size.hash())
        .add(b.alignment)
        .add(b.padded)
        .add(b.streaming);
  h.add(kernel.symbols.size());
  for (Expr symbol : kernel.symbols) h.add(symbol.hash());
  h.add(kernel.lets).add(kernel.lanes);
  hash_body(h, kernel.body);
  return h;
}

uint64_t structural_hash(const Kernel& kernel) { return structure(kernel).value64(); }
Hash128 structural_hash128(const Kernel& kernel) { return structure(kernel).value128(); }

} // namespace luminal::kernel
