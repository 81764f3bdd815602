// cone/cone_build.h -- private: the state of build_cone, shared by its files.
#pragma once
#include "cone/cone.h"
#include "cone/formula.h"

namespace luminal::kernel {

/// Axes that may still turn out to be one: a union-find whose classes hold at most one axis of each
/// stage.
class AxisPool {
public:
  /// `name` empty: none was given.
  AxisId add(std::string name, Expr extent, StageId stage);
  Expr symbol(AxisId axis) const { return entries_[axis].symbol; }
  Expr extent(AxisId axis) const { return entries_[axis].extent; }
  AxisId find_symbol(Expr symbol) const;
  /// Makes two axes one where their extents are equal and no stage has both.
  bool unite(AxisId a, AxisId b);
  AxisId representative(AxisId axis) const;
  bool in_one_stage(AxisId axis) const { return entries_[representative(axis)].stages.size() == 1; }
  const std::string& name(AxisId representative) const { return entries_[representative].name; }

private:
  struct Entry {
    std::string name;
    Expr extent, symbol;
    mutable AxisId parent;
    std::set<StageId> stages;
  };
  IdVector<AxisId, Entry> entries_;
  ExprMap<AxisId> by_symbol_;
};

/// Thrown inside build_cone and caught by it.
struct ConeFailure {
  std::string text;
};

class ConeBuilder {
public:
  ConeBuilder(const Function& function, std::span<const NodeId> roots, const std::set<NodeId>& stored,
              const ConeOptions& options)
      : function_(function), roots_(roots), stored_(stored), options_(options),
        inside_(cone_nodes(function, roots, stored)) {}
  Cone build();

private:
  using Index = std::vector<Expr>;
  // ---- demand: one element of a node at index expressions ----
  FormulaRef read(NodeId node, const Index& at);
  FormulaRef compute(NodeId node, const Index& at);
  FormulaRef named_view(NodeId node, const Index& at);
  FormulaRef read_view(const Node& node, const Index& at);
  FormulaRef read_bitcast(const Node& node, const Index& at);
  FormulaRef read_random(const Node& node, const Index& at);
  FormulaRef read_result(NodeId tuple, int result, const Index& at);
  FormulaRef read_stored(NodeId node, const Index& at);
  /// The holes of a view, scatter or fold: their symbols -> expressions; `valid` is and-ed with
  /// what the policy `fill` asks for.
  ExprMap<Expr> open_holes(const Node& node, const std::vector<Hole>& holes, const Index& at,
                           FormulaRef& valid);
  bool is_read(NodeId node) const; // stored, an input, or a dense constant
  bool reads_memory_only(NodeId node, int depth = 0);
  std::map<NodeId, bool> memory_only_;

  // ---- stages ----
  struct FoldStage {
    // Pool axis of each axis of the space, by component: none where its extent is 1 or it takes no part.
    std::vector<std::vector<AxisId>> axes;
    std::vector<ValueId> values; // of each component
  };
  struct OpenFold {
    StageId stage;
    std::vector<int> members; // of the tuple
    Index symbols;
    std::vector<Component> components;
  };
  /// Roots of one shape, in a kernel of maps alone, are made point by point: components of one stage.
  struct PointStage {
    Shape shape;
    StageId stage;
    std::vector<AxisId> axes; // of the pool
    Index at;
  };
  std::vector<PointStage> point_stages_;
  bool maps_only_ = false; // all roots, in a kernel of several
  FoldStage& fold_stage(NodeId node);
  OpenFold open_fold(NodeId node, const std::string& name, const std::vector<int>& members, FoldStage& fold);
  void close_fold(NodeId node, OpenFold& open);
  FoldStage& scan_stage(NodeId node);
  void root_stage(NodeId root);
  void scatter_root(NodeId root);
  StageId open_stage(std::string name);
  std::vector<std::string> names_of_axes(NodeId node) const;
  /// Axes of a new stage for these extents; `symbols` gets their symbols (0 for an extent of 1).
  std::vector<AxisId> open_axes(StageId stage, const std::vector<Expr>& extents,
                                const std::vector<std::string>& names, Index& symbols);
  ValueId add_value(ConeValue value);
  ValueId value_of_stored(NodeId node);
  std::string unique_name(std::string wish); // of values, axes and holes
  std::string unique_stage_name(std::string wish);
  std::string node_name(NodeId node, std::string_view fallback) const;
  bool is_root(NodeId node) const;
  std::optional<NodeId> get_of(NodeId tuple, int result) const; // the node that reads a component
  void finish();
  void share_digits();
  void join_digits();
  [[noreturn]] void fail(NodeId node, const std::string& why) const;

  const Function& function_;
  std::span<const NodeId> roots_;
  const std::set<NodeId>& stored_;
  const ConeOptions& options_;
  const std::vector<NodeId> inside_;
  Cone cone_;
  AxisPool pool_;
  IdVector<StageId, Stage> open_; // by stage number; axes are pool axes
  std::vector<StageId> order_;    // stages in order of completion
  std::set<std::string> names_, stage_names_;
  std::map<NodeId, FoldStage> folds_;
  std::map<NodeId, ValueId> stored_values_;
  std::map<NodeId, ValueId> root_values_;
  std::map<NodeId, std::vector<AxisId>> root_axes_;    // pool axes of roots that are maps
  std::vector<std::pair<NodeId, Index>> root_demands_; // where other stages compute them, too
  std::map<std::pair<NodeId, std::vector<uint32_t>>, FormulaRef> memo_;
  std::map<std::pair<NodeId, std::vector<uint32_t>>, Expr> hole_memo_;
  int depth_ = 0;
  Expr under_ = 1; // stored values are read only where this holds: they may have no elements elsewhere
};

} // namespace luminal::kernel
