// rules/discovery_test.cpp -- formulas of the Tensor API: after the rules have run there are terms that
// compute them in one pass, and these terms have the values of the formulas.
#include "luminal/luminal.h"
#include "round_trip.h"
#include "rules/cheapest.h"
#include "rules/saturate.h"
#include <gmock/gmock.h>

namespace luminal {
namespace {

using namespace testing_rules;

/// A formula, saturated.
class Discovery {
public:
  explicit Discovery(const std::function<void(Graph&)>& build) {
    Graph g;
    build(g);
    saturate(g.to_string());
  }
  explicit Discovery(const std::string& text) { saturate(text); }

  /// Passes over one axis that wait for each other, of the term with the fewest, for the first result.
  int passes() {
    int most = 0;
    for (const NodeId root : entered_.roots)
      most = std::max(most, rules::info_of(terms_, entered_.classes[root]).depth());
    return most;
  }
  /// Folds in the term with the fewest passes.
  std::vector<std::string> folds() {
    std::vector<std::string> out;
    for (const Node& n : shortest().entry().nodes)
      if (const auto* fold = std::get_if<FoldAttr>(&n.attr)) out.push_back(to_string(fold->monoid));
    return out;
  }
  /// Sums of that term that end where a condition of positions does.
  int sums_with_domains() {
    int count = 0;
    for (const Node& n : shortest().entry().nodes)
      if (const auto* fold = std::get_if<FoldAttr>(&n.attr))
        count += !fold->where.is_constant(1) && fold->monoid.components()[0].op == Op::add;
    return count;
  }
  bool has_scan() {
    return std::ranges::any_of(shortest().entry().nodes,
                               [](const Node& n) { return n.kind == NodeKind::scan; });
  }
  const rules::SaturateReport& report() const { return report_; }

  /// The term with the fewest passes, and among these with the fewest operations, written out.
  Module shortest() {
    // A term that needs more passes than its class has to costs more than any that does not.
    const rules::Choice choice = rules::cheapest_rows(terms_, [&](const egraph::RowView& row) {
      if (row.op != terms_.ops().fold && row.op != terms_.ops().scan) return 1.0;
      double worst = 0;
      for (const rules::Value v : terms_.items(row.args()[2])) {
        const rules::Info& body = rules::info_of(terms_, v);
        int deep = 0;
        if (row.op == terms_.ops().fold)
          terms_.sets[row.args()[1]].for_each(
              [&](rules::AxisId a) { deep = std::max(deep, body.passes_over(a)); });
        double points = 1;
        body.axes.for_each([&](rules::AxisId a) { points *= double(terms_.axes.extent(a).range().high); });
        worst += 1000.0 * deep * 1e6 + points;
      }
      return 10 + worst;
    });
    rules::FunctionWriter writer(module_.entry());
    writer.place(rules::emit(terms_, entered_, choice));
    Module out = module_;
    out.functions.back() = writer.finish();
    EXPECT_THAT(verify(out), testing::IsEmpty());
    return out;
  }

