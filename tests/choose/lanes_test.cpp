// choose/lanes_test.cpp -- along which loops the default schedule of a stage has its lanes, and what it
// copies for that.
#include "choose/default_schedule.h"
#include "cone/cone.h"
#include "luminal/pass.h"
#include <fmt/format.h>
#include <gmock/gmock.h>

namespace luminal::kernel::lanes_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

std::string schedule_of(const std::string& body, const std::vector<std::string>& units = {}) {
  const Module module = parse_module(body, "term");
  const Function& f = module.entry();
  const std::vector<NodeId> roots{f.results[0].value};
  const auto cone = build_cone(f, roots, {f.params.begin(), f.params.end()}, {.name = "term"});
  if (!cone) return cone.error();
  return to_string(default_schedule(*cone, {.lanes = 16, .vector_registers = 32, .units = units}));
}

/// Four random words are one block of the generator: it is computed for as many blocks as there are lanes.
TEST(Lanes, GoAlongTheBlocksOfRandomWords) {
  const auto dropped = [](int64_t columns, const std::string& counter) {
    return schedule_of(fmt::format(R"(fn @term(%k: u32[2], %x: f32[64, {0}]) {{
  %a = random f32 %k [i: 64, j: {0}] -> {1}
  %p = const f32 0.1
  %pp = view %p [i: 64, j: {0}] -> []
  %c = lt %a, %pp
  %z = const f32 0
  %zz = view %z [i: 64, j: {0}] -> []
  %y = select %c, %zz, %x
  return y = %y
}}
)",
                                   columns, counter));
  };
  EXPECT_THAT(dropped(768, "i*768 + j"), AllOf(HasSubstr("split y j j.o j.i 4"), HasSubstr("unroll y j.i"),
                                               HasSubstr("vector y j.o.i")));
  EXPECT_THAT(dropped(32, "i*32 + j"), HasSubstr("vector y j.i")) << "eight blocks do not fill the lanes";
  EXPECT_THAT(dropped(768, "4*(i*768 + j)"), Not(HasSubstr("unroll"))) << "a block for each element";
}

/// A sum of many elements is stored once: images with few channels, these innermost.
TEST(Lanes, OfASumThatIsStoredApart) {
  const auto product = [](int64_t columns, int64_t deep) {
    return schedule_of(fmt::format(R"(fn @term(%x: f32[8, {1}, 64], %w: f32[{0}, {1}]) {{
  %a = view %x [n: 8, i: 64, o: {0}, c: {1}] -> [n, c, i]
  %b = view %w [n: 8, i: 64, o: {0}, c: {1}] -> [o, c]
  %p = mul %a, %b
  %f = fold [n: 8, i: 64, o: {0}, c: {1}] over [c] {{ sum %p[n, i, o, c] }}
  %y = get %f, 0
  return y = %y
}}
)",
                                   columns, deep));
  };
  EXPECT_THAT(product(3, 48), HasSubstr("vector f i."));
  EXPECT_THAT(product(5, 48), HasSubstr("vector f i."));
}

/// Nothing is contiguous in both: functions are computed in lanes all the same, copies are not.
TEST(Lanes, OfFunctionsOfElementsThatLieApart) {
  const auto turned = [](const char* op) {
    return schedule_of(fmt::format(R"(fn @term(%x: f32[5000, 7]) {{
  %a = view %x [i: 7, j: 5000] -> [j, i]
  %y = {} %a
  return y = %y
}}
)",
                                   op));
  };
  EXPECT_THAT(turned("gelu"), HasSubstr("vector y j.i"));
  EXPECT_THAT(turned("neg"), Not(HasSubstr("vector")));
}

/// Weights [c, o, r, s] in the order [r, s, c, o]: the lines that one vector of results reads are all used
/// before the next ones.
TEST(Lanes, UseLinesOfElementsThatLieApartAtOnce) {
  const auto copied = [](const char* view) {
    return schedule_of(fmt::format(R"(fn @term(%w: f32[100, 512, 3, 3]) {{
  %y = view %w [r: 3, s: 3, c: 100, o: 512] -> [{}]
  return y = %y
}}
)",
                                   view));
  };
  EXPECT_THAT(copied("c, o, r, s"), AllOf(HasSubstr("split y o o.o o.i 16"), HasSubstr("jam y o.i 16")));
  EXPECT_THAT(copied("c, o, 2 - r, 2 - s"), HasSubstr("jam y o.i 16"));
}

