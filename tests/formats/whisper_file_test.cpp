// formats/whisper_file_test.cpp -- files of whisper.cpp: what is in them, whole and damaged, and their
// vocabularies.
#include "formats/parse.h"
#include "formats/quants.h"
#include "formats/whisper_file.h"
#include "support/whisper_bytes.h"
#include <gtest/gtest.h>

namespace luminal::whisper_file_test {
namespace {

constexpr std::array<int64_t, 11> sizes{6, 5, 8, 2, 1, 4, 8, 2, 1, 2, 1};

WhisperBytes head() {
  WhisperBytes file;
  file.sizes(sizes);
  file.filters(2, std::vector<float>{0, 0.5F, 1, 0.25F, 0, 2});
  file.tokens(std::vector<std::string>{"a", "", "\xC4\xA0", "bc"});
  return file;
}

std::string refusal(const std::string& bytes) {
  const auto read = parse_whisper_file(detail::as_bytes(bytes), "f");
  return read ? "" : read.error();
}

TEST(WhisperFile, HasSizesFiltersTokensAndTensors) {
  WhisperBytes file = head();
  const std::vector<float> ramp{1, 2, 3, 4, 5, 6};
  file.tensor("a.weight", 0, std::vector<int64_t>{2, 3},
              {reinterpret_cast<const char*>(ramp.data()), ramp.size() * sizeof(float)});
  const std::string blocks = quantize(StorageType::q8_0, std::vector<float>(64, 127.0F)).value();
  file.tensor("b", 8, std::vector<int64_t>{2, 32}, blocks);
  const auto got = parse_whisper_file(detail::as_bytes(file.bytes), "f");
  ASSERT_TRUE(got) << got.error();
  EXPECT_EQ(got->vocabulary, 6);
  EXPECT_EQ(got->audio_context, 5);
  EXPECT_EQ(got->text_context, 4);
  EXPECT_EQ(got->mels, 2);
  EXPECT_EQ(got->bins, 3);
  EXPECT_EQ(got->filters, (std::vector<float>{0, 0.5F, 1, 0.25F, 0, 2}));
  EXPECT_EQ(got->tokens, (std::vector<std::string>{"a", "", "\xC4\xA0", "bc"}));
  ASSERT_NE(got->find("a.weight"), nullptr);
  EXPECT_EQ(got->find("a.weight")->shape, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(dequantize(*got->find("a.weight")).value(), ramp);
  EXPECT_EQ(got->find("b")->describe(), "Q8_0 [2, 32]");
  EXPECT_EQ(dequantize(*got->find("b")).value(), std::vector<float>(64, 127.0F));
  EXPECT_EQ(got->find("c"), nullptr);
  // Cut anywhere but between tensors it is refused.
  const size_t whole = head().bytes.size(), first = whole + 5 * 4 + 8 + 24;
  for (size_t n = 0; n < file.bytes.size(); n++)
    EXPECT_EQ(refusal(file.bytes.substr(0, n)).empty(), n == whole || n == first) << n;
}

TEST(WhisperFile, MistakesAreNamed) {
  EXPECT_EQ(refusal("GGUF"), "f: offset 0: does not begin as a model of whisper.cpp does");
  WhisperBytes file;
  auto wrong = sizes;
  wrong[2] = 0;
  file.sizes(wrong);
  EXPECT_EQ(refusal(file.bytes), "f: offset 12: n_audio_state is 0, expected 1 to 16777216");
  file = {};
  file.sizes(sizes);
  file.filters(1, std::vector<float>{1});
  EXPECT_EQ(refusal(file.bytes), "f: offset 48: the number of filters is 1, expected 2 to 2");
  file = {};
  file.sizes(sizes);
  file.filters(2, std::vector<float>{1, 0.0F / 0.0F});
  EXPECT_EQ(refusal(file.bytes), "f: offset 60: a value of the filters is not a finite number");
  file = {};
  file.sizes(sizes);
  file.filters(2, std::vector<float>{1, 1});
  file.tokens(std::vector<std::string>(7, "x"));
  EXPECT_EQ(refusal(file.bytes), "f: offset 64: the number of tokens is 7, expected 0 to 6");
  const std::string at = std::to_string(head().bytes.size()),
                    type_at = std::to_string(head().bytes.size() + 8);
  const auto with = [&](std::string_view name, int64_t type, const std::vector<int64_t>& shape,
                        std::string_view data) {
    WhisperBytes bytes = head();
    bytes.tensor(name, type, shape, data);
    return refusal(bytes.bytes);
  };
  EXPECT_EQ(with("", 0, {1}, "abcd"), "f: offset " + std::to_string(head().bytes.size() + 4) +
                                          ": the length of a name is 0, expected 1 to 255");
  EXPECT_EQ(with("x", 0, {1, 1, 1, 1, 1}, "abcd"),
            "f: offset " + at + ": the number of dimensions is 5, expected 1 to 4");
  EXPECT_EQ(with("x", 99, {1}, "abcd"), "f: offset " + type_at + ": tensor \"x\" has type 99: unknown");
  EXPECT_EQ(with("x", 8, {1, 33}, "abcd"),
            "f: offset " + type_at + ": tensor \"x\": no size for Q8_0 [1, 33]");
  EXPECT_EQ(with("\xFF", 0, {1}, "abcd"),
            "f: offset " + std::to_string(head().bytes.size() + 16) + ": the name of a tensor is not UTF-8");
  EXPECT_EQ(with("x", 0, {2}, "abcd"),
            "f: offset " + std::to_string(head().bytes.size() + 17) +
                ": tensor \"x\" takes 8 bytes, expected at most the 4 that are left in the file");
  WhisperBytes twice = head();
  for (int i = 0; i < 2; i++) twice.tensor("x", 0, std::vector<int64_t>{1}, "abcd");
  EXPECT_EQ(refusal(twice.bytes),
            "f: offset " + std::to_string(head().bytes.size() + 21) + ": a second tensor \"x\"");
}

TEST(WhisperFile, SpecialTokens) {
  const auto id = [](int64_t vocabulary, std::string_view name) {
    for (const auto& [text, token] : whisper_special_tokens(vocabulary))
      if (text == name) return token;
    return -1;
  };
  EXPECT_EQ(id(51864, "<|endoftext|>"), 50256);
  EXPECT_EQ(id(51864, "<|notimestamps|>"), 50362);
  EXPECT_EQ(id(51864, "<|30.00|>"), 51863);
  EXPECT_EQ(id(51865, "<|startoftranscript|>"), 50258);
  EXPECT_EQ(id(51865, "<|su|>"), 50357);
  EXPECT_EQ(id(51865, "<|transcribe|>"), 50359);
  EXPECT_EQ(id(51865, "<|0.00|>"), 50364);
  EXPECT_EQ(id(51866, "<|yue|>"), 50358);
  EXPECT_EQ(id(51866, "<|30.00|>"), 51865);
  EXPECT_TRUE(whisper_special_tokens(51863).empty());
  const auto small = parse_whisper_file(detail::as_bytes(head().bytes), "f");
  ASSERT_TRUE(small);
  EXPECT_EQ(whisper_tokenizer(*small).error(),
            "f: a vocabulary of 6 tokens, expected that of a Whisper model: 51864, 51865 or 51866");
  WhisperFile few;
  few.file_name = "f", few.vocabulary = 51865, few.tokens = {"a"};
  EXPECT_EQ(whisper_tokenizer(few).error(), "f: 1 tokens in the file, expected 50257");
}

} // namespace
} // namespace luminal::whisper_file_test
