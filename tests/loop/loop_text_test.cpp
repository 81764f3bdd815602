// loop/loop_text_test.cpp -- print and parse invert each other; mistakes in a text are told with
// their place.
#include "loop_random.h"
#include "loop_support.h"

namespace luminal::kernel {
namespace {

TEST(LoopText, RandomKernelsPrintAndParseBack) {
  for (uint64_t seed = 0; seed < 400; ++seed) {
    const Kernel kernel = RandomText(seed).kernel();
    const std::string text = to_string(kernel);
    Kernel again;
    ASSERT_NO_THROW(again = parse_kernel(text)) << "seed " << seed << "\n" << text;
    ASSERT_TRUE(same(kernel, again)) << "seed " << seed << "\n" << text << to_string(again);
    ASSERT_EQ(to_string(again), text);
    ASSERT_EQ(structural_hash(kernel), structural_hash(again)) << text;
    ASSERT_EQ(kernel.notes, again.notes);
  }
}

TEST(LoopText, EqualityAndHashSeeEveryChange) {
  // Two different random kernels are never the same; the hash does not look at names.
  std::map<uint64_t, std::string> seen;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    Kernel kernel = RandomText(seed).kernel();
    const auto [at, fresh] = seen.emplace(structural_hash(kernel), to_string(kernel));
    EXPECT_TRUE(fresh) << at->second << to_string(kernel);
    Kernel renamed = kernel;
    renamed.name = "other";
    renamed.buffers.front().name = "another";
    renamed.notes = {"noted"};
    EXPECT_EQ(structural_hash(kernel), structural_hash(renamed));
    EXPECT_FALSE(same(kernel, renamed));
    Kernel changed = kernel;
    changed.buffers.back().padded = !changed.buffers.back().padded;
    EXPECT_NE(structural_hash(kernel), structural_hash(changed));
    EXPECT_FALSE(same(kernel, changed));
  }
}

static ValueRef one_more() { return constant(DType::f32, 2); }

TEST(LoopText, EqualityAndHashSeeEveryField) {
  Kernel base;
  base.name = "k";
  add_buffer(base, {"x", Space::global, Access::in, DType::f32, 4});
  const Expr i = Expr::symbol("i", {0, 3}), j = Expr::symbol("j", {0, 3});
  const auto differ = [&](const Stmt& first, const Stmt& second) {
    Kernel a = base, b = base;
    a.body = {std::make_shared<Stmt>(first)};
    b.body = {std::make_shared<Stmt>(second)};
    EXPECT_TRUE(same(a, a));
    EXPECT_TRUE(same(a, [&] {
      Kernel copy = base;
      copy.body = {std::make_shared<Stmt>(first)};
      return copy;
    }()));
    EXPECT_FALSE(same(a, b));
    EXPECT_NE(structural_hash(a), structural_hash(b));
  };
  // `change` makes another statement of the same kind.
  const auto differs = [&](const auto& stmt, const auto& change) {
    auto changed = stmt;
    change(changed);
    differ(stmt, changed);
  };
  const ValueRef one = constant(DType::f32, 1);
  const Loop loop{.variable = i, .begin = 0, .end = 4};
  differs(loop, [](Loop& s) { s.kind = LoopKind::vector; });
  differs(loop, [&](Loop& s) { s.variable = j; });
  differs(loop, [](Loop& s) { s.begin = 1; });
  differs(loop, [](Loop& s) { s.end = 3; });
  differs(loop, [](Loop& s) { s.level = 1; });
  differs(loop, [](Loop& s) { s.jam = 2; });
  differs(loop, [](Loop& s) { s.lanes_active = 0; });
  differs(loop, [](Loop& s) { s.lanes_active = 2; });
  differs(loop, [](Loop& s) { s.body = {barrier()}; });
  const BufferId x(0);
  const Store to{x, 1, one};
  differs(to, [](Store& s) { s.buffer = BufferId(1); });
  differs(to, [](Store& s) { s.offset = 2; });
  differs(to, [](Store& s) { s.value = nullptr; });
  differs(LetValue{LetId(0), one}, [](LetValue& s) { s.let = LetId(1); });
  differs(LetValue{LetId(0), one}, [](LetValue& s) { s.value = nullptr; });
  differs(LetIndex{i, one}, [&](LetIndex& s) { s.symbol = j; });
  differs(LetIndex{i, one}, [](LetIndex& s) { s.value = nullptr; });
  differs(If{}, [](If& s) { s.condition = 1; });
  differs(If{}, [](If& s) { s.then = {barrier()}; });
  differs(If{}, [](If& s) { s.otherwise = {barrier()}; });
  differs(Barrier{}, [](Barrier& s) { s.level = 1; });
  differs(Prefetch{x, 1}, [](Prefetch& s) { s.buffer = BufferId(1); });
  differs(Prefetch{x, 1}, [](Prefetch& s) { s.offset = 2; });
  const UnitCall call{"dot.f32", {{x, 1, {2}}}};
  differs(call, [](UnitCall& s) { s.unit = "fma.f32"; });
  differs(call, [](UnitCall& s) { s.operands = {}; });
  differs(call, [](UnitCall& s) { s.operands[0].buffer = BufferId(1); });
  differs(call, [](UnitCall& s) { s.operands[0].offset = 2; });
  differs(call, [](UnitCall& s) { s.operands[0].strides[0] = 3; });
  const TokenId token(0);
  const AsyncCopy copy{{x, 1, {}}, {x, 2, {}}, 4, token};
  differs(copy, [](AsyncCopy& s) { s.to.offset = 2; });
  differs(copy, [](AsyncCopy& s) { s.from.offset = 3; });
  differs(copy, [](AsyncCopy& s) { s.count = 1; });
  differs(copy, [](AsyncCopy& s) { s.token = TokenId(1); });
  differs(AsyncUnit{call, token}, [](AsyncUnit& s) { s.call.unit = "fma.f32"; });
  differs(AsyncUnit{call, token}, [](AsyncUnit& s) { s.token = TokenId(1); });
  differs(AsyncWait{token}, [](AsyncWait& s) { s.token = TokenId(1); });
  const Roles roles{.variable = i, .begin = 0, .end = 4};
  differs(roles, [&](Roles& s) { s.variable = j; });
  differs(roles, [](Roles& s) { s.begin = 1; });
  differs(roles, [](Roles& s) { s.end = 3; });
  differs(roles, [](Roles& s) { s.stages = 2; });
  differs(roles, [](Roles& s) { s.producers = {barrier()}; });
  differs(roles, [](Roles& s) { s.consumers = {barrier()}; });
  // Statements of different kinds that hold the same.
  differ(AsyncWait{token}, Barrier{0});
  differ(call, AsyncUnit{call, token});
  const auto value_differs = [&](const auto& kind, const auto& change) {
    auto changed = kind;
    change(changed);
    const Value a{DType::f32, kind}, b{DType::f32, changed}, wider{DType::f64, kind};
    EXPECT_TRUE(same(a, Value{DType::f32, kind}));
    for (const Value& other : {b, wider}) {
      differ(Store{x, 1, std::make_shared<Value>(a)}, Store{x, 1, std::make_shared<Value>(other)});
      EXPECT_FALSE(same(a, other));
    }
  };
  value_differs(Constant{0}, [](Constant& v) { v.value = -0.0; });
  value_differs(Load{x, 1}, [](Load& v) { v.buffer = BufferId(1); });
  value_differs(Load{x, 1}, [](Load& v) { v.offset = 2; });
  value_differs(Load{x, 1}, [&](Load& v) { v.guard = lt(i, 2); });
  value_differs(Index{1}, [](Index& v) { v.value = 2; });
  value_differs(Let{LetId(0)}, [](Let& v) { v.number = LetId(1); });
  value_differs(Apply{Op::add, {one, one}}, [](Apply& v) { v.op = Op::mul; });
  value_differs(Apply{Op::add, {one, one}}, [](Apply& v) { v.args = {one_more(), one_more()}; });
  value_differs(ApplyUser{"mine", {one}}, [](ApplyUser& v) { v.name = "yours"; });
  value_differs(ApplyUser{"mine", {one}}, [](ApplyUser& v) { v.args = {}; });
  value_differs(Cast{one}, [](Cast& v) { v.x = one_more(); });
  value_differs(Bitcast{one}, [](Bitcast& v) { v.x = one_more(); });
  value_differs(ReduceLanes{Op::add, one}, [](ReduceLanes& v) { v.op = Op::max; });
  value_differs(ReduceLanes{Op::add, one}, [](ReduceLanes& v) { v.x = one_more(); });
  EXPECT_FALSE(same(Value{DType::f32, Cast{one}}, Value{DType::f32, Bitcast{one}}));
}

TEST(LoopText, TheExampleOfTheHeader) {
  const char* text = R"(kernel scale(x: f32[n] in, y: f32[n] out; n: 1..4096)
  parallel io in 0..ceildiv(n, 16)
    vector il in 0..16 masked n - 16*io
      y[16*io + il] = x[16*io + il] * 0.5
)";
  const Kernel kernel = parse_kernel(text);
  EXPECT_THAT(verify(kernel), testing::IsEmpty());
  const auto* outer = kernel.body.at(0)->as<Loop>();
  ASSERT_TRUE(outer);
  EXPECT_EQ(outer->kind, LoopKind::parallel);
  EXPECT_EQ(outer->variable.range(), (Interval{0, 255}));
  EXPECT_TRUE(outer->body.at(0)->as<Loop>()->lanes_active);
  EXPECT_TRUE(same(kernel, parse_kernel(to_string(kernel))));
}

