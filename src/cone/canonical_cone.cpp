// cone/canonical_cone.cpp -- renaming everything in a cone, and hashing everything in it.
#include "cone/canonical_cone.h"
#include "base/contains.h"
#include "cone/formula.h"
#include "ir/ops.h"
#include <algorithm>
#include <fmt/format.h>

namespace luminal::kernel {
namespace {

class Renamer {
public:
  explicit Renamer(const Cone& cone) : cone_(cone) {}

  CanonicalCone run() {
    result_.cone = cone_;
    Cone& c = result_.cone;
    c.name = "kernel";
    number_dimensions();
    for (const AxisId i : c.axes.ids()) {
      ConeAxis& axis = c.axes[i];
      const Expr symbol = fresh("a", i.index(), axis.symbol);
      note(std::string(symbol.name()), axis.name);
      axis.name = symbol.name();
      axis.symbol = symbol;
    }
    for (const HoleId i : c.holes.ids()) c.holes[i].symbol = fresh("h", i.index(), c.holes[i].symbol);
    for (const ValueId i : c.values.ids()) rename(c.values[i].name, "v", i.index());
    for (const StageId i : c.stages.ids()) rename(c.stages[i].name, "s", i.index());
    for (ConeAxis& axis : c.axes) axis.extent = at(axis.extent);
    for (ConeValue& value : c.values)
      for (Expr& extent : value.shape) extent = at(extent);
    auto indices = index_rewriter([this](Expr e) { return at(e); });
    FormulaRewriter origins([this](const FormulaRef& f) { return with_origin(f); });
    const auto change = [&](const FormulaRef& f) { return origins(indices(f)); };
    for (Stage& stage : c.stages) {
      rewrite_stage(stage, change);
      for (Component& component : stage.components)
        for (Expr& e : component.index) e = at(e);
      stage.domain = at(stage.domain);
      stage.needed = at(stage.needed);
    }
    for (ConeHole& hole : c.holes) hole.value = change(hole.value);
    return std::move(result_);
  }

private:
  /// Dimensions in the order in which extents name them; those that only index maps name come last.
  void number_dimensions() {
    std::vector<Expr> order;
    const auto add = [&](Expr e) {
      for (const Expr s : symbols_of(e))
        if (contains(cone_.symbols, s) && !contains(order, s)) order.push_back(s);
    };
    for (const ConeAxis& axis : cone_.axes) add(axis.extent);
    for (const ConeValue& value : cone_.values)
      for (const Expr extent : value.shape) add(extent);
    for (const Expr s : cone_.symbols) add(s);
    result_.cone.symbols.clear();
    for (size_t i = 0; i < order.size(); i++) {
      const Expr symbol = fresh("d", i, order[i]);
      result_.cone.symbols.push_back(symbol);
      result_.dimensions[symbol] = order[i];
      note(std::string(symbol.name()), std::string(order[i].name()));
    }
    std::ranges::sort(result_.cone.symbols, ExprLess());
  }

  Expr fresh(const char* letter, size_t number, Expr given) {
    const Expr symbol = Expr::symbol(fmt::format("{}{}", letter, number), given.range(),
                                     std::max<int64_t>(1, given.multiple()));
    symbols_[given] = symbol;
    return symbol;
  }
  Expr at(Expr e) const { return e.is_constant() ? e : luminal::substitute(e, symbols_); }
  void rename(std::string& name, const char* letter, size_t number) {
    std::string canonical = fmt::format("{}{}", letter, number);
    note(canonical, name);
    name = std::move(canonical);
  }
  void note(std::string canonical, std::string given) {
    result_.names.emplace_back(std::move(canonical), std::move(given));
  }
  FormulaRef with_origin(const FormulaRef& f) {
    if (f->origin.empty()) return f;
    const auto [found, fresh] = origins_.try_emplace(f->origin, fmt::format("o{}", origins_.size()));
    if (fresh) note(found->second, f->origin);
    Formula copy = *f;
    copy.origin = found->second;
    return std::make_shared<const Formula>(std::move(copy));
  }

