// tensor/sorting.cpp -- order along an axis: sort, argsort, the k largest, the k-th, the median.
#include "luminal/indexing.h"
#include "tensor/views.h"
#include <algorithm>
#include <bit>
#include <cmath>

namespace luminal {

Tensor ordered_keys(std::string_view op, const Tensor& x, Where where) {
  const DType type = x.dtype();
  if (type == DType::boolean || type == DType::i4 || type == DType::u4) return x.cast(DType::i8, where);
  if (!is_float(type)) return x;
  const DType as = bits(type) == 8    ? DType::i8
                   : bits(type) == 16 ? DType::i16
                   : bits(type) == 32 ? DType::i32
                                      : DType::i64;
  const int64_t most = int64_t(~uint64_t(0) >> (65 - bits(type)));
  return build(op, x.graph(), where, [&](FunctionBuilder& b) {
    const Shape shape = type_of(x).shape;
    auto number = [&](int64_t value) { return integer(b, as, value, shape); };
    NodeId raw = b.bitcast(node_id(x), as);
    // Negative numbers grow with falling patterns; -0 has the least pattern, and becomes 0.
    NodeId turned = b.map(Op::bit_xor, {raw, number(most)});
    NodeId negative = b.map(Op::lt, {raw, number(0)});
    NodeId key = b.map(Op::select, {negative, turned, raw});
    NodeId minus_zero = b.map(Op::eq, {raw, number(-most - 1)});
    key = b.map(Op::select, {minus_zero, number(0), key});
    return b.map(Op::select, {b.map(Op::is_nan, {node_id(x)}), number(most), key});
  });
}

namespace {

/// Places along the axis in sorted order.
Tensor sorted_places(std::string_view op, const Tensor& x, int axis, bool descending, Where where) {
  if (is_empty(type_of(x).shape)) return number_of(op, x.graph(), DType::i64, 0, type_of(x).shape, where);
  Tensor keys = descending || !is_float(x.dtype()) ? ordered_keys(op, x, where) : x;
  return build(op, x.graph(), where, [&](FunctionBuilder& b) {
    const Shape shape = type_of(x).shape;
    NodeId places = b.iota(shape, axis_symbol(axis, shape[size_t(axis)]), DType::i64);
    return b.get(b.add(SortAttr{axis, descending}, {node_id(keys), places}, {}, where), 1);
  });
}

/// x at places that are known to lie in it.
Tensor elements_at(std::string_view op, const Tensor& x, int axis, const Tensor& places, Where where) {
  return build(op, x.graph(), where, [&](FunctionBuilder& b) {
    const Interval range = index_interval(type_of(x).shape[size_t(axis)]);
    ViewAttr view;
    view.shape = type_of(places).shape;
    view.map = identity_map(view.shape);
    view.map[size_t(axis)] = hole_symbol(0, range);
    std::vector<int> all;
    for (size_t d = 0; d < view.shape.size(); d++) all.push_back(int(d));
    view.holes.push_back({.input = 1, .axes = all, .range = range, .policy = OutOfRange::clamp});
    return b.add(view, {node_id(x), node_id(places)}, {}, where);
  });
}

Indexed without_axis(const Indexed& x, int axis, bool keep_dims, Where where) {
  return keep_dims ? x : Indexed{x.values.squeeze(axis, where), x.indices.squeeze(axis, where)};
}

/// The scalar as a line, for operations along its one axis.
Tensor at_least_line(std::string_view op, const Tensor& x, int& axis, Where where) {
  graph_of(op, {&x}, where);
  axis = axis_of(op, axis, std::max(x.rank(), 1), where);
  return x.rank() == 0 ? x.reshape({1}, where) : x;
}

/// Key and place in one integer: of greater keys the greater, of equal keys the first. Unique, so
/// that what is less than one of them is all that comes after it, and above the least integer.
Tensor packed_keys(const Tensor& x, const Tensor& places, bool largest, Where where) {
  Tensor keys = ordered_keys("topk", x, where);
  return build("topk", x.graph(), where, [&](FunctionBuilder& b) {
    const Shape shape = type_of(x).shape;
    auto number = [&](int64_t value) { return integer(b, DType::i64, value, shape); };
    NodeId wide = b.cast(node_id(keys), DType::i64);
    if (!largest) wide = b.map(Op::bit_not, {wide});
    if (x.dtype() == DType::u32)
      wide = b.map(Op::sub, {wide, number(largest ? int64_t(1) << 31 : -(int64_t(1) << 31))});
    NodeId high = b.map(Op::shl, {wide, number(32)});
    return b.map(Op::bit_or, {high, b.map(Op::sub, {number(INT32_MAX), node_id(places)})});
  });
}

/// The axis in blocks of a power of two: the greatest key of each block is known, and after each of
/// the k steps it is found anew for one of them.
class LargestPlaces {
public:
  LargestPlaces(const Tensor& x, int axis, bool largest, Where where)
      : axis_(axis), largest_(largest), where_(where), shape_(type_of(x).shape),
        extent_(shape_[size_t(axis)]) {
    const int64_t most = extent_.range().high;
    const double edge = most == unbounded_high ? 128 : std::sqrt(double(most));
    size_ = std::clamp<int64_t>(int64_t(std::bit_floor(uint64_t(edge * 1.4))), 16, 512);
    rows_ = shape_;
    rows_.erase(rows_.begin() + axis);
    blocks_ = ceildiv(extent_, size_);
  }

