// ir/partition_text.cpp -- partitions as text and back.
#include "base/text_reader.h"
#include "ir/partition.h"
#include "ir/text_names.h"
#include <charconv>
#include <fmt/format.h>
#include <map>

namespace luminal {

std::string to_string(const Partition& partition, const Function& function) {
  const IdVector<NodeId, std::string> names = node_names(function);
  std::string text = fmt::format("partition @{} {{\n", function.name);
  for (const auto& kernel : partition.kernels) {
    text += "  kernel ";
    for (size_t i = 0; i < kernel.size(); i++) text += (i ? ", " : "") + names.at(kernel[i]);
    text += '\n';
  }
  return text + "}\n";
}

Partition parse_partition(std::string_view text, const Function& function, std::string_view file_name) {
  TextReader reader(text, std::string(file_name));
  std::map<std::string, NodeId, std::less<>> by_name;
  const IdVector<NodeId, std::string> names = node_names(function);
  for (NodeId id : names.ids()) by_name.emplace(names[id].substr(1), id);
  const auto value = [&] {
    const Token token = reader.peek();
    const std::string_view name = reader.expect_value_name("the %name of a value");
    if (const auto found = by_name.find(name); found != by_name.end()) return found->second;
    uint32_t number = 0;
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
    if (error != std::errc{} || end != name.data() + name.size() || !function.nodes.has(NodeId(number)))
      reader.fail_at(token, fmt::format("@{} has no value %{}", function.name, name));
    return NodeId(number);
  };
  reader.expect("partition");
  const Token of = reader.peek();
  if (const auto name = reader.expect_global_name("the @name of a function"); name != function.name)
    reader.fail_at(of, fmt::format("the partition is for @{}, the function is @{}", name, function.name));
  Partition partition;
  reader.expect("{");
  while (!reader.accept("}")) {
    reader.expect("kernel");
    auto& kernel = partition.kernels.emplace_back();
    do kernel.push_back(value());
    while (reader.accept(","));
  }
  reader.expect_end();
  return partition;
}

} // namespace luminal
