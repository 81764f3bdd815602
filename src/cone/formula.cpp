// cone/formula.cpp -- making, walking and rewriting formulas.
#include "cone/formula.h"
#include "base/check.h"
#include "base/contains.h"
#include "base/hash.h"
#include "cone/conversion.h"
#include "ir/identity.h"
#include <algorithm>
#include <bit>
#include <cmath>
#include <set>

namespace luminal::kernel {
namespace {
FormulaRef make(Formula formula) { return std::make_shared<const Formula>(std::move(formula)); }
/// A constant of a scalar program: its infinities are the ends of a type that has none.
FormulaRef program_constant(DType dtype, double value) {
  const bool end = is_float(dtype) && std::isinf(value);
  return formula_constant(dtype, end ? std::copysign(greatest(dtype), value) : value);
}
} // namespace

FormulaRef formula_constant(DType dtype, double value) {
  // Of an integer type an infinity is the greatest or the least value, which a double need not
  // hold.
  if (is_integer(dtype) && std::isinf(value)) return formula_index(Expr(truncate_to(dtype, value)), dtype);
  Formula f{FormulaKind::constant, dtype};
  f.constant = value;
  return make(std::move(f));
}

FormulaRef formula_index(Expr value, DType dtype) {
  // Small integers are constants; larger ones stay expressions, which hold 64 bits.
  constexpr int64_t large = int64_t{1} << 53;
  if (value.is_constant() && -large < value.value() && value.value() < large && !is_float(dtype))
    return formula_constant(dtype, dtype == DType::boolean ? value.value() != 0 : double(value.value()));
  Formula f{FormulaKind::index, dtype};
  f.index = {value};
  return make(std::move(f));
}

FormulaRef formula_load(int value, DType dtype, std::vector<Expr> index, Expr guard) {
  Formula f{FormulaKind::load, dtype};
  f.value = value;
  f.index = std::move(index);
  f.guard = guard;
  return make(std::move(f));
}

FormulaRef guarded(const FormulaRef& formula, Expr guard) {
  return FormulaRewriter([&](const FormulaRef& f) {
    if (f->kind != FormulaKind::load) return f;
    return formula_load(f->value, f->dtype, f->index, logical_and(f->guard, guard));
  })(formula);
}

const Formula* converted_load(const Formula& formula) {
  const Formula* f = &formula;
  while (f->kind == FormulaKind::cast) f = f->args[0].get();
  return f->kind == FormulaKind::load ? f : nullptr;
}

FormulaRef formula_op(Op op, std::vector<FormulaRef> args) {
  DType types[3] = {};
  for (size_t i = 0; i < args.size() && i < 3; i++) types[i] = args[i]->dtype;
  std::string why;
  auto result = result_type(row(op), types, &why);
  LUMINAL_CHECK(result.has_value(), "{} in a formula: {}", row(op).name, why);
  Formula f{FormulaKind::op, *result};
  f.op = op;
  f.args = std::move(args);
  return make(std::move(f));
}

FormulaRef formula_user_op(const std::string& name, DType dtype, std::vector<FormulaRef> args) {
  Formula f{FormulaKind::op, dtype};
  f.user_op = name;
  f.args = std::move(args);
  return make(std::move(f));
}

FormulaRef formula_cast(DType to, FormulaRef x) {
  if (x->dtype == to) return x;
  Formula f{FormulaKind::cast, to};
  f.args = {std::move(x)};
  return make(std::move(f));
}

FormulaRef formula_bitcast(DType to, FormulaRef x) {
  if (x->dtype == to) return x;
  LUMINAL_CHECK(bits(to) == bits(x->dtype), "bitcast of {} to {}", luminal::to_string(x->dtype),
                luminal::to_string(to));
  Formula f{FormulaKind::bitcast, to};
  f.args = {std::move(x)};
  return make(std::move(f));
}

FormulaRef formula_component(int component, DType dtype) {
  Formula f{FormulaKind::component, dtype};
  f.component = component;
  return make(std::move(f));
}

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

bool is_constant(const FormulaRef& formula, double value) {
  return formula->kind == FormulaKind::constant && formula->constant == value;
}

namespace {
void visit_once(const FormulaRef& formula, const std::function<void(const Formula&)>& see,
                std::set<const Formula*>& seen) {
  // (What has one owner is come to once.)
  if (!formula || (formula.use_count() > 1 && !seen.insert(formula.get()).second)) return;
  for (auto& a : formula->args) visit_once(a, see, seen);
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
  std::vector<FormulaRef> args;
  bool same = true;
  for (auto& a : formula->args) {
    args.push_back((*this)(a));
    same &= args.back() == a;
  }
  FormulaRef next = formula;
  if (!same) {
    Formula copy = *formula;
    copy.args = std::move(args);
    next = make(std::move(copy));
  }
  next = change_(next);
  done_.emplace(formula.get(), std::pair{formula, next});
  return next;
}

/// Of a node whose arguments are known ones: they are told apart by their addresses.
FormulaRef SharedFormulas::known(const FormulaRef& formula) {
  const Formula& f = *formula;
  Hasher hash;
  hash.add(f.kind).add(f.dtype).add(f.op).add(f.value).add(f.component).add(f.guard.hash());
  for (Expr e : f.index) hash.add(e.hash());
  for (const FormulaRef& a : f.args) hash.add(uint64_t(reinterpret_cast<uintptr_t>(a.get())));
  std::vector<FormulaRef>& same = nodes_[hash.value64()];
  for (const FormulaRef& other : same) {
    const Formula& o = *other;
    if (o.kind == f.kind && o.dtype == f.dtype && o.op == f.op && o.user_op == f.user_op &&
        o.value == f.value && o.component == f.component && o.guard == f.guard && o.index == f.index &&
        o.args == f.args && std::bit_cast<uint64_t>(o.constant) == std::bit_cast<uint64_t>(f.constant))
      return other;
  }
  same.push_back(formula);
  return formula;
}

FormulaRef SharedFormulas::operator()(const FormulaRef& formula) {
  return FormulaRewriter([&](const FormulaRef& f) { return known(f); })(formula);
}

FormulaRewriter index_rewriter(std::function<Expr(Expr)> change) {
  return FormulaRewriter([change = std::move(change)](const FormulaRef& f) -> FormulaRef {
    if (f->index.empty() && f->at.empty() && f->guard.is_constant(1)) return f;
    Formula copy = *f;
    for (Expr& e : copy.index) e = change(e);
    for (Expr& e : copy.at) e = change(e);
    copy.guard = change(copy.guard);
    if (copy.index == f->index && copy.at == f->at && copy.guard == f->guard) return f;
    if (copy.kind == FormulaKind::index) {
      auto folded = formula_index(copy.index[0], copy.dtype);
      if (folded->kind == FormulaKind::constant) return folded;
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
  if (a->kind != b->kind || a->dtype != b->dtype || a->value != b->value || a->component != b->component ||
      a->index != b->index || a->guard != b->guard || a->user_op != b->user_op ||
      a->args.size() != b->args.size())
    return false;
  if (a->kind == FormulaKind::op && a->op != b->op) return false;
  if (a->kind == FormulaKind::constant &&
      !(a->constant == b->constant || (a->constant != a->constant && b->constant != b->constant)))
    return false;
  for (size_t i = 0; i < a->args.size(); i++)
    if (!equal(a->args[i], b->args[i], known)) return false;
  if (!a->args.empty()) known.insert({a.get(), b.get()});
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
    out.insert(out.end(), f.index.begin(), f.index.end());
    if (!f.guard.is_constant(1)) out.push_back(f.guard);
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
void add_holes(const Cone& cone, std::span<const Expr> exprs, std::vector<int>& out) {
  if (cone.holes.empty()) return;
  for (Expr symbol : symbols_of(exprs))
    for (size_t h = 0; h < cone.holes.size(); h++) {
      if (cone.holes[h].symbol != symbol || contains(out, int(h))) continue;
      add_holes(cone, index_exprs(cone.holes[h].value), out);
      if (!contains(out, int(h))) out.push_back(int(h));
    }
}
} // namespace

std::vector<int> holes_of(const Cone& cone, std::span<const Expr> exprs) {
  std::vector<int> out;
  add_holes(cone, exprs, out);
  return out;
}

bool varies_with(const Cone& cone, std::span<const Expr> exprs, Expr symbol) {
  const auto one = [&](Expr e) { return depends_on(e, symbol); };
  return std::ranges::any_of(exprs, one) || std::ranges::any_of(holes_of(cone, exprs), [&](int h) {
           return std::ranges::any_of(index_exprs(cone.holes[size_t(h)].value), one);
         });
}

std::vector<int> holes_of(const Cone& cone, const Stage& stage) { return holes_of(cone, index_exprs(stage)); }

} // namespace luminal::kernel
