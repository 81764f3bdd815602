// models/onnx/ops_nn.cpp -- products, convolutions, pooling, normalisation.
#include "luminal/linalg.h"
#include "luminal/nn_functions.h"
#include "luminal/random.h"
#include "luminal/terms.h"
#include "models/onnx/integers.h"
#include "models/onnx/operators.h"
#include "models/onnx/windows.h"
#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace luminal::onnx {

Windows windows_of(Node& n, const Tensor& x, size_t axes, std::vector<int64_t> kernel) {
  Windows w;
  w.kernel = std::move(kernel);
  if (w.kernel.size() != axes || size_t(x.rank()) != axes + 2)
    n.refuse(
        fmt::format("has a kernel [{}] for {}: a size is expected for each axis behind batch and channels",
                    fmt::join(w.kernel, ", "), luminal::to_string(x.shape())));
  w.stride = n.integers("strides", std::vector<int64_t>(axes, 1));
  w.dilation = n.integers("dilations", std::vector<int64_t>(axes, 1));
  w.before.assign(axes, 0), w.after.assign(axes, 0);
  if (std::any_of(w.kernel.begin(), w.kernel.end(), [](int64_t size) { return size < 1; }))
    n.refuse(fmt::format("has a kernel [{}]: sizes of at least 1 are expected", fmt::join(w.kernel, ", ")));
  for (const auto* list : {&w.stride, &w.dilation})
    if (list->size() != axes || std::any_of(list->begin(), list->end(), [](int64_t v) { return v < 1; }))
      n.refuse(fmt::format(
          "has strides or dilations [{}] for {} axes: a number of at least 1 is expected for each",
          fmt::join(*list, ", "), axes));
  const std::string automatic =
      n.one_of("auto_pad", "NOTSET", {"NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"});
  if (automatic == "SAME_UPPER" || automatic == "SAME_LOWER") {
    const auto extents = n.extents(x);
    for (size_t d = 0; d < axes; d++) {
      const int64_t size = extents[d + 2], out = (size + w.stride[d] - 1) / w.stride[d];
      const int64_t all =
          std::max<int64_t>(0, (out - 1) * w.stride[d] + (w.kernel[d] - 1) * w.dilation[d] + 1 - size);
      w.before[d] = automatic == "SAME_UPPER" ? all / 2 : all - all / 2;
      w.after[d] = all - w.before[d];
    }
  } else if (automatic == "NOTSET") {
    const auto pads = n.integers("pads", std::vector<int64_t>(2 * axes, 0));
    if (pads.size() != 2 * axes)
      n.refuse(fmt::format("has pads [{}] for {} axes: two numbers are expected for each",
                           fmt::join(pads, ", "), axes));
    for (size_t d = 0; d < axes; d++) w.before[d] = pads[d], w.after[d] = pads[d + axes];
  }
  return w;
}

Tensor padded(const Tensor& x, const Windows& w, double value) {
  std::vector<Padding> list;
  for (size_t d = 0; d < w.kernel.size(); d++)
    if (w.before[d] || w.after[d]) list.push_back({int(d) + 2, w.before[d], w.after[d]});
  return list.empty() ? x : x.pad(list, PadMode::constant, value);
}

