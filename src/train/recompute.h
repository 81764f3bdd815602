// train/recompute.h -- forward terms in segments, whose values are computed again for the gradient.
//
// What the terms of a segment read from before it stays in memory. What they make is made again from
// that, once the gradient of the segment's values has arrived: it is read behind a fence, so that
// neither the order of kernels nor the search for common values brings it forward. The rules of reverse
// mode look at these copies in place of the terms.
#pragma once
#include "ir/term.h"
#include <map>
#include <vector>

namespace luminal::train {

class Recomputation {
public:
  /// Cuts the terms before `end` that the values need into at most so many segments, of about the same
  /// size, at places where few bytes are alive.
  Recomputation(FunctionBuilder& builder, const std::vector<NodeId>& values, NodeId end, int64_t segments);
  /// Does the value lie before the segment that was opened last?
  bool leaves_segment(NodeId id) const { return id < begin_; }
  /// Opens the segment of the value. `arrived`: the gradients of its values that are there, by the value.
  void open(NodeId id, const std::map<std::pair<NodeId, int>, NodeId>& arrived);
  /// What the rules look at in place of a value of the open segment.
  NodeId copy(NodeId id) const;
  /// The value that a copy, or what it reads, stands for.
  NodeId original(NodeId id) const;
  const std::vector<NodeId>& cuts() const { return cuts_; }

private:
  void find_needed(const std::vector<NodeId>& values, NodeId end);
  void find_cuts(NodeId end, int64_t segments);
  void copy_term(NodeId id, const std::vector<NodeId>& arrived);
  NodeId fenced(NodeId id, const std::vector<NodeId>& arrived);

  FunctionBuilder& b_;
  IdVector<NodeId, bool> needed_, fixed_; // fixed: made of constants and weights alone
  std::vector<NodeId> cuts_;
  NodeId begin_;                             // of the open segment
  std::map<NodeId, NodeId> copies_, fences_; // of its terms, and of what they read from outside of it
  std::map<NodeId, NodeId> originals_;       // of both, of all segments
};

} // namespace luminal::train
