// golden/lowering_test.cpp -- each case: term + schedule -> the loop IR that is written down, whose
// numbers equal the term interpreter's. LUMINAL_UPDATE=1 writes the loop IR anew.
#include "golden/lowered_loops.h"
#include <fmt/format.h>

namespace luminal::kernel::lowering_test {
namespace {

std::vector<GoldenCase> cases() {
  return {
      {"matmul_ragged", {{"M", 29}}},
      {"conv_dilated", {}},
      {"conv_input_gradient", {}},
      {"layernorm", {{"R", 11}}},
      {"attention", {}},
      {"attention_split", {{"T", 203}}},
      {"q4_0_matvec", {}, false, 5e-6, {{"w", {0, 59}}}},
      {"q4_k_matvec", {}, false, 5e-6, {{"w", {0, 59}}}},
      {"kv_append", {{"past", 37}, {"S", 5}}, true},
      {"paged_gather", {{"T", 77}}, false, 0, {{"table", {0, 11}}}},
      {"routing", {}, false, 2e-6, {{"list", {0, 9}}, {"count", {0, 8}}}},
      {"top2", {{"R", 13}}, false, 0},
      {"masked_rows", {{"R", 13}}, false, 2e-6, {{"a", {0, 5}}, {"b", {0, 5}}}},
      {"two_outputs", {{"R", 23}}},
      {"concat_pad", {}, false, 0},
  };
}

class Golden : public testing::TestWithParam<GoldenCase> {};

TEST_P(Golden, LoopsAndNumbers) {
  const GoldenCase& c = GetParam();
  auto folder = golden_folder() / c.name;
  Module module = parse_module(read_text(folder / "term.lum"), c.name + "/term.lum");
  ASSERT_THAT(verify(module), testing::IsEmpty());
  const Function& function = module.entry();
  auto cone = cone_of(function, c.in_place);
  ASSERT_TRUE(cone.ok()) << cone.error();
  ASSERT_THAT(verify(*cone), testing::IsEmpty()) << to_string(*cone);
  Schedule schedule = parse_schedule(read_text(folder / "schedule.txt"), c.name + "/schedule.txt");
  EXPECT_EQ(parse_schedule(to_string(schedule)), schedule);
  auto kernel = lower(*cone, schedule);
  ASSERT_TRUE(kernel.ok()) << kernel.error();
  std::string text = to_string(*kernel);
  ASSERT_THAT(verify(*kernel), testing::IsEmpty()) << text;
  EXPECT_TRUE(same(parse_kernel(text), *kernel));
  if (std::getenv("LUMINAL_UPDATE")) std::ofstream(folder / "loops.txt") << text;
  EXPECT_EQ(text, read_text(folder / "loops.txt")) << "LUMINAL_UPDATE=1 writes it anew";

  for (uint64_t seed : {1, 2}) {
    Bindings bindings = random_bindings(function, c, seed);
    auto want = Interpreter(module, bindings).run();
    std::map<std::string, std::vector<std::byte>> first;
    for (int workers : {1, 2, 3}) {
      KernelRun got = run_cone(function, *cone, *kernel, bindings, adversarial(seed, workers));
      EXPECT_TRUE(got.run.ok()) << got.run.text();
      for (auto& [name, bytes] : got.results)
        EXPECT_LE(difference(want.at(name).dtype, bytes, want.at(name)), c.tolerance)
            << name << ", " << workers << " workers, seed " << seed;
      if (first.empty()) first = got.results;
      EXPECT_EQ(first, got.results) << "the result depends on the number of workers";
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, Golden, testing::ValuesIn(cases()),
                         [](auto& tested) { return tested.param.name; });

/// A prefetch may reach beyond the last trip, and changes no number.
TEST(GoldenPrefetch, ReachesBeyondTheLoop) {
  GoldenCase c{"two_outputs", {{"R", 23}}};
  auto folder = golden_folder() / c.name;
  Module module = parse_module(read_text(folder / "term.lum"), "two_outputs/term.lum");
  auto cone = cone_of(module.entry(), false);
  ASSERT_TRUE(cone.ok()) << cone.error();
  std::string directives = read_text(folder / "schedule.txt") + "prefetch y x jo 8\n";
  auto kernel = lower(*cone, parse_schedule(directives, "prefetch"));
  ASSERT_TRUE(kernel.ok()) << kernel.error();
  std::string text = to_string(*kernel);
  ASSERT_THAT(verify(*kernel), testing::IsEmpty()) << text;
  EXPECT_THAT(text, testing::HasSubstr("prefetch x[i*50 + jo*16 + 128]"));
  Bindings bindings = random_bindings(module.entry(), c, 1);
  auto want = Interpreter(module, bindings).run();
  KernelRun got = run_cone(module.entry(), *cone, *kernel, bindings, adversarial(1, 2));
  EXPECT_TRUE(got.run.ok()) << got.run.text();
  for (auto& [name, bytes] : got.results)
    EXPECT_LE(difference(want.at(name).dtype, bytes, want.at(name)), c.tolerance) << name;
}

Module small_product() {
  return parse_module("fn @mm(%A: f32[23, 70], %B: f32[70, 32]) {\n"
                      "  %a = view %A [m: 23, n: 32, k: 70] -> [m, k]\n"
                      "  %b = view %B [m: 23, n: 32, k: 70] -> [k, n]\n"
                      "  %p = mul %a, %b\n"
                      "  %f = fold [m: 23, n: 32, k: 70] over [k] { sum %p[m, n, k] }\n"
                      "  %C = get %f, 0\n  return C = %C\n}\n",
                      "mm");
}

/// Results are asked for where they will be written, tile by tile; a value that the stage has
/// nothing to do with is refused.
TEST(GoldenPrefetch, ResultsOfTheNextTile) {
  const Module module = small_product();
  auto cone = cone_of(module.entry(), false);
  ASSERT_TRUE(cone.ok()) << cone.error();
  const std::string tiles =
      "split f n v l 16\nsplit f m t i 4\nsplit f k c d 32\norder f c t d i v l\nvector f l\n"
      "unroll f i v\n";
  auto kernel = lower(*cone, parse_schedule(tiles + "prefetch f C t 1\n", "results"));
  ASSERT_TRUE(kernel.ok()) << kernel.error();
  const std::string text = to_string(*kernel);
  ASSERT_THAT(verify(*kernel), testing::IsEmpty()) << text;
  EXPECT_THAT(text, testing::HasSubstr("prefetch C[i*32 + t*128 + v*16 + 128]"));
  Bindings bindings = random_bindings(module.entry(), {"mm", {}}, 1);
  auto want = Interpreter(module, bindings).run();
  KernelRun got = run_cone(module.entry(), *cone, *kernel, bindings, adversarial(1, 2));
  EXPECT_TRUE(got.run.ok()) << got.run.text();
  for (auto& [name, bytes] : got.results)
    EXPECT_LE(difference(want.at(name).dtype, bytes, want.at(name)), 1e-5) << name;
  auto copied = lower(*cone, parse_schedule("stage B P\nprefetch P C n 1\n", "copy"));
  ASSERT_FALSE(copied.ok());
  EXPECT_THAT(copied.error(), testing::HasSubstr("stage P does not touch C"));
}

/// Tiles that pass by one panel ask for the next one together: each line once.
TEST(GoldenPrefetch, OfThePanelThatAllTilesPassBy) {
  const Module module = small_product();
  const auto cone = cone_of(module.entry(), false);
  ASSERT_TRUE(cone.ok()) << cone.error();
  const std::string tiles = "split f n v l 16\nsplit f m t i 4\norder f v t k i l\nvector f l\nunroll f i\n";
  const Schedule schedule = parse_schedule(tiles + "prefetch f B v t k 1\n", "panels");
  EXPECT_EQ(parse_schedule(to_string(schedule)), schedule);
  const auto kernel = lower(*cone, schedule);
  ASSERT_TRUE(kernel.ok()) << kernel.error();
  const std::string text = to_string(*kernel);
  ASSERT_THAT(verify(*kernel), testing::IsEmpty()) << text;
  // 70 lines of one vector, 6 tiles of 70 trips.
  const std::string share = "prefetch B[t*352 + v*16 + ((k + t*4) // 6)*32 + 16]";
  EXPECT_THAT(text, testing::HasSubstr(share));
  // Blocks of the sum are trips of the same loop.
  const auto blocked = lower(*cone, parse_schedule(to_string(schedule) + "blocked_sum f k 35\n", "blocks"));
  ASSERT_TRUE(blocked.ok()) << blocked.error();
  EXPECT_THAT(to_string(*blocked), testing::HasSubstr(share));
}

/// The copies at the head of a loop fill a ring for what follows: the same numbers for any depth,
/// arrival and number of workers.
TEST(GoldenRoles, CopiesAreMadeAhead) {
  const Module module = small_product();
  const auto cone = cone_of(module.entry(), false);
  ASSERT_TRUE(cone.ok()) << cone.error();
  const std::string blocks =
                        "stage A P\nsplit * m t i 8\nsplit * k c d 16\norder P t c i d\norder f t c i d n\n"
                        "vector f n\nparallel * t\n",
                    ring = "at f c\nstore P c m k\n";
  const Bindings bindings = random_bindings(module.entry(), {"mm", {}}, 1);
  const auto want = Interpreter(module, bindings).run();
  for (const int depth : {1, 2, 3}) {
    const Schedule schedule = parse_schedule(blocks + ring + fmt::format("roles f c {}\n", depth), "ring");
    EXPECT_EQ(parse_schedule(to_string(schedule)), schedule);
    const auto kernel = lower(*cone, schedule);
    ASSERT_TRUE(kernel.ok()) << kernel.error();
    const std::string text = to_string(*kernel);
    ASSERT_THAT(verify(*kernel), testing::IsEmpty()) << text;
    EXPECT_THAT(text, testing::HasSubstr(fmt::format("roles c in 0..5 stages {}\n", depth)));
    EXPECT_THAT(text, testing::HasSubstr(fmt::format("local P: f32[{}]", depth * 8 * 16)));
    EXPECT_TRUE(same(parse_kernel(text), *kernel));
    for (uint64_t seed = 1; seed <= 3; seed++)
      for (const int workers : {1, 2, 3})
        for (const Kernel& made : {*kernel, expand_roles(*kernel)}) {
          const KernelRun got = run_cone(module.entry(), *cone, made, bindings, adversarial(seed, workers));
          EXPECT_TRUE(got.run.ok()) << got.run.text();
          EXPECT_LE(difference(DType::f32, got.results.at("C"), want.at("C")), 2e-6) << depth;
        }
  }
  const auto refused = lower(*cone, parse_schedule(blocks + "roles f c 2\n", "no copies inside"));
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.error(), testing::HasSubstr("roles c: the loop does not begin with copies"));
  EXPECT_FALSE(lower(*cone, parse_schedule(blocks + ring + "roles f c 0\n", "no ring")).ok());
}

/// Lanes that lie apart are asked for one by one, neighbours together; what is written can be asked
/// for as well.
TEST(GoldenPrefetch, LinesOfLanesAndOfResults) {
  const Module module = parse_module("fn @turn(%x: f32[64, 48]) {\n  %t = view %x [i: 48, j: 64] -> [j, i]\n"
                                     "  %y = neg %t\n  return y = %y\n}",
                                     "turn");
  auto cone = cone_of(module.entry(), false);
  ASSERT_TRUE(cone.ok()) << cone.error();
  const std::string stage = cone->stages.front().name;
  const std::string i = cone->axes.front().name, j = cone->axes[AxisId(1)].name;
  const std::string text =
      fmt::format("split {0} {1} io iu 16\nsplit {0} {2} jo jl 16\norder {0} io jo iu jl\nunroll {0} iu\n"
                  "vector {0} jl\nprefetch {0} x io jo 1\nprefetch {0} y io jo 1\n",
                  stage, i, j);
  auto kernel = lower(*cone, parse_schedule(text, "turn"));
  ASSERT_TRUE(kernel.ok()) << kernel.error();
  EXPECT_THAT(verify(*kernel), testing::IsEmpty());
  const std::string loops = to_string(*kernel);
  EXPECT_THAT(loops, testing::HasSubstr("        unrolled jl in 0..16\n"
                                        "          prefetch x[io*16 + jl*48 + jo*768 + 16]\n"));
  EXPECT_THAT(loops, testing::HasSubstr("        unrolled iu in 0..16\n"
                                        "          prefetch y[io*1024 + iu*64 + jo*16 + 1024]\n"));
}

/// Lanes that lie a few elements apart reach over several lines.
TEST(GoldenPrefetch, LinesOfOneVector) {
  const Module module = parse_module("fn @pick(%x: f32[9, 96]) {\n  %t = view %x [i: 9, j: 32] -> [i, 3*j]\n "
                                     " %y = neg %t\n  return y = %y\n}",
                                     "pick");
  auto cone = cone_of(module.entry(), false);
  ASSERT_TRUE(cone.ok()) << cone.error();
  const std::string stage = cone->stages.front().name, i = cone->axes.front().name,
                    j = cone->axes[AxisId(1)].name;
  auto kernel = lower(*cone, parse_schedule(fmt::format("split {0} {2} jo jl 16\nvector {0} jl\n"
                                                        "prefetch {0} x {1} jo 2\n",
                                                        stage, i, j),
                                            "pick"));
  ASSERT_TRUE(kernel.ok()) << kernel.error();
  EXPECT_THAT(verify(*kernel), testing::IsEmpty());
  const std::string loops = to_string(*kernel);
  for (const int place : {192, 208, 224})
    EXPECT_THAT(loops, testing::HasSubstr(fmt::format("prefetch x[{}*96 + jo*48 + {}]\n", i, place)));
  EXPECT_THAT(loops, testing::Not(testing::HasSubstr("240]\n")));
}

/// What a copy will need in the next trip is asked for while the sum that reads this one runs, a
/// share in each trip of a loop that the copy lacks; rows of which several trips of the sum meet
/// one line, in order of their addresses.
TEST(GoldenPrefetch, LinesAreDealtOutToTrips) {
  const std::string term = "fn @mm(%A: f32[24, 64], %B: f32[64, 32]) {\n"
                           "  %a = view %A [m: 24, n: 32, k: 64] -> [m, k]\n"
                           "  %b = view %B [m: 24, n: 32, k: 64] -> [k, n]\n"
                           "  %p = mul %a, %b\n"
                           "  %f = fold [m: 24, n: 32, k: 64] over [k] { sum %p[m, n, k] }\n"
                           "  %C = get %f, 0\n  return C = %C\n}\n";
  const auto text_of = [&](const std::string& schedule) { return loops_of(term, schedule, {}, 1e-5); };
  const std::string tiles = "stage A P\nsplit * m t i 4\nsplit P k c d 16\norder P t i c d\nvector P d\n"
                            "split f n v l 16\norder f t v k i l\nvector f l\nunroll f i\n",
                    together = "at f t\nstore P t m k\n";
  // Four rows are one piece of 16 lines: 8 in each of two trips, one in each fourth of 64.
  const std::string by_vectors = text_of(tiles + together + "prefetch P A t v 1\n");
  EXPECT_THAT(by_vectors, testing::HasSubstr("prefetch A[t*256 + v*128 + 256]\n"));
  EXPECT_THAT(by_vectors, testing::HasSubstr("prefetch A[t*256 + v*128 + 368]\n"));
  EXPECT_THAT(by_vectors, testing::Not(testing::HasSubstr("prefetch A[t*256 + v*128 + 384]\n")));
  EXPECT_THAT(text_of(tiles + together + "prefetch P A t k 2\n"),
              testing::HasSubstr("        prefetch A[t*256 + (k // 4)*16 + 512]\n"));
  // The sum itself reads A: 16 trips meet the same lines of four rows.
  EXPECT_THAT(text_of("split f m t i 4\nsplit f n v l 16\norder f t v k i l\nvector f l\nunroll f i\n"
                      "prefetch f A t k 1\n"),
              testing::HasSubstr("        prefetch A[t*256 + (k // 4)*16 + 256]\n"));
  EXPECT_THAT(text_of(tiles + together + "prefetch P A c v 1\n"),
              testing::HasSubstr("loop v does not run in loop c"));
  EXPECT_THAT(text_of(tiles + together + "prefetch P A t w 1\n"), testing::HasSubstr("no stage has loop w"));
}

/// The rows that one word is put together from are asked for together; rows that are left over take
/// their share.
TEST(GoldenAhead, WordsAreAskedForWhileOthersAreMultiplied) {
  const std::string text =
      loops_of("fn @f(%A: bf16[3, 10, 64], %B: bf16[3, 64, 48]) {\n"
               "  %a = view %A [b: 3, m: 10, n: 48, k: 64] -> [b, m, k]\n"
               "  %x = cast f32 %a\n"
               "  %w = view %B [b: 3, m: 10, n: 48, k: 64] -> [b, k, n]\n"
               "  %y = cast f32 %w\n"
               "  %p = mul %x, %y\n"
               "  %f = fold [b: 3, m: 10, n: 48, k: 64] over [k] { sum %p[b, m, n, k] }\n"
               "  %C = get %f, 0\n  return C = %C\n}\n",
               "unit f avx512.dpbf16 W\nsplit W n o u 16\nvector W u\nsplit f k.words c d 32\n"
               "split f m t i 4\nsplit f n v l 16\norder f b c t d i v l\nvector f l\nunroll f i v\n"
               "at f b\nprefetch W B b d 2\n",
               {}, 1e-5);
  // 96 lines in 96 trips, of which the last 32 are the rest of the rows.
  EXPECT_THAT(text, testing::HasSubstr("        prefetch B[b*3072 + d*32 + t*1024 + 6144]\n"));
  EXPECT_THAT(text, testing::HasSubstr("      prefetch B[b*3072 + d*32 + 8192]\n"));
  EXPECT_EQ(count_of(text, "prefetch"), 2) << text;
}

/// Partial sums are combined as far as they go.
TEST(GoldenSplits, PartsThatEndInTheMiddleAreNotSplitAgain) {
  const std::string term = R"(fn @f(%X: f32[5, 63]) {
  %f = fold [i: 5, j: 63] over [j] { sum %X[i, j] }
  %s = get %f, 0
  return s = %s
}
)";
  const auto check = [&](int parts) {
    return loops_of(term,
                    fmt::format("split * i io ii 2\nsplit_reduction f j pairs 4\nsplit_reduction f.combine "
                                "j.part pairs {}\nsplit_reduction f j.in pairs 4\n",
                                parts));
  };
  EXPECT_THAT(check(2), is_right);
  EXPECT_THAT(check(3), testing::HasSubstr("keeps parts of an axis that does not end with them"));
}

/// An axis that ends in two ways, with the whole and with a block of it: whole tiles end with both.
TEST(GoldenSplits, WholeTilesEndWithTheirBlock) {
  for (const int64_t rows : {1, 77, 78, 79, 129})
    EXPECT_THAT(loops_of("symbol M: 1..129\nfn @f(%X: f32[M, 3]) {\n"
                         "  %f = fold [m: M, k: 3] over [k] { sum %X[m, k] }\n"
                         "  %s = get %f, 0\n  return s = %s\n}\n",
                         "split f m m.o m.i 78\nsplit f m.i p q 2\nsplit f p a b 2\norder f m.o a b k q\n"
                         "unroll f q\nparallel f m.o\n",
                         {{"M", rows}}),
                is_right);
}

/// What covers more than the axis that was split is not copied whole; names of copies are names.
TEST(GoldenSplits, PartsBeyondTheEndAreNotCopied) {
  const std::string term = "fn @mm(%A: f32[4, 7], %B: f32[7, 8]) {\n"
                           "  %a = view %A [m: 4, n: 8, k: 7] -> [m, k]\n"
                           "  %b = view %B [m: 4, n: 8, k: 7] -> [k, n]\n  %p = mul %a, %b\n"
                           "  %f = fold [m: 4, n: 8, k: 7] over [k] { sum %p[m, n, k] }\n"
                           "  %C = get %f, 0\n  return C = %C\n}\n";
  const auto lowered = [&](const std::string& schedule) { return loops_of(term, schedule); };
  EXPECT_THAT(lowered("split_reduction f k serial 7\noperand f n x\n"), is_right);
  for (const char* split : {"serial 2", "serial 8", "serial 2 8", "pairs 4 1"})
    EXPECT_THAT(lowered(fmt::format("split_reduction f k {}\noperand f n x\n", split)),
                testing::HasSubstr("beyond the end of what was split: a copy would, too"))
        << split;
  for (const char* directive : {"split_reduction f k serial 2", "split f k o i"})
    EXPECT_THAT(lowered(fmt::format("{} {}\n", directive, std::numeric_limits<int64_t>::max())),
                testing::HasSubstr("9223372036854775807 is more than any axis has"));
  for (const char* name : {"*", "shared"})
    EXPECT_THAT(lowered(fmt::format("stage A {}\n", name)),
                testing::HasSubstr(fmt::format("{} is not a name of a loop or a value", name)));
}

/// The loop of what one worker does has a name that nothing else has.
TEST(GoldenNames, ALoopMayBeCalledOne) {
  for (const char* schedule : {"", "split f k one_2 two 2\n"})
    EXPECT_THAT(loops_of("fn @f(%X: f32[3, 7]) {\n"
                         "  %f = fold [one: 3, k: 7] over [k] { sum %X[one, k] }\n"
                         "  %s = get %f, 0\n  return s = %s\n}\n",
                         schedule),
                is_right);
}

/// What is made where a domain holds is not read elsewhere: a copy would be of elements that nobody
/// wrote.
TEST(GoldenDomains, NothingIsCopiedThatIsNotMade) {
  const GoldenCase c{"attention", {}};
  const Module module = parse_module(read_text(golden_folder() / c.name / "term.lum"), c.name);
  auto cone = cone_of(module.entry(), false);
  ASSERT_TRUE(cone) << cone.error();
  for (const char* copy : {"stage F.w x", "padded_copy F.w x", "operand O e x", "stage S x",
                           "padded_copy S x", "materialize s x"}) {
    const auto kernel =
        lower(*cone, parse_schedule(fmt::format("cascade F root\npredicate_bound sf k\n{}\n", copy)));
    EXPECT_THAT(kernel ? copy : kernel.error(), testing::HasSubstr("a copy would read what nobody wrote"));
  }
  EXPECT_TRUE(lower(*cone, parse_schedule("stage S x\ncascade F root\npredicate_bound x k\n")));
}

/// Both parts of a cut axis write what the whole would have; an axis that is summed stays whole.
TEST(GoldenCut, TwoStagesWriteOneValue) {
  const std::string term = R"(fn @f(%X: f32[7, 9]) {
  %f = fold [i: 7, j: 9] over [j] { sum %X[i, j] }
  %s = get %f, 0
  return S = %s
}
)";
  const auto lowered = [&](const std::string& schedule) { return loops_of(term, schedule); };
  const std::string parallel = lowered("split_at f i 4\nparallel f.p0 i.p0\n");
  EXPECT_THAT(parallel, testing::HasSubstr("parallel i.p0 in 0..4\n"));
  EXPECT_THAT(parallel, testing::HasSubstr("s[i.p1 + 4] = "));
  EXPECT_THAT(lowered("split_at f i 4\nvector f.p1 j\n"), testing::HasSubstr("f.p1.acc: f32[16]"));
  EXPECT_THAT(lowered("split_at f j 4\n"), testing::HasSubstr("reduces j, which split_reduction cuts"));
  EXPECT_THAT(lowered("split_at f i 7\n"), testing::HasSubstr("i is not cut in two after 7 elements"));
  EXPECT_THAT(lowered("split_at f i 0\n"), testing::HasSubstr("i is not cut in two after 0 elements"));
  EXPECT_THAT(lowered("split f i a b 2\nsplit_at f i 4\n"), testing::HasSubstr("have been changed"));
}

