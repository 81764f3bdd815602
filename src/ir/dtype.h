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

/// Bits of one element in memory: 4 for i4 and u4 (two a byte, the even element in the low half), 8
/// for bool (0 or 1).
int bits(DType type);
/// Bytes of `count` elements, the last byte filled up for 4-bit types.
int64_t storage_bytes(DType type, int64_t count);
bool is_float(DType type);
bool is_signed(DType type);  // floats and signed integers
bool is_integer(DType type); // not bool

/// The type of `a op b` where the operands' types differ. Bool gives way to anything; integers give
/// way to floats; two integers of one signedness go to the wider, a signed and an unsigned one to
/// the next wider signed; f16 with bf16 and different f8 go to f32.
DType promote(DType a, DType b);

/// Reads and writes element `index` of a packed array as a double (exact for all but large 64-bit
/// integers) or as 64-bit integer. Writing a float type rounds to nearest even; f8e4m3 has no
/// infinity (saturates to NaN as OCP says); integers wrap.
double load_f64(DType type, const std::byte* data, int64_t index);
void store_f64(DType type, std::byte* data, int64_t index, double value);
int64_t load_i64(DType type, const std::byte* data, int64_t index);
void store_i64(DType type, std::byte* data, int64_t index, int64_t value);
/// The value a float type holds after rounding `value` to it.
double round_to(DType type, double value);
/// Half the distance of 1 to the next number of a float type: 2^-24 for f32.
double unit_roundoff(DType type);
/// The largest finite number, and the least subnormal, of a float type.
double largest(DType type);
double least_subnormal(DType type);
/// Keeps the low bits of a 64-bit integer and extends them by the sign or by zero (u64: as they
/// are); bool: value != 0.
int64_t wrap(DType type, int64_t value);
/// The integer nearest to zero of a cast from float: truncated, saturated to the type, NaN gives 0;
/// bool: value != 0.
int64_t truncate_to(DType type, double value);
/// A 64-bit integer of the type (u64: the bit pattern) as a double, rounded to nearest even.
double integer_to_f64(DType type, int64_t value);
/// The same rounded to a float type, once.
double integer_to_float(DType to, DType from, int64_t value);

} // namespace luminal
