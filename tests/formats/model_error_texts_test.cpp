// formats/model_error_texts_test.cpp -- messages word for word: configurations, model files and
// folders, tokenizers. tools/check_error_texts.py lists those that no test names.
#include "formats/gguf.h"
#include "formats/model_files.h"
#include "formats/safetensors.h"
#include "formats/tokenizer.h"
#include "formats/util.h"
#include "luminal/error.h"
#include "support/error_of.h"
#include <filesystem>
#include <gtest/gtest.h>
#include <sys/resource.h>

namespace luminal {
namespace {

using namespace luminal::testing_formats;
using Metadata = std::vector<std::pair<std::string, GgufValue>>;

Metadata smallest() {
  return {{"general.architecture", GgufValue::of_string("llama")},
          {"llama.vocab_size", GgufValue::of_u32(8)},
          {"llama.context_length", GgufValue::of_u32(16)},
          {"llama.embedding_length", GgufValue::of_u32(16)},
          {"llama.block_count", GgufValue::of_u32(1)},
          {"llama.feed_forward_length", GgufValue::of_u32(16)},
          {"llama.attention.head_count", GgufValue::of_u32(2)},
          {"llama.attention.layer_norm_rms_epsilon", GgufValue::of_f32(1e-5F)}};
}

TEST(FormatErrorTexts, ConfigurationsInGguf) {
  const auto error = [](const std::string& key, const GgufValue& value, std::vector<float> factors = {}) {
    Gguf gguf;
    gguf.file_name = "f.gguf";
    gguf.metadata = smallest();
    std::erase_if(gguf.metadata, [&](const auto& pair) { return pair.first == key; });
    gguf.metadata.emplace_back(key, value);
    if (!factors.empty())
      gguf.tensors.push_back({"rope_freqs.weight",
                              StorageType::f32,
                              {static_cast<int64_t>(factors.size())},
                              std::as_bytes(std::span(factors))});
    return error_of(config_from_gguf(gguf));
  };
  const GgufValue one = GgufValue::of_u32(1);
  EXPECT_EQ(error("other", one), "accepted");
  EXPECT_EQ(error("llama.embedding_length", GgufValue::of_u32(17)),
            "f.gguf: hidden size 17 and 2 heads, expected a multiple");
  EXPECT_EQ(error("other", one, {1, 1, 1}), "f.gguf: 3 rotary frequency factors, expected 4");
  EXPECT_EQ(error("other", one, {1, 0, 1, 1}), "f.gguf: rotary frequency factor 0, expected above 0");
  EXPECT_EQ(error("llama.attention.value_length", GgufValue::of_u32(9)),
            "f.gguf: values of 9 elements and keys of 8 in a head, expected the same");
}

TEST(FormatErrorTexts, ConfigurationsInJson) {
  const auto error = [](const std::string& more, int hidden = 64) {
    return error_of(parse_hf_config(
        fmt::format(
            R"({{"model_type":"qwen2","vocab_size":8,"hidden_size":{},"intermediate_size":16,"num_hidden_layers":1,"num_attention_heads":8,"max_position_embeddings":16{}}})",
            hidden, more),
        "config.json"));
  };
  EXPECT_EQ(error(""), "accepted");
  EXPECT_EQ(error("", 65),
            "config.json: hidden size 65 and 8 heads without \"head_dim\", expected a multiple");
  EXPECT_EQ(
      error(
          R"(,"rope_scaling":{"rope_type":"llama3","factor":8,"low_freq_factor":4,"high_freq_factor":4,"original_max_position_embeddings":8})"),
      "config.json: low_freq_factor 4 and high_freq_factor 4, expected the first below the second");
  EXPECT_EQ(error(R"(,"use_sliding_window":true,"sliding_window":8,"max_window_layers":1)"), "accepted");
  const auto experts = parse_hf_config(
      R"({"model_type":"qwen3_moe","vocab_size":8,"hidden_size":64,"intermediate_size":16,"num_hidden_layers":1,"num_attention_heads":8,"num_experts":4,"num_experts_per_tok":2,"decoder_sparse_step":2})",
      "config.json");
  ASSERT_FALSE(experts);
  EXPECT_EQ(experts.error(), "config.json: experts in some layers only, expected in all of them");
  EXPECT_EQ(error(R"(,"quantization_config":{})"),
            "config.json: offset 175: weights quantized by the method \"?\", expected plain weights (or a "
            "GGUF file)");
}

TEST(FormatErrorTexts, LatentAttentionAndGroupsOfExperts) {
  const auto error = [](const std::string& more) {
    return error_of(parse_hf_config(
        R"({"model_type":"deepseek_v3","vocab_size":8,"hidden_size":64,"intermediate_size":16,"num_hidden_layers":2,"num_attention_heads":8,"kv_lora_rank":16,"qk_nope_head_dim":8,"qk_rope_head_dim":4,"v_head_dim":8,"n_routed_experts":8,"moe_intermediate_size":4,"num_experts_per_tok":3)" +
            more + "}",
        "config.json"));
  };
  EXPECT_EQ(error(""), "accepted");
  EXPECT_EQ(error(R"(,"n_group":4,"topk_group":2)"), "accepted");
  EXPECT_EQ(error(R"(,"scoring_func":"relu")"),
            "config.json: offset 296: experts scored by \"relu\", expected softmax or sigmoid");
  EXPECT_EQ(error(R"(,"moe_layer_freq":2)"),
            "config.json: offset 294: experts in some layers only, expected in all behind the first");
  EXPECT_EQ(error(R"(,"n_group":3)"), "config.json: 8 experts in 3 groups, expected groups of one size");
  EXPECT_EQ(error(R"(,"n_group":4,"topk_group":1)"),
            "config.json: 3 experts used, and 2 in the groups that are used");
  EXPECT_EQ(error(R"(,"n_group":9)"), "config.json: the number of groups of experts is 9, expected 1 to 8");
  EXPECT_EQ(error(R"(,"n_group":4,"topk_group":5)"),
            "config.json: the number of groups used is 5, expected 1 to 4");
  EXPECT_EQ(error(R"(,"routed_scaling_factor":0)"),
            "config.json: the scale of the experts is 0, expected 1e-09 to 1000000000");
  EXPECT_EQ(error(R"(,"first_k_dense_replace":3)"),
            "config.json: the number of layers without experts is 3, expected 0 to 2");
  EXPECT_EQ(error(R"(,"n_shared_experts":-1)"),
            "config.json: the size of shared experts is -4, expected 0 to 4294967296");
  EXPECT_EQ(error(R"(,"q_lora_rank":-1)"), "config.json: the rank of queries is -1, expected 0 to 16777216");
  const auto sizes = [](const char* rank, const char* plain, const char* value) {
    return error_of(parse_hf_config(
        fmt::format(
            R"({{"model_type":"deepseek_v2","vocab_size":8,"hidden_size":64,"intermediate_size":16,"num_hidden_layers":2,"num_attention_heads":8,"kv_lora_rank":{},"qk_nope_head_dim":{},"qk_rope_head_dim":4,"v_head_dim":{}}})",
            rank, plain, value),
        "config.json"));
  };
  EXPECT_EQ(sizes("4", "4", "4"), "accepted");
  EXPECT_EQ(sizes("0", "4", "4"), "config.json: the rank of keys and values is 0, expected 1 to 16777216");
  EXPECT_EQ(sizes("4", "0", "4"),
            "config.json: the part of a key that does not rotate is 0, expected 1 to 65536");
  EXPECT_EQ(sizes("4", "4", "0"), "config.json: the size of a value is 0, expected 1 to 65536");
}

TEST(FormatErrorTexts, ModelsAndTheirFolders) {
  const TemporaryFolder folder;
  const std::string pickle = folder.file("model.pt");
  put_file(pickle, "PK\x03\x04 rest of a zip archive");
  EXPECT_EQ(error_of(open_model(pickle)),
            pickle +
                ": a PyTorch or zip file, which can run code when loaded; convert: python -c \"import "
                "torch, safetensors.torch as s; s.save_file({k: v.contiguous() for k, v in torch.load('" +
                pickle + "', weights_only=True).items()}, 'model.safetensors')\"");
  std::filesystem::create_directory(folder.file("hf"));
  put_file(folder.file("hf/config.json"), "{}");
  put_file(folder.file("hf/pytorch_model.bin"), "x");
  const std::string hf = folder.file("hf");
  EXPECT_EQ(error_of(open_model(hf)),
            hf +
                ": only PyTorch weights (pytorch_model.bin), which can run code when loaded; convert: python "
                "-c \"from transformers import AutoModel as A; A.from_pretrained('" +
                hf + "').save_pretrained('" + hf + "', safe_serialization=True)\"");

  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit none{0, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  const std::string unlisted = error_of(open_model(hf));
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_EQ(unlisted, hf + ": cannot be listed: Too many open files");

  const std::string zeros(4, '\0');
  const TensorView tensor{"model.embed_tokens.weight", StorageType::f32, {1}, detail::as_bytes(zeros)};
  const std::string weights = folder.file("m.safetensors");
  ASSERT_TRUE(save_safetensors(weights, {{tensor}}, {}));
  const ModelFile model = open_model(weights).value();
  EXPECT_EQ(error_of([&] { (void)model.tensor("model.embed_tokens.bias"); }),
            weights + ": no tensor \"model.embed_tokens.bias\" among its 1; the nearest is "
                      "\"model.embed_tokens.weight\"");
  EXPECT_EQ(error_of([&] { (void)model.tensor("x"); }), weights + ": no tensor \"x\" among its 1");
  EXPECT_EQ(error_of([&] { (void)model.require_config(); }),
            weights + ": no configuration beside it (NAME.config.json or config.json)");
  EXPECT_EQ(error_of([&] { (void)model.require_tokenizer(); }),
            weights +
                ": no tokenizer beside it (tokenizer.json, tokenizer.model, vocab.json with merges.txt, "
                "vocab.txt)");
  const std::string config = folder.file("tokenizer_config.json");
  put_file(config, R"({"chat_template":[{"name":"x"}]})");
  EXPECT_EQ(error_of(open_model(weights)),
            config + ": offset 19: an entry of \"chat_template\" has no \"name\" or no \"template\"");
  const std::string gguf = folder.file("m.gguf");
  ASSERT_TRUE(save_gguf(gguf, Metadata{{"tokenizer.chat_template", GgufValue::of_string("\xFF")}}, {}));
  EXPECT_EQ(error_of(open_model(gguf)), gguf + ": metadata \"tokenizer.chat_template\" is not UTF-8");
}

std::string json(const std::string& members, const std::string& decoder = R"({"type":"Fuse"})") {
  return R"({"model":{"vocab":{"a":0,"b":1},"merges":[]},"decoder":)" + decoder +
         (members.empty() ? "}" : "," + members + "}");
}

/// The message behind "t: offset N: ", or behind "t: " where there is no offset.
std::string refusal(const std::string& text) {
  std::string error = error_of(tokenizer_from_json(text, "t"));
  EXPECT_TRUE(error.starts_with("t: ")) << error;
  error = error.substr(3);
  return error.starts_with("offset ") ? error.substr(error.find(": ") + 2) : error;
}

TEST(FormatErrorTexts, StagesOfTokenizers) {
  const auto normalizer = [](const std::string& s) { return refusal(json("\"normalizer\":" + s)); };
  const auto pre_tokenizer = [](const std::string& s) { return refusal(json("\"pre_tokenizer\":" + s)); };
  const auto processor = [](const std::string& s) { return refusal(json("\"post_processor\":" + s)); };
  EXPECT_EQ(refusal(R"({"model":{}})"), "the model has no \"vocab\"");
  EXPECT_EQ(normalizer(R"({"type":"Replace","content":""})"), "normalizer \"Replace\" has no \"pattern\"");
  EXPECT_EQ(normalizer(R"({"type":"Sequence"})"), "a sequence has no \"normalizers\"");
  EXPECT_EQ(pre_tokenizer(R"({"type":"Metaspace","replacement":""})"),
            "\"replacement\" of \"Metaspace\" is empty");
  EXPECT_EQ(refusal(json("", R"({"type":"Metaspace","replacement":""})")),
            "\"replacement\" of \"Metaspace\" is empty");
  EXPECT_EQ(processor(R"({"type":"TemplateProcessing"})"),
            "post-processor \"TemplateProcessing\" has no \"single\"");
  EXPECT_EQ(processor(R"({"type":"TemplateProcessing","single":[{"Sequence":{}},{"Sequence":{}}]})"),
            "a template with the text twice is not supported");
  EXPECT_EQ(processor(R"({"type":"TemplateProcessing","single":[{"Other":{}}]})"),
            "a part of a template is neither \"Sequence\" nor \"SpecialToken\"");
  EXPECT_EQ(processor(R"({"type":"BertProcessing","sep":["a",0]})"), "post-processor has no \"cls\"");
  EXPECT_EQ(processor(R"({"type":"BertProcessing","cls":["a"]})"),
            "\"cls\" has 1 parts, expected a text and an id");
  const std::string single =
      R"({"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"a"}},{"Sequence":{}}],"special_tokens":{"a":{"ids":[0]}}})";
  EXPECT_EQ(processor(R"({"type":"Sequence","processors":[)" + single + "," + single + "]}"),
            "two templates are not supported");
}

