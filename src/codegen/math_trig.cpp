// codegen/math_trig.cpp -- sine, cosine and tangent: argument reduction in f64, exact for arguments
// of any size.
#include "codegen/math.h"
#include <llvm/IR/MDBuilder.h>

namespace luminal::codegen {
using llvm::Value;
namespace Intrinsic = llvm::Intrinsic;

namespace {
// pi/2 in parts of 53 bits.
constexpr double half_pi_1 = 0x1.921fb54442d18p+0, half_pi_2 = 0x1.1a62633145c07p-54,
                 half_pi_3 = -0x1.f1976b7ed8fbcp-110;
constexpr double two_over_pi = 0.63661977236758134308;

// sin r = r + r z p(z), cos r = 1 - z/2 + z^2 p(z), z = r^2, |r| <= pi/4
constexpr double sin_f32[] = {-0.1666666716337204, 0.008333379402756691, -0.00019853064441122115,
                              2.832508471328765e-06};
constexpr double cos_f32[] = {0.0416666679084301, -0.0013888980029150844, 2.4822014893288724e-05,
                              -2.887984749122552e-07};
constexpr double sin_f64[] = {-0.16666666666666666,  0.008333333333333042,    -0.0001984126984096247,
                              2.755731907397707e-06, -2.5052070918990177e-08, 1.6054310732390491e-10,
                              -7.39688102417108e-13};
constexpr double cos_f64[] = {0.041666666666666664,   -0.0013888888888888389, 2.4801587301180817e-05,
                              -2.755731906067993e-07, 2.0876722007688912e-09, -1.1466861578535635e-11,
                              4.592667458500749e-14};

// The binary digits of 2/pi behind the point, after 64 zeros.
constexpr uint64_t two_over_pi_bits[] = {
    0x0000000000000000, 0xA2F9836E4E441529, 0xFC2757D1F534DDC0, 0xDB6295993C439041, 0xFE5163ABDEBBC561,
    0xB7246E3A424DD2E0, 0x06492EEA09D1921C, 0xFE1DEB1CB129A73E, 0xE88235F52EBB4484, 0xE99C7026B45F7E41,
    0x3991D639835339F4, 0x9C845F8BBDF9283B, 0x1FF897FFDE05980F, 0xEF2F118B5A0A6D1F, 0x6D367ECF27CB09B7,
    0x4F463F669E5FEA2D, 0x7527BAC7EBE5F17B, 0x3D0739F78A5292EA, 0x6BFB5FB11F8D5D08, 0x56033046FC7B6BAB,
    0xF0CFBC209AF4361D};
} // namespace

// Payne and Hanek: x = M 2^E; the digits of 2/pi that matter for x 2/pi modulo 4 are a window of
// 192 bits at a place that E gives. The product with M modulo 2^192 has the quadrant in its top two
// bits. M. Payne, R. Hanek, "Radian reduction for trigonometric functions", SIGNUM 18 (1983).
void MathEmitter::reduce_large(Value* x, Value*& quadrant, Value*& high, Value*& low) {
  llvm::Type *i64 = b_.getInt64Ty(), *i128 = b_.getInt128Ty();
  llvm::Module* module = b_.GetInsertBlock()->getModule();
  auto* data = llvm::ConstantDataArray::get(b_.getContext(), llvm::ArrayRef<uint64_t>(two_over_pi_bits));
  auto* table = new llvm::GlobalVariable(*module, data->getType(), true, llvm::GlobalValue::PrivateLinkage,
                                         data, "luminal.two_over_pi");
  auto c = [&](llvm::Type* t, int64_t k) { return int_constant(t, k); };
  Value* u = bits(x);
  Value* exponent = b_.CreateAnd(b_.CreateLShr(u, c(i64, 52)), c(i64, 2047));
  Value* mantissa = b_.CreateOr(b_.CreateAnd(u, c(i64, 0x000FFFFFFFFFFFFF)), c(i64, 0x0010000000000000));
  // Digit i behind the point has weight 2^(E-i): the first one below 4 is i = E - 1, at place E - 2
  // + 64 of the table.
  Value* place = b_.CreateAdd(exponent, c(i64, -1023 - 52 - 2 + 64));
  place = b_.CreateBinaryIntrinsic(Intrinsic::smin, place, c(i64, 17 * 64)); // infinite, or NaN
  Value *word = b_.CreateLShr(place, c(i64, 6)), *shift = b_.CreateAnd(place, c(i64, 63));
  Value* words[4];
  for (int i = 0; i < 4; ++i)
    words[i] = b_.CreateLoad(i64, b_.CreateGEP(i64, table, b_.CreateAdd(word, c(i64, i))));
  Value* window[3];
  for (int i = 0; i < 3; ++i)
    window[i] = b_.CreateIntrinsic(Intrinsic::fshl, {i64}, {words[i], words[i + 1], shift});
  auto wide = [&](Value* v) { return b_.CreateZExt(v, i128); };
  Value* m = wide(mantissa);
  Value* p = b_.CreateShl(b_.CreateMul(m, wide(window[0])), c(i128, 64));
  p = b_.CreateAdd(p, b_.CreateMul(m, wide(window[1])));
  p = b_.CreateAdd(p, b_.CreateLShr(b_.CreateMul(m, wide(window[2])), c(i128, 64)));
  // p / 2^126 is the angle in quarter turns modulo 4.
  Value* quarter = b_.CreateShl(c(i128, 1), c(i128, 125));
  Value* n = b_.CreateLShr(b_.CreateAdd(p, quarter), c(i128, 126));
  Value* rest =
      b_.CreateSub(p, b_.CreateShl(n, c(i128, 126))); // in [-1/2, 1/2) quarter turns, two's complement
  Value* negative = b_.CreateICmpSLT(rest, c(i128, 0));
  Value* magnitude = b_.CreateSelect(negative, b_.CreateNeg(rest), rest);
  Value* zeros = b_.CreateIntrinsic(Intrinsic::ctlz, {i128}, {magnitude, b_.getFalse()});
  zeros = b_.CreateBinaryIntrinsic(Intrinsic::umin, zeros, c(i128, 127));
  Value* normal = b_.CreateShl(magnitude, zeros);
  auto to_number = [&](Value* v) { return b_.CreateUIToFP(b_.CreateTrunc(v, i64), x->getType()); };
  Value* h = to_number(b_.CreateLShr(normal, c(i128, 75))); // 53 bits
  Value* l = to_number(
      b_.CreateAnd(b_.CreateLShr(normal, c(i128, 22)), c(i128, (int64_t(1) << 53) - 1))); // the next 53
  l = b_.CreateFMul(l, real(x, 0x1p-53));
  // (h + l) * 2^(75 - zeros - 126) quarter turns
  Value* scale = power_of_two(b_.CreateSub(c(i64, 75 - 126), b_.CreateTrunc(zeros, i64)), true, x->getType());
  scale = b_.CreateSelect(negative, b_.CreateFNeg(scale), scale);
  Value* product = b_.CreateFMul(h, real(x, half_pi_1));
  Value* lost = fma(h, real(x, half_pi_1), b_.CreateFNeg(product));
  lost = fma(h, real(x, half_pi_2), fma(l, real(x, half_pi_1), lost));
  Value* sum = b_.CreateFAdd(product, lost);
  Value* tail = b_.CreateFAdd(b_.CreateFSub(product, sum), lost);
  high = b_.CreateFMul(sum, scale);
  low = b_.CreateFMul(tail, scale);
  Value* sign = b_.CreateICmpSLT(u, c(i64, 0));
  high = b_.CreateSelect(sign, b_.CreateFNeg(high), high);
  low = b_.CreateSelect(sign, b_.CreateFNeg(low), low);
  Value* q = b_.CreateTrunc(n, i64);
  quadrant = b_.CreateSelect(sign, b_.CreateNeg(q), q);
}

/// Reduces the large ones of `lanes` angles, one after the other: void (ptr angles, i64 lanes,
/// double limit). Behind the angles lie as many quadrants, high and low parts, of which those of
/// large angles are written. One function for a module: the code is long, and seldom runs.
llvm::Function* MathEmitter::large_angles() {
  llvm::Function* caller = b_.GetInsertBlock()->getParent();
  llvm::Module* module = caller->getParent();
  const char* name = "luminal.large_angles";
  if (llvm::Function* made = module->getFunction(name)) return made;
  llvm::LLVMContext& context = b_.getContext();
  llvm::IRBuilder<> b(context);
  llvm::Type *i64 = b.getInt64Ty(), *f64 = b.getDoubleTy();
  auto* type = llvm::FunctionType::get(b.getVoidTy(), {b.getPtrTy(), i64, f64}, false);
  auto* function = llvm::Function::Create(type, llvm::Function::InternalLinkage, name, module);
  function->setAttributes(
      llvm::AttributeList::get(context, llvm::AttributeList::FunctionIndex,
                               llvm::AttrBuilder(context, caller->getAttributes().getFnAttrs())));
  function->addFnAttr(llvm::Attribute::NoInline);
  function->addFnAttr(llvm::Attribute::Cold);
  Value *angles = function->getArg(0), *lanes = function->getArg(1), *limit = function->getArg(2);
  auto block = [&](const char* label) { return llvm::BasicBlock::Create(context, label, function); };
  auto *entry = block("entry"), *loop = block("loop"), *large = block("large"), *next = block("next"),
       *end = block("end");
  b.SetInsertPoint(entry);
  b.CreateBr(loop);
  b.SetInsertPoint(loop);
  llvm::PHINode* lane = b.CreatePHI(i64, 2);
  Value* x = b.CreateLoad(f64, b.CreateGEP(f64, angles, lane));
  b.CreateCondBr(b.CreateFCmpOGT(b.CreateUnaryIntrinsic(Intrinsic::fabs, x), limit), large, next);
  b.SetInsertPoint(large);
  Value *quadrant, *high, *low, *place = lane;
  MathEmitter(b, target_).reduce_large(x, quadrant, high, low);
  for (Value* part : {quadrant, high, low}) {
    place = b.CreateAdd(place, lanes);
    b.CreateStore(part, b.CreateGEP(f64, angles, place));
  }
  b.CreateBr(next);
  b.SetInsertPoint(next);
  Value* following = b.CreateAdd(lane, b.getInt64(1));
  b.CreateCondBr(b.CreateICmpEQ(following, lanes), end, loop);
  lane->addIncoming(b.getInt64(0), entry);
  lane->addIncoming(following, next);
  b.SetInsertPoint(end);
  b.CreateRetVoid();
  return function;
}

/// So many numbers on the stack, the same ones for all angles of a function.
Value* MathEmitter::angle_memory(uint64_t count) {
  auto* type = llvm::ArrayType::get(b_.getDoubleTy(), count);
  llvm::BasicBlock& entry = b_.GetInsertBlock()->getParent()->getEntryBlock();
  for (llvm::Instruction& i : entry)
    if (auto* made = llvm::dyn_cast<llvm::AllocaInst>(&i);
        made && made->getAllocatedType() == type && made->getName().starts_with("angles"))
      return made;
  return llvm::IRBuilder<>(&entry, entry.begin()).CreateAlloca(type, nullptr, "angles");
}

/// f64 x = quadrant * pi/2 + high + low.
void MathEmitter::reduce_angle(Value* x, double limit, Value*& quadrant, Value*& high, Value*& low) {
  Value* is_large = b_.CreateFCmpOGT(abs(x), real(x, limit));
  Value *whole,
      *n = nearest(b_.CreateFMul(b_.CreateSelect(is_large, real(x, 0), x), real(x, two_over_pi)), whole);
  Value* minus = b_.CreateFNeg(n);
  Value* r = fma(minus, real(x, half_pi_1), x); // exact
  Value* h = fma(minus, real(x, half_pi_2), r);
  Value* l = fma(minus, real(x, half_pi_2), b_.CreateFSub(r, h));
  l = fma(minus, real(x, half_pi_3), l);

  llvm::Function* function = b_.GetInsertBlock()->getParent();
  auto* before = b_.GetInsertBlock();
  auto* slow = llvm::BasicBlock::Create(b_.getContext(), "large_angle", function);
  auto* end = llvm::BasicBlock::Create(b_.getContext(), "angle", function);
  Value* any = is_large->getType()->isVectorTy() ? b_.CreateOrReduce(is_large) : is_large;
  b_.CreateCondBr(any, slow, end, llvm::MDBuilder(b_.getContext()).createBranchWeights(1, 1000));
  b_.SetInsertPoint(slow);
  // The angles and what is known of them, in memory.
  auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(x->getType());
  const uint64_t lanes = vector ? vector->getNumElements() : 1;
  Value *memory = angle_memory(4 * lanes), *fast[] = {x, whole, h, l}, *all[4];
  auto place = [&](unsigned i) { return b_.CreateConstGEP1_64(b_.getDoubleTy(), memory, i * lanes); };
  for (unsigned i = 0; i < 4; ++i) b_.CreateAlignedStore(fast[i], place(i), llvm::Align(8));
  b_.CreateCall(large_angles(), {memory, b_.getInt64(lanes), llvm::ConstantFP::get(b_.getDoubleTy(), limit)});
  for (unsigned i = 1; i < 4; ++i)
    all[i] = b_.CreateAlignedLoad(fast[i]->getType(), place(i), llvm::Align(8));
  b_.CreateBr(end);
  b_.SetInsertPoint(end);
  auto join = [&](unsigned i) {
    llvm::PHINode* phi = b_.CreatePHI(fast[i]->getType(), 2);
    phi->addIncoming(fast[i], before);
    phi->addIncoming(all[i], slow);
    return phi;
  };
  quadrant = join(1);
  high = join(2);
  low = join(3);
  Value* lost = b_.CreateFCmpUEQ(abs(x), real(x, HUGE_VAL)); // NaN or infinite
  high = b_.CreateSelect(lost, real(x, NAN), high);
}

/// Sine and cosine of x as their two polynomials of the reduced angle, and the quadrant (i32 for
/// f32, i64 for f64).
void MathEmitter::angle_parts(Value* x, Value*& sine, Value*& cosine, Value*& quadrant) {
  Value *high, *low;
  bool f64 = is_f64(x);
  if (f64) {
    reduce_angle(x, 0x1p20, quadrant, high, low);
    Value *z = b_.CreateFMul(high, high), *zr = b_.CreateFMul(z, high);
    // sin(h + l) = sin h + l cos h, cos(h + l) = cos h - l h
    Value* s = fma(zr, polynomial(z, sin_f64), fma(low, fma(z, real(x, -0.5), real(x, 1)), real(x, 0)));
    sine = b_.CreateFAdd(high, s);
    Value *one = real(x, 1), *half = b_.CreateFMul(z, real(x, 0.5)), *w = b_.CreateFSub(one, half);
    Value* rest = b_.CreateFSub(b_.CreateFSub(one, w), half); // lost in the subtraction
    Value* c =
        fma(b_.CreateFMul(z, z), polynomial(z, cos_f64), b_.CreateFSub(rest, b_.CreateFMul(high, low)));
    cosine = b_.CreateFAdd(w, c);
    return;
  }
  Value* wide = b_.CreateFPExt(x, like(x, b_.getDoubleTy()));
  reduce_angle(wide, 0x1p40, quadrant, high, low);
  quadrant = b_.CreateTrunc(quadrant, like(x, b_.getInt32Ty()));
  Value* r = b_.CreateFPTrunc(high, x->getType());
  Value *z = b_.CreateFMul(r, r), *one = real(x, 1);
  sine = fma(b_.CreateFMul(z, r), polynomial(z, sin_f32), r);
  cosine = fma(b_.CreateFMul(z, z), polynomial(z, cos_f32), fma(z, real(x, -0.5), one));
}

Value* MathEmitter::sin(Value* x, bool cosine) {
  Value *s, *c, *quadrant;
  angle_parts(x, s, c, quadrant);
  if (cosine) quadrant = b_.CreateAdd(quadrant, integer(quadrant, 1));
  Value* odd = b_.CreateICmpNE(b_.CreateAnd(quadrant, integer(quadrant, 1)), integer(quadrant, 0));
  Value* r = b_.CreateSelect(odd, c, s);
  Value* minus = b_.CreateICmpNE(b_.CreateAnd(quadrant, integer(quadrant, 2)), integer(quadrant, 0));
  r = b_.CreateSelect(minus, b_.CreateFNeg(r), r);
  if (cosine) return r;
  return b_.CreateSelect(b_.CreateFCmpOLT(abs(x), real(x, is_f64(x) ? 0x1p-30 : 0x1p-13)), x,
                         r); // also keeps subnormal numbers and the sign of zero
}

Value* MathEmitter::tan(Value* x) {
  Value *s, *c, *quadrant;
  angle_parts(x, s, c, quadrant);
  Value* odd = b_.CreateICmpNE(b_.CreateAnd(quadrant, integer(quadrant, 1)), integer(quadrant, 0));
  Value *top = b_.CreateSelect(odd, b_.CreateFNeg(c), s), *bottom = b_.CreateSelect(odd, s, c);
  Value* r = b_.CreateFDiv(top, bottom);
  return b_.CreateSelect(b_.CreateFCmpOLT(abs(x), real(x, is_f64(x) ? 0x1p-30 : 0x1p-13)), x, r);
}

} // namespace luminal::codegen
