// rules/name_axes.cpp -- cuts to a fixpoint, then one union-find over digits.
#include "rules/name_axes.h"
#include "base/check.h"
#include <algorithm>
#include <deque>

namespace luminal::rules {
namespace {

/// The factors of a product: a constant and atoms.
struct Factors {
  int64_t constant = 1;
  std::vector<Expr> atoms;
};
Factors factors_of(Expr e) {
  if (e.is_constant()) return {e.value(), {}};
  if (e.kind() != ExprKind::mul) return {1, {e}};
  Factors out;
  for (const Expr part : e.args())
    if (part.is_constant())
      out.constant = part.value();
    else
      out.atoms.push_back(part);
  return out;
}

bool divides(Expr a, Expr b) { return exact_quotient(b, a).has_value(); }

/// A symbol i<d> of the space, by Expr::id.
std::optional<int> axis_of(Expr symbol, const Shape& space) {
  for (size_t d = 0; d < space.size(); ++d)
    if (symbol == axis_symbol(int(d), space[d])) return int(d);
  return {};
}

bool reads_an_axis(Expr e, const Shape& space) {
  if (e.is_constant()) return false;
  return std::ranges::any_of(symbols_of(e), [&](Expr s) {
    return axis_of(s, space) || (s.name().size() > 1 && s.name()[0] == 'h');
  });
}

/// i, i % m, i // q, (i // q) % m, (i % m) // q.
std::optional<Piece> piece_of(Expr e, const Shape& space) {
  if (e.is_symbol()) {
    const auto d = axis_of(e, space);
    return d ? std::optional(Piece{*d, 1, space[size_t(*d)], 1}) : std::nullopt;
  }
  if (e.kind() != ExprKind::mod && e.kind() != ExprKind::floordiv) return {};
  const Expr by = e.args()[1];
  if (reads_an_axis(by, space) || (by.is_constant() && by.value() <= 0)) return {};
  auto inner = piece_of(e.args()[0], space);
  if (!inner) return {};
  if (e.kind() == ExprKind::mod) {
    const Expr high = inner->low * by;
    if (!divides(high, inner->high)) return {};
    inner->high = high;
  } else {
    const Expr low = inner->low * by;
    if (!divides(low, inner->high)) return {};
    inner->low = low;
  }
  return inner;
}

} // namespace

std::optional<Expr> exact_quotient(Expr a, Expr b) {
  if (b.is_constant(1)) return a;
  if (a.is_constant(0) || b.is_constant(0)) return {};
  if (a == b) return Expr(1);
  if (a.is_constant() && b.is_constant())
    return a.value() % b.value() == 0 ? std::optional(Expr(a.value() / b.value())) : std::nullopt;
  if (b.is_constant()) {
    const auto split = b.value() > 0 ? divmod_split(a, b.value()) : std::nullopt;
    return split && split->second.is_constant(0) ? std::optional(split->first) : std::nullopt;
  }
  Factors from = factors_of(a), by = factors_of(b);
  if (by.constant == 0 || from.constant % by.constant != 0) return {};
  for (const Expr atom : by.atoms) {
    const auto at = std::ranges::find(from.atoms, atom);
    if (at == from.atoms.end()) return {};
    from.atoms.erase(at);
  }
  return product(from.atoms) * Expr(from.constant / by.constant);
}

std::optional<std::vector<Piece>> pieces_of(Expr index, const Shape& space, Expr extent) {
  if (extent.is_constant(1)) return std::vector<Piece>{};
  const Affine affine = affine_terms(index);
  if (affine.constant != 0) return {};
  std::vector<Piece> pieces;
  for (const auto& [term, coefficient] : affine.terms) {
    Expr at = coefficient, atom = term;
    if (term.kind() == ExprKind::mul) {
      std::vector<Expr> others;
      int varying = 0;
      for (const Expr part : term.args())
        if (reads_an_axis(part, space))
          atom = part, ++varying;
        else
          others.push_back(part);
      if (varying != 1) return {};
      at = at * product(others);
    }
    auto piece = piece_of(atom, space);
    if (!piece) return {};
    piece->at = at;
    pieces.push_back(*piece);
  }
  Expr covered = 1;
  for (size_t done = 0; done < pieces.size(); ++done) {
    const auto next = std::find_if(pieces.begin() + std::ptrdiff_t(done), pieces.end(),
                                   [&](const Piece& p) { return p.at == covered; });
    if (next == pieces.end()) return {};
    const auto count = exact_quotient(next->high, next->low);
    if (!count) return {};
    covered = covered * *count;
    std::swap(pieces[done], *next);
  }
  if (covered != extent) return {};
  return pieces;
}

const Shape& named_shape(const Node& node, TermKind kind) {
  static const Shape none;
  switch (kind) {
  case TermKind::none:
  case TermKind::number:
  case TermKind::opaque_tuple: return none;
  case TermKind::fold: return std::get<FoldAttr>(node.attr).space;
  case TermKind::scan: return std::get<ScanAttr>(node.attr).space;
  default: return node.type().shape;
  }
}

Form NamedDimensions::form(NodeId node, size_t rank) const {
  Form out;
  for (size_t d = 0; d < rank; ++d) out.push(dim(node, d));
  return out;
}

class AxisNamer {
public:
  AxisNamer(const Function& f, std::span<const NodeId> nodes, const IdVector<NodeId, TermKind>& kinds)
      : f_(f), nodes_(nodes), kinds_(kinds) {}

