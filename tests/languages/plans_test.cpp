// languages/plans_test.cpp -- whole plans on the OpenCL device, and on those of CUDA and HIP whose drivers
// run kernels on the processor (device/fake): random modules with all that terms have, against the bounded
// interpreter. LUMINAL_RANDOM_SEEDS=FIRST:COUNT runs other seeds.
#include "backend/plans.h"
#include "device/fake_gpus.h"
#include "device/known_devices.h"
#include "device/opencl/opencl_device.h"
#include "ir/random_module.h"
#include "support/seeds.h"
#include <filesystem>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <unistd.h>

namespace luminal::plans_test {
namespace {

/// Functions of the host as the program registered them; what is printed is not looked at.
Result<void> host_function(const HostAttr& effect, std::span<const runtime::HostValue> inputs,
                           std::span<runtime::HostValue> results) {
  const HostFunction* function = find_host_function(effect.kind);
  if (!function) return {};
  std::vector<HostTensor> values;
  for (const runtime::HostValue& input : inputs)
    values.push_back({input.dtype, input.shape, {input.bytes.begin(), input.bytes.end()}});
  const std::vector<HostTensor> made = (*function)(effect.text, values);
  for (size_t i = 0; i < made.size(); i++) std::ranges::copy(made[i].data, results[i].bytes.begin());
  return {};
}

/// A module compiled for a device and loaded there, with one context.
class OnDevice {
public:
  OnDevice(const std::string& name, const Module& module, const Pass& passes = passes::defaults())
      : device_(device::make_known_device(name).value()) {
    compile::Options options = compile::Options::for_device(name, 1);
    options.cache = false;
    options.passes = passes;
    auto compiled = compile::compile(module, options);
    if (!compiled) throw Error(compiled.error());
    auto loaded = runtime::Executable::load(compiled->plan, *device_);
    if (!loaded) throw Error(loaded.error());
    executable_ = *loaded;
  }
  runtime::Store& store() { return *store_; }
  const runtime::Plan& plan() const { return executable_->plan(); }
  std::unique_ptr<runtime::Context> start(const Module& module, const Bindings& bindings) {
    const auto role_of = [&](const std::string& name) {
      for (NodeId id : module.entry().params)
        if (const auto& input = std::get<InputAttr>(module.entry()[id].attr); input.name == name)
          return input.role;
      return Role::argument;
    };
    for (const auto& [name, value] : bindings.inputs)
      if (role_of(name) == Role::weight) store_->borrow_weight(name, value.data, nullptr);
    auto context = runtime::Context::create(executable_, store_, {.host = host_function}).value();
    for (const auto& [name, value] : bindings.symbols) context->set_symbol(name, value).value();
    for (const auto& [name, value] : bindings.inputs) {
      if (role_of(name) == Role::argument) context->bind_argument(name, value.data).value();
      if (role_of(name) == Role::state) context->set_state(name, value.data).value();
    }
    return context;
  }

private:
  std::unique_ptr<device::Device> device_;
  std::shared_ptr<runtime::Store> store_ = std::make_shared<runtime::Store>(*device_);
  std::shared_ptr<const runtime::Executable> executable_;
};

constexpr const char* product =
    "fn @main(%x: f32[m, 20], weight %w: f32[20, 30]) {\n"
    "  %a = view %x [i: m, j: 30, k: 20] -> [i, k]\n  %b = view %w [i: m, j: 30, k: 20] -> [k, j]\n"
    "  %p = mul %a, %b\n  %f = fold [i: m, j: 30, k: 20] over [k] { sum %p[i, j, k] }\n  %c = get %f, 0\n"
    "  %y = tanh %c\n  return y = %y\n}\n";

void random_modules(const std::string& device, uint64_t first_seed, uint64_t usual_count) {
  const auto [first, count, own] = test::seeds(first_seed, usual_count);
  int64_t compared = 0;
  for (uint64_t seed = first; seed < first + count; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    testing_ir::RandomModule random(seed, {});
    const Bindings bindings = random.bindings(0);
    try {
      OnDevice running(device, random.module);
      auto context = running.start(random.module, bindings);
      const auto done = context->run();
      ASSERT_TRUE(done.ok()) << done.error();
      expect_interpreted(random.module, bindings, *context, compared);
    } catch (const Error& error) {
      // (Functions of doubles that a device lacks are refused by name.)
      EXPECT_THAT(error.what(),
                  testing::AllOf(testing::HasSubstr(device + " has no "), testing::HasSubstr(" of f64")));
    }
    if (testing::Test::HasFatalFailure()) return;
  }
  EXPECT_GT(compared, int64_t(count));
}

TEST(OpenClPlans, RandomModulesEqualTheInterpreter) {
  if (!device::make_opencl_device()) GTEST_SKIP() << device::make_opencl_device().error();
  random_modules("opencl", 0, 5);
}

/// Each kernel is compiled by the C++ compiler: few and small ones.
class GpuPlans : public testing::TestWithParam<bool> {};

TEST_P(GpuPlans, RandomModulesEqualTheInterpreter) {
  if (std::system("command -v c++ > /dev/null 2>&1") != 0) GTEST_SKIP() << "there is no C++ compiler";
  const device::FakeGpu fake(GetParam());
  const int before = fake.live(); // of devices that graphs of this process share
  setenv(fake.vendor.driver_setting, fake.path.c_str(), 1);
  setenv(fake.vendor.compiler_setting, fake.path.c_str(), 1);
  random_modules(fake.vendor.language, 0, 3);
  EXPECT_EQ(fake.live(), before) << "not everything was given back";
}
/// Memory of a device is taken when it is reserved: not for the largest sizes.
TEST_P(GpuPlans, PresentSizesTakeMemory) {
  if (std::system("command -v c++ > /dev/null 2>&1") != 0) GTEST_SKIP() << "there is no C++ compiler";
  const device::FakeGpu fake(GetParam());
  const int before = fake.live(); // of devices that graphs of this process share
  setenv(fake.vendor.driver_setting, fake.path.c_str(), 1);
  setenv(fake.vendor.compiler_setting, fake.path.c_str(), 1);
  const Module module = parse_module(R"(symbol S: 0..134217728
  fn @main(%x: f32[S]) {
    %y = neg %x
    %v = view %y [i: S, j: 2] -> [i]
    %f = fold [i: S] over [i] { sum %x[i] }
    %s = get %f, 0
    return y = %y, z = %v, s = %s
  })");
  {
    OnDevice running(fake.vendor.language, module); // 1 GiB, of which the results alone would take 1.5
    EXPECT_GT(running.plan().arena_bytes, int64_t(1) << 30);
    const auto inputs = [](int64_t size) {
      std::vector<double> numbers(static_cast<size_t>(size));
      for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = double(i % 17);
      return Bindings{.inputs = {{"x", host_tensor(DType::f32, {size}, numbers)}}, .symbols = {{"S", size}}};
    };
    const Bindings first = inputs(3);
    auto context = running.start(module, first);
    for (const int64_t size : {3, 40000, 5}) {
      const Bindings bindings = inputs(size);
      ASSERT_TRUE(context->set_symbol("S", size));
      ASSERT_TRUE(context->bind_argument("x", bindings.inputs.at("x").data));
      const auto done = context->run();
      ASSERT_TRUE(done.ok()) << done.error();
      int64_t compared = 0;
      expect_interpreted(module, bindings, *context, compared);
      EXPECT_EQ(compared, 3 * size + 1);
    }
    ASSERT_TRUE(context->set_symbol("S", 134217728));
    const auto refused = context->run();
    ASSERT_FALSE(refused);
    EXPECT_THAT(refused.error(), testing::HasSubstr("this machine has 1.0 GiB"));
    auto argument = running.start(module, first); // filled in place, before the size is known
    ASSERT_TRUE(argument->set_symbol("S", 2));
    std::ranges::fill(argument->argument("x").value(), std::byte{0});
    ASSERT_TRUE(argument->set_symbol("S", 6));
    ASSERT_TRUE(argument->run());
    EXPECT_EQ(argument->result("z").value().bytes.size(), 48u);
  }
  EXPECT_EQ(fake.live(), before) << "not everything was given back";
}

/// What was computed from weights comes from a file at the next start, by copies both ways.
TEST_P(GpuPlans, LoadedValuesAreKeptInAFile) {
  if (std::system("command -v c++ > /dev/null 2>&1") != 0) GTEST_SKIP() << "there is no C++ compiler";
  const device::FakeGpu fake(GetParam());
  const int before = fake.live(); // of devices that graphs of this process share
  setenv(fake.vendor.driver_setting, fake.path.c_str(), 1);
  setenv(fake.vendor.compiler_setting, fake.path.c_str(), 1);
  const Module module = parse_module("fn @main(%x: f32[64, 64], weight %w: f32[64, 64]) {\n"
                                     "  %a = view %w [i: 64, j: 64] -> [j, i]\n  %b = fence %a\n"
                                     "  %y = add %x, %b\n  return y = %y\n}\n");
  std::vector<double> numbers(4096);
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = double(i % 101) - 50;
  const HostTensor values = host_tensor(DType::f32, {64, 64}, numbers);
  const Bindings bindings{.inputs = {{"x", values}, {"w", values}}};
  const std::string file =
      (std::filesystem::temp_directory_path() / fmt::format("gpu_plans_{}.values", getpid())).string();
  for (const bool there : {false, true}) {
    OnDevice running(fake.vendor.language, module);
    EXPECT_TRUE(std::ranges::any_of(running.plan().slots, [](const runtime::Slot& slot) {
      return slot.kind == runtime::SlotKind::loaded;
    }));
    EXPECT_EQ(running.store().keep_loaded_in(file, 1, 0).ok(), there);
    (void)fake.log();
    auto context = running.start(module, bindings);
    EXPECT_EQ(fake.log().find("launch") == std::string::npos, there) << "it was there, or it was computed";
    ASSERT_TRUE(context->run());
    int64_t compared = 0;
    expect_interpreted(module, bindings, *context, compared);
    EXPECT_EQ(compared, 4096);
  }
  std::filesystem::remove(file);
  EXPECT_EQ(fake.live(), before) << "not everything was given back";
}

INSTANTIATE_TEST_SUITE_P(All, GpuPlans, testing::Bool(),
                         [](const auto& test) { return test.param ? "hip" : "cuda"; });

TEST(GpuTexts, NullDevicesWriteTheText) {
  const Module module = parse_module(std::string("symbol m: 1..64\n") + product);
  for (const auto& [name, word] : {std::pair("null:cuda", "__global__"), {"null:hip", "amdgpu_flat"}}) {
    compile::Options options = compile::Options::for_device(name, 1);
    options.cache = false;
    const auto compiled = compile::compile(module, options);
    ASSERT_TRUE(compiled.ok()) << compiled.error();
    const auto& object = *compiled->plan->kernels.front().object;
    EXPECT_THAT(std::string(reinterpret_cast<const char*>(object.data()), object.size()),
                testing::HasSubstr(word));
  }
  EXPECT_EQ(device::make_known_device("null:cuda").error(),
            "the device null:cuda runs nothing: programs are compiled for it and not run");
}

TEST(OpenClPlans, NullDeviceWritesTheText) {
  const Module module = parse_module(std::string("symbol m: 1..64\n") + product);
  compile::Options options = compile::Options::for_device("null:opencl", 1);
  options.cache = false;
  const auto compiled = compile::compile(module, options);
  ASSERT_TRUE(compiled.ok()) << compiled.error();
  ASSERT_EQ(compiled->plan->kernels.size(), 1u);
  const auto& object = *compiled->plan->kernels.front().object;
  const std::string text(reinterpret_cast<const char*>(object.data()), object.size());
  EXPECT_THAT(text, testing::HasSubstr("__kernel"));
  EXPECT_THAT(text, testing::HasSubstr("lum_tanh_f32("));
  EXPECT_EQ(compiled->plan->kernels.front().threads.phases, 1);
}

} // namespace
} // namespace luminal::plans_test
