// ir/text_names.cpp -- names and numbers of the text form.
#include "ir/text_names.h"
#include "base/text_reader.h"
#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <set>

namespace luminal {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }

constexpr std::string_view alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

} // namespace

bool is_plain_name(std::string_view name) {
  if (name.empty() || !is_letter(name[0])) return false;
  for (size_t i = 0; i < name.size(); ++i) {
    bool inner_dot = name[i] == '.' && i > 0 && name[i - 1] != '.' && i + 1 < name.size();
    if (!is_letter(name[i]) && !is_digit(name[i]) && !inner_dot) return false;
  }
  return true;
}

bool is_axis_name(std::string_view name) {
  static const std::set<std::string_view> words{
      "and", "or",   "not",   "min",    "max",       "ceildiv", "inf",   "nan",   "where",  "fill", "with",
      "in",  "over", "along", "unique", "exclusive", "reverse", "error", "clamp", "return", "fn"};
  if (!is_plain_name(name) || words.contains(name)) return false;
  bool index = name.size() > 1 && (name[0] == 'i' || name[0] == 'h') &&
               std::all_of(name.begin() + 1, name.end(), is_digit);
  return !index;
}

IdVector<NodeId, std::string> node_names(const Function& function) {
  auto own = [](const Node& node) -> const std::string& {
    auto* input = std::get_if<InputAttr>(&node.attr);
    return node.name.empty() && input ? input->name : node.name;
  };
  std::map<std::string_view, int> uses;
  for (const Node& node : function.nodes) ++uses[own(node)];
  IdVector<NodeId, std::string> names;
  for (NodeId id : function.nodes.ids()) {
    const std::string& name = own(function.nodes[id]);
    names.push_back(is_plain_name(name) && uses[name] == 1 ? "%" + name : fmt::format("%{}", id));
  }
  return names;
}

std::vector<std::string> axis_names(const Function& function, const Node& node) {
  const Shape space = expression_space(function, node);
  std::set<std::string, std::less<>> taken; // dimension symbols in sight
  auto take = [&](std::span<const Expr> exprs) {
    for (Expr s : symbols_of(exprs)) taken.insert(std::string(s.name()));
  };
  take(space);
  if (auto* view = std::get_if<ViewAttr>(&node.attr)) take(view->map), take(std::array{view->predicate});
  if (auto* scatter = std::get_if<ScatterAttr>(&node.attr))
    take(scatter->map), take(std::array{scatter->predicate});
  if (auto* fold = std::get_if<FoldAttr>(&node.attr)) take(std::array{fold->where});
  if (auto* iota = std::get_if<IotaAttr>(&node.attr)) take(std::array{iota->value});
  if (auto* random = std::get_if<RandomAttr>(&node.attr)) take(std::array{random->counter});
  std::map<std::string_view, int> uses;
  for (const std::string& name : node.axis_names) ++uses[name];
  std::vector<std::string> names;
  for (size_t d = 0; d < space.size(); ++d) {
    bool good = d < node.axis_names.size() && is_axis_name(node.axis_names[d]) &&
                uses[node.axis_names[d]] == 1 && !taken.contains(node.axis_names[d]);
    names.push_back(good ? node.axis_names[d] : fmt::format("i{}", d));
  }
  return names;
}

std::string expression_text(Expr e, const Shape& space, const std::vector<std::string>& names) {
  return to_string(e, [&](Expr symbol) {
    for (size_t d = 0; d < space.size(); ++d)
      if (symbol == axis_symbol(int(d), space[d])) return names[d];
    return std::string(symbol.name());
  });
}

std::string number_text(double value) {
  std::string text = float_text(value);
  return text.ends_with(".0") ? text.substr(0, text.size() - 2) : text;
}

std::string base64(const std::vector<std::byte>& data) {
  std::string text;
  for (size_t i = 0; i < data.size(); i += 3) {
    uint32_t word = 0;
    for (size_t k = 0; k < 3; ++k) word = word << 8 | (i + k < data.size() ? uint32_t(data[i + k]) : 0);
    for (size_t k = 0; k < 4; ++k) text += k <= data.size() - i ? alphabet[word >> (18 - 6 * k) & 63] : '=';
  }
  return text;
}
bool from_base64(std::string_view text, std::vector<std::byte>& data) {
  if (text.size() % 4 != 0) return false;
  for (size_t i = 0; i < text.size(); i += 4) {
    uint32_t word = 0;
    size_t digits = 0;
    for (size_t k = 0; k < 4; ++k) {
      size_t at = alphabet.find(text[i + k]);
      bool padding = text[i + k] == '=' && i + 4 == text.size() && k >= 2;
      if (at == std::string_view::npos && !padding) return false;
      if (!padding && digits != k) return false; // a digit behind padding
      digits += !padding;
      word = word << 6 | (padding ? 0 : uint32_t(at));
    }
    for (size_t k = 0; k + 1 < digits; ++k) data.push_back(std::byte(word >> (16 - 8 * k) & 255));
    if (digits < 4 && (word & ((1u << (8 * (4 - digits))) - 1)) != 0)
      return false; // bits that belong to no byte
  }
  return true;
}

} // namespace luminal