/// A loop that is written out is merged where the trips of both are known, and few.
TEST(GoldenSplits, MergedLoopsAreWrittenOutWhereTheirTripsAreKnown) {
  const std::string term = "symbol M: 1..129\nfn @f(%X: f32[M, 64, 3]) {\n"
                           "  %f = fold [m: M, n: 64, k: 3] over [k] { sum %X[m, n, k] }\n"
                           "  %s = get %f, 0\n  return s = %s\n}\n";
  const auto lowered = [&](const std::string& schedule) { return loops_of(term, schedule, {{"M", 29}}); };
  EXPECT_THAT(lowered("order f n m k\nmerge f n m nm\n"), is_right);
  EXPECT_THAT(lowered("split f n a b 8\nunroll f a b\nmerge f a b n\n"), is_right);
  EXPECT_THAT(lowered("order f n m k\nunroll f n\nmerge f n m nm\n"),
              testing::HasSubstr("which is not a constant: it cannot be unrolled"));
  EXPECT_THAT(lowered("split f m o i 64\norder f n i o k\nunroll f n i\nmerge f n i ni\n"),
              testing::HasSubstr("loop ni has 4096 trips: too many to write out"));
}

/// Tiles of a merged loop that begin behind the end of the axis do nothing, also where the axis
/// ends with a whole tile.
TEST(GoldenSplits, MergedLoopsEndWithTheAxis) {
  EXPECT_THAT(loops_of("fn @f(%X: f32[52, 6, 3]) {\n"
                       "  %f = fold [o: 52, i: 6, k: 3] over [k] { sum %X[o, i, k] }\n"
                       "  %s = get %f, 0\n  return s = %s\n}\n",
                       "split f o oo oi 16\nsplit f oi tile row 4\norder f oo tile i k row\nunroll f row\n"
                       "merge f tile i both\n"),
              is_right);
}

