// egraph/naive.h -- a reference engine that can be read at a glance: rows in maps, matching by
// nested loops over everything. It defines the meaning that the real engine is compared with.
#pragma once
#include "egraph/egraph.h"
#include <algorithm>
#include <map>
#include <set>

namespace luminal::egraph::naive {

struct Row {
  Value out = 0;
  bool subsumed = false;
  uint64_t time = 0; ///< iteration that made or changed it
};

/// Takes the schema and the rules of an e-graph, and its rows: run() then does what EGraph::run()
/// should do. Merges: unite, lattice, keep_old. No containers, no host actions.
class Engine {
public:
  explicit Engine(EGraph& graph)
      : graph_(&graph), tables_(graph.op_count()), watermarks_(graph.rule_count(), 0) {
    for (ClassId id = 0; id < graph.class_count(); ++id) parents_.push_back(graph.find(id));
    for (OpId op = 0; op < graph.op_count(); ++op)
      graph.for_each_row(op, [&](const RowView& row) {
        tables_[op][{row.args().begin(), row.args().end()}] = {row.out(), row.subsumed, 1};
        return true;
      });
  }

  struct Dump {
    OpId op;
    std::vector<Value> cells;
    bool subsumed;
  };
  std::vector<Dump> rows() const {
    std::vector<Dump> result;
    for (OpId op = 0; op < tables_.size(); ++op)
      for (const auto& [key, row] : tables_[op]) {
        result.push_back({op, key, row.subsumed});
        result.back().cells.push_back(row.out);
      }
    return result;
  }
  size_t size() const { return rows().size(); }
  size_t matches() const { return matches_; } ///< of the last iteration

  /// One iteration of a ruleset; true where the actions changed something.
  bool run(RulesetId ruleset) {
    std::vector<std::pair<const Rule*, std::vector<Value>>> matches;
    for (const RuleId id : graph_->ruleset(ruleset)) {
      const Rule& rule = graph_->rule(id);
      std::vector<Value> values(rule.query.vars.size(), absent);
      if (!rule.query.equalities.empty()) throw Error("the naive engine takes no equalities");
      match(rule, 0, values, rule.naive || watermarks_[id] == 0, watermarks_[id], matches);
    }
    matches_ = matches.size();
    ++time_;
    for (const RuleId id : graph_->ruleset(ruleset)) watermarks_[id] = time_;
    changed_ = false;
    std::vector<std::pair<OpId, std::vector<Value>>> removed, inserted;
    for (auto& [rule, values] : matches) apply(*rule, values, removed, inserted);
    for (const auto& [op, key] : removed)
      if (const auto found = tables_[op].find(key); found != tables_[op].end() && found->second.time < time_)
        tables_[op].erase(found);
    for (auto& [op, cells] : inserted) {
      const Value out = cells.back();
      cells.pop_back();
      put(op, cells, out, false);
    }
    const bool changed = changed_;
    rebuild();
    return changed;
  }

private:
  Value find(Value id) const {
    while (parents_[id] != id) id = parents_[id];
    return id;
  }
  bool is_eq(SortId sort) const { return graph_->sort(sort).kind == SortKind::eq; }

  static bool bind(const Operand& operand, Value value, std::vector<Value>& values) {
    if (!operand.is_var()) return operand.id == value;
    if (values[operand.id] == absent) values[operand.id] = value;
    return values[operand.id] == value;
  }
  void match(const Rule& rule, size_t atom, const std::vector<Value>& values, bool is_new, uint64_t watermark,
             std::vector<std::pair<const Rule*, std::vector<Value>>>& matches) {
    if (atom == rule.query.atoms.size()) {
      std::vector<Value> all = values;
      for (const PrimAtom& prim : rule.query.prims) { // in an order in which arguments are bound
        std::vector<Value> args;
        for (const Operand& arg : prim.args) args.push_back(arg.is_var() ? all[arg.id] : arg.id);
        Value out = 0;
        if (!graph_->primitive(prim.prim).call(args, out) || !bind(prim.out, out, all)) return;
      }
      if (is_new) matches.emplace_back(&rule, all);
      return;
    }
    const Atom& a = rule.query.atoms[atom];
    for (const auto& [key, row] : tables_[a.op]) {
      if (row.subsumed && !rule.query.include_subsumed) continue;
      std::vector<Value> next = values;
      bool fits = true;
      for (size_t i = 0; i < key.size() && fits; ++i) fits = bind(a.args[i], key[i], next);
      if (fits && bind(a.out, row.out, next))
        match(rule, atom + 1, next, is_new || row.time >= watermark, watermark, matches);
    }
  }