/// Backwards: vectors are loaded and turned round.
TEST(Lanes, GoBackwards) {
  EXPECT_THAT(schedule_of(R"(fn @term(%x: f32[64, 100]) {
  %y = view %x [i: 64, j: 100] -> [i, 99 - j]
  return y = %y
}
)"),
              HasSubstr("vector y j"));
}

/// A short sum beside a long one, both over all results: the long one keeps its lanes.
TEST(Lanes, OfALongSumAreNoLoopThatStagesShare) {
  EXPECT_THAT(schedule_of(R"(fn @term(%x: f32[100], %w: f32[100, 512, 16], %v: f32[512, 16]) {
  %a = view %x [o: 512, r: 16, c: 100] -> [c]
  %b = view %w [o: 512, r: 16, c: 100] -> [c, o, r]
  %p = mul %a, %b
  %f = fold [o: 512, r: 16, c: 100] over [c] { sum %p[o, r, c] }
  %y = get %f, 0
  %u = view %v [r: 16, o: 512, k: 16] -> [o, k]
  %g = fold [r: 16, o: 512, k: 16] over [k] where r + k != 15 { sum %u[r, o, k] }
  %z = get %g, 0
  %q = view %z [o: 512, r: 16] -> [r, o]
  %s = add %y, %q
  return s = %s
}
)"),
              HasSubstr("vector f r"));
}

/// Parts by turns, to which something is added that lies across the rows, no more than lies along them.
TEST(Lanes, OfPartsByTurnsBesideFewColumns) {
  const auto by_turns = [](const char* first, const char* second) {
    return schedule_of(fmt::format(R"(fn @term(%a: f32[32, 20], %b: f32[32, 20], %c: f32[20, 32]) {{
  %x = view %a [i: 32, j: 40] -> [i, j // 2] where j % 2 == 0 fill 0
  %y = view {} where j % 2 == 1 fill 0
  %z = view %c [i: 32, j: 40] -> [j // 2, i] where j % 2 == 1 fill 0
  %u = view {} where j % 2 == 1 fill 0
  %s = add %x, %y
  %t = add %z, %u
  %r = add %s, %t
  return r = %r
}}
)",
                                   first, second));
  };
  const char *along = "%b [i: 32, j: 40] -> [i, j // 2]", *across = "%c [i: 32, j: 40] -> [j // 2, 31 - i]";
  EXPECT_THAT(by_turns(along, along), HasSubstr("vector r j.o"));
  EXPECT_THAT(by_turns(along, across), HasSubstr("vector r j.o"));
  EXPECT_THAT(by_turns(across, across), Not(HasSubstr("vector r j.o")));
}

/// The gradient of a depthwise convolution's weights: sums over images that are read in steps.
std::string weights_of_depthwise(int64_t stride, int64_t size) {
  return schedule_of(fmt::format(
      R"(fn @term(%x: f32[8, 16, {2}, {2}], %d: f32[8, 16, {1}, {1}]) {{
  %w = view %x [n: 8, c: 16, i: {1}, j: {1}, r: 3, s: 3] -> [n, c, i*{0} + r, j*{0} + s]
  %e = view %d [n: 8, c: 16, i: {1}, j: {1}, r: 3, s: 3] -> [n, c, i, j]
  %p = mul %w, %e
  %q = view %p [c: 16, r: 3, s: 3, n: 8, i: {1}, j: {1}] -> [n, c, i, j, r, s]
  %f = fold [c: 16, r: 3, s: 3, n: 8, i: {1}, j: {1}] over [n, i, j] {{ sum %q[c, r, s, n, i, j] }}
  %y = get %f, 0
  return y = %y
}}
)",
      stride, size, (size - 1) * stride + 3));
}

TEST(Lanes, OfASumThatReadsInSteps) {
  EXPECT_THAT(weights_of_depthwise(1, 32), HasSubstr("vector f j"));
  EXPECT_THAT(weights_of_depthwise(2, 32), HasSubstr("vector f j"));
  EXPECT_THAT(weights_of_depthwise(4, 32), HasSubstr("vector f j"));
  EXPECT_THAT(weights_of_depthwise(7, 32), Not(HasSubstr("vector f j"))) << "too far apart";
}

