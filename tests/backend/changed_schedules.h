// backend/changed_schedules.h -- default schedules of random terms with directives added, taken
// away, renamed and renumbered: what is legal equals the term interpreter, in the loop interpreter
// and as machine code before pages that cannot be touched; the rest is refused with a reason.
#pragma once
#include "golden/convolutions.h"
#include "golden/schedule_fuzz.h"
#include "support.h"
#include "support/seeds.h"
#include <fmt/format.h>

namespace luminal::kernel {

struct FuzzTerm {
  std::string text;
  std::map<std::string, int64_t> symbols;
};

inline int64_t edge(std::mt19937_64& random, int64_t most) {
  static constexpr int64_t edges[] = {1,  2,  3,  5,  7,  8,  9,  15, 16,  17,  31,
                                      32, 33, 48, 63, 64, 65, 96, 97, 127, 128, 129};
  const int64_t any = 1 + int64_t(random() % 129);
  return std::min(random() % 3 ? edges[random() % std::size(edges)] : any, most);
}

/// y = x W^T, with W as model files store it: one of f32, bf16, bytes in blocks with a scale for
/// each, gated pairs; any or a fixed number of rows.
inline FuzzTerm rows_term(std::mt19937_64& random) {
  // Many columns: the default schedule unpacks them once.
  const int64_t m = edge(random, 129), n = random() % 3 ? edge(random, 65) : 200,
                kind = int64_t(random() % 4);
  const int64_t k = kind == 2 ? 32 * (1 + int64_t(random() % 3)) : edge(random, 97);
  const bool dynamic = random() % 2;
  const std::string rows = dynamic ? "M" : std::to_string(m),
                    axes = fmt::format("[m: {}, n: {}, k: {}]", rows, n, k);
  std::string inputs, body;
  if (kind == 2) {
    inputs = fmt::format("%w: i8[{0}, {1}, 32], %s: f32[{0}, {1}]", n, k / 32);
    body =
        fmt::format("  %wf = cast f32 %w\n  %sb = view %s [n: {}, b: {}, i: 32] -> [n, b]\n  %ws = mul %wf, "
                    "%sb\n  %b = view %ws {} -> [n, k // 32, k % 32]\n",
                    n, k / 32, axes);
  } else {
    inputs = fmt::format("%w: {}[{}, {}]", kind == 0 ? "f32" : "bf16", n, k);
    body = fmt::format("{}  %b = view %{} {} -> [n, k]\n", kind == 0 ? "" : "  %wf = cast f32 %w\n",
                       kind == 0 ? "w" : "wf", axes);
  }
  std::string last = "  %y = neg %g\n";
  if (kind == 3) {
    inputs += fmt::format(", %u: f32[{}, {}]", n, k);
    last = fmt::format(
        "  %d = view %u {} -> [n, k]\n  %ad = mul %a, %d\n  %h = fold {} over [k] {{ sum %ad[m, n, "
        "k] }}\n  %up = get %h, 0\n  %sg = silu %g\n  %y = mul %sg, %up\n",
        axes, axes);
  }
  return {fmt::format(
              "{}fn @rows(%x: f32[{}, {}], {}) {{\n  %a = view %x {} -> [m, k]\n{}  %ab = mul %a, %b\n  %f = "
              "fold {} over [k] {{ sum %ab[m, n, k] }}\n  %g = get %f, 0\n{}  return y = %y\n}}\n",
              dynamic ? "symbol M: 1..129\n" : "", rows, k, inputs, axes, body, axes, last),
          dynamic ? std::map<std::string, int64_t>{{"M", m}} : std::map<std::string, int64_t>{}};
}

/// Batches of products of narrow numbers, along rows or columns of the second operand.
inline std::string narrow_product(int64_t batches, int64_t m, int64_t n, int64_t k, bool bytes, bool beside) {
  const std::string axes = fmt::format("[t: {}, m: {}, n: {}, k: {}]", batches, m, n, k),
                    wide = bytes ? "i32" : "f32";
  return fmt::format(
      "fn @narrow(%A: {}[{}, {}, {}], %B: {}[{}, {}]) {{\n  %a = view %A {axes} -> [t, m, k]\n  %b = view "
      "%B {axes} -> [t, {}]\n  %c = cast {wide} %a\n  %d = cast {wide} %b\n  %p = mul %c, %d\n  %f = "
      "fold {axes} over [k] {{ sum %p[t, m, n, k] }}\n  %g = get %f, 0\n  %y = cast f32 %g\n  return "
      "y = %y\n}}\n",
      bytes ? "u8" : "bf16", batches, m, k, bytes ? "i8" : "bf16", batches,
      beside ? fmt::format("{}, {}", n, k) : fmt::format("{}, {}", k, n), beside ? "n, k" : "k, n",
      fmt::arg("axes", axes), fmt::arg("wide", wide));
}
inline FuzzTerm narrow_term(std::mt19937_64& random) {
  const int64_t m = edge(random, 65), n = edge(random, 65), k = edge(random, 97);
  const bool bytes = random() % 2, beside = random() % 2;
  return {narrow_product(random() % 2 ? 3 : 1, m, n, k, bytes, beside), {}};
}

inline FuzzTerm convolution_term(std::mt19937_64& random) {
  return {term_of(random_windows(random, 16)), {}};
}

/// Each channel has a window of its own.
inline FuzzTerm depthwise_term(std::mt19937_64& random) {
  const auto in = [&](int64_t low, int64_t high) {
    return low + int64_t(random() % uint64_t(high - low + 1));
  };
  const int64_t images = in(1, 8), channels = in(1, 4), kernel = in(2, 3), stride = in(1, 2), pad = in(0, 1);
  const int64_t height = in(5, 14), width = in(5, random() % 3 ? 20 : 40);
  const auto out = [&](int64_t size) { return (size + 2 * pad - kernel) / stride + 1; };
  const std::string axes = fmt::format("[b: {}, c: {}, i: {}, j: {}, r: {}, s: {}]", images, channels,
                                       out(height), out(width), kernel, kernel),
                    i = fmt::format("{}*i + r - {}", stride, pad),
                    j = fmt::format("{}*j + s - {}", stride, pad);
  return {
      fmt::format(
          "fn @depthwise(%X: f32[{}, {}, {height}, {width}], %W: f32[{}, {}, {}]) {{\n  %x = view %X {axes} "
          "-> [b, c, {i}, {j}] where 0 <= {i} and {i} < {height} and 0 <= {j} and {j} < {width}\n  %w = "
          "view %W {axes} -> [c, r, s]\n  %p = mul %x, %w\n  %f = fold {axes} over [r, s] {{ sum %p[b, c, "
          "i, j, r, s] }}\n  %g = get %f, 0\n  %y = abs %g\n  return y = %y\n}}\n",
          images, channels, channels, kernel, kernel, fmt::arg("height", height), fmt::arg("width", width),
          fmt::arg("axes", axes), fmt::arg("i", i), fmt::arg("j", j)),
      {}};
}

/// Rows of a softmax, weighted by a second operand.
inline FuzzTerm softmax_term(std::mt19937_64& random) {
  const int64_t m = edge(random, 129), n = edge(random, 129);
  const std::string axes = fmt::format("[m: {}, n: {}]", m, n);
  return {
      fmt::format(
          "fn @softmax(%x: f32[{0}, {1}], %c: f32[{1}]) {{\n  %f = fold {2} over [n] {{ max %x[m, n] }}\n  "
          "%g "
          "= get %f, 0\n  %h = view %g {2} -> [m]\n  %d = sub %x, %h\n  %e = exp %d\n  %s = fold {2} over "
          "[n] {{ sum %e[m, n] }}\n  %t = get %s, 0\n  %u = view %t {2} -> [m]\n  %q = div %e, %u\n  %v = "
          "view %c {2} -> [n]\n  %y = mul %q, %v\n  return y = %y\n}}\n",
          m, n, axes),
      {}};
}

/// Products of rows and columns of which a mask of the positions hides some, whole tiles too: their softmax
/// along what it leaves, 0 elsewhere, or the sums of each row alone. The products may be results, too.
inline FuzzTerm weights_term(std::mt19937_64& random) {
  const int64_t m = edge(random, 49), n = edge(random, 129), k = edge(random, 17),
                past = int64_t(random() % 40);
  const bool dynamic = random() % 2, products = random() % 2, sums_alone = random() % 2;
  const std::string masks[] = {"n <= m", fmt::format("n <= m + {}", past), fmt::format("n < {}", past),
                               "m <= n", fmt::format("m < {}", past)};
  const std::string batches = dynamic ? "M" : std::to_string(1 + random() % 3),
                    axes = fmt::format("[b: {}, m: {}, n: {}]", batches, m, n);
  return {fmt::format(R"({symbol}fn @weights(%A: f32[{batches}, {m}, {k}], %B: f32[{batches}, {n}, {k}]) {{
  %a = view %A {sums} -> [b, m, k]
  %b = view %B {sums} -> [b, n, k]
  %p = mul %a, %b
  %f = fold {sums} over [k] {{ sum %p[b, m, n, k] }}
  %g = get %f, 0
  %one = const f32 1
  %F = fold {axes} over [n] where {mask} {{
    max %g[b, m, n];
    sum(select(old0 == -inf, 0, self * exp2(old0 - new0))) %one[]
  }}
  %h = get %F, 0
  %l = get %F, 1
  %hh = view %h {axes} -> [b, m]
  %ll = view %l {axes} -> [b, m]
  %d = sub %g, %hh
  %e = exp2 %d
  %w = div %e, %ll
  %t = iota bool {axes} -> {mask}
  %z = iota f32 {axes} -> 0
  %y = {y}
  return y = %y{more}
}}
)",
                      fmt::arg("symbol", dynamic ? "symbol M: 1..129\n" : ""), fmt::arg("batches", batches),
                      fmt::arg("m", m), fmt::arg("n", n), fmt::arg("k", k), fmt::arg("axes", axes),
                      fmt::arg("sums", fmt::format("[b: {}, m: {}, n: {}, k: {}]", batches, m, n, k)),
                      fmt::arg("mask", masks[random() % std::size(masks)]),
                      fmt::arg("y", sums_alone ? "add %h, %l" : "select %t, %w, %z"),
                      fmt::arg("more", products ? ", g = %g" : "")),
          dynamic ? std::map<std::string, int64_t>{{"M", 1 + int64_t(random() % 5)}}
                  : std::map<std::string, int64_t>{}};
}

