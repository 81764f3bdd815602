// ir/dtype.h -- element types, their storage, and the one promotion table.
#pragma once
#include "luminal/dtype.h"
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace luminal {

inline constexpr int dtype_count = int(DType::f64) + 1;

std::optional<DType> parse_dtype(std::string_view text);

/// Bits of one element in memory: 4 for i4 and u4 (two a byte, the even element in the low half), 8 for bool (0 or 1).
int bits(DType type);
/// Bytes of `count` elements, the last byte filled up for 4-bit types.
int64_t storage_bytes(DType type, int64_t count);
bool is_float(DType type);
bool is_signed(DType type);     // floats and signed integers
bool is_integer(DType type);    // not bool

/// The type of `a op b` where the operands' types differ. Bool gives way to anything; integers give way to floats; two integers of one
/// signedness go to the wider, a signed and an unsigned one to the next wider signed; f16 with bf16 and different f8 go to f32.
DType promote(DType a, DType b);

/// Reads and writes element `index` of a packed array as a double (exact for all but large 64-bit integers) or as 64-bit integer.
/// Writing a float type rounds to nearest even; f8e4m3 has no infinity (saturates to NaN as OCP says); integers wrap.
double load_f64(DType type, const std::byte* data, int64_t index);
void store_f64(DType type, std::byte* data, int64_t index, double value);
int64_t load_i64(DType type, const std::byte* data, int64_t index);
void store_i64(DType type, std::byte* data, int64_t index, int64_t value);
/// The value a float type holds after rounding `value` to it.
double round_to(DType type, double value);

} // namespace luminal
