// cone/cone_text.cpp -- cones as text, and what makes one well formed.
#include "base/contains.h"
#include "base/text_reader.h"
#include "cone/cone.h"
#include "cone/formula.h"
#include <fmt/format.h>
#include <map>

namespace luminal::kernel {
namespace {

std::string list(const std::vector<Expr>& exprs) {
  std::string s;
  for (Expr e : exprs) s += (s.empty() ? "" : ", ") + luminal::to_string(e);
  return s;
}

std::string_view role_name(ValueRole role) {
  static constexpr std::string_view names[] = {"in", "out", "inout", "interior"};
  return names[int(role)];
}

std::string_view component_name(ComponentKind kind) {
  static constexpr std::string_view names[] = {"map", "fold", "scan", "update"};
  return names[int(kind)];
}

} // namespace

namespace {

/// A formula is a graph: what has several users is written once, "#0:sqrt(x)", and named from then
/// on.
class FormulaText {
public:
  FormulaText(const Cone& cone, const Formula& formula) : cone_(cone) { count(formula); }

  std::string operator()(const Formula& f) {
    auto shared = uses_.find(&f);
    if (args_of(f).empty() || shared == uses_.end() || shared->second < 2) return whole(f);
    auto [known, first] = numbers_.try_emplace(&f, int(numbers_.size()));
    const std::string number = fmt::format("#{}", known->second);
    return first ? fmt::format("{}:{}", number, whole(f)) : number;
  }

private:
  void count(const Formula& f) {
    if (uses_[&f]++ > 0) return;
    for (auto& a : args_of(f)) count(*a);
  }

  std::string whole(const Formula& f) {
    return visit(
        f, [](const FormulaConstant& c) { return float_text(c.value); },
        [&](const FormulaLoad& load) {
          const ConeValue& v = cone_.values[load.value];
          return v.name + (f.dtype != v.dtype ? fmt::format(".{}", luminal::to_string(f.dtype)) : "") + "[" +
                 list(load.index) +
                 (load.guard.is_constant(1) ? "" : " where " + luminal::to_string(load.guard)) + "]";
        },
        [&](const FormulaIndex& index) {
          return fmt::format("{}({})", luminal::to_string(f.dtype), luminal::to_string(index.value));
        },
        [](const FormulaComponent& c) { return "$" + std::to_string(c.number); },
        [&](const FormulaCast& c) {
          return fmt::format("cast<{}>({})", luminal::to_string(f.dtype), (*this)(*c.x));
        },
        [&](const FormulaBitcast& c) {
          return fmt::format("bitcast<{}>({})", luminal::to_string(f.dtype), (*this)(*c.x));
        },
        [&](const FormulaOp& op) { return call(row(op.op).name, op.args); },
        [&](const FormulaUserOp& op) { return call(op.name, op.args); });
  }

  std::string call(std::string_view name, const std::vector<FormulaRef>& args) {
    std::string s(name);
    for (size_t i = 0; i < args.size(); i++) s += (i ? ", " : "(") + (*this)(*args[i]);
    return s + ")";
  }

