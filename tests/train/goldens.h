// tests/train/goldens.h -- whole trainings that PyTorch made: a small CNN on MNIST, a small GPT on
// characters.
#pragma once
#include "luminal/autograd.h"
#include "luminal/losses.h"
#include "luminal/optimizers.h"
#include "training_data.h"
#include <cmath>
#include <map>

namespace luminal::testing_train {

struct Mnist {
  std::vector<uint8_t> images, labels;
  Mnist() {
    images = unzipped(data_folder() + "/datasets/mnist/train-images-idx3-ubyte.gz");
    labels = unzipped(data_folder() + "/datasets/mnist/train-labels-idx1-ubyte.gz");
  }
  void set(Tensor x, Tensor y, int first, int count) const {
    std::vector<float> pixels;
    for (int i = 0; i < count * 784; ++i)
      pixels.push_back(float(images[size_t(16 + first * 784 + i)]) / 255.0f);
    std::vector<int64_t> classes;
    for (int i = 0; i < count; ++i) classes.push_back(labels[size_t(8 + first + i)]);
    x.set(pixels);
    y.set(classes);
  }
};

/// Losses of 300 steps, gradients of the first one, parameters after ten.
inline void compare_training(Graph& g, const std::map<std::string, Tensor>& p,
                             const std::map<std::string, Tensor>& grads, Tensor loss, const Tensors& file,
                             const std::string& prefix, const std::vector<double>& losses,
                             const std::function<void(int)>& feed, int steps, double parameter_error,
                             const std::function<double(int)>& loss_error) {
  const auto compare = [&](const std::map<std::string, Tensor>& list, const std::string& what, double error) {
    for (const auto& [name, t] : list)
      EXPECT_LT(largest_difference(t.data<float>(), file.numbers(prefix + what + name)), error) << name;
  };
  for (int step = 0; step < steps; ++step) {
    feed(step);
    g.execute();
    ASSERT_NEAR(loss.item<double>(), losses[size_t(step)], loss_error(step)) << "step " << step;
    if (step == 0) compare(grads, "grad_step0.", 2e-6);
    if (step == 9) compare(p, "params_after10.", parameter_error);
  }
}

inline void train_mnist(const std::string& which, int steps, const std::function<double(int)>& loss_error) {
  const Tensors file(data_folder() + "/conformance/train_mnist_cnn.safetensors");
  const auto json = read_json(data_folder() + "/conformance/train_mnist_cnn.json").at(which);
  const Mnist data;
  Graph g;
  std::map<std::string, Tensor> p, kept;
  std::vector<Tensor> list;
  const std::vector<std::string> names{"conv1.weight", "conv1.bias", "conv2.weight",
                                       "conv2.bias",   "fc.weight",  "fc.bias"};
  for (const std::string& name : names) {
    p[name] = g.state(name, file.shape("init." + name));
    p[name].set(file.numbers("init." + name));
    list.push_back(p[name]);
  }
  Tensor x = g.tensor({64, 1, 28, 28}, DType::f32, "x"), y = g.tensor({64}, DType::i64, "y");
  Tensor h = max_pool2d(conv2d(x, p["conv1.weight"], p["conv1.bias"], {.padding = 1}).relu(), 2);
  h = max_pool2d(conv2d(h, p["conv2.weight"], p["conv2.bias"], {.padding = 1}).relu(), 2);
  Tensor loss = cross_entropy(linear(h.flatten(1), p["fc.weight"], p["fc.bias"]), y).keep();
  std::vector<Tensor> grads = gradients(loss, list);
  for (size_t i = 0; i < names.size(); ++i) kept[names[i]] = grads[i].keep();
  Optimizer optimizer =
      which[0] == 's' ? sgd(g, 0.1, {.momentum = 0.9}) : adamw(g, 1e-3, {.weight_decay = 0.01});
  optimizer.update(list, grads);
  compare_training(
      g, p, kept, loss, file, which + ".", json.at("losses"),
      [&](int step) { data.set(x, y, step * 64, 64); }, steps, 2e-5, loss_error);
}

inline void train_char_gpt(int steps, const std::function<double(int)>& loss_error) {
  const Tensors file(data_folder() + "/conformance/train_chargpt.safetensors");
  const auto json = read_json(data_folder() + "/conformance/train_chargpt.json");
  const std::string text = *read_file(data_folder() + "/datasets/tinyshakespeare.txt");
  std::map<char, int> id;
  for (char c : text) id[c];
  int next = 0;
  for (auto& [c, n] : id) n = next++;
  const int64_t batch = 8, context = 64, width = 64, heads = 4;
  Graph g;
  std::map<std::string, Tensor> p, kept;
  std::vector<std::string> names{"wte", "wpe", "lnf.w", "lnf.b"};
  for (const char* layer : {"h0.", "h1."})
    for (const char* name : {"qkv.w", "qkv.b", "proj.w", "proj.b", "fc.w", "fc.b", "fc2.w", "fc2.b", "ln1.w",
                             "ln1.b", "ln2.w", "ln2.b"})
      names.push_back(std::string(layer) + name);
  std::vector<Tensor> list;
  for (const std::string& name : names) {
    p[name] = g.state(name, file.shape("init." + name));
    p[name].set(file.numbers("init." + name));
    list.push_back(p[name]);
  }
  Tensor ids = g.tensor({batch, context}, DType::i64, "ids"),
         targets = g.tensor({batch, context}, DType::i64, "targets");
  const auto norm = [&](const Tensor& h, const std::string& name) {
    return h.layer_norm() * p[name + ".w"] + p[name + ".b"];
  };
  Tensor h = p["wte"].gather(ids) + p["wpe"];
  for (const std::string layer : {"h0.", "h1."}) {
    const Tensor qkv = linear(norm(h, layer + "ln1"), p[layer + "qkv.w"], p[layer + "qkv.b"]);
    std::vector<Tensor> parts;
    for (const Tensor& part : qkv.split(width, 2))
      parts.push_back(part.reshape({batch, context, heads, width / heads}).permute({0, 2, 1, 3}));
    const Tensor scores = parts[0].matmul(parts[1].transpose()) / std::sqrt(double(width / heads));
    const Tensor row = g.arange(context).unsqueeze(1), column = g.arange(context);
    const Tensor mixed = select(column <= row, scores, -INFINITY).softmax().matmul(parts[2]);
    h = h + linear(mixed.permute({0, 2, 1, 3}).reshape({batch, context, width}), p[layer + "proj.w"],
                   p[layer + "proj.b"]);
    const Tensor wide = linear(norm(h, layer + "ln2"), p[layer + "fc.w"], p[layer + "fc.b"]).gelu();
    h = h + linear(wide, p[layer + "fc2.w"], p[layer + "fc2.b"]);
  }
  const Tensor logits = linear(norm(h, "lnf"), p["wte"]);
  Tensor loss = cross_entropy(logits, targets, {.axis = 2}).keep();
  std::vector<Tensor> grads = gradients(loss, list);
  for (size_t i = 0; i < names.size(); ++i) kept[names[i]] = grads[i].keep();
  adamw(g, 1e-3, {.beta2 = 0.95, .weight_decay = 0.1}).update(list, grads);
  compare_training(
      g, p, kept, loss, file, "", json.at("losses"),
      [&](int step) {
        std::vector<int64_t> in, out;
        for (int64_t b = 0; b < batch; ++b) {
          const int64_t start = (b * 100003 + step * 1009) % (int64_t(text.size()) - 65);
          for (int64_t t = 0; t < context; ++t) {
            in.push_back(id[text[size_t(start + t)]]);
            out.push_back(id[text[size_t(start + t + 1)]]);
          }
        }
        ids.set(in);
        targets.set(out);
      },
      // Adam divides by the root of squares: where a gradient is rounding and nothing else, its step
      // has the size of the rate (1e-3) all the same
      steps, 1e-4, loss_error);
}

} // namespace luminal::testing_train
