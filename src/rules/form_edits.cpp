// rules/form_edits.cpp -- dimensions picked, appended and cut.
#include "rules/form_edits.h"
#include <algorithm>

namespace luminal::rules {

Form filtered(const Form& form, const AxisSet& axes) {
  Form out;
  for (size_t d = 0; d < form.rank(); ++d) {
    std::vector<AxisId> dim;
    for (const AxisId a : form.dim(d))
      if (axes.contains(a)) dim.push_back(a);
    if (!dim.empty() || form.dim(d).empty()) out.push(dim);
  }
  return out;
}

void append_missing(Form& form, const AxisSet& axes) {
  AxisSet missing = axes;
  missing -= form.set();
  missing.for_each([&](AxisId a) { form.push(std::span(&a, 1)); });
}

void append_new(Form& form, const Form& other, const AxisSet& axes) {
  const AxisSet there = form.set();
  for (size_t d = 0; d < other.rank(); ++d) {
    std::vector<AxisId> dim;
    for (const AxisId a : other.dim(d))
      if (axes.contains(a) && !there.contains(a)) dim.push_back(a);
    if (!dim.empty()) form.push(dim);
  }
}

std::optional<int> same_dim(std::span<const AxisId> dim, const LaidOut& to) {
  if (dim.empty()) return {};
  const auto at = to.position(dim[0]);
  if (!at) return {};
  const int d = to.places[*at].dim;
  return std::ranges::equal(dim, to.form.dim(size_t(d))) ? std::optional(d) : std::nullopt;
}

std::optional<std::vector<int>> dims_within(const Form& form, const LaidOut& to) {
  std::vector<int> out;
  for (size_t d = 0; d < form.rank(); ++d) {
    std::optional<int> found = same_dim(form.dim(d), to);
    if (form.dim(d).empty())
      for (size_t k = 0; k < to.form.rank() && !found; ++k)
        if (to.form.dim(k).empty() && std::ranges::count(out, int(k)) == 0) found = int(k);
    if (!found) return {};
    out.push_back(*found);
  }
  return out;
}

Form part_of(const Form& form, std::span<const int> dims) {
  Form out;
  for (const int d : dims) out.push(form.dim(size_t(d)));
  return out;
}

std::vector<int> body_dims(const Form& space, const AxisSet& varying, const std::vector<int>* had) {
  std::vector<int> out;
  for (size_t d = 0; d < space.rank(); ++d) {
    const auto dim = space.dim(d);
    const bool there = had && std::ranges::count(*had, int(d)) > 0;
    if (there || std::ranges::any_of(dim, [&](AxisId a) { return varying.contains(a); }))
      out.push_back(int(d));
  }
  return out;
}

Form cut(const Form& form, const AxisSet& over) {
  Form out;
  for (size_t d = 0; d < form.rank(); ++d) {
    const auto dim = form.dim(d);
    size_t begin = 0;
    for (size_t k = 1; k <= dim.size(); ++k)
      if (k == dim.size() || over.contains(dim[k]) != over.contains(dim[begin])) {
        out.push(dim.subspan(begin, k - begin));
        begin = k;
      }
    if (dim.empty()) out.push(dim);
  }
  return out;
}

} // namespace luminal::rules
