// cli/rule_options.h -- the options of verbs that compile that choose rules, and a plan.
#pragma once
#include <CLI/CLI.hpp>

namespace luminal::cli {

/// --rules, --forbid-rule and --max-error: for all that this process compiles.
void add_rule_options(CLI::App& verb);
/// --plan: likewise.
void add_plan_option(CLI::App& verb);

} // namespace luminal::cli