  std::optional<NamedDimensions> run(AxisTable& axes) {
    number_dimensions();
    find_edges();
    spread_cuts();
    make_digits();
    for (const Edge& edge : edges_) unite(edge);
    return name(axes);
  }

private:
  struct Dimension {
    Expr extent;
    uint32_t space;         // position of its node in nodes_
    bool whole = false;     // may not be cut: a scan walks along it
    std::vector<Expr> cuts; // a chain: 1 < each, each divides the next and the extent
  };
  /// Digits [a_low, a_high) of dimension a are digits from b_low on of dimension b.
  struct Edge {
    uint32_t a, b;
    Expr a_low, a_high, b_low;
  };
  struct Digit {
    Expr low, extent;
    uint32_t parent;
  };

  uint32_t dim(NodeId node, size_t d) const { return first_[node] + uint32_t(d); }

  void number_dimensions() {
    first_.assign(f_.nodes.size(), 0);
    for (uint32_t k = 0; k < nodes_.size(); ++k) {
      const NodeId id = nodes_[k];
      const Node& node = f_[id];
      first_[id] = uint32_t(dims_.size());
      for (const Expr extent : named_shape(node, kinds_[id])) dims_.push_back({extent, k, false, {}});
      if (kinds_[id] == TermKind::scan)
        dims_[dim(id, size_t(std::get<ScanAttr>(node.attr).axis))].whole = true;
    }
  }

  void edge(uint32_t a, uint32_t b) {
    if (dims_[a].extent != dims_[b].extent || dims_[a].extent.is_constant(1)) return;
    edges_.push_back({a, b, 1, dims_[a].extent, 1});
  }

  void find_edges() {
    for (const NodeId id : nodes_) {
      const Node& node = f_[id];
      switch (kinds_[id]) {
      case TermKind::map:
        for (const NodeId in : node.inputs)
          for (size_t d = 0; d < node.type().shape.size() && kinds_[in] != TermKind::number; ++d)
            edge(dim(id, d), dim(in, d));
        break;
      case TermKind::view: view_edges(id, node); break;
      case TermKind::fold: body_edges(id, node, std::get<FoldAttr>(node.attr).body_axes); break;
      case TermKind::scan: body_edges(id, node, std::get<ScanAttr>(node.attr).body_axes); break;
      case TermKind::get: {
        const NodeId tuple = node.inputs[0];
        const int index = std::get<GetAttr>(node.attr).index;
        std::vector<int> axes;
        if (kinds_[tuple] == TermKind::fold) axes = result_axes(std::get<FoldAttr>(f_[tuple].attr), index);
        if (kinds_[tuple] == TermKind::scan) axes = result_axes(std::get<ScanAttr>(f_[tuple].attr), index);
        for (size_t d = 0; d < axes.size(); ++d) edge(dim(id, d), dim(tuple, size_t(axes[d])));
        break;
      }
      default: break;
      }
    }
  }

