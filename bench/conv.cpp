// bench/conv.cpp -- f32 convolutions of ResNet-50 and MobileNetV2 against the measured multiply-add peak and PyTorch (oneDNN). Each shape is a composition of
// windows, product and sum; weights are constants.
#include "base/thread_pool.h"
#include "harness.h"
#include "luminal/luminal.h"
#include <cmath>
#include <fmt/format.h>

using namespace luminal;
using namespace luminal::bench;

namespace {

struct Shape {
  int in, out, size, kernel, stride;
  int groups = 1;
  int padding() const { return kernel / 2; }
  int out_size() const { return (size + 2 * padding() - kernel) / stride + 1; }
  double flops(int batch) const {
    const int depth = in / groups * kernel * kernel;
    return 2.0 * batch * out * out_size() * out_size() * depth;
  }
};

/// x: [b, c, h, w], w: [o, c / groups, k, k] -> [b, o, h', w'].
Tensor convolve(const Shape& s, Tensor x, const Tensor& w) {
  const int p = s.padding();
  if (p) x = x.pad(2, p, p).pad(3, p, p);
  // [b, c, i, j, r, s]
  Tensor windows = x.windows(2, s.kernel, s.stride).windows(3, s.kernel, s.stride);
  if (s.groups == 1) return (windows.unsqueeze(1) * w.unsqueeze(2).unsqueeze(2)).sum({2, 5, 6});
  // One channel a group.
  return (windows * w.reshape({s.out, 1, 1, s.kernel, s.kernel})).sum({4, 5});
}

void run(const Shape& s, int batch, const Arguments& arguments, Machine& machine, Torch& torch,
         Table& table) {
  std::string name =
      fmt::format("conv {}x{} k{} s{} @{} b{}", s.in, s.out, s.kernel, s.stride, s.size, batch);
  if (s.groups > 1)
    name = fmt::format("depthwise {} k{} s{} @{} b{}", s.in, s.kernel, s.stride, s.size, batch);
  if (name.find(arguments.only) == std::string::npos) return;
  const int o = s.out_size();
  const int64_t size_x = int64_t(batch) * s.in * s.size * s.size,
                size_w = int64_t(s.out) * (s.in / s.groups) * s.kernel * s.kernel,
                size_y = int64_t(batch) * s.out * o * o;
  const double flops = s.flops(batch);
  const int copies = std::min(16, copies_beyond_caches(4 * (size_x + size_y)));
  std::vector<Array<float>> xs;
  for (int i = 0; i < copies; i++) xs.push_back(random_floats(size_x, unsigned(i + 1)));
  const Array<float> ws = random_floats(size_w, 99);
  for (int threads : arguments.threads) {
    Graph g;
    Tensor x = g.tensor({batch, s.in, s.size, s.size}),
           w = g.weight("w", {s.out, s.in / s.groups, s.kernel, s.kernel}), y = convolve(s, x, w).keep();
    w.borrow(ws.data(), size_t(ws.bytes()));
    g.compile({.threads = threads});
    if (arguments.report) fmt::print("{}", g.report());
    int turn = 0;
    const auto ours = [&] {
      turn = (turn + 1) % copies;
      x.borrow(xs[size_t(turn)].data(), size_t(xs[0].bytes()));
      return timed([&] { g.execute(); });
    };
    ours();
    const auto result = y.data<float>();
    bench::Error error;
    for (int64_t sample = 0; sample < 500; sample++) {
      const int64_t at = sample < 50 ? size_y - 1 - sample : sample * 104729 % size_y;
      const int64_t j = at % o, i = at / o % o, f = at / o / o % s.out, b = at / o / o / s.out;
      const int64_t depth = s.in / s.groups, first = f / (s.out / s.groups) * depth;
      double sum = 0;
      for (int64_t c = 0; c < depth; c++)
        for (int64_t r = 0; r < s.kernel; r++)
          for (int64_t q = 0; q < s.kernel; q++) {
            const int64_t row = i * s.stride + r - s.padding(), column = j * s.stride + q - s.padding();
            if (row < 0 || row >= s.size || column < 0 || column >= s.size) continue;
            sum += double(xs[size_t(turn)][((b * s.in + first + c) * s.size + row) * s.size + column]) *
                   double(ws[((f * depth + c) * s.kernel + r) * s.kernel + q]);
          }
      error.add(double(result[size_t(at)]), sum, std::sqrt(double(depth * s.kernel * s.kernel)));
    }
    const double length = std::min({timed(ours), timed(ours), timed(ours)});
    std::vector<Contender> race_of{{"ours", ours}};
    race_of.push_back({"peak", [&] {
                         const double rate = machine.probes->peak(search::Peak::f32, threads, length);
                         return 1e9 / rate; // seconds of 1e9 operations
                       }});
    if (torch.present() && arguments.peers)
      race_of.push_back({"torch", {}, [&](double seconds) {
                           return torch.ask(fmt::format("conv {} {} {} {} {} {} {} {}", batch, s.in, s.out,
                                                        s.size, s.kernel, s.stride, s.groups, copies),
                                            threads, seconds);
                         }});
    race(race_of, arguments);
    Row row{.work = name, .threads = threads, .unit = "GFLOP/s", .ours = flops / race_of[0].low() * 1e-9};
    row.limit = 1 / race_of[1].low();
    row.limit_name = "multiply-add peak";
    row.goal = 0.85;
    row.correct = error.largest() < 1e-5;
    for (size_t i = 2; i < race_of.size(); i++) row.peers[race_of[i].name] = flops / race_of[i].low() * 1e-9;
    table.add(row);
  }
}

} // namespace

