// loop/loop_machine.h -- the state of one run of the loop interpreter.
#pragma once
#include "loop/loop_memory.h"
#include "loop/loop_program.h"
#include <deque>
#include <memory>
#include <set>
#include <unordered_map>

namespace luminal::kernel::loop_detail {

/// A float or an integer of a value: which one says its dtype.
union Cell {
  double f;
  int64_t i;
};

/// The bytes of an operand: one entry for each element.
struct Footprint {
  Region* region = nullptr;
  BufferId buffer;
  std::vector<int64_t> offsets; // elements, in the order of the unit's axes
};

/// An asynchronous statement in flight.
struct Flight {
  const Instruction* instruction = nullptr;
  uint64_t number = 0;
  bool acted = false;
  std::vector<Footprint> operands; // written first
};

struct LoopState {
  int64_t begin = 0, end = 0, at = 0;
  int64_t produced = 0, consumed = 0; // roles
  uint32_t instance = 0;
  ActorId outer = 0; // actor outside a parallel loop
};

struct Worker {
  enum class Status : uint8_t { running, waiting, done };
  uint32_t id = 0;
  int group = 0, lane = 0;
  Status status = Status::running;
  InstructionId pc{0};
  int barrier_level = 0; // level `lanes_together`: a statement of several lanes
  InstructionId barrier_at;
  IdVector<SlotId, int64_t> slots;
  IdVector<LoopStateId, LoopState> loops;
  std::vector<Cell> lets, index_lets, cells;
  // the open vector loop
  int64_t lane_begin = 0;
  int64_t active = 0; // lanes that the loop's mask leaves; all of them are alive where `prefix`
  bool prefix = true;
  std::vector<uint8_t> live;                               // otherwise
  std::vector<std::vector<uint8_t>> outer_live, not_taken; // of the conditions around this place
  bool alive(int64_t l) const { return prefix ? l < active : live[l]; }
  Actor acting;
  ActorId actor = 0;
  uint32_t iterations[3] = {0, 0, 0}; // begun so far, by level
  std::map<TokenId, std::deque<std::shared_ptr<Flight>>> tokens;
  std::deque<std::shared_ptr<Flight>> units; // not yet acted, in order
  uint64_t flights = 0;
  // the open roles
  int role = 0; // 1 producers, 2 consumers
  int64_t role_step = 0, role_stages = 1;
  LoopStateId role_loop;
};

/// Beside the levels of barriers: neighbouring lanes wait for each other.
constexpr int lanes_together = 3;

class Machine {
public:
  Machine(const Program& program, std::span<const std::span<std::byte>> globals,
          std::span<const int64_t> symbols, const LoopRunOptions& options);
  LoopRun run();

private:
  // loop_interp.cpp: control
  void allocate(std::span<const std::span<std::byte>> globals);
  bool step(Worker& w); ///< one instruction; false where the worker stops
  void enter_loop(Worker& w, const Instruction& i);
  bool next_iteration(Worker& w, const Instruction& i, bool first);
  bool mine(const Worker& w, const Instruction& i, int64_t step, int64_t steps) const;
  void enter_vector(Worker& w, const Instruction& i);
  void lane_if(Worker& w, const Instruction& i);
  void lane_else(Worker& w, const Instruction& i);
  void lane_end(Worker& w);
  void role(Worker& w, const Instruction& i);
  void arrive(Worker& w, int level, InstructionId at);
  void release();
  bool bounds(Worker& w, const Instruction& i, int64_t& begin, int64_t& end);
  void schedule();
  void finish(Worker& w);
  LoopCounts count() const;
  uint64_t random();
  uint64_t drawn(uint64_t a, uint64_t b, uint64_t c) const; ///< a number that all workers agree on

