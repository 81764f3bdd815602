// cli/rule_options.h -- the options that choose rules, of verbs that compile.
#pragma once
#include <CLI/CLI.hpp>

namespace luminal::cli {

/// --rules and --forbid-rule: for all that this process compiles.
void add_rule_options(CLI::App& verb);

} // namespace luminal::cli
