// bench/forms.cpp -- pairs of plans that compute the same: separate kernels, as fusion makes them
// by default, and the form that algebra finds, in one kernel.
//
//   ./bench.sh forms [--json FILE] [--only TEXT] [--threads N] [--report]
//
// bench/forms/NAME.apart.lum is the first plan; NAME.joined.lum, where there is one, the other form
// of the same function, else one kernel computes what the first file says. Inputs are random. The
// limit is the longer one of two times: of the stream of what has to be read and written, and of
// the multiply-adds.
#include "loaded_plan.h"
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

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

void race_pair(const Pair& pair, const Arguments& arguments, Machine& machine, int threads, Table& table) {
  const std::filesystem::path folder = LUMINAL_BENCH_FORMS, apart = folder / (pair.name + ".apart.lum"),
                              other = folder / (pair.name + ".joined.lum");
  const bool has_other = std::filesystem::exists(other);
  ThreadPool pool(threads);
  const auto load = [&](const std::filesystem::path& file, bool one_kernel) {
    std::stringstream text;
    if (std::ifstream in(file); !(text << in.rdbuf()))
      throw luminal::Error("forms", "cannot read " + file.string());
    compile::Options options = compile::Options::host(threads);
    options.rules.on = false; // each form as it stands in its file
    if (one_kernel) options.partitioner = in_one_kernel();
    const auto name = file.stem().string() + (one_kernel ? " in one kernel" : "");
    return load_plan(parse_module(text.str(), file.string()), options, pool, arguments.report ? name : "");
  };
  const auto separate = load(apart, false), joined = load(has_other ? other : apart, true);
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
