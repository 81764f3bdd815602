// bench/gradients.cpp -- convolutions and the gradients of their inputs and weights (f32) against the
// measured multiply-add peak and PyTorch (oneDNN). Each forward pass is a composition of windows,
// product and sum; the gradients are what autograd makes of it.
#include "harness.h"
#include "luminal/luminal.h"
#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <fmt/ranges.h>

using namespace luminal;
using namespace luminal::bench;

namespace {

struct Shape {
  int batch, in, out;
  std::vector<int64_t> size; ///< of the image
  int kernel, stride = 1, groups = 1, dilation = 1;
  bool transposed = false; ///< upsampling: `in` channels at `size` to `out` at size * stride

  int64_t padding() const { return int64_t(kernel / 2) * dilation; }
  std::vector<int64_t> x() const {
    std::vector<int64_t> all{batch, in};
    all.insert(all.end(), size.begin(), size.end());
    return all;
  }
  std::vector<int64_t> w() const {
    std::vector<int64_t> all =
        transposed ? std::vector<int64_t>{in, out / groups} : std::vector<int64_t>{out, in / groups};
    all.insert(all.end(), size.size(), kernel);
    return all;
  }
  std::string name() const {
    return fmt::format("{}x{} k{} s{}{}{}{} @{} b{}", in, out, kernel, stride,
                       groups > 1 ? fmt::format(" g{}", groups) : "",
                       dilation > 1 ? fmt::format(" d{}", dilation) : "", transposed ? " transposed" : "",
                       fmt::join(size, "x"), batch);
  }
};

int64_t product(const std::vector<int64_t>& extents) {
  int64_t all = 1;
  for (int64_t e : extents) all *= e;
  return all;
}

std::vector<Dim> dims(const std::vector<int64_t>& extents) { return {extents.begin(), extents.end()}; }

Tensor forward(const Shape& s, const Tensor& x, const Tensor& w) {
  const size_t sizes = s.size.size();
  if (s.transposed) return conv_transpose(x, w, {}, {.stride = std::vector<int64_t>(sizes, s.stride)});
  return conv(x, w, {},
              {.stride = std::vector<int64_t>(sizes, s.stride),
               .padding = std::vector<int64_t>(sizes, s.padding()),
               .dilation = std::vector<int64_t>(sizes, s.dilation),
               .groups = s.groups});
}

/// Of two lists, and of their absolute values.
std::pair<double, double> inner_product(const std::vector<float>& a, const Array<float>& b) {
  double sum = 0, size = 0;
  for (size_t i = 0; i < a.size(); i++) {
    const double one = double(a[i]) * double(b[int64_t(i)]);
    sum += one, size += std::abs(one);
  }
  return {sum, size};
}
double forward_product(const Shape& s, const Array<float>& xs, const Array<float>& ws, const Array<float>& ys,
                       int threads) {
  Graph g;
  Tensor x = g.tensor(dims(s.x())), w = g.tensor(dims(s.w())), y = forward(s, x, w);
  y.keep();
  x.borrow(xs.data(), size_t(xs.bytes()));
  w.borrow(ws.data(), size_t(ws.bytes()));
  g.compile({.threads = threads, .cache = false});
  g.execute();
  return inner_product(y.data<float>(), ys).first;
}

std::string ask_text(std::string text) {
  for (char& c : text)
    if (c == ' ') c = '\1';
  return "eval " + text;
}

enum class Part : uint8_t { forward, input, weight };

void run(const Shape& s, Part part, const Arguments& arguments, Machine& machine, Torch* torch,
         Table& table) {
  constexpr std::string_view names[] = {"forward", "of the input", "of the weight"};
  const std::string name = fmt::format("{}: {}", s.name(), names[size_t(part)]);
  if (name.find(arguments.only) == std::string::npos) return;
  const Array<float> xs = random_floats(product(s.x()), 1), ws = random_floats(product(s.w()), 2);
  for (int threads : arguments.threads) {
    Graph g;
    Tensor x = g.tensor(dims(s.x())), w = g.tensor(dims(s.w())), y = forward(s, x, w);
    std::vector<int64_t> results;
    for (const Dim& d : y.shape()) results.push_back(d.value());
    const Array<float> ys = random_floats(product(results), 3);
    Tensor dy = g.tensor(y.shape());
    Tensor target = part == Part::forward ? y
                    : part == Part::input ? gradients({y}, {x}, {.upstream = {dy}})[0]
                                          : gradients({y}, {w}, {.upstream = {dy}})[0];
    target.keep();
    x.borrow(xs.data(), size_t(xs.bytes()));
    w.borrow(ws.data(), size_t(ws.bytes()));
    dy.borrow(ys.data(), size_t(ys.bytes()));
    g.compile({.threads = threads, .cache = false});
    if (arguments.report) fmt::print("{}", g.report());
    g.execute();
    // y is linear in x and in w: y . dy = x . dx = w . dw.
    const Array<float>& other = part == Part::forward ? ys : part == Part::input ? xs : ws;
    const auto [found, size] = inner_product(target.data<float>(), other);
    const double error = std::abs(found - forward_product(s, xs, ws, ys, threads));
    const int64_t points = product(s.transposed ? s.x() : results);
    const double flops = 2.0 * double(points) * double(product(s.w())) / (s.transposed ? s.in : s.out);
    std::vector<Contender> race_of{{"ours", [&] { return timed([&] { g.execute(); }); }},
                                   {"peak", {}, [&](double seconds) {
                                      return 1 / machine.probes->peak(search::Peak::f32, threads, seconds);
                                    }}};
    const size_t sizes = s.size.size();
    const std::string ask = fmt::format(
        "x=torch.randn({});w=torch.randn({});g=torch.randn({});"
        "f=lambda:torch.convolution(x,w,None,{},{},{},{},{},{});"
        "b=lambda m:torch.ops.aten.convolution_backward(g,x,w,None,{},{},{},{},{},{},m);{}",
        fmt::join(s.x(), ","), fmt::join(s.w(), ","), fmt::join(results, ","),
        std::vector<int64_t>(sizes, s.stride), std::vector<int64_t>(sizes, s.transposed ? 0 : s.padding()),
        std::vector<int64_t>(sizes, s.dilation), s.transposed ? "True" : "False",
        std::vector<int64_t>(sizes, 0), s.groups, std::vector<int64_t>(sizes, s.stride),
        std::vector<int64_t>(sizes, s.transposed ? 0 : s.padding()), std::vector<int64_t>(sizes, s.dilation),
        s.transposed ? "True" : "False", std::vector<int64_t>(sizes, 0), s.groups,
        part == Part::forward ? ";f()"
        : part == Part::input ? ";b([True,False,False])"
                              : ";b([False,True,False])");
    if (torch)
      race_of.push_back(
          {"torch", {}, [&](double seconds) { return torch->ask(ask_text(ask), threads, seconds); }});
    race(race_of, arguments);
    Row row{.work = name, .threads = threads, .unit = "GFLOP/s", .ours = flops / race_of[0].low() * 1e-9};
    row.limit = 1 / race_of[1].low() * 1e-9;
    row.limit_name = "FMA loops";
    row.goal = 0.85;
    row.correct = error <= 1e-5 * size;
    if (torch) row.peers["torch"] = flops / race_of[2].low() * 1e-9;
    table.add(row);
  }
}

} // namespace

