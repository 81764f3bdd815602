// codegen/compile.cpp -- the way from loop IR to an object: emit, a short list of passes, LLVM's code generator.
#include "codegen/emitter.h"
#include "codegen/llvm_target.h"
#include <atomic>
#include <chrono>
#include <llvm/IR/LegacyPassManager.h>
#include <llvm/IR/Verifier.h>
#include <llvm/Passes/PassBuilder.h>

namespace luminal::codegen {
namespace {

using Clock = std::chrono::steady_clock;
double ms_since(Clock::time_point t) {
  return std::chrono::duration<double, std::milli>(Clock::now() - t).count();
}

constexpr const char* entry_name = "luminal_kernel";

// Register buffers are allocas, which sroa turns into values: the only pass that speed needs. The others make the code that reaches instruction
// selection small, which is most of the time. The O pipelines cost twice as much and give nothing.
constexpr const char* passes =
    "function(sroa,early-cse,instcombine<no-verify-fixpoint>,loop-simplify,lcssa,loop-mssa(licm))";

struct Build {
  llvm::LLVMContext context;
  llvm::Module module{"luminal", context};
  std::unique_ptr<llvm::TargetMachine> machine;
  double ir_ms = 0, opt_ms = 0;

  Result<void> run(const kernel::Kernel& kernel, const CpuTarget& target, const CodegenOptions& options,
                   bool optimise) {
    auto made = make_target_machine(target, options.level);
    if (!made) return made.failure();
    machine = std::move(*made);
    auto start = Clock::now();
#if LLVM_VERSION_MAJOR >= 21
    module.setTargetTriple(llvm::Triple(target.triple));
#else
    module.setTargetTriple(target.triple);
#endif
    module.setDataLayout(machine->createDataLayout());
    try {
      Emitter(kernel, target, options, module).run(entry_name);
    } catch (const EmitFailure& failure) {
      return Failure{failure.text};
    }
    std::string mistakes;
    llvm::raw_string_ostream stream(mistakes);
    LUMINAL_CHECK(!llvm::verifyModule(module, &stream), "LLVM refuses the code of {}: {}\n{}", kernel.name,
                  stream.str(), kernel::to_string(kernel));
    ir_ms = ms_since(start);
    if (!optimise) return {};
    start = Clock::now();
    llvm::LoopAnalysisManager loops;
    llvm::FunctionAnalysisManager functions;
    llvm::CGSCCAnalysisManager sccs;
    llvm::ModuleAnalysisManager modules;
    llvm::PassBuilder builder(machine.get());
    builder.registerModuleAnalyses(modules);
    builder.registerCGSCCAnalyses(sccs);
    builder.registerFunctionAnalyses(functions);
    builder.registerLoopAnalyses(loops);
    builder.crossRegisterProxies(loops, functions, sccs, modules);
    llvm::ModulePassManager manager;
    if (auto error = builder.parsePassPipeline(manager, passes))
      LUMINAL_CHECK(false, "LLVM {} refuses the list of passes: {}", llvm_version(),
                    llvm::toString(std::move(error)));
    manager.run(module, modules);
    opt_ms = ms_since(start);
    return {};
  }

  void produce(bool text, llvm::SmallVectorImpl<char>& out) {
#if LLVM_VERSION_MAJOR >= 18
    auto kind = text ? llvm::CodeGenFileType::AssemblyFile : llvm::CodeGenFileType::ObjectFile;
#else
    auto kind = text ? llvm::CGFT_AssemblyFile : llvm::CGFT_ObjectFile;
#endif
    llvm::raw_svector_ostream stream(out);
    llvm::legacy::PassManager manager;
    bool refused = machine->addPassesToEmitFile(manager, stream, nullptr, kind);
    LUMINAL_CHECK(!refused, "LLVM emits no file for this target");
    manager.run(module);
  }
};

bool has_roles(const kernel::Body& statements) {
  for (const kernel::StmtRef& s : statements)
    if (s->kind == kernel::StmtKind::roles || has_roles(s->body) || has_roles(s->otherwise)) return true;
  return false;
}

/// Producers and consumers become steps of a serial loop.
kernel::Kernel sequential(const kernel::Kernel& kernel) {
  return has_roles(kernel.body) ? kernel::expand_roles(kernel) : kernel;
}

} // namespace

namespace {
std::atomic<int64_t> compiled_kernels{0};
}
int64_t compilations() { return compiled_kernels; }

Result<CompiledKernel> compile(const kernel::Kernel& kernel, const CpuTarget& target,
                               const CodegenOptions& options) {
  compiled_kernels++;
  kernel::Kernel plain = sequential(kernel);
  Build build;
  if (auto done = build.run(plain, target, options, true); !done) return done.failure();
  CompiledKernel result;
  auto start = Clock::now();
  llvm::SmallVector<char, 0> bytes;
  build.produce(false, bytes);
  result.object.resize(bytes.size());
  std::memcpy(result.object.data(), bytes.data(), bytes.size());
  result.entry = entry_name;
  ScratchBytes scratch = scratch_bytes(plain);
  result.shared_bytes = scratch.shared;
  result.local_bytes = scratch.local;
  result.times = {build.ir_ms, build.opt_ms, ms_since(start)};
  return result;
}

Result<std::string> assembly(const kernel::Kernel& kernel, const CpuTarget& target,
                             const CodegenOptions& options) {
  Build build;
  if (auto done = build.run(sequential(kernel), target, options, true); !done) return done.failure();
  llvm::SmallVector<char, 0> text;
  build.produce(true, text);
  return std::string(text.begin(), text.end());
}

Result<std::string> llvm_ir(const kernel::Kernel& kernel, const CpuTarget& target,
                            const CodegenOptions& options, bool optimised) {
  Build build;
  if (auto done = build.run(sequential(kernel), target, options, optimised); !done) return done.failure();
  std::string text;
  llvm::raw_string_ostream stream(text);
  build.module.print(stream, nullptr);
  return stream.str();
}

} // namespace luminal::codegen
