// backend/tiles_test.cpp -- products of bf16 numbers on units with tile registers: which take them, with
// results as the interpreter's, in the loop interpreter and where the processor has them in machine code.
#include "changed_schedules.h"

namespace luminal::kernel {
namespace {

struct Product {
  int64_t m = 64, n = 64, k = 64;
  bool weight_rows = false; ///< B[n, k], else B[k, n]
  bool maps = false;        ///< of the finished sums: y = abs(sum) + bias
  int64_t batches = 0;      ///< 0: none
  bool dynamic = false;     ///< m is the number of a symbol, `rows`
  DType dtype = DType::bf16;
  bool turned = false; ///< A[k, m], else A[m, k]
};

std::string term_of_product(const Product& p) {
  const std::string batch = p.batches ? "t, " : "",
                    batch_size = p.batches ? fmt::format("{}, ", p.batches) : "";
  const std::string rows = p.dynamic ? "rows" : std::to_string(p.m);
  const std::string kept = fmt::format("[{}m: {}, n: {}]", p.batches ? fmt::format("t: {}, ", p.batches) : "",
                                       rows, p.n),
                    axes = kept.substr(0, kept.size() - 1) + fmt::format(", k: {}]", p.k);
  const std::string maps =
      p.maps ? fmt::format("  %h = abs %g\n  %b1 = view %bias {} -> [n]\n  %y = add %h, %b1\n", kept)
             : "  %y = abs %g\n";
  return fmt::format(
      "{symbols}fn @product(%A: {type}[{batch_size}{a}], %B: {type}[{batch_size}{b}], %bias: "
      "f32[{n}]) {{\n"
      "  %a = view %A {axes} -> [{batch}{ai}]\n  %b = view %B {axes} -> [{batch}{bi}]\n"
      "  %c = cast f32 %a\n  %d = cast f32 %b\n  %p = mul %c, %d\n"
      "  %f = fold {axes} over [k] {{ sum %p[{batch}m, n, k] }}\n  %g = get %f, 0\n{maps}"
      "  return y = %y\n}}\n",
      fmt::arg("symbols", p.dynamic ? "symbol rows: 1..4096\n" : ""),
      fmt::arg("type", luminal::to_string(p.dtype)), fmt::arg("batch_size", batch_size),
      fmt::arg("a", p.turned ? fmt::format("{}, {}", p.k, rows) : fmt::format("{}, {}", rows, p.k)),
      fmt::arg("ai", p.turned ? "k, m" : "m, k"), fmt::arg("n", p.n),
      fmt::arg("b", p.weight_rows ? fmt::format("{}, {}", p.n, p.k) : fmt::format("{}, {}", p.k, p.n)),
      fmt::arg("bi", p.weight_rows ? "n, k" : "k, n"), fmt::arg("axes", axes), fmt::arg("batch", batch),
      fmt::arg("maps", maps));
}

/// Sums over two axes, of which the weight [h, d, o] has both, for rows [b, t]; or rows [b, t] alone (h: 0).
std::string term_of_heads(int64_t b, int64_t t, int64_t h, int64_t d, int64_t o) {
  const std::string sums = h ? "h, d" : "d",
                    sizes = h ? fmt::format("h: {}, d: {}", h, d) : fmt::format("d: {}", d),
                    axes = fmt::format("[b: {}, t: {}, o: {}, {}]", b, t, o, sizes),
                    heads = h ? fmt::format("{}, ", h) : "";
  return fmt::format("fn @heads(%A: bf16[{b}, {heads}{t}, {d}], %B: bf16[{heads}{d}, {o}]) {{\n"
                     "  %a = view %A {axes} -> [b, {h}t, d]\n  %b = view %B {axes} -> [{sums}, o]\n"
                     "  %c = cast f32 %a\n  %d = cast f32 %b\n  %p = mul %c, %d\n"
                     "  %f = fold {axes} over [{sums}] {{ sum %p[b, t, o, {sums}] }}\n  %g = get %f, 0\n"
                     "  %y = abs %g\n  return y = %y\n}}\n",
                     fmt::arg("b", b), fmt::arg("heads", heads), fmt::arg("t", t), fmt::arg("d", d),
                     fmt::arg("o", o), fmt::arg("axes", axes), fmt::arg("h", h ? "h, " : ""),
                     fmt::arg("sums", sums));
}

/// Rows of A by a weight in panels of 16 columns, each of words of two elements, as models lay it out.
std::string term_of_panels(const std::string& rows, int64_t panels, int64_t words, bool maps) {
  const std::string kept = fmt::format("[m: {}, j: {}, l: 16]", rows, panels),
                    axes = fmt::format("[m: {}, j: {}, w: {}, l: 16, p: 2]", rows, panels, words);
  return fmt::format("{}fn @panels(%A: bf16[{}, {}], %B: bf16[{}, {}, 16, 2]) {{\n"
                     "  %a = view %A {axes} -> [m, 2*w + p]\n  %b = view %B {axes} -> [j, w, l, p]\n"
                     "  %c = cast f32 %a\n  %d = cast f32 %b\n  %p = mul %c, %d\n"
                     "  %f = fold {axes} over [w, p] {{ sum %p[m, j, w, l, p] }}\n  %g = get %f, 0\n{}"
                     "  return y = %y\n}}\n",
                     rows == "rows" ? "symbol rows: 1..4096\n" : "", rows, 2 * words, panels, words,
                     maps ? "  %h = abs %g\n  %y = add %h, %g\n" : "  %y = abs %g\n", fmt::arg("axes", axes));
}

/// Two such products that one map reads.
std::string term_of_gate(const std::string& rows, int64_t panels, int64_t words) {
  const std::string axes = fmt::format("[m: {}, j: {}, w: {}, l: 16, p: 2]", rows, panels, words);
  std::string text =
      fmt::format("{0}fn @gate(%A: bf16[{1}, {2}], %B: bf16[{3}, {4}, 16, 2], "
                  "%C: bf16[{3}, {4}, 16, 2]) {{\n  %a = view %A {5} -> [m, 2*w + p]\n  %c = cast f32 %a\n",
                  rows == "rows" ? "symbol rows: 1..4096\n" : "", rows, 2 * words, panels, words, axes);
  for (const char* side : {"B", "C"})
    text +=
        fmt::format("  %v{0} = view %{0} {1} -> [j, w, l, p]\n  %d{0} = cast f32 %v{0}\n"
                    "  %p{0} = mul %c, %d{0}\n"
                    "  %f{0} = fold {1} over [w, p] {{ sum %p{0}[m, j, w, l, p] }}\n  %g{0} = get %f{0}, 0\n",
                    side, axes);
  return text + "  %h = abs %gB\n  %y = mul %h, %gC\n  return y = %y\n}\n";
}

/// A convolution of an image with its channels innermost, 3 x 3.
std::string term_of_image(int64_t n, int64_t height, int64_t width, int64_t channels, int64_t out) {
  const std::string axes =
      fmt::format("[n: {}, y: {}, x: {}, o: {}, r: 3, s: 3, c: {}]", n, height, width, out, channels);
  return fmt::format("fn @image(%X: bf16[{n}, {in_height}, {in_width}, {c}], %W: bf16[{o}, 3, 3, {c}]) {{\n"
                     "  %a = view %X {axes} -> [n, y + r, x + s, c]\n"
                     "  %b = view %W {axes} -> [o, r, s, c]\n"
                     "  %c = cast f32 %a\n  %d = cast f32 %b\n  %p = mul %c, %d\n"
                     "  %f = fold {axes} over [r, s, c] {{ sum %p[n, y, x, o, r, s, c] }}\n  %g = get %f, 0\n"
                     "  %y = abs %g\n  return y = %y\n}}\n",
                     fmt::arg("n", n), fmt::arg("in_height", height + 2), fmt::arg("in_width", width + 2),
                     fmt::arg("c", channels), fmt::arg("o", out), fmt::arg("axes", axes));
}

MachineLimits with_tiles(int threads) {
  return {.lanes = 16,
          .vector_registers = 32,
          .full_rate = true,
          .l2 = 64 << 10,
          .threads = threads,
          .units = {"amx.dpbf16"}};
}

/// Images with zeros around them, one dimension for each size.
struct Convolution {
  std::vector<std::pair<int64_t, int64_t>> sizes; ///< of images and of windows
  int64_t batch = 1, in = 32, out = 32, step = 1, padding = 1, dilation = 1;
  bool channels_last = false; ///< the windows
  int64_t groups = 0;         ///< each with its own channels and results; 0: none
};

std::string term_of_convolution(const Convolution& c) {
  const std::string g = c.groups ? "g, " : "", groups = c.groups ? fmt::format("{}, ", c.groups) : "";
  std::string axes = fmt::format("[n: {}, {}o: {}", c.batch, c.groups ? fmt::format("g: {}, ", c.groups) : "",
                                 c.out),
              image = fmt::format("{}, {}{}", c.batch, groups, c.in), at = "n, " + g + "c", inside, windows,
              places, reduced = "c";
  for (size_t d = 0; d < c.sizes.size(); d++) {
    const auto [size, window] = c.sizes[d];
    axes += fmt::format(", y{}: {}", d, (size + 2 * c.padding - c.dilation * (window - 1) - 1) / c.step + 1);
    image += fmt::format(", {}", size), windows += fmt::format(", {}", window),
        places += fmt::format(", r{}", d);
    const std::string place = fmt::format("y{0}*{1} + r{0}*{2}", d, c.step, c.dilation);
    at += fmt::format(", {} - {}", place, c.padding);
    inside +=
        fmt::format("{}{} >= {} and {} < {}", d ? " and " : "", place, c.padding, place, size + c.padding);
    reduced += fmt::format(", r{}", d);
  }
  axes += fmt::format(", c: {}", c.in);
  for (size_t d = 0; d < c.sizes.size(); d++) axes += fmt::format(", r{}: {}", d, c.sizes[d].second);
  axes += "]";
  const std::string kept = axes.substr(0, axes.find(", c:")) + "]";
  std::string point = "n, " + g + "o";
  for (size_t d = 0; d < c.sizes.size(); d++) point += fmt::format(", y{}", d);
  return fmt::format(
      "fn @convolution(%X: bf16[{}], %W: bf16[{}{}{}]) {{\n"
      "  %a = view %X {} -> [{}] where {} fill 0\n  %b = view %W {} -> [{}{}{}]\n"
      "  %c = cast f32 %a\n  %d = cast f32 %b\n  %p = mul %c, %d\n"
      "  %f = fold {} over [{}] {{ sum %p[{}, {}] }}\n  %g = get %f, 0\n  %y = abs %g\n  return y = %y\n}}\n",
      image, groups, c.out,
      c.channels_last ? fmt::format("{}, {}", windows, c.in) : fmt::format(", {}{}", c.in, windows), axes, at,
      inside, axes, g, "o", c.channels_last ? places + ", c" : ", c" + places, axes, reduced, point, reduced);
}

/// Images, windows and results with the channels last.
std::string term_of_channels_last(const Convolution& c) {
  std::string image = fmt::format("{}", c.batch), axes = fmt::format("[n: {}", c.batch), windows, at = "n",
              inside, places, kept = "n", reduced = "c", sums = fmt::format("c: {}", c.in);
  for (size_t d = 0; d < c.sizes.size(); d++) {
    const auto [size, window] = c.sizes[d];
    image += fmt::format(", {}", size), windows += fmt::format(", {}", window),
        places += fmt::format(", r{}", d);
    axes += fmt::format(", y{}: {}", d, (size + 2 * c.padding - c.dilation * (window - 1) - 1) / c.step + 1);
    kept += fmt::format(", y{}", d), reduced += fmt::format(", r{}", d),
        sums += fmt::format(", r{}: {}", d, window);
    const std::string place = fmt::format("y{0}*{1} + r{0}*{2}", d, c.step, c.dilation);
    at += fmt::format(", {} - {}", place, c.padding);
    inside +=
        fmt::format("{}{} >= {} and {} < {}", d ? " and " : "", place, c.padding, place, size + c.padding);
  }
  axes += fmt::format(", o: {}, {}]", c.out, sums);
  return fmt::format(
      "fn @convolution(%X: bf16[{image}, {in}], %W: bf16[{out}{windows}, {in}], %bias: f32[{out}]) {{\n"
      "  %a = view %X {axes} -> [{at}, c] where {inside} fill 0\n  %b = view %W {axes} -> [o{places}, c]\n"
      "  %c = cast f32 %a\n  %d = cast f32 %b\n  %p = mul %c, %d\n"
      "  %f = fold {axes} over [{reduced}] {{ sum %p[{kept}, o, {reduced}] }}\n  %g = get %f, 0\n"
      "  %h = view %bias {results} -> [o]\n  %y = add %g, %h\n  return y = %y\n}}\n",
      fmt::arg("image", image), fmt::arg("in", c.in), fmt::arg("out", c.out), fmt::arg("windows", windows),
      fmt::arg("axes", axes), fmt::arg("at", at), fmt::arg("inside", inside), fmt::arg("places", places),
      fmt::arg("reduced", reduced), fmt::arg("kept", kept),
      fmt::arg("results", axes.substr(0, axes.find(", c:")) + "]"));
}

/// The chosen schedule takes tiles or it does not, where that is said; the results are right.
void check(const std::string& term, std::optional<bool> taken, uint64_t seed, int64_t rows = 0) {
  const Module module = parse_module(term, "product");
  ASSERT_THAT(luminal::verify(module), testing::IsEmpty());
  auto cone = cone_of(module.entry(), false);
  ASSERT_TRUE(cone.ok()) << cone.error();
  const auto [schedule, kernel, decisions] = default_kernel(*cone, with_tiles(1 + int(seed % 2)));
  ASSERT_TRUE(kernel) << kernel.error();
  SCOPED_TRACE(term + to_string(schedule));
  const std::string text = to_string(*kernel);
  const bool takes = text.find("unit amx.dpbf16 ") != std::string::npos;
  EXPECT_EQ(takes, taken.value_or(takes)) << text;
  ASSERT_THAT(verify(*kernel), testing::IsEmpty()) << text;
  GoldenCase about{"product", {}, false, 0, {}};
  if (rows) about.symbols["rows"] = rows;
  const Bindings inputs = random_bindings(module.entry(), about, seed);
  const HostTensor want = Interpreter(module, inputs).run().at("y");
  const int workers = 1 + int(seed % 2);
  const KernelRun got = run_cone(module.entry(), *cone, *kernel, inputs, adversarial(seed, workers));
  ASSERT_TRUE(got.run.ok()) << got.run.text();
  EXPECT_LE(difference(DType::f32, got.results.at("y"), want), 3e-6);
  const codegen::CpuTarget& host = codegen::CpuTarget::host();
  if (!host.bf16_tiles) return;
  test::Arguments args = arguments_of(module.entry(), *cone, *kernel, inputs);
  test::Program(*kernel, host).run(args, workers);
  EXPECT_EQ(args.data.at("y"), got.results.at("y")) << "machine code has other bits";
}
void check(const Product& p, bool taken, uint64_t seed) {
  check(term_of_product(p), taken, seed, p.dynamic ? p.m : 0);
}
void check(const Convolution& c, bool taken, uint64_t seed) { check(term_of_convolution(c), taken, seed); }

TEST(TilesOfProducts, AreTakenWhereTwoByTwoAreFilled) {
  uint64_t seed = 1;
  for (const bool weight_rows : {false, true})
    for (const bool maps : {false, true})
      for (const Product& p : {Product{32, 32, 32}, Product{64, 64, 64}, Product{96, 160, 320}})
        check(Product{p.m, p.n, p.k, weight_rows, maps}, true, ++seed);
}

TEST(TilesOfProducts, WhatFillsNoTileStaysWithTheLanes) {
  check(Product{.m = 31}, false, 1);
  check(Product{.n = 31}, false, 2);
  check(Product{.k = 31}, false, 3);
  check(Product{.dtype = DType::f16}, false, 5);
  check(Product{.m = 1, .n = 256, .k = 256}, false, 6);
}

/// A sum of one step of words: tiles that were loaded for a part are not there for the next one.
TEST(TilesOfProducts, PartsOfOneStepLoadTheirOwn) {
  check(Product{.m = 48, .n = 48, .k = 32}, true, 1);
  check(Product{.m = 80, .n = 112, .k = 32, .weight_rows = true}, true, 2);
}

/// An axis of both operands is a loop around the product; rows of several loops that lie as one are one.
TEST(TilesOfProducts, BatchesAndSumsOverSeveralAxesTakeThem) {
  uint64_t seed = 1;
  for (const bool weight_rows : {false, true})
    for (const Product& p :
         {Product{64, 64, 64, weight_rows, false, 2}, Product{40, 96, 320, weight_rows, true, 3}})
      check(p, true, ++seed);
  check(term_of_heads(2, 48, 3, 64, 64), true, 1);
  check(term_of_heads(3, 33, 2, 40, 50), true, 2);
  check(term_of_heads(8, 6, 0, 64, 64), true, 3);
  check(term_of_heads(2, 16, 0, 64, 33), true, 4);
  check(term_of_image(1, 5, 33, 32, 64), true, 5);
  check(term_of_image(2, 3, 56, 48, 40), true, 6);
}

/// As many rows as there are: whole tiles, what is left of them, few rows.
/// Gradients of weights: the sum runs along the first axis of both operands, and both are copied in words.
TEST(TilesOfProducts, BothOperandsMayLieAcrossTheSum) {
  uint64_t seed = 70;
  for (const Product& p :
       {Product{64, 64, 64}, Product{32, 48, 40}, Product{100, 80, 97}, Product{47, 33, 32}})
    for (const int64_t batches : {0, 3}) {
      Product turned = p;
      turned.turned = true, turned.batches = batches, turned.maps = batches == 0;
      check(turned, true, ++seed);
    }
  Product any{64, 64, 64}; // a copy of as many rows as there may be
  any.turned = any.dynamic = true;
  check(any, false, 1);
}

TEST(TilesOfProducts, RowsOfNoKnownNumberTakeThem) {
  std::mt19937_64 random(17);
  const auto in = [&](int64_t low, int64_t high) {
    return low + int64_t(random() % uint64_t(high - low + 1));
  };
  for (const int64_t rows : {1, 2, 7, 8, 15, 16, 17, 31, 32, 33, 48, 63, 100, 224, 225, 300}) {
    const auto seed = uint64_t(rows);
    check(Product{rows, in(32, 80), in(32, 100), random() % 2 == 0, random() % 2 == 0, int64_t(random() % 3),
                  true},
          true, seed);
    check(Product{rows, 32, 2 * in(260, 300), true, false, 0, true}, true, seed); // the sum in parts
    check(term_of_panels("rows", in(2, 5), in(16, 60), random() % 2 == 0), true, seed, rows);
    if (testing::Test::HasFailure()) return;
  }
  check(term_of_panels("rows", 6, 512, false), true, 1, 75);
  for (const int64_t rows : {8, 24, 67})
    check(term_of_panels(std::to_string(rows), in(2, 6), in(16, 60), true), true, uint64_t(rows));
  for (const char* rows : {"rows", "30", "70"}) // panels from memory: the next pair is asked for meanwhile
    check(term_of_panels(rows, 22, 60, false), true, 3, std::string(rows) == "rows" ? 77 : 0);
  check(term_of_panels("7", 4, 32, false), false, 1);
  check(term_of_gate("rows", 3, 40), {}, 1, 40);
  check(term_of_gate("40", 3, 40), {}, 2);
  check(term_of_panels("rows", 4, 15, false), false, 1, 40);
}

TEST(TilesOfProducts, BatchesAndHeadsAreWhatTheInterpreterSays) {
  std::mt19937_64 random(13);
  const auto in = [&](int64_t low, int64_t high) {
    return low + int64_t(random() % uint64_t(high - low + 1));
  };
  for (uint64_t seed = 0; seed < 24; ++seed) {
    const Product p{in(32, 100), in(32, 100), in(32, 200), random() % 2 == 0, random() % 2 == 0, in(2, 4)};
    check(p, true, seed);
    check(term_of_heads(in(1, 4), in(1, 70), in(0, 3), in(1, 90), in(1, 90)), {}, seed);
    check(term_of_image(in(1, 2), in(1, 5), in(1, 70), in(1, 40), in(1, 70)), {}, seed);
    if (testing::Test::HasFailure()) return;
  }
}

/// Rows, columns and words beyond whole tiles.
TEST(TilesOfProducts, RemaindersAreDoneByTheLanes) {
  std::mt19937_64 random(11);
  for (uint64_t seed = 0; seed < 24; ++seed) {
    const auto in = [&](int64_t low, int64_t high) {
      return low + int64_t(random() % uint64_t(high - low + 1));
    };
    Product p{in(32, 130), in(32, 130), in(32, 300), random() % 2 == 0, random() % 2 == 0};
    p.turned = random() % 3 == 0;
    check(p, true, seed);
    if (testing::Test::HasFailure()) return;
  }
}

/// As products of matrices: columns are the places of all images, filled up to whole tiles.
TEST(TilesOfConvolutions, AreTaken) {
  uint64_t seed = 1;
  for (const bool channels_last : {false, true})
    for (const Convolution& c :
         {Convolution{{{8, 3}, {8, 3}}}, Convolution{{{7, 3}, {7, 3}}, 2, 32, 64},
          Convolution{{{6, 1}, {7, 1}}, 1, 32, 48, 1, 0}, Convolution{{{9, 3}, {14, 3}}, 1, 15, 66, 2},
          Convolution{{{45, 3}}, 1, 32, 32}, Convolution{{{4, 2}, {5, 3}, {6, 3}}, 1, 8, 32},
          Convolution{{{12, 3}, {12, 3}}, 1, 16, 40, 1, 2, 2},
          Convolution{{{8, 3}, {8, 3}}, 2, 16, 32, 1, 1, 1, false, 2}})
      check(
          Convolution{c.sizes, c.batch, c.in, c.out, c.step, c.padding, c.dilation, channels_last, c.groups},
          true, ++seed);
}

/// The rows are places, read from a copy with the zeros around the image where there are any. No window is
/// copied.
TEST(TilesOfConvolutions, WithChannelsLastReadImagesAsTheyLie) {
  uint64_t seed = 40;
  for (const Convolution& c :
       {Convolution{{{12, 3}, {12, 3}}}, Convolution{{{8, 3}, {40, 3}}, 2, 64, 48},
        Convolution{{{9, 1}, {7, 1}}, 2, 32, 64, 1, 0}, Convolution{{{17, 3}, {17, 3}}, 1, 32, 32, 2},
        Convolution{{{7, 3}, {7, 3}}, 3, 48, 32}, Convolution{{{60, 5}}, 1, 32, 32, 1, 2},
        Convolution{{{5, 3}, {6, 3}, {7, 3}}, 1, 32, 32},
        Convolution{{{14, 3}, {14, 3}}, 1, 34, 40, 1, 2, 2}})
    check(term_of_channels_last(c), true, ++seed);
  check(term_of_channels_last(Convolution{{{12, 3}, {12, 3}}, 1, 31, 32}), false, 1); // words of two images
}

TEST(TilesOfConvolutions, WhatPaysForNoCopyStaysWithTheLanes) {
  check(Convolution{{{8, 3}, {8, 3}}, 1, 32, 16}, false, 1); // too few results of each place
  check(Convolution{{{5, 3}, {5, 3}}}, false, 2);            // too few places
  check(Convolution{{{8, 1}, {8, 1}}, 1, 24, 32, 1, 0}, false, 3);
}

TEST(TilesOfConvolutions, AreWhatTheInterpreterSays) {
  std::mt19937_64 random(12);
  const auto in = [&](int64_t low, int64_t high) {
    return low + int64_t(random() % uint64_t(high - low + 1));
  };
  for (uint64_t seed = 0; seed < 24; ++seed) {
    Convolution c{{},       in(1, 3), in(8, 20),     16 * in(2, 4) + in(0, 2),       in(1, 2),
                  in(0, 2), in(1, 2), in(0, 1) == 0, std::max<int64_t>(0, in(-2, 3))};
    for (int64_t d = in(1, 2); d > 0; d--) c.sizes.emplace_back(in(10, 18), in(2, 4));
    if (c.sizes.size() == 1) c.sizes[0].first = in(80, 120);
    check(term_of_convolution(c), {}, seed);
    check(term_of_channels_last(c), {}, seed);
    if (testing::Test::HasFailure()) return;
  }
}

} // namespace
} // namespace luminal::kernel
