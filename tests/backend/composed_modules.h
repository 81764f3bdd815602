// backend/composed_modules.h -- the kernels of modules that tests compose, and their results beside the
// interpreter's.
#pragma once
#include "compile/builder.h"
#include "luminal/luminal.h"
#include "plans.h"
#include <functional>
#include <random>

namespace luminal {

inline kernel::MachineLimits wide() { return {}; } // 16 lanes, 32 registers

/// Every kernel of the plan; machine code is not made.
inline void each_kernel(const Module& module, const kernel::MachineLimits& limits,
                        const std::function<void(const compile::PlannedKernel&)>& visit) {
  Module work = module;
  passes::defaults().run(work);
  compile::KernelPlanner chooser({.limits = limits,
                                  .target = codegen::Target::host(),
                                  .cache = {},
                                  .sizes = {},
                                  .reproducers = {},
                                  .pinned = {}});
  compile::PlanBuilder builder(work, chooser);
  const auto plan = builder.build();
  ASSERT_TRUE(plan) << plan.error();
  for (const compile::PlannedKernel& kernel : builder.kernels()) visit(kernel);
}

/// Of every input; `sizes` of symbols, by name.
inline Bindings numbers(const Module& module, unsigned seed,
                        const std::map<std::string, int64_t>& sizes = {}) {
  std::mt19937 random(seed);
  Bindings bindings;
  ExprMap<int64_t> bound;
  for (const auto& [name, size] : sizes) bindings.symbols[name] = size;
  for (Expr symbol : module.symbols)
    if (const auto size = sizes.find(std::string(symbol.name())); size != sizes.end())
      bound[symbol] = size->second;
  for (NodeId id : module.entry().params) {
    const auto& input = std::get<InputAttr>(module.entry()[id].attr);
    HostTensor value;
    value.dtype = input.type.dtype;
    int64_t count = 1;
    for (Expr extent : input.type.shape) {
      value.shape.push_back(*evaluate(extent, bound));
      count *= value.shape.back();
    }
    value.data.resize(size_t(storage_bytes(value.dtype, count)));
    for (int64_t i = 0; i < count; i++)
      if (is_float(value.dtype))
        store_f64(value.dtype, value.data.data(), i, double(int(random() % 2001) - 1000) / 1000);
      else
        store_i64(value.dtype, value.data.data(), i, int64_t(random() % 20));
    bindings.inputs[input.name] = std::move(value);
  }
  return bindings;
}

inline void expect_right(const Module& module, unsigned seed,
                         const std::map<std::string, int64_t>& sizes = {}) {
  const Bindings bindings = numbers(module, seed, sizes);
  Running running(module, 1 + int(seed % 2));
  auto context = running.start(module, bindings);
  auto done = context->run();
  ASSERT_TRUE(done) << done.error();
  int64_t compared = 0;
  expect_interpreted(module, bindings, *context, compared);
  EXPECT_GT(compared, 0);
}

} // namespace luminal
