// loop/tile_units_test.cpp -- steps of a dot instruction become steps of a unit with tile registers, where
// whole tiles of them stand in a loop; the results stay.
#include "loop/tile_units.h"
#include "loop_support.h"
#include <bit>
#include <fmt/format.h>

namespace luminal::kernel {
namespace {

struct Shape {
  int rows = 32, vectors = 2, words = 48;
  bool words_of_a = false;       // a lies in u32 words, else in bf16 numbers
  std::string row_order = "r v"; // of the unrolled loops
  std::string more = "";         // statements of the loop over words
  std::string set_up = "0";      // what the accumulators begin with
};

/// y[r, v, l] = sum over w of the words a[r, w] and b[w, v, l], `words` of them in a row of a.
std::string product(const Shape& s) {
  const std::string a = s.words_of_a ? fmt::format("a: u32[{}] in", s.rows * s.words)
                                     : fmt::format("a: bf16[{}] in", 2 * s.rows * s.words);
  const std::string word_of_a = s.words_of_a ? fmt::format("a[{}*r + w]", s.words)
                                             : fmt::format("load<u32>(a[{}*r + 2*w])", 2 * s.words);
  const int columns = 16 * s.vectors;
  const std::string acc = fmt::format("acc[{}*r + 16*v + l]", columns);
  const std::string rows = fmt::format("unrolled r in 0..{}", s.rows),
                    vectors = fmt::format("unrolled v in 0..{}", s.vectors);
  const bool by_rows = s.row_order == "r v";
  return fmt::format(R"(kernel product({a}, b: u32[{b}] in, y: f32[{y}] inout; n: 0..{words}) lanes 16
  registers acc: f32[{y}]
  parallel one in 0..1
    unrolled r0 in 0..{rows}
      unrolled v0 in 0..{vectors}
        vector l0 in 0..16
          acc[{columns}*r0 + 16*v0 + l0] = {set_up}
    for w in 0..n
{more}      {outer}
        {inner}
          vector l in 0..16
            {acc} = avx512.dpbf16({acc}, {word}, b[{columns}*w + 16*v + l])
    unrolled r1 in 0..{rows}
      unrolled v1 in 0..{vectors}
        vector l1 in 0..16
          y[{columns}*r1 + 16*v1 + l1] = acc[{columns}*r1 + 16*v1 + l1]
)",
                     fmt::arg("a", a), fmt::arg("b", columns * s.words), fmt::arg("y", columns * s.rows),
                     fmt::arg("words", s.words), fmt::arg("rows", s.rows), fmt::arg("vectors", s.vectors),
                     fmt::arg("columns", columns), fmt::arg("set_up", s.set_up), fmt::arg("more", s.more),
                     fmt::arg("outer", by_rows ? rows : vectors), fmt::arg("inner", by_rows ? vectors : rows),
                     fmt::arg("acc", acc), fmt::arg("word", word_of_a));
}

/// Pairs of small integers as bf16: sums of them are exact in any order.
std::vector<uint32_t> random_words(size_t count, uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto half = [&] { return std::bit_cast<uint32_t>(float(int64_t(random() % 17) - 8)) >> 16; };
  std::vector<uint32_t> words(count);
  for (uint32_t& w : words) w = half() | half() << 16;
  return words;
}

std::vector<float> result(const Kernel& kernel, const Shape& s, int64_t n) {
  Arguments args;
  args.set("a", random_words(size_t(s.rows) * size_t(s.words), 1));
  args.set("b", random_words(size_t(16 * s.vectors) * size_t(s.words), 2));
  args.set("y", std::vector<float>(size_t(16 * s.vectors * s.rows), 3.0f));
  args.symbol("n", n);
  const LoopRun run = args.run(kernel);
  EXPECT_THAT(run.findings, testing::IsEmpty()) << run.text();
  return args.get<float>("y");
}

/// The kernel after the pass, which leaves the results as they were.
Kernel on_tiles(const Shape& s, int expected) {
  const Kernel before = checked(product(s));
  Kernel after = before;
  EXPECT_EQ(use_tiles(after, "amx.dpbf16"), expected);
  const std::string text = to_string(after);
  EXPECT_THAT(verify(after), testing::IsEmpty()) << text;
  EXPECT_TRUE(same(parse_kernel(text), after)) << text;
  for (const int64_t n : {int64_t(0), int64_t(1), int64_t(15), int64_t(16), int64_t(33), int64_t(s.words)})
    if (n <= s.words) {
      EXPECT_EQ(result(after, s, n), result(before, s, n)) << text << n;
    }
  return after;
}

TEST(TileUnits, BlocksOfWordsAreStepsOfTheUnitAndTheRestStays) {
  const std::string text = to_string(on_tiles({}, 1));
  EXPECT_THAT(text, testing::HasSubstr(R"(  local acc.tiles: f32[1024] align 64)"));
  EXPECT_THAT(text, testing::HasSubstr(R"(    for w.t in 0..n // 16
      unrolled r.t in 0..2
        unrolled v in 0..2
          unit amx.dpbf16 acc.tiles[r.t*512 + v*16; 32, 1] a[r.t*1536 + w.t*32; 96, 2, 1] b[v*16 + w.t*512; 32, 1]
    for w in (n // 16)*16 .. n
)"));
  EXPECT_THAT(text, testing::HasSubstr("acc.tiles[l + r*32 + v*16] = avx512.dpbf16(acc.tiles["));
  EXPECT_THAT(text, testing::Not(testing::HasSubstr("registers")));
}

TEST(TileUnits, AnyShapeWithWholeTiles) {
  for (const int rows : {2, 15, 16, 24, 33, 48})
    for (const int vectors : {1, 2, 3})
      for (const int words : {16, 20, 47})
        for (const bool words_of_a : {false, true})
          for (const char* order : {"r v", "v r"}) on_tiles({rows, vectors, words, words_of_a, order}, 1);
}

/// Accumulators stay in tile registers in loops that do nothing else: tiles of other rows have their own.
TEST(TileUnits, LoopsAroundTilesOfSeveralHeightsAreLoopsForEach) {
  Kernel kernel = checked(R"(kernel windows(a: bf16[3072] in, b: u32[1024] in, y: f32[384] inout) lanes 16
  registers acc: f32[384]
  parallel one in 0..1
    unrolled r0 in 0..24
      vector l0 in 0..16
        acc[16*r0 + l0] = 0
    for s in 0..4
      for w in 0..16
        unrolled r in 0..24
          vector l in 0..16
            acc[16*r + l] = avx512.dpbf16(acc[16*r + l], load<u32>(a[128*r + 32*s + 2*w]), b[256*s + 16*w + l])
    unrolled r1 in 0..24
      vector l1 in 0..16
        y[16*r1 + l1] = acc[16*r1 + l1]
)");
  const auto results = [](const Kernel& k) {
    Arguments args;
    args.set("a", random_words(size_t{24} * 4 * 16, 1));
    args.set("b", random_words(size_t{4} * 16 * 16, 2));
    args.set("y", std::vector<float>(size_t{24} * 16, 3.0f));
    const LoopRun run = args.run(k);
    EXPECT_THAT(run.findings, testing::IsEmpty()) << run.text();
    return args.get<float>("y");
  };
  const std::vector<float> before = results(kernel);
  EXPECT_EQ(use_tiles(kernel, "amx.dpbf16"), 1);
  const std::string text = to_string(kernel);
  EXPECT_THAT(verify(kernel), testing::IsEmpty()) << text;
  EXPECT_EQ(results(kernel), before) << text;
  EXPECT_THAT(text, testing::ContainsRegex("for s in 0\\.\\.4\n +for w.t in 0\\.\\.1\n[^s]+unit amx"));
  EXPECT_THAT(text,
              testing::ContainsRegex("for s in 0\\.\\.4\n +for w.t2 in 0\\.\\.1\n +unit amx[^\n]+rows 8\n"));
}

// ---- rows one after the other, of which nobody knows how many there are ----

struct Rows {
  int vectors = 2, words = 48;
  std::string set_up = "0";             // what the accumulators of a row begin with
  std::string finish = "acc[16*v + l]"; // what is stored
  std::string more = "", behind = "";   // statements of the loop over rows
};

Kernel rows_kernel(const Rows& s) {
  const int columns = 16 * s.vectors;
  return checked(fmt::format(
      R"(kernel rows(a: bf16[{a}*m] in, b: u32[{b}] in, y: f32[{columns}*m] inout; m: 0..40) lanes 16
  registers acc: f32[{columns}]
  parallel one in 0..1
    for r in 0..m
{more}      unrolled v in 0..{vectors}
        vector l in 0..16
          acc[16*v + l] = {set_up}
      for w in 0..{words}
        unrolled v in 0..{vectors}
          vector l in 0..16
            acc[16*v + l] = avx512.dpbf16(acc[16*v + l], load<u32>(a[{a}*r + 2*w]), b[{columns}*w + 16*v + l])
      unrolled v in 0..{vectors}
        vector l in 0..16
          y[{columns}*r + 16*v + l] = {finish}
{behind})",
      fmt::arg("a", 2 * s.words), fmt::arg("b", columns * s.words), fmt::arg("words", s.words),
      fmt::arg("columns", columns), fmt::arg("vectors", s.vectors), fmt::arg("set_up", s.set_up),
      fmt::arg("finish", s.finish), fmt::arg("more", s.more), fmt::arg("behind", s.behind)));
}

std::vector<float> result(const Kernel& kernel, const Rows& s, int64_t m) {
  const auto rows = size_t(m), columns = size_t(16 * s.vectors), words = size_t(s.words);
  Arguments args;
  args.set("a", random_words(rows * words, 1));
  args.set("b", random_words(columns * words, 2));
  args.set("y", std::vector<float>(rows * columns, 3.0f));
  args.symbol("m", m);
  const LoopRun run = args.run(kernel);
  EXPECT_THAT(run.findings, testing::IsEmpty()) << run.text();
  return args.get<float>("y");
}

Kernel rows_on_tiles(const Rows& s, int expected) {
  const Kernel before = rows_kernel(s);
  Kernel after = before;
  EXPECT_EQ(use_tiles(after, "amx.dpbf16"), expected);
  const std::string text = to_string(after);
  EXPECT_THAT(verify(after), testing::IsEmpty()) << text;
  EXPECT_TRUE(same(parse_kernel(text), after)) << text;
  for (const int64_t m : {1, 2, 15, 16, 17, 31, 32, 33, 40})
    EXPECT_EQ(result(after, s, m), result(before, s, m)) << text << m;
  return after;
}

TEST(TileUnits, RowsOneAfterTheOtherAreTilesOfAsManyRows) {
  const std::string text = to_string(rows_on_tiles(Rows{}, 1));
  EXPECT_THAT(text, testing::HasSubstr("  local acc.tiles: f32[1280] align 64"));
  EXPECT_THAT(text, testing::HasSubstr(R"(    for r.t in 0..m // 16
      for w.t in 0..3
        unrolled v in 0..2
          unit amx.dpbf16 acc.tiles[r.t*512 + v*16; 32, 1] a[r.t*1536 + w.t*32; 96, 2, 1] b[v*16 + w.t*512; 32, 1]
)"));
  EXPECT_THAT(text, testing::HasSubstr(", rows m % 16\n"));
  EXPECT_THAT(text, testing::Not(testing::HasSubstr("registers")));
}

TEST(TileUnits, RowsOfAnyShape) {
  for (const int vectors : {1, 3})
    for (const int words : {16, 20, 47})
      for (const char* set_up : {"0", "y[{}*r + 16*v + l]"}) {
        Rows s{.vectors = vectors, .words = words};
        s.set_up = fmt::format(fmt::runtime(set_up), 16 * vectors);
        rows_on_tiles(s, 1);
      }
  rows_on_tiles(Rows{.finish = "acc[16*v + l] * 2"}, 1);
}

TEST(TileUnits, RowsThatReadWhatOthersStoreStay) {
  const std::string before = "y[max(32*r - 32, 0) + 16*v + l]"; // the row before
  rows_on_tiles(Rows{.set_up = before}, 0);
  rows_on_tiles(Rows{.behind = "      y[32*r] = y[0] + 1\n"}, 0);
  rows_on_tiles(Rows{.words = 15}, 0);
}

TEST(TileUnits, AccumulatorsMayBeginFromMemory) { on_tiles({.set_up = "y[32*r0 + 16*v0 + l0]"}, 1); }

/// Each step of a tile asks for what its words do, each place once.
TEST(TileUnits, StepsAskForWhatTheirWordsAskFor) {
  const std::string text = to_string(on_tiles(
      {.more = "      prefetch a[w // 8 * 32 + 5]\n      prefetch b[w * 32]\n      prefetch a[7]\n"}, 1));
  EXPECT_THAT(text, testing::HasSubstr("    for w.t in 0..n // 16\n"
                                       "      prefetch a[w.t*64 + 5]\n      prefetch a[w.t*64 + 37]\n"
                                       "      prefetch b[w.t*512]\n      prefetch b[w.t*512 + 32]\n"));
  EXPECT_THAT(text, testing::HasSubstr("      prefetch b[w.t*512 + 480]\n      prefetch a[7]\n"
                                       "      unrolled r.t in 0..2\n"));
  EXPECT_THAT(text, testing::HasSubstr("    for w in (n // 16)*16 .. n\n      prefetch a["));
}

TEST(TileUnits, OtherLoopsStay) {
  const auto stays = [](const Shape& s) {
    const Kernel after = on_tiles(s, 0);
    EXPECT_TRUE(same(after, checked(product(s))));
  };
  stays({.more = "      y[0] = 0\n"});
  // Not a step of the unit's own lane unit, no unit with tiles, no unit.
  Kernel kernel = checked(product({}));
  for (const char* name : {"amx.dpbusd", "amx.dpbssd", "avx512.dpbf16", "none"})
    EXPECT_EQ(use_tiles(kernel, name), 0) << name;
  EXPECT_TRUE(same(kernel, checked(product({}))));
}

TEST(TileUnits, AccumulatorsOfWhichNobodyKnowsWhereTheyBeginStay) {
  std::string text = product({});
  // Set up in an earlier loop than the one that adds.
  const size_t add = text.find("    for w in"), end = text.find("    unrolled r1");
  std::string inside = text.substr(add, end - add);
  for (size_t at = 0; (at = inside.find("\n    ", at)) != std::string::npos; at += 6)
    inside.insert(at + 1, "  ");
  text = text.substr(0, add) + "    for again in 0..2\n  " + inside + text.substr(end);
  Kernel kernel = checked(text);
  // They move as soon as the body is seen that sets them up: the loop is inside of another one there.
  EXPECT_EQ(use_tiles(kernel, "amx.dpbf16"), 1);
  EXPECT_THAT(verify(kernel), testing::IsEmpty());
  EXPECT_THAT(to_string(kernel), testing::HasSubstr("    for again in 0..2\n      for w.t in 0..n // 16\n"));
}

TEST(TileUnits, WordsAndBytesOfIntegersTakeTheirOwnUnit) {
  std::string text = product({.words_of_a = true});
  for (const auto& [from, to] : std::vector<std::pair<std::string, std::string>>{
           {"avx512.dpbf16", "vnni.dpbusd"}, {"f32[", "i32["}, {"] = 0", "] = i32(0)"}})
    for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
      text.replace(at, from.size(), to);
  const Kernel before = checked(text);
  Kernel after = before;
  ASSERT_EQ(use_tiles(after, "amx.dpbusd"), 1);
  EXPECT_THAT(verify(after), testing::IsEmpty());
  const auto run = [](const Kernel& kernel) {
    std::mt19937 random(7);
    std::vector<uint32_t> a(32 * 48), b(32 * 48);
    for (uint32_t& w : a) w = uint32_t(random());
    for (uint32_t& w : b) w = uint32_t(random());
    Arguments args;
    args.set("a", a).set("b", b).set("y", std::vector<int32_t>(1024)).symbol("n", 41);
    EXPECT_THAT(args.run(kernel).findings, testing::IsEmpty());
    return args.get<int32_t>("y");
  };
  EXPECT_EQ(run(after), run(before));
}

} // namespace
} // namespace luminal::kernel
