// compile/tuples.cpp -- folds and scans over tuples: components over different axes that do not
// read each other become tuples of their own.
//
// A kernel's stage runs over the axes of one result. Components with equal axes share a pass.
// Components of a fold that read others over fewer axes stay with them: the default schedule makes
// a cascade of such a tuple. A scan has no cascade: what it reads is repeated along the axes that
// it lacks.
#include "compile/rewrite.h"
#include <algorithm>
#include <set>

namespace luminal::compile {
namespace {

using Axes = std::vector<int>;

bool has(const Axes& axes, int axis) { return std::ranges::find(axes, axis) != axes.end(); }

/// The components that are kept; they read no others.
Monoid part_of(const Monoid& monoid, const std::vector<int>& kept) {
  std::vector<MonoidComponent> parts;
  for (int c : kept) {
    MonoidComponent part = monoid.components()[size_t(c)];
    std::vector<Scalar> leaves(size_t(1 + 2 * c), Scalar::leaf(0));
    for (size_t i = 0; kept[i] < c; i++)
      for (int half : {1, 2}) leaves[2 * size_t(kept[i]) + size_t(half)] = Scalar::leaf(int(2 * i) + half);
    part.transform = part.transform.substitute(leaves);
    parts.push_back(std::move(part));
  }
  return Monoid::intern(std::move(parts));
}

/// A tuple made of some components: those that it gives, and what these read.
struct TuplePart {
  std::vector<int> gives, kept;
};

template <class Attr> class Splitter {
public:
  explicit Splitter(const Attr& attr) : attr_(attr) {
    for (int c = 0; c < attr.monoid.size(); c++) axes_.push_back(result_axes(attr, c));
  }

  bool needed() const {
    return std::ranges::any_of(axes_, [&](const Axes& axes) { return axes != axes_[0]; }) &&
           (is_scan || parts().size() > 1);
  }

  /// One for each set of axes; what a fold has over more axes than a component that it reads stays
  /// with that.
  std::vector<TuplePart> parts() const {
    std::vector<int> group(axes_.size()); // the first component of its group
    for (size_t c = 0; c < axes_.size(); c++) {
      const size_t like = size_t(std::ranges::find(axes_, axes_[c]) - axes_.begin());
      group[c] = like < c ? group[like] : int(c);
      if (is_scan) continue;
      for (int read : attr_.monoid.dependencies(int(c))) {
        const int into = std::min(group[c], group[size_t(read)]),
                  from = std::max(group[c], group[size_t(read)]);
        std::replace(group.begin(), group.begin() + long(c) + 1, from, into);
      }
    }
    std::vector<TuplePart> parts;
    for (int first = 0; first < int(group.size()); first++) {
      TuplePart part;
      std::set<int> kept;
      for (int c = 0; c < int(group.size()); c++) {
        if (group[size_t(c)] != first) continue;
        part.gives.push_back(c);
        kept.insert(c);
        for (int read : attr_.monoid.dependencies(c)) kept.insert(read);
      }
      part.kept.assign(kept.begin(), kept.end());
      if (!part.gives.empty()) parts.push_back(std::move(part));
    }
    return parts;
  }

  /// The values of all components.
  std::vector<NodeId> make(FunctionBuilder& b, const Node& node, const std::vector<NodeId>& inputs) const {
    std::vector<NodeId> values(axes_.size());
    for (const TuplePart& part : parts()) {
      Attr smaller = attr_;
      smaller.monoid = part_of(attr_.monoid, part.kept);
      smaller.body_axes.clear();
      std::vector<NodeId> bodies;
      for (int c : part.kept) {
        Axes axes = attr_.body_axes[size_t(c)];
        NodeId body = inputs[size_t(c)];
        if (is_scan) body = repeated(b, body, axes, axes_[size_t(part.gives[0])]);
        smaller.body_axes.push_back(std::move(axes));
        bodies.push_back(body);
      }
      if constexpr (!is_scan) {
        for (Hole& hole : smaller.holes) {
          bodies.push_back(inputs[size_t(hole.input)]);
          hole.input = int(bodies.size()) - 1;
        }
      }
      const NodeId tuple = b.add(std::move(smaller), bodies, node.axis_names);
      for (size_t i = 0; i < part.kept.size(); i++)
        if (std::ranges::find(part.gives, part.kept[i]) != part.gives.end())
          values[size_t(part.kept[i])] = b.get(tuple, int(i));
    }
    return values;
  }

private:
  static constexpr bool is_scan = std::is_same_v<Attr, ScanAttr>;

  /// The body along `all` axes, too; `axes` are then both.
  NodeId repeated(FunctionBuilder& b, NodeId body, Axes& axes, const Axes& all) const {
    if (std::ranges::all_of(all, [&](int d) { return has(axes, d) || d == scan_axis(); })) return body;
    Axes wide = axes;
    for (int d : all)
      if (!has(wide, d)) wide.push_back(d);
    std::ranges::sort(wide);
    Shape shape;
    for (int d : wide) shape.push_back(attr_.space[size_t(d)]);
    std::vector<Expr> map;
    for (int d : axes) {
      const auto at = std::ranges::find(wide, d) - wide.begin();
      map.push_back(axis_symbol(int(at), shape[size_t(at)]));
    }
    axes = std::move(wide);
    return b.view(body, std::move(shape), std::move(map));
  }
  int scan_axis() const {
    if constexpr (is_scan) return attr_.axis;
    return -1;
  }

  const Attr& attr_;
  std::vector<Axes> axes_; // of each component's result
};

template <class Attr>
bool split(FunctionBuilder& b, const Node& node, const std::vector<NodeId>& inputs,
           std::vector<NodeId>& values) {
  const auto* attr = std::get_if<Attr>(&node.attr);
  if (!attr || attr->monoid.size() < 2) return false;
  const Splitter<Attr> splitter(*attr);
  if (!splitter.needed()) return false;
  values = splitter.make(b, node, inputs);
  return true;
}

} // namespace

bool splits_tuples(const Function& function) {
  return std::ranges::any_of(function.nodes, [](const Node& node) {
    const auto* fold = std::get_if<FoldAttr>(&node.attr);
    const auto* scan = std::get_if<ScanAttr>(&node.attr);
    return (fold && fold->monoid.size() > 1 && Splitter<FoldAttr>(*fold).needed()) ||
           (scan && scan->monoid.size() > 1 && Splitter<ScanAttr>(*scan).needed());
  });
}

Function split_tuples(const Module& module, const Function& function) {
  if (!splits_tuples(function)) return function;
  return rebuild(module, function,
                 [&](FunctionBuilder& b, NodeId id, const IdVector<NodeId, NodeId>& copies,
                     std::vector<NodeId>& values) {
                   const Node& node = function[id];
                   std::vector<NodeId> inputs;
                   for (NodeId input : node.inputs) inputs.push_back(copies[input]);
                   return split<FoldAttr>(b, node, inputs, values) ||
                          split<ScanAttr>(b, node, inputs, values);
                 });
}

} // namespace luminal::compile
