// rules/emit_region.cpp -- from rows to nodes, each class once in the form that is natural to it.
#include "rules/emit_region.h"
#include "base/check.h"
#include "base/hash.h"
#include "ir/user_ops.h"
#include "rules/batch_axes.h"
#include "rules/fold_domain.h"
#include "rules/form_edits.h"
#include "rules/form_maps.h"
#include "rules/monoids.h"
#include "rules/number_constant.h"
#include "rules/other_terms.h"
#include "rules/quotients.h"
#include <algorithm>
#include <memory>
#include <set>
#include <unordered_map>

namespace luminal::rules {
namespace {

using egraph::absent;
using egraph::RowView;

class Emitter {
public:
  Emitter(RegionTerms& terms, const Entered& entered, const Choice& choice, const EmitOptions& options)
      : w_(entered.flat->function), t_(terms), e_(entered), f_(entered.flat->function), choice_(choice),
        options_(options), classes_(std::max(terms.graph().class_count(), choice.rows.size())),
        quotients_(
            terms, [this](ClassId c) { return row(c); },
            [this](ClassId c) { return bool(classes_[c].home); }) {}

  Fragment run() {
    find_homes();
    find_needed();
    find_batches();
    // What is computed comes in the order of the nodes that it comes from, so that the function keeps
    // its order; views, positions and numbers come just before their first reader.
    for (const NodeId id : e_.nodes)
      if (const ClassId c = class_of(id); c != absent && classes_[c].needed && is_computed(row(c))) made(c);
    for (const NodeId root : e_.roots) {
      const NodeId value = in_form(class_of(root), e_.forms[root]);
      w_.root(root, value);
      w_.name(value, root, true);
    }
    store_kernels();
    return std::move(w_);
  }

  Fragment run_all(std::span<const ExtraTerm> extras, std::vector<TermPair>& pairs) {
    find_homes();
    for (const ExtraTerm& x : extras) {
      if (x.tuple != absent)
        get(x.term, x.tuple, int(t_.integer_of(row(x.term).args()[0])));
      else
        made(x.term);
      made(x.of);
      const Form &a = t_.forms[classes_[x.of].form], &b = t_.forms[classes_[x.term].form];
      Form form = a;
      append_missing(form, b.set());
      const uint32_t both = t_.forms.id(form);
      pairs.push_back({x.of, choice_.rows[x.tuple != absent ? x.tuple : x.term], in_form(x.of, both),
                       x.tuple != absent ? moved_to(x.term, both) : in_form(x.term, both)});
    }
    return std::move(w_);
  }

private:
  /// What is known of a class.
  struct Class {
    NodeId node;              // of V: in its natural form; of F: the tuple
    uint32_t form = absent;   // natural; of a fold or scan: of its space
    NodeId home;              // the node that it comes from
    uint32_t wanted = absent; // of V and F without a home: the form of a reader
    bool needed = false;
    bool has_axes = false;
    AxisSet axes;                                    // that the chosen term varies with
    std::vector<std::pair<uint32_t, NodeId>> others; // form -> node
  };

