// ir/passes/constants.cpp -- values of constants, computed by the interpreter's own functions: the
// bits are those it would give.
#include "ir/domains.h"
#include "ir/interp.h"
#include "ir/passes/edit.h"
#include "luminal/error.h"
#include <algorithm>

namespace luminal::passes {
namespace {

using Value = RoundedDomain::Value;

/// None where an extent is not known, or there are too many.
std::optional<int64_t> count_of(const TensorType& type) {
  int64_t n = 1;
  for (Expr e : type.shape) {
    if (!e.is_constant() || e.value() < 0 || (e.value() > 0 && n > (int64_t(1) << 40) / e.value())) return {};
    n *= e.value();
  }
  return n;
}

std::vector<Value> load_all(const ConstantAttr& constant, int64_t count) {
  std::vector<Value> values;
  values.reserve(size_t(count));
  for (int64_t i = 0; i < count; ++i)
    values.push_back(RoundedDomain::load(constant.type.dtype, constant.data->data(), i));
  return values;
}
std::vector<std::byte> store_all(DType type, const std::vector<Value>& values) {
  std::vector<std::byte> data(size_t(storage_bytes(type, int64_t(values.size()))));
  for (size_t i = 0; i < values.size(); ++i) {
    if (is_float(type))
      store_f64(type, data.data(), int64_t(i), values[i].f);
    else
      store_i64(type, data.data(), int64_t(i), values[i].i);
  }
  return data;
}

/// A map or cast of constants of one size.
std::vector<std::byte> compute(const Rebuild& r, const Node& node, const std::vector<NodeId>& constants,
                               int64_t count) {
  std::vector<std::vector<Value>> args;
  for (NodeId id : constants) args.push_back(load_all(std::get<ConstantAttr>(r[id].attr), count));
  std::vector<Value> out(size_t(count), Value{});
  const DType from = r.type(constants.back()).dtype; // select: of the values
  if (auto* cast = std::get_if<CastAttr>(&node.attr)) {
    for (size_t i = 0; i < out.size(); ++i) out[i] = RoundedDomain::cast(from, cast->to, args[0][i]);
  } else {
    const auto& map = std::get<MapAttr>(node.attr);
    const Value* pointers[3] = {};
    for (size_t a = 0; a < args.size(); ++a) pointers[a] = args[a].data();
    if (map.user_op.empty())
      RoundedDomain::apply(map.op, from, out.size(), out.data(), pointers);
    else
      RoundedDomain::apply(*find_user_op(map.user_op), from, out.size(), out.data(), pointers);
  }
  return store_all(node.type().dtype, out);
}

/// Points of the largest space that the node walks; none where it is not known.
std::optional<int64_t> work_of(const Node& node) {
  int64_t points = 0;
  for (const TensorType& type : node.types) {
    const auto n = count_of(type);
    if (!n) return {};
    points += *n;
  }
  if (auto* fold = std::get_if<FoldAttr>(&node.attr)) return count_of({DType::f32, fold->space});
  if (auto* scan = std::get_if<ScanAttr>(&node.attr)) return count_of({DType::f32, scan->space});
  return points;
}

/// Everything else: a module of this one node, run by the interpreter. Result `index` of a tuple.
std::optional<NodeId> interpret(Rebuild& r, const Node& node, int index) {
  try {
    Module module;
    FunctionBuilder b("constant");
    std::vector<NodeId> inputs;
    for (NodeId id : node.inputs) inputs.push_back(b.add(r[id].attr, {}));
    NodeId value = b.add(node.attr, inputs);
    if (node.is_tuple()) value = b.get(value, index);
    b.result("y", value);
    module.functions.push_back(b.finish());
    const Bindings none;
    HostTensor result = Interpreter(module, none).result("y");
    return r.constant(node.types[size_t(index)], std::move(result.data));
  } catch (const Error&) {
    return {}; // an index out of its range, a dimension: for the one who runs it
  }
}

bool all_dense(const Rebuild& r, const Node& node) {
  return !node.inputs.empty() && std::all_of(node.inputs.begin(), node.inputs.end(),
                                             [&](NodeId id) { return r[id].kind == NodeKind::constant; });
}

} // namespace

std::optional<NodeId> constant_rule(Rebuild& r, const Node& node, int64_t limit) {
  switch (node.kind) {
  case NodeKind::map:
  case NodeKind::cast: {
    std::vector<NodeId> scalars;
    for (NodeId input : node.inputs) {
      auto scalar = uniform(r, input);
      if (!scalar) break;
      scalars.push_back(*scalar);
    }
    if (scalars.size() == node.inputs.size()) // one number, spread over any shape
      return r.splat(r.constant({node.type().dtype, {}}, compute(r, node, scalars, 1)), node.type().shape);
    const auto count = count_of(node.type());
    if (!count || *count > limit || !all_dense(r, node)) return {};
    return r.constant(node.type(), compute(r, node, node.inputs, *count));
  }
  case NodeKind::bitcast: {
    const auto count = count_of(node.type());
    if (!count || *count > limit || !all_dense(r, node)) return {};
    return r.constant(node.type(), *std::get<ConstantAttr>(r[node.inputs[0]].attr).data);
  }
  case NodeKind::view: { // no larger than what it reads
    const auto count = count_of(node.type());
    if (!count || *count > limit || !all_dense(r, node) || r.type(node.inputs[0]).shape.empty() ||
        count > count_of(r.type(node.inputs[0])))
      return {};
    return interpret(r, node, 0);
  }
  case NodeKind::get: {
    const Node& tuple = r[node.inputs[0]];
    const bool known =
        tuple.kind == NodeKind::fold || tuple.kind == NodeKind::scan || tuple.kind == NodeKind::sort;
    if (!known || !all_dense(r, tuple)) return {};
    const auto work = work_of(tuple);
    if (!work || *work > limit) return {};
    if (auto* fold = std::get_if<FoldAttr>(&tuple.attr); fold && !fold->where.is_constant(1)) return {};
    const Node copy = tuple; // what is put down may move the nodes
    return interpret(r, copy, std::get<GetAttr>(node.attr).index);
  }
  default: return {};
  }
}

} // namespace luminal::passes
