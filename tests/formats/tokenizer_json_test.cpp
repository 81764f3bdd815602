// formats/tokenizer_json_test.cpp -- tokenizer.json against Hugging Face tokenizers; refusals by
// name.
#include "formats/gguf.h"
#include "formats/json.h"
#include "formats/tokenizer.h"
#include "formats/util.h"
#include <gmock/gmock.h>

namespace luminal::tokenizer_json_test {
namespace {

using namespace luminal::testing_formats;
using detail::Json;
using ::testing::HasSubstr;

std::vector<int32_t> ids_of(const Json& json) {
  std::vector<int32_t> out;
  for (const Json& id : json.as_array("golden", "ids"))
    out.push_back(static_cast<int32_t>(id.as_int("golden", "id")));
  return out;
}

/// A stream that must give, piece by piece, whole characters that join to the decoded text.
void expect_streams(const Tokenizer& tokenizer, const std::vector<int32_t>& ids, bool show_special) {
  StreamDecoder stream(tokenizer, show_special);
  std::string joined;
  for (const int32_t id : ids) {
    const std::string piece = stream.push(id);
    EXPECT_FALSE(detail::find_invalid_utf8(piece)) << id;
    joined += piece;
  }
  joined += stream.finish();
  EXPECT_EQ(joined, tokenizer.decode(ids, show_special));
}

TEST(TokenizerJson, EveryConstructAsTheReference) {
  const std::string path = LUMINAL_SOURCE_DIR "/tests/formats/golden/tokenizers.json";
  const std::string text = file_content(path);
  const Json golden = detail::parse_json(text, path);
  int tokenizers = 0;
  for (const Json& entry : golden.as_array(path, "golden")) {
    const std::string& name = entry.find("name")->as_string(path, "name");
    SCOPED_TRACE(name);
    ++tokenizers;
    const auto tokenizer =
        tokenizer_from_json(entry.find("tokenizer")->as_string(path, "tokenizer"), "tokenizer.json");
    ASSERT_TRUE(tokenizer) << tokenizer.error();
    for (const Json& row : entry.find("cases")->as_array(path, "cases")) {
      const auto& c = row.as_array(path, "case");
      const std::string& input = c[0].as_string(path, "text");
      SCOPED_TRACE(detail::in_quotes(input));
      EncodeOptions options;
      options.parse_special = true;
      const auto ids = ids_of(c[1]);
      EXPECT_EQ(tokenizer->encode(input, options), ids);
      options.add_special = false;
      EXPECT_EQ(tokenizer->encode(input, options), ids_of(c[2]));
      // The end of a word is a space, as the class CLIPTokenizer of transformers has it.
      const auto decoded = [&](size_t i) {
        std::string out = c[i].as_string(path, "decoded");
        if (name == "clip")
          for (size_t at = 0; (at = out.find("</w>")) != std::string::npos;) out.replace(at, 4, " ");
        return out;
      };
      EXPECT_EQ(tokenizer->decode(ids), decoded(3));
      EXPECT_EQ(tokenizer->decode(ids, true), decoded(4));
      expect_streams(*tokenizer, ids, false);
      expect_streams(*tokenizer, ids, true);
    }
  }
  EXPECT_EQ(tokenizers, 19);
}

/// Ids of the strings of ggml-vocab-*.gguf.inp.
struct Vectors {
  std::vector<std::string> texts;
  std::vector<std::vector<int32_t>> ids;
};

std::optional<Vectors> ggml_vectors(const std::string& name) {
  const auto inputs = test_data("tokenizers/" + name + ".inp"),
             outputs = test_data("tokenizers/" + name + ".out");
  if (!inputs || !outputs) return std::nullopt;
  Vectors out;
  const std::string text = file_content(*inputs);
  const std::string separator = "\n__ggml_vocab_test__\n";
  size_t begin = 0;
  for (size_t at = text.find(separator); at != std::string::npos; at = text.find(separator, begin)) {
    out.texts.push_back(text.substr(begin, at - begin));
    begin = at + separator.size();
  }
  std::istringstream lines(file_content(*outputs));
  for (std::string line; std::getline(lines, line);) {
    std::istringstream numbers(line);
    out.ids.emplace_back();
    for (int32_t id = 0; numbers >> id;) out.ids.back().push_back(id);
  }
  if (out.ids.size() > out.texts.size()) out.texts.push_back(text.substr(begin));
  EXPECT_EQ(out.texts.size(), out.ids.size());
  EXPECT_GE(out.texts.size(), 40U);
  return out;
}

TEST(TokenizerJson, Phi3AsLlamaCpp) {
  LUMINAL_NEEDS_DATA(path, "tokenizers/phi-3-mini.tokenizer.json");
  const auto vectors = ggml_vectors("ggml-vocab-phi-3.gguf");
  ASSERT_TRUE(vectors);
  const auto tokenizer = tokenizer_from_json(file_content(path), path);
  ASSERT_TRUE(tokenizer) << tokenizer.error();
  EXPECT_EQ(tokenizer->size(), 32011);
  for (size_t i = 0; i < vectors->texts.size(); ++i) {
    SCOPED_TRACE(detail::in_quotes(vectors->texts[i]));
    EXPECT_EQ(tokenizer->encode(vectors->texts[i], {false, false}), vectors->ids[i]);
    EXPECT_EQ(tokenizer->decode(vectors->ids[i]), vectors->texts[i]);
  }
}

/// Rows of a tokenizer in special_tokens.json: text, ids, what they decode to.
void check_golden(const Tokenizer& tokenizer, const char* name, bool decode) {
  const std::string path = LUMINAL_SOURCE_DIR "/tests/formats/golden/special_tokens.json";
  const std::string text = file_content(path);
  const Json golden = detail::parse_json(text, path);
  const auto& rows = golden.find(name)->as_array(path, "rows");
  EXPECT_GE(rows.size(), 7U);
  for (const Json& entry : rows) {
    const auto& row = entry.as_array(path, "row");
    const std::string& prompt = row[0].as_string(path, "text");
    SCOPED_TRACE(detail::in_quotes(prompt));
    EXPECT_EQ(tokenizer.encode(prompt, {.add_special = false, .parse_special = true}), ids_of(row[1]));
    if (decode) {
      EXPECT_EQ(tokenizer.decode(ids_of(row[1])), row[2].as_string(path, "decoded"));
    }
  }
}

TEST(TokenizerJson, SpecialTokensInPromptsAsHuggingFace) {
  for (const char* name : {"phi-3-mini.tokenizer.json", "whisper-tiny.tokenizer.json"}) {
    SCOPED_TRACE(name);
    LUMINAL_NEEDS_DATA(path, std::string("tokenizers/") + name);
    const auto tokenizer = tokenizer_from_json(file_content(path), path);
    ASSERT_TRUE(tokenizer) << tokenizer.error();
    check_golden(*tokenizer, name, true);
  }
}

TEST(TokenizerGguf, SpecialTokensInPromptsAsHuggingFace) {
  LUMINAL_NEEDS_DATA(path, "tokenizers/ggml-vocab-phi-3.gguf");
  const auto gguf = open_gguf(path);
  ASSERT_TRUE(gguf) << gguf.error();
  const auto tokenizer = tokenizer_from_gguf(*gguf);
  ASSERT_TRUE(tokenizer) << tokenizer.error();
  check_golden(*tokenizer, "phi-3-mini.tokenizer.json", false);
}

TEST(TokenizerSentencePiece, MistralAsSentencePiece) {
  LUMINAL_NEEDS_DATA(path, "tokenizers/mistral-v1.tokenizer.model");
  const std::string bytes = file_content(path);
  const auto tokenizer = tokenizer_from_sentencepiece(bytes, path);
  ASSERT_TRUE(tokenizer) << tokenizer.error();
  EXPECT_EQ(tokenizer->size(), 32000);
  EXPECT_EQ(tokenizer->bos(), 1);
  EXPECT_TRUE(tokenizer->is_eos(2));
  EXPECT_EQ(tokenizer->description(), "SentencePiece BPE");
  check_golden(*tokenizer, "mistral-v1.tokenizer.model", true);
  EXPECT_EQ(tokenizer->encode("<s>[INST] Hi [/INST]", {.add_special = false, .parse_special = true})[0], 1);
  // Tokens and switches of the configuration beside it.
  const auto more =
      tokenizer_from_sentencepiece(bytes, path,
                                   R"({"add_bos_token": false, "add_eos_token": true, "added_tokens_decoder":
          {"1": {"content": "<s>", "special": true},
           "32001": {"content": "<|im_end|>", "special": true, "lstrip": false, "rstrip": true},
           "32000": {"content": "<|im_start|>", "special": true}}})");
  ASSERT_TRUE(more) << more.error();
  EXPECT_EQ(more->size(), 32002);
  const auto ids =
      more->encode("<|im_start|>user\nHi<|im_end|>\n", {.add_special = true, .parse_special = true});
  EXPECT_EQ(ids.front(), 32000);
  ASSERT_GE(ids.size(), 3U);
  EXPECT_EQ(ids[ids.size() - 2], 32001);
  EXPECT_EQ(ids.back(), 2);
  EXPECT_EQ(more->decode(ids), "user\nHi");
  // Cut anywhere, it is refused or it is a smaller vocabulary; never a crash.
  for (size_t size = 0; size < bytes.size(); size += 997)
    if (const auto cut = tokenizer_from_sentencepiece(bytes.substr(0, size), path); !cut) {
      EXPECT_THAT(cut.error(), HasSubstr(path));
    }
}

TEST(TokenizerSentencePiece, RefusesByName) {
  const auto error = [](std::string_view bytes, std::string_view config = {}) {
    const auto read = tokenizer_from_sentencepiece(bytes, "tokenizer.model", config);
    return read ? std::string("accepted") : read.error();
  };
  const std::string piece("\x0a\x08\x0a\x01"
                          "a\x15\0\0\x80\x3f",
                          10),
      bpe("\x12\x02\x18\x02", 4), normalizer("\x1a\x02\x20\0", 4);
  EXPECT_EQ(error(piece + bpe + normalizer), "accepted");
  EXPECT_THAT(error(""), HasSubstr("tokenizer.model: no pieces"));
  EXPECT_THAT(error(piece + std::string("\x12\x02\x18\x03", 4)),
              HasSubstr("a SentencePiece model of kind word, expected unigram or BPE"));
  EXPECT_THAT(error(piece + bpe + std::string("\x1a\x05\x12\x03xyz", 7)),
              HasSubstr("a table of characters of 3 bytes whose index has 0: truncated?"));
  EXPECT_THAT(error(piece + bpe + std::string("\x1a\x04\x20\0\x28\0", 6)),
              HasSubstr("offset 18: spaces that stay spaces (escape_whitespaces) are not supported"));
  EXPECT_THAT(error(std::string("\x12\x03\xc0\x01\x01", 5)),
              HasSubstr("offset 2: spaces behind words (treat_whitespace_as_suffix) are not supported"));
  EXPECT_THAT(error(std::string("\x0a\x02\x18\x09", 4)),
              HasSubstr("offset 2: piece 0 has type 9, expected 1 to 6"));
  EXPECT_THAT(error(std::string("\x0a\x05\x15\0\0\xc0\x7f", 7)),
              HasSubstr("offset 2: a piece's score is NaN"));
  EXPECT_THAT(error("\x0a\x7f"
                    "ab"),
              HasSubstr("offset 2: a field of 127 bytes, 2 are left: truncated?"));
  EXPECT_THAT(error("\x0b"), HasSubstr("offset 0: wire type 3, expected a protocol buffer"));
  EXPECT_THAT(error(std::string("\x02\x00", 2)),
              HasSubstr("offset 0: a field with the number 0, expected a protocol buffer"));
  EXPECT_THAT(error(std::string(11, '\xff')), HasSubstr("offset 10: a number of more than 64 bits"));
  EXPECT_THAT(error(piece + bpe + normalizer, R"({"added_tokens_decoder": {"5": {"content": "x"}}})"),
              HasSubstr("accepted"));
  EXPECT_THAT(error(piece + bpe + normalizer, R"({"added_tokens_decoder": {"0": {"content": "x"}}})"),
              HasSubstr("offset 32: added token \"x\" has the id 0 of \"a\""));
  EXPECT_THAT(error(piece + bpe + normalizer, R"({"added_tokens_decoder": {"70000": {"content": "x"}}})"),
              HasSubstr("added token \"x\" has the id 70000, expected about 1"));
  EXPECT_THAT(error(piece + bpe + normalizer, R"({"added_tokens_decoder": {"1": {"content": ""}}})"),
              HasSubstr("an added token is empty"));
  EXPECT_THAT(error(piece + bpe + normalizer, R"({"added_tokens_decoder": {"1": {}}})"),
              HasSubstr("offset 32: an added token has no \"content\""));
}

TEST(TokenizerJson, Llama2AndWhisperAsSwiftTransformers) {
  LUMINAL_NEEDS_DATA(vectors, "tokenizers/swift-transformers-tokenizer_tests.json");
  LUMINAL_NEEDS_DATA(
      llama, "tokenizers/phi-3-mini.tokenizer.json"); // the vocabulary of Llama 2 with more added tokens
  LUMINAL_NEEDS_DATA(whisper, "tokenizers/whisper-tiny.tokenizer.json");
  const std::string text = file_content(vectors);
  const Json golden = detail::parse_json(text, vectors);
  const auto check = [&](const char* name, const std::string& path, const char* config,
                         std::vector<int32_t> prefix, size_t suffix) {
    SCOPED_TRACE(name);
    const auto tokenizer = tokenizer_from_json(file_content(path), path, config);
    ASSERT_TRUE(tokenizer) << tokenizer.error();
    int cases = 0;
    for (const Json& entry : golden.find(name)->as_array(vectors, "cases")) {
      ++cases;
      const std::string& input = entry.find("input")->as_string(vectors, "input");
      SCOPED_TRACE(detail::in_quotes(input));
      auto expected = ids_of(*entry.find("encoded")->find("input_ids"));
      expected.erase(expected.begin(), expected.begin() + static_cast<std::ptrdiff_t>(prefix.size()));
      expected.resize(expected.size() - suffix);
      EXPECT_EQ(tokenizer->encode(input, {false, false}), expected);
    }
    EXPECT_EQ(cases, 18);
  };
  check("coreml-projects/Llama-2-7b-chat-coreml", llama, "", {1}, 0);
  check("openai/whisper-large-v2", whisper, "", {50258, 50363}, 1);
}

TEST(TokenizerJson, ReadsTheConfigurationBesideIt) {
  const char* const text =
      R"({"model":{"type":"BPE","unk_token":"<unk>","vocab":{"<unk>":0,"<s>":1,"</s>":2,"a":3,"b":4,"ab":5},"merges":[["a","b"]]},
          "added_tokens":[{"id":1,"content":"<s>","special":true},{"id":2,"content":"</s>","special":true},{"id":7,"content":"<pad>","special":true}],
          "decoder":{"type":"Fuse"}})";
  const auto plain = tokenizer_from_json(text, "d/tokenizer.json");
  ASSERT_TRUE(plain) << plain.error();
  EXPECT_EQ(plain->size(), 8);
  EXPECT_EQ(plain->token_kind(6), TokenKind::unused);
  EXPECT_EQ(plain->encode("abba"), (std::vector<int32_t>{5, 4, 3}));
  EXPECT_FALSE(plain->adds_bos());
  EXPECT_EQ(plain->unknown(), 0);
  const auto configured = tokenizer_from_json(
      text, "d/tokenizer.json",
      R"({"tokenizer_class":"LlamaTokenizerFast","bos_token":{"content":"<s>"},"eos_token":"</s>","pad_token":"<pad>","add_bos_token":true,"add_eos_token":true})");
  ASSERT_TRUE(configured) << configured.error();
  EXPECT_EQ(configured->bos(), 1);
  EXPECT_EQ(configured->eos(), std::vector<int32_t>{2});
  EXPECT_EQ(configured->pad(), 7);
  EXPECT_TRUE(configured->adds_bos());
  EXPECT_TRUE(configured->adds_eos());
  EXPECT_EQ(configured->encode("ab"), (std::vector<int32_t>{1, 5, 2}));
  EXPECT_EQ(configured->encode("ab", {false, false}), std::vector<int32_t>{5});
  EXPECT_EQ(configured->encode("<s>", {false, true}), std::vector<int32_t>{1});
  EXPECT_THAT(configured->encode("<s>", {false, false}), ::testing::Each(0))
      << "what a user types is not a control token";
  const auto more = configured->with_eos(std::vector<int32_t>{2, 5, 100});
  EXPECT_EQ(more.eos(), (std::vector<int32_t>{2, 5}));
  EXPECT_TRUE(more.is_eos(5));
  EXPECT_FALSE(configured->is_eos(5));
  const auto bad = tokenizer_from_json(text, "d/tokenizer.json", "{\"bos_token\":3}");
  ASSERT_FALSE(bad);
  EXPECT_THAT(bad.error(), HasSubstr("d/tokenizer_config.json: offset"));
}

