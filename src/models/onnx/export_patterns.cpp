// models/onnx/export_patterns.cpp -- patterns of nodes and the operators that stand for them.
//
// A pattern is a text. Op(a, b) is a node; Add and Mul match in both orders. A name is any value, and the
// same value wherever it stands; name=Op(a) names the node's result. A number is a constant of that value.
// [a|b] is one of them. Rows of the table are tried one after the other on the whole graph, so a row may
// read what rows above it made.
#include "models/onnx/export_patterns.h"
#include "base/check.h"
#include <algorithm>
#include <cctype>
#include <cmath>
#include <functional>
#include <optional>
#include <string_view>

namespace luminal::onnx_export {
namespace {

struct Pattern {
  enum class Kind : uint8_t { value, number, node, choice } kind = Kind::value;
  std::string name, op; // of the value; of the operator
  double number = 0;
  std::vector<Pattern> parts;
};

class PatternParser {
public:
  explicit PatternParser(std::string_view text) : text_(text) {}
  Pattern parse() {
    Pattern p;
    if (take('[')) {
      p.kind = Pattern::Kind::choice;
      do p.parts.push_back(parse());
      while (take('|'));
      LUMINAL_CHECK(take(']'), "no ] in {}", text_);
      return p;
    }
    std::string word = this->word();
    if (take('=')) {
      p = parse();
      p.name = std::move(word);
    } else if (take('(')) {
      p.kind = Pattern::Kind::node;
      p.op = std::move(word);
      do p.parts.push_back(parse());
      while (take(','));
      LUMINAL_CHECK(take(')'), "no ) in {}", text_);
    } else if (std::isdigit(static_cast<unsigned char>(word.at(0))) != 0) {
      p.kind = Pattern::Kind::number;
      p.number = std::stod(word);
    } else {
      p.name = std::move(word);
    }
    return p;
  }

private:
  void skip() {
    while (at_ < text_.size() && text_[at_] == ' ') at_++;
  }
  bool take(char c) {
    skip();
    const bool here = at_ < text_.size() && text_[at_] == c;
    at_ += here ? 1 : 0;
    return here;
  }
  std::string word() {
    skip();
    const size_t begin = at_;
    while (at_ < text_.size() &&
           (std::isalnum(static_cast<unsigned char>(text_[at_])) != 0 || text_[at_] == '.'))
      at_++;
    return std::string(text_.substr(begin, at_ - begin));
  }
  std::string_view text_;
  size_t at_ = 0;
};

/// What a pattern has met: values by the pattern's names, and the nodes of all its parts.
struct Found {
  std::map<std::string, std::string> values;
  std::vector<size_t> nodes;
};

/// A match, and the node that takes its place.
class Match {
public:
  Match(ExportGraph& made, const GraphData& graph, const std::map<std::string, ValueType>& types,
        int64_t opset, const std::map<std::string, size_t>& makers, const Found& found)
      : made_(made), graph_(graph), types_(types), opset_(opset), makers_(makers), found_(found) {}