/// How far apart the numbers of a row or of a column lie: NaN where one of them is, which a
/// comparison passes over.
inline FuzzTerm spread_term(std::mt19937_64& random) {
  const int64_t m = edge(random, 129), n = edge(random, 129);
  const std::string axes = fmt::format("[m: {}, n: {}]", m, n);
  const bool rows = random() % 2;
  return {fmt::format(
              "fn @spread(%x: f32[{0}]) {{\n  %a = view %x {1} -> [{2}]\n  %f = fold {1} over [n] {{ max "
              "%a[m, n] }}\n  %g = get %f, 0\n  %h = fold {1} over [n] {{ min %a[m, n] }}\n  %l = get "
              "%h, 0\n  %y = sub %g, %l\n  return y = %y\n}}\n",
              rows ? fmt::format("{}, {}", m, n) : fmt::format("{}, {}", n, m), axes, rows ? "m, n" : "n, m"),
          {}};
}

inline test::Arguments arguments_of(const Function& function, const Cone& cone, const Kernel& kernel,
                                    const Bindings& bindings) {
  test::Arguments args;
  ExprMap<int64_t> values;
  for (Expr s : kernel.symbols)
    args.symbol(std::string(s.name()), values[s] = bindings.symbols.at(std::string(s.name())));
  BufferId b(0);
  for (const ConeValue& v : cone.values) {
    if (v.role == ValueRole::interior) continue;
    const Buffer& buffer = kernel.buffers[b++];
    const Node& node = function[v.origin];
    if (v.role == ValueRole::output)
      args.space(buffer.name, size_t(storage_bytes(v.dtype, evaluate(buffer.size, values).value())));
    else if (node.kind == NodeKind::constant)
      args.data[buffer.name] = *std::get<ConstantAttr>(node.attr).data;
    else
      args.data[buffer.name] = bindings.inputs.at(std::get<InputAttr>(node.attr).name).data;
  }
  return args;
}

