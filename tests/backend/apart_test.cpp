// backend/apart_test.cpp -- elements that lie apart: sums of every other one, windows in steps with ends
// that are left out, gathers and scatters by indices. Plans equal the interpreter.
#include "composed_modules.h"
#include <fmt/format.h>

namespace luminal::apart_test {
namespace {

template <class T> T any_of(std::mt19937& random, std::initializer_list<T> from) {
  return from.begin()[random() % from.size()];
}

std::string schedules_of(const Module& module) {
  std::string all;
  each_kernel(module, wide(), [&](const compile::PlannedKernel& kernel) { all += kernel.schedule; });
  return all;
}

/// A sum over elements that lie `step` apart, backwards where it is negative.
Module strided_sum(const std::string& dtype, int64_t rows, int64_t n, int64_t step, const std::string& fold,
                   int64_t begin) {
  const int64_t extent = (n - 1) * std::abs(step) + 1 + begin;
  const std::string at =
      step < 0 ? fmt::format("{} - i*{}", extent - 1, -step) : fmt::format("i*{} + {}", step, begin);
  return parse_module(fmt::format(R"(fn @main(%x: {0}[{1}, {2}]) {{
  %v = view %x [r: {1}, i: {3}] -> [r, {4}]
  %w = cast f32 %v
  %f = fold [r: {1}, i: {3}] over [i] {{ {5} %w[r, i] }}
  %y = get %f, 0
  return y = %y
}})",
                                  dtype, rows, extent, n, at, fold));
}

TEST(Apart, SumsOfEveryOtherElementHaveLanes) {
  for (const int64_t step : {2, 3, 4, -1})
    for (const int64_t n : {8, 48, 25, 350})
      EXPECT_NE(schedules_of(strided_sum("f32", 40, n, step, "sum", 1)).find("vector"), std::string::npos)
          << step << " " << n;
}

TEST(Apart, SumsOfEveryOtherElementAreRight) {
  std::mt19937 random(1);
  for (int i = 0; i < 60; i++)
    expect_right(strided_sum(any_of<std::string>(random, {"f32", "bf16", "f16", "f64", "i8"}),
                             1 + int64_t(random() % 5), 1 + int64_t(random() % 130),
                             any_of<int64_t>(random, {1, 2, 3, 4, 5, 8, -1, -2}),
                             any_of<std::string>(random, {"sum", "max", "min"}), int64_t(random() % 4)),
                 unsigned(i));
}

/// Sums of windows in steps, of each channel for itself or of groups, with padding on all sides.
TEST(Apart, WindowsInStepsAreRight) {
  std::mt19937 random(2);
  for (int i = 0; i < 60; i++) {
    Graph g;
    const int64_t groups = any_of<int64_t>(random, {1, 3, 4, 8, 20}),
                  per = any_of<int64_t>(random, {1, 1, 2}), window = 1 + int64_t(random() % 7),
                  height = window + int64_t(random() % 30), width = window + int64_t(random() % 60),
                  padding = int64_t(random() % 4), step = 1 + int64_t(random() % 5),
                  images = 1 + int64_t(random() % 3);
    const DType type = any_of(random, {DType::f32, DType::f32, DType::bf16, DType::f16});
    const bool last = random() % 3 == 0; // channels
    Tensor x = last ? g.tensor({images, height, width, groups * per}, type).permute({0, 3, 1, 2})
                    : g.tensor({images, groups * per, height, width}, type),
           w = g.tensor({groups * 2, per, window, window}, type);
    Tensor y = conv(x, w, Tensor(), {.stride = step, .padding = padding, .groups = groups});
    if (last) y = y.permute({0, 2, 3, 1}).relu();
    y.keep();
    SCOPED_TRACE(fmt::format("{} groups of {}, {} x {}, window {}, step {}, padding {}", groups, per, height,
                             width, window, step, padding));
    expect_right(parse_module(g.to_string()), unsigned(i));
  }
}

