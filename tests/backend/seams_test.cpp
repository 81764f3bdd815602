// backend/seams_test.cpp -- folds over joined values: part by part, equal to the interpreter.
#include "compile/seams.h"
#include "plans.h"
#include <fmt/format.h>
#include <random>

namespace luminal::seams_test {
namespace {

/// A chain of maps over parts that are joined along the last of two axes (or the first), each part a map
/// of its own, then what reads it.
struct Joined {
  std::vector<int64_t> parts; ///< extents; 0: the symbol n
  int64_t rows = 3;
  bool first = false; ///< along the first axis
  int64_t hidden = 0; ///< elements at the beginning of the last part in whose place are zeros
  std::string fold = "sum", dtype = "f32", map = "exp";
};

std::string extent(int64_t part) { return part ? std::to_string(part) : "n"; }
std::string text_of(const Joined& s) {
  std::string text = "symbol n: 1..9\nfn @main(", body, length;
  const auto shape = [&](const std::string& along) {
    return s.first ? fmt::format("[j: {}, i: {}]", along, s.rows)
                   : fmt::format("[i: {}, j: {}]", s.rows, along);
  };
  const auto index = [&](const std::string& along) {
    return s.first ? fmt::format("[{}, i]", along) : fmt::format("[i, {}]", along);
  };
  for (size_t p = 0; p < s.parts.size(); p++) {
    const std::string e = extent(s.parts[p]);
    text += fmt::format("{}%x{}: {}[{}]", p ? ", " : "", p, s.dtype,
                        s.first ? fmt::format("{}, {}", e, s.rows) : fmt::format("{}, {}", s.rows, e));
    length += (p ? " + " : "") + e;
  }
  text += ") {\n";
  std::string begin = "0", joined = "x0";
  for (size_t p = 0; p < s.parts.size(); p++) {
    const std::string end = p ? fmt::format("{} + {}", begin, extent(s.parts[p])) : extent(s.parts[p]);
    const std::string shown =
        p + 1 == s.parts.size() && s.hidden ? fmt::format("{} + {}", begin, s.hidden) : begin;
    body += fmt::format("  %w{0} = view %x{0} {1} -> {2} where j >= {3} and j < {4} fill 0\n", p,
                        shape(length), index(fmt::format("j - ({})", begin)), shown, end);
    if (p) {
      body += fmt::format("  %c{0} = iota bool {1} -> j < {2}\n  %s{0} = select %c{0}, %{3}, %w{0}\n", p,
                          shape(length), begin, joined);
      joined = fmt::format("s{}", p);
    } else {
      joined = "w0";
    }
    begin = end;
  }
  // all of it; what follows its statistic; and the first part alone
  body += fmt::format("  %m = {0} %{1}\n  %f = fold {2} over [j] {{ {3} %m{4} }}\n  %r = get %f, 0\n"
                      "  %b = view %r {2} -> [i]\n  %d = sub %m, %b\n"
                      "  %tf = fold {2} over [j] {{ max %d{4} }}\n  %t = get %tf, 0\n"
                      "  %q = mul %d, %d\n  %h = view %q {5} -> {4}\n"
                      "  return r = %r, t = %t, h = %h\n}}\n",
                      s.map, joined, shape(length), s.fold, index("j"), shape(extent(s.parts[0])));
  return text + body;
}

Bindings numbers(const Module& module, unsigned seed, int64_t n) {
  std::mt19937 random(seed);
  Bindings bindings;
  bindings.symbols = {{"n", n}};
  for (NodeId id : module.entry().params) {
    const auto& input = std::get<InputAttr>(module.entry()[id].attr);
    HostTensor value;
    value.dtype = input.type.dtype;
    int64_t count = 1;
    for (Expr e : input.type.shape) count *= value.shape.emplace_back(e.is_constant() ? e.value() : n);
    value.data.resize(size_t(count * bits(value.dtype) / 8));
    for (int64_t i = 0; i < count; i++)
      store_f64(value.dtype, value.data.data(), i, std::normal_distribution<>(0, 1)(random));
    bindings.inputs[input.name] = std::move(value);
  }
  return bindings;
}

int folds_that_choose(const Function& f) {
  int count = 0;
  for (const Node& node : f.nodes) {
    if (node.kind != NodeKind::fold) continue;
    std::vector<NodeId> open{node.inputs[0]};
    while (!open.empty()) {
      const Node& below = f[open.back()];
      open.pop_back();
      if (below.kind != NodeKind::map) continue;
      count += std::get<MapAttr>(below.attr).op == Op::select;
      open.insert(open.end(), below.inputs.begin(), below.inputs.end());
    }
  }
  return count;
}

Joined drawn(unsigned seed) {
  std::mt19937 random(seed);
  const auto pick = [&](int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random);
  };
  Joined s;
  const int64_t parts = pick(2, 5);
  for (int64_t p = 0; p < parts; p++) s.parts.push_back(pick(1, pick(0, 3) ? 20 : 90));
  if (parts == 2 && pick(0, 2) == 0) s.parts[size_t(pick(0, 1))] = 0;
  s.rows = pick(1, 20), s.first = pick(0, 1);
  if (s.parts.back() > 2 && pick(0, 1)) s.hidden = pick(1, s.parts.back() - 1);
  s.fold = std::array{"sum", "max", "min", "prod"}[size_t(pick(0, 3))];
  s.dtype = std::array{"f32", "f64", "bf16"}[size_t(pick(0, 2))];
  s.map = s.fold == "prod" ? "neg" : std::array{"exp", "neg", "abs"}[size_t(pick(0, 2))];
  return s;
}

TEST(Seams, FoldsOfPartsAreFoldsOfTheWhole) {
  int64_t compared = 0;
  for (unsigned seed = 1; seed <= 60; seed++) {
    const Module module = parse_module(text_of(drawn(seed)), "joined");
    SCOPED_TRACE(fmt::format("seed {}\n{}", seed, to_string(module)));
    ASSERT_TRUE(verify(module).empty()) << verify(module)[0];
    ASSERT_TRUE(compile::has_seams(module.entry()));
    Module parts = module;
    parts.functions.back() = compile::fold_by_parts(module, module.entry());
    ASSERT_TRUE(verify(parts).empty()) << verify(parts)[0] << to_string(parts);
    EXPECT_EQ(folds_that_choose(parts.entry()), 0) << to_string(parts);
    const Bindings bindings = numbers(module, seed, 1 + seed % 9);
    Interpreter whole(module, bindings, InterpMode::f64), split(parts, bindings, InterpMode::f64);
    for (const FunctionResult& r : module.entry().results) {
      const auto want = whole.values(r.name), got = split.values(r.name);
      ASSERT_EQ(want.size(), got.size());
      for (size_t i = 0; i < want.size(); i++, compared++)
        ASSERT_NEAR(got[i].value, want[i].value, 1e-12 * (1 + std::abs(want[i].value))) << r.name << i;
    }
  }
  EXPECT_GT(compared, 10000);
}

TEST(Seams, PlansAreWhatTheInterpreterSays) {
  for (unsigned seed = 100; seed <= 112; seed++) {
    Joined s = drawn(seed);
    s.dtype = "f32";
    const Module module = parse_module(text_of(s), "joined");
    SCOPED_TRACE(fmt::format("seed {}\n{}", seed, to_string(module)));
    const Bindings bindings = numbers(module, seed, 1 + seed % 9);
    Running running(module);
    auto context = running.start(module, bindings);
    ASSERT_TRUE(context->run());
    Interpreter judge(module, bindings, InterpMode::f64);
    for (const FunctionResult& r : module.entry().results) {
      const auto want = judge.values(r.name);
      const auto got = context->result(r.name).value();
      for (size_t i = 0; i < want.size(); i++)
        ASSERT_NEAR(load_f64(got.dtype, got.bytes.data(), int64_t(i)), want[i].value,
                    1e-4 * (1 + std::abs(want[i].value)))
            << r.name << " element " << i;
    }
  }
}

/// A product over a concatenation stays one, and so does what chooses by more than a place along one axis.
TEST(Seams, OthersStayAsTheyAre) {
  for (const char* text : {R"(
fn @main(%a: f32[4, 8], %b: f32[4, 8], %w: f32[16, 5]) {
  %x = view %a [i: 4, j: 16] -> [i, j] where j < 8 fill 0
  %y = view %b [i: 4, j: 16] -> [i, j - 8] where j >= 8 fill 0
  %c = iota bool [i: 4, j: 16] -> j < 8
  %s = select %c, %x, %y
  %sb = view %s [i: 4, n: 5, k: 16] -> [i, k]
  %wb = view %w [i: 4, n: 5, k: 16] -> [k, n]
  %m = mul %sb, %wb
  %f = fold [i: 4, n: 5, k: 16] over [k] { sum %m[i, n, k] }
  %r = get %f, 0
  return r = %r
})",
                           R"(
fn @main(%a: f32[8, 8], %b: f32[8, 8]) {
  %c = iota bool [i: 8, j: 8] -> j <= i
  %s = select %c, %a, %b
  %f = fold [i: 8, j: 8] over [j] { max %s[i, j] }
  %r = get %f, 0
  return r = %r
})"})
    EXPECT_FALSE(compile::has_seams(parse_module(text, "whole").entry())) << text;
}

} // namespace
} // namespace luminal::seams_test
