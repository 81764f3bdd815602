// egg/egg_errors_test.cpp -- the texts of mistakes: where they point, what they say was expected;
// and hostile programs.
#include "egg/egg_program.h"
#include "luminal/error.h"
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace luminal::egraph::egg_errors_test {
namespace {

/// The message of running `text`; empty where it runs.
std::string message(const std::string& text, EggOptions options = {}) {
  EggProgram program(std::move(options));
  try {
    program.run(text, "a.egg");
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

struct Mistake {
  const char* program;
  const char* message; ///< its start
};
/// In the names of the tests.
void PrintTo(const Mistake& mistake, std::ostream* out) { *out << mistake.program; }

const std::string declarations = "(datatype E (Num i64) (Add E E)) (relation seen (E)) "
                                 "(function f (i64) i64 :merge new)\n";

class Mistakes : public testing::TestWithParam<Mistake> {};

TEST_P(Mistakes, SayWhereAndWhatWasExpected) {
  const std::string text = message(declarations + GetParam().program);
  EXPECT_THAT(text, testing::StartsWith(GetParam().message));
  // The line of the place is shown, and something under it is marked.
  EXPECT_NE(text.find("\n  "), std::string::npos) << text;
  EXPECT_NE(text.find('^'), std::string::npos) << text;
}

const Mistake mistakes[] = {
    // the text
    {"(Num 1", "a.egg:2:1: this list is not closed: the text ends, and 1 ')' is missing"},
    {"(Num 1))", "a.egg:2:8: ')' closes no list"},
    {"(extract \"abc", "a.egg:2:10: this string is not closed: the text ends before '\"'"},
    {"(extract \"a\\qc\")", "a.egg:2:12: unknown escape in a string (known: \\n \\t \\\\ \\\")"},
    {"(Num 99999999999999999999)", "a.egg:2:6: this integer does not fit 64 bits with sign"},
    {"(extract 1e999)", "a.egg:2:10: this number is too large for a double"},
    {"(extract \x01)", "a.egg:2:10: unexpected control character \\x01"},
    {"(extract \"\xff\")", "a.egg:2:11: this byte is not UTF-8"},
    {"hello", "a.egg:2:1: expected a command in parentheses"},
    {"(7)", "a.egg:2:1: expected a command in parentheses"},
    // names
    {"(nosuch 1)", "a.egg:2:2: there is no command, function or primitive 'nosuch'"},
    {"(Adt (Num 1) (Num 2))",
     "a.egg:2:2: there is no command, function or primitive 'Adt', did you mean 'Add'?"},
    {"(extract (Nun 1))", "a.egg:2:11: there is no function or primitive 'Nun', did you mean 'Num'?"},
    {"(extract $x)", "a.egg:2:10: '$x' is not bound here"},
    {"(extract Num)", "a.egg:2:10: 'Num' is a function; a call of it is written (Num ...)"},
    {"(relation r (Expr))", "a.egg:2:14: there is no sort 'Expr'"},
    {"(relation r (Num))", "a.egg:2:14: expected a sort; 'Num' is a function"},
    {"(sort E)", "a.egg:2:7: 'E' is declared already, as a sort"},
    {"(function max (i64) i64 :no-merge)", "a.egg:2:11: 'max' is the name of a primitive"},
    {"(ruleset @x)", "a.egg:2:10: '@x': names that start with '@' are reserved"},
    {"(rule ((seen seen)) ())", "a.egg:2:14: the variable 'seen' shadows a name that is declared"},
    {"(let $a 1) (rule ((seen a)) ())", "a.egg:2:25: the variable 'a' could be taken for the global '$a'"},
    {"(run nosuch 3)", "a.egg:2:6: there is no ruleset 'nosuch'"},
    {"(print-size nosuch)", "a.egg:2:13: there is no function 'nosuch'"},
    // sorts
    {"(Add 1 (Num 2))", "a.egg:2:6: expected the sort E; '1' has the sort i64"},
    {"(Add (Num 1))", "a.egg:2:1: 'Add' takes 2 arguments: (E E) -> E; found 1"},
    {"(extract (+ 1 2.0))", "a.egg:2:10: no variant of '+' takes (i64 f64); known: (i64 i64) -> i64"},
    {"(union (Num 1) 2)", "a.egg:2:16: expected the sort E; '2' has the sort i64"},
    {"(union 1 2)", "a.egg:2:1: values of the sort i64 cannot be united"},
    {"(union (seen (Num 1)) (seen (Num 2)))", "a.egg:2:1: facts of relations cannot be united"},
    {"(constructor C (i64) i64)", "a.egg:2:22: a constructor makes classes; i64 is a sort of values"},
    {"(set (Num 1) (Num 2))", "a.egg:2:6: 'Num' is a constructor: use union"},
    {"(set (seen (Num 1)) 1)", "a.egg:2:6: 'seen' is a relation: write (seen ...) without set"},
    {"(set (+ 1 2) 3)", "a.egg:2:7: '+' is a primitive; only rows of functions can be written"},
    {"(subsume (f 1))",
     "a.egg:2:10: 'f' is a function with a merge; only constructors and relations can be subsumed"},
    {"(sort V (Vec i64)) (sort W (Vec i64)) (extract (vec-empty))",
     "a.egg:2:48: it is not known which 'vec-empty' is meant"},
    {"(rule ((= x y)) ())", "a.egg:2:11: nothing tells the sort of 'x'"},
    {"(let $s (seen (Num 1)))", "a.egg:2:9: a fact of a relation has no value"},
    // variables
    {"(rule ((seen x)) ((seen y)))", "a.egg:2:25: 'y' is not bound here"},
    {"(rule ((< x 3)) ())", "a.egg:2:11: 'x' is not grounded"},
    {"(rewrite x (Num 1))", "a.egg:2:10: 'x' is not grounded"},
    {"(rule ((seen x)) ((let x (Num 1))))", "a.egg:2:24: 'x' is bound already"},
    {"(rule ((seen x)) ((seen _)))", "a.egg:2:25: '_' matches anything"},
    {"(rule ((= e (Num x))) ((set (f x) (f 1))))",
     "a.egg:2:35: the value of the function 'f' is looked up in an action"},
    // forms
    {"(let $x)", "a.egg:2:1: usage: (let <name> <expression>)"},
    {"(function g (i64) i64)",
     "a.egg:2:1: the function 'g' has to say what happens when it gets a second value"},
    {"(function g (i64) i64 :merge old :no-merge)", "a.egg:2:34: :merge and :no-merge exclude each other"},
    {"(function g (i64) i64 :mergee old)", "a.egg:2:23: unknown option ':mergee'; known: :merge, :no-merge"},
    {"(rewrite (Num 1) (Num 2) :when (seen (Num 1)))", "a.egg:2:33: expected a fact"},
    {"(rewrite (Num 1) (Num 2) :guard ((seen (Num 1))))", "a.egg:2:34: a guard is a call of a primitive"},
    {"(rewrite (Num x) (Num 2) :budget 0)", "a.egg:2:34: a budget is at least 1"},
    {"(rewrite (Num x) (Num 2) :exact :approx)",
     "a.egg:2:33: :exact, :reassoc, :range and :approx exclude each other"},
    {"(rule ((seen x)) ((seen x)) :naive :unsafe-seminaive)",
     "a.egg:2:36: :naive and :unsafe-seminaive exclude each other"},
    {"(rule ((seen x)) ((seen x)) :name \"r\") (rule ((seen x)) () :name \"r\")",
     "a.egg:2:40: there is a rule 'r' in this ruleset already"},
    {"(rule (seen x) ())", "a.egg:2:8: expected a fact: (= a b), or a call"},
    {"(foreach x (a) (print-size a))", "a.egg:2:10: what foreach replaces has a name that starts with '@'"},
    {"(foreach @x (1) (print-size))", "a.egg:2:14: foreach takes names"},
    {"(foreach @x)", "a.egg:2:1: usage: (foreach @<name> (<name>*) <command>*)"},
    {"(foreach @x (seen f) (print-size @xs))", "a.egg:2:34: there is no function 'seens'"},
    {"(fail (foreach @x (f) (print-size @x)))", "a.egg:2:7: foreach can only stand at the top level"},
    {"(run)", "a.egg:2:1: usage: (run <ruleset>? <number> [:until <fact>*])"},
    {"(run -1)", "a.egg:2:6: expected the number of iterations: an integer that is not negative"},
    {"(run-schedule (forever (run)))", "a.egg:2:15: expected a schedule"},
    {"(sort V (Vector i64))", "a.egg:2:10: expected a container: (Vec <sort>)"},
    {"(sort V (Map i64))", "a.egg:2:9: Map takes 2 sorts"},
    {"(pop)", "a.egg:2:1: there is no push left to go back to"},
    {"(include \"no such file.egg\")", "a.egg:2:10: no such file.egg: "},
    // runs
    {"(check (seen (Num 1)))", "a.egg:2:1: check failed"},
    {"(fail (Num 1))", "a.egg:2:1: this command should have failed"},
    {"(panic \"told\")", "a.egg:2:1: panic: told"},
    {"(extract (f 1))", "a.egg:2:10: the function 'f' has no value for these arguments"},
    {"(extract (/ 1 0))", "a.egg:2:10: the primitive '/' is not defined for these arguments"},
    {"(rule ((= e (Num x))) ((Num (/ 1 x)))) (Num 0) (run 1)",
     "a.egg:2:29: the primitive '/' is not defined for these arguments"},
    {"(Num 1) (delete (Num 1)) (let $x (Num 2)) (delete (Num 2)) (extract $x)",
     "a.egg:2:60: there is no finite term of this class"},
};

INSTANTIATE_TEST_SUITE_P(Egg, Mistakes, testing::ValuesIn(mistakes));

TEST(EggErrors, LongLinesAreShownAroundThePlace) {
  const std::string text = message("(extract (+ " + std::string(5000, '1') + "x))");
  EXPECT_THAT(text, testing::StartsWith("a.egg:1:13: "));
  EXPECT_LT(text.size(), 1000u);
}

TEST(EggErrors, AMistakeInsideFailIsNoFailure) {
  EXPECT_THAT(message("(fail (check (nosuch 1)))"), testing::StartsWith("a.egg:1:15: there is no function"));
}

// ---- hostile programs

TEST(EggHostile, DeepNestingIsRefused) {
  const std::string deep(100000, '(');
  EXPECT_THAT(message(deep), testing::HasSubstr("lists are nested deeper than 500 levels"));
  std::string term = "x";
  for (int i = 0; i < 499; ++i) term = "(F " + term + ")";
  EXPECT_EQ(message("(datatype T (F T) (x))(let $x (x))"), "");
  EXPECT_THAT(message("(datatype T (F T))" + term), testing::HasSubstr("'x' is not bound here"));
}

TEST(EggHostile, EndlessSchedulesMeetLimits) {
  const std::string endless =
      "(datatype N (Z) (S N)) (rule ((= n (S m))) ((S n))) (S (Z)) (run-schedule (saturate (run)))";
  EggOptions iterations;
  iterations.iterations = 50;
  EXPECT_THAT(message(endless, iterations), testing::HasSubstr("stopped at the limit of 50 iterations"));
  EggOptions rows;
  rows.limits.rows = 1000;
  EXPECT_THAT(message(endless, rows), testing::HasSubstr("stopped at the limit of rows"));
  EggOptions bytes;
  bytes.limits.bytes = 1 << 22;
  EXPECT_THAT(message(endless, bytes), testing::HasSubstr("stopped at the limit of bytes"));
  EggOptions time;
  time.seconds = 0.05;
  EXPECT_THAT(message(endless, time), testing::HasSubstr("stopped at the limit of"));
}

TEST(EggHostile, ALimitIsNoFailureToBeExpected) {
  EggOptions options;
  options.iterations = 5;
  EXPECT_THAT(
      message("(datatype N (Z) (S N)) (rule ((= n (S m))) ((S n))) (S (Z)) (fail (run 100))", options),
      testing::HasSubstr("stopped at the limit of 5 iterations"));
}

TEST(EggHostile, HugeRulesAreRefusedAndHugeActionsRun) {
  std::string facts, lets, last = "(Z)";
  for (int i = 0; i < 3000; ++i) {
    facts += "(= x" + std::to_string(i) + " x" + std::to_string(i + 1) + ")";
    lets += "(let x" + std::to_string(i) + " " + last + ")";
    last = "(S x" + std::to_string(i) + ")";
  }
  EXPECT_THAT(message("(datatype N (Z) (S N)) (rule (" + facts + ") ())"),
              testing::HasSubstr("more than 1000 facts in one rule or query"));
  EXPECT_EQ(message("(datatype N (Z) (S N)) (rule () (" + lets + ")) (run 1)"), "");
}

TEST(EggHostile, ExplodingRulesStopInsideOneIteration) {
  // 200 facts and four free atoms: 1.6e9 matches in the first iteration.
  std::string text = "(relation r (i64)) (relation all (i64 i64 i64 i64))";
  for (int i = 0; i < 200; ++i) text += "(r " + std::to_string(i) + ")";
  text += "(rule ((r a) (r b) (r c) (r d)) ((all a b c d))) (run 1)";
  EggOptions bytes;
  bytes.limits.bytes = 1 << 26;
  EXPECT_THAT(message(text, bytes), testing::HasSubstr("stopped at the limit of bytes"));
  EggOptions rows;
  rows.limits.rows = 10000;
  EXPECT_THAT(message(text, rows), testing::HasSubstr("stopped at the limit of rows"));
  EggOptions steps;
  steps.limits.steps = 100000;
  EXPECT_THAT(message(text, steps), testing::HasSubstr("stopped at the limit of steps"));
}

TEST(EggHostile, ContainersThatDoubleStop) {
  std::string text = "(sort V (Vec i64)) (let v0 (vec-of 1 2 3 4))";
  for (int i = 0; i < 40; ++i) text += fmt::format("(let v{} (vec-append v{} v{}))", i + 1, i, i);
  const std::string refused = message(text);
  EXPECT_THAT(refused, testing::HasSubstr("vec-append"));
  EXPECT_THAT(refused, testing::Not(testing::HasSubstr("out of memory")));
}

TEST(EggHostile, DeepAndWideTermsArePrintedOrRefused) {
  // A chain of 100,000 constructors, made by a rule.
  EggProgram chain;
  chain.run("(datatype N (Z) (S N)) (relation up (N i64)) (up (Z) 0)"
            "(rule ((up n i) (< i 20000)) ((up (S n) (+ i 1)))) (run 20000)");
  EXPECT_GT(chain.extract(chain.evaluate("(Z)")).text.size(), 2u);
  std::string longest;
  EggOptions options;
  options.output = [&](const EggOutput& out) { longest = out.text; };
  EggProgram again(options);
  again.run("(datatype N (Z) (S N)) (function top () N :merge new) (set (top) (Z))"
            "(rule ((= n (top))) ((set (top) (S n)))) (run 20000) (extract (top))");
  EXPECT_EQ(longest.size(), 20000u * 4 + 3 + 1);
  // A term that doubles 60 times has 2^60 nodes as a tree.
  EXPECT_THAT(message("(datatype N (Z) (P N N)) (function top () N :merge new) (set (top) (Z))"
                      "(rule ((= n (top))) ((set (top) (P n n)))) (run 60) (extract (top))"),
              testing::HasSubstr("the term is longer than"));
}

TEST(EggHostile, StringsStayBounded) {
  EXPECT_THAT(message("(function s () String :merge new) (set (s) \"xxxxxxxxxxxxxxxx\")"
                      "(rule ((= x (s))) ((set (s) (+ x x)))) (run 60)"),
              testing::HasSubstr("the primitive '+' is not defined"));
}

TEST(EggHostile, FilesIncludeThemselvesToAnEnd) {
  EggOptions options;
  options.files = false;
  EXPECT_THAT(message("(include \"x.egg\")", options), testing::HasSubstr("files cannot be read here"));
  EXPECT_THAT(message("(datatype T (A)) (print-function A :file \"x\")", options),
              testing::HasSubstr("files cannot be written here"));
}

TEST(EggHostile, ManyPushesAreRefused) {
  EXPECT_THAT(message("(push 1000000000)"), testing::HasSubstr("more than 1000 copies are kept"));
}

} // namespace
} // namespace luminal::egraph::egg_errors_test
