// backend/one_pass_test.cpp -- plans of attention written as its formula: equal to the interpreter, and
// the rules find the form that keeps the scores in its kernel.
#include "plans.h"
#include <fmt/format.h>
#include <random>

namespace luminal::one_pass_test {
namespace {

enum class Mask : uint8_t { none, causal, flags, added, causal_and_flags, window, prefix, both_ends, blocks };
constexpr int64_t masks = 9;

bool of_data(Mask mask) { return mask == Mask::flags || mask == Mask::causal_and_flags; }

/// Which keys j a query i sees, as far as indices say; the query stands behind so many keys.
std::string condition(Mask mask, const std::string& past) {
  const std::string later = fmt::format("j <= i + {}", past), near = fmt::format("j > i + {} - 40", past);
  switch (mask) {
  case Mask::causal:
  case Mask::causal_and_flags: return later;
  case Mask::window: return fmt::format("{} and {}", later, near);
  case Mask::prefix: return fmt::format("{} or j < 20", later);
  case Mask::both_ends: return fmt::format("{} and {} or j < 4", later, near);
  case Mask::blocks: return fmt::format("(i + {}) // 16 == j // 16", past);
  default: return {};
  }
}

struct Shape {
  int64_t heads, group, queries, past, depth, width;
  Mask mask = Mask::causal;
  std::string cache = "f32";
  bool dynamic = true, empty_rows_are_zero = false, base_two = false, sink = false;
  int64_t most_queries = 130, most_past = 130, least_queries = 1;
};

/// The maximum of each row of scores, exponentials, their sum, the sum of values: nothing is joined
/// here. The cache's rows beyond the last key stay unread.
Module attention(const Shape& s) {
  const std::string n = s.dynamic ? "n" : std::to_string(s.queries),
                    keys = s.dynamic ? "past + n" : std::to_string(s.past + s.queries),
                    past = s.dynamic ? "past" : std::to_string(s.past),
                    rows = fmt::format("[h: {}, g: {}, i: {}, j: {}]", s.heads, s.group, n, keys);
  std::string text;
  if (s.dynamic)
    text +=
        fmt::format("symbol n: {}..{}\nsymbol past: 0..{}\n", s.least_queries, s.most_queries, s.most_past);
  text += fmt::format("fn @main(%q: f32[{}, {}, {}, {}], %k: {}[{}, {}, {}], %v: {}[{}, {}, {}]", n, s.heads,
                      s.group, s.depth, s.cache, s.heads, s.most_queries + s.most_past, s.depth, s.cache,
                      s.heads, s.most_queries + s.most_past, s.width);
  const bool flags = of_data(s.mask);
  if (flags) text += fmt::format(", %mask: bool[{}, {}]", s.most_queries, s.most_queries + s.most_past);
  if (s.mask == Mask::added)
    text += fmt::format(", %mask: f32[{}, {}]", s.most_queries, s.most_queries + s.most_past);
  if (s.sink) text += fmt::format(", %sink: f32[{}, {}]", s.heads, s.group);
  text += ") {\n";
  const std::string inner =
      fmt::format("[h: {}, g: {}, i: {}, j: {}, d: {}]", s.heads, s.group, n, keys, s.depth);
  for (const char* name : {"k", "v"})
    text += s.cache == "f32" ? fmt::format("  %{0}f = view %{0} [h: {1}, j: {2}, d: {3}] -> [h, j, d]\n",
                                           name, s.heads, keys, *name == 'k' ? s.depth : s.width)
                             : fmt::format("  %{0}f = cast f32 %{0}\n", name);
  text +=
      fmt::format("  %a = view %q {0} -> [i, h, g, d]\n  %b = view %kf {0} -> [h, j, d]\n"
                  "  %ab = mul %a, %b\n  %sf = fold {0} over [d] {{ sum %ab[h, g, i, j, d] }}\n"
                  "  %S = get %sf, 0\n  %c = const f32 {1}\n  %cs = view %c {2} -> []\n  %s0 = mul %S, %cs\n"
                  "  %no = const f32 -inf\n  %nos = view %no {2} -> []\n",
                  inner, 1 / std::sqrt(double(s.depth)), rows);
  std::string scores = "s0";
  if (const std::string sees = condition(s.mask, past); !sees.empty()) {
    text += fmt::format("  %sees = iota bool [i: {}, j: {}] -> {}\n  %seen = view %sees {} -> [i, j]\n"
                        "  %s1 = select %seen, %s0, %nos\n",
                        n, keys, sees, rows);
    scores = "s1";
  }
  if (flags || s.mask == Mask::added) {
    text += fmt::format("  %m = view %mask {} -> [i, j]\n", rows);
    text += flags ? fmt::format("  %s2 = select %m, %{}, %nos\n", scores)
                  : fmt::format("  %s2 = add %{}, %m\n", scores);
    scores = "s2";
  }
  std::string scored = rows;
  if (s.sink) { // one key more, with a score of the head's own and without a value
    const std::string more = fmt::format("[h: {}, g: {}, i: {}, j: {} + 1]", s.heads, s.group, n, keys);
    text += fmt::format("  %js = view %{1} {0} -> [h, g, i, j] where j < {2} fill 0\n"
                        "  %jk = view %sink {0} -> [h, g] where j >= {2} fill 0\n"
                        "  %jc = iota bool {0} -> j < {2}\n  %joined = select %jc, %js, %jk\n",
                        more, scores, keys);
    scores = "joined", scored = more;
  }
  text +=
      fmt::format("  %mf = fold {0} over [j] {{ max %{1}[h, g, i, j] }}\n  %most = get %mf, 0\n"
                  "  %mb = view %most {0} -> [h, g, i]\n  %less = sub %{1}, %mb\n  %e = {2} %less\n"
                  "  %lf = fold {0} over [j] {{ sum %e[h, g, i, j] }}\n  %l = get %lf, 0\n  %r = recip %l\n"
                  "  %rb = view %r {0} -> [h, g, i]\n  %w0 = mul %e, %rb\n",
                  scored, scores, s.base_two ? "exp2" : "exp");
  std::string weights = "w0";
  if (s.empty_rows_are_zero) {
    text += fmt::format("  %zero = const f32 0\n  %zeros = view %zero {0} -> []\n"
                        "  %none = view %no [h: {1}, g: {2}, i: {3}] -> []\n  %empty = eq %most, %none\n"
                        "  %eb = view %empty {0} -> [h, g, i]\n  %w1 = select %eb, %zeros, %w0\n",
                        scored, s.heads, s.group, n);
    weights = "w1";
  }
  const std::string outer =
      fmt::format("[h: {}, g: {}, i: {}, e: {}, j: {}]", s.heads, s.group, n, s.width, keys);
  text += fmt::format(
      "  %wb = view %{1} {0} -> [h, g, i, j]\n  %vb = view %vf {0} -> [h, j, e]\n"
      "  %wv = mul %wb, %vb\n  %of = fold {0} over [j] {{ sum %wv[h, g, i, e, j] }}\n"
      "  %o = get %of, 0\n  %y = view %o [i: {2}, x: {3}] -> [x // {4}, (x // {5}) % {6}, i, x % {5}]\n"
      "  return y = %y\n}}\n",
      outer, weights, n, s.heads * s.group * s.width, s.group * s.width, s.width, s.group);
  return parse_module(text, "attention");
}

Bindings random_inputs(const Module& module, const Shape& s, uint64_t seed) {
  std::mt19937 random(static_cast<unsigned>(seed));
  Bindings bindings;
  if (s.dynamic) bindings.symbols = {{"n", s.queries}, {"past", s.past}};
  for (NodeId id : module.entry().params) {
    const auto& input = std::get<InputAttr>(module.entry()[id].attr);
    HostTensor value;
    value.dtype = input.type.dtype;
    int64_t count = 1;
    for (Expr extent : input.type.shape) {
      value.shape.push_back(extent.is_constant() ? extent.value() : s.queries);
      count *= value.shape.back();
    }
    value.data.resize(size_t(count * bits(value.dtype) / 8));
    for (int64_t i = 0; i < count; i++) {
      double x = std::normal_distribution<>(0, 1)(random);
      if (value.dtype == DType::boolean) { // at random, documents, or keys that end before the cache does
        const int64_t row = i / value.shape[1], key = i % value.shape[1];
        x = seed % 3 == 0 ? x > -0.5 : seed % 3 == 1 ? row / 50 == key / 50 : key < value.shape[1] / 3;
      }
      if (input.name == "mask" && value.dtype == DType::f32 && x > 1) x = -INFINITY;
      // Some rows of a mask let nothing through.
      if (input.name == "mask" && i / value.shape[1] % 7 == 3) x = value.dtype == DType::f32 ? -INFINITY : 0;
      store_f64(value.dtype, value.data.data(), i, x);
    }
    bindings.inputs[input.name] = std::move(value);
  }
  return bindings;
}

/// Scores are what grows with queries times keys: no buffer of a plan, no scratch of a kernel does.
void expect_no_scores(const Running& running, const Shape& s) {
  for (const runtime::Slot& slot : running.plan->slots) {
    if (slot.kind != runtime::SlotKind::arena) continue;
    EXPECT_LE(slot.max_bytes, 4 * s.heads * s.group * s.most_queries * s.width) << slot.name;
  }
  for (const runtime::KernelCode& code : running.plan->kernels)
    for (Expr bytes : {code.shared_bytes, code.local_bytes}) {
      if (of_data(s.mask) && bytes == code.shared_bytes) { // which blocks of scores count
        EXPECT_LE(bytes.range().high, s.most_queries * (s.most_queries + s.most_past) / 512) << code.name;
        continue;
      }
      for (Expr symbol : symbols_of(bytes)) {
        const Expr twice = substitute(bytes, {{symbol, symbol * 2}}); // linear: no more than twice as much
        EXPECT_EQ(prove(le(twice, 2 * bytes)), Truth::yes) << code.name << ": " << to_string(bytes);
      }
    }
}

/// The interpreter in double: every row lies within what f32 gives sums of this length, and is NaN
/// where it says so.
void expect_values(const Module& module, const Bindings& bindings, runtime::Context& context,
                   int64_t& compared) {
  Interpreter judge(module, bindings, InterpMode::f64);
  for (const FunctionResult& r : module.entry().results) {
    const auto want = judge.values(r.name);
    const auto got = context.result(r.name).value();
    for (size_t i = 0; i < want.size(); i++) {
      const double value = load_f64(got.dtype, got.bytes.data(), int64_t(i));
      if (std::isnan(want[i].value))
        ASSERT_TRUE(std::isnan(value)) << r.name << " element " << i << " is " << value;
      else
        ASSERT_LE(std::abs(value - want[i].value), 1e-5)
            << r.name << " element " << i << ": " << value << " for " << want[i].value;
      compared++;
    }
  }
}

void run(const Shape& s, uint64_t seed, int64_t& compared) {
  const Module module = attention(s);
  SCOPED_TRACE(fmt::format("seed {}, {} queries behind {}\n{}", seed, s.queries, s.past, to_string(module)));
  const Bindings bindings = random_inputs(module, s, seed);
  std::vector<std::byte> first;
  for (int workers : {1, 2}) {
    Running running(module, 2, workers);
    auto context = running.start(module, bindings);
    auto done = context->run();
    ASSERT_TRUE(done) << done.error();
    const auto bytes = context->result("y").value().bytes;
    if (workers == 1) {
      first.assign(bytes.begin(), bytes.end());
      expect_values(module, bindings, *context, compared);
    } else
      ASSERT_TRUE(std::equal(bytes.begin(), bytes.end(), first.begin(), first.end()))
          << "two workers give other bits";
    if (testing::Test::HasFatalFailure()) FAIL() << running.report;
  }
}

auto picks(unsigned seed) {
  return [random = std::mt19937(seed)](int64_t low, int64_t high) mutable {
    return std::uniform_int_distribution<int64_t>(low, high)(random);
  };
}

TEST(OnePass, AttentionOfDynamicLengthsEqualsTheInterpreter) {
  auto pick = picks(1);
  int64_t compared = 0;
  for (uint64_t seed = 1; seed <= 27; seed++) {
    Shape s{pick(1, 3), pick(1, 4), 1, 0, pick(1, 24), pick(2, 24), Mask(pick(0, masks - 1))};
    s.cache = seed % 3 == 0 ? "bf16" : seed % 3 == 1 ? "f16" : "f32";
    s.empty_rows_are_zero = seed % 2 == 0;
    s.base_two = seed % 5 == 0;
    s.sink = seed % 3 == 1;
    s.queries = seed % 2 ? pick(1, 129) : pick(1, 9);
    s.past = pick(0, 129);
    run(s, seed, compared);
  }
  EXPECT_GT(compared, 10000);
}

TEST(OnePass, AttentionOfKnownLengthsEqualsTheInterpreter) {
  auto pick = picks(2);
  int64_t compared = 0;
  for (uint64_t seed = 1; seed <= 27; seed++) {
    Shape s{pick(1, 3),
            pick(1, 3),
            pick(1, 129),
            seed % 2 ? 0 : pick(1, 60),
            pick(1, 20),
            pick(1, 20),
            Mask(pick(0, masks - 1))};
    s.dynamic = false;
    s.empty_rows_are_zero = seed % 2 == 0;
    s.sink = seed % 3 == 1;
    run(s, seed, compared);
  }
  EXPECT_GT(compared, 10000);
}

/// What the weights are needed for besides keeps them: they are a result, and no second kernel
/// makes the scores again.
TEST(OnePass, WeightsThatAreAskedForAreStored) {
  const Shape s{.heads = 2, .group = 1, .queries = 40, .past = 0, .depth = 8, .width = 8, .dynamic = false};
  std::string text = to_string(attention(s));
  text.replace(text.find("return "), 7, "return w = %w0, ");
  const Module module = parse_module(text, "attention");
  Running running(module);
  auto context = running.start(module, random_inputs(module, s, 1));
  ASSERT_TRUE(context->run());
  int64_t compared = 0;
  expect_values(module, random_inputs(module, s, 1), *context, compared);
  EXPECT_EQ(compared, 2 * 40 * 40 + 40 * 16);
}

int launches(const Running& running) {
  return int(std::ranges::count_if(running.plan->steps, &runtime::Step::is<runtime::Launch>));
}

/// No scores in memory, whatever masks them and whatever the cache holds, at known and at dynamic lengths.
TEST(OnePass, ScoresStayInTheKernel) {
  for (const bool dynamic : {false, true})
    for (int mask = 0; mask < masks; mask++)
      for (const bool zero : {false, true}) {
        Shape s{.heads = 2,
                .group = 2,
                .queries = 256,
                .past = 256,
                .depth = 64,
                .width = 64,
                .mask = Mask(mask)};
        s.most_queries = s.most_past = 256;
        s.dynamic = dynamic, s.empty_rows_are_zero = zero;
        s.cache = zero ? "bf16" : "f32";
        s.sink = mask % 2;
        s.least_queries = mask % 3 == 0 ? 0 : 1;
        const Running running(attention(s));
        expect_no_scores(running, s);
        EXPECT_LE(launches(running), 2) << running.report;
        if (testing::Test::HasFailure()) FAIL() << mask << dynamic << zero;
      }
}

/// There may be no keys at all: then the sum of the values is 0, whatever it is divided by.
TEST(OnePass, AttentionToNothingIsZero) {
  std::string text = to_string(attention({.heads = 1,
                                          .group = 2,
                                          .queries = 6,
                                          .past = 0,
                                          .depth = 8,
                                          .width = 16,
                                          .mask = Mask::none,
                                          .most_queries = 200,
                                          .most_past = 200}));
  for (const auto& [from, to] : {std::pair<std::string, std::string>{"symbol n: 1..200", "symbol n: 0..200"},
                                 {"f32[n, 1, 2, 8]", "f32[6, 1, 2, 8]"},
                                 {"i: n", "i: 6"}})
    for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
      text.replace(at, from.size(), to);
  const Module module = parse_module(text, "attention to nothing");
  Running running(module);
  EXPECT_LE(launches(running), 2) << running.report;
  for (const int64_t keys : {0, 1, 37}) {
    Bindings bindings = random_inputs(module, {.queries = 6, .past = 0}, 1);
    bindings.symbols["n"] = keys;
    auto context = running.start(module, bindings);
    ASSERT_TRUE(context->run());
    int64_t compared = 0;
    expect_values(module, bindings, *context, compared);
    EXPECT_EQ(compared, 6 * 2 * 16);
  }
}

/// Whatever the mask is, the kernel runs in tiles of the keys, with lanes; tiles that a mask of data hides
/// are left out.
TEST(OnePass, EveryMaskHasTiles) {
  for (int mask = 0; mask < masks; mask++) {
    Shape s{
        .heads = 2, .group = 2, .queries = 256, .past = 256, .depth = 64, .width = 64, .mask = Mask(mask)};
    s.most_queries = s.most_past = 256, s.dynamic = false;
    const Running running(attention(s));
    EXPECT_NE(running.report.find("\ncascade "), std::string::npos) << mask;
    EXPECT_EQ(running.report.find(" root\n"), std::string::npos) << mask << running.report;
    EXPECT_EQ(running.report.find("\nblock_mask ") != std::string::npos, of_data(s.mask)) << running.report;
  }
}

/// Without the rules nothing is joined.
TEST(OnePass, CanBeTurnedOff) {
  Shape s{.heads = 2, .group = 2, .queries = 256, .past = 0, .depth = 64, .width = 64, .dynamic = false};
  s.most_queries = 256, s.most_past = 0;
  compile::RuleOptions off;
  off.on = false;
  EXPECT_GE(launches(Running(attention(s), 1, 0, passes::defaults(), {}, off)), 3);
}

/// A score that is NaN or infinite is seen in its row, and in no other.
TEST(OnePass, NaNAndInfinityStayInTheirRows) {
  for (const double poison : {double(NAN), double(INFINITY), -double(INFINITY)}) {
    const Shape s{
        .heads = 1, .group = 1, .queries = 50, .past = 20, .depth = 4, .width = 16, .mask = Mask::none};
    const Module module = attention(s);
    Bindings bindings = random_inputs(module, s, 3);
    HostTensor& q = bindings.inputs["q"];
    store_f64(q.dtype, q.data.data(), 17 * 4, poison);
    Running running(module, 2);
    auto context = running.start(module, bindings);
    ASSERT_TRUE(context->run());
    const auto y = context->result("y").value();
    for (int64_t i = 0; i < 50 * 16; i++)
      EXPECT_EQ(std::isnan(load_f64(y.dtype, y.bytes.data(), i)), i / 16 == 17) << poison << " at " << i;
  }
}

} // namespace
} // namespace luminal::one_pass_test
