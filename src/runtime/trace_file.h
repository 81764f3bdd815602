// runtime/trace_file.h -- where the steps of all runs of the process are recorded, when LUMINAL_TRACE names a
// file: trace events that Chrome's tracing page and Perfetto read.
#pragma once
#include "runtime/context.h"
#include <cstdio>
#include <mutex>
#include <span>
#include <string>

namespace luminal::runtime {

/// The format is a JSON array whose end may be missing, so that each run appends to the file, and a process
/// that is killed leaves what it has done. Safe for several contexts at once.
class TraceFile {
public:
  /// The file that LUMINAL_TRACE names; null: there is none, or it cannot be written, which is said once.
  static TraceFile* of_process();

  explicit TraceFile(std::FILE* file) : file_(file) {}
  TraceFile(const TraceFile&) = delete;
  ~TraceFile();
  /// Events of one run, and the run itself: begin and end in ns.
  void add(std::span<const TraceEvent> events, int64_t begin_ns, int64_t end_ns);

private:
  std::FILE* file_;
  std::mutex mutex_;
  int64_t runs_ = 0;
};

/// Trace events as JSON objects, one a line, each with a comma behind it: what workers did and what they
/// waited for, in rows by worker.
std::string trace_lines(std::span<const TraceEvent> events);

} // namespace luminal::runtime
