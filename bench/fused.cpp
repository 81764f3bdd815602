// bench/fused.cpp -- chains that one kernel should compute while its arrays stream by, against a plain loop that reads and writes as many bytes.
#include "base/thread_pool.h"
#include "harness.h"
#include "luminal/luminal.h"
#include <cmath>
#include <fmt/format.h>

using namespace luminal;
using namespace luminal::bench;

namespace {

constexpr int64_t rows = 8192, columns = 2048; // 64 MiB

struct Data {
  Array<float> x = random_floats(rows * columns, 1), y = random_floats(rows * columns, 2),
               a = random_floats(columns, 3), b = random_floats(columns, 4);
  Array<float> out = random_floats(rows * columns, 5);
};

struct Work {
  std::string name;
  search::Stream stream; // as many arrays read and written
  std::function<Tensor(Graph&, const Tensor& x, const Tensor& y, const Tensor& a, const Tensor& b)> make;
  std::function<double(const Data&, int64_t row, int64_t column)> value;
  std::string torch;
};

double row_sum(const Data& d, int64_t row, const std::function<double(double)>& f) {
  double sum = 0;
  for (int64_t c = 0; c < columns; c++) sum += f(d.x[row * columns + c]);
  return sum;
}

const Work works[] = {
    {"x*1.5 + y", search::Stream::triad,
     [](Graph&, const Tensor& x, const Tensor& y, const Tensor&, const Tensor&) { return x * 1.5 + y; },
     [](const Data& d, int64_t r, int64_t c) { return d.x[r * columns + c] * 1.5 + d.y[r * columns + c]; },
     "scale_add"},
    {"gelu(x*a + b) + y", search::Stream::triad,
     [](Graph&, const Tensor& x, const Tensor& y, const Tensor& a, const Tensor& b) {
       return (x * a + b).gelu() + y;
     },
     [](const Data& d, int64_t r, int64_t c) {
       const double v = double(d.x[r * columns + c]) * d.a[c] + d.b[c];
       return v * 0.5 * (1 + std::erf(v / std::sqrt(2.0))) + d.y[r * columns + c];
     },
     "gelu_chain"},
    {"rms_norm(x) * a", search::Stream::copy,
     [](Graph&, const Tensor& x, const Tensor&, const Tensor& a, const Tensor&) {
       return x.rms_norm(1e-5) * a;
     },
     [](const Data& d, int64_t r, int64_t c) {
       return d.x[r * columns + c] /
              std::sqrt(row_sum(d, r, [](double v) { return v * v; }) / double(columns) + 1e-5) * d.a[c];
     },
     "rms_norm"},
    {"softmax(x)", search::Stream::copy,
     [](Graph&, const Tensor& x, const Tensor&, const Tensor&, const Tensor&) { return x.softmax(-1); },
     [](const Data& d, int64_t r, int64_t c) {
       return std::exp(double(d.x[r * columns + c])) / row_sum(d, r, [](double v) { return std::exp(v); });
     },
     "softmax"},
};

void run(const Work& work, const Data& d, const Arguments& arguments, Machine& machine, Torch& torch,
         Table& table) {
  if (work.name.find(arguments.only) == std::string::npos) return;
  for (int threads : arguments.threads) {
    Graph g;
    Tensor x = g.tensor({rows, columns}), y = g.tensor({rows, columns}), a = g.tensor({columns}),
           b = g.tensor({columns});
    Tensor out = work.make(g, x, y, a, b).keep();
    g.compile({.threads = threads});
    if (arguments.report) fmt::print("{}", g.report());
    x.borrow(d.x.data(), size_t(d.x.bytes()));
    y.borrow(d.y.data(), size_t(d.y.bytes()));
    a.borrow(d.a.data(), size_t(d.a.bytes()));
    b.borrow(d.b.data(), size_t(d.b.bytes()));
    auto ours = [&] { return timed([&] { g.execute(); }); };
    ours();
    auto result = out.data<float>();
    bench::Error error;
    for (int64_t sample = 0; sample < 300; sample++) {
      const int64_t r = sample < 10 ? rows - 1 - sample : sample * 7919 % rows, c = sample * 104729 % columns;
      error.add(double(result[size_t(r * columns + c)]), work.value(d, r, c), 1e-3);
    }
    const int64_t elements = rows * columns;
    const search::Probes::Arrays arrays{d.x.data(), d.y.data(), d.out.data(), elements};
    std::vector<Contender> race_of{{"ours", ours}};
    race_of.push_back(
        {"stream", [&] { return machine.probes->stream_seconds(work.stream, threads, arrays); }});
    if (torch.present() && arguments.peers)
      race_of.push_back({"torch", {}, [&](double seconds) {
                           return torch.ask(fmt::format("{} {} {}", work.torch, rows, columns), threads,
                                            seconds);
                         }});
    race(race_of, arguments);
    const double bytes = double(machine.probes->stream_bytes(work.stream, threads, elements));
    Row row{.work = work.name, .threads = threads, .unit = "GB/s", .ours = bytes / race_of[0].low() * 1e-9};
    row.limit = bytes / race_of[1].low() * 1e-9;
    row.limit_name = fmt::format("stream: {} arrays read, {} written", arrays_read(work.stream),
                                 arrays_written(work.stream));
    row.goal = 0.8;
    row.correct = error.largest() < 1e-4;
    for (size_t i = 2; i < race_of.size(); i++) row.peers[race_of[i].name] = bytes / race_of[i].low() * 1e-9;
    table.add(row);
  }
}

} // namespace

int main(int argc, char** argv) {
  const Arguments arguments =
      parse_arguments(argc, argv, "fused chains over 64 MiB against a stream of the same bytes");
  Torch torch;
  Machine machine(arguments.threads.back());
  Table table(arguments, "fused");
  if (!torch.present()) table.note(torch.absent());
  Data data;
  for (const Work& work : works) run(work, data, arguments, machine, torch, table);
}
