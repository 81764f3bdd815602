// rules/folds_program.cpp -- programs of choices, and the union of tuples.
#include "folds_program.h"
#include "base/check.h"
#include <algorithm>
#include <bit>

namespace luminal::egraph::folds {
namespace {

class ProgramBuilder {
public:
  ProgramBuilder(const LoopProblem& problem, const Candidate& candidate, Program& out)
      : p_(problem), candidate_(candidate), out_(out), algebra_(problem.theory.algebra()) {}

  void add_nodes() {
    out_.axis_names = p_.axis_names;
    out_.nodes.resize(p_.problem().class_count());
    Evaluator evaluator(p_.problem());
    for (const uint32_t c : evaluator.evaluate(candidate_.genome).order) add_node(c);
  }

  void join(const Plan& plan) {
    std::vector<std::vector<uint32_t>> groups;
    for (const Pass& pass : plan.passes)
      if (pass.folds.size() > 1) groups.push_back(pass.folds);
    for (const Pass& pass : plan.passes) add_nested_groups(pass, groups);
    for (const auto& [c, pass] : plan.epilogues) add_nested_groups(pass, groups);
    for (const auto& group : groups) join_tuples(group);
  }

private:
  uint32_t axis(const std::string& name) const {
    const auto at = std::find(out_.axis_names.begin(), out_.axis_names.end(), name);
    LUMINAL_CHECK(at != out_.axis_names.end(), "axis {}", name);
    return uint32_t(at - out_.axis_names.begin());
  }
  AxisSet set_of(const Axes& names) const {
    AxisSet out = 0;
    for (const auto& name : names) out |= AxisSet(1) << axis(name);
    return out;
  }

  void add_node(uint32_t c) {
    Theory& theory = p_.theory;
    auto& program = theory.program();
    const LoopRow& row = p_.row_of(candidate_.genome, c);
    const auto children = p_.problem().children(candidate_.genome[c]);
    ProgramNode& node = out_.nodes[c];
    node.operation = row.operation;
    node.children.assign(children.begin(), children.end());
    node.stored = !candidate_.stored.empty() && candidate_.stored[c];
    node.is_static = p_.is_static[c];
    switch (row.operation) {
    case Operation::in:
    case Operation::par:
      node.name = program.string_of(row.args[0]);
      node.over = set_of(theory.axes(row.args[1]));
      break;
    case Operation::constant: node.number = program.values().real_of(row.args[0]); break;
    case Operation::dim: node.over = set_of(theory.axes(row.args[0])); break;
    case Operation::iota: node.over = set_of({std::string(program.string_of(row.args[0]))}); break;
    case Operation::get: node.component = row.index; break;
    case Operation::fold:
    case Operation::scan:
      node.over = row.over;
      node.monoid = theory.monoid(row.args[0]);
      break;
    case Operation::take: node.over = row.over; break;
    case Operation::view: {
      const Window& window = theory.window(row.args[0]);
      node.window = {axis(window.axis), {}, window.offset, window.divisor, window.fill};
      for (const auto& [name, factor] : window.terms) node.window.terms.emplace_back(axis(name), factor);
      break;
    }
    default: break;
    }
  }

  /// Whether b stands below a.
  bool below(uint32_t a, uint32_t b) const {
    std::vector<uint8_t> seen(out_.nodes.size(), 0);
    std::vector<uint32_t> todo = out_.nodes[a].children;
    while (!todo.empty()) {
      const uint32_t c = todo.back();
      todo.pop_back();
      if (c == b) return true;
      if (seen[c]) continue;
      seen[c] = 1;
      todo.insert(todo.end(), out_.nodes[c].children.begin(), out_.nodes[c].children.end());
    }
    return false;
  }

