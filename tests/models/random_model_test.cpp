// tests/models/random_model_test.cpp -- random models: their values in every type, the same bytes
// for the same seed, as a file and in memory.
#include "base/pages.h"
#include "formats/quants.h"
#include "luminal/error.h"
#include "models/generator.h"
#include "models/llama.h"
#include "models/random_model.h"
#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <gmock/gmock.h>
#include <unistd.h>

namespace luminal::models::random_model_test {
namespace {

const ModelShape& tiny() { return *find_model_shape("tiny"); }

/// Logits of the last of four tokens.
std::vector<float> logits(const ModelFile& file) {
  Llama model = make_llama(file, {.context = 16, .chunk = 8});
  model.graph.compile({.threads = 2, .cache = false});
  model.graph.set_dim("n", 4);
  model.graph.set_dim("past", 0);
  model.tokens.set(std::vector<int32_t>{3, 17, 511, 0});
  model.graph.execute();
  return model.logits.data<float>();
}

class RandomWeights : public testing::TestWithParam<StorageType> {};

TEST_P(RandomWeights, HaveTheirDeviationAndRun) {
  const RandomModel model = random_model(tiny(), GetParam(), 7);
  for (const TensorView& t : model.file.tensors) {
    const std::vector<float> values = dequantize(t).value();
    double sum = 0, squares = 0;
    for (float v : values) sum += v, squares += double(v) * v;
    const double mean = sum / double(values.size()), wanted = 1 / std::sqrt(double(t.shape.back()));
    if (t.shape.size() == 1) {
      EXPECT_TRUE(mean == 1 && squares == double(values.size())) << t.describe();
      continue;
    }
    EXPECT_NEAR(mean / wanted, 0, 0.15) << t.describe();
    // The smallest matrices have 128 blocks of Q5_K with scales of their own: a deviation of 0.015.
    EXPECT_NEAR(std::sqrt(squares / double(values.size())) / wanted, 1, 0.06) << t.describe();
  }
  double largest = 0;
  for (float x : logits(model.file)) {
    ASSERT_TRUE(std::isfinite(x));
    largest = std::max(largest, double(std::abs(x)));
  }
  EXPECT_GT(largest, 0.5);
  EXPECT_LT(largest, 50);
}

TEST_P(RandomWeights, OfTheSameSeedAreTheSameBytes) {
  const RandomModel a = random_model(tiny(), GetParam(), 7), b = random_model(tiny(), GetParam(), 7),
                    c = random_model(tiny(), GetParam(), 8);
  for (size_t i = 0; i < a.file.tensors.size(); i++) {
    const auto x = a.file.tensors[i].bytes, y = b.file.tensors[i].bytes, z = c.file.tensors[i].bytes;
    EXPECT_EQ(std::memcmp(x.data(), y.data(), x.size()), 0);
    if (a.file.tensors[i].shape.size() == 2) {
      EXPECT_NE(std::memcmp(x.data(), z.data(), x.size()), 0);
    }
  }
}

TEST_P(RandomWeights, AreTheSameModelAsAFile) {
  const auto path =
      std::filesystem::temp_directory_path() / ("luminal_random_" + std::to_string(getpid()) + ".gguf");
  const RandomModel model = random_model(tiny(), GetParam(), 7);
  save(model, path).value();
  const ModelFile opened = open_model(path).value();
  EXPECT_EQ(opened.require_config().vocab_size, tiny().vocabulary);
  EXPECT_EQ(opened.require_config().rope_interleaved, model.file.require_config().rope_interleaved);
  EXPECT_EQ(opened.parameters(), model.file.parameters());
  EXPECT_EQ(opened.require_config().rope_theta, model.file.require_config().rope_theta);
  EXPECT_EQ(opened.require_config().tied_embeddings, tiny().tied);
  for (const TensorView& t : model.file.tensors) {
    const TensorView& stored = opened.tensor(t.name);
    EXPECT_TRUE(stored.type == t.type && stored.shape == t.shape && std::ranges::equal(stored.bytes, t.bytes))
        << t.name;
  }
  std::filesystem::remove(path);
}

INSTANTIATE_TEST_SUITE_P(Types, RandomWeights,
                         testing::Values(StorageType::f32, StorageType::f16, StorageType::bf16,
                                         StorageType::q8_0, StorageType::q4_0, StorageType::q4_1,
                                         StorageType::q5_0, StorageType::q5_1, StorageType::q2_k,
                                         StorageType::q3_k, StorageType::q4_k, StorageType::q5_k,
                                         StorageType::q6_k),
                         [](const auto& type) { return std::string(storage_name(type.param)); });

TEST(RandomModel, LiesInAFileAndATableThatIsTheHeadIsAnnouncedTwice) {
  const RandomModel model = random_model(tiny(), StorageType::f32, 7);
  for (const TensorView& t : model.file.tensors) EXPECT_TRUE(is_mapped_file(t.bytes)) << t.name;
  for (const char* name : {"llama-1b", "llama-8b"}) { // tied, not tied
    const ModelShape& shape = *find_model_shape(name);
    const ModelFile file = model_without_values(shape, StorageType::bf16);
    const int64_t table = shape.tied ? 2 * shape.vocabulary * shape.hidden : 0;
    EXPECT_EQ(Generator::estimate(file, {.context = 64}).weights, int64_t(file.tensor_bytes()) + table);
  }
}

TEST(RandomModel, ShapesHaveTheirParameters) {
  auto parameters = [](const char* name) {
    int64_t count = 0;
    for (const TensorView& t : model_tensors(*find_model_shape(name), StorageType::f32))
      count += t.elements();
    return count;
  };
  // As their publishers count them.
  EXPECT_EQ(parameters("llama-1b"), 1235814400);
  EXPECT_EQ(parameters("llama-1b-24"), 65536000 + 24 * (10485760 + 31457280 + 4096) + 2048);
  EXPECT_EQ(parameters("llama-3b"), 3212749824);
  EXPECT_EQ(parameters("llama-8b"), 8030261248);
  EXPECT_EQ(parameters("tinyllama-1.1b"), 1100048384);
  EXPECT_EQ(parameters("smollm2-135m"), 134515008);
  EXPECT_EQ(parameters("smollm2-360m"), 361821120);
  EXPECT_EQ(parameters("mistral-7b"), 7248023552);
  EXPECT_EQ(find_model_shape("llama-2b"), nullptr);
}

TEST(RandomModel, RefusesTypesAndShapesByName) {
  auto message = [](const char* shape, StorageType type) {
    try {
      random_model(*find_model_shape(shape), type, 1);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_THAT(message("tiny", StorageType::i32), testing::HasSubstr("not made in I32"));
  EXPECT_THAT(message("smollm2-135m", StorageType::q4_k), testing::HasSubstr("rows of 576"));
}

} // namespace
} // namespace luminal::models::random_model_test