/// The cell of an LSTM is a kernel; the loop around it carries its results.
TEST(GoldenLstm, TheLoopCarriesTheCell) {
  GoldenCase c{"lstm", {}};
  auto folder = golden_folder() / c.name;
  Module module = parse_module(read_text(folder / "term.lum"), "lstm/term.lum");
  ASSERT_THAT(verify(module), testing::IsEmpty());
  const Function& cell = *module.find("cell");
  auto cone = cone_of(cell, false);
  ASSERT_TRUE(cone.ok()) << cone.error();
  auto kernel = lower(*cone, parse_schedule(read_text(folder / "schedule.txt"), "lstm/schedule.txt"));
  ASSERT_TRUE(kernel.ok()) << kernel.error() << to_string(*cone);
  std::string text = to_string(*kernel);
  ASSERT_THAT(verify(*kernel), testing::IsEmpty()) << text;
  if (std::getenv("LUMINAL_UPDATE")) std::ofstream(folder / "loops.txt") << text;
  EXPECT_EQ(text, read_text(folder / "loops.txt")) << "LUMINAL_UPDATE=1 writes it anew";
  Bindings outer = random_bindings(module.entry(), c, 1);
  auto want = Interpreter(module, outer).run();
  std::map<std::string, std::vector<std::byte>> first;
  for (int workers : {1, 2, 3}) {
    Bindings step = random_bindings(cell, c, 1);
    for (const char* name : {"W", "U", "b"}) step.inputs[name] = outer.inputs[name];
    step.inputs["h"] = outer.inputs["h0"];
    step.inputs["c"] = outer.inputs["c0"];
    for (int64_t t = 0; t < 6; t++) {
      auto& row = step.inputs["x"];
      auto& rows = outer.inputs["xs"];
      std::copy_n(rows.data.begin() + t * int64_t(row.data.size()), row.data.size(), row.data.begin());
      KernelRun got = run_cone(cell, *cone, *kernel, step, adversarial(uint64_t(t), workers));
      ASSERT_TRUE(got.run.ok()) << got.run.text();
      step.inputs["h"].data = got.results.at("h");
      step.inputs["c"].data = got.results.at("c");
    }
    EXPECT_LE(difference(DType::f32, step.inputs["h"].data, want.at("h")), c.tolerance);
    EXPECT_LE(difference(DType::f32, step.inputs["c"].data, want.at("c")), c.tolerance);
    std::map<std::string, std::vector<std::byte>> now{{"h", step.inputs["h"].data},
                                                      {"c", step.inputs["c"].data}};
    if (first.empty()) first = now;
    EXPECT_EQ(first, now);
  }
}

