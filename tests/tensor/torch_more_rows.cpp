// tests/tensor/torch_more_rows.cpp -- statistics, products, functions of elements, sampling and
// joins that are made of others, under PyTorch's names.
#include "torch_cases.h"
#include <gtest/gtest.h>

namespace luminal::test {
namespace {

using C = const CaseCall&;
using Out = CaseOutputs;

bool keeps_dim(C c) { return c.attrs.flag("keepdim"); }
int dim(C c) { return c.attrs.integer("dim"); }
double number(C c, const char* name) { return c.attrs.number(name); }
std::optional<int> given_dim(C c) { return c.attrs.has("dim") ? std::optional<int>(dim(c)) : std::nullopt; }
std::optional<double> given(C c, const char* name) {
  return c.attrs.has(name) ? std::optional<double>(number(c, name)) : std::nullopt;
}
Quantile between(C c) {
  const std::string name = c.attrs.text("between", "linear");
  return name == "lower"      ? Quantile::lower
         : name == "higher"   ? Quantile::higher
         : name == "midpoint" ? Quantile::midpoint
         : name == "nearest"  ? Quantile::nearest
                              : Quantile::linear;
}
std::vector<int64_t> sizes(C c, const char* name) {
  const auto list = c.attrs.integers(name);
  return {list.begin(), list.end()};
}
ConvOptions windows_of(C c) {
  ConvOptions options;
  if (c.attrs.has("stride")) options.stride = Ints(sizes(c, "stride"));
  if (c.attrs.has("padding")) options.padding = ConvPadding(sizes(c, "padding"));
  if (c.attrs.has("dilation")) options.dilation = Ints(sizes(c, "dilation"));
  return options;
}
Out out_of(const Indexed& x) { return {x.values, x.indices}; }
using Sum = Tensor (*)(const Tensor&, const Tensor&, const Tensor&, double, double, Tensor::Where);
Out summed(C c, Sum f) {
  return f(c[0], c[1], c[2], number(c, "beta"), number(c, "alpha"), Tensor::Where::current());
}
Out grid_case(C c) {
  const std::string padding = c.attrs.text("padding");
  return grid_sample(c[0], c[1],
                     c.attrs.text("mode") == "nearest" ? Interpolation::nearest : Interpolation::linear,
                     padding == "zeros"    ? GridPadding::zeros
                     : padding == "border" ? GridPadding::border
                                           : GridPadding::reflection,
                     c.attrs.flag("align_corners"));
}

const TorchOps element_rows{
    {"logaddexp", [](C c) -> Out { return logaddexp(c[0], c[1]); }},
    {"logaddexp2", [](C c) -> Out { return logaddexp2(c[0], c[1]); }},
    {"xlogy", [](C c) -> Out { return xlogy(c[0], c[1]); }},
    {"logit", [](C c) -> Out { return logit(c[0], given(c, "eps")); }},
    {"sinc", [](C c) -> Out { return sinc(c[0]); }},
    {"deg2rad", [](C c) -> Out { return deg2rad(c[0]); }},
    {"rad2deg", [](C c) -> Out { return rad2deg(c[0]); }},
    {"heaviside", [](C c) -> Out { return heaviside(c[0], c[1]); }},
    {"ldexp", [](C c) -> Out { return ldexp(c[0], c[1]); }},
    {"nan_to_num",
     [](C c) -> Out {
       return nan_to_num(c[0], c.attrs.number("nan", 0), given(c, "posinf"), given(c, "neginf"));
     }},
    {"isclose", [](C c) -> Out { return isclose(c[0], c[1], 1e-5, 1e-8, c.attrs.flag("equal_nan")); }},
    {"isin", [](C c) -> Out { return isin(c[0], c[1]); }},
    {"addcmul", [](C c) -> Out { return addcmul(c[0], c[1], c[2], number(c, "value")); }},
    {"addcdiv", [](C c) -> Out { return addcdiv(c[0], c[1], c[2], number(c, "value")); }},
    {"hardshrink", [](C c) -> Out { return hardshrink(c[0], number(c, "limit")); }},
    {"softshrink", [](C c) -> Out { return softshrink(c[0], number(c, "limit")); }},
    {"tanhshrink", [](C c) -> Out { return tanhshrink(c[0]); }},
    {"softmin", [](C c) -> Out { return softmin(c[0], dim(c)); }},
};
const TorchOps statistics_rows{
    {"quantile", [](C c) -> Out { return quantile(c[0], number(c, "q"), given_dim(c), keeps_dim(c)); }},
    {"quantiles",
     [](C c) -> Out { return quantile(c[0], c.attrs.numbers("q"), given_dim(c), keeps_dim(c), between(c)); }},
    {"mode", [](C c) -> Out { return out_of(mode(c[0], dim(c), keeps_dim(c))); }},
    {"mode_values", [](C c) -> Out { return mode(c[0], dim(c), keeps_dim(c)).values; }},
    {"nansum", [](C c) -> Out { return nansum(c[0], dim(c), keeps_dim(c)); }},
    {"nanmean", [](C c) -> Out { return nanmean(c[0], dim(c), keeps_dim(c)); }},
    {"aminmax",
     [](C c) -> Out {
       MinMax m = aminmax(c[0], dim(c));
       return {m.min, m.max};
     }},
    {"std_mean",
     [](C c) -> Out {
       StdMean m = std_mean(c[0], dim(c));
       return {m.std, m.mean};
     }},
    {"cov", [](C c) -> Out { return cov(c[0], number(c, "correction")); }},
    {"corrcoef", [](C c) -> Out { return corrcoef(c[0]); }},
    {"trapezoid", [](C c) -> Out { return trapezoid(c[0], number(c, "dx"), dim(c)); }},
};
const TorchOps sum_of_product_rows{
    {"addmm", [](C c) { return summed(c, addmm); }},
    {"addmv", [](C c) { return summed(c, addmv); }},
    {"addr", [](C c) { return summed(c, addr); }},
    {"baddbmm", [](C c) { return summed(c, baddbmm); }},
    {"addbmm", [](C c) { return summed(c, addbmm); }},
    {"multi_dot", [](C c) -> Out { return multi_dot(c.in); }},
    {"matrix_power", [](C c) -> Out { return matrix_power(c[0], c.attrs.integer("n")); }},
    {"vecdot", [](C c) -> Out { return vecdot(c[0], c[1], dim(c)); }},
    {"kron", [](C c) -> Out { return kron(c[0], c[1]); }},
    {"cross", [](C c) -> Out { return cross(c[0], c[1], dim(c)); }},
    {"vander",
     [](C c) -> Out { return vander(c[0], c.attrs.integer("columns"), c.attrs.flag("increasing")); }},
    {"cdist", [](C c) -> Out { return cdist(c[0], c[1], number(c, "p")); }},
    {"pairwise_distance", [](C c) -> Out { return pairwise_distance(c[0], c[1], number(c, "p")); }},
    {"block_diag", [](C c) -> Out { return block_diag(c.in); }},
};
const TorchOps sampling_rows{
    {"grid_sample", grid_case},
    {"affine_grid",
     [](C c) -> Out {
       return affine_grid(c[0], c.attrs.integer("height"), c.attrs.integer("width"),
                          c.attrs.flag("align_corners"));
     }},
    {"unfold_image", [](C c) -> Out { return unfold(c[0], sizes(c, "kernel"), windows_of(c)); }},
    {"fold_image",
     [](C c) -> Out { return fold(c[0], sizes(c, "sizes"), sizes(c, "kernel"), windows_of(c)); }},
    {"local_response_norm",
     [](C c) -> Out { return local_response_norm(c[0], c.attrs.integer("size"), number(c, "alpha")); }},
    {"channel_shuffle", [](C c) -> Out { return channel_shuffle(c[0], c.attrs.integer("groups")); }},
};
const TorchOps place_rows{
    {"scatter_mean",
     [](C c) -> Out { return scatter_mean(c[0], dim(c), c[1], c[2], c.attrs.flag("include")); }},
    {"masked_scatter", [](C c) -> Out { return masked_scatter(c[0], c[1], c[2]); }},
    {"take", [](C c) -> Out { return take(c[0], c[1]); }},
    {"select_scatter",
     [](C c) -> Out { return select_scatter(c[0], c[1], dim(c), c.attrs.integer("index")); }},
    {"slice_scatter", [](C c) -> Out { return slice_scatter(c[0], c[1], dim(c), c.attrs.integer("start")); }},
    {"tril_indices",
     [](C c) -> Out {
       return tril_indices(c.graph, c.attrs.integer("rows"), c.attrs.integer("columns"),
                           c.attrs.integer("offset"));
     }},
    {"triu_indices",
     [](C c) -> Out {
       return triu_indices(c.graph, c.attrs.integer("rows"), c.attrs.integer("columns"),
                           c.attrs.integer("offset"));
     }},
    {"dstack", [](C c) -> Out { return dstack(c.in); }},
    {"column_stack", [](C c) -> Out { return column_stack(c.in); }},
    {"tensor_split", [](C c) -> Out { return tensor_split(c[0], c.attrs.integer("parts"), dim(c)); }},
    {"hsplit", [](C c) -> Out { return hsplit(c[0], c.attrs.integer("parts")); }},
    {"vsplit", [](C c) -> Out { return vsplit(c[0], c.attrs.integer("parts")); }},
    {"dsplit", [](C c) -> Out { return dsplit(c[0], c.attrs.integer("parts")); }},
};

TEST(TorchGoldens, WhatIsMadeOfOthers) { run_torch_cases(LUMINAL_SOURCE_DIR "/tests/tensor/goldens/more"); }

} // namespace
} // namespace luminal::test