  /// A root is stored in the form in which it is asked for.
  void store_kernels() {
    std::unordered_map<ClassId, std::vector<NodeId>> roots;
    for (const NodeId root : e_.roots)
      roots[class_of(root)].push_back(in_form(class_of(root), e_.forms[root]));
    for (const auto& classes : choice_.kernels)
      for (const ClassId c : classes) stored_.insert(t_.graph().find(c));
    for (const auto& classes : choice_.kernels) {
      std::vector<NodeId> values;
      std::vector<ClassId> stored;
      for (const ClassId given : classes)
        if (const ClassId c = t_.graph().find(given); quotients_.divides(c) && options_.safe_quotients)
          in_place_of(c, stored);
        else
          stored.push_back(c);
      for (const ClassId c : stored) {
        const auto at = roots.find(c);
        if (at == roots.end())
          values.push_back(made(c).node);
        else
          values.insert(values.end(), at->second.begin(), at->second.end());
      }
      if (!values.empty()) w_.kernel(std::move(values));
    }
    if (!choice_.decided) return;
    w_.decide();
    for (const ClassId c : choice_.open)
      if (const Class& k = classes_[t_.graph().find(c)]; k.node) w_.open(k.node);
  }
  /// What is stored for it: the parts of a quotient that is not computed by itself, but for those in memory.
  void in_place_of(ClassId c, std::vector<ClassId>& out) {
    const auto arms = quotients_.arms(row(c));
    if (options_.safe_quotients && quotients_.divides(c))
      for_each_operand(row(c), [&](ClassId x) {
        if (!arms || x != arms->condition) in_place_of(x, out);
      });
    else if (is_computed(row(c)) && stored_.insert(c).second)
      out.push_back(c);
  }
  ClassId class_of(NodeId id) const {
    const ClassId c = e_.classes[id];
    return c == absent ? absent : t_.graph().find(c);
  }
  RowView row(ClassId c) const {
    const RowRef ref = choice_.rows[c];
    LUMINAL_CHECK(ref.op != absent, "class {} has no term", c);
    return t_.graph().row(ref.op, ref.row);
  }
  ClassId leader(Value v) const { return t_.graph().find(v); }
  const RegionTerms::Ops& ops() const { return t_.ops(); }

  /// The first node of each class that computes it, of those with the fewest dimensions along which
  /// it does not vary; and the first of each form, for its name.
  void find_homes() {
    for (const NodeId id : e_.nodes) {
      const ClassId c = class_of(id);
      if (c == absent) continue;
      if (e_.forms[id] != absent) first_of_form_.try_emplace(key(c, e_.forms[id]), id);
      NodeId& home = classes_[c].home;
      if (!home || count(id) < count(home)) home = id;
    }
  }
  size_t count(NodeId id) const { return e_.forms[id] == absent ? 0 : t_.forms[e_.forms[id]].axes.size(); }
  static uint64_t key(ClassId c, uint32_t form) { return uint64_t(c) << 32 | form; }

  bool is_computed(const RowView& r) const {
    return r.op != ops().view && r.op != ops().index && r.op != ops().number && r.op != ops().in &&
           r.op != ops().par && r.op != ops().extent;
  }
  template <class F> void for_each_operand(const RowView& row, F f) { rules::for_each_operand(t_, row, f); }
  void find_needed() {
    std::vector<ClassId> stack;
    const auto need = [&](ClassId c) {
      if (classes_[c].needed) return;
      classes_[c].needed = true;
      stack.push_back(c);
    };
    for (const NodeId root : e_.roots) need(class_of(root));
    while (!stack.empty()) {
      const ClassId c = stack.back();
      stack.pop_back();
      const RowView r = row(c);
      const uint32_t form = classes_[c].home ? e_.forms[classes_[c].home] : classes_[c].wanted;
      for_each_operand(r, [&](ClassId x) {
        if (r.op != ops().view && r.op != ops().fold && r.op != ops().scan && classes_[x].wanted == absent)
          classes_[x].wanted = form;
        need(x);
      });
    }
  }

  void find_batches() {
    std::vector<RowView> chosen;
    std::vector<Form> forms;
    for (ClassId c = 0; c < classes_.size(); ++c) {
      if (!classes_[c].needed) continue;
      chosen.push_back(row(c));
      if (const RowView& r = chosen.back(); r.op == ops().in || r.op == ops().par)
        forms.push_back(t_.leaves[r.args()[0]].form);
    }
    for (const NodeId root : e_.roots) forms.push_back(t_.forms[e_.forms[root]]);
    batches_ = batch_axes(
        t_, chosen, forms, [this](ClassId c) { return row(c); },
        [this](ClassId c) -> const AxisSet& { return axes_of(c); });
  }

