// formats/model_config_test.cpp -- config.json, GGUF metadata, rotary frequencies against Hugging
// Face transformers.
#include "formats/gguf.h"
#include "formats/json.h"
#include "formats/model_config.h"
#include "formats/util.h"
#include <cmath>
#include <gmock/gmock.h>

namespace luminal::model_config_test {
namespace {

using namespace luminal::testing_formats;
using ::testing::HasSubstr;

const std::string base =
    R"("model_type":"llama","architectures":["LlamaForCausalLM"],"vocab_size":512,"hidden_size":64,
  "intermediate_size":172,"num_hidden_layers":5,"num_attention_heads":8,"max_position_embeddings":4096)";

Result<ModelConfig> parse(const std::string& more, std::string_view generation = {}) {
  return parse_hf_config("{" + base + (more.empty() ? "" : "," + more) + "}", "dir/config.json", generation);
}

TEST(ModelConfig, ReadsTheStoriesModel) {
  LUMINAL_NEEDS_DATA(path, "llm/stories260K.config.json");
  const auto c = parse_hf_config(file_content(path), path);
  ASSERT_TRUE(c) << c.error();
  EXPECT_EQ(c->architecture, "llama");
  EXPECT_EQ(c->architecture_class, "LlamaForCausalLM");
  EXPECT_EQ(c->num_kv_heads, 4);
  EXPECT_EQ(c->head_dim, 8);
  EXPECT_EQ(c->rope_dim, 8);
  EXPECT_EQ(c->rms_norm_eps, 1e-5);
  EXPECT_TRUE(c->tied_embeddings);
  EXPECT_FALSE(c->rope_interleaved);
  EXPECT_EQ(c->bos_tokens, std::vector<int32_t>{1});
  EXPECT_EQ(c->eos_tokens, std::vector<int32_t>{2});
  EXPECT_EQ(c->dtype, StorageType::f32);
}

TEST(ModelConfig, GgufAndConfigJsonAgree) {
  LUMINAL_NEEDS_DATA(json, "llm/stories260K.config.json");
  LUMINAL_NEEDS_DATA(file, "llm/stories260K.gguf");
  const auto a = parse_hf_config(file_content(json), json);
  const auto gguf = open_gguf(file);
  ASSERT_TRUE(gguf) << gguf.error();
  const auto b = config_from_gguf(*gguf);
  ASSERT_TRUE(a) << a.error();
  ASSERT_TRUE(b) << b.error();
  EXPECT_EQ(a->architecture, b->architecture);
  EXPECT_EQ(a->vocab_size, b->vocab_size);
  EXPECT_EQ(a->hidden_size, b->hidden_size);
  EXPECT_EQ(a->intermediate_size, b->intermediate_size);
  EXPECT_EQ(a->num_layers, b->num_layers);
  EXPECT_EQ(a->num_heads, b->num_heads);
  EXPECT_EQ(a->num_kv_heads, b->num_kv_heads);
  EXPECT_EQ(a->head_dim, b->head_dim);
  EXPECT_EQ(a->rms_norm_eps, b->rms_norm_eps) << "the decimal that was meant, not its f32 neighbour";
  EXPECT_EQ(a->rope_theta, b->rope_theta);
  EXPECT_EQ(a->bos_tokens, b->bos_tokens);
  EXPECT_EQ(a->eos_tokens, b->eos_tokens);
  EXPECT_TRUE(b->rope_interleaved);
  EXPECT_FALSE(b->tied_embeddings) << "this file stores the head a second time";
}

TEST(ModelConfig, ReadsQwen2) {
  LUMINAL_NEEDS_DATA(path, "tokenizers/qwen2-config.json");
  const auto c = parse_hf_config(file_content(path), path);
  ASSERT_TRUE(c) << c.error();
  EXPECT_EQ(c->architecture, "qwen2");
  EXPECT_EQ(c->head_dim, 128);
  EXPECT_TRUE(c->attention_bias);
  EXPECT_FALSE(c->sliding_window.has_value()) << "the switch is off";
  EXPECT_EQ(c->dtype, StorageType::bf16);
  EXPECT_EQ(c->rope_theta, 1e6);
}

TEST(ModelConfig, DefaultsAndOptionalFields) {
  const auto c = parse("");
  ASSERT_TRUE(c) << c.error();
  EXPECT_EQ(c->num_kv_heads, 8);
  EXPECT_EQ(c->rms_norm_eps, 1e-6);
  EXPECT_EQ(c->rope_theta, 1e4);
  EXPECT_FALSE(c->tied_embeddings);
  EXPECT_TRUE(c->eos_tokens.empty());
  const auto d = parse(
      R"("head_dim":16,"eos_token_id":[2,7],"bos_token_id":null,"sliding_window":128,"partial_rotary_factor":0.5,
    "torch_dtype":"bfloat16","num_local_experts":8,"num_experts_per_tok":2)",
      R"({"eos_token_id":[7,9],"bos_token_id":1})");
  ASSERT_TRUE(d) << d.error();
  EXPECT_EQ(d->head_dim, 16);
  EXPECT_EQ(d->rope_dim, 8);
  EXPECT_EQ(d->eos_tokens, (std::vector<int32_t>{2, 7, 9}));
  EXPECT_EQ(d->bos_tokens, std::vector<int32_t>{1});
  EXPECT_EQ(d->sliding_window, 128);
  EXPECT_EQ(d->num_experts_used, 2);
}