/// The gradient of a grouped convolution's weights: rows of the sum that do not fill the lanes.
TEST(Apart, SumsAlongShortRowsAreRight) {
  std::mt19937 random(3);
  for (int i = 0; i < 40; i++) {
    const int64_t g = 1 + int64_t(random() % 4), o = 1 + int64_t(random() % 9), c = 1 + int64_t(random() % 9),
                  k = 1 + int64_t(random() % 5), n = 1 + int64_t(random() % 3), h = 2 + int64_t(random() % 9),
                  w = 5 + int64_t(random() % 25), step = 1 + int64_t(random() % 3), pad = k / 2;
    const int64_t height = (h - 1) * step + k - pad, width = (w - 1) * step + k - pad;
    const std::string axes =
        fmt::format("[g: {}, o: {}, c: {}, a: {}, b: {}, n: {}, y: {}, x: {}]", g, o, c, k, k, n, h, w);
    const std::string type = any_of<std::string>(random, {"f32", "f32", "bf16"});
    SCOPED_TRACE(axes + " step " + std::to_string(step));
    expect_right(
        parse_module(fmt::format(R"(fn @main(%x: {10}[{0}, {1}, {2}, {3}], %y: {10}[{0}, {4}, {5}, {6}]) {{
  %xc = cast f32 %x
  %yc = cast f32 %y
  %a = view %xc {7} -> [n, g*{8} + c, a + y*{9} - {11}, b + x*{9} - {11}]
      where a + y*{9} >= {11} and b + x*{9} >= {11}
  %b = view %yc {7} -> [n, g*{12} + o, y, x]
  %p = mul %a, %b
  %f = fold {7} over [n, y, x] {{ sum %p[g, o, c, a, b, n, y, x] }}
  %r = get %f, 0
  return r = %r
}})",
                                 n, g * c, height, width, g * o, h, w, axes, c, step, type, pad, o)),
        unsigned(i));
  }
}

TEST(Apart, ElementsByIndicesAreComputedInLanes) {
  const std::string text = R"(fn @main(%x: f32[4, 300], %i: i64[70], %s: f32[70]) {
  %v = view %x [c: 4, k: 70] with h = %i[k] in 0..299 clamp -> [c, h]
  %t = view %s [c: 4, k: 70] -> [k]
  %p = mul %v, %t
  %y = exp %p
  return y = %y
})";
  EXPECT_NE(schedules_of(parse_module(text)).find("vector"), std::string::npos);
  std::mt19937 random(4);
  for (int i = 0; i < 60; i++) {
    const int64_t n = 1 + int64_t(random() % 3), c = 1 + int64_t(random() % 20),
                  e = 3 + int64_t(random() % 30), rows = 1 + int64_t(random() % 9),
                  columns = 1 + int64_t(random() % 40);
    const std::string type = any_of<std::string>(random, {"f32", "bf16", "f16", "f64"});
    const std::string space = fmt::format("[n: {}, c: {}, y: {}, x: {}]", n, c, rows, columns);
    const std::string mode = any_of<std::string>(random, {" clamp", " fill"});
    SCOPED_TRACE(type + space);
    expect_right(parse_module(fmt::format(
                     R"(fn @main(%x: {0}[{1}, {2}, {3}], %i: {4}[{1}, {5}], %s: {0}[{1}, {6}, {7}]) {{
  %j = view %i [n: {1}, y: {6}, x: {7}] -> [n, y*{7} + x]
  %l = view %i [n: {1}, x: {7}] -> [n, x]
  %v = view %x {8} with h = %j[n, y, x] in 0..{9}{10} -> [n, c, h]
  %u = view %x {8} with h = %j[n, y, x] in 0..{9} clamp, k = %l[n, x] in 0..{9} clamp -> [n, c, (h + k) // 2]
  %t = view %s {8} -> [n, y, x]
  %p = mul %v, %t
  %q = add %p, %u
  %z = tanh %q
  return y = %z
}})",
                     type, n, c, e, any_of<std::string>(random, {"i64", "i32", "u8"}), rows * columns, rows,
                     columns, space, e - 1, mode)),
                 unsigned(i));
  }
}

