// golden/nest_test.cpp -- stages that share blocks: the default schedules of random sizes and
// machines equal the interpreter, and are the ones that are meant.
#include "golden/golden_support.h"
#include <fmt/format.h>

namespace luminal::kernel::nest_test {
namespace {

using testing::AnyOf;
using testing::HasSubstr;
using testing::Not;

const MachineLimits avx512{.lanes = 16, .vector_registers = 32, .threads = 2},
    avx2{.lanes = 8, .vector_registers = 16, .threads = 3},
    small{.lanes = 8, .vector_registers = 16, .l1 = 4 << 10, .threads = 1};

/// Runs the term as one kernel; with an empty `text` under the default schedule. Gives the schedule.
std::string expect_right(const std::string& term, const MachineLimits& limits, uint64_t seed,
                         const std::string& text = {}) {
  const Module module = parse_module(term, "term");
  EXPECT_THAT(verify(module), testing::IsEmpty()) << term;
  auto cone = cone_of(module.entry(), false);
  if (!cone) return cone.error();
  Schedule schedule = parse_schedule(text);
  Result<Kernel> kernel = Failure{"none"};
  if (text.empty()) {
    DefaultKernel made = default_kernel(*cone, limits);
    schedule = std::move(made.schedule), kernel = std::move(made.kernel);
  } else {
    kernel = lower(*cone, schedule, {.lanes = limits.lanes});
  }
  EXPECT_TRUE(bool(kernel)) << (kernel ? "" : kernel.error()) << to_string(schedule) << term;
  if (!kernel) return {};
  EXPECT_THAT(verify(*kernel), testing::IsEmpty()) << to_string(*kernel);
  const Bindings inputs = random_bindings(module.entry(), {"term", {}}, seed);
  KernelRun got = run_cone(module.entry(), *cone, *kernel, inputs, adversarial(seed, 1 + int(seed % 3)));
  EXPECT_TRUE(got.run.ok()) << got.run.text() << to_string(schedule) << term;
  if (!got.run.ok()) return {};
  auto want = Interpreter(module, inputs).run();
  for (const auto& [name, result] : got.results)
    EXPECT_LE(difference(DType::f32, result, want.at(name)), 4e-6) << name << "\n"
                                                                   << to_string(schedule) << term;
  return to_string(schedule);
}

std::string variance(int64_t rows, int64_t length, bool normed) {
  const std::string head = fmt::format(R"(fn @main(%x: f32[{0}, {1}]) {{
  %one = const f32 1
  %zero = const f32 0
  %f = fold [m: {0}, k: {1}] over [k] {{ sum %one[]; sum(self * old0 / new0) %x[m, k]; sum(self + (new1 - old1) * (new1 - old1) * old0) %zero[] }}
  %n = get %f, 0
  %m2 = get %f, 2
  %nb = view %n [m: {0}] -> []
  %var = div %m2, %nb
)",
                                       rows, length);
  if (!normed) return head + "  return y = %var\n}\n";
  return head + fmt::format(R"(  %mean = get %f, 1
  %mb = view %mean [m: {0}, k: {1}] -> [m]
  %vb = view %var [m: {0}, k: {1}] -> [m]
  %d = sub %x, %mb
  %s = sqrt %vb
  %y = div %d, %s
  return y = %y
}}
)",
                            rows, length);
}

TEST(Nest, StatisticsOfLongRowsGoInTiles) {
  int tiled = 0;
  for (uint64_t seed = 1; seed <= 12; seed++) {
    std::mt19937_64 random(seed);
    const int64_t rows = 2 + int64_t(random() % 4), length = 600 + int64_t(random() % 1500);
    SCOPED_TRACE(fmt::format("seed {}", seed));
    const std::string schedule = expect_right(variance(rows, length, seed % 2), small, seed);
    tiled += schedule.find("cascade f k.o") != std::string::npos;
    if (testing::Test::HasFailure()) return;
  }
  EXPECT_GT(tiled, 8);
}

TEST(Nest, RowsThatFitTheFirstCacheAreReadAgain) {
  EXPECT_THAT(expect_right(variance(3, 700, false), avx512, 1), HasSubstr("cascade f root"));
}

