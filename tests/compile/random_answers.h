// compile/random_answers.h -- random kernels of usual kinds with sizes from 1 to 129, scheduled by
// random answers to the questions of the default schedule: machine code within whole plans, against
// the interpreter. Include as "compile/random_answers.h".
#pragma once
#include "base/thread_pool.h"
#include "compile/builder.h"
#include "compile/compile.h"
#include "device/cpu/cpu_device.h"
#include "ir/interp.h"
#include "runtime/context.h"
#include "support/seeds.h"
#include <cmath>
#include <cstring>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <random>
#include <set>

namespace luminal::testing_answers {

/// A schedule that random answers lead to; most questions keep the usual one.
inline kernel::DefaultKernel random_kernel(const kernel::Cone& cone, const kernel::MachineLimits& limits,
                                           std::mt19937_64& random) {
  kernel::Answers answers;
  for (int round = 0; round < 3; round++) {
    const auto made = kernel::default_kernel(cone, limits, answers);
    for (const kernel::Decision& d : made.decisions)
      if (random() % 2) answers[d.name] = d.options[random() % d.options.size()];
  }
  return kernel::default_kernel(cone, limits, answers);
}

/// Entries for all kernels of the module, as if tuning had found them; how many differ from the
/// default schedules.
inline int put_random_schedules(const Module& module, const compile::Options& options,
                                search::TuningCache& cache, std::mt19937_64& random) {
  compile::KernelPlanner chooser({.limits = options.limits,
                                  .target = options.target,
                                  .cache = nullptr,
                                  .sizes = options.sizes,
                                  .profile = options.profile});
  Module planned_module = module; // as compile makes it
  options.passes.run(planned_module);
  compile::PlanBuilder builder(planned_module, chooser);
  EXPECT_TRUE(builder.build());
  int others = 0;
  for (const compile::PlannedKernel& planned : builder.kernels()) {
    if (!planned.key) continue;
    const auto problem = planned.problem();
    if (!problem)
      continue; // indices from memory that must be unique: no input can be made, but the plan runs
    const auto made = random_kernel(problem->cone, options.limits, random);
    EXPECT_TRUE(made.kernel) << made.kernel.error();
    search::TuningEntry entry;
    entry.key = *planned.key;
    entry.name = planned.report.name;
    entry.schedule = to_string(made.schedule);
    others += entry.schedule != planned.schedule;
    if (random() % 2) // any number of workers; more than there are as well
      entry.schedule += fmt::format("serial {} {}\n", random() % 200000, 1 + random() % 5);
    entry.seconds = 1;
    entry.samples = 1;
    entry.checked = true;
    EXPECT_TRUE(cache.put(std::move(entry), search::TuningCache::Keep::newest));
  }
  return others;
}

struct RandomCase {
  std::string text;
  std::map<std::string, int64_t> symbols;
};

inline RandomCase random_case(std::mt19937_64& random) {
  const auto size = [&](int most) { return 1 + int(random() % uint64_t(most)); };
  // Around the edges of vectors and tiles as often as anywhere.
  const auto edge = [&](int most) {
    static const int edges[] = {1, 4, 7, 8, 15, 16, 17, 31, 32, 33, 48, 63, 64, 65, 96, 127, 128, 129};
    const int value = random() % 2 ? edges[random() % std::size(edges)] : size(129);
    return std::min(value, most);
  };
  switch (random() % 8) {
  case 7: { // convolution of a batch with constant weights, large enough for panels that are made at load
    const int batch = size(3), in = 4 + size(36), out = 16 + edge(80), kernel = size(3), stride = size(2),
              dilation = size(2), padding = size(3) - 1, groups = random() % 4 ? 1 : 2;
    const int span = (kernel - 1) * dilation + 1, x = std::max(span, size(20));
    const int y = (x + 2 * padding - span) / stride + 1;
    const std::string axes = fmt::format("[b: {}, g: {}, o: {}, i: {}, j: {}, c: {}, r: {}, s: {}]", batch,
                                         groups, out, y, y, in, kernel, kernel);
    const std::string row = fmt::format("{}*i + {}*r - {}", stride, dilation, padding),
                      column = fmt::format("{}*j + {}*s - {}", stride, dilation, padding);
    return {fmt::format("fn @main(%x: f32[{7}, {8}, {0}, {1}, {1}], weight %w: f32[{8}, {2}, {0}, {3}, {3}]) "
                        "{{\n  %a = view %x {4} -> [b, g, c, {5}, {6}] where 0 <= {5} and {5} < {1} and 0 <= "
                        "{6} and {6} < {1}\n  %b = view %w {4} -> [g, o, c, r, s]\n  %p = mul %a, %b\n  %f = "
                        "fold {4} over [c, r, s] {{ sum %p[b, g, o, i, j, c, r, s] }}\n  %y = get %f, 0\n  "
                        "return y = %y\n}}\n",
                        in, x, out, kernel, axes, row, column, batch, groups),
            {}};
  }
  case 0:
  case 1: { // product, with or without an epilogue; sometimes of a dynamic number of rows
    const bool constant = random() % 2;
    const int m = edge(129), n = edge(129), k = edge(constant ? 129 : 64);
    const bool dynamic = random() % 3 == 0, epilogue = random() % 2;
    const std::string rows = dynamic ? "r" : std::to_string(m);
    return {
        fmt::format("{}fn @main(%A: f32[{}, {}], {}%B: f32[{}], %c: f32[{}]) {{\n",
                    dynamic ? "symbol r: 1..129\n" : "", rows, k, constant ? "weight " : "",
                    fmt::format("{}, {}", k, n), n) +
            fmt::format(
                "  %a = view %A [m: {0}, n: {1}, k: {2}] -> [m, k]\n  %b = view %B [m: {0}, n: {1}, k: {2}] "
                "-> [k, n]\n  %ab = mul %a, %b\n  %f = fold [m: {0}, n: {1}, k: {2}] over [k] {{ sum "
                "%ab[m, n, k] }}\n  %g = get %f, 0\n",
                rows, n, k) +
            (epilogue
                 ? fmt::format("  %d = view %c [m: {0}, n: {1}] -> [n]\n  %h = add %g, %d\n  %y = tanh %h\n",
                               rows, n)
                 : std::string("  %y = neg %g\n")) +
            "  return y = %y\n}\n",
        dynamic ? std::map<std::string, int64_t>{{"r", m}} : std::map<std::string, int64_t>{}};
  }
  case 2: { // batched, the second operand transposed
    const int b = size(5), m = edge(65), n = edge(65), k = edge(65);
    return {
        fmt::format(
            "fn @main(%A: f32[{0}, {1}, {3}], %B: f32[{0}, {2}, {3}]) {{\n  %a = view %A [b: {0}, m: {1}, n: "
            "{2}, k: {3}] -> [b, m, k]\n  %c = view %B [b: {0}, m: {1}, n: {2}, k: {3}] -> [b, n, k]\n  %p = "
            "mul "
            "%a, %c\n  %f = fold [b: {0}, m: {1}, n: {2}, k: {3}] over [k] {{ sum %p[b, m, n, k] }}\n  %y = "
            "get "
            "%f, 0\n  return y = %y\n}}\n",
            b, m, n, k),
        {}};
  }
  case 3: { // convolution with stride, dilation and padding
    const int in = size(5), out = size(20), kernel = size(3), stride = size(2), dilation = size(2),
              padding = size(3) - 1;
    const int span = (kernel - 1) * dilation + 1, x = std::max(span, edge(33));
    const int y = (x + 2 * padding - span) / stride + 1;
    const std::string axes =
        fmt::format("[o: {}, i: {}, j: {}, c: {}, r: {}, s: {}]", out, y, y, in, kernel, kernel);
    const std::string row = fmt::format("{}*i + {}*r - {}", stride, dilation, padding),
                      column = fmt::format("{}*j + {}*s - {}", stride, dilation, padding);
    return {fmt::format("fn @main(%x: f32[{0}, {1}, {1}], %w: f32[{2}, {0}, {3}, {3}]) {{\n  %a = view %x "
                        "{4} -> [c, {5}, "
                        "{6}] where 0 <= {5} and {5} < {1} and 0 <= {6} and {6} < {1}\n  %b = view %w {4} -> "
                        "[o, c, r, s]\n  "
                        "%p = mul %a, %b\n  %f = fold {4} over [c, r, s] {{ sum %p[o, i, j, c, r, s] }}\n  "
                        "%y = get %f, 0\n  "
                        "return y = %y\n}}\n",
                        in, x, out, kernel, axes, row, column),
            {}};
  }
  case 4: { // softmax
    const int m = edge(129), n = edge(129);
    return {
        fmt::format(
            "fn @main(%x: f32[{0}, {1}]) {{\n  %f = fold [m: {0}, n: {1}] over [n] {{ max %x[m, n] }}\n  %g "
            "= get "
            "%f, 0\n  %h = view %g [m: {0}, n: {1}] -> [m]\n  %d = sub %x, %h\n  %e = exp %d\n  %s = fold "
            "[m: "
            "{0}, n: {1}] over [n] {{ sum %e[m, n] }}\n  %t = get %s, 0\n  %u = view %t [m: {0}, n: {1}] -> "
            "[m]\n  %y = div %e, %u\n  return y = %y\n}}\n",
            m, n),
        {}};
  }
  case 5: { // sums along both axes of a transposed array
    const int m = edge(129), n = edge(129);
    return {fmt::format("fn @main(%x: f32[{1}, {0}]) {{\n  %z = view %x [m: {0}, n: {1}] -> [n, m]\n  %q = "
                        "mul %z, %z\n  %f = "
                        "fold [m: {0}, n: {1}] over [n] {{ sum %q[m, n] }}\n  %a = get %f, 0\n  %h = fold "
                        "[m: {0}, n: {1}] "
                        "over [m] {{ max %z[m, n] }}\n  %b = get %h, 0\n  return a = %a, b = %b\n}}\n",
                        m, n),
            {}};
  }
  default: { // rows chosen by indices, scaled
    const int rows = size(40), n = edge(129), m = edge(129);
    return {fmt::format("fn @main(%x: f32[{0}, {1}], %k: i32[{2}], %c: f32[{2}]) {{\n  %a = view %x [m: {2}, "
                        "n: {1}] with j = "
                        "%k[m] in 0..{3} -> [j, n]\n  %b = view %c [m: {2}, n: {1}] -> [m]\n  %y = mul %a, "
                        "%b\n  return y "
                        "= %y\n}}\n",
                        rows, n, m, rows - 1),
            {}};
  }
  }
}

/// Products of narrow numbers, which dot instructions multiply: in words as they lie, or put
/// together in words, with any end.
inline RandomCase narrow_case(std::mt19937_64& random) {
  const auto edge = [&](int most) {
    static const int edges[] = {1, 4, 7, 8, 16, 17, 32, 33, 63, 64, 65, 96, 127, 128, 129};
    return std::min(random() % 2 ? edges[random() % std::size(edges)] : 1 + int(random() % 129), most);
  };
  const int m = edge(129), n = edge(129), k = edge(129);
  const bool bytes = random() % 2, beside = random() % 2;
  return {fmt::format(
              "fn @main(%A: {4}[{0}, {2}], %B: {5}[{3}]) {{\n  %a = view %A [m: {0}, n: {1}, k: {2}] -> [m, "
              "k]\n  %b = view %B [m: {0}, n: {1}, k: {2}] -> [{7}]\n  %c = cast {6} %a\n  %d = cast {6} "
              "%b\n  %p = mul %c, %d\n  %f = fold [m: {0}, n: {1}, k: {2}] over [k] {{ sum %p[m, n, k] "
              "}}\n  %g = get %f, 0\n  %y = cast f32 %g\n  return y = %y\n}}\n",
              m, n, k, beside ? fmt::format("{}, {}", n, k) : fmt::format("{}, {}", k, n),
              bytes ? "u8" : "bf16", bytes ? "i8" : "bf16", bytes ? "i32" : "f32", beside ? "n, k" : "k, n"),
          {}};
}

/// Seeds [first, first + usual), or those of the environment: every kernel of a plan has a random schedule;
/// the plan equals the interpreter, and gives the same bits on one, two and four workers.
inline void check_random_answers(uint64_t first, uint64_t usual,
                                 RandomCase (*cases)(std::mt19937_64&) = random_case) {
  int64_t compared = 0, others = 0;
  ThreadPool one(1), two(2), four(4);
  const test::Seeds seeds = test::seeds(first, usual);
  for (uint64_t seed = seeds.first; seed < seeds.end(); seed++) {
    std::mt19937_64 random(seed);
    const RandomCase made = cases(random);
    SCOPED_TRACE("seed " + std::to_string(seed) + "\n" + made.text);
    const Module module = parse_module(made.text);
    auto cache = std::make_shared<search::TuningCache>("");
    compile::Options options = compile::Options::host(2);
    options.cache = false;
    options.tuning = cache;
    others += put_random_schedules(module, options, *cache, random);
    const auto compiled = compile::compile(module, options);
    ASSERT_TRUE(compiled) << compiled.error();
    for (const compile::KernelReport& report : compiled->choices) ASSERT_TRUE(report.tuned) << report.note;

    Bindings bindings;
    std::set<std::string> weights;
    bindings.symbols = made.symbols;
    ExprMap<int64_t> bound;
    for (const Expr s : module.symbols) bound[s] = made.symbols.at(std::string(s.name()));
    for (const NodeId id : module.entry().params) {
      const auto& input = std::get<InputAttr>(module.entry()[id].attr);
      HostTensor value;
      value.dtype = input.type.dtype;
      int64_t rows = 1;
      if (!is_float(value.dtype))
        rows = module.entry()[module.entry().params[0]].type().shape[0].value(); // of what it chooses from
      for (const Expr e : input.type.shape) value.shape.push_back(*evaluate(e, bound));
      value.data.resize(size_t(storage_bytes(value.dtype, value.count())));
      for (int64_t i = 0; i < value.count(); i++)
        if (is_float(value.dtype))
          store_f64(value.dtype, value.data.data(), i, double(int64_t(random() % 4001) - 2000) / 1000);
        else
          store_i64(value.dtype, value.data.data(), i, int64_t(random() % uint64_t(rows)));
      if (input.role == Role::weight) weights.insert(input.name);
      bindings.inputs[input.name] = std::move(value);
    }
    std::map<std::string, std::vector<std::byte>> results[3];
    for (ThreadPool* pool : {&one, &two, &four}) {
      const auto device = device::make_cpu_device(*pool);
      auto store = std::make_shared<runtime::Store>(*device);
      for (const std::string& name : weights) store->copy_weight(name, bindings.inputs.at(name).data).value();
      const auto executable = runtime::Executable::load(compiled->plan, *device).value();
      const auto context = runtime::Context::create(executable, store).value();
      for (const auto& [name, value] : bindings.symbols) context->set_symbol(name, value).value();
      for (const auto& [name, value] : bindings.inputs) {
        if (weights.contains(name)) continue;
        const auto memory = context->argument(name).value();
        ASSERT_EQ(memory.size(), value.data.size());
        std::memcpy(memory.data(), value.data.data(), value.data.size());
      }
      context->run().value();
      for (const FunctionResult& r : module.entry().results) {
        const auto bytes = context->result(r.name).value().bytes;
        results[pool->size() / 2][r.name].assign(bytes.begin(), bytes.end());
      }
    }
    ASSERT_EQ(results[0], results[1]) << "two workers give other bits than one\n" << compiled->report();
    ASSERT_EQ(results[0], results[2]) << "four workers give other bits than one\n" << compiled->report();
    Interpreter judge(module, bindings, InterpMode::bounded);
    for (const auto& [name, bytes] : results[0]) {
      std::vector<int64_t> shape;
      for (const FunctionResult& r : module.entry().results)
        if (r.name == name)
          for (const Expr e : module.entry()[r.value].type().shape) shape.push_back(*evaluate(e, bound));
      int64_t elements = 1;
      for (const int64_t extent : shape) elements *= extent;
      // All of small results; of large ones both ends and random elements.
      for (int64_t n = 0; n < std::min<int64_t>(elements, 400); n++) {
        const int64_t flat = elements <= 400 ? n
                             : n < 40        ? n
                             : n < 80        ? elements - 1 - (n - 40)
                                             : int64_t(random() % uint64_t(elements));
        std::vector<int64_t> index(shape.size());
        for (int64_t rest = flat, d = int64_t(shape.size()) - 1; d >= 0; d--) {
          index[size_t(d)] = rest % shape[size_t(d)];
          rest /= shape[size_t(d)];
        }
        const InterpValue want = judge.element(name, index);
        const double got = load_f64(DType::f32, bytes.data(), flat);
        ASSERT_LE(std::abs(got - want.value), 2 * want.error + 1e-30)
            << name << " element " << flat << ": " << got << " for " << want.value << "\n"
            << compiled->report();
        compared++;
      }
    }
  }
  EXPECT_GT(compared, int64_t(seeds.count) * 20);
  EXPECT_GT(others, int64_t(seeds.count) / 2);
}

} // namespace luminal::testing_answers
