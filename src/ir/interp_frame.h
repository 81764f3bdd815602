// ir/interp_frame.h -- how Frame computes values that are kept: elements, folds, scans, sorts,
// scatters. Included by the one file of each domain, like interp_step.h and interp_call.h.
#pragma once
#include "base/check.h"
#include "base/stack.h"
#include "ir/interp_engine.h"
#include "ir/text_names.h"
#include <algorithm>
#include <cstring>
#include <fmt/format.h>
#include <numeric>

namespace luminal::interp {

/// Depth of kept values from which on they are computed in order instead of by recursion.
inline constexpr int deepest_recursion = 150;

template <class D>
Frame<D>::Frame(Run& run, CompiledFunction& function, std::vector<Argument> arguments)
    : run_(run), f_(function), arguments_(std::move(arguments)), stores_(function.function().nodes.size()) {}

template <class D> void Frame<D>::fail(NodeId id, const std::string& text) const {
  const Node& node = f_.function()[id];
  throw Error(fmt::format("[{}] @{} {}: {}", to_string(node.kind), f_.function().name,
                          node_names(f_.function())[id], text));
}

template <class D> auto Frame<D>::store(Source s) -> Store& {
  std::vector<Store>& list = stores_[s.node];
  if (list.empty()) {
    list.resize(f_.function()[s.node].types.size());
    // A value far down a chain is completed before those above it: recursion stays shallow.
    if (f_.depth(s.node) > deepest_recursion)
      for (NodeId id : f_.landmarks(s.node, deepest_recursion))
        if (stores_[id].empty())
          for (size_t r = 0; r < f_.function()[id].types.size(); ++r) complete({id, int(r)});
  }
  return list[size_t(s.result)];
}

template <class D> void Frame<D>::complete(Source s) {
  Store& kept = store(s);
  if (kept.state == Store::State::whole) return;
  const int64_t count = f_.count(s);
  std::vector<int64_t> flat(lanes);
  std::vector<Value> ignored(lanes);
  for (int64_t at = 0; at < count; at += lanes) {
    int n = int(std::min<int64_t>(lanes, count - at));
    std::iota(flat.begin(), flat.begin() + n, at);
    fetch(s, flat.data(), nullptr, n, ignored.data());
    if (kept.state == Store::State::whole || kept.state == Store::State::forwarded) break;
  }
  if (kept.state == Store::State::forwarded && kept.forward.frame)
    kept.forward.frame->complete(kept.forward.source);
  if (kept.state == Store::State::partial) kept.state = Store::State::whole;
}
template <class D> auto Frame<D>::element(Source s, int64_t flat) -> Value {
  Value v{};
  fetch(s, &flat, nullptr, 1, &v);
  return v;
}
template <class D> auto Frame<D>::values(Source s) -> std::vector<Value> {
  const int64_t count = f_.count(s);
  std::vector<Value> result;
  result.resize(size_t(count));
  std::vector<int64_t> flat(lanes);
  for (int64_t at = 0; at < count; at += lanes) {
    int n = int(std::min<int64_t>(lanes, count - at));
    std::iota(flat.begin(), flat.begin() + n, at);
    fetch(s, flat.data(), nullptr, n, result.data() + at);
  }
  return result;
}

// ---- reading ----

template <class D>
void Frame<D>::fetch(const Argument& a, const int64_t* flat, const uint8_t* mask, int n, Value* out) {
  if (a.packed) {
    if constexpr (std::is_same_v<D, RoundedDomain> || std::is_same_v<D, F64Domain>)
      if (a.dtype == DType::f32 && !mask) {
        const std::byte* base = a.packed + a.first * 4;
        for (int k = 0; k < n; ++k) {
          float value;
          std::memcpy(&value, base + flat[k] * 4, 4);
          out[k].f = value;
        }
        return;
      }
    for (int k = 0; k < n; ++k)
      out[k] = !mask || mask[k] ? D::load(a.dtype, a.packed, flat[k] + a.first) : Value{};
  } else if (a.values) {
    for (int k = 0; k < n; ++k) out[k] = !mask || mask[k] ? (*a.values)[size_t(flat[k] + a.first)] : Value{};
  } else {
    if (!a.frame) { // a tensor without elements has no address, and no lane reads it
      LUMINAL_CHECK(mask && std::none_of(mask, mask + n, [](uint8_t live) { return live != 0; }));
      return std::fill(out, out + n, Value{});
    }
    if (a.first == 0) return a.frame->fetch(a.source, flat, mask, n, out);
    int64_t moved[lanes];
    for (int k = 0; k < n; ++k) moved[k] = flat[k] + a.first;
    a.frame->fetch(a.source, moved, mask, n, out);
  }
}

template <class D>
void Frame<D>::fetch(Source s, const int64_t* flat, const uint8_t* mask, int n, Value* out) {
  const Node& node = f_.function()[s.node];
  if (node.kind == NodeKind::input) {
    const auto& params = f_.function().params;
    auto at = std::find(params.begin(), params.end(), s.node);
    return fetch(arguments_[size_t(at - params.begin())], flat, mask, n, out);
  }
  if (node.kind == NodeKind::constant) {
    const auto& attr = std::get<ConstantAttr>(node.attr);
    Argument data;
    data.packed = attr.data->data();
    data.dtype = attr.type.dtype;
    return fetch(data, flat, mask, n, out);
  }
  Store& kept = store(s);
  if (kept.state != Store::State::whole) {
    int64_t missing[lanes];
    int count = 0;
    if (kept.state == Store::State::untouched) {
      for (int k = 0; k < n; ++k)
        if (!mask || mask[k]) missing[count++] = flat[k];
    } else if (kept.state == Store::State::partial) {
      for (int k = 0; k < n; ++k)
        if ((!mask || mask[k]) && !kept.done[size_t(flat[k])]) missing[count++] = flat[k];
    }
    if (count) compute(s, missing, count);
    if (kept.state == Store::State::forwarded) return fetch(kept.forward, flat, mask, n, out);
  }
  if (kept.values.empty()) {
    std::fill(out, out + n, Value{}); // no lane was active
    return;
  }
  for (int k = 0; k < n; ++k) out[k] = !mask || mask[k] ? kept.values[size_t(flat[k])] : Value{};
}

template <class D> void Frame<D>::compute(Source s, const int64_t* missing, int n) {
  if (stack_is_low()) fail(s.node, "calls are nested too deeply for the interpreter");
  const Node& node = f_.function()[s.node];
  Store& kept = store(s);
  auto open = [&] {
    if (kept.state != Store::State::untouched) return;
    kept.values.resize(size_t(f_.count(s)));
    kept.done.assign(kept.values.size(), 0);
    kept.state = Store::State::partial;
  };
  auto each = [&](auto&& function) {
    open();
    for (int k = 0; k < n; ++k)
      if (!kept.done[size_t(missing[k])]) function(missing[k]);
  };
  switch (node.kind) {
  case NodeKind::fold: each([&](int64_t flat) { compute_fold(s, flat); }); return;
  case NodeKind::scan: each([&](int64_t flat) { compute_scan(s, flat); }); return;
  case NodeKind::sort: each([&](int64_t flat) { compute_sort(s, flat); }); return;
  case NodeKind::scatter: compute_scatter(s); return;
  case NodeKind::call:
  case NodeKind::cond:
  case NodeKind::collective: forward_call(s); return;
  case NodeKind::loop: run_loop(s.node); return;
  case NodeKind::host:
  case NodeKind::custom: run_host_node(s.node); return;
  default: open(); compute_values(s, missing, n);
  }
}

// ---- programs ----

template <class D>
Frame<D>::RegisterFile::RegisterFile(Frame& frame, const Program& program) : pool_(frame.pool_) {
  const size_t index = size_t(program.index_registers) * lanes * sizeof(int64_t),
               value = size_t(program.value_registers) * lanes * sizeof(Value);
  if (!pool_.empty()) {
    memory_ = std::move(pool_.back());
    pool_.pop_back();
  }
  memory_.resize(index + value + size_t(program.mask_registers) * lanes + 64);
  auto base = reinterpret_cast<uintptr_t>(memory_.data());
  auto* start = memory_.data() + (-base & 63);
  registers.indices = reinterpret_cast<int64_t*>(start);
  registers.values = reinterpret_cast<Value*>(start + index);
  registers.masks = reinterpret_cast<uint8_t*>(start + index + value);
}
template <class D> Frame<D>::RegisterFile::~RegisterFile() { pool_.push_back(std::move(memory_)); }

template <class D> void Frame<D>::compute_values(Source s, const int64_t* flat, int n) {
  const Program& program = f_.value_program(s.node);
  const Extents& extents = f_.extents(s);
  RegisterFile file(*this, program);
  std::vector<int64_t> point(extents.size());
  for (int k = 0; k < n; ++k) {
    unflatten(flat[k], extents, point.data());
    for (size_t d = 0; d < point.size(); ++d) file.registers.index(IndexRegister(d))[k] = point[d];
  }
  run(program, file.registers, n);
  Store& kept = store(s);
  const Value* out = file.registers.value(program.results[0]);
  for (int k = 0; k < n; ++k) {
    kept.values[size_t(flat[k])] = out[k];
    kept.done[size_t(flat[k])] = 1;
  }
}

// ---- folds, scans, sorts, scatters ----

template <class D> void Frame<D>::compute_fold(Source s, int64_t flat) {
  const auto& attr = std::get<FoldAttr>(f_.function()[s.node].attr);
  const auto& plan = f_.fold_plan(s);
  const Program& program = f_.body_program(s.node, plan.components);
  Accumulator<D> accumulator(plan.monoid);
  RegisterFile file(*this, program);
  const Registers& r = file.registers;

  // Outer axes stand still (those the result does not have are not read); folded ones run
  // row-major, the last one fastest.
  std::vector<int64_t> outer(plan.axes.size());
  unflatten(flat, f_.extents(s), outer.data());
  std::fill(r.indices, r.indices + ptrdiff_t(program.axes) * lanes, 0);
  for (size_t k = 0; k < plan.axes.size(); ++k)
    std::fill_n(r.index(IndexRegister(plan.axes[k])), lanes, outer[k]);
  int64_t total = 1;
  for (int64_t e : plan.reduced_extents) total *= e;
  std::vector<int64_t> point(attr.reduced.size(), 0);
  std::vector<Value> element(plan.components.size());
  for (int64_t at = 0; at < total; at += lanes) {
    const int n = int(std::min<int64_t>(lanes, total - at));
    for (int k = 0; k < n; ++k) {
      for (size_t d = 0; d < point.size(); ++d) r.index(IndexRegister(attr.reduced[d]))[k] = point[d];
      for (size_t d = point.size(); d-- > 0;) {
        if (++point[d] < plan.reduced_extents[d]) break;
        point[d] = 0;
      }
    }
    run(program, r, n);
    const uint8_t* where = r.mask(program.where);
    if (!where && element.size() == 1) {
      accumulator.add_lanes(r.value(program.results[0]), n);
      continue;
    }
    for (int k = 0; k < n; ++k) {
      if (where && !where[k]) continue;
      for (size_t c = 0; c < element.size(); ++c) element[c] = r.value(program.results[c])[k];
      accumulator.add(element.data());
    }
  }
  // Components with the same axes come along.
  for (size_t c = 0; c < plan.components.size(); ++c) {
    const int component = plan.components[c];
    if (component != s.result && f_.fold_plan({s.node, component}).axes != plan.axes) continue;
    Source other{s.node, component};
    Store& kept = store(other);
    if (kept.state == Store::State::untouched) {
      kept.values.resize(size_t(f_.count(other)));
      kept.done.assign(kept.values.size(), 0);
      kept.state = Store::State::partial;
    }
    if (kept.state != Store::State::partial) continue;
    kept.values[size_t(flat)] = accumulator.result(c);
    kept.done[size_t(flat)] = 1;
  }
}

template <class D> void Frame<D>::compute_scan(Source s, int64_t flat) {
  const auto& attr = std::get<ScanAttr>(f_.function()[s.node].attr);
  const auto& plan = f_.fold_plan(s);
  const Program& program = f_.body_program(s.node, plan.components);
  Accumulator<D> accumulator(plan.monoid);
  RegisterFile file(*this, program);
  const Registers& r = file.registers;
  const Extents& extents = f_.extents(s);
  std::vector<int64_t> point(extents.size());
  unflatten(flat, extents, point.data());
  const size_t along = size_t(std::find(plan.axes.begin(), plan.axes.end(), attr.axis) - plan.axes.begin());
  int64_t stride = 1;
  for (size_t d = along + 1; d < extents.size(); ++d) stride *= extents[d];
  const int64_t start = flat - point[along] * stride, length = extents[along];
  std::fill(r.indices, r.indices + ptrdiff_t(program.axes) * lanes, 0);
  for (size_t k = 0; k < plan.axes.size(); ++k)
    std::fill_n(r.index(IndexRegister(plan.axes[k])), lanes, point[k]);
  Store& kept = store(s);
  std::vector<Value> element(plan.components.size());
  for (int64_t at = 0; at < length; at += lanes) {
    const int n = int(std::min<int64_t>(lanes, length - at));
    auto position = [&](int64_t k) { return attr.reverse ? length - 1 - k : k; };
    for (int k = 0; k < n; ++k) r.index(IndexRegister(attr.axis))[k] = position(at + k);
    run(program, r, n);
    for (int k = 0; k < n; ++k) {
      const auto place = size_t(start + position(at + k) * stride);
      if (attr.exclusive) kept.values[place] = accumulator.result(element.size() - 1);
      for (size_t c = 0; c < element.size(); ++c) element[c] = r.value(program.results[c])[k];
      accumulator.add(element.data());
      if (!attr.exclusive) kept.values[place] = accumulator.result(element.size() - 1);
      kept.done[place] = 1;
    }
  }
}

template <class D> void Frame<D>::compute_sort(Source s, int64_t flat) {
  const Node& node = f_.function()[s.node];
  const auto& attr = std::get<SortAttr>(node.attr);
  const Extents& extents = f_.extents(s);
  std::vector<int64_t> point(extents.size());
  unflatten(flat, extents, point.data());
  int64_t stride = 1;
  for (size_t d = size_t(attr.axis) + 1; d < extents.size(); ++d) stride *= extents[d];
  const int64_t start = flat - point[size_t(attr.axis)] * stride, length = extents[size_t(attr.axis)];
  const DType type = node.types[0].dtype;
  Source keys_source = f_.resolve(node.inputs[0]);
  std::vector<Value> keys;
  for (int64_t k = 0; k < length; ++k) keys.push_back(element(keys_source, start + k * stride));
  std::vector<int64_t> order(static_cast<size_t>(length));
  std::iota(order.begin(), order.end(), 0);
  auto before = [&](int64_t a, int64_t b) {
    const Value &x = keys[size_t(a)], &y = keys[size_t(b)];
    if (!is_float(type)) {
      int64_t pair[2] = {x.i, y.i}, turned[2] = {y.i, x.i};
      if (type == DType::boolean) return attr.descending ? y.i < x.i : x.i < y.i;
      return apply_i64(Op::lt, type, attr.descending ? turned : pair) != 0;
    }
    const double p = D::f64(type, x), q = D::f64(type, y);
    if (std::isnan(p) || std::isnan(q))
      return !std::isnan(p) && std::isnan(q); // NaN is last in both directions
    return attr.descending ? q < p : p < q;
  };
  std::stable_sort(order.begin(), order.end(), before);
  bool uncertain = false;
  if constexpr (std::is_same_v<D, BoundedDomain>)
    for (size_t k = 0; k + 1 < order.size(); ++k) {
      const Value &x = keys[size_t(order[k])], &y = keys[size_t(order[k + 1])];
      uncertain |= (x.e > 0 || y.e > 0) && !(std::fabs(x.f - y.f) > x.e + y.e);
    }
  for (size_t input = 0; input < node.inputs.size(); ++input) {
    Source out{s.node, int(input)}, in = f_.resolve(node.inputs[input]);
    Store& kept = store(out);
    if (kept.state == Store::State::untouched) {
      kept.values.resize(size_t(f_.count(out)));
      kept.done.assign(kept.values.size(), 0);
      kept.state = Store::State::partial;
    }
    for (int64_t k = 0; k < length; ++k) {
      const auto place = size_t(start + k * stride);
      kept.values[place] =
          input == 0 ? keys[size_t(order[size_t(k)])] : element(in, start + order[size_t(k)] * stride);
      kept.done[place] = 1;
      if constexpr (std::is_same_v<D, BoundedDomain>)
        if (uncertain) kept.values[place].e = INFINITY;
    }
  }
}

template <class D> void Frame<D>::compute_scatter(Source s) {
  const Node& node = f_.function()[s.node];
  const auto& attr = std::get<ScatterAttr>(node.attr);
  const auto& [program, map] = f_.scatter_program(s.node);
  std::vector<Value> out = values(f_.resolve(node.inputs[0]));
  const Extents& target = f_.extents(s);
  const Extents space = f_.extents(f_.resolve(node.inputs[1]));
  int64_t total = 1;
  for (int64_t e : space) total *= e;
  RegisterFile file(*this, program);
  const Registers& r = file.registers;
  std::vector<int64_t> point(space.size());
  std::vector<uint8_t> written(attr.unique ? out.size() : 0, 0);
  for (int64_t at = 0; at < total; at += lanes) {
    const int n = int(std::min<int64_t>(lanes, total - at));
    for (int k = 0; k < n; ++k) {
      unflatten(at + k, space, point.data());
      for (size_t d = 0; d < point.size(); ++d) r.index(IndexRegister(d))[k] = point[d];
    }
    run(program, r, n);
    const uint8_t* where = r.mask(program.where);
    const Value* values_now = r.value(program.results[0]);
    for (int k = 0; k < n; ++k) {
      if (where && !where[k]) continue;
      int64_t place = 0;
      for (size_t d = 0; d < target.size(); ++d) place = place * target[d] + r.index(map[d])[k];
      Value& cell = out[size_t(place)];
      if (attr.unique && written[size_t(place)]++)
        fail(s.node, fmt::format("element {} is written twice, although unique is stated", place));
      if (!attr.op) {
        cell = values_now[k];
        continue;
      }
      const Value* args[2] = {&cell, &values_now[k]};
      Value sum;
      D::apply(*attr.op, node.types[0].dtype, 1, &sum, args);
      cell = sum;
    }
  }
  Store& kept = store(s);
  kept.values = std::move(out);
  kept.state = Store::State::whole;
}

} // namespace luminal::interp
