// codegen/emit_registers.cpp -- buffers in registers: chunks of vectors, whose elements have constant
// places.
#include "codegen/emitter.h"
#include <llvm/IR/Instructions.h>
#include <llvm/IR/IntrinsicInst.h>
#include <numeric>

namespace luminal::codegen {
using llvm::Value;

int64_t Emitter::register_index(kernel::BufferId buffer, Expr e) {
  Int k = integer(resolve(e));
  if (k.v)
    fail(fmt::format("the register buffer {} has an index that is known at run time only: {}",
                     kernel_.buffers[buffer].name, to_string(e)));
  return k.k;
}

llvm::AllocaInst* Emitter::register_chunk(kernel::BufferId buffer, int64_t chunk) {
  RegisterBuffer& r = registers_[buffer];
  if (chunk < 0 || chunk >= static_cast<int64_t>(r.chunks.size()))
    fail("an index of the register buffer " + kernel_.buffers[buffer].name + " lies outside it");
  return r.chunks[static_cast<size_t>(chunk)];
}

static bool ascending(llvm::ArrayRef<int64_t> places) {
  for (size_t i = 1; i < places.size(); ++i)
    if (places[i] != places[0] + static_cast<int64_t>(i)) return false;
  return true;
}

Value* Emitter::read_registers(kernel::BufferId buffer, llvm::ArrayRef<int64_t> places) {
  int64_t width = registers_[buffer].width;
  auto n = static_cast<int64_t>(places.size());
  llvm::Type* element = register_type(kernel_.buffers[buffer].dtype);
  auto chunk = [&](int64_t k) -> Value* {
    llvm::AllocaInst* c = register_chunk(buffer, k);
    return b_.CreateLoad(c->getAllocatedType(), c);
  };
  bool whole = width > 1 && ascending(places) && places[0] % width == 0 && n % width == 0;
  if (whole && std::has_single_bit(static_cast<uint64_t>(n / width))) {
    std::vector<Value*> parts;
    for (int64_t l = 0; l < n; l += width) parts.push_back(chunk((places[0] + l) / width));
    for (int64_t w = width; parts.size() > 1; w *= 2) {
      llvm::SmallVector<int, 64> all(static_cast<size_t>(2 * w));
      std::iota(all.begin(), all.end(), 0);
      std::vector<Value*> next;
      for (size_t i = 0; i < parts.size(); i += 2) next.push_back(shuffle(parts[i], parts[i + 1], all));
      parts = std::move(next);
    }
    return parts[0];
  }
  if (width > 1 && ascending(places) && places[0] >= 0 && places[0] % width + n <= width) { // a part of one
    llvm::SmallVector<int, 64> pick(static_cast<size_t>(n));
    std::iota(pick.begin(), pick.end(), static_cast<int>(places[0] % width));
    Value* x = chunk(places[0] / width);
    return shuffle(x, x, pick);
  }
  Value* result = llvm::PoisonValue::get(llvm::FixedVectorType::get(element, static_cast<unsigned>(n)));
  for (int64_t l = 0; l < n; ++l) {
    int64_t place = places[static_cast<size_t>(l)];
    if (place < 0)
      fail("an index of the register buffer " + kernel_.buffers[buffer].name + " lies outside it");
    Value* x = chunk(place / width);
    if (width > 1) x = b_.CreateExtractElement(x, static_cast<uint64_t>(place % width));
    result = b_.CreateInsertElement(result, x, static_cast<uint64_t>(l));
  }
  return result;
}

void Emitter::write_registers(kernel::BufferId buffer, llvm::ArrayRef<int64_t> places, Value* value) {
  int64_t width = registers_[buffer].width;
  auto n = static_cast<int64_t>(places.size());
  if (width > 1 && ascending(places) && places[0] % width == 0 && n % width == 0) {
    for (int64_t l = 0; l < n; l += width) {
      Value* part = value;
      if (width != n) {
        llvm::SmallVector<int, 64> pick(static_cast<size_t>(width));
        std::iota(pick.begin(), pick.end(), static_cast<int>(l));
        part = shuffle(value, value, pick);
      }
      b_.CreateStore(part, register_chunk(buffer, (places[0] + l) / width));
    }
    return;
  }
  if (narrowed_ && width > n && ascending(places) && places[0] >= 0 && places[0] % width == 0) {
    llvm::SmallVector<int, 64> pick(static_cast<size_t>(width), -1); // its other elements are dead lanes
    std::iota(pick.begin(), pick.begin() + n, 0);
    b_.CreateStore(shuffle(value, value, pick), register_chunk(buffer, places[0] / width));
    return;
  }
  for (int64_t l = 0; l < n; ++l) {
    int64_t place = places[static_cast<size_t>(l)];
    if (place < 0)
      fail("an index of the register buffer " + kernel_.buffers[buffer].name + " lies outside it");
    llvm::AllocaInst* c = register_chunk(buffer, place / width);
    Value* x = b_.CreateExtractElement(value, static_cast<uint64_t>(l));
    if (width > 1)
      x = b_.CreateInsertElement(b_.CreateLoad(c->getAllocatedType(), c), x,
                                 static_cast<uint64_t>(place % width));
    b_.CreateStore(x, c);
  }
}

std::vector<int64_t> Emitter::register_places(kernel::BufferId buffer, Expr offset) {
  Expr resolved = resolve(offset);
  const std::vector<int64_t>* pattern = lane_pattern(resolved);
  if (!pattern)
    fail(fmt::format("lanes of the register buffer {} lie apart in a way that is known at run time only: {}",
                     kernel_.buffers[buffer].name, to_string(offset)));
  std::vector<int64_t> places = *pattern;
  int64_t first = register_index(buffer, substitute(resolved, {{*lane_, Expr(variables_.at(*lane_).k)}}));
  for (int64_t& p : places) p += first;
  return places;
}

Value* Emitter::load_register(kernel::BufferId buffer, Expr offset) {
  if (varying(offset)) return read_registers(buffer, register_places(buffer, offset));
  return b_.CreateExtractElement(read_registers(buffer, register_index(buffer, offset)), uint64_t(0));
}

/// Are all lanes of the one mask lanes of the other?
static bool within(const Value* lanes, const Value* mask) {
  if (lanes == mask) return true;
  const auto *x = llvm::dyn_cast<llvm::Constant>(lanes), *y = llvm::dyn_cast<llvm::Constant>(mask);
  const auto* type = llvm::dyn_cast<llvm::FixedVectorType>(lanes->getType());
  if (!x || !y || !type || lanes->getType() != mask->getType()) return false;
  for (unsigned l = 0; l < type->getNumElements(); l++) {
    const llvm::Constant *here = x->getAggregateElement(l), *there = y->getAggregateElement(l);
    if (!here || !there || (!here->isNullValue() && !there->isOneValue())) return false;
  }
  return true;
}

/// Is it 0 in all lanes that the mask excludes? Loads under the mask are, and what becomes of their 0.
static bool zero_where_dead(const Value* x, const Value* mask) {
  while (const auto* cast = llvm::dyn_cast<llvm::CastInst>(x)) x = cast->getOperand(0);
  if (const auto* op = llvm::dyn_cast<llvm::BinaryOperator>(x)) {
    const auto zero = [&](unsigned i) { return zero_where_dead(op->getOperand(i), mask); };
    if (op->getOpcode() == llvm::Instruction::Shl) return zero(0);
    return op->getOpcode() == llvm::Instruction::FMul && zero(0) && zero(1);
  }
  if (const auto* choice = llvm::dyn_cast<llvm::SelectInst>(x)) {
    const auto* otherwise = llvm::dyn_cast<llvm::Constant>(choice->getFalseValue());
    return otherwise && otherwise->isNullValue() && within(choice->getCondition(), mask);
  }
  const auto* load = llvm::dyn_cast<llvm::IntrinsicInst>(x);
  if (!load || load->getIntrinsicID() != llvm::Intrinsic::masked_load ||
      !within(load->getArgOperand(2), mask))
    return false;
  const auto* otherwise = llvm::dyn_cast<llvm::Constant>(load->getArgOperand(3));
  return otherwise && otherwise->isNullValue();
}

/// A sum to which dead lanes add 0: these keep what they held without a mask. (A sum of -0 becomes 0, which
/// no lane begins with.)
bool Emitter::adds_zeros(const kernel::Store& s, const Value* value, const Value* mask) {
  const auto* apply = s.value->as<kernel::Apply>();
  if (!apply || apply->args.size() < 2) return false;
  const auto is_sum = [&](const kernel::ValueRef& arg) {
    const auto* load = arg->as<kernel::Load>();
    return load && load->buffer == s.buffer && load->offset == s.offset && load->guard.is_constant(1) &&
           arg->dtype == kernel_.buffers[s.buffer].dtype;
  };
  if (const auto* fma = llvm::dyn_cast<llvm::IntrinsicInst>(value);
      fma && fma->getIntrinsicID() == llvm::Intrinsic::fma && apply->args.size() == 3)
    return is_sum(apply->args[2]) && zero_where_dead(fma->getArgOperand(0), mask) &&
           zero_where_dead(fma->getArgOperand(1), mask);
  const auto* sum = llvm::dyn_cast<llvm::BinaryOperator>(value);
  if (!sum || sum->getOpcode() != llvm::Instruction::FAdd || apply->args.size() != 2) return false;
  return (is_sum(apply->args[0]) && zero_where_dead(sum->getOperand(1), mask)) ||
         (is_sum(apply->args[1]) && zero_where_dead(sum->getOperand(0), mask));
}

void Emitter::store_register(const kernel::Store& s, Value* value) {
  const kernel::BufferId buffer = s.buffer;
  const Expr offset = s.offset;
  if (!varying(offset)) {
    if (value->getType()->isVectorTy())
      fail("all lanes store to one element of " + kernel_.buffers[buffer].name);
    Value* one = b_.CreateInsertElement(
        llvm::PoisonValue::get(llvm::FixedVectorType::get(value->getType(), 1)), value, uint64_t(0));
    return write_registers(buffer, register_index(buffer, offset), one);
  }
  std::vector<int64_t> places = register_places(buffer, offset);
  value = splat(value);
  // Lanes that are not live keep what they held.
  if (Value* mask = mask_for(buffer); mask && !adds_zeros(s, value, mask))
    value = b_.CreateSelect(mask, value, read_registers(buffer, places));
  write_registers(buffer, places, value);
}

} // namespace luminal::codegen
