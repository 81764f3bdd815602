// models/onnx/ops_index.cpp -- gathers, scatters, and results whose extents depend on values.
#include "luminal/random.h"
#include "models/onnx/operators.h"
#include <algorithm>
#include <cmath>
#include <fmt/ranges.h>
#include <numeric>

namespace luminal::onnx::ops {
namespace {

/// Indices from -extent .. extent-1 as such from 0 .. extent-1.
Tensor places(const Tensor& index, Dim extent) {
  const Tensor i = index.cast(DType::i64);
  return select(i < 0, i + extent, i);
}
ScatterOp how_of(Node& n) {
  const std::string word = n.one_of("reduction", "none", {"none", "add", "mul", "min", "max"});
  if (word == "none") return ScatterOp::set;
  if (word == "add") return ScatterOp::add;
  if (word == "mul") return ScatterOp::mul;
  if (word == "min") return ScatterOp::min;
  return ScatterOp::max;
}
Tensor list_tensor(Node& n, const std::vector<int64_t>& list, Dims shape) {
  return n.graph().constant(list, std::move(shape), DType::i64);
}
/// Places along each axis of elements of an index tensor [.., k] that counts from the end, too.
Tensor nd_places(Node& n, const Tensor& index, const Tensor& x, int skip) {
  if (index.rank() > 0 && !index.dim(-1).is_constant()) n.extents(index);
  const int64_t k = index.rank() == 0 ? 0 : index.dim(-1).value();
  if (index.rank() == 0 || skip + int(k) > x.rank())
    n.refuse(fmt::format("has indices {} for {}: they name more axes than there are",
                         luminal::to_string(index.shape()), luminal::to_string(x.shape())));
  std::vector<Tensor> parts;
  for (int64_t d = 0; d < k; d++) parts.push_back(places(index.slice(-1, d, d + 1), x.dim(skip + int(d))));
  return concat(parts, -1);
}
/// A value that must be known for the extents of a result.
HostTensor numbers_of(Node& n, size_t i) {
  n.numbers(i);
  const Value& v = n.value(i);
  if (v.constant) return *v.constant;
  HostTensor t{DType::i64, {}, {}};
  const auto list = n.ints(i);
  t.data.resize(list.size() * 8);
  if (!v.dims->scalar) t.shape = {int64_t(list.size())};
  for (size_t k = 0; k < list.size(); k++) store_i64(DType::i64, t.data.data(), int64_t(k), list[k]);
  return t;
}
void out_integers(Node& n, size_t i, const std::vector<int64_t>& list, std::vector<int64_t> shape) {
  HostTensor t{DType::i64, std::move(shape), std::vector<std::byte>(list.size() * 8)};
  for (size_t k = 0; k < list.size(); k++) store_i64(DType::i64, t.data.data(), int64_t(k), list[k]);
  n.out_constant(i, std::move(t), ElementType::i64);
}

} // namespace

void Gather(Node& n) {
  const Tensor x = n.in(0);
  const int axis = axis_in(n, n.integer("axis", 0), x.rank());
  if (const auto at = n.known_dims(1); at && at->scalar && at->list[0].is_constant()) {
    const int64_t place = at->list[0].value();
    return n.out(0, x.select(axis, place < 0 ? x.dim(axis) + place : Dim(place)), n.type(0));
  }
  n.out(0, x.index_select(axis, places(n.in(1), x.dim(axis))), n.type(0));
}
void GatherElements(Node& n) {
  const Tensor x = n.in(0);
  const int axis = axis_in(n, n.integer("axis", 0), x.rank());
  n.out(0, x.gather(axis, places(n.in(1), x.dim(axis))), n.type(0));
}
void GatherND(Node& n) {
  const Tensor x = n.in(0), index = n.in(1);
  const auto batch = int(n.integer("batch_dims", 0));
  Tensor at = nd_places(n, index, x, batch);
  // Batch axes become indices, too.
  if (batch > 0) {
    Dims shape = at.shape();
    shape.back() = 1;
    std::vector<Tensor> parts;
    for (int d = 0; d < batch; d++)
      parts.push_back(n.graph().iota(shape, [&](const Dims& i) { return i[size_t(d)]; }));
    parts.push_back(at);
    at = concat(parts, -1);
  }
  n.out(0, gather_nd(x, at), n.type(0));
}
void ScatterElements(Node& n) {
  const Tensor x = n.in(0);
  const int axis = axis_in(n, n.integer("axis", 0), x.rank());
  n.out(0, x.scatter(axis, places(n.in(1), x.dim(axis)), n.in(2), how_of(n)), n.type(0));
}
void ScatterND(Node& n) {
  const Tensor x = n.in(0);
  n.out(0, scatter_nd(x, nd_places(n, n.in(1), x, 0), n.in(2), how_of(n)), n.type(0));
}
void TensorScatter(Node& n) {
  // past [batch, .., max, ..], update [batch, .., n, ..], write_indices [batch]
  const Tensor past = n.in(0), update = n.in(1);
  const int axis = axis_in(n, n.integer("axis", -2), past.rank());
  const bool circular = n.one_of("mode", "linear", {"linear", "circular"}) == "circular";
  Dims shape(size_t(past.rank()), Dim(1));
  shape[size_t(axis)] = update.dim(axis);
  Tensor at = n.graph().iota(shape, [&](const Dims& i) { return i[size_t(axis)]; });
  at = n.has(2) ? at + along(n.in(2).cast(DType::i64), 0, past.rank()) : at;
  if (circular) at = at % past.dim(axis);
  n.out(past.scatter(axis, at.expand(update.shape()), update));
}
void OneHot(Node& n) {
  const Tensor index = n.in(0), values = n.in(2);
  const Dim depth = n.known_dims(1) ? n.dims(1).at(0) : Dim(int64_t(n.numbers(1).at(0)));
  const int rank = index.rank() + 1;
  const int axis = axis_in(n, n.integer("axis", -1), rank);
  Tensor at = (is_float_type(index.dtype()) ? index.trunc().cast(DType::i64) : index.cast(DType::i64))
                  .unsqueeze(axis);
  at = select(at < 0, at + depth, at);
  Dims shape(size_t(rank), Dim(1));
  shape[size_t(axis)] = depth;
  const Tensor place = n.graph().iota(shape, [&](const Dims& i) { return i[size_t(axis)]; });
  n.out(select(luminal::equal(at, place), values.select(0, 1), values.select(0, 0)));
}
void Compress(Node& n) {
  const Tensor x = n.in(0);
  const auto condition = n.numbers(1);
  std::vector<int64_t> kept;
  for (size_t i = 0; i < condition.size(); i++)
    if (condition[i] != 0) kept.push_back(int64_t(i));
  const Tensor at = list_tensor(n, kept, {int64_t(kept.size())});
  if (!n.attribute("axis")) return n.out(x.reshape({-1}).index_select(0, at));
  n.out(x.index_select(axis_in(n, n.integer("axis"), x.rank()), at));
}
void NonZero(Node& n) {
  const HostTensor x = numbers_of(n, 0);
  const size_t rank = x.shape.size();
  std::vector<int64_t> found;
  for (int64_t i = 0; i < x.count(); i++)
    if (x.at(i) != 0) found.push_back(i);
  std::vector<int64_t> list(rank * found.size());
  for (size_t k = 0; k < found.size(); k++) {
    int64_t rest = found[k];
    for (size_t d = rank; d-- > 0; rest /= x.shape[d]) list[d * found.size() + k] = rest % x.shape[d];
  }
  out_integers(n, 0, list, {int64_t(rank), int64_t(found.size())});
}
void Unique(Node& n) {
  const HostTensor x = numbers_of(n, 0);
  const bool sorted = n.integer("sorted", 1) != 0, by_axis = n.attribute("axis") != nullptr;
  // A row is a slice along the axis, or one element.
  std::vector<int64_t> shape = by_axis ? x.shape : std::vector<int64_t>{x.count()};
  if (shape.empty()) n.refuse("has the attribute axis, its input has no axes");
  const auto axis = size_t(by_axis ? axis_in(n, n.integer("axis"), int(shape.size())) : 0);
  int64_t outer = 1, inner = 1;
  for (size_t d = 0; d < shape.size(); d++) (d < axis ? outer : inner) *= d == axis ? 1 : shape[d];
  const int64_t rows = shape[axis];
  const auto row = [&](int64_t r) {
    std::vector<double> list;
    for (int64_t o = 0; o < outer; o++)
      for (int64_t i = 0; i < inner; i++) list.push_back(x.at((o * rows + r) * inner + i));
    return list;
  };
  std::vector<std::vector<double>> all;
  for (int64_t r = 0; r < rows; r++) all.push_back(row(r));
  std::vector<int64_t> order(static_cast<size_t>(rows)), first, inverse(static_cast<size_t>(rows)), counts;
  std::iota(order.begin(), order.end(), 0);
  if (sorted)
    std::stable_sort(order.begin(), order.end(),
                     [&](int64_t a, int64_t b) { return all[size_t(a)] < all[size_t(b)]; });
  for (const int64_t r : order) {
    size_t k = sorted && !first.empty() ? first.size() - 1 : 0;
    while (k < first.size() && all[size_t(first[k])] != all[size_t(r)]) k++;
    if (k == first.size()) first.push_back(r), counts.push_back(0);
    counts[k]++;
    inverse[size_t(r)] = int64_t(k);
  }
  const Tensor at = list_tensor(n, first, {int64_t(first.size())});
  n.out(0, by_axis ? n.in(0).index_select(int(axis), at) : n.in(0).reshape({-1}).index_select(0, at));
  out_integers(n, 1, first, {int64_t(first.size())});
  out_integers(n, 2, inverse, {rows});
  out_integers(n, 3, counts, {int64_t(counts.size())});
}
void NonMaxSuppression(Node& n) {
  const HostTensor boxes = numbers_of(n, 0), scores = numbers_of(n, 1);
  if (boxes.shape.size() != 3 || scores.shape.size() != 3 || boxes.shape[2] != 4 ||
      boxes.shape[0] != scores.shape[0] || boxes.shape[1] != scores.shape[2])
    n.refuse(fmt::format(
        "has boxes [{}] and scores [{}]: [batch, boxes, 4] and [batch, classes, boxes] are expected",
        fmt::join(boxes.shape, ", "), fmt::join(scores.shape, ", ")));
  const int64_t most = n.has(2) ? n.integer_at(2) : 0;
  const auto number = [&](size_t i) { return n.has(i) ? n.numbers(i).at(0) : 0.0; };
  const double most_overlap = number(3), least = n.has(4) ? number(4) : -INFINITY;
  const bool centers = n.integer("center_point_box", 0) != 0;
  const auto corners = [&](int64_t batch, int64_t i) {
    std::array<double, 4> b{}, c{};
    for (int k = 0; k < 4; k++) b[size_t(k)] = boxes.at((batch * boxes.shape[1] + i) * 4 + k);
    if (centers)
      c = {b[0] - b[2] / 2, b[1] - b[3] / 2, b[0] + b[2] / 2, b[1] + b[3] / 2};
    else
      c = {std::min(b[0], b[2]), std::min(b[1], b[3]), std::max(b[0], b[2]), std::max(b[1], b[3])};
    return c;
  };
  const auto overlap = [](const std::array<double, 4>& a, const std::array<double, 4>& b) {
    const double w = std::min(a[2], b[2]) - std::max(a[0], b[0]),
                 h = std::min(a[3], b[3]) - std::max(a[1], b[1]);
    if (w <= 0 || h <= 0) return 0.0;
    const double both = w * h;
    return both / ((a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - both);
  };
  std::vector<int64_t> kept;
  for (int64_t batch = 0; batch < scores.shape[0]; batch++)
    for (int64_t c = 0; c < scores.shape[1]; c++) {
      std::vector<int64_t> order;
      const auto score = [&](int64_t i) {
        return scores.at((batch * scores.shape[1] + c) * scores.shape[2] + i);
      };
      for (int64_t i = 0; i < scores.shape[2]; i++)
        if (score(i) > least) order.push_back(i);
      std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return score(a) > score(b); });
      std::vector<std::array<double, 4>> chosen;
      for (const int64_t i : order) {
        if (int64_t(chosen.size()) >= most) break;
        const auto box = corners(batch, i);
        if (std::any_of(chosen.begin(), chosen.end(),
                        [&](const auto& other) { return overlap(box, other) > most_overlap; }))
          continue;
        chosen.push_back(box);
        kept.insert(kept.end(), {batch, c, i});
      }
    }
  out_integers(n, 0, kept, {int64_t(kept.size() / 3), 3});
}
void ArrayFeatureExtractor(Node& n) {
  const Tensor x = n.in(0);
  const Tensor at = n.in(1).reshape({-1});
  n.out(x.rank() == 1 ? x.index_select(-1, at).unsqueeze(0) : x.index_select(x.rank() - 1, at));
}
void Binarizer(Node& n) {
  const Tensor x = n.in(0);
  n.out((x > n.number("threshold", 0)).cast(x.dtype()));
}

} // namespace luminal::onnx::ops
