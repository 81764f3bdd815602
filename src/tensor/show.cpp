// tensor/show.cpp -- tensors and runs as text.
#include "luminal/debug.h"
#include "tensor/graph_state.h"
#include "tensor/values_text.h"
#include <algorithm>
#include <fmt/format.h>
#include <ostream>

namespace luminal {

double ExecutionTable::milliseconds() const {
  double total = 0;
  for (const StepCost& step : steps) total += step.milliseconds;
  return total;
}
int64_t ExecutionTable::bytes() const {
  int64_t total = 0;
  for (const StepCost& step : steps) total += step.bytes;
  return total;
}

std::string to_string(const ExecutionTable& table) {
  size_t width = 5;
  for (const StepCost& step : table.steps) width = std::max(width, step.name.size());
  std::string out =
      fmt::format("{:<{}}  {:>10}  {:>14}  {:>9}  {}\n", "step", width, "ms", "bytes", "GB/s", "shapes");
  auto line = [&](const std::string& name, double ms, int64_t bytes, const std::string& shapes) {
    const std::string speed = ms > 0 ? fmt::format("{:.2f}", double(bytes) / ms / 1e6) : "-";
    std::string text =
        fmt::format("{:<{}}  {:>10.4f}  {:>14}  {:>9}  {}", name, width, ms, bytes, speed, shapes);
    out += text.substr(0, text.find_last_not_of(' ') + 1) + "\n";
  };
  for (const StepCost& step : table.steps) line(step.name, step.milliseconds, step.bytes, step.shapes);
  line("total", table.milliseconds(), table.bytes(), "");
  return out;
}
std::ostream& operator<<(std::ostream& out, const ExecutionTable& table) { return out << to_string(table); }

std::string to_string(const Tensor& tensor, const PrintOptions& options) {
  if (!tensor.defined()) return "empty tensor";
  const GraphState& g = *tensor.graph();
  const Node& node = g.builder[node_id(tensor)];
  const std::string name = node.kind == NodeKind::input ? std::get<InputAttr>(node.attr).name : node.name;
  auto headed = [&](const std::string& type) { return name.empty() ? type : name + ": " + type; };
  try {
    const ReadableValue value = readable_value("to_string", tensor, Where::current());
    const Dims extents = to_dims({value.extents.begin(), value.extents.end()});
    return fmt::format(
        "{}  # {}", values_text(node.type().dtype, value.extents, value.bytes, options),
        headed(fmt::format("{}{}", to_string(node.type().dtype), extents.empty() ? "" : to_string(extents))));
  } catch (const Error&) { // there is no value: what it is, not what it holds
    std::string type = to_string(node.type());
    try {
      const std::vector<int64_t> present = present_shape("to_string", g, node.type().shape, Where::current());
      const std::string numbers = to_string(to_dims({present.begin(), present.end()}));
      if (!present.empty() && numbers != text_of(node.type().shape)) type += " = " + numbers;
    } catch (const Error&) { // dimensions without a size stay names
      return headed(type);
    }
    return headed(type);
  }
}
std::ostream& operator<<(std::ostream& out, DType type) { return out << to_string(type); }
std::ostream& operator<<(std::ostream& out, const Tensor& tensor) { return out << to_string(tensor); }

} // namespace luminal
