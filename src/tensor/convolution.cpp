// tensor/convolution.cpp -- convolutions: padding, windows, one sum of products.
#include "luminal/indexing.h"
#include "luminal/nn_functions.h"
#include "luminal/random.h"
#include "tensor/extents.h"
#include "tensor/strided_runs.h"
#include "tensor/windows.h"
#include <algorithm>
#include <fmt/format.h>
#include <numeric>

namespace luminal {

std::vector<int64_t> for_axes(std::string_view op, const Ints& numbers, size_t axes, int64_t least,
                              std::string_view what, Where where) {
  std::vector<int64_t> list = numbers.list;
  if (list.size() == 1) list.resize(axes, list[0]);
  if (list.size() != axes)
    throw Error(op, fmt::format("{} numbers of {} are given for {} axes", list.size(), what, axes), where);
  for (int64_t n : list)
    if (n < least) throw Error(op, fmt::format("{} must be at least {}, it is {}", what, least, n), where);
  return list;
}

std::vector<StridedRun> strided_runs(int64_t kernel, int64_t stride, int64_t dilation, int64_t padding) {
  std::vector<StridedRun> runs;
  const int64_t common = std::gcd(stride, dilation);
  for (int64_t place = 0; place < stride; place++) {
    // Of the weights w those with (place + padding - w * dilation) % stride == 0.
    StridedRun r{.period = stride / common, .dilation = dilation / common};
    const auto behind = [&] { return place + padding - r.first * dilation; };
    while (r.first < r.period && behind() % stride) r.first++;
    if (r.first < r.period && r.first < kernel) {
      r.taps = (kernel - r.first + r.period - 1) / r.period;
      r.shift = behind() / stride;
    }
    if (!runs.empty() && runs.back().taps == r.taps && (r.taps == 0 || runs.back().shift == r.shift))
      runs.back().places++;
    else
      runs.push_back(r);
  }
  return runs;
}

namespace {

struct Kernel {
  size_t sizes = 0; // axes
  std::vector<int64_t> size;
};

Kernel kernel_of(std::string_view op, const Tensor& x, const Tensor& weight, const Tensor& bias,
                 Where where) {
  graph_of(op, {&x, &weight}, where);
  if (bias.defined()) graph_of(op, {&x, &bias}, where);
  const Shape w = type_of(weight).shape, in = type_of(x).shape;
  if (w.size() < 3)
    throw Error(op, fmt::format("the weight must be [channels, channels, kernel..], it is {}", text_of(w)),
                where);
  if (in.size() != w.size() && in.size() + 1 != w.size())
    throw Error(op,
                fmt::format("x {} and weight {} do not fit: x must have {} axes, or {} without a batch",
                            text_of(in), text_of(w), w.size(), w.size() - 1),
                where);
  Kernel kernel;
  kernel.sizes = w.size() - 2;
  for (size_t d = 2; d < w.size(); d++) {
    if (!w[d].is_constant() || w[d].value() < 1)
      throw Error(op, fmt::format("the kernel of weight {} must be of known sizes, at least 1", text_of(w)),
                  where);
    kernel.size.push_back(w[d].value());
  }
  return kernel;
}

Tensor biased(std::string_view op, const Tensor& y, const Tensor& bias, Where where) {
  if (!bias.defined()) return y;
  const Expr channels = type_of(y).shape[1];
  if (bias.rank() != 1 || !equal_extents(type_of(bias).shape[0], channels))
    throw Error(
        op, fmt::format("the bias must be [{}], it is {}", to_string(channels), text_of(type_of(bias).shape)),
        where);
  Dims aligned(size_t(y.rank()), 1);
  aligned[1] = bias.dim(0);
  return y + bias.reshape(aligned, where);
}

/// x is padded already and has a batch axis. weight [out, in / groups, kernel..].
Tensor convolve(std::string_view op, const Tensor& x, const Tensor& weight,
                const std::vector<int64_t>& stride, const std::vector<int64_t>& dilation, int64_t groups,
                Where where) {
  const size_t n = stride.size();
  const Shape w = type_of(weight).shape;
  Tensor windows = x;
  for (size_t d = 0; d < n; d++) {
    const int64_t size = w[2 + d].value(), reach = (size - 1) * dilation[d] + 1;
    const Expr extent = type_of(x).shape[2 + d];
    if (prove(ge(extent, reach)) == Truth::no)
      throw Error(op,
                  fmt::format("the kernel reaches over {} elements, axis {} of the padded input {} has {}",
                              reach, 2 + d, text_of(type_of(x).shape), to_string(extent)),
                  where);
    windows = windows.windows(int(2 + d), size, stride[d], dilation[d], where);
  }
  // windows: [batch, in, out.., kernel..]
  const Dims shape = windows.shape();
  const Dim out = weight.dim(0), part = weight.dim(1);
  std::vector<int> summed;
  const auto kernel_axes = [&](int first) {
    for (size_t d = 0; d < n; d++) summed.push_back(first + int(n + d));
  };
  const auto weight_as = [&](Dims leading) { // the sizes of the result stretch
    for (size_t d = 0; d < n; d++) leading.push_back(1);
    for (size_t d = 0; d < n; d++) leading.push_back(weight.dim(int(2 + d)));
    return weight.reshape(leading, where);
  };
  // Integers of 32 bits keep their type, as those of matmul do; sums of narrower ones are i64.
  const auto sum_of = [&](const Tensor& products) {
    return products.dtype() == DType::i32 ? fold(Op::add, "sum", products, summed, false, where)
                                          : products.sum(summed, false, where);
  };
  if (groups == 1) {
    summed = {2};
    kernel_axes(3);
    return sum_of(windows.unsqueeze(1, where) * weight_as({out, part}));
  }
  if (part == Dim(1) && out == Dim(groups)) { // each channel by itself
    kernel_axes(2);
    return sum_of(windows * weight_as({out}));
  }
  Dims split{shape[0], groups, 1, part}, joined{shape[0], out};
  split.insert(split.end(), shape.begin() + 2, shape.end());
  joined.insert(joined.end(), shape.begin() + 2, shape.begin() + 2 + long(n));
  summed = {3};
  kernel_axes(4);
  const Tensor y = sum_of(windows.reshape(split, where) * weight_as({groups, out / groups, part}));
  return y.reshape(joined, where);
}

int64_t ceil_div(int64_t a, int64_t b) { return a / b + (a % b > 0); }

/// A transposed convolution as one convolution for each choice of a run along each axis: no zeros
/// stand between the elements of x, or between weights.
struct Transposed {
  Tensor x, weight; ///< [batch, in, sizes..], [in, out / groups, kernel..]
  int64_t groups;
  std::vector<std::vector<StridedRun>> runs;
  Where where;
  std::vector<int64_t> more = {}; ///< steps of the stride in the result beyond those in x

