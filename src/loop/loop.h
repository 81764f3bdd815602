// loop/loop.h -- the loop IR: what a kernel does, step by step. It knows nothing of products of
// matrices.
//
// A kernel is SPMD: every worker runs the body; `parallel` loops distribute iterations, barriers
// stand inside. Loop variables, kernel symbols and index lets are Expr symbols (their ranges are
// facts); all offsets, bounds and conditions are Exprs. Inside a `vector` loop the variable is a
// lane: values that depend on it are vectors, and each statement acts on all lanes at once. Buffers
// in registers are indexed by constants once `unrolled` loops are expanded.
//
//   kernel scale(x: f32[n] in, y: f32[n] out; n: 1..4096)
//     parallel io in 0..ceildiv(n, 16)
//       vector il in 0..16 masked n - 16*io
//         y[16*io + il] = x[16*io + il] * 0.5
//
// docs/loops.md has the grammar and the meaning of every statement, with examples that are run by
// the tests. In short:
// - Lanes. In a masked loop only lanes < lanes_active are alive; a dead lane does nothing: it neither loads
//   nor stores, whatever the space, and takes no part in reduce_lanes. Where a buffer is `padded` its
//   elements at dead lanes lie inside the buffer and their content is unspecified after a store: code may
//   store whole vectors. What does not depend on the lane (scalar loads, scalar stores) is done once, mask or
//   no mask. reduce_lanes combines lane l with lane l + h for h = n/2, n/4, ..., 1 (n: steps of the vector
//   loop; dead lanes count as the identity of the op). scan_lanes gives lane l what the lanes 0..l make, in
//   steps h = 1, 2, ..., n/2, each of which combines lane l - h with lane l; last_lane is the value of the
//   last live lane, 0 where none lives.
//   A condition that differs between lanes runs both bodies, each with the lanes that take it, and not at all
//   where none does.
// - Workers. Iterations of a parallel loop go to any worker, each to exactly one: two iterations, and a
//   parallel iteration and what follows the loop, may touch the same byte of shared or global memory (one of
//   them writing) only with a barrier between. What stands outside parallel loops is done by every worker.
//   Local and register buffers do not carry values from one iteration of a parallel loop to another, or
//   behind the loop.
// - Levels. A parallel loop or barrier of level 0 concerns all workers, of level 1 the lanes of one group, a
//   group being a worker of level 0. On a CPU a group has one lane: parallel loops of level 1 are serial,
//   barriers of level 1 are nothing. A parallel loop of level 1 over 0..N with barriers of level 1 inside
//   asks for groups of exactly N lanes (lanes_of_group): each lane does the one iteration of its number,
//   and private buffers live as long as that. All lanes reach each of these barriers.
// - Tokens. An asynchronous statement begins and may end at any time before the wait for its token. A token
//   is a queue of each worker: `wait t` awaits the oldest one in flight. Until then its destination is not
//   touched, its source not written. `wait t behind n` awaits all but the n youngest ones. A copy of `count`
//   elements with `fill` writes `fill` elements: those behind the count become 0.
// - Lanes together. Where lanes of a group meet, a unit of several lanes whose operands have no strides is
//   carried out by that many neighbouring lanes, and `exchange x <- y xor m` stores in each lane what lane
//   (number xor m) holds at y. Operands lie in registers: each lane holds its places of the unit's lane maps
//   (narrow types in u32 words, the first place in the low bits). All lanes of the group reach both.
// - Roles. For each step of the variable the producers' body runs, then the consumers'; producers may be up
//   to `stages` steps ahead: step k of the producers begins when the consumers have finished step k - stages.
// - Guards. `x[offset where condition]` is 0 where the condition over indices does not hold:
//   nothing is touched there, and the
//   offset may lie anywhere. In a vector loop each lane has its own. Register buffers have no guards.
// - Offsets are in elements of the buffer. A load whose dtype is not the buffer's reads the bytes from byte
//   offset * size of the buffer's dtype on, little endian (buffers of 4-bit types: an even offset).
#pragma once
#include "base/hash.h"
#include "base/id.h"
#include "base/overloaded.h"
#include "expr/expr.h"
#include "ir/dtype.h"
#include "ir/ops.h"
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

