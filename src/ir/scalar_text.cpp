// ir/scalar_text.cpp -- scalar programs as text. What is printed is parsed back to an equal
// program.
#include "base/check.h"
#include "base/text_reader.h"
#include "ir/scalar.h"
#include <cmath>
#include <functional>

namespace luminal {
namespace {

using Kind = ScalarNode::Kind;
enum Level { comparison_level, sum_level, product_level, unary_level, atom_level };

struct Infix {
  Op op;
  std::string_view sign;
  Level level;
};
constexpr Infix infixes[] = {
    {Op::add, "+", sum_level},        {Op::sub, "-", sum_level},        {Op::mul, "*", product_level},
    {Op::div, "/", product_level},    {Op::lt, "<", comparison_level},  {Op::le, "<=", comparison_level},
    {Op::eq, "==", comparison_level}, {Op::ne, "!=", comparison_level},
};
const Infix* infix_of(Op op) {
  for (const Infix& infix : infixes)
    if (infix.op == op) return &infix;
  return nullptr;
}

std::string constant_text(double value) {
  if (std::isnan(value)) return "nan";
  std::string text = float_text(value);
  return text.ends_with(".0") ? text.substr(0, text.size() - 2) : text;
}

class Printer {
public:
  Printer(const Scalar& program, const std::vector<std::string>& names)
      : nodes_(program.nodes()), names_(names) {}

  /// The text of a node where an operand of at least this level is asked for.
  std::string print(int index, Level least) const {
    const ScalarNode& node = nodes_[size_t(index)];
    switch (node.kind) {
    case Kind::constant: {
      std::string text = constant_text(node.value);
      return text[0] == '-' && least > unary_level ? "(" + text + ")" : text;
    }
    case Kind::leaf:
      return size_t(node.leaf) < names_.size() ? names_[size_t(node.leaf)] : fmt::format("leaf{}", node.leaf);
    case Kind::cast:
      return fmt::format("cast<{}>({})", to_string(node.dtype), print(node.args[0], comparison_level));
    case Kind::op: break;
    }
    if (const Infix* infix = infix_of(node.op)) {
      auto right = Level(infix->level + 1),
           left = infix->level == comparison_level ? sum_level : infix->level;
      std::string text =
          fmt::format("{} {} {}", print(node.args[0], left), infix->sign, print(node.args[1], right));
      return infix->level < least ? "(" + text + ")" : text;
    }
    if (node.op == Op::neg &&
        nodes_[size_t(node.args[0])].kind != Kind::constant) { // -1 is a constant, neg(1) is not
      std::string text = "-" + print(node.args[0], atom_level);
      return least > unary_level ? "(" + text + ")" : text;
    }
    std::string text = std::string(to_string(node.op)) + "(";
    for (int i = 0; i < row(node.op).arity; ++i)
      text += (i ? ", " : "") + print(node.args[i], comparison_level);
    return text + ")";
  }

private:
  const std::vector<ScalarNode>& nodes_;
  const std::vector<std::string>& names_;
};

class Parser {
public:
  Parser(TextReader& reader, const std::vector<std::string>& names) : reader_(reader), names_(names) {}