namespace ops {
namespace {

std::vector<int64_t> last(const std::vector<int64_t>& list, size_t count) {
  return {list.end() - std::ptrdiff_t(count), list.end()};
}
double lowest(DType type) {
  switch (type) {
  case DType::i8: return -128;
  case DType::u8: return 0;
  default: return -std::numeric_limits<double>::infinity();
  }
}

/// All windows of x: [n, c, windows.., kernel..]. `out` is how many along each axis.
Tensor all_windows(const Tensor& x, const Windows& w, const Dims& out, double fill) {
  const size_t axes = w.kernel.size();
  Dims shape{x.dim(0), x.dim(1)};
  shape.insert(shape.end(), out.begin(), out.end());
  for (const int64_t size : w.kernel) shape.push_back(size);
  const Dims extents = x.shape();
  const auto place = [&](const Dims& i, size_t d) {
    return i[2 + d] * Dim(w.stride[d]) + i[2 + axes + d] * Dim(w.dilation[d]) - Dim(w.before[d]);
  };
  return terms::view(
      x, shape,
      [&](const Dims& i) {
        Dims map{i[0], i[1]};
        for (size_t d = 0; d < axes; d++) map.push_back(place(i, d));
        return map;
      },
      [&](const Dims& i) {
        Dim inside = 1;
        for (size_t d = 0; d < axes; d++)
          inside = inside && place(i, d) >= Dim(0) && place(i, d) < extents[2 + d];
        return inside;
      },
      fill);
}
/// Windows along each axis; with ceil_mode those that begin inside count too, be it the only one.
Dims window_counts(Node& n, const Tensor& x, const Windows& w) {
  const bool up = n.integer("ceil_mode", 0) != 0;
  Dims list;
  for (size_t d = 0; d < w.kernel.size(); d++) {
    const Dim size = x.dim(int(d) + 2);
    const Dim span = size + Dim(w.before[d] + w.after[d] - (w.kernel[d] - 1) * w.dilation[d] - 1);
    Dim count = (span + Dim(up ? w.stride[d] - 1 : 0)) / Dim(w.stride[d]) + Dim(1);
    if (up) count = min(count, (size + Dim(w.before[d] + w.stride[d] - 1)) / Dim(w.stride[d]));
    if (count.high() < 1)
      n.refuse(fmt::format("has a kernel that is larger than its input {}", luminal::to_string(x.shape())));
    list.push_back(count.low() < 0 ? max(count, 0) : count);
  }
  return list;
}
std::vector<int> kernel_axes(size_t axes) {
  std::vector<int> list;
  for (size_t d = 0; d < axes; d++) list.push_back(int(2 + axes + d));
  return list;
}

} // namespace

void MatMul(Node& n) {
  if (const auto product = quantised_matmul(n)) return n.out(*product);
  n.out(n.in(0).matmul(n.in(1)).cast(n.in(0).dtype()));
}
void Gemm(Node& n) {
  const Tensor a = n.integer("transA", 0) ? n.in(0).t() : n.in(0),
               b = n.integer("transB", 0) ? n.in(1).t() : n.in(1);
  const auto product =
      n.integer("transA", 0) ? std::nullopt : quantised_matmul(n, n.integer("transB", 0) != 0);
  Tensor y = product ? *product : a.matmul(b);
  const double alpha = n.number("alpha", 1), beta = n.number("beta", 1);
  if (alpha != 1) y = y * alpha;
  if (n.has(2)) y = y + (beta == 1 ? n.in(2) : n.in(2) * beta);
  n.out(y.cast(n.in(0).dtype()));
}
void Einsum(Node& n) {
  std::vector<Tensor> list;
  for (size_t i = 0; i < n.inputs(); i++) list.push_back(n.in(i));
  std::string equation = n.text("equation", "");
  std::erase(equation, ' ');
  n.out(einsum(equation, list).cast(list.at(0).dtype()));
}
void Det(Node& n) {
  // Elimination with the largest pivot of each column; sizes are small and fixed.
  Tensor x = n.in(0);
  const auto extents = n.extents(x);
  const size_t rank = extents.size();
  if (rank < 2 || extents[rank - 1] != extents[rank - 2] || extents[rank - 1] > 64)
    n.refuse(fmt::format("of {} is not supported: square matrices of at most 64 rows are expected",
                         luminal::to_string(x.shape())));
  const int64_t size = extents[rank - 1];
  Tensor det = ones_like(x.select(-1, 0).select(-1, 0));
  for (int64_t k = 0; k < size; k++) {
    const int64_t m = size - k;
    const Tensor column = x.select(-1, 0).abs();
    const Tensor best = column.argmax(-1, true); // [.., 1]
    Dims flat = x.shape();
    const Tensor row_index = best.unsqueeze(-1).expand([&] {
      Dims s = flat;
      s[rank - 2] = 1;
      return s;
    }());
    const Tensor pivot_row = x.take_along(row_index, -2); // [.., 1, m]
    const Tensor first = x.slice(-2, 0, 1);
    // The pivot row goes to the top, the first row to its place.
    Dims places(rank, Dim(1));
    places[rank - 2] = m;
    const Tensor place = n.graph().iota(places, [&](const Dims& i) { return i[rank - 2]; });
    const Tensor at = best.unsqueeze(-1);
    x = select(equal(place, 0), pivot_row, select(equal(place, at), first, x));
    const Tensor pivot = x.select(-1, 0).select(-1, 0);
    det = det * pivot * select(equal(best.squeeze(-1), 0), 1.0, -1.0).cast(x.dtype());
    if (m == 1) break;
    const Tensor top = x.slice(-2, 0, 1).slice(-1, 1, m), left = x.slice(-2, 1, m).slice(-1, 0, 1);
    const Tensor safe = select(equal(pivot, 0), ones_like(pivot), pivot).unsqueeze(-1).unsqueeze(-1);
    x = x.slice(-2, 1, m).slice(-1, 1, m) - left * (top / safe);
  }
  n.out(det.cast(n.in(0).dtype()));
}

void Conv(Node& n) {
  const Tensor x = n.in(0), weight = n.in(1);
  const auto shape = n.extents(weight);
  if (shape.size() < 3)
    n.refuse(fmt::format("has a weight {}: [channels, channels, kernel..] is expected",
                         luminal::to_string(weight.shape())));
  if (const auto sums = quantised_conv(n))
    return n.out(n.has(2) ? *sums + along(n.in(2), 1, sums->rank()) : *sums);
  const size_t axes = shape.size() - 2;
  Windows w = windows_of(n, x, axes, n.integers("kernel_shape", last(shape, axes)));
  ConvOptions options;
  options.stride = w.stride;
  options.dilation = w.dilation;
  options.groups = n.integer("group", 1);
  if (w.before == w.after)
    return n.out(conv(x, weight, n.maybe(2), (options.padding = w.before, options)).cast(x.dtype()));
  n.out(conv(padded(x, w, 0), weight, n.maybe(2), options).cast(x.dtype()));
}
void ConvTranspose(Node& n) {
  const Tensor x = n.in(0), weight = n.in(1);
  const auto shape = n.extents(weight);
  if (shape.size() < 3)
    n.refuse(fmt::format("has a weight {}: [channels, channels, kernel..] is expected",
                         luminal::to_string(weight.shape())));
  const size_t axes = shape.size() - 2;
  const auto kernel = n.integers("kernel_shape", last(shape, axes));
  const auto stride = n.integers("strides", std::vector<int64_t>(axes, 1)),
             dilation = n.integers("dilations", std::vector<int64_t>(axes, 1)),
             more = n.integers("output_padding", std::vector<int64_t>(axes, 0)),
             wanted = n.integers("output_shape");
  auto pads = n.integers("pads", std::vector<int64_t>(2 * axes, 0));
  const std::string automatic =
      n.one_of("auto_pad", "NOTSET", {"NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"});
  if (kernel.size() != axes || stride.size() != axes || dilation.size() != axes || more.size() != axes ||
      pads.size() != 2 * axes || size_t(x.rank()) != axes + 2)
    n.refuse(fmt::format("has attributes, or an input {}, for another number of axes than its weight {}",
                         luminal::to_string(x.shape()), luminal::to_string(weight.shape())));
  ConvTransposeOptions options;
  options.stride = stride;
  options.dilation = dilation;
  options.groups = n.integer("group", 1);
  Tensor y = conv_transpose(x, weight, {}, options);
  std::vector<Padding> cut;
  const bool same = automatic == "SAME_UPPER" || automatic == "SAME_LOWER";
  for (size_t d = 0; d < axes; d++) {
    // The full result has `size * stride + beyond` elements; `gap`: how many more are wanted.
    const int64_t beyond = (kernel[d] - 1) * dilation[d] + 1 - stride[d];
    int64_t gap = more[d] - pads[d] - pads[d + axes], before = pads[d];
    if (!wanted.empty() || same) {
      gap = -beyond;
      if (!wanted.empty())
        gap =
            (wanted.size() == axes ? wanted[d] : wanted.at(d + 2)) - n.extents(x)[d + 2] * stride[d] - beyond;
      const int64_t all = more[d] - gap;
      before = automatic == "SAME_UPPER" || all < 0 ? all / 2 : all - all / 2;
      if (!same && !wanted.empty() && automatic == "NOTSET") before = all / 2;
    }
    if (before != 0 || gap != 0) cut.push_back({int(d) + 2, -before, gap + before});
  }
  if (!cut.empty()) y = y.pad(cut);
  if (n.has(2)) y = y + along(n.in(2), 1, y.rank());
  n.out(y.cast(x.dtype()));
}

void MaxPool(Node& n) {
  const Tensor x = n.in(0);
  const auto kernel = n.integers("kernel_shape");
  const size_t axes = kernel.size();
  const Windows w = windows_of(n, x, axes, kernel);
  const auto out = window_counts(n, x, w);
  const Tensor all = all_windows(x, w, out, lowest(x.dtype()));
  n.out(0, all.max(kernel_axes(axes)).cast(x.dtype()));
  if (!n.wants(1)) return;
  // The place of the first largest one within its window, and from that its place in x.
  const auto extents = n.extents(x);
  int64_t size = 1;
  for (const int64_t k : kernel) size *= k;
  Dims flat{x.dim(0), x.dim(1)};
  flat.insert(flat.end(), out.begin(), out.end());
  const Dims windows = flat;
  flat.push_back(size);
  const Tensor best = all.reshape(flat).argmax(-1);
  const bool columns_first = n.integer("storage_order", 0) != 0;
  int64_t stride = 1, inner = size;
  std::vector<int64_t> strides(axes);
  for (size_t k = 0; k < axes; k++) {
    const size_t d = columns_first ? k : axes - 1 - k;
    strides[d] = stride;
    stride *= extents[d + 2];
  }
  Tensor place = n.graph().iota(windows, [&](const Dims& i) {
    Dim at = (i[0] * x.dim(1) + i[1]) * Dim(stride);
    for (size_t d = 0; d < axes; d++)
      at = at + (i[d + 2] * Dim(w.stride[d]) - Dim(w.before[d])) * Dim(strides[d]);
    return at;
  });
  for (size_t d = 0; d < axes; d++) {
    inner /= kernel[d];
    place = place + floor_divide(best, inner) % kernel[d] * (w.dilation[d] * strides[d]);
  }
  n.out(1, place);
}
namespace {
Tensor averages(Node& n, const Tensor& x) {
  const auto kernel = n.integers("kernel_shape");
  const size_t axes = kernel.size();
  const Windows w = windows_of(n, x, axes, kernel);
  const auto out = window_counts(n, x, w);
  const bool padding_counts = n.integer("count_include_pad", 0) != 0;
  const Tensor sum = all_windows(x, w, out, 0).sum(kernel_axes(axes));
  // How many elements each window has is a product over the axes.
  const bool up = n.integer("ceil_mode", 0) != 0;
  Tensor y = sum;
  double whole = 1;
  for (size_t d = 0; d < axes; d++) {
    const bool padded = w.before[d] || w.after[d];
    if (!up && (padding_counts || !padded)) { // no window reaches out of what counts
      whole *= double(kernel[d]);
      continue;
    }
    const Dim low = padding_counts ? -w.before[d] : 0;
    const Dim high = x.dim(int(d) + 2) + Dim(padding_counts ? w.after[d] : 0);
    const Tensor counts = n.graph().iota({out[d]}, [&](const Dims& i) {
      Dim count = 0;
      for (int64_t k = 0; k < kernel[d]; k++) {
        const Dim at = i[0] * Dim(w.stride[d]) + Dim(k * w.dilation[d] - w.before[d]);
        count = count + select(at >= low && at < high, Dim(1), Dim(0));
      }
      return count;
    });
    y = y / along(counts.cast(x.dtype() == DType::f64 ? DType::f64 : DType::f32), int(d) + 2, x.rank());
  }
  return y / whole;
}
} // namespace
void AveragePool(Node& n) { n.out(averages(n, n.in(0)).cast(n.in(0).dtype())); }
void QLinearAveragePool(Node& n) {
  Tensor x = dequantised(n, 0);
  if (!n.integer("channels_last", 0)) return out_quantised(n, averages(n, x), 3);
  if (x.rank() < 3)
    n.refuse(fmt::format("has an input {}: batch, sizes and channels are expected",
                         luminal::to_string(x.shape())));
  std::vector<int> first{0, x.rank() - 1}, last_again{0};
  for (int d = 1; d + 1 < x.rank(); d++) first.push_back(d), last_again.push_back(d + 1);
  last_again.push_back(1);
  out_quantised(n, averages(n, x.permute(first)).permute(last_again), 3);
}
void LpPool(Node& n) {
  const Tensor x = n.in(0);
  const auto kernel = n.integers("kernel_shape");
  const Windows w = windows_of(n, x, kernel.size(), kernel);
  const auto p = double(n.integer("p", 2));
  const Tensor all = all_windows(x.abs(), w, window_counts(n, x, w), 0);
  n.out(pow(pow(all, p).sum(kernel_axes(kernel.size())), 1 / p).cast(x.dtype()));
}
namespace {
std::vector<int> spatial(const Tensor& x) {
  std::vector<int> axes;
  for (int d = 2; d < x.rank(); d++) axes.push_back(d);
  return axes;
}
} // namespace
void GlobalAveragePool(Node& n) { n.out(n.in(0).mean(spatial(n.in(0)), true)); }
void GlobalMaxPool(Node& n) { n.out(n.in(0).max(spatial(n.in(0)), true)); }
void GlobalLpPool(Node& n) {
  const auto p = double(n.integer("p", 2));
  n.out(pow(pow(n.in(0).abs(), p).sum(spatial(n.in(0)), true), 1 / p).cast(n.in(0).dtype()));
}
void MaxUnpool(Node& n) {
  const Tensor x = n.in(0), places = n.in(1);
  const auto extents = n.extents(x), kernel = n.integers("kernel_shape");
  const auto stride = n.integers("strides", std::vector<int64_t>(kernel.size(), 1)),
             pads = n.integers("pads", std::vector<int64_t>(2 * kernel.size(), 0));
  if (extents.size() != kernel.size() + 2 || stride.size() != kernel.size() ||
      pads.size() != 2 * kernel.size())
    n.refuse(fmt::format("has an input {}, strides or pads that do not fit its kernel [{}]",
                         luminal::to_string(x.shape()), fmt::join(kernel, ", ")));
  std::vector<int64_t> shape{extents[0], extents[1]};
  for (size_t d = 0; d < kernel.size(); d++)
    shape.push_back((extents[d + 2] - 1) * stride[d] + kernel[d] - pads[d] - pads[d + kernel.size()]);
  const std::vector<int64_t> inferred = shape;
  if (n.has(2)) shape = n.ints(2);
  if (shape.size() != inferred.size())
    n.refuse(fmt::format("has an output_shape [{}], {} axes are expected", fmt::join(shape, ", "),
                         inferred.size()));
  int64_t inner = 1;
  for (const int64_t extent : inferred) inner *= extent;
  // Places are those in the tensor that the attributes describe.
  Tensor flat = zeros(n.graph(), {inner}, x.dtype()).scatter(0, places.reshape({-1}), x.reshape({-1}));
  Tensor y = flat.reshape(Dims(inferred.begin(), inferred.end()));
  if (shape != inferred) {
    std::vector<Padding> more;
    for (size_t d = 0; d < shape.size(); d++)
      if (shape[d] != inferred[d]) more.push_back({int(d), 0, shape[d] - inferred[d]});
    y = y.pad(more);
  }
  n.out(y);
}

void BatchNormalization(Node& n) {
  const Tensor x = n.in(0);
  const double eps = n.number("epsilon", double(1e-5F));
  const int rank = x.rank();
  if (n.opset() >= 14 && n.integer("training_mode", 0) != 0) {
    std::vector<int> axes{0};
    for (int d = 2; d < rank; d++) axes.push_back(d);
    const Tensor mean = x.mean(axes), var = x.var(axes, 0);
    const double momentum = n.number("momentum", double(0.9F));
    n.out(0, batch_norm(x, mean, var, n.in(1), n.in(2), eps).cast(x.dtype()));
    n.out(1, (n.in(3) * momentum + mean * (1 - momentum)).cast(n.in(3).dtype()));
    n.out(2, (n.in(4) * momentum + var * (1 - momentum)).cast(n.in(4).dtype()));
    return;
  }
  for (size_t i = 1; i < n.outputs(); i++)
    if (n.wants(i))
      n.refuse("has results of training (opset 14, training_mode = 1), and does not train: leave them out");
  n.out(batch_norm(x, n.in(3), n.in(4), n.in(1), n.in(2), eps).cast(x.dtype()));
}
void InstanceNormalization(Node& n) {
  n.out(instance_norm(n.in(0), n.in(1), n.in(2), n.number("epsilon", double(1e-5F))).cast(n.in(0).dtype()));
}
void GroupNormalization(Node& n) {
  const Tensor x = n.in(0);
  const int64_t groups = n.integer("num_groups");
  if (groups < 1) n.refuse(fmt::format("has num_groups = {}, at least 1 is expected", groups));
  Tensor scale = n.in(1), bias = n.in(2);
  if (n.opset() < 21) { // one a group
    const Dim each = x.dim(1) / Dim(groups);
    scale = scale.repeat_interleave(each, 0), bias = bias.repeat_interleave(each, 0);
  }
  n.out(group_norm(x, groups, scale, bias, n.number("epsilon", double(1e-5F))).cast(x.dtype()));
}
namespace {
std::vector<int> axes_from(int axis, int rank) {
  std::vector<int> axes;
  for (int d = axis; d < rank; d++) axes.push_back(d);
  return axes;
}
} // namespace
void LayerNormalization(Node& n) {
  const Tensor given = n.in(0);
  const auto stash = ElementType(int32_t(n.integer("stash_type", 1)));
  const Tensor x = given.cast(carrier(stash).value_or(DType::f32));
  const auto axes = axes_from(axis_in(n, n.integer("axis", -1), x.rank()), x.rank());
  const Tensor mean = x.mean(axes, true), away = x - mean;
  const Tensor inverse = (away.square().mean(axes, true) + n.number("epsilon", double(1e-5F))).sqrt().recip();
  Tensor y = (away * inverse).cast(given.dtype()) * n.in(1);
  if (n.has(2)) y = y + n.in(2);
  n.out(0, y.cast(given.dtype()));
  n.out(1, mean);
  n.out(2, inverse);
}
void RMSNormalization(Node& n) {
  const Tensor given = n.in(0);
  const Tensor x = given.cast(carrier(ElementType(int32_t(n.integer("stash_type", 1)))).value_or(DType::f32));
  const auto axes = axes_from(axis_in(n, n.integer("axis", -1), x.rank()), x.rank());
  const Tensor inverse = (x.square().mean(axes, true) + n.number("epsilon", double(1e-5F))).sqrt().recip();
  n.out(((x * inverse).cast(given.dtype()) * n.in(1)).cast(n.in(1).dtype()));
}
void LRN(Node& n) {
  const Tensor x = n.in(0);
  const int64_t size = n.integer("size");
  if (size < 1) n.refuse(fmt::format("has size = {}, at least 1 is expected", size));
  const Tensor square = x.square().pad(1, (size - 1) / 2, size / 2);
  const Tensor sum = square.windows(1, size).sum(-1);
  const double alpha = n.number("alpha", double(1e-4F)), beta = n.number("beta", 0.75),
               bias = n.number("bias", 1);
  n.out((x / pow(sum * (alpha / double(size)) + bias, beta)).cast(x.dtype()));
}
void Dropout(Node& n) {
  const Tensor x = n.in(0);
  const bool training = n.opset() >= 12 && n.has(2) && n.numbers(2).at(0) != 0;
  const double ratio = n.opset() < 12 ? n.number("ratio", 0.5) : n.has(1) ? n.numbers(1).at(0) : 0.5;
  if (training && ratio != 0) {
    const Tensor key =
        random_state_key(n.graph(), "dropout." + n.data().outputs[0], uint64_t(n.integer("seed", 0)));
    const Tensor kept = random_bernoulli(key, x.shape(), 1 - ratio);
    n.out(0, select(kept, x * (1 / (1 - ratio)), zeros_like(x)).cast(x.dtype()));
    n.out(1, kept);
    return;
  }
  n.out_value(0, n.value(0));
  if (n.wants(1)) {
    const Tensor kept = n.graph().constant(1, DType::boolean).expand(x.shape());
    n.out(1, kept);
  }
}
void Col2Im(Node& n) {
  const Tensor x = n.in(0);
  const auto sizes = n.ints(1), kernel = n.ints(2);
  const size_t axes = kernel.size();
  const auto pads = n.integers("pads", std::vector<int64_t>(2 * axes, 0)),
             stride = n.integers("strides", std::vector<int64_t>(axes, 1)),
             dilation = n.integers("dilations", std::vector<int64_t>(axes, 1));
  if (sizes.size() != axes || pads.size() != 2 * axes || stride.size() != axes || dilation.size() != axes)
    n.refuse(fmt::format("has an image [{}], pads, strides or dilations that do not fit its block [{}]",
                         fmt::join(sizes, ", "), fmt::join(kernel, ", ")));
  std::vector<int64_t> wide = sizes;
  for (size_t d = 0; d < axes; d++) wide[d] += pads[d] + pads[d + axes];
  ConvOptions options;
  options.stride = stride;
  options.dilation = dilation;
  Tensor y = fold(x, wide, kernel, options);
  for (size_t d = 0; d < axes; d++)
    if (pads[d] || pads[d + axes]) y = y.slice(int(d) + 2, pads[d], pads[d] + sizes[d]);
  n.out(y);
}

} // namespace ops
} // namespace luminal::onnx
