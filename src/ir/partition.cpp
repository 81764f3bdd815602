// ir/partition.cpp -- what a partition must store, and whether it is legal.
#include "ir/partition.h"
#include "ir/text_names.h"
#include <algorithm>
#include <fmt/format.h>
#include <map>
#include <optional>
#include <unordered_map>

namespace luminal {
namespace {

bool changes_width(const Function& f, const Node& node) {
  return node.kind == NodeKind::bitcast && bits(node.type().dtype) != bits(f[node.inputs[0]].type().dtype);
}

bool is_there(const Region& region, NodeId id) {
  const NodeKind kind = (*region.function)[id].kind;
  return region.given.contains(id) || kind == NodeKind::input || kind == NodeKind::constant;
}

/// The value below plain views: that which is in memory where `id` is read from memory.
NodeId below_views(const Function& f, NodeId id) {
  while (f[id].kind == NodeKind::view && std::get<ViewAttr>(f[id].attr).holes.empty()) id = f[id].inputs[0];
  return id;
}

bool gives_steps_result(const Function& f, NodeId id) {
  return f[id].kind == NodeKind::get && is_own_step(f[f[id].inputs[0]]);
}

class PartitionVerifier {
public:
  PartitionVerifier(const Partition& partition, const Region& region)
      : partition_(partition), region_(region), f_(*region.function), names_(node_names(f_)) {}

  std::vector<std::string> run() {
    check_values();
    if (mistakes_.empty()) check_required();
    if (mistakes_.empty()) check_kernels();
    if (mistakes_.empty()) check_order();
    return std::move(mistakes_);
  }

private:
  template <class... Args> void mistake(fmt::format_string<Args...> text, Args&&... args) {
    mistakes_.push_back(
        fmt::format("partition of @{}: {}", f_.name, fmt::format(text, std::forward<Args>(args)...)));
  }
  std::string kernel_text(size_t k) const {
    std::string text;
    for (NodeId id : partition_.kernels[k]) text += (text.empty() ? "" : ", ") + names_[id];
    return "kernel " + text;
  }

  void check_values() {
    const std::vector<NodeId> needed = needed_nodes(region_);
    for (size_t k = 0; k < partition_.kernels.size(); k++) {
      if (partition_.kernels[k].empty()) mistake("kernel number {} stores nothing", k);
      for (NodeId id : partition_.kernels[k]) check_value(id, k, needed);
    }
  }

  void check_value(NodeId id, size_t kernel, const std::vector<NodeId>& needed) {
    if (!f_.nodes.has(id)) return mistake("value {} does not exist: there are {}", id, f_.nodes.size());
    const Node& node = f_[id];
    const std::string& name = names_[id];
    if (is_there(region_, id))
      return mistake("{} is not computed: it is {}", name,
                     node.kind == NodeKind::input      ? "an input"
                     : node.kind == NodeKind::constant ? "a constant"
                                                       : "there before, made from weights");
    if (is_own_step(node) || gives_steps_result(f_, id))
      return mistake("{} is computed by no kernel: {} is a step of its own", name,
                     to_string(is_own_step(node) ? node.kind : f_[node.inputs[0]].kind));
    if (node.is_tuple()) return mistake("{} is a tuple: kernels store what get reads of it", name);
    if (!std::ranges::binary_search(needed, id)) return mistake("no result needs {}", name);
    if (const auto [at, fresh] = kernel_of_.try_emplace(id, kernel); !fresh)
      mistake("{} is stored twice", name);
  }

  void check_required() {
    for (const auto& [id, why] : required_values(region_))
      if (!kernel_of_.contains(id)) mistake("{} must be stored: it is {}", names_[id], why);
  }

