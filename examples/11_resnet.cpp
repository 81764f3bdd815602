// examples/11_resnet.cpp -- lesson 11: a ResNet with batch norm on small colour pictures, in bf16 with
// averaged weights. A folder of pictures (one folder for each class) may be given; without it four
// kinds of patterns, 3 x 16 x 16, are told apart by a narrow network.
#include "luminal/luminal.h"
#include "luminal/train_models.h"
#include <cstdio>

using namespace luminal;

namespace {
DataSetPtr patterns(int count) {
  std::vector<uint8_t> x;
  std::vector<int64_t> y;
  for (int i = 0; i < count; ++i) {
    const int kind = i % 4, shift = i / 4 % 5;
    for (int c = 0; c < 3; ++c)
      for (int r = 0; r < 16; ++r)
        for (int k = 0; k < 16; ++k) {
          const int at = kind == 0 ? r : kind == 1 ? k : kind == 2 ? r + k : r - k + 16;
          x.push_back(uint8_t((at + shift) / 3 % 2 == 0 ? 40 + 20 * c + i % 9 : 200 - 30 * c));
        }
    y.push_back(kind);
  }
  return datasets::from_values({{{"x", DType::u8, {3, 16, 16}}, x}, {{"y", DType::i64}, y}});
}
} // namespace

int main(int argc, char** argv) {
  const bool real = argc > 1;
  const DataSetPtr all = real ? datasets::image_folder(argv[1], {.height = 32, .width = 32}) : patterns(160);
  const auto [train, test] = datasets::split(all, 0.8, 1);
  const int64_t classes = real ? int64_t(all->classes("y").size()) : 4, steps = real ? 2000 : 80;
  Trainer trainer(train_models::resnet({.width = real ? 64 : 8, .classes = classes}), train,
                  {.steps = steps,
                   .batch = real ? 64 : 16,
                   .seed = 1,
                   .optimizer =
                       [&](Graph& g) {
                         return sgd(g, schedules::one_cycle(0.1, steps),
                                    {.momentum = 0.9, .weight_decay = 5e-4, .nesterov = true});
                       },
                   .ema = real ? 0.999 : 0.5,
                   .precision = DType::bf16,
                   .validation = test,
                   .progress = real});
  trainer.run();
  const double right = trainer.validate().metrics[0].second;
  if (real) std::printf("accuracy %.4f\n", right);
  std::printf("%s\n", right > 0.9 ? "the patterns are told apart" : "too few are told apart");
}
