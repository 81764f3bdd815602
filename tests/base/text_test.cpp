// tests/base/text_test.cpp -- text helpers.
#include "base/text.h"
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <random>

using namespace luminal;

TEST(Text, JoinAndSplitInvertEachOther) {
  for (const std::vector<std::string>& parts :
       {std::vector<std::string>{""}, {"a"}, {"a", "b"}, {"", ""}, {"a", "", "c"}, {"", "x", ""}}) {
    const std::string text = join(parts, ",");
    const auto back = split(text, ',');
    EXPECT_EQ(std::vector<std::string>(back.begin(), back.end()), parts) << text;
  }
  EXPECT_EQ(join(std::vector<std::string>{}), "");
  EXPECT_EQ(join(std::vector<std::string>{"x", "y"}), "x, y");
}

TEST(Text, Trim) {
  EXPECT_EQ(trim("  a b\t\n"), "a b");
  EXPECT_EQ(trim(" \n "), "");
  EXPECT_EQ(trim(""), "");
  EXPECT_EQ(trim("x"), "x");
}

TEST(Text, NearestWord) {
  EXPECT_EQ(nearest_word("matmull", {"matmul", "max", "mean"}), "matmul");
  EXPECT_EQ(nearest_word("btach", {"batch", "head"}), "batch");
  EXPECT_EQ(nearest_word("zzz", {"batch", "head"}), "");
  EXPECT_EQ(nearest_word("z", {"i", "j"}), "");
}

TEST(Text, Bytes) {
  EXPECT_EQ(human_bytes(0), "0 B");
  EXPECT_EQ(human_bytes(1023), "1023 B");
  EXPECT_EQ(human_bytes(1024), "1.00 KiB");
  EXPECT_EQ(human_bytes(1536), "1.50 KiB");
  EXPECT_EQ(human_bytes(123456), "121 KiB");
  EXPECT_EQ(human_bytes((1 << 20) - 1), "1.00 MiB"); // never "1024 KiB"
  EXPECT_EQ(human_bytes(uint64_t{3} << 30), "3.00 GiB");
  EXPECT_EQ(human_bytes(UINT64_MAX), "16.0 EiB");
}

TEST(Text, Times) {
  EXPECT_EQ(human_time(0), "0 ns");
  EXPECT_EQ(human_time(850e-9), "850 ns");
  EXPECT_EQ(human_time(12.34e-6), "12.3 us");
  EXPECT_EQ(human_time(4.561e-3), "4.56 ms");
  EXPECT_EQ(human_time(0.99999), "1.00 s");
  EXPECT_EQ(human_time(1.234), "1.23 s");
  EXPECT_EQ(human_time(125.4), "2 min 5 s");
  EXPECT_EQ(human_time(3725), "1 h 2 min");
  EXPECT_EQ(human_time(-0.5), "-500 ms");
  EXPECT_EQ(human_time(59.999 * 60), "1 h 0 min");
}

TEST(Text, Counts) {
  EXPECT_EQ(human_count(0), "0");
  EXPECT_EQ(human_count(999), "999");
  EXPECT_EQ(human_count(1234), "1.23 K");
  EXPECT_EQ(human_count(260032), "260 K");
  EXPECT_EQ(human_count(1.1e9), "1.10 G");
}

namespace {
// An independent encoder: every code point but the surrogates.
std::string encode(uint32_t c) {
  std::string out;
  if (c < 0x80) return {static_cast<char>(c)};
  if (c < 0x800)
    out += static_cast<char>(0xC0 | (c >> 6));
  else if (c < 0x10000)
    out += static_cast<char>(0xE0 | (c >> 12));
  else
    out += static_cast<char>(0xF0 | (c >> 18));
  if (c >= 0x10000) out += static_cast<char>(0x80 | ((c >> 12) & 0x3F));
  if (c >= 0x800) out += static_cast<char>(0x80 | ((c >> 6) & 0x3F));
  return out + static_cast<char>(0x80 | (c & 0x3F));
}
} // namespace

