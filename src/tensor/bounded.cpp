// tensor/bounded.cpp -- results whose size data decide, in a fixed capacity with a count; searches
// and histograms.
#include "luminal/indexing.h"
#include "tensor/views.h"
#include <algorithm>

namespace luminal {
namespace {

void check_capacity(std::string_view op, int64_t capacity, Where where) {
  if (capacity < 0) throw Error(op, fmt::format("a capacity of {}: it may not be negative", capacity), where);
}

Tensor binary(Op op, std::string_view name, Operand a, Operand b, Where where) {
  return elementwise(op, name, {a, b}, where);
}
Tensor choose(std::string_view name, const Tensor& condition, Operand a, Operand b, Where where) {
  return elementwise(Op::select, name, {Operand(condition, where), a, b}, where);
}

/// [capacity] of `base`, with values[i] written or combined at places[i]; places outside are left
/// out.
Tensor scatter_line(std::string_view op, const Tensor& base, const Tensor& values, const Tensor& places,
                    std::optional<Op> how, bool distinct, Where where) {
  const int64_t capacity = type_of(base).shape[0].value();
  if (capacity == 0 || is_empty(type_of(values).shape)) return base;
  return build(op, base.graph(), where, [&](FunctionBuilder& b) {
    ScatterAttr scatter;
    const Interval range{0, capacity - 1};
    scatter.map = {hole_symbol(0, range)};
    scatter.op = how;
    scatter.unique = distinct;
    scatter.holes.push_back({.input = 2, .axes = {0}, .range = range, .policy = OutOfRange::fill});
    return b.add(scatter, {node_id(base), node_id(values), node_id(places)}, {}, where);
  });
}

/// Where each element that holds goes among those that hold; the others go to `capacity`, which is
/// nowhere.
Tensor places_of(std::string_view op, const Tensor& mask, int64_t capacity, Where where) {
  Tensor place = cumsum(mask, 0, {.exclusive = true}, where);
  return choose(op, mask, Operand(place, where), Operand(capacity, where), where);
}

Tensor iota_line(std::string_view op, const Tensor& like, Where where) {
  const Expr extent = type_of(like).shape[0];
  return build(op, like.graph(), where,
               [&](FunctionBuilder& b) { return b.iota({extent}, axis_symbol(0, extent), DType::i64); });
}

} // namespace

Bounded nonzero(const Tensor& x, int64_t capacity, int64_t fill, Where where) {
  graph_of("nonzero", {&x}, where);
  check_capacity("nonzero", capacity, where);
  const Shape shape = type_of(x).shape;
  Tensor mask =
      (x.dtype() == DType::boolean ? x
                                   : binary(Op::ne, "nonzero", Operand(x, where), Operand(0, where), where))
          .flatten(0, -1, where);
  Tensor empty = number_of("nonzero", x.graph(), DType::i64, -1, {capacity}, where);
  Tensor flat = scatter_line("nonzero", empty, iota_line("nonzero", mask, where),
                             places_of("nonzero", mask, capacity, where), std::nullopt, true, where);
  Tensor count = mask.cast(DType::i64, where).sum({0}, false, where);
  if (shape.empty()) return {number_of("nonzero", x.graph(), DType::i64, 0, {capacity, 0}, where), count};
  Tensor rows = build("nonzero", x.graph(), where, [&](FunctionBuilder& b) {
    const Shape table{capacity, int64_t(shape.size())};
    NodeId wide = b.view(node_id(flat), table, {axis_symbol(0, table[0])});
    // The coordinate along axis d: flat // (extents behind d) % (extent of d).
    NodeId coordinate = wide;
    for (size_t d = shape.size(); d-- > 0;) {
      Shape behind(shape.begin() + long(d) + 1, shape.end());
      NodeId quotient = b.map(Op::div, {wide, b.iota(table, product_of(behind), DType::i64)});
      NodeId own = b.map(Op::rem, {quotient, b.iota(table, shape[d], DType::i64)});
      NodeId here = b.iota(table, eq(axis_symbol(1, table[1]), int64_t(d)), DType::boolean);
      coordinate = b.map(Op::select, {here, own, coordinate});
    }
    NodeId unused = b.map(Op::lt, {wide, b.iota(table, 0, DType::i64)});
    return b.map(Op::select, {unused, b.iota(table, fill, DType::i64), coordinate});
  });
  return {rows, count};
}

Bounded masked_select(const Tensor& x, const Tensor& mask, int64_t capacity, double fill, Where where) {
  graph_of("masked_select", {&x, &mask}, where);
  check_capacity("masked_select", capacity, where);
  if (mask.dtype() != DType::boolean)
    throw Error("masked_select",
                fmt::format("the mask must be bool, it is {}", luminal::to_string(mask.dtype())), where);
  const Shape shape = broadcast_shape("masked_select", type_of(x).shape, type_of(mask).shape, where);
  Tensor values = broadcast_to("masked_select", x, shape, where).flatten(0, -1, where),
         chosen = broadcast_to("masked_select", mask, shape, where).flatten(0, -1, where);
  Tensor base = number_of("masked_select", x.graph(), x.dtype(), fill, {capacity}, where);
  return {scatter_line("masked_select", base, values, places_of("masked_select", chosen, capacity, where),
                       std::nullopt, true, where),
          chosen.cast(DType::i64, where).sum({0}, false, where)};
}

Unique unique(const Tensor& x, int64_t capacity, Where where) {
  graph_of("unique", {&x}, where);
  check_capacity("unique", capacity, where);
  Tensor line = x.flatten(0, -1, where);
  auto [sorted, order] = line.sort(0, false, where);
  // The first of each run of equal ones.
  const Expr extent = type_of(line).shape[0];
  Tensor before = build("unique", x.graph(), where, [&](FunctionBuilder& b) {
    const Expr i = axis_symbol(0, extent);
    return b.view(node_id(sorted), {extent}, {larger(i - 1, 0)});
  });
  Tensor is_begin = build("unique", x.graph(), where, [&](FunctionBuilder& b) {
    return b.iota({extent}, eq(axis_symbol(0, extent), 0), DType::boolean);
  });
  Tensor differs = binary(Op::ne, "unique", Operand(sorted, where), Operand(before, where), where);
  Tensor first = binary(Op::bit_or, "unique", Operand(is_begin, where), Operand(differs, where), where);
  Tensor group =
      binary(Op::sub, "unique", Operand(cumsum(first, 0, {}, where), where), Operand(1, where), where);
  Unique result;
  Tensor begins = choose("unique", first, Operand(group, where), Operand(capacity, where), where);
  result.values = scatter_line("unique", number_of("unique", x.graph(), x.dtype(), 0, {capacity}, where),
                               sorted, begins, std::nullopt, true, where);
  result.count = first.cast(DType::i64, where).sum({0}, false, where);
  Tensor one = number_of("unique", x.graph(), DType::i64, 1, {extent}, where);
  result.counts = scatter_line("unique", number_of("unique", x.graph(), DType::i64, 0, {capacity}, where),
                               one, group, Op::add, false, where);
  result.inverse =
      build("unique", x.graph(), where, [&](FunctionBuilder& b) {
        ScatterAttr scatter;
        const Interval range = index_interval(extent);
        scatter.map = {hole_symbol(0, range)};
        scatter.unique = true;
        scatter.holes.push_back({.input = 2, .axes = {0}, .range = range, .policy = OutOfRange::clamp});
        NodeId base = b.view(b.constant(DType::i64, 0), {extent}, {});
        return b.add(scatter, {base, node_id(group), node_id(order)}, {}, where);
      }).reshape(x.shape(), where);
  return result;
}

Tensor one_hot(const Tensor& ids, int64_t classes, Where where) {
  graph_of("one_hot", {&ids}, where);
  check_ids("one_hot", ids, where);
  if (classes < 0)
    throw Error("one_hot", fmt::format("{} classes: the number may not be negative", classes), where);
  Tensor wide = ids.unsqueeze(-1, where);
  Tensor each = build("one_hot", ids.graph(), where, [&](FunctionBuilder& b) {
    return b.iota({classes}, axis_symbol(0, classes), DType::i64);
  });
  return binary(Op::eq, "one_hot", Operand(wide.cast(DType::i64, where), where), Operand(each, where), where)
      .cast(DType::i64, where);
}

Tensor searchsorted(const Tensor& sorted, const Tensor& values, bool right, bool nan_first, Where where) {
  graph_of("searchsorted", {&sorted, &values}, where);
  const Shape line = type_of(sorted).shape, wanted = type_of(values).shape;
  bool fits = line.size() == 1 || (!line.empty() && line.size() == wanted.size());
  for (size_t d = 0; fits && d + 1 < line.size(); d++) fits = proves_equal(line[d], wanted[d]);
  if (!fits)
    throw Error("searchsorted",
                fmt::format("sorted {} and values {} do not fit: sorted has one axis, or all but the last in "
                            "common with values",
                            text_of(line), text_of(wanted)),
                where);
  const Expr extent = line.back();
  const int64_t most = extent.range().high;
  if (most == unbounded_high || most > (int64_t(1) << 40))
    throw Error("searchsorted", fmt::format("the last axis of {} needs a largest size", text_of(line)),
                where);
  const DType type = promote(sorted.dtype(), values.dtype());
  const Tensor numbers = sorted.cast(type, where);
  Tensor table = ordered_keys("searchsorted", numbers, where),
         x = ordered_keys("searchsorted", values.cast(type, where), where);
  if (nan_first && is_float(type))
    table = build("searchsorted", x.graph(), where, [&](FunctionBuilder& b) {
      const DType keys = table.dtype();
      NodeId least = integer(b, keys, -(int64_t(~uint64_t(0) >> (65 - bits(keys)))) - 1, line);
      return b.map(Op::select, {b.map(Op::is_nan, {node_id(numbers)}), least, node_id(table)});
    });
  // Binary search for all values at once: the place lies in low..high, as PyTorch halves it (where NaN
  // stands in the line, or it is not sorted, the result depends on that).
  Tensor low = number_of("searchsorted", x.graph(), DType::i64, 0, wanted, where), high;
  high = build("searchsorted", x.graph(), where,
               [&](FunctionBuilder& b) { return b.iota(wanted, extent, DType::i64); });
  for (int64_t left = most; left > 0; left /= 2) {
    Tensor middle = build("searchsorted", x.graph(), where, [&](FunctionBuilder& b) {
      return b.map(Op::shr,
                   {b.map(Op::add, {node_id(low), node_id(high)}), integer(b, DType::i64, 1, wanted)});
    });
    Tensor comes = build("searchsorted", x.graph(), where, [&](FunctionBuilder& b) {
      const Interval range{0, most};
      ViewAttr view; // element `middle`
      view.shape = wanted;
      std::vector<int> all;
      for (size_t d = 0; d < wanted.size(); d++) {
        all.push_back(int(d));
        if (d + 1 < line.size()) view.map.push_back(axis_symbol(int(d), line[d]));
      }
      const Expr at = hole_symbol(0, range);
      view.map.push_back(at);
      view.predicate = lt(at, extent); // beyond the end nothing is left to look at
      view.holes.push_back({.input = 1, .axes = all, .range = range, .policy = OutOfRange::clamp});
      NodeId element = b.add(view, {node_id(table), node_id(middle)}, {}, where);
      // a < v, or not v < a
      NodeId before = right ? b.map(Op::bit_not, {b.map(Op::lt, {node_id(x), element})})
                            : b.map(Op::lt, {element, node_id(x)});
      return b.map(Op::bit_and, {before, b.map(Op::lt, {node_id(low), node_id(high)})});
    });
    low = build("searchsorted", x.graph(), where, [&](FunctionBuilder& b) {
      NodeId next = b.map(Op::add, {node_id(middle), integer(b, DType::i64, 1, wanted)});
      return b.map(Op::select, {node_id(comes), next, node_id(low)});
    });
    high = build("searchsorted", x.graph(), where, [&](FunctionBuilder& b) {
      return b.map(Op::select, {node_id(comes), node_id(high), node_id(middle)});
    });
  }
  return low;
}
Tensor bucketize(const Tensor& x, const Tensor& boundaries, bool right, bool nan_first, Where where) {
  graph_of("bucketize", {&x, &boundaries}, where);
  if (boundaries.rank() != 1)
    throw Error("bucketize",
                fmt::format("the boundaries are {}, expected one axis", text_of(type_of(boundaries).shape)),
                where);
  return searchsorted(boundaries, x, right, nan_first, where);
}

Tensor bincount(const Tensor& ids, int64_t bins, const Tensor& weights, Where where) {
  graph_of("bincount", {&ids}, where);
  check_ids("bincount", ids, where);
  if (bins < 1) throw Error("bincount", fmt::format("{} bins: there must be at least one", bins), where);
  if (ids.rank() != 1)
    throw Error("bincount",
                fmt::format("ids are {}, expected one axis (see flatten)", text_of(type_of(ids).shape)),
                where);
  DType type = DType::i64;
  Tensor each = number_of("bincount", ids.graph(), type, 1, type_of(ids).shape, where);
  if (weights.defined()) {
    graph_of("bincount", {&ids, &weights}, where);
    if (weights.rank() != 1 || !proves_equal(type_of(weights).shape[0], type_of(ids).shape[0]))
      throw Error("bincount",
                  fmt::format("weights {} do not fit ids {}: one weight for each",
                              text_of(type_of(weights).shape), text_of(type_of(ids).shape)),
                  where);
    type = is_float(weights.dtype()) ? weights.dtype() : DType::f64;
    each = weights.cast(type, where);
  }
  Tensor none = number_of("bincount", ids.graph(), type, 0, {bins}, where);
  return index_add(none, 0, ids, each, 1, where);
}

Tensor histc(const Tensor& x, int64_t bins, double low, double high, Where where) {
  graph_of("histc", {&x}, where);
  if (bins < 1) throw Error("histc", fmt::format("{} bins: there must be at least one", bins), where);
  if (!(low < high) || high - low > 1e300)
    throw Error("histc", fmt::format("{}..{} is not a range: the first must be less", low, high), where);
  if (!is_float(x.dtype()))
    throw Error("histc",
                fmt::format("the elements must be floats, they are {}", luminal::to_string(x.dtype())),
                where);
  const DType wide = bits(x.dtype()) < 32 ? DType::f32 : x.dtype();
  Tensor line = x.cast(wide, where).flatten(0, -1, where);
  Tensor above = binary(Op::le, "histc", Operand(low, where), Operand(line, where), where),
         below = binary(Op::le, "histc", Operand(line, where), Operand(high, where), where);
  Tensor inside = binary(Op::bit_and, "histc", Operand(above, where), Operand(below, where), where);
  Tensor offset = binary(Op::sub, "histc", Operand(line, where), Operand(low, where), where);
  Tensor scaled = binary(Op::mul, "histc", Operand(offset, where), Operand(double(bins), where), where);
  Tensor part = binary(Op::div, "histc", Operand(scaled, where), Operand(high - low, where), where)
                    .cast(DType::i64, where);
  Tensor place = binary(Op::min, "histc", Operand(part, where), Operand(bins - 1, where), where);
  Tensor chosen = choose("histc", inside, Operand(place, where), Operand(bins, where), where);
  Tensor one = number_of("histc", x.graph(), wide, 1, type_of(line).shape, where);
  return scatter_line("histc", number_of("histc", x.graph(), wide, 0, {bins}, where), one, chosen, Op::add,
                      false, where)
      .cast(x.dtype(), where);
}

} // namespace luminal
