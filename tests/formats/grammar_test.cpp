// formats/grammar_test.cpp -- grammars: what they accept agrees with a naive reading of their rules;
// characters as bytes; JSON schemas; each mistake has its text.
#include "formats/grammar.h"
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <random>
#include <set>

namespace luminal {
namespace {

std::shared_ptr<const Grammar> grammar(std::string_view text) {
  return std::make_shared<const Grammar>(parse_grammar(text, "g").value());
}
struct Verdict {
  bool prefix, whole;
  bool operator==(const Verdict&) const = default;
};
Verdict follow(GrammarMachine& machine, std::string_view text) {
  const GrammarMachine::State state = machine.next(machine.start(), text);
  return {state != GrammarMachine::nowhere, state != GrammarMachine::nowhere && machine.may_end(state)};
}
bool accepts(const std::string& rules, std::string_view text) {
  GrammarMachine machine(grammar(rules));
  return follow(machine, text).whole;
}

/// The rules read as they stand: all places where a rule that begins at `from` may end, without those texts
/// of which only a beginning is there (`cut`: there is such a one).
class Naive {
public:
  explicit Naive(const Grammar& grammar, std::string_view text) : g_(grammar), text_(text) {}
  Verdict read() {
    const auto ends = rule(g_.root, 0, 0);
    return {cut_ || ends.contains(text_.size()), ends.contains(text_.size())};
  }

private:
  std::set<size_t> rule(uint32_t number, size_t from, int depth) {
    std::set<size_t> ends;
    if (depth > 60) return ends;
    for (const uint32_t start : g_.rules[number]) {
      std::set<size_t> at{from};
      for (uint32_t e = start; g_.elements[e].kind != Grammar::Kind::end; e++) {
        std::set<size_t> next;
        for (const size_t place : at) {
          if (g_.elements[e].kind == Grammar::Kind::rule)
            next.merge(rule(g_.elements[e].value, place, depth + 1));
          else if (place == text_.size())
            cut_ = true;
          else if (g_.sets[g_.elements[e].value][uint8_t(text_[place])])
            next.insert(place + 1);
        }
        at = std::move(next);
      }
      ends.merge(at);
    }
    return ends;
  }
  const Grammar& g_;
  std::string_view text_;
  bool cut_ = false;
};

TEST(Grammar, RandomRulesAreReadAsTheyStand) {
  std::mt19937 random(3);
  const auto pick = [&](int n) { return int(random() % unsigned(n)); };
  std::function<std::string(int)> part = [&](int depth) -> std::string {
    const char* letters[] = {"\"a\"", "\"b\"", "[ab]", "[^a]", "\"ab\"", "\"\""};
    switch (depth > 2 ? pick(2) : pick(6)) {
    case 0:
    case 1: return letters[pick(6)];
    case 2: return fmt::format("( {} | {} )", part(depth + 1), part(depth + 1));
    case 3: return fmt::format("( {} {} )", part(depth + 1), part(depth + 1));
    case 4: return part(3) + (pick(3) == 0 ? "*" : pick(2) == 0 ? "?" : "{1,2}");
    default: return fmt::format("\"b\" r{}", pick(2)); // a letter in front: no left recursion
    }
  };
  int accepted = 0;
  for (int round = 0; round < 300; round++) {
    const std::string text = fmt::format("root ::= {} {} | {}\nr0 ::= {} |\nr1 ::= {} r0\n", part(0), part(0),
                                         part(0), part(1), part(1));
    const auto rules = grammar(text);
    GrammarMachine machine(rules);
    for (int k = 0; k < 12; k++) {
      std::string word;
      for (int n = pick(6); n > 0; n--) word += char('a' + pick(2));
      const Verdict want = Naive(*rules, word).read();
      accepted += want.whole;
      ASSERT_EQ(follow(machine, word).whole, want.whole) << text << word;
      // A place that a rule cannot get out of would be a prefix to the machine: there is none here.
      ASSERT_EQ(follow(machine, word).prefix, want.prefix) << text << word;
    }
  }
  EXPECT_GT(accepted, 200);
}

TEST(Grammar, CharactersAreTheirBytes) {
  const auto utf8 = [](uint32_t c) {
    std::string s;
    if (c < 0x80)
      s = {char(c)};
    else if (c < 0x800)
      s = {char(0xC0 | c >> 6), char(0x80 | (c & 63))};
    else if (c < 0x10000)
      s = {char(0xE0 | c >> 12), char(0x80 | (c >> 6 & 63)), char(0x80 | (c & 63))};
    else
      s = {char(0xF0 | c >> 18), char(0x80 | (c >> 12 & 63)), char(0x80 | (c >> 6 & 63)),
           char(0x80 | (c & 63))};
    return s;
  };
  struct Case {
    const char* rules;
    std::function<bool(uint32_t)> in;
  };
  const Case cases[] = {
      {"root ::= [à-ÿ\\u0400-\\u1234x]",
       [](uint32_t c) { return (c >= 0xE0 && c <= 0xFF) || (c >= 0x400 && c <= 0x1234) || c == 'x'; }},
      {"root ::= [^\\x00-\\x1F\\\"\\U00010437-\\U00020000]",
       [](uint32_t c) { return c > 0x1F && c != '"' && (c < 0x10437 || c > 0x20000); }},
      {"root ::= .", [](uint32_t) { return true; }},
      {"root ::= \"é\" | \"\\U0001F600\"", [](uint32_t c) { return c == 0xE9 || c == 0x1F600; }}};
  for (const Case& each : cases) {
    GrammarMachine machine(grammar(each.rules));
    for (uint32_t c = 0; c <= 0x10FFFF; c += c < 0x3000 ? 1 : 7) {
      if (c >= 0xD800 && c <= 0xDFFF) continue;
      ASSERT_EQ(follow(machine, utf8(c)).whole, each.in(c)) << each.rules << " " << c;
    }
    EXPECT_FALSE(follow(machine, "\x80").prefix);
    EXPECT_FALSE(follow(machine, "\xED\xA0").prefix); // half of UTF-16
  }
}

TEST(Grammar, FormsOfRules) {
  const std::string list = "# a list\nroot ::= item (\n  \",\" ws item # more\n)* end?\n"
                           "item ::= [0-9]{2,3} |\n  \"x\"+\nws ::= [ \\t]*\nend ::= \".\"{0,1}\r\n";
  for (const char* good : {"12", "123,x", "xxx, 45.", "12,\t\t x"})
    EXPECT_EQ(accepts(list, good), std::string(good) != "1") << good;
  for (const char* bad : {"", "1", "1234", "12,", "12..", "y"}) EXPECT_FALSE(accepts(list, bad)) << bad;
  // Deep nesting, and a repetition of what may be nothing.
  const std::string nested = "root ::= \"(\" root \")\" | (\"a\"* | \"b\"?)*";
  EXPECT_TRUE(accepts(nested, std::string(500, '(') + "aab" + std::string(500, ')')));
  EXPECT_FALSE(accepts(nested, std::string(500, '(') + std::string(499, ')')));
  // What is forgotten is made anew: a text in thousands of states.
  GrammarMachine counting(grammar("root ::= \"(\" [a-z]{9000} \")\""));
  GrammarMachine::State state = counting.next(counting.start(), "(");
  for (int i = 0; i < 9000; i++) {
    state = counting.next(state, uint8_t('k'));
    ASSERT_GE(state, 0) << i;
    counting.tidy(state);
    ASSERT_LE(state, 4200);
  }
  EXPECT_FALSE(counting.may_end(state));
  EXPECT_TRUE(counting.may_end(counting.next(state, ")")));
  // Long texts in a repetition meet no new states.
  GrammarMachine machine(grammar("root ::= \"[\" ([a-z]+ \",\")* \"]\""));
  std::string text = "[";
  for (int i = 0; i < 100000; i++) text += "abc,";
  EXPECT_TRUE(follow(machine, text + "]").whole);
}

TEST(Grammar, MistakesAreNamed) {
  const auto error = [](std::string_view text) {
    const auto parsed = parse_grammar(text, "g");
    return parsed ? "no error" : parsed.error();
  };
  EXPECT_EQ(error(""), "g: a grammar without a rule \"root\"");
  EXPECT_EQ(error("a ::= \"x\""), "g: a grammar without a rule \"root\"");
  EXPECT_EQ(error("root ::= a"), "g: rule \"a\" is used and not defined");
  EXPECT_EQ(error("root ::= \"a\"\nroot ::= \"b\""), "g: offset 13: rule \"root\" is defined twice");
  EXPECT_EQ(error("root = \"a\""), "g: offset 5: ::= is expected, not \"= \\\"a\\\"\"");
  EXPECT_EQ(error("root ::= \"a"), "g: offset 11: the end of a literal, \" is expected, not the end");
  EXPECT_EQ(error("root ::= [a"), "g: offset 11: the end of a class, ] is expected, not the end");
  EXPECT_EQ(error("root ::= [z-a]"), "g: offset 10: a range that ends before it begins");
  EXPECT_EQ(error("root ::= (\"a\""), "g: offset 13: \")\" is expected, not the end");
  EXPECT_EQ(error("root ::= \"\\q\""), "g: offset 10: escape \"\\\\q\" is not known");
  EXPECT_EQ(error("root ::= \"\\x0\""), "g: offset 13: 2 hexadecimal digits is expected, not \"\\\"\"");
  EXPECT_EQ(error("root ::= \"\\uD800\""), "g: offset 16: U+D800 is not a character");
  EXPECT_EQ(error("root ::= \"a\"{x}"), "g: offset 13: a number of repetitions is expected, not \"x}\"");
  EXPECT_EQ(error("root ::= \"a\"{3"), "g: offset 14: \"}\" is expected, not the end");
  EXPECT_EQ(error("root ::= \"a\"{3,2}"), "g: offset 16: repetitions that end before they begin");
  EXPECT_EQ(error("root ::= \"a\"{99999}"), "g: offset 17: more than 10000 repetitions");
  EXPECT_EQ(error("root ::= \"" + std::string(300, 'a') + "\"{10000}"),
            "g: offset 318: the grammar is too large");
  EXPECT_EQ(error("root ::= root \"a\" | \"b\""),
            "g: rule \"root\" begins with itself: write it with * or +");
  EXPECT_EQ(error("root ::= a?  root \"x\"\na ::= \"a\""),
            "g: rule \"root\" begins with itself: write it with * or +");
  EXPECT_EQ(error("root ::= \"a\" )"), "g: offset 13: the end of the line is expected, not \")\"");
  EXPECT_EQ(error("root ::= \"\xff\""), "g: offset 10: not UTF-8");
  EXPECT_EQ(error("root ::= " + std::string(200, '(')), "g: offset 138: groups are nested too deep");
  const std::string wild = "root ::= (a | a a | a a a)*\na ::= (\"x\" | \"x\" a \"x\")*";
  GrammarMachine machine(grammar(wild));
  try {
    GrammarMachine::State state = machine.start();
    for (int i = 0; i < 100000; i++) ASSERT_NE(state = machine.next(state, uint8_t('x')), -1);
    FAIL() << "this grammar has more and more places";
  } catch (const Error& e) {
    EXPECT_STREQ(e.what(), "the grammar is too ambiguous: a text may be at thousands of places in it");
  }
}

std::string rules_of(std::string_view schema) { return grammar_of_json_schema(schema, "s").value(); }

TEST(JsonSchema, TextsThatFit) {
  struct Case {
    const char* schema;
    std::vector<const char*> good, bad;
  };
  const Case cases[] = {
      {"{}",
       {"1", "-0.5e3", "\"a\\n\\u00e9\"", "[]", "[1, {\"a\": null}]", "true"},
       {"", "01", "[1,]", "{a:1}", "nul"}},
      {R"({"type":"string","minLength":2,"maxLength":3})",
       {"\"ab\"", "\"ab\\n\"", "\"éü\""},
       {"\"a\"", "\"abcd\"", "ab"}},
      {R"({"type":"integer","minimum":-5,"maximum":120})",
       {"-5", "0", "120", "99"},
       {"-6", "121", "00", "1.0", "-0"}},
      {R"({"type":"array","items":{"type":"boolean"},"minItems":1,"maxItems":2})",
       {"[true]", "[true, false]"},
       {"[]", "[true,true,true]", "[1]"}},
      {R"({"prefixItems":[{"type":"null"},{"const":7}],"items":false})",
       {"[null, 7]"},
       {"[null]", "[null,7,7]"}},
      {R"({"type":"object","properties":{"a":{"type":"integer"},"b":{"enum":["x","y z"]},
            "c":{"type":["null","string"]}},"required":["b"]})",
       {R"({"b":"x"})", R"({"a": 1, "b": "y z"})", R"({"b":"x","c":null})", R"({"a":1,"b":"x","c":"t"})"},
       {"{}", R"({"a":1})", R"({"b":"z"})", R"({"b":"x","a":1})", R"({"b":"x","d":1})", R"({,"b":"x"})"}},
      {R"({"type":"object","properties":{"a":{}},"additionalProperties":{"type":"integer"}})",
       {"{}", R"({"a":[]})", R"({"a":"x","k":3})", R"({"k":3,"l":4})"},
       {R"({"k":"x"})", R"({"a":1,})"}},
      {R"({"type":"object"})", {"{}", R"({"any":[1]})"}, {"[]", "{1:2}"}},
      {R"({"type":"object","required":["q"]})", {R"({"q":1})"}, {"{}"}},
      {R"({"$ref":"#/$defs/n","$defs":{"n":{"type":"object","properties":{"v":{"type":"number"},
            "next":{"anyOf":[{"$ref":"#/$defs/n"},{"type":"null"}]}},"required":["v","next"]}}})",
       {R"({"v":1,"next":{"v":2.5,"next":null}})"},
       {R"({"v":1})", R"({"v":1,"next":{}})"}},
      {R"({"allOf":[{"type":"string","format":"date"}]})",
       {"\"2024-02-30\""},
       {"\"2024-13-01\"", "\"2024-1-1\""}},
      {R"({"type":"string","format":"date-time"})",
       {"\"2024-02-29T12:30:00Z\"", "\"2024-02-29T12:30:00.123+01:00\""},
       {"\"2024-02-29\""}},
      {R"({"const":{"a":"\"q\\"}})", {R"({"a":"\"q\\"})"}, {R"({"a":"q"})"}}};
  for (const Case& each : cases) {
    GrammarMachine machine(grammar(rules_of(each.schema)));
    for (const char* text : each.good) EXPECT_TRUE(follow(machine, text).whole) << each.schema << " " << text;
    for (const char* text : each.bad) EXPECT_FALSE(follow(machine, text).whole) << each.schema << " " << text;
  }
}

