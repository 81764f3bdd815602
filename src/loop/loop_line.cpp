// loop/loop_line.cpp -- what stands in one line of a kernel's text: declarations, indices, values.
#include "loop/loop_parser.h"
#include <cmath>
#include <fmt/format.h>

namespace luminal::kernel::loop_detail {

ValueRef LineParser::value() {
  TextReader::Nested nested(r_);
  ValueRef left = additive();
  static constexpr std::pair<std::string_view, Op> comparisons[] = {
      {"<", Op::lt}, {"<=", Op::le}, {"==", Op::eq}, {"!=", Op::ne}};
  for (const auto& [text, op] : comparisons)
    if (r_.at(text)) {
      const Token at = r_.next();
      ValueRef right = additive();
      return built(at, [&] { return apply(op, {left, right}); });
    }
  return left;
}
BufferId LineParser::buffer() {
  const Token at = r_.peek();
  const std::string_view name = r_.expect_identifier("a buffer");
  const auto found = k_.buffers_.find(name);
  if (found == k_.buffers_.end()) r_.fail_at(at, fmt::format("there is no buffer '{}'", name));
  return found->second;
}
Expr LineParser::bracketed() {
  r_.expect("[");
  const Expr offset = expr();
  r_.expect("]");
  return offset;
}
DType LineParser::dtype() {
  const Token at = r_.peek();
  const std::string_view name = r_.expect_identifier("an element type");
  const auto type = parse_dtype(name);
  if (!type) r_.fail_at(at, fmt::format("'{}' is not an element type", name));
  return *type;
}
Expr LineParser::ranged_symbol(const Token& name) {
  Interval range;
  if (!r_.at("..")) range.low = r_.expect_integer("the least value");
  r_.expect("..");
  if (r_.at(TokenKind::integer) || r_.at("-")) range.high = r_.expect_integer("the greatest value");
  int64_t multiple = 1;
  if (r_.accept("multiple")) multiple = r_.expect_integer("a divisor");
  return built(name, [&] { return Expr::symbol(name.text, range, multiple); });
}
Token LineParser::name(std::string_view what) {
  const Token at = r_.peek();
  r_.expect_identifier(what);
  return at;
}
int LineParser::small(std::string_view what, int64_t low, int64_t high) {
  const Token at = r_.peek();
  const int64_t number = r_.expect_integer(what);
  if (number < low || number > high) r_.fail_at(at, fmt::format("expected {} of {} to {}", what, low, high));
  return int(number);
}
void LineParser::buffer_declaration(Space space) {
  Buffer b;
  b.space = space;
  b.access = space == Space::global ? Access::in : Access::scratch;
  const Token at = name("the name of a buffer");
  b.name = at.text;
  r_.expect(":");
  b.dtype = dtype();
  b.size = bracketed();
  bool stated = false;
  for (const Access a : {Access::in, Access::out, Access::inout, Access::scratch})
    if (!stated && r_.accept(kernel::to_string(a))) {
      b.access = a;
      stated = true;
    }
  if (space == Space::global && !stated) r_.fail_expected("in, out, inout or scratch");
  if (r_.accept("align")) b.alignment = small("bytes", 1, 1 << 30);
  b.padded = r_.accept("padded");
  b.streaming = r_.accept("streaming");
  if (!k_.buffers_.emplace(b.name, BufferId(k_.kernel_.buffers.size())).second)
    r_.fail_at(at, fmt::format("there are two buffers '{}'", b.name));
  k_.kernel_.buffers.push_back(std::move(b));
}
void LineParser::symbol_declaration() {
  const Token at = name("a symbol");
  const Expr symbol = r_.accept(":") ? ranged_symbol(at) : built(at, [&] { return Expr::symbol(at.text); });
  declare(at, symbol);
  k_.kernel_.symbols.push_back(symbol);
}
void LineParser::declare(const Token& at, Expr symbol) {
  if (!k_.symbols_.emplace(std::string(at.text), symbol).second)
    r_.fail_at(at, fmt::format("'{}' is defined twice", at.text));
}
UnitOperand LineParser::operand() {
  UnitOperand o;
  o.buffer = buffer();
  r_.expect("[");
  o.offset = expr();
  if (r_.accept(";")) do
      o.strides.push_back(expr());
    while (r_.accept(","));
  r_.expect("]");
  return o;
}
UnitCall LineParser::unit() {
  UnitCall call{std::string(name("the name of a unit").text), {}};
  while (r_.at(TokenKind::identifier)) call.operands.push_back(operand());
  if (r_.accept(",")) {
    r_.expect("rows");
    call.rows = expr();
  }
  return call;
}
ValueRef LineParser::additive() {
  ValueRef left = multiplicative();
  while (r_.at("+") || r_.at("-")) {
    const Token at = r_.next();
    ValueRef right = multiplicative();
    left = built(at, [&] { return apply(at.text == "+" ? Op::add : Op::sub, {left, right}); });
  }
  return left;
}
ValueRef LineParser::multiplicative() {
  ValueRef left = primary();
  while (r_.at("*") || r_.at("/")) {
    const Token at = r_.next();
    ValueRef right = primary();
    left = built(at, [&] { return apply(at.text == "*" ? Op::mul : Op::div, {left, right}); });
  }
  return left;
}
bool LineParser::at_number() const {
  return r_.at(TokenKind::integer) || r_.at(TokenKind::floating) || r_.at("-") ||
         ((r_.at("inf") || r_.at("nan")) && r_.at(TokenKind::identifier));
}
std::vector<ValueRef> LineParser::arguments() {
  r_.expect("(");
  std::vector<ValueRef> args;
  do args.push_back(value());
  while (r_.accept(","));
  r_.expect(")");
  return args;
}
ValueRef LineParser::argument() {
  r_.expect("(");
  ValueRef only = value();
  r_.expect(")");
  return only;
}
DType LineParser::type_argument() {
  r_.expect("<");
  const DType type = dtype();
  r_.expect(">");
  return type;
}
ValueRef LineParser::primary() {
  TextReader::Nested nested(r_);
  const Token at = r_.peek();
  if (at_number()) return constant(DType::f32, r_.expect_float());
  if (r_.accept("(")) {
    ValueRef inner = value();
    r_.expect(")");
    return inner;
  }
  if (r_.accept("%")) {
    const LetId number(small("the number of a let", 0, 1 << 30));
    const auto found = k_.lets_.find(number);
    if (found == k_.lets_.end()) r_.fail_at(at, fmt::format("there is no %{} here", number));
    return let_value(found->second, number);
  }
  if (at.kind != TokenKind::identifier) r_.fail_expected("a value");
  const std::string_view second = r_.peek_second().text;
  if (second == "[") {
    const BufferId id = buffer();
    return loaded(k_.kernel_.buffers[id].dtype, id);
  }
  const std::string word(r_.expect_identifier());
  if (second == "<") return typed(word, at);
  if (second != "(") r_.fail_at(at, fmt::format("expected a value, found '{}'", word));
  if (word == "last_lane") return last_lane(argument());
  if (const auto type = parse_dtype(word)) return typed_constant(*type);
  if (const auto op = parse_op(word)) {
    std::vector<ValueRef> args = arguments();
    return built(at, [&] { return apply(*op, std::move(args)); });
  }
  if (!find_user_op(word) && !find_lane_unit(word))
    r_.fail_at(at, fmt::format("there is no operation '{}'", word));
  std::vector<ValueRef> args = arguments();
  return built(at, [&] { return apply(word, std::move(args)); });
}
ValueRef LineParser::loaded(DType type, BufferId id) {
  r_.expect("[");
  const Expr offset = expr();
  const Expr guard = r_.accept("where") ? expr() : Expr(1);
  r_.expect("]");
  return load_as(type, id, offset, guard);
}
ValueRef LineParser::typed_constant(DType type) {
  r_.expect("(");
  const Token number = r_.peek();
  const double read = r_.expect_float();
  if (!is_float(type) && (read != std::floor(read) || std::fabs(read) > 0x1p53))
    r_.fail_at(number, "expected an integer of at most 2^53");
  r_.expect(")");
  return constant(type, read);
}
ValueRef LineParser::typed(const std::string& word, const Token& at) {
  if (word == "load") {
    const DType type = type_argument();
    r_.expect("(");
    const BufferId id = buffer();
    ValueRef element = loaded(type, id);
    r_.expect(")");
    return element;
  }
  if (word == "index") {
    const DType type = type_argument();
    r_.expect("(");
    const Expr of = expr();
    r_.expect(")");
    return index(of, type);
  }
  if (word == "cast") {
    const DType type = type_argument();
    return cast(type, argument());
  }
  if (word == "bitcast") {
    const DType type = type_argument();
    ValueRef of = argument();
    return built(at, [&] { return bitcast(type, of); });
  }
  if (word == "reduce_lanes" || word == "scan_lanes") {
    r_.expect("<");
    const Token name = r_.peek();
    const auto op = parse_op(r_.expect_identifier("an operation"));
    if (!op) r_.fail_at(name, fmt::format("there is no operation '{}'", name.text));
    r_.expect(">");
    return word == "scan_lanes" ? scan_lanes(*op, argument()) : reduce_lanes(*op, argument());
  }
  r_.fail_at(at, fmt::format(
                     "expected load, index, cast, bitcast, reduce_lanes or scan_lanes before '<', found '{}'",
                     word));
}

} // namespace luminal::kernel::loop_detail
