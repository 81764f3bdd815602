// simt/cuda.h -- what CUDA's compiler knows by itself, on the processor (simt.h).
#pragma once
#include "simt.h"
#include <cmath>

#define __global__
#define __device__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __shared__
#define __constant__ const
struct SimtThread {
  unsigned x;
};
#define threadIdx (SimtThread{simt::block->current->number})
#define blockIdx (SimtThread{simt::block->group})
#define gridDim (SimtThread{simt::block->groups})
#define __syncthreads() simt::barrier()

template <class To, class From> To simt_bits(From from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  std::memcpy(&to, &from, sizeof to);
  return to;
}
inline float __uint_as_float(unsigned x) { return simt_bits<float>(x); }
inline unsigned __float_as_uint(float x) { return simt_bits<unsigned>(x); }
inline double __longlong_as_double(long long x) { return simt_bits<double>(x); }
inline long long __double_as_longlong(double x) { return simt_bits<long long>(x); }
inline unsigned atomicAnd(unsigned* p, unsigned x) {
  const unsigned old = *p;
  return *p &= x, old;
}
inline unsigned atomicOr(unsigned* p, unsigned x) {
  const unsigned old = *p;
  return *p |= x, old;
}
