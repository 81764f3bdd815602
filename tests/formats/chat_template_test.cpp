// tests/formats/chat_template_test.cpp -- templates give what Jinja gives (golden/chat_templates.json, made
// by golden/make_chat_templates.py); what is not supported is refused by name.
#include "formats/chat_template.h"
#include "luminal/error.h"
#include "util.h"
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace luminal {
namespace {

using jinja::Dict;
using jinja::Value;

std::string parse_error(std::string_view source) {
  const auto made = ChatTemplate::parse(source, "t");
  return made ? "accepted" : made.error();
}
std::string render(std::string_view source, const Dict& variables = {}) {
  return ChatTemplate::parse(source, "t").value().render(variables);
}
std::string render_error(std::string_view source, const Dict& variables = {}) {
  try {
    return "gave " + render(source, variables);
  } catch (const Error& error) {
    return error.what();
  }
}

TEST(ChatTemplate, GivesWhatJinjaGives) {
  const std::string path = std::string(LUMINAL_SOURCE_DIR) + "/tests/formats/golden/chat_templates.json";
  const Value rows = template_value(testing_formats::file_content(path), path).value();
  ASSERT_GE(rows.list()->size(), 40u);
  for (const Value& row : *rows.list()) {
    const std::string name = *row.find("name")->string();
    SCOPED_TRACE(name);
    const auto made = ChatTemplate::parse(*row.find("template")->string(), name);
    ASSERT_TRUE(made) << made.error();
    std::string text, error;
    try {
      text = made->render(*row.find("variables")->dict());
    } catch (const Error& e) {
      error = e.what();
    }
    if (const Value* want = row.find("text")) {
      EXPECT_EQ(error, "");
      EXPECT_EQ(text, *want->string());
    } else {
      EXPECT_NE(error, "");
      // The words of raise_exception are the template's own.
      const std::string* words = row.find("error")->string();
      if (words && !words->starts_with("'")) {
        EXPECT_EQ(error, name + ": " + *words);
      }
    }
  }
}

TEST(ChatTemplate, RefusesByName) {
  EXPECT_EQ(parse_error("a\n{% include 'x' %}"), "t: line 2: tag \"include\" is not supported");
  EXPECT_EQ(parse_error("{{ x|wordwrap }}"), "t: line 1: filter \"wordwrap\" is not supported");
  EXPECT_EQ(parse_error("{{ x is sameas y }}"), "t: line 1: test \"sameas\" is not supported");
  EXPECT_EQ(parse_error("{% for x in y recursive %}{% endfor %}"),
            "t: line 1: recursive loops are not supported");
  EXPECT_EQ(parse_error("{{ f(*x) }}"), "t: line 1: arguments from a list are not supported");
  EXPECT_EQ(parse_error("{{ x"), "t: line 1: a tag has no end, expected }}");
  EXPECT_EQ(parse_error("{% if x %}"), "t: line 1: the template ends where endif is expected");
  EXPECT_EQ(parse_error("{% endif %}"), "t: line 1: tag \"endif\" is not supported");
  EXPECT_EQ(parse_error("{{ }}"), "t: line 1: the end of a tag, expected a value");
  EXPECT_EQ(parse_error("{{ 'a }}"), "t: line 1: a string has no end");
  EXPECT_EQ(parse_error("{{ a ? b }}"), "t: line 1: \"?\" is not expected in a tag");
  EXPECT_EQ(parse_error("{# a"), "t: line 1: a comment has no end");
  EXPECT_EQ(parse_error("{% raw %}x"), "t: line 1: {% raw %} has no {% endraw %}");
  EXPECT_EQ(parse_error("{% break %}"), "t: line 1: break outside of a loop");
  EXPECT_EQ(parse_error("{{ 99999999999999999999 }}"), "t: line 1: 99999999999999999999 is too large");
  EXPECT_EQ(parse_error("{{ f(a=1, 2) }}"), "t: line 1: an argument without a name behind one with a name");
  EXPECT_EQ(parse_error("{% set a, b %}{% endset %}"), "t: line 1: several variables are set to one block");
  EXPECT_EQ(parse_error("{{ a b }}"), "t: line 1: \"b\", expected }}");
  EXPECT_EQ(parse_error("{% set 1 = 2 %}"), "t: line 1: \"1\", expected the name of a variable");
  EXPECT_EQ(parse_error("{% for x of y %}"), "t: line 1: \"of\", expected \"in\"");
  EXPECT_EQ(parse_error("{% if a b %}"), "t: line 1: \"b\", expected the end of the tag");
  EXPECT_EQ(parse_error("{{ a[1:2:3:4] }}"), "t: line 1: a slice has three parts at most");
  EXPECT_EQ(parse_error("{{ '\\ud800' }}"), "t: line 1: escape \\ud800 in a string is not a character");
  EXPECT_EQ(parse_error("\xff"), "t: not UTF-8 at byte 0");
  EXPECT_EQ(parse_error("{{ " + std::string(1000, '(') + "1" + std::string(1000, ')') + " }}"),
            "t: line 1: nested too deep");
}

TEST(ChatTemplate, MistakesNameTheLine) {
  EXPECT_EQ(render_error("\n{{ x.y }}"), "t: line 2: \"x\" is undefined");
  EXPECT_EQ(render_error("{{ x() }}", {{"x", 1}}), "t: line 1: an integer is called");
  EXPECT_EQ(render_error("{{ 1 + 'a' }}"), "t: line 1: an integer + a string");
  EXPECT_EQ(render_error("{{ 1 // 0 }}"), "t: line 1: a division by zero");
  EXPECT_EQ(render_error("{{ 9223372036854775807 + 1 }}"), "t: line 1: an integer that is too large");
  EXPECT_EQ(render_error("{% for x in 3 %}{% endfor %}"), "t: line 1: list: an integer is not a list");
  EXPECT_EQ(render_error("{% for x in y %}{% endfor %}"), "t: line 1: \"y\" is undefined");
  EXPECT_EQ(render_error("{% for a, b in [[1]] %}{% endfor %}"), "t: line 1: 1 values for 2 variables");
  EXPECT_EQ(render_error("{% set x.y = 1 %}"), "t: line 1: x is not a namespace");
  EXPECT_EQ(render_error("{{ [1, 'a']|sort }}"), "t: line 1: a string and an integer are not ordered");
  EXPECT_EQ(render_error("{{ x|upper }}"), "t: line 1: \"x\" is undefined");
  EXPECT_EQ(render_error("{{ 'a'.nope() }}"), "t: line 1: \"nope\" is undefined");
  EXPECT_EQ(render_error("{{ raise_exception('no ' ~ 1) }}"), "t: no 1");
  EXPECT_EQ(render_error("{{ range(1, 2, 0) }}"), "t: line 1: range with a step of 0");
  EXPECT_EQ(render_error("{{ [1][::0] }}"), "t: line 1: a slice with a step of 0");
  EXPECT_EQ(render_error("{{ [1].pop(3) }}"), "t: line 1: pop: a list of 1 has no such item");
  const std::pair<const char*, const char*> rows[] = {
      {"range()", "range with 0 arguments"},
      {"[1]['a':]", "a slice to a string"},
      {"'a'.split('')", "an empty separator splits nothing"},
      {"'a'|trim(1, 2)", "trim takes 1 arguments at most, 2 are given"},
      {"'a'|replace('b')", "replace needs the argument new"},
      {"[1]|selectattr(1)", "selectattr: attribute is an integer, a string is expected"},
      {"'a'|replace('a', 'b', 'c')", "replace: count is a string, an integer is expected"},
      {"1|length", "an integer has no length"},
      {"[1]|map(attribute=1)", "map: attribute is an integer, a string is expected"},
      {"1|dictsort", "dictsort of an integer"},
      {"1|items", "items of an integer"},
      {"'a'|round", "round of a string"},
      {"[9223372036854775807, 1]|sum", "a sum is too large"},
      {"1|tojson(sort_keys=true)", "tojson with the argument sort_keys"},
      {"1 is eq", "a test with 0 arguments, expected one"},
      {"'a' is odd", "a string where an integer is expected"},
      {"'a'.startswith(1)", "an integer where a string is expected"},
      {"'a b c'.rsplit(none, 1)", "rsplit by blanks into a few parts is not supported"},
      {"'a'.index('x')", "\"x\" is not in the string"},
      {"range|tojson", "tojson of a function"},
      {"1 in 'a'", "an integer in a string: a string is expected"},
      {"1 in 2", "an integer holds nothing"},
      {"'a'|abs", "abs of a string"},
      {"['a']|sum", "sum of a string"},
  };
  for (const auto& [source, expected] : rows)
    EXPECT_EQ(render_error(fmt::format("{{{{ {} }}}}", source)), fmt::format("t: line 1: {}", expected))
        << source;
  EXPECT_EQ(render_error("{% for x in [1] %}{{ loop.cycle() }}{% endfor %}"), "t: line 1: cycle of nothing");
  Value deep = 1;
  for (int i = 0; i < 200; i++) deep = jinja::List{deep};
  EXPECT_EQ(render_error("{{ x|tojson }}", {{"x", deep}}), "t: line 1: tojson: nested too deep");
  EXPECT_EQ(render_error("{% macro m(a) %}{% endmacro %}{{ m(1, 2) }}"),
            "t: line 1: macro m takes 1 arguments, 2 are given");
  EXPECT_EQ(render_error("{% macro m(a) %}{% endmacro %}{{ m(b=2) }}"),
            "t: line 1: macro m has no parameter b");
}

TEST(ChatTemplate, NoTemplateRunsForEver) {
  EXPECT_THAT(
      render_error("{% for i in range(5000) %}{% for j in range(5000) %}{{ j }}{% endfor %}{% endfor %}"),
      ::testing::HasSubstr("t: line 1: more than 1000000 steps"));
  EXPECT_EQ(render_error("{{ range(9999999999) }}"), "t: line 1: a range that is too long");
  EXPECT_EQ(render_error("{{ 'aaaaaaaa' * 999999999 }}"), "t: line 1: a text that is too long");
  EXPECT_THAT(render_error("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}"),
              ::testing::HasSubstr("macro m calls itself too often"));
  EXPECT_THAT(
      render_error("{% set ns = namespace(s='aaaaaaaa') %}{% for i in range(30) %}{% set ns.s = ns.s ~ ns.s "
                   "%}{{ ns.s }}{% endfor %}"),
      ::testing::HasSubstr("t: line 1: a text of more than 16777216 bytes"));
}

} // namespace
} // namespace luminal