TEST(ModelConfig, RefusesByName) {
  const std::pair<const char*, const char*> bad[] = {
      {R"("rope_scaling":{"type":"longrope","factor":2})",
       "offset 213: rope scaling of type \"longrope\" has no \"short_factor\""},
      {R"("rope_scaling":{"type":"longrope","short_factor":[1,2],"long_factor":[1,2]})",
       "2 rotary frequency factors, expected 4"},
      {R"("rope_scaling":{"type":"longrope","short_factor":[1,2,3,4],"long_factor":[1,2,3,0]})",
       "rotary frequency factor 0, expected above 0"},
      {R"("rope_parameters":{"rope_type":"proportional"})",
       "offset 216: rope scaling of type \"proportional\", expected default, linear, dynamic, llama3, "
       "yarn or longrope"},
      {R"("rope_scaling":{"type":"linear"})",
       "offset 213: rope scaling of type \"linear\" has no \"factor\""},
      {R"("rope_scaling":{"rope_type":"llama3","factor":8})",
       "offset 213: rope scaling of type \"llama3\" has no \"low_freq_factor\""},
      {R"("rope_scaling":{"type":"linear","factor":2,"mystery":1})",
       "offset 252: rope scaling of type \"linear\" with \"mystery\", whose meaning is not known"},
      {R"("rope_scaling":{"type":"linear","factor":0})",
       "the factor of the rope scaling is 0, expected 1e-06 to 1000000000"},
      {R"("rope_scaling":{"type":"linear","factor":"x"})",
       "offset 241: \"factor\" is a string, expected a number"},
      {R"("rope_scaling":7)", "offset 214: the rope scaling is an integer, expected an object"},
      {R"("rope_parameters":{"full_attention":{"rope_type":"default"}})",
       "offset 234: rope parameters for \"full_attention\" alone, expected the same for every layer"},
      {R"("quantization_config":{"quant_method":"gptq"})",
       "offset 220: weights quantized by the method \"gptq\", expected plain weights (or a GGUF file)"},
      {R"("num_key_value_heads":3)", "8 attention heads and 3 key and value heads, expected a multiple"},
      {R"("num_key_value_heads":0)", "the number of key and value heads is 0, expected 1 to 65536"},
      {R"("head_dim":7)", "7 rotary elements in a head of 7, expected an even number from 2 on"},
      {R"("head_dim":-8)", "the size of a head is -8, expected 1 to 65536"},
      {R"("rms_norm_eps":"1e-5")", "offset 218: \"rms_norm_eps\" is a string, expected a number"},
      {R"("rms_norm_eps":-1)", "the epsilon of the norms is -1, expected 0 to 1"},
      {R"("rope_theta":0)", "the rotary base is 0, expected 1e-06 to 1000000000000000"},
      {R"("eos_token_id":-1)", "offset 215: \"eos_token_id\" is -1, expected a token id"},
      {R"("eos_token_id":[1,"x"])", "is a string, expected an integer"},
      {R"("sliding_window":64,"layer_types":["sliding_attention","linear_attention"])",
       "offset 270: a layer of type \"linear_attention\", expected sliding_attention or full_attention"},
      {R"("rope_parameters":{"full_attention":{},"sliding_attention":{"rope_type":"linear"}})",
       "scaled rotary frequencies of windowed layers, expected plain ones"},
      {R"("sliding_window":64,"layer_types":["sliding_attention"])", "1 types of layers for 5 layers"},
      {R"("num_local_experts":4,"num_experts_per_tok":2,"moe_intermediate_size":0)",
       "the size of an expert is 0, expected 1 to 67108864"},
      {R"("num_local_experts":4,"num_experts_per_tok":0)",
       "the number of experts used is 0, expected 1 to 4"},
      {R"("sliding_window":0)", "the sliding window is 0, expected 1 to 2147483648"},
      {R"("partial_rotary_factor":2)",
       "offset 223: \"partial_rotary_factor\" is 2, expected above 0 and at most 1"},
      {R"("num_local_experts":8)",
       "offset 1: no \"num_experts_per_tok\", which a language model of type \"llama\" needs"},
      {R"("num_local_experts":2,"num_experts_per_tok":3)", "3 of 2 experts used, expected at most all"},
      {R"("vocab_size":512)", "offset 214: key \"vocab_size\" stands twice in one object"},
      {R"("tie_word_embeddings":1)", "offset 221: \"tie_word_embeddings\" is an integer, expected a boolean"},
  };
  for (const auto& [more, expected] : bad) {
    SCOPED_TRACE(more);
    const auto c = parse(more);
    ASSERT_FALSE(c);
    EXPECT_THAT(c.error(), HasSubstr(expected));
    expect_clear_line(c.error(), "dir/config.json: ");
  }
  const std::pair<const char*, const char*> whole[] = {
      {"", "not JSON"},
      {R"({"vocab_size":1e999})", "offset 18: not JSON: number overflow parsing '1e999'"},
      {"[]", "offset 1: the configuration is an array, expected an object"},
      {"{}", "offset 1: no \"model_type\", expected the configuration of a Hugging Face model"},
      {R"({"model_type":"bert","vocab_size":9,"hidden_size":8})",
       "offset 1: no \"intermediate_size\", which a language model of type \"bert\" needs"},
      {R"({"model_type":"llama","vocab_size":1e3})",
       "offset 39: \"vocab_size\" is a number, expected an integer"},
      {R"({"model_type":"llama","vocab_size":1,"hidden_size":65,"intermediate_size":1,"num_hidden_layers":1,"num_attention_heads":8})",
       "hidden size 65 and 8 heads"},
      {R"({"model_type":"llama","vocab_size":1,"hidden_size":64,"intermediate_size":1,"num_hidden_layers":1,"num_attention_heads":0})",
       "\"num_attention_heads\" is 0, expected 1 or more"},
      {R"({"model_type":"llama","vocab_size":9223372036854775807,"hidden_size":64,"intermediate_size":1,"num_hidden_layers":1,"num_attention_heads":8})",
       "the vocabulary size is 9223372036854775807, expected 1 to 2147483647"},
  };
  for (const auto& [text, expected] : whole) {
    SCOPED_TRACE(text);
    const auto c = parse_hf_config(text, "dir/config.json");
    ASSERT_FALSE(c);
    EXPECT_THAT(c.error(), HasSubstr(expected));
    expect_clear_line(c.error(), "dir/config.json: ");
  }
  const auto generation = parse("", "{\"eos_token_id\":\"x\"}");
  ASSERT_FALSE(generation);
  EXPECT_THAT(generation.error(), HasSubstr("dir/generation_config.json: offset"));
}

