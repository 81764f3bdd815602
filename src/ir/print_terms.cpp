// ir/print_terms.cpp -- a module as text; docs/terms.md has the grammar. parse.cpp reads it back to
// an equal module.
#include "base/hash.h"
#include "base/text_reader.h"
#include "ir/infer.h"
#include "ir/text_names.h"
#include <cmath>
#include <fmt/format.h>

namespace luminal {
namespace {

constexpr int64_t most_numbers_in_text = 64;
constexpr size_t line_width = 100;

std::string range_text(Interval range) {
  auto end = [](int64_t v) {
    return v == unbounded_low ? "-inf" : v == unbounded_high ? "inf" : fmt::format("{}", v);
  };
  return fmt::format("{}..{}", end(range.low), end(range.high));
}
std::string name_or_string(std::string_view name) {
  return is_plain_name(name) ? std::string(name) : quoted(name);
}

class FunctionPrinter {
public:
  explicit FunctionPrinter(const Function& f) : f_(f), names_(node_names(f)) {}

  std::string run() {
    std::string text = header();
    for (NodeId id : f_.nodes.ids()) {
      const Node& node = f_.nodes[id];
      if (node.kind == NodeKind::input) continue;
      text += fmt::format("  {} = {}  # {}\n", names_[id], body(node), types(node.types));
    }
    return text + results() + "}\n";
  }

  IdVector<NodeId, std::string> texts() {
    IdVector<NodeId, std::string> list;
    for (const Node& node : f_.nodes)
      list.push_back(node.kind == NodeKind::input ? to_string(node.type()) : body(node));
    return list;
  }

private:
  std::string header() const {
    std::vector<std::string> params;
    size_t width = 0;
    for (NodeId p : f_.params) {
      const auto& input = std::get<InputAttr>(f_[p].attr);
      std::string text = input.role == Role::weight ? "weight " : input.role == Role::state ? "state " : "";
      text += names_[p];
      if (names_[p] != "%" + input.name) text += " " + quoted(input.name);
      text += ": " + to_string(input.type);
      if (!input.device.empty()) text += " on " + name_or_string(input.device);
      params.push_back(std::move(text));
      width += params.back().size() + 2;
    }
    std::string text = "fn @" + f_.name + "(", separator = width > line_width ? ",\n    " : ", ";
    if (width > line_width) text += "\n    ";
    for (size_t i = 0; i < params.size(); ++i) text += (i ? separator : "") + params[i];
    return text + ") {\n";
  }
  std::string results() const {
    std::string text = "  return";
    for (size_t i = 0; i < f_.results.size(); ++i) {
      const FunctionResult& r = f_.results[i];
      text += fmt::format("{} {} = {}", i ? "," : "", name_or_string(r.name), names_[r.value]);
      if (!r.state.empty()) text += " -> " + name_or_string(r.state);
      for (size_t k = 0; k < r.after.size(); ++k)
        text += (k ? ", " : r.after.size() > 1 ? " after (" : " after ") + name_or_string(r.after[k]);
      if (r.after.size() > 1) text += ")";
    }
    return text + "\n";
  }
  static std::string types(const std::vector<TensorType>& list) {
    std::string text;
    for (const TensorType& t : list) text += (text.empty() ? "" : ", ") + to_string(t);
    return list.size() == 1 ? text : "(" + text + ")";
  }
  std::string inputs(const Node& node, size_t first = 0, size_t last = SIZE_MAX) const {
    std::string text;
    for (size_t i = first; i < std::min(last, node.inputs.size()); ++i)
      text += (text.empty() ? "" : ", ") + names_[node.inputs[i]];
    return text;
  }

