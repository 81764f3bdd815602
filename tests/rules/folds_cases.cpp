// rules/folds_cases.cpp -- naive formulas as a model's author would write them: each reduction for
// itself.
#include "folds_cases.h"
#include "luminal/error.h"

namespace luminal::egraph::folds {
namespace {

using Terms = std::vector<Term>;

Term x_tk(Builder b) { return b.in("x", "t k"); }
Term normal(Term x, const std::string& axis) { // RMSNorm
  return x * ((x * x).mean(axis) + 1e-5).root().recip();
}
Term squares_about_the_mean(Term x) {
  const Term d = x - x.mean("k");
  return d * d;
}
Term scale_of(Term d, const std::string& axis) { return ((d * d).mean(axis) + 1e-5).root().recip(); }
Term masked(Builder b, const std::string& query, const std::string& key, Term s) {
  return b.iota(query).less(b.iota(key)).where(b.number(-infinity), s);
}
Term weigh(Term s, Term v, const std::string& key) { // softmax(s) v
  const Term e = (s - s.max(key)).exp();
  return ((e / e.sum(key)) * v).sum(key);
}
/// Heads h, queries i, keys j.
Terms attention(Builder b, bool causal) {
  const Term q = b.in("q", "h i d"), k = b.in("k", "h j d"), v = b.in("v", "h j e");
  Term s = (q * k).sum("d") * 0.25;
  if (causal) s = masked(b, "i", "j", s);
  return {weigh(s, v, "j")};
}
Terms softmax(Builder b) {
  const Term x = x_tk(b), e = (x - x.max("k")).exp();
  return {e / e.sum("k")};
}
Terms logsumexp(Builder b) {
  const Term x = x_tk(b), m = x.max("k");
  return {(x - m).exp().sum("k").log() + m};
}
Terms masked_rows(Builder b) {
  const Term q = b.in("q", "h i d"), k = b.in("k", "h j d"), v = b.in("v", "h j e");
  return {weigh(b.in("mask", "i j").where((q * k).sum("d") * 0.25, b.number(-infinity)), v, "j")};
}
Terms variance(Builder b) { return {squares_about_the_mean(x_tk(b)).mean("k")}; }
Terms layernorm(Builder b) {
  const Term x = x_tk(b), d = x - x.mean("k");
  return {d * scale_of(d, "k") * b.in("g", "k") + b.in("b", "k")};
}
Terms kurtosis(Builder b) {
  const Term d2 = squares_about_the_mean(x_tk(b)), v = d2.mean("k");
  return {(d2 * d2).mean("k") / (v * v)};
}
Terms rmsnorm_matmul(Builder b) {
  return {(normal(b.in("x", "t e"), "e") * b.in("g", "e") * b.in("w", "e f")).sum("e")};
}
Terms layernorm_matmul(Builder b) {
  const Term x = b.in("x", "t e"), d = x - x.mean("e");
  return {(d * scale_of(d, "e") * b.in("g", "e") * b.in("w", "e f")).sum("e")};
}
Terms cross_entropy(Builder b) {
  const Term z = (b.in("x", "t e") * b.in("w", "v e")).sum("e"), m = z.max("v");
  const Term picked = b.iota("v").equals(b.in("label", "t")).where(z, b.number(0)).sum("v");
  return {(z - m).exp().sum("v").log() + m - picked};
}
Terms argmax(Builder b) {
  const Term x = x_tk(b);
  return {x.equals(x.max("k")).where(b.iota("k"), b.number(infinity)).min("k")};
}
Terms entropy(Builder b) { // of a softmax
  const Term x = x_tk(b), d = x - x.max("k"), e = d.exp(), l = e.sum("k");
  return {l.log() - (d * e).sum("k") / l};
}
Terms safe_norm(Builder b) { // the divisor is not zero: the family of powers asks for it
  const Term x = x_tk(b), m = x.abs().max2(b.number(1e-30)).max("k"), y = x / m;
  return {m * (y * y).sum("k").root()};
}
Term swish(Term g) { return g / ((-g).exp() + 1.0); }
Terms swiglu(Builder b) {
  const Term x = b.in("x", "t e"), g = (x * b.in("w1", "e f")).sum("e"), u = (x * b.in("w2", "e f")).sum("e");
  return {swish(g) * u};
}
Terms qkv(Builder b) {
  const Term x = b.in("x", "t e");
  return {(x * b.in("wq", "e f")).sum("e"), (x * b.in("wk", "e g")).sum("e"),
          (x * b.in("wv", "e h")).sum("e")};
}
/// Causal attention of y over t c, by head; keys stand along j.
Term self_attention(Builder b, Term y) {
  const Term q = (y * b.in("wq", "c h d")).sum("c"), k = (y * b.in("wk", "c h d")).sum("c"),
             v = (y * b.in("wv", "c h e")).sum("c");
  return weigh(masked(b, "t", "j", (q * k.rename("t", "j")).sum("d") * 0.25), v.rename("t", "j"), "j");
}
Terms attention_block(Builder b) { return {self_attention(b, b.in("x", "t c"))}; }
/// RMSNorm, QKV, causal attention, output projection with residual, RMSNorm, SwiGLU; the weights of
/// the norms are in the matrices.
Terms transformer_layer(Builder b) {
  const Term x = b.in("x", "t c"), a = self_attention(b, normal(x, "c"));
  const Term r = (a * b.in("wo", "h e o")).sum("e").sum("h") + x.rename("c", "o"), z = normal(r, "o");
  const Term g = (z * b.in("w1", "o f")).sum("o"), u = (z * b.in("w2", "o f")).sum("o");
  return {swish(g) * u};
}
/// Bias, batch norm of inference, residual, ReLU; a window is a view with a fill.
Terms convolution(Builder b) {
  const Term w = b.par("w", "o c kh kw"), mean = b.par("mu", "o"), var = b.par("var", "o"),
             g = b.par("g", "o");
  const Term x = b.in("x", "n c iy iz")
                     .view({"iy", {{"y", 1}, {"kh", 1}}, -1, 1, 0.0})
                     .view({"iz", {{"z", 1}, {"kw", 1}}, -1, 1, 0.0});
  const Term a = (x * w).sum("kw").sum("kh").sum("c") + b.par("bias", "o");
  const Term normed = (a - mean) * (var + 1e-5).root().recip() * g + b.par("be", "o");
  return {(normed + b.in("r", "n o y z")).max2(b.number(0))};
}
Terms matmul_two_axes(Builder b) { return {(b.in("a", "t h e") * b.in("w", "h e o")).sum("e").sum("h")}; }
Terms logsumexp_two_axes(Builder b) {
  const Term x = b.in("x", "t h k"), m = x.max("k").max("h");
  return {(x - m).exp().sum("k").sum("h").log() + m};
}
/// The key of head h is that of group h div 3; keys are scaled by a norm before they are viewed.
Terms grouped_attention(Builder b) {
  const Window group{"g", {{"h", 1}}, 0, 3, std::nullopt};
  const Term k = (b.in("k", "g j d") * b.in("n", "g j")).view(group), v = b.in("v", "g j e").view(group);
  return {weigh((b.in("q", "h i d") * k).sum("d") * 0.25, v, "j")};
}
/// O, dQ, dK, dV.
Terms attention_gradient(Builder b) {
  const Term q = b.in("q", "h i d"), k = b.in("k", "h j d"), v = b.in("v", "h j e"),
             dout = b.in("do", "h i e");
  const Term s = (q * k).sum("d") * 0.25, e = (s - s.max("j")).exp(), p = e / e.sum("j");
  const Term dp = (dout * v).sum("e"), ds = p * (dp - (p * dp).sum("j"));
  return {(p * v).sum("j"), (ds * k).sum("j") * 0.25, (ds * q).sum("i") * 0.25, (p * dout).sum("i")};
}
Terms cross_entropy_gradient(Builder b) {
  const Term w = b.in("w", "v e"), z = (b.in("x", "t e") * w).sum("e"), p = (z - z.max("v")).exp();
  const Term one_hot = b.iota("v").equals(b.in("label", "t")).where(b.number(1), b.number(0));
  return {((p / p.sum("v") - one_hot) * w).sum("v")};
}
Terms layernorm_gradient(Builder b) {
  const Term x = x_tk(b), dy = b.in("dy", "t k"), d = x - x.mean("k"), rs = scale_of(d, "k"), xh = d * rs;
  return {rs * (dy - dy.mean("k") - xh * (dy * xh).mean("k"))};
}
Terms three_largest(Builder b) { // different values, one mask after the other
  const Term x = x_tk(b);
  Terms m{x.max("k")};
  for (int i = 0; i < 2; ++i) m.push_back(x.less(m.back()).where(x, b.number(-infinity)).max("k"));
  return m;
}
Terms prefix_normalised(Builder b) {
  const Term x = x_tk(b).exp();
  return {(x * b.in("y", "t k") / x.running_sum("k")).sum("k")};
}
Terms linear_attention(Builder b) {
  const Term q = b.in("q", "h t d"), k = b.in("k", "h j d"), v = b.in("v", "h j e");
  const Term s = b.iota("t").less(b.iota("j")).where(b.number(0), (q * k).sum("d"));
  return {(s * v).sum("j")};
}

const Extents rows{{"t", 2}, {"k", 3}};
const Extents heads{{"h", 2}, {"i", 2}, {"j", 3}, {"d", 2}, {"e", 2}};
const Extents square{{"h", 2}, {"t", 3}, {"j", 3}, {"d", 2}, {"e", 2}, {"c", 2}, {"f", 2}, {"o", 2}};

Case small(const std::string& name, int found, std::function<Term(Builder, Term)> body) {
  return {name, [body](Builder b) { return Terms{body(b, x_tk(b))}; }, rows, "k", 2, found, 0};
}

} // namespace

const std::vector<Case>& cases() {
  static const std::vector<Case> all{
      {"softmax", softmax, rows, "k", 2, 1, 18},
      {"logsumexp", logsumexp, rows, "k", 2, 1, 18},
      {"attention", [](Builder b) { return attention(b, false); }, heads, "j", 3, 1, 48},
      {"attention causal", [](Builder b) { return attention(b, true); }, heads, "j", 3, 1, 44},
      {"attention masked rows", masked_rows, heads, "j", 3, 1, 42},
      {"attention decode",
       [](Builder b) { return attention(b, false); },
       {{"h", 2}, {"i", 1}, {"j", 4}, {"d", 2}, {"e", 2}},
       "j",
       3,
       0,
       69,
       {{"j", 2}}},
      {"variance", variance, rows, "k", 2, 1, 65},
      {"layernorm", layernorm, rows, "k", 2, 1, 78},
      {"kurtosis", kurtosis, rows, "k", 2, 1, 151},
      {"rmsnorm+matmul", rmsnorm_matmul, {{"t", 2}, {"e", 3}, {"f", 2}}, "e", 2, 1, 45},
      {"layernorm+matmul", layernorm_matmul, {{"t", 2}, {"e", 3}, {"f", 2}}, "e", 3, 1, 162},
      {"cross entropy", cross_entropy, {{"t", 2}, {"e", 2}, {"v", 4}}, "v", 2, 1, 33},
      {"argmax", argmax, rows, "k", 2, 1, 12},
      {"softmax entropy", entropy, rows, "k", 2, 1, 28},
      {"safe 2-norm", safe_norm, rows, "k", 2, 1, 25, {}, NumericClass::reassociate},
      {"SwiGLU", swiglu, {{"t", 2}, {"e", 3}, {"f", 2}}, "e", 1, 1, 21},
      {"QKV", qkv, {{"t", 2}, {"e", 3}, {"f", 2}, {"g", 2}, {"h", 2}}, "e", 1, 1, 16},
      {"attention block", attention_block, square, "j", 3, 1, 67},
      {"transformer layer", transformer_layer, square, "j", 3, 1, 275},
      {"conv+bn+relu",
       convolution,
       {{"n", 2}, {"o", 2}, {"y", 2}, {"z", 2}, {"c", 2}, {"iy", 2}, {"iz", 2}, {"kh", 3}, {"kw", 3}},
       "c",
       1,
       1,
       201},
      {"matmul over two axes", matmul_two_axes, {{"t", 2}, {"o", 2}, {"h", 3}, {"e", 2}}, "h", 1, 1, 9},
      {"logsumexp over two axes", logsumexp_two_axes, {{"t", 2}, {"h", 3}, {"k", 2}}, "k", 2, 1, 24},
      {"grouped-query attention",
       grouped_attention,
       {{"h", 6}, {"g", 2}, {"i", 2}, {"j", 3}, {"d", 2}, {"e", 2}},
       "j",
       3,
       1,
       63},
      {"attention gradient", attention_gradient, heads, "j", 4, 2, 104},
      {"cross entropy gradient", cross_entropy_gradient, {{"t", 2}, {"e", 2}, {"v", 4}}, "v", 3, 1, 60},
      {"layernorm gradient", layernorm_gradient, rows, "k", 3, 1, 119},
      {"three largest", three_largest, rows, "k", 3, 1, 16},
      {"prefix-normalised sum", prefix_normalised, rows, "k", 1, 1, 12},
      {"causal linear attention",
       linear_attention,
       {{"h", 2}, {"t", 3}, {"j", 3}, {"d", 2}, {"e", 2}},
       "j",
       1,
       0,
       33},
  };
  return all;
}

const std::vector<Case>& fused() {
  static const std::vector<Case> all{
      small("exp(2 (x - max x))", 1, [](Builder, Term x) { return ((x - x.max("k")) * 2).exp().sum("k"); }),
      small("exp(min x - x)", 1, [](Builder, Term x) { return (x.min("k") - x).exp().sum("k"); }),
      small("(x - mean x)^3", 1,
            [](Builder, Term x) {
              const Term d = x - x.mean("k");
              return (d * d * d).sum("k");
            }),
      small("max of (x - mean x)", 1, [](Builder, Term x) { return (x - x.mean("k")).max("k"); }),
      small("max of the x below max x", 1,
            [](Builder b, Term x) { return x.less(x.max("k")).where(x, b.number(-infinity)).max("k"); }),
      small("sqrt(x / max x), x > 0", 1,
            [](Builder, Term x) {
              const Term y = x.abs() + 1.0;
              return (y / y.max("k")).root().sum("k");
            }),
      small("|y / max x|, x > 0", 1,
            [](Builder b, Term x) { return (b.in("y", "t k") / (x.abs() + 1.0).max("k")).abs().sum("k"); }),
      small("max(y exp(x - max x), 0)", 1,
            [](Builder b, Term x) {
              return (b.in("y", "t k") * (x - x.max("k")).exp()).max2(b.number(0)).sum("k");
            }),
      small("max(x - max x, y - max x)", 1,
            [](Builder b, Term x) { return (x - x.max("k")).max2(b.in("y", "t k") - x.max("k")).sum("k"); }),
      small("sum of (x - max x), sum of (x - min x)^2", 1,
            [](Builder, Term x) {
              const Term d = x - x.min("k");
              return (x - x.max("k")).sum("k") + (d * d).sum("k");
            }),
      small("sum of y at max x", 1,
            [](Builder b, Term x) {
              return x.equals(x.max("k")).where(b.in("y", "t k"), b.number(0)).sum("k");
            }),
  };
  return all;
}

const std::vector<Case>& refused() {
  static const std::vector<Case> all = [] {
    std::vector<Case> out{
        small("exp(x * max x): no sum in the exponent", 2,
              [](Builder, Term x) { return (x * x.max("k")).exp().sum("k"); }),
        small("tanh(x - max x): no finite family", 2,
              [](Builder, Term x) { return (x - x.max("k")).op("Tanh").sum("k"); }),
        small("|x - mean x|: mean absolute deviation", 2,
              [](Builder, Term x) { return (x - x.mean("k")).abs().sum("k"); }),
        small("log(x + max x)", 2, [](Builder, Term x) { return (x + x.max("k")).log().sum("k"); }),
        small("exp(x + max x): the correction grows", 2,
              [](Builder, Term x) { return (x + x.max("k")).exp().sum("k"); }),
        small("exp(x - min x): the correction grows", 2,
              [](Builder, Term x) { return (x - x.min("k")).exp().sum("k"); }),
        small("(x - sum x)^2: the centre is no location", 2,
              [](Builder, Term x) {
                const Term d = x - x.sum("k");
                return (d * d).sum("k");
              }),
        small("max(exp(x - max x), 1/2): two characters", 2,
              [](Builder b, Term x) { return (x - x.max("k")).exp().max2(b.number(0.5)).sum("k"); }),
        small("sqrt(max x - x): no root of a character", 2,
              [](Builder, Term x) { return (x.max("k") - x).root().sum("k"); }),
        small("[y == max x] with another y", 2,
              [](Builder b, Term x) {
                return b.in("y", "t k").equals(x.max("k")).where(b.iota("k"), b.number(infinity)).min("k");
              }),
        small("[x > max x / 2]: an order, no equality", 2,
              [](Builder b, Term x) { return (x.max("k") * 0.5).less(x).where(x, b.number(0)).sum("k"); }),
        small("x / max |x|: the divisor may be 0, without rules that move ranges", 2,
              [](Builder, Term x) {
                const Term y = x / x.abs().max("k");
                return (y * y).sum("k");
              }),
        small(
            "min over [x == max x] of a value whose other is 0", 2,
            [](Builder b, Term x) { return x.equals(x.max("k")).where(b.iota("k"), b.number(0)).min("k"); }),
        small("max of the x below max y", 2,
              [](Builder b, Term x) {
                return x.less(b.in("y", "t k").max("k")).where(x, b.number(-infinity)).max("k");
              }),
        small("sum of the x below max x", 2,
              [](Builder b, Term x) { return x.less(x.max("k")).where(x, b.number(0)).sum("k"); }),
    };
    for (Case& c : out)
      if (c.name.find("without rules that move ranges") != std::string::npos)
        c.numeric = NumericClass::reassociate;
    return out;
  }();
  return all;
}

const Case& case_named(const std::string& name) {
  for (const Case& c : cases())
    if (c.name == name) return c;
  throw Error("there is no case " + name);
}

std::vector<Value> build(const Case& c, Theory& theory) {
  theory.set_extents(c.extents);
  for (const auto& [axis, tile] : c.splits) theory.split(axis, tile);
  std::vector<Value> out;
  for (const Term& root : c.formula({theory})) out.push_back(root.value);
  return out;
}

} // namespace luminal::egraph::folds
