// egraph/apply_rule.cpp -- the interpreter of actions.
#include "egraph/apply_rule.h"
#include <fmt/format.h>

namespace luminal::egraph {

Applier::Applier(EGraph& graph, std::span<const CompiledActions* const> rules)
    : graph_(graph), state_(graph.state()), deferred_(state_.ops.size(), false) {
  size_t most_regs = 0, most_args = 1;
  for (const CompiledActions* actions : rules) {
    most_regs = std::max<size_t>(most_regs, actions->regs);
    for (const Instr& instr : actions->instrs) {
      most_args = std::max<size_t>(most_args, instr.arg_count);
      if (instr.kind == Action::Kind::remove) deferred_[instr.id] = true;
      const bool function = instr.kind == Action::Kind::set && !state_.ops[instr.id].constructor &&
                            state_.sorts[state_.ops[instr.id].out].kind != SortKind::unit;
      if (function) deferred_[instr.id] = true;
    }
  }
  regs.resize(most_regs);
  key_.resize(most_args);
  first_row_.reserve(state_.tables.size());
  for (const Table& table : state_.tables) first_row_.push_back(table.rows());
}

bool Applier::fail(const CompiledActions& actions, const Instr& instr, const std::string& fallback) {
  if (instr.on_fail == OnFail::skip) {
    skip_rest_ = true;
    return true;
  }
  const std::string& message = actions.source[instr.action].message;
  state_.set_panic(message.empty() ? fallback : message);
  return false;
}

UnionCause Applier::cause(const CompiledActions& actions, RuleId rule) {
  if (rule == absent) return {};
  if (state_.record_substitutions && substitution_ == absent) {
    substitution_ = static_cast<uint32_t>(state_.substitutions.size());
    state_.substitutions.append({regs.data(), actions.match.size()});
  }
  return {UnionCause::Kind::rule, rule, substitution_, absent};
}

bool Applier::is_plain(const CompiledActions& actions) const {
  if (state_.record_substitutions) return false;
  for (const Instr& instr : actions.instrs) {
    const bool plain =
        instr.kind == Action::Kind::let || instr.kind == Action::Kind::unite ||
        (instr.kind == Action::Kind::term && state_.ops[instr.id].constructor) ||
        (instr.kind == Action::Kind::set && state_.ops[instr.id].constructor && !deferred_[instr.id]);
    if (!plain) return false;
  }
  return true;
}

bool Applier::apply_block(const CompiledActions& actions, RuleId rule, const Value* values, uint32_t count) {
  const size_t stride = actions.match.size();
  if (loaded_ != &actions) {
    loaded_ = &actions;
    plain_ = is_plain(actions);
    for (const auto& [reg, value] : actions.constants) regs[reg] = value;
    if (plain_) {
      block_regs_.resize(block * actions.regs);
      for (uint32_t lane = 0; lane < block; ++lane)
        std::copy_n(regs.begin(), actions.regs, block_regs_.begin() + lane * actions.regs);
      block_keys_.resize(block * key_.size());
    }
  }
  if (!plain_) {
    for (uint32_t i = 0; i < count; ++i)
      if (!apply(actions, rule, values + i * stride)) return false;
    return true;
  }
  for (uint32_t lane = 0; lane < count; ++lane)
    std::copy_n(values + lane * stride, stride, block_regs_.begin() + lane * actions.regs);
  uint32_t hashes[block];
  for (const Instr& instr : actions.instrs) {
    const uint32_t* args = actions.args.data() + instr.first_arg;
    if (instr.kind == Action::Kind::let || instr.kind == Action::Kind::unite) {
      for (uint32_t lane = 0; lane < count; ++lane) {
        Value* lane_regs = block_regs_.data() + lane * actions.regs;
        if (instr.kind == Action::Kind::let)
          lane_regs[instr.out] = lane_regs[args[0]];
        else if (lane_regs[args[0]] != lane_regs[args[1]])
          state_.unite(lane_regs[args[0]], lane_regs[args[1]], cause(actions, rule));
      }
      continue;
    }
    const Table& table = state_.tables[instr.id];
    const std::vector<uint8_t>& eq = table.eq_cols();
    for (uint32_t lane = 0; lane < count; ++lane) {
      const Value* lane_regs = block_regs_.data() + lane * actions.regs;
      Value* key = block_keys_.data() + lane * key_.size();
      for (uint32_t i = 0; i < instr.arg_count; ++i)
        key[i] = eq[i] != 0 ? state_.classes.find(lane_regs[args[i]]) : lane_regs[args[i]];
      hashes[lane] = table.hash(key);
      table.prefetch(hashes[lane]);
    }
    for (uint32_t lane = 0; lane < count; ++lane) table.prefetch_row(hashes[lane]);
    for (uint32_t lane = 0; lane < count; ++lane) {
      const Value* key = block_keys_.data() + lane * key_.size();
      if (instr.kind == Action::Kind::set) {
        insert(instr.id, key, key[instr.arg_count - 1], hashes[lane], actions, rule);
        continue;
      }
      const RowId found = table.find(key, hashes[lane]);
      ClassId made = absent;
      if (found == absent) {
        made = state_.classes.fresh();
        state_.append(instr.id, key, made, hashes[lane], rule);
      }
      block_regs_[lane * actions.regs + instr.out] = found == absent ? made : table.out(found);
    }
  }
  return !state_.panic;
}

/// The hot path of rewrites: the row joins the class, or unites it with the one it is in.
void Applier::insert(OpId op, const Value* key, Value out, uint32_t hash, const CompiledActions& actions,
                     RuleId rule) {
  const Table& table = state_.tables[op];
  const RowId found = table.find(key, hash);
  if (found == absent) {
    state_.append(op, key, out, hash, rule);
    return;
  }
  const Value old_out = table.out(found);
  if (old_out == out) return;
  if (state_.ops[op].constructor)
    state_.unite(old_out, out, cause(actions, rule));
  else
    state_.put(op, key, out, rule, cause(actions, rule));
}

bool Applier::apply(const CompiledActions& actions, RuleId rule, const Value* values) {
  if (loaded_ != &actions) {
    loaded_ = &actions;
    plain_ = false;
    for (const auto& [reg, value] : actions.constants) regs[reg] = value;
  }
  std::copy_n(values, actions.match.size(), regs.begin());
  substitution_ = absent;
  skip_rest_ = false;
  for (const Instr& instr : actions.instrs) {
    if (!step(actions, instr, rule)) return false;
    if (skip_rest_) break;
  }
  return !state_.panic;
}

/// Classes united earlier in this iteration count as one at once: fewer rows are made that the
/// rebuild has to join again.
inline void Applier::to_leaders(const Instr& instr) {
  const std::vector<uint8_t>& eq = state_.tables[instr.id].eq_cols();
  for (uint32_t i = 0; i < instr.arg_count; ++i)
    if (eq[i] != 0) key_[i] = state_.classes.find(key_[i]);
}

bool Applier::step(const CompiledActions& actions, const Instr& instr, RuleId rule) {
  const uint32_t* args = actions.args.data() + instr.first_arg;
  if (instr.arg_count > key_.size()) key_.resize(instr.arg_count);
  for (uint32_t i = 0; i < instr.arg_count; ++i) key_[i] = regs[args[i]];
  switch (instr.kind) {
  case Action::Kind::let: regs[instr.out] = key_[0]; return true;
  case Action::Kind::primitive: {
    Value out = 0;
    if (!state_.prims[instr.id].call({key_.data(), instr.arg_count}, out))
      return fail(actions, instr, fmt::format("call of primitive {} failed", state_.prims[instr.id].name));
    regs[instr.out] = out;
    return true;
  }
  case Action::Kind::term: {
    if (state_.ops[instr.id].constructor) {
      to_leaders(instr);
      regs[instr.out] = state_.build(instr.id, key_.data(), rule);
      return true;
    }
    const RowId found = state_.tables[instr.id].find(key_.data());
    if (found == absent)
      return fail(actions, instr, fmt::format("lookup of function {} failed", state_.ops[instr.id].name));
    regs[instr.out] = state_.tables[instr.id].out(found);
    return true;
  }
  case Action::Kind::set: {
    if (deferred_[instr.id]) {
      const uint32_t substitution = state_.record_substitutions ? cause(actions, rule).left : absent;
      staged_.push_back({instr.id, false, false, rule, substitution, staged_values_.size()});
      staged_values_.append({key_.data(), instr.arg_count});
      return true;
    }
    if (state_.ops[instr.id].constructor) to_leaders(instr);
    insert(instr.id, key_.data(), key_[instr.arg_count - 1], state_.tables[instr.id].hash(key_.data()),
           actions, rule);
    return !state_.panic;
  }
  case Action::Kind::unite:
    if (key_[0] != key_[1]) state_.unite(key_[0], key_[1], cause(actions, rule));
    return true;
  case Action::Kind::remove:
    staged_.push_back({instr.id, true, false, rule, absent, staged_values_.size()});
    staged_values_.append({key_.data(), instr.arg_count});
    return true;
  case Action::Kind::subsume:
    if (deferred_[instr.id] && state_.tables[instr.id].find(key_.data()) != absent) {
      staged_.push_back({instr.id, false, true, rule, absent, staged_values_.size()});
      staged_values_.append({key_.data(), instr.arg_count});
      staged_values_.push_back(state_.tables[instr.id].out(state_.tables[instr.id].find(key_.data())));
      return true;
    }
    if (!state_.subsume(instr.id, key_.data(), rule))
      return fail(actions, instr,
                  fmt::format("subsumed a row of {} that is not there", state_.ops[instr.id].name));
    return true;
  case Action::Kind::panic: state_.set_panic(actions.source[instr.action].message); return false;
  case Action::Kind::host: {
    Value out = 0;
    const std::vector<Value> given(key_.begin(), key_.begin() + instr.arg_count); // the host may build terms
    if (!actions.source[instr.action].host(graph_, given, out))
      return fail(actions, instr, "a host action failed");
    if (instr.out != absent) regs[instr.out] = out;
    return true;
  }
  }
  return true;
}

void Applier::finish() {
  for (const Staged& staged : staged_) {
    if (!staged.remove) continue;
    const Value* key = staged_values_.data() + staged.at;
    const RowId found = state_.tables[staged.op].find(key);
    if (found != absent && found < first_row_[staged.op]) state_.kill(staged.op, found);
  }
  for (const Staged& staged : staged_) {
    if (staged.remove) continue;
    const Value* key = staged_values_.data() + staged.at;
    const uint32_t keys = state_.tables[staged.op].keys();
    const UnionCause why = staged.rule == absent
                               ? UnionCause{}
                               : UnionCause{UnionCause::Kind::rule, staged.rule, staged.substitution, absent};
    state_.put(staged.op, key, key[keys], staged.rule, why, staged.subsume);
  }
  staged_.clear();
  staged_values_.clear();
}

} // namespace luminal::egraph
