// codegen/llvm_build.h -- one module of LLVM on its way to an object. Internal to codegen.
#pragma once
#include "codegen/codegen.h"
#include <llvm/IR/LLVMContext.h>
#include <llvm/IR/Module.h>
#include <llvm/Target/TargetMachine.h>
#include <memory>

namespace luminal::codegen {

inline constexpr const char* entry_name = "luminal_kernel";

struct Build {
  llvm::LLVMContext context;
  std::unique_ptr<llvm::Module> module;
  std::unique_ptr<llvm::TargetMachine> machine;

  /// An empty module for the target. Failure: LLVM has no such target.
  Result<void> start(const CpuTarget& target, int level);
  /// Another module takes its place, for the same target.
  void take(std::unique_ptr<llvm::Module> other, const CpuTarget& target);
  void optimise(const char* passes);
  /// Addresses at constant distances from one that changes from step to step are hidden from LLVM's
  /// loop strength reduction, for which each is a use of the loop's variable: it sees the one, and
  /// the distances become displacements of the instructions without it. After all other passes.
  void hide_displacements();
  void produce(bool text, llvm::SmallVectorImpl<char>& out);
  std::vector<std::byte> object();
  std::string assembly();
  std::string ir() const;
};

} // namespace luminal::codegen
