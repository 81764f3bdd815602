// kernel/loop.h -- the loop IR: what a kernel does, step by step. It knows nothing of matmul or attention.
//
// A kernel is SPMD: every worker runs the body; `parallel` loops deal out iterations, barriers stand inside. Loop variables, kernel symbols and integer lets are
// Expr symbols (their ranges are facts); all offsets, bounds and conditions are Exprs. Inside a `vector` loop the variable is a lane: values that depend on it are vectors, and
// each statement acts on all lanes at once. Buffers in registers are indexed by constants once `unrolled` loops are expanded.
//
//   kernel scale(x: f32[n] in, y: f32[n] out; n: 1..4096)
//     parallel io in 0..ceildiv(n, 16)
//       vector il in 0..16 masked n - io*16
//         y[io*16 + il] = x[io*16 + il] * 0.5
#pragma once
#include "expr/expr.h"
#include "ir/dtype.h"
#include "ir/ops.h"
#include <memory>
#include <string>
#include <vector>

namespace luminal::kernel {

/// global: arguments; shared: one for all workers of a launch; local: one for each worker, in memory; registers: one for each worker, promoted.
/// `group` and `tensor_memory` exist on GPUs only.
enum class Space : uint8_t { global, shared, local, registers, group, tensor_memory };
enum class Access : uint8_t { in, out, inout, scratch };

struct Buffer {
  std::string name;
  Space space = Space::global;
  Access access = Access::in;
  DType dtype = DType::f32;
  Expr size;             // elements, padding included
  int64_t alignment = 0; // bytes, known; 0: that of the dtype
  bool padded = false;   // lanes beyond the end of a tail may be touched (scratch that is rounded up to whole tiles)
};
using BufferId = int;

// ---- values ----
enum class ValueKind : uint8_t { constant, load, index, op, cast, bitcast, reduce_lanes, let };
struct Value;
using ValueRef = std::shared_ptr<const Value>;
struct Value {
  ValueKind kind;
  DType dtype = DType::f32;     // of the result; for load that of the buffer
  Op op{};                      // op; reduce_lanes: add, max, min, mul over the lanes of the open vector loop
  double constant = 0;          // constant (integers up to 2^53; larger ones as op rows on halves)
  BufferId buffer = -1;         // load
  Expr offset;                  // load: element offset;  index: the integer itself, as a value
  int let = -1;                 // let: number of the let statement's value
  std::vector<ValueRef> args;   // op, cast, bitcast, reduce_lanes
};

// ---- statements ----
enum class LoopKind : uint8_t { serial, parallel, unrolled, vector };
enum class StmtKind : uint8_t {
  loop, store, let_value, let_index, if_, barrier, prefetch, // everywhere
  unit,                                                      // one instruction of a described unit
  async_copy, async_unit, async_wait,                        // asynchronous statements and their tokens
  roles                                                      // producers and consumers; on a CPU its parts run one after the other, step by step
};
struct Stmt;
using StmtRef = std::shared_ptr<const Stmt>;
using Body = std::vector<StmtRef>;

/// One operand of a unit instruction: a buffer, the offset of its first element, and the strides in elements of the descriptor's axes.
struct UnitOperand { BufferId buffer; Expr offset; std::vector<Expr> strides; };

struct Stmt {
  StmtKind kind;
  // loop
  Expr variable;               // a symbol; its range holds begin .. end-1. let_index: the symbol that is defined
  LoopKind loop = LoopKind::serial;
  Expr begin = 0, end = 0;     // step 1; an empty range runs nothing
  int level = 0;               // parallel: 0 = workers (threads, blocks), 1 = lanes of a group, ...
  int jam = 1;                 // serial: bodies per trip
  bool masked = false;         // vector: only lanes < lanes_active are live in masked loads and stores
  Expr lanes_active;
  Body body, otherwise;        // loop, if_ (both), roles: body = producers, otherwise = consumers
  // store, prefetch, let
  BufferId buffer = -1;
  Expr offset;
  ValueRef value;              // store, let_value; let_index: an integer value (a load) that becomes an index
  int let = -1;                // let_value
  Expr condition;              // if_: a condition over indices (0/1)
  // unit, async
  std::string unit;            // name of the descriptor
  std::vector<UnitOperand> operands; // accumulator first; async_copy: destination, source
  Expr count;                  // async_copy: elements
  int token = -1;              // async_*: the token that is produced or awaited
  int stages = 1;              // roles: depth of the ring between producers and consumers
};

struct Kernel {
  std::string name;
  std::vector<Buffer> buffers;   // global ones first: the arguments, in order
  std::vector<Expr> symbols;     // scalar arguments (dimension symbols), in order, after the buffers
  Body body;
  int lets = 0;                  // number of let values
  int lanes = 16;                // lanes of a vector loop (f32); a vector loop has this many steps or a power of two below or a multiple
  std::vector<std::string> notes; // "m0: 0..1024 split by 240": lines for the reader, printed as comments
};

// ---- text; print and parse invert each other ----
std::string to_string(const Kernel& kernel);
Kernel parse_kernel(std::string_view text, std::string_view file_name = "<text>");
uint64_t structural_hash(const Kernel& kernel);
/// Mistakes: unknown names, types, indices of register buffers that are not constant after unrolling, loads of never-written scratch, parallel loops in vector ones, ...
std::vector<std::string> verify(const Kernel& kernel);

// ---- builders ----
ValueRef constant(DType dtype, double value);
ValueRef load(const Kernel& kernel, BufferId buffer, Expr offset);
ValueRef index(Expr value, DType dtype);
ValueRef apply(Op op, std::vector<ValueRef> args);
ValueRef cast(DType to, ValueRef x);
ValueRef bitcast(DType to, ValueRef x);
ValueRef reduce_lanes(Op op, ValueRef x);
ValueRef let_value(DType dtype, int let);
StmtRef loop(LoopKind kind, Expr variable, Expr begin, Expr end, Body body);
StmtRef store(BufferId buffer, Expr offset, ValueRef value);
StmtRef if_then(Expr condition, Body then, Body otherwise = {});
StmtRef barrier();

} // namespace luminal::kernel