/// Values that are not finite in some rows, at their ends more often than elsewhere; zeros of both
/// signs and subnormal numbers everywhere. Finite values stay small: whether a sum overflows may
/// depend on its order. No subnormal number meets an infinity as bf16: a unit may take it for a
/// zero.
inline void sprinkle(Bindings& inputs, uint64_t seed) {
  std::mt19937_64 random(seed);
  const bool infinities = random() % 4 != 0, nans = random() % 4 == 0;
  for (auto& [name, t] : inputs.inputs) {
    if (!is_float(t.dtype)) continue;
    const int64_t count = t.count(), row = t.shape.back();
    const auto set = [&](int64_t at, double value) {
      store_f64(t.dtype, t.data.data(), at, random() % 2 ? value : -value);
    };
    for (int64_t i = 0; i < count; i++) {
      const auto drawn = random() % 32;
      if (drawn == 0) set(i, 0);
      if (drawn == 1 && !(infinities && t.dtype == DType::bf16))
        set(i, least_subnormal(t.dtype) * double(1 + random() % 100));
    }
    const auto some = int64_t(random() % uint64_t(2 + count / row / 16));
    for (int64_t i = 0; i < some && (infinities || nans); i++) {
      const int64_t first = int64_t(random() % uint64_t(count / row)) * row;
      const auto drawn = random() % 3;
      const int64_t at = first + (drawn == 0 ? row - 1 : drawn == 1 ? 0 : int64_t(random() % uint64_t(row)));
      set(at, nans && (!infinities || random() % 2) ? NAN : INFINITY);
    }
  }
}