/// Three parts by turns: of 28 columns the first part has one more than the others.
TEST(Lanes, OfPartsByTurnsOfWhichTheLastHaveFewer) {
  const auto by_turns = [](int64_t columns) {
    return schedule_of(fmt::format(R"(fn @term(%a: f32[32, {1}], %b: f32[32, {1}], %c: f32[32, {1}]) {{
  %x = view %a [i: 32, j: {0}] -> [i, j // 3] where j % 3 == 0 fill 0
  %y = view %b [i: 32, j: {0}] -> [i, j // 3] where j % 3 == 1 fill 0
  %z = view %c [i: 32, j: {0}] -> [i, j // 3] where j % 3 == 2 fill 0
  %s = add %x, %y
  %t = add %s, %z
  return t = %t
}}
)",
                                   columns, (columns + 2) / 3));
  };
  for (const int64_t columns : {27, 28, 29})
    EXPECT_THAT(by_turns(columns),
                AllOf(HasSubstr("split t j j.o j.i 3"), HasSubstr("unroll t j.i"), HasSubstr("vector t j.o")))
        << columns;
}

std::string grouped(int64_t groups, int64_t in, int64_t out, int64_t size, int64_t kernel) {
  const int64_t pad = kernel / 2;
  const std::string space = fmt::format("[n: 8, g: {}, o: {}, c: {}, i: {}, j: {}, r: {}, s: {}]", groups,
                                        out, in, size, size, kernel, kernel);
  return schedule_of(fmt::format(
      R"(fn @term(%x: f32[8, {0}, {1}, {1}], %w: f32[{2}, {3}, {4}, {4}, {5}]) {{
  %v = view %x {6} -> [n, g*{3} + c, i + r - {7}, j + s - {7}] where i + r >= {7} and j + s >= {7} and i + r < {8} and j + s < {8} fill 0
  %u = view %w {6} -> [g, c, r, s, o]
  %p = mul %v, %u
  %f = fold {6} over [c, r, s] {{ sum %p[n, g, o, c, i, j, r, s] }}
  %y = get %f, 0
  return y = %y
}}
)",
      groups * in, size, groups, in, kernel, out, space, pad, size + pad));
}

/// As without groups: a copy with the zeros around it, and lanes along the weights' panel.
TEST(Lanes, OfConvolutionsInGroups) {
  EXPECT_THAT(grouped(8, 32, 16, 7, 3), AllOf(HasSubstr("padded_copy x x.frame"), HasSubstr("vector f o.l")));
  EXPECT_THAT(grouped(1, 32, 16, 7, 3), AllOf(HasSubstr("padded_copy x x.frame"), HasSubstr("vector f o.l")));
  EXPECT_THAT(grouped(32, 4, 4, 28, 3), Not(HasSubstr("padded_copy"))) << "little is computed of an element";
}

/// Elements at quotients of an axis: a vector of them is gathered, and its conditions are masks. (The windows
/// of adaptive pooling, images resized by a factor such as 1.5.)
TEST(Lanes, GatherElementsAtQuotientsOfTheirAxis) {
  EXPECT_THAT(schedule_of(R"(fn @term(%x: f32[64, 7, 7]) {
  %v = view %x [c: 64, i: 30, j: 30, r: 2, s: 2] -> [c, r + (i*7 + 24) // 30 - 1, s + (j*7 + 24) // 30 - 1] where r*30 < (i*7 + 24) % 30 + 13 and s*30 < (j*7 + 24) % 30 + 13 and i*7 + r*30 < 216 and j*7 + s*30 < 216 and i*7 + r*30 >= 6 and j*7 + s*30 >= 6 fill 0
  %f = fold [c: 64, i: 30, j: 30, r: 2, s: 2] over [r, s] { sum %v[c, i, j, r, s] }
  %y = get %f, 0
  return y = %y
}
)"),
              HasSubstr("vector f j"));
  // Blocks of five elements, each cut off at its ends, are too short for lanes of their own.
  EXPECT_THAT(schedule_of(R"(fn @term(%x: f32[64, 30, 6], %z: f32[64, 30, 30]) {
  %v = view %x [c: 64, i: 30, j: 30] -> [c, i, max(j - 2, 0) // 5]
  %w = view %x [c: 64, i: 30, j: 30] -> [c, i, min(max(j - 2, 0) // 5 + 1, 5)]
  %s = add %v, %w
  %y = mul %s, %z
  return y = %y
}
)"),
              HasSubstr("vector y j"));
}

/// Narrow numbers that are read across are transposed in registers, also beside operands that vary with one
/// axis only.
TEST(Lanes, TransposeNarrowNumbers) {
  for (const char* type : {"f32", "bf16", "f16", "u8"})
    EXPECT_THAT(schedule_of(fmt::format(R"(fn @term(%x: {0}[128, 14, 14], %b: {0}[128]) {{
  %v = view %x [i: 14, j: 14, c: 128] -> [c, i, j]
  %w = view %b [i: 14, j: 14, c: 128] -> [c]
  %y = add %v, %w
  return y = %y
}}
)",
                                        type)),
                AllOf(HasSubstr("vector y c.i"), HasSubstr("unroll y j.i")))
        << type;
}