  /// [rows, k], in descending order of the keys.
  Tensor places(const Tensor& x, int64_t k) {
    Graph graph(x.graph());
    const Elements all = in_blocks(x);
    Tensor keys = packed_keys(all.values, all.places, largest_, where_);
    Tensor greatest = chosen(all.there, keys, least(x, all.space)).max({-1}, false, where_);
    auto found = graph.loop(
        k, {greatest}, {}, {x},
        [&](Graph&, const Tensor&, const std::vector<Tensor>& carried, const std::vector<Tensor>&,
            const std::vector<Tensor>& given) { return step(given[0], carried[0]); },
        where_);
    Tensor picked = found.stacked[0].movedim({0}, {axis_}, where_);
    return place_of(picked);
  }

protected:
  struct Elements { // of one block of each row, or of all blocks
    Shape space;
    Tensor values, places, there; // there: is not behind the end of the axis
  };
  Elements in_blocks(const Tensor& x) const {
    Shape space = rows_;
    space.push_back(blocks_);
    space.push_back(size_);
    const Expr place =
        axis_symbol(int(rows_.size()), blocks_) * size_ + axis_symbol(int(rows_.size()) + 1, size_);
    const auto made = [&](auto&& make) { return built(x, make); };
    return {space, made([&](FunctionBuilder& b) {
              return b.view(node_id(x), space, index(place), lt(place, extent_));
            }),
            made([&](FunctionBuilder& b) { return b.iota(space, place, DType::i64); }),
            made([&](FunctionBuilder& b) { return b.iota(space, lt(place, extent_), DType::boolean); })};
  }
  template <class Make> Tensor built(const Tensor& x, Make&& make) const {
    return build("topk", x.graph(), where_, make);
  }
  std::vector<Expr> index(Expr place) const {
    std::vector<Expr> map;
    for (size_t d = 0; d < rows_.size(); d++) map.push_back(axis_symbol(int(d), rows_[d]));
    map.insert(map.begin() + axis_, place);
    return map;
  }
  Tensor number(const Tensor& like, int64_t value, const Shape& shape) const {
    return built(like, [&](FunctionBuilder& b) { return integer(b, DType::i64, value, shape); });
  }
  Tensor least(const Tensor& like, const Shape& shape) const { return number(like, INT64_MIN, shape); }
  Tensor apply(Op op, const Tensor& a, const Tensor& b) const {
    return elementwise(op, "topk", {Operand(a, where_), Operand(b, where_)}, where_);
  }
  Tensor chosen(const Tensor& condition, const Tensor& a, const Tensor& b) const {
    return elementwise(Op::select, "topk",
                       {Operand(condition, where_), Operand(a, where_), Operand(b, where_)}, where_);
  }
  Tensor place_of(const Tensor& key) const {
    Tensor mask = number(key, INT32_MAX, type_of(key).shape);
    return apply(Op::sub, mask, apply(Op::bit_and, key, mask));
  }
  /// x of shape [rows] for each of `extent` places.
  Tensor along(const Tensor& x, Expr extent) const {
    Shape shape = rows_;
    shape.push_back(extent);
    return broadcast_to("topk", x.unsqueeze(-1, where_), shape, where_);
  }

  /// The block of each row.
  Elements of_block(const Tensor& x, const Tensor& block) const {
    Shape space = rows_;
    space.push_back(size_);
    const Expr j = axis_symbol(int(rows_.size()), size_);
    Tensor elements = built(x, [&](FunctionBuilder& b) {
      const Interval range = index_interval(blocks_);
      const Expr place = hole_symbol(0, range) * size_ + j;
      ViewAttr view;
      view.shape = space;
      view.map = index(place);
      view.predicate = lt(place, extent_);
      std::vector<int> all;
      for (size_t d = 0; d < rows_.size(); d++) all.push_back(int(d));
      view.holes.push_back({.input = 1, .axes = all, .range = range, .policy = OutOfRange::clamp});
      return b.add(view, {node_id(x), node_id(block)}, {}, where_);
    });
    Tensor inside = built(x, [&](FunctionBuilder& b) { return b.iota(space, j, DType::i64); });
    Tensor begin = apply(Op::mul, block, number(block, size_, rows_));
    Tensor places = apply(Op::add, along(begin, size_), inside);
    Tensor there = apply(Op::lt, places,
                         built(x, [&](FunctionBuilder& b) { return b.iota(space, extent_, DType::i64); }));
    return {space, elements, places, there};
  }
  Tensor block_of(const Tensor& place) const {
    return apply(Op::shr, place, number(place, std::countr_zero(uint64_t(size_)), rows_));
  }
  /// A bool for each block: is it the one of the row?
  Tensor is_block(const Tensor& block) const {
    Shape table = rows_;
    table.push_back(blocks_);
    const Expr of = axis_symbol(int(rows_.size()), blocks_);
    return apply(Op::eq, built(block, [&](FunctionBuilder& b) { return b.iota(table, of, DType::i64); }),
                 along(block, blocks_));
  }

