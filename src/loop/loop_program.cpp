// loop/loop_program.cpp -- compiles a kernel for the loop interpreter.
#include "loop/loop_program.h"
#include "base/check.h"
#include <bit>
#include <set>
#include <tuple>

namespace luminal::kernel::loop_detail {

IndexCode::IndexCode(Expr e, const std::map<Expr, SlotId, ExprLess>& slots) {
  const Affine affine = affine_terms(e);
  constant_ = affine.constant;
  bool plain = true;
  for (const auto& [term, coefficient] : affine.terms) {
    plain &= term.is_symbol();
    if (plain) terms_.emplace_back(slots.at(term), coefficient);
  }
  if (plain) return;
  program_ = std::make_shared<ExprProgram>(e);
  for (const Expr s : program_->slots()) slots_.push_back(slots.at(s));
}

bool IndexCode::run(const int64_t* slots, int64_t& result) const {
  if (!program_) {
    int64_t sum = constant_;
    for (const auto& [slot, coefficient] : terms_) {
      int64_t product;
      if (__builtin_mul_overflow(slots[slot.index()], coefficient, &product) ||
          __builtin_add_overflow(sum, product, &sum))
        return false;
    }
    result = sum;
    return true;
  }
  int64_t values[32];
  if (slots_.size() > std::size(values)) {
    std::vector<int64_t> many;
    for (const SlotId slot : slots_) many.push_back(slots[slot.index()]);
    return program_->run(many, {&result, 1});
  }
  for (size_t i = 0; i < slots_.size(); ++i) values[i] = slots[slots_[i].index()];
  return program_->run({values, slots_.size()}, {&result, 1});
}

std::string IndexCode::why(const int64_t* slots) const {
  if (!program_) return "overflow of 64 bits";
  std::vector<int64_t> values;
  for (const SlotId slot : slots_) values.push_back(slots[slot.index()]);
  return program_->why(values);
}

namespace {

class Compiler {
public:
  explicit Compiler(const Kernel& kernel) : k_(kernel) {
    p_.kernel = &kernel;
    p_.let_on_lane.assign(kernel.lets, false);
    p_.let_dtype.assign(kernel.lets, DType::f32);
    for (const Buffer& b : kernel.buffers) p_.smallest_access.push_back(std::max(1, bits(b.dtype) / 8));
  }

  Program run() {
    for (const Expr s : k_.symbols) slot(s);
    body(k_.body);
    emit(Code::end, nullptr);
    return std::move(p_);
  }

private:
  SlotId slot(Expr symbol) {
    const auto [at, fresh] = p_.slots.try_emplace(symbol, p_.symbols.end_id());
    if (fresh) p_.symbols.push_back(symbol);
    return at->second;
  }

  IndexCode index(Expr e) const { return IndexCode(e, p_.slots); }

  bool on_lane(Expr e) const {
    for (const Expr s : symbols_of(e))
      if (lane_symbols_.contains(s)) return true;
    return false;
  }

  LaneIndex lane_index(Expr e) {
    LaneIndex out;
    out.at = index(e);
    out.on_lane = on_lane(e);
    if (!out.on_lane) return out;
    // Affine in the lane alone: other symbols that differ between lanes need an evaluation for
    // each.
    std::optional<Expr> stride;
    bool others = false;
    for (const Expr s : symbols_of(e)) others |= lane_symbols_.contains(s) && s != vector_->variable;
    if (!others) stride = coefficient_of(e, vector_->variable);
    out.affine = stride.has_value();
    if (stride) out.stride = index(*stride);
    return out;
  }

  InstructionId emit(Code code, const Stmt* stmt) {
    Instruction i;
    i.code = code;
    i.stmt = stmt;
    i.parent = parent_;
    i.lanes = vector_ ? (vector_->end - vector_->begin).value() : 1;
    if (vector_) i.lane_slots = lane_slots_;
    return p_.code.add(std::move(i));
  }

  void accessed(BufferId id, DType dtype) {
    p_.smallest_access[id] = std::min(p_.smallest_access[id], std::max(1, bits(dtype) / 8));
  }

  // ---- values: one step for each different sub-value
  /// Kind, type, op, constant, buffer, offset, guard, let, user's op, arguments.
  using Key = std::tuple<StepKind, DType, Op, uint64_t, BufferId, uint32_t, uint32_t, LetId, std::string_view,
                         std::vector<int>>;

