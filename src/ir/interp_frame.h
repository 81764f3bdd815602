// ir/interp_frame.h -- Frame, member by member; included by the one file of each domain.
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
  registers.index = reinterpret_cast<int64_t*>(start);
  registers.value = reinterpret_cast<Value*>(start + index);
  registers.mask = reinterpret_cast<uint8_t*>(start + index + value);
}
template <class D> Frame<D>::RegisterFile::~RegisterFile() { pool_.push_back(std::move(memory_)); }

template <class D> void Frame<D>::run(const Program& program, const Registers& r, int n) {
  for (const Instr& i : program.code) step(i, r, n);
}

template <class D> void Frame<D>::step(const Instr& i, const Registers& r, int n) {
  auto index = [&](int reg) { return r.index + ptrdiff_t(reg) * lanes; };
  auto value = [&](int reg) { return r.value + ptrdiff_t(reg) * lanes; };
  const uint8_t* mask = i.mask < 0 ? nullptr : r.mask + ptrdiff_t(i.mask) * lanes;
  auto live = [&](int k) { return !mask || mask[k]; };
  switch (i.kind) {
  case Instr::Kind::affine: {
    auto* out = reinterpret_cast<uint64_t*>(index(i.out));
    std::fill(out, out + n, uint64_t(i.offset));
    for (size_t a = 0; a < i.args.size(); ++a) {
      const int64_t* x = index(i.args[a]);
      const auto weight = uint64_t(i.weights[a]);
      for (int k = 0; k < n; ++k) out[k] += uint64_t(x[k]) * weight;
    }
    return;
  }
  case Instr::Kind::general: {
    int64_t* out = index(i.out);
    int64_t few[16];
    std::vector<int64_t> many(i.args.size() > 16 ? i.args.size() : 0);
    int64_t* slots = many.empty() ? few : many.data();
    for (int k = 0; k < n; ++k) {
      if (!live(k)) {
        out[k] = 0;
        continue;
      }
      for (size_t a = 0; a < i.args.size(); ++a) slots[a] = index(i.args[a])[k];
      std::span<const int64_t> given(slots, i.args.size());
      if (!i.expr->run(given, {out + k, 1})) fail(i.node, i.expr->why(given));
    }
    return;
  }
  case Instr::Kind::check: {
    const int64_t* x = index(i.args[0]);
    for (int k = 0; k < n; ++k)
      if (live(k) && uint64_t(x[k]) >= uint64_t(i.offset))
        fail(i.node, fmt::format("reads index {} of axis {}, whose extent is {}", x[k], i.axis, i.offset));
    return;
  }
  case Instr::Kind::condition: {
    const int64_t* x = index(i.args[0]);
    uint8_t* out = r.mask + ptrdiff_t(i.mask_out) * lanes;
    for (int k = 0; k < n; ++k) out[k] = live(k) && x[k] != 0;
    return;
  }
  case Instr::Kind::load: {
    int64_t flat[lanes];
    std::fill(flat, flat + n, 0);
    for (size_t a = 0; a < i.args.size(); ++a) {
      const int64_t* x = index(i.args[a]);
      const auto weight = uint64_t(i.weights[a]);
      for (int k = 0; k < n; ++k)
        flat[k] = int64_t(uint64_t(flat[k]) + uint64_t(x[k]) * weight); // lanes that do not count may wrap
    }
    fetch(i.source, flat, mask, n, value(i.out));
    return;
  }
  case Instr::Kind::constant:
  case Instr::Kind::iota: {
    const int64_t* x = index(i.args[0]);
    Value* out = value(i.out);
    for (int k = 0; k < n; ++k) out[k] = D::cast(DType::i64, i.result, D::from_i64(x[k]));
    return;
  }
  case Instr::Kind::random: {
    const int64_t* x = index(i.args[0]);
    Value* out = value(i.out);
    for (int k = 0; k < n; ++k) {
      uint32_t word =
          random_word(x[k], {uint32_t(value(i.values[0])[k].i), uint32_t(value(i.values[1])[k].i)});
      out[k] = i.result == DType::u32 ? D::from_i64(word) : D::from_f64(i.result, random_uniform(word));
    }
    return;
  }
  case Instr::Kind::map: {
    const Value* args[3] = {};
    for (size_t a = 0; a < i.values.size(); ++a) args[a] = value(i.values[a]);
    if (i.user)
      D::apply(*i.user, i.type, size_t(n), value(i.out), args);
    else
      D::apply(i.op, i.type, size_t(n), value(i.out), args);
    return;
  }
  case Instr::Kind::cast: {
    const Value* x = value(i.values[0]);
    Value* out = value(i.out);
    for (int k = 0; k < n; ++k) out[k] = D::cast(i.type, i.result, x[k]);
    return;
  }
  case Instr::Kind::bits:
  case Instr::Kind::split:
  case Instr::Kind::merge: {
    Value* out = value(i.out);
    const int width = bits(i.type), wide = bits(i.result);
    for (int k = 0; k < n; ++k) {
      uint64_t pattern = 0;
      for (size_t part = 0; part < i.values.size(); ++part) {
        std::byte bytes[8] = {};
        const Value& x = value(i.values[part])[k];
        if (is_float(i.type))
          store_f64(i.type, bytes, 0, D::f64(i.type, x));
        else
          store_i64(i.type, bytes, 0, x.i);
        uint64_t piece = std::bit_cast<uint64_t>(bytes);
        pattern |= piece << (part * size_t(width) % 64);
      }
      if (i.kind == Instr::Kind::split) pattern >>= index(i.args[0])[k] * wide;
      if (wide < 64) pattern &= (uint64_t(1) << wide) - 1;
      auto bytes = std::bit_cast<std::array<std::byte, 8>>(pattern);
      out[k] = D::load(i.result, bytes.data(), 0);
      if constexpr (std::is_same_v<D, BoundedDomain>)
        for (int x : i.values) // nobody says which sign and payload a NaN has
          if (D::uncertain(value(x)[k]) || std::isnan(value(x)[k].f)) out[k].e = INFINITY;
    }
    return;
  }
  case Instr::Kind::fill: {
    const Value* x = value(i.values[0]);
    Value* out = value(i.out);
    const Value filler = D::from_f64(i.result, i.number);
    for (int k = 0; k < n; ++k) out[k] = live(k) ? x[k] : filler;
    return;
  }
  case Instr::Kind::hole: {
    const Value* x = value(i.values[0]);
    int64_t* out = index(i.out);
    uint8_t* inside = i.mask_out < 0 ? nullptr : r.mask + ptrdiff_t(i.mask_out) * lanes;
    for (int k = 0; k < n; ++k) {
      int64_t v = x[k].i;
      if (i.type == DType::u64 && v < 0) v = INT64_MAX;
      const bool good = i.hole->range.contains(v) && (i.offset == INT64_MAX || (v >= 0 && v < i.offset));
      if (inside) inside[k] = live(k) && good;
      if (!good && live(k) && i.hole->policy == OutOfRange::error)
        fail(i.node, fmt::format("an index of {} is outside {}..{}", v, i.hole->range.low,
                                 std::min(i.hole->range.high, i.offset - 1)));
      v = std::clamp(v, i.hole->range.low, i.hole->range.high);
      if (i.offset != INT64_MAX) v = std::max<int64_t>(0, std::min(v, i.offset - 1));
      out[k] = live(k) ? v : i.hole->range.low;
    }
    return;
  }
  case Instr::Kind::taint: {
    const Value* x = value(i.values[0]);
    Value* out = value(i.out);
    std::copy(x, x + n, out);
    if constexpr (std::is_same_v<D, BoundedDomain>)
      for (size_t h = 1; h < i.values.size(); ++h)
        for (int k = 0; k < n; ++k)
          if (D::uncertain(value(i.values[h])[k])) out[k].e = INFINITY;
    return;
  }
  }
}

