// rules/batch_axes.cpp -- which axes of a cascade are batches, and forms with a dimension for each of them.
#include "rules/batch_axes.h"
#include <algorithm>

namespace luminal::rules {

AxisSet batch_axes(RegionTerms& terms, std::span<const egraph::RowView> chosen, std::span<const Form> forms,
                   const std::function<egraph::RowView(ClassId)>& row_of,
                   const std::function<const AxisSet&(ClassId)>& axes_of) {
  const RegionTerms::Ops& ops = terms.ops();
  AxisSet batches;
  for (const Form& form : forms)
    for (size_t d = 0; d < form.rank(); ++d)
      if (form.dim(d).size() == 1) batches.insert(form.dim(d)[0]);
  bool tuples = false;
  for (const egraph::RowView& r : chosen) {
    if (r.op != ops.fold && r.op != ops.scan) continue;
    const auto items = terms.items(r.args()[2]);
    const std::vector<egraph::Value> bodies(items.begin(), items.end());
    tuples |= bodies.size() > 1;
    if (r.op == ops.scan) {
      batches.erase(terms.alongs[r.args()[1]].axis);
      continue;
    }
    const AxisSet over = terms.sets[r.args()[1]];
    batches -= over;
    for (const egraph::Value body : bodies) {
      const egraph::RowView product = row_of(terms.graph().find(body));
      if (terms.row_of(product.op) != Op::mul) continue;
      const AxisSet a = axes_of(terms.graph().find(product.args()[0])),
                    b = axes_of(terms.graph().find(product.args()[1]));
      if (!a.intersects(over) || !b.intersects(over)) continue;
      AxisSet both = a, either = a;
      both &= b;
      either |= b;
      either -= both;
      batches -= either;
    }
  }
  return tuples ? batches : AxisSet();
}

Form opened(const Form& form, const AxisSet& axes) {
  Form out;
  for (size_t d = 0; d < form.rank(); ++d) {
    const auto dim = form.dim(d);
    if (dim.size() > 1 && std::ranges::all_of(dim, [&](AxisId a) { return axes.contains(a); }))
      for (const AxisId a : dim) out.push(std::span(&a, 1));
    else
      out.push(dim);
  }
  return out;
}

} // namespace luminal::rules
