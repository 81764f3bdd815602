// train/run_files.cpp -- tables of a run, and the line on the terminal.
#include "train/run_files.h"
#include "base/file.h"
#include "base/text.h"
#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstring>
#include <fmt/format.h>
#include <sys/resource.h>

namespace luminal::train {
namespace {

double wall_seconds() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

/// JSON has neither NaN nor infinities.
std::string json_number(double value) { return std::isfinite(value) ? fmt::format("{}", value) : "null"; }

} // namespace

std::FILE* RunFiles::open(const std::string& name, const char* mode) const {
  std::FILE* file = std::fopen((folder_ + "/" + name).c_str(), mode);
  if (!file) throw Error("Trainer", fmt::format("{}/{}: {}", folder_, name, std::strerror(errno)), where_);
  return file;
}

RunFiles::RunFiles(const std::string& folder, const std::vector<std::string>& metrics, int64_t first_step,
                   bool continues, std::source_location where)
    : folder_(folder), columns_{"loss", "learning_rate", "gradient_norm", "milliseconds"}, where_(where) {
  columns_.insert(columns_.end(), metrics.begin(), metrics.end());
  columns_.emplace_back("validation_loss");
  for (const std::string& name : metrics) columns_.push_back("validation_" + name);
  const std::string csv = folder + "/metrics.csv", jsonl = folder + "/metrics.jsonl";
  if (!continues && file_exists(csv))
    throw Error("Trainer", fmt::format("{} holds a run already: resume it, or choose another folder", folder),
                where);
  if (auto made = make_folder_of(csv); !made) throw Error("Trainer", made.error(), where);
  rows_ = "step," + join(columns_, ",") + "\n";
  if (continues) take_over(csv, jsonl, first_step);
  if (auto written = write_file(csv, rows_); !written) throw Error("Trainer", written.error(), where);
  if (auto written = write_file(jsonl, lines_); !written) throw Error("Trainer", written.error(), where);
  csv_ = open("metrics.csv", "a");
  jsonl_ = open("metrics.jsonl", "a");
  const double now = wall_seconds();
  events_ = open(fmt::format("events.out.tfevents.{}.luminal.{}", int64_t(now), first_step), "ab");
  const std::string version = event_version(now);
  std::fwrite(version.data(), 1, version.size(), events_);
}

/// What an interrupted run wrote behind its checkpoint is done again.
void RunFiles::take_over(const std::string& csv, const std::string& jsonl, int64_t first_step) {
  const auto step_of = [](std::string_view text) {
    int64_t step = 0;
    for (char c : text) step = c >= '0' && c <= '9' ? step * 10 + (c - '0') : step;
    return step;
  };
  const std::string old = file_exists(csv) ? read_file(csv).value() : rows_;
  if (!old.starts_with(rows_))
    throw Error("Trainer", fmt::format("{} has other columns than this training: choose another folder", csv),
                where_);
  const auto whole = [](std::string_view text) { return text.substr(0, text.rfind('\n') + 1); };
  const auto number = [](std::string_view text) { return std::strtod(std::string(text).c_str(), nullptr); };
  const auto place =
      size_t(std::find(columns_.begin(), columns_.end(), "validation_loss") - columns_.begin()) + 1;
  for (const std::string_view line : split(whole(std::string_view(old).substr(rows_.size())), '\n')) {
    const std::vector<std::string_view> fields = split(line, ',');
    if (fields.size() != columns_.size() + 1 || step_of(fields[0]) > first_step) continue;
    rows_ += std::string(line) + "\n";
    if (!fields[1].empty()) loss_.emplace_back(double(step_of(fields[0])), number(fields[1]));
    if (!fields[place].empty()) validation_.emplace_back(double(step_of(fields[0])), number(fields[place]));
  }
  const std::string old_lines = file_exists(jsonl) ? read_file(jsonl).value() : "";
  for (const std::string_view line : split(whole(old_lines), '\n'))
    if (line.starts_with("{\"step\": ") && step_of(line.substr(0, line.find(','))) <= first_step)
      lines_ += std::string(line) + "\n";
}

RunFiles::~RunFiles() {
  for (std::FILE* file : {csv_, jsonl_, events_})
    if (file) std::fclose(file);
}

void RunFiles::row(int64_t step, const std::vector<std::pair<std::string, double>>& values) {
  const double now = wall_seconds();
  std::string json = fmt::format("{{\"step\": {}", step);
  std::string cells = fmt::format("{}", step);
  for (const std::string& column : columns_) {
    cells += ',';
    for (const auto& [name, value] : values)
      if (name == column) cells += fmt::format("{}", value);
  }
  fmt::print(csv_, "{}\n", cells);
  for (const auto& [name, value] : values) {
    json += fmt::format(", \"{}\": {}", json_escape(name), json_number(value));
    const std::string event = event_scalar(now, step, name, value);
    std::fwrite(event.data(), 1, event.size(), events_);
  }
  fmt::print(jsonl_, "{}}}\n", json);
  // A reader beside the run sees each row; a disk without room ends the run.
  for (std::FILE* file : {csv_, jsonl_, events_})
    if (std::fflush(file) != 0 || std::ferror(file))
      throw Error(
          "Trainer",
          fmt::format("{}: the records of the run cannot be written: {}", folder_, std::strerror(errno)),
          where_);
}

void RunFiles::add(const StepRecord& r) {
  std::vector<std::pair<std::string, double>> values{{"loss", r.loss},
                                                     {"learning_rate", r.learning_rate},
                                                     {"gradient_norm", r.gradient_norm},
                                                     {"milliseconds", r.milliseconds}};
  values.insert(values.end(), r.metrics.begin(), r.metrics.end());
  row(r.step, values);
  loss_.emplace_back(double(r.step), r.loss);
}
void RunFiles::add(const ValidationRecord& r) {
  std::vector<std::pair<std::string, double>> values{{"validation_loss", r.loss}};
  for (const auto& [name, value] : r.metrics) values.emplace_back("validation_" + name, value);
  row(r.step, values);
  validation_.emplace_back(double(r.step), r.loss);
}

void RunFiles::plot() const {
  if (auto written = write_file(folder_ + "/loss.svg", loss_svg(loss_, validation_)); !written)
    throw Error("Trainer", written.error(), where_);
}

std::string progress_line(const StepRecord& r, int64_t steps, double samples) {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
#ifdef __APPLE__
  const auto peak = uint64_t(usage.ru_maxrss);
#else
  const auto peak = uint64_t(usage.ru_maxrss) * 1024;
#endif
  std::string text = fmt::format("step {}/{} loss {:.4g} lr {:.2e} gnorm {:.3g}", r.step, steps, r.loss,
                                 r.learning_rate, r.gradient_norm);
  for (const auto& [name, value] : r.metrics) text += fmt::format(" {} {:.4g}", name, value);
  const double rate = samples * 1000 / r.milliseconds;
  text +=
      fmt::format(" {:.1f} ms/step {} samples/s mem {}", r.milliseconds,
                  rate < 10 ? fmt::format("{:.2g}", rate) : human_count(std::round(rate)), human_bytes(peak));
  if (r.step < steps) text += " eta " + human_time(double(steps - r.step) * r.milliseconds / 1000);
  return r.skipped ? text + " (skipped: a gradient is not finite)" : text;
}

} // namespace luminal::train
