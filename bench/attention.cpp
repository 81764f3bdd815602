// bench/attention.cpp -- attention as one nest: the tuple fold over the keys, scheduled from its
// axes alone, against scaled_dot_product_attention.
//
//   ./bench.sh attention [--json FILE] [--only TEXT] [--threads N] [--schedule FILE]     FILE: a
//   schedule in place of the default one
#include "choose/default_schedule.h"
#include "cone/cone.h"
#include "harness.h"
#include "search/machine_profile.h"
#include "search/problem.h"
#include "support/terms.h"
#include <algorithm>
#include <cmath>
#include <cstring>
#include <fmt/format.h>
#include <fstream>
#include <sstream>

using namespace luminal;
using namespace luminal::bench;

namespace {

struct Attention {
  int heads, key_heads, length, depth;
  bool causal;
  DType type = DType::f32; ///< of queries, keys, values and the result; sums are f32
  bool narrow() const { return type != DType::f32; }
  std::string name() const {
    return fmt::format("{}{}x{}x{}{}{}", heads, heads == key_heads ? "" : fmt::format("/{}", key_heads),
                       length, depth, causal ? " causal" : "",
                       narrow() ? fmt::format(" {}", to_string(type)) : "");
  }
  /// Of what takes part.
  double flops() const {
    const double pairs = causal ? 0.5 * length * (length + 1) : double(length) * length;
    return 4.0 * heads * pairs * depth;
  }
  std::string term() const {
    return attention_term(heads, key_heads, length, depth, causal, std::string(to_string(type)));
  }
};

/// Rows of the result against a softmax in f64.
bool correct(const Attention& shape, const search::Workload& work, const std::vector<std::byte>& out) {
  const auto numbers = [&](const std::byte* data, int64_t count) {
    std::vector<float> values(static_cast<size_t>(count));
    for (int64_t i = 0; i < count; i++) values[size_t(i)] = float(load_f64(shape.type, data, i));
    return values;
  };
  const auto argument = [&](std::string_view name, int heads) {
    const auto found =
        std::ranges::find(work.arguments, name, [](auto& a) -> std::string_view { return a.name; });
    return numbers(found->content.data(), int64_t(heads) * shape.length * shape.depth);
  };
  const auto q = argument("Q", shape.heads), k = argument("K", shape.key_heads),
             v = argument("V", shape.key_heads),
             y = numbers(out.data(), int64_t(shape.heads) * shape.length * shape.depth);
  bench::Error error;
  const int64_t rows = int64_t(shape.heads) * shape.length;
  for (int64_t sample = 0; sample < 60; sample++) {
    const int64_t row = sample < 4 ? rows - 1 - sample : sample * 104729 % rows;
    const int64_t head = row / shape.length, at = row % shape.length,
                  from = head * shape.key_heads / shape.heads * shape.length;
    const int64_t keys = shape.causal ? at + 1 : shape.length;
    std::vector<double> weight(static_cast<size_t>(keys));
    double most = -INFINITY, sum = 0;
    for (int64_t j = 0; j < keys; j++) {
      double s = 0;
      for (int d = 0; d < shape.depth; d++)
        s += double(q[size_t(row * shape.depth + d)]) * k[size_t((from + j) * shape.depth + d)];
      most = std::max(most, weight[size_t(j)] = s / std::sqrt(double(shape.depth)));
    }
    for (double& w : weight) sum += w = std::exp(w - most);
    for (int d = 0; d < shape.depth; d++) {
      double wanted = 0, magnitudes = 0;
      for (int64_t j = 0; j < keys; j++) {
        const double part = weight[size_t(j)] / sum * v[size_t((from + j) * shape.depth + d)];
        wanted += part, magnitudes += std::fabs(part);
      }
      error.add(double(y[size_t(row * shape.depth + d)]), wanted, shape.narrow() ? magnitudes : 0.1);
    }
  }
  return error.largest() < (shape.narrow() ? 0x1.1p-9 : 1e-4); // bf16: each weight is rounded, and the result
}

void run(const Attention& shape, const Arguments& arguments, Machine& machine, Torch& torch, Table& table) {
  if (shape.name().find(arguments.only) == std::string::npos) return;
  const auto peak =
      shape.narrow() && machine.probes->has(search::Peak::bf16) ? search::Peak::bf16 : search::Peak::f32;
  for (const int threads : arguments.threads) {
    search::KernelProblem problem;
    problem.module = parse_module(shape.term(), "attention");
    const NodeId root = problem.module.entry().results[0].value;
    auto cone = kernel::build_cone(problem.module.entry(), std::span(&root, 1), {});
    if (!cone) throw luminal::Error("attention", cone.error());
    problem.cone = std::move(*cone);
    search::BuildOptions options;
    options.threads = threads;
    auto chosen = kernel::default_kernel(problem.cone, search::MachineProfile::guess(threads).limits());
    auto kernel = std::move(chosen.kernel);
    if (!arguments.schedule.empty()) {
      std::ifstream file(arguments.schedule);
      std::stringstream text;
      text << file.rdbuf();
      chosen.schedule = kernel::parse_schedule(text.str(), arguments.schedule);
      kernel = kernel::lower(problem.cone, chosen.schedule, options.lower);
    }
    if (!kernel) throw luminal::Error("attention", kernel.error());
    if (arguments.report) fmt::print("{}{}", to_string(chosen.schedule), to_string(*kernel));
    const double begin = now();
    auto code = search::build(*kernel, {}, options);
    if (!code) throw luminal::Error("attention", code.error());
    if (arguments.report) fmt::print("machine code in {:.1f} ms\n", (now() - begin) * 1e3);
    auto work = std::make_shared<const search::Workload>(
        search::workload_of(problem, problem.cone, problem.symbols, threads));
    auto measurer = search::make_in_process_measurer(work);
    const auto added = measurer->add(*code);
    if (!added) throw luminal::Error("attention", added.error());
    auto result = measurer->run(*added, std::byte{0xff});
    if (!result) throw luminal::Error("attention", result.error());

    std::vector<Contender> race_of{
        {"ours", [&] { return *measurer->time(*added, 1); }},
        {"peak", {}, [&](double s) { return 1 / machine.probes->peak(peak, threads, s); }}};
    if (torch.present() && arguments.peers)
      race_of.push_back({"torch", {}, [&](double seconds) {
                           return torch.ask(fmt::format("sdpa {} {} {} {} {} {}", shape.heads,
                                                        shape.key_heads, shape.length, shape.depth,
                                                        int(shape.causal), to_string(shape.type)),
                                            threads, seconds);
                         }});
    race(race_of, arguments);
    Row row{.work = shape.name(), .threads = threads, .unit = "GFLOP/s"};
    row.ours = shape.flops() / race_of[0].low() * 1e-9;
    row.limit = 1 / race_of[1].low() * 1e-9;
    row.limit_name = peak == search::Peak::bf16 ? "dot instructions" : "FMA loops";
    row.goal = shape.narrow() ? 0.6 : shape.length >= 2048 ? 0.85 : 0.76;
    row.correct = correct(shape, *work, *std::ranges::find_if(*result, [](auto& r) { return !r.empty(); }));
    for (size_t i = 2; i < race_of.size(); i++)
      row.peers[race_of[i].name] = shape.flops() / race_of[i].low() * 1e-9;
    table.add(row);
  }
}

} // namespace

int main(int argc, char** argv) {
  const Arguments arguments = parse_arguments(argc, argv, "attention in one kernel");
  Torch torch;
  Machine machine(arguments.threads.back());
  Table table(arguments, "attention");
  if (!torch.present()) table.note(torch.absent());
  for (const DType type : {DType::f32, DType::bf16})
    for (const bool causal : {false, true})
      for (const Attention& shape :
           {Attention{32, 32, 512, 64, causal, type}, Attention{32, 32, 2048, 64, causal, type},
            Attention{8, 8, 8192, 64, causal, type}, Attention{24, 8, 1536, 80, causal, type}})
        run(shape, arguments, machine, torch, table);
}