  int value(const Value& v, Instruction& into, std::map<Key, int>& known) {
    if (const auto seen = compiled_.find(&v); seen != compiled_.end()) return seen->second;
    return compiled_[&v] = new_value(v, into, known);
  }

  int new_value(const Value& v, Instruction& into, std::map<Key, int>& known) {
    const std::span<const ValueRef> operands = args_of(v);
    std::vector<int> args;
    for (const ValueRef& arg : operands) args.push_back(value(*arg, into, known));
    ValueStep step;
    Expr offset, guard = 1;
    std::string_view user;
    step.dtype = step.from = v.dtype;
    visit(
        v,
        [&](const Constant& x) {
          step.kind = StepKind::constant;
          step.constant = x.value;
          step.integer = is_float(v.dtype) ? 0 : int64_t(x.value);
        },
        [&](const Load& x) {
          step.kind = StepKind::load;
          step.buffer = x.buffer;
          offset = x.offset;
          guard = x.guard;
        },
        [&](const Index& x) {
          step.kind = StepKind::index;
          offset = x.value;
        },
        [&](const Let& x) {
          step.kind = StepKind::let;
          step.let = x.number;
        },
        [&](const Apply& x) {
          step.kind = StepKind::op;
          step.op = x.op;
        },
        [&](const ApplyUser& x) {
          step.kind = StepKind::op;
          user = x.name;
        },
        [&](const Cast&) { step.kind = StepKind::cast; },
        [&](const Bitcast&) { step.kind = StepKind::bitcast; },
        [&](const ReduceLanes& x) {
          step.kind = x.form == LanesForm::reduced   ? StepKind::reduce_lanes
                      : x.form == LanesForm::scanned ? StepKind::scan_lanes
                                                     : StepKind::last_lane;
          step.op = x.op;
        });
    const Key key{step.kind,   v.dtype,     step.op,    std::bit_cast<uint64_t>(step.constant),
                  step.buffer, offset.id(), guard.id(), step.let,
                  user,        args};
    if (const auto found = known.find(key); found != known.end()) return found->second;
    if (!user.empty()) step.unit = find_lane_unit(user);
    if (!user.empty() && !step.unit) step.user = find_user_op(user);
    for (size_t i = 0; i < args.size(); ++i) {
      step.args[i] = args[i];
      step.on_lane |= into.steps[args[i]].on_lane;
    }
    if (!operands.empty()) step.from = operands.back()->dtype;
    switch (step.kind) {
    case StepKind::load: accessed(step.buffer, v.dtype); [[fallthrough]];
    case StepKind::index:
      step.index = lane_index(offset);
      step.on_lane = step.index.on_lane;
      step.guarded = !guard.is_constant(1);
      if (step.guarded) {
        step.guard = lane_index(guard);
        step.on_lane |= step.guard.on_lane;
      }
      break;
    case StepKind::let: step.on_lane = p_.let_on_lane[step.let]; break;
    case StepKind::reduce_lanes:
    case StepKind::last_lane: step.on_lane = false; break;
    case StepKind::scan_lanes: step.on_lane = true; break;
    default: break;
    }
    into.steps.push_back(std::move(step));
    return known[key] = int(into.steps.size()) - 1;
  }

  /// Which results count only where a select takes them. Lanes meet in a reduction: there all do.
  static void choices(std::vector<ValueStep>& steps) {
    std::vector<bool> used(steps.size());
    for (size_t user = steps.size(); user-- > 0;)
      for (int a = 0; a < 3 && steps[user].args[a] >= 0; ++a) {
        const ValueStep& by = steps[user];
        ValueStep& step = steps[by.args[a]];
        std::pair<int, int> chosen{by.chosen_by, by.choice};
        if (by.kind == StepKind::op && !by.user && !by.unit && by.op == Op::select && a > 0)
          chosen = {int(user), a};
        if (by.kind == StepKind::reduce_lanes || by.kind == StepKind::scan_lanes ||
            by.kind == StepKind::last_lane ||
            (used[by.args[a]] && chosen != std::pair(step.chosen_by, step.choice)))
          chosen = {-1, 0};
        used[by.args[a]] = true;
        std::tie(step.chosen_by, step.choice) = chosen;
      }
  }