  /// [batch, out, (steps, places) of each axis that is not chosen..] distributed -> [batch, out,
  /// sizes..]; of those that are chosen the places of the run.
  Tensor result(std::vector<StridedRun>& chosen) const {
    const size_t d = chosen.size();
    if (d == runs.size()) return convolved(chosen);
    std::vector<Tensor> parts;
    for (const StridedRun& run : runs[d]) {
      chosen.push_back(run);
      parts.push_back(result(chosen));
      chosen.pop_back();
    }
    // What lies further in is distributed already: one axis each.
    const int places = int(3 + 2 * d);
    return (parts.size() > 1 ? concat(parts, places, where) : parts[0]).merge_dims(places - 1, where);
  }

  /// [batch, out, (steps, places of the run) of each axis..].
  Tensor convolved(const std::vector<StridedRun>& chosen) const {
    const int n = int(chosen.size());
    const Dim in = weight.dim(0) / groups, part = weight.dim(1);
    Tensor source = x, w = weight;
    Dims apart{x.dim(0), part * groups}, zero = apart, joined;
    std::vector<int> order{0, 1}, of_weight;
    std::vector<int64_t> dilation;
    Dim rows = part * groups;
    for (int d = 0; d < n; d++) {
      const StridedRun& r = chosen[size_t(d)];
      const Dim steps = x.dim(2 + d) + more[size_t(d)];
      zero.insert(zero.end(), {steps, r.places});
      apart.push_back(r.places);
      order.insert(order.end(), {2 + n + d, 2 + d});
      if (r.taps == 0) continue;
      source = source.pad(2 + d, (r.taps - 1) * r.dilation - r.shift, more[size_t(d)] + r.shift, 0, where);
      w = w.slice(2 + d, r.first, r.first + (r.taps - 1) * r.period + r.places, 1, where)
              .windows(2 + d, r.places, r.period, 1, where)
              .flip(2 + d, where);
      dilation.push_back(r.dilation);
      joined.push_back(r.taps);
      of_weight.push_back(3 + d);
      rows = rows * r.places;
    }
    if (int(dilation.size()) < n) {
      Graph graph(x.graph());
      return zeros(graph, zero, x.dtype(), where);
    }
    for (int d = 0; d < n; d++) apart.push_back(x.dim(2 + d) + more[size_t(d)]);
    // [in, out / groups, taps.., places..] -> [taps.., in / groups, out and places..] in memory:
    // lanes may go along the results.
    w = w.unflatten(0, {groups, in}, where);
    of_weight.insert(of_weight.end(), {1, 0, 2});
    for (int d = 0; d < n; d++) of_weight.push_back(3 + n + d);
    joined.insert(joined.end(), {in, rows});
    w = w.permute(of_weight, where).reshape(joined, where).contiguous(where);
    std::vector<int> turned{n + 1, n};
    for (int d = 0; d < n; d++) turned.push_back(d);
    const Tensor y = convolve("conv_transpose", source, w.permute(turned, where),
                              std::vector<int64_t>(size_t(n), 1), dilation, groups, where);
    return y.reshape(apart, where).permute(order, where);
  }
};

void check_channels(std::string_view op, const Tensor& x, const Tensor& weight, int64_t groups,
                    int input_axis, Where where) {
  const Expr channels = type_of(x).shape[1], of_weight = type_of(weight).shape[size_t(input_axis)];
  const Expr wanted = input_axis == 1 ? of_weight * groups : of_weight;
  if (groups < 1 || !equal_extents(channels, wanted) ||
      prove(eq(mod(type_of(weight).shape[0], groups), 0)) != Truth::yes)
    throw Error(
        op,
        fmt::format("x {} and weight {} do not fit in {} group{}: x has {} channels, the weight takes {}",
                    text_of(type_of(x).shape), text_of(type_of(weight).shape), groups, groups == 1 ? "" : "s",
                    to_string(channels), to_string(wanted)),
        where);
}

Tensor conv_checked(std::string_view op, size_t sizes, const Tensor& x, const Tensor& weight,
                    const Tensor& bias, const ConvOptions& options, Where where) {
  graph_of(op, {&x, &weight}, where);
  if (size_t(weight.rank()) != sizes + 2)
    throw Error(
        op, fmt::format("the weight must have {} axes, it is {}", sizes + 2, text_of(type_of(weight).shape)),
        where);
  return conv(x, weight, bias, options, where);
}

} // namespace

Tensor conv(const Tensor& x, const Tensor& weight, const Tensor& bias, const ConvOptions& options,
            Where where) {
  const Kernel kernel = kernel_of("conv", x, weight, bias, where);
  const size_t n = kernel.sizes;
  const auto stride = for_axes("conv", options.stride, n, 1, "stride", where),
             dilation = for_axes("conv", options.dilation, n, 1, "dilation", where);
  if (x.rank() == weight.rank() - 1)
    return conv(x.unsqueeze(0, where), weight, bias, options, where).squeeze(0, where);
  check_channels("conv", x, weight, options.groups, 1, where);
  const DType type = promote(x.dtype(), weight.dtype());
  Tensor padded = at_least_f32(x.cast(type, where));
  const std::string& word = options.padding.word;
  if (!word.empty() && word != "same" && word != "valid")
    throw Error("conv", fmt::format("padding is \"same\", \"valid\" or numbers, not \"{}\"", word), where);
  const auto padding = for_axes("conv", options.padding, n, 0, "padding", where);
  for (size_t d = 0; d < n; d++) {
    int64_t before = padding[d], after = padding[d];
    if (word == "same") {
      if (stride[d] != 1) throw Error("conv", "padding \"same\" needs a stride of 1", where);
      const int64_t all = (kernel.size[d] - 1) * dilation[d];
      before = all / 2;
      after = all - before;
    }
    if (before + after > 0) padded = padded.pad(int(2 + d), before, after, 0, where);
  }
  Tensor y = convolve("conv", padded, at_least_f32(weight.cast(type, where)), stride, dilation,
                      options.groups, where);
  return biased("conv", y, bias, where).cast(type, where);
}
Tensor conv1d(const Tensor& x, const Tensor& weight, const Tensor& bias, const ConvOptions& options,
              Where where) {
  return conv_checked("conv1d", 1, x, weight, bias, options, where);
}
Tensor conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias, const ConvOptions& options,
              Where where) {
  return conv_checked("conv2d", 2, x, weight, bias, options, where);
}
Tensor conv3d(const Tensor& x, const Tensor& weight, const Tensor& bias, const ConvOptions& options,
              Where where) {
  return conv_checked("conv3d", 3, x, weight, bias, options, where);
}

