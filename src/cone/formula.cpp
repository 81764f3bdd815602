// cone/formula.cpp -- making, walking and rewriting formulas.
#include "cone/formula.h"
#include "base/check.h"
#include "base/contains.h"
#include "base/hash.h"
#include "cone/conversion.h"
#include "ir/identity.h"
#include <algorithm>
#include <cmath>
#include <set>

namespace luminal::kernel {
namespace {
FormulaRef make(Formula formula) { return std::make_shared<const Formula>(std::move(formula)); }
template <class Kind> FormulaRef make(DType dtype, Kind kind) {
  return make({dtype, std::move(kind), {}, {}});
}
/// A constant of a scalar program: its infinities are the ends of a type that has none.
FormulaRef program_constant(DType dtype, double value) {
  const bool end = is_float(dtype) && std::isinf(value);
  return formula_constant(dtype, end ? std::copysign(greatest(dtype), value) : value);
}
} // namespace

std::span<const FormulaRef> args_of(const Formula& formula) {
  using Args = std::span<const FormulaRef>;
  return visit(
      formula, [](const FormulaOp& f) { return Args(f.args); },
      [](const FormulaUserOp& f) { return Args(f.args); }, [](const FormulaCast& f) { return Args(&f.x, 1); },
      [](const FormulaBitcast& f) { return Args(&f.x, 1); }, [](const auto&) { return Args(); });
}

FormulaRef with_args(const Formula& formula, const std::function<FormulaRef(const FormulaRef&)>& change) {
  Formula copy = formula;
  const auto all = [&](std::vector<FormulaRef>& args) {
    for (FormulaRef& arg : args) arg = change(arg);
  };
  std::visit(Overloaded{[&](FormulaOp& f) { all(f.args); }, [&](FormulaUserOp& f) { all(f.args); },
                        [&](FormulaCast& f) { f.x = change(f.x); },
                        [&](FormulaBitcast& f) { f.x = change(f.x); }, [](auto&) {}},
             copy.kind);
  return make(std::move(copy));
}

std::span<const Expr> index_of(const Formula& formula) {
  using Exprs = std::span<const Expr>;
  return visit(
      formula, [](const FormulaLoad& f) { return Exprs(f.index); },
      [](const FormulaIndex& f) { return Exprs(&f.value, 1); }, [](const auto&) { return Exprs(); });
}

Expr guard_of(const Formula& formula) {
  const FormulaLoad* load = load_of(formula);
  return load ? load->guard : Expr(1);
}

Formula with_exprs(Formula formula, const std::function<Expr(Expr)>& change) {
  const auto all = [&](std::vector<Expr>& exprs) {
    for (Expr& e : exprs) e = change(e);
  };
  std::visit(Overloaded{[&](FormulaLoad& f) { all(f.index), f.guard = change(f.guard); },
                        [&](FormulaIndex& f) { f.value = change(f.value); }, [](auto&) {}},
             formula.kind);
  all(formula.at);
  return formula;
}

FormulaRef formula_constant(DType dtype, double value) {
  // Of an integer type an infinity is the greatest or the least value, which a double need not
  // hold.
  if (is_integer(dtype) && std::isinf(value)) return formula_index(Expr(truncate_to(dtype, value)), dtype);
  return make(dtype, FormulaConstant{value});
}

FormulaRef formula_index(Expr value, DType dtype) {
  // Small integers are constants; larger ones stay expressions, which hold 64 bits.
  constexpr int64_t large = int64_t{1} << 53;
  if (value.is_constant() && -large < value.value() && value.value() < large && !is_float(dtype))
    return formula_constant(dtype, dtype == DType::boolean ? value.value() != 0 : double(value.value()));
  return make(dtype, FormulaIndex{value});
}

FormulaRef formula_load(ValueId value, DType dtype, std::vector<Expr> index, Expr guard) {
  return make(dtype, FormulaLoad{value, std::move(index), guard});
}

FormulaRef guarded(const FormulaRef& formula, Expr guard) {
  return FormulaRewriter([&](const FormulaRef& f) {
    const FormulaLoad* load = load_of(*f);
    return load ? formula_load(load->value, f->dtype, load->index, logical_and(load->guard, guard)) : f;
  })(formula);
}

const Formula* converted_load(const Formula& formula) {
  const Formula* f = &formula;
  while (const auto* cast = f->as<FormulaCast>()) f = cast->x.get();
  return f->is<FormulaLoad>() ? f : nullptr;
}

FormulaRef formula_op(Op op, std::vector<FormulaRef> args) {
  DType types[3] = {};
  for (size_t i = 0; i < args.size() && i < 3; i++) types[i] = args[i]->dtype;
  std::string why;
  auto result = result_type(row(op), types, &why);
  LUMINAL_CHECK(result.has_value(), "{} in a formula: {}", row(op).name, why);
  return make(*result, FormulaOp{op, std::move(args)});
}

FormulaRef formula_user_op(const std::string& name, DType dtype, std::vector<FormulaRef> args) {
  return make(dtype, FormulaUserOp{name, std::move(args)});
}

FormulaRef formula_cast(DType to, FormulaRef x) {
  if (x->dtype == to) return x;
  return make(to, FormulaCast{std::move(x)});
}

FormulaRef formula_bitcast(DType to, FormulaRef x) {
  if (x->dtype == to) return x;
  LUMINAL_CHECK(bits(to) == bits(x->dtype), "bitcast of {} to {}", luminal::to_string(x->dtype),
                luminal::to_string(to));
  return make(to, FormulaBitcast{std::move(x)});
}

FormulaRef formula_component(int component, DType dtype) { return make(dtype, FormulaComponent{component}); }

FormulaRef formula_of(const Scalar& program, const std::vector<FormulaRef>& leaves, DType dtype) {
  // Constants take the type of what they meet.
  std::vector<FormulaRef> made;
  for (const ScalarNode& node : program.nodes()) {
    switch (node.kind) {
    case ScalarNode::Kind::constant: made.push_back(program_constant(dtype, node.value)); break;
    case ScalarNode::Kind::leaf: made.push_back(leaves.at(node.leaf)); break;
    case ScalarNode::Kind::cast: made.push_back(formula_cast(node.dtype, made.at(node.args[0]))); break;
    case ScalarNode::Kind::op: {
      std::vector<FormulaRef> args;
      DType wanted = dtype;
      for (int i = 0; i < row(node.op).arity; i++) {
        args.push_back(made.at(node.args[i]));
        bool choice = row(node.op).signature == Signature::choice && i == 0;
        if (!choice && program.nodes()[node.args[i]].kind != ScalarNode::Kind::constant)
          wanted = args.back()->dtype;
      }
      for (size_t i = 0; i < args.size(); i++)
        if (program.nodes()[node.args[i]].kind == ScalarNode::Kind::constant)
          args[i] = program_constant(wanted, program.nodes()[node.args[i]].value);
      made.push_back(formula_op(node.op, std::move(args)));
      break;
    }
    }
  }
  return formula_cast(dtype, made.back());
}

FormulaRef zero_where_subnormal(const FormulaRef& x) {
  const FormulaRef small =
      formula_op(Op::lt, {formula_op(Op::abs, {x}), formula_constant(DType::f32, 0x1p-126)});
  return formula_op(Op::select, {small, formula_constant(DType::f32, 0), x});
}

bool is_constant(const FormulaRef& formula, double value) {
  const auto* constant = formula->as<FormulaConstant>();
  return constant && constant->value == value;
}

namespace {
void visit_once(const FormulaRef& formula, const std::function<void(const Formula&)>& see,
                std::set<const Formula*>& seen) {
  // (What has one owner is come to once.)
  if (!formula || (formula.use_count() > 1 && !seen.insert(formula.get()).second)) return;
  for (auto& a : args_of(*formula)) visit_once(a, see, seen);
  see(*formula);
}
} // namespace

void visit(const FormulaRef& formula, const std::function<void(const Formula&)>& see) {
  std::set<const Formula*> seen;
  visit_once(formula, see, seen);
}

FormulaRef FormulaRewriter::operator()(const FormulaRef& formula) {
  if (!formula) return formula;
  auto found = done_.find(formula.get());
  if (found != done_.end()) return found->second.second;
  const auto again = [this](const FormulaRef& a) { return (*this)(a); };
  const bool same =
      std::ranges::all_of(args_of(*formula), [&](const FormulaRef& a) { return again(a) == a; });
  FormulaRef next = change_(same ? formula : with_args(*formula, again));
  done_.emplace(formula.get(), std::pair{formula, next});
  return next;
}

/// Of a node whose arguments are known ones: they are told apart by their addresses.
FormulaRef SharedFormulas::known(const FormulaRef& formula) {
  const Formula& f = *formula;
  Hasher hash;
  hash.add(f.kind.index()).add(f.dtype).add(guard_of(f).hash());
  visit(
      f, [&](const FormulaConstant& c) { hash.add(c.value); }, [&](const FormulaOp& op) { hash.add(op.op); },
      [&](const FormulaLoad& load) { hash.add(load.value.number()); },
      [&](const FormulaComponent& c) { hash.add(c.number); }, [](const auto&) {});
  for (Expr e : index_of(f)) hash.add(e.hash());
  for (const FormulaRef& a : args_of(f)) hash.add(uint64_t(reinterpret_cast<uintptr_t>(a.get())));
  std::vector<FormulaRef>& same = nodes_[hash.value64()];
  for (const FormulaRef& other : same)
    if (other->kind == f.kind && other->dtype == f.dtype) return other;
  same.push_back(formula);
  return formula;
}

FormulaRef SharedFormulas::operator()(const FormulaRef& formula) {
  return FormulaRewriter([&](const FormulaRef& f) { return known(f); })(formula);
}

FormulaRewriter index_rewriter(std::function<Expr(Expr)> change) {
  return FormulaRewriter([change = std::move(change)](const FormulaRef& f) -> FormulaRef {
    if (index_of(*f).empty() && f->at.empty() && guard_of(*f).is_constant(1)) return f;
    Formula copy = with_exprs(*f, change);
    if (copy.at == f->at && copy.kind == f->kind) return f; // (the arguments are the same ones)
    if (const auto* index = copy.as<FormulaIndex>()) {
      auto folded = formula_index(index->value, copy.dtype);
      if (folded->is<FormulaConstant>()) return folded;
    }
    return make(std::move(copy));
  });
}

FormulaRef substitute(const FormulaRef& formula, const ExprMap<Expr>& replacements) {
  return index_rewriter([&](Expr e) { return luminal::substitute(e, replacements); })(formula);
}

namespace {
using Pairs = std::set<std::pair<const Formula*, const Formula*>>;
/// `known`: pairs found equal before, so that shared parts are compared once.
bool equal(const FormulaRef& a, const FormulaRef& b, Pairs& known) {
  if (a == b || known.contains({a.get(), b.get()})) return true;
  if (!a || !b) return false;
  const std::span<const FormulaRef> args = args_of(*a), others = args_of(*b);
  if (a->kind.index() != b->kind.index() || a->dtype != b->dtype || args.size() != others.size())
    return false;
  const bool alike = visit(
      *a,
      [&](const FormulaConstant& c) {
        const double other = b->as<FormulaConstant>()->value;
        return c.value == other || (std::isnan(c.value) && std::isnan(other));
      },
      [&](const FormulaOp& op) { return applies(*b, op.op); },
      [&](const FormulaUserOp& op) { return b->as<FormulaUserOp>()->name == op.name; },
      [](const FormulaCast&) { return true; }, [](const FormulaBitcast&) { return true; },
      [&]<class Kind>(const Kind& leaf) { return leaf == *b->as<Kind>(); });
  if (!alike) return false;
  for (size_t i = 0; i < args.size(); i++)
    if (!equal(args[i], others[i], known)) return false;
  if (!args.empty()) known.insert({a.get(), b.get()});
  return true;
}
} // namespace

bool equal(const FormulaRef& a, const FormulaRef& b) {
  Pairs known;
  return equal(a, b, known);
}

void rewrite_stage(Stage& stage, const std::function<FormulaRef(const FormulaRef&)>& change) {
  for (Component& c : stage.components) {
    c.body = change(c.body);
    if (c.init) c.init = change(c.init);
  }
}

void visit_stage(const Stage& stage, const std::function<void(const Formula&)>& see) {
  for (const Component& c : stage.components) {
    visit(c.body, see);
    visit(c.init, see);
  }
}

void substitute_stage(Stage& stage, const ExprMap<Expr>& replacements) {
  auto rewriter = index_rewriter([&](Expr e) { return luminal::substitute(e, replacements); });
  rewrite_stage(stage, [&](const FormulaRef& f) { return rewriter(f); });
  for (Component& c : stage.components)
    for (Expr& e : c.index) e = luminal::substitute(e, replacements);
  stage.domain = luminal::substitute(stage.domain, replacements);
  stage.needed = luminal::substitute(stage.needed, replacements);
}

std::vector<Expr> index_exprs(const FormulaRef& formula) {
  std::vector<Expr> out;
  visit(formula, [&](const Formula& f) {
    const std::span<const Expr> index = index_of(f);
    out.insert(out.end(), index.begin(), index.end());
    if (const Expr guard = guard_of(f); !guard.is_constant(1)) out.push_back(guard);
  });
  return out;
}

std::vector<Expr> index_exprs(const Stage& stage) {
  std::vector<Expr> out{stage.domain};
  for (const Component& c : stage.components) {
    out.insert(out.end(), c.index.begin(), c.index.end());
    for (auto* f : {&c.body, &c.init}) {
      auto part = index_exprs(*f);
      out.insert(out.end(), part.begin(), part.end());
    }
  }
  return out;
}

namespace {
void add_holes(const Cone& cone, std::span<const Expr> exprs, std::vector<HoleId>& out) {
  if (cone.holes.empty()) return;
  for (Expr symbol : symbols_of(exprs))
    for (const HoleId h : cone.holes.ids()) {
      if (cone.holes[h].symbol != symbol || contains(out, h)) continue;
      add_holes(cone, index_exprs(cone.holes[h].value), out);
      if (!contains(out, h)) out.push_back(h);
    }
}
} // namespace

std::vector<HoleId> holes_of(const Cone& cone, std::span<const Expr> exprs) {
  std::vector<HoleId> out;
  add_holes(cone, exprs, out);
  return out;
}

bool varies_with(const Cone& cone, std::span<const Expr> exprs, Expr symbol) {
  const auto one = [&](Expr e) { return depends_on(e, symbol); };
  return std::ranges::any_of(exprs, one) || std::ranges::any_of(holes_of(cone, exprs), [&](HoleId h) {
           return std::ranges::any_of(index_exprs(cone.holes[h].value), one);
         });
}

std::vector<HoleId> holes_of(const Cone& cone, const Stage& stage) {
  return holes_of(cone, index_exprs(stage));
}

} // namespace luminal::kernel
