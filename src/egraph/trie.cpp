// egraph/trie.cpp -- rules become entries of a trie; plans are made when a rule can match for the
// first time, and again when tables grew.
#include "egraph/trie.h"

namespace luminal::egraph {

PlanCache::PlanCache() = default;
PlanCache::~PlanCache() = default;
PlanCache::PlanCache(const PlanCache&) {}
PlanCache& PlanCache::operator=(const PlanCache&) {
  tries.clear();
  return *this;
}

Trie::Trie(State& state, std::vector<RulesetId> of, uint32_t most_vars)
    : rulesets(std::move(of)), globals_at(most_vars), state_(state) {
  once.id = node_count++;
}

uint32_t Trie::constant(const Slot& slot) {
  const auto [at, fresh] = constants_.try_emplace({slot.id, slot.eq}, static_cast<uint32_t>(globals.size()));
  if (fresh) {
    TrieGlobal global;
    global.eq = slot.eq;
    global.id = global.value = slot.id;
    if (slot.eq) {
      global.value = state_.classes.find(slot.id);
      class_constants_.push_back(at->second);
    }
    globals.push_back(std::move(global));
  }
  return at->second;
}

void Trie::add(RuleId rule, std::shared_ptr<const CompiledRule> compiled) {
  RuleEntry entry;
  entry.rule = rule;
  entry.compiled = std::move(compiled);
  const CompiledQuery& query = entry.compiled->query;
  entry.thread_safe = query.thread_safe;
  entry.var_regs.assign(query.vars.size(), absent);
  std::vector<bool> ground(query.atoms.size(), false);
  for (const CompiledAtom& atom : query.atoms)
    if (std::find(entry.needs.begin(), entry.needs.end(), atom.op) == entry.needs.end())
      entry.needs.push_back(atom.op);
  const auto known = [&](const Slot& slot) { return slot.constant || entry.var_regs[slot.id] != absent; };
  for (bool more = true; more;) {
    more = false;
    for (uint32_t i = 0; i < query.atoms.size(); ++i) {
      const CompiledAtom& atom = query.atoms[i];
      if (ground[i] || !std::all_of(atom.cols.begin(), atom.cols.end() - 1, known)) continue;
      ground[i] = more = true;
      std::vector<uint32_t> key{atom.op, query.include_subsumed ? 1u : 0u};
      for (size_t col = 0; col + 1 < atom.cols.size(); ++col) key.push_back(reg_of(entry, atom.cols[col]));
      const auto [at, fresh] = ground_terms_.try_emplace(key, static_cast<uint32_t>(globals.size()));
      if (fresh) {
        TrieGlobal global;
        global.lookup = true;
        global.include_subsumed = query.include_subsumed;
        global.id = atom.op;
        global.args.assign(key.begin() + 2, key.end());
        globals.push_back(std::move(global));
      }
      entry.grounds.push_back(at->second);
      if (known(atom.cols.back()))
        entry.ground_equal.emplace_back(reg_of(entry, atom.cols.back()), global_reg(at->second));
      else
        entry.var_regs[atom.cols.back().id] = global_reg(at->second);
    }
  }
  for (uint32_t i = 0; i < query.atoms.size(); ++i)
    if (!ground[i]) entry.open.push_back(i);
  entry.delta_plans.resize(entry.open.size());
  entries.push_back(std::move(entry));
}

bool Trie::resolve(uint32_t index) {
  TrieGlobal& global = globals[index];
  if (global.stamp == stamp) return global.present;
  global.stamp = stamp;
  global.present = false;
  if (!global.lookup) {
    global.value = global.eq ? state_.classes.find(global.id) : global.id;
    return global.present = true;
  }
  Value key[64];
  std::vector<Value> long_key;
  Value* values = key;
  if (global.args.size() > 64) {
    long_key.resize(global.args.size());
    values = long_key.data();
  }
  for (size_t i = 0; i < global.args.size(); ++i) {
    const uint32_t arg = global.args[i] - globals_at;
    if (!resolve(arg)) return false;
    values[i] = globals[arg].value;
  }
  const Table& table = state_.tables[global.id];
  const RowId row = table.find(values);
  if (row == absent || (!global.include_subsumed && table.is_subsumed(row))) return false;
  global.row = row;
  global.value = table.out(row);
  return global.present = true;
}

TrieNode* Trie::child(TrieNode* node, TrieNode::Step step, RowTest test) {
  for (const std::unique_ptr<TrieNode>& other : node->children)
    if (other->step == step && other->test == test) return other.get();
  auto made = std::make_unique<TrieNode>();
  made->step = std::move(step);
  made->test = std::move(test);
  made->id = node_count++;
  made->parent = node;
  node->children.push_back(std::move(made));
  return node->children.back().get();
}

void Trie::prepare(Plan& plan, RuleEntry& entry, uint32_t entry_index, uint32_t root_open, bool full) {
  const CompiledQuery& query = entry.compiled->query;
  uint64_t rows = 0;
  const bool again = plan.leaf != nullptr;
  const uint32_t nodes_before = node_count;
  if (again) {
    for (const OpId op : plan.ops) rows += state_.tables[op].live();
    if (rows <= 4 * plan.planned_for + 256) return;
    for (TrieNode* node = plan.leaf; node != nullptr; node = node->parent) --node->users;
    plan.leaf->emits[plan.emit].stamp = 0; // the old path stays, unused
  }
  plan = {};
  for (const uint32_t atom : entry.open) plan.ops.push_back(query.atoms[atom].op);
  for (const OpId op : plan.ops) plan.planned_for += state_.tables[op].live();

  std::vector<Value> ground(query.vars.size(), absent);
  for (size_t v = 0; v < ground.size(); ++v)
    if (entry.var_regs[v] != absent) ground[v] = globals[entry.var_regs[v] - globals_at].value;
  const std::vector<PlannedStep> steps =
      make_plan(state_, query, entry.open, ground, full ? absent : entry.open[root_open]);

  std::vector<Reg> regs = entry.var_regs;
  Reg next = 0;
  const auto reg = [&](const Slot& slot) {
    return slot.constant ? global_reg(constant(slot)) : regs[slot.id];
  };
  const auto key_count = [](const CompiledAtom& atom) { return static_cast<uint32_t>(atom.cols.size()) - 1; };
  // Atoms before the root read old rows only, those behind it all rows: no match is found twice.
  const auto old_only = [&](uint32_t atom) { return !full && atom < entry.open[root_open]; };
  const auto key_regs = [&](const CompiledAtom& atom) {
    std::vector<Reg> args;
    for (uint32_t col = 0; col < key_count(atom); ++col) args.push_back(reg(atom.cols[col]));
    return args;
  };
  const auto run_of = [&](const CompiledAtom& atom, uint32_t col) {
    Run run{.col = col, .key = reg(atom.cols[col])};
    state_.tables[atom.op].index(col).wanted = true;
    if (state_.tables[atom.op].eq_cols()[col] != 0)
      run.signature = col == key_count(atom) ? Classes::down_bit(atom.op) : Classes::up_bit(atom.op, col);
    return run;
  };
  const auto side = [&](uint32_t atom_index, uint32_t col, VarId shared) {
    const CompiledAtom& atom = query.atoms[atom_index];
    Side made{.op = atom.op, .old_only = old_only(atom_index), .run = run_of(atom, col)};
    while (atom.cols[made.shared_col].constant || atom.cols[made.shared_col].id != shared) ++made.shared_col;
    const auto known = [&](const Slot& slot) { return slot.constant || regs[slot.id] != absent; };
    if (std::all_of(atom.cols.begin(), atom.cols.end() - 1, known))
      made.args = key_regs(atom);
    else
      run_of(atom, made.shared_col); // its index is wanted, too
    return made;
  };
  const auto bind_or_check = [&](const CompiledAtom& atom, uint32_t first_col, uint32_t skipped_col) {
    RowTest test{.include_subsumed = query.include_subsumed};
    std::vector<std::pair<uint32_t, uint32_t>> first_at; // variable, column where this atom binds it
    for (uint32_t col = first_col; col < atom.cols.size(); ++col) {
      if (col == skipped_col) continue;
      const Slot& slot = atom.cols[col];
      if (!slot.constant) {
        const auto known =
            std::find_if(first_at.begin(), first_at.end(), [&](const auto& p) { return p.first == slot.id; });
        if (known != first_at.end()) {
          test.same.emplace_back(known->second, col);
          continue;
        }
        if (regs[slot.id] == absent) {
          first_at.emplace_back(slot.id, col);
          regs[slot.id] = next++;
          test.binds.push_back({col, regs[slot.id]});
          continue;
        }
      }
      test.checks.push_back({col, reg(slot)});
    }
    return test;
  };
  TrieNode* node = &once;
  for (size_t at = 0; at < steps.size(); ++at) {
    const PlannedStep& planned = steps[at];
    if (planned.kind == PlannedStep::Kind::prim) {
      const CompiledPrim& prim = query.prims[planned.atom];
      CallPrim step{.prim = prim.prim, .out_bound = prim.out.constant || regs[prim.out.id] != absent};
      for (const Slot& arg : prim.args) step.args.push_back(reg(arg));
      if (!step.out_bound) regs[prim.out.id] = next++;
      step.out = reg(prim.out);
      node = child(node, std::move(step));
      continue;
    }
    const CompiledAtom& atom = query.atoms[planned.atom];
    const bool old = old_only(planned.atom);
    switch (planned.kind) {
    case PlannedStep::Kind::lookup: {
      Lookup step{.op = atom.op, .old_only = old, .args = key_regs(atom)};
      node = child(node, std::move(step), bind_or_check(atom, key_count(atom), absent));
      break;
    }
    case PlannedStep::Kind::index: {
      WalkIndex step{.op = atom.op, .old_only = old, .run = run_of(atom, planned.col)};
      if (planned.other_col != absent) step.other = run_of(atom, planned.other_col);
      const uint32_t skipped = step.other ? absent : planned.col;
      node = child(node, std::move(step), bind_or_check(atom, 0, skipped));
      break;
    }
    case PlannedStep::Kind::meet: {
      const CompiledAtom& partner = query.atoms[planned.partner];
      Meet step{.shared = next++};
      regs[planned.shared] = step.shared;
      step.sides[0] = side(planned.atom, planned.col, planned.shared);
      step.sides[1] = side(planned.partner, planned.partner_col, planned.shared);
      node = child(node, std::move(step), bind_or_check(atom, 0, absent));
      node = child(node, Partner{}, bind_or_check(partner, 0, absent));
      break;
    }
    default: // a scan
      if (at != 0) {
        node = child(node, Scan{.op = atom.op, .old_only = old}, bind_or_check(atom, 0, absent));
        break;
      }
      // The root binds nothing itself: one scan serves all rules, whatever they compare.
      TrieNode& root = (full ? full_roots : delta_roots)[atom.op];
      if (!std::holds_alternative<Scan>(root.step)) {
        root.step = Scan{.op = atom.op};
        root.id = node_count++;
      }
      node = child(&root, Filter{}, bind_or_check(atom, 0, absent));
    }
  }
  TrieNode::Emit emit;
  emit.entry = entry_index;
  for (const VarId var : entry.compiled->actions.match) emit.regs.push_back(reg(query.vars[var]));
  plan.leaf = node;
  plan.emit = static_cast<uint32_t>(node->emits.size());
  node->emits.push_back(std::move(emit));
  for (; node != nullptr; node = node->parent) ++node->users;
  if (!again) used_nodes += node_count - nodes_before;
}

void Trie::stamp_path(Plan& plan) {
  plan.leaf->emits[plan.emit].stamp = stamp;
  for (TrieNode* node = plan.leaf; node != nullptr && node->stamp != stamp; node = node->parent)
    node->stamp = stamp;
}

bool Trie::activate(uint32_t index, uint32_t watermark, bool full) {
  RuleEntry& entry = entries[index];
  const CompiledQuery& query = entry.compiled->query;
  if (query.impossible) return false;
  if (!entry.needs.empty()) {
    if (state_.tables[entry.needs[entry.blocked_by]].live() == 0) return false;
    for (size_t i = 0; i < entry.needs.size(); ++i)
      if (state_.tables[entry.needs[i]].live() == 0) {
        entry.blocked_by = i;
        return false;
      }
  }
  bool ground_is_new = full;
  if (!full) {
    bool any_delta = !entry.grounds.empty();
    for (const uint32_t atom : entry.open) {
      const Table& table = state_.tables[query.atoms[atom].op];
      any_delta |= table.first_row(watermark) < table.rows();
    }
    if (!any_delta) return false;
  }
  for (const uint32_t global : entry.grounds) {
    if (!resolve(global)) return false;
    ground_is_new |= globals[global].row >= state_.tables[globals[global].id].first_row(watermark);
  }
  for (const auto& [a, b] : entry.ground_equal) {
    resolve(a - globals_at);
    resolve(b - globals_at);
    if (globals[a - globals_at].value != globals[b - globals_at].value) return false;
  }
  if (ground_is_new) {
    prepare(entry.full_plan, entry, index, 0, true);
    stamp_path(entry.full_plan);
    return true;
  }
  bool any = false;
  for (uint32_t i = 0; i < entry.open.size(); ++i) {
    const Table& table = state_.tables[query.atoms[entry.open[i]].op];
    const RowId middle = table.first_row(watermark);
    // Atoms before this root read old rows; where one has none, neither this root nor a later one
    // can match.
    if (middle < table.rows()) {
      prepare(entry.delta_plans[i], entry, index, i, false);
      stamp_path(entry.delta_plans[i]);
      any = true;
    }
    if (middle == 0) break;
  }
  return any;
}

} // namespace luminal::egraph
