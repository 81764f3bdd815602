// egg/egg_host_test.cpp -- a host program's sorts, primitives and actions in texts; what it asks of
// a program afterwards.
#include "egg/egg_program.h"
#include "egg/egg_view.h"
#include "luminal/error.h"
#include <algorithm>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <map>
#include <nlohmann/json.hpp>

namespace luminal::egraph {
namespace {

/// Sets of letters, interned: the axes of a tensor.
struct Axes {
  std::vector<std::string> sets{""};
  std::map<std::string, Value> known{{"", 0}};
  Value intern(std::string letters) {
    std::sort(letters.begin(), letters.end());
    letters.erase(std::unique(letters.begin(), letters.end()), letters.end());
    const auto [at, fresh] = known.try_emplace(letters, Value(sets.size()));
    if (fresh) sets.push_back(letters);
    return at->second;
  }
};

void add_axes(EggProgram& program, Axes& axes) {
  HostSort sort;
  sort.name = "Axes";
  sort.print = [&axes](Value v) { return "(axes \"" + axes.sets[v] + "\")"; };
  program.add_sort(sort);
  program.add_primitive({.name = "axes",
                         .inputs = {"String"},
                         .output = "Axes",
                         .call = [&](std::span<const Value> a, Value& out) {
                           out = axes.intern(std::string(program.string_of(a[0])));
                           return true;
                         }});
  program.add_primitive({.name = "join",
                         .inputs = {"Axes"},
                         .output = "Axes",
                         .call =
                             [&axes](std::span<const Value> a, Value& out) {
                               std::string all;
                               for (const Value v : a) all += axes.sets[v];
                               out = axes.intern(all);
                               return true;
                             },
                         .variadic = true});
  // Partial: not defined where `b` is not part of `a`.
  program.add_primitive({.name = "without",
                         .inputs = {"Axes", "Axes"},
                         .output = "Axes",
                         .call = [&axes](std::span<const Value> a, Value& out) {
                           std::string rest;
                           for (const char c : axes.sets[a[0]])
                             if (axes.sets[a[1]].find(c) == std::string::npos) rest += c;
                           if (rest.size() + axes.sets[a[1]].size() != axes.sets[a[0]].size()) return false;
                           out = axes.intern(rest);
                           return true;
                         }});
}

const char* const theory = R"(
(datatype T (Input String) (Mul T T) (Sum Axes T))
(function shape (T) Axes :no-merge)
(rule ((= t (Mul a b)) (= x (shape a)) (= y (shape b))) ((set (shape t) (join x y))))
(rule ((= t (Sum k a)) (= s (without (shape a) k))) ((set (shape t) s)))
; A factor without the axes leaves the sum.
(rewrite (Sum k (Mul a b)) (Mul a (Sum k b)) :when ((= s (shape a))) :guard ((= s (without (join s k) k))) :reassoc)
(let $a (Input "a")) (set (shape $a) (axes "i"))
(let $b (Input "b")) (set (shape $b) (axes "ki"))
(let $e (Sum (axes "k") (Mul $a $b)))
)";

TEST(EggHost, ValuesOfTheHostAreComputedAndGuardRules) {
  Axes axes;
  EggProgram program;
  add_axes(program, axes);
  program.run(theory);
  EXPECT_EQ(program.print(program.evaluate("(axes \"kji\")")), "(axes \"ijk\")");
  program.run("(run 5) (check (= (shape $e) (axes \"i\")))");
  EXPECT_TRUE(program.holds("(= $e (Mul (Input \"a\") (Sum (axes \"k\") (Input \"b\"))))"));
  EXPECT_FALSE(program.holds("(= $e (Mul (Sum (axes \"k\") (Input \"a\")) (Input \"b\")))"));
  EXPECT_EQ(program.extract(program.evaluate("$e")).cost, 7);
}

TEST(EggHost, APrimitiveThatIsNotDefinedFailsAsAnAction) {
  Axes axes;
  EggProgram program;
  add_axes(program, axes);
  EXPECT_THAT([&] { program.run("(extract (without (axes \"i\") (axes \"k\")))", "x.egg"); },
              testing::ThrowsMessage<Error>(testing::StartsWith(
                  "x.egg:1:10: the primitive 'without' is not defined for these arguments")));
}

TEST(EggHost, RulesBeyondTheNumericClassAreLeftOut) {
  Axes axes;
  EggOptions options;
  options.numeric = NumericClass::exact;
  EggProgram program(options);
  add_axes(program, axes);
  program.run(theory);
  program.run("(run 5)");
  EXPECT_FALSE(program.holds("(= $e (Mul (Input \"a\") (Sum (axes \"k\") (Input \"b\"))))"));
}

TEST(EggHost, ActionsMakeTermsInRulesAndCommands) {
  EggProgram program;
  program.run("(datatype N (Z) (S N)) (relation want (i64))");
  program.add_action({.name = "number",
                      .inputs = {"i64"},
                      .output = "N",
                      .call = [&](EGraph& graph, std::span<const Value> a, Value& out) {
                        const int64_t n = program.values().integer_of(a[0]);
                        if (n < 0) return false;
                        out = graph.add(program.op("Z"), {});
                        for (int64_t i = 0; i < n; ++i) out = graph.add(program.op("S"), std::span(&out, 1));
                        return true;
                      }});
  program.run("(rule ((want n)) ((number n)) :name \"make\") (want 3) (run 1)");
  EXPECT_EQ(program.sizes(), "((S 3)\n (Z 1)\n (want 1))\n");
  program.run("(union (number 3) (number 4)) (check (= (S (S (S (S (Z))))) (S (S (S (Z))))))");
  EXPECT_THAT([&] { program.run("(want -1) (run 1)"); },
              testing::ThrowsMessage<Error>(testing::HasSubstr("'number' is not defined")));
  EXPECT_THAT([&] { program.run("(rule ((= x (number 2))) ())"); },
              testing::ThrowsMessage<Error>(testing::HasSubstr("(not in facts)")));
}

TEST(EggHost, ReadingPrimitivesNeedNaiveRules) {
  EggProgram program;
  program.run("(relation seen (i64)) (relation many ())");
  program.add_primitive({.name = "rows",
                         .inputs = {},
                         .output = "i64",
                         .call =
                             [&](std::span<const Value>, Value& out) {
                               out = program.integer(int64_t(program.graph().size(program.op("seen"))));
                               return true;
                             },
                         .reads = true});
  EXPECT_THAT([&] { program.run("(rule ((seen x) (= n (rows))) ((many)))"); },
              testing::ThrowsMessage<Error>(testing::HasSubstr("(not in rules without :naive)")));
  program.run("(seen 1) (seen 2) (check (= (rows) 2))");
}

TEST(EggHost, SortsThatHoldClassesAreRebuilt) {
  // Unordered pairs of classes.
  std::vector<std::pair<Value, Value>> pairs;
  const auto intern = [&](Value a, Value b) {
    const std::pair<Value, Value> p = std::minmax(a, b);
    const auto at = std::find(pairs.begin(), pairs.end(), p);
    if (at == pairs.end()) return pairs.push_back(p), Value(pairs.size() - 1);
    return Value(at - pairs.begin());
  };
  EggProgram program;
  program.run("(datatype T (A) (B) (C))");
  HostSort sort;
  sort.name = "Two";
  sort.rebuild = [&](Value v, const Finder& find) {
    const auto p = pairs[v];
    return intern(find(p.first), find(p.second));
  };
  program.add_sort(sort);
  program.add_primitive({.name = "two",
                         .inputs = {"T", "T"},
                         .output = "Two",
                         .call = [&](std::span<const Value> a, Value& out) {
                           out = intern(a[0], a[1]);
                           return true;
                         }});
  program.run("(constructor Join (Two) T) (let $x (Join (two (A) (B)))) (let $y (Join (two (C) (B))))"
              "(check (= (two (A) (B)) (two (B) (A)))) (fail (check (= $x $y)))"
              "(union (A) (C)) (check (= $x $y))");
}

TEST(EggHost, ARuleThatSubsumesARowHasNotMadeIt) {
  EggProgram program;
  program.run(R"(
    (sort E) (constructor Num (i64) E) (constructor Twice (E) E) (constructor Shift (E) E)
    (rewrite (Twice a) (Shift a) :name "shift")
    (rule ((= e (Shift a)) (= e (Twice a))) ((subsume (Shift a)) (subsume (Twice a))) :name "hide")
    (Twice (Num 1)) (run 3))");
  EGraph& graph = program.graph();
  const auto maker = [&](const char* op) {
    std::optional<std::string> name;
    graph.for_each_row(program.op(op), [&](const RowView& row) {
      EXPECT_TRUE(row.subsumed);
      const RuleId rule = graph.creator(row.op, row.row);
      name = rule == absent ? "the host" : graph.rule(rule).name;
      return true;
    });
    return name;
  };
  EXPECT_EQ(maker("Shift"), "shift");
  EXPECT_EQ(maker("Twice"), "the host");
}

TEST(EggHost, HashesOfContainersAreThoseOfTheirContents) {
  const std::string sorts = R"(
    (sort E) (constructor Num (i64) E) (constructor Name (String) E)
    (sort Es (Vec E)) (sort ESet (Set E)) (sort Bag (MultiSet E)) (sort EMap (Map E i64)) (sort EPair (Pair E Es))
    (relation v (Es)) (relation s (ESet)) (relation b (Bag)) (relation m (EMap)) (relation p (EPair)))";
  const auto hash = [&](const std::string& facts) {
    EggProgram program;
    program.run(sorts + facts);
    return program.graph().structural_hash();
  };
  const std::string one = R"(
    (v (vec-of (Num 1) (Name "a"))) (s (set-of (Num 1) (Name "a"))) (b (multiset-of (Num 1) (Num 1) (Name "a")))
    (m (map-insert (map-insert (map-empty) (Num 1) 10) (Name "a") 20)) (p (pair (Num 1) (vec-of (Name "a")))))";
  // Other numbers of classes, strings and containers; the same facts.
  const std::string other = R"(
    (Name "a") (p (pair (Num 1) (vec-of (Name "a")))) (m (map-insert (map-insert (map-empty) (Name "a") 20) (Num 1) 10))
    (b (multiset-of (Name "a") (Num 1) (Num 1))) (s (set-of (Name "a") (Num 1))) (v (vec-of (Num 1) (Name "a"))))";
  EXPECT_EQ(hash(one), hash(other));
  const std::pair<std::string, std::string> changes[] = {
      {"(v (vec-of (Num 1) (Name \"a\")))", "(v (vec-of (Name \"a\") (Num 1)))"},
      {"(set-of (Num 1) (Name \"a\"))", "(set-of (Num 1))"},
      {"(multiset-of (Num 1) (Num 1) (Name \"a\"))", "(multiset-of (Num 1) (Name \"a\") (Name \"a\"))"},
      {"(map-insert (map-empty) (Num 1) 10)", "(map-insert (map-empty) (Num 1) 11)"},
      {"(pair (Num 1) (vec-of (Name \"a\")))", "(pair (Num 1) (vec-of (Num 1)))"}};
  for (const auto& [from, to] : changes) {
    std::string changed = one;
    ASSERT_NE(changed.find(from), std::string::npos) << from;
    EXPECT_NE(hash(changed.replace(changed.find(from), from.size(), to)), hash(one)) << to;
  }
}

