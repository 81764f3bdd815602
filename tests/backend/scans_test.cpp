// tests/backend/scans_test.cpp -- scans with lanes along their axis, maps on their results, and scatters
// into one place: plans equal the interpreter.
#include "written_modules.h"

namespace luminal::written_modules {
namespace {

std::string scan_of(const char* type, const char* op, const char* how, int rows, int columns, int along) {
  const std::string shape = fmt::format("[a: {}, b: {}]", rows, columns);
  return fmt::format(R"(fn @main(%x: {0}[{1}, {2}], %y: {0}[{1}, {2}]) {{
  %s = scan {3} along {4}{5} {{ {6} %x[a, b] }}
  %g = get %s, 0
  %m = mul %g, %y
  %t = add %m, %g
  return t = %t, g = %g
}})",
                     type, rows, columns, shape, along == 0 ? "a" : "b", how, op);
}

/// Along the contiguous axis and across it, forwards and backwards, with ends of vectors.
TEST(Scans, LanesAlongTheAxis) {
  for (const char* type : {"f32", "f64", "i32", "i64", "bf16"})
    for (const char* op : {"sum", "max", "min", "prod"})
      for (const char* how : {"", " reverse", " exclusive", " exclusive reverse"})
        for (const int columns : {5, 16, 37, 100}) {
          SCOPED_TRACE(fmt::format("{} {}{} of {}", type, op, how, columns));
          expect_plan(scan_of(type, op, how, 3, columns, 1));
          if (columns == 37) expect_plan(scan_of(type, op, how, columns, 21, 0));
        }
}

/// What is scanned and what is made of it lie backwards, as gradients of sums do.
TEST(Scans, OfFlippedRows) {
  expect_plan(R"(fn @main(%x: f32[6, 75]) {
  %f = view %x [a: 6, b: 75] -> [a, 74 - b]
  %d = cast f64 %f
  %s = scan [a: 6, b: 75] along b { sum %d[a, b] }
  %g = get %s, 0
  %c = cast f32 %g
  %y = view %c [a: 6, b: 75] -> [a, 74 - b]
  return y = %y
})");
}

TEST(Scans, OfUnknownSizes) {
  const std::string text = R"(symbol N: 1..90
fn @main(%x: f32[4, N]) {
  %s = scan [a: 4, b: N] along b { sum %x[a, b] }
  %g = get %s, 0
  %y = exp2 %g
  return y = %y
})";
  for (const int n : {1, 15, 16, 33, 90}) expect_plan(text, {{"N", n}});
}

/// Sums of scatters go into one place; indices that were expanded are read once a row.
TEST(Scatters, SumsOfScatters) {
  for (const char* type : {"f32", "i32", "bf16"})
    expect_plan(
        fmt::format(R"(fn @main(%x: {0}[9, 5], %y: {0}[7, 5], %z: {0}[11, 5], %i: i64[9], %j: i64[7]) {{
  %zero = const {0} 0
  %base = view %zero [a: 11, b: 5] -> []
  %ie = view %i [a: 9, b: 5] -> [a]
  %je = view %j [a: 7, b: 5] -> [a]
  %s = scatter sum %base, %x [a: 9, b: 5] with h0 = %ie[a, b] in 0..10 clamp -> [h0, b]
  %t = scatter sum %base, %y [a: 7, b: 5] with h0 = %je[a, b] in 0..10 clamp -> [h0, b]
  %st = add %s, %t
  %r = add %st, %z
  %m = mul %r, %z
  return r = %r, m = %m
}})",
                    type));
}

