// backend/plans.h -- running the plans of modules, beside the interpreter.
#pragma once
#include "base/thread_pool.h"
#include "compile/compile.h"
#include "device/cpu/cpu_device.h"
#include "ir/interp.h"
#include "runtime/context.h"
#include "runtime/plan_bytes.h"
#include <cmath>
#include <cstring>
#include <gtest/gtest.h>

namespace luminal {

/// A module compiled and loaded, with one context.
struct Running {
  /// Compiled for so many threads; run by as many workers, or by others.
  explicit Running(const Module& module, int threads = 1, int workers = 0,
                   const Pass& passes = passes::defaults(), compile::Partitioner partitioner = {},
                   compile::RuleOptions rules = {})
      : pool(workers > 0 ? workers : threads), device(device::make_cpu_device(pool)),
        store(std::make_shared<runtime::Store>(*device)) {
    compile::Options options = compile::Options::host(threads);
    options.cache = false;
    options.passes = passes;
    options.partitioner = std::move(partitioner);
    options.rules = std::move(rules);
    auto compiled = compile::compile(module, options);
    if (!compiled) throw Error(compiled.error());
    plan = compiled->plan;
    static int made = 0;
    if (made++ % 2 == 1) plan = read_again(*plan);
    executable = runtime::Executable::load(plan, *device).value();
    report = compiled->report();
  }
  /// As a later run reads it from the cache of plans.
  static std::shared_ptr<const runtime::Plan> read_again(const runtime::Plan& plan) {
    const auto bytes = runtime::to_bytes(plan);
    if (!bytes) return std::make_shared<runtime::Plan>(plan); // it calls functions of the host
    auto read = runtime::plan_of_bytes(*bytes);
    if (!read) throw Error(read.error());
    EXPECT_EQ(runtime::to_string(*read), runtime::to_string(plan));
    EXPECT_TRUE(runtime::to_bytes(*read) == bytes);
    return std::make_shared<runtime::Plan>(std::move(*read));
  }

  /// Inputs of every role; symbols.
  std::unique_ptr<runtime::Context> start(const Module& module, const Bindings& bindings,
                                          const runtime::ContextOptions& options = {}) {
    auto role_of = [&](const std::string& name) {
      for (NodeId id : module.entry().params)
        if (std::get<InputAttr>(module.entry()[id].attr).name == name)
          return std::get<InputAttr>(module.entry()[id].attr).role;
      return Role::argument;
    };
    for (const auto& [name, value] : bindings.inputs)
      if (role_of(name) == Role::weight) store->copy_weight(name, value.data).value();
    auto context = runtime::Context::create(executable, store, options).value();
    for (const auto& [name, value] : bindings.symbols) context->set_symbol(name, value).value();
    for (const auto& [name, value] : bindings.inputs) {
      if (role_of(name) == Role::argument) {
        auto memory = context->argument(name).value();
        EXPECT_EQ(memory.size(), value.data.size());
        std::memcpy(memory.data(), value.data.data(), value.data.size());
      } else if (role_of(name) == Role::state) {
        auto memory = context->state(name).value();
        std::memcpy(memory.bytes.data(), value.data.data(), value.data.size());
      }
    }
    return context;
  }

  ThreadPool pool;
  std::unique_ptr<device::CpuDevice> device;
  std::shared_ptr<runtime::Store> store;
  std::shared_ptr<const runtime::Executable> executable;
  std::shared_ptr<const runtime::Plan> plan;
  std::string report;
};

/// Every result lies within the bound that rounding gives; integers without a bound are equal.
inline void expect_interpreted(const Module& module, const Bindings& bindings, runtime::Context& context,
                               int64_t& compared) {
  Interpreter judge(module, bindings, InterpMode::bounded);
  for (const FunctionResult& r : module.entry().results) {
    auto want = judge.values(r.name);
    auto got = context.result(r.name).value();
    for (size_t i = 0; i < want.size(); i++) {
      if (!is_float(got.dtype)) {
        if (want[i].error != 0) continue; // depends on a rounding
        ASSERT_EQ(load_i64(got.dtype, got.bytes.data(), int64_t(i)), want[i].integer)
            << r.name << " element " << i;
        compared++;
        continue;
      }
      double value = load_f64(got.dtype, got.bytes.data(), int64_t(i));
      if (std::isinf(want[i].error)) continue;
      if (std::isnan(want[i].value)) {
        ASSERT_TRUE(std::isnan(value)) << r.name << " element " << i << " is " << value;
      } else if (std::isinf(want[i].value)) {
        ASSERT_EQ(value, want[i].value) << r.name << " element " << i;
      } else {
        double slack = 2 * want[i].error + 1e-30; // sums in another order have the same bound
        ASSERT_LE(std::abs(value - want[i].value), slack)
            << r.name << " element " << i << ": " << value << " for " << want[i].value;
      }
      compared++;
    }
  }
}

} // namespace luminal
