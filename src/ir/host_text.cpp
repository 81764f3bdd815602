// ir/host_text.cpp -- the lines of print and diff.
#include "ir/host_text.h"
#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace luminal {

bool passes_input_on(std::string_view host_kind) {
  return host_kind == "print" || host_kind == "diff" || host_kind == "dump" || host_kind == "compare";
}

std::string element_text(DType type, const std::byte* data, int64_t index, int precision) {
  if (type == DType::boolean) return load_i64(type, data, index) ? "true" : "false";
  if (!is_float(type)) {
    const int64_t value = load_i64(type, data, index);
    return type == DType::u64 ? fmt::format("{}", uint64_t(value)) : fmt::format("{}", value);
  }
  const double value = load_f64(type, data, index);
  return std::isnan(value) ? "nan" : fmt::format("{:.{}g}", value, precision);
}

std::string printed_values(std::string_view label, DType type, std::span<const int64_t> shape,
                           const std::byte* data) {
  constexpr int64_t edge = 5; // values at each of three places
  int64_t count = 1;
  for (int64_t extent : shape) count *= extent;
  std::string out = fmt::format("{}{}{}", label, label.empty() ? "" : ": ", to_string(type));
  if (!shape.empty()) out += fmt::format("[{}]", fmt::join(shape, ", "));
  out += fmt::format(", {} value{}:", count, count == 1 ? "" : "s");
  auto values = [&](int64_t from, int64_t to) {
    for (int64_t i = from; i < to; ++i) out += " " + element_text(type, data, i);
  };
  if (count <= 3 * edge) {
    values(0, count);
    return out;
  }
  const int64_t middle = std::clamp<int64_t>(count / 2 - edge / 2, edge, count - 2 * edge);
  values(0, edge);
  out += " ...";
  values(middle, middle + edge);
  out += " ...";
  values(count - edge, count);
  return out;
}

std::string printed_difference(std::string_view label, DType type, int64_t count, const std::byte* a,
                               const std::byte* b) {
  double worst = 0;
  for (int64_t i = 0; i < count && !std::isnan(worst); ++i) {
    const double x = load_f64(type, a, i), y = load_f64(type, b, i);
    if (x == y || (std::isnan(x) && std::isnan(y))) continue;
    const double d = std::fabs(x - y);
    worst = std::isnan(d) ? d : std::max(worst, d);
  }
  return fmt::format("{}{}largest difference {:g}", label, label.empty() ? "" : ": ", worst);
}

} // namespace luminal