std::string normed_product(int64_t m, int64_t n, int64_t k) {
  return fmt::format(R"(fn @main(%x: f32[{M}, {K}], %w: f32[{K}, {N}]) {{
  %xx = mul %x, %x
  %sf = fold [m: {M}, k: {K}] over [k] {{ sum %xx[m, k] }}
  %ss = get %sf, 0
  %rs = rsqrt %ss
  %a = view %x [m: {M}, n: {N}, k: {K}] -> [m, k]
  %b = view %w [m: {M}, n: {N}, k: {K}] -> [k, n]
  %p = mul %a, %b
  %f = fold [m: {M}, n: {N}, k: {K}] over [k] {{ sum %p[m, n, k] }}
  %z = get %f, 0
  %rb = view %rs [m: {M}, n: {N}] -> [m]
  %y = mul %z, %rb
  return y = %y
}}
)",
                     fmt::arg("M", m), fmt::arg("N", n), fmt::arg("K", k));
}

TEST(Nest, ProductsAndStatisticsShareBlocksOfRows) {
  for (uint64_t seed = 1; seed <= 8; seed++) {
    std::mt19937_64 random(seed);
    const auto in = [&](int64_t low, int64_t high) {
      return low + int64_t(random() % uint64_t(high - low + 1));
    };
    SCOPED_TRACE(fmt::format("seed {}", seed));
    const std::string schedule =
        expect_right(normed_product(in(300, 400), in(8, 40), in(4, 40)), seed % 2 ? avx512 : avx2, seed);
    EXPECT_THAT(schedule, HasSubstr(" m m.o m.i "));
    if (testing::Test::HasFailure()) return;
  }
}

/// The gradient of attention's queries, or those of its keys and values.
std::string gradient(int64_t h, int64_t q, int64_t k, int64_t d, bool of_queries) {
  std::string text = fmt::format(
      R"(fn @main(%Q: f32[{H}, {M}, {D}], %K: f32[{H}, {N}, {D}], %V: f32[{H}, {N}, {D}], %dO: f32[{H}, {M}, {D}], %L: f32[{H}, {M}], %Dv: f32[{H}, {M}]) {{
  %q = view %Q [h: {H}, q: {M}, k: {N}, d: {D}] -> [h, q, d]
  %kk = view %K [h: {H}, q: {M}, k: {N}, d: {D}] -> [h, k, d]
  %qk = mul %q, %kk
  %sf = fold [h: {H}, q: {M}, k: {N}, d: {D}] over [d] {{ sum %qk[h, q, k, d] }}
  %S = get %sf, 0
  %scale = const f32 0.0625
  %sc = view %scale [h: {H}, q: {M}, k: {N}] -> []
  %s = mul %S, %sc
  %Lb = view %L [h: {H}, q: {M}, k: {N}] -> [h, q]
  %sd = sub %s, %Lb
  %P = exp %sd
  %o = view %dO [h: {H}, q: {M}, k: {N}, e: {D}] -> [h, q, e]
  %v = view %V [h: {H}, q: {M}, k: {N}, e: {D}] -> [h, k, e]
  %ov = mul %o, %v
  %dpf = fold [h: {H}, q: {M}, k: {N}, e: {D}] over [e] {{ sum %ov[h, q, k, e] }}
  %dP = get %dpf, 0
  %Db = view %Dv [h: {H}, q: {M}, k: {N}] -> [h, q]
  %dd = sub %dP, %Db
  %ds0 = mul %P, %dd
  %dS = mul %ds0, %sc
  %dsb = view %dS [h: {H}, q: {M}, k: {N}, d: {D}] -> [h, q, k]
)",
      fmt::arg("H", h), fmt::arg("M", q), fmt::arg("N", k), fmt::arg("D", d));
  if (of_queries)
    return text + fmt::format(R"(  %dqp = mul %dsb, %kk
  %dqf = fold [h: {H}, q: {M}, k: {N}, d: {D}] over [k] {{ sum %dqp[h, q, k, d] }}
  %dQ = get %dqf, 0
  return dQ = %dQ
}}
)",
                              fmt::arg("H", h), fmt::arg("M", q), fmt::arg("N", k), fmt::arg("D", d));
  return text + fmt::format(R"(  %dkp = mul %dsb, %q
  %pb = view %P [h: {H}, q: {M}, k: {N}, e: {D}] -> [h, q, k]
  %dvp = mul %pb, %o
  %dkf = fold [h: {H}, q: {M}, k: {N}, d: {D}] over [q] {{ sum %dkp[h, q, k, d] }}
  %dK = get %dkf, 0
  %dvf = fold [h: {H}, q: {M}, k: {N}, e: {D}] over [q] {{ sum %dvp[h, q, k, e] }}
  %dV = get %dvf, 0
  return dK = %dK, dV = %dV
}}
)",
                            fmt::arg("H", h), fmt::arg("M", q), fmt::arg("N", k), fmt::arg("D", d));
}

