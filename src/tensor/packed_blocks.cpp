// tensor/packed_blocks.cpp -- block formats of GGUF as terms.
#include "tensor/packed_blocks.h"
#include "luminal/indexing.h"
#include "tensor/graph_state.h"
#include <algorithm>
#include <array>
#include <fmt/format.h>

namespace luminal {
namespace {

/// Bytes begin .. begin + count of every block, as `type`: [rows, blocks, elements].
Tensor field(const Tensor& blocks, int64_t begin, int64_t count, DType type) {
  Tensor bytes = blocks.slice(2, begin, begin + count);
  return type == DType::u8 ? bytes : bytes.bitcast(type);
}
Tensor as_f32(const Tensor& x) { return x.cast(DType::f32); }

constexpr StorageType packed_types[] = {
    StorageType::q8_0,   StorageType::q4_0,  StorageType::q4_1,  StorageType::q5_0,
    StorageType::q5_1,   StorageType::q2_k,  StorageType::q3_k,  StorageType::q4_k,
    StorageType::q5_k,   StorageType::q6_k,  StorageType::q8_k,  StorageType::iq4_nl,
    StorageType::iq4_xs, StorageType::mxfp4, StorageType::tq1_0, StorageType::tq2_0};

struct Order {
  int64_t tile, unit; // rows beside each other, neighbours of a row that stay together
};

/// The fields of block formats, several rows beside each other.
class Blocks {
public:
  Blocks(const Tensor& raw, int64_t rows, int64_t columns, int64_t block, int64_t bytes, Order order)
      : blocks_(raw.reshape({rows, columns / block, bytes})), tile_(order.tile), unit_(order.unit),
        tiles_(rows / order.tile), count_(columns / block) {}

