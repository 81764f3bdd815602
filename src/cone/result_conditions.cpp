// cone/result_conditions.cpp -- from the choices that the maps on finished folds make.
#include "cone/result_conditions.h"
#include "base/contains.h"
#include <algorithm>
#include <map>
#include <optional>

namespace luminal::kernel {
namespace {

using Conditions = std::vector<Expr>; // all of them hold

void add_conjuncts(Expr condition, Conditions& to) {
  if (condition.kind() == ExprKind::logical_and) {
    for (const Expr e : condition.args()) add_conjuncts(e, to);
  } else if (condition.kind() == ExprKind::lt && !contains(to, condition)) {
    to.push_back(condition);
  }
}

/// What holds wherever the condition does.
void add_conditions(const Formula& condition, Conditions& to) {
  if (const auto* index = condition.as<FormulaIndex>()) add_conjuncts(index->value, to);
  if (applies(condition, Op::bit_and))
    for (const FormulaRef& x : args_of(condition)) add_conditions(*x, to);
}

/// Of one reader of results: under which conditions it reads one; nothing where it reads none.
class Reader {
public:
  explicit Reader(const Stage& stage) : stage_(stage) {}
  const std::optional<Conditions>& of(const Formula& f) {
    if (const auto known = known_.find(&f); known != known_.end()) return known->second;
    std::optional<Conditions> out;
    if (const auto* part = f.as<FormulaComponent>(); part && is_result(part->number)) out = Conditions{};
    const std::span<const FormulaRef> args = args_of(f);
    for (size_t k = 0; k < args.size(); ++k) {
      std::optional<Conditions> part = of(*args[k]);
      if (part && applies(f, Op::select) && k == 1) add_conditions(*args[0], *part);
      meet(out, std::move(part));
    }
    return known_[&f] = std::move(out);
  }
  static void meet(std::optional<Conditions>& to, std::optional<Conditions> other) {
    if (!other) return;
    if (to)
      std::erase_if(*to, [&](Expr e) { return !contains(*other, e); });
    else
      to = std::move(other);
  }

private:
  bool is_result(int component) const {
    const Component& c = stage_.components[size_t(component)];
    return c.kind == ComponentKind::fold;
  }
  const Stage& stage_;
  std::map<const Formula*, std::optional<Conditions>> known_;
};

} // namespace

std::vector<Expr> result_conditions(const Stage& stage) {
  if (stage.monoid || stage.scan_axis) return {};
  std::optional<Conditions> all;
  Reader reader(stage);
  for (const Component& c : stage.components) {
    if (c.kind == ComponentKind::fold && c.out) return {};
    if (c.after) Reader::meet(all, reader.of(*c.body));
  }
  return all.value_or(Conditions{});
}

} // namespace luminal::kernel
