// compile/search_options.h -- options of searches in tests: what they keep lies in a folder of the test.
#pragma once
#include "base/thread_pool.h"
#include "compile/compile.h"
#include "search/problem_support.h"
#include <memory>

namespace luminal::compile {

inline Options options_in(const search::ScratchFolder& folder, std::shared_ptr<search::TuningCache> cache,
                          ThreadPool& pool) {
  Options options = Options::host(pool.size());
  options.cache = false;
  options.pool = &pool;
  options.tuning = std::move(cache);
  options.worker = search::worker_processes;
  options.reproducers = folder.file("reproducers");
  options.measure_lock = folder.file("lock");
  return options;
}

} // namespace luminal::compile
