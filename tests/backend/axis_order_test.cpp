// backend/axis_order_test.cpp -- networks of narrow numbers, their values stored in other orders: the same
// results.
#include "compile/axis_order.h"
#include "plans.h"
#include "support/seeds.h"
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <random>

namespace luminal::axis_order_test {
namespace {

/// A random network over images, whose inputs, weights and results lie in one of two orders each.
class Network {
public:
  explicit Network(uint64_t seed) : random_(seed), b_("main") {
    if (pick(0, 3) == 0) narrow_ = DType::i8, wide_ = DType::i32;
  }
  Module run() {
    batch_ = pick(1, 2), channels_ = 2 * pick(1, 4), rows_ = pick(3, 6), columns_ = pick(3, 6);
    NodeId x = image("x", channels_);
    std::vector<NodeId> results;
    const int64_t steps = pick(2, 6);
    for (int64_t i = 0; i < steps; i++) {
      x = i == 0 ? conv(x) : step(x);
      if (pick(0, 5) == 0) results.push_back(x);
    }
    results.push_back(x);
    for (size_t i = 0; i < results.size(); i++) {
      NodeId result = results[i];
      if (const int64_t order = pick(0, 2)) result = b_.permute(result, order == 1 ? channels_last : across);
      if (pick(0, 3) == 0) result = b_.add(FenceAttr{}, {result});
      b_.result(fmt::format("r{}", i), result);
    }
    Module module;
    module.functions.push_back(b_.finish());
    return module;
  }

private:
  inline static const std::vector<int> channels_last{0, 2, 3, 1}, across{3, 1, 0, 2}, first{0, 3, 1, 2};

  int64_t pick(int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random_);
  }
  int64_t extent(NodeId x, size_t d) const { return b_[x].type().shape[d].value(); }
  /// Of axes batch, channels, rows, columns (of a weight: results, channels, rows, columns).
  NodeId stored(const std::string& name, Shape shape) {
    const Role role = name[0] == 'w' && pick(0, 2) == 0 ? Role::weight : Role::argument;
    if (pick(0, 1)) return b_.input(name, {narrow_, std::move(shape)}, role);
    return b_.permute(b_.input(name, {narrow_, {shape[0], shape[2], shape[3], shape[1]}}, role), first);
  }
  NodeId image(const std::string& name, int64_t channels) {
    return stored(name, {batch_, channels, rows_, columns_});
  }
  NodeId filled(double value, const Shape& shape) { return b_.view(b_.constant(narrow_, value), shape, {}); }

  NodeId conv(NodeId x, int64_t results = 0) {
    const int64_t k = pick(0, 2) ? 3 : 1, by = pick(0, 3) ? 1 : 2;
    if (results == 0) results = pick(1, 5) * (pick(0, 4) ? 2 : 1);
    const int64_t rows = (extent(x, 2) - 1) / by + 1, columns = (extent(x, 3) - 1) / by + 1;
    const NodeId w = stored(fmt::format("w{}", weights_++), {results, extent(x, 1), k, k});
    const Shape space{batch_, results, rows, columns, extent(x, 1), k, k};
    std::vector<Expr> i;
    for (size_t d = 0; d < space.size(); d++) i.push_back(axis_symbol(int(d), space[d]));
    const Expr row = i[2] * by + i[5] - k / 2, column = i[3] * by + i[6] - k / 2;
    const Expr inside = logical_and(logical_and(le(0, row), lt(row, extent(x, 2))),
                                    logical_and(le(0, column), lt(column, extent(x, 3))));
    const NodeId read = b_.view(b_.cast(x, wide_), space, {i[0], i[4], row, column}, inside),
                 weight = b_.view(b_.cast(w, wide_), space, {i[1], i[4], i[5], i[6]});
    return b_.cast(b_.reduce(Op::add, b_.map(Op::mul, {read, weight}), {4, 5, 6}), narrow_);
  }

