// bench/fused.cpp -- chains that one kernel should compute while its arrays stream by, against a
// plain loop that reads and writes as many bytes.
//
// The limit of a row is the longer one of two times: of the stream, and of the arithmetic. The
// latter counts the vector instructions that an element's formula becomes on this machine (in
// LLVM's IR): products and multiply-adds at the measured rate of multiply-adds, all together with
// sums, comparisons, roundings, divisions and scalings at twice that rate. A scaling counts twice
// (Zen 4: the two pipes that add take two cycles for one, beside multiply-adds at their full rate).
// Loads, stores, selections, what a row needs once, and that a division takes longer are not
// counted.
#include "base/thread_pool.h"
#include "codegen/codegen.h"
#include "harness.h"
#include "loop/loop.h"
#include "luminal/luminal.h"
#include <cmath>
#include <fmt/format.h>
#include <sstream>

using namespace luminal;
using namespace luminal::bench;

namespace {

constexpr int64_t columns = 2048;

struct Data {
  explicit Data(int64_t count) : rows(count) {}
  int64_t rows;
  Array<float> x = random_floats(rows * columns, 1), y = random_floats(rows * columns, 2),
               a = random_floats(columns, 3), b = random_floats(columns, 4);
  Array<float> out = random_floats(rows * columns, 5);
  double mean_of_row(int64_t row, const std::function<double(double)>& f) const {
    double sum = 0;
    for (int64_t c = 0; c < columns; c++) sum += f(x[row * columns + c]);
    return sum / double(columns);
  }
};

/// One element of the result from x, y, a, b there.
using Elementwise = std::function<double(double x, double y, double a, double b)>;

struct Workload {
  std::string name;
  search::Stream stream; // as many arrays read and written
  std::function<Tensor(const Tensor& x, const Tensor& y, const Tensor& a, const Tensor& b)> make;
  std::function<Elementwise(const Data&, int64_t row)> value;
  std::string torch; // the name of the peers' function
  /// What is computed for each element, as values of the loop IR; s[0] stands for what a row
  /// shares.
  std::vector<std::string> arithmetic;
};

/// Instructions for each vector of results, a scaling as two.
struct Instructions {
  double multiplies = 0, all = 0;
};
Instructions instructions(const Workload& work) {
  const codegen::CpuTarget& target = codegen::CpuTarget::host();
  const int lanes = target.lanes(DType::f32);
  std::string text = fmt::format(
      "kernel arithmetic(x: f32[{0}] in, y: f32[{0}] in, a: f32[{0}] in, b: f32[{0}] in, s: f32[1] in, "
      "out: f32[{1}] out) lanes {0}\n  vector l in 0..{0}\n",
      lanes, lanes * work.arithmetic.size());
  for (size_t i = 0; i < work.arithmetic.size(); i++)
    text += fmt::format("    out[l + {}] = {}\n", lanes * i, work.arithmetic[i]);
  std::istringstream ir(codegen::llvm_ir(kernel::parse_kernel(text, work.name), target).value());
  const std::string vector = fmt::format("<{} x float>", lanes);
  Instructions counted;
  for (std::string line; std::getline(ir, line);) {
    const auto has = [&](const std::string& what) { return line.find(what) != std::string::npos; };
    if (!has(" = ") || !has(vector)) continue;
    const bool multiplies = has(" fmul ") || has("llvm.fma"),
               adds = has(" fadd ") || has(" fsub ") || has(" fdiv ") || has(" fcmp ") ||
                      has("llvm.roundeven") || has("llvm.sqrt");
    counted.multiplies += multiplies;
    counted.all += has("scalef") ? 2 : multiplies || adds;
  }
  return counted;
}

std::function<Elementwise(const Data&, int64_t)> each(Elementwise f) {
  return [f = std::move(f)](const Data&, int64_t) { return f; };
}

double gelu(double v) { return v * 0.5 * (1 + std::erf(v / std::sqrt(2.0))); }
double square(double v) { return v * v; }
double exponential(double v) { return std::exp(v); }

const Workload works[] = {
    {"x*1.5 + y",
     search::Stream::triad,
     [](const Tensor& x, const Tensor& y, const Tensor&, const Tensor&) { return x * 1.5 + y; },
     each([](double x, double y, double, double) { return x * 1.5 + y; }),
     "scale_add",
     {"fma(x[l], 1.5, y[l])"}},
    {"gelu(x)",
     search::Stream::copy,
     [](const Tensor& x, const Tensor&, const Tensor&, const Tensor&) { return x.gelu(); },
     each([](double x, double, double, double) { return gelu(x); }),
     "gelu",
     {"gelu(x[l])"}},
    {"gelu(x*a + b) + y",
     search::Stream::triad,
     [](const Tensor& x, const Tensor& y, const Tensor& a, const Tensor& b) {
       return (x * a + b).gelu() + y;
     },
     each([](double x, double y, double a, double b) { return gelu(x * a + b) + y; }),
     "gelu_chain",
     {"gelu(fma(x[l], a[l], b[l])) + y[l]"}},
    {"silu(x) * y",
     search::Stream::triad,
     [](const Tensor& x, const Tensor& y, const Tensor&, const Tensor&) { return x.silu() * y; },
     each([](double x, double y, double, double) { return x / (1 + std::exp(-x)) * y; }),
     "swiglu",
     {"silu(x[l]) * y[l]"}},
    {"layer_norm(x) * a + b",
     search::Stream::copy,
     [](const Tensor& x, const Tensor&, const Tensor& a, const Tensor& b) {
       return x.layer_norm(-1, 1e-5) * a + b;
     },
     [](const Data& d, int64_t row) -> Elementwise {
       const double mean = d.mean_of_row(row, [](double v) { return v; });
       const double scale = 1 / std::sqrt(d.mean_of_row(row, square) - mean * mean + 1e-5);
       return [=](double x, double, double a, double b) { return (x - mean) * scale * a + b; };
     },
     "layer_norm",
     {"y[l] + x[l]", "fma(x[l], x[l], y[l])", "fma((x[l] - s[0]) * s[0], a[l], b[l])"}},
    {"rms_norm(x) * a",
     search::Stream::copy,
     [](const Tensor& x, const Tensor&, const Tensor& a, const Tensor&) { return x.rms_norm(1e-5) * a; },
     [](const Data& d, int64_t row) -> Elementwise {
       const double scale = 1 / std::sqrt(d.mean_of_row(row, square) + 1e-5);
       return [=](double x, double, double a, double) { return x * scale * a; };
     },
     "rms_norm",
     {"fma(x[l], x[l], y[l])", "x[l] * s[0] * a[l]"}},
    {"silu(rms_norm(x) * a) * y",
     search::Stream::triad,
     [](const Tensor& x, const Tensor& y, const Tensor& a, const Tensor&) {
       return (x.rms_norm(1e-5) * a).silu() * y;
     },
     [](const Data& d, int64_t row) -> Elementwise {
       const double scale = 1 / std::sqrt(d.mean_of_row(row, square) + 1e-5);
       return [=](double x, double y, double a, double) {
         const double v = x * scale * a;
         return v / (1 + std::exp(-v)) * y;
       };
     },
     "rms_norm_swiglu",
     {"fma(x[l], x[l], y[l])", "silu(x[l] * s[0] * a[l]) * y[l]"}},
    {"softmax(x)",
     search::Stream::copy,
     [](const Tensor& x, const Tensor&, const Tensor&, const Tensor&) { return x.softmax(-1); },
     [](const Data& d, int64_t row) -> Elementwise {
       const double sum = d.mean_of_row(row, exponential) * double(columns);
       return [=](double x, double, double, double) { return std::exp(x) / sum; };
     },
     "softmax",
     {"max(x[l], y[l])", "exp(x[l] - s[0]) + y[l]", "x[l] * s[0]"}},
};

void run(const Workload& work, const Data& d, const Arguments& arguments, Machine& machine, Torch& torch,
         Table& table) {
  const int64_t elements = d.rows * columns;
  const bool cached = elements < (1 << 20);
  const std::string name = fmt::format("{}{}", work.name, cached ? ", in cache" : "");
  if (name.find(arguments.only) == std::string::npos) return;
  for (int threads : arguments.threads) {
    Graph g;
    Tensor x = g.tensor({d.rows, columns}), y = g.tensor({d.rows, columns}), a = g.tensor({columns}),
           b = g.tensor({columns});
    Tensor out = work.make(x, y, a, b).keep();
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
      const int64_t r = sample < 10 ? d.rows - 1 - sample : sample * 7919 % d.rows,
                    c = sample * 104729 % columns, i = r * columns + c;
      error.add(double(result[size_t(i)]), work.value(d, r)(d.x[i], d.y[i], d.a[c], d.b[c]), 1e-3);
    }
    const search::Probes::Arrays arrays{d.x.data(), d.y.data(), d.out.data(), elements, cached};
    std::vector<Contender> race_of{{"ours", ours}};
    race_of.push_back(
        {"stream", [&] { return machine.probes->stream_seconds(work.stream, threads, arrays); }});
    const int lanes = codegen::CpuTarget::host().lanes(DType::f32);
    const Instructions counted = instructions(work);
    const double operations = // a multiply-add of all lanes is 2 * lanes
        2.0 * double(elements) * std::max(counted.multiplies, counted.all / 2);
    race_of.push_back({"arithmetic", {}, [&](double seconds) {
                         return operations / machine.probes->peak(search::Peak::f32, threads, seconds);
                       }});
    if (torch.present() && arguments.peers)
      for (const char* how : {"eager", "compiled"})
        race_of.push_back({how, {}, [&, how](double seconds) {
                             return torch.ask(
                                 fmt::format("fused {} {} {} {}", work.torch, how, d.rows, columns), threads,
                                 seconds);
                           }});
    race(race_of, arguments);
    const double bytes = double(machine.probes->stream_bytes(work.stream, threads, elements));
    Row row{.work = name, .threads = threads, .unit = "GB/s", .ours = bytes / race_of[0].low() * 1e-9};
    const bool streams = race_of[1].low() > race_of[2].low();
    row.limit = bytes / race_of[streams ? 1 : 2].low() * 1e-9;
    row.limit_name = streams ? fmt::format("stream: {} arrays read, {} written", arrays_read(work.stream),
                                           arrays_written(work.stream))
                             : fmt::format("arithmetic: {} instructions for {} elements, {} of them multiply",
                                           counted.all, lanes, counted.multiplies);
    row.goal = 0.95;
    row.correct = error.largest() < 1e-4;
    for (size_t i = 3; i < race_of.size(); i++)
      row.peers["torch " + race_of[i].name] = bytes / race_of[i].low() * 1e-9;
    table.add(row);
  }
}

} // namespace

int main(int argc, char** argv) {
  const Arguments arguments = parse_arguments(
      argc, argv,
      "fused chains over 64 MiB, and over 512 KiB in the cache, against a stream of the same bytes");
  Torch torch;
  Machine machine(arguments.threads.back());
  Table table(arguments, "fused");
  if (!torch.present()) table.note(torch.absent());
  for (const int64_t rows : {8192, 64}) {
    Data data(rows);
    for (const Workload& work : works) run(work, data, arguments, machine, torch, table);
  }
}
