// tests/tensor/lifetime_test.cpp -- many tensors at once, order, functions, values handed over
// without a copy, what lives on.
#include "support.h"
#include <algorithm>

namespace luminal {
namespace {

using namespace testing_tensor;
using testing::ElementsAre;
using testing::HasSubstr;

TEST(Lifetime, CollectionsOfTensors) {
  Graph g;
  Dim n = g.dim("n", 1, 8), m = g.dim("m", 1, 8);
  Tensor x = g.tensor({n}, DType::f32, "x"), y = g.tensor({m, 2}, DType::f32, "y");
  std::vector<Tensor> list{x + 1, x * 2};
  std::tuple<Tensor, std::vector<Tensor>> mixed{y + 1, {y * 2}};
  std::pair<Tensor, Tensor> pair{x - 1, y - 1};
  keep(list);
  retrieve(mixed);
  keep(pair);
  keep(std::span<const Tensor>(list));
  set_dyn(std::tie(x, y), std::tuple(std::vector<float>{1, 2, 3}, std::vector<std::vector<int>>{{1, 2}}));
  g.execute();
  EXPECT_THAT(list[1].data<float>(), ElementsAre(2, 4, 6));
  EXPECT_THAT(std::get<1>(mixed)[0].data<float>(), ElementsAre(2, 4));
  EXPECT_THAT(pair.second.data<float>(), ElementsAre(0, 1));
  drop(mixed);
  EXPECT_THAT(error_of([&] { (void)std::get<0>(mixed).data<float>(); }),
              HasSubstr("was dropped (at lifetime_test.cpp"));
  const std::vector<Tensor> xs{x};
  set_dyn(xs, std::vector<std::vector<float>>{{5, 6}});
  EXPECT_THAT(x.data<float>(), ElementsAre(5, 6));
  EXPECT_ERROR(set_dyn(xs, std::vector<std::vector<float>>{{1}, {2}}), "[set_dyn] 2 values for 1 tensors");
}

TEST(Lifetime, AfterOrdersEffectsAndSurvivesTheText) {
  std::vector<std::string> lines;
  set_print_sink([&](std::string_view line) { lines.emplace_back(line); });
  Graph g;
  Tensor x = g.tensor({2}, DType::f32, "x"), y = g.tensor({2}, DType::f32, "y");
  Tensor shown = print(x, "first");
  Tensor late = (after(y, {shown}) * 2).keep();
  EXPECT_THAT(g.to_string(), HasSubstr("fence %y after "));
  x.set({1, 2});
  y.set({3, 4});
  g.execute();
  EXPECT_THAT(late.data<float>(), ElementsAre(6, 8));
  EXPECT_EQ(lines.size(), 1u);
  set_print_sink({});
  Graph other;
  EXPECT_ERROR(after(y, {other.tensor({2})}), "[after] the tensors belong to different graphs");
}

TEST(Lifetime, FunctionsHaveSeveralResultsAndOneBody) {
  Graph g;
  auto layer = [](Graph&, const std::vector<Tensor>& in) -> std::vector<Tensor> {
    Tensor product = in[0].matmul(in[1]);
    return {product, product.sum({1})};
  };
  Tensor x = g.tensor({16, 16}, DType::f32, "x"), a = g.weight("a", {16, 16}), b = g.weight("b", {16, 16});
  auto first = g.function("layer", {x, a}, layer);
  auto second = g.function("layer", {after(first[0], {first[1]}), b}, layer); // not one kernel of both
  keep(first[1]);
  keep(second);
  std::vector<float> eye(256), twos(256);
  for (size_t i = 0; i < 16; i++) eye[i * 17] = 1, twos[i * 17] = 2;
  x.set(std::vector<float>(256, 1));
  a.set(twos);
  b.set(eye);
  g.execute();
  EXPECT_EQ(first[1].data<float>()[3], 32);
  EXPECT_EQ(second[1].data<float>()[3], 32);
  EXPECT_EQ(second[0].data<float>()[17], 2);
  const std::string text = g.to_string(), report = g.report();
  EXPECT_THAT(text, HasSubstr("fn @layer("));
  EXPECT_THAT(text, HasSubstr("call @layer("));
  EXPECT_EQ(text.find("fn @layer("), text.rfind("fn @layer(")) << "one body";
  size_t products = 0;
  for (size_t at = 0; (at = report.find("launch ", at)) != std::string::npos; at++) products++;
  size_t kernels = 0;
  for (size_t at = 0; (at = report.find("\nkernel ", at)) != std::string::npos; at++) kernels++;
  EXPECT_LT(kernels, products) << "calls share kernels\n" << report;
  EXPECT_ERROR(
      g.function("layer", {x}, [](Graph&, const std::vector<Tensor>& in) { return std::vector{in[0] + 1}; }),
      "[function] there is a function layer with another body: give this one another name");
  EXPECT_ERROR(g.function("f", {x},
                          [](Graph& body, const std::vector<Tensor>& in) {
                            return std::vector{in[0] * body.weight("w", {16, 16})};
                          }),
               "[function] w is made inside of the body: make it outside and pass it in");
  EXPECT_ERROR(
      g.function("f", {x}, [&](Graph&, const std::vector<Tensor>&) { return std::vector{x}; }),
      "[function] a tensor from outside meets one of the body of a loop or function: pass it in, as an "
      "invariant of the loop or an input of the function, and use what the body is given for it");
  EXPECT_ERROR(g.function("f", {x}, [](Graph&, const std::vector<Tensor>&) { return std::vector<Tensor>{}; }),
               "[function] f returns no tensor");
  EXPECT_ERROR(g.function("no name", {x}, layer),
               "[function] 'no name' cannot name a function: letters, digits and _ are expected, not main");
  EXPECT_THAT(error_of([&] {
                g.function("f", {x}, [](Graph&, const std::vector<Tensor>& in) {
                  return std::vector{(in[0] + 1).keep()};
                });
              }),
              HasSubstr("[keep] a value inside of a loop or function cannot be kept: return it"));
}

constexpr int64_t big = 1 << 15; // f32: 128 KiB, handed over without a copy

TEST(Lifetime, AKeptValueBecomesAnInputWithoutACopy) {
  Graph g;
  Tensor x = g.tensor({big}, DType::f32, "x"), y = (x + 1).keep();
  y.set_name("y");
  x.set(std::vector<float>(big, 0));
  std::vector<const void*> seen;
  int line = 0;
  for (int step = 1; step <= 4; step++) {
    g.execute();
    const void* made = y.bytes().data();
    line = __LINE__ + 1;
    transfer(y, x);
    EXPECT_EQ(x.bytes().data(), made) << "the memory moved, nothing was copied";
    EXPECT_EQ(x.data<float>()[big - 1], float(step));
    seen.push_back(made);
  }
  EXPECT_EQ(seen[0], seen[2]) << "two blocks of memory take turns";
  EXPECT_EQ(seen[1], seen[3]);
  EXPECT_ERROR((void)y.data<float>(), "[data] y (f32[32768]) was handed over (at lifetime_test.cpp:" +
                                          std::to_string(line) + "): execute the graph again");
}

TEST(Lifetime, AcrossGraphsIntoStatesAndBack) {
  Graph producer, consumer;
  Tensor x = producer.tensor({big}), y = (x * 3).keep();
  Tensor s = consumer.state("s", {big}), sum = s.sum({0}).keep();
  consumer.update(s, s + 1);
  x.set(std::vector<float>(big, 1));
  producer.execute();
  const void* made = y.bytes().data();
  transfer(y, s); // before the consumer was ever compiled
  consumer.execute();
  EXPECT_EQ(sum.item<double>(), 3.0 * big);
  EXPECT_EQ(s.bytes().data(), made);
  producer.execute();
  made = y.bytes().data();
  transfer(y, s);
  EXPECT_EQ(s.bytes().data(), made);
  consumer.execute();
  EXPECT_EQ(sum.item<double>(), 3.0 * big);
  EXPECT_EQ(s.data<float>()[7], 4);
  made = s.bytes().data();
  transfer(s, x);
  EXPECT_EQ(x.bytes().data(), made);
  EXPECT_EQ(s.data<float>()[7], 0) << "a state that was handed over is zero";
  producer.execute();
  EXPECT_EQ(y.data<float>()[7], 12);
  consumer.execute();
  EXPECT_EQ(sum.item<double>(), 0);
}

TEST(Lifetime, AStateIsZeroBeforeTheFirstStep) {
  Graph g, other;
  Tensor total = g.state("total", {2}), x = g.tensor({2}), next = total + x;
  g.update(total, next);
  EXPECT_THAT(total.data<float>(), ElementsAre(0, 0));
  Tensor y = other.tensor({2}), twice = (y + y).keep();
  transfer(total, y);
  other.execute();
  EXPECT_THAT(twice.data<float>(), ElementsAre(0, 0));
  g.compile({.cache = false});
  EXPECT_THAT(total.data<float>(), ElementsAre(0, 0));
  x.set({1.f, 2.f});
  g.execute();
  EXPECT_THAT(total.data<float>(), ElementsAre(1, 2));
  g.compile({.cache = false}); // it stays
  EXPECT_THAT(total.data<float>(), ElementsAre(1, 2));
}

TEST(Lifetime, ValuesOutliveTheirGraph) {
  Graph consumer;
  Tensor x = consumer.tensor({big}), y = (x + 1).keep();
  {
    Graph producer;
    Tensor made = (producer.iota({big}, [](const Dims& i) { return i[0]; }).cast(DType::f32)).keep();
    producer.execute();
    transfer(made, x);
  }
  consumer.execute();
  EXPECT_EQ(y.data<float>()[100], 101);
}

TEST(Lifetime, SwapOfStatesAndInputs) {
  Graph g;
  Tensor a = g.state("a", {big}), b = g.state("b", {big}), x = g.tensor({big}, DType::f32, "x");
  Tensor sums = (a * 100 + b * 10 + x).keep();
  a.set(std::vector<float>(big, 1));
  b.set(std::vector<float>(big, 2));
  x.set(std::vector<float>(big, 3));
  g.execute();
  EXPECT_EQ(sums.data<float>()[5], 123);
  const void *in_a = a.bytes().data(), *in_b = b.bytes().data();
  swap_values(a, b);
  EXPECT_EQ(a.bytes().data(), in_b);
  EXPECT_EQ(b.bytes().data(), in_a);
  g.execute();
  EXPECT_EQ(sums.data<float>()[5], 213);
  swap_values(b, x);
  g.execute();
  EXPECT_EQ(sums.data<float>()[5], 231);
  transfer({a, b}, {b, a});
  g.execute();
  EXPECT_EQ(sums.data<float>()[5], 321);
}

TEST(Lifetime, SmallValuesAreHandedOverToo) {
  Graph g;
  Tensor x = g.tensor({2}, DType::f32, "x"), y = (x * 2).keep(), s = g.state("s", {2}), z = (s + x).keep();
  x.set({1, 2});
  g.execute();
  transfer(y, s);
  EXPECT_THAT(s.data<float>(), ElementsAre(2, 4));
  g.execute();
  EXPECT_THAT(z.data<float>(), ElementsAre(3, 6));
}

TEST(Lifetime, MistakesOfHandOver) {
  Graph g;
  Tensor x = g.tensor({4, 3}, DType::f32, "x"), y = g.tensor({3, 4}, DType::f32, "y"),
         h = g.tensor({4, 3}, DType::f16, "h");
  Tensor z = (x + 1).keep();
  z.set_name("z");
  EXPECT_ERROR(transfer(x, y), "[transfer] x (f32[4, 3]) cannot become the value of y (f32[3, 4])");
  EXPECT_ERROR(transfer(x, h), "[transfer] x (f32[4, 3]) cannot become the value of h (f16[4, 3])");
  EXPECT_ERROR(transfer(x, z), "[transfer] z (f32[4, 3]) is computed: only a tensor made by tensor, weight "
                               "or state can be given a value");
  EXPECT_ERROR(transfer(z, x),
               "[transfer] the value of z (f32[4, 3]) is not there yet: execute the graph first");
  EXPECT_ERROR(transfer(std::vector{x}, std::vector<Tensor>{}), "[transfer] 1 tensors to 0");
  EXPECT_ERROR(swap_values(x, z), "[swap_values] z (f32[4, 3]) is computed: only a tensor made by tensor, "
                                  "weight or state can be given a value");
  EXPECT_ERROR(transfer(Tensor(), x), "[transfer] a tensor is empty: it was never made from a graph");
}

TEST(Lifetime, DeletedInputsMustBeSetAgain) {
  Graph g;
  Tensor x = g.tensor({2}, DType::f32, "x"), w = g.weight("w", {2}),
         other = g.tensor({2}, DType::f32, "other");
  Tensor y = x * w, z = (y.exp()).keep(), loose = (other + 1).keep();
  const auto below = downstream({x});
  ASSERT_EQ(below.size(), 2u);
  EXPECT_EQ(below[0].id(), y.id());
  EXPECT_EQ(below[1].id(), z.id());
  x.set({0, 0});
  w.set({1, 1});
  other.set({1, 2});
  g.execute();
  delete_inputs({y});
  const std::string place = "lifetime_test.cpp:" + std::to_string(__LINE__ - 1);
  EXPECT_ERROR(g.execute(),
               "[execute] weight w (f32[2]) was deleted (delete_inputs, at " + place + "); set it again");
  w.set({2, 2});
  EXPECT_ERROR(g.execute(),
               "[execute] tensor x (f32[2]) was deleted (delete_inputs, at " + place + "); set it again");
  x.set({0, 0});
  g.execute();
  EXPECT_THAT(z.data<float>(), ElementsAre(1, 1));
  EXPECT_THAT(loose.data<float>(), ElementsAre(2, 3));
}

TEST(Lifetime, OnlyWhatIsKeptTakesMemory) {
  auto chain = [](bool keep_all) {
    Graph g;
    Tensor x = g.tensor({256, 256}), w = g.tensor({256, 256});
    for (int i = 0; i < 12; i++) {
      x = x.matmul(w);
      if (keep_all) x.keep();
    }
    x.keep();
    g.compile();
    return g.memory();
  };
  constexpr int64_t one = 256 * 256 * 4;
  EXPECT_LE(chain(false).arena, 3 * one) << "two values take turns, one is kept";
  EXPECT_EQ(chain(false).kept, one);
  EXPECT_GE(chain(true).arena, 12 * one);
}

TEST(Lifetime, HandlesStayValidWhateverIsDoneToTheGraph) {
  Graph g;
  Tensor x = g.tensor({3}, DType::f32, "x"), y = (x + 0) * 1, z = y.exp().keep();
  x.set({0, 0, 0});
  g.execute();
  g.compile({.threads = 1});
  Tensor w = (z * 2).keep(); // on a handle from before two compilations
  g.execute();
  EXPECT_THAT(w.data<float>(), ElementsAre(2, 2, 2));
  EXPECT_THAT(z.data<float>(), ElementsAre(1, 1, 1));
  EXPECT_EQ(y.shape().size(), 1u);
}

} // namespace
} // namespace luminal
