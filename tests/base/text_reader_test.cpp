// tests/base/text_reader_test.cpp -- the shared reader of our text forms.
#include "base/text_reader.h"
#include <cmath>
#include <cstring>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <random>

using namespace luminal;
using testing::HasSubstr;

namespace {

std::string message(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}
std::string tokens(std::string_view text) {
  TextReader reader(text);
  std::string out;
  static constexpr const char* kinds = "eiv@nfsp";
  while (!reader.at_end()) {
    const Token t = reader.next();
    out += std::string(1, kinds[static_cast<int>(t.kind)]) + ":" + std::string(t.text) + " ";
  }
  return out;
}

} // namespace

TEST(TextReader, Tokens) {
  EXPECT_EQ(tokens("fold_2 %x %7 @main.f 12 0xff 1.5 1e-3 0x1.8p3 \"a\\\"b\" -> == ( # comment\n <= // .. "
                   "a..b 1..64 x.y. $"),
            "i:fold_2 v:x v:7 @:main.f n:12 n:0xff f:1.5 f:1e-3 f:0x1.8p3 s:\"a\\\"b\" p:-> p:== p:( p:<= "
            "p:// p:.. i:a p:.. i:b "
            "n:1 p:.. n:64 i:x.y p:. p:$ ");
  EXPECT_EQ(tokens(""), "");
  EXPECT_EQ(tokens("# only"), "");
  EXPECT_EQ(tokens("a%b a % b"), "i:a v:b i:a p:% i:b ");
  EXPECT_EQ(tokens("1.x"), "n:1 p:. i:x ");
  EXPECT_EQ(tokens("1."), "f:1. ");
}

TEST(TextReader, TakesWhatIsExpected) {
  TextReader reader("fn @f(%a: f32) = -5 0xff 2.5 -inf \"x\\n\\x41\" end");
  reader.expect("fn");
  EXPECT_EQ(reader.expect_global_name(), "f");
  reader.expect("(");
  EXPECT_EQ(reader.expect_value_name(), "a");
  EXPECT_FALSE(reader.accept(","));
  EXPECT_TRUE(reader.accept(":"));
  EXPECT_EQ(reader.expect_identifier(), "f32");
  reader.expect(")");
  EXPECT_EQ(reader.peek_second().text, "-");
  reader.expect("=");
  EXPECT_EQ(reader.expect_integer(), -5);
  EXPECT_EQ(reader.expect_unsigned(), 255u);
  EXPECT_EQ(reader.expect_float(), 2.5);
  EXPECT_EQ(reader.expect_float(), -INFINITY);
  EXPECT_EQ(reader.expect_string(), "x\nA");
  const uint32_t here = reader.offset();
  reader.next();
  EXPECT_TRUE(reader.at_end());
  reader.expect_end();
  reader.rewind(here);
  EXPECT_TRUE(reader.at("end"));
  EXPECT_EQ(reader.position(0).line, 1u);
}

TEST(TextReader, Numbers) {
  const auto integer = [](std::string_view text) { return TextReader(text).expect_integer(); };
  EXPECT_EQ(integer("-9223372036854775808"), INT64_MIN);
  EXPECT_EQ(integer("9223372036854775807"), INT64_MAX);
  EXPECT_EQ(integer("-0x8000000000000000"), INT64_MIN);
  EXPECT_EQ(TextReader("18446744073709551615").expect_unsigned(), UINT64_MAX);
  EXPECT_THAT(message([&] { integer("9223372036854775808"); }), HasSubstr("does not fit 64 bits with sign"));
  EXPECT_THAT(message([&] { integer("-9223372036854775809"); }), HasSubstr("does not fit"));
  EXPECT_THAT(message([&] { integer("99999999999999999999"); }), HasSubstr("does not fit 64 bits"));
  EXPECT_THAT(message([&] { integer("1.5"); }), HasSubstr("expected an integer, found the number 1.5"));
  EXPECT_THAT(message([&] { integer("12ab"); }), HasSubstr("malformed number"));
  EXPECT_THAT(message([&] { TextReader("1e999").expect_float(); }), HasSubstr("too large"));
  EXPECT_EQ(TextReader("1e-999").expect_float(), 0.0);
  EXPECT_EQ(TextReader("0x1.8p3").expect_float(), 12.0);
  EXPECT_TRUE(std::isnan(TextReader("nan").expect_float()));
}

TEST(TextReader, FloatTextReadsBack) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 20000; ++i) {
    double d;
    const uint64_t bits = random();
    std::memcpy(&d, &bits, sizeof d);
    if (std::isnan(d)) continue;
    const std::string text = float_text(d);
    EXPECT_EQ(TextReader(text).expect_float(), d) << text;
    const float f = static_cast<float>(d);
    const std::string short_text = float_text(f);
    EXPECT_EQ(static_cast<float>(TextReader(short_text).expect_float()), f) << short_text;
  }
  EXPECT_EQ(float_text(1.0), "1.0");
  EXPECT_EQ(float_text(0.1f), "0.1");
  EXPECT_EQ(float_text(-0.0), "-0.0");
  EXPECT_EQ(float_text(NAN), "nan");
}