  bool has(const char* name) const { return found_.values.contains(name); }
  const std::string& operator[](const char* name) const { return found_.values.at(name); }
  const NodeData& node(const char* name) const { return graph_.nodes[makers_.at((*this)[name])]; }
  /// A number that is stretched.
  bool is_expanded(const char* name, double value) const {
    const auto at = makers_.find((*this)[name]);
    if (at == makers_.end() || graph_.nodes[at->second].op_type != "Expand") return false;
    return made_.known(graph_.nodes[at->second].inputs[0]) == value;
  }
  int64_t opset() const { return opset_; }
  ExportGraph& made() { return made_; }
  double number(const char* name) const { return made_.known((*this)[name]).value_or(std::nan("")); }
  bool is_number(const char* name) const { return made_.known((*this)[name]).has_value(); }
  const Shape* shape(const char* name, DType dtype = DType::f32) const {
    const auto at = types_.find((*this)[name]);
    return at != types_.end() && at->second.dtype == dtype ? &at->second.shape : nullptr;
  }
  std::vector<int64_t> axes() const { return made_.integers_of((*this)["axes"]); }
  /// The extents along `axes`, where all are constants.
  std::optional<std::vector<int64_t>> extents(const char* name) const {
    const Shape* all = shape(name);
    if (all == nullptr || axes().empty()) return {};
    std::vector<int64_t> extents;
    for (const int64_t axis : axes()) {
      if (!(*all)[size_t(axis)].is_constant()) return {};
      extents.push_back((*all)[size_t(axis)].value());
    }
    return extents;
  }
  /// Are the axes the last ones of the value, all of constant extent?
  bool are_last(const char* name) const {
    if (!extents(name)) return false;
    const std::vector<int64_t> list = axes();
    for (size_t k = 0; k < list.size(); k++)
      if (list[k] != int64_t(shape(name)->size() - list.size() + k)) return false;
    return true;
  }
  std::string filled(const std::vector<int64_t>& shape, float value) {
    size_t count = 1;
    for (const int64_t extent : shape) count *= size_t(extent);
    const std::vector<float> numbers(count, value);
    const auto bytes = std::as_bytes(std::span(numbers));
    return made_.constant(DType::f32, shape, {bytes.begin(), bytes.end()});
  }
  /// All elements of the constant have this value.
  bool is_filled(const char* name, float value) const { return made_.filled_with((*this)[name]) == value; }

  bool becomes(const char* op, std::vector<std::string> inputs, std::vector<Attribute> attributes = {}) {
    result.op_type = op;
    result.inputs = std::move(inputs);
    result.attributes = std::move(attributes);
    return true;
  }
  bool reduces(const char* op) {
    return becomes(op, {(*this)["x"], (*this)["axes"]}, {attribute("keepdims", int64_t(1))});
  }
  bool of_one_axis(const char* op) {
    return axes().size() == 1 && becomes(op, {(*this)["x"]}, {attribute("axis", axes()[0])});
  }