  Scalar comparison() {
    TextReader::Nested nested(reader_);
    Scalar left = sum();
    for (const Infix& infix : infixes)
      if (infix.level == comparison_level && reader_.accept(infix.sign))
        return Scalar::apply(infix.op, {left, sum()});
    if (reader_.accept(">")) return Scalar::apply(Op::lt, swapped(left));
    if (reader_.accept(">=")) return Scalar::apply(Op::le, swapped(left));
    return left;
  }

private:
  std::vector<Scalar> swapped(const Scalar& left) {
    Scalar right = sum();
    return {right, left};
  }
  Scalar sum() {
    return chain(sum_level, [this] { return product(); });
  }
  Scalar product() {
    return chain(product_level, [this] { return unary(); });
  }
  Scalar chain(Level level, const std::function<Scalar()>& operand) {
    Scalar left = operand();
    for (;;) {
      const Infix* found = nullptr;
      for (const Infix& infix : infixes)
        if (infix.level == level && reader_.at(infix.sign)) found = &infix;
      if (!found) return left;
      reader_.next();
      left = limited(Scalar::apply(found->op, {left, operand()}));
    }
  }
  Scalar unary() {
    TextReader::Nested nested(reader_);
    if (!reader_.at("-")) return atom();
    Token after = reader_.peek_second();
    bool number = after.kind == TokenKind::integer || after.kind == TokenKind::floating ||
                  (after.kind == TokenKind::identifier && (after.text == "inf" || after.text == "nan"));
    if (number) return Scalar::constant(reader_.expect_float());
    reader_.next();
    return Scalar::apply(Op::neg, {unary()});
  }
  Scalar atom() {
    if (reader_.accept("(")) {
      Scalar inner = comparison();
      reader_.expect(")");
      return inner;
    }
    if (reader_.at(TokenKind::integer) || reader_.at(TokenKind::floating) || reader_.at("inf") ||
        reader_.at("nan"))
      return Scalar::constant(reader_.expect_float());
    if (!reader_.at(TokenKind::identifier)) reader_.fail_expected("a number, a name or '('");
    Token token = reader_.next();
    for (size_t i = 0; i < names_.size(); ++i)
      if (names_[i] == token.text) return Scalar::leaf(int(i));
    if (token.text == "cast" && reader_.at("<")) return cast();
    if (auto op = parse_op(token.text)) return call(*op, token);
    if (token.text == "gt") return mirrored(Op::lt, token);
    if (token.text == "ge") return mirrored(Op::le, token);
    std::string known;
    for (const std::string& name : names_) known += (known.empty() ? "" : ", ") + name;
    reader_.fail_at(token, fmt::format("'{}' is neither an operation nor one of {}", token.text, known));
  }
  Scalar cast() {
    reader_.expect("<");
    Token token = reader_.peek();
    auto type = parse_dtype(reader_.expect_identifier("a type"));
    if (!type) reader_.fail_at(token, fmt::format("'{}' is not a type", token.text));
    reader_.expect(">");
    reader_.expect("(");
    Scalar x = comparison();
    reader_.expect(")");
    return Scalar::cast(*type, x);
  }
  std::vector<Scalar> arguments(const Token& name, int arity) {
    reader_.expect("(");
    std::vector<Scalar> args;
    do args.push_back(comparison());
    while (reader_.accept(","));
    reader_.expect(")");
    if (int(args.size()) != arity)
      reader_.fail_at(name, fmt::format("'{}' takes {} arguments, found {}", name.text, arity, args.size()));
    return args;
  }
  Scalar call(Op op, const Token& name) { return limited(Scalar::apply(op, arguments(name, row(op).arity))); }
  Scalar mirrored(Op op, const Token& name) {
    auto args = arguments(name, 2);
    return Scalar::apply(op, {args[1], args[0]});
  }
  Scalar limited(Scalar program) const {
    if (program.nodes().size() > 400) reader_.fail("the program has more than 400 operations");
    return program;
  }

  TextReader& reader_;
  const std::vector<std::string>& names_;
};

} // namespace

std::string to_string(const Scalar& program, const std::vector<std::string>& leaf_names) {
  return Printer(program, leaf_names).print(int(program.nodes().size()) - 1, comparison_level);
}
Scalar parse_scalar(TextReader& reader, const std::vector<std::string>& leaf_names) {
  return Parser(reader, leaf_names).comparison();
}
Scalar parse_scalar(std::string_view text, const std::vector<std::string>& leaf_names) {
  TextReader reader(text);
  Scalar program = parse_scalar(reader, leaf_names);
  reader.expect_end();
  return program;
}

} // namespace luminal
