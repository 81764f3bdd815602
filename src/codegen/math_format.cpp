// codegen/math_format.cpp -- narrow float formats, scaling by powers of two, remainder: what must
// be exact or rounded once.
#include "codegen/math.h"

namespace luminal::codegen {
using llvm::Value;
namespace Intrinsic = llvm::Intrinsic;

llvm::Type* like(Value* x, llvm::Type* element) {
  auto* v = llvm::dyn_cast<llvm::FixedVectorType>(x->getType());
  return v ? llvm::FixedVectorType::get(element, v->getNumElements()) : element;
}

llvm::Type* MathEmitter::integer_type(Value* x) {
  return like(x, is_f64(x) ? b_.getInt64Ty() : b_.getInt32Ty());
}
Value* MathEmitter::fma(Value* x, Value* y, Value* z) {
  return b_.CreateIntrinsic(Intrinsic::fma, {x->getType()}, {x, y, z});
}
Value* MathEmitter::abs(Value* x) { return unary(Intrinsic::fabs, x); }
Value* MathEmitter::copy_sign(Value* magnitude, Value* sign) {
  return b_.CreateBinaryIntrinsic(Intrinsic::copysign, magnitude, sign);
}

// One instruction gives the second operand where either is NaN; a blend puts a NaN there. With a
// number as one argument a single comparison does: where it fails the other argument is taken, NaN
// included. The NaN is that of y - x: with x itself as the other arm, LLVM 19 joins the two
// conditions, and takes `|x| is NaN or 0 < |x|` for `not x <= 0` as soon as one argument turns out
// to be 0.
static bool is_number(Value* v) {
  auto* c = llvm::dyn_cast<llvm::Constant>(v);
  if (c && c->getType()->isVectorTy()) c = c->getSplatValue();
  auto* number = llvm::dyn_cast_or_null<llvm::ConstantFP>(c);
  return number && !number->isNaN();
}
Value* MathEmitter::nan_or(Value* x, Value* y, Value* number) {
  return b_.CreateSelect(b_.CreateFCmpUNO(x, y), b_.CreateFSub(y, x), number);
}
Value* MathEmitter::min(Value* x, Value* y) {
  if (is_number(x)) std::swap(x, y);
  if (is_number(y)) return b_.CreateSelect(b_.CreateFCmpOLT(y, x), y, x);
  return nan_or(x, y, b_.CreateSelect(b_.CreateFCmpOLT(x, y), x, y));
}
Value* MathEmitter::max(Value* x, Value* y) {
  if (is_number(x)) std::swap(x, y);
  if (is_number(y)) return b_.CreateSelect(b_.CreateFCmpOGT(y, x), y, x);
  return nan_or(x, y, b_.CreateSelect(b_.CreateFCmpOGT(x, y), x, y));
}

// The comparison does not wait for the state: a chain of these takes the time of the instruction
// and of the blend. The NaN is a constant, or LLVM would join both conditions.
Value* MathEmitter::largest(Value* state, Value* x) {
  Value* larger = b_.CreateSelect(b_.CreateFCmpOGT(x, state), x, state);
  return b_.CreateSelect(is_nan(x), real(x, NAN), larger);
}
Value* MathEmitter::least(Value* state, Value* x) {
  Value* smaller = b_.CreateSelect(b_.CreateFCmpOLT(x, state), x, state);
  return b_.CreateSelect(is_nan(x), real(x, NAN), smaller);
}

Value* MathEmitter::polynomial(Value* x, llvm::ArrayRef<double> c) {
  Value* r = real(x, c.back());
  for (size_t i = c.size() - 1; i-- > 0;) r = fma(r, x, real(x, c[i]));
  return r;
}

// f32 -> the value with `significand` bits (the leading one included) and least normal exponent
// `low`, to nearest even. Normal numbers round in their bits; below the normal range the spacing is
// fixed, and adding a large number rounds to it.
Value* MathEmitter::round_f32(Value* x, int significand, int low) {
  Value* u = bits(x);
  int drop = 24 - significand;
  Value* odd = b_.CreateAnd(b_.CreateLShr(u, integer(u, drop)), integer(u, 1));
  Value* up = b_.CreateAdd(u, b_.CreateAdd(odd, integer(u, (int64_t(1) << (drop - 1)) - 1)));
  Value* normal = number(b_.CreateAnd(up, integer(u, -(int64_t(1) << drop))), x->getType());
  Value* magnitude = abs(x);
  Value* r = normal;
  if (low > -126) {
    Value* anchor = real(x, std::ldexp(1.5, low - significand + 24)); // its last place is the spacing
    Value* small = copy_sign(b_.CreateFSub(b_.CreateFAdd(magnitude, anchor), anchor), x);
    r = b_.CreateSelect(b_.CreateFCmpOLT(magnitude, real(x, std::ldexp(1.0, low))), small, normal);
  }
  return b_.CreateSelect(is_nan(x), x, r);
}

Value* MathEmitter::bf16_bits(Value* x) {
  Value* u = bits(x);
  Value* odd = b_.CreateAnd(b_.CreateLShr(u, integer(u, 16)), integer(u, 1));
  Value* up = b_.CreateAdd(u, b_.CreateAdd(odd, integer(u, 0x7FFF)));
  Value* high = b_.CreateSelect(is_nan(x), integer(u, 0x7FC0), b_.CreateLShr(up, integer(u, 16)));
  return b_.CreateTrunc(high, like(x, b_.getInt16Ty()));
}

Value* MathEmitter::f64_to_f32_odd(Value* x) {
  llvm::Type* f32 = like(x, b_.getFloatTy());
  Value *f = b_.CreateFPTrunc(x, f32), *back = b_.CreateFPExt(f, x->getType());
  Value* u = bits(f);
  Value* too_far = b_.CreateFCmpOGT(abs(back), abs(x));
  Value* odd = b_.CreateOr(b_.CreateSub(u, b_.CreateZExt(too_far, u->getType())), integer(u, 1));
  return b_.CreateSelect(b_.CreateFCmpUEQ(back, x), f, number(odd, f32)); // exact, or NaN
}

Value* MathEmitter::round_to(Value* x, DType type) {
  if (is_f64(x)) {
    if (type == DType::f64) return x;
    if (type == DType::f32) return b_.CreateFPTrunc(x, like(x, b_.getFloatTy()));
    x = f64_to_f32_odd(x);
  }
  switch (type) {
  case DType::bf16: return round_f32(x, 8, -126);
  case DType::f16: return b_.CreateFPExt(b_.CreateFPTrunc(x, like(x, b_.getHalfTy())), x->getType());
  case DType::f8e5m2: {
    Value* r = round_f32(x, 3, -14);
    Value* beyond = b_.CreateFCmpOGT(abs(r), real(x, 57344));
    return b_.CreateSelect(beyond, copy_sign(real(x, HUGE_VAL), x), r);
  }
  case DType::f8e4m3: {
    Value* r = round_f32(x, 4, -6);
    Value* beyond = b_.CreateFCmpOGT(abs(r), real(x, 448));
    return b_.CreateSelect(beyond, real(x, NAN), r);
  }
  default: return x;
  }
}

Value* MathEmitter::narrow(Value* x, DType type) {
  llvm::Type *i16 = like(x, b_.getInt16Ty()), *i8 = like(x, b_.getInt8Ty());
  auto half_bits = [&](Value* v) {
    return b_.CreateBitCast(b_.CreateFPTrunc(v, like(v, b_.getHalfTy())), i16);
  };
  switch (type) {
  case DType::bf16: {
    // A NaN whose payload sits in the low half must not become an infinity.
    Value* u = bits(x);
    Value* high = b_.CreateLShr(u, integer(u, 16));
    return b_.CreateTrunc(b_.CreateSelect(is_nan(x), integer(u, 0x7FC0), high), i16);
  }
  case DType::f16: return half_bits(x);
  case DType::f8e5m2: {
    Value* h = b_.CreateLShr(half_bits(x), int_constant(i16, 8));
    return b_.CreateTrunc(b_.CreateSelect(is_nan(x), int_constant(i16, 0x7F), h), i8);
  }
  default: { // f8e4m3: as an f16 with an exponent 8 less
    Value* h = half_bits(b_.CreateFMul(x, real(x, 0x1p-8)));
    Value* magnitude = b_.CreateAnd(b_.CreateLShr(h, int_constant(i16, 7)), int_constant(i16, 0x7F));
    Value* sign = b_.CreateAnd(b_.CreateLShr(h, int_constant(i16, 8)), int_constant(i16, 0x80));
    return b_.CreateTrunc(b_.CreateSelect(is_nan(x), int_constant(i16, 0x7F), b_.CreateOr(magnitude, sign)),
                          i8);
  }
  }
}

Value* MathEmitter::widen(Value* u, DType type) {
  llvm::Type *i16 = like(u, b_.getInt16Ty()), *i32 = like(u, b_.getInt32Ty()),
             *f32 = like(u, b_.getFloatTy());
  // LLVM would compare halves instead of the widened numbers, one lane after the other where the
  // processor has no f16 arithmetic: the fence keeps the numbers wide and costs no instruction.
  auto from_half = [&](Value* h) -> Value* {
    Value* wide = b_.CreateFPExt(b_.CreateBitCast(h, like(u, b_.getHalfTy())), f32);
    const bool fences = target_.triple.starts_with("x86_64");
    return fences ? b_.CreateIntrinsic(llvm::Intrinsic::arithmetic_fence, {f32}, {wide}) : wide;
  };
  switch (type) {
  case DType::bf16: return b_.CreateBitCast(b_.CreateShl(b_.CreateZExt(u, i32), int_constant(i32, 16)), f32);
  case DType::f16: return from_half(u);
  case DType::f8e5m2: return from_half(b_.CreateShl(b_.CreateZExt(u, i16), int_constant(i16, 8)));
  default: {
    Value* w = b_.CreateZExt(u, i16);
    Value* magnitude = b_.CreateAnd(w, int_constant(i16, 0x7F));
    Value* sign = b_.CreateShl(b_.CreateAnd(w, int_constant(i16, 0x80)), int_constant(i16, 8));
    Value* x = b_.CreateFMul(from_half(b_.CreateOr(b_.CreateShl(magnitude, int_constant(i16, 7)), sign)),
                             llvm::ConstantFP::get(f32, 256));
    return b_.CreateSelect(b_.CreateICmpEQ(magnitude, int_constant(i16, 0x7F)), llvm::ConstantFP::getNaN(f32),
                           x);
  }
  }
}

// The product of two narrow values is exact in f64; the sum is rounded to odd, so that the last
// rounding is the only one.
Value* MathEmitter::narrow_fma(Value* x, Value* y, Value* z, DType type) {
  llvm::Type* f64 = like(x, b_.getDoubleTy());
  Value *p = b_.CreateFMul(b_.CreateFPExt(x, f64), b_.CreateFPExt(y, f64)), *c = b_.CreateFPExt(z, f64);
  Value *s = b_.CreateFAdd(p, c), *part = b_.CreateFSub(s, p);
  Value* lost = b_.CreateFAdd(b_.CreateFSub(p, b_.CreateFSub(s, part)), b_.CreateFSub(c, part));
  Value* u = bits(s);
  Value *zero = real(s, 0), *inexact = b_.CreateFCmpONE(lost, zero); // false for NaN: an infinite sum stays
  Value* towards_zero = b_.CreateXor(b_.CreateFCmpOLT(lost, zero), b_.CreateFCmpOLT(s, zero));
  Value* odd = b_.CreateOr(b_.CreateSub(u, b_.CreateZExt(towards_zero, u->getType())), integer(u, 1));
  return round_to(b_.CreateSelect(inexact, number(odd, f64), s), type);
}

// 2^n as a number, n an integer in the range of normal exponents.
Value* MathEmitter::power_of_two(Value* n, bool f64, llvm::Type* type) {
  Value* biased = b_.CreateAdd(n, integer(n, f64 ? 1023 : 127));
  return number(b_.CreateShl(biased, integer(n, f64 ? 52 : 23)), type);
}

// x * 2^n for x in [1/2, 2) and any n: half of the exponent is exact, the second half rounds once.
Value* MathEmitter::scale_unit(Value* x, Value* n) {
  bool f64 = is_f64(x);
  Value *half = b_.CreateAShr(n, integer(n, 1)), *rest = b_.CreateSub(n, half);
  Value* first = b_.CreateFMul(x, power_of_two(half, f64, x->getType()));
  return b_.CreateFMul(first, power_of_two(rest, f64, x->getType()));
}

/// x = m * 2^n with m in [1, 2), for finite x that is not 0.
void MathEmitter::split_exponent(Value* x, Value*& m, Value*& n) {
  bool f64 = is_f64(x);
  int mantissa = f64 ? 52 : 23, bias = f64 ? 1023 : 127;
  Value* subnormal = b_.CreateFCmpOLT(abs(x), real(x, f64 ? 0x1p-1022 : 0x1p-126));
  Value* u = bits(b_.CreateSelect(subnormal, b_.CreateFMul(x, real(x, f64 ? 0x1p54 : 0x1p25)), x));
  Value* exponent = b_.CreateAnd(b_.CreateLShr(u, integer(u, mantissa)), integer(u, f64 ? 2047 : 255));
  n = b_.CreateSub(exponent,
                   b_.CreateSelect(subnormal, integer(u, bias + (f64 ? 54 : 25)), integer(u, bias)));
  int64_t keep = f64 ? int64_t(0x800FFFFFFFFFFFFF) : int64_t(0x807FFFFF);
  Value* one = integer(u, f64 ? int64_t(0x3FF0000000000000) : int64_t(0x3F800000));
  m = number(b_.CreateOr(b_.CreateAnd(u, integer(u, keep)), one), x->getType());
}

Value* MathEmitter::ldexp(Value* x, Value* y) {
  bool f64 = is_f64(x);
  double limit = f64 ? 5000 : 1000;
  Value* n = unary(Intrinsic::roundeven, y);
  n = b_.CreateSelect(b_.CreateFCmpOGT(n, real(y, limit)), real(y, limit), n);
  n = b_.CreateSelect(b_.CreateFCmpOLT(n, real(y, -limit)), real(y, -limit), n);
  n = b_.CreateSelect(is_nan(n), real(y, 0), n);
  Value *whole = b_.CreateFPToSI(n, integer_type(x)), *m, *exponent;
  split_exponent(x, m, exponent);
  // Beyond these the result is infinite or zero whatever the exponent.
  Value* total = b_.CreateAdd(exponent, whole);
  int most = f64 ? 1100 : 160;
  total = b_.CreateBinaryIntrinsic(Intrinsic::smin, total, integer(total, most));
  total = b_.CreateBinaryIntrinsic(Intrinsic::smax, total, integer(total, -most));
  Value* r = scale_unit(m, total);
  Value* special = b_.CreateOr(b_.CreateFCmpUEQ(x, real(x, 0)),
                               b_.CreateFCmpOEQ(abs(x), real(x, HUGE_VAL))); // 0, NaN, infinite
  r = b_.CreateSelect(special, x, r);
  // An infinite or NaN exponent: a * inf, a * 0, NaN.
  Value *infinite = b_.CreateFCmpOEQ(abs(y), real(y, HUGE_VAL)), *positive = b_.CreateFCmpOGT(y, real(y, 0));
  Value* with_infinite = b_.CreateFMul(x, b_.CreateSelect(positive, y, real(y, 0)));
  r = b_.CreateSelect(infinite, with_infinite, r);
  return b_.CreateSelect(is_nan(y), y, r);
}

// Floor modulo. Each round takes a multiple of |y| * 2^k off, with k such that the quotient is a
// whole number below 2^53: exact. f32 works in f64.
Value* MathEmitter::remainder(Value* x, Value* y) {
  llvm::Type *type = x->getType(), *f64 = like(x, b_.getDoubleTy());
  bool wide = is_f64(x);
  Value *a = wide ? x : b_.CreateFPExt(x, f64), *c = wide ? y : b_.CreateFPExt(y, f64);
  Value *magnitude = abs(a), *divisor = abs(c), *infinity = real(a, HUGE_VAL), *zero = real(a, 0);
  Value* usual =
      b_.CreateAnd(b_.CreateFCmpOLT(magnitude, infinity),
                   b_.CreateAnd(b_.CreateFCmpOGT(divisor, zero), b_.CreateFCmpOLT(divisor, infinity)));
  Value *r0 = b_.CreateSelect(usual, magnitude, zero), *d = b_.CreateSelect(usual, divisor, real(a, 1));

  llvm::Function* function = b_.GetInsertBlock()->getParent();
  auto* before = b_.GetInsertBlock();
  auto* round = llvm::BasicBlock::Create(b_.getContext(), "remainder", function);
  auto* done = llvm::BasicBlock::Create(b_.getContext(), "remainder.end", function);
  auto any = [&](Value* condition) {
    return condition->getType()->isVectorTy() ? b_.CreateOrReduce(condition) : condition;
  };
  b_.CreateCondBr(any(b_.CreateFCmpOGE(r0, d)), round, done);
  b_.SetInsertPoint(round);
  llvm::PHINode* r = b_.CreatePHI(f64, 2);
  r->addIncoming(r0, before);
  Value *m, *en, *dm, *ed;
  Value* safe = b_.CreateSelect(b_.CreateFCmpOGT(r, zero), r, real(a, 1));
  split_exponent(safe, m, en);
  split_exponent(d, dm, ed);
  Value* k = b_.CreateBinaryIntrinsic(Intrinsic::smax, b_.CreateSub(b_.CreateSub(en, ed), integer(en, 51)),
                                      integer(en, 0));
  Value* step = scale_unit(dm, b_.CreateAdd(ed, k)); // |y| * 2^k, exact
  Value* q = unary(Intrinsic::trunc, b_.CreateFDiv(r, step));
  Value* left = fma(b_.CreateFNeg(q), step, r);
  left = b_.CreateSelect(b_.CreateFCmpOLT(left, zero), b_.CreateFAdd(left, step),
                         left); // the quotient was rounded up
  left = b_.CreateSelect(b_.CreateFCmpOGE(left, step), b_.CreateFSub(left, step), left);
  Value* next = b_.CreateSelect(b_.CreateFCmpOGE(r, d), left, r);
  r->addIncoming(next, b_.GetInsertBlock());
  b_.CreateCondBr(any(b_.CreateFCmpOGE(next, d)), round, done);
  b_.SetInsertPoint(done);
  llvm::PHINode* rest = b_.CreatePHI(f64, 2);
  rest->addIncoming(r0, before);
  rest->addIncoming(next, round);

  Value* signed_rest = copy_sign(rest, a);
  Value* other_sign = b_.CreateXor(b_.CreateFCmpOLT(a, zero), b_.CreateFCmpOLT(c, zero));
  Value* result = b_.CreateSelect(b_.CreateAnd(other_sign, b_.CreateFCmpOGT(rest, zero)),
                                  b_.CreateFAdd(signed_rest, c), signed_rest);
  // Of a finite number by an infinite one: itself, or the infinity where the signs differ. All else
  // is NaN.
  Value* by_infinity =
      b_.CreateAnd(b_.CreateFCmpOLT(magnitude, infinity), b_.CreateFCmpOEQ(divisor, infinity));
  Value* itself = b_.CreateSelect(b_.CreateAnd(other_sign, b_.CreateFCmpOGT(magnitude, zero)), c, a);
  result = b_.CreateSelect(usual, result, b_.CreateSelect(by_infinity, itself, real(a, NAN)));
  return wide ? result : b_.CreateFPTrunc(result, type);
}

} // namespace luminal::codegen
