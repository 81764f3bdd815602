// loop/loop_program.h -- a kernel compiled for the loop interpreter: a flat list of instructions,
// index expressions over numbered slots, values as straight-line code over cells.
#pragma once
#include "loop/loop.h"
#include "loop/unit.h"
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

namespace luminal::kernel::loop_detail {

// Of a program: its instructions, the slots of its symbols, the states of its loops and roles, the
// index lets that differ between lanes.
using InstructionId = Id<struct InstructionTag>;
using SlotId = Id<struct SlotTag>;
using LoopStateId = Id<struct LoopStateTag>;
using IndexLetId = Id<struct IndexLetTag>;

/// An index expression over the slots of symbols: constant + sum of coefficient * slot where it has
/// that form.
class IndexCode {
public:
  IndexCode() = default;
  IndexCode(Expr e, const std::map<Expr, SlotId, ExprLess>& slots);
  /// False: overflow, division by zero, or a value that breaks a fact.
  bool run(const int64_t* slots, int64_t& result) const;
  std::string why(const int64_t* slots) const;

private:
  int64_t constant_ = 0;
  std::vector<std::pair<SlotId, int64_t>> terms_;
  std::shared_ptr<const ExprProgram> program_; // for every other form
  std::vector<SlotId> slots_;                  // of the program
};

/// An offset inside a vector loop: the value at lane 0 and its growth from lane to lane, or one
/// evaluation for each lane.
struct LaneIndex {
  IndexCode at;
  bool on_lane = false; // differs between lanes
  bool affine = true;   // at + lane * stride
  IndexCode stride;
};

/// One step of a value. Results are cells: one, or one for each lane.
enum class StepKind : uint8_t {
  constant,
  load,
  index,
  op,
  cast,
  bitcast,
  reduce_lanes,
  scan_lanes,
  last_lane,
  let
};
struct ValueStep {
  StepKind kind = StepKind::constant;
  bool on_lane = false;
  DType dtype = DType::f32; // of the result
  DType from = DType::f32;  // op, cast, bitcast: of the arguments (select: of the values)
  Op op{};
  const UserOp* user = nullptr;
  const Unit* unit = nullptr; // op: a unit whose lanes act alone
  int args[3] = {-1, -1, -1}; // earlier steps
  int chosen_by = -1;         // the result counts only where this select, a later step, takes
  int choice = 0;             // its argument of this number
  double constant = 0;
  int64_t integer = 0;
  BufferId buffer;
  LetId let;
  LaneIndex index;
  bool guarded = false;
  LaneIndex guard; // load: 0 where it is 0
};

enum class Code : uint8_t {
  loop,   // enter: bounds; an empty loop jumps to `target`
  next,   // back to `target` or on
  vector, // opens the lanes
  vector_end,
  branch,    // to `target` unless the condition holds
  lane_if,   // a condition that differs between lanes: to `target` where no lane takes it
  lane_else, // the other lanes; to `target` where there are none
  lane_end,
  jump,
  store,
  let_value,
  let_index,
  barrier,
  prefetch,
  unit,
  exchange,
  copy,
  async_unit,
  wait,
  roles,     // enter; empty: jumps to `target`
  role,      // chooses: producers follow, consumers at `target`, done at `target2`
  role_done, // back to `target`; producers: `flag`
  end,
};

/// Symbols whose values differ between lanes: what is set before an index is evaluated lane by
/// lane.
struct LaneSlots {
  SlotId variable;                                 // of the vector loop's variable
  std::vector<std::pair<IndexLetId, SlotId>> lets; // that differ between lanes
};

struct OperandCode {
  BufferId buffer;
  IndexCode offset;
  std::vector<IndexCode> strides;
};

struct Instruction {
  Code code;
  const Stmt* stmt = nullptr; // for messages
  // What the statement says, as far as the instruction needs it.
  Expr variable;         // loops, roles, let_index
  bool parallel = false; // loop
  bool meets = false;    // loop: its iterations meet at barriers, each is the lane of its number
  bool masked = false;   // vector
  int level = 0;         // loop, barrier
  int stages = 1;        // roles
  LetId let;
  TokenId token;
  BufferId buffer;      // store
  InstructionId parent; // the loop, vector loop, branch or roles around it
  InstructionId target, target2;
  bool flag = false;
  LoopStateId loop;     // or roles
  SlotId slot;          // of the variable
  IndexCode begin, end; // bounds; end: also lanes_active of `vector`, condition of `branch`, count of `copy`
  int64_t lanes = 1;    // of the vector loop around it
  bool lane_values = false; // store, lets: works on lanes
  LaneIndex index;
  std::vector<ValueStep> steps; // the last one is the value
  std::vector<OperandCode> operands;
  std::optional<Unit> unit;
  bool together = false;     // unit, exchange: of several lanes of a group
  int mask = 0;              // exchange
  std::optional<int> behind; // wait
  IndexCode fill;            // copy
  IndexLetId index_let;      // let_index
  LaneSlots lane_slots;
};

struct Program {
  const Kernel* kernel = nullptr;
  IdVector<InstructionId, Instruction> code;
  std::map<Expr, SlotId, ExprLess> slots;
  IdVector<SlotId, Expr> symbols;
  int loops = 0;
  int index_lets = 0; // index lets that differ between lanes
  int widest = 1;     // lanes of the widest vector loop
  int most_steps = 0; // of one value
  IdVector<LetId, bool> let_on_lane;
  IdVector<LetId, DType> let_dtype;
  IdVector<BufferId, int> smallest_access; // bytes: what one shadow entry may cover
};

/// The kernel passes verify and outlives the program.
Program compile_loops(const Kernel& kernel);

} // namespace luminal::kernel::loop_detail
