// golden/tiles_test.cpp -- tuple folds with a product, in tiles of their reduction: the default
// schedule of random sizes, domains and machines equals the interpreter.
#include "golden/golden_support.h"
#include "support/seeds.h"
#include <fmt/format.h>

namespace luminal::kernel::tiles_test {
namespace {

using testing::HasSubstr;

struct Sizes {
  std::string heads = "1", groups = "1", queries, keys, depth, width;
  bool scores = true; // computed from Q and K; else an input
  std::string domain, symbols;
  bool narrow = false;  // bf16 inputs, f32 sums
  bool rounded = false; // weights are rounded to bf16 before they multiply the values
  // Results beside the sums, of every key whatever the domain hides:
  bool stores_scores = false, stores_weights = false;
};

std::string term_of(const Sizes& s) {
  const std::string head = s.heads == s.groups ? "h" : "h // 2";
  std::string text = s.symbols;
  const std::string scores =
      fmt::format(R"(%Q: {T}[{H}, {M}, {D}], %K: {T}[{G}, {N}, {D}])",
                  fmt::arg("T", s.narrow ? "bf16" : "f32"), fmt::arg("H", s.heads), fmt::arg("G", s.groups),
                  fmt::arg("M", s.queries), fmt::arg("N", s.keys), fmt::arg("D", s.depth));
  const char* f = s.narrow ? "f" : "";
  text += fmt::format("fn @tuple({}, %V: {}[{}, {}, {}]) {{\n",
                      s.scores ? scores : fmt::format("%s: f32[{}, {}, {}]", s.heads, s.queries, s.keys),
                      s.narrow ? "bf16" : "f32", s.groups, s.keys, s.width);
  if (s.narrow) text += "  %fV = cast f32 %V\n";
  if (s.narrow && s.scores) text += "  %fQ = cast f32 %Q\n  %fK = cast f32 %K\n";
  if (s.scores)
    text += fmt::format(R"(  %q = view %{f}Q [h: {H}, q: {M}, k: {N}, d: {D}] -> [h, q, d]
  %kk = view %{f}K [h: {H}, q: {M}, k: {N}, d: {D}] -> [{head}, k, d]
  %qk = mul %kk, %q
  %sf = fold [h: {H}, q: {M}, k: {N}, d: {D}] over [d] {{ sum %qk[h, q, k, d] }}
  %S = get %sf, 0
  %scale = const f32 0.2
  %sc = view %scale [h: {H}, q: {M}, k: {N}] -> []
  %s = mul %S, %sc
)",
                        fmt::arg("H", s.heads), fmt::arg("M", s.queries), fmt::arg("N", s.keys),
                        fmt::arg("D", s.depth), fmt::arg("head", head), fmt::arg("f", f));
  const std::string weights =
      !s.stores_weights
          ? ""
          : fmt::format(R"(  %m = get %F, 0
  %mm = view %m {axes} -> [h, q]
  %lw = view %l {axes} -> [h, q]
  %d = sub %s, %mm
  %x = exp2 %d
  %p = div %x, %lw
  %none = iota f32 {axes} -> 0
  %seen = iota bool {axes} -> {seen}
  %w = select %seen, %p, %none
)",
                        fmt::arg("axes", fmt::format("[h: {}, q: {}, k: {}]", s.heads, s.queries, s.keys)),
                        fmt::arg("seen", s.domain.empty() ? "1" : s.domain));
  text += fmt::format(
      R"(  %one = const f32 1
  %v = view %{f}V [h: {H}, k: {N}, e: {E}] -> [{head}, k, e]
  %F = fold [h: {H}, q: {M}, k: {N}, e: {E}] over [k]{domain} {{
    max %s[h, q, k];
    sum(select(old0 == -inf, 0, self * exp2(old0 - new0))) %one[];
    sum(select(old0 == -inf, 0, self * {weight})) %v[h, k, e]
  }}
  %l = get %F, 1
  %O = get %F, 2
  %ll = view %l [h: {H}, q: {M}, e: {E}] -> [h, q]
  %Out = div %O, %ll
{weights}  return Out = %Out{more}
}}
)",
      fmt::arg("H", s.heads), fmt::arg("M", s.queries), fmt::arg("N", s.keys), fmt::arg("E", s.width),
      fmt::arg("head", head), fmt::arg("f", f),
      fmt::arg("weight", s.rounded ? "cast<f32>(cast<bf16>(exp2(old0 - new0)))" : "exp2(old0 - new0)"),
      fmt::arg("domain", s.domain.empty() ? "" : " where " + s.domain), fmt::arg("weights", weights),
      fmt::arg("more",
               fmt::format("{}{}", s.stores_scores ? ", s = %s" : "", s.stores_weights ? ", w = %w" : "")));
  return text;
}

