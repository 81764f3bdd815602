// codegen/c_like/dialect.h -- what a C-like language looks like, as data: one table a language. The
// emitter (c_emitter.h) writes the subset of C that all of them share; whatever differs is a text of
// this table or a function that the table's prelude defines.
//
// Texts hold placeholders in braces. Element types have the names i8 u8 i16 u16 i32 u32 i64 u64 f32
// f64 in every language: the prelude defines them. It also defines, as functions or macros:
//   lum_f32_of_bits(u32), lum_bits_of_f32(f32), and the same for f64/u64 where there is f64;
//   lum_NAME_f32(..) (and _f64) for NAME of fabs floor ceil trunc rint fma sqrt rsqrt, and for those of exp2
//   log2 exp log log1p expm1 sin cos tan tanh erf erfc power fmod that have the errors which the op table
//   promises: the others are portable ones (portable_math.h), or missing for f64;
//   where `exchanges`: lum_shuffle_u32(x, mask) and lum_shuffle_u64, what lane (number xor mask) has;
//   where `copies`: lum_copy4, lum_copy8 and lum_copy16(to group memory, from global memory, bytes): so many
//   bytes are copied, the first `bytes` of them (all or none) from there, the others are 0; it may end at any
//   time before lum_copy_wait(n), behind which all but the n youngest calls have ended; lum_copy_none()
//   counts as a copy;
//   lum_store_nibble(u8 pointer to global memory, index, value): two threads may write the two halves
//   of one byte.
#pragma once
#include <cstdint>
#include <span>
#include <string_view>

namespace luminal::codegen {

/// An instruction of several lanes (loop/unit.h): the function has the fragments of accumulator, a and b.
struct DialectUnit {
  std::string_view unit, function, text;
};

struct Dialect {
  std::string_view name;               ///< "opencl"
  std::string_view prelude;            ///< at the head of every text
  std::string_view lanes_prelude = {}; ///< behind it, in texts of groups whose lanes exchange or copy
  std::string_view f64_prelude;        ///< behind it, in texts that use f64; empty: the language has none
  std::string_view function;           ///< in front of a function: "static inline"
  std::string_view global_space;       ///< in front of pointers to buffers: "__global "
  std::string_view group_space;        ///< in front of pointers to memory of a group: "__local "

  /// {name}, {lanes} (threads of a group), {arguments}.
  std::string_view kernel_head;
  /// One argument: {type} (with `const`), {name}, {n} (its number, from 0).
  std::string_view pointer_argument, integer_argument;
  /// Further arguments, behind the others: memory of a group ({n}), built-in values.
  std::string_view group_argument, built_in_arguments;
  /// The first statements of a kernel that has memory of a group ({bytes}, where it is constant).
  std::string_view group_begin;

  std::string_view group, groups; ///< number of this group, of all groups
  std::string_view lane;          ///< number of this thread in its group
  std::string_view group_barrier; ///< a statement: threads of a group wait, and see what each other wrote
  std::string_view unroll;        ///< in front of a loop that must be written out

  bool exchanges = false; ///< lanes of a group can exchange values
  bool copies = false;    ///< wide copies into the group's memory
  std::span<const DialectUnit> units = {};

  int64_t group_bytes = 0; ///< memory of a group, at most
  int most_arguments = 0;  ///< of a kernel; 0: any number
};

/// "opencl", "cuda", "hip", "metal", "c"; null for other words.
const Dialect* find_dialect(std::string_view name);
/// All of them, in that order.
std::span<const Dialect* const> dialects();

} // namespace luminal::codegen
