// luminal/graph.h -- Graph: where tensors live, and what compiles and runs them.
#pragma once
#include "luminal/operators.h"
#include "luminal/pass.h"
#include "luminal/rules.h"
#include "luminal/search.h"
#include <concepts>
#include <functional>
#include <initializer_list>
#include <map>
#include <optional>
#include <utility>

namespace luminal {

/// What a dynamic dimension usually is: one size, or several, {1, 64}. Estimates use the first.
struct TypicalSizes {
  TypicalSizes() = default;
  TypicalSizes(std::integral auto size) : list{int64_t(size)} {}
  TypicalSizes(std::initializer_list<int64_t> sizes) : list(sizes) {}
  TypicalSizes(std::vector<int64_t> sizes) : list(std::move(sizes)) {}
  std::vector<int64_t> list;
};

struct CompileOptions {
  int threads = 0;   ///< 0: LUMINAL_THREADS, or all cores
  bool cache = true; ///< keep machine code on disk (LUMINAL_CACHE_DIR)
  /// Bytes of arena, states and loaded weights at the largest sizes: compile refuses more. 0:
  /// execute refuses what is more than the machine has.
  int64_t max_memory = 0;
  /// Names the content of all weights (a file's path, size and time, say). What is computed from
  /// weights at load and takes a while is then kept in the cache folder and mapped by the next run
  /// with this name. Empty: computed each time. Setting a weight again ends it.
  std::string weights_id = {};
  /// Typical sizes of dynamic dimensions, by name: what schedules are made for. What tuning finds
  /// is kept for these sizes, and used by every compile that names the same ones. Of others: a
  /// power of two in the middle of the range. Of several sizes, sizes["batch"] = {1, 64}, each has
  /// its own schedules, and execute takes those of the nearest one (by ratio); of several
  /// dimensions each combination, at most 16. A search shares its seconds among them.
  std::map<std::string, TypicalSizes> sizes = {};
  /// A schedule from the tuning cache that turns out to be wrong is an Error; else it is dropped,
  /// and report() and stderr say so.
  bool strict = false;
  /// Asked while the graph loads and runs, before each launch and within those that take long on a CPU, from
  /// several threads at once; where it says true, execute() ends with an Error, and states and results are
  /// undefined.
  std::function<bool()> stop = {};
  SearchOptions search = {}; ///< of better schedules, by measuring; what is found is kept in the tuning cache
  /// Rules beside those of choose_rules and of the settings, and names of rules that take no part.
  RuleChoice rules = {};
  /// A file that export_plan (luminal/plan_file.h) wrote: its plans of regions, and its schedules, which are
  /// checked first, are used where they fit, before the tuning cache. An Error where it cannot be read, or
  /// comes from a machine of another kind. Empty: LUMINAL_PLAN.
  std::string plan = {};
  /// What the graph's terms go through before kernels are made: passes::defaults() | mine. Tensors
  /// stay valid: the graph itself keeps its nodes.
  Pass passes = passes::defaults();
};

/// Bytes that a compiled graph needs at the largest sizes of its dimensions. Programs for several
/// typical sizes have an arena each, and share all else.
struct MemoryUse {
  /// values of a step, kept ones included; memory is used again where lives do not overlap
  int64_t arena = 0;
  int64_t kept = 0; ///< of these, kept ones: they live until the next execute
  int64_t states = 0, inputs = 0, weights = 0;
  int64_t loaded = 0; ///< computed once from weights
};

class Device;          // luminal/device.h
struct ReferenceValue; // luminal/inspect.h
struct ExecutionTable; // luminal/debug.h
class Rules;           // luminal/pattern.h
struct Match;

/// Owns nothing that its tensors do not share: it may be moved and destroyed at any time. Not
/// copyable. A graph that was moved from may be assigned to; all else throws Error. A graph and its
/// tensors are for one thread at a time; different graphs need no care.
class Graph {
public:
  using Where = std::source_location;
  Graph();
  explicit Graph(const Device& device); ///< whose values lie there; Graph() takes default_device()
  Graph(Graph&&) noexcept;
  Graph& operator=(Graph&&) noexcept;
  ~Graph();

