// formats/dequantize.cpp -- block formats to f32, one block at a time, in the order of operations
// of ggml-quants.c.
#include "formats/parse.h"
#include "formats/quants.h"
#include <cmath>
#include <cstring>

namespace luminal {
namespace {

using namespace detail;

using BlockBytes = const uint8_t*;
using Decode = void (*)(BlockBytes block, float* out);

template <class T> T load(BlockBytes at) {
  T value;
  std::memcpy(&value, at, sizeof(T));
  return value;
}
float half(BlockBytes at) { return half_to_float(load<uint16_t>(at)); }

template <class T> void plain(BlockBytes block, float* out) { *out = static_cast<float>(load<T>(block)); }

// 32 values: nibbles, the low ones are the first 16 values.
void q4_0(BlockBytes block, float* out) {
  const float d = half(block);
  for (int i = 0; i < 16; ++i) {
    out[i] = static_cast<float>((block[2 + i] & 15) - 8) * d;
    out[i + 16] = static_cast<float>((block[2 + i] >> 4) - 8) * d;
  }
}

void q4_1(BlockBytes block, float* out) {
  const float d = half(block), m = half(block + 2);
  for (int i = 0; i < 16; ++i) {
    out[i] = static_cast<float>(block[4 + i] & 15) * d + m;
    out[i + 16] = static_cast<float>(block[4 + i] >> 4) * d + m;
  }
}

/// The fifth bit of value i stands in bit i of the four bytes `high`.
int five_bits(BlockBytes quants, uint32_t high, int i) {
  const int low = i < 16 ? quants[i] & 15 : quants[i - 16] >> 4;
  return low | static_cast<int>((high >> i & 1) << 4);
}

void q5_0(BlockBytes block, float* out) {
  const float d = half(block);
  const auto high = load<uint32_t>(block + 2);
  for (int i = 0; i < 32; ++i) out[i] = static_cast<float>(five_bits(block + 6, high, i) - 16) * d;
}

void q5_1(BlockBytes block, float* out) {
  const float d = half(block), m = half(block + 2);
  const auto high = load<uint32_t>(block + 4);
  for (int i = 0; i < 32; ++i) out[i] = static_cast<float>(five_bits(block + 8, high, i)) * d + m;
}

void q8_0(BlockBytes block, float* out) {
  const float d = half(block);
  for (int i = 0; i < 32; ++i) out[i] = static_cast<float>(static_cast<int8_t>(block[2 + i])) * d;
}

// 256 values: scales[16] (4 bits scale, 4 bits minimum), quants[64] of 2 bits, d, dmin.
void q2_k(BlockBytes block, float* out) {
  const float d = half(block + 80), dmin = half(block + 82);
  for (int group = 0; group < 16; ++group) {
    const float scale = d * static_cast<float>(block[group] & 15),
                minimum = dmin * static_cast<float>(block[group] >> 4);
    const BlockBytes quants = block + 16 + group / 8 * 32 + group % 2 * 16;
    const int shift = group % 8 / 2 * 2;
    for (int i = 0; i < 16; ++i)
      out[group * 16 + i] = scale * static_cast<float>(quants[i] >> shift & 3) - minimum;
  }
}

// high bits[32], quants[64] of 2 bits, scales[12] of 6 bits, d.
void q3_k(BlockBytes block, float* out) {
  const float d = half(block + 108);
  const BlockBytes packed = block + 96;
  for (int group = 0; group < 16; ++group) {
    const int low = group < 8 ? packed[group] & 15 : packed[group - 8] >> 4;
    const int high = packed[8 + group % 4] >> (group / 4 * 2) & 3;
    const float scale = d * static_cast<float>((low | high << 4) - 32);
    const BlockBytes quants = block + 32 + group / 8 * 32 + group % 2 * 16;
    const BlockBytes mask = block + group % 2 * 16;
    const int shift = group % 8 / 2 * 2, bit = group / 2;
    for (int i = 0; i < 16; ++i)
      out[group * 16 + i] =
          scale * static_cast<float>((quants[i] >> shift & 3) - ((mask[i] >> bit & 1) != 0 ? 0 : 4));
  }
}

/// Six-bit scale and minimum of one of the eight groups of Q4_K and Q5_K.
void scale_and_minimum(BlockBytes packed, int group, int& scale, int& minimum) {
  if (group < 4) {
    scale = packed[group] & 63;
    minimum = packed[group + 4] & 63;
  } else {
    scale = (packed[group + 4] & 15) | (packed[group - 4] >> 6) << 4;
    minimum = (packed[group + 4] >> 4) | (packed[group] >> 6) << 4;
  }
}

// d, dmin, scales[12], quants[128]: 32 bytes hold the low nibbles of one group of 32 and the high
// nibbles of the next.
void q4_k(BlockBytes block, float* out) {
  const float d = half(block), dmin = half(block + 2);
  for (int group = 0; group < 8; ++group) {
    int scale = 0, minimum = 0;
    scale_and_minimum(block + 4, group, scale, minimum);
    const float s = d * static_cast<float>(scale), m = dmin * static_cast<float>(minimum);
    const BlockBytes quants = block + 16 + group / 2 * 32;
    for (int i = 0; i < 32; ++i)
      out[group * 32 + i] = s * static_cast<float>(group % 2 == 0 ? quants[i] & 15 : quants[i] >> 4) - m;
  }
}

// As Q4_K, with the fifth bits in 32 bytes before the quants: bit `group` of byte i.
void q5_k(BlockBytes block, float* out) {
  const float d = half(block), dmin = half(block + 2);
  for (int group = 0; group < 8; ++group) {
    int scale = 0, minimum = 0;
    scale_and_minimum(block + 4, group, scale, minimum);
    const float s = d * static_cast<float>(scale), m = dmin * static_cast<float>(minimum);
    const BlockBytes quants = block + 48 + group / 2 * 32;
    for (int i = 0; i < 32; ++i) {
      const int low = group % 2 == 0 ? quants[i] & 15 : quants[i] >> 4;
      out[group * 32 + i] = s * static_cast<float>(low + (block[16 + i] >> group & 1) * 16) - m;
    }
  }
}

// low nibbles[128], high two bits[64], scales[16] (signed bytes), d.
void q6_k(BlockBytes block, float* out) {
  const float d = half(block + 208);
  for (int i = 0; i < 256; ++i) {
    const int part = i / 128, quarter = i % 128 / 32, l = i % 32;
    const uint8_t nibbles = block[part * 64 + quarter % 2 * 32 + l];
    const int low = quarter < 2 ? nibbles & 15 : nibbles >> 4;
    const int high = block[128 + part * 32 + l] >> (2 * quarter) & 3;
    const float scale = d * static_cast<float>(static_cast<int8_t>(block[192 + i / 16]));
    out[i] = scale * static_cast<float>((low | high << 4) - 32);
  }
}

constexpr int8_t iq4_values[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};

void iq4_nl(BlockBytes block, float* out) {
  const float d = half(block);
  for (int i = 0; i < 16; ++i) {
    out[i] = d * static_cast<float>(iq4_values[block[2 + i] & 15]);
    out[i + 16] = d * static_cast<float>(iq4_values[block[2 + i] >> 4]);
  }
}

// d, high bits of the scales (u16), low bits[4], quants[128].
void iq4_xs(BlockBytes block, float* out) {
  const float d = half(block);
  const auto high = load<uint16_t>(block + 2);
  for (int group = 0; group < 8; ++group) {
    const int low = block[4 + group / 2] >> (4 * (group % 2)) & 15;
    const float scale = d * static_cast<float>((low | (high >> (2 * group) & 3) << 4) - 32);
    for (int i = 0; i < 16; ++i) {
      const uint8_t nibbles = block[8 + group * 16 + i];
      out[group * 32 + i] = scale * static_cast<float>(iq4_values[nibbles & 15]);
      out[group * 32 + i + 16] = scale * static_cast<float>(iq4_values[nibbles >> 4]);
    }
  }
}

// A power of two and sixteen bytes of E2M1 (OCP microscaling); the table is doubled, so the
// exponent is one less.
void mxfp4(BlockBytes block, float* out) {
  constexpr int8_t doubled[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
  const float d = std::ldexp(1.0F, block[0] - 128);
  for (int i = 0; i < 16; ++i) {
    out[i] = d * static_cast<float>(doubled[block[1 + i] & 15]);
    out[i + 16] = d * static_cast<float>(doubled[block[1 + i] >> 4]);
  }
}

// The activations of products with K formats: d (f32), quants[256], sums of sixteen (i16), which are
// not read.
void q8_k(BlockBytes block, float* out) {
  const auto d = load<float>(block);
  for (int i = 0; i < 256; ++i) out[i] = d * static_cast<float>(static_cast<int8_t>(block[4 + i]));
}

// quants[64] of 2 bits, d: 0, 1, 2 mean -1, 0, 1.
void tq2_0(BlockBytes block, float* out) {
  const float d = half(block + 64);
  for (int i = 0; i < 256; ++i)
    out[i] = static_cast<float>((block[i / 128 * 32 + i % 32] >> (i % 128 / 32 * 2) & 3) - 1) * d;
}

/// Digit `place` of a byte that holds digits of base three behind the point: 0, 1 or 2.
int ternary(uint8_t byte, int place) {
  constexpr int powers[] = {1, 3, 9, 27, 81};
  return static_cast<uint8_t>(byte * powers[place]) * 3 >> 8;
}

// Five digits in each of 32 bytes, then of 16, then four in each of 4 bytes; d.
void tq1_0(BlockBytes block, float* out) {
  const float d = half(block + 52);
  for (int i = 0; i < 256; ++i) {
    const int digit = i < 160   ? ternary(block[i % 32], i / 32)
                      : i < 240 ? ternary(block[32 + i % 16], (i - 160) / 16)
                                : ternary(block[48 + i % 4], (i - 240) / 4);
    out[i] = static_cast<float>(digit - 1) * d;
  }
}

Decode decoder(StorageType type) {
  using T = StorageType;
  switch (type) {
  case T::f64: return plain<double>;
  case T::f32: return plain<float>;
  case T::f16: return [](BlockBytes block, float* out) { *out = half(block); };
  case T::bf16: return [](BlockBytes block, float* out) { *out = bfloat16_to_float(load<uint16_t>(block)); };
  case T::f8_e4m3: return [](BlockBytes block, float* out) { *out = f8_e4m3_to_float(*block); };
  case T::f8_e5m2: return [](BlockBytes block, float* out) { *out = f8_e5m2_to_float(*block); };
  case T::i64: return plain<int64_t>;
  case T::i32: return plain<int32_t>;
  case T::i16: return plain<int16_t>;
  case T::i8: return plain<int8_t>;
  case T::u64: return plain<uint64_t>;
  case T::u32: return plain<uint32_t>;
  case T::u16: return plain<uint16_t>;
  case T::u8: return plain<uint8_t>;
  case T::boolean: return [](BlockBytes block, float* out) { *out = *block != 0 ? 1.0F : 0.0F; };
  case T::q4_0: return q4_0;
  case T::q4_1: return q4_1;
  case T::q5_0: return q5_0;
  case T::q5_1: return q5_1;
  case T::q8_0: return q8_0;
  case T::q2_k: return q2_k;
  case T::q3_k: return q3_k;
  case T::q4_k: return q4_k;
  case T::q5_k: return q5_k;
  case T::q6_k: return q6_k;
  case T::iq4_nl: return iq4_nl;
  case T::iq4_xs: return iq4_xs;
  case T::mxfp4: return mxfp4;
  case T::q8_k: return q8_k;
  case T::tq1_0: return tq1_0;
  case T::tq2_0: return tq2_0;
  default: return nullptr;
  }
}

} // namespace

bool can_dequantize(StorageType type) { return decoder(type) != nullptr; }

Result<void> dequantize(StorageType type, std::span<const std::byte> bytes, std::span<float> out) {
  const Decode decode = decoder(type);
  const auto& row = storage_info(type);
  if (decode == nullptr) return Failure{fmt::format("dequantize: no decoder for {}", row.name)};
  const size_t blocks = bytes.size() / row.block_bytes;
  if (bytes.size() % row.block_bytes != 0 || out.size() != blocks * row.block_elements)
    return Failure{fmt::format(
        "dequantize: {} bytes of {} for {} values, expected whole blocks of {} bytes for {} values",
        bytes.size(), row.name, out.size(), row.block_bytes, row.block_elements)};
  const auto* block = reinterpret_cast<const uint8_t*>(bytes.data());
  for (size_t i = 0; i < blocks; ++i)
    decode(block + i * row.block_bytes, out.data() + i * row.block_elements);
  return {};
}

Result<std::vector<float>> dequantize(const TensorView& tensor) {
  std::vector<float> out(static_cast<size_t>(tensor.elements()));
  const auto done = dequantize(tensor.type, tensor.bytes, out);
  if (!done) return Failure{fmt::format("tensor {}: {}", in_quotes(tensor.name), done.error())};
  return out;
}

} // namespace luminal
