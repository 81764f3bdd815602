// luminal/graph.h -- Graph: where tensors live, and what compiles and runs them.
#pragma once
#include "luminal/operators.h"
#include "luminal/pass.h"
#include "luminal/search.h"
#include <functional>
#include <map>
#include <optional>

namespace luminal {

struct CompileOptions {
  int threads = 0;   ///< 0: LUMINAL_THREADS, or all cores
  bool cache = true; ///< keep machine code on disk (LUMINAL_CACHE_DIR)
  int64_t max_memory =
      0; ///< bytes of arena, states and loaded weights; more is refused before anything is allocated. 0: no limit
  /// Names the content of all weights (a file's path, size and time, say). What is computed from weights at load and takes a while is then kept in the
  /// cache folder and mapped by the next run with this name. Empty: computed each time. Setting a weight again ends it.
  std::string weights_id;
  /// Typical sizes of dynamic dimensions, by name: what schedules are tuned for. Of others: a power of two in the middle of the range.
  std::map<std::string, int64_t> sizes;
  bool strict =
      false; ///< a schedule from the tuning cache that turns out to be wrong is an Error; else it is dropped, and report() and stderr say so
  SearchOptions search; ///< of better schedules, by measuring; what is found is kept in the tuning cache
  /// What the graph's terms go through before kernels are made: passes::defaults() | mine. Tensors stay valid: the graph itself keeps its nodes.
  Pass passes = passes::defaults();
};

/// Bytes that a compiled graph needs at the largest sizes of its dimensions.
struct MemoryUse {
  int64_t arena =
      0;            ///< values of a step, kept ones included; memory is used again where lives do not overlap
  int64_t kept = 0; ///< of these, kept ones: they live until the next execute
  int64_t states = 0, inputs = 0, weights = 0;
  int64_t loaded = 0; ///< computed once from weights
};

class Device;          // luminal/device.h
struct ExecutionTable; // luminal/debug.h
class Rules;           // luminal/pattern.h
struct Match;

/// Owns nothing that its tensors do not share: it may be moved and destroyed at any time. Not copyable.
class Graph {
public:
  using Where = std::source_location;
  Graph();
  explicit Graph(const Device& device); ///< whose values lie there; Graph() takes default_device()
  Graph(Graph&&) noexcept;
  Graph& operator=(Graph&&) noexcept;
  ~Graph();

  Device device() const; ///< luminal/device.h

  // ---- values ----
  /// A dynamic dimension: any value in low..high, set before each execute, never a reason to compile again.
  Dim dim(std::string name, int64_t low, int64_t high, Where where = Where::current());
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
  /// An input that is given once; what depends on weights only may be computed once, at load.
  Tensor weight(std::string name, Dims shape, DType dtype = DType::f32, Where where = Where::current());
  /// A value that lives from step to step, zero at first; `update` says what it becomes.
  Tensor state(std::string name, Dims shape, DType dtype = DType::f32, Where where = Where::current());
  /// At the end of each execute the state holds `next`. Within the step every reader sees the old value.
  void update(const Tensor& state, const Tensor& next, Where where = Where::current());
  Tensor constant(double value, DType dtype = DType::f32, Where where = Where::current());
  /// Numbers in the text of the program: g.constant({{1.f, 2.f}, {3.f, 4.f}}, {2, 2}); a flat list has as many numbers as the shape.
  Tensor constant(const HostValues& values, Dims shape, Where where = Where::current());
  Tensor constant_bytes(std::span<const std::byte> bytes, DType dtype, Dims shape,
                        Where where = Where::current());
  /// 0, 1, 2, ... along the one axis.
  Tensor arange(Dim count, DType dtype = DType::i64, Where where = Where::current());
  /// start, start + 1, ..., end - 1.
  Tensor arange(Dim start, Dim end, DType dtype = DType::i64, Where where = Where::current());
  /// Integers by an expression over the axes: g.iota({3, 4}, [](const Dims& i) { return i[0] * 4 + i[1]; }).
  Tensor iota(Dims shape, const std::function<Dim(const Dims& axes)>& value, DType dtype = DType::i64,
              Where where = Where::current());
  /// body(step, carried, slices) -> (carried, stacked): see docs/terms.md. `stepped` tensors are cut along their first axis, stacked results are joined along a new first one.
  struct LoopResult {
    std::vector<Tensor> carried, stacked;
  };
  using LoopBody =
      std::function<LoopResult(Graph& body, Tensor step, const std::vector<Tensor>& carried,
                               const std::vector<Tensor>& slices, const std::vector<Tensor>& invariants)>;
  LoopResult loop(Dim count, const std::vector<Tensor>& carried, const std::vector<Tensor>& stepped,
                  const std::vector<Tensor>& invariants, const LoopBody& body,
                  Where where = Where::current());
  /// A function of the graph, called with these inputs: fn makes its results from stand-ins for them. Calls of one name have one body, which is
  /// compiled once: fn must make the same terms each time. Weights and other tensors come in as inputs.
  using FunctionBody = std::function<std::vector<Tensor>(Graph& body, const std::vector<Tensor>& inputs)>;
  std::vector<Tensor> function(const std::string& name, const std::vector<Tensor>& inputs,
                               const FunctionBody& fn, Where where = Where::current());

  // ---- running ----
  void compile(const CompileOptions& options = {}, Where where = Where::current());
  /// Compiles first if the graph changed since.
  void execute(Where where = Where::current());
  /// The same with every step timed: names, times, shapes, bytes; prints as a table.
  ExecutionTable execute_debug(Where where = Where::current());
  /// The graph's terms go through the pass at every compile from now on, before CompileOptions::passes. It runs now, too, on a copy: an Error of the pass
  /// is thrown here, and the table says what it found. Every Tensor stays valid.
  PassTable run(const Pass& pass, Where where = Where::current());
  /// Where the left sides of the rules stand in the graph's terms.
  std::vector<Match> find(const Rules& rules) const;
  void reset_states();
  /// Forgets all data: what inputs and weights were set to, states (zero again), kept values, sizes of dimensions. The graph, its marks and the
  /// compiled code stay.
  void reset();
  /// One line a kernel: name, shape, schedule, bytes, what was decided and why.
  std::string report() const;
  std::optional<SearchSummary> search_summary() const; ///< of the last compile, where it searched
  MemoryUse memory() const;                            ///< zeros before compile
  /// The graph in text form: what parses, verifies and is interpreted.
  std::string to_string() const;
  std::string to_string(const Pass& pass) const; ///< after the pass
  std::string to_dot() const;
  std::string to_html() const;

  std::shared_ptr<GraphState> state() const { return state_; }
  explicit Graph(std::shared_ptr<GraphState> state) : state_(std::move(state)) {}

private:
  std::shared_ptr<GraphState> state_;
};

} // namespace luminal
