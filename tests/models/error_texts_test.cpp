// models/error_texts_test.cpp -- messages word for word: what cannot be run, weights, contexts,
// samplers. tools/check_error_texts.py lists those that no test names.
#include "luminal/llama.h"
#include "models/generator.h"
#include "models/llama.h"
#include "models/random_model.h"
#include "models/sampler.h"
#include "models/weights.h"
#include "support/error_of.h"
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <gtest/gtest.h>
#include <string>
#include <unistd.h>
#include <vector>

namespace luminal::models {
namespace {

/// As small as a model can be.
constexpr ModelShape smallest{.name = "smallest",
                              .what = "of tests",
                              .layers = 1,
                              .hidden = 32,
                              .heads = 2,
                              .kv_heads = 2,
                              .head_dim = 16,
                              .inner = 32,
                              .vocabulary = 8,
                              .context = 64,
                              .rope_theta = 10000,
                              .tied = true};

TEST(ModelErrorTexts, WhatIsNotALlama) {
  struct Row {
    std::function<void(ModelConfig&)> change;
    std::string expected;
  };
  const std::vector<Row> rows = {
      {[](ModelConfig& c) { c.architecture = "mamba"; },
       "smallest (F32, random weights): this architecture cannot be run yet, expected one of deepseek2, "
       "deepseek_v2, deepseek_v3, gemma, gemma2, gemma3, gemma3_text, gpt2, llama, mistral, mixtral, olmo2, "
       "phi2, phi3, qwen2, qwen3, qwen3_moe, qwen3moe, "
       "smollm, smollm2, tinyllama (architecture mamba)"},
      {[](ModelConfig& c) { c.architecture = "moondream1"; },
       "smallest (F32, random weights): a model of pictures and texts, which luminal run --image takes, and "
       "luminal serve (architecture moondream1)"},
      {[](ModelConfig& c) { c.num_experts = 4, c.num_experts_used = 2, c.expert_size = 32; },
       "smallest (F32, random weights): no tensor \"blk.0.ffn_gate_inp.weight\" among its 11; the nearest is "
       "\"blk.0.ffn_gate.weight\""},
      {[](ModelConfig& c) { c.attention_bias = true; },
       "smallest (F32, random weights): no tensor \"blk.0.attn_q.bias\" among its 11; the nearest is "
       "\"blk.0.attn_q.weight\""},
      {[](ModelConfig& c) { c.activation = "tanh"; },
       "smallest (F32, random weights): activation tanh cannot be run yet, expected one of gelu, gelu_fast, "
       "gelu_new, gelu_pytorch_tanh, relu, silu, swish (architecture llama)"},
      {[](ModelConfig& c) { c.gated = false; },
       "smallest (F32, random weights): 1 tensors that a model of the architecture llama does not have: "
       "blk.0.ffn_gate.weight"},
      {[](ModelConfig& c) { c.learned_positions = true, c.context_length = 16; },
       "smallest (F32, random weights): a context of 32, the model has 16 positions"},
      {[](ModelConfig& c) { c.rope_scaling.kind = RopeScaling::Kind::dynamic; },
       "smallest (F32, random weights): dynamic rotary scaling cannot be run yet (architecture llama)"},
  };
  for (const auto& [change, expected] : rows) {
    ModelFile file = model_without_values(smallest, StorageType::f32);
    change(*file.config);
    EXPECT_EQ(error_of([&] { make_llama(file, {.context = 32}); }), expected);
  }
}

TEST(ModelErrorTexts, Weights) {
  ModelFile file = model_without_values(smallest, StorageType::f32);
  for (TensorView& tensor : file.tensors)
    if (tensor.name == "blk.0.attn_k.weight") tensor.shape = {16, 32};
  EXPECT_EQ(error_of([&] { make_llama(file, {}); }),
            "smallest (F32, random weights): tensor blk.0.attn_k.weight is F32 [16, 32], the configuration "
            "asks for [32, 32]");
  Graph graph;
  const std::vector<int64_t> shape{2, 256};
  const std::vector<std::byte> bytes(storage_bytes(StorageType::iq2_xs, shape).value());
  const TensorView view{.name = "w", .type = StorageType::iq2_xs, .shape = shape, .bytes = bytes};
  EXPECT_EQ(error_of([&] { file_weight(graph, file, view); }),
            "smallest (F32, random weights): tensor w is stored as IQ2_XS; F64 F32 F16 BF16 Q8_0 Q4_0 Q4_1 "
            "Q5_0 Q5_1 Q2_K Q3_K Q4_K Q5_K Q6_K Q8_K IQ4_NL IQ4_XS MXFP4 TQ1_0 TQ2_0 can be run");
  EXPECT_EQ(error_of([] { activations_from_name("q4"); }), "activations q4: exact, bf16, q8 are known");
}

TEST(ModelErrorTexts, RandomWeights) {
  EXPECT_EQ(error_of([] { model_tensors(smallest, StorageType::i32); }),
            "random weights are not made in I32: F32 F16 BF16 Q8_0 Q4_0 Q4_1 Q5_0 Q5_1 Q2_K Q3_K Q4_K Q5_K "
            "Q6_K are known");
  EXPECT_EQ(error_of([] { model_tensors(smallest, StorageType::q4_k); }),
            "smallest in Q4_K: rows of 32 (token_embd.weight) are not a whole number of its blocks of 256");
  const char* before = std::getenv("TMPDIR");
  const std::string kept = before ? before : "";
  ::setenv("TMPDIR", "/nowhere/of/tests", 1);
  const std::string error = error_of([] { random_model(smallest, StorageType::f32, 1); });
  if (before)
    ::setenv("TMPDIR", kept.c_str(), 1);
  else
    ::unsetenv("TMPDIR");
  EXPECT_EQ(error, "smallest in F32: no place for 30080 bytes of weights: /nowhere/of/tests: No such file or "
                   "directory (TMPDIR names another folder)");
}

TEST(ModelErrorTexts, Samplers) {
  Sampler sampler({});
  EXPECT_EQ(error_of([&] { sampler.sample(std::vector<float>{NAN, NAN}, {}); }),
            "every logit is NaN: the model's weights or the computation are broken");
}

TEST(ModelErrorTexts, TextsAndContexts) {
  RandomModel random = random_model(smallest, StorageType::f32, 1);
  std::erase_if(random.metadata, [](const auto& pair) { return pair.first == "tokenizer.ggml.model"; });
  random.metadata.emplace_back("tokenizer.ggml.model", GgufValue::of_string("gpt2"));
  random.metadata.emplace_back("tokenizer.ggml.pre", GgufValue::of_string("gpt-2"));
  random.metadata.emplace_back("tokenizer.ggml.tokens", GgufValue::of_strings({"a", "b", "ab"}));
  random.metadata.emplace_back("tokenizer.ggml.merges", GgufValue::of_strings({"a b"}));
  const std::string path =
      (std::filesystem::temp_directory_path() / ("luminal_model_texts_" + std::to_string(getpid()) + ".gguf"))
          .string();
  ASSERT_TRUE(save(random, path));
  LanguageModel model(path, {.context = 4});
  const int line = __LINE__ + 1;
  EXPECT_EQ(error_of([&] { model.generate("", 1); }),
            "[generate] the prompt is empty, and the model names no token to begin with; give a prompt at "
            "error_texts_test.cpp:" +
                std::to_string(line));
  const auto file = open_model(path).value();
  Generator generator(file, {.model = {.context = 4}});
  generator.feed(std::vector<int32_t>{0, 1, 2});
  EXPECT_EQ(error_of([&] { generator.rewind(4); }), "a text of 3 tokens cannot go back to 4");
  EXPECT_EQ(error_of([&] { generator.feed(std::vector<int32_t>{0, 1}); }),
            "the text has 5 tokens, the context holds 4 (3 are in it): raise --ctx or shorten the text");
  std::filesystem::remove(path);
}

} // namespace
} // namespace luminal::models