TEST(LoopText, PrecedenceIsThatOfTheTree) {
  Kernel k;
  k.name = "k";
  add_buffer(k, {"y", Space::global, Access::out, DType::f32, 1});
  const auto c = [](double v) { return constant(DType::f32, v); };
  const auto text = [&](const ValueRef& v) { return to_string(k, *v); };
  const auto binary = [](Op op, ValueRef a, ValueRef b) { return apply(op, {a, b}); };
  EXPECT_EQ(text(binary(Op::add, c(1), binary(Op::mul, c(2), c(3)))), "1.0 + 2.0 * 3.0");
  EXPECT_EQ(text(binary(Op::mul, binary(Op::add, c(1), c(2)), c(3))), "(1.0 + 2.0) * 3.0");
  EXPECT_EQ(text(binary(Op::sub, c(1), binary(Op::sub, c(2), c(3)))), "1.0 - (2.0 - 3.0)");
  EXPECT_EQ(text(binary(Op::sub, binary(Op::sub, c(1), c(2)), c(-3))), "1.0 - 2.0 - -3.0");
  EXPECT_EQ(text(binary(Op::div, c(1), binary(Op::div, c(2), c(3)))), "1.0 / (2.0 / 3.0)");
  EXPECT_EQ(text(binary(Op::lt, binary(Op::add, c(1), c(2)), c(3))), "1.0 + 2.0 < 3.0");
  EXPECT_EQ(text(apply(Op::select, {binary(Op::eq, c(1), c(-INFINITY)), c(0),
                                    cast(DType::f32, constant(DType::bf16, 0.5))})),
            "select(1.0 == -inf, 0.0, cast<f32>(bf16(0.5)))");
}