  NodeId step(NodeId x) {
    const Shape shape = b_[x].type().shape;
    switch (pick(0, 8)) {
    case 0: return b_.map(Op::max, {x, filled(0, shape)});
    case 1: { // a residual
      const NodeId made = conv(x, extent(x, 1));
      return extent(made, 2) == extent(x, 2) && extent(made, 3) == extent(x, 3) ? b_.map(Op::add, {x, made})
                                                                                : made;
    }
    case 2: { // a number for each channel
      const NodeId bias = b_.input(fmt::format("b{}", weights_++), {narrow_, {shape[1]}});
      return b_.map(Op::add, {x, b_.view(bias, shape, {axis_symbol(1, shape[1])})});
    }
    case 3: { // a maximum of windows
      const Shape space{shape[0], shape[1], (shape[2] + 1).value() / 2, (shape[3] + 1).value() / 2, 2, 2};
      std::vector<Expr> i;
      for (size_t d = 0; d < space.size(); d++) i.push_back(axis_symbol(int(d), space[d]));
      const Expr row = i[2] * 2 + i[4], column = i[3] * 2 + i[5];
      const NodeId read = b_.view(x, space, {i[0], i[1], row, column},
                                  logical_and(lt(row, shape[2]), lt(column, shape[3])), -100);
      return b_.reduce(Op::max, read, {4, 5});
    }
    case 4: { // two images, channel after channel
      const Expr joined = shape[1] * 2, channel = axis_symbol(1, joined);
      const Shape both{shape[0], joined, shape[2], shape[3]};
      std::vector<Expr> low, high;
      for (size_t d = 0; d < both.size(); d++) low.push_back(axis_symbol(int(d), both[d]));
      high = low, high[1] = channel - shape[1];
      const Expr here = lt(channel, shape[1]);
      return b_.map(Op::select, {b_.iota(both, here, DType::boolean), b_.view(x, both, low, here),
                                 b_.view(b_.map(Op::neg, {x}), both, high, logical_not(here))});
    }
    case 5: { // each pixel twice in both directions
      const Shape large{shape[0], shape[1], shape[2] * 2, shape[3] * 2};
      if (extent(x, 2) > 6) return conv(x);
      return b_.view(x, large,
                     {axis_symbol(0, large[0]), axis_symbol(1, large[1]),
                      floordiv(axis_symbol(2, large[2]), 2), floordiv(axis_symbol(3, large[3]), 2)});
    }
    case 6: { // what is above the greatest of each image
      const NodeId most = b_.reduce(Op::max, x, {2, 3});
      return b_.map(Op::sub, {x, b_.view(most, shape, {axis_symbol(0, shape[0]), axis_symbol(1, shape[1])})});
    }
    case 7: { // only where a pixel of the image has a number above 0
      const NodeId any = b_.reduce(Op::bit_or, b_.map(Op::lt, {filled(0, shape), x}), {1});
      const NodeId here =
          b_.view(any, shape, {axis_symbol(0, shape[0]), axis_symbol(2, shape[2]), axis_symbol(3, shape[3])});
      return b_.map(Op::select, {here, x, filled(1, shape)});
    }
    default: return conv(x);
    }
  }

