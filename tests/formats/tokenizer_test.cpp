// formats/tokenizer_test.cpp -- tokenizers of GGUF files, merging, streaming.
#include "formats/gguf.h"
#include "formats/json.h"
#include "formats/quants.h"
#include "formats/safetensors.h"
#include "formats/tokenizer.h"
#include "formats/tokenizer_model.h"
#include "formats/util.h"
#include <chrono>
#include <gmock/gmock.h>

namespace luminal::tokenizer_test {
namespace {

using namespace luminal::testing_formats;
using ::testing::HasSubstr;

using Metadata = std::vector<std::pair<std::string, GgufValue>>;

/// The strings and ids that llama.cpp tests its vocabularies with.
void check_vectors(const Tokenizer& tokenizer, const std::string& inputs, const std::string& outputs,
                   bool round_trip) {
  std::vector<std::string> texts;
  const std::string text = file_content(inputs), separator = "\n__ggml_vocab_test__\n";
  size_t begin = 0;
  for (size_t at = text.find(separator); at != std::string::npos; at = text.find(separator, begin)) {
    texts.push_back(text.substr(begin, at - begin));
    begin = at + separator.size();
  }
  std::istringstream lines(file_content(outputs));
  size_t i = 0;
  for (std::string line; std::getline(lines, line); ++i) {
    if (i == texts.size()) texts.push_back(text.substr(begin));
    SCOPED_TRACE(detail::in_quotes(texts[i]));
    std::istringstream numbers(line);
    std::vector<int32_t> ids;
    for (int32_t id = 0; numbers >> id;) ids.push_back(id);
    EXPECT_EQ(tokenizer.encode(texts[i], {false, false}), ids);
    if (round_trip) {
      EXPECT_EQ(tokenizer.decode(ids), texts[i]);
    }
  }
  EXPECT_GE(i, 46U);
  EXPECT_EQ(i, texts.size());
}

Tokenizer open(const std::string& path) {
  const auto gguf = open_gguf(path);
  return tokenizer_from_gguf(gguf.ok() ? *gguf : Gguf{}).value();
}

TEST(TokenizerGguf, Phi3VectorsOfLlamaCpp) {
  LUMINAL_NEEDS_DATA(path, "tokenizers/ggml-vocab-phi-3.gguf");
  const Tokenizer t = open(path);
  check_vectors(t, path + ".inp", path + ".out", true);
  EXPECT_EQ(t.size(), 32064);
  EXPECT_TRUE(t.adds_bos());
  EXPECT_EQ(t.bos(), 1);
  EXPECT_TRUE(t.is_eos(32000));
  EXPECT_EQ(t.encode("Hi", {true, false})[0], 1);
  EXPECT_EQ(t.encode("<|user|>", {false, true}).size(), 1U);
  EXPECT_GT(t.encode("<|user|>", {false, false}).size(), 3U);
}

TEST(TokenizerGguf, Gpt2VectorsOfLlamaCpp) {
  LUMINAL_NEEDS_DATA(path, "tokenizers/ggml-vocab-gpt-2.gguf");
  const Tokenizer t = open(path);
  check_vectors(t, path + ".inp", path + ".out", true);
  EXPECT_FALSE(t.adds_bos());
  EXPECT_EQ(t.description(), "gpt2 (gpt-2)");
  EXPECT_EQ(t.find("\u0120the"), 262);
  EXPECT_EQ(t.token_bytes(262), " the");
}

TEST(TokenizerGguf, Qwen2VectorsOfLlamaCpp) {
  LUMINAL_NEEDS_DATA(vocabulary, "tokenizers/qwen2-vocab.json");
  LUMINAL_NEEDS_DATA(merges, "tokenizers/qwen2-merges.txt");
  LUMINAL_NEEDS_DATA(inputs, "tokenizers/ggml-vocab-qwen2.gguf.inp");
  LUMINAL_NEEDS_DATA(outputs, "tokenizers/ggml-vocab-qwen2.gguf.out");
  const detail::Json json = detail::parse_json(file_content(vocabulary), vocabulary);
  const auto& entries = json.as_object(vocabulary, "vocabulary");
  std::vector<std::string> tokens(entries.size());
  for (const auto& [text, id] : entries) tokens.at(static_cast<size_t>(id.as_int(vocabulary, "id"))) = text;
  std::vector<std::string> lines;
  std::istringstream in(file_content(merges));
  for (std::string line; std::getline(in, line);) {
    if (line.ends_with('\r')) line.pop_back();
    if (!line.empty() && !line.starts_with("#version")) lines.push_back(line);
  }
  const auto bytes = serialize_gguf(Metadata{{"tokenizer.ggml.model", GgufValue::of_string("gpt2")},
                                             {"tokenizer.ggml.pre", GgufValue::of_string("qwen2")},
                                             {"tokenizer.ggml.tokens", GgufValue::of_strings(tokens)},
                                             {"tokenizer.ggml.merges", GgufValue::of_strings(lines)}},
                                    {});
  ASSERT_TRUE(bytes) << bytes.error();
  const auto gguf = parse_gguf(detail::as_bytes(*bytes), "q");
  ASSERT_TRUE(gguf) << gguf.error();
  const auto t = tokenizer_from_gguf(*gguf);
  ASSERT_TRUE(t) << t.error();
  check_vectors(*t, inputs, outputs, true);
}

TEST(TokenizerGguf, StoriesTextOfTheReferenceTokens) {
  LUMINAL_NEEDS_DATA(path, "llm/stories260K.gguf");
  LUMINAL_NEEDS_DATA(reference, "llm/ref_stories260K.safetensors");
  const Tokenizer t = open(path);
  const auto file = open_safetensors(reference);
  ASSERT_TRUE(file) << file.error();
  const TensorView* tokens = nullptr;
  for (const auto& tensor : file->tensors)
    if (tensor.shape.size() == 1 && tensor.elements() == 201) tokens = &tensor;
  ASSERT_NE(tokens, nullptr);
  std::vector<int32_t> ids;
  const auto values = dequantize(*tokens);
  ASSERT_TRUE(values) << values.error();
  for (const float id : *values) ids.push_back(static_cast<int32_t>(id));
  const std::string text = t.decode(ids);
  EXPECT_EQ(
      text.rfind(
          "Once upon a time, there was a little girl named Lily. She loved to play outside in the park.", 0),
      0U)
      << text;
  // The model writes what the tokenizer would: encoding its text gives its tokens.
  EXPECT_EQ(t.encode(text), ids);
  // Streamed after the prompt, the space in front of a word stays.
  StreamDecoder after(t, false, true);
  EXPECT_EQ(after.push(*t.find("\u2581was")), " was");
}

TEST(TokenizerGguf, SameVocabularyAsTheLlama2cFile) {
  LUMINAL_NEEDS_DATA(path, "llm/stories260K.gguf");
  LUMINAL_NEEDS_DATA(bin, "llm/tok512.bin");
  const Tokenizer t = open(path);
  const std::string raw = file_content(bin);
  size_t position = 4; // the longest token's length
  for (int32_t id = 0; id < 512; ++id) {
    float score = 0;
    int32_t length = 0;
    std::memcpy(&score, raw.data() + position, 4);
    std::memcpy(&length, raw.data() + position + 4, 4);
    const std::string text = raw.substr(position + 8, static_cast<size_t>(length));
    position += 8 + static_cast<size_t>(length);
    if (id > 2 && t.token_kind(id) != TokenKind::byte) {
      EXPECT_EQ(t.token_bytes(id), text) << id;
    }
  }
  EXPECT_EQ(position, raw.size());
}

Metadata tiny_sentencepiece() {
  std::vector<std::string> texts = {"<unk>", "<s>", "</s>"};
  std::vector<double> scores = {0, 0, 0};
  std::vector<int64_t> types = {2, 3, 3};
  for (int byte = 0; byte < 256; ++byte)
    texts.push_back(fmt::format("<0x{:02X}>", byte)), scores.push_back(0), types.push_back(6);
  for (const char* text :
       {"\u2581", "a", "b", "c", "ab", "bc", "abc", "\u2581a", "\u2581abc", "\u2581\u2581", "<tool>"})
    texts.push_back(text), scores.push_back(-static_cast<double>(texts.size())), types.push_back(1);
  types.back() = 4;
  return {{"tokenizer.ggml.model", GgufValue::of_string("llama")},
          {"tokenizer.ggml.tokens", GgufValue::of_strings(texts)},
          {"tokenizer.ggml.scores", GgufValue::of_f32s(scores)},
          {"tokenizer.ggml.token_type", GgufValue::of_i32s(types)},
          {"tokenizer.ggml.bos_token_id", GgufValue::of_u32(1)},
          {"tokenizer.ggml.eos_token_id", GgufValue::of_u32(2)},
          {"tokenizer.ggml.unknown_token_id", GgufValue::of_u32(0)},
          {"tokenizer.ggml.padding_token_id", GgufValue::of_u32(4294967295U)}};
}

Result<Tokenizer> from(const Metadata& metadata) {
  const auto bytes = serialize_gguf(metadata, {});
  if (!bytes) return bytes.failure();
  const auto gguf = parse_gguf(detail::as_bytes(*bytes), "f.gguf");
  if (!gguf) return gguf.failure();
  return tokenizer_from_gguf(*gguf);
}

void set(Metadata& metadata, const std::string& key, std::optional<GgufValue> value) {
  std::erase_if(metadata, [&](const auto& pair) { return pair.first == key; });
  if (value) metadata.emplace_back(key, *value);
}

TEST(TokenizerGguf, SentencePieceRules) {
  const auto t = from(tiny_sentencepiece());
  ASSERT_TRUE(t) << t.error();
  const auto id = [&](const char* text) { return *t->find(text); };
  EXPECT_EQ(t->encode("abc"), (std::vector<int32_t>{1, id("\u2581abc")}));
  // By score ab comes first, so ▁a never forms; ▁ab is not a token.
  EXPECT_EQ(t->encode("ab"), (std::vector<int32_t>{1, id("\u2581"), id("ab")}));
  EXPECT_EQ(t->encode("abbc", {false, false}), (std::vector<int32_t>{id("\u2581"), id("ab"), id("bc")}));
  EXPECT_EQ(t->encode(""), std::vector<int32_t>{1});
  EXPECT_EQ(t->encode("", {false, false}), std::vector<int32_t>());
  EXPECT_EQ(t->encode("\u00e9", {false, false}),
            (std::vector<int32_t>{id("\u2581"), id("<0xC3>"), id("<0xA9>")}));
  EXPECT_EQ(t->encode("a<tool>b", {false, false}),
            (std::vector<int32_t>{id("\u2581a"), id("<tool>"), id("\u2581"), id("b")}));
  EXPECT_EQ(t->encode("<s>a", {false, true}), (std::vector<int32_t>{1, id("\u2581a")}));
  EXPECT_EQ(t->decode(std::vector<int32_t>{1, id("\u2581"), id("abc"), id("\u2581a"), 2}), "abc a");
  EXPECT_EQ(t->decode(std::vector<int32_t>{1, id("\u2581a"), 2}, true), "<s> a</s>");
  EXPECT_EQ(t->decode(std::vector<int32_t>{id("\u2581\u2581"), id("a")}), " a");
  EXPECT_EQ(t->pad(), std::nullopt);
  EXPECT_EQ(t->token_kind(id("<tool>")), TokenKind::user_defined);
  EXPECT_EQ(t->token_kind(3), TokenKind::byte);
  EXPECT_EQ(t->token_bytes(3), std::string(1, '\0'));

  Metadata m = tiny_sentencepiece();
  m.emplace_back("tokenizer.ggml.add_space_prefix", GgufValue::of_bool(false));
  m.emplace_back("tokenizer.ggml.add_bos_token", GgufValue::of_bool(false));
  m.emplace_back("tokenizer.ggml.add_eos_token", GgufValue::of_bool(true));
  const auto u = from(m);
  ASSERT_TRUE(u) << u.error();
  EXPECT_EQ(u->encode("abc"), (std::vector<int32_t>{id("abc"), 2}));
  EXPECT_EQ(u->decode(std::vector<int32_t>{id("\u2581a")}), " a");
}

TEST(TokenizerGguf, AMalformedTextOfASpecialTokenIsShownAsUtf8) {
  const auto t = from({{"tokenizer.ggml.model", GgufValue::of_string("llama")},
                       {"tokenizer.ggml.tokens", GgufValue::of_strings({"<\x90\x91>", "a\xC3"})},
                       {"tokenizer.ggml.scores", GgufValue::of_f32s({0, 0})},
                       {"tokenizer.ggml.token_type", GgufValue::of_i32s({3, 1})}});
  ASSERT_TRUE(t) << t.error();
  EXPECT_EQ(t->decode(std::vector<int32_t>{0, 1}, true), "<\uFFFD\uFFFD>a\uFFFD");
}

TEST(TokenizerGguf, RefusesByName) {
  const auto refused = [](const char* key, std::optional<GgufValue> value, const char* expected) {
    Metadata m = tiny_sentencepiece();
    set(m, key, std::move(value));
    const auto t = from(m);
    ASSERT_FALSE(t) << expected;
    EXPECT_THAT(t.error(), HasSubstr(expected));
    expect_clear_line(t.error(), "f.gguf: ");
  };
  refused("tokenizer.ggml.model", std::nullopt,
          "no tokenizer in the file (metadata \"tokenizer.ggml.model\")");
  refused("tokenizer.ggml.model", GgufValue::of_string("rwkv"),
          "tokenizer of kind \"rwkv\", expected llama, gpt2, bert or t5");
  refused("tokenizer.ggml.model", GgufValue::of_u32(1),
          "metadata \"tokenizer.ggml.model\" is u32, expected string");
  refused("tokenizer.ggml.tokens", std::nullopt, "no metadata \"tokenizer.ggml.tokens\"");
  refused("tokenizer.ggml.tokens", GgufValue::of_strings({"a"}), "270 token types for 1 tokens");
  refused("tokenizer.ggml.scores", std::nullopt,
          "no metadata \"tokenizer.ggml.scores\", which a llama tokenizer needs");
  refused("tokenizer.ggml.scores", GgufValue::of_f32s({1}), "1 scores for 270 tokens");
  refused("tokenizer.ggml.scores",
          GgufValue::of_f32s(std::vector<double>(270, std::numeric_limits<double>::quiet_NaN())),
          "a token's score is NaN");
  refused("tokenizer.ggml.token_type", GgufValue::of_i32s(std::vector<int64_t>(270, 9)),
          "token 0 has type 9, expected 0 to 6");
  refused("tokenizer.ggml.bos_token_id", GgufValue::of_u32(270),
          "metadata \"tokenizer.ggml.bos_token_id\" is 270, expected less than 270 tokens");
  Metadata m = {{"tokenizer.ggml.model", GgufValue::of_string("gpt2")},
                {"tokenizer.ggml.pre", GgufValue::of_string("gpt-2")},
                {"tokenizer.ggml.tokens", GgufValue::of_strings({"a", "b", "ab"})},
                {"tokenizer.ggml.merges", GgufValue::of_strings({"a b"})}};
  ASSERT_TRUE(from(m));
  const auto changed = [&](const char* key, std::optional<GgufValue> value, const char* expected) {
    Metadata n = m;
    set(n, key, std::move(value));
    const auto t = from(n);
    ASSERT_FALSE(t) << expected;
    EXPECT_THAT(t.error(), HasSubstr(expected));
  };
  changed("tokenizer.ggml.pre", GgufValue::of_string("mystery"),
          "metadata \"tokenizer.ggml.pre\" is \"mystery\", which is not known");
  changed("tokenizer.ggml.merges", std::nullopt,
          "no metadata \"tokenizer.ggml.merges\", which a gpt2 tokenizer needs");
  changed("tokenizer.ggml.merges", GgufValue::of_strings({"ab"}),
          "merge 0 is \"ab\", expected two tokens with a space between");
  changed("tokenizer.ggml.merges", GgufValue::of_strings({"a "}), "expected two tokens");
  changed("tokenizer.ggml.merges", GgufValue::of_strings({"b a"}),
          "merge 0 is \"b a\", expected its parts and their union in the vocabulary");
}

TEST(TokenizerGguf, EveryKnownPreTokenizerCompilesAndLosesNothing) {
  std::vector<std::string> alphabet;
  for (const char32_t c : detail::byte_level_alphabet()) detail::append_utf8(alphabet.emplace_back(), c);
  const std::string text =
      "Hello world, it's 12345  spaces\n\n\tna\u00efve \u041f\u0440\u0438\u0432\u0435\u0442 \u4f60\u597d "
      "\u2460\u2167 x\u00b2 'LL <|x|> a1b22c333 \U0001F999\u200d  end  ";
  for (const char* pre :
       {"default", "llama3",    "llama-bpe", "dbrx",   "gpt-2",     "phi-2",      "olmo",
        "qwen2",   "stablelm2", "starcoder", "smollm", "command-r", "falcon",     "poro-chat",
        "bloom",   "viking",    "tekken",    "gpt-4o", "llama4",    "deepseek-v3"}) {
    SCOPED_TRACE(pre);
    const auto t = from({{"tokenizer.ggml.model", GgufValue::of_string("gpt2")},
                         {"tokenizer.ggml.pre", GgufValue::of_string(pre)},
                         {"tokenizer.ggml.tokens", GgufValue::of_strings(alphabet)},
                         {"tokenizer.ggml.merges", GgufValue::of_strings({})}});
    ASSERT_TRUE(t) << t.error();
    EXPECT_EQ(t->decode(t->encode(text)), text);
    EXPECT_EQ(t->encode(text).size(), text.size());
  }
}

TEST(TokenizerMerge, HeapAndScanAgree) {
  std::mt19937 random(17);
  for (int round = 0; round < 300; ++round) {
    detail::MergeTable merges;
    const int letters = 2 + static_cast<int>(random() % 4);
    merges.reserve(200);
    int32_t next = letters;
    for (int i = 0; i < 60; ++i) {
      const auto token = [&] { return static_cast<int32_t>(random() % static_cast<uint32_t>(next)); };
      const int32_t left = token(), right = token();
      merges.add(left, right, i, next++);
    }
    // The definition: join the leftmost pair of the lowest rank, again and again.
    std::vector<int32_t> symbols;
    for (size_t n = random() % 60; n > 0; --n)
      symbols.push_back(static_cast<int32_t>(random() % static_cast<uint32_t>(letters + 1)) - 1);
    auto naive = symbols, heap = symbols, fast = symbols;
    while (true) {
      const detail::MergeTable::Merge* best = nullptr;
      size_t at = 0;
      for (size_t i = 0; i + 1 < naive.size(); ++i) {
        const auto* merge = merges.find(naive[i], naive[i + 1]);
        if (merge != nullptr && (best == nullptr || merge->rank < best->rank)) best = merge, at = i;
      }
      if (best == nullptr) break;
      naive[at] = best->result;
      naive.erase(naive.begin() + static_cast<std::ptrdiff_t>(at) + 1);
    }
    detail::merge_ranked_with_heap(merges, heap);
    detail::merge_ranked(merges, fast);
    EXPECT_EQ(heap, naive);
    EXPECT_EQ(fast, naive);
  }
}

TEST(TokenizerMerge, LongTextsTakeNoQuadraticTime) {
  // One piece of a megabyte: quadratic merging would take hours.
  Metadata m = tiny_sentencepiece();
  const auto t = from(m);
  ASSERT_TRUE(t) << t.error();
  std::string text;
  for (int i = 0; i < 350'000; ++i) text += "abc";
  EXPECT_EQ(t->encode(text, {false, false}).size(), 350'000U);
  detail::MergeTable merges;
  merges.reserve(40);
  for (int32_t i = 0; i < 19; ++i) merges.add(i, i, i, i + 1);
  std::vector<int32_t> symbols(size_t{1} << 19, 0);
  detail::merge_ranked(merges, symbols);
  EXPECT_EQ(symbols, std::vector<int32_t>{19});
}

TEST(StreamDecoder, NeverBreaksACharacter) {
  const auto t = from(tiny_sentencepiece());
  ASSERT_TRUE(t) << t.error();
  std::mt19937 random(23);
  for (int round = 0; round < 2000; ++round) {
    std::vector<int32_t> ids;
    for (size_t n = random() % 12; n > 0; --n) {
      // Bytes that form characters, broken ones, and words between them.
      static const int interesting[] = {0xF0, 0x9F, 0xA6, 0x99, 0xC3, 0xA9, 0xE2,
                                        0x82, 0xAC, 0x41, 0xFF, 0xED, 0xA0, 0x80};
      if (random() % 4 != 0)
        ids.push_back(3 + interesting[random() % std::size(interesting)]);
      else
        ids.push_back(static_cast<int32_t>(random() % static_cast<uint32_t>(t->size())));
    }
    for (const bool special : {false, true}) {
      StreamDecoder stream(*t, special);
      std::string joined, raw;
      for (const int32_t id : ids) {
        const std::string piece = stream.push(id);
        ASSERT_FALSE(detail::find_invalid_utf8(piece));
        joined += piece;
      }
      joined += stream.finish();
      ASSERT_EQ(joined, t->decode(ids, special));
    }
  }
  const auto byte = [](int value) { return 3 + value; };
  StreamDecoder stream(*t);
  EXPECT_EQ(stream.push(byte(0xF0)), "");
  EXPECT_EQ(stream.push(byte(0x9F)), "");
  EXPECT_EQ(stream.push(byte(0xA6)), "");
  EXPECT_EQ(stream.push(byte(0x99)), "\U0001F999");
  EXPECT_EQ(stream.push(byte(0xE2)), "");
  EXPECT_EQ(stream.push(*t->find("a")), "\uFFFDa");
  EXPECT_EQ(stream.push(byte(0xC3)), "");
  EXPECT_EQ(stream.finish(), "\uFFFD");
  EXPECT_EQ(stream.push(*t->find("\u2581a")), "a") << "afresh: the first space is stripped again";
}

} // namespace
} // namespace luminal::tokenizer_test
