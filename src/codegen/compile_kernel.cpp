// codegen/compile_kernel.cpp -- the way from loop IR to an object: emit, a short list of passes,
// LLVM's code generator.
#include "codegen/emitter.h"
#include "codegen/llvm_build.h"
#include <atomic>
#include <chrono>
#include <llvm/IR/Verifier.h>

namespace luminal::codegen {
namespace {

using Clock = std::chrono::steady_clock;
double ms_since(Clock::time_point t) {
  return std::chrono::duration<double, std::milli>(Clock::now() - t).count();
}

// Register buffers are allocas, which sroa turns into values: the only pass that speed needs. The
// others make the code that reaches instruction selection small, which is most of the time. The O
// pipelines cost twice as much and give nothing.
constexpr const char* passes =
    "function(sroa,early-cse,instcombine<no-verify-fixpoint>,loop-simplify,lcssa,loop-mssa(licm))";

struct Times {
  double ir_ms = 0, opt_ms = 0;
};

/// The module of a kernel. Failure: see codegen::compile.
Result<Times> emit(const kernel::Kernel& kernel, const CpuTarget& target, const CodegenOptions& options,
                   bool optimise, Build& build) {
  if (auto started = build.start(target, options.level); !started) return started.failure();
  Times times;
  auto start = Clock::now();
  try {
    Emitter(kernel, target, options, *build.module).run(entry_name);
  } catch (const EmitFailure& failure) {
    return Failure{failure.text};
  }
  std::string mistakes;
  llvm::raw_string_ostream stream(mistakes);
  LUMINAL_CHECK(!llvm::verifyModule(*build.module, &stream), "LLVM refuses the code of {}: {}\n{}",
                kernel.name, stream.str(), kernel::to_string(kernel));
  times.ir_ms = ms_since(start);
  if (!optimise) return times;
  start = Clock::now();
  build.optimise(passes);
  if (target.memory_operands())
    build.hide_displacements(); // elsewhere displacements are short: several bases are needed
  times.opt_ms = ms_since(start);
  return times;
}

bool uses_roles(const kernel::Body& statements) {
  return std::ranges::any_of(statements, [](const kernel::StmtRef& s) {
    return s->is<kernel::Roles>() ||
           std::ranges::any_of(bodies_of(*s), [](const kernel::Body* inside) { return uses_roles(*inside); });
  });
}

/// Producers and consumers become steps of a serial loop.
kernel::Kernel sequential(const kernel::Kernel& kernel) {
  return uses_roles(kernel.body) ? kernel::expand_roles(kernel) : kernel;
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
  const auto times = emit(plain, target, options, true, build);
  if (!times) return times.failure();
  CompiledKernel result;
  const auto start = Clock::now();
  result.object = build.object();
  result.entry = entry_name;
  ScratchBytes scratch = scratch_bytes(plain);
  result.shared_bytes = scratch.shared;
  result.local_bytes = scratch.local;
  result.times = {times->ir_ms, times->opt_ms, ms_since(start)};
  return result;
}

Result<std::string> assembly(const kernel::Kernel& kernel, const CpuTarget& target,
                             const CodegenOptions& options) {
  Build build;
  if (auto done = emit(sequential(kernel), target, options, true, build); !done) return done.failure();
  return build.assembly();
}

Result<std::string> llvm_ir(const kernel::Kernel& kernel, const CpuTarget& target,
                            const CodegenOptions& options, bool optimised) {
  Build build;
  if (auto done = emit(sequential(kernel), target, options, optimised, build); !done) return done.failure();
  return build.ir();
}

} // namespace luminal::codegen