/// Weights that a dot instruction reads in words of two are not copied into the order of the results, which
/// would take the words apart.
TEST(Lanes, LeaveWordsAsTheyLie) {
  const std::string schedule = schedule_of(R"(fn @term(%x: bf16[96, 56, 56], %w: bf16[384, 96]) {
  %xf = cast f32 %x
  %wf = cast f32 %w
  %a = view %xf [m: 3136, n: 384, k: 96] -> [k, m // 56, m % 56]
  %b = view %wf [m: 3136, n: 384, k: 96] -> [n, k]
  %p = mul %a, %b
  %f = fold [m: 3136, n: 384, k: 96] over [k] { sum %p[m, n, k] }
  %s = get %f, 0
  %t = view %s [h: 56, v: 56, n: 384] -> [h*56 + v, n]
  %y = neg %t
  return y = %y
}
)",
                                           {"avx512.dpbf16"});
  EXPECT_THAT(schedule, AllOf(HasSubstr(" f avx512.dpbf16"), Not(HasSubstr(".run"))));
}

/// Images and weights with their channels last: where each weight has many pixels it is copied in words, and
/// lanes go along the channels of the results.
TEST(Lanes, OfWordsGoAlongTheChannelsOfManyPixels) {
  const auto convolution = [](int64_t size, int64_t channels) {
    const std::string space = fmt::format("h: {0}, w: {0}, o: {1}, c: {1}, a: 3, b: 3", size, channels);
    return schedule_of(fmt::format(R"(fn @term(%x: bf16[{0}, {0}, {1}], %w: bf16[{1}, 3, 3, {1}]) {{
  %xf = cast f32 %x
  %wf = cast f32 %w
  %v = view %xf [{2}] -> [h + a - 1, w + b - 1, c] where 0 < h + a and h + a <= {0} and 0 < w + b and w + b <= {0} fill 0
  %k = view %wf [{2}] -> [o, a, b, c]
  %m = mul %v, %k
  %f = fold [{2}] over [c, a, b] {{ sum %m[h, w, o, c, a, b] }}
  %y = get %f, 0
  return y = %y
}}
)",
                                   size, channels, space),
                       {"avx512.dpbf16"});
  };
  EXPECT_THAT(convolution(28, 64),
              AllOf(HasSubstr("unit f avx512.dpbf16 f.words"), HasSubstr("vector f o.i")));
  EXPECT_THAT(convolution(7, 256), HasSubstr("vector f c.words.i"));
}

/// Rows of both operands lie along the sum: a weight with many results is copied in words, long rows of them
/// in squares, and lanes go along the results. With few results lanes go along the sum.
TEST(Lanes, OfWordsGoAlongTheResultsOfManyRows) {
  const auto linear = [](int64_t rows, int64_t columns, int64_t deep) {
    return schedule_of(fmt::format(R"(fn @term(%x: bf16[{0}, {2}], %w: bf16[{1}, {2}]) {{
  %xf = cast f32 %x
  %wf = cast f32 %w
  %a = view %xf [m: {0}, n: {1}, k: {2}] -> [m, k]
  %b = view %wf [m: {0}, n: {1}, k: {2}] -> [n, k]
  %p = mul %a, %b
  %f = fold [m: {0}, n: {1}, k: {2}] over [k] {{ sum %p[m, n, k] }}
  %y = get %f, 0
  return y = %y
}}
)",
                                   rows, columns, deep),
                       {"avx512.dpbf16"});
  };
  EXPECT_THAT(linear(1000, 64, 64),
              AllOf(HasSubstr("unit f avx512.dpbf16 f.words"), HasSubstr("vector f n.")));
  EXPECT_THAT(linear(128, 768, 3072),
              AllOf(HasSubstr("unit f avx512.dpbf16 f.words"), HasSubstr("unroll f.words k.words.u")));
  EXPECT_THAT(linear(48, 768, 768), HasSubstr("vector f k.words.i"));
  EXPECT_THAT(linear(48, 64, 128), HasSubstr("unit f avx512.dpbf16 f.words"));
  EXPECT_THAT(linear(1000, 8, 64), HasSubstr("vector f k.words.i")) << "few columns do not fill the lanes";
}

