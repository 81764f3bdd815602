// tests/models/convert_test.cpp -- models in another format give the same logits, in fewer bits the
// types of llama.cpp's mixtures; what cannot be said is refused by name.
#include "base/file.h"
#include "formats/gguf.h"
#include "formats/quants.h"
#include "formats/safetensors.h"
#include "formats/tokenizer_save.h"
#include "models/convert.h"
#include "models/convert_plan.h"
#include "models/generator.h"
#include "support/error_of.h"
#include <cmath>
#include <cstring>
#include <deque>
#include <filesystem>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <unistd.h>

namespace luminal::models::convert_test {
namespace {

namespace fs = std::filesystem;
const std::string decoders = std::string(LUMINAL_SOURCE_DIR) + "/tests/models/decoders/";

class Folder {
public:
  Folder() : path_(fs::temp_directory_path() / fmt::format("luminal-convert-{}-{}", getpid(), next_++)) {
    fs::create_directories(path_);
  }
  Folder(const Folder&) = delete;
  ~Folder() {
    std::error_code error;
    fs::remove_all(path_, error);
  }
  std::string file(const std::string& name) const { return (path_ / name).string(); }

private:
  static inline int next_ = 0;
  fs::path path_;
};

/// A byte-level tokenizer with so many tokens.
std::string tokenizer_of(int64_t count) {
  std::string vocabulary = R"("a":0,"b":1,"ab":2)";
  for (int64_t i = 3; i < count; i++) vocabulary += fmt::format(",\"t{}\":{}", i, i);
  return fmt::format(
      R"({{"model":{{"type":"BPE","vocab":{{{}}},"merges":["a b"]}},"decoder":{{"type":"ByteLevel"}},)"
      R"("pre_tokenizer":{{"type":"ByteLevel","add_prefix_space":false,"use_regex":true}},)"
      R"("added_tokens":[{{"id":3,"content":"t3","special":true}}]}})",
      vocabulary);
}

/// A golden model of a family as a folder with a tokenizer.
std::string folder_of(const std::string& family, const Folder& folder, const std::string& config = "") {
  const std::string path = folder.file(family);
  fs::create_directories(path);
  fs::copy_file(decoders + family + ".safetensors", path + "/model.safetensors");
  const std::string text = config.empty() ? read_file(decoders + family + ".config.json").value() : config;
  EXPECT_TRUE(write_file(path + "/config.json", text));
  const int64_t vocabulary = parse_hf_config(text, "config.json").value().vocab_size;
  EXPECT_TRUE(write_file(path + "/tokenizer.json", tokenizer_of(vocabulary - 2)));
  EXPECT_TRUE(write_file(path + "/tokenizer_config.json", R"({"eos_token":"t3","chat_template":"{{ x }}"})"));
  return path;
}

std::vector<float> logits(const std::string& path) {
  const ModelFile file = open_model(path).value();
  Llama model = make_llama(file, {.context = 16, .chunk = 14, .all_logits = true});
  model.graph.set_dim("n", 6);
  model.graph.set_dim("past", 0);
  model.tokens.set(std::vector<int32_t>{3, 9, 4, 11, 7, 30});
  model.graph.execute();
  return model.logits.data<float>();
}

void expect_near(const std::vector<float>& got, const std::vector<float>& want) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < want.size(); i++)
    ASSERT_LE(std::abs(got[i] - want[i]), 2e-5f * (1 + std::abs(want[i]))) << i;
}

class ConvertedFamilies : public ::testing::TestWithParam<const char*> {};