/// Blocks of quantised weights: no division or remainder is left for an element.
TEST(GoldenQuantised, NoDivisionInTheLoops) {
  for (const char* name : {"q4_0_matvec", "q4_k_matvec"}) {
    std::string text = read_text(golden_folder() / name / "loops.txt");
    EXPECT_THAT(text, testing::HasSubstr("vector"));
    for (const char* sign : {"//", " % ", " / ", "div("})
      EXPECT_THAT(text, testing::Not(testing::HasSubstr(sign))) << name;
  }
}

/// 70 queries leave 6 lanes over: only what copies queries says so, all else runs on scratch with
/// all lanes. And scores are written out once, whether the diagonal crosses them or not: for 16
/// keys and for the 6 at the end.
TEST(GoldenAttention, HasNoMoreBodiesThanItNeeds) {
  const Module module = parse_module(read_text(golden_folder() / "attention" / "term.lum"), "attention");
  const auto cone = cone_of(module.entry(), false);
  ASSERT_TRUE(cone.ok()) << cone.error();
  MachineLimits limits;
  limits.lanes = 16;
  limits.vector_registers = 32;
  LowerOptions options;
  options.lanes = limits.lanes;
  const auto kernel = lower(*cone, default_schedule(*cone, limits), options);
  ASSERT_TRUE(kernel.ok()) << kernel.error();
  const std::string text = to_string(*kernel);
  EXPECT_EQ(count_of(text, " masked "), 1) << text;
  EXPECT_EQ(count_of(text, "fma(K["), 2) << text;
}