  /// What steps before a kernel check, and what it reads as bytes, another kernel has stored.
  void check_kernels() {
    std::set<NodeId> read_before = region_.read;
    for (NodeId id : needed_nodes(region_)) {
      const Node& node = f_[id];
      if (is_there(region_, id)) continue;
      if (changes_width(f_, node)) read_before.insert(below_views(f_, node.inputs[0]));
      for (const Hole& hole : holes_of(node.attr))
        if (hole.policy == OutOfRange::error) read_before.insert(node.inputs[size_t(hole.input)]);
    }
    for (size_t k = 0; k < partition_.kernels.size(); k++) {
      const auto& roots = partition_.kernels[k];
      for (NodeId root : roots)
        if (roots.size() > 1 && f_[root].kind == NodeKind::scatter)
          mistake("{}: {} is a scatter, which has a kernel of its own", kernel_text(k), names_[root]);
      for (NodeId root : roots)
        for (NodeId other : roots)
          if (root != other && read_before.contains(other) && reads_in_kernel(root, other))
            mistake("{}: {} reads {} from memory, so another kernel has to store it", kernel_text(k),
                    names_[root], names_[other]);
    }
  }

  /// Does a value need another one that the same kernel stores?
  bool reads_in_kernel(NodeId root, NodeId other) const {
    const size_t kernel = kernel_of_.at(root);
    std::set<NodeId> seen{root};
    for (std::vector<NodeId> stack{root}; !stack.empty();) {
      const NodeId at = stack.back();
      stack.pop_back();
      if (at == other) return true;
      const auto stored = kernel_of_.find(at);
      if (is_there(region_, at) || (stored != kernel_of_.end() && stored->second != kernel)) continue;
      for (NodeId input : f_[at].inputs)
        if (seen.insert(input).second) stack.push_back(input);
    }
    return false;
  }

  // ---- order: kernels and steps as the nodes of a graph ----

  /// Kernels come first, steps after them, in the order of their nodes.
  std::optional<size_t> made_by(NodeId id) const {
    if (const auto kernel = kernel_of_.find(id); kernel != kernel_of_.end()) return kernel->second;
    if (const auto step = step_of_.find(id); step != step_of_.end()) return step->second;
    return {};
  }

  /// What each kernel or step reads: a maker of a value, and that value.
  std::vector<std::map<size_t, NodeId>> all_reads() {
    std::vector<std::vector<NodeId>> begins = partition_.kernels;
    for (NodeId id : needed_nodes(region_)) {
      if (is_there(region_, id)) continue;
      if (is_own_step(f_[id])) {
        step_of_[id] = begins.size();
        begins.push_back({id});
      } else if (gives_steps_result(f_, id)) {
        step_of_[id] = step_of_.at(f_[id].inputs[0]);
      }
    }
    std::vector<std::map<size_t, NodeId>> reads(begins.size());
    for (size_t k = 0; k < begins.size(); k++) {
      std::set<NodeId> seen(begins[k].begin(), begins[k].end());
      for (std::vector<NodeId> stack = begins[k]; !stack.empty();) {
        const NodeId at = stack.back();
        stack.pop_back();
        for (NodeId input : f_[at].inputs) {
          if (is_there(region_, input) || !seen.insert(input).second) continue;
          if (const auto maker = made_by(input); !maker)
            stack.push_back(input);
          else if (*maker != k)
            reads[k].try_emplace(*maker, input);
          else
            stack.push_back(input);
        }
      }
    }
    first_of_.clear();
    for (const auto& list : begins) first_of_.push_back(list[0]);
    return reads;
  }

  std::string maker_text(size_t k) const {
    return k < partition_.kernels.size()
               ? kernel_text(k)
               : fmt::format("{} {}", to_string(f_[first_of_[k]].kind), names_[first_of_[k]]);
  }

  /// Depth first; a maker that is met again while it is open closes a cycle.
  void check_order() {
    const auto reads = all_reads();
    enum class Mark : uint8_t { fresh, open, done };
    std::vector<Mark> marks(reads.size(), Mark::fresh);
    struct Visit {
      size_t maker;
      std::map<size_t, NodeId>::const_iterator next;
    };
    for (size_t start = 0; start < reads.size(); start++) {
      if (marks[start] != Mark::fresh) continue;
      std::vector<Visit> path{{start, reads[start].begin()}};
      marks[start] = Mark::open;
      while (!path.empty()) {
        Visit& visit = path.back();
        if (visit.next == reads[visit.maker].end()) {
          marks[visit.maker] = Mark::done;
          path.pop_back();
          continue;
        }
        const size_t other = (visit.next++)->first;
        if (marks[other] == Mark::open) {
          std::string text;
          auto from = std::ranges::find(path, other, &Visit::maker);
          for (; from != path.end(); ++from)
            text += fmt::format("{}{} reads {}", text.empty() ? "" : "; ", maker_text(from->maker),
                                names_[std::prev(from->next)->second]);
          return mistake("kernels wait for each other: {}", text);
        }
        if (marks[other] != Mark::fresh) continue;
        marks[other] = Mark::open;
        path.push_back({other, reads[other].begin()});
      }
    }
  }