TEST(LoopText, MistakesAreToldWithTheirPlace) {
  const std::string head = "kernel k(x: f32[n] in, y: f32[n] out; n: 1..9)\n";
  struct Case {
    std::string text, place, message;
  };
  const std::vector<Case> cases = {
      {"", "1:1", "expected a kernel"},
      {"# only a comment\n", "1:1", "expected a kernel"},
      {"kernle k()\n", "1:1", "expected 'kernel'"},
      {"kernel k(x: f32[4] in", "1:22", "expected ')'"},
      {"kernel k(x f32[4] in)\n", "1:12", "expected ':'"},
      {"kernel k(x: f33[4] in)\n", "1:13", "'f33' is not an element type"},
      {"kernel k(x: f32[m] in)\n", "1:17", "m"},
      {"kernel k(x: f32[4])\n", "1:19", "expected in, out, inout or scratch"},
      {"kernel k(x: f32[4] in, x: f32[4] in)\n", "1:24", "there are two buffers 'x'"},
      {"kernel k(; n: 9..1)\n", "1:12", ""},
      {"kernel k(; n: 1..9, n: 1..9)\n", "1:21", "'n' is defined twice"},
      {"kernel k() lanes 0\n", "1:18", "expected lanes of 1 to"},
      {"  kernel k()\n", "1:3", "expected the kernel to begin in column 1"},
      {head + "  for i in 0..n\n", "2:", "expected the indented body of the loop"},
      {head + "  for i in 0..n\n  y[i] = 1\n", "3:3", "expected the indented body of the loop"},
      {head + "  for i in 0..n\n    y[i] = 1\n   y[i] = 1\n", "4:4", "spaces before the statement"},
      {head + "  for i in 0..n\n    y[i] = 1\n      y[i] = 1\n", "4:7",
       "expected 4 spaces before the statement, found 6"},
      {head + "  for i in 0 n\n    y[i] = 1\n", "2:14", "expected '..'"},
      {head + "  for i in 0..0\n    y[i] = 1\n", "2:7", "the loop is empty; write its range"},
      {head + "  for n in 0..4\n    y[n] = 1\n", "2:7", "'n' is defined twice"},
      {head + "  for i in 0..n jam 0\n    y[i] = 1\n", "2:21", "expected bodies of 1 to"},
      {head + "  for i in 0..n masked 4\n    y[i] = 1\n", "2:17", "expected"},
      {head + "  vector i in 0..8 masked i\n    y[i] = 1\n", "2:27", "i"},
      {head + "  y[0] = x[i]\n", "2:12", "i"},
      {head + "  y[0] = z[0]\n", "2:10", "there is no buffer 'z'"},
      {head + "  z[0] = x[0]\n", "2:3", "there is no buffer 'z'"},
      {head + "  y[0] = x[0] +\n", "2:16", "expected a value"},
      {head + "  y[0] = x[0] x[0]\n", "2:15", "expected"},
      {head + "  y[0] = x[0] +\n    x[1]\n", "2:16", "expected a value"},
      {head + "  y[0] = x[0] + i32(3)\n", "2:15", "expected integers or floats of one type, found f32, i32"},
      {head + "  y[0] = i32(0.5)\n", "2:14", "expected an integer of at most 2^53"},
      {head + "  y[0] = bitcast<i16>(x[0])\n", "2:10", "f32 has 32 bits, i16 has 16"},
      {head + "  y[0] = mysterious(x[0])\n", "2:10", "there is no operation 'mysterious'"},
      {head + "  y[0] = exp2(x[0], x[0])\n", "2:10", "takes 1 values, 2 given"},
      {head + "  y[0] = reduce_lanes<mean>(x[0])\n", "2:23", "there is no operation 'mean'"},
      {head + "  y[0] = what<f32>(x[0])\n", "2:10",
       "expected load, index, cast, bitcast, reduce_lanes or scan_lanes"},
      {head + "  y[0] = %0\n", "2:10", "there is no %0 here"},
      {head + "  let %0 = 1\n  let %0 = 2\n", "3:8", "%0 is defined twice"},
      {head + "  if n < 3\n    let %0 = 1\n  y[0] = %0\n", "4:10", "there is no %0 here"},
      {head + "  for i in 0..n\n    y[i] = 1\n  y[i] = 1\n", "4:5", "i"},
      {head + "  let j in 0..9 = x[0] = 1\n", "2:24", "expected"},
      {head + "  else\n    y[0] = 1\n", "2:3", "expected a statement"},
      {head + "  while n < 3\n    y[0] = 1\n", "2:3", "expected a statement"},
      {head + "  async copy y[0] < x[0] count 1 -> token 0\n", "2:21", "expected '-'"},
      {head + "  async copy y[0] <- x[0] -> token 0\n", "2:27", "expected 'count'"},
      {head + "  wait x\n", "2:8", "expected token"},
      {head + "  roles k in 0..n stages 2\n    consumers:\n      y[k] = 1\n", "3:5", "expected 'producers'"},
      {head + "  y[0] = 1\nkernel k()\n", "3:1", "expected the end of the text"},
      {head + "  local t f32[4]\n", "2:11", "expected ':'"},
      {head + "  local t: f32[4]\n    local u: f32[4]\n", "3:5",
       "expected the indentation of the line above"},
      {head + "  y[9223372036854775807*n + 1 + 9223372036854775807*2] = 1\n", "2:", ""},
      {head + "  y[n // 0] = 1\n", "2:", ""},
  };
  for (const Case& c : cases) {
    try {
      parse_kernel(c.text, "k.loop");
      ADD_FAILURE() << "accepted:\n" << c.text;
    } catch (const Error& e) {
      const std::string what = e.what();
      EXPECT_TRUE(what.starts_with("k.loop:" + c.place)) << c.text << "\n" << what;
      EXPECT_NE(what.find(c.message), std::string::npos) << c.text << "\n" << what;
    }
  }
}

