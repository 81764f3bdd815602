// codegen/c_like/hip/hip_dialect.cpp -- HIP C++ for clang (-x hip -nogpuinc -nogpulib) and hiprtc: built-in
// functions of the compiler only, no file of ROCm.
//
// To be compiled with -ffp-contract=off. Functions that need ROCm's device library are portable ones; of
// f64 there are none of these.
#include "codegen/c_like/hip/hip_dialect.h"

namespace luminal::codegen {

constexpr std::string_view hip_prelude =
    R"(typedef signed char i8; typedef unsigned char u8; typedef short i16; typedef unsigned short u16;
typedef int i32; typedef unsigned int u32; typedef long i64; typedef unsigned long u64; typedef float f32;
#define lum_f32_of_bits(x) __builtin_bit_cast(f32, (u32)(x))
#define lum_bits_of_f32(x) __builtin_bit_cast(u32, (f32)(x))
#define lum_fabs_f32(a) __builtin_fabsf(a)
#define lum_floor_f32(a) __builtin_floorf(a)
#define lum_ceil_f32(a) __builtin_ceilf(a)
#define lum_trunc_f32(a) __builtin_truncf(a)
#define lum_rint_f32(a) __builtin_rintf(a)
#define lum_fma_f32(a, b, c) __builtin_fmaf(a, b, c)
#define lum_sqrt_f32(a) __builtin_sqrtf(a)
#define lum_rsqrt_f32(a) (1.0f / __builtin_sqrtf(a))
static inline __attribute__((device)) void lum_store_nibble(u8* p, i64 at, i32 x) {
  u32* word = (u32*)p + (at >> 3);
  u32 shift = (u32)(at & 7) * 4;
  __atomic_fetch_and(word, ~(15u << shift), __ATOMIC_RELAXED);
  __atomic_fetch_or(word, ((u32)x & 15u) << shift, __ATOMIC_RELAXED);
}
static inline __attribute__((device)) void lum_barrier() {
  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
  __builtin_amdgcn_s_barrier();
  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}
)";

// A permutation of lanes addresses bytes; the lane of a wave is the low bits of the thread's number.
constexpr std::string_view hip_lanes_prelude = R"(typedef short lum_s4 __attribute__((ext_vector_type(4)));
typedef _Float16 lum_h4 __attribute__((ext_vector_type(4)));
#ifndef lum_shuffle_u32
static inline __attribute__((device)) u32 lum_shuffle_u32(u32 x, i32 mask) {
  return (u32)__builtin_amdgcn_ds_bpermute((i32)((__builtin_amdgcn_workitem_id_x() ^ (u32)mask) << 2), (i32)x);
}
static inline __attribute__((device)) u64 lum_shuffle_u64(u64 x, i32 mask) {
  return (u64)lum_shuffle_u32((u32)(x >> 32), mask) << 32 | lum_shuffle_u32((u32)x, mask);
}
#endif
#ifndef lum_copy16
typedef u32 lum_b16 __attribute__((ext_vector_type(4)));
static inline __attribute__((device)) void lum_copy4(void* to, const void* from, i32 bytes) {
  *(u32*)to = bytes ? *(const u32*)from : 0u;
}
static inline __attribute__((device)) void lum_copy8(void* to, const void* from, i32 bytes) {
  *(u64*)to = bytes ? *(const u64*)from : (u64)0;
}
static inline __attribute__((device)) void lum_copy16(void* to, const void* from, i32 bytes) {
  lum_b16 x = {0u, 0u, 0u, 0u};
  if (bytes) x = *(const lum_b16*)from;
  *(lum_b16*)to = x;
}
#define lum_copy_none()
#define lum_copy_wait(n)
#endif
)";

constexpr std::string_view hip_f64_prelude = R"(typedef double f64;
#define lum_f64_of_bits(x) __builtin_bit_cast(f64, (u64)(x))
#define lum_bits_of_f64(x) __builtin_bit_cast(u64, (f64)(x))
#define lum_fabs_f64(a) __builtin_fabs(a)
#define lum_floor_f64(a) __builtin_floor(a)
#define lum_ceil_f64(a) __builtin_ceil(a)
#define lum_trunc_f64(a) __builtin_trunc(a)
#define lum_rint_f64(a) __builtin_rint(a)
#define lum_fma_f64(a, b, c) __builtin_fma(a, b, c)
#define lum_sqrt_f64(a) __builtin_sqrt(a)
#define lum_rsqrt_f64(a) (1.0 / __builtin_sqrt(a))
)";

