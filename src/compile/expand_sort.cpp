// compile/expand_sort.cpp -- sorts of short axes as folds, of long ones as a kernel in loop IR.
#include "compile/expand_sort.h"
#include <algorithm>
#include <bit>
#include <fmt/format.h>
#include <mutex>
#include <set>

namespace luminal::compile {
namespace {

/// The texts of all sorts that this process has made.
class SortKernels {
public:
  void add(const std::string& text) {
    const std::lock_guard lock(mutex_);
    texts_.insert(text);
  }
  bool has(std::string_view text) const {
    const std::lock_guard lock(mutex_);
    return texts_.contains(text);
  }

private:
  mutable std::mutex mutex_;
  std::set<std::string, std::less<>> texts_;
};
SortKernels& sort_kernels() {
  static SortKernels kernels;
  return kernels;
}

constexpr int64_t short_axis =
    128; // up to this, each element counts those before it: less work than a table of digits

class Sorter {
public:
  Sorter(FunctionBuilder& b, const SortAttr& sort, NodeId keys)
      : b_(b), axis_(sort.axis), descending_(sort.descending), keys_(keys), type_(b[keys].type()),
        extent_(type_.shape[size_t(axis_)]), i_(axis_symbol(axis_, extent_)) {
    const int64_t most = extent_.range().high; // an axis without elements has no places, and asks for none
    places_ = {0, most == unbounded_high ? most : std::max<int64_t>(most - 1, 0)};
  }

  bool is_long() const { return extent_.range().high > short_axis; }

  /// Where each element goes: it counts those that come before it, among `count` ones from `first`
  /// on.
  NodeId positions(Expr first, Expr count) {
    const int rank = int(type_.shape.size());
    Shape space = type_.shape;
    space.push_back(count);
    const Expr j = first + axis_symbol(rank, count);
    std::vector<Expr> at_i, at_j;
    for (int d = 0; d < rank; d++) {
      at_i.push_back(axis_symbol(d, space[size_t(d)]));
      at_j.push_back(d == axis_ ? j : at_i.back());
    }
    const Expr inside = lt(j, extent_);
    NodeId x = b_.view(keys_, space, at_i), y = b_.view(keys_, space, at_j, inside);
    NodeId earlier = b_.iota(space, lt(j, i_), DType::boolean);
    NodeId counts = b_.cast(
        b_.map(Op::bit_or, {less(y, x), b_.map(Op::bit_and, {b_.map(Op::bit_not, {less(x, y)}), earlier})}),
        DType::i64);
    FoldAttr fold;
    fold.monoid = Monoid::plain(Op::add, DType::i64);
    fold.space = space;
    fold.reduced = {rank};
    fold.body_axes.emplace_back();
    for (int d = 0; d <= rank; d++) fold.body_axes[0].push_back(d);
    fold.where = inside;
    NodeId before = b_.get(b_.add(std::move(fold), {counts}), 0);
    return first.is_constant(0) ? before : b_.map(Op::add, {before, b_.iota(type_.shape, first)});
  }

  /// x with each element at its position.
  NodeId moved(NodeId x, NodeId position) {
    ScatterAttr scatter;
    std::vector<int> all;
    for (int d = 0; d < int(type_.shape.size()); d++) {
      all.push_back(d);
      scatter.map.push_back(axis_symbol(d, type_.shape[size_t(d)]));
    }
    scatter.map[size_t(axis_)] = hole_symbol(0, places_);
    scatter.holes.push_back({.input = 2, .axes = all, .range = places_, .policy = OutOfRange::clamp});
    scatter.unique = true;
    NodeId base = b_.view(b_.constant(b_[x].type().dtype, 0), type_.shape, {});
    return b_.add(scatter, {base, x, position});
  }

  /// x at the places in the order of the result.
  NodeId picked(NodeId x, NodeId order) {
    ViewAttr view;
    view.shape = type_.shape;
    std::vector<int> all;
    for (int d = 0; d < int(type_.shape.size()); d++) {
      all.push_back(d);
      view.map.push_back(d == axis_ ? hole_symbol(0, places_) : axis_symbol(d, type_.shape[size_t(d)]));
    }
    view.holes.push_back({.input = 1, .axes = all, .range = places_, .policy = OutOfRange::clamp});
    return b_.add(view, {x, order});
  }

