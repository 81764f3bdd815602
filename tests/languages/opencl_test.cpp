// languages/opencl_test.cpp -- OpenCL C run by the driver that is installed: every row of the op table
// and every cast on every type, barriers, groups, scratch, lanes.
#include "codegen/c_like/c_like.h"
#include "device/opencl/opencl_device.h"
#include "loop/loop_interp.h"
#include "rows.h"
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace luminal {
namespace {
using namespace luminal::languages;

/// Programs are compiled anew in each run: a clash of libraries shows with an empty cache only.
class EmptyCache {
public:
  EmptyCache() {
    if (mkdtemp(folder_)) setenv("POCL_CACHE_DIR", folder_, 1);
  }
  ~EmptyCache() { std::filesystem::remove_all(folder_); }

private:
  char folder_[32] = "/tmp/luminal-pocl-XXXXXX";
};
const EmptyCache empty_cache;

device::Device* opencl() {
  static const Result<std::unique_ptr<device::Device>> device = device::make_opencl_device();
  return device ? device->get() : nullptr;
}
#define NEEDS_OPENCL()                                                                                       \
  if (!opencl()) GTEST_SKIP() << device::make_opencl_device().error()

/// Runs the kernel's text; the arguments hold the results.
void run(const kernel::Kernel& k, std::vector<Bytes>& arguments, const std::vector<int64_t>& symbols,
         int workers = 0, int lanes = 64) {
  const auto emitted =
      codegen::emit_c_like(k, *codegen::find_dialect("opencl"), {.lanes = lanes, .entry = k.name});
  ASSERT_TRUE(emitted.ok()) << emitted.error();
  SCOPED_TRACE(emitted->text);
  device::Device& device = *opencl();
  const device::Code code{std::as_bytes(std::span(emitted->text)),
                          k.name,
                          {.lanes = emitted->lanes,
                           .phases = int(emitted->phases.size()),
                           .grouped = emitted->grouped,
                           .one_group = emitted->one_group,
                           .shared = !emitted->shared_bytes.is_constant(0)}};
  const auto loaded = device.load({&code, 1});
  ASSERT_TRUE(loaded.ok()) << loaded.error();
  ExprMap<int64_t> bound;
  for (size_t i = 0; i < symbols.size(); ++i) bound[k.symbols[i]] = symbols[i];
  std::vector<device::Memory> memory;
  std::vector<void*> addresses;
  const auto take = [&](size_t bytes) {
    memory.push_back(device.allocate(int64_t(bytes) + 64).value());
    return memory.back().data;
  };
  for (const Bytes& b : arguments) {
    addresses.push_back(take(b.size()));
    ASSERT_TRUE(device.copy_in(memory.back().data, b).ok());
  }
  device::LaunchArguments launch;
  launch.buffers = addresses;
  launch.symbols = symbols;
  launch.shared = static_cast<char*>(take(size_t(evaluate(emitted->shared_bytes, bound).value())));
  launch.workers = workers;
  const auto started = device.launch(loaded->kernels[0], launch);
  ASSERT_TRUE(started.ok()) << started.error();
  for (size_t i = 0; i < arguments.size(); ++i)
    ASSERT_TRUE(device.copy_out(arguments[i], memory[i].data).ok());
  for (const device::Memory& m : memory) device.free(m);
  device.unload(loaded->module);
}

class OpenClTypes : public testing::TestWithParam<int> {};

TEST_P(OpenClTypes, EveryRowEqualsTheTable) {
  NEEDS_OPENCL();
  const auto type = DType(GetParam());
  const Case tested = rows_case(type);
  ASSERT_THAT(verify(tested.kernel), testing::IsEmpty());
  std::vector<Bytes> got = tested.arguments;
  run(tested.kernel, got, tested.symbols);
  EXPECT_EQ(mistakes(tested, got), "");
}
TEST_P(OpenClTypes, EveryCastEqualsTheInterpreter) {
  NEEDS_OPENCL();
  const Case tested = casts_case(DType(GetParam()), [](DType) { return true; });
  ASSERT_THAT(verify(tested.kernel), testing::IsEmpty());
  std::vector<Bytes> got = tested.arguments;
  run(tested.kernel, got, tested.symbols);
  EXPECT_EQ(mistakes(tested, got), "");
}
INSTANTIATE_TEST_SUITE_P(Types, OpenClTypes, testing::Range(0, dtype_count),
                         [](const auto& test) { return std::string(to_string(DType(test.param))); });

/// Text, sizes of arguments (floats), symbols: equal to the interpreter of loops.
struct Written {
  const char* name;
  const char* text;
  std::vector<size_t> sizes;
  std::vector<int64_t> symbols;
  int lanes = 8;
};
std::ostream& operator<<(std::ostream& stream, const Written& w) { return stream << w.name; }
class OpenClKernels : public testing::TestWithParam<Written> {};

TEST_P(OpenClKernels, EqualTheInterpreter) {
  NEEDS_OPENCL();
  const Written& w = GetParam();
  const kernel::Kernel k = kernel::parse_kernel(w.text);
  ASSERT_THAT(verify(k), testing::IsEmpty());
  std::vector<Bytes> arguments;
  std::mt19937_64 random(7);
  for (const size_t size : w.sizes) {
    std::vector<float> values(size);
    for (float& v : values) v = float(int64_t(random() % 2048) - 1024) / 256;
    arguments.emplace_back(size * 4);
    std::memcpy(arguments.back().data(), values.data(), size * 4);
  }
  std::vector<Bytes> want = arguments;
  std::vector<std::span<std::byte>> spans(want.begin(), want.end());
  kernel::LoopRunOptions options;
  options.workers = 3;
  options.lanes = std::string_view(w.text).find("level 1") != std::string_view::npos ? w.lanes : 1;
  const kernel::LoopRun judged = kernel::run_kernel(k, spans, w.symbols, options);
  ASSERT_TRUE(judged.ok()) << judged.text();
  for (const int workers : {1, 0}) {
    std::vector<Bytes> got = arguments;
    run(k, got, w.symbols, workers, w.lanes);
    for (size_t i = 0; i < got.size(); ++i)
      EXPECT_EQ(first_mistake({k.buffers[kernel::BufferId(i)].name, i, DType::f32, 0, int64_t(w.sizes[i])},
                              got[i], want[i]),
                "");
  }
}
INSTANTIATE_TEST_SUITE_P(
    Texts, OpenClKernels,
    testing::Values(
        Written{"phases",
                "kernel k(x: f32[n] in, y: f32[n] out; n: 1..4096)\n  shared t: f32[n]\n  parallel i in "
                "0..n\n    t[i] = x[i] * 10\n"
                "  barrier\n  parallel o in 0..n\n    y[o] = t[n - 1 - o]\n",
                {300, 300},
                {300}},
        Written{"deep_barrier",
                "kernel k(x: f32[n] in, y: f32[n] inout; n: 1..4096)\n  for s in 0..3\n    parallel i in "
                "0..n\n      y[i] = y[i] + x[i]\n    barrier\n",
                {300, 300},
                {300}},
        Written{"groups",
                "kernel k(x: f32[8*n] in, y: f32[n] out; n: 1..64)\n  group t: f32[8]\n  parallel b in "
                "0..n\n    parallel l in 0..8 level 1\n      t[l] = x[8*b + l]\n"
                "    barrier level 1\n    parallel w in 0..1 level 1\n      y[b] = t[0] + t[1] + t[2] + t[3] "
                "+ t[4] + t[5] + t[6] + t[7]\n    barrier level 1\n",
                {8 * 37, 37},
                {37}},
        Written{"lanes_apart",
                "kernel k(x: f32[n] in, y: f32[n] out; n: 1..4096)\n  parallel io in 0..ceildiv(n, 16)\n    "
                "vector il in 0..16 masked n - 16*io\n      let %0 = x[16*io + il]\n      y[16*io + il] = "
                "fma(%0, %0, floor(%0))\n",
                {301, 301},
                {301}},
        Written{"lanes_together",
                "kernel k(x: f32[n] in, y: f32[n] out; n: 1..4096)\n  parallel io in 0..ceildiv(n, 16)\n    "
                "vector il in 0..16 masked n - 16*io\n      let %0 = x[16*io + il]\n"
                "      let %1 = reduce_lanes<max>(%0)\n      if 16*io + il < 20\n        y[16*io + il] = %0 "
                "- %1\n      else\n        y[16*io + il] = reduce_lanes<add>(%0 * 2)\n",
                {301, 301},
                {301}},
        Written{
            "registers",
            "kernel k(x: f32[16*n] in, y: f32[n] out; n: 1..64)\n  registers acc: f32[4]\n  parallel i in "
            "0..n\n    unrolled u in 0..4\n      acc[u] = 0.0\n    for k in 0..4\n      unrolled v in 0..4\n"
            "        acc[v] = acc[v] + x[16*i + 4*k + v]\n    y[i] = acc[0] + acc[1] + (acc[2] + acc[3])\n",
            {16 * 33, 33},
            {33}},
        Written{"copies",
                "kernel k(x: f32[4*n] in, y: f32[4*n] out; n: 1..64)\n  parallel p in 0..1\n    for t in "
                "0..n\n      for i in 0..4\n        y[4*t + i] = x[4*t + i where 4*t + i < 9] + 1\n",
                {4 * 5, 4 * 5},
                {5}}),
    [](const auto& test) { return std::string(test.param.name); });

/// Neighbouring threads write the halves of one byte.
TEST(OpenCl, FourBitElements) {
  NEEDS_OPENCL();
  const kernel::Kernel k = kernel::parse_kernel(
      "kernel k(x: i4[1000] in, y: i4[1000] out)\n  parallel i in 0..1000\n    y[i] = x[999 - i] + i4(3)\n");
  std::vector<Bytes> arguments{drawn(DType::i4, 1000, 0, 0, 3), Bytes(500)};
  run(k, arguments, {});
  for (int64_t i = 0; i < 1000; ++i)
    ASSERT_EQ(load_i64(DType::i4, arguments[1].data(), i),
              wrap(DType::i4, load_i64(DType::i4, arguments[0].data(), 999 - i) + 3))
        << i;
}

/// What the language lacks is refused by name.
TEST(OpenCl, RefusesByName) {
  const auto error = [](const std::string& text) {
    const auto emitted =
        codegen::emit_c_like(kernel::parse_kernel(text), *codegen::find_dialect("opencl"), {.f64 = false});
    return emitted ? std::string("nothing") : emitted.error();
  };
  EXPECT_EQ(error("kernel k(x: f64[4] out)\n  parallel i in 0..4\n    x[i] = f64(0)\n"),
            "kernel k: the device has no f64, which the buffer x holds");
  EXPECT_EQ(
      error("kernel k(x: f32[4] inout)\n  tensor_memory t: f32[4]\n  parallel i in 0..4\n    x[i] = 1.0\n"),
      "kernel k: tensor memory: opencl has none");
  EXPECT_EQ(
      error(
          "kernel k(x: f32[4] inout)\n  group t: f32[40000]\n  parallel i in 0..4 level 1\n    x[i] = 1.0\n"),
      "kernel k: a group takes 160000 bytes of memory, opencl has 32768");
}

} // namespace
} // namespace luminal
