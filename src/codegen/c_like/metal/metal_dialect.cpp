// codegen/c_like/metal/metal_dialect.cpp -- Metal Shading Language 2.0 and later.
//
// To be compiled with fast mathematics off. Metal's own functions are less exact than the op table
// promises, so all but the simplest are portable ones; there is no f64.
#include "codegen/c_like/metal/metal_dialect.h"

namespace luminal::codegen {

constexpr std::string_view metal_prelude = R"(#include <metal_stdlib>
using namespace metal;
typedef char i8; typedef uchar u8; typedef short i16; typedef ushort u16;
typedef int i32; typedef uint u32; typedef long i64; typedef ulong u64; typedef float f32;
#define lum_f32_of_bits(x) as_type<float>((u32)(x))
#define lum_bits_of_f32(x) as_type<uint>((f32)(x))
#define lum_fabs_f32(a) fabs((f32)(a))
#define lum_floor_f32(a) floor((f32)(a))
#define lum_ceil_f32(a) ceil((f32)(a))
#define lum_trunc_f32(a) trunc((f32)(a))
#define lum_rint_f32(a) rint((f32)(a))
#define lum_fma_f32(a, b, c) fma((f32)(a), (f32)(b), (f32)(c))
#define lum_sqrt_f32(a) sqrt((f32)(a))
#define lum_rsqrt_f32(a) (1.0f / sqrt((f32)(a)))
static inline void lum_store_nibble(device u8* p, i64 at, i32 x) {
  device atomic_uint* word = (device atomic_uint*)p + (at >> 3);
  u32 shift = (u32)(at & 7) * 4;
  atomic_fetch_and_explicit(word, ~(15u << shift), memory_order_relaxed);
  atomic_fetch_or_explicit(word, ((u32)x & 15u) << shift, memory_order_relaxed);
}
)";

constexpr std::string_view metal_lanes_prelude = R"(#ifndef lum_shuffle_u32
#define lum_shuffle_u32(x, mask) simd_shuffle_xor((u32)(x), (ushort)(mask))
static inline u64 lum_shuffle_u64(u64 x, i32 mask) {
  return (u64)lum_shuffle_u32(x >> 32, mask) << 32 | lum_shuffle_u32(x, mask);
}
#endif
#ifndef lum_copy16
static inline void lum_copy4(threadgroup void* to, device const void* from, i32 bytes) {
  *(threadgroup u32*)to = bytes ? *(device const u32*)from : 0u;
}
static inline void lum_copy8(threadgroup void* to, device const void* from, i32 bytes) {
  *(threadgroup u64*)to = bytes ? *(device const u64*)from : (u64)0;
}
static inline void lum_copy16(threadgroup void* to, device const void* from, i32 bytes) {
  uint4 x = uint4(0u);
  if (bytes) x = *(device const uint4*)from;
  *(threadgroup uint4*)to = x;
}
#define lum_copy_none()
#define lum_copy_wait(n)
#endif
)";

const Dialect metal_dialect = {
    .name = "metal",
    .prelude = metal_prelude,
    .lanes_prelude = metal_lanes_prelude,
    .f64_prelude = "",
    .function = "static inline",
    .global_space = "device ",
    .group_space = "threadgroup ",
    .kernel_head = "kernel void {name}({arguments})",
    .pointer_argument = "device {type}* {name} [[buffer({n})]]",
    .integer_argument = "constant {type}& {name} [[buffer({n})]]",
    .group_argument = "threadgroup u64* lum_words [[threadgroup(0)]]",
    .built_in_arguments = "uint lum_group [[threadgroup_position_in_grid]], uint lum_groups "
                          "[[threadgroups_per_grid]], uint lum_thread [[thread_position_in_threadgroup]]",
    .group_begin = "",
    .group = "(idx)lum_group",
    .groups = "(idx)lum_groups",
    .lane = "(idx)lum_thread",
    .group_barrier = "threadgroup_barrier(mem_flags::mem_threadgroup | mem_flags::mem_device);",
    .unroll = "",
    .exchanges = true,
    .copies = true,
    .group_bytes = 32768,
    .most_arguments = 31,
};

} // namespace luminal::codegen
