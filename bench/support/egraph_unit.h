// support/egraph_unit.h -- the unit of time of the e-graph benchmarks: a plain semi-naive engine on
// the math theory, 11 iterations.
//
// Row-major tables, hash-cons with 8-byte slots, a chained hash index on every column that a join
// uses, no limits, no reports. It is frozen: what it takes on a machine is what other times are
// divided by.
#pragma once
#include "egraph/math_theory.h"
#include <cstdint>
#include <cstring>
#include <string>
#include <unordered_map>
#include <vector>

namespace luminal::bench::unit {

namespace math_theory = luminal::egraph::math_theory;

using Id = uint32_t;
inline constexpr Id none = ~0u;
inline uint64_t mix(uint64_t x) {
  x ^= x >> 32;
  x *= 0x9E3779B97F4A7C15ull;
  return x ^ (x >> 29);
}

/// Class id -> newest row of its chain.
struct Heads {
  std::vector<uint64_t> slots;
  Id count = 0, mask = 0;
  size_t slot(Id key) const {
    size_t i = static_cast<size_t>(mix(key) >> 20) & mask;
    while (slots[i] != ~0ull && static_cast<Id>(slots[i] >> 32) != key) i = (i + 1) & mask;
    return i;
  }
  Id get(Id key) const {
    return slots.empty() || slots[slot(key)] == ~0ull ? none : static_cast<Id>(slots[slot(key)]);
  }
  Id exchange(Id key, Id row) {
    if ((count + 1) * 4 > slots.size() * 3) {
      std::vector<uint64_t> old(slots.empty() ? 16 : slots.size() * 2, ~0ull);
      old.swap(slots);
      mask = static_cast<Id>(slots.size() - 1);
      for (const uint64_t s : old)
        if (s != ~0ull) slots[slot(static_cast<Id>(s >> 32))] = s;
    }
    const size_t i = slot(key);
    const Id before = slots[i] == ~0ull ? none : static_cast<Id>(slots[i]);
    if (slots[i] == ~0ull) ++count;
    slots[i] = static_cast<uint64_t>(key) << 32 | row;
    return before;
  }
};

struct Table {
  int arity = 0;
  bool literal = false;
  std::vector<Id> cells;
  Id rows = 0, live = 0, first_new = 0, end = 0;
  std::vector<uint64_t> slots;
  Id used = 0, mask = 0;
  bool indexed[4] = {};
  Heads heads[4];
  std::vector<Id> next[4];

  Id* row(Id r) { return &cells[static_cast<size_t>(r) * static_cast<size_t>(arity + 1)]; }
  uint64_t hash(const Id* key) const {
    uint64_t h = static_cast<uint64_t>(arity);
    for (int i = 0; i < arity; ++i) h = mix(h * 0x100000001b3ull ^ key[i]);
    return mix(h);
  }
  Id find(const Id* key, uint64_t h) {
    if (slots.empty()) return none;
    for (size_t i = h & mask; slots[i] != ~0ull; i = (i + 1) & mask)
      if (slots[i] >> 32 == h >> 32 && static_cast<Id>(slots[i]) != none &&
          std::memcmp(row(static_cast<Id>(slots[i])), key, static_cast<size_t>(arity) * 4) == 0)
        return static_cast<Id>(slots[i]);
    return none;
  }
  void insert(uint64_t h, Id r) {
    if ((used + 1) * 4 > slots.size() * 3) {
      std::vector<uint64_t> old(slots.empty() ? 64 : slots.size() * 2, ~0ull);
      old.swap(slots);
      mask = static_cast<Id>(slots.size() - 1);
      used = 0;
      for (const uint64_t s : old)
        if (s != ~0ull && static_cast<Id>(s) != none) {
          size_t i = hash(row(static_cast<Id>(s))) & mask;
          while (slots[i] != ~0ull) i = (i + 1) & mask;
          slots[i] = s;
          ++used;
        }
    }
    size_t i = h & mask;
    while (slots[i] != ~0ull) i = (i + 1) & mask;
    slots[i] = (h >> 32) << 32 | r;
    ++used;
  }
  void erase(const Id* key, Id r) {
    size_t i = hash(key) & mask;
    while (static_cast<Id>(slots[i]) != r) i = (i + 1) & mask;
    slots[i] |= none;
    if (slots[i] == ~0ull) slots[i] = 0xfffffffeull << 32 | none;
  }
};

class Engine {
public:
  Engine();
  void run(int iterations) {
    for (int i = 0; i < iterations; ++i) iterate();
  }
  uint64_t live() const {
    uint64_t total = 0;
    for (const Table& table : tables_) total += table.live;
    return total;
  }

private:
  struct Sexp {
    std::string atom;
    std::vector<Sexp> list;
  };
  struct Atom {
    size_t op = 0;
    int vars[4] = {};
  };
  struct Step {
    enum Kind { scan, join, look } kind = scan;
    size_t op = 0;
    int col = 0;
    int vars[4] = {};
    bool bound[4] = {};
    bool old_only = false;
  };
  struct Act {
    size_t op = 0;
    int args[3] = {}; ///< variable, or -1 - literal
    int result = 0;
    bool to_root = false;
  };
  struct Literal {
    int var;
    size_t op;
    Id value;
  };
  struct Rule {
    std::vector<Atom> atoms;
    std::vector<Literal> literals;
    std::vector<Act> acts;
    std::vector<std::vector<Step>> plans;
    int vars = 0, root = -1, unite = -1;
  };
  using Names = std::unordered_map<std::string, int>;

