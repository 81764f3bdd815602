// bench/untuned.cpp -- how near the default schedule comes to the tuned one: products, convolutions,
// rows and attentions of random sizes, each tuned for some seconds.
//
//   ./bench.sh untuned [--seed S] [--count N] [--json FILE] [--only TEXT] [--threads N] [--seconds S]
//
// Draws N kernels (40) from the seed (1) and tunes each for S seconds (10). FILE (untuned.json) is
// read first: what it has is not measured again, and each result is written at once, so that a run
// that was ended goes on. At the end: the geometric mean of default / tuned speed over all of FILE.
// Where the default schedule has less than 0.8 of the tuned speed, both race three times more.
#include "choose/default_schedule.h"
#include "cone/cone.h"
#include "harness.h"
#include "luminal/error.h"
#include "search/machine_profile.h"
#include "search/tune_kernel.h"
#include "support/terms.h"
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <nlohmann/json.hpp>

using namespace luminal;
using namespace luminal::bench;

namespace {

struct Work {
  std::string name, term;
};

constexpr double most_flops = 4e9;          ///< one launch takes some tens of milliseconds at most
constexpr int64_t most_elements = 32 << 20; ///< of all operands

/// Sizes between low and high, as many in each octave; most of them even.
int drawn(std::mt19937_64& random, int low, int high) {
  const double at = std::uniform_real_distribution<>(std::log2(low), std::log2(high))(random);
  const int size = std::clamp(int(std::lround(std::exp2(at))), low, high);
  const int even = random() % 4 == 0 || size < 16 ? 1 : size < 128 ? 8 : 32;
  return std::clamp(size / even * even, low, high);
}

std::string batched_product(int batch, int m, int n, int k) {
  return fmt::format(R"(fn @matmul(%A: f32[{0}, {1}, {3}], %B: f32[{0}, {3}, {2}]) {{
  %a = view %A [b: {0}, m: {1}, n: {2}, k: {3}] -> [b, m, k]
  %b = view %B [b: {0}, m: {1}, n: {2}, k: {3}] -> [b, k, n]
  %ab = mul %a, %b
  %f = fold [b: {0}, m: {1}, n: {2}, k: {3}] over [k] {{ sum %ab[b, m, n, k] }}
  %C = get %f, 0
  return C = %C
}})",
                     batch, m, n, k);
}

/// x - the mean by the deviation, or the softmax, of each row.
std::string norm_term(int rows, int length, bool softmax) {
  const std::string space = fmt::format("[m: {}, k: {}]", rows, length);
  std::string text = fmt::format("fn @rows(%x: f32[{}, {}]) {{\n", rows, length);
  const auto fold = [&](std::string_view name, std::string_view of, std::string_view op) {
    text += fmt::format("  %{0}f = fold {1} over [k] {{ {2} %{3}[m, k] }}\n  %{0} = get %{0}f, 0\n"
                        "  %{0}b = view %{0} {1} -> [m]\n",
                        name, space, op, of);
  };
  if (softmax) {
    fold("top", "x", "max");
    text += "  %d = sub %x, %topb\n  %e = exp %d\n";
    fold("all", "e", "sum");
    return text + "  %y = div %e, %allb\n  return y = %y\n}";
  }
  text += fmt::format("  %n = const f32 {}\n  %nb = view %n {} -> []\n", length, space);
  fold("sum", "x", "sum");
  text += "  %mean = div %sumb, %nb\n  %d = sub %x, %mean\n  %dd = mul %d, %d\n";
  fold("square", "dd", "sum");
  return text + "  %v = div %squareb, %nb\n  %s = sqrt %v\n  %y = div %d, %s\n  return y = %y\n}";
}