TEST(Utf8, EveryCharacterIsWellFormedAndEveryPrefixIsNot) {
  for (uint32_t c = 0; c < 0x110000; ++c) {
    const std::string text = encode(c);
    const bool surrogate = c >= 0xD800 && c < 0xE000;
    ASSERT_EQ(is_utf8(text), !surrogate) << c;
    if (surrogate) continue;
    ASSERT_EQ(utf8_length(static_cast<unsigned char>(text[0])), text.size());
    ASSERT_EQ(utf8_count(text), 1u);
    for (size_t n = 1; n < text.size(); ++n) {
      ASSERT_FALSE(is_utf8(text.substr(0, n)));
      ASSERT_EQ(utf8_complete_prefix("ab" + text.substr(0, n)), 2u) << c << " cut to " << n;
    }
    ASSERT_EQ(utf8_complete_prefix("ab" + text), 2 + text.size());
  }
}

TEST(Utf8, MalformedBytesAreNotHeldBack) {
  for (const std::string_view bad : {"\xFF", "\x80", "\xC0", "\xC1\x80", "\xE0\x80", "\xED\xA0", "\xF5",
                                     "\xF0\x80", "\xF4\x90", "a\xBF\xBF\xBF\xBF"})
    EXPECT_EQ(utf8_complete_prefix(bad), bad.size());
  EXPECT_EQ(utf8_complete_prefix(""), 0u);
}

// What a stream shows piece by piece is the whole text, and every piece of well-formed text is well
// formed.
TEST(Utf8, StreamingInPieces) {
  std::mt19937_64 random(3);
  for (int round = 0; round < 300; ++round) {
    std::string text;
    for (int i = 0; i < 20; ++i)
      text += encode(static_cast<uint32_t>(random() % (random() % 2 ? 0x80 : 0xD800)));
    const bool broken = round % 3 == 0;
    if (broken) text[random() % text.size()] = static_cast<char>(random());
    std::string held, shown;
    for (const char c : text) {
      held += c;
      const size_t n = utf8_complete_prefix(held);
      ASSERT_LE(held.size() - n, 3u);
      ASSERT_TRUE(broken || is_utf8(held.substr(0, n)));
      shown += held.substr(0, n);
      held.erase(0, n);
    }
    EXPECT_EQ(shown + held, text);
  }
}

TEST(Utf8, SanitizedIsWellFormed) {
  EXPECT_EQ(utf8_sanitized("a\xFF"
                           "b"),
            "a\xEF\xBF\xBD"
            "b");
  EXPECT_EQ(utf8_sanitized("\xE2\x82"), "\xEF\xBF\xBD"); // one for the whole cut character
  std::mt19937_64 random(4);
  for (int round = 0; round < 2000; ++round) {
    std::string text;
    for (int i = 0; i < 12; ++i) text += static_cast<char>(random());
    ASSERT_TRUE(is_utf8(utf8_sanitized(text)));
    ASSERT_TRUE(is_utf8(json_escape(text)));
    ASSERT_TRUE(!is_utf8(text) || utf8_sanitized(text) == text);
  }
}

TEST(Text, Printable) {
  EXPECT_EQ(printable("a\nb\x01\xFF"), "a\\nb\\x01\\xff");
  EXPECT_EQ(printable("abcdef", 3), "abc...");
  EXPECT_EQ(printable("\xC3\xA4\xC3\xB6", 2), "\xC3\xA4\xC3\xB6");
}

TEST(Text, JsonEscape) {
  EXPECT_EQ(json_escape("say \"hi\"\\\n\t\b\f\r\x01\x1f\x7f"),
            "say \\\"hi\\\"\\\\\\n\\t\\b\\f\\r\\u0001\\u001f\x7f");
  EXPECT_EQ(json_escape(std::string_view("\0", 1)), "\\u0000");
}