  /// Bytes begin .. begin + count of every block in runs: u8 [tiles, blocks, count / unit, tile,
  /// unit].
  Tensor words(int64_t begin, int64_t count, int flipped = 0) const {
    Tensor bytes = field(blocks_, begin, count, DType::u8);
    return interleave_rows(flipped ? bytes ^ flipped : bytes, tile_, unit_);
  }
  /// The halves of words: u4 [tiles, blocks, parts, half, count / unit / parts, tile, unit].
  Tensor halves(int64_t begin, int64_t count, int64_t parts) const {
    return halves(words(begin, count), parts);
  }
  Tensor halves(const Tensor& words, int64_t parts) const {
    return words
        .bitcast(DType::u4) // a byte's halves are neighbours
        .reshape({tiles_, count_, parts, words.shape()[2].value() / parts, tile_, unit_, 2})
        .permute({0, 1, 2, 6, 3, 4, 5});
  }
  /// One number each, or several: [tiles, blocks, n, tile].
  Tensor numbers(int64_t begin, int64_t count, DType type) const {
    return beside(field(blocks_, begin, count, type));
  }
  Tensor beside(const Tensor& numbers) const { return interleave_rows(numbers, tile_, 1).squeeze(-1); }
  const Tensor& bytes() const { return blocks_; }

private:
  Tensor blocks_;
  int64_t tile_, unit_, tiles_, count_;
};

/// Fields of blocks one behind the other in one array, where rows are interleaved: memory is then
/// read at one place.
std::vector<Tensor> in_one_stream(const std::vector<Tensor>& fields, Order order) {
  if (order.tile == 1) return fields;
  const auto bytes = [](const Tensor& field) { // of a block, in elements
    int64_t count = 1;
    for (size_t d = 2; d < field.shape().size(); d++) count *= field.shape()[d].value();
    return count;
  };
  std::vector<Tensor> flat, parts;
  for (const Tensor& field : fields)
    flat.push_back(field.reshape({field.shape()[0], field.shape()[1], bytes(field)}));
  const Tensor stream = concat(flat, 2).contiguous();
  int64_t at = 0;
  for (const Tensor& field : fields) {
    parts.push_back(stream.slice(2, at, at + bytes(field)).reshape(field.shape()));
    at += bytes(field);
  }
  return parts;
}

QuantizedWeight packed_q8_0(const Tensor& raw, int64_t rows, int64_t columns, Order order) {
  const Blocks blocks(raw, rows, columns, 32, 34, order);
  if (order.unit == 1)
    return {blocks.words(2, 32).bitcast(DType::i8), as_f32(blocks.numbers(0, 2, DType::f16)).squeeze(2), 0};
  // Signed bytes as unsigned ones, 128 more: so dot instructions want them.
  return {blocks.words(2, 32, 128), as_f32(blocks.numbers(0, 2, DType::f16)).squeeze(2), 128};
}

/// Q4_0, Q4_1, Q5_0, Q5_1: a scale, with `minimum` the least value, with `fifth` four bytes of
/// fifth bits, then 16 bytes of low bits.
QuantizedWeight packed_nibbles(const Tensor& raw, int64_t rows, int64_t columns, Order order, bool minimum,
                               bool fifth) {
  const int64_t high_at = minimum ? 4 : 2, low_at = high_at + (fifth ? 4 : 0), tile = order.tile,
                unit = order.unit, tiles = rows / tile, count = columns / 32;
  const Blocks blocks(raw, rows, columns, 32, low_at + 16, order);
  // Byte j holds element j in its low half and element j + 16 in its high half.
  Tensor codes = blocks.halves(low_at, 16, 1).reshape({tiles, count, 32 / unit, tile, unit});
  if (fifth) {
    // The fifth bit of element e is bit e % 8 of byte e / 8. Put in another order at load, bit e /
    // 4 of byte e % 4, it is a shift by the step for all four bytes of a word.
    Graph graph(raw.graph());
    Tensor shift = graph.arange(8, DType::u8);
    Tensor bits = (field(blocks.bytes(), high_at, 4, DType::u8).unsqueeze(3) >> shift) & 1;
    Tensor bytes = (bits.reshape({rows, count, 8, 4}) << shift.reshape({8, 1})).sum({2}).cast(DType::u8);
    Tensor high = ((interleave_rows(bytes, tile, unit).unsqueeze(2) >> shift.reshape({8, 1, 1, 1})) & 1)
                      .reshape({tiles, count, 32 / unit, tile, unit});
    codes = codes.cast(DType::u8) | (high << 4);
  }
  const Tensor scale = as_f32(blocks.numbers(0, 2, DType::f16)).squeeze(2);
  if (!minimum) return {codes, scale, fifth ? 16 : 8};
  return {codes, scale, 0, -as_f32(blocks.numbers(2, 2, DType::f16)).squeeze(2), true};
}

/// Q4_K and Q5_K, with scales and minima of their groups of 32 as blocks. high_bits: bytes of the
/// fifth bits.
QuantizedWeight grouped(const Tensor& raw, int64_t rows, int64_t columns, Order order, int64_t high_bits) {
  const Blocks blocks(raw, rows, columns, 256, 144 + high_bits, order);
  // Eight 6-bit scales and eight 6-bit minima in 12 bytes: the first four of each lie whole in
  // bytes 0-3 and 4-7; of the last four the low halves are the nibbles of bytes 8-11, the upper two
  // bits the tops of bytes 0-3 and 4-7.
  Tensor a = field(blocks.bytes(), 4, 4, DType::u8), b = field(blocks.bytes(), 8, 4, DType::u8),
         c = field(blocks.bytes(), 12, 4, DType::u8);
  const auto of_blocks = in_one_stream({blocks.numbers(0, 2, DType::f16), blocks.numbers(2, 2, DType::f16)},
                                       order); // [tiles, blocks, 1, tile]
  std::vector<Tensor> fields{
      blocks.beside(concat({a & 63, (c & 15) | ((a >> 6) << 4)}, 2)),
      blocks.beside(concat({b & 63, (c >> 4) | ((b >> 6) << 4)}, 2)), // [tiles, blocks, 8, tile]
      blocks.words(16 + high_bits, 128)};
  fields = in_one_stream(fields, order);
  // Each of four groups of 32 bytes holds 32 elements in its low halves and the next 32 in its high
  // halves.
  Tensor codes = blocks.halves(fields[2], 4);
  if (high_bits) {
    // The fifth bit of element l of group g is bit g of byte l.
    Tensor shift = Graph(raw.graph()).arange(8, DType::u8).reshape({8, 1, 1, 1});
    Tensor high = (blocks.words(16, high_bits).unsqueeze(2) >> shift) & 1;
    codes = codes.reshape({rows / order.tile, columns / 256, 8, 32 / order.unit, order.tile, order.unit})
                .cast(DType::u8) |
            (high << 4);
  }
  const Dims of_groups{rows / order.tile, columns / 32, order.tile};
  return {codes.reshape({rows / order.tile, columns / 32, 32 / order.unit, order.tile, order.unit}),
          (as_f32(fields[0]) * as_f32(of_blocks[0])).reshape(of_groups), 0,
          (as_f32(fields[1]) * as_f32(of_blocks[1])).reshape(of_groups), true};
}

QuantizedWeight packed_q6_k(const Tensor& raw, int64_t rows, int64_t columns, Order order) {
  const int64_t n = columns / 256, tile = order.tile, unit = order.unit, tiles = rows / tile,
                steps = 32 / unit;
  const Blocks blocks(raw, rows, columns, 256, 210, order);
  // Two sides of 128 elements. Quarter 2*half + part, element l: low four bits in half `half` of
  // byte 32*part + l, upper two in bits 2*quarter of byte l of qh.
  Tensor low = blocks
                   .halves(0, 128, 4) // [tiles, n, side and part, half, steps, tile, unit]
                   .reshape({tiles, n, 2, 2, 2, steps, tile, unit})
                   .transpose(3, 4)
                   .reshape({tiles, n, 2, 4, steps, tile, unit});
  Tensor shift = (Graph(raw.graph()).arange(4, DType::u8) * 2).reshape({4, 1, 1, 1});
  Tensor high = (blocks.words(128, 64).reshape({tiles, n, 2, 1, steps, tile, unit}) >> shift) & 3;
  Tensor scales = as_f32(blocks.numbers(192, 16, DType::i8)) *
                  as_f32(blocks.numbers(208, 2, DType::f16)); // [tiles, n, 16, tile]: one for 16 elements
  return {(low.cast(DType::u8) | (high << 4)).reshape({tiles, columns / 16, 16 / unit, tile, unit}),
          scales.reshape({tiles, columns / 16, tile}), 32};
}

/// Two bits of each element: four neighbours of 32 in a byte of the 64 at `begin`. u8 [tiles,
/// blocks, 2, 4, 32 / unit, tile, unit]: half and quarter of the block, element.
Tensor two_bits(const Blocks& blocks, const Tensor& raw, int64_t begin, int64_t tiles, int64_t count,
                Order order) {
  Tensor shift = (Graph(raw.graph()).arange(4, DType::u8) * 2).reshape({4, 1, 1, 1});
  return (blocks.words(begin, 64).reshape({tiles, count, 2, 1, 32 / order.unit, order.tile, order.unit}) >>
          shift) &
         3;
}

QuantizedWeight packed_q2_k(const Tensor& raw, int64_t rows, int64_t columns, Order order) {
  const int64_t n = columns / 256, tile = order.tile, tiles = rows / tile;
  const Blocks blocks(raw, rows, columns, 256, 84, order);
  const Tensor scales = blocks.numbers(0, 16, DType::u8); // [tiles, n, 16, tile]: scale low, minimum high
  const auto times = [&](const Tensor& numbers, int64_t at) {
    return (as_f32(numbers) * as_f32(blocks.numbers(at, 2, DType::f16))).reshape({tiles, columns / 16, tile});
  };
  return {two_bits(blocks, raw, 16, tiles, n, order)
              .reshape({tiles, columns / 16, 16 / order.unit, tile, order.unit}),
          times(scales & 15, 80), 0, times(scales >> 4, 82), true};
}

QuantizedWeight packed_q3_k(const Tensor& raw, int64_t rows, int64_t columns, Order order) {
  const int64_t n = columns / 256, tile = order.tile, unit = order.unit, tiles = rows / tile;
  const Blocks blocks(raw, rows, columns, 256, 110, order);
  Graph graph(raw.graph());
  // The third bit of element l of the eight groups of 32 is bit `group` of byte l.
  Tensor shift = graph.arange(8, DType::u8).reshape({8, 1, 1, 1});
  Tensor high = (blocks.words(0, 32).unsqueeze(2) >> shift) & 1; // [tiles, n, 8, 32 / unit, tile, unit]
  Tensor low = two_bits(blocks, raw, 32, tiles, n, order).reshape({tiles, n, 8, 32 / unit, tile, unit});
  // Sixteen 6-bit scales, 32 more than they mean: low halves in the nibbles of 8 bytes, upper two
  // bits in the quarters of 4 bytes.
  Tensor nibbles = field(blocks.bytes(), 96, 8, DType::u8);
  Tensor tops = (field(blocks.bytes(), 104, 4, DType::u8).unsqueeze(2) >>
                 (graph.arange(4, DType::u8) * 2).reshape({4, 1})) &
                3;
  Tensor scales = blocks.beside(concat({nibbles & 15, nibbles >> 4}, 2) |
                                (tops.reshape({rows, n, 16}) << 4)); // [tiles, n, 16, tile]
  scales = (as_f32(scales) - 32) * as_f32(blocks.numbers(108, 2, DType::f16));
  return {(low | (high << 2)).reshape({tiles, columns / 16, 16 / unit, tile, unit}),
          scales.reshape({tiles, columns / 16, tile}), 4};
}

/// One number for each block, for its groups of 32: [tiles, blocks * groups, tile].
Tensor for_groups(const Tensor& numbers, int64_t groups) {
  const Dims shape = numbers.shape(); // [tiles, blocks, 1, tile]
  return numbers.expand({shape[0], shape[1], groups, shape[3]})
      .reshape({shape[0], shape[1].value() * groups, shape[3]});
}

/// Entries of a table of sixteen bytes, as arithmetic: a word of four is chosen, a byte of it
/// shifted down, so that vectors need no memory.
Tensor entries(const Tensor& indices, const std::array<int, 16>& table, int zero) {
  Graph graph(indices.graph());
  const auto word = [&](size_t first) {
    uint32_t bytes = 0;
    for (size_t i = 0; i < 4; i++) bytes |= uint32_t(table[first + i] + zero) << (8 * i);
    return graph.constant(int64_t(bytes), DType::u32);
  };
  const Tensor i = indices.cast(DType::u32);
  const Tensor chosen = select(i < 8, select(i < 4, word(0), word(4)), select(i < 12, word(8), word(12)));
  return ((chosen >> ((i & 3) * 8)) & 255).cast(DType::u8);
}

constexpr std::array<int, 16> iq4_values = {-127, -104, -83, -65, -49, -35, -22, -10,
                                            1,    13,   25,  38,  53,  69,  89,  113};
/// Twice what four bits of MXFP4 mean.
constexpr std::array<int, 16> mxfp4_values = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

QuantizedWeight packed_iq4_nl(const Tensor& raw, int64_t rows, int64_t columns, Order order) {
  const Blocks blocks(raw, rows, columns, 32, 18, order);
  const Tensor halves = blocks.halves(2, 16, 1).reshape(
      {rows / order.tile, columns / 32, 32 / order.unit, order.tile, order.unit});
  return {entries(halves, iq4_values, 128), as_f32(blocks.numbers(0, 2, DType::f16)).squeeze(2), 128};
}

QuantizedWeight packed_iq4_xs(const Tensor& raw, int64_t rows, int64_t columns, Order order) {
  const int64_t n = columns / 256, tiles = rows / order.tile;
  const Blocks blocks(raw, rows, columns, 256, 136, order);
  Graph graph(raw.graph());
  // Eight 6-bit scales, 32 more than they mean: low halves in the nibbles of 4 bytes, upper two bits
  // in the quarters of 2 bytes.
  const Tensor nibbles = field(blocks.bytes(), 4, 4, DType::u8),
               tops = field(blocks.bytes(), 2, 2, DType::u8);
  const Tensor low = (nibbles.unsqueeze(3) >> (graph.arange(2, DType::u8) * 4)) & 15,
               high = (tops.unsqueeze(3) >> (graph.arange(4, DType::u8) * 2)) & 3;
  const Tensor scales = blocks.beside(low.reshape({rows, n, 8}) | (high.reshape({rows, n, 8}) << 4));
  const Tensor halves =
      blocks.halves(8, 128, 8).reshape({tiles, columns / 32, 32 / order.unit, order.tile, order.unit});
  return {entries(halves, iq4_values, 128),
          ((as_f32(scales) - 32) * as_f32(blocks.numbers(0, 2, DType::f16)))
              .reshape({tiles, columns / 32, order.tile}),
          128};
}

QuantizedWeight packed_mxfp4(const Tensor& raw, int64_t rows, int64_t columns, Order order) {
  const Blocks blocks(raw, rows, columns, 32, 17, order);
  const Tensor halves = blocks.halves(1, 16, 1).reshape(
      {rows / order.tile, columns / 32, 32 / order.unit, order.tile, order.unit});
  // Half of the power of two, as bits of an f32: the smallest two are subnormal.
  const Tensor exponent = blocks.numbers(0, 1, DType::u8).squeeze(2).cast(DType::u32);
  const Tensor bits = select(exponent < 2, Graph(raw.graph()).constant(0x200000, DType::u32) << exponent,
                             (exponent - 1) << 23);
  return {entries(halves, mxfp4_values, 12), bits.bitcast(DType::f32), 12};
}

QuantizedWeight packed_q8_k(const Tensor& raw, int64_t rows, int64_t columns, Order order) {
  const Blocks blocks(raw, rows, columns, 256, 292, order);
  const Dims shape{rows / order.tile, columns / 32, 32 / order.unit, order.tile, order.unit};
  const Tensor scale = for_groups(blocks.numbers(0, 4, DType::f32), 8);
  if (order.unit == 1) return {blocks.words(4, 256).bitcast(DType::i8).reshape(shape), scale, 0};
  return {blocks.words(4, 256, 128).reshape(shape), scale, 128};
}

QuantizedWeight packed_tq2_0(const Tensor& raw, int64_t rows, int64_t columns, Order order) {
  const int64_t tiles = rows / order.tile;
  const Blocks blocks(raw, rows, columns, 256, 66, order);
  return {two_bits(blocks, raw, 0, tiles, columns / 256, order)
              .reshape({tiles, columns / 32, 32 / order.unit, order.tile, order.unit}),
          for_groups(as_f32(blocks.numbers(64, 2, DType::f16)), 8), 1};
}

/// Digits of base three behind the point of a byte: five in each of 32 bytes, then of 16, four in
/// each of 4.
QuantizedWeight packed_tq1_0(const Tensor& raw, int64_t rows, int64_t columns, Order order) {
  const int64_t n = columns / 256, tile = order.tile, unit = order.unit, tiles = rows / tile;
  const Blocks blocks(raw, rows, columns, 256, 54, order);
  Graph graph(raw.graph());
  const auto digits = [&](int64_t begin, int64_t count, int64_t places) {
    const int powers[] = {1, 3, 9, 27, 81};
    std::vector<Tensor> parts;
    for (int64_t place = 0; place < places; place++)
      parts.push_back((blocks.words(begin, count).cast(DType::u32) * powers[place]) & 255);
    return concat(parts, 2); // [tiles, n, places * count / unit, tile, unit]
  };
  const Tensor behind = concat({digits(0, 32, 5), digits(32, 16, 5), digits(48, 4, 4)}, 2);
  return {((behind * 3) >> 8).cast(DType::u8).reshape({tiles, n * 8, 32 / unit, tile, unit}),
          for_groups(as_f32(blocks.numbers(52, 2, DType::f16)), 8), 1};
}

} // namespace

std::optional<QuantizedWeight> packed_weight(const Tensor& raw, StorageType type, int64_t rows,
                                             int64_t columns, RowOrder row_order) {
  // Codes of four bits stay in words also for products with f32: each lane has one, eight codes
  // that differ by a shift.
  const bool words = row_order != RowOrder::bytes || type == StorageType::q4_0 || type == StorageType::q4_1 ||
                     type == StorageType::q4_k || type == StorageType::iq4_nl ||
                     type == StorageType::iq4_xs || type == StorageType::mxfp4;
  const Order order{row_order == RowOrder::apart ? 1 : row_tile(rows), words ? 4 : 1};
  switch (type) {
  case StorageType::q8_0: return packed_q8_0(raw, rows, columns, order);
  case StorageType::q4_0: return packed_nibbles(raw, rows, columns, order, false, false);
  case StorageType::q4_1: return packed_nibbles(raw, rows, columns, order, true, false);
  case StorageType::q5_0: return packed_nibbles(raw, rows, columns, order, false, true);
  case StorageType::q5_1: return packed_nibbles(raw, rows, columns, order, true, true);
  case StorageType::q2_k: return packed_q2_k(raw, rows, columns, order);
  case StorageType::q3_k: return packed_q3_k(raw, rows, columns, order);
  case StorageType::q4_k: return grouped(raw, rows, columns, order, 0);
  case StorageType::q5_k: return grouped(raw, rows, columns, order, 32);
  case StorageType::q6_k: return packed_q6_k(raw, rows, columns, order);
  case StorageType::q8_k: return packed_q8_k(raw, rows, columns, order);
  case StorageType::iq4_nl: return packed_iq4_nl(raw, rows, columns, order);
  case StorageType::iq4_xs: return packed_iq4_xs(raw, rows, columns, order);
  case StorageType::mxfp4: return packed_mxfp4(raw, rows, columns, order);
  case StorageType::tq1_0: return packed_tq1_0(raw, rows, columns, order);
  case StorageType::tq2_0: return packed_tq2_0(raw, rows, columns, order);
  default: return {};
  }
}

std::string packed_type_names() {
  std::string out;
  for (const StorageType type : packed_types)
    out += fmt::format("{}{}", out.empty() ? "" : " ", storage_name(type));
  return out;
}

QuantizedWeight quantized_weight(Graph& graph, std::string_view name, std::string_view type, int64_t rows,
                                 int64_t columns, RowOrder order, Where where) {
  const auto refuse = [&](const std::string& what) {
    throw Error("quantized_weight", fmt::format("{}: {}", name, what), where);
  };
  const auto stored = storage_type_from_name(type);
  if (!stored || std::ranges::find(packed_types, *stored) == std::end(packed_types))
    refuse(fmt::format("{} is not a packed type: {} are known", type, packed_type_names()));
  const StorageTypeInfo& info = storage_info(*stored);
  if (rows < 1 || columns < 1 || columns % info.block_elements)
    refuse(fmt::format("[{}, {}] as {}: a row is a multiple of {} elements", rows, columns, info.name,
                       info.block_elements));
  const Tensor raw = graph.weight(std::string(name), {rows, columns / info.block_elements * info.block_bytes},
                                  DType::u8, where);
  graph.state()->packed_types[std::string(name)] = std::string(info.name);
  return packed_weight(raw, *stored, rows, columns, order).value();
}

} // namespace luminal
