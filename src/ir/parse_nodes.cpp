// ir/parse_nodes.cpp -- the nodes of functions from text, kind by kind.
#include "ir/term_parser.h"
#include <algorithm>
#include <fmt/format.h>

namespace luminal {

void TermParser::node() {
  Token name = reader_.peek();
  reader_.expect_value_name("%name = ..., or return");
  std::optional<TensorType> stated;
  if (reader_.accept(":")) stated = type();
  reader_.expect("=");
  NodeId id = operation();
  define(name, id);
  const Node& made = (*builder_)[id];
  if (stated && (made.is_tuple() || made.type().dtype != stated->dtype ||
                 !same_shape(made.type().shape, stated->shape, module_.assumptions)))
    reader_.fail_at(name,
                    fmt::format("%{} is {}, stated is {}", name.text,
                                made.is_tuple() ? "a tuple" : to_string(made.type()), to_string(*stated)));
}
NodeId TermParser::operation() {
  Token at = reader_.peek();
  std::string_view word = reader_.expect_identifier("an operation");
  if (word == "const") return constant(at);
  if (word == "iota") return iota(at);
  if (word == "random") return random(at);
  if (word == "cast") return cast<CastAttr>(at);
  if (word == "bitcast") return cast<BitcastAttr>(at);
  if (word == "view") return view(at);
  if (word == "scatter") return scatter(at);
  if (word == "fold") return fold(at);
  if (word == "scan") return scan(at);
  if (word == "sort") return sort(at);
  if (word == "collective") return collective(at);
  if (word == "call") return call(at);
  if (word == "loop") return loop(at);
  if (word == "cond") return cond(at);
  if (word == "host") return host(at);
  if (word == "custom") return custom(at);
  if (word == "fence") return fence(at);
  if (word == "get") return get(at);
  return map(at);
}
NodeId TermParser::fence(const Token& at) {
  Inputs inputs{use()};
  FenceAttr attr;
  if (reader_.accept("on")) attr.device = device();
  if (reader_.accept("after")) {
    do inputs.push_back(use());
    while (reader_.accept(","));
  }
  return add(at, std::move(attr), std::move(inputs));
}
std::string TermParser::device() {
  Token at = reader_.peek();
  std::string name = word_or_string("the name of a device");
  if (name.empty()) reader_.fail_at(at, "a device needs a name");
  return name;
}
NodeId TermParser::map(const Token& at) {
  MapAttr attr{Op::add, {}};
  bool swap = at.text == "gt" || at.text == "ge";
  if (swap)
    attr.op = at.text == "gt" ? Op::lt : Op::le;
  else if (auto op = parse_op(at.text))
    attr.op = *op;
  else if (find_user_op(at.text))
    attr.user_op = std::string(at.text);
  else
    reader_.fail_at(at, fmt::format("there is no operation '{}'", at.text));
  Inputs inputs;
  do inputs.push_back(use());
  while (reader_.accept(","));
  if (swap) std::reverse(inputs.begin(), inputs.end());
  return add(at, attr, std::move(inputs));
}
NodeId TermParser::constant(const Token& at) {
  ConstantAttr attr;
  attr.type = type();
  std::vector<std::byte> data;
  if (reader_.accept("base64")) {
    do {
      Token block = reader_.peek();
      if (!from_base64(reader_.expect_string("base64 text"), data))
        reader_.fail_at(block, "this is not a base64 text");
    } while (reader_.at(TokenKind::string));
    reader_.expect("hash");
    Token hash = reader_.peek();
    if (reader_.expect_unsigned() != hash64(data.data(), data.size()))
      reader_.fail_at(hash, "the hash does not fit the data");
  } else {
    std::vector<double> floats;
    std::vector<int64_t> integers;
    auto number = [&] {
      if (is_float(attr.type.dtype)) return floats.push_back(reader_.expect_float());
      Token token = reader_.peek();
      bool negative = reader_.at("-");
      int64_t value = attr.type.dtype == DType::u64 && !negative ? int64_t(reader_.expect_unsigned())
                                                                 : reader_.expect_integer();
      if (wrap(attr.type.dtype, value) != value || (attr.type.dtype == DType::u64 && negative))
        reader_.fail_at(token, fmt::format("the number does not fit {}", to_string(attr.type.dtype)));
      integers.push_back(value);
    };
    if (attr.type.shape.empty()) {
      number();
    } else {
      reader_.expect("{");
      if (!reader_.at("}")) do
          number();
        while (reader_.accept(","));
      reader_.expect("}");
    }
    size_t count = std::max(floats.size(), integers.size());
    data.resize(size_t(storage_bytes(attr.type.dtype, int64_t(count))));
    for (size_t i = 0; i < floats.size(); ++i) store_f64(attr.type.dtype, data.data(), int64_t(i), floats[i]);
    for (size_t i = 0; i < integers.size(); ++i)
      store_i64(attr.type.dtype, data.data(), int64_t(i), integers[i]);
  }
  attr.data = std::make_shared<const std::vector<std::byte>>(std::move(data));
  return add(at, std::move(attr), {});
}
NodeId TermParser::iota(const Token& at) {
  IotaAttr attr;
  attr.type.dtype = dtype();
  Axes a = axes();
  attr.type.shape = a.space;
  reader_.expect("->");
  attr.value = parse_expr(reader_, a.scope);
  return add(at, std::move(attr), {}, a.kept());
}
NodeId TermParser::random(const Token& at) {
  RandomAttr attr;
  attr.type.dtype = dtype();
  NodeId key = use();
  Axes a = axes();
  attr.type.shape = a.space;
  reader_.expect("->");
  attr.counter = parse_expr(reader_, a.scope);
  return add(at, std::move(attr), {key}, a.kept());
}
template <class A> NodeId TermParser::cast(const Token& at) {
  DType to = dtype();
  return add(at, A{to}, {use()});
}
NodeId TermParser::view(const Token& at) {
  ViewAttr attr;
  Inputs inputs{use()};
  Axes a = axes();
  attr.shape = a.space;
  attr.holes = holes(a, inputs);
  attr.map = arrow_map(a);
  attr.predicate = where(a);
  if (reader_.accept("fill")) attr.fill = reader_.expect_float();
  // A rule spreads a number over `..s`; where that is not an axis at all, modules hold the number
  // itself.
  const bool plain =
      attr.shape.empty() && attr.map.empty() && attr.holes.empty() && attr.predicate.is_constant(1);
  if (choice_ && plain && !(*builder_)[inputs[0]].is_tuple() && (*builder_)[inputs[0]].type().shape.empty())
    return inputs[0];
  return add(at, std::move(attr), std::move(inputs), a.kept());
}
NodeId TermParser::scatter(const Token& at) {
  ScatterAttr attr;
  Token word = reader_.peek();
  if (reader_.expect_identifier("set, or sum, prod, max, min, any, all") != "set") {
    attr.op = parse_monoid_word(word.text);
    if (!attr.op)
      reader_.fail_at(word, fmt::format("'{}' is none of set, sum, prod, max, min, any, all", word.text));
  }
  Inputs inputs{use()};
  reader_.expect(",");
  Token values = reader_.peek();
  inputs.push_back(use());
  Token space = reader_.peek();
  Axes a = axes();
  if ((*builder_)[inputs[1]].is_tuple()) reader_.fail_at(values, "a tuple is read by get");
  const Shape& shape = (*builder_)[inputs[1]].type().shape;
  if (a.space != shape)
    reader_.fail_at(space,
                    fmt::format("[scatter] shapes differ: {} x {}", to_string(a.space), to_string(shape)));
  attr.holes = holes(a, inputs);
  attr.map = arrow_map(a);
  attr.predicate = where(a);
  attr.unique = reader_.accept("unique");
  return add(at, std::move(attr), std::move(inputs), a.kept());
}
NodeId TermParser::fold(const Token& at) {
  FoldAttr attr;
  Inputs bodies, operands;
  Axes a = axes();
  attr.space = a.space;
  reader_.expect("over");
  attr.reduced = axis_list(a);
  attr.holes = holes(a, operands);
  const std::set<int> gone = domain(a, attr);
  attr.monoid = components(a, bodies, attr.body_axes);
  for (size_t c = 0; c < bodies.size(); ++c)
    bodies[c] = repeated(at, bodies[c], attr.body_axes[c], gone, a.space);
  for (Hole& hole : attr.holes) hole.input += int(bodies.size());
  bodies.insert(bodies.end(), operands.begin(), operands.end());
  return add(at, std::move(attr), std::move(bodies), a.kept());
}
NodeId TermParser::scan(const Token& at) {
  ScanAttr attr;
  Inputs bodies;
  Axes a = axes();
  attr.space = a.space;
  reader_.expect("along");
  attr.axis = axis(a);
  attr.exclusive = reader_.accept("exclusive");
  attr.reverse = reader_.accept("reverse");
  attr.monoid = components(a, bodies, attr.body_axes);
  return add(at, std::move(attr), std::move(bodies), a.kept());
}
int TermParser::small_integer() {
  Token at = reader_.peek();
  int64_t value = reader_.expect_integer();
  if (value < 0 || value > 1'000'000) reader_.fail_at(at, "expected a small number");
  return int(value);
}
NodeId TermParser::sort(const Token& at) {
  SortAttr attr;
  Inputs inputs;
  do inputs.push_back(use());
  while (reader_.accept(","));
  reader_.expect("along");
  attr.axis = small_integer();
  attr.descending = reader_.accept("descending");
  return add(at, attr, std::move(inputs));
}
NodeId TermParser::collective(const Token& at) {
  CollectiveAttr attr;
  attr.kind = std::string(reader_.expect_identifier("the kind of a collective"));
  attr.group = reader_.expect_string("the group, \"name:members\"");
  reader_.expect("axis");
  attr.axis = small_integer();
  return add(at, std::move(attr), {use()});
}
NodeId TermParser::call(const Token& at) {
  CallAttr attr{function_name()};
  return add(at, std::move(attr), inputs_in_parentheses());
}
NodeId TermParser::loop(const Token& at) {
  LoopAttr attr;
  attr.body = function_name();
  reader_.expect("count");
  attr.count = parse_expr(reader_, scope_);
  if (reader_.accept("while")) attr.condition = function_name();
  Inputs inputs;
  auto group = [&](std::string_view word) {
    if (!reader_.accept(word)) return 0;
    Inputs list = inputs_in_parentheses();
    inputs.insert(inputs.end(), list.begin(), list.end());
    return int(list.size());
  };
  attr.carried = group("carried");
  attr.stepped = group("stepped");
  group("given");
  return add(at, std::move(attr), std::move(inputs));
}
NodeId TermParser::cond(const Token& at) {
  CondAttr attr;
  Inputs inputs{use()};
  reader_.expect("then");
  attr.then_function = function_name();
  reader_.expect("else");
  attr.else_function = function_name();
  Inputs rest = inputs_in_parentheses();
  inputs.insert(inputs.end(), rest.begin(), rest.end());
  return add(at, std::move(attr), std::move(inputs));
}
NodeId TermParser::host(const Token& at) {
  HostAttr attr;
  attr.kind = word_or_string("print, diff or the name of a host function");
  if (reader_.at(TokenKind::string)) attr.text = reader_.expect_string();
  Inputs inputs = inputs_in_parentheses();
  if (reader_.accept("->")) attr.results = types();
  return add(at, std::move(attr), std::move(inputs));
}
NodeId TermParser::custom(const Token& at) {
  CustomAttr attr;
  attr.name = word_or_string("the name of a kernel");
  reader_.expect("grid");
  attr.grid = list(scope_);
  reader_.expect("{");
  while (!reader_.accept("}")) {
    Token language = reader_.peek();
    std::string key = word_or_string("a language");
    reader_.expect(":");
    if (!attr.text.emplace(key, reader_.expect_string()).second)
      reader_.fail_at(language, fmt::format("'{}' exists already", key));
    if (!reader_.accept(";") && !reader_.at("}")) reader_.fail_expected("';' or '}'");
  }
  Inputs inputs = inputs_in_parentheses();
  reader_.expect("->");
  attr.results = types();
  return add(at, std::move(attr), std::move(inputs));
}
NodeId TermParser::get(const Token& at) {
  NodeId tuple = use();
  reader_.expect(",");
  return add(at, GetAttr{small_integer()}, {tuple});
}

} // namespace luminal
