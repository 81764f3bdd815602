// codegen/c_like/cuda/cuda_dialect.cpp -- CUDA C++ as NVRTC 12 and 13 compile it, without any header.
//
// To be compiled with --fmad=false: products and sums are not contracted behind the writer's back.
#include "codegen/c_like/cuda/cuda_dialect.h"

namespace luminal::codegen {

constexpr std::string_view cuda_prelude =
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

// Copies of sm_80 and later go on beside the lanes (PTX ISA, cp.async); each is a group of its own, so that a
// wait can count them. Before sm_80 they are loads and stores.
constexpr std::string_view cuda_lanes_prelude = R"(#ifndef lum_shuffle_u32
#define lum_shuffle_u32(x, mask) __shfl_xor_sync(0xffffffffu, (u32)(x), mask)
#define lum_shuffle_u64(x, mask) ((u64)__shfl_xor_sync(0xffffffffu, (unsigned long long)(x), mask))
#endif
#ifndef lum_copy16
#if __CUDA_ARCH__ >= 800
#define LUM_COPY(N, CACHE) static __device__ __forceinline__ void lum_copy##N(void* to, const void* from, i32 bytes) { \
  asm volatile("cp.async." CACHE ".shared.global [%0], [%1], " #N ", %2;\n\tcp.async.commit_group;" \
               :: "r"((u32)__cvta_generic_to_shared(to)), "l"(from), "r"(bytes) : "memory"); }
LUM_COPY(4, "ca")
LUM_COPY(8, "ca")
LUM_COPY(16, "cg")
#define lum_copy_none() asm volatile("cp.async.commit_group;" ::: "memory")
#define lum_copy_wait(n) asm volatile("cp.async.wait_group %0;" :: "n"(n) : "memory")
#else
struct __align__(16) lum_b16 { u32 x[4]; };
static __device__ __forceinline__ void lum_copy4(void* to, const void* from, i32 bytes) {
  *(u32*)to = bytes ? *(const u32*)from : 0u;
}
static __device__ __forceinline__ void lum_copy8(void* to, const void* from, i32 bytes) {
  *(u64*)to = bytes ? *(const u64*)from : (u64)0;
}
static __device__ __forceinline__ void lum_copy16(void* to, const void* from, i32 bytes) {
  lum_b16 x = {{0u, 0u, 0u, 0u}};
  if (bytes) x = *(const lum_b16*)from;
  *(lum_b16*)to = x;
}
#define lum_copy_none()
#define lum_copy_wait(n)
#endif
#endif
)";

constexpr std::string_view cuda_f64_prelude = R"(typedef double f64;
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

// PTX ISA, mma.m16n8k16.
constexpr DialectUnit cuda_units[] = {
    {"nvidia.mma.m16n8k16.bf16", "lum_mma_m16n8k16_bf16",
     R"(static __device__ __forceinline__ void lum_mma_m16n8k16_bf16(f32* c, const u32* a, const u32* b) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
               "{%8, %9}, {%0, %1, %2, %3};"
               : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
)"},
    {"nvidia.mma.m16n8k16.f16", "lum_mma_m16n8k16_f16",
     R"(static __device__ __forceinline__ void lum_mma_m16n8k16_f16(f32* c, const u32* a, const u32* b) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
               "{%8, %9}, {%0, %1, %2, %3};"
               : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
)"},
};

const Dialect cuda_dialect = {
    .name = "cuda",
    .prelude = cuda_prelude,
    .lanes_prelude = cuda_lanes_prelude,
    .f64_prelude = cuda_f64_prelude,
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
    .exchanges = true,
    .copies = true,
    .units = cuda_units,
    .group_bytes = 232448, // of Hopper; up to 49152 on every device
    .most_arguments = 0,
};

} // namespace luminal::codegen