/// Runs the default kernel (with these answers) at each binding; gives its schedule's text.
std::string expect_right(const Sizes& sizes, const MachineLimits& limits, const Answers& answers,
                         const std::vector<std::map<std::string, int64_t>>& bindings, uint64_t seed) {
  const std::string term = term_of(sizes);
  Module module = parse_module(term, "tuple");
  EXPECT_THAT(verify(module), testing::IsEmpty()) << term;
  auto cone = cone_of(module.entry(), false);
  if (!cone) return cone.error();
  auto [schedule, kernel, decisions] = default_kernel(*cone, limits, answers);
  if (!kernel) return kernel.error();
  EXPECT_THAT(verify(*kernel), testing::IsEmpty()) << to_string(*kernel);
  for (const auto& symbols : bindings) {
    const Bindings inputs = random_bindings(module.entry(), {"tuple", symbols}, seed);
    KernelRun got = run_cone(module.entry(), *cone, *kernel, inputs, adversarial(seed, 1 + int(seed % 3)));
    EXPECT_TRUE(got.run.ok()) << got.run.text() << to_string(schedule) << term;
    if (!got.run.ok()) break;
    for (const auto& [name, want] : Interpreter(module, inputs).run())
      EXPECT_LE(difference(DType::f32, got.results.at(name), want), 2e-6) << name << "\n"
                                                                          << to_string(schedule) << term;
  }
  return to_string(schedule);
}

const MachineLimits avx512{.lanes = 16, .vector_registers = 32, .threads = 2},
    avx2{.lanes = 8, .vector_registers = 16, .threads = 3},
    dots{.lanes = 16, .vector_registers = 32, .threads = 2, .units = {"avx512.dpbf16"}};

TEST(Tiles, RandomSizes) {
  int tiled = 0;
  const test::Seeds seeds = test::seeds(101, 50);
  for (uint64_t seed = seeds.first; seed < seeds.end(); seed++) {
    std::mt19937_64 random(seed);
    const auto in = [&](int64_t low, int64_t high) {
      return low + int64_t(random() % uint64_t(high - low + 1));
    };
    Sizes s;
    s.groups = std::to_string(in(1, 2));
    s.heads = random() % 2 ? s.groups : std::to_string(2 * std::stoi(s.groups));
    s.queries = std::to_string(in(1, 129));
    s.keys = std::to_string(in(1, 129));
    s.depth = std::to_string(in(1, 40));
    s.width = std::to_string(in(1, 40));
    s.scores = random() % 4 != 0;
    const char* domains[] = {"", "", "k <= q", "q <= k", "k <= q and q < k + 20"};
    s.domain = domains[random() % 5];
    s.narrow = random() % 3 == 0;
    s.stores_scores = random() % 4 == 0;
    s.stores_weights = random() % 3 == 0;
    const MachineLimits& limits = s.narrow ? dots : random() % 2 ? avx512 : avx2;
    Answers answers;
    if (random() % 2)
      answers = {
          {"F.vectors", in(0, 1) ? 1 : 2}, {"F.rows", in(0, 1) ? 2 : 8}, {"F.depth", in(0, 1) ? 32 : 128}};
    SCOPED_TRACE(fmt::format("seed {}", seed));
    tiled += expect_right(s, limits, answers, {{}}, seed).find("cascade F k.o") != std::string::npos;
    if (testing::Test::HasFailure()) return;
  }
  if (!seeds.own) EXPECT_GT(tiled, 8);
}