  Graph::LoopResult step(const Tensor& x, const Tensor& greatest) const {
    Tensor best = greatest.max({-1}, false, where_);
    Tensor block = block_of(place_of(best));
    const Elements all = of_block(x, block);
    // The keys of the block that come after the best one.
    Tensor keys = packed_keys(all.values, all.places, largest_, where_);
    Tensor left = apply(Op::lt, keys, along(best, size_));
    Tensor next =
        chosen(apply(Op::bit_and, left, all.there), keys, least(x, all.space)).max({-1}, false, where_);
    return {{chosen(is_block(block), along(next, blocks_), greatest)}, {best}};
  }

  int axis_;
  bool largest_;
  Where where_;
  Shape shape_, rows_;
  Expr extent_, blocks_;
  int64_t size_ = 0;
};

/// The same for elements of 64 bits: the place of the greatest key of a block stands beside it.
class LargestWidePlaces : LargestPlaces {
public:
  using LargestPlaces::LargestPlaces;

  Tensor places(const Tensor& x, int64_t k) {
    Graph graph(x.graph());
    const Elements all = in_blocks(x);
    const auto [greatest, first] = greatest_of(all, wide_keys(all.values), all.there);
    auto found = graph.loop(
        k, {greatest, first}, {}, {x},
        [&](Graph&, const Tensor&, const std::vector<Tensor>& carried, const std::vector<Tensor>&,
            const std::vector<Tensor>& given) { return step(given[0], carried[0], carried[1]); },
        where_);
    return found.stacked[0].movedim({0}, {axis_}, where_);
  }

private:
  Tensor wide_keys(const Tensor& x) const {
    Tensor keys = ordered_keys("topk", x, where_);
    return built(x, [&](FunctionBuilder& b) {
      NodeId key = node_id(keys);
      const Shape shape = type_of(keys).shape;
      if (keys.dtype() == DType::u64)
        key = b.map(Op::bit_xor, {b.bitcast(key, DType::i64), integer(b, DType::i64, INT64_MIN, shape)});
      return largest_ ? key : b.map(Op::bit_not, {key});
    });
  }
  /// Along the last axis, among those of `some`: the greatest key and where it first stands; behind all
  /// places where `some` is empty.
  std::pair<Tensor, Tensor> greatest_of(const Elements& all, const Tensor& keys, const Tensor& some) const {
    Tensor greatest = chosen(some, keys, least(keys, all.space)).max({-1}, false, where_);
    Tensor equal =
        apply(Op::eq, keys, broadcast_to("topk", greatest.unsqueeze(-1, where_), all.space, where_));
    Tensor places = chosen(apply(Op::bit_and, some, equal), all.places, number(keys, INT64_MAX, all.space));
    return {greatest, places.min({-1}, false, where_)};
  }

