// runtime/context.h -- runs a plan: an Executable holds its loaded code, a Context one execution's
// memory and symbol values.
#pragma once
#include "device/cpu/cpu_device.h"
#include "runtime/plan.h"
#include "runtime/store.h"
#include "runtime/worker_count.h"
#include <functional>

namespace luminal::runtime {

/// Of the steady clock, in nanoseconds: what the events of a trace count.
int64_t now_ns();

class TaskGraph;
struct Task;

/// A plan whose code is loaded on a device. Immutable, shared by contexts on any threads.
class Executable {
public:
  static luminal::Result<std::shared_ptr<const Executable>> load(std::shared_ptr<const Plan> plan,
                                                                 device::Device& device);
  ~Executable();
  const Plan& plan() const { return *plan_; }
  device::Device& device() const { return device_; }
  device::KernelId kernel(CodeId code) const { return kernels_[code]; }

private:
  Executable(std::shared_ptr<const Plan> plan, device::Device& device)
      : plan_(std::move(plan)), device_(device) {}
  std::shared_ptr<const Plan> plan_;
  device::Device& device_;
  IdVector<CodeId, device::KernelId> kernels_;
  std::vector<device::ModuleId> modules_;
};

/// What a host step calls: kind, text, inputs and results as spans of packed elements with their
/// shapes. Failing stops the step.
struct HostValue {
  std::string name;
  DType dtype;
  std::vector<int64_t> shape;
  std::span<std::byte> bytes;
};
using HostFunction = std::function<luminal::Result<void>(
    const HostAttr& effect, std::span<const HostValue> inputs, std::span<HostValue> results)>;

struct TraceEvent {
  std::string name;
  int64_t begin_ns = 0, duration_ns = 0;
  int member = 0;                  ///< of the pool
  std::vector<HostValue> operands; ///< what the step reads and writes; its spans are not to be followed later
  bool more = false;               ///< a further part of the launch whose event comes before
  int64_t waited_ns = 0;           ///< before it, for what it needs
};

struct ContextOptions {
  int64_t max_memory = 0; ///< bytes; a plan that may need more is refused. 0: no limit
  HostFunction host;      ///< for plans with host steps
  /// Asked before each launch, and within those that take long on a CPU, by several members of the pool at
  /// once; true: what runs ends with a failure.
  std::function<bool()> stop = {};
};

/// One execution's arena and symbol values. Not thread-safe; any number of contexts may run at
/// once. Making it reserves all memory and runs the load steps that the store has not seen; run()
/// then allocates nothing.
class Context {
public:
  static luminal::Result<std::unique_ptr<Context>> create(std::shared_ptr<const Executable> executable,
                                                          std::shared_ptr<Store> store,
                                                          ContextOptions options = {});
  ~Context();

  luminal::Result<void> set_symbol(std::string_view name, int64_t value);
  luminal::Result<int64_t> symbol(std::string_view name) const;
  /// Memory of an argument that the host sees, to be filled by the caller (packed, row-major).
  luminal::Result<std::span<std::byte>> argument(std::string_view name);
  /// Uses the caller's memory for an argument from now on: in place where the device reads it, or it is
  /// memory of the device; else each run copies it there.
  luminal::Result<void> bind_argument(std::string_view name, std::span<const std::byte> bytes);
  /// The same for a slot of the plan; the memory is as large as the present symbols say.
  luminal::Result<void> bind_argument_slot(SlotId slot, const void* memory);

  luminal::Result<void> run();

  /// A result of the last run, at the symbols' values of that run. Its bytes are the host's: where they
  /// had to be copied, a copy that is valid until the next call.
  luminal::Result<HostValue> result(std::string_view name) const;
  luminal::Result<HostValue> state(std::string_view name) const;
  /// The same where it lies, without a copy.
  luminal::Result<HostValue> result_in_place(std::string_view name) const;
  /// `bytes`: of the host, or in memory of the device.
  luminal::Result<void> set_state(std::string_view name, std::span<const std::byte> bytes);

  /// A large result that no other result shares lies in memory of its own, which can be handed to
  /// somebody else without a copy.
  bool owns_result(std::string_view name) const;
  /// Gives the memory of such a result away; the next run writes into `replacement` (empty: new
  /// memory), which must be no smaller.
  luminal::Result<DeviceBuffer> exchange_result(std::string_view name, DeviceBuffer replacement);
  /// The next run writes a result straight into the caller's memory, until it is released. False
  /// where the result has no memory of its own: then it is to be copied from `view` after the run.
  bool bind_result_slot(SlotId slot, void* memory);
  void release_result_slot(SlotId slot);
  /// The next run reads and writes a state in the caller's memory. False: it is in memory of the device, has
  /// what lies in the caller's now, and is to be read after the run.
  luminal::Result<bool> bind_state_slot(SlotId slot, void* memory);
  void release_states() { state_version_ = ~uint64_t{0}; }      // the next run finds those of the store
  HostValue view(SlotId slot) const;                            ///< what lies in a slot, where it lies
  luminal::Result<void> read_slot(SlotId slot, void* to) const; ///< the same, copied to the host
  /// Gives the pages of a result back.
  void forget_result(std::string_view name);

