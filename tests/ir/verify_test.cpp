// tests/ir/verify_test.cpp -- the verifier finds what is broken in a module that no builder and no
// parser has seen; the builder refuses at the caller's line.
#include "ir/term.h"
#include "luminal/error.h"
#include <functional>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace luminal {
namespace {

using testing::HasSubstr;

Module good() {
  return parse_module(R"(
symbol S: 1..8
fn @inner(%a: f32[4]) {
  %b = exp %a
  return b = %b
}
fn @main(%x: f32[S, 4], weight %w: f32[4], state %c: f32[8, 4], %i: i32[S]) {
  %wb = view %w [m: S, n: 4] -> [n]
  %p = mul %x, %wb
  %f = fold [m: S, n: 4] over [n] where n <= m { sum %p[m, n] }
  %s = get %f, 0
  %u = scatter set %c, %p [m: S, n: 4] -> [m, n] unique
  %g = view %c [m: S, n: 4] with h0 = %i[m] in 0..7 -> [h0, n]
  %call = call @inner(%w)
  %e = get %call, 0
  return s = %s, next = %u -> c after s, g = %g, e = %e
})");
}
Node& node(Module& m, std::string_view name) {
  for (Node& n : m.functions.back().nodes)
    if (n.name == name) return n;
  throw Error("no node " + std::string(name));
}
NodeId id(Module& m, std::string_view name) {
  return NodeId(&node(m, name) - m.functions.back().nodes.data());
}

TEST(Verify, AGoodModuleHasNoMistake) { EXPECT_THAT(verify(good()), testing::IsEmpty()); }

TEST(Verify, Mistakes) {
  struct Broken {
    std::string_view message;
    std::function<void(Module&)> breaks;
  };
  const std::vector<Broken> list{
      {"@main %p: [mul] its types are not those of its inputs",
       [](Module& m) { node(m, "p").types[0].dtype = DType::f16; }},
      {"@main %p: input 99 does not come before it", [](Module& m) { node(m, "p").inputs[0] = NodeId(99); }},
      {"@main %p: input 5 does not come before it", [](Module& m) { node(m, "p").inputs[0] = id(m, "p"); }},
      {"@main %p: [mul] shapes differ: [4] x [S, 4]", [](Module& m) { node(m, "p").inputs[0] = id(m, "w"); }},
      {"@main %p: a map with attributes of cast",
       [](Module& m) { node(m, "p").attr = CastAttr{DType::f16}; }},
      {"the results of a tuple are read by get", [](Module& m) { node(m, "u").inputs[1] = id(m, "f"); }},
      {"[get] result 3 of 1", [](Module& m) { node(m, "s").attr = GetAttr{3}; }},
      {"[view] the map has 0 indices for f32[4]",
       [](Module& m) { std::get<ViewAttr>(node(m, "wb").attr).map.clear(); }},
      {"[view] the index i1 + 1 leaves axis 0 of extent 4",
       [](Module& m) { std::get<ViewAttr>(node(m, "wb").attr).map[0] = axis_symbol(1, 4) + 1; }},
      {"[view] i1 reads i1 with range 0..8, its axis has extent 4",
       [](Module& m) { std::get<ViewAttr>(node(m, "wb").attr).map[0] = axis_symbol(1, 9); }},
      {"[view] i7 reads i7, which is not an axis of [S, 4]",
       [](Module& m) { std::get<ViewAttr>(node(m, "wb").attr).map[0] = axis_symbol(7, 4); }},
      {"reads K, which is not a symbol of the module with range 0..3",
       [](Module& m) { std::get<ViewAttr>(node(m, "wb").attr).map[0] = Expr::symbol("K", {0, 3}); }},
      {"[view] hole 0 reads input 5 of 2",
       [](Module& m) { std::get<ViewAttr>(node(m, "g").attr).holes[0].input = 5; }},
      {"[view] hole 0 is read at axis 2 of [S, 4]",
       [](Module& m) { std::get<ViewAttr>(node(m, "g").attr).holes[0].axes = {2}; }},
      {"[view] hole 0: shapes differ: [S] x [4]",
       [](Module& m) { std::get<ViewAttr>(node(m, "g").attr).holes[0].axes = {1}; }},
      {"[fold] the folded axes [1, 0] must ascend",
       [](Module& m) { std::get<FoldAttr>(node(m, "f").attr).reduced = {1, 0}; }},
      {"[fold] no axis to fold", [](Module& m) { std::get<FoldAttr>(node(m, "f").attr).reduced.clear(); }},
      {"[fold] body 0 is f32, its component f64",
       [](Module& m) { std::get<FoldAttr>(node(m, "f").attr).monoid = Monoid::plain(Op::add, DType::f64); }},
      {"[fold] 2 components and 1 bodies",
       [](Module& m) {
         std::get<FoldAttr>(node(m, "f").attr).monoid =
             Monoid::intern({{Op::add, DType::f32, Scalar::leaf(0)}, {Op::add, DType::f32, Scalar::leaf(0)}});
       }},
      {"this is not a monoid: combine(identity, a)",
       [](Module& m) {
         std::get<FoldAttr>(node(m, "f").attr).monoid =
             Monoid::intern({{Op::add, DType::f32, parse_scalar("self * 2", {"self"})}});
       }},
      {"[call] there is no function @main before this one",
       [](Module& m) { std::get<CallAttr>(node(m, "call").attr).function = "main"; }},
      {"[call] argument 0 of @inner is f32[8, 4], expected f32[4]",
       [](Module& m) { node(m, "call").inputs[0] = id(m, "c"); }},
      {"2 axis names", [](Module& m) { node(m, "p").axis_names = {"a"}; }},
      {"@main: its parameters are not its inputs", [](Module& m) { m.functions.back().params.pop_back(); }},
      {"@main: input 'x' exists twice", [](Module& m) { std::get<InputAttr>(node(m, "w").attr).name = "x"; }},
      {"@main: result 's' exists twice", [](Module& m) { m.functions.back().results[2].name = "s"; }},
      {"@main: result 'g' is node 99, which does not exist",
       [](Module& m) { m.functions.back().results[2].value = NodeId(99); }},
      {"@main: result 'g' is a tuple", [](Module& m) { m.functions.back().results[2].value = id(m, "f"); }},
      {"writes state 'd', which does not exist",
       [](Module& m) { m.functions.back().results[1].state = "d"; }},
      {"writes 'x', which is not a state", [](Module& m) { m.functions.back().results[1].state = "x"; }},
      {"is f32[S, 4], its state 'c' is f32[8, 4]",
       [](Module& m) { m.functions.back().results[1].value = id(m, "p"); }},
      {"comes after 'nothing', which is not a result",
       [](Module& m) { m.functions.back().results[1].after = {"nothing"}; }},
      {"result 's' comes after itself", [](Module& m) { m.functions.back().results[0].after = {"next"}; }},
      {"@main has no result", [](Module& m) { m.functions.back().results.clear(); }},
      {"function @main exists twice", [](Module& m) { m.functions.push_back(m.functions.back()); }},
      {"'a b' is not a name of a function", [](Module& m) { m.functions.back().name = "a b"; }},
      {"the module has no function", [](Module& m) { m.functions.clear(); }},
      {"symbol S exists twice", [](Module& m) { m.symbols.push_back(Expr::symbol("S", {1, 9})); }},
      {"reads S, which is not a symbol of the module", [](Module& m) { m.symbols.clear(); }},
      {"'i3' cannot name a symbol", [](Module& m) { m.symbols.push_back(Expr::symbol("i3", {1, 9})); }},
      {"is not a condition", [](Module& m) { m.assumptions.push_back(m.symbols[0] + 1); }},
  };
  for (const Broken& b : list) {
    Module m = good();
    b.breaks(m);
    std::string all;
    for (const std::string& mistake : verify(m)) all += mistake + "\n";
    if (b.message == "2 axis names")
      EXPECT_THAT(all, HasSubstr("1 axis names"));
    else
      EXPECT_THAT(all, HasSubstr(std::string(b.message)));
  }
}

/// The laws hold for every value of a body short of the ends of its type; a constant at an end is a
/// body like any other.
TEST(Verify, InfiniteConstantsAreBodiesOfMonoids) {
  for (const char* m : {"inf", "-inf", "nan", "-2"})
    for (const char* s : {"1", "inf", "-inf", "0"}) {
      const Module module = parse_module(std::string(R"(
fn @main(%v: f32[7]) {
  %m = const f32 )") + m + R"(
  %s = const f32 )" + s + R"(
  %f = fold [k: 7] over [k] {
      max %m[];
      sum(select(old0 == -inf, 0, self * exp2(old0 - new0))) %s[];
      sum(select(old0 == -inf, 0, self * exp2(old0 - new0))) %v[k] }
  %l = get %f, 1
  %o = get %f, 2
  return l = %l, o = %o
})");
      EXPECT_THAT(verify(module), testing::IsEmpty()) << m << " " << s;
    }
  EXPECT_THROW(parse_module(R"(
fn @main(%v: f32[7]) {
  %m = const f32 -inf
  %f = fold [k: 7] over [k] { max %m[]; sum(self * 2) %v[k] }
  %l = get %f, 1
  return l = %l
})"),
               Error);
}

TEST(Verify, TheBuilderRefusesAtTheCallersLine) {
  FunctionBuilder b("f");
  NodeId x = b.input("x", {DType::f32, {4, 3}}), y = b.input("y", {DType::f32, {5, 2}});
  auto message = [](const std::function<void()>& act) -> std::string {
    try {
      act();
    } catch (const Error& error) {
      return error.what();
    }
    return "accepted";
  };
  const int line = __LINE__ + 1;
  const std::string mistake = message([&] { b.map(Op::add, {x, y}); });
  EXPECT_THAT(mistake,
              HasSubstr("[add] shapes differ: [4, 3] x [5, 2] at verify_test.cpp:" + std::to_string(line)));
  EXPECT_THAT(message([&] { b.permute(x, {0, 0}); }),
              HasSubstr("[permute] the order names axis 0 where 1 is expected"));
  EXPECT_THAT(message([&] { b.reshape(x, {5, 2}); }),
              HasSubstr("[reshape] the numbers of elements differ: [4, 3] x [5, 2]"));
  EXPECT_THAT(message([&] { b.expand(x, {2, 4, 5}, {1, 2}); }),
              HasSubstr("[expand] axis 1 of [4, 3] does not fit axis 2 of [2, 4, 5]"));
  EXPECT_THAT(message([&] { b.slice(x, 1, 1, 3); }),
              HasSubstr("[view] the index i1 + 1 leaves axis 1 of extent 3"));
  EXPECT_THAT(message([&] { b.input("x", {DType::f32, {}}); }), HasSubstr("[input] 'x' exists already"));
  EXPECT_THAT(message([&] { b.map(Op::add, {x, NodeId(77)}); }), HasSubstr("node 77 does not exist"));
  EXPECT_THAT(message([&] { b.constant(TensorType{DType::f32, {3}}, std::vector<std::byte>(8)); }),
              HasSubstr("[const] f32[3] needs 12 bytes, found 8"));
  EXPECT_THAT(message([&] { b.add(CallAttr{"g"}, {x}); }),
              HasSubstr("[call] @g: no module to find the function in"));
}

TEST(Builder, EqualNodesAreOneNode) {
  FunctionBuilder b("f");
  NodeId x = b.input("x", {DType::f32, {4}}), y = b.input("y", {DType::f32, {4}});
  EXPECT_EQ(b.map(Op::add, {x, y}), b.map(Op::add, {x, y}));
  EXPECT_NE(b.map(Op::add, {x, y}), b.map(Op::add, {y, x}));
  EXPECT_EQ(b.constant(DType::f32, 1), b.constant(DType::f32, 1));
  EXPECT_NE(b.constant(DType::f32, 0.0), b.constant(DType::f32, -0.0));
  EXPECT_EQ(b.view(x, {2}, {axis_symbol(0, 2)}, 1, NAN), b.view(x, {2}, {axis_symbol(0, 2)}, 1, NAN));
  EXPECT_NE(b.add(HostAttr{"print", "a", {}}, {x}), b.add(HostAttr{"print", "a", {}}, {x}));
  EXPECT_EQ(x, b.cast(x, DType::f32));
  b.map(Op::exp, {x}); // needed by nobody
  NodeId late = b.input("late", {DType::f32, {4}});
  b.result("r", b.map(Op::sub, {x, late}));
  Function f = b.finish();
  EXPECT_EQ(4u, f.nodes.size()); // three inputs first, whoever uses them, and one operation
  EXPECT_EQ((std::vector{NodeId(0), NodeId(1), NodeId(2)}), f.params);
  EXPECT_EQ(NodeKind::map, f[NodeId(3)].kind);
}

TEST(Builder, ReshapesAreViews) {
  FunctionBuilder b("f");
  Expr n = Expr::symbol("n", {1, 64});
  NodeId x = b.input("x", {DType::f32, {n, 6, 4}});
  const auto map_of = [&](NodeId v) {
    std::string text;
    for (Expr e : std::get<ViewAttr>(b[v].attr).map) text += (text.empty() ? "" : ", ") + to_string(e);
    return text;
  };
  EXPECT_EQ("i0, i1, i2*2 + i3", map_of(b.reshape(x, {n, 6, 2, 2})));
  EXPECT_EQ("i0, i1*2 + i2, i3", map_of(b.reshape(x, {n, 3, 2, 4})));
  EXPECT_EQ("i0, i1 // 4, i1 % 4", map_of(b.reshape(x, {n, 24})));
  EXPECT_EQ("i0 // 24, (i0 // 4) % 6, i0 % 4", map_of(b.reshape(x, {n * 24})));
  // Axes that several axes on both sides are made of stay apart, with lengths that are not known, too.
  const Expr m = Expr::symbol("m", {1, 64});
  const NodeId y = b.input("y", {DType::f32, {n, m, 6, m}});
  EXPECT_EQ("i0 // m, i0 % m, i1 // m, i1 % m", map_of(b.reshape(y, {n * m, m * 6})));
  EXPECT_EQ("i0, i1, i2 // m, i2 % m", map_of(b.reshape(y, {n, m, m * 6})));
  EXPECT_EQ("i0, i1 // 6, i1 % 6, i2", map_of(b.reshape(y, {n, m * 6, m})));
  const NodeId z = b.input("z", {DType::f32, {n * m, m * 6}});
  EXPECT_EQ("i1 + i0*m, i3 + i2*m", map_of(b.reshape(z, {n, m, 6, m})));
}

} // namespace
} // namespace luminal