// A block of keys that holds all of them: not in tiles, and 18 columns are one pair of vectors and
// a rest.
TEST(Tiles, OnePairOfVectorsAndARest) {
  expect_right({"1", "1", "29", "56", "8", "18", false, "", ""}, avx2, {{"F.depth", 128}}, {{}}, 3);
}

TEST(Tiles, OneScheduleForAllLengths) {
  for (const char* domain : {"", "k <= q + past"}) {
    Sizes s{"2", "1", "S", "past + S", "24", "20", true, domain, "symbol S: 1..96\nsymbol past: 0..100\n"};
    const std::string schedule = expect_right(s, avx512, {},
                                              {{{"S", 1}, {"past", 0}},
                                               {{"S", 1}, {"past", 77}},
                                               {{"S", 33}, {"past", 0}},
                                               {{"S", 96}, {"past", 100}}},
                                              7);
    EXPECT_THAT(schedule, HasSubstr("cascade F k.o"));
    if (testing::Test::HasFailure()) return;
  }
}

// Pairs of bf16 are read as words: of the keys in place, of the queries from a copy with the lanes
// side by side.
TEST(Tiles, ScoresOfNarrowNumbersTakeTheDotInstruction) {
  for (const char* domain : {"", "k <= q"}) {
    const std::string schedule =
        expect_right({"2", "1", "70", "96", "32", "20", true, domain, "", true}, dots, {}, {{}}, 5);
    for (const char* part : {"unit sf avx512.dpbf16\nmaterialize s s.row\nfuse sf s.row\nstage Q Q.lanes",
                             "cascade F k.o", "store Q.lanes q.o d.words q"})
      EXPECT_THAT(schedule, HasSubstr(part));
  }
  // Pairs that begin at an odd place are none.
  EXPECT_THAT(expect_right({"2", "1", "70", "96", "33", "20", true, "", "", true}, dots, {}, {{}}, 5),
              testing::Not(HasSubstr("unit sf")));
}

TEST(Tiles, LanesAlongTheQueriesAndAProductInRegisters) {
  const std::string schedule =
      expect_right({"2", "2", "96", "128", "32", "32", true, "", ""}, avx512, {}, {{}}, 3);
  for (const char* part : {"operand sf k sf.lanes", "cascade F k.o", "unroll sf k.i.i q.v",
                           "unroll O e.i q.v", "fuse sf s.row", "store s.row k.o k q", "unroll Out q.l"})
    EXPECT_THAT(schedule, HasSubstr(part));
  EXPECT_THAT(expect_right({"2", "2", "96", "128", "32", "32", true, "k <= q", ""}, avx512, {}, {{}}, 4),
              HasSubstr("predicate_bound O k.i"));
}

