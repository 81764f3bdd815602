// codegen/c_like/c_like.h -- loop IR in, text of a C-like language out (CUDA, HIP, Metal, OpenCL C, C).
//
// How the workers of the loop IR become threads:
// - A kernel without level 1 (parallel loops, barriers, buffers of a group): each thread is a worker.
//   Iterations of a parallel loop go to threads by turns, so that neighbours touch neighbours.
// - A kernel with level 1: a group of threads is a worker, its threads are the lanes. Where the iterations
//   of a loop of level 1 meet at barriers, the group has as many threads.
// A barrier of level 0 stops all workers. Where it stands between the outermost statements the kernel
// is cut there into functions that are launched one after the other (`phases`); where it stands
// deeper all workers have to be threads of one group (`one_group`).
//
// The functions take the global buffers in order, then a pointer to the launch's scratch (where
// shared_bytes is not 0), then the symbols as 64-bit integers.
#pragma once
#include "base/result.h"
#include "codegen/c_like/dialect.h"
#include "loop/loop.h"
#include <string>
#include <vector>

namespace luminal::codegen {

struct CLikeOptions {
  int lanes = 64; ///< threads of a group; of a kernel whose lanes meet inside a loop: as many as it has
  std::string entry = "run"; ///< name of the first function; others are called entry_1, entry_2, ...
  bool f64 = true;           ///< the device computes in f64
};

struct CLikeKernel {
  std::string text;
  std::vector<std::string> phases; ///< names of functions, to be launched in this order
  int lanes = 1;                   ///< threads of a group
  bool grouped = false;            ///< a worker is a group
  bool one_group = false;          ///< all threads must be of one group
  Expr shared_bytes = 0;           ///< scratch of a launch, over the kernel's symbols
  Expr group_bytes = 0;            ///< memory of each group
};

/// Failure: what the language or the target lacks, by name. Emission takes about a millisecond.
Result<CLikeKernel> emit_c_like(const kernel::Kernel& kernel, const Dialect& dialect,
                                const CLikeOptions& options = {});

} // namespace luminal::codegen