TEST(EggHost, DefinedGlobalsAreSeenByTexts) {
  EggProgram program;
  program.define("$most", {program.sort("i64"), program.integer(5)});
  program.run(
      "(ruleset grow) (relation n (i64)) (rule ((n x) (< x $most)) ((n (+ x 1))) :ruleset grow) (n 0)");
  EXPECT_EQ(program.saturate("grow", 100), 6u);
  EXPECT_EQ(program.graph().size(program.op("n")), 6u);
  EXPECT_EQ(program.totals().iterations, 6u);
  EXPECT_THROW(program.define("$most", {program.sort("i64"), 0}), Error);
  EXPECT_THROW(program.saturate("shrink", 1), Error);
  EXPECT_THROW(program.sort("Nothing"), Error);
  EXPECT_THROW(program.op("nothing"), Error);
}

TEST(EggHost, StatisticsAreCountsPerRule) {
  EggProgram program;
  program.run("(relation n (i64)) (rule ((n x) (< x 3)) ((n (+ x 1))) :name \"up\") (n 0) (run 10)");
  const auto json = nlohmann::json::parse(program.stats_json());
  EXPECT_EQ(json["matches"], 3);
  EXPECT_EQ(json["rules"][0]["name"], "up");
  EXPECT_EQ(json["rules"][0]["matches"], 3);
  EXPECT_THAT(program.stats_table(), testing::HasSubstr("up"));
  EXPECT_GT(program.bytes(), 0u);
}

