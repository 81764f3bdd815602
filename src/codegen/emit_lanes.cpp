// codegen/emit_lanes.cpp -- what the lanes of a vector make together: reductions, scans, the last one.
#include "codegen/emitter.h"
#include "ir/identity.h"
#include <bit>
#include <numeric>

namespace luminal::codegen {
using llvm::Constant;
using llvm::Value;

// Lane l is combined with lane l + h for h = n/2, n/4, ..., 1. Dead lanes count as the identity of
// the operation.
Value* Emitter::reduce(Op op, DType type, Value* x) {
  if (!lane_) return x;
  x = live_or_identity(op, type, splat(x));
  int64_t n = lanes_;
  if ((n & (n - 1)) != 0) fail("reduce_lanes over a number of lanes that is not a power of two");
  // Of the tree below LLVM 19 makes a dot product of bytes and leaves out the sum of its four lanes.
  if (op == Op::add && !is_float(type) && bits(type) >= 8) return b_.CreateAddReduce(x);
  // One look tells whether any lane is NaN. The tree of comparisons need not look at each step.
  const bool ordered = is_float(type) && (op == Op::max || op == Op::min) && n > 1;
  Value* nan = ordered ? b_.CreateOrReduce(math_.is_nan(x)) : nullptr;
  const auto combine = [&](Value* a, Value* b) {
    if (!ordered) return apply_row(op, type, {a, b});
    return b_.CreateSelect(op == Op::max ? b_.CreateFCmpOGT(a, b) : b_.CreateFCmpOLT(a, b), a, b);
  };
  // Narrow halves, as hardware registers are narrow: the tree is the same.
  for (int64_t half = n / 2; half; half /= 2) {
    llvm::SmallVector<int, 64> low(static_cast<size_t>(half)), high(static_cast<size_t>(half));
    std::iota(low.begin(), low.end(), 0);
    std::iota(high.begin(), high.end(), static_cast<int>(half));
    Value *a = shuffle(x, x, low), *b = shuffle(x, x, high);
    x = combine(a, b);
  }
  if (x->getType()->isVectorTy()) x = b_.CreateExtractElement(x, uint64_t(0));
  return nan ? b_.CreateSelect(nan, math_.real(x, NAN), x) : x;
}

Value* Emitter::live_lanes() {
  if (tail_mask_ && if_mask_) return b_.CreateAnd(tail_mask_, if_mask_);
  return tail_mask_ ? tail_mask_ : if_mask_;
}

Value* Emitter::identity_lanes(Op op, DType type) {
  return splat(is_float(type) ? constant(type, identity_f64(op, type))
                              : int_constant(register_type(type), identity_i64(op, type)));
}

Value* Emitter::live_or_identity(Op op, DType type, Value* x) {
  Value* live = live_lanes();
  return live ? b_.CreateSelect(live, x, identity_lanes(op, type)) : x;
}

// Lane l takes what lane l - h has, for h = 1, 2, 4, ...; the first h lanes take the identity.
Value* Emitter::scan_lanes(Op op, DType type, Value* x) {
  if (!lane_) return x;
  x = live_or_identity(op, type, splat(x));
  Value* identity = identity_lanes(op, type);
  const int n = int(lanes_);
  if ((n & (n - 1)) != 0) fail("scan_lanes over a number of lanes that is not a power of two");
  llvm::SmallVector<int, 64> before(static_cast<size_t>(n));
  for (int h = 1; h < n; h *= 2) {
    for (int l = 0; l < n; l++) before[size_t(l)] = l < h ? n + l : l - h;
    Value* earlier = shuffle(x, identity, before);
    x = apply_row(op, type, {earlier, x});
  }
  return x;
}

Value* Emitter::last_lane(Value* x) {
  if (!lane_) return x;
  x = splat(x);
  Value* live = live_lanes();
  const auto n = unsigned(lanes_);
  if (!live) return b_.CreateExtractElement(x, uint64_t(n - 1));
  llvm::Type* type = b_.getIntNTy(std::bit_ceil(std::max(n, 8u)));
  Value* set = b_.CreateZExt(b_.CreateBitCast(live, b_.getIntNTy(n)), type);
  Value* any = b_.CreateICmpNE(set, Constant::getNullValue(type));
  Value* zeros = b_.CreateIntrinsic(llvm::Intrinsic::ctlz, {type}, {set, b_.getFalse()});
  Value* place = b_.CreateSub(llvm::ConstantInt::get(type, type->getIntegerBitWidth() - 1), zeros);
  place = b_.CreateSelect(any, place, Constant::getNullValue(type));
  Value* last = b_.CreateExtractElement(x, place);
  return b_.CreateSelect(any, last, Constant::getNullValue(last->getType()));
}

} // namespace luminal::codegen