  // ---- axes of chosen terms
  const AxisSet& axes_of(ClassId c) {
    if (classes_[c].has_axes) return classes_[c].axes;
    AxisSet axes = find_axes(row(c));
    classes_[c].has_axes = true;
    return classes_[c].axes = axes;
  }
  AxisSet find_axes(const RowView& r) {
    if (r.op == ops().in || r.op == ops().par) return t_.leaves[r.args()[0]].form.set();
    if (r.op == ops().index) return t_.axes.read_by(t_.iotas[r.args()[0]].value);
    if (r.op == ops().opaque) return t_.forms[t_.payloads[r.args()[0]].results[0]].set();
    if (r.op == ops().get) return axes_of_result(row(leader(r.args()[1])), int(t_.integer_of(r.args()[0])));
    AxisSet axes;
    if (r.op == ops().view) {
      const Place& place = t_.places[r.args()[0]];
      const auto xs = t_.items(r.args()[1]);
      axes = axes_of(leader(xs[0]));
      axes -= place.replaced();
      axes |= place.read(t_.axes);
      for (size_t k = 1; k < xs.size(); ++k) axes |= axes_of(leader(xs[k]));
      return axes;
    }
    for_each_operand(r, [&](ClassId c) { axes |= axes_of(c); });
    return axes;
  }
  AxisSet axes_of_result(const RowView& tuple, int component) {
    if (tuple.op == ops().opaque_tuple)
      return t_.forms[t_.payloads[tuple.args()[0]].results[size_t(component)]].set();
    const auto bodies = t_.items(tuple.args()[2]);
    const Monoid monoid = t_.monoid_of(tuple.args()[0]);
    AxisSet axes = axes_of(leader(bodies[size_t(component)]));
    for (const int j : monoid.dependencies(component)) axes |= axes_of(leader(bodies[size_t(j)]));
    if (tuple.op == ops().fold)
      axes -= t_.sets[tuple.args()[1]];
    else
      axes.insert(t_.alongs[tuple.args()[1]].axis);
    return axes;
  }

  // ---- forms
  const LaidOut& laid(uint32_t form) {
    if (form >= laid_.size()) laid_.resize(t_.forms.size());
    if (!laid_[form]) laid_[form] = std::make_unique<LaidOut>(t_.forms[form], t_.axes);
    return *laid_[form];
  }
  void join(Form& form, ClassId operand, const AxisSet& axes) {
    if (const uint32_t other = made(operand).form; other != absent) append_new(form, t_.forms[other], axes);
  }
  /// The form in which a class is made: that of its node, with what the chosen term varies with.
  uint32_t natural_form(ClassId c) {
    const AxisSet axes = axes_of(c);
    const NodeId home = classes_[c].home;
    Form form;
    if (home && e_.forms[home] != absent)
      form = options_.keep_forms ? t_.forms[e_.forms[home]] : filtered(t_.forms[e_.forms[home]], axes);
    else if (classes_[c].wanted != absent)
      form = filtered(t_.forms[classes_[c].wanted], axes);
    if (!home || e_.forms[home] == absent) for_each_operand(row(c), [&](ClassId x) { join(form, x, axes); });
    append_missing(form, axes);
    return t_.forms.id(opened(form, batches_));
  }

  // ---- nodes
  NodeId put(NodeKind kind, Attr attr, std::vector<NodeId> inputs, std::vector<TensorType> types) {
    return w_.put({kind, std::move(attr), std::move(inputs), std::move(types), {}, {}, {}});
  }
  DType dtype(NodeId id) const { return w_[id].type().dtype; }

  /// The class in its natural form.
  Class& made(ClassId c) {
    if (classes_[c].node) return classes_[c];
    const RowView r = row(c);
    if (r.op == ops().fold)
      fold(c, r);
    else if (r.op == ops().scan)
      scan(c, r);
    else if (r.op == ops().opaque_tuple)
      opaque(c, r);
    else
      value(c, r);
    Class& k = classes_[c];
    if (k.home) {
      const bool same = e_.forms[k.home] == k.form;
      w_.name(k.node, k.home, same);
    }
    return k;
  }