  void value(const ValueRef& whole, Instruction& into) {
    std::map<Key, int> known;
    compiled_.clear();
    const int last = value(*whole, into, known);
    LUMINAL_CHECK(last == int(into.steps.size()) - 1);
    choices(into.steps);
    p_.most_steps = std::max(p_.most_steps, int(into.steps.size()));
    into.lane_values = into.steps.back().on_lane;
  }

  // ---- statements
  void body(const Body& statements) {
    const auto symbols = lane_symbols_;
    const auto slots = lane_slots_;
    for (const StmtRef& s : statements) statement(*s);
    lane_symbols_ = symbols;
    lane_slots_ = slots;
  }

  void nested(InstructionId parent, const Body& statements) {
    const InstructionId outer = parent_;
    parent_ = parent;
    body(statements);
    parent_ = outer;
  }

  InstructionId here() const { return p_.code.end_id(); }

  void operand(const UnitOperand& o, Instruction& into) {
    OperandCode code{o.buffer, index(o.offset), {}};
    for (const Expr stride : o.strides) code.strides.push_back(index(stride));
    into.operands.push_back(std::move(code));
  }

  void statement(const Stmt& stmt) {
    visit(
        stmt, [&](const Loop& s) { s.kind == LoopKind::vector ? vector(stmt, s) : loop(stmt, s); },
        [&](const Store& s) {
          Instruction& i = p_.code[emit(Code::store, &stmt)];
          i.buffer = s.buffer;
          accessed(s.buffer, k_.buffers[s.buffer].dtype);
          value(s.value, i);
          i.index = lane_index(s.offset);
          i.lane_values = i.index.on_lane;
        },
        [&](const LetValue& s) {
          Instruction& i = p_.code[emit(Code::let_value, &stmt)];
          i.let = s.let;
          value(s.value, i);
          p_.let_on_lane[s.let] = i.lane_values;
          p_.let_dtype[s.let] = s.value->dtype;
        },
        [&](const LetIndex& s) { let_index(stmt, s); }, [&](const If& s) { branch(stmt, s); },
        [&](const Barrier& s) { p_.code[emit(Code::barrier, &stmt)].level = s.level; },
        [&](const Prefetch&) { emit(Code::prefetch, &stmt); },
        [&](const UnitCall& s) { unit(emit(Code::unit, &stmt), s); },
        [&](const AsyncCopy& s) {
          Instruction& i = p_.code[emit(Code::copy, &stmt)];
          i.token = s.token;
          operand(s.to, i);
          operand(s.from, i);
          i.end = index(s.count);
          i.fill = index(s.fill.is_constant(0) ? s.count : s.fill);
        },
        [&](const AsyncUnit& s) {
          const InstructionId at = emit(Code::async_unit, &stmt);
          p_.code[at].token = s.token;
          unit(at, s.call);
        },
        [&](const AsyncWait& s) {
          Instruction& i = p_.code[emit(Code::wait, &stmt)];
          i.token = s.token;
          i.behind = s.behind;
        },
        [&](const Exchange& s) {
          Instruction& i = p_.code[emit(Code::exchange, &stmt)];
          operand({s.to, s.to_offset, {}}, i);
          operand({s.from, s.from_offset, {}}, i);
          i.mask = s.mask;
          i.together = true;
        },
        [&](const Roles& s) { roles(stmt, s); });
  }

  void unit(InstructionId at, const UnitCall& s) {
    Instruction& i = p_.code[at];
    for (const UnitOperand& o : s.operands) operand(o, i);
    i.unit = find_unit(s.unit, k_.lanes);
    if (s.rows) i.end = index(*s.rows);
    i.masked = s.rows.has_value();
    i.together = i.unit && i.unit->lanes > 1 && is_collective(s);
  }

  void let_index(const Stmt& stmt, const LetIndex& s) {
    Instruction& i = p_.code[emit(Code::let_index, &stmt)];
    value(s.value, i);
    i.variable = s.symbol;
    i.slot = slot(s.symbol);
    if (!i.lane_values) return;
    lane_symbols_.insert(s.symbol);
    i.index_let = IndexLetId(p_.index_lets++);
    lane_slots_.lets.emplace_back(i.index_let, i.slot);
  }

