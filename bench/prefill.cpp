// bench/prefill.cpp -- linear layers over a dynamic number of rows (a prompt in chunks, one plan
// for every length) against the multiply-add peak.
#include "harness.h"
#include "luminal/luminal.h"
#include <cmath>
#include <fmt/format.h>

using namespace luminal;
using namespace luminal::bench;

namespace {

constexpr int64_t most_rows = 256;

template <class T>
void run(int64_t n, int64_t k, DType dtype, const Arguments& arguments, Machine& machine, Torch& torch,
         Table& table) {
  const std::string layer = fmt::format("{} x {} {}", n, k, to_string(dtype));
  if (layer.find(arguments.only) == std::string::npos) return;
  Array<T> w = [&] {
    if constexpr (sizeof(T) == 4)
      return random_floats(n * k, 1);
    else
      return random_bf16(n * k, 1);
  }();
  auto value = [&](T x) {
    if constexpr (sizeof(T) == 4)
      return double(x);
    else
      return bf16_value(x);
  };
  Array<float> x = random_floats(most_rows * k, 99);
  for (int threads : arguments.threads) {
    Graph g;
    const Dim rows = g.dim("rows", 1, most_rows);
    Tensor input = g.tensor({rows, k}), weight = g.weight("w", {n, k}, dtype),
           out = input.matmul(weight.cast(DType::f32).transpose()).keep();
    weight.borrow(w.data(), size_t(w.bytes()));
    g.compile({.threads = threads});
    if (arguments.report) fmt::print("{}", g.report());
    for (int64_t m : {1, 7, 16, 64, 65, 200}) {
      g.set_dim("rows", m);
      input.borrow(x.data(), size_t(m * k * 4));
      auto ours = [&] { return timed([&] { g.execute(); }); };
      ours();
      auto result = out.data<float>();
      bench::Error error;
      for (int64_t sample = 0; sample < 500; sample++) {
        const int64_t i = sample % m, j = sample < 10 ? n - 1 - sample : sample * 7919 % n;
        double sum = 0;
        for (int64_t p = 0; p < k; p++) sum += double(x[i * k + p]) * value(w[j * k + p]);
        error.add(double(result[size_t(i * n + j)]), sum, std::sqrt(double(k)));
      }
      const double length = std::min({timed(ours), timed(ours), timed(ours)});
      std::vector<Contender> race_of{{"ours", ours}};
      race_of.push_back(
          {"peak", [&] { return 1e9 / machine.probes->peak(search::Peak::f32, threads, length); }});
      race_of.push_back({"read", [&] {
                           return machine.probes->stream_seconds(
                               search::Stream::read, threads,
                               {.x = reinterpret_cast<const float*>(w.data()), .elements = w.bytes() / 4});
                         }});
      if (torch.present() && arguments.peers && dtype == DType::f32)
        race_of.push_back({"torch", {}, [&](double seconds) {
                             return torch.ask(fmt::format("sgemm {} {} {} 1 1 0", m, n, k), threads, seconds);
                           }});
      race(race_of, arguments);
      const double flops = 2.0 * double(m) * double(n) * double(k);
      Row row{.work = fmt::format("{} rows, {}", m, layer),
              .threads = threads,
              .unit = "GFLOP/s",
              .ours = flops / race_of[0].low() * 1e-9};
      // The slower of both limits: all products at the peak, all weights read once.
      row.limit = flops / std::max(flops * race_of[1].low() * 1e-9, race_of[2].low()) * 1e-9;
      row.limit_name = "multiply-add peak, or reading the weights once";
      row.goal = 0.6;
      row.correct = error.largest() < 1e-5;
      for (size_t i = 3; i < race_of.size(); i++)
        row.peers[race_of[i].name] = flops / race_of[i].low() * 1e-9;
      table.add(row);
    }
  }
}

} // namespace

int main(int argc, char** argv) {
  const Arguments arguments = parse_arguments(
      argc, argv, "linear layers over a dynamic number of rows against the multiply-add peak");
  Torch torch;
  Machine machine(arguments.threads.back());
  Table table(arguments, "prefill");
  if (!torch.present()) table.note(torch.absent());
  for (auto [n, k] : {std::pair{2048, 2048}, {2048, 5632}, {256, 2048}, {5632, 2048}}) {
    run<float>(n, k, DType::f32, arguments, machine, torch, table);
    run<uint16_t>(n, k, DType::bf16, arguments, machine, torch, table);
  }
}