  /// The places in sorted order: a radix sort of each row, in a kernel of its own.
  NodeId radix_order() {
    NodeId keys = unsigned_keys();
    CustomAttr sort;
    sort.name = "sort";
    sort.text["loops"] = radix_text(b_[keys].type().dtype);
    sort_kernels().add(sort.text["loops"]);
    sort.grid = {1, 1, 1, 1, 1, 1, 0};
    sort.results = {{DType::i64, type_.shape}};
    return b_.get(b_.add(std::move(sort), {keys}), 0);
  }
  /// The operand is the places along the axis.
  bool is_places(NodeId id) const {
    const auto* iota = std::get_if<IotaAttr>(&b_[id].attr);
    return iota && b_[id].type().dtype == DType::i64 && iota->value == i_;
  }

private:
  /// a comes before b whatever their places; NaN after every number.
  NodeId less(NodeId a, NodeId b) {
    NodeId result = descending_ ? b_.map(Op::lt, {b, a}) : b_.map(Op::lt, {a, b});
    if (!is_float(type_.dtype)) return result;
    NodeId number = b_.map(Op::bit_not, {b_.map(Op::is_nan, {a})});
    return b_.map(Op::bit_or, {result, b_.map(Op::bit_and, {number, b_.map(Op::is_nan, {b})})});
  }

  /// Unsigned integers in the order of the result: NaN last in both directions; zeros of both signs
  /// are equal.
  NodeId unsigned_keys() {
    NodeId x = keys_;
    DType type = type_.dtype;
    if (type == DType::boolean || type == DType::u4) x = b_.cast(x, type = DType::u8);
    if (type == DType::i4) x = b_.cast(x, type = DType::i8);
    if (is_float(type) && bits(type) == 8) x = b_.cast(x, type = DType::f32);
    static constexpr DType types[] = {DType::u8, DType::u16, DType::u32, DType::u64};
    const DType as = types[std::bit_width(unsigned(bits(type))) - 4];
    const auto number = [&](uint64_t value) {
      std::vector<std::byte> bytes(size_t(storage_bytes(as, 1)));
      store_i64(as, bytes.data(), 0, int64_t(value));
      return b_.view(b_.constant({as, {}}, std::move(bytes)), type_.shape, {});
    };
    const uint64_t all = ~uint64_t(0) >> (64 - bits(type)), sign = all ^ (all >> 1);
    NodeId key = type == as ? x : b_.bitcast(x, as);
    if (is_float(type)) {
      NodeId negative = b_.map(Op::lt, {number(sign), key}); // -0 is among the others
      NodeId risen = b_.map(Op::bit_or, {key, number(sign)});
      key = b_.map(Op::select, {negative, b_.map(Op::bit_xor, {key, number(all)}), risen});
    } else if (type != as) {
      key = b_.map(Op::bit_xor, {key, number(sign)});
    }
    if (descending_) key = b_.map(Op::bit_xor, {key, number(all)});
    return is_float(type) ? b_.map(Op::select, {b_.map(Op::is_nan, {x}), number(all), key}) : key;
  }