/// Updates that take turns along one axis: lanes along another one, workers along what is outside.
TEST(Apart, UpdatesInOrderHaveLanes) {
  const auto update = [](const std::string& type, int64_t n, int64_t b, int64_t d, const std::string& how) {
    return parse_module(
        fmt::format(R"(fn @main(%x: {0}[20, {2}, {3}], %i: i64[{1}], %v: {0}[{2}, {1}, {3}]) {{
  %w = view %v [i: {1}, b: {2}, d: {3}] -> [b, i, d]
  %y = scatter {4} %x, %w [i: {1}, b: {2}, d: {3}] with h = %i[i] in 0..19 -> [h, b, d]
  return y = %y
}})",
                    type, n, b, d, how));
  };
  for (const int64_t d : {16, 96, 40})
    EXPECT_NE(schedules_of(update("f32", 64, 6, d, "sum")).find("vector s0 a2"), std::string::npos) << d;
  std::mt19937 random(5);
  for (int i = 0; i < 40; i++)
    expect_right(update(any_of<std::string>(random, {"f32", "bf16", "f64", "i32"}),
                        1 + int64_t(random() % 50), 1 + int64_t(random() % 6), 1 + int64_t(random() % 70),
                        any_of<std::string>(random, {"sum", "max", "min", "set"})),
                 unsigned(i));
}

/// Convolutions of bf16 whose rows are shorter than the lanes: words of windows in runs of several rows.
TEST(Apart, WordsOfWindowsInShortRowsAreRight) {
  std::mt19937 random(6);
  for (int i = 0; i < 40; i++) {
    Graph g;
    const int64_t in = 1 + int64_t(random() % 40), out = any_of<int64_t>(random, {16, 32, 40, 64}),
                  window = any_of<int64_t>(random, {1, 2, 2, 3, 4, 5}),
                  size = window + int64_t(random() % 22), step = any_of<int64_t>(random, {1, 1, 2, 3}),
                  images = 1 + int64_t(random() % 3), padding = int64_t(random() % (window / 2 + 1));
    const bool last = random() % 3 == 0; // channels
    Tensor x = last ? g.tensor({images, size, size, in}, DType::bf16).permute({0, 3, 1, 2})
                    : g.tensor({images, in, size, size}, DType::bf16),
           w = random() % 3 ? g.tensor({out, in, window, window}, DType::bf16)
                            : g.weight("w", {out, in, window, window}, DType::bf16);
    Tensor y = conv(x, w, Tensor(), {.stride = step, .padding = padding});
    if (last) y = y.permute({0, 2, 3, 1}).relu();
    y.keep();
    SCOPED_TRACE(fmt::format("{} to {}, {} images of {}, window {}, step {}, padding {}", in, out, images,
                             size, window, step, padding));
    expect_right(parse_module(g.to_string()), unsigned(i));
  }
}

