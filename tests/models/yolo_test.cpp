// models/yolo_test.cpp -- YOLOv8 gives what modules of torch give (tools/yolo_goldens.py, which made
// yolo.safetensors), from a file of weights too; and finds its sizes in one.
#include "formats/safetensors.h"
#include "formats/util.h"
#include "luminal/files.h"
#include "luminal/functions.h"
#include "luminal/yolo.h"
#include "models/named_weights.h"
#include "models/vision.h"
#include "support/error_of.h"
#include <cstring>
#include <gmock/gmock.h>

namespace luminal::models::yolo_test {
namespace {

using luminal::testing_formats::TemporaryFolder;

std::vector<float> golden(const std::string& name) {
  const Safetensors file =
      open_safetensors(std::string(LUMINAL_SOURCE_DIR) + "/tests/models/yolo.safetensors").value();
  const TensorView* view = file.find(name);
  std::vector<float> values(view->bytes.size() / 4);
  std::memcpy(values.data(), view->bytes.data(), view->bytes.size());
  return values;
}
void expect_near(const std::vector<float>& got, const std::string& name) {
  const auto want = golden(name);
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < want.size(); i++)
    ASSERT_LE(std::abs(got[i] - want[i]), 1e-4F * (1 + std::abs(want[i]))) << name << " " << i;
}
const YoloConfig small{.channels = {8, 16, 24, 32, 40}, .repeats = {1, 2, 2, 1}, .classes = 5};
const YoloConfig deep{.channels = {8, 8, 16, 16, 24}, .repeats = {2, 3, 1, 2}, .classes = 3};

TEST(Yolo, GivesWhatTorchGives) {
  Graph g;
  const YoloV8 model(nn::Scope(g), small);
  fill(model);
  Tensor y = model(pictures(g, 64)).keep();
  g.execute();
  EXPECT_EQ(y.shape()[1], Dim(9));
  EXPECT_EQ(y.shape()[2], Dim(84)); // 8 * 8 + 4 * 4 + 2 * 2
  expect_near(y.data<float>(), "small");
}

TEST(Yolo, SidesMayDiffer) {
  Graph g;
  const YoloV8 model(nn::Scope(g), deep);
  fill(model);
  Tensor y = model(pictures(g, 96).narrow(2, 0, 32)).keep();
  g.execute();
  expect_near(y.data<float>(), "deep");
}

TEST(Yolo, PublishedSizes) {
  const YoloConfig n = yolo_config("n"), m = yolo_config("m", 3), x = yolo_config("x");
  EXPECT_THAT(n.channels, ::testing::ElementsAre(16, 32, 64, 128, 256));
  EXPECT_THAT(n.repeats, ::testing::ElementsAre(1, 2, 2, 1));
  EXPECT_THAT(m.channels, ::testing::ElementsAre(48, 96, 192, 384, 576));
  EXPECT_THAT(m.repeats, ::testing::ElementsAre(2, 4, 4, 2));
  EXPECT_EQ(m.classes, 3);
  EXPECT_THAT(x.channels, ::testing::ElementsAre(80, 160, 320, 640, 640));
  EXPECT_THAT(x.repeats, ::testing::ElementsAre(3, 6, 6, 3));
  Graph g; // the parameters of the smallest one, as published: 3.2 million
  int64_t count = 0;
  const YoloV8 model(nn::Scope(g), n);
  for (const auto& [name, parameter] : model.state_dict())
    if (!name.ends_with("running_mean") && !name.ends_with("running_var") &&
        !name.ends_with("num_batches_tracked"))
      count += Tensor(parameter).element_count();
  EXPECT_EQ(count, 3157184); // and 16 constants of the published file
}

TEST(Yolo, WeightsOfAFileSayTheSizes) {
  TemporaryFolder folder;
  const std::string path = folder.file("yolo.safetensors");
  {
    Graph g;
    const YoloV8 model(nn::Scope(g), deep);
    fill(model);
    std::map<std::string, Tensor> tensors;
    for (const auto& [name, parameter] : model.state_dict()) tensors.emplace(name, parameter);
    save(tensors, path);
  }
  const YoloConfig config = yolo_config_of(path);
  EXPECT_EQ(config.channels, deep.channels);
  EXPECT_EQ(config.repeats, deep.repeats);
  EXPECT_EQ(config.classes, deep.classes);
  VisionModel model(path, std::array<int64_t, 2>{32, 96});
  EXPECT_EQ(model.height(), 32);
  EXPECT_EQ(model.width(), 96);
  Image image{32, 96, 3, std::vector<uint8_t>(3 * 32 * 96, 100)};
  model.run(image, pixel_preset("yolov8"));
  EXPECT_EQ(box_form(model), BoxForm::yolov8);
}

TEST(Yolo, MistakesAreNamed) {
  const auto error = [](auto&& make) -> std::string {
    try {
      make();
      return "accepted";
    } catch (const Error& e) {
      return e.what();
    }
  };
  EXPECT_THAT(error([] { yolo_config("w"); }),
              ::testing::HasSubstr("[yolo_config] size w: n, s, m, l and x are known"));
  Graph g;
  const YoloV8 model(nn::Scope(g), small);
  EXPECT_THAT(
      error([&] { model(g.tensor({1, 3, 60, 64})); }),
      ::testing::HasSubstr("[YoloV8] pictures must be [batch, 3, height, width], the sizes multiples of 32, "
                           "they are [1, 3, 60, 64]"));
  TemporaryFolder folder;
  Graph h;
  Tensor w = h.weight("w", {2});
  w.set({1, 2});
  save(h, folder.file("other.safetensors"));
  const std::string other = folder.file("other.safetensors");
  EXPECT_THAT(error([&] { yolo_config_of(other); }),
              ::testing::HasSubstr(other + ": there is no model.0.conv.weight, which each YOLOv8 has"));
  EXPECT_THAT(
      error([&] { VisionModel(other, std::array<int64_t, 2>{30, 96}); }),
      ::testing::HasSubstr(other + ": a YOLOv8 takes sides that are multiples of 32, --size says 30x96"));
  EXPECT_THAT(error([&] { VisionModel(folder.file("none.safetensors"), {}); }),
              ::testing::HasSubstr("none.safetensors"));
}

} // namespace
} // namespace luminal::models::yolo_test
