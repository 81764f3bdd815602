// tests/backend/written_rows_test.cpp -- values whose readers read different parts of them: a row
// beside all rows, shifted parts, slices without elements.
#include "written_modules.h"

namespace luminal::written_modules {
namespace {

/// A costly value of which one part of a choice reads a single row, the other all rows: what is made of
/// it once has all of them.
TEST(WrittenModules, CostlyValuesAreMadeWithAllRowsThatAreRead) {
  for (const char* rows : {"[0, i1, i2]", "[i0, i1, i2]", "[3 - i0, i1, i2]"})
    expect_plan(fmt::format(R"(fn @main(%x: f32[4, 5, 3]) {{
  %e = exp2 %x
  %v = view %e [i0: 4, i1: 5, i2: 3] -> {}
  %d = add %v, %v
  %last = iota bool [i0: 4, i1: 5, i2: 3] -> i0 == 3
  %s = select %last, %d, %e
  %mf = fold [i0: 4, i1: 5, i2: 3] over [i1] {{ max %s[i0, i1, i2] }}
  %m = get %mf, 0
  %mv = view %m [i0: 4, i1: 5, i2: 3] -> [i0, i2]
  %t = sub %s, %mv
  %p = exp %t
  %lf = fold [i0: 4, i1: 5, i2: 3] over [i1] {{ sum %p[i0, i1, i2] }}
  %l = get %lf, 0
  %lv = view %l [i0: 4, i1: 5, i2: 3] -> [i0, i2]
  %y = div %p, %lv
  return y = %y
}})",
                            rows));
  // Parts of a value that are shifted, and one that begins where it does.
  expect_plan(R"(fn @main(%x: f32[9, 5]) {
  %e = exp2 %x
  %a = view %e [i: 4, k: 5] -> [i, k]
  %b = view %e [i: 4, k: 5] -> [i + 5, k]
  %s = add %a, %b
  %mf = fold [i: 4, k: 5] over [k] { max %s[i, k] }
  %m = get %mf, 0
  %mv = view %m [i: 4, k: 5] -> [i]
  %t = sub %s, %mv
  %p = exp %t
  %lf = fold [i: 4, k: 5] over [k] { sum %p[i, k] }
  %l = get %lf, 0
  %lv = view %l [i: 4, k: 5] -> [i]
  %y = div %p, %lv
  return y = %y
})");
}

/// A costly value that a window reads where that lies inside, and a later sum reads plainly: what is made of
/// it once has no axes of the window.
TEST(WrittenModules, CostlyValuesOfWindowsAreMadeWithoutTheirAxes) {
  expect_plan(R"(fn @main(%v97: f32[2, 2, 2, 8, 1, 2, 2], %v9: f32[1, 2, 1, 1], %v3: f32[2, 2, 8, 1]) {
  %3 = rsqrt %v9
  %4 = view %3 [i0: 2, i1: 2, i2: 8, i3: 1] -> [0, i1, 0, 0]
  %7 = mul %v3, %4
  %8 = view %7 [i0: 2, i1: 2, i2: 2, i3: 8, i4: 1, i5: 2, i6: 2] -> [i0, i2, i3 + i5 - 1, 0]
      where i6 and i3 + i5 >= 1 fill 0
  %9 = fold [i0: 2, i1: 2, i2: 2, i3: 8, i4: 1, i5: 2, i6: 2] over [i2, i5, i6] { sum %8[i0, i1, i2, i3, i4, i5, i6] }
  %12 = get %9, 0
  %13 = view %12 [i0: 2, i1: 2, i2: 2, i3: 8, i4: 1, i5: 2, i6: 2] -> [i0, i2, i3 + i5 - 1, 0]
      where i6 and i3 + i5 >= 1 fill 0
  %14 = mul %13, %v97
  %15 = fold [i0: 2, i1: 2, i2: 2, i3: 8, i4: 1, i5: 2, i6: 2] over [i2, i5, i6] { sum %14[i0, i1, i2, i3, i4, i5, i6] }
  %16 = get %15, 0
  %18 = add %16, %7
  %20 = view %18 [i0: 2, i1: 11, i2: 2, i3: 8, i4: 1] -> [i0, i2, i3, 0]
  %21 = fold [i0: 2, i1: 11, i2: 2, i3: 8, i4: 1] over [i2] { sum %20[i0, i1, i2, i3, i4] }
  %22 = get %21, 0
  %o = view %22 [i0: 2, i1: 8, i2: 2] -> [i0, 0, i1, 0]
  return o = %o
}
)");
}

/// Slices that begin behind the last element and have none.
TEST(WrittenModules, EmptySlicesOfWhatKernelsMake) {
  for (const char* made :
       {"view %x [i: 2, j: 4] -> [1 - i, j]", "exp %x", "view %x [i: 2, j: 4] -> [i, j - 1] where j >= 1",
        "view %x [i: 2, j: 4] with h = %k[i] in 0..1 -> [h, j]"})
    expect_plan(fmt::format(R"(fn @main(%x: f32[2, 4], %k: i64[2]) {{
  %m = {}
  %v = view %m [i: 0] -> [i + 2, i]
  %w = view %m [i: 0, j: 3] -> [i + 2, j]
  %s = fold [i: 0, j: 3] over [i] {{ sum %w[i, j] }}
  %y = get %s, 0
  return v = %v, y = %y
}})",
                            made));
}

/// As many bytes as a vector has lanes, multiplied and summed at once: the sum of all lanes is taken,
/// whatever instructions LLVM finds for it.
TEST(WrittenModules, SumsOfOneVectorOfProductsOfBytes) {
  for (const int k : {4, 8, 16, 32, 64})
    for (const char* types : {"u8 i8", "i8 u8", "i8 i8", "u8 u8"})
      for (const bool across : {true, false}) {
        const auto first = std::string(types, 2), second = std::string(types + 3);
        expect_plan(fmt::format(R"(fn @main(%a: {0}[2, {2}], %b: {1}[{3}]) {{
  %ac = cast i32 %a
  %bc = cast i32 %b
  %av = view %ac [m: 2, n: 3, k: {2}] -> [m, k]
  %bv = view %bc [m: 2, n: 3, k: {2}] -> [{4}]
  %p = mul %av, %bv
  %f = fold [m: 2, n: 3, k: {2}] over [k] {{ sum %p[m, n, k] }}
  %y = get %f, 0
  return y = %y
}})",
                                first, second, k, across ? fmt::format("{}, 3", k) : fmt::format("3, {}", k),
                                across ? "k, n" : "n, k"));
      }
}

/// Nobody asks for the indices of a scatter that writes nothing, and they may lie anywhere.
TEST(WrittenModules, AScatterOfNothingIsItsBase) {
  expect_plan(R"(
fn @main(%x: f32[3, 0, 5], %v: f32[3, 0, 64], %n: i16[64]) {
  %y = scatter sum %x, %v [i: 3, j: 0, k: 64] with h = %n[k] in 0..4 -> [i, j, h]
  return y = %y
}
)");
}

} // namespace
} // namespace luminal::written_modules