  NodeData result;

private:
  ExportGraph& made_;
  const GraphData& graph_;
  const std::map<std::string, ValueType>& types_;
  int64_t opset_;
  const std::map<std::string, size_t>& makers_;
  const Found& found_;
};

struct Row {
  std::string pattern;
  bool (*make)(Match& m); ///< false: it is not what it looks like
};

bool near(double a, double b) { return std::fabs(a - b) <= 2.5e-7 * std::fabs(b); }

bool is_mean(Match& m, bool inverse) {
  const auto extents = m.extents("x");
  if (!extents || !m.is_number("n")) return false;
  double count = 1;
  for (const int64_t extent : *extents) count *= double(extent);
  return near(m.number("n"), inverse ? 1 / count : count) && m.reduces("ReduceMean");
}
/// A reshape behind the sum leaves out its axes.
bool is_mean_without_axes(Match& m) {
  if (!is_mean(m, false)) return false;
  std::vector<int64_t> left, axes = m.axes();
  const Shape& shape = *m.shape("x");
  for (size_t d = 0; d < shape.size(); d++)
    if (std::ranges::find(axes, int64_t(d)) == axes.end())
      left.push_back(shape[d].is_constant() ? shape[d].value() : -2);
  if (m.has("s") && m.made().integers_of(m["s"]) != left) return false;
  m.result.attributes = {attribute("keepdims", int64_t(0))};
  return true;
}

/// The sum of a window, divided by its extents.
bool is_average(Match& m) {
  double size = 1;
  for (const char* name : {"a", "b", "c"})
    if (m.has(name)) size *= m.number(name);
  return m.number("size") == size && m.becomes("AveragePool", {m["x"]}, m.node("p").attributes);
}

bool is_norm(Match& m, const char* op) {
  if (!m.is_number("eps") || !m.are_last("x")) return false;
  return m.becomes(
      op, {m["x"], m.filled(*m.extents("x"), 1)},
      {attribute("axis", -int64_t(m.axes().size())), attribute("epsilon", float(m.number("eps")))});
}

/// How many axes are normalised.
int64_t norm_rank(const Match& m) {
  const auto& attributes = m.node("norm").attributes;
  return -std::ranges::find(attributes, "axis", &Attribute::name)->integer;
}
/// Is `name` of the extents that the norm's scale has?
bool fits_scale(const Match& m, const char* name) {
  const Shape *shape = m.shape(name), *x = m.shape("x");
  return shape && x && std::equal(shape->begin(), shape->end(), x->end() - norm_rank(m), x->end());
}
bool takes_scale(Match& m) {
  if (!m.is_filled("one", 1) || !fits_scale(m, "w")) return false;
  const NodeData& norm = m.node("norm");
  return m.becomes(norm.op_type.c_str(), {m["x"], m["w"]}, norm.attributes);
}
bool takes_bias(Match& m) {
  if (!fits_scale(m, "b")) return false;
  return m.becomes("LayerNormalization", {m["x"], m["w"], m["b"]}, m.node("norm").attributes);
}
/// Each channel of a picture by itself: no scale of the picture's size.
bool is_of_channels(Match& m) {
  const Shape* x = m.shape("x");
  const int64_t rank = norm_rank(m);
  if (!x || rank < 2 || int64_t(x->size()) != rank + 2 || !(*x)[1].is_constant() || !m.is_filled("one", 1))
    return false;
  const std::vector<int64_t> channels{(*x)[1].value()};
  const auto& attributes = m.node("norm").attributes;
  return m.becomes("InstanceNormalization", {m["x"], m.filled(channels, 1), m.filled(channels, 0)},
                   {*std::ranges::find(attributes, "epsilon", &Attribute::name)});
}
/// A normalisation by statistics that change nothing: a scale and a shift of each channel.
bool takes_channels(Match& m) {
  if (!m.is_filled("one", 1) || !m.is_filled("zero", 0) || !m.is_expanded("mean", 0) ||
      !m.is_expanded("variance", 1) || m.node("batch").attributes.at(0).number != 0)
    return false;
  return m.becomes("InstanceNormalization", {m["x"], m["w"], m["b"]}, m.node("norm").attributes);
}
/// The variance of each channel stands in the scale.
bool is_batch_norm(Match& m) {
  const Shape *v = m.shape("v"), *x = m.shape("x"), *w = m.has("w") ? m.shape("w") : v;
  const auto& attributes = m.node("norm").attributes;
  if (!v || !x || !w || x->size() < 2 || *v != Shape{(*x)[1]} || *w != *v || !m.is_number("eps"))
    return false;
  if (!m.is_expanded("one", 1) || attributes.at(0).number != 0 || !(*x)[1].is_constant()) return false;
  return m.becomes("BatchNormalization",
                   {m["x"], m.has("w") ? m["w"] : m.filled({(*x)[1].value()}, 1), m["b"], m["mean"], m["v"]},
                   {attribute("epsilon", float(m.number("eps")))});
}
bool is_gelu(Match& m) { return m.shape("x") != nullptr && m.becomes("Gelu", {m["x"]}); }
bool is_tanh_gelu(Match& m) {
  return m.shape("x") != nullptr &&
         m.becomes("Gelu", {m["x"]}, {attribute("approximate", std::string("tanh"))});
}

const std::vector<Row>& table() {
  static const std::vector<Row> rows = [] {
    const auto half_of = [](const std::string& g) {
      return "[Mul(Mul(x, " + g + "), 0.5)|Mul(Mul(x, 0.5), " + g + ")|Mul(x, Mul(0.5, " + g +
             "))|Div(Mul(x, " + g + "), 2)]";
    };
    const auto over_root = [](const std::string& x, const std::string& of) {
      const std::string root =
          "Sqrt(Add(ReduceMean([Mul(" + of + ", " + of + ")|Pow(" + of + ", 2)], axes), eps))";
      return "[Mul(" + x + ", Reciprocal(" + root + "))|Div(" + x + ", " + root + ")]";
    };
    const std::string deviation = "Reciprocal(Sqrt(Add(Unsqueeze(v, a), eps)))";
    const std::string window = "Mul(p=AveragePool(x), size)";
    const std::string shifted = "Sub(x, ReduceMax(x, axes))";
    return std::vector<Row>{
        {"Div(ReduceSum(x, axes), n)", [](Match& m) { return is_mean(m, false); }},
        {"Div([Reshape(ReduceSum(x, axes), s)|Squeeze(ReduceSum(x, axes), axes)], n)", is_mean_without_axes},
        {"Mul(ReduceSum(x, axes), n)", [](Match& m) { return is_mean(m, true); }},
        {"Div(Div(Div(" + window + ", a), b), c)", is_average},
        {"Div(Div(" + window + ", a), b)", is_average},
        {"Div(" + window + ", a)", is_average},
        {over_root("d=Sub(x, ReduceMean(x, axes))", "d"),
         [](Match& m) { return is_norm(m, "LayerNormalization"); }},
        {over_root("x", "x"), [](Match& m) { return m.opset() >= 23 && is_norm(m, "RMSNormalization"); }},
        {"Mul(norm=[LayerNormalization(x, one)|RMSNormalization(x, one)], w)", takes_scale},
        {"Add(norm=LayerNormalization(x, w), b)", takes_bias},
        {"norm=LayerNormalization(x, one)", is_of_channels},
        {"batch=BatchNormalization(norm=InstanceNormalization(x, one, zero), w, b, mean, variance)",
         takes_channels},
        {"[Mul(e=Exp(" + shifted + "), Reciprocal(ReduceSum(e, axes)))|Div(e=Exp(" + shifted +
             "), ReduceSum(e, axes))]",
         [](Match& m) { return m.of_one_axis("Softmax"); }},
        {"Sub(s=" + shifted + ", Log(ReduceSum(Exp(s), axes)))",
         [](Match& m) { return m.of_one_axis("LogSoftmax"); }},
        {"norm=BatchNormalization(x, Reshape([Mul(" + deviation + ", Unsqueeze(w, a))|" + deviation +
             "], s), b, mean, one)",
         is_batch_norm},
        {half_of("Add(Erf([Div(x, 1.4142135623730951)|Mul(x, 0.7071067811865476)]), 1)"), is_gelu},
        {half_of(
             "Add(Tanh(Mul(0.7978845608028654, Add(x, Mul(0.044715, [Pow(x, 3)|Mul(x, Mul(x, x))])))), 1)"),
         is_tanh_gelu},
        {"ReduceSum(Mul(x, x), axes)", [](Match& m) { return m.shape("x") && m.reduces("ReduceSumSquare"); }},
        {"Sqrt(ReduceSumSquare(x, axes))", [](Match& m) { return m.reduces("ReduceL2"); }},
        {"Where(z=Equal(s=ReduceSumSquare(x, axes), 0), 0, Sqrt(Where(z, 1, s)))",
         [](Match& m) { return m.reduces("ReduceL2"); }},
        {"ReduceSum(Abs(x), axes)", [](Match& m) { return m.shape("x") && m.reduces("ReduceL1"); }},
    };
  }();
  return rows;
}

class Joiner {
public:
  Joiner(ExportGraph& made, GraphData& whole, const std::map<std::string, ValueType>& types)
      : made_(made), whole_(whole), types_(types), opset_(ExportGraph::opset_of(whole)) {}

