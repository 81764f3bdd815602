// bench/forms.cpp -- pairs of plans that compute the same: separate kernels, as fusion makes them
// by default, and the form that algebra finds, in one kernel.
//
//   ./bench.sh forms [--json FILE] [--only TEXT] [--threads N] [--report]
//
// bench/forms/NAME.apart.lum is the first plan; NAME.joined.lum, where there is one, the other form
// of the same function, else one kernel computes what the first file says. Inputs are random. The
// limit is the longer one of two times: of the stream of what has to be read and written, and of
// the multiply-adds.
#include "base/thread_pool.h"
#include "compile/compile.h"
#include "device/cpu/cpu_device.h"
#include "harness.h"
#include "luminal/error.h"
#include "runtime/context.h"
#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <sstream>
#include <utility>

using namespace luminal;
using namespace luminal::bench;

namespace {

struct Pair {
  std::string name;
  double flops, bytes; ///< at least
};

constexpr double mib = 1 << 20;
const Pair pairs[] = {
    {"variance_4x4194304", 0, 64 * mib},
    {"variance_64x65536", 0, 16 * mib},
    {"layer_norm_64x16384", 0, 8 * mib},
    {"rms_norm_product_512x1024x1024", 2.0 * 512 * 1024 * 1024, 8 * mib},
    {"rms_norm_product_4096x64x64", 2.0 * 4096 * 64 * 64, 2 * mib},
    {"layer_norm_product_512x768x3072", 2.0 * 512 * 768 * 3072, 16.5 * mib},
    {"layer_norm_product_2048x128x128", 2.0 * 2048 * 128 * 128, 2 * mib},
    {"residual_statistic_512x512x512", 2.0 * 512 * 512 * 512, 4 * mib},
    {"residual_statistic_4096x64x64", 2.0 * 4096 * 64 * 64, 3 * mib},
    {"cross_entropy_2048x64x1024", 2.0 * 2048 * 64 * 1024, 0.75 * mib},
    {"attention_gradient_of_queries_2x512x64", 6.0 * 2 * 512 * 512 * 64, 1.25 * mib},
    {"attention_gradient_of_keys_2x512x64", 8.0 * 2 * 512 * 512 * 64, 1.5 * mib},
    {"linear_attention_8x1024x64", 4.0 * 8 * 1024 * 64 * 64, 8 * mib},
    {"gated_layer_512x512x1408", 4.0 * 512 * 512 * 1408, 9.25 * mib},
    {"decode_groups_8x4x4096x64", 4.0 * 32 * 4096 * 64, 16 * mib},
    {"three_projections_512x1024", 2.0 * 512 * 1024 * 1536, 11 * mib},
};

/// A plan with its inputs, ready to run.
struct Form {
  std::vector<Array<float>> data; ///< of 4 bytes each, integers too
  std::unique_ptr<device::Device> device;
  std::shared_ptr<const runtime::Plan> plan;
  std::shared_ptr<runtime::Store> store;
  std::unique_ptr<runtime::Context> context;
  int kernels = 0;

