// rules/region_loops.cpp -- reads the rows below the roots into flat arrays.
#include "rules/region_loops.h"
#include "base/check.h"
#include "ir/user_ops.h"
#include "rules/fold_domain.h"
#include <algorithm>
#include <bit>
#include <cmath>
#include <fmt/format.h>

namespace luminal::rules {

using egraph::absent;
using egraph::no_row;
using egraph::OpId;
using egraph::RowView;

namespace {

/// Columns of payloads come first, classes after them.
size_t payload_columns(const RegionTerms& terms, OpId op) {
  const RegionTerms::Ops& ops = terms.ops();
  if (terms.row_of(op)) return 0;
  return op == ops.fold || op == ops.scan || op == ops.extent ? 2 : 1;
}

bool is_term(const RegionTerms& terms, OpId op) {
  const RegionTerms::Ops& o = terms.ops();
  return terms.row_of(op) || op == o.in || op == o.par || op == o.number || op == o.index || op == o.cast ||
         op == o.extent || op == o.op || op == o.view || op == o.fold || op == o.scan || op == o.get ||
         op == o.opaque || op == o.opaque_tuple;
}

using Key = std::vector<uint32_t>;
Key key_of(RegionTerms& terms, OpId op, std::span<const Value> payload, std::span<const ClassId> operands) {
  Key key{op};
  key.insert(key.end(), payload.begin(), payload.end());
  for (const ClassId c : operands) key.push_back(terms.graph().find(c));
  return key;
}

} // namespace

LoopAxes LoopView::through(LoopAxes axes) const {
  LoopAxes out = axes & ~replaced;
  for (const auto& [axis, reads] : index)
    if (axes & axis) out |= reads;
  return out | condition;
}

LoopAxes LoopView::loops_inside(LoopAxes loops) const {
  LoopAxes out = loops & ~replaced;
  for (const auto& [axis, reads] : index)
    if (loops & (reads | condition)) out |= axis;
  return out;
}

WrittenTerms::WrittenTerms(RegionTerms& terms) {
  egraph::EGraph& graph = terms.graph();
  for (OpId op = 0; op < graph.op_count(); ++op) {
    if (!graph.op(op).constructor || !is_term(terms, op)) continue;
    graph.for_each_row(op, [&](const RowView& row) {
      const auto payload = row.args().first(payload_columns(terms, op));
      Row& made = rows.emplace_back(Row{op, row.out(), {payload.begin(), payload.end()}, {}});
      for_each_operand(terms, row, [&](ClassId c) { made.operands.push_back(c); });
      return true;
    });
  }
  std::ranges::sort(rows, {}, &Row::out); // operands before their readers
}

RegionLoops::RegionLoops(RegionTerms& of_terms, const Entered& entered, const WrittenTerms& written_terms,
                         const std::function<double(Expr)>& extent)
    : terms(of_terms), extent_(extent) {
  egraph::EGraph& graph = terms.graph();
  graph.rebuild();
  egraph::EngineProblemOptions options;
  options.cost = [&](const RowView& row) { return is_term(terms, row.op) ? 1.0 : egraph::infinite_cost; };
  options.contents = [&](egraph::SortId, Value v, std::vector<ClassId>& out) {
    const auto items = terms.items(v);
    out.insert(out.end(), items.begin(), items.end());
  };
  std::vector<ClassId> roots;
  for (const NodeId root : entered.roots) roots.push_back(graph.find(entered.classes[root]));
  engine = egraph::engine_problem(graph, roots, options);
  number_of_.assign(graph.class_count(), no_row);
  for (uint32_t c = 0; c < engine.class_of.size(); ++c) number_of_[engine.class_of[c]] = c;
  is_root.assign(problem().class_count(), 0);
  for (const uint32_t c : problem().roots()) is_root[c] = 1;
  read_kinds();
  if (!why_.empty()) return;
  find_written(written_terms);
  if (!why_.empty()) return;
  find_axes();
  find_sizes();
  find_static();
  read_tuples();
  find_deep();
  find_twins();
}

RowView RegionLoops::row_view(uint32_t r) const {
  const auto [op, id] = engine.engine_rows[problem().source(r)];
  return terms.graph().row(op, id);
}

uint32_t RegionLoops::number_of(ClassId c) const {
  const ClassId leader = terms.graph().find(c);
  return leader < number_of_.size() ? number_of_[leader] : no_row;
}

Choice RegionLoops::choice(const egraph::Genome& genome) const {
  Choice out;
  out.rows.resize(terms.graph().class_count());
  for (uint32_t c = 0; c < genome.size(); ++c) {
    if (genome[c] == no_row) continue;
    const auto [op, id] = engine.chosen(genome, c);
    out.rows[engine.class_of[c]] = {op, id};
  }
  return out;
}

double RegionLoops::volume(LoopAxes set) const {
  double out = 1;
  for (; set; set &= set - 1) out *= extents[size_t(std::countr_zero(set))];
  return out;
}

double RegionLoops::tiles(LoopAxes set, double tile) const {
  double out = 1;
  for (; set; set &= set - 1) out *= std::max(1.0, std::ceil(extents[size_t(std::countr_zero(set))] / tile));
  return out;
}

LoopAxes RegionLoops::set_of(const AxisSet& set) {
  LoopAxes out = 0;
  bit_of_.resize(terms.axes.size(), absent);
  set.for_each([&](AxisId a) {
    if (bit_of_[a] == absent) {
      bit_of_[a] = uint32_t(extents.size());
      extents.push_back(std::max(1.0, extent_(terms.axes.extent(a))));
    }
    if (bit_of_[a] < most_loop_axes) out |= LoopAxes(1) << bit_of_[a];
  });
  return out;
}

// ---- rows

/// A product with an entry of a constant matrix, or a choice by one: known where the sum is written out.
bool RegionLoops::is_written_out(uint32_t r) const {
  if (terms.tilings.size() == 0) return false;
  return std::ranges::any_of(problem().children(r), [&](uint32_t x) {
    for (uint32_t k = problem().first_row(x); k < problem().end_row(x); ++k)
      if (const RowView view = row_view(k); view.op == terms.ops().index) {
        const AxisSet read = terms.axes.read_by(terms.iotas[view.args()[0]].value);
        for (uint32_t t = 0; t < terms.tilings.size(); ++t)
          if (read.contains(terms.tilings[t].point)) return true;
      }
    return false;
  });
}

void RegionLoops::read_kinds() {
  const RegionTerms::Ops& ops = terms.ops();
  rows.resize(problem().row_count());
  leaf_of_.assign(rows.size(), absent);
  is_tuple.assign(problem().class_count(), 0);
  for (uint32_t r = 0; r < rows.size(); ++r) {
    const RowView view = row_view(r);
    const auto args = view.args();
    LoopRow& row = rows[r];
    if (view.op == ops.in || view.op == ops.par) {
      row.kind = LoopKind::input;
      leaf_of_[r] = args[0];
      set_of(terms.leaves[args[0]].form.set());
    } else if (view.op == ops.number || view.op == ops.index || view.op == ops.extent) {
      row.kind = LoopKind::constant;
      if (view.op == ops.index) set_of(terms.axes.read_by(terms.iotas[args[0]].value));
    } else if (view.op == ops.view) {
      row.kind = LoopKind::view;
      row.index = uint32_t(views.size());
      const Place& place = terms.places[args[0]];
      LoopView& made = views.emplace_back();
      for (const auto& [axis, e] : place.index) {
        AxisSet one;
        one.insert(axis);
        made.index.emplace_back(set_of(one), set_of(terms.axes.read_by(e)));
        made.replaced |= made.index.back().first;
      }
      made.condition = set_of(terms.axes.read_by(place.predicate));
    } else if (view.op == ops.fold || view.op == ops.scan) {
      row.kind = view.op == ops.fold ? LoopKind::fold : LoopKind::scan;
      is_tuple[problem().class_of(r)] = 1;
      AxisSet over;
      if (view.op == ops.fold)
        over = terms.sets[args[1]];
      else
        over.insert(terms.alongs[args[1]].axis);
      row.over = set_of(over);
      for (uint32_t t = 0; t < terms.tilings.size(); ++t)
        row.written_out |= over.contains(terms.tilings[t].sample) || over.contains(terms.tilings[t].point);
    } else if (view.op == ops.get) {
      row.kind = LoopKind::get;
      row.index = uint32_t(terms.integer_of(args[0]));
    } else if (view.op == ops.opaque || view.op == ops.opaque_tuple) {
      row.kind = LoopKind::opaque;
      is_tuple[problem().class_of(r)] = view.op == ops.opaque_tuple;
      for (const uint32_t form : terms.payloads[args[0]].results)
        if (form != absent) set_of(terms.forms[form].set());
    } else {
      row.kind = LoopKind::map;
      row.steps = 1;
      if (const auto op = terms.row_of(view.op)) {
        row.steps = is_written_out(r) ? 0 : luminal::row(*op).vector_cost;
        row.compares = *op == Op::eq || *op == Op::lt || *op == Op::le;
      } else if (view.op == ops.op)
        if (const auto* map = std::get_if<MapAttr>(&terms.payloads[args[0]].attr))
          row.steps = map->user_op.empty() ? luminal::row(map->op).vector_cost : 8;
    }
  }
  if (extents.size() > most_loop_axes)
    why_ = fmt::format("{} axes, more than {}", extents.size(), most_loop_axes);
}

void RegionLoops::find_written(const WrittenTerms& written_terms) {
  std::map<Key, uint32_t> by_key;
  for (uint32_t r = 0; r < rows.size(); ++r) {
    const RowView view = row_view(r);
    std::vector<ClassId> operands;
    for_each_operand(terms, view, [&](ClassId c) { operands.push_back(c); });
    by_key.emplace(key_of(terms, view.op, view.args().first(payload_columns(terms, view.op)), operands), r);
  }
  const egraph::TreeExtraction tree = egraph::extract_tree(problem());
  if (!tree.feasible()) {
    why_ = "a value without a term";
    return;
  }
  written.assign(problem().class_count(), no_row);
  for (const WrittenTerms::Row& row : written_terms.rows) {
    const uint32_t c = number_of(row.out);
    if (c == no_row || written[c] != no_row) continue;
    const auto found = by_key.find(key_of(terms, row.op, row.payload, row.operands));
    if (found != by_key.end() && problem().class_of(found->second) == c) written[c] = found->second;
  }
  // What rules have made has no written term; where a rule has subsumed one, the least tree stands in.
  for (const uint32_t c : tree.order)
    if (written[c] == no_row) written[c] = tree.genome[c];
  egraph::Evaluator evaluator(problem());
  if (!evaluator.evaluate(written).valid()) written = tree.genome;
}

// ---- what each class varies with

LoopAxes RegionLoops::axes_of_component(uint32_t tuple_row, uint32_t which) const {
  const RowView view = row_view(tuple_row);
  const RegionTerms::Ops& ops = terms.ops();
  LoopAxes out = 0;
  if (view.op == ops.opaque_tuple) {
    const uint32_t form = terms.payloads[view.args()[0]].results[which];
    if (form == absent) return 0;
    for (const AxisId a : terms.forms[form].axes) out |= LoopAxes(1) << bit_of_[a];
    return out;
  }
  const Monoid monoid = terms.monoid_of(view.args()[0]);
  const auto bodies = problem().children(tuple_row);
  out = axes[bodies[which]];
  for (const int j : monoid.dependencies(int(which))) out |= axes[bodies[size_t(j)]];
  return rows[tuple_row].kind == LoopKind::fold ? out & ~rows[tuple_row].over : out | rows[tuple_row].over;
}

LoopAxes RegionLoops::axes_of_row(uint32_t r) const {
  const RowView view = row_view(r);
  const auto children = problem().children(r);
  const auto bits = [&](const AxisSet& set) {
    LoopAxes out = 0;
    set.for_each([&](AxisId a) { out |= LoopAxes(1) << bit_of_[a]; });
    return out;
  };
  switch (rows[r].kind) {
  case LoopKind::input: return bits(terms.leaves[leaf_of_[r]].form.set());
  case LoopKind::constant:
    return view.op == terms.ops().index ? bits(terms.axes.read_by(terms.iotas[view.args()[0]].value)) : 0;
  case LoopKind::opaque:
    return view.op == terms.ops().opaque_tuple
               ? 0
               : bits(terms.forms[terms.payloads[view.args()[0]].results[0]].set());
  case LoopKind::view: {
    LoopAxes out = views[rows[r].index].through(axes[children[0]]);
    for (size_t k = 1; k < children.size(); ++k) out |= axes[children[k]];
    return out;
  }
  case LoopKind::get: {
    LoopAxes out = ~LoopAxes(0);
    const uint32_t tuple = children[0];
    for (uint32_t t = problem().first_row(tuple); t < problem().end_row(tuple); ++t)
      out &= axes_of_component(t, rows[r].index);
    return out;
  }
  default: {
    LoopAxes out = 0;
    for (const uint32_t x : children) out |= axes[x];
    return out;
  }
  }
}

/// A class varies with no axis that some term of it lacks.
void RegionLoops::find_axes() {
  const uint32_t n = problem().class_count();
  const LoopAxes all = extents.empty() ? 0 : ~LoopAxes(0) >> (most_loop_axes - extents.size());
  axes.assign(n, all);
  dtypes.assign(n, DType::f32);
  const egraph::TreeExtraction tree = egraph::extract_tree(problem());
  for (const uint32_t c : tree.order) dtypes[c] = dtype_of_row(tree.genome[c]);
  for (bool again = true; again;) {
    again = false;
    for (const uint32_t c : tree.order) {
      if (is_tuple[c]) continue;
      LoopAxes now = axes[c];
      for (uint32_t r = problem().first_row(c); r < problem().end_row(c); ++r) now &= axes_of_row(r);
      if (now == axes[c]) continue;
      axes[c] = now;
      again = true;
    }
  }
}

DType RegionLoops::dtype_of_row(uint32_t r) const {
  const RowView view = row_view(r);
  const RegionTerms::Ops& ops = terms.ops();
  const auto args = view.args();
  const auto children = problem().children(r);
  switch (rows[r].kind) {
  case LoopKind::input: return terms.leaves[leaf_of_[r]].dtype;
  case LoopKind::constant:
    if (view.op == ops.extent) return DType(uint8_t(args[1]));
    return view.op == ops.number ? terms.numbers[args[0]].dtype : terms.iotas[args[0]].dtype;
  case LoopKind::view: return dtypes[children[0]];
  case LoopKind::opaque: return terms.payloads[args[0]].types[0].dtype;
  case LoopKind::get: {
    const uint32_t tuple = problem().first_row(children[0]);
    const RowView of = row_view(tuple);
    if (of.op == ops.opaque_tuple) return terms.payloads[of.args()[0]].types[rows[r].index].dtype;
    return terms.monoid_of(of.args()[0]).components()[rows[r].index].dtype;
  }
  case LoopKind::fold:
  case LoopKind::scan: return DType::f32;
  case LoopKind::map: break;
  }
  if (view.op == ops.cast) return DType(uint8_t(args[0]));
  std::vector<DType> types;
  for (const uint32_t x : children) types.push_back(dtypes[x]);
  if (const auto op = terms.row_of(view.op)) return *result_type(luminal::row(*op), types.data());
  const Attr& attr = terms.payloads[args[0]].attr;
  if (const auto* bitcast = std::get_if<BitcastAttr>(&attr)) return bitcast->to;
  const auto& map = std::get<MapAttr>(attr);
  const UserOp* user = map.user_op.empty() ? nullptr : find_user_op(map.user_op);
  return *(user ? result_type(user->signature, user->arity, types.data())
                : result_type(luminal::row(map.op), types.data()));
}

void RegionLoops::find_sizes() {
  const uint32_t n = problem().class_count();
  elements.resize(n);
  bytes.resize(n);
  for (uint32_t c = 0; c < n; ++c) {
    elements[c] = volume(axes[c]);
    bytes[c] = elements[c] * bits(dtypes[c]) / 8;
    for (uint32_t r = problem().first_row(c); r < problem().end_row(c); ++r)
      if (leaf_of_[r] != absent && terms.leaves[leaf_of_[r]].fixed)
        bytes[c] = std::min(bytes[c], terms.leaves[leaf_of_[r]].bytes);
  }
  for (uint32_t r = 0; r < rows.size(); ++r)
    if (rows[r].kind == LoopKind::view) {
      const auto children = problem().children(r);
      for (size_t k = 1; k < children.size(); ++k) views[rows[r].index].condition |= axes[children[k]];
    }
}

/// What is made of weights alone and takes no more bytes than they do is made when the plan is loaded
/// (compile/load_values.cpp); what would take more, as an unpacked weight does, is made where it is read.
void RegionLoops::find_static() {
  const uint32_t n = problem().class_count();
  is_static.assign(n, 0);
  is_weight.assign(n, 0);
  std::vector<double> sources(n, egraph::infinite_cost); // bytes of the weights below the least term
  std::vector<double> largest(n, 0);                     // of one of these
  std::vector<uint8_t> folds(n, 0);                      // a term of the class is a result of a fold
  const OpId in = terms.ops().in;
  for (bool again = true; again;) {
    again = false;
    for (uint32_t r = 0; r < rows.size(); ++r) {
      const uint32_t c = problem().class_of(r);
      if (row_view(r).op == in) continue;
      double sum = leaf_of_[r] != absent ? terms.leaves[leaf_of_[r]].bytes : 0;
      for (const uint32_t x : problem().children(r)) sum += sources[x];
      if (sum < sources[c]) {
        sources[c] = sum, again = true;
        largest[c] = leaf_of_[r] != absent ? sum : 0;
        for (const uint32_t x : problem().children(r)) largest[c] = std::max(largest[c], largest[x]);
      }
      if (rows[r].kind == LoopKind::get &&
          rows[problem().first_row(problem().children(r)[0])].kind == LoopKind::fold)
        folds[c] = 1;
    }
  }
  for (uint32_t c = 0; c < n; ++c) {
    if (sources[c] == egraph::infinite_cost) continue;
    const bool of_one = folds[c] && largest[c] >= share_of_one * sources[c];
    is_static[c] = sources[c] == 0 || bytes[c] <= sources[c] * (of_one ? most_of_fold : 1.001);
    is_weight[c] = is_static[c] && sources[c] > 0;
  }
}

// ---- tuples

void RegionLoops::read_tuples() {
  std::vector<uint32_t> numbers;
  for (uint32_t r = 0; r < rows.size(); ++r) {
    LoopRow& row = rows[r];
    if (row.kind != LoopKind::fold && row.kind != LoopKind::scan) continue;
    const auto children = problem().children(r);
    row.body = row.over;
    for (const uint32_t c : children) row.body |= axes[c];
    const Monoid monoid = terms.monoid_of(row_view(r).args()[0]);
    numbers.clear();
    for (int i = 0; i < monoid.size(); ++i)
      numbers.push_back(component(monoid, i, numbers, children[size_t(i)]));
    row.first_component = uint32_t(components_of_rows.size());
    row.component_count = uint32_t(numbers.size());
    if (row.kind == LoopKind::fold) {
      std::vector<ClassId> bodies;
      for (const uint32_t c : children) bodies.push_back(engine.class_of[c]);
      row.share = domain_of(terms, monoid, bodies, {}, true, extent_).share;
    }
    components_of_rows.insert(components_of_rows.end(), numbers.begin(), numbers.end());
  }
}

uint32_t RegionLoops::component(const Monoid& monoid, int i, std::span<const uint32_t> numbers,
                                uint32_t body) {
  const MonoidComponent& c = monoid.components()[size_t(i)];
  std::vector<std::string> names{"self"};
  for (const uint32_t j : numbers) {
    names.push_back(fmt::format("old{}", j));
    names.push_back(fmt::format("new{}", j));
  }
  const auto key = fmt::format("{} {} {} {}", int(c.op), int(c.dtype), body, to_string(c.transform, names));
  const auto [at, made] = component_numbers_.try_emplace(key, uint32_t(components.size()));
  if (made) {
    LoopComponent out{body, 1, axes[body]};
    LoopAxes frame = 0; // what the frame varies with
    for (const int j : monoid.dependencies(i)) frame |= components[numbers[size_t(j)]].axes;
    // A result with axes of its own moves to a new frame once a tile, others as often as the frame changes.
    if (!c.transform.is_leaf(0)) out.steps = out.axes & ~frame ? 1 + 1.0 / 32 : 1.5;
    out.axes |= frame;
    components.push_back(out);
  }
  return at->second;
}

/// Every term of the class folds over them.
void RegionLoops::find_deep() {
  deep.assign(problem().class_count(), ~LoopAxes(0));
  const egraph::TreeExtraction tree = egraph::extract_tree(problem());
  for (bool again = true; again;) {
    again = false;
    for (const uint32_t c : tree.order) {
      LoopAxes now = deep[c];
      for (uint32_t r = problem().first_row(c); r < problem().end_row(c); ++r) {
        LoopAxes of = rows[r].kind == LoopKind::fold ? rows[r].over : 0;
        for (const uint32_t x : problem().children(r)) of |= deep[x];
        now &= of;
      }
      if (now != deep[c]) deep[c] = now, again = true;
    }
  }
}

void RegionLoops::find_twins() {
  for (uint32_t r = 0; r < rows.size(); ++r) {
    const OpId operation = row_view(r).op;
    const auto op = terms.row_of(operation);
    if (!op || !luminal::row(*op).commutative) continue;
    const auto a = problem().children(r);
    for (uint32_t s = problem().first_row(problem().class_of(r)); s < r; ++s) {
      const auto b = problem().children(s);
      if (row_view(s).op == operation && a.size() == 2 && a[0] == b[1] && a[1] == b[0]) rows[r].twin = true;
    }
  }
}

} // namespace luminal::rules
