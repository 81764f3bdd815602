// slow/training_test.cpp -- trainings that PyTorch made, to their end.
#include "train/goldens.h"

namespace luminal {
namespace {
using namespace testing_train;

TEST(Goldens300, MnistWithMomentum) {
  NEEDS_DATA("/datasets/mnist/train-images-idx3-ubyte.gz");
  train_mnist("sgd_lr0.1_mom0.9", 300, [](int step) { return step < 12 ? 2e-6 : 0.1; });
}
TEST(Goldens300, MnistWithAdamW) {
  NEEDS_DATA("/datasets/mnist/train-images-idx3-ubyte.gz");
  train_mnist("adamw_lr1e-3_wd0.01", 300, [](int step) { return step < 60 ? 5e-5 : 5e-3; });
}
TEST(Goldens300, CharGpt) {
  NEEDS_DATA("/conformance/train_chargpt.safetensors");
  train_char_gpt(300, [](int step) { return step < 60 ? 5e-6 : 5e-4; });
}

} // namespace
} // namespace luminal
