// ir/interp_call.h -- how Frame computes calls, loops, conditions and host functions.
#pragma once
#include "ir/interp_engine.h"
#include <algorithm>
#include <cstring>
#include <fmt/format.h>

namespace luminal::interp {

template <class D> auto Frame<D>::argument_of(NodeId id) -> Argument {
  Argument a;
  a.frame = this;
  a.source = f_.resolve(id);
  return a;
}
template <class D> Frame<D>& Frame<D>::callee(NodeId id, const std::string& name, size_t first_input) {
  auto& frame = callees_[id];
  if (!frame) {
    const Node& node = f_.function()[id];
    std::vector<Argument> arguments;
    for (size_t i = first_input; i < node.inputs.size(); ++i)
      arguments.push_back(argument_of(node.inputs[i]));
    frame = std::make_unique<Frame>(run_, run_.compiled(name), std::move(arguments));
  }
  return *frame;
}
template <class D> void Frame<D>::forward_call(Source s) {
  const Node& node = f_.function()[s.node];
  Store& kept = store(s);
  if (auto* collective = std::get_if<CollectiveAttr>(&node.attr)) {
    if (!collective->group.ends_with(":1"))
      fail(s.node, fmt::format("the group {} has members in other processes; the interpreter is one",
                               collective->group));
    kept.forward = argument_of(node.inputs[0]);
  } else {
    std::string name;
    size_t first = 0;
    bool open = false;
    if (auto* call = std::get_if<CallAttr>(&node.attr)) {
      name = call->function;
    } else {
      const auto& cond = std::get<CondAttr>(node.attr);
      Value choice = element(f_.resolve(node.inputs[0]), 0);
      open = D::uncertain(choice);
      name = choice.i ? cond.then_function : cond.else_function;
      first = 1;
    }
    Frame& frame = callee(s.node, name, first);
    const Function& f = frame.f_.function();
    const Source made = frame.f_.resolve(f.results[size_t(s.result)].value);
    if (open) { // rounding may choose the other branch
      kept.values = frame.values(made);
      without_bound(kept.values, 0);
      kept.state = Store::State::whole;
      return;
    }
    kept.forward.frame = &frame;
    kept.forward.source = made;
  }
  kept.state = Store::State::forwarded;
}

/// Rounding may change the values from `first` on in any way: it turns a condition.
template <class D> void Frame<D>::without_bound(std::vector<Value>& values, int64_t first) {
  if constexpr (std::is_same_v<D, BoundedDomain>)
    for (auto k = size_t(first); k < values.size(); ++k) values[k].e = INFINITY;
}
template <class D> void Frame<D>::run_loop(NodeId id) {
  const Node& node = f_.function()[id];
  const auto& attr = std::get<LoopAttr>(node.attr);
  CompiledFunction& body = run_.compiled(attr.body);
  const int64_t count = f_.evaluate(attr.count);
  const size_t carried = size_t(attr.carried), stepped = size_t(attr.stepped),
               results = body.function().results.size();
  auto owned = [](std::vector<Value> v) {
    Argument a;
    a.values = std::make_shared<const std::vector<Value>>(std::move(v));
    return a;
  };
  std::vector<Argument> state;
  for (size_t i = 0; i < carried; ++i) state.push_back(owned(values(f_.resolve(node.inputs[i]))));
  std::vector<std::vector<Value>> stacked;
  for (size_t k = carried; k < results; ++k) stacked.emplace_back(size_t(f_.count({id, int(k)})));
  for (size_t k = 0; k < stacked.size(); ++k) {
    DType type = node.types[carried + k].dtype;
    std::fill(stacked[k].begin(), stacked[k].end(), is_float(type) ? D::from_f64(type, 0) : D::from_i64(0));
  }
  int64_t steps = 0, sure = count; // how many steps rounding does not decide about
  for (; steps < count; ++steps) {
    if (!attr.condition.empty()) {
      std::vector<Argument> seen = state;
      for (size_t i = carried + stepped; i < node.inputs.size(); ++i)
        seen.push_back(argument_of(node.inputs[i]));
      CompiledFunction& condition = run_.compiled(attr.condition);
      Frame frame(run_, condition, std::move(seen));
      Value go = frame.element(condition.resolve(condition.function().results[0].value), 0);
      if (D::uncertain(go)) sure = std::min(sure, steps);
      if (!go.i) break;
    }
    std::vector<Argument> arguments{owned({D::from_i64(steps)})};
    arguments.insert(arguments.end(), state.begin(), state.end());
    for (size_t i = carried; i < carried + stepped; ++i) {
      Argument slice = argument_of(node.inputs[i]);
      const Extents& extents = f_.extents(slice.source);
      slice.first = steps;
      for (size_t d = 1; d < extents.size(); ++d) slice.first *= extents[d];
      arguments.push_back(std::move(slice));
    }
    for (size_t i = carried + stepped; i < node.inputs.size(); ++i)
      arguments.push_back(argument_of(node.inputs[i]));
    Frame frame(run_, body, std::move(arguments));
    std::vector<Argument> next;
    for (size_t k = 0; k < results; ++k) {
      std::vector<Value> v = frame.values(body.resolve(body.function().results[k].value));
      if (k < carried)
        next.push_back(owned(std::move(v)));
      else
        std::copy(v.begin(), v.end(), stacked[k - carried].begin() + steps * int64_t(v.size()));
    }
    state = std::move(next);
  }
  for (size_t k = 0; k < node.types.size(); ++k) {
    Store& kept = store({id, int(k)});
    if (k < carried)
      kept.values = *state[k].values;
    else if (k < results)
      kept.values = std::move(stacked[k - carried]);
    else
      kept.values = {D::from_i64(steps)};
    const bool rows = k >= carried && k < results;
    if (sure < count) without_bound(kept.values, rows ? std::ssize(kept.values) / count * sure : 0);
    kept.state = Store::State::whole;
  }
}

template <class D> HostTensor Frame<D>::host_tensor(NodeId id) {
  Source s = f_.resolve(id);
  HostTensor t;
  t.dtype = f_.function()[s.node].types[size_t(s.result)].dtype;
  t.shape = f_.extents(s);
  std::vector<Value> all = values(s);
  t.data.resize(size_t(storage_bytes(t.dtype, int64_t(all.size()))));
  for (size_t i = 0; i < all.size(); ++i) {
    if (is_float(t.dtype))
      store_f64(t.dtype, t.data.data(), int64_t(i), D::f64(t.dtype, all[i]));
    else
      store_i64(t.dtype, t.data.data(), int64_t(i), all[i].i);
  }
  return t;
}
template <class D> void Frame<D>::effects_before(NodeId id) {
  for (NodeId effect : f_.effects_below(id))
    if (!f_.function()[effect].types.empty()) (void)values({effect, 0});
}
template <class D> void Frame<D>::run_host_node(NodeId id) {
  const Node& node = f_.function()[id];
  if (node.kind == NodeKind::host) effects_before(id);
  std::vector<HostTensor> inputs;
  for (NodeId input : node.inputs) inputs.push_back(host_tensor(input));
  std::vector<Extents> shapes;
  for (size_t k = 0; k < node.types.size(); ++k) shapes.push_back(f_.extents({id, int(k)}));
  std::vector<HostTensor> results = run_host(run_, node, inputs, shapes);
  bool open = false; // nobody knows how a function of the program moves an error
  if constexpr (std::is_same_v<D, BoundedDomain>)
    for (NodeId input : node.inputs)
      for (const Value& v : values(f_.resolve(input))) open |= D::uncertain(v);
  const bool passes_on = results.empty(); // print and diff: input 0, as it is in this mode
  for (size_t k = 0; k < node.types.size(); ++k) {
    Store& kept = store({id, int(k)});
    if (passes_on) {
      kept.values = values(f_.resolve(node.inputs[0]));
    } else {
      kept.values.resize(size_t(results[k].count()));
      for (size_t i = 0; i < kept.values.size(); ++i)
        kept.values[i] = D::load(results[k].dtype, results[k].data.data(), int64_t(i));
      if (open) without_bound(kept.values, 0);
    }
    kept.state = Store::State::whole;
  }
}

} // namespace luminal::interp