TEST(JsonSchema, IntegersBetween) {
  std::mt19937_64 random(5);
  for (int round = 0; round < 120; round++) {
    const int64_t scale = round % 3 == 0 ? 30 : round % 3 == 1 ? 2500 : 1'000'000'000'000;
    const auto number = [&] { return int64_t(random() % uint64_t(2 * scale)) - scale; };
    int64_t low = number(), high = number();
    if (low > high) std::swap(low, high);
    const bool no_low = round % 7 == 0, no_high = round % 7 == 1;
    std::string schema = R"({"type":"integer")";
    if (!no_low) schema += fmt::format(",\"minimum\":{}", low);
    if (!no_high) schema += fmt::format(",\"exclusiveMaximum\":{}", high + 1);
    GrammarMachine machine(grammar(rules_of(schema + "}")));
    std::vector<int64_t> tried{low, high, low - 1, high + 1, 0, 1, -1, 9, 10, 99, 100, -100};
    for (int i = 0; i < 30; i++) tried.push_back(number());
    for (const int64_t n : tried)
      ASSERT_EQ(follow(machine, std::to_string(n)).whole, (no_low || n >= low) && (no_high || n <= high))
          << schema << " " << n;
  }
}

TEST(JsonSchema, MistakesAreNamed) {
  const auto error = [](std::string_view schema) {
    const auto rules = grammar_of_json_schema(schema, "s");
    return rules ? "no error" : rules.error();
  };
  EXPECT_EQ(error("{"), "s: not JSON, a JSON schema is expected");
  EXPECT_EQ(error("[]"), "s: a schema is an object, not []");
  EXPECT_EQ(error(R"({"type":"string","pattern":"a"})"), "s: \"pattern\" is not supported in a schema here");
  EXPECT_EQ(error(R"({"type":"thing"})"), "s: type \"thing\" is not known");
  EXPECT_EQ(error(R"({"type":7})"), "s: \"type\" is a name or a list of names");
  EXPECT_EQ(error(R"({"enum":[]})"), "s: \"enum\" is a list of values");
  EXPECT_EQ(error(R"({"anyOf":{}})"), "s: \"anyOf\" is a list of schemas");
  EXPECT_EQ(error(R"({"allOf":[{},{}]})"), "s: \"allOf\" of several schemas is not supported");
  EXPECT_EQ(error(R"({"$ref":"http://x"})"),
            "s: \"$ref\" \"http://x\": places in the schema itself are followed, as #/$defs/name");
  EXPECT_EQ(error(R"({"$ref":"#/$defs/x"})"), "s: \"$ref\" \"#/$defs/x\": there is no such place");
  EXPECT_EQ(error(R"({"type":"string","minLength":-1})"), "s: \"minLength\" is -1, 0 to 10000 is expected");
  EXPECT_EQ(error(R"({"type":"string","minLength":3,"maxLength":2})"),
            "s: \"maxLength\" is below \"minLength\"");
  EXPECT_EQ(error(R"({"type":"array","minItems":3,"maxItems":2})"), "s: \"maxItems\" is below \"minItems\"");
  EXPECT_EQ(error(R"({"type":"integer","minimum":0.5})"),
            "s: \"minimum\" is 0.5, a whole number up to 10^15 is expected");
  EXPECT_EQ(error(R"({"type":"integer","minimum":3,"maximum":2})"), "s: no integer is between 3 and 2");
  EXPECT_EQ(error(R"({"type":"object","properties":[]})"), "s: \"properties\" is an object");
  EXPECT_EQ(error(R"({"type":"object","required":"a"})"), "s: \"required\" is a list of names");
  EXPECT_EQ(error(R"({"prefixItems":{}})"), "s: \"prefixItems\" is a list of schemas");
  EXPECT_EQ(error(R"({"prefixItems":[{}],"minItems":1})"),
            "s: \"minItems\" and \"maxItems\" beside \"prefixItems\" are not supported");
  std::string deep;
  for (int i = 0; i < 100; i++) deep += R"({"items":)";
  EXPECT_EQ(error(deep + "{}" + std::string(100, '}')), "s: the schema is nested too deep");
  EXPECT_EQ(error(std::string(1000, '[')), "s: the schema is nested too deep");
  // A schema that refers to itself and says nothing else has no texts.
  const auto loop = parse_grammar(rules_of(R"({"$ref":"#"})"), "g");
  EXPECT_TRUE(loop) << loop.error();
}

} // namespace
} // namespace luminal
