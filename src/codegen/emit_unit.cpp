// codegen/emit_unit.cpp -- described instructions (loop/unit.h) that a CPU has.
#include "codegen/emitter.h"
#include "loop/unit.h"
#include <algorithm>
#include <llvm/IR/MDBuilder.h>
#include <numeric>

namespace luminal::codegen {
using kernel::Space;
using llvm::Value;

// Intrinsics are known to LLVM by their names, so their headers are not needed.
Value* Emitter::call_intrinsic(const char* name, llvm::Type* result, llvm::ArrayRef<Value*> arguments) {
  std::vector<llvm::Type*> types;
  for (Value* a : arguments) types.push_back(a->getType());
  auto callee = module_.getOrInsertFunction(name, llvm::FunctionType::get(result, types, false));
  return b_.CreateCall(callee, arguments);
}

void Emitter::scan_unit(const kernel::UnitCall& s) {
  auto unit = kernel::find_unit(s.unit, kernel_.lanes);
  if (!unit) return;
  uses_tiles_ |= unit->tiles;
  for (size_t i = 0; i < s.operands.size() && i < 3; ++i) {
    const kernel::UnitOperand& operand = s.operands[i];
    if (kernel_.buffers[operand.buffer].space != Space::registers) continue;
    // The last axis, or both where they are dense, is a run of elements.
    const std::string& axes = unit->operand(static_cast<int>(i)).axes;
    int64_t run = 1;
    for (size_t d = axes.size(); d-- > 0;) {
      if (d >= operand.strides.size() || !operand.strides[d].is_constant(run)) break;
      run *= unit->extent(axes[d]);
    }
    if (run <= 1) continue;
    int64_t& width = registers_[operand.buffer].width;
    width = std::gcd(std::gcd(width, run), operand.offset.multiple());
  }
}

/// The elements of an operand, row-major over its axes, as they lie in memory (accumulators: as
/// held in registers).
Value* Emitter::unit_operand(const kernel::UnitOperand& operand, DType type,
                             llvm::ArrayRef<int64_t> extents) {
  const kernel::Buffer& buffer = kernel_.buffers[operand.buffer];
  if (buffer.dtype != type) fail("an operand of a unit has another type than its buffer " + buffer.name);
  int64_t count = 1;
  for (int64_t e : extents) count *= e;
  std::vector<int64_t> offsets{0};
  bool constant = true;
  for (size_t d = 0; d < extents.size(); ++d) {
    Expr stride = resolve(operand.strides.at(d));
    constant = constant && stride.is_constant();
    if (!constant) break;
    std::vector<int64_t> next;
    for (int64_t o : offsets)
      for (int64_t i = 0; i < extents[d]; ++i) next.push_back(o + i * stride.value());
    offsets = std::move(next);
  }
  if (buffer.space == Space::registers) {
    if (!constant) fail("a unit reads registers with strides that are known at run time only");
    int64_t first = register_index(operand.buffer, operand.offset);
    for (int64_t& o : offsets) o += first;
    Value* x = read_registers(operand.buffer, offsets);
    int64_t lanes = std::exchange(lanes_, count);
    x = pack(x, type);
    lanes_ = lanes;
    return x;
  }
  int bytes = bits(type) / 8;
  llvm::Type* element = memory_type(type);
  int64_t lanes = std::exchange(lanes_, count);
  Value *base = address(operand.buffer, operand.offset, bytes), *x;
  if (constant) {
    // A row of k elements that all lanes read is one wider element.
    int64_t row =
        extents.size() == 2 && offsets[static_cast<size_t>(count - 1)] == extents[1] - 1 ? extents[1] : 1;
    bool one_row = row > 1;
    for (int64_t i = 0; i < count && one_row; ++i) one_row = offsets[static_cast<size_t>(i)] == i % row;
    if (one_row && row * bytes <= 8) {
      llvm::Type* wide = b_.getIntNTy(static_cast<unsigned>(row * bytes * 8));
      Value* spread = b_.CreateVectorSplat(static_cast<unsigned>(count / row),
                                           b_.CreateAlignedLoad(wide, base, llvm::Align(1)));
      x = b_.CreateBitCast(spread, with_lanes(element));
    } else {
      x = load_pattern(base, offsets, element, nullptr);
    }
  } else {
    llvm::Type* word = with_lanes(b_.getInt64Ty());
    Value* index = llvm::Constant::getNullValue(word);
    int64_t inner = count;
    for (size_t d = 0; d < extents.size(); ++d) {
      inner /= extents[d];
      std::vector<llvm::Constant*> numbers;
      for (int64_t i = 0; i < count; ++i) numbers.push_back(i64(i / inner % extents[d]));
      index = b_.CreateAdd(
          index, b_.CreateMul(llvm::ConstantVector::get(numbers), splat(scalar_index(operand.strides[d]))));
    }
    x = b_.CreateMaskedGather(with_lanes(element), b_.CreateGEP(element, base, index), llvm::Align(1));
  }
  lanes_ = lanes;
  return x;
}

/// One instruction, at most one hardware register wide. x and y have k elements for each lane, as
/// vectors of elements or of words.
Value* Emitter::dot(std::string_view unit, Value* c, Value* x, Value* y, int64_t lanes) {
  auto vector = [&](llvm::Type* t, int64_t count) {
    return llvm::FixedVectorType::get(t, static_cast<unsigned>(count));
  };
  const std::string width = std::to_string(lanes * 32);
  llvm::Type *f32 = vector(b_.getFloatTy(), lanes), *i32 = vector(b_.getInt32Ty(), lanes);
  llvm::Type *bf16 = vector(b_.getBFloatTy(), 2 * lanes), *i8 = vector(b_.getInt8Ty(), 4 * lanes);
  if (unit == "avx512.dpbf16")
    return call_intrinsic(("llvm.x86.avx512bf16.dpbf16ps." + width).c_str(), f32,
                          {c, b_.CreateBitCast(x, bf16), b_.CreateBitCast(y, bf16)});
  if (unit == "vnni.dpbusd")
    return call_intrinsic(("llvm.x86.avx512.vpdpbusd." + width).c_str(), i32,
                          {c, b_.CreateBitCast(x, i32), b_.CreateBitCast(y, i32)});
  if (lanes > 4 && (unit == "arm.bfdot" || unit == "arm.sdot")) { // SVE: types without a length of their own
    const bool floating = unit == "arm.bfdot";
    auto scalable = [&](llvm::Type* t, unsigned count) { return llvm::ScalableVectorType::get(t, count); };
    auto whole = [&](Value* v, llvm::Type* fixed, llvm::ScalableVectorType* type) {
      return b_.CreateInsertVector(type, llvm::PoisonValue::get(type), b_.CreateBitCast(v, fixed), i64(0));
    };
    llvm::Type* sum = floating ? b_.getFloatTy() : b_.getInt32Ty();
    llvm::ScalableVectorType *sums = scalable(sum, 4),
                             *parts = floating ? scalable(b_.getBFloatTy(), 8) : scalable(b_.getInt8Ty(), 16);
    llvm::Type *fixed_sum = floating ? f32 : i32, *fixed = floating ? bf16 : i8;
    Value* made = call_intrinsic(floating ? "llvm.aarch64.sve.bfdot" : "llvm.aarch64.sve.sdot.nxv4i32", sums,
                                 {whole(c, fixed_sum, sums), whole(x, fixed, parts), whole(y, fixed, parts)});
    return b_.CreateExtractVector(fixed_sum, made, i64(0));
  }
  if (unit == "arm.bfdot")
    return call_intrinsic("llvm.aarch64.neon.bfdot.v4f32.v8bf16", f32,
                          {c, b_.CreateBitCast(x, bf16), b_.CreateBitCast(y, bf16)});
  return call_intrinsic("llvm.aarch64.neon.sdot.v4i32.v16i8", i32,
                        {c, b_.CreateBitCast(x, i8), b_.CreateBitCast(y, i8)});
}

/// Exact dot products of bytes with the instructions that every processor has.
Value* Emitter::widened_dot(const kernel::Unit& unit, Value* c, Value* x, Value* y) {
  auto byte = [&](Value* word, DType type, int i) {
    llvm::Type* t = word->getType();
    auto by = [&](int bits) { return llvm::ConstantInt::get(t, static_cast<uint64_t>(bits)); };
    if (type == DType::u8) return b_.CreateAnd(b_.CreateLShr(word, by(8 * i)), by(255));
    return b_.CreateAShr(b_.CreateShl(word, by(24 - 8 * i)), by(24));
  };
  for (int i = 0; i < 4; ++i)
    c = b_.CreateAdd(c, b_.CreateMul(byte(x, unit.a.dtype, i), byte(y, unit.b.dtype, i)));
  return c;
}

bool Emitter::has_unit(std::string_view name) const {
  const bool arm = target_.triple.starts_with("aarch64");
  if (name == "fma.f32") return target_.fma;
  if (name == "avx512.dpbf16") return target_.bf16_dot && !arm;
  if (name == "vnni.dpbusd") return target_.int8_dot && !arm;
  if (name == "arm.bfdot") return target_.bf16_dot && arm;
  if (name == "amx.dpbf16") return target_.bf16_tiles;
  if (name == "amx.dpbusd" || name == "amx.dpbssd") return target_.int8_tiles;
  return name == "arm.sdot" && target_.int8_dot && arm;
}

/// A unit whose lanes act alone, on values.
Value* Emitter::lane_unit(const kernel::Unit& unit, llvm::ArrayRef<Value*> args) {
  const bool exact = unit.sum == kernel::UnitSum::integer;
  if (!has_unit(unit.name)) {
    if (!exact) fail(fmt::format("the processor {} does not have the unit {}", target_.cpu, unit.name));
    return widened_dot(unit, args[0], args[1], args[2]);
  }
  auto* type = llvm::dyn_cast<llvm::FixedVectorType>(args[0]->getType());
  const int64_t n = type ? type->getNumElements() : 1;
  const int64_t hardware = target_.vector_bits / 32;
  int64_t width = 4; // of one instruction
  while (width < std::min(n, hardware)) width *= 2;
  // Whole registers; lanes beyond the last one hold anything.
  Value* result = nullptr;
  for (int64_t first = 0; first < n; first += width) {
    Value* parts[3];
    for (size_t i = 0; i < 3; ++i) {
      Value* x = args[i];
      if (!type) // the other lanes hold anything, too
        x = b_.CreateInsertElement(
            llvm::PoisonValue::get(llvm::FixedVectorType::get(x->getType(), static_cast<unsigned>(width))), x,
            uint64_t{0});
      else if (n != width) {
        llvm::SmallVector<int, 16> pick;
        for (int64_t l = first; l < first + width; ++l) pick.push_back(l < n ? static_cast<int>(l) : -1);
        x = shuffle(x, x, pick);
      }
      parts[i] = x;
    }
    Value* made = dot(unit.name, parts[0], parts[1], parts[2], width);
    if (!type) return b_.CreateExtractElement(made, uint64_t{0});
    if (n == width) return made;
    llvm::SmallVector<int, 64> join;
    if (n < width) {
      for (int l = 0; l < n; ++l) join.push_back(l);
      return shuffle(made, made, join);
    }
    // Widened to n lanes, then put into its place.
    for (int64_t l = 0; l < n; ++l)
      join.push_back(l >= first && l < first + width ? static_cast<int>(l - first) : -1);
    Value* wide = shuffle(made, made, join);
    if (result) {
      llvm::SmallVector<int, 64> both;
      for (int64_t l = 0; l < n; ++l) both.push_back(static_cast<int>(l < first ? l : n + l));
      wide = shuffle(result, wide, both);
    }
    result = wide;
  }
  return result;
}

// Sums of the bf16 dot instructions: they make zeros of subnormal numbers. Holds of scratch where it does of
// all that is written there.
void Emitter::find_flushed() {
  let_values_.assign(static_cast<size_t>(kernel_.lets), nullptr);
  flushed_.clear();
  for (const kernel::Buffer& b : kernel_.buffers)
    flushed_.push_back(b.space != kernel::Space::global && b.dtype == DType::f32);
  bool changed = false;
  const auto walk = [&](const auto& self, const kernel::Body& statements) -> void {
    for (const kernel::StmtRef& s : statements) {
      if (const auto* let = s->as<kernel::LetValue>()) let_values_.at(let->let) = let->value.get();
      if (const auto to = written_by(*s)) {
        const auto* store = s->as<kernel::Store>();
        const auto* call = s->as<kernel::UnitCall>();
        const auto unit = call ? kernel::find_unit(call->unit, kernel_.lanes) : std::nullopt;
        const bool stays = store ? flushed(*store->value) : unit && unit->flush_subnormals;
        if (flushed_[*to] && !stays) flushed_[*to] = false, changed = true;
      }
      for (const kernel::Body* inside : bodies_of(*s)) self(self, *inside);
    }
  };
  do {
    changed = false;
    walk(walk, kernel_.body);
  } while (changed);
}

bool Emitter::flushed(const kernel::Value& v) const {
  return kernel::visit(
      v, [](const kernel::Constant& x) { return std::abs(x.value) >= 0x1p-126 || x.value == 0; },
      [&](const kernel::Let& x) {
        const kernel::Value* known = let_values_[x.number];
        return known && flushed(*known);
      },
      [&](const kernel::Load& x) { return v.dtype == DType::f32 && flushed_[x.buffer]; },
      [](const kernel::ApplyUser& x) { return x.name == "avx512.dpbf16"; },
      [](const auto&) { return false; });
}

/// x, the value of v, rounded to bf16. The instruction that does so takes subnormal numbers for
/// zeros: a vector that holds one, or a NaN, is rounded by integers.
Value* Emitter::bf16_bits(const kernel::Value& v, Value* x) {
  auto* type = llvm::dyn_cast<llvm::FixedVectorType>(x->getType());
  const unsigned n = type ? type->getNumElements() : 1;
  if (!has_unit("avx512.dpbf16") || (n != 8 && n != 16) || int64_t(n) * 32 > target_.vector_bits)
    return math_.bf16_bits(x);
  Value* rounded = call_intrinsic(n == 16 ? "llvm.x86.avx512bf16.cvtneps2bf16.512"
                                          : "llvm.x86.avx512bf16.cvtneps2bf16.256",
                                  llvm::FixedVectorType::get(b_.getBFloatTy(), n), {x});
  rounded = b_.CreateBitCast(rounded, llvm::FixedVectorType::get(b_.getInt16Ty(), n));
  if (flushed(v)) return rounded;
  constexpr unsigned rare = 0x01 | 0x20 | 0x80; // for VFPCLASSPS: quiet NaN, subnormal, signalling NaN
  Value* any = b_.CreateOrReduce(
      call_intrinsic(n == 16 ? "llvm.x86.avx512.fpclass.ps.512" : "llvm.x86.avx512.fpclass.ps.256",
                     llvm::FixedVectorType::get(b_.getInt1Ty(), n), {x, b_.getInt32(rare)}));
  llvm::BasicBlock *before = b_.GetInsertBlock(), *by_integers = block("by_integers"),
                   *end = block("rounded");
  b_.CreateCondBr(any, by_integers, end, llvm::MDBuilder(context_).createBranchWeights(1, 2000));
  b_.SetInsertPoint(by_integers);
  Value* exact = math_.bf16_bits(x);
  b_.CreateBr(end);
  b_.SetInsertPoint(end);
  llvm::PHINode* bits = b_.CreatePHI(rounded->getType(), 2);
  bits->addIncoming(rounded, before);
  bits->addIncoming(exact, by_integers);
  return bits;
}

void Emitter::unit(const kernel::UnitCall& s) {
  auto unit = kernel::find_unit(s.unit, kernel_.lanes);
  if (!unit) fail("the unit " + s.unit + " is not described");
  if (lane_) fail("the unit " + s.unit + " stands inside a vector loop");
  const bool fma = s.unit == "fma.f32";
  if (!has_unit(s.unit)) fail(fmt::format("the processor {} does not have the unit {}", target_.cpu, s.unit));
  if (s.operands.size() != 3) fail("the unit " + s.unit + " takes three operands");
  if (unit->tiles) return tile_unit(s, *unit);
  auto extents = [&](int i) {
    std::vector<int64_t> e;
    for (char axis : unit->operand(i).axes) e.push_back(unit->extent(axis));
    return e;
  };
  int64_t n = unit->n;
  const kernel::UnitOperand& accumulator = s.operands[0];
  Value* acc = unit_operand(accumulator, unit->accumulator.dtype, extents(0));
  Value *a = unit_operand(s.operands[1], unit->a.dtype, extents(1)),
        *b = unit_operand(s.operands[2], unit->b.dtype, extents(2));

  auto part = [&](Value* x, int64_t first, int64_t count) {
    llvm::SmallVector<int, 64> pick(static_cast<size_t>(count));
    std::iota(pick.begin(), pick.end(), static_cast<int>(first));
    return shuffle(x, x, pick);
  };
  // Wider than a register: register by register.
  int64_t hardware = target_.vector_bits / 32, k = unit->k;
  Value* result;
  if (fma) {
    result = math_.fma(a, b, acc);
  } else if (n >= 4 && n <= hardware && std::has_single_bit(static_cast<uint64_t>(n))) {
    result = dot(s.unit, acc, a, b, n);
  } else if (n > hardware && n % hardware == 0) {
    llvm::SmallVector<Value*, 8> parts;
    for (int64_t l = 0; l < n; l += hardware)
      parts.push_back(dot(s.unit, part(acc, l, hardware), part(a, l * k, hardware * k),
                          part(b, l * k, hardware * k), hardware));
    result = llvm::PoisonValue::get(acc->getType());
    for (int64_t l = 0; l < n; ++l)
      result = b_.CreateInsertElement(result,
                                      b_.CreateExtractElement(parts[static_cast<size_t>(l / hardware)],
                                                              static_cast<uint64_t>(l % hardware)),
                                      static_cast<uint64_t>(l));
  } else {
    fail(fmt::format("the unit {} has no form with {} lanes", s.unit, n));
  }

  const kernel::Buffer& buffer = kernel_.buffers[accumulator.buffer];
  Expr stride = resolve(accumulator.strides.at(0));
  if (!stride.is_constant()) fail("the accumulator of a unit has a stride that is known at run time only");
  std::vector<int64_t> places;
  for (int64_t l = 0; l < n; ++l) places.push_back(l * stride.value());
  if (buffer.space == Space::registers) {
    int64_t first = register_index(accumulator.buffer, accumulator.offset);
    for (int64_t& p : places) p += first;
    write_registers(accumulator.buffer, places, result);
  } else {
    Access to;
    to.kind = stride.value() == 1 ? Access::Kind::contiguous : Access::Kind::pattern;
    to.base = address(accumulator.buffer, accumulator.offset, bits(unit->accumulator.dtype) / 8);
    to.pattern = places;
    int64_t lanes = std::exchange(lanes_, n);
    store_memory(to, result, nullptr);
    lanes_ = lanes;
  }
}

} // namespace luminal::codegen
