// model_rules/model_graphs.h -- the graphs of real models in small: Llama of any number of layers, BERT,
// GPT, ResNet, decoding with a cache, mixtures of experts.
#pragma once
#include "formats/model_files.h"
#include "luminal/debug.h"
#include "luminal/luminal.h"
#include "models/llama.h"
#include "models/random_model.h"
#include "tensor/graph_state.h"
#include <map>

namespace luminal::testing_rules {

/// A graph as it is compiled: after the default passes.
inline Module compiled_terms(Graph& g) {
  Module module = parse_module(g.to_string());
  passes::defaults().run(module);
  return module;
}

/// A Llama without values of weights; kinds of matrices as in files.
inline Module llama(int64_t layers, StorageType matrices = StorageType::f32, int64_t hidden = 64) {
  models::ModelShape shape = *models::find_model_shape("tiny");
  shape.layers = layers, shape.hidden = hidden, shape.heads = 4, shape.kv_heads = 2;
  shape.head_dim = hidden / 4, shape.inner = 2 * hidden, shape.context = 64;
  const ModelFile file = models::model_without_values(shape, matrices);
  models::Llama model = models::make_llama(file, {.context = 32, .chunk = 8});
  return compiled_terms(model.graph);
}

/// Encoder layers with their norms behind the sums, or decoder layers with theirs before.
inline Module transformer(int layers, bool decoder, int64_t width = 32, int64_t length = 12) {
  Graph g;
  Tensor x = g.tensor({length, width}, DType::f32, "x");
  const int64_t heads = 4, size = width / heads;
  for (int layer = 0; layer < layers; layer++) {
    const auto weight = [&](const char* part, Dims shape) {
      return g.weight("blocks." + std::to_string(layer) + "." + part, std::move(shape));
    };
    const auto norm = [&](const Tensor& y, const char* gain, const char* bias) {
      return layer_norm(y, weight(gain, {width}), weight(bias, {width}));
    };
    const Tensor y = decoder ? norm(x, "g1", "b1") : x;
    const auto heads_of = [&](const char* part, const char* bias) {
      return (y.matmul(weight(part, {width, width})) + weight(bias, {width}))
          .reshape({length, heads, size})
          .transpose(0, 1);
    };
    const Tensor mixed =
        scaled_dot_product_attention(heads_of("q", "bq"), heads_of("k", "bk"), heads_of("v", "bv"))
            .transpose(0, 1)
            .reshape({length, width});
    x = x + mixed.matmul(weight("o", {width, width}));
    if (!decoder) x = norm(x, "g1", "b1");
    const Tensor z = decoder ? norm(x, "g2", "b2") : x;
    x = x + z.matmul(weight("up", {width, 4 * width})).gelu().matmul(weight("down", {4 * width, width}));
    if (!decoder) x = norm(x, "g2", "b2");
  }
  x.set_name("y").keep();
  return compiled_terms(g);
}

/// Convolutions with normalisation at inference, sums over two paths, strides, pooling, a classifier.
inline Module resnet(int stages, int blocks) {
  Graph g;
  Tensor x = g.tensor({1, 3, 16, 16}, DType::f32, "image");
  int made = 0;
  const auto conv = [&](const Tensor& y, int64_t in, int64_t out, int64_t kernel, int64_t stride) {
    const std::string name = "conv" + std::to_string(made++);
    const auto channels = [&](const char* part) { return g.weight(name + part, {out}); };
    ConvOptions options;
    options.stride = {stride, stride};
    options.padding = {kernel / 2, kernel / 2};
    return batch_norm(conv2d(y, g.weight(name, {out, in, kernel, kernel}), {}, options), channels(".mean"),
                      channels(".var"), channels(".gain"), channels(".bias"));
  };
  int64_t channels = 8;
  x = conv(x, 3, channels, 3, 1).relu();
  for (int stage = 0; stage < stages; stage++)
    for (int block = 0; block < blocks; block++) {
      const bool wider = stage > 0 && block == 0;
      const int64_t in = channels;
      if (wider) channels *= 2;
      const Tensor y = conv(conv(x, in, channels, 3, wider ? 2 : 1).relu(), channels, channels, 3, 1);
      x = (y + (wider ? conv(x, in, channels, 1, 2) : x)).relu();
    }
  x.mean({2, 3}).matmul(g.weight("head", {channels, 10})).set_name("logits").keep();
  return compiled_terms(g);
}

inline std::map<std::string, Module> model_graphs() {
  std::map<std::string, Module> out;
  out["llama"] = llama(3);
  out["llama_bf16"] = llama(2, StorageType::bf16);
  out["llama_q4_0"] = llama(2, StorageType::q4_0);
  out["llama_q8_0"] = llama(2, StorageType::q8_0);
  out["llama_q4_k"] = llama(2, StorageType::q4_k, 256);
  out["bert"] = transformer(2, false);
  out["gpt"] = transformer(2, true);
  out["resnet"] = resnet(2, 2);
  return out;
}

} // namespace luminal::testing_rules
