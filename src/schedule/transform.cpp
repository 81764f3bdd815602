// schedule/transform.cpp -- schedule directives that change the stages: copies, inlined values, fused stages.
// (materialize.cpp: maps that become stages.)
#include "base/check.h"
#include "base/contains.h"
#include "cone/formula.h"
#include "schedule/materialize.h"
#include "schedule/nest.h"
#include <algorithm>
#include <set>

namespace luminal::kernel {
AxisId plain_axis(const Cone& cone, Expr e) {
  for (const AxisId a : cone.axes.ids())
    if (cone.axes[a].symbol == e) return a;
  return {};
}

namespace {

void rewrite_loads(Nests& nests, StageId stage, const std::function<FormulaRef(const FormulaRef&)>& change) {
  FormulaRewriter rewriter([&](const FormulaRef& f) { return load_of(*f) ? change(f) : f; });
  rewrite_stage(nests.cone.stages[stage], [&](const FormulaRef& f) { return rewriter(f); });
}

std::vector<AxisId> sorted(std::vector<AxisId> v) {
  std::ranges::sort(v);
  return v;
}

/// The index of a word of so many elements, where `index` is that of its first one.
std::vector<Expr> word_index(std::vector<Expr> index, int64_t elements) {
  if (elements > 1) index.back() = floordiv(index.back(), elements);
  return index;
}

/// The first of the dimensions of a copy along these axes: neighbours, in this order.
size_t joint_dimensions(const Cone& cone, const ConeValue& copy, std::span<const std::string> axes) {
  size_t begin = 0;
  for (size_t i = 0; i < axes.size(); i++) {
    size_t d = 0;
    while (d < copy.axes.size() && !(copy.axes[d] && cone.axes[copy.axes[d]].name == axes[i])) d++;
    if (d == copy.axes.size()) refuse("{} has no dimension along {}", copy.name, axes[i]);
    if (i > 0 && d != begin + i) refuse("dimensions of {} that are one are neighbours", copy.name);
    if (i == 0) begin = d;
  }
  return begin;
}

/// An index in a box of these extents, of which `count` dimensions are one.
std::vector<Expr> as_one(const std::vector<Expr>& index, const std::vector<Expr>& extents, size_t begin,
                         size_t count) {
  if (count == 0) return index;
  std::vector<Expr> out(index.begin(), index.begin() + long(begin));
  Expr place = 0;
  for (size_t d = begin; d < begin + count; d++) place = place * extents[d] + index[d];
  out.push_back(place);
  out.insert(out.end(), index.begin() + long(begin + count), index.end());
  return out;
}

bool writes(const Stage& stage, ValueId value) {
  return std::ranges::any_of(stage.components, [&](auto& c) { return c.out == value; });
}

bool reads(const Nests& nests, StageId stage, ValueId value) {
  auto readers = nests.readers(value);
  return contains(readers, stage);
}

} // namespace

void insert_copy(Nests& nests, StageId before, Stage stage) {
  for (AxisId a : stage.axes)
    if (nests.beyond.contains(a))
      refuse("the parts along {} go beyond the end of what was split: a copy would, too",
             nests.cone.axes[a].name);
  visit_loads(stage, [&](const FormulaLoad& f) {
    for (StageId s = before; s < nests.cone.stages.end_id(); ++s)
      if (writes(nests.cone.stages[s], f.value))
        refuse("stage {} writes {} behind a copy of it: readers would see what it was before",
               nests.cone.stages[s].name, nests.cone.values[f.value].name);
    for (const Stage& maker : nests.cone.stages)
      for (const Component& c : maker.components)
        if (c.out == f.value && !(maker.needed.is_constant(1) &&
                                  (maker.domain.is_constant(1) || c.kind != ComponentKind::map || c.after)))
          refuse("{} is made only where stage {} needs it: a copy would read what nobody wrote",
                 nests.cone.values[f.value].name, maker.name);
  });
  StageNest nest = nests.fresh(stage);
  nests.insert_stage(before, std::move(stage), std::move(nest));
}

void stage_copy(Nests& nests, const std::string& value, const std::string& copy,
                std::span<const std::string> joint) {
  ValueId v = nests.value(value);
  for (auto& other : nests.cone.values)
    LUMINAL_CHECK(other.name != copy, "there is already a value {}", copy);
  ConeValue c = nests.cone.values[v];
  std::vector<StageId> readers;
  std::vector<Expr> index;
  int64_t word = 0; // elements that are read at once: the copy holds them as one
  for (const StageId s : nests.cone.stages.ids()) {
    bool here = false;
    visit_loads(nests.cone.stages[s], [&](const FormulaLoad& f, DType dtype) {
      if (f.value != v) return;
      const DType own = nests.cone.values[v].dtype;
      const int64_t elements = bits(dtype) / bits(own);
      const bool alone = dtype == own;
      const bool words = !alone && elements > 1 && c.layout.empty() && !f.index.empty() &&
                         proves_equal(mod(c.shape.back(), elements), 0) &&
                         proves_equal(mod(f.index.back(), elements), 0);
      if (!(alone || words) || (word && word != elements))
        refuse("{} is read as {}: a copy would not hold its bytes", value, luminal::to_string(dtype));
      here = true;
      if (word) return;
      word = elements;
      index = word_index(f.index, word);
      c.dtype = dtype;
    });
    if (here) readers.push_back(s);
  }
  if (readers.empty()) refuse("no stage reads {}", value);
  c.name = copy;
  c.role = ValueRole::interior;
  c.layout.clear();
  c.shape = word_index(c.shape, word);
  c.axes.assign(c.shape.size(), AxisId());
  Stage stage;
  stage.name = nests.free_stage_name(copy);
  Component part;
  part.dtype = c.dtype;
  // The copy runs over the axes at which it is read; a dimension that is read otherwise gets an
  // axis of its own.
  for (size_t d = 0; d < c.shape.size(); d++) {
    if (c.shape[d].is_constant(1)) {
      part.index.push_back(0);
      continue;
    }
    AxisId axis = d < index.size() ? plain_axis(nests.cone, index[d]) : AxisId();
    bool fresh =
        !axis || !proves_equal(nests.cone.axes[axis].extent, c.shape[d]) || contains(stage.axes, axis);
    if (fresh) {
      std::string name = nests.free_name(copy + "_" + std::to_string(d));
      Interval range = c.shape[d].range();
      axis = nests.cone.axes.add(
          {name, c.shape[d],
           Expr::symbol(name, {0, range.high == unbounded_high ? range.high : range.high - 1})});
    }
    c.axes[d] = axis;
    part.index.push_back(nests.cone.axes[axis].symbol);
    stage.axes.push_back(axis);
  }
  const std::vector<Expr> extents = c.shape;
  const size_t begin = joint_dimensions(nests.cone, c, joint);
  if (!joint.empty()) {
    c.shape.erase(c.shape.begin() + long(begin) + 1, c.shape.begin() + long(begin + joint.size()));
    for (size_t d = begin + 1; d < begin + joint.size(); d++) c.shape[begin] = c.shape[begin] * extents[d];
    c.axes.erase(c.axes.begin() + long(begin), c.axes.begin() + long(begin + joint.size()) - 1);
    c.axes[begin] = AxisId();
  }
  ValueId cv = nests.add_value(c);
  part.out = cv;
  part.axes = sorted(stage.axes);
  std::vector<Expr> first = part.index;
  if (word > 1) first.back() = first.back() * word;
  part.body = formula_load(v, c.dtype, first);
  part.index = as_one(part.index, extents, begin, joint.size());
  stage.components.push_back(part);
  for (StageId r : readers)
    rewrite_loads(nests, r, [&](const FormulaRef& f) {
      const FormulaLoad& load = *load_of(*f);
      if (load.value != v) return f;
      return formula_load(cv, f->dtype, as_one(word_index(load.index, word), extents, begin, joint.size()),
                          load.guard);
    });
  insert_copy(nests, readers[0], std::move(stage));
}

void operand(Nests& nests, const std::string& name, const std::string& axis, const std::string& value) {
  const StageId s = nests.stage(name);
  Stage& reader = nests.cone.stages[s];
  const auto along = std::ranges::find(nests.cone.axes, axis, &ConeAxis::name);
  if (along == nests.cone.axes.end()) refuse("there is no axis {}", axis);
  for (auto& other : nests.cone.values)
    LUMINAL_CHECK(other.name != value, "there is already a value {}", value);
  if (!std::all_of(reader.components.begin() + 1, reader.components.end(),
                   [](const Component& c) { return c.after; }) ||
      reader.components[0].kind != ComponentKind::fold || !applies(*reader.components[0].body, Op::mul))
    refuse("stage {} is not a sum of products", name);
  const FormulaRef body = reader.components[0].body;
  const std::span<const FormulaRef> args = args_of(*body);
  const auto varies = [&](const FormulaRef& f, Expr symbol) {
    return std::ranges::any_of(index_exprs(f), [&](Expr e) { return depends_on(e, symbol); });
  };
  std::optional<size_t> side;
  for (size_t a : {0, 1}) {
    if (varies(args[a], along->symbol)) continue;
    if (side) refuse("no factor of stage {} varies with {}", name, axis);
    side = a;
  }
  if (!side) refuse("both factors of stage {} vary with {}", name, axis);
  const FormulaRef& factor = args[*side];
  if (!holes_of(nests.cone, index_exprs(factor)).empty())
    refuse("a factor of stage {} is found through indices from memory", name);
  ConeValue v = interior_value(value, factor->dtype);
  Stage stage;
  stage.name = nests.free_stage_name(value);
  Component part;
  part.dtype = v.dtype;
  part.body = factor;
  for (AxisId a : reader.axes) {
    const ConeAxis& own = nests.cone.axes[a];
    if (!own.symbol.is_symbol() || !varies(factor, own.symbol)) continue;
    v.axes.push_back(a);
    v.shape.push_back(own.extent);
    part.index.push_back(own.symbol);
    stage.axes.push_back(a);
  }
  if (stage.axes.empty()) refuse("a factor of stage {} is the same everywhere", name);
  part.axes = sorted(stage.axes);
  part.out = nests.add_value(v);
  std::vector<FormulaRef> factors(args.begin(), args.end());
  factors[*side] = formula_load(part.out, v.dtype, part.index);
  reader.components[0].body = formula_op(Op::mul, std::move(factors));
  stage.components.push_back(std::move(part));
  insert_copy(nests, s, std::move(stage));
}

void move_before(Nests& nests, const std::string& name, const std::string& next) {
  const StageId s = nests.stage(name), first = nests.stage(next);
  if (s <= first) refuse("stage {} stands in front of {} already", name, next);
  Stage stage = nests.cone.stages[s];
  StageNest nest = nests.stages[s];
  if (!nest.at.empty()) refuse("stage {} has its place in loop {}", name, nest.at);
  for (StageId t = first; t < s; t++) {
    const Stage& passed = nests.cone.stages[t];
    if (nest.cascade != 0 && nests.stages[t].cascade == nest.cascade)
      refuse("stages {} and {} are steps of one cascade", passed.name, name);
    for (const Component& c : passed.components)
      if (const auto readers = c.out ? nests.readers(c.out) : std::vector<StageId>{};
          std::ranges::find(readers, s) != readers.end() || (c.out && writes(stage, c.out)))
        refuse("stage {} needs what {} makes", name, passed.name);
    for (const Component& c : stage.components)
      if (const auto readers = c.out ? nests.readers(c.out) : std::vector<StageId>{};
          std::ranges::find(readers, t) != readers.end())
        refuse("stage {} reads what {} replaces", passed.name, name);
  }
  nests.erase_stage(s);
  nests.insert_stage(first, std::move(stage), std::move(nest));
}

void inline_value(Nests& nests, const std::string& value) {
  ValueId v = nests.value(value);
  if (nests.cone.values[v].role != ValueRole::interior) refuse("{} is stored outside of the kernel", value);
  StageId w = nests.writer(v);
  const Stage& stage = nests.cone.stages[w];
  if (stage.components.size() != 1 || stage.components[0].kind != ComponentKind::map ||
      stage.components[0].after)
    refuse("{} is not a plain map", value);
  for (const StageId s : nests.cone.stages.ids())
    if (s != w && writes(nests.cone.stages[s], v)) refuse("{} is written by two stages", value);
  Component c = stage.components[0];
  std::vector<std::pair<Expr, size_t>> axes;
  for (size_t d = 0; d < c.index.size(); d++) {
    if (c.index[d].is_constant(0)) continue;
    if (!plain_axis(nests.cone, c.index[d])) refuse("{} is not written at plain axes", value);
    axes.push_back({c.index[d], d});
  }
  auto change = [&](const FormulaRef& f) {
    const FormulaLoad* load = load_of(*f);
    if (!load || load->value != v) return f;
    ExprMap<Expr> map;
    for (auto& [axis, d] : axes) map[axis] = load->index[d];
    FormulaRef body = substitute(c.body, map);
    if (load->guard.is_constant(1)) return body;
    return formula_op(Op::select, {formula_index(load->guard, DType::boolean), guarded(body, load->guard),
                                   formula_constant(body->dtype, 0)});
  };
  for (StageId r : nests.readers(v)) rewrite_loads(nests, r, change);
  for (auto& h : nests.cone.holes)
    h.value = FormulaRewriter([&](const FormulaRef& f) { return change(f); })(h.value);
  nests.erase_stage(w);
}

namespace {

/// Two folds over one space (sibling products) were given reduced axes of their own: those of the
/// second become those of the first.
void share_reduced_axes(const Nests& nests, const Stage& first, Stage& second) {
  auto only = [](const Stage& a, const Stage& b) {
    std::vector<AxisId> out;
    for (AxisId axis : a.axes)
      if (!contains(b.axes, axis)) out.push_back(axis);
    return out;
  };
  std::vector<AxisId> from = only(second, first), to = only(first, second);
  if (from.empty() || from.size() != to.size() || first.monoid || second.monoid) return;
  auto folds_away = [](const Stage& s, AxisId axis) {
    return std::ranges::all_of(
        s.components, [&](auto& c) { return c.kind == ComponentKind::fold && !contains(c.axes, axis); });
  };
  ExprMap<Expr> names;
  for (size_t i = 0; i < from.size(); i++) {
    const ConeAxis &old = nests.cone.axes[from[i]], &axis = nests.cone.axes[to[i]];
    if (!folds_away(second, from[i]) || !folds_away(first, to[i]) || !proves_equal(old.extent, axis.extent))
      return;
    if (!old.symbol.is_symbol()) continue; // one element: words that were the whole axis
    for (auto& hole : nests.cone.holes)
      for (Expr e : index_exprs(hole.value))
        if (depends_on(e, old.symbol)) return;
    names[old.symbol] = axis.symbol;
  }
  substitute_stage(second, names);
  for (AxisId& axis : second.axes)
    if (auto found = std::ranges::find(from, axis); found != from.end())
      axis = to[size_t(found - from.begin())];
}

} // namespace

void fuse(Nests& nests, const std::string& name, const std::string& next) {
  StageId a = nests.stage(name), b = nests.stage(next);
  if (a >= b) refuse("{} does not come before {}", name, next);
  Stage first = nests.cone.stages[a], second = nests.cone.stages[b];
  share_reduced_axes(nests, first, second);
  for (auto* s : {&first, &second})
    for (auto& c : s->components)
      if ((c.kind == ComponentKind::scan && s == &second) || c.kind == ComponentKind::update)
        refuse("stage {} keeps its own nest", s->name);
  // Indices are read before the points of the joint stage: from memory, where nothing of it is yet.
  for (const HoleId h : holes_of(nests.cone, second))
    visit_loads(nests.cone.holes[h].value, [&](const FormulaLoad& f) {
      for (const Component& c : first.components)
        if (c.out && c.out == f.value)
          refuse("stage {} takes an index from {} before it is written", next,
                 nests.cone.values[f.value].name);
    });
  // Where the joint stage stands: nothing that it reads may come later, nothing that reads it
  // earlier.
  bool up = true, down = true;
  for (StageId s = a + 1; s < b; s++) {
    for (auto& c : nests.cone.stages[s].components)
      if (c.out && reads(nests, b, c.out)) up = false;
    for (auto& c : first.components)
      if (c.out && (reads(nests, s, c.out) || writes(nests.cone.stages[s], c.out))) down = false;
    for (auto& c : second.components)
      if (c.out && (reads(nests, s, c.out) || writes(nests.cone.stages[s], c.out))) up = false;
  }
  if (!up && !down) refuse("another stage stands between {} and {}", name, next);

  const auto finishes = [](const Component& c) {
    return c.kind == ComponentKind::fold || c.kind == ComponentKind::scan;
  };
  const bool folds = std::ranges::any_of(first.components, finishes);
  bool maps = std::ranges::all_of(second.components,
                                  [](auto& c) { return c.kind == ComponentKind::map && !c.after; });
  int shift = int(first.components.size());
  bool epilogue = folds && maps;
  if (epilogue) {
    for (auto& c : first.components)
      if (finishes(c) && sorted(c.axes) != sorted(second.axes)) epilogue = false;
    if (epilogue && first.scan_axis && !second.domain.is_constant(1)) epilogue = false;
  }
  if (first.scan_axis && !epilogue) refuse("stage {} keeps its own nest", name);
  if (!epilogue && sorted(first.axes) != sorted(second.axes))
    refuse("stages {} and {} run over different axes", name, next);
  if (!epilogue) {
    if (second.monoid) refuse("stage {} is a tuple", next);
    if (first.domain != second.domain &&
        std::ranges::any_of(first.components, [](auto& c) { return c.kind == ComponentKind::fold; }))
      refuse("stages {} and {} have different domains", name, next);
    if (first.monoid && !second.domain.is_constant(1) && first.domain != second.domain)
      refuse("stages {} and {} have different domains", name, next);
    if (!second.domain.is_constant(1) && first.domain != second.domain)
      for (const Component& c : first.components) // has elements where the domain holds alone from now on
        if (c.out && (nests.cone.values[c.out].role != ValueRole::interior ||
                      !read_within(nests.cone, c, second.domain, a, b)))
          refuse("{} is needed where stage {} has no element", nests.cone.values[c.out].name, next);
  }
  Stage joint = first;
  if (!epilogue) joint.domain = second.domain;
  for (Component c : second.components) {
    FormulaRewriter rewriter([&](const FormulaRef& f) -> FormulaRef {
      if (const auto* part = f->as<FormulaComponent>())
        return formula_component(part->number + shift, f->dtype);
      if (!f->origin.empty() && !epilogue) // what the first stage computes already
        for (size_t i = 0; i < first.components.size(); i++) {
          const Component& p = first.components[i];
          if (p.kind == ComponentKind::map && !p.after && p.body->origin == f->origin && p.body->at == f->at)
            return formula_component(int(i), f->dtype);
        }
      const FormulaLoad* load = load_of(*f);
      if (!load) return f;
      for (size_t i = 0; i < first.components.size(); i++) {
        const Component& p = first.components[i];
        if (!p.out || p.out != load->value) continue;
        if (load->index != p.index || !load->guard.is_constant(1))
          refuse("stage {} reads {} at other points", next, nests.cone.values[load->value].name);
        bool in_loop = p.kind == ComponentKind::map && !p.after;
        if (epilogue == in_loop)
          refuse("stage {} reads {} before it is finished", next, nests.cone.values[load->value].name);
        if (!epilogue && !in_loop)
          refuse("stage {} reads {} before it is finished", next, nests.cone.values[load->value].name);
        return formula_component(int(i), f->dtype);
      }
      return f;
    });
    c.body = rewriter(c.body);
    if (c.init) c.init = rewriter(c.init);
    if (epilogue) c.after = true;
    joint.components.push_back(std::move(c));
  }
  StageNest nest = nests.stages[a];
  if (down && !up) nest.at = nests.stages[b].at;
  nests.erase_stage(b);
  nests.erase_stage(a);
  StageId where = up ? a : b - 1;
  nests.insert_stage(where, joint, nest);
  // Results that nobody else reads need no memory.
  for (auto& c : nests.cone.stages[where].components)
    if (c.out && nests.cone.values[c.out].role == ValueRole::interior && nests.readers(c.out).empty())
      c.out = {};
}

bool has_barriers(const Kernel& kernel) {
  const auto any = [](const auto& self, const Body& body) -> bool {
    return std::ranges::any_of(body, [&](const StmtRef& s) {
      if (const auto* barrier = s->as<Barrier>()) return barrier->level == 0;
      return std::ranges::any_of(bodies_of(*s), [&](const Body* inside) { return self(self, *inside); });
    });
  };
  return any(any, kernel.body);
}

} // namespace luminal::kernel
