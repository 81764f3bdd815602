// models/weights.cpp -- files' tensors as weights; unpacking of block formats as terms.
#include "models/weights.h"
#include <fmt/format.h>

namespace luminal::models {
namespace {

std::optional<DType> plain_dtype(StorageType type) {
  switch (type) {
  case StorageType::f64: return DType::f64;
  case StorageType::f32: return DType::f32;
  case StorageType::f16: return DType::f16;
  case StorageType::bf16: return DType::bf16;
  default: return {};
  }
}

/// Bytes begin .. begin + count of every block, as `type`: [rows, blocks, elements].
Tensor field(const Tensor& blocks, int64_t begin, int64_t count, DType type) {
  Tensor bytes = blocks.slice(2, begin, begin + count);
  return type == DType::u8 ? bytes : bytes.bitcast(type);
}
Tensor as_f32(const Tensor& x) { return x.cast(DType::f32); }

} // namespace

Tensor unpack_q8_0(const Tensor& raw, int64_t rows, int64_t columns) {
  Tensor blocks = raw.reshape({rows, columns / 32, 34});
  Tensor scale = as_f32(field(blocks, 0, 2, DType::f16)); // [rows, blocks, 1]
  Tensor q = as_f32(field(blocks, 2, 32, DType::i8));     // [rows, blocks, 32]
  return (q * scale).reshape({rows, columns});
}

Tensor unpack_q4_0(const Tensor& raw, int64_t rows, int64_t columns) {
  const int64_t n = columns / 32;
  Tensor blocks = raw.reshape({rows, n, 18});
  Tensor scale = as_f32(field(blocks, 0, 2, DType::f16)); // [rows, blocks, 1]
  // Byte j holds element j in its low half and element j + 16 in its high half.
  Tensor q = field(blocks, 2, 16, DType::u4).reshape({rows, n, 16, 2}).transpose(2, 3).reshape({rows, n, 32});
  return ((as_f32(q) - 8) * scale).reshape({rows, columns});
}

namespace {

/// Scale and minimum, f32 [rows, blocks, 8], of the eight groups of Q4_K and Q5_K.
struct GroupScales {
  Tensor scale, minimum;
};

GroupScales group_scales(const Tensor& blocks) {
  Tensor d = as_f32(field(blocks, 0, 2, DType::f16)),
         dmin = as_f32(field(blocks, 2, 2, DType::f16)); // [rows, blocks, 1]
  // Eight 6-bit scales and eight 6-bit minima in 12 bytes: the first four of each lie whole in bytes 0-3 and 4-7; of the last four the low halves
  // are the nibbles of bytes 8-11, the upper two bits the tops of bytes 0-3 and 4-7.
  Tensor a = field(blocks, 4, 4, DType::u8), b = field(blocks, 8, 4, DType::u8),
         c = field(blocks, 12, 4, DType::u8);
  Tensor scales = concat({a & 63, (c & 15) | ((a >> 6) << 4)}, 2),
         minima = concat({b & 63, (c >> 4) | ((b >> 6) << 4)}, 2);
  return {as_f32(scales) * d, as_f32(minima) * dmin};
}

} // namespace

Tensor unpack_q4_k(Graph&, const Tensor& raw, int64_t rows, int64_t columns) {
  const int64_t n = columns / 256;
  Tensor blocks = raw.reshape({rows, n, 144});
  auto [scale, minimum] = group_scales(blocks);
  // Each of four groups of 32 bytes holds 32 elements in its low halves and the next 32 in its high halves.
  Tensor q = field(blocks, 16, 128, DType::u4)
                 .reshape({rows, n, 4, 32, 2})
                 .transpose(3, 4); // [rows, blocks, 4, half, 32]
  return (as_f32(q) * scale.reshape({rows, n, 4, 2, 1}) - minimum.reshape({rows, n, 4, 2, 1}))
      .reshape({rows, columns});
}

Tensor unpack_q5_k(Graph& graph, const Tensor& raw, int64_t rows, int64_t columns) {
  const int64_t n = columns / 256;
  Tensor blocks = raw.reshape({rows, n, 176});
  auto [scale, minimum] = group_scales(blocks);
  // As Q4_K; the fifth bit of element l of group g is bit g of byte l of the 32 bytes before.
  Tensor low = field(blocks, 48, 128, DType::u4)
                   .reshape({rows, n, 4, 32, 2})
                   .transpose(3, 4)
                   .reshape({rows, n, 8, 32});
  Tensor shift = graph.arange(8, DType::u8).reshape({8, 1});
  Tensor high = (field(blocks, 16, 32, DType::u8).reshape({rows, n, 1, 32}) >> shift) & 1;
  Tensor q = as_f32(low) + as_f32(high) * 16; // [rows, blocks, 8, 32]
  return (q * scale.unsqueeze(3) - minimum.unsqueeze(3)).reshape({rows, columns});
}

Tensor unpack_q6_k(Graph& graph, const Tensor& raw, int64_t rows, int64_t columns) {
  const int64_t n = columns / 256;
  Tensor blocks = raw.reshape({rows, n, 210});
  // Two halves of 128 elements. Quarter 2*nibble + part, element l: low four bits in nibble `nibble` of byte 32*part + l, upper two in bits 2*quarter of byte l of qh.
  Tensor low = field(blocks, 0, 128, DType::u4)
                   .reshape({rows, n, 2, 2, 32, 2})
                   .permute({0, 1, 2, 5, 3, 4})
                   .reshape({rows, n, 2, 4, 32});
  Tensor shift = (graph.arange(4, DType::u8) * 2).reshape({4, 1});
  Tensor high = (field(blocks, 128, 64, DType::u8).reshape({rows, n, 2, 1, 32}) >> shift) & 3;
  Tensor q = as_f32(low) + as_f32(high) * 16 - 32; // [rows, blocks, 2, 4, 32]
  Tensor scales =
      as_f32(field(blocks, 192, 16, DType::i8)).reshape({rows, n, 2, 4, 2, 1}); // one for 16 elements
  Tensor d = as_f32(field(blocks, 208, 2, DType::f16)).reshape({rows, n, 1, 1, 1, 1});
  return (q.reshape({rows, n, 2, 4, 2, 16}) * (scales * d)).reshape({rows, columns});
}

Tensor file_weight(Graph& graph, const ModelFile& file, const TensorView& view) {
  std::shared_ptr<const void> owner = view.file_index < file.files.size()
                                          ? file.files[view.file_index]
                                          : nullptr; // none: bytes of the program
  if (auto dtype = plain_dtype(view.type)) {
    Dims shape(view.shape.begin(), view.shape.end());
    Tensor weight = graph.weight(view.name, shape, *dtype);
    weight.borrow(view.bytes.data(), view.bytes.size(), owner);
    return weight;
  }
  int64_t columns = view.shape.empty() ? 1 : view.shape.back();
  int64_t rows = columns ? view.elements() / columns : 0;
  const auto& info = storage_info(view.type);
  Tensor raw = graph.weight(view.name, {rows, columns / info.block_elements * info.block_bytes}, DType::u8);
  raw.borrow(view.bytes.data(), view.bytes.size(), owner);
  Tensor values;
  switch (view.type) {
  case StorageType::q8_0: values = unpack_q8_0(raw, rows, columns); break;
  case StorageType::q4_0: values = unpack_q4_0(raw, rows, columns); break;
  case StorageType::q4_k: values = unpack_q4_k(graph, raw, rows, columns); break;
  case StorageType::q5_k: values = unpack_q5_k(graph, raw, rows, columns); break;
  case StorageType::q6_k: values = unpack_q6_k(graph, raw, rows, columns); break;
  default:
    throw Error(
        fmt::format("{}: tensor {} is stored as {}; F64 F32 F16 BF16 Q8_0 Q4_0 Q4_K Q5_K Q6_K can be run",
                    file.path, view.name, info.name));
  }
  return view.shape.size() == 2 ? values : values.reshape(Dims(view.shape.begin(), view.shape.end()));
}

} // namespace luminal::models