TEST_P(ConvertedFamilies, GiveTheSameLogitsInBothFormats) {
  const Folder folder;
  const std::string from = folder_of(GetParam(), folder), gguf = folder.file("m.gguf"),
                    back = folder.file("back");
  const ConvertReport report = convert_to_gguf(from, gguf, {});
  EXPECT_GT(report.tensors, 8U);
  const ModelFile file = open_model(gguf).value();
  ASSERT_TRUE(file.config) << file.config_error;
  ASSERT_TRUE(file.tokenizer) << file.tokenizer_error;
  EXPECT_EQ(file.tokenizer->encode("abab", {false, false}), (std::vector<int32_t>{2, 2}));
  EXPECT_TRUE(file.tokenizer->is_eos(3));
  EXPECT_EQ(file.chat_template, "{{ x }}");
  const auto want = logits(from);
  expect_near(logits(gguf), want);
  convert_to_folder(gguf, back, {});
  const ModelFile again = open_model(back).value();
  ASSERT_TRUE(again.tokenizer) << again.tokenizer_error;
  EXPECT_EQ(again.tokenizer->encode("abab", {false, false}), (std::vector<int32_t>{2, 2}));
  EXPECT_EQ(again.chat_template, "{{ x }}");
  expect_near(logits(back), want);
}

INSTANTIATE_TEST_SUITE_P(Families, ConvertedFamilies,
                         ::testing::Values("llama", "mistral", "mixtral", "qwen3", "phi3", "phi3_long",
                                           "gemma", "gpt2", "olmo2", "deepseek2", "deepseek2_groups",
                                           "deepseek3"),
                         [](const auto& tested) { return std::string(tested.param); });

/// In files of llama.cpp since 2025 what makes keys of the latent vector lies apart, and is transposed.
TEST(Convert, HeadsOfLatentAttentionMayLieApart) {
  const Folder folder;
  const std::string together = folder.file("m.gguf"), apart = folder.file("apart.gguf");
  convert_to_gguf(folder_of("deepseek3", folder), together, {});
  const ModelConfig config = open_model(together).value().require_config();
  const int64_t heads = config.num_heads, rank = config.latent->rank, plain = config.latent->plain_dim,
                value = config.latent->value_dim;
  const Gguf file = open_gguf(together).value();
  auto metadata = file.metadata;
  const std::pair<const char*, int64_t> sizes[] = {{"attention.key_length", rank + config.rope_dim},
                                                   {"attention.value_length", rank},
                                                   {"attention.head_count_kv", 1},
                                                   {"attention.key_length_mla", plain + config.rope_dim},
                                                   {"attention.value_length_mla", value}};
  for (const auto& [key, size] : sizes) {
    const std::string full = std::string("deepseek2.") + key;
    std::erase_if(metadata, [&](const auto& pair) { return pair.first == full; });
    metadata.emplace_back(full, GgufValue::of_u32(uint32_t(size)));
  }
  std::vector<TensorView> tensors;
  std::deque<std::vector<float>> made;
  const auto add = [&](const std::string& name, std::vector<int64_t> shape) {
    tensors.push_back({name, StorageType::f32, std::move(shape), std::as_bytes(std::span(made.back()))});
  };
  for (const TensorView& view : file.tensors) {
    const size_t at = view.name.find("attn_kv_b");
    if (at == std::string::npos) {
      tensors.push_back(view);
      continue;
    }
    const std::vector<float> both = dequantize(view).value(); // [heads, plain + value, rank]
    std::vector<float>& keys = made.emplace_back(size_t(heads * rank * plain));
    for (int64_t h = 0; h < heads; h++)
      for (int64_t r = 0; r < rank; r++)
        for (int64_t d = 0; d < plain; d++)
          keys[size_t((h * rank + r) * plain + d)] = both[size_t((h * (plain + value) + d) * rank + r)];
    add(view.name.substr(0, at) + "attn_k_b.weight", {heads, rank, plain});
    std::vector<float>& values = made.emplace_back();
    for (int64_t h = 0; h < heads; h++) {
      const auto* const from = both.data() + (h * (plain + value) + plain) * rank;
      values.insert(values.end(), from, from + value * rank);
    }
    add(view.name.substr(0, at) + "attn_v_b.weight", {heads, value, rank});
  }
  ASSERT_TRUE(save_gguf(apart, metadata, tensors));
  expect_near(logits(apart), logits(together));
}

