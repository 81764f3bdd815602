// models/modules_test.cpp -- ViT, CLIP, MobileNetV2 and Mamba-2 give what Hugging Face transformers gives,
// from weights that are a function of their names (tools/module_goldens.py, which made modules.safetensors).
#include "formats/safetensors.h"
#include "luminal/mamba.h"
#include "luminal/models_vision.h"
#include "models/named_weights.h"
#include "support/error_of.h"
#include <cmath>
#include <cstring>
#include <gtest/gtest.h>

namespace luminal::models::modules_test {
namespace {

std::vector<float> golden(const std::string& name) {
  static const Safetensors file =
      open_safetensors(std::string(LUMINAL_SOURCE_DIR) + "/tests/models/modules.safetensors").value();
  const TensorView* view = file.find(name);
  if (view == nullptr) throw Error("no golden " + name);
  std::vector<float> values(view->bytes.size() / 4);
  std::memcpy(values.data(), view->bytes.data(), view->bytes.size());
  return values;
}

void expect_near(const Tensor& got, const std::string& name) {
  const auto values = got.data<float>(), want = golden(name);
  ASSERT_EQ(values.size(), want.size()) << name;
  for (size_t i = 0; i < want.size(); i++)
    ASSERT_LE(std::abs(values[i] - want[i]), 5e-5F * (1 + std::abs(want[i]))) << name << " " << i;
}

TEST(Modules, Vit) {
  Graph g;
  const Vit vit(nn::Scope(g), {.encoder = {.width = 32, .layers = 2, .heads = 4, .inner = 48},
                               .image = 24,
                               .patch = 8,
                               .classes = 7});
  fill(vit);
  Tensor logits = vit(pictures(g, 24)).keep();
  g.execute();
  expect_near(logits, "vit");
}

TEST(Modules, Clip) {
  Graph g;
  ClipConfig config;
  config.vision = {
      .width = 32, .layers = 2, .heads = 4, .inner = 48, .eps = 1e-5, .activation = "quick_gelu"};
  config.text = {.width = 24, .layers = 2, .heads = 3, .inner = 40, .eps = 1e-5, .activation = "quick_gelu"};
  config.image = 24, config.patch = 8, config.vocabulary = 64, config.positions = 12, config.projection = 16;
  const Clip clip(nn::Scope(g), config);
  fill(clip);
  Tensor texts = g.tensor({2, 6}, DType::i32);
  texts.set({{62, 5, 9, 63, 0, 0}, {62, 40, 17, 22, 30, 63}});
  const Tensor seen = pictures(g, 24, 2);
  Tensor image = clip.image(seen).keep(), text = clip.text(texts).keep(), logits = clip(seen, texts).keep();
  g.execute();
  expect_near(image, "clip.image");
  expect_near(text, "clip.text");
  expect_near(logits, "clip.logits");
}

TEST(Modules, MobileNetV2) {
  for (const int64_t side : {64, 57}) {
    Graph g;
    const MobileNetV2 mobile(nn::Scope(g), {.multiplier = 0.35, .classes = 9});
    fill(mobile);
    Tensor logits = mobile(pictures(g, side)).keep();
    g.execute();
    expect_near(logits, "mobilenet." + std::to_string(side));
  }
}

TEST(Modules, Mamba2) {
  Graph g;
  const Mamba2 mamba(
      nn::Scope(g),
      {.vocabulary = 32, .width = 32, .layers = 2, .heads = 8, .head_size = 8, .state = 12, .groups = 2});
  fill(mamba);
  Tensor tokens = g.tensor({g.dim("n", 1, 64)}, DType::i32);
  std::vector<int32_t> ids;
  for (int i = 0; i < 13; i++) ids.push_back((7 * i * i + 3) % 32);
  tokens.set_dyn(ids);
  Tensor logits = mamba(tokens).keep();
  g.execute();
  expect_near(logits, "mamba2");
}

TEST(Modules, MistakesAreNamed) {
  Graph g;
  const nn::Scope s(g);
  EXPECT_EQ(error_without_place([&] { Vit(s / "a", {.image = 20, .patch = 8}); }),
            "[Vit] pictures of 20 pixels are not whole patches of 8");
  EXPECT_EQ(error_without_place([&] { Vit(s / "b", {.encoder = {.width = 10, .heads = 3}}); }),
            "[PreNormEncoder] width 10 is not a multiple of 3 heads");
  EXPECT_EQ(error_without_place([&] { Mamba2(s / "c", {.width = 8, .heads = 3, .groups = 2}); }),
            "[Mamba2] 3 heads are not a multiple of 2 groups");
}

} // namespace
} // namespace luminal::models::modules_test
