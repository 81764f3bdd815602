// backend/long_sums_test.cpp -- folds of many elements into few results: they are summed in parts and in
// blocks, give what the interpreter gives, the same bits for any number of workers, and errors that do not
// grow with the number of elements.
#include "choose/tiling.h"
#include "composed_modules.h"
#include "cone/canonical_cone.h"
#include <fmt/format.h>

namespace luminal {
namespace {

using Shape = std::vector<int64_t>;

std::vector<Dim> dims(const Shape& shape) { return {shape.begin(), shape.end()}; }

Module written(Graph& g, const Tensor& result) {
  Tensor kept = result;
  kept.keep();
  return parse_module(g.to_string());
}

std::string bits(const Module& module, const Bindings& bindings, int workers) {
  Running running(module, 2, workers);
  auto context = running.start(module, bindings);
  EXPECT_TRUE(context->run());
  std::string all;
  for (const FunctionResult& r : module.entry().results) {
    const auto value = context->result(r.name).value();
    all.append(reinterpret_cast<const char*>(value.bytes.data()), value.bytes.size());
  }
  return all;
}

TEST(LongSums, AreWhatTheInterpreterSays) {
  std::mt19937 random(5);
  const auto below = [&](int64_t n) { return int64_t(random() % uint64_t(n)); };
  for (int round = 0; round < 70; round++) {
    // One long axis, and up to three others.
    Shape shape;
    const int64_t others = below(4);
    int64_t left = 60'000;
    for (int64_t i = 0; i < others; i++) {
      shape.push_back(1 + below(below(3) == 0 ? 70 : 9));
      left /= shape.back();
    }
    const int64_t at = below(others + 1);
    shape.insert(shape.begin() + at, std::max<int64_t>(1, below(2) ? left : below(left + 1)));
    std::vector<int> axes{int(at)};
    std::vector<int> order;
    for (int i = 0; i <= others; i++) {
      if (i != at && below(3) == 0) axes.push_back(i);
      order.push_back(i);
    }
    if (below(3) == 0) std::shuffle(order.begin(), order.end(), random);
    const DType dtypes[] = {DType::f32, DType::f32, DType::f32, DType::f64, DType::bf16, DType::i32};
    const DType dtype = dtypes[below(6)];
    Graph g;
    Shape stored(shape.size()); // the result of the permutation has `shape`
    for (size_t i = 0; i < order.size(); i++) stored[size_t(order[i])] = shape[i];
    const auto input = [&] { return g.tensor(dims(stored), dtype).permute(order); };
    const Tensor x = input();
    Tensor y;
    switch (below(8)) {
    case 0: y = (x * input()).sum(axes); break;
    case 1: y = x.max(axes) + x.sum(axes); break;
    case 2: y = x.min(axes); break;
    case 3: y = x.argmax(int(at)); break;
    case 4: y = is_float(dtype) ? x.mean(axes) * 2 + 1 : x.prod(axes); break;
    case 5: y = is_float(dtype) ? x.var(axes) : x.sum(axes); break;
    case 6: y = is_float(dtype) ? x.exp().sum(axes).log() : x.sum(axes); break;
    default: y = x.sum(axes); break;
    }
    const Module module = written(g, y);
    SCOPED_TRACE(to_string(module));
    expect_right(module, unsigned(round));
    const Bindings bindings = numbers(module, unsigned(round));
    EXPECT_EQ(bits(module, bindings, 1), bits(module, bindings, 3));
    if (testing::Test::HasFailure()) return;
  }
}

/// Not alone, nor beside another one that the search for equal terms could join it with.
TEST(LongSums, TakeNoElementAfterTheOther) {
  for (const Shape& shape : std::vector<Shape>{{32'768, 8}, {200'000, 3}, {40'000, 33}})
    for (const auto& f : std::vector<std::function<Tensor(const Tensor&)>>{
             [](const Tensor& x) { return x.sum({0}); }, [](const Tensor& x) { return x.var({0}); },
             [](const Tensor& x) { return x.norm(2, {0}); }}) {
      Graph g;
      each_kernel(written(g, f(g.tensor(dims(shape), DType::f32))), wide(),
                  [&](const compile::PlannedKernel& kernel) {
                    const auto problem = kernel.problem();
                    ASSERT_TRUE(problem) << problem.error();
                    const auto nests = kernel::largest_nests(kernel::canonical(problem->cone).cone,
                                                             kernel::parse_schedule(kernel.schedule));
                    ASSERT_TRUE(nests);
                    EXPECT_LT(kernel::summed_one_by_one(*nests, {}), 10'000) << kernel.schedule;
                  });
    }
}

/// Sums of n positive numbers one after the other are off by about n / 4 units of the last place in the
/// worst case, and by 1e-5 of themselves for 200,000 of them.
TEST(LongSums, StayCloseToThoseOfDoubles) {
  const auto error = [](const Shape& shape, const std::function<Tensor(const Tensor&)>& f) {
    Graph g;
    const Module module = written(g, f(g.tensor(dims(shape), DType::f32)));
    Graph exact;
    const Module doubles = written(exact, f(exact.tensor(dims(shape), DType::f64)));
    std::mt19937 random(3);
    std::uniform_real_distribution<float> values(2, 4);
    Bindings bindings[2];
    for (const Module* m : {&module, &doubles}) {
      HostTensor x;
      x.dtype = m == &module ? DType::f32 : DType::f64;
      int64_t count = 1;
      for (const int64_t n : shape) x.shape.push_back(n), count *= n;
      x.data.resize(size_t(storage_bytes(x.dtype, count)));
      random.seed(3);
      for (int64_t i = 0; i < count; i++) store_f64(x.dtype, x.data.data(), i, double(values(random)));
      const NodeId input = m->entry().params[0];
      bindings[m == &doubles].inputs[std::get<InputAttr>(m->entry()[input].attr).name] = std::move(x);
    }
    const std::string got = bits(module, bindings[0], 1), want = bits(doubles, bindings[1], 1);
    double worst = 0;
    for (size_t i = 0; i * 4 < got.size(); i++) {
      const double a = load_f64(DType::f32, reinterpret_cast<const std::byte*>(got.data()), int64_t(i)),
                   b = load_f64(DType::f64, reinterpret_cast<const std::byte*>(want.data()), int64_t(i));
      worst = std::max(worst, std::isfinite(a) ? std::abs(a - b) / std::abs(b) : 1);
    }
    return worst;
  };
  for (const Shape& shape :
       std::vector<Shape>{{200'000, 3}, {200'000, 1}, {65'536, 8}, {100'000, 33}, {50'000, 64}})
    for (const auto& f : std::vector<std::function<Tensor(const Tensor&)>>{
             [](const Tensor& x) { return x.sum({0}); }, [](const Tensor& x) { return x.var({0}); },
             [](const Tensor& x) { return (x * x).mean({0}); },
             [](const Tensor& x) { return x.logsumexp({0}); }})
      EXPECT_LT(error(shape, f), 1.5e-6) << fmt::format("{}", fmt::join(shape, " x "));
  for (const Shape& shape : std::vector<Shape>{{1'000'003}, {3, 300'000}, {2, 40'000, 5}})
    EXPECT_LT(error(shape, [](const Tensor& x) { return (x * x).sum(); }), 1.5e-6) << shape[0];
  // The mean is over those whose label counts, and their number is summed beside it.
  EXPECT_LT(error({400'000, 2},
                  [](const Tensor& x) {
                    const Tensor first = x.slice(1, 0, 1), counts = first <= 3.9;
                    const Tensor chosen = x.log_softmax(1).gather(1, (first > 3).cast(DType::i64));
                    return select(counts, chosen, 0).sum() / counts.cast(DType::i64).sum().cast(x.dtype());
                  }),
            1.5e-6);
}

/// A dimension may be long: a sum over it through indices, element by element, is made in blocks.
TEST(LongSums, OfUnknownLengthAreMadeInBlocks) {
  for (const int64_t most : {1 << 12, 1 << 20}) {
    Graph g;
    const Dim n = g.dim("n", 1, most);
    const Tensor x = g.tensor({n, 3}), at = g.tensor({n, 1}, DType::i64);
    int blocks = 0;
    each_kernel(written(g, x.gather(1, at).sum()), wide(), [&](const compile::PlannedKernel& kernel) {
      blocks += kernel.schedule.find("blocked_sum") != std::string::npos;
    });
    EXPECT_EQ(blocks, most > 1 << 12);
  }
}

} // namespace
} // namespace luminal
