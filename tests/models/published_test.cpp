// tests/models/published_test.cpp -- models with their published weights equal their references: TinyBERT,
// Whisper tiny.en, ResNet-20, KWT-1, Silero VAD.
#include "formats/npy.h"
#include "formats/safetensors.h"
#include "luminal/lifetime.h"
#include "luminal/models.h"
#include "luminal/statistics.h"
#include "models/data.h"
#include "support/error_of.h"
#include <cmath>
#include <cstring>
#include <fstream>
#include <gtest/gtest.h>

namespace luminal::models {
namespace {

class Reference {
public:
  explicit Reference(const std::string& path) : file_(open_safetensors(path).value()) {}
  std::vector<float> operator()(const std::string& name) const {
    const TensorView* view = file_.find(name);
    if (view == nullptr) throw Error("no reference " + name);
    std::vector<float> values(view->bytes.size() / 4);
    std::memcpy(values.data(), view->bytes.data(), view->bytes.size());
    return values;
  }

private:
  Safetensors file_;
};

/// |got - want| <= tolerance * (1 + |want|) for the first elements of `got`, as many as are wanted.
void expect_near(const std::vector<float>& got, const std::vector<float>& want, double tolerance,
                 const std::string& what) {
  ASSERT_GE(got.size(), want.size()) << what;
  for (size_t i = 0; i < want.size(); i++)
    ASSERT_LE(std::abs(double(got[i]) - double(want[i])), tolerance * (1 + std::abs(double(want[i]))))
        << what << " element " << i << ": " << got[i] << ", expected " << want[i];
}

/// 16-bit samples of a WAVE file with one channel, whose data is the last chunk.
std::vector<float> samples_of(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(in)), {});
  const size_t at = bytes.find("data");
  if (at == std::string::npos) throw Error("no data in " + path);
  uint32_t size = 0;
  std::memcpy(&size, bytes.data() + at + 4, 4);
  std::vector<float> samples(std::min<size_t>(size, bytes.size() - at - 8) / 2);
  for (size_t i = 0; i < samples.size(); i++) {
    int16_t value = 0;
    std::memcpy(&value, bytes.data() + at + 8 + 2 * i, 2);
    samples[i] = float(value) / 32768;
  }
  return samples;
}

/// Every tensor of the file is a parameter of the module; `missing`: what the file does not have.
void load_all(const nn::Module& module, const std::string& path, const std::vector<std::string>& missing = {},
              std::function<std::string(const std::string&)> name_in_file = {}) {
  const LoadReport report =
      module.load(path, {.strict = false, .convert = true, .name_in_file = std::move(name_in_file)});
  EXPECT_EQ(report.missing, missing);
  EXPECT_TRUE(report.unused.empty() && report.mismatching.empty()) << report;
}

TEST(Published, TinyBert) {
  LUMINAL_NEEDS_DATA_FOLDER(data);
  const Reference want(data + "/llm/ref_tinybert_synthetic.safetensors");
  Graph g;
  Bert bert(nn::Scope(g), {.width = 312, .layers = 4, .inner = 1200, .positions = 128});
  load_all(bert, data + "/llm/tinybert_4l_312d.no_word_embeddings.f16.safetensors",
           {"embeddings.word_embeddings.weight"}, [](const std::string& name) {
             return name == "embeddings.position_embeddings.weight" ? name + "_first128" : name;
           });
  Tensor words = g.tensor({1, 16, 312}), mask = g.tensor({1, 16});
  words.set(want("word_embeddings_in"));
  mask.set(want("attention_mask"));
  BertResult result = bert.encode(words, mask > 0.5);
  keep(result.hidden);
  result.pooled.keep();
  Tensor sentence = sentence_embedding(result.last(), mask > 0.5).keep();
  g.execute();
  for (size_t i = 0; i < 5; i++)
    expect_near(result.hidden[i].data<float>(), want("hidden" + std::to_string(i)), 2e-5, "hidden");
  expect_near(result.pooled.data<float>(), want("pooled"), 2e-5, "pooled");
  double length = 0;
  for (float x : sentence.data<float>()) length += double(x) * double(x);
  EXPECT_NEAR(length, 1, 1e-5);
}

TEST(Published, MistakesAreNamed) {
  Graph g;
  nn::Scope s(g);
  EXPECT_EQ(error_without_place([&] { Bert(s / "a", {.width = 8, .heads = 3}); }),
            "[Bert] width 8 is not a multiple of 3 heads");
  EXPECT_EQ(error_without_place([&] { Whisper(s / "b", {.width = 8, .heads = 3}); }),
            "[Whisper] width 8 is not a multiple of 3 heads");
  Bert small(s / "c", {.width = 8, .layers = 1, .heads = 2, .inner = 8});
  EXPECT_EQ(error_without_place([&] { small.encode(g.tensor({4, 8})); }),
            "[Bert] [batch, n, width] is expected, not [4, 8]");
  EXPECT_EQ(error_without_place([&] { log_mel(g.tensor({1, 160})); }),
            "[log_mel] samples [n] are expected, not [1, 160]");
  EXPECT_EQ(error_of([] { mel_filters(0); }),
            "[mel_filters] 0 filters, 16000 samples a second, 400 in a frame: all must be above 1");
}

