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

/// An index expression over the slots of symbols: constant + sum of coefficient * slot where it has
/// that form.
class IndexCode {
public:
  IndexCode() = default;
  IndexCode(Expr e, const std::map<Expr, int, ExprLess>& slots);
  /// False: overflow, division by zero, or a value that breaks a fact.
  bool run(const int64_t* slots, int64_t& result) const;
  std::string why(const int64_t* slots) const;

private:
  int64_t constant_ = 0;
  std::vector<std::pair<int, int64_t>> terms_;
  std::shared_ptr<const ExprProgram> program_; // for every other form
  std::vector<int> slots_;                     // of the program
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
enum class StepKind : uint8_t { constant, load, index, op, cast, bitcast, reduce_lanes, let };
struct ValueStep {
  StepKind kind = StepKind::constant;
  bool on_lane = false;
  DType dtype = DType::f32; // of the result
  DType from = DType::f32;  // op, cast, bitcast: of the arguments (select: of the values)
  Op op{};
  const UserOp* user = nullptr;
  const Unit* unit = nullptr; // op: a unit whose lanes act alone
  int args[3] = {-1, -1, -1}; // earlier steps
  double constant = 0;
  int64_t integer = 0;
  BufferId buffer = -1;
  int let = -1;
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
  int variable = -1;                     // slot of the vector loop's variable
  std::vector<std::pair<int, int>> lets; // index lets that differ between lanes: number and slot
};

struct OperandCode {
  BufferId buffer = -1;
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
  int let = -1, token = -1;
  BufferId buffer = -1; // store
  int parent = -1;      // the loop, vector loop, branch or roles around it
  int target = -1, target2 = -1;
  bool flag = false;
  int loop = -1;        // number of the loop's or roles' state
  int slot = -1;        // of the variable
  IndexCode begin, end; // bounds; end: also lanes_active of `vector`, condition of `branch`, count of `copy`
  int64_t lanes = 1;    // of the vector loop around it
  bool lane_values = false; // store, lets: works on lanes
  LaneIndex index;
  std::vector<ValueStep> steps; // the last one is the value
  std::vector<OperandCode> operands;
  std::optional<Unit> unit;
  bool together = false; // unit, exchange: of several lanes of a group
  int mask = 0;          // exchange
  int behind = -1;       // wait
  IndexCode fill;        // copy
  int index_let = -1;    // let_index: its number among the lets that differ between lanes
  LaneSlots lane_slots;
};

struct Program {
  const Kernel* kernel = nullptr;
  std::vector<Instruction> code;
  std::map<Expr, int, ExprLess> slots;
  std::vector<Expr> symbols; // by slot
  int loops = 0;
  int index_lets = 0; // index lets that differ between lanes
  int widest = 1;     // lanes of the widest vector loop
  int most_steps = 0; // of one value
  std::vector<bool> let_on_lane;
  std::vector<DType> let_dtype;
  std::vector<int> smallest_access; // bytes, by buffer: what one shadow entry may cover
};

/// The kernel passes verify and outlives the program.
Program compile_loops(const Kernel& kernel);

} // namespace luminal::kernel::loop_detail
