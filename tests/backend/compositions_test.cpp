// backend/compositions_test.cpp -- products beside each other and behind what moves elements: every
// kernel that multiplies has a tiled schedule, and the results are those of the interpreter. Speed
// is asserted nowhere; loops are.
#include "choose/tiling.h"
#include "compile/builder.h"
#include "composed_modules.h"
#include "cone/canonical_cone.h"
#include "luminal/luminal.h"
#include <fmt/format.h>
#include <functional>
#include <random>

namespace luminal {
namespace {

kernel::MachineLimits narrow() {
  kernel::MachineLimits limits;
  limits.lanes = 8, limits.vector_registers = 16;
  limits.l2 = 512 << 10;
  return limits;
}

/// What the plan's kernels say of their products.
std::string untiled(const Module& module, const kernel::MachineLimits& limits) {
  std::string text;
  each_kernel(module, limits, [&](const compile::PlannedKernel& kernel) {
    if (!kernel.report.untiled.empty())
      text += fmt::format("{} {}: {}\n{}", kernel.report.name, kernel.report.computes, kernel.report.untiled,
                          kernel.schedule);
  });
  return text;
}

/// The share of the multiply-adds that the loops of the slowest product reach; 0 without one.
double slowest(const Module& module, const kernel::MachineLimits& limits) {
  double least = 2;
  each_kernel(module, limits, [&](const compile::PlannedKernel& kernel) {
    const auto problem = kernel.problem();
    ASSERT_TRUE(problem) << problem.error();
    const kernel::Cone cone = kernel::canonical(problem->cone).cone;
    for (const kernel::TiledFold& fold :
         kernel::tiled_folds(cone, kernel::parse_schedule(kernel.schedule), limits))
      least = std::min(least, fold.rate);
  });
  return least > 1 ? 0 : least;
}

/// Inputs and weights of a graph, named in their order.
struct Maker {
  Graph& g;
  int count = 0;
  Tensor input(Dims shape) { return g.tensor(shape); }
  Tensor indices(Dims shape) { return g.tensor(shape, DType::i64); } ///< 0 to 19
  Tensor weight(Dims shape) { return g.weight("w" + std::to_string(count++), shape); }
  Tensor conv(const Tensor& x, int64_t out, int64_t size, int64_t stride = 1, int64_t groups = 1) {
    return conv2d(x, weight({out, x.dim(1).value() / groups, size, size}), {},
                  {.stride = stride, .padding = size / 2, .groups = groups});
  }
  Tensor dense(const Tensor& x, int64_t out) { return linear(x, weight({out, x.shape().back().value()})); }
  Tensor norm(const Tensor& x) {
    const int64_t c = x.dim(1).value();
    return x * weight({c, 1, 1}) + weight({c, 1, 1});
  }
};

struct Composition {
  const char* name;
  std::function<Tensor(Maker&)> make;
};

const std::vector<Composition>& compositions() {
  static const std::vector<Composition> list = {
      {"products of two depths",
       [](Maker& m) { return m.dense(m.input({64, 96}), 80) + m.dense(m.input({64, 40}), 80); }},
      {"low rank beside full rank",
       [](Maker& m) {
         Tensor x = m.input({96, 128});
         return m.dense(x, 128) + m.dense(m.dense(x, 8), 128) * 2;
       }},
      {"three products",
       [](Maker& m) {
         return m.dense(m.input({64, 64}), 96) + m.dense(m.input({64, 48}), 96).tanh() +
                m.dense(m.input({64, 80}), 96);
       }},
      {"gates of low rank",
       [](Maker& m) {
         Tensor x = m.input({64, 64});
         return (m.dense(x, 96) + m.dense(m.dense(x, 8), 96)).silu() *
                (m.dense(x, 96) + m.dense(m.dense(x, 8), 96));
       }},
      {"windows of two sizes",
       [](Maker& m) {
         Tensor x = m.input({1, 32, 14, 14});
         return m.conv(x, 32, 3) + m.conv(x, 32, 1);
       }},
      {"windows of two sizes, shifted, and the image",
       [](Maker& m) {
         Tensor x = m.input({2, 16, 20, 20});
         return (m.norm(m.conv(x, 16, 3)) + m.norm(m.conv(x, 16, 1)) + m.norm(x)).relu();
       }},
      {"windows of two images",
       [](Maker& m) {
         return m.conv(m.input({8, 16, 14, 14}), 16, 3) + m.conv(m.input({8, 16, 14, 14}), 16, 3);
       }},
      {"a projection beside steps of two",
       [](Maker& m) {
         Tensor x = m.input({1, 32, 16, 16});
         return (m.conv(m.conv(x, 64, 3, 2).relu(), 64, 3) + m.conv(x, 64, 1, 2)).relu();
       }},
      {"channels one by one, twice",
       [](Maker& m) {
         Tensor x = m.input({1, 32, 28, 28});
         return m.conv(x, 32, 3, 1, 32) + m.conv(x, 32, 5, 1, 32);
       }},
      {"a larger image",
       [](Maker& m) { return m.conv(interpolate(m.input({1, 32, 14, 14}), {28, 28}), 32, 3); }},
      {"a larger image, 2 to 3",
       [](Maker& m) { return m.conv(interpolate(m.input({2, 16, 10, 10}), {15, 15}), 16, 3); }},
      {"a larger image without windows",
       [](Maker& m) { return m.conv(interpolate(m.input({1, 32, 14, 14}), {28, 28}), 32, 1); }},
      {"a pyramid",
       [](Maker& m) {
         Tensor low = m.conv(m.input({1, 48, 8, 8}), 32, 1);
         return m.conv(m.conv(m.input({1, 24, 16, 16}), 32, 1) + interpolate(low, {16, 16}), 32, 3);
       }},
      {"a transposed convolution before windows",
       [](Maker& m) {
         return m.conv(conv_transpose(m.input({1, 16, 12, 12}), m.weight({16, 16, 2, 2}), {}, {.stride = 2}),
                       16, 3);
       }},
      {"a transposed convolution beside a product",
       [](Maker& m) {
         return conv_transpose(m.input({1, 16, 12, 12}), m.weight({16, 16, 2, 2}), {}, {.stride = 2}) +
                m.conv(m.input({1, 16, 24, 24}), 16, 1);
       }},
      {"reflected ends",
       [](Maker& m) {
         return conv2d(m.input({1, 32, 14, 14}).pad({{2, 1, 1}, {3, 1, 1}}, PadMode::reflect),
                       m.weight({32, 32, 3, 3}));
       }},
      {"repeated ends",
       [](Maker& m) {
         return conv2d(m.input({1, 32, 14, 14}).pad({{2, 1, 1}, {3, 1, 1}}, PadMode::replicate),
                       m.weight({32, 32, 3, 3}));
       }},
      {"a ring", [](Maker& m) { return m.conv(m.input({1, 32, 16, 16}).roll(3, 3), 32, 3); }},
      {"a part of a padded batch",
       [](Maker& m) {
         return m.conv(m.input({16, 8, 14, 14}).pad(1, 1, 1).slice(1, 0, 8).permute({1, 0, 2, 3}), 16, 3);
       }},
      {"channels last",
       [](Maker& m) { return m.conv(m.input({8, 14, 14, 16}).permute({0, 3, 1, 2}), 16, 3); }},
      {"few channels last",
       [](Maker& m) { return m.conv(m.input({8, 14, 14, 8}).permute({0, 3, 1, 2}), 16, 3); }},
      {"shuffled pixels", [](Maker& m) { return m.conv(pixel_shuffle(m.input({1, 64, 10, 10}), 2), 16, 3); }},
      {"windows of windows of a larger image",
       [](Maker& m) {
         Tensor x = interpolate(m.input({1, 16, 10, 10}).relu(), {20, 20});
         return m.conv(x, 16, 3) + m.conv(x, 16, 1);
       }},
      {"an image that is joined and larger",
       [](Maker& m) {
         return m.conv(concat({interpolate(m.input({1, 16, 10, 10}), {20, 20}), m.input({1, 8, 20, 20})}, 1),
                       16, 3);
       }},
      {"weights that are joined when the plan is loaded",
       [](Maker& m) {
         Tensor w = m.weight({96, 64}) + m.weight({96, 40}).matmul(m.weight({40, 64})) +
                    m.weight({96, 24}).matmul(m.weight({24, 64}));
         return linear(m.input({64, 64}), w);
       }},
      {"squares of a pair, summed, before a product",
       [](Maker& m) { return m.dense(m.input({300, 201, 2}).square().sum(-1), 80).log(); }},
      {"a few maxima before a product",
       [](Maker& m) { return m.dense(m.input({96, 3, 120}).max(1), 64) + m.weight({64}); }},
      {"groups of small images",
       [](Maker& m) { return m.conv(m.input({16, 64, 2, 2}), 64, 3, 1, 2).relu(); }},
      {"groups of small images, weights that are inputs",
       [](Maker& m) {
         return conv2d(m.input({32, 64, 2, 2}), m.input({64, 32, 3, 3}), {}, {.padding = 1, .groups = 2})
             .relu();
       }},
      {"groups of images of 3 x 3",
       [](Maker& m) { return m.conv(m.input({8, 96, 3, 3}), 96, 3, 1, 4).relu(); }},
      {"windows over one element", [](Maker& m) { return m.conv(m.input({32, 64, 1, 1}), 48, 3).relu(); }},
      {"a transposed convolution of one element",
       [](Maker& m) { return conv_transpose(m.input({16, 64, 1, 1}), m.weight({64, 32, 4, 4})).tanh(); }},
      {"normed sums of products",
       [](Maker& m) {
         return layer_norm(m.dense(m.input({64, 96}), 80) + m.dense(m.input({64, 40}), 80), m.weight({80}),
                           m.weight({80}));
       }},
  };
  return list;
}

Module module_of(const std::function<Tensor(Maker&)>& make) {
  Graph g;
  Maker maker{g};
  make(maker).keep();
  return parse_module(g.to_string());
}

TEST(Compositions, EveryProductIsTiled) {
  for (const Composition& c : compositions())
    for (const auto& limits : {wide(), narrow()})
      EXPECT_EQ(untiled(module_of(c.make), limits), "") << c.name << ", " << limits.lanes << " lanes";
}

TEST(Compositions, AreWhatTheInterpreterSays) {
  unsigned seed = 1;
  for (const Composition& c : compositions()) {
    SCOPED_TRACE(c.name);
    expect_right(module_of(c.make), seed++);
  }
}

/// How often the plan's kernels compute a function that takes many operations for one element
/// alone.
double functions_one_by_one(const Module& module, const kernel::MachineLimits& limits) {
  double count = 0;
  each_kernel(module, limits, [&](const compile::PlannedKernel& kernel) {
    const auto problem = kernel.problem();
    ASSERT_TRUE(problem) << problem.error();
    const kernel::Cone cone = kernel::canonical(problem->cone).cone;
    const auto nests = kernel::largest_nests(cone, kernel::parse_schedule(kernel.schedule));
    ASSERT_TRUE(nests);
    count += kernel::functions_one_by_one(*nests);
  });
  return count;
}

/// Words of a dot instruction run along the sum, and so do its lanes: what is computed of the
/// results has none there.
TEST(Compositions, FunctionsBehindProductsHaveLanes) {
  struct Size {
    int64_t rows, deep, columns;
  };
  for (const Size& size : {Size{96, 64, 128}, Size{40, 64, 96}, Size{33, 96, 136}})
    for (const bool narrow_type : {false, true}) {
      const Module module = module_of([&](Maker& m) {
        const DType dtype = narrow_type ? DType::bf16 : DType::f32;
        const Tensor x = m.g.tensor({size.rows, size.deep}, dtype),
                     w = m.g.weight("a", {size.columns, size.deep}, dtype),
                     v = m.g.weight("b", {size.deep, size.columns}, dtype);
        return linear(linear(x, w).gelu(), v).tanh();
      });
      SCOPED_TRACE(to_string(module));
      kernel::MachineLimits limits = wide();
      limits.units = {"avx512.dpbf16"};
      EXPECT_EQ(functions_one_by_one(module, limits), 0);
      expect_right(module, unsigned(size.rows));
    }
}

/// Sums of a few words, which leave no loop (low rank): weights whose rows lie along the sum are put together
/// in words for many rows of results, and lanes go along the columns.
TEST(Compositions, SumsOfFewWordsHaveLanes) {
  unsigned seed = 1;
  for (const int64_t deep : {2, 8, 10, 16})
    for (const int64_t columns : {24, 96, 130}) {
      const Module module = module_of([&](Maker& m) {
        const Tensor x = m.g.tensor({96, 64}, DType::bf16), down = m.g.tensor({deep, 64}, DType::bf16),
                     up = m.g.tensor({columns, deep}, DType::bf16),
                     to = m.g.tensor({96, columns}, DType::bf16);
        return to + linear(linear(x, down), up);
      });
      SCOPED_TRACE(to_string(module));
      kernel::MachineLimits limits = wide();
      limits.units = {"avx512.dpbf16"};
      EXPECT_EQ(untiled(module, limits), "");
      if (deep > 2)
        each_kernel(module, limits, [&](const compile::PlannedKernel& kernel) {
          if (kernel.report.computes.find(fmt::format("{}]", columns)) == std::string::npos) return;
          EXPECT_NE(kernel.schedule.find("avx512.dpbf16 s0.words"), std::string::npos) << kernel.schedule;
          EXPECT_NE(kernel.schedule.find("vector s0 a1"), std::string::npos) << kernel.schedule;
        });
      expect_right(module, seed++);
    }
}

/// Attention of one block: queries, keys and values are views of one product, or products apart.
Tensor attention(Maker& m, int64_t batch, int64_t rows, int64_t heads, int64_t size, bool joined,
                 bool bias = true) {
  const int64_t width = heads * size;
  const Tensor x = m.input({batch, rows, width});
  const auto product = [&](int64_t n) { return bias ? m.dense(x, n) + m.weight({n}) : m.dense(x, n); };
  std::vector<Tensor> qkv;
  if (joined)
    qkv = product(3 * width).chunk(3, -1);
  else
    for (int i = 0; i < 3; i++) qkv.push_back(product(width));
  for (Tensor& t : qkv) t = t.reshape({batch, rows, heads, size}).permute({0, 2, 1, 3});
  const Tensor y = scaled_dot_product_attention(qkv[0], qkv[1], qkv[2]);
  return m.dense(y.permute({0, 2, 1, 3}).reshape({batch, rows, width}), width) + x;
}

/// Products that read what other operations moved reach what plain products reach: nothing is read
/// lane by lane, again and again from a slower cache, or made again for each tile.
TEST(Compositions, SharedAndGatheredOperandsHaveTiles) {
  constexpr double least = 0.6;
  const auto expect_tiles = [&](const char* name, const std::function<Tensor(Maker&)>& make) {
    EXPECT_GE(slowest(module_of(make), wide()), least) << name;
  };
  for (const bool joined : {true, false})
    for (const bool bias : {true, false})
      for (const int64_t heads : {1, 2, 4})
        for (const int64_t batch : {1, 2})
          expect_tiles("attention",
                       [&](Maker& m) { return attention(m, batch, 128, heads, 64, joined, bias); });
  expect_tiles("attention to itself", [](Maker& m) {
    const Tensor x = m.input({1, 128, 64});
    return scaled_dot_product_attention(x, x, x);
  });
  expect_tiles("rows of a table", [](Maker& m) {
    return m.dense(embedding(m.weight({500, 256}), m.indices({256})), 256).relu();
  });
  expect_tiles("rows of a table, some",
               [](Maker& m) { return m.dense(embedding(m.weight({500, 256}), m.indices({1, 64})), 512); });
  expect_tiles("rows of an input", [](Maker& m) {
    return m.input({500, 256}).gather(m.indices({200})).matmul(m.input({256, 256}));
  });
  expect_tiles("rows of the weights", [](Maker& m) {
    return linear(m.input({128, 256}), m.weight({500, 256}).gather(m.indices({300})));
  });
}

TEST(Compositions, SharedAndGatheredOperandsAreWhatTheInterpreterSays) {
  std::mt19937 random(1);
  const auto in = [&](int64_t low, int64_t high) {
    return low + int64_t(random() % unsigned(high - low + 1));
  };
  for (unsigned seed = 1; seed <= 12; seed++) {
    const int64_t batch = in(1, 2), rows = in(17, 70), heads = in(1, 3), size = in(8, 40);
    SCOPED_TRACE(fmt::format("attention of {} x {} rows, {} heads of {}", batch, rows, heads, size));
    expect_right(
        module_of([&](Maker& m) { return attention(m, batch, rows, heads, size, seed % 2, seed % 3); }),
        seed);
  }
  for (unsigned seed = 1; seed <= 12; seed++) {
    const int64_t batch = in(1, 2), rows = in(20, 90), deep = in(40, 200), columns = in(64, 300);
    SCOPED_TRACE(fmt::format("{} x {} rows of {}, {} columns", batch, rows, deep, columns));
    expect_right(module_of([&](Maker& m) {
                   if (seed % 3 == 0)
                     return linear(m.input({rows, deep}), m.weight({30, deep}).gather(m.indices({columns})));
                   const Tensor table = seed % 2 ? m.weight({20, deep}) : m.input({20, deep});
                   return m.dense(embedding(table, m.indices({batch, rows})), columns);
                 }),
                 seed);
  }
}

/// Parts whose elements follow each other in turn are exchanged in registers, whatever their
/// number.
TEST(Compositions, PartsAreDealtOutInVectors) {
  for (int64_t parts = 2; parts <= 8; parts++)
    for (const int64_t columns : {32, 14, 37}) {
      SCOPED_TRACE(fmt::format("{} parts of {} columns", parts, columns));
      const Module module = module_of([&](Maker& m) {
        std::vector<Tensor> all;
        for (int64_t i = 0; i < parts; i++) all.push_back(m.input({5, columns}));
        return stack(all, -1).reshape({5, columns * parts}) * 2;
      });
      each_kernel(module, wide(), [](const compile::PlannedKernel& kernel) {
        EXPECT_NE(kernel.schedule.find("vector "), std::string::npos) << kernel.schedule;
      });
      expect_right(module, unsigned(parts));
    }
  for (const int64_t stride : {2, 3})
    for (const int64_t groups : {1, 4}) {
      SCOPED_TRACE(fmt::format("steps of {}, {} groups", stride, groups));
      const Module module = module_of([&](Maker& m) {
        return conv_transpose(m.input({1, 8, 7, 16}), m.weight({8, 8 / groups, stride + 2, stride + 2}), {},
                              {.stride = stride, .padding = 1, .groups = groups});
      });
      each_kernel(module, wide(), [](const compile::PlannedKernel& kernel) {
        if (kernel.report.computes.starts_with("output")) {
          EXPECT_NE(kernel.schedule.find("vector "), std::string::npos) << kernel.schedule;
        }
      });
      expect_right(module, unsigned(stride));
    }
}

TEST(Compositions, TheReportNamesKernelsWithoutATiledSchedule) {
  const Module module = module_of([](Maker& m) { return m.dense(m.input({64, 64}), 64); });
  compile::Options options = compile::Options::host(1);
  options.cache = false;
  auto compiled = compile::compile(module, options);
  ASSERT_TRUE(compiled) << compiled.error();
  EXPECT_EQ(compiled->report().find("no tiled schedule"), std::string::npos);
  options.schedules = {{"k0", ""}}; // plain loops
  compiled = compile::compile(module, options);
  ASSERT_TRUE(compiled) << compiled.error();
  const std::string report = compiled->report();
  EXPECT_NE(report.find("no tiled schedule, as their lines say: k0\n"), std::string::npos) << report;
  EXPECT_NE(report.find("of the multiply-adds, its loops have no lanes"), std::string::npos) << report;
}

/// The search over regions compares plans of programs whose inputs are copied into panels at each step, with
/// the sums of what windows read around images in kernels of their own.
TEST(Compositions, PlansWithCopiesIntoPanelsAreCompared) {
  const auto report_of = [](const Module& module) {
    compile::Options options = compile::Options::host(1);
    options.cache = false;
    auto compiled = compile::compile(module, options);
    EXPECT_TRUE(compiled) << compiled.error();
    return compiled ? compiled->report() : "";
  };
  for (const int64_t window : {1, 3}) {
    const std::string report = report_of(module_of([&](Maker& m) {
      const Tensor x = ((m.input({16, 96, 8, 8}) - m.input({96, 1, 1})) * m.input({96, 1, 1})).relu();
      const Tensor y = conv2d(x, m.input({104, 96, window, window}), {}, {.padding = window / 2});
      return avg_pool(
          conv2d(y.relu(), m.input({96, 104, window, window}), m.input({96}), {.padding = window / 2}),
          {2, 2});
    }));
    EXPECT_NE(report.find("region of "), std::string::npos) << report;
    EXPECT_EQ(report.find("no plan has kernels"), std::string::npos) << report;
    EXPECT_EQ(report.find("no tiled schedule"), std::string::npos) << report;
  }
  // Weights that are turned at each step are copied anyway.
  const std::string report = report_of(module_of([](Maker& m) {
    return conv_transpose(m.input({16, 32, 16, 32, 16}), m.input({32, 16, 3, 3, 3}), {},
                          {.stride = 2, .padding = 1, .dilation = 2});
  }));
  EXPECT_NE(report.find("region of "), std::string::npos) << report;
  EXPECT_EQ(report.find("no tiled schedule"), std::string::npos) << report;
}

/// Chains and trees of elementwise operations are cut into kernels of a bounded size.
TEST(Compositions, LongChainsAreRight) {
  const auto chain = [](int steps, const std::function<Tensor(const Tensor&, int)>& step) {
    return module_of([&](Maker& m) {
      Tensor y = m.input({5});
      for (int i = 0; i < steps; i++) y = step(y, i);
      return y;
    });
  };
  expect_right(chain(2500, [](const Tensor& y, int i) { return i % 2 ? y + 1 : y * 0.5; }), 1);
  expect_right(chain(100, [](const Tensor& y, int) { return y.tanh() + 0.25; }), 2);
  expect_right(chain(60, [](const Tensor& y, int) { return (y + y) * 0.5; }), 3);
  expect_right(chain(12, [](const Tensor& y, int) { return (y + y.flip(0)) * 0.5; }), 4);
}

/// A chain of operations on images: products among what moves, joins and cuts elements.
Tensor drawn_image(Maker& m, std::mt19937& random) {
  const auto below = [&](int64_t n) { return int64_t(random() % unsigned(n)); };
  const auto channels = [&] { return std::array<int64_t, 4>{8, 12, 16, 24}[size_t(below(4))]; };
  Tensor x = m.input({1 + below(2), channels(), 8 + below(9), 8 + below(9)});
  if (below(4) == 0) x = m.input({x.dim(0), x.dim(2), x.dim(3), x.dim(1)}).permute({0, 3, 1, 2});
  const auto product = [&] {
    const int64_t c = x.dim(1).value();
    switch (below(7)) {
    case 0: return m.conv(x, channels(), 1);
    case 1: return m.conv(x, c, 3, 1, c);
    case 2: return m.conv(x, channels(), 3, 2);
    case 3: return m.conv(x, c, 3, 1, 4);
    case 4: return conv_transpose(x, m.weight({c, 8, 2, 2}), {}, {.stride = 2});
    default: return m.conv(x, channels(), 3);
    }
  };
  const auto other = [&] {
    const int64_t h = x.dim(2).value(), w = x.dim(3).value();
    switch (below(14)) {
    case 0: return interpolate(x, {h * 2, w * 2});
    case 1: return interpolate(x, {h + 3, w + 2}, Interpolation::linear);
    case 2: return x.pad({{2, 1, 2}, {3, 2, 1}}, PadMode::reflect);
    case 3: return x.pad({{2, 1, 2}, {3, 2, 1}}, PadMode::replicate);
    case 4: return x.pad({{2, 1, 2}, {3, 2, 1}}, PadMode::circular);
    case 5: return x.permute({0, 1, 3, 2});
    case 6: return x.slice(2, 1, h).slice(3, 0, w - 1);
    case 7: return concat({x, m.input(x.shape())}, 1);
    case 8: return m.norm(x).relu();
    case 9: return x.softmax(1);
    case 10: return max_pool(x, {3, 3}, {.stride = {1, 1}, .padding = 1});
    case 11: return x.roll(2, 3);
    case 12: return x.flip(2);
    default: return x.silu();
    }
  };
  const int64_t steps = 4 + below(4);
  for (int64_t s = 0; s < steps; s++) {
    if (x.dim(2).value() > 24 || x.dim(3).value() > 24) x = x.slice(2, 0, 12).slice(3, 1, 13);
    if (s == 1 || s == steps - 1) {
      const Tensor left = product();
      const Tensor right = product();
      x = to_string(left.shape()) == to_string(right.shape()) ? left + right : left;
    } else {
      x = other();
    }
  }
  return x;
}

/// The same of matrices.
Tensor drawn_matrix(Maker& m, std::mt19937& random) {
  const auto below = [&](int64_t n) { return int64_t(random() % unsigned(n)); };
  const auto size = [&] { return 24 + below(60); };
  const int64_t rows = size();
  Tensor x = m.input({rows, size()});
  for (int64_t s = 0, steps = 3 + below(4); s < steps; s++) {
    const int64_t r = x.dim(0).value(), c = x.dim(1).value(), n = size();
    switch (below(13)) {
    case 0: x = x.t(); break;
    case 1: x = x.softmax(-1); break;
    case 2: x = layer_norm(x, m.weight({c}), m.weight({c})); break;
    case 3: x = x.roll(5, 1); break;
    case 4: x = x.pad({{1, 3, 4}}, PadMode::reflect); break;
    case 5: x = concat({x, m.input({r, 9})}, 1); break;
    case 6: x = x.slice(1, 2, c - 1); break;
    case 7: x = x.tanh() * m.input({r, c}); break;
    case 8: x = m.dense(x, n) + m.dense(m.dense(x, 8), n); break;
    case 9: x = m.dense(x, n) + m.dense(m.input({r, size()}), n); break;
    case 10: x = m.dense(x, n).silu() * m.dense(x, n); break;
    default: x = m.dense(x, n);
    }
  }
  return m.dense(x, size()) + m.dense(m.input({x.dim(0), size()}), 1);
}

void random_compositions(unsigned first, unsigned last, unsigned run_each,
                         Tensor (*draw)(Maker&, std::mt19937&)) {
  for (unsigned seed = first; seed <= last; seed++) {
    const Module module = module_of([&](Maker& m) {
      std::mt19937 random(seed);
      return draw(m, random);
    });
    SCOPED_TRACE("seed " + std::to_string(seed) + "\n" + to_string(module));
    EXPECT_EQ(untiled(module, seed % 2 ? wide() : narrow()), "");
    if (seed % run_each == 0) expect_right(module, seed);
    if (testing::Test::HasFailure()) return;
  }
}

TEST(Compositions, RandomOnesOfImages) { random_compositions(1, 60, 6, drawn_image); }
TEST(Compositions, RandomOnesOfMatrices) { random_compositions(1, 60, 6, drawn_matrix); }

} // namespace
} // namespace luminal