TEST(Published, MelFiltersAreThoseOfWhisper) {
  LUMINAL_NEEDS_DATA_FOLDER(data);
  const auto file = open_npy(data + "/audio/mel_filters.npz");
  ASSERT_TRUE(file) << file.error();
  for (const NpyArray& array : file->arrays) {
    const auto got = mel_filters(array.tensor.shape.at(0));
    ASSERT_EQ(array.tensor.bytes.size(), got.size() * 4);
    for (size_t i = 0; i < got.size(); i++) {
      float want = 0;
      std::memcpy(&want, array.tensor.bytes.data() + 4 * i, 4);
      ASSERT_NEAR(got[i], want, 1e-7) << array.tensor.name << " element " << i;
    }
  }
}

TEST(Published, WhisperHearsKennedy) {
  LUMINAL_NEEDS_DATA_FOLDER(data);
  const Reference want(data + "/audio/ref_whisper_tiny_en_jfk.safetensors");
  Graph g;
  Whisper whisper((nn::Scope(g)));
  load_all(whisper, data + "/audio/whisper-tiny.en.no_token_embedding.f16.safetensors",
           {"decoder.token_embedding.weight"});
  Tensor samples = g.tensor({480000}), text = g.tensor({8, 384});
  std::vector<float> audio = samples_of(data + "/audio/jfk.wav");
  audio.resize(480000);
  samples.set(audio);
  text.set(want("decoder_in_synthetic_embeddings"));
  Tensor mel = log_mel(samples).keep();
  Tensor heard = whisper.encode(mel).keep();
  Tensor written = whisper.decode_embeddings(text, heard).keep();
  g.execute();
  expect_near(mel.data<float>(), want("log_mel"), 1e-4, "log_mel");
  expect_near(heard.data<float>(), want("encoder_out"), 5e-4, "encoder_out");
  expect_near(written.data<float>(), want("decoder_ln_out"), 5e-4, "decoder_ln_out");
}

TEST(Published, KeywordsAreUnderstood) {
  LUMINAL_NEEDS_DATA_FOLDER(data);
  const Reference want(data + "/audio/ref_kwt1.safetensors");
  Graph g;
  KeywordTransformer kwt((nn::Scope(g)));
  load_all(kwt, data + "/audio/kwt1.safetensors");
  Tensor samples = g.tensor({16000});
  Tensor mfcc = kwt.mfcc(samples).keep(), logits = kwt.classify(mfcc).keep();
  for (const std::string word : {"yes", "no", "silence", "noise"}) {
    std::vector<float> audio = samples_of(data + "/audio/" + word + "_1000ms.wav");
    audio.resize(16000);
    samples.set(audio);
    g.execute();
    expect_near(mfcc.data<float>(), want(word + ".mfcc"), 2e-3, word + " mfcc");
    expect_near(logits.data<float>(), want(word + ".logits"), 2e-3, word + " logits");
  }
}

TEST(Published, SileroFindsSpeech) {
  LUMINAL_NEEDS_DATA_FOLDER(data);
  const auto want = Reference(data + "/audio/ref_silero_vad_jfk.safetensors")("speech_prob_jit");
  Graph g;
  SileroVad vad((nn::Scope(g)));
  load_all(vad, data + "/audio/silero_vad_v6.2_16k.safetensors");
  const auto count = int64_t(want.size());
  std::vector<float> audio = samples_of(data + "/audio/jfk.wav");
  audio.resize(size_t(count * 512));
  // The two halves one after the other: what is remembered goes from the first to the second.
  Dim n = g.dim("n", 1, 400);
  Tensor chunks = g.tensor({n, 512}), before = g.tensor({64}), h = g.tensor({128}), c = g.tensor({128});
  auto result = vad(chunks, before, {h, c});
  result.speech.keep();
  result.state.h.keep();
  result.state.c.keep();
  std::vector<float> got, past(64), hidden(128), cell(128);
  for (const auto& [first, end] : {std::pair<int64_t, int64_t>{0, 170}, {170, count}}) {
    chunks.set_dyn(std::span(audio).subspan(size_t(first * 512), size_t((end - first) * 512)),
                   {end - first, 512});
    before.set(past);
    h.set(hidden);
    c.set(cell);
    g.execute();
    const auto part = result.speech.data<float>();
    got.insert(got.end(), part.begin(), part.end());
    past.assign(audio.begin() + end * 512 - 64, audio.begin() + end * 512);
    hidden = result.state.h.data<float>();
    cell = result.state.c.data<float>();
  }
  expect_near(got, want, 1e-4, "speech");
}

TEST(Published, ResNetGivesTheLogitsOfPyTorch) {
  LUMINAL_NEEDS_DATA_FOLDER(data);
  Graph g;
  CifarResNet net((nn::Scope(g)));
  const LoadReport report = net.load(data + "/vision/resnet20_cifar10.safetensors", {.strict = false});
  EXPECT_TRUE(report.unused.empty() && report.mismatching.empty()) << report;
  for (const std::string& name : report.missing) EXPECT_TRUE(name.ends_with("num_batches_tracked")) << name;
  Tensor x = g.tensor({2, 3, 32, 32});
  Tensor y = net(x).keep();
  std::vector<float> images(2 * 3072);
  for (size_t i = 0; i < images.size(); i++) images[i] = std::sin(float(i % 3072) * 0.01f);
  x.set(images);
  g.execute();
  const auto logits = y.data<float>();
  ASSERT_EQ(logits.size(), 20u);
  for (size_t i = 0; i < 10; i++) EXPECT_EQ(logits[i], logits[i + 10]);
  // Of torch.nn.functional in f64, for sin(i / 100).
  expect_near(logits,
              {-0.78012336f, -0.92827492f, 1.05846155f, -3.87575493f, 6.59651349f, -2.89988747f, -0.11079143f,
               2.45824231f, 0.53359612f, -2.10345202f},
              2e-5, "logits");
}

} // namespace
} // namespace luminal::models
