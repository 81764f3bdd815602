// codegen/llvm_compat.h -- LLVM's headers for the emitter, and every difference between LLVM 17 and
// 21 that we meet.
#pragma once
#include <cstdint>
#include <llvm/Config/llvm-config.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/IntrinsicInst.h>
#include <llvm/IR/Module.h>
#if LLVM_VERSION_MAJOR < 17 || LLVM_VERSION_MAJOR > 21
#warning "luminal is tested with LLVM 17 to 21"
#endif

namespace luminal::codegen {

/// The declaration of an intrinsic that is not an overload of IRBuilder::CreateIntrinsic.
inline llvm::Function* intrinsic(llvm::Module& module, llvm::Intrinsic::ID id,
                                 llvm::ArrayRef<llvm::Type*> types = {}) {
#if LLVM_VERSION_MAJOR >= 20
  return llvm::Intrinsic::getOrInsertDeclaration(&module, id, types);
#else
  return llvm::Intrinsic::getDeclaration(&module, id, types);
#endif
}

/// An integer constant of any width from its low bits (newer versions refuse values that do not
/// fit).
inline llvm::Constant* int_constant(llvm::Type* type, int64_t value) {
  unsigned width = type->getScalarSizeInBits();
#if LLVM_VERSION_MAJOR >= 20
  llvm::APInt bits(width, static_cast<uint64_t>(value), true, true);
#else
  llvm::APInt bits(width, static_cast<uint64_t>(value), true);
#endif
  return llvm::ConstantInt::get(type, bits);
}

} // namespace luminal::codegen