  /// Counts of all digits in one pass, then one pass a digit, from the least: elements go where
  /// their digit's run begins. Stable.
  std::string radix_text(DType key) const {
    const Shape& shape = type_.shape;
    const Expr inner = product(std::span(shape).subspan(size_t(axis_) + 1));
    Expr outer = product(std::span(shape).first(size_t(axis_)));
    std::string p = "sort.", symbols; // no dimension's name begins with it
    std::set<Expr, ExprLess> known;
    for (Expr extent : shape)
      for (Expr symbol : symbols_of(extent)) known.insert(symbol);
    while (std::ranges::any_of(known, [&](Expr e) { return e.name().starts_with(p); })) p.insert(0, "_");
    for (Expr symbol : known) {
      const Interval range = symbol.range();
      symbols += fmt::format("{}{}: {}..{}{}", symbols.empty() ? "; " : ", ", symbol.name(),
                             range.low == unbounded_low ? "" : std::to_string(range.low),
                             range.high == unbounded_high ? "" : std::to_string(range.high),
                             symbol.multiple() > 1 ? fmt::format(" multiple {}", symbol.multiple()) : "");
    }
    const int64_t most = extent_.range().high;
    const DType index = most < INT32_MAX ? DType::i32 : DType::i64;
    const int digits = bits(key) / 8;
    const std::string n = to_string(extent_),
                      last = most == unbounded_high ? "" : std::to_string(std::max<int64_t>(most - 1, 0)),
                      k = p + "k", r = p + "r", all = to_string(product(shape)), I(to_string(index)),
                      K(to_string(key));
    const auto element = [&](const std::string& name, const std::string& at) {
      const std::string i = to_string(inner);
      return inner.is_constant(1)
                 ? fmt::format("{}{}[({})*{} + {}]", p, name, n, r, at)
                 : fmt::format("{0}{1}[({2})*({3})*({4} // ({3})) + {4} % ({3}) + ({3})*{5}]", p, name, n, i,
                               r, at);
    };
    int lets = 0;
    const auto digit = [&](int value, int d) {
      const std::string shifted =
          d == 0 ? fmt::format("%{}", value) : fmt::format("shr(%{}, {}({}))", value, K, 8 * d);
      return fmt::format("cast<i32>(bit_and({}, {}(255)))", shifted, K);
    };
    std::string text =
        fmt::format("kernel sort({0}x: {1}[{2}] in, {0}y: i64[{2}] out{3})\n  local {0}counts: {4}[{5}]\n", p,
                    K, all, symbols, I, 256 * digits);
    if (digits > 1)
      for (const char* half : {"0", "1"})
        text += fmt::format("  local {0}key{1}: {2}[{3}]\n  local {0}at{1}: {4}[{3}]\n", p, half, K, n, I);
    text += fmt::format("  registers {}sum: {}[1]\n", p, I);
    const auto line = [&](int depth, const std::string& what) {
      text += std::string(size_t(2 * depth), ' ') + what + "\n";
    };
    line(1, fmt::format("parallel {} in 0..{}", r, to_string(outer * inner)));
    line(2, fmt::format("for {0}c in 0..{1}", p, 256 * digits));
    line(3, fmt::format("{0}counts[{0}c] = {1}(0)", p, I));
    line(2, fmt::format("for {} in 0..{}", k, n));
    int value = lets++;
    line(3, fmt::format("let %{} = {}", value, element("x", k)));
    for (int d = 0; d < digits; d++) {
      line(3, fmt::format("let {}c{} in 0..255 = {}", p, d, digit(value, d)));
      line(3, fmt::format("{0}counts[{1} + {0}c{2}] = {0}counts[{1} + {0}c{2}] + {3}(1)", p, 256 * d, d, I));
    }
    for (int d = 0; d < digits; d++) {
      line(2, fmt::format("{}sum[0] = {}(0)", p, I));
      line(2, fmt::format("for {}s{} in 0..256", p, d));
      value = lets++;
      line(3, fmt::format("let %{0} = {1}counts[{2} + {1}s{3}]", value, p, 256 * d, d));
      line(3, fmt::format("{0}counts[{1} + {0}s{2}] = {0}sum[0]", p, 256 * d, d));
      line(3, fmt::format("{0}sum[0] = {0}sum[0] + %{1}", p, value));
    }
    for (int d = 0; d < digits; d++) {
      const std::string i = fmt::format("{}i{}", p, d), at = fmt::format("{}t{}", p, d);
      line(2, fmt::format("for {} in 0..{}", i, n));
      value = lets++;
      const std::string from = std::to_string((d + 1) % 2), to = std::to_string(d % 2);
      line(3, fmt::format("let %{} = {}", value,
                          d == 0 ? element("x", i) : fmt::format("{}key{}[{}]", p, from, i)));
      line(3, fmt::format("let {}d{} in 0..255 = {}", p, d, digit(value, d)));
      line(3, fmt::format("let {} in 0..{} = {}counts[{} + {}d{}]", at, last, p, 256 * d, p, d));
      line(3, fmt::format("{0}counts[{1} + {0}d{2}] = {0}counts[{1} + {0}d{2}] + {3}(1)", p, 256 * d, d, I));
      const std::string place =
          d == 0 ? fmt::format("index<{}>({})", I, i) : fmt::format("{}at{}[{}]", p, from, i);
      if (d + 1 == digits) {
        line(3, fmt::format("{} = {}", element("y", at),
                            index == DType::i64 ? place
                            : d == 0            ? fmt::format("index<i64>({})", i)
                                                : fmt::format("cast<i64>({})", place)));
        continue;
      }
      line(3, fmt::format("{}key{}[{}] = %{}", p, to, at, value));
      line(3, fmt::format("{}at{}[{}] = {}", p, to, at, place));
    }
    return text;
  }

  FunctionBuilder& b_;
  int axis_;
  bool descending_;
  NodeId keys_;
  TensorType type_;
  Expr extent_, i_;
  Interval places_;
};

} // namespace

std::vector<NodeId> sorted_operands(FunctionBuilder& b, const SortAttr& sort,
                                    const std::vector<NodeId>& inputs) {
  if (product(b[inputs[0]].type().shape).range().high == 0) return inputs; // nothing to sort
  Sorter sorter(b, sort, inputs[0]);
  std::vector<NodeId> sorted;
  if (!sorter.is_long()) {
    NodeId position = sorter.positions(0, b[inputs[0]].type().shape[size_t(sort.axis)]);
    for (NodeId input : inputs) sorted.push_back(sorter.moved(input, position));
    return sorted;
  }
  const NodeId order = sorter.radix_order();
  for (NodeId input : inputs) sorted.push_back(sorter.is_places(input) ? order : sorter.picked(input, order));
  return sorted;
}

bool is_sort_kernel(std::string_view loops) { return sort_kernels().has(loops); }

} // namespace luminal::compile