  Graph::LoopResult step(const Tensor& x, const Tensor& greatest, const Tensor& first) const {
    Tensor best = greatest.max({-1}, false, where_);
    Tensor equal = apply(Op::eq, greatest, along(best, blocks_));
    Tensor place =
        chosen(equal, first, number(first, INT64_MAX, type_of(first).shape)).min({-1}, false, where_);
    Tensor block = block_of(place);
    const Elements all = of_block(x, block);
    Tensor keys = wide_keys(all.values);
    // What comes after the best one.
    Tensor less = apply(Op::lt, keys, along(best, size_));
    Tensor later = apply(Op::bit_and, apply(Op::eq, keys, along(best, size_)),
                         apply(Op::lt, along(place, size_), all.places));
    const auto [next, next_place] =
        greatest_of(all, keys, apply(Op::bit_and, apply(Op::bit_or, less, later), all.there));
    Tensor here = is_block(block);
    return {{chosen(here, along(next, blocks_), greatest), chosen(here, along(next_place, blocks_), first)},
            {place}};
  }
};

// A sort of a short axis is one kernel; of a long one, a step for each of a few elements is much less work.
constexpr int64_t short_axis = 256, few = 256;

/// Where the k first ones of an order along the axis are.
Tensor first_places(std::string_view op, const Tensor& x, int axis, int64_t k, bool largest, Where where) {
  const Interval extents = type_of(x).shape[size_t(axis)].range();
  const bool steps = k > 0 && k <= few && extents.high > short_axis && extents.high < INT32_MAX;
  if (!steps) return sorted_places(op, x, axis, largest, where).narrow(axis, 0, k, where);
  return bits(x.dtype()) <= 32 ? LargestPlaces(x, axis, largest, where).places(x, k)
                               : LargestWidePlaces(x, axis, largest, where).places(x, k);
}

} // namespace

Indexed Tensor::sort(int axis, bool descending, Where where) const {
  Tensor x = at_least_line("sort", *this, axis, where);
  Tensor places = sorted_places("sort", x, axis, descending, where);
  Indexed result{elements_at("sort", x, axis, places, where), places};
  if (rank() == 0) result = {result.values.reshape({}, where), result.indices.reshape({}, where)};
  return result;
}

Tensor Tensor::argsort(int axis, bool descending, Where where) const {
  Tensor x = at_least_line("argsort", *this, axis, where);
  Tensor places = sorted_places("argsort", x, axis, descending, where);
  return rank() == 0 ? places.reshape({}, where) : places;
}

Indexed Tensor::topk(int64_t k, int axis, bool largest, Where where) const {
  Tensor x = at_least_line("topk", *this, axis, where);
  const Expr extent = type_of(x).shape[size_t(axis)];
  if (k < 0 || prove(ge(extent, k)) == Truth::no)
    throw Error("topk",
                fmt::format("{} elements of axis {} of {}: it has {}", k, axis, text_of(type_of(x).shape),
                            luminal::to_string(extent)),
                where);
  assume(*graph_, ge(extent, k), on_axis("topk", *this, axis), where);
  Tensor places = first_places("topk", x, axis, k, largest, where);
  Indexed result{elements_at("topk", x, axis, places, where), places};
  if (rank() == 0 && k == 1) result = {result.values.reshape({}, where), result.indices.reshape({}, where)};
  return result;
}

Indexed kthvalue(const Tensor& x, int64_t k, int axis, bool keep_dims, Where where) {
  Tensor line = at_least_line("kthvalue", x, axis, where);
  const Expr extent = type_of(line).shape[size_t(axis)];
  if (k < 1 || prove(ge(extent, k)) == Truth::no)
    throw Error("kthvalue",
                fmt::format("element {} (counted from 1) of axis {} of {}: it has {}", k, axis,
                            text_of(type_of(x).shape), luminal::to_string(extent)),
                where);
  constexpr int64_t few_steps = 24; // more of them take as long as the sort of a row
  Tensor places = k <= few_steps ? first_places("kthvalue", line, axis, k, false, where)
                                 : sorted_places("kthvalue", line, axis, false, where);
  places = places.narrow(axis, k - 1, 1, where);
  return without_axis({elements_at("kthvalue", line, axis, places, where), places}, axis,
                      keep_dims && x.rank() > 0, where);
}

Indexed median(const Tensor& x, int axis, bool keep_dims, Where where) {
  Tensor line = at_least_line("median", x, axis, where);
  const Expr extent = type_of(line).shape[size_t(axis)];
  if (prove(ge(extent, 1)) == Truth::no)
    throw Error("median", fmt::format("axis {} of {} has no elements", axis, text_of(type_of(x).shape)),
                where);
  assume(*x.graph(), ge(extent, 1), on_axis("median", x, axis), where);
  Tensor order = sorted_places("median", line, axis, false, where);
  Tensor places;
  if (is_float(line.dtype())) { // NaN stand at the end: the first of them, or the middle
    Tensor is_nan = elementwise(Op::is_nan, "median", {Operand(line, where)}, where).cast(DType::i64, where);
    Tensor nans = is_nan.sum({axis}, true, where);
    Tensor at = build("median", x.graph(), where, [&](FunctionBuilder& b) {
      const Shape shape = type_of(nans).shape;
      NodeId count = b.iota(shape, extent, DType::i64),
             middle = b.iota(shape, floordiv(extent - 1, 2), DType::i64);
      NodeId none = b.map(Op::eq, {node_id(nans), b.iota(shape, 0, DType::i64)});
      return b.map(Op::select, {none, middle, b.map(Op::sub, {count, node_id(nans)})});
    });
    places = elements_at("median", order, axis, at, where);
  } else {
    places = order.narrow(axis, Dim::from_id(floordiv(extent - 1, 2).id()), 1, where);
  }
  return without_axis({elements_at("median", line, axis, places, where), places}, axis,
                      keep_dims && x.rank() > 0, where);
}

} // namespace luminal
