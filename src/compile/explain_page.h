// compile/explain_page.h -- an explanation (luminal/explain.h) as one page that needs no network.
#pragma once
#include "luminal/explain.h"

namespace luminal::compile {

/// A table of the kernels; a roofline; terms before and after; stages and schedules; and `graph`, a page of
/// its own (to_html of a module), in a frame.
std::string to_html(const Explanation& explanation, const std::string& title, const std::string& graph = {});

} // namespace luminal::compile