  void value(ClassId c, const RowView& r) {
    Class& k = classes_[c];
    if (r.op == ops().in || r.op == ops().par) {
      const Leaf& leaf = t_.leaves[r.args()[0]];
      k.form = t_.forms.id(leaf.form);
      k.node = w_.leaf(leaf.node);
    } else if (r.op == ops().number) {
      k.form = t_.forms.id(Form());
      k.node = number(t_.numbers[r.args()[0]]);
    } else if (r.op == ops().extent) {
      k.form = t_.forms.id(Form());
      k.node = extent(t_.sets[r.args()[0]], DType(uint8_t(r.args()[1])));
    } else if (r.op == ops().get) {
      get(c, leader(r.args()[1]), int(t_.integer_of(r.args()[0])));
    } else if (r.op == ops().opaque) {
      opaque(c, r);
    } else {
      const uint32_t form = natural_form(c);
      const NodeId node = in_any_form(c, r, form);
      classes_[c].form = form;
      classes_[c].node = node;
    }
  }

  NodeId number(const Number& n) { return put(NodeKind::constant, constant_of(n), {}, {{n.dtype, {}}}); }

  NodeId extent(const AxisSet& axes, DType type) {
    Expr points = 1;
    axes.for_each([&](AxisId a) { points = points * t_.axes.extent(a); });
    if (points.is_constant()) {
      const double v = double(points.value());
      return number(
          {type, is_float(type) ? std::bit_cast<uint64_t>(round_to(type, v)) : uint64_t(points.value())});
    }
    const TensorType whole{DType::i64, {}}, made{type, {}};
    const NodeId iota = put(NodeKind::iota, IotaAttr{points, whole}, {}, {whole});
    return type == DType::i64 ? iota : put(NodeKind::cast, CastAttr{type}, {iota}, {made});
  }

  /// A term that can be made in any form that has its axes.
  NodeId in_any_form(ClassId c, const RowView& r, uint32_t form) {
    if (r.op == ops().index) {
      const Iota& iota = t_.iotas[r.args()[0]];
      const TensorType type{iota.dtype, laid(form).shape};
      return put(NodeKind::iota, IotaAttr{over(t_.axes, iota.value, laid(form)), type}, {}, {type});
    }
    if (r.op == ops().view) return view(t_.places[r.args()[0]], r, form);
    return map(c, r, form);
  }

  NodeId put_map(Op op, std::vector<NodeId> xs) {
    const TensorType type = w_[xs.back()].type();
    return put(NodeKind::map, MapAttr{op, {}}, std::move(xs), {type});
  }
  /// The product, where the factor is or holds a reciprocal that is not computed by itself.
  NodeId times(NodeId x, ClassId factor, uint32_t form) {
    if (const auto divisor = quotients_.divisor(factor)) {
      const auto dividend = quotients_.dividend(factor);
      return over_divisor(dividend ? times(x, *dividend, form) : x, *divisor, form);
    }
    if (!quotients_.divides(factor)) return put_map(Op::mul, {x, in_form(factor, form)});
    if (const auto both = quotients_.factors(row(factor)))
      return times(times(x, both->first, form), both->second, form);
    const auto chosen = [&](ClassId arm) { // 0 times what is not finite need not be NaN
      return quotients_.is_zero(arm) ? in_form(arm, form) : times(x, arm, form);
    };
    const Quotients::Arms arms = *quotients_.arms(row(factor));
    return put_map(Op::select, {in_form(arms.condition, form), chosen(arms.yes), chosen(arms.no)});
  }
  NodeId over_divisor(NodeId x, ClassId divisor, uint32_t form) {
    if (axes_of(divisor) == t_.forms[form].set() || !has_wide_exponents(dtype(x)))
      return put_map(Op::div, {x, in_form(divisor, form)});
    const Class& k = made(divisor);
    const auto [scale, reciprocal] = scaled_reciprocal(w_, k.node);
    const NodeId scaled = put_map(Op::mul, {x, moved(scale, k.form, form)});
    return put_map(Op::mul, {scaled, moved(reciprocal, k.form, form)});
  }

