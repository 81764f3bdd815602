// bench/loaded_plan.h -- a module compiled and loaded with random inputs, ready to be raced.
#pragma once
#include "base/thread_pool.h"
#include "compile/compile.h"
#include "device/cpu/cpu_device.h"
#include "harness.h"
#include "luminal/error.h"
#include "runtime/context.h"
#include <algorithm>
#include <cmath>
#include <cstring>
#include <fmt/format.h>
#include <utility>

namespace luminal::bench {

/// A plan with its inputs, ready to run.
struct LoadedPlan {
  std::vector<Array<float>> data; ///< of 4 bytes each, integers too
  std::unique_ptr<device::Device> device;
  std::shared_ptr<const runtime::Plan> plan;
  std::shared_ptr<runtime::Store> store;
  std::unique_ptr<runtime::Context> context;
  std::vector<compile::RegionReport> regions;
  int kernels = 0;         ///< launches of a step
  double stored_bytes = 0; ///< written by a step and no results

  double run() {
    return timed([&] {
      if (auto done = context->run(); !done) throw luminal::Error("bench", done.error());
    });
  }
};

/// The same values for the same name: floats about 0.3 x normal, small integers.
inline Array<float> values_of(const InputAttr& input, int64_t count) {
  const auto seed = unsigned(std::hash<std::string>()(input.name));
  auto data = random_floats(count, seed, 0.3F);
  std::mt19937 random(seed);
  if (!is_float(input.type.dtype))
    for (int64_t i = 0; i < count; i++) data[i] = std::bit_cast<float>(int32_t(random() % 256));
  return data;
}

template <class T> T value_or_error(Result<T> result) {
  if (!result) throw luminal::Error("bench", result.error());
  return std::move(*result);
}

/// One kernel for all results of the step.
inline compile::Partitioner in_one_kernel() {
  return [done = false](const Region& region) mutable -> Result<std::optional<Partition>> {
    if (std::exchange(done, true)) return std::optional<Partition>(); // values that are made at load
    return std::optional(Partition{{region.wanted}});
  };
}

/// `title`: not empty: the report is printed under it.
inline std::unique_ptr<LoadedPlan> load_plan(const Module& module, compile::Options options, ThreadPool& pool,
                                             const std::string& title = "") {
  options.cache = false;
  options.pool = &pool;
  const auto compiled = value_or_error(compile::compile(module, options));
  if (!title.empty()) fmt::print("# {}\n{}", title, compiled.report());
  auto made = std::make_unique<LoadedPlan>();
  made->plan = compiled.plan;
  made->regions = compiled.regions;
  made->device = device::make_cpu_device(pool);
  for (const auto& step : made->plan->steps) made->kernels += step.is<runtime::Launch>();
  for (const auto& slot : made->plan->slots)
    if (slot.kind == runtime::SlotKind::arena && !slot.pinned && slot.used)
      made->stored_bytes += double(slot.max_bytes);
  const auto executable = value_or_error(runtime::Executable::load(made->plan, *made->device));
  made->store = std::make_shared<runtime::Store>(*made->device);
  const auto elements_of = [](const TensorType& type) {
    int64_t count = 1;
    for (const Expr extent : type.shape) count *= extent.value();
    return count;
  };
  const Function& entry = module.entry();
  const auto each = [&](bool weights, const auto& give) {
    for (const NodeId id : entry.params) {
      const auto& input = std::get<InputAttr>(entry[id].attr);
      if ((input.role == Role::weight) != weights) continue;
      made->data.push_back(values_of(input, elements_of(input.type)));
      give(input.name,
           std::as_writable_bytes(std::span(made->data.back().data(), size_t(made->data.back().size()))));
    }
  };
  each(true, [&](const std::string& name, std::span<std::byte> data) {
    made->store->borrow_weight(name, data, nullptr);
  });
  made->context = value_or_error(runtime::Context::create(executable, made->store));
  each(false, [&](const std::string& name, std::span<std::byte> data) {
    if (auto bound = made->context->bind_argument(name, data); !bound)
      throw luminal::Error("bench", bound.error());
  });
  made->run();
  return made;
}

/// The largest difference of the results, relative to the largest of them.
inline double difference(LoadedPlan& a, LoadedPlan& b) {
  double apart = 0, largest = 0;
  for (const auto& result : a.plan->results) {
    const auto x = value_or_error(a.context->result(result.name)),
               y = value_or_error(b.context->result(result.name));
    for (int64_t i = 0; i < int64_t(x.bytes.size() / 4); i++) {
      const double p = load_f64(x.dtype, x.bytes.data(), i), q = load_f64(y.dtype, y.bytes.data(), i);
      if (!(std::abs(p - q) < INFINITY)) return INFINITY;
      apart = std::max(apart, std::abs(p - q)), largest = std::max(largest, std::abs(p));
    }
  }
  return largest > 0 ? apart / largest : apart;
}

} // namespace luminal::bench
