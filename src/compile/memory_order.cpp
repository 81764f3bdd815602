// compile/memory_order.cpp -- another order of kernels, where it needs less memory.
//
// Depth first from the results (kernel_order.cpp) suits a chain of layers. The gradients of a training
// step are used by updates at its end, in the order of the parameters: depth first, all gradients of
// activations are made before the first product of weights that reads them, and all that is computed
// again for them lives until then. The order tried here is that in which the terms were made, a kernel
// that frees as much as it takes before all others.
#include "compile/pass_list.h"
#include "ir/most_bytes.h"
#include <algorithm>
#include <unordered_map>

namespace luminal::compile {
namespace {

/// Which memory each action touches, and how much it is.
class Memory {
public:
  Memory(const FunctionPlan& plan, const Section& section)
      : plan_(plan), f_(*plan.function), section_(section) {
    for (const Action& action : section.actions)
      in_place_of_.insert(action.in_place.begin(), action.in_place.end());
    for (const Action& action : section.actions) {
      std::vector<int>& list = touched_.emplace_back();
      for (const auto* values : {&action.reads, &action.writes})
        for (NodeId id : *values)
          if (const int place = place_of(id); place >= 0 && std::ranges::find(list, place) == list.end())
            list.push_back(place);
    }
    for (NodeId id : section.region.wanted)
      if (const int place = place_of(id); place >= 0) uses_[size_t(place)] += 1; // to the end
    for (const auto& list : touched_)
      for (int place : list) uses_[size_t(place)] += 1;
  }

  /// Bytes that are alive at most.
  double peak(const std::vector<int>& order) const {
    State state(*this);
    double most = 0;
    for (int a : order) most = std::max(most, state.run(a));
    return most;
  }

  /// What the plan has in memory at one point of an order.
  class State {
  public:
    explicit State(const Memory& of) : of_(of), left_(of.uses_), there_(of.uses_.size()) {}
    /// What an action takes more than it frees.
    double takes(int action) const {
      double bytes = 0;
      for (int place : of_.touched_[size_t(action)]) {
        if (!there_[size_t(place)]) bytes += of_.bytes_[size_t(place)];
        if (left_[size_t(place)] == 1) bytes -= of_.bytes_[size_t(place)];
      }
      return bytes;
    }
    /// Runs it; bytes that are alive meanwhile.
    double run(int action) {
      for (int place : of_.touched_[size_t(action)])
        if (!there_[size_t(place)]) there_[size_t(place)] = true, alive_ += of_.bytes_[size_t(place)];
      const double now = alive_;
      for (int place : of_.touched_[size_t(action)])
        if (--left_[size_t(place)] == 0) alive_ -= of_.bytes_[size_t(place)];
      return now;
    }

  private:
    const Memory& of_;
    std::vector<int> left_;
    std::vector<bool> there_;
    double alive_ = 0;
  };

private:
  /// -1: outside of the arena.
  int place_of(NodeId id) {
    id = storage_of(plan_, id);
    for (auto found = in_place_of_.find(id); found != in_place_of_.end(); found = in_place_of_.find(id))
      id = storage_of(plan_, found->second);
    if (section_.region.given.contains(id) || f_[id].kind == NodeKind::constant ||
        f_[id].kind == NodeKind::input || f_[id].is_tuple())
      return -1;
    const auto [found, fresh] = number_.try_emplace(id, int(bytes_.size()));
    if (fresh) {
      bytes_.push_back(most_bytes(f_[id].type()));
      uses_.push_back(0);
    }
    return found->second;
  }

  const FunctionPlan& plan_;
  const Function& f_;
  const Section& section_;
  std::unordered_map<NodeId, NodeId> in_place_of_;
  std::unordered_map<NodeId, int> number_;
  std::vector<double> bytes_;
  std::vector<int> uses_;
  std::vector<std::vector<int>> touched_; // by action
};

/// As the terms were made.
std::vector<int> order_of_terms(const std::vector<Action>& actions, const Memory& memory) {
  const auto made = [&](int a) { return std::ranges::max(actions[size_t(a)].roots); };
  std::vector<int> waits(actions.size()), order, ready;
  std::vector<std::vector<int>> readers(actions.size());
  for (size_t a = 0; a < actions.size(); a++) {
    waits[a] = int(actions[a].after.size());
    for (int before : actions[a].after) readers[size_t(before)].push_back(int(a));
    if (waits[a] == 0) ready.push_back(int(a));
  }
  Memory::State state(memory);
  while (!ready.empty()) {
    size_t best = 0;
    bool frees = false;
    for (size_t r = 0; r < ready.size(); r++) {
      const bool this_frees = state.takes(ready[r]) <= 0;
      if (this_frees < frees) continue;
      if (this_frees > frees || made(ready[r]) < made(ready[best])) best = r, frees = this_frees;
    }
    const int a = ready[best];
    ready.erase(ready.begin() + std::ptrdiff_t(best));
    state.run(a);
    order.push_back(a);
    for (int reader : readers[size_t(a)])
      if (--waits[size_t(reader)] == 0) ready.push_back(reader);
  }
  return order;
}

} // namespace

std::vector<int> order_of_less_memory(const FunctionPlan& f, const Section& section) {
  constexpr double worth = 15.0 / 16, near_cache = 256 << 10; // bytes: smaller plans stay
  const Memory memory(f, section);
  const double present = memory.peak(section.order);
  if (present < near_cache) return {};
  std::vector<int> order = order_of_terms(section.actions, memory);
  if (memory.peak(order) < worth * present) return order;
  return {};
}

} // namespace luminal::compile
