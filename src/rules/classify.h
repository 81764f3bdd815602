// rules/classify.h -- how each node of a function would enter the e-graph, whatever the region.
#pragma once
#include "rules/term_kind.h"

namespace luminal::rules {

/// A flat function with what is known of its nodes.
struct FlatFunction {
  FlatFunction(const Module& module, const Function& function);
  const Module& module;
  const Function& function;
  IdVector<NodeId, bool> fixed; ///< depends on weights, constants and positions only
  /// `leaf`: inputs, dense constants, and the largest values that are fixed and worth computing once.
  IdVector<NodeId, TermKind> kinds;
  IdVector<NodeId, double> stored; ///< bytes of the form in which a value is stored
};

} // namespace luminal::rules
