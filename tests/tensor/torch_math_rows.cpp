// tests/tensor/torch_math_rows.cpp -- arithmetic, functions of elements and reductions, under
// PyTorch's names.
#include "torch_cases.h"

namespace luminal::test {
namespace {

using C = const CaseCall&;

Axes axes_of(C c) { return Axes(c.attrs.integers("dim")); }
bool keep(C c) { return c.attrs.flag("keepdim"); }
std::optional<int> one_axis(C c) {
  if (c.attrs.has("dim")) return c.attrs.integer("dim");
  return {};
}
/// The second operand: a tensor, or the attribute "number" (whole numbers stay whole unless
/// "real").
Tensor binary(C c, const std::function<Tensor(Operand, Operand)>& f) {
  if (c.in.size() > 1) return f(c[0], c[1]);
  const double number = c.attrs.number("number");
  const bool reversed = c.attrs.flag("reversed");
  if (c.attrs.flag("whole")) return reversed ? f(int64_t(number), c[0]) : f(c[0], int64_t(number));
  return reversed ? f(number, c[0]) : f(c[0], number);
}

#define METHOD(name) {#name, [](C c) { return c[0].name(); }}
#define BINARY(name, expression)                                                                             \
  {name, [](C c) { return binary(c, [](Operand a, Operand b) { return expression; }); }}

const TorchOps unary_rows{
    METHOD(neg),
    METHOD(abs),
    METHOD(sign),
    METHOD(square),
    METHOD(floor),
    METHOD(ceil),
    METHOD(round),
    METHOD(trunc),
    METHOD(frac),
    METHOD(sqrt),
    METHOD(rsqrt),
    METHOD(recip),
    METHOD(reciprocal),
    METHOD(exp),
    METHOD(exp2),
    METHOD(expm1),
    METHOD(log),
    METHOD(log2),
    METHOD(log10),
    METHOD(log1p),
    METHOD(sin),
    METHOD(cos),
    METHOD(tan),
    METHOD(asin),
    METHOD(acos),
    METHOD(atan),
    METHOD(sinh),
    METHOD(cosh),
    METHOD(tanh),
    METHOD(asinh),
    METHOD(acosh),
    METHOD(atanh),
    METHOD(erf),
    METHOD(erfc),
    METHOD(isnan),
    METHOD(isinf),
    METHOD(isfinite),
    METHOD(logical_not),
    METHOD(relu),
    METHOD(relu6),
    METHOD(sigmoid),
    METHOD(log_sigmoid),
    METHOD(silu),
    METHOD(mish),
    METHOD(hardswish),
    METHOD(hardsigmoid),
    METHOD(softsign),
    METHOD(selu),
    METHOD(gelu_tanh),
    METHOD(exp10),
    {"gelu_erf", [](C c) { return c[0].gelu(); }},
    {"bit_not", [](C c) { return ~c[0]; }},
    {"not", [](C c) { return !c[0]; }},
    {"leaky_relu", [](C c) { return c[0].leaky_relu(c.attrs.number("slope", 0.01)); }},
    {"leaky_relu_0.1", [](C c) { return c[0].leaky_relu(0.1); }},
    {"elu", [](C c) { return c[0].elu(c.attrs.number("alpha", 1)); }},
    {"celu", [](C c) { return c[0].celu(c.attrs.number("alpha", 1)); }},
    {"softplus",
     [](C c) { return c[0].softplus(c.attrs.number("beta", 1), c.attrs.number("threshold", 20)); }},
    {"hardtanh", [](C c) { return c[0].hardtanh(c.attrs.number("low", -1), c.attrs.number("high", 1)); }},
    {"threshold", [](C c) { return c[0].threshold(c.attrs.number("limit"), c.attrs.number("value")); }},
    {"glu", [](C c) { return c[0].glu(c.attrs.integer("dim", -1)); }},
    {"prelu", [](C c) { return prelu(c[0], c[1]); }},
    {"clamp_-0.5_0.8", [](C c) { return clip(c[0], -0.5, 0.8); }},
    {"clip",
     [](C c) {
       std::optional<Operand> low, high;
       if (c.attrs.has("low")) low = c.attrs.number("low");
       if (c.attrs.has("high")) high = c.attrs.number("high");
       return clip(c[0], low, high);
     }},
    {"clip_tensors", [](C c) { return clip(c[0], c[1], c[2]); }},
};

const TorchOps binary_rows{
    BINARY("add", a + b),
    BINARY("sub", a - b),
    BINARY("mul", a* b),
    BINARY("div", a / b),
    BINARY("mod", a % b),
    BINARY("maximum", maximum(a, b)),
    BINARY("minimum", minimum(a, b)),
    BINARY("fmax", fmax(a, b)),
    BINARY("fmin", fmin(a, b)),
    BINARY("lt", a < b),
    BINARY("le", a <= b),
    BINARY("gt", a > b),
    BINARY("ge", a >= b),
    BINARY("eq", equal(a, b)),
    BINARY("ne", not_equal(a, b)),
    BINARY("floor_divide", floor_divide(a, b)),
    BINARY("trunc_divide", trunc_divide(a, b)),
    BINARY("remainder", remainder(a, b)),
    BINARY("copysign", copysign(a, b)),
    BINARY("logical_and", logical_and(a, b)),
    BINARY("logical_or", logical_or(a, b)),
    BINARY("logical_xor", logical_xor(a, b)),
    BINARY("and", a& b),
    BINARY("or", a | b),
    BINARY("xor", a ^ b),
    BINARY("shl", a << b),
    BINARY("shr", a >> b),
    BINARY("hypot", hypot(a, b)),
    BINARY("atan2", atan2(a, b)),
    {"pow",
     [](C c) {
       if (c.attrs.has("exponent")) return pow(c[0], c.attrs.number("exponent"));
       return binary(c, [](Operand a, Operand b) { return pow(a, b); });
     }},
    {"fmod",
     [](C c) {
       if (c.attrs.has("divisor")) return fmod(c[0], c.attrs.number("divisor"));
       return binary(c, [](Operand a, Operand b) { return fmod(a, b); });
     }},
    {"where",
     [](C c) {
       if (c.attrs.text("cond") == "in0>0") return where(c[0] > 0, c[1], c[2]);
       return where(c[0], c[1], c[2]);
     }},
    {"masked_fill", [](C c) { return masked_fill(c[0], c[1], c.attrs.number("value")); }},
    {"lerp",
     [](C c) {
       return c.in.size() > 2 ? lerp(c[0], c[1], c[2]) : lerp(c[0], c[1], c.attrs.number("weight"));
     }},
};

#define REDUCTION(name) {#name, [](C c) { return c[0].name(axes_of(c), keep(c)); }}
double correction(C c) { return c.attrs.flag("unbiased", true) ? c.attrs.number("correction", 1) : 0; }

const TorchOps reduction_rows{
    REDUCTION(sum),
    REDUCTION(prod),
    REDUCTION(mean),
    REDUCTION(max),
    REDUCTION(min),
    REDUCTION(all),
    REDUCTION(any),
    REDUCTION(count_nonzero),
    REDUCTION(logsumexp),
    {"argmax", [](C c) { return c[0].argmax(one_axis(c), keep(c)); }},
    {"argmin", [](C c) { return c[0].argmin(one_axis(c), keep(c)); }},
    {"var", [](C c) { return c[0].var(axes_of(c), correction(c), keep(c)); }},
    {"std", [](C c) { return c[0].std(axes_of(c), correction(c), keep(c)); }},
    {"var_mean",
     [](C c) {
       VarMean r = var_mean(c[0], axes_of(c), correction(c), keep(c));
       return CaseOutputs{r.var, r.mean};
     }},
    {"norm", [](C c) { return c[0].norm(c.attrs.number("p", 2), axes_of(c), keep(c)); }},
    {"softmax", [](C c) { return c[0].softmax(c.attrs.integer("dim")); }},
    {"log_softmax", [](C c) { return c[0].log_softmax(c.attrs.integer("dim")); }},
    {"normalize",
     [](C c) { return c[0].normalize(c.attrs.number("p", 2), axes_of(c), c.attrs.number("eps", 1e-12)); }},
    {"mean_norm", [](C c) { return c[0].mean_norm(axes_of(c)); }},
    {"std_norm", [](C c) { return c[0].std_norm(axes_of(c), c.attrs.number("eps", 1e-5)); }},
};

} // namespace
#undef METHOD
#undef BINARY
#undef REDUCTION
} // namespace luminal::test