  void body_edges(NodeId id, const Node& node, const std::vector<std::vector<int>>& body_axes) {
    for (size_t c = 0; c < body_axes.size(); ++c)
      for (size_t p = 0; p < body_axes[c].size(); ++p)
        edge(dim(id, size_t(body_axes[c][p])), dim(node.inputs[c], p));
  }

  void view_edges(NodeId id, const Node& node) {
    const auto& view = std::get<ViewAttr>(node.attr);
    const NodeId in = node.inputs[0];
    for (size_t j = 0; j < view.map.size(); ++j) {
      const uint32_t from = dim(in, j);
      const auto pieces = pieces_of(view.map[j], view.shape, dims_[from].extent);
      if (!pieces) continue;
      for (const Piece& piece : *pieces) {
        const uint32_t to = dim(id, size_t(piece.axis));
        edges_.push_back({to, from, piece.low, piece.high, piece.at});
        cut(to, piece.low);
        cut(to, piece.high);
        cut(from, piece.at);
        cut(from, piece.at * exact_quotient(piece.high, piece.low).value());
      }
    }
    for (const Hole& hole : view.holes)
      for (size_t p = 0; p < hole.axes.size(); ++p)
        if (kinds_[node.inputs[size_t(hole.input)]] != TermKind::number)
          edge(dim(id, size_t(hole.axes[p])), dim(node.inputs[size_t(hole.input)], p));
  }

  bool cut(uint32_t d, Expr at) {
    Dimension& dimension = dims_[d];
    if (at.is_constant(1) || at == dimension.extent || dimension.whole) return false;
    auto place = dimension.cuts.begin();
    for (; place != dimension.cuts.end(); ++place) {
      if (*place == at) return false;
      if (divides(*place, at)) continue;
      if (!divides(at, *place)) return false;
      break;
    }
    if (!divides(at, dimension.extent)) return false;
    dimension.cuts.insert(place, at);
    changed_.push_back(d);
    return true;
  }

  /// Cuts of either end of an edge are cuts of the other.
  void spread_cuts() {
    if (changed_.empty()) return;
    std::vector<std::vector<uint32_t>> edges_of(dims_.size());
    for (uint32_t e = 0; e < edges_.size(); ++e) {
      edges_of[edges_[e].a].push_back(e);
      edges_of[edges_[e].b].push_back(e);
    }
    while (!changed_.empty()) {
      const uint32_t d = changed_.front();
      changed_.pop_front();
      for (const uint32_t e : edges_of[d]) {
        const Edge& edge = edges_[e];
        const std::vector<Expr> cuts = dims_[d].cuts; // a copy: `cut` may change it
        for (const Expr at : cuts)
          if (d == edge.a)
            carry(at, edge.a_low, edge.a_high, edge.b_low, edge.b);
          else
            carry(at, edge.b_low, edge.b_low * exact_quotient(edge.a_high, edge.a_low).value(), edge.a_low,
                  edge.a);
      }
    }
  }
  void carry(Expr at, Expr low, Expr high, Expr to_low, uint32_t to) {
    if (at == low || at == high || !divides(at, high)) return;
    if (const auto inside = exact_quotient(at, low)) cut(to, to_low * *inside);
  }