TEST(Nest, GradientsOfAttentionGoInTiles) {
  for (uint64_t seed = 1; seed <= 10; seed++) {
    std::mt19937_64 random(seed);
    const auto in = [&](int64_t low, int64_t high) {
      return low + int64_t(random() % uint64_t(high - low + 1));
    };
    SCOPED_TRACE(fmt::format("seed {}", seed));
    const bool of_queries = seed % 2;
    const std::string schedule = expect_right(
        gradient(in(1, 2), in(70, 130), in(70, 130), in(3, 20), of_queries), seed % 3 ? avx512 : avx2, seed);
    EXPECT_THAT(schedule, HasSubstr(of_queries ? "cascade dqf k.o" : "cascade dvf q.o"));
    if (testing::Test::HasFailure()) return;
  }
}

/// Softmax statistics of a product's rows.
std::string log_sum(int64_t m, int64_t v, int64_t k) {
  return fmt::format(R"(fn @main(%h: f32[{M}, {K}], %w: f32[{K}, {V}]) {{
  %a = view %h [m: {M}, v: {V}, k: {K}] -> [m, k]
  %b = view %w [m: {M}, v: {V}, k: {K}] -> [k, v]
  %p = mul %a, %b
  %f = fold [m: {M}, v: {V}, k: {K}] over [k] {{ sum %p[m, v, k] }}
  %s = get %f, 0
  %one = const f32 1
  %lf = fold [m: {M}, v: {V}] over [v] {{ max %s[m, v]; sum(select(old0 == -inf, 0, self * exp(old0 - new0))) %one[] }}
  %mx = get %lf, 0
  %l = get %lf, 1
  %ll = log %l
  %y = add %ll, %mx
  return y = %y
}}
)",
                     fmt::arg("M", m), fmt::arg("V", v), fmt::arg("K", k));
}

TEST(Nest, StatisticsOfProductsKeepNoProduct) {
  for (uint64_t seed = 1; seed <= 8; seed++) {
    std::mt19937_64 random(seed);
    const auto in = [&](int64_t low, int64_t high) {
      return low + int64_t(random() % uint64_t(high - low + 1));
    };
    SCOPED_TRACE(fmt::format("seed {}", seed));
    EXPECT_THAT(expect_right(log_sum(in(40, 90), in(64, 200), in(3, 30)), seed % 2 ? avx512 : avx2, seed),
                HasSubstr("cascade lf v.o"));
    if (testing::Test::HasFailure()) return;
  }
}

// ---- the directives alone ----
const char* product = R"(fn @main(%x: f32[10, 24], %w: f32[24, 7]) {
  %a = view %x [m: 10, n: 7, k: 24] -> [m, k]
  %b = view %w [m: 10, n: 7, k: 24] -> [k, n]
  %p = mul %a, %b
  %f = fold [m: 10, n: 7, k: 24] over [k] { sum %p[m, n, k] }
  %z = get %f, 0
  %y = sqrt %z
  return y = %y, z = %z
})";

TEST(Nest, PlainFoldsCarryTheirStates) {
  for (const char* tile : {"1", "5", "8", "24"})
    expect_right(product, avx2, 1,
                 fmt::format("split f k ko ki {}\norder f ko m n ki\ncascade f ko\n", tile));
}

/// A sum that is stored with a residual added is read again by the statistic of its rows.
TEST(Nest, StatisticsReadWhatIsStored) {
  for (uint64_t seed = 1; seed <= 6; seed++) {
    std::mt19937_64 random(seed);
    const auto size = [&] { return 3 + int64_t(random() % 40); };
    const std::string term =
        fmt::format(R"(fn @main(%x: f32[{M}, {K}], %h: f32[{M}, {N}], %w: f32[{K}, {N}]) {{
  %a = view %x [m: {M}, n: {N}, k: {K}] -> [m, k]
  %b = view %w [m: {M}, n: {N}, k: {K}] -> [k, n]
  %p = mul %a, %b
  %f = fold [m: {M}, n: {N}, k: {K}] over [k] {{ sum %p[m, n, k] }}
  %z = get %f, 0
  %r = add %z, %h
  %rr = mul %r, %r
  %sf = fold [m: {M}, n: {N}] over [n] {{ sum %rr[m, n] }}
  %ss = get %sf, 0
  return r = %r, ss = %ss
}}
)",
                    fmt::arg("M", size()), fmt::arg("N", size()), fmt::arg("K", size()));
    SCOPED_TRACE(fmt::format("seed {}", seed));
    EXPECT_THAT(expect_right(term, seed % 2 ? avx512 : small, seed), HasSubstr("materialize r r"));
    expect_right(term, avx2, seed, "materialize r r\n");
    if (testing::Test::HasFailure()) return;
  }
}

