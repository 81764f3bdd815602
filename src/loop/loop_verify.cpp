// loop/loop_verify.cpp -- every mistake of a kernel that can be seen without running it: its head
// and its statements.
#include "loop/loop_bounds.h"
#include "loop/loop_verifier.h"
#include <bit>
#include <fmt/format.h>

namespace luminal::kernel {

using luminal::to_string;

std::vector<std::string> KernelVerifier::run() {
  kernel();
  collect(k_.body);
  body(k_.body);
  for (const TokenId token : awaited_)
    if (!produced_.contains(token))
      complain(fmt::format("token {} is awaited, but nothing produces it", token));
  for (const TokenId token : produced_)
    if (!awaited_.contains(token)) complain(fmt::format("token {} is produced, but never awaited", token));
  return std::move(mistakes_);
}

void KernelVerifier::complain(const std::string& text) {
  std::string line;
  for (const auto& [stmt, word] : path_)
    line += (stmt ? kernel::to_string(k_, *stmt) : std::string(word)) + " / ";
  if (!path_.empty()) line.replace(line.size() - 3, 3, ": ");
  mistakes_.push_back(line + text);
}

bool KernelVerifier::known(BufferId id) {
  if (k_.buffers.has(id)) return true;
  complain(fmt::format("there is no buffer {}; the kernel has {}", id, k_.buffers.size()));
  return false;
}

void KernelVerifier::kernel() {
  std::set<std::string, std::less<>> names;
  for (const Expr symbol : k_.symbols) {
    if (!symbol.is_symbol()) {
      complain(fmt::format("'{}' stands among the symbols and is none", to_string(symbol)));
      continue;
    }
    if (!names.emplace(symbol.name()).second)
      complain(fmt::format("there are two symbols '{}'", symbol.name()));
    scope_.push_back(symbol);
  }
  names.clear();
  bool arguments_end = false;
  for (const Buffer& b : k_.buffers) {
    const auto wrong = [&](const std::string& text) {
      complain(fmt::format("buffer '{}': {}", b.name, text));
    };
    if (!is_buffer_name(b.name)) wrong("the name is not an identifier, or a word of the language");
    if (!names.insert(b.name).second) wrong("there are two buffers of this name");
    if (b.space == Space::global && arguments_end) wrong("global buffers stand before all others");
    arguments_end |= b.space != Space::global;
    if (b.space != Space::global && b.access != Access::scratch)
      wrong(fmt::format("a buffer in {} is scratch, not {}", kernel::to_string(b.space),
                        kernel::to_string(b.access)));
    if (b.streaming && b.access != Access::out)
      wrong(fmt::format("only what is out can be streaming, not {}", kernel::to_string(b.access)));
    for (const Expr s : symbols_of(b.size))
      if (!in_scope(s))
        wrong(fmt::format("its size {} uses '{}', which is not a symbol of the kernel", to_string(b.size),
                          to_string(s)));
    if (prove(lt(b.size, 0)) == Truth::yes) wrong(fmt::format("its size {} is negative", to_string(b.size)));
    if (b.space == Space::registers && !b.size.is_constant())
      wrong(fmt::format("registers have a constant size, not {}", to_string(b.size)));
    if (b.alignment < 0 || (b.alignment && !std::has_single_bit(uint64_t(b.alignment))))
      wrong(fmt::format("alignment {} is not a power of two", b.alignment));
  }
  if (k_.lanes < 1 || !std::has_single_bit(unsigned(k_.lanes)))
    complain(fmt::format("lanes {} is not a power of two", k_.lanes));
}

void KernelVerifier::collect(const Body& statements) {
  for (const StmtRef& s : statements) {
    if (const auto written = written_by(*s)) written_.insert(*written);
    if (const auto* copy = s->as<AsyncCopy>()) produced_.insert(copy->token);
    if (const auto* unit = s->as<AsyncUnit>()) produced_.insert(unit->token);
    if (const auto* wait = s->as<AsyncWait>()) awaited_.insert(wait->token);
    for (const Body* inside : bodies_of(*s)) collect(*inside);
  }
}

void KernelVerifier::registers_of(const Body& statements, std::set<BufferId>& loaded,
                                  std::set<BufferId>& stored) const {
  const auto note = [&](BufferId id, std::set<BufferId>& set) {
    if (k_.buffers.has(id) && k_.buffers[id].space == Space::registers) set.insert(id);
  };
  const std::function<void(const Value&)> loads = [&](const Value& v) {
    if (const auto* load = v.as<Load>()) note(load->buffer, loaded);
    for (const ValueRef& arg : args_of(v))
      if (arg) loads(*arg);
  };
  for (const StmtRef& s : statements) {
    if (const Value* value = value_of(*s)) loads(*value);
    if (const auto written = written_by(*s)) note(*written, stored);
    if (const auto* copy = s->as<AsyncCopy>()) note(copy->from.buffer, loaded);
    if (const auto* other = s->as<Exchange>()) note(other->from, loaded);
    const auto* unit = s->as<UnitCall>();
    if (const auto* begun = s->as<AsyncUnit>()) unit = &begun->call;
    if (unit)
      for (const UnitOperand& operand : unit->operands) note(operand.buffer, loaded);
    for (const Body* inside : bodies_of(*s)) registers_of(*inside, loaded, stored);
  }
}

void KernelVerifier::body(const Body& statements) {
  const size_t scope = scope_.size();
  const auto lets = lets_;
  const auto lane_lets = lane_lets_;
  const auto lane_symbols = lane_symbols_;
  for (const StmtRef& s : statements) {
    path_.emplace_back(s.get(), "");
    statement(*s);
    path_.pop_back();
  }
  scope_.resize(scope);
  lets_ = lets;
  lane_lets_ = lane_lets;
  lane_symbols_ = lane_symbols;
}

void KernelVerifier::statement(const Stmt& s) {
  checked_.clear();
  on_lane_.clear();
  const auto alone = [&](const auto& other) {
    if (vector_) complain("stands inside a vector loop, where every statement acts on lanes");
    return &other;
  };
  visit(
      s, [&](const Loop& x) { loop(x); }, [&](const Store& x) { store(x); },
      [&](const LetValue& x) { let_value(x); }, [&](const LetIndex& x) { let_index(x); },
      [&](const If& x) { branch(x); }, [&](const Barrier& x) { barrier(*alone(x)); },
      [&](const Prefetch& x) { prefetch(x); }, [&](const UnitCall& x) { unit(*alone(x)); },
      [&](const AsyncCopy& x) { async_copy(*alone(x)); }, [&](const AsyncUnit& x) { async_unit(*alone(x)); },
      [&](const AsyncWait& x) { wait(*alone(x)); }, [&](const Exchange& x) { exchange(*alone(x)); },
      [&](const Roles& x) { roles(*alone(x)); });
}

void KernelVerifier::prefetch(const Prefetch& s) {
  if (!known(s.buffer)) return;
  expression(s.offset, "the offset"); // it may be outside: nothing is read
  if (k_.buffers[s.buffer].space == Space::registers)
    complain(fmt::format("'{}' is in registers", name(s.buffer)));
}

void KernelVerifier::enter(Expr variable, Expr begin, Expr end, const std::function<void()>& inside) {
  expression(begin, "the bound");
  expression(end, "the bound");
  const size_t scope = scope_.size();
  define(variable);
  if (!variable.is_symbol()) return;
  const Interval range = variable.range();
  const bool empty = proved(le(end, begin)) || (range.low != unbounded_low && proved(le(end, range.low)));
  if (!empty && range.low != unbounded_low && !proved(ge(begin, range.low)))
    complain(fmt::format("'{}' is said to be at least {}, and begins at {}", variable.name(), range.low,
                         to_string(begin)));
  if (!empty && range.high != unbounded_high && !proved(le(end, Expr(range.high) + 1)))
    complain(fmt::format("'{}' is said to be at most {}, and ends at {} - 1", variable.name(), range.high,
                         to_string(end)));
  if (variable.multiple() > 1)
    complain(fmt::format("'{}' is said to be a multiple of {}; loops have step 1", variable.name(),
                         variable.multiple()));
  const size_t facts = facts_.size();
  // Beside the variable's own range, which may be wider: that of a whole loop of which this is a
  // part.
  if (!begin.is_constant() || begin.value() > range.low) facts_.push_back(ge(variable, begin));
  if (!end.is_constant() || end.value() <= range.high) facts_.push_back(lt(variable, end));
  never_ += empty;
  inside();
  never_ -= empty;
  facts_.resize(facts);
  scope_.resize(scope);
}

void KernelVerifier::loop(const Loop& s) {
  if (s.body.empty()) complain("the body is empty");
  if (s.jam < 1) complain(fmt::format("jam {} is less than 1", s.jam));
  if (s.jam != 1 && s.kind != LoopKind::serial) complain("only serial loops are jammed");
  if (s.lanes_active && s.kind != LoopKind::vector) complain("only vector loops are masked");
  if (s.level != 0 && s.kind != LoopKind::parallel) complain("only parallel loops have a level");
  if (vector_ && (on_lane(s.begin) || on_lane(s.end)))
    complain("the bounds depend on the lane of the vector loop around it");
  const Expr extent = s.end - s.begin;
  const Loop* outer_vector = vector_;
  bool unrolled = false;
  switch (s.kind) {
  case LoopKind::serial: break;
  case LoopKind::unrolled:
    if (!extent.is_constant())
      complain(fmt::format("an unrolled loop has a constant number of steps, not {}", to_string(extent)));
    unrolled = s.begin.is_constant() && extent.is_constant();
    break;
  case LoopKind::vector:
    if (vector_)
      complain(fmt::format("a vector loop inside the vector loop over '{}'", to_string(vector_->variable)));
    if (!extent.is_constant())
      complain(fmt::format("a vector loop has a constant number of steps, not {}", to_string(extent)));
    else if (const int64_t n = extent.value();
             n < 1 || n > (1 << 16) ||
             (n % k_.lanes != 0 && !(n < k_.lanes && std::has_single_bit(uint64_t(n)))))
      complain(fmt::format("a vector loop has {} steps, a multiple, or a power of two below; not {}",
                           k_.lanes, n));
    if (s.lanes_active) expression(*s.lanes_active, "the mask");
    vector_ = &s;
    break;
  case LoopKind::parallel:
    if (s.level < 0 || s.level > 2) complain(fmt::format("there is no level {}", s.level));
    if (vector_) complain("a parallel loop inside a vector loop");
    for (const Loop* open : open_loops_)
      if (open->kind == LoopKind::parallel && open->level >= s.level)
        complain(fmt::format("a parallel loop of level {} inside one of level {}, over '{}'", s.level,
                             open->level, to_string(open->variable)));
    if (open_roles_ > 0 && s.level < 1)
      complain("a parallel loop of level 0 inside roles, which split the lanes of a group");
    break;
  }
  open_loops_.push_back(&s);
  enter(s.variable, s.begin, s.end, [&] {
    if (unrolled) unrolled_.insert(s.variable);
    if (s.kind == LoopKind::vector) lane_symbols_.insert(s.variable);
    if (strict_ && s.lanes_active)
      facts_.push_back(lt(s.variable - s.begin, *s.lanes_active)); // lanes that are alive
    body(s.body);
    unrolled_.erase(s.variable);
    lane_symbols_.erase(s.variable);
  });
  open_loops_.pop_back();
  vector_ = outer_vector;
}

void KernelVerifier::store(const Store& s) {
  if (!known(s.buffer)) return;
  const Buffer& b = k_.buffers[s.buffer];
  value(s.value);
  element(s.buffer, s.offset);
  if (b.access == Access::in) complain(fmt::format("'{}' is an input and cannot be stored to", b.name));
  if (!s.value) return;
  if (s.value->dtype != b.dtype)
    complain(
        fmt::format("'{}' holds {}, the value is {}", b.name, to_string(b.dtype), to_string(s.value->dtype)));
  if (lane_conditions_ > 0 && !on_lane(s.offset))
    complain("a store to one element under a condition that differs between lanes");
  else if (on_lane(*s.value) && !on_lane(s.offset))
    complain(fmt::format("all lanes store to the one element {}[{}]; reduce_lanes makes one value of them",
                         b.name, to_string(s.offset)));
}

void KernelVerifier::let_value(const LetValue& s) {
  value(s.value);
  if (!s.value) return;
  if (!s.let || s.let.number() >= k_.lets)
    complain(fmt::format("%{} is not among the {} lets of the kernel", s.let, k_.lets));
  if (!let_numbers_.insert(s.let).second) complain(fmt::format("%{} is defined twice", s.let));
  lets_[s.let] = s.value->dtype;
  if (on_lane(*s.value)) lane_lets_.insert(s.let);
}

void KernelVerifier::let_index(const LetIndex& s) {
  value(s.value);
  if (!s.value) return;
  if (!is_integer(s.value->dtype))
    complain(fmt::format("an index is made of an integer, not of {}", to_string(s.value->dtype)));
  if (s.symbol.is_symbol() && !s.symbol.range().is_bounded())
    complain(fmt::format("the index '{}' needs a range with both ends", s.symbol.name()));
  const bool lane = on_lane(*s.value);
  define(s.symbol);
  if (lane) lane_symbols_.insert(s.symbol);
}

void KernelVerifier::branch(const If& s) {
  expression(s.condition, "the condition");
  if (s.then.empty()) complain("the body is empty");
  const bool lane = vector_ && on_lane(s.condition);
  lane_conditions_ += lane;
  facts_.push_back(s.condition);
  conditions_.emplace_back(s.condition, open_loops_.size());
  body(s.then);
  facts_.back() = logical_not(s.condition);
  body(s.otherwise);
  conditions_.pop_back();
  facts_.pop_back();
  lane_conditions_ -= lane;
}

void KernelVerifier::barrier(const Barrier& s) {
  if (s.level < 0 || s.level > 2) complain(fmt::format("there is no level {}", s.level));
  meet(s.level, "a barrier");
}

/// All workers of the level come here.
void KernelVerifier::meet(int level, std::string_view what) {
  for (size_t i = 0; i < open_loops_.size(); ++i) {
    const Loop* open = open_loops_[i];
    if (open->kind != LoopKind::parallel || open->level < level) continue;
    if (open->level != 1 || level != 1 || !open->begin.is_constant(0) || !open->end.is_constant()) {
      complain(fmt::format("{} of level {} inside the parallel loop over '{}': its iterations go to "
                           "different workers, "
                           "which would not all arrive",
                           what, level, to_string(open->variable)));
      continue;
    }
    // One iteration for each lane of the group: all of them have to come here.
    const auto by_lane = [&](Expr e) { return depends_on(e, open->variable); };
    bool apart = std::ranges::any_of(conditions_, [&](auto& c) { return c.second > i && by_lane(c.first); });
    for (size_t l = i + 1; l < open_loops_.size(); ++l)
      apart |= by_lane(open_loops_[l]->begin) || by_lane(open_loops_[l]->end);
    if (apart)
      complain(fmt::format("{} that not all lanes of '{}' reach as often: a condition or a loop "
                           "around it depends on the lane",
                           what, to_string(open->variable)));
    if (lanes_of_group_ != 0 && lanes_of_group_ != open->end.value())
      complain(fmt::format("lanes of '{}' meet, {} of them; other groups have {} lanes",
                           to_string(open->variable), open->end.value(), lanes_of_group_));
    lanes_of_group_ = open->end.value();
  }
  if (open_roles_ > 0)
    complain(fmt::format("{} inside roles: producers and consumers would not all arrive", what));
}

void KernelVerifier::operand(const UnitOperand& o, const UnitOperandInfo& info, const Unit& unit,
                             std::optional<Expr> rows, bool written) {
  if (!known(o.buffer)) return;
  const Buffer& b = k_.buffers[o.buffer];
  expression(o.offset, "the offset");
  for (const Expr stride : o.strides) expression(stride, "the stride");
  if (written && b.access == Access::in)
    complain(fmt::format("'{}' is an input and cannot be stored to", b.name));
  const std::string axes = info.axes_in(b.dtype);
  if (axes.empty())
    return complain(fmt::format("{} takes {} here, '{}' holds {}", unit.name, to_string(info.dtype), b.name,
                                to_string(b.dtype)));
  if (unit.tiles && b.space == Space::registers)
    complain(fmt::format("{} takes its operands from memory, '{}' lies in registers", unit.name, b.name));
  if (o.strides.size() != axes.size())
    return complain(fmt::format("'{}' has {} strides, {} has the axes {} here", b.name, o.strides.size(),
                                unit.name, axes));
  Expr low = o.offset, high = o.offset;
  for (size_t i = 0; i < o.strides.size(); ++i) {
    const Expr extent = axes[i] == 'm' ? rows.value_or(unit.m) : Expr(unit.extent(axes[i]));
    const Expr reach = o.strides[i] * (extent - 1);
    low += min(reach, 0);
    high += max(reach, 0);
    if (written && o.strides[i].is_constant(0) && unit.extent(axes[i]) > 1)
      complain(fmt::format("'{}' is the accumulator: its stride along {} is not 0", b.name, axes[i]));
  }
  const size_t before = mistakes_.size();
  element(o.buffer, low);
  if (mistakes_.size() == before) element(o.buffer, high);
}

void KernelVerifier::async_unit(const AsyncUnit& s) {
  const auto described = find_unit(s.call.unit, k_.lanes);
  if (described && !described->asynchronous) complain(fmt::format("{} is not asynchronous", s.call.unit));
  unit(s.call);
  token(s.token);
}

void KernelVerifier::unit(const UnitCall& s) {
  const auto unit = find_unit(s.unit, k_.lanes);
  if (!unit) return complain(fmt::format("there is no unit '{}'", s.unit));
  if (s.operands.size() != 3)
    return complain(
        fmt::format("{} has 3 operands (accumulator, a, b), {} given", s.unit, s.operands.size()));
  if (s.rows) {
    const size_t before = mistakes_.size();
    expression(*s.rows, "the number of rows");
    if (!unit->tiles) complain(fmt::format("{} has no tile registers: it takes all rows", unit->name));
    if (mistakes_.size() == before && strict_ && !unreachable() &&
        !(proved(ge(*s.rows, 1)) && proved(le(*s.rows, unit->m))))
      complain(fmt::format("{} takes 1 to {} rows: {} is not proved to be so many", unit->name, unit->m,
                           to_string(*s.rows)));
  }
  if (unit->lanes > 1 && is_collective(s)) return fragments(s, *unit);
  for (int i = 0; i < 3; ++i) operand(s.operands[i], unit->operand(i), *unit, s.rows, i == 0);
}

/// Operands in the registers of neighbouring lanes.
void KernelVerifier::fragments(const UnitCall& s, const Unit& unit) {
  meet(1, "a unit of several lanes");
  if (lanes_of_group_ == 0)
    complain(
        fmt::format("{} is carried out by {} lanes: it stands in no loop of lanes", unit.name, unit.lanes));
  if (lanes_of_group_ % unit.lanes != 0)
    complain(
        fmt::format("{} is carried out by {} lanes, groups have {}", unit.name, unit.lanes, lanes_of_group_));
  for (int i = 0; i < 3; ++i) {
    const UnitOperand& o = s.operands[i];
    if (!known(o.buffer)) continue;
    const Buffer& b = k_.buffers[o.buffer];
    const UnitOperandInfo& info = unit.operand(i);
    const int in_word = places_in_word(info, b.dtype);
    if (in_word == 0)
      complain(fmt::format("{} takes {} here, '{}' holds {}", unit.name, to_string(info.dtype), b.name,
                           to_string(b.dtype)));
    else if (info.map.places == 0 || b.space != Space::registers)
      complain(fmt::format("{} takes '{}' from the registers of lanes", unit.name, b.name));
    else
      element(o.buffer, o.offset, info.map.places / in_word);
  }
}

void KernelVerifier::exchange(const Exchange& s) {
  meet(1, "an exchange");
  if (!known(s.to) || !known(s.from)) return;
  const Buffer &a = k_.buffers[s.to], &b = k_.buffers[s.from];
  element(s.to, s.to_offset);
  element(s.from, s.from_offset);
  if (a.dtype != b.dtype)
    complain(
        fmt::format("'{}' holds {}, '{}' holds {}", a.name, to_string(a.dtype), b.name, to_string(b.dtype)));
  for (const Buffer* buffer : {&a, &b})
    if (buffer->space != Space::registers)
      complain(fmt::format("'{}' is not a register buffer: lanes exchange registers", buffer->name));
  if (s.mask < 1 || s.mask >= most_exchanging)
    complain(
        fmt::format("lanes exchange within {} neighbours, not with lane xor {}", most_exchanging, s.mask));
  if (lanes_of_group_ % most_exchanging != 0 || lanes_of_group_ == 0)
    complain(
        fmt::format("lanes exchange within {} neighbours, groups have {}", most_exchanging, lanes_of_group_));
}

void KernelVerifier::wait(const AsyncWait& s) { token(s.token); }

void KernelVerifier::token(TokenId number) {
  if (!number) complain(fmt::format("{} is not a token", number));
}

void KernelVerifier::async_copy(const AsyncCopy& s) {
  token(s.token);
  const UnitOperand &to = s.to, &from = s.from;
  if (!known(to.buffer) || !known(from.buffer)) return;
  const Buffer &a = k_.buffers[to.buffer], &b = k_.buffers[from.buffer];
  expression(s.count, "the count");
  if (a.dtype != b.dtype)
    complain(
        fmt::format("'{}' holds {}, '{}' holds {}", a.name, to_string(a.dtype), b.name, to_string(b.dtype)));
  if (a.access == Access::in) complain(fmt::format("'{}' is an input and cannot be stored to", a.name));
  if (!to.strides.empty() || !from.strides.empty())
    complain("a copy moves neighbouring elements: it has no strides");
  for (const Buffer* buffer : {&a, &b})
    if (buffer->space == Space::registers)
      complain(fmt::format("'{}' is in registers: only memory is copied", buffer->name));
  if (refuted(ge(s.count, 0))) return complain(fmt::format("the count {} is negative", to_string(s.count)));
  expression(s.fill, "the count that is filled");
  const bool fills = !s.fill.is_constant(0);
  if (fills && refuted(ge(s.fill, s.count)))
    return complain(
        fmt::format("{} elements are copied, and {} written", to_string(s.count), to_string(s.fill)));
  for (const auto& [o, count] : {std::pair(&to, fills ? s.fill : s.count), std::pair(&from, s.count)}) {
    const bool some = proved(ge(count, 1));
    if (!some) {
      expression(o->offset, "the offset"); // nothing may be copied: then it may be outside
      continue;
    }
    element(o->buffer, o->offset);
    element(o->buffer, o->offset + count - 1);
  }
}

void KernelVerifier::roles(const Roles& s) {
  if (s.stages < 1) complain(fmt::format("a ring of {} stages", s.stages));
  if (s.producers.empty() || s.consumers.empty()) complain("producers and consumers both have statements");
  if (open_roles_ > 0) complain("roles inside roles");
  for (const Loop* open : open_loops_)
    if (open->kind == LoopKind::parallel && open->level > 0)
      complain(
          fmt::format("roles inside the parallel loop over '{}' of level {}: they split the lanes of a group",
                      to_string(open->variable), open->level));
  std::set<BufferId> loaded[2], stored[2];
  registers_of(s.producers, loaded[0], stored[0]);
  registers_of(s.consumers, loaded[1], stored[1]);
  for (int i = 0; i < 2; ++i)
    for (const BufferId id : stored[i])
      if (loaded[1 - i].contains(id))
        complain(fmt::format("'{}' is in registers: {} write it, {} read it, and they are different lanes",
                             name(id), i == 0 ? "producers" : "consumers",
                             i == 0 ? "consumers" : "producers"));
  ++open_roles_;
  enter(s.variable, s.begin, s.end, [&] {
    path_.emplace_back(nullptr, "producers");
    body(s.producers);
    path_.back().second = "consumers";
    body(s.consumers);
    path_.pop_back();
  });
  --open_roles_;
}

bool is_buffer_name(std::string_view name) {
  static const std::set<std::string, std::less<>> words = {"shared", "local", "registers", "group",
                                                           "tensor_memory"};
  try {
    Expr::symbol(name);
  } catch (const Error&) {
    return false;
  }
  return !words.contains(name);
}

std::vector<std::string> verify(const Kernel& kernel) { return KernelVerifier(kernel, false).run(); }
std::vector<std::string> verify_with_bounds(const Kernel& kernel) {
  return KernelVerifier(kernel, true).run();
}

} // namespace luminal::kernel