  void branch(const Stmt& stmt, const If& s) {
    if (vector_ && on_lane(s.condition)) return lane_if(stmt, s);
    const InstructionId branch = emit(Code::branch, &stmt);
    p_.code[branch].end = index(s.condition);
    nested(branch, s.then);
    if (s.otherwise.empty()) {
      p_.code[branch].target = here();
      return;
    }
    const InstructionId jump = emit(Code::jump, &stmt);
    p_.code[branch].target = here();
    nested(branch, s.otherwise);
    p_.code[jump].target = here();
  }

  void lane_if(const Stmt& stmt, const If& s) {
    const InstructionId enter = emit(Code::lane_if, &stmt);
    p_.code[enter].index = lane_index(s.condition);
    nested(enter, s.then);
    const InstructionId other = emit(Code::lane_else, &stmt);
    p_.code[enter].target = other;
    nested(enter, s.otherwise);
    p_.code[other].target = here();
    emit(Code::lane_end, &stmt);
  }

  void loop(const Stmt& stmt, const Loop& s) {
    const auto head = [&](Code code) {
      const InstructionId at = emit(code, &stmt);
      p_.code[at].variable = s.variable;
      p_.code[at].parallel = s.kind == LoopKind::parallel;
      p_.code[at].level = s.level;
      p_.code[at].meets = s.kind == LoopKind::parallel && s.level == 1 && meets_inside(s);
      return at;
    };
    const InstructionId enter = head(Code::loop);
    {
      Instruction& i = p_.code[enter];
      i.begin = index(s.begin);
      i.end = index(s.end);
      i.loop = LoopStateId(p_.loops++);
      i.slot = slot(s.variable);
    }
    nested(enter, s.body);
    const InstructionId next = head(Code::next);
    p_.code[next].loop = p_.code[enter].loop;
    p_.code[next].slot = p_.code[enter].slot;
    p_.code[next].target = enter + 1;
    p_.code[enter].target = here();
  }

  void vector(const Stmt& stmt, const Loop& s) {
    const InstructionId enter = emit(Code::vector, &stmt);
    {
      Instruction& i = p_.code[enter];
      i.variable = s.variable;
      i.masked = s.lanes_active.has_value();
      i.begin = index(s.begin);
      if (s.lanes_active) i.end = index(*s.lanes_active);
      i.slot = slot(s.variable);
      i.lanes = (s.end - s.begin).value();
      p_.widest = std::max(p_.widest, int(i.lanes));
    }
    vector_ = &s;
    lane_symbols_ = {s.variable};
    lane_slots_ = {p_.code[enter].slot, {}};
    nested(enter, s.body);
    vector_ = nullptr;
    lane_symbols_.clear();
    lane_slots_ = {};
    emit(Code::vector_end, &stmt);
  }

  void roles(const Stmt& stmt, const Roles& s) {
    const InstructionId enter = emit(Code::roles, &stmt);
    {
      Instruction& i = p_.code[enter];
      i.variable = s.variable;
      i.begin = index(s.begin);
      i.end = index(s.end);
      i.loop = LoopStateId(p_.loops++);
      i.slot = slot(s.variable);
    }
    const LoopStateId loop = p_.code[enter].loop;
    const SlotId variable = p_.code[enter].slot;
    const auto part = [&](Code code) {
      const InstructionId at = emit(code, &stmt);
      p_.code[at].variable = s.variable;
      p_.code[at].stages = s.stages;
      p_.code[at].loop = loop;
      p_.code[at].slot = variable;
      return at;
    };
    const InstructionId choose = part(Code::role);
    nested(enter, s.producers);
    const InstructionId produced = part(Code::role_done);
    p_.code[produced].flag = true;
    p_.code[produced].target = choose;
    p_.code[choose].target = here();
    nested(enter, s.consumers);
    const InstructionId consumed = part(Code::role_done);
    p_.code[consumed].target = choose;
    p_.code[choose].target2 = p_.code[enter].target = here();
  }

  const Kernel& k_;
  Program p_;
  InstructionId parent_;
  const Loop* vector_ = nullptr;
  std::set<Expr, ExprLess> lane_symbols_;
  LaneSlots lane_slots_;
  std::map<const Value*, int> compiled_; // steps of this statement: values share parts
};

} // namespace

Program compile_loops(const Kernel& kernel) { return Compiler(kernel).run(); }

} // namespace luminal::kernel::loop_detail