/// Two columns are one word, which overlaps with that of the next window: such words are copied, so that
/// lanes read them.
TEST(Apart, WordsOfTwoColumnsHaveLanes) {
  kernel::MachineLimits limits = wide();
  limits.units = {"avx512.dpbf16"};
  Graph g;
  Tensor x = g.tensor({4, 64, 7, 7}, DType::bf16), w = g.tensor({48, 64, 2, 2}, DType::bf16);
  conv(x, w, Tensor(), {}).keep();
  each_kernel(parse_module(g.to_string()), limits, [&](const compile::PlannedKernel& kernel) {
    EXPECT_NE(kernel.schedule.find("vector s0 "), std::string::npos) << kernel.schedule;
  });
}

} // namespace
/// Sums and maps of elements at quotients of an axis, under conditions, as adaptive pooling and images
/// resized by any factor read them.
TEST(Apart, ElementsAtQuotientsAreRight) {
  std::mt19937 random(11);
  for (int i = 0; i < 60; i++) {
    const int64_t n = 3 + int64_t(random() % 60), few = 1 + int64_t(random() % n),
                  channels = 1 + int64_t(random() % 9), window = 1 + int64_t(random() % 3);
    const std::string type = any_of<std::string>(random, {"f32", "f32", "bf16", "f64", "u8"});
    const std::string at = fmt::format("(j*{} + {}) // {}", few, random() % uint64_t(n), n),
                      where = any_of<std::string>(random, {"", "(j*3) % 7 != 2 and r*5 < j + 3"});
    SCOPED_TRACE(fmt::format("{} {} of {}, windows of {}", type, few, n, window));
    expect_right(parse_module(fmt::format(R"(fn @main(%x: {0}[{1}, {2}], %z: f32[{1}, {3}]) {{
  %v = view %x [c: {1}, j: {3}, r: {4}] -> [c, r + {5}] {6}
  %w = cast f32 %v
  %f = fold [c: {1}, j: {3}, r: {4}] over [r] {{ sum %w[c, j, r] }}
  %s = get %f, 0
  %t = view %x [c: {1}, j: {3}] -> [c, {5}]
  %u = cast f32 %t
  %y = mul %u, %z
  return s = %s, y = %y
}})",
                                          type, channels, few + window, n, window, at,
                                          where.empty() ? "" : "where " + where + " fill 0")),
                 unsigned(i));
  }
}

/// Products of two operands whose rows are contiguous along the sum, in unknown numbers, in batches that lie
/// in the rows or around them; what follows the sums, and one operand that is both.
TEST(Apart, ProductsOfRowsOfUnknownNumbersAreRight) {
  std::mt19937 random(12);
  for (int i = 0; i < 24; i++) {
    const int64_t deep = any_of<int64_t>(random, {8, 16, 24, 32, 40, 64, 100, 1100}),
                  heads = any_of<int64_t>(random, {1, 2, 3});
    const bool same = random() % 4 == 0, around = random() % 2 == 0;
    const auto operand = [&](const std::string& name, const std::string& rows) {
      return around ? fmt::format("%{}: f32[{}, {}, {}]", name, 2 * heads, rows, deep)
                    : fmt::format("%{}: f32[2, {}, {}, {}]", name, rows, heads, deep);
    };
    const auto at = [&](const std::string& row) {
      return around ? fmt::format("[h, {}, k]", row) : fmt::format("[h // {0}, {1}, h % {0}, k]", heads, row);
    };
    const std::string space = fmt::format("[h: {}, m: q, n: {}, k: {}]", 2 * heads, same ? "q" : "s", deep),
                      text =
                          fmt::format(R"(symbol q: 2..300
symbol s: 2..300
fn @main({0}, {1}) {{
  %x = view %a {2} -> {3}
  %w = view %{4} {2} -> {5}
  %p = mul %x, %w
  %f = fold {2} over [k] {{ sum %p[h, m, n, k] }}
  %g = get %f, 0
  %y = {6} %g
  return y = %y
}})",
                                      operand("a", "q"), operand("b", "s"), space, at("m"), same ? "a" : "b",
                                      at("n"), any_of<std::string>(random, {"neg", "exp2"}));
    SCOPED_TRACE(text);
    expect_right(parse_module(text), unsigned(i),
                 {{"q", 2 + int64_t(random() % 70)}, {"s", 2 + int64_t(random() % 150)}});
  }
}