TEST(Convert, TypesAreThoseOfTheMixture) {
  ModelConfig config;
  config.num_layers = 16;
  config.num_heads = config.num_kv_heads = 8;
  const std::vector<int64_t> matrix{512, 512}, narrow{512, 96}, odd{512, 30}, vector{512};
  bool fell_back = false;
  const auto type = [&](const char* mixture, const char* name, const std::vector<int64_t>& shape) {
    return storage_name(type_of_tensor(weight_mixture(mixture), name, shape, config, fell_back));
  };
  EXPECT_EQ(type("q4_k_m", "blk.0.attn_v.weight", matrix), "Q6_K");
  EXPECT_EQ(type("q4_k_m", "blk.2.attn_v.weight", matrix), "Q4_K");
  EXPECT_EQ(type("q4_k_m", "blk.4.ffn_down.weight", matrix), "Q6_K");
  EXPECT_EQ(type("q4_k_m", "blk.4.ffn_up.weight", matrix), "Q4_K");
  EXPECT_EQ(type("q4_k_s", "blk.1.ffn_down.weight", matrix), "Q5_K");
  EXPECT_EQ(type("q3_k_m", "blk.1.attn_v.weight", matrix), "Q5_K");
  EXPECT_EQ(type("q3_k_l", "blk.9.attn_output.weight", matrix), "Q5_K");
  EXPECT_EQ(type("q2_k", "blk.9.attn_v.weight", matrix), "Q3_K");
  EXPECT_EQ(type("q4_k_m", "output.weight", matrix), "Q6_K");
  EXPECT_EQ(type("q8_0", "output.weight", matrix), "Q8_0");
  EXPECT_EQ(type("f16", "token_embd.weight", matrix), "F16");
  EXPECT_EQ(type("q4_k_m", "blk.0.attn_norm.weight", vector), "F32");
  EXPECT_FALSE(fell_back);
  EXPECT_EQ(type("q4_k_m", "blk.2.ffn_up.weight", narrow), "Q5_0");
  EXPECT_TRUE(fell_back);
  EXPECT_EQ(type("iq4_xs", "blk.2.ffn_up.weight", narrow), "IQ4_NL");
  EXPECT_EQ(type("tq1_0", "blk.2.ffn_up.weight", odd), "F16");
  WeightMixture pure = weight_mixture("Q4_K_M");
  pure.pure = true;
  EXPECT_EQ(storage_name(type_of_tensor(pure, "output.weight", matrix, config, fell_back)), "Q4_K");
  EXPECT_EQ(error_of([] { weight_mixture("Q9"); }),
            "weights are not written as Q9; known are " + weight_mixture_names());
}

TEST(Convert, QuantisingWritesWhatQuantizeGives) {
  const Folder folder;
  const std::string from = folder_of("llama", folder), plain = folder.file("f.gguf"),
                    packed = folder.file("q.gguf");
  convert_to_gguf(from, plain, {});
  std::vector<std::string> names;
  ConvertOptions options{.mixture = weight_mixture("Q8_0"), .threads = 2};
  options.progress = [&](size_t, size_t, const std::string& name) { names.push_back(name); };
  const ConvertReport report = convert_to_gguf(plain, packed, options);
  const ModelFile a = open_model(plain).value(), b = open_model(packed).value();
  ASSERT_EQ(a.tensors.size(), b.tensors.size());
  EXPECT_EQ(names.size(), a.tensors.size());
  EXPECT_LT(report.bytes_after, report.bytes_before);
  size_t quantised = 0;
  for (size_t i = 0; i < a.tensors.size(); i++) {
    EXPECT_EQ(a.tensors[i].name, b.tensors[i].name);
    const std::string bytes(reinterpret_cast<const char*>(b.tensors[i].bytes.data()),
                            b.tensors[i].bytes.size());
    EXPECT_EQ(bytes, quantize(b.tensors[i].type, dequantize(a.tensors[i]).value()).value())
        << a.tensors[i].name;
    quantised += b.tensors[i].type == StorageType::q8_0;
  }
  EXPECT_GT(quantised, 5U);
  const auto want = logits(plain), got = logits(packed);
  double error = 0, size = 0;
  for (size_t i = 0; i < want.size(); i++)
    error += std::pow(got[i] - want[i], 2), size += std::pow(want[i], 2);
  EXPECT_LT(error, 1e-3 * size);
  EXPECT_GT(error, 0);
}

