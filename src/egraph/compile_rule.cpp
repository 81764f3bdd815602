// egraph/compile_rule.cpp -- checks rules and brings them into the form of compile.h.
#include "egraph/compile_rule.h"
#include <fmt/format.h>

namespace luminal::egraph {

namespace {

[[noreturn]] void fail(const std::string& what, const std::string& text) {
  throw Error(fmt::format("{}: {}", what, text));
}

/// Union-find over the variables of a query; a class may have a value.
class Unifier {
public:
  Unifier(const State& state, const Query& query) : state_(state), query_(query), parent_(query.vars.size()) {
    for (VarId v = 0; v < parent_.size(); ++v) parent_[v] = v;
    values_.assign(parent_.size(), absent);
  }
  VarId leader(VarId v) {
    while (parent_[v] != v) v = parent_[v] = parent_[parent_[v]];
    return v;
  }
  /// False where two values meet.
  bool unify(const Operand& a, const Operand& b) {
    if (!a.is_var() && !b.is_var()) return a.id == b.id;
    if (!a.is_var()) return unify(b, a);
    const VarId x = leader(a.id);
    if (!b.is_var()) {
      if (values_[x] != absent && values_[x] != b.id) return false;
      values_[x] = b.id;
      return true;
    }
    const VarId y = leader(b.id);
    if (x == y) return true;
    const VarId low = std::min(x, y), high = std::max(x, y);
    const bool same = values_[x] == absent || values_[y] == absent || values_[x] == values_[y];
    if (values_[low] == absent) values_[low] = values_[high];
    parent_[high] = low;
    return same;
  }
  Slot slot(const Operand& operand, bool eq) {
    if (!operand.is_var()) return {true, eq, operand.id};
    const VarId v = leader(operand.id);
    eq = state_.sorts[query_.vars[operand.id].sort].kind == SortKind::eq;
    return values_[v] != absent ? Slot{true, eq, values_[v]} : Slot{false, eq, v};
  }

private:
  const State& state_;
  const Query& query_;
  std::vector<VarId> parent_;
  std::vector<Value> values_;
};

} // namespace

CompiledQuery compile_query(const State& state, const Query& query, const std::string& what) {
  const auto check_operand = [&](const Operand& operand) {
    if (operand.is_var() && operand.id >= query.vars.size())
      fail(what, fmt::format("there is no variable {}", operand.id));
    if (!operand.is_var() && operand.id == absent) fail(what, "a constant has no value");
  };
  if (query.vars.size() > 4096) fail(what, "a query has at most 4096 variables");
  if (query.atoms.size() > 512 || query.prims.size() > 4096)
    fail(what, "a query has at most 512 atoms and 4096 primitives");
  for (const Variable& var : query.vars)
    if (var.sort >= state.sorts.size()) fail(what, fmt::format("variable {} has an unknown sort", var.name));
  CompiledQuery result;
  result.include_subsumed = query.include_subsumed;
  Unifier unifier(state, query);
  for (const Equality& equality : query.equalities) {
    check_operand(equality.left);
    check_operand(equality.right);
    if (!unifier.unify(equality.left, equality.right)) result.impossible = true;
  }
  for (VarId v = 0; v < query.vars.size(); ++v) result.vars.push_back(unifier.slot(Operand::var(v), false));
  std::vector<bool> bound(query.vars.size(), false);
  for (const Atom& atom : query.atoms) {
    if (atom.op >= state.ops.size()) fail(what, fmt::format("there is no operator {}", atom.op));
    const OpSpec& op = state.ops[atom.op];
    if (atom.args.size() != op.args.size())
      fail(what, fmt::format("{} takes {} arguments, not {}", op.name, op.args.size(), atom.args.size()));
    CompiledAtom compiled{atom.op, {}};
    const auto add = [&](const Operand& operand, SortId sort) {
      check_operand(operand);
      compiled.cols.push_back(unifier.slot(operand, state.sorts[sort].kind == SortKind::eq));
      if (!compiled.cols.back().constant) bound[compiled.cols.back().id] = true;
    };
    for (size_t i = 0; i < atom.args.size(); ++i) add(atom.args[i], op.args[i]);
    add(atom.out, op.out);
    // The same atom twice is one premise.
    bool known = false;
    for (const CompiledAtom& other : result.atoms)
      known |= other.op == compiled.op && other.cols == compiled.cols;
    if (!known) result.atoms.push_back(std::move(compiled));
  }
  for (const PrimAtom& prim : query.prims) {
    if (prim.prim >= state.prims.size()) fail(what, fmt::format("there is no primitive {}", prim.prim));
    result.thread_safe &= state.prims[prim.prim].thread_safe;
    CompiledPrim compiled{prim.prim, {}, {}};
    for (const Operand& arg : prim.args) {
      check_operand(arg);
      compiled.args.push_back(unifier.slot(arg, false));
    }
    check_operand(prim.out);
    compiled.out = unifier.slot(prim.out, false);
    result.prims.push_back(std::move(compiled));
  }
  // Every variable must be computable: from atoms, then through primitives.
  std::vector<bool> done(result.prims.size(), false);
  for (bool more = true; more;) {
    more = false;
    for (size_t i = 0; i < result.prims.size(); ++i) {
      if (done[i]) continue;
      bool ready = true;
      for (const Slot& arg : result.prims[i].args) ready &= arg.constant || bound[arg.id];
      if (!ready) continue;
      done[i] = more = true;
      if (!result.prims[i].out.constant) bound[result.prims[i].out.id] = true;
    }
  }
  for (size_t i = 0; i < result.prims.size(); ++i)
    if (!done[i])
      fail(what,
           fmt::format("an argument of primitive {} is not bound", state.prims[result.prims[i].prim].name));
  std::vector<bool> equated(query.vars.size(), false);
  for (const Equality& equality : query.equalities)
    for (const Operand& operand : {equality.left, equality.right})
      if (operand.is_var()) equated[operand.id] = true;
  for (VarId v = 0; v < query.vars.size(); ++v) {
    result.bound.push_back(result.vars[v].constant || bound[result.vars[v].id]);
    if (equated[v] && !result.bound[v])
      fail(what, fmt::format("variable {} is not bound", query.vars[v].name));
  }
  return result;
}

namespace {

/// `t = f(args); union(w, t)` where t is used nowhere else: the row is written straight into the
/// class of w.
std::vector<Action> write_into_class(const State& state, std::span<const Action> given) {
  std::vector<Action> actions(given.begin(), given.end());
  std::vector<bool> dropped(actions.size(), false);
  for (size_t i = 0; i < actions.size(); ++i) {
    const Action& term = actions[i];
    if (term.kind != Action::Kind::term || term.id >= state.ops.size() || !state.ops[term.id].constructor)
      continue;
    size_t uses = 0, user = 0, definitions = 0;
    for (size_t j = 0; j < actions.size(); ++j) {
      if (dropped[j]) continue;
      for (const Operand& arg : actions[j].args)
        if (arg == Operand::var(term.out)) {
          ++uses;
          user = j;
        }
      const Action::Kind kind = actions[j].kind;
      if ((kind == Action::Kind::let || kind == Action::Kind::term || kind == Action::Kind::primitive ||
           kind == Action::Kind::host) &&
          actions[j].out == term.out)
        ++definitions;
    }
    if (uses != 1 || definitions != 1 || user < i || actions[user].kind != Action::Kind::unite ||
        actions[user].args.size() != 2)
      continue;
    // A failing action in between would leave the term out.
    bool may_fail = false;
    for (size_t j = i + 1; j < user; ++j)
      may_fail |= actions[j].kind == Action::Kind::primitive || actions[j].kind == Action::Kind::host;
    if (may_fail) continue;
    const std::vector<Operand> united = actions[user].args;
    const Operand other = united[0] == Operand::var(term.out) ? united[1] : united[0];
    Action set = term;
    set.kind = Action::Kind::set;
    set.args.push_back(other);
    set.out = absent;
    actions[user] = std::move(set);
    dropped[i] = true;
  }
  std::vector<Action> result;
  for (size_t i = 0; i < actions.size(); ++i)
    if (!dropped[i]) result.push_back(std::move(actions[i]));
  return result;
}

} // namespace

CompiledActions compile_actions(const State& state, std::span<const Action> given,
                                const std::vector<bool>& bound, bool keep_all, const std::string& what) {
  CompiledActions result;
  result.source = write_into_class(state, given);
  const std::vector<Action>& actions = result.source;
  result.var_regs.assign(bound.size(), absent);
  std::vector<bool> used(bound.size(), keep_all);
  for (const Action& action : actions)
    for (const Operand& arg : action.args)
      if (arg.is_var() && arg.id < used.size()) used[arg.id] = true;
  for (VarId v = 0; v < bound.size(); ++v)
    if (bound[v] && used[v]) {
      result.var_regs[v] = result.regs++;
      result.match.push_back(v);
    }
  const auto arity = [&](const Action& action, size_t expected) {
    if (action.args.size() != expected)
      fail(what, fmt::format("an action takes {} arguments, not {}", expected, action.args.size()));
  };
  for (uint32_t at = 0; at < actions.size(); ++at) {
    const Action& action = actions[at];
    Instr instr{action.kind,
                action.on_fail,
                action.id,
                static_cast<uint32_t>(result.args.size()),
                static_cast<uint32_t>(action.args.size()),
                absent,
                at};
    bool defines = false;
    switch (action.kind) {
    case Action::Kind::let:
      arity(action, 1);
      defines = true;
      break;
    case Action::Kind::primitive:
      if (action.id >= state.prims.size()) fail(what, fmt::format("there is no primitive {}", action.id));
      defines = true;
      break;
    case Action::Kind::term:
    case Action::Kind::set:
    case Action::Kind::remove:
    case Action::Kind::subsume:
      if (action.id >= state.ops.size()) fail(what, fmt::format("there is no operator {}", action.id));
      arity(action, state.ops[action.id].args.size() + (action.kind == Action::Kind::set ? 1 : 0));
      defines = action.kind == Action::Kind::term;
      if (action.kind == Action::Kind::subsume && !state.ops[action.id].subsumable)
        fail(what, fmt::format("{} cannot be subsumed", state.ops[action.id].name));
      break;
    case Action::Kind::unite: arity(action, 2); break;
    case Action::Kind::panic: break;
    case Action::Kind::host:
      if (!action.host) fail(what, "a host action has no function");
      defines = action.out != absent;
      break;
    }
    for (const Operand& arg : action.args) {
      if (arg.is_var()) {
        if (arg.id >= result.var_regs.size() || result.var_regs[arg.id] == absent)
          fail(what, fmt::format("an action uses variable {} before it has a value", arg.id));
        result.args.push_back(result.var_regs[arg.id]);
      } else {
        if (arg.id == absent) fail(what, "a constant has no value");
        result.args.push_back(result.regs);
        result.constants.emplace_back(result.regs++, arg.id);
      }
    }
    if (defines) {
      if (action.out >= result.var_regs.size())
        fail(what, fmt::format("there is no variable {}", action.out));
      if (result.var_regs[action.out] != absent)
        fail(what, fmt::format("variable {} gets a value twice", action.out));
      result.var_regs[action.out] = instr.out = result.regs++;
    }
    result.instrs.push_back(instr);
  }
  return result;
}

} // namespace luminal::egraph
