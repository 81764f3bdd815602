// codegen/emit_index.cpp -- index expressions as LLVM values: 64-bit integers for scalars, 32-bit
// ones for lanes where ranges prove that they fit.
#include "codegen/emitter.h"

namespace luminal::codegen {
using llvm::Value;

Emitter::Int Emitter::add(Int x, Int y) {
  Int r{nullptr, x.k + y.k};
  r.v = x.v && y.v ? b_.CreateNSWAdd(x.v, y.v) : x.v ? x.v : y.v;
  return r;
}

Emitter::Int Emitter::scale(Int x, int64_t c) {
  if (c == 0) return {};
  if (c == 1) return x;
  return {x.v ? b_.CreateNSWMul(x.v, i64(c)) : nullptr, x.k * c};
}

bool Emitter::varying(Expr e) {
  if (!lane_ || e.is_constant()) return false;
  if (e.is_symbol()) return e == *lane_ || lane_variables_.contains(e);
  auto [it, fresh] = varying_.try_emplace(e, false);
  if (!fresh) return it->second;
  bool result = false;
  for (Expr a : e.args()) result = result || varying(a);
  return varying_[e] = result;
}

int Emitter::depth_of(Expr e) {
  if (e.is_symbol()) {
    auto it = depths_.find(e);
    return it == depths_.end() ? 0 : it->second;
  }
  int depth = 0;
  for (Expr a : e.args()) depth = std::max(depth, depth_of(a));
  return depth;
}

void Emitter::bind(Expr variable, Int value, int depth) {
  variables_[variable] = value;
  depths_[variable] = depth;
  if (value.v) forget_tiles(); // another trip reads elsewhere
}

void Emitter::forget(Expr variable) {
  for (const LogEntry& entry : log_)
    if (entry.expr && depends_on(*entry.expr, variable)) memo_.erase(*entry.expr);
}

void Emitter::close_scope(const Expr* repeated) {
  size_t mark = marks_.back(), keep = mark;
  marks_.pop_back();
  for (size_t i = mark; i < log_.size(); ++i) {
    LogEntry& entry = log_[i];
    bool stays = repeated && (!entry.expr || !depends_on(*entry.expr, *repeated));
    if (stays) {
      log_[keep++] = entry;
    } else if (entry.expr) {
      memo_.erase(*entry.expr);
    } else {
      steps_.erase(entry.step);
    }
  }
  log_.resize(keep);
}

// Floor semantics: plain unsigned operations where ranges prove that nothing is negative.
Value* Emitter::floor_div(Value* a, Value* b, Interval ra, Interval rb, bool remainder) {
  llvm::Type* type = a->getType();
  bool positive_divisor = rb.low > 0;
  if (ra.low >= 0 && positive_divisor) {
    constexpr int64_t limit = int64_t(1) << 32;
    bool narrow =
        type->isIntegerTy(64) && ra.high < limit && rb.high < limit && !llvm::isa<llvm::Constant>(b);
    if (narrow) {
      a = b_.CreateTrunc(a, b_.getInt32Ty());
      b = b_.CreateTrunc(b, b_.getInt32Ty());
    }
    Value* r = remainder ? b_.CreateURem(a, b) : b_.CreateUDiv(a, b);
    return narrow ? b_.CreateZExt(r, type, "", true) : r;
  }
  if (rb.is_point() && rb.low > 0 && (rb.low & (rb.low - 1)) == 0) {
    if (remainder) return b_.CreateAnd(a, int_constant(type, rb.low - 1));
    return b_.CreateAShr(a, int_constant(type, std::countr_zero(static_cast<uint64_t>(rb.low))));
  }
  // Nothing that is used divides by zero or leaves the type; what lanes without a point do must not
  // stop the process either.
  Value* zero = llvm::Constant::getNullValue(type);
  if (rb.contains(0)) b = b_.CreateSelect(b_.CreateICmpEQ(b, zero), int_constant(type, 1), b);
  if (rb.contains(-1)) {
    const unsigned width = type->getScalarSizeInBits();
    const int64_t least = width >= 64 ? INT64_MIN : -(int64_t(1) << (width - 1));
    if (ra.low <= least)
      a = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smax, a, int_constant(type, least + 1));
  }
  Value* q = b_.CreateSDiv(a, b);
  Value* r = b_.CreateNSWSub(a, b_.CreateNSWMul(q, b));
  Value* off = b_.CreateICmpSLT(positive_divisor ? r : b_.CreateXor(r, b), zero);
  if (!positive_divisor) off = b_.CreateAnd(off, b_.CreateICmpNE(r, zero));
  if (remainder) return b_.CreateSelect(off, b_.CreateNSWAdd(r, b), r);
  return b_.CreateNSWAdd(q, b_.CreateSExt(off, type));
}

