// bench/quant.cpp -- products with weights of every stored type, decoding to prefill, against
// reading the weights and the multiply-add peak.
#include "base/thread_pool.h"
#include "formats/model_files.h"
#include "formats/quants.h"
#include "harness.h"
#include "luminal/luminal.h"
#include "models/weights.h"
#include <cmath>
#include <cstring>
#include <fmt/format.h>

using namespace luminal;
using namespace luminal::bench;

namespace {

void run(StorageType type, bool q8, int64_t m, int64_t n, int64_t k, const Arguments& arguments,
         Machine& machine, Table& table) {
  const auto& info = storage_info(type);
  if (q8 && !info.quantized()) return;
  const std::string name = fmt::format("{}{} M={} {}x{}", info.name, q8 ? " x q8" : "", m, n, k);
  if (name.find(arguments.only) == std::string::npos) return;
  const int64_t bytes = n * k / info.block_elements * info.block_bytes;
  const int copies = std::min(8, copies_beyond_caches(bytes));
  // A few rows are quantised, and stand in the matrix again and again.
  constexpr int64_t different = 61;
  Array<float> values = random_floats(different * k, 5, 0.02f);
  auto packed = quantize(type, {values.data(), size_t(different * k)}).value();
  std::vector<float> exact(static_cast<size_t>(different * k));
  if (auto done = dequantize(type, std::as_bytes(std::span(packed)), exact); !done)
    throw luminal::Error(done.error());
  const size_t row = packed.size() / size_t(different);
  std::vector<Array<uint16_t>> weights;
  for (int c = 0; c < copies; c++) {
    weights.emplace_back((bytes + 1) / 2);
    char* to = reinterpret_cast<char*>(weights.back().data());
    for (int64_t i = 0; i < n; i++)
      std::memcpy(to + size_t(i) * row, packed.data() + size_t(i % different) * row, row);
  }
  Array<float> x = random_floats(m * k, 99);
  for (int threads : arguments.threads) {
    // One graph with all copies: each is read from memory when its turn comes.
    Graph g;
    ModelFile none;
    std::vector<Tensor> inputs, outs;
    for (int c = 0; c < copies; c++) {
      TensorView view{fmt::format("w{}", c), type, {n, k}, {}, 0, 0};
      view.bytes = {reinterpret_cast<const std::byte*>(weights[size_t(c)].data()), size_t(bytes)};
      inputs.push_back(g.tensor({m, k}));
      inputs.back().borrow(x.data(), size_t(x.bytes()));
      std::optional<QuantizedWeight> codes;
      Tensor weight = models::file_weight(g, none, view, &codes, q8 ? RowOrder::words : RowOrder::bytes);
      outs.push_back(q8      ? matmul_transposed(quantize_rows(inputs.back()), *codes)
                     : codes ? matmul_transposed(inputs.back(), *codes)
                             : inputs.back().matmul(weight.cast(DType::f32).transpose()));
      outs.back().keep();
    }
    g.compile({.threads = threads});
    if (arguments.report) fmt::print("{}", g.report());
    auto ours = [&] { return timed([&] { g.execute(); }) / copies; };
    ours();
    auto result = outs.back().data<float>();
    bench::Error error;
    for (int64_t sample = 0; sample < 400; sample++) {
      const int64_t i = sample % m, j = sample < 10 ? n - 1 - sample : sample * 7919 % n;
      double sum = 0, size = 0;
      for (int64_t p = 0; p < k; p++) {
        const double w = double(exact[size_t(j % different * k + p)]), v = double(x[i * k + p]);
        sum += v * w;
        size += v * v * w * w;
      }
      error.add(double(result[size_t(i * n + j)]), sum, std::sqrt(size));
    }
    const double length = std::min({timed(ours), timed(ours), timed(ours)});
    std::vector<Contender> race_of{{"ours", ours}};
    const double flops = 2.0 * double(m) * double(n) * double(k);
    race_of.push_back({"peak", [&] {
                         return flops / machine.probes->peak(q8 ? search::Peak::int8 : search::Peak::f32,
                                                             threads, length);
                       }});
    int turn = 0;
    race_of.push_back(
        {"read", [&] {
           turn = (turn + 1) % copies;
           return machine.probes->stream_seconds(
               search::Stream::read, threads,
               {.x = reinterpret_cast<const float*>(weights[size_t(turn)].data()), .elements = bytes / 4});
         }});
    race(race_of, arguments);
    const bool by_memory = race_of[2].low() > race_of[1].low();
    Row r{.work = name, .threads = threads, .unit = by_memory ? "GB/s" : "GFLOP/s"};
    r.ours = (by_memory ? double(bytes) : flops) / race_of[0].low() * 1e-9;
    r.limit = r.ours / fraction_by_rounds(race_of[0], std::span(race_of).subspan(1));
    r.limit_name = by_memory ? "read of the same bytes" : q8 ? "int8 dot peak" : "f32 multiply-add peak";
    r.goal = m == 1 ? 0.92 : 0.85;
    r.correct = error.largest() < (q8 ? 0.03 : 1e-5); // of the deviation of the terms
    table.add(r);
  }
}

} // namespace

int main(int argc, char** argv) {
  const Arguments arguments = parse_arguments(
      argc, argv, "products with stored types against reading the weights and the multiply-add peak");
  Machine machine(arguments.threads.back());
  Table table(arguments, "quant");
  for (auto [n, k] : {std::pair<int64_t, int64_t>{8192, 2048}, {2048, 8192}, {128256, 2048}})
    for (StorageType type : {StorageType::f32, StorageType::bf16, StorageType::f16, StorageType::q8_0,
                             StorageType::q4_0, StorageType::q4_k, StorageType::q5_k, StorageType::q6_k})
      for (int64_t m : {1, 4, 8, 32, 512})
        for (bool q8 : {false, true}) run(type, q8, m, n, k, arguments, machine, table);
}
