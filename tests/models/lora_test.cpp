// tests/models/lora_test.cpp -- a model with adapters is the model whose weights were changed by hand: both
// kinds of files on both kinds of models, weights in blocks, tied tables; messages word for word.
#include "base/file.h"
#include "formats/gguf.h"
#include "formats/quants.h"
#include "formats/safetensors.h"
#include "models/convert.h"
#include "models/lora.h"
#include "models/lora_support.h"
#include "models/random_model.h"
#include "support/error_of.h"
#include <cstdlib>
#include <filesystem>
#include <gmock/gmock.h>
#include <set>

namespace luminal::models::lora_test {
namespace {

using namespace lora_support;
using testing_formats::TemporaryFolder;
namespace fs = std::filesystem;
const std::string decoders = std::string(LUMINAL_SOURCE_DIR) + "/tests/models/decoders/";

constexpr ModelShape small{.name = "small",
                           .what = "of tests",
                           .layers = 2,
                           .hidden = 32,
                           .heads = 4,
                           .kv_heads = 2,
                           .head_dim = 16,
                           .inner = 64,
                           .vocabulary = 40,
                           .context = 32,
                           .rope_theta = 10000,
                           .tied = true};

std::vector<float> logits(const ModelFile& file) {
  Llama model = make_llama(file, {.context = 16, .chunk = 14, .all_logits = true});
  model.graph.set_dim("n", 6);
  model.graph.set_dim("past", 0);
  model.tokens.set(std::vector<int32_t>{3, 9, 4, 11, 7, 30});
  model.graph.execute();
  return model.logits.data<float>();
}
ModelFile with(ModelFile file, const std::vector<LoraChoice>& adapters,
               ChangedBlocks blocks = ChangedBlocks::beside) {
  apply_lora(file, adapters, blocks);
  return file;
}
std::vector<float> logits_of(const std::string& path, const std::vector<LoraChoice>& adapters = {}) {
  return logits(with(open_model(path).value(), adapters));
}
float distance(const std::vector<float>& a, const std::vector<float>& b) {
  EXPECT_EQ(a.size(), b.size());
  float most = 0;
  for (size_t i = 0; i < a.size(); i++) most = std::max(most, std::abs(a[i] - b[i]) / (1 + std::abs(b[i])));
  return most;
}
void expect_near(const std::vector<float>& got, const std::vector<float>& want, float tolerance = 2e-5f) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < want.size(); i++)
    ASSERT_LE(std::abs(got[i] - want[i]), tolerance * (1 + std::abs(want[i]))) << i;
}

/// A golden model of a family in F32, so that changed weights are not rounded, as a folder with a tokenizer.
std::string folder_of(const std::string& family, const TemporaryFolder& folder) {
  std::string path = folder.file(family);
  fs::create_directories(path);
  save_tensors(path + "/model.safetensors",
               values_of(open_model(decoders + family + ".safetensors").value()));
  fs::copy_file(decoders + family + ".config.json", path + "/config.json");
  const int64_t vocabulary =
      parse_hf_config(read_file(path + "/config.json").value(), "config.json").value().vocab_size;
  std::string words = R"("a":0)";
  for (int64_t i = 1; i < vocabulary; i++) words += fmt::format(",\"t{}\":{}", i, i);
  EXPECT_TRUE(write_file(
      path + "/tokenizer.json",
      fmt::format(R"({{"model":{{"type":"BPE","vocab":{{{}}},"merges":[]}},"decoder":{{"type":"ByteLevel"}},)"
                  R"("pre_tokenizer":{{"type":"ByteLevel","add_prefix_space":false,"use_regex":true}},)"
                  R"("added_tokens":[]}})",
                  words)));
  return path;
}

/// Adapters of rank 2 of all matrices in the layers of a Hugging Face model.
std::vector<Pair> pairs_of_layers(const ModelFile& file) {
  std::vector<Pair> pairs;
  const bool gpt2 = file.require_config().architecture == "gpt2";
  uint32_t seed = 1;
  for (const TensorView& view : file.tensors) {
    std::string name = view.name;
    const bool layer = name.find("layers.") != std::string::npos || name.find("h.") != std::string::npos;
    if (view.shape.size() != 2 || !layer || !name.ends_with(".weight")) continue;
    name.resize(name.size() - 7);
    const int64_t rows = view.shape[gpt2 ? 1 : 0], columns = view.shape[gpt2 ? 0 : 1];
    pairs.push_back({name, random_matrix(2, columns, seed), random_matrix(rows, 2, seed + 1)});
    seed += 2;
  }
  return pairs;
}

