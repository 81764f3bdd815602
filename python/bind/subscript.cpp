// python/bind/subscript.cpp -- x[...] as numpy has it: numbers, slices, None, ..., and integer indices.
#include "arrays.h"
#include "bind.h"
#include <algorithm>

namespace luminal::python {
namespace {

/// x[...]: slices first, then the axes that integer indices select.
class Subscript {
public:
  Subscript(const Tensor& x, std::source_location where) : x_(x), where_(where) {}

  Tensor apply(const nb::object& index) {
    nb::list parts;
    if (PyTuple_Check(index.ptr()))
      for (nb::handle part : nb::borrow<nb::tuple>(index)) parts.append(part);
    else
      parts.append(index);
    for (nb::handle part : parts) gathers_ |= is_tensor_like(part);
    expand_ellipsis(parts);
    for (nb::handle part : parts) take(part);
    return indices_.empty() ? x_ : gather();
  }

private:
  [[noreturn]] void fail(const std::string& text) const { throw Error("[]", text, where_); }

  static bool is_tensor_like(nb::handle part) {
    return nb::isinstance<Tensor>(part) || PyList_Check(part.ptr()) ||
           (nb::hasattr(part, "__array__") && nb::hasattr(part, "shape") && !PyFloat_Check(part.ptr()));
  }

  /// One axis of x for each part; "..." stands for those that are left, and stands at the end where
  /// nobody wrote it.
  void expand_ellipsis(nb::list& parts) const {
    int axes = 0, at = -1, place = 0;
    for (nb::handle part : parts) {
      if (part.is(Py_Ellipsis)) {
        if (at >= 0) fail("an index has one '...' at most");
        at = place;
      } else if (!part.is_none())
        axes++;
      place++;
    }
    const int left = x_.rank(where_) - axes;
    if (left < 0)
      fail("too many indices: " + std::to_string(axes) + " for a tensor " + to_string(x_.shape(where_)));
    nb::list all;
    place = 0;
    for (nb::handle part : parts) {
      if (place++ == at)
        for (int i = 0; i < left; i++) all.append(nb::slice(nb::none(), nb::none(), nb::none()));
      else
        all.append(part);
    }
    parts = all;
  }

  void take(nb::handle part) {
    if (part.is_none()) {
      x_ = x_.unsqueeze(axis_++, where_);
      closed_ |= !indices_.empty();
      return;
    }
    if (PyBool_Check(part.ptr())) fail("True and False are not indices: masked_select takes a mask");
    Dim number = 0;
    if (!is_tensor_like(part) && read_extent(part, number)) {
      if (gathers_ && number.is_constant()) // beside integer arrays a number is one, as in numpy
        add(Graph(x_.graph(where_)).constant(number.value(), DType::i64, where_));
      else
        x_ = x_.select(axis_, number, where_);
      return;
    }
    if (PySlice_Check(part.ptr())) {
      slice(part);
      closed_ |= !indices_.empty();
      axis_++;
      return;
    }
    if (!is_tensor_like(part))
      fail("an index is a number, a slice, None, '...' or integers, not " +
           nb::cast<std::string>(nb::repr(part)));
    Graph graph(x_.graph(where_));
    Tensor ids = nb::isinstance<Tensor>(part) ? nb::cast<Tensor>(part)
                                              : constant_of(graph, part, std::nullopt, "[]", where_);
    if (ids.dtype(where_) == DType::boolean)
      fail("a mask selects as many elements as it likes, but sizes are known beforehand: masked_select(x, "
           "mask, capacity), "
           "or where(mask, x, other)");
    add(ids);
  }

  void add(const Tensor& ids) {
    apart_ |= closed_;
    indices_.push_back(non_negative(ids));
    places_.push_back(axis_++);
  }

  /// Negative indices count from the end.
  Tensor non_negative(const Tensor& ids) const {
    const Dim extent = x_.dim(axis_, where_);
    return select(Operand(Operand(ids, where_) < Operand(0, where_), where_),
                  Operand(Operand(ids, where_) + Operand(extent, where_), where_), Operand(ids, where_));
  }

  void slice(nb::handle part) {
    const nb::object begin = part.attr("start"), end = part.attr("stop"), stride = part.attr("step");
    int64_t step = 1;
    if (!stride.is_none() && !read_integer(stride, step, true)) fail("the step of a slice is a whole number");
    if (step == 0) fail("the step of a slice is not 0");
    Slice made{.step = step};
    for (const auto& [from, to] : {std::pair{&begin, &made.start}, std::pair{&end, &made.end}}) {
      if (from->is_none()) continue;
      Dim value = 0;
      if (!read_extent(*from, value))
        fail("bounds of a slice are whole numbers and dimensions, not " +
             nb::cast<std::string>(nb::repr(*from)));
      *to = value;
    }
    if (begin.is_none() && end.is_none() && step == 1) return;
    std::vector<Slice> all(size_t(axis_) + 1);
    all.back() = made;
    x_ = x_.slice(all, where_);
  }

  /// The indexed axes to the front, the gather, and its axes where numpy has them: in place of
  /// neighbours, else first.
  Tensor gather() {
    std::vector<int> order = places_;
    for (int axis = 0; axis < x_.rank(where_); axis++)
      if (std::find(places_.begin(), places_.end(), axis) == places_.end()) order.push_back(axis);
    const int left = x_.rank(where_) - int(places_.size());
    const Tensor taken = index_get(x_.permute(order, where_), indices_, where_);
    const int added = taken.rank(where_) - left;
    if (apart_ || places_[0] == 0) return taken;
    std::vector<int> back;
    for (int axis = 0; axis < places_[0]; axis++) back.push_back(added + axis);
    for (int axis = 0; axis < added; axis++) back.push_back(axis);
    for (int axis = places_[0]; axis < left; axis++) back.push_back(added + axis);
    return taken.permute(back, where_);
  }

  Tensor x_;
  std::source_location where_;
  int axis_ = 0; // of x_, behind what has been taken
  std::vector<Tensor> indices_;
  std::vector<int> places_;
  bool gathers_ = false;                // there are arrays of indices
  bool closed_ = false, apart_ = false; // a slice stands behind an index; and an index behind that
};

} // namespace

void bind_subscript(nb::class_<Tensor>& tensor) {
  const auto subscript = [](const Tensor& self, const nb::object& index) {
    const auto where = here();
    check_idle("[]", self.graph(where).get(), where);
    if (!PyTuple_Check(index.ptr()) && !index.is(Py_Ellipsis)) {
      nb::list one;
      one.append(index);
      one.append(nb::borrow(Py_Ellipsis));
      return Subscript(self, where).apply(nb::tuple(one));
    }
    nb::list parts;
    bool ellipsis = false;
    if (PyTuple_Check(index.ptr()))
      for (nb::handle part : nb::borrow<nb::tuple>(index)) {
        parts.append(part);
        ellipsis |= part.is(Py_Ellipsis);
      }
    if (!ellipsis) parts.append(nb::borrow(Py_Ellipsis));
    return Subscript(self, where).apply(nb::tuple(parts));
  };
  tensor.def("__getitem__", subscript, nb::arg("index").none(),
             nb::sig("def __getitem__(self, index: luminal.typing.Index, /) -> Tensor"));
}

} // namespace luminal::python