  Device device(Where where = Where::current()) const; ///< luminal/device.h

  // ---- values ----
  /// A dynamic dimension: any value in low..high, set before each execute, never a reason to
  /// compile again.
  Dim dim(std::string name, int64_t low, int64_t high, Where where = Where::current());
  /// One that is always a multiple of `multiple_of`, which is at least 1: then n / 4 * 4 is n.
  Dim dim(std::string name, int64_t low, int64_t high, int64_t multiple_of, Where where = Where::current());
  void set_dim(const std::string& name, int64_t value, Where where = Where::current());
  void set_dyn_dim(const std::string& name, int64_t value, Where where = Where::current()) {
    set_dim(name, value, where);
  }
  /// An input that is given before each execute (it keeps its last value).
  Tensor tensor(Dims shape, DType dtype = DType::f32, std::string name = "", Where where = Where::current());
  Tensor named_tensor(std::string name, Dims shape, DType dtype = DType::f32,
                      Where where = Where::current()) {
    return tensor(std::move(shape), dtype, std::move(name), where);
  }
  /// An input that seldom changes: what depends on weights only is computed once, at load, and
  /// again where a weight is set again.
  Tensor weight(std::string name, Dims shape, DType dtype = DType::f32, Where where = Where::current());
  /// A value that lives from step to step, zero at first; `update` says what it becomes.
  Tensor state(std::string name, Dims shape, DType dtype = DType::f32, Where where = Where::current());
  /// At the end of each execute the state holds `next`. Within the step every reader sees the old
  /// value.
  void update(const Tensor& state, const Tensor& next, Where where = Where::current());
  /// Integers are exact to 64 bits: g.constant(9007199254740993, DType::i64).
  Tensor constant(HostNumber value, DType dtype = DType::f32, Where where = Where::current());
  /// Numbers in the text of the program: g.constant({{1, 2}, {3, 4}}, {2, 2}); a flat list has as
  /// many numbers as the shape. Their type is `dtype`, else that of the values: of a vector or
  /// array its own; doubles that are written in braces are f32, as torch::tensor has it.
  Tensor constant(const HostValues& values, Dims shape, std::optional<DType> dtype = {},
                  Where where = Where::current());
  Tensor constant_bytes(std::span<const std::byte> bytes, DType dtype, Dims shape,
                        Where where = Where::current());
  /// 0, 1, 2, ... along the one axis.
  Tensor arange(Dim count, DType dtype = DType::i64, Where where = Where::current());
  /// start, start + 1, ..., end - 1.
  Tensor arange(Dim start, Dim end, DType dtype = DType::i64, Where where = Where::current());
  /// Integers by an expression over the axes: g.iota({3, 4}, [](const Dims& i) { return i[0] * 4 +
  /// i[1]; }).
  Tensor iota(Dims shape, const std::function<Dim(const Dims& axes)>& value, DType dtype = DType::i64,
              Where where = Where::current());
  /// body(step, carried, slices) -> (carried, stacked): see docs/terms.md. `stepped` tensors are
  /// cut along their first axis, stacked results are joined along a new first one.
  struct LoopResult {
    std::vector<Tensor> carried = {}, stacked = {};
  };
  using LoopBody =
      std::function<LoopResult(Graph& body, Tensor step, const std::vector<Tensor>& carried,
                               const std::vector<Tensor>& slices, const std::vector<Tensor>& invariants)>;
  LoopResult loop(Dim count, const std::vector<Tensor>& carried, const std::vector<Tensor>& stepped,
                  const std::vector<Tensor>& invariants, const LoopBody& body,
                  Where where = Where::current());
  /// The same with an end of its own: steps are made while `condition` (carried, invariants) ->
  /// bool [] holds, at most `most` times. `body` (step, carried, invariants) gives the carried
  /// values of the next step.
  struct WhileResult {
    std::vector<Tensor> carried = {};
    Tensor steps = {}; ///< i64: how many there were
  };
  using WhileCondition = std::function<Tensor(Graph& body, const std::vector<Tensor>& carried,
                                              const std::vector<Tensor>& invariants)>;
  using WhileBody = std::function<std::vector<Tensor>(
      Graph& body, Tensor step, const std::vector<Tensor>& carried, const std::vector<Tensor>& invariants)>;
  WhileResult while_loop(Dim most, const std::vector<Tensor>& carried, const std::vector<Tensor>& invariants,
                         const WhileCondition& condition, const WhileBody& body,
                         Where where = Where::current());
  /// A function of the graph, called with these inputs: fn makes its results from stand-ins for
  /// them. Calls of one name have one body, which is compiled once: fn must make the same terms
  /// each time. Weights and other tensors come in as inputs.
  using FunctionBody = std::function<std::vector<Tensor>(Graph& body, const std::vector<Tensor>& inputs)>;
  std::vector<Tensor> function(const std::string& name, const std::vector<Tensor>& inputs,
                               const FunctionBody& fn, Where where = Where::current());
  /// What `then` makes of the inputs where the predicate (bool []) holds, else what `otherwise`
  /// does; both give results of the same types. Only one of them runs.
  std::vector<Tensor> cond(const Tensor& predicate, const std::vector<Tensor>& inputs,
                           const FunctionBody& then, const FunctionBody& otherwise,
                           Where where = Where::current());

