// golden/frames_test.cpp -- products with an operand that is read through windows: the directive
// frame, and default schedules of random convolutions, against the interpreter.
#include "golden/golden_support.h"
#include <fmt/format.h>

namespace luminal::kernel {
namespace {

using testing::HasSubstr;
using testing::Not;

struct Convolution {
  int64_t images = 1, channels = 4, results = 32, height = 9, width = 9, kernel_h = 3, kernel_w = 3,
          stride = 1, dilation = 1, pad = 1;
  int64_t panel = 0;   // columns of the panels of the weight; 0: as it is
  bool inside = false; // the sum leaves out rows beside the image,
  bool within = false; // and columns
  int64_t out(int64_t size, int64_t k) const {
    return (size + 2 * pad - (k - 1) * dilation - 1) / stride + 1;
  }
};

std::string term_of(const Convolution& c) {
  const std::string axes = fmt::format("b: {}, o: {}, i: {}, j: {}, c: {}, r: {}, s: {}", c.images, c.results,
                                       c.out(c.height, c.kernel_h), c.out(c.width, c.kernel_w), c.channels,
                                       c.kernel_h, c.kernel_w);
  const std::string i = fmt::format("{}*i + {}*r - {}", c.stride, c.dilation, c.pad),
                    j = fmt::format("{}*j + {}*s - {}", c.stride, c.dilation, c.pad);
  const std::string condition =
      c.pad ? fmt::format(" where 0 <= {0} and {0} < {1} and 0 <= {2} and {2} < {3}", i, c.height, j, c.width)
            : "";
  return fmt::format("fn @conv(%X: f32[{}, {}, {}, {}], %W: f32[{}]) {{\n  %x = view %X [{axes}] -> [b, c, "
                     "{}, {}]{}\n  %w = view "
                     "%W [{axes}] -> [{}]\n  %p = mul %x, %w\n  %f = fold [{axes}] over [c, r, s]{} {{ sum "
                     "%p[b, o, i, j, c, r, s] "
                     "}}\n  %Y = get %f, 0\n  return Y = %Y\n}}\n",
                     c.images, c.channels, c.height, c.width,
                     c.panel ? fmt::format("{}, {}, {}, {}, {}", (c.results + c.panel - 1) / c.panel,
                                           c.channels, c.kernel_h, c.kernel_w, c.panel)
                             : fmt::format("{}, {}, {}, {}", c.results, c.channels, c.kernel_h, c.kernel_w),
                     i, j, condition,
                     c.panel ? fmt::format("o // {0}, c, r, s, o % {0}", c.panel) : "o, c, r, s",
                     (c.inside ? fmt::format(" where 0 <= {0} and {0} < {1}", i, c.height) : "") +
                         (c.within ? fmt::format(" and 0 <= {0} and {0} < {1}", j, c.width) : ""),
                     fmt::arg("axes", axes));
}

/// The gradient of the weight. tail: what happens to the sums, "" or a line that makes %Y of %f0.
std::string gradient_term_of(const Convolution& c, const std::string& tail = "") {
  const int64_t height = c.out(c.height, c.kernel_h), width = c.out(c.width, c.kernel_w);
  const std::string axes = fmt::format("o: {}, c: {}, r: {}, s: {}, b: {}, i: {}, j: {}", c.results,
                                       c.channels, c.kernel_h, c.kernel_w, c.images, height, width),
                    i = fmt::format("{}*i + {}*r - {}", c.stride, c.dilation, c.pad),
                    j = fmt::format("{}*j + {}*s - {}", c.stride, c.dilation, c.pad);
  return fmt::format(
      "fn @gradient(%X: f32[{}, {}, {}, {}], %G: f32[{}, {}, {}, {}]) {{\n  %x = view %X [{axes}] -> "
      "[b, c, {}, {}]{}\n  %g = view %G [{axes}] -> [b, o, i, j]\n  %p = mul %x, %g\n  %f = fold "
      "[{axes}] over [b, i, j] {{ sum %p[o, c, r, s, b, i, j] }}\n  %Y{} = get %f, 0\n{}  return Y = "
      "%Y\n}}\n",
      c.images, c.channels, c.height, c.width, c.images, c.results, height, width, i, j,
      c.pad ? fmt::format(" where 0 <= {0} and {0} < {1} and 0 <= {2} and {2} < {3}", i, c.height, j, c.width)
            : "",
      tail.empty() ? "" : "0", tail, fmt::arg("axes", axes));
}

void expect_numbers(const Module& module, const Cone& cone, const Kernel& kernel, const std::string& about,
                    uint64_t seed) {
  ASSERT_THAT(verify(kernel), testing::IsEmpty()) << to_string(kernel);
  const Bindings inputs = random_bindings(module.entry(), {"conv", {}}, seed);
  KernelRun got = run_cone(module.entry(), cone, kernel, inputs, adversarial(seed, 1 + int(seed % 3)));
  ASSERT_TRUE(got.run.ok()) << got.run.text() << about;
  EXPECT_LE(difference(DType::f32, got.results.at("Y"), Interpreter(module, inputs).run().at("Y")), 2e-6)
      << about;
}

/// The default schedule of the term, which is right.
std::string default_of(const std::string& term, const MachineLimits& limits, const Answers& answers = {},
                       uint64_t seed = 1) {
  Module module = parse_module(term, "conv");
  EXPECT_THAT(verify(module), testing::IsEmpty()) << term;
  auto cone = cone_of(module.entry(), false);
  if (!cone) return cone.error();
  auto [schedule, kernel, decisions] = default_kernel(*cone, limits, answers);
  if (!kernel) return kernel.error();
  expect_numbers(module, *cone, *kernel, to_string(schedule) + term, seed);
  return to_string(schedule);
}
std::string default_of(const Convolution& c, const MachineLimits& limits, const Answers& answers = {},
                       uint64_t seed = 1) {
  return default_of(term_of(c), limits, answers, seed);
}

/// What lowering says of a schedule; the kernel is right where there is one.
std::string lowered(const std::string& term, const std::string& schedule) {
  Module module = parse_module(term, "conv");
  auto cone = cone_of(module.entry(), false);
  if (!cone) return cone.error();
  auto kernel = lower(*cone, parse_schedule(schedule, "frames"));
  if (!kernel) return kernel.error();
  expect_numbers(module, *cone, *kernel, schedule + term, 5);
  return to_string(*kernel);
}

/// in(low, high): a random number.
template <class In> void draw_windows(Convolution& c, const In& in) {
  c.kernel_h = in(1, 4), c.kernel_w = in(2, 5), c.stride = in(1, 3), c.dilation = in(1, 4) > 3 ? 2 : 1,
  c.pad = in(0, 2);
  c.height = in(9, 14), c.width = in(9, in(1, 3) == 1 ? 40 : 16);
}

constexpr MachineLimits avx512{.lanes = 16, .vector_registers = 32, .threads = 2},
    avx2{.lanes = 8, .vector_registers = 16, .threads = 3},
    one{.lanes = 16, .vector_registers = 32, .threads = 1};

TEST(Frames, TheCopyHoldsTheZerosAroundAndTheLoopsNoCondition) {
  const std::string text = lowered(term_of({}), "padded_copy X X.frame\n");
  EXPECT_THAT(text, HasSubstr("shared X.frame: f32[484]")); // 4 x 11 x 11
  EXPECT_THAT(text, HasSubstr("where"));                    // of the copy
  EXPECT_THAT(text.substr(text.find("barrier")), Not(HasSubstr("where")));
}

TEST(Frames, OfOneImageAtATimeWithColumnsTakenApart) {
  const Convolution c{.images = 3, .width = 12, .stride = 2};
  const std::string text = lowered(
      term_of(c),
      "padded_copy X F\nsplit F F_3 o i 2\norder F b c F_2 i o\nstore F b b c F_2 F_3%2 F_3/2\nat f b\n");
  EXPECT_THAT(text, HasSubstr("F: f32[616]")); // of one image: 4 x 11 x 13, and a column to make them even
}

TEST(Frames, PlacesThatNoWindowReadsAreInsideToo) {
  // Steps of 3, windows of 2: a third of the places, some of them outside.
  lowered(term_of({.height = 11, .width = 10, .kernel_h = 2, .kernel_w = 2, .stride = 3, .pad = 2}),
          "padded_copy X F\n");
  lowered(term_of({.height = 9, .width = 10, .dilation = 2, .pad = 0}), "padded_copy X F\n");
}

TEST(Frames, AreRefusedWhereTheyWouldNotHoldWhatIsRead) {
  const auto view = [](std::string_view map) {
    return fmt::format(
        "fn @f(%X: f32[9, 9]) {{\n  %x = view %X [i: 4, j: 4, s: 3] -> {}\n  %f = fold [i: 4, j: 4, s: "
        "3] over [s] {{ sum %x[i, j, s] }}\n  %Y = get %f, 0\n  return Y = %Y\n}}\n",
        map);
  };
  EXPECT_THAT(lowered(view("[i + s, j]"), "padded_copy X F\n"), HasSubstr("kernel"));
  EXPECT_THAT(lowered(view("[i, i]"), "padded_copy X F\n"), HasSubstr("X is read along a diagonal"));
  EXPECT_THAT(lowered(view("[2*i, j + s]"), "padded_copy X F\n"), HasSubstr("no axis varies with"));
  EXPECT_THAT(lowered(view("[i + s, j] where s <= j"), "padded_copy X F\n"),
              HasSubstr("whether it is read does not depend on the place in it alone"));
  EXPECT_THAT(lowered(view("[i + s, j]"), "padded_copy X X\n"),
              HasSubstr("the name X belongs to a value already"));
  EXPECT_THAT(lowered(view("[i + s, j]"), "padded_copy Y F\n"), HasSubstr("no stage reads Y"));
  const std::string twice = "fn @f(%X: f32[9]) {\n  %a = view %X [i: 4, s: 3] -> [i + s]\n  %b = view %X [i: "
                            "4, s: 3] -> [i + s + 1]\n  %p "
                            "= mul %a, %b\n  %f = fold [i: 4, s: 3] over [s] { sum %p[i, s] }\n  %Y = get "
                            "%f, 0\n  return Y = %Y\n}\n";
  EXPECT_THAT(lowered(twice, "padded_copy X F\n"), HasSubstr("X is read at several places"));
}

TEST(Frames, PanelsMeetShiftedViewsInTilesThatLeaveLittleOver) {
  Convolution c{.channels = 2, .results = 128, .height = 14, .width = 14, .panel = 64};
  MachineLimits small = one; // panels pass by from the second cache
  small.l1 = 1024;
  std::string schedule = default_of(c, small);
  EXPECT_THAT(schedule, HasSubstr("padded_copy X X.frame"));
  EXPECT_THAT(schedule, HasSubstr("split f i i.t i.i 1\n")); // 5, 5 and 4 neighbours of a row
  EXPECT_THAT(schedule, HasSubstr("split f j j.t j.i 5\n"));
  EXPECT_THAT(schedule, HasSubstr("jam f s 3\njam f r 3\n"));
  EXPECT_THAT(schedule, Not(HasSubstr("materialize")));
  c.height = c.width = 7, c.results = 64; // one panel
  schedule = default_of(c, one);
  EXPECT_THAT(schedule, HasSubstr("padded_copy X X.frame"));
  EXPECT_THAT(schedule, HasSubstr("vector f o.l"));
}

/// Rows beside the image are left out by the loop over the windows' rows, not point by point; tiles
/// lie in one row.
TEST(Frames, RowsBesideTheImageAreLeftOut) {
  const Convolution c{.channels = 2, .results = 128, .height = 14, .width = 14, .panel = 64, .inside = true};
  for (const MachineLimits& limits : {one, avx512}) {
    const std::string schedule = default_of(c, limits);
    EXPECT_THAT(schedule, testing::AllOf(HasSubstr("padded_copy X X.frame"), HasSubstr("predicate_bound f r"),
                                         HasSubstr(".t i.i 1\n") /* rows or their blocks */));
  }
  const std::string kernel = lowered(term_of(c), default_of(c, one));
  EXPECT_THAT(kernel, HasSubstr("for r in -min(i.t - 1, 0) .. min(-i.t + 15, 3)\n"));
  EXPECT_THAT(kernel, Not(HasSubstr("if ")));
  // Lanes along the rows: each row of windows is inside or not.
  const std::string lanes =
      lowered(term_of({.width = 32, .inside = true}),
              "padded_copy X F\norder f o i c r s j\npredicate_bound f r\nvector f j\n");
  EXPECT_THAT(lanes, testing::AllOf(HasSubstr("kernel"), Not(HasSubstr("if "))));
  // A tile of two rows is seldom inside as a whole: its points are asked for one by one.
  EXPECT_THAT(lowered(term_of({.width = 32, .inside = true}),
                      "padded_copy X F\nsplit f i i.o i.i 2\norder f o i.o c r s i.i j\npredicate_bound f "
                      "r\nunroll f i.i\nvector f j\n"),
              HasSubstr("if "));
}

/// Of columns each place of a tile knows its own.
TEST(Frames, ColumnsBesideTheImageAreLeftOut) {
  for (const MachineLimits& limits : {one, avx512, avx2})
    for (const int64_t width : {4, 7, 9}) {
      const Convolution c{.channels = 2,
                          .results = 64,
                          .height = 7,
                          .width = width,
                          .panel = 32,
                          .inside = true,
                          .within = true};
      const std::string schedule = default_of(c, limits);
      EXPECT_THAT(schedule,
                  testing::AllOf(HasSubstr("padded_copy X X.frame"), HasSubstr("predicate_bound f r"),
                                 Not(HasSubstr("predicate_bound f s")), HasSubstr("jam f s 3\n")));
    }
  // Tiles at the ends of a row are written apart: those between them ask nothing.
  const Convolution c{
      .channels = 2, .results = 64, .height = 7, .width = 23, .panel = 64, .inside = true, .within = true};
  const std::string schedule = default_of(c, one), kernel = lowered(term_of(c), schedule);
  EXPECT_THAT(schedule,
              testing::AllOf(HasSubstr("split f j j.t j.i 4\n"), HasSubstr("predicate_split j.t\n")));
  EXPECT_THAT(kernel, testing::AllOf(HasSubstr("if j.i + s >= 1\n"), HasSubstr("for j.t: 0..5 in 1..5\n"),
                                     HasSubstr("if j.i + s < 4\n"), Not(HasSubstr("j.t*4 + s <"))));
  EXPECT_THAT(lowered(term_of({.width = 23, .inside = true}), "padded_copy X F\npredicate_split j\n"),
              HasSubstr("predicate_split j: no stage in it has a domain that ends along it"));
}

/// A weight that is larger than the copies of all images passes by once.
TEST(Frames, ImagesAreInsideOfPanelsThatAreLarger) {
  Convolution c{.images = 4, .channels = 8, .results = 128, .height = 7, .width = 7, .panel = 64};
  MachineLimits small = one;
  small.l2 = 16 * 1024;
  EXPECT_THAT(default_of(c, small), testing::AllOf(HasSubstr("store X.frame root b X.frame_2 c X.frame_3"),
                                                   HasSubstr("order f o.o b i.t j.t c")));
  c.images = 16;
  EXPECT_THAT(default_of(c, small),
              testing::AllOf(HasSubstr("store X.frame b X.frame_2 c X.frame_3"), HasSubstr("at f b")));
}

TEST(Frames, LongRowsHaveTheLanes) {
  const Convolution c{.channels = 3,
                      .results = 16,
                      .height = 12,
                      .width = 64,
                      .kernel_h = 5,
                      .kernel_w = 5,
                      .stride = 2,
                      .pad = 2};
  const std::string schedule = default_of(c, one);
  EXPECT_THAT(schedule, HasSubstr("store X.frame root c X.frame_2 X.frame_3%2 X.frame_3/2"));
  EXPECT_THAT(schedule, HasSubstr("vector f j"));
}

TEST(Frames, OfBlocksOfRows) {
  // Blocks of three rows, read in steps of two: seven rows of the image, and one column beyond it
  // on both sides.
  const Convolution c{.images = 2, .height = 12, .width = 9, .stride = 2};
  const std::string blocks =
      "padded_copy X F i 3\norder F i.b b c F_2 F_3\nstore F b c F_2 F_3\norder f i.b b o i.r j c "
      "r s\nparallel F i.b\nparallel f i.b\nat f b\n";
  EXPECT_THAT(lowered(term_of(c), blocks), HasSubstr("local F: f32[308]")); // 4 x 7 x 11
  // 3 x 2 x 4 x 5 x 11
  EXPECT_THAT(lowered(term_of(c), "padded_copy X F i 2\n"), HasSubstr("shared F: f32[1320]"));
  EXPECT_THAT(lowered(term_of(c), "padded_copy X F i 4\n"),
              HasSubstr("not made of several blocks of 4 elements"));
  EXPECT_THAT(lowered(term_of(c), "padded_copy X F i 6\n"),
              HasSubstr("not made of several blocks of 6 elements"));
  EXPECT_THAT(lowered(term_of(c), "padded_copy X F q 2\n"), HasSubstr("there is no axis q"));
  EXPECT_THAT(lowered(term_of(c), "padded_copy X F o 2\n"), HasSubstr("X is not read along o"));
  EXPECT_THAT(lowered(term_of(c), "padded_copy X F i\n"), HasSubstr("an axis and the size of its blocks"));
  EXPECT_THAT(lowered(term_of(c), "split f i i.o i.i 2\npadded_copy X F i 2\n"),
              HasSubstr("its loops have been changed before i is cut"));
  EXPECT_THAT(lowered(term_of(c), "padded_copy X F c 2\n"), HasSubstr("kernel")); // of channels, too
}

TEST(Frames, WorkersCopyTheRowsThatTheyRead) {
  for (const int64_t stride : {1, 2})
    for (const MachineLimits& limits : {avx512, avx2}) {
      const Convolution c{.channels = 16,
                          .results = 64,
                          .height = 12 * stride,
                          .width = 12 * stride,
                          .stride = stride,
                          .panel = limits.lanes * 4};
      EXPECT_THAT(default_of(c, limits),
                  testing::AllOf(HasSubstr(fmt::format("padded_copy X X.frame i {}", 12 / limits.threads)),
                                 HasSubstr("parallel X.frame i.b"), HasSubstr("parallel f i.b")));
    }
}

TEST(Frames, RandomConvolutions) {
  int framed = 0, panels = 0;
  for (uint64_t seed = 1; seed <= 40; seed++) {
    std::mt19937_64 random(seed);
    const auto in = [&](int64_t low, int64_t high) {
      return low + int64_t(random() % uint64_t(high - low + 1));
    };
    const MachineLimits limits = std::array{avx512, avx2, one}[random() % 3];
    Convolution c{.images = in(1, 4) > 2 ? in(2, 3) : 1, .channels = in(2, 5), .results = in(16, 80)};
    draw_windows(c, in);
    c.panel = in(0, 1) ? int64_t{limits.vector_registers >= 32 ? 4 : 2} * limits.lanes : 0;
    c.inside = c.pad > 0 && in(0, 1);
    c.within = c.inside && in(0, 1);
    Answers answers;
    if (random() % 3 == 0)
      answers = {{"f.tile_rows", in(1, 2)},
                 {"f.tile_columns", in(1, 3)},
                 {"f.panels_outside", in(0, 1)},
                 {"X.frame.frame_rows", in(2, 5)},
                 {"X.frame.images_inside", in(0, 1)}};
    SCOPED_TRACE(fmt::format("seed {}", seed));
    const std::string schedule = default_of(c, limits, answers, seed);
    framed += schedule.find("padded_copy X") != std::string::npos;
    panels += schedule.find("padded_copy X") != std::string::npos && c.panel;
    if (testing::Test::HasFailure()) return;
  }
  EXPECT_GT(framed, 12);
  EXPECT_GT(panels, 6);
}

/// Both operands of a weight's gradient run along the sum: the results' one is turned, the other is
/// read as shifted views of its frame.
TEST(Gradients, OfWeightsTakePanelsAndTilesOfWindows) {
  const Convolution c{.images = 2, .channels = 3, .results = 40, .height = 12, .width = 12};
  for (const MachineLimits& limits : {avx512, avx2, one}) {
    EXPECT_THAT(default_of(gradient_term_of(c), limits),
                testing::AllOf(HasSubstr("padded_copy X X.frame"), HasSubstr("stage G G.panels"),
                               HasSubstr("store G.panels o.p b i j o\n"), HasSubstr("parallel f o.p")));
    // Nine rows use too little of what would be turned and copied.
    EXPECT_THAT(
        default_of(gradient_term_of({.channels = 1, .results = 32, .height = 12, .width = 12}), limits),
        testing::AllOf(Not(HasSubstr("frame")), Not(HasSubstr("G.panels"))));
    // An update of the weight is computed where the sums end.
    EXPECT_THAT(default_of(gradient_term_of(c, "  %Y = abs %Y0\n"), limits), HasSubstr("G.panels"));
    // Nothing to fill up; images of one channel each; and a plain product, whose results lie along
    // the channels.
    EXPECT_THAT(
        default_of(gradient_term_of({.channels = 2, .results = 16, .height = 14, .width = 14, .pad = 0}),
                   limits),
        testing::AllOf(Not(HasSubstr("frame")), HasSubstr("stage G G.panels")));
    EXPECT_THAT(default_of(gradient_term_of({.images = 2,
                                             .channels = 33,
                                             .results = 20,
                                             .height = 6,
                                             .width = 7,
                                             .kernel_h = 1,
                                             .kernel_w = 1,
                                             .pad = 0}),
                           limits),
                HasSubstr("stage X X.panels"));
  }
}

TEST(Gradients, OfRandomWeights) {
  int panels = 0;
  for (uint64_t seed = 1; seed <= 40; seed++) {
    std::mt19937_64 random(seed);
    const auto in = [&](int64_t low, int64_t high) {
      return low + int64_t(random() % uint64_t(high - low + 1));
    };
    const MachineLimits limits = std::array{avx512, avx2, one}[random() % 3];
    Convolution c{.images = in(1, 3), .channels = in(2, 6), .results = in(4, 70)};
    draw_windows(c, in);
    SCOPED_TRACE(fmt::format("seed {}", seed));
    panels += default_of(gradient_term_of(c, seed % 4 ? "" : "  %Y = abs %Y0\n"), limits, {}, seed)
                  .find(".panels") != std::string::npos;
    if (testing::Test::HasFailure()) return;
  }
  EXPECT_GT(panels, 10);
}

/// 1 x 1, 128 results of 7 x 7, the weight in panels.
Convolution pointwise(int64_t channels) {
  return {.channels = channels,
          .results = 128,
          .height = 7,
          .width = 7,
          .kernel_h = 1,
          .kernel_w = 1,
          .pad = 0,
          .panel = 64};
}

/// Rows of the other operand are contiguous there: hints about later rows would ask for another
/// line in each step of the sum.
TEST(AcrossPanels, NothingIsAskedForAhead) {
  const Convolution c = pointwise(256);
  for (const MachineLimits& limits : {one, avx512}) {
    MachineLimits small = limits;
    small.l1 = 4096;
    const std::string schedule = default_of(c, small);
    EXPECT_THAT(schedule, HasSubstr("vector f o.i.l"));
    EXPECT_THAT(schedule, Not(HasSubstr("prefetch")));
  }
}

/// What the last cache keeps passes by once for each image, what comes from memory once for all of
/// them, and the next panel is asked for.
TEST(AcrossPanels, OfSeveralImages) {
  Convolution c = pointwise(256);
  c.images = 4;
  for (const MachineLimits& limits : {one, avx512}) {
    MachineLimits small = limits;
    small.l1 = 4096;
    EXPECT_THAT(default_of(c, small), testing::AllOf(HasSubstr("order f b o.i.c"), HasSubstr("parallel f b"),
                                                     Not(HasSubstr("prefetch"))));
    small.l3 = 256 * 1024;
    EXPECT_THAT(default_of(c, small),
                testing::AllOf(HasSubstr("o.i.p o.i.q b j.t"), HasSubstr("prefetch f W o.i.p c 1")));
  }
  // A copy of what steps of two read, of all images.
  Convolution steps{.images = 2,
                    .channels = 80,
                    .results = 256,
                    .height = 13,
                    .width = 13,
                    .kernel_h = 1,
                    .kernel_w = 1,
                    .stride = 2,
                    .pad = 0,
                    .panel = 64};
  MachineLimits small = one;
  small.l2 = 64 * 1024;
  EXPECT_THAT(default_of(steps, small), HasSubstr("store x.windows root b c i j"));
  steps.images = 16;
  EXPECT_THAT(default_of(steps, small), HasSubstr("store x.windows b b c i j"));
}

/// Tiles of 5 x 2 leave as little over of 49 rows as those of 5 x 4, but read the rows twice.
TEST(AcrossPanels, AreTakenWhole) {
  const Convolution c = pointwise(64);
  MachineLimits small = one;
  small.l2 = 16 * 1024;
  EXPECT_THAT(default_of(c, one), HasSubstr("split f o.i o.i.q o.i.r 64\n"));
  EXPECT_THAT(default_of(c, small), HasSubstr("split f o.i o.i.q o.i.r 64\n"));
}

TEST(Frames, RunsOfACopyThatAreCutWithARemainderAreReadPlainly) {
  // Five rows of ten are one run of 50, cut into 48 and 2: the place in the copy needs no division,
  // which would make gathers of its loads.
  const std::string term = term_of(
      {.channels = 8, .height = 20, .width = 20, .kernel_h = 1, .kernel_w = 1, .stride = 2, .pad = 0});
  EXPECT_THAT(lowered(term, R"(
    materialize x xw
    split xw i i.o i.i 5
    split f i i.o i.i 5
    store xw i.o i/5 c i%5 j
    order xw i.o c i.i j
    parallel xw i.o
    order f o i.o i.i j c
    merge f i.i j j
    split f j j.p j.q 48
    split f j.q j.v j.l 16
    split f o o.t o.i 3
    order f i.o j.p o.t c o.i j.v j.l
    parallel f i.o
    vector f j.l
    unroll f j.v o.i
    at f i.o)"),
              Not(testing::AnyOf(HasSubstr("//"), HasSubstr("%"))));
}

/// Each channel has a window of its own.
std::string depthwise_term_of(const Convolution& c) {
  const std::string axes = fmt::format("b: {}, c: {}, i: {}, j: {}, r: {}, s: {}", c.images, c.channels,
                                       c.out(c.height, c.kernel_h), c.out(c.width, c.kernel_w), c.kernel_h,
                                       c.kernel_w),
                    i = fmt::format("{}*i + {}*r - {}", c.stride, c.dilation, c.pad),
                    j = fmt::format("{}*j + {}*s - {}", c.stride, c.dilation, c.pad);
  return fmt::format(
      "fn @conv(%X: f32[{}, {}, {}, {}], %W: f32[{}, {}, {}]) {{\n  %x = view %X [{axes}] -> [b, c, {}, "
      "{}]{}\n"
      "  %w = view %W [{axes}] -> [c, r, s]\n  %p = mul %x, %w\n  %f = fold [{axes}] over [r, s] {{ sum "
      "%p[b, c, i, j, r, s] }}\n  %Y = get %f, 0\n  return Y = %Y\n}}\n",
      c.images, c.channels, c.height, c.width, c.channels, c.kernel_h, c.kernel_w, i, j,
      c.pad ? fmt::format(" where 0 <= {0} and {0} < {1} and 0 <= {2} and {2} < {3}", i, c.height, j, c.width)
            : "",
      fmt::arg("axes", axes));
}

TEST(Depthwise, RowsOfWindowsLeaveRegistersForWhatTheyShare) {
  const auto of = [](int64_t height, int64_t width, int64_t images = 1) {
    return default_of(depthwise_term_of({.images = images, .channels = 2, .height = height, .width = width}),
                      one);
  };
  EXPECT_THAT(of(8, 64), HasSubstr("split f i i.o i.i 2\n")); // beside four vectors
  EXPECT_THAT(of(8, 32), HasSubstr("split f i i.o i.i 4\n")); // beside two
  // Not images, which share nothing; one vector with dead lanes; as many rows as divide.
  EXPECT_THAT(of(14, 14, 8), testing::AllOf(HasSubstr("split f i i.o i.i 7\n"), HasSubstr("vector f j\n"),
                                            HasSubstr("unroll f i.i\n")));
  EXPECT_THAT(of(7, 7), testing::AllOf(HasSubstr("vector f j\n"), HasSubstr("unroll f i\n")));
  // One image that the second cache does not hold, too.
  MachineLimits small = one;
  small.l2 = 4 << 10;
  EXPECT_THAT(default_of(depthwise_term_of({.channels = 8, .height = 14, .width = 14}), small),
              testing::AllOf(HasSubstr("split f i i.o i.i 7\n"), HasSubstr("jam f r 3\n")));
}

TEST(Depthwise, RowsAtEveryOtherPlaceAreAskedForAhead) {
  const Convolution c{.channels = 4, .height = 40, .width = 40, .stride = 2};
  MachineLimits limits = one;
  EXPECT_THAT(default_of(depthwise_term_of(c), limits), Not(HasSubstr("prefetch"))); // in the second cache
  limits.l2 = 16 << 10;
  EXPECT_THAT(default_of(depthwise_term_of(c), limits), HasSubstr("prefetch f X i.o r 4\n"));
  Convolution near = c;
  near.height = 60, near.width = 32; // neighbouring lines
  EXPECT_THAT(default_of(depthwise_term_of(near), limits), Not(HasSubstr("prefetch")));
  near = c;
  near.stride = 1;
  EXPECT_THAT(default_of(depthwise_term_of(near), limits), Not(HasSubstr("prefetch")));
}

TEST(Depthwise, RandomSizes) {
  std::mt19937_64 random(7);
  const auto in = [&](int64_t low, int64_t high) {
    return low + int64_t(random() % uint64_t(high - low + 1));
  };
  for (int i = 0; i < 60; i++) {
    Convolution c{.images = in(1, 8), .channels = in(1, 6)};
    draw_windows(c, in);
    c.height = in(6, 14), c.width = in(6, 20);
    MachineLimits limits = i % 3 == 0 ? avx512 : i % 3 == 1 ? avx2 : one;
    limits.l2 = in(0, 1) ? 4 << 10 : 1 << 20;
    default_of(depthwise_term_of(c), limits, {}, uint64_t(i + 1));
    if (HasFailure()) FAIL() << i;
  }
}

TEST(Lanes, OfFewerTripsAreFilledUp) {
  const std::string term = "fn @conv(%X: f32[3, 11]) {\n  %Y = neg %X\n  return Y = %Y\n}\n";
  Module module = parse_module(term, "lanes");
  auto cone = cone_of(module.entry(), false);
  ASSERT_TRUE(cone) << cone.error();
  const std::string name = cone->stages.front().name, last = cone->axes[AxisId(1)].name;
  EXPECT_THAT(lowered(term, fmt::format("vector {} {}", name, last)),
              HasSubstr(fmt::format("vector {} in 0..16 masked 11\n", last)));
}

} // namespace
} // namespace luminal::kernel