  // loop_values.cpp: values and memory
  const Cell* evaluate(Worker& w, const Instruction& i); ///< null: a finding makes it pointless
  void run_step(Worker& w, const Instruction& i, const ValueStep& step, int number);
  void run_op(const ValueStep& step, Cell* out, const Cell* const* args, const int* strides,
              int64_t lanes) const;
  void reduce(const Worker& w, const ValueStep& step, const Cell* in, Cell* out, int64_t lanes) const;
  void load(Worker& w, const Instruction& i, const ValueStep& step, Cell* out);
  void store(Worker& w, const Instruction& i);
  void let_index(Worker& w, const Instruction& i);
  bool offsets(Worker& w, const Instruction& i, const LaneIndex& index, int64_t lanes);
  bool place(Worker& w, const Instruction& i, Region& r, int64_t offset, int64_t count, DType dtype,
             int64_t& byte, int64_t& bytes, uint8_t& halves);
  bool counts(const Worker& w, const Instruction& i, const ValueStep& step, int64_t lane) const;
  void read(Worker& w, const Instruction& i, Region& r, int64_t byte, int64_t bytes, uint8_t halves,
            bool counts = true);
  void write(Worker& w, const Instruction& i, Region& r, int64_t byte, int64_t bytes, uint8_t halves,
             bool poison);
  void in_flight(Worker& w, const Instruction& i, Region& r, int64_t byte, int64_t bytes, bool writes);
  void ring(Worker& w, const Instruction& i, Region& r, int64_t byte, int64_t bytes, bool writes);
  void conflict(Worker& w, const Instruction& i, const Region& r, const Conflict& c, bool writes);
  Region& region(const Worker& w, BufferId id);

  // loop_units.cpp: units and asynchronous statements
  void unit(Worker& w, const Instruction& i, const std::vector<Footprint>& operands);
  void together(size_t first, const Instruction& i);
  void exchange(size_t first, const Instruction& i);
  void each_place(size_t first, const Instruction& i, int operand,
                  const std::function<void(Worker&, Region&, int64_t, int, int)>& inside);
  bool footprints(Worker& w, const Instruction& i, std::vector<Footprint>& out);
  void copy(Worker& w, const Instruction& i, const std::vector<Footprint>& operands);
  void launch(Worker& w, const Instruction& i);
  void wait(Worker& w, const Instruction& i);
  void land(Worker& w, const Instruction& i, const std::shared_ptr<Flight>& flight);
  void act(Worker& w, Flight& flight);
  void mark(const Flight& flight, int change);

  // findings
  void report(FindingKind kind, const Worker& w, const Instruction& i, BufferId buffer, int64_t offset,
              const std::string& text);
  std::string path(const Worker& w, const Instruction& i) const;
  std::string statement(InstructionId at) const;

  const Program& p_;
  const Kernel& k_;
  const LoopRunOptions& o_;
  Clock clock_;
  IdVector<BufferId, std::vector<Region>> regions_; // one, one a group, or one a worker
  std::vector<Worker> workers_;
  std::vector<int64_t> symbols_;
  IdVector<InstructionId, int64_t> executed_;
  IdVector<BufferId, int64_t> read_bits_, written_bits_;
  int64_t statements_ = 0, trips_ = 0;
  std::vector<int64_t> lane_offsets_, lane_guards_; // scratch of offsets() and load()
  std::set<std::tuple<FindingKind, const Instruction*, BufferId>> reported_;
  LoopRun out_;
  bool stop_ = false;
  uint64_t random_;

  /// Bytes that asynchronous statements hold, while any is in flight: destinations of copies, of
  /// units, sources.
  struct Held {
    uint8_t copied = 0, computed = 0, source = 0;
  };
  std::unordered_map<const Region*, std::vector<Held>> held_;
  int flying_ = 0;

  /// Steps in which producers and consumers last wrote and read an entry of a region.
  struct RingEntry {
    uint32_t instance = 0;
    int64_t written[2] = {INT64_MIN, INT64_MIN}, read[2] = {INT64_MIN, INT64_MIN};
  };
  std::vector<std::map<std::pair<const Region*, int64_t>, RingEntry>> rings_; // by group
};

} // namespace luminal::kernel::loop_detail
