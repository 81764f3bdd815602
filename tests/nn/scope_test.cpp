// tests/nn/scope_test.cpp -- names, modes, state dictionaries, quantisation, first values.
#include "luminal/luminal.h"
#include "support.h"
#include <array>
#include <filesystem>
#include <gmock/gmock.h>
#include <numeric>

namespace luminal::nn::test {
namespace {

template <class F> std::string error_of(F&& f) {
  try {
    f();
  } catch (const Error& error) {
    const std::string text = error.what();
    return text.substr(0, text.rfind(" at "));
  }
  return "no error";
}

struct Net : Module {
  Linear hidden, out;
  BatchNorm norm;
  Dropout drop;
  explicit Net(const Scope& s)
      : Module(s), hidden(s / "hidden", 8, 16), out(s / "out", 16, 4), norm(s / "norm", 16), drop(s, 0.5) {}
  Tensor operator()(const Tensor& x) const { return out(drop(norm(hidden(x).relu()))); }
};

std::vector<std::string> names_of(const StateDict& dict) {
  std::vector<std::string> names;
  for (const auto& [name, _] : dict) names.push_back(name);
  return names;
}

TEST(Scope, NamesAreHierarchicalAndInAlphabeticalOrder) {
  Graph g;
  Scope root(g);
  Net net(root / "net");
  EXPECT_THAT(names_of(net.state_dict()),
              ::testing::ElementsAre("hidden.bias", "hidden.weight", "norm.bias", "norm.num_batches_tracked",
                                     "norm.running_mean", "norm.running_var", "norm.weight", "out.bias",
                                     "out.weight"));
  EXPECT_EQ(net.parameters().size(), 6u);
  EXPECT_EQ(names_of(root.parameters())[0], "net.hidden.bias");
  EXPECT_EQ(net.hidden.scope().prefix(), "net.hidden");
  EXPECT_EQ((root / "ne").parameters().size(), 0u); // a prefix of letters is none of names
}

TEST(Scope, StateDictGoesToAFileAndBack) {
  const std::string path = ::testing::TempDir() + "nn_state.safetensors";
  for (bool trained : {false, true}) {
    Graph a, b;
    Net first(Scope(a, {.trained = trained, .seed = 1})), second(Scope(b, {.trained = trained, .seed = 2}));
    first.eval();
    second.eval();
    Tensor x = a.tensor({3, 8}), y = b.tensor({3, 8});
    Tensor p = first(x).keep(), q = second(y).keep();
    std::vector<float> values(24);
    std::iota(values.begin(), values.end(), -7.0f);
    x.set(values);
    y.set(values);
    a.execute();
    b.execute();
    EXPECT_NE(p.data<float>(), q.data<float>());
    first.save(path);
    const LoadReport report = second.load(path);
    EXPECT_TRUE(report.complete());
    EXPECT_EQ(report.loaded.size(), 9u);
    b.execute();
    EXPECT_EQ(p.data<float>(), q.data<float>());
  }
  std::filesystem::remove(path);
}

TEST(Scope, DropoutAndBatchStatisticsFollowTheMode) {
  Graph g;
  Net net(Scope(g, {.trained = true, .seed = 3}));
  Tensor x = g.tensor({64, 8});
  std::vector<float> values(512);
  for (size_t i = 0; i < values.size(); i++) values[i] = std::sin(float(i));
  x.set(values);
  Tensor dropped = net.drop(x * 0 + 1).keep(), again = net.drop(x * 0 + 1).keep(), trained = net(x).keep();
  net.eval();
  Tensor same = net.drop(x).keep(), calm = net(x).keep();
  g.execute();
  const auto ones = dropped.data<float>();
  const auto kept = std::count(ones.begin(), ones.end(), 2.0f);
  EXPECT_EQ(kept + std::count(ones.begin(), ones.end(), 0.0f), 512);
  EXPECT_NEAR(double(kept), 256, 60); // 5 standard deviations
  EXPECT_NE(ones, again.data<float>()) << "each call has a key of its own";
  EXPECT_EQ(same.data<float>(), values);
  EXPECT_NE(trained.data<float>(), calm.data<float>());
  g.execute();
  EXPECT_NE(ones, dropped.data<float>()) << "and another one in each step";
}

TEST(Scope, AParameterAskedForTwiceIsShared) {
  Graph g;
  Scope root(g);
  Embedding table(root / "table", 6, 4);
  Embedding same(root / "table", 6, 4);
  EXPECT_EQ(Tensor(table.weight()).id(), Tensor(same.weight()).id());
  EXPECT_EQ(error_of([&] { Embedding(root / "table", 6, 5); }),
            "[parameter] table.weight is [6, 4] already, [6, 5] is asked for");
  BatchNorm(root / "norm", 3);
  EXPECT_EQ(error_of([&] { (root / "norm").buffer("running_mean", {4}, 0); }),
            "[buffer] norm.running_mean is [3] already, [4] is asked for");
  // The head of a model with tied embeddings: rows of the table.
  Tensor ids = g.tensor({2}, DType::i64), logits = table.logits(table(ids)).keep();
  ids.set({1, 3});
  g.execute();
  const auto rows = Tensor(table.weight()).data<float>(), got = logits.data<float>();
  for (size_t i = 0; i < 2; i++)
    for (size_t j = 0; j < 6; j++) {
      double want = 0;
      for (size_t k = 0; k < 4; k++) want += double(rows[(i ? 3 : 1) * 4 + k]) * double(rows[j * 4 + k]);
      EXPECT_NEAR(double(got[i * 6 + j]), want, 1e-5);
    }
}

TEST(Scope, TransposedStorageGivesTheSameValues) {
  Graph g;
  Scope root(g);
  Linear plain(root / "a", 3, 2), turned(root / "b", 3, 2, {.transposed = true});
  Embedding rows(root / "c", 5, 3), columns(root / "d", 5, 3, {.transposed = true});
  Tensor x = g.tensor({4, 3}), ids = g.tensor({4}, DType::i64);
  Tensor a = plain(x).keep(), b = turned(x).keep(), c = rows(ids).keep(), d = columns(ids).keep(),
         e = rows.logits(x).keep(), f = columns.logits(x).keep();
  const auto set = [&](const Parameter& p, std::vector<float> values) { Tensor(p).set(values); };
  set(plain.weight(), {1, 2, 3, 4, 5, 6});
  set(turned.weight(), {1, 4, 2, 5, 3, 6});
  for (const Scope& s : {root / "a", root / "b"}) s.parameters().at("bias").set({1, -1});
  std::vector<float> table(15), flipped(15);
  for (size_t i = 0; i < 5; i++)
    for (size_t j = 0; j < 3; j++) table[i * 3 + j] = flipped[j * 5 + i] = float(i * 10 + j);
  set(rows.weight(), table);
  set(columns.weight(), flipped);
  x.set({{1, 0, 0}, {0, 1, 0}, {0, 0, 1}, {1, 1, 1}});
  ids.set({4, 0, 2, 2});
  g.execute();
  EXPECT_EQ(a.data<float>(), (std::vector<float>{2, 3, 3, 4, 4, 5, 7, 14}));
  EXPECT_EQ(a.data<float>(), b.data<float>());
  EXPECT_EQ(c.data<float>(), d.data<float>());
  EXPECT_EQ(c.data<float>()[0], 40);
  EXPECT_EQ(e.data<float>(), f.data<float>());
}

TEST(Scope, QuantisedModulesComputeWithTheCodes) {
  const std::string path = ::testing::TempDir() + "nn_codes.safetensors";
  for (const WeightFormat format :
       {WeightFormat{8, true, 32}, WeightFormat{8, false, 0}, WeightFormat{4, false, 32}}) {
    Graph g;
    Scope root(g, {.seed = 5});
    Sequential net(root);
    net.add<Conv2d>(4, 8, 3, ConvModuleOptions{.padding = 1}).add<Flatten>(1, -1).add<Linear>(8 * 4 * 4, 32);
    Tensor x = g.tensor({2, 4, 4, 4});
    Tensor full = net(x).keep();
    net.quantize(format);
    Tensor small = net(x).keep();
    std::vector<float> values(128);
    for (size_t i = 0; i < values.size(); i++) values[i] = std::cos(float(i) * 0.3f);
    x.set(values);
    // The values before are gone: only the codes are there.
    EXPECT_THAT(names_of(net.parameters()), ::testing::Contains("2.weight.codes"));
    EXPECT_EQ(names_of(net.parameters()).size(), format.symmetric ? 6u : 8u);
    full.drop();
    g.execute();
    net.save(path);

    Graph h; // the same codes, and their exact values
    Scope again(h, {.seed = 6});
    Sequential other(again);
    other.add<Conv2d>(4, 8, 3, ConvModuleOptions{.padding = 1})
        .add<Flatten>(1, -1)
        .add<Linear>(8 * 4 * 4, 32);
    other.quantize(format);
    Tensor y = h.tensor({2, 4, 4, 4});
    Tensor loaded = other(y).keep();
    y.set(values);
    EXPECT_TRUE(other.load(path).complete());
    h.execute();
    EXPECT_EQ(loaded.data<float>(), small.data<float>());

    Graph f; // near the values that were quantised
    Scope plain(f, {.seed = 5});
    Sequential exact(plain);
    exact.add<Conv2d>(4, 8, 3, ConvModuleOptions{.padding = 1})
        .add<Flatten>(1, -1)
        .add<Linear>(8 * 4 * 4, 32);
    Tensor z = f.tensor({2, 4, 4, 4});
    Tensor want = exact(z).keep();
    z.set(values);
    f.execute();
    double error = 0, size = 0;
    const auto got = small.data<float>(), reference = want.data<float>();
    for (size_t i = 0; i < got.size(); i++)
      error += std::pow(double(got[i]) - double(reference[i]), 2), size += std::pow(double(reference[i]), 2);
    EXPECT_GT(error, 0);
    EXPECT_LT(std::sqrt(error / size), format.bits == 8 ? 0.01 : 0.12);
  }
  std::filesystem::remove(path);
  Graph g;
  Scope trained(g, {.trained = true});
  EXPECT_EQ(error_of([&] { trained.quantize(); }),
            "[quantize] parameters that are trained stay floating-point numbers");
}

TEST(Chain, TuplesArraysAndVectorsAreModules) {
  Graph g;
  Scope root(g);
  Tensor x = g.tensor({2, 3});
  const std::tuple pair(Identity{}, Linear(root / "a", 3, 4), Activation("relu"));
  EXPECT_EQ(chain(pair, x).extents(), (std::vector<int64_t>{2, 4}));
  EXPECT_EQ(chain(std::tuple<>(), x).id(), x.id());
  std::vector<Linear> list;
  for (int i = 0; i < 3; i++) list.emplace_back(root / "list" / i, 3 + i, 4 + i);
  EXPECT_EQ(chain(list, x).extents(), (std::vector<int64_t>{2, 6}));
  EXPECT_EQ(chain(std::array{Activation("tanh"), Activation("gelu")}, x).extents(), x.extents());
}

TEST(Modules, MistakesNameTheModuleAndTheSizes) {
  Graph g;
  Scope s(g);
  EXPECT_EQ(error_of([&] { Linear(s / "l", 0, 3); }), "[Linear] in = 0: at least 1 is expected");
  EXPECT_EQ(error_of([&] { Embedding(s / "e", 4, 3, {.padding_index = 4}); }),
            "[Embedding] padding index 4 of 4 rows");
  EXPECT_EQ(error_of([&] { Conv2d(s / "c", 4, 6, 3, {.groups = 4}); }),
            "[Conv] 4 and 6 channels do not fall into 4 groups");
  EXPECT_EQ(error_of([&] { Conv2d(s / "k", 4, 6, {3, 3, 3}); }), "[Conv] 3 sizes of the kernel for 2 axes");
  EXPECT_EQ(error_of([&] { Conv2d(s / "c2", 1, 1, 3)(g.tensor({1, 2})); }),
            "[Conv] x must be [batch, channels] and 2 sizes, it is [1, 2]");
  EXPECT_EQ(error_of([&] { MultiheadAttention(s / "m", 8, 3); }),
            "[MultiheadAttention] width 8 is not a multiple of 3 heads");
  EXPECT_EQ(error_of([&] { GroupedAttention(s / "g", 8, 4, {.kv_heads = 3}); }),
            "[GroupedAttention] 4 heads are not a multiple of 3 heads of keys and values");
  EXPECT_EQ(error_of([&] { MixtureOfExperts(s / "x", 8, 4, 2, {.used = 3}); }),
            "[MixtureOfExperts] 3 of 2 experts cannot be used");
  EXPECT_EQ(error_of([&] { Lstm(s / "r", 3, 4)(g.tensor({5, 2, 4})); }),
            "[Recurrent] x must have 3 axes, the last of 3; it is [5, 2, 4]");
  EXPECT_EQ(error_of([&] { rotary(g.tensor({5, 4}), g.arange(5), {.rotated = 3}); }),
            "[rotary] 3 of 4 elements cannot turn in pairs");
  EXPECT_EQ(error_of([&] { rotary(g.tensor({5, 4}), g.arange(5), {.frequencies = {1}}); }),
            "[rotary] 1 frequencies for 2 pairs");
  EXPECT_EQ(error_of([&] { Dropout(s, 1.5)(g.tensor({2})); }),
            "[Dropout] p = 1.5: a probability is expected");
  EXPECT_EQ(error_of([&] { LayerNorm(s / "n", 4, {.affine = false})(g.tensor({2, 3})); }),
            "[LayerNorm] x is [2, 3], its last axes must be [4]");
  EXPECT_THAT(error_of([&] { Activation("rleu"); }),
              ::testing::StartsWith("[Activation] rleu: expected one of abs, acos, "));
}

TEST(Init, MomentsAndBounds) {
  const std::vector<int64_t> shape{200, 300};
  const auto moments = [](const std::vector<float>& v) {
    double sum = 0, square = 0;
    for (float x : v) sum += double(x), square += double(x) * double(x);
    const double mean = sum / double(v.size());
    return std::pair(mean, std::sqrt(square / double(v.size()) - mean * mean));
  };
  const auto check = [&](const Init& init, double mean, double deviation, double bound) {
    const auto values = init(shape, 11);
    ASSERT_EQ(values.size(), 60000u);
    const auto [m, d] = moments(values);
    EXPECT_NEAR(m, mean, 5 * deviation / std::sqrt(60000.0));
    EXPECT_NEAR(d, deviation, 0.02 * deviation);
    for (float v : values) EXPECT_LE(std::abs(double(v) - mean), bound * (1 + 1e-6));
    EXPECT_EQ(values, init(shape, 11)) << "a pure function of the seed";
    EXPECT_NE(values, init(shape, 12));
  };
  check(init::uniform(-1, 3), 1, 4 / std::sqrt(12.0), 2);
  check(init::normal(2, 0.5), 2, 0.5, 0.5 * 8.6);
  check(init::truncated_normal(0, 1, -2, 2), 0, 0.8796, 2);
  check(init::xavier_uniform(2), 0, 2 * std::sqrt(2 / 500.0), 2 * std::sqrt(6 / 500.0));
  check(init::xavier_normal(), 0, std::sqrt(2 / 500.0), 1);
  check(init::kaiming_uniform(), 0, std::sqrt(2 / 300.0), std::sqrt(6 / 300.0));
  check(init::kaiming_normal(0, Fan::out), 0, std::sqrt(2 / 200.0), 1);
  EXPECT_DOUBLE_EQ(init::gain("tanh"), 5.0 / 3);
  EXPECT_EQ(
      error_of([] { init::gain("gelu"); }),
      "[gain] no gain is known of \"gelu\"; expected linear, conv, sigmoid, tanh, relu, leaky_relu or selu");
  EXPECT_EQ(error_of([] { init::xavier_normal()({4}, 1); }),
            "[xavier_normal] a weight of 1 axes has no fan, two are the least");
}

TEST(Init, OrthogonalRowsOrColumns) {
  for (const auto& [rows, columns] : {std::pair<int64_t, int64_t>{5, 9}, {9, 5}, {6, 6}}) {
    const auto a = init::orthogonal(2)({rows, columns}, 3);
    const bool wide = rows <= columns;
    const int64_t few = std::min(rows, columns), many = std::max(rows, columns);
    for (int64_t i = 0; i < few; i++)
      for (int64_t j = 0; j < few; j++) {
        double dot = 0;
        for (int64_t k = 0; k < many; k++)
          dot += double(a[size_t(wide ? i * columns + k : k * columns + i)]) *
                 double(a[size_t(wide ? j * columns + k : k * columns + j)]);
        EXPECT_NEAR(dot, i == j ? 4 : 0, 1e-5);
      }
  }
}

TEST(Init, ValuesDependOnTheNameNotOnTheOrder) {
  Graph g, h;
  Scope a(g, {.seed = 9}), b(h, {.seed = 9});
  Linear(a / "x", 3, 4), Linear(a / "y", 3, 4);
  Linear(b / "y", 3, 4), Linear(b / "x", 3, 4);
  EXPECT_EQ(a.parameters().at("x.weight").data<float>(), b.parameters().at("x.weight").data<float>());
  EXPECT_NE(a.parameters().at("x.weight").data<float>(), a.parameters().at("y.weight").data<float>());
}

} // namespace
} // namespace luminal::nn::test
