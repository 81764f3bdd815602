// tensor/products.cpp -- products that sum over shared axes: each is one fold over the space of all
// axes.
#include "luminal/functions.h"
#include "tensor/compose.h"
#include "tensor/extents.h"
#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <map>
#include <optional>

namespace luminal {

Tensor Tensor::matmul(const Tensor& other, Where where) const {
  auto graph = graph_of("matmul", {this, &other}, where);
  Tensor a = rank() == 1 ? unsqueeze(0, where) : *this,
         b = other.rank() == 1 ? other.unsqueeze(1, where) : other;
  if (rank() == 0 || other.rank() == 0)
    throw Error("matmul", "a scalar has no axis to multiply along", where);
  const Shape x = type_of(a).shape, y = type_of(b).shape;
  const Expr m = x[x.size() - 2], k = x.back(), n = y.back();
  if (!equal_extents(k, y[y.size() - 2]))
    throw Error("matmul",
                fmt::format("inner sizes differ: {} x {} ({} != {})", text_of(type_of(*this).shape),
                            text_of(type_of(other).shape), to_string(k), to_string(y[y.size() - 2])),
                where);
  Shape batch =
      broadcast_shape("matmul", Shape(x.begin(), x.end() - 2), Shape(y.begin(), y.end() - 2), where);
  DType type = promote(a.dtype(), b.dtype()), wide = accumulator(type == DType::boolean ? DType::i64 : type);
  Tensor result = build("matmul", graph, where, [&](FunctionBuilder& f) {
    Shape space = batch;
    space.insert(space.end(), {m, n, k});
    const int outer = int(batch.size());
    std::vector<std::string> names;
    for (int d = 0; d < outer; d++) names.push_back(outer == 1 ? "b" : fmt::format("b{}", d));
    names.insert(names.end(), {"m", "n", "k"});
    auto operand = [&](const Tensor& t, const Shape& shape, int row, int column) {
      std::vector<Expr> map;
      const int skip = outer - (int(shape.size()) - 2);
      for (int d = skip; d < outer; d++)
        map.push_back(shape[size_t(d - skip)].is_constant(1) ? Expr(0) : axis_symbol(d, space[size_t(d)]));
      map.push_back(axis_symbol(row, space[size_t(row)]));
      map.push_back(axis_symbol(column, space[size_t(column)]));
      NodeId view = f.view(node_id(t), space, map, 1, 0, names);
      return f[view].type().dtype == wide ? view : f.cast(view, wide);
    };
    NodeId product =
        f.map(Op::mul, {operand(a, x, outer, outer + 2), operand(b, y, outer + 2, outer + 1)}, where);
    FoldAttr fold;
    fold.monoid = Monoid::plain(Op::add, wide);
    fold.space = space;
    fold.reduced = {outer + 2};
    fold.body_axes.emplace_back();
    for (int d = 0; d < outer + 3; d++) fold.body_axes[0].push_back(d);
    const NodeId sum = f.add(fold, {product}, names, where);
    f.origin(sum, "matmul" + maker_text(*graph, where));
    const NodeId value = f.get(sum, 0);
    return is_float(type) && wide != type ? f.cast(value, type) : value;
  });
  if (rank() == 1) result = result.squeeze(other.rank() == 1 ? -2 : int(result.rank()) - 2, where);
  if (other.rank() == 1) result = result.squeeze(-1, where);
  return result;
}

namespace {

using Labels = std::vector<int>;
bool has(const Labels& labels, int label) {
  return std::find(labels.begin(), labels.end(), label) != labels.end();
}

/// A tensor and the names of its axes.
struct Labelled {
  Tensor tensor;
  Labels labels;
};

/// Products of the factors, summed over every name that `out` lacks. The space: names of all
/// factors, of the first, of the second, then the summed ones: what a matrix product looks like.
/// Names of all factors may stand where `out` has them: they split neither rows nor columns.
Tensor contract(std::string_view op, const std::vector<Labelled>& factors, const Labels& out,
                const std::map<int, Expr>& extents, Where where) {
  const auto shared = [&](int label) {
    return std::all_of(factors.begin(), factors.end(),
                       [&](const Labelled& f) { return has(f.labels, label); });
  };
  Labels order, summed;
  for (int label : out)
    if (shared(label)) order.push_back(label);
  for (const Labelled& factor : factors)
    for (int label : out)
      if (has(factor.labels, label) && !has(order, label)) order.push_back(label);
  Labels apart;
  for (int label : order)
    if (!shared(label)) apart.push_back(label);
  Labels as_asked;
  for (int label : out)
    if (!shared(label)) as_asked.push_back(label);
  if (apart == as_asked) order = out;
  for (const Labelled& factor : factors)
    for (int label : factor.labels)
      if (!has(out, label) && !has(summed, label)) summed.push_back(label);
  const size_t kept = order.size();
  order.insert(order.end(), summed.begin(), summed.end());
  Shape space;
  for (int label : order) space.push_back(extents.at(label));
  DType type = factors[0].tensor.dtype();
  for (const Labelled& factor : factors) type = promote(type, factor.tensor.dtype());
  const DType wide = accumulator(type == DType::boolean ? DType::i64 : type);
  Tensor result = build(op, factors[0].tensor.graph(), where, [&](FunctionBuilder& f) {
    NodeId product;
    for (size_t i = 0; i < factors.size(); i++) {
      const Shape& shape = type_of(factors[i].tensor).shape;
      std::vector<Expr> map;
      for (size_t d = 0; d < shape.size(); d++) {
        const size_t at = size_t(std::find(order.begin(), order.end(), factors[i].labels[d]) - order.begin());
        map.push_back(shape[d].is_constant(1) ? Expr(0) : axis_symbol(int(at), space[at]));
      }
      NodeId view = f.view(node_id(factors[i].tensor), space, map);
      if (f[view].type().dtype != wide) view = f.cast(view, wide);
      product = i == 0 ? view : f.map(Op::mul, {product, view}, where);
    }
    if (!summed.empty()) {
      std::vector<int> axes;
      for (size_t d = kept; d < order.size(); d++) axes.push_back(int(d));
      product = f.reduce(Op::add, product, axes);
      if (f[product].kind == NodeKind::get)
        f.origin(f[product].inputs[0], std::string(op) + maker_text(*factors[0].tensor.graph(), where));
    }
    return is_float(type) ? f.cast(product, type) : product;
  });
  std::vector<int> permutation;
  for (int label : out)
    permutation.push_back(int(std::find(order.begin(), order.end(), label) - order.begin()));
  return std::is_sorted(permutation.begin(), permutation.end()) ? result : result.permute(permutation, where);
}

constexpr int ellipsis_label = 1000; // of the last axis behind "..."; the ones before it count up

struct Equation {
  std::vector<Labels> inputs;
  Labels output;
};

Equation parse_equation(const std::string& text, const std::vector<Tensor>& tensors, Where where) {
  const auto fail = [&](const std::string& what) {
    throw Error("einsum", fmt::format("\"{}\": {}", text, what), where);
  };
  const size_t arrow = text.find("->");
  std::vector<std::string> terms{""};
  for (char c : text.substr(0, arrow)) {
    if (c == ',')
      terms.emplace_back();
    else if (c != ' ')
      terms.back() += c;
  }
  if (terms.size() != tensors.size())
    fail(fmt::format("names the axes of {} tensors, {} are given", terms.size(), tensors.size()));
  int ellipsis = 0; // the most axes behind one
  const auto read = [&](const std::string& term, std::optional<int> rank) {
    Labels labels;
    bool dots = false;
    for (size_t i = 0; i < term.size(); i++) {
      const char c = term[i];
      if (c == '.') {
        if (dots || term.compare(i, 3, "...") != 0)
          fail(fmt::format("'{}' has dots that are not single ...", term));
        dots = true;
        i += 2;
        const int names = int(term.size()) - 3, axes = rank ? *rank - names : ellipsis;
        if (axes < 0) fail(fmt::format("'{}' names {} axes, the tensor has {}", term, names, *rank));
        ellipsis = std::max(ellipsis, axes);
        for (int d = axes; d-- > 0;) labels.push_back(ellipsis_label + d);
      } else if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'))
        labels.push_back(c);
      else
        fail(fmt::format("'{}' is not a name of an axis (a letter)", c));
    }
    if (rank && int(labels.size()) != *rank)
      fail(fmt::format("'{}' names {} axes, the tensor has {}", term, labels.size(), *rank));
    return labels;
  };
  Equation equation;
  std::map<int, int> uses;
  for (size_t i = 0; i < terms.size(); i++) {
    equation.inputs.push_back(read(terms[i], tensors[i].rank()));
    for (int label : equation.inputs.back()) uses[label]++;
  }
  if (arrow != std::string::npos) {
    std::string output;
    for (char c : text.substr(arrow + 2))
      if (c != ' ') output += c;
    equation.output = read(output, {});
    for (size_t i = 0; i < equation.output.size(); i++) {
      const int label = equation.output[i];
      if (!uses.contains(label)) fail(fmt::format("the result's axis '{}' is in no tensor", char(label)));
      if (std::count(equation.output.begin(), equation.output.end(), label) > 1)
        fail(fmt::format("the result names '{}' twice", char(label)));
    }
  } else {
    for (int d = ellipsis; d-- > 0;) equation.output.push_back(ellipsis_label + d);
    for (auto [label, count] : uses)
      if (label < ellipsis_label && count == 1) equation.output.push_back(label);
  }
  return equation;
}

/// Contraction of pairs of axes; the rest of a, then the rest of b.
Tensor dotted(std::string_view op, const Tensor& a, const Tensor& b, const std::vector<int>& axes_a,
              const std::vector<int>& axes_b, Where where) {
  const Shape x = type_of(a).shape, y = type_of(b).shape;
  Labelled left{a, {}}, right{b, {}};
  std::map<int, Expr> extents;
  Labels out;
  for (size_t d = 0; d < x.size(); d++) left.labels.push_back(int(d)), extents[int(d)] = x[d];
  for (size_t d = 0; d < y.size(); d++) {
    const auto pair = std::find(axes_b.begin(), axes_b.end(), int(d));
    int label = int(x.size() + d);
    if (pair != axes_b.end()) {
      label = axes_a[size_t(pair - axes_b.begin())];
      if (!equal_extents(x[size_t(label)], y[d]))
        throw Error(op,
                    fmt::format("axis {} of {} and axis {} of {} differ: {} and {}", label, text_of(x), d,
                                text_of(y), to_string(x[size_t(label)]), to_string(y[d])),
                    where);
    } else
      extents[label] = y[d];
    right.labels.push_back(label);
  }
  for (int label : left.labels)
    if (std::find(axes_a.begin(), axes_a.end(), label) == axes_a.end()) out.push_back(label);
  for (int label : right.labels)
    if (label >= int(x.size())) out.push_back(label);
  return contract(op, {left, right}, out, extents, where);
}

} // namespace

Tensor einsum(const std::string& text, const std::vector<Tensor>& tensors, Where where) {
  if (tensors.empty()) throw Error("einsum", "no tensors are given", where);
  for (const Tensor& t : tensors) graph_of("einsum", {&tensors[0], &t}, where);
  Equation equation = parse_equation(text, tensors, where);
  std::map<int, Expr> extents;
  for (size_t i = 0; i < tensors.size(); i++) {
    const Shape& shape = type_of(tensors[i]).shape;
    for (size_t d = 0; d < shape.size(); d++) {
      const int label = equation.inputs[i][d];
      Expr& known = extents.try_emplace(label, shape[d]).first->second;
      if (known.is_constant(1))
        known = shape[d];
      else if (!shape[d].is_constant(1) && !equal_extents(known, shape[d]))
        throw Error(
            "einsum",
            fmt::format("\"{}\": {} has extent {} here and {} in tensor {} of shape {}", text,
                        label < ellipsis_label ? fmt::format("axis '{}'", char(label)) : "an axis of ...",
                        to_string(known), to_string(shape[d]), i, text_of(shape)),
            where);
    }
  }
  Labelled product{tensors[0], equation.inputs[0]};
  if (tensors.size() == 1) return contract("einsum", {product}, equation.output, extents, where);
  for (size_t i = 1; i < tensors.size(); i++) {
    Labels out;
    if (i + 1 == tensors.size())
      out = equation.output;
    else { // what a later tensor or the result needs
      Labels both = product.labels;
      both.insert(both.end(), equation.inputs[i].begin(), equation.inputs[i].end());
      for (int label : both) {
        bool needed = has(equation.output, label);
        for (size_t j = i + 1; j < tensors.size(); j++) needed |= has(equation.inputs[j], label);
        if (needed && !has(out, label)) out.push_back(label);
      }
    }
    product = {contract("einsum", {product, {tensors[i], equation.inputs[i]}}, out, extents, where), out};
  }
  return product.tensor;
}

Tensor tensordot(const Tensor& a, const Tensor& b, const std::vector<int>& axes_a,
                 const std::vector<int>& axes_b, Where where) {
  graph_of("tensordot", {&a, &b}, where);
  if (axes_a.size() != axes_b.size())
    throw Error(
        "tensordot",
        fmt::format("{} axes of one tensor and {} of the other are named", axes_a.size(), axes_b.size()),
        where);
  std::vector<int> x, y;
  for (size_t i = 0; i < axes_a.size(); i++) {
    x.push_back(axis_of("tensordot", axes_a[i], a.rank(), where));
    y.push_back(axis_of("tensordot", axes_b[i], b.rank(), where));
    for (size_t j = 0; j < i; j++)
      if (x[j] == x[i] || y[j] == y[i]) throw Error("tensordot", "an axis is named twice", where);
  }
  return dotted("tensordot", a, b, x, y, where);
}

Tensor tensordot(const Tensor& a, const Tensor& b, int count, Where where) {
  graph_of("tensordot", {&a, &b}, where);
  if (count < 0 || count > a.rank() || count > b.rank())
    throw Error("tensordot",
                fmt::format("{} axes cannot be summed over: the shapes are {} and {}", count,
                            text_of(type_of(a).shape), text_of(type_of(b).shape)),
                where);
  std::vector<int> x, y;
  for (int i = 0; i < count; i++) x.push_back(a.rank() - count + i), y.push_back(i);
  return dotted("tensordot", a, b, x, y, where);
}

Tensor dot(const Tensor& a, const Tensor& b, Where where) {
  graph_of("dot", {&a, &b}, where);
  need_rank("dot", a, 1, "the first operand", where);
  need_rank("dot", b, 1, "the second operand", where);
  return dotted("dot", a, b, {0}, {0}, where);
}
Tensor inner(const Tensor& a, const Tensor& b, Where where) {
  graph_of("inner", {&a, &b}, where);
  if (a.rank() == 0 || b.rank() == 0) return a * b;
  return dotted("inner", a, b, {a.rank() - 1}, {b.rank() - 1}, where);
}
Tensor outer(const Tensor& a, const Tensor& b, Where where) {
  graph_of("outer", {&a, &b}, where);
  need_rank("outer", a, 1, "the first operand", where);
  need_rank("outer", b, 1, "the second operand", where);
  return dotted("outer", a, b, {}, {}, where);
}
Tensor mv(const Tensor& matrix, const Tensor& vector, Where where) {
  graph_of("mv", {&matrix, &vector}, where);
  need_rank("mv", matrix, 2, "the matrix", where);
  need_rank("mv", vector, 1, "the vector", where);
  return matrix.matmul(vector, where);
}
Tensor bmm(const Tensor& a, const Tensor& b, Where where) {
  graph_of("bmm", {&a, &b}, where);
  need_rank("bmm", a, 3, "the first operand", where);
  need_rank("bmm", b, 3, "the second operand", where);
  return a.matmul(b, where);
}

Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias, Where where) {
  graph_of("linear", {&x, &weight}, where);
  if (bias.defined()) graph_of("linear", {&x, &bias}, where);
  const Shape in = type_of(x).shape, w = type_of(weight).shape;
  if (w.size() != 2 || in.empty() || !equal_extents(in.back(), w[1]))
    throw Error("linear",
                fmt::format("x {} needs a weight of shape [out, {}], it is {}", text_of(in),
                            in.empty() ? "in" : to_string(in.back()), text_of(w)),
                where);
  if (bias.defined() && (bias.rank() != 1 || !equal_extents(type_of(bias).shape[0], w[0])))
    throw Error("linear",
                fmt::format("the bias must be [{}], it is {}", to_string(w[0]), text_of(type_of(bias).shape)),
                where);
  Tensor y = x.matmul(weight.transpose(0, 1, where), where);
  return bias.defined() ? y + bias : y;
}