  NodeId map(ClassId, const RowView& r, uint32_t form) {
    if (const auto factors = options_.safe_quotients ? quotients_.factors(r) : std::nullopt)
      return times(in_form(factors->first, form), factors->second, form);
    std::vector<NodeId> xs;
    for_each_operand(r, [&](ClassId x) { xs.push_back(in_form(x, form)); });
    const Shape& shape = laid(form).shape;
    if (r.op == ops().cast) {
      const DType to{uint8_t(r.args()[0])};
      return put(NodeKind::cast, CastAttr{to}, std::move(xs), {{to, shape}});
    }
    Attr attr = MapAttr{Op::add, {}};
    if (const auto op = t_.row_of(r.op))
      attr = MapAttr{*op, {}};
    else
      attr = t_.payloads[r.args()[0]].attr;
    if (const auto* bitcast = std::get_if<BitcastAttr>(&attr))
      return put(NodeKind::bitcast, attr, std::move(xs), {{bitcast->to, shape}});
    const auto& op = std::get<MapAttr>(attr);
    std::vector<DType> types;
    for (const NodeId x : xs) types.push_back(dtype(x));
    const UserOp* user = op.user_op.empty() ? nullptr : find_user_op(op.user_op);
    const auto result = user ? result_type(user->signature, user->arity, types.data())
                             : result_type(luminal::row(op.op), types.data());
    LUMINAL_CHECK(result, "the operands of {} have no common type", luminal::to_string(op.op));
    return put(NodeKind::map, attr, std::move(xs), {{*result, shape}});
  }

  /// A class in a form that has all of its axes.
  NodeId in_form(ClassId c, uint32_t form) {
    made(c);
    if (classes_[c].form == form) return classes_[c].node;
    for (const auto& [other, node] : classes_[c].others)
      if (other == form) return node;
    const RowView r = row(c);
    const bool free = r.op == ops().index || r.op == ops().view; // made in any form alike
    const NodeId node = free ? in_any_form(c, r, form) : moved(c, form);
    classes_[c].others.emplace_back(form, node);
    const auto first = first_of_form_.find(key(c, form));
    if (first != first_of_form_.end()) w_.name(node, first->second, true);
    return node;
  }
  NodeId moved_to(ClassId c, uint32_t form) {
    return classes_[c].form == form ? classes_[c].node : moved(c, form);
  }
  /// A view of the natural form.
  NodeId moved(ClassId c, uint32_t form) { return moved(classes_[c].node, classes_[c].form, form); }
  NodeId moved(NodeId x, uint32_t from_form, uint32_t form) {
    if (from_form == form) return x;
    const Form from = t_.forms[from_form];
    const LaidOut& to = laid(form);
    ViewAttr view;
    view.map = map_of(t_.axes, from, to);
    view.predicate = has_points(t_.axes, from, to);
    view.shape = to.shape;
    const TensorType type{dtype(x), to.shape};
    if (w_[x].type() == type && view.map == to.index) return x;
    return put(NodeKind::view, std::move(view), {x}, {type});
  }

  NodeId view(const Place& where, const RowView& r, uint32_t form) {
    const auto items = t_.items(r.args()[1]);
    const std::vector<ClassId> xs(items.begin(), items.end());
    NodeId x = made(leader(xs[0])).node;
    Form from = t_.forms[classes_[leader(xs[0])].form];
    if (!holes_stand_alone(t_.axes, where, from)) {
      Form apart;
      for (const AxisId a : from.axes) apart.push(std::span(&a, 1));
      from = apart;
      x = in_form(leader(xs[0]), t_.forms.id(from));
    }
    const LaidOut& to = laid(form);
    ViewAttr view;
    view.map = map_of(t_.axes, from, to, &where);
    view.predicate = logical_and(over(t_.axes, where.predicate, to), has_points(t_.axes, from, to, &where));
    view.fill = where.fill;
    view.shape = to.shape;
    std::vector<NodeId> inputs{x};
    for (size_t k = 0; k < where.holes.size(); ++k) {
      auto [operand, axes] = hole(leader(xs[k + 1]), form);
      view.holes.push_back({int(k) + 1, std::move(axes), where.holes[k].range, where.holes[k].policy});
      inputs.push_back(operand);
    }
    const TensorType type{dtype(x), laid(form).shape};
    return put(NodeKind::view, std::move(view), std::move(inputs), {type});
  }
  /// An operand of a view, and the dimensions of the view at which it is read.
  std::pair<NodeId, std::vector<int>> hole(ClassId c, uint32_t form) {
    made(c);
    const Form& natural = t_.forms[classes_[c].form];
    if (const auto axes = dims_within(natural, laid(form))) return {classes_[c].node, *axes};
    std::vector<int> axes;
    Form part;
    const AxisSet varying = axes_of(c);
    const Form whole = t_.forms[form];
    for (size_t d = 0; d < whole.rank(); ++d)
      if (std::ranges::any_of(whole.dim(d), [&](AxisId a) { return varying.contains(a); })) {
        axes.push_back(int(d));
        part.push(whole.dim(d));
      }
    return {in_form(c, t_.forms.id(part)), axes};
  }