Work draw(std::mt19937_64& random) {
  for (;;) {
    switch (random() % 4) {
    case 0: {
      const int batch = random() % 3 ? 1 : drawn(random, 2, 64), m = drawn(random, 1, 4096),
                n = drawn(random, 8, 8192), k = drawn(random, 8, 8192);
      const double flops = 2.0 * batch * m * n * k;
      if (flops > most_flops || flops < 1e5 ||
          int64_t(batch) * (int64_t(m) * k + int64_t(k) * n + int64_t(m) * n) > most_elements)
        continue;
      if (batch == 1) return {fmt::format("product {}x{}x{}", m, n, k), matmul_term(m, n, k)};
      return {fmt::format("product {} x {}x{}x{}", batch, m, n, k), batched_product(batch, m, n, k)};
    }
    case 1: {
      const int in = drawn(random, 3, 2048), out = drawn(random, 3, 2048), size = drawn(random, 4, 256),
                kernel = 1 + 2 * int(random() % 4), stride = 1 + int(random() % 2),
                result = convolved(size, kernel, stride);
      const double flops = 2.0 * in * out * result * result * kernel * kernel;
      if (kernel > size || flops > most_flops || flops < 1e5 ||
          int64_t(in) * size * size + int64_t(in) * out * kernel * kernel > most_elements)
        continue;
      return {fmt::format("convolution {}x{} {}x{} step {} on {}", in, out, kernel, kernel, stride, size),
              convolution_term(in, out, size, kernel, stride)};
    }
    case 2: {
      const int rows = drawn(random, 1, 8192), length = drawn(random, 16, 1 << 20);
      if (int64_t(rows) * length > most_elements / 2 || int64_t(rows) * length < 4096) continue;
      const bool softmax = random() % 2;
      return {fmt::format("{} {}x{}", softmax ? "softmax" : "layer norm", rows, length),
              norm_term(rows, length, softmax)};
    }
    default: {
      const int heads = drawn(random, 1, 64), length = drawn(random, 32, 4096),
                depth = drawn(random, 2, 32) * 8;
      const bool causal = random() % 2;
      const double flops = 4.0 * heads * length * double(length) * depth;
      if (flops > most_flops || depth > 256) continue;
      return {fmt::format("{}attention {}x{}x{}", causal ? "causal " : "", heads, length, depth),
              attention_term(heads, heads, length, depth, causal)};
    }
    }
  }
}

search::KernelProblem problem_of(const Work& work) {
  search::KernelProblem problem;
  problem.module = parse_module(work.term, work.name);
  std::vector<NodeId> roots;
  for (const auto& result : problem.module.entry().results) roots.push_back(result.value);
  auto cone = kernel::build_cone(problem.module.entry(), roots, {});
  if (!cone) throw luminal::Error("untuned", cone.error());
  problem.cone = std::move(*cone);
  return problem;
}

/// Default by tuned speed, both raced by turns; 0: not known.
double raced(const search::KernelProblem& problem, const kernel::Schedule& tuned,
             const search::TuneOptions& options, const kernel::MachineLimits& limits) {
  kernel::LowerOptions lower;
  lower.lanes = limits.lanes;
  search::SelectOptions select = options.select;
  select.build.lower.lanes = limits.lanes;
  select.race.seconds = 2;
  const auto race =
      search::select(problem,
                     {search::candidate_of(kernel::default_schedule(problem.cone, limits), lower),
                      search::candidate_of(tuned, lower)},
                     select);
  if (!race || race->tried.size() < 2 || race->tried[0].seconds <= 0) return 0;
  return race->tried[1].seconds <= 0 ? 1 : race->tried[1].seconds / race->tried[0].seconds;
}