namespace luminal::kernel {

// Of a kernel: its buffers and named values; of asynchronous statements, what they are awaited by.
using BufferId = Id<struct BufferTag>;
using LetId = Id<struct LetTag>;
using TokenId = Id<struct TokenTag>;

/// global: arguments; shared: one for all workers of a launch; local: one for each worker, in
/// memory; registers: one for each worker, promoted. `group` (one for each group) and
/// `tensor_memory` exist on GPUs only.
enum class Space : uint8_t { global, shared, local, registers, group, tensor_memory };
enum class Access : uint8_t { in, out, inout, scratch };

struct Buffer {
  std::string name;
  Space space = Space::global;
  Access access = Access::in;
  DType dtype = DType::f32;
  Expr size;             // elements, padding included
  int64_t alignment = 0; // bytes, known; 0: that of the dtype
  bool padded = false;   // lanes beyond the end of a tail may be touched (scratch that is rounded up to whole
                         // tiles, accumulators whose dead lanes are never read)
  bool streaming = false; // what is written goes past the caches: nobody reads it soon
  bool operator==(const Buffer&) const = default;
};

// ---- values ----
struct Value;
using ValueRef = std::shared_ptr<const Value>;

struct Constant {
  double value; // integers up to 2^53; larger ones as op rows on halves
};
struct Load {
  BufferId buffer;
  Expr offset;    // of the element
  Expr guard = 1; // where this condition does not hold the value is 0 and no memory is touched
};
/// An integer over loop variables and symbols, as a value.
struct Index {
  Expr value;
};
/// The value that a LetValue names.
struct Let {
  LetId number;
};
/// A row of the op table.
struct Apply {
  Op op;
  std::vector<ValueRef> args;
};
/// A registered row, or a unit whose lanes act alone (find_lane_unit).
struct ApplyUser {
  std::string name;
  std::vector<ValueRef> args;
};
struct Cast {
  ValueRef x;
};
struct Bitcast {
  ValueRef x;
};
/// What the lanes of the open vector loop make together.
enum class LanesForm : uint8_t {
  reduced, ///< one value of all of them
  scanned, ///< for each lane that of the lanes up to it
  last     ///< the value of the last one
};
/// add, max, min or mul over the lanes of the open vector loop; `last` has no operation.
struct ReduceLanes {
  Op op;
  ValueRef x;
  LanesForm form = LanesForm::reduced;
};

struct Value {
  DType dtype = DType::f32; // a load's is that of the buffer, or another (see the head of the file)
  std::variant<Constant, Load, Index, Let, Apply, ApplyUser, Cast, Bitcast, ReduceLanes> kind;
  template <class Kind> bool is() const { return std::holds_alternative<Kind>(kind); }
  /// Null where it is a value of another kind.
  template <class Kind> const Kind* as() const { return std::get_if<Kind>(&kind); }
};
/// Calls the case for the value's kind.
template <class... Cases> decltype(auto) visit(const Value& value, Cases&&... cases) {
  return std::visit(Overloaded{std::forward<Cases>(cases)...}, value.kind);
}
/// The values that it is made of.
std::span<const ValueRef> args_of(const Value& value);
/// The value with each of its arguments changed.
ValueRef with_args(const Value& value, const std::function<ValueRef(const ValueRef&)>& change);
/// Is it the row of the op table, and no other?
inline bool applies(const Value& value, Op op) {
  const auto* row = value.as<Apply>();
  return row && row->op == op;
}

// ---- statements ----
enum class LoopKind : uint8_t { serial, parallel, unrolled, vector };
struct Stmt;
using StmtRef = std::shared_ptr<const Stmt>;
using Body = std::vector<StmtRef>;

struct Loop {
  LoopKind kind = LoopKind::serial;
  Expr variable;                         // a symbol; its range holds begin .. end-1
  Expr begin = 0, end = 0;               // step 1; an empty range runs nothing
  int level = 0;                         // parallel: 0 = workers (threads, blocks), 1 = lanes of a group, ...
  int jam = 1;                           // serial: bodies per trip
  std::optional<Expr> lanes_active = {}; // vector: only lanes below it are alive
  Body body = {};
};
struct Store {
  BufferId buffer;
  Expr offset;
  ValueRef value;
};
struct LetValue {
  LetId let;
  ValueRef value;
};
/// An integer value (a load) that becomes an index.
struct LetIndex {
  Expr symbol;
  ValueRef value;
};
struct If {
  Expr condition; // over indices (0/1)
  Body then = {}, otherwise = {};
};
struct Barrier {
  int level = 0; // as of parallel loops
};
struct Prefetch { // everywhere
  BufferId buffer;
  Expr offset;
};

/// One operand of a unit instruction: a buffer, the offset of its first element, and the strides in
/// elements of the descriptor's axes.
struct UnitOperand {
  BufferId buffer;
  Expr offset;
  std::vector<Expr> strides;
  bool operator==(const UnitOperand&) const = default;
};
/// One instruction of a described unit (loop/unit.h).
struct UnitCall {
  std::string unit;                  // name of the descriptor
  std::vector<UnitOperand> operands; // accumulator first
  std::optional<Expr> rows = {};     // of tile registers: the first so many, at least one; none: all
};

// Asynchronous statements and their tokens.
struct AsyncCopy {
  UnitOperand to, from;
  Expr count; // elements
  TokenId token;
  Expr fill = 0; // elements that are written in all; 0: count
};
struct AsyncUnit {
  UnitCall call;
  TokenId token;
};
struct AsyncWait {
  TokenId token;
  /// Of the token's statements so many may stay in flight; none: only the oldest is awaited.
  std::optional<int> behind;
};
/// Lanes of a group: `to` becomes what lane (number xor mask) has in `from`. Both lie in registers.
constexpr int most_exchanging = 32; ///< neighbouring lanes that exchange, on every device
struct Exchange {
  BufferId to;
  Expr to_offset;
  BufferId from;
  Expr from_offset;
  int mask;
};
/// Producers and consumers; on a CPU its parts run one after the other, step by step (expand_roles).
struct Roles {
  Expr variable, begin = 0, end = 0;
  int stages = 1; // depth of the ring between producers and consumers
  Body producers = {}, consumers = {};
};

struct Stmt : std::variant<Loop, Store, LetValue, LetIndex, If, Barrier, Prefetch, UnitCall, AsyncCopy,
                           AsyncUnit, AsyncWait, Exchange, Roles> {
  using variant::variant;
  template <class Kind> bool is() const { return std::holds_alternative<Kind>(*this); }
  /// Null where it is a statement of another kind.
  template <class Kind> const Kind* as() const { return std::get_if<Kind>(this); }
};
/// Calls the case for the statement's kind.
template <class... Cases> decltype(auto) visit(const Stmt& stmt, Cases&&... cases) {
  return std::visit(Overloaded{std::forward<Cases>(cases)...}, stmt);
}
/// The statements inside of it: of a loop, both branches of a condition, producers and consumers.
std::vector<const Body*> bodies_of(const Stmt& stmt);
/// The statement with each of its bodies changed.
StmtRef with_bodies(const Stmt& stmt, const std::function<Body(const Body&)>& change);
/// The value that it stores or names; null for other kinds.
const Value* value_of(const Stmt& stmt);
/// What it writes: the target of a store or copy, the accumulator of a unit.
std::optional<BufferId> written_by(const Stmt& stmt);
/// Is it a parallel loop over all workers?
bool is_distributed(const Stmt& stmt);

struct Kernel {
  std::string name;
  IdVector<BufferId, Buffer> buffers; // global ones first: the arguments, in order
  std::vector<Expr> symbols;          // scalar arguments (dimension symbols), in order, after the buffers
  Body body;
  int lets = 0; // number of let values
  int lanes =
      16; // lanes of a vector loop (f32); a vector loop has this many steps or a power of two below or
          // a multiple
  std::vector<std::string> notes; // "m0: 0..1024 split by 240": lines for the reader, printed as comments
};

// ---- text; print and parse invert each other ----
std::string to_string(const Kernel& kernel);
/// One value, and the head line of one statement (its body left out): for messages.
std::string to_string(const Kernel& kernel, const Value& value);
std::string to_string(const Kernel& kernel, const Stmt& stmt);
std::string_view to_string(Space space);
std::string_view to_string(Access access);
/// Throws Error "file:line:column: expected ..., found ...". What it returns need not pass verify.
Kernel parse_kernel(std::string_view text, std::string_view file_name = "<text>");
/// Names of kernel and buffers, and notes, take no part: kernels that run the same code hash alike.
uint64_t structural_hash(const Kernel& kernel);
Hash128 structural_hash128(const Kernel& kernel);
/// Equal in every part but notes.
bool same(const Kernel& a, const Kernel& b);
bool same(const Value& a, const Value& b);
bool same(const Stmt& a, const Stmt& b);

// ---- checks (verify.cpp) ----
/// Mistakes: unknown names, types, indices of register buffers that are not constant after
/// unrolling, loads of never-written scratch, parallel loops in vector ones, ...
std::vector<std::string> verify(const Kernel& kernel);
/// An identifier that is not a word of the text form.
bool is_buffer_name(std::string_view name);

/// Vector registers that a kernel needs at its widest point once unrolled loops are expanded.
struct RegisterPressure {
  int accumulators = 0; // vectors of register buffers that live across statements
  int temporaries = 0;  // loaded vectors, lets and intermediate results alive at once
  int total = 0;        // the largest sum of both at one statement
  std::string at;       // that statement
};
/// `vector_lanes`: f32 lanes of one hardware register; wider vectors count several times.
RegisterPressure register_pressure(const Kernel& kernel, int vector_lanes = 16);

/// The same kernel without `roles`: each becomes a serial loop over its steps with both bodies
/// inside, and a barrier of its level after each where the level is above 0 (there are no groups on
/// a CPU).
Kernel expand_roles(const Kernel& kernel);

/// Lanes that each group must have: the iterations of parallel loops of level 1 with barriers inside.
/// 0: any number.
int64_t lanes_of_group(const Kernel& kernel);
/// Does a barrier of the loop's own level stand inside of it, or a statement of several lanes?
bool meets_inside(const Loop& loop);
/// Is it carried out by several lanes of a group together? A unit on fragments, or an exchange.
bool is_collective(const Stmt& stmt);
bool is_collective(const UnitCall& call);

/// Do workers wait for each other anywhere (barriers of level 0)? Else they may run one after the
/// other, in any order.
bool has_barriers(const Kernel& kernel);

// ---- builders (loop_build.cpp); types are checked, Error names the operation ----
BufferId add_buffer(Kernel& kernel, Buffer buffer);
ValueRef constant(DType dtype, double value); ///< rounded to the dtype
ValueRef load(const Kernel& kernel, BufferId buffer, Expr offset);
ValueRef load_as(DType dtype, BufferId buffer, Expr offset, Expr guard = 1); ///< other type than the buffer's
ValueRef index(Expr value, DType dtype);
ValueRef apply(Op op, std::vector<ValueRef> args);
ValueRef apply(std::string user_op, std::vector<ValueRef> args); ///< a registered row, or a unit on words
ValueRef cast(DType to, ValueRef x);
ValueRef bitcast(DType to, ValueRef x);
ValueRef reduce_lanes(Op op, ValueRef x);
ValueRef scan_lanes(Op op, ValueRef x);
ValueRef last_lane(ValueRef x);
ValueRef let_value(DType dtype, LetId let);
StmtRef loop(LoopKind kind, Expr variable, Expr begin, Expr end, Body body);
StmtRef parallel_loop(Expr variable, Expr begin, Expr end, Body body, int level = 0);
StmtRef jammed_loop(Expr variable, Expr begin, Expr end, int jam, Body body);
StmtRef masked_loop(Expr variable, Expr begin, Expr end, Expr lanes_active, Body body); ///< a vector loop
StmtRef store(BufferId buffer, Expr offset, ValueRef value);
StmtRef let(LetId let, ValueRef value);
StmtRef let_index(Expr symbol, ValueRef value);
StmtRef if_then(Expr condition, Body then, Body otherwise = {});
StmtRef barrier();
StmtRef barrier(int level);
StmtRef prefetch(BufferId buffer, Expr offset);
StmtRef unit(std::string descriptor, std::vector<UnitOperand> operands, std::optional<Expr> rows = {});
StmtRef async_copy(UnitOperand destination, UnitOperand source, Expr count, TokenId token, Expr fill = 0);
StmtRef async_unit(std::string descriptor, std::vector<UnitOperand> operands, TokenId token);
StmtRef async_wait(TokenId token, std::optional<int> behind = {});
StmtRef exchange(BufferId to, Expr to_offset, BufferId from, Expr from_offset, int mask);
StmtRef roles(Expr variable, Expr begin, Expr end, int stages, Body producers, Body consumers);

} // namespace luminal::kernel
