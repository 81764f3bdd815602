// egg/egg_view.h -- drawings of an e-graph around one class: for Graphviz, and as a page to click
// through.
#pragma once
#include "egg/egg_program.h"

namespace luminal::egraph {

/// The rows nearest to the class, at most `most` of them, grouped by class; the cheapest of each
/// class is marked. A line says how many rows that can be reached from the class are not shown.
std::string view_dot(EggProgram& program, EggValue focus, size_t most = 200);

/// The same as a page without outside parts: the class first, costs and the rule behind each row; a
/// click on a row leads to the classes of its arguments.
std::string view_html(EggProgram& program, EggValue focus, size_t most = 5000);

} // namespace luminal::egraph