  void add_nested_groups(const Pass& pass, std::vector<std::vector<uint32_t>>& groups) const {
    std::map<std::pair<AxisSet, AxisSet>, std::vector<std::vector<uint32_t>>> by_loops;
    for (const auto& [f, loops] : pass.nested) {
      auto& lists = by_loops[{out_.nodes[f].over, loops}];
      const auto fits = [&, f = f](const std::vector<uint32_t>& list) {
        return std::none_of(list.begin(), list.end(),
                            [&](uint32_t g) { return g == f || below(f, g) || below(g, f); });
      };
      const auto at = std::find_if(lists.begin(), lists.end(), fits);
      if (at == lists.end())
        lists.push_back({f});
      else
        at->push_back(f);
    }
    for (const auto& [loops, lists] : by_loops)
      for (const auto& list : lists)
        if (list.size() > 1) groups.push_back(list);
  }

  /// Adds the components of a tuple that are not there yet. Returns their places.
  std::vector<uint32_t> add_components(const ProgramNode& from, ProgramNode& to) {
    std::vector<uint32_t> places;
    std::map<uint32_t, uint32_t> names;
    for (uint32_t i = 0; i < from.monoid.size(); ++i) {
      Component moved{from.monoid[i].op, algebra_.renamed(from.monoid[i].transport, names), {}};
      for (const uint32_t j : from.monoid[i].singular) moved.singular.insert(names.at(j));
      uint32_t at = 0;
      while (at < to.monoid.size() && !(to.monoid[at] == moved && to.children[at] == from.children[i])) ++at;
      if (at == to.monoid.size()) {
        to.monoid.push_back(moved);
        to.children.push_back(from.children[i]);
      }
      names[i] = at;
      places.push_back(at);
    }
    return places;
  }

  /// Where a component of a joint tuple is found: `scale` times the component at `place`.
  struct Found {
    uint32_t place;
    double scale;
  };

  std::optional<double> constant(uint32_t c) const {
    const ProgramNode& node = out_.nodes[c];
    return node.operation == Operation::constant ? std::optional(node.number) : std::nullopt;
  }

  /// Drops components that are always a number times an earlier one: tuples that count or weigh the
  /// same may meet. Returns where each is found.
  std::vector<Found> drop_proportional(ProgramNode& tuple) {
    std::vector<Found> found;
    for (uint32_t i = 0; i < tuple.monoid.size(); ++i) found.push_back({i, 1});
    const auto drop_one = [&] {
      for (uint32_t j = 0; j < tuple.monoid.size(); ++j)
        for (uint32_t i = 0; i < j; ++i) {
          const auto u = constant(tuple.children[i]), v = constant(tuple.children[j]);
          if (!u || !v) continue;
          const auto c = algebra_.proportion(tuple.monoid, j, i, *v, *u);
          if (!c) continue;
          auto rest = algebra_.dropped(tuple.monoid, j, i, *c);
          if (!rest) continue;
          tuple.monoid = std::move(*rest);
          tuple.children.erase(tuple.children.begin() + j);
          for (Found& at : found) {
            if (at.place == j)
              at = {i, at.scale * *c};
            else if (at.place > j)
              --at.place;
          }
          return true;
        }
      return false;
    };
    while (drop_one()) {
    }
    return found;
  }

  uint32_t append(ProgramNode node) {
    out_.nodes.push_back(std::move(node));
    return uint32_t(out_.nodes.size() - 1);
  }

