// compile/search.h -- private: a search's summary as text.
#pragma once
#include "luminal/search.h"

namespace luminal::compile {

std::string to_string(const SearchSummary& summary); ///< some lines

/// Of the clock that searches go by.
double search_seconds();
/// These do not count for it: somebody else had the machine.
void leave_out(double seconds);

} // namespace luminal::compile
