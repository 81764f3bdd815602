// bench/conv.cpp -- f32 convolutions of ResNet-50 and MobileNetV2 against the measured multiply-add
// peak, the memory, PyTorch (oneDNN) and ONNX Runtime. Each shape is a composition of windows,
// product and sum; weights are constants.
#include "base/thread_pool.h"
#include "harness.h"
#include "luminal/luminal.h"
#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <span>

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
         OnnxRuntime& onnx, Table& table) {
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
    if (onnx.present() && arguments.peers)
      race_of.push_back({"onnxruntime", {}, [&](double seconds) {
                           return onnx.ask(fmt::format("conv {} {} {} {} {} {} {} {}", batch, s.in, s.out,
                                                       s.size, s.kernel, s.stride, s.groups, copies),
                                           threads, seconds);
                         }});
    // Memory: the input is read and the result written by turns, as in a copy of as many bytes.
    const int64_t share = (size_x + size_y) / 2 / 4096 * 4096;
    const Array<float> from(share * copies), to(share * copies);
    std::fill_n(from.data(), from.size(), 1.0f); // memory that exists
    std::fill_n(to.data(), to.size(), 0.0f);
    const int stream_at = int(race_of.size());
    int stream_turn = 0;
    race_of.push_back({"stream", [&] {
                         stream_turn = (stream_turn + 1) % copies;
                         return machine.probes->stream_seconds(search::Stream::copy, threads,
                                                               {from.data() + stream_turn * share, nullptr,
                                                                to.data() + stream_turn * share, share,
                                                                false});
                       }});
    race(race_of, arguments);
    Row row{.work = name, .threads = threads, .unit = "GFLOP/s", .ours = flops / race_of[0].low() * 1e-9};
    const double peak = 1 / race_of[1].low(), stream = flops / race_of[size_t(stream_at)].low() * 1e-9;
    row.limit = std::min(peak, stream);
    row.limit_name = stream < peak ? "stream" : "multiply-add peak";
    row.goal = 0.85;
    row.correct = error.largest() < 1e-5;
    for (size_t i = 2; i < size_t(stream_at); i++)
      row.peers[race_of[i].name] = flops / race_of[i].low() * 1e-9;
    table.add(row);
  }
}

} // namespace

int main(int argc, char** argv) {
  const Arguments arguments = parse_arguments(
      argc, argv,
      "f32 convolutions against the multiply-add peak and the peers: PyTorch (oneDNN), ONNX Runtime");
  Torch torch;
  OnnxRuntime onnx;
  Machine machine(arguments.threads.back());
  Table table(arguments, "conv");
  if (!torch.present()) table.note(torch.absent());
  if (!onnx.present()) table.note(onnx.absent());
  // The 53 convolutions of ResNet-50, equal ones once.
  const Shape resnet[] = {
      {3, 64, 224, 7, 2},     {64, 64, 56, 1, 1},    {64, 64, 56, 3, 1},    {64, 256, 56, 1, 1},
      {256, 64, 56, 1, 1},    {256, 128, 56, 1, 1},  {128, 128, 56, 3, 2},  {128, 512, 28, 1, 1},
      {256, 512, 56, 1, 2},   {512, 128, 28, 1, 1},  {128, 128, 28, 3, 1},  {512, 256, 28, 1, 1},
      {256, 256, 28, 3, 2},   {256, 1024, 14, 1, 1}, {512, 1024, 28, 1, 2}, {1024, 256, 14, 1, 1},
      {256, 256, 14, 3, 1},   {1024, 512, 14, 1, 1}, {512, 512, 14, 3, 2},  {512, 2048, 7, 1, 1},
      {1024, 2048, 14, 1, 2}, {2048, 512, 7, 1, 1},  {512, 512, 7, 3, 1}};
  // Depthwise and 1x1 ones of MobileNetV2.
  const Shape mobile[] = {{32, 32, 112, 3, 1, 32},   {96, 96, 112, 3, 2, 96},   {144, 144, 56, 3, 1, 144},
                          {144, 144, 56, 3, 2, 144}, {192, 192, 28, 3, 1, 192}, {192, 192, 28, 3, 2, 192},
                          {384, 384, 14, 3, 1, 384}, {576, 576, 14, 3, 1, 576}, {576, 576, 14, 3, 2, 576},
                          {960, 960, 7, 3, 1, 960},  {32, 16, 112, 1, 1},       {16, 96, 112, 1, 1},
                          {96, 24, 56, 1, 1},        {24, 144, 56, 1, 1},       {144, 24, 56, 1, 1},
                          {144, 32, 28, 1, 1},       {32, 192, 28, 1, 1},       {192, 32, 28, 1, 1},
                          {192, 64, 14, 1, 1},       {64, 384, 14, 1, 1},       {384, 64, 14, 1, 1},
                          {384, 96, 14, 1, 1},       {96, 576, 14, 1, 1},       {576, 96, 14, 1, 1},
                          {576, 160, 7, 1, 1},       {160, 960, 7, 1, 1},       {960, 160, 7, 1, 1},
                          {960, 320, 7, 1, 1},       {320, 1280, 7, 1, 1}};
  for (int batch : {1, 8}) {
    int number = 0;
    for (const auto& shapes : {std::span<const Shape>(resnet), std::span<const Shape>(mobile)})
      for (const Shape& s : shapes)
        if (number++ % 6 == 0 || !arguments.quick) run(s, batch, arguments, machine, torch, onnx, table);
  }
}