/// Scans of exponentials along rows: many rows at once, where there are as many as lanes.
TEST(Lanes, OfScansOfFunctions) {
  const auto scan = [](int64_t rows, const char* sum) {
    return schedule_of(fmt::format(R"(fn @term(%x: f32[{0}, 100]) {{
  %w = cast f64 %x
  %s = scan [r: {0}, j: 100] along j {{ max %w[r, j]; sum({1}) %w[r, j] }}
  %y = get %s, 1
  return y = %y
}}
)",
                                   rows, sum));
  };
  EXPECT_THAT(scan(500, "self * exp(old0 - new0)"), HasSubstr("vector s r."));
  EXPECT_THAT(scan(7, "self * exp(old0 - new0)"), Not(HasSubstr("vector")));
}

/// Channels of an image that points are added to: an index is read once for several of them.
TEST(Lanes, UpdatesOfRowsThatShareTheirIndices) {
  const auto updates = [](const char* rows, const char* indices, const char* index) {
    return schedule_of(fmt::format(R"(fn @term(%x: f32[2, {0}, 784], %v: f32[2, {0}, 100], %i: i64[{1}]) {{
  %y = scatter sum %x, %v [n: 2, c: {0}, k: 100] with h = %i[{2}] in 0..783 -> [n, c, h]
  return y = %y
}}
)",
                                   rows, indices, index));
  };
  EXPECT_THAT(updates("32", "2, 100", "n, k"), AllOf(HasSubstr("c c.o c.i 8"), HasSubstr("c.i\nparallel")));
  EXPECT_THAT(updates("6", "2, 100", "n, k"), HasSubstr("unroll"));
  EXPECT_THAT(updates("32", "2, 32, 100", "n, c, k"), Not(HasSubstr("unroll"))) << "each has its own";
  // Rows far apart stand outside of the points, wherever the text has them.
  EXPECT_THAT(schedule_of(R"(fn @term(%x: f32[200, 500], %v: f32[800, 200], %i: i64[800]) {
  %y = scatter sum %x, %v [k: 800, r: 200] with h = %i[k] in 0..499 -> [r, h]
  return y = %y
}
)"),
              HasSubstr("order y r.o k r.i"));
}

/// Values joined along the lanes, each of as many elements as there are lanes: no lane chooses.
TEST(Lanes, OfPartsOfSomeVectors) {
  const auto joined = [](int64_t part) {
    return schedule_of(fmt::format(R"(fn @term(%x: f32[50, {0}], %z: f32[50, {0}]) {{
  %a = view %x [r: 50, j: {1}] -> [r, j] where j < {0} fill 0
  %b = view %z [r: 50, j: {1}] -> [r, j - {0}] where j >= {0} fill 0
  %y = add %a, %b
  return y = %y
}}
)",
                                   part, 2 * part));
  };
  EXPECT_THAT(joined(24), HasSubstr("segments y j"));
  EXPECT_THAT(joined(6), Not(HasSubstr("segments y j")));
}

/// Nine elements that are made one by one, seen as a matrix of 3 x 3: only both axes say which one it is.
TEST(Lanes, OfElementsThatAreSeenAsAMatrix) {
  std::string body = "fn @term(%x: f32[5000, 4]) {\n", sum;
  for (int i = 0; i < 9; i++) {
    body += fmt::format("  %a{0} = view %x [r: 5000] -> [r, {1}]\n  %b{0} = view %x [r: 5000] -> [r, {2}]\n"
                        "  %p{0} = mul %a{0}, %b{0}\n"
                        "  %v{0} = view %p{0} [r: 5000, i: 3, j: 3] -> [r] where i*3 + j == {0} fill 0\n",
                        i, i % 4, i / 4);
    if (i > 0)
      body += fmt::format("  %s{0} = add {1}, %v{0}\n", i, i > 1 ? fmt::format("%s{}", i - 1) : "%v0");
  }
  EXPECT_THAT(schedule_of(body + "  return y = %s8\n}\n"),
              AllOf(HasSubstr("segments s8"), HasSubstr("vector s8 r.")));
}

} // namespace
} // namespace luminal::kernel::lanes_test