TEST(TokenizerJson, MistakesOfTheCallerAreErrors) {
  const auto t =
      tokenizer_from_json(R"({"model":{"vocab":{"a":0},"merges":[]},"decoder":{"type":"Fuse"}})", "t");
  ASSERT_TRUE(t) << t.error();
  EXPECT_THROW((void)t->encode("a\xFF"), Error);
  EXPECT_THROW((void)t->encode("b"), Error);
  EXPECT_THROW((void)t->decode(std::vector<int32_t>{1}), Error);
  EXPECT_THROW((void)t->decode(std::vector<int32_t>{-1}), Error);
  EXPECT_THROW((void)t->token_text(7), Error);
  EXPECT_EQ(t->find("zzz"), std::nullopt);
  try {
    (void)t->encode("aa\xC3(");
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "[tokenizer] the text is not UTF-8 at byte 2");
  }
}

std::string with(const char* member, const char* value) {
  return fmt::format(
      R"({{"model":{{"type":"BPE","vocab":{{"a":0,"b":1,"ab":2}},"merges":["a b"]}},"decoder":{{"type":"Fuse"}},"{}":{}}})",
      member, value);
}

TEST(TokenizerJson, RefusesByName) {
  const std::string deep = [] {
    std::string s = R"({"type":"NFC"})";
    for (int i = 0; i < 12; ++i) s = R"({"type":"Sequence","normalizers":[)" + s + "]}";
    return s;
  }();
  const std::pair<std::string, const char*> bad[] = {
      {"", "not JSON"},
      {"[]", "offset 1: the tokenizer is an array, expected an object"},
      {"{}", "offset 1: no \"model\", expected a tokenizer.json"},
      {R"({"model":{"type":"Odd","vocab":{}}})", "offset 10: tokenizer model \"Odd\", expected \"BPE\", "
                                                 "\"Unigram\", \"WordPiece\" or \"WordLevel\""},
      {R"({"model":{"type":"Unigram","vocab":[]}})", "the vocabulary is empty"},
      {R"({"model":{"type":"Unigram","vocab":[["a"]]}})", "piece 0 has 1 parts, expected a text and a score"},
      {R"({"model":{"vocab":[["a",1]],"unk_id":1}})", "\"unk_id\" is 1, expected less than 1"},
      {R"({"model":{"type":"WordPiece","vocab":{"a":0},"max_input_chars_per_word":0}})",
       "\"max_input_chars_per_word\" is 0, expected 1 to 100000"},
      {R"({"model":{"vocab":{}}})", "offset 19: the vocabulary is empty"},
      {R"({"model":{"vocab":{"a":-1}}})", "offset 26: the id of token \"a\" is -1, expected 0 to 16777215"},
      {R"({"model":{"vocab":{"a":99999999999}}})",
       "offset 35: the id of token \"a\" is 99999999999, expected 0 to 16777215"},
      {R"({"model":{"vocab":{"a":16777215}}})", "offset 19: token ids up to 16777215 for 1 tokens"},
      {R"({"model":{"vocab":{"a":0,"b":0}}})", "offset 19: tokens \"a\" and \"b\" have the same id 0"},
      {R"({"model":{"vocab":{"a":0,"a":1}}})", "key \"a\" stands twice"},
      {R"({"model":{"vocab":{"a":"0"}}})", "is a string, expected an integer"},
      {R"({"model":{"vocab":{"a":0}}})", "offset 10: the model has no \"merges\""},
      {R"({"model":{"vocab":{"a":0},"merges":["a"]}})",
       "offset 39: merge 0 is \"a\", expected two tokens with a space between"},
      {R"({"model":{"vocab":{"a":0},"merges":["a a a"]}})", "expected two tokens"},
      {R"({"model":{"vocab":{"a":0},"merges":[["a"]]}})", "offset 37: merge 0 has 1 parts, expected 2"},
      {R"({"model":{"vocab":{"a":0},"merges":["a b"]}})",
       "offset 41: merge 0 of \"a\" and \"b\": \"b\" is not in the vocabulary"},
      {R"({"model":{"vocab":{"a":0},"merges":["a a"]}})",
       "offset 41: merge 0 of \"a\" and \"a\": \"aa\" is not in the vocabulary"},
      {R"({"model":{"vocab":{"a":0},"merges":[7]}})", "offset 38: a merge is an integer, expected a string"},
      {R"({"model":{"vocab":{"a":0},"merges":[],"dropout":0.1}})",
       "offset 52: \"dropout\" makes the tokens random, expected none"},
      {R"({"model":{"vocab":{"a":0},"merges":[],"continuing_subword_prefix":"##"}})",
       "offset 70: \"continuing_subword_prefix\" \"##\" is not supported"},
      {R"({"model":{"vocab":{"a":0},"merges":[],"unk_token":"?"}})",
       "offset 53: \"unk_token\" \"?\" is not in the vocabulary"},
      {R"({"model":{"vocab":{"a":0},"merges":[],"mystery":1}})",
       "offset 50: member \"mystery\" of the model is not known"},
      {R"({"model":{"vocab":{"a":0},"merges":[]}})",
       "no \"decoder\", which joins tokens with spaces; not supported"},
      {with("mystery", "1"), "offset 108: member \"mystery\" is not known"},
      {with("added_tokens", R"([{"id":1}])"), "offset 113: an added token has no \"content\" or no \"id\""},
      {with("added_tokens", R"([{"id":3,"content":""}])"), "offset 113: an added token is empty"},
      {with("added_tokens", R"([{"id":1,"content":"x"}])"), "added token \"x\" has the id 1 of token \"b\""},
      {with("added_tokens", R"([{"id":3,"content":"x","special":"yes"}])"),
       "offset 149: \"special\" is a string, expected a boolean"},
      {with("normalizer", R"({"type":"Precompiled","precompiled_charsmap":"AA"})"),
       "a table of characters of 1 bytes whose index has 0: truncated?"},
      {with("normalizer", R"({"type":"Precompiled","precompiled_charsmap":"?"})"),
       "offset 110: normalizer \"Precompiled\" without a \"precompiled_charsmap\" in base64"},
      {with("normalizer", R"({"type":"Odd"})"), "offset 110: normalizer \"Odd\" is not supported"},
      {with("normalizer", R"({"type":"NFC","x":1})"),
       "offset 129: normalizer \"NFC\" has the member \"x\", which is not known"},
      {with("normalizer", R"({"prepend":"x"})"), "offset 110: normalizer has no \"type\""},
      {with("normalizer", R"({"type":"Prepend"})"), "offset 110: no \"prepend\""},
      {with("normalizer", R"({"type":"Replace","pattern":{"Regex":"("},"content":""})"),
       "the pattern \"(\" is not a regular expression: missing closing parenthesis at its byte 1"},
      {with("normalizer", R"({"type":"Replace","pattern":{"Regex":"\\C"},"content":""})"),
       "the pattern \"\\\\C\" is not a regular expression: using \\C is disabled by the application at its "
       "byte 2"},
      {with("normalizer", R"({"type":"Replace","pattern":{"String":""},"content":""})"),
       "offset 149: the pattern of normalizer \"Replace\" is empty"},
      {with("normalizer", R"({"type":"Replace","pattern":"x","content":""})"),
       "offset 140: the pattern of normalizer \"Replace\" is neither \"String\" nor \"Regex\""},
      {with("normalizer", R"({"type":"Sequence","normalizers":[
         {"type":"Replace","pattern":{"String":"a"},"content":"aaaaaaaaaaaaaaaaaaaa"},
         {"type":"Replace","pattern":{"String":"a"},"content":"aaaaaaaaaaaaaaaaaaaa"},
         {"type":"Replace","pattern":{"Regex":"a"},"content":"aaaaaaaaaaaaaaaaaaaa"}]})"),
       "offset 110: the \"Replace\" steps of the normalizer make a text up to 8.4e+03 times longer, at most "
       "4096 is supported"},
      {with("normalizer", deep.c_str()), "offset 416: sequences nested too deep"},
      {with("pre_tokenizer", R"({"type":"UnicodeScripts"})"),
       "offset 113: pre-tokenizer \"UnicodeScripts\" is not supported"},
      {with("pre_tokenizer", R"({"type":"Split","pattern":{"String":"x"},"behavior":"Odd"})"),
       "offset 113: behavior \"Odd\" is not supported"},
      {with("pre_tokenizer", R"({"type":"Metaspace","replacement":"_","prepend_scheme":"odd"})"),
       "offset 113: prepend_scheme \"odd\" is not supported"},
      {with("pre_tokenizer", R"({"type":"Sequence","pretokenizers":3})"),
       "offset 149: \"pretokenizers\" is an integer, expected an array"},
      {with("post_processor", R"({"type":"Odd"})"), "offset 114: post-processor \"Odd\" is not supported"},
      {with("post_processor",
            R"({"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"x","type_id":0}}]})"),
       "offset 169: template token \"x\" is not among \"special_tokens\""},
      {with("post_processor", R"({"type":"TemplateProcessing","single":[]})"),
       "offset 152: a template without the text is not supported"},
      {with(
           "post_processor",
           R"({"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"x"}},{"Sequence":{"id":"A"}}],"special_tokens":{"x":{"id":"x","ids":[9]}}})"),
       "offset 246: token id 9, expected less than 3"},
  };
  for (const auto& [text, expected] : bad) {
    SCOPED_TRACE(text.substr(0, 300));
    const auto result = tokenizer_from_json(text, "dir/tokenizer.json");
    ASSERT_FALSE(result);
    EXPECT_THAT(result.error(), HasSubstr(expected));
    expect_clear_line(result.error(), "dir/tokenizer.json: ");
  }
  const std::pair<const char*, const char*> decoders[] = {
      {R"({"type":"CTC"})", "offset 50: decoder \"CTC\" is not supported"},
      {R"({"type":"Replace","pattern":{"Regex":"x"},"content":""})",
       "offset 50: decoder \"Replace\" with a regular expression is not supported"},
      {R"({"type":"Sequence","decoders":[
         {"type":"Replace","pattern":{"String":"a"},"content":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"},
         {"type":"Replace","pattern":{"String":"a"},"content":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"}]})",
       "offset 50: the \"Replace\" steps of the decoder make a text up to 4.22e+03 times longer, at most "
       "4096 is supported"},
      {R"({"type":"Strip","content":" ","start":1,"stop":0})",
       "offset 50: decoder \"Strip\" of anything but spaces at the beginning of the joined text is not "
       "supported"},
      {R"({"type":"Sequence","decoders":[{"type":"Fuse"},{"type":"ByteFallback"}]})",
       "offset 97: decoder \"ByteFallback\" after the tokens are joined is not supported"},
      {R"({"type":"Sequence","decoders":[{"type":"ByteLevel"},{"type":"Metaspace","replacement":"_"}]})",
       "offset 50: decoder \"ByteLevel\" together with others is not supported"},
  };
  for (const auto& [decoder, expected] : decoders) {
    SCOPED_TRACE(decoder);
    const auto result = tokenizer_from_json(
        fmt::format(R"({{"model":{{"vocab":{{"a":0}},"merges":[]}},"decoder":{}}})", decoder), "t");
    ASSERT_FALSE(result);
    EXPECT_THAT(result.error(), HasSubstr(expected));
  }
}

/// Encodes and decodes; errors of the caller (a character without a token, a pattern that runs
/// away) are allowed.
void use(const Tokenizer& tokenizer) {
  try {
    for (const bool special : {false, true}) {
      const auto ids = tokenizer.encode("the  cat <s>\n\u00e9 12 ab", {special, special});
      for (const int32_t id : ids) EXPECT_TRUE(id >= 0 && id < tokenizer.size());
      EXPECT_FALSE(detail::find_invalid_utf8(tokenizer.decode(ids, special)));
    }
  } catch (const Error&) {
  }
  for (int32_t id = 0; id < std::min(tokenizer.size(), 500); ++id) {
    (void)tokenizer.token_bytes(id);
    EXPECT_FALSE(detail::find_invalid_utf8(StreamDecoder(tokenizer, true).push(id)));
  }
}

TEST(TokenizerJson, SurvivesTruncationAndRandomChanges) {
  const std::string path = LUMINAL_SOURCE_DIR "/tests/formats/golden/tokenizers.json";
  const std::string text = file_content(path);
  const Json golden = detail::parse_json(text, path);
  uint32_t seed = 10;
  for (const Json& entry : golden.as_array(path, "golden")) {
    const std::string& tokenizer = entry.find("tokenizer")->as_string(path, "tokenizer");
    mutate(
        tokenizer, "t: ", ++seed, 60, [](std::string_view t) { return tokenizer_from_json(t, "t"); }, use,
        97);
  }
}

} // namespace
} // namespace luminal::tokenizer_json_test
