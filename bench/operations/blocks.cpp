// bench/operations/blocks.cpp -- blocks of networks for images: shortcuts, expansions, groups,
// concatenations, norms.
#include "operations/works.h"

namespace luminal::bench {
namespace {

Tensor conv3(const Tensor& x, const Tensor& w, int64_t groups = 1) {
  return conv2d(x, w, {}, {.padding = 1, .groups = groups});
}

/// x * sigmoid(W2 relu(W1 mean(x))).
Tensor squeeze_excite(const Tensor& x, const Tensor& down, const Tensor& up) {
  return x * conv2d(conv2d(x.mean({2, 3}, true), down).relu(), up).sigmoid();
}

} // namespace

const std::vector<Workload>& convolution_blocks() {
  static const Input w3 = weights({64, 64, 3, 3}), mean = weights({64}), variance = weights({64}, 0.5, 1);
  static const std::vector<Workload> list{
      {"residual block (ResNet)",
       {floats({1, 64, 28, 28}), w3, mean, variance, w3, mean, variance},
       [](In x) {
         const Tensor h = batch_norm(conv3(x[0], x[1]), x[2], x[3]).relu();
         return (batch_norm(conv3(h, x[4]), x[5], x[6]) + x[0]).relu();
       },
       "F.relu(F.batch_norm(F.conv2d(F.relu(F.batch_norm(F.conv2d(a, b, padding=1), c, d)), e, padding=1), "
       "f, g) + a)"},
      {"residual block with a projection /2",
       {floats({1, 64, 28, 28}), weights({128, 64, 3, 3}), weights({128, 128, 3, 3}),
        weights({128, 64, 1, 1})},
       [](In x) {
         const Tensor h = conv2d(x[0], x[1], {}, {.stride = 2, .padding = 1}).relu();
         return (conv3(h, x[2]) + conv2d(x[0], x[3], {}, {.stride = 2})).relu();
       },
       "F.relu(F.conv2d(F.relu(F.conv2d(a, b, stride=2, padding=1)), c, padding=1) + F.conv2d(a, d, "
       "stride=2))"},
      {"bottleneck in 32 groups (ResNeXt)",
       {floats({1, 256, 14, 14}), weights({128, 256, 1, 1}), weights({128, 4, 3, 3}),
        weights({256, 128, 1, 1})},
       [](In x) { return (conv2d(conv3(conv2d(x[0], x[1]).relu(), x[2], 32).relu(), x[3]) + x[0]).relu(); },
       "F.relu(F.conv2d(F.relu(F.conv2d(F.relu(F.conv2d(a, b)), c, padding=1, groups=32)), d) + a)"},
      {"groups, channel shuffle, depthwise (ShuffleNet)",
       {floats({1, 96, 28, 28}), weights({96, 32, 1, 1}), weights({96, 1, 3, 3})},
       [](In x) { return conv3(channel_shuffle(conv2d(x[0], x[1], {}, {.groups = 3}).relu(), 3), x[2], 96); },
       "F.conv2d(F.channel_shuffle(F.relu(F.conv2d(a, b, groups=3)), 3), c, padding=1, groups=96)"},
      {"depthwise, relu6, pointwise (MobileNet)",
       {floats({1, 128, 28, 28}), weights({128, 1, 3, 3}), weights({128, 128, 1, 1})},
       [](In x) { return conv2d(conv3(x[0], x[1], 128).relu6(), x[2]).relu6(); },
       "F.relu6(F.conv2d(F.relu6(F.conv2d(a, b, padding=1, groups=128)), c))"},
      {"inverted residual, hardswish (MobileNetV3)",
       {floats({1, 40, 28, 28}), weights({120, 40, 1, 1}), weights({120, 1, 3, 3}), weights({40, 120, 1, 1})},
       [](In x) { return conv2d(conv3(conv2d(x[0], x[1]).hardswish(), x[2], 120).hardswish(), x[3]) + x[0]; },
       "F.conv2d(F.hardswish(F.conv2d(F.hardswish(F.conv2d(a, b)), c, padding=1, groups=120)), d) + a"},
      {"squeeze-excite (MobileNetV3)",
       {floats({1, 120, 28, 28}), weights({32, 120, 1, 1}), weights({120, 32, 1, 1})},
       [](In x) { return squeeze_excite(x[0], x[1], x[2]); },
       "a * torch.sigmoid(F.conv2d(F.relu(F.conv2d(a.mean((2, 3), True), b)), c))"},
      {"depthwise 5x5, silu, squeeze-excite (EfficientNet)",
       {floats({1, 144, 28, 28}), weights({144, 1, 5, 5}), weights({8, 144, 1, 1}), weights({144, 8, 1, 1})},
       [](In x) {
         return squeeze_excite(conv2d(x[0], x[1], {}, {.padding = 2, .groups = 144}).silu(), x[2], x[3]);
       },
       "(h := F.silu(F.conv2d(a, b, padding=2, groups=144)), h * torch.sigmoid(F.conv2d(F.relu(F.conv2d("
       "h.mean((2, 3), True), c)), d)))[1]"},
      {"depthwise 7x7, norm, linear, gelu, linear (ConvNeXt)",
       {floats({1, 96, 28, 28}), weights({96, 1, 7, 7}), weights({96}), weights({96}), weights({384, 96}),
        weights({384}), weights({96, 384}), weights({96})},
       [](In x) {
         const Tensor h = conv2d(x[0], x[1], {}, {.padding = 3, .groups = 96}).permute({0, 2, 3, 1});
         return linear(linear(layer_norm(h, x[2], x[3]), x[4], x[5]).gelu(), x[6], x[7])
                    .permute({0, 3, 1, 2}) +
                x[0];
       },
       "F.linear(F.gelu(F.linear(F.layer_norm(F.conv2d(a, b, padding=3, groups=96).permute(0, 2, 3, 1), "
       "(96,), c, d), "
       "e, f)), g, h).permute(0, 3, 1, 2) + a"},
      {"1x1, 3x3, 5x5, pool and 1x1, concat (Inception)",
       {floats({1, 64, 28, 28}), weights({32, 64, 1, 1}), w3, weights({16, 64, 5, 5}),
        weights({16, 64, 1, 1})},
       [](In x) {
         return concat({conv2d(x[0], x[1]), conv3(x[0], x[2]), conv2d(x[0], x[3], {}, {.padding = 2}),
                        conv2d(max_pool(x[0], {3, 3}, {.stride = {1, 1}, .padding = 1}), x[4])},
                       1);
       },
       "torch.cat([F.conv2d(a, b), F.conv2d(a, c, padding=1), F.conv2d(a, d, padding=2), "
       "F.conv2d(F.max_pool2d(a, 3, "
       "1, 1), e)], 1)"},
      {"concat of a convolution, convolution (DenseNet)",
       {floats({1, 64, 28, 28}), weights({32, 64, 3, 3}), weights({32, 96, 3, 3})},
       [](In x) { return conv3(concat({x[0], conv3(x[0], x[1]).relu()}, 1), x[2]).relu(); },
       "F.relu(F.conv2d(torch.cat([a, F.relu(F.conv2d(a, b, padding=1))], 1), c, padding=1))"},
      {"group norm, silu, conv (diffusion)",
       {floats({1, 64, 32, 32}), weights({64}), weights({64}), w3, weights({64})},
       [](In x) { return conv2d(group_norm(x[0], 8, x[1], x[2]).silu(), x[3], x[4], {.padding = 1}); },
       "F.conv2d(F.silu(F.group_norm(a, 8, b, c)), d, e, padding=1)"},
      {"block with a time embedding (diffusion)",
       {floats({1, 64, 32, 32}), floats({1, 128}), weights({64}), weights({64}), w3, weights({64, 128}), w3},
       [](In x) {
         const Tensor time = linear(x[1].silu(), x[5]).reshape({1, 64, 1, 1});
         const Tensor h = conv3(group_norm(x[0], 8, x[2], x[3]).silu(), x[4]) + time;
         return conv3(group_norm(h, 8, x[2], x[3]).silu(), x[6]) + x[0];
       },
       "F.conv2d(F.silu(F.group_norm(F.conv2d(F.silu(F.group_norm(a, 8, c, d)), e, padding=1) + "
       "F.linear(F.silu(b), "
       "f).reshape(1, 64, 1, 1), 8, c, d)), g, padding=1) + a"},
      {"attention of an image (diffusion)",
       {floats({1, 64, 16, 16}), weights({64}), weights({64}), weights({192, 64, 1, 1}),
        weights({64, 64, 1, 1})},
       [](In x) {
         const auto qkv =
             conv2d(group_norm(x[0], 8, x[1], x[2]), x[3]).reshape({1, 3, 64, 256}).transpose().unbind(1);
         const Tensor y = scaled_dot_product_attention(qkv[0], qkv[1], qkv[2]);
         return conv2d(y.transpose().reshape({1, 64, 16, 16}), x[4]) + x[0];
       },
       "(q := F.conv2d(F.group_norm(a, 8, b, c), d).reshape(1, 3, 64, 256).transpose(-1, -2), F.conv2d("
       "F.scaled_dot_product_attention(q[:, 0], q[:, 1], q[:, 2]).transpose(1, 2).reshape(1, 64, 16, 16), e) "
       "+ a)[1]"},
      {"U-Net: two levels",
       {floats({1, 16, 32, 32}), weights({32, 16, 3, 3}), weights({32, 32, 3, 3}), weights({16, 48, 3, 3})},
       [](In x) {
         const Tensor low = conv3(conv3(max_pool(x[0], {2, 2}), x[1]).relu(), x[2]).relu();
         return conv3(concat({interpolate(low, {32, 32}), x[0]}, 1), x[3]).relu();
       },
       "F.relu(F.conv2d(torch.cat([F.interpolate(F.relu(F.conv2d(F.relu(F.conv2d(F.max_pool2d(a, 2), b, "
       "padding=1)), "
       "c, padding=1)), (32, 32)), a], 1), d, padding=1))"},
      {"instance norm, relu, reflect pad, conv (style)",
       {floats({1, 32, 56, 56}), weights({32, 32, 3, 3})},
       [](In x) {
         return conv2d(instance_norm(x[0]).relu().pad({{2, 1, 1}, {3, 1, 1}}, PadMode::reflect), x[1]);
       },
       "F.conv2d(F.pad(F.relu(F.instance_norm(a)), (1, 1, 1, 1), 'reflect'), b)"},
      {"bf16 residual block (ResNet)",
       {halves(floats({1, 64, 28, 28})), halves(w3), halves(w3)},
       [](In x) { return (conv3(conv3(x[0], x[1]).relu(), x[2]) + x[0]).relu(); },
       "F.relu(F.conv2d(F.relu(F.conv2d(a, b, padding=1)), c, padding=1) + a)",
       {},
       2e-3},
      {"bf16 inverted residual (MobileNet)",
       {halves(floats({1, 40, 28, 28})), halves(weights({120, 40, 1, 1})), halves(weights({120, 1, 3, 3})),
        halves(weights({40, 120, 1, 1}))},
       [](In x) { return conv2d(conv3(conv2d(x[0], x[1]).relu6(), x[2], 120).relu6(), x[3]) + x[0]; },
       "F.conv2d(F.relu6(F.conv2d(F.relu6(F.conv2d(a, b)), c, padding=1, groups=120)), d) + a",
       {},
       2e-3},
  };
  return list;
}

} // namespace luminal::bench