  void opaque(ClassId c, const RowView& r) {
    const Payload payload = t_.payloads[r.args()[0]];
    const auto items = t_.items(r.args()[1]);
    const std::vector<ClassId> xs(items.begin(), items.end());
    std::vector<NodeId> inputs;
    for (size_t k = 0; k < xs.size(); ++k) inputs.push_back(in_form(leader(xs[k]), payload.operands[k]));
    classes_[c].node = put(kind_of(payload.attr), payload.attr, std::move(inputs), payload.types);
    if (r.op == ops().opaque) classes_[c].form = payload.results[0];
  }

  // ---- folds
  /// The space of a fold or scan: that of its node, with the axes that are needed.
  Form space_of(ClassId c, const AxisSet& needed, const AxisSet& over, bool& kept) {
    const NodeId home = classes_[c].home;
    Form form;
    if (home)
      form = options_.keep_forms ? t_.forms[e_.forms[home]] : filtered(t_.forms[e_.forms[home]], needed);
    else if (classes_[c].wanted != absent)
      form = filtered(t_.forms[classes_[c].wanted], needed);
    if (!home) for_each_operand(row(c), [&](ClassId x) { join(form, x, needed); });
    append_missing(form, needed);
    form = opened(cut(form, over), batches_);
    kept = home && form == t_.forms[e_.forms[home]];
    return form;
  }

  std::vector<ClassId> bodies_of(const RowView& r) {
    std::vector<ClassId> out;
    for (const Value v : t_.items(r.args()[2])) out.push_back(leader(v));
    return out;
  }

  void fold(ClassId c, const RowView& r) {
    const Monoid monoid = t_.monoid_of(r.args()[0]);
    const AxisSet over_axes = t_.sets[r.args()[1]];
    const FoldDomain domain = domain_of(
        t_, monoid, bodies_of(r), [this](ClassId x) { return row(x); }, options_.domains_of_classes);
    AxisSet needed = over_axes;
    for (const ClassId x : domain.bodies) needed |= axes_of(x);
    const Expr where = domain.condition ? t_.iotas[*domain.condition].value : Expr(1);
    needed |= t_.axes.read_by(where);
    bool kept = false;
    const Form space = space_of(c, needed, over_axes, kept);
    const FoldAttr* had =
        kept && options_.keep_forms ? &std::get<FoldAttr>(f_[classes_[c].home].attr) : nullptr;
    const uint32_t form = t_.forms.id(space);
    FoldAttr fold{monoid, laid(form).shape, {}, {}, 1, {}};
    for (size_t d = 0; d < space.rank(); ++d)
      if (!space.dim(d).empty() && over_axes.contains(space.dim(d)[0])) fold.reduced.push_back(int(d));
    if (had) fold.reduced = had->reduced;
    if (domain.condition) fold.where = over(t_.axes, where, laid(form));
    std::vector<NodeId> inputs;
    for (size_t k = 0; k < domain.bodies.size(); ++k) {
      fold.body_axes.push_back(
          body_dims(space, axes_of(domain.bodies[k]), had ? &had->body_axes[k] : nullptr));
      inputs.push_back(in_form(domain.bodies[k], t_.forms.id(part_of(space, fold.body_axes.back()))));
    }
    classes_[c].form = form;
    classes_[c].node = put_tuple(fold, NodeKind::fold, std::move(inputs));
  }