/// Halves that one value is read by, each of which asks for it at indices that the other one leaves out: the
/// copy in scratch memory has no such elements.
TEST(Nest, CopiesOfComputedValuesAreReadWhereTheyLie) {
  const std::string term = R"(fn @main(%x: f32[3, 24]) {
  %e = exp2 %x
  %low = view %e [i: 6, j: 24] -> [i, j] where i < 3 fill 0
  %high = view %e [i: 6, j: 24] -> [i - 3, j] where i >= 3 fill 0
  %first = iota bool [i: 6, j: 24] -> i < 3
  %y = select %first, %low, %high
  return y = %y
})";
  expect_right(term, avx512, 1, "materialize e copy\n");
  expect_right(term, avx512, 2, "materialize e copy\nvector copy j\nvector y j\n");
}

/// The count of a statistic is known where each trip has as many points; the last part of a row that
/// does not divide has fewer.
TEST(Nest, CountsOfWholeTilesAreKnown) {
  const std::string term = R"(fn @main(%x: f32[3, 96]) {
  %one = const f32 1
  %zero = const f32 0
  %f = fold [m: 3, k: 96] over [k] { sum %one[]; sum(self * old0 / new0) %x[m, k]; sum(self + (new1 - old1) * (new1 - old1) * old0) %zero[] }
  %n = get %f, 0
  %mean = get %f, 1
  %m2 = get %f, 2
  %nb = view %n [m: 3] -> []
  %var = div %m2, %nb
  return mean = %mean, m2 = %m2, var = %var
})";
  const auto counts = [&](const std::string& schedule) {
    expect_right(term, avx2, 3, schedule);
    auto cone = cone_of(parse_module(term, "term").entry(), false);
    auto kernel = lower(*cone, parse_schedule(schedule), {.lanes = 8});
    return to_string(*kernel).find("] + 1.0\n") != std::string::npos;
  };
  const auto tiles = [](int size, const char* order) {
    return fmt::format("split f k ko ki {}\norder f {}\ncascade f ko\n", size, order);
  };
  EXPECT_FALSE(counts("cascade f root\n"));
  for (const char* order : {"m ko ki", "ko m ki"})
    for (const int size : {8, 48, 96}) EXPECT_FALSE(counts(tiles(size, order))) << size << order;
  EXPECT_TRUE(counts(tiles(7, "ko m ki")));
}

std::string failure(const std::string& term, const std::string& text) {
  const Module module = parse_module(term, "term");
  auto cone = cone_of(module.entry(), false);
  if (!cone) return cone.error();
  auto kernel = lower(*cone, parse_schedule(text), {.lanes = 8});
  return kernel ? "" : kernel.error();
}

/// A running sum of products, and what a row of another operand makes of each prefix; with a
/// statistic of the prefixes that another scan keeps.
std::string prefixes(int64_t h, int64_t t, int64_t d, int64_t e, const std::string& kind, bool two) {
  return fmt::format(R"(fn @main(%q: f32[{h}, {t}, {d}], %k: f32[{h}, {t}, {d}], %v: f32[{h}, {t}, {e}]) {{
  %kb = view %k [h: {h}, t: {t}, d: {d}, e: {e}] -> [h, t, d]
  %vb = view %v [h: {h}, t: {t}, d: {d}, e: {e}] -> [h, t, e]
  %kv = mul %kb, %vb
  %s = scan [h: {h}, t: {t}, d: {d}, e: {e}] along t{kind} {{ {second}{op} %kv[h, t, d, e] }}
  %S = get %s, {last}
  %qb = view %q [h: {h}, t: {t}, d: {d}, e: {e}] -> [h, t, d]
  %qs = mul %qb, %S
  %f = fold [h: {h}, t: {t}, d: {d}, e: {e}] over [d] {{ sum %qs[h, t, d, e] }}
  %z = get %f, 0
  %y = add %z, %v
  return y = %y
}}
)",
                     fmt::arg("h", h), fmt::arg("t", t), fmt::arg("d", d), fmt::arg("e", e),
                     fmt::arg("kind", kind), fmt::arg("second", two ? "max %k[h, t, d]; " : ""),
                     fmt::arg("op", two ? "sum(select(old0 == -inf, 0, self * exp2(old0 - new0)))" : "sum"),
                     fmt::arg("last", two ? 1 : 0));
}