  // Expressions and lists over the axes of the node at hand.
  std::string expr(Expr e) const { return expression_text(e, space_, axes_); }
  std::string exprs(const std::vector<Expr>& list) const {
    std::string text;
    for (Expr e : list) text += (text.empty() ? "" : ", ") + expr(e);
    return "[" + text + "]";
  }
  std::string axis_list(const std::vector<int>& list) const {
    std::string text;
    for (int d : list) text += (text.empty() ? "" : ", ") + axes_[size_t(d)];
    return "[" + text + "]";
  }
  std::string space() const {
    std::string text;
    for (size_t d = 0; d < space_.size(); ++d)
      text += fmt::format("{}{}: {}", d ? ", " : "", axes_[d], to_string(space_[d]));
    return "[" + text + "]";
  }
  std::string holes(const Node& node) const {
    const auto& list = holes_of(node.attr);
    std::string text;
    for (size_t h = 0; h < list.size(); ++h) {
      const Hole& hole = list[h];
      std::string_view policy = hole.policy == OutOfRange::clamp  ? " clamp"
                                : hole.policy == OutOfRange::fill ? " fill"
                                                                  : "";
      text +=
          fmt::format("{}h{} = {}{} in {}{}", h ? ", " : " with ", h, names_[node.inputs[size_t(hole.input)]],
                      axis_list(hole.axes), range_text(hole.range), policy);
    }
    return text;
  }
  std::string components(const Node& node, const Monoid& monoid,
                         const std::vector<std::vector<int>>& body_axes) const {
    std::string text;
    for (size_t c = 0; c < body_axes.size(); ++c) {
      const MonoidComponent& component = monoid.components()[c];
      std::string transform = component.transform.is_leaf(0)
                                  ? ""
                                  : "(" + to_string(component.transform, monoid_leaf_names(int(c))) + ")";
      std::string_view start = body_axes.size() == 1 ? " "
                               : c                   ? ";\n      "
                                                     : "\n      "; // several: a line each
      text += fmt::format("{}{}{} {}{}", start, row(component.op).monoid, transform, names_[node.inputs[c]],
                          axis_list(body_axes[c]));
    }
    return "{" + text + " }";
  }

  std::string body(const Node& node) {
    space_ = expression_space(f_, node);
    axes_ = axis_names(f_, node);
    return std::visit([&](const auto& attr) { return print(node, attr); }, node.attr);
  }