struct Counts {
  int legal = 0, refused = 0;
  std::map<DirectiveKind, int> kinds; // in schedules that were legal
};

/// 1 and -1 for zeros, 0 for other numbers.
inline std::vector<int> signs_of_zeros(const test::Bytes& values) {
  std::vector<int> signs;
  for (int64_t i = 0; i < int64_t(values.size()) / 4; i++) {
    const double v = load_f64(DType::f32, values.data(), i);
    signs.push_back(v != 0 || std::isnan(v) ? 0 : std::signbit(v) ? -1 : 1);
  }
  return signs;
}

/// Within 3e-6 of the largest element. Where terms cancel in all of them: within what rounding, in any order
/// of the sums, may do to each.
inline void expect_close(const Module& module, const Bindings& inputs, const std::string& name,
                         const test::Bytes& made, const HostTensor& want) {
  const double apart = difference(DType::f32, made, want);
  if (apart <= 3e-6) return;
  const auto bounds = Interpreter(module, inputs, InterpMode::bounded).values(name);
  for (size_t i = 0; i < bounds.size(); i++) {
    const double value = load_f64(DType::f32, made.data(), int64_t(i)), exact = bounds[i].value;
    if (value == exact || (std::isnan(value) && std::isnan(exact))) continue;
    ASSERT_TRUE(std::isfinite(bounds[i].error) && std::fabs(value - exact) <= bounds[i].error)
        << name << " differs by " << apart << "; element " << i << " is " << value << ", not " << exact
        << " +- " << bounds[i].error;
  }
}

/// Both judges: loops and machine code.
inline void expect_right(const Module& module, const Cone& cone, const Kernel& kernel,
                         const codegen::CpuTarget& target, const std::map<std::string, int64_t>& symbols,
                         uint64_t seed, bool special = false) {
  const Function& function = module.entry();
  const GoldenCase about{
      "fuzz", symbols, false, 0, {{"w", {-100, 100}}, {"A", {0, 255}}, {"B", {-128, 127}}}};
  Bindings inputs = random_bindings(function, about, seed);
  if (special) sprinkle(inputs, seed);
  const auto answers = Interpreter(module, inputs).run();
  const int workers = 1 + int(seed % 2);
  const KernelRun got = run_cone(function, cone, kernel, inputs, adversarial(seed, workers));
  ASSERT_TRUE(got.run.ok()) << got.run.text();
  for (const auto& [name, want] : answers) {
    expect_close(module, inputs, name, got.results.at(name), want);
    if (testing::Test::HasFatalFailure()) return;
  }
  test::Arguments args = arguments_of(function, cone, kernel, inputs);
  test::Program(kernel, target).run(args, workers);
  for (const FunctionResult& r : function.results) {
    const auto at = std::ranges::find_if(
        cone.values, [&](const ConeValue& v) { return v.origin == r.value && v.role == ValueRole::output; });
    const test::Bytes& made = args.data.at(at->name);
    SCOPED_TRACE("machine code");
    expect_close(module, inputs, r.name, made, answers.at(r.name));
    if (testing::Test::HasFatalFailure()) return;
    // Rules take zeros of either sign alike; one kernel gives the same ones.
    ASSERT_EQ(signs_of_zeros(made), signs_of_zeros(got.results.at(r.name))) << r.name;
  }
}

