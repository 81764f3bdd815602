// codegen/c_like/c/c_dialect.cpp -- C11: one thread after the other, called with the numbers of its
// group and of itself. For kernels whose threads do not wait for each other.
//
// To be compiled with -ffp-contract=off.
#include "codegen/c_like/c/c_dialect.h"

namespace luminal::codegen {

constexpr std::string_view c_prelude = R"(#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
typedef int8_t i8; typedef uint8_t u8; typedef int16_t i16; typedef uint16_t u16;
typedef int32_t i32; typedef uint32_t u32; typedef int64_t i64; typedef uint64_t u64; typedef float f32;
static inline f32 lum_f32_of_bits(u32 x) { f32 y; memcpy(&y, &x, 4); return y; }
static inline u32 lum_bits_of_f32(f32 x) { u32 y; memcpy(&y, &x, 4); return y; }
#define lum_fabs_f32(a) fabsf(a)
#define lum_floor_f32(a) floorf(a)
#define lum_ceil_f32(a) ceilf(a)
#define lum_trunc_f32(a) truncf(a)
#define lum_rint_f32(a) rintf(a)
#define lum_fma_f32(a, b, c) fmaf(a, b, c)
#define lum_fmod_f32(a, b) fmodf(a, b)
#define lum_sqrt_f32(a) sqrtf(a)
#define lum_rsqrt_f32(a) (1.0f / sqrtf(a))
#define lum_exp2_f32(a) exp2f(a)
#define lum_log2_f32(a) log2f(a)
#define lum_exp_f32(a) expf(a)
#define lum_log_f32(a) logf(a)
#define lum_log1p_f32(a) log1pf(a)
#define lum_expm1_f32(a) expm1f(a)
#define lum_sin_f32(a) sinf(a)
#define lum_cos_f32(a) cosf(a)
#define lum_tan_f32(a) tanf(a)
#define lum_tanh_f32(a) tanhf(a)
#define lum_erf_f32(a) erff(a)
#define lum_erfc_f32(a) erfcf(a)
#define lum_power_f32(a, b) powf(a, b)
static inline void lum_store_nibble(u8* p, i64 at, i32 x) {
  p[at >> 1] = (u8)((p[at >> 1] & ~(15 << (at & 1) * 4)) | (x & 15) << (at & 1) * 4);
}
)";

constexpr std::string_view c_f64_prelude = R"(typedef double f64;
static inline f64 lum_f64_of_bits(u64 x) { f64 y; memcpy(&y, &x, 8); return y; }
static inline u64 lum_bits_of_f64(f64 x) { u64 y; memcpy(&y, &x, 8); return y; }
#define lum_fabs_f64(a) fabs(a)
#define lum_floor_f64(a) floor(a)
#define lum_ceil_f64(a) ceil(a)
#define lum_trunc_f64(a) trunc(a)
#define lum_rint_f64(a) rint(a)
#define lum_fma_f64(a, b, c) fma(a, b, c)
#define lum_fmod_f64(a, b) fmod(a, b)
#define lum_sqrt_f64(a) sqrt(a)
#define lum_rsqrt_f64(a) (1.0 / sqrt(a))
#define lum_exp2_f64(a) exp2(a)
#define lum_log2_f64(a) log2(a)
#define lum_exp_f64(a) exp(a)
#define lum_log_f64(a) log(a)
#define lum_log1p_f64(a) log1p(a)
#define lum_expm1_f64(a) expm1(a)
#define lum_sin_f64(a) sin(a)
#define lum_cos_f64(a) cos(a)
#define lum_tan_f64(a) tan(a)
#define lum_tanh_f64(a) tanh(a)
#define lum_erf_f64(a) erf(a)
#define lum_erfc_f64(a) erfc(a)
#define lum_power_f64(a, b) pow(a, b)
)";

const Dialect c_dialect = {
    .name = "c",
    .prelude = c_prelude,
    .f64_prelude = c_f64_prelude,
    .function = "static inline",
    .global_space = "",
    .group_space = "",
    .kernel_head = "void {name}({arguments})",
    .pointer_argument = "{type}* {name}",
    .integer_argument = "{type} {name}",
    .group_argument = "u64* lum_words",
    .built_in_arguments = "i64 lum_group, i64 lum_groups, i64 lum_thread",
    .group_begin = "",
    .group = "(idx)lum_group",
    .groups = "(idx)lum_groups",
    .lane = "(idx)lum_thread",
    .group_barrier = "lum_group_barrier();",
    .unroll = "",
    .group_bytes = 0,
    .most_arguments = 0,
};

} // namespace luminal::codegen