  static Sexp read(const char*& at);
  static Sexp parse(const char* text) { return read(text); }
  static bool number(const std::string& text) {
    return isdigit(static_cast<unsigned char>(text[0])) != 0 || (text[0] == '-' && text.size() > 1);
  }
  size_t leaf_op(const std::string& text) const { return ops_.at(number(text) ? "Const" : "Var"); }
  Id literal(const std::string& text) {
    return literals_.emplace(text, static_cast<Id>(literals_.size())).first->second;
  }
  Id add_term(const Sexp& s);
  int pattern(Rule& rule, const Sexp& s, Names& names);
  int build(Rule& rule, const Sexp& s, Names& names, bool root);
  Rule make_rule(const char* left, const char* right);
  void make_plan(Rule& rule, size_t root);

  Id find(Id x) {
    while (parents_[x] != x) x = parents_[x] = parents_[parents_[x]];
    return x;
  }
  void unite(Id a, Id b) {
    a = find(a);
    b = find(b);
    if (a == b) return;
    parents_[std::max(a, b)] = std::min(a, b);
    displaced_.push_back(std::max(a, b));
  }
  void append(Table& t, const Id* key, Id out, uint64_t h) {
    const Id r = t.rows++;
    t.cells.insert(t.cells.end(), key, key + t.arity);
    t.cells.push_back(out);
    ++t.live;
    t.insert(h, r);
    for (int c = 0; c <= t.arity; ++c)
      if (t.indexed[c]) t.next[c].push_back(t.heads[c].exchange(t.row(r)[c], r));
  }
  Id add(Table& t, const Id* key) {
    const uint64_t h = t.hash(key);
    const Id r = t.find(key, h);
    if (r != none) return find(t.row(r)[t.arity]);
    const auto id = static_cast<Id>(parents_.size());
    parents_.push_back(id);
    append(t, key, id, h);
    return id;
  }
  void add_to(Table& t, const Id* key, Id out) {
    const uint64_t h = t.hash(key);
    const Id r = t.find(key, h);
    if (r != none)
      unite(t.row(r)[t.arity], out);
    else
      append(t, key, out, h);
  }
  void fix_row(Table& t, Id r);
  void rebuild();
  void iterate();
  void walk(const Rule& rule, const std::vector<Step>& plan, size_t at, std::vector<Id>& out);
  bool bind(const Step& s, const Id* row, int arity) {
    for (int c = 0; c <= arity; ++c) {
      if (s.bound[c]) {
        if (regs_[s.vars[c]] != row[c]) return false;
      } else {
        regs_[s.vars[c]] = row[c];
      }
    }
    return true;
  }

