// codegen/c_like/cuda/cuda_dialect.cpp -- CUDA C++ as NVRTC 12 and 13 compile it, without any header.
//
// To be compiled with --fmad=false: products and sums are not contracted behind the writer's back.
#include "codegen/c_like/cuda/cuda_dialect.h"

namespace luminal::codegen {

constexpr std::string_view prelude =
    R"(typedef signed char i8; typedef unsigned char u8; typedef short i16; typedef unsigned short u16;
typedef int i32; typedef unsigned int u32; typedef long i64; typedef unsigned long u64; typedef float f32;
#define lum_f32_of_bits(x) __uint_as_float((u32)(x))
#define lum_bits_of_f32(x) __float_as_uint((f32)(x))
#define lum_fabs_f32(a) fabsf((f32)(a))
#define lum_floor_f32(a) floorf((f32)(a))
#define lum_ceil_f32(a) ceilf((f32)(a))
#define lum_trunc_f32(a) truncf((f32)(a))
#define lum_rint_f32(a) rintf((f32)(a))
#define lum_fma_f32(a, b, c) fmaf((f32)(a), (f32)(b), (f32)(c))
#define lum_fmod_f32(a, b) fmodf((f32)(a), (f32)(b))
#define lum_sqrt_f32(a) sqrtf((f32)(a))
#define lum_rsqrt_f32(a) (1.0f / sqrtf((f32)(a)))
#define lum_exp2_f32(a) exp2f((f32)(a))
#define lum_log2_f32(a) log2f((f32)(a))
#define lum_exp_f32(a) expf((f32)(a))
#define lum_log_f32(a) logf((f32)(a))
#define lum_log1p_f32(a) log1pf((f32)(a))
#define lum_expm1_f32(a) expm1f((f32)(a))
#define lum_sin_f32(a) sinf((f32)(a))
#define lum_cos_f32(a) cosf((f32)(a))
#define lum_tan_f32(a) tanf((f32)(a))
#define lum_tanh_f32(a) tanhf((f32)(a))
#define lum_erf_f32(a) erff((f32)(a))
#define lum_erfc_f32(a) erfcf((f32)(a))
#define lum_power_f32(a, b) powf((f32)(a), (f32)(b))
static __device__ void lum_store_nibble(u8* p, i64 at, i32 x) {
  u32* word = (u32*)p + (at >> 3);
  u32 shift = (u32)(at & 7) * 4;
  atomicAnd(word, ~(15u << shift));
  atomicOr(word, ((u32)x & 15u) << shift);
}
)";

constexpr std::string_view f64_prelude = R"(typedef double f64;
#define lum_f64_of_bits(x) __longlong_as_double((long long)(u64)(x))
#define lum_bits_of_f64(x) ((u64)__double_as_longlong((f64)(x)))
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

const Dialect cuda_dialect = {
    .name = "cuda",
    .prelude = prelude,
    .f64_prelude = f64_prelude,
    .function = "static __device__",
    .global_space = "",
    .group_space = "",
    .kernel_head = "extern \"C\" __global__ void __launch_bounds__({lanes}) {name}({arguments})",
    .pointer_argument = "{type}* {name}",
    .integer_argument = "{type} {name}",
    .group_argument = "",
    .built_in_arguments = "",
    // The launch gives its size; four neighbouring words are one access where the compiler sees them lie so.
    .group_begin = "extern __shared__ __attribute__((aligned(16))) u64 lum_words[];",
    .group = "(idx)blockIdx.x",
    .groups = "(idx)gridDim.x",
    .lane = "(idx)threadIdx.x",
    .group_barrier = "__syncthreads();",
    .unroll = "#pragma unroll",
    .group_bytes = 232448, // of Hopper; up to 49152 on every device
    .most_arguments = 0,
};

} // namespace luminal::codegen