/// Windows and scales that llama.cpp knows by other rules than the files'.
TEST(Convert, WhatGgufCannotSayIsRefused) {
  for (const auto& [family, why] : {std::pair("qwen2", "a window in some of the layers"),
                                    std::pair("gemma2", "scores times 0.25 (in its place 0.353553)"),
                                    std::pair("gemma3", "scores times 0.25 (in its place 0.353553)")}) {
    const Folder folder;
    const std::string from = folder_of(family, folder), to = folder.file("m.gguf");
    EXPECT_EQ(error_of([&] { convert_to_gguf(from, to, {}); }),
              fmt::format("GGUF cannot say of a model of the architecture {}: {}", family, why));
    EXPECT_FALSE(fs::exists(to));
  }
}

TEST(Convert, RefusesByName) {
  const Folder folder;
  const std::string from = folder_of("llama", folder), gguf = folder.file("m.gguf");
  convert_to_gguf(from, gguf, {});
  EXPECT_EQ(error_of([&] { convert_to_gguf(gguf, gguf, {}); }),
            gguf + ": a model is not written over itself");
  EXPECT_EQ(error_of([&] { convert_to_folder(from, folder.file("x"), {}); }),
            from + ": a Hugging Face folder already, expected a GGUF file");
  EXPECT_EQ(error_of([&] { convert_to_folder(gguf, from, {}); }),
            from + ": is there already, expected a folder that is new or empty");
  EXPECT_EQ(error_of([&] { convert_to_folder(gguf, folder.file("x"), {.mixture = weight_mixture("Q4_0")}); }),
            "Q4_0 is a type of GGUF alone, expected F32, F16 or BF16");
  const auto refused = [&](const char* old, const char* changed) {
    std::string config = read_file(decoders + "llama.config.json").value();
    const size_t at = config.find(old);
    EXPECT_NE(at, std::string::npos) << old;
    config.replace(at, std::string(old).size(), changed);
    const Folder other;
    const std::string path = folder_of("llama", other, config);
    return error_of([&] { convert_to_gguf(path, gguf, {}); });
  };
  const std::string cannot = "GGUF cannot say of a model of the architecture llama: ";
  EXPECT_EQ(refused("\"silu\"", "\"relu\""), cannot + "activation relu (in its place silu)");
  EXPECT_THAT(refused("\"llama\"", "\"strange\""),
              testing::EndsWith(": models of the architecture strange are not written as GGUF"));
  ModelConfig config = parse_hf_config(read_file(decoders + "llama.config.json").value(), "c").value();
  config.rope_scaling = {.kind = RopeScaling::Kind::dynamic, .factor = 2};
  EXPECT_EQ(error_of([&] { metadata_of(config, "llama"); }), cannot + "rope scaling of type dynamic");
  config.rope_scaling = {};
  config.num_experts = 2, config.normalised_experts = false;
  EXPECT_EQ(error_of([&] { metadata_of(config, "llama"); }),
            cannot + "weights of experts that do not sum to 1");
  config.num_experts = 0;
  config.latent.emplace();
  config.rope_scaling.mscale = 1, config.rope_scaling.mscale_all_dim = 0.5;
  EXPECT_EQ(error_of([&] { metadata_of(config, "llama"); }), cannot + "mscale 1 beside mscale_all_dim 0.5");
  config.latent.reset();
  config.rope_scaling = {};
  config.sliding_window = 4, config.windowed_layers = {true, false};
  EXPECT_EQ(error_of([&] { metadata_of(config, "llama"); }), cannot + "a window in some of the layers");
  config.sliding_window.reset();
  config.attention_scale = 0.5, config.head_dim = 16;
  EXPECT_EQ(error_of([&] { metadata_of(config, "llama"); }), cannot + "scores times 0.5 (in its place 0.25)");
  config.rope_factors.assign(size_t(config.rope_dim / 2), 1);
  config.rope_factors[0] = 3; // of the fastest alone
  EXPECT_EQ(error_of([&] { config_json_of(config, "f"); }),
            "f: factors of rotary frequencies that are not those of Llama 3, which config.json cannot say");
  config.architecture = "strange";
  EXPECT_EQ(error_of([&] { config_json_of(config, "f"); }),
            "f: models of the architecture strange are not written as a folder");
  fs::remove(from + "/tokenizer.json");
  EXPECT_EQ(error_of([&] { convert_to_gguf(from, gguf, {}); }),
            from + ": no tokenizer beside it (tokenizer.json, tokenizer.model, vocab.json with merges.txt, "
                   "vocab.txt) (a GGUF file has its tokenizer inside)");
  EXPECT_TRUE(write_file(from + "/tokenizer.json", tokenizer_of(100)));
  EXPECT_EQ(error_of([&] { convert_to_gguf(from, gguf, {}); }),
            from + ": 100 tokens for 32 rows of embeddings");
  std::string pattern = tokenizer_of(30);
  const std::string byte_level = R"("add_prefix_space":false,"use_regex":true})";
  pattern.replace(pattern.find(byte_level), byte_level.size(),
                  R"("add_prefix_space":false,"use_regex":false})");
  EXPECT_TRUE(write_file(from + "/tokenizer.json", pattern));
  EXPECT_EQ(error_of([&] { convert_to_gguf(from, gguf, {}); }),
            from + ": the tokenizer cuts texts by nothing, which has no name in GGUF");
  EXPECT_TRUE(write_file(from + "/tokenizer.json",
                         R"({"model":{"type":"WordLevel","vocab":{"a":0}},"decoder":{"type":"Fuse"}})"));
  EXPECT_EQ(error_of([&] { convert_to_gguf(from, gguf, {}); }),
            from + ": a tokenizer of the kind tokenizer.json WordLevel, which is not written to GGUF");
}