  /// The largest difference of a result, relative to the largest value of it; NaN only where the formula
  /// gives NaN.
  double difference() {
    Bindings bindings;
    for (const NodeId id : module_.entry().params) {
      const auto& input = std::get<InputAttr>(module_.entry()[id].attr);
      const bool labels = !is_float(input.type.dtype);
      testing_ir::RandomInput random{input.name, input.type, testing_ir::RandomInput::Style::uniform};
      bindings.inputs[input.name] = random.data({}, uint64_t(id.number() + 7));
      HostTensor& t = bindings.inputs[input.name];
      if (labels && input.type.dtype != DType::boolean)
        for (int64_t k = 0; k < t.count(); ++k) store_i64(t.dtype, t.data.data(), k, (k * 7 + 1) % 5);
    }
    const auto want = Interpreter(module_, bindings, InterpMode::f64).run();
    const Module found = shortest();
    const auto got = Interpreter(found, bindings, InterpMode::f64).run();
    double worst = 0;
    for (const auto& [name, w] : want) {
      const HostTensor& g = got.at(name);
      double scale = 1e-300, apart = 0;
      for (int64_t k = 0; k < w.count(); ++k) {
        if (std::isnan(w.at(k))) continue;
        scale = std::max(scale, std::isfinite(w.at(k)) ? std::abs(w.at(k)) : 0);
        const double d = w.at(k) == g.at(k) ? 0 : std::abs(w.at(k) - g.at(k));
        apart = std::isnan(d) ? INFINITY : std::max(apart, d);
      }
      worst = std::max(worst, apart / scale);
    }
    return worst;
  }

private:
  void saturate(const std::string& text) {
    module_ = parse_module(text);
    flat_.emplace(module_, module_.entry());
    rules::RegionNodes region;
    for (const FunctionResult& r : module_.entry().results) region.roots.push_back(r.value);
    entered_ = rules::enter(terms_, *flat_, region).value();
    report_ = rules::saturate(terms_);
    EXPECT_EQ(report_.stop, egraph::StopReason::none);
  }

