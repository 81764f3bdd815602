// formats/tokenizer_files_test.cpp -- the older files of vocabularies (vocab.txt, vocab.json with
// merges.txt, ranks of tiktoken, models of SentencePiece) against the libraries that made them.
#include "formats/gguf.h"
#include "formats/json.h"
#include "formats/model_files.h"
#include "formats/safetensors.h"
#include "formats/tokenizer.h"
#include "formats/tokenizer_model.h"
#include "formats/util.h"
#include <filesystem>
#include <gmock/gmock.h>
#include <random>
#include <sstream>

namespace luminal {
namespace {

using namespace luminal::testing_formats;
using detail::Json;
using ::testing::HasSubstr;

const std::string pieces_path = LUMINAL_SOURCE_DIR "/tests/formats/golden/pieces.json";

Json pieces() { return detail::parse_json(file_content(pieces_path), pieces_path); }

std::vector<int32_t> ids_of(const Json& json) {
  std::vector<int32_t> out;
  for (const Json& id : json.as_array("golden", "ids"))
    out.push_back(static_cast<int32_t>(id.as_int("golden", "id")));
  return out;
}

/// What decoding one id after another gives is what decoding all of them gives.
void expect_streams(const Tokenizer& tokenizer, const std::vector<int32_t>& ids) {
  for (const bool special : {false, true}) {
    StreamDecoder stream(tokenizer, special);
    std::string joined;
    for (const int32_t id : ids) joined += stream.push(id);
    joined += stream.finish();
    EXPECT_EQ(joined, tokenizer.decode(ids, special));
  }
}

TEST(TokenizerSentencePiece, UnigramAndTablesAsSentencePiece) {
  const Json golden = pieces();
  int models = 0;
  for (const Json& entry : golden.find("sentencepiece")->as_array(pieces_path, "models")) {
    SCOPED_TRACE(entry.find("name")->as_string(pieces_path, "name"));
    std::string bytes;
    ASSERT_TRUE(detail::base64_decode(entry.find("model")->as_string(pieces_path, "model"), bytes));
    const auto tokenizer =
        tokenizer_from_sentencepiece(bytes, "tokenizer.model", R"({"add_bos_token": false})");
    ASSERT_TRUE(tokenizer) << tokenizer.error();
    for (const Json& row : entry.find("cases")->as_array(pieces_path, "cases")) {
      const auto& c = row.as_array(pieces_path, "case");
      const std::string& text = c[0].as_string(pieces_path, "text");
      SCOPED_TRACE(detail::in_quotes(text));
      EXPECT_EQ(tokenizer->encode(text, {false, false}), ids_of(c[1]));
      // The library writes " ⁇ " for an unknown token, which gives no text here.
      if (const std::string& decoded = c[2].as_string(pieces_path, "decoded");
          decoded.find("\u2047") == std::string::npos) {
        EXPECT_EQ(tokenizer->decode(ids_of(c[1])), decoded);
      }
      expect_streams(*tokenizer, ids_of(c[1]));
    }
    ++models;
    for (size_t size = 0; size < bytes.size(); size += 61) // cut anywhere: refused, or smaller
      if (const auto cut = tokenizer_from_sentencepiece(bytes.substr(0, size), "m"); cut) try {
          (void)cut->encode("hello \u00bd world");
        } catch (const Error&) {
        }
  }
  EXPECT_EQ(models, 4);
}

TEST(TokenizerTiktoken, RanksAsTiktoken) {
  const Json golden = pieces();
  for (const auto& [file, rows] : golden.find("tiktoken")->as_object(pieces_path, "files")) {
    SCOPED_TRACE(file);
    LUMINAL_NEEDS_DATA(path, "tokenizers/" + file);
    const std::string bytes = file_content(path);
    ASSERT_TRUE(is_tiktoken(bytes));
    const auto tokenizer = tokenizer_from_tiktoken(bytes, path);
    ASSERT_TRUE(tokenizer) << tokenizer.error();
    for (const Json& row : rows.as_array(path, "rows")) {
      const auto& c = row.as_array(path, "row");
      const std::string& text = c[0].as_string(path, "text");
      SCOPED_TRACE(detail::in_quotes(text));
      EXPECT_EQ(tokenizer->encode(text, {false, false}), ids_of(c[1]));
      EXPECT_EQ(tokenizer->decode(ids_of(c[1])), text);
      expect_streams(*tokenizer, ids_of(c[1]));
    }
  }
  LUMINAL_NEEDS_DATA(path, "tokenizers/cl100k_base.tiktoken");
  const auto tokenizer = tokenizer_from_tiktoken(file_content(path), path);
  ASSERT_TRUE(tokenizer) << tokenizer.error();
  EXPECT_EQ(tokenizer->description(), "tiktoken (cl100k)");
  EXPECT_EQ(tokenizer->encode("a<|endoftext|>", {false, true}), (std::vector<int32_t>{64, 100257}));
  EXPECT_GT(tokenizer->encode("a<|endoftext|>", {false, false}).size(), 4U);
  EXPECT_EQ(tokenizer->eos(), std::vector<int32_t>{100257});
  EXPECT_EQ(tokenizer->token_kind(100256), TokenKind::unused);
}

/// Rows of tokenizer_tests.json of swift-transformers, which Hugging Face's tokenizers made.
void check_swift(const Tokenizer& tokenizer, const char* name, size_t prefix, size_t suffix) {
  SCOPED_TRACE(name);
  const auto path = test_data("tokenizers/swift-transformers-tokenizer_tests.json");
  ASSERT_TRUE(path);
  const Json golden = detail::parse_json(file_content(*path), *path);
  size_t cases = 0;
  for (const Json& entry : golden.find(name)->as_array(*path, "cases")) {
    const std::string& input = entry.find("input")->as_string(*path, "input");
    SCOPED_TRACE(detail::in_quotes(input));
    auto expected = ids_of(*entry.find("encoded")->find("input_ids"));
    expected.erase(expected.begin(), expected.begin() + static_cast<std::ptrdiff_t>(prefix));
    expected.resize(expected.size() - suffix);
    EXPECT_EQ(tokenizer.encode(input, {false, false}), expected);
    ++cases;
  }
  EXPECT_EQ(cases, 18U);
}

TEST(TokenizerTiktoken, WhisperAsSwiftTransformers) {
  LUMINAL_NEEDS_DATA(english, "tokenizers/whisper-gpt2.tiktoken");
  LUMINAL_NEEDS_DATA(multilingual, "tokenizers/whisper-multilingual.tiktoken");
  const std::vector<std::string> special = {"<|endoftext|>", "<|startoftranscript|>"};
  const auto en = tokenizer_from_tiktoken(file_content(english), english, {}, special);
  const auto multi = tokenizer_from_tiktoken(file_content(multilingual), multilingual, {}, special);
  ASSERT_TRUE(en) << en.error();
  ASSERT_TRUE(multi) << multi.error();
  EXPECT_EQ(en->find("<|startoftranscript|>"), 50257);
  EXPECT_EQ(multi->find("<|startoftranscript|>"), 50258);
  check_swift(*en, "openai/whisper-tiny.en", 2, 1);
  check_swift(*en, "distilgpt2", 0, 0);
  check_swift(*multi, "openai/whisper-large-v2", 2, 1);
}

TEST(TokenizerTiktoken, RefusesByName) {
  const auto error = [](const std::string& bytes) {
    const auto read = tokenizer_from_tiktoken(bytes, "t.tiktoken");
    return read ? std::string("accepted") : read.error();
  };
  EXPECT_EQ(error("IQ== 0\nIg== 1\n"),
            "t.tiktoken: 2 ranks, expected those of an encoding whose pattern is known: 50256 (gpt2), 50257 "
            "(whisper), 100256 (cl100k), 199998 (o200k), 128000 (llama3), 151643 (qwen)");
  EXPECT_EQ(error("IQ== 0\nI?== 1\n"),
            "t.tiktoken: offset 7: the line is \"I?== 1\", expected a token in base64, a space and its rank");
  EXPECT_EQ(error("IQ== 0\nIg== 2\n"), "t.tiktoken: offset 7: rank 2, expected 1: ranks in order");
  EXPECT_FALSE(is_tiktoken("\x0a\x08"));
}

TEST(TokenizerWordPiece, BertAsHuggingFaceAndLlamaCpp) {
  LUMINAL_NEEDS_DATA(path, "tokenizers/bert-base-uncased-vocab.txt");
  const auto tokenizer = tokenizer_from_vocabulary_lines(file_content(path), path);
  ASSERT_TRUE(tokenizer) << tokenizer.error();
  EXPECT_EQ(tokenizer->size(), 30522);
  EXPECT_EQ(tokenizer->description(), "WordPiece");
  check_swift(*tokenizer, "bert-base-uncased", 1, 1);
  check_swift(*tokenizer, "google-bert/bert-base-uncased", 1, 1);
  const auto ids = tokenizer->encode("Hello, unaffable world!");
  EXPECT_EQ(ids.front(), 101);
  EXPECT_EQ(ids.back(), 102);
  EXPECT_EQ(tokenizer->decode(ids), "hello, unaffable world!");
  EXPECT_EQ(tokenizer->decode(ids, true), "[CLS] hello, unaffable world! [SEP]");
  expect_streams(*tokenizer, ids);
  EXPECT_EQ(tokenizer->encode("a [MASK] b", {false, true}), (std::vector<int32_t>{1037, 103, 1038}));
  EXPECT_EQ(tokenizer->encode(std::string(101, 'a'), {false, false}), std::vector<int32_t>{100});
  const auto cased = tokenizer_from_vocabulary_lines(file_content(path), path, R"({"do_lower_case": false})");
  ASSERT_TRUE(cased) << cased.error();
  EXPECT_EQ(cased->encode("A", {false, false}), std::vector<int32_t>{100});
}

/// The texts of llama.cpp's tests of a vocabulary, and their ids.
void check_vectors(const Tokenizer& tokenizer, const std::string& path) {
  const std::string separator = "\n__ggml_vocab_test__\n", text = file_content(path + ".inp");
  std::istringstream lines(file_content(path + ".out"));
  size_t begin = 0, count = 0;
  for (std::string line; std::getline(lines, line); ++count) {
    const size_t end = text.find(separator, begin);
    const std::string input = text.substr(begin, end == std::string::npos ? end : end - begin);
    begin = end == std::string::npos ? text.size() : end + separator.size();
    SCOPED_TRACE(detail::in_quotes(input));
    std::istringstream numbers(line);
    std::vector<int32_t> ids;
    for (int32_t id = 0; numbers >> id;) ids.push_back(id);
    EXPECT_EQ(tokenizer.encode(input, {false, false}), ids);
  }
  EXPECT_GE(count, 46U);
}

TEST(TokenizerGguf, BertVectorsOfLlamaCpp) {
  LUMINAL_NEEDS_DATA(path, "tokenizers/ggml-vocab-bert-bge.gguf");
  const auto gguf = open_gguf(path);
  ASSERT_TRUE(gguf) << gguf.error();
  const auto tokenizer = tokenizer_from_gguf(*gguf);
  ASSERT_TRUE(tokenizer) << tokenizer.error();
  EXPECT_EQ(tokenizer->description(), "bert");
  check_vectors(*tokenizer, path);
  const auto ids = tokenizer->encode("Hello world");
  EXPECT_EQ(ids, (std::vector<int32_t>{101, 7592, 2088, 102}));
  EXPECT_EQ(tokenizer->decode(ids), "hello world");
}

TEST(TokenizerGguf, UnigramAsSentencePiece) {
  const Json golden = pieces();
  const Json& entry = golden.find("sentencepiece")->as_array(pieces_path, "models")[0];
  std::string bytes;
  ASSERT_TRUE(detail::base64_decode(entry.find("model")->as_string(pieces_path, "model"), bytes));
  const auto model = tokenizer_from_sentencepiece(bytes, "m", R"({"add_bos_token": false})");
  ASSERT_TRUE(model) << model.error();
  // The same pieces as GGUF holds them, but without a table of characters.
  std::vector<std::string> texts;
  std::vector<double> scores;
  std::vector<int64_t> types;
  for (int32_t id = 0; id < model->size(); ++id) {
    texts.push_back(model->token_text(id));
    scores.push_back(-1.0 - id * 0.01);
    types.push_back(id == 0 ? 2 : id < 3 ? 3 : 1);
  }
  const auto gguf_of = [&](std::vector<std::pair<std::string, GgufValue>> more) {
    std::vector<std::pair<std::string, GgufValue>> metadata = {
        {"tokenizer.ggml.model", GgufValue::of_string("t5")},
        {"tokenizer.ggml.tokens", GgufValue::of_strings(texts)},
        {"tokenizer.ggml.scores", GgufValue::of_f32s(scores)},
        {"tokenizer.ggml.token_type", GgufValue::of_i32s(types)},
        {"tokenizer.ggml.unknown_token_id", GgufValue::of_u32(0)},
        {"tokenizer.ggml.eos_token_id", GgufValue::of_u32(2)}};
    metadata.insert(metadata.end(), more.begin(), more.end());
    const auto file = serialize_gguf(metadata, {});
    const auto parsed = parse_gguf(detail::as_bytes(*file), "f.gguf");
    return tokenizer_from_gguf(*parsed);
  };
  const auto tokenizer = gguf_of({{"tokenizer.ggml.remove_extra_whitespaces", GgufValue::of_bool(true)}});
  ASSERT_TRUE(tokenizer) << tokenizer.error();
  EXPECT_EQ(tokenizer->description(), "t5");
  const auto ids = tokenizer->encode("  the   cat ");
  EXPECT_EQ(ids.back(), 2) << "the end token is added";
  EXPECT_EQ(tokenizer->decode(ids), "the cat");
  const auto cut = gguf_of({{"tokenizer.ggml.precompiled_charsmap", GgufValue::of_i32s({1, 2, 3})}});
  ASSERT_FALSE(cut);
  EXPECT_EQ(cut.error(), "f.gguf: a table of characters of 3 bytes whose index has 0: truncated?");
}

TEST(TokenizerVocabulary, Gpt2AndQwen2AsLlamaCpp) {
  LUMINAL_NEEDS_DATA(gpt2, "tokenizers/gpt2-encoder.json");
  LUMINAL_NEEDS_DATA(gpt2_merges, "tokenizers/gpt2-vocab.bpe");
  LUMINAL_NEEDS_DATA(qwen2, "tokenizers/qwen2-vocab.json");
  LUMINAL_NEEDS_DATA(qwen2_merges, "tokenizers/qwen2-merges.txt");
  LUMINAL_NEEDS_DATA(qwen2_config, "tokenizers/qwen2-tokenizer_config.json");
  const auto a = tokenizer_from_vocabulary(file_content(gpt2), file_content(gpt2_merges), gpt2);
  ASSERT_TRUE(a) << a.error();
  check_swift(*a, "distilgpt2", 0, 0);
  EXPECT_EQ(a->encode("x<|endoftext|>", {false, true}), (std::vector<int32_t>{87, 50256}));
  const auto b = tokenizer_from_vocabulary(file_content(qwen2), file_content(qwen2_merges), qwen2,
                                           file_content(qwen2_config));
  ASSERT_TRUE(b) << b.error();
  EXPECT_EQ(b->encode("<|im_start|>", {false, true}), std::vector<int32_t>{151644});
  LUMINAL_NEEDS_DATA(inputs, "tokenizers/ggml-vocab-qwen2.gguf.inp");
  check_vectors(*b, inputs.substr(0, inputs.size() - 4));
}

TEST(TokenizerVocabulary, TheSameAsTheTokenizerJsonBesideIt) {
  LUMINAL_NEEDS_DATA(json, "tokenizers/torchtune-tiny_bpe_tokenizer.json");
  LUMINAL_NEEDS_DATA(vocabulary, "tokenizers/torchtune-tiny_bpe_vocab.json");
  LUMINAL_NEEDS_DATA(merges, "tokenizers/torchtune-tiny_bpe_merges.txt");
  const auto whole = tokenizer_from_json(file_content(json), json);
  ASSERT_TRUE(whole) << whole.error();
  const auto parts = tokenizer_from_vocabulary(file_content(vocabulary), file_content(merges), vocabulary);
  ASSERT_TRUE(parts) << parts.error();
  for (const char* text : {"Hello world, this is a test.", "the quick brown fox", "a  b"})
    EXPECT_EQ(parts->encode(text, {false, false}), whole->encode(text, {false, false})) << text;
}

TEST(TokenizerFiles, AFolderHasAnyOfThem) {
  const TemporaryFolder folder;
  put_file(folder.file("config.json"), R"({"model_type":"bert"})");
  const std::string data(16, '\0');
  put_file(folder.file("vocab.json"), R"({"a":0,"b":1,"ab":2})");
  put_file(folder.file("merges.txt"), "#version: 0.2\na b\n");
  const TensorView tensor{"w", StorageType::f32, {4}, detail::as_bytes(data)};
  ASSERT_TRUE(save_safetensors(folder.file("model.safetensors"), std::vector<TensorView>{tensor}, {}));
  const auto bpe = open_model(folder.path());
  ASSERT_TRUE(bpe) << bpe.error();
  ASSERT_TRUE(bpe->tokenizer) << bpe->tokenizer_error;
  EXPECT_EQ(bpe->tokenizer->encode("abb"), (std::vector<int32_t>{2, 1}));
  std::filesystem::remove(folder.file("merges.txt"));
  put_file(folder.file("vocab.txt"), "[UNK]\n[CLS]\n[SEP]\na\n##b\n");
  const auto words = open_model(folder.path());
  ASSERT_TRUE(words) << words.error();
  ASSERT_TRUE(words->tokenizer) << words->tokenizer_error;
  EXPECT_EQ(words->tokenizer->encode("ab c"), (std::vector<int32_t>{1, 3, 4, 0, 2}));
}

TEST(TokenizerFiles, RefuseByName) {
  const auto lines = tokenizer_from_vocabulary_lines("a\nb\n", "d/vocab.txt");
  ASSERT_FALSE(lines);
  EXPECT_EQ(lines.error(),
            "d/vocab.txt: no [UNK], [CLS] and [SEP] among the lines, expected the vocab.txt of a "
            "BERT model");
  const auto bytes = tokenizer_from_vocabulary_lines("a\n\xFF\n", "d/vocab.txt");
  ASSERT_FALSE(bytes);
  EXPECT_EQ(bytes.error(), "d/vocab.txt: offset 2: not UTF-8");
  const auto named =
      tokenizer_from_vocabulary_lines("[UNK]\n[CLS]\n[SEP]\n", "d/vocab.txt", R"({"unk_token":{}})");
  ASSERT_FALSE(named);
  EXPECT_THAT(named.error(), HasSubstr("\"unk_token\" has no \"content\""));
  const auto kind =
      tokenizer_from_vocabulary("{\"a\":0}", "", "d/vocab.json", R"({"tokenizer_class":"XTokenizer"})");
  ASSERT_FALSE(kind);
  EXPECT_EQ(kind.error(),
            "d/vocab.json: tokenizer class \"XTokenizer\", whose pattern is not known; without a "
            "tokenizer.json one of GPT2Tokenizer, WhisperTokenizer, RobertaTokenizer, BartTokenizer, "
            "Qwen2Tokenizer is read");
  const auto merges = tokenizer_from_vocabulary("{\"a\":0}", "a b\n", "d/vocab.json");
  ASSERT_FALSE(merges);
  EXPECT_THAT(merges.error(), HasSubstr("merge 0 of \"a\" and \"b\": \"b\" is not in the vocabulary"));
  const auto added =
      tokenizer_from_vocabulary("{\"a\":0}", "", "d/vocab.json", R"({"added_tokens_decoder":{"1":{}}})");
  ASSERT_FALSE(added);
  EXPECT_THAT(added.error(),
              HasSubstr("d/tokenizer_config.json: offset 30: an added token has no \"content\""));
}

/// Texts of words, spaces, digits, punctuation and characters of every length.
std::string random_text(std::mt19937& random) {
  static const char* const parts[] = {"the",    " ",     "  ",     "\n",     "\t",           "don't",
                                      "12345",  "...",   "\u00e9", "\u00df", "\u4f60\u597d", "\U0001F999",
                                      "\u200d", "HELLO", "x=y;",   "\r\n",   "a\u0301",      "\u0e2a\u0e27",
                                      "_",      "'s",    " world", "\u2581", "<s>"};
  std::string out;
  for (size_t n = random() % 30; n > 0; --n) {
    if (random() % 5 != 0)
      out += parts[random() % std::size(parts)];
    else if (const auto c = static_cast<char32_t>(1 + random() % 0x10FFFF); c < 0xD800 || c > 0xDFFF)
      detail::append_utf8(out, c);
  }
  return out;
}

TEST(TokenizerFiles, DecodingGivesTheTextBack) {
  std::vector<std::pair<std::string, Tokenizer>> tokenizers;
  const auto add = [&](const char* name, auto read) {
    if (const auto path = test_data(std::string("tokenizers/") + name)) {
      auto tokenizer = read(file_content(*path), *path);
      ASSERT_TRUE(tokenizer) << tokenizer.error();
      tokenizers.emplace_back(name, *tokenizer);
    }
  };
  const auto ranks = [](const std::string& b, const std::string& p) { return tokenizer_from_tiktoken(b, p); };
  const auto json = [](const std::string& b, const std::string& p) { return tokenizer_from_json(b, p); };
  add("cl100k_base.tiktoken", ranks);
  add("whisper-gpt2.tiktoken", ranks);
  add("whisper-tiny.tokenizer.json", json);
  add("phi-3-mini.tokenizer.json", json);
  add("mistral-v1.tokenizer.model",
      [](const std::string& b, const std::string& p) { return tokenizer_from_sentencepiece(b, p); });
  if (tokenizers.empty()) GTEST_SKIP() << "../shared/data is not there";
  std::mt19937 random(29);
  for (const auto& [name, tokenizer] : tokenizers)
    for (int round = 0; round < 400; ++round) {
      const std::string text = random_text(random);
      SCOPED_TRACE(name + ": " + detail::in_quotes(text, 300));
      const auto ids = tokenizer.encode(text, {false, false});
      // A mark that stands in the text is a space to every SentencePiece model.
      std::string expected = text;
      if (name.starts_with("phi") || name.starts_with("mistral"))
        for (size_t at = 0; (at = expected.find("\u2581", at)) != std::string::npos;)
          expected.replace(at, 3, " ");
      ASSERT_EQ(tokenizer.decode(ids), expected);
      expect_streams(tokenizer, ids);
      // Words that were seen before give what they gave before.
      ASSERT_EQ(tokenizer.encode(text + "\n" + text, {false, false}).size() > ids.size() || text.empty(),
                true);
    }
}

TEST(TokenizerFiles, CutsAtMarksChangeNothing) {
  LUMINAL_NEEDS_DATA(path, "tokenizers/ggml-vocab-phi-3.gguf");
  const auto gguf = open_gguf(path);
  ASSERT_TRUE(gguf) << gguf.error();
  const auto tokenizer = tokenizer_from_gguf(*gguf);
  ASSERT_TRUE(tokenizer) << tokenizer.error();
  // The same vocabulary with one more token across a mark: texts are one piece then.
  auto texts = *gguf->strings("tokenizer.ggml.tokens").value();
  auto scores = gguf->reals("tokenizer.ggml.scores").value().value();
  auto types = gguf->integers("tokenizer.ggml.token_type").value().value();
  texts.push_back("\uFFF0\u2581\uFFF0"), scores.push_back(-1e6), types.push_back(1);
  const auto file = serialize_gguf(
      std::vector<std::pair<std::string, GgufValue>>{
          {"tokenizer.ggml.model", GgufValue::of_string("llama")},
          {"tokenizer.ggml.tokens", GgufValue::of_strings(texts)},
          {"tokenizer.ggml.scores", GgufValue::of_f32s(scores)},
          {"tokenizer.ggml.token_type", GgufValue::of_i32s(types)}},
      {});
  ASSERT_TRUE(file) << file.error();
  const auto whole_gguf = parse_gguf(detail::as_bytes(*file), "w");
  ASSERT_TRUE(whole_gguf) << whole_gguf.error();
  const auto whole = tokenizer_from_gguf(*whole_gguf);
  ASSERT_TRUE(whole) << whole.error();
  std::mt19937 random(31);
  for (int round = 0; round < 500; ++round) {
    const std::string text = random_text(random);
    SCOPED_TRACE(detail::in_quotes(text, 300));
    ASSERT_EQ(tokenizer->encode(text, {false, false}), whole->encode(text, {false, false}));
  }
}

} // namespace
} // namespace luminal
