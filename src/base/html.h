// base/html.h -- text inside of HTML and SVG.
#pragma once
#include <string>
#include <string_view>

namespace luminal {

/// &, <, > and " as entities.
std::string html_escape(std::string_view text);

} // namespace luminal
