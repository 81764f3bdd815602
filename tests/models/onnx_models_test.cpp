// models/onnx_models_test.cpp -- real ONNX files against their references: images, keywords, voice,
// pitch. The executors that made the references agree with each other to about 1e-6 of the largest
// number; the tests ask for 1e-4 of it.
#include "base/file.h"
#include "formats/npy.h"
#include "formats/safetensors.h"
#include "formats/util.h"
#include "luminal/debug.h"
#include "luminal/inspect.h"
#include "luminal/onnx.h"
#include "models/onnx/importer.h"
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>

namespace luminal {
namespace {

using namespace luminal::testing_formats;
using Floats = std::vector<float>;

Floats floats(std::span<const std::byte> bytes) {
  Floats list(bytes.size() / 4);
  std::memcpy(list.data(), bytes.data(), list.size() * 4);
  return list;
}
Floats read_npy(const std::string& path) { return floats(open_npy(path).value().arrays.at(0).tensor.bytes); }
Floats read_pb(const std::string& path) {
  const MappedFile file = MappedFile::open(path).value();
  return floats(onnx::parse_onnx_tensor(file.bytes(), path).value().bytes);
}
Floats read_reference(const Safetensors& file, const std::string& name) {
  const TensorView* view = file.find(name);
  if (view->type != StorageType::u8) return floats(view->bytes);
  Floats list;
  for (const std::byte byte : view->bytes) list.push_back(float(std::to_integer<int>(byte)));
  return list;
}
/// 16-bit samples of a WAV file as -1 .. 1.
Floats read_wav(const std::string& path) {
  const std::string content = file_content(path);
  const size_t at = content.find("data") + 8;
  Floats list;
  for (size_t i = at; i + 1 < content.size(); i += 2) {
    int16_t sample;
    std::memcpy(&sample, content.data() + i, 2);
    list.push_back(float(sample) / 32768.0F);
  }
  return list;
}
void expect_close(const Floats& got, const Floats& expected, const std::string& what,
                  double tolerance = 1e-4) {
  ASSERT_EQ(got.size(), expected.size()) << what;
  double largest = 0, difference = 0;
  for (size_t i = 0; i < got.size(); i++) {
    ASSERT_FALSE(std::isnan(got[i])) << what << " " << i;
    largest = std::max(largest, std::fabs(double(expected[i])));
    difference = std::max(difference, std::fabs(double(got[i]) - double(expected[i])));
  }
  EXPECT_LE(difference, tolerance * largest) << what << ": of " << largest;
}
Floats run(OnnxModel& model, const Floats& input, size_t output = 0) {
  model.inputs[0].tensor.set(input);
  model.graph.execute();
  return model.outputs[output].tensor.data<float>();
}

TEST(OnnxModelFiles, SqueezeNet) {
  LUMINAL_NEEDS_DATA(path, "vision/squeezenet1.1.onnx");
  OnnxModel model = load_onnx(path);
  for (int set = 0; set < 3; set++) {
    const std::string data = path.substr(0, path.size() - 5) + "_test_data_set_" + std::to_string(set);
    expect_close(run(model, read_npy(data + "_input_0.npy")), read_npy(data + "_output_0.npy"), data);
  }
}
TEST(OnnxModelFiles, Mnist8) {
  LUMINAL_NEEDS_DATA(path, "vision/mnist_8.onnx");
  OnnxModel model = load_onnx(path);
  for (int set = 0; set < 3; set++) {
    const std::string data = path.substr(0, path.size() - 5) + "_set" + std::to_string(set);
    expect_close(run(model, read_pb(data + "_input_0.pb")), read_pb(data + "_output_0.pb"), data);
  }
}
TEST(OnnxModelFiles, SuperResolution) {
  LUMINAL_NEEDS_DATA(path, "vision/super_resolution_10.onnx");
  OnnxModel model = load_onnx(path, {.dims = {{"batch_size", {1, 1}}}});
  const std::string data = path.substr(0, path.size() - 5);
  expect_close(run(model, read_pb(data + "_input_0.pb")), read_pb(data + "_output_0.pb"), data);
}
TEST(OnnxModelFiles, SuperResolutionOfDynamicBatches) {
  LUMINAL_NEEDS_DATA(path, "vision/super_resolution_10.onnx");
  OnnxModel model = load_onnx(path, {.dims = {{"batch_size", {1, 4}}}});
  const std::string data = path.substr(0, path.size() - 5);
  const Floats one = read_pb(data + "_input_0.pb"), expected = read_pb(data + "_output_0.pb");
  Floats two = one;
  two.insert(two.end(), one.begin(), one.end());
  model.graph.set_dim("batch_size", 2);
  const Floats got = run(model, two);
  ASSERT_EQ(got.size(), 2 * expected.size());
  expect_close({got.begin(), got.begin() + std::ptrdiff_t(expected.size())}, expected, "the first of two");
  expect_close({got.begin() + std::ptrdiff_t(expected.size()), got.end()}, expected, "the second of two");
}
TEST(OnnxModelFiles, YoloxNano) {
  LUMINAL_NEEDS_DATA(path, "vision/yolox_nano.onnx");
  LUMINAL_NEEDS_DATA(reference, "vision/ref_yolox_nano_dog.safetensors");
  const Safetensors file = open_safetensors(reference).value();
  OnnxModel model = load_onnx(path);
  expect_close(run(model, read_reference(file, "input_u8")), read_reference(file, "output"), "output");
}
TEST(OnnxModelFiles, UltraFace) {
  LUMINAL_NEEDS_DATA(path, "vision/ultraface_rfb_320.onnx");
  LUMINAL_NEEDS_DATA(reference, "vision/ref_ultraface_rfb320_hopper.safetensors");
  const Safetensors file = open_safetensors(reference).value();
  OnnxModel model = load_onnx(path);
  Floats image = read_reference(file, "input_u8");
  for (float& x : image) x = (x - 127) / 128;
  expect_close(run(model, image), read_reference(file, "scores"), "scores");
  expect_close(model.output("boxes").data<float>(), read_reference(file, "boxes"), "boxes");
}
TEST(OnnxModelFiles, KeywordTransformer) {
  LUMINAL_NEEDS_DATA(path, "audio/kwt1.onnx");
  LUMINAL_NEEDS_DATA(reference, "audio/ref_kwt1.safetensors");
  const Safetensors file = open_safetensors(reference).value();
  OnnxModel model = load_onnx(path);
  for (const std::string word : {"yes", "no", "silence", "noise"}) {
    const Floats wave = read_wav(*test_data("audio/" + word + "_1000ms.wav"));
    expect_close(run(model, wave), read_reference(file, word + ".logits"), word, 1e-3);
    expect_close(model.output("mfcc").data<float>(), read_reference(file, word + ".mfcc"), word + " mfcc",
                 1e-3);
  }
}
TEST(OnnxModelFiles, BasicPitch) {
  LUMINAL_NEEDS_DATA(path, "audio/basic_pitch_nmp.onnx");
  LUMINAL_NEEDS_DATA(reference, "audio/ref_basic_pitch_vocadito10_window0.safetensors");
  const Safetensors file = open_safetensors(reference).value();
  OnnxModel model = load_onnx(path, {.shapes = {{"serving_default_input_2:0", {1, 43844, 1}}}});
  run(model, read_reference(file, "input"));
  for (const OnnxValue& output : model.outputs)
    expect_close(output.tensor.data<float>(), read_reference(file, output.name), output.name, 1e-3);
}
TEST(OnnxModelFiles, SileroVoiceActivity) {
  LUMINAL_NEEDS_DATA(path, "audio/silero_vad_16k_op15.onnx");
  LUMINAL_NEEDS_DATA(reference, "audio/ref_silero_vad_jfk.safetensors");
  LUMINAL_NEEDS_DATA(wav, "audio/jfk.wav");
  const Floats expected = read_reference(open_safetensors(reference).value(), "speech_prob_jit"),
               wave = read_wav(wav);
  OnnxModel model = load_onnx(path, {.shapes = {{"input", {1, 576}}, {"state", {2, 1, 128}}, {"sr", {}}}});
  Floats state(256, 0), got;
  model.input("sr").set(int64_t(16000));
  for (size_t chunk = 0; chunk < expected.size(); chunk++) { // 64 samples of the chunk before, 512 new ones
    Floats input(576, 0);
    for (size_t i = 0; i < 576; i++) {
      const auto at = int64_t(chunk * 512 + i) - 64;
      if (at >= 0 && at < int64_t(wave.size())) input[i] = wave[size_t(at)];
    }
    model.input("input").set(input);
    model.input("state").set(state);
    model.graph.execute();
    got.push_back(model.output("output").data<float>().at(0));
    state = model.output("stateN").data<float>();
  }
  expect_close(got, expected, "speech", 2e-3);
}
/// The noise suppressor has no recording beside its reference here: plan and interpreter agree.
TEST(OnnxModelFiles, DtlnEqualsItsMeaning) {
  for (const char* name : {"audio/dtln_model_1.onnx", "audio/dtln_model_2.onnx"}) {
    LUMINAL_NEEDS_DATA(path, name);
    OnnxModel model = load_onnx(path);
    uint32_t random = 7;
    for (const OnnxValue& input : model.inputs) {
      Floats values(size_t(input.tensor.element_count()));
      for (float& x : values) x = float((random = random * 1664525 + 1013904223) >> 8) / float(1 << 25);
      Tensor t = input.tensor;
      t.set(values);
    }
    model.graph.execute();
    for (const OnnxValue& output : model.outputs) {
      const auto meaning = model.graph.interpret({output.tensor})[0].numbers();
      expect_close(output.tensor.data<float>(), Floats(meaning.begin(), meaning.end()), output.name, 1e-4);
    }
  }
}

} // namespace
} // namespace luminal