Emitter::Int Emitter::integer(Expr e) {
  switch (e.kind()) {
  case ExprKind::constant: return {nullptr, e.value()};
  case ExprKind::symbol: {
    auto it = variables_.find(e);
    LUMINAL_CHECK(it != variables_.end(), "{}: the symbol {} has no value here", kernel_.name, e.name());
    return it->second;
  }
  default: break;
  }
  if (auto it = memo_.find(e); it != memo_.end()) return it->second;
  auto args = e.args();
  Int r;
  auto all_constant = [&](std::span<const Int> xs) {
    return std::all_of(xs.begin(), xs.end(), [](const Int& x) { return !x.v; });
  };
  switch (e.kind()) {
  case ExprKind::add:
    for (Expr a : args) r = add(r, integer(a));
    break;
  case ExprKind::mul:
    r = {nullptr, 1};
    for (Expr a : args) {
      Int x = integer(a);
      if (!r.v)
        r = scale(x, r.k);
      else if (!x.v)
        r = scale(r, x.k);
      else
        r = {b_.CreateNSWMul(materialize(r), materialize(x)), 0};
    }
    break;
  case ExprKind::floordiv:
  case ExprKind::mod: {
    Int a = integer(args[0]), b = integer(args[1]);
    bool remainder = e.kind() == ExprKind::mod;
    if (!a.v && !b.v && b.k != 0 && !(a.k == INT64_MIN && b.k == -1)) {
      int64_t q = a.k / b.k - (a.k % b.k != 0 && (a.k < 0) != (b.k < 0));
      r.k = remainder ? a.k - q * b.k : q;
    } else {
      Interval rb = b.v ? args[1].range() : Interval{b.k, b.k};
      r.v = floor_div(materialize(a), materialize(b), args[0].range(), rb, remainder);
    }
    break;
  }
  case ExprKind::min:
  case ExprKind::max: {
    bool smallest = e.kind() == ExprKind::min;
    llvm::SmallVector<Int, 4> others; // than the first
    r = integer(args[0]);
    for (Expr a : args.subspan(1)) others.push_back(integer(a));
    if (!r.v && all_constant(others)) {
      for (Int x : others) r.k = smallest ? std::min(r.k, x.k) : std::max(r.k, x.k);
    } else {
      Value* v = materialize(r);
      for (Int x : others)
        v = b_.CreateBinaryIntrinsic(smallest ? llvm::Intrinsic::smin : llvm::Intrinsic::smax, v,
                                     materialize(x));
      r = {v, 0};
    }
    break;
  }
  default: {
    Value* c = condition(e);
    if (auto* known = llvm::dyn_cast<llvm::ConstantInt>(c))
      r.k = known->isOne();
    else
      r.v = b_.CreateZExt(c, b_.getInt64Ty());
  }
  }
  if (auto* known = llvm::dyn_cast_or_null<llvm::ConstantInt>(r.v))
    r = {nullptr, r.k + known->getSExtValue()};
  memo_[e] = r;
  log_.push_back({e, {}});
  return r;
}

Value* Emitter::scalar_index(Expr e) { return materialize(integer(e)); }

