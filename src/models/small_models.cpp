// models/small_models.cpp -- ResNet-20 of CIFAR-10, KWT-1, Silero VAD.
#include "luminal/indexing.h"
#include "luminal/models.h"
#include "luminal/random.h"
#include <fmt/format.h>

namespace luminal::models {

CifarResNet::Block::Block(const nn::Scope& s, int64_t in_, int64_t out_, int64_t stride_,
                          std::source_location where)
    : in(in_), out(out_), stride(stride_),
      conv1(s / "conv1", in, out, 3, {.stride = stride, .padding = 1, .bias = false}, where),
      conv2(s / "conv2", out, out, 3, {.padding = 1, .bias = false}, where), bn1(s / "bn1", out, {}, where),
      bn2(s / "bn2", out, {}, where) {}
Tensor CifarResNet::Block::operator()(const Tensor& x, std::source_location where) const {
  const Tensor y = bn2(conv2(bn1(conv1(x, where), where).relu(), where), where);
  // The shortcut takes every second point, and zeros are the channels that it lacks.
  Tensor shortcut = x;
  if (stride != 1) shortcut = x.slice({{}, {}, {0, x.dim(2), stride}, {0, x.dim(3), stride}});
  if (in != out) shortcut = shortcut.pad(1, (out - in) / 2, (out - in) / 2);
  return (y + shortcut).relu();
}

CifarResNet::CifarResNet(const nn::Scope& s, int64_t blocks, int64_t classes, std::source_location where)
    : Module(s), conv_(s / "conv1", 3, 16, 3, {.padding = 1, .bias = false}, where),
      bn_(s / "bn1", 16, {}, where), linear_(s / "linear", 64, classes, {}, where) {
  int64_t in = 16;
  for (int64_t stage = 0; stage < 3; stage++)
    for (int64_t i = 0; i < blocks; i++) {
      const int64_t out = int64_t(16) << stage;
      blocks_.emplace_back(s / fmt::format("layer{}", stage + 1) / i, in, out, i == 0 && stage > 0 ? 2 : 1,
                           where);
      in = out;
    }
}
Tensor CifarResNet::operator()(const Tensor& x, std::source_location where) const {
  Tensor y = bn_(conv_(x, where), where).relu();
  for (const Block& block : blocks_) y = block(y, where);
  return linear_(y.mean({2, 3}), where);
}

KeywordTransformer::Block::Block(const nn::Scope& s, std::source_location where)
    : query(s / "attn" / "query", 64, 64, {.bias = false}, where),
      key(s / "attn" / "key", 64, 64, {.bias = false}, where),
      value(s / "attn" / "value", 64, 64, {.bias = false}, where), out(s / "attn" / "out", 64, 64, {}, where),
      fc1(s / "mlp" / "fc1", 64, 256, {}, where), fc2(s / "mlp" / "fc2", 256, 64, {}, where),
      ln1(s / "ln1", 64, {.eps = 1e-6}, where), ln2(s / "ln2", 64, {.eps = 1e-6}, where) {}

KeywordTransformer::KeywordTransformer(const nn::Scope& s, std::source_location where)
    : Module(s), patch_(s / "patch", 40, 64, {}, where), head_(s / "head", 64, 12, {}, where) {
  const auto parameter = [&](const nn::Scope& at, const char* name, std::vector<int64_t> shape) {
    return at.parameter(name, std::move(shape), nn::init::normal(0, 0.02), where);
  };
  const nn::Scope front = s / "frontend";
  window_ = parameter(front, "window", {480});
  real_ = parameter(front, "dft_re", {244, 480});
  imaginary_ = parameter(front, "dft_im", {244, 480});
  mel_ = parameter(front, "mel", {80, 244});
  dct_ = parameter(front, "dct", {40, 80});
  shift_ = parameter(front, "norm_sub", {1});
  factor_ = parameter(front, "norm_mul", {40});
  class_ = parameter(s, "class_emb", {1, 1, 64});
  positions_ = parameter(s, "pos_emb", {1, 99, 64});
  for (int64_t i = 0; i < 12; i++) blocks_.emplace_back(s / "blocks" / i, where);
}
Tensor KeywordTransformer::mfcc(const Tensor& samples, std::source_location where) const {
  const Tensor frames = samples.windows(0, 480, 160, 1, where) * window_.value(); // [98, 480]
  const Tensor magnitude =
      (frames.matmul(real_.value().t()).square() + frames.matmul(imaginary_.value().t()).square()).sqrt();
  const Tensor log = maximum(magnitude.matmul(mel_.value().t()), 1e-12).log();
  return (log.matmul(dct_.value().t()) - shift_.value()) * factor_.value();
}
Tensor KeywordTransformer::classify(const Tensor& coefficients, std::source_location where) const {
  Tensor x = concat({class_.value().squeeze(0), patch_(coefficients, where)}, 0, where) +
             positions_.value().squeeze(0);
  for (const Block& block : blocks_) {
    const Tensor mixed =
        scaled_dot_product_attention(block.query(x), block.key(x), block.value(x), {}, where);
    x = block.ln1(x + block.out(mixed), where);
    x = block.ln2(x + block.fc2(block.fc1(x).gelu_tanh()), where);
  }
  return head_(x.select(0, 0), where);
}

SileroVad::SileroVad(const nn::Scope& s, std::source_location where)
    : Module(s), stft_(s / "stft_conv", 1, 258, 256, {.stride = 128, .bias = false}, where),
      last_(s / "final_conv", 128, 1, 1, {}, where) {
  constexpr int64_t channels[] = {129, 128, 64, 64, 128}, strides[] = {1, 2, 2, 1};
  for (size_t i = 0; i < 4; i++)
    convs_.emplace_back(s / fmt::format("conv{}", i + 1), channels[i], channels[i + 1], 3,
                        nn::ConvModuleOptions{.stride = strides[i], .padding = 1}, where);
  const nn::Scope cell = s / "lstm_cell";
  const auto parameter = [&](const char* name, std::vector<int64_t> shape) {
    return cell.parameter(name, std::move(shape), nn::init::uniform(-0.09, 0.09), where);
  };
  ih_ = parameter("weight_ih", {512, 128});
  hh_ = parameter("weight_hh", {512, 128});
  bias_ih_ = parameter("bias_ih", {512});
  bias_hh_ = parameter("bias_hh", {512});
}
SileroVad::Result SileroVad::operator()(const Tensor& chunks, const Tensor& before,
                                        const nn::RecurrentState& state, std::source_location where) const {
  Graph g = scope().graph();
  const Dim count = chunks.dim(0, where);
  // Each chunk stands behind the last 64 samples of the one before.
  const Tensor ends = chunks.slice(1, 448, 512);
  const Tensor heads = concat({before.unsqueeze(0), ends.slice(0, 0, count - 1)}, 0, where);
  Tensor x = concat({heads, chunks}, 1, where).pad({{1, 0, 64}}, PadMode::reflect); // [chunks, 640]
  const Tensor spectrum = stft_(x.unsqueeze(1), where);                             // [chunks, 258, 4]
  x = (spectrum.slice(1, 0, 129).square() + spectrum.slice(1, 129, 258).square()).sqrt();
  for (const nn::Conv1d& conv : convs_) x = conv(x, where).relu(); // [chunks, 128, 1]
  const Tensor gates = ih_.linear(x.squeeze(2), bias_ih_, where);
  const auto start = [&](const Tensor& given) { return given.defined() ? given : zeros(g, {128}); };
  const auto made = g.loop(
      count, {start(state.h), start(state.c)}, {gates}, {hh_, bias_hh_},
      [](Graph&, const Tensor&, const std::vector<Tensor>& old, const std::vector<Tensor>& slices,
         const std::vector<Tensor>& weights) {
        const Tensor all = slices[0] + weights[0].matmul(old[0]) + weights[1];
        const auto gate = [&](int64_t i) { return all.slice(0, i * 128, (i + 1) * 128); };
        const Tensor cell = gate(1).sigmoid() * old[1] + gate(0).sigmoid() * gate(2).tanh();
        const Tensor h = gate(3).sigmoid() * cell.tanh();
        return Graph::LoopResult{{h, cell}, {h}};
      },
      where);
  const Tensor speech = last_(made.stacked[0].relu().unsqueeze(2), where).sigmoid().reshape({count});
  return {speech, {made.carried[0], made.carried[1]}};
}

} // namespace luminal::models
