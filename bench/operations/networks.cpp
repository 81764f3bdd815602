// bench/operations/networks.cpp -- batches of small images in odd numbers of channels, and the blocks
// that networks for images are made of.
#include "operations/works.h"
#include <fmt/format.h>

namespace luminal::bench {
namespace {

Tensor windows(const Tensor& x, const Tensor& w, int64_t stride = 1, int64_t groups = 1) {
  return conv2d(x, w, {}, {.stride = stride, .padding = w.dim(2).value() / 2, .groups = groups});
}
/// With a bias.
Tensor biased(const Tensor& x, const Tensor& w, const Tensor& bias) {
  return conv2d(x, w, bias, {.padding = w.dim(2).value() / 2});
}
Tensor norm_relu(const Tensor& x, const Tensor& mean, const Tensor& variance) {
  return batch_norm(x, mean, variance).relu();
}
std::string conv_text(const std::string& x, char w, int64_t padding, char bias = 0) {
  return fmt::format("F.conv2d({}, {}{}{}, padding={})", x, w, bias ? ", " : "",
                     bias ? std::string(1, bias) : std::string(), padding);
}

struct Image {
  int64_t batch, channels, height, width, out;
};

void add_images(std::vector<Workload>& list) {
  for (const Image& s :
       {Image{8, 96, 7, 7, 208}, Image{16, 112, 7, 7, 224}, Image{64, 48, 7, 7, 62}, Image{8, 62, 7, 3, 96},
        Image{64, 62, 7, 3, 48}, Image{16, 96, 4, 4, 96}, Image{64, 112, 4, 4, 112},
        Image{64, 208, 2, 2, 112}, Image{8, 112, 2, 2, 208}, Image{64, 208, 1, 1, 96}}) {
    const std::string size =
        fmt::format("{} x {} x {} x {} to {}", s.batch, s.channels, s.height, s.width, s.out);
    const Input image = floats({s.batch, s.channels, s.height, s.width}),
                w3 = weights({s.out, s.channels, 3, 3}), w1 = weights({s.out, s.channels, 1, 1}),
                bias = weights({s.out});
    list.push_back({"small conv 3x3, bias, relu " + size,
                    {image, w3, bias},
                    [](In x) { return biased(x[0], x[1], x[2]).relu(); },
                    "F.relu(F.conv2d(a, b, c, padding=1))"});
    list.push_back({"small conv 1x1, bias, relu " + size,
                    {image, w1, bias},
                    [](In x) { return biased(x[0], x[1], x[2]).relu(); },
                    "F.relu(F.conv2d(a, b, c))"});
    if (s.height < 2 || s.width < 2) continue;
    list.push_back({"small conv 1x1, relu, conv 3x3 /2 " + size,
                    {image, w1, bias, weights({s.channels, s.out, 3, 3})},
                    [](In x) { return windows(biased(x[0], x[1], x[2]).relu(), x[3], 2); },
                    "F.conv2d(F.relu(F.conv2d(a, b, c)), d, padding=1, stride=2)"});
  }
  for (const auto& [batch, channels, size] :
       {std::array<int64_t, 3>{16, 96, 7}, {64, 48, 4}, {8, 208, 7}, {64, 112, 2}}) {
    const Input image = floats({batch, channels, size, size}), w = weights({channels, 1, 3, 3});
    const std::string name = fmt::format("{} x {} x {} x {}", batch, channels, size, size);
    list.push_back({"small depthwise, relu6 " + name,
                    {image, w, weights({channels})},
                    [channels = channels](In x) {
                      return conv2d(x[0], x[1], x[2], {.padding = 1, .groups = channels}).relu6();
                    },
                    fmt::format("F.relu6(F.conv2d(a, b, c, padding=1, groups={}))", channels)});
    list.push_back(
        {"small depthwise, relu6, 1x1 " + name,
         {image, w, weights({channels, channels, 1, 1})},
         [channels = channels](In x) { return conv2d(windows(x[0], x[1], 1, channels).relu6(), x[2]); },
         fmt::format("F.conv2d(F.relu6(F.conv2d(a, b, padding=1, groups={})), c)", channels)});
    list.push_back({"small conv in 4 groups, relu " + name,
                    {image, weights({channels, channels / 4, 3, 3})},
                    [](In x) { return windows(x[0], x[1], 1, 4).relu(); },
                    "F.relu(F.conv2d(a, b, padding=1, groups=4))"});
    list.push_back({"small conv, relu, mean, linear " + name,
                    {image, weights({channels, channels, 3, 3}), weights({62, channels})},
                    [](In x) { return linear(windows(x[0], x[1]).relu().mean({2, 3}), x[2]); },
                    "F.linear(F.relu(F.conv2d(a, b, padding=1)).mean((2, 3)), c)"});
    list.push_back({"small conv, relu, flatten, linear " + name,
                    {image, weights({48, channels, 3, 3}), weights({62, 48 * size * size})},
                    [](In x) { return linear(windows(x[0], x[1]).relu().flatten(1), x[2]); },
                    "F.linear(F.relu(F.conv2d(a, b, padding=1)).flatten(1), c)"});
    list.push_back(
        {"small max pool, conv 1x1 " + name,
         {image, weights({62, channels, 1, 1})},
         [](In x) { return conv2d(max_pool(x[0], {3, 3}, {.stride = {1, 1}, .padding = 1}), x[1]).relu(); },
         "F.relu(F.conv2d(F.max_pool2d(a, 3, 1, 1), b))"});
  }
}

/// Four branches: a, then of each convolution its weights and bias.
Workload inception(int64_t batch, int64_t size, int64_t in, std::array<int64_t, 6> c) {
  std::vector<Input> inputs{floats({batch, in, size, size})};
  const auto convolution = [&](int64_t from, int64_t to, int64_t window) {
    inputs.push_back(weights({to, from, window, window}));
    inputs.push_back(weights({to}));
  };
  convolution(in, c[0], 1);
  convolution(in, c[1], 1), convolution(c[1], c[2], 3);
  convolution(in, c[3], 1), convolution(c[3], c[4], 5);
  convolution(in, c[5], 1);
  const auto relu = [](const std::string& x) { return "F.relu(" + x + ")"; };
  const auto one = [&](const std::string& x, char w) { return relu(conv_text(x, w, 0, char(w + 1))); };
  return {fmt::format("Inception {} x {} x {} x {}", batch, in, size, size), inputs,
          [](In x) {
            const auto conv = [&](const Tensor& t, size_t w) { return biased(t, x[w], x[w + 1]).relu(); };
            return concat({conv(x[0], 1), conv(conv(x[0], 3), 5), conv(conv(x[0], 7), 9),
                           conv(max_pool(x[0], {3, 3}, {.stride = {1, 1}, .padding = 1}), 11)},
                          1);
          },
          "torch.cat([" + one("a", 'b') + ", " + relu(conv_text(one("a", 'd'), 'f', 1, 'g')) + ", " +
              relu(conv_text(one("a", 'h'), 'j', 2, 'k')) + ", " + one("F.max_pool2d(a, 3, 1, 1)", 'l') +
              "], 1)"};
}

/// Two fire modules, and a pool between them or none.
Workload fire(int64_t batch, int64_t size, int64_t in, int64_t squeezed, int64_t expanded, bool pool) {
  std::vector<Input> inputs{floats({batch, in, size, size})};
  for (const int64_t from : {in, 2 * expanded})
    inputs.insert(inputs.end(),
                  {weights({squeezed, from, 1, 1}), weights({squeezed}), weights({expanded, squeezed, 1, 1}),
                   weights({expanded}), weights({expanded, squeezed, 3, 3}), weights({expanded})});
  const auto text = [](const std::string& x, char name, char w) {
    return fmt::format("({} := F.relu({}), torch.cat([F.relu({}), F.relu({})], 1))[1]", std::string(2, name),
                       conv_text(x, w, 0, char(w + 1)),
                       conv_text(std::string(2, name), char(w + 2), 0, char(w + 3)),
                       conv_text(std::string(2, name), char(w + 4), 1, char(w + 5)));
  };
  const std::string first = text("a", 's', 'b'),
                    second = text(pool ? "F.max_pool2d(" + first + ", 3, 2)" : first, 't', 'h');
  return {fmt::format("fire, {}fire {} x {} x {} x {}", pool ? "pool, " : "", batch, in, size, size), inputs,
          [pool](In x) {
            const auto conv = [&](const Tensor& t, size_t w) { return biased(t, x[w], x[w + 1]).relu(); };
            const auto module = [&](const Tensor& t, size_t w) {
              const Tensor s = conv(t, w);
              return concat({conv(s, w + 2), conv(s, w + 4)}, 1);
            };
            const Tensor h = module(x[0], 1);
            return module(pool ? max_pool(h, {3, 3}, {.stride = {2, 2}}) : h, 7);
          },
          second};
}

/// Four layers of norm, relu and a convolution, each of which reads all before it.
Workload dense(int64_t batch, int64_t size, int64_t in, int64_t growth) {
  std::vector<Input> inputs{floats({batch, in, size, size})};
  std::string text, read = "a"; // all that came before
  for (int64_t k = 0; k < 4; k++) {
    const int64_t from = in + k * growth;
    inputs.insert(inputs.end(), {weights({from}), weights({from}, 0.5, 1), weights({growth, from, 3, 3})});
    const char w = char('b' + 3 * k);
    text += fmt::format("t{} := F.conv2d(F.relu(F.batch_norm({}, {}, {})), {}, padding=1), ", k,
                        k ? "torch.cat([" + read + "], 1)" : read, w, char(w + 1), char(w + 2));
    read += fmt::format(", t{}", k);
  }
  return {fmt::format("dense block {} x {} x {} x {}", batch, in, size, size), inputs,
          [](In x) {
            std::vector<Tensor> all{x[0]};
            for (size_t k = 0; k < 4; k++) {
              const Tensor h = k ? concat(all, 1) : x[0];
              all.push_back(windows(norm_relu(h, x[3 * k + 1], x[3 * k + 2]), x[3 * k + 3]));
            }
            return concat(all, 1);
          },
          fmt::format("({}torch.cat([{}], 1))[4]", text, read)};
}

/// Expansion, depthwise windows, squeeze and excite, projection.
Workload mobile(int64_t batch, int64_t size, int64_t in, int64_t wide, int64_t window) {
  const int64_t narrow = std::max<int64_t>(1, in / 4);
  return {fmt::format("MBConv {}x{} {} x {} x {} x {}", window, window, batch, in, size, size),
          {floats({batch, in, size, size}), weights({wide, in, 1, 1}), weights({wide}),
           weights({wide}, 0.5, 1), weights({wide, 1, window, window}), weights({wide}),
           weights({wide}, 0.5, 1), weights({narrow, wide, 1, 1}), weights({narrow}),
           weights({wide, narrow, 1, 1}), weights({wide}), weights({in, wide, 1, 1}), weights({in}),
           weights({in}, 0.5, 1)},
          [wide](In x) {
            Tensor h = batch_norm(conv2d(x[0], x[1]), x[2], x[3]).silu();
            h = batch_norm(windows(h, x[4], 1, wide), x[5], x[6]).silu();
            h = h * conv2d(conv2d(h.mean({2, 3}, true), x[7], x[8]).silu(), x[9], x[10]).sigmoid();
            return batch_norm(conv2d(h, x[11]), x[12], x[13]) + x[0];
          },
          fmt::format("(s := F.silu(F.batch_norm(F.conv2d(F.silu(F.batch_norm(F.conv2d(a, b), c, d)), e, "
                      "padding={}, groups={}), f, g)), F.batch_norm(F.conv2d(s * torch.sigmoid(F.conv2d("
                      "F.silu(F.conv2d(s.mean((2, 3), True), h, i)), j, k)), l), m, n) + a)[1]",
                      window / 2, wide)};
}

/// Halves: one goes through 1x1, depthwise and 1x1, both are shuffled.
Workload shuffle(int64_t batch, int64_t size, int64_t channels) {
  const int64_t half = channels / 2;
  return {fmt::format("ShuffleNet unit {} x {} x {} x {}", batch, channels, size, size),
          {floats({batch, channels, size, size}), weights({half, half, 1, 1}), weights({half}),
           weights({half, 1, 3, 3}), weights({half}), weights({half, half, 1, 1}), weights({half})},
          [half](In x) {
            const auto parts = x[0].chunk(2, 1);
            Tensor h = biased(parts[1], x[1], x[2]).relu();
            h = biased(conv2d(h, x[3], x[4], {.padding = 1, .groups = half}), x[5], x[6]).relu();
            return channel_shuffle(concat({parts[0], h}, 1), 2);
          },
          fmt::format("(s := a.chunk(2, 1), F.channel_shuffle(torch.cat([s[0], F.relu(F.conv2d(F.conv2d("
                      "F.relu(F.conv2d(s[1], b, c)), d, e, padding=1, groups={}), f, g))], 1), 2))[1]",
                      half)};
}

void add_blocks(std::vector<Workload>& list) {
  list.push_back(inception(1, 14, 480, {192, 96, 208, 16, 48, 64}));
  list.push_back(inception(8, 14, 112, {96, 48, 96, 16, 48, 62}));
  list.push_back(inception(8, 7, 208, {112, 96, 208, 48, 62, 96}));
  list.push_back(inception(64, 4, 62, {48, 48, 62, 16, 48, 48}));
  list.push_back(fire(1, 27, 96, 16, 64, true));
  list.push_back(fire(8, 13, 112, 48, 96, false));
  list.push_back(fire(16, 7, 96, 16, 62, true));
  list.push_back(fire(64, 4, 48, 16, 48, false));
  list.push_back(dense(1, 14, 96, 32));
  list.push_back(dense(8, 7, 112, 48));
  list.push_back(dense(64, 4, 62, 16));
  list.push_back(mobile(1, 14, 112, 672, 5));
  list.push_back(mobile(8, 7, 96, 208, 3));
  list.push_back(mobile(64, 4, 48, 112, 3));
  list.push_back(shuffle(1, 28, 116));
  list.push_back(shuffle(8, 14, 232));
  list.push_back(shuffle(64, 4, 96));
  list.push_back({"residual block 16 x 112 x 7 x 7",
                  {floats({16, 112, 7, 7}), weights({112, 112, 3, 3}), weights({112}), weights({112}, 0.5, 1),
                   weights({112, 112, 3, 3}), weights({112}), weights({112}, 0.5, 1)},
                  [](In x) {
                    const Tensor h = norm_relu(windows(x[0], x[1]), x[2], x[3]);
                    return (batch_norm(windows(h, x[4]), x[5], x[6]) + x[0]).relu();
                  },
                  "F.relu(F.batch_norm(F.conv2d(F.relu(F.batch_norm(F.conv2d(a, b, padding=1), c, d)), e, "
                  "padding=1), f, g) + a)"});
  list.push_back(
      {"groups of 1x1, shuffle, depthwise, groups of 1x1 8 x 240 x 7 x 7",
       {floats({8, 240, 7, 7}), weights({60, 80, 1, 1}), weights({60, 1, 3, 3}), weights({240, 20, 1, 1})},
       [](In x) {
         const Tensor h = channel_shuffle(conv2d(x[0], x[1], {}, {.groups = 3}).relu(), 3);
         return (conv2d(windows(h, x[2], 1, 60), x[3], {}, {.groups = 3}) + x[0]).relu();
       },
       "F.relu(F.conv2d(F.conv2d(F.channel_shuffle(F.relu(F.conv2d(a, b, groups=3)), 3), c, "
       "padding=1, groups=60), d, groups=3) + a)"});
  list.push_back({"conv 5x5, pool, conv 5x5, pool, linear, linear (LeNet) 64",
                  {floats({64, 1, 28, 28}), weights({6, 1, 5, 5}), weights({6}), weights({16, 6, 5, 5}),
                   weights({16}), weights({120, 256}), weights({120}), weights({84, 120}), weights({84})},
                  [](In x) {
                    Tensor h = max_pool(conv2d(x[0], x[1], x[2]).relu(), {2, 2});
                    h = max_pool(conv2d(h, x[3], x[4]).relu(), {2, 2}).flatten(1);
                    return linear(linear(h, x[5], x[6]).relu(), x[7], x[8]);
                  },
                  "F.linear(F.relu(F.linear(F.max_pool2d(F.relu(F.conv2d(F.max_pool2d(F.relu(F.conv2d(a, b, "
                  "c)), 2), d, e)), 2).flatten(1), f, g)), h, i)"});
  list.push_back(
      {"conv 3x3, relu, conv 3x3, relu, pool (VGG) 8 x 48 x 14 x 14",
       {floats({8, 48, 14, 14}), weights({96, 48, 3, 3}), weights({96}), weights({96, 96, 3, 3}),
        weights({96})},
       [](In x) { return max_pool(biased(biased(x[0], x[1], x[2]).relu(), x[3], x[4]).relu(), {2, 2}); },
       "F.max_pool2d(F.relu(F.conv2d(F.relu(F.conv2d(a, b, c, padding=1)), d, e, padding=1)), 2)"});
  list.push_back(
      {"norm, relu, conv 1x1, average pool (transition) 16 x 208 x 14 x 14",
       {floats({16, 208, 14, 14}), weights({208}), weights({208}, 0.5, 1), weights({104, 208, 1, 1})},
       [](In x) { return avg_pool(conv2d(norm_relu(x[0], x[1], x[2]), x[3]), {2, 2}); },
       "F.avg_pool2d(F.conv2d(F.relu(F.batch_norm(a, b, c)), d), 2)"});
  list.push_back({"transposed 4x4 of 1x1, norm, relu, transposed 4x4 /2 (DCGAN) 16",
                  {floats({16, 100, 1, 1}), weights({100, 112, 4, 4}), weights({112}), weights({112}, 0.5, 1),
                   weights({112, 48, 4, 4})},
                  [](In x) {
                    const Tensor h = norm_relu(conv_transpose(x[0], x[1]), x[2], x[3]);
                    return conv_transpose(h, x[4], {}, {.stride = 2, .padding = 1}).tanh();
                  },
                  "torch.tanh(F.conv_transpose2d(F.relu(F.batch_norm(F.conv_transpose2d(a, b), c, d)), e, "
                  "stride=2, padding=1))"});
  list.push_back(
      {"conv, every second row and column, conv 8 x 48 x 14 x 14",
       {floats({8, 48, 14, 14}), weights({62, 48, 3, 3}), weights({96, 62, 3, 3})},
       [](In x) { return windows(windows(x[0], x[1]).relu().slice(2, 0, 14, 2).slice(3, 0, 14, 2), x[2]); },
       "F.conv2d(F.relu(F.conv2d(a, b, padding=1))[:, :, ::2, ::2], c, padding=1)"});
  list.push_back({"products with a common matrix, relu, products 16 x 49 x 96",
                  {floats({16, 49, 96}), weights({96, 208}), weights({208}), weights({16, 208, 62})},
                  [](In x) { return (x[0].matmul(x[1]) + x[2]).relu().matmul(x[3]); },
                  "torch.relu(a @ b + c) @ d"});
  list.push_back({"a common matrix times products 16 x 96 x 49",
                  {floats({16, 96, 49}), weights({112, 96}), weights({112, 1})},
                  [](In x) { return (x[1].matmul(x[0]) + x[2]).relu(); },
                  "torch.relu(b @ a + c)"});
  list.push_back({"tokens mixed, channels mixed (MLP-Mixer) 8 x 49 x 96",
                  {floats({8, 49, 96}), weights({48, 49}), weights({48}), weights({49, 48}), weights({49}),
                   weights({208, 96}), weights({96, 208})},
                  [](In x) {
                    const Tensor t = linear(linear(x[0].transpose(), x[1], x[2]).gelu(), x[3], x[4]);
                    const Tensor h = t.transpose() + x[0];
                    return linear(linear(h, x[5]).gelu(), x[6]) + h;
                  },
                  "(s := F.linear(F.gelu(F.linear(a.transpose(1, 2), b, c)), d, e).transpose(1, 2) + a, "
                  "F.linear(F.gelu(F.linear(s, f)), g) + s)[1]"});
}

} // namespace

const std::vector<Workload>& small_networks() {
  static const std::vector<Workload> list = [] {
    std::vector<Workload> made;
    add_images(made);
    add_blocks(made);
    return made;
  }();
  return list;
}

} // namespace luminal::bench
