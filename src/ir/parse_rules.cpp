// ir/parse_rules.cpp -- rules of search and replace from text; docs/passes.md has the grammar.
#include "ir/term_parser.h"
#include <algorithm>
#include <fmt/format.h>

namespace luminal {

/// "type T: float | i32": what the variable may be.
void TermParser::rule_types(RuleHead& declared) {
  Token name = reader_.peek();
  reader_.expect_identifier("the name of a type variable");
  if (parse_dtype(name.text)) reader_.fail_at(name, fmt::format("'{}' is a type", name.text));
  std::vector<DType> list;
  reader_.expect(":");
  do {
    Token word = reader_.peek();
    const std::string_view text = reader_.expect_identifier("a type, or any, float, integer");
    const auto one = parse_dtype(text);
    if (!one && text != "any" && text != "float" && text != "integer")
      reader_.fail_at(word,
                      fmt::format("'{}' is not a type; any, float and integer are classes of types", text));
    for (int t = 0; t < dtype_count; ++t)
      if (const auto type = DType(t);
          one ? type == *one : text == "any" || (text == "float" ? is_float(type) : is_integer(type)))
        list.push_back(type);
  } while (reader_.accept("|"));
  if (!declared.types.emplace(std::string(name.text), list).second)
    reader_.fail_at(name, fmt::format("{} is declared already", name.text));
}

RuleFile TermParser::rule_file(std::string text, std::string file) {
  RuleFile out;
  RuleHead declared;
  while (!reader_.at_end()) {
    if (reader_.accept("symbol")) {
      symbol();
    } else if (reader_.accept("type")) {
      rule_types(declared);
    } else if (reader_.accept("shape")) {
      Token name = reader_.peek();
      reader_.expect_identifier("the name of a shape");
      Interval ranks{0, 4};
      if (reader_.accept(":")) ranks = range();
      if (ranks.low < 0 || ranks.high > 8) reader_.fail_at(name, "a shape has 0 to 8 axes");
      if (!declared.ranks.emplace(std::string(name.text), ranks).second)
        reader_.fail_at(name, fmt::format("{} is declared already", name.text));
    } else if (reader_.at("rule")) {
      declared.symbols = module_.symbols;
      rule_head(out, declared);
    } else {
      reader_.fail_expected("'type', 'shape', 'symbol' or 'rule'");
    }
  }
  out.text = std::move(text);
  out.name = std::move(file);
  return out;
}

/// Reads over a rule: its name and words, which variables it uses, where it begins and ends.
void TermParser::rule_head(RuleFile& out, const RuleHead& declared) {
  RuleHead head;
  head.begin = reader_.offset();
  reader_.expect("rule");
  Token name = reader_.peek();
  head.name = std::string(reader_.expect_identifier("the name of a rule"));
  for (const RuleHead& other : out.rules)
    if (other.name == head.name) reader_.fail_at(name, fmt::format("rule {} exists already", head.name));
  bool classed = false;
  while (!reader_.at("(")) {
    Token word = reader_.peek();
    if (reader_.accept("commutative"))
      head.commutative = true;
    else if (reader_.accept("shared"))
      head.shared = true;
    else if (!classed && (reader_.at("exact") || reader_.at("reassoc") || reader_.at("range"))) {
      head.numerics = word.text == "exact"     ? Numerics::exact
                      : word.text == "reassoc" ? Numerics::reassoc
                                               : Numerics::range;
      reader_.next();
      classed = true;
    } else
      reader_.fail_expected("exact, reassoc, range, commutative, shared or '('");
  }
  int depth = 0, sides = 0;
  std::set<std::string, std::less<>> left;
  while (sides < 2) {
    if (reader_.at_end()) reader_.fail_expected("the end of the rule");
    Token token = reader_.next();
    const bool punctuation = token.kind == TokenKind::punctuation;
    if (token.kind == TokenKind::identifier) {
      const bool new_type = declared.types.contains(token.text) && !head.types.contains(token.text);
      const bool new_shape = declared.ranks.contains(token.text) && !head.ranks.contains(token.text);
      if (sides == 1 && (new_type || new_shape))
        reader_.fail_at(token,
                        fmt::format("{} stands on the right only: nothing says what it is", token.text));
      if (new_type) head.types.insert(*declared.types.find(token.text));
      if (new_shape) head.ranks.insert(*declared.ranks.find(token.text));
    }
    if (punctuation && token.text == "{") ++depth;
    if (punctuation && token.text == "}" && --depth == 0) {
      ++sides;
      if (sides == 1 && !reader_.at("=>")) reader_.fail_expected("'=>'");
    }
    if (punctuation && token.text == "}" && depth < 0) reader_.fail_at(token, "a '}' without its '{'");
    head.end = token.offset + token.length;
  }
  if (head.types.size() > 3 || head.ranks.size() > 2)
    reader_.fail_at(name, "a rule may have 3 type variables and 2 shapes");
  head.symbols = declared.symbols;
  out.rules.push_back(std::move(head));
}

NodeId TermParser::rule_side() {
  reader_.expect("{");
  while (!reader_.at("return")) {
    Token at = reader_.peek();
    node();
    const NodeKind kind = (*builder_)[nodes_.find(at.text)->second].kind;
    if (kind == NodeKind::host || kind == NodeKind::call || kind == NodeKind::loop ||
        kind == NodeKind::cond || kind == NodeKind::custom || kind == NodeKind::collective)
      reader_.fail_at(at, fmt::format("a rule may hold no {}", to_string(kind)));
  }
  reader_.expect("return");
  Token at = reader_.peek();
  const NodeId id = use();
  if ((*builder_)[id].is_tuple()) reader_.fail_at(at, "a tuple is read by get");
  reader_.expect("}");
  return id;
}

RuleInstance TermParser::rule(const RuleHead& head, const TypeChoice& choice) {
  RuleInstance out;
  choice_ = &choice;
  for (Expr s : head.symbols) scope_.emplace(std::string(s.name()), s);
  out.symbols = head.symbols;
  for (const auto& [name, rank] : choice.ranks)
    for (int d = 0; d < rank; ++d) {
      const Expr s = Expr::symbol(fmt::format("{}.{}", name, d), {0, unbounded_high});
      scope_.emplace(std::string(s.name()), s);
      out.symbols.push_back(s);
    }
  reader_.rewind(head.begin);
  while (!reader_.at("(")) reader_.next();
  FunctionBuilder builder("rule", &module_);
  builder_ = &builder;
  reader_.expect("(");
  if (!reader_.accept(")")) {
    do {
      out.constant.push_back(reader_.accept("const"));
      parameter();
    } while (reader_.accept(","));
    reader_.expect(")");
  }
  if (reader_.accept("where")) {
    do out.conditions.push_back(parse_expr(reader_, scope_));
    while (reader_.accept(","));
    module_.assumptions = out.conditions; // both sides may rest on them
  }
  Token at = reader_.peek();
  const NodeId left = rule_side();
  Token arrow = reader_.peek();
  reader_.expect("=>");
  const NodeId right = rule_side();
  const TensorType have = builder[right].type(), want = builder[left].type();
  try {
    if (have.dtype != want.dtype || !same_shape(have.shape, want.shape, out.conditions))
      reader_.fail_at(arrow, fmt::format("rule {}: the replacement is {}, what it replaces is {}", head.name,
                                         to_string(have), to_string(want)));
  } catch (const Error& error) {
    throw RuleTypeError(error.what());
  }
  if (builder[left].kind == NodeKind::input)
    reader_.fail_at(at, "the left side is a parameter: it would be found everywhere");
  std::set<NodeId> read{left};
  for (NodeId id = left; id; --id)
    if (read.contains(id)) read.insert(builder[id].inputs.begin(), builder[id].inputs.end());
  for (NodeId id : out.constant.ids())
    if (!read.contains(id))
      reader_.fail_at(at, fmt::format("the left side does not read parameter {}",
                                      std::get<InputAttr>(builder[id].attr).name));
  std::set<NodeId> rests_on{right};
  for (NodeId id = right; id; --id)
    if (rests_on.contains(id)) rests_on.insert(builder[id].inputs.begin(), builder[id].inputs.end());
  if (left != right && rests_on.contains(left))
    reader_.fail_at(arrow, "the replacement reads what it replaces");
  if (left == right) reader_.fail_at(arrow, "both sides are the same");
  builder.result("left", left);
  builder.result("right", right);
  out.function = builder.finish();
  out.left = out.function.results[0].value;
  out.right = out.function.results[1].value;
  return out;
}

RuleFile parse_rule_file(std::string text, std::string file_name) {
  TermParser parser(text, file_name);
  return parser.rule_file(text, file_name);
}
RuleInstance instantiate(const RuleFile& file, const RuleHead& head, const TypeChoice& choice) {
  return TermParser(file.text, file.name).rule(head, choice);
}

} // namespace luminal