  std::string print(const Node&, const InputAttr&) const { return ""; }
  std::string print(const Node&, const ConstantAttr& a) const {
    return "const " + to_string(a.type) + " " + data(a);
  }
  std::string data(const ConstantAttr& a) const {
    int64_t count = 1;
    for (Expr e : a.type.shape) count *= e.value();
    std::vector<std::byte> again(a.data->size());
    std::string text;
    for (int64_t i = 0; i < count && count <= most_numbers_in_text; ++i) {
      std::string number;
      if (is_float(a.type.dtype)) {
        double value = load_f64(a.type.dtype, a.data->data(), i);
        number = a.type.dtype == DType::f64 ? number_text(value) : short_text(a.type.dtype, value);
        store_f64(a.type.dtype, again.data(), i, value);
      } else {
        int64_t value = load_i64(a.type.dtype, a.data->data(), i);
        number = a.type.dtype == DType::u64 ? fmt::format("{}", uint64_t(value)) : fmt::format("{}", value);
        store_i64(a.type.dtype, again.data(), i, value);
      }
      text += (i ? ", " : "") + number;
    }
    if (count <= most_numbers_in_text && again == *a.data)
      return a.type.shape.empty() ? text : "{" + text + "}";
    std::string all = base64(*a.data), blocks;
    for (size_t i = 0; i < all.size(); i += 4096)
      blocks += fmt::format("{}\"{}\"", i ? " " : "", all.substr(i, 4096));
    if (all.empty()) blocks = "\"\"";
    return fmt::format("base64 {} hash 0x{:016x}", blocks, hash64(a.data->data(), a.data->size()));
  }
  /// As few digits as give the number back in its own type.
  static std::string short_text(DType type, double value) {
    std::string text = float_text(float(value));
    if (text.ends_with(".0")) text.resize(text.size() - 2);
    for (int digits = 1; digits < 9 && std::isfinite(value) && type != DType::f32; ++digits) {
      std::string shorter = fmt::format("{:.{}g}", value, digits);
      if (round_to(type, std::strtod(shorter.c_str(), nullptr)) == value) return shorter;
    }
    return text;
  }
  std::string print(const Node&, const IotaAttr& a) const {
    return fmt::format("iota {} {} -> {}", to_string(a.type.dtype), space(), expr(a.value));
  }
  std::string print(const Node& n, const RandomAttr& a) const {
    return fmt::format("random {} {} {} -> {}", to_string(a.type.dtype), inputs(n), space(), expr(a.counter));
  }
  std::string print(const Node& n, const MapAttr& a) const { return operation_name(a) + " " + inputs(n); }
  std::string print(const Node& n, const CastAttr& a) const {
    return fmt::format("cast {} {}", to_string(a.to), inputs(n));
  }
  std::string print(const Node& n, const BitcastAttr& a) const {
    return fmt::format("bitcast {} {}", to_string(a.to), inputs(n));
  }
  std::string print(const Node& n, const ViewAttr& a) const {
    std::string text =
        fmt::format("view {} {}{} -> {}", names_[n.inputs[0]], space(), holes(n), exprs(a.map));
    bool filled = !a.predicate.is_constant(1);
    if (filled) text += " where " + expr(a.predicate);
    for (const Hole& hole : a.holes) filled |= hole.policy == OutOfRange::fill;
    if (filled || a.fill != 0 || std::signbit(a.fill)) text += " fill " + number_text(a.fill);
    return text;
  }
  std::string print(const Node& n, const ScatterAttr& a) const {
    std::string text = fmt::format("scatter {} {} {}{} -> {}", a.op ? row(*a.op).monoid : "set",
                                   inputs(n, 0, 2), space(), holes(n), exprs(a.map));
    if (!a.predicate.is_constant(1)) text += " where " + expr(a.predicate);
    return a.unique ? text + " unique" : text;
  }
  std::string print(const Node& n, const FoldAttr& a) const {
    std::string text = fmt::format("fold {} over {}{}", space(), axis_list(a.reduced), holes(n));
    if (!a.where.is_constant(1)) text += " where " + expr(a.where);
    return text + " " + components(n, a.monoid, a.body_axes);
  }
  std::string print(const Node& n, const ScanAttr& a) const {
    return fmt::format("scan {} along {}{}{} {}", space(), axes_[size_t(a.axis)],
                       a.exclusive ? " exclusive" : "", a.reverse ? " reverse" : "",
                       components(n, a.monoid, a.body_axes));
  }
  std::string print(const Node& n, const SortAttr& a) const {
    return fmt::format("sort {} along {}{}", inputs(n), a.axis, a.descending ? " descending" : "");
  }
  std::string print(const Node& n, const CollectiveAttr& a) const {
    return fmt::format("collective {} {} axis {} {}", a.kind, quoted(a.group), a.axis, inputs(n));
  }
  std::string print(const Node& n, const CallAttr& a) const {
    return fmt::format("call @{}({})", a.function, inputs(n));
  }
  std::string print(const Node& n, const LoopAttr& a) const {
    std::string text = fmt::format("loop @{} count {}", a.body, to_string(a.count));
    if (!a.condition.empty()) text += " while @" + a.condition;
    auto group = [&](std::string_view word, size_t first, size_t last) {
      if (first < last) text += fmt::format(" {} ({})", word, inputs(n, first, last));
    };
    size_t stepped = size_t(a.carried), given = stepped + size_t(a.stepped);
    group("carried", 0, stepped);
    group("stepped", stepped, given);
    group("given", given, n.inputs.size());
    return text;
  }
  std::string print(const Node& n, const CondAttr& a) const {
    return fmt::format("cond {} then @{} else @{} ({})", names_[n.inputs[0]], a.then_function,
                       a.else_function, inputs(n, 1));
  }
  static std::string type_list(const std::vector<TensorType>& list) {
    std::string text;
    for (const TensorType& t : list) text += (text.empty() ? "" : ", ") + to_string(t);
    return "(" + text + ")";
  }
  std::string print(const Node& n, const HostAttr& a) const {
    return fmt::format("host {} {} ({}) -> {}", name_or_string(a.kind), quoted(a.text), inputs(n),
                       type_list(a.results));
  }
  std::string print(const Node& n, const CustomAttr& a) const {
    std::string text = fmt::format("custom {} grid {} {{", name_or_string(a.name), exprs(a.grid));
    for (const auto& [language, source] : a.text)
      text += fmt::format(" {}: {};", name_or_string(language), quoted(source));
    return text + fmt::format(" }} ({}) -> {}", inputs(n), type_list(a.results));
  }
  std::string print(const Node& n, const FenceAttr& a) const {
    return "fence " + names_[n.inputs[0]] + (a.device.empty() ? "" : " on " + name_or_string(a.device)) +
           (n.inputs.size() > 1 ? " after " + inputs(n, 1) : "");
  }
  std::string print(const Node& n, const GetAttr& a) const {
    return fmt::format("get {}, {}", inputs(n), a.index);
  }

  const Function& f_;
  IdVector<NodeId, std::string> names_;
  Shape space_;
  std::vector<std::string> axes_;
};

} // namespace

IdVector<NodeId, std::string> node_texts(const Function& function) {
  return FunctionPrinter(function).texts();
}

std::string to_string(const Module& module) {
  std::string text;
  for (Expr s : module.symbols) {
    text += "symbol " + std::string(s.name());
    if (s.range() != Interval{}) text += ": " + range_text(s.range());
    if (s.multiple() > 1) text += fmt::format(" multiple {}", s.multiple());
    text += "\n";
  }
  for (Expr e : module.assumptions) text += "assume " + to_string(e) + "\n";
  for (const Function& f : module.functions) text += (text.empty() ? "" : "\n") + FunctionPrinter(f).run();
  return text;
}

} // namespace luminal
