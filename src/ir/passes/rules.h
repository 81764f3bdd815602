// ir/passes/rules.h -- what rules are made of, and matching one instance of a rule at one node.
#pragma once
#include "ir/rule_text.h"
#include "luminal/pattern.h"
#include <mutex>

namespace luminal {

struct RuleData {
  RuleFile file;
  std::vector<std::vector<std::function<bool(const Match&)>>> predicates; // by rule
  /// Instances by rule and choice; null where the choice makes no sense for the rule.
  struct Cache {
    std::mutex mutex;
    std::map<std::pair<size_t, TypeChoice>, std::shared_ptr<const RuleInstance>> made;
  };
  std::shared_ptr<Cache> cache = std::make_shared<Cache>();

  std::shared_ptr<const RuleInstance> instance(size_t rule, const TypeChoice& choice) const;
  /// Every choice of these types and numbers of axes that the rule's variables allow.
  std::vector<TypeChoice> choices(size_t rule, const std::vector<DType>& types,
                                  const std::vector<int>& ranks) const;
};

namespace passes {

/// One way in which the left side of a rule stands in a function.
struct Binding {
  IdVector<NodeId, std::optional<NodeId>> nodes; // of the rule's function -> of the function searched
  ExprMap<Expr> symbols;                         // shape variables
};
/// Finds the left side with its root at `at`; the first binding in the order of the operands.
std::optional<Binding> match_at(const RuleInstance& rule, bool commutative, const Module& module,
                                const Function& function, NodeId at);
/// An expression of the rule with shape variables and axes as they are bound; nothing where an
/// expression is not possible.
std::optional<Expr> bound(Expr e, const Binding& binding, const Shape& space, const Shape& bound_space);
std::optional<Shape> bound(const Shape& shape, const Binding& binding);
/// The attributes of a node of the rule, bound. `values`: the shape of a scatter's values.
std::optional<Attr> bound(const Attr& attr, const Binding& binding, const Shape& values);

} // namespace passes
} // namespace luminal