class LoraFamilies : public ::testing::TestWithParam<const char*> {};

TEST_P(LoraFamilies, GiveTheLogitsOfTheChangedModelInBothFormats) {
  const TemporaryFolder folder;
  const std::string path = folder_of(GetParam(), folder), gguf = folder.file("m.gguf"),
                    merged = folder.file("merged.gguf"), changed = folder.file("changed"),
                    adapter = folder.file("adapter");
  const ModelFile file = open_model(path).value();
  const bool gpt2 = file.require_config().architecture == "gpt2";
  const std::vector<Pair> pairs = pairs_of_layers(file);
  ASSERT_GE(pairs.size(), 7U);
  save_peft(adapter, pairs, {.alpha = 3, .more = gpt2 ? R"(,"fan_in_fan_out":true)" : ""});

  // W + 0.5 * 3 / 2 * B A by hand.
  Tensors tensors = values_of(file);
  for (const Pair& pair : pairs) {
    Matrix delta = product(pair.b, pair.a);
    if (gpt2) delta = transposed(delta);
    add(tensors.at(pair.module + ".weight"), delta, 0.5 * 3 / 2);
  }
  fs::copy(path, changed);
  save_tensors(changed + "/model.safetensors", tensors);

  const auto want = logits_of(changed);
  EXPECT_GT(distance(want, logits_of(path)), 1e-2f);
  expect_near(logits_of(path, {{adapter, 0.5}}), want);
  convert_to_gguf(path, gguf, {});
  expect_near(logits_of(gguf, {{adapter, 0.5}}), want);
  convert_to_gguf(path, merged, {.adapters = {{adapter, 0.5}}});
  expect_near(logits_of(merged), want);
  // Half of it twice is all of it.
  expect_near(logits_of(gguf, {{adapter, 0.125}, {adapter, 0.375}}), want);
  EXPECT_EQ(logits_of(path, {{adapter, 0}}), logits_of(path));
}

INSTANTIATE_TEST_SUITE_P(Families, LoraFamilies,
                         ::testing::Values("llama", "mixtral", "phi3", "gpt2", "gemma", "qwen3"),
                         [](const auto& tested) { return std::string(tested.param); });

/// Rows of queries and keys as llama.cpp's Llama has them: pairs (2i, 2i + 1) of a head.
Matrix with_pairs(const Matrix& from, int64_t heads) {
  Matrix to = from;
  const int64_t size = from.rows / heads;
  for (int64_t h = 0; h < heads; h++)
    for (int64_t i = 0; i < size; i++)
      for (int64_t c = 0; c < from.columns; c++)
        to.at(h * size + i, c) = from.at(h * size + (i % 2) * size / 2 + i / 2, c);
  return to;
}

TEST(Lora, GgufAdaptersHaveTheOrderOfGguf) {
  const TemporaryFolder folder;
  const std::string path = folder_of("llama", folder), gguf = folder.file("m.gguf"),
                    peft = folder.file("peft"), adapter = folder.file("adapter.gguf");
  convert_to_gguf(path, gguf, {});
  const ModelFile file = open_model(path).value();
  const ModelConfig& c = file.require_config();
  const int64_t queries = c.num_heads * c.head_dim, keys = c.num_kv_heads * c.head_dim;
  const Matrix a = random_matrix(3, c.hidden_size, 1), q = random_matrix(queries, 3, 2),
               k = random_matrix(keys, 3, 3), v = random_matrix(keys, 3, 4);
  save_peft(peft,
            {{"model.layers.0.self_attn.q_proj", a, q},
             {"model.layers.0.self_attn.k_proj", a, k},
             {"model.layers.1.self_attn.v_proj", a, v}},
            {.rank = 3, .alpha = 6});
  save_adapter(adapter,
               {{"blk.0.attn_q.weight", a, with_pairs(q, c.num_heads)},
                {"blk.0.attn_k.weight", a, with_pairs(k, c.num_kv_heads)},
                {"blk.1.attn_v.weight", a, v}},
               {.alpha = 6});
  const auto want = logits_of(path, {{peft}});
  EXPECT_GT(distance(want, logits_of(path)), 1e-2f);
  expect_near(logits_of(gguf, {{peft}}), want);
  expect_near(logits_of(gguf, {{adapter}}), want);
  expect_near(logits_of(path, {{adapter}}), want);
}

