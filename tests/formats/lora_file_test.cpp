// tests/formats/lora_file_test.cpp -- adapters of PEFT and of llama.cpp: names, ranks, factors; messages word
// for word; damaged copies.
#include "formats/lora_file.h"
#include "formats/util.h"
#include "support/error_of.h"
#include <cmath>
#include <cstring>
#include <fmt/format.h>
#include <list>

namespace luminal {
namespace {

using testing_formats::TemporaryFolder;

/// Tensors of one value each, as many as the shape has.
class Values {
public:
  TensorView operator()(const std::string& name, std::vector<int64_t> shape, float value) {
    TensorView view;
    view.name = name;
    view.shape = std::move(shape);
    auto& kept = kept_.emplace_back(size_t(view.elements()), value);
    for (size_t i = 0; i < kept.size(); i++) kept[i] += float(i);
    view.bytes = std::as_bytes(std::span(kept));
    return view;
  }

private:
  std::list<std::vector<float>> kept_;
};

using Views = std::vector<TensorView>;

Result<LoraFile> peft(const std::string& config, const Views& views) {
  Safetensors tensors;
  tensors.tensors = views;
  return lora_from_peft(config, "CONFIG", tensors, "FILE");
}
std::string config(const std::string& more = "") {
  return R"({"peft_type":"LORA","r":2,"lora_alpha":8)" + more + "}";
}

const std::string module = "base_model.model.model.layers.0.self_attn.q_proj";

TEST(LoraFile, PeftGivesPairsWithTheirFactors) {
  Values values;
  const Views views{values(module + ".lora_A.weight", {2, 3}, 1),
                    values(module + ".lora_B.weight", {4, 2}, 10)};
  const LoraFile file = peft(config(), views).value();
  ASSERT_EQ(file.pairs.size(), 1U);
  const LoraPair& pair = file.pairs[0];
  EXPECT_EQ(pair.name, "layers.0.self_attn.q_proj");
  EXPECT_EQ((std::vector{pair.rows, pair.columns, pair.rank}), (std::vector<int64_t>{4, 3, 2}));
  EXPECT_EQ(pair.factor, 4);
  EXPECT_EQ(pair.left_values().value(), (std::vector<float>{10, 11, 12, 13, 14, 15, 16, 17}));
  EXPECT_EQ(pair.right_values().value(), (std::vector<float>{1, 2, 3, 4, 5, 6}));
  EXPECT_FALSE(file.gguf);

  EXPECT_EQ(peft(config(R"(,"use_rslora":true)"), views).value().pairs[0].factor, 8 / std::sqrt(2.0));
  // What is null, false or empty says nothing.
  EXPECT_TRUE(
      peft(config(R"(,"use_dora":false,"layer_replication":null,"target_parameters":[],)"
                  R"("rank_pattern":{},"init_lora_weights":true,"bias":"none","fan_in_fan_out":true)"),
           views));
  EXPECT_TRUE(peft(config(R"(,"init_lora_weights":"gaussian")"), views));
}

TEST(LoraFile, PatternsAreForNamesTheirEndsAndExpressions) {
  Values values;
  const Views views{values(module + ".lora_A.weight", {2, 3}, 1),
                    values(module + ".lora_B.weight", {4, 2}, 1)};
  const auto factor = [&](const std::string& patterns) {
    return peft(config(R"(,"alpha_pattern":)" + patterns), views).value().pairs[0].factor;
  };
  EXPECT_EQ(factor(R"({"q_proj":2})"), 1);
  EXPECT_EQ(factor(R"({"proj":2})"), 4);
  EXPECT_EQ(factor(R"({"k_proj":2,"model.layers.0.self_attn.q_proj":6})"), 3);
  EXPECT_EQ(factor(R"({"layers\\.[01]\\..*\\.[qv]_proj":2})"), 1);
  EXPECT_EQ(factor(R"({"layers.0":2})"), 4);
  const Views wide{values(module + ".lora_A.weight", {5, 3}, 1),
                   values(module + ".lora_B.weight", {4, 5}, 1)};
  EXPECT_EQ(peft(config(R"(,"rank_pattern":{"q_proj":5})"), wide).value().pairs[0].factor, 8.0 / 5);
}

TEST(LoraFile, TablesAndWholeTensors) {
  Values values;
  const std::string table = "base_model.model.model.embed_tokens", head = "base_model.model.lm_head";
  const LoraFile file =
      peft(config(),
           {values(table + ".lora_embedding_A", {2, 3}, 1), values(table + ".lora_embedding_B", {4, 2}, 10),
            values(table + ".base_layer.weight", {3, 4}, 0), values(head + ".weight", {3, 4}, 0),
            values("base_model.model.transformer.h.1.ln_1.modules_to_save.bias", {4}, 0)})
          .value();
  ASSERT_EQ(file.pairs.size(), 1U);
  const LoraPair& pair = file.pairs[0];
  EXPECT_EQ(pair.name, "embed_tokens");
  EXPECT_EQ((std::vector{pair.rows, pair.columns, pair.rank}), (std::vector<int64_t>{3, 4, 2}));
  EXPECT_EQ(pair.left_values().value(), (std::vector<float>{1, 4, 2, 5, 3, 6}));
  EXPECT_EQ(pair.right_values().value(), (std::vector<float>{10, 12, 14, 16, 11, 13, 15, 17}));
  ASSERT_EQ(file.values.size(), 3U);
  EXPECT_EQ(file.values[0].name, "embed_tokens.weight");
  EXPECT_EQ(file.values[1].name, "lm_head.weight");
  EXPECT_EQ(file.values[2].name, "h.1.ln_1.bias");
}

using Metadata = std::vector<std::pair<std::string, GgufValue>>;
Metadata adapter(double alpha) {
  return {{"general.architecture", GgufValue::of_string("llama")},
          {"general.type", GgufValue::of_string("adapter")},
          {"adapter.type", GgufValue::of_string("lora")},
          {"adapter.lora.alpha", GgufValue::of_f32(float(alpha))}};
}
Result<LoraFile> gguf(const Metadata& metadata, const Views& views) {
  const std::string bytes = serialize_gguf(metadata, views).value();
  auto parsed = parse_gguf(std::as_bytes(std::span(bytes)), "FILE");
  auto file = lora_from_gguf(parsed.value(), "FILE");
  if (file)
    for (LoraPair& pair : file->pairs) { // the bytes go
      EXPECT_TRUE(pair.left_values());
      EXPECT_TRUE(pair.right_values());
      pair.a.bytes = pair.b.bytes = {};
    }
  return file;
}

TEST(LoraFile, GgufAdapters) {
  Values values;
  const auto a = values("blk.0.attn_q.weight.lora_a", {2, 3}, 0),
             b = values("blk.0.attn_q.weight.lora_b", {4, 2}, 0);
  const LoraFile file = gguf(adapter(8), {a, b, values("blk.1.attn_norm.weight", {3}, 1)}).value();
  EXPECT_TRUE(file.gguf);
  EXPECT_EQ(file.architecture, "llama");
  ASSERT_EQ(file.pairs.size(), 1U);
  EXPECT_EQ(file.pairs[0].name, "blk.0.attn_q");
  EXPECT_EQ(file.pairs[0].factor, 4);
  EXPECT_EQ(file.pairs[0].expert, -1);
  ASSERT_EQ(file.values.size(), 1U);
  EXPECT_EQ(file.values[0].name, "blk.1.attn_norm.weight");
  EXPECT_EQ(gguf(adapter(0), {a, b}).value().pairs[0].factor, 1); // as llama.cpp reads it
  // The table's A is by rows.
  const LoraFile table = gguf(adapter(8), {values("token_embd.weight.lora_a", {5, 2}, 0),
                                           values("token_embd.weight.lora_b", {4, 2}, 0)})
                             .value();
  EXPECT_EQ((std::vector{table.pairs[0].rows, table.pairs[0].columns}), (std::vector<int64_t>{5, 4}));
  const LoraFile experts = gguf(adapter(8), {values("blk.0.ffn_up_exps.weight.lora_a", {3, 2, 4}, 0),
                                             values("blk.0.ffn_up_exps.weight.lora_b", {3, 6, 2}, 0)})
                               .value();
  ASSERT_EQ(experts.pairs.size(), 3U);
  EXPECT_EQ(experts.pairs[2].expert, 2);
  EXPECT_EQ(experts.pairs[2].rows, 6);
}

TEST(LoraFileErrorTexts, Peft) {
  Values values;
  const auto a = values(module + ".lora_A.weight", {2, 3}, 1),
             b = values(module + ".lora_B.weight", {4, 2}, 1);
  const auto of = [&](const std::string& text, const Views& views) { return error_of(peft(text, views)); };
  EXPECT_EQ(of("[]", {a, b}), "CONFIG: offset 1: the configuration is an array, expected an object");
  EXPECT_EQ(of(R"({"r":2})", {a, b}), "CONFIG: no \"peft_type\"");
  EXPECT_EQ(of(R"({"peft_type":"IA3"})", {a, b}), "CONFIG: \"peft_type\" is \"IA3\", expected \"LORA\"");
  EXPECT_EQ(of(R"({"peft_type":"LORA","lora_alpha":2})", {a, b}), "CONFIG: no \"r\"");
  EXPECT_EQ(of(R"({"peft_type":"LORA","r":2})", {a, b}), "CONFIG: no \"lora_alpha\"");
  EXPECT_EQ(of(R"({"peft_type":"LORA","r":0,"lora_alpha":2})", {a, b}),
            "CONFIG: \"r\" is 0, expected a rank");
  EXPECT_EQ(of(config(R"(,"rank_pattern":{"q":-1})"), {a, b}),
            "CONFIG: \"rank_pattern\" of \"q\" is -1, expected a rank");
  for (const char* key : {"use_dora", "lora_bias", "use_qalora", "ensure_weight_tying"})
    EXPECT_EQ(of(config(fmt::format(",\"{}\":true", key)), {a, b}),
              fmt::format("CONFIG: \"{}\" is set, which is not supported", key));
  for (const char* key :
       {"layer_replication", "target_parameters", "trainable_token_indices", "alora_invocation_tokens"})
    EXPECT_EQ(of(config(fmt::format(",\"{}\":[[0,1]]", key)), {a, b}),
              fmt::format("CONFIG: \"{}\" is set, which is not supported", key));
  EXPECT_EQ(
      of(config(R"(,"init_lora_weights":"pissa_niter_16")"), {a, b}),
      "CONFIG: \"init_lora_weights\" is \"pissa_niter_16\", which changes the weights of the model, too; "
      "convert the adapter to plain LoRA where it is saved");
  EXPECT_EQ(of(config(R"(,"rank_pattern":{"q_proj":3})"), {a, b}),
            "FILE: tensor \"" + module + ".lora_A.weight\" is F32 [2, 3], the configuration says rank 3");
  EXPECT_EQ(of(config(), {a}),
            "FILE: tensor \"" + module + ".lora_A.weight\" has no B for \"model.layers.0.self_attn.q_proj\"");
  EXPECT_EQ(of(config(), {b}),
            "FILE: tensor \"" + module + ".lora_B.weight\" has no A for \"model.layers.0.self_attn.q_proj\"");
  EXPECT_EQ(of(config(), {a, values(module + ".lora_B.weight", {4, 3}, 1)}),
            "FILE: tensors \"" + module + ".lora_A.weight\", F32 [2, 3], and \"" + module +
                ".lora_B.weight\", F32 [4, 3], are not the two factors of a matrix");
  EXPECT_EQ(of(config(), {values("model.q.lora_A.weight", {2, 3}, 1)}),
            "FILE: tensor \"model.q.lora_A.weight\": expected a name that begins with base_model.model.");
  EXPECT_EQ(of(config(), {a, b, values(module + ".lora_magnitude_vector", {4}, 1)}),
            "FILE: tensor \"" + module +
                ".lora_magnitude_vector\": expected names that end in .lora_A.weight, .lora_B.weight, "
                ".lora_embedding_A, .lora_embedding_B, .weight or .bias");
  TensorView whole = a;
  whole.type = StorageType::i32;
  EXPECT_EQ(of(config(), {whole, b}),
            "FILE: tensor \"" + module + ".lora_A.weight\" is stored as I32, expected floating-point values");
}

TEST(LoraFileErrorTexts, Gguf) {
  Values values;
  const auto a = values("blk.0.attn_q.weight.lora_a", {2, 3}, 0);
  const auto of = [&](const Metadata& metadata, const Views& views) {
    return error_of(gguf(metadata, views));
  };
  Metadata model = adapter(1);
  model[1].second = GgufValue::of_string("model");
  EXPECT_EQ(of(model, {a}), "FILE: metadata \"general.type\" is \"model\", expected \"adapter\"");
  model = adapter(1);
  model.erase(model.begin() + 2);
  EXPECT_EQ(of(model, {a}), "FILE: metadata \"adapter.type\" is \"\", expected \"lora\"");
  EXPECT_EQ(of(adapter(INFINITY), {a}),
            "FILE: metadata \"adapter.lora.alpha\" is inf, expected a finite number");
  model = adapter(1);
  model.emplace_back("adapter.alora.invocation_tokens", GgufValue::of_i32s({1, 2}));
  EXPECT_EQ(of(model, {a}),
            "FILE: metadata \"adapter.alora.invocation_tokens\": an adapter that begins within "
            "the text is not supported");
  EXPECT_EQ(
      of(adapter(1), {values("blk.0.attn_q.lora_a", {2, 3}, 0)}),
      "FILE: tensor \"blk.0.attn_q.lora_a\": expected names that end in .weight.lora_a, .weight.lora_b, "
      ".weight or .bias");
  EXPECT_EQ(of(adapter(1), {a}), "FILE: tensor \"blk.0.attn_q.weight.lora_a\" has no B for \"blk.0.attn_q\"");
}

TEST(LoraFileErrorTexts, Places) {
  const TemporaryFolder folder;
  const std::string& path = folder.path();
  EXPECT_EQ(error_of(open_lora(folder.file("none"))), folder.file("none") + ": no such file or folder");
  EXPECT_EQ(error_of(open_lora(path)),
            path + ": a folder without adapter_config.json, expected an adapter of PEFT");
  testing_formats::put_file(folder.file("adapter_config.json"), config());
  EXPECT_EQ(error_of(open_lora(path)), path + ": no adapter_model.safetensors beside adapter_config.json");
  testing_formats::put_file(folder.file("adapter_model.bin"), "x");
  EXPECT_EQ(
      error_of(open_lora(path)),
      path + ": only PyTorch weights (adapter_model.bin), which can run code when loaded; save the adapter "
             "with safe_serialization=True");
  EXPECT_EQ(error_of(open_lora(folder.file("adapter_config.json"))),
            folder.file("adapter_config.json") +
                ": begins with \"{\\\"peft_t\", expected a GGUF adapter or a folder of PEFT");
  Values values;
  ASSERT_TRUE(save_safetensors(
      folder.file("adapter_model.safetensors"),
      Views{values(module + ".lora_A.weight", {2, 3}, 1), values(module + ".lora_B.weight", {4, 2}, 1)}));
  const LoraFile whole = open_lora(path).value(),
                 named = open_lora(folder.file("adapter_model.safetensors")).value();
  EXPECT_EQ(whole.pairs.size(), 1U);
  EXPECT_EQ(whole.identity, named.identity);
  testing_formats::put_file(folder.file("adapter_config.json"), config(R"(,"use_rslora":true)"));
  EXPECT_NE(open_lora(path).value().identity, whole.identity);
}

TEST(LoraFile, DamagedFilesAreRefusedOrRead) {
  Values values;
  const Views views{values(module + ".lora_A.weight", {2, 3}, 1),
                    values(module + ".lora_B.weight", {4, 2}, 1)};
  const auto use = [](const LoraFile& file) {
    for (const LoraPair& pair : file.pairs) {
      EXPECT_EQ(pair.left_values().value().size(), size_t(pair.rows * pair.rank));
      EXPECT_EQ(pair.right_values().value().size(), size_t(pair.columns * pair.rank));
    }
  };
  testing_formats::mutate(
      config(R"(,"alpha_pattern":{"q_proj":2},"rank_pattern":{"v":3})"), "FILE", 1, 2000,
      [&](std::string_view text) {
        Safetensors tensors;
        tensors.tensors = views;
        return lora_from_peft(text, "FILE", tensors, "FILE");
      },
      use);
  Gguf kept;
  testing_formats::mutate(
      serialize_gguf(adapter(8), Views{values("blk.0.attn_q.weight.lora_a", {2, 3}, 0),
                                       values("blk.0.attn_q.weight.lora_b", {4, 2}, 0)})
          .value(),
      "FILE", 2, 2000,
      [&](std::string_view bytes) -> Result<LoraFile> {
        auto parsed = parse_gguf(std::as_bytes(std::span(bytes)), "FILE");
        if (!parsed) return parsed.failure();
        kept = std::move(*parsed);
        return lora_from_gguf(kept, "FILE");
      },
      use);
}

} // namespace
} // namespace luminal