TEST(FormatErrorTexts, PatternsOfTokenizers) {
  const auto error = [](const std::string& pattern) {
    return refusal(
        json(R"("normalizer":{"type":"Replace","pattern":{"Regex":")" + pattern + R"("},"content":""})"));
  };
  EXPECT_EQ(error(R"([\\W])"), R"(the pattern "[\\W]" has \W inside brackets, which is not supported)");
  EXPECT_EQ(error(R"(a\\Kb)"), R"(the pattern "a\\Kb" has \K, which is not supported)");
  EXPECT_EQ(error("[a[b]]"), "the pattern \"[a[b]]\" has brackets inside brackets, which is not supported");
  EXPECT_EQ(error("[a&&b]"), "the pattern \"[a&&b]\" has && inside brackets, which is not supported");
  EXPECT_EQ(error("[[:alpha]"), "the pattern \"[[:alpha]\" has [: without :]");
  EXPECT_EQ(error("(a"),
            "the pattern \"(a\" is not a regular expression: missing closing parenthesis at its byte 2");
  EXPECT_EQ(error(std::string(100001, 'a')), "the pattern has 100001 bytes, expected at most 100000");
  const auto slow = tokenizer_from_json(
      json(R"("normalizer":{"type":"Replace","pattern":{"Regex":"(a|aa)+[bc]"},"content":""})"), "t");
  ASSERT_TRUE(slow) << slow.error();
  EXPECT_EQ(error_of([&] { (void)slow->encode(std::string(200, 'a')); }),
            "[tokenizer] pattern \"(a|aa)+[bc]\" on a text of 200 bytes: match limit exceeded");
}

TEST(FormatErrorTexts, TextsAndTokens) {
  const auto t = tokenizer_from_json(json(""), "t");
  ASSERT_TRUE(t) << t.error();
  EXPECT_EQ(error_of([&] { (void)t->decode(std::vector<int32_t>{2}); }),
            "[tokenizer] token 2 is not in the vocabulary of 2 tokens");
  EXPECT_EQ(error_of([&] { (void)t->token_text(-1); }),
            "[tokenizer] token -1 is not in the vocabulary of 2 tokens");
  EXPECT_EQ(error_of([&] { (void)t->encode("abc"); }),
            "[tokenizer] character \"c\" is not in the vocabulary, which has neither bytes nor an unknown "
            "token");
  EXPECT_EQ(error_of([&] { (void)t->encode("a\xFF"); }), "[tokenizer] the text is not UTF-8 at byte 1");
  EXPECT_EQ(error_of(tokenizer_from_sentencepiece("", "tokenizer.model")),
            "tokenizer.model: no pieces, expected a tokenizer.model of SentencePiece");
}

} // namespace
} // namespace luminal
