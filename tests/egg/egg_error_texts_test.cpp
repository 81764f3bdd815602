// egg/egg_error_texts_test.cpp -- messages word for word. egg_errors_test.cpp says where they
// point; tools/check_error_texts.py lists those that no test names.
#include "egg/egg_program.h"
#include "egg/egg_view.h"
#include "luminal/error.h"
#include "support/error_of.h"
#include <cstdlib>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <gtest/gtest.h>
#include <unistd.h>

namespace luminal::egraph {
namespace {

/// The message of running `text`, without its place and the line that it shows.
std::string message(const std::string& text, EggOptions options = {}) {
  EggProgram program(std::move(options));
  std::string error = error_of([&] { program.run(text, "a.egg"); });
  error = error.substr(0, error.find('\n'));
  for (int i = 0; i < 3 && error.starts_with("a.egg"); ++i) {
    const size_t colon = error.find(':', i == 0 ? 0 : 5);
    error = error.substr(0, 5) + error.substr(colon + 1);
  }
  return error.starts_with("a.egg ") ? error.substr(6) : error;
}

struct Row {
  const char* program;
  const char* message;
};

const std::string declarations = "(datatype E (Num i64) (Add E E)) (relation seen (E)) "
                                 "(function f (i64) i64 :merge new) (ruleset r) (ruleset q)\n";

const Row forms[] = {
    {"hello", "expected a command in parentheses, such as (let $x (Num 1))"},
    {"(extract 99999999999999999999)",
     "this integer does not fit 64 bits with sign; a float is written with a point"},
    {"(rule (seen) ())", "expected a fact: (= a b), or a call of a function or primitive"},
    {"(check (= 1))", "usage: (= <expression> <expression>)"},
    {"(rule () (7))", "expected an action: let, set, union, delete, subsume, panic or a call"},
    {"(rule () ((set (f 1))))", "usage: (set (<function> <expression>*) <expression>)"},
    {"(rule () ((delete)))", "usage: (delete (<function> <expression>*))"},
    {"(rule () ((subsume)))", "usage: (subsume (<function> <expression>*))"},
    {"(rule () ((union (Num 1))))", "usage: (union <expression> <expression>)"},
    {"(rule () ((panic 1)))", "usage: (panic \"<message>\")"},
    {"(extract :x)", "expected an expression, found the option ':x'"},
    {"(rule ((seen x)) ((seen _)))", "'_' matches anything; it has no value that an action could use"},
    {"(extract (7 1))", "expected the name of a function or primitive"},
    {"(delete 7)", "expected a call of a function: (<function> <expression>*)"},
    {"(set (Num 1) (Num 2))", "'Num' is a constructor: use union, or declare it as a function"},
    {"(union 1 2)", "values of the sort i64 cannot be united; only classes of a datatype can"},
    {"(rule ((= e (Num x))) ((set (f x) (f 1))))",
     "the value of the function 'f' is looked up in an action; look it up in the facts, or mark the rule "
     ":naive"},
    {"(rewrite x (Num 1) :when ((seen x)) :subsume)", "a subsuming rewrite needs a call on its left side"},
    {"(sort)", "usage: (sort <name>) or (sort <name> (<container> <sort>*))"},
    {"(sort V (Vector i64))",
     "expected a container: (Vec <sort>), (Set <sort>), (MultiSet <sort>), (Map <sort> <sort>) or (Pair "
     "<sort> <sort>)"},
    {"(datatype D 7)", "expected a constructor: (<name> <sort>*)"},
    {"(datatype)", "usage: (datatype <name> (<constructor> <sort>*)*)"},
    {"(datatype* 7)",
     "expected (<datatype> (<constructor> <sort>*)*) or (sort <name> (<container> <sort>*))"},
    {"(constructor C)", "usage: (constructor <name> (<sort>*) <sort> [:cost <number>] [:unextractable])"},
    {"(constructor C (i64) i64)", "a constructor makes classes; i64 is a sort of values. Declare a function"},
    {"(relation r2)", "usage: (relation <name> (<sort>*))"},
    {"(relation r2 (7))", "expected the name of a sort"},
    {"(function g)", "usage: (function <name> (<sort>*) <sort> :merge <expression>) or (... :no-merge)"},
    {"(function g (i64) i64)",
     "the function 'g' has to say what happens when it gets a second value: :merge <expression over old and "
     "new>, or :no-merge"},
    {"(unstable-combined-ruleset)", "usage: (unstable-combined-ruleset <name> <ruleset>*)"},
    {"(ruleset)", "usage: (ruleset <name>)"},
    {"(rule () () :ruleset r :phase q)", ":ruleset and :phase exclude each other"},
    {"(unstable-combined-ruleset c r q) (rule () () :ruleset c)",
     "rules cannot be added to a combined ruleset, only to its parts"},
    {"(rewrite (Num 1) (Num 2) :guard ((seen (Num 1))))",
     "a guard is a call of a primitive, or (= <expression> <expression>)"},
    {"(rule ())", "usage: (rule (<fact>*) (<action>*) <option>*)"},
    {"(birewrite (Num 1))", "usage: (birewrite <expression> <expression> <option>*)"},
    {"(rewrite (Num 1))", "usage: (rewrite <expression> <expression> <option>*)"},
    {"(let $s (seen (Num 1)))", "a fact of a relation has no value that a global could hold"},
    {"(explain (Num 1))", "usage: (explain <expression> <expression>)"},
    {"(explain 1 1)", "expected a term of a sort of classes: values of other sorts are equal where they are "
                      "the same"},
    {"(input f)", "usage: (input <function> \"<file>\")"},
    {"(input seen \"x\")", "values of the sort E cannot be read from a file"},
    {"(output \"x\")", "usage: (output \"<file>\" <expression>+)"},
    {"(rule ((< x 3)) ())",
     "'x' is not grounded: it has to be an argument or the value of a function or constructor, or computed "
     "from such values"},
    {"(rule ((= 7 (+ (+ 1 x) 2))) ())",
     "'x' is not grounded: it has to be an argument or the value of a function or constructor, or computed "
     "from such values"},
    {"(rule ((< _ 3)) ())",
     "this value is not grounded: it has to be an argument or the value of a function or constructor, or "
     "computed from such values"},
    {"(fail)", "usage: (fail <command>)"},
    {"(fail (include \"x\"))", "include cannot stand in (fail ...)"},
    {"(include x)", "expected the name of a file in quotes"},
    {"(include)", "usage: (include \"<file>\")"},
    {"(push 1 2)", "usage: (push <number>?)"},
    {"(pop 1 2)", "usage: (pop <number>?)"},
    {"(rule () () 7)", "expected an option, which starts with ':'"},
    {"(rule () () :naive :naive)", ":naive stands here twice"},
    {"(rule () () :naive 7)", ":naive takes no value"},
    {"(rule () () :name 7)", ":name takes a string"},
    {"(rule () () :name)", ":name takes a string"},
    {"(ruleset :x)", "expected the name of a ruleset, found the option ':x'"},
    {"(extract)", "usage: (extract <expression> [<number of variants>])"},
    {"(print-size f f)", "usage: (print-size [<function>])"},
    {"(print-function)",
     "usage: (print-function <function> [<rows>] [:file \"<file>\"] [:mode default|csv])"},
    {"(print-function f :mode json)", "expected default or csv"},
    {"(run 1 :until)", ":until takes facts"},
    {"(run-schedule (repeat))", "usage: (repeat <number> <schedule>*)"},
    {"(run-schedule (forever))",
     "expected a schedule: a ruleset, (run ...), (seq ...), (saturate ...) or (repeat <number> ...)"},
    {"(Num 1) (delete (Num 1)) (let $x (Num 2)) (delete (Num 2)) (extract $x)",
     "there is no finite term of this class: its rows are subsumed, deleted, unextractable or cyclic"},
    {"(sort V (Vec i64)) (sort W (Vec i64)) (extract (vec-empty))",
     "it is not known which 'vec-empty' is meant: () -> V, () -> W"},
    {"(rule ((= x 1.5) (= x (+ a b)) (= a 2)) ())",
     "no variant of '+' takes (i64 an unknown sort) and gives f64; known: "},
};

TEST(EggErrorTexts, Programs) {
  for (const auto& [program, expected] : forms) {
    const std::string text = message(declarations + program);
    // The list of variants differs with the sorts that there are.
    EXPECT_EQ(std::string_view(expected).ends_with("known: ")
                  ? text.substr(0, std::string_view(expected).size())
                  : text,
              expected)
        << program;
  }
}

TEST(EggErrorTexts, Limits) {
  std::string names;
  for (int i = 0; i < 120; ++i) names += fmt::format("n{} ", i);
  EXPECT_EQ(
      message(fmt::format("(foreach @a ({0}) (foreach @b ({0}) (foreach @c ({0}) (x @a @b @c))))", names)),
      "foreach makes more than a million copies");
  const std::string endless =
      "(datatype N (Z) (S N)) (rule ((= n (S m))) ((S n))) (S (Z)) (run-schedule (saturate (run)))";
  EggOptions rows;
  rows.limits.rows = 4;
  EXPECT_EQ(message(endless, rows), "stopped at the limit of rows in iteration 3");
  EggOptions time;
  time.seconds = 1e-9;
  EXPECT_EQ(message(endless, time), "stopped at the limit of 1e-09 seconds");
  EXPECT_EQ(message("(datatype N (Z) (P N N)) (function top () N :merge new) (set (top) (Z))"
                    "(rule ((= n (top))) ((set (top) (P n n)))) (run 60) (extract (top))"),
            "the term is longer than 256 MiB as text");
}

class EggFiles : public testing::Test {
protected:
  void SetUp() override { std::filesystem::create_directories(folder_); }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string file(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ / name) << text;
    return (folder_ / name).string();
  }
  std::filesystem::path folder_ =
      std::filesystem::temp_directory_path() / ("luminal_egg_texts_" + std::to_string(getpid()));
};

TEST_F(EggFiles, Tables) {
  const auto read = [&](const std::string& text) {
    const std::string path = file("t.tsv", text);
    std::string error = message("(function g (i64) f64 :merge new) (input g \"" + path + "\")");
    return error.starts_with(path) ? error.substr(path.size() + 1) : error;
  };
  EXPECT_EQ(read("1\t2.5\n"), "no error");
  EXPECT_EQ(read("1\n"), "1: expected 2 fields separated by tabs, found 1");
  EXPECT_EQ(read("1\t2\n1\t2\t3\n"), "2: expected 2 fields, found 3");
  EXPECT_EQ(read("x\t2\n"), "1: 'x' is not an integer of 64 bits");
  EXPECT_EQ(read("1\tx\n"), "1: 'x' is not a number");
}

TEST_F(EggFiles, Includes) {
  const std::string path = (folder_ / "self.egg").string();
  file("self.egg", "(include \"" + path + "\")");
  const std::string error = error_of([&] { EggProgram().run_file(path); });
  EXPECT_NE(error.find(": files are included deeper than 64 levels\n"), std::string::npos) << error;
  // A file with a mistake leaves the depth as it was.
  const std::string wrong = file("wrong.egg", "(nosuch)");
  EggProgram program;
  for (int i = 0; i < 200; ++i) {
    const std::string refused = error_of([&] { program.run("(include \"" + wrong + "\")"); });
    ASSERT_NE(refused.find("there is no command, function or primitive 'nosuch'"), std::string::npos)
        << i << ": " << refused;
  }
}

TEST(EggErrorTexts, Hosts) {
  EggProgram program;
  program.add_sort({.name = "H"});
  EXPECT_EQ(error_of([&] { program.add_sort({.name = "H"}); }), "the name 'H' of a sort is taken");
  EXPECT_EQ(error_of([&] {
              program.add_primitive({.name = "all", .inputs = {"H", "H"}, .output = "H", .variadic = true});
            }),
            "the variadic primitive 'all' needs one sort for all arguments");
  EXPECT_EQ(error_of([&] { program.add_primitive({.name = "p", .inputs = {"K"}, .output = "H"}); }),
            "there is no sort 'K'");
  EXPECT_EQ(error_of([&] { program.last_class(); }), "no global of this program is a class");
  program.define("$g", {program.sort("i64"), program.integer(1)});
  EXPECT_EQ(error_of([&] { program.define("$g", {program.sort("i64"), program.integer(1)}); }),
            "the name '$g' is taken");
  EXPECT_EQ(error_of([&] { program.evaluate("1 2"); }), "expected one expression");
  program.run("(ruleset r) (unstable-combined-ruleset c r)");
  EXPECT_EQ(error_of([&] { program.ruleset("c"); }), "'c' is a combined ruleset, expected one of its parts");
  EXPECT_EQ(error_of([&] { program.ruleset("d"); }), "there is no ruleset 'd'");
  program.add_action(
      {.name = "act", .inputs = {}, .output = "i64", .call = [](EGraph&, auto, Value&) { return false; }});
  std::string merge = error_of([&] { program.run("(function m () i64 :merge (act))", "a.egg"); });
  EXPECT_EQ(merge.substr(0, merge.find('\n')), "a.egg:1:27: a host action cannot stand in a merge");
  EXPECT_EQ(error_of([&] { view_dot(program, {program.sort("i64"), program.integer(1)}); }),
            "only classes can be drawn; this is a value of the sort i64");
}

} // namespace
} // namespace luminal::egraph
