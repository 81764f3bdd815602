// codegen/c_like/opencl/opencl_dialect.cpp -- OpenCL C 1.2 and later.
#include "codegen/c_like/opencl/opencl_dialect.h"

namespace luminal::codegen {

// Products and sums are not contracted behind the writer's back. f16 and bf16 are words: no extension
// is needed for them.
constexpr std::string_view opencl_prelude = R"(#pragma OPENCL FP_CONTRACT OFF
typedef char i8; typedef uchar u8; typedef short i16; typedef ushort u16;
typedef int i32; typedef uint u32; typedef long i64; typedef ulong u64; typedef float f32;
#define lum_f32_of_bits(x) as_float((u32)(x))
#define lum_bits_of_f32(x) as_uint((f32)(x))
#define lum_fabs_f32(a) fabs((f32)(a))
#define lum_floor_f32(a) floor((f32)(a))
#define lum_ceil_f32(a) ceil((f32)(a))
#define lum_trunc_f32(a) trunc((f32)(a))
#define lum_rint_f32(a) rint((f32)(a))
#define lum_fma_f32(a, b, c) fma((f32)(a), (f32)(b), (f32)(c))
#define lum_fmod_f32(a, b) fmod((f32)(a), (f32)(b))
#define lum_sqrt_f32(a) sqrt((f32)(a))
#define lum_rsqrt_f32(a) (1.0f / sqrt((f32)(a)))
#define lum_exp2_f32(a) exp2((f32)(a))
#define lum_log2_f32(a) log2((f32)(a))
#define lum_exp_f32(a) exp((f32)(a))
#define lum_log_f32(a) log((f32)(a))
#define lum_log1p_f32(a) log1p((f32)(a))
#define lum_expm1_f32(a) expm1((f32)(a))
#define lum_sin_f32(a) sin((f32)(a))
#define lum_cos_f32(a) cos((f32)(a))
#define lum_tan_f32(a) tan((f32)(a))
#define lum_tanh_f32(a) tanh((f32)(a))
#define lum_erf_f32(a) erf((f32)(a))
#define lum_erfc_f32(a) erfc((f32)(a))
#define lum_power_f32(a, b) pow((f32)(a), (f32)(b))
void lum_store_nibble(__global u8* p, i64 at, i32 x) {
  volatile __global u32* word = (volatile __global u32*)p + (at >> 3);
  u32 shift = (u32)(at & 7) * 4;
  atomic_and(word, ~(15u << shift));
  atomic_or(word, ((u32)x & 15u) << shift);
}
)";

constexpr std::string_view opencl_f64_prelude = R"(#pragma OPENCL EXTENSION cl_khr_fp64 : enable
typedef double f64;
#define lum_f64_of_bits(x) as_double((u64)(x))
#define lum_bits_of_f64(x) as_ulong((f64)(x))
#define lum_fabs_f64(a) fabs((f64)(a))
#define lum_floor_f64(a) floor((f64)(a))
#define lum_ceil_f64(a) ceil((f64)(a))
#define lum_trunc_f64(a) trunc((f64)(a))
#define lum_rint_f64(a) rint((f64)(a))
#define lum_fma_f64(a, b, c) fma((f64)(a), (f64)(b), (f64)(c))
#define lum_fmod_f64(a, b) fmod((f64)(a), (f64)(b))
#define lum_sqrt_f64(a) sqrt((f64)(a))
#define lum_rsqrt_f64(a) (1.0 / sqrt((f64)(a)))
#define lum_exp2_f64(a) exp2((f64)(a))
#define lum_log2_f64(a) log2((f64)(a))
#define lum_exp_f64(a) exp((f64)(a))
#define lum_log_f64(a) log((f64)(a))
#define lum_log1p_f64(a) log1p((f64)(a))
#define lum_expm1_f64(a) expm1((f64)(a))
#define lum_sin_f64(a) sin((f64)(a))
#define lum_cos_f64(a) cos((f64)(a))
#define lum_tan_f64(a) tan((f64)(a))
#define lum_tanh_f64(a) tanh((f64)(a))
#define lum_erf_f64(a) erf((f64)(a))
#define lum_erfc_f64(a) erfc((f64)(a))
#define lum_power_f64(a, b) pow((f64)(a), (f64)(b))
)";

const Dialect opencl_dialect = {
    .name = "opencl",
    .prelude = opencl_prelude,
    .f64_prelude = opencl_f64_prelude,
    .function = "",
    .global_space = "__global ",
    .group_space = "__local ",
    .kernel_head = "__kernel __attribute__((reqd_work_group_size({lanes}, 1, 1))) void {name}({arguments})",
    .pointer_argument = "__global {type}* {name}",
    .integer_argument = "{type} {name}",
    .group_argument = "",
    .built_in_arguments = "",
    .group_begin = "__local u64 lum_words[{words}];",
    .group = "(idx)get_group_id(0)",
    .groups = "(idx)get_num_groups(0)",
    .lane = "(idx)get_local_id(0)",
    .group_barrier = "barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);",
    .unroll = "__attribute__((opencl_unroll_hint))",
    .group_bytes = 32768,
    .most_arguments = 0,
};

} // namespace luminal::codegen