/// Values written into a number everywhere at places that axes say (diagonals, every second column): the
/// kernel that reads the result reads them. Places that several values have keep their order.
TEST(Apart, ValuesAtKnownPlacesAreRead) {
  const auto written = [](const std::string& type, const std::string& values, const std::string& how,
                          const std::string& space, const std::string& at) {
    return parse_module(fmt::format(R"(fn @main(%x: {0}[{1}]) {{
  %n = const {0} 3
  %f = view %n [a: 40, b: 20, c: 12] -> []
  %s = scatter {2} %f, %x [{3}] -> [{4}]
  %y = mul %s, %s
  return y = %y
}})",
                                    type, values, how, space, at));
  };
  const auto kernels = [&](const std::string& values, const std::string& space, const std::string& at) {
    int count = 0;
    each_kernel(written("f32", values, "set", space, at), wide(), [&](const auto&) { count++; });
    return count;
  };
  EXPECT_EQ(kernels("9, 40", "i: 9, j: 40", "j, i + 1, i + 3"), 1);
  EXPECT_EQ(kernels("10, 40", "i: 10, j: 40", "j, i*2, 5"), 1);
  EXPECT_EQ(kernels("9, 40", "i: 9, j: 40", "j, 3, 5"), 2) << "the last one stays";
  std::mt19937 random(13);
  for (int i = 0; i < 60; i++) {
    const int64_t n = 1 + int64_t(random() % 6), m = 1 + int64_t(random() % 5);
    const auto place = [&] {
      return any_of<std::string>(random, {"i + 2", "i*2", "i*3 + 1", "j", "j*2 + 1", "4", "i", "j + 3"});
    };
    const std::string at =
        place() + ", " + place() + ", " + any_of<std::string>(random, {"i", "j*2", "j + 1", "7"});
    SCOPED_TRACE(at);
    expect_right(written(any_of<std::string>(random, {"f32", "bf16", "f64", "i32", "i64", "u8"}),
                         fmt::format("{}, {}", n, m), any_of<std::string>(random, {"set", "set", "sum"}),
                         fmt::format("i: {}, j: {}", n, m), at),
                 unsigned(i));
  }
}

/// Updates of rows that share their indices, as the gradient of a sampled image makes them.
TEST(Apart, UpdatesOfRowsThatShareTheirIndicesAreRight) {
  std::mt19937 random(14);
  for (int i = 0; i < 40; i++) {
    const int64_t n = 1 + int64_t(random() % 3), c = 1 + int64_t(random() % 30),
                  k = 1 + int64_t(random() % 60), e = 1 + int64_t(random() % 40);
    const std::string type = any_of<std::string>(random, {"f32", "f32", "f64", "bf16", "i32"}),
                      how = any_of<std::string>(random, {"sum", "max", "set"});
    SCOPED_TRACE(fmt::format("{} {} of {}, {} channels, {} points", how, type, e, c, k));
    expect_right(parse_module(fmt::format(
                     R"(fn @main(%x: {0}[{1}, {2}, {4}], %v: {0}[{1}, {2}, {3}], %i: i64[{1}, {3}]) {{
  %y = scatter {5} %x, %v [n: {1}, c: {2}, k: {3}] with h = %i[n, k] in 0..{6} clamp -> [n, c, h]
  return y = %y
}})",
                     type, n, c, k, e, how, e - 1)),
                 unsigned(i));
  }
}

/// Elements of a few kinds along axes that only together say which: small matrices made one by one.
TEST(Apart, ElementsOfSmallMatricesAreRight) {
  std::mt19937 random(15);
  for (int i = 0; i < 30; i++) {
    const int64_t rows = 1 + int64_t(random() % 60), h = 1 + int64_t(random() % 4),
                  w = 1 + int64_t(random() % 5);
    std::string body = fmt::format("fn @main(%x: f32[{}, 5]) {{\n", rows), last;
    for (int64_t k = 0; k < h * w; k++) {
      body +=
          fmt::format("  %a{0} = view %x [r: {1}] -> [r, {2}]\n  %b{0} = neg %a{0}\n"
                      "  %v{0} = view %b{0} [r: {1}, i: {3}, j: {4}] -> [r] where i*{4} + j {5} {0} fill 0\n",
                      k, rows, random() % 5, h, w, any_of<std::string>(random, {"==", "==", "<=", ">"}));
      if (k > 0) body += fmt::format("  %s{0} = add {1}, %v{0}\n", k, last);
      last = fmt::format("%{}{}", k ? "s" : "v", k);
    }
    body += "  return y = " + last + "\n}\n";
    SCOPED_TRACE(body);
    expect_right(parse_module(body), unsigned(i));
  }
}

} // namespace luminal::apart_test
