// ir/interp_step.h -- how Frame runs a program over lanes, instruction by instruction.
#pragma once
#include "ir/interp_engine.h"
#include <algorithm>
#include <fmt/format.h>

namespace luminal::interp {

template <class D> void Frame<D>::run(const Program& program, const Registers& r, int n) {
  for (const Instruction& i : program.code) std::visit([&](const auto& kind) { step(kind, r, n); }, i);
}

template <class D> void Frame<D>::step(const AffineIndex& i, const Registers& r, int n) {
  auto* out = reinterpret_cast<uint64_t*>(r.index(i.out));
  std::fill(out, out + n, uint64_t(i.constant));
  for (size_t a = 0; a < i.args.size(); ++a) {
    const int64_t* x = r.index(i.args[a]);
    const auto weight = uint64_t(i.weights[a]);
    for (int k = 0; k < n; ++k) out[k] += uint64_t(x[k]) * weight;
  }
}
template <class D> void Frame<D>::step(const GeneralIndex& i, const Registers& r, int n) {
  const uint8_t* mask = r.mask(i.mask);
  int64_t* out = r.index(i.out);
  int64_t few[16];
  std::vector<int64_t> many(i.args.size() > 16 ? i.args.size() : 0);
  int64_t* slots = many.empty() ? few : many.data();
  for (int k = 0; k < n; ++k) {
    if (mask && !mask[k]) {
      out[k] = 0;
      continue;
    }
    for (size_t a = 0; a < i.args.size(); ++a) slots[a] = r.index(i.args[a])[k];
    std::span<const int64_t> given(slots, i.args.size());
    if (!i.expr.run(given, {out + k, 1})) fail(i.node, i.expr.why(given));
  }
}
template <class D> void Frame<D>::step(const CheckBounds& i, const Registers& r, int n) {
  const uint8_t* mask = r.mask(i.mask);
  const int64_t* x = r.index(i.index);
  for (int k = 0; k < n; ++k)
    if ((!mask || mask[k]) && uint64_t(x[k]) >= uint64_t(i.extent))
      fail(i.node, fmt::format("reads index {} of axis {}, whose extent is {}", x[k], i.axis, i.extent));
}
template <class D> void Frame<D>::step(const NarrowMask& i, const Registers& r, int n) {
  const uint8_t* mask = r.mask(i.mask);
  const int64_t* x = r.index(i.condition);
  uint8_t* out = r.mask(i.out);
  for (int k = 0; k < n; ++k) out[k] = (!mask || mask[k]) && x[k] != 0;
}
template <class D> void Frame<D>::step(const LoadValue& i, const Registers& r, int n) {
  int64_t flat[lanes];
  std::fill(flat, flat + n, 0);
  for (size_t a = 0; a < i.args.size(); ++a) {
    const int64_t* x = r.index(i.args[a]);
    const auto stride = uint64_t(i.strides[a]);
    for (int k = 0; k < n; ++k)
      flat[k] = int64_t(uint64_t(flat[k]) + uint64_t(x[k]) * stride); // lanes that do not count may wrap
  }
  fetch(i.source, flat, r.mask(i.mask), n, r.value(i.out));
}
template <class D> void Frame<D>::step(const IndexValue& i, const Registers& r, int n) {
  const int64_t* x = r.index(i.index);
  Value* out = r.value(i.out);
  for (int k = 0; k < n; ++k) out[k] = D::cast(DType::i64, i.type, D::from_i64(x[k]));
}
template <class D> void Frame<D>::step(const RandomValue& i, const Registers& r, int n) {
  const int64_t* x = r.index(i.counter);
  const Value *low = r.value(i.key[0]), *high = r.value(i.key[1]);
  Value* out = r.value(i.out);
  for (int k = 0; k < n; ++k) {
    const uint32_t word = random_word(x[k], {uint32_t(low[k].i), uint32_t(high[k].i)});
    out[k] = i.type == DType::u32 ? D::from_i64(word) : D::from_f64(i.type, random_uniform(word));
  }
}
template <class D> void Frame<D>::step(const MapValues& i, const Registers& r, int n) {
  const Value* args[3] = {};
  for (size_t a = 0; a < i.args.size(); ++a) args[a] = r.value(i.args[a]);
  if (i.user)
    D::apply(*i.user, i.type, size_t(n), r.value(i.out), args);
  else
    D::apply(i.op, i.type, size_t(n), r.value(i.out), args);
}
template <class D> void Frame<D>::step(const CastValue& i, const Registers& r, int n) {
  const Value* x = r.value(i.x);
  Value* out = r.value(i.out);
  for (int k = 0; k < n; ++k) out[k] = D::cast(i.from, i.to, x[k]);
}
template <class D> void Frame<D>::step(const BitcastValues& i, const Registers& r, int n) {
  Value* out = r.value(i.out);
  const int width = bits(i.from), wide = bits(i.to);
  for (int k = 0; k < n; ++k) {
    uint64_t pattern = 0;
    for (size_t part = 0; part < i.parts.size(); ++part) {
      std::byte bytes[8] = {};
      const Value& x = r.value(i.parts[part])[k];
      if (is_float(i.from))
        store_f64(i.from, bytes, 0, D::f64(i.from, x));
      else
        store_i64(i.from, bytes, 0, x.i);
      uint64_t piece = std::bit_cast<uint64_t>(bytes);
      pattern |= piece << (part * size_t(width) % 64);
    }
    if (i.part) pattern >>= r.index(*i.part)[k] * wide;
    if (wide < 64) pattern &= (uint64_t(1) << wide) - 1;
    auto bytes = std::bit_cast<std::array<std::byte, 8>>(pattern);
    out[k] = D::load(i.to, bytes.data(), 0);
    if constexpr (std::is_same_v<D, BoundedDomain>)
      for (ValueRegister x : i.parts) // nobody says which sign and payload a NaN has
        if (D::uncertain(r.value(x)[k]) || std::isnan(r.value(x)[k].f)) out[k].e = INFINITY;
  }
}
template <class D> void Frame<D>::step(const FillValue& i, const Registers& r, int n) {
  const uint8_t* mask = r.mask(i.mask);
  const Value* x = r.value(i.x);
  Value* out = r.value(i.out);
  const Value filler = D::from_f64(i.type, i.number);
  for (int k = 0; k < n; ++k) out[k] = !mask || mask[k] ? x[k] : filler;
}
template <class D> void Frame<D>::step(const OpenHole& i, const Registers& r, int n) {
  const uint8_t* mask = r.mask(i.mask);
  const Value* x = r.value(i.x);
  int64_t* out = r.index(i.out);
  uint8_t* inside = i.inside ? r.mask(*i.inside) : nullptr;
  const Interval range = i.hole->range;
  for (int k = 0; k < n; ++k) {
    const bool live = !mask || mask[k];
    int64_t v = x[k].i;
    if (i.type == DType::u64 && v < 0) v = INT64_MAX;
    const bool good = range.contains(v) && (i.extent == INT64_MAX || (v >= 0 && v < i.extent));
    if (inside) inside[k] = live && good;
    if (!good && live && i.hole->policy == OutOfRange::error)
      fail(i.node,
           fmt::format("an index of {} is outside {}..{}", v, range.low, std::min(range.high, i.extent - 1)));
    v = std::clamp(v, range.low, range.high);
    if (i.extent != INT64_MAX) v = std::max<int64_t>(0, std::min(v, i.extent - 1));
    out[k] = live ? v : range.low;
  }
}
template <class D> void Frame<D>::step(const TaintValue& i, const Registers& r, int n) {
  const Value* x = r.value(i.x);
  Value* out = r.value(i.out);
  std::copy(x, x + n, out);
  if constexpr (std::is_same_v<D, BoundedDomain>)
    for (ValueRegister hole : i.holes)
      for (int k = 0; k < n; ++k)
        if (D::uncertain(r.value(hole)[k])) out[k].e = INFINITY;
}

} // namespace luminal::interp
