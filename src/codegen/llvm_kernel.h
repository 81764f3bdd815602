// codegen/llvm_kernel.h -- kernels that a user wrote as LLVM IR text.
#pragma once
#include "codegen/codegen.h"
#include <array>

namespace luminal::codegen {

/// The text defines `void @name(ptr.., i64.., i64 x, i64 y, i64 z)`: addresses of the buffers, the
/// integers, and the place of a block in the grid. It is called once for each block, on any worker
/// and in any order, and calls nothing outside of the text but LLVM's intrinsics.
struct LlvmKernel {
  std::string name, text;
  int inputs = 0, outputs = 0; ///< buffers, in this order
  std::vector<Expr> symbols;   ///< that grid and integers read
  std::vector<Expr> integers;  ///< arguments after the addresses
  std::array<Expr, 3> grid{1, 1, 1};
};

/// The object has the entry that codegen.h describes. Failure: a mistake in the text with line and
/// column, a function that is missing or of another type, a reference to what is not in the text.
Result<CompiledKernel> compile(const LlvmKernel& kernel, const CpuTarget& target,
                               const CodegenOptions& options = {});
/// For people: the text as it runs, before optimisation or as assembly.
Result<std::string> llvm_ir(const LlvmKernel& kernel, const CpuTarget& target);
Result<std::string> assembly(const LlvmKernel& kernel, const CpuTarget& target);

} // namespace luminal::codegen