/// Appending to a cache costs what is appended, whatever the context.
TEST(GoldenKvAppend, BytesWrittenDoNotDependOnTheContext) {
  GoldenCase c{"kv_append", {{"past", 0}, {"S", 3}}, true};
  Module module = parse_module(read_text(golden_folder() / c.name / "term.lum"));
  auto cone = cone_of(module.entry(), true);
  ASSERT_TRUE(cone.ok()) << cone.error();
  auto kernel = lower(*cone, parse_schedule(read_text(golden_folder() / c.name / "schedule.txt")));
  ASSERT_TRUE(kernel.ok()) << kernel.error();
  std::set<int64_t> touched;
  for (int64_t past : {0, 1, 100, 499}) {
    c.symbols["past"] = past;
    KernelRun got = run_cone(module.entry(), *cone, *kernel, random_bindings(module.entry(), c, 5), {});
    ASSERT_TRUE(got.run.ok()) << got.run.text();
    int64_t bytes = 0;
    for (auto& traffic : got.run.counts.buffers) bytes += traffic.read + traffic.written;
    touched.insert(bytes);
  }
  EXPECT_EQ(touched, std::set<int64_t>{3 * 2 * 8 * (2 + 4)}) << "f16 written, f32 read";
}

/// The default schedule of the same cones, for machines of several widths.
class GoldenDefault : public testing::TestWithParam<GoldenCase> {
protected:
  void SetUp() override {
    const GoldenCase& c = GetParam();
    module_ = parse_module(read_text(golden_folder() / c.name / "term.lum"), c.name);
    auto cone = cone_of(module_.entry(), c.in_place);
    ASSERT_TRUE(cone.ok()) << cone.error();
    cone_ = *cone;
    bindings_ = random_bindings(module_.entry(), c, 3);
    want_ = Interpreter(module_, bindings_).run();
  }
  /// A legal kernel whose numbers are the term interpreter's.
  void expect_numbers(const Kernel& kernel, const std::string& about) {
    ASSERT_THAT(verify(kernel), testing::IsEmpty()) << to_string(kernel);
    KernelRun got = run_cone(module_.entry(), cone_, kernel, bindings_, adversarial(7, 2));
    EXPECT_TRUE(got.run.ok()) << got.run.text() << about << to_string(kernel);
    for (auto& [name, bytes] : got.results)
      EXPECT_LE(difference(want_.at(name).dtype, bytes, want_.at(name)), GetParam().tolerance)
          << name << ", " << about;
  }