/// Small numbers that are added to a large one are added to each other first, as they are written.
TEST(Scatters, SmallNumbersAreNotLostInALargeOne) {
  const Module module = parse_module(R"(fn @main(%x: f32[2], %y: f32[4000, 2]) {
  %zero = const f32 0
  %base = view %zero [a: 2] -> []
  %s = scatter sum %base, %y [a: 4000, b: 2] -> [b]
  %r = add %s, %x
  return r = %r
})");
  Bindings bindings = inputs_of(module, {}, false);
  const auto fill = [&](const char* name, double value) {
    HostTensor& t = bindings.inputs.at(name);
    for (int64_t i = 0; i < t.count(); i++) store_f64(t.dtype, t.data.data(), i, value);
  };
  fill("x", 4096), fill("y", 1 / 8192.0);
  Running running(module, 1);
  auto context = running.start(module, bindings);
  ASSERT_TRUE(context->run().ok());
  const auto got = context->result("r").value();
  for (int64_t i = 0; i < 2; i++) EXPECT_EQ(load_f64(got.dtype, got.bytes.data(), i), 4096.48828125);
}

/// The base is a number everywhere, which the update reads too.
TEST(Scatters, IntoANumberThatIsRead) {
  expect_plan(R"(fn @main(%x: f32[9, 5], %k: bool[9, 5], %i: i64[9, 5]) {
  %one = const f32 1
  %base = view %one [a: 9, b: 5] -> []
  %u = select %k, %x, %base
  %s = scatter sum %base, %u [a: 9, b: 5] with h0 = %i[a, b] in 0..8 clamp -> [h0, b]
  return s = %s
})");
}

/// Statistics of columns in one kernel with what reads them.
TEST(Columns, LogarithmsOfSums) {
  for (const int width : {33, 64})
    for (const char* type : {"f32", "f64"})
      expect_plan(fmt::format(R"(fn @main(%x: {0}[2, 21, 3, {1}]) {{
  %mf = fold [a: 2, b: 21, c: 3, d: {1}] over [b] {{ max %x[a, b, c, d] }}
  %m = get %mf, 0
  %mv = view %m [a: 2, b: 21, c: 3, d: {1}] -> [a, c, d]
  %s = sub %x, %mv
  %e = exp %s
  %lf = fold [a: 2, b: 21, c: 3, d: {1}] over [b] {{ sum %e[a, b, c, d] }}
  %l = get %lf, 0
  %log = log %l
  %lv = view %log [a: 2, b: 21, c: 3, d: {1}] -> [a, c, d]
  %y = sub %s, %lv
  return y = %y
}})",
                              type, width));
}

/// Folds over places from a table, with a lane for each image.
TEST(Columns, GreatestOfPlacesFromATable) {
  expect_plan(R"(fn @main(%x: f32[3, 40, 11]) {
  %t = const i64[4, 5] {0, 1, 2, 3, 4, 2, 3, 4, 5, 6, 5, 6, 7, 7, 8, 7, 8, 9, 10, 10}
  %g = view %x [a: 3, b: 40, c: 4, d: 5] with h0 = %t[c, d] in 0..10 -> [a, b, h0]
  %i = iota i64 [d: 5] -> d
  %f = fold [a: 3, b: 40, c: 4, d: 5] over [d] {
      max %g[a, b, c, d]; min(select(bit_or(old0 == new0, is_nan(old0)), self, inf)) %i[d] }
  %m = get %f, 0
  %p = get %f, 1
  return m = %m, p = %p
})");
  expect_plan(R"(fn @main(%x: f32[3, 40, 30]) {
  %t = const i64[4, 8] {0, 1, 2, 3, 4, 2, 3, 4, 5, 6, 5, 6, 7, 7, 8, 7, 8, 9, 10, 10, 21, 22, 29, 28, 27, 15, 3, 4, 5, 6, 7, 8}
  %g = view %x [a: 3, b: 40, c: 4, d: 8] with h0 = %t[c, d] in 0..29 -> [a, b, h0]
  %f = fold [a: 3, b: 40, c: 4, d: 8] over [d] { sum %g[a, b, c, d] }
  %m = get %f, 0
  return m = %m
})");
}

} // namespace
} // namespace luminal::written_modules
