// rules/fragment_text.h -- a fragment as text and back, for keeping it on disk: its nodes in the text form of
// terms, then a line for each thing that is said of them.
#pragma once
#include "rules/fragment.h"
#include <optional>
#include <string>
#include <string_view>

namespace luminal::rules {

/// Nothing where the text form cannot say it: leaves that are tuples, functions that the module does not
/// have. `module`: of the function that the fragment stands for, with its symbols.
std::optional<std::string> fragment_text(const Fragment& fragment, const Module& module);

/// What fragment_text wrote for a function of equal structure. Nothing where the text is not one, is not
/// well formed, or does not fit the function: types of its leaves and roots.
std::optional<Fragment> read_fragment(std::string_view text, const Module& module,
                                      std::span<const NodeId> roots);

} // namespace luminal::rules
