// train/adjoint_structure.cpp -- gradients of calls, conditions and loops. The gradient of @f is the
// function @f_gradient of the module: (inputs, gradients of its float results) -> gradients of its
// float inputs. It is made once; where the module has it already, it is used: a gradient of the
// user's own. It computes @f again inside; calls are inlined by a compile, which merges that with
// the first time, unless the name of @f asks for recomputation.
#include "train/reverse.h"
#include <algorithm>
#include <fmt/format.h>

namespace luminal::train {
namespace {

std::vector<TensorType> parameter_types(const Function& f) {
  std::vector<TensorType> types;
  for (NodeId p : f.params) types.push_back(f[p].type());
  return types;
}
std::vector<TensorType> result_types(const Function& f) {
  std::vector<TensorType> types;
  for (const FunctionResult& r : f.results) types.push_back(f[r.value].type());
  return types;
}
std::string parameter_name(const Function& f, size_t i) {
  return std::get<InputAttr>(f[f.params[i]].attr).name;
}

/// A name that no parameter of `f` has.
std::string fresh(const Function& f, std::string wish) {
  for (size_t i = 0; i < f.params.size(); ++i)
    if (parameter_name(f, i) == wish) return fresh(f, wish + "_");
  return wish;
}

/// Gradients for all float results of a node: zeros where none arrived.
std::vector<NodeId> arriving(Terms& t, const Node& node, const std::vector<Gradient>& g, size_t results) {
  std::vector<NodeId> list;
  for (size_t k = 0; k < results; ++k)
    if (is_float(node.types[k].dtype)) list.push_back(g[k] ? *g[k] : t.zeros(node.types[k]));
  return list;
}

/// The body of a loop that hands out what it was given: the carried values of each step.
std::string storing_function(Module& module, const std::string& body, int carried) {
  const std::string name = body + "_storing";
  if (module.find(name)) return name;
  const Function f = *module.find(body);
  FunctionBuilder b(name, &module);
  Terms t(b, module);
  std::vector<NodeId> inputs;
  for (size_t i = 0; i < f.params.size(); ++i)
    inputs.push_back(b.input(parameter_name(f, i), f[f.params[i]].type()));
  const std::vector<NodeId> values = t.inlined(f, inputs);
  for (size_t k = 0; k < values.size(); ++k) b.result(f.results[k].name, values[k]);
  for (int c = 0; c < carried; ++c) b.result(fmt::format("given{}_of_{}", c, body), inputs[size_t(c) + 1]);
  module.functions.push_back(b.finish());
  return name;
}

/// The values of a loop, by what they are to it.
struct LoopParts {
  int carried, stepped, invariant, stacked;
  std::vector<int> carried_floats, stepped_floats, invariant_floats, stacked_floats;
};
LoopParts parts_of(const Function& f, const LoopAttr& attr) {
  const std::vector<TensorType> in = parameter_types(f), out = result_types(f);
  const auto floats = [](const std::vector<TensorType>& types, int from, int count) {
    return float_positions({types.begin() + from, types.begin() + from + count});
  };
  LoopParts p{attr.carried,
              attr.stepped,
              int(in.size()) - 1 - attr.carried - attr.stepped,
              int(out.size()) - attr.carried,
              {},
              {},
              {},
              {}};
  p.carried_floats = floats(in, 1, p.carried);
  p.stepped_floats = floats(in, 1 + p.carried, p.stepped);
  p.invariant_floats = floats(in, 1 + p.carried + p.stepped, p.invariant);
  p.stacked_floats = floats(out, p.carried, p.stacked);
  return p;
}

DType sum_type(DType type) { return bits(type) < 32 ? DType::f32 : type; }

/// One step back: (s, gradients of carried values, sums for the wanted invariants; carried values,
/// slices, gradients of stacked rows; invariants [, steps]) -> (both next; gradients of slices).
std::string backward_function(Module& module, const LoopAttr& attr, const LoopParts& p,
                              const std::vector<bool>& wanted) {
  std::string name = attr.body + "_backward";
  for (int k : p.invariant_floats) name += wanted[size_t(k)] ? "1" : "0";
  if (!attr.condition.empty()) name += "_while";
  if (module.find(name)) return name;
  const Function f = *module.find(attr.body);
  const std::vector<TensorType> in = parameter_types(f), out = result_types(f);
  FunctionBuilder b(name, &module);
  Terms t(b, module);
  const NodeId back = b.input("back", {DType::i64, {}});
  std::vector<NodeId> next, sums, inputs(in.size()), rows;
  for (int k : p.carried_floats) next.push_back(b.input(fmt::format("next{}", k), in[size_t(k) + 1]));
  for (int k : p.invariant_floats) {
    const TensorType& own = in[size_t(1 + p.carried + p.stepped + k)];
    if (wanted[size_t(k)]) sums.push_back(b.input(fmt::format("sum{}", k), {sum_type(own.dtype), own.shape}));
  }
  for (int k = 0; k < p.carried + p.stepped; ++k)
    inputs[size_t(k) + 1] = b.input(fmt::format("value{}", k), in[size_t(k) + 1]);
  for (int k : p.stacked_floats) rows.push_back(b.input(fmt::format("row{}", k), out[size_t(p.carried + k)]));
  for (int k = 0; k < p.invariant; ++k) {
    const size_t at = size_t(1 + p.carried + p.stepped + k);
    inputs[at] = b.input(fmt::format("invariant{}", k), in[at]);
  }
  inputs[0] = b.map(Op::sub, {b.iota({}, attr.count - 1), back});
  std::optional<NodeId> ran; // of a while loop: was this step made?
  if (!attr.condition.empty()) ran = b.map(Op::lt, {inputs[0], b.input("steps", {DType::i64, {}})});
  const std::vector<NodeId> values = t.inlined(f, inputs);
  std::vector<Reverse::Seed> seeds;
  for (size_t k = 0; k < p.carried_floats.size(); ++k)
    seeds.push_back({values[size_t(p.carried_floats[k])], next[k]});
  for (size_t k = 0; k < p.stacked_floats.size(); ++k)
    seeds.push_back({values[size_t(p.carried + p.stacked_floats[k])], rows[k]});
  std::vector<NodeId> targets;
  for (int k : p.carried_floats) targets.push_back(inputs[size_t(1 + k)]);
  for (int k : p.stepped_floats) targets.push_back(inputs[size_t(1 + p.carried + k)]);
  for (int k : p.invariant_floats)
    if (wanted[size_t(k)]) targets.push_back(inputs[size_t(1 + p.carried + p.stepped + k)]);
  const std::vector<Gradient> g = Reverse(b, module).run(seeds, targets);
  const auto chosen = [&](NodeId made, NodeId otherwise) {
    return ran ? t.select(t.expand(*ran, t.shape(made), {}), made, otherwise) : made;
  };
  const auto value = [&](size_t k) { return g[k] ? *g[k] : t.zeros(t.type(targets[k])); };
  const size_t c = p.carried_floats.size(), s = p.stepped_floats.size();
  for (size_t k = 0; k < c; ++k) b.result(fmt::format("before{}", k), chosen(value(k), next[k]));
  for (size_t k = 0; k < sums.size(); ++k) {
    const NodeId more = t.b.cast(value(c + s + k), t.dtype(sums[k]));
    b.result(fmt::format("total{}", k), chosen(t.add(sums[k], more), sums[k]));
  }
  for (size_t k = 0; k < s; ++k)
    b.result(fmt::format("slice{}", k), chosen(value(c + k), t.zeros(t.type(targets[c + k]))));
  module.functions.push_back(b.finish());
  return name;
}

} // namespace

std::string gradient_function(Module& module, const std::string& function) {
  const std::string name = function + std::string(gradient_suffix);
  if (module.find(name)) return name;
  const Function f = *module.find(function); // a copy: the module grows
  FunctionBuilder b(name, &module);
  Terms t(b, module);
  std::vector<NodeId> inputs, targets;
  for (size_t i = 0; i < f.params.size(); ++i)
    inputs.push_back(b.input(parameter_name(f, i), f[f.params[i]].type()));
  const std::vector<TensorType> in = parameter_types(f), out = result_types(f);
  std::vector<NodeId> seeds_in;
  for (int k : float_positions(out))
    seeds_in.push_back(b.input(fresh(f, "gradient_of_" + f.results[size_t(k)].name), out[size_t(k)]));
  const std::vector<NodeId> values = t.inlined(f, inputs);
  std::vector<Reverse::Seed> seeds;
  for (size_t k = 0; k < seeds_in.size(); ++k)
    seeds.push_back({values[size_t(float_positions(out)[k])], seeds_in[k]});
  for (int k : float_positions(in)) targets.push_back(inputs[size_t(k)]);
  const std::vector<Gradient> g = Reverse(b, module).run(seeds, targets);
  for (size_t k = 0; k < targets.size(); ++k)
    b.result(fmt::format("gradient{}", k), g[k] ? *g[k] : t.zeros(t.type(targets[k])));
  module.functions.push_back(b.finish());
  return name;
}

void Reverse::call(NodeId id, const CallAttr& attr, const Results& g) {
  const Node node = t_[id];
  std::vector<NodeId> operands = node.inputs;
  const std::vector<NodeId> seeds = arriving(t_, node, g, node.types.size());
  if (seeds.empty()) return;
  if (attr.function.ends_with(recomputed_suffix)) // after the gradient has arrived, not before
    for (NodeId& x : operands) {
      std::vector<NodeId> fenced{x};
      fenced.insert(fenced.end(), seeds.begin(), seeds.end());
      x = t_.b.add(FenceAttr{}, fenced);
    }
  const std::string gradient = gradient_function(t_.module, attr.function);
  operands.insert(operands.end(), seeds.begin(), seeds.end());
  std::vector<TensorType> types;
  for (NodeId x : node.inputs) types.push_back(t_.type(x));
  const std::vector<int> floats = float_positions(types);
  if (floats.empty()) return;
  const std::vector<NodeId> made = t_.results(t_.b.add(CallAttr{gradient}, operands));
  for (size_t k = 0; k < floats.size(); ++k) give(node.inputs[size_t(floats[k])], made[k]);
}

void Reverse::cond(NodeId id, const CondAttr& attr, const Results& g) {
  const Node node = t_[id];
  std::vector<TensorType> types;
  for (size_t k = 1; k < node.inputs.size(); ++k) types.push_back(t_.type(node.inputs[k]));
  const std::vector<int> floats = float_positions(types);
  const std::vector<NodeId> seeds = arriving(t_, node, g, node.types.size());
  if (floats.empty() || seeds.empty()) return;
  const CondAttr back{gradient_function(t_.module, attr.then_function),
                      gradient_function(t_.module, attr.else_function)};
  std::vector<NodeId> operands = node.inputs;
  operands.insert(operands.end(), seeds.begin(), seeds.end());
  const std::vector<NodeId> made = t_.results(t_.b.add(back, operands));
  for (size_t k = 0; k < floats.size(); ++k) give(node.inputs[size_t(floats[k]) + 1], made[k]);
}

void Reverse::loop(NodeId id, const LoopAttr& attr, const Results& g) {
  const Node node = t_[id];
  const LoopParts p = parts_of(*t_.module.find(attr.body), attr);
  std::vector<bool> wanted(size_t(p.invariant), false);
  for (int k : p.invariant_floats) wanted[size_t(k)] = active(node.inputs[size_t(p.carried + p.stepped + k)]);
  LoopAttr forward = attr;
  forward.body = storing_function(t_.module, attr.body, attr.carried);
  const NodeId again = t_.b.add(forward, node.inputs);
  LoopAttr back;
  back.body = backward_function(t_.module, attr, p, wanted);
  back.count = attr.count;
  std::vector<NodeId> operands;
  const auto zero_or = [&](size_t result) { return g[result] ? *g[result] : t_.zeros(node.types[result]); };
  for (int k : p.carried_floats) operands.push_back(zero_or(size_t(k)));
  for (int k : p.invariant_floats) {
    if (!wanted[size_t(k)]) continue;
    const TensorType& own = t_.type(node.inputs[size_t(p.carried + p.stepped + k)]);
    operands.push_back(t_.zeros({sum_type(own.dtype), own.shape}));
  }
  back.carried = int(operands.size());
  for (int k = 0; k < p.carried; ++k)
    operands.push_back(t_.flip(t_.b.get(again, p.carried + p.stacked + k), 0));
  for (int k = 0; k < p.stepped; ++k) operands.push_back(t_.flip(node.inputs[size_t(p.carried + k)], 0));
  for (int k : p.stacked_floats) operands.push_back(t_.flip(zero_or(size_t(p.carried + k)), 0));
  back.stepped = int(operands.size()) - back.carried;
  operands.insert(operands.end(), node.inputs.begin() + p.carried + p.stepped, node.inputs.end());
  if (!attr.condition.empty()) operands.push_back(t_.b.get(id, int(node.types.size()) - 1));
  const std::vector<NodeId> made = t_.results(t_.b.add(back, operands));
  size_t next = 0;
  for (int k : p.carried_floats) give(node.inputs[size_t(k)], made[next++]);
  for (int k : p.invariant_floats) {
    const NodeId input = node.inputs[size_t(p.carried + p.stepped + k)];
    if (wanted[size_t(k)]) give(input, t_.b.cast(made[next++], t_.dtype(input)));
  }
  for (int k : p.stepped_floats) give(node.inputs[size_t(p.carried + k)], t_.flip(made[next++], 0));
}

} // namespace luminal::train