TEST(Lora, ExpertsOfAGgufAdapterAreOneTensor) {
  const TemporaryFolder folder;
  const std::string path = folder_of("mixtral", folder), gguf = folder.file("m.gguf"),
                    peft = folder.file("peft"), adapter = folder.file("adapter.gguf");
  convert_to_gguf(path, gguf, {});
  const ModelFile file = open_model(path).value();
  const ModelConfig& c = file.require_config();
  std::vector<Pair> pairs;
  Matrix a{c.num_experts * 2, c.hidden_size, {}}, b{c.num_experts * c.expert_size, 2, {}};
  for (int64_t e = 0; e < c.num_experts; e++) {
    pairs.push_back({fmt::format("model.layers.1.block_sparse_moe.experts.{}.w1", e),
                     random_matrix(2, c.hidden_size, uint32_t(2 * e + 1)),
                     random_matrix(c.expert_size, 2, uint32_t(2 * e + 2))});
    a.values.insert(a.values.end(), pairs.back().a.values.begin(), pairs.back().a.values.end());
    b.values.insert(b.values.end(), pairs.back().b.values.begin(), pairs.back().b.values.end());
  }
  save_peft(peft, pairs, {.alpha = 2});
  save_adapter(adapter, {{"blk.1.ffn_gate_exps.weight", a, b}}, {.alpha = 2, .experts = c.num_experts});
  const auto want = logits_of(path, {{peft}});
  EXPECT_GT(distance(want, logits_of(path)), 1e-3f);
  expect_near(logits_of(gguf, {{adapter}}), want);
  expect_near(logits_of(path, {{adapter}}), want);
}

/// The random model in f32, every tensor changed by hand.
ModelFile in_f32(const ModelFile& file, const std::function<void(Tensors&)>& change,
                 std::shared_ptr<Tensors>& kept) {
  kept = std::make_shared<Tensors>(values_of(file));
  change(*kept);
  ModelFile out = file;
  out.tensors.clear();
  for (const auto& [name, tensor] : *kept) out.tensors.push_back(view_of(name, tensor));
  out.index_names();
  return out;
}

TEST(Lora, WeightsInBlocksStayAndGetAProductBesideThem) {
  for (const StorageType type : {StorageType::q8_0, StorageType::q4_0}) {
    const TemporaryFolder folder;
    const RandomModel model = random_model(small, type, 5);
    const std::string adapter = folder.file("a.gguf"), other = folder.file("b");
    const Pair q{"blk.0.attn_q.weight", random_matrix(4, 32, 1), random_matrix(64, 4, 2)},
        down{"blk.1.ffn_down.weight", random_matrix(4, 64, 3), random_matrix(32, 4, 4)},
        head{"lm_head", random_matrix(2, 32, 5), random_matrix(40, 2, 6)},
        table{"token_embd.weight", random_matrix(40, 4, 7), random_matrix(32, 4, 8)}, // A is by rows
        gate{"model.layers.1.mlp.gate_proj", random_matrix(2, 32, 9), random_matrix(64, 2, 10)};
    save_adapter(adapter, {q, down, table}, {.alpha = 8});
    save_peft(other, {head, gate}, {.alpha = 2});
    std::shared_ptr<Tensors> kept;
    const ModelFile want = in_f32(
        model.file,
        [&](Tensors& t) {
          t["output.weight"] = t.at("token_embd.weight"); // tied, until one of the two changes
          add(t.at("blk.0.attn_q.weight"), product(q.b, q.a), 2);
          add(t.at("blk.1.ffn_down.weight"), product(down.b, down.a), 2);
          add(t.at("token_embd.weight"), product(table.a, transposed(table.b)), 2);
          add(t.at("output.weight"), product(head.b, head.a), 0.5);
          add(t.at("blk.1.ffn_gate.weight"), product(gate.b, gate.a), 0.5);
        },
        kept);
    const auto expected = logits(want);
    EXPECT_GT(distance(expected, logits(model.file)), 1e-2f);
    const ModelFile beside = with(model.file, {{adapter}, {other, 0.5}});
    EXPECT_EQ(beside.low_rank.size(), 5U);
    for (const TensorView& view : beside.tensors)
      EXPECT_EQ(view.type, view.shape.size() == 1 ? StorageType::f32 : type) << view.name;
    expect_near(logits(beside), expected, 1e-4f);

    const ModelFile unpacked = with(model.file, {{adapter}, {other, 0.5}}, ChangedBlocks::f32);
    EXPECT_TRUE(unpacked.low_rank.empty());
    EXPECT_EQ(unpacked.tensor("blk.0.attn_q.weight").type, StorageType::f32);
    EXPECT_EQ(unpacked.tensor("blk.0.attn_k.weight").type, type);
    expect_near(logits(unpacked), expected, 1e-4f);
    EXPECT_EQ(with(model.file, {{adapter}}, ChangedBlocks::bf16).tensor("blk.0.attn_q.weight").type,
              StorageType::bf16);

    const ModelFile again = with(model.file, {{adapter}}, ChangedBlocks::same);
    const TensorView& packed = again.tensor("blk.0.attn_q.weight");
    EXPECT_EQ(packed.type, type);
    const auto quantised = quantize(type, kept->at("blk.0.attn_q.weight").values).value();
    EXPECT_EQ(std::string(reinterpret_cast<const char*>(packed.bytes.data()), packed.bytes.size()),
              quantised);
  }
}