  Module module_;
  Cone cone_;
  Bindings bindings_;
  decltype(std::declval<Interpreter>().run()) want_;
};

TEST_P(GoldenDefault, Numbers) {
  for (int lanes : {4, 8, 16}) {
    MachineLimits limits;
    limits.lanes = lanes;
    limits.vector_registers = lanes == 16 ? 32 : 16;
    limits.threads = 2;
    Schedule schedule = default_schedule(cone_, limits);
    EXPECT_EQ(parse_schedule(to_string(schedule)), schedule);
    LowerOptions options;
    options.lanes = lanes;
    auto kernel = lower(cone_, schedule, options);
    ASSERT_TRUE(kernel.ok()) << kernel.error() << "\n" << to_string(schedule);
    expect_numbers(*kernel, std::to_string(lanes) + " lanes\n" + to_string(schedule));
  }
}

/// Whatever is answered to the questions of the default schedule: a legal kernel with the same
/// numbers.
TEST_P(GoldenDefault, OtherAnswers) {
  std::mt19937 random(17);
  std::set<std::string> tried;
  for (int i = 0; i < 12; ++i) {
    MachineLimits limits;
    limits.lanes = i % 3 == 0 ? 4 : 8;
    limits.vector_registers = i % 2 == 0 ? 32 : 16;
    limits.threads = 1 + i % 2;
    Answers answers;
    // What is asked depends on what was answered.
    for (int round = 0; round < 3; ++round)
      for (const Decision& d : default_kernel(cone_, limits, answers).decisions)
        if (!answers.contains(d.name)) answers[d.name] = d.options[random() % d.options.size()];
    EXPECT_EQ(parse_answers(to_string(answers)), answers);
    DefaultKernel chosen = default_kernel(cone_, limits, answers);
    ASSERT_TRUE(chosen.kernel.ok()) << chosen.kernel.error();
    if (!tried.insert(to_string(chosen.schedule)).second) continue;
    expect_numbers(*chosen.kernel, to_string(answers) + "\n" + to_string(chosen.schedule));
  }
  EXPECT_GT(tried.size(), 1u);
}

