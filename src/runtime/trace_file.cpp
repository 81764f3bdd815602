// runtime/trace_file.cpp -- runs as trace events:
// https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU (Trace Event Format).
#include "runtime/trace_file.h"
#include "base/log.h"
#include "base/settings.h"
#include "base/text.h"
#include <cerrno>
#include <cstring>
#include <fmt/format.h>
#include <memory>

namespace luminal::runtime {
namespace {

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    if (static_cast<unsigned char>(c) < 0x20)
      out += fmt::format("\\u{:04x}", int(c));
    else
      out += c;
  }
  return out + '"';
}

std::string span_line(const std::string& name, int row, int64_t begin_ns, int64_t duration_ns,
                      const std::string& arguments) {
  return fmt::format("{{\"name\":{},\"ph\":\"X\",\"pid\":0,\"tid\":{},\"ts\":{:.3f},\"dur\":{:.3f}{}}},\n",
                     quoted(name), row, double(begin_ns) / 1000, double(duration_ns) / 1000, arguments);
}

/// What a step reads and writes: "x f32[2, 3], v7 f32[3]".
std::string operands_of(const TraceEvent& event) {
  std::string text;
  for (const HostValue& value : event.operands) {
    text += fmt::format("{}{} {}[", text.empty() ? "" : ", ", value.name, to_string(value.dtype));
    for (size_t i = 0; i < value.shape.size(); i++)
      text += fmt::format("{}{}", i ? ", " : "", value.shape[i]);
    text += "]";
  }
  return text;
}

std::unique_ptr<TraceFile> opened() {
  const std::string path = setting_text("LUMINAL_TRACE");
  if (path.empty()) return nullptr;
  std::FILE* file = std::fopen(path.c_str(), "w");
  if (file == nullptr) {
    log_warning("LUMINAL_TRACE: {} cannot be written: {}", path, std::strerror(errno));
    return nullptr;
  }
  return std::make_unique<TraceFile>(file);
}

} // namespace

std::string trace_lines(std::span<const TraceEvent> events) {
  std::string out;
  for (const TraceEvent& event : events) {
    if (event.name.empty()) continue; // the run was stopped before it
    if (event.waited_ns > 0)
      out += span_line("wait", event.member, event.begin_ns - event.waited_ns, event.waited_ns, "");
    int64_t bytes = 0;
    for (const HostValue& value : event.operands) bytes += int64_t(value.bytes.size());
    const std::string arguments =
        event.operands.empty()
            ? ""
            : fmt::format(",\"args\":{{\"operands\":{},\"bytes\":{}}}", quoted(operands_of(event)), bytes);
    out += span_line(event.name, event.member, event.begin_ns, event.duration_ns, arguments);
  }
  return out;
}

TraceFile* TraceFile::of_process() {
  // Never destroyed before the contexts of other static objects.
  static TraceFile* const file = opened().release();
  return file;
}

TraceFile::~TraceFile() {
  if (file_ != nullptr) std::fclose(file_);
}

void TraceFile::add(std::span<const TraceEvent> events, int64_t begin_ns, int64_t end_ns) {
  const std::lock_guard lock(mutex_);
  std::string text = runs_ == 0 ? "[\n" : "";
  text += span_line(fmt::format("run {}", ++runs_), -1, begin_ns, end_ns - begin_ns, "");
  text += trace_lines(events);
  if (file_ == nullptr) return; // it was full
  const bool written = std::fwrite(text.data(), 1, text.size(), file_) == text.size();
  if (written && std::fflush(file_) == 0) return; // what is written stays when the process is killed
  log_warning("LUMINAL_TRACE: {}: no more runs are recorded", std::strerror(errno));
  std::fclose(file_);
  file_ = nullptr;
}

} // namespace luminal::runtime
