// codegen/emit_value.cpp -- values: constants, the rows of the op table, casts.
#include "codegen/emitter.h"
#include "ir/identity.h"
#include "ir/scalar.h"
#include "loop/unit.h"
#include <algorithm>
#include <array>
#include <llvm/IR/PatternMatch.h>

namespace luminal::codegen {
using llvm::Constant;
using llvm::Value;
using llvm::Intrinsic::ID;
namespace Intrinsic = llvm::Intrinsic;

llvm::Type* Emitter::register_type(DType type) {
  switch (type) {
  case DType::boolean: return b_.getInt1Ty();
  case DType::i4:
  case DType::u4:
  case DType::i8:
  case DType::u8: return b_.getInt8Ty();
  case DType::i16:
  case DType::u16: return b_.getInt16Ty();
  case DType::i32:
  case DType::u32: return b_.getInt32Ty();
  case DType::i64:
  case DType::u64: return b_.getInt64Ty();
  case DType::f64: return b_.getDoubleTy();
  default: return b_.getFloatTy();
  }
}

llvm::Type* Emitter::memory_type(DType type) {
  if (type == DType::f32) return b_.getFloatTy();
  if (type == DType::f64) return b_.getDoubleTy();
  return b_.getIntNTy(static_cast<unsigned>(std::max(bits(type), 8)));
}

static bool computed_as_f32(DType type) { return is_float(type) && type != DType::f32 && type != DType::f64; }

Value* Emitter::unpack(Value* memory, DType type) {
  if (type == DType::boolean) return b_.CreateICmpNE(memory, Constant::getNullValue(memory->getType()));
  return computed_as_f32(type) ? math_.widen(memory, type) : memory;
}

Value* Emitter::pack(Value* x, DType type) {
  if (type == DType::boolean) {
    llvm::Type* i8 = b_.getInt8Ty();
    return b_.CreateZExt(x, x->getType()->isVectorTy() ? with_lanes(i8) : i8);
  }
  return computed_as_f32(type) ? math_.narrow(x, type) : x;
}

Value* Emitter::lane_numbers(llvm::Type* element) {
  std::vector<Constant*> numbers;
  for (int64_t i = 0; i < lanes_; ++i) numbers.push_back(int_constant(element, i));
  return llvm::ConstantVector::get(numbers);
}

Value* Emitter::constant(DType type, double x) {
  llvm::Type* t = register_type(type);
  if (is_float(type)) return llvm::ConstantFP::get(t, type == DType::f64 ? x : luminal::round_to(type, x));
  if (type == DType::boolean) return b_.getInt1(x != 0);
  if (std::isinf(x)) return int_constant(t, truncate_to(type, x)); // the greatest or the least value
  auto whole =
      x >= 9223372036854775808.0 ? static_cast<int64_t>(static_cast<uint64_t>(x)) : static_cast<int64_t>(x);
  return int_constant(t, wrap(type, whole));
}

Value* Emitter::value(const kernel::ValueRef& v) {
  return kernel::visit(
      *v, [&](const kernel::Constant& x) -> Value* { return constant(v->dtype, x.value); },
      [&](const kernel::Load&) { return load(*v); },
      [&](const kernel::Index& x) {
        if (!varying(x.value)) return cast(scalar_index(x.value), DType::i64, v->dtype);
        const int bits = needed_bits(x.value);
        return cast(lane_index(x.value, bits), bits == 32 ? DType::i32 : DType::i64, v->dtype);
      },
      [&](const kernel::Let& x) {
        Value* known = lets_[x.number];
        LUMINAL_CHECK(known, "{}: let {} is read before it is defined", kernel_.name, x.number);
        return known;
      },
      [&](const kernel::Apply& x) {
        if (Value* found = nibble_function(*v)) return found;
        if (Value* found = words(*v)) return found;
        return operation(v->dtype, x);
      },
      [&](const kernel::ApplyUser& x) {
        llvm::SmallVector<Value*, 3> args = values(x.args);
        return apply_user(x.name, x.args.empty() ? v->dtype : x.args.back()->dtype, args);
      },
      [&](const kernel::Cast& x) {
        if (Value* found = nibble_function(*v)) return found;
        return cast(value(x.x), x.x->dtype, v->dtype);
      },
      [&](const kernel::Bitcast& x) { return bitcast(v->dtype, x); },
      [&](const kernel::ReduceLanes& x) {
        switch (x.form) {
        case kernel::LanesForm::reduced: return reduce(x.op, v->dtype, value(x.x));
        case kernel::LanesForm::scanned: return scan_lanes(x.op, v->dtype, value(x.x));
        case kernel::LanesForm::last: break;
        }
        return last_lane(value(x.x));
      });
}

Value* Emitter::bitcast(DType to, const kernel::Bitcast& b) {
  const kernel::Value& from = *b.x;
  // Memory is read as the other type at once: a narrow float that is held as f32 would lose the
  // payload of a NaN.
  if (const auto* load = from.as<kernel::Load>();
      load && kernel_.buffers[load->buffer].space != kernel::Space::registers &&
      bits(from.dtype) == bits(to) && bits(to) >= 8)
    return this->load(kernel::Value{to, *load});
  if (const auto* rounded = from.as<kernel::Cast>();
      rounded && from.dtype == DType::bf16 && rounded->x->dtype == DType::f32 && is_integer(to))
    return bf16_bits(*rounded->x, value(rounded->x));
  return bitcast(value(b.x), from.dtype, to);
}

namespace {

/// What a value is for each code of four bits, where it depends on nothing else.
struct NibbleTable {
  std::array<float, 16> values{};
  kernel::ValueRef code;
};

std::optional<NibbleTable> nibble_table(const kernel::Value& v) {
  if (v.dtype != DType::f32) return {};
  NibbleTable t;
  if (const auto* cast = v.as<kernel::Cast>()) {
    t.code = cast->x;
    if (bits(t.code->dtype) != 4) return {};
    for (size_t i = 0; i < 16; ++i)
      t.values[i] = is_signed(t.code->dtype) && i >= 8 ? static_cast<float>(i) - 16 : static_cast<float>(i);
    return t;
  }
  const auto* row = v.as<kernel::Apply>();
  if (!row || (row->op != Op::add && row->op != Op::sub && row->op != Op::mul)) return {};
  const auto constant_of = [](const kernel::ValueRef& a) { return a->as<kernel::Constant>(); };
  const size_t known = constant_of(row->args[0]) ? 0 : 1;
  if (!constant_of(row->args[known]) || constant_of(row->args[1 - known])) return {};
  std::optional<NibbleTable> of = nibble_table(*row->args[1 - known]);
  if (!of) return {};
  const auto constant = static_cast<float>(constant_of(row->args[known])->value);
  for (float& x : of->values) {
    const float a = known == 0 ? constant : x, b = known == 0 ? x : constant;
    x = row->op == Op::add ? a + b : row->op == Op::sub ? a - b : a * b;
  }
  return of;
}

} // namespace

/// An integer of 32 bits in each lane that has the `count` lowest bits of x; what is above them is
/// anything.
Value* Emitter::low_bits(Value* x, unsigned count) {
  llvm::Type* i32 = with_lanes(b_.getInt32Ty());
  llvm::Constant* c = nullptr;
  Value* y = nullptr;
  using namespace llvm::PatternMatch;
  if (match(x, m_And(m_Value(y), m_Constant(c))))
    if (const auto* k = llvm::dyn_cast_or_null<llvm::ConstantInt>(c->getSplatValue());
        k && k->getValue().countr_one() >= count)
      return low_bits(y, count);
  if (match(x, m_LShr(m_Value(y), m_Constant(c))))
    if (const auto* k = llvm::dyn_cast_or_null<llvm::ConstantInt>(c->getSplatValue());
        k && k->getZExtValue() + count <= y->getType()->getScalarSizeInBits())
      return b_.CreateLShr(low_bits(y, count + static_cast<unsigned>(k->getZExtValue())),
                           int_constant(i32, k->getSExtValue()));
  if (match(x, m_Trunc(m_Value(y))) && y->getType() == i32) return y;
  return b_.CreateZExtOrTrunc(x, i32);
}

/// Numbers that follow from a code of four bits are looked up: one instruction, where the processor
/// has a table of so many lanes.
Value* Emitter::nibble_function(const kernel::Value& v) {
  if (lanes_ != 16 || target_.vector_bits != 512 || !target_.memory_operands()) return nullptr;
  const std::optional<NibbleTable> table = nibble_table(v);
  if (!table) return nullptr;
  Value* code = value(table->code);
  if (!code->getType()->isVectorTy()) return nullptr;
  llvm::Type* f32 = with_lanes(b_.getFloatTy());
  return call_intrinsic(
      "llvm.x86.avx512.permvar.sf.512", f32,
      {llvm::ConstantDataVector::get(context_, llvm::ArrayRef<float>(table->values)), low_bits(code, 4)});
}

/// Narrow numbers from memory put together in words of 32 bits: shuffled together, without a
/// conversion and a shift for each.
Value* Emitter::words(const kernel::Value& v) {
  std::array<kernel::ValueRef, 4> parts;
  int width = 0; // of a part
  const auto take = [&](const auto& self, const kernel::ValueRef& x, int64_t shift) -> bool {
    if (const auto* row = x->as<kernel::Apply>()) {
      if (row->op == Op::bit_or) return self(self, row->args[0], shift) && self(self, row->args[1], shift);
      const auto* by = row->op == Op::shl && shift == 0 ? row->args[1]->as<kernel::Constant>() : nullptr;
      return by && self(self, row->args[0], static_cast<int64_t>(by->value));
    }
    const auto* cast = x->as<kernel::Cast>();
    if (!cast) return false;
    const kernel::ValueRef& part = cast->x;
    const auto* bytes = part->as<kernel::Bitcast>();
    const kernel::Value& from = bytes ? *bytes->x : *part;
    if (width == 0) width = bits(part->dtype);
    if ((part->dtype != DType::u8 && part->dtype != DType::u16) || bits(part->dtype) != width ||
        !from.is<kernel::Load>() || bits(from.dtype) != width || shift < 0 || shift >= 32 ||
        shift % width != 0 || parts[static_cast<size_t>(shift / width)])
      return false;
    parts[static_cast<size_t>(shift / width)] = part;
    return true;
  };
  if (v.dtype != DType::u32 || !applies(v, Op::bit_or) || !take(take, args_of(v)[0], 0) ||
      !take(take, args_of(v)[1], 0))
    return nullptr;
  llvm::SmallVector<Value*, 4> x;
  for (int i = 0; i < 32 / width; ++i) {
    if (!parts[static_cast<size_t>(i)]) return nullptr;
    x.push_back(value(parts[static_cast<size_t>(i)]));
    if (x.back()->getType() != with_lanes(b_.getIntNTy(static_cast<unsigned>(width)))) return nullptr;
  }
  llvm::SmallVector<int, 64> by_turns;
  for (int lane = 0; lane < static_cast<int>(lanes_); ++lane)
    by_turns.append({lane, lane + static_cast<int>(lanes_)});
  for (; x.size() > 1; x.resize(x.size() / 2)) {
    width *= 2;
    for (size_t i = 0; i < x.size() / 2; ++i)
      x[i] = b_.CreateBitCast(shuffle(x[2 * i], x[2 * i + 1], by_turns),
                              with_lanes(b_.getIntNTy(static_cast<unsigned>(width))));
  }
  return x[0];
}

/// All of one shape: where one is a vector, all are.
llvm::SmallVector<Value*, 3> Emitter::values(std::span<const kernel::ValueRef> args) {
  llvm::SmallVector<Value*, 3> x;
  for (const auto& a : args) x.push_back(value(a));
  if (std::any_of(x.begin(), x.end(), [](Value* a) { return a->getType()->isVectorTy(); }))
    for (Value*& a : x) a = splat(a);
  return x;
}

Value* Emitter::operation(DType result, const kernel::Apply& v) {
  llvm::SmallVector<Value*, 3> x = values(v.args);
  const DType type = v.args.empty() ? result : v.args.back()->dtype; // that the operation works on
  if ((v.op == Op::max || v.op == Op::min) && is_float(type)) {
    const auto is_state = [&](const kernel::ValueRef& a) {
      const auto* load = a->as<kernel::Load>();
      return load && kernel_.buffers[load->buffer].space == kernel::Space::registers;
    };
    const size_t state = is_state(v.args[0]) ? 0 : 1;
    if (is_state(v.args[state]) && !is_state(v.args[1 - state]))
      return v.op == Op::max ? math_.largest(x[state], x[1 - state]) : math_.least(x[state], x[1 - state]);
  }
  return apply_row(v.op, type, x);
}

Value* Emitter::apply_row(Op op, DType type, llvm::ArrayRef<Value*> x) {
  const OpRow& r = row(op);
  if (r.signature == Signature::choice) return b_.CreateSelect(x[0], x[1], x[2]);
  if (!is_float(type)) return apply_integer(op, type, x);
  Value* result = apply_float(op, type, x);
  bool same_type = r.signature != Signature::comparison && r.signature != Signature::test;
  bool keeps_format = r.ulp == 0; // neg, floor, min, ...: exact in every format
  return same_type && !keeps_format && computed_as_f32(type) ? math_.round_to(result, type) : result;
}

Value* Emitter::apply_float(Op op, DType type, llvm::ArrayRef<Value*> x) {
  switch (op) {
  case Op::add: return b_.CreateFAdd(x[0], x[1]);
  case Op::sub: return b_.CreateFSub(x[0], x[1]);
  case Op::mul: return b_.CreateFMul(x[0], x[1]);
  case Op::div: return b_.CreateFDiv(x[0], x[1]);
  case Op::neg: return b_.CreateFNeg(x[0]);
  case Op::abs: return math_.abs(x[0]);
  case Op::min: return math_.min(x[0], x[1]);
  case Op::max: return math_.max(x[0], x[1]);
  case Op::floor: return math_.unary(Intrinsic::floor, x[0]);
  case Op::ceil: return math_.unary(Intrinsic::ceil, x[0]);
  case Op::trunc: return math_.unary(Intrinsic::trunc, x[0]);
  case Op::round: return math_.unary(Intrinsic::roundeven, x[0]);
  case Op::fma:
    return computed_as_f32(type) ? math_.narrow_fma(x[0], x[1], x[2], type) : math_.fma(x[0], x[1], x[2]);
  case Op::lt: return b_.CreateFCmpOLT(x[0], x[1]);
  case Op::le: return b_.CreateFCmpOLE(x[0], x[1]);
  case Op::eq: return b_.CreateFCmpOEQ(x[0], x[1]);
  case Op::ne: return b_.CreateFCmpUNE(x[0], x[1]);
  case Op::is_nan: return math_.is_nan(x[0]);
  case Op::sqrt: return math_.unary(Intrinsic::sqrt, x[0]);
  case Op::recip: return b_.CreateFDiv(math_.real(x[0], 1), x[0]);
  default: return math_.function(op, x[0], x.size() > 1 ? x[1] : nullptr);
  }
}

Value* Emitter::apply_integer(Op op, DType type, llvm::ArrayRef<Value*> x) {
  llvm::Type* t = x[0]->getType();
  bool is_signed_type = is_signed(type);
  Value* zero = Constant::getNullValue(t);
  auto c = [&](int64_t k) { return int_constant(t, k); };
  auto wrapped = [&](Value* r) -> Value* { // 4-bit types are held extended to 8 bits
    return bits(type) == 4 ? low_nibble(r, type) : r;
  };
  auto less = [&](Value* a, Value* b) {
    return is_signed_type ? b_.CreateICmpSLT(a, b) : b_.CreateICmpULT(a, b);
  };
  // A distance that is known leaves no choice for those who look at the value.
  auto choose = [&](Value* condition, Value* yes, Value* no) {
    const auto* known = llvm::dyn_cast<Constant>(condition);
    return known && known->isAllOnesValue() ? yes : b_.CreateSelect(condition, yes, no);
  };
  switch (op) {
  case Op::add: return wrapped(b_.CreateAdd(x[0], x[1]));
  case Op::sub: return wrapped(b_.CreateSub(x[0], x[1]));
  case Op::mul: return wrapped(b_.CreateMul(x[0], x[1]));
  case Op::neg: return wrapped(b_.CreateNeg(x[0]));
  case Op::abs:
    return is_signed_type ? wrapped(b_.CreateSelect(b_.CreateICmpSLT(x[0], zero), b_.CreateNeg(x[0]), x[0]))
                          : x[0];
  case Op::min: return b_.CreateSelect(less(x[1], x[0]), x[1], x[0]);
  case Op::max: return b_.CreateSelect(less(x[0], x[1]), x[1], x[0]);
  case Op::div:
  case Op::rem: return wrapped(integer_division(op == Op::rem, is_signed_type, x[0], x[1]));
  case Op::fma: return wrapped(b_.CreateAdd(b_.CreateMul(x[0], x[1]), x[2]));
  case Op::lt: return less(x[0], x[1]);
  case Op::le: return b_.CreateNot(less(x[1], x[0]));
  case Op::eq: return b_.CreateICmpEQ(x[0], x[1]);
  case Op::ne: return b_.CreateICmpNE(x[0], x[1]);
  case Op::bit_and: return b_.CreateAnd(x[0], x[1]);
  case Op::bit_or: return b_.CreateOr(x[0], x[1]);
  case Op::bit_xor: return b_.CreateXor(x[0], x[1]);
  case Op::bit_not: return wrapped(b_.CreateNot(x[0]));
  case Op::shl: {
    Value *in_range = b_.CreateICmpULT(x[1], c(bits(type))), *amount = choose(in_range, x[1], zero);
    return wrapped(choose(in_range, b_.CreateShl(x[0], amount), zero));
  }
  case Op::shr: {
    Value* in_range = b_.CreateICmpULT(x[1], c(bits(type)));
    if (is_signed_type) return b_.CreateAShr(x[0], choose(in_range, x[1], c(bits(type) - 1)));
    return choose(in_range, b_.CreateLShr(x[0], choose(in_range, x[1], zero)), zero);
  }
  case Op::sign: {
    Value *positive = b_.CreateZExt(less(zero, x[0]), t), *negative = b_.CreateZExt(less(x[0], zero), t);
    return b_.CreateSub(positive, negative);
  }
  default: fail(fmt::format("there is no {} of {} on this target", to_string(op), luminal::to_string(type)));
  }
}

// Floor division and modulo; a div 0 = 0, a rem 0 = a; the least integer divided by -1 wraps.
Value* Emitter::integer_division(bool remainder, bool is_signed_type, Value* a, Value* b) {
  llvm::Type* t = a->getType();
  Value *zero = Constant::getNullValue(t), *one = int_constant(t, 1);
  auto known = [&](int64_t& k) {
    auto* c = llvm::dyn_cast<Constant>(b);
    if (c && t->isVectorTy()) c = c->getSplatValue();
    auto* number = llvm::dyn_cast_or_null<llvm::ConstantInt>(c);
    if (number) k = is_signed_type ? number->getSExtValue() : static_cast<int64_t>(number->getZExtValue());
    return number != nullptr;
  };
  int64_t k = 0;
  bool safe = known(k) && k != 0 && !(is_signed_type && k == -1);
  Value* divisor = b;
  Value *is_zero = nullptr, *is_minus_one = nullptr;
  if (!safe) {
    is_zero = b_.CreateICmpEQ(b, zero);
    divisor = b_.CreateSelect(is_zero, one, b);
    if (is_signed_type) {
      is_minus_one = b_.CreateICmpEQ(b, int_constant(t, -1));
      divisor = b_.CreateSelect(is_minus_one, one, divisor);
    }
  }
  Value *q, *r;
  if (is_signed_type) {
    q = b_.CreateSDiv(a, divisor);
    r = b_.CreateSub(a, b_.CreateMul(q, divisor));
    Value* off = b_.CreateAnd(b_.CreateICmpNE(r, zero), b_.CreateICmpSLT(b_.CreateXor(r, divisor), zero));
    q = b_.CreateAdd(q, b_.CreateSExt(off, t));
    r = b_.CreateSelect(off, b_.CreateAdd(r, divisor), r);
  } else {
    q = b_.CreateUDiv(a, divisor);
    r = b_.CreateSub(a, b_.CreateMul(q, divisor));
  }
  if (safe) return remainder ? r : q;
  if (remainder) { // of -1 it is 0, as of 1
    return b_.CreateSelect(is_zero, a, r);
  }
  if (is_minus_one) q = b_.CreateSelect(is_minus_one, b_.CreateNeg(a), q);
  return b_.CreateSelect(is_zero, zero, q);
}

Value* Emitter::apply_user(const std::string& name, DType type, llvm::ArrayRef<Value*> x) {
  if (const kernel::Unit* unit = kernel::find_lane_unit(name)) return lane_unit(*unit, x);
  const UserOp* user = find_user_op(name);
  if (!user) fail("the operation " + name + " is not registered");
  if (user->definition.empty())
    fail("the operation " + name + " has no definition, so there is no code for it on a CPU");
  std::vector<std::string> names{"a", "b", "c"};
  names.resize(static_cast<size_t>(user->arity));
  Scalar program = parse_scalar(user->definition, names);
  struct Typed {
    Value* v = nullptr; // null: a constant, whose type its user decides
    DType type = DType::f32;
    double number = 0;
  };
  std::vector<Typed> nodes;
  auto as = [&](const Typed& t, DType wanted) { return t.v ? t.v : constant(wanted, t.number); };
  for (const ScalarNode& n : program.nodes()) {
    Typed r;
    switch (n.kind) {
    case ScalarNode::Kind::constant: r.number = n.value; break;
    case ScalarNode::Kind::leaf: r = {x[static_cast<size_t>(n.leaf)], type, 0}; break;
    case ScalarNode::Kind::cast: {
      const Typed& a = nodes[static_cast<size_t>(n.args[0])];
      DType from = a.v ? a.type : type;
      r = {cast(as(a, from), from, n.dtype), n.dtype, 0};
      break;
    }
    case ScalarNode::Kind::op: {
      const OpRow& r0 = row(n.op);
      int first = r0.signature == Signature::choice ? 1 : 0;
      DType common = type;
      for (int i = first; i < r0.arity; ++i)
        if (const Typed& a = nodes[static_cast<size_t>(n.args[i])]; a.v) common = a.type;
      llvm::SmallVector<Value*, 3> args;
      for (int i = 0; i < r0.arity; ++i)
        args.push_back(as(nodes[static_cast<size_t>(n.args[i])], i < first ? DType::boolean : common));
      if (std::any_of(args.begin(), args.end(), [](Value* a) { return a->getType()->isVectorTy(); }))
        for (Value*& a : args) a = splat(a);
      r.v = apply_row(n.op, common, args);
      bool truth = r0.signature == Signature::comparison || r0.signature == Signature::test;
      r.type = truth ? DType::boolean : common;
      break;
    }
    }
    nodes.push_back(r);
  }
  return as(nodes.back(), type);
}

/// Real numbers as integers of type `t`: truncated, the nearest end of the range outside of it, 0
/// for NaN.
Value* Emitter::saturated(Value* x, llvm::Type* t, bool with_sign) {
  // For vectors LLVM's x86 backend takes its own intrinsic apart, element by element (80
  // instructions for 16 lanes).
  if (!x->getType()->isVectorTy() || !target_.memory_operands())
    return b_.CreateIntrinsic(with_sign ? Intrinsic::fptosi_sat : Intrinsic::fptoui_sat, {t, x->getType()},
                              {x});
  const unsigned width = t->getScalarSizeInBits();
  const auto most = with_sign ? llvm::APInt::getSignedMaxValue(width) : llvm::APInt::getMaxValue(width),
             least = with_sign ? llvm::APInt::getSignedMinValue(width) : llvm::APInt::getMinValue(width);
  llvm::APFloat high(x->getType()->getScalarType()->getFltSemantics()), low(high);
  const bool exact =
      high.convertFromAPInt(most, with_sign, llvm::APFloat::rmTowardZero) == llvm::APFloat::opOK;
  low.convertFromAPInt(least, with_sign, llvm::APFloat::rmTowardZero); // a power of two: exact
  Value *highest = llvm::ConstantFP::get(x->getType(), high),
        *lowest = llvm::ConstantFP::get(x->getType(), low);
  // Clamped to what converts without overflow: a conversion outside of the range would be
  // undefined.
  Value* inside = b_.CreateSelect(b_.CreateFCmpORD(x, x), x, Constant::getNullValue(x->getType()));
  inside = b_.CreateSelect(b_.CreateFCmpOLT(inside, lowest), lowest, inside);
  inside = b_.CreateSelect(b_.CreateFCmpOGT(inside, highest), highest, inside);
  llvm::Type* through = width < 32 ? with_lanes(b_.getInt32Ty()) : t;
  Value* whole =
      with_sign || width < 32 ? b_.CreateFPToSI(inside, through) : b_.CreateFPToUI(inside, through);
  if (!exact) // the largest integer lies above the largest number below it
    whole = b_.CreateSelect(b_.CreateFCmpOGT(x, highest), llvm::ConstantInt::get(through, most), whole);
  return b_.CreateTrunc(whole, t);
}

Value* Emitter::cast(Value* x, DType from, DType to) {
  if (from == to) return x;
  llvm::Type* t = register_type(to);
  if (x->getType()->isVectorTy()) t = with_lanes(t);
  if (to == DType::boolean) {
    if (is_float(from)) return b_.CreateFCmpUNE(x, Constant::getNullValue(x->getType()));
    return b_.CreateICmpNE(x, Constant::getNullValue(x->getType()));
  }
  if (is_float(from) && is_float(to)) {
    if (from == DType::f64) return to == DType::f32 ? b_.CreateFPTrunc(x, t) : math_.round_to(x, to);
    if (to == DType::f64) return b_.CreateFPExt(x, t);
    if (to == DType::f32) return x;
    return math_.round_to(x, to);
  }
  if (is_float(from)) { // truncates and saturates, NaN gives 0
    Value* whole = saturated(x, t, is_signed(to));
    if (bits(to) != 4) return whole;
    if (to == DType::u4) return b_.CreateBinaryIntrinsic(Intrinsic::umin, whole, int_constant(t, 15));
    whole = b_.CreateBinaryIntrinsic(Intrinsic::smin, whole, int_constant(t, 7));
    return b_.CreateBinaryIntrinsic(Intrinsic::smax, whole, int_constant(t, -8));
  }
  bool from_signed = is_signed(from);
  if (is_float(to)) {
    auto convert = [&](Value* a, llvm::Type* real) {
      return from_signed ? b_.CreateSIToFP(a, real) : b_.CreateUIToFP(a, real);
    };
    if (to == DType::f32 || to == DType::f64) return convert(x, t);
    if (bits(from) <= 16) return math_.round_to(convert(x, t), to); // exact in f32
    llvm::Type* real = b_.getDoubleTy();
    if (x->getType()->isVectorTy()) real = with_lanes(real);
    if (bits(from) == 64) { // to 53 bits, the rest as one sticky bit
      llvm::Type* w = x->getType();
      Value *low = b_.CreateAnd(x, int_constant(w, 2047)),
            *sticky = b_.CreateAnd(b_.CreateAdd(low, int_constant(w, 2047)), int_constant(w, 2048));
      Value* odd = b_.CreateOr(b_.CreateAnd(x, int_constant(w, ~int64_t(2047))), sticky);
      Value* magnitude =
          from_signed ? b_.CreateSelect(b_.CreateICmpSLT(x, Constant::getNullValue(w)), b_.CreateNeg(x), x)
                      : x;
      x = b_.CreateSelect(b_.CreateICmpULT(magnitude, int_constant(w, int64_t(1) << 53)), x, odd);
    }
    return math_.round_to(convert(x, real), to);
  }
  Value* r = from_signed && from != DType::boolean ? b_.CreateSExtOrTrunc(x, t) : b_.CreateZExtOrTrunc(x, t);
  return bits(to) == 4 ? low_nibble(r, to) : r;
}

Value* Emitter::bitcast(Value* x, DType from, DType to) {
  if (from == to) return x;
  if (bits(from) != bits(to)) fail("bitcast between types of different width");
  if (bits(from) == 4) return low_nibble(x, to);
  llvm::Type* memory = memory_type(to);
  Value* packed = pack(x, from);
  if (x->getType()->isVectorTy()) memory = with_lanes(memory);
  return unpack(b_.CreateBitCast(packed, memory), to);
}

} // namespace luminal::codegen
