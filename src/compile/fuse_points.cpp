// compile/fuse_points.cpp -- which results share a kernel, and which of them may.
#include "compile/fuse_points.h"
#include <algorithm>
#include <map>
#include <set>
#include <unordered_map>

namespace luminal::compile {
namespace {

/// Results of one kernel: its loop holds a pointer for each, and for what they are made from.
constexpr size_t most_results = 8;

class Grouper {
public:
  explicit Grouper(const Region& region) : region_(region), f_(*region.function) {}

  PointGroups run() {
    std::map<NodeId, std::vector<size_t>> readers; // of values of the results' shapes: groups
    for (const NodeId id : candidates()) {
      const std::set<NodeId> read = points_of(id);
      std::set<size_t> known;
      for (const NodeId value : read)
        if (const auto found = readers.find(value); found != readers.end())
          known.insert(found->second.begin(), found->second.end());
      size_t into = groups_.size();
      for (const size_t g : known)
        if (groups_[g].results.size() < most_results && joins(g, id, read)) {
          into = g;
          break;
        }
      if (into == groups_.size()) groups_.push_back({{}, {}});
      groups_[into].results.push_back(id);
      group_of_[id] = into;
      groups_[into].points.insert(read.begin(), read.end());
      for (const NodeId value : read) readers[value].push_back(into);
    }
    return found();
  }

private:
  struct Group {
    std::vector<NodeId> results;
    std::set<NodeId> points; // maps of its results, and the values of their shape that these read
  };

  bool is_there(NodeId id) const {
    return region_.given.contains(id) || f_[id].kind == NodeKind::input || f_[id].kind == NodeKind::constant;
  }
  bool is_map(NodeId id) const {
    return !is_there(id) && (f_[id].kind == NodeKind::map || f_[id].kind == NodeKind::cast);
  }

  /// Results that are maps; what has to be stored for another reason goes its own way.
  std::vector<NodeId> candidates() const {
    std::vector<NodeId> out;
    for (const NodeId id : region_.wanted)
      if (f_.nodes.has(id) && is_map(id) && !region_.read.contains(id)) out.push_back(id);
    std::ranges::sort(out);
    out.erase(std::ranges::unique(out).begin(), out.end());
    return out;
  }

  /// The maps of its shape that make the result, and what they read of that shape.
  std::set<NodeId> points_of(NodeId result) const {
    std::set<NodeId> seen{result};
    const Shape& shape = f_[result].type().shape;
    for (std::vector<NodeId> stack{result}; !stack.empty();) {
      const NodeId at = stack.back();
      stack.pop_back();
      if (!is_map(at)) continue;
      for (const NodeId in : f_[at].inputs)
        if (!f_[in].is_tuple() && f_[in].type().shape == shape && f_[in].kind != NodeKind::constant &&
            !repeats(in) && seen.insert(in).second)
          stack.push_back(in);
    }
    return seen;
  }
  /// Less than its shape says, spread.
  bool repeats(NodeId id) const {
    const Node& node = f_[id];
    return node.kind == NodeKind::view && f_[node.inputs[0]].type().shape.size() < node.type().shape.size();
  }

  /// May the group's kernel make the result, too? Not where a result, or what the kernel reads, is made
  /// from another result by way of another kernel.
  bool joins(size_t g, NodeId result, const std::set<NodeId>& read) {
    if (f_[groups_[g].results[0]].type().shape != f_[result].type().shape) return false;
    std::vector<NodeId> results = groups_[g].results;
    results.push_back(result);
    std::set<NodeId> points = groups_[g].points;
    points.insert(read.begin(), read.end());
    return !waits_for_itself(results, points, g);
  }

  bool waits_for_itself(const std::vector<NodeId>& results, const std::set<NodeId>& points, size_t own) {
    const std::set<NodeId> kernel = between(results, points);
    IdVector<NodeId, bool> inside(f_.nodes.size()), seen(f_.nodes.size());
    std::vector<NodeId> stack;
    for (const NodeId id : kernel) inside[id] = true;
    bool waits = false;
    const auto visit = [&](NodeId id) {
      waits |= inside[id];
      if (!seen[id]) seen[id] = true, stack.push_back(id);
    };
    for (const NodeId id : kernel) // what its values need from outside
      for (const NodeId in : f_[id].inputs)
        if (!inside[in]) visit(in);
    while (!stack.empty() && !waits) {
      const NodeId at = stack.back();
      stack.pop_back();
      if (is_there(at)) continue;
      for (const NodeId in : f_[at].inputs) visit(in);
      // A kernel needs what any of its results does.
      if (const auto other = group_of_.find(at); other != group_of_.end() && other->second != own)
        for (const NodeId result : groups_[other->second].results) visit(result);
    }
    return waits;
  }

  /// The results, and the maps that need one of them.
  std::set<NodeId> between(const std::vector<NodeId>& results, const std::set<NodeId>& points) const {
    std::set<NodeId> out(results.begin(), results.end());
    for (const NodeId id : points) // ascending: inputs come first
      if (is_map(id) && std::ranges::any_of(f_[id].inputs, [&](NodeId in) { return out.contains(in); }))
        out.insert(id);
    return out;
  }

  PointGroups found() const {
    PointGroups out;
    for (const Group& group : groups_) {
      if (group.results.size() < 2) continue;
      for (const NodeId id : between(group.results, group.points)) out.members[id] = out.groups.size();
      out.groups.push_back(group.results);
    }
    return out;
  }

  const Region& region_;
  const Function& f_;
  std::vector<Group> groups_;
  std::unordered_map<NodeId, size_t> group_of_; // of results
};

} // namespace

PointGroups point_groups(const Region& region) { return Grouper(region).run(); }

} // namespace luminal::compile
