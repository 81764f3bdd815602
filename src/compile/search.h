// compile/search.h -- private: a search's summary as text.
#pragma once
#include "luminal/search.h"

namespace luminal::compile {

std::string to_string(const SearchSummary& summary); ///< some lines

} // namespace luminal::compile