TEST(ModelConfig, SurvivesTruncationAndRandomChanges) {
  const std::string valid =
      "{" + base + R"(,"rope_parameters":{"rope_type":"yarn","factor":4.0,"rope_theta":1e6,"beta_fast":32,
    "original_max_position_embeddings":1024,"truncate":false},"eos_token_id":[1,2],"sliding_window":null,"head_dim":16})";
  ASSERT_TRUE(parse_hf_config(valid, "c"));
  mutate(
      valid, "c: ", 3, 5000, [](std::string_view text) { return parse_hf_config(text, "c"); },
      [](const ModelConfig& c) {
        const auto table = rope_table(c, 1 << 20);
        EXPECT_EQ(static_cast<int64_t>(table.inverse_frequencies.size()), c.rope_dim / 2);
      });
}

TEST(ModelConfig, RotaryFrequenciesAreThoseOfTransformers) {
  const std::string path = LUMINAL_SOURCE_DIR "/tests/formats/golden/rope.json";
  const detail::Json golden = detail::parse_json(file_content(path), path);
  int cases = 0;
  for (const auto& entry : golden.as_array(path, "cases")) {
    SCOPED_TRACE(++cases);
    std::string rope = "{";
    for (const auto& [key, value] : entry.find("rope")->as_object(path, "rope")) {
      rope += rope.size() > 1 ? "," : "";
      rope += "\"" + key + "\":";
      if (value.is_string())
        rope += "\"" + value.as_string(path, "") + "\"";
      else if (value.is_bool())
        rope += value.as_bool(path, "") ? "true" : "false";
      else
        rope += value.is_integer() ? fmt::format("{}", value.as_int(path, ""))
                                   : fmt::format("{}", value.as_real(path, ""));
    }
    const auto c = parse_hf_config(
        fmt::format(
            R"({{"model_type":"llama","vocab_size":8,"hidden_size":{},"intermediate_size":8,"num_hidden_layers":1,
          "num_attention_heads":4,"head_dim":{},"max_position_embeddings":{},"rope_parameters":{}}}}})",
            entry.find("head_dim")->as_int(path, "") * 4, entry.find("head_dim")->as_int(path, ""),
            entry.find("context")->as_int(path, ""), rope),
        "config.json");
    ASSERT_TRUE(c) << c.error();
    const RopeTable table = rope_table(*c, entry.find("length")->as_int(path, ""));
    const auto& expected = entry.find("inverse_frequencies")->as_array(path, "");
    ASSERT_EQ(table.inverse_frequencies.size(), expected.size());
    for (size_t i = 0; i < expected.size(); ++i) {
      const double e = expected[i].as_real(path, ""); // computed in f32 there
      EXPECT_TRUE(std::fabs(table.inverse_frequencies[i] - e) <= 3e-6 * e)
          << i << ": " << table.inverse_frequencies[i] << " " << e;
    }
    EXPECT_TRUE(std::fabs(table.magnitude - entry.find("magnitude")->as_real(path, "")) <= 1e-9)
        << table.magnitude;
  }
  EXPECT_EQ(cases, 11);
}

