// tests/models/picture_folder_test.cpp -- Hugging Face folders of models that classify give what transformers
// gives with their own processors (tools/picture_goldens.py), and what is not supported is refused by name.
#include "base/file.h"
#include "formats/safetensors.h"
#include "luminal/files.h"
#include "models/named_weights.h"
#include "models/picture_folder.h"
#include "support/error_of.h"
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>

namespace luminal::models::picture_folder_test {
namespace {

const std::string data = std::string(LUMINAL_SOURCE_DIR) + "/tests/models/";

std::vector<float> golden(const std::string& name) {
  static const Safetensors file = open_safetensors(data + "pictures/goldens.safetensors").value();
  const TensorView* view = file.find(name);
  if (view == nullptr) throw Error("no golden " + name);
  std::vector<float> values(view->bytes.size() / 4);
  std::memcpy(values.data(), view->bytes.data(), view->bytes.size());
  return values;
}

/// A copy of a folder, with weights.
std::string folder_of(const std::string& name) {
  const std::string folder = ::testing::TempDir() + "luminal_pictures_" + name;
  std::filesystem::remove_all(folder);
  std::filesystem::copy(data + "pictures/" + name, folder);
  const PictureFolder read = read_picture_folder(folder);
  Graph g;
  const nn::Scope scope(g);
  const auto write = [&](const nn::Module& module) {
    fill(module);
    std::map<std::string, Tensor> weights;
    for (const auto& [weight, tensor] : module.state_dict())
      if (tensor.dtype() == DType::f32) weights.emplace(weight, tensor); // else a count of batches
    save(weights, folder + "/model.safetensors");
  };
  if (const auto* vit = std::get_if<VitConfig>(&read.config))
    write(Vit(scope, *vit));
  else if (const auto* resnet = std::get_if<ResNetConfig>(&read.config))
    write(ResNet(scope, *resnet));
  else
    write(MobileNetV2(scope, std::get<MobileNetConfig>(read.config)));
  return folder;
}

std::string with(const std::string& folder, const std::string& file, const std::string& from,
                 const std::string& to) {
  std::string text = read_file(folder + "/" + file).value();
  const size_t at = text.find(from);
  if (at == std::string::npos) throw Error("no " + from);
  const std::string changed = folder + "_changed";
  std::filesystem::remove_all(changed);
  std::filesystem::copy(folder, changed);
  std::ofstream(changed + "/" + file) << text.replace(at, from.size(), to);
  return changed;
}

class PictureFolders : public ::testing::TestWithParam<const char*> {};

TEST_P(PictureFolders, GiveWhatTransformersGives) {
  const std::string name = GetParam(), folder = folder_of(name);
  VisionModel model(folder, {}, 1);
  EXPECT_EQ(model.labels(), (std::vector<std::string>{"tench", "fish, gold", "cock", "hen", "jay"}));
  EXPECT_EQ(class_names(model, ""), model.labels());
  const Image picture = open_image(data + "moondream/picture.png", 3).value();
  model.run(picture, model.stated_pixels().value());
  const auto got = model.outputs().at(0).tensor.data<float>(), want = golden(name + ".logits");
  ASSERT_EQ(got.size(), want.size());
  // Pixels are rounded to whole numbers between the two directions, up to one apart from those of Pillow.
  for (size_t i = 0; i < want.size(); i++) EXPECT_NEAR(got[i], want[i], 2e-3) << i;
}

INSTANTIATE_TEST_SUITE_P(Models, PictureFolders,
                         ::testing::Values("vit", "resnet", "resnet_basic", "mobilenet"),
                         [](const auto& test) { return std::string(test.param); });

TEST(PictureFilters, GiveThePixelsOfPillow) {
  const Image picture = open_image(data + "moondream/picture.png", 3).value(); // 29 wide, 43 high
  const auto want = golden("vit.pixels");
  const Image small = resized_by(ImageFilter::bilinear, picture, 24, 24);
  for (int64_t c = 0; c < 3; c++)
    for (int64_t i = 0; i < 24 * 24; i++)
      EXPECT_NEAR(small.pixels[size_t(i * 3 + c)], (want[size_t(c * 24 * 24 + i)] * 0.5 + 0.5) * 255, 1.001);
  // The shorter side to 32, the longer one to 47, and the middle of that.
  const auto cut = golden("resnet.pixels");
  const Image whole = resized_by(ImageFilter::bicubic, picture, 47, 32);
  const double mean[] = {0.485, 0.456, 0.406}, deviation[] = {0.229, 0.224, 0.225};
  for (int64_t c = 0; c < 3; c++)
    for (int64_t y = 0; y < 28; y++)
      for (int64_t x = 0; x < 28; x++)
        EXPECT_NEAR(whole.pixels[size_t(((y + 9) * 32 + x + 2) * 3 + c)],
                    (cut[size_t((c * 28 + y) * 28 + x)] * deviation[c] + mean[c]) * 255, 1.001);
}

TEST(PictureFolderMistakes, AreNamed) {
  const std::string vit = folder_of("vit"), resnet = folder_of("resnet"), mobile = folder_of("mobilenet");
  const auto refused = [](const std::string& folder) {
    return error_without_place([&] { VisionModel(folder, {}, 1); });
  };
  const auto expect = [&](const std::string& folder, const std::string& says) {
    const std::string error = refused(folder);
    EXPECT_NE(error.find(says), std::string::npos) << error;
  };
  const std::string config = "config.json", pixels = "preprocessor_config.json";
  expect(with(vit, config, "\"vit\"", "\"swin\""),
         "a model of type \"swin\", expected \"vit\", \"resnet\" or \"mobilenet_v2\" (or a model as ONNX)");
  expect(with(vit, config, "\"hidden_size\": 32", "\"hidden_size\": 0"),
         "\"hidden_size\" is 0, expected 1 to 65536");
  expect(with(vit, config, "\"num_channels\": 3", "\"num_channels\": 4"),
         "pictures of 4 channels, expected 3");
  expect(with(vit, config, "\"qkv_bias\": true", "\"qkv_bias\": false"),
         "\"qkv_bias\" is false, expected true");
  expect(with(vit, config, "\"4\": ", "\"9\": "), "\"id2label\" has the class \"9\", expected 0 to 4");
  expect(with(vit, config, "\"hidden_size\": 32", "\"hidden_size\": 40"), ": the weight is f32");
  expect(with(vit, config, "\"num_hidden_layers\": 2", "\"num_hidden_layers\": 3"),
         "there is no vit.encoder.layer.2.attention.attention.key.bias");
  expect(with(vit, pixels, "\"height\": 24", "\"height\": 32"),
         "vit_changed: pictures of 32 x 24 pixels, the model has positions for 24 x 24");
  expect(with(vit, pixels, "\"height\": 24,", ""), "\"size\" has no height and width");
  expect(with(vit, pixels, "\"size\": {", "\"sizes\": {"), "\"size\" is missing");
  expect(with(vit, pixels, "\"resample\": 2", "\"resample\": 0"),
         "\"resample\" is 0, expected 1 (Lanczos), 2 (linear) or 3 (cubic)");
  expect(with(vit, pixels, "\"do_resize\": true", "\"do_resize\": false"),
         "\"do_resize\" is false, expected true");
  expect(with(vit, pixels, "\"image_mean\"", "\"image_mean_\""), "\"image_mean\" has 0 numbers, expected 3");
  expect(with(resnet, config, "\"relu\"", "\"gelu\""), "\"hidden_act\" is \"gelu\", expected \"relu\"");
  expect(with(resnet, config, "\"bottleneck\"", "\"other\""),
         "\"layer_type\" is \"other\", expected \"basic\" or \"bottleneck\"");
  expect(with(resnet, config, "\"depths\": [\n    1,", "\"depths\": ["),
         "one width and one depth for each stage are expected");
  expect(with(resnet, pixels, "0.229", "0.0"), "\"image_std\" has a 0");
  expect(with(resnet, pixels, "\"crop_pct\": 0.875", "\"crop_pct\": 0"),
         "\"crop_pct\" is 0, expected 0.01 to 1");
  expect(with(mobile, config, "\"expand_ratio\": 6", "\"expand_ratio\": 4"),
         "\"expand_ratio\" is another one than 6");
  expect(with(mobile, pixels, "\"crop_size\"", "\"crop\""), "\"crop_size\" is missing");
  expect(with(mobile, pixels, "\"height\": 32,\n    \"width\": 32", "\"shortest_edge\": 32"),
         "\"crop_size\" has no height and width");
  expect(with(mobile, pixels, "\"shortest_edge\": 36", "\"height\": 36, \"width\": 36"),
         "\"size\" has no shortest_edge, which a cut-out has");
  std::filesystem::remove(with(vit, config, "\"vit\"", "\"vit\"") + "/" + pixels);
  expect(vit + "_changed", pixels);
  EXPECT_EQ(error_without_place([&] { VisionModel(vit, std::array<int64_t, 2>{32, 32}, 1); }),
            vit + ": pictures of 24 x 24 pixels, another size than --size says");
}

} // namespace
} // namespace luminal::models::picture_folder_test
