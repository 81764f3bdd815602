// tensor/quantize.cpp -- quantised weights and activations, composed from primitives.
#include "luminal/quantize.h"
#include "luminal/error.h"
#include "tensor/graph_state.h"
#include <algorithm>
#include <cmath>
#include <fmt/format.h>

namespace luminal {
namespace {

constexpr int64_t row_block = 32; // activations that share a scale

int64_t blocks_of(int64_t columns) { return (columns + row_block - 1) / row_block; }

/// The last axis with zeros behind it.
Tensor filled_up(const Tensor& x, int64_t to, Where where) {
  const int64_t columns = x.shape().back().value();
  return columns == to ? x : x.pad(int(x.rank()) - 1, 0, to - columns, 0, where);
}

/// The first ones along axis 1.
Tensor first_of(const Tensor& x, int64_t count, Where where) {
  return x.shape()[1] == Dim(count) ? x : x.slice(1, 0, count, 1, where);
}

Tensor as_f32(const Tensor& x, Where where) { return x.cast(DType::f32, where); }

} // namespace

int64_t QuantizedWeight::rows() const { return codes.shape()[0].value() * codes.shape()[3].value(); }
int64_t QuantizedWeight::block() const { return codes.shape()[2].value() * codes.shape()[4].value(); }
int64_t QuantizedWeight::columns() const { return width ? width : codes.shape()[1].value() * block(); }

int64_t row_tile(int64_t rows) {
  for (int64_t tile : {16, 8, 4})
    if (rows % tile == 0) return tile;
  return 1;
}

Tensor interleave_rows(const Tensor& x, int64_t tile, int64_t unit, Where where) {
  graph_of("interleave_rows", {&x}, where);
  const Dims shape = x.shape();
  const int last = int(shape.size()) - 1;
  if (last < 1 || !shape[0].is_constant() || !shape[size_t(last)].is_constant() || tile < 1 || unit < 1 ||
      shape[0].value() % tile || shape[size_t(last)].value() % unit)
    throw Error("interleave_rows",
                fmt::format("{} is not made of {} rows and runs of {}", to_string(shape), tile, unit), where);
  Dims apart{shape[0].value() / tile, tile};
  apart.insert(apart.end(), shape.begin() + 1, shape.end() - 1);
  apart.insert(apart.end(), {shape[size_t(last)].value() / unit, unit});
  std::vector<int> order{0};
  for (int d = 2; d <= last + 1; d++) order.push_back(d);
  order.insert(order.end(), {1, last + 2});
  Tensor rows = x.reshape(apart, where).permute(order, where);
  return tile == 1 ? rows : rows.contiguous(where);
}

PackedWeight quantize_weight(const std::vector<float>& values, int64_t rows, int64_t columns,
                             const WeightFormat& format, Where where) {
  const auto refuse = [&](const std::string& why) { throw Error("quantize_weight", why, where); };
  if (format.bits != 8 && format.bits != 4) refuse(fmt::format("{} bits: 8 and 4 are known", format.bits));
  if (rows < 1 || columns < 1 || format.group < 0 || format.group % row_block)
    refuse(fmt::format("[{}, {}] in groups of {}: groups are multiples of {}", rows, columns, format.group,
                       row_block));
  if (values.size() != size_t(rows) * size_t(columns))
    refuse(fmt::format("{} values are no [{}, {}]", values.size(), rows, columns));
  PackedWeight packed{format, rows, columns, {}, {}, {}};
  const int most = format.bits == 8 ? 255 : 15, middle = (most + 1) / 2;
  const int64_t stored = blocks_of(columns) * row_block, group = format.group ? format.group : stored;
  packed.codes.resize(size_t(rows * stored * format.bits / 8));
  for (int64_t row = 0; row < rows; row++)
    for (int64_t first = 0; first < columns; first += group) {
      const float* from = values.data() + row * columns;
      const int64_t end = std::min(first + group, columns);
      float low = from[first], high = low;
      for (int64_t i = first; i < end; i++) {
        if (!std::isfinite(from[i])) refuse(fmt::format("value {} is {}", row * columns + i, from[i]));
        low = std::min(low, from[i]), high = std::max(high, from[i]);
      }
      float scale, offset = 0;
      if (format.symmetric) {
        scale = std::max(std::fabs(low), std::fabs(high)) / float(middle - 1);
      } else {
        scale = float((double(high) - double(low)) / most);
        offset = -low;
        packed.offsets.push_back(offset);
      }
      packed.scales.push_back(scale);
      for (int64_t i = first; i < end; i++) {
        const double step = scale > 0 ? (double(from[i]) + double(offset)) / double(scale) : 0;
        const double code =
            std::clamp(std::nearbyint(step) + (format.symmetric ? middle : 0), 0.0, double(most));
        const auto bits = std::byte(uint8_t(code));
        const auto at = size_t(row * stored + i);
        if (format.bits == 8)
          packed.codes[at] = bits;
        else
          packed.codes[at / 2] |= at % 2 ? bits << 4 : bits;
      }
    }
  return packed;
}

QuantizedWeight quantized_weight(Graph& graph, std::string_view name, const PackedWeight& packed,
                                 RowOrder order, Where where) {
  const int64_t rows = packed.rows, count = blocks_of(packed.columns), columns = count * row_block,
                bits = packed.format.bits, group = packed.format.group ? packed.format.group : columns,
                groups = (columns + group - 1) / group, tile = order == RowOrder::apart ? 1 : row_tile(rows),
                tiles = rows / tile,
                unit = order != RowOrder::bytes ? 4
                       : bits == 4              ? 8
                                                : 1;
  const auto tensor = [&](const char* part, Dims shape, DType dtype, const void* data, size_t bytes) {
    Tensor t = graph.weight(fmt::format("{}.{}", name, part), std::move(shape), dtype, where);
    t.set_bytes({static_cast<const std::byte*>(data), bytes}, dtype, where);
    return t;
  };
  // Groups in blocks of 32: all of them read the scale of their group.
  const auto blocks = [&](const char* part, const std::vector<float>& values) {
    Tensor of_groups =
        interleave_rows(tensor(part, {rows, groups}, DType::f32, values.data(), values.size() * 4), tile, 1,
                        where); // [tiles, groups, tile, 1]
    return first_of(of_groups.reshape({tiles, groups, 1, tile}, where)
                        .expand({tiles, groups, group / row_block, tile}, where)
                        .reshape({tiles, groups * group / row_block, tile}, where),
                    count, where); // the last group may have fewer
  };
  Tensor codes =
      tensor("codes", {rows, columns * bits / 8}, DType::u8, packed.codes.data(), packed.codes.size());
  codes =
      interleave_rows(codes, tile, unit * bits / 8, where); // [tiles, columns / unit, tile, bytes of a unit]
  if (bits == 4) codes = codes.bitcast(DType::u4, where);
  codes = codes.reshape({tiles, count, row_block / unit, tile, unit}, where);
  const Tensor scale = blocks("scales", packed.scales);
  const int zero = packed.format.symmetric ? (bits == 8 ? 128 : 8) : 0;
  const int64_t width = packed.columns == columns ? 0 : packed.columns;
  if (packed.format.symmetric) return {codes, scale, zero, scale, false, width};
  return {codes, scale, zero, blocks("offsets", packed.offsets), true, width};
}

Tensor dequantize(const QuantizedWeight& w, Where where) {
  const Dims shape = w.codes.shape();
  const Dims beside{shape[0], shape[1], 1, shape[3], 1};
  Tensor codes = as_f32(w.codes, where);
  if (w.zero) codes = codes - w.zero;
  Tensor values = codes * w.scale.reshape(beside);
  if (w.has_offset) values = values - w.offset.reshape(beside);
  return first_of(values.permute({0, 3, 1, 2, 4}).reshape({w.rows(), shape[1] * w.block()}), w.columns(),
                  where);
}

QuantizedRows quantize_rows(const Tensor& x, Where where) {
  graph_of("quantize_rows", {&x}, where);
  if (x.rank() != 2 || !x.shape()[1].is_constant() || x.shape()[1].value() < 1)
    throw Error("quantize_rows", fmt::format("{} is not [m, k] with a known k", to_string(x.shape())), where);
  const Dim m = x.shape()[0];
  const int64_t width = x.shape()[1].value(), k = blocks_of(width) * row_block;
  Tensor blocks = filled_up(x.cast(DType::f32), k, where).reshape({m, k / row_block, row_block});
  Tensor scale = (blocks * (1.0 / 127)).abs().max({2}, true); // [m, blocks, 1]
  Tensor inverse = select(equal(scale, 0.0), 0.0, 1.0 / scale);
  Tensor values = (blocks * inverse).round().cast(DType::i8);
  return {values.reshape({m, k}), scale.squeeze(2), width};
}

Tensor matmul_transposed(const QuantizedRows& x, const QuantizedWeight& w, Where where) {
  graph_of("matmul_transposed", {&x.values, &x.scale, &w.codes, &w.scale}, where);
  const Dim m = x.values.shape()[0];
  const Dims shape = w.codes.shape();
  const int64_t rows = w.rows(), block = w.block();
  const Dim tiles = shape[0], blocks = shape[1], steps = shape[2], tile = shape[3];
  const Dim inner = x.width ? Dim(x.width) : x.values.shape()[1];
  if (inner != Dim(w.columns()))
    throw Error("matmul_transposed",
                fmt::format("inner sizes differ: {} x [{}, {}] transposed", to_string(Dims{m, inner}), rows,
                            w.columns()),
                where);
  if (row_block % block || shape[4] != Dim(4) || x.values.shape()[1] != blocks * block)
    throw Error("matmul_transposed",
                fmt::format("blocks of {} (codes {}) do not fit those of the activations ({}, in words of 4)",
                            block, to_string(w.codes.shape()), row_block),
                where);
  // What belongs to a block, beside [m, tiles, blocks, steps, tile]. Rows that stand alone have the
  // steps as lanes: then each step is a sum of its own.
  const bool alone = tile == Dim(1);
  const std::vector<int> summed = alone ? std::vector<int>{5} : std::vector<int>{3, 5};
  Tensor xv = x.values.reshape({m, 1, blocks, steps, 1, 4}).cast(DType::i32);
  // In i32, which the sums of 32 products of bytes fit by far: Tensor::sum would widen to i64.
  const auto total = [&](const Tensor& t) {
    return fold(Op::add, "matmul_transposed", t, summed, true, where).squeeze(5);
  };
  Tensor products = total(w.codes.unsqueeze(0).cast(DType::i32) * xv);
  if (w.zero) products = products + total(xv * -w.zero); // what a constant in all codes adds, known before
  Tensor scale =
      x.scale.unsqueeze(2).expand({m, x.scale.shape()[1], row_block / block}).reshape({m, 1, blocks, 1, 1});
  const auto of_blocks = [&](const Tensor& t) { return t.reshape({1, tiles, blocks, 1, tile}); };
  Tensor terms = as_f32(products, where) * (of_blocks(w.scale) * scale);
  if (w.has_offset) // of each block of x once, not for each row of the weight
    terms = terms - of_blocks(w.offset) * (as_f32(total(xv), where) * scale).contiguous();
  return terms.sum({2, 3}).reshape({m, rows});
}

Tensor matmul_transposed(const Tensor& x, const QuantizedWeight& w, Where where) {
  graph_of("matmul_transposed", {&x, &w.codes, &w.scale}, where);
  const int64_t rows = w.rows(), columns = w.columns();
  if (x.rank() != 2 || x.shape()[1] != Dim(columns))
    throw Error(
        "matmul_transposed",
        fmt::format("inner sizes differ: {} x [{}, {}] transposed", to_string(x.shape()), rows, columns),
        where);
  const Dim m = x.shape()[0];
  const Dims shape = w.codes.shape();
  const Dim tiles = shape[0], blocks = shape[1], steps = shape[2], tile = shape[3], unit = shape[4];
  const int64_t stored = shape[1].value() * w.block();
  Tensor xv = filled_up(as_f32(x, where), stored, where).reshape({m, 1, blocks, steps, 1, unit}, where);
  Tensor codes = as_f32(w.codes, where);
  if (w.zero) codes = codes - w.zero;
  const auto of_blocks = [&](const Tensor& t) { return t.reshape({1, tiles, blocks, tile}, where); };
  Tensor terms = (codes.unsqueeze(0) * xv).sum({3, 5}) * of_blocks(w.scale); // [m, tiles, blocks, tile]
  if (w.has_offset) // of each block of x once, not for each row of the weight
    terms = terms -
            of_blocks(w.offset) * xv.sum({1, 3, 4, 5}).reshape({m, 1, blocks, 1}, where).contiguous(where);
  return terms.sum({2}).reshape({m, rows}, where);
}

} // namespace luminal
