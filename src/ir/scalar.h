// ir/scalar.h -- scalar programs: a small expression over the rows of the op table. Definitions of
// ops and the programs of
// monoids are written in it.  Text: `self * exp2(old0 - new0)`, `select(old0 == -inf, 0, a + b)`,
//                             `cast<f32>(a)`.
//
// Infix, in falling precedence: unary -, * /, + -, < <= > >= == != (a > b is b < a). Everything
// else is a function by the name of its row. Constants take the type of the values they meet; inf
// and -inf are the greatest and the least value of an integer type.
#pragma once
#include "ir/dtype.h"
#include "ir/ops.h"
#include <span>
#include <string>
#include <vector>

namespace luminal {

class TextReader;

/// One node; arguments come before their users, the last node is the result. Equal sub-expressions
/// are one node.
struct ScalarNode {
  enum class Kind : uint8_t { constant, leaf, op, cast } kind;
  Op op{};                                        // op
  DType dtype = DType::f32;                       // cast: the target
  double value = 0;                               // constant
  int leaf = 0;                                   // leaf: its number in the frame
  int args[3] = {-1, -1, -1};                     // positions of earlier nodes
  bool operator==(const ScalarNode& other) const; // NaN constants are equal, zeros of different sign are not
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
  int append(const Scalar& other);
  int append(const ScalarNode& node);
  std::vector<ScalarNode> nodes_;
};

/// Names of leaves: leaf i prints as names[i].
std::string to_string(const Scalar& program, const std::vector<std::string>& leaf_names);
/// Throws Error with the column of the mistake.
Scalar parse_scalar(std::string_view text, const std::vector<std::string>& leaf_names);
/// Inside a longer text: reads as far as the program goes.
Scalar parse_scalar(TextReader& reader, const std::vector<std::string>& leaf_names);

/// The definition of a row over leaves a, b, c = 0, 1, 2; null where it has none. Parsed once,
/// valid for ever.
const Scalar* definition(Op op);
/// d result / d argument over leaves a, b, c, out = 0, 1, 2, 3; null where the row has none.
const Scalar* derivative(Op op, int argument);
/// Every op that has a definition replaced by it, down to primitive rows; rows whose definition is
/// less exact than `error` stay.
Scalar unfold(const Scalar& program, double error = 1);

/// The value over the reals, computed in double and never rounded to a type.
double evaluate_f64(const Scalar& program, const double* leaves);
Exact evaluate_exact(const Scalar& program, const Exact* leaves);
/// One row in the exact mode: its own rule, its definition, or an opaque function.
Exact apply_exact(Op op, const Exact* args);

/// A program with a type for each step: what interpreters and code generators run.
struct TypedScalar {
  struct Step {
    ScalarNode::Kind kind;
    Op op{};
    DType type = DType::f32;   // op: of the arguments (select: of the values);  cast: of the argument
    DType result = DType::f32; // of the step
    double value = 0;          // constant of a float type
    int64_t integer = 0;       // constant of an integer type
    int leaf = 0;
    int args[3] = {-1, -1, -1};
  };
  std::vector<Step> steps; // the last one is the result
  DType result() const { return steps.back().result; }
};
/// Throws Error when the types do not agree, or the result is not of type `result`.
TypedScalar typed(const Scalar& program, std::span<const DType> leaves, DType result);

} // namespace luminal