  double run() {
    return timed([&] {
      if (auto done = context->run(); !done) throw luminal::Error("forms", done.error());
    });
  }
};

/// The same values for the same name: floats about 0.3 x normal, small integers.
Array<float> values_of(const InputAttr& input, int64_t count) {
  const auto seed = unsigned(std::hash<std::string>()(input.name));
  auto data = random_floats(count, seed, 0.3F);
  std::mt19937 random(seed);
  if (!is_float(input.type.dtype))
    for (int64_t i = 0; i < count; i++) data[i] = std::bit_cast<float>(int32_t(random() % 256));
  return data;
}

template <class T> T value_or_error(Result<T> result) {
  if (!result) throw luminal::Error("forms", result.error());
  return std::move(*result);
}

std::unique_ptr<Form> make(const std::filesystem::path& file, bool one_kernel, ThreadPool& pool, int threads,
                           bool report) {
  std::stringstream text;
  if (std::ifstream in(file); !(text << in.rdbuf()))
    throw luminal::Error("forms", "cannot read " + file.string());
  const Module module = parse_module(text.str(), file.string());
  compile::Options options = compile::Options::host(threads);
  options.cache = false;
  options.pool = &pool;
  if (one_kernel)
    options.partitioner = [done = false](const Region& region) mutable -> Result<std::optional<Partition>> {
      if (std::exchange(done, true)) return std::optional<Partition>(); // values that are made at load
      return std::optional(Partition{{region.wanted}});
    };
  const auto compiled = value_or_error(compile::compile(module, options));
  if (report)
    fmt::print("# {}{}\n{}", file.stem().string(), one_kernel ? " in one kernel" : "", compiled.report());
  auto form = std::make_unique<Form>();
  form->plan = compiled.plan;
  form->device = device::make_cpu_device(pool);
  for (const auto& step : form->plan->steps) form->kernels += step.kind == runtime::StepKind::launch;
  const auto executable = value_or_error(runtime::Executable::load(form->plan, *form->device));
  form->store = std::make_shared<runtime::Store>(*form->device);
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
      form->data.push_back(values_of(input, elements_of(input.type)));
      give(input.name,
           std::as_writable_bytes(std::span(form->data.back().data(), size_t(form->data.back().size()))));
    }
  };
  each(true, [&](const std::string& name, std::span<std::byte> data) {
    form->store->borrow_weight(name, data, nullptr);
  });
  form->context = value_or_error(runtime::Context::create(executable, form->store));
  each(false, [&](const std::string& name, std::span<std::byte> data) {
    if (auto bound = form->context->bind_argument(name, data); !bound)
      throw luminal::Error("forms", bound.error());
  });
  form->run();
  return form;
}

/// The largest difference of the results, relative to the largest of them.
double difference(Form& a, Form& b) {
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

void race_pair(const Pair& pair, const Arguments& arguments, Machine& machine, int threads, Table& table) {
  const std::filesystem::path folder = LUMINAL_BENCH_FORMS, apart = folder / (pair.name + ".apart.lum"),
                              other = folder / (pair.name + ".joined.lum");
  const bool has_other = std::filesystem::exists(other);
  ThreadPool pool(threads);
  const auto separate = make(apart, false, pool, threads, arguments.report),
             joined = make(has_other ? other : apart, true, pool, threads, arguments.report);
  const double apart_by = difference(*separate, *joined);
  std::vector<Contender> race_of{{"one kernel", [&] { return joined->run(); }},
                                 {"separate", [&] { return separate->run(); }}};
  if (pair.flops > 0)
    race_of.push_back({"arithmetic", {}, [&](double seconds) {
                         return pair.flops / machine.probes->peak(search::Peak::f32, threads, seconds);
                       }});
  const bool cached = pair.bytes < 8 * mib && pair.flops > 0; // then arithmetic alone is the limit
  const auto memory = random_floats(cached ? 64 : int64_t(pair.bytes) / 4, 1);
  const search::Probes::Arrays arrays{memory.data(), nullptr, nullptr, memory.size(), false};
  if (!cached)
    race_of.push_back(
        {"stream", [&] { return machine.probes->stream_seconds(search::Stream::read, threads, arrays); }});
  race(race_of, arguments);
  double limit = 0;
  for (size_t i = 2; i < race_of.size(); i++) limit = std::max(limit, race_of[i].low());
  Row row{.work = fmt::format("{} {}:{}", pair.name, separate->kernels, joined->kernels),
          .threads = threads,
          .unit = "1/s",
          .ours = 1 / race_of[0].low(),
          .limit = 1 / limit,
          .limit_name = pair.flops > 0 && race_of[2].low() >= limit ? "arithmetic" : "stream",
          .goal = 0.85,
          .correct = apart_by < 1e-4};
  row.peers["separate"] = 1 / race_of[1].low();
  table.add(row);
}

} // namespace

int main(int argc, char** argv) {
  const Arguments arguments = parse_arguments(argc, argv, "forms: separate kernels and one kernel by turns");
  try {
    Table table(arguments, "separate kernels and one kernel");
    for (const int threads : arguments.threads) {
      Machine machine(threads);
      for (const Pair& pair : pairs)
        if (pair.name.find(arguments.only) != std::string::npos)
          race_pair(pair, arguments, machine, threads, table);
    }
    table.note("in the names: launches of the separate plan, and of the other one");
  } catch (const luminal::Error& e) {
    fmt::print(stderr, "{}\n", e.what());
    return 1;
  }
}