// Each weight is rounded once, in the frame of its tile: the result lies within 2^-9 of the values'
// magnitude around that without rounding, and is the same with and without the instruction, which
// sees the same tiles. Special values are inputs.
void expect_rounded(const Sizes& sizes, const MachineLimits& limits, Answers answers, uint64_t seed,
                    std::initializer_list<const char*> parts, bool special = false) {
  const std::string term = term_of(sizes);
  Module module = parse_module(term, "tuple");
  ASSERT_THAT(verify(module), testing::IsEmpty()) << term;
  Bindings inputs = random_bindings(module.entry(), {"tuple", {}}, seed);
  if (special) {
    std::mt19937_64 random(seed);
    for (auto& [name, t] : inputs.inputs) // of the last rows, which not all queries see
      for (double x : {double(NAN), double(INFINITY), -double(INFINITY)})
        store_f64(t.dtype, t.data.data(), t.count() - 1 - int64_t(random() % uint64_t(t.count() / 8)), x);
  }
  const HostTensor exact = Interpreter(module, inputs, InterpMode::f64).run().at("Out");
  auto cone = cone_of(module.entry(), false);
  ASSERT_TRUE(bool(cone));
  std::vector<std::byte> results[2];
  int tiled = 0;
  for (const bool with_dots : {true, false}) {
    if (!with_dots) answers["O.unit"] = 0;
    auto [schedule, kernel, decisions] = default_kernel(*cone, limits, answers);
    ASSERT_TRUE(bool(kernel)) << kernel.error() << to_string(schedule);
    EXPECT_THAT(verify(*kernel), testing::IsEmpty()) << to_string(*kernel);
    for (const char* part : parts)
      EXPECT_EQ(to_string(schedule).find(part) != std::string::npos, with_dots) << part << "\n"
                                                                                << to_string(schedule);
    tiled += to_string(schedule).find("cascade F k.o") != std::string::npos;
    for (const int workers : {1, 2}) {
      KernelRun got = run_cone(module.entry(), *cone, *kernel, inputs, adversarial(seed, workers));
      ASSERT_TRUE(got.run.ok()) << got.run.text() << to_string(schedule) << to_string(*kernel) << term;
      if (workers == 2) {
        EXPECT_EQ(got.results.at("Out"), results[with_dots]) << to_string(schedule);
      }
      results[with_dots] = got.results.at("Out");
    }
    const auto& out = results[with_dots];
    for (int64_t i = 0; i < exact.count(); i++) {
      const double a = load_f64(DType::f32, out.data(), i), b = exact.at(i);
      EXPECT_TRUE(a == b || std::fabs(a - b) < 0x1.01p-8 || (std::isnan(a) && std::isnan(b)))
          << i << ": " << a << " and " << b << "\n"
          << to_string(schedule) << term;
      if (testing::Test::HasFailure()) return;
    }
  }
  if (tiled < 2) return; // the frames are others
  for (int64_t i = 0; i < exact.count(); i++) {
    const double a = load_f64(DType::f32, results[0].data(), i),
                 b = load_f64(DType::f32, results[1].data(), i);
    ASSERT_TRUE(a == b || std::fabs(a - b) < 4e-6 || (std::isnan(a) && std::isnan(b)))
        << i << ": " << a << " and " << b;
  }
}

TEST(Tiles, RoundedWeightsTakeTheDotInstruction) {
  for (const char* domain : {"", "k <= q", "q <= k", "k <= q and q < k + 21"})
    for (const bool special : {false, true}) {
      SCOPED_TRACE(fmt::format("{} {}", domain, special));
      const std::initializer_list<const char*> parts = {"unit O avx512.dpbf16 O.weights O.operand",
                                                        "at O.weights k.o"};
      // copies of the values in the loops of the heads, and before all blocks; a remainder of half
      // a word
      expect_rounded({"4", "2", "70", "96", "16", "20", true, domain, "", true, true}, dots, {}, 5, parts,
                     special);
      expect_rounded({"1", "1", "45", "77", "12", "36", true, domain, "", true, true}, dots,
                     {{"F.vectors", 2}}, 6, parts, special);
      if (testing::Test::HasFailure()) return;
    }
}

TEST(Tiles, RoundedWeightsOfRandomSizes) {
  for (uint64_t seed = 1; seed <= 8; seed++) {
    std::mt19937_64 random(seed);
    const auto in = [&](int64_t low, int64_t high) {
      return std::to_string(low + int64_t(random() % uint64_t(high - low + 1)));
    };
    Sizes s{.queries = in(17, 80), .keys = in(32, 129), .depth = in(1, 20), .width = in(1, 40)};
    s.groups = in(1, 3);
    s.heads = random() % 2 ? s.groups : std::to_string(2 * std::stoi(s.groups));
    const char* domains[] = {"", "k <= q", "q <= k + 5", "k <= q and q < k + 20"};
    s.domain = domains[random() % 4];
    s.scores = random() % 4 != 0;
    s.narrow = s.rounded = true;
    SCOPED_TRACE(fmt::format("seed {}", seed));
    expect_rounded(s, dots, {{"F.depth", random() % 2 ? 32 : 64}, {"F.rows", random() % 2 ? 2 : 8}}, seed,
                   {});
    if (testing::Test::HasFailure()) return;
  }
}

} // namespace
} // namespace luminal::kernel::tiles_test