TEST(Nest, ReadersOfAScanRunInItsLoop) {
  int blocks = 0;
  for (uint64_t seed = 1; seed <= 24; seed++) {
    std::mt19937_64 random(seed);
    const auto in = [&](int64_t low, int64_t high) {
      return low + int64_t(random() % uint64_t(high - low + 1));
    };
    SCOPED_TRACE(fmt::format("seed {}", seed));
    const char* kinds[] = {"", " exclusive", " reverse", " exclusive reverse"};
    const std::string term =
        prefixes(in(1, 3), in(2, 9), in(2, 7), in(16, 70), kinds[seed % 4], seed % 8 > 3);
    const MachineLimits tiny{.lanes = 8, .vector_registers = 16, .l1 = 1 << 10, .threads = 3};
    const std::string schedule = expect_right(term, seed % 3 ? avx512 : tiny, seed);
    if (seed % 8 > 3)
      EXPECT_THAT(schedule, Not(HasSubstr("rolling"))); // the components run over different axes
    else
      EXPECT_THAT(schedule, HasSubstr("rolling s\n"));
    blocks += schedule.find("split s e e.o e.i") != std::string::npos && seed % 3 == 0;
    if (testing::Test::HasFailure()) return;
  }
  EXPECT_GT(blocks, 2);
}

/// Scans that follow each other, in all directions.
TEST(Nest, ScansOfScansAreRight) {
  const char* kinds[] = {"", " exclusive", " reverse", " exclusive reverse"};
  int rolling = 0;
  for (const char* first : kinds)
    for (const char* second : kinds) {
      const std::string term = fmt::format(R"(fn @main(%x: f32[5, 20], %y: f32[5, 20]) {{
  %s = scan [i: 5, k: 20] along i{} {{ sum %x[i, k] }}
  %S = get %s, 0
  %a = mul %S, %y
  %t = scan [i: 5, k: 20] along i{} {{ max %a[i, k] }}
  %T = get %t, 0
  %z = mul %T, %y
  return z = %z
}}
)",
                                           first, second);
      SCOPED_TRACE(term);
      rolling += expect_right(term, avx512, 1).find("rolling") != std::string::npos;
    }
  EXPECT_EQ(rolling, 4); // both forwards
  EXPECT_THAT(failure(R"(fn @main(%x: f32[5, 20]) {
  %s = scan [i: 5, k: 20] along i { sum %x[i, k] }
  %S = get %s, 0
  %t = scan [i: 5, k: 20] along i reverse { max %S[i, k] }
  %T = get %t, 0
  %z = neg %T
  return z = %z
}
)",
                      "rolling s\nrolling t\n"),
              HasSubstr("stage s goes along i the other way"));
}