  void scan(ClassId c, const RowView& r) {
    const Monoid monoid = t_.monoid_of(r.args()[0]);
    const Along along = t_.alongs[r.args()[1]];
    const std::vector<ClassId> bodies = bodies_of(r);
    AxisSet needed, alone;
    alone.insert(along.axis);
    needed |= alone;
    for (const ClassId x : bodies) needed |= axes_of(x);
    bool kept = false;
    const Form space = space_of(c, needed, alone, kept);
    const ScanAttr* had =
        kept && options_.keep_forms ? &std::get<ScanAttr>(f_[classes_[c].home].attr) : nullptr;
    const uint32_t form = t_.forms.id(space);
    ScanAttr scan{monoid, laid(form).shape, 0, {}, along.exclusive, along.reverse};
    for (size_t d = 0; d < space.rank(); ++d)
      if (space.dim(d).size() == 1 && space.dim(d)[0] == along.axis) scan.axis = int(d);
    std::vector<NodeId> inputs;
    for (size_t k = 0; k < bodies.size(); ++k) {
      scan.body_axes.push_back(body_dims(space, axes_of(bodies[k]), had ? &had->body_axes[k] : nullptr));
      inputs.push_back(in_form(bodies[k], t_.forms.id(part_of(space, scan.body_axes.back()))));
    }
    classes_[c].form = form;
    classes_[c].node = put_tuple(scan, NodeKind::scan, std::move(inputs));
  }

  template <class T> NodeId put_tuple(const T& attr, NodeKind kind, std::vector<NodeId> inputs) {
    std::vector<TensorType> types;
    for (int k = 0; k < attr.monoid.size(); ++k) {
      TensorType type{attr.monoid.components()[size_t(k)].dtype, {}};
      for (const int d : result_axes(attr, k)) type.shape.push_back(attr.space[size_t(d)]);
      types.push_back(std::move(type));
    }
    return put(kind, attr, std::move(inputs), std::move(types));
  }

  void get(ClassId c, ClassId tuple, int component) {
    made(tuple);
    const NodeId from = classes_[tuple].node;
    const RowView r = row(tuple);
    if (r.op == ops().opaque_tuple) {
      classes_[c].form = t_.payloads[r.args()[0]].results[size_t(component)];
    } else {
      const std::vector<int> dims = r.op == ops().fold
                                        ? result_axes(std::get<FoldAttr>(w_[from].attr), component)
                                        : result_axes(std::get<ScanAttr>(w_[from].attr), component);
      classes_[c].form = t_.forms.id(part_of(t_.forms[classes_[tuple].form], dims));
    }
    classes_[c].node = put(NodeKind::get, GetAttr{component}, {from}, {w_[from].types[size_t(component)]});
  }

  Fragment w_;
  RegionTerms& t_;
  const Entered& e_;
  const Function& f_;
  const Choice& choice_;
  const EmitOptions& options_;
  std::vector<Class> classes_;
  Quotients quotients_;
  std::set<ClassId> stored_; // or to be stored
  AxisSet batches_;          // of cascades (rules/batch_axes.h)
  std::vector<std::unique_ptr<LaidOut>> laid_;
  std::unordered_map<uint64_t, NodeId> first_of_form_;
};

} // namespace

Fragment emit_all_terms(RegionTerms& terms, const Entered& entered, const Choice& choice,
                        std::vector<TermPair>& pairs) {
  Choice all = choice;
  const std::vector<ExtraTerm> extras = add_other_terms(terms, all);
  return Emitter(terms, entered, all,
                 {.keep_forms = false, .domains_of_classes = false, .safe_quotients = false})
      .run_all(extras, pairs);
}

Fragment emit(RegionTerms& terms, const Entered& entered, const Choice& choice, const EmitOptions& options) {
  return Emitter(terms, entered, choice, options).run();
}

} // namespace luminal::rules