using Metadata = std::vector<std::pair<std::string, GgufValue>>;

Metadata llama_metadata() {
  return {{"general.architecture", GgufValue::of_string("llama")},
          {"llama.embedding_length", GgufValue::of_u32(64)},
          {"llama.block_count", GgufValue::of_u32(2)},
          {"llama.attention.head_count", GgufValue::of_u32(8)},
          {"llama.feed_forward_length", GgufValue::of_u32(172)},
          {"llama.context_length", GgufValue::of_u32(128)},
          {"llama.vocab_size", GgufValue::of_u32(512)},
          {"llama.attention.layer_norm_rms_epsilon", GgufValue::of_f32(1e-5F)}};
}

Result<ModelConfig> from(const Metadata& metadata, std::vector<TensorView> tensors = {}) {
  const auto bytes = serialize_gguf(metadata, tensors);
  if (!bytes) return bytes.failure();
  const auto gguf = parse_gguf(detail::as_bytes(*bytes), "f.gguf");
  if (!gguf) return gguf.failure();
  return config_from_gguf(*gguf);
}

TEST(ModelConfig, ReadsGgufMetadata) {
  Metadata m = llama_metadata();
  m.emplace_back("llama.attention.head_count_kv", GgufValue::of_i32s({4, 4}));
  m.emplace_back("llama.attention.key_length", GgufValue::of_u32(16));
  m.emplace_back("llama.rope.dimension_count", GgufValue::of_u32(8));
  m.emplace_back("llama.rope.freq_base", GgufValue::of_f32(500000.0F));
  m.emplace_back("llama.rope.scaling.type", GgufValue::of_string("yarn"));
  m.emplace_back("llama.rope.scaling.factor", GgufValue::of_f32(4.0F));
  m.emplace_back("llama.rope.scaling.original_context_length", GgufValue::of_u32(32));
  m.emplace_back("tokenizer.ggml.eos_token_id", GgufValue::of_u32(2));
  m.emplace_back("tokenizer.ggml.eot_token_id", GgufValue::of_u32(3));
  m.emplace_back("tokenizer.ggml.bos_token_id", GgufValue::of_u32(4294967295U));
  const std::vector<float> factors = {1, 2, 3, 4};
  const auto c = from(m, {{"rope_freqs.weight", StorageType::f32, {4}, std::as_bytes(std::span(factors))}});
  ASSERT_TRUE(c) << c.error();
  EXPECT_EQ(c->num_kv_heads, 4);
  EXPECT_EQ(c->head_dim, 16);
  EXPECT_EQ(c->rope_dim, 8);
  EXPECT_EQ(c->rope_theta, 500000.0);
  EXPECT_EQ(c->rope_scaling.kind, RopeScaling::Kind::yarn);
  EXPECT_EQ(c->rope_scaling.original_context, 32);
  EXPECT_EQ(c->rope_factors, factors);
  EXPECT_EQ(c->eos_tokens, (std::vector<int32_t>{2, 3}));
  EXPECT_TRUE(c->bos_tokens.empty());
  EXPECT_TRUE(c->rope_interleaved);
  auto without = *c;
  without.rope_factors.clear();
  EXPECT_DOUBLE_EQ(rope_table(*c).inverse_frequencies[3], rope_table(without).inverse_frequencies[3] / 4);
  m[0].second = GgufValue::of_string("qwen2");
  for (auto& [key, value] : m)
    if (key.starts_with("llama.")) key = "qwen2." + key.substr(6);
  const auto q = from(m);
  ASSERT_TRUE(q) << q.error();
  EXPECT_FALSE(q->rope_interleaved);
}