// Built-in functions of clang for MFMA of CDNA 3.
constexpr DialectUnit hip_units[] = {
    {"amd.mfma.32x32x8.bf16", "lum_mfma_32x32x8_bf16",
     R"(typedef f32 lum_sums_lum_mfma_32x32x8_bf16 __attribute__((ext_vector_type(16)));
static inline __attribute__((device)) void lum_mfma_32x32x8_bf16(f32* c, const u32* a, const u32* b) {
  lum_sums_lum_mfma_32x32x8_bf16 sums;
  for (int i = 0; i < 16; ++i) sums[i] = c[i];
  sums = __builtin_amdgcn_mfma_f32_32x32x8bf16_1k(__builtin_bit_cast(lum_s4, (u64)a[1] << 32 | a[0]),
      __builtin_bit_cast(lum_s4, (u64)b[1] << 32 | b[0]), sums, 0, 0, 0);
  for (int i = 0; i < 16; ++i) c[i] = sums[i];
}
)"},
    {"amd.mfma.16x16x16.bf16", "lum_mfma_16x16x16_bf16",
     R"(typedef f32 lum_sums_lum_mfma_16x16x16_bf16 __attribute__((ext_vector_type(4)));
static inline __attribute__((device)) void lum_mfma_16x16x16_bf16(f32* c, const u32* a, const u32* b) {
  lum_sums_lum_mfma_16x16x16_bf16 sums;
  for (int i = 0; i < 4; ++i) sums[i] = c[i];
  sums = __builtin_amdgcn_mfma_f32_16x16x16bf16_1k(__builtin_bit_cast(lum_s4, (u64)a[1] << 32 | a[0]),
      __builtin_bit_cast(lum_s4, (u64)b[1] << 32 | b[0]), sums, 0, 0, 0);
  for (int i = 0; i < 4; ++i) c[i] = sums[i];
}
)"},
    {"amd.mfma.32x32x8.f16", "lum_mfma_32x32x8_f16",
     R"(typedef f32 lum_sums_lum_mfma_32x32x8_f16 __attribute__((ext_vector_type(16)));
static inline __attribute__((device)) void lum_mfma_32x32x8_f16(f32* c, const u32* a, const u32* b) {
  lum_sums_lum_mfma_32x32x8_f16 sums;
  for (int i = 0; i < 16; ++i) sums[i] = c[i];
  sums = __builtin_amdgcn_mfma_f32_32x32x8f16(__builtin_bit_cast(lum_h4, (u64)a[1] << 32 | a[0]),
      __builtin_bit_cast(lum_h4, (u64)b[1] << 32 | b[0]), sums, 0, 0, 0);
  for (int i = 0; i < 16; ++i) c[i] = sums[i];
}
)"},
    {"amd.mfma.16x16x16.f16", "lum_mfma_16x16x16_f16",
     R"(typedef f32 lum_sums_lum_mfma_16x16x16_f16 __attribute__((ext_vector_type(4)));
static inline __attribute__((device)) void lum_mfma_16x16x16_f16(f32* c, const u32* a, const u32* b) {
  lum_sums_lum_mfma_16x16x16_f16 sums;
  for (int i = 0; i < 4; ++i) sums[i] = c[i];
  sums = __builtin_amdgcn_mfma_f32_16x16x16f16(__builtin_bit_cast(lum_h4, (u64)a[1] << 32 | a[0]),
      __builtin_bit_cast(lum_h4, (u64)b[1] << 32 | b[0]), sums, 0, 0, 0);
  for (int i = 0; i < 4; ++i) c[i] = sums[i];
}
)"},
};

const Dialect hip_dialect = {
    .name = "hip",
    .prelude = hip_prelude,
    .lanes_prelude = hip_lanes_prelude,
    .f64_prelude = hip_f64_prelude,
    .function = "static inline __attribute__((device))",
    .global_space = "",
    .group_space = "",
    .kernel_head = "extern \"C\" __attribute__((global, amdgpu_flat_work_group_size(1, {lanes}))) void "
                   "{name}({arguments})",
    .pointer_argument = "{type}* {name}",
    .integer_argument = "{type} {name}",
    .group_argument = "",
    .built_in_arguments = "",
    // The launch gives its size; four neighbouring words are one access where the compiler sees them lie so.
    .group_begin = "extern __attribute__((shared, aligned(16))) u64 lum_words[];",
    .group = "(idx)__builtin_amdgcn_workgroup_id_x()",
    .groups = "(idx)(__builtin_amdgcn_grid_size_x() / __builtin_amdgcn_workgroup_size_x())",
    .lane = "(idx)__builtin_amdgcn_workitem_id_x()",
    .group_barrier = "lum_barrier();",
    .unroll = "#pragma unroll",
    .exchanges = true,
    .copies = true,
    .units = hip_units,
    .group_bytes = 65536,
    .most_arguments = 0,
};

} // namespace luminal::codegen