TEST(TextReader, QuotedReadsBack) {
  std::mt19937_64 random(2);
  for (int i = 0; i < 2000; ++i) {
    std::string text;
    for (size_t n = random() % 12; n > 0; --n) text += static_cast<char>(random());
    const std::string in_quotes = luminal::quoted(text);
    TextReader reader(in_quotes);
    EXPECT_EQ(reader.expect_string(), text);
    EXPECT_TRUE(reader.at_end());
  }
}

TEST(TextReader, ErrorsShowThePlace) {
  const auto fail = [](std::string_view text, const std::function<void(TextReader&)>& f) {
    return message([&] {
      TextReader reader(text, "model.lir");
      f(reader);
    });
  };
  EXPECT_EQ(
      fail("foo\n  bar(a x)", [](TextReader& r) { r.next(), r.next(), r.next(), r.next(), r.expect(")"); }),
      "model.lir:2:9: expected ')', found 'x'\n    bar(a x)\n          ^");
  EXPECT_EQ(fail("a bcd", [](TextReader& r) { r.next(), r.fail("bad name"); }),
            "model.lir:1:3: bad name\n  a bcd\n    ^~~");
  // Columns count characters, and marks stand below them.
  EXPECT_EQ(fail("\"\xC3\xA4\xC3\xB6\" x", [](TextReader& r) { r.next(), r.fail("here"); }),
            "model.lir:1:6: here\n  \"\xC3\xA4\xC3\xB6\" x\n       ^");
  EXPECT_EQ(fail("a", [](TextReader& r) { r.next(), r.expect("("); }),
            "model.lir:1:2: expected '(', found the end of the text\n  a\n   ^");
  EXPECT_THAT(fail("a \xFF", [](TextReader& r) { r.next(); }), HasSubstr("unexpected byte 0xff"));
  EXPECT_THAT(fail("a \xC3\xA4", [](TextReader& r) { r.next(); }),
              HasSubstr("unexpected character '\xC3\xA4'"));
  EXPECT_THAT(fail("\"abc", [](TextReader&) {}), HasSubstr("does not end on its line"));
  EXPECT_THAT(fail("\"a\\qb\"", [](TextReader& r) { r.expect_string(); }), HasSubstr("1:3: unknown escape"));
  EXPECT_THAT(fail("\"a\\x4\"", [](TextReader& r) { r.expect_string(); }), HasSubstr("unknown escape"));
  // A long line is cut around the place.
  const std::string cut = fail(std::string(5000, 'a') + " " + std::string(5000, 'b'),
                               [](TextReader& r) { r.next(), r.fail("x"); });
  EXPECT_LT(cut.size(), 500u);
  EXPECT_THAT(cut, HasSubstr("model.lir:1:5002: x"));
}

TEST(TextReader, WordsInStringsAndNamesAreNotKeywords) {
  EXPECT_FALSE(TextReader("\"fn\"").at("fn"));
  EXPECT_FALSE(TextReader("%fn").at("fn"));
  EXPECT_FALSE(TextReader("@fn").at("fn"));
  EXPECT_TRUE(TextReader("fn").at("fn"));
}

TEST(TextReader, NestingIsLimited) {
  const std::string text(2000, '(');
  TextReader reader(text);
  const std::function<void()> descend = [&] {
    const TextReader::Nested nested(reader);
    if (reader.accept("(")) descend();
  };
  EXPECT_THAT(message(descend), HasSubstr("nested too deeply"));
  // The guard is left in order.
  for (int i = 0; i < 1000; ++i) const TextReader::Nested nested(reader);
}

// Any bytes: tokens or an Error, never anything else, and always an end.
TEST(TextReader, RandomBytes) {
  std::mt19937_64 random(9);
  static constexpr std::string_view alphabet = "ab1.0x%@\"\\\n #-><=e+()p/\xC3\xA4\xFF";
  for (int round = 0; round < 20000; ++round) {
    std::string text;
    for (size_t n = random() % 16; n > 0; --n) text += alphabet[random() % alphabet.size()];
    try {
      TextReader reader(text);
      size_t count = 0;
      while (!reader.at_end()) {
        const Token t = reader.next();
        ASSERT_GT(t.length, 0u);
        ASSERT_LT(++count, 20u);
        if (t.kind == TokenKind::floating || t.kind == TokenKind::integer) TextReader(t.text).expect_float();
        if (t.kind == TokenKind::string) TextReader(t.text).expect_string();
      }
    } catch (const Error& error) {
      ASSERT_THAT(error.what(), HasSubstr("<text>:"));
    }
  }
}
