// loop/loop_build.cpp -- builders of the loop IR, equality and hash.
#include "base/hash.h"
#include "loop/loop.h"
#include "loop/unit.h"
#include <bit>
#include <cmath>
#include <fmt/format.h>
#include <map>

namespace luminal::kernel {
namespace {

[[noreturn]] void mistake(std::string_view operation, const std::string& text) {
  throw Error(fmt::format("[{}] {}", operation, text));
}

std::shared_ptr<Value> new_value(ValueKind kind, DType dtype) {
  auto value = std::make_shared<Value>();
  value->kind = kind;
  value->dtype = dtype;
  return value;
}

std::shared_ptr<Stmt> new_stmt(StmtKind kind) {
  auto stmt = std::make_shared<Stmt>();
  stmt->kind = kind;
  return stmt;
}

std::shared_ptr<Stmt> new_loop(LoopKind kind, Expr variable, Expr begin, Expr end, Body body) {
  if (!variable.is_symbol()) mistake("loop", "the variable is not a symbol: " + to_string(variable));
  auto stmt = new_stmt(StmtKind::loop);
  stmt->loop = kind;
  stmt->variable = variable;
  stmt->begin = begin;
  stmt->end = end;
  stmt->body = std::move(body);
  return stmt;
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
  const Value& v = *value;
  h.add(v.kind).add(v.dtype).add(v.op).add(v.constant != v.constant ? 0.5e300 : v.constant);
  h.add(std::signbit(v.constant))
      .add(v.buffer)
      .add(v.offset.hash())
      .add(v.guard.hash())
      .add(v.let)
      .add(v.user_op);
  h.add(v.args.size());
  for (const ValueRef& arg : v.args) h.add(hash_of(arg, known));
  return known[value.get()] = h.value64();
}

void hash_body(Hasher& h, const Body& body);

void hash_stmt(Hasher& h, const Stmt& s) {
  h.add(s.kind)
      .add(s.variable.hash())
      .add(s.loop)
      .add(s.begin.hash())
      .add(s.end.hash())
      .add(s.level)
      .add(s.jam);
  h.add(s.masked)
      .add(s.lanes_active.hash())
      .add(s.buffer)
      .add(s.offset.hash())
      .add(s.let)
      .add(s.condition.hash());
  h.add(s.unit).add(s.count.hash()).add(s.token).add(s.stages).add(s.operands.size());
  for (const UnitOperand& operand : s.operands) {
    h.add(operand.buffer).add(operand.offset.hash()).add(operand.strides.size());
    for (Expr stride : operand.strides) h.add(stride.hash());
  }
  std::map<const Value*, uint64_t> known;
  h.add(hash_of(s.value, known));
  hash_body(h, s.body);
  hash_body(h, s.otherwise);
}

void hash_body(Hasher& h, const Body& body) {
  h.add(body.size());
  for (const StmtRef& stmt : body) hash_stmt(h, *stmt);
}

} // namespace

BufferId add_buffer(Kernel& kernel, Buffer buffer) {
  kernel.buffers.push_back(std::move(buffer));
  return BufferId(kernel.buffers.size()) - 1;
}

ValueRef constant(DType dtype, double value) {
  auto v = new_value(ValueKind::constant, dtype);
  v->constant = is_float(dtype) ? round_to(dtype, value) : value;
  return v;
}

ValueRef load(const Kernel& kernel, BufferId buffer, Expr offset) {
  if (buffer < 0 || buffer >= BufferId(kernel.buffers.size()))
    mistake("load", fmt::format("buffer {} of {}", buffer, kernel.buffers.size()));
  return load_as(kernel.buffers[buffer].dtype, buffer, offset);
}

ValueRef load_as(DType dtype, BufferId buffer, Expr offset, Expr guard) {
  auto v = new_value(ValueKind::load, dtype);
  v->buffer = buffer;
  v->offset = offset;
  v->guard = guard;
  return v;
}

ValueRef index(Expr value, DType dtype) {
  auto v = new_value(ValueKind::index, dtype);
  v->offset = value;
  return v;
}

ValueRef apply(Op op, std::vector<ValueRef> args) {
  const OpRow& r = row(op);
  if (int(args.size()) != r.arity)
    mistake(r.name, fmt::format("takes {} values, {} given", r.arity, args.size()));
  std::string why;
  const auto type = result_type(r, dtypes_of(args).data(), &why);
  if (!type) mistake(r.name, why);
  auto v = new_value(ValueKind::op, *type);
  v->op = op;
  v->args = std::move(args);
  return v;
}

ValueRef apply(std::string user_op, std::vector<ValueRef> args) {
  if (const Unit* unit = find_lane_unit(user_op)) {
    if (args.size() != 3) mistake(user_op, fmt::format("takes 3 values, {} given", args.size()));
    if (args[0]->dtype != unit->accumulator.dtype || args[1]->dtype != DType::u32 ||
        args[2]->dtype != DType::u32)
      mistake(user_op, fmt::format("takes ({}, u32, u32)", luminal::to_string(unit->accumulator.dtype)));
    auto v = new_value(ValueKind::op, unit->accumulator.dtype);
    v->user_op = std::move(user_op);
    v->args = std::move(args);
    return v;
  }
  const UserOp* user = find_user_op(user_op);
  if (!user) mistake(user_op, "no such operation is registered");
  if (int(args.size()) != user->arity)
    mistake(user_op, fmt::format("takes {} values, {} given", user->arity, args.size()));
  std::string why;
  const auto type = result_type(user->signature, user->arity, dtypes_of(args).data(), &why);
  if (!type) mistake(user_op, why);
  auto v = new_value(ValueKind::op, *type);
  v->user_op = std::move(user_op);
  v->args = std::move(args);
  return v;
}

ValueRef cast(DType to, ValueRef x) {
  auto v = new_value(ValueKind::cast, to);
  v->args = {std::move(x)};
  return v;
}

ValueRef bitcast(DType to, ValueRef x) {
  if (bits(to) != bits(x->dtype))
    mistake("bitcast", fmt::format("{} has {} bits, {} has {}", luminal::to_string(x->dtype), bits(x->dtype),
                                   luminal::to_string(to), bits(to)));
  auto v = new_value(ValueKind::bitcast, to);
  v->args = {std::move(x)};
  return v;
}

ValueRef reduce_lanes(Op op, ValueRef x) {
  auto v = new_value(ValueKind::reduce_lanes, x->dtype);
  v->op = op;
  v->args = {std::move(x)};
  return v;
}

ValueRef let_value(DType dtype, int let) {
  auto v = new_value(ValueKind::let, dtype);
  v->let = let;
  return v;
}

StmtRef loop(LoopKind kind, Expr variable, Expr begin, Expr end, Body body) {
  return new_loop(kind, variable, begin, end, std::move(body));
}

StmtRef parallel_loop(Expr variable, Expr begin, Expr end, Body body, int level) {
  auto stmt = new_loop(LoopKind::parallel, variable, begin, end, std::move(body));
  stmt->level = level;
  return stmt;
}

StmtRef jammed_loop(Expr variable, Expr begin, Expr end, int jam, Body body) {
  auto stmt = new_loop(LoopKind::serial, variable, begin, end, std::move(body));
  stmt->jam = jam;
  return stmt;
}

StmtRef masked_loop(Expr variable, Expr begin, Expr end, Expr lanes_active, Body body) {
  auto stmt = new_loop(LoopKind::vector, variable, begin, end, std::move(body));
  stmt->masked = true;
  stmt->lanes_active = lanes_active;
  return stmt;
}

StmtRef store(BufferId buffer, Expr offset, ValueRef value) {
  auto stmt = new_stmt(StmtKind::store);
  stmt->buffer = buffer;
  stmt->offset = offset;
  stmt->value = std::move(value);
  return stmt;
}

StmtRef let(int number, ValueRef value) {
  auto stmt = new_stmt(StmtKind::let_value);
  stmt->let = number;
  stmt->value = std::move(value);
  return stmt;
}

StmtRef let_index(Expr symbol, ValueRef value) {
  if (!symbol.is_symbol()) mistake("let", "what is defined is not a symbol: " + luminal::to_string(symbol));
  auto stmt = new_stmt(StmtKind::let_index);
  stmt->variable = symbol;
  stmt->value = std::move(value);
  return stmt;
}

StmtRef if_then(Expr condition, Body then, Body otherwise) {
  auto stmt = new_stmt(StmtKind::if_);
  stmt->condition = condition;
  stmt->body = std::move(then);
  stmt->otherwise = std::move(otherwise);
  return stmt;
}

StmtRef barrier() { return new_stmt(StmtKind::barrier); }

StmtRef barrier(int level) {
  auto stmt = new_stmt(StmtKind::barrier);
  stmt->level = level;
  return stmt;
}

StmtRef prefetch(BufferId buffer, Expr offset) {
  auto stmt = new_stmt(StmtKind::prefetch);
  stmt->buffer = buffer;
  stmt->offset = offset;
  return stmt;
}

StmtRef unit(std::string descriptor, std::vector<UnitOperand> operands) {
  auto stmt = new_stmt(StmtKind::unit);
  stmt->unit = std::move(descriptor);
  stmt->operands = std::move(operands);
  return stmt;
}

StmtRef async_copy(UnitOperand destination, UnitOperand source, Expr count, int token) {
  auto stmt = new_stmt(StmtKind::async_copy);
  stmt->operands = {std::move(destination), std::move(source)};
  stmt->count = count;
  stmt->token = token;
  return stmt;
}

StmtRef async_unit(std::string descriptor, std::vector<UnitOperand> operands, int token) {
  auto stmt = new_stmt(StmtKind::async_unit);
  stmt->unit = std::move(descriptor);
  stmt->operands = std::move(operands);
  stmt->token = token;
  return stmt;
}

StmtRef async_wait(int token) {
  auto stmt = new_stmt(StmtKind::async_wait);
  stmt->token = token;
  return stmt;
}

StmtRef roles(Expr variable, Expr begin, Expr end, int stages, Body producers, Body consumers) {
  if (!variable.is_symbol()) mistake("roles", "the step is not a symbol: " + luminal::to_string(variable));
  auto stmt = new_stmt(StmtKind::roles);
  stmt->variable = variable;
  stmt->begin = begin;
  stmt->end = end;
  stmt->stages = stages;
  stmt->body = std::move(producers);
  stmt->otherwise = std::move(consumers);
  return stmt;
}

bool same(const Value& a, const Value& b) {
  if (a.kind != b.kind || a.dtype != b.dtype || a.op != b.op || !same(a.constant, b.constant) ||
      a.buffer != b.buffer || a.offset != b.offset || a.guard != b.guard || a.let != b.let ||
      a.user_op != b.user_op || a.args.size() != b.args.size())
    return false;
  for (size_t i = 0; i < a.args.size(); ++i)
    if (!same(a.args[i], b.args[i])) return false;
  return true;
}

bool same(const Stmt& a, const Stmt& b) {
  return a.kind == b.kind && a.variable == b.variable && a.loop == b.loop && a.begin == b.begin &&
         a.end == b.end && a.level == b.level && a.jam == b.jam && a.masked == b.masked &&
         a.lanes_active == b.lanes_active && a.buffer == b.buffer && a.offset == b.offset && a.let == b.let &&
         a.condition == b.condition && a.unit == b.unit && a.operands == b.operands && a.count == b.count &&
         a.token == b.token && a.stages == b.stages && same(a.value, b.value) && same(a.body, b.body) &&
         same(a.otherwise, b.otherwise);
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