/// Seeds [first, first + usual), or those of the environment: a legal change is the next one's
/// beginning; `wanted` are kinds that must be among the legal ones.
inline void check_changes(FuzzTerm (*term)(std::mt19937_64&), uint64_t first, uint64_t usual,
                          std::initializer_list<DirectiveKind> wanted) {
  Counts counts;
  const std::vector<codegen::CpuTarget> targets = test::instruction_sets();
  const test::Seeds seeds = test::seeds(first, usual);
  for (uint64_t seed = seeds.first; seed < seeds.end(); seed++) {
    std::mt19937_64 random(seed);
    const FuzzTerm made = term(random);
    SCOPED_TRACE(fmt::format("seed {}\n{}", seed, made.text));
    const Module module = parse_module(made.text, "fuzz");
    ASSERT_THAT(luminal::verify(module), testing::IsEmpty());
    auto cone = cone_of(module.entry(), false);
    ASSERT_TRUE(cone.ok()) << cone.error();
    const codegen::CpuTarget& target = targets[seed % targets.size()];
    const int lanes = std::max(4, target.vector_bits / 32);
    const MachineLimits limits{.lanes = lanes,
                               .vector_registers = lanes == 16 ? 32 : 16,
                               .l2 = 64 << 10,
                               .threads = 1 + int(random() % 2),
                               .units = target.dot_units()};
    const Schedule usual = default_schedule(*cone, limits);
    ScheduleFuzz fuzz(*cone, seed, limits.units);
    Schedule schedule = usual;
    std::optional<Kernel> last;
    for (int step = 1; step <= 24; step++) {
      if (step % 8 == 1) schedule = step == 17 || (step == 1 && seed % 2) ? Schedule{} : usual;
      const Schedule changed = fuzz.change(schedule);
      SCOPED_TRACE("\n" + to_string(changed));
      ASSERT_EQ(parse_schedule(to_string(changed)), changed);
      try {
        if (written_out(*cone, changed) > 128) continue; // takes the compiler too long
      } catch (const ScheduleFailure&) {                 // lowering says so, too
      } catch (const Error&) {
      }
      auto kernel = lower(*cone, changed);
      if (!kernel) {
        counts.refused++;
        ASSERT_THAT(kernel.error(), testing::HasSubstr("[schedule]"));
        continue;
      }
      counts.legal++;
      for (const Directive& d : changed.directives) counts.kinds[d.kind]++;
      schedule = changed;
      ASSERT_THAT(verify(*kernel), testing::IsEmpty()) << to_string(*kernel);
      ASSERT_TRUE(same(parse_kernel(to_string(*kernel)), *kernel));
      if (last && same(*last, *kernel)) continue;
      last = *kernel;
      if (step % 3 != 0) continue; // every one is lowered and verified, the third ones are run
      auto symbols = made.symbols;
      for (int other = 0; other < (symbols.empty() ? 1 : 2); other++) {
        for (auto& [name, value] : symbols) value = other == 0 ? value : edge(random, 129);
        expect_right(module, *cone, *kernel, target, symbols, seed * 100 + uint64_t(step), seed / 2 % 2);
        if (testing::Test::HasFailure()) return;
      }
    }
  }
  if (seeds.own) return; // perhaps one
  EXPECT_GT(counts.legal, int(seeds.count));
  EXPECT_GT(counts.refused, int(seeds.count));
  for (const DirectiveKind kind : wanted)
    EXPECT_GT(counts.kinds[kind], 3) << to_string(Directive{kind, {}, {}});
}

} // namespace luminal::kernel