TEST(ModelConfig, GemmaInGguf) {
  const auto gemma = [](const char* name, int pattern) {
    Metadata m;
    for (const auto& [key, value] : llama_metadata())
      m.emplace_back(key.starts_with("llama.") ? name + key.substr(5) : key,
                     key == "general.architecture" ? GgufValue::of_string(name) : value);
    m.emplace_back(std::string(name) + ".attention.sliding_window", GgufValue::of_u32(4));
    if (pattern >= 0)
      m.emplace_back(std::string(name) + ".attention.sliding_window_pattern",
                     GgufValue::of_u32(uint32_t(pattern)));
    return from(m);
  };
  const auto two = gemma("gemma2", -1), three = gemma("gemma3", 3);
  ASSERT_TRUE(two) << two.error();
  ASSERT_TRUE(three) << three.error();
  for (int64_t layer = 0; layer < two->num_layers; layer++) {
    EXPECT_EQ(two->windowed(layer), layer % 2 == 0) << layer;
    EXPECT_EQ(three->windowed(layer), layer % 3 != 2) << layer;
  }
  EXPECT_EQ(two->attention_softcap, 50);
  EXPECT_EQ(two->norm_offset, 0) << "it is part of the weights in the file";
  EXPECT_EQ(three->local_rope_theta, 10000);
  EXPECT_EQ(two->embedding_scale, std::sqrt(double(two->hidden_size)));
  const auto wrong = gemma("gemma2", 0);
  ASSERT_FALSE(wrong);
  EXPECT_EQ(wrong.error(), "f.gguf: a sliding window pattern of 0, expected 1 or more");
}

