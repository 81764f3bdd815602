// luminal/terms.h -- the terms below the operations, typed: views, folds, scans and scatters are
// made and read as data. docs/terms.md says what they mean; maps (one operation an element) are
// made by apply_operation, leaves by Graph, anything as text by add_terms.
//
//   using namespace terms;   // sums of the lower triangle of x [n, n], row by row
//   Tensor rows = fold({n, n}, {1}, {{"sum", x, {0, 1}}}, [](const Dims& i) { return at_most(i[1],
//   i[0]); })[0];
#pragma once
#include "luminal/graph.h"
#include <optional>

namespace luminal::terms {

/// Conditions: 1 where it holds, 0 elsewhere; over axes and dimensions of the graph. The operators
/// of Dim by name.
inline Dim less(Dim a, Dim b) { return a < b; }
inline Dim at_most(Dim a, Dim b) { return a <= b; }
inline Dim same(Dim a, Dim b) { return equal(a, b); }
inline Dim both(Dim a, Dim b) { return a && b; }
inline Dim either(Dim a, Dim b) { return a || b; }
/// An expression over the axes of a space: axis d is i[d].
using OverAxes = std::function<Dim(const Dims& i)>;
using MapOverAxes = std::function<Dims(const Dims& i)>;

/// out[i] = where(i) ? x[map(i)] : fill, of this shape; `map` gives an index for each axis of x.
/// Every movement and mask is one. Throws Error where an index is certainly outside of x; what is
/// not proved is checked at each execute.
Tensor view(const Tensor& x, const Dims& shape, const MapOverAxes& map, const OverAxes& where = {},
            double fill = 0, std::source_location place = std::source_location::current());

/// One component of the monoid of a fold or scan: combine(a, b) = op(T(a), T(b)).
struct Component {
  std::string op;                 ///< sum, prod, max, min, any, all
  Tensor body;                    ///< of shape [the extents of `axes`]; its type is that of the state
  std::vector<int> axes;          ///< of the space, ascending
  std::string transform = "self"; ///< T, over self, and old0, new0, ..: earlier components before and after
};
/// A tuple over the axes `over`, results without them; points where the condition fails take no
/// part; of no point the identity.
std::vector<Tensor> fold(const Dims& space, const std::vector<int>& over,
                         const std::vector<Component>& components, const OverAxes& where = {},
                         std::source_location place = std::source_location::current());
/// Every prefix along an axis; exclusive: element k without body k; reverse: from the end.
std::vector<Tensor> scan(const Dims& space, int along, const std::vector<Component>& components,
                         bool exclusive = false, bool reverse = false,
                         std::source_location place = std::source_location::current());
/// base, with values[i] written to (or combined with what is at) map(i), in row-major order, where
/// the condition holds.
Tensor scatter(const Tensor& base, const Tensor& values, const MapOverAxes& map,
               ScatterOp how = ScatterOp::set, const OverAxes& where = {},
               std::source_location place = std::source_location::current());

// ---- reading: nothing where the value is made by another kind of term ----

/// `axes` are the i of map and condition. Views whose map reads indices from tensors have them as
/// symbols h0, h1, ..: see TermInfo::text.
struct ViewTerm {
  Tensor x;
  Dims axes, map;
  Dim where = 1;
  double fill = 0;
};
std::optional<ViewTerm> as_view(const Tensor& tensor);
struct FoldTerm {
  int result = 0; ///< which component this value is
  Dims space, axes;
  std::vector<int> over;
  std::vector<Component> components;
  Dim where = 1;
};
std::optional<FoldTerm> as_fold(const Tensor& tensor);
struct ScanTerm {
  int result = 0;
  Dims space;
  int along = 0;
  std::vector<Component> components;
  bool exclusive = false, reverse = false;
};
std::optional<ScanTerm> as_scan(const Tensor& tensor);
struct ScatterTerm {
  Tensor base, values;
  Dims axes, map;
  ScatterOp how = ScatterOp::set;
  Dim where = 1;
};
std::optional<ScatterTerm> as_scatter(const Tensor& tensor);
/// A number that is the same everywhere: a constant, or a view of one.
std::optional<double> as_number(const Tensor& tensor);

} // namespace luminal::terms