  // ---- running ----
  void compile(const CompileOptions& options = {}, Where where = Where::current());
  /// Compiles first if the graph changed since.
  void execute(Where where = Where::current());
  /// The same with every step timed: names, times, shapes, bytes; prints as a table.
  ExecutionTable execute_debug(Where where = Where::current());
  /// The graph's terms go through the pass at every compile from now on, before
  /// CompileOptions::passes. It runs now, too, on a copy: an Error of the pass is thrown here, and
  /// the table says what it found. Every Tensor stays valid.
  PassTable run(const Pass& pass, Where where = Where::current());
  /// Where the left sides of the rules stand in the graph's terms.
  std::vector<Match> find(const Rules& rules, Where where = Where::current()) const;
  void reset_states(Where where = Where::current());
  /// Forgets all data: what inputs and weights were set to, states (zero again), kept values, sizes
  /// of dimensions. The graph, its marks and the compiled code stay.
  void reset(Where where = Where::current());
  /// One line a kernel: name, shape, schedule, bytes, what was decided and why.
  std::string report(Where where = Where::current()) const;
  /// The meaning of these tensors for the present values of inputs, by the reference interpreter:
  /// luminal/inspect.h.
  std::vector<ReferenceValue> interpret(const std::vector<Tensor>& tensors,
                                        Where where = Where::current()) const;
  /// Of the last compile, where it searched; of several typical sizes the sums.
  std::optional<SearchSummary> search_summary(Where where = Where::current()) const;
  MemoryUse memory(Where where = Where::current()) const; ///< zeros before compile
  /// The graph in text form: what parses, verifies and is interpreted.
  std::string to_string(Where where = Where::current()) const;
  std::string to_string(const Pass& pass, Where where = Where::current()) const; ///< after the pass
  std::string to_dot(Where where = Where::current()) const;
  std::string to_html(Where where = Where::current()) const;

  /// Throws Error where the graph was moved from.
  const std::shared_ptr<GraphState>& state(std::string_view operation = "graph",
                                           Where where = Where::current()) const;
  explicit Graph(std::shared_ptr<GraphState> state) : state_(std::move(state)) {}

private:
  std::shared_ptr<GraphState> state_;
};

} // namespace luminal
