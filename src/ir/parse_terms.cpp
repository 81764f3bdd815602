// ir/parse_terms.cpp -- modules from text: symbols, functions, types, axes, holes, monoids.
#include "ir/term_parser.h"
#include <algorithm>
#include <fmt/format.h>

namespace luminal {

Module parse_module(std::string_view text, std::string_view file_name) {
  return TermParser(text, file_name).run();
}

Module TermParser::run() {
  while (!reader_.at_end()) {
    if (reader_.accept("symbol"))
      symbol();
    else if (reader_.accept("assume"))
      assumption();
    else if (reader_.accept("fn"))
      function();
    else
      reader_.fail_expected("'symbol', 'assume' or 'fn'");
  }
  if (module_.functions.empty()) reader_.fail("a module needs a function");
  if (auto mistakes = verify(module_); !mistakes.empty())
    throw Error(fmt::format("{}: {}", reader_.file(), mistakes[0]));
  return std::move(module_);
}
std::optional<std::pair<std::string, int>> TermParser::pack() {
  if (!choice_ || !reader_.accept("..")) return {};
  Token name = reader_.peek();
  auto at = choice_->ranks.find(reader_.expect_identifier("the name of a shape"));
  if (at == choice_->ranks.end()) reader_.fail_at(name, fmt::format("there is no shape '{}'", name.text));
  return *at;
}
void TermParser::symbol() {
  Token name = reader_.peek();
  reader_.expect_identifier("the name of a symbol");
  if (scope_.contains(name.text)) reader_.fail_at(name, fmt::format("symbol {} exists already", name.text));
  if (!is_axis_name(name.text)) reader_.fail_at(name, fmt::format("'{}' cannot name a symbol", name.text));
  Interval interval;
  if (reader_.accept(":")) interval = range();
  int64_t multiple = reader_.accept("multiple") ? reader_.expect_integer() : 1;
  try {
    Expr s = Expr::symbol(name.text, interval, multiple);
    module_.symbols.push_back(s);
    scope_.emplace(std::string(name.text), s);
  } catch (const Error& error) {
    reader_.fail_at(name, error.what());
  }
}
void TermParser::assumption() {
  Token at = reader_.peek();
  Expr condition = parse_expr(reader_, scope_);
  if (condition.is_constant(0)) reader_.fail_at(at, "the assumption never holds");
  if (!condition.is_constant()) module_.assumptions.push_back(condition);
}
Interval TermParser::range() {
  Interval result;
  auto infinite = [&](bool negative) {
    if (negative && reader_.at("-") && reader_.peek_second().text == "inf")
      return reader_.next(), reader_.next(), true;
    return !negative && reader_.accept("inf");
  };
  Token at = reader_.peek();
  if (!infinite(true)) result.low = reader_.expect_integer("the least value");
  reader_.expect("..");
  if (!infinite(false)) result.high = reader_.expect_integer("the greatest value");
  if (result.low > result.high) reader_.fail_at(at, "the range is empty");
  return result;
}
std::string TermParser::word_or_string(std::string_view what) {
  if (reader_.at(TokenKind::string)) return reader_.expect_string();
  return std::string(reader_.expect_identifier(what));
}
void TermParser::function() {
  Token name = reader_.peek();
  std::string text(reader_.expect_global_name("@name"));
  if (text.empty()) reader_.fail_at(name, "the function has no name");
  if (module_.find(text)) reader_.fail_at(name, fmt::format("function @{} exists already", text));
  FunctionBuilder builder(text, &module_);
  builder_ = &builder;
  nodes_.clear();
  reader_.expect("(");
  if (!reader_.accept(")")) {
    do parameter();
    while (reader_.accept(","));
    reader_.expect(")");
  }
  reader_.expect("{");
  while (!reader_.at("return")) node();
  results();
  reader_.expect("}");
  module_.functions.push_back(builder.finish());
}
void TermParser::parameter() {
  InputAttr input;
  if (reader_.accept("weight"))
    input.role = Role::weight;
  else if (reader_.accept("state"))
    input.role = Role::state;
  Token name = reader_.peek();
  reader_.expect_value_name("a parameter %name");
  input.name = std::string(name.text);
  if (reader_.at(TokenKind::string)) input.name = reader_.expect_string();
  reader_.expect(":");
  input.type = type();
  if (reader_.accept("on")) input.device = device();
  define(name, add(name, std::move(input), {}));
}
void TermParser::results() {
  reader_.expect("return");
  if (reader_.at("}")) reader_.fail_expected("a result: name = %value");
  do {
    Token at = reader_.peek();
    std::string name = word_or_string("the name of a result"), state;
    std::vector<std::string> after;
    reader_.expect("=");
    NodeId value = use();
    if (reader_.accept("->")) state = word_or_string("the name of a state");
    if (reader_.accept("after")) {
      bool several = reader_.accept("(");
      do after.push_back(word_or_string("the name of a result"));
      while (several && reader_.accept(","));
      if (several) reader_.expect(")");
    }
    try {
      builder_->result(name, value, state, after);
    } catch (const Error& error) {
      reader_.fail_at(at, error.what());
    }
  } while (reader_.accept(","));
}
void TermParser::define(const Token& name, NodeId id) {
  if (name.text.empty()) reader_.fail_at(name, "a name is missing after %");
  if (!nodes_.emplace(std::string(name.text), id).second)
    reader_.fail_at(name, fmt::format("%{} exists already", name.text));
  if (is_plain_name(name.text) && (*builder_)[id].name.empty()) builder_->name(id, std::string(name.text));
}
NodeId TermParser::use() {
  Token name = reader_.peek();
  reader_.expect_value_name("a value %name");
  auto at = nodes_.find(name.text);
  if (at == nodes_.end()) reader_.fail_at(name, fmt::format("there is no %{} before this place", name.text));
  return at->second;
}
NodeId TermParser::add(const Token& at, Attr attr, Inputs inputs, std::vector<std::string> names) {
  try {
    return builder_->insert(std::move(attr), std::move(inputs), std::move(names));
  } catch (const TermMistake& mistake) {
    reader_.fail_at(at, fmt::format("[{}] {}", mistake.operation, mistake.text));
  }
}
DType TermParser::dtype() {
  Token at = reader_.peek();
  const std::string_view word = reader_.expect_identifier("a type");
  auto type = parse_dtype(word);
  if (choice_)
    if (auto variable = choice_->types.find(word); variable != choice_->types.end()) type = variable->second;
  if (!type) reader_.fail_at(at, fmt::format("'{}' is not a type", at.text));
  return *type;
}
TensorType TermParser::type() {
  TensorType result{dtype(), {}};
  if (reader_.at("[")) result.shape = list(scope_);
  return result;
}
std::vector<TensorType> TermParser::types() {
  std::vector<TensorType> result;
  reader_.expect("(");
  if (reader_.accept(")")) return result;
  do result.push_back(type());
  while (reader_.accept(","));
  reader_.expect(")");
  return result;
}
std::vector<Expr> TermParser::list(const SymbolScope& scope) {
  std::vector<Expr> result;
  reader_.expect("[");
  if (reader_.accept("]")) return result;
  do {
    if (auto axes = pack()) {
      for (int d = 0; d < axes->second; ++d)
        result.push_back(scope.find(fmt::format("{}.{}", axes->first, d))->second);
      continue;
    }
    result.push_back(parse_expr(reader_, scope));
  } while (reader_.accept(","));
  reader_.expect("]");
  return result;
}
auto TermParser::inputs_in_parentheses() -> Inputs {
  Inputs result;
  reader_.expect("(");
  if (reader_.accept(")")) return result;
  do result.push_back(use());
  while (reader_.accept(","));
  reader_.expect(")");
  return result;
}
auto TermParser::axes() -> Axes {
  Axes result;
  result.scope = scope_;
  reader_.expect("[");
  if (reader_.accept("]")) return result;
  do {
    if (auto axes = pack()) {
      for (int d = 0; d < axes->second; ++d) {
        const std::string name = fmt::format("{}.{}", axes->first, d);
        const Expr extent = scope_.find(name)->second;
        result.scope.insert_or_assign(name, axis_symbol(int(result.names.size()), extent));
        result.names.push_back(name);
        result.space.push_back(extent);
      }
      continue;
    }
    Token name = reader_.peek();
    reader_.expect_identifier("the name of an axis");
    const std::string canonical = fmt::format("i{}", result.names.size());
    if (name.text != canonical && !is_axis_name(name.text))
      reader_.fail_at(name, fmt::format("'{}' cannot name axis {}", name.text, result.names.size()));
    reader_.expect(":");
    Expr extent = parse_expr(reader_, scope_);
    if (std::find(result.names.begin(), result.names.end(), name.text) != result.names.end())
      reader_.fail_at(name, fmt::format("'{}' exists already", name.text));
    // An axis may have the name of a dimension that the node's expressions do not read.
    result.scope.insert_or_assign(std::string(name.text), axis_symbol(int(result.names.size()), extent));
    result.named |= name.text != canonical;
    result.names.emplace_back(name.text);
    result.space.push_back(extent);
  } while (reader_.accept(","));
  reader_.expect("]");
  return result;
}
int TermParser::axis(const Axes& axes) {
  Token name = reader_.peek();
  reader_.expect_identifier("the name of an axis");
  auto at = std::find(axes.names.begin(), axes.names.end(), name.text);
  if (at == axes.names.end()) reader_.fail_at(name, fmt::format("'{}' is none of the axes", name.text));
  return int(at - axes.names.begin());
}
std::vector<int> TermParser::axis_list(const Axes& axes) {
  std::vector<int> result;
  reader_.expect("[");
  if (reader_.accept("]")) return result;
  do {
    if (auto pack_of = pack()) {
      for (int d = 0; d < pack_of->second; ++d) {
        auto at = std::find(axes.names.begin(), axes.names.end(), fmt::format("{}.{}", pack_of->first, d));
        if (at == axes.names.end()) reader_.fail(fmt::format("..{} is none of the axes", pack_of->first));
        result.push_back(int(at - axes.names.begin()));
      }
      continue;
    }
    result.push_back(axis(axes));
  } while (reader_.accept(","));
  reader_.expect("]");
  return result;
}
std::vector<Hole> TermParser::holes(Axes& axes, Inputs& inputs) {
  std::vector<Hole> result;
  const size_t first = inputs.size();
  if (!reader_.accept("with")) return result;
  do {
    Token name = reader_.peek();
    reader_.expect_identifier("the name of a hole");
    reader_.expect("=");
    Hole hole;
    NodeId operand = use();
    auto at = std::find(inputs.begin() + std::ptrdiff_t(first), inputs.end(), operand);
    hole.input = int(at - inputs.begin());
    if (at == inputs.end()) inputs.push_back(operand);
    hole.axes = axis_list(axes);
    reader_.expect("in");
    hole.range = range();
    if (reader_.accept("clamp"))
      hole.policy = OutOfRange::clamp;
    else if (reader_.accept("fill"))
      hole.policy = OutOfRange::fill;
    else
      reader_.accept("error");
    if (!axes.scope.emplace(std::string(name.text), hole_symbol(int(result.size()), hole.range)).second)
      reader_.fail_at(name, fmt::format("'{}' exists already", name.text));
    axes.holes.emplace_back(name.text);
    result.push_back(std::move(hole));
  } while (reader_.accept(","));
  return result;
}
std::vector<Expr> TermParser::arrow_map(const Axes& axes) {
  reader_.expect("->");
  return list(axes.scope);
}
std::set<int> TermParser::domain(const Axes& axes, FoldAttr& attr) {
  const uint32_t begin = reader_.offset();
  attr.where = where(axes);
  const uint32_t end = reader_.offset();
  std::set<int> named;
  for (reader_.rewind(begin); reader_.offset() < end;) {
    const auto found = axes.scope.find(reader_.next().text);
    for (size_t d = 0; d < axes.space.size() && found != axes.scope.end(); ++d)
      if (found->first == axes.names[d]) named.insert(int(d));
    for (size_t h = 0; h < attr.holes.size() && found != axes.scope.end(); ++h)
      if (found->first == axes.holes[h]) named.insert(attr.holes[h].axes.begin(), attr.holes[h].axes.end());
  }
  for (int d : where_axes(attr)) named.erase(d);
  for (int d : attr.reduced) named.erase(d);
  return named;
}
NodeId TermParser::repeated(const Token& at, NodeId body, std::vector<int>& axes, const std::set<int>& more,
                            const Shape& space) {
  std::set<int> all(axes.begin(), axes.end());
  all.insert(more.begin(), more.end());
  if (all.size() == axes.size() || (*builder_)[body].type().shape.size() != axes.size()) return body;
  ViewAttr view;
  view.map.resize(axes.size());
  for (int d : all) {
    if (const auto place = std::ranges::find(axes, d); place != axes.end())
      view.map[size_t(place - axes.begin())] = axis_symbol(int(view.shape.size()), space[size_t(d)]);
    view.shape.push_back(space[size_t(d)]);
  }
  axes.assign(all.begin(), all.end());
  return add(at, std::move(view), {body});
}
Monoid TermParser::components(const Axes& axes, Inputs& inputs, std::vector<std::vector<int>>& body_axes) {
  std::vector<MonoidComponent> list;
  size_t operations = 0; // testing its laws takes that long
  reader_.expect("{");
  Token at = reader_.peek();
  do {
    if (reader_.at("}") && !list.empty()) break;
    Token word = reader_.peek();
    auto op = parse_monoid_word(reader_.expect_identifier("sum, prod, max, min, any or all"));
    if (!op)
      reader_.fail_at(
          word, fmt::format("'{}' does not fold; the words are sum, prod, max, min, any, all", word.text));
    Scalar transform = Scalar::leaf(0);
    if (reader_.accept("(")) {
      transform = parse_scalar(reader_, monoid_leaf_names(int(list.size())));
      reader_.expect(")");
    }
    operations += transform.nodes().size();
    if (operations > 300) reader_.fail("a monoid of more than 300 operations");
    std::optional<DType> stated;
    if (reader_.accept(":")) stated = dtype();
    Token name = reader_.peek();
    NodeId body = use();
    if ((*builder_)[body].is_tuple()) reader_.fail_at(name, "a tuple is read by get");
    DType type = (*builder_)[body].type().dtype;
    if (stated && *stated != type)
      reader_.fail_at(
          name, fmt::format("%{} is {}, the component {}", name.text, to_string(type), to_string(*stated)));
    inputs.push_back(body);
    body_axes.push_back(axis_list(axes));
    list.push_back({*op, type, std::move(transform)});
  } while (reader_.accept(";"));
  reader_.expect("}");
  try {
    return Monoid::intern(std::move(list));
  } catch (const Error& error) {
    reader_.fail_at(at, error.what());
  }
}

} // namespace luminal
