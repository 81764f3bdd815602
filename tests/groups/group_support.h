// groups/group_support.h -- kernels that groups of lanes run: terms, schedules, and the interpreter of loops
// with as many lanes as the kernel asks for.
#pragma once
#include "golden/golden_support.h"
#include <fmt/format.h>

namespace luminal::kernel {

/// The schedule's kernel of the term, and what it computes.
struct GroupCase {
  Module module;
  Cone cone;
  Kernel kernel;
  Bindings inputs;
  std::map<std::string, HostTensor> want;
};

inline std::optional<GroupCase> group_case(const std::string& term, const std::string& schedule,
                                           uint64_t seed,
                                           const std::map<std::string, int64_t>& symbols = {}) {
  GroupCase c;
  c.module = parse_module(term, "term");
  EXPECT_THAT(verify(c.module), testing::IsEmpty()) << term;
  auto cone = cone_of(c.module.entry(), false);
  EXPECT_TRUE(bool(cone)) << (cone ? "" : cone.error());
  if (!cone) return {};
  c.cone = *cone;
  auto kernel = lower(c.cone, parse_schedule(schedule));
  EXPECT_TRUE(bool(kernel)) << (kernel ? "" : kernel.error()) << schedule << to_string(c.cone);
  if (!kernel) return {};
  c.kernel = *kernel;
  EXPECT_THAT(verify(c.kernel), testing::IsEmpty()) << to_string(c.kernel);
  GoldenCase drawn;
  drawn.name = "term";
  drawn.symbols = symbols;
  c.inputs = random_bindings(c.module.entry(), drawn, seed);
  c.want = Interpreter(c.module, c.inputs).run();
  return c;
}

/// Runs it with workers, lanes and barriers in an order of the seed.
inline void expect_right(const GroupCase& c, uint64_t seed, double tolerance = 4e-6) {
  const int lanes = int(std::max<int64_t>(1, lanes_of_group(c.kernel)));
  const KernelRun got =
      run_cone(c.module.entry(), c.cone, c.kernel, c.inputs, adversarial(seed, 1 + int(seed % 3), lanes));
  EXPECT_TRUE(got.run.ok()) << got.run.text() << to_string(c.kernel);
  if (!got.run.ok()) return;
  for (const auto& [name, result] : got.results)
    EXPECT_LE(difference(c.want.at(name).dtype, result, c.want.at(name)), tolerance) << name << "\n"
                                                                                     << to_string(c.kernel);
}

inline std::string product_term(int64_t m, int64_t n, int64_t k, const std::string& dtype = "f32",
                                const std::string& epilogue = {}) {
  const std::string cast_a = dtype == "f32" ? "%x" : "%xf",
                    casts = dtype == "f32" ? "" : "  %xf = cast f32 %x\n  %yf = cast f32 %y\n";
  return fmt::format(R"(fn @main(%a: {T}[{M}, {K}], %b: {T}[{K}, {N}], %c: f32[{N}]) {{
  %x = view %a [i: {M}, j: {N}, k: {K}] -> [i, k]
  %y = view %b [i: {M}, j: {N}, k: {K}] -> [k, j]
{casts}  %p = mul {l}, {r}
  %f = fold [i: {M}, j: {N}, k: {K}] over [k] {{ sum %p[i, j, k] }}
  %s = get %f, 0
{e}}}
)",
                     fmt::arg("T", dtype), fmt::arg("M", m), fmt::arg("N", n), fmt::arg("K", k),
                     fmt::arg("casts", casts), fmt::arg("l", cast_a),
                     fmt::arg("r", dtype == "f32" ? "%y" : "%yf"),
                     fmt::arg("e", epilogue.empty() ? "  return s = %s\n" : epilogue));
}

/// A batch of products with the transposed second operand, in bf16, and the results in bf16.
inline std::string transposed_term(int64_t batch, int64_t m, int64_t n, int64_t k) {
  return fmt::format(R"(fn @main(%a: bf16[{B}, {M}, {K}], %b: bf16[{B}, {N}, {K}]) {{
  %x = view %a [b: {B}, i: {M}, j: {N}, k: {K}] -> [b, i, k]
  %y = view %b [b: {B}, i: {M}, j: {N}, k: {K}] -> [b, j, k]
  %xf = cast f32 %x
  %yf = cast f32 %y
  %p = mul %xf, %yf
  %f = fold [b: {B}, i: {M}, j: {N}, k: {K}] over [k] {{ sum %p[b, i, j, k] }}
  %s = get %f, 0
  return s = %s
}}
)",
                     fmt::arg("B", batch), fmt::arg("M", m), fmt::arg("N", n), fmt::arg("K", k));
}

/// Tiles of 4*um x 8*un results in groups of 32 lanes, steps of `step` elements of the sum.
inline std::string product_schedule(int um, int un, int step, bool copies = true) {
  return fmt::format(
             "split f i i.o i.r {}\nsplit f i.r i.u i.l 4\nsplit f j j.o j.r {}\nsplit f j.r j.u j.l 8\n"
             "split f k k.o k.i {}\norder f i.o j.o i.l j.l k.o k.i i.u j.u\nmerge f i.o j.o g\n"
             "parallel f g\nlanes f i.l j.l\nunroll f i.u j.u\n",
             4 * um, 8 * un, step) +
         (copies ? "group_copy f a k.o\ngroup_copy f b k.o\n" : "");
}

inline std::string softmax_term(int64_t rows, int64_t length) {
  return fmt::format(R"(fn @main(%x: f32[{M}, {K}]) {{
  %mf = fold [i: {M}, k: {K}] over [k] {{ max %x[i, k] }}
  %m = get %mf, 0
  %mv = view %m [i: {M}, k: {K}] -> [i]
  %d = sub %x, %mv
  %e = exp %d
  %sf = fold [i: {M}, k: {K}] over [k] {{ sum %e[i, k] }}
  %s = get %sf, 0
  %sv = view %s [i: {M}, k: {K}] -> [i]
  %y = div %e, %sv
  return y = %y
}}
)",
                     fmt::arg("M", rows), fmt::arg("K", length));
}

/// `rows` rows a group, `lanes` lanes for each of them; each stage with the name of its axis of the row.
inline std::string rows_schedule(const std::vector<std::pair<std::string, std::string>>& stages, int rows,
                                 int lanes) {
  std::string text;
  for (const auto& [stage, axis] : stages)
    text += fmt::format("split {0} i g i.l {2}\nsplit {0} {1} k.o k.l {3}\norder {0} g i.l k.o k.l\n", stage,
                        axis, rows, lanes);
  return text + "parallel * g\nlanes * i.l k.l\n";
}

inline const std::vector<std::pair<std::string, std::string>> softmax_stages = {
    {"mf", "k"}, {"sf", "k_2"}, {"y", "k_3"}};

/// The logarithm of a sum of powers in one pass: a tuple fold.
inline std::string tuple_term() {
  return R"(fn @main(%x: f32[7, 90]) {
  %one = const f32 1
  %f = fold [i: 7, k: 90] over [k] { max %x[i, k]; sum(select(old0 == -inf, 0, self * exp2(old0 - new0))) %one[] }
  %m = get %f, 0
  %l = get %f, 1
  %g = log2 %l
  %y = add %m, %g
  return y = %y
}
)";
}
inline std::string tuple_schedule() {
  return "fuse f y\nsplit f i g i.l 2\nsplit f k k.o k.l 24\norder f g i.l k.o k.l\nparallel f g\nlanes f "
         "i.l k.l\n";
}

} // namespace luminal::kernel
