// ir/scalar.h -- scalar programs: a small expression over the rows of the op table. Definitions of ops and the programs of
// monoids are written in it.  Text: `self * exp2(old0 - new0)`, `select(old0 == -inf, 0, a + b)`, `cast<f32>(a)`.
#pragma once
#include "ir/dtype.h"
#include "ir/ops.h"
#include <string>
#include <vector>

namespace luminal {

/// One node; arguments come before their users, the last node is the result. Equal sub-expressions are one node.
struct ScalarNode {
  enum class Kind : uint8_t { constant, leaf, op, cast } kind;
  Op op{};                    // op
  DType dtype = DType::f32;   // cast: the target
  double value = 0;           // constant
  int leaf = 0;               // leaf: its number in the frame
  int args[3] = {-1, -1, -1}; // positions of earlier nodes
  bool operator==(const ScalarNode&) const = default;
};

class Scalar {
public:
  static Scalar constant(double value);
  static Scalar leaf(int number);
  static Scalar apply(Op op, const std::vector<Scalar>& args); // folds nothing: text and program stay alike
  static Scalar cast(DType to, const Scalar& x);

  const std::vector<ScalarNode>& nodes() const { return nodes_; }
  bool is_leaf(int number) const; // the program is just this leaf
  bool reads(int leaf) const;
  Scalar substitute(const std::vector<Scalar>& leaves) const; // leaf i becomes leaves[i]
  bool operator==(const Scalar&) const = default;

private:
  std::vector<ScalarNode> nodes_;
};

/// Names of leaves: leaf i prints as names[i].
std::string to_string(const Scalar& program, const std::vector<std::string>& leaf_names);
/// Throws Error with the column of the mistake.
Scalar parse_scalar(std::string_view text, const std::vector<std::string>& leaf_names);

} // namespace luminal