  std::vector<Table> tables_;
  std::vector<Id> parents_, displaced_;
  std::unordered_map<std::string, size_t> ops_;
  std::unordered_map<std::string, Id> literals_;
  std::vector<Rule> rules_;
  Id regs_[32] = {};
};

inline Engine::Engine() {
  const auto op = [&](const char* name, int arity, bool literal) {
    ops_.emplace(name, tables_.size());
    tables_.emplace_back();
    tables_.back().arity = arity;
    tables_.back().literal = literal;
  };
  for (const char* name : math_theory::binary) op(name, 2, false);
  for (const char* name : math_theory::unary) op(name, 1, false);
  op("Const", 1, true);
  op("Var", 1, true);
  for (const auto& [left, right] : math_theory::rules) rules_.push_back(make_rule(left, right));
  for (const char* term : math_theory::terms) add_term(parse(term));
}

inline Engine::Sexp Engine::read(const char*& at) {
  while (*at == ' ') ++at;
  Sexp s;
  if (*at != '(') {
    while (*at != 0 && *at != ' ' && *at != ')') s.atom += *at++;
    return s;
  }
  for (++at;;) {
    while (*at == ' ') ++at;
    if (*at == ')') break;
    s.list.push_back(read(at));
  }
  ++at;
  return s;
}

inline Id Engine::add_term(const Sexp& s) {
  Id key[3] = {};
  if (s.list.empty()) {
    key[0] = literal(s.atom);
    return add(tables_[leaf_op(s.atom)], key);
  }
  for (size_t i = 1; i < s.list.size(); ++i) key[i - 1] = add_term(s.list[i]);
  return add(tables_[ops_.at(s.list[0].atom)], key);
}

inline int Engine::pattern(Rule& rule, const Sexp& s, Names& names) {
  if (s.list.empty()) {
    if (s.atom[0] == '?') {
      const auto found = names.find(s.atom);
      return found != names.end() ? found->second : names[s.atom] = rule.vars++;
    }
    rule.literals.push_back({rule.vars, leaf_op(s.atom), literal(s.atom)});
    return rule.vars++;
  }
  const int out = rule.vars++;
  const size_t place = rule.atoms.size();
  rule.atoms.emplace_back();
  rule.atoms[place].op = ops_.at(s.list[0].atom);
  const int arity = tables_[rule.atoms[place].op].arity;
  for (int i = 0; i < arity; ++i) {
    const int var = pattern(rule, s.list[static_cast<size_t>(i) + 1], names);
    rule.atoms[place].vars[i] = var;
  }
  rule.atoms[place].vars[arity] = out;
  return out;
}

inline int Engine::build(Rule& rule, const Sexp& s, Names& names, bool root) {
  if (s.list.empty() && s.atom[0] == '?') return names.at(s.atom);
  Act act;
  if (s.list.empty()) {
    act.op = leaf_op(s.atom);
    act.args[0] = -1 - static_cast<int>(literal(s.atom));
  } else {
    act.op = ops_.at(s.list[0].atom);
    for (size_t i = 1; i < s.list.size(); ++i) act.args[i - 1] = build(rule, s.list[i], names, false);
  }
  act.result = rule.vars++;
  act.to_root = root;
  rule.acts.push_back(act);
  return act.result;
}

inline void Engine::make_plan(Rule& rule, size_t root) {
  std::vector<Step> plan;
  std::vector<bool> bound(32, false), done(rule.atoms.size(), false);
  for (const Literal& l : rule.literals) bound[static_cast<size_t>(l.var)] = true;
  const auto emit = [&](size_t i, Step::Kind kind, int col) {
    Step s;
    s.kind = kind;
    s.op = rule.atoms[i].op;
    s.col = col;
    s.old_only = i < root;
    for (int c = 0; c <= tables_[s.op].arity; ++c) {
      s.vars[c] = rule.atoms[i].vars[c];
      s.bound[c] = bound[static_cast<size_t>(s.vars[c])];
      bound[static_cast<size_t>(s.vars[c])] = true;
    }
    done[i] = true;
    plan.push_back(s);
    if (kind == Step::join) tables_[s.op].indexed[col] = true;
  };
  emit(root, Step::scan, 0);
  for (size_t z = 1; z < rule.atoms.size(); ++z) {
    size_t best = 0;
    int best_score = -1, best_col = 0;
    for (size_t i = 0; i < rule.atoms.size(); ++i) {
      if (done[i]) continue;
      const int arity = tables_[rule.atoms[i].op].arity;
      int keys = 0, first = 0;
      for (int c = arity - 1; c >= 0; --c)
        if (bound[static_cast<size_t>(rule.atoms[i].vars[c])]) {
          ++keys;
          first = c;
        }
      const bool out = bound[static_cast<size_t>(rule.atoms[i].vars[arity])];
      const int score = keys == arity ? 100 : out ? 50 + keys : keys * 10;
      if (score > best_score) {
        best_score = score;
        best = i;
        best_col = keys == arity ? -1 : out ? arity : first;
      }
    }
    emit(best, best_col < 0 ? Step::look : Step::join, std::max(best_col, 0));
  }
  rule.plans.push_back(plan);
}

inline Engine::Rule Engine::make_rule(const char* left, const char* right) {
  Rule rule;
  Names names;
  rule.root = pattern(rule, parse(left), names);
  const Sexp made = parse(right);
  if (made.list.empty() && made.atom[0] == '?')
    rule.unite = names.at(made.atom);
  else
    build(rule, made, names, true);
  for (size_t root = 0; root < rule.atoms.size(); ++root) make_plan(rule, root);
  return rule;
}

inline void Engine::fix_row(Table& t, Id r) {
  Id* cells = t.row(r);
  if (cells[t.arity] == none) return;
  Id key[4] = {};
  bool changed = false;
  for (int c = 0; c < t.arity; ++c) {
    key[c] = t.literal ? cells[c] : find(cells[c]);
    changed |= key[c] != cells[c];
  }
  const Id out = find(cells[t.arity]);
  if (!changed && out == cells[t.arity]) return;
  t.erase(cells, r);
  cells[t.arity] = none;
  --t.live;
  const uint64_t h = t.hash(key);
  const Id other = t.find(key, h);
  if (other != none)
    unite(t.row(other)[t.arity], out);
  else
    append(t, key, out, h);
}

inline void Engine::rebuild() {
  while (!displaced_.empty()) {
    std::vector<Id> displaced;
    displaced.swap(displaced_);
    uint64_t total = 0;
    for (const Table& t : tables_) total += t.rows;
    for (Table& t : tables_) {
      bool all = displaced.size() * 8 < total;
      const int first = t.literal ? t.arity : 0;
      for (int c = first; c <= t.arity; ++c) all &= t.indexed[c];
      if (all) {
        for (const Id x : displaced)
          for (int c = first; c <= t.arity; ++c)
            for (Id r = t.heads[c].get(x); r != none;) {
              const Id next = t.next[c][r];
              fix_row(t, r);
              r = next;
            }
      } else {
        for (Id r = 0, n = t.rows; r < n; ++r) fix_row(t, r);
      }
    }
  }
}

inline void Engine::walk(const Rule& rule, const std::vector<Step>& plan, size_t at, std::vector<Id>& out) {
  if (at == plan.size()) {
    out.insert(out.end(), regs_, regs_ + rule.vars);
    return;
  }
  const Step& s = plan[at];
  Table& t = tables_[s.op];
  if (s.kind == Step::scan) {
    for (Id r = t.first_new; r < t.end; ++r)
      if (t.row(r)[t.arity] != none && bind(s, t.row(r), t.arity)) walk(rule, plan, at + 1, out);
  } else if (s.kind == Step::join) {
    for (Id r = t.heads[s.col].get(regs_[s.vars[s.col]]); r != none; r = t.next[s.col][r])
      if (t.row(r)[t.arity] != none && r < t.end && !(s.old_only && r >= t.first_new) &&
          bind(s, t.row(r), t.arity))
        walk(rule, plan, at + 1, out);
  } else {
    Id key[4] = {};
    for (int c = 0; c < t.arity; ++c) key[c] = regs_[s.vars[c]];
    const Id r = t.find(key, t.hash(key));
    if (r == none || r >= t.end || (s.old_only && r >= t.first_new)) return;
    const Id found = t.row(r)[t.arity];
    if (s.bound[t.arity] && regs_[s.vars[t.arity]] != found) return;
    regs_[s.vars[t.arity]] = found;
    walk(rule, plan, at + 1, out);
  }
}

inline void Engine::iterate() {
  for (Table& t : tables_) {
    t.first_new = t.end;
    t.end = t.rows;
  }
  std::vector<std::vector<Id>> matches(rules_.size());
  for (size_t q = 0; q < rules_.size(); ++q) {
    bool present = true;
    for (const Literal& l : rules_[q].literals) {
      Table& t = tables_[l.op];
      const Id r = t.find(&l.value, t.hash(&l.value));
      present &= r != none;
      if (r != none) regs_[l.var] = find(t.row(r)[1]);
    }
    for (size_t p = 0; present && p < rules_[q].plans.size(); ++p)
      walk(rules_[q], rules_[q].plans[p], 0, matches[q]);
  }
  for (size_t q = 0; q < rules_.size(); ++q) {
    const Rule& rule = rules_[q];
    for (size_t m = 0; m < matches[q].size(); m += static_cast<size_t>(rule.vars)) {
      Id* regs = &matches[q][m];
      if (rule.unite >= 0) unite(regs[rule.root], regs[rule.unite]);
      for (const Act& act : rule.acts) {
        Table& t = tables_[act.op];
        Id key[3] = {};
        for (int c = 0; c < t.arity; ++c)
          key[c] = act.args[c] < 0 ? static_cast<Id>(-1 - act.args[c]) : find(regs[act.args[c]]);
        if (act.to_root)
          add_to(t, key, find(regs[rule.root]));
        else
          regs[act.result] = add(t, key);
      }
    }
  }
  rebuild();
}

} // namespace luminal::bench::unit