int main(int argc, char** argv) {
  const Arguments arguments = parse_arguments(argc, argv, "convolutions and their gradients");
  Torch torch;
  Machine machine(arguments.threads.back());
  Table table(arguments, "gradients");
  if (!torch.present()) table.note(torch.absent());
  const Shape shapes[] = {
      // ResNet-18 on 64 images of 32 x 32
      {64, 3, 64, {32, 32}, 3},
      {64, 64, 64, {32, 32}, 3},
      {64, 64, 128, {32, 32}, 3, 2},
      {64, 64, 128, {32, 32}, 1, 2},
      {64, 128, 128, {16, 16}, 3},
      {64, 128, 256, {16, 16}, 3, 2},
      {64, 256, 256, {8, 8}, 3},
      {64, 256, 512, {8, 8}, 3, 2},
      {64, 512, 512, {4, 4}, 3},
      {64, 1, 16, {28, 28}, 3}, // a small network for digits
      {64, 16, 32, {14, 14}, 3},
      {8, 64, 64, {56, 56}, 3}, // others
      {8, 256, 64, {56, 56}, 1},
      {8, 3, 64, {224, 224}, 7, 2},
      {8, 96, 96, {56, 56}, 3, 1, 96},
      {8, 96, 96, {56, 56}, 3, 2, 96},
      {8, 128, 128, {28, 28}, 3, 1, 4},
      {8, 64, 64, {56, 56}, 3, 1, 1, 2},
      {8, 128, 128, {1024}, 5},
      {8, 128, 128, {1024}, 5, 2},
      {2, 32, 32, {16, 32, 32}, 3},
      {8, 64, 32, {28, 28}, 2, 2, 1, 1, true},
      {8, 64, 32, {28, 28}, 4, 2, 1, 1, true},
  };
  int number = 0;
  for (const Shape& s : shapes)
    if (number++ % 5 == 1 || !arguments.quick)
      for (const Part part : {Part::forward, Part::input, Part::weight})
        run(s, part, arguments, machine, torch.present() && arguments.peers ? &torch : nullptr, table);
}