TEST(Lora, TypesOfFloatsStay) {
  for (const StorageType type : {StorageType::f32, StorageType::f16, StorageType::bf16}) {
    const TemporaryFolder folder;
    const RandomModel model = random_model(small, type, 5);
    const Pair pair{"blk.1.ffn_up.weight", random_matrix(2, 32, 1), random_matrix(64, 2, 2)};
    save_adapter(folder.file("a.gguf"), {pair}, {.alpha = 2});
    const ModelFile file = with(model.file, {{folder.file("a.gguf"), -1.5}});
    const TensorView& view = file.tensor("blk.1.ffn_up.weight");
    EXPECT_EQ(view.type, type);
    Tensors tensors = values_of(model.file);
    add(tensors.at(view.name), product(pair.b, pair.a), -1.5);
    const float step = type == StorageType::f32 ? 1e-6f : type == StorageType::f16 ? 0x1p-10f : 0x1p-7f;
    expect_near(dequantize(view).value(), tensors.at(view.name).values, step);
    EXPECT_EQ(dequantize(file.tensor("blk.0.ffn_up.weight")).value(),
              values_of(model.file).at("blk.0.ffn_up.weight").values);
  }
}

TEST(Lora, ATiedHeadAndTheTableChangeApart) {
  const TemporaryFolder folder;
  const RandomModel model = random_model(small, StorageType::f32, 9);
  const Pair head{"lm_head", random_matrix(2, 32, 1), random_matrix(40, 2, 2)};
  const Pair table{"model.embed_tokens", random_matrix(2, 40, 3), random_matrix(32, 2, 4)};
  save_peft(folder.file("head"), {head}, {.alpha = 2});
  save_peft(folder.file("table"), {table}, {.alpha = 2, .tables = true});
  const auto changed = [&](bool with_head, bool with_table) {
    std::shared_ptr<Tensors> kept;
    return logits(in_f32(
        model.file,
        [&](Tensors& t) {
          t["output.weight"] = t.at("token_embd.weight");
          if (with_head) add(t.at("output.weight"), product(head.b, head.a), 1);
          if (with_table) add(t.at("token_embd.weight"), transposed(product(table.b, table.a)), 1);
        },
        kept));
  };
  const auto of = [&](const std::vector<LoraChoice>& adapters) {
    const ModelFile file = with(model.file, adapters);
    EXPECT_FALSE(file.require_config().tied_embeddings);
    return logits(file);
  };
  expect_near(of({{folder.file("head")}}), changed(true, false));
  expect_near(of({{folder.file("table")}}), changed(false, true));
  expect_near(of({{folder.file("head")}, {folder.file("table")}}), changed(true, true));
  EXPECT_TRUE(with(model.file, {{folder.file("head"), 0}}).require_config().tied_embeddings);
}

