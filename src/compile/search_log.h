// compile/search_log.h -- private: the log of a search, opened, held against what is searched, and written.
#pragma once
#include "compile/compile.h"

namespace luminal::compile {

/// What options.search.log asks for becomes options.log; of one that is replayed, the options are those of
/// the search that wrote it: its mode, budget, filter and profile of the machine. Failure, in one line: the
/// log cannot be read, or is of another build, machine or number of threads.
Result<void> open_search_log(Options& options);
/// Writes the file where one is asked for. Failure: it cannot be written, or the log has answers left over.
Result<void> close_search_log(const Options& options);

/// A search of this module begins: the tuning cache that it uses. Throws Error where a log is replayed that
/// is of another one.
std::shared_ptr<search::TuningCache> begin_search(search::MeasureLog& log, const Module& module,
                                                  const Options& options);

} // namespace luminal::compile
