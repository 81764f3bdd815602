// ir/placement.h -- on which device each value of a function is made.
#pragma once
#include "ir/term.h"
#include <functional>

namespace luminal {

/// A value is made where its inputs lie; `fence .. on` moves it. Constants, and what is made of
/// nothing else, may be made anywhere.
struct Placement {
  static constexpr int anywhere = -1, nowhere = -2; // nowhere: its inputs lie on two devices
  std::vector<std::string> devices{"cpu"};          ///< the first: of inputs that name none
  IdVector<NodeId, int> of;                         ///< node -> place in `devices`, anywhere or nowhere

  /// Takes the nodes before `end` that came since the last time.
  void extend(NodeId end, const std::function<const Node&(NodeId)>& nodes);
  /// Why a node is nowhere: the devices of its inputs, or of those of the first such node that it
  /// is made from.
  std::string conflict(NodeId node, const std::function<const Node&(NodeId)>& nodes) const;
};

/// The devices on which a module's values lie, the entry's; `own`, where constants only are left.
std::vector<std::string> devices_of(const Module& module, const std::string& own = "cpu");

} // namespace luminal
