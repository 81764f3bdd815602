// tests/nn/modules_test.cpp -- every module gives PyTorch's values from PyTorch's parameters.
#include "support.h"

namespace luminal::nn::test {
namespace {

TEST(Modules, Linear) {
  Case c("linear");
  c.expect({Linear(c.scope, 5, 3)(c.in(0))});
  Case plain("linear_plain");
  plain.expect({Linear(plain.scope, 5, 3, {.bias = false})(plain.in(0))});
  Case b("bilinear");
  b.expect({Bilinear(b.scope, 3, 4, 2)(b.in(0), b.in(1))});
}
TEST(Modules, Embedding) {
  Case c("embedding");
  c.expect({Embedding(c.scope, 7, 4, {.padding_index = 2})(c.in(0))}, 0);
}
TEST(Modules, SequentialAndActivations) {
  Case p("prelu");
  p.expect({PRelu(p.scope, 3)(p.in(0))});
  Case c("sequential");
  Sequential net(c.scope);
  net.add<Linear>(4, 6).add<Activation>("gelu").add<Linear>(6, 2).add(
      [](const Tensor& x) { return x.tanh(); });
  EXPECT_EQ(net.size(), 4u);
  c.expect({net(c.in(0))});
}
TEST(Modules, Convolutions) {
  Case a("conv1d");
  a.expect({Conv1d(a.scope, 4, 6, 3, {.stride = 2, .padding = 1, .groups = 2})(a.in(0))});
  Case b("conv2d");
  b.expect({Conv2d(b.scope, 3, 4, {3, 2},
                   {.stride = {1, 2}, .padding = {2, 1}, .dilation = {2, 1}, .bias = false})(b.in(0))});
  Case same("conv2d_same");
  same.expect({Conv2d(same.scope, 2, 3, 3, {.padding = "same"})(same.in(0))});
  Case d("conv3d");
  d.expect({Conv3d(d.scope, 2, 3, 2)(d.in(0))});
}
TEST(Modules, TransposedConvolutions) {
  Case a("conv_transpose1d");
  a.expect({ConvTranspose1d(a.scope, 3, 4, 3, {.stride = 2, .padding = 1, .output_padding = 1})(a.in(0))});
  Case b("conv_transpose2d");
  b.expect({ConvTranspose2d(b.scope, 4, 6, 3, {.stride = 2, .dilation = 2, .groups = 2})(b.in(0))});
  Case c("conv_transpose3d");
  c.expect({ConvTranspose3d(c.scope, 2, 3, 2)(c.in(0))});
}
TEST(Modules, Pools) {
  Case c("pools");
  const Tensor x = c.in(0);
  c.expect({MaxPool2d{3, {.stride = 2, .padding = 1}}(x), AvgPool2d{2, {.ceil_mode = true}, false}(x),
            AdaptiveAvgPool2d{{2, 3}}(x), AdaptiveMaxPool2d{2}(x), Upsample{2, Interpolation::linear}(x),
            Flatten{}(x)});
}
TEST(Modules, Norms) {
  Case e("batch_norm_eval");
  e.expect({BatchNorm(e.scope, 3)(e.in(0))});
  Case l("layer_norm");
  l.expect({LayerNorm(l.scope, {3, 4})(l.in(0))});
  Case p("layer_norm_plain");
  p.expect({LayerNorm(p.scope, 4, {.affine = false})(p.in(0))});
  Case r("rms_norm");
  r.expect({RmsNorm(r.scope, 6, 1e-6)(r.in(0))});
  Case g("group_norm");
  g.expect({GroupNorm(g.scope, 2, 4)(g.in(0))});
  Case i("instance_norm");
  i.expect({InstanceNorm(i.scope, 3, {})(i.in(0))});
}
TEST(Modules, BatchStatisticsMoveTheRunningOnes) {
  for (const auto& [name, momentum] : {std::pair<const char*, std::optional<double>>{"batch_norm_train", 0.3},
                                       {"batch_norm_mean", std::nullopt}}) {
    // The parameters of the file are those before the step, but its buffers too.
    Case c(name, true);
    BatchNorm norm(c.scope, 3, {.momentum = momentum});
    c.expect({norm(c.in(0))});
    for (const auto& [buffer, value] : norm.buffers()) {
      const std::string after = fmt::format("{}/after.{}", name, buffer);
      if (buffer == "num_batches_tracked") {
        EXPECT_EQ(value.data<int64_t>(), std::vector<int64_t>{1});
        continue;
      }
      expect_near(value.data<float>(), golden_values(after), 2e-6, after);
    }
  }
}
TEST(Modules, Recurrent) {
  Case a("rnn");
  auto r = Rnn(a.scope, 3, 4)(a.in(0));
  a.expect({r.output, r.state.h});
  Case b("rnn_relu");
  r = ReluRnn(b.scope, 3, 4, {.bias = false})(b.in(0));
  b.expect({r.output, r.state.h});
  Case l("lstm");
  r = Lstm(l.scope, 3, 4, {.layers = 2, .batch_first = true, .bidirectional = true})(l.in(0));
  l.expect({r.output, r.state.h, r.state.c});
  Case g("gru");
  r = Gru(g.scope, 3, 4, {.layers = 2, .bidirectional = true})(g.in(0));
  g.expect({r.output, r.state.h});
  Case lc("lstm_cell");
  RecurrentState s = RecurrentCell(lc.scope, RecurrentKind::lstm, 3, 4)(lc.in(0), {lc.in(1), lc.in(2)});
  lc.expect({s.h, s.c});
  Case gc("gru_cell");
  gc.expect({RecurrentCell(gc.scope, RecurrentKind::gru, 3, 4)(gc.in(0), {gc.in(1)}).h});
}
TEST(Modules, Rotary) {
  Case h("rotary");
  h.expect({rotary(h.in(0), h.graph.arange(5))});
  Case i("rotary_part");
  i.expect({rotary(i.in(0), i.graph.arange(5), {.rotated = 4, .interleaved = true})});
}
TEST(Modules, MultiheadAttention) {
  Case c("multihead");
  c.expect({MultiheadAttention(c.scope, 8, 2)(c.in(0), c.in(1), c.in(2), {.causal = true})});
  Case p("multihead_padding");
  p.expect({MultiheadAttention(p.scope, 8, 4)(p.in(0), {.padding = p.in(3)})});
  Case x("multihead_cross");
  x.expect({MultiheadAttention(x.scope, 8, 2, {.key_width = 6, .value_width = 4, .batch_first = false})(
      x.in(0), x.in(1), x.in(2))});
}
const GroupedOptions grouped{
    .kv_heads = 2, .head_size = 4, .qkv_bias = true, .rotary = RotaryOptions{}, .qk_norm_eps = 1e-6};
TEST(Modules, GroupedAttention) {
  Case c("grouped");
  c.expect({GroupedAttention(c.scope, 12, 4, grouped)(c.in(0))});
  Case w("grouped_window");
  GroupedOptions windowed = grouped;
  windowed.window = 3;
  w.expect({GroupedAttention(w.scope, 12, 4, windowed)(w.in(0))});
}
TEST(Modules, ACacheGivesWhatTheWholeTextGives) {
  Graph g;
  Scope root(g);
  const Scope scope = root / "grouped_window";
  GroupedOptions windowed = grouped;
  windowed.window = 3;
  GroupedAttention attention(scope, 12, 4, windowed);
  root.load(golden_path(), {.strict = false});
  Dim n = g.dim("n", 1, 4), past = g.dim("past", 0, 5);
  Tensor x = g.tensor({n, 12});
  KvCache cache(g, "cache", 2, 6, 4, 4);
  Tensor y = attention(x, cache, past).keep();
  const std::vector<float> all = golden_values("grouped_window/in0"),
                           want = golden_values("grouped_window/out0");
  std::vector<float> got;
  for (const auto& [first, count] : {std::pair{0, 4}, {4, 1}, {5, 1}}) {
    g.set_dim("past", first);
    x.set_dyn(std::span(all).subspan(size_t(first) * 12, size_t(count) * 12), {count, 12});
    g.execute();
    const auto rows = y.data<float>();
    got.insert(got.end(), rows.begin(), rows.end());
  }
  expect_near(got, want, 2e-6, "cached");
}
TEST(Modules, Transformers) {
  TransformerOptions small{.inner = 12};
  Case e("encoder_layer");
  small.activation = "gelu";
  e.expect({TransformerEncoderLayer(e.scope, 8, 2, small)(e.in(0))}, 5e-6);
  small.activation = "relu";
  Case d("decoder_layer");
  d.expect({TransformerDecoderLayer(d.scope, 8, 2, small)(d.in(0), d.in(1))}, 5e-6);
  Case t("transformer");
  t.expect({Transformer(t.scope, 8, 2, 1, 1, small)(t.in(0), t.in(1))}, 5e-6);
  small.norm_first = small.final_norm = true;
  Case f("encoder_first");
  f.expect({TransformerEncoder(f.scope, 2, 8, 2, small)(f.in(0))}, 5e-6);
}
TEST(Modules, MixtureOfExperts) {
  Case c("experts");
  c.expect({MixtureOfExperts(c.scope, 6, 8, 5)(c.in(0))});
}

} // namespace
} // namespace luminal::nn::test
