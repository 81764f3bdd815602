// gpu_graphs/gpu_graphs_test.cpp -- graphs on CUDA and HIP whose drivers run kernels on the processor
// (device/fake), against the same graphs on the processor: values in and out, loops, branches, functions of
// the host, states in place, hand-over, training. There the host cannot touch memory of the device, so what
// is not copied ends the process.
#include "device/fake_gpus.h"
#include "luminal/autograd.h"
#include "luminal/custom.h"
#include "luminal/device.h"
#include "luminal/files.h"
#include "luminal/functions.h"
#include "luminal/indexing.h"
#include "luminal/lifetime.h"
#include "luminal/optimizers.h"
#include "luminal/runner.h"
#include <cstdlib>
#include <filesystem>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <unistd.h>

namespace luminal {
namespace {
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

std::vector<float> numbers(int64_t count, float scale = 1) {
  std::vector<float> list(static_cast<size_t>(count));
  for (size_t i = 0; i < list.size(); ++i) list[i] = scale * float(int(i * 7 % 23) - 11);
  return list;
}

/// The parameter: is it HIP?
class GpuGraphs : public testing::TestWithParam<bool> {
protected:
  GpuGraphs() : fake_(GetParam()) {
    for (const device::FakeGpu* fake : {&fake_, &other_}) {
      setenv(fake->vendor.driver_setting, fake->path.c_str(), 1);
      setenv(fake->vendor.compiler_setting, fake->path.c_str(), 1);
    }
  }
  void SetUp() override {
    if (std::system("command -v c++ > /dev/null 2>&1") != 0) GTEST_SKIP() << "there is no C++ compiler";
  }
  std::string name() const { return fake_.vendor.language; }
  static void execute(Graph& g) {
    g.compile({.cache = false});
    g.execute();
  }
  /// How often the line stands in a log.
  static int count(const std::string& log, const std::string& line) {
    int found = 0;
    for (size_t at = 0; (at = log.find(line + "\n", at)) != std::string::npos; ++at)
      found += at == 0 || log[at - 1] == '\n';
    return found;
  }
  /// `make` builds, runs and reads; it has the same values on both devices.
  template <class Make> void same_on_both(const Make& make) const {
    Graph here("cpu"), there(name());
    const std::vector<std::vector<float>> expected = make(here), got = make(there);
    ASSERT_EQ(got.size(), expected.size());
    for (size_t i = 0; i < got.size(); ++i) {
      ASSERT_EQ(got[i].size(), expected[i].size());
      for (size_t k = 0; k < got[i].size(); ++k)
        ASSERT_LE(std::abs(got[i][k] - expected[i][k]), 1e-5f * (1 + std::abs(expected[i][k])))
            << "value " << i << ", element " << k;
    }
  }