Tensor bilinear(const Tensor& a, const Tensor& b, const Tensor& weight, const Tensor& bias, Where where) {
  graph_of("bilinear", {&a, &b, &weight}, where);
  need_rank("bilinear", weight, 3, "the weight", where);
  Tensor y = einsum("...m,...n,omn->...o", {a, b, weight}, where);
  return bias.defined() ? y + bias : y;
}

Tensor cosine_similarity(const Tensor& a, const Tensor& b, int axis, double eps, Where where) {
  graph_of("cosine_similarity", {&a, &b}, where);
  Floats f("cosine_similarity", {Operand(a, where), Operand(b, where)}, where);
  if (f[0].rank() == 0) return cosine_similarity(a.reshape({1}), b.reshape({1}), axis, eps, where);
  axis = axis_of("cosine_similarity", axis, f[0].rank(), where);
  const auto total = [&](const Tensor& t) { return t.sum(axis, false, where); };
  return f.done(total(f[0] * f[1]) /
                (maximum(root(total(f[0] * f[0])), eps) * maximum(root(total(f[1] * f[1])), eps)));
}

Tensor scaled_dot_product_attention(const Tensor& query, const Tensor& key, const Tensor& value,
                                    const AttentionOptions& options, Where where) {
  constexpr std::string_view op = "scaled_dot_product_attention";
  graph_of(op, {&query, &key, &value}, where);
  const Shape q = type_of(query).shape, k = type_of(key).shape, v = type_of(value).shape;
  const auto fail = [&](const std::string& what) {
    throw Error(op, fmt::format("{}: query {}, key {}, value {}", what, text_of(q), text_of(k), text_of(v)),
                where);
  };
  if (q.size() < 2 || k.size() != q.size() || v.size() != q.size())
    fail("the tensors need equal numbers of axes, two at least");
  const size_t rank = q.size();
  if (!equal_extents(q[rank - 1], k[rank - 1])) fail("query and key differ in their last axis");
  if (!equal_extents(k[rank - 2], v[rank - 2])) fail("there must be one value for each key");
  Tensor a = query, b = key, c = value;
  const bool grouped = rank > 2 && !equal_extents(q[rank - 3], k[rank - 3]) && !k[rank - 3].is_constant(1);
  if (rank > 2 && !equal_extents(k[rank - 3], v[rank - 3])) fail("key and value differ in their heads");
  if (grouped) {
    if (prove(eq(mod(q[rank - 3], k[rank - 3]), 0)) != Truth::yes)
      fail("the heads of the query are not a multiple of those of the key");
    Dims split = query.shape();
    split[rank - 3] = split[rank - 3] / key.dim(int(rank) - 3);
    split.insert(split.begin() + long(rank) - 3, key.dim(int(rank) - 3));
    a = query.reshape(split, where);
    b = key.unsqueeze(-3, where);
    c = value.unsqueeze(-3, where);
  }
  const DType type = promote(promote(query.dtype(), key.dtype()), value.dtype());
  const double size = q[rank - 1].is_constant() ? double(q[rank - 1].value()) : 0;
  if (!options.scale && size == 0) fail("the last axis varies, so the scale must be given");
  Tensor scores = at_least_f32(a).matmul(at_least_f32(b).transpose(-2, -1, where), where) *
                  options.scale.value_or(size == 0 ? 1 : 1 / std::sqrt(size));
  bool may_be_empty = false;
  if (options.causal) {
    const Shape full = type_of(scores).shape;
    const int queries = int(full.size()) - 2, keys = queries + 1;
    Tensor seen = build(op, query.graph(), where, [&](FunctionBuilder& f) {
      const Shape plane{full[size_t(queries)], full[size_t(keys)]};
      return f.iota(plane, le(axis_symbol(1, plane[1]), axis_symbol(0, plane[0])), DType::boolean);
    });
    scores = luminal::select(seen, scores, -double(INFINITY));
  }
  if (options.mask.defined()) {
    graph_of(op, {&query, &options.mask}, where);
    Tensor mask = options.mask;
    if (grouped && mask.rank() >= 3) { // its heads are split as well, or stretched
      Dims split = mask.shape();
      const size_t at = size_t(mask.rank()) - 3;
      if (split[at] == Dim(1))
        split.insert(split.begin() + long(at), 1);
      else {
        split.insert(split.begin() + long(at), key.dim(int(rank) - 3));
        split[at + 1] = split[at + 1] / key.dim(int(rank) - 3);
      }
      mask = mask.reshape(split, where);
    }
    broadcast_to(op, mask, type_of(scores).shape, where);
    scores =
        mask.dtype() == DType::boolean ? luminal::select(mask, scores, -double(INFINITY)) : scores + mask;
    may_be_empty = true;
  }
  Tensor weights = scores.softmax(-1, where);
  if (may_be_empty) // a row without a key
    weights = luminal::select(equal(scores.max(-1, true, where), -double(INFINITY)), 0.0, weights);
  Tensor mixed = weights.matmul(at_least_f32(c), where);
  if (grouped) {
    Dims joined = query.shape();
    joined.back() = value.dim(-1);
    mixed = mixed.reshape(joined, where);
  }
  return mixed.cast(type, where);
}

} // namespace luminal