template <class D> void Frame<D>::compute_values(Source s, const int64_t* flat, int n) {
  const Program& program = f_.value_program(s.node);
  const Extents& extents = f_.extents(s);
  RegisterFile file(*this, program);
  std::vector<int64_t> point(extents.size());
  for (int k = 0; k < n; ++k) {
    unflatten(flat[k], extents, point.data());
    for (size_t d = 0; d < point.size(); ++d) file.registers.index[ptrdiff_t(d) * lanes + k] = point[d];
  }
  run(program, file.registers, n);
  Store& kept = store(s);
  const Value* out = file.registers.value + ptrdiff_t(program.results[0]) * lanes;
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
  std::fill(r.index, r.index + ptrdiff_t(program.axes) * lanes, 0);
  for (size_t k = 0; k < plan.axes.size(); ++k)
    std::fill_n(r.index + ptrdiff_t(plan.axes[k]) * lanes, lanes, outer[k]);
  int64_t total = 1;
  for (int64_t e : plan.reduced_extents) total *= e;
  std::vector<int64_t> point(attr.reduced.size(), 0);
  std::vector<Value> element(plan.components.size());
  for (int64_t at = 0; at < total; at += lanes) {
    const int n = int(std::min<int64_t>(lanes, total - at));
    for (int k = 0; k < n; ++k) {
      for (size_t d = 0; d < point.size(); ++d) r.index[ptrdiff_t(attr.reduced[d]) * lanes + k] = point[d];
      for (size_t d = point.size(); d-- > 0;) {
        if (++point[d] < plan.reduced_extents[d]) break;
        point[d] = 0;
      }
    }
    run(program, r, n);
    const uint8_t* where = program.where < 0 ? nullptr : r.mask + ptrdiff_t(program.where) * lanes;
    if (!where && element.size() == 1) {
      accumulator.add_lanes(r.value + ptrdiff_t(program.results[0]) * lanes, n);
      continue;
    }
    for (int k = 0; k < n; ++k) {
      if (where && !where[k]) continue;
      for (size_t c = 0; c < element.size(); ++c)
        element[c] = r.value[ptrdiff_t(program.results[c]) * lanes + k];
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
  std::fill(r.index, r.index + ptrdiff_t(program.axes) * lanes, 0);
  for (size_t k = 0; k < plan.axes.size(); ++k)
    std::fill_n(r.index + ptrdiff_t(plan.axes[k]) * lanes, lanes, point[k]);
  Store& kept = store(s);
  std::vector<Value> element(plan.components.size());
  for (int64_t at = 0; at < length; at += lanes) {
    const int n = int(std::min<int64_t>(lanes, length - at));
    auto position = [&](int64_t k) { return attr.reverse ? length - 1 - k : k; };
    for (int k = 0; k < n; ++k) r.index[ptrdiff_t(attr.axis) * lanes + k] = position(at + k);
    run(program, r, n);
    for (int k = 0; k < n; ++k) {
      const auto place = size_t(start + position(at + k) * stride);
      if (attr.exclusive) kept.values[place] = accumulator.result(element.size() - 1);
      for (size_t c = 0; c < element.size(); ++c)
        element[c] = r.value[ptrdiff_t(program.results[c]) * lanes + k];
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
      for (size_t d = 0; d < point.size(); ++d) r.index[ptrdiff_t(d) * lanes + k] = point[d];
    }
    run(program, r, n);
    const uint8_t* where = program.where < 0 ? nullptr : r.mask + ptrdiff_t(program.where) * lanes;
    const Value* values_now = r.value + ptrdiff_t(program.results[0]) * lanes;
    for (int k = 0; k < n; ++k) {
      if (where && !where[k]) continue;
      int64_t place = 0;
      for (size_t d = 0; d < target.size(); ++d)
        place = place * target[d] + r.index[ptrdiff_t(map[d]) * lanes + k];
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

// ---- functions ----

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