TEST(EggHost, OutputsHavePlacesAndCosts) {
  std::vector<EggOutput> outputs;
  EggOptions options;
  options.output = [&](const EggOutput& out) { outputs.push_back(out); };
  EggProgram program(options);
  program.run("(datatype T (A :cost 7))\n(extract (A))\n  (print-size)", "o.egg");
  ASSERT_EQ(outputs.size(), 2u);
  EXPECT_EQ(outputs[0].command, "extract");
  EXPECT_EQ(outputs[0].place, "o.egg:2:1");
  EXPECT_EQ(outputs[0].text, "(A)\n");
  EXPECT_EQ(outputs[0].cost, 7);
  EXPECT_EQ(outputs[1].place, "o.egg:3:3");
  EXPECT_EQ(outputs[1].text, "((A 1))\n");
}

TEST(EggView, DrawingsSayWhatTheyHide) {
  EggProgram program;
  program.run("(datatype T (Leaf i64) (Pair T T)) (let $p (Pair (Leaf 1) (Pair (Leaf 2) (Leaf 3))))"
              "(union $p (Leaf 9)) (rewrite (Pair a b) (Pair b a) :name \"<swap>\") (run 3)");
  const std::string all = view_dot(program, program.last_class());
  EXPECT_THAT(all, testing::HasSubstr("8 rows shown, 0 hidden"));
  EXPECT_THAT(all, testing::ContainsRegex("label=.Leaf 9.*color=red"));
  EXPECT_THAT(view_dot(program, program.last_class(), 3), testing::HasSubstr("3 rows shown, 5 hidden"));
  const std::string page = view_html(program, program.last_class(), 4);
  EXPECT_THAT(page, testing::HasSubstr("4 rows shown, 4 hidden"));
  EXPECT_THAT(page, testing::HasSubstr("cost 8, by &lt;swap&gt;"));
  EXPECT_THAT(page, testing::HasSubstr("data-links=\"1\" data-text=\"(Pair T #0 T #3), cost 8\""));
  EXPECT_EQ(page.find("<swap>"), std::string::npos); // no text of a program is part of the page
  EXPECT_THROW(view_dot(program, program.evaluate("7")), Error);
}

} // namespace
} // namespace luminal::egraph
