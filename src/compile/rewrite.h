// compile/rewrite.h -- rewrites of whole functions that need no search: inlining, and forms that
// later passes need not know.
#pragma once
#include "ir/term.h"
#include <functional>
#include <optional>

namespace luminal::compile {

/// May give the copy of a node itself, made from copies of the nodes before it (for a tuple: the
/// values that its `get`s become).
using Replace = std::function<bool(FunctionBuilder& target, NodeId id, const IdVector<NodeId, NodeId>& copies,
                                   std::vector<NodeId>& values)>;

/// Copies a function node by node. `made`: what stands for each node that its results need.
Function rebuild(const Module& module, const Function& function, const Replace& replace,
                 IdVector<NodeId, NodeId>* made = nullptr);

/// Copies the nodes of `source` that its results need into `target`; params[i] stands for the i-th
/// parameter. Returns the copies of the results.
std::vector<NodeId> copy_into(FunctionBuilder& target, const Function& source,
                              const std::vector<NodeId>& params);

/// A module whose entry has no `call`: callees are copied in, deepest first.
Function inline_calls(const Module& module, const Function& function);

/// Why the entry of a module cannot be compiled with all calls inlined, if so: the text of an
/// error.
std::optional<std::string> too_much_to_inline(const Module& module);

/// A module whose entry has no `sort` (see compile/expand_sort.h), and no collective of one member.
Function expand_sorts(const Module& module, const Function& function);

/// Would inline_calls change it? Would expand_sorts?
bool has_calls(const Function& function);
bool has_sorts(const Function& function);

/// A function in which views without elements read a constant: the index of one may lie anywhere (an empty
/// slice begins behind the last element), and later passes take indices for places. A scatter without values
/// is its base: nobody asks for the integers of its holes.
Function empty_views_of_constants(const Module& module, const Function& function);
/// Would it change it?
bool has_empty_views(const Function& function);

/// Would split_tuples change it?
bool splits_tuples(const Function& function);
/// Without folds and scans whose components run over different axes and do not read each other.
Function split_tuples(const Module& module, const Function& function);

} // namespace luminal::compile
