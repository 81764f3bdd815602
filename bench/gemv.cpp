// bench/gemv.cpp -- one row times the transpose of a weight matrix (a step of a language model)
// against reading that matrix.
#include "base/thread_pool.h"
#include "harness.h"
#include "luminal/luminal.h"
#include <cmath>
#include <fmt/format.h>

using namespace luminal;
using namespace luminal::bench;

namespace {

template <class T>
void run(int64_t n, int64_t k, DType dtype, const Arguments& arguments, Machine& machine, Torch& torch,
         Table& table) {
  const std::string name = fmt::format("{} x {} {}", n, k, to_string(dtype));
  if (name.find(arguments.only) == std::string::npos) return;
  std::vector<Array<T>> weights;
  const int copies = copies_beyond_caches(n * k * int64_t(sizeof(T)));
  for (int i = 0; i < copies; i++) {
    if constexpr (sizeof(T) == 4)
      weights.push_back(random_floats(n * k, unsigned(i + 1)));
    else
      weights.push_back(random_bf16(n * k, unsigned(i + 1)));
  }
  auto value = [&](T w) {
    if constexpr (sizeof(T) == 4)
      return double(w);
    else
      return bf16_value(w);
  };
  Array<float> x = random_floats(k, 99);
  Array<float> sink(1024);
  for (int threads : arguments.threads) {
    Graph g;
    Tensor input = g.tensor({1, k}), weight = g.tensor({n, k}, dtype),
           out = input.matmul(weight.cast(DType::f32).transpose()).keep();
    g.compile({.threads = threads});
    if (arguments.report) fmt::print("{}", g.report());
    input.borrow(x.data(), size_t(x.bytes()));
    int turn = 0;
    auto ours = [&] {
      turn = (turn + 1) % copies;
      weight.borrow(weights[size_t(turn)].data(), size_t(weights[0].bytes()));
      return timed([&] { g.execute(); });
    };
    ours();
    auto result = out.data<float>();
    bench::Error error;
    for (int64_t sample = 0; sample < 500; sample++) {
      const int64_t i = sample < 10 ? n - 1 - sample : sample * 7919 % n;
      double sum = 0;
      for (int64_t j = 0; j < k; j++) sum += double(x[j]) * value(weights[size_t(turn)][i * k + j]);
      error.add(double(result[size_t(i)]), sum, std::sqrt(double(k)));
    }
    int limit_turn = 0;
    const int64_t elements = weights[0].bytes() / 4;
    const double bytes = double(weights[0].bytes()),
                 whole =
                     bytes / double(machine.probes->stream_bytes(search::Stream::read, threads, elements));
    std::vector<Contender> race_of{{"ours", ours}};
    race_of.push_back({"read", [&] {
                         limit_turn = (limit_turn + 1) % copies;
                         return whole *
                                machine.probes->stream_seconds(
                                    search::Stream::read, threads,
                                    {.x = reinterpret_cast<const float*>(weights[size_t(limit_turn)].data()),
                                     .elements = elements});
                       }});
    if (torch.present() && arguments.peers)
      race_of.push_back({"torch", {}, [&](double seconds) {
                           return torch.ask(fmt::format("linear {} {} {} {}", n, k, copies, to_string(dtype)),
                                            threads, seconds);
                         }});
    race(race_of, arguments);
    Row row{.work = name, .threads = threads, .unit = "GB/s", .ours = bytes / race_of[0].low() * 1e-9};
    row.limit = row.ours / fraction_by_rounds(race_of[0], std::span(race_of).subspan(1, 1));
    row.limit_name = "read of the same bytes";
    row.goal = 0.92;
    row.correct = error.largest() < 1e-5;
    for (size_t i = 2; i < race_of.size(); i++) row.peers[race_of[i].name] = bytes / race_of[i].low() * 1e-9;
    table.add(row);
  }
}

} // namespace

int main(int argc, char** argv) {
  const Arguments arguments = parse_arguments(argc, argv, "matrix times vector against reading the matrix");
  Torch torch;
  Machine machine(arguments.threads.back());
  Table table(arguments, "gemv");
  if (!torch.present()) table.note(torch.absent());
  for (auto [n, k] : {std::pair{8192, 2048}, {2048, 8192}, {128256, 2048}}) {
    run<float>(n, k, DType::f32, arguments, machine, torch, table);
    run<uint16_t>(n, k, DType::bf16, arguments, machine, torch, table);
  }
}