  const Cone& cone_;
  std::map<const Formula*, int> uses_, numbers_;
};

} // namespace

std::string to_string(const Cone& cone, const Formula& f) { return FormulaText(cone, f)(f); }

std::string to_string(const Cone& cone) {
  std::string s = "cone " + cone.name + "\n";
  for (auto& a : cone.axes) s += fmt::format("  axis {}: {}\n", a.name, luminal::to_string(a.extent));
  for (auto& v : cone.values)
    s += fmt::format("  {} {}: {}[{}]\n", role_name(v.role), v.name, luminal::to_string(v.dtype),
                     list(v.shape));
  for (auto& h : cone.holes)
    s += fmt::format("  index {} = {}\n", luminal::to_string(h.symbol), to_string(cone, *h.value));
  for (auto& stage : cone.stages) {
    s += "  stage " + stage.name;
    for (AxisId a : stage.axes) s += " " + cone.axes[a].name;
    if (!stage.domain.is_constant(1)) s += " where " + luminal::to_string(stage.domain);
    if (stage.monoid) s += " : " + luminal::to_string(*stage.monoid);
    s += "\n";
    for (size_t i = 0; i < stage.components.size(); i++) {
      auto& c = stage.components[i];
      s += fmt::format("    ${} = {}", i, component_name(c.kind));
      if (c.kind == ComponentKind::fold || c.kind == ComponentKind::scan ||
          (c.kind == ComponentKind::update && !c.set))
        s += " " + std::string(row(c.op).name);
      if (c.after) s += " after";
      s += " " + to_string(cone, *c.body);
      if (c.init) s += " from " + to_string(cone, *c.init);
      if (c.out) s += " -> " + cone.values[c.out].name + "[" + list(c.index) + "]";
      s += "\n";
    }
  }
  return s;
}

std::vector<std::string> verify(const Cone& cone) {
  std::vector<std::string> mistakes;
  auto wrong = [&](std::string text) { mistakes.push_back(std::move(text)); };
  std::set<Expr, ExprLess> known(cone.symbols.begin(), cone.symbols.end());
  for (auto& h : cone.holes) known.insert(h.symbol);
  std::set<ValueId> written;
  for (auto& stage : cone.stages) {
    auto here = known;
    for (AxisId a : stage.axes) {
      if (!cone.axes.has(a)) {
        wrong(fmt::format("stage {}: there is no axis {}", stage.name, a));
        return mistakes;
      }
      here.insert(cone.axes[a].symbol);
    }
    for (Expr s : symbols_of(index_exprs(stage)))
      if (!here.contains(s))
        wrong(fmt::format("stage {}: {} is not an axis of it", stage.name, luminal::to_string(s)));
    for (size_t i = 0; i < stage.components.size(); i++) {
      auto& c = stage.components[i];
      if (!c.body) wrong(fmt::format("stage {}: component {} has no body", stage.name, i));
      if (c.body && c.body->dtype != c.dtype)
        wrong(fmt::format("stage {}: component {} is {}, its body {}", stage.name, i,
                          luminal::to_string(c.dtype), luminal::to_string(c.body->dtype)));
      for (AxisId a : c.axes)
        if (!contains(stage.axes, a))
          wrong(fmt::format("stage {}: component {} has a foreign axis", stage.name, i));
      if (c.out) {
        if (!cone.values.has(c.out))
          wrong(fmt::format("stage {}: there is no value {}", stage.name, c.out));
        else if (cone.values[c.out].shape.size() != c.index.size())
          wrong(fmt::format("stage {}: {} has {} dimensions, not {}", stage.name, cone.values[c.out].name,
                            cone.values[c.out].shape.size(), c.index.size()));
        else if (cone.values[c.out].role == ValueRole::input)
          wrong(fmt::format("stage {} writes {}, an input", stage.name, cone.values[c.out].name));
        written.insert(c.out);
      }
    }
    const auto see_load = [&](const FormulaLoad& f) {
      if (!cone.values.has(f.value))
        return wrong(fmt::format("stage {}: a load of value {}", stage.name, f.value));
      const ConeValue& v = cone.values[f.value];
      if (v.shape.size() != f.index.size())
        wrong(fmt::format("stage {}: {} is read at {} indices", stage.name, v.name, f.index.size()));
      else if (v.role == ValueRole::interior && !written.contains(f.value))
        wrong(fmt::format("stage {} reads {} before it is written", stage.name, v.name));
    };
    const auto see_component = [&](const FormulaComponent& c) {
      if (c.number < 0 || c.number >= int(stage.components.size()))
        wrong(fmt::format("stage {}: there is no component {}", stage.name, c.number));
    };
    visit_stage(stage, [&](const Formula& f) { visit(f, see_load, see_component, [](const auto&) {}); });
  }
  for (const ValueId v : cone.values.ids())
    if (cone.values[v].role != ValueRole::input && !written.contains(v))
      wrong(cone.values[v].name + " is never written");
  return mistakes;
}

} // namespace luminal::kernel
