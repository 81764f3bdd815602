// tensor/difference.cpp -- how two lists of numbers differ.
#include "tensor/effects.h"
#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <limits>
#include <ostream>

namespace luminal {
namespace {

constexpr size_t shown_places = 10;

struct Range {
  double low = std::numeric_limits<double>::infinity(), high = -low;
  void add(double x) {
    if (std::isnan(x)) return;
    low = std::min(low, x);
    high = std::max(high, x);
  }
  void put(double& to_low, double& to_high) const {
    const bool empty = low > high;
    to_low = empty ? 0 : low;
    to_high = empty ? 0 : high;
  }
};

double percentile(std::vector<float>& errors, double fraction) {
  if (errors.empty()) return 0;
  const auto at = long(std::ceil(fraction * double(errors.size()))) - 1;
  auto place = errors.begin() + std::clamp<long>(at, 0, long(errors.size()) - 1);
  std::nth_element(errors.begin(), place, errors.end());
  return *place;
}

std::vector<int64_t> index_of(int64_t flat, std::span<const int64_t> shape) {
  std::vector<int64_t> index(shape.size());
  for (size_t d = shape.size(); d-- > 0;) {
    index[d] = flat % shape[d];
    flat /= shape[d];
  }
  return index;
}

} // namespace

DiffReport difference(DType type, const std::byte* here, DType expected_type, const std::byte* expected,
                      std::span<const int64_t> shape, const DiffOptions& options) {
  DiffReport report;
  report.count = 1;
  for (int64_t extent : shape) report.count *= extent;
  Range ours, theirs;
  std::vector<float> errors;
  errors.reserve(size_t(report.count));
  double sum = 0, squares = 0;
  std::vector<std::pair<double, int64_t>> worst; // a heap: the least on top
  auto less_bad = [](const auto& a, const auto& b) {
    return a.first != b.first ? a.first > b.first : a.second < b.second;
  };
  for (int64_t i = 0; i < report.count; i++) {
    const double x = load_f64(type, here, i), y = load_f64(expected_type, expected, i);
    ours.add(x);
    theirs.add(y);
    report.nan_here += std::isnan(x);
    report.nan_expected += std::isnan(y);
    const bool same = x == y || (std::isnan(x) && std::isnan(y));
    const double error = same ? 0 : std::fabs(x - y);
    const double rank = std::isnan(error) ? std::numeric_limits<double>::infinity() : error;
    if (!same && !(error <= options.absolute + options.relative * std::fabs(y) && std::isfinite(error)))
      report.failed++;
    if (!same && (worst.size() < shown_places || rank > worst.front().first)) {
      worst.emplace_back(rank, i);
      std::push_heap(worst.begin(), worst.end(), less_bad);
      if (worst.size() > shown_places) {
        std::pop_heap(worst.begin(), worst.end(), less_bad);
        worst.pop_back();
      }
    }
    if (std::isnan(error) || (std::isnan(x) && std::isnan(y))) continue;
    errors.push_back(float(error));
    sum += error;
    squares += error * error;
    report.largest = std::max(report.largest, error);
    if (error > 0 && y != 0)
      report.largest_relative = std::max(report.largest_relative, error / std::fabs(y));
  }
  ours.put(report.low_here, report.high_here);
  theirs.put(report.low_expected, report.high_expected);
  if (!errors.empty()) {
    report.average = sum / double(errors.size());
    report.mean_squared = squares / double(errors.size());
  }
  report.percentile_50 = percentile(errors, 0.50);
  report.percentile_95 = percentile(errors, 0.95);
  report.percentile_99 = percentile(errors, 0.99);
  std::sort(worst.begin(), worst.end(), less_bad);
  for (auto [_, flat] : worst)
    report.worst.push_back(
        {index_of(flat, shape), load_f64(type, here, flat), load_f64(expected_type, expected, flat)});
  return report;
}

std::string to_string(const DiffReport& r, bool colour) {
  const char* begin = !colour ? "" : r.passed() ? "\033[32m" : "\033[31m";
  std::string out = fmt::format("{}{}{}{}{}", r.label, r.label.empty() ? "" : ": ", begin,
                                r.passed() ? fmt::format("equal within the tolerances, {} values", r.count)
                                           : fmt::format("{} of {} values differ", r.failed, r.count),
                                colour ? "\033[0m" : "");
  out += fmt::format("\n  NaN: {} here, {} expected", r.nan_here, r.nan_expected);
  out += fmt::format("\n  range: {:.6g} .. {:.6g} here, {:.6g} .. {:.6g} expected", r.low_here, r.high_here,
                     r.low_expected, r.high_expected);
  out += fmt::format("\n  error: average {:.3g}, largest {:.3g} (relative {:.3g}), mean squared {:.3g}",
                     r.average, r.largest, r.largest_relative, r.mean_squared);
  out += fmt::format("\n  percentiles: 50 % {:.3g}, 95 % {:.3g}, 99 % {:.3g}", r.percentile_50,
                     r.percentile_95, r.percentile_99);
  for (const auto& place : r.worst)
    out += fmt::format("\n  [{}]: {:.9g} here, {:.9g} expected", fmt::join(place.index, ", "), place.here,
                       place.expected);
  return out;
}
std::ostream& operator<<(std::ostream& out, const DiffReport& report) { return out << to_string(report); }

} // namespace luminal