  std::mt19937_64 random_;
  FunctionBuilder b_;
  DType narrow_ = DType::bf16, wide_ = DType::f32;
  int64_t batch_ = 1, channels_ = 2, rows_ = 3, columns_ = 3;
  int weights_ = 0;
};

Bindings numbers(const Module& module, uint64_t seed) {
  std::mt19937_64 random(seed);
  Bindings bindings;
  for (NodeId id : module.entry().params) {
    const auto& input = std::get<InputAttr>(module.entry()[id].attr);
    HostTensor value;
    value.dtype = input.type.dtype;
    int64_t count = 1;
    for (Expr e : input.type.shape) count *= value.shape.emplace_back(e.value());
    value.data.resize(size_t(count * bits(value.dtype) / 8));
    for (int64_t i = 0; i < count; i++)
      store_f64(value.dtype, value.data.data(), i,
                is_float(value.dtype) ? std::normal_distribution<>(0, 1)(random)
                                      : double(std::uniform_int_distribution<int>(-3, 3)(random)));
    bindings.inputs[input.name] = std::move(value);
  }
  return bindings;
}

TEST(AxisOrders, OfRandomNetworksGiveTheSameNumbers) {
  int moved = 0, compared = 0;
  const test::Seeds seeds = test::seeds(1, 1000);
  for (uint64_t seed = seeds.first; seed != seeds.end(); seed++) {
    const Module module = Network(seed).run();
    SCOPED_TRACE(fmt::format("seed {}\n{}", seed, to_string(module)));
    ASSERT_TRUE(verify(module).empty()) << verify(module)[0];
    const compile::AxisOrders orders = compile::better_axis_orders(module.entry());
    if (orders.empty()) continue;
    moved++;
    Module other = module;
    other.functions.back() = compile::with_axis_orders(module, module.entry(), orders);
    ASSERT_TRUE(verify(other).empty()) << verify(other)[0] << to_string(other);
    EXPECT_FALSE(same_module(module, other));
    const Bindings bindings = numbers(module, seed);
    Interpreter before(module, bindings, InterpMode::rounded), after(other, bindings, InterpMode::rounded);
    for (const FunctionResult& r : module.entry().results) {
      const auto want = before.values(r.name), got = after.values(r.name);
      ASSERT_EQ(want.size(), got.size());
      for (size_t i = 0; i < want.size(); i++, compared++)
        ASSERT_EQ(got[i].value, want[i].value) << r.name << " element " << i << to_string(other);
    }
  }
  if (seeds.own) return;
  EXPECT_GT(moved, 40);
  EXPECT_GT(compared, 1000);
}

TEST(AxisOrders, PlansAreWhatTheInterpreterSays) {
  const test::Seeds seeds = test::seeds(1000, 40);
  for (uint64_t seed = seeds.first; seed != seeds.end(); seed++) {
    const Module module = Network(seed).run();
    if (compile::better_axis_orders(module.entry()).empty()) continue;
    SCOPED_TRACE(fmt::format("seed {}\n{}", seed, to_string(module)));
    const Bindings bindings = numbers(module, seed);
    Running running(module);
    auto context = running.start(module, bindings);
    ASSERT_TRUE(context->run());
    Interpreter judge(module, bindings, InterpMode::rounded);
    for (const FunctionResult& r : module.entry().results) {
      const auto want = judge.values(r.name);
      const auto got = context->result(r.name).value();
      double most = 0;
      for (const auto& w : want) most = std::max(most, std::abs(w.value));
      for (size_t i = 0; i < want.size(); i++)
        ASSERT_NEAR(load_f64(got.dtype, got.bytes.data(), int64_t(i)), want[i].value,
                    is_float(got.dtype) ? 0.02 * most : 0)
            << r.name << " element " << i;
    }
  }
}

/// Two convolutions, one after the other; `of` writes an index of batch, channels, rows and columns, results
/// of narrow numbers or of `type`.
std::string two(const std::string& type, bool last, const std::string& weight = "[o, c, j, k]") {
  const std::string image = last ? "[2, 9, 9, 16]" : "[2, 16, 9, 9]";
  const std::string space = "[n: 2, o: 16, y: 9, x: 9, c: 16, j: 3, k: 3]";
  const auto sum = [&](int i, const std::string& x, const std::string& at) {
    return fmt::format("  %a{0} = cast f32 %{1}\n  %v{0} = cast f32 %w{0}\n"
                       "  %p{0} = view %a{0} {2} -> {3} where y + j < 10 and x + k < 10 and y + j >= 1 "
                       "and x + k >= 1 fill 0\n"
                       "  %q{0} = view %v{0} {2} -> {4}\n  %m{0} = mul %p{0}, %q{0}\n"
                       "  %f{0} = fold {2} over [c, j, k] {{ sum %m{0}[n, o, y, x, c, j, k] }}\n"
                       "  %g{0} = get %f{0}, 0\n  %h{0} = cast {5} %g{0}\n",
                       i, x, space, at, weight, type);
  };
  const std::string kernel = weight == "[o, c, j, k]" ? "[16, 16, 3, 3]" : "[16, 3, 3, 16]";
  return fmt::format("fn @main(%x: {0}{1}, %w0: {0}{2}, %w1: {0}{2}) {{\n{3}{4}  %r = view %h1 {5}\n"
                     "  return r = %r\n}}",
                     type, image, kernel,
                     sum(0, "x", last ? "[n, y + j - 1, x + k - 1, c]" : "[n, c, y + j - 1, x + k - 1]"),
                     sum(1, "h0", "[n, c, y + j - 1, x + k - 1]"),
                     last ? "[n: 2, y: 9, x: 9, o: 16] -> [n, o, y, x]"
                          : "[n: 2, o: 16, y: 9, x: 9] -> [n, o, y, x]");
}

std::string ordered(const std::string& text) {
  const Module module = parse_module(text, "two");
  Module other = module;
  other.functions.back() =
      compile::with_axis_orders(module, module.entry(), compile::better_axis_orders(module.entry()));
  return to_string(other);
}

/// Images that come with channels last and are wanted so have them last in between; others stay.
TEST(AxisOrders, FollowInputsAndResults) {
  const auto last = testing::ContainsRegex("get %[a-z0-9]+, 0  # f32.2, 9, 9, 16.");
  EXPECT_THAT(ordered(two("bf16", true)), last);
  EXPECT_THAT(ordered(two("bf16", true, "[o, j, k, c]")), last);
  EXPECT_THAT(ordered(two("bf16", false)), testing::Not(last));
  EXPECT_THAT(ordered(two("f16", true)), testing::Not(last)); // no dot instruction takes them
  EXPECT_TRUE(compile::better_axis_orders(parse_module(two("f32", true), "two").entry()).empty());
}

} // namespace
} // namespace luminal::axis_order_test
