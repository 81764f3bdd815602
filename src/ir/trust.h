// ir/trust.h -- which nodes of a module do more than compute: they run the author's machine code,
// or read and write files.
#pragma once
#include "ir/term.h"

namespace luminal {

/// "@main %y: custom pwn runs machine code of whoever wrote the module": the first node that does
/// more than values in and out (and print them), in functions that are called or not. None: the
/// module can harm nobody, whoever wrote it.
std::optional<std::string> foreign_code(const Module& module);

/// As parse_module, of a text from anybody: throws Error where it has foreign code, unless that is
/// allowed.
Module parse_module_from(std::string_view text, std::string_view file_name, bool allow_custom);

} // namespace luminal
