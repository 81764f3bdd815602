// tuned_stories_test.cpp -- the tokens and logits of a real Llama do not depend on which schedules
// its kernels have.
#include "compile/random_answers.h"
#include "formats/safetensors.h"
#include "models/data.h"
#include "models/generator.h"
#include "search/tuning_support.h"
#include "tensor/graph_state.h"
#include <algorithm>

namespace luminal::models {
namespace {

struct Text {
  std::vector<int32_t> tokens;
  std::vector<float> logits; // of the first 64 positions
};
Text generate(const ModelFile& file, int threads, std::string* report = nullptr) {
  GeneratorOptions options;
  options.compile.threads = threads;
  options.model = {.context = 256, .chunk = 64};
  Generator generator(file, options);
  if (report) *report = generator.report();
  Text out;
  int32_t token = 1;
  for (int i = 0; i < 201; i++) {
    out.tokens.push_back(token);
    const auto logits = generator.feed({&token, 1});
    if (i < 64) out.logits.insert(out.logits.end(), logits.begin(), logits.end());
    token = int32_t(std::max_element(logits.begin(), logits.end()) - logits.begin());
  }
  return out;
}

TEST(TunedStories, RandomSchedulesGiveTheReference) {
  LUMINAL_NEEDS_DATA_FOLDER(data);
  const ModelFile file = open_model(data + "/llm/stories260K.gguf").value();
  std::vector<int32_t> tokens;
  std::vector<float> logits;
  const auto reference = open_safetensors(data + "/llm/ref_stories260K.safetensors").value();
  for (const TensorView& t : reference.tensors) {
    if (t.name == "greedy_tokens") {
      tokens.resize(t.bytes.size() / 4);
      std::memcpy(tokens.data(), t.bytes.data(), t.bytes.size());
    }
    if (t.name == "logits_first64") {
      logits.resize(t.bytes.size() / 4);
      std::memcpy(logits.data(), t.bytes.data(), t.bytes.size());
    }
  }
  ASSERT_EQ(tokens.size(), 201u);
  ASSERT_EQ(logits.size(), 64u * 512);
  const Llama model = make_llama(file, {.context = 256, .chunk = 64});
  const Module module = model.graph.state()->snapshot();
  for (uint64_t seed = 1; seed <= 3; seed++) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const search::CacheFolder folder("tuned_stories");
    const int threads = 1 + int(seed % 2);
    std::mt19937_64 random(seed);
    compile::Options options = compile::Options::host(threads);
    options.sizes = typical_sizes(model);
    {
      search::TuningCache cache(search::TuningCache::default_path());
      EXPECT_GE(testing_answers::put_random_schedules(module, options, cache, random), 3);
    }
    std::string report;
    const Text got = generate(file, threads, &report);
    EXPECT_NE(report.find(": tuned, key "), std::string::npos);
    EXPECT_EQ(report.find(": default schedule"), std::string::npos) << report;
    EXPECT_EQ(got.tokens, tokens);
    ASSERT_EQ(got.logits.size(), logits.size());
    float worst = 0;
    for (size_t i = 0; i < logits.size(); i++) {
      const float error = std::abs(got.logits[i] - logits[i]);
      ASSERT_FALSE(std::isnan(error)) << i;
      worst = std::max(worst, error);
    }
    EXPECT_LE(worst, 1e-4f);
  }
}

} // namespace
} // namespace luminal::models