  void join_tuples(const std::vector<uint32_t>& group) {
    ProgramNode joint;
    joint.operation = Operation::fold;
    joint.over = out_.nodes[group[0]].over;
    std::map<uint32_t, std::vector<uint32_t>> places;
    for (const uint32_t f : group) {
      const ProgramNode& from = out_.nodes[f];
      LUMINAL_CHECK(from.operation == Operation::fold && from.over == joint.over);
      places[f] = add_components(from, joint);
    }
    const std::vector<Found> found = drop_proportional(joint);
    const uint32_t id = append(std::move(joint));
    for (uint32_t c = 0; c < id; ++c) {
      if (out_.nodes[c].operation != Operation::get) continue;
      const auto at = places.find(out_.nodes[c].children[0]);
      if (at == places.end()) continue;
      const Found where = found[at->second[out_.nodes[c].component]];
      ProgramNode get = out_.nodes[c];
      get.component = where.place;
      get.children[0] = id;
      if (where.scale == 1) {
        out_.nodes[c] = std::move(get);
        continue;
      }
      get.stored = false;
      ProgramNode number;
      number.number = where.scale;
      number.is_static = true;
      ProgramNode product;
      product.operation = Operation::mul;
      product.stored = out_.nodes[c].stored;
      product.children = {append(std::move(number)), append(std::move(get))};
      out_.nodes[c] = std::move(product);
    }
  }

  const LoopProblem& p_;
  const Candidate& candidate_;
  Program& out_;
  Algebra& algebra_;
};

} // namespace

std::vector<uint32_t> Program::reached() const {
  std::vector<uint32_t> out;
  std::vector<uint8_t> state(nodes.size(), 0);
  std::vector<std::pair<uint32_t, size_t>> stack;
  for (const uint32_t root : roots) {
    if (state[root]) continue;
    state[root] = 1;
    stack.emplace_back(root, 0);
    while (!stack.empty()) {
      auto& [c, next] = stack.back();
      if (next == nodes[c].children.size()) {
        state[c] = 2;
        out.push_back(c);
        stack.pop_back();
        continue;
      }
      const uint32_t d = nodes[c].children[next++];
      LUMINAL_CHECK(state[d] != 1, "a program has a cycle");
      if (state[d]) continue;
      state[d] = 1;
      stack.emplace_back(d, 0);
    }
  }
  return out;
}

AxisSet Program::axes_of(uint32_t root) const {
  std::map<uint32_t, AxisSet> known;
  const auto go = [&](const auto& self, uint32_t c) -> AxisSet {
    if (const auto at = known.find(c); at != known.end()) return at->second;
    const ProgramNode& node = nodes[c];
    AxisSet below = 0;
    for (const uint32_t d : node.children) below |= self(self, d);
    switch (node.operation) {
    case Operation::in:
    case Operation::par:
    case Operation::iota: below = node.over; break;
    case Operation::constant:
    case Operation::dim: below = 0; break;
    case Operation::fold: below &= ~node.over; break;
    case Operation::scan: below |= node.over; break;
    case Operation::take:
      below = self(self, node.children[0]) | (self(self, node.children[1]) & ~node.over);
      break;
    case Operation::view: {
      LoopView view{AxisSet(1) << node.window.axis, 0};
      for (const auto& [axis, factor] : node.window.terms) view.reads |= AxisSet(1) << axis;
      below = view.through(below);
      break;
    }
    default: break;
    }
    return known[c] = below;
  };
  return go(go, root);
}

size_t Program::widest() const {
  size_t out = 0;
  for (const uint32_t c : reached()) out = std::max(out, nodes[c].monoid.size());
  return out;
}

std::string text(const Program& program, const Algebra& algebra) {
  std::string out;
  for (const uint32_t c : program.reached()) {
    const ProgramNode& node = program.nodes[c];
    if (node.operation != Operation::fold && node.operation != Operation::scan) continue;
    out += node.operation == Operation::fold ? "fold" : "scan";
    for (AxisSet rest = node.over; rest; rest &= rest - 1)
      out += " " + program.axis_names[size_t(std::countr_zero(rest))];
    out += ": " + algebra.text(node.monoid) + "\n";
  }
  return out;
}

Program program_of(const LoopProblem& problem, std::span<const Value> roots, const Candidate& candidate,
                   const Plan* plan) {
  Program out;
  for (const Value root : roots) out.roots.push_back(problem.class_of(root));
  ProgramBuilder builder(problem, candidate, out);
  builder.add_nodes();
  if (plan) builder.join(*plan);
  return out;
}

} // namespace luminal::egraph::folds
