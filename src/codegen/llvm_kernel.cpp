// codegen/llvm_kernel.cpp -- a user's LLVM IR: read, checked, called for every block of the grid.
#include "codegen/llvm_kernel.h"
#include "base/check.h"
#include "codegen/llvm_build.h"
#include <fmt/format.h>
#include <llvm/AsmParser/Parser.h>
#include <llvm/IR/Verifier.h>
#include <llvm/Support/SourceMgr.h>
#include <llvm/Support/raw_ostream.h>

namespace luminal::codegen {
namespace {

std::string type_text(const llvm::Type* type) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  type->print(stream);
  return stream.str();
}
std::string message(const llvm::SMDiagnostic& mistake) {
  return fmt::format("{}:{}: {}", mistake.getLineNo(), mistake.getColumnNo() + 1, mistake.getMessage().str());
}

/// What the text must define, and what it may not need.
Result<void> check_text(const LlvmKernel& kernel, const llvm::Module& module) {
  const llvm::Function* function = module.getFunction(kernel.name);
  if (!function || function->isDeclaration())
    return Failure{fmt::format("the text defines no function @{}", kernel.name)};
  const int addresses = kernel.inputs + kernel.outputs, integers = int(kernel.integers.size());
  const llvm::FunctionType* type = function->getFunctionType();
  bool right = type->getReturnType()->isVoidTy() && !type->isVarArg() &&
               int(type->getNumParams()) == addresses + integers + 3;
  std::string expected = "void (";
  for (int i = 0; i < addresses + integers + 3; i++) {
    expected += fmt::format("{}{}", i ? ", " : "", i < addresses ? "ptr" : "i64");
    if (right)
      right = i < addresses ? type->getParamType(unsigned(i))->isPointerTy()
                            : type->getParamType(unsigned(i))->isIntegerTy(64);
  }
  if (!right)
    return Failure{
        fmt::format("@{} is {}, expected {}): {} inputs, {} outputs, {} integers, and the block's place "
                    "along x, y and z",
                    kernel.name, type_text(type), expected, kernel.inputs, kernel.outputs, integers)};
  for (const llvm::Function& other : module)
    if (other.isDeclaration() && !other.isIntrinsic())
      return Failure{fmt::format("@{} is declared and not defined: nothing outside of the text can be called",
                                 other.getName().str())};
  for (const llvm::GlobalVariable& global : module.globals())
    if (global.isDeclaration())
      return Failure{fmt::format("@{} is declared and not defined: nothing outside of the text can be read",
                                 global.getName().str())};
  return {};
}

/// The entry: addresses and symbols are read, integers and grid computed, blocks are shared out
/// among the workers.
std::string wrapper(const LlvmKernel& kernel) {
  std::string text = fmt::format("\ndefine void @{}(ptr %buffers, ptr %symbols, ptr %shared, ptr %local, i64 "
                                 "%worker, i64 %workers, ptr %context, ptr %barrier) {{\nentry:\n",
                                 entry_name);
  std::string arguments;
  auto argument = [&](std::string_view type, const std::string& value) {
    arguments += fmt::format("{}{} {}", arguments.empty() ? "" : ", ", type, value);
  };
  for (int i = 0; i < kernel.inputs + kernel.outputs; i++) {
    text += fmt::format(
        "  %at{0} = getelementptr ptr, ptr %buffers, i64 {0}\n  %buffer{0} = load ptr, ptr %at{0}\n", i);
    argument("ptr", fmt::format("%buffer{}", i));
  }
  for (size_t i = 0; i < kernel.symbols.size(); i++)
    text += fmt::format("  %symbol_at{0} = getelementptr i64, ptr %symbols, i64 {0}\n  %symbol{0} = load "
                        "i64, ptr %symbol_at{0}\n",
                        i);
  int made = 0;
  auto number = [&](Expr e) {
    const LlvmText value = to_llvm(e, {.name_of =
                                           [&](Expr symbol) {
                                             for (size_t i = 0; i < kernel.symbols.size(); i++)
                                               if (kernel.symbols[i] == symbol)
                                                 return fmt::format("%symbol{}", i);
                                             LUMINAL_CHECK(false, "custom kernel {} reads symbol {}",
                                                           kernel.name, to_string(symbol));
                                           },
                                       .prefix = fmt::format("%e{}.", made++)});
    for (const std::string& line : value.lines) text += "  " + line + "\n";
    return value.value;
  };
  for (Expr e : kernel.integers) argument("i64", number(e));
  const std::string x = number(max(kernel.grid[0], 0)), y = number(max(kernel.grid[1], 0)),
                    z = number(max(kernel.grid[2], 0));
  text += fmt::format(R"(  %plane = mul i64 {0}, {1}
  %blocks = mul i64 %plane, {2}
  br label %loop
loop:
  %block = phi i64 [ %worker, %entry ], [ %next, %body ]
  %more = icmp slt i64 %block, %blocks
  br i1 %more, label %body, label %exit
body:
  %x = urem i64 %block, {0}
  %rest = udiv i64 %block, {0}
  %y = urem i64 %rest, {1}
  %z = udiv i64 %rest, {1}
  call void @{3}({4}, i64 %x, i64 %y, i64 %z)
  %next = add i64 %block, %workers
  br label %loop
exit:
  ret void
}}
)",
                      x, y, z, kernel.name, arguments);
  return text;
}

Result<void> read(const LlvmKernel& kernel, const CpuTarget& target, int level, Build& build) {
  if (auto started = build.start(target, level); !started) return started;
  llvm::SMDiagnostic mistake;
  auto own = llvm::parseAssemblyString(kernel.text, mistake, build.context);
  if (!own) return Failure{message(mistake)};
  std::string mistakes;
  llvm::raw_string_ostream stream(mistakes);
  if (llvm::verifyModule(*own, &stream)) return Failure{stream.str()};
  if (auto fits = check_text(kernel, *own); !fits) return fits;
  own.reset();
  auto whole = llvm::parseAssemblyString(kernel.text + wrapper(kernel), mistake, build.context);
  if (!whole) return Failure{message(mistake)};
  LUMINAL_CHECK(!llvm::verifyModule(*whole, &stream), "LLVM refuses the entry of {}: {}", kernel.name,
                stream.str());
  build.take(std::move(whole), target);
  for (llvm::Function& function : *build.module) {
    if (function.isDeclaration()) continue;
    function.addFnAttr("no-builtins"); // no loop becomes a call of memset
    function.removeFnAttr("target-cpu");
    function.removeFnAttr("target-features");
    if (function.getName() != entry_name) function.setLinkage(llvm::GlobalValue::InternalLinkage);
  }
  return {};
}

} // namespace

Result<CompiledKernel> compile(const LlvmKernel& kernel, const CpuTarget& target,
                               const CodegenOptions& options) {
  Build build;
  if (auto done = read(kernel, target, options.level, build); !done) return done.failure();
  build.optimise("default<O2>");
  CompiledKernel result;
  result.object = build.object();
  result.entry = entry_name;
  result.shared_bytes = result.local_bytes = 0;
  return result;
}
Result<std::string> llvm_ir(const LlvmKernel& kernel, const CpuTarget& target) {
  Build build;
  if (auto done = read(kernel, target, 2, build); !done) return done.failure();
  return build.ir();
}
Result<std::string> assembly(const LlvmKernel& kernel, const CpuTarget& target) {
  Build build;
  if (auto done = read(kernel, target, 2, build); !done) return done.failure();
  build.optimise("default<O2>");
  return build.assembly();
}

} // namespace luminal::codegen
