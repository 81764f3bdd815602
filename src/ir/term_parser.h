// ir/term_parser.h -- the text form of a module, read back; docs/terms.md has the grammar. Every
// mistake is an Error with file, line and column.
#pragma once
#include "base/hash.h"
#include "base/text_reader.h"
#include "expr/parse_expr.h"
#include "ir/infer.h"
#include "ir/rule_text.h"
#include "ir/text_names.h"
#include <algorithm>
#include <fmt/format.h>
#include <set>

namespace luminal {

/// One pass over the text; nodes are made, typed and checked as they are read.
class TermParser {
public:
  TermParser(std::string_view text, std::string_view file) : reader_(text, std::string(file)) {}

  Module run() {
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

  // ---- rules: both sides are read into one function ----
  RuleFile rule_file(std::string text, std::string file);
  RuleInstance rule(const RuleHead& head, const RuleChoice& choice);

private:
  using Inputs = std::vector<NodeId>;

  void rule_head(RuleFile& out, const RuleHead& declared);
  void rule_types(RuleHead& declared);
  NodeId rule_side();
  /// "..s": the number of axes that it stands for, none where there is no such token.
  std::optional<std::pair<std::string, int>> pack() {
    if (!choice_ || !reader_.accept("..")) return {};
    Token name = reader_.peek();
    auto at = choice_->ranks.find(reader_.expect_identifier("the name of a shape"));
    if (at == choice_->ranks.end()) reader_.fail_at(name, fmt::format("there is no shape '{}'", name.text));
    return *at;
  }

  // ---- the module ----
  void symbol() {
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
  void assumption() {
    Token at = reader_.peek();
    Expr condition = parse_expr(reader_, scope_);
    if (condition.is_constant(0)) reader_.fail_at(at, "the assumption never holds");
    if (!condition.is_constant()) module_.assumptions.push_back(condition);
  }
  Interval range() {
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
  std::string word_or_string(std::string_view what) {
    if (reader_.at(TokenKind::string)) return reader_.expect_string();
    return std::string(reader_.expect_identifier(what));
  }

  // ---- a function ----
  void function() {
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
  void parameter() {
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
  void results() {
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
  void define(const Token& name, NodeId id) {
    if (name.text.empty()) reader_.fail_at(name, "a name is missing after %");
    if (!nodes_.emplace(std::string(name.text), id).second)
      reader_.fail_at(name, fmt::format("%{} exists already", name.text));
    if (is_plain_name(name.text) && (*builder_)[id].name.empty()) builder_->name(id, std::string(name.text));
  }
  NodeId use() {
    Token name = reader_.peek();
    reader_.expect_value_name("a value %name");
    auto at = nodes_.find(name.text);
    if (at == nodes_.end())
      reader_.fail_at(name, fmt::format("there is no %{} before this place", name.text));
    return at->second;
  }
  NodeId add(const Token& at, Attr attr, Inputs inputs, std::vector<std::string> names = {}) {
    try {
      return builder_->insert(std::move(attr), std::move(inputs), std::move(names));
    } catch (const TermMistake& mistake) {
      reader_.fail_at(at, fmt::format("[{}] {}", mistake.operation, mistake.text));
    }
  }

  // ---- types, lists, expressions ----
  DType dtype() {
    Token at = reader_.peek();
    const std::string_view word = reader_.expect_identifier("a type");
    auto type = parse_dtype(word);
    if (choice_)
      if (auto variable = choice_->types.find(word); variable != choice_->types.end())
        type = variable->second;
    if (!type) reader_.fail_at(at, fmt::format("'{}' is not a type", at.text));
    return *type;
  }
  TensorType type() {
    TensorType result{dtype(), {}};
    if (reader_.at("[")) result.shape = list(scope_);
    return result;
  }
  std::vector<TensorType> types() {
    std::vector<TensorType> result;
    reader_.expect("(");
    if (reader_.accept(")")) return result;
    do result.push_back(type());
    while (reader_.accept(","));
    reader_.expect(")");
    return result;
  }
  std::vector<Expr> list(const SymbolScope& scope) {
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
  Inputs inputs_in_parentheses() {
    Inputs result;
    reader_.expect("(");
    if (reader_.accept(")")) return result;
    do result.push_back(use());
    while (reader_.accept(","));
    reader_.expect(")");
    return result;
  }

  /// The axes of one node: names, extents, and what its expressions may read.
  struct Axes {
    std::vector<std::string> names;
    Shape space;
    SymbolScope scope;
    std::vector<std::string> holes; // their names
    bool named = false;
    std::vector<std::string> kept() const { return named ? names : std::vector<std::string>(); }
  };
  Axes axes() {
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
  int axis(const Axes& axes) {
    Token name = reader_.peek();
    reader_.expect_identifier("the name of an axis");
    auto at = std::find(axes.names.begin(), axes.names.end(), name.text);
    if (at == axes.names.end()) reader_.fail_at(name, fmt::format("'{}' is none of the axes", name.text));
    return int(at - axes.names.begin());
  }
  std::vector<int> axis_list(const Axes& axes) {
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
  /// "with h0 = %ids[t] in 0..511 clamp, ...": the operands are appended to the inputs.
  std::vector<Hole> holes(Axes& axes, Inputs& inputs) {
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
  std::vector<Expr> arrow_map(const Axes& axes) {
    reader_.expect("->");
    return list(axes.scope);
  }
  Expr where(const Axes& axes) { return reader_.accept("where") ? parse_expr(reader_, axes.scope) : Expr(1); }
  /// The condition of a fold. Gives the outer axes that it names and no longer varies with: they
  /// count for the types of the results, which do not depend on what is proved.
  std::set<int> domain(const Axes& axes, FoldAttr& attr) {
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
  /// The value along more axes.
  NodeId repeated(const Token& at, NodeId body, std::vector<int>& axes, const std::set<int>& more,
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
  /// "{ max %s[q, k]; sum(self * exp2(old0 - new0)) %v[k, e] }"
  Monoid components(const Axes& axes, Inputs& inputs, std::vector<std::vector<int>>& body_axes) {
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

  // ---- nodes ----
  void node() {
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

  NodeId operation() {
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
  NodeId fence(const Token& at) {
    Inputs inputs{use()};
    FenceAttr attr;
    if (reader_.accept("on")) attr.device = device();
    if (reader_.accept("after")) {
      do inputs.push_back(use());
      while (reader_.accept(","));
    }
    return add(at, std::move(attr), std::move(inputs));
  }
  std::string device() {
    Token at = reader_.peek();
    std::string name = word_or_string("the name of a device");
    if (name.empty()) reader_.fail_at(at, "a device needs a name");
    return name;
  }
  NodeId map(const Token& at) {
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
  NodeId constant(const Token& at) {
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
      for (size_t i = 0; i < floats.size(); ++i)
        store_f64(attr.type.dtype, data.data(), int64_t(i), floats[i]);
      for (size_t i = 0; i < integers.size(); ++i)
        store_i64(attr.type.dtype, data.data(), int64_t(i), integers[i]);
    }
    attr.data = std::make_shared<const std::vector<std::byte>>(std::move(data));
    return add(at, std::move(attr), {});
  }
  NodeId iota(const Token& at) {
    IotaAttr attr;
    attr.type.dtype = dtype();
    Axes a = axes();
    attr.type.shape = a.space;
    reader_.expect("->");
    attr.value = parse_expr(reader_, a.scope);
    return add(at, std::move(attr), {}, a.kept());
  }
  NodeId random(const Token& at) {
    RandomAttr attr;
    attr.type.dtype = dtype();
    NodeId key = use();
    Axes a = axes();
    attr.type.shape = a.space;
    reader_.expect("->");
    attr.counter = parse_expr(reader_, a.scope);
    return add(at, std::move(attr), {key}, a.kept());
  }
  template <class A> NodeId cast(const Token& at) {
    DType to = dtype();
    return add(at, A{to}, {use()});
  }
  NodeId view(const Token& at) {
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
  NodeId scatter(const Token& at) {
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
  NodeId fold(const Token& at) {
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
  NodeId scan(const Token& at) {
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
  int small_integer() {
    Token at = reader_.peek();
    int64_t value = reader_.expect_integer();
    if (value < 0 || value > 1'000'000) reader_.fail_at(at, "expected a small number");
    return int(value);
  }
  NodeId sort(const Token& at) {
    SortAttr attr;
    Inputs inputs;
    do inputs.push_back(use());
    while (reader_.accept(","));
    reader_.expect("along");
    attr.axis = small_integer();
    attr.descending = reader_.accept("descending");
    return add(at, attr, std::move(inputs));
  }
  NodeId collective(const Token& at) {
    CollectiveAttr attr;
    attr.kind = std::string(reader_.expect_identifier("the kind of a collective"));
    attr.group = reader_.expect_string("the group, \"name:members\"");
    reader_.expect("axis");
    attr.axis = small_integer();
    return add(at, std::move(attr), {use()});
  }
  std::string function_name() { return std::string(reader_.expect_global_name("a function @name")); }
  NodeId call(const Token& at) {
    CallAttr attr{function_name()};
    return add(at, std::move(attr), inputs_in_parentheses());
  }
  NodeId loop(const Token& at) {
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
  NodeId cond(const Token& at) {
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
  NodeId host(const Token& at) {
    HostAttr attr;
    attr.kind = word_or_string("print, diff or the name of a host function");
    if (reader_.at(TokenKind::string)) attr.text = reader_.expect_string();
    Inputs inputs = inputs_in_parentheses();
    if (reader_.accept("->")) attr.results = types();
    return add(at, std::move(attr), std::move(inputs));
  }
  NodeId custom(const Token& at) {
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
  NodeId get(const Token& at) {
    NodeId tuple = use();
    reader_.expect(",");
    return add(at, GetAttr{small_integer()}, {tuple});
  }

  TextReader reader_;
  Module module_;
  SymbolScope scope_;
  FunctionBuilder* builder_ = nullptr;
  const RuleChoice* choice_ = nullptr; // of a rule that is being read
  std::map<std::string, NodeId, std::less<>> nodes_;
};

} // namespace luminal
