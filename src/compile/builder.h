// compile/builder.h -- a function becomes the steps of a plan: kernels, copies, checks, loops,
// conditions.
#pragma once
#include "base/result.h"
#include "compile/fuse.h"
#include "compile/kernel_choice.h"
#include "compile/kernel_shape.h"
#include "compile/split_kernels.h"
#include "ir/access.h"
#include "runtime/plan.h"
#include <deque>

namespace luminal::compile {

/// A parameter that holds `value` after the region has run: a state, or a value carried by a loop.
struct Rebinding {
  NodeId param, value;
};

class PlanBuilder {
public:
  PlanBuilder(const Module& module, KernelPlanner& chooser)
      : module_(module), chooser_(chooser), splitter_(chooser.limits(), chooser.defaults()) {}
  /// All but the machine code: kernels()[i] belongs to plan.kernels[i].
  Result<runtime::Plan> build();
  const std::vector<PlannedKernel>& kernels() const { return kernels_; }

private:
  struct Action { // one kernel or one boundary node
    std::vector<NodeId> roots;
    bool boundary = false;
    bool in_place = false; // a scatter that updates its base's storage
    std::optional<kernel::Cone> cone;
    int shape = -1;                 // of the cone
    std::set<NodeId> reads, writes; // stored nodes
    std::set<int> after;
  };
  using Slots = std::map<NodeId, int>;
  using Steps = std::vector<runtime::Step>;

  /// `fusion`: where it is known already.
  Result<Steps> lower(const Region& region, Slots& slots, const std::vector<Rebinding>& rebindings,
                      std::optional<Fusion> fusion = {});
  Result<std::vector<Action>> plan_actions(const Region& region, const Fusion& fusion, const Slots& slots);
  void order_in_place(const Region& region, const std::vector<Rebinding>& rebindings,
                      std::vector<Action>& actions);
  static bool reaches(const std::vector<Action>& actions, int from, int to);
  static std::vector<int> topological(const std::vector<Action>& actions);
  Result<void> emit_kernel(const Function& f, Action& action, Slots& slots, Steps& steps);
  Result<void> emit_boundary(const Function& f, NodeId node, Slots& slots, Steps& steps);
  Result<void> emit_loop(const Function& f, NodeId node, Slots& slots, Steps& steps);
  Result<void> emit_cond(const Function& f, NodeId node, Slots& slots, Steps& steps);
  Result<void> check_custom(const Function& f, NodeId node, const kernel::Kernel& loops) const;
  Result<void> emit_custom(const Function& f, NodeId node, Slots& slots, Steps& steps);
  Result<Steps> run_function(const Function& body, const std::vector<int>& param_slots,
                             const std::vector<Rebinding>& rebindings, std::vector<int>& results);
  Result<void> emit_checks(const Function& f, const Action& action, const Slots& slots, Steps& steps);
  Result<void> emit_access_checks(const Function& f, NodeId node, const Slots& slots, Steps& steps);
  void emit_range_checks(const Function& f, NodeId node, const Slots& slots, Steps& steps);

  Result<int> kernel_of(const Function& f, const Action& action);
  int add_slot(std::string name, runtime::SlotKind kind, const TensorType& type);
  int slot_of(const Function& f, const Slots& slots, NodeId origin, int result) const;
  const Function& keep(Function function);
  /// Without calls and sorts, tuples as kernels take them, and with fences where a kernel would
  /// have no tiled schedule; itself where nothing changes. `fusion`, where it is asked for: what
  /// the splitter knows of the result.
  const Function& prepared(const Function& function, StepFusion* fusion = nullptr);
  const Function& prepared(Function&& gone, StepFusion* fusion = nullptr) = delete;
  /// With index expressions that have a value everywhere; what must hold for that and for its
  /// accesses is in checks_.
  const Function& checked(const Function& function);
  runtime::Step copy(int to, int from) const;

  const Module& module_;
  KernelPlanner& chooser_;
  KernelSplitter splitter_;
  runtime::Plan plan_;
  std::vector<PlannedKernel> kernels_;
  ConeMemo cones_;
  std::map<int, int> kernel_by_shape_;
  std::map<Hash128, int> kernel_by_cone_; // different shapes may have equal cones
  std::vector<Expr> counters_;            // of the loops so far
  std::vector<Expr> facts_;               // of these counters
  std::map<const Function*, std::map<NodeId, std::vector<AccessCheck>>> checks_;
  std::set<NodeId> emitted_; // nodes whose checks are among the steps being made
  std::deque<Function> functions_;
  int loops_ = 0;
};

} // namespace luminal::compile
