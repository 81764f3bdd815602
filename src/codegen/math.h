// codegen/math.h -- elementary functions and number formats as LLVM IR. Internal to codegen.
//
// Every function takes a scalar or a vector of f32 or f64 and emits the same operations for both,
// so that both give the same bits. No libm, no fast-math flag. NaN in gives NaN out; infinities,
// zeros and subnormal numbers are right.
#pragma once
#include "base/check.h"
#include "codegen/codegen.h"
#include "codegen/llvm_compat.h"
#include "ir/ops.h"
#include <cmath>
#include <functional>

namespace luminal::codegen {

class MathEmitter {
public:
  using LV = llvm::Value;
  MathEmitter(llvm::IRBuilder<>& builder, const CpuTarget& target) : b_(builder), target_(target) {}

  // ---- number formats: f32 values that a narrower type can hold ----
  LV* round_to(LV* x, DType type); // f32 -> the nearest f32 that `type` holds; f64: rounded once
  LV* narrow(LV* x, DType type);   // f32 that `type` holds -> its bits (i8 or i16); exact
  LV* bf16_bits(LV* x);            // any f32, rounded to bf16 -> its bits
  LV* widen(LV* bits, DType type); // bits -> f32
  LV* narrow_fma(LV* x, LV* y, LV* z, DType type); // of f32 values that `type` holds: rounded once, to `type`
  LV* f64_to_f32_odd(LV* x); // rounded to odd: a second rounding to fewer bits is then right

  // ---- functions ----
  LV* function(Op op, LV* x, LV* y = nullptr); // rows of the op table that are not instructions
  LV* exp2(LV* x);
  LV* exp(LV* x);
  LV* expm1(LV* x);
  LV* log2(LV* x);
  LV* log(LV* x);
  LV* log1p(LV* x);
  LV* sin(LV* x, bool cosine);
  LV* tan(LV* x);
  LV* tanh(LV* x);
  LV* logistic(LV* x, bool times_x); // sigmoid and silu
  LV* erf(LV* x);
  LV* pow(LV* x, LV* y);
  LV* remainder(LV* x, LV* y); // floor modulo, exact before its one rounding
  LV* ldexp(LV* x, LV* y);     // x * 2^round(y), rounded once

  // ---- pieces ----
  LV* fma(LV* x, LV* y, LV* z);
  LV* abs(LV* x);
  LV* nan_or(LV* x, LV* y, LV* number); // NaN where x or y is one
  LV* min(LV* x, LV* y);                // NaN if either is
  LV* max(LV* x, LV* y);
  /// The same for a state that takes in one value after the other.
  LV* largest(LV* state, LV* x);
  LV* least(LV* state, LV* x);
  LV* unary(llvm::Intrinsic::ID id, LV* x) { return b_.CreateUnaryIntrinsic(id, x); }
  LV* real(LV* like, double x) { return llvm::ConstantFP::get(like->getType(), x); }
  llvm::Type* integer_type(LV* x); // of the same width and lanes
  LV* bits(LV* x) { return b_.CreateBitCast(x, integer_type(x)); }
  LV* number(LV* x, llvm::Type* type) { return b_.CreateBitCast(x, type); }
  LV* integer(LV* like, int64_t x) { return int_constant(like->getType(), x); }
  LV* copy_sign(LV* magnitude, LV* sign);
  LV* polynomial(LV* x, llvm::ArrayRef<double> coefficients); // c0 + c1 x + ...
  LV* is_nan(LV* x) { return b_.CreateFCmpUNO(x, x); }
  bool is_f64(LV* x) { return x->getType()->getScalarType()->isDoubleTy(); }

private:
  LV* round_f32(LV* x, int significand, int low);
  LV* power_of_two(LV* n, bool f64, llvm::Type* type);
  LV* scale_unit(LV* x, LV* n);
  void split_exponent(LV* x, LV*& m, LV*& n);
  LV* exp2(LV* x, llvm::ArrayRef<double> coefficients); // 2^t = 1 + t p(t), |t| <= 1/2
  LV* at_least(LV* x, double low);
  LV* at_most(LV* x, double high);
  LV* clamp(LV* x, double low, double high);
  LV* nearest(LV* x, LV*& whole);
  LV* rounded_integer(LV* x);
  LV* small_integer(LV* whole, llvm::Type* type);
  bool has_scale_instruction(LV* x);
  LV* by_vectors(llvm::ArrayRef<LV*> args, const std::function<LV*(llvm::ArrayRef<LV*>)>& op);
  LV* masked(const char* name, llvm::Type* result, llvm::SmallVector<LV*, 4> args, LV* kept, LV* lanes);
  LV* scale_result(LV* r, LV* n, LV* whole);
  LV* scale_positive(LV* r, LV* n, LV* whole);
  LV* exponent(LV* x, LV*& whole);
  LV* reduce_exp(LV* x, LV* n);
  LV* exp_unit(LV* t);
  LV* expm1_unit(LV* t);
  LV* reduce_log(LV* x, LV*& n);
  LV* log_special(LV* x, LV* r);
  LV* log_sum(LV* x, LV* f, LV* n);
  void log1p_pair(LV* f, LV*& high, LV*& low);
  void add_to_exponent(LV* n, LV* p, LV* e, LV*& high, LV*& low);
  void log2_precise(LV* x, LV*& high, LV*& low);
  void log2_pair(LV* x, LV*& high, LV*& low);
  void reduce_large(LV* x, LV*& quadrant, LV*& high, LV*& low);
  llvm::Function* large_angles();
  LV* angle_memory(uint64_t count);
  void reduce_angle(LV* x, double limit, LV*& quadrant, LV*& high, LV*& low);
  void angle_parts(LV* x, LV*& sine, LV*& cosine, LV*& quadrant);

  llvm::IRBuilder<>& b_;
  const CpuTarget& target_;
};

/// The type `element`, or as many of it as the vector x has.
llvm::Type* like(llvm::Value* x, llvm::Type* element);

} // namespace luminal::codegen