INSTANTIATE_TEST_SUITE_P(Cases, GoldenDefault, testing::ValuesIn(cases()),
                         [](auto& tested) { return tested.param.name; });

/// Every well-formed cone has loops without any directive: sums over different axes are stages, and
/// a scan carries its state along the innermost loop, whichever axis that is.
TEST(PlainLoops, TuplesOverDifferentAxesAndScansAlongAny) {
  EXPECT_THAT(loops_of(R"(
fn @main(%a: f32[6, 8], %b: f32[6, 4, 8]) {
  %s = fold [m: 6, n: 4, k: 8] over [k] { sum %a[m, k]; max %b[m, n, k] }
  %p = get %s, 0
  %q = get %s, 1
  return p = %p, q = %q
})",
                       ""),
              is_right);
  for (const char* how : {"along m", "along n", "along m exclusive", "along m reverse", "along n reverse"})
    EXPECT_THAT(loops_of(fmt::format(R"(
fn @main(%x: f32[6, 8, 3]) {{
  %s = scan [m: 6, n: 8, c: 3] {} {{ sum %x[m, n, c] }}
  %t = get %s, 0
  return t = %t
}})",
                                     how),
                         ""),
                is_right)
        << how;
}

} // namespace
} // namespace luminal::kernel::lowering_test
