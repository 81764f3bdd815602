// tests/tensor/api_test.cpp -- the edges of the interface: graphs that were moved from, empty
// tensors, numbers of any type, names of results, indices, free functions.
#include "ir/term.h"
#include "support.h"
#include "tensor/graph_state.h"

namespace luminal {
namespace {

using namespace testing_tensor;
using testing::ElementsAre;
using testing::HasSubstr;

TEST(MovedGraph, EveryMethodSaysSoAtTheCallersLine) {
  Graph g;
  Tensor x = g.tensor({2}, DType::f32, "x"), y = (x + 1).keep();
  Graph h = std::move(g);
  const std::string gone = "the graph was moved from: what it was moved to has its tensors";
  const auto says = [&](const char* op) { return std::string("[") + op + "] " + gone; };
  // NOLINTBEGIN(bugprone-use-after-move): this is what is tested
  EXPECT_ERROR(g.tensor({2}), says("tensor"));
  EXPECT_ERROR(g.named_tensor("a", {2}), says("tensor"));
  EXPECT_ERROR(g.weight("w", {2}), says("weight"));
  EXPECT_ERROR(g.state("s", {2}), says("state"));
  EXPECT_ERROR(g.update(x, y), says("update"));
  EXPECT_ERROR(g.dim("n", 1, 2), says("dim"));
  EXPECT_ERROR(g.set_dim("n", 1), says("set_dim"));
  EXPECT_ERROR(g.set_dyn_dim("n", 1), says("set_dim"));
  EXPECT_ERROR(g.constant(1), says("constant"));
  EXPECT_ERROR(g.constant({1, 2}, {2}), says("constant"));
  EXPECT_ERROR(g.constant_bytes({}, DType::f32, {0}), says("constant"));
  EXPECT_ERROR(g.arange(3), says("arange"));
  EXPECT_ERROR(g.iota({3}, [](const Dims& i) { return i[0]; }), says("iota"));
  EXPECT_ERROR(g.loop(1, {}, {}, {}, {}), says("loop"));
  EXPECT_ERROR(g.while_loop(1, {}, {}, {}, {}), says("while_loop"));
  EXPECT_ERROR(g.cond(x, {}, {}, {}), says("cond"));
  EXPECT_ERROR(g.function("f", {}, {}), says("function"));
  EXPECT_ERROR(g.compile(), says("compile"));
  EXPECT_ERROR(g.execute(), says("execute"));
  EXPECT_ERROR(g.execute_debug(), says("execute"));
  EXPECT_ERROR(g.run(passes::defaults()), says("run"));
  EXPECT_ERROR(g.find(Rules::parse("")), says("find"));
  EXPECT_ERROR(g.reset_states(), says("reset_states"));
  EXPECT_ERROR(g.reset(), says("reset"));
  EXPECT_ERROR(g.report(), says("report"));
  EXPECT_ERROR(g.search_summary(), says("search_summary"));
  EXPECT_ERROR(g.memory(), says("memory"));
  EXPECT_ERROR(g.to_string(), says("to_string"));
  EXPECT_ERROR(g.to_string(passes::defaults()), says("to_string"));
  EXPECT_ERROR(g.to_dot(), says("to_dot"));
  EXPECT_ERROR(g.to_html(), says("to_html"));
  EXPECT_ERROR(g.device(), says("device"));
  EXPECT_ERROR(g.state(), says("graph"));
  EXPECT_ERROR(zeros(g, {2}), says("zeros"));
  EXPECT_ERROR(arange(g, 0, 4, 2), says("arange"));
  EXPECT_ERROR(random_key(g, 1), says("random_key"));
  EXPECT_ERROR(random_state_key(g, "k", 1), says("state"));
  EXPECT_ERROR(custom_kernel(g, {.name = "k"}, {}), says("custom_kernel"));
  EXPECT_ERROR(values(g), says("values"));
  EXPECT_ERROR(find(g, "x"), says("find"));
  EXPECT_ERROR(add_terms(g, "", {}), says("add_terms"));
  EXPECT_ERROR(display(g, "x.lum"), says("to_string"));
  EXPECT_ERROR(display_shapes(g), says("display"));
  EXPECT_ERROR(DeviceScope(g, Device("cpu")), says("DeviceScope"));
  x.set({1.f, 2.f});
  h.execute();
  EXPECT_THAT(y.data<float>(), ElementsAre(2, 3));
  Graph other = std::move(g); // moving and destroying such a graph is legal, and so is giving it another one
  g = std::move(h);
  // NOLINTEND(bugprone-use-after-move)
  g.execute();
}

TEST(EmptyTensor, EveryMethodSaysSoAtTheCallersLine) {
  Tensor t;
  Graph g;
  Tensor x = g.tensor({2});
  const auto says = [](const char* op) {
    return std::string("[") + op + "] a tensor is empty: it was never made from a graph";
  };
  EXPECT_FALSE(t.defined());
  EXPECT_ERROR((void)t.dtype(), says("dtype"));
  EXPECT_ERROR((void)t.shape(), says("shape"));
  EXPECT_ERROR((void)t.rank(), says("shape"));
  EXPECT_ERROR((void)t.dims(), says("shape"));
  EXPECT_ERROR((void)t.dims1(), says("dims1"));
  EXPECT_ERROR((void)t.dims2(), says("dims2"));
  EXPECT_ERROR((void)t.dims3(), says("dims3"));
  EXPECT_ERROR((void)t.dims4(), says("dims4"));
  EXPECT_ERROR((void)t.dims5(), says("dims5"));
  EXPECT_ERROR((void)t.element_count(), says("data"));
  EXPECT_ERROR((void)t.as_dtype(DType::i32), says("bitcast"));
  EXPECT_ERROR((void)t.squeeze({}), says("squeeze"));
  EXPECT_ERROR((void)t.dim(0), says("dim"));
  EXPECT_ERROR((void)t.size(0), says("dim"));
  EXPECT_ERROR((void)t.name(), says("name"));
  EXPECT_ERROR(t.set_name("t"), says("set_name"));
  EXPECT_ERROR((void)t.device(), says("device"));
  EXPECT_ERROR((void)t.graph(), says("tensor"));
  EXPECT_ERROR((void)t.numel(), says("data"));
  EXPECT_ERROR((void)t.extents(), says("extents"));
  EXPECT_ERROR((void)t.bytes(), says("bytes"));
  EXPECT_ERROR((void)t.item<float>(), says("item"));
  EXPECT_ERROR((void)t.data<float>(), says("data"));
  EXPECT_ERROR(t.set({1.f}), says("set"));
  EXPECT_ERROR(t.set_dyn({1.f}), says("set_dyn"));
  EXPECT_ERROR(t.set_deferred([] { return 1.f; }), says("set_deferred"));
  EXPECT_ERROR(t.borrow(nullptr, 0), says("borrow"));
  EXPECT_ERROR(t.keep(), says("keep"));
  EXPECT_ERROR(t.drop(), says("drop"));
  EXPECT_ERROR(t.reshape({1}), says("reshape"));
  EXPECT_ERROR(t.permute({0}), says("permute"));
  EXPECT_ERROR(t.clip(0, 1), says("clip"));
  EXPECT_ERROR(t.pow(2), says("pow"));
  EXPECT_ERROR(t.masked_fill(x > 0, 1), says("masked_fill"));
  EXPECT_ERROR(t[0], says("select"));
  EXPECT_ERROR(t.sum(), says("sum"));
  EXPECT_ERROR(t.matmul(x), says("matmul"));
  EXPECT_ERROR(max_pool(t, 2), says("max_pool"));
  EXPECT_ERROR(inspect(t), says("inspect"));
  EXPECT_ERROR(x + t, says("add"));
#define EXPECT_MEMBER(name) EXPECT_THAT(error_of([&] { t.name(); }), HasSubstr("a tensor is empty")) << #name;
  LUMINAL_UNARY_FUNCTIONS(EXPECT_MEMBER)
#undef EXPECT_MEMBER
}

TEST(Members, NamesThatUsersTryFirst) {
  Graph g;
  Tensor x = g.tensor({1, 3, 1}, DType::f32, "x");
  EXPECT_EQ(x.squeeze({}).shape(), x.shape());
  EXPECT_EQ(x.squeeze({0}).shape(), (Dims{3, 1}));
  EXPECT_EQ(x.squeeze({0, 2}).shape(), Dims{3});
  EXPECT_EQ(x.squeeze(std::vector<int>{2}).shape(), (Dims{1, 3}));
  EXPECT_EQ(x.squeeze().shape(), Dims{3});
  EXPECT_EQ(x.as_dtype(DType::i32).dtype(), DType::i32);
  x.set({1.f, 2.f, 3.f});
  EXPECT_THAT(g.interpret({x.as_dtype(DType::i32)})[0].numbers(),
              ElementsAre(1065353216, 1073741824, 1077936128));
  EXPECT_THAT(g.interpret({}), testing::IsEmpty());
  Graph other;
  EXPECT_ERROR((void)other.interpret({x}), "[interpret] the tensors belong to different graphs");
}

TEST(Constants, DoublesInBracesAreF32AndInfectNothing) {
  Graph g;
  Tensor image = g.tensor({3, 2});
  Tensor mean = g.constant({0.485, 0.456, 0.406}, {3, 1});
  EXPECT_EQ(mean.dtype(), DType::f32);
  EXPECT_EQ((image - mean).dtype(), DType::f32);
  EXPECT_EQ(g.constant({1.5, 2, 3L}, {3}).dtype(), DType::f32);
  EXPECT_EQ(g.constant({{1.5, 2.0}, {3.0, 4.0}}, {2, 2}).dtype(), DType::f32);
  EXPECT_EQ(g.constant(0.5).dtype(), DType::f32);
  // Whoever has a vector of doubles, or asks for them, has chosen.
  EXPECT_EQ(g.constant(std::vector<double>{1, 2}, {2}).dtype(), DType::f64);
  EXPECT_EQ(g.constant({0.5, 1.5}, {2}, DType::f64).dtype(), DType::f64);
  EXPECT_EQ(g.constant({1, 2}, {2}).dtype(), DType::i32);
  EXPECT_EQ(g.constant({1, 2}, {2}, DType::bf16).dtype(), DType::bf16);
}

TEST(Constants, TruthValuesBesideBoolAreBool) {
  Graph g;
  Tensor x = g.tensor({2}, DType::boolean), n = g.tensor({2}, DType::i8);
  for (const Tensor& made : {x & true, x | false, x ^ true, true & x, select(x, true, false),
                             select(x, false, x), equal(x, false)})
    EXPECT_EQ(made.dtype(), DType::boolean);
  EXPECT_EQ((n & true).dtype(), DType::i8);
  EXPECT_EQ((x + true).dtype(), DType::i32);
  EXPECT_EQ((x & 1).dtype(), DType::i32);
  EXPECT_EQ(select(x, 1, 0).dtype(), DType::i64);
  EXPECT_EQ(select(x, 1, false).dtype(), DType::i64);
}

TEST(Constants, IntegersAreExactTo64Bits) {
  constexpr int64_t odd = 9007199254740993;
  Graph g;
  Tensor one = g.constant(odd, DType::i64).keep(),
         list = g.constant({9007199254740993LL, -9007199254740993LL}, {2}).keep(),
         mixed = g.constant({1, 9007199254740993LL}, {2}).keep(),
         large = g.constant({UINT64_MAX, uint64_t(1)}, {2}).keep(),
         both = g.constant({18446744073709551615ULL, 1U}, {2}).keep(),
         top = g.constant(UINT64_MAX, DType::u64).keep(), wrong_sign = g.constant({UINT64_MAX, 1, -1.5}, {3});
  g.execute();
  EXPECT_EQ(one.item<int64_t>(), odd);
  EXPECT_EQ(list.dtype(), DType::i64);
  EXPECT_THAT(list.data<int64_t>(), ElementsAre(odd, -odd));
  EXPECT_EQ(mixed.dtype(), DType::i64);
  EXPECT_THAT(mixed.data<long long>(), ElementsAre(1, odd));
  EXPECT_THAT(large.data<uint64_t>(), ElementsAre(UINT64_MAX, 1));
  EXPECT_EQ(both.dtype(), DType::u64);
  EXPECT_EQ(top.item<unsigned long long>(), UINT64_MAX);
  EXPECT_EQ(wrong_sign.dtype(), DType::f32);
}

TEST(Constants, AllIntegerTypesAreElements) {
  Graph g;
  Tensor x = g.tensor({2}, DType::i64, "x");
  x.set(std::vector<long long>{1, 2});
  EXPECT_THAT(x.data<long long>(), ElementsAre(1, 2));
  x.set(std::vector<unsigned long long>{3, 4});
  EXPECT_THAT(x.data<short>(), ElementsAre(3, 4));
  x.set(std::vector<long>{5, 6});
  EXPECT_THAT(x.data<unsigned>(), ElementsAre(5, 6));
  x.set(std::vector<size_t>{7, 8});
  EXPECT_THAT(x.data<double>(), ElementsAre(7, 8));
  static_assert(dtype_of<long long> == DType::i64 && dtype_of<unsigned long long> == DType::u64);
}

TEST(Results, HaveTheNameOfTheirTensor) {
  Graph g;
  Tensor x = g.tensor({2}, DType::f32, "x"), early = x + 1, late = x + 2, none = x + 3, odd = x + 4;
  early.set_name("early").keep();
  late.keep().set_name("late");
  none.keep();
  odd.set_name("my logits: 1").keep();
  x.keep();
  const auto label = [&](const Tensor& t) { return g.state()->kept.at(node_id(t)); };
  EXPECT_EQ(label(early), "early");
  EXPECT_EQ(label(late), "late");
  EXPECT_EQ(label(none), "output2");
  EXPECT_EQ(label(odd), "my_logits__1");
  EXPECT_EQ(label(x), "x");
  EXPECT_TRUE(same_module(parse_module(g.to_string()), g.state()->snapshot()));
  x.set({1.f, 2.f});
  g.execute();
  EXPECT_THAT(late.data<float>(), ElementsAre(3, 4));
  (x + 5).set_name("early").keep(); // the name goes to the one that was given it last
  EXPECT_EQ(label(early), "output4");
  g.execute();
  EXPECT_THAT(early.data<float>(), ElementsAre(2, 3));
  EXPECT_THAT(odd.data<float>(), ElementsAre(5, 6));
}

TEST(Results, MayBeCalledAsWhatAnUpdateMakes) {
  Graph g;
  Tensor h = g.state("h", {2}), next = h + 1, other = (h * 2).set_name("h_next").keep();
  g.update(h, next);
  print(other.set_name("effect0"));
  set_print_sink([](std::string_view) {});
  g.execute();
  g.execute();
  set_print_sink({});
  EXPECT_THAT(h.data<float>(), ElementsAre(2, 2));
  EXPECT_THAT(other.data<float>(), ElementsAre(2, 2));
}

TEST(Graphs, WithoutATensorRunAndWithoutAResultSayWhatToDo) {
  Graph empty;
  empty.compile();
  empty.execute();
  EXPECT_TRUE(empty.execute_debug().steps.empty());
  EXPECT_EQ(empty.memory().arena, 0);
  Graph g;
  Tensor x = g.tensor({2});
  EXPECT_ERROR(g.execute(), "[compile] nothing is kept: call keep() on the tensors whose values are wanted");
  x.set({1.f, 2.f});
  Tensor y = (x + 1).keep();
  g.execute();
  EXPECT_THAT(y.data<float>(), ElementsAre(2, 3));
}

TEST(Mistakes, OfOptionsAreRefused) {
  Graph g;
  Dim batch = g.dim("batch", 1, 64), n = g.dim("n", 1, 8);
  g.tensor({batch, n}).keep();
  EXPECT_ERROR(g.compile({.threads = -3}), "[compile] threads = -3: 0 (all cores) to 1024 are expected");
  EXPECT_ERROR(g.compile({.sizes = {{"bacth", 1}}}),
               "[compile] sizes: the graph has no dimension bacth; it has batch, n");
  EXPECT_ERROR(g.compile({.sizes = {{"batch", 1000}}}),
               "[compile] sizes: batch = 1000 is outside its range 1..64");
  EXPECT_ERROR(g.compile({.sizes = {{"batch", {1, 65}}}}),
               "[compile] sizes: batch = 65 is outside its range 1..64");
  EXPECT_ERROR(g.compile({.sizes = {{"batch", {1, 8, 1}}}}), "[compile] sizes: batch = 1 is there twice");
  CompileOptions none;
  none.sizes["batch"] = {};
  EXPECT_ERROR(g.compile(none), "[compile] sizes: batch has none: one size or several are expected");
  EXPECT_ERROR(g.compile({.sizes = {{"batch", {1, 8, 64}}, {"n", {1, 2, 3, 4, 5, 6}}}}),
               "[compile] sizes: 18 combinations or more, at most 16 are compiled: name fewer sizes");
  EXPECT_ERROR(g.set_dim("batch", 65), "[set_dim] batch = 65 is outside its range 1..64");
  EXPECT_ERROR(g.tensor({2}, DType(99)), "[tensor] there is no dtype 99");
  EXPECT_ERROR(g.tensor({2}).cast(DType(99)), "[cast] there is no dtype 99");
  EXPECT_ERROR(g.constant(1, DType(99)), "[constant] there is no dtype 99");
  EXPECT_ERROR(g.arange(3, DType(99)), "[arange] there is no dtype 99");
  EXPECT_ERROR(g.tensor({-3}), "[tensor] the extent -3 in [-3] is negative");
  EXPECT_ERROR(g.tensor({n - 3}), "[tensor] the extent n - 3 in [n - 3] may be negative");
  EXPECT_ERROR(g.dim("seq len", 1, 2),
               "[dim] 'seq len' cannot name a dimension: letters, digits and _ are expected");
  EXPECT_ERROR((void)g.tensor({2}).dim(5), "[dim] axis 5 does not exist in a tensor of 1 axes");
}

TEST(Mistakes, OfSizesNameElementsDimensionsAndTheLineOfSet) {
  Graph g;
  Dim batch = g.dim("batch", 1, 100);
  Tensor x = g.tensor({batch, 8}, DType::f32, "x");
  (x + 1).keep();
  g.set_dim("batch", 100);
  x.set(std::vector<float>(24)), (void)0;
  const std::string set_here = at(__FILE__, __LINE__ - 1).substr(1);
  EXPECT_ERROR(g.execute(),
               "[execute] tensor x is f32[batch, 8]: 800 elements with batch = 100; 24 were given " +
                   set_here);
  EXPECT_ERROR(
      (void)x.data<float>(),
      "[data] x (f32[batch, 8]) is [100, 8] with the present sizes of dimensions; 24 elements were given " +
          set_here);
  EXPECT_ERROR(x.set_dyn(std::vector<std::vector<float>>(101, std::vector<float>(8))),
               "[set_dyn] x (f32[batch, 8]): the values have shape [101, 8] (batch in 1..100)");
}

TEST(Mistakes, OfPositionsNameTheUpdateAndItsState) {
  Graph g;
  Dim past = g.dim("past", 0, 100);
  Tensor cache = g.state("cache", {8, 2}), row = g.tensor({1, 2}, DType::f32, "row");
  Tensor next = cache.update(0, past, row).keep();
  const std::string updated = at(__FILE__, __LINE__ - 1);
  g.update(cache, next);
  row.set({1.f, 2.f});
  g.set_dim("past", 7);
  g.execute();
  g.set_dim("past", 8);
  const std::string full = error_of([&] { g.execute(); });
  EXPECT_THAT(full,
              testing::MatchesRegex("\\[execute\\] past < 8 is needed by update of cache \\(f32\\[8, 2\\]\\) "
                                    "along axis 0 at api_test.cpp:.*; here past = 8 at api_test.cpp:.*"));
  EXPECT_THAT(full, HasSubstr(updated + "; "));
  Graph h;
  Dim p = h.dim("p", 0, 10);
  Tensor x = h.tensor({3}, DType::f32, "x");
  x.slice(0, p, 3).keep();
  x.set({1.f, 2.f, 3.f});
  h.set_dim("p", 5);
  EXPECT_THAT(error_of([&] { h.execute(); }),
              HasSubstr("[execute] p < 4 is needed by slice of x (f32[3]) along axis 0 at api_test.cpp"));
}

TEST(Mistakes, OfBodiesSayWhatToPassIn) {
  Graph g;
  Tensor w = g.weight("w", {2}), h = g.tensor({2});
  const std::string text =
      "a tensor from outside meets one of the body of a loop or function: pass it in, as "
      "an invariant of the loop or an input of the function, and use what the body is given "
      "for it";
  EXPECT_THAT(error_of([&] {
                g.loop(3, {h}, {}, {}, [&](Graph&, Tensor, const auto& carried, const auto&, const auto&) {
                  return Graph::LoopResult{{carried[0] * w}, {}};
                });
              }),
              HasSubstr("[mul] " + text));
  EXPECT_ERROR(g.function("f", {h}, [&](Graph&, const auto&) { return std::vector{w}; }),
               "[function] " + text);
}

TEST(Movement, WithoutAxesIsNotAxisZero) {
  Graph g;
  Tensor x = g.constant({{1, 2}, {3, 4}}, {2, 2});
  Tensor flat = x.roll({1}, {}).keep(), first = x.roll(1, 0).keep(), same = x.flip({}).keep(),
         turned = x.flip(1).keep();
  g.execute();
  EXPECT_THAT(flat.data<int>(), ElementsAre(4, 1, 2, 3));
  EXPECT_THAT(first.data<int>(), ElementsAre(3, 4, 1, 2));
  EXPECT_THAT(same.data<int>(), ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(turned.data<int>(), ElementsAre(2, 1, 4, 3));
}

TEST(Dims, AreMadeOfAnyInteger) {
  Graph g;
  const std::vector<float> values(6);
  Tensor x = g.tensor({values.size() / 2, 2u});
  EXPECT_EQ(to_string(x.shape()), "[3, 2]");
  EXPECT_EQ(printed(x.shape()), "[3, 2]");
  EXPECT_EQ(printed(x.dtype()), "f32");
  EXPECT_THAT(error_of([] { return Dim(UINT64_MAX); }), HasSubstr("a dimension of more than 2^63 - 1"));
}

TEST(Dims, CompareChooseSubstituteEvaluateAndAreText) {
  Graph g;
  Dim n = g.dim("n", 1, 10), m = g.dim("m", 1, 10);
  const auto at = [&](Dim d, int64_t a, int64_t b) { return d.evaluate({{"n", a}, {"m", b}}); };
  const auto floor = [](int64_t a, int64_t b) { return a / b; };
  for (int64_t a = 1; a <= 10; a++)
    for (int64_t b = 1; b <= 10; b++) {
      EXPECT_EQ(at(n < m, a, b), a < b);
      EXPECT_EQ(at(n <= m, a, b), a <= b);
      EXPECT_EQ(at(n > m, a, b), a > b);
      EXPECT_EQ(at(n >= m, a, b), a >= b);
      EXPECT_EQ(at(equal(n, m), a, b), a == b);
      EXPECT_EQ(at(not_equal(n, m), a, b), a != b);
      EXPECT_EQ(at(n < 5 && !(m < 5), a, b), a < 5 && b >= 5);
      EXPECT_EQ(at(n < 5 || m < 5, a, b), a < 5 || b < 5);
      EXPECT_EQ(at(min(n, m), a, b), std::min(a, b));
      EXPECT_EQ(at(max(n, m * 2), a, b), std::max(a, 2 * b));
      EXPECT_EQ(at(select(n < m, n * n, -m), a, b), a < b ? a * a : -b);
      EXPECT_EQ(at(ceil_div(n, 3), a, b), floor(a + 2, 3));
    }
  EXPECT_EQ((n * 2 + 1).substitute({{"n", m + 1}}), m * 2 + 3);
  EXPECT_EQ((n + m).names(), (std::vector<std::string>{"m", "n"}));
  EXPECT_EQ((n * 2).low(), 2);
  EXPECT_EQ((n * 2).high(), 20);
  EXPECT_EQ(Dim::parse(((n + 1) / 2 + m).to_string(), {n, m}), (n + 1) / 2 + m);
  EXPECT_EQ(printed(n + 1), "n + 1");
  EXPECT_THAT(error_of([&] { (n + m).evaluate({{"n", 2}}); }), HasSubstr("[dim] m + n: "));
  EXPECT_THAT(error_of([&] { n.evaluate({{"n", 11}}); }), HasSubstr("[dim] n: "));
  EXPECT_THAT(error_of([&] { Dim::parse("n + ", {n}); }), HasSubstr("[dim] \"n + \": "));
  // As extents and as conditions of terms they mean the same.
  Tensor x = g.arange(10), some = x.narrow(0, 0, min(n, 4)).keep();
  g.set_dim("n", 7);
  g.execute();
  EXPECT_THAT(some.data<int64_t>(), ElementsAre(0, 1, 2, 3));
}

TEST(FreeFunctions, AreTheMembersOfTheSameName) {
  Graph g;
  Tensor x = g.tensor({2, 3}, DType::f32, "x"), ids = g.constant({{0}, {1}}, {2, 1}, DType::i64);
  const std::vector<std::pair<Tensor, Tensor>> pairs = {
#define PAIR(name) {name(x), x.name()},
      LUMINAL_UNARY_FUNCTIONS(PAIR)
#undef PAIR
          {sum(x), x.sum()},
      {sum(x, 1), x.sum(1)},
      {mean(x, {0}, true), x.mean({0}, true)},
      {max(x, 0), x.max(0)},
      {min(x), x.min()},
      {var(x, 1), x.var(1)},
      {softmax(x, -1), x.softmax(-1)},
      {log_softmax(x, 0), x.log_softmax(0)},
      {matmul(x, transpose(x)), x.matmul(x.transpose())},
      {permute(x, {1, 0}), x.permute({1, 0})},
      {reshape(x, {3, 2}), x.reshape({3, 2})},
      {flatten(x), x.flatten()},
      {unsqueeze(x, 0), x.unsqueeze(0)},
      {squeeze(unsqueeze(x, 0), 0), x.unsqueeze(0).squeeze(0)},
      {cumsum(x, 0), x.cumsum(0)},
      {cumprod(x, 1), x.cumprod(1)},
      {sort(x).values, x.sort().values},
      {topk(x, 2).indices, x.topk(2).indices},
      {argmax(x, 1), x.argmax(1)},
      {gather(x, 1, ids), x.gather(1, ids)},
      {roll(x, 1, 0), x.roll(1, 0)},
      {flip(x, {0, 1}), x.flip({0, 1})},
      {split(x, 1)[1], x.split(1)[1]},
      {x.pow(2), pow(x, 2)},
      {x.clip(-1, 1), clip(x, -1, 1)},
      {x.masked_fill(x > 0, 7), masked_fill(x, x > 0, 7)},
      {x[1], x.select(0, 1)},
      {x[-1], x.select(0, -1)},
      {x[ids[0]], x.gather(ids.select(0, 0))},
  };
  for (size_t i = 0; i < pairs.size(); i++)
    EXPECT_EQ(pairs[i].first.id(), pairs[i].second.id()) << i << ": " << inspect(pairs[i].first).text;
  EXPECT_ERROR(x[0.5], "[index] an index is a whole number or a tensor of them, not 0.5");
  EXPECT_ERROR(x[2], "[select] index 2 is outside axis 0 of [2, 3]");
  EXPECT_ERROR(sum(x, 5), "[sum] axis 5 does not exist in a tensor of 2 axes");
  EXPECT_EQ(x.numel(), 6);
  EXPECT_EQ(x.size(-1), Dim(3));
}

TEST(Pools, TakeOneSizeForAllAxes) {
  Graph g;
  Tensor x = g.tensor({1, 2, 4, 4}), line = g.tensor({2, 4}), plain = g.tensor({2, 4, 4});
  EXPECT_EQ(max_pool(x, 2).id(), max_pool(x, {2, 2}).id());
  EXPECT_EQ(max_pool2d(x, 2).id(), max_pool(x, {2, 2}).id());
  EXPECT_EQ(max_pool2d(plain, {2, 1}).id(), max_pool(plain, {2, 1}).id());
  EXPECT_EQ(avg_pool(x, 2).id(), avg_pool(x, {2, 2}).id());
  EXPECT_EQ(avg_pool1d(line, 2).id(), avg_pool(line, {2}).id());
  EXPECT_EQ(max_pool(x, 2, {.stride = 1}).id(), max_pool(x, {2, 2}, {.stride = {1, 1}}).id());
  EXPECT_EQ(adaptive_avg_pool2d(x, 1).id(), adaptive_avg_pool(x, {1, 1}).id());
  EXPECT_EQ(adaptive_max_pool2d(x, {2, 1}).id(), adaptive_max_pool(x, {2, 1}).id());
  EXPECT_ERROR(max_pool(line, 2), "[max_pool] x is [2, 4]: axes behind batch and channels are expected");
  EXPECT_ERROR(max_pool1d(x, 2),
               "[max_pool1d] x is [1, 2, 4, 4]: one axis behind batch and channels are expected");
  EXPECT_ERROR(max_pool3d(line, 2),
               "[max_pool3d] x is [2, 4]: 3 axes behind batch and channels are expected");
}

TEST(Branches, RunTheSideThatThePredicateNames) {
  Graph g;
  Tensor p = g.tensor({}, DType::boolean, "p"), x = g.tensor({2}, DType::f32, "x");
  const auto plus = [](Graph&, const std::vector<Tensor>& in) { return std::vector{in[0] + 1, in[0].sum()}; };
  const auto times = [](Graph&, const std::vector<Tensor>& in) {
    return std::vector{in[0] * 10, in[0].max()};
  };
  const std::vector<Tensor> y = g.cond(p, {x}, plus, times);
  ASSERT_EQ(y.size(), 2u);
  keep(y);
  x.set({1.f, 2.f});
  p.set(true);
  g.execute();
  EXPECT_THAT(y[0].data<float>(), ElementsAre(2, 3));
  EXPECT_EQ(y[1].item<float>(), 3);
  p.set(false);
  g.execute();
  EXPECT_THAT(y[0].data<float>(), ElementsAre(10, 20));
  EXPECT_EQ(y[1].item<float>(), 2);
  EXPECT_TRUE(same_module(parse_module(g.to_string()), g.state()->snapshot()));
  EXPECT_ERROR(g.cond(x, {x}, plus, times), "[cond] the predicate must be one bool, it is f32[2]");
  EXPECT_ERROR(g.cond(p, {x}, plus, [](Graph&, const auto& in) { return std::vector{in[0]}; }),
               "[cond] one side gives f32[2], f32, the other one f32[2]");
  EXPECT_ERROR(g.cond(
                   p, {x}, [](Graph&, const auto&) { return std::vector<Tensor>{}; },
                   [](Graph&, const auto&) { return std::vector<Tensor>{}; }),
               "[cond] both sides give nothing");
}

TEST(Loops, RunWhileTheConditionHolds) {
  Graph g;
  Tensor x = g.tensor({2}, DType::f32, "x"), limit = g.tensor({}, DType::f32, "limit");
  const auto below = [](Graph&, const auto& carried, const auto& given) {
    return carried[0].max() < given[0];
  };
  const auto twice = [](Graph&, Tensor, const auto& carried, const auto&) {
    return std::vector<Tensor>{carried[0] * 2, carried[1] + carried[0].sum()};
  };
  auto made = g.while_loop(20, {x, x.sum() * 0}, {limit}, below, twice);
  keep(made.carried);
  made.steps.keep();
  x.set({1.f, 3.f});
  limit.set(20.f);
  g.execute();
  EXPECT_THAT(made.carried[0].data<float>(), ElementsAre(8, 24));
  EXPECT_EQ(made.carried[1].item<float>(), 4 + 8 + 16);
  EXPECT_EQ(made.steps.item<int64_t>(), 3);
  limit.set(0.f);
  g.execute();
  EXPECT_EQ(made.steps.item<int64_t>(), 0);
  limit.set(1e30f);
  g.execute();
  EXPECT_EQ(made.steps.item<int64_t>(), 20);
  EXPECT_TRUE(same_module(parse_module(g.to_string()), g.state()->snapshot()));
  EXPECT_ERROR(g.while_loop(
                   3, {x}, {}, [](Graph&, const auto& c, const auto&) { return c[0]; }, twice),
               "[while_loop] the condition must be one bool, it is f32[2]");
  EXPECT_ERROR(g.while_loop(
                   3, {x}, {}, [](Graph&, const auto& c, const auto&) { return c[0].sum() > 0; },
                   [](Graph&, Tensor, const auto&, const auto&) { return std::vector<Tensor>{}; }),
               "[while_loop] the body returns 0 carried values, 1 go in");
}

} // namespace
} // namespace luminal
