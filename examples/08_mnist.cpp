// examples/08_mnist.cpp -- lesson 8: a loop that somebody else wrote. A model is a function that makes
// terms; Trainer makes one program of forward, backward and update, feeds it batches that a thread
// reads ahead, and validates. Give it the folder of MNIST's four files; without it pictures are drawn.
#include "luminal/luminal.h"
#include <cstdio>
#include <string>

using namespace luminal;

namespace {
/// Bars and crosses, 28 x 28, at random places: "x" u8, "y" their kind.
DataSetPtr drawn(int count, uint64_t seed) {
  std::vector<uint8_t> x(size_t(count) * 784, 0);
  std::vector<int64_t> y;
  for (int i = 0; i < count; ++i) {
    const auto random = [&](uint64_t n) {
      return int((seed = seed * 6364136223846793005 + 1442695040888963407) >> 33) % int(n);
    };
    const int kind = i % 4, row = 6 + random(16), column = 6 + random(16);
    for (int k = -5; k <= 5; ++k) {
      const int dr = kind == 0 ? 0 : k, dc = kind == 1 ? 0 : kind == 3 ? -k : k;
      x[size_t(i) * 784 + size_t(row + dr) * 28 + size_t(column + dc)] = uint8_t(150 + random(100));
    }
    y.push_back(kind);
  }
  return datasets::from_values({{{"x", DType::u8, {28, 28}}, x}, {{"y", DType::i64}, y}});
}
} // namespace

int main(int argc, char** argv) {
  const bool real = argc > 1;
  const auto mnist = [&](const std::string& part) {
    const std::string begin = std::string(argv[1]) + "/" + part;
    return datasets::from_files(
        {{"x", begin + "-images-idx3-ubyte.gz"}, {"y", begin + "-labels-idx1-ubyte.gz"}});
  };
  const DataSetPtr train = real ? mnist("train") : drawn(400, 1), test = real ? mnist("t10k") : drawn(100, 2);
  const int64_t classes = real ? 10 : 4;

  const ModelFunction model = [&](ModelScope& m) {
    Tensor h = m.input("x").cast(DType::f32).unsqueeze(1) / 255.0; // [batch, 1, 28, 28]
    for (const auto& [name, in, out] : {std::tuple("conv1", 1, 8), std::tuple("conv2", 8, 16)}) {
      const Tensor w = m.parameter(std::string(name) + ".weight", {out, in, 3, 3}, init::he());
      const Tensor b = m.parameter(std::string(name) + ".bias", {out});
      h = max_pool2d(conv2d(h, w, b, {.padding = 1}).relu(), 2);
    }
    h = m.dropout(h.flatten(1), 0.1); // validation has none
    const Tensor logits = linear(h, m.parameter("fc.weight", {classes, 784}, init::fan_in()),
                                 m.parameter("fc.bias", {classes}));
    return StepResults{cross_entropy(logits, m.input("y")), {{"accuracy", accuracy(logits, m.input("y"))}}};
  };

  const int64_t steps = real ? 1000 : 60;
  Trainer trainer(
      model, train,
      {.steps = steps,
       .batch = real ? 64 : 32,
       .seed = 1,
       .optimizer = [&](Graph& g) { return adamw(g, schedules::cosine(real ? 3e-3 : 1e-2, steps)); },
       .clip_norm = 1,
       .validation = test,
       .progress = real,
       .log_every = 100});
  std::printf("before: %s of the test pictures are told apart\n",
              trainer.validate().metrics[0].second < 0.6 ? "few" : "most");
  trainer.run();
  const double right = trainer.validate().metrics[0].second;
  if (real) std::printf("accuracy %.4f\n", right);
  std::printf("after: %s\n", right > 0.95 ? "more than 95 % are" : "too few are");
}
