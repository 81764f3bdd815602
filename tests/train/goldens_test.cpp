// tests/train/goldens_test.cpp -- trajectories of optimizers and whole trainings that PyTorch made.
#include "luminal/autograd.h"
#include "luminal/losses.h"
#include "luminal/optimizers.h"
#include "training_data.h"
#include <cmath>
#include <fmt/format.h>

namespace luminal {
namespace {
using namespace testing_train;

Optimizer optimizer_of(Graph& g, const std::string& name, const nlohmann::json& args) {
  const double rate = args.at("lr"), decay = args.value("weight_decay", 0.0);
  const auto betas = args.value("betas", std::vector<double>{0.9, 0.999});
  if (name.starts_with("AdamW"))
    return adamw(g, rate, {.beta1 = betas[0], .beta2 = betas[1], .weight_decay = decay});
  if (name.starts_with("Adam"))
    return adam(g, rate, {.weight_decay = decay, .amsgrad = args.value("amsgrad", false)});
  if (name.starts_with("Adagrad")) return adagrad(g, rate, {.weight_decay = decay});
  if (name.starts_with("RMSprop"))
    return rmsprop(g, rate,
                   {.weight_decay = decay,
                    .momentum = args.value("momentum", 0.0),
                    .centered = args.value("centered", false)});
  if (name.starts_with("SGD"))
    return sgd(g, rate,
               {.momentum = args.value("momentum", 0.0),
                .weight_decay = decay,
                .nesterov = args.value("nesterov", false)});
  if (name.starts_with("Adadelta"))
    return adadelta(g, rate, {.rho = args.at("rho"), .eps = args.at("eps"), .weight_decay = decay});
  throw std::runtime_error(name);
}

TEST(Goldens, TrajectoriesOfOptimizers) {
  NEEDS_DATA("/conformance/optimizer_trajectories.json");
  const auto json = read_json(data_folder() + "/conformance/optimizer_trajectories.json");
  int checked = 0;
  for (const auto& [name, entry] : json.at("optimizers").items()) {
    SCOPED_TRACE(name);
    Graph g;
    const std::vector<Dims> shapes{{3, 2}, {3}, {1, 3}, {1}};
    const std::vector<std::vector<double>> first{{-0.2109, -0.4976, -0.1413, -0.3420, -0.2524, 0.6976},
                                                 {-0.1085, -0.2979, 0.6892},
                                                 {-0.0508, -0.3941, -0.2843},
                                                 {-0.0711}};
    std::vector<Tensor> p;
    for (size_t i = 0; i < shapes.size(); ++i) {
      p.push_back(g.state(fmt::format("p{}", i), shapes[i], DType::f64));
      p[i].set(first[i]);
    }
    const Tensor x = g.constant({{0.1, 0.2}, {0.3, 0.4}, {0.5, 0.6}}, {3, 2}, DType::f64);
    const Tensor hidden = (x.matmul(p[0].t()) + p[1]).sigmoid();
    const Tensor loss = (hidden.matmul(p[2].t()) + p[3]).sigmoid().sum();
    Optimizer optimizer = optimizer_of(g, name, entry.at("args"));
    optimizer.update(p, gradients(loss, p));
    int step = 0;
    for (const auto& point : entry.at("trajectory")) {
      for (const int until = point.at("after_step"); step < until; ++step) g.execute();
      for (size_t i = 0; i < p.size(); ++i) {
        const auto have = p[i].data<double>();
        const auto want = point.at("params").at(i).get<std::vector<double>>();
        ASSERT_EQ(have.size(), want.size());
        for (size_t k = 0; k < have.size(); ++k)
          ASSERT_NEAR(have[k], want[k], 1e-9 * std::max(1.0, std::fabs(want[k])))
              << "after step " << step << ", parameter " << i << ", element " << k;
        checked += int(have.size());
      }
    }
  }
  EXPECT_GE(checked, 13 * 15 * 13);
}

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
void compare_training(Graph& g, const std::map<std::string, Tensor>& p,
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

void train_mnist(const std::string& which, int steps, const std::function<double(int)>& loss_error) {
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

TEST(Goldens, MnistWithMomentum) {
  NEEDS_DATA("/datasets/mnist/train-images-idx3-ubyte.gz");
  // In step 12 a kink falls the other way in the run of the file than in f64 (by 8.9e-5, as in
  // PyTorch 2.13), and this rate lets small differences grow.
  train_mnist("sgd_lr0.1_mom0.9", 60, [](int step) { return step < 12 ? 2e-6 : 2e-2; });
}
TEST(Goldens, MnistWithAdamW) {
  NEEDS_DATA("/datasets/mnist/train-images-idx3-ubyte.gz");
  train_mnist("adamw_lr1e-3_wd0.01", 60, [](int) { return 5e-5; });
}

TEST(Goldens, CharGpt) {
  NEEDS_DATA("/conformance/train_chargpt.safetensors");
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
      60, 1e-4, [](int) { return 5e-6; });
}

} // namespace
} // namespace luminal
