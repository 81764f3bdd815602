// codegen/emit_registers.cpp -- buffers in registers: chunks of vectors, whose elements have constant
// places.
#include "codegen/emitter.h"
#include <llvm/IR/Instructions.h>
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

void Emitter::store_register(kernel::BufferId buffer, Expr offset, Value* value) {
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
  if (Value* mask = mask_for(buffer)) value = b_.CreateSelect(mask, value, read_registers(buffer, places));
  write_registers(buffer, places, value);
}

} // namespace luminal::codegen