  const Partition& partition_;
  const Region& region_;
  const Function& f_;
  const IdVector<NodeId, std::string> names_;
  std::unordered_map<NodeId, size_t> kernel_of_; // of stored values
  std::unordered_map<NodeId, size_t> step_of_;   // of steps of their own and what they give
  std::vector<NodeId> first_of_;                 // of each kernel or step
  std::vector<std::string> mistakes_;
};

} // namespace

Region whole_region(const Function& function) {
  Region region;
  region.function = &function;
  region.given.insert(function.params.begin(), function.params.end());
  for (const auto& result : function.results) region.wanted.push_back(result.value);
  return region;
}

std::vector<NodeId> needed_nodes(const Region& region) {
  IdVector<NodeId, bool> seen(region.function->nodes.size());
  std::vector<NodeId> stack = region.wanted, needed;
  while (!stack.empty()) {
    NodeId id = stack.back();
    stack.pop_back();
    if (seen[id]) continue;
    seen[id] = true;
    needed.push_back(id);
    if (region.given.contains(id)) continue;
    for (NodeId input : (*region.function)[id].inputs) stack.push_back(input);
  }
  std::ranges::sort(needed);
  return needed;
}

bool is_own_step(const Node& node) {
  switch (node.kind) {
  case NodeKind::sort:
  case NodeKind::collective:
  case NodeKind::call:
  case NodeKind::loop:
  case NodeKind::cond:
  case NodeKind::host:
  case NodeKind::custom:
  case NodeKind::fence: return true;
  default: return false;
  }
}

std::set<NodeId> values_in_memory(const Region& region, const Partition& partition) {
  const Function& f = *region.function;
  std::set<NodeId> values;
  for (const auto& kernel : partition.kernels) values.insert(kernel.begin(), kernel.end());
  for (NodeId id : needed_nodes(region))
    if (is_there(region, id) || (is_own_step(f[id]) && !f[id].is_tuple()) || gives_steps_result(f, id))
      values.insert(id);
  return values;
}

bool is_fill(const Function& f, NodeId id) {
  const auto* view = std::get_if<ViewAttr>(&f[id].attr);
  return view && view->holes.empty() && view->predicate.is_constant(1) &&
         f[f[id].inputs[0]].kind == NodeKind::constant && f[f[id].inputs[0]].type().shape.empty();
}

std::vector<Requirement> required_values(const Region& region) {
  const Function& f = *region.function;
  std::map<NodeId, std::string_view> required;
  const auto require = [&](NodeId id, std::string_view why) {
    if (!is_there(region, id) && !is_own_step(f[id]) && !gives_steps_result(f, id))
      required.try_emplace(id, why);
  };
  for (NodeId id : region.wanted) require(id, "a result");
  for (NodeId id : needed_nodes(region)) {
    const Node& node = f[id];
    if (is_there(region, id)) continue;
    if (changes_width(f, node)) require(below_views(f, node.inputs[0]), "read as a type of another width");
    if (node.kind == NodeKind::scatter) {
      require(id, "a scatter");
      if (!is_fill(f, node.inputs[0])) require(node.inputs[0], "what a scatter updates");
    }
    for (const Hole& hole : holes_of(node.attr))
      if (hole.policy == OutOfRange::error)
        require(node.inputs[size_t(hole.input)], "an index that is checked before it is used");
    if (is_own_step(node))
      for (NodeId input : node.inputs) require(input, "read by a step of its own");
  }
  for (NodeId id : region.read) require(id, "checked before a kernel reads it");
  return {required.begin(), required.end()};
}

std::vector<std::string> verify(const Partition& partition, const Region& region) {
  return PartitionVerifier(partition, region).run();
}

} // namespace luminal