  void apply(const Row& row) {
    row_ = &row;
    pattern_ = PatternParser(row.pattern).parse();
    ExportGraph::prune(whole_); // nodes that nobody reads do not count as readers
    readers_.clear();
    count(whole_);
    sweep(whole_);
  }

private:
  void count(const GraphData& graph) {
    for (const NodeData& node : graph.nodes) {
      for (const std::string& input : node.inputs) readers_[input]++;
      for (const Attribute& a : node.attributes)
        for (const GraphData& inner : a.graphs) count(inner);
    }
    for (const ValueData& output : graph.outputs) readers_[output.name]++;
  }

  void sweep(GraphData& graph) {
    for (NodeData& node : graph.nodes)
      for (Attribute& a : node.attributes)
        for (GraphData& inner : a.graphs) sweep(inner);
    graph_ = &graph;
    makers_.clear();
    for (size_t i = 0; i < graph.nodes.size(); i++)
      for (const std::string& output : graph.nodes[i].outputs) makers_[output] = i;
    for (size_t i = 0; i < graph.nodes.size(); i++) {
      if (graph.nodes[i].op_type.empty() || graph.nodes[i].outputs.size() != 1) continue;
      Found found;
      const std::string root = graph.nodes[i].outputs[0];
      match(pattern_, root, found, [&](const Found& all) { return replace(i, all); });
    }
    std::erase_if(graph.nodes, [](const NodeData& node) { return node.op_type.empty(); });
  }