TEST(Nest, AScanRollsWhereNobodyReadsItElsewhere) {
  EXPECT_EQ(to_string(parse_schedule("rolling s\n")), "rolling s\n");
  const std::string term = prefixes(2, 5, 4, 16, "", false);
  EXPECT_THAT(failure(term, "rolling s\n"), HasSubstr("stage f reads S outside of the loop t of stage s"));
  EXPECT_THAT(failure(term, "split s t to ti 2\nrolling s\n"),
              HasSubstr("axis t of stage s is split already"));
  EXPECT_THAT(failure(term, "store S root t d h e\nrolling s\n"), HasSubstr("S has a layout already"));
  expect_right(term, avx512, 3, "rolling s\norder s h t d e\norder f h t d e\nat f t\n");
  const std::string shifted = R"(fn @main(%x: f32[4, 20]) {
  %s = scan [i: 4, k: 20] along i { sum %x[i, k] }
  %S = get %s, 0
  %y = view %S [i: 4, k: 20] -> [3 - i, k]
  %z = add %y, %S
  return z = %z
}
)";
  EXPECT_THAT(failure(prefixes(2, 5, 4, 16, "", true), "rolling s\n"),
              HasSubstr("the components of s run over different axes"));
  EXPECT_THAT(failure(prefixes(2, 5, 4, 16, "", true), "vector s e\n"),
              HasSubstr("stage s: all lanes of loop e would write the same result"));
  EXPECT_THAT(failure(shifted, "rolling s\n"), HasSubstr("stage z reads S at other elements of i"));
  EXPECT_THAT(expect_right(shifted, avx512, 1), Not(HasSubstr("rolling")));
  const std::string last = R"(fn @main(%x: f32[4, 20]) {
  %s = scan [i: 4, k: 20] along i { sum %x[i, k] }
  %S = get %s, 0
  %y = view %S [k: 20] -> [3, k]
  return y = %y
}
)";
  EXPECT_THAT(failure(last, "rolling s\n"), HasSubstr("stage y has no axis i"));
  const std::string index = R"(fn @main(%x: i32[5, 20], %w: f32[7, 20]) {
  %s = scan [i: 5, k: 20] along i { max %x[i, k] }
  %S = get %s, 0
  %y = view %w [i: 5, k: 20] with row = %S[i, k] in 0..6 clamp -> [row, k]
  return y = %y
}
)";
  EXPECT_THAT(failure(index, "rolling s\n"), HasSubstr("S is read as an index"));
}

std::string few_rows(int64_t m, int64_t n, int64_t k, const std::string& after) {
  return fmt::format(
      R"(fn @main(%x: f32[{m}, {k}], %w: f32[{k}, {n}], %u: f32[{k}, {n}], %r: f32[{m}, {n}]) {{
  %xb = view %x [m: {m}, n: {n}, k: {k}] -> [m, k]
  %wb = view %w [m: {m}, n: {n}, k: {k}] -> [k, n]
  %p = mul %xb, %wb
  %f = fold [m: {m}, n: {n}, k: {k}] over [k] {{ sum %p[m, n, k] }}
  %a = get %f, 0
  %ub = view %u [m: {m}, n: {n}, k: {k}] -> [k, n]
  %q = mul %xb, %ub
  %g = fold [m: {m}, n: {n}, k: {k}] over [k] {{ sum %q[m, n, k] }}
  %b = get %g, 0
{after}  return y = %y
}}
)",
      fmt::arg("m", m), fmt::arg("n", n), fmt::arg("k", k), fmt::arg("after", after));
}

TEST(Nest, FewRowsPassByAlongAllResults) {
  const char* afters[] = {"  %y = add %a, %r\n", "  %e = exp2 %b\n  %z = mul %a, %e\n  %y = sub %z, %r\n",
                          "  %y = view %a [i: {m}, j: {n}] -> [i, j]\n"};
  for (uint64_t seed = 1; seed <= 18; seed++) {
    std::mt19937_64 random(seed);
    const auto in = [&](int64_t low, int64_t high) {
      return low + int64_t(random() % uint64_t(high - low + 1));
    };
    SCOPED_TRACE(fmt::format("seed {}", seed));
    const int64_t m = in(1, 4), n = in(256, 300), k = in(33, 70);
    MachineLimits limits = seed % 2 ? avx512 : avx2;
    limits.l1 = 4 << 10, limits.l2 = 16 << 10;
    std::string after = afters[seed % 3];
    after = fmt::format(fmt::runtime(after), fmt::arg("m", m), fmt::arg("n", n));
    EXPECT_THAT(expect_right(few_rows(m, n, k, after), limits, seed),
                AnyOf(HasSubstr(" n n.c n.n "), HasSubstr(" j j.c j.n ")));
    if (testing::Test::HasFailure()) return;
  }
}

TEST(Nest, AStageMovesInFrontOfWhatItDoesNotRead) {
  const std::string term = normed_product(12, 9, 10);
  EXPECT_EQ(parse_schedule("before sf f\n").directives[0].kind, DirectiveKind::before);
  EXPECT_EQ(to_string(parse_schedule("before sf f\n")), "before sf f\n");
  expect_right(term, avx2, 2, "before sf f\n");
  EXPECT_THAT(failure(term, "before f sf\n"), HasSubstr("stage f stands in front of sf already"));
  EXPECT_THAT(failure(term, "before y f\n"), HasSubstr("stage y needs what f makes"));
  EXPECT_THAT(failure(term, "before y y\n"), HasSubstr("stage y stands in front of y already"));
}

} // namespace
} // namespace luminal::kernel::nest_test