  const Cone& cone_;
  CanonicalCone result_;
  ExprMap<Expr> symbols_; // given -> canonical
  std::map<std::string, std::string> origins_;
};

/// Every node of a formula once: its hash is one of everything below it.
class FormulaHasher {
public:
  Hash128 operator()(const FormulaRef& root) {
    if (!root) return {};
    visit(root, [this](const Formula& f) {
      if (hashes_.contains(&f)) return;
      Hasher h;
      // Keys of stored schedules: what a kind does not have is hashed all the same, as a number that stands
      // for nothing, and registered rows are one kind with those of the op table.
      const auto* constant = f.as<FormulaConstant>();
      const auto* load = load_of(f);
      const auto* op = f.as<FormulaOp>();
      const auto* user_op = f.as<FormulaUserOp>();
      const auto* component = f.as<FormulaComponent>();
      h.add(uint8_t(user_op ? row_kind : f.kind.index())).add(f.dtype).add(op ? op->op : Op{});
      h.add(constant ? constant->value : 0.0).add(load ? load->value.number() : -1);
      h.add(component ? component->number : -1).add(index_of(f).size());
      for (const Expr e : index_of(f)) h.add(luminal::to_string(e));
      h.add(luminal::to_string(guard_of(f))).add(user_op ? user_op->name : std::string()).add(f.origin);
      if (const UserOp* user = user_op ? find_user_op(user_op->name) : nullptr) h.add(user->definition);
      for (const Expr e : f.at) h.add(luminal::to_string(e));
      h.add(args_of(f).size());
      for (const FormulaRef& argument : args_of(f)) h.add(hashes_.at(argument.get()));
      hashes_[&f] = h.value128();
    });
    return hashes_.at(root.get());
  }

private:
  static constexpr size_t row_kind = decltype(Formula::kind)(FormulaOp{}).index();
  std::map<const Formula*, Hash128> hashes_; // of formulas that the cone keeps alive
};

} // namespace

CanonicalCone canonical(const Cone& cone) { return Renamer(cone).run(); }

Hash128 structural_hash128(const Cone& cone) {
  Hasher h;
  FormulaHasher formula;
  const auto exprs = [&](const std::vector<Expr>& list) {
    h.add(list.size());
    for (const Expr e : list) h.add(luminal::to_string(e));
  };
  const auto axes = [&](const std::vector<AxisId>& list) {
    h.add(list.size());
    for (const AxisId a : list) h.add(a.number());
  };
  const auto symbol = [&](Expr s) {
    h.add(s.name()).add(s.range().low).add(s.range().high).add(s.multiple());
  };
  h.add("cone 1").add(cone.symbols.size());
  for (const Expr s : cone.symbols) symbol(s);
  h.add(cone.axes.size());
  for (const ConeAxis& axis : cone.axes) {
    h.add(axis.name).add(luminal::to_string(axis.extent));
    symbol(axis.symbol);
  }
  h.add(cone.values.size());
  for (const ConeValue& value : cone.values) {
    h.add(value.name).add(value.dtype).add(value.role);
    exprs(value.shape);
    axes(value.axes);
    h.add(value.layout.size());
    for (const LayoutDim& dim : value.layout) h.add(dim.dim).add(dim.div).add(dim.mod).add(dim.pad);
  }
  h.add(cone.holes.size());
  for (const ConeHole& hole : cone.holes) {
    symbol(hole.symbol);
    h.add(formula(hole.value));
  }
  h.add(cone.stages.size());
  for (const Stage& stage : cone.stages) {
    h.add(stage.name).add(luminal::to_string(stage.domain)).add(luminal::to_string(stage.needed));
    axes(stage.axes);
    axes(stage.ordered);
    h.add(stage.scan_exclusive).add(stage.scan_reverse).add(stage.scan_axis.number());
    h.add(stage.monoid ? luminal::to_string(*stage.monoid) : std::string());
    h.add(stage.components.size());
    for (const Component& c : stage.components) {
      h.add(c.kind).add(c.op).add(c.dtype).add(c.out.number()).add(c.after).add(c.set);
      exprs(c.index);
      axes(c.axes);
      h.add(formula(c.body)).add(formula(c.init));
    }
  }
  return h.value128();
}

} // namespace luminal::kernel
