// luminal/inspect.h -- the terms behind a graph: reading them one by one, and adding terms in text
// form (docs/terms.md).
#pragma once
#include "luminal/graph.h"
#include <utility>

namespace luminal {

/// How a value is made.
struct TermInfo {
  std::string op;             ///< "add", "view", "fold", "input", "call", ...: the word of the text form
  int result = 0;             ///< which result of a term that has several (fold, call, loop, ...)
  std::vector<Tensor> inputs; ///< what it is made from
  DType dtype = DType::f32;
  Dims shape;
  std::string name; ///< empty where nobody gave one
  std::string text; ///< the term in full: "fold [i: 2, j: 3] over [j] { sum %x[i, j] }"
};
TermInfo inspect(const Tensor& tensor, std::source_location where = std::source_location::current());
/// Every value of the graph, in the order in which they were made: inputs come before what is made
/// from them.
std::vector<Tensor> values(const Graph& graph, std::source_location where = std::source_location::current());
/// The input, weight or state of this name; throws Error where there is none.
Tensor find(const Graph& graph, const std::string& name,
            std::source_location where = std::source_location::current());

/// A value as the reference interpreter gives it: row-major, elements packed (two of 4 bits to a
/// byte, the even one in the low half).
struct ReferenceValue {
  DType dtype = DType::f32;
  std::vector<int64_t> shape;
  std::vector<std::byte> bytes;
  std::vector<double> numbers() const; ///< exact but for integers beyond 2^53
};
/// The meaning of these tensors of one graph, kept or not, for the present values of inputs,
/// weights, states and dimensions: term by term by the reference interpreter (docs/terms.md,
/// section 7), without a compile, and slow. Nothing is printed, and nothing of the graph changes.
std::vector<ReferenceValue> interpret(const std::vector<Tensor>& tensors,
                                      std::source_location where = std::source_location::current());

/// What the graph would need, compiled with these options: the plan is made as by a compile, without
/// machine code, and forgotten. Of several typical sizes the first ones count.
MemoryUse planned_memory(const Graph& graph, const CompileOptions& options = {},
                         std::source_location where = std::source_location::current());

/// Adds terms in text form; `inputs` are the names that the text may use, and it ends with what it
/// returns:
///   Tensor y = add_terms(g, "%y = view %x [i: 3, j: 2] -> [j, i]\nreturn y = %y", {{"x", x}})[0];
/// Dimensions of the graph are known by their names. Throws Error with line and column of a
/// mistake.
std::vector<Tensor> add_terms(Graph& graph, std::string_view text,
                              const std::vector<std::pair<std::string, Tensor>>& inputs,
                              std::source_location where = std::source_location::current());

} // namespace luminal
