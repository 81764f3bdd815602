// bench/operations/products.cpp -- products with what programs put around them: adapters, gates,
// attention, embeddings, transforms.
#include "operations/works.h"

namespace luminal::bench {
namespace {

/// Halves of the last axis turned by angles (cosines and sines of half its size).
Tensor rotated(const Tensor& x, const Tensor& cosine, const Tensor& sine) {
  const auto half = x.chunk(2, -1);
  return concat({half[0] * cosine - half[1] * sine, half[0] * sine + half[1] * cosine}, -1);
}

/// [.., n, 2] pairs multiplied as complex numbers.
Tensor complex_product(const Tensor& x, const Tensor& y) {
  const auto a = x.unbind(-1), b = y.unbind(-1);
  return stack({a[0] * b[0] - a[1] * b[1], a[0] * b[1] + a[1] * b[0]}, -1);
}

} // namespace

const std::vector<Workload>& combined_products() {
  static const Input rows = floats({128, 256}), square = weights({256, 256}), heads = floats({4, 128, 64});
  static const std::vector<Workload> list{
      {"linear + low rank (LoRA)",
       {rows, square, weights({8, 256}), weights({256, 8})},
       [](In x) { return linear(x[0], x[1]) + linear(linear(x[0], x[2]), x[3]) * 2; },
       "F.linear(a, b) + F.linear(F.linear(a, c), d) * 2"},
      {"linear + linear of another depth",
       {floats({256, 256}), floats({256, 64}), weights({256, 256}), weights({256, 64})},
       [](In x) { return linear(x[0], x[2]) + linear(x[1], x[3]); },
       "F.linear(a, c) + F.linear(b, d)"},
      {"x + linear + linear of another depth",
       {rows, floats({128, 100}), square, weights({256, 100})},
       [](In x) { return x[0] + linear(x[0], x[2]) + linear(x[1], x[3]); },
       "a + F.linear(a, c) + F.linear(b, d)"},
      {"GEGLU",
       {rows, weights({512, 256}), weights({512})},
       [](In x) {
         const auto h = linear(x[0], x[1], x[2]).chunk(2, -1);
         return h[0] * h[1].gelu();
       },
       "(h := F.linear(a, b, c).chunk(2, -1), h[0] * F.gelu(h[1]))[1]"},
      {"SwiGLU, down, + x",
       {rows, weights({512, 256}), weights({512, 256}), weights({256, 512})},
       [](In x) { return linear(linear(x[0], x[1]).silu() * linear(x[0], x[2]), x[3]) + x[0]; },
       "F.linear(F.silu(F.linear(a, b)) * F.linear(a, c), d) + a"},
      {"layer norm, linear, gelu, linear, + x",
       {rows, weights({256}), weights({256}), weights({512, 256}), weights({512}), weights({256, 512}),
        weights({256})},
       [](In x) {
         return linear(linear(layer_norm(x[0], x[1], x[2]), x[3], x[4]).gelu(), x[5], x[6]) + x[0];
       },
       "F.linear(F.gelu(F.linear(F.layer_norm(a, (256,), b, c), d, e)), f, g) + a"},
      {"rms norm, linear, rope",
       {rows, weights({256}), square, floats({128, 1, 32}), floats({128, 1, 32})},
       [](In x) { return rotated(linear(rms_norm(x[0], x[1]), x[2]).reshape({128, 4, 64}), x[3], x[4]); },
       "(h := F.linear(F.rms_norm(a, (256,), b, 1e-5), c).reshape(128, 4, 64).chunk(2, -1), torch.cat([h[0] "
       "* d - h[1] "
       "* e, h[0] * e + h[1] * d], -1))[1]"},
      {"embedding + position, layer norm",
       {weights({8000, 256}), ids({512}, 8000), weights({512, 256}), weights({256}), weights({256})},
       [](In x) { return layer_norm(embedding(x[0], x[1]) + x[2], x[3], x[4]); },
       "F.layer_norm(F.embedding(b, a) + c, (256,), d, e)"},
      {"embedding, linear, relu",
       {weights({8000, 256}), ids({256}, 8000), weights({256, 256})},
       [](In x) { return linear(embedding(x[0], x[1]), x[2]).relu(); },
       "F.relu(F.linear(F.embedding(b, a), c))"},
      {"linear, softmax",
       {rows, square},
       [](In x) { return linear(x[0], x[1]).softmax(); },
       "F.linear(a, b).softmax(-1)"},
      {"linear, layer norm, relu",
       {rows, square, weights({256}), weights({256})},
       [](In x) { return layer_norm(linear(x[0], x[1]), x[2], x[3]).relu(); },
       "F.relu(F.layer_norm(F.linear(a, b), (256,), c, d))"},
      {"linear, transpose, + x",
       {rows, square, floats({256, 128})},
       [](In x) { return linear(x[0], x[1]).t() + x[2]; },
       "F.linear(a, b).t() + c"},
      {"concat, linear, tanh",
       {floats({256, 100}), floats({256, 156}), weights({256, 256})},
       [](In x) { return linear(concat({x[0], x[1]}, 1), x[2]).tanh(); },
       "torch.tanh(F.linear(torch.cat([a, b], 1), c))"},
      {"linear, log softmax, gather (cross entropy)",
       {rows, weights({2000, 256}), ids({128, 1}, 2000)},
       [](In x) { return -linear(x[0], x[1]).log_softmax().gather(1, x[2]).mean(); },
       "-F.linear(a, b).log_softmax(-1).gather(1, c).mean()"},
      {"three products",
       {rows, square, square, square},
       [](In x) { return x[0].matmul(x[1]).matmul(x[2]).matmul(x[3]); },
       "a @ b @ c @ d"},
      {"bilinear form",
       {floats({64, 64}), weights({64, 64, 64}), floats({64, 64})},
       [](In x) { return einsum("bi,ijk,bj->bk", {x[0], x[1], x[2]}); },
       "torch.einsum('bi,ijk,bj->bk', a, b, c)"},
      {"normalised rows, product, softmax (contrastive)",
       {floats({256, 128}), floats({256, 128})},
       [](In x) { return (x[0].normalize(2, -1).matmul(x[1].normalize(2, -1).t()) * 20).softmax(); },
       "((F.normalize(a, dim=-1) @ F.normalize(b, dim=-1).t()) * 20).softmax(-1)"},
      {"distances, argmin (k-means)",
       {floats({1024, 64}), floats({64, 64})},
       [](In x) { return (x[1].square().sum(-1) - 2 * x[0].matmul(x[1].t())).argmin(-1); },
       "(b.square().sum(-1) - 2 * a @ b.t()).argmin(-1)",
       {},
       1e-3},
      {"expert of each row (MoE)",
       {floats({64, 128}), weights({8, 128, 128}), weights({8, 128})},
       [](In x) { return einsum("bi,bij->bj", {x[0], x[1].gather(linear(x[0], x[2]).argmax(1))}); },
       "torch.einsum('bi,bij->bj', a, b[F.linear(a, c).argmax(1)])"},
      {"attention with a relative bias (Swin)",
       {floats({64, 3, 49, 32}), floats({64, 3, 49, 32}), floats({64, 3, 49, 32}), weights({169, 3}),
        ids({49, 49}, 169)},
       [](In x) {
         const Tensor bias = x[3].gather(x[4]).permute({2, 0, 1});
         return scaled_dot_product_attention(x[0], x[1], x[2], {.mask = bias});
       },
       "F.scaled_dot_product_attention(a, b, c, attn_mask=d[e].permute(2, 0, 1).unsqueeze(0).contiguous())"},
      {"roll, window partition, linear (Swin)",
       {floats({1, 56, 56, 96}), weights({96, 96})},
       [](In x) {
         const Tensor windows = x[0].roll({3, 3}, {1, 2}).reshape({8, 7, 8, 7, 96}).permute({0, 2, 1, 3, 4});
         return linear(windows.reshape({64, 49, 96}), x[1]);
       },
       "F.linear(a.roll((3, 3), (1, 2)).reshape(8, 7, 8, 7, 96).permute(0, 2, 1, 3, 4).reshape(64, 49, 96), "
       "b)"},
      {"rope, causal attention",
       {heads, heads, heads, floats({128, 32}), floats({128, 32})},
       [](In x) {
         return scaled_dot_product_attention(rotated(x[0], x[3], x[4]), rotated(x[1], x[3], x[4]), x[2],
                                             {.causal = true});
       },
       "F.scaled_dot_product_attention(r(a, d, e), r(b, d, e), c, is_causal=True)",
       "r = lambda x, c, s: (lambda p, q: torch.cat([p * c - q * s, p * s + q * c], -1))(*x.chunk(2, -1))"},
      {"attention written out with a mask",
       {heads, heads, heads, floats({128, 128})},
       [](In x) { return ((x[0].matmul(x[1].transpose()) * 0.125 + x[3]).softmax()).matmul(x[2]); },
       "(a @ b.transpose(-1, -2) * 0.125 + d).softmax(-1) @ c"},
      {"qkv linear, attention, linear, + x",
       {rows, weights({768, 256}), weights({768}), square, weights({256})},
       [](In x) {
         const auto qkv = linear(x[0], x[1], x[2]).reshape({128, 3, 4, 64}).permute({1, 2, 0, 3}).unbind(0);
         const Tensor y = scaled_dot_product_attention(qkv[0], qkv[1], qkv[2]).permute({1, 0, 2});
         return linear(y.reshape({128, 256}), x[3], x[4]) + x[0];
       },
       "(h := F.linear(a, b, c).reshape(128, 3, 4, 64).permute(1, 2, 0, 3), "
       "F.linear(F.scaled_dot_product_attention("
       "h[0:1], h[1:2], h[2:3])[0].permute(1, 0, 2).reshape(128, 256), d, e) + a)[1]"},
      {"cell with four gates (LSTM)",
       {floats({32, 256}), floats({32, 256}), floats({32, 256}), weights({1024, 256}), weights({1024, 256}),
        weights({1024})},
       [](In x) {
         const auto q = (linear(x[0], x[3], x[5]) + linear(x[1], x[4])).chunk(4, -1);
         return q[3].sigmoid() * (q[1].sigmoid() * x[2] + q[0].sigmoid() * q[2].tanh()).tanh();
       },
       "(q := (F.linear(a, d, f) + F.linear(b, e)).chunk(4, -1), q[3].sigmoid() * (q[1].sigmoid() * c + "
       "q[0].sigmoid() "
       "* q[2].tanh()).tanh())[1]"},
      {"cell of another depth (GRU)",
       {floats({32, 64}), floats({32, 256}), weights({768, 64}), weights({768, 256})},
       [](In x) {
         const auto p = linear(x[0], x[2]).chunk(3, -1), q = linear(x[1], x[3]).chunk(3, -1);
         const Tensor z = (p[1] + q[1]).sigmoid(), n = (p[2] + (p[0] + q[0]).sigmoid() * q[2]).tanh();
         return (1 - z) * n + z * x[1];
       },
       "(p := F.linear(a, c).chunk(3, -1), q := F.linear(b, d).chunk(3, -1), z := (p[1] + q[1]).sigmoid(), "
       "(1 - z) * "
       "(p[2] + (p[0] + q[0]).sigmoid() * q[2]).tanh() + z * b)[3]"},
      {"fft, product, ifft",
       {floats({64, 1024, 2}), floats({1024, 2})},
       [](In x) { return ifft(complex_product(fft(x[0]), x[1])); },
       "torch.fft.ifft(torch.fft.fft(z) * y)",
       "z = torch.view_as_complex(a); y = torch.view_as_complex(b)"},
      {"window, rfft, power, product, log (mel)",
       {floats({300, 400}), floats({400}, 0, 1), weights({80, 201}, 0, 0.1)},
       [](In x) { return (linear(rfft(x[0] * x[1]).square().sum(-1), x[2]) + 1e-6).log(); },
       "(F.linear(torch.fft.rfft(a * b).abs().square(), c) + 1e-6).log()"},
      {"bf16 linear, gelu, linear",
       {halves(rows), halves(weights({512, 256})), halves(weights({256, 512}))},
       [](In x) { return linear(linear(x[0], x[1]).gelu(), x[2]); },
       "F.linear(F.gelu(F.linear(a, b)), c)",
       {},
       2e-3},
      {"bf16 layer norm, linear + low rank",
       {halves(rows), halves(weights({256})), halves(weights({256})), halves(square),
        halves(weights({8, 256})), halves(weights({256, 8}))},
       [](In x) {
         const Tensor h = layer_norm(x[0], x[1], x[2]);
         return linear(h, x[3]) + linear(linear(h, x[4]), x[5]);
       },
       "(h := F.layer_norm(a, (256,), b, c), F.linear(h, d) + F.linear(F.linear(h, e), f))[1]",
       {},
       2e-3},
  };
  return list;
}

} // namespace luminal::bench
