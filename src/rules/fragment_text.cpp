// rules/fragment_text.cpp -- fragments written and read, and checked while they are read.
#include "rules/fragment_text.h"
#include "base/text.h"
#include "egraph/types.h"
#include "luminal/error.h"
#include <algorithm>
#include <charconv>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <set>

namespace luminal::rules {

using egraph::absent;

namespace {
/// A dimension that has one size is its name here and the number there.
bool same_types(const std::vector<TensorType>& a, const std::vector<TensorType>& b) {
  return std::ranges::equal(a, b, [](const TensorType& x, const TensorType& y) {
    return x.dtype == y.dtype &&
           std::ranges::equal(x.shape, y.shape, [](Expr m, Expr n) { return proves_equal(m, n); });
  });
}
} // namespace

struct FragmentText {
  const Fragment& fragment;
  const Module& module;

  std::optional<std::string> write() const {
    const size_t count = fragment.nodes_.size();
    IdVector<NodeId, bool> needed(count);
    for (const auto& [node, made] : fragment.roots_) needed[made] = true;
    for (NodeId id : needed.ids_down())
      if (needed[id])
        for (const NodeId in : fragment.nodes_[id].inputs) needed[in] = true;
    Module terms{module.symbols, module.assumptions, {}};
    Function& f = terms.functions.emplace_back();
    f.name = "fragment";
    IdVector<NodeId, NodeId> number(count);
    std::vector<NodeId> leaves;
    for (const auto& [made, node] : fragment.leaf_list_) {
      if (!needed[made]) continue;
      const Node& leaf = fragment.nodes_[made];
      if (leaf.types.size() != 1) return {};
      number[made] = f.nodes.end_id();
      const std::string name = fmt::format("l{}", f.nodes.size());
      f.params.push_back(number[made]);
      f.nodes.push_back(
          {NodeKind::input, InputAttr{name, Role::argument, leaf.type()}, {}, leaf.types, {}, {}, {}});
      leaves.push_back(node);
    }
    for (NodeId id : number.ids()) {
      if (!needed[id] || number[id]) continue;
      Node node = fragment.nodes_[id];
      for (NodeId& in : node.inputs) in = number[in];
      node.name.clear();
      number[id] = f.nodes.add(std::move(node));
    }
    std::string lines = fmt::format("leaves {}\n", fmt::join(leaves, " "));
    for (size_t k = 0; k < fragment.roots_.size(); ++k) {
      const auto& [node, made] = fragment.roots_[k];
      f.results.push_back({fmt::format("r{}", k), number[made], {}, {}});
      lines += fmt::format("root {}\n", node);
    }
    for (const auto& n : fragment.names_)
      if (needed[n.made]) lines += fmt::format("name {} {} {}\n", number[n.made], n.node, int(n.with_axes));
    for (const auto& kernel : fragment.kernels_) {
      std::vector<NodeId> values;
      for (const NodeId value : kernel)
        if (needed[value]) values.push_back(number[value]);
      if (!values.empty()) lines += fmt::format("kernel {}\n", fmt::join(values, " "));
    }
    for (const NodeId id : fragment.open_)
      if (needed[id]) lines += fmt::format("open {}\n", number[id]);
    if (fragment.decided_) lines += "decided\n";
    // Constants beyond what the text form writes out, and functions that are not there, stay apart.
    const std::string text = to_string(terms);
    try {
      if (!same_module(parse_module(text), terms)) return {};
    } catch (const Error&) {
      return {};
    }
    return fmt::format("{}{}{}", text, end, lines);
  }

  static std::optional<Fragment> read(std::string_view text, const Module& module,
                                      std::span<const NodeId> roots) {
    const size_t at = text.find(end);
    if (at == std::string_view::npos) return {};
    const Function& function = module.entry();
    Fragment out(function);
    Module terms;
    try {
      terms = parse_module(text.substr(0, at), "kept region");
    } catch (const Error&) {
      return {};
    }
    if (terms.functions.size() != 1 || terms.symbols != module.symbols ||
        terms.assumptions != module.assumptions || !verify(terms).empty())
      return {};
    const Function& f = terms.entry();
    IdVector<NodeId, NodeId> made(f.nodes.size());
    std::set<NodeId> given;
    size_t next_root = 0;
    bool nodes_there = false;
    const auto put_nodes = [&](const std::vector<NodeId>& leaves) {
      if (nodes_there || leaves.size() != f.params.size()) return false;
      for (size_t k = 0; k < leaves.size(); ++k) {
        if (!function.nodes.has(leaves[k]) || !same_types(f[f.params[k]].types, function[leaves[k]].types))
          return false;
        made[f.params[k]] = out.leaf(leaves[k]);
      }
      for (NodeId id : f.nodes.ids()) {
        if (made[id]) continue;
        Node node = f[id];
        if (node.kind == NodeKind::input) return false;
        node.name.clear();
        node.axis_names.clear();
        for (NodeId& in : node.inputs) in = made[in];
        made[id] = out.put(std::move(node));
      }
      return nodes_there = true;
    };
    for (const std::string_view line : split(text.substr(at + end.size()), '\n')) {
      if (line.empty()) continue;
      const std::string_view word = line.substr(0, line.find(' '));
      std::vector<NodeId> numbers;
      if (!read_numbers(line.substr(word.size()), numbers)) return {};
      if (word == "leaves") {
        if (!put_nodes(numbers)) return {};
        continue;
      }
      if (!nodes_there) return {};
      const auto is_made = [&](NodeId id) { return made.has(id); };
      if (word == "root") {
        if (numbers.size() != 1 || next_root == f.results.size() || !function.nodes.has(numbers[0]))
          return {};
        const NodeId value = f.results[next_root++].value;
        if (!same_types(f[value].types, function[numbers[0]].types)) return {};
        out.root(numbers[0], made[value]);
        given.insert(numbers[0]);
      } else if (word == "name") {
        if (numbers.size() != 3 || !is_made(numbers[0]) || !function.nodes.has(numbers[1])) return {};
        out.name(made[numbers[0]], numbers[1], numbers[2] != NodeId(0));
      } else if (word == "kernel" || word == "open") {
        if (numbers.empty() || !std::ranges::all_of(numbers, is_made)) return {};
        for (NodeId& id : numbers) id = made[id];
        if (word == "open")
          for (const NodeId id : numbers) out.open(id);
        else
          out.kernel(std::move(numbers));
      } else if (word == "decided") {
        out.decide();
      } else {
        return {};
      }
    }
    if (!nodes_there || next_root != f.results.size() ||
        given != std::set<NodeId>(roots.begin(), roots.end()))
      return {};
    return out;
  }

private:
  static constexpr std::string_view end = "---\n";

  static bool read_numbers(std::string_view text, std::vector<NodeId>& out) {
    for (const std::string_view part : split(text, ' ')) {
      if (part.empty()) continue;
      uint32_t number = 0;
      const auto [rest, error] = std::from_chars(part.data(), part.data() + part.size(), number);
      if (error != std::errc() || rest != part.data() + part.size()) return false;
      out.push_back(NodeId(number));
    }
    return true;
  }
};

std::optional<std::string> fragment_text(const Fragment& fragment, const Module& module) {
  return FragmentText{fragment, module}.write();
}

std::optional<Fragment> read_fragment(std::string_view text, const Module& module,
                                      std::span<const NodeId> roots) {
  return FragmentText::read(text, module, roots);
}

} // namespace luminal::rules