TEST(ModelConfig, ReadsDeepSeekFromGguf) {
  const auto config = [](std::initializer_list<std::pair<const char*, GgufValue>> more) {
    Metadata m;
    for (auto [key, value] : llama_metadata())
      m.emplace_back(key.starts_with("llama.") ? "deepseek2" + key.substr(5) : key,
                     key == "general.architecture" ? GgufValue::of_string("deepseek2") : value);
    const std::pair<const char*, int> numbers[] = {{"attention.kv_lora_rank", 16},
                                                   {"attention.key_length", 24},
                                                   {"attention.value_length", 12},
                                                   {"rope.dimension_count", 8},
                                                   {"expert_count", 6},
                                                   {"expert_used_count", 2},
                                                   {"expert_shared_count", 2},
                                                   {"leading_dense_block_count", 1},
                                                   {"expert_feed_forward_length", 10}};
    for (const auto& [key, value] : numbers)
      m.emplace_back(std::string("deepseek2.") + key, GgufValue::of_u32(uint32_t(value)));
    for (const auto& [key, value] : more) {
      const std::string full = std::string("deepseek2.") + key;
      std::erase_if(m, [&](const auto& pair) { return pair.first == full; });
      m.emplace_back(full, value);
    }
    return from(m);
  };
  const auto plain = config({});
  ASSERT_TRUE(plain) << plain.error();
  ASSERT_TRUE(plain->latent);
  EXPECT_EQ(plain->latent->rank, 16);
  EXPECT_EQ(plain->latent->plain_dim, 16);
  EXPECT_EQ(plain->latent->value_dim, 12);
  EXPECT_EQ(plain->latent->query_rank, 0);
  EXPECT_TRUE(plain->rope_interleaved);
  EXPECT_EQ(plain->shared_expert_size, 20);
  EXPECT_EQ(plain->cache_width(), 24);
  EXPECT_FALSE(plain->has_experts(0));
  EXPECT_TRUE(plain->has_experts(1));
  EXPECT_FALSE(plain->sigmoid_router);
  EXPECT_FALSE(plain->normalised_experts);
  EXPECT_NEAR(*plain->attention_scale, 1 / std::sqrt(24.0), 1e-12);
  // Files since 2025: the sizes of the cache, and those of heads beside them.
  const auto apart = config({{"attention.key_length", GgufValue::of_u32(24)},
                             {"attention.key_length_mla", GgufValue::of_u32(20)},
                             {"attention.value_length", GgufValue::of_u32(16)},
                             {"attention.value_length_mla", GgufValue::of_u32(12)},
                             {"attention.head_count_kv", GgufValue::of_u32(1)},
                             {"expert_gating_func", GgufValue::of_u32(2)},
                             {"expert_weights_norm", GgufValue::of_bool(true)},
                             {"expert_weights_scale", GgufValue::of_f32(2.5F)},
                             {"expert_group_count", GgufValue::of_u32(3)},
                             {"expert_group_used_count", GgufValue::of_u32(2)},
                             {"rope.scaling.type", GgufValue::of_string("yarn")},
                             {"rope.scaling.factor", GgufValue::of_f32(4)},
                             {"rope.scaling.original_context_length", GgufValue::of_u32(32)},
                             {"rope.scaling.yarn_log_multiplier", GgufValue::of_f32(0.0707F)}});
  ASSERT_TRUE(apart) << apart.error();
  EXPECT_EQ(apart->latent->plain_dim, 12);
  EXPECT_EQ(apart->latent->value_dim, 12);
  EXPECT_EQ(apart->num_kv_heads, 8);
  EXPECT_TRUE(apart->sigmoid_router && apart->normalised_experts);
  EXPECT_EQ(apart->expert_scale, 2.5);
  EXPECT_EQ(apart->expert_groups, 3);
  EXPECT_EQ(apart->expert_groups_used, 2);
  const double more = 0.0707 * std::log(4.0) + 1;
  EXPECT_NEAR(*apart->attention_scale, more * more / std::sqrt(20.0), 1e-7);
  EXPECT_EQ(rope_table(*apart).magnitude, 1);
  const auto wrong = config({{"expert_gating_func", GgufValue::of_u32(3)}});
  ASSERT_FALSE(wrong);
  EXPECT_EQ(wrong.error(),
            "f.gguf: metadata \"deepseek2.expert_gating_func\" is 3, expected 1 (softmax) or 2 "
            "(sigmoid)");
}

