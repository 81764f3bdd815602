// codegen/math.cpp -- exponentials, logarithms and what is made of them. The coefficients are
// computed and judged by tools/math_coefficients.py.
#include "codegen/math.h"
#include <numeric>

namespace luminal::codegen {
using llvm::Value;
namespace Intrinsic = llvm::Intrinsic;

namespace {
constexpr double ln2_hi32 = 0x1.62e4p-1, ln2_lo32 = 0x1.7f7d1cf79abcap-20; // hi has 15 bits: n * hi is exact
constexpr double ln2_hi64 = 6.93147180369123816490e-01, ln2_lo64 = 1.90821492927058770002e-10;
constexpr double log2_e = 1.4426950408889634074;
constexpr double inverse_ln2_hi = 1.4426950408889634, inverse_ln2_lo = 2.0355273740931033e-17;

// 2^t = 1 + t p(t), |t| <= 1/2
constexpr double exp2_f32[] = {0.6931472420692444,   0.24022655189037323,   0.05550273880362511,
                               0.009617085568606853, 0.0013417324516922235, 0.00015809603792149574};
// The same to 2^-23.3, for what multiplies the error away.
constexpr double exp2_short_f32[] = {0.693147004, 0.240222469, 0.0555071086, 0.00967129134, 0.00132695213};
constexpr double exp2_f64[] = {0.6931471805599453,     0.24022650695910072,    0.05550410866482335,
                               0.009618129107628052,   0.001333355814597426,   0.00015403530394045997,
                               1.5252734340833507e-05, 1.3215486323018726e-06, 1.0177764688361058e-07,
                               7.055060145475755e-09,  4.5402664220563756e-10, 2.5522573615762003e-11,
                               -9.557981537222966e-12};
// e^t = 1 + t p(t), |t| <= ln(2)/2. Of even degree: positive for every t.
constexpr double exp_f32[] = {1, 0.499999881, 0.166665182, 0.0416696481, 0.00836894661, 0.00137453259};
constexpr double exp_f64[] = {1.0,
                              0.5,
                              0.16666666666666685,
                              0.041666666666666526,
                              0.008333333333315995,
                              0.0013888888888968006,
                              0.00019841269898513518,
                              2.4801587155248963e-05,
                              2.7557233039832656e-06,
                              2.755741770284334e-07,
                              2.511259393317407e-08,
                              2.0871063566459838e-09};
// e^t = 1 + t + t^2 p(t), |t| <= ln(2)/2; relative to e^t - 1
constexpr double expm1_f32[] = {0.5,
                                0.1666666567325592,
                                0.04166647791862488,
                                0.008333567529916763,
                                0.0013933697482571006,
                                0.000197424873476848};
constexpr double expm1_f64[] = {0.5,
                                0.16666666666666666,
                                0.04166666666666668,
                                0.008333333333334204,
                                0.001388888888887746,
                                0.0001984126983839232,
                                2.480158734056156e-05,
                                2.755732356064454e-06,
                                2.755725927058072e-07,
                                2.5049051506123327e-08,
                                2.0919476822951144e-09,
                                1.6886761082328703e-10};
// log(1 + f) = f + f^2 p(f), log2(1 + f) = f / ln 2 + f^2 p(f), 1 + f in [sqrt(1/2), sqrt(2)]
constexpr double log_f32[] = {-0.49999988079071045, 0.3333333730697632,   -0.25001615285873413,
                              0.200012668967247,    -0.16607660055160522, 0.14194105565547943,
                              -0.13267409801483154, 0.1283976286649704,   -0.07485571503639221};
constexpr double log2_f32[] = {-0.7213473320007324, 0.480898380279541,   -0.36069807410240173,
                               0.2885592579841614,  -0.2395804226398468, 0.2047341763973236,
                               -0.1914868950843811, 0.18551820516586304, -0.10816115140914917};
// log((1 + s) / (1 - s)) = 2 s + s z p(z), z = s^2
constexpr double atanh_f64[] = {0.6666666666666666,  0.4000000000000491,  0.28571428569415136,
                                0.22222222606629397, 0.18181778359222756, 0.15386989643037743,
                                0.13252110748762283, 0.1323527412505701};
// erf(x) = x + x p(x^2), |x| <= 1
constexpr double erf_f64[] = {0.1283791670955126,      -0.376126389031839,      0.11283791670960247,
                              -0.026866170645973544,   0.005223977633270208,    -0.0008548327478135521,
                              0.00012055350479442391,  -1.4926111527156336e-05, 1.6470564565870841e-06,
                              -1.6473352878315785e-07, 1.57378961948121e-08,    -1.7509947118174428e-09,
                              2.641774771984286e-10,   -3.031834957577849e-11};
// e^(x^2) erfc(x) (1 + 2x) = p((x - 3) / (x + 3)), 1 <= x <= 6.2
constexpr double erfcx_f64[] = {
    1.2530080582697296,     -0.13562110612458117,    -0.04756229435343559,    0.12964515870276247,
    -0.11927366341685047,   0.0683080273431868,      -0.023770514847629917,   0.0025293918835122653,
    0.001888688622592959,   -0.0007798346850513897,  -0.00010513594537954575, 0.00012514340854667384,
    4.7696477916331185e-06, -2.0533242227864446e-05, -1.0582691731878551e-07, 5.650336985724601e-06,
    2.1318614221572833e-07, -5.0168578841346625e-06, -3.3899372372041432e-06};
// erf(x) = x + x p(x^2) up to 475/512, then 1 - exp(-x + x q(x))
constexpr double erf_small_f32[] = {0.128379166,   -0.376125336,  0.112819925,
                                    -0.0267681349, 0.00499119423, -0.000596761703};
constexpr double erf_large_f32[] = {-0.128717512,   -0.634846687,   -0.106777877,    0.0242546219,
                                    -0.00388396438, 0.000383197126, -0.0000172853470};
// log2(Phi(-x)) = -1 + x p(x), 0 <= x <= 14.2, where x Phi(-x) leaves f32; below -150 and falling
// beyond. The error is small beside x Phi(-x).
constexpr double normal_tail_f32[] = {-1.15116596f,     -0.458809018f,   -0.0534475781f,  0.00816455018f,
                                      -0.000820701651f, 4.57428287e-05f, -1.03869172e-06f};
} // namespace

Value* MathEmitter::at_least(Value* x, double low) { // NaN stays
  return b_.CreateSelect(b_.CreateFCmpOLT(x, real(x, low)), real(x, low), x);
}

Value* MathEmitter::at_most(Value* x, double high) { // NaN stays
  return b_.CreateSelect(b_.CreateFCmpOGT(x, real(x, high)), real(x, high), x);
}

Value* MathEmitter::clamp(Value* x, double low, double high) { return at_most(at_least(x, low), high); }

/// The nearest integer of a number of moderate size, as a number; and as an integer that is
/// meaningless for NaN, but harmless.
Value* MathEmitter::nearest(Value* x, Value*& whole) {
  Value* anchor = real(x, is_f64(x) ? 0x1.8p52 : 0x1.8p23); // adding it leaves no room for a fraction
  Value* shifted = b_.CreateFAdd(x, anchor);
  Value* u = bits(shifted);
  whole = b_.CreateSub(u, bits(anchor));
  return b_.CreateFSub(shifted, anchor);
}

bool MathEmitter::has_scale_instruction(Value* x) {
  auto* v = llvm::dyn_cast<llvm::FixedVectorType>(x->getType());
  return target_.scalef && v && v->getNumElements() * v->getElementType()->getScalarSizeInBits() % 512 == 0;
}

// An operation on vectors of 512 bits, vector by vector where the arguments are wider.
Value* MathEmitter::by_vectors(llvm::ArrayRef<Value*> args,
                               const std::function<Value*(llvm::ArrayRef<Value*>)>& op) {
  const unsigned width = llvm::cast<llvm::FixedVectorType>(args[0]->getType())->getNumElements();
  if (width <= (is_f64(args[0]) ? 8U : 16U)) return op(args);
  llvm::SmallVector<int, 64> numbers(width);
  std::iota(numbers.begin(), numbers.end(), 0);
  const llvm::ArrayRef<int> all(numbers);
  const auto part = [&](llvm::ArrayRef<int> which) {
    llvm::SmallVector<Value*, 2> own;
    for (Value* v : args) own.push_back(b_.CreateShuffleVector(v, which));
    return by_vectors(own, op);
  };
  Value* first = part(all.take_front(width / 2));
  return b_.CreateShuffleVector(first, part(all.drop_front(width / 2)), all);
}

/// An instruction of AVX-512 for the lanes of a mask; the others are those of `kept`.
Value* MathEmitter::masked(const char* name, llvm::Type* result, llvm::SmallVector<Value*, 4> args,
                           Value* kept, Value* lanes) {
  args.append({kept, lanes, b_.getInt32(4)}); // rounds as everything does
  llvm::SmallVector<llvm::Type*, 5> types;
  for (const Value* v : args) types.push_back(v->getType());
  llvm::Module* module = b_.GetInsertBlock()->getModule();
  return b_.CreateCall(module->getOrInsertFunction(name, llvm::FunctionType::get(result, types, false)),
                       args);
}

// r * 2^n for r in [1/2, 2); n as a number and as an integer.
Value* MathEmitter::scale_result(Value* r, Value* n, Value* whole) {
  if (!has_scale_instruction(r)) return scale_unit(r, whole);
  return by_vectors({r, n}, [&](llvm::ArrayRef<Value*> v) {
    const bool f64 = is_f64(v[0]);
    return masked(f64 ? "llvm.x86.avx512.mask.scalef.pd.512" : "llvm.x86.avx512.mask.scalef.ps.512",
                  v[0]->getType(), {v[0], v[1]}, v[0],
                  int_constant(f64 ? b_.getInt8Ty() : b_.getInt16Ty(), -1));
  });
}

/// The same for r > 0 and an n that is not far below the least exponent. The scale instruction takes two
/// hundred cycles for a subnormal result: its bits are r * 2^(n + 149) as an integer, which takes three
/// instructions.
Value* MathEmitter::scale_positive(Value* r, Value* n, Value* whole) {
  if (!has_scale_instruction(r)) return scale_unit(r, whole);
  return by_vectors({r, n}, [&](llvm::ArrayRef<Value*> v) {
    const bool f64 = is_f64(v[0]);
    Value* low = b_.CreateFCmpOLT(v[1], real(v[1], f64 ? -1021 : -125));
    Value* lifted = b_.CreateSelect(low, b_.CreateFAdd(v[1], real(v[1], f64 ? 1074 : 149)), v[1]);
    Value* m = scale_result(v[0], lifted, nullptr);
    Value* lanes = b_.CreateBitCast(low, f64 ? b_.getInt8Ty() : b_.getInt16Ty());
    return number(masked(f64 ? "llvm.x86.avx512.mask.cvtpd2qq.512" : "llvm.x86.avx512.mask.cvtps2dq.512",
                         bits(m)->getType(), {m}, bits(m), lanes),
                  m->getType());
  });
}

/// The nearest integer, as scale_result takes it.
Value* MathEmitter::exponent(Value* x, Value*& whole) {
  if (!has_scale_instruction(x)) return nearest(x, whole);
  whole = nullptr;
  return unary(Intrinsic::roundeven, x);
}

/// The scale instruction needs no clamp above: it makes infinity of an exponent of any size. At an
/// infinite x the polynomial is NaN, but there the instruction goes by the exponent alone.
Value* MathEmitter::exp2(Value* x, llvm::ArrayRef<double> coefficients) {
  bool f64 = is_f64(x);
  x = at_least(x, f64 ? -1080 : -152);
  if (!has_scale_instruction(x)) x = at_most(x, f64 ? 1025 : 129);
  Value *whole, *n = exponent(x, whole), *t = b_.CreateFSub(x, n);
  return scale_positive(fma(polynomial(t, coefficients), t, real(x, 1)), n, whole);
}

Value* MathEmitter::exp2(Value* x) {
  return exp2(x, is_f64(x) ? llvm::ArrayRef<double>(exp2_f64) : llvm::ArrayRef<double>(exp2_f32));
}

/// x - n ln 2.
Value* MathEmitter::reduce_exp(Value* x, Value* n) {
  bool f64 = is_f64(x);
  Value* minus = b_.CreateFNeg(n);
  Value* t = fma(minus, real(x, f64 ? ln2_hi64 : ln2_hi32), x);
  return fma(minus, real(x, f64 ? ln2_lo64 : ln2_lo32), t);
}

/// e^t for |t| <= ln(2)/2.
Value* MathEmitter::exp_unit(Value* t) {
  auto p = is_f64(t) ? llvm::ArrayRef<double>(exp_f64) : llvm::ArrayRef<double>(exp_f32);
  return fma(polynomial(t, p), t, real(t, 1));
}

/// e^t - 1 for |t| <= ln(2)/2.
Value* MathEmitter::expm1_unit(Value* t) {
  Value* q = polynomial(t, is_f64(t) ? llvm::ArrayRef<double>(expm1_f64) : llvm::ArrayRef<double>(expm1_f32));
  return fma(b_.CreateFMul(t, t), q, t);
}

Value* MathEmitter::exp(Value* x) {
  bool f64 = is_f64(x);
  x = at_least(x, f64 ? -750 : -105);
  // What is left of a huge x may be anything, but the polynomial stays positive there: scaled, it
  // is infinite.
  if (!has_scale_instruction(x)) x = at_most(x, f64 ? 711 : 90);
  Value *whole, *n = exponent(b_.CreateFMul(x, real(x, log2_e)), whole);
  return scale_positive(exp_unit(reduce_exp(x, n)), n, whole);
}

Value* MathEmitter::expm1(Value* x) {
  bool f64 = is_f64(x);
  Value* c = clamp(x, f64 ? -40 : -20, f64 ? 710 : 89); // above: infinite, and 2^(n-1) still fits
  Value *whole, *n = nearest(b_.CreateFMul(c, real(x, log2_e)), whole), *t = reduce_exp(c, n);
  Value* half_scale = power_of_two(b_.CreateSub(whole, integer(whole, 1)), f64,
                                   x->getType()); // 2^(n-1): 2^n itself may not fit
  Value* r = fma(expm1_unit(t), half_scale, b_.CreateFSub(half_scale, real(x, 0.5)));
  r = b_.CreateFMul(r, real(x, 2));
  // Tiny arguments are their own result; halving them could lose their last bit.
  return b_.CreateSelect(b_.CreateFCmpOLT(abs(x), real(x, f64 ? 0x1p-60 : 0x1p-30)), x, r);
}

/// x = 2^n (1 + f), 1 + f in [sqrt(1/2), sqrt(2)), for positive finite x; n as a number.
Value* MathEmitter::reduce_log(Value* x, Value*& n) {
  bool f64 = is_f64(x);
  Value* subnormal = b_.CreateFCmpOLT(x, real(x, f64 ? 0x1p-1022 : 0x1p-126));
  Value* u = bits(b_.CreateSelect(subnormal, b_.CreateFMul(x, real(x, f64 ? 0x1p54 : 0x1p25)), x));
  int mantissa = f64 ? 52 : 23;
  int64_t low = f64 ? int64_t(0x3FE6A09E667F3BCD) : int64_t(0x3F3504F3); // sqrt(1/2)
  Value* offset = b_.CreateSub(u, integer(u, low));
  Value* exponent = b_.CreateAShr(offset, integer(u, mantissa));
  Value* m = number(b_.CreateSub(u, b_.CreateShl(exponent, integer(u, mantissa))), x->getType());
  n = b_.CreateFSub(small_integer(exponent, x->getType()),
                    b_.CreateSelect(subnormal, real(x, f64 ? 54 : 25), real(x, 0)));
  return b_.CreateFSub(m, real(x, 1));
}

/// An integer below 2^22 in magnitude as a number; without an instruction that only newer
/// processors have for 64 bits.
Value* MathEmitter::small_integer(Value* whole, llvm::Type* type) {
  bool f64 = type->getScalarType()->isDoubleTy();
  Value* anchor = llvm::ConstantFP::get(type, f64 ? 0x1.8p52 : 0x1.8p23);
  return b_.CreateFSub(number(b_.CreateAdd(whole, bits(anchor)), type), anchor);
}

Value* MathEmitter::log_special(Value* x, Value* r) {
  Value* zero = real(x, 0);
  r = b_.CreateSelect(b_.CreateFCmpOEQ(x, real(x, HUGE_VAL)), x, r);
  r = b_.CreateSelect(b_.CreateFCmpOEQ(x, zero), real(x, -HUGE_VAL), r);
  return b_.CreateSelect(b_.CreateFCmpULT(x, zero), real(x, NAN), r);
}

/// log(1 + f) as a sum of two f64, relative error about 2^-60 of the second.
void MathEmitter::log1p_pair(Value* f, Value*& high, Value*& low) {
  Value* s = b_.CreateFDiv(f, b_.CreateFAdd(f, real(f, 2)));
  Value* z = b_.CreateFMul(s, s);
  Value* r = b_.CreateFMul(z, polynomial(z, atanh_f64));
  Value* half_square = b_.CreateFMul(b_.CreateFMul(f, real(f, 0.5)), f);
  Value* lost = fma(b_.CreateFMul(f, real(f, 0.5)), f, b_.CreateFNeg(half_square)); // of the square
  high = b_.CreateFSub(f, half_square);
  low = b_.CreateFSub(b_.CreateFSub(b_.CreateFSub(f, high), half_square), lost);
  low = b_.CreateFAdd(low, b_.CreateFMul(s, b_.CreateFAdd(half_square, r)));
}

/// log2(x) for positive finite x as a sum of two f64.
void MathEmitter::log2_pair(Value* x, Value*& high, Value*& low) {
  Value *n, *f = reduce_log(x, n), *h, *l;
  log1p_pair(f, h, l);
  Value* p = b_.CreateFMul(h, real(x, inverse_ln2_hi));
  Value* e = fma(h, real(x, inverse_ln2_hi), b_.CreateFNeg(p));
  e = fma(h, real(x, inverse_ln2_lo), e);
  e = fma(l, real(x, inverse_ln2_hi), e);
  add_to_exponent(n, p, e, high, low);
}

/// n + p + e as a sum whose second part is below the last place of the first; |n| >= |p| or n = 0.
void MathEmitter::add_to_exponent(Value* n, Value* p, Value* e, Value*& high, Value*& low) {
  Value* sum = b_.CreateFAdd(n, p);
  Value* rest = b_.CreateFAdd(b_.CreateFAdd(b_.CreateFSub(n, sum), p), e);
  high = b_.CreateFAdd(sum, rest);
  low = b_.CreateFAdd(b_.CreateFSub(sum, high), rest);
}

/// The same with a relative error of about 2^-66: an exponent of a thousand costs ten bits.
void MathEmitter::log2_precise(Value* x, Value*& high, Value*& low) {
  auto mul = [&](Value* a, Value* c) { return b_.CreateFMul(a, c); };
  auto lost = [&](Value* a, Value* c, Value* product) { return fma(a, c, b_.CreateFNeg(product)); };
  Value *n, *f = reduce_log(x, n), *two = real(x, 2);
  // s = f / (2 + f) as a pair
  Value *u = b_.CreateFAdd(f, two), *ul = b_.CreateFSub(f, b_.CreateFSub(u, two));
  Value* sh = b_.CreateFDiv(f, u);
  Value* sl = b_.CreateFDiv(b_.CreateFSub(fma(b_.CreateFNeg(sh), u, f), mul(sh, ul)), u);
  Value *zh = mul(sh, sh), *zl = fma(mul(sh, two), sl, lost(sh, sh, zh));
  // log((1 + s) / (1 - s)) = 2s + s z q(z)
  Value *first = real(x, atanh_f64[0]), *q1 = polynomial(zh, llvm::ArrayRef<double>(atanh_f64).drop_front());
  Value *t = mul(zh, q1), *qh = b_.CreateFAdd(first, t);
  Value* ql = b_.CreateFAdd(b_.CreateFAdd(b_.CreateFSub(first, qh), t), fma(zl, q1, lost(zh, q1, t)));
  Value *ah = mul(zh, qh), *al = b_.CreateFAdd(lost(zh, qh, ah), fma(zh, ql, mul(zl, qh)));
  Value *wh = mul(sh, ah), *wl = b_.CreateFAdd(lost(sh, ah, wh), fma(sh, al, mul(sl, ah)));
  Value *twice = mul(sh, two), *lh = b_.CreateFAdd(twice, wh);
  Value* ll = b_.CreateFAdd(b_.CreateFAdd(b_.CreateFSub(twice, lh), wh), fma(sl, two, wl));
  Value* p = mul(lh, real(x, inverse_ln2_hi));
  Value* e = b_.CreateFAdd(lost(lh, real(x, inverse_ln2_hi), p),
                           fma(lh, real(x, inverse_ln2_lo), mul(ll, real(x, inverse_ln2_hi))));
  add_to_exponent(n, p, e, high, low);
}

Value* MathEmitter::log2(Value* x) {
  if (is_f64(x)) {
    Value *high, *low;
    log2_pair(x, high, low);
    return log_special(x, b_.CreateFAdd(high, low));
  }
  constexpr double inverse_hi = 1.44269502162933349609375, inverse_lo = 1.925962990e-8;
  Value *n, *f = reduce_log(x, n), *square = b_.CreateFMul(f, f);
  Value* r = fma(square, polynomial(f, log2_f32), b_.CreateFMul(f, real(x, inverse_lo)));
  r = fma(f, real(x, inverse_hi), r);
  return log_special(x, b_.CreateFAdd(n, r));
}

/// log(1 + f) + n ln 2, where x only says what is special.
Value* MathEmitter::log_sum(Value* x, Value* f, Value* n) {
  Value* r;
  if (is_f64(x)) {
    Value *h, *l;
    log1p_pair(f, h, l);
    Value* high = fma(n, real(x, ln2_hi64), h); // the product is exact
    Value* lost = b_.CreateFAdd(b_.CreateFSub(b_.CreateFMul(n, real(x, ln2_hi64)), high), h);
    r = b_.CreateFAdd(high, fma(n, real(x, ln2_lo64), b_.CreateFAdd(lost, l)));
  } else {
    Value* q = b_.CreateFMul(b_.CreateFMul(f, f), polynomial(f, log_f32));
    r = b_.CreateFAdd(f, fma(n, real(x, ln2_lo32), q));
    r = fma(n, real(x, ln2_hi32), r);
  }
  return log_special(x, r);
}

Value* MathEmitter::log(Value* x) {
  Value *n, *f = reduce_log(x, n);
  return log_sum(x, f, n);
}

Value* MathEmitter::log1p(Value* x) {
  bool f64 = is_f64(x);
  Value *one = real(x, 1), *u = b_.CreateFAdd(x, one), *part = b_.CreateFSub(u, one);
  Value* lost =
      b_.CreateFAdd(b_.CreateFSub(one, b_.CreateFSub(u, part)), b_.CreateFSub(x, part)); // 1 + x = u + lost
  Value* usual = b_.CreateFCmpOLT(abs(x), real(x, f64 ? 0x1p60 : 0x1p30));
  lost = b_.CreateSelect(usual, lost, real(x, 0));
  Value *n, *f = reduce_log(u, n);
  // lost in units of 2^n; u is normal and at least 2^-53 here.
  Value *m, *exponent;
  split_exponent(b_.CreateSelect(b_.CreateAnd(usual, b_.CreateFCmpOGT(u, real(x, 0))), u, one), m, exponent);
  Value* shift = rounded_integer(n);
  shift = b_.CreateBinaryIntrinsic(Intrinsic::smax,
                                   b_.CreateBinaryIntrinsic(Intrinsic::smin, shift, integer(shift, 120)),
                                   integer(shift, -120));
  f = b_.CreateFAdd(f, b_.CreateFMul(lost, power_of_two(b_.CreateNeg(shift), f64, x->getType())));
  Value* r = log_sum(u, f, n);
  return b_.CreateSelect(b_.CreateFCmpOLT(abs(x), real(x, f64 ? 0x1p-54 : 0x1p-25)), x, r);
}

Value* MathEmitter::rounded_integer(Value* x) {
  Value* whole;
  nearest(x, whole);
  return whole;
}

Value* MathEmitter::tanh(Value* x) {
  double limit = is_f64(x) ? 22 : 10; // 1 beyond
  Value* a = abs(x);
  a = b_.CreateSelect(b_.CreateFCmpOGT(a, real(x, limit)), real(x, limit), a);
  Value* e = expm1(b_.CreateFMul(a, real(x, 2)));
  Value* r = b_.CreateFDiv(e, b_.CreateFAdd(e, real(x, 2)));
  // 2a of a subnormal number is exact, its half is what is wanted.
  return copy_sign(r, x);
}

// scale * x / (1 + e^-x) with e^-x = u 2^-m is scale * x 2^m / (2^m + u): nothing overflows, and
// the exponent comes last, where a result may be less than normal. A factor of infinity times 0 is
// NaN.
Value* MathEmitter::logistic(Value* x, bool times_x) {
  const bool f64 = is_f64(x), scales = has_scale_instruction(x);
  const double one_from = f64 ? 700 : 87, zero_from = f64 ? -760 : -112; // 1 (0) beyond
  Value *whole, *top = times_x ? x : real(x, 1), *a = x;
  if (!scales) {
    a = at_least(x, zero_from);
    if (times_x) top = a;
  }
  a = at_most(a, one_from);
  Value* m = exponent(b_.CreateFMul(a, real(x, log2_e)), whole);
  // Below, the polynomial of what is left grows with x, and the quotient is small or 0.
  if (scales) m = at_least(m, std::floor(zero_from * log2_e));
  Value* unit = exp_unit(reduce_exp(b_.CreateFNeg(a), b_.CreateFNeg(m)));
  Value* q = b_.CreateFDiv(top, b_.CreateFAdd(scale_result(real(x, 1), m, whole), unit));
  Value* r = scale_result(q, m, whole);
  if (scales || !times_x) return r; // -inf / inf is NaN
  return b_.CreateSelect(b_.CreateFCmpOEQ(x, real(x, -HUGE_VAL)), real(x, NAN), r);
}

Value* MathEmitter::erf(Value* x) {
  Value *a = abs(x), *square = b_.CreateFMul(x, x), *one = real(x, 1);
  if (!is_f64(x)) {
    Value* small = fma(polynomial(square, erf_small_f32), x, x);
    Value* c = b_.CreateSelect(b_.CreateFCmpOGT(a, real(x, 4)), real(x, 4), a);
    Value* q = fma(polynomial(c, erf_large_f32), c, b_.CreateFNeg(c));
    Value* large = copy_sign(b_.CreateFSub(one, exp(q)), x);
    return b_.CreateSelect(b_.CreateFCmpOGT(a, real(x, 475.0 / 512)), large, small);
  }
  Value* inner = b_.CreateSelect(b_.CreateFCmpOLT(a, one), square, one);
  Value* small = fma(polynomial(inner, erf_f64), x, x);
  Value* c = clamp(a, 1, 6.2);
  Value* t = b_.CreateFDiv(b_.CreateFSub(c, real(x, 3)), b_.CreateFAdd(c, real(x, 3)));
  Value* g = b_.CreateFDiv(polynomial(t, erfcx_f64), fma(c, real(x, 2), one));
  Value* large = fma(b_.CreateFNeg(exp(b_.CreateFNeg(b_.CreateFMul(c, c)))), g, one);
  return b_.CreateSelect(b_.CreateFCmpOGT(a, one), copy_sign(large, x), small);
}

// 2^(y log2 |x|) with the logarithm as a sum of two numbers; signs and special values as in C, but
// NaN stays NaN.
Value* MathEmitter::pow(Value* x, Value* y) {
  llvm::Type* type = x->getType();
  bool wide = is_f64(x);
  if (!wide) {
    llvm::Type* f64 = b_.getDoubleTy();
    if (auto* v = llvm::dyn_cast<llvm::FixedVectorType>(type))
      f64 = llvm::FixedVectorType::get(f64, v->getNumElements());
    x = b_.CreateFPExt(x, f64);
    y = b_.CreateFPExt(y, f64);
  }
  Value *zero = real(x, 0), *one = real(x, 1), *infinity = real(x, HUGE_VAL), *a = abs(x);
  Value* usual = b_.CreateAnd(b_.CreateFCmpOGT(a, zero), b_.CreateFCmpOLT(a, infinity));
  Value *high, *low;
  Value* base = b_.CreateSelect(usual, a, one);
  if (wide)
    log2_precise(base, high, low);
  else
    log2_pair(base, high, low);
  Value* p = b_.CreateFMul(y, high);
  Value* lost = fma(y, low, fma(y, high, b_.CreateFNeg(p)));
  Value* moderate = b_.CreateFCmpOLT(abs(p), real(x, 1100));
  Value *e = b_.CreateSelect(moderate, p, clamp(p, -1100, 1100)), *d = b_.CreateSelect(moderate, lost, zero);
  // 2^(e + d): the small part scales the result before the exponent does.
  Value *whole, *n = nearest(clamp(e, -1080, 1025), whole), *t = b_.CreateFSub(clamp(e, -1080, 1025), n);
  Value* r = fma(polynomial(t, exp2_f64), t, one);
  r = fma(r, b_.CreateFMul(d, real(x, 0.6931471805599453)), r);
  r = scale_unit(r, whole);
  // |x| of 0 or infinity: 0 or infinity, by the sign of the exponent.
  Value* grows = b_.CreateXor(b_.CreateFCmpOEQ(a, zero), b_.CreateFCmpOGT(y, zero));
  r = b_.CreateSelect(usual, r, b_.CreateSelect(grows, infinity, zero));
  // An exponent that is infinite.
  Value* y_infinite = b_.CreateFCmpOEQ(abs(y), infinity);
  Value* away = b_.CreateXor(b_.CreateFCmpOGT(a, one), b_.CreateFCmpOLT(y, zero));
  Value* extreme = b_.CreateSelect(b_.CreateFCmpOEQ(a, one), one, b_.CreateSelect(away, infinity, zero));
  r = b_.CreateSelect(y_infinite, extreme, r);
  // A negative base: the sign of an odd whole exponent, NaN for a broken one.
  Value* half = b_.CreateFMul(y, real(x, 0.5));
  Value* is_whole = b_.CreateFCmpOEQ(unary(Intrinsic::trunc, y), y);
  Value* odd = b_.CreateAnd(is_whole, b_.CreateFCmpUNE(unary(Intrinsic::trunc, half), half));
  Value* u = bits(x);
  Value* negative_sign = b_.CreateICmpSLT(u, integer(u, 0));
  r = b_.CreateSelect(b_.CreateAnd(odd, negative_sign), b_.CreateFNeg(r), r);
  Value* broken =
      b_.CreateAnd(b_.CreateAnd(b_.CreateFCmpOLT(x, zero), b_.CreateFCmpOGT(x, b_.CreateFNeg(infinity))),
                   b_.CreateNot(is_whole));
  r = b_.CreateSelect(broken, real(x, NAN), r);
  r = b_.CreateSelect(b_.CreateFCmpOEQ(y, zero), one, r);
  r = b_.CreateSelect(b_.CreateFCmpOEQ(x, one), one, r);
  r = b_.CreateSelect(b_.CreateFCmpUNO(x, y), real(x, NAN), r);
  return wide ? r : b_.CreateFPTrunc(r, type);
}

Value* MathEmitter::function(Op op, Value* x, Value* y) {
  Value *zero = real(x, 0), *one = real(x, 1), *half = real(x, 0.5);
  switch (op) {
  case Op::rem: return remainder(x, y);
  case Op::ldexp: return ldexp(x, y);
  case Op::exp2: return exp2(x);
  case Op::log2: return log2(x);
  case Op::sin: return sin(x, false);
  case Op::cos: return sin(x, true);
  case Op::sign: {
    Value* r = b_.CreateSelect(b_.CreateFCmpOGT(x, zero), one, x);
    return b_.CreateSelect(b_.CreateFCmpOLT(x, zero), real(x, -1), r);
  }
  case Op::exp: return exp(x);
  case Op::log: return log(x);
  case Op::log1p: return log1p(x);
  case Op::expm1: return expm1(x);
  case Op::tan: return tan(x);
  case Op::tanh: return tanh(x);
  case Op::sigmoid: return logistic(x, false);
  case Op::erf: return erf(x);
  case Op::silu: return logistic(x, true);
  case Op::gelu: {
    if (!is_f64(x)) { // the tail h = Phi(-|x|): x h for negative x, else x (1 - h)
      Value* a = abs(x);
      Value* h = exp2(fma(polynomial(a, normal_tail_f32), a, real(x, -1)), exp2_short_f32);
      return b_.CreateFMul(x, b_.CreateSelect(b_.CreateFCmpUGE(x, zero), b_.CreateFSub(one, h), h));
    }
    Value* e = b_.CreateFAdd(one, erf(b_.CreateFMul(x, real(x, 0.70710678118654752440))));
    return b_.CreateFMul(b_.CreateFMul(half, x), e);
  }
  case Op::gelu_tanh: { // 1 + tanh(u) = 2 / (1 + e^(-2u))
    Value* cube = b_.CreateFMul(b_.CreateFMul(x, x), x);
    Value* u = b_.CreateFMul(real(x, -2 * 0.79788456080286535588), fma(real(x, 0.044715), cube, x));
    return b_.CreateFDiv(x, b_.CreateFAdd(one, exp(u)));
  }
  case Op::softplus: {
    Value* positive = b_.CreateSelect(b_.CreateFCmpOLT(x, zero), zero, x); // NaN stays
    return b_.CreateFAdd(positive, log1p(exp(b_.CreateFNeg(abs(x)))));
  }
  case Op::rsqrt: return b_.CreateFDiv(one, unary(Intrinsic::sqrt, x));
  case Op::pow: return pow(x, y);
  default: LUMINAL_CHECK(false, "{} is not a function of floats", to_string(op)); return nullptr;
  }
}

} // namespace luminal::codegen