Value* Emitter::lane_index(Expr e, int bits) {
  llvm::Type *scalar = b_.getIntNTy(static_cast<unsigned>(bits)), *type = with_lanes(scalar);
  auto spread = [&](Value* x) {
    return b_.CreateVectorSplat(static_cast<unsigned>(lanes_), b_.CreateSExtOrTrunc(x, scalar));
  };
  if (!varying(e)) return spread(scalar_index(e));
  if (e == *lane_) {
    Value* first = scalar_index(e);
    Value* numbers = lane_numbers(scalar);
    if (auto* c = llvm::dyn_cast<llvm::ConstantInt>(first); c && c->isZero()) return numbers;
    return b_.CreateNSWAdd(spread(first), numbers);
  }
  if (e.is_symbol()) return b_.CreateSExtOrTrunc(lane_variables_.at(e), type);
  auto args = e.args();
  switch (e.kind()) {
  case ExprKind::add: { // the uniform terms together first
    Int uniform;
    Value* r = nullptr;
    for (Expr a : args) {
      if (!varying(a)) {
        uniform = add(uniform, integer(a));
        continue;
      }
      Value* x = lane_index(a, bits);
      r = r ? b_.CreateNSWAdd(r, x) : x;
    }
    return uniform.v || uniform.k ? b_.CreateNSWAdd(r, spread(materialize(uniform))) : r;
  }
  case ExprKind::mul: {
    Value* r = nullptr;
    for (Expr a : args) {
      Value* x = lane_index(a, bits);
      r = r ? b_.CreateNSWMul(r, x) : x;
    }
    return r;
  }
  case ExprKind::floordiv:
  case ExprKind::mod:
    return floor_div(lane_index(args[0], bits), lane_index(args[1], bits), args[0].range(), args[1].range(),
                     e.kind() == ExprKind::mod);
  case ExprKind::min:
  case ExprKind::max: {
    Value* r = nullptr;
    auto id = e.kind() == ExprKind::min ? llvm::Intrinsic::smin : llvm::Intrinsic::smax;
    for (Expr a : args) {
      Value* x = lane_index(a, bits);
      r = r ? b_.CreateBinaryIntrinsic(id, r, x) : x;
    }
    return r;
  }
  default: return b_.CreateZExt(condition(e), type);
  }
}

Expr Emitter::what_is_left(Expr condition) {
  std::vector<Expr> left;
  const Expr now = resolve(condition);
  const bool both = now.kind() == ExprKind::logical_and;
  for (Expr e : both ? std::vector<Expr>(now.args().begin(), now.args().end()) : std::vector<Expr>{now}) {
    const Truth holds = prove(e);
    if (holds == Truth::no) return 0;
    if (holds == Truth::unknown) left.push_back(e);
  }
  return logical_and(left);
}

Value* Emitter::condition(Expr e) {
  auto args = e.args();
  auto lane_like = [&] { return varying(e); };
  switch (e.kind()) {
  case ExprKind::logical_and:
  case ExprKind::logical_or: {
    Value* r = nullptr;
    for (Expr a : args) {
      Value* x = condition(a);
      if (lane_like()) x = splat(x);
      r = !r ? x : e.kind() == ExprKind::logical_and ? b_.CreateAnd(r, x) : b_.CreateOr(r, x);
    }
    return r;
  }
  case ExprKind::lt:
  case ExprKind::eq:
  case ExprKind::ne: {
    Value *x, *y;
    if (lane_like()) {
      int bits = needed_bits(e);
      x = lane_index(args[0], bits);
      y = lane_index(args[1], bits);
    } else {
      x = scalar_index(args[0]);
      y = scalar_index(args[1]);
    }
    return e.kind() == ExprKind::lt   ? b_.CreateICmpSLT(x, y)
           : e.kind() == ExprKind::eq ? b_.CreateICmpEQ(x, y)
                                      : b_.CreateICmpNE(x, y);
  }
  default: {
    if (e.is_constant()) return b_.getInt1(e.value() != 0);
    Value* x = lane_like() ? lane_index(e, needed_bits(e)) : scalar_index(e);
    return b_.CreateICmpNE(x, llvm::Constant::getNullValue(x->getType()));
  }
  }
}

Expr Emitter::resolve(Expr e) {
  ExprMap<Expr> known;
  for (Expr s : symbols_of(e)) {
    if (varying(s)) continue;
    auto it = variables_.find(s);
    if (it != variables_.end() && !it->second.v) known[s] = it->second.k;
  }
  return known.empty() ? e : substitute(e, known);
}

const std::vector<int64_t>* Emitter::lane_pattern(Expr e) {
  auto [it, fresh] = patterns_.try_emplace(e);
  if (!fresh) return it->second ? &*it->second : nullptr;
  for (Expr s : symbols_of(e))
    if (s != *lane_ && varying(s)) return nullptr; // an index that was read from memory
  Int first = variables_.at(*lane_);
  if (first.v) return nullptr;
  std::vector<int64_t> offsets;
  Expr base = substitute(e, {{*lane_, Expr(first.k)}});
  for (int64_t l = 0; l < lanes_; ++l) {
    Expr difference = substitute(e, {{*lane_, Expr(first.k + l)}}) - base;
    if (!difference.is_constant()) return nullptr;
    offsets.push_back(difference.value());
  }
  // A failed insertion above leaves the entry empty; the map may have grown meanwhile.
  auto& entry = patterns_[e];
  entry = std::move(offsets);
  return &*entry;
}

} // namespace luminal::codegen