TEST(LoopText, SharedPartsCostOnce) {
  // 2^60 leaves as a tree.
  Kernel k;
  k.name = "shared";
  const BufferId x = add_buffer(k, {"x", Space::global, Access::in, DType::f32, 1});
  const BufferId y = add_buffer(k, {"y", Space::global, Access::out, DType::f32, 1});
  ValueRef v = load(k, x, 0);
  for (int i = 0; i < 60; ++i) v = apply(Op::mul, {apply(Op::add, {v, v}), constant(DType::f32, 0.5)});
  k.body = {store(y, 0, v)};
  EXPECT_THAT(verify(k), testing::IsEmpty());
  structural_hash(k);
  register_pressure(k);
  Arguments args;
  args.set<float>("x", {3}).space("y", 4);
  const LoopRun run = args.run(k);
  EXPECT_TRUE(run.ok());
  EXPECT_EQ(run.counts.total_ops(), 120);
  EXPECT_EQ(args.get<float>("y")[0], 3);
}

TEST(LoopText, DeepAndDamagedTextsEndInAnError) {
  std::string deep = "kernel k(y: f32[1] out)\n";
  for (int i = 0; i < 3000; ++i) deep += std::string(size_t(i) + 2, ' ') + "if 1 == 1\n";
  EXPECT_THROW(parse_kernel(deep), Error);
  std::string parentheses = "kernel k(y: f32[1] out)\n  y[0] = " + std::string(100000, '(') + "1\n";
  EXPECT_THROW(parse_kernel(parentheses), Error);
  std::string minus = "kernel k(y: f32[1] out)\n  y[" + std::string(100000, '-') + "1] = 1\n";
  EXPECT_THROW(parse_kernel(minus), Error);
  // Every prefix, and every text with one character changed, is a kernel or an Error, never
  // anything else.
  constexpr std::string_view letters = " \n()[]{}<>-+*/%.,:;#\"az09\t\xff";
  std::mt19937_64 random(3);
  for (uint64_t seed = 0; seed < 12; ++seed) {
    const std::string text = to_string(RandomText(seed).kernel());
    for (size_t cut = 0; cut < text.size(); cut += 7) {
      try {
        parse_kernel(text.substr(0, cut));
      } catch (const Error&) {
      }
    }
    for (int i = 0; i < 300; ++i) {
      std::string damaged = text;
      damaged[random() % damaged.size()] = letters[random() % letters.size()];
      try {
        verify(parse_kernel(damaged));
      } catch (const Error&) {
      }
    }
  }
}

} // namespace
} // namespace luminal::kernel
