// egraph/store_rows.cpp -- rows in and out: set, merge, delete, subsume.
#include "egraph/state.h"
#include <fmt/format.h>

namespace luminal::egraph {

Value State::merge(OpId op, Value old_value, Value new_value, RuleId creator, const UnionCause& cause) {
  const OpSpec& spec = ops[op];
  switch (spec.merge) {
  case MergeKind::assert_equal:
    if (old_value != new_value) set_panic(fmt::format("Illegal merge attempted for function {}", spec.name));
    return old_value;
  case MergeKind::unite:
    if (old_value != new_value) unite(old_value, new_value, cause);
    return old_value;
  case MergeKind::keep_old: return old_value;
  case MergeKind::keep_new: return new_value;
  case MergeKind::lattice: return old_value == new_value ? old_value : spec.join(old_value, new_value);
  case MergeKind::program: break;
  }
  const std::vector<MergeNode>& program = spec.merge_program;
  if (program.back().kind == MergeNode::Kind::op && old_value == new_value) return old_value;
  std::vector<Value> results(program.size()), args;
  for (size_t i = 0; i < program.size(); ++i) {
    const MergeNode& node = program[i];
    args.clear();
    for (const uint32_t arg : node.args) args.push_back(results[arg]);
    switch (node.kind) {
    case MergeNode::Kind::old_value: results[i] = old_value; break;
    case MergeNode::Kind::new_value: results[i] = new_value; break;
    case MergeNode::Kind::constant: results[i] = node.id; break;
    case MergeNode::Kind::primitive:
      if (!prims[node.id].call(args, results[i])) {
        set_panic(fmt::format("Merge function for {} primitive call failed", spec.name));
        return old_value;
      }
      break;
    case MergeNode::Kind::op:
      if (ops[node.id].constructor) {
        results[i] = build(node.id, args.data(), creator);
      } else {
        const Table& table = tables[node.id];
        const RowId found = table.find(args.data());
        if (found == absent) {
          set_panic(
              fmt::format("Lookup on {} failed in the merge function for {}", ops[node.id].name, spec.name));
          return old_value;
        }
        results[i] = table.out(found);
      }
      break;
    }
  }
  return results.back();
}

void State::put(OpId op, const Value* key, Value out, RuleId creator, const UnionCause& cause,
                bool subsumed) {
  const uint32_t hash = tables[op].hash(key);
  RowId found = tables[op].find(key, hash);
  if (found == absent) {
    const RowId row = append(op, key, out, hash, creator);
    if (subsumed) tables[op].mark_subsumed(row);
    return;
  }
  const Value old_value = tables[op].out(found);
  const Value merged = merge(op, old_value, out, creator, cause);
  const bool was_subsumed = tables[op].is_subsumed(found);
  if (merged == old_value && (was_subsumed || !subsumed)) return;
  found = tables[op].find(key, hash); // a merge program may have appended to this very table
  const RuleId maker =
      merged == old_value ? tables[op].creator(found) : creator; // hiding a row is not making it
  kill(op, found);
  const RowId row = append(op, key, merged, hash, maker);
  if (was_subsumed || subsumed) tables[op].mark_subsumed(row);
}

bool State::remove(OpId op, const Value* key) {
  const RowId found = tables[op].find(key);
  if (found == absent) return false;
  kill(op, found);
  return true;
}

bool State::subsume(OpId op, const Value* key, RuleId creator) {
  const uint32_t hash = tables[op].hash(key);
  const RowId found = tables[op].find(key, hash);
  if (found == absent) {
    const bool unit = sorts[ops[op].out].kind == SortKind::unit;
    if (!ops[op].constructor && !unit) return false;
    tables[op].mark_subsumed(append(op, key, unit ? 0 : classes.fresh(), hash, creator));
    return true;
  }
  if (tables[op].is_subsumed(found)) return true;
  const Value out = tables[op].out(found);
  const RuleId maker = tables[op].creator(found);
  kill(op, found);
  tables[op].mark_subsumed(append(op, key, out, hash, maker));
  return true;
}

Value State::canonical(SortId sort, Value value) {
  const SortSpec& spec = sorts[sort];
  if (spec.kind == SortKind::eq) return classes.find(value);
  if (spec.kind == SortKind::container && spec.rebuild) return spec.rebuild(value, Finder(classes));
  return value;
}

uint64_t State::rows() const {
  uint64_t total = 0;
  for (const Table& table : tables) total += table.rows();
  return total;
}

} // namespace luminal::egraph
