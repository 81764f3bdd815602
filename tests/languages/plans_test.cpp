// languages/plans_test.cpp -- whole plans on the OpenCL device, and on those of CUDA and HIP whose drivers
// run kernels on the processor (device/fake): random modules with all that terms have, against the bounded
// interpreter. LUMINAL_RANDOM_SEEDS=FIRST:COUNT runs other seeds.
#include "backend/plans.h"
#include "device/fake_gpus.h"
#include "device/known_devices.h"
#include "device/opencl/opencl_device.h"
#include "ir/random_module.h"
#include <cstdio>
#include <cstdlib>
#include <fmt/format.h>
#include <gmock/gmock.h>

namespace luminal {
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

/// The seeds of this run: a slice, or what the environment asks for.
std::pair<uint64_t, uint64_t> seeds(uint64_t first, uint64_t count) {
  if (const char* own = std::getenv("LUMINAL_RANDOM_SEEDS")) {
    unsigned long long a = 0, b = 0;
    if (std::sscanf(own, "%llu:%llu", &a, &b) == 2) return {a, b};
  }
  return {first, count};
}

constexpr const char* product =
    "fn @main(%x: f32[m, 20], weight %w: f32[20, 30]) {\n"
    "  %a = view %x [i: m, j: 30, k: 20] -> [i, k]\n  %b = view %w [i: m, j: 30, k: 20] -> [k, j]\n"
    "  %p = mul %a, %b\n  %f = fold [i: m, j: 30, k: 20] over [k] { sum %p[i, j, k] }\n  %c = get %f, 0\n"
    "  %y = tanh %c\n  return y = %y\n}\n";

void random_modules(const std::string& device, uint64_t first_seed, uint64_t usual_count) {
  const auto [first, count] = seeds(first_seed, usual_count);
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
      ADD_FAILURE() << error.what();
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
  setenv(fake.vendor.driver_setting, fake.path.c_str(), 1);
  setenv(fake.vendor.compiler_setting, fake.path.c_str(), 1);
  random_modules(fake.vendor.language, 0, 2);
  EXPECT_EQ(fake.live(), 0) << "not everything was given back";
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
    const auto& object = *compiled->plan->kernels[0].object;
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
  const auto& object = *compiled->plan->kernels[0].object;
  const std::string text(reinterpret_cast<const char*>(object.data()), object.size());
  EXPECT_THAT(text, testing::HasSubstr("__kernel"));
  EXPECT_THAT(text, testing::HasSubstr("lum_tanh_f32("));
  EXPECT_EQ(compiled->plan->kernels[0].threads.phases, 1);
}

} // namespace
} // namespace luminal