  void unite(Value a, Value b) {
    a = find(a);
    b = find(b);
    if (a == b) return;
    parents_[std::max(a, b)] = std::min(a, b);
    changed_ = true;
  }
  void put(OpId op, const std::vector<Value>& key, Value out, bool subsumed) {
    const auto [at, fresh] = tables_[op].try_emplace(key, Row{out, subsumed, time_});
    if (fresh) {
      changed_ = true;
      return;
    }
    Row& row = at->second;
    Value merged = row.out;
    const OpSpec& spec = graph_->op(op);
    if (spec.merge == MergeKind::unite)
      unite(row.out, out);
    else if (spec.merge == MergeKind::lattice)
      merged = spec.join(row.out, out);
    else if (spec.merge == MergeKind::keep_new)
      merged = out;
    if (merged != row.out || (subsumed && !row.subsumed)) {
      row = {merged, row.subsumed || subsumed, time_};
      changed_ = true;
    }
  }
  Value build(OpId op, const std::vector<Value>& key) {
    const auto found = tables_[op].find(key);
    if (found != tables_[op].end()) return found->second.out;
    parents_.push_back(static_cast<Value>(parents_.size()));
    put(op, key, parents_.back(), false);
    return parents_.back();
  }

  void apply(const Rule& rule, std::vector<Value>& values,
             std::vector<std::pair<OpId, std::vector<Value>>>& removed,
             std::vector<std::pair<OpId, std::vector<Value>>>& inserted) {
    for (const Action& action : rule.actions) {
      std::vector<Value> args;
      for (const Operand& arg : action.args) args.push_back(arg.is_var() ? values[arg.id] : arg.id);
      switch (action.kind) {
      case Action::Kind::let: values[action.out] = args[0]; break;
      case Action::Kind::term: values[action.out] = build(action.id, args); break;
      case Action::Kind::set: inserted.emplace_back(action.id, args); break;
      case Action::Kind::unite: unite(args[0], args[1]); break;
      case Action::Kind::remove: removed.emplace_back(action.id, args); break;
      case Action::Kind::subsume:
        build(action.id, args);
        put(action.id, args, tables_[action.id][args].out, true);
        break;
      default: throw Error("the naive engine does not know this action");
      }
    }
  }

  void rebuild() {
    for (bool more = true; more;) {
      more = false;
      for (OpId op = 0; op < tables_.size(); ++op) {
        const OpSpec& spec = graph_->op(op);
        const auto canonical = [&](size_t col, Value value) {
          return is_eq(col < spec.args.size() ? spec.args[col] : spec.out) ? find(value) : value;
        };
        const std::map<std::vector<Value>, Row> old = tables_[op];
        for (const auto& [key, row] : old) {
          std::vector<Value> leaders;
          for (size_t col = 0; col < key.size(); ++col) leaders.push_back(canonical(col, key[col]));
          const Value out = canonical(key.size(), row.out);
          if (leaders == key && out == row.out) continue;
          more = true;
          tables_[op].erase(key);
          put(op, leaders, out, row.subsumed);
        }
      }
    }
  }

  EGraph* graph_;
  std::vector<std::map<std::vector<Value>, Row>> tables_;
  std::vector<Value> parents_;
  std::vector<uint64_t> watermarks_;
  uint64_t time_ = 1;
  size_t matches_ = 0;
  bool changed_ = false;
};

/// The rows of an e-graph up to the names of classes: colours of classes refined a few times, then
/// the rows in colours, sorted.
inline std::vector<std::vector<uint64_t>> shape(const EGraph& graph, const std::vector<Engine::Dump>& rows) {
  std::map<Value, uint64_t> colour;
  const auto is_eq = [&](OpId op, size_t col) {
    const OpSpec& spec = graph.op(op);
    return graph.sort(col < spec.args.size() ? spec.args[col] : spec.out).kind == SortKind::eq;
  };
  const auto coloured = [&](const Engine::Dump& row, bool with_out) {
    std::vector<uint64_t> result{row.op, row.subsumed ? 1u : 0u};
    for (size_t col = 0; col < row.cells.size() - (with_out ? 0 : 1); ++col)
      result.push_back(is_eq(row.op, col) ? colour[row.cells[col]] : row.cells[col] + 1);
    return result;
  };
  const auto mix = [](const std::vector<uint64_t>& words) {
    uint64_t hash = 17;
    for (const uint64_t word : words) {
      hash = (hash ^ word) * 0x9E3779B97F4A7C15u;
      hash ^= hash >> 29;
    }
    return hash;
  };
  for (int round = 0; round < 4; ++round) {
    std::map<Value, std::multiset<uint64_t>> parts;
    for (const Engine::Dump& row : rows) {
      const uint64_t hash = mix(coloured(row, false));
      for (size_t col = 0; col < row.cells.size(); ++col)
        if (is_eq(row.op, col))
          parts[row.cells[col]].insert(hash * 31 + (col + 1 == row.cells.size() ? 0 : col + 1));
    }
    std::map<Value, uint64_t> next;
    for (const auto& [id, hashes] : parts) next[id] = mix({hashes.begin(), hashes.end()});
    colour = next;
  }
  std::vector<std::vector<uint64_t>> result;
  for (const Engine::Dump& row : rows) result.push_back(coloured(row, true));
  std::sort(result.begin(), result.end());
  return result;
}

inline std::vector<Engine::Dump> rows_of(EGraph& graph) {
  std::vector<Engine::Dump> result;
  for (OpId op = 0; op < graph.op_count(); ++op)
    graph.for_each_row(op, [&](const RowView& row) {
      result.push_back({op, {row.cells.begin(), row.cells.end()}, row.subsumed});
      return true;
    });
  return result;
}

} // namespace luminal::egraph::naive