  /// Records every step of the following runs.
  void trace(bool on) { tracing_ = on; }
  void clear_events() { events_.clear(); }
  const std::vector<TraceEvent>& events() const { return events_; }
  const Executable& executable() const { return *executable_; }

private:
  Context(std::shared_ptr<const Executable> executable, std::shared_ptr<Store> store, ContextOptions options);
  luminal::Result<void> prepare();
  luminal::Result<void> load();
  luminal::Result<void> refresh();
  luminal::Result<void> find_states();
  luminal::Result<void> copy_arguments();
  luminal::Result<void> run_recorded();
  luminal::Result<void> run_at_pace();
  luminal::Result<void> run_plan();
  luminal::Result<void> run_steps(const Steps& steps, std::byte* arena);
  luminal::Result<void> run_step(const Step& step, std::byte* arena);
  luminal::Result<void> run_launch(const Launch& launch);
  void make_graphs();
  void arrange_graphs();
  void choose_pace();
  std::vector<std::span<const std::byte>> file_weights(const Launch& launch) const;
  luminal::Result<void> run_graph(TaskGraph& graph);
  bool stopped() const { return options_.stop && options_.stop(); }
  int parts_between_stops(const KernelCode& kernel, double work_us) const;
  void record(const Launch& launch, const Task& task, TraceEvent& event, int64_t begin, int member) const;
  luminal::Result<void> run_loop(const Loop& loop, std::byte* arena);
  luminal::Result<void> run_host(const HostCall& call);
  luminal::Result<void> check_accesses(const AccessCheck& check, std::byte* arena);
  luminal::Result<void> check_range(const RangeCheck& check) const;
  luminal::Result<HostValue> on_host(SlotId slot) const;
  luminal::Result<bool> flag(SlotId slot) const;
  luminal::Result<void> use_argument(SlotId slot, std::span<const std::byte> bytes);
  std::string symbol_values(Expr e) const;
  int64_t element_count(SlotId slot) const;

  std::shared_ptr<const Executable> executable_;
  std::shared_ptr<Store> store_;
  ContextOptions options_;
  std::vector<int64_t> symbols_; // values of plan().symbols
  std::vector<bool> symbol_set_;
  IdVector<SlotId, std::byte*> addresses_;
  IdVector<SlotId, int64_t> bytes_; // at the present symbols
  IdVector<SlotId, std::vector<int64_t>> shapes_;
  IdVector<CodeId, int> workers_;                     // what their points are worth
  IdVector<CodeId, double> work_us_;                  // a launch on one worker, estimated
  IdVector<CodeId, std::vector<int>> kernel_symbols_; // positions in symbols_ of each kernel's symbols
  std::vector<void*> buffers_;                        // scratch of a launch's arguments
  std::vector<int64_t> values_;
  std::map<std::string, DeviceBuffer> arguments_;
  std::map<SlotId, std::span<const std::byte>> bound_; // arguments that the device cannot read in place
  std::vector<DeviceBuffer> constants_;                // likewise
  mutable std::map<SlotId, std::vector<std::byte>> host_copies_; // of slots that the host cannot see
  std::map<SlotId, DeviceBuffer> results_; // slots of results that have memory of their own
  uint64_t state_version_ = 0;             // of the store, when the states' addresses were taken
  DeviceBuffer arena_, scratch_;
  int64_t shared_bytes_ = 0, local_stride_ = 64;
  std::unique_ptr<ExprProgram> sizes_; // all dynamic extents of all slots
  std::vector<int64_t> size_values_;
  IdVector<ConditionId, ExprProgram> conditions_;   // of the plan
  IdVector<ConditionId, bool> condition_holds_;     // at the present symbols
  std::vector<std::unique_ptr<TaskGraph>> graphs_;  // runs of launches among the plan's steps
  IdVector<CodeId, device::CpuFunction> functions_; // where there are graphs
  IdVector<CodeId, int> work_class_;                // what the tasks were made for
  // of runs that are estimated at 1, 2, 4, .. 1024 us
  std::array<WorkerCount, 11> worker_counts_;
  // of runs at the present sizes; null: long ones
  WorkerCount* worker_count_ = nullptr;
  bool alone_ = false; // the present run is left to one worker
  size_t most_buffers_ = 0, most_symbols_ = 0;
  bool stale_ = true;
  bool loading_ = false;
  bool tracing_ = false;
  std::vector<TraceEvent> events_;
};

} // namespace luminal::runtime