nlohmann::json measured(const Work& work, int threads, double budget) {
  const search::KernelProblem problem = problem_of(work);
  search::TuneOptions options;
  options.seconds = budget;
  options.select.build.threads = threads;
  options.select.profile = search::MachineProfile::present(threads);
  const auto limits = options.select.profile.limits();
  nlohmann::json row{{"work", work.name}, {"threads", threads}};
  const auto tuned = search::tune(problem, limits, options);
  if (!tuned) {
    row["failure"] = tuned.error();
    return row;
  }
  double ratio = tuned->seconds / tuned->usual_seconds;
  if (ratio < 0.8) {
    std::vector<double> again;
    for (int i = 0; i < 3; i++) again.push_back(raced(problem, tuned->schedule, options, limits));
    std::ranges::sort(again);
    row["again"] = again;
    if (again[1] > 0) ratio = again[1];
  }
  row["default_seconds"] = tuned->usual_seconds;
  row["tuned_seconds"] = tuned->seconds;
  row["ratio"] = ratio;
  row["tried"] = tuned->tried;
  row["answers"] = kernel::to_string(tuned->answers);
  return row;
}

/// Takes `name N` out of the arguments.
int64_t taken(std::vector<char*>& arguments, const char* name, int64_t usual) {
  for (size_t i = 1; i + 1 < arguments.size(); i++) {
    if (std::strcmp(arguments[i], name) != 0) continue;
    const char* text = arguments[i + 1];
    const char* end = text + std::strlen(text);
    if (std::from_chars(text, end, usual).ptr != end || usual < 0)
      throw luminal::Error("untuned", fmt::format("{} {}: a whole number is expected", name, text));
    arguments.erase(arguments.begin() + long(i), arguments.begin() + long(i) + 2);
    return usual;
  }
  return usual;
}

/// Written beside the file, then in its place: a run that ends meanwhile leaves the old one.
void write(const nlohmann::json& rows, const std::string& path) {
  const std::string fresh = path + ".new";
  if (!(std::ofstream(fresh) << rows.dump(1) << '\n'))
    throw luminal::Error("untuned", "cannot write " + fresh);
  std::filesystem::rename(fresh, path);
}

void run(std::vector<char*> words) {
  const int64_t seed = taken(words, "--seed", 1), count = taken(words, "--count", 40);
  const Arguments arguments = parse_arguments(int(words.size()), words.data(),
                                              "default schedules beside tuned ones, for random kernels");
  const double budget = arguments.seconds == Arguments{}.seconds ? 10 : arguments.seconds;
  const std::string path = arguments.json.empty() ? "untuned.json" : arguments.json;
  nlohmann::json rows = nlohmann::json::array();
  if (std::ifstream before(path); before) rows = nlohmann::json::parse(before);
  if (!rows.is_array()) throw luminal::Error("untuned", path + " has no list of rows");
  std::mt19937_64 random{uint64_t(seed)};
  for (int64_t i = 0; i < count; i++) {
    const Work work = draw(random);
    if (work.name.find(arguments.only) == std::string::npos) continue;
    for (const int threads : arguments.threads) {
      if (std::ranges::any_of(rows, [&](const auto& row) {
            return row.value("work", "") == work.name && row.value("threads", 0) == threads;
          }))
        continue;
      const nlohmann::json row = measured(work, threads, budget);
      if (row.contains("failure"))
        fmt::print("{:<44}{:>3} thr  {}\n", work.name, threads, row["failure"].get<std::string>());
      else
        fmt::print("{:<44}{:>3} thr{:>12.1f} us{:>8.2f}  {}\n", work.name, threads,
                   row["default_seconds"].get<double>() * 1e6, row["ratio"].get<double>(),
                   row["answers"].get<std::string>());
      std::fflush(stdout);
      rows.push_back(row);
      write(rows, path);
    }
  }
  double sum = 0;
  int known = 0, slow = 0;
  for (const auto& row : rows)
    if (const double ratio = row.value("ratio", 0.0); ratio > 0)
      sum += std::log(ratio), known++, slow += ratio < 0.8;
  if (known > 0)
    fmt::print("default / tuned speed of {} kernels in {}: {:.3f} in geometric mean, {} below 0.8\n", known,
               path, std::exp(sum / known), slow);
}

} // namespace

int main(int argc, char** argv) {
  try {
    run({argv, argv + argc});
  } catch (const std::exception& e) {
    fmt::print(stderr, "{}\n", e.what());
    return 1;
  }
}
