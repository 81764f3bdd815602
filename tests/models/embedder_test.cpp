// tests/models/embedder_test.cpp -- vectors of texts: those of the module Bert for the text's tokens, pooled
// as the folder says; what is not such a model is refused by name.
#include "base/file.h"
#include "formats/safetensors.h"
#include "models/embedder.h"
#include "support/error_of.h"
#include <cmath>
#include <filesystem>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <random>
#include <unistd.h>

namespace luminal::models::embedder_test {
namespace {

namespace fs = std::filesystem;

const BertConfig small{.vocabulary = 9, .width = 16, .layers = 2, .heads = 2, .inner = 24, .positions = 12};
const std::string config = R"({"model_type":"bert","vocab_size":9,"hidden_size":16,"num_hidden_layers":2,
  "num_attention_heads":2,"intermediate_size":24,"max_position_embeddings":12,"layer_norm_eps":1e-12})";

class EmbedderTest : public ::testing::Test {
protected:
  EmbedderTest() : path_((fs::temp_directory_path() / fmt::format("luminal-embed-{}", getpid())).string()) {
    fs::remove_all(path_);
    fs::create_directories(path_);
    put("config.json", config);
    put("vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\nthe\ncat\nsat\n##s\ndog\n");
    save("");
  }
  ~EmbedderTest() override {
    std::error_code error;
    fs::remove_all(path_, error);
  }
  void put(const std::string& name, const std::string& text) const {
    ASSERT_TRUE(write_file(path_ + "/" + name, text));
  }
  /// Random weights, their names behind `prefix`.
  void save(const std::string& prefix) const {
    Graph g;
    const Bert bert(nn::Scope(g), small);
    std::mt19937 random(5);
    std::vector<std::pair<std::string, std::vector<float>>> values;
    std::vector<TensorView> views;
    for (const auto& [name, tensor] : bert.state_dict()) {
      std::vector<int64_t> shape;
      int64_t count = 1;
      for (const Dim& d : tensor.shape()) shape.push_back(d.value()), count *= d.value();
      std::vector<float> of_tensor(size_t(count), 0);
      for (float& v : of_tensor) v = float(int(random() % 2001) - 1000) / 1500;
      values.emplace_back(prefix + name, std::move(of_tensor));
      views.push_back({values.back().first, StorageType::f32, shape, {}});
    }
    for (size_t i = 0; i < views.size(); i++) views[i].bytes = std::as_bytes(std::span(values[i].second));
    ASSERT_TRUE(save_safetensors(path_ + "/model.safetensors", views, {}));
  }
  /// [n, width] of the last layer.
  std::vector<float> hidden(const std::vector<int32_t>& ids) const {
    Graph g;
    const Bert bert(nn::Scope(g), small);
    bert.load(path_ + "/model.safetensors");
    Tensor given = g.tensor({1, int64_t(ids.size())}, DType::i32);
    given.set(ids);
    Tensor out = bert(given).last();
    out.keep();
    g.execute();
    return out.data<float>();
  }
  std::string path_;
};

TEST_F(EmbedderTest, VectorsAreTheMeanOfTheLastLayer) {
  Embedder embedder(path_);
  Embedder raw(path_, {.pooling = Pooling::first, .normalise = false});
  const std::pair<const char*, std::vector<int32_t>> texts[] = {
      {"the cat sat", {2, 4, 5, 6, 3}}, {"The CATS, dog!", {2, 4, 5, 7, 1, 8, 1, 3}}, {"", {2, 3}}};
  for (const auto& [text, ids] : texts) {
    SCOPED_TRACE(text);
    const auto all = hidden(ids);
    std::vector<double> mean(16, 0);
    double length = 0;
    for (size_t i = 0; i < all.size(); i++) mean[i % 16] += double(all[i]) / double(ids.size());
    for (const double x : mean) length += x * x;
    const auto result = embedder.embed(text);
    EXPECT_EQ(result.tokens, int64_t(ids.size()));
    ASSERT_EQ(result.vector.size(), 16U);
    for (size_t i = 0; i < 16; i++)
      ASSERT_LE(std::abs(result.vector[i] - mean[i] / std::sqrt(length)), 1e-5) << i;
    const auto first = raw.embed(text).vector;
    for (size_t i = 0; i < 16; i++)
      ASSERT_LE(std::abs(first[i] - all[i]), 1e-5 * (1 + std::abs(all[i]))) << i;
  }
}

TEST_F(EmbedderTest, TheFolderSaysHowAndWhere) {
  const auto mean = Embedder(path_).embed("the cat").vector;
  put("config.json", config);
  fs::create_directories(path_ + "/1_Pooling");
  put("1_Pooling/config.json", R"({"pooling_mode_cls_token": true, "pooling_mode_mean_tokens": false})");
  const auto first = Embedder(path_).embed("the cat").vector;
  EXPECT_NE(first, mean);
  EXPECT_EQ(Embedder(path_, {.pooling = Pooling::first}).embed("the cat").vector, first);
  EXPECT_EQ(Embedder(path_, {.pooling = Pooling::mean}).embed("the cat").vector, mean);
  put("1_Pooling/config.json", R"({"pooling_mode_max_tokens": true})");
  EXPECT_EQ(error_of([&] { Embedder e(path_); }),
            path_ + "/1_Pooling/config.json: neither the mean nor the first token alone is not supported");
  fs::remove_all(path_ + "/1_Pooling");
  save("bert."); // inside of a model with a head
  EXPECT_EQ(Embedder(path_).embed("the cat").vector, mean);
}

TEST_F(EmbedderTest, MistakesAreNamed) {
  Embedder embedder(path_);
  EXPECT_EQ(error_of([&] { embedder.embed("the the the the the the the the the the the"); }),
            "the text has 13 tokens, the model takes 12");
  EXPECT_EQ(error_of([&] { embedder.embed_tokens({}); }), "a text without a token has no vector");
  EXPECT_EQ(error_of([&] { Embedder e(path_ + "/model.safetensors"); }),
            path_ + "/model.safetensors: a Hugging Face folder of a BERT model is expected (config.json, "
                    "model.safetensors, tokenizer)");
  const auto with = [&](const char* old, const char* changed) {
    std::string text = config;
    text.replace(text.find(old), std::string(old).size(), changed);
    put("config.json", text);
    return error_of([&] { Embedder e(path_); });
  };
  EXPECT_EQ(with("\"bert\"", "\"llama\""),
            path_ + "/config.json: a model of type \"llama\", expected \"bert\" (also MiniLM, BGE and E5)");
  EXPECT_THAT(with("\"hidden_size\":16", "\"hidden_size\":0"),
              testing::HasSubstr("\"hidden_size\" is 0, expected 1 to 16777216"));
  EXPECT_THAT(with("\"model_type\":", "\"position_embedding_type\":\"rotary\",\"model_type\":"),
              testing::HasSubstr("positions of another kind than \"absolute\" are not supported"));
  EXPECT_THAT(with("\"intermediate_size\":24", "\"intermediate_size\":25"),
              testing::HasSubstr("the weight is f32[25], the file has F32 [24]"));
  EXPECT_EQ(with("\"num_hidden_layers\":2", "\"num_hidden_layers\":3"),
            path_ + ": no tensor encoder.layer.2.attention.output.LayerNorm.bias (16 of 53 are missing)");
  EXPECT_EQ(with("\"vocab_size\":9", "\"vocab_size\":8"),
            path_ + ": a tokenizer of 9 tokens for a model of 8");
}

} // namespace
} // namespace luminal::models::embedder_test
