// bench/operations.cpp -- operations of the tensor interface and combinations of them, written as a
// user writes them, against the same lines in PyTorch's eager mode.
//
//   ./bench.sh operations [--json FILE] [--only TEXT] [--threads N] [--arguments]
//
// Both sides make the same inputs by a formula; checksums of the results are compared. Row: calls a
// second; the limit is PyTorch, and below 80 % of it (1.25 x its time) a row misses its goal. Below
// the table: the rows that are slower than PyTorch, the slowest first, and the geometric mean.
// --only combined: the combinations alone; --only networks: small images and blocks of networks.
// --arguments: weights are arguments of each call, as torch.compile gives them: nothing of them is
// computed or packed beforehand.
#include "harness.h"
#include "operations/works.h"
#include <algorithm>
#include <cmath>
#include <fmt/format.h>

using namespace luminal;
using namespace luminal::bench;

namespace {

/// Nearest neighbour of the golden ratio's multiples: spread evenly, no period. The same line
/// stands in the peer.
double spread(int seed, int64_t i, const Input& input) {
  double u = std::fmod(double(i + 1) * 0.6180339887498949 + seed * 0.37, 1.0);
  return u * (input.high - input.low) + input.low;
}
std::string list_text(const std::vector<int64_t>& shape) {
  std::string text;
  for (int64_t e : shape) text += fmt::format("{},", e);
  return "(" + text + ")";
}

std::string torch_text(const Workload& work) {
  std::string text;
  for (size_t i = 0; i < work.inputs.size(); i++) {
    const Input& in = work.inputs[i];
    text += fmt::format("{} = {}({}, {}, {}, {}){}; ", char('a' + int(i)), in.index ? "ints" : "floats", i,
                        list_text(in.shape), in.low, in.high,
                        in.dtype == DType::bf16  ? ".bfloat16()"
                        : in.dtype == DType::f16 ? ".half()"
                                                 : "");
  }
  text += work.setup + ";;" + work.torch;
  std::ranges::replace(text, ' ', '\x01');
  return text;
}

/// What our result sums up to, as the peer does it; and the same of absolute values.
std::pair<double, double> checksum(const Tensor& out) {
  double sum = 0, size = 0;
  const auto values = out.data<double>();
  for (size_t i = 0; i < values.size(); i++) {
    sum += values[i] * double(i % 7 + 1);
    size += std::fabs(values[i]) * double(i % 7 + 1);
  }
  return {sum, size};
}

/// How often as fast as the peer each row is.
using Ratios = std::vector<std::pair<double, std::string>>;

void run(const Workload& work, const Arguments& arguments, Torch& torch, Table& table, Ratios& ratios) {
  for (int threads : arguments.threads) {
    Graph g;
    std::vector<Tensor> in;
    for (const Input& input : work.inputs) {
      const Dims shape(input.shape.begin(), input.shape.end());
      const DType dtype = input.index ? DType::i64 : input.dtype;
      in.push_back(input.weight && !arguments.arguments
                       ? g.weight(fmt::format("w{}", in.size()), shape, dtype)
                       : g.tensor(shape, dtype));
    }
    Tensor out = work.make(in).keep();
    for (size_t i = 0; i < in.size(); i++) {
      std::vector<double> values(size_t(in[i].element_count()));
      for (size_t k = 0; k < values.size(); k++) {
        values[k] = spread(int(i), int64_t(k), work.inputs[i]);
        if (work.inputs[i].index) values[k] = std::floor(values[k]);
      }
      in[i].set(values);
    }
    CompileOptions options;
    options.threads = threads;
    g.compile(options);
    if (arguments.report) fmt::print("{}", g.report());
    auto ours = [&] { return timed([&] { g.execute(); }); };
    ours();
    std::vector<Contender> race_of{{"ours", ours}};
    const std::string text = torch_text(work);
    const bool peer = torch.present() && arguments.peers;
    Row row{.work = work.name, .threads = threads, .unit = "calls/s"};
    row.limit_name = "PyTorch eager";
    row.goal = 0.8;
    row.limit = NAN;
    const auto [sum, size] = checksum(out);
    row.correct = std::isfinite(sum);
    if (peer) {
      const double wanted = torch.ask("checksum " + text, threads, 0);
      row.correct = std::fabs(sum - wanted) <= work.tolerance * size;
      race_of.push_back({"torch", {}, [&](double s) { return torch.ask("eval " + text, threads, s); }});
    }
    race(race_of, arguments);
    row.ours = 1 / race_of[0].low();
    if (peer) {
      row.limit = 1 / race_of[1].low();
      row.peers["torch"] = row.limit;
      ratios.emplace_back(row.ours / row.limit, fmt::format("{} ({} threads)", work.name, threads));
    }
    table.add(row);
  }
}

/// The slowest rows, and the geometric mean of all.
void summary(const std::string& of, Ratios& ratios, Table& table) {
  if (ratios.empty()) return;
  std::ranges::sort(ratios);
  double logarithms = 0;
  int missed = 0;
  for (const auto& [ratio, name] : ratios) {
    logarithms += std::log(ratio);
    missed += ratio < 0.8;
    if (ratio < 1)
      table.note(fmt::format("{:.3f} x PyTorch{}: {}", ratio, ratio < 0.8 ? " (below the goal)" : "", name));
  }
  table.note(fmt::format("{}: {} rows, geometric mean {:.2f} x PyTorch, least {:.3f} x, {} below 0.8 x", of,
                         ratios.size(), std::exp(logarithms / double(ratios.size())), ratios[0].first,
                         missed));
}

} // namespace

int main(int argc, char** argv) {
  const Arguments arguments = parse_arguments(
      argc, argv, "operations of the tensor interface against the same lines in PyTorch's eager mode");
  Torch torch;
  Table table(arguments, "operations");
  if (!torch.present()) table.note(torch.absent());
  const std::vector<std::pair<std::string, std::vector<const std::vector<Workload>*>>> groups{
      {"single operations", {&single_operations()}},
      {"combined operations", {&combined_convolutions(), &convolution_blocks(), &combined_products()}},
      {"networks of small images", {&small_networks()}}};
  for (const auto& [of, lists] : groups) {
    const bool all = !arguments.only.empty() && of.starts_with(arguments.only);
    Ratios ratios;
    for (const auto* works : lists)
      for (const Workload& work : *works)
        if (all || work.name.find(arguments.only) != std::string::npos)
          run(work, arguments, torch, table, ratios);
    summary(arguments.arguments ? of + ", weights as arguments" : of, ratios, table);
  }
}