TEST(Lora, WholeTensorsTakeTheirPlace) {
  for (const char* family : {"gemma", "qwen2"}) {
    const TemporaryFolder folder;
    const std::string path = folder_of(family, folder), gguf = folder.file("m.gguf"),
                      adapter = folder.file("adapter"), changed = folder.file("changed");
    const ModelFile file = open_model(path).value();
    Tensors tensors = values_of(file);
    std::vector<std::pair<std::string, Matrix>> values;
    for (const char* name : {"model.norm.weight", "model.layers.0.input_layernorm.weight",
                             "model.layers.1.self_attn.q_proj.bias", "model.layers.0.mlp.up_proj.weight"})
      if (const auto found = tensors.find(name); found != tensors.end()) {
        const Matrix before = found->second;
        Matrix value = random_matrix(before.rows, before.columns, uint32_t(values.size() + 1));
        value.one_axis = before.one_axis;
        values.emplace_back(name, value);
        // Three quarters of the way.
        for (size_t i = 0; i < before.values.size(); i++)
          found->second.values[i] += 0.75f * (value.values[i] - before.values[i]);
      }
    ASSERT_GE(values.size(), 3U);
    save_peft(adapter, {}, {.values = values});
    fs::copy(path, changed);
    save_tensors(changed + "/model.safetensors", tensors);
    const auto want = logits_of(changed);
    EXPECT_GT(distance(want, logits_of(path)), 1e-3f);
    expect_near(logits_of(path, {{adapter, 0.75}}), want);
    if (std::string_view(family) == "qwen2") continue; // this one has a window that GGUF cannot say
    convert_to_gguf(path, gguf, {});
    expect_near(logits_of(gguf, {{adapter, 0.75}}), want, 5e-5f);
  }
}

TEST(Lora, ConvertedModelsHaveTheChangesAndTheirTypes) {
  const TemporaryFolder folder;
  const RandomModel model = random_model(small, StorageType::q8_0, 5);
  const std::string from = folder.file("m.gguf"), adapter = folder.file("a.gguf");
  ASSERT_TRUE(save(model, from));
  const Pair pair{"blk.0.attn_v.weight", random_matrix(2, 32, 1), random_matrix(32, 2, 2)};
  save_adapter(adapter, {pair}, {.alpha = 2});
  Tensors tensors = values_of(model.file);
  add(tensors.at("blk.0.attn_v.weight"), product(pair.b, pair.a), 1);
  const auto& want = tensors.at("blk.0.attn_v.weight").values;
  const auto value_of = [&](const ConvertOptions& options, StorageType type) {
    convert_to_gguf(from, folder.file("to.gguf"), options);
    const ModelFile file = open_model(folder.file("to.gguf")).value();
    EXPECT_EQ(file.tensor("blk.0.attn_v.weight").type, type);
    return dequantize(file.tensor("blk.0.attn_v.weight")).value();
  };
  const std::string blocks = quantize(StorageType::q8_0, want).value();
  std::vector<float> packed(want.size());
  ASSERT_TRUE(dequantize(StorageType::q8_0, std::as_bytes(std::span(blocks)), packed));
  expect_near(value_of({.adapters = {{adapter}}}, StorageType::q8_0), packed, 1e-6f);
  expect_near(value_of({.mixture = weight_mixture("f32"), .adapters = {{adapter}}}, StorageType::f32), want,
              1e-6f);
}

TEST(Lora, TheIdentityIsThatOfModelAndAdapters) {
  const TemporaryFolder folder;
  ASSERT_TRUE(save(random_model(small, StorageType::f32, 5), folder.file("m.gguf")));
  save_adapter(folder.file("a.gguf"),
               {{"blk.0.attn_v.weight", random_matrix(2, 32, 1), random_matrix(32, 2, 2)}}, {.alpha = 2});
  const ModelFile file = open_model(folder.file("m.gguf")).value();
  const LoraChoice whole{folder.file("a.gguf")}, half{folder.file("a.gguf"), 0.5};
  const std::set<std::string> all{file.identity(), with(file, {whole}).identity(),
                                  with(file, {half}).identity(), with(file, {whole, half}).identity()};
  EXPECT_EQ(all.size(), 4U);
  EXPECT_EQ(with(file, {whole}).identity(), with(file, {whole}).identity());
}

