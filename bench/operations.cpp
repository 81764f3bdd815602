// bench/operations.cpp -- operations of the tensor interface, written as a user writes them, against the same line in PyTorch's eager mode.
//
//   ./bench.sh operations [--json FILE] [--only TEXT] [--threads N]
//
// Both sides make the same inputs by a formula; checksums of the results are compared. Row: calls a second; the limit is PyTorch, and below 80 % of it
// (1.25 x its time) a row misses its goal.
#include "harness.h"
#include "luminal/luminal.h"
#include <algorithm>
#include <cmath>
#include <fmt/format.h>

using namespace luminal;
using namespace luminal::bench;

namespace {

/// An input: of f32 or, where it is an index, of i64.
struct Input {
  std::vector<int64_t> shape;
  double low = -1, high = 1;
  bool index = false;
};
using In = const std::vector<Tensor>&;
struct Work {
  std::string name;
  std::vector<Input> inputs; ///< a, b, c, .. in PyTorch's line
  std::function<Tensor(In)> make;
  std::string torch; ///< its first result is compared
  std::string setup = {};
  double tolerance = 1e-4; ///< of the checksum, relative to that of the absolute values
};

/// Nearest neighbour of the golden ratio's multiples: spread evenly, no period. The same line stands in the peer.
double spread(int seed, int64_t i, const Input& input) {
  double u = std::fmod(double(i + 1) * 0.6180339887498949 + seed * 0.37, 1.0);
  return u * (input.high - input.low) + input.low;
}
Input floats(std::vector<int64_t> shape, double low = -1, double high = 1) {
  return {std::move(shape), low, high};
}
Input ids(std::vector<int64_t> shape, int64_t count) { return {std::move(shape), 0, double(count), true}; }

/// Of a square convolution with padding kernel / 2. x: [b, c, h, w], g: [b, o, h', w'] -> [o, c, kernel, kernel].
Tensor weight_gradient(const Tensor& x, const Tensor& g, int64_t kernel, int64_t stride) {
  Tensor windows = x;
  for (int axis : {2, 3}) {
    if (kernel > 1) windows = windows.pad(axis, kernel / 2, kernel / 2);
    windows = windows.windows(axis, kernel, stride);
  }
  // [b, o, c, i, j, r, s]
  return (windows.unsqueeze(1) * g.unsqueeze(2).unsqueeze(5).unsqueeze(6)).sum({0, 3, 4});
}

const std::vector<Work>& works() {
  static const std::vector<Work> list{
      {"conv2d 56x56x64 3x3",
       {floats({1, 64, 56, 56}), floats({64, 64, 3, 3})},
       [](In x) { return conv2d(x[0], x[1], {}, {.padding = 1}); },
       "F.conv2d(a, b, padding=1)"},
      {"conv2d 7x7/2 of 224",
       {floats({1, 3, 224, 224}), floats({64, 3, 7, 7})},
       [](In x) { return conv2d(x[0], x[1], {}, {.stride = 2, .padding = 3}); },
       "F.conv2d(a, b, stride=2, padding=3)"},
      {"conv2d depthwise",
       {floats({1, 128, 56, 56}), floats({128, 1, 3, 3})},
       [](In x) { return conv2d(x[0], x[1], {}, {.padding = 1, .groups = 128}); },
       "F.conv2d(a, b, padding=1, groups=128)"},
      {"conv2d to 3 channels",
       {floats({1, 64, 112, 112}), floats({3, 64, 3, 3})},
       [](In x) { return conv2d(x[0], x[1], {}, {.padding = 1}); },
       "F.conv2d(a, b, padding=1)"},
      {"conv1d",
       {floats({4, 128, 1500}), floats({256, 128, 3}), floats({256})},
       [](In x) { return conv1d(x[0], x[1], x[2], {.padding = 1}); },
       "F.conv1d(a, b, c, padding=1)"},
      {"conv3d",
       {floats({1, 16, 16, 32, 32}), floats({32, 16, 3, 3, 3})},
       [](In x) { return conv3d(x[0], x[1], {}, {.padding = 1}); },
       "F.conv3d(a, b, padding=1)"},
      {"conv_transpose2d /2",
       {floats({1, 64, 28, 28}), floats({64, 32, 4, 4})},
       [](In x) { return conv_transpose(x[0], x[1], {}, {.stride = 2, .padding = 1}); },
       "F.conv_transpose2d(a, b, stride=2, padding=1)"},
      {"conv_transpose2d 2x2/2",
       {floats({1, 128, 64, 64}), floats({128, 64, 2, 2}), floats({64})},
       [](In x) { return conv_transpose(x[0], x[1], x[2], {.stride = 2}); },
       "F.conv_transpose2d(a, b, c, stride=2)"},
      {"conv_transpose1d 16/8",
       {floats({1, 256, 400}), floats({256, 128, 16}), floats({128})},
       [](In x) { return conv_transpose(x[0], x[1], x[2], {.stride = 8, .padding = 4}); },
       "F.conv_transpose1d(a, b, c, stride=8, padding=4)"},
      {"conv2d input gradient",
       {floats({8, 64, 56, 56}), floats({64, 64, 3, 3})},
       [](In x) { return conv_transpose(x[0], x[1], {}, {.padding = 1}); },
       "torch.nn.grad.conv2d_input((8, 64, 56, 56), b, a, padding=1)"},
      {"conv2d input gradient /2",
       {floats({8, 128, 28, 28}), floats({128, 128, 3, 3})},
       [](In x) { return conv_transpose(x[0], x[1], {}, {.stride = 2, .padding = 1, .output_padding = 1}); },
       "torch.nn.grad.conv2d_input((8, 128, 56, 56), b, a, stride=2, padding=1)"},
      {"conv2d input gradient /2 of 14x14",
       {floats({8, 512, 7, 7}), floats({512, 512, 3, 3})},
       [](In x) { return conv_transpose(x[0], x[1], {}, {.stride = 2, .padding = 1, .output_padding = 1}); },
       "torch.nn.grad.conv2d_input((8, 512, 14, 14), b, a, stride=2, padding=1)"},
      {"conv2d input gradient 1x1/2",
       {floats({8, 512, 28, 28}), floats({512, 256, 1, 1})},
       [](In x) { return conv_transpose(x[0], x[1], {}, {.stride = 2, .output_padding = 1}); },
       "torch.nn.grad.conv2d_input((8, 256, 56, 56), b, a, stride=2)"},
      {"conv2d input gradient 7x7/2",
       {floats({8, 64, 112, 112}), floats({64, 3, 7, 7})},
       [](In x) { return conv_transpose(x[0], x[1], {}, {.stride = 2, .padding = 3, .output_padding = 1}); },
       "torch.nn.grad.conv2d_input((8, 3, 224, 224), b, a, stride=2, padding=3)"},
      {"conv2d weight gradient",
       {floats({8, 64, 56, 56}), floats({8, 64, 56, 56})},
       [](In x) { return weight_gradient(x[0], x[1], 3, 1); },
       "torch.nn.grad.conv2d_weight(a, (64, 64, 3, 3), b, padding=1)"},
      {"conv2d weight gradient /2",
       {floats({8, 128, 56, 56}), floats({8, 128, 28, 28})},
       [](In x) { return weight_gradient(x[0], x[1], 3, 2); },
       "torch.nn.grad.conv2d_weight(a, (128, 128, 3, 3), b, stride=2, padding=1)"},
      {"conv2d weight gradient 1x1",
       {floats({8, 256, 14, 14}), floats({8, 1024, 14, 14})},
       [](In x) { return weight_gradient(x[0], x[1], 1, 1); },
       "torch.nn.grad.conv2d_weight(a, (1024, 256, 1, 1), b)"},
      {"conv2d depthwise weight gradient",
       {floats({8, 144, 56, 56}), floats({8, 144, 56, 56})},
       [](In x) {
         Tensor windows = x[0].pad(2, 1, 1).pad(3, 1, 1).windows(2, 3).windows(3, 3);
         return (windows * x[1].unsqueeze(4).unsqueeze(5)).sum({0, 2, 3}).unsqueeze(1);
       },
       "torch.nn.grad.conv2d_weight(a, (144, 1, 3, 3), b, padding=1, groups=144)"},
      {"matmul weight gradient",
       {floats({512, 768}), floats({512, 3072})},
       [](In x) { return x[0].transpose(0, 1).matmul(x[1]); },
       "a.T @ b"},
      {"matmul input gradient",
       {floats({512, 3072}), floats({768, 3072})},
       [](In x) { return x[0].matmul(x[1].transpose(0, 1)); },
       "a @ b.T"},
      {"matmul 768",
       {floats({512, 768}), floats({768, 768})},
       [](In x) { return x[0].matmul(x[1]); },
       "a @ b"},
      {"matmul broadcast",
       {floats({4, 1, 128, 256}), floats({8, 256, 128})},
       [](In x) { return x[0].matmul(x[1]); },
       "a @ b"},
      {"linear + bias + gelu",
       {floats({256, 768}), floats({1024, 768}), floats({1024})},
       [](In x) { return linear(x[0], x[1], x[2]).gelu(); },
       "F.gelu(F.linear(a, b, c))"},
      {"bmm",
       {floats({16, 128, 64}), floats({16, 64, 128})},
       [](In x) { return bmm(x[0], x[1]); },
       "torch.bmm(a, b)"},
      {"einsum bhid,bhjd",
       {floats({2, 8, 256, 64}), floats({2, 8, 256, 64})},
       [](In x) { return einsum("bhid,bhjd->bhij", {x[0], x[1]}); },
       "torch.einsum('bhid,bhjd->bhij', a, b)"},
      {"einsum bsi,hdi",
       {floats({2, 128, 512}), floats({8, 64, 512})},
       [](In x) { return einsum("bsi,hdi->bhsd", {x[0], x[1]}); },
       "torch.einsum('bsi,hdi->bhsd', a, b)"},
      {"einsum three",
       {floats({256, 256}), floats({256, 256}), floats({256, 256})},
       [](In x) { return einsum("ij,jk,kl->il", {x[0], x[1], x[2]}); },
       "torch.einsum('ij,jk,kl->il', a, b, c)"},
      {"outer",
       {floats({2048}), floats({2048})},
       [](In x) { return outer(x[0], x[1]); },
       "torch.outer(a, b)"},
      {"cdist",
       {floats({512, 64}), floats({512, 64})},
       [](In x) { return (x[0].unsqueeze(1) - x[1].unsqueeze(0)).square().sum(-1).sqrt(); },
       "torch.cdist(a, b)"},
      {"sdpa",
       {floats({1, 8, 512, 64}), floats({1, 8, 512, 64}), floats({1, 8, 512, 64})},
       [](In x) { return scaled_dot_product_attention(x[0], x[1], x[2]); },
       "F.scaled_dot_product_attention(a, b, c)"},
      {"sdpa causal",
       {floats({1, 8, 512, 64}), floats({1, 8, 512, 64}), floats({1, 8, 512, 64})},
       [](In x) { return scaled_dot_product_attention(x[0], x[1], x[2], {.causal = true}); },
       "F.scaled_dot_product_attention(a, b, c, is_causal=True)"},
      {"sdpa mask",
       {floats({1, 8, 512, 64}), floats({1, 8, 512, 64}), floats({1, 8, 512, 64}), floats({512, 512})},
       [](In x) { return scaled_dot_product_attention(x[0], x[1], x[2], {.mask = x[3] > -0.5}); },
       "F.scaled_dot_product_attention(a, b, c, attn_mask=d > -0.5)"},
      {"sdpa groups",
       {floats({1, 16, 256, 64}), floats({1, 4, 256, 64}), floats({1, 4, 256, 64})},
       [](In x) { return scaled_dot_product_attention(x[0], x[1], x[2]); },
       "F.scaled_dot_product_attention(a, b, c, enable_gqa=True)"},
      {"layer_norm",
       {floats({1024, 768}), floats({768}), floats({768})},
       [](In x) { return layer_norm(x[0], x[1], x[2]); },
       "F.layer_norm(a, (768,), b, c)"},
      {"rms_norm",
       {floats({1024, 768}), floats({768})},
       [](In x) { return rms_norm(x[0], x[1]); },
       "F.rms_norm(a, (768,), b, 1e-5)"},
      {"group_norm",
       {floats({4, 64, 32, 32}), floats({64}), floats({64})},
       [](In x) { return group_norm(x[0], 8, x[1], x[2]); },
       "F.group_norm(a, 8, b, c)"},
      {"softmax", {floats({1024, 1000}, -4, 4)}, [](In x) { return x[0].softmax(); }, "a.softmax(-1)"},
      {"softmax axis 0", {floats({1024, 1000}, -4, 4)}, [](In x) { return x[0].softmax(0); }, "a.softmax(0)"},
      {"log_softmax",
       {floats({64, 32000}, -4, 4)},
       [](In x) { return x[0].log_softmax(); },
       "a.log_softmax(-1)"},
      {"sum all", {floats({4096, 1024}, 0, 1)}, [](In x) { return x[0].sum(); }, "a.sum()"},
      {"sum axis 0", {floats({4096, 1024})}, [](In x) { return x[0].sum(0); }, "a.sum(0)"},
      {"var rows", {floats({2048, 1024})}, [](In x) { return x[0].var(-1); }, "a.var(-1)"},
      {"argmax rows", {floats({64, 32000})}, [](In x) { return x[0].argmax(-1); }, "a.argmax(-1)", {}, 1e-9},
      {"logsumexp", {floats({64, 32000}, -4, 4)}, [](In x) { return x[0].logsumexp(-1); }, "a.logsumexp(-1)"},
      {"max_pool 3/2",
       {floats({4, 64, 112, 112})},
       [](In x) { return max_pool(x[0], {3, 3}, {.stride = {2, 2}, .padding = 1}); },
       "F.max_pool2d(a, 3, 2, 1)"},
      {"avg_pool 2",
       {floats({4, 64, 112, 112})},
       [](In x) { return avg_pool(x[0], {2, 2}); },
       "F.avg_pool2d(a, 2)"},
      {"adaptive_avg_pool",
       {floats({4, 512, 14, 14})},
       [](In x) { return adaptive_avg_pool(x[0], {1, 1}); },
       "F.adaptive_avg_pool2d(a, 1)"},
      {"interpolate linear 2x",
       {floats({1, 64, 56, 56})},
       [](In x) { return interpolate(x[0], {112, 112}, Interpolation::linear); },
       "F.interpolate(a, (112, 112), mode='bilinear')"},
      {"cumsum rows", {floats({1024, 1024})}, [](In x) { return x[0].cumsum(-1); }, "a.cumsum(-1)"},
      {"cumsum axis 0", {floats({1024, 1024})}, [](In x) { return x[0].cumsum(0); }, "a.cumsum(0)"},
      {"cumsum line", {floats({1 << 20}, 0, 1)}, [](In x) { return x[0].cumsum(0); }, "a.cumsum(0)"},
      {"cummax rows", {floats({1024, 1024})}, [](In x) { return x[0].cummax(-1).values; }, "a.cummax(-1)"},
      {"embedding",
       {floats({32000, 512}), ids({2048}, 32000)},
       [](In x) { return embedding(x[0], x[1]); },
       "F.embedding(b, a)"},
      {"gather",
       {floats({1024, 1024}), ids({1024, 1024}, 1024)},
       [](In x) { return x[0].gather(1, x[1]); },
       "a.gather(1, b)"},
      {"index_add",
       {floats({4096, 256}), ids({8192}, 4096), floats({8192, 256})},
       [](In x) { return index_add(x[0], 0, x[1], x[2]); },
       "a.index_add(0, b, c)"},
      {"one_hot", {ids({2048}, 512)}, [](In x) { return one_hot(x[0], 512); }, "F.one_hot(a, 512)"},
      {"sort rows",
       {floats({256, 1024})},
       [](In x) { return x[0].sort(-1).values; },
       "a.sort(dim=-1, stable=True)"},
      {"sort line",
       {floats({1 << 17})},
       [](In x) { return x[0].sort(0).values; },
       "a.sort(dim=0, stable=True)"},
      {"argsort rows",
       {floats({256, 1024})},
       [](In x) { return x[0].argsort(-1); },
       "a.argsort(dim=-1, stable=True)",
       {},
       1e-9},
      {"topk 8 of 1024", {floats({256, 1024})}, [](In x) { return x[0].topk(8).values; }, "a.topk(8)"},
      {"topk 50 of 32000", {floats({8, 32000})}, [](In x) { return x[0].topk(50).values; }, "a.topk(50)"},
      {"concat",
       {floats({1024, 512}), floats({1024, 512})},
       [](In x) { return concat({x[0], x[1]}, 1); },
       "torch.cat([a, b], 1)"},
      {"concat computed",
       {floats({1024, 512}), floats({1024, 512})},
       [](In x) { return concat({x[0] * 2, x[1].relu()}, 1); },
       "torch.cat([a * 2, b.relu()], 1)"},
      {"stack computed",
       {floats({512, 1024}), floats({512, 1024})},
       [](In x) { return stack({x[0].exp(), x[1] + 1, x[0] * x[1]}, 0); },
       "torch.stack([a.exp(), b + 1, a * b])"},
      {"transpose copy",
       {floats({2048, 1024})},
       [](In x) { return x[0].transpose().contiguous() * 1.0; },
       "a.t().contiguous()"},
      {"permute copy",
       {floats({4, 64, 56, 56})},
       [](In x) { return x[0].permute({0, 2, 3, 1}) * 1.0; },
       "a.permute(0, 2, 3, 1).contiguous()"},
      {"pad reflect",
       {floats({4, 64, 56, 56})},
       [](In x) { return x[0].pad({{2, 2, 2}, {3, 2, 2}}, PadMode::reflect); },
       "F.pad(a, (2, 2, 2, 2), 'reflect')"},
      {"roll",
       {floats({1024, 1024})},
       [](In x) { return x[0].roll({7, 100}, {0, 1}); },
       "a.roll((7, 100), (0, 1))"},
      {"tril", {floats({2048, 2048})}, [](In x) { return x[0].tril(); }, "a.tril()"},
      {"where",
       {floats({1024, 1024}), floats({1024, 1024})},
       [](In x) { return where(x[0] > 0, x[0], x[1]); },
       "torch.where(a > 0, a, b)"},
      {"gelu", {floats({1024, 1024})}, [](In x) { return x[0].gelu(); }, "F.gelu(a)"},
      {"tanh", {floats({1024, 1024}, -4, 4)}, [](In x) { return x[0].tanh(); }, "a.tanh()"},
      {"sin", {floats({1024, 1024}, -9, 9)}, [](In x) { return x[0].sin(); }, "a.sin()"},
      {"pow",
       {floats({1024, 1024}, 0, 4), floats({1024, 1024})},
       [](In x) { return pow(x[0], x[1]); },
       "a ** b"},
      {"atan2",
       {floats({1024, 1024}), floats({1024, 1024})},
       [](In x) { return atan2(x[0], x[1]); },
       "torch.atan2(a, b)"},
      {"erf", {floats({1024, 1024}, -3, 3)}, [](In x) { return x[0].erf(); }, "a.erf()"},
      {"fft 1024",
       {floats({256, 1024, 2})},
       [](In x) { return fft(x[0]); },
       "torch.fft.fft(z)",
       "z = torch.view_as_complex(a)"},
      {"rfft 400", {floats({300, 400})}, [](In x) { return rfft(x[0]); }, "torch.fft.rfft(a)"},
      {"bincount",
       {ids({1 << 20}, 1000)},
       [](In x) { return bincount(x[0], 1000); },
       "a.bincount(minlength=1000)",
       {},
       1e-9},
      {"searchsorted",
       {floats({4096}), floats({1 << 18})},
       [](In x) { return searchsorted(x[0].sort(0).values, x[1]); },
       "torch.searchsorted(s, b)",
       "s = a.sort().values",
       1e-6},
  };
  return list;
}

std::string list_text(const std::vector<int64_t>& shape) {
  std::string text;
  for (int64_t e : shape) text += fmt::format("{},", e);
  return "(" + text + ")";
}

std::string torch_text(const Work& work) {
  std::string text;
  for (size_t i = 0; i < work.inputs.size(); i++) {
    const Input& in = work.inputs[i];
    text += fmt::format("{} = {}({}, {}, {}, {}); ", char('a' + int(i)), in.index ? "ints" : "floats", i,
                        list_text(in.shape), in.low, in.high);
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

/// Names and factors of what is slower than the peer.
using Slow = std::vector<std::pair<double, std::string>>;

void run(const Work& work, const Arguments& arguments, Torch& torch, Table& table, Slow& slow) {
  if (work.name.find(arguments.only) == std::string::npos) return;
  for (int threads : arguments.threads) {
    Graph g;
    std::vector<Tensor> in;
    for (const Input& input : work.inputs)
      in.push_back(g.tensor({input.shape.begin(), input.shape.end()}, input.index ? DType::i64 : DType::f32));
    Tensor out = work.make(in).keep();
    g.compile({.threads = threads});
    if (arguments.report) fmt::print("{}", g.report());
    for (size_t i = 0; i < in.size(); i++) {
      std::vector<double> values(size_t(in[i].element_count()));
      for (size_t k = 0; k < values.size(); k++) {
        values[k] = spread(int(i), int64_t(k), work.inputs[i]);
        if (work.inputs[i].index) values[k] = std::floor(values[k]);
      }
      in[i].set(values);
    }
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
      if (row.ours < row.limit)
        slow.emplace_back(row.limit / row.ours, fmt::format("{} ({} threads)", work.name, threads));
    }
    table.add(row);
  }
}

} // namespace

int main(int argc, char** argv) {
  const Arguments arguments = parse_arguments(
      argc, argv, "operations of the tensor interface against the same lines in PyTorch's eager mode");
  Torch torch;
  Table table(arguments, "operations");
  if (!torch.present()) table.note(torch.absent());
  Slow slow;
  for (const Work& work : works()) run(work, arguments, torch, table, slow);
  std::ranges::sort(slow, std::greater());
  for (const auto& [factor, name] : slow)
    table.note(fmt::format("slower than PyTorch, {:.2f} x the time: {}", factor, name));
}