  const device::FakeGpu fake_;
  const device::FakeGpu other_{!GetParam()};
};

TEST_P(GpuGraphs, ValuesGoInAndComeOut) {
  same_on_both([](Graph& g) {
    Tensor x = g.tensor({3, 5}, DType::f32, "x"), w = g.weight("w", {5}), s = g.state("s", {3, 5});
    Tensor y = (x * w + g.constant(std::vector<float>{1, 2, 3}, {3, 1})).keep(), z = y.sum({1}).keep();
    g.update(s, s + y);
    x.set(numbers(15));
    w.set(numbers(5, 0.5f));
    s.set(numbers(15, 100));
    execute(g);
    std::vector<std::vector<float>> values = {y.data<float>(), z.data<float>(), s.data<float>(),
                                              x.data<float>(), w.data<float>()};
    const auto bytes = y.bytes(); // stays readable beside other values
    const auto others = z.bytes();
    const auto* first = reinterpret_cast<const float*>(bytes.data());
    values.push_back({first, first + bytes.size() / 4});
    values.push_back({float(others.size())});
    x.set(numbers(15, 3)); // again, with a state that went on
    w.set(numbers(5, 2));
    g.execute();
    values.push_back(y.data<float>());
    values.push_back(s.data<float>());
    g.reset_states();
    values.push_back(s.data<float>());
    return values;
  });
}

TEST_P(GpuGraphs, LoopsAndBranchesAskTheHost) {
  same_on_both([](Graph& g) {
    Tensor x = g.tensor({4}), p = g.tensor({}, DType::boolean);
    const auto loop =
        g.loop(3, {x}, {}, {}, [](Graph&, Tensor step, const auto& carried, const auto&, const auto&) {
          const Tensor next = carried[0] * 2 + step.cast(DType::f32);
          return Graph::LoopResult{{next}, {next.sum({0})}};
        });
    const auto whiles = g.while_loop(
        20, {x}, {}, [](Graph&, const auto& carried, const auto&) { return carried[0].max(0) < 100; },
        [](Graph&, Tensor, const auto& carried, const auto&) { return std::vector{carried[0] * 3 + 1}; });
    const auto branch = g.cond(
        p, {x}, [](Graph&, const auto& in) { return std::vector{in[0] + 10}; },
        [](Graph&, const auto& in) { return std::vector{in[0] - 10}; });
    Tensor a = Tensor(loop.carried[0]).keep(), b = Tensor(loop.stacked[0]).keep(),
           c = Tensor(whiles.carried[0]).keep(), steps = Tensor(whiles.steps.cast(DType::f32)).keep(),
           d = Tensor(branch[0]).keep();
    std::vector<std::vector<float>> values;
    for (const bool holds : {true, false}) {
      x.set({1, 2, 3, holds ? 4 : -4});
      p.set(holds);
      execute(g);
      for (const Tensor& t : {a, b, c, steps, d}) values.push_back(t.data<float>());
    }
    return values;
  });
}

TEST_P(GpuGraphs, FunctionsOfTheHostSeeTheirOperandsOnly) {
  const std::string function = "gpu_graphs_reverse_" + name();
  register_host(function, [](std::span<const HostArray> in) {
    HostArray out = HostArray::zeros(in[0].dtype, in[0].shape);
    for (int64_t i = 0; i < out.count(); ++i) out.put(i, in[0].at(out.count() - 1 - i) + in[1].at(0));
    return std::vector{out};
  });
  same_on_both([&](Graph& g) {
    Tensor x = g.tensor({40}), s = g.state("s", {40}), large = g.tensor({50000});
    Tensor twice = x * 2;
    Tensor y = host_call(function, {twice, large.sum({0}).reshape({1})}, {{DType::f32, {40}}})[0];
    g.update(s, s + y);
    Tensor z = (y * y).keep(), more = (large * 3).keep();
    x.set(numbers(40));
    large.set(numbers(50000));
    execute(g);
    (void)fake_.log();
    g.execute();
    return std::vector{z.data<float>(), s.data<float>(), more.data<float>()};
  });
  const std::string log = fake_.log();
  EXPECT_EQ(count(log, "out 160"), 3) << "the operand, and data() of two values\n" << log;
  EXPECT_EQ(count(log, "in 160"), 2) << "the input, and the result\n" << log;
  EXPECT_EQ(count(log, "out 4"), 1) << log;
  EXPECT_EQ(count(log, "out 200000"), 1) << "only data() reads it\n" << log;
}

TEST_P(GpuGraphs, IndicesAreChecked) {
  Graph g(name());
  Tensor table = g.tensor({6, 3}), ids = g.tensor({4}, DType::i64, "ids");
  Tensor computed = g.tensor({4}, DType::i64), y = table.index_select(0, ids).keep(),
         z = table.index_select(0, computed * 2).keep();
  table.set(numbers(18));
  ids.set({5, 0, 3, 3});
  computed.set({0, 1, 2, 1});
  execute(g);
  EXPECT_EQ(y.data<float>()[0], numbers(18)[15]);
  EXPECT_EQ(z.data<float>()[5], numbers(18)[8]);
  const auto error = [&] {
    try {
      g.execute();
    } catch (const Error& e) {
      return std::string(e.what());
    }
    return std::string("none");
  };
  ids.set({0, 1, 6, 0});
  EXPECT_THAT(error(), HasSubstr("element 2 is 6, allowed are 0..5"));
  ids.set({0, 1, 2, 0});
  computed.set({0, 1, 2, -1});
  EXPECT_THAT(error(), HasSubstr("element 3 is -2, allowed are 0..5"));
}

/// A step of generation writes its tokens into the cache; nothing as large as the cache moves.
TEST_P(GpuGraphs, CachesStayWhereTheyAre) {
  Graph g(name());
  constexpr int64_t room = 256, width = 64;
  Tensor cache = g.state("cache", {room, width}), x = g.tensor({1, width}), at = g.tensor({1}, DType::i64);
  const Tensor next = index_copy(cache, 0, at, x);
  g.update(cache, next);
  Tensor sum = next.sum({0}).keep();
  std::vector<float> expected(width, 0);
  g.compile({.cache = false});
  for (int64_t step = 0; step < 3; ++step) {
    const std::vector<float> row = numbers(width, float(step + 1));
    x.set(row);
    at.set({step * 7});
    if (step == 1) (void)fake_.log();
    g.execute();
    for (size_t i = 0; i < row.size(); ++i) expected[i] += row[i];
    EXPECT_EQ(sum.data<float>(), expected);
  }
  const std::string log = fake_.log();
  for (const char* way : {"in", "out", "copy"})
    EXPECT_THAT(log, Not(HasSubstr(fmt::format("{} {}\n", way, room * width * 4)))) << log;
  EXPECT_EQ(cache.data<float>()[size_t(14 * width)], numbers(width, 3)[0]);
  EXPECT_EQ(count(fake_.log(), fmt::format("out {}", room * width * 4)), 1) << "reading it is a copy";
}

TEST_P(GpuGraphs, WeightsGoThereOnce) {
  Graph g(name());
  Tensor x = g.tensor({1, 128}), w = g.weight("w", {128, 96});
  Tensor y = x.matmul(w).keep();
  const std::vector<float> values = numbers(128 * 96);
  w.set(values);
  x.set(numbers(128));
  (void)fake_.log();
  execute(g);
  for (int i = 0; i < 3; ++i) {
    x.set(numbers(128, float(i)));
    g.execute();
  }
  EXPECT_EQ(count(fake_.log(), fmt::format("in {}", 128 * 96 * 4)), 1);
  double sum = 0;
  for (size_t k = 0; k < 128; ++k) sum += double(numbers(128, 2)[k]) * double(values[k * 96 + 5]);
  EXPECT_NEAR(y.data<float>()[5], sum, 1e-3);
}

constexpr int64_t big = 1 << 15; // f32: 128 KiB, handed over without a copy

TEST_P(GpuGraphs, ValuesAreHandedOverOnTheDevice) {
  Graph g(name());
  Tensor x = g.tensor({big}), y = (x + 1).keep(), s = g.state("s", {2}), small = x.slice(0, 0, 2).keep();
  g.update(s, s * 2);
  x.set(std::vector<float>(big, 0));
  execute(g);
  (void)fake_.log();
  for (int step = 0; step < 3; ++step) {
    transfer(y, x);
    g.execute();
  }
  transfer(small, s);
  const std::string log = fake_.log();
  for (const char* way : {"in", "out", "copy"})
    EXPECT_THAT(log, Not(HasSubstr(fmt::format("{} {}\n", way, big * 4)))) << log;
  EXPECT_EQ(y.data<float>()[big - 1], 4);
  EXPECT_THAT(s.data<float>(), ElementsAre(3, 3));
  g.execute();
  EXPECT_THAT(s.data<float>(), ElementsAre(6, 6));
}

TEST_P(GpuGraphs, ValuesMoveFromDeviceToDevice) {
  Graph first(name()), second("cpu"), third(other_.vendor.language);
  Tensor x = first.tensor({big}), y = (x * 2).keep();
  Tensor s = second.state("s", {big}), doubled = (s * 2).keep();
  Tensor w = third.weight("w", {big}), t = third.state("t", {big}), sum = (w + t).keep();
  x.set(std::vector<float>(big, 1));
  execute(first);
  transfer(y, s); // to the processor
  execute(second);
  EXPECT_EQ(doubled.data<float>()[big - 1], 4);
  t.set(std::vector<float>(big, 0.5f));
  transfer(doubled, w); // from there to another vendor's
  execute(third);
  EXPECT_EQ(sum.data<float>()[7], 4.5f);
  first.execute();
  transfer(y, t); // from device to device
  third.execute();
  EXPECT_EQ(sum.data<float>()[7], 6);
  transfer(sum, x); // and back
  first.execute();
  EXPECT_EQ(y.data<float>()[big - 1], 12);
  swap_values(x, w);
  third.execute();
  first.execute();
  EXPECT_EQ(sum.data<float>()[1], 8); // 6 + 2
  EXPECT_EQ(y.data<float>()[1], 8);
}

TEST_P(GpuGraphs, RunnersCopyForTheirCaller) {
  Graph g(name());
  const Dim n = g.dim("n", 1, 30000);
  Tensor x = g.tensor({n}), y = x * 3, z = y.sum({0});
  Runner runner(g, {"n"}, {x}, {y, z});
  for (const int64_t size : {4, 30000, 17}) {
    const std::vector<float> in = numbers(size);
    std::vector<float> out(in.size());
    float sum = -1, expected = 0;
    const int64_t sizes[] = {size};
    const void* const inputs[] = {in.data()};
    void* const outputs[] = {out.data(), &sum};
    runner.run(sizes, inputs, outputs);
    for (size_t i = 0; i < in.size(); ++i) {
      expected += 3 * in[i];
      ASSERT_EQ(out[i], 3 * in[i]);
    }
    EXPECT_NEAR(sum, expected, 1e-2);
  }
}

TEST_P(GpuGraphs, ATrainingStepIsThatOfTheProcessor) {
  if (GetParam()) GTEST_SKIP() << "one language is enough: its kernels take long to compile";
  const std::string file =
      (std::filesystem::temp_directory_path() / fmt::format("gpu_graphs_{}.safetensors", getpid())).string();
  same_on_both([&](Graph& g) {
    Tensor x = g.tensor({8, 4}), target = g.tensor({8, 1});
    Tensor w1 = g.state("w1", {4, 6}), w2 = g.state("w2", {6, 1});
    const Tensor wrong = x.matmul(w1).tanh().matmul(w2) - target;
    Tensor loss = (wrong * wrong).mean({0, 1}).keep();
    w1.set(numbers(24, 0.05f));
    w2.set(numbers(6, 0.05f));
    Optimizer step = adam(g, 0.05);
    step.update({w1, w2}, gradients(loss, {w1, w2}));
    x.set(numbers(32, 0.1f));
    target.set(numbers(8, 0.1f));
    g.compile({.cache = false});
    std::vector<std::vector<float>> values;
    for (int i = 0; i < 4; ++i) {
      g.execute();
      values.push_back(loss.data<float>());
    }
    EXPECT_LT(values[3][0], values[0][0]);
    values.push_back(w1.data<float>());
    values.push_back(w2.data<float>());
    save(g, file, {.states = true}); // a checkpoint holds what the device has
    w1.set(std::vector<float>(24, 0));
    load({{"w1", w1}}, file, {.strict = false});
    g.execute();
    values.push_back(loss.data<float>());
    return values;
  });
  std::filesystem::remove(file);
}

INSTANTIATE_TEST_SUITE_P(All, GpuGraphs, testing::Bool(),
                         [](const auto& test) { return test.param ? "hip" : "cuda"; });

} // namespace
} // namespace luminal