TEST(LoraErrorTexts, WhatDoesNotFitTheModel) {
  const TemporaryFolder folder;
  const RandomModel of_floats = random_model(small, StorageType::f32, 5),
                    of_halves = random_model(small, StorageType::f16, 5),
                    of_blocks = random_model(small, StorageType::q8_0, 5);
  ModelFile file = of_floats.file;
  file.path = "MODEL";
  const std::string path = folder.file("a.gguf");
  const auto error_of_pair = [&](const Pair& pair, const AdapterOptions& options = {.alpha = 2}) {
    save_adapter(path, {pair}, options);
    return error_of([&] { with(file, {{path}}); });
  };
  const Matrix a = random_matrix(2, 32, 1), b = random_matrix(64, 2, 2);
  EXPECT_EQ(error_of_pair({"blk.2.attn_q.weight", a, b}),
            path +
                ": tensor blk.2.attn_q.weight.lora_a is for the weight blk.2.attn_q.weight, which MODEL does "
                "not have");
  EXPECT_EQ(error_of_pair({"blk.1.attn_k.weight", a, b}),
            path + ": tensors blk.1.attn_k.weight.lora_a, F32 [2, 32], and blk.1.attn_k.weight.lora_b, F32 "
                   "[64, 2], do not fit blk.1.attn_k.weight, F32 [32, 32]");
  EXPECT_EQ(error_of_pair({"output.weight", a, b}),
            path +
                ": tensors output.weight.lora_a, F32 [2, 32], and output.weight.lora_b, F32 [64, 2], do not "
                "fit token_embd.weight, F32 [40, 32]");
  EXPECT_EQ(error_of_pair({"blk.1.attn_q.weight", a, b}, {.alpha = 2, .architecture = "qwen2"}),
            path + ": an adapter for the architecture qwen2, MODEL is llama");
  Matrix broken = a;
  broken.values[5] = NAN;
  EXPECT_EQ(error_of_pair({"blk.1.attn_q.weight", broken, b}),
            path + ": tensor blk.1.attn_q.weight.lora_a has values that are not finite");
  save_adapter(path, {}, {.alpha = 2});
  EXPECT_EQ(error_of([&] { with(file, {{path}}); }), path + ": an adapter without tensors");
  Matrix norm = random_matrix(1, 31, 1);
  norm.one_axis = true;
  save_peft(folder.file("p"), {}, {.values = {{"model.norm.weight", norm}}});
  EXPECT_EQ(error_of([&] { with(file, {{folder.file("p")}}); }),
            folder.file("p") + "/adapter_model.safetensors: tensor base_model.model.model.norm.weight, F32 "
                               "[31], does not fit output_norm.weight, F32 [32]");
  EXPECT_EQ(error_of([&] { with(file, {{folder.file("none")}}); }),
            folder.file("none") + ": no such file or folder");
  EXPECT_TRUE(file.changes.empty());

  ModelFile halves = of_halves.file;
  halves.path = "HALVES";
  save_adapter(path, {{"blk.1.attn_q.weight", a, b}}, {.alpha = 2});
  EXPECT_THAT(error_of([&] { with(halves, {{path, 1e9}}); }),
              ::testing::MatchesRegex("HALVES: tensor blk.1.attn_q.weight gets the value -?[0-9.e+]+ by the "
                                      "adapters, which F16 does not hold"));
  ModelFile blocks = of_blocks.file;
  blocks.path = "BLOCKS";
  EXPECT_THAT(error_of([&] { with(blocks, {{path, 1e9}}, ChangedBlocks::same); }),
              ::testing::MatchesRegex("BLOCKS: tensor blk.1.attn_q.weight with adapters: quantize: scale "
                                      "[0-9.e+]+ does not fit f16, expected values of smaller magnitude"));
  const char* const before = std::getenv("TMPDIR");
  const std::string kept = before == nullptr ? "" : before;
  setenv("TMPDIR", "/none", 1);
  EXPECT_EQ(
      error_of([&] { with(file, {{path}}); }),
      "MODEL: no place for 8192 bytes of changed weights: /none: No such file or directory (TMPDIR names "
      "another folder)");
  if (before == nullptr)
    unsetenv("TMPDIR");
  else
    setenv("TMPDIR", kept.c_str(), 1);

  // A type without an encoder.
  for (TensorView& view : halves.tensors)
    if (view.name == "blk.1.attn_q.weight") view.type = StorageType::i16;
  EXPECT_EQ(error_of([&] { with(halves, {{path}}); }),
            "HALVES: tensor blk.1.attn_q.weight is stored as I16, which adapters do not change");
}

} // namespace
} // namespace luminal::models::lora_test
