// luminal/quantize.h -- weights in few bits and activations in eight: formats as terms, so that
// unpacking fuses into whatever reads them.
#pragma once
#include "luminal/graph.h"
#include <source_location>
#include <string_view>
#include <vector>

namespace luminal {

/// A matrix [rows, columns] in codes. A block is a run of unit * steps neighbours of a row, and
/// `tile` rows are interleaved (1: each alone): element (unit * step + i) of block b of row (t *
/// tile + r) is (codes[t, b, step, r, i] - zero) * scale[t, b, r] - offset[t, b, r].
struct QuantizedWeight {
  Tensor codes;          ///< u8, i8 or u4 [rows / tile, blocks, steps, tile, unit]
  Tensor scale;          ///< f32 [rows / tile, blocks, tile]
  int zero = 0;          ///< of all blocks, 0..255
  Tensor offset = scale; ///< f32 as the scale, where `has_offset`
  bool has_offset = false;
  int64_t width = 0; ///< columns, where the last block is not full (the rest of it means nothing); 0: all
  int64_t rows() const, columns() const, block() const; ///< block: elements
};

/// How the codes of several rows lie. apart: row after row. Else 16 rows beside each other (8, 4
/// where they do not divide), put in this order once, at load, so that the lanes of a vector are
/// rows: in words of four bytes of codes, which dot instructions read, or as products with f32 like
/// them: bytes apart, 4-bit codes in words.
enum class RowOrder : uint8_t { apart, words, bytes };

/// How a weight is quantised.
struct WeightFormat {
  int bits = 8;          ///< 8 or 4
  bool symmetric = true; ///< the range is -largest .. largest; else each group has its own least value
  /// Neighbours of a row that share a scale, a multiple of 32 (the last group may have fewer); 0:
  /// the whole row (per channel).
  int64_t group = 32;
};

/// The nearest codes of `values` [rows, columns] (row-major; any weight: of a convolution rows are
/// output channels): bytes that quantized_weight reads. Round to nearest even; scales f32. Throws
/// Error for values that are not finite, or sizes that do not fit.
struct PackedWeight {
  WeightFormat format;
  int64_t rows = 0, columns = 0;
  /// u8 [rows, columns filled up to a multiple of 32], or two in a byte (the even one low).
  std::vector<std::byte> codes;
  std::vector<float> scales;  ///< [rows, groups]
  std::vector<float> offsets; ///< the same, or empty where symmetric
};
PackedWeight quantize_weight(const std::vector<float>& values, int64_t rows, int64_t columns,
                             const WeightFormat& format = {},
                             std::source_location where = std::source_location::current());
/// The packed weight as weights NAME.codes, NAME.scales and NAME.offsets of the graph, which copies
/// the bytes; a product reads the copy in `order`.
QuantizedWeight quantized_weight(Graph& graph, std::string_view name, const PackedWeight& packed,
                                 RowOrder order = RowOrder::apart,
                                 std::source_location where = std::source_location::current());
/// A matrix in blocks of GGUF (Q8_0 Q4_0 Q4_1 Q5_0 Q5_1 Q2_K Q3_K Q4_K Q5_K Q6_K Q8_K IQ4_NL IQ4_XS
/// MXFP4 TQ1_0 TQ2_0; tensors_in names a file's) as the weight NAME, u8 [rows, bytes of a row], which load
/// gives the bytes of a file where they lie. They stay packed: a product unpacks them in registers.
QuantizedWeight quantized_weight(Graph& graph, std::string_view name, std::string_view type, int64_t rows,
                                 int64_t columns, RowOrder order = RowOrder::apart,
                                 std::source_location where = std::source_location::current());
/// The most rows beside each other that divide `rows`: 16, 8, 4 or 1.
int64_t row_tile(int64_t rows);
/// x [rows, ..., count * unit]: [rows / tile, ..., count, tile, unit], put in this order once where
/// x is made of weights. tile 1: a view.
Tensor interleave_rows(const Tensor& x, int64_t tile, int64_t unit,
                       std::source_location where = std::source_location::current());

/// f32 [rows, columns]: exact values of the codes. A product with it reads the codes only.
Tensor dequantize(const QuantizedWeight& weight,
                  std::source_location where = std::source_location::current());

/// Activations [m, k] in blocks of 32 as in Q8_0: x ~ values * scale, scale = largest |x| of the
/// block / 127.
struct QuantizedRows {
  Tensor values;     ///< i8 [m, k filled up with zeros to a multiple of 32]
  Tensor scale;      ///< f32 [m, blocks]
  int64_t width = 0; ///< k
};
QuantizedRows quantize_rows(const Tensor& x, std::source_location where = std::source_location::current());

/// x times the transpose of the weight: f32 [m, rows]. Sums of integer products, exact within a
/// block. The only error against the product of x itself with dequantize(weight) is that of the
/// activations: at most scale / 2 in each (0.4 % of the largest of its block).
Tensor matmul_transposed(const QuantizedRows& x, const QuantizedWeight& weight,
                         std::source_location where = std::source_location::current());
/// f32 [m, k] times the transpose of the weight: f32 [m, rows]. The same as with dequantize(weight)
/// but for rounding: the sum of a block is multiplied by its scale once. `order` bytes is what it
/// reads fastest. Throws Error where the inner sizes differ, or a block is not known.
Tensor matmul_transposed(const Tensor& x, const QuantizedWeight& weight,
                         std::source_location where = std::source_location::current());

} // namespace luminal
