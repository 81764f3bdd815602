// train/run_files.h -- what a run leaves behind: metrics.csv, metrics.jsonl, TensorBoard's events,
// loss.svg; and its line on the terminal.
#pragma once
#include "luminal/train.h"
#include <cstdio>

namespace luminal::train {

/// Appends to the files of a run. A run that continues cuts off what lies behind its first step.
class RunFiles {
public:
  /// Throws Error where the folder holds a run and `continues` is false, or a file cannot be written.
  RunFiles(const std::string& folder, const std::vector<std::string>& metrics, int64_t first_step,
           bool continues, std::source_location where);
  ~RunFiles();
  RunFiles(const RunFiles&) = delete;
  void add(const StepRecord& record);
  void add(const ValidationRecord& record);
  void plot() const; ///< loss.svg anew

private:
  void take_over(const std::string& csv, const std::string& jsonl, int64_t first_step);
  void row(int64_t step, const std::vector<std::pair<std::string, double>>& values);
  std::FILE* open(const std::string& name, const char* mode) const;
  std::string folder_;
  std::vector<std::string> columns_; // of metrics.csv, behind `step`
  std::string rows_, lines_;         // of the part of the run that stays
  std::source_location where_;
  std::FILE *csv_ = nullptr, *jsonl_ = nullptr, *events_ = nullptr;
  std::vector<std::pair<double, double>> loss_, validation_; // step and loss
};

/// The records of TensorBoard's event files (TFRecord with CRC-32C around protobuf's Event).
std::string event_version(double seconds);
std::string event_scalar(double seconds, int64_t step, const std::string& tag, double value);

/// Two curves over steps as a picture.
std::string loss_svg(const std::vector<std::pair<double, double>>& loss,
                     const std::vector<std::pair<double, double>>& validation);

/// "step 120/2000 loss 1.234 lr 3.0e-04 gnorm 0.91 41.2 ms/step 1553 samples/s mem 1.20 GiB eta 1 min 17 s"
std::string progress_line(const StepRecord& record, int64_t steps, double samples_a_step);

} // namespace luminal::train