  using Then = std::function<bool(const Found& found)>;
  bool match(const Pattern& p, const std::string& value, const Found& found, const Then& then) const {
    if (p.kind == Pattern::Kind::number) {
      const auto known = made_.known(value);
      return known && near(*known, p.number) && then(found);
    }
    Found next = found;
    if (!p.name.empty()) {
      const auto [at, fresh] = next.values.try_emplace(p.name, value);
      if (!fresh && at->second != value) return false;
    }
    if (p.kind == Pattern::Kind::value) return then(next);
    if (p.kind == Pattern::Kind::choice)
      return std::ranges::any_of(p.parts,
                                 [&](const Pattern& part) { return match(part, value, next, then); });
    const auto maker = makers_.find(value);
    if (maker == makers_.end()) return false;
    const NodeData& node = graph_->nodes[maker->second];
    if (node.op_type != p.op || node.inputs.size() != p.parts.size() || node.outputs.size() != 1)
      return false;
    next.nodes.push_back(maker->second);
    if (match_all(p, node.inputs, 0, next, then)) return true;
    return (p.op == "Add" || p.op == "Mul") && match_all(p, {node.inputs[1], node.inputs[0]}, 0, next, then);
  }
  bool match_all(const Pattern& p, const std::vector<std::string>& inputs, size_t at, const Found& found,
                 const Then& then) const {
    if (at == inputs.size()) return then(found);
    return match(p.parts[at], inputs[at], found,
                 [&](const Found& next) { return match_all(p, inputs, at + 1, next, then); });
  }

  bool replace(size_t root, const Found& found) {
    std::vector<size_t> parts = found.nodes;
    std::ranges::sort(parts);
    parts.erase(std::ranges::unique(parts).begin(), parts.end());
    Match m(made_, *graph_, types_, opset_, makers_, found);
    if (!row_->make(m)) return false;
    NodeData& node = graph_->nodes[root];
    // Each part is read by other parts alone.
    std::map<std::string, int> inside;
    for (const size_t part : parts)
      for (const std::string& input : graph_->nodes[part].inputs) inside[input]++;
    for (const size_t part : parts)
      if (const std::string& name = graph_->nodes[part].outputs[0];
          part != root && inside[name] != readers_[name])
        return false;
    for (const auto& [name, count] : inside) readers_[name] -= count;
    for (const std::string& input : m.result.inputs) readers_[input]++;
    for (const size_t part : parts)
      if (part != root) graph_->nodes[part].op_type.clear();
    node.op_type = std::move(m.result.op_type);
    node.inputs = std::move(m.result.inputs);
    node.attributes = std::move(m.result.attributes);
    return true;
  }

  ExportGraph& made_;
  GraphData& whole_;
  const std::map<std::string, ValueType>& types_;
  int64_t opset_;
  const Row* row_ = nullptr;
  Pattern pattern_;
  std::map<std::string, int> readers_;
  GraphData* graph_ = nullptr;
  std::map<std::string, size_t> makers_; // index of the node in graph_
};

} // namespace

void join_operators(ExportGraph& made, GraphData& graph, const std::map<std::string, ValueType>& types) {
  Joiner joiner(made, graph, types);
  for (const Row& row : table()) joiner.apply(row);
}

} // namespace luminal::onnx_export
