// cli/search_program.h -- a program of a file, searched: what `luminal tune` and `luminal replay` share.
#pragma once
#include "cli/program_graph.h"
#include "luminal/rules.h"
#include "search/tuning_cache.h"

namespace luminal::cli {

struct SearchedProgram {
  SearchSummary summary;
  std::string report;
  std::shared_ptr<search::TuningCache> cache; // that results went to
  std::string plan;                           // its file's text
};
/// A model, or a module of terms.
SearchedProgram search_program(const GraphArguments& arguments, const SearchOptions& search, bool strict);

/// For the head of a log: a JSON object with all that search_program needs beside the search, and rules.
std::string about_program(const GraphArguments& arguments);
/// The same back; throws Error where it is something else. `rules`: those beside the built-in ones.
GraphArguments program_about(const std::string& about, RuleChoice& rules);

} // namespace luminal::cli