int main(int argc, char** argv) {
  const Arguments arguments =
      parse_arguments(argc, argv, "f32 convolutions against the multiply-add peak and the peers");
  Torch torch;
  Machine machine(arguments.threads.back());
  Table table(arguments, "conv");
  if (!torch.present()) table.note(torch.absent());
  // The 53 convolutions of ResNet-50, equal ones once.
  const Shape resnet[] = {
      {3, 64, 224, 7, 2},     {64, 64, 56, 1, 1},    {64, 64, 56, 3, 1},    {64, 256, 56, 1, 1},
      {256, 64, 56, 1, 1},    {256, 128, 56, 1, 1},  {128, 128, 56, 3, 2},  {128, 512, 28, 1, 1},
      {256, 512, 56, 1, 2},   {512, 128, 28, 1, 1},  {128, 128, 28, 3, 1},  {512, 256, 28, 1, 1},
      {256, 256, 28, 3, 2},   {256, 1024, 14, 1, 1}, {512, 1024, 28, 1, 2}, {1024, 256, 14, 1, 1},
      {256, 256, 14, 3, 1},   {1024, 512, 14, 1, 1}, {512, 512, 14, 3, 2},  {512, 2048, 7, 1, 1},
      {1024, 2048, 14, 1, 2}, {2048, 512, 7, 1, 1},  {512, 512, 7, 3, 1}};
  // Depthwise ones of MobileNetV2.
  const Shape mobile[] = {{32, 32, 112, 3, 1, 32},   {96, 96, 112, 3, 2, 96},   {144, 144, 56, 3, 1, 144},
                          {144, 144, 56, 3, 2, 144}, {192, 192, 28, 3, 1, 192}, {192, 192, 28, 3, 2, 192},
                          {384, 384, 14, 3, 1, 384}, {576, 576, 14, 3, 1, 576}, {576, 576, 14, 3, 2, 576},
                          {960, 960, 7, 3, 1, 960}};
  for (int batch : {1, 8}) {
    for (const Shape& s : resnet) run(s, batch, arguments, machine, torch, table);
    for (const Shape& s : mobile) run(s, batch, arguments, machine, torch, table);
  }
}