Tensor conv_transpose(const Tensor& x, const Tensor& weight, const Tensor& bias,
                      const ConvTransposeOptions& options, Where where) {
  constexpr std::string_view op = "conv_transpose";
  const Kernel kernel = kernel_of(op, x, weight, bias, where);
  const size_t n = kernel.sizes;
  const auto stride = for_axes(op, options.stride, n, 1, "stride", where),
             dilation = for_axes(op, options.dilation, n, 1, "dilation", where),
             padding = for_axes(op, options.padding, n, 0, "padding", where),
             extra = for_axes(op, options.output_padding, n, 0, "output_padding", where);
  for (size_t d = 0; d < n; d++)
    if (extra[d] >= std::max(stride[d], dilation[d]))
      throw Error(op,
                  fmt::format("output_padding {} must be below the stride or the dilation ({}, {})", extra[d],
                              stride[d], dilation[d]),
                  where);
  if (x.rank() == weight.rank() - 1)
    return conv_transpose(x.unsqueeze(0, where), weight, bias, options, where).squeeze(0, where);
  check_channels(op, x, weight, options.groups, 0, where);
  const DType type = promote(x.dtype(), weight.dtype());
  const Shape from = type_of(x).shape;
  Transposed t{
      at_least_f32(x.cast(type, where)), at_least_f32(weight.cast(type, where)), options.groups, {}, where};
  Dims sizes;
  for (size_t d = 0; d < n; d++) {
    const int axis = int(2 + d);
    const int64_t reach = (kernel.size[d] - 1) * dilation[d];
    const Expr size = (from[size_t(axis)] - 1) * stride[d] + 1 + reach - 2 * padding[d] + extra[d];
    if (prove(ge(size, 1)) == Truth::no)
      throw Error(op, fmt::format("axis {} of {} with this padding leaves nothing", axis, text_of(from)),
                  where);
    sizes.push_back(Dim::from_id(size.id()));
    const int64_t more = ceil_div(1 + reach - 2 * padding[d] + extra[d], stride[d]) - 1;
    t.runs.push_back(strided_runs(kernel.size[d], stride[d], dilation[d], padding[d]));
    t.more.push_back(more);
  }
  std::vector<StridedRun> chosen;
  Tensor y = t.result(chosen);
  for (size_t d = 0; d < n; d++)
    if (stride[d] > 1) y = y.narrow(int(2 + d), 0, sizes[d], where);
  return biased(op, y, bias, where).cast(type, where);
}

} // namespace luminal