TEST(Convert, OtherTokenizersAndTypes) {
  const auto words = tokenizer_from_vocabulary_lines("[UNK]\n[CLS]\n[SEP]\nthe\ncat\n##s\n", "vocab.txt");
  ASSERT_TRUE(words) << words.error();
  EXPECT_EQ(tokenizer_json(*words, "f").error(),
            "f: a tokenizer of the kind WordPiece, which is not written to tokenizer.json");
  const auto metadata = tokenizer_metadata(*words, "f");
  ASSERT_TRUE(metadata) << metadata.error();
  const std::string bytes = serialize_gguf(*metadata, {}).value();
  const auto gguf = parse_gguf(std::as_bytes(std::span(bytes)), "g");
  ASSERT_TRUE(gguf) << gguf.error();
  const auto again = tokenizer_from_gguf(*gguf);
  ASSERT_TRUE(again) << again.error();
  for (const char* text : {"the cats", "The dog", "cat the"})
    EXPECT_EQ(again->encode(text), words->encode(text)) << text;
  const Folder folder;
  const std::vector<std::byte> packed(74 * 2);
  const TensorView view{
      .name = "blk.0.w.weight", .type = StorageType::iq2_xs, .shape = {2, 256}, .bytes = packed};
  const std::vector<std::pair<std::string, GgufValue>> head{
      {"general.architecture", GgufValue::of_string("odd")}};
  ASSERT_TRUE(save_gguf(folder.file("i.gguf"), head, std::span(&view, 1)));
  EXPECT_EQ(error_of([&] {
              convert_to_gguf(folder.file("i.gguf"), folder.file("o.gguf"),
                              {.mixture = weight_mixture("Q8_0")});
            }),
            "tensor blk.0.w.weight is stored as IQ2_XS, which cannot be unpacked");
  convert_to_gguf(folder.file("i.gguf"), folder.file("o.gguf"), {}); // as it is
  EXPECT_EQ(open_model(folder.file("o.gguf")).value().tensors.at(0).type, StorageType::iq2_xs);
}

} // namespace
} // namespace luminal::models::convert_test
