// models/onnx/ops_shape.cpp -- what moves elements: reshapes, slices, joins, pads, tiles.
#include "luminal/nn_functions.h"
#include "luminal/random.h"
#include "luminal/terms.h"
#include "models/onnx/operators.h"
#include "tensor/graph_state.h"
#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <numeric>

namespace luminal::onnx::ops {
namespace {

/// Integers that are an attribute up to some opset, and an input from then on.
std::optional<std::vector<int64_t>> integers_of(Node& n, const std::string& attribute, size_t input,
                                                int64_t since) {
  if (n.opset() < since) {
    if (!n.attribute(attribute)) return {};
    return n.integers(attribute);
  }
  if (!n.has(input)) return {};
  return n.ints(input);
}
std::vector<int> axes_in(Node& n, const std::vector<int64_t>& axes, int rank) {
  std::vector<int> list;
  for (const int64_t axis : axes) list.push_back(axis_in(n, axis, rank));
  return list;
}
/// Keeps the element type of the first input.
void moved(Node& n, const Tensor& y, size_t i = 0) { n.out(i, y, n.type(0)); }

} // namespace

void Reshape(Node& n) {
  const Tensor x = n.in(0);
  Dims shape = n.opset() < 5 ? Dims() : n.dims(1);
  const bool zero_is_zero = n.integer("allowzero", 0) != 0;
  Dim rest = 1;
  std::optional<size_t> open;
  bool empty = false;
  for (size_t d = 0; d < shape.size(); d++) {
    if (shape[d] == Dim(0) && !zero_is_zero) {
      if (int(d) >= x.rank())
        n.refuse(
            fmt::format("copies extent {} of {}, which has fewer axes", d, luminal::to_string(x.shape())));
      shape[d] = x.dim(int(d));
    }
    if (shape[d] == Dim(-1)) {
      if (open) n.refuse("has two extents of -1, one at most is expected");
      open = d;
    } else {
      rest = rest * shape[d];
      empty |= shape[d] == Dim(0);
    }
  }
  if (open && empty) {
    shape[*open] = 0;
  } else if (open) {
    Dim all = 1;
    for (const Dim extent : x.shape()) all = all * extent;
    shape[*open] = all / rest;
  }
  moved(n, x.reshape(shape));
}
void Flatten(Node& n) {
  const Tensor x = n.in(0);
  const int64_t axis = n.integer("axis", 1);
  const int64_t at = axis < 0 ? axis + x.rank() : axis;
  if (at < 0 || at > x.rank()) n.refuse(fmt::format("names axis {} of {} axes", axis, x.rank()));
  Dim outer = 1, inner = 1;
  for (int d = 0; d < x.rank(); d++) (d < at ? outer : inner) = (d < at ? outer : inner) * x.dim(d);
  moved(n, x.reshape({outer, inner}));
}
void Squeeze(Node& n) {
  const Tensor x = n.in(0);
  const auto axes = integers_of(n, "axes", 1, 13);
  if (axes) return moved(n, x.squeeze(axes_in(n, *axes, x.rank())));
  std::vector<int> ones;
  for (int d = 0; d < x.rank(); d++)
    if (x.dim(d) == Dim(1)) ones.push_back(d);
  moved(n, x.squeeze(ones));
}
void Unsqueeze(Node& n) {
  Tensor x = n.in(0);
  const auto axes = integers_of(n, "axes", 1, 13);
  if (!axes) n.refuse("names no axes: at least one is expected");
  std::vector<int> list = axes_in(n, *axes, x.rank() + int(axes->size()));
  std::sort(list.begin(), list.end());
  for (const int axis : list) x = x.unsqueeze(axis);
  moved(n, x);
}
void Transpose(Node& n) {
  const Tensor x = n.in(0);
  std::vector<int64_t> order = n.integers("perm");
  if (!n.attribute("perm")) {
    order.resize(size_t(x.rank()));
    for (size_t d = 0; d < order.size(); d++) order[d] = int64_t(order.size() - 1 - d);
  }
  moved(n, x.permute(axes_in(n, order, x.rank())));
}
void Concat(Node& n) {
  std::vector<Tensor> parts;
  for (size_t i = 0; i < n.inputs(); i++) parts.push_back(n.in(i));
  moved(n,
        concat(parts, axis_in(n, n.integer("axis", n.opset() < 4 ? std::optional<int64_t>(1) : std::nullopt),
                              parts[0].rank())));
}
void Split(Node& n) {
  const Tensor x = n.in(0);
  const int axis = axis_in(n, n.integer("axis", 0), x.rank());
  auto sizes = integers_of(n, "split", 1, 13);
  const auto parts = int64_t(n.outputs());
  if (parts == 0) n.refuse("has no result: at least one is expected");
  if (!sizes) {
    const Dim extent = x.dim(axis);
    const Dim size = ceil_div(extent, Dim(parts));
    Dims list;
    for (int64_t k = 0; k + 1 < parts; k++) list.push_back(size);
    list.push_back(extent - size * Dim(parts - 1));
    const auto made = x.split(list, axis);
    for (size_t i = 0; i < made.size(); i++) moved(n, made[i], i);
    return;
  }
  const auto made = x.split(Dims(sizes->begin(), sizes->end()), axis);
  if (made.size() != n.outputs())
    n.refuse(fmt::format("makes {} parts for {} results", made.size(), n.outputs()));
  for (size_t i = 0; i < made.size(); i++) moved(n, made[i], i);
}
void Pad(Node& n) {
  Tensor x = n.in(0);
  const std::string mode = n.one_of("mode", "constant", {"constant", "edge", "reflect", "wrap"});
  Dims pads;
  if (n.opset() < 11)
    for (const int64_t pad : n.integers("pads")) pads.push_back(pad);
  else
    pads = n.dims(1);
  double value = n.opset() < 11 ? n.number("value", 0) : 0;
  if (n.opset() >= 11 && n.has(2) && mode == "constant") {
    const auto list = n.numbers(2);
    if (!list.empty()) value = list[0];
  }
  std::vector<int> axes(size_t(x.rank()));
  std::iota(axes.begin(), axes.end(), 0);
  if (n.has(3)) axes = axes_in(n, n.ints(3), x.rank());
  if (pads.size() != 2 * axes.size())
    n.refuse(fmt::format("has {} pads for {} axes: two are expected for each", pads.size(), axes.size()));
  PadMode how = PadMode::constant;
  if (mode == "reflect")
    how = PadMode::reflect;
  else if (mode == "edge")
    how = PadMode::replicate;
  else if (mode == "wrap")
    how = PadMode::circular;
  std::vector<Padding> list;
  for (size_t i = 0; i < axes.size(); i++) {
    const Dim before = pads[i], after = pads[i + axes.size()];
    const auto known = [](const Dim& d) { return d.is_constant() ? d.value() : 0; };
    const int64_t cut_before = std::max<int64_t>(-known(before), 0),
                  cut_after = std::max<int64_t>(-known(after), 0);
    if (before == Dim(0) && after == Dim(0)) continue;
    if (how != PadMode::constant && (cut_before > 0 || cut_after > 0)) {
      x = x.slice(axes[i], cut_before, x.dim(axes[i]) - Dim(cut_after));
      list.push_back({axes[i], cut_before > 0 ? Dim(0) : before, cut_after > 0 ? Dim(0) : after});
    } else
      list.push_back({axes[i], before, after});
  }
  moved(n, list.empty() ? x : x.pad(list, how, value));
}
void Expand(Node& n) {
  const Tensor x = n.in(0);
  const Dims wanted = n.dims(1);
  Dims shape = x.shape();
  while (shape.size() < wanted.size()) shape.insert(shape.begin(), Dim(1));
  const size_t lead = shape.size() - wanted.size();
  for (size_t d = 0; d < wanted.size(); d++)
    if (shape[lead + d] == Dim(1)) shape[lead + d] = wanted[d];
  moved(n, x.expand(shape));
}
void Tile(Node& n) { moved(n, n.in(0).repeat(n.dims(1))); }
namespace {
HostTensor value_of(Node& n, const Attribute& a) {
  if (a.tensors.size() != 1 || !carrier(a.tensors[0].type))
    n.refuse(fmt::format("has a value of {}, which is not supported",
                         a.tensors.empty() ? "no tensor" : type_text(a.tensors[0].type)));
  return decode(a.tensors[0]);
}
/// What ConstantOfShape repeats.
HostTensor repeated_value(Node& n, const Attribute& a) {
  HostTensor one = value_of(n, a);
  if (one.count() != 1) n.refuse(fmt::format("has a value of {} numbers, one is expected", one.count()));
  return one;
}
} // namespace
void Shape(Node& n) { dims_of_shape(n); }
void Size(Node& n) { dims_of_size(n); }
void ConstantOfShape(Node& n) {
  const Attribute* a = n.attribute("value");
  const Dims shape = n.dims(0);
  if (!a) return n.out(zeros(n.graph(), shape));
  const HostTensor one = repeated_value(n, *a);
  const Tensor value = n.graph().constant_bytes(one.data, one.dtype, {});
  n.out(0, value.expand(shape), a->tensors[0].type);
}
void Constant(Node& n) {
  const auto list = [&](auto values, DType type, bool scalar) {
    HostTensor t{type, {}, std::vector<std::byte>(size_t(storage_bytes(type, int64_t(values.size()))))};
    if (!scalar) t.shape = {int64_t(values.size())};
    for (size_t i = 0; i < values.size(); i++) {
      if (is_float_type(type))
        store_f64(type, t.data.data(), int64_t(i), double(values[i]));
      else
        store_i64(type, t.data.data(), int64_t(i), int64_t(values[i]));
    }
    n.out_constant(0, std::move(t), element_type_of(type));
  };
  if (const Attribute* a = n.attribute("value"))
    return n.out_constant(0, value_of(n, *a), a->tensors[0].type);
  if (const Attribute* a = n.attribute("value_float"))
    return list(std::vector<float>{a->number}, DType::f32, true);
  if (const Attribute* a = n.attribute("value_floats")) return list(a->numbers, DType::f32, false);
  if (const Attribute* a = n.attribute("value_int"))
    return list(std::vector<int64_t>{a->integer}, DType::i64, true);
  if (const Attribute* a = n.attribute("value_ints")) return list(a->integers, DType::i64, false);
  n.refuse("has no value of numbers: strings and sparse tensors are not supported");
}
void Range(Node& n) {
  const DType type = n.in(0).dtype();
  if (!is_float_type(type)) {
    const Dim start = n.dims(0).at(0), end = n.dims(1).at(0);
    return n.out(arange(n.graph(), start, end, n.integer_at(2), type));
  }
  const double start = n.numbers(0).at(0), limit = n.numbers(1).at(0), delta = n.numbers(2).at(0);
  if (!(std::fabs(delta) > 0) || !(std::fabs((limit - start) / delta) < 1e12))
    n.refuse(fmt::format("does not lead from {} to {} in steps of {}", start, limit, delta));
  const auto count = int64_t(std::max(0.0, std::ceil((limit - start) / delta)));
  const Tensor places = n.graph().arange(Dim(count)).cast(type);
  n.out((places * delta + start).cast(type));
}
void DepthToSpace(Node& n) {
  const Tensor x = n.in(0);
  const int64_t b = n.integer("blocksize");
  if (b < 1) n.refuse(fmt::format("has blocksize = {}, at least 1 is expected", b));
  const auto [batch, c, h, w] = x.dims4();
  const std::string mode = n.one_of("mode", "DCR", {"DCR", "CRD"});
  if (mode == "DCR")
    moved(n, x.reshape({batch, b, b, c / Dim(b * b), h, w})
                 .permute({0, 3, 4, 1, 5, 2})
                 .reshape({batch, c / Dim(b * b), h * Dim(b), w * Dim(b)}));
  else
    moved(n, x.reshape({batch, c / Dim(b * b), b, b, h, w})
                 .permute({0, 1, 4, 2, 5, 3})
                 .reshape({batch, c / Dim(b * b), h * Dim(b), w * Dim(b)}));
}
void SpaceToDepth(Node& n) {
  const Tensor x = n.in(0);
  const int64_t b = n.integer("blocksize");
  if (b < 1) n.refuse(fmt::format("has blocksize = {}, at least 1 is expected", b));
  const auto [batch, c, h, w] = x.dims4();
  moved(n, x.reshape({batch, c, h / Dim(b), b, w / Dim(b), b})
               .permute({0, 3, 5, 1, 2, 4})
               .reshape({batch, c * Dim(b * b), h / Dim(b), w / Dim(b)}));
}
void EyeLike(Node& n) {
  const Tensor x = n.in(0);
  const auto [rows, columns] = x.dims2();
  const auto type = ElementType(int32_t(n.integer("dtype", int64_t(n.type(0)))));
  const int64_t k = n.integer("k", 0);
  const Tensor one =
      n.graph().iota({rows, columns}, [&](const Dims& i) { return luminal::equal(i[1] - i[0], Dim(k)); });
  n.out(0, one.cast(carrier(type).value_or(DType::f32)), type);
}
void Trilu(Node& n) {
  const Tensor x = n.in(0);
  const Dim k = n.has(1) ? n.dims(1).at(0) : Dim(0);
  moved(n, n.integer("upper", 1) != 0 ? x.triu(k) : x.tril(k));
}
void CenterCropPad(Node& n) {
  Tensor x = n.in(0);
  const std::vector<int64_t> wanted = n.ints(1);
  std::vector<int> axes(size_t(x.rank()));
  std::iota(axes.begin(), axes.end(), 0);
  if (n.attribute("axes")) axes = axes_in(n, n.integers("axes"), x.rank());
  if (axes.size() != wanted.size())
    n.refuse(fmt::format("has {} sizes for {} axes: one is expected for each", wanted.size(), axes.size()));
  for (size_t i = 0; i < axes.size(); i++) {
    const int64_t have = n.extents(x)[size_t(axes[i])], more = wanted[i] - have;
    if (more < 0)
      x = x.slice(axes[i], (-more) / 2, (-more) / 2 + wanted[i]);
    else if (more > 0)
      x = x.pad(axes[i], more / 2, more - more / 2);
  }
  moved(n, x);
}
void ReverseSequence(Node& n) {
  const Tensor x = n.in(0), lengths = n.in(1);
  const int time = axis_in(n, n.integer("time_axis", 0), x.rank()),
            batch = axis_in(n, n.integer("batch_axis", 1), x.rank());
  Dims shape(size_t(x.rank()), Dim(1));
  shape[size_t(time)] = x.dim(time);
  const Tensor at = n.graph().iota(shape, [&](const Dims& i) { return i[size_t(time)]; });
  const Tensor length = along(lengths.cast(DType::i64), batch, x.rank());
  const Tensor index = select(at < length, length - 1 - at, at);
  moved(n, x.take_along(index, time));
}

// ---- the same with integers that are known ----

namespace {
Dims shape_of(Node& n) {
  const Value& v = n.value(0);
  if (!v.tensor.defined() && v.constant) return Dims(v.constant->shape.begin(), v.constant->shape.end());
  return n.in(0).shape();
}
/// Both operands, stretched to one length.
std::optional<std::pair<KnownDims, KnownDims>> pair_of(Node& n) {
  if (n.inputs() != 2) return {};
  if (n.type(0) != ElementType::i64 || n.type(1) != ElementType::i64) return {};
  auto a = n.known_dims(0), b = n.known_dims(1);
  if (!a || !b) return {};
  if (a->list.size() != b->list.size()) {
    if (a->list.size() == 1)
      a->list.assign(b->list.size(), a->list[0]);
    else if (b->list.size() == 1)
      b->list.assign(a->list.size(), b->list[0]);
    else
      return {};
  }
  a->scalar = b->scalar = a->scalar && b->scalar;
  return std::pair{*a, *b};
}
template <class F> bool pairwise(Node& n, F&& combine) {
  const auto both = pair_of(n);
  if (!both) return false;
  Dims list;
  for (size_t i = 0; i < both->first.list.size(); i++) {
    const std::optional<Dim> made = combine(both->first.list[i], both->second.list[i]);
    if (!made) return false;
    list.push_back(*made);
  }
  n.out_dims(0, list, both->first.scalar);
  return true;
}
bool positive(Dim d) { return d.low().value_or(-1) > 0; }
bool natural(Dim d) { return d.low().value_or(-1) >= 0; }
} // namespace

bool dims_of_shape(Node& n) {
  const Dims shape = shape_of(n);
  const auto rank = int64_t(shape.size());
  const auto place = [&](int64_t at) { return std::clamp<int64_t>(at < 0 ? at + rank : at, 0, rank); };
  const int64_t start = place(n.integer("start", 0)), end = place(n.integer("end", rank));
  n.out_dims(0, start < end ? Dims(shape.begin() + start, shape.begin() + end) : Dims(), false);
  return true;
}
bool dims_of_size(Node& n) {
  Dim all = 1;
  for (const Dim extent : shape_of(n)) all = all * extent;
  n.out_dims(0, {all}, true);
  return true;
}
bool dims_gather(Node& n) {
  if (n.type(0) != ElementType::i64) return false;
  const auto x = n.known_dims(0), at = n.known_dims(1);
  if (!x || !at || x->scalar || n.integer("axis", 0) > 0) return false;
  Dims list;
  for (const Dim place : at->list) {
    if (!place.is_constant()) return false;
    const auto size = int64_t(x->list.size());
    const int64_t i = place.value() < 0 ? place.value() + size : place.value();
    if (i < 0 || i >= size) n.refuse(fmt::format("reads element {} of a list of {}", place.value(), size));
    list.push_back(x->list[size_t(i)]);
  }
  n.out_dims(0, list, at->scalar);
  return true;
}
bool dims_concat(Node& n) {
  Dims list;
  for (size_t i = 0; i < n.inputs(); i++) {
    if (n.type(i) != ElementType::i64) return false;
    const auto part = n.known_dims(i);
    if (!part || part->scalar) return false;
    list.insert(list.end(), part->list.begin(), part->list.end());
  }
  n.out_dims(0, list, false);
  return true;
}
bool dims_slice(Node& n) {
  if (n.type(0) != ElementType::i64) return false;
  const auto x = n.known_dims(0);
  if (!x || x->scalar) return false;
  std::vector<int64_t> starts, ends, steps;
  if (n.opset() < 10) {
    starts = n.integers("starts"), ends = n.integers("ends");
  } else {
    for (size_t i = 1; i < n.inputs(); i++)
      if (n.has(i) && !n.known(i)) return false;
    starts = n.ints(1), ends = n.ints(2);
    if (n.has(4)) steps = n.ints(4);
  }
  if (starts.size() != 1 || ends.size() != 1 || (!steps.empty() && steps[0] != 1)) return false;
  const auto size = int64_t(x->list.size());
  const auto place = [&](int64_t at) { return std::clamp<int64_t>(at < 0 ? at + size : at, 0, size); };
  const int64_t start = place(starts[0]), end = place(ends[0]);
  n.out_dims(0, start < end ? Dims(x->list.begin() + start, x->list.begin() + end) : Dims(), false);
  return true;
}
bool dims_same(Node& n) {
  if (!n.value(0).dims) return false;
  n.out_value(0, n.value(0));
  return true;
}
bool dims_unsqueeze(Node& n) {
  if (!n.value(0).dims || !n.value(0).dims->scalar) return false;
  n.out_dims(0, n.value(0).dims->list, false);
  return true;
}
bool dims_squeeze(Node& n) {
  const auto x = n.value(0).dims;
  if (!x || x->list.size() != 1) return false;
  n.out_dims(0, x->list, true);
  return true;
}
bool dims_add(Node& n) {
  return pairwise(n, [](Dim a, Dim b) { return std::optional(a + b); });
}
bool dims_sub(Node& n) {
  return pairwise(n, [](Dim a, Dim b) { return std::optional(a - b); });
}
bool dims_mul(Node& n) {
  return pairwise(n, [](Dim a, Dim b) { return std::optional(a * b); });
}
bool dims_div(Node& n) { // truncating, which is floor where nothing is negative
  return pairwise(
      n, [](Dim a, Dim b) { return natural(a) && positive(b) ? std::optional(a / b) : std::nullopt; });
}
bool dims_mod(Node& n) {
  return pairwise(
      n, [](Dim a, Dim b) { return natural(a) && positive(b) ? std::optional(a % b) : std::nullopt; });
}
bool dims_min(Node& n) {
  return pairwise(n, [](Dim a, Dim b) { return std::optional(min(a, b)); });
}
bool dims_max(Node& n) {
  return pairwise(n, [](Dim a, Dim b) { return std::optional(max(a, b)); });
}
bool dims_cast(Node& n) {
  if (!n.value(0).dims || n.data().op_type != "Cast") return false;
  const auto to = ElementType(int32_t(n.integer("to")));
  if (to != ElementType::i64 && to != ElementType::i32) return false; // sizes fit into 32 bits
  Value value = n.value(0);
  value.type = to;
  value.tensor = Tensor();
  n.out_value(0, std::move(value));
  return true;
}
bool dims_product(Node& n) {
  const auto x = n.value(0).dims;
  if (!x) return false;
  Dim all = 1;
  for (const Dim d : x->list) all = all * d;
  n.out_dims(0, {all}, n.integer("keepdims", 1) == 0);
  return true;
}
bool dims_constant_of_shape(Node& n) {
  const Attribute* a = n.attribute("value");
  if (!a || a->tensors.empty() || a->tensors[0].type != ElementType::i64) return false;
  const auto shape = n.known_dims(0);
  if (!shape || shape->list.size() != 1 || !shape->list[0].is_constant() || shape->list[0].value() > 1024)
    return false;
  const HostTensor one = repeated_value(n, *a);
  n.out_dims(0, Dims(size_t(shape->list[0].value()), Dim(load_i64(DType::i64, one.data.data(), 0))), false);
  return true;
}
bool dims_equal(Node& n) {
  const auto both = pair_of(n);
  if (!both) return false;
  HostTensor truth{DType::boolean, {}, {}};
  if (!both->first.scalar) truth.shape = {int64_t(both->first.list.size())};
  for (size_t i = 0; i < both->first.list.size(); i++) {
    const Dim a = both->first.list[i], b = both->second.list[i];
    const Dim same = luminal::equal(a, b);
    if (!same.is_constant()) return false;
    truth.data.push_back(std::byte(same.value() != 0));
  }
  n.out_constant(0, std::move(truth), ElementType::boolean);
  return true;
}
bool dims_where(Node& n) {
  if (n.type(1) != ElementType::i64) return false;
  const auto c = n.known_dims(0), a = n.known_dims(1), b = n.known_dims(2);
  if (!c || !a || !b) return false;
  const size_t size = std::max({c->list.size(), a->list.size(), b->list.size()});
  const auto pick = [&](const KnownDims& k, size_t i) {
    return k.list.size() == 1 ? k.list[0] : k.list.at(i);
  };
  for (const auto* k : {&*c, &*a, &*b})
    if (k->list.size() != 1 && k->list.size() != size) return false;
  Dims list;
  for (size_t i = 0; i < size; i++) {
    const Dim which = pick(*c, i);
    if (!which.is_constant()) return false;
    list.push_back(which.value() ? pick(*a, i) : pick(*b, i));
  }
  n.out_dims(0, list, c->scalar && a->scalar && b->scalar);
  return true;
}
bool dims_reshape(Node& n) {
  const auto x = n.known_dims(0), shape = n.known_dims(1);
  if (!x || n.value(0).constant || n.type(0) != ElementType::i64) return false;
  if (!shape || shape->scalar || shape->list.size() > 1) return false;
  const auto count = int64_t(x->list.size());
  if (shape->list.empty() ? count != 1
                          : !shape->list[0].is_constant() ||
                                (shape->list[0].value() != -1 && shape->list[0].value() != count))
    return false;
  n.out_dims(0, x->list, shape->list.empty());
  return true;
}
bool dims_range(Node&) { return false; }

} // namespace luminal::onnx::ops
