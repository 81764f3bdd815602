// codegen/codegen.h -- loop IR in, machine code out. No LLVM type appears here.
//
// The object defines one function, with C linkage and no reference to anything outside (no libm, no
// host function):
//   void entry(void* const* buffers, const int64_t* symbols, char* shared, char* local,
//              int64_t worker, int64_t workers, void* barrier_context, void (*barrier)(void*));
// buffers: the global buffers of the kernel, in order; symbols: the values of kernel.symbols, in
// order; shared: one block of scratch for the launch; local: one block for this worker (both
// aligned to 64 bytes, may be null where their size is 0); barrier waits for all workers. All
// workers of a launch must run at the same time where the kernel holds a barrier.
#pragma once
#include "base/result.h"
#include "loop/loop.h"
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace luminal::codegen {

/// The processor that code is made for.
struct CpuTarget {
  std::string triple;   ///< "x86_64-unknown-linux-gnu"
  std::string cpu;      ///< LLVM's name: "znver4"
  std::string features; ///< LLVM's list: "+avx2,-avx512f,..."; empty: what `cpu` has
  int vector_bits = 128;
  int vector_registers = 16;
  bool masked_memory = false; ///< masked loads and stores cost no more than plain ones (AVX-512, SVE)
  bool sve = false; ///< AArch64's scalable vectors, of exactly vector_bits: the code fits no other width
  bool fma = false;
  bool f16_convert = false; ///< f16 <-> f32 instructions
  bool bf16_dot = false;    ///< VDPBF16PS, BFDOT
  /// It adds fewer products in a cycle than multiply-adds of f32: of Intel's processors with matrix units.
  bool slow_bf16_dot = false;
  bool full_rate = false; ///< two multiply-adds of 512 bits a cycle, and a last cache that all cores share
  bool int8_dot = false;  ///< VPDPBUSD, SDOT
  bool scalef = false;    ///< VSCALEFPS
  bool bf16_tiles = false, int8_tiles = false; ///< matrix units (AMX) that this process may use

  /// This machine, asked once; or the part of it that LUMINAL_CPU names. Throws where it has no such part.
  static const CpuTarget& host();
  /// "haswell", "skylake-avx512", "znver4", "znver5", "neoverse-v1", ... for the operating system
  /// of this machine.
  static Result<CpuTarget> named(std::string_view cpu);
  uint64_t hash() const;
  /// Dot instructions on values (kernel::find_lane_unit), and units with tile registers, that schedules
  /// should use, the best first.
  std::vector<std::string> dot_units() const;
  /// Whether a multiply-add takes its operand from memory; elsewhere each value that all lanes
  /// share needs a register.
  bool memory_operands() const { return triple.starts_with("x86_64"); }
  /// Lanes of one vector register.
  int lanes(DType type) const { return vector_bits / (bits(type) < 8 ? 8 : bits(type)); }
  /// What a processor must have to run the code, for a program that asks it: words of GCC's
  /// __builtin_cpu_supports on x86-64, of the system's HWCAP bits on AArch64 ("HWCAP_ASIMDDP").
  std::vector<std::string> instructions() const;
  bool operator==(const CpuTarget&) const = default;
};

/// What code is made for. Those who pass it on need not know whether that is a processor.
struct Target {
  CpuTarget cpu;                 ///< of machine code
  std::string language = {};     ///< "opencl": code is text of it; empty: machine code for `cpu`
  std::string architecture = {}; ///< of that device: "sm_90a", "gfx942"; empty: the text itself is loaded

  /// Machine code for this processor.
  static Target host() { return {.cpu = CpuTarget::host()}; }
  bool is_text() const { return !language.empty(); }
  bool operator==(const Target&) const = default;
};

struct CodegenOptions {
  int level = 2;         ///< effort of LLVM's code generator, 0..3
  bool transpose = true; ///< strided vector loads under an unrolled loop become shuffles (off: gathers)
  uint64_t hash() const;
};

struct CompiledKernel {
  std::vector<std::byte> object;  ///< a relocatable object file
  std::string entry;              ///< the name of its function
  Expr shared_bytes, local_bytes; ///< scratch of a launch and of each worker, over the kernel's symbols
  struct {
    double ir_ms = 0, opt_ms = 0, codegen_ms = 0;
  } times;
};

/// Failures: the target lacks an instruction that the kernel names, or cannot serve at all. Safe on
/// any number of threads at once.
Result<CompiledKernel> compile(const kernel::Kernel& kernel, const CpuTarget& target,
                               const CodegenOptions& options = {});
/// Kernels that compile() has made machine code of, in this process.
int64_t compilations();
/// The scratch alone, without compiling.
struct ScratchBytes {
  Expr shared, local;
};
ScratchBytes scratch_bytes(const kernel::Kernel& kernel);
/// For people and tests: the text of the same code.
Result<std::string> assembly(const kernel::Kernel& kernel, const CpuTarget& target,
                             const CodegenOptions& options = {});
Result<std::string> llvm_ir(const kernel::Kernel& kernel, const CpuTarget& target,
                            const CodegenOptions& options = {}, bool optimised = true);
/// "19.1.7"
std::string llvm_version();

} // namespace luminal::codegen