  void make_digits() {
    ends_.push_back(0);
    for (const Dimension& d : dims_) {
      Expr low = 1;
      const auto add = [&](Expr high) {
        digits_.push_back({low, exact_quotient(high, low).value_or(high), uint32_t(digits_.size())});
        low = high;
      };
      for (const Expr at : d.cuts) add(at);
      if (!d.extent.is_constant(1)) add(d.extent);
      ends_.push_back(uint32_t(digits_.size()));
    }
    words_ = (nodes_.size() + 63) / 64;
    spaces_.assign(digits_.size() * words_, 0);
    for (uint32_t d = 0; d < dims_.size(); ++d)
      for (uint32_t k = ends_[d]; k < ends_[d + 1]; ++k)
        spaces_[k * words_ + dims_[d].space / 64] |= uint64_t(1) << (dims_[d].space % 64);
  }

  uint32_t root(uint32_t digit) {
    while (digits_[digit].parent != digit)
      digit = digits_[digit].parent = digits_[digits_[digit].parent].parent;
    return digit;
  }

  void unite(uint32_t a, uint32_t b) {
    a = root(a), b = root(b);
    if (a == b || digits_[a].extent != digits_[b].extent) return;
    uint64_t *of_a = &spaces_[a * words_], *of_b = &spaces_[b * words_];
    for (size_t w = 0; w < words_; ++w)
      if ((of_a[w] & of_b[w]) != 0) return;
    if (b < a) std::swap(a, b), std::swap(of_a, of_b);
    digits_[b].parent = a;
    for (size_t w = 0; w < words_; ++w) of_a[w] |= of_b[w];
  }

  /// The digits of dimension d from `low` to `high`; empty where they do not begin and end there.
  std::pair<uint32_t, uint32_t> digits_between(uint32_t d, Expr low, Expr high) const {
    uint32_t first = ends_[d];
    while (first < ends_[d + 1] && digits_[first].low != low) ++first;
    uint32_t last = first;
    while (last < ends_[d + 1] && digits_[last].low != high) ++last;
    if (last == ends_[d + 1] && high != dims_[d].extent) return {0, 0};
    return {first, last};
  }

  void unite(const Edge& edge) {
    const auto a = digits_between(edge.a, edge.a_low, edge.a_high);
    const auto count = exact_quotient(edge.a_high, edge.a_low);
    if (!count) return;
    const auto b = digits_between(edge.b, edge.b_low, edge.b_low * *count);
    if (a.second - a.first != b.second - b.first) return;
    for (uint32_t k = 0; k < a.second - a.first; ++k) unite(a.first + k, b.first + k);
  }

  std::optional<NamedDimensions> name(AxisTable& axes) {
    std::vector<int32_t> axis(digits_.size(), -1);
    for (uint32_t k = 0; k < digits_.size(); ++k) {
      int32_t& at = axis[root(k)];
      if (at >= 0) continue;
      if (axes.size() == most_axes) return {};
      at = axes.add(digits_[k].extent);
    }
    NamedDimensions out;
    out.first_ = std::move(first_);
    out.ends_.push_back(0);
    for (uint32_t d = 0; d < dims_.size(); ++d) {
      for (uint32_t k = ends_[d + 1]; k-- > ends_[d];) out.axes_.push_back(AxisId(axis[root(k)]));
      out.ends_.push_back(uint32_t(out.axes_.size()));
    }
    return out;
  }

  const Function& f_;
  std::span<const NodeId> nodes_;
  const IdVector<NodeId, TermKind>& kinds_;
  IdVector<NodeId, uint32_t> first_; // by node
  std::vector<Dimension> dims_;
  std::vector<Edge> edges_;
  std::deque<uint32_t> changed_;
  std::vector<Digit> digits_;  // least significant first
  std::vector<uint32_t> ends_; // by dimension, in digits_
  size_t words_ = 0;
  std::vector<uint64_t> spaces_; // by root: the nodes that have it
};

std::optional<NamedDimensions> name_axes(const Function& function, std::span<const NodeId> nodes,
                                         const IdVector<NodeId, TermKind>& kinds, AxisTable& axes) {
  return AxisNamer(function, nodes, kinds).run(axes);
}

} // namespace luminal::rules
