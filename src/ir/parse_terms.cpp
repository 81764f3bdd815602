// ir/parse_terms.cpp -- modules from text.
#include "ir/term_parser.h"

namespace luminal {

Module parse_module(std::string_view text, std::string_view file_name) {
  return TermParser(text, file_name).run();
}

} // namespace luminal
