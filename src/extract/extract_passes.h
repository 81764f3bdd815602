// extract/extract_passes.h -- which passes over memory run as one: joining under a reachability
// check.
#pragma once
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace luminal::egraph {

/// Passes and what each needs done before it. Passes that are joined run together, as a group; a
/// group comes after all that one of its members needs. Joining keeps the groups in some order: two
/// of them may join if neither must come before the other. Flat arrays: clear() keeps their memory,
/// so one graph serves many candidates.
class PassGraph {
public:
  /// Drops all passes.
  void clear();
  /// A new pass, a group by itself. `before` names passes; ids count from 0.
  uint32_t add(std::span<const uint32_t> before);
  uint32_t size() const { return uint32_t(group_.size()); }
  /// Passes with the same group run together; the id of a group is its first member.
  uint32_t group(uint32_t pass) const { return group_[pass]; }
  /// The passes of a group, in the order in which they joined.
  const std::vector<uint32_t>& members(uint32_t group) const { return members_[group]; }
  /// Whether the group of `a` must come before that of `b`.
  bool comes_before(uint32_t a, uint32_t b) const;
  bool may_join(uint32_t a, uint32_t b) const {
    return group(a) == group(b) || (!comes_before(a, b) && !comes_before(b, a));
  }
  /// Joins two groups. Throws Error where may_join() is false.
  void join(uint32_t a, uint32_t b);
  /// Groups in an order in which they can run: by how many passes come before them, then by id.
  std::vector<uint32_t> order() const;

private:
  uint64_t* set(uint32_t group) { return sets_.data() + size_t(group) * words_; }
  const uint64_t* set(uint32_t group) const { return sets_.data() + size_t(group) * words_; }
  bool bit(uint32_t group, uint32_t member) const { return set(group)[member / 64] >> (member % 64) & 1; }
  void widen();
  std::vector<uint32_t> group_;
  /// By the group's id; empty for passes that joined another group.
  std::vector<std::vector<uint32_t>> members_;
  /// Of a set.
  size_t words_ = 1;
  /// For each group, by its id: all passes that come before it.
  std::vector<uint64_t> sets_;
};

/// What is gained where the pass joins the group: members so far, the newcomer; minus infinity
/// where they do not fit.
using JoinGain = std::function<double(std::span<const uint32_t> group, uint32_t pass)>;
/// Told of each join before it is made, with the members so far.
using JoinNotice = std::function<void(std::span<const uint32_t> group, uint32_t pass)>;

/// Each pass in turn joins the group before it whose gain is greatest and above zero.
void join_greedily(PassGraph& graph, const JoinGain& gain, const JoinNotice& joining = nullptr);

} // namespace luminal::egraph