TEST(ModelConfig, RefusesGgufMetadataByName) {
  const auto refused = [](const char* key, std::optional<GgufValue> value, const char* expected) {
    Metadata m = llama_metadata();
    std::erase_if(m, [&](const auto& pair) { return pair.first == key; });
    if (value) m.emplace_back(key, *value);
    const auto c = from(m);
    ASSERT_FALSE(c) << expected;
    EXPECT_THAT(c.error(), HasSubstr(expected));
    expect_clear_line(c.error(), "f.gguf: ");
  };
  for (const auto& [key, value] : llama_metadata())
    if (key != "llama.vocab_size" && key != "llama.feed_forward_length")
      refused(key.c_str(), std::nullopt, ("no metadata \"" + key + "\"").c_str());
  refused(
      "llama.vocab_size", std::nullopt,
      "neither tensor \"token_embd.weight\" nor metadata \"llama.vocab_size\" nor \"tokenizer.ggml.tokens\"");
  refused("llama.feed_forward_length", std::nullopt, "the intermediate size is 0, expected 1 to 67108864");
  refused(
      "llama.attention.head_count", GgufValue::of_i32s({8, 4}),
      "metadata \"llama.attention.head_count\" differs from layer to layer ([8, 4]), expected one number");
  refused("llama.attention.head_count", GgufValue::of_i32s({}),
          "metadata \"llama.attention.head_count\" is an empty array");
  refused("llama.attention.head_count", GgufValue::of_string("8"), "is string, expected an integer");
  refused("llama.embedding_length", GgufValue::of_u32(65), "hidden size 65 and 8 heads");
  refused("llama.attention.value_length", GgufValue::of_u32(4),
          "values of 4 elements and keys of 8 in a head, expected the same");
  refused("llama.rope.scaling.type", GgufValue::of_string("longrope"),
          "metadata \"llama.rope.scaling.type\" is \"longrope\", expected none, linear or yarn");
  refused("llama.rope.scaling.type", GgufValue::of_string("linear"),
          "no metadata \"llama.rope.scaling.factor\"");
  refused("llama.attention.layer_norm_rms_epsilon", GgufValue::of_f32(std::nanf("")),
          "the epsilon of the norms is nan, expected 0 to 1");
  refused("general.architecture", GgufValue::of_string("whisper"),
          "a Whisper model as GGUF, which whisper.cpp neither writes nor reads; luminal transcribe takes its "
          "ggml files (ggml-base.en.bin) and Hugging Face folders");
  refused("general.architecture", GgufValue::of_string("clip"),
          "the vision part of a model (mmproj), not a text model: luminal run TEXT.gguf --mmproj FILE "
          "--image PICTURE, with Moondream 2");
  refused("llama.block_count", GgufValue::of_u64(uint64_t{1} << 60),
          "the number of layers is 1152921504606846976, expected 1 to 16384");
}

} // namespace
} // namespace luminal::model_config_test