  Module module_;
  std::optional<rules::FlatFunction> flat_;
  rules::RegionTerms terms_;
  rules::Entered entered_;
  rules::SaturateReport report_;
};

constexpr double close = 1e-12;

std::function<void(Graph&)> attention(bool causal, double scale = 0) {
  return [=](Graph& g) {
    const Tensor q = g.tensor({2, 6, 4}, DType::f32, "q"), k = g.tensor({2, 6, 4}, DType::f32, "k"),
                 v = g.tensor({2, 6, 4}, DType::f32, "v");
    AttentionOptions options;
    options.causal = causal;
    if (scale != 0) options.scale = scale;
    scaled_dot_product_attention(q, k, v, options).set_name("y").keep();
  };
}

TEST(Discovery, AttentionIsOnePassOverTheKeys) {
  for (const bool causal : {false, true}) {
    Discovery d(attention(causal));
    EXPECT_EQ(d.passes(), 1) << "the maximum, the sum and the product together";
    EXPECT_THAT(d.folds(), testing::Contains(testing::HasSubstr("self * exp(")));
    EXPECT_LT(d.difference(), close);
  }
}

TEST(Discovery, GroupedHeadsAndOtherScales) {
  Discovery d([](Graph& g) {
    const Tensor q = g.tensor({6, 5, 4}, DType::f32, "q"), k = g.tensor({2, 7, 4}, DType::f32, "k"),
                 v = g.tensor({2, 7, 4}, DType::f32, "v");
    scaled_dot_product_attention(q, k, v, {.scale = 0.3}).set_name("y").keep();
  });
  EXPECT_EQ(d.passes(), 1);
  EXPECT_LT(d.difference(), close);
}

TEST(Discovery, VarianceIsOnePass) {
  Discovery d([](Graph& g) { g.tensor({5, 6}, DType::f32, "x").var({1}, 0.0).set_name("y").keep(); });
  EXPECT_EQ(d.passes(), 1);
  EXPECT_THAT(d.folds(), testing::ElementsAre(testing::HasSubstr("(new1 - old1) * (new1 - old1) * old0")));
  EXPECT_LT(d.difference(), close);
}

TEST(Discovery, NormsOfRowsGoIntoTheProductBehindThem) {
  Discovery layer([](Graph& g) {
    const Tensor x = g.tensor({4, 6}, DType::f32, "x");
    layer_norm(x, g.weight("gain", {6}), g.weight("bias", {6}))
        .matmul(g.weight("w", {6, 5}))
        .set_name("y")
        .keep();
  });
  EXPECT_EQ(layer.passes(), 1);
  EXPECT_LT(layer.difference(), 1e-9);
  Discovery root([](Graph& g) {
    const Tensor x = g.tensor({4, 6}, DType::f32, "x");
    rms_norm(x, g.weight("gain", {6})).matmul(g.weight("w", {6, 5})).set_name("y").keep();
  });
  EXPECT_EQ(root.passes(), 1);
  EXPECT_LT(root.difference(), close);
}

TEST(Discovery, CrossEntropyNeedsNoLogits) {
  Discovery d([](Graph& g) {
    const Tensor x = g.tensor({4, 3}, DType::f32, "x"), w = g.weight("w", {3, 5}),
                 labels = g.tensor({4}, DType::i64, "labels");
    x.matmul(w).log_softmax(-1).gather(1, labels.unsqueeze(1)).set_name("loss").keep();
  });
  EXPECT_EQ(d.passes(), 1);
  EXPECT_LT(d.difference(), close);
}

TEST(Discovery, SoftmaxEntropyAndArgMaxAreOnePass) {
  Discovery d([](Graph& g) {
    const Tensor x = g.tensor({4, 6}, DType::f32, "x"), p = x.softmax(-1);
    (p * x.log_softmax(-1)).sum({1}).set_name("y").keep();
  });
  EXPECT_EQ(d.passes(), 1);
  EXPECT_LT(d.difference(), 1e-9);
}

// The weights of a causal softmax are 0 above the diagonal, so sums along either axis end there. Where a
// mask may hide a whole row, its weights are NaN, and no sum leaves them out.
TEST(Discovery, SumsOfMaskedWeightsEndAtTheMask) {
  const auto weights_by_columns = [](const std::string& mask) {
    return R"(fn @main(%q: f32[6, 4], %k: f32[6, 4], %g: f32[6, 3]) {
  %a = view %q [m: 6, n: 6, d: 4] -> [m, d]
  %b = view %k [m: 6, n: 6, d: 4] -> [n, d]
  %p = mul %a, %b
  %f = fold [m: 6, n: 6, d: 4] over [d] { sum %p[m, n, d] }
  %s = get %f, 0
  %c = iota bool [m: 6, n: 6] -> )" +
           mask + R"(
  %i = const f32 -inf
  %j = view %i [m: 6, n: 6] -> []
  %t = select %c, %s, %j
  %u = fold [m: 6, n: 6] over [n] { max %t[m, n] }
  %v = get %u, 0
  %w = view %v [m: 6, n: 6] -> [m]
  %d = sub %t, %w
  %e = exp %d
  %x = view %e [n: 6, c: 3, m: 6] -> [m, n]
  %y = view %g [n: 6, c: 3, m: 6] -> [m, c]
  %z = mul %x, %y
  %h = fold [n: 6, c: 3, m: 6] over [m] { sum %z[n, c, m] }
  %o = get %h, 0
  return o = %o
}
)";
  };
  for (const char* mask : {"n <= m", "m <= n", "n <= m and m - n < 2"}) {
    Discovery d(weights_by_columns(mask));
    EXPECT_EQ(d.sums_with_domains(), 1) << mask;
    EXPECT_LT(d.difference(), close) << mask;
  }
  for (const char* mask : {"n < m", "m < n", "n <= m - 2"}) {
    Discovery d(weights_by_columns(mask));
    EXPECT_EQ(d.sums_with_domains(), 0) << mask;
    EXPECT_LT(d.difference(), close) << mask;
  }
}

TEST(Discovery, LinearAttentionIsAPrefixSum) {
  Discovery d([](Graph& g) {
    const Tensor q = g.tensor({9, 2}, DType::f32, "q"), k = g.tensor({9, 2}, DType::f32, "k"),
                 v = g.tensor({9, 2}, DType::f32, "v");
    q.matmul(k.transpose(0, 1)).tril().matmul(v).set_name("y").keep();
  });
  EXPECT_TRUE(d.has_scan());
  EXPECT_LT(d.difference(), close);
}

} // namespace
} // namespace luminal
